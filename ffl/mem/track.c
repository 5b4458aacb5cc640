/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * track.c - memory of lazy MRs, which the router copies through the process, is registered with a
 * userfaultfd of the router's. Called by heat.c and mr.c with the region lock held.
 *
 * An MR means the pages that it was registered with. The router has to know when the program moves
 * or unmaps them, and the kernel tells it (ffr/mem/track.c). The userfaultfd is in write-protect
 * mode, in which it changes nothing for the program as long as nobody protects a page. The router
 * alone has it, because if this process had it as well, a router that dies would leave threads
 * waiting for ever. So the router is asked for it, and it is closed at once.
 *
 * That takes longer than all else of a registration, and programs register the same memory again
 * and again. So when its last MR has gone it stays registered, and the router tells whether all of
 * a further MR is. Whoever registers other memory, and heat.c's thread when it replaces some, unregisters
 * what no MR had for LEAVE_NS. The end of an MR does not, because the program may have forbidden system
 * calls by then.
 *
 * Only private anonymous memory is registered. Other memory stays untracked: copies follow its
 * address, as they do where somebody else's userfaultfd is there already.
 *
 * A page can have one userfaultfd only. So before window.c replaces pages they are unregistered
 * here; and before that the router closes them, so that nothing is copied to an address that is
 * not tracked. What the program maps there between the unregistering and the window is taken for
 * the MR's. That is the time of one system call.
 *
 * A program that wants a userfaultfd of its own for such memory gets it (libc.c): the memory is
 * unregistered then, and copies follow its address.
 *
 * Tests: test_heat.c
 */
#include <linux/userfaultfd.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "ffl/mem/region.h"
#include "ffl/mem/track.h"
#include "ffl/mem/window.h"
#include "ffl/session/mm.h"

#define TRIES	 1000u
#define LEAVE_NS 1000000000u
#define LEFT_MAX 64u

int ffl_track_start(struct ffl_context *ctx)
{
	struct ff_track_req req = { 0 };
	struct ff_track_resp resp;
	unsigned num_fds = 0;
	int uffd, err;

	if (ctx->uffd_dev < 0 || !ctx->has_track)
		return -EOPNOTSUPP;
	uffd = ffl_uffd_open(ctx->uffd_dev, UFFD_FEATURE_PAGEFAULT_FLAG_WP |
						    UFFD_FEATURE_EVENT_UNMAP |
						    UFFD_FEATURE_EVENT_REMAP);
	if (uffd < 0)
		return uffd;
	err = ffl_call_fds(ctx, FF_MSG_TRACK, &req, sizeof(req), &uffd, 1, &resp, sizeof(resp),
			   NULL, 0, &num_fds);
	close(uffd);
	return err;
}

/* Memory that MRs had which have gone. */
static struct left {
	struct ffl_context *ctx;
	uintptr_t from, to;
	uint64_t since; /* ns */
} left[LEFT_MAX];
static uint32_t num_left;
static uint32_t num_closed; /* how often some was closed */
static _Atomic bool any;    /* memory has been registered */

/*
 * True: it is registered, if `on`. Another userfaultfd's memory is left alone, which the kernel did
 * not always see to.
 */
static bool set(int uffd, uintptr_t from, uintptr_t to, bool on)
{
	struct uffdio_range r = { from, to - from };

	/* not by libc.c's ioctl() */
	if (mm_uffd_register(uffd, (void *)from, to - from, UFFDIO_REGISTER_MODE_WP))
		return false;
	if (on)
		atomic_store(&any, true);
	else
		ioctl(uffd, UFFDIO_UNREGISTER, &r);
	return true;
}

/* The private anonymous memory in [from, to). True: that is all of it. */
static bool set_all(int uffd, uintptr_t from, uintptr_t to, bool on)
{
	int maps = ffl_regions_maps();
	bool all = true;
	struct ff_vma v;

	for (; maps >= 0 && from < to && !ff_vma_query(maps, from, &v) && v.start < to;
	     from = v.end) {
		all &= v.start <= from;
		if (!(v.flags & FF_VMA_SHARED) && !v.inode && !v.dev_major && !v.dev_minor)
			all &= set(uffd, v.start > from ? v.start : from, v.end < to ? v.end : to,
				   on);
		else
			all = false;
	}
	return all && from >= to;
}

/* 0, and *uffd, which is the caller's, where uffd is not NULL; or -errno. */
static int track_pages(struct ffl_context *ctx, enum ff_track_op op, uintptr_t from, uintptr_t to,
		       int *uffd)
{
	struct ff_track_pages_req req = { .va = from, .len = to - from, .op = op };
	struct ff_track_pages_resp resp;
	unsigned num_fds = 0;
	int err = -EAGAIN;

	for (unsigned i = 0; err == -EAGAIN && i < TRIES; i++) {
		err = ffl_call(ctx, FF_MSG_TRACK_PAGES, &req, sizeof(req), NULL, 0, 0, &resp,
			       sizeof(resp), uffd, uffd ? 1 : 0, uffd ? &num_fds : NULL);
		if (err == -EAGAIN) /* a copy, or an event, is under way: some microseconds */
			sched_yield();
	}
	return err || !uffd || num_fds == 1 ? err : -EPROTO;
}

