/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_conn.c - connections of the connection manager, between two containers and within one: who is
 * told what, in which state, and what happens when one side is not there, refuses, or goes.
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "ffr/cm/internal.h"
#include "ffr/dir/internal.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define PORT 7471

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

/* ---- the whole way -------------------------------------------------------------------------- */

static void both_sides_see_each_other(void **state)
{
	struct ff_cm_init_qp_attr_resp at;
	struct ff_cm_query_resp q;
	struct cm_packet p;
	uint32_t l, ida, idb, psn_a, psn_b;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	ida = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, ida, "hello", 5), 0);
	cm_expect_none(a);

	assert_int_equal(cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p), 0);
	idb = p.ev.id;
	assert_int_not_equal(idb, l);
	assert_int_equal(p.ev.listener, l);
	assert_int_equal(p.ev.uid, 0x1000 + RDMA_PS_TCP);
	assert_int_equal(p.ev.ps, RDMA_PS_TCP);
	assert_int_equal(p.ev.param.qp_type, IBV_QPT_RC);
	assert_int_equal(p.ev.param.qp_num, cm_qpn[0]);
	assert_int_equal(p.ev.param.responder_resources, 4);
	assert_int_equal(p.ev.param.initiator_depth, 3);
	assert_int_equal(p.ev.param.retry_count, 5);
	assert_int_equal(p.ev.param.rnr_retry_count, 6);
	assert_int_equal(p.ev.param.flow_control, 1);
	assert_int_equal(p.ev.ece.vendor_id, 1);
	assert_int_equal(p.ev.private_data_len, FF_CM_PD_REQ);
	assert_memory_equal(p.pd, "hello\0\0", 7);

	/* the passive QP is made ready before it accepts */
	assert_int_equal(cm_do_attr(b, idb, IBV_QPS_RTR, &at), 0);
	assert_int_equal(at.attr.dest_qp_num, cm_qpn[0]);
	assert_int_equal(at.attr.max_dest_rd_atomic, 4);
	psn_b = at.attr.rq_psn;
	assert_int_equal(cm_do_attr(b, idb, IBV_QPS_RTS, &at), 0);
	assert_int_equal(at.attr.max_rd_atomic, 3);
	assert_int_equal(at.attr.retry_cnt, 5);
	assert_int_equal(at.attr.rnr_retry, 6);
	psn_a = at.attr.sq_psn;
	assert_int_equal(cm_do_accept(b, idb, 42, "welcome", 7), 0);
	cm_expect_none(b);

	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, &p), 0);
	assert_int_equal(p.ev.param.qp_num, cm_qpn[1]);
	assert_int_equal(p.ev.param.responder_resources, 2);
	assert_int_equal(p.ev.param.initiator_depth, 1);
	assert_int_equal(p.ev.param.rnr_retry_count, 7); /* 3 bits */
	assert_int_equal(p.ev.param.srq, 1);
	assert_int_equal(p.ev.ece.options, 5);
	assert_int_equal(p.ev.private_data_len, FF_CM_PD_REP);
	assert_memory_equal(p.pd, "welcome\0", 8);
	assert_int_equal(cm_do_attr(a, ida, IBV_QPS_RTR, &at), 0);
	assert_int_equal(at.attr.dest_qp_num, cm_qpn[1]);
	assert_int_equal(at.attr.max_dest_rd_atomic, 2);
	assert_int_equal(at.attr.rq_psn, psn_a);
	assert_int_equal(cm_do_attr(a, ida, IBV_QPS_RTS, &at), 0);
	assert_int_equal(at.attr.sq_psn, psn_b);
	assert_int_equal(at.attr.max_rd_atomic, 1);
	assert_int_equal(at.attr.retry_cnt, 5);
	assert_int_equal(at.attr.rnr_retry, 7);

	assert_int_equal(cm_do_establish(a, ida, UINT32_MAX), 0);
	cm_expect_none(a);
	assert_int_equal(cm_expect(b, idb, RDMA_CM_EVENT_ESTABLISHED, &p), 0);
	assert_int_equal(p.ev.uid, 42);

	/* ports and addresses as the two sides see them */
	assert_int_equal(cm_do_query(b, idb, &q), 0);
	assert_int_equal(cm_port_of(&q.local), PORT);
	assert_memory_equal(q.sgid, &g->c[1]->gid[0], 16);
	assert_memory_equal(q.dgid, &g->c[0]->gid[0], 16);
	assert_int_equal(q.port_num, 1);
	{
		struct ff_cm_addr remote = q.remote;

		assert_int_equal(cm_do_query(a, ida, &q), 0);
		assert_memory_equal(&q.local, &remote, sizeof(remote));
	}
	assert_int_equal(cm_counts(g->c[0]).connections, 1);
	assert_int_equal(cm_counts(g->c[1]).connections, 1);
	assert_int_equal(cm_counts(g->c[1]).listeners, 1);
	assert_int_equal(cm_counts(g->c[1]).ids, 2);
}

