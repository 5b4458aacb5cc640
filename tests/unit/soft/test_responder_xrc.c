/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/xrc_rig.c tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_responder_xrc.c - XRC: where a request goes, by the SRQ that it names, and what it is answered. As
 * clients of the router see it, on virtual time.
 */
#include <string.h>
#include <sys/mman.h>

#include "tests/rig/unit/xrc_rig.h"
#include "tests/rig/unit/unit.h"

static void a_request_goes_to_the_srq_that_it_names(void **state)
{
	struct ff_stats st = { 0 };
	struct xrc_shared h;
	struct ff_cqe e;

	(void)state;
	xrc_shared_open(&h);
	assert_int_not_equal(h.srq[0].srq_num, h.srq[1].srq_num);
	xrc_post_srq(&h.c[0], &h.srq[0], 0, 100);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	xrc_post_srq(&h.c[1], &h.srq[1], 1, 201);
	xrc_send_to(&h.from, h.srq[1].srq_num, 1);
	xrc_expect(&h.from.c, 1, IBV_WC_SUCCESS);
	xrc_expect_none(&h.c[0]);
	assert_true(xrc_poll(&h.c[1], &e));
	assert_int_equal(e.wr_id, 200);
	assert_int_equal(e.qp_num, h.qp.qp_num);
	assert_int_equal(e.src_qp, h.from.qp.qp_num);
	assert_int_equal(e.qp, FF_CQE_OF_SRQ | h.srq[1].srq);
	xrc_send_to(&h.from, h.srq[0].srq_num, 2);
	xrc_send_to(&h.from, h.srq[1].srq_num, 3);
	xrc_expect(&h.c[0], 100, IBV_WC_SUCCESS);
	xrc_expect(&h.c[1], 201, IBV_WC_SUCCESS);
	stats_of_container(h.c[0].s->cont, &st, NULL); /* of the QP, wherever they went */
	assert_int_equal(st.recv_ops, 3);
	xrc_shared_close(&h);
}

