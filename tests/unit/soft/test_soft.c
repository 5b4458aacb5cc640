/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/unit/lib/soft_pair.c tests/lib/rig.c */
/*
 * test_soft.c - the software device on one host: what each operation and each service type does when
 * all is well, and who reaches whom. On virtual time, as all tests of it.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/unit/lib/soft_pair.h"

static void write_read(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	static const uint32_t len[] = { 0, 1, 7, 8, 9, 63, 64, 65, 4096, 4097, 300000 };
	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		for (uint32_t k = 0; k < len[i]; k++)
			p.buf[0][k + 3] = (uint8_t)(k * 7 + i);
		memset(p.buf[1], 0xee, PAIR_BUF);
		pair_rdma(&p, FF_OP_WRITE, i, 3, 5, len[i]);
		rig_run(&p.r);
		pair_expect(p.cq[0], i, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[1] + 5, p.buf[0] + 3, len[i]);
		assert_int_equal(p.buf[1][4], 0xee);
		assert_int_equal(p.buf[1][5 + len[i]], 0xee);
		memset(p.buf[0] + 500000, 0, 400000);
		pair_rdma(&p, FF_OP_READ, 100 + i, 500001, 5, len[i]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 100 + i, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[0] + 500001, p.buf[1] + 5, len[i]);
	}
	pair_expect_none(p.cq[1]);
	pair_down(&p);
}

/* A WRITE with immediate takes a receive and leaves that one's memory alone; also one of nothing. */
static void write_imm(void **state)
{
	static const uint32_t len[] = { 0, 1, 8, 64, 4097, 300000 };
	struct pair p;
	struct ff_sqe *e;
	struct ff_cqe c;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(len); i++) {
		memset(p.buf[0] + 3, (int)i + 1, len[i]);
		memset(p.buf[1], 0xee, PAIR_BUF);
		rig_recv(&p.r, p.qp[1], 50 + i, p.mr[1], pair_at(&p, 1, 500000), 1);
		pair_rdma(&p, FF_OP_WRITE_IMM, i, 3, 5, len[i]);
		rig_run(&p.r);
		pair_expect(p.cq[0], i, IBV_WC_SUCCESS);
		assert_true(rig_poll(p.cq[1], &c));
		assert_int_equal(c.wr_id, 50 + i);
		assert_int_equal(c.byte_len, len[i]);
		assert_int_equal(c.flags, FF_CQE_IMM);
		assert_int_equal(c.opcode, FF_CQE_RECV | 1);
		assert_memory_equal(p.buf[1] + 5, p.buf[0] + 3, len[i]);
		assert_int_equal(p.buf[1][5 + len[i]], 0xee);
		assert_int_equal(p.buf[1][500000], 0xee);
	}
	/* inline */
	rig_recv(&p.r, p.qp[1], 60, NULL, 0, 0);
	e = rig_sqe(p.qp[0], FF_OP_WRITE_IMM, 61);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 5;
	e->imm = 0x01020304;
	memcpy(e->inl, "abcde", 5);
	e->remote_addr = pair_at(&p, 1, 70);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 61, IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[1], &c));
	assert_int_equal(c.imm, 0x01020304);
	assert_memory_equal(p.buf[1] + 70, "abcde", 5);

	/* it waits for a receive, and has written nothing before */
	memset(p.buf[1], 0, 16);
	pair_rdma(&p, FF_OP_WRITE_IMM, 62, 3, 5, 8);
	rig_run(&p.r);
	pair_expect_none(p.cq[0]);
	assert_int_equal(p.buf[1][5], 0);
	rig_recv(&p.r, p.qp[1], 63, NULL, 0, 0);
	rig_advance(&p.r, 10 * NS_PER_MS);
	pair_expect(p.cq[0], 62, IBV_WC_SUCCESS);
	pair_expect(p.cq[1], 63, IBV_WC_SUCCESS);
	assert_int_equal(p.buf[1][5], ARRAY_SIZE(len));
	pair_down(&p);
}

/* One of nothing names no memory, but the QP must take WRITEs all the same (IBTA 9.7.4.1). */
static void write_imm_refused(void **state)
{
	for (uint32_t len = 0; len < 2; len++) {
		struct pair p;

		(void)state;
		pair_up(&p, IBV_QPT_RC, 0, 1);
		rig_recv(&p.r, p.qp[1], 1, NULL, 0, 0);
		p.qp[1]->qp.attr.qp_access_flags &= ~(unsigned)IBV_ACCESS_REMOTE_WRITE;
		pair_rdma(&p, FF_OP_WRITE_IMM, 2, 3, 5, len);
		rig_run(&p.r);
		pair_expect(p.cq[0], 2, IBV_WC_REM_INV_REQ_ERR);
		pair_expect(p.cq[1], 1, IBV_WC_WR_FLUSH_ERR);
		pair_down(&p);
	}
}

