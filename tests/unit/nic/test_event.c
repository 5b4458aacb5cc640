/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/* test_event.c - asynchronous events of the NIC: its port, QPs, CQs; who hears of them, and what follows. */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint32_t handle_of(const struct rig_qp *q)
{
	return q->qp.o.handle;
}

/* ---- the port ------------------------------------------------------------------------------------------ */

static void all_hear_of_the_port(void **state)
{
	struct nic_rig *n = *state;
	struct rig_ses *other = rig_session(&n->r, 3);
	struct rig_ses *mine = n->s;
	unsigned acks = fake_nic.calls[FAKE_ack_async_event];

	fake_nic_event(IBV_EVENT_PORT_ERR, NULL);
	fake_nic_event(IBV_EVENT_PORT_ACTIVE, NULL);
	fake_nic_event(IBV_EVENT_LID_CHANGE, NULL);
	nic_rig_events(n);
	for (int i = 0; i < 2; i++, n->s = other) {
		nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
		nic_rig_expect_event(n, IBV_EVENT_PORT_ACTIVE, 1);
		nic_rig_expect_event(n, IBV_EVENT_LID_CHANGE, 1);
		nic_rig_expect_no_event(n);
	}
	assert_int_equal(fake_nic.calls[FAKE_ack_async_event], acks + 3);
	n->s = mine;
	rig_session_free(&n->r, other);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
}

/* Its MTU is another one when it comes back, and QPs get no larger one. */
static void the_port_is_looked_at(void **state)
{
	struct nic_rig *n = *state;

	fake_nic.port.active_mtu = IBV_MTU_512;
	fake_nic_event(IBV_EVENT_PORT_ACTIVE, NULL);
	nic_rig_events(n);
	assert_int_equal(n->r.f->host->nic[0].dev->port_attr.active_mtu, IBV_MTU_512);
	/* what cannot be found out stays */
	fake_nic.port.active_mtu = IBV_MTU_256;
	fake_nic_fail(FAKE_query_port, 1, EIO);
	fake_nic_event(IBV_EVENT_PORT_ACTIVE, NULL);
	nic_rig_events(n);
	assert_int_equal(n->r.f->host->nic[0].dev->port_attr.active_mtu, IBV_MTU_512);
}

static void nobody_hears_where_nobody_uses_it(void **state)
{
	struct nic_rig rig, *n = &rig;

	(void)state;
	fake_nic_reset();
	nic_rig_conf.direct = false;
	nic_rig_open(n);
	nic_rig_conf.direct = true;
	nic_rig_conf.direct = false;
	fake_nic_event(IBV_EVENT_PORT_ERR, NULL);
	nic_rig_events(n);
	nic_rig_expect_no_event(n);
	nic_rig_conf.net = "fabric";
	fake_nic_event(IBV_EVENT_PORT_ERR, NULL);
	nic_rig_events(n);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	nic_rig_conf.net = NULL;
	nic_rig_conf.direct = true;
	nic_rig_close(n);
}

/* ---- its GID ------------------------------------------------------------------------------------------- */

static unsigned gid_news;

static void on_gid(struct fast_host *h)
{
	assert_memory_equal(&h->nic[0].gid, &h->nic[0].dev->gid, 16);
	gid_news++;
}

static void another_gid(void **state)
{
	struct nic_rig *n = *state;
	struct fast_host *h = n->r.f->host;

	gid_news = 0;
	h->nic_changed = on_gid;
	/* one that is not ours */
	fake_nic.has_gid[5] = false;
	fake_nic_event(IBV_EVENT_GID_CHANGE, NULL);
	nic_rig_events(n);
	nic_rig_expect_no_event(n);
	assert_int_equal(gid_news, 0);
	/* ours, and there is another one */
	fake_nic.has_gid[3] = false;
	fake_nic.has_gid[5] = true;
	fake_nic_event(IBV_EVENT_GID_CHANGE, NULL);
	nic_rig_events(n);
	nic_rig_expect_event(n, IBV_EVENT_GID_CHANGE, 1);
	nic_rig_expect_no_event(n);
	assert_int_equal(gid_news, 1);
	assert_int_equal(h->nic[0].dev->gid_index, 5);
	assert_memory_equal(&h->nic[0].gid, &fake_nic.gid[5].gid, 16);
	/* there is no GID any more: one may come back */
	fake_nic.has_gid[5] = false;
	fake_nic_event(IBV_EVENT_GID_CHANGE, NULL);
	nic_rig_events(n);
	nic_rig_expect_no_event(n);
	assert_int_equal(h->nic[0].dev->gid_index, 5);
}

/* ---- QPs and CQs ----------------------------------------------------------------------------------------- */

