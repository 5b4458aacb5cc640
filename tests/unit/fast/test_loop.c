/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/deep_rig.c tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c tests/rig/unit/fake_rig.c */
/*
 * test_loop.c - news of QPs and SRQs, which a turn looks at a part of; and what a client writes there
 * that cannot be.
 */
#include <string.h>

#include "tests/rig/unit/deep_rig.h"
#include "tests/rig/unit/fake_rig.h"
#include "tests/rig/unit/unit.h"

static uint32_t bits_left(const struct session *s)
{
	uint32_t n = 0;

	for (unsigned i = 0; i < FF_MAX_QP / 64; i++)
		n += (uint32_t)__builtin_popcountll(atomic_load(&s->hdr->dirty[i]));
	return n;
}

/* All QPs are said to have news: others' are looked at in the same turn, all of them in the end. */
static void news_of_qps(void **state)
{
	struct rig_one *f = *state;
	struct rig_ses *two = rig_session(&f->r, 0), *other = rig_session(&f->r, 1);
	struct session *s = &f->s->s;
	uint32_t left = FF_MAX_QP;

	for (unsigned i = 0; i < FF_MAX_QP / 64; i++)
		atomic_store(&s->hdr->dirty[i], UINT64_MAX);
	for (unsigned i = 0; i < FF_MAX_QP / 4096; i++)
		atomic_store(&s->hdr->dirty_sum[i], UINT64_MAX);
	for (int i = 0; i < 2; i++) {
		atomic_store(&(i ? two : other)->s.hdr->dirty[0], 1);
		atomic_store(&(i ? two : other)->s.hdr->dirty_sum[0], 1);
	}
	ses_activate(f->r.f, s);
	ses_activate(f->r.f, &two->s);
	ses_activate(f->r.f, &other->s);
	fast_turn(f->r.f);
	assert_in_range(left - bits_left(s), 1, 256);
	assert_int_equal(bits_left(&other->s), 0);
	/* its own container's next session is first in the next turn */
	fast_turn(f->r.f);
	assert_int_equal(bits_left(&two->s), 0);
	for (left = bits_left(s); left; left = bits_left(s)) {
		fast_turn(f->r.f);
		assert_in_range(left - bits_left(s), 1, 256);
	}
	for (unsigned i = 0; i < FF_MAX_QP / 4096; i++)
		assert_int_equal(atomic_load(&s->hdr->dirty_sum[i]), 0);
	rig_session_free(&f->r, two);
	rig_session_free(&f->r, other);
}

static void news_of_srqs(void **state)
{
	enum { N = 600 };
	struct rig_one *f = *state;
	struct session *s = &f->s->s;
	struct rig_srq *srq[N];
	uint32_t size;

	for (int i = 0; i < N; i++)
		srq[i] = rig_srq(&f->r, f->s, 1);
	size = s->tab[OBJ_SRQ].size;
	atomic_fetch_add(&s->hdr->srq_kick, 1);
	ses_activate(f->r.f, s);
	fast_turn(f->r.f);
	assert_int_equal(s->bells.srqs_left, size - 256);
	assert_false(fast_arm_all(f->r.f)); /* it does not sleep on that */
	fast_disarm_all(f->r.f);
	/* a kick in between is for all of them, also for those before */
	atomic_fetch_add(&s->hdr->srq_kick, 1);
	fast_turn(f->r.f);
	assert_int_equal(s->bells.srqs_left, size - 256);
	rig_run(&f->r);
	assert_int_equal(s->bells.srqs_left, 0);
	for (int i = 0; i < N; i++)
		rig_srq_free(&f->r, srq[i]);
}

/* What the client writes into its header is not believed. */
static void absurd_indices(void **state)
{
	struct rig_one *o = *state;

	memset(o->s->s.hdr, 0xff, sizeof(*o->s->s.hdr)); /* dirty bits of QPs that do not exist */
	rig_run(&o->r);
	atomic_store(&o->cq->cq.hdr->ci, 0x80000000);
	for (uint64_t i = 0; i < 64; i++) {
		rig_post_as_ffl(o, i);
		rig_run(&o->r);
		fake_complete(o->r.f, IBV_WC_SUCCESS);
	}
	rig_post_as_ffl(o, 64);
	rig_run(&o->r);
	fake_complete(o->r.f, IBV_WC_SUCCESS);
	rig_run(&o->r);
	/* the absurd consumer index made no room: an overrun, told to that client */
	assert_int_equal(rig_async(o->s, NULL), IBV_EVENT_CQ_ERR + 1);
	for (uint64_t i = 0; i < 64; i++) {
		struct ff_cqe *c = &o->cq->cq.ring[i];

		assert_int_equal(c->wr_id, i);
	}
}

int main(void)
{
	return UNIT_RUN(DEEP_TEST(news_of_qps), DEEP_TEST(news_of_srqs), FAKE_TEST(absurd_indices));
}