static void loopback_within_a_container(void **state)
{
	static const char *const ip[] = { "127.0.0.1", "127.9.9.9", A_IP, "0.0.0.0",
					  "fd00::1",   "::1",	    "::" };
	struct ff_cm_init_qp_attr_resp at;
	struct cm_client other = cm_open(g, 0);
	uint32_t l = cm_new(a, RDMA_PS_TCP), ida, idb;

	(void)state;
	assert_int_equal(cm_do_bind(a, l, cm_sa("::", PORT), NULL), 0);
	assert_int_equal(cm_do_listen(a, l, 0), 0);
	for (unsigned i = 0; i < sizeof(ip) / sizeof(ip[0]); i++) {
		cm_connected(&other, a, ip[i], PORT, &ida, &idb);
		assert_int_equal(cm_do_attr(&other, ida, IBV_QPS_RTR, &at), 0);
		assert_memory_equal(at.attr.ah.dgid,
				    gid_entry(g->c[0], at.attr.ah.sgid_index).gid.raw, 16);
		assert_int_equal(cm_do_destroy(&other, ida, NULL), 0);
		cm_expect(a, idb, RDMA_CM_EVENT_DISCONNECTED, NULL);
		assert_int_equal(cm_do_destroy(a, idb, NULL), 0);
	}
	/* also in one session */
	{
		struct cm_packet p;

		ida = cm_routed(a, RDMA_PS_TCP, "127.0.0.1", PORT);
		assert_int_equal(cm_do_connect(a, ida, NULL, 0), 0);
		cm_expect(a, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_accept(a, p.ev.id, 1, NULL, 0), 0);
		cm_expect(a, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
		assert_int_equal(cm_do_establish(a, ida, UINT32_MAX), 0);
		cm_expect(a, p.ev.id, RDMA_CM_EVENT_ESTABLISHED, NULL);
	}
	cm_close(&other);
}

/* ---- nobody, no, and too late ---------------------------------------------------------------- */

static void nobody_listens(void **state)
{
	struct cm_packet p;
	uint32_t id, l;

	(void)state;
	/* no CM id in that container at all; another port; another port space; bound only */
	for (int i = 0; i < 4; i++) {
		if (i == 1)
			cm_listener(b, RDMA_PS_TCP, PORT + 1, 0);
		if (i == 2) {
			l = cm_new(b, RDMA_PS_IB);
			assert_int_equal(cm_do_bind(b, l, cm_sa(B_IP, PORT), NULL), 0);
			assert_int_equal(cm_do_listen(b, l, 0), 0);
		}
		if (i == 3)
			assert_int_equal(
				cm_do_bind(b, cm_new(b, RDMA_PS_TCP), cm_sa(B_IP, PORT), NULL), 0);
		id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		cm_at(g, CM_LISTEN_MS / 2); /* the machine may be slow */
		cm_expect_none(a);
		cm_at(g, 2 * CM_LISTEN_MS);
		assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, &p), 8);
		assert_int_equal(p.ev.private_data_len, FF_CM_PD_REJ);
		/* the id has had its connection */
		assert_int_equal(cm_do_connect(a, id, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_destroy(a, id, NULL), 0);
		cm_expect_none(b);
	}
}

