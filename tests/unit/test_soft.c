/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/rig.c */
/*
 * test_soft.c - semantics of the software device on one host, on virtual time: what each side of
 * a request sees, when it goes well and when it does not.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/soft/soft.h"
#include "tests/lib/rig.h"

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define BUF (1u << 20)

struct pair {
	struct rig r;
	struct rig_ses *s[2];
	struct rig_cq *cq[2];
	struct rig_qp *qp[2];
	struct mr *mr[2];
	uint8_t *buf[2];
};

static void pair_up(struct pair *p, enum ibv_qp_type type, int c0, int c1)
{
	rig_init(&p->r, &soft_ops);
	for (int i = 0; i < 2; i++) {
		p->s[i] = rig_session(&p->r, i ? c1 : c0);
		p->cq[i] = rig_cq(&p->r, p->s[i], 64, true);
		p->qp[i] = rig_qp(&p->r, p->s[i], type, p->cq[i], p->cq[i], NULL);
		p->buf[i] = aligned_alloc(4096, BUF);
		memset(p->buf[i], 0xa0 + i, BUF);
		p->mr[i] = rig_mr(&p->r, p->s[i], p->buf[i], BUF, ALL_ACCESS);
	}
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_connect(&p->r, p->qp[1], p->qp[0]);
}

static void pair_down(struct pair *p)
{
	for (int i = 0; i < 2; i++) {
		if (p->qp[i])
			rig_qp_free(&p->r, p->qp[i]);
		rig_mr_free(&p->r, p->mr[i]);
		rig_cq_free(&p->r, p->cq[i]);
		rig_session_free(&p->r, p->s[i]);
		free(p->buf[i]);
	}
	rig_fini(&p->r);
}

static uint64_t at(const struct pair *p, int i, uint64_t off)
{
	return (uintptr_t)p->buf[i] + off;
}

static void post_rdma(struct pair *p, uint8_t op, uint64_t id, uint64_t loff, uint64_t roff,
		      uint32_t len)
{
	struct ff_sqe *e = rig_sqe(p->qp[0], op, id);

	rig_sge(e, p->mr[0], at(p, 0, loff), len);
	e->remote_addr = at(p, 1, roff);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
}

static void post_send(struct pair *p, uint64_t id, uint32_t len)
{
	rig_sge(rig_sqe(p->qp[0], FF_OP_SEND, id), p->mr[0], at(p, 0, 0), len);
	rig_post(&p->r, p->qp[0]);
}

static void expect(struct rig_cq *cq, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	assert_true(rig_poll(cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, st);
}

static void expect_none(struct rig_cq *cq)
{
	struct ff_cqe c;

	assert_false(rig_poll(cq, &c));
}

static void write_read(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	static const uint32_t len[] = { 0, 1, 7, 8, 9, 63, 64, 65, 4096, 4097, 300000 };
	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		for (uint32_t k = 0; k < len[i]; k++)
			p.buf[0][k + 3] = (uint8_t)(k * 7 + i);
		memset(p.buf[1], 0xee, BUF);
		post_rdma(&p, FF_OP_WRITE, i, 3, 5, len[i]);
		rig_run(&p.r);
		expect(p.cq[0], i, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[1] + 5, p.buf[0] + 3, len[i]);
		assert_int_equal(p.buf[1][4], 0xee);
		assert_int_equal(p.buf[1][5 + len[i]], 0xee);
		memset(p.buf[0] + 500000, 0, 400000);
		post_rdma(&p, FF_OP_READ, 100 + i, 500001, 5, len[i]);
		rig_run(&p.r);
		expect(p.cq[0], 100 + i, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[0] + 500001, p.buf[1] + 5, len[i]);
	}
	expect_none(p.cq[1]);
	pair_down(&p);
}

static void send_inline_and_split(void **state)
{
	struct pair p;
	struct ff_sqe *e;
	struct ff_cqe c;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_recv(&p.r, p.qp[1], 7, p.mr[1], at(&p, 1, 10), 100);
	e = rig_sqe(p.qp[0], FF_OP_SEND_IMM, 1);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 11;
	e->imm = 0x12345678;
	memcpy(e->inl, "hello world", 11);
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[1], &c));
	assert_int_equal(c.byte_len, 11);
	assert_int_equal(c.imm, 0x12345678);
	assert_int_equal(c.flags, FF_CQE_IMM);
	assert_int_equal(c.opcode, FF_CQE_RECV);
	assert_memory_equal(p.buf[1] + 10, "hello world", 11);

	/* three SGEs into one receive */
	for (int i = 0; i < 600; i++)
		p.buf[0][i] = (uint8_t)i;
	rig_recv(&p.r, p.qp[1], 8, p.mr[1], at(&p, 1, 1000), 600);
	e = rig_sqe(p.qp[0], FF_OP_SEND, 2);
	rig_sge(e, p.mr[0], at(&p, 0, 0), 100);
	rig_sge(e, p.mr[0], at(&p, 0, 100), 0);
	rig_sge(e, p.mr[0], at(&p, 0, 100), 500);
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 2, IBV_WC_SUCCESS);
	expect(p.cq[1], 8, IBV_WC_SUCCESS);
	assert_memory_equal(p.buf[1] + 1000, p.buf[0], 600);
	pair_down(&p);
}

