/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/windows.c tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_xfer.c - bytes through /proc/PID/mem, on either side and on both, and whose error it is when
 * memory or peer go away.
 */
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/mem/shadow.h"
#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/windows.h"

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
	in_pwrite = NULL;
}

static void peer_goes_during_the_copy(void **state)
{
	static const uint8_t op[] = { FF_OP_WRITE, FF_OP_SEND, FF_OP_FETCH_ADD };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(op); i++) {
		struct ff_sqe *e;
		struct pair p;

		pair_up(&p, IBV_QPT_RC, 0, 1);
		rig_mr_free(&p.r, p.mr[1]);
		p.mr[1] = rig_mr_pvm(&p.r, p.s[1], p.buf[1], PAIR_BUF, PAIR_ACCESS);
		rig_recv(&p.r, p.qp[1], 9, p.mr[1], pair_at(&p, 1, 0), 8);
		copying = &p;
		in_pwrite = peer_goes;
		e = rig_sqe(p.qp[0], op[i], 1);
		rig_sge(e, p.mr[0], pair_at(&p, 0, 0), 8);
		e->remote_addr = pair_at(&p, 1, 0);
		e->rkey = p.mr[1]->rkey;
		if (op[i] == FF_OP_FETCH_ADD)
			e->atomic.compare_add = 1; /* adding 0 writes nothing */
		rig_post(&p.r, p.qp[0]);
		rig_run(&p.r);
		assert_null(p.qp[1]);
		pair_wait_for_tries(&p);
		pair_expect(p.cq[0], 1, IBV_WC_RETRY_EXC_ERR);
		pair_down(&p);
	}
}

/* A message that is dropped in its middle gives back the buffer of its call, for which others may wait. */
static void uc_peer_goes_during_the_copy(void **state)
{
	struct pair p;

	(void)state;
	pair_up(&p, IBV_QPT_UC, 0, 1);
	rig_mr_free(&p.r, p.mr[1]);
	p.mr[1] = rig_mr_pvm(&p.r, p.s[1], p.buf[1], PAIR_BUF, PAIR_ACCESS);
	copying = &p;
	in_pwrite = peer_goes;
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 300000);
	rig_run(&p.r);
	assert_null(p.qp[1]);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(p.qp[0]->qp.stats.ud_drops, 1);
	assert_null(p.qp[0]->qp.soft->req.x.call);
	pair_down(&p);
}

static void null_mr(void **state)
{
	struct pair *p = *state;
	struct mr *null, *slow;
	struct ff_sqe *e;
	struct ff_cqe c;

	p->r.f->conf.quantum = 16384;
	null = rig_mr_pvm(&p->r, p->s[0], NULL, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE);
	null->kind = MR_NULL;
	slow = rig_mr_pvm(&p->r, p->s[0], p->buf[0], PAIR_BUF, IBV_ACCESS_LOCAL_WRITE);

	/* WRITE: bytes, zeros, bytes of process memory, zeros from wherever */
	e = rig_sqe(p->qp[0], FF_OP_WRITE, 1);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 10);
	rig_sge(e, null, 0, 100000);
	rig_sge(e, slow, pair_at(p, 0, 0), 10);
	rig_sge(e, null, 0xdeadbeef0000, 7);
	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	assert_int_equal(pair_status(p->cq[0], 1, IBV_WC_RDMA_WRITE), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < 100027; i++)
		assert_int_equal(p->buf[1][i], i < 10 || (i >= 100010 && i < 100020) ? 0xa0 : 0);
	assert_int_equal(p->buf[1][100027], 0xa1);

	/* READ: what goes to it vanishes */
	for (uint32_t i = 0; i < 200000; i++)
		p->buf[1][i] = (uint8_t)(i % 251);
	e = rig_sqe(p->qp[0], FF_OP_READ, 2);
	rig_sge(e, null, 12345, 50000);
	rig_sge(e, slow, pair_at(p, 0, 0), 100);
	rig_sge(e, null, 0, 50000);
	rig_sge(e, p->mr[0], pair_at(p, 0, 100), 100);
	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	assert_int_equal(pair_status(p->cq[0], 2, IBV_WC_RDMA_READ), IBV_WC_SUCCESS);
	assert_memory_equal(p->buf[0], p->buf[1] + 50000, 100);
	assert_memory_equal(p->buf[0] + 100, p->buf[1] + 100100, 100);

	/* a receive, and a source that is process memory */
	rig_recv(&p->r, p->qp[0], 50, null, 0, PAIR_BUF);
	e = rig_sqe(p->qp[1], FF_OP_SEND, 3);
	rig_sge(e, p->mr[1], pair_at(p, 1, 0), 300000);
	rig_post(&p->r, p->qp[1]);
	rig_run(&p->r);
	assert_int_equal(pair_status(p->cq[1], 3, IBV_WC_SEND), IBV_WC_SUCCESS);
	assert_true(rig_poll(p->cq[0], &c));
	assert_int_equal(c.byte_len, 300000);
	/* one SGE of it alone: the quick path declines */
	e = rig_sqe(p->qp[0], FF_OP_WRITE, 4);
	rig_sge(e, null, 0, 8);
	e->remote_addr = pair_at(p, 1, 8);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	assert_int_equal(pair_status(p->cq[0], 4, IBV_WC_RDMA_WRITE), IBV_WC_SUCCESS);
	assert_memory_equal(p->buf[1] + 8, "\0\0\0\0\0\0\0\0", 8);
	assert_int_equal(p->buf[1][16], 16);

	/* its key is no rkey, and nothing can be bound to it */
	e = rig_sqe(p->qp[1], FF_OP_WRITE, 5);
	rig_sge(e, p->mr[1], pair_at(p, 1, 0), 8);
	e->rkey = null->lkey;
	rig_post(&p->r, p->qp[1]);
	rig_run(&p->r);
	assert_int_equal(pair_status(p->cq[1], 5, IBV_WC_RDMA_WRITE), IBV_WC_REM_ACCESS_ERR);

	rig_mr_free(&p->r, null);
	rig_mr_free(&p->r, slow);
}

