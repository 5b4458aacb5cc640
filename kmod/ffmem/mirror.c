// SPDX-License-Identifier: GPL-2.0
/*
 * mirror.c - mirrored objects: the router's page tables follow the process's.
 *
 * To enter pages: take the notifier's sequence number; look at the process's page tables with
 * hmm_range_fault(), which holds no page; then, under object->lock, if no invalidation came between,
 * enter what was seen. An invalidation takes the same lock before it takes pages away, so it either
 * finds the page entered or is seen.
 *
 * hmm_range_fault() is only asked what is there, never to fault: it would wait for a file or a
 * userfaultfd's owner. Pages come in by get_user_pages_remote() with FOLL_NOWAIT, and what can't come
 * in that way by ffmem_wait_page(), where a signal ends the wait, but not in accesses.
 *
 * Tests: vm/ffmem.sh
 */
#include <linux/delay.h>
#include <linux/hmm.h>
#include <linux/hugetlb.h>
#include <linux/magic.h>
#include <linux/memcontrol.h>
#include <linux/sched/mm.h>
#include <linux/sched/signal.h>

#include "ffmem_int.h"

/* Pages of user memory are charged to mm's group by the kernel, the page cache's by this. */
static struct mem_cgroup *ffmem_charge_to(struct mm_struct *mm, struct mem_cgroup **memcg)
{
	*memcg = get_mem_cgroup_from_mm(mm);
	return set_active_memcg(*memcg);
}

static void ffmem_charge_end(struct mem_cgroup *old, struct mem_cgroup *memcg)
{
	set_active_memcg(old);
	mem_cgroup_put(memcg);
}

/* Call with mm's mmap_lock held, which stays so. */
static long ffmem_gup(struct mm_struct *mm, unsigned long start, unsigned long n,
		      unsigned int flags)
{
	struct mem_cgroup *memcg, *old = ffmem_charge_to(mm, &memcg);
	long ret;

	ret = get_user_pages_remote(mm, start, n, flags, NULL,
#if LINUX_VERSION_CODE < KERNEL_VERSION(6, 5, 0)
				    NULL,
#endif
				    NULL);
	ffmem_charge_end(old, memcg);
	return ret;
}

/*
 * Has the process fault in the page at address, and waits for it; any signal ends the wait. (Only from
 * 6.2 on can get_user_pages_remote() do that.) 1, 0 for once more, or -errno.
 */
static long ffmem_wait_page(struct mm_struct *mm, unsigned long address, bool write)
{
	unsigned int flags = FAULT_FLAG_REMOTE | FAULT_FLAG_ALLOW_RETRY | FAULT_FLAG_KILLABLE |
			     FAULT_FLAG_INTERRUPTIBLE | (write ? FAULT_FLAG_WRITE : 0);
	struct mem_cgroup *memcg, *old;
	struct vm_area_struct *vma;
	vm_fault_t fault;

	if (ffmem_lock(mm))
		return -EINTR;
	vma = find_vma(mm, address);
	if (!vma || vma->vm_start > address || !(vma->vm_flags & (write ? VM_WRITE : VM_READ)) ||
	    (vma->vm_flags & (VM_IO | VM_PFNMAP))) {
		mmap_read_unlock(mm);
		return -EFAULT;
	}
	old = ffmem_charge_to(mm, &memcg);
	fault = handle_mm_fault(vma, address, flags, NULL);
	ffmem_charge_end(old, memcg);
	/* Both mean that the lock was let go. */
	if (fault & VM_FAULT_COMPLETED)
		return 1;
	if (fault & VM_FAULT_RETRY)
		return 0;
	mmap_read_unlock(mm);
	return fault & VM_FAULT_ERROR ? vm_fault_to_errno(fault, 0) : 1;
}

/*
 * Has the process fault in up to n pages from index on and waits for the first; a signal ends the
 * wait. How many came, or -errno. Call without the router's mmap_lock, with a user of the process's
 * mm held.
 */
long ffmem_bring(struct ffmem_object *o, unsigned long index, unsigned long n, bool write)
{
	unsigned long start = o->start + (index << PAGE_SHIFT);
	unsigned int flags = FOLL_NOWAIT | (write ? FOLL_WRITE : 0);
	struct mm_struct *mm = o->process->mm;
	long ret;

	n = min(n, (unsigned long)FFMEM_BATCH);
	do {
		if (signal_pending(current))
			return -EINTR;
		if (ffmem_lock(mm))
			return -EINTR;
		ret = ffmem_gup(mm, start, n, flags);
		mmap_read_unlock(mm);
		if (ret)
			return ret;
		cond_resched();
		ret = ffmem_wait_page(mm, start, write);
	} while (ret >= 0);
	return ret;
}

