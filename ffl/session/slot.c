/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * slot.c - requests and answers through the session's shared memory, while the router looks there.
 * Call lock held; called by call.c, which uses the socket for the rest. The protocol is told in
 * abi/ff_ring.h.
 *
 * A call through the socket costs four system calls at least, two of which wake somebody; one
 * through the slot costs none when router and program have a core each. Where they share one, the
 * request goes through the slot, and the answer comes through the socket.
 */
#include <sched.h>
#include <string.h>
#include <sys/uio.h>

#include "ffl/session/ffl.h"

#define LOOKS  24u /* yields of the CPU while waiting for an answer; recv_answer() has as many */
#define PAUSES 64u /* looks at the slot between two yields */

bool ffl_slot_post(struct ffl_context *ctx, const struct iovec *iov, unsigned int n_iov, size_t len)
{
	struct ff_call_slot *s = ctx->hdr ? &ctx->hdr->call : NULL;
	uint32_t posted = FF_CALL_POSTED;
	uint8_t *to;

	if (!s || len > sizeof(s->packet) || !atomic_load_explicit(&s->awake, memory_order_relaxed))
		return false;
	to = s->packet;
	for (unsigned int i = 0; i < n_iov; i++) {
		if (iov[i].iov_len)
			memcpy(to, iov[i].iov_base, iov[i].iov_len);
		to += iov[i].iov_len;
	}
	atomic_store_explicit(&s->len, (uint32_t)len, memory_order_relaxed);
	atomic_store_explicit(&s->cpu, (uint32_t)sched_getcpu(), memory_order_relaxed);
	atomic_store_explicit(&s->wait, 0, memory_order_relaxed);
	atomic_store_explicit(&s->state, FF_CALL_POSTED, memory_order_release);
	/* the posting before the look at awake: pairs with the router's fence after awake = 0 */
	atomic_thread_fence(memory_order_seq_cst);
	return atomic_load_explicit(&s->awake, memory_order_relaxed) ||
	       !atomic_compare_exchange_strong(&s->state, &posted, FF_CALL_FREE);
}

/* The bytes of the answer, which is copied to iov as far as there is room. */
static size_t take(struct ff_call_slot *s, const struct iovec *iov, unsigned int n_iov)
{
	uint32_t len = atomic_load_explicit(&s->len, memory_order_relaxed), left, n;
	const uint8_t *from = s->packet;

	if (len > sizeof(s->packet))
		len = sizeof(s->packet);
	left = len;
	for (unsigned int i = 0; i < n_iov; i++) {
		n = iov[i].iov_len < left ? (uint32_t)iov[i].iov_len : left;
		memcpy(iov[i].iov_base, from, n);
		from += n;
		left -= n;
	}
	atomic_store_explicit(&s->state, FF_CALL_FREE, memory_order_relaxed);
	return len;
}

static bool answered(struct ff_call_slot *s)
{
	return atomic_load_explicit(&s->state, memory_order_acquire) == FF_CALL_ANSWERED;
}

size_t ffl_slot_answer(struct ffl_context *ctx, uint32_t seq, const struct iovec *iov,
		       unsigned int n_iov)
{
	struct ff_call_slot *s = &ctx->hdr->call;
	uint32_t cpu = atomic_load_explicit(&s->cpu, memory_order_relaxed);
	/* on this CPU it can only look when this thread sleeps; a yield may not be enough for that */
	bool local = atomic_load_explicit(&s->awake, memory_order_relaxed) == 1 + cpu;
	unsigned int looks = local ? 0 : LOOKS;

	for (; looks; looks--) {
		for (unsigned int i = 0; i < PAUSES; i++) {
			if (answered(s))
				return take(s, iov, n_iov);
			ff_relax();
		}
		sched_yield();
	}
	atomic_store_explicit(&s->wait, seq, memory_order_relaxed);
	/* wait before the last look: pairs with the router's fence after its answer */
	atomic_thread_fence(memory_order_seq_cst);
	if (answered(s) && atomic_compare_exchange_strong(&s->wait, &seq, 0))
		return take(s, iov, n_iov);
	return 0;
}
