/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_flush.c - FLUSH and atomic WRITE between two hosts: after what was written before, once, with which
 * rights, over a connection that ends, into memory behind a process; frames of a router that lies.
 */
#include <string.h>

#include "tests/rig/fakes/fake_pvm.h"
#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

#define TIMEOUT (8192ull << 14)

static void up(struct hosts *t)
{
	hosts_up(t, IBV_QPT_RC);
	t->h[1].mr->access |= FF_ACCESS_FLUSH_GLOBAL;
	t->h[1].qp->qp.attr.qp_access_flags |= FF_ACCESS_FLUSH;
}

static struct remote_qp *rem(const struct hosts *t, int host)
{
	return t->h[host].qp->qp.soft->rem;
}

static struct ff_sqe *flush_sqe(struct hosts *t, uint64_t id, uint64_t off, uint64_t len)
{
	struct ff_sqe *e = rig_sqe(t->h[0].qp, FF_OP_FLUSH, id);

	e->remote_addr = hosts_at(t, 1, off);
	e->rkey = t->h[1].mr->rkey;
	e->flush.length = len;
	e->flush.types = FF_FLUSH_GLOBAL;
	e->flush.level = FF_FLUSH_RANGE;
	return e;
}

static void flush(struct hosts *t, uint64_t id, uint64_t off, uint64_t len)
{
	flush_sqe(t, id, off, len);
	rig_post(&t->h[0].r, t->h[0].qp);
}

static void atomic_write(struct hosts *t, uint64_t id, uint64_t off, uint64_t value)
{
	struct ff_sqe *e = rig_sqe(t->h[0].qp, FF_OP_ATOMIC_WRITE, id);

	e->remote_addr = hosts_at(t, 1, off);
	e->rkey = t->h[1].mr->rkey;
	e->atomic.compare_add = value;
	rig_post(&t->h[0].r, t->h[0].qp);
}

static uint64_t word_at(const struct hosts *t, uint64_t off)
{
	uint64_t v;

	memcpy(&v, t->h[1].buf + off, sizeof(v));
	return v;
}

static void expect_op(struct hosts *t, uint64_t id, uint8_t op)
{
	struct ff_cqe c;

	assert_true(rig_poll(t->h[0].cq, &c));
	assert_int_equal(c.wr_id, id);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.opcode, op);
}

/* Write, flush, write atomically that it is there: what both operations are for. */
static void in_order(void **state)
{
	const uint32_t len = 1000000;
	struct hosts t;

	(void)state;
	up(&t);
	memset(t.h[0].buf, 7, len);
	hosts_rdma(&t, FF_OP_WRITE, 1, 0, 4096, len);
	flush(&t, 2, 4096, len);
	atomic_write(&t, 3, 8, 99);
	for (unsigned i = 0; i < 10000 && word_at(&t, 8) != 99; i++)
		hosts_turn(&t);
	assert_int_equal(t.h[1].buf[4096 + len - 1], 7);
	hosts_run(&t);
	expect_op(&t, 1, IBV_WC_RDMA_WRITE);
	expect_op(&t, 2, FF_WC_FLUSH);
	expect_op(&t, 3, IBV_WC_ATOMIC_WRITE);
	assert_int_equal(word_at(&t, 8), 99);
	assert_int_equal(stats_of_session(&t.h[0].s->s).flush_ops, 1);
	hosts_expect_none(&t, 1);
	hosts_down(&t);
}

/* ---- rights ------------------------------------------------------------------------------------------ */

static void no_mr_right(struct hosts *t, struct ff_sqe *e)
{
	(void)e;
	t->h[1].mr->access = HOSTS_ACCESS;
}
static void no_qp_right(struct hosts *t, struct ff_sqe *e)
{
	(void)e;
	t->h[1].qp->qp.attr.qp_access_flags &=
		~(unsigned)(FF_ACCESS_FLUSH | IBV_ACCESS_REMOTE_WRITE);
}
static void no_resources(struct hosts *t, struct ff_sqe *e)
{
	(void)e;
	t->h[1].qp->qp.attr.max_dest_rd_atomic = 0;
}
static void beyond(struct hosts *t, struct ff_sqe *e)
{
	e->remote_addr = hosts_at(t, 1, HOSTS_BUF);
}
static void wrong_key(struct hosts *t, struct ff_sqe *e)
{
	(void)t;
	e->rkey ^= 0x5a5a;
}
static void persistent(struct hosts *t, struct ff_sqe *e)
{
	(void)t;
	e->flush.types = FF_FLUSH_PERSISTENT;
}
static void whole(struct hosts *t, struct ff_sqe *e)
{
	(void)t;
	e->remote_addr = 1;
	e->flush.length = UINT32_MAX;
	e->flush.level = FF_FLUSH_MR;
}
static void no_write_right(struct hosts *t, struct ff_sqe *e)
{
	(void)e;
	t->h[1].mr->access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC;
}
static void odd(struct hosts *t, struct ff_sqe *e)
{
	(void)t;
	e->remote_addr += 4;
}

