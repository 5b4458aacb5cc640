// SPDX-License-Identifier: GPL-2.0
/*
 * window.c - memory of this node that others may read and write by its RapidIO address, and access to
 * theirs. Transfers go by send buffers, some at once, so that copies and DMA overlap here as well.
 *
 * Tests: vm/ffrio.sh
 */
#include <linux/dma-mapping.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ffrio_int.h"

#define WINDOW_MAX    (4U << 20)
#define WINDOWS	      16 /* of a file; the port has few */
#define AT_ONCE	      4
#define WINDOW_OFFSET (1ULL << 28) /* from one to the next, for mmap() */

struct window {
	struct list_head node;
	struct ffrio_pool pool;
	u32 id;
	bool mapped;
	atomic_t views;
};

/* Call with windows_mutex held. */
static void window_free(struct ffrio_file *file, struct window *w)
{
	struct ffrio_port *port = file->port;

	/* the mport is there as long as the file: ffrio_port_end() */
	if (w->mapped)
		rio_unmap_inb_region(port->mport, w->pool.dma);
	if (w->pool.memory)
		dma_free_coherent(port->dev, w->pool.size, w->pool.memory, w->pool.dma);
	kfree(w);
}

/* Call with windows_mutex held. */
static int window_make(struct ffrio_file *file, struct window *w, u64 length)
{
	struct ffrio_port *port = file->port;
	int ret;

	w->pool.size = length;
	w->pool.memory = dma_alloc_coherent(port->dev, length, &w->pool.dma, GFP_KERNEL);
	if (!w->pool.memory)
		return -ENOMEM;
	ret = rio_map_inb_region(port->mport, w->pool.dma, w->pool.dma, length, 0);
	w->mapped = !ret;
	return ret;
}

/* Call with windows_mutex held. */
static struct window *find(struct ffrio_file *file, u64 id)
{
	struct window *w;

	list_for_each_entry(w, &file->windows, node) if (w->id == id) return w;
	return NULL;
}

/* Call with windows_mutex held. The lowest number that no window of the file has. */
static int free_id(struct ffrio_file *file, u32 *id)
{
	for (*id = 0; *id < WINDOWS; ++*id)
		if (!find(file, *id))
			return 0;
	return -ENOSPC;
}

long ffrio_window(struct file *filp, struct ffrio_window *u)
{
	struct ffrio_file *file = filp->private_data;
	struct window *w;
	long ret;

	if (!is_power_of_2(u->length) || u->length < PAGE_SIZE || u->length > WINDOW_MAX ||
	    u->reserved)
		return -EINVAL;
	w = kzalloc(sizeof(*w), GFP_KERNEL);
	if (!w)
		return -ENOMEM;
	mutex_lock(&file->windows_mutex);
	if (READ_ONCE(file->port->gone))
		ret = -ENODEV;
	else if (free_id(file, &w->id))
		ret = -ENOSPC;
	else
		ret = window_make(file, w, u->length);
	if (ret) {
		window_free(file, w);
	} else {
		list_add_tail(&w->node, &file->windows);
		u->window = w->id;
		u->rio = w->pool.dma;
		u->offset = FFRIO_MMAP_WINDOWS + w->id * WINDOW_OFFSET;
	}
	mutex_unlock(&file->windows_mutex);
	return ret;
}

/* EBUSY: it is mapped by a program. */
long ffrio_window_end(struct file *filp, const struct ffrio_buf *b)
{
	struct ffrio_file *file = filp->private_data;
	struct window *w;
	long ret = 0;

	mutex_lock(&file->windows_mutex);
	w = find(file, b->buffer);
	if (!w) {
		ret = -EINVAL;
	} else if (atomic_read(&w->views)) {
		ret = -EBUSY;
	} else {
		list_del(&w->node);
		window_free(file, w);
	}
	mutex_unlock(&file->windows_mutex);
	return ret;
}

void ffrio_windows_close(struct ffrio_file *file)
{
	struct window *w;

	mutex_lock(&file->windows_mutex);
	while ((w = list_first_entry_or_null(&file->windows, struct window, node))) {
		list_del(&w->node);
		window_free(file, w);
	}
	mutex_unlock(&file->windows_mutex);
}

static void view_open(struct vm_area_struct *vma)
{
	struct window *w = vma->vm_private_data;

	atomic_inc(&w->views);
}

static void view_close(struct vm_area_struct *vma)
{
	struct window *w = vma->vm_private_data;

	atomic_dec(&w->views);
}

static const struct vm_operations_struct view_ops = {
	.open = view_open,
	.close = view_close,
};

