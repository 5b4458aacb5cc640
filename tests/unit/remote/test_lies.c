/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_lies.c - what a router achieves that sends other frames than it should, to QPs that are
 * connected with its own; and what comes of messages whose rest never comes.
 */
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/fast/xrc.h"
#include "tests/rig/unit/two_hosts.h"

/* 10 bytes for 5000 at host 1. */
static struct wire_hdr written_of(struct hosts *t, uint32_t msn)
{
	struct wire_hdr h = { .opcode = FF_OP_WRITE, .msn = msn, .req.length = 10 };

	h.req.addr = hosts_at(t, 1, 5000);
	h.req.rkey = t->h[1].mr->rkey;
	return h;
}

/* Each message is matched with a receive for itself, also when another one began in its place. */
static void begun_anew(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr sent = { .opcode = FF_OP_SEND, .req.length = 20 };
	struct wire_hdr written = written_of(t, 0);
	struct wire_hdr longer = { .opcode = FF_OP_SEND, .msn = 1, .req.length = 100 };
	struct ff_cqe c;

	hosts_recv(t, 1, 0, 50);
	hosts_part(t, &sent, 10, 1);
	hosts_part(t, &written, 10, 2);
	assert_int_equal(t->h[1].buf[5009], 2);
	hosts_expect_none(t, 1); /* a WRITE takes no receive */
	sent.msn = 1;
	hosts_part(t, &sent, 10, 3);
	hosts_part(t, &longer, 100, 4);
	assert_int_equal(t->h[1].buf[0], 3);
	assert_true(rig_poll(t->h[1].cq, &c));
	assert_int_equal(c.wr_id, 1);
	assert_int_equal(c.status, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
}

/* A message that is longer than any message may be is none: it takes no receive. */
static void longer_than_any(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr most = { .opcode = FF_OP_SEND, .req.length = FF_MAX_MSG_SZ };
	struct wire_hdr longer = { .opcode = FF_OP_SEND, .req.length = FF_MAX_MSG_SZ + 1ull };
	struct ff_cqe c;

	hosts_recv(t, 1, 0, 50);
	hosts_part(t, &longer, 10, 1);
	hosts_expect_none(t, 1);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_RTS);
	hosts_part(t, &most, 10, 1);
	assert_true(rig_poll(t->h[1].cq, &c));
	assert_int_equal(c.status, IBV_WC_LOC_LEN_ERR);
}

/* Frames with the tag of another connection of the same two QPs are late ones: they are thrown away. */
static void of_another_connection(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr first = written_of(t, 0), late = written_of(t, 1), next = written_of(t, 1);

	hosts_part(t, &first, 10, 1);
	assert_int_equal(t->h[1].buf[5000], 1);
	late.tag = first.tag + 1;
	hosts_part(t, &late, 10, 2);
	assert_int_equal(t->h[1].buf[5000], 1);
	hosts_part(t, &next, 10, 3);
	assert_int_equal(t->h[1].buf[5000], 3);
}

/* What was for a container that was here before, with the same name and number, is not this one's. */
static void of_an_earlier_container(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr late = written_of(t, 0), next = written_of(t, 0);

	late.dst_epoch = 2;
	hosts_part(t, &late, 10, 2);
	assert_int_equal(t->h[1].buf[5000], 0xa1);
	hosts_part(t, &next, 10, 3);
	assert_int_equal(t->h[1].buf[5000], 3);
}

/* A message whose end is beyond the region is refused when it begins: none of it is written. */
static void beyond_the_region(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = written_of(t, 0);

	h.req.addr = hosts_at(t, 1, HOSTS_BUF - 10);
	h.req.length = 11;
	hosts_part(t, &h, 10, 2);
	assert_int_equal(t->h[1].buf[HOSTS_BUF - 10], 0xa1);
	assert_int_equal(t->h[1].qp->qp.state, IBV_QPS_ERR);
}

/* UC has no READ: nobody would ask again for an answer that is lost. */
static void read_of_uc(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr h = written_of(t, 0);

	h.opcode = FF_OP_READ;
	hosts_part(t, &h, 0, 0);
	assert_int_equal(t->h[1].qp->qp.stats.tx_bytes, 0);
	assert_int_equal(t->h[1].qp->qp.soft->rem->rx.job_tail, 0);
	assert_int_equal(t->h[1].qp->qp.soft->rem->rx.msn, 0);
}

