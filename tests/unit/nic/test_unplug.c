/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/fakes/fake_mlx5.c tests/rig/unit/rig.c */
/* test_unplug.c - the NIC is removed while it is used: what ends how, that all is given back, and that it is used again. */
#include "tests/rig/unit/nic_rig.h"

#include "tests/rig/fakes/fake_mlx5.h"

#include <errno.h>
#include <sched.h>
#include <string.h>

#include "ffr/obj/gid.h"

#define SECOND 1000000000ull

static struct nic_dev *dev_of(const struct nic_rig *n)
{
	return nic_first(n->r.f);
}

/* It is removed; the router has done what follows. */
static void gone(struct nic_rig *n)
{
	fake_nic.name[0] = NULL;
	fake_nic_event(IBV_EVENT_DEVICE_FATAL, NULL);
	nic_rig_events(n); /* lost, and taken down */
	nic_rig_work(n);   /* which is done */
	assert_false(nic_is_up(dev_of(n)));
}

/* So much later: is it back? */
static void looks(struct nic_rig *n, uint64_t ns)
{
	n->r.f->now += ns;
	rig_run(&n->r);
	nic_rig_work(n); /* looks */
	nic_rig_work(n); /* and has looked */
}

static void back(struct nic_rig *n)
{
	fake_nic.name[0] = "fake0";
	looks(n, SECOND);
	assert_true(nic_is_up(dev_of(n)));
	rig_run(&n->r);
}

static void all_ends_and_is_given_back(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *idle = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);

	nic_rig_recv(n, 11, 8);
	nic_rig_recv(n, 12, 8);
	for (int i = 0; i < 3; i++)
		nic_rig_send(n, (uint64_t)i, 8);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 3);
	gone(n);
	assert_true(!fake_nic.contexts && !fake_nic.qps && !fake_nic.cqs && !fake_nic.mrs &&
		    !fake_nic.pds && !fake_nic.channels && !fake_nic.lists);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	nic_rig_expect_no_event(n);
	for (int i = 0; i < 3; i++)
		nic_rig_expect(n, (uint64_t)i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 11, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 12, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	assert_null(n->qp->qp.nic);
	/* what is posted now is flushed as it comes */
	nic_rig_send(n, 4, 8);
	nic_rig_recv(n, 13, 8);
	rig_run(&n->r);
	nic_rig_expect(n, 4, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 13, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(idle->qp.state, IBV_QPS_RESET);
	rig_qp_free(&n->r, idle);
}

/* A WR that waits for its turn is flushed with the others. */
static void a_full_queue(void **state)
{
	struct nic_rig *n = *state;
	unsigned depth = n->qp->qp.nic->send_depth;

	for (unsigned i = 0; i <= depth && i < 16; i++)
		nic_rig_send(n, i, 8);
	rig_run(&n->r);
	gone(n);
	for (unsigned i = 0; i <= depth && i < 16; i++)
		nic_rig_expect(n, i, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
}

static void in_any_state(void **state)
{
	static const enum ibv_qp_state states[] = { IBV_QPS_INIT, IBV_QPS_SQD, IBV_QPS_ERR };
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 3; i++) {
		nic_rig_send(n, 1, 8);
		rig_run(&n->r);
		fake_nic.flushes_late = true;
		if (states[i] == IBV_QPS_INIT) {
			rig_state(&n->r, n->qp, IBV_QPS_RESET);
			rig_state(&n->r, n->qp, IBV_QPS_INIT);
		} else {
			rig_state(&n->r, n->qp, states[i]);
		}
		gone(n);
		if (states[i] != IBV_QPS_INIT)
			nic_rig_expect(n, 1, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect_none(n);
		assert_int_equal(n->qp->qp.state,
				 states[i] == IBV_QPS_INIT ? IBV_QPS_INIT : IBV_QPS_ERR);
		assert_true(!fake_nic.qps && !fake_nic.contexts);
		back(n);
		fake_nic.flushes_late = false;
		rig_qp_free(&n->r, n->qp);
		rig_mr_free(&n->r, n->mr);
		n->qp = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
		n->mr = rig_mr(&n->r, n->s, n->buf, NIC_RIG_BUF, NIC_RIG_ACCESS);
		nic_rig_connect(n, n->qp);
	}
}

static void it_is_used_again(void **state)
{
	struct nic_rig *n = *state;
	static uint8_t buf[64];
	struct mr *mr;

	gone(n);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	looks(n, SECOND / 2);
	assert_int_equal(fake_nic.calls[FAKE_get_device_list], 1); /* not yet */
	looks(n, SECOND / 2);
	assert_int_equal(fake_nic.calls[FAKE_get_device_list], 2); /* it is not there */
	nic_rig_expect_no_event(n);
	fake_nic_fail(FAKE_open_device, 1, EACCES); /* udev has not come yet */
	fake_nic.name[0] = "fake0";
	looks(n, SECOND);
	assert_false(nic_is_up(dev_of(n)));
	assert_int_equal(fake_nic.lists, 0);
	back(n);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ACTIVE, 1);
	nic_rig_expect_no_event(n);
	rig_qp_free(&n->r, n->qp);
	n->qp = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	n->ib = nic_rig_ib(n->qp);
	mr = rig_mr(&n->r, n->s, buf, sizeof(buf), NIC_RIG_ACCESS);
	assert_int_equal(fake_nic.mrs, 1);
	nic_rig_connect(n, n->qp);
	rig_sge(rig_sqe(n->qp, FF_OP_SEND, 7), mr, (uintptr_t)buf, 8);
	rig_post(&n->r, n->qp);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 7, IBV_WC_SUCCESS);
	/* memory of before is not this NIC's */
	nic_rig_send(n, 8, 8);
	rig_run(&n->r);
	nic_rig_expect(n, 8, IBV_WC_LOC_PROT_ERR);
	nic_rig_work(n);
	rig_mr_free(&n->r, mr);
}

