/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_backend.c - the software device's ops: what it says of itself, whom a change of a QP wakes, what is left
 * of one that goes, and how a QP that waits comes to another thread.
 */
#include <string.h>

#include "tests/rig/unit/soft_pair.h"

#define WAKE_MAX 256 /* backend.c's */

static const struct backend_ops *ops = &soft_ops;

/* ---- the device ------------------------------------------------------------------------------------ */

static void what_it_is(void **state)
{
	struct ff_query_device_resp d;

	(void)state;
	memset(&d, 0, sizeof(d));
	soft_describe(&d);
	assert_string_equal(d.fw_ver, "soft");
	/* no vendor's number: that of a locally administered address */
	assert_true(d.vendor_id >> 16 & 2);
	assert_int_equal(d.page_size_cap, FF_PAGE);
	assert_int_equal(d.hca_core_clock, 1000000);
	assert_true(d.timestamp_mask == UINT64_MAX);
	/* what it says must be had: the calls' own limits are these */
	assert_int_equal(d.max_qp, FF_MAX_QP);
	assert_int_equal(d.max_qp_wr, FF_MAX_WR);
	assert_int_equal(d.max_srq_wr, FF_MAX_WR);
	assert_int_equal(d.max_cqe, FF_MAX_CQE);
	assert_int_equal(d.max_sge, FF_MAX_SGE);
	assert_int_equal(d.max_sge_rd, FF_MAX_SGE);
	assert_int_equal(d.max_srq_sge, FF_MAX_SGE);
	assert_int_equal(d.max_inline, FF_MAX_INLINE);
	assert_int_equal(d.max_pkeys, 1);
	assert_int_equal(d.max_qp_rd_atom, d.max_qp_init_rd_atom);
	assert_int_equal(d.atomic_cap, IBV_ATOMIC_HCA);
	assert_true(d.device_cap_flags & IBV_DEVICE_XRC);
	assert_true(d.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
}

static void open_and_closed(void **state)
{
	struct backend a = { .ops = ops }, b = { .ops = ops };
	struct soft_dev *dev;

	(void)state;
	assert_int_equal(ops->open(&a), 0);
	assert_int_equal(ops->open(&b), 0);
	dev = a.priv;
	assert_ptr_not_equal(dev, b.priv);
	/* it decides what is lost and when tries begin: 0 would stay 0 for ever */
	assert_true(dev->random && ((struct soft_dev *)b.priv)->random);
	assert_true(LIST_EMPTY(&dev->unreachable));
	ops->close(&a);
	assert_null(a.priv);
	ops->close(&b);
	ops->close(&b); /* it is not open */
}

/* ---- QPs ---------------------------------------------------------------------------------------------- */

static void each_type_has_its_way(void **state)
{
	static const struct {
		enum ibv_qp_type type;
		const struct send_ops *send;
	} of[] = {
		{ IBV_QPT_RC, &local_send },
		{ IBV_QPT_UC, &local_send },
		{ IBV_QPT_UD, &ud_send },
		{ IBV_QPT_XRC_SEND, &local_send },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(of); i++) {
		struct rig_one o;
		const struct soft_qp *sq;

		rig_one_open(&o, ops, of[i].type, 16, false);
		sq = o.qp->qp.soft;
		assert_non_null(sq);
		assert_ptr_equal(o.qp->qp.send, of[i].send);
		assert_ptr_equal(sq->qp, &o.qp->qp);
		assert_ptr_equal(sq->req.x.qp, &o.qp->qp);
		assert_ptr_equal(sq->resp.from_wire.qp, &o.qp->qp);
		assert_int_equal(sq->req.state, REQ_IDLE);
		assert_null(o.qp->qp.dest);
		rig_one_close(&o);
	}
}

static void who_the_peer_is(void **state)
{
	struct pair *p = *state;

	assert_ptr_equal(p->qp[0]->qp.dest, &p->r.cont[1]);
	assert_ptr_equal(p->qp[1]->qp.dest, &p->r.cont[0]);
	rig_state(&p->r, p->qp[0], IBV_QPS_ERR);
	assert_null(p->qp[0]->qp.dest);
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	assert_null(p->qp[0]->qp.dest);
	rig_state(&p->r, p->qp[0], IBV_QPS_INIT); /* it has a path, and goes nowhere yet */
	assert_null(p->qp[0]->qp.dest);
}

static enum req_state req(const struct rig_qp *q)
{
	return q->qp.soft->req.state;
}

/* Who waits for a QP that does not answer goes on without a timer when it does. */
static void to_rtr_wakes(void **state)
{
	struct pair *p = *state;

	rig_state(&p->r, p->qp[1], IBV_QPS_RESET);
	pair_rdma(p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p->r);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_ACK);
	rig_state(&p->r, p->qp[1], IBV_QPS_INIT);
	rig_run(&p->r);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_ACK);
	pair_expect_none(p->cq[0]);
	rig_state(&p->r, p->qp[1], IBV_QPS_RTR);
	rig_run(&p->r);
	pair_expect(p->cq[0], 1, IBV_WC_SUCCESS);
	assert_int_equal(req(p->qp[0]), REQ_IDLE);
	/* attributes that change without the state wake nobody */
	rig_state(&p->r, p->qp[1], IBV_QPS_RTS);
	pair_send(p, 2, 8);
	rig_run(&p->r);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_RNR);
	p->qp[0]->qp.more = false;
	ops->qp_modify(p->r.f, &p->qp[1]->qp, IBV_QPS_RTS);
	assert_false(p->qp[0]->qp.more);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_RNR);
}

