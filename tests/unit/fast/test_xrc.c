/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_xrc.c - XRC as clients of the router see it: domains and who shares them, the QPs that
 * belong to a domain, where a request goes, and what ends with whom. Virtual time.
 * build: tests/unit/lib/ctl_calls.c tests/lib/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/fast/internal.h"
#include "ffr/fast/xrc.h"
#include "tests/unit/lib/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;

/* ---- clients ------------------------------------------------------------------------------- */

struct client {
	int sock, async;
	struct session *s;
	uint32_t pd, cq;
	uint32_t ci; /* CQEs that were polled */
};

static void client_open(struct client *c, int container)
{
	struct ff_hello_req hello = { FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } };
	struct ff_hello_resp hi;
	struct ff_alloc_pd_resp pd;
	struct ff_create_cq_resp cq;
	int fds[RIG_MAX_FDS];
	unsigned n = 0;

	*c = (struct client){ .sock = rig_connect(g, container) };
	assert_int_equal(rig_hello_with(g, c->sock, &hello, &hi, NULL, fds, &n), 0);
	assert_int_equal(n, 2);
	c->async = fds[0];
	close(fds[1]);
	c->s = LIST_FIRST(&g->c[container]->sessions);
	assert_int_equal(RIG_CALL(g, c->sock, ALLOC_PD, (&(struct ff_alloc_pd_req){ 0 }), &pd), 0);
	assert_int_equal(
		RIG_CALL(g, c->sock, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 16 }), &cq), 0);
	c->pd = pd.pd;
	c->cq = cq.cq;
}

static void client_close(struct client *c)
{
	close(c->sock);
	close(c->async);
	rig_pump(g);
}

/* The next asynchronous event and whose it is; -1: none. */
static int event(struct client *c, uint32_t *handle)
{
	struct ff_async_event ev;

	if (recv(c->async, &ev, sizeof(ev), MSG_DONTWAIT) != sizeof(ev))
		return -1;
	*handle = ev.handle;
	return (int)ev.event_type;
}

static bool poll_cq(struct client *c, struct ff_cqe *out)
{
	struct cq *cq = cq_get(c->s, c->cq);
	struct ff_cqe *e = &cq->ring[c->ci & (cq->depth - 1)];

	if (atomic_load(&e->phase) != ff_cqe_phase(c->ci, cq->depth))
		return false;
	memcpy(out, e, sizeof(*out));
	atomic_store(&cq->hdr->ci, ++c->ci);
	return true;
}

static void expect(struct client *c, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe e;

	assert_true(poll_cq(c, &e));
	assert_int_equal(e.wr_id, wr_id);
	assert_int_equal(e.status, st);
}

static void expect_none(struct client *c)
{
	struct ff_cqe e;

	assert_false(poll_cq(c, &e));
}

/* ---- objects ------------------------------------------------------------------------------- */

#define FILE_A 1, 77
#define FILE_B 1, 78
#define CREATE FF_XRCD_CREATE

static int open_xrcd(struct client *c, uint64_t dev, uint64_t ino, uint32_t flags, uint32_t *xrcd)
{
	struct ff_open_xrcd_req req = { dev, ino, 1, flags };
	struct ff_open_xrcd_resp resp;
	int err = RIG_CALL(g, c->sock, OPEN_XRCD, &req, &resp);

	*xrcd = resp.xrcd;
	return err;
}

static uint32_t xrcd_of(struct client *c, uint64_t dev, uint64_t ino)
{
	uint32_t xrcd;

	assert_int_equal(open_xrcd(c, dev, ino, CREATE, &xrcd), 0);
	assert_int_not_equal(xrcd, 0);
	return xrcd;
}

static int close_xrcd(struct client *c, uint32_t xrcd)
{
	struct ff_close_xrcd_req req = { xrcd };
	struct ff_close_xrcd_resp resp;

	return RIG_CALL(g, c->sock, CLOSE_XRCD, &req, &resp);
}

static int make_srq(struct client *c, uint32_t pd, uint32_t xrcd, uint32_t cq,
		    struct ff_create_srq_resp *resp)
{
	struct ff_create_srq_req req = {
		.pd = pd, .max_wr = 16, .max_sge = 1, .xrcd = xrcd, .cq = cq
	};