static void rights(void **state)
{
	static const struct {
		uint8_t op;
		void (*spoil)(struct hosts *, struct ff_sqe *);
		enum ibv_wc_status st;
	} cases[] = {
		{ FF_OP_FLUSH, whole, IBV_WC_SUCCESS },
		{ FF_OP_FLUSH, no_mr_right, IBV_WC_REM_ACCESS_ERR },
		{ FF_OP_FLUSH, no_qp_right, IBV_WC_REM_INV_REQ_ERR },
		{ FF_OP_FLUSH, no_resources, IBV_WC_REM_INV_REQ_ERR },
		{ FF_OP_FLUSH, beyond, IBV_WC_REM_ACCESS_ERR },
		{ FF_OP_FLUSH, wrong_key, IBV_WC_REM_ACCESS_ERR },
		{ FF_OP_FLUSH, persistent, IBV_WC_REM_ACCESS_ERR },
		{ FF_OP_ATOMIC_WRITE, no_write_right, IBV_WC_REM_ACCESS_ERR },
		{ FF_OP_ATOMIC_WRITE, no_qp_right, IBV_WC_REM_INV_REQ_ERR },
		{ FF_OP_ATOMIC_WRITE, no_resources, IBV_WC_REM_INV_REQ_ERR },
		{ FF_OP_ATOMIC_WRITE, beyond, IBV_WC_REM_ACCESS_ERR },
		{ FF_OP_ATOMIC_WRITE, odd, IBV_WC_REM_INV_REQ_ERR },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(cases); i++) {
		bool ok = cases[i].st == IBV_WC_SUCCESS;
		struct ff_sqe *e;
		struct hosts t;

		up(&t);
		memset(t.h[1].buf, 0x55, 64);
		if (cases[i].op == FF_OP_FLUSH) {
			e = flush_sqe(&t, 1, 8, 8);
		} else {
			e = rig_sqe(t.h[0].qp, FF_OP_ATOMIC_WRITE, 1);
			e->remote_addr = hosts_at(&t, 1, 8);
			e->rkey = t.h[1].mr->rkey;
		}
		cases[i].spoil(&t, e);
		rig_post(&t.h[0].r, t.h[0].qp);
		hosts_run(&t);
		hosts_advance(&t,
			      30 * NS_PER_MS); /* until the peer is asked, where the map refuses */
		hosts_run(&t);
		hosts_expect(&t, 0, 1, cases[i].st);
		assert_int_equal(t.h[1].qp->qp.state, ok ? IBV_QPS_RTS : IBV_QPS_ERR);
		assert_int_equal(t.h[1].buf[8], 0x55);
		hosts_down(&t);
	}
}

/* ---- a connection that ends -------------------------------------------------------------------------- */

/* Carried out once, wherever it ends: what another writes meanwhile is not overwritten. */
static void cut(void **state)
{
	struct hosts t;

	(void)state;
	for (unsigned turns = 0; turns < 12; turns++) {
		bool was_there;

		up(&t);
		memset(t.h[0].buf, 7, 300000);
		hosts_rdma(&t, FF_OP_WRITE, 1, 0, 4096, 300000);
		flush(&t, 2, 4096, 300000);
		atomic_write(&t, 3, 8, 99);
		flush(&t, 4, 8, 8);
		for (unsigned i = 0; i < turns; i++)
			hosts_turn(&t);
		hosts_cut(&t);
		hosts_run(&t);
		was_there = word_at(&t, 8) == 99;
		if (was_there)
			memset(t.h[1].buf + 8, 1, 8);
		hosts_advance(&t, TIMEOUT);
		hosts_connect(&t);
		hosts_run(&t);
		for (unsigned i = 1; i <= 4; i++)
			hosts_expect(&t, 0, i, IBV_WC_SUCCESS);
		if (was_there)
			assert_true(word_at(&t, 8) == 0x0101010101010101ull);
		else
			assert_int_equal(word_at(&t, 8), 99);
		assert_int_equal(t.h[1].buf[4096 + 299999], 7);
		hosts_down(&t);
	}
}

/* ---- memory behind a process --------------------------------------------------------------------------- */