/* It goes to ERR by itself, which it may do after it has answered the peer; it is taken there if it does not. */
static void a_qp_in_error(void **state)
{
	static const enum ibv_event_type types[] = { IBV_EVENT_QP_FATAL, IBV_EVENT_QP_REQ_ERR,
						     IBV_EVENT_QP_ACCESS_ERR };
	struct nic_rig *n = *state;

	for (unsigned i = 0; i < 3; i++) {
		nic_rig_send(n, 1, 8);
		rig_run(&n->r);
		fake_nic_event(types[i], n->ib);
		nic_rig_events(n);
		nic_rig_expect_event(n, types[i], handle_of(n->qp));
		nic_rig_expect_no_event(n);
		assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
		assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
		rig_advance(&n->r, 19 * NS_PER_MS);
		nic_rig_work(n);
		assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
		rig_advance(&n->r, 2 * NS_PER_MS);
		assert_int_not_equal(n->wakes, 0);
		nic_rig_work(n);
		rig_run(&n->r);
		assert_int_equal(fake_nic_state(n->ib), IBV_QPS_ERR);
		nic_rig_expect(n, 1, IBV_WC_WR_FLUSH_ERR);
		/* once is enough */
		fake_nic_event(types[i], n->ib);
		nic_rig_events(n);
		nic_rig_expect_no_event(n);
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		nic_rig_connect(n, n->qp);
	}
}

static void communication_is_established_once(void **state)
{
	struct nic_rig *n = *state;

	fake_nic_event(IBV_EVENT_COMM_EST, n->ib);
	fake_nic_event(IBV_EVENT_COMM_EST, n->ib);
	nic_rig_events(n);
	nic_rig_expect_event(n, IBV_EVENT_COMM_EST, handle_of(n->qp));
	nic_rig_expect_no_event(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
}

/* What the NIC says of a QP that it does not carry, or of its own doing, means nothing to its owner. */
static void not_of_the_containers(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *idle = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);

	fake_nic_event(IBV_EVENT_QP_FATAL, nic_rig_ib(idle));
	fake_nic_event(IBV_EVENT_SQ_DRAINED, n->ib);
	fake_nic_event(IBV_EVENT_PATH_MIG, n->ib);
	fake_nic_event(IBV_EVENT_SM_CHANGE, NULL);
	nic_rig_events(n);
	nic_rig_expect_no_event(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
	assert_int_equal(idle->qp.state, IBV_QPS_RESET);
	rig_qp_free(&n->r, idle);
}

/* The NIC's CQ has lost completions: its QPs end without them, and no other QP gets it. */
static void a_cq_overruns(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *idle = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL), *fresh;
	unsigned cqs = fake_nic.cqs;

	fake_nic.flushes_late = true;
	nic_rig_recv(n, 2, 8);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	fake_nic_event(IBV_EVENT_CQ_ERR, n->ib->send_cq);
	nic_rig_events(n);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, handle_of(n->qp));
	nic_rig_expect_no_event(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_ERR);
	nic_rig_expect(n, 1, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
	fake_nic_flush(n->ib); /* which nobody needs any more */
	rig_run(&n->r);
	nic_rig_expect_none(n);
	fresh = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
	assert_int_equal(fake_nic.cqs, cqs + 1);
	assert_ptr_not_equal(nic_rig_ib(fresh)->send_cq, n->ib->send_cq);
	/* one that has it is not connected */
	rig_state(&n->r, idle, IBV_QPS_INIT);
	nic_rig_attr(n, idle);
	assert_int_equal(
		nic_qp_prepare(n->r.f, &idle->qp, &idle->qp.attr, IBV_QPS_INIT, IBV_QPS_RTR), -EIO);
	rig_qp_free(&n->r, fresh);
	rig_qp_free(&n->r, idle);
}

/* ---- its end --------------------------------------------------------------------------------------------- */

static void touch(const char *dir, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	fclose(fopen(path, "w"));
}

static void drop(const char *dir, const char *name)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	assert_int_equal(unlink(path), 0);
}

/* Who waits until all have closed it tells nothing else. */
static void its_device_file_goes(void **state)
{
	char dir[] = "/tmp/nic_node.XXXXXX";
	struct nic_rig rig, *n = &rig;

	(void)state;
	fake_nic_reset();
	assert_non_null(mkdtemp(dir));
	nic_node_dir = dir;
	touch(dir, FAKE_NIC_NODE);
	touch(dir, "uverbs8");
	nic_rig_open(n);
	drop(dir, "uverbs8");
	CARRIERS_FIRST(ready, n->r.f, &n->r.f->host->nic[0].dev->ear[NIC_EAR_NODE], EPOLLIN);
	assert_true(nic_is_up(n->r.f->host->nic[0].dev));
	drop(dir, FAKE_NIC_NODE);
	CARRIERS_FIRST(ready, n->r.f, &n->r.f->host->nic[0].dev->ear[NIC_EAR_NODE], EPOLLIN);
	assert_false(nic_is_up(n->r.f->host->nic[0].dev));
	nic_rig_work(n);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	assert_int_equal(fake_nic.contexts, 0);
	nic_rig_close(n);
	/* its folder goes with it */
	nic_rig_open(n);
	assert_int_equal(rmdir(dir), 0);
	CARRIERS_FIRST(ready, n->r.f, &n->r.f->host->nic[0].dev->ear[NIC_EAR_NODE], EPOLLIN);
	assert_false(nic_is_up(n->r.f->host->nic[0].dev));
	nic_rig_close(n);
	nic_node_dir = "/dev/infiniband";
}

