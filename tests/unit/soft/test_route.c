/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c -Wl,--wrap=dir_path */
/*
 * test_route.c - whom a path leads to: what a QP makes of each of the directory's answers, and containers
 * on different fast threads.
 */
#include <string.h>

#include "ffr/dir/dir.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

/* What the directory answers; NULL: it is asked itself. */
static const struct answers {
	enum dir_answer is;
	struct container *here;
	struct remote *there;
} * answers;

enum dir_answer __real_dir_path(struct fast *f, const struct container *from,
				const struct ff_ah_attr *ah, struct container **here,
				struct remote **there);
enum dir_answer __wrap_dir_path(struct fast *f, const struct container *from,
				const struct ff_ah_attr *ah, struct container **here,
				struct remote **there);
enum dir_answer __wrap_dir_path(struct fast *f, const struct container *from,
				const struct ff_ah_attr *ah, struct container **here,
				struct remote **there)
{
	if (!answers)
		return __real_dir_path(f, from, ah, here, there);
	*here = answers->here;
	*there = answers->there;
	return answers->is;
}

static void tenants_do_not_reach_each_other(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 3);
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	pair_wait_for_tries(&p);
	pair_expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	pair_down(&p);
}

/* Who is to be waited for is held on to, and let go of when the path leads elsewhere or nowhere. */
static void answers_of_the_directory(void **state)
{
	struct pair *p = *state;
	struct remote later = { .refs = 1 }, other = { .refs = 1 };
	struct container *c;
	struct soft_qp *sq;

	sq = p->qp[0]->qp.soft;
	c = p->s[1]->s.cont;
	const struct {
		struct answers a;
		struct container *dest;
		struct remote *there;
	} step[] = {
		{ { DIR_WAIT, NULL, &later }, NULL, &later },
		{ { DIR_WAIT, NULL, &later }, NULL, &later }, /* no second reference */
		{ { DIR_NOBODY, NULL, &other }, NULL, &other },
		{ { DIR_HERE, c, NULL }, c, NULL },
		{ { DIR_NOBODY, NULL, NULL }, NULL, NULL },
		{ { DIR_WAIT, NULL, &later }, NULL, &later },
		{ { DIR_DENIED, NULL, &later }, NULL, NULL },
		{ { DIR_WAIT, NULL, &other }, NULL, &other },
	};
	for (unsigned i = 0; i < ARRAY_SIZE(step); i++) {
		answers = &step[i].a;
		route_resolve(p->r.f, &p->qp[0]->qp);
		assert_ptr_equal(sq->qp->dest, step[i].dest);
		assert_ptr_equal(sq->there, step[i].there);
		assert_false(route_is_remote(&p->qp[0]->qp));
		assert_int_equal(later.refs, 1 + (step[i].there == &later));
		assert_int_equal(other.refs, 1 + (step[i].there == &other));
	}
	route_forget(p->r.f, &p->qp[0]->qp);
	assert_null(sq->there);
	assert_int_equal(other.refs, 1);
	answers = NULL;
}

/* A QP that waits for somebody has a reference to whom it waits for, and RESET gives it back. */
static void reset_forgets(void **state)
{
	struct pair *p = *state;
	struct remote later = { .refs = 1 };
	struct answers wait = { DIR_WAIT, NULL, &later };

	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	answers = &wait;
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	assert_int_equal(later.refs, 2);
	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p->r);
	pair_expect_none(p->cq[0]);
	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	assert_int_equal(later.refs, 1);
	answers = NULL;
}

static unsigned wanted;

static void want_near(struct fast_host *host)
{
	(void)host;
	wanted++;
}

/* No operation takes two threads' locks: who is on another one is brought here first, which is asked for. */
static void another_thread_is_waited_for(void **state)
{
	struct ff_ah_attr to_1 = { .is_global = 1 }, to_nobody = { .is_global = 1 };
	struct container *here;
	struct remote *there;
	struct fast *f[2];
	struct rig r;

	(void)state;
	rig_threads = 2;
	rig_init(&r, &soft_ops);
	rig_threads = 1;
	r.f->host->want_near = want_near;
	wanted = 0;
	for (int i = 0; i < 2; i++) {
		f[i] = r.f->host->threads[i];
		assert_ptr_equal(r.cont[i].fast, f[i]);
	}
	memcpy(to_1.dgid, r.cont[1].gid[0].raw, 16);
	for (int i = 0; i < 2; i++) { /* asked for once */
		assert_int_equal(route_path(f[0], &r.cont[0], &to_1, &here, &there), DIR_WAIT);
		assert_null(here);
		assert_ptr_equal(r.cont[0].place.near, &r.cont[1]);
		assert_int_equal(wanted, 1);
	}
	assert_int_equal(route_path(f[1], &r.cont[1], &to_1, &here, &there), DIR_HERE);
	assert_ptr_equal(here, &r.cont[1]);

	/* other hosts are the first thread's, if there may be any */
	memset(to_nobody.dgid, 0x77, 16);
	assert_int_equal(route_path(f[1], &r.cont[1], &to_nobody, &here, &there), DIR_NOBODY);
	assert_int_equal(wanted, 1);
	r.f->host->wired = true;
	assert_int_equal(route_path(f[0], &r.cont[0], &to_nobody, &here, &there), DIR_NOBODY);
	assert_int_equal(wanted, 1);
	assert_int_equal(route_path(f[1], &r.cont[1], &to_nobody, &here, &there), DIR_NOBODY);
	assert_int_equal(wanted, 2);
	assert_true(r.cont[1].place.near_first);
	assert_false(r.cont[0].place.near_first);
	r.f->host->wired = false;
	rig_fini(&r);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(tenants_do_not_reach_each_other),
			PAIR_TEST(answers_of_the_directory), PAIR_TEST(reset_forgets),
			cmocka_unit_test(another_thread_is_waited_for));
}
