/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/*
 * test_ud.c - datagrams by the NIC: which way each goes, what the NIC gets of it, whom what comes is delivered to, and
 * what errors of the NIC, rubbish and floods lead to.
 */
#include "tests/rig/unit/nic_rig.h"
#include "ffr/abi/ff_verbs.h"

#include <arpa/inet.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "ffr/obj/gid.h"

#define QKEY 0x1111u

struct ud {
	struct nic_rig n;
	struct ah ah; /* by the NIC, to fd01::2 */
};

static void ah_add(struct nic_rig *n, struct ah *ah, int sgid_index, uint8_t last)
{
	*ah = (struct ah){ .o = { .kind = OBJ_AH, .ses = &n->s->s }, .pd = &n->s->pd };
	ah->attr = (struct ff_ah_attr){ .is_global = 1,
					.sgid_index = (uint8_t)sgid_index,
					.hop_limit = 9,
					.traffic_class = 8,
					.flow_label = 7,
					.sl = 6 };
	memcpy(ah->attr.dgid, "\xfd\x01\0\0\0\0\0\0\0\0\0\0\0\0\0", 15);
	ah->attr.dgid[15] = last;
	assert_int_equal(obj_insert(&n->s->s.tab[OBJ_AH], &ah->o), 0);
}

static void ah_del(struct nic_rig *n, struct ah *ah)
{
	obj_remove(&n->s->s.tab[OBJ_AH], &ah->o);
}

static void to_rts(struct nic_rig *n, struct rig_qp *q)
{
	rig_state(&n->r, q, IBV_QPS_INIT);
	q->qp.attr.qkey = QKEY;
	rig_state(&n->r, q, IBV_QPS_RTR);
	rig_state(&n->r, q, IBV_QPS_RTS);
	rig_run(&n->r);
}

static int ud_setup(void **state)
{
	static struct ud u;

	fake_nic_reset();
	fake_nic.attr.max_ah = 100;
	nic_rig_open_qp(&u.n, IBV_QPT_UD);
	ah_add(&u.n, &u.ah, gid_nic_index(&u.n.r.cont[0]), 2);
	to_rts(&u.n, u.n.qp);
	*state = &u;
	return 0;
}

static int ud_teardown(void **state)
{
	struct ud *u = *state;

	fake_nic_hold_ahs(false);
	if (u->n.qp)
		ah_del(&u->n, &u->ah);
	nic_rig_close(&u->n);
	return 0;
}
#define UD_TEST(name) cmocka_unit_test_setup_teardown(name, ud_setup, ud_teardown)

static struct ff_sqe *sqe(struct ud *u, const struct ah *ah, uint64_t id)
{
	struct ff_sqe *e = rig_sqe(u->n.qp, FF_OP_SEND, id);

	e->ud.ah = ah->o.handle;
	e->ud.remote_qpn = 0x4321;
	e->ud.remote_qkey = 0x2222;
	return e;
}

static void post(struct ud *u)
{
	rig_post(&u->n.r, u->n.qp);
	rig_run(&u->n.r);
}

static void send_one(struct ud *u, const struct ah *ah, uint64_t id, uint32_t len)
{
	rig_sge(sqe(u, ah, id), u->n.mr, nic_rig_at(&u->n, 0), len);
	post(u);
}

/* Turns until the worker that makes address handles has done as much. */
static void run_until_sends(struct ud *u, unsigned num)
{
	while (fake_nic_num_sends() < num) {
		sched_yield();
		nic_rig_work(&u->n);
		rig_run(&u->n.r);
	}
}

static void run_until_done(struct ud *u, struct ff_cqe *c)
{
	while (!rig_poll(u->n.cq, c)) {
		sched_yield();
		nic_rig_work(&u->n);
		rig_run(&u->n.r);
	}
}

/* One is sent and has ended: there is a handle. */
static void warm_up(struct ud *u)
{
	struct ff_cqe c;

	send_one(u, &u->ah, 1000, 8);
	run_until_done(u, &c);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	fake_nic_sent(u->n.ib, IBV_WC_SUCCESS);
	rig_run(&u->n.r);
	nic_rig_expect_none(&u->n);
}

/* ---- its life ------------------------------------------------------------------------------------------- */