	return RIG_CALL(g, c->sock, CREATE_SRQ, &req, resp);
}

static struct ff_create_srq_resp new_srq(struct client *c, uint32_t xrcd)
{
	struct ff_create_srq_resp resp;

	assert_int_equal(make_srq(c, c->pd, xrcd, c->cq, &resp), 0);
	assert_in_range(resp.srq_num, 1, 0xffffff);
	return resp;
}

static int destroy_srq(struct client *c, uint32_t srq)
{
	struct ff_destroy_srq_req req = { srq };
	struct ff_destroy_srq_resp resp;

	return RIG_CALL(g, c->sock, DESTROY_SRQ, &req, &resp);
}

static int make_qp(struct client *c, const struct ff_create_qp_req *req,
		   struct ff_create_qp_resp *resp)
{
	return RIG_CALL(g, c->sock, CREATE_QP, req, resp);
}

static struct ff_create_qp_resp new_recv(struct client *c, uint32_t xrcd)
{
	struct ff_create_qp_req req = { .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV };
	struct ff_create_qp_resp resp;

	assert_int_equal(make_qp(c, &req, &resp), 0);
	return resp;
}

static struct ff_create_qp_resp new_send(struct client *c)
{
	struct ff_create_qp_req req = {
		.pd = c->pd,
		.send_cq = c->cq,
		.qp_type = IBV_QPT_XRC_SEND,
		.cap = { 16, 0, 1, 0, 64 },
	};
	struct ff_create_qp_resp resp;

	assert_int_equal(make_qp(c, &req, &resp), 0);
	assert_int_equal(resp.rq.depth, 0);
	return resp;
}

static int open_qp(struct client *c, uint32_t xrcd, uint32_t qpn, struct ff_open_qp_resp *resp)
{
	struct ff_open_qp_req req = { xrcd, qpn, IBV_QPT_XRC_RECV };

	return RIG_CALL(g, c->sock, OPEN_QP, &req, resp);
}

static int destroy_qp(struct client *c, uint32_t qp)
{
	struct ff_destroy_qp_req req = { qp };
	struct ff_destroy_qp_resp resp;

	return RIG_CALL(g, c->sock, DESTROY_QP, &req, &resp);
}

/* ---- connections ---------------------------------------------------------------------------- */

#define TO_INIT	 (IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS)
#define TO_RTR	 (IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define TO_RTS	 (IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_SQ_PSN)
#define RTR_RECV (IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_SEND (IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static int modify(struct client *c, uint32_t qp, enum ibv_qp_state state, uint32_t mask,
		  uint16_t lid, uint32_t dest)
{
	struct ff_modify_qp_req req = {
		.qp = qp,
		.mask = mask,
		.attr = {
			.ah = { .dlid = lid, .port_num = 1 },
			.qp_state = (uint8_t)state,
			.dest_qp_num = dest,
			.path_mtu = IBV_MTU_1024,
			.port_num = 1,
			.timeout = 14,
			.retry_cnt = 1,
			.rnr_retry = 7,
			.min_rnr_timer = 12,
			.max_rd_atomic = 1,
			.max_dest_rd_atomic = 1,
			.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		},
	};
	struct ff_modify_qp_resp resp;

	return RIG_CALL(g, c->sock, MODIFY_QP, &req, &resp);
}

/* container: of the peer */
static void connect_to(struct client *c, uint32_t qp, int container, uint32_t dest)
{
	uint32_t all = TO_RTR | RTR_RECV, rts = TO_RTS | RTS_SEND;

	assert_int_equal(modify(c, qp, IBV_QPS_INIT, TO_INIT, 0, 0), 0);
	assert_int_equal(modify(c, qp, IBV_QPS_RTR, all, (uint16_t)(container + 1), dest), 0);
	assert_int_equal(modify(c, qp, IBV_QPS_RTS, rts, 0, 0), 0);
}

static void run(uint64_t ns)
{
	g->ctl.fast->now += ns;
	for (int i = 0; i < 1000 && fast_turn(g->ctl.fast); i++)
		;
}

struct sender {
	struct client c;
	struct ff_create_qp_resp qp;
	uint32_t tail;
};

