// SPDX-License-Identifier: GPL-2.0
/*
 * file.c - /dev/ffrio: what opening, a call, poll(), mmap() and closing do. The other calls need FFRIO_BIND
 * first, which gives the file its port once.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/dma-mapping.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "../compat.h"
#include "ffrio_int.h"

static DEFINE_MUTEX(bind_mutex);

static int ffrio_open(struct inode *inode, struct file *filp)
{
	struct ffrio_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->tx_mutex);
	mutex_init(&file->rx_mutex);
	mutex_init(&file->windows_mutex);
	init_waitqueue_head(&file->wait);
	INIT_LIST_HEAD(&file->node);
	INIT_LIST_HEAD(&file->reaped);
	INIT_LIST_HEAD(&file->windows);
	file->rx_buffer = FFRIO_NO_BUFFER;
	filp->private_data = file;
	return nonseekable_open(inode, filp);
}

static int ffrio_release(struct inode *inode, struct file *filp)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = file->port;

	if (port) {
		ffrio_send_close(file);
		ffrio_recv_close(file);
		ffrio_windows_close(file);
		spin_lock_bh(&port->lock);
		list_del(&file->node);
		spin_unlock_bh(&port->lock);
		ffrio_port_put(port);
	}
	kfree(file);
	return 0;
}

/* ---- calls --------------------------------------------------------------------------------------- */

/* Call with bind_mutex held. */
static int bind(struct ffrio_file *file, struct ffrio_port *port, int endpoint)
{
	int ret;

	ffrio_enter(port);
	ret = port->gone ? -ENODEV : ffrio_rx_bind(&port->proto, endpoint);
	if (ret >= 0) {
		file->endpoint = ret;
		port->endpoint[ret] = file;
		list_add_tail(&file->node, &port->files);
		smp_store_release(&file->port, port); /* after all that a call looks at */
	}
	ffrio_leave(port);
	return ret;
}

static long ffrio_bind(struct ffrio_file *file, struct ffrio_bind *b)
{
	u32 theirs = b->version;
	struct ffrio_port *port;
	int ret;

	b->version = FFRIO_VERSION;
	if (theirs != FFRIO_VERSION)
		return -EPROTO;
	if (b->reserved || b->endpoint < -1 || b->endpoint >= FFRIO_ENDPOINTS)
		return -EINVAL;
	port = ffrio_port_get(b->port);
	if (IS_ERR(port))
		return PTR_ERR(port);
	mutex_lock(&bind_mutex);
	ret = file->port ? -EISCONN : bind(file, port, b->endpoint);
	mutex_unlock(&bind_mutex);
	if (ret < 0) {
		ffrio_port_put(port);
		return ret;
	}
	b->endpoint = ret;
	b->destid = (u16)rio_local_get_device_id(port->mport);
	b->block = ffrio_block_size;
	b->stride = port->stride;
	b->header = FFRIO_HEADER_SIZE;
	b->smbs = port->smbs;
	b->rmbs = port->proto.buffers;
	b->smb_offset = FFRIO_MMAP_SMB;
	b->rmb_offset = FFRIO_MMAP_RMB;
	b->smb_length = port->smb.size;
	b->rmb_length = port->rmb.size;
	return 0;
}

static long ffrio_get_stats(struct ffrio_stats *s)
{
	struct ffrio_port *port = ffrio_port_get(s->port);
	u32 n = min_t(u32, s->count, FFRIO_STAT_COUNT), i;
	u64 *values;
	long ret = 0;

	if (IS_ERR(port))
		return PTR_ERR(port);
	values = kcalloc(FFRIO_STAT_COUNT, sizeof(*values), GFP_KERNEL);
	if (!values) {
		ffrio_port_put(port);
		return -ENOMEM;
	}
	spin_lock_bh(&port->lock);
	memcpy(values, port->proto.stats, sizeof(port->proto.stats));
	s->rmbs_free = port->proto.free;
	s->smbs_free = port->smb_free;
	s->peers = s->endpoints = 0;
	for (i = 0; i < FFRIO_PEERS; i++)
		s->peers += port->proto.peer[i].state == FFRIO_PEER_UP;
	for (i = 0; i < FFRIO_ENDPOINTS; i++)
		s->endpoints += port->proto.endpoint[i].bound;
	spin_unlock_bh(&port->lock);
	s->count = FFRIO_STAT_COUNT;
	if (copy_to_user(u64_to_user_ptr(s->values), values, n * sizeof(*values)))
		ret = -EFAULT;
	kfree(values);
	ffrio_port_put(port);
	return ret;
}

union ffrio_arg {
	struct ffrio_bind bind;
	struct ffrio_send send;
	struct ffrio_recv recv;
	struct ffrio_buf buf;
	struct ffrio_post post;
	struct ffrio_reap reap;
	struct ffrio_take take;
	struct ffrio_window window;
	struct ffrio_transfer transfer;
	struct ffrio_stats stats;
};