static void atomics(void **state)
{
	struct pair p;
	uint64_t v = 40, got;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	memcpy(p.buf[1] + 8, &v, 8);
	e = rig_sqe(p.qp[0], FF_OP_FETCH_ADD, 1);
	rig_sge(e, p.mr[0], at(&p, 0, 16), 8);
	e->remote_addr = at(&p, 1, 8);
	e->rkey = p.mr[1]->rkey;
	e->atomic.compare_add = 2;
	rig_post(&p.r, p.qp[0]);
	e = rig_sqe(p.qp[0], FF_OP_CMP_SWAP, 2);
	rig_sge(e, p.mr[0], at(&p, 0, 24), 8);
	e->remote_addr = at(&p, 1, 8);
	e->rkey = p.mr[1]->rkey;
	e->atomic.compare_add = 42;
	e->atomic.swap = 99;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	expect(p.cq[0], 2, IBV_WC_SUCCESS);
	memcpy(&got, p.buf[0] + 16, 8);
	assert_int_equal(got, 40);
	memcpy(&got, p.buf[0] + 24, 8);
	assert_int_equal(got, 42);
	memcpy(&got, p.buf[1] + 8, 8);
	assert_int_equal(got, 99);
	/* misaligned: an invalid request, and the responder says so too */
	e = rig_sqe(p.qp[0], FF_OP_FETCH_ADD, 3);
	rig_sge(e, p.mr[0], at(&p, 0, 16), 8);
	e->remote_addr = at(&p, 1, 12);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 3, IBV_WC_REM_INV_REQ_ERR);
	assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_QP_REQ_ERR + 1);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_ERR);
	pair_down(&p);
}