/* In container 1, connected to the XRC_RECV QP of that number in container 0. */
static void sender_open(struct sender *s, uint32_t qpn)
{
	client_open(&s->c, 1);
	s->qp = new_send(&s->c);
	s->tail = 0;
	connect_to(&s->c, s->qp.qp, 0, qpn);
}

static struct ff_sqe *post(struct sender *s, uint8_t opcode, uint32_t srqn, uint64_t wr_id)
{
	struct qp *qp = qp_get(s->c.s, s->qp.qp);
	struct ff_sqe *e = qp_sqe(qp, s->tail);

	memset((uint8_t *)e + 2, 0, sizeof(*e) - 2);
	e->opcode = opcode;
	e->flags = FF_SQE_SIGNALED;
	e->wr_id = wr_id;
	e->remote_srqn = srqn;
	return e;
}

static void go(struct sender *s)
{
	struct qp *qp = qp_get(s->c.s, s->qp.qp);

	atomic_store(&qp_sqe(qp, s->tail)->seq, ff_seq(s->tail));
	s->tail++;
	fast_qp_activate(g->ctl.fast, qp);
	run(0);
}

static void send_to(struct sender *s, uint32_t srqn, uint64_t wr_id)
{
	post(s, FF_OP_SEND, srqn, wr_id);
	go(s);
}

/* An empty receive. */
static void post_srq(struct client *c, const struct ff_create_srq_resp *srq, uint32_t i,
		     uint64_t wr_id)
{
	struct srq *q = srq_get(c->s, srq->srq);
	struct ff_rqe *e = (struct ff_rqe *)(q->ring + (size_t)(i & (q->depth - 1)) * q->stride);

	e->num_sge = 0;
	e->wr_id = wr_id;
	atomic_store(&e->seq, ff_seq(i));
}

/* ---- domains -------------------------------------------------------------------------------- */

static void domains_are_found_by_their_file(void **state)
{
	struct client a, b, other;
	uint32_t xa, xb, x;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	client_open(&other, 1);
	assert_int_equal(open_xrcd(&a, FILE_A, 0, &x), -EAGAIN);
	assert_int_equal(open_xrcd(&a, FILE_A, CREATE | FF_XRCD_EXCLUSIVE, &xa), 0);
	assert_int_equal(open_xrcd(&b, FILE_A, CREATE | FF_XRCD_EXCLUSIVE, &x), -EINVAL);
	assert_int_equal(open_xrcd(&b, FILE_A, 0, &xb), 0);
	assert_ptr_equal(xrcd_get(a.s, xa)->xrcd, xrcd_get(b.s, xb)->xrcd);
	assert_int_equal(open_xrcd(&b, FILE_B, 0, &x), -EAGAIN);
	/* the same numbers in another container are another file */
	assert_int_equal(open_xrcd(&other, FILE_A, 0, &x), -EAGAIN);
	/* it is there until the last one closes it */
	assert_int_equal(close_xrcd(&a, xa), 0);
	assert_int_equal(close_xrcd(&a, xa), -EINVAL);
	assert_int_equal(open_xrcd(&a, FILE_A, 0, &xa), 0);
	client_close(&a);
	assert_int_equal(close_xrcd(&b, xb), 0);
	assert_int_equal(open_xrcd(&b, FILE_A, 0, &x), -EAGAIN);
	assert_true(LIST_EMPTY(&g->c[0]->xrcds));
	client_close(&b);
	client_close(&other);
}

static void a_domain_without_a_file_is_its_openers_alone(void **state)
{
	struct ff_open_xrcd_req req = { .flags = CREATE }, bad = { .flags = 0x80 };
	struct ff_open_xrcd_resp x1, x2;
	struct ff_create_qp_resp qp;
	struct ff_open_qp_resp opened;
	struct client a;

	(void)state;
	client_open(&a, 0);
	assert_int_equal(RIG_CALL(g, a.sock, OPEN_XRCD, &bad, &x1), -EINVAL);
	assert_int_equal(RIG_CALL(g, a.sock, OPEN_XRCD, &req, &x1), 0);
	assert_int_equal(RIG_CALL(g, a.sock, OPEN_XRCD, &req, &x2), 0);
	qp = new_recv(&a, x1.xrcd);
	assert_int_equal(open_qp(&a, x2.xrcd, qp.qp_num, &opened), -EINVAL);
	assert_int_equal(open_qp(&a, x1.xrcd, qp.qp_num, &opened), 0);
	client_close(&a);
	assert_true(LIST_EMPTY(&g->c[0]->xrcds));
}