static void it_is_the_nics_number(void **state)
{
	struct ud *u = *state;

	assert_int_equal(u->n.qp->qp.qp_num, u->n.ib->qp_num);
	assert_int_equal(fake_nic.init.qp_type, IBV_QPT_UD);
	assert_int_equal(fake_nic_state(u->n.ib), IBV_QPS_RTS);
	assert_int_equal(fake_nic.modify[0].attr.qkey, QKEY);
	assert_true(fake_nic.modify[0].mask & IBV_QP_QKEY);
	assert_int_equal(fake_nic_recvs(u->n.ib), 16);
	assert_int_equal(u->n.qp->qp.nic->ud->mtu, 2048);
}

static void reset_and_again(void **state)
{
	struct ud *u = *state;

	for (int i = 0; i < 3; i++) {
		rig_state(&u->n.r, u->n.qp, IBV_QPS_RESET);
		assert_int_equal(fake_nic_state(u->n.ib), IBV_QPS_RESET);
		assert_int_equal(fake_nic_recvs(u->n.ib), 0);
		to_rts(&u->n, u->n.qp);
		assert_int_equal(fake_nic_recvs(u->n.ib), 16);
		warm_up(u);
	}
}

static void another_qkey(void **state)
{
	struct ud *u = *state;

	u->n.qp->qp.attr.qkey = 0x3333;
	assert_int_equal(rig_state_try(u->n.qp, IBV_QPS_RTS), 0);
	assert_int_equal(fake_nic.modify[(fake_nic.num_modify - 1) % 64].attr.qkey, 0x3333);
	fake_nic_fail(FAKE_modify_qp, 1, EPERM);
	u->n.qp->qp.attr.qkey = 0x80000001u;
	assert_int_equal(rig_state_try(u->n.qp, IBV_QPS_RTS), -EPERM);
	u->n.qp->qp.attr.qkey = 0x3333;
}

/* Each call of the NIC on the way to RTR may fail: the QP stays where it is, and can go on later. */
static void a_refused_state(void **state)
{
	struct ud *u = *state;

	rig_state(&u->n.r, u->n.qp, IBV_QPS_RESET);
	for (unsigned nth = 1; nth <= 3; nth++) {
		rig_state(&u->n.r, u->n.qp, IBV_QPS_INIT);
		u->n.qp->qp.attr.qkey = QKEY;
		fake_nic_fail(FAKE_modify_qp, nth, EINVAL);
		assert_int_equal(rig_state_try(u->n.qp, IBV_QPS_RTR), -EINVAL);
		assert_int_equal(fake_nic_state(u->n.ib), IBV_QPS_RESET);
		assert_int_equal(u->n.qp->qp.state, IBV_QPS_INIT);
	}
	fake_nic_fail(FAKE_post_recv, 5, ENOMEM);
	assert_int_equal(rig_state_try(u->n.qp, IBV_QPS_RTR), -ENOMEM);
	assert_int_equal(fake_nic_recvs(u->n.ib), 0);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_RTR);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_RTS);
	assert_int_equal(fake_nic_recvs(u->n.ib), 16);
	warm_up(u);
}

/* Without its part on the NIC it is a QP as any other: what the NIC refuses costs that part only. */
static void what_the_nic_refuses(void **state)
{
	static const enum fake_nic_call call[] = { FAKE_reg_mr_iova2, FAKE_create_cq,
						   FAKE_create_qp };
	struct ud *u = *state;

	for (unsigned i = 0; i < 3; i++) {
		struct rig_qp *q;

		/* the container's QPs share a CQ while there is room in it */
		rig_qp_free(&u->n.r, u->n.qp);
		fake_nic_fail(call[i], 1, ENOMEM);
		if (call[i] == FAKE_create_cq) {
			fake_nic_fail(FAKE_create_cq, 1, EINVAL);
			q = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
			assert_non_null(q->qp.nic); /* a smaller one */
		} else {
			q = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
			assert_null(q->qp.nic);
		}
		to_rts(&u->n, q);
		rig_qp_free(&u->n.r, q);
		u->n.qp = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
	}
}