/* Meanwhile QPs are the software device's, and what only the NIC could carry is refused. */
static void made_while_it_is_away(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *q;

	gone(n);
	q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	assert_null(q->qp.nic);
	rig_state(&n->r, q, IBV_QPS_INIT);
	nic_rig_attr(n, q);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(nic_qp_prepare(n->r.f, &q->qp, &q->qp.attr, IBV_QPS_INIT,
						IBV_QPS_RTR),
				 -ENODEV);
		if (!i)
			back(n);
	}
	q->qp.attr.ah.sgid_index = 0; /* within the host */
	assert_int_equal(nic_qp_prepare(n->r.f, &q->qp, &q->qp.attr, IBV_QPS_INIT, IBV_QPS_RTR), 0);
	rig_qp_free(&n->r, q);
}

static void it_comes_back_with_another_gid(void **state)
{
	struct nic_rig *n = *state;

	gone(n);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	fake_nic.has_gid[3] = false;
	back(n);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ACTIVE, 1);
	nic_rig_expect_event(n, IBV_EVENT_GID_CHANGE, 1);
	nic_rig_expect_no_event(n);
	assert_int_equal(dev_of(n)->gid_index, 5);
	assert_memory_equal(&n->r.f->host->nic[0].gid, &fake_nic.gid[5].gid, 16);
}

/* Whatever fails while it comes back: nothing stays open, and it is tried again. */
static void each_call_may_fail(void **state)
{
	static const enum fake_nic_call calls[] = { FAKE_get_device_list, FAKE_open_device,
						    FAKE_query_device, FAKE_query_port,
						    FAKE_create_comp_channel };
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < sizeof(calls) / sizeof(calls[0]); i++) {
		gone(n);
		fake_nic.name[0] = "fake0";
		fake_nic_fail(calls[i], 1, EIO);
		looks(n, SECOND);
		assert_false(nic_is_up(dev_of(n)));
		assert_true(!fake_nic.contexts && !fake_nic.lists && !fake_nic.channels);
		back(n);
	}
}

