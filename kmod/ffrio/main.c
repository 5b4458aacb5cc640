// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - parameters, load and unload, and the master ports that the kernel has or gets: each becomes
 * a port of ours. See ../ffrio.h for the calls, docs/internals/ffrio.md for what goes over the link.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/log2.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/slab.h>

#include "../compat.h"
#include "ffrio_int.h"

unsigned int ffrio_block_size = 32768;
module_param_named(block_size, ffrio_block_size, uint, 0444);
MODULE_PARM_DESC(block_size, "bytes of data in a block, a power of two from 16 to 1048576");
unsigned int ffrio_smb_count = 32;
module_param_named(smbs, ffrio_smb_count, uint, 0444);
MODULE_PARM_DESC(smbs, "send buffers of a port, 4 to 256");
unsigned int ffrio_rmb_count = 32;
module_param_named(rmbs, ffrio_rmb_count, uint, 0444);
MODULE_PARM_DESC(rmbs, "receive buffers of a port, 1 to 256");
unsigned int ffrio_quota;
module_param_named(endpoint_rmbs, ffrio_quota, uint, 0444);
MODULE_PARM_DESC(endpoint_rmbs, "receive buffers that an endpoint may hold; 0: three quarters");
unsigned int ffrio_channel_count = 2;
module_param_named(dma_channels, ffrio_channel_count, uint, 0444);
MODULE_PARM_DESC(dma_channels, "DMA channels of a port, 1 to 8");
unsigned int ffrio_ahead = 2;
module_param_named(ahead, ffrio_ahead, uint, 0644);
MODULE_PARM_DESC(ahead, "blocks that a sender asks for ahead of its copy");
/* Measured (docs/internals/ffrio.md): below this the wait for the receiver costs more than the copy. */
unsigned int ffrio_zero_copy = 524288;
module_param_named(zero_copy, ffrio_zero_copy, uint, 0644);
MODULE_PARM_DESC(zero_copy, "bytes from which on a send is from the program's pages; 0: never");
unsigned int ffrio_retry_ms = 20;
module_param_named(retry_ms, ffrio_retry_ms, uint, 0444);
MODULE_PARM_DESC(retry_ms, "until an unanswered doorbell is said again");
unsigned int ffrio_dead_ms = 2000;
module_param_named(dead_ms, ffrio_dead_ms, uint, 0444);
MODULE_PARM_DESC(dead_ms, "silence after which a peer is taken for dead");
bool ffrio_early_request = true;
module_param_named(early_request, ffrio_early_request, bool, 0644);
MODULE_PARM_DESC(early_request, "ask for a receive buffer before the copy");
bool ffrio_top_half = true;
module_param_named(top_half, ffrio_top_half, bool, 0644);
MODULE_PARM_DESC(top_half, "doorbells and ends of DMA where they are told, not by a work queue");
bool ffrio_use_semaphore;
module_param_named(semaphore, ffrio_use_semaphore, bool, 0644);
MODULE_PARM_DESC(semaphore, "senders wait by semaphores instead of completions");
bool ffrio_checksum = true;
module_param_named(checksum, ffrio_checksum, bool, 0644);
MODULE_PARM_DESC(checksum,
		 "a CRC-32C of each block; without, what writes lose silently is not noticed");

/* A master port of the kernel's, and ours there, or why there is none. */
struct master {
	struct list_head node;
	struct rio_mport *mport;
	struct ffrio_port *port; /* or an ERR_PTR() */
	char why[FFRIO_WHY_SIZE];
};

static LIST_HEAD(masters);
static DEFINE_MUTEX(masters_mutex);

static struct miscdevice ffrio_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ffrio",
	.fops = &ffrio_fops,
	.mode = 0600,
};

/* Call with masters_mutex held. */
static struct master *find(u32 id)
{
	struct master *m;

	list_for_each_entry(m, &masters, node) if (m->mport->id == id) return m;
	return NULL;
}

/* The port with a reference, or why there is none. */
struct ffrio_port *ffrio_port_get(u32 id)
{
	struct ffrio_port *port;
	struct master *m;

	mutex_lock(&masters_mutex);
	m = find(id);
	port = m ? m->port : ERR_PTR(-ENODEV);
	if (!IS_ERR(port))
		kref_get(&port->ref);
	mutex_unlock(&masters_mutex);
	return port;
}

/* /sys/class/rapidio_port/rapidioN/ffrio, which the log alone would not tell an operator for long. */
static ssize_t ffrio_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	struct master *m;
	ssize_t n = 0;

	mutex_lock(&masters_mutex);
	m = find(to_rio_mport(dev)->id);
	if (m)
		n = sysfs_emit(buf, "%s\n", IS_ERR(m->port) ? m->why : "ready");
	mutex_unlock(&masters_mutex);
	return n;
}
static DEVICE_ATTR_RO(ffrio);

/* Without a port there the module stays: another may come, and it may be another's parameters that are too large. */
static int add_mport(KMOD_CLASS_DEV(dev))
{
	struct master *m = kzalloc(sizeof(*m), GFP_KERNEL);

	if (!m)
		return -ENOMEM;
	m->mport = to_rio_mport(dev);
	m->port = ffrio_port_new(m->mport, m->why);
	if (IS_ERR(m->port))
		dev_err(dev, "no ffrio here: %s (error %ld)\n", m->why, PTR_ERR(m->port));
	mutex_lock(&masters_mutex);
	list_add_tail(&m->node, &masters);
	mutex_unlock(&masters_mutex);
	if (device_create_file(dev, &dev_attr_ffrio))
		dev_warn(dev, "no file that says whether ffrio is there\n");
	return 0;
}

static void remove_mport(KMOD_CLASS_DEV(dev))
{
	struct master *m;

	device_remove_file(dev, &dev_attr_ffrio);
	mutex_lock(&masters_mutex);
	m = find(to_rio_mport(dev)->id);
	if (m)
		list_del(&m->node);
	mutex_unlock(&masters_mutex);
	if (m && !IS_ERR(m->port))
		ffrio_port_end(m->port);
	kfree(m);
}

static struct class_interface ffrio_interface = {
	.class = &rio_mport_class,
	.add_dev = add_mport,
	.remove_dev = remove_mport,
};

static int __init ffrio_init(void)
{
	int ret;

	if (!is_power_of_2(ffrio_block_size) || ffrio_block_size < 16 ||
	    ffrio_block_size > 1U << FFRIO_BLOCK_MAX_SHIFT || ffrio_smb_count < 4 ||
	    ffrio_smb_count > FFRIO_BUFFERS || !ffrio_rmb_count ||
	    ffrio_rmb_count > FFRIO_BUFFERS || !ffrio_channel_count ||
	    ffrio_channel_count > FFRIO_CHANNELS || ffrio_retry_ms < 2 || ffrio_dead_ms < 10)
		return -EINVAL;
	if (!ffrio_quota)
		ffrio_quota = ffrio_rmb_count - ffrio_rmb_count / 4;
	ret = class_interface_register(&ffrio_interface);
	if (ret)
		return ret;
	ret = misc_register(&ffrio_device);
	if (ret)
		class_interface_unregister(&ffrio_interface);
	return ret;
}

static void __exit ffrio_exit(void)
{
	misc_deregister(&ffrio_device);
	class_interface_unregister(&ffrio_interface);
}

module_init(ffrio_init);
module_exit(ffrio_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("freeflow: messages and windows between RapidIO nodes");
MODULE_VERSION(__stringify(FFRIO_VERSION));