/* Memory that is not mapped goes through /proc/PID/mem, on either side and on both. */
static void process_memory(void **state)
{
	for (int where = 1; where < 4; where++) {
		struct pair p;
		uint64_t v = 5, got;
		struct ff_sqe *e;

		(void)state;
		pair_up(&p, IBV_QPT_RC, 0, 1);
		for (int i = 0; i < 2; i++)
			if (where & 1 << i) {
				rig_mr_free(&p.r, p.mr[i]);
				p.mr[i] = rig_mr_pvm(&p.r, p.s[i], p.buf[i], BUF, ALL_ACCESS);
			}
		for (uint32_t k = 0; k < 200000; k++)
			p.buf[0][k] = (uint8_t)(k * 13 + (k >> 8));
		post_rdma(&p, FF_OP_WRITE, 1, 1, 2, 199990);
		rig_run(&p.r);
		expect(p.cq[0], 1, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[1] + 2, p.buf[0] + 1, 199990);
		post_rdma(&p, FF_OP_READ, 2, 500000, 2, 199990);
		rig_run(&p.r);
		expect(p.cq[0], 2, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[0] + 500000, p.buf[1] + 2, 199990);
		memcpy(p.buf[1] + 8, &v, 8);
		e = rig_sqe(p.qp[0], FF_OP_FETCH_ADD, 3);
		rig_sge(e, p.mr[0], at(&p, 0, 16), 8);
		e->remote_addr = at(&p, 1, 8);
		e->rkey = p.mr[1]->rkey;
		e->atomic.compare_add = 10;
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		expect(p.cq[0], 3, IBV_WC_SUCCESS);
		memcpy(&got, p.buf[0] + 16, 8);
		assert_int_equal(got, 5);
		memcpy(&got, p.buf[1] + 8, 8);
		assert_int_equal(got, 15);
		assert_true(p.s[0]->s.stats.pvm_bytes + p.s[1]->s.stats.pvm_bytes > 0);
		/* memory that went away: an error of whose it is */
		if (where & 2) {
			void *hole =
				mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			struct mr *bad = rig_mr_pvm(&p.r, p.s[1], hole, 8192, ALL_ACCESS);

			munmap(hole, 8192);
			e = rig_sqe(p.qp[0], FF_OP_WRITE, 4);
			rig_sge(e, p.mr[0], at(&p, 0, 0), 8);
			e->remote_addr = (uintptr_t)hole;
			e->rkey = bad->rkey;
			rig_post(&p.r, p.qp[0]);
			rig_run(&p.r);
			expect(p.cq[0], 4, IBV_WC_REM_ACCESS_ERR);
			rig_mr_free(&p.r, bad);
		}
		pair_down(&p);
	}
}

/* Called in the middle of a copy to process memory, where the router has given up its lock. */
static void (*in_pwrite)(void);

ssize_t pwrite(int fd, const void *buf, size_t len, off_t off)
{
	if (in_pwrite)
		in_pwrite();
	return syscall(SYS_pwrite64, fd, buf, len, off);
}

static struct pair *copying;

static void peer_goes(void)
{
	rig_qp_free(&copying->r, copying->qp[1]);
	copying->qp[1] = NULL;
	copying->r.f->epoch++; /* as fast_lock() does */
	in_pwrite = NULL;
}

static void peer_goes_during_the_copy(void **state)
{
	static const uint8_t op[] = { FF_OP_WRITE, FF_OP_SEND, FF_OP_FETCH_ADD };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(op); i++) {
		struct pair p;

		pair_up(&p, IBV_QPT_RC, 0, 1);
		rig_mr_free(&p.r, p.mr[1]);
		p.mr[1] = rig_mr_pvm(&p.r, p.s[1], p.buf[1], BUF, ALL_ACCESS);
		rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 8);
		copying = &p;
		in_pwrite = peer_goes;
		post_rdma(&p, op[i], 1, 0, 0, 8);
		rig_run(&p.r);
		assert_null(p.qp[1]);
		for (int k = 0; k < 3; k++)
			rig_advance(&p.r, 4096ull << 14);
		expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
		pair_down(&p);
	}
}

static void rnr_retries_then_fails(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	post_send(&p, 1, 8);
	post_send(&p, 2, 8);
	rig_run(&p.r);
	expect_none(p.cq[0]);
	rig_advance(&p.r, requester_rnr_ns(12)); /* first retry */
	rig_advance(&p.r, requester_rnr_ns(12) - 1);
	expect_none(p.cq[0]);
	rig_advance(&p.r, 1); /* second and last retry */
	expect(p.cq[0], 1, IBV_WC_RNR_RETRY_EXC_ERR);
	expect(p.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p.qp[0]->qp.state, IBV_QPS_ERR);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
	assert_int_equal(p.s[0]->s.stats.rnr, 3);
	pair_down(&p);
}