/* The NIC's answers to what it is asked at its end mean nothing: all is freed. */
static void errors_at_the_end(void **state)
{
	static const enum fake_nic_call calls[] = { FAKE_destroy_qp, FAKE_destroy_cq, FAKE_dereg_mr,
						    FAKE_dealloc_pd };
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 4; i++)
		fake_nic_fail(calls[i], 1, EIO);
	gone(n);
	assert_true(!fake_nic.contexts && !fake_nic.qps && !fake_nic.mrs && !fake_nic.pds);
}

/* The router ends while it is away, before it has been taken down, and while it is looked for. */
static void the_router_ends(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	for (int i = 0; i < 3; i++) {
		fake_nic_reset();
		nic_rig_open_rts(n, IBV_QPT_RC);
		if (i == 0) {
			gone(n);
		} else if (i == 1) {
			fake_nic_event(IBV_EVENT_DEVICE_FATAL, NULL);
			CARRIERS_FIRST(ready, n->r.f, &dev_of(n)->ear[NIC_EAR_ASYNC], EPOLLIN);
		} else {
			gone(n);
			fake_nic.name[0] = "fake0";
			n->r.f->now += SECOND;
			rig_run(&n->r);
			nic_rig_work(n); /* it has been opened, and nobody has come for it */
			assert_int_equal(fake_nic.contexts, 1);
		}
		nic_rig_close(n);
	}
}

/* A turn has begun a batch in the NIC's queue, which is not rung for: it ends there, and its WRs with the QP. */
static void in_the_midst_of_a_batch(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	for (int has_wr = 0; has_wr < 2; has_wr++) {
		fake_nic_reset();
		fake_nic.has_wr = has_wr;
		fake_nic.load_more = has_wr ? fake_mlx5_load : NULL;
		nic_rig_open_rts(n, IBV_QPT_RC);
		nic_rig_send(n, 1, 8);
		nic_rig_send(n, 2, 8);
		fast_lock(n->r.f->host);
		send_service(n->r.f, &n->qp->qp);
		assert_int_equal(dev_of(n)->batch.n, 2);
		nic_lose(nic_first(n->r.f));
		assert_int_equal(dev_of(n)->batch.n, 0);
		fast_unlock(n->r.f->host);
		nic_rig_work(n); /* the fake does not let an open queue be destroyed */
		assert_true(!fake_nic.contexts && !fake_nic.qps);
		nic_rig_expect(n, 1, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
		nic_rig_expect_none(n);
		nic_rig_close(n);
	}
}

/* ---- datagrams ---------------------------------------------------------------------------------------------- */

#define QKEY 0x1111u

static struct rig_qp *ud_qp(struct nic_rig *n)
{
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_UD, n->cq, n->cq, NULL);

	rig_state(&n->r, q, IBV_QPS_INIT);
	q->qp.attr.qkey = QKEY;
	rig_state(&n->r, q, IBV_QPS_RTR);
	rig_state(&n->r, q, IBV_QPS_RTS);
	rig_run(&n->r);
	return q;
}

static void ah_add(struct nic_rig *n, struct ah *ah, int sgid_index, const void *dgid)
{
	*ah = (struct ah){ .o = { .kind = OBJ_AH, .ses = &n->s->s }, .pd = &n->s->pd };
	ah->attr.is_global = 1;
	ah->attr.hop_limit = 9;
	ah->attr.sgid_index = (uint8_t)sgid_index;
	memcpy(ah->attr.dgid, dgid, 16);
	assert_int_equal(obj_insert(&n->s->s.tab[OBJ_AH], &ah->o), 0);
}

static void send_to(struct nic_rig *n, struct rig_qp *q, const struct mr *mr, const struct ah *ah,
		    uint32_t qpn, uint64_t id)
{
	struct ff_sqe *e = rig_sqe(q, FF_OP_SEND, id);

	e->ud.ah = ah->o.handle;
	e->ud.remote_qpn = qpn;
	e->ud.remote_qkey = QKEY;
	rig_sge(e, mr, mr->iova, 8);
	rig_post(&n->r, q);
	rig_run(&n->r);
}

