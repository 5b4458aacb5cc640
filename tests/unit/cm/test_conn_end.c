/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_conn_end.c - how connections of the connection manager end: by a program, by its peer, by time,
 * and because a QP has another.
 */
#include <errno.h>
#include <string.h>

#include "ffr/cm/internal.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define PORT 7471

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

/* Either side may begin; its program hears of the end when the other's has disconnected, too. */
static void disconnect_ends_both_sides(void **state)
{
	struct cm_client *x, *y;
	uint32_t ida, idb, idx, idy;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	for (int i = 0; i < 4; i++) {
		cm_connected(a, b, B_IP, PORT, &ida, &idb);
		x = i & 1 ? a : b;
		y = i & 1 ? b : a;
		idx = i & 1 ? ida : idb;
		idy = i & 1 ? idb : ida;
		assert_int_equal(cm_do_disconnect(x, idx), 0);
		assert_int_equal(cm_do_disconnect(x, idx), 0);
		cm_expect_none(x);
		assert_int_equal(cm_expect(y, idy, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		assert_int_equal(cm_counts(g->c[0]).connections, 0);
		assert_int_equal(cm_counts(g->c[1]).connections, 0);
		cm_at(g, 20000 * i + 5000); /* there is no hurry */
		cm_expect_none(x);
		cm_expect_none(y);
		if (i & 2)
			assert_int_equal(cm_do_destroy(y, idy, NULL), 0);
		else
			assert_int_equal(cm_do_disconnect(y, idy), 0);
		assert_int_equal(cm_expect(x, idx, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
		cm_expect_none(y);
		cm_at(g, 20000 * i + 5600);
		assert_int_equal(cm_expect(x, idx, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
		assert_int_equal(cm_do_disconnect(x, idx), 0);
		assert_int_equal(cm_do_destroy(x, idx, NULL), 0);
		if (i & 2)
			continue;
		assert_int_equal(cm_expect(y, idy, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
		assert_int_equal(cm_do_disconnect(y, idy), 0);
		assert_int_equal(cm_do_destroy(y, idy, NULL), 0);
	}
}

/* a's end, to which b says nothing: after a minute, as in the kernel. */
static void ends_alone(uint32_t ida)
{
	cm_at(g, 60000);
	cm_expect_none(a);
	cm_at(g, 66000);
	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_DISCONNECTED, NULL), -ETIMEDOUT);
	cm_at(g, 67000);
	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
	cm_expect_none(b);
}

/* The other program goes on as if nothing were. */
static void a_disconnect_that_nobody_joins(void **state)
{
	uint32_t ida, idb;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, b, B_IP, PORT, &ida, &idb);
	assert_int_equal(cm_do_disconnect(a, ida), 0);
	assert_int_equal(cm_expect(b, idb, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	ends_alone(ida);
	/* its answer is for nobody */
	assert_int_equal(cm_do_disconnect(b, idb), 0);
	cm_expect_none(a);
	cm_at(g, 68000);
	assert_int_equal(cm_expect(b, idb, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
}

/* Between hosts a DREQ may get no answer at all; here its way is cut. */
static void a_disconnect_without_an_answer(void **state)
{
	uint32_t ida, idb;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, b, B_IP, PORT, &ida, &idb);
	cm_id_get(LIST_FIRST(&g->c[0]->sessions), ida)->peer_comm = 0;
	assert_int_equal(cm_do_disconnect(a, ida), 0);
	ends_alone(ida);
	/* who asks somebody that knows nothing is answered */
	assert_int_equal(cm_do_destroy(a, ida, NULL), 0);
	assert_int_equal(cm_do_disconnect(b, idb), 0);
	assert_int_equal(cm_expect(b, idb, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
}

/* ---- QPs that are connected already ----------------------------------------------------------- */

static void connect_as(struct cm_client *c, uint32_t id, uint32_t qpn)
{
	cm_qpn[0] = qpn - 0x100;
	assert_int_equal(cm_do_connect(c, id, NULL, 0), 0);
}

/* Who asks with the QP of a connection has lost that: it ends, and the request is refused. */
static void a_request_of_a_connected_qp(void **state)
{
	uint32_t ida, idb, id, qpn;
	struct cm_packet p;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, b, B_IP, PORT, &ida, &idb);
	qpn = cm_qpn[0];
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	connect_as(a, id, qpn);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, &p), CM_REJ_STALE_CONN);
	assert_int_equal(p.ev.private_data_len, FF_CM_PD_REJ);
	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	cm_expect_none(a);
	cm_expect_none(b); /* which disconnected, without its program */

	/* as long as the connection has not ended, that goes on */
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	connect_as(a, id, qpn);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), CM_REJ_STALE_CONN);
	cm_expect_none(a);
	assert_int_equal(cm_do_disconnect(a, ida), 0);
	assert_int_equal(cm_expect(b, idb, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	connect_as(a, id, qpn);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);

	/* a request that was refused leaves nothing */
	assert_int_equal(cm_do_reject(b, p.ev.id, 0, NULL, 0), 0);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), CM_REJ_CONSUMER);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	connect_as(a, id, qpn);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	/* while it is one it is not ended, nor is another taken */
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	connect_as(a, id, qpn);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), CM_REJ_STALE_CONN);
	cm_expect_none(a);
	cm_expect_none(b);
	/* the same number of another peer is another QP */
	id = cm_routed(b, RDMA_PS_TCP, B_IP, PORT);
	connect_as(b, id, qpn);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

/* Who accepts with such a QP is refused; who asked hears nothing, and goes on waiting. */
static void an_acceptance_with_a_connected_qp(void **state)
{
	uint32_t ida, idb, id;
	struct cm_packet p;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, b, B_IP, PORT, &ida, &idb);
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_qpn[1] -= 0x100;
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
	assert_int_equal(cm_expect(b, p.ev.id, RDMA_CM_EVENT_REJECTED, &p), CM_REJ_STALE_CONN);
	assert_int_equal(cm_expect(b, idb, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	cm_expect_none(a);
	cm_at(g, 66000);
	cm_expect_none(b);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	assert_int_equal(cm_expect(a, ida, RDMA_CM_EVENT_DISCONNECTED, NULL), -ETIMEDOUT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)
	return UNIT_RUN(TEST(disconnect_ends_both_sides), TEST(a_disconnect_that_nobody_joins),
			TEST(a_disconnect_without_an_answer), TEST(a_request_of_a_connected_qp),
			TEST(an_acceptance_with_a_connected_qp));
}