static void rnr_goes_on_when_a_receive_is_posted(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.qp[0]->qp.attr.rnr_retry = 7;
	post_send(&p, 1, 8);
	rig_run(&p.r);
	for (int i = 0; i < 100; i++)
		rig_advance(&p.r, requester_rnr_ns(12));
	expect_none(p.cq[0]); /* 7 is for ever */
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 8);
	rig_run(&p.r); /* without the timer */
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	expect(p.cq[1], 9, IBV_WC_SUCCESS);
	pair_down(&p);
}

static void dead_peer_exceeds_retries(void **state)
{
	struct pair p;
	uint64_t t = 4096ull << 14;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_qp_free(&p.r, p.qp[1]);
	p.qp[1] = NULL;
	post_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	post_rdma(&p, FF_OP_WRITE, 2, 0, 0, 8);
	rig_run(&p.r);
	rig_advance(&p.r, t);
	rig_advance(&p.r, t);
	expect_none(p.cq[0]);
	rig_advance(&p.r, t);
	expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	expect(p.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	pair_down(&p);
}

static void late_peer_is_reached_at_once(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_state(&p.r, p.qp[1], IBV_QPS_RESET);
	post_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	expect_none(p.cq[0]);
	rig_connect(&p.r, p.qp[1], p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_down(&p);
}

static void remote_access(struct pair *p, void (*spoil)(struct pair *, struct ff_sqe *),
			  enum ibv_wc_status st, enum ibv_event_type ev)
{
	struct ff_sqe *e;

	pair_up(p, IBV_QPT_RC, 0, 1);
	memset(p->buf[1], 0x55, 64);
	rig_recv(&p->r, p->qp[1], 70, p->mr[1], at(p, 1, 0), 8);
	e = rig_sqe(p->qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p->mr[0], at(p, 0, 0), 8);
	e->remote_addr = at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	spoil(p, e);
	rig_post(&p->r, p->qp[0]);
	post_rdma(p, FF_OP_WRITE, 2, 0, 0, 8);
	rig_run(&p->r);
	expect(p->cq[0], 1, st);
	expect(p->cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(p->buf[1][0], 0x55);
	assert_int_equal(p->qp[0]->qp.state, IBV_QPS_ERR);
	assert_int_equal(p->qp[1]->qp.state, IBV_QPS_ERR);
	expect(p->cq[1], 70, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(rig_async(p->s[1], NULL), ev + 1);
	pair_down(p);
}

static void spoil_rkey(struct pair *p, struct ff_sqe *e)
{
	(void)p;
	e->rkey ^= 0x5a5a;
}
static void spoil_own_key(struct pair *p, struct ff_sqe *e)
{
	e->rkey = p->mr[0]->rkey;
}
static void spoil_bounds(struct pair *p, struct ff_sqe *e)
{
	e->remote_addr = at(p, 1, BUF - 7);
}
static void spoil_below(struct pair *p, struct ff_sqe *e)
{
	e->remote_addr = at(p, 1, 0) - 1;
}
static void spoil_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->mr[1]->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ;
}
static void spoil_pd(struct pair *p, struct ff_sqe *e)
{
	static struct pd other;

	(void)e;
	p->mr[1]->pd = &other;
}
static void spoil_qp_right(struct pair *p, struct ff_sqe *e)
{
	(void)e;
	p->qp[1]->qp.attr.qp_access_flags = IBV_ACCESS_REMOTE_READ;
}

static void remote_access_errors(void **state)
{
	static void (*const spoils[])(struct pair *, struct ff_sqe *) = {
		spoil_rkey, spoil_own_key, spoil_bounds, spoil_below, spoil_right, spoil_pd,
	};
	struct pair p;

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(spoils); i++)
		remote_access(&p, spoils[i], IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	remote_access(&p, spoil_qp_right, IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
}

static void local_protection(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p.mr[1], at(&p, 1, 0), 8); /* the peer's key */
	e->remote_addr = at(&p, 1, 0);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS); /* the peer has seen nothing */
	pair_down(&p);
}

static void receive_errors(void **state)
{
	struct pair p;

	(void)state;
	/* too short */
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 7);
	post_send(&p, 1, 8);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_REM_INV_REQ_ERR);
	expect(p.cq[1], 9, IBV_WC_LOC_LEN_ERR);
	pair_down(&p);
	/* no right to write */
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.mr[1]->access = 0;
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 8);
	post_send(&p, 1, 8);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_REM_OP_ERR);
	expect(p.cq[1], 9, IBV_WC_LOC_PROT_ERR);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_ERR);
	pair_down(&p);
}

