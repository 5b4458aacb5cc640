// SPDX-License-Identifier: GPL-2.0
/*
 * port.c - a master port: what the kernel's RapidIO subsystem sees of it, and the thread that plays
 * its interrupts. The thread is of real-time priority, as an interrupt comes before a process.
 *
 * Tests: vm/vmport.sh
 */
#include <linux/dma-mapping.h>
#include <linux/math64.h>
#include <linux/sched.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "vmport_int.h"

static DEFINE_SPINLOCK(time_lock);

static u64 duration(u64 bandwidth, u32 bytes)
{
	return bandwidth ? div64_u64((u64)bytes * NSEC_PER_SEC, bandwidth) : 0;
}

/*
 * Takes the links of both ports (to may be NULL) for so many bytes, not before earliest. Returns
 * when the last byte has left, to which the caller adds latency: what the links had to do before comes
 * first. Any context.
 */
ktime_t vmport_reserve(struct vmport_port *from, struct vmport_port *to, u32 bytes,
		       ktime_t earliest)
{
	u64 out = READ_ONCE(from->set.bandwidth), in = to ? READ_ONCE(to->set.bandwidth) : 0;
	ktime_t end = earliest;
	unsigned long flags;

	if (out || in) {
		spin_lock_irqsave(&time_lock, flags);
		if (out && ktime_after(from->tx_free, end))
			end = from->tx_free;
		if (in && ktime_after(to->rx_free, end))
			end = to->rx_free;
		end = ktime_add_ns(end, max(duration(out, bytes), duration(in, bytes)));
		if (out)
			from->tx_free = end;
		if (in)
			to->rx_free = end;
		spin_unlock_irqrestore(&time_lock, flags);
	}
	return end;
}

/*
 * The same for a doorbell or a message, from now on. Transfers have the link one after the other, however late
 * their threads are (dma.c): while one is there, what is sent goes between its packets, and takes no time from
 * it but its own, also when the thread is late and the link looks free.
 */
ktime_t vmport_reserve_send(struct vmport_port *p, u32 bytes, ktime_t now)
{
	u64 took = duration(READ_ONCE(p->set.bandwidth), bytes);
	unsigned long flags;
	ktime_t end = now;

	if (took) {
		spin_lock_irqsave(&time_lock, flags);
		if (ktime_after(p->tx_free, end))
			end = p->tx_free;
		if (ktime_after(p->send_free, end))
			end = p->send_free;
		end = ktime_add_ns(end, took);
		p->send_free = end;
		p->tx_free = atomic_read(&p->transfers) ? ktime_add_ns(p->tx_free, took) : end;
		spin_unlock_irqrestore(&time_lock, flags);
	}
	return end;
}

/* The caller has set its state; it is woken at t, or before by whoever has something for it. */
void vmport_sleep_until(ktime_t t)
{
	if (t == KTIME_MAX)
		schedule();
	else
		schedule_hrtimeout_range(&t, 0, HRTIMER_MODE_ABS);
	__set_current_state(TASK_RUNNING);
}

void vmport_wake(struct vmport_port *p)
{
	struct task_struct *thread = READ_ONCE(p->thread);

	/* Before the wake-up, which is a barrier: the thread looks at it once more before it sleeps. */
	WRITE_ONCE(p->kicked, true);
	if (thread)
		wake_up_process(thread);
}

static int port_thread(void *data)
{
	struct vmport_port *p = data;
	ktime_t next;

	sched_set_fifo_low(current);
	while (!kthread_should_stop()) {
		if (kthread_should_park())
			kthread_parkme();
		WRITE_ONCE(p->kicked, false);
		smp_mb(); /* kicked before what it stands for */
		vmport_receive_run(p);
		next = vmport_send_run(p);
		set_current_state(TASK_IDLE);
		if (kthread_should_stop() || kthread_should_park() || READ_ONCE(p->kicked))
			__set_current_state(TASK_RUNNING);
		else
			vmport_sleep_until(next);
	}
	return 0;
}

/* ---- rio_ops ------------------------------------------------------------------------------------- */

static int local_read(struct rio_mport *mport, int index, u32 offset, int len, u32 *data)
{
	if (len != 4 || offset & 3)
		return -EINVAL;
	*data = vmport_endpoint_read(mport->priv, offset);
	return 0;
}

static int local_write(struct rio_mport *mport, int index, u32 offset, int len, u32 data)
{
	if (len != 4 || offset & 3)
		return -EINVAL;
	vmport_endpoint_write(mport->priv, offset, data);
	return 0;
}

static int enable_port_writes(struct rio_mport *mport, int enable)
{
	struct vmport_port *p = mport->priv;

	WRITE_ONCE(p->port_write, enable);
	return 0;
}

