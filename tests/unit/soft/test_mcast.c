/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rig.c */
/*
 * test_mcast.c - ffr/soft/mcast.c: groups, their limits, and who gets what is sent to them.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/rig/unit/unit.h"
#include "ffr/soft/soft.h"
#include "tests/rig/unit/rig.h"

#define BUF	  65536u
#define MCAST_QPN 0xffffffu
#define GRH	  SOFT_GRH_SZ

/* A UD QP with all it needs, in RTS. */
struct end {
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp;
	struct mr *mr;
	uint8_t *buf;
	struct ah ah; /* of the group */
};

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };
static struct rig r;

static void up(struct end *e, int container)
{
	memset(e, 0, sizeof(*e));
	e->s = rig_session(&r, container);
	e->cq = rig_cq(&r, e->s, 64, true);
	e->qp = rig_qp(&r, e->s, IBV_QPT_UD, e->cq, e->cq, NULL);
	e->buf = mmap(NULL, BUF, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(e->buf, MAP_FAILED);
	e->mr = rig_mr(&r, e->s, e->buf, BUF, IBV_ACCESS_LOCAL_WRITE);
	rig_connect(&r, e->qp, NULL);
	e->ah.o.kind = OBJ_AH;
	e->ah.o.ses = &e->s->s;
	e->ah.pd = &e->s->pd;
	e->ah.attr.is_global = 1;
	e->ah.attr.hop_limit = 3;
	e->ah.mcast = true;
	memcpy(e->ah.attr.dgid, group.raw, 16);
	assert_int_equal(obj_insert(&e->s->s.tab[OBJ_AH], &e->ah.o), 0);
}

static void down(struct end *e)
{
	obj_remove(&e->s->s.tab[OBJ_AH], &e->ah.o);
	if (e->qp)
		rig_qp_free(&r, e->qp);
	rig_mr_free(&r, e->mr);
	rig_cq_free(&r, e->cq);
	rig_session_free(&r, e->s);
	munmap(e->buf, BUF);
}

static int attach(struct end *e)
{
	return mcast_attach(r.f, &e->qp->qp, &group, 0);
}

static void post_recv(struct end *e, uint64_t id, uint64_t off, uint32_t len)
{
	rig_recv(&r, e->qp, id, e->mr, (uintptr_t)e->buf + off, len);
}

static struct ff_sqe *sqe(struct end *e, uint64_t id, uint32_t len)
{
	struct ff_sqe *s = rig_sqe(e->qp, FF_OP_SEND, id);

	rig_sge(s, e->mr, (uintptr_t)e->buf, len);
	s->ud.ah = e->ah.o.handle;
	s->ud.remote_qpn = MCAST_QPN;
	s->ud.remote_qkey = 0x1111;
	return s;
}

static void post_send(struct end *e, uint64_t id, uint32_t len)
{
	sqe(e, id, len);
	rig_post(&r, e->qp);
	rig_run(&r);
}

static struct ff_cqe expect(struct end *e, uint64_t id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	assert_true(rig_poll(e->cq, &c));
	assert_int_equal(c.wr_id, id);
	assert_int_equal(c.status, st);
	return c;
}

static void expect_none(struct end *e)
{
	struct ff_cqe c;

	assert_false(rig_poll(e->cq, &c));
}

static int setup(void **state)
{
	(void)state;
	rig_init(&r, &soft_ops);
	return 0;
}

static int teardown(void **state)
{
	struct soft_dev *dev = r.be.priv;
	bool left = dev->mcast.groups;

	(void)state;
	for (int i = 0; i < 4; i++)
		left |= r.cont[i].num_mcast != 0;
	rig_fini(&r);
	return left ? -1 : 0;
}

/* Two receivers in one container, one in another, one of another tenant, one not attached. */
static void everybody_in_the_group(void **state)
{
	struct end from, to[5];
	const int cont[5] = { 1, 1, 2, 3, 1 };

	(void)state;
	up(&from, 0);
	memset(from.buf, 0x5a, 100);
	for (int i = 0; i < 5; i++) {
		up(&to[i], cont[i]);
		if (i != 4)
			assert_int_equal(attach(&to[i]), 0);
		post_recv(&to[i], 10, 0, 200);
	}
	post_send(&from, 1, 100);
	expect(&from, 1, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++) {
		struct ff_cqe c = expect(&to[i], 10, IBV_WC_SUCCESS);

		assert_int_equal(c.byte_len, 100 + GRH);
		assert_int_equal(c.flags, FF_CQE_GRH);
		assert_int_equal(c.src_qp, from.qp->qp.qp_num);
		assert_int_equal(to[i].buf[0] >> 4, 6);
		assert_memory_equal(to[i].buf + 8, from.s->s.cont->gid[0].raw, 16);
		assert_memory_equal(to[i].buf + 24, group.raw, 16);
		assert_memory_equal(to[i].buf + GRH, from.buf, 100);
		assert_int_equal(to[i].buf[GRH + 100], 0);
	}
	expect_none(&to[3]);
	expect_none(&to[4]);
	for (int i = 0; i < 5; i++)
		down(&to[i]);
	/* nobody is left */
	post_send(&from, 2, 100);
	expect(&from, 2, IBV_WC_SUCCESS);
	down(&from);
}

/* RoCE v2 has IPv4 groups, too. */
static void ipv4_group(void **state)
{
	static const union ibv_gid v4 = { .raw = { [10] = 0xff, [11] = 0xff, 0xe1, 2, 3, 4 } };
	struct end from, to;

	(void)state;
	up(&from, 0);
	up(&to, 1);
	memcpy(from.ah.attr.dgid, v4.raw, 16);
	assert_int_equal(mcast_attach(r.f, &to.qp->qp, &v4, 0), 0);
	post_recv(&to, 10, 0, 200);
	post_send(&from, 1, 8);
	expect(&to, 10, IBV_WC_SUCCESS);
	/* the header is IPv4's */
	assert_int_equal(to.buf[20], 0x45);
	assert_memory_equal(to.buf + 32, from.s->s.cont->gid[0].raw + 12, 4);
	assert_memory_equal(to.buf + 36, v4.raw + 12, 4);
	down(&to);
	down(&from);
}

/* The sender is a member like all others, unless it was created not to be. */
static void loopback(void **state)
{
	struct end a, b;

	(void)state;
	up(&a, 0);
	up(&b, 0);
	assert_int_equal(attach(&a), 0);
	assert_int_equal(attach(&b), 0);
	memset(a.buf, 0x77, 8);
	post_recv(&a, 10, 1000, 100);
	post_recv(&b, 20, 1000, 100);
	post_send(&a, 1, 8);
	expect(&a, 10, IBV_WC_SUCCESS);
	expect(&a, 1, IBV_WC_SUCCESS);
	expect(&b, 20, IBV_WC_SUCCESS);
	assert_memory_equal(a.buf + 1000 + GRH, a.buf, 8);

	a.qp->qp.block_self_lb = true;
	post_recv(&a, 11, 1000, 100);
	post_recv(&b, 21, 1000, 100);
	post_send(&a, 2, 8);
	expect(&a, 2, IBV_WC_SUCCESS);
	expect(&b, 21, IBV_WC_SUCCESS);
	expect_none(&a);
	/* what others send it gets */
	post_recv(&b, 22, 1000, 100);
	post_send(&b, 3, 8);
	expect(&a, 11, IBV_WC_SUCCESS);
	expect(&b, 22, IBV_WC_SUCCESS);
	expect(&b, 3, IBV_WC_SUCCESS);
	down(&a);
	down(&b);
}

/* Whatever is wrong with a receiver is wrong for that one. */
static void each_for_itself(void **state)
{
	enum { GOOD, NO_RECV, QKEY, SHORT, BAD_KEY, NOT_RTR, LAST, NUM };
	struct end from, to[NUM];

	(void)state;
	up(&from, 0);
	for (int i = 0; i < NUM; i++) {
		up(&to[i], 1);
		assert_int_equal(attach(&to[i]), 0);
		if (i == BAD_KEY)
			to[i].mr->access = 0;
		if (i != NO_RECV)
			post_recv(&to[i], 10, 0, i == SHORT ? GRH + 7 : 100);
	}
	to[QKEY].qp->qp.attr.qkey = 0x2222;
	rig_state(&r, to[NOT_RTR].qp, IBV_QPS_RESET);
	post_send(&from, 1, 8);
	expect(&from, 1, IBV_WC_SUCCESS);
	expect(&to[GOOD], 10, IBV_WC_SUCCESS);
	expect(&to[LAST], 10, IBV_WC_SUCCESS);
	expect_none(&to[NO_RECV]);
	expect_none(&to[QKEY]);
	expect_none(&to[SHORT]);
	expect_none(&to[NOT_RTR]);
	expect(&to[BAD_KEY], 10, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(to[BAD_KEY].qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(stats_of_session(&to[NO_RECV].s->s).ud_drops, 1);
	assert_int_equal(stats_of_session(&to[QKEY].s->s).ud_drops, 1);
	assert_int_equal(stats_of_session(&from.s->s).ud_drops, 0);
	/* the receive that was too short is there for a message that fits */
	post_send(&from, 2, 7);
	expect(&to[SHORT], 10, IBV_WC_SUCCESS);
	for (int i = 0; i < NUM; i++)
		down(&to[i]);
	down(&from);
}

/* The destination of a message to a group is the QP number of multicast, of no other. */
static void qp_number(void **state)
{
	struct end from, to;

	(void)state;
	up(&from, 0);
	up(&to, 1);
	assert_int_equal(attach(&to), 0);
	post_recv(&to, 10, 0, 100);
	sqe(&from, 1, 8)->ud.remote_qpn = to.qp->qp.qp_num;
	rig_post(&r, from.qp);
	rig_run(&r);
	expect(&from, 1, IBV_WC_SUCCESS);
	expect_none(&to);
	/* and that number is nobody's address but a group's */
	from.ah.mcast = false;
	memcpy(from.ah.attr.dgid, to.s->s.cont->gid[0].raw, 16);
	post_send(&from, 2, 8);
	expect(&from, 2, IBV_WC_SUCCESS);
	expect_none(&to);
	down(&to);
	down(&from);
}

/* The sender's own mistakes are found before anything is sent, or fail the sender alone. */
static void bad_sender(void **state)
{
	struct end from, to;

	(void)state;
	up(&from, 0);
	up(&to, 1);
	assert_int_equal(attach(&to), 0);
	post_recv(&to, 10, 0, 8192);
	post_send(&from, 1, SOFT_MTU + 1);
	expect(&from, 1, IBV_WC_LOC_LEN_ERR);
	expect_none(&to);
	assert_int_equal(from.qp->qp.state, IBV_QPS_SQE);
	rig_state(&r, from.qp, IBV_QPS_RTS);
	sqe(&from, 2, 8)->sge[0].lkey ^= 1;
	rig_post(&r, from.qp);
	rig_run(&r);
	expect(&from, 2, IBV_WC_LOC_PROT_ERR);
	expect_none(&to);
	rig_state(&r, from.qp, IBV_QPS_RTS);
	post_send(&from, 3, SOFT_MTU);
	expect(&from, 3, IBV_WC_SUCCESS);
	expect(&to, 10, IBV_WC_SUCCESS);
	down(&to);
	down(&from);
}

/* Attached by two LIDs: one copy; it leaves with the last. */
static void lids(void **state)
{
	struct end a;
	struct qp *qp;

	(void)state;
	up(&a, 0);
	qp = &a.qp->qp;
	assert_int_equal(mcast_attach(r.f, qp, &group, 0xc001), 0);
	assert_int_equal(mcast_attach(r.f, qp, &group, 0xc001), 0);
	assert_int_equal(mcast_attach(r.f, qp, &group, 0xc002), 0);
	assert_int_equal(qp->o.refs, 2);
	for (int lap = 0; lap < 2; lap++) {
		post_recv(&a, 10, 1000, 100);
		post_recv(&a, 11, 1000, 100);
		post_send(&a, 1, 8);
		expect(&a, 10, IBV_WC_SUCCESS);
		expect(&a, 1, IBV_WC_SUCCESS);
		post_send(&a, 2, 8);
		expect(&a, 11, IBV_WC_SUCCESS);
		expect(&a, 2, IBV_WC_SUCCESS);
		assert_int_equal(mcast_detach(r.f, qp, &group, 0xc003), -EINVAL);
		assert_int_equal(mcast_detach(r.f, qp, &group, lap ? 0xc002 : 0xc001), 0);
	}
	assert_int_equal(mcast_detach(r.f, qp, &group, 0xc002), -EINVAL);
	assert_int_equal(qp->o.refs, 0);
	post_recv(&a, 12, 1000, 100);
	post_send(&a, 3, 8);
	expect(&a, 3, IBV_WC_SUCCESS);
	expect_none(&a);
	down(&a);
}

static union ibv_gid numbered(uint32_t n)
{
	union ibv_gid gid = group;

	memcpy(gid.raw + 8, &n, sizeof(n));
	return gid;
}

/* What a container may attach is its own affair: the next one begins from nothing. */
static void limits(void **state)
{
	static struct end e[MCAST_MAX_GROUP + 1];
	struct end other;
	union ibv_gid gid;
	uint32_t n;

	(void)state;
	up(&other, 1);
	for (n = 0; n <= MCAST_MAX_GROUP; n++) {
		up(&e[n], 0);
		assert_int_equal(attach(&e[n]), n < MCAST_MAX_GROUP ? 0 : -ENOMEM);
	}
	assert_int_equal(attach(&other), 0);
	assert_int_equal(mcast_detach(r.f, &e[0].qp->qp, &group, 0), 0);
	assert_int_equal(attach(&e[MCAST_MAX_GROUP]), 0);
	for (n = MCAST_MAX_GROUP; n <= MCAST_MAX_CONTAINER; n++) {
		gid = numbered(n);
		assert_int_equal(mcast_attach(r.f, &e[n % 7].qp->qp, &gid, 0),
				 n < MCAST_MAX_CONTAINER ? 0 : -ENOMEM);
	}
	gid = numbered(5);
	assert_int_equal(mcast_attach(r.f, &other.qp->qp, &gid, 0), 0);
	for (n = 0; n <= MCAST_MAX_GROUP; n++)
		down(&e[n]);
	down(&other);
}

/* Many receivers take more than a turn: others get theirs meanwhile, and the group may change. */
static void quanta(void **state)
{
	enum { N = 8 };
	struct end from, to[N];

	(void)state;
	r.f->conf.quantum = 100;
	up(&from, 0);
	for (int i = 0; i < N; i++) {
		up(&to[i], 1);
		assert_int_equal(attach(&to[i]), 0);
		post_recv(&to[i], 10, 0, 200);
	}
	sqe(&from, 1, 60); /* a copy of 100 bytes each */
	rig_post(&r, from.qp);
	fast_turn(r.f);
	expect(&to[0], 10, IBV_WC_SUCCESS);
	expect_none(&to[1]);
	expect_none(&from);
	/* the second leaves, one comes too late */
	assert_int_equal(mcast_detach(r.f, &to[1].qp->qp, &group, 0), 0);
	assert_int_equal(mcast_detach(r.f, &to[0].qp->qp, &group, 0), 0);
	assert_int_equal(attach(&to[0]), 0);
	post_recv(&to[0], 11, 0, 200);
	/* the third is destroyed */
	rig_qp_free(&r, to[2].qp);
	to[2].qp = NULL;
	rig_run(&r);
	expect(&from, 1, IBV_WC_SUCCESS);
	expect_none(&to[0]);
	expect_none(&to[1]);
	for (int i = 3; i < N; i++)
		expect(&to[i], 10, IBV_WC_SUCCESS);
	/* the sender goes in the middle of it */
	for (int i = 3; i < N; i++)
		post_recv(&to[i], 12, 0, 200);
	sqe(&from, 2, 60);
	rig_post(&r, from.qp);
	fast_turn(r.f);
	rig_state(&r, from.qp, IBV_QPS_RESET);
	rig_run(&r);
	expect_none(&to[N - 1]);
	for (int i = 0; i < N; i++)
		down(&to[i]);
	down(&from);
}

/* Receivers, or the sender, whose memory no mapping reaches. */
static void process_memory(void **state)
{
	struct end from, to[3];

	(void)state;
	up(&from, 0);
	memset(from.buf, 0x33, 100);
	for (int i = 0; i < 3; i++) {
		up(&to[i], 1);
		assert_int_equal(attach(&to[i]), 0);
	}
	rig_mr_free(&r, to[1].mr);
	to[1].mr = rig_mr_pvm(&r, to[1].s, to[1].buf, BUF, IBV_ACCESS_LOCAL_WRITE);
	for (int lap = 0; lap < 2; lap++) {
		for (int i = 0; i < 3; i++)
			post_recv(&to[i], 10, 0, 200);
		post_send(&from, 1, 100);
		expect(&from, 1, IBV_WC_SUCCESS);
		for (int i = 0; i < 3; i++) {
			expect(&to[i], 10, IBV_WC_SUCCESS);
			assert_memory_equal(to[i].buf + GRH, from.buf, 100);
			memset(to[i].buf, 0, 200);
		}
		rig_mr_free(&r, from.mr);
		from.mr = rig_mr_pvm(&r, from.s, from.buf, BUF, IBV_ACCESS_LOCAL_WRITE);
	}
	/* memory that is gone fails its owner */
	pvm_patience = 0;
	munmap(to[1].buf, BUF);
	for (int i = 0; i < 3; i++)
		post_recv(&to[i], 11, 0, 200);
	post_send(&from, 2, 100);
	expect(&from, 2, IBV_WC_SUCCESS);
	expect(&to[0], 11, IBV_WC_SUCCESS);
	expect(&to[1], 11, IBV_WC_LOC_PROT_ERR);
	expect(&to[2], 11, IBV_WC_SUCCESS);
	for (int i = 0; i < 3; i++)
		down(&to[i]);
	down(&from);
}

static void gids(void **state)
{
	static const uint8_t v4[16] = { [10] = 0xff, [11] = 0xff, 0xe0, 0, 0, 1 };
	static const uint8_t unicast[16] = { [10] = 0xff, [11] = 0xff, 0xdf, 0, 0, 1 };
	static const uint8_t reserved[16] = { [10] = 0xff, [11] = 0xff, 0xf0, 0, 0, 1 };
	static const uint8_t other[16] = { 1, [10] = 0xff, [11] = 0xff, 0xe0, 0, 0, 1 };

	(void)state;
	assert_true(gid_is_mcast(group.raw));
	assert_true(gid_is_mcast(v4));
	assert_false(gid_is_mcast(unicast));
	assert_false(gid_is_mcast(reserved));
	assert_false(gid_is_mcast(other));
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

	return UNIT_RUN(T(everybody_in_the_group), T(ipv4_group), T(loopback), T(each_for_itself),
			T(qp_number), T(bad_sender), T(lids), T(limits), T(quanta),
			T(process_memory), T(gids));
}