static void uc_drops(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_UC, 0, 1);
	post_send(&p, 1, 8); /* no receive */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 2);
	rig_sge(e, p.mr[0], at(&p, 0, 0), 8);
	e->remote_addr = at(&p, 1, 0);
	e->rkey = 1;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	expect(p.cq[0], 2, IBV_WC_SUCCESS);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
	assert_int_equal(p.s[0]->s.stats.ud_drops, 2);
	/* too short a receive is kept for a message that fits */
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 8);
	post_send(&p, 3, 9);
	post_send(&p, 4, 8);
	rig_run(&p.r);
	expect(p.cq[1], 9, IBV_WC_SUCCESS);
	expect_none(p.cq[1]);
	/* UC does not do READ: the send queue stops, receives go on */
	post_rdma(&p, FF_OP_READ, 5, 0, 0, 8);
	rig_run(&p.r);
	expect(p.cq[0], 3, IBV_WC_SUCCESS);
	expect(p.cq[0], 4, IBV_WC_SUCCESS);
	expect(p.cq[0], 5, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(p.qp[0]->qp.state, IBV_QPS_SQE);
	pair_down(&p);
}

struct ud {
	struct pair p;
	struct ah ah;
};

static void ud_up(struct ud *u, int c1)
{
	pair_up(&u->p, IBV_QPT_UD, 0, c1);
	memset(&u->ah, 0, sizeof(u->ah));
	u->ah.o.kind = OBJ_AH;
	u->ah.o.ses = &u->p.s[0]->s;
	u->ah.pd = &u->p.s[0]->pd;
	u->ah.attr.is_global = 1;
	u->ah.attr.hop_limit = 5;
	memcpy(u->ah.attr.dgid, u->p.s[1]->s.cont->gid[0].raw, 16);
	assert_int_equal(obj_insert(&u->p.s[0]->s.tab[OBJ_AH], &u->ah.o), 0);
}

static void ud_down(struct ud *u)
{
	obj_remove(&u->p.s[0]->s.tab[OBJ_AH], &u->ah.o);
	pair_down(&u->p);
}

static void ud_post(struct ud *u, uint64_t id, uint32_t qkey, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(u->p.qp[0], FF_OP_SEND, id);

	rig_sge(e, u->p.mr[0], at(&u->p, 0, 0), len);
	e->ud.ah = u->ah.o.handle;
	e->ud.remote_qpn = u->p.qp[1]->qp.qp_num;
	e->ud.remote_qkey = qkey;
	rig_post(&u->p.r, u->p.qp[0]);
	rig_run(&u->p.r);
}