static void what_is_used_cannot_go(void **state)
{
	struct ff_destroy_cq_resp none;
	struct ff_create_srq_resp srq;
	struct ff_create_qp_resp qp;
	struct client a;
	uint32_t x;

	(void)state;
	client_open(&a, 0);
	x = xrcd_of(&a, FILE_A);
	srq = new_srq(&a, x);
	assert_int_equal(close_xrcd(&a, x), -EBUSY);
	assert_int_equal(RIG_CALL(g, a.sock, DESTROY_CQ, (&(struct ff_destroy_cq_req){ a.cq }),
				  &none),
			 -EBUSY);
	assert_int_equal(destroy_srq(&a, srq.srq), 0);
	qp = new_recv(&a, x);
	assert_int_equal(close_xrcd(&a, x), -EBUSY);
	assert_int_equal(destroy_qp(&a, qp.qp), 0);
	assert_int_equal(destroy_qp(&a, qp.qp), -EINVAL);
	assert_int_equal(close_xrcd(&a, x), 0);
	assert_int_equal(
		RIG_CALL(g, a.sock, DESTROY_CQ, (&(struct ff_destroy_cq_req){ a.cq }), &none), 0);
	client_close(&a);
}

static void arguments_are_checked(void **state)
{
	struct ff_create_srq_resp srq;
	struct ff_create_qp_resp qp;
	struct ff_open_qp_resp opened;
	struct client a, b;
	uint32_t x;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	x = xrcd_of(&a, FILE_A);
	/* half of it, another session's, or none at all */
	assert_int_equal(make_srq(&a, a.pd, x, 0, &srq), -EINVAL);
	assert_int_equal(make_srq(&a, a.pd, 0, a.cq, &srq), -EINVAL);
	assert_int_equal(make_srq(&a, a.pd, x + 1, a.cq, &srq), -EINVAL);
	assert_int_equal(make_srq(&a, 0, x, a.cq, &srq), -EINVAL);
	assert_int_equal(make_srq(&b, b.pd, x, b.cq, &srq), -EINVAL);
	assert_int_equal(
		make_qp(&b, &(struct ff_create_qp_req){ .xrcd = x, .qp_type = IBV_QPT_XRC_RECV },
			&qp),
		-EINVAL);
	assert_int_equal(make_qp(&a, &(struct ff_create_qp_req){ .qp_type = IBV_QPT_XRC_RECV },
				 &qp),
			 -EINVAL);
	/* an XRC_SEND QP receives nothing; others have no domain */
	assert_int_equal(make_qp(&a,
				 &(struct ff_create_qp_req){ .pd = a.pd,
							     .send_cq = a.cq,
							     .recv_cq = a.cq,
							     .qp_type = IBV_QPT_XRC_SEND },
				 &qp),
			 -EINVAL);
	assert_int_equal(make_qp(&a,
				 &(struct ff_create_qp_req){ .pd = a.pd,
							     .send_cq = a.cq,
							     .recv_cq = a.cq,
							     .xrcd = x,
							     .qp_type = IBV_QPT_RC },
				 &qp),
			 -EINVAL);
	qp = new_send(&a);
	assert_int_equal(open_qp(&a, x, qp.qp_num, &opened), -EINVAL);
	assert_int_equal(open_qp(&a, x, 0x123456, &opened), -EINVAL);
	qp = new_recv(&a, x);
	assert_int_equal(open_qp(&b, x, qp.qp_num, &opened), -EINVAL);
	assert_int_equal(RIG_CALL(g, a.sock, OPEN_QP,
				  (&(struct ff_open_qp_req){ x, qp.qp_num, IBV_QPT_RC }), &opened),
			 -EINVAL);
	client_close(&a);
	client_close(&b);
}

/* ---- QPs ------------------------------------------------------------------------------------- */