static int query(struct rio_mport *mport, struct rio_mport_attr *attr)
{
	struct vmport_port *p = mport->priv;

	memset(attr, 0, sizeof(*attr));
	attr->flags = RIO_MPORT_DMA | RIO_MPORT_DMA_SG;
	attr->link_speed = READ_ONCE(p->link) ? RIO_LINK_500 : RIO_LINK_DOWN;
	attr->link_width = RIO_LINK_4X;
	attr->dma_max_size = INT_MAX & PAGE_MASK;
	return 0;
}

static struct rio_ops vmport_ops = {
	.lcread = local_read,
	.lcwrite = local_write,
	.cread = vmport_maint_read,
	.cwrite = vmport_maint_write,
	.dsend = vmport_doorbell,
	.pwenable = enable_port_writes,
	.open_outb_mbox = vmport_open_outbox,
	.close_outb_mbox = vmport_close_outbox,
	.open_inb_mbox = vmport_open_inbox,
	.close_inb_mbox = vmport_close_inbox,
	.add_outb_message = vmport_add_message,
	.add_inb_buffer = vmport_add_buffer,
	.get_inb_message = vmport_get_message,
	.map_inb = vmport_map_inbound,
	.unmap_inb = vmport_unmap_inbound,
	.query_mport = query,
	.map_outb = vmport_map_outbound,
	.unmap_outb = vmport_unmap_outbound,
};

/* ---- from load to unload ------------------------------------------------------------------------- */

static void port_released(struct device *dev)
{
	struct vmport_port *p = to_rio_mport(dev)->priv;

	complete(&p->released);
}

static struct platform_device *device_new(unsigned int index)
{
	struct platform_device *pdev = platform_device_alloc("vmport", index);
	int ret;

	if (!pdev)
		return ERR_PTR(-ENOMEM);
	ret = platform_device_add(pdev);
	if (ret) {
		platform_device_put(pdev);
		return ERR_PTR(ret);
	}
	/* Its transfers are the processor's own. */
#if defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_DEVICE) || defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_CPU) ||   \
	defined(CONFIG_ARCH_HAS_SYNC_DMA_FOR_CPU_ALL)
	pdev->dev.dma_coherent = true;
#endif
	ret = dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (ret) {
		platform_device_unregister(pdev);
		return ERR_PTR(ret);
	}
	return pdev;
}

static int has_id(struct device *dev, const void *id)
{
	return to_rio_mport(dev)->id == *(const unsigned int *)id;
}

/*
 * The kernel numbers ports from 0 for as long as it runs (rapidio can't be unloaded) and has no more
 * after the eighth. Numbers of ports that are gone are free again here: the lowest is taken.
 */
static int number_mport(struct vmport_port *p)
{
	struct rio_mport *mport = &p->mport;
	struct device *other;
	unsigned int id, i;
	int ret = rio_mport_initialize(mport);

	if (ret) {
		atomic_set(&mport->state, RIO_DEVICE_INITIALIZING);
		mport->host_deviceid = -1;
		mutex_init(&mport->lock);
		INIT_LIST_HEAD(&mport->pwrites);
	}
	for (id = 0; id < RIO_MAX_MPORTS; id++) {
		bool used = false;

		for (i = 0; i < vmport_count; i++)
			used |= vmport_ports[i] != p && vmport_ports[i]->mport.id == id;
		other = class_find_device(&rio_mport_class, NULL, &id, has_id);
		if (!used && !other)
			break;
		put_device(other);
	}
	if (id == RIO_MAX_MPORTS)
		return -ENODEV;
	mport->id = id;
	if (p->index < vmport_hdid_count)
		mport->host_deviceid = vmport_hdid[p->index];
	return 0;
}

static int setup_mport(struct vmport_port *p)
{
	struct rio_mport *mport = &p->mport;
	int ret = number_mport(p);

	if (ret)
		return ret;
	mport->ops = &vmport_ops;
	mport->index = 0;
	mport->sys_size = vmport_sys_size;
	mport->priv = p;
	mport->phys_efptr = 0x100;
	mport->phys_rmap = 1;
	mport->dev.parent = &p->pdev->dev;
	mport->dev.release = port_released;
	mport->dev.groups = vmport_port_groups;
	INIT_LIST_HEAD(&mport->dbells);
	rio_init_dbell_res(&mport->riores[RIO_DOORBELL_RESOURCE], 0, 0xffff);
	rio_init_mbox_res(&mport->riores[RIO_INB_MBOX_RESOURCE], 0, RIO_MAX_MBOX - 1);
	rio_init_mbox_res(&mport->riores[RIO_OUTB_MBOX_RESOURCE], 0, RIO_MAX_MBOX - 1);
	snprintf(mport->name, sizeof(mport->name), "vmport(%s)", dev_name(&p->pdev->dev));
	return 0;
}

