// SPDX-License-Identifier: GPL-2.0
/*
 * view.c - the router's mappings of objects: mmap(), accesses, FFMEM_POPULATE.
 *
 * A VMA holds a reference to its object and lies within the object's window of offsets. It isn't
 * inherited by fork() and doesn't grow.
 *
 * Tests: vm/ffmem.sh
 */
#include <linux/file.h>
#include <linux/pagemap.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "ffmem_int.h"

/* What an access brings in beside its page, if it is there: pages of this many around it. */
#define FFMEM_AROUND 16UL

/* The page of the object that vma shows at address. */
static unsigned long ffmem_index(const struct vm_area_struct *vma, unsigned long address)
{
	pgoff_t window = (FFMEM_WINDOW >> PAGE_SHIFT) - 1;

	return (vma->vm_pgoff & window) + ((address - vma->vm_start) >> PAGE_SHIFT);
}

static int ffmem_no_entry(pte_t *pte, unsigned long address, void *data)
{
	return 0;
}

/* Makes page tables for n pages at address, so that nothing is allocated under object->lock. */
int ffmem_view_tables(struct vm_area_struct *vma, unsigned long address, unsigned long n)
{
	return apply_to_page_range(vma->vm_mm, address, n << PAGE_SHIFT, ffmem_no_entry, NULL);
}

/* Enters up to n pages from address on. How many, or -errno. Call with a lock on vma held. */
static long ffmem_enter(struct ffmem_object *o, struct vm_area_struct *vma, unsigned long address,
			unsigned long n, bool write)
{
	unsigned long index = ffmem_index(vma, address);
	long ret;

	n = min(n, (unsigned long)FFMEM_BATCH);
	ret = ffmem_view_tables(vma, address, n);
	if (ret)
		return ret;
	if (o->flags & FFMEM_PINNED)
		return ffmem_pin_enter(o, vma, address, index, n);
	return ffmem_mirror_enter(o, vma, address, index, n, write);
}

/* ---- accesses ---------------------------------------------------------------------------------- */

/*
 * The access's page needs a wait. That is done here, without any lock of the router; then the access is
 * tried again.
 */
static vm_fault_t ffmem_fault_wait(struct ffmem_object *o, struct vm_fault *vmf, bool write)
{
	unsigned long index = ffmem_index(vmf->vma, vmf->address);
	struct file *filp = vmf->vma->vm_file;

	if (!(vmf->flags & FAULT_FLAG_ALLOW_RETRY) || (vmf->flags & FAULT_FLAG_RETRY_NOWAIT))
		return VM_FAULT_SIGBUS;
	/* The VMA may go with the lock: the object and its file are held beyond it. */
	get_file(filp);
	kref_get(&o->ref);
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 6, 0)
	release_fault_lock(vmf);
#else
	mmap_read_unlock(vmf->vma->vm_mm);
#endif
	/* With the lock gone only VM_FAULT_RETRY may be said; the next try finds what is wrong. */
	if (mmget_not_zero(o->process->mm)) {
		ffmem_bring(o, index, 1, write);
		mmput_async(o->process->mm);
	}
	ffmem_object_put(o);
	fput(filp);
	return VM_FAULT_RETRY;
}

static vm_fault_t ffmem_access(struct vm_fault *vmf, bool write)
{
	struct vm_area_struct *vma = vmf->vma;
	struct ffmem_object *o = vma->vm_private_data;
	unsigned long address = vmf->address & PAGE_MASK;
	unsigned long n = min(FFMEM_AROUND - ((address >> PAGE_SHIFT) & (FFMEM_AROUND - 1)),
			      (vma->vm_end - address) >> PAGE_SHIFT);
	u64 t = ktime_get_ns();
	vm_fault_t fault;
	long ret;

	ret = ffmem_enter(o, vma, address, n, write);
	atomic64_inc(&o->faults);
	if (ret > 0) {
		atomic64_add(ret, &o->fault_pages);
		fault = VM_FAULT_NOPAGE;
	} else if (ret == -ENOMEM) {
		fault = VM_FAULT_OOM;
	} else if (ret == -EINTR) {
		fault = VM_FAULT_NOPAGE; /* killed: the signal is taken on the way out */
	} else if ((ret == -EINPROGRESS && !(o->flags & FFMEM_NOWAIT)) ||
		   (ret == -EAGAIN && (o->flags & FFMEM_WAIT))) {
		fault = ffmem_fault_wait(o, vmf, write);
		if (fault == VM_FAULT_RETRY)
			return fault;
	} else {
		fault = VM_FAULT_SIGBUS;
	}
	if (fault == VM_FAULT_SIGBUS)
		atomic64_inc(&o->failed_faults);
	atomic64_add(ktime_get_ns() - t, &o->fault_ns);
	return fault;
}

