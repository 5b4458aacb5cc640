// SPDX-License-Identifier: GPL-2.0
/*
 * pin.c - pinned objects: pages held from FFMEM_MAP to the end, and counted as the process's.
 *
 * The pins are long-term ones, so pages leave movable memory first, and fork() copies them for the
 * child at once: the parent keeps the page that the router sees.
 *
 * Tests: vm/ffmem.sh
 */
#include <linux/hugetlb.h>
#include <linux/magic.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "ffmem_int.h"

/* As for ib_umem: the process's VmPin, against its own limit. */
static int ffmem_pin_charge(struct ffmem_object *o, unsigned long n)
{
	struct mm_struct *mm = o->process->mm;
	struct task_struct *task = get_pid_task(o->process->pid, PIDTYPE_PID);
	unsigned long limit;

	if (!task)
		return -ESRCH;
	limit = task_rlimit(task, RLIMIT_MEMLOCK);
	put_task_struct(task);
	if (limit != RLIM_INFINITY)
		limit >>= PAGE_SHIFT;
	if (atomic64_add_return(n, &mm->pinned_vm) > limit) {
		atomic64_sub(n, &mm->pinned_vm);
		return -ENOMEM;
	}
	return 0;
}

static void ffmem_pin_uncharge(struct ffmem_object *o, unsigned long n)
{
	atomic64_sub(n, &o->process->mm->pinned_vm);
}

/*
 * Whether the range may be held: a file system that must be told before a page of it is written may
 * not be bypassed for long. Call with the process's mmap_lock held.
 */
static int ffmem_pin_allowed(struct mm_struct *mm, unsigned long start, unsigned long end,
			     bool write)
{
	struct vm_area_struct *vma;

	for (; start < end; start = vma->vm_end) {
		vma = find_vma(mm, start);
		if (!vma || vma->vm_start > start)
			return -EFAULT;
		if (!write || !vma->vm_file || !(vma->vm_flags & VM_SHARED))
			continue;
		if (!is_vm_hugetlb_page(vma) &&
		    file_inode(vma->vm_file)->i_sb->s_magic != TMPFS_MAGIC)
			return -EOPNOTSUPP;
	}
	return 0;
}

/* At most n pages; how many, or -errno. */
static long ffmem_pin_some(struct ffmem_object *o, unsigned long index, unsigned long n,
			   struct page **pages)
{
	struct mm_struct *mm = o->process->mm;
	unsigned long start = o->start + (index << PAGE_SHIFT);
	bool write = o->flags & FFMEM_WRITE;
	long ret;

	/* What waits for user space waits here, where a signal ends it; pinning itself won't wait. */
	ret = ffmem_bring(o, index, n, write);
	if (ret <= 0)
		return ret;
	n = ret;
	if (ffmem_lock(mm))
		return -EINTR;
	ret = ffmem_pin_allowed(mm, start, start + (n << PAGE_SHIFT), write);
	if (!ret)
		ret = pin_user_pages_remote(mm, start, n, FOLL_LONGTERM | (write ? FOLL_WRITE : 0),
					    pages,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
					    NULL,
#endif
					    NULL);
	mmap_read_unlock(mm);
	return ret;
}

/* Pins all of a new object. Call with a user of the process's mm held. */
long ffmem_pin(struct ffmem_object *o)
{
	unsigned long n = ffmem_object_pages(o), done = 0;
	struct page **pages;
	long ret;

	ret = ffmem_pin_charge(o, n);
	if (ret)
		return ret;
	pages = kvmalloc_array(n, sizeof(*pages), GFP_KERNEL_ACCOUNT);
	if (!pages) {
		ret = -ENOMEM;
		goto err_uncharge;
	}
	while (done < n) {
		ret = signal_pending(current) ?
			      -EINTR :
			      ffmem_pin_some(o, done, min(n - done, 512UL), pages + done);
		if (ret < 0)
			goto err_unpin;
		done += ret;
		cond_resched();
	}
	mutex_lock(&o->lock);
	o->pages = pages;
	mutex_unlock(&o->lock);
	return 0;

err_unpin:
	unpin_user_pages(pages, done);
	kvfree(pages);
err_uncharge:
	ffmem_pin_uncharge(o, n);
	return ret;
}

/* Lets the pages of an object go that nobody can enter any more. */
void ffmem_unpin(struct ffmem_object *o, struct page **pages)
{
	unsigned long n = ffmem_object_pages(o);

	unpin_user_pages_dirty_lock(pages, n, o->flags & FFMEM_WRITE);
	kvfree(pages);
	ffmem_pin_uncharge(o, n);
}

/*
 * Enters n pages from index on at address of vma, whose page tables are there. How many, or -errno.
 * Call with the router's mmap_lock, or vma's lock, held.
 */
long ffmem_pin_enter(struct ffmem_object *o, struct vm_area_struct *vma, unsigned long address,
		     unsigned long index, unsigned long n)
{
	pgprot_t prot = vm_get_page_prot(vma->vm_flags);
	vm_fault_t fault = VM_FAULT_NOPAGE;
	unsigned long i;

	mutex_lock(&o->lock);
	if (!o->pages) {
		mutex_unlock(&o->lock);
		return -ESRCH;
	}
	for (i = 0; i < n && fault == VM_FAULT_NOPAGE; i++)
		fault = vmf_insert_pfn_prot(vma, address + (i << PAGE_SHIFT),
					    page_to_pfn(o->pages[index + i]), prot);
	mutex_unlock(&o->lock);
	return fault == VM_FAULT_NOPAGE ? n : -EFAULT;
}