/* A datagram from the NIC's GID that has no part there reaches nobody. */
static void without_a_part_there(void **state)
{
	struct ud *u = *state;
	struct rig_qp *with = u->n.qp;

	fake_nic_fail(FAKE_create_qp, 1, ENOMEM);
	u->n.qp = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
	to_rts(&u->n, u->n.qp);
	send_one(u, &u->ah, 1, 8);
	nic_rig_expect(&u->n, 1, IBV_WC_SUCCESS);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 1);
	assert_int_equal(fake_nic_num_sends(), 0);
	rig_qp_free(&u->n.r, u->n.qp);
	u->n.qp = with;
}

/* A container's buffers are limited; who has too many QPs has the last ones without. */
static void a_containers_share(void **state)
{
	struct ud *u = *state;
	struct rig_ses *other = rig_session(&u->n.r, 1);
	struct rig_cq *cq = rig_cq(&u->n.r, other, 16, false);
	struct rig_qp *q[400], *theirs;
	unsigned n = 0, with = 0;

	for (; n < 400; n++) {
		q[n] = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
		with += q[n]->qp.nic != NULL;
	}
	assert_in_range(with, 100, 399); /* of whole pages: 127 with pages of 64 KB */
	assert_in_range(u->n.qp->qp.nic->ud->pool->bytes, 15u << 20, 16u << 20);
	theirs = rig_qp(&u->n.r, other, IBV_QPT_UD, cq, cq, NULL);
	assert_non_null(theirs->qp.nic);
	rig_qp_free(&u->n.r, theirs);
	while (n)
		rig_qp_free(&u->n.r, q[--n]);
	q[0] = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
	assert_non_null(q[0]->qp.nic);
	rig_qp_free(&u->n.r, q[0]);
	rig_cq_free(&u->n.r, cq);
	rig_session_free(&u->n.r, other);
}

static void not_without_nic_direct(void **state)
{
	struct nic_rig n;

	(void)state;
	fake_nic_reset();
	nic_rig_conf.direct = false;
	nic_rig_open(&n);
	nic_rig_conf.direct = true;
	n.qp = rig_qp(&n.r, n.s, IBV_QPT_UD, n.cq, n.cq, NULL);
	assert_null(n.qp->qp.nic);
	nic_rig_close(&n);
}

/* ---- what is sent ------------------------------------------------------------------------------------- */