/* Turns, until the worker that makes address handles has brought about so many sends. */
static void until_sends(struct nic_rig *n, unsigned num)
{
	while (fake_nic_num_sends() < num) {
		sched_yield();
		nic_rig_work(n);
		rig_run(&n->r);
	}
}

/* The worker makes a handle, which the fake holds. */
static void until_in_hand(void)
{
	while (!fake_nic_ahs_waiting())
		sched_yield();
}

/*
 * One datagram is with the NIC, one waits for an address handle that is being made, and one for its turn. The QP goes
 * on, and so does the thread with the next NIC.
 */
static void a_ud_qp(void **state)
{
	static const uint8_t far[2][16] = { { 0xfd, 1, [15] = 2 }, { 0xfd, 1, [15] = 3 } };
	struct nic_rig *n = *state;
	struct rig_qp *q = ud_qp(n), *next;
	uint32_t num = q->qp.qp_num;
	struct ah ah[2], here;
	struct ff_cqe c;

	fake_nic.attr.max_ah = 100;
	for (int i = 0; i < 2; i++)
		ah_add(n, &ah[i], gid_nic_index(&n->r.cont[0]), far[i]);
	ah_add(n, &here, GID_ADDR_V2, n->r.cont[0].gid[0].raw);
	send_to(n, q, n->mr, &ah[0], 0x4321, 1);
	until_sends(n, 1);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	fake_nic_hold_ahs(true);
	send_to(n, q, n->mr, &ah[1], 0x4321, 2);
	send_to(n, q, n->mr, &ah[0], 0x4321, 3);
	nic_rig_expect_none(n);
	until_in_hand();
	fake_nic.name[0] = NULL;
	fake_nic_event(IBV_EVENT_DEVICE_FATAL, NULL);
	nic_rig_events(n);
	nic_rig_work(n);
	assert_int_equal(fake_nic.contexts, 1); /* the handle has not come back */
	fake_nic_hold_ahs(false);
	while (fake_nic.contexts) {
		sched_yield();
		nic_rig_work(n);
	}
	nic_rig_work(n);
	assert_true(fake_nic_is_clean());
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	nic_rig_expect(n, 3, IBV_WC_SUCCESS);
	nic_rig_expect_none(n);
	assert_int_equal(q->qp.stats.ud_drops, 2);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle); /* the RC one's */
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	nic_rig_expect_no_event(n);
	assert_null(q->qp.nic);
	assert_int_equal(q->qp.qp_num, num);
	assert_int_equal(q->qp.state, IBV_QPS_RTS);
	/* among containers, as before; from the NIC's GID to nobody */
	rig_recv(&n->r, q, 50, n->mr, nic_rig_at(n, 4096), 100);
	send_to(n, q, n->mr, &here, num, 4);
	for (int i = 0; i < 2; i++) {
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_true(c.wr_id == 4 || c.wr_id == 50);
	}
	send_to(n, q, n->mr, &ah[0], 0x4321, 5);
	nic_rig_expect(n, 5, IBV_WC_SUCCESS);
	assert_int_equal(fake_nic_num_sends(), 1);
	back(n);
	next = ud_qp(n);
	assert_non_null(next->qp.nic);
	send_to(n, next, n->mr, &ah[1], 0x4321, 6);
	until_sends(n, 2);
	rig_run(&n->r);
	nic_rig_expect(n, 6, IBV_WC_SUCCESS);
	assert_memory_equal(&fake_nic_ah(fake_nic_send_at(1)->send.wr.ud.ah)->grh.dgid, far[1], 16);
	send_to(n, q, n->mr, &ah[1], 0x4321, 7); /* without a part there */
	nic_rig_expect(n, 7, IBV_WC_SUCCESS);
	assert_int_equal(fake_nic_num_sends(), 2);
	rig_qp_free(&n->r, next);
	rig_qp_free(&n->r, q);
	for (int i = 0; i < 2; i++)
		obj_remove(&n->s->s.tab[OBJ_AH], &ah[i].o);
	obj_remove(&n->s->s.tab[OBJ_AH], &here.o);
}