static void reject_gives_a_reason(void **state)
{
	struct cm_packet p;
	uint32_t id;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	for (uint32_t reason = 0; reason <= 35; reason += 35) {
		id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_reject(b, p.ev.id, 5, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_reject(b, p.ev.id, reason, "no", 2), 0);
		assert_int_equal(cm_do_reject(b, p.ev.id, reason, "no", 2), -EINVAL);
		assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
		assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, &p),
				 reason ? reason : 28);
		assert_int_equal(p.ev.private_data_len, FF_CM_PD_REJ);
		assert_memory_equal(p.pd, "no\0", 3);
	}
	/* the active side can refuse what was accepted */
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_reject(a, id, 0, NULL, 0), 0);
	assert_int_equal(cm_expect(b, p.ev.id, RDMA_CM_EVENT_REJECTED, NULL), 28);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), -EINVAL);
	/* and so does, of either side, what would accept but cannot */
	for (unsigned how = 0; how < 3; how++) {
		id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		if (how < 2) {
			assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
			cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
		}
		assert_int_equal(how == 0 ? cm_do_accept(a, id, 1, NULL, 0) :
				 how == 1 ? cm_do_accept(b, p.ev.id, 1, NULL, 0) :
					    cm_do_establish(b, p.ev.id, UINT32_MAX),
				 -EINVAL);
		assert_int_equal(cm_expect(how ? a : b, how ? id : p.ev.id, RDMA_CM_EVENT_REJECTED,
					   NULL),
				 28);
	}
}

static void private_data_has_limits(void **state)
{
	uint8_t pd[FF_CM_PD_MAX];
	struct cm_packet p;
	uint32_t id, l;

	(void)state;
	memset(pd, 7, sizeof(pd));
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, pd, FF_CM_PD_REQ + 1), -EINVAL);
	assert_int_equal(cm_do_connect(a, id, pd, FF_CM_PD_REQ), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_memory_equal(p.pd, pd, FF_CM_PD_REQ);
	id = p.ev.id;
	assert_int_equal(cm_do_reject(b, id, 0, pd, FF_CM_PD_REJ + 1), -EINVAL);
	assert_int_equal(cm_do_accept(b, id, 1, pd, FF_CM_PD_REP), 0);
	cm_expect(a, 0, RDMA_CM_EVENT_CONNECT_RESPONSE, &p);
	assert_memory_equal(p.pd, pd, FF_CM_PD_REP);
	/* what is too long to accept refuses */
	assert_int_equal(cm_accept_too_long(a, b, RDMA_PS_TCP, PORT, FF_CM_PD_REP,
					    RDMA_CM_EVENT_REJECTED),
			 28);

	/* between AF_IB addresses there is no CMA header */
	l = cm_new(b, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(b, l, cm_sib("fd00::2", RDMA_PS_TCP, PORT + 1), NULL), 0);
	assert_int_equal(cm_do_listen(b, l, 0), 0);
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, cm_sib("fd00::1", RDMA_PS_TCP, 0),
				       cm_sib("fd00::2", RDMA_PS_TCP, PORT + 1), 1000),
			 0);
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(cm_do_route(a, id), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	assert_int_equal(cm_do_connect(a, id, pd, FF_CM_PD_REQ_IB + 1), -EINVAL);
	assert_int_equal(cm_do_connect(a, id, pd, FF_CM_PD_REQ_IB), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(p.ev.private_data_len, FF_CM_PD_REQ_IB);
	assert_memory_equal(p.pd, pd, FF_CM_PD_REQ_IB);
}

/* The kernel waits for a minute, and so does this. Both sides are told. */
static void a_peer_that_never_answers(void **state)
{
	struct cm_packet p;
	uint32_t id;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_at(g, 60000);
	cm_expect_none(a);
	cm_expect_none(b); /* it was not repeated: it has been taken */
	cm_at(g, 66000);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), -EINVAL);
	cm_expect_none(b);

	/* accepted, but never established */
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	cm_at(g, 66000);
	assert_int_equal(cm_expect(b, p.ev.id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), 4);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), -EINVAL);
	cm_at(g, 200000);
	cm_expect_none(a);
	cm_expect_none(b);
}

/* A container that is not there for a moment is tried again; one that stays away is unreachable. */
static void a_container_that_has_gone(void **state)
{
	uint32_t id;

	(void)state;
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	cm_close(b);
	g->c[1]->dying = true;
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_at(g, 30000);
	cm_expect_none(a);
	cm_at(g, 66000);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);

	g->c[1]->dying = false;
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	g->c[1]->dying = true;
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	g->c[1]->dying = false;
	*b = cm_open(g, 1);
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_at(g, 70);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

/* ---- destroying ------------------------------------------------------------------------------ */