static void behind_a_process(void **state)
{
	static const enum pvm_fate by[] = { PVM_AT_ONCE, PVM_LOCK_GIVEN, PVM_AGAIN };
	struct hosts t;

	(void)state;
	up(&t);
	rig_mr_free(&t.h[1].r, t.h[1].mr);
	t.h[1].mr = rig_mr_pvm(&t.h[1].r, t.h[1].s, t.h[1].buf, HOSTS_BUF,
			       HOSTS_ACCESS | FF_ACCESS_FLUSH_GLOBAL);
	fake_pvm_calm();
	memset(t.h[1].buf, 0, 64);
	for (uint32_t i = 0; i < ARRAY_SIZE(by); i++) {
		struct wire_hdr h = {
			.opcode = FF_OP_ATOMIC_WRITE,
			.msn = 2 * i,
			.flags = WIRE_LAST,
			.atomic = { .addr = hosts_at(&t, 1, 8),
				    .compare_add = 0xa1a1a1a1a1a1a1a1ull,
				    .rkey = t.h[1].mr->rkey },
		};
		struct wire_hdr after = {
			.opcode = FF_OP_FLUSH,
			.msn = 2 * i + 1,
			.flags = WIRE_LAST,
			.flush = { .addr = hosts_at(&t, 1, 8),
				   .length = 8,
				   .rkey = t.h[1].mr->rkey,
				   .types = FF_FLUSH_GLOBAL },
		};

		fake_pvm.next = by[i];
		hosts_part(&t, &h, 0, 0);
		if (by[i] == PVM_AGAIN) {
			assert_string_equal(rx_state_str(rem(&t, 1)->rx.state), "stall");
			hosts_part(&t, &after, 0, 0); /* thrown away meanwhile */
			assert_int_equal(rem(&t, 1)->rx.msn, 2 * i);
			assert_true(fake_pvm_work(t.h[1].r.f, &t.h[1].s->s));
			hosts_run(&t);
		}
		assert_int_equal(rem(&t, 1)->rx.msn, 2 * i + 1);
		after.flags = WIRE_LAST;
		hosts_part(&t, &after, 0, 0);
		assert_int_equal(rem(&t, 1)->rx.msn, 2 * i + 2);
	}
	assert_true(word_at(&t, 8) == 0xa1a1a1a1a1a1a1a1ull);
	hosts_down(&t);
}

/* ---- a router that lies -------------------------------------------------------------------------------- */

static void lies(void **state)
{
	struct wire_hdr good = {
		.opcode = FF_OP_FLUSH,
		.flags = WIRE_LAST,
		.flush = { .length = 8, .types = FF_FLUSH_GLOBAL },
	};
	struct wire_hdr bad;
	struct hosts t;

	(void)state;
	up(&t);
	good.flush.addr = hosts_at(&t, 1, 8);
	good.flush.rkey = t.h[1].mr->rkey;
#define IGNORED(n, change)                                                                         \
	do {                                                                                       \
		bad = good;                                                                        \
		change;                                                                            \
		hosts_part(&t, &bad, n, 1);                                                        \
		assert_int_equal(rem(&t, 1)->rx.msn, 0);                                           \
		assert_int_equal(t.h[1].qp->qp.state, IBV_QPS_RTS);                                \
	} while (0)
	IGNORED(8, (void)0);
	IGNORED(0, bad.flush.types = 0);
	IGNORED(0, bad.flush.types = 4);
	IGNORED(0, bad.flush.level = 2);
	IGNORED(0, bad.flush.length = 1ull << 32);
	IGNORED(0, bad.offset = 8);
	IGNORED(8, (bad.opcode = FF_OP_ATOMIC_WRITE, bad.atomic.rkey = good.flush.rkey));
	IGNORED(0, bad.opcode = FF_OP_NUM);
	hosts_part(&t, &good, 0, 0);
	assert_int_equal(rem(&t, 1)->rx.msn, 1);
	hosts_down(&t);
}

/* UC has neither. */
static void not_uc(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_FLUSH,
			      .flags = WIRE_LAST,
			      .flush = { .types = FF_FLUSH_GLOBAL } };
	struct hosts t;

	(void)state;
	hosts_up(&t, IBV_QPT_UC);
	hosts_part(&t, &h, 0, 0);
	h.opcode = FF_OP_ATOMIC_WRITE;
	hosts_part(&t, &h, 0, 0);
	assert_int_equal(rem(&t, 1)->rx.msn, 0);
	assert_int_equal(t.h[1].qp->qp.state, IBV_QPS_RTS);
	hosts_down(&t);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(in_order), cmocka_unit_test(rights), cmocka_unit_test(cut),
			cmocka_unit_test(behind_a_process), cmocka_unit_test(lies),
			cmocka_unit_test(not_uc));
}
