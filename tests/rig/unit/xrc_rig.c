/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* xrc_rig.c - see xrc_rig.h. */
#include "tests/rig/unit/xrc_rig.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/common/qp_attr.h"
#include "tests/rig/unit/cqe.h"

/* ---- clients ------------------------------------------------------------------------------- */

void xrc_client_open(struct xrc_client *c, int container)
{
	struct ff_hello_req hello = { FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } };
	struct ff_hello_resp hi;
	struct ff_alloc_pd_resp pd;
	struct ff_create_cq_resp cq;
	int fds[RIG_MAX_FDS];
	unsigned n = 0;

	*c = (struct xrc_client){ .sock = rig_connect(&call_rig, container) };
	assert_int_equal(rig_hello_with(&call_rig, c->sock, &hello, &hi, NULL, fds, &n), 0);
	assert_int_equal(n, 2);
	c->async = fds[0];
	close(fds[1]);
	c->s = LIST_FIRST(&call_rig.c[container]->sessions);
	assert_int_equal(
		RIG_CALL(&call_rig, c->sock, ALLOC_PD, (&(struct ff_alloc_pd_req){ 0 }), &pd), 0);
	assert_int_equal(RIG_CALL(&call_rig, c->sock, CREATE_CQ,
				  (&(struct ff_create_cq_req){ .cqe = 16 }), &cq),
			 0);
	c->pd = pd.pd;
	c->cq = cq.cq;
}

void xrc_client_close(struct xrc_client *c)
{
	close(c->sock);
	close(c->async);
	rig_pump(&call_rig);
}

int xrc_event(struct xrc_client *c, uint32_t *handle)
{
	struct ff_async_event ev;

	if (recv(c->async, &ev, sizeof(ev), MSG_DONTWAIT) != sizeof(ev))
		return -1;
	*handle = ev.handle;
	return (int)ev.event_type;
}

bool xrc_poll(struct xrc_client *c, struct ff_cqe *out)
{
	struct cq *cq = cq_get_unsealed(c->s, c->cq);
	struct ff_cqe *e = &cq->ring[c->ci & (cq->depth - 1)];

	if (atomic_load(&e->phase) != ff_cqe_phase(c->ci, cq->depth))
		return false;
	memcpy(out, e, sizeof(*out));
	atomic_store(&cq->hdr->ci, ++c->ci);
	return true;
}

void xrc_expect(struct xrc_client *c, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe e;

	cqe_is(xrc_poll(c, &e), &e, wr_id, st);
}

void xrc_expect_none(struct xrc_client *c)
{
	struct ff_cqe e;

	assert_false(xrc_poll(c, &e));
}

/* ---- objects ------------------------------------------------------------------------------- */

int xrc_open_xrcd(struct xrc_client *c, uint64_t dev, uint64_t ino, uint32_t flags, uint32_t *xrcd)
{
	struct ff_open_xrcd_req req = { dev, ino, 1, flags };
	struct ff_open_xrcd_resp resp;
	int err = RIG_CALL(&call_rig, c->sock, OPEN_XRCD, &req, &resp);

	*xrcd = resp.xrcd;
	return err;
}

uint32_t xrc_domain_of(struct xrc_client *c, uint64_t dev, uint64_t ino)
{
	uint32_t xrcd;

	assert_int_equal(xrc_open_xrcd(c, dev, ino, FF_XRCD_CREATE, &xrcd), 0);
	assert_int_not_equal(xrcd, 0);
	return xrcd;
}

int xrc_make_srq(struct xrc_client *c, uint32_t pd, uint32_t xrcd, uint32_t cq,
		 struct ff_create_srq_resp *resp)
{
	struct ff_create_srq_req req = {
		.pd = pd, .max_wr = 16, .max_sge = 1, .xrcd = xrcd, .cq = cq
	};

	return RIG_CALL(&call_rig, c->sock, CREATE_SRQ, &req, resp);
}

struct ff_create_srq_resp xrc_new_srq(struct xrc_client *c, uint32_t xrcd)
{
	struct ff_create_srq_resp resp;

	assert_int_equal(xrc_make_srq(c, c->pd, xrcd, c->cq, &resp), 0);
	assert_in_range(resp.srq_num, 1, 0xffffff);
	return resp;
}

int xrc_destroy_srq(struct xrc_client *c, uint32_t srq)
{
	struct ff_destroy_srq_req req = { srq };
	struct ff_destroy_srq_resp resp;

	return RIG_CALL(&call_rig, c->sock, DESTROY_SRQ, &req, &resp);
}

int xrc_make_qp(struct xrc_client *c, const struct ff_create_qp_req *req,
		struct ff_create_qp_resp *resp)
{
	return RIG_CALL(&call_rig, c->sock, CREATE_QP, req, resp);
}

struct ff_create_qp_resp xrc_new_recv(struct xrc_client *c, uint32_t xrcd)
{
	struct ff_create_qp_req req = { .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ff_create_qp_resp resp;

