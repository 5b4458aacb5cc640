/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/xrc_rig.c tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_xrc.c - XRC as clients of the router see it: domains and who shares them, the QPs that belong
 * to a domain, and what ends with whom. Virtual time.
 */
#include <errno.h>
#include <sys/socket.h>

#include "tests/rig/unit/xrc_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- objects ------------------------------------------------------------------------------- */

static int close_xrcd(struct xrc_client *c, uint32_t xrcd)
{
	struct ff_close_xrcd_req req = { xrcd };
	struct ff_close_xrcd_resp resp;

	return RIG_CALL(&call_rig, c->sock, CLOSE_XRCD, &req, &resp);
}

static int destroy_qp(struct xrc_client *c, uint32_t qp)
{
	struct ff_destroy_qp_req req = { qp };
	struct ff_destroy_qp_resp resp;

	return RIG_CALL(&call_rig, c->sock, DESTROY_QP, &req, &resp);
}

/* ---- domains -------------------------------------------------------------------------------- */

static void domains_are_found_by_their_file(void **state)
{
	struct xrc_client a, b, other;
	uint32_t xa, xb, x;

	(void)state;
	xrc_client_open(&a, 0);
	xrc_client_open(&b, 0);
	xrc_client_open(&other, 1);
	assert_int_equal(xrc_open_xrcd(&a, XRC_FILE_A, 0, &x), -EAGAIN);
	assert_int_equal(xrc_open_xrcd(&a, XRC_FILE_A, FF_XRCD_CREATE | FF_XRCD_EXCLUSIVE, &xa), 0);
	assert_int_equal(xrc_open_xrcd(&b, XRC_FILE_A, FF_XRCD_CREATE | FF_XRCD_EXCLUSIVE, &x),
			 -EINVAL);
	assert_int_equal(xrc_open_xrcd(&b, XRC_FILE_A, 0, &xb), 0);
	assert_ptr_equal(xrcd_get(a.s, xa)->xrcd, xrcd_get(b.s, xb)->xrcd);
	assert_int_equal(xrc_open_xrcd(&b, XRC_FILE_B, 0, &x), -EAGAIN);
	/* the same numbers in another container are another file */
	assert_int_equal(xrc_open_xrcd(&other, XRC_FILE_A, 0, &x), -EAGAIN);
	/* it is there until the last one closes it */
	assert_int_equal(close_xrcd(&a, xa), 0);
	assert_int_equal(close_xrcd(&a, xa), -EINVAL);
	assert_int_equal(xrc_open_xrcd(&a, XRC_FILE_A, 0, &xa), 0);
	xrc_client_close(&a);
	assert_int_equal(close_xrcd(&b, xb), 0);
	assert_int_equal(xrc_open_xrcd(&b, XRC_FILE_A, 0, &x), -EAGAIN);
	assert_true(LIST_EMPTY(&call_rig.c[0]->xrcds));
	xrc_client_close(&b);
	xrc_client_close(&other);
}

static void a_domain_without_a_file_is_its_openers_alone(void **state)
{
	struct ff_open_xrcd_req req = { .flags = FF_XRCD_CREATE }, bad = { .flags = 0x80 };
	struct ff_open_xrcd_resp x1, x2;
	struct ff_create_qp_resp qp;
	struct ff_open_qp_resp opened;
	struct xrc_client a;

	(void)state;
	xrc_client_open(&a, 0);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, OPEN_XRCD, &bad, &x1), -EINVAL);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, OPEN_XRCD, &req, &x1), 0);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, OPEN_XRCD, &req, &x2), 0);
	qp = xrc_new_recv(&a, x1.xrcd);
	assert_int_equal(xrc_open_qp(&a, x2.xrcd, qp.qp_num, &opened), -EINVAL);
	assert_int_equal(xrc_open_qp(&a, x1.xrcd, qp.qp_num, &opened), 0);
	xrc_client_close(&a);
	assert_true(LIST_EMPTY(&call_rig.c[0]->xrcds));
}