static void what_the_nic_gets(void **state)
{
	struct ud *u = *state;
	const struct fake_nic_wr *w;
	struct ff_sqe *e;
	struct ff_cqe c;

	for (unsigned i = 0; i < 100; i++)
		u->n.buf[i] = (uint8_t)i;
	e = sqe(u, &u->ah, 7);
	e->opcode = FF_OP_SEND_IMM;
	e->imm = htonl(0xdead0001);
	e->flags |= FF_SQE_SOLICITED;
	rig_sge(e, u->n.mr, nic_rig_at(&u->n, 10), 20);
	rig_sge(e, u->n.mr, nic_rig_at(&u->n, 50), 30);
	post(u);
	run_until_done(u, &c);
	assert_int_equal(c.wr_id, 7);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(u->n.qp->qp.stats.tx_bytes, 50);
	w = fake_nic_send_at(0);
	assert_ptr_equal(w->qp, u->n.ib);
	assert_int_equal(w->send.opcode, IBV_WR_SEND_WITH_IMM);
	assert_int_equal(w->send.imm_data, htonl(0xdead0001));
	assert_int_equal(w->send.send_flags, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	assert_int_equal(w->send.wr.ud.remote_qpn, 0x4321);
	assert_int_equal(w->send.wr.ud.remote_qkey, 0x2222);
	assert_int_equal(w->num_sge, 1);
	assert_int_equal(w->sge[0].length, 50);
	assert_memory_equal(w->data, u->n.buf + 10, 20);
	assert_memory_equal(w->data + 20, u->n.buf + 50, 30);
	assert_int_equal(fake_nic.ah.grh.dgid.raw[15], 2);
	assert_int_equal(fake_nic.ah.grh.sgid_index, 3);
	assert_int_equal(fake_nic.ah.grh.hop_limit, 9);
	assert_int_equal(fake_nic.ah.grh.traffic_class, 8);
	assert_int_equal(fake_nic.ah.grh.flow_label, 7);
	assert_int_equal(fake_nic.ah.sl, 6);
}

/* Memory of which the router has no page is sent as well, and so is what is inline, and nothing at all. */
static void any_memory(void **state)
{
	struct ud *u = *state;
	struct mr *mr = rig_mr_pvm(&u->n.r, u->n.s, u->n.buf + 3, 1000, NIC_RIG_ACCESS);
	struct ff_sqe *e;

	warm_up(u);
	memset(u->n.buf, 0x3c, 1003);
	rig_sge(sqe(u, &u->ah, 1), mr, nic_rig_at(&u->n, 3), 1000);
	post(u);
	run_until_sends(u, 2);
	assert_int_equal(fake_nic_send_at(1)->sge[0].length, 1000);
	assert_memory_equal(fake_nic_send_at(1)->data, u->n.buf + 3, 1000);
	nic_rig_expect(&u->n, 1, IBV_WC_SUCCESS);
	e = sqe(u, &u->ah, 2);
	e->flags |= FF_SQE_INLINE;
	e->num_sge = 11;
	memset(e->inl, 'x', 11);
	post(u);
	assert_int_equal(fake_nic_send_at(2)->sge[0].length, 11);
	assert_memory_equal(fake_nic_send_at(2)->data, "xxxxxxxxxxx", 11);
	sqe(u, &u->ah, 3);
	post(u);
	assert_int_equal(fake_nic_send_at(3)->num_sge, 0);
	nic_rig_expect(&u->n, 2, IBV_WC_SUCCESS);
	nic_rig_expect(&u->n, 3, IBV_WC_SUCCESS);
	rig_mr_free(&u->n.r, mr);
}

/* By each handle its way: containers of this host get theirs from the router, in the order of the ring. */
static void each_its_way(void **state)
{
	struct ud *u = *state;
	struct rig_qp *to = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
	struct ff_sqe *e;
	struct ff_cqe c;
	struct ah here;

	ah_add(&u->n, &here, GID_ADDR_V2, 0);
	memcpy(here.attr.dgid, u->n.r.cont[0].gid[0].raw, 16);
	to_rts(&u->n, to);
	warm_up(u);
	for (uint64_t i = 0; i < 6; i++) {
		e = sqe(u, i % 2 ? &here : &u->ah, i);
		e->ud.remote_qpn = to->qp.qp_num;
		e->ud.remote_qkey = QKEY;
		rig_sge(e, u->n.mr, nic_rig_at(&u->n, 0), 8);
		rig_post(&u->n.r, u->n.qp);
	}
	for (uint64_t i = 0; i < 3; i++)
		rig_recv(&u->n.r, to, 100 + i, u->n.mr, nic_rig_at(&u->n, 4096), 100);
	rig_run(&u->n.r);
	for (uint64_t sent = 0, got = 0; sent + got < 9;) {
		assert_true(rig_poll(u->n.cq, &c));
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		if (c.qp_num == to->qp.qp_num)
			assert_int_equal(c.wr_id, 100 + got++);
		else
			assert_int_equal(c.wr_id, sent++);
	}
	assert_int_equal(fake_nic_num_sends(), 4);
	ah_del(&u->n, &here);
	rig_qp_free(&u->n.r, to);
}

/* What the router finds wrong itself: nothing reaches the NIC, and the QP is in SQE. */
static void what_is_wrong_with_it(void **state)
{
	struct ud *u = *state;
	struct ff_cqe c;

	warm_up(u);
	for (unsigned i = 0; i < 3; i++) {
		struct ff_sqe *e = sqe(u, &u->ah, i);

		rig_sge(e, u->n.mr, nic_rig_at(&u->n, i ? 0 : NIC_RIG_BUF - 4), i ? 2049 : 8);
		if (i == 2)
			e->ud.ah = 999;
		post(u);
		assert_true(rig_poll(u->n.cq, &c));
		assert_int_equal(c.status, i == 0 ? IBV_WC_LOC_PROT_ERR :
					   i == 1 ? IBV_WC_LOC_LEN_ERR :
						    IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(u->n.qp->qp.state, IBV_QPS_SQE);
		rig_state(&u->n.r, u->n.qp, IBV_QPS_RTS);
	}
	send_one(u, &u->ah, 9, 2048);
	nic_rig_expect(&u->n, 9, IBV_WC_SUCCESS);
	assert_int_equal(fake_nic_num_sends(), 2);
}

/* The window is the NIC's; who waits for it goes on with each completion. */
static void a_full_window(void **state)
{
	struct ud *u = *state;
	uint64_t id = 0;

	warm_up(u);
	for (; id < 16; id++)
		send_one(u, &u->ah, id, 8);
	for (uint64_t i = 0; i < 16; i++)
		nic_rig_expect(&u->n, i, IBV_WC_SUCCESS);
	for (; id < 40; id++) {
		send_one(u, &u->ah, id, 8);
		nic_rig_expect_none(&u->n);
		assert_int_equal(fake_nic_sends(u->n.ib), 16);
		fake_nic_sent(u->n.ib, IBV_WC_SUCCESS);
		rig_run(&u->n.r);
		nic_rig_expect(&u->n, id, IBV_WC_SUCCESS);
	}
	assert_int_equal(fake_nic.calls[FAKE_create_ah], 1);
}

static void the_nic_refuses_one(void **state)
{
	struct ud *u = *state;

	warm_up(u);
	fake_nic_fail(FAKE_post_send, 1, ENOMEM);
	send_one(u, &u->ah, 1, 8);
	nic_rig_expect(&u->n, 1, IBV_WC_LOC_QP_OP_ERR);
	assert_int_equal(u->n.qp->qp.state, IBV_QPS_SQE);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_RTS);
	send_one(u, &u->ah, 2, 8);
	nic_rig_expect(&u->n, 2, IBV_WC_SUCCESS);
}

/* It was told that it was sent: what the NIC says later is about the QP. */
static void a_late_error_is_the_qps(void **state)
{
	struct ud *u = *state;
	uint32_t handle;

	warm_up(u);
	send_one(u, &u->ah, 1, 8);
	nic_rig_expect(&u->n, 1, IBV_WC_SUCCESS);
	fake_nic_sent(u->n.ib, IBV_WC_LOC_QP_OP_ERR);
	rig_run(&u->n.r);
	assert_int_equal(u->n.qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 1);
	assert_int_equal(rig_async(u->n.s, &handle), IBV_EVENT_QP_FATAL + 1);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_RESET);
	to_rts(&u->n, u->n.qp);
	warm_up(u);
}

