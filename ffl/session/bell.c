/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * bell.c - telling the router that a queue has work. Any thread of the application. Called where work requests are
 * posted (verbs/post.h has the theory) and where a thread may sleep.
 *
 * Tests: tests/unit/ffl/verbs/test_post_bell.c
 */
#include <unistd.h>

#include "ffl/session/ffl.h"

/* The router sleeps until this thread does, and wants to know how long that takes. */
static void tell_time(struct ffl_context *ctx)
{
	atomic_store_explicit(&ctx->hdr->rang_at, ffl_clock_ns(CLOCK_MONOTONIC),
			      memory_order_relaxed);
}

/* Wake the router if it sleeps and asked for it. */
void ffl_bell(struct ffl_context *ctx)
{
	static const uint64_t one = 1;
	uint32_t how;
	ssize_t n;

	/* seq_cst, as the exchanges before it are: the dirty set (or srq_kick) before this look */
	if (!atomic_load(&ctx->hdr->need_wakeup))
		return;
	how = atomic_exchange(&ctx->hdr->need_wakeup, FF_WAKEUP_NONE);
	if (!how)
		return;
	if (how == FF_WAKEUP_TIMED)
		tell_time(ctx);
	/* EAGAIN: the counter is at its limit, so that the router is woken anyway. */
	do {
		n = write(ctx->bell_fd, &one, sizeof(one));
	} while (n < 0 && errno == EINTR);
}

/* Put the QP into the session's dirty set: its bit, then the summary's, which the router reads. */
void ffl_announce(struct ffl_context *ctx, uint32_t qp_handle)
{
	uint32_t i = FF_HANDLE_INDEX(qp_handle) % FF_MAX_QP;

	atomic_fetch_or(&ctx->hdr->dirty[i / 64], 1ull << i % 64);
	atomic_fetch_or(&ctx->hdr->dirty_sum[i / 4096], 1ull << i / 64 % 64);
	ffl_bell(ctx);
}

void ffl_ring_lazy(struct ffl_context *ctx)
{
	uint32_t handle;

	if (!atomic_load_explicit(&ctx->lazy_qp, memory_order_relaxed))
		return;
	handle = atomic_exchange(&ctx->lazy_qp, 0);
	if (handle)
		ffl_announce(ctx, handle);
}