/* Takes mm's mmap_lock below the router's, or gives up at the deadline (ns). */
static int ffmem_trylock(struct mm_struct *mm, u64 deadline)
{
	while (!mmap_read_trylock(mm)) {
		if (fatal_signal_pending(current))
			return -EINTR;
		if (ktime_get_ns() >= deadline)
			return -EAGAIN;
		usleep_range(10, 30);
	}
	return 0;
}

/*
 * Whether a fault at address waits for nothing but the kernel and its disks: memory that is swapped out
 * or moves, a page of a file on a block device. FUSE, network file systems and userfaultfd may wait
 * as long as somebody likes. Call with mm's mmap_lock held.
 */
static bool ffmem_kernel_only(struct mm_struct *mm, unsigned long address)
{
	struct vm_area_struct *vma = find_vma(mm, address);
	struct super_block *sb;

	if (!vma || vma->vm_start > address)
		return false;
#ifdef CONFIG_USERFAULTFD
	if (vma->vm_userfaultfd_ctx.ctx)
		return false;
#endif
	if (!vma->vm_file || is_vm_hugetlb_page(vma))
		return true;
	sb = file_inode(vma->vm_file)->i_sb;
	return sb->s_magic == TMPFS_MAGIC ||
	       ((sb->s_type->fs_flags & FS_REQUIRES_DEV) && sb->s_magic != FUSE_SUPER_MAGIC);
}

/*
 * Looks at n pages from start on; the first must be there, and writable if write. Otherwise it is
 * faulted in, and -EBUSY asks for another look; if that needs a wait: -EINPROGRESS for one that only
 * the kernel ends, else -EAGAIN.
 */
static int ffmem_look(struct ffmem_object *o, struct hmm_range *range, bool write, u64 deadline)
{
	unsigned long need = HMM_PFN_VALID | (write ? HMM_PFN_WRITE : 0);
	struct mm_struct *mm = o->process->mm;
	long ret;

	range->notifier_seq = mmu_interval_read_begin(&o->notifier);
	ret = ffmem_trylock(mm, deadline);
	if (ret)
		return ret;
	ret = hmm_range_fault(range);
	if (!ret && (range->hmm_pfns[0] & need) != need) {
		ret = ffmem_gup(mm, range->start, 1, FOLL_NOWAIT | (write ? FOLL_WRITE : 0));
		if (ret == 1) /* it came: look again */
			ret = -EBUSY;
		else if (ret == 0)
			ret = ffmem_kernel_only(mm, range->start) ? -EINPROGRESS : -EAGAIN;
		else
			ret = -EFAULT;
	}
	mmap_read_unlock(mm);
	return ret;
}

/*
 * Whether the router may be given a writable entry. What it writes sets no bit in the process's page
 * table, so the page is made dirty here; without that, a page that is clean in swap, or that
 * MADV_FREE gave up, would be dropped with what was written. For a page that isn't the one that is
 * written now, that is done only where it costs nothing later. Call with object->lock held: no
 * invalidation passes, so the page stays mapped in the process, and in its file.
 */
static bool ffmem_writable(struct page *page, bool wanted)
{
	struct folio *folio = page_folio(page);

	if (folio_test_dirty(folio))
		return true;
	if (!wanted && !(folio_test_anon(folio) && folio_test_swapbacked(folio) &&
			 !folio_test_swapcache(folio)))
		return false;
	folio_mark_dirty(folio);
	return true;
}

/*
 * An ordinary entry, read-only: the first write comes as ffmem_page_mkwrite(). Shared memory only: pages of other files
 * would have their file system told of each write, and anonymous ones can't be had. 0 or -errno.
 */
static int ffmem_enter_page(struct vm_area_struct *vma, unsigned long address, struct page *page)
{
	struct folio *folio = page_folio(page);
	int ret;

	if (folio_test_anon(folio) || !folio_test_swapbacked(folio) || folio_test_hugetlb(folio))
		return -EFAULT;
	ret = vm_insert_page(vma, address, page);
	return ret == -EBUSY ? 0 : ret; /* it is there */
}

/* Call with object->lock held. */
static long ffmem_enter_pages(struct vm_area_struct *vma, unsigned long address,
			      const struct hmm_range *range, unsigned long n)
{
	long entered = 0;
	unsigned long i;
	int ret;

	for (i = 0; i < n; i++, address += PAGE_SIZE) {
		unsigned long pfn = range->hmm_pfns[i];

		if (!(pfn & HMM_PFN_VALID) || (pfn & HMM_PFN_ERROR))
			continue;
		ret = ffmem_enter_page(vma, address, hmm_pfn_to_page(pfn));
		if (!i && ret)
			return ret;
		entered += !ret;
	}
	return entered;
}