static vm_fault_t ffmem_fault(struct vm_fault *vmf)
{
	return ffmem_access(vmf, vmf->flags & FAULT_FLAG_WRITE);
}

/*
 * A write to a page that is entered read-only: that entry goes, and the access comes again as a fault,
 * which enters a writable one if the process may write there. Without this op the kernel would just
 * make the entry writable. It can't do the fault's work itself: 6.1 doesn't take VM_FAULT_RETRY from it.
 */
static vm_fault_t ffmem_mkwrite(struct vm_fault *vmf)
{
	struct vm_area_struct *vma = vmf->vma;
	struct ffmem_object *o = vma->vm_private_data;
	unsigned long index = ffmem_index(vma, vmf->address);

	unmap_mapping_range(&o->file->mapping, ffmem_object_offset(o) + ((u64)index << PAGE_SHIFT),
			    PAGE_SIZE, 1);
	return VM_FAULT_NOPAGE;
}

/* The same of an ordinary entry (FFMEM_PAGES), which the kernel makes writable if nothing took it away meanwhile. */
static vm_fault_t ffmem_page_mkwrite(struct vm_fault *vmf)
{
	struct ffmem_object *o = vmf->vma->vm_private_data;
	long ret =
		o->flags & FFMEM_WRITE ?
			ffmem_mirror_writable(o, ffmem_index(vmf->vma, vmf->address), vmf->page) :
			-EFAULT;

	if (ret == 1)
		return trylock_page(vmf->page) ? VM_FAULT_LOCKED : VM_FAULT_NOPAGE;
	if (ret != -EINTR)
		atomic64_inc(&o->failed_faults);
	return ret == -EINTR ? VM_FAULT_NOPAGE : VM_FAULT_SIGBUS;
}

static void ffmem_vma_open(struct vm_area_struct *vma)
{
	struct ffmem_object *o = vma->vm_private_data;

	kref_get(&o->ref);
}

static void ffmem_vma_close(struct vm_area_struct *vma)
{
	ffmem_object_put(vma->vm_private_data);
}

static const struct vm_operations_struct ffmem_vm_ops = {
	.open = ffmem_vma_open,
	.close = ffmem_vma_close,
	.fault = ffmem_fault,
	.pfn_mkwrite = ffmem_mkwrite,
};

static const struct vm_operations_struct ffmem_pages_vm_ops = {
	.open = ffmem_vma_open,
	.close = ffmem_vma_close,
	.fault = ffmem_fault,
	.page_mkwrite = ffmem_page_mkwrite,
};

static bool ffmem_is_view(const struct vm_area_struct *vma)
{
	return vma->vm_ops == &ffmem_vm_ops || vma->vm_ops == &ffmem_pages_vm_ops;
}

/* ---- calls ------------------------------------------------------------------------------------- */