/* In one step, more than the router has zeros for. */
static void null_mr_at_once(void **state)
{
	static const uint32_t len = 250000;
	struct pair *p = *state;
	struct mr *null = rig_mr_pvm(&p->r, p->s[0], NULL, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE);
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_WRITE, 1);

	null->kind = MR_NULL;
	rig_sge(e, null, 0, len);
	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	rig_post(&p->r, p->qp[0]);
	rig_run(&p->r);
	assert_int_equal(pair_status(p->cq[0], 1, IBV_WC_RDMA_WRITE), IBV_WC_SUCCESS);
	for (uint32_t i = 0; i < len; i++)
		assert_int_equal(p->buf[1][i], 0);
	assert_int_equal(p->buf[1][len], 0xa1);
	rig_mr_free(&p->r, null);
}

/* What the wire is given of a null MR is zeros that the router has, however much is asked for. */
static void null_mr_for_the_wire(void **state)
{
	struct pair *p = *state;
	struct mr *null = rig_mr_pvm(&p->r, p->s[0], NULL, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE);
	struct ff_sge sge = { .addr = 0, .length = 100000, .lkey = null->lkey };
	struct side s = {
		.sge = &sge, .num_sge = 1, .keys = &p->r.cont[0].keys, .pd = &p->s[0]->pd
	};
	enum ff_vendor_err why;
	struct iovec iov[4];
	uint64_t bytes;

	null->kind = MR_NULL;
	assert_int_equal(xfer_iov(&s, 0, sge.length, iov, 4, &bytes, &why), 2);
	assert_int_equal(bytes, sge.length);
	assert_int_equal(iov[0].iov_len + iov[1].iov_len, sge.length);
	assert_ptr_equal(iov[0].iov_base, iov[1].iov_base); /* they are used again */
	for (uint64_t i = 0; i < iov[0].iov_len; i++)
		assert_int_equal(((uint8_t *)iov[0].iov_base)[i], 0);
	rig_mr_free(&p->r, null);
}

/* Memory of a session that took pages away is reached by no key any more, and by no window. */
static void window_of_memory_that_is_gone(void **state)
{
	struct pair p;
	struct mw *mw;

	(void)state;
	windows_up(&p, IBV_QPT_RC);
	mw = window_new(p.s[1], IBV_MW_TYPE_2);
	assert_int_equal(window_bind(&p, mw, 0, 4096, RW, 1), IBV_WC_SUCCESS);
	assert_true(window_writes(&p, 0, mw->rkey, 8));
	atomic_fetch_add(&sigbus_gone, 1);
	assert_true(window_writes(&p, 0, mw->rkey, 8)); /* another session's */
	p.s[1]->s.mem.gone = true;
	assert_false(window_writes(&p, 0, mw->rkey, 8));
	p.s[1]->s.mem.gone = false;
	atomic_fetch_sub(&sigbus_gone, 1);
	window_free(&p, mw);
	windows_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(process_memory),
			cmocka_unit_test(peer_goes_during_the_copy),
			cmocka_unit_test(uc_peer_goes_during_the_copy), PAIR_TEST(null_mr),
			PAIR_TEST(null_mr_at_once), PAIR_TEST(null_mr_for_the_wire),
			cmocka_unit_test(window_of_memory_that_is_gone));
}
