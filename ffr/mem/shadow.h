/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shadow.h - which pages of an application the router can reach, and how. See shadow.c.
 *
 * The room ffr/mem/ is where clients' pages are: segments (seg.c), shadow memory and shared
 * mappings (shadow.c), dma-bufs, and what becomes of an access to memory that is gone (guard.c,
 * sigbus.c). It may use keeper/ and obj/. The control thread maps and unmaps, a thread of libuv's
 * gives large mappings back, and runners translate, [lock].
 */
#ifndef FFR_MEM_SHADOW_H
#define FFR_MEM_SHADOW_H

#include <stdatomic.h>
#include <sys/uio.h>
#include <uv.h>

#include "ffr/obj/objects.h"

#define MAX_FOREIGN 1024u /* mappings of a session's files: shared memory and dma-bufs */

/*
 * Fill mr->run, num_runs and zero_copy from the client's claims. Control thread, no lock: the MR
 * is not known to anybody yet. Claims that do not hold are an error (-EINVAL) when they name a
 * segment out of bounds, and are left to pvm.c when the application's mapping turns out not to be
 * shared memory that can be mapped. *found: the socket of keeper_look() for the claims on shared
 * mappings; NULL: all of them are left to pvm.c. mr->o.ses, addr, length and access are set.
 */
int shadow_map(struct mr *mr, const struct ff_mr_run *claim, uint32_t n, const int *found);
/*
 * The runs that *mr, a copy of an MR, would have with further ones: new->run, num_runs and
 * zero_copy, of where the old foreign mappings are shared. Shadow memory only, where there is no
 * run. Control thread, no lock. 0, -EINVAL, -ENOSPC: too many, or -ENOMEM.
 */
int shadow_more(const struct mr *mr, const struct ff_mr_run *claim, uint32_t n, struct mr *new);
/*
 * What of the MR's runs is the part of a file that q names. SHADOW_MOVED: some of it is of another address than q
 * says, as the MR was registered with it before the program moved it. Control thread, no lock.
 */
enum shadow_part { SHADOW_NONE, SHADOW_THERE, SHADOW_MOVED };
enum shadow_part shadow_find(const struct mr *mr, const struct ff_drop_runs_req *q);
/*
 * The runs that *mr, a copy of an MR, would have without that part: new->run, num_runs and zero_copy. With
 * new->run NULL it has none. Control thread, no lock. 0, -ENOSPC: too many, or -ENOMEM.
 */
int shadow_less(const struct mr *mr, const struct ff_drop_runs_req *q, struct mr *new);
/* Undo it. Control thread, no lock, after fast_mr_del(). */
void shadow_unmap(struct mr *mr);
/*
 * Have the router's entries of [va, va + len) present, as much of it as is mapped, and no more
 * than FF_PREFETCH_MAX bytes. 0, -EFAULT or -ENOMEM.
 */
int shadow_prefetch(const struct mr *mr, uint64_t va, uint64_t len, bool write);
/* Does what is mapped allow these IBV_ACCESS_*? If not, the MR must be mapped anew for them. */
bool shadow_access_ok(const struct mr *mr, uint32_t access);

/*
 * [lock] Where [va, va + len) of the application is; inside the MR (the caller has checked).
 * Returns the contiguous bytes from va that *host reaches, at most len; with *host NULL it is the
 * number of bytes that pvm.c has to move.
 */
uint64_t shadow_translate(const struct mr *mr, uint64_t va, uint64_t len, uint8_t **host);
/* [lock] Likewise for the usual case: all of it within the first run. NULL: ask the other. */
static inline uint8_t *shadow_first(const struct mr *mr, uint64_t va, uint64_t len)
{
	const struct mr_run *r = mr->run;

	return mr->num_runs && va >= r->va && va - r->va < r->len && len <= r->len - (va - r->va) ?
		       r->host + (va - r->va) :
		       NULL;
}

/* ---- segments: the memfds that clients map (seg.c); control thread ---------------------- */

/* Where work on clients' memory is queued that takes too long to be done at once: s->mem.later. */
struct mem {
	struct uv_loop_s *loop;
	struct populate *populate; /* populate.c; NULL: nothing to do */
	/* unmap.c */
	LIST_HEAD(, remains) remains; /* all that are to be unmapped */
	TAILQ_HEAD(, remains) unmaps; /* those of them that wait for `timer` */
	uv_timer_t timer;
	bool is_unmapping, stopped;
};

/* 0 or -errno. The loop runs once more after mem_close(). */
int mem_init(struct mem *m, struct uv_loop_s *loop);
/* The container is about to be freed. */
void mem_container_gone(struct mem *m, const struct container *c);
void mem_close(struct mem *m);

