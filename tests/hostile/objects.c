/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* test: hostile */
/* timeout: 400 */
/*
 * objects.c - objects that end or change while work is under way: CQs that are resized and SRQs that are destroyed under
 * completions, QPs, MRs and windows that are gone while a peer writes to them, keys that were somebody's before; and
 * accesses one byte outside of a region. A client may break its own session by that. It gets no byte that it has no
 * key for, the router writes nothing more to memory whose end it has answered, and a victim beside it goes on.
 */
#include <sched.h>
#include <string.h>

#include "tests/rig/verbs/raw.h"

#define LENGTH	(64u << 10) /* bytes of an MR */
#define WHILE_S 4u

/* A session with a QP, and a peer of it in another one. */
struct pair {
	struct raw r[2];
	struct raw_qp q[2];
};

static void pair_open(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		raw_open(&p->r[i]);
		raw_qp_make(&p->r[i], &p->q[i], IBV_QPT_RC, LENGTH);
	}
}

static void pair_connect(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		raw_qp_connect_to(&p->r[i], &p->q[i], p->q[!i].qp_num);
		while (raw_cqe(&p->q[i]))
			;
	}
}

static void pair_close(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		CHECK(raw_canaries(&p->q[i]));
		raw_close(&p->r[i]);
	}
}

static void end(void)
{
	victim_check();
	victim_stop();
	raw_router_serves();
}

/* Of q[0], at that address of its peer's memory. */
static struct ff_sqe *remote(struct pair *p, uint8_t opcode, uint64_t addr, uint32_t rkey,
			     uint32_t len)
{
	struct ff_sqe *e = raw_sqe(&p->q[0]);

	memset(e, 0, p->q[0].q.sq.stride);
	raw_write_wr(&p->q[0], e, addr);
	e->opcode = opcode;
	e->remote_addr = addr;
	e->rkey = rkey;
	e->sge[0].length = len;
	return e;
}

static unsigned status_of(struct pair *p)
{
	struct ff_cqe *c;

	raw_publish(&p->r[0], &p->q[0]);
	WAIT_FOR((c = raw_cqe(&p->q[0])));
	return c->status;
}

/* ---- one byte outside -------------------------------------------------------------------------- */

/*
 * Operations of 8 bytes reach outside of the peer's region, and SGEs outside of the client's own. The memory around both
 * regions holds canaries.
 */
static void edges(void)
{
	static const struct {
		int64_t at; /* from the region's begin, or its end where it is `behind` */
		bool behind, good;
	} places[] = {
		{ 0, false, true },
		{ -8, true, true },
		{ -1, false, false },
		{ -7, true, false },
		{ -4, true, false },
		{ 0, true, false },
		{ -8, false, false },
		{ 8, true, false },
		{ INT64_MAX / 2, false, false },
		{ INT64_MIN / 2, false, false },
	};
	static const uint8_t ops[] = { FF_OP_WRITE, FF_OP_READ, FF_OP_CMP_SWAP, FF_OP_FETCH_ADD,
				       FF_OP_ATOMIC_WRITE };
	struct pair p;

	victim_start();
	pair_open(&p);
	for (unsigned o = 0; o < ARRAY_SIZE(ops); o++) {
		for (unsigned i = 0; i < 2 * ARRAY_SIZE(places); i++) {
			bool own = i >= ARRAY_SIZE(places), word = ops[o] >= FF_OP_CMP_SWAP;
			struct raw_qp *q = &p.q[own ? 0 : 1];
			uint64_t at = (uintptr_t)q->buf +
				      (places[i % ARRAY_SIZE(places)].behind ? LENGTH : 0) +
				      (uint64_t)places[i % ARRAY_SIZE(places)].at;
			bool good = places[i % ARRAY_SIZE(places)].good;
			struct ff_sqe *e;
			unsigned status;

			if (own && ops[o] == FF_OP_ATOMIC_WRITE)
				continue; /* it has no SGE */
			pair_connect(&p);
			memset(p.q[0].buf, 0x11, LENGTH);
			memset(p.q[1].buf, 0x22, LENGTH);
			e = remote(&p, ops[o], own ? (uintptr_t)p.q[1].buf : at, p.q[1].lkey, 8);
			if (own)
				e->sge[0].addr = at;
			if (ops[o] == FF_OP_ATOMIC_WRITE)
				e->num_sge = 0;
			if (word) {
				e->atomic.compare_add =
					ops[o] == FF_OP_CMP_SWAP ? 0x2222222222222222ull : 1;
				e->atomic.swap = 3;
			}
			status = status_of(&p);
			CHECK(raw_canaries(&p.q[0]) && raw_canaries(&p.q[1]));
			if (good) {
				CHECK_EQ(status, IBV_WC_SUCCESS);
				continue;
			}
			if (own)
				CHECK_EQ(status, IBV_WC_LOC_PROT_ERR);
			else /* an address that is none of a word, wherever it is */
				CHECK(status == IBV_WC_REM_ACCESS_ERR ||
				      (word && at % 8 && status == IBV_WC_REM_INV_REQ_ERR));
			CHECK(vt_all(p.q[1].buf, LENGTH, 0x22));
			/* what is read or swapped is not there either */
			CHECK(vt_all(p.q[0].buf, LENGTH, 0x11));
		}
	}
	/* a length that reaches beyond the end of all addresses */
	pair_connect(&p);
	remote(&p, FF_OP_WRITE, (uintptr_t)p.q[1].buf, p.q[1].lkey, UINT32_MAX);
	CHECK(status_of(&p) != IBV_WC_SUCCESS);
	pair_close(&p);
	end();
}