int ffrio_window_mmap(struct ffrio_file *file, struct vm_area_struct *vma)
{
	u64 offset = ((u64)vma->vm_pgoff << PAGE_SHIFT) - FFRIO_MMAP_WINDOWS;
	struct window *w;
	int ret = -EINVAL;

	mutex_lock(&file->windows_mutex);
	w = find(file, offset / WINDOW_OFFSET);
	if (w && !(offset % WINDOW_OFFSET) && vma->vm_end - vma->vm_start <= w->pool.size) {
		vma->vm_pgoff = 0;
		ret = dma_mmap_coherent(file->port->dev, vma, w->pool.memory, w->pool.dma,
					w->pool.size);
		if (!ret) {
			vma->vm_ops = &view_ops;
			vma->vm_private_data = w;
			view_open(vma);
		}
	}
	mutex_unlock(&file->windows_mutex);
	return ret;
}

/* ---- access to others' --------------------------------------------------------------------------- */

struct piece {
	struct ffrio_job job;
	struct completion over;
	int smb, error;
	u64 at; /* of the whole */
	bool used;
};

/* Call with port->lock held. */
static void piece_done(struct ffrio_job *job, int error)
{
	struct piece *piece = container_of(job, struct piece, job);

	if (error)
		ffrio_stat(&job->port->proto, transfer_errors);
	piece->error = error;
	complete(&piece->over);
}

static int piece_start(struct ffrio_port *port, struct ffrio_transfer *t, struct piece *p, u64 at,
		       u32 length)
{
	void __user *user = u64_to_user_ptr(t->address) + at;
	int smb = ffrio_smb_get(port, true);

	if (smb < 0)
		return smb;
	if (!(t->flags & FFRIO_READ) && copy_from_user(ffrio_smb_memory(port, smb), user, length)) {
		spin_lock_bh(&port->lock);
		ffrio_smb_put(port, smb);
		spin_unlock_bh(&port->lock);
		return -EFAULT;
	}
	*p = (struct piece){ .smb = smb, .at = at, .used = true };
	init_completion(&p->over);
	INIT_LIST_HEAD(&p->job.node);
	p->job.local = port->smb.dma + (dma_addr_t)smb * port->stride;
	p->job.rio = t->rio + at;
	p->job.length = length;
	p->job.destid = t->destid;
	p->job.read = t->flags & FFRIO_READ;
	p->job.type = t->flags & FFRIO_RESPONSE ? RDW_ALL_NWRITE_R :
		      t->flags & FFRIO_POSTED	? RDW_ALL_NWRITE :
						  RDW_LAST_NWRITE_R;
	p->job.done = piece_done;
	ffrio_enter(port);
	ffrio_stat(&port->proto, transfers);
	ffrio_dma_start(port, &p->job);
	ffrio_leave(port);
	return 0;
}

/* DMA ends in bounded time, so this waits for it whatever signals come. */
static int piece_end(struct ffrio_port *port, struct ffrio_transfer *t, struct piece *p)
{
	int ret;

	wait_for_completion(&p->over);
	ret = p->error;
	if (!ret && t->flags & FFRIO_READ &&
	    copy_to_user(u64_to_user_ptr(t->address) + p->at, ffrio_smb_memory(port, p->smb),
			 p->job.length))
		ret = -EFAULT;
	spin_lock_bh(&port->lock);
	ffrio_smb_put(port, p->smb);
	spin_unlock_bh(&port->lock);
	p->used = false;
	return ret;
}

long ffrio_transfer(struct file *filp, struct ffrio_transfer *t)
{
	struct ffrio_file *file = filp->private_data;
	struct ffrio_port *port = file->port;
	struct piece *pieces;
	u64 asked = 0;
	int ret = 0, n = 0, i;

	t->done = 0;
	if (t->flags & ~(FFRIO_READ | FFRIO_RESPONSE | FFRIO_POSTED) || t->destid > 0xffff ||
	    !t->length || t->length > 1ULL << 40 || t->rio + t->length < t->rio)
		return -EINVAL;
	pieces = kcalloc(AT_ONCE, sizeof(*pieces), GFP_KERNEL);
	if (!pieces)
		return -ENOMEM;
	while (!ret && t->done < t->length) {
		struct piece *p = &pieces[n++ % AT_ONCE];

		if (p->used) {
			ret = piece_end(port, t, p);
			if (!ret)
				t->done += p->job.length;
		}
		if (!ret && asked < t->length) {
			u32 length = min_t(u64, t->length - asked, ffrio_block_size);

			ret = piece_start(port, t, p, asked, length);
			asked += length;
		}
	}
	for (i = 0; i < AT_ONCE; i++)
		if (pieces[i].used)
			piece_end(port, t, &pieces[i]);
	kfree(pieces);
	return ret;
}