/* A further segment of the session. Returns its id or -errno. */
int seg_create(struct session *s, enum seg_kind kind, uint64_t size);
struct seg *seg_get(struct session *s, uint32_t id);
/* Pages of it up to the last one that was handed out at some time. */
uint32_t seg_pages(const struct seg *seg);
/*
 * The next segment of a session that a former router had: a ring segment of that size, of which `pages` pages may have
 * been handed out. fd stays the caller's. 0; -EPROTO: that is no such segment; -ENOMEDIUM: this router cannot map it;
 * or -errno.
 */
int seg_restore(struct session *s, int fd, uint64_t size, uint32_t pages);
/* As ring_alloc(): the block that a former router's ring_alloc() gave, as it is. 0 or -EPROTO: it is no such block. */
int ring_restore(struct session *s, uint32_t seg, uint32_t off, uint32_t size);
/*
 * Has the client sealed the segment, so that it can neither punch holes in it nor map it writable again? 0; or
 * -EACCES: the router may not touch the segment.
 */
int seg_check(struct session *s, uint32_t id);
/* `size` bytes, page-aligned and zeroed, of the ring segments; a new one where none has room. */
int ring_alloc(struct session *s, uint32_t size, uint32_t *seg, uint32_t *off);
void ring_free(struct session *s, uint32_t seg, uint32_t off, uint32_t size);
/*
 * `size` bytes, page-aligned and zeroed, of the session's device memory: one segment of `max`
 * bytes, made at the first call. 0 or -errno. ring_free() gives them back.
 */
int dm_pages_alloc(struct session *s, uint64_t size, uint64_t max, uint32_t *seg, uint32_t *off);
void seg_free_all(struct session *s);
/*
 * Unmap, and close fd if there is one, now or later (unmap.c). Nobody uses or watches it any more.
 */
void unmap_later(struct session *s, void *map, uint64_t size, int fd);

/* A memfd of that size that stays of that size. Descriptor or -errno. */
int sealed_memfd(const char *name, uint64_t size);
/* Have the pages of a new mapping come from that NUMA node if it has any; -1: from anywhere. */
void memory_near(void *map, uint64_t size, int node);

struct region; /* watch.h */
/*
 * Have the router's own entries of [off, + len) of a region present before the fast path needs
 * them: `now` a part of them, the rest soon (populate.c). 0 or -errno; -EFAULT: the client has
 * not made its pages present.
 */
int populate(struct session *s, struct region *r, uint64_t off, uint64_t len, bool now);
/* The session goes. */
void populate_forget(struct session *s);

/*
 * Mappings of client-controlled memory can fail under the router's hands (SIGBUS: a file was
 * truncated, a hole was punched, memory ran out). The handler puts zero pages around the place,
 * marks the mapping's session (mem.gone) and goes on. Install once; register what may fail.
 * `unit` is the size of the mapping's pages in bytes. sigbus_watch() returns a number for
 * sigbus_unwatch(), or
 * -errno.
 */
int sigbus_install(void);
/* fn(arg), which must be async-signal-safe, is called when a session was marked. */
void sigbus_tell(void (*fn)(void *), void *arg);
int sigbus_watch(void *map, uint64_t size, uint64_t unit, struct session *s);
void sigbus_unwatch(int watch);
/* The session is about to be freed. */
void sigbus_forget(struct session *s);
/*
 * A system call stopped at byte `from` of these buffers, though it might have gone on: touch the
 * next SIGBUS_TOUCH_MAX bytes. True: some of them were clients' memory that is not there; they
 * are now, as zero pages, and the call can be repeated.
 */
#define SIGBUS_TOUCH_MAX 65536u
bool sigbus_touch(const struct iovec *iov, int n, uint64_t from);

/* A runner's: when its turn began, or last looked at the time (CLOCK_MONOTONIC); NULL: this thread has no turns. */
extern __thread const uint64_t *sigbus_since;

extern _Atomic uint32_t sigbus_gone; /* sessions that are marked */
/*
 * Has the session whose memory that is lost some? Then nobody reads or writes any of it any more.
 */
static inline bool shadow_gone(const struct mr *mr)
{
	return __builtin_expect(atomic_load_explicit(&sigbus_gone, memory_order_relaxed), 0) &&
	       mr->o.ses->mem.gone;
}

/*
 * From now on the router's accesses to pages of that mapping that are not there fail, instead of
 * allocating them (guard.c): SIGBUS, EFAULT in the kernel. 0 or -errno.
 */
int guard_map(void *map, uint64_t size);
/* What it needs, once. 0 or -errno: there is no such thing here. */
int guard_init(void);

#endif