	assert_int_equal(xrc_make_qp(c, &req, &resp), 0);
	return resp;
}

struct ff_create_qp_resp xrc_new_send(struct xrc_client *c)
{
	struct ff_create_qp_req req = {
		.pd = c->pd,
		.send_cq = c->cq,
		.qp_type = IBV_QPT_XRC_SEND,
		.cap = { 16, 0, 1, 0, 64 },
	};
	struct ff_create_qp_resp resp;

	assert_int_equal(xrc_make_qp(c, &req, &resp), 0);
	assert_int_equal(resp.rq.depth, 0);
	return resp;
}

int xrc_open_qp(struct xrc_client *c, uint32_t xrcd, uint32_t qpn, struct ff_open_qp_resp *resp)
{
	struct ff_open_qp_req req = { xrcd, qpn, IBV_QPT_XRC_RECV };

	return RIG_CALL(&call_rig, c->sock, OPEN_QP, &req, resp);
}

/* ---- connections ---------------------------------------------------------------------------- */

int xrc_modify(struct xrc_client *c, uint32_t qp, enum ibv_qp_state state, uint32_t mask,
	       uint16_t lid, uint32_t dest)
{
	struct ff_modify_qp_req req = {
		.qp = qp,
		.mask = mask,
		.attr = qp_attr_usual(state, dest),
	};
	struct ff_modify_qp_resp resp;

	req.attr.ah = (struct ff_ah_attr){ .dlid = lid, .port_num = 1 };
	req.attr.retry_cnt = 1;
	req.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ;
	return RIG_CALL(&call_rig, c->sock, MODIFY_QP, &req, &resp);
}

void xrc_connect_to(struct xrc_client *c, uint32_t qp, int container, uint32_t dest)
{
	uint32_t all = XRC_TO_RTR | XRC_RTR_RECV, rts = XRC_TO_RTS | XRC_RTS_SEND;

	assert_int_equal(xrc_modify(c, qp, IBV_QPS_INIT, XRC_TO_INIT, 0, 0), 0);
	assert_int_equal(xrc_modify(c, qp, IBV_QPS_RTR, all, (uint16_t)(container + 1), dest), 0);
	assert_int_equal(xrc_modify(c, qp, IBV_QPS_RTS, rts, 0, 0), 0);
}

void xrc_run(uint64_t ns)
{
	call_rig.ctl.host->threads[0]->now += ns;
	for (int i = 0; i < 1000 && fast_turn(call_rig.ctl.host->threads[0]); i++)
		;
}

void xrc_sender_open(struct xrc_sender *s, uint32_t qpn)
{
	xrc_client_open(&s->c, 1);
	s->qp = xrc_new_send(&s->c);
	s->tail = 0;
	xrc_connect_to(&s->c, s->qp.qp, 0, qpn);
}

struct ff_sqe *xrc_post(struct xrc_sender *s, uint8_t opcode, uint32_t srqn, uint64_t wr_id)
{
	struct qp *qp = qp_get_unsealed(s->c.s, s->qp.qp);
	struct ff_sqe *e = qp_sqe(qp, s->tail);

	memset((uint8_t *)e + 2, 0, sizeof(*e) - 2);
	e->opcode = opcode;
	e->flags = FF_SQE_SIGNALED;
	e->wr_id = wr_id;
	e->remote_srqn = srqn;
	return e;
}

void xrc_go(struct xrc_sender *s)
{
	struct qp *qp = qp_get_unsealed(s->c.s, s->qp.qp);

	atomic_store(&qp_sqe(qp, s->tail)->seq, ff_seq(s->tail));
	s->tail++;
	fast_qp_activate(call_rig.ctl.host->threads[0], qp);
	xrc_run(0);
}

void xrc_send_to(struct xrc_sender *s, uint32_t srqn, uint64_t wr_id)
{
	xrc_post(s, FF_OP_SEND, srqn, wr_id);
	xrc_go(s);
}

void xrc_post_srq(struct xrc_client *c, const struct ff_create_srq_resp *srq, uint32_t i,
		  uint64_t wr_id)
{
	struct srq *q = srq_get_unsealed(c->s, srq->srq);
	struct ff_rqe *e = (struct ff_rqe *)(q->ring + (size_t)(i & (q->depth - 1)) * q->stride);

	e->num_sge = 0;
	e->wr_id = wr_id;
	atomic_store(&e->seq, ff_seq(i));
}

/* ---- delivery -------------------------------------------------------------------------------- */

void xrc_shared_open(struct xrc_shared *h)
{
	for (int i = 0; i < 2; i++) {
		xrc_client_open(&h->c[i], 0);
		h->xrcd[i] = xrc_domain_of(&h->c[i], XRC_FILE_A);
		h->srq[i] = xrc_new_srq(&h->c[i], h->xrcd[i]);
	}
	h->qp = xrc_new_recv(&h->c[0], h->xrcd[0]);
	xrc_sender_open(&h->from, h->qp.qp_num);
	xrc_connect_to(&h->c[0], h->qp.qp, 1, h->from.qp.qp_num);
}

void xrc_shared_close(struct xrc_shared *h)
{
	xrc_client_close(&h->from.c);
	xrc_client_close(&h->c[1]);
	xrc_client_close(&h->c[0]);
}