static void each_half_of_a_connection_has_its_attributes(void **state)
{
	struct ff_create_qp_resp recv, send;
	struct ff_query_qp_resp q;
	struct client a;

	(void)state;
	client_open(&a, 0);
	recv = new_recv(&a, xrcd_of(&a, FILE_A));
	send = new_send(&a);
	assert_int_equal(modify(&a, recv.qp, IBV_QPS_INIT, TO_INIT, 0, 0), 0);
	assert_int_equal(modify(&a, send.qp, IBV_QPS_INIT, TO_INIT, 0, 0), 0);
	assert_int_equal(modify(&a, recv.qp, IBV_QPS_RTR, TO_RTR, 1, send.qp_num), -EINVAL);
	assert_int_equal(modify(&a, recv.qp, IBV_QPS_RTR, TO_RTR | RTR_RECV, 1, send.qp_num), 0);
	assert_int_equal(modify(&a, send.qp, IBV_QPS_RTR, TO_RTR, 1, recv.qp_num), 0);
	assert_int_equal(modify(&a, send.qp, IBV_QPS_RTS, TO_RTS, 0, 0), -EINVAL);
	assert_int_equal(modify(&a, send.qp, IBV_QPS_RTS, TO_RTS | RTS_SEND, 0, 0), 0);
	/* what only the other half has is ignored */
	assert_int_equal(modify(&a, recv.qp, IBV_QPS_RTS, TO_RTS | RTS_SEND, 0, 0), 0);
	assert_int_equal(RIG_CALL(g, a.sock, QUERY_QP, (&(struct ff_query_qp_req){ recv.qp }), &q),
			 0);
	assert_int_equal(q.attr.qp_state, IBV_QPS_RTS);
	assert_int_equal(q.attr.min_rnr_timer, 12);
	assert_int_equal(q.attr.retry_cnt, 0);
	client_close(&a);
}

/* A client that rings for a QP without queues rings for nothing. */
static void bells_of_a_recv_qp_are_ignored(void **state)
{
	struct ff_create_qp_resp qp;
	struct client a;
	uint32_t i;

	(void)state;
	client_open(&a, 0);
	qp = new_recv(&a, xrcd_of(&a, FILE_A));
	i = FF_HANDLE_INDEX(qp.qp);
	fast_qp_activate(g->ctl.fast, qp_get(a.s, new_send(&a).qp));
	atomic_fetch_or(&a.s->hdr->dirty[i / 64], 1ull << i % 64);
	atomic_fetch_or(&a.s->hdr->dirty_sum[0], 1);
	atomic_fetch_add(&a.s->hdr->srq_kick, 1);
	run(0);
	assert_int_equal(destroy_qp(&a, qp.qp), 0);
	client_close(&a);
}

/* ---- delivery -------------------------------------------------------------------------------- */

struct shared {
	struct client c[2]; /* processes of container 0 that share a domain */
	uint32_t xrcd[2];
	struct ff_create_srq_resp srq[2];
	struct ff_create_qp_resp qp; /* of c[0] */
	struct sender from;
};

static void shared_open(struct shared *h)
{
	for (int i = 0; i < 2; i++) {
		client_open(&h->c[i], 0);
		h->xrcd[i] = xrcd_of(&h->c[i], FILE_A);
		h->srq[i] = new_srq(&h->c[i], h->xrcd[i]);
	}
	h->qp = new_recv(&h->c[0], h->xrcd[0]);
	sender_open(&h->from, h->qp.qp_num);
	connect_to(&h->c[0], h->qp.qp, 1, h->from.qp.qp_num);
}

static void shared_close(struct shared *h)
{
	client_close(&h->from.c);
	client_close(&h->c[1]);
	client_close(&h->c[0]);
}