/* What it was about to do is over in error and in RESET; a receive that it has at hand is flushed or lost. */
static void what_is_under_way_ends(void **state)
{
	static const enum ibv_qp_state to[] = { IBV_QPS_ERR, IBV_QPS_RESET };
	struct pair *p = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(to); i++) {
		struct soft_qp *sq = p->qp[1]->qp.soft;

		p->r.f->conf.quantum = p->r.f->quantum = 4096;
		rig_recv(&p->r, p->qp[1], 7, p->mr[1], pair_at(p, 1, 0), 100000);
		pair_send(p, 1, 100000);
		fast_turn(p->r.f);
		assert_int_equal(req(p->qp[0]), REQ_MATCHED); /* it is copied in parts */
		assert_ptr_equal(sq->resp.from, &p->qp[0]->qp);
		rig_state(&p->r, p->qp[0], to[i]);
		assert_int_equal(req(p->qp[0]), REQ_IDLE);
		assert_null(sq->resp.from);
		assert_int_equal(sq->resp.recv, RECV_TAKEN); /* the next message has it */
		rig_state(&p->r, p->qp[1], to[i]);
		assert_int_equal(sq->resp.recv, RECV_NONE);
		rig_run(&p->r);
		if (to[i] == IBV_QPS_ERR) {
			pair_expect(p->cq[0], 1, IBV_WC_WR_FLUSH_ERR);
			pair_expect(p->cq[1], 7, IBV_WC_WR_FLUSH_ERR);
			for (int k = 0; k < 2; k++)
				rig_state(&p->r, p->qp[k], IBV_QPS_RESET);
			rig_connect(&p->r, p->qp[0], p->qp[1]);
			rig_connect(&p->r, p->qp[1], p->qp[0]);
		}
		pair_expect_none(p->cq[0]);
		pair_expect_none(p->cq[1]);
	}
}

/* Who waits for a receive of a QP that goes waits for an answer then, and gets none. */
static void one_that_is_waited_for_goes(void **state)
{
	struct pair *p = *state;

	p->qp[0]->qp.attr.rnr_retry = 7; /* for ever */
	pair_send(p, 1, 8);
	rig_run(&p->r);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_RNR);
	assert_ptr_equal(LIST_FIRST(&p->qp[1]->qp.soft->resp.rnr_waiters), p->qp[0]->qp.soft);
	rig_qp_free(&p->r, p->qp[1]);
	p->qp[1] = NULL;
	rig_run(&p->r);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_ACK);
	pair_wait_for_tries(p);
	pair_expect(p->cq[0], 1, IBV_WC_RETRY_EXC_ERR);
}

/* ---- receives ------------------------------------------------------------------------------------------- */

static void a_receive_wakes(void **state)
{
	struct pair *p = *state;
	struct soft_qp *sq = p->qp[0]->qp.soft;

	pair_send(p, 1, 8);
	rig_run(&p->r);
	assert_int_equal(req(p->qp[0]), REQ_WAIT_RNR);
	assert_true(sq->req.is_waiting && sq->req.timer.index);
	assert_false(ops->recv_posted(p->r.f, &p->qp[1]->qp, NULL));
	assert_int_equal(req(p->qp[0]), REQ_NEW);
	assert_false(sq->req.is_waiting || sq->req.timer.index);
	assert_true(LIST_EMPTY(&p->qp[1]->qp.soft->resp.rnr_waiters));
}

#define MANY (WAKE_MAX + 44)

struct many {
	struct rig r;
	struct rig_ses *s[2];
	struct rig_cq *cq[2];
	struct rig_srq *srq;
	struct rig_qp *from[MANY], *to[MANY];
};