/* ---- keys that were somebody's ----------------------------------------------------------------- */

#define KEYS 400u

/* -EAGAIN: bytes of it are just being copied. */
static void dereg(struct raw *r, uint32_t mr)
{
	struct ff_dereg_mr_req req = { .mr = mr };
	struct ff_dereg_mr_resp none;
	int st;

	WAIT_FOR((st = RAW_TRY(r, DEREG_MR, &req, &none)) != -EAGAIN);
	CHECK_EQ(st, 0);
}

static struct ff_reg_mr_resp reg(struct raw *r, const struct raw_qp *q)
{
	struct ff_reg_mr_req req = { .addr = (uintptr_t)q->buf,
				     .length = LENGTH,
				     .iova = (uintptr_t)q->buf,
				     .pd = q->pd,
				     .access = VT_ACCESS_ALL };
	struct ff_reg_mr_resp mr;

	RAW_CALL(r, REG_MR, &req, &mr);
	return mr;
}

/* The same memory is registered anew all the time: no key opens it that opened it before, nor one beside the good one. */
static void old_keys(void)
{
	static uint32_t key[KEYS];
	struct ff_reg_mr_resp mr;
	uint32_t rnd = 5;
	struct pair p;

	victim_start();
	pair_open(&p);
	memset(p.q[1].buf, 0x22, LENGTH);
	mr = (struct ff_reg_mr_resp){ .mr = p.q[1].mr, .rkey = p.q[1].lkey };
	for (unsigned i = 0; i < KEYS; i++) {
		uint32_t bad;

		key[i] = mr.rkey;
		dereg(&p.r[1], mr.mr);
		mr = reg(&p.r[1], &p.q[1]);
		for (unsigned k = 0; k <= i; k++)
			CHECK(key[k] != mr.rkey);
		/* one of those before, the last one, a neighbour, one with another bit */
		bad = i % 4 == 0 ? key[vt_rand(&rnd) % (i + 1)] :
		      i % 4 == 1 ? key[i] :
		      i % 4 == 2 ? mr.rkey + (i % 8 < 4 ? 1 : -1u) :
				   mr.rkey ^ 1u << i / 4 % 32;
		pair_connect(&p);
		remote(&p, i % 3 ? FF_OP_WRITE : FF_OP_READ, (uintptr_t)p.q[1].buf, bad, 8);
		CHECK_EQ(status_of(&p), IBV_WC_REM_ACCESS_ERR);
		CHECK(vt_all(p.q[1].buf, LENGTH, 0x22));
	}
	/* and the good one is good */
	pair_connect(&p);
	remote(&p, FF_OP_WRITE, (uintptr_t)p.q[1].buf, mr.rkey, 8);
	CHECK_EQ(status_of(&p), IBV_WC_SUCCESS);
	pair_close(&p);
	end();
}

/* ---- the end of what is written to --------------------------------------------------------------- */

/* A full queue of WRITEs, READs and atomics with all of the peer's memory. */
static void fill_queue(struct pair *p, uint64_t addr, uint32_t rkey)
{
	static const uint8_t ops[] = { FF_OP_WRITE, FF_OP_FETCH_ADD, FF_OP_WRITE, FF_OP_READ };

	for (unsigned i = 0; i < 48; i++) {
		uint8_t op = ops[i % ARRAY_SIZE(ops)];
		struct ff_sqe *e = remote(p, op, addr, rkey, op == FF_OP_FETCH_ADD ? 8 : LENGTH);

		e->atomic.compare_add = op == FF_OP_FETCH_ADD ? 1 : 0;
		raw_publish(&p->r[0], &p->q[0]);
	}
}