static int close_pages(struct ffl_context *ctx, uintptr_t from, uintptr_t to)
{
	int uffd = -1, err = track_pages(ctx, FF_TRACK_CLOSE, from, to, &uffd);

	num_closed++;
	if (!err)
		return uffd;
	track_pages(ctx, FF_TRACK_OPEN, 0, 0, NULL);
	return err;
}

uint32_t ffl_track_closed(void)
{
	return num_closed;
}

static bool is_in(const struct ffl_lazy *l, const struct ffl_context *ctx, uintptr_t at)
{
	return l->mr->ctx == ctx && at >= ffl_lazy_from(l) && at < ffl_lazy_to(l);
}

void ffl_track_add(const struct ffl_lazy *l)
{
	struct ffl_context *ctx = l->mr->ctx;
	uintptr_t from = ffl_lazy_from(l), to = ffl_lazy_to(l);
	int uffd;

	if (track_pages(ctx, FF_TRACK_GET, from, to, &uffd))
		return;
	if (set_all(uffd, from, to, true))
		track_pages(ctx, FF_TRACK_ALL, from, to, NULL);
	close(uffd);
}

/* [at, to) is not tracked any more, but for what MRs of the context have. */
static void untrack(struct ffl_context *ctx, uintptr_t at, uintptr_t to,
		    const struct ffl_lazy *lazies, int uffd)
{
	while (at < to) {
		const struct ffl_lazy *in = NULL;
		uintptr_t end = to;

		for (const struct ffl_lazy *l = lazies; l && !in; l = l->next) {
			if (is_in(l, ctx, at))
				in = l;
			else if (l->mr->ctx == ctx && ffl_lazy_from(l) > at &&
				 ffl_lazy_from(l) < end)
				end = ffl_lazy_from(l);
		}
		if (in)
			end = ffl_lazy_to(in);
		else
			set_all(uffd, at, end, false);
		at = end;
	}
}

static void left_end(uint32_t i, const struct ffl_lazy *lazies)
{
	const struct left l = left[i];
	int uffd = close_pages(l.ctx, l.from, l.to);

	left[i] = left[--num_left];
	if (uffd < 0)
		return;
	untrack(l.ctx, l.from, l.to, lazies, uffd);
	track_pages(l.ctx, FF_TRACK_OPEN, 0, 0, NULL);
	close(uffd);
}

static uint32_t left_oldest(void)
{
	uint32_t oldest = 0;

	for (uint32_t i = 1; i < num_left; i++)
		if (left[i].since < left[oldest].since)
			oldest = i;
	return oldest;
}

void ffl_track_leave(struct ffl_context *ctx, uintptr_t from, uintptr_t to)
{
	const struct left l = {
		.ctx = ctx,
		.from = from,
		.to = to,
		.since = ffl_clock_ns(CLOCK_MONOTONIC),
	};
	uint32_t i;

	for (i = 0; i < num_left; i++)
		if (left[i].ctx == l.ctx && left[i].from == l.from && left[i].to == l.to)
			break;
	if (i == LEFT_MAX) /* what was there stays registered */
		i = left_oldest();
	left[i] = l;
	num_left += i == num_left;
}

void ffl_track_sweep(const struct ffl_context *ctx, const struct ffl_lazy *lazies)
{
	uint64_t now = ffl_clock_ns(CLOCK_MONOTONIC);

	if (num_left == LEFT_MAX)
		left_end(left_oldest(), lazies);
	for (uint32_t i = num_left; i-- > 0;)
		if (left[i].ctx == ctx && now - left[i].since >= LEAVE_NS)
			left_end(i, lazies);
}

void ffl_track_forget(const struct ffl_context *ctx)
{
	for (uint32_t i = num_left; i-- > 0;)
		if (!ctx || left[i].ctx == ctx)
			left[i] = left[--num_left];
}

int ffl_track_close(struct ffl_context *ctx, uintptr_t from, uintptr_t to)
{
	int uffd = close_pages(ctx, from, to);

	if (uffd >= 0)
		set_all(uffd, from, to, false);
	return uffd;
}

bool ffl_track_release(struct ffl_context *ctx, uintptr_t from, uintptr_t to)
{
	int uffd = ffl_track_close(ctx, from, to);

	if (uffd < 0)
		return false;
	track_pages(ctx, FF_TRACK_OPEN, 0, 0, NULL);
	close(uffd);
	return true;
}

bool ffl_track_any(void)
{
	return atomic_load(&any);
}

void ffl_track_open(struct ffl_context *ctx, uintptr_t from, uintptr_t to, int uffd)
{
	set_all(uffd, from, to, true);
	track_pages(ctx, FF_TRACK_OPEN, 0, 0, NULL);
}