static void what_is_used_cannot_go(void **state)
{
	struct ff_destroy_cq_resp none;
	struct ff_create_srq_resp srq;
	struct ff_create_qp_resp qp;
	struct xrc_client a;
	uint32_t x;

	(void)state;
	xrc_client_open(&a, 0);
	x = xrc_domain_of(&a, XRC_FILE_A);
	srq = xrc_new_srq(&a, x);
	assert_int_equal(close_xrcd(&a, x), -EBUSY);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, DESTROY_CQ,
				  (&(struct ff_destroy_cq_req){ a.cq }), &none),
			 -EBUSY);
	assert_int_equal(xrc_destroy_srq(&a, srq.srq), 0);
	qp = xrc_new_recv(&a, x);
	assert_int_equal(close_xrcd(&a, x), -EBUSY);
	assert_int_equal(destroy_qp(&a, qp.qp), 0);
	assert_int_equal(destroy_qp(&a, qp.qp), -EINVAL);
	assert_int_equal(close_xrcd(&a, x), 0);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, DESTROY_CQ,
				  (&(struct ff_destroy_cq_req){ a.cq }), &none),
			 0);
	xrc_client_close(&a);
}

static void arguments_are_checked(void **state)
{
	struct ff_create_srq_resp srq;
	struct ff_create_qp_req req;
	struct ff_create_qp_resp qp;
	struct ff_open_qp_resp opened;
	struct xrc_client a, b;
	uint32_t x;

	(void)state;
	xrc_client_open(&a, 0);
	xrc_client_open(&b, 0);
	x = xrc_domain_of(&a, XRC_FILE_A);
	/* half of it, another session's, or none at all */
	assert_int_equal(xrc_make_srq(&a, a.pd, x, 0, &srq), -EINVAL);
	assert_int_equal(xrc_make_srq(&a, a.pd, 0, a.cq, &srq), -EINVAL);
	assert_int_equal(xrc_make_srq(&a, a.pd, x + 1, a.cq, &srq), -EINVAL);
	assert_int_equal(xrc_make_srq(&a, 0, x, a.cq, &srq), -EINVAL);
	assert_int_equal(xrc_make_srq(&b, b.pd, x, b.cq, &srq), -EINVAL);
	assert_int_equal(
		xrc_make_qp(&b,
			    &(struct ff_create_qp_req){ .xrcd = x, .qp_type = IBV_QPT_XRC_RECV },
			    &qp),
		-EINVAL);
	assert_int_equal(xrc_make_qp(&a, &(struct ff_create_qp_req){ .qp_type = IBV_QPT_XRC_RECV },
				     &qp),
			 -EINVAL);
	/* an XRC_SEND QP receives nothing; others have no domain */
	req = (struct ff_create_qp_req){ .pd = a.pd, .send_cq = a.cq, .recv_cq = a.cq };
	req.qp_type = IBV_QPT_XRC_SEND;
	assert_int_equal(xrc_make_qp(&a, &req, &qp), -EINVAL);
	req.qp_type = IBV_QPT_RC;
	req.xrcd = x;
	assert_int_equal(xrc_make_qp(&a, &req, &qp), -EINVAL);
	qp = xrc_new_send(&a);
	assert_int_equal(xrc_open_qp(&a, x, qp.qp_num, &opened), -EINVAL);
	assert_int_equal(xrc_open_qp(&a, x, 0x123456, &opened), -EINVAL);
	qp = xrc_new_recv(&a, x);
	assert_int_equal(xrc_open_qp(&b, x, qp.qp_num, &opened), -EINVAL);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, OPEN_QP,
				  (&(struct ff_open_qp_req){ x, qp.qp_num, IBV_QPT_RC }), &opened),
			 -EINVAL);
	xrc_client_close(&a);
	xrc_client_close(&b);
}

/* ---- QPs ------------------------------------------------------------------------------------- */