static void refused(struct xrc_shared *h, uint32_t srqn)
{
	struct ff_open_qp_resp other;
	uint32_t handle;

	assert_int_equal(xrc_open_qp(&h->c[1], h->xrcd[1], h->qp.qp_num, &other), 0);
	assert_int_equal(other.qp_state, IBV_QPS_RTS);
	xrc_send_to(&h->from, srqn, 1);
	xrc_expect(&h->from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	/* whoever has the QP open is told, by its own handle */
	assert_int_equal(xrc_event(&h->c[0], &handle), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(handle, h->qp.qp);
	assert_int_equal(xrc_event(&h->c[0], &handle), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(xrc_event(&h->c[1], &handle), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(handle, other.qp);
	xrc_expect_none(&h->c[0]);
	xrc_expect_none(&h->c[1]);
}

static void a_number_that_is_no_srqs_is_refused(void **state)
{
	struct xrc_shared h;

	(void)state;
	xrc_shared_open(&h);
	refused(&h, h.srq[1].srq_num + 1);
	xrc_shared_close(&h);
}

static void an_srq_of_another_domain_is_refused(void **state)
{
	struct ff_create_srq_resp srq;
	struct xrc_shared h;

	(void)state;
	xrc_shared_open(&h);
	srq = xrc_new_srq(&h.c[0], xrc_domain_of(&h.c[0], XRC_FILE_B));
	xrc_post_srq(&h.c[0], &srq, 0, 300);
	refused(&h, srq.srq_num);
	xrc_shared_close(&h);
}

/* An SRQ of a session that is about to end: its memory may have gone before it. */
static void an_srq_of_a_closing_session_is_refused(void **state)
{
	struct xrc_shared h;

	(void)state;
	xrc_shared_open(&h);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	h.c[1].s->closing = true;
	xrc_send_to(&h.from, h.srq[1].srq_num, 1);
	h.c[1].s->closing = false;
	xrc_expect(&h.from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	xrc_expect_none(&h.c[1]);
	xrc_shared_close(&h);
}

/* A sender has sent to an SRQ that has no receive. */
static void sender_waits(struct xrc_shared *h)
{
	xrc_shared_open(h);
	xrc_send_to(&h->from, h->srq[1].srq_num, 1);
	xrc_expect_none(&h->from.c);
}

static void a_sender_waits_for_a_receive(void **state)
{
	struct xrc_shared h;

	(void)state;
	sender_waits(&h);
	assert_int_equal(atomic_load(&srq_get_unsealed(h.c[1].s, h.srq[1].srq)->hdr->need), 1);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	xrc_run(NS_PER_MS * 1000);
	xrc_expect(&h.from.c, 1, IBV_WC_SUCCESS);
	xrc_expect(&h.c[1], 200, IBV_WC_SUCCESS);
	xrc_shared_close(&h);
}

static void an_srq_goes_while_a_sender_waits_for_it(void **state)
{
	struct xrc_shared h;

	(void)state;
	sender_waits(&h);
	assert_int_equal(xrc_destroy_srq(&h.c[1], h.srq[1].srq), 0);
	xrc_run(0);
	xrc_expect(&h.from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	xrc_shared_close(&h);
}

/* Its receive was taken for a message that does not fit into it: that is seen there. */
static void a_receive_that_is_too_short_ends_in_its_own_cq(void **state)
{
	struct ff_sqe *e;
	struct xrc_shared h;

	(void)state;
	xrc_shared_open(&h);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	e = xrc_post(&h.from, FF_OP_SEND, h.srq[1].srq_num, 1);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 8;
	xrc_go(&h.from);
	xrc_expect(&h.c[1], 200, IBV_WC_LOC_LEN_ERR);
	xrc_expect(&h.from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	xrc_expect_none(&h.c[0]);
	xrc_shared_close(&h);
}

static uint32_t reg(struct xrc_client *c, uint32_t pd, void *buf, uint64_t len)
{
	struct ff_reg_mr_req req = { (uintptr_t)buf, len, (uintptr_t)buf, pd,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct ff_reg_mr_resp resp;

	assert_int_equal(RIG_CALL(&call_rig, c->sock, REG_MR, &req, &resp), 0);
	return resp.rkey;
}

/* A message that breaks off at its sender leaves its receive with the QP, until it is of no use. */
static void a_receive_of_another_srq_is_given_back(void **state)
{
	void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ff_rqe *rqe;
	struct ff_sqe *e;
	struct xrc_shared h;

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	xrc_shared_open(&h);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	xrc_post_srq(&h.c[0], &h.srq[0], 0, 100);
	rqe = (struct ff_rqe *)srq_get_unsealed(h.c[1].s, h.srq[1].srq)->ring;
	rqe->num_sge = 1;
	rqe->sge[0] = (struct ff_sge){ (uintptr_t)&h, 8, reg(&h.c[1], h.c[1].pd, &h, sizeof(h)) };
	e = xrc_post(&h.from, FF_OP_SEND, h.srq[1].srq_num, 1);
	e->num_sge = 1;
	e->sge[0] = (struct ff_sge){ (uintptr_t)gone, 8, reg(&h.from.c, h.from.c.pd, gone, 4096) };
	munmap(gone, 4096);
	xrc_go(&h.from);
	xrc_expect(&h.from.c, 1, IBV_WC_LOC_PROT_ERR);
	xrc_expect_none(&h.c[1]);
	/* the sender comes again, with a message for another one */
	assert_int_equal(xrc_modify(&h.from.c, h.from.qp.qp, IBV_QPS_RESET, IBV_QP_STATE, 0, 0), 0);
	h.from.tail = 0;
	xrc_connect_to(&h.from.c, h.from.qp.qp, 0, h.qp.qp_num);
	xrc_send_to(&h.from, h.srq[0].srq_num, 2);
	xrc_expect(&h.from.c, 2, IBV_WC_SUCCESS);
	xrc_expect(&h.c[0], 100, IBV_WC_SUCCESS);
	xrc_expect(&h.c[1], 200, IBV_WC_WR_FLUSH_ERR);
	xrc_shared_close(&h);
}

static void write_to(struct xrc_shared *h, uint32_t srqn, uint64_t wr_id, void *to, uint32_t rkey)
{
	struct ff_sqe *e = xrc_post(&h->from, FF_OP_WRITE, srqn, wr_id);

	e->flags |= FF_SQE_INLINE;
	e->num_sge = 8;
	memset(e->inl, 0x5a, 8);
	e->remote_addr = (uintptr_t)to;
	e->rkey = rkey;
	xrc_go(&h->from);
}

/* The QP has no PD: the SRQ's is the one that counts. */
static void memory_is_reached_through_the_srqs_pd(void **state)
{
	uint64_t buf[2] = { 0 };
	struct xrc_shared h;
	uint32_t rkey;

	(void)state;
	xrc_shared_open(&h);
	rkey = reg(&h.c[1], h.c[1].pd, buf, sizeof(buf));
	write_to(&h, h.srq[1].srq_num, 1, &buf[0], rkey);
	xrc_expect(&h.from.c, 1, IBV_WC_SUCCESS);
	assert_int_equal(buf[0], 0x5a5a5a5a5a5a5a5a);
	write_to(&h, h.srq[0].srq_num, 2, &buf[1], rkey);
	xrc_expect(&h.from.c, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(buf[1], 0);
	xrc_shared_close(&h);
}

int main(void)
{
	return UNIT_RUN(CALL_TEST(a_request_goes_to_the_srq_that_it_names),
			CALL_TEST(a_number_that_is_no_srqs_is_refused),
			CALL_TEST(an_srq_of_another_domain_is_refused),
			CALL_TEST(an_srq_of_a_closing_session_is_refused),
			CALL_TEST(a_sender_waits_for_a_receive),
			CALL_TEST(an_srq_goes_while_a_sender_waits_for_it),
			CALL_TEST(a_receive_that_is_too_short_ends_in_its_own_cq),
			CALL_TEST(a_receive_of_another_srq_is_given_back),
			CALL_TEST(memory_is_reached_through_the_srqs_pd));
}