static void send_inline_and_split(void **state)
{
	struct pair p;
	struct ff_sqe *e;
	struct ff_cqe c;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_recv(&p.r, p.qp[1], 7, p.mr[1], pair_at(&p, 1, 10), 100);
	e = rig_sqe(p.qp[0], FF_OP_SEND_IMM, 1);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 11;
	e->imm = 0x12345678;
	memcpy(e->inl, "hello world", 11);
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	assert_true(rig_poll(p.cq[1], &c));
	assert_int_equal(c.byte_len, 11);
	assert_int_equal(c.imm, 0x12345678);
	assert_int_equal(c.flags, FF_CQE_IMM);
	assert_int_equal(c.opcode, FF_CQE_RECV);
	assert_memory_equal(p.buf[1] + 10, "hello world", 11);

	/* three SGEs into one receive */
	for (int i = 0; i < 600; i++)
		p.buf[0][i] = (uint8_t)i;
	rig_recv(&p.r, p.qp[1], 8, p.mr[1], pair_at(&p, 1, 1000), 600);
	e = rig_sqe(p.qp[0], FF_OP_SEND, 2);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 100);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 100), 0);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 100), 500);
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
	pair_expect(p.cq[1], 8, IBV_WC_SUCCESS);
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
	rig_sge(e, p.mr[0], pair_at(&p, 0, 16), 8);
	e->remote_addr = pair_at(&p, 1, 8);
	e->rkey = p.mr[1]->rkey;
	e->atomic.compare_add = 2;
	rig_post(&p.r, p.qp[0]);
	e = rig_sqe(p.qp[0], FF_OP_CMP_SWAP, 2);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 24), 8);
	e->remote_addr = pair_at(&p, 1, 8);
	e->rkey = p.mr[1]->rkey;
	e->atomic.compare_add = 42;
	e->atomic.swap = 99;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
	memcpy(&got, p.buf[0] + 16, 8);
	assert_int_equal(got, 40);
	memcpy(&got, p.buf[0] + 24, 8);
	assert_int_equal(got, 42);
	memcpy(&got, p.buf[1] + 8, 8);
	assert_int_equal(got, 99);
	/* misaligned: an invalid request, and the responder says so too */
	e = rig_sqe(p.qp[0], FF_OP_FETCH_ADD, 3);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 16), 8);
	e->remote_addr = pair_at(&p, 1, 12);
	e->rkey = p.mr[1]->rkey;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 3, IBV_WC_REM_INV_REQ_ERR);
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
				p.mr[i] = rig_mr_pvm(&p.r, p.s[i], p.buf[i], PAIR_BUF, PAIR_ACCESS);
			}
		for (uint32_t k = 0; k < 200000; k++)
			p.buf[0][k] = (uint8_t)(k * 13 + (k >> 8));
		pair_rdma(&p, FF_OP_WRITE, 1, 1, 2, 199990);
		rig_run(&p.r);
		pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[1] + 2, p.buf[0] + 1, 199990);
		pair_rdma(&p, FF_OP_READ, 2, 500000, 2, 199990);
		rig_run(&p.r);
		pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
		assert_memory_equal(p.buf[0] + 500000, p.buf[1] + 2, 199990);
		memcpy(p.buf[1] + 8, &v, 8);
		e = rig_sqe(p.qp[0], FF_OP_FETCH_ADD, 3);
		rig_sge(e, p.mr[0], pair_at(&p, 0, 16), 8);
		e->remote_addr = pair_at(&p, 1, 8);
		e->rkey = p.mr[1]->rkey;
		e->atomic.compare_add = 10;
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		pair_expect(p.cq[0], 3, IBV_WC_SUCCESS);
		memcpy(&got, p.buf[0] + 16, 8);
		assert_int_equal(got, 5);
		memcpy(&got, p.buf[1] + 8, 8);
		assert_int_equal(got, 15);
		assert_true(stats_of_session(&p.s[0]->s).pvm_bytes +
				    stats_of_session(&p.s[1]->s).pvm_bytes >
			    0);
		/* memory that went away: an error of whose it is */
		if (where & 2) {
			void *hole =
				mmap(NULL, 8192, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			struct mr *bad = rig_mr_pvm(&p.r, p.s[1], hole, 8192, PAIR_ACCESS);

			munmap(hole, 8192);
			e = rig_sqe(p.qp[0], FF_OP_WRITE, 4);
			rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
			e->remote_addr = (uintptr_t)hole;
			e->rkey = bad->rkey;
			rig_post(&p.r, p.qp[0]);
			rig_run(&p.r);
			pair_expect(p.cq[0], 4, IBV_WC_REM_ACCESS_ERR);
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
		p.mr[1] = rig_mr_pvm(&p.r, p.s[1], p.buf[1], PAIR_BUF, PAIR_ACCESS);
		rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
		copying = &p;
		in_pwrite = peer_goes;
		pair_rdma(&p, op[i], 1, 0, 0, 8);
		rig_run(&p.r);
		assert_null(p.qp[1]);
		pair_wait_for_tries(&p);
		pair_expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
		pair_down(&p);
	}
}