/* A handle that waits for its turn is not made any more. The datagrams that wait for handles are lost. */
static void handles_that_wait(void **state)
{
	static const uint8_t far[2][16] = { { 0xfd, 1, [15] = 2 }, { 0xfd, 1, [15] = 3 } };
	struct nic_rig *n = *state;
	struct rig_qp *q[2];
	struct ah ah[2];

	fake_nic_hold_ahs(true);
	for (int i = 0; i < 2; i++) {
		q[i] = ud_qp(n);
		ah_add(n, &ah[i], gid_nic_index(&n->r.cont[0]), far[i]);
		send_to(n, q[i], n->mr, &ah[i], 0x4321, (uint64_t)i);
	}
	until_in_hand();
	fake_nic.name[0] = NULL;
	fake_nic_event(IBV_EVENT_DEVICE_FATAL, NULL);
	nic_rig_events(n);
	fake_nic_hold_ahs(false);
	while (fake_nic.contexts) {
		sched_yield();
		nic_rig_work(n);
	}
	nic_rig_work(n);
	assert_true(fake_nic_is_clean());
	assert_int_equal(fake_nic.calls[FAKE_create_ah], 1);
	rig_run(&n->r);
	for (int i = 0; i < 2; i++) {
		nic_rig_expect(n, (uint64_t)i, IBV_WC_SUCCESS);
		assert_int_equal(q[i]->qp.stats.ud_drops, 1);
		rig_qp_free(&n->r, q[i]);
		obj_remove(&n->s->s.tab[OBJ_AH], &ah[i].o);
	}
}

/* What is posted between the NIC's end and its being taken down is lost at once. */
static void a_datagram_in_between(void **state)
{
	static const uint8_t far[16] = { 0xfd, 1, [15] = 2 };
	struct nic_rig *n = *state;
	struct rig_qp *q = ud_qp(n);
	struct ah ah;

	ah_add(n, &ah, gid_nic_index(&n->r.cont[0]), far);
	fast_lock(n->r.f->host);
	nic_lose(nic_first(n->r.f));
	fast_unlock(n->r.f->host);
	send_to(n, q, n->mr, &ah, 0x4321, 1);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	assert_int_equal(q->qp.stats.ud_drops, 1);
	assert_int_equal(fake_nic.calls[FAKE_create_ah], 0);
	rig_state(&n->r, q, IBV_QPS_RESET);
	nic_rig_work(n);
	nic_rig_work(n);
	assert_true(fake_nic_is_clean());
	rig_qp_free(&n->r, q);
	obj_remove(&n->s->s.tab[OBJ_AH], &ah.o);
}

/* ---- an SRQ -------------------------------------------------------------------------------------------------- */

static void post_srq(struct nic_rig *n, struct rig_srq *srq, const struct mr *mr, uint64_t from,
		     unsigned num)
{
	for (uint64_t id = from; id < from + num; id++)
		rig_srq_recv(&n->r, srq, id, mr, mr->iova + 64 * (id % 64), 64);
	rig_run(&n->r);
}

/* The next of the ring are these, whole. */
static void ring_has(struct nic_rig *n, struct srq *srq, const uint64_t *ids, unsigned num)
{
	uint32_t head = srq->head;
	struct recv_wr rwr;

	for (unsigned i = 0; i < num; i++) {
		assert_int_equal(fast_take_ahead(n->r.f, srq, &rwr), FETCH_OK);
		assert_int_equal(rwr.wr_id, ids[i]);
		assert_int_equal(rwr.num_sge, 1);
		assert_int_equal(rwr.sge[0].addr, n->mr->iova + 64 * (ids[i] % 64));
		assert_int_equal(rwr.sge[0].length, 64);
	}
	assert_int_equal(fast_take_ahead(n->r.f, srq, &rwr), FETCH_EMPTY);
	srq->held = 0;
	srq->head = head;
}

