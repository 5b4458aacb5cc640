/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* load_pair.c - see load_pair.h. */
#include "tests/rig/unit/load_pair.h"

#include <stdlib.h>

struct pair load_pair;

int load_setup(void **state)
{
	(void)state;
	pair_up(&load_pair, IBV_QPT_RC, 0, 1);
	return 0;
}

int load_teardown(void **state)
{
	(void)state;
	pair_down(&load_pair);
	return 0;
}

struct load load_of(uint8_t op, uint32_t len)
{
	return (struct load){
		.qp = load_pair.qp[0],
		.cq = load_pair.cq[0],
		.from = load_pair.mr[0],
		.to = load_pair.mr[1],
		.op = op,
		.len = len,
	};
}

void load_keep_full(struct load *l)
{
	struct ff_cqe c;

	if (load_pair.r.f->now < l->looks)
		return;
	l->looks = load_pair.r.f->now + l->pause;
	while (rig_poll(l->cq, &c)) {
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		l->completed++;
	}
	while (l->posted - l->completed < 8) {
		struct ff_sqe *e = rig_sqe(l->qp, l->op, l->posted++);

		rig_sge(e, l->from, l->from->addr, l->len);
		e->remote_addr = l->to->addr;
		e->rkey = l->to->rkey;
		rig_post(&load_pair.r, l->qp);
	}
}

void load_run(struct load *l, int num, uint64_t ns)
{
	struct fast *f = load_pair.r.f;
	uint64_t end = f->now + ns;

	while (f->now < end) {
		uint64_t next;

		for (int i = 0; i < num; i++)
			load_keep_full(&l[i]);
		if (fast_turn(f))
			continue;
		next = timer_next(&f->timers);
		for (int i = 0; i < num; i++)
			if (l[i].looks > f->now && l[i].looks < next)
				next = l[i].looks;
		assert_true(next != UINT64_MAX); /* else nothing holds it back */
		f->now = next < end ? next : end;
	}
}

uint64_t load_moved(const struct load *l)
{
	const struct soft_qp *sq = l->qp->qp.soft;

	return l->completed * l->len + (l->qp->qp.busy ? sq->req.x.done : 0);
}

void load_near(uint64_t value, uint64_t want, unsigned permille)
{
	assert_in_range(value, want - want * permille / 1000, want + want * permille / 1000);
}

void load_two_up(struct load_two *t, uint32_t len0, uint32_t len2)
{
	t->s = rig_session(&load_pair.r, 2);
	t->cq = rig_cq(&load_pair.r, t->s, 64, true);
	t->qp = rig_qp(&load_pair.r, t->s, IBV_QPT_RC, t->cq, t->cq, NULL);
	t->to = rig_qp(&load_pair.r, load_pair.s[1], IBV_QPT_RC, load_pair.cq[1], load_pair.cq[1],
		       NULL);
	t->buf = calloc(1, PAIR_BUF);
	t->mr = rig_mr(&load_pair.r, t->s, t->buf, PAIR_BUF, PAIR_ACCESS);
	rig_connect(&load_pair.r, t->qp, t->to);
	rig_connect(&load_pair.r, t->to, t->qp);
	t->ld[0] = load_of(FF_OP_WRITE, len0);
	t->ld[1] = load_of(FF_OP_WRITE, len2);
	t->ld[1].qp = t->qp;
	t->ld[1].cq = t->cq;
	t->ld[1].from = t->mr;
}

void load_two_down(struct load_two *t)
{
	rig_qp_free(&load_pair.r, t->qp);
	rig_qp_free(&load_pair.r, t->to);
	rig_mr_free(&load_pair.r, t->mr);
	rig_cq_free(&load_pair.r, t->cq);
	rig_session_free(&load_pair.r, t->s);
	free(t->buf);
}

void load_turns(struct load_two *t, int n)
{
	while (n--) {
		load_keep_full(&t->ld[0]);
		load_keep_full(&t->ld[1]);
		fast_turn(load_pair.r.f);
	}
}
