/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * private.c - shadow pages become private memory again, because the program asks for what a shared
 * mapping cannot have. Called by libc.c, on whatever thread of the program, without a lock.
 *
 * Theory of operation
 * -------------------
 * The routers of all contexts drop the runs that MRs have there, and copy from then on, from and to the
 * process. At first that reaches the same pages. Then window.c replaces them, one window after the
 * other, by private memory with the same content and attributes. While the router does not know yet
 * of all that was claimed (mr.c), nothing is replaced.
 *
 * An MR of memory that was moved since goes on meaning its pages, which the program has at the new
 * address. By copying, the router would look for them at the old one: it says -EBUSY, and they stay.
 *
 * Tests: test_private.c
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "ffl/mem/attr.h"
#include "ffl/mem/region.h"
#include "ffl/mem/window.h"
#include "ffl/session/mm.h"

#define SETTLE_TRIES 10000u
#define WAIT_NS	     1000000000u /* for what is being registered */

/* Not a cancellation point, as what the program has called is none. */
static int maps_open(void)
{
	return (int)syscall(SYS_openat, AT_FDCWD, "/proc/self/maps", O_RDONLY | O_CLOEXEC);
}

/* The first shadow mapping that ends above `at`. 0 or -errno. */
static int next_shadow(int maps, uintptr_t at, struct ff_vma *v)
{
	int err;

	for (; !(err = ff_vma_query(maps, at, v)); at = v->end)
		if (ffl_regions_has(v))
			return 0;
	return err;
}

bool ffl_private_has(uintptr_t addr, size_t len)
{
	struct ff_vma v;
	int maps, state;
	bool has;

	if (!len || !ffl_regions_any())
		return false;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	maps = maps_open();
	has = maps >= 0 && !next_shadow(maps, addr, &v) && v.start < addr + len;
	if (maps >= 0)
		close(maps);
	pthread_setcancelstate(state, NULL);
	return has;
}

/* The MRs of one session. 0 or -errno; of a router that is gone there are none. */
static int drop_runs(struct ffl_context *ctx, struct ff_drop_runs_req *req)
{
	struct ff_drop_runs_resp resp;
	int err;

	req->from = 0;
	do {
		err = FFL_CALL(ctx, DROP_RUNS, req, &resp);
		req->from = resp.next;
	} while (!err && req->from);
	return err == -EIO ? 0 : err;
}

/* All of this process's. */
static int drop_all_runs(const struct ffl_file *f, uintptr_t va, size_t len, uint64_t off)
{
	struct ff_drop_runs_req req = {
		.va = va,
		.len = len,
		.off = off,
		.inode = f->inode,
		.dev_major = f->dev_major,
		.dev_minor = f->dev_minor,
		.check = 1,
	};
	int err = 0;

	for (unsigned i = 0; i < 2 && !err; i++, req.check = 0)
		for (struct ffl_context *c = ffl_regions_contexts(); c && !err; c = c->next_regions)
			err = drop_runs(c, &req);
	return err;
}

/* Has the context's router answered all faults of before? 0 or -errno; one that is gone answers none. */
static int settled(void *ctx)
{
	struct ff_settle_pages_req req = { 0 };
	struct ff_settle_pages_resp resp;
	uint64_t first = 0;
	int err = 0;

	for (unsigned i = 0; i < SETTLE_TRIES; i++) {
		err = FFL_CALL(ctx, SETTLE_PAGES, &req, &resp);
		if (err || (i && resp.idle >= first + 2))
			return err == -EIO ? 0 : err;
		first = i ? first : resp.idle;
		sched_yield();
	}
	return -EBUSY;
}

/* [va, end), shadow pages of mapping v. 0 or -errno. */
static int make_part(const struct ff_vma *v, uintptr_t va, uintptr_t end, int maps)
{
	const struct ffl_file *f = ffl_regions_file_of(v);
	uint64_t off = v->offset + (va - v->start);
	size_t len = end - va, done = 0;
	struct ffl_attr attr;
	char *home;
	int err;

	if (!f || !f->ctx) /* a closed one's router cannot be asked */
		return -EOPNOTSUPP;
	if (ffl_is_own(va, end))
		return -EBUSY;
	err = ffl_attr_of_shadow(va, end, &attr);
	if (err)
		return err;
	home = mm_map(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (home == MAP_FAILED)
		return -errno;
	err = ffl_attr_before(&attr, home, len);
	if (!err)
		err = drop_all_runs(f, va, len, off);
	while (!err && done < len) {
		const struct ffl_swap s = {
			.p = (char *)va + done,
			.len = len - done < FFL_WINDOW_MAX ? len - done : FFL_WINDOW_MAX,
			.prot = ffl_vma_prot(v),
			.home = home + done,
			.fd = f->fd,
			.off = off + done,
			.maps = maps,
		};

		err = ffl_window_out(&s, settled, f->ctx);
		if (err)
			break;
		ffl_attr_after(&attr, s.p, s.len);
		done += s.len;
	}
	if (done < len)
		mm_unmap(home + done, len - done);
	return err;
}

/* [region lock] */
static int make(uintptr_t addr, uintptr_t end)
{
	int maps = maps_open(), err = 0;
	struct ff_vma v;

	if (maps < 0)
		return -errno;
	for (; !err && addr < end && !next_shadow(maps, addr, &v) && v.start < end; addr = v.end)
		err = make_part(&v, v.start > addr ? v.start : addr, v.end < end ? v.end : end,
				maps);
	close(maps);
	return err;
}

int ffl_private_make(uintptr_t addr, size_t len)
{
	uint64_t since = ffl_clock_ns(CLOCK_MONOTONIC);
	int state, err = -EBUSY;
	bool locked;

	if (PAGE_UP(addr + len) < addr)
		return -EINVAL;
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state);
	while ((locked = ffl_regions_lock_soon()) && atomic_load(&ffl_untold) &&
	       ffl_clock_ns(CLOCK_MONOTONIC) - since < WAIT_NS) {
		ffl_regions_unlock();
		sched_yield();
	}
	if (locked && !atomic_load(&ffl_untold))
		err = make(PAGE_DOWN(addr), PAGE_UP(addr + len));
	if (locked)
		ffl_regions_unlock();
	pthread_setcancelstate(state, NULL);
	return err;
}