/*
 * What the NIC had is in the ring again, in order and before the rest, whatever has gone before: a part has been
 * received by copy, and a part by the NIC, in any order, so that places of the ring have been used since.
 */
static void an_srq(void **state)
{
	static const uint64_t left[] = { 0, 9, 11, 12, 13, 14, 15, 16 };
	struct nic_rig *n = *state;
	struct rig_srq *srq = rig_srq(&n->r, n->s, 16);
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq);
	struct rig_qp *soft = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq), *peer, *next;
	struct nic_srq *ns = srq->srq.nic;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .byte_len = 8, .opcode = IBV_WC_RECV };
	struct ff_cqe c;
	uint32_t ended = 0;

	peer = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	nic_rig_connect(n, q);
	post_srq(n, srq, n->mr, 0, 11);
	assert_int_equal(srq->srq.held, 11);
	/* all but the first and the tenth, the newest first */
	for (uint32_t place = 0; place < 16; place++) {
		uint64_t id = nic_srq_recv(ns, place)->wr_id;

		if (!ns->is_given[place] || id == 0 || id == 9)
			continue;
		wc.wr_id = (uint64_t)ns->id << 48 | NIC_ID_SRQ | place;
		wc.qp_num = nic_rig_ib(q)->qp_num;
		fake_nic_push(ns->cq->cq, &wc);
		rig_run(&n->r);
		ended++;
	}
	assert_int_equal(ended, 9);
	while (rig_poll(n->cq, &c))
		assert_int_equal(c.status, IBV_WC_SUCCESS);
	/* one that is served by copy: not all of the next ones are given */
	rig_connect(&n->r, soft, peer);
	rig_connect(&n->r, peer, soft);
	post_srq(n, srq, n->mr, 11, 6);
	assert_in_range(srq->srq.held, 3, 5);
	gone(n);
	assert_true(!fake_nic.srqs && !fake_nic.contexts);
	assert_null(srq->srq.nic);
	assert_int_equal(srq->srq.held, 0);
	assert_int_equal(atomic_load(&srq->srq.hdr->lost), 0);
	ring_has(n, &srq->srq, left, 8);
	nic_rig_expect_none(n);
	/* the QP that is served by copy goes on with them */
	assert_int_equal(soft->qp.state, IBV_QPS_RTS);
	rig_sge(rig_sqe(peer, FF_OP_SEND, 77), n->mr, nic_rig_at(n, 0), 8);
	rig_post(&n->r, peer);
	rig_run(&n->r);
	for (int i = 0; i < 2; i++) {
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.wr_id, c.qp_num == soft->qp.qp_num ? 0 : 77);
	}
	rig_qp_free(&n->r, soft);
	rig_qp_free(&n->r, peer);
	rig_qp_free(&n->r, q);
	back(n);
	next = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq);
	assert_non_null(srq->srq.nic);
	nic_rig_connect(n, next);
	rig_run(&n->r);
	assert_int_equal(fake_nic_srq_recvs(srq->srq.nic->ib), 7);
	rig_qp_free(&n->r, next);
	rig_srq_free(&n->r, srq);
}