/* Many senders wait for one SRQ. */
static void many_up(struct many *m)
{
	rig_init(&m->r, ops);
	rig_depth = 1;
	for (int i = 0; i < 2; i++) {
		m->s[i] = rig_session(&m->r, i);
		m->cq[i] = rig_cq(&m->r, m->s[i], 1024, false);
	}
	m->srq = rig_srq(&m->r, m->s[1], 512);
	for (int i = 0; i < MANY; i++) {
		m->from[i] = rig_qp(&m->r, m->s[0], IBV_QPT_RC, m->cq[0], m->cq[0], NULL);
		m->to[i] = rig_qp(&m->r, m->s[1], IBV_QPT_RC, m->cq[1], m->cq[1], m->srq);
		rig_connect(&m->r, m->from[i], m->to[i]);
		rig_connect(&m->r, m->to[i], m->from[i]);
		m->from[i]->qp.attr.rnr_retry = 7; /* for ever */
		rig_sqe(m->from[i], FF_OP_SEND, (uint64_t)i);
		rig_post(&m->r, m->from[i]);
	}
	rig_depth = 16;
	rig_run(&m->r);
}

static void many_down(struct many *m)
{
	for (int i = 0; i < MANY; i++) {
		rig_qp_free(&m->r, m->from[i]);
		rig_qp_free(&m->r, m->to[i]);
	}
	rig_srq_free(&m->r, m->srq);
	for (int i = 0; i < 2; i++) {
		rig_cq_free(&m->r, m->cq[i]);
		rig_session_free(&m->r, m->s[i]);
	}
	rig_fini(&m->r);
}

static unsigned in_state(const struct many *m, enum req_state st)
{
	unsigned n = 0;

	for (int i = 0; i < MANY; i++)
		n += req(m->from[i]) == st;
	return n;
}

/* No more are woken at once than a turn can bear; the rest has its turn while there are receives. */
static void some_of_many_are_woken(void **state)
{
	static struct many m;

	(void)state;
	many_up(&m);
	assert_int_equal(in_state(&m, REQ_WAIT_RNR), MANY);
	/* a receive is there, and so many take part in the race for it */
	atomic_store(&m.srq->srq.hdr->need, 0);
	rig_srq_recv(&m.r, m.srq, 1, NULL, 0, 0);
	assert_true(ops->recv_posted(m.r.f, NULL, &m.srq->srq));
	assert_int_equal(in_state(&m, REQ_NEW), WAKE_MAX);
	assert_int_equal(in_state(&m, REQ_WAIT_RNR), MANY - WAKE_MAX);
	/* the client is asked to announce the next one, before it was looked whether there is one */
	assert_int_equal(atomic_load(&m.srq->srq.hdr->need), 1);
	rig_run(&m.r);
	/* without a receive there is no need for another call */
	assert_int_equal(m.cq[1]->cq.pi, 1);
	assert_int_equal(in_state(&m, REQ_WAIT_RNR), MANY - 1);
	assert_false(ops->recv_posted(m.r.f, NULL, &m.srq->srq));
	assert_int_equal(in_state(&m, REQ_NEW), WAKE_MAX);
	/* and with enough of them all are served */
	rig_run(&m.r);
	for (uint64_t i = 0; i < MANY; i++)
		rig_srq_recv(&m.r, m.srq, i, NULL, 0, 0);
	while (ops->recv_posted(m.r.f, NULL, &m.srq->srq))
		rig_run(&m.r);
	rig_run(&m.r);
	assert_int_equal(m.cq[1]->cq.pi, MANY);
	assert_int_equal(m.cq[0]->cq.pi, MANY);
	many_down(&m);
}

/* ---- containers and threads --------------------------------------------------------------------------- */

static void paths_to_a_container_are_forgotten(void **state)
{
	struct pair *p = *state;
	struct ah ah[2] = { { .cont = &p->r.cont[1] }, { .cont = &p->r.cont[2] } };
	struct xrcd domain = { .num_refs = 1 };
	struct qp target[2] = { { .dest = &p->r.cont[1] }, { .dest = &p->r.cont[2] } };

	for (int i = 0; i < 2; i++) {
		ah[i].o = (struct obj){ .kind = OBJ_AH, .ses = &p->s[0]->s };
		assert_int_equal(obj_insert(&p->s[0]->s.tab[OBJ_AH], &ah[i].o), 0);
		LIST_INSERT_HEAD(&domain.targets, &target[i], xrc.same_xrcd);
	}
	LIST_INSERT_HEAD(&p->r.cont[0].xrcds, &domain, entry);
	ops->container_gone(p->r.f, &p->r.cont[1]);
	assert_null(p->qp[0]->qp.dest);
	assert_ptr_equal(p->qp[1]->qp.dest, &p->r.cont[0]);
	assert_null(ah[0].cont);
	assert_ptr_equal(ah[1].cont, &p->r.cont[2]);
	assert_null(target[0].dest);
	assert_ptr_equal(target[1].dest, &p->r.cont[2]);
	LIST_REMOVE(&domain, entry);
	for (int i = 0; i < 2; i++)
		obj_remove(&p->s[0]->s.tab[OBJ_AH], &ah[i].o);
}

