// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - vmport.ko from load to unload: master ports in software, the switch between them, and
 * links to other kernels' switches. See vmport_int.h for who does what, docs/carriers/rapidio.md for its use.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/module.h>

#include "../compat.h"
#include "vmport_int.h"

static unsigned int ports = 2;
module_param(ports, uint, 0444);
MODULE_PARM_DESC(ports, "master ports (2, at most 8)");
static char *uplink[VMPORT_UPLINKS];
module_param_array(uplink, charp, &vmport_uplink_count, 0444);
MODULE_PARM_DESC(uplink,
		 "links to other kernels' switches: ADDRESS:PORT-ADDRESS:PORT,... (ours, its)");
int vmport_hdid[VMPORT_PORTS];
unsigned int vmport_hdid_count;
module_param_array_named(hdid, vmport_hdid, int, &vmport_hdid_count, 0444);
MODULE_PARM_DESC(hdid,
		 "device IDs of the ports that enumerate, -1: discovers (as rapidio's hdid says)");
unsigned int vmport_sys_size;
module_param_named(sys_size, vmport_sys_size, uint, 0444);
MODULE_PARM_DESC(sys_size, "0: 8-bit device IDs, 1: 16-bit");
unsigned int vmport_channel_count = 8;
module_param_named(dma_channels, vmport_channel_count, uint, 0444);
MODULE_PARM_DESC(dma_channels, "DMA channels of each port (8, at most 16)");
unsigned int vmport_descriptor_count = 64;
module_param_named(dma_descriptors, vmport_descriptor_count, uint, 0444);
MODULE_PARM_DESC(dma_descriptors, "transfers that a channel can hold (64)");
static unsigned int outbound_kb = 256;
module_param(outbound_kb, uint, 0444);
MODULE_PARM_DESC(outbound_kb, "KB of each port for outbound windows (256)");
unsigned int vmport_retry_us = 50;
module_param_named(retry_us, vmport_retry_us, uint, 0644);
MODULE_PARM_DESC(retry_us, "time from a RETRY to the next attempt");
unsigned int vmport_retry_ms = 10000;
module_param_named(retry_ms, vmport_retry_ms, uint, 0644);
MODULE_PARM_DESC(retry_ms, "time after which a doorbell or message is given up (10000; 0: never)");
unsigned int vmport_timeout_ms = 3000;
module_param_named(timeout_ms, vmport_timeout_ms, uint, 0644);
MODULE_PARM_DESC(timeout_ms, "time in which another kernel must answer (3000)");

unsigned int vmport_aperture_pages;
struct vmport_port *vmport_ports[VMPORT_PORTS];
unsigned int vmport_count;

/*
 * The driver of the boards, so to say: all ports are there before it is, since the kernel may enumerate at once when
 * it is told of the first. unbind takes a port away from the kernel's clients while they use it, as a board that is
 * pulled; bind gives it back.
 */
static int probe(struct platform_device *pdev)
{
	static DEFINE_MUTEX(one);
	int ret;

	mutex_lock(&one); /* two would take the same number */
	ret = vmport_port_register(vmport_ports[pdev->id]);
	mutex_unlock(&one);
	return ret;
}

static void vmport_remove(struct platform_device *pdev)
{
	vmport_port_unregister(vmport_ports[pdev->id]);
}
KMOD_PLATFORM_REMOVE(vmport_remove)

static struct platform_driver vmport_driver = {
	.driver = { .name = "vmport" },
	.probe = probe,
	.remove = kmod_platform_remove,
};
static bool driver_registered;

static int check_parameters(void)
{
	vmport_aperture_pages = DIV_ROUND_UP((u64)outbound_kb << 10, PAGE_SIZE);
	if (!ports || ports > VMPORT_PORTS || vmport_sys_size > 1 || !vmport_channel_count ||
	    vmport_channel_count > VMPORT_CHANNELS || !vmport_descriptor_count ||
	    vmport_descriptor_count > 4096 || !outbound_kb || outbound_kb > 4096 ||
	    !vmport_retry_us || !vmport_timeout_ms)
		return -EINVAL;
	return 0;
}

static void take_down(void)
{
	unsigned int i;

	if (driver_registered)
		platform_driver_unregister(&vmport_driver);
	for (i = 0; i < vmport_count; i++)
		vmport_port_stop(vmport_ports[i]);
	for (i = 0; i < vmport_uplink_count; i++)
		vmport_uplink_free(i);
	for (i = 0; i < vmport_count; i++)
		vmport_port_free(vmport_ports[i]);
	vmport_switch_exit();
}

static int __init vmport_init(void)
{
	unsigned int wanted = vmport_uplink_count, i;
	int ret = check_parameters();

	if (ret) {
		pr_err("a parameter is out of range\n");
		return ret;
	}
	vmport_uplink_count = 0;
	ret = vmport_switch_init();
	if (ret)
		return ret;
	for (i = 0; i < ports; i++) {
		struct vmport_port *p = vmport_port_new(i);

		if (IS_ERR(p)) {
			ret = PTR_ERR(p);
			goto err;
		}
		vmport_ports[vmport_count++] = p;
	}
	for (i = 0; i < wanted; i++) {
		ret = vmport_uplink_new(i, uplink[i]);
		if (ret)
			goto err;
		vmport_uplink_count++;
	}
	ret = platform_driver_register(&vmport_driver);
	if (ret)
		goto err;
	driver_registered = true;
	for (i = 0; i < ports && vmport_ports[i]->registered; i++)
		;
	if (i == ports)
		return 0;
	ret = -ENODEV; /* the kernel's log has why */
err:
	take_down();
	return ret;
}
module_init(vmport_init);

static void __exit vmport_exit(void)
{
	take_down();
}
module_exit(vmport_exit);

MODULE_DESCRIPTION("RapidIO master ports in software");
MODULE_LICENSE("GPL");
