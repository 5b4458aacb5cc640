/* SPDX-License-Identifier: GPL-2.0 */
/*
 * ffmem_int.h - what the files of ffmem.ko share.
 *
 *   main.c	the device: open, ioctl, close	process.c	who may be mapped: pidfd, consent, mm
 *   object.c	ranges and their notifiers	mirror.c	pages that follow the process's tables
 *   pin.c	pages that are held		view.c		the router's mappings: mmap, fault, populate
 *
 * Locks, outermost first:
 *   router's mmap_lock > process's mmap_lock	a router is never a process, so this order can't turn
 *   file->lock			tables of processes and objects; nothing below waits for user space
 *   ffmem_mms_lock		which address spaces are routers and which are processes
 *   object->lock		whether a page may still be entered into the router's page tables. Taken
 *				in notifiers, thus in reclaim: nothing is allocated under it.
 *   file->mapping.i_mmap_rwsem	the kernel's, of the router's views of this file
 *
 * A page is entered into the router's page tables as a special entry (VM_PFNMAP): no reference and
 * no rmap of it. What keeps it valid is the pin, or that the notifier takes it out of there before the
 * process's page tables let it go. With FFMEM_PAGES it is an ordinary entry (VM_MIXEDMAP), with both, which the kernel
 * allows for pages that aren't anonymous.
 */
#ifndef FFMEM_INT_H
#define FFMEM_INT_H

#include <linux/atomic.h>
#include <linux/eventfd.h>
#include <linux/fs.h>
#include <linux/idr.h>
#include <linux/kref.h>
#include <linux/ktime.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mmu_notifier.h>
#include <linux/mutex.h>
#include <linux/pid.h>
#include <linux/spinlock.h>
#include <linux/version.h>

#include "../ffmem.h"

/* Each object has its own window of mmap offsets, as wide as an address space. */
#define FFMEM_WINDOW_SHIFT 48
#define FFMEM_WINDOW	   (1ULL << FFMEM_WINDOW_SHIFT) /* bytes */
#define FFMEM_OBJECTS_MAX  (1U << 14)
/* Pages for one look at a process's page tables. */
#define FFMEM_BATCH 64

struct ffmem_process {
	struct kref ref;
	struct mm_struct *mm; /* grabbed, not got: it dies with its users */
	struct pid *pid;
	u32 id;		      /* in file->processes */
	unsigned int objects; /* file->lock */
	bool may_write;
	struct list_head all; /* ffmem_mms_lock */
};

struct ffmem_file {
	struct mutex lock;
	struct mm_struct *mm; /* grabbed at FFMEM_HELLO; written once */
	struct idr processes;
	struct idr objects;
	unsigned int nr_processes, nr_objects;
	u64 bytes;	       /* file->lock */
	u64 pinned_pages;      /* file->lock */
	spinlock_t event_lock; /* event; taken in notifiers */
	struct eventfd_ctx *event;
	struct list_head all;	      /* ffmem_mms_lock */
	struct address_space mapping; /* of the router's views of this file only */
};

struct ffmem_object {
	struct kref ref; /* the table's, and one for each VMA */
	struct ffmem_file *file;
	struct ffmem_process *process;
	struct mmu_interval_notifier notifier;
	unsigned long start, end; /* in the process, whole pages */
	u32 id;
	u32 flags; /* enum ffmem_map_flags */

	struct mutex lock;
	bool dead;	     /* lock */
	bool filled;	     /* lock; pages may be in the router's view */
	struct page **pages; /* lock; pinned: one for each page */

	atomic64_t faults, fault_pages, fault_ns, failed_faults;
	atomic64_t invalidations, invalidate_ns, prefetched, populate_ns;
};

/* main.c */
extern unsigned int ffmem_fault_wait_us;
unsigned int ffmem_max_processes(void);
unsigned int ffmem_max_objects(void);
u64 ffmem_max_bytes(void);
u64 ffmem_max_pinned_pages(void);
void ffmem_event(struct ffmem_file *file);

/* process.c */
int ffmem_process_init(void);
int ffmem_become_router(struct ffmem_file *file);
void ffmem_file_forget(struct ffmem_file *file);
long ffmem_attach(struct ffmem_file *file, struct ffmem_attach *a);
long ffmem_detach(struct ffmem_file *file, const struct ffmem_detach *d);
void ffmem_process_put(struct ffmem_process *process);

/* object.c */
long ffmem_map(struct ffmem_file *file, struct ffmem_map *m);
long ffmem_unmap(struct ffmem_file *file, const struct ffmem_unmap *u);
void ffmem_unmap_all(struct ffmem_file *file);
struct ffmem_object *ffmem_object_at(struct ffmem_file *file, u64 offset);
void ffmem_object_stat(struct ffmem_object *o, struct ffmem_stat *s);
void ffmem_object_put(struct ffmem_object *o);

static inline unsigned long ffmem_object_pages(const struct ffmem_object *o)
{
	return (o->end - o->start) >> PAGE_SHIFT;
}

static inline u64 ffmem_object_offset(const struct ffmem_object *o)
{
	return (u64)o->id << FFMEM_WINDOW_SHIFT;
}

/* pin.c */
long ffmem_pin(struct ffmem_object *o);
void ffmem_unpin(struct ffmem_object *o, struct page **pages);
long ffmem_pin_enter(struct ffmem_object *o, struct vm_area_struct *vma, unsigned long address,
		     unsigned long index, unsigned long n);

/* Any signal ends the wait for a process's mmap_lock; mmap_read_unlock() lets it go. */
static inline int ffmem_lock(struct mm_struct *mm)
{
	return down_read_interruptible(&mm->mmap_lock);
}

/* mirror.c */
long ffmem_bring(struct ffmem_object *o, unsigned long index, unsigned long n, bool write);
long ffmem_mirror_enter(struct ffmem_object *o, struct vm_area_struct *vma, unsigned long address,
			unsigned long index, unsigned long n, bool write);
long ffmem_mirror_writable(struct ffmem_object *o, unsigned long index, struct page *page);

/* view.c */
int ffmem_mmap(struct file *filp, struct vm_area_struct *vma);
long ffmem_populate(struct file *filp, struct ffmem_populate *p);
int ffmem_view_tables(struct vm_area_struct *vma, unsigned long address, unsigned long n);

#endif
