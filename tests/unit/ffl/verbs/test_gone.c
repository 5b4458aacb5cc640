/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/*
 * test_gone.c - ffl/verbs/gone.c: what is posted comes back as flushed when the router is gone, each WR once.
 */
#include <errno.h>
#include <unistd.h>

#include "ffl/verbs/cq.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

static struct ffl_cq *cq;
static struct ffl_qp *qp;

static void open_pair(int cqe, uint32_t depth)
{
	cq = fake_cq(cqe);
	qp = fake_qp(IBV_QPT_RC, cq, depth, 1, 0, false);
}

static void send(uint64_t id, unsigned int flags)
{
	struct ibv_send_wr wr = { .wr_id = id, .opcode = IBV_WR_SEND, .send_flags = flags };

	assert_int_equal(fake_post(qp, &wr), 0);
}

static void receive(uint64_t id)
{
	struct ibv_recv_wr wr = { .wr_id = id }, *bad;

	assert_int_equal(ibv_post_recv(&qp->qp, &wr, &bad), 0);
}

/* CQE number i, which the program polls. */
static void completed(uint32_t i, uint64_t id, uint8_t opcode)
{
	struct ff_cqe cqe = {
		.wr_id = id, .qp = qp->handle, .opcode = opcode, .user = (uintptr_t)qp
	};
	struct ibv_wc wc;

	fake_cqe(cq, i, &cqe);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
	assert_int_equal(wc.wr_id, id);
}

/* Are these left, in this order? */
static void assert_flushed(const uint64_t *id, int n)
{
	struct ibv_wc wc;

	for (int i = 0; i < n; i++) {
		assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 1);
		assert_int_equal(wc.status, IBV_WC_WR_FLUSH_ERR);
		assert_int_equal(wc.wr_id, id[i]);
		assert_int_equal(wc.qp_num, qp->qp.qp_num);
		assert_int_equal(!!(wc.opcode & IBV_WC_RECV), id[i] >= 100);
	}
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
}
#define FLUSHED(...)                                                                               \
	assert_flushed((uint64_t[]){ __VA_ARGS__ }, ARRAY_SIZE(((uint64_t[]){ __VA_ARGS__ })))

static void all_is_posted(void **state)
{
	(void)state;
	open_pair(16, 4);
	send(1, IBV_SEND_SIGNALED);
	send(2, 0);
	receive(100);
	send(3, IBV_SEND_SIGNALED);
	receive(101);
	ffl_mark_dead(fake.ctx);
	FLUSHED(1, 2, 3, 100, 101);
	fake_free(qp, cq);
	fake.live = 0;
}

static void some_are_completed(void **state)
{
	(void)state;
	open_pair(16, 8);
	for (uint64_t i = 1; i < 6; i++)
		send(i, i == 1 || i == 3 ? IBV_SEND_SIGNALED : 0);
	receive(100);
	receive(101);
	completed(0, 1, IBV_WC_SEND);
	completed(1, 100, IBV_WC_RECV);
	completed(2, 3, IBV_WC_SEND);
	atomic_store(&qp->hdr->sq_done, ff_done(4, 2));
	ffl_mark_dead(fake.ctx);
	FLUSHED(5, 101);
	fake_free(qp, cq);
	fake.live = 0;
}

/* The router died after a CQE and before it said that it is done with the WR, and with an unsignaled one before it. */
static void a_word_is_missing(void **state)
{
	(void)state;
	open_pair(16, 8);
	send(1, IBV_SEND_SIGNALED);
	send(2, 0);
	send(3, IBV_SEND_SIGNALED);
	send(4, 0);
	send(5, IBV_SEND_SIGNALED);
	completed(0, 1, IBV_WC_SEND);
	atomic_store(&qp->hdr->sq_done, ff_done(1, 1));
	completed(1, 3, IBV_WC_SEND);
	ffl_mark_dead(fake.ctx);
	FLUSHED(4, 5);
	fake_free(qp, cq);
	fake.live = 0;
}

/* A CQ of fewer entries than what is posted is filled more than once, and its laps go on. */
static void a_small_cq(void **state)
{
	(void)state;
	open_pair(2, 4);
	send(1, IBV_SEND_SIGNALED);
	completed(0, 1, IBV_WC_SEND);
	atomic_store(&qp->hdr->sq_done, ff_done(1, 1));
	for (uint64_t i = 0; i < 4; i++) {
		send(2 + i, IBV_SEND_SIGNALED);
		receive(100 + i);
	}
	ffl_mark_dead(fake.ctx);
	FLUSHED(2, 3, 4, 5, 100, 101, 102, 103);
	fake_free(qp, cq);
	fake.live = 0;
}

static void what_came_before(void **state)
{
	struct ff_cqe cqe;
	struct ibv_wc wc[4];

	(void)state;
	open_pair(16, 4);
	send(1, IBV_SEND_SIGNALED);
	send(2, IBV_SEND_SIGNALED);
	cqe = (struct ff_cqe){ .wr_id = 1, .qp = qp->handle, .user = (uintptr_t)qp };
	fake_cqe(cq, 0, &cqe);
	ffl_mark_dead(fake.ctx);
	assert_int_equal(ibv_poll_cq(&cq->cq, 4, wc), 1);
	assert_int_equal(wc[0].status, IBV_WC_SUCCESS);
	FLUSHED(2);
	fake_free(qp, cq);
	fake.live = 0;
}

/* The rings are the parent's. */
static void a_child(void **state)
{
	struct ibv_wc wc;

	(void)state;
	open_pair(16, 4);
	send(1, IBV_SEND_SIGNALED);
	ffl_mark_dead(fake.ctx);
	fake.ctx->pid++;
	errno = 0;
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), -1);
	assert_int_equal(errno, EIO);
	fake.ctx->pid--;
	FLUSHED(1);
	fake_free(qp, cq);
	fake.live = 0;
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(all_is_posted), T(some_are_completed), T(a_word_is_missing),
			T(a_small_cq), T(what_came_before), T(a_child));
}