/* Type 1, over all of the peer's memory, bound by its own QP. Its rkey. */
static uint32_t window(struct pair *p, uint32_t *mw)
{
	struct raw_qp *q = &p->q[1];
	struct ff_alloc_mw_req req = { .pd = q->pd, .type = IBV_MW_TYPE_1 };
	struct ff_alloc_mw_resp made;
	struct ff_sqe *e = raw_sqe(q);
	struct ff_cqe *c;

	RAW_CALL(&p->r[1], ALLOC_MW, &req, &made);
	*mw = made.mw;
	memset(e, 0, q->q.sq.stride);
	e->opcode = FF_OP_BIND_MW;
	e->flags = FF_SQE_SIGNALED;
	e->remote_addr = (uintptr_t)q->buf;
	e->imm = VT_ACCESS_ALL & ~(uint32_t)IBV_ACCESS_LOCAL_WRITE;
	e->rkey = made.rkey + 1;
	e->bind.length = LENGTH;
	e->bind.mw = made.mw;
	e->bind.lkey = q->lkey;
	raw_publish(&p->r[1], q);
	WAIT_FOR((c = raw_cqe(q)));
	CHECK_EQ(c->status, IBV_WC_SUCCESS);
	return e->rkey;
}

enum ends { END_MR, END_WINDOW, END_QP, END_BOTH_QPS, NUM_ENDS };
static const char *const ends_name[NUM_ENDS] = { "an MR", "a window", "its QP", "both QPs" };

static void destroy_qp(struct raw *r, const struct raw_qp *q)
{
	struct ff_destroy_qp_req req = { .qp = q->qp };
	struct ff_destroy_qp_resp none;

	RAW_CALL(r, DESTROY_QP, &req, &none);
}

/* Something ends in the middle of it. Once that was answered, memory stays as it is. */
static void once_ended(enum ends what, unsigned round)
{
	struct ff_dealloc_mw_resp none;
	struct raw_qp *q;
	struct pair p;
	uint32_t mw = 0, rkey;

	pair_open(&p);
	q = &p.q[1];
	dereg(&p.r[1], q->mr);
	{
		struct ff_reg_mr_req req = { .addr = (uintptr_t)q->buf,
					     .length = LENGTH,
					     .iova = (uintptr_t)q->buf,
					     .pd = q->pd,
					     .access = VT_ACCESS_ALL | IBV_ACCESS_MW_BIND };
		struct ff_reg_mr_resp mr;

		RAW_CALL(&p.r[1], REG_MR, &req, &mr);
		q->mr = mr.mr;
		q->lkey = mr.lkey;
	}
	pair_connect(&p);
	rkey = what == END_WINDOW ? window(&p, &mw) : q->lkey;
	memset(p.q[0].buf, 0x11, LENGTH);
	fill_queue(&p, (uintptr_t)q->buf, rkey);
	for (unsigned i = 0; i < round % 8; i++)
		sched_yield();
	if (what == END_MR)
		dereg(&p.r[1], q->mr);
	else if (what == END_WINDOW)
		RAW_CALL(&p.r[1], DEALLOC_MW, (&(struct ff_dealloc_mw_req){ .mw = mw }), &none);
	else
		destroy_qp(&p.r[1], q);
	memset(q->buf, 0x33, LENGTH);
	if (what == END_BOTH_QPS)
		destroy_qp(&p.r[0], &p.q[0]);
	else
		/* served, or failed, and flushed: each of them completes */
		for (unsigned n = 0; n < 48; n++)
			WAIT_FOR(raw_cqe(&p.q[0]));
	if (!vt_all(q->buf, LENGTH, 0x33))
		FAIL("memory was written after the end of %s", ends_name[what]);
	pair_close(&p);
}

static void ended_under_way(void)
{
	victim_start();
	for (unsigned i = 0; i < 160; i++)
		once_ended((enum ends)(i % NUM_ENDS), i / NUM_ENDS);
	end();
}

/* ---- CQs and SRQs -------------------------------------------------------------------------------- */