static void ud_datagrams(void **state)
{
	struct ff_cqe c;
	struct ud u;

	(void)state;
	ud_up(&u, 1);
	rig_recv(&u.p.r, u.p.qp[1], 9, u.p.mr[1], at(&u.p, 1, 0), 48);
	ud_post(&u, 1, 0x2222, 8); /* wrong Q_Key */
	expect(u.p.cq[0], 1, IBV_WC_SUCCESS);
	expect_none(u.p.cq[1]);
	ud_post(&u, 2, 0x1111, 8);
	expect(u.p.cq[0], 2, IBV_WC_SUCCESS);
	assert_true(rig_poll(u.p.cq[1], &c));
	assert_int_equal(c.byte_len, 48);
	assert_int_equal(c.flags, FF_CQE_GRH);
	assert_int_equal(c.src_qp, u.p.qp[0]->qp.qp_num);
	assert_int_equal(u.p.buf[1][20], 0x45);
	assert_int_equal(u.p.buf[1][28], 5);
	assert_memory_equal(u.p.buf[1] + 32, "\x0a\0\0\x01\x0a\0\0\x02", 8);
	assert_memory_equal(u.p.buf[1] + 40, u.p.buf[0], 8);
	/* the QP's own Q_Key */
	rig_recv(&u.p.r, u.p.qp[1], 10, u.p.mr[1], at(&u.p, 1, 0), 48);
	ud_post(&u, 3, 0x80000000, 8);
	expect(u.p.cq[1], 10, IBV_WC_SUCCESS);
	/* too long for the path */
	ud_post(&u, 4, 0x1111, 4097);
	expect(u.p.cq[0], 3, IBV_WC_SUCCESS);
	expect(u.p.cq[0], 4, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(u.p.qp[0]->qp.state, IBV_QPS_SQE);
	ud_down(&u);
	/* another tenant's container of that address does not exist for us */
	ud_up(&u, 3);
	rig_recv(&u.p.r, u.p.qp[1], 9, u.p.mr[1], at(&u.p, 1, 0), 48);
	ud_post(&u, 5, 0x1111, 8);
	expect(u.p.cq[0], 5, IBV_WC_SUCCESS);
	expect_none(u.p.cq[1]);
	ud_down(&u);
}

static void tenants_do_not_reach_each_other(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 3);
	post_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	for (int i = 0; i < 3; i++)
		rig_advance(&p.r, 4096ull << 14);
	expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
	pair_down(&p);
}

static void a_qp_connected_to_itself(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
	rig_connect(&p.r, p.qp[0], p.qp[0]);
	rig_recv(&p.r, p.qp[0], 9, p.mr[0], at(&p, 0, 100), 8);
	post_send(&p, 1, 8);
	rig_run(&p.r);
	expect(p.cq[0], 9, IBV_WC_SUCCESS);
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	/* its own error flushes the request under way exactly once */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 2);
	rig_sge(e, p.mr[0], at(&p, 0, 0), 8);
	e->rkey = 1;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	expect(p.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	expect_none(p.cq[0]);
	pair_down(&p);
}

static void sqd_drains(void **state)
{
	struct pair p;
	uint32_t h;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.qp[0]->qp.attr.rnr_retry = 7;
	p.qp[0]->qp.attr.en_sqd_async_notify = 1;
	post_send(&p, 1, 8);
	rig_run(&p.r);
	rig_state(&p.r, p.qp[0], IBV_QPS_SQD);
	post_send(&p, 2, 8);
	rig_run(&p.r);
	assert_int_equal(rig_async(p.s[0], NULL), 0); /* one is under way */
	rig_recv(&p.r, p.qp[1], 8, p.mr[1], at(&p, 1, 0), 8);
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 8);
	rig_run(&p.r);
	expect(p.cq[0], 1, IBV_WC_SUCCESS);
	expect_none(p.cq[0]);
	assert_int_equal(rig_async(p.s[0], &h), IBV_EVENT_SQ_DRAINED + 1);
	assert_int_equal(h, p.qp[0]->qp.o.handle);
	rig_state(&p.r, p.qp[0], IBV_QPS_RTS);
	rig_run(&p.r);
	expect(p.cq[0], 2, IBV_WC_SUCCESS);
	pair_down(&p);
}