/* The first page was found; those after it if they are there. Call with object->lock held. */
static long ffmem_enter_seen(struct ffmem_object *o, struct vm_area_struct *vma,
			     unsigned long address, const struct hmm_range *range, unsigned long n,
			     bool write)
{
	pgprot_t rw = vm_get_page_prot(vma->vm_flags);
	pgprot_t ro = vm_get_page_prot(vma->vm_flags & ~(VM_WRITE | VM_SHARED));
	bool may_write = (o->flags & FFMEM_WRITE) && (vma->vm_flags & VM_WRITE);
	long entered = 0;
	unsigned long i;

	o->filled = true;
	if (o->flags & FFMEM_PAGES)
		return ffmem_enter_pages(vma, address, range, n);
	for (i = 0; i < n; i++, address += PAGE_SIZE) {
		unsigned long pfn = range->hmm_pfns[i];
		bool writable;

		if (!(pfn & HMM_PFN_VALID) || (pfn & HMM_PFN_ERROR)) {
			if (write)
				break;
			continue;
		}
		writable = may_write && (pfn & HMM_PFN_WRITE) &&
			   ffmem_writable(hmm_pfn_to_page(pfn), write && !i);
		if (vmf_insert_pfn_prot(vma, address, page_to_pfn(hmm_pfn_to_page(pfn)),
					writable ? rw : ro) != VM_FAULT_NOPAGE)
			return entered ?: -ENOMEM;
		entered++;
	}
	return entered;
}

/* What is to be done with pages of the process while no invalidation passes. */
struct ffmem_task {
	struct vm_area_struct *vma; /* enter them there; or NULL: */
	unsigned long address;
	struct page *page; /* is it this one, and may the process write to it? */
	unsigned long n;
	bool write;
};

/* Call with object->lock held, and no invalidation since the look. Pages, or -errno. */
static long ffmem_seen(struct ffmem_object *o, const struct hmm_range *range,
		       const struct ffmem_task *t)
{
	if (t->vma)
		return ffmem_enter_seen(o, t->vma, t->address, range, t->n, t->write);
	return hmm_pfn_to_page(range->hmm_pfns[0]) == t->page ? 1 : -EAGAIN;
}

/* Never waits long: -EAGAIN or -EINPROGRESS (see ffmem_look()). How many pages, or -errno. */
static long ffmem_mirror_do(struct ffmem_object *o, unsigned long index, const struct ffmem_task *t)
{
	u64 wait_us = o->flags & FFMEM_NOWAIT ? 0 : READ_ONCE(ffmem_fault_wait_us);
	u64 deadline = ktime_get_ns() + wait_us * NSEC_PER_USEC;
	unsigned long pfns[FFMEM_BATCH];
	struct hmm_range range = {
		.notifier = &o->notifier,
		.hmm_pfns = pfns,
		.start = o->start + (index << PAGE_SHIFT),
	};
	unsigned int looks = 0;
	long ret;

	range.end = range.start + (t->n << PAGE_SHIFT);
	if (!mmget_not_zero(o->process->mm))
		return -ESRCH;
	do {
		/* Once at least; then a process that unmaps all the time costs a bounded time. */
		if (looks > 3 && ktime_get_ns() >= deadline) {
			ret = -EAGAIN;
			break;
		}
		looks++;
		memset(pfns, 0, t->n * sizeof(*pfns));
		ret = ffmem_look(o, &range, t->write, deadline);
		if (ret)
			continue;
		mutex_lock(&o->lock);
		if (o->dead)
			ret = -ESRCH;
		else if (mmu_interval_read_retry(&o->notifier, range.notifier_seq))
			ret = -EBUSY;
		else
			ret = ffmem_seen(o, &range, t);
		mutex_unlock(&o->lock);
	} while (ret == -EBUSY);
	mmput_async(o->process->mm);
	return ret;
}

/*
 * Enters the page at index, and of the n - 1 after it those that are there, at address of vma, whose
 * page tables are there. How many pages, or -errno, see above. Call with the router's mmap_lock, or vma's lock, held.
 */
long ffmem_mirror_enter(struct ffmem_object *o, struct vm_area_struct *vma, unsigned long address,
			unsigned long index, unsigned long n, bool write)
{
	struct ffmem_task t = { .vma = vma, .address = address, .write = write };

	t.n = min(n, (unsigned long)FFMEM_BATCH);
	return ffmem_mirror_do(o, index, &t);
}

/*
 * 1 if the process has this page there and may write to it, or -errno. An invalidation that comes later takes the
 * router's entry away, so that nobody makes that writable. Called as ffmem_mirror_enter().
 */
long ffmem_mirror_writable(struct ffmem_object *o, unsigned long index, struct page *page)
{
	struct ffmem_task t = { .page = page, .n = 1, .write = true };

	return ffmem_mirror_do(o, index, &t);
}