static void uc_drops(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_UC, 0, 1);
	pair_send(&p, 1, 8); /* no receive */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 2);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
	e->remote_addr = pair_at(&p, 1, 0);
	e->rkey = 1;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 2, IBV_WC_SUCCESS);
	assert_int_equal(p.qp[1]->qp.state, IBV_QPS_RTS);
	assert_int_equal(stats_of_session(&p.s[0]->s).ud_drops, 2);
	/* too short a receive is kept for a message that fits */
	rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
	pair_send(&p, 3, 9);
	pair_send(&p, 4, 8);
	rig_run(&p.r);
	pair_expect(p.cq[1], 9, IBV_WC_SUCCESS);
	pair_expect_none(p.cq[1]);
	/* UC does not do READ: the send queue stops, receives go on */
	pair_rdma(&p, FF_OP_READ, 5, 0, 0, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 3, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 4, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 5, IBV_WC_LOC_QP_OP_ERR);
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

	rig_sge(e, u->p.mr[0], pair_at(&u->p, 0, 0), len);
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
	rig_recv(&u.p.r, u.p.qp[1], 9, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 1, 0x2222, 8); /* wrong Q_Key */
	pair_expect(u.p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect_none(u.p.cq[1]);
	ud_post(&u, 2, 0x1111, 8);
	pair_expect(u.p.cq[0], 2, IBV_WC_SUCCESS);
	assert_true(rig_poll(u.p.cq[1], &c));
	assert_int_equal(c.byte_len, 48);
	assert_int_equal(c.flags, FF_CQE_GRH);
	assert_int_equal(c.src_qp, u.p.qp[0]->qp.qp_num);
	assert_int_equal(u.p.buf[1][0] >> 4, 6);
	assert_int_equal(u.p.buf[1][7], 5);
	assert_memory_equal(u.p.buf[1] + 8, u.p.s[0]->s.cont->gid[0].raw, 16);
	assert_memory_equal(u.p.buf[1] + 24, u.p.s[1]->s.cont->gid[0].raw, 16);
	assert_memory_equal(u.p.buf[1] + 40, u.p.buf[0], 8);
	/* the QP's own Q_Key */
	rig_recv(&u.p.r, u.p.qp[1], 10, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 3, 0x80000000, 8);
	pair_expect(u.p.cq[1], 10, IBV_WC_SUCCESS);
	/* too long for the path */
	ud_post(&u, 4, 0x1111, 4097);
	pair_expect(u.p.cq[0], 3, IBV_WC_SUCCESS);
	pair_expect(u.p.cq[0], 4, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(u.p.qp[0]->qp.state, IBV_QPS_SQE);
	ud_down(&u);
	/* another tenant's container of that address does not exist for us */
	ud_up(&u, 3);
	rig_recv(&u.p.r, u.p.qp[1], 9, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 5, 0x1111, 8);
	pair_expect(u.p.cq[0], 5, IBV_WC_SUCCESS);
	pair_expect_none(u.p.cq[1]);
	ud_down(&u);
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

static void a_qp_connected_to_itself(void **state)
{
	struct pair p;
	struct ff_sqe *e;

	(void)state;
	pair_up(&p, IBV_QPT_RC, 0, 1);
	rig_state(&p.r, p.qp[0], IBV_QPS_RESET);
	rig_connect(&p.r, p.qp[0], p.qp[0]);
	rig_recv(&p.r, p.qp[0], 9, p.mr[0], pair_at(&p, 0, 100), 8);
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 9, IBV_WC_SUCCESS);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	/* its own error flushes the request under way exactly once */
	e = rig_sqe(p.qp[0], FF_OP_WRITE, 2);
	rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
	e->rkey = 1;
	rig_post(&p.r, p.qp[0]);
	rig_run(&p.r);
	pair_expect(p.cq[0], 2, IBV_WC_WR_FLUSH_ERR);
	pair_expect_none(p.cq[0]);
	pair_down(&p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(write_read),
		cmocka_unit_test(write_imm),
		cmocka_unit_test(write_imm_refused),
		cmocka_unit_test(send_inline_and_split),
		cmocka_unit_test(atomics),
		cmocka_unit_test(process_memory),
		cmocka_unit_test(peer_goes_during_the_copy),
		cmocka_unit_test(uc_drops),
		cmocka_unit_test(ud_datagrams),
		cmocka_unit_test(tenants_do_not_reach_each_other),
		cmocka_unit_test(a_qp_connected_to_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