/* ---- UD QPs, SRQs ------------------------------------------------------------------------------------------ */

static struct rig_qp *ud_qp(struct nic_rig *n)
{
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_UD, n->cq, n->cq, NULL);

	rig_state(&n->r, q, IBV_QPS_INIT);
	rig_state(&n->r, q, IBV_QPS_RTR);
	rig_state(&n->r, q, IBV_QPS_RTS);
	return q;
}

static void a_ud_qp(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *q = ud_qp(n), *idle;

	idle = rig_qp(&n->r, n->s, IBV_QPT_UD, n->cq, n->cq, NULL);
	fake_nic_event(IBV_EVENT_QP_FATAL, nic_rig_ib(idle));
	nic_rig_events(n);
	nic_rig_expect_no_event(n);
	fake_nic_event(IBV_EVENT_QP_FATAL, nic_rig_ib(q));
	nic_rig_events(n);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, q->qp.o.handle);
	nic_rig_expect_no_event(n);
	assert_int_equal(q->qp.state, IBV_QPS_ERR);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
	rig_qp_free(&n->r, q);
	rig_qp_free(&n->r, idle);
}

/* One that has failed takes no more, and is told of once; its QPs are told of themselves, if its CQ has failed. */
static void an_srq(void **state)
{
	struct nic_rig *n = *state;

	for (int by_cq = 0; by_cq < 2; by_cq++) {
		struct rig_srq *srq = rig_srq(&n->r, n->s, 16);
		struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, srq);
		struct nic_srq *ns = srq->srq.nic;

		/* as so often, they share one */
		assert_ptr_equal(ns->cq, q->qp.nic->cq);
		nic_rig_connect(n, q);
		rig_srq_recv(&n->r, srq, 1, n->mr, nic_rig_at(n, 0), 64);
		rig_run(&n->r);
		assert_int_equal(fake_nic_srq_recvs(ns->ib), 1);
		for (int i = 0; i < 2; i++) {
			if (by_cq)
				fake_nic_event(IBV_EVENT_CQ_ERR, ns->cq->cq);
			else
				fake_nic_event(IBV_EVENT_SRQ_ERR, ns->ib);
		}
		nic_rig_events(n);
		if (by_cq) {
			nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle);
			nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, q->qp.o.handle);
			nic_rig_expect_event(n, IBV_EVENT_QP_LAST_WQE_REACHED, q->qp.o.handle);
		}
		nic_rig_expect_event(n, IBV_EVENT_SRQ_ERR, srq->srq.o.handle);
		nic_rig_expect_no_event(n);
		rig_srq_recv(&n->r, srq, 2, n->mr, nic_rig_at(n, 0), 64);
		rig_run(&n->r);
		assert_int_equal(srq->srq.held, 1);
		rig_qp_free(&n->r, q);
		rig_srq_free(&n->r, srq);
	}
}

/* QPs are not taken to a CQ that brings nothing any more. */
static void who_has_a_broken_cq(void **state)
{
	struct nic_rig *n = *state;
	struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_UD, n->cq, n->cq, NULL);

	assert_ptr_equal(q->qp.nic->cq, n->qp->qp.nic->cq);
	rig_state(&n->r, q, IBV_QPS_INIT);
	fake_nic_event(IBV_EVENT_CQ_ERR, q->qp.nic->cq->cq);
	nic_rig_events(n);
	assert_int_equal(rig_state_try(q, IBV_QPS_RTR), -EIO);
	rig_qp_free(&n->r, q);
	q = ud_qp(n);
	assert_int_equal(q->qp.state, IBV_QPS_RTS);
	rig_qp_free(&n->r, q);
}

int main(void)
{
	return UNIT_RUN(NIC_TEST(a_ud_qp), NIC_TEST(an_srq), NIC_TEST(who_has_a_broken_cq),
			NIC_TEST(all_hear_of_the_port), NIC_TEST(the_port_is_looked_at),
			cmocka_unit_test(nobody_hears_where_nobody_uses_it), NIC_TEST(another_gid),
			NIC_TEST(a_qp_in_error), NIC_TEST(communication_is_established_once),
			NIC_TEST(not_of_the_containers), NIC_TEST(a_cq_overruns),
			cmocka_unit_test(its_device_file_goes));
}