static void each_half_of_a_connection_has_its_attributes(void **state)
{
	struct ff_create_qp_resp recv, send;
	struct ff_query_qp_resp q;
	struct xrc_client a;

	(void)state;
	xrc_client_open(&a, 0);
	recv = xrc_new_recv(&a, xrc_domain_of(&a, XRC_FILE_A));
	send = xrc_new_send(&a);
	assert_int_equal(xrc_modify(&a, recv.qp, IBV_QPS_INIT, XRC_TO_INIT, 0, 0), 0);
	assert_int_equal(xrc_modify(&a, send.qp, IBV_QPS_INIT, XRC_TO_INIT, 0, 0), 0);
	assert_int_equal(xrc_modify(&a, recv.qp, IBV_QPS_RTR, XRC_TO_RTR, 1, send.qp_num), -EINVAL);
	assert_int_equal(
		xrc_modify(&a, recv.qp, IBV_QPS_RTR, XRC_TO_RTR | XRC_RTR_RECV, 1, send.qp_num), 0);
	assert_int_equal(xrc_modify(&a, send.qp, IBV_QPS_RTR, XRC_TO_RTR, 1, recv.qp_num), 0);
	assert_int_equal(xrc_modify(&a, send.qp, IBV_QPS_RTS, XRC_TO_RTS, 0, 0), -EINVAL);
	assert_int_equal(xrc_modify(&a, send.qp, IBV_QPS_RTS, XRC_TO_RTS | XRC_RTS_SEND, 0, 0), 0);
	/* what only the other half has is ignored */
	assert_int_equal(xrc_modify(&a, recv.qp, IBV_QPS_RTS, XRC_TO_RTS | XRC_RTS_SEND, 0, 0), 0);
	assert_int_equal(RIG_CALL(&call_rig, a.sock, QUERY_QP,
				  (&(struct ff_query_qp_req){ recv.qp }), &q),
			 0);
	assert_int_equal(q.attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(q.attr.min_rnr_timer, 12);
	assert_int_equal(q.attr.retry_cnt, 0);
	xrc_client_close(&a);
}

/* A client that rings for a QP without queues rings for nothing. */
static void bells_of_a_recv_qp_are_ignored(void **state)
{
	struct ff_create_qp_resp qp;
	struct xrc_client a;
	uint32_t i;

	(void)state;
	xrc_client_open(&a, 0);
	qp = xrc_new_recv(&a, xrc_domain_of(&a, XRC_FILE_A));
	i = FF_HANDLE_INDEX(qp.qp);
	fast_qp_activate(call_rig.ctl.host->threads[0], qp_get_unsealed(a.s, xrc_new_send(&a).qp));
	atomic_fetch_or(&a.s->hdr->dirty[i / 64], 1ull << i % 64);
	atomic_fetch_or(&a.s->hdr->dirty_sum[0], 1);
	atomic_fetch_add(&a.s->hdr->srq_kick, 1);
	xrc_run(0);
	assert_int_equal(destroy_qp(&a, qp.qp), 0);
	xrc_client_close(&a);
}

/* ---- what ends with whom ---------------------------------------------------------------------- */

static void a_qp_outlives_the_session_that_created_it(void **state)
{
	struct ff_open_qp_resp other;
	struct xrc_shared h;
	struct ff_cqe e;

	(void)state;
	xrc_shared_open(&h);
	assert_int_equal(xrc_open_qp(&h.c[1], h.xrcd[1], h.qp.qp_num, &other), 0);
	/* a message of the creator's, so that the QP has its SRQ at hand */
	xrc_post_srq(&h.c[0], &h.srq[0], 0, 100);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	xrc_send_to(&h.from, h.srq[0].srq_num, 1);
	xrc_expect(&h.from.c, 1, IBV_WC_SUCCESS);
	xrc_client_close(&h.c[0]);
	xrc_send_to(&h.from, h.srq[1].srq_num, 2);
	xrc_expect(&h.from.c, 2, IBV_WC_SUCCESS);
	assert_true(xrc_poll(&h.c[1], &e));
	assert_int_equal(e.wr_id, 200);
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	assert_int_equal(e.qp, FF_CQE_OF_SRQ | h.srq[1].srq); /* the QP is not this program's */
	/* the last one */
	assert_int_equal(destroy_qp(&h.c[1], other.qp), 0);
	assert_int_equal(xrc_open_qp(&h.c[1], h.xrcd[1], h.qp.qp_num, &other), -EINVAL);
	xrc_send_to(&h.from, h.srq[1].srq_num, 3);
	xrc_expect_none(&h.from.c);
	xrc_run(NS_PER_MS * 1000);
	xrc_run(NS_PER_MS * 1000);
	xrc_expect(&h.from.c, 3, IBV_WC_RETRY_EXC_ERR);
	xrc_client_close(&h.from.c);
	xrc_client_close(&h.c[1]);
	assert_true(LIST_EMPTY(&call_rig.c[0]->xrcds));
}

/* A target to which nothing was delivered yet belongs to a session that is still there. */
static void a_target_without_an_srq_changes_its_session(void **state)
{
	struct ff_open_qp_resp other;
	struct xrc_shared h;
	struct qp *t;

	(void)state;
	xrc_shared_open(&h);
	assert_int_equal(xrc_open_qp(&h.c[1], h.xrcd[1], h.qp.qp_num, &other), 0);
	t = xrc_target_find(h.c[1].s->cont, xrcd_get(h.c[1].s, h.xrcd[1])->xrcd, h.qp.qp_num);
	assert_null(t->srq);
	assert_ptr_equal(t->o.ses, h.c[0].s);
	xrc_client_close(&h.c[0]);
	assert_ptr_equal(t->o.ses, h.c[1].s);
	xrc_client_close(&h.from.c);
	xrc_client_close(&h.c[1]);
}

static void a_session_goes_with_the_srq_that_is_delivered_to(void **state)
{
	struct xrc_shared h;

	(void)state;
	xrc_shared_open(&h);
	xrc_post_srq(&h.c[1], &h.srq[1], 0, 200);
	xrc_send_to(&h.from, h.srq[1].srq_num, 1);
	xrc_expect(&h.from.c, 1, IBV_WC_SUCCESS);
	/* the next one waits there for a receive */
	xrc_send_to(&h.from, h.srq[1].srq_num, 2);
	xrc_client_close(&h.c[1]);
	xrc_run(0);
	xrc_expect(&h.from.c, 2, IBV_WC_REM_INV_REQ_ERR);
	/* and the QP is as good as before, once it is connected again */
	assert_int_equal(xrc_modify(&h.c[0], h.qp.qp, IBV_QPS_RESET, IBV_QP_STATE, 0, 0), 0);
	assert_int_equal(xrc_modify(&h.from.c, h.from.qp.qp, IBV_QPS_RESET, IBV_QP_STATE, 0, 0), 0);
	h.from.tail = 0;
	xrc_connect_to(&h.c[0], h.qp.qp, 1, h.from.qp.qp_num);
	xrc_connect_to(&h.from.c, h.from.qp.qp, 0, h.qp.qp_num);
	xrc_post_srq(&h.c[0], &h.srq[0], 0, 100);
	xrc_send_to(&h.from, h.srq[0].srq_num, 3);
	xrc_expect(&h.from.c, 3, IBV_WC_SUCCESS);
	xrc_expect(&h.c[0], 100, IBV_WC_SUCCESS);
	xrc_client_close(&h.from.c);
	xrc_client_close(&h.c[0]);
}

static void the_senders_container_goes(void **state)
{
	struct xrc_shared h;

	(void)state;
	xrc_shared_open(&h);
	xrc_client_close(&h.from.c);
	container_detach(call_rig.c[1]);
	assert_null(xrc_target_find(h.c[0].s->cont, xrcd_get(h.c[0].s, h.xrcd[0])->xrcd, 1));
	xrc_client_close(&h.c[1]);
	xrc_client_close(&h.c[0]);
}

int main(void)
{
	return UNIT_RUN(CALL_TEST(domains_are_found_by_their_file),
			CALL_TEST(a_domain_without_a_file_is_its_openers_alone),
			CALL_TEST(what_is_used_cannot_go), CALL_TEST(arguments_are_checked),
			CALL_TEST(each_half_of_a_connection_has_its_attributes),
			CALL_TEST(bells_of_a_recv_qp_are_ignored),
			CALL_TEST(a_qp_outlives_the_session_that_created_it),
			CALL_TEST(a_target_without_an_srq_changes_its_session),
			CALL_TEST(a_session_goes_with_the_srq_that_is_delivered_to),
			CALL_TEST(the_senders_container_goes));
}