int ffmem_mmap(struct file *filp, struct vm_area_struct *vma)
{
	struct ffmem_file *file = filp->private_data;
	u64 offset = (u64)vma->vm_pgoff << PAGE_SHIFT;
	u64 inside = offset & (FFMEM_WINDOW - 1);
	unsigned long length = vma->vm_end - vma->vm_start;
	unsigned long set = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP, clear = VM_MAYEXEC;
	struct ffmem_object *o;
	int ret = -EINVAL;

	if (READ_ONCE(file->mm) != current->mm)
		return -EPERM;
	o = ffmem_object_at(file, offset);
	if (!o)
		return -ENXIO;
	if (inside + length > o->end - o->start || !(vma->vm_flags & VM_SHARED))
		goto err_put;
	ret = -EACCES;
	if ((vma->vm_flags & VM_EXEC) || ((vma->vm_flags & VM_WRITE) && !(o->flags & FFMEM_WRITE)))
		goto err_put;
	if (!(o->flags & FFMEM_WRITE))
		clear |= VM_MAYWRITE;
	set |= o->flags & FFMEM_PAGES ? VM_MIXEDMAP : VM_PFNMAP;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
	vm_flags_mod(vma, set, clear);
#else
	vma->vm_flags = (vma->vm_flags | set) & ~clear;
#endif
	vma->vm_ops = o->flags & FFMEM_PAGES ? &ffmem_pages_vm_ops : &ffmem_vm_ops;
	vma->vm_private_data = o;
	return 0;

err_put:
	ffmem_object_put(o);
	return ret;
}

/* The object at address of the caller, with a reference, and its page; n is cut to the VMA. */
static struct ffmem_object *ffmem_populate_find(struct file *filp, unsigned long address,
						unsigned long *n, struct vm_area_struct **vmap)
{
	struct vm_area_struct *vma = find_vma(current->mm, address);
	struct ffmem_object *o;

	if (!vma || vma->vm_start > address || !ffmem_is_view(vma) || vma->vm_file != filp)
		return ERR_PTR(-EFAULT);
	o = vma->vm_private_data;
	*n = min3(*n, (vma->vm_end - address) >> PAGE_SHIFT, (unsigned long)FFMEM_BATCH);
	*vmap = vma;
	kref_get(&o->ref);
	return o;
}

/* Up to n pages at address. How many, or -errno. */
static long ffmem_populate_some(struct file *filp, unsigned long address, unsigned long n,
				u32 flags)
{
	bool write = flags & FFMEM_POPULATE_WRITE;
	struct vm_area_struct *vma;
	struct ffmem_object *o;
	unsigned long index;
	u64 t = ktime_get_ns();
	long ret;

	if (mmap_read_lock_killable(current->mm))
		return -EINTR;
	o = ffmem_populate_find(filp, address, &n, &vma);
	if (IS_ERR(o)) {
		mmap_read_unlock(current->mm);
		return PTR_ERR(o);
	}
	index = ffmem_index(vma, address);
	if (write && !(vma->vm_flags & VM_WRITE))
		ret = -EFAULT;
	else
		ret = ffmem_enter(o, vma, address, n, write);
	mmap_read_unlock(current->mm);
	if (ret > 0) {
		atomic64_add(ret, &o->prefetched);
	} else if (flags & FFMEM_POPULATE_NOWAIT) {
		ret = ret == -EINPROGRESS ? -EAGAIN : ret;
	} else if (ret == -EAGAIN || ret == -EINPROGRESS) {
		ret = -ESRCH;
		if (mmget_not_zero(o->process->mm)) {
			ret = ffmem_bring(o, index, n, write);
			mmput_async(o->process->mm);
		}
		if (ret > 0)
			ret = 0; /* there now: once more */
	}
	atomic64_add(ktime_get_ns() - t, &o->populate_ns);
	ffmem_object_put(o);
	return ret;
}

long ffmem_populate(struct file *filp, struct ffmem_populate *p)
{
	unsigned long address = p->address & PAGE_MASK, pages, done = 0;
	long ret = 0;

	p->done = 0;
	if (p->reserved || (p->flags & ~(FFMEM_POPULATE_WRITE | FFMEM_POPULATE_NOWAIT)) ||
	    !p->length || p->address >= TASK_SIZE_MAX || p->length > TASK_SIZE_MAX - p->address)
		return -EINVAL;
	pages = (PAGE_ALIGN(p->address + p->length) - address) >> PAGE_SHIFT;
	while (done < pages) {
		ret = signal_pending(current) ?
			      -EINTR :
			      ffmem_populate_some(filp, address + (done << PAGE_SHIFT),
						  pages - done, p->flags);
		if (ret < 0)
			break;
		done += ret;
		cond_resched();
	}
	p->done = (u64)done << PAGE_SHIFT;
	return min(ret, 0L);
}