/* ---- address handles ----------------------------------------------------------------------------------- */

/* What waits for a handle waits for nobody else's, and ends with its QP. */
static void a_handle_that_takes_long(void **state)
{
	struct ud *u = *state;
	struct rig_qp *q = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL),
		      *qp = u->n.qp;
	struct ah slow;

	ah_add(&u->n, &slow, gid_nic_index(&u->n.r.cont[0]), 3);
	to_rts(&u->n, q);
	warm_up(u);
	fake_nic_hold_ahs(true);
	send_one(u, &slow, 1, 8);
	nic_rig_expect_none(&u->n);
	assert_true(u->n.qp->qp.busy);
	u->n.qp = q;
	send_one(u, &u->ah, 2, 8);
	nic_rig_expect(&u->n, 2, IBV_WC_SUCCESS);
	send_one(u, &slow, 3, 8);
	nic_rig_expect_none(&u->n);
	rig_state(&u->n.r, q, IBV_QPS_ERR);
	nic_rig_expect(&u->n, 3, IBV_WC_WR_FLUSH_ERR);
	rig_qp_free(&u->n.r, q);
	u->n.qp = qp;
	fake_nic_hold_ahs(false);
	run_until_sends(u, 3);
	nic_rig_expect(&u->n, 1, IBV_WC_SUCCESS);
	ah_del(&u->n, &slow);
}

/* The last QP that wants a handle goes while it is being made. */
static void a_handle_that_nobody_wants(void **state)
{
	struct ud *u = *state;
	struct ah slow;

	ah_add(&u->n, &slow, gid_nic_index(&u->n.r.cont[0]), 3);
	warm_up(u);
	fake_nic_hold_ahs(true);
	send_one(u, &slow, 1, 8);
	ah_del(&u->n, &slow);
	ah_del(&u->n, &u->ah);
	rig_qp_free(&u->n.r, u->n.qp);
	u->n.qp = NULL;
	fake_nic_hold_ahs(false);
}