static void destroy_tells_the_peer(void **state)
{
	struct cm_packet p;
	uint32_t ida, idb, l;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	/* the active one while its request is with the peer: nothing is told before accept */
	ida = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, ida, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_destroy(a, ida, NULL), 0);
	cm_expect_none(b);
	assert_int_equal(cm_do_accept(b, p.ev.id, 9, NULL, 0), -EINVAL);
	assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);

	/* the active one between REP and RTU */
	ida = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, ida, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 9, NULL, 0), 0);
	cm_expect(a, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_destroy(a, ida, NULL), 0);
	assert_int_equal(cm_expect(b, p.ev.id, RDMA_CM_EVENT_REJECTED, NULL), 28);

	/* the passive one after accept */
	ida = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, ida, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 9, NULL, 0), 0);
	cm_expect(a, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_REJECTED, NULL), 28);

	/* either one of a connection; the listener's end does not matter to it */
	cm_connected(a, b, B_IP, PORT, &ida, &idb);
	assert_int_equal(cm_do_destroy(b, l, NULL), 0);
	assert_int_equal(cm_do_destroy(b, idb, NULL), 0);
	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	assert_int_equal(cm_do_disconnect(a, ida), 0);
	cm_at(g, 600);
	cm_expect(a, ida, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL);
	cm_expect_none(a);
	cm_expect_none(b);
}

/* What a dead host's peer would see, at once. */
static void a_session_that_dies(void **state)
{
	struct cm_client c = cm_open(g, 1);
	struct cm_packet p;
	uint32_t con, req, acc, idb;

	(void)state;
	cm_listener(&c, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, &c, B_IP, PORT, &con, &idb);
	acc = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, acc, NULL, 0), 0);
	cm_expect(&c, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(&c, p.ev.id, 9, NULL, 0), 0);
	cm_expect(a, acc, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	req = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, req, NULL, 0), 0);
	cm_close(&c);
	for (int i = 0; i < 3; i++) {
		assert_true(cm_next(a, &p));
		if (p.ev.id == con)
			assert_int_equal(p.ev.event, RDMA_CM_EVENT_DISCONNECTED);
		else
			assert_int_equal(p.ev.event, RDMA_CM_EVENT_REJECTED);
	}
	cm_expect_none(a);
	/* nobody listens any more */
	req = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, req, NULL, 0), 0);
	cm_at(g, 2 * CM_LISTEN_MS);
	assert_int_equal(cm_expect(a, req, RDMA_CM_EVENT_REJECTED, NULL), 8);

	/* the container itself */
	c = cm_open(g, 1);
	cm_listener(&c, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, &c, B_IP, PORT, &con, &idb);
	container_detach(g->c[1]);
	assert_int_equal(cm_expect(a, con, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	close(c.fd);
	close(c.sock);
	g->c[1] = g->c[0]; /* for teardown */
}

/* ---- rdma_notify ----------------------------------------------------------------------------- */

static void data_before_the_rtu(void **state)
{
	struct cm_packet p;
	uint32_t id;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), -EINVAL);
	assert_int_equal(cm_do_establish(a, id, IBV_EVENT_COMM_EST), -EINVAL);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_establish(b, p.ev.id, IBV_EVENT_COMM_EST), -EINVAL);
	assert_int_equal(cm_do_accept(b, p.ev.id, 9, NULL, 0), 0);
	assert_int_equal(cm_do_establish(b, p.ev.id, IBV_EVENT_PATH_MIG), -EINVAL);
	assert_int_equal(cm_do_establish(b, p.ev.id, IBV_EVENT_COMM_EST), 0);
	cm_expect(b, p.ev.id, RDMA_CM_EVENT_ESTABLISHED, NULL);
	assert_int_equal(cm_do_establish(b, p.ev.id, IBV_EVENT_COMM_EST), -EISCONN);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), 0);
	cm_expect_none(b); /* the RTU tells nothing new */

	/* one that disconnects as soon as it can */
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 9, NULL, 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_establish(b, p.ev.id, IBV_EVENT_COMM_EST), 0);
	assert_int_equal(cm_do_disconnect(b, p.ev.id), 0);
	cm_expect(a, id, RDMA_CM_EVENT_DISCONNECTED, NULL);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), -EINVAL);
}

/* ---- tenants --------------------------------------------------------------------------------- */

