// SPDX-License-Identifier: GPL-2.0
/*
 * object.c - ranges of processes: made, invalidated, ended.
 *
 * An object ends once, by whichever comes first of its process's end (in exit_mmap(), as a notifier's
 * release), FFMEM_UNMAP and close(). What stays after that is a husk, held by the VMAs that still
 * show its window, where every access is a SIGBUS.
 *
 * Tests: vm/ffmem.sh
 */
#include <linux/lockdep.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>

#include "ffmem_int.h"

static void ffmem_object_free(struct kref *ref)
{
	struct ffmem_object *o = container_of(ref, struct ffmem_object, ref);

	ffmem_process_put(o->process);
	mutex_destroy(&o->lock);
	kfree(o);
}

void ffmem_object_put(struct ffmem_object *o)
{
	kref_put(&o->ref, ffmem_object_free);
}

/* ---- the end, and invalidations ----------------------------------------------------------------- */

/* Takes what the router sees of [start, end) of the process away. Waits, but not for user space. */
static void ffmem_zap(struct ffmem_object *o, unsigned long start, unsigned long end)
{
	start = max(start, o->start);
	end = min(end, o->end);
	if (start < end)
		unmap_mapping_range(&o->file->mapping, ffmem_object_offset(o) + (start - o->start),
				    end - start, 1);
}

/* The router sees nothing any more and nothing is held. True for the caller that ended it. */
static bool ffmem_object_end(struct ffmem_object *o)
{
	struct page **pages;
	bool ended;

	mutex_lock(&o->lock);
	ended = !o->dead;
	o->dead = true;
	pages = o->pages;
	o->pages = NULL;
	mutex_unlock(&o->lock);
	/* Nobody enters a page after dead, so this takes the last away. */
	if (ended)
		ffmem_zap(o, o->start, o->end);
	if (pages)
		ffmem_unpin(o, pages);
	return ended;
}

/*
 * The process's page tables are about to change. A filler that looked at them before finds another
 * sequence number under the lock and looks again; a page that it entered before is taken away here.
 */
static bool ffmem_invalidate(struct mmu_interval_notifier *n,
			     const struct mmu_notifier_range *range, unsigned long seq)
{
	struct ffmem_object *o = container_of(n, struct ffmem_object, notifier);
	u64 t = ktime_get_ns();
	bool filled;

	if (mmu_notifier_range_blockable(range))
		mutex_lock(&o->lock);
	else if (!mutex_trylock(&o->lock))
		return false;
	filled = o->filled && !o->dead && !(o->flags & FFMEM_PINNED);
	/* The OOM reaper can't wait for the lock on the views, and goes on elsewhere. */
	if (filled && !mmu_notifier_range_blockable(range)) {
		mutex_unlock(&o->lock);
		return false;
	}
	mmu_interval_set_seq(n, seq);
	mutex_unlock(&o->lock);

	if (range->event == MMU_NOTIFY_RELEASE) {
		lockdep_off(); /* as below */
		if (ffmem_object_end(o))
			ffmem_event(o->file);
		lockdep_on();
		return true;
	}
	atomic64_inc(&o->invalidations);
	if (filled) {
		/*
		 * The router's own notifiers are called in here, below the process's, and lockdep has
		 * one map for all of them. It can't close a circle: a router is never a process, so
		 * the notifiers of its address space are never ours.
		 */
		lockdep_off();
		ffmem_zap(o, range->start, range->end);
		lockdep_on();
		ffmem_event(o->file);
	}
	atomic64_add(ktime_get_ns() - t, &o->invalidate_ns);
	return true;
}

static const struct mmu_interval_notifier_ops ffmem_notifier_ops = {
	.invalidate = ffmem_invalidate,
};

/* Ends an object that is in no table any more. Call without locks. */
static void ffmem_object_destroy(struct ffmem_object *o)
{
	ffmem_object_end(o);
	mmu_interval_notifier_remove(&o->notifier);
	ffmem_object_put(o);
}

/* ---- calls ------------------------------------------------------------------------------------- */

/* Takes what the object costs of the file's limits, and its process. Call with file->lock held. */
static int ffmem_charge(struct ffmem_file *file, struct ffmem_object *o, const struct ffmem_map *m)
{
	u64 bytes = o->end - o->start;
	struct ffmem_process *p;
	int id;

	p = idr_find(&file->processes, m->process);
	if (!p)
		return -ENOENT;
	if ((m->flags & FFMEM_WRITE) && !p->may_write)
		return -EPERM;
	if (file->nr_objects >= ffmem_max_objects() || bytes > ffmem_max_bytes() ||
	    file->bytes > ffmem_max_bytes() - bytes)
		return -ENOSPC;
	if ((m->flags & FFMEM_PINNED) &&
	    file->pinned_pages + ffmem_object_pages(o) > ffmem_max_pinned_pages())
		return -ENOSPC;
	/* Without the object yet: it can be named from the end of ffmem_map() on. */
	id = idr_alloc_cyclic(&file->objects, NULL, 1, FFMEM_OBJECTS_MAX, GFP_KERNEL_ACCOUNT);
	if (id < 0)
		return id;
	o->id = id;
	o->process = p;
	kref_get(&p->ref);
	p->objects++;
	file->nr_objects++;
	file->bytes += bytes;
	if (m->flags & FFMEM_PINNED)
		file->pinned_pages += ffmem_object_pages(o);
	return 0;
}