/* A pair on the first of two threads, which is returned. */
static struct fast *two_threads_up(struct pair *p)
{
	rig_threads = 2;
	pair_up(p, IBV_QPT_RC, 0, 2);
	rig_threads = 1;
	return p->r.f;
}

static void moves_with_its_timer(void **state)
{
	struct pair p;
	struct fast *from, *to;
	struct soft_qp *sq;
	struct soft_dev *dev;
	struct qp handle = { .type = IBV_QPT_XRC_RECV };
	uint64_t at;

	(void)state;
	from = two_threads_up(&p);
	to = from->host->threads[1];
	dev = to->be->priv;
	sq = p.qp[0]->qp.soft;
	ops->qp_move(from, to, &handle); /* has nothing here */
	ops->qp_move(from, to, &p.qp[0]->qp);
	assert_false(sq->req.timer.index); /* it did not wait */
	pair_send(&p, 1, 8);
	rig_run(&p.r);
	assert_int_equal(req(p.qp[0]), REQ_WAIT_RNR);
	at = sq->req.timer.at;
	ops->qp_move(from, to, &p.qp[0]->qp);
	assert_int_equal(timer_next(&from->timers), UINT64_MAX);
	assert_int_equal(timer_next(&to->timers), at);
	assert_true(sq->req.is_waiting && LIST_EMPTY(&dev->unreachable));
	ops->qp_move(to, from, &p.qp[0]->qp);
	assert_int_equal(timer_next(&from->timers), at);
	rig_recv(&p.r, p.qp[1], 2, p.mr[1], pair_at(&p, 1, 0), 8);
	rig_run(&p.r);
	pair_expect(p.cq[0], 1, IBV_WC_SUCCESS);
	pair_down(&p);
}

/* It waits for whom its path leads to: that list is each thread's own, and a container that comes wakes it. */
static void waits_for_somebody_to_come(void **state)
{
	struct pair p;
	struct fast *from, *to;
	struct soft_dev *dev[2];
	struct soft_qp *sq;

	(void)state;
	from = two_threads_up(&p);
	to = from->host->threads[1];
	for (int i = 0; i < 2; i++)
		dev[i] = from->host->threads[i]->be->priv;
	sq = p.qp[0]->qp.soft;
	ops->container_gone(from, &p.r.cont[2]);
	rig_state(&p.r, p.qp[1], IBV_QPS_RESET);
	p.qp[0]->qp.attr.ah.dgid[15] = 99; /* nobody has it */
	pair_rdma(&p, FF_OP_WRITE, 1, 0, 0, 8);
	rig_run(&p.r);
	assert_int_equal(req(p.qp[0]), REQ_WAIT_ACK);
	assert_ptr_equal(LIST_FIRST(&dev[0]->unreachable), sq);
	ops->qp_move(from, to, &p.qp[0]->qp);
	assert_true(LIST_EMPTY(&dev[0]->unreachable));
	assert_ptr_equal(LIST_FIRST(&dev[1]->unreachable), sq);
	ops->container_come(from); /* not its thread */
	assert_int_equal(req(p.qp[0]), REQ_WAIT_ACK);
	ops->qp_move(to, from, &p.qp[0]->qp);
	ops->container_come(from);
	assert_int_equal(req(p.qp[0]), REQ_NEW);
	assert_true(LIST_EMPTY(&dev[0]->unreachable));
	rig_run(&p.r);
	assert_int_equal(req(p.qp[0]), REQ_WAIT_ACK); /* that was somebody else */
	/* one whose path leads somewhere is not woken: it knows whom it waits for */
	sq->qp->dest = &p.r.cont[2];
	ops->container_come(from);
	assert_int_equal(req(p.qp[0]), REQ_WAIT_ACK);
	sq->qp->dest = NULL;
	pair_down(&p);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(what_it_is), cmocka_unit_test(open_and_closed),
			cmocka_unit_test(each_type_has_its_way), PAIR_TEST(who_the_peer_is),
			PAIR_TEST(to_rtr_wakes), PAIR_TEST(what_is_under_way_ends),
			PAIR_TEST(one_that_is_waited_for_goes), PAIR_TEST(a_receive_wakes),
			cmocka_unit_test(some_of_many_are_woken),
			PAIR_TEST(paths_to_a_container_are_forgotten),
			cmocka_unit_test(moves_with_its_timer),
			cmocka_unit_test(waits_for_somebody_to_come));
}