/* In an order of its own, with an index of noise now and then. What follows from it is the session's. */
static void resized_under_completions(void)
{
	uint64_t until = vt_now() + WHILE_S * 1000000000ull;
	unsigned resized = 0, closed = 0;
	uint32_t rnd = 7;
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, LENGTH);
	raw_qp_connect(&r, &q);
	while (vt_now() < until) {
		struct ff_resize_cq_req req = { .cq = q.cq, .cqe = 1 + vt_rand(&rnd) % 4096 };
		struct ff_resize_cq_resp resp;
		int st;

		for (unsigned i = 0; i < 16; i++) {
			struct ff_sqe *e = raw_sqe(&q);

			raw_write_wr(&q, e, i);
			raw_publish(&r, &q);
		}
		if (vt_rand(&rnd) % 8 == 0)
			atomic_store(&q.cq_hdr->ci, vt_rand(&rnd));
		st = RAW_TRY(&r, RESIZE_CQ, &req, &resp);
		CHECK(raw_canaries(&q));
		if (st == RAW_CLOSED) {
			closed++;
			raw_close(&r);
			raw_open(&r);
			raw_qp_make(&r, &q, IBV_QPT_RC, LENGTH);
			raw_qp_connect(&r, &q);
			continue;
		}
		if (!st) {
			resized++;
			q.c.ring = resp.ring;
			q.cq_hdr = raw_at(&r, q.c.ring.seg, q.c.ring.off);
			q.cqe = raw_at(&r, q.c.ring.seg, q.c.ring.ring_off);
		}
		if (vt_rand(&rnd) % 4) /* else the ring is left to overrun */
			atomic_fetch_add(&q.cq_hdr->ci, 16);
		if (vt_rand(&rnd) % 32 == 0)
			raw_qp_connect(&r, &q);
	}
	CHECK(resized > 10);
	raw_close(&r);
	end();
}

/* An SRQ whose ring is noise, shared by QPs that come and go while a peer sends. */
static void srqs_come_and_go(void)
{
	uint64_t until = vt_now() + WHILE_S * 1000000000ull;
	unsigned rounds = 0;
	uint32_t rnd = 9;

	victim_start();
	while (vt_now() < until) {
		struct ff_create_srq_resp srq;
		struct ff_create_qp_resp made;
		struct ff_destroy_srq_resp none;
		struct pair p;
		uint8_t *ring;
		int st;

		pair_open(&p);
		RAW_CALL(&p.r[1], CREATE_SRQ,
			 (&(struct ff_create_srq_req){
				 .pd = p.q[1].pd, .max_wr = 64, .max_sge = 4 }),
			 &srq);
		destroy_qp(&p.r[1], &p.q[1]);
		RAW_CALL(&p.r[1], CREATE_QP,
			 (&(struct ff_create_qp_req){ .pd = p.q[1].pd,
						      .send_cq = p.q[1].cq,
						      .recv_cq = p.q[1].cq,
						      .srq = srq.srq,
						      .qp_type = IBV_QPT_RC,
						      .cap = { 64, 0, 4, 0, 64 } }),
			 &made);
		p.q[1].q = made;
		p.q[1].qp = made.qp;
		p.q[1].qp_num = made.qp_num;
		p.q[1].sq = raw_at(&p.r[1], made.sq.seg, made.sq.ring_off);
		pair_connect(&p);
		ring = raw_at(&p.r[1], srq.ring.seg, srq.ring.ring_off);
		for (uint32_t i = 0; i < srq.ring.depth; i++) {
			struct ff_rqe *e = (struct ff_rqe *)(ring + (size_t)i * srq.ring.stride);

			e->num_sge = (uint16_t)(vt_rand(&rnd) % 3);
			e->sge[0].addr =
				(uintptr_t)p.q[1].buf + (vt_rand(&rnd) % 4 ? 0 : LENGTH - 4);
			e->sge[0].length = 8;
			e->sge[0].lkey = vt_rand(&rnd) % 8 ? p.q[1].lkey : vt_rand(&rnd);
			atomic_store(&e->seq, ff_seq(vt_rand(&rnd) % 8 ? i : vt_rand(&rnd)));
		}
		for (unsigned i = 0; i < 32; i++) {
			remote(&p, FF_OP_SEND, 0, 0, 8);
			raw_publish(&p.r[0], &p.q[0]);
		}
		st = RAW_TRY(&p.r[1], DESTROY_SRQ, (&(struct ff_destroy_srq_req){ .srq = srq.srq }),
			     &none);
		CHECK(st == -EBUSY || st == RAW_CLOSED);
		if (st != RAW_CLOSED) {
			destroy_qp(&p.r[1], &p.q[1]);
			RAW_CALL(&p.r[1], DESTROY_SRQ,
				 (&(struct ff_destroy_srq_req){ .srq = srq.srq }), &none);
			memset(p.q[1].buf, 0x33, LENGTH);
			for (unsigned n = 0; n < 32; n++)
				WAIT_FOR(raw_cqe(&p.q[0]));
			CHECK(vt_all(p.q[1].buf, LENGTH, 0x33));
		}
		pair_close(&p);
		rounds++;
	}
	CHECK(rounds > 2);
	end();
}

VT_MAIN({ "objects_edges", edges, 60 }, { "objects_old_keys", old_keys, 60 },
	{ "objects_ended_under_way", ended_under_way, 100 },
	{ "objects_resized_under_completions", resized_under_completions, 60 },
	{ "objects_srqs_come_and_go", srqs_come_and_go, 60 })