/* Nobody answers: what was to go there is lost, and the peer is not asked for again at once. */
static void a_handle_that_is_refused(void **state)
{
	struct ud *u = *state;
	struct ff_cqe c;

	fake_nic_fail(FAKE_create_ah, 1, ETIMEDOUT);
	send_one(u, &u->ah, 1, 8);
	run_until_done(u, &c);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 1);
	send_one(u, &u->ah, 2, 8);
	nic_rig_expect(&u->n, 2, IBV_WC_SUCCESS);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 2);
	assert_int_equal(fake_nic.calls[FAKE_create_ah], 1);
	rig_advance(&u->n.r, 1000 * NS_PER_MS);
	warm_up(u);
	assert_int_equal(fake_nic.calls[FAKE_create_ah], 2);
}

/* A container has a limited number of them, which is enough for any number of peers one after the other. */
static void many_handles(void **state)
{
	struct ud *u = *state;

	for (unsigned i = 0; i < 300; i++) {
		struct ah ah;
		struct ff_cqe c;

		ah_add(&u->n, &ah, gid_nic_index(&u->n.r.cont[0]), (uint8_t)i);
		ah.attr.dgid[14] = (uint8_t)(i >> 8);
		send_one(u, &ah, i, 8);
		ah_del(&u->n, &ah);
		run_until_done(u, &c);
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(fake_nic_ah(fake_nic_send_at(i)->send.wr.ud.ah)->grh.dgid.raw[15],
				 i & 255);
		fake_nic_sent(u->n.ib, IBV_WC_SUCCESS);
		rig_run(&u->n.r);
	}
	assert_int_equal(u->n.qp->qp.nic->ud->pool->num_ahs, 64);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 0);
}

/* A handle is not ended under a datagram that the NIC has. */
static void all_handles_in_use(void **state)
{
	struct rig_qp *q[5];
	struct ud *u = *state;
	unsigned sent = 0;

	for (unsigned k = 0; k < 5; k++) {
		q[k] = k ? rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL) : u->n.qp;
		if (k)
			to_rts(&u->n, q[k]);
	}
	for (unsigned i = 0; i < 70; i++) {
		struct ah ah;
		struct ff_cqe c;

		u->n.qp = q[i / 16];
		ah_add(&u->n, &ah, gid_nic_index(&u->n.r.cont[0]), (uint8_t)i);
		send_one(u, &ah, i, 8);
		ah_del(&u->n, &ah);
		run_until_done(u, &c);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		sent = fake_nic_num_sends();
	}
	assert_int_equal(sent, 64);
	u->n.qp = q[0];
	for (unsigned k = 1; k < 5; k++)
		rig_qp_free(&u->n.r, q[k]);
}

/* ---- what comes ------------------------------------------------------------------------------------------ */

static const uint8_t v4_header[40] = { [20] = 0x45, [29] = 17, [32] = 10, 9, 0, 2, 10, 9, 0, 1 };

static void datagram(struct ud *u, const uint8_t *grh, uint32_t len, unsigned int flags)
{
	struct ibv_wc wc = { .opcode = IBV_WC_RECV,
			     .src_qp = 0x777,
			     .imm_data = htonl(5),
			     .wc_flags = IBV_WC_GRH | flags };
	uint8_t buf[40 + 2048];

	memcpy(buf, grh, 40);
	for (uint32_t i = 0; i < len; i++)
		buf[40 + i] = (uint8_t)(i + len);
	fake_nic_datagram(u->n.ib, buf, 40 + len, &wc);
	rig_run(&u->n.r);
}