/* UC: the rest of a SEND is lost with the connection; its receive waits for the next one. */
static void lost_rest(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr sent = { .opcode = FF_OP_SEND, .req.length = 20 };
	struct wire_hdr written = written_of(t, 1);
	struct wire_hdr longer = { .opcode = FF_OP_SEND, .msn = 2, .req.length = 100 };
	struct wire_hdr fits = { .opcode = FF_OP_SEND, .msn = 3, .req.length = 30 };
	struct ff_cqe c;

	hosts_recv(t, 1, 0, 50);
	hosts_part(t, &sent, 10, 1);
	hosts_cut(t);
	hosts_connect(t);
	hosts_part(t, &written, 10, 2);
	assert_int_equal(t->h[1].buf[5009], 2);
	hosts_part(t, &longer, 100, 3);
	hosts_expect_none(t, 1);
	hosts_part(t, &fits, 30, 4);
	assert_true(rig_poll(t->h[1].cq, &c));
	assert_int_equal(c.wr_id, 1);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 30);
	assert_int_equal(t->h[1].buf[29], 4);
}

/* UC asks its peer whether it is there; an acknowledgement is no answer to that. */
static void acknowledged_uc(void **state)
{
	struct hosts *t = *state;
	struct wire_hdr ack = { .type = WIRE_ACK };

	rig_state(&t->h[1].r, t->h[1].qp, IBV_QPS_RESET);
	hosts_rdma(t, FF_OP_WRITE, 1, 0, 0, 100);
	hosts_run(t);
	ack.dst_qpn = t->h[0].qp->qp.qp_num;
	ack.src_qpn = t->h[0].qp->qp.attr.dest_qp_num;
	ack.dst_cont = t->h[0].r.cont[0].id;
	ack.dst_epoch = 1;
	ack.src_cont = t->h[1].r.cont[0].id;
	ack.src_epoch = 1;
	ack.tag = t->h[0].qp->qp.soft->rem->tx.tag;
	wire_send(t->h[1].r.f, &t->h[1].other, &ack, NULL);
	hosts_run(t);
	hosts_expect_none(t, 0);
	for (int i = 0; i < 600; i++)
		hosts_advance(t, NS_PER_MS);
	hosts_expect(t, 0, 1, IBV_WC_SUCCESS); /* it is lost */
}

/* ---- XRC ---------------------------------------------------------------------------------------- */

struct xrc {
	struct hosts t;
	struct xrcd xrcd;
	struct xrcd_ref ref;
	struct qp user, *target;
	struct rig_srq *srq[2];
	uint32_t last;
};

static void xrc_up(struct xrc *x)
{
	struct host *h = &x->t.h[1];
	struct fast *f;
	struct ff_qp_attr *a;

	memset(x, 0, sizeof(*x));
	hosts_up(&x->t, IBV_QPT_XRC_SEND);
	f = h->r.f;
	x->ref.xrcd = &x->xrcd;
	xrcd_hold(&x->xrcd, &h->r.cont[0]);
	x->user.type = IBV_QPT_XRC_RECV;
	x->user.xrc.ref = &x->ref;
	x->user.o.kind = OBJ_QP;
	x->user.o.ses = &h->s->s;
	assert_int_equal(obj_insert(&h->s->s.tab[OBJ_QP], &x->user.o), 0);
	x->target = xrc_target_new();
	assert_int_equal(xrc_target_add(f, x->target, &x->user), 0);
	for (int i = 0; i < 2; i++) {
		x->srq[i] = rig_srq(&h->r, h->s, 16);
		x->srq[i]->srq.xref = &x->ref;
		x->srq[i]->srq.cq = &h->cq->cq;
		xrc_srq_add(&x->srq[i]->srq, &x->last);
		rig_srq_recv(&h->r, x->srq[i], (uint64_t)i, h->mr, hosts_at(&x->t, 1, 1000u * i),
			     900);
		rig_srq_recv(&h->r, x->srq[i], 10u + i, h->mr, hosts_at(&x->t, 1, 5000 + 1000u * i),
			     900);
	}
	a = &x->target->attr;
	fast_qp_set_state(f, x->target, IBV_QPS_INIT);
	*a = h->qp->qp.attr;
	a->dest_qp_num = x->t.h[0].qp->qp.qp_num;
	fast_qp_set_state(f, x->target, IBV_QPS_RTR);
	hosts_run(&x->t);
}