/* A port that is not known to the kernel yet, and whose thread is parked: the driver (main.c) registers it. */
struct vmport_port *vmport_port_new(unsigned int index)
{
	struct vmport_port *p = kvzalloc(sizeof(*p), GFP_KERNEL);
	struct task_struct *thread;
	int ret;

	if (!p)
		return ERR_PTR(-ENOMEM);
	p->index = index;
	p->link = true;
	p->set.doorbell_limit = 512;
	p->set.swrite = VMPORT_SWRITE_AUTO;
	init_completion(&p->released);
	spin_lock_init(&p->regs_lock);
	rwlock_init(&p->window_lock);
	spin_lock_init(&p->request_lock);
	vmport_send_init(p);
	vmport_receive_init(p);
	p->pdev = device_new(index);
	if (IS_ERR(p->pdev)) {
		ret = PTR_ERR(p->pdev);
		goto err_free;
	}
	ret = setup_mport(p);
	if (ret)
		goto err_device;
	vmport_endpoint_clear(p);
	ret = vmport_dma_init(p);
	if (ret)
		goto err_device;
	ret = vmport_outbound_init(p);
	if (ret)
		goto err_dma;
	thread = kthread_create(port_thread, p, "vmport%u", index);
	if (IS_ERR(thread)) {
		ret = PTR_ERR(thread);
		goto err_outbound;
	}
	get_task_struct(thread);
	WRITE_ONCE(p->thread, thread);
	kthread_park(thread);
	return p;

err_outbound:
	vmport_outbound_exit(p);
err_dma:
	vmport_dma_exit(p);
err_device:
	platform_device_unregister(p->pdev);
err_free:
	kvfree(p);
	return ERR_PTR(ret);
}

/* Doorbell ranges that a client did not give back; rio_mport_cdev does not when a file is closed. */
static void forget_doorbells(struct rio_mport *mport)
{
	struct rio_dbell *dbell, *next;

	list_for_each_entry_safe(dbell, next, &mport->dbells, node)
	{
		list_del(&dbell->node);
		release_resource(dbell->res);
		kfree(dbell->res);
		kfree(dbell);
	}
}

/* Its clients let go of it, and what they leave behind is lost: the link is cut, and the thread does nothing more. */
void vmport_port_unregister(struct vmport_port *p)
{
	if (p->registered) {
		rio_unregister_mport(&p->mport);
		wait_for_completion(&p->released);
		p->registered = false;
	}
	p->taken = true;
	/* the host does not hear of it: nobody has cut a cable */
	p->link_then = xchg(&p->link, false);
	vmport_dma_unregister(p);
	vmport_outbound_stop(p);
	vmport_windows_clear(p);
	vmport_send_drop(p);
	vmport_receive_drop(p);
	WRITE_ONCE(p->port_write, false);
	cancel_work_sync(&p->port_write_work);
	kthread_park(p->thread);
	forget_doorbells(&p->mport);
}

/*
 * The first time with the number that all ports got before, later as a new one, which is the same if no other has
 * taken it. The registers are as they were: where the switch's routes are, too, the port has its device ID again.
 */
int vmport_port_register(struct vmport_port *p)
{
	int ret = 0;

	if (p->taken) {
		memset(&p->mport, 0, sizeof(p->mport));
		ret = setup_mport(p);
		if (ret)
			return ret;
		/* as the kernel has it of a port that it has discovered */
		if (p->control & RIO_PORT_GEN_DISCOVERED && p->mport.host_deviceid < 0)
			p->mport.host_deviceid = vmport_device_id(p);
		reinit_completion(&p->released);
	}
	kthread_unpark(p->thread);
	ret = vmport_dma_register(p);
	if (!ret)
		ret = rio_register_mport(&p->mport);
	p->registered = !ret;
	if (ret)
		vmport_port_unregister(p);
	else if (p->taken)
		WRITE_ONCE(p->link, p->link_then);
	return ret;
}

/* After this it sends nothing. The thread's memory stays, since others may still wake it. */
void vmport_port_stop(struct vmport_port *p)
{
	kthread_stop(p->thread);
}

/* Nobody else sends to it any more. */
void vmport_port_free(struct vmport_port *p)
{
	put_task_struct(p->thread);
	vmport_outbound_exit(p);
	vmport_dma_exit(p);
	platform_device_unregister(p->pdev);
	kvfree(p);
}

/*
 * As when the board was reset: what is under way is lost and DMA transfers fail. hard: its registers
 * and windows are as at the start, so it must be enumerated and its windows mapped anew.
 */
void vmport_port_reset(struct vmport_port *p, bool hard)
{
	vmport_stat(p, resets);
	vmport_link_set(p, false);
	vmport_send_drop(p);
	vmport_receive_drop(p);
	vmport_dma_abort(p);
	if (hard) {
		vmport_windows_clear(p);
		vmport_endpoint_clear(p);
	}
	vmport_link_set(p, true);
}