static long ffrio_call(struct file *filp, unsigned int cmd, union ffrio_arg *a)
{
	struct ffrio_file *file = filp->private_data;

	if (cmd == FFRIO_BIND)
		return ffrio_bind(file, &a->bind);
	if (cmd == FFRIO_GET_STATS)
		return ffrio_get_stats(&a->stats);
	if (!ffrio_file_port(file))
		return -ENOTCONN;
	switch (cmd) {
	case FFRIO_SEND:
		return ffrio_send(filp, &a->send);
	case FFRIO_RECV:
		return ffrio_recv(filp, &a->recv);
	case FFRIO_FLUSH:
		return ffrio_flush(filp);
	case FFRIO_ALLOC:
		return ffrio_alloc(filp, &a->buf);
	case FFRIO_FREE:
		return ffrio_free(filp, &a->buf);
	case FFRIO_POST:
		return ffrio_post(filp, &a->post);
	case FFRIO_REAP:
		return ffrio_reap(filp, &a->reap);
	case FFRIO_TAKE:
		return ffrio_take(filp, &a->take);
	case FFRIO_GIVE_BACK:
		return ffrio_give_back(filp, &a->buf);
	case FFRIO_WINDOW:
		return ffrio_window(filp, &a->window);
	case FFRIO_WINDOW_END:
		return ffrio_window_end(filp, &a->buf);
	case FFRIO_TRANSFER:
		return ffrio_transfer(filp, &a->transfer);
	}
	return -ENOTTY;
}

/* The argument's size is in the call's number; the number is known to be one of ours by the switch. */
static long ffrio_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	union ffrio_arg a = {};
	long ret;

	if (_IOC_TYPE(cmd) != FFRIO_IOC || _IOC_SIZE(cmd) > sizeof(a))
		return -ENOTTY;
	if (_IOC_SIZE(cmd) && copy_from_user(&a, user, _IOC_SIZE(cmd)))
		return -EFAULT;
	ret = ffrio_call(filp, cmd, &a);
	/* An answer also with an error: how far it came, whose it was. */
	if (ret != -ENOTTY && (_IOC_DIR(cmd) & _IOC_READ) && copy_to_user(user, &a, _IOC_SIZE(cmd)))
		return -EFAULT;
	return ret;
}

/* ---- poll and mmap ------------------------------------------------------------------------------- */

static __poll_t ffrio_poll(struct file *filp, poll_table *table)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = ffrio_file_port(file);
	__poll_t events = 0;

	if (!port)
		return EPOLLERR;
	poll_wait(filp, &file->wait, table);
	poll_wait(filp, &port->smb_wait, table);
	poll_wait(filp, &port->flow_wait, table);
	spin_lock_bh(&port->lock);
	if (file->rx_buffer >= 0 || ffrio_rx_pending(&port->proto, file->endpoint))
		events |= EPOLLIN | EPOLLRDNORM;
	if (port->smb_free && port->smb_ungranted < port->smbs / 4)
		events |= EPOLLOUT | EPOLLWRNORM;
	if (!list_empty(&file->reaped))
		events |= EPOLLPRI;
	if (file->error)
		events |= EPOLLERR;
	if (port->gone)
		events |= EPOLLERR | EPOLLHUP;
	spin_unlock_bh(&port->lock);
	return events;
}

static int pool_mmap(struct ffrio_port *port, struct vm_area_struct *vma, struct ffrio_pool *pool,
		     u64 offset)
{
	if (offset || vma->vm_end - vma->vm_start > pool->size)
		return -EINVAL;
	vma->vm_pgoff = 0;
	return dma_mmap_coherent(port->dev, vma, pool->memory, pool->dma, pool->size);
}

static int ffrio_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = ffrio_file_port(file);
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;

	if (!port)
		return -ENOTCONN;
	if (!(vma->vm_flags & VM_SHARED))
		return -EINVAL;
	if (offset >= FFRIO_MMAP_WINDOWS)
		return ffrio_window_mmap(file, vma);
	if (offset < FFRIO_MMAP_RMB)
		return pool_mmap(port, vma, &port->smb, offset - FFRIO_MMAP_SMB);
	if (vma->vm_flags & VM_WRITE)
		return -EACCES;
	vm_flags_clear(vma, VM_MAYWRITE);
	return pool_mmap(port, vma, &port->rmb, offset - FFRIO_MMAP_RMB);
}

const struct file_operations ffrio_fops = {
	.owner = THIS_MODULE,
	.open = ffrio_open,
	.release = ffrio_release,
	.unlocked_ioctl = ffrio_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.poll = ffrio_poll,
	.mmap = ffrio_mmap,
	.llseek = noop_llseek,
};