static void xrc_down(struct xrc *x, int first_srq)
{
	struct host *h = &x->t.h[1];

	for (int i = 0; i < 2; i++) {
		if (i >= first_srq)
			xrc_srq_del(h->r.f, &x->srq[i]->srq);
		rig_srq_free(&h->r, x->srq[i]);
	}
	xrc_target_free(xrc_user_del(h->r.f, &x->user));
	obj_remove(&h->s->s.tab[OBJ_QP], &x->user.o);
	xrcd_release(&x->xrcd, &h->r.cont[0]);
	hosts_down(&x->t);
}

/* The SRQ that a message is being received into is destroyed. */
static void srq_goes(void **state)
{
	struct xrc x;
	struct wire_hdr h = { .opcode = FF_OP_SEND, .req.length = 300 };

	(void)state;
	xrc_up(&x);
	h.dst_qpn = x.target->qp_num;
	h.req.srqn = x.srq[0]->srq.num;
	hosts_part(&x.t, &h, 100, 1);
	assert_int_equal(x.target->soft->resp.recv, RECV_TAKEN);
	assert_int_equal(x.target->soft->rem->rx.state, RX_TAKE_RECV);
	xrc_srq_del(x.t.h[1].r.f, &x.srq[0]->srq);
	assert_int_equal(x.target->soft->rem->rx.state, RX_DROP);
	h.offset = 100;
	hosts_part(&x.t, &h, 100, 2); /* what was on its way */
	hosts_expect_none(&x.t, 1);
	assert_int_equal(x.t.h[1].buf[100], 0xa1);
	assert_int_equal(x.target->state, IBV_QPS_RTR);
	h.offset = 0; /* it comes again, and there is no such SRQ */
	hosts_part(&x.t, &h, 100, 3);
	assert_int_equal(x.target->state, IBV_QPS_ERR);
	xrc_down(&x, 1);
}

/* The first part of `h` has come when an old READ, said again, binds another SRQ. */
static void srq_changed(struct xrc *x, struct wire_hdr *h)
{
	struct wire_hdr read = { .opcode = FF_OP_READ, .req.length = 8 };

	xrc_up(x);
	h->dst_qpn = read.dst_qpn = x->target->qp_num;
	h->req.srqn = x->srq[0]->srq.num;
	read.req.srqn = x->srq[1]->srq.num;
	read.req.addr = hosts_at(&x->t, 1, 20000);
	read.req.rkey = x->t.h[1].mr->rkey;
	hosts_part(&x->t, &read, 0, 0);
	hosts_part(&x->t, h, 100, 1);
	hosts_part(&x->t, &read, 0, 0);
	hosts_expect(&x->t, 1, 0, IBV_WC_WR_FLUSH_ERR);
}

/* The message under way starts again. */
static void srq_changes(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND, .msn = 1, .req.length = 300 };
	struct xrc x;

	(void)state;
	srq_changed(&x, &h);
	h.offset = 100;
	hosts_part(&x.t, &h, 200, 2);
	hosts_expect_none(&x.t, 1);
	assert_int_equal(x.t.h[1].buf[100], 0xa1);
	h.offset = 0;
	h.flags = 0;
	hosts_part(&x.t, &h, 100, 3);
	h.offset = 100;
	hosts_part(&x.t, &h, 200, 4);
	hosts_expect(&x.t, 1, 10, IBV_WC_SUCCESS);
	assert_int_equal(x.t.h[1].buf[5000], 3);
	assert_int_equal(x.t.h[1].buf[5299], 4);
	xrc_down(&x, 0);
}

/* The same, and the connection ends: what follows on the next one goes into no receive that ended. */
static void srq_changes_and_cut(void **state)
{
	struct wire_hdr h = { .opcode = FF_OP_SEND, .msn = 1, .req.length = 300 };
	struct xrc x;

	(void)state;
	srq_changed(&x, &h);
	hosts_cut(&x.t);
	hosts_connect(&x.t);
	hosts_run(&x.t);
	h.offset = 100;
	hosts_part(&x.t, &h, 200, 2);
	hosts_expect_none(&x.t, 1);
	assert_int_equal(x.t.h[1].buf[100], 0xa1);
	xrc_down(&x, 0);
}

int main(void)
{
	return UNIT_RUN(HOSTS_TEST(begun_anew), HOSTS_TEST(longer_than_any),
			HOSTS_TEST(of_another_connection), HOSTS_TEST(of_an_earlier_container),
			HOSTS_TEST(beyond_the_region), HOSTS_TEST_UC(read_of_uc),
			HOSTS_TEST_UC(lost_rest), HOSTS_TEST_UC(acknowledged_uc),
			cmocka_unit_test(srq_goes), cmocka_unit_test(srq_changes),
			cmocka_unit_test(srq_changes_and_cut));
}