static void what_is_delivered(void **state)
{
	struct ud *u = *state;
	uint8_t v6[40] = { 0x60, [8] = 0xfd, 1, [24] = 0xfd, 2 };
	struct ff_cqe c;

	for (unsigned i = 0; i < 3; i++) {
		const uint8_t *grh = i == 1 ? v6 : v4_header;

		nic_rig_recv(&u->n, i, 200);
		datagram(u, grh, 100 + i, i == 2 ? IBV_WC_WITH_IMM : 0);
		assert_true(rig_poll(u->n.cq, &c));
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.byte_len, 140 + i);
		assert_int_equal(c.src_qp, 0x777);
		assert_int_equal(c.sl, i == 1 ? 9 : 0xa);
		assert_true(c.flags & FF_CQE_GRH);
		assert_int_equal(!!(c.flags & FF_CQE_IMM), i == 2);
		if (i == 2)
			assert_int_equal(c.imm, htonl(5));
		assert_memory_equal(u->n.buf, grh, 40);
		for (unsigned k = 0; k < 100 + i; k++)
			assert_int_equal(u->n.buf[40 + k], (uint8_t)(k + 100 + i));
		assert_int_equal(fake_nic_recvs(u->n.ib), 16);
	}
	assert_int_equal(u->n.qp->qp.stats.rx_bytes, 100 + 101 + 102);
}

/* Before an IPv4 header the NIC writes nothing: what was in the buffer before is nobody's to see. */
static void nothing_of_others_is_seen(void **state)
{
	struct ud *u = *state;
	uint8_t secret[40];

	memset(secret, 0x5e, sizeof(secret));
	for (unsigned lap = 0; lap < 16; lap++)
		datagram(u, secret, 0, 0);
	for (unsigned i = 0; i < fake_nic.num_log; i++) {
		const struct fake_nic_wr *w = &fake_nic.log[i];

		if (i + 16 >= fake_nic.num_log) /* those that the NIC has now */
			for (unsigned k = 0; k < 40; k++)
				assert_int_equal(((uint8_t *)(uintptr_t)w->sge[0].addr)[k], 0);
	}
}

/* Into memory that only the process reaches. */
static void to_any_memory(void **state)
{
	struct ud *u = *state;
	struct mr *mr = rig_mr_pvm(&u->n.r, u->n.s, u->n.buf + 5, 3000, NIC_RIG_ACCESS);
	struct ff_cqe c;

	for (uint64_t i = 0; i < 3; i++)
		rig_recv(&u->n.r, u->n.qp, i, mr, nic_rig_at(&u->n, 5 + 1000 * i), 1000);
	for (uint64_t i = 0; i < 3; i++)
		datagram(u, v4_header, 500, 0);
	for (uint64_t i = 0; i < 3; i++) {
		run_until_done(u, &c);
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.byte_len, 540);
		assert_memory_equal(u->n.buf + 5 + 1000 * i, v4_header, 40);
		assert_int_equal(u->n.buf[5 + 1000 * i + 40 + 499], (uint8_t)(499 + 500));
	}
	rig_mr_free(&u->n.r, mr);
}

/* Nobody has posted a receive; it is too short; the QP is in ERR: they are lost, and nothing else is. */
static void what_is_lost(void **state)
{
	struct ud *u = *state;

	for (int i = 0; i < 40; i++)
		datagram(u, v4_header, 10, 0);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 40);
	nic_rig_recv(&u->n, 1, 49);
	datagram(u, v4_header, 10, 0);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 41);
	datagram(u, v4_header, 9, 0); /* that one fits */
	nic_rig_expect(&u->n, 1, IBV_WC_SUCCESS);
	nic_rig_recv(&u->n, 2, 100);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_ERR);
	nic_rig_expect(&u->n, 2, IBV_WC_WR_FLUSH_ERR);
	datagram(u, v4_header, 9, 0);
	nic_rig_expect_none(&u->n);
	assert_int_equal(u->n.qp->qp.stats.ud_drops, 42);
}