static void flush_in_order(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	p.qp[0]->qp.attr.rnr_retry = 7;
	for (uint64_t i = 0; i < 5; i++) {
		post_send(&p, i, 8);
		rig_recv(&p.r, p.qp[0], 100 + i, p.mr[0], at(&p, 0, 0), 8);
	}
	rig_run(&p.r);
	rig_state(&p.r, p.qp[0], IBV_QPS_ERR);
	for (uint64_t i = 0; i < 5; i++)
		expect(p.cq[0], i, IBV_WC_WR_FLUSH_ERR);
	for (uint64_t i = 0; i < 5; i++)
		expect(p.cq[0], 100 + i, IBV_WC_WR_FLUSH_ERR);
	/* posted afterwards: flushed too */
	rig_recv(&p.r, p.qp[0], 200, p.mr[0], at(&p, 0, 0), 8);
	post_send(&p, 201, 8);
	rig_run(&p.r);
	expect(p.cq[0], 201, IBV_WC_WR_FLUSH_ERR);
	expect(p.cq[0], 200, IBV_WC_WR_FLUSH_ERR);
	/* and the rings are empty after RESET */
	rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
	rig_connect(&p.r, p.qp[0], p.qp[1]);
	rig_run(&p.r);
	expect_none(p.cq[0]);
	pair_down(&p);
}

static void srq_limit_and_last_wqe(void **state)
{
	struct pair p;
	struct rig_srq *srq;
	struct rig_qp *q;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	srq = rig_srq(&p.r, p.s[1], 8);
	q = rig_qp(&p.r, p.s[1], IBV_QPT_RC, p.cq[1], p.cq[1], srq);
	rig_connect(&p.r, q, p.qp[0]);
	rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
	rig_connect(&p.r, p.qp[0], q);
	p.qp[0]->qp.attr.rnr_retry = 7;
	for (uint64_t i = 0; i < 3; i++)
		rig_srq_recv(&p.r, srq, 50 + i, p.mr[1], at(&p, 1, 0), 8);
	fast_srq_arm(p.r.f, &srq->srq, 2);
	for (uint64_t i = 0; i < 4; i++)
		post_send(&p, i, 8);
	rig_run(&p.r);
	for (uint64_t i = 0; i < 3; i++) {
		expect(p.cq[0], i, IBV_WC_SUCCESS);
		expect(p.cq[1], 50 + i, IBV_WC_SUCCESS);
	}
	assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_SRQ_LIMIT_REACHED + 1);
	assert_int_equal(rig_async(p.s[1], NULL), 0); /* once */
	rig_srq_recv(&p.r, srq, 60, p.mr[1], at(&p, 1, 0), 8);
	rig_run(&p.r);
	expect(p.cq[0], 3, IBV_WC_SUCCESS);
	rig_state(&p.r, q, IBV_QPS_ERR);
	assert_int_equal(rig_async(p.s[1], NULL), IBV_EVENT_QP_LAST_WQE_REACHED + 1);
	rig_qp_free(&p.r, q);
	rig_srq_free(&p.r, srq);
	pair_down(&p);
}

static void cq_overrun(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	for (int i = 0; i < 65; i++) {
		post_rdma(&p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p.r);
	}
	assert_int_equal(rig_async(p.s[0], NULL), IBV_EVENT_CQ_ERR + 1);
	assert_int_equal(rig_async(p.s[0], NULL), IBV_EVENT_QP_FATAL + 1);
	assert_int_equal(p.qp[0]->qp.state, IBV_QPS_ERR);
	pair_down(&p);
}

static int events(struct rig_cq *cq)
{
	struct ff_comp_event ev;
	int n = 0;

	while (recv(cq->channel[0], &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev))
		n++;
	return n;
}

static void completion_events(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	post_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[0]), 0); /* not armed */
	atomic_store(&p.cq[0]->cq.hdr->arm, FF_CQ_ARM_ANY);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[0]), 0); /* what was there before does not count */
	post_rdma(&p, FF_OP_WRITE, 2, 0, 0, 8);
	post_rdma(&p, FF_OP_WRITE, 3, 0, 0, 8);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[0]), 1);
	/* solicited only */
	atomic_store(&p.cq[1]->cq.hdr->arm, FF_CQ_ARM_SOLICITED);
	for (int i = 0; i < 2; i++)
		rig_recv(&p.r, p.qp[1], 9, p.mr[1], at(&p, 1, 0), 8);
	post_send(&p, 4, 8);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[1]), 0);
	e = rig_sqe(p.qp[0], FF_OP_SEND, 5);
	rig_sge(e, p.mr[0], at(&p, 0, 0), 8);
	e->flags |= FF_SQE_SOLICITED;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	assert_int_equal(events(p.cq[1]), 1);
	pair_down(&p);
}