static void a_request_goes_to_the_srq_that_it_names(void **state)
{
	struct ff_stats st = { 0 };
	struct shared h;
	struct ff_cqe e;

	(void)state;
	shared_open(&h);
	assert_int_not_equal(h.srq[0].srq_num, h.srq[1].srq_num);
	post_srq(&h.c[0], &h.srq[0], 0, 100);
	post_srq(&h.c[1], &h.srq[1], 0, 200);
	post_srq(&h.c[1], &h.srq[1], 1, 201);
	send_to(&h.from, h.srq[1].srq_num, 1);
	expect(&h.from.c, 1, IBV_WC_SUCCESS);
	expect_none(&h.c[0]);
	assert_true(poll_cq(&h.c[1], &e));
	assert_int_equal(e.wr_id, 200);
	assert_int_equal(e.qp_num, h.qp.qp_num);
	assert_int_equal(e.src_qp, h.from.qp.qp_num);
	assert_int_equal(e.qp, FF_CQE_OF_SRQ | h.srq[1].srq);
	send_to(&h.from, h.srq[0].srq_num, 2);
	send_to(&h.from, h.srq[1].srq_num, 3);
	expect(&h.c[0], 100, IBV_WC_SUCCESS);
	expect(&h.c[1], 201, IBV_WC_SUCCESS);
	stats_of_container(h.c[0].s->cont, &st, NULL); /* of the QP, wherever they went */
	assert_int_equal(st.recv_ops, 3);
	shared_close(&h);
}