/* Who sent to one by copy and found all with the NIC is served when that has gone. Who has lost the NIC shares. */
static void an_srq_that_is_shared(void **state)
{
	struct nic_rig *n = *state;
	struct rig_srq *srq = rig_srq(&n->r, n->s, 16);
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq);
	struct rig_qp *soft = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq), *peer, *next;
	struct ff_cqe c;

	peer = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	nic_rig_connect(n, q);
	post_srq(n, srq, n->mr, 0, 4);
	assert_int_equal(srq->srq.held, 4);
	peer->qp.attr.rnr_retry = soft->qp.attr.rnr_retry = 7;
	rig_connect(&n->r, soft, peer);
	rig_connect(&n->r, peer, soft);
	peer->qp.attr.rnr_retry = 7;
	rig_sge(rig_sqe(peer, FF_OP_SEND, 77), n->mr, nic_rig_at(n, 0), 8);
	rig_post(&n->r, peer);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	gone(n);
	rig_run(&n->r);
	for (int i = 0; i < 2; i++) {
		assert_true(rig_poll(n->cq, &c));
		assert_int_equal(c.status, IBV_WC_SUCCESS);
		assert_int_equal(c.wr_id, c.qp_num == soft->qp.qp_num ? 0 : 77);
	}
	back(n);
	next = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq);
	assert_int_equal(srq->srq.nic->num_alone, 1); /* `soft`; the other one is in error */
	nic_rig_connect(n, next);
	post_srq(n, srq, n->mr, 4, 5);
	assert_int_equal(srq->srq.held, 4);
	assert_int_equal(fake_nic_srq_recvs(srq->srq.nic->ib), 4);
	rig_qp_free(&n->r, soft);
	assert_int_equal(srq->srq.nic->num_alone, 0);
	post_srq(n, srq, n->mr, 9, 1);
	assert_int_equal(fake_nic_srq_recvs(srq->srq.nic->ib), 9);
	rig_qp_free(&n->r, next);
	rig_qp_free(&n->r, peer);
	rig_qp_free(&n->r, q);
	rig_srq_free(&n->r, srq);
}

/* ---- rates --------------------------------------------------------------------------------------------------- */

static void rates(void **state)
{
	struct nic_rig rig, *n = &rig;
	struct ffo_limits l = { .serve_rate = 1000000 };
	struct rig_qp *q;
	unsigned calls;

	(void)state;
	fake_nic_reset();
	fake_nic.load_more = fake_mlx5_load;
	nic_rig_open_rts(n, IBV_QPT_RC);
	assert_int_equal(fake_mlx5_there(), 5);
	gone(n);
	assert_int_equal(fake_mlx5_there(), 0);
	assert_true(!fake_nic.qps && !fake_nic.contexts);
	calls = fake_mlx5.calls;
	fast_container_limits(&n->r.cont[0], &l);
	nic_rig_work(n);
	assert_int_equal(fake_mlx5.calls, calls);
	/* a root that is refused costs the rates only */
	fake_mlx5_fail(1, EOPNOTSUPP);
	back(n);
	assert_int_equal(fake_mlx5_there(), 0);
	assert_null(dev_of(n)->pace_root);
	gone(n);
	back(n);
	assert_int_equal(fake_mlx5_there(), 1);
	q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	nic_rig_connect(n, q);
	assert_int_equal(fake_mlx5_there(), 5);
	assert_int_equal(fake_mlx5.joined[fake_mlx5.num_joined - 1].answers->mbit, 8);
	/* elements that it does not give back at its end */
	fake_mlx5_fail(1, EIO);
	gone(n);
	assert_int_equal(fake_nic.qps, 0);
	rig_qp_free(&n->r, q);
	nic_rig_close(n);
}

int main(void)
{
	return UNIT_RUN(NIC_TEST(all_ends_and_is_given_back), NIC_TEST(a_full_queue),
			NIC_TEST(in_any_state), NIC_TEST(it_is_used_again),
			NIC_TEST(made_while_it_is_away), NIC_TEST(it_comes_back_with_another_gid),
			NIC_TEST(each_call_may_fail), NIC_TEST(errors_at_the_end),
			cmocka_unit_test(the_router_ends),
			cmocka_unit_test(in_the_midst_of_a_batch), NIC_TEST(a_ud_qp),
			NIC_TEST(handles_that_wait), NIC_TEST(a_datagram_in_between),
			NIC_TEST(an_srq), NIC_TEST(an_srq_that_is_shared), cmocka_unit_test(rates));
}