/* The NIC says what cannot be. */
static void nonsense(void **state)
{
	struct ud *u = *state;
	struct ibv_wc wc = { .qp_num = u->n.ib->qp_num, .opcode = IBV_WC_RECV };
	uint64_t life = (uint64_t)u->n.qp->qp.nic->life << 48;
	const struct {
		uint64_t id;
		uint32_t len;
	} cases[] = {
		{ life | NIC_ID_RECV | 999, 100 },
		{ (life ^ 1ull << 48) | NIC_ID_RECV, 100 },
		{ life, 100 }, /* a send, of which there is none */
		{ life | 5, 100 },
	};

	nic_rig_recv(&u->n, 1, 500);
	for (unsigned i = 0; i < 4; i++) {
		wc.wr_id = cases[i].id;
		wc.byte_len = cases[i].len;
		fake_nic_push(u->n.ib->recv_cq, &wc);
		rig_run(&u->n.r);
	}
	nic_rig_expect_none(&u->n);
	/* shorter than a GRH, longer than a buffer: the buffer is the NIC's again */
	for (unsigned i = 0; i < 3; i++) {
		wc = (struct ibv_wc){ .opcode = IBV_WC_RECV };
		fake_nic_received(u->n.ib, IBV_WC_SUCCESS,
				  i == 0 ? 39 :
				  i == 1 ? 2089 :
					   UINT32_MAX,
				  &wc);
		rig_run(&u->n.r);
	}
	nic_rig_expect_none(&u->n);
	assert_int_equal(fake_nic_recvs(u->n.ib), 16);
	datagram(u, v4_header, 9, 0);
	nic_rig_expect(&u->n, 1, IBV_WC_SUCCESS);
}

/* What was for a QP that is no more is nobody's, though its number is another's. */
static void a_former_owner_of_the_number(void **state)
{
	struct ud *u = *state;
	uint32_t qpn = u->n.ib->qp_num;
	struct ibv_wc wc = { .qp_num = qpn, .opcode = IBV_WC_RECV, .byte_len = 100 };

	wc.wr_id = nic_id(u->n.qp->qp.nic, NIC_ID_RECV, 0);
	for (unsigned next = 0; next < 2; next++) {
		rig_qp_free(&u->n.r, u->n.qp);
		fake_nic.qpn[0] = qpn;
		fake_nic.qpn_at = 0;
		u->n.qp = rig_qp(&u->n.r, u->n.s, IBV_QPT_UD, u->n.cq, u->n.cq, NULL);
		u->n.ib = nic_rig_ib(u->n.qp);
		assert_int_equal(u->n.ib->qp_num, qpn);
		to_rts(&u->n, u->n.qp);
		nic_rig_recv(&u->n, 1, 500);
		fake_nic_push(u->n.ib->recv_cq, &wc);
		rig_run(&u->n.r);
		nic_rig_expect_none(&u->n);
	}
}

/* The NIC's receive is at fault, or it takes none any more. */
static void a_nic_that_fails(void **state)
{
	struct ud *u = *state;
	uint32_t handle;

	fake_nic_received(u->n.ib, IBV_WC_LOC_PROT_ERR, 0, NULL);
	rig_run(&u->n.r);
	assert_int_equal(u->n.qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(rig_async(u->n.s, &handle), IBV_EVENT_QP_FATAL + 1);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_RESET);
	to_rts(&u->n, u->n.qp);
	fake_nic_fail(FAKE_post_recv, 1, EIO);
	datagram(u, v4_header, 9, 0);
	assert_int_equal(u->n.qp->qp.state, IBV_QPS_ERR);
	rig_state(&u->n.r, u->n.qp, IBV_QPS_RESET);
	to_rts(&u->n, u->n.qp);
	assert_int_equal(fake_nic_recvs(u->n.ib), 16);
}

int main(void)
{
	return UNIT_RUN(UD_TEST(it_is_the_nics_number), UD_TEST(reset_and_again),
			UD_TEST(another_qkey), UD_TEST(a_refused_state),
			UD_TEST(what_the_nic_refuses), UD_TEST(without_a_part_there),
			UD_TEST(a_containers_share), cmocka_unit_test(not_without_nic_direct),
			UD_TEST(what_the_nic_gets), UD_TEST(any_memory), UD_TEST(each_its_way),
			UD_TEST(what_is_wrong_with_it), UD_TEST(a_full_window),
			UD_TEST(the_nic_refuses_one), UD_TEST(a_late_error_is_the_qps),
			UD_TEST(a_handle_that_takes_long), UD_TEST(a_handle_that_nobody_wants),
			UD_TEST(a_handle_that_is_refused), UD_TEST(many_handles),
			UD_TEST(all_handles_in_use), UD_TEST(what_is_delivered),
			UD_TEST(nothing_of_others_is_seen), UD_TEST(to_any_memory),
			UD_TEST(what_is_lost), UD_TEST(nonsense),
			UD_TEST(a_former_owner_of_the_number), UD_TEST(a_nic_that_fails));
}