/* Another tenant's container with b's address: neither can reach the other. */
static void tenants_do_not_meet(void **state)
{
	struct ffo_container info = { .id = 9, .epoch = 1, .lid = 9, .num_ips = 1 };
	struct container *keep = g->c[1];
	struct cm_client c;
	uint32_t id;

	(void)state;
	strcpy(info.name, "c");
	strcpy(info.tenant, "other");
	memcpy(&info.ip[0], &g->c[1]->gid[0], 16);
	assert_int_equal(container_attach(&g->ctl, &info), 0);
	g->c[1] = container_find(&g->ctl, "c");
	c = cm_open(g, 1);
	g->c[1] = keep;
	cm_listener(&c, RDMA_PS_TCP, PORT, 0);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_at(g, 2 * CM_LISTEN_MS);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), 8);
	cm_expect_none(&c);
	/* a's address is nobody's there */
	id = cm_new(&c, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(&c, id, cm_sa("", 0), cm_sa(A_IP, PORT), 100), 0);
	cm_at(g, 200);
	assert_int_equal(cm_expect(&c, id, RDMA_CM_EVENT_ADDR_ERROR, NULL), -ETIMEDOUT);
	cm_close(&c);
}

/* ---- many ------------------------------------------------------------------------------------ */

#define MANY 10000

static void many_half_open(void **state)
{
	static uint32_t id[MANY];
	struct cm_packet p;
	unsigned told = 0, over = 0;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 100);
	for (unsigned i = 0; i < MANY; i++) {
		id[i] = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id[i], NULL, 0), 0);
	}
	assert_int_equal(cm_counts(g->c[0]).ids, MANY);
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 100);
	cm_at(g, 66000);
	while (cm_next(a, &p)) {
		assert_int_equal(p.ev.event, RDMA_CM_EVENT_UNREACHABLE);
		assert_int_equal(p.ev.status, -ETIMEDOUT);
		over++;
	}
	assert_int_equal(over, MANY);
	while (cm_next(b, &p)) {
		assert_int_equal(p.ev.event, RDMA_CM_EVENT_CONNECT_REQUEST);
		told++;
	}
	assert_int_equal(told, 100);
	for (unsigned i = 0; i < MANY; i++)
		assert_int_equal(cm_do_destroy(a, id[i], NULL), 0);
	assert_int_equal(cm_counts(g->c[0]).ids, 0);
}

/* The policy keeps containers of one tenant apart: a request of one does not reach the other. */
static void the_policy_is_asked(void **state)
{
	struct fast_host *h = cm_two.rig.ctl.host;
	json_t *rules =
		json_pack("[{s:s, s:s, s:s}]", "a", "default", "b", "default", "action", "deny");
	struct dir d = { 0 };
	uint32_t ida;

	(void)state;
	assert_int_equal(rules_parse(&d.policy, rules), 0);
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	ida = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	h->dir = &d;
	assert_int_equal(cm_do_connect(a, ida, "hello", 5), 0);
	cm_expect_none(b);
	h->dir = NULL;
	rules_free(&d.policy);
	json_decref(rules);
}

/* A message about a connection comes from its peer, or from nobody. */
static void a_message_of_another_connection(void **state)
{
	struct cm *cm = cm_two.rig.ctl.cm;
	struct session *s = LIST_FIRST(&g->c[1]->sessions);
	struct cm_from from = { .c = g->c[0], .id = g->c[0]->id };
	struct cm_msg m = { .type = CM_MSG_DREQ };
	struct cm_id *id;
	uint32_t ida, idb;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, b, B_IP, PORT, &ida, &idb);
	id = cm_id_get(s, idb);
	memcpy(from.tenant, g->c[0]->tenant, sizeof(from.tenant));
	memcpy(from.name, g->c[0]->name, sizeof(from.name));
	m.sgid = id->dgid;
	m.dgid = id->sgid;
	m.dst_comm = id->comm;
	m.src_comm = id->peer_comm + 1;
	cm_deliver(cm, &from, g->c[1], &m);
	cm_expect_none(b);
	assert_int_equal(cm_counts(g->c[1]).connections, 1);
	m.src_comm = id->peer_comm;
	cm_deliver(cm, &from, g->c[1], &m);
	cm_expect(b, idb, RDMA_CM_EVENT_DISCONNECTED, NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)
	return UNIT_RUN(TEST(both_sides_see_each_other), TEST(loopback_within_a_container),
			TEST(nobody_listens), TEST(reject_gives_a_reason),
			TEST(private_data_has_limits), TEST(a_peer_that_never_answers),
			TEST(a_container_that_has_gone), TEST(destroy_tells_the_peer),
			TEST(a_session_that_dies), TEST(data_before_the_rtu),
			TEST(tenants_do_not_meet), TEST(the_policy_is_asked), TEST(many_half_open),
			TEST(a_message_of_another_connection));
}