static void malformed_wqes(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	for (int i = 0; i < 5; i++) {
		pair_up(&p, IBV_QPT_RC, 0, 1);
		e = rig_sqe(p.qp[0], FF_OP_SEND, 1);
		switch (i) {
		case 0:
			e->opcode = 0;
			break;
		case 1:
			e->opcode = 200;
			break;
		case 2:
			e->num_sge = 5;
			break;
		case 3:
			e->flags |= FF_SQE_INLINE;
			e->num_sge = 65;
			break;
		case 4:
			e->opcode = FF_OP_READ;
			e->flags |= FF_SQE_INLINE;
			break;
		}
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		expect(p.cq[0], 1, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(p.s[0]->s.stats.bad_wqes, 1);
		assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
		pair_down(&p);
	}
}

static void cq_switch_keeps_order(void **state)
{
	struct ff_cqe *ring = calloc(128, sizeof(*ring)), *old;
	struct ff_cq_hdr *hdr = aligned_alloc(64, sizeof(*hdr)), *old_hdr;
	struct pair p;

	(void)state;
	memset(hdr, 0, sizeof(*hdr));
	pair_up(&p, IBV_QPT_RC, 0, 1);
	for (int i = 0; i < 70; i++) {
		post_rdma(&p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p.r);
		if (i < 40)
			expect(p.cq[0], (uint64_t)i, IBV_WC_SUCCESS);
	}
	old = p.cq[0]->cq.ring;
	old_hdr = p.cq[0]->cq.hdr;
	fast_cq_switch(p.r.f, &p.cq[0]->cq, hdr, ring, 128, 128);
	munmap(old, 64 * sizeof(*old));
	munmap(old_hdr, sizeof(*old_hdr));
	p.cq[0]->ci = 0;
	for (int i = 70; i < 160; i++) {
		post_rdma(&p, FF_OP_WRITE, (uint64_t)i, 0, 0, 8);
		rig_run(&p.r);
	}
	for (int i = 40; i < 160; i++)
		expect(p.cq[0], (uint64_t)i, IBV_WC_SUCCESS);
	expect_none(p.cq[0]);
	/* the rig unmaps what it finds */
	p.cq[0]->cq.ring =
		mmap(NULL, 128 * sizeof(*ring), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	p.cq[0]->cq.hdr = mmap(NULL, sizeof(*hdr), PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pair_down(&p);
	free(ring);
	free(hdr);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_read),
		cmocka_unit_test(send_inline_and_split),
		cmocka_unit_test(atomics),
		cmocka_unit_test(process_memory),
		cmocka_unit_test(peer_goes_during_the_copy),
		cmocka_unit_test(rnr_retries_then_fails),
		cmocka_unit_test(rnr_goes_on_when_a_receive_is_posted),
		cmocka_unit_test(dead_peer_exceeds_retries),
		cmocka_unit_test(late_peer_is_reached_at_once),
		cmocka_unit_test(remote_access_errors),
		cmocka_unit_test(local_protection),
		cmocka_unit_test(receive_errors),
		cmocka_unit_test(uc_drops),
		cmocka_unit_test(ud_datagrams),
		cmocka_unit_test(tenants_do_not_reach_each_other),
		cmocka_unit_test(a_qp_connected_to_itself),
		cmocka_unit_test(sqd_drains),
		cmocka_unit_test(flush_in_order),
		cmocka_unit_test(srq_limit_and_last_wqe),
		cmocka_unit_test(cq_overrun),
		cmocka_unit_test(completion_events),
		cmocka_unit_test(malformed_wqes),
		cmocka_unit_test(cq_switch_keeps_order),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
