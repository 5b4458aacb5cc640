/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/model/c11.c */
/*
 * test_slot.c - ffl/session/slot.c in all orders that C11 allows, against a router that goes to
 * sleep as abi/ff_ring.h says: no request and no answer is lost, and none comes twice.
 */
#include <sched.h>
#include <string.h>
#include <sys/uio.h>

#include "ffl/session/ffl.h"
#include "tests/rig/model/c11_atomics.h"
#include "tests/rig/unit/unit.h"

/*
 * A client that takes the router to be on its own CPU looks once only, and where it looks for
 * longer the last look is the same one. So the model has the former alone: with CPU 0 while the
 * router is awake, with -1 while it sleeps.
 */
static int cpu;
#define sched_getcpu() cpu
#define ff_relax()     c11_leave()
#include "ffl/session/slot.c"

#define SEQ 7u

static struct ff_ses_hdr hdr;
static struct ffl_context ctx = { .hdr = &hdr };
static _Atomic uint32_t requests, answers; /* packets in the socket, to the router and from it */
static char packet[8];

static void reset(void)
{
	memset(&hdr.call, 0, sizeof(hdr.call));
	hdr.call.awake = 1;
	requests = answers = 0;
	c11_word(&hdr.call.awake, 4);
	c11_word(&hdr.call.state, 4);
	c11_word(&hdr.call.wait, 4);
	c11_word(&requests, 4);
	c11_word(&answers, 4);
}

static void client(void)
{
	struct iovec iov = { packet, sizeof(packet) };

	if (!ffl_slot_post(&ctx, &iov, 1, sizeof(packet)))
		c11_give(&requests);
	else if (ffl_slot_answer(&ctx, SEQ, &iov, 1))
		return;
	c11_take(&answers);
}

/* As ctl_serve_slot() of the router. */
static bool serve_slot(void)
{
	struct ff_call_slot *slot = &hdr.call;
	uint32_t state = FF_CALL_POSTED, seq = SEQ;

	if (atomic_load_explicit(&slot->state, memory_order_relaxed) != FF_CALL_POSTED ||
	    !atomic_compare_exchange_strong(&slot->state, &state, FF_CALL_TAKEN))
		return false;
	atomic_store_explicit(&slot->state, FF_CALL_ANSWERED, memory_order_release);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(&slot->wait, memory_order_relaxed) == seq &&
	    atomic_compare_exchange_strong(&slot->wait, &seq, 0))
		c11_give(&answers);
	return true;
}

static void router(void)
{
	if (serve_slot())
		return;
	atomic_store_explicit(&hdr.call.awake, 0, memory_order_relaxed);
	atomic_thread_fence(memory_order_seq_cst);
	if (serve_slot())
		return;
	c11_take(&requests);
	c11_give(&answers);
}

static const char *all_told(void)
{
	if (!c11_ended(0))
		return "the client waits for ever";
	if (c11_newest(&answers))
		return "an answer comes twice";
	return NULL;
}

static const char *explore(struct c11_program p)
{
	struct c11_result r;

	p.reset = reset;
	p.check = all_told;
	p.thread[0] = client;
	p.thread[1] = router;
	r = c11_explore(&p);
	assert_false(r.incomplete);
	assert_true(r.wrong || r.left < r.runs);
	return r.wrong;
}

static void nothing_is_lost(void **state)
{
	const char *wrong;

	(void)state;
	for (cpu = 0; cpu >= -1; cpu--) {
		wrong = explore((struct c11_program){ 0 });
		if (wrong)
			fail_msg("%s", wrong);
	}
	cpu = 0;
}

/* The test of the test: each side needs its fences. */
static void fences_are_needed(void **state)
{
	static const struct c11_mutant none, no_fence = { .no_fence = true };

	(void)state;
	assert_non_null(explore((struct c11_program){ .mutant = { no_fence, none } }));
	assert_non_null(explore((struct c11_program){ .mutant = { none, no_fence } }));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(nothing_is_lost), cmocka_unit_test(fences_are_needed));
}