static void refused(struct shared *h, uint32_t srqn)
{
	struct ff_open_qp_resp other;
	uint32_t handle;

	assert_int_equal(open_qp(&h->c[1], h->xrcd[1], h->qp.qp_num, &other), 0);
	assert_int_equal(other.qp_state, IBV_QPS_RTS);
	send_to(&h->from, srqn, 1);
	expect(&h->from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	/* whoever has the QP open is told, by its own handle */
	assert_int_equal(event(&h->c[0], &handle), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(handle, h->qp.qp);
	assert_int_equal(event(&h->c[0], &handle), IBV_EVENT_QP_LAST_WQE_REACHED);
	assert_int_equal(event(&h->c[1], &handle), IBV_EVENT_QP_REQ_ERR);
	assert_int_equal(handle, other.qp);
	expect_none(&h->c[0]);
	expect_none(&h->c[1]);
}

static void a_number_that_is_no_srqs_is_refused(void **state)
{
	struct shared h;

	(void)state;
	shared_open(&h);
	refused(&h, h.srq[1].srq_num + 1);
	shared_close(&h);
}

static void an_srq_of_another_domain_is_refused(void **state)
{
	struct ff_create_srq_resp srq;
	struct shared h;

	(void)state;
	shared_open(&h);
	srq = new_srq(&h.c[0], xrcd_of(&h.c[0], FILE_B));
	post_srq(&h.c[0], &srq, 0, 300);
	refused(&h, srq.srq_num);
	shared_close(&h);
}

/* A sender has sent to an SRQ that has no receive. */
static void sender_waits(struct shared *h)
{
	shared_open(h);
	send_to(&h->from, h->srq[1].srq_num, 1);
	expect_none(&h->from.c);
}

static void a_sender_waits_for_a_receive(void **state)
{
	struct shared h;

	(void)state;
	sender_waits(&h);
	assert_int_equal(atomic_load(&srq_get(h.c[1].s, h.srq[1].srq)->hdr->need), 1);
	post_srq(&h.c[1], &h.srq[1], 0, 200);
	run(NS_PER_MS * 1000);
	expect(&h.from.c, 1, IBV_WC_SUCCESS);
	expect(&h.c[1], 200, IBV_WC_SUCCESS);
	shared_close(&h);
}

static void an_srq_goes_while_a_sender_waits_for_it(void **state)
{
	struct shared h;

	(void)state;
	sender_waits(&h);
	assert_int_equal(destroy_srq(&h.c[1], h.srq[1].srq), 0);
	run(0);
	expect(&h.from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	shared_close(&h);
}

/* Its receive was taken for a message that does not fit into it: that is seen there. */
static void a_receive_that_is_too_short_ends_in_its_own_cq(void **state)
{
	struct ff_sqe *e;
	struct shared h;

	(void)state;
	shared_open(&h);
	post_srq(&h.c[1], &h.srq[1], 0, 200);
	e = post(&h.from, FF_OP_SEND, h.srq[1].srq_num, 1);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 8;
	go(&h.from);
	expect(&h.c[1], 200, IBV_WC_LOC_LEN_ERR);
	expect(&h.from.c, 1, IBV_WC_REM_INV_REQ_ERR);
	expect_none(&h.c[0]);
	shared_close(&h);
}

static uint32_t reg(struct client *c, uint32_t pd, void *buf, uint64_t len)
{
	struct ff_reg_mr_req req = { (uintptr_t)buf, len, (uintptr_t)buf, pd,
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE };
	struct ff_reg_mr_resp resp;

	assert_int_equal(RIG_CALL(g, c->sock, REG_MR, &req, &resp), 0);
	return resp.rkey;
}

/* A message that breaks off at its sender leaves its receive with the QP, until it is of no use. */
static void a_receive_of_another_srq_is_given_back(void **state)
{
	void *gone = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct ff_rqe *rqe;
	struct ff_sqe *e;
	struct shared h;

	(void)state;
	assert_ptr_not_equal(gone, MAP_FAILED);
	shared_open(&h);
	post_srq(&h.c[1], &h.srq[1], 0, 200);
	post_srq(&h.c[0], &h.srq[0], 0, 100);
	rqe = (struct ff_rqe *)srq_get(h.c[1].s, h.srq[1].srq)->ring;
	rqe->num_sge = 1;
	rqe->sge[0] = (struct ff_sge){ (uintptr_t)&h, 8, reg(&h.c[1], h.c[1].pd, &h, sizeof(h)) };
	e = post(&h.from, FF_OP_SEND, h.srq[1].srq_num, 1);
	e->num_sge = 1;
	e->sge[0] = (struct ff_sge){ (uintptr_t)gone, 8, reg(&h.from.c, h.from.c.pd, gone, 4096) };
	munmap(gone, 4096);
	go(&h.from);
	expect(&h.from.c, 1, IBV_WC_LOC_PROT_ERR);
	expect_none(&h.c[1]);
	/* the sender comes again, with a message for another one */
	assert_int_equal(modify(&h.from.c, h.from.qp.qp, IBV_QPS_RESET, IBV_QP_STATE, 0, 0), 0);
	h.from.tail = 0;
	connect_to(&h.from.c, h.from.qp.qp, 0, h.qp.qp_num);
	send_to(&h.from, h.srq[0].srq_num, 2);
	expect(&h.from.c, 2, IBV_WC_SUCCESS);
	expect(&h.c[0], 100, IBV_WC_SUCCESS);
	expect(&h.c[1], 200, IBV_WC_WR_FLUSH_ERR);
	shared_close(&h);
}

static void write_to(struct shared *h, uint32_t srqn, uint64_t wr_id, void *to, uint32_t rkey)
{
	struct ff_sqe *e = post(&h->from, FF_OP_WRITE, srqn, wr_id);

	e->flags |= FF_SQE_INLINE;
	e->num_sge = 8;
	memset(e->inl, 0x5a, 8);
	e->remote_addr = (uintptr_t)to;
	e->rkey = rkey;
	go(&h->from);
}

/* The QP has no PD: the SRQ's is the one that counts. */
static void memory_is_reached_through_the_srqs_pd(void **state)
{
	uint64_t buf[2] = { 0 };
	struct shared h;
	uint32_t rkey;

	(void)state;
	shared_open(&h);
	rkey = reg(&h.c[1], h.c[1].pd, buf, sizeof(buf));
	write_to(&h, h.srq[1].srq_num, 1, &buf[0], rkey);
	expect(&h.from.c, 1, IBV_WC_SUCCESS);
	assert_int_equal(buf[0], 0x5a5a5a5a5a5a5a5a);
	write_to(&h, h.srq[0].srq_num, 2, &buf[1], rkey);
	expect(&h.from.c, 2, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(buf[1], 0);
	shared_close(&h);
}

/* ---- what ends with whom ---------------------------------------------------------------------- */

static void a_qp_outlives_the_session_that_created_it(void **state)
{
	struct ff_open_qp_resp other;
	struct shared h;

	(void)state;
	shared_open(&h);
	assert_int_equal(open_qp(&h.c[1], h.xrcd[1], h.qp.qp_num, &other), 0);
	/* a message of the creator's, so that the QP has its SRQ at hand */
	post_srq(&h.c[0], &h.srq[0], 0, 100);
	post_srq(&h.c[1], &h.srq[1], 0, 200);
	send_to(&h.from, h.srq[0].srq_num, 1);
	expect(&h.from.c, 1, IBV_WC_SUCCESS);
	client_close(&h.c[0]);
	send_to(&h.from, h.srq[1].srq_num, 2);
	expect(&h.from.c, 2, IBV_WC_SUCCESS);
	expect(&h.c[1], 200, IBV_WC_SUCCESS);
	/* the last one */
	assert_int_equal(destroy_qp(&h.c[1], other.qp), 0);
	assert_int_equal(open_qp(&h.c[1], h.xrcd[1], h.qp.qp_num, &other), -EINVAL);
	send_to(&h.from, h.srq[1].srq_num, 3);
	expect_none(&h.from.c);
	run(NS_PER_MS * 1000);
	run(NS_PER_MS * 1000);
	expect(&h.from.c, 3, IBV_WC_RETRY_EXC_ERR);
	client_close(&h.from.c);
	client_close(&h.c[1]);
	assert_true(LIST_EMPTY(&g->c[0]->xrcds));
}

static void a_session_goes_with_the_srq_that_is_delivered_to(void **state)
{
	struct shared h;

	(void)state;
	shared_open(&h);
	post_srq(&h.c[1], &h.srq[1], 0, 200);
	send_to(&h.from, h.srq[1].srq_num, 1);
	expect(&h.from.c, 1, IBV_WC_SUCCESS);
	/* the next one waits there for a receive */
	send_to(&h.from, h.srq[1].srq_num, 2);
	client_close(&h.c[1]);
	run(0);
	expect(&h.from.c, 2, IBV_WC_REM_INV_REQ_ERR);
	/* and the QP is as good as before, once it is connected again */
	assert_int_equal(modify(&h.c[0], h.qp.qp, IBV_QPS_RESET, IBV_QP_STATE, 0, 0), 0);
	assert_int_equal(modify(&h.from.c, h.from.qp.qp, IBV_QPS_RESET, IBV_QP_STATE, 0, 0), 0);
	h.from.tail = 0;
	connect_to(&h.c[0], h.qp.qp, 1, h.from.qp.qp_num);
	connect_to(&h.from.c, h.from.qp.qp, 0, h.qp.qp_num);
	post_srq(&h.c[0], &h.srq[0], 0, 100);
	send_to(&h.from, h.srq[0].srq_num, 3);
	expect(&h.from.c, 3, IBV_WC_SUCCESS);
	expect(&h.c[0], 100, IBV_WC_SUCCESS);
	client_close(&h.from.c);
	client_close(&h.c[0]);
}

static void the_senders_container_goes(void **state)
{
	struct shared h;

	(void)state;
	shared_open(&h);
	client_close(&h.from.c);
	container_detach(g->c[1]);
	assert_null(xrc_target_find(g->ctl.fast, xrcd_get(h.c[0].s, h.xrcd[0])->xrcd, 1));
	client_close(&h.c[1]);
	client_close(&h.c[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CALL_TEST(domains_are_found_by_their_file),
		CALL_TEST(a_domain_without_a_file_is_its_openers_alone),
		CALL_TEST(what_is_used_cannot_go),
		CALL_TEST(arguments_are_checked),
		CALL_TEST(each_half_of_a_connection_has_its_attributes),
		CALL_TEST(bells_of_a_recv_qp_are_ignored),
		CALL_TEST(a_request_goes_to_the_srq_that_it_names),
		CALL_TEST(a_number_that_is_no_srqs_is_refused),
		CALL_TEST(an_srq_of_another_domain_is_refused),
		CALL_TEST(a_sender_waits_for_a_receive),
		CALL_TEST(an_srq_goes_while_a_sender_waits_for_it),
		CALL_TEST(a_receive_that_is_too_short_ends_in_its_own_cq),
		CALL_TEST(a_receive_of_another_srq_is_given_back),
		CALL_TEST(memory_is_reached_through_the_srqs_pd),
		CALL_TEST(a_qp_outlives_the_session_that_created_it),
		CALL_TEST(a_session_goes_with_the_srq_that_is_delivered_to),
		CALL_TEST(the_senders_container_goes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