/* Call with file->lock held. */
static void ffmem_uncharge(struct ffmem_file *file, struct ffmem_object *o)
{
	idr_remove(&file->objects, o->id);
	o->process->objects--;
	file->nr_objects--;
	file->bytes -= o->end - o->start;
	if (o->flags & FFMEM_PINNED)
		file->pinned_pages -= ffmem_object_pages(o);
}

/* Whole pages of user space, without a wrap. */
static int ffmem_range(const struct ffmem_map *m, unsigned long *start, unsigned long *end)
{
	u64 last;

	if (!m->length || m->address >= TASK_SIZE_MAX)
		return -EINVAL;
	if (m->length == U64_MAX)
		last = min_t(u64, TASK_SIZE_MAX, (m->address & PAGE_MASK) + FFMEM_WINDOW);
	else if (m->length > TASK_SIZE_MAX)
		return -EINVAL;
	else
		last = PAGE_ALIGN(m->address + m->length);
	*start = m->address & PAGE_MASK;
	*end = last;
	if (last > TASK_SIZE_MAX || last - *start > FFMEM_WINDOW)
		return -EINVAL;
	return 0;
}

long ffmem_map(struct ffmem_file *file, struct ffmem_map *m)
{
	struct ffmem_object *o;
	unsigned long start, end;
	long ret;

	if (m->reserved ||
	    (m->flags & ~(FFMEM_WRITE | FFMEM_PINNED | FFMEM_WAIT | FFMEM_NOWAIT | FFMEM_PAGES)) ||
	    (m->flags & FFMEM_WAIT && m->flags & FFMEM_NOWAIT) ||
	    (m->flags & FFMEM_PAGES && m->flags & FFMEM_PINNED))
		return -EINVAL;
	ret = ffmem_range(m, &start, &end);
	if (ret)
		return ret;
	o = kzalloc(sizeof(*o), GFP_KERNEL_ACCOUNT);
	if (!o)
		return -ENOMEM;
	kref_init(&o->ref);
	mutex_init(&o->lock);
	o->file = file;
	o->flags = m->flags;
	o->start = start;
	o->end = end;

	mutex_lock(&file->lock);
	ret = ffmem_charge(file, o, m);
	mutex_unlock(&file->lock);
	if (ret) {
		kfree(o);
		return ret;
	}
	/* From here on the process's end ends the object. */
	ret = -ESRCH;
	if (!mmget_not_zero(o->process->mm))
		goto err_uncharge;
	ret = mmu_interval_notifier_insert(&o->notifier, o->process->mm, o->start,
					   o->end - o->start, &ffmem_notifier_ops);
	if (!ret && (o->flags & FFMEM_PINNED)) {
		ret = ffmem_pin(o);
		if (ret) {
			ffmem_object_end(o);
			mmu_interval_notifier_remove(&o->notifier);
		}
	}
	mmput_async(o->process->mm);
	if (ret)
		goto err_uncharge;

	m->object = o->id;
	m->offset = ffmem_object_offset(o);
	mutex_lock(&file->lock);
	idr_replace(&file->objects, o, o->id);
	mutex_unlock(&file->lock);
	return 0;

err_uncharge:
	mutex_lock(&file->lock);
	ffmem_uncharge(file, o);
	mutex_unlock(&file->lock);
	ffmem_object_put(o);
	return ret;
}

long ffmem_unmap(struct ffmem_file *file, const struct ffmem_unmap *u)
{
	struct ffmem_object *o;

	if (u->reserved)
		return -EINVAL;
	mutex_lock(&file->lock);
	o = idr_find(&file->objects, u->object);
	if (o)
		ffmem_uncharge(file, o);
	mutex_unlock(&file->lock);
	if (!o)
		return -ENOENT;
	ffmem_object_destroy(o);
	return 0;
}

/* At the end of the file, when nobody can call. */
void ffmem_unmap_all(struct ffmem_file *file)
{
	struct ffmem_object *o;
	int id;

	idr_for_each_entry(&file->objects, o, id)
	{
		mutex_lock(&file->lock);
		ffmem_uncharge(file, o);
		mutex_unlock(&file->lock);
		ffmem_object_destroy(o);
		cond_resched();
	}
}

/* The object whose window has offset, with a reference; NULL if there is none. */
struct ffmem_object *ffmem_object_at(struct ffmem_file *file, u64 offset)
{
	struct ffmem_object *o;

	mutex_lock(&file->lock);
	o = idr_find(&file->objects, offset >> FFMEM_WINDOW_SHIFT);
	if (o)
		kref_get(&o->ref);
	mutex_unlock(&file->lock);
	return o;
}

void ffmem_object_stat(struct ffmem_object *o, struct ffmem_stat *s)
{
	mutex_lock(&o->lock);
	s->dead = o->dead;
	s->pinned = o->pages ? ffmem_object_pages(o) : 0;
	mutex_unlock(&o->lock);
	s->faults = atomic64_read(&o->faults);
	s->fault_pages = atomic64_read(&o->fault_pages);
	s->fault_ns = atomic64_read(&o->fault_ns);
	s->failed_faults = atomic64_read(&o->failed_faults);
	s->invalidations = atomic64_read(&o->invalidations);
	s->invalidate_ns = atomic64_read(&o->invalidate_ns);
	s->prefetched = atomic64_read(&o->prefetched);
	s->populate_ns = atomic64_read(&o->populate_ns);
}
