/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_conn_lost.c - the connection manager between two hosts: each message lost with the connection
 * that carries it, or by itself, or coming twice. Instead of ffr/cm/wire.c there is a queue here.
 * build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <string.h>

#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"
#include "ffr/cm/internal.h"

#define PORT 7471

static struct ctl_rig rig[2]; /* container a is on the first host, b on the second */
static struct cm_client a, b;

/* ---- the wire ------------------------------------------------------------------------------- */

enum how { WITH_CONNECTION, BY_ITSELF, NUM_HOW };

#define QUEUE 256u

static struct {
	struct {
		int to;
		struct cm_msg m;
	} q[QUEUE];
	unsigned head, tail;
	uint32_t conn, last_conn;
	bool twice;   /* everything comes twice */
	int lose;     /* the next of that type is lost; -1: none is */
	enum how how; /* how it is lost: alone, or with the connection */
	bool is_lost; /* it was */
	uint64_t ms;  /* what cm_at() says: it does not go back */
	unsigned sent[CM_MSG_NUM];
} wire;

static int host_of(const struct cm *cm)
{
	return cm == rig[1].ctl.cm;
}

static struct container *container_on(int host)
{
	return rig[host].c[host];
}

void cm_wire_init(struct cm *cm)
{
	uv_async_init(cm->ctl->loop, &cm->frames, NULL);
	cm->frames.data = cm;
}

void cm_wire_fini(struct cm *cm)
{
	(void)cm;
}

enum dir_answer cm_wire_look(struct cm *cm, const struct container *from, const union ibv_gid *gid)
{
	const struct container *c = container_on(!host_of(cm));

	(void)from;
	return memcmp(gid, &c->gid[0], sizeof(*gid)) ? DIR_HERE : DIR_REMOTE;
}

uint32_t cm_wire_conn(struct cm *cm, const struct container *from, const union ibv_gid *gid)
{
	return cm_wire_look(cm, from, gid) == DIR_REMOTE ? wire.conn : CM_CONN_HERE;
}

static void cut(void)
{
	wire.head = wire.tail;
	wire.conn = CM_CONN_NONE;
	cm_conns_changed(rig[0].ctl.cm);
	cm_conns_changed(rig[1].ctl.cm);
}

static void reconnect(void)
{
	wire.conn = ++wire.last_conn;
	cm_conns_changed(rig[0].ctl.cm);
	cm_conns_changed(rig[1].ctl.cm);
}

bool cm_wire_send(struct cm *cm, const struct container *from, const struct cm_msg *m,
		  struct container **here, uint32_t *conn)
{
	(void)from;
	*here = NULL;
	*conn = wire.conn;
	wire.sent[m->type]++;
	if (!wire.conn)
		return true;
	if (m->type == wire.lose) {
		wire.lose = -1;
		wire.is_lost = true;
		return true;
	}
	for (int i = 0; i <= wire.twice; i++) {
		assert_true(wire.tail - wire.head < QUEUE);
		wire.q[wire.tail % QUEUE].to = !host_of(cm);
		memset(&wire.q[wire.tail % QUEUE].m, 0, sizeof(*m));
		memcpy(&wire.q[wire.tail++ % QUEUE].m, m, offsetof(struct cm_msg, pd) + m->pd_len);
	}
	return true;
}

static void deliver(int to, const struct cm_msg *m)
{
	const struct container *c = container_on(!to);
	struct cm_from from = { 0 };

	memcpy(from.tenant, c->tenant, sizeof(from.tenant));
	memcpy(from.name, c->name, sizeof(from.name));
	cm_deliver(rig[to].ctl.cm, &from, container_on(to), m);
}

static void carry(void)
{
	while (wire.head != wire.tail) {
		unsigned i = wire.head++ % QUEUE;

		deliver(wire.q[i].to, &wire.q[i].m);
	}
}

static void later(uint64_t ms)
{
	wire.ms += ms;
	cm_at(&rig[0], wire.ms);
	cm_at(&rig[1], wire.ms);
	carry();
}

/* All that can come comes, and what was to be lost was lost in between. */
static void run(void)
{
	carry();
	if (!wire.is_lost)
		return;
	wire.is_lost = false;
	if (wire.how == WITH_CONNECTION) {
		cut();
		later(1);
		reconnect();
		later(1);
	} else {
		later(CM_RETRY_MAX + 10);
	}
	carry();
}

static void lose(enum cm_msg_type type, enum how how)
{
	wire.lose = type;
	wire.how = how;
}

/* The message was sent, and lost. */
static void was_lost(void)
{
	assert_int_equal(wire.lose, -1);
}

static int setup(void **state)
{
	(void)state;
	memset(&wire, 0, sizeof(wire));
	wire.lose = -1;
	for (int i = 0; i < 2; i++) {
		rig_open(&rig[i]);
		container_detach(rig[i].c[!i]);
		rig[i].c[!i] = NULL;
	}
	reconnect();
	a = cm_open(&rig[0], 0);
	b = cm_open(&rig[1], 1);
	return 0;
}

/* Nothing is left, and nothing unexpected was told. */
static int teardown(void **state)
{
	(void)state;
	cm_close(&a);
	cm_close(&b);
	run();
	later(CM_REQ_TIMEOUT);
	for (int i = 0; i < 2; i++) {
		assert_null(container_on(i)->cm);
		assert_int_equal(rig[i].ctl.cm->num_timewait, 0);
		rig_close(&rig[i]);
	}
	return 0;
}

/* ---- steps ---------------------------------------------------------------------------------- */

static void none(void)
{
	run();
	cm_expect_none(&a);
	cm_expect_none(&b);
}

static void connect_from(uint32_t *ida, uint16_t ps, const char *pd)
{
	*ida = cm_routed(&a, ps, B_IP, PORT);
	assert_int_equal(cm_do_connect(&a, *ida, pd, strlen(pd)), 0);
	run();
}

static void requested(uint32_t *ida, uint32_t *idb)
{
	struct cm_packet p;

	connect_from(ida, RDMA_PS_TCP, "hello");
	cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_memory_equal(p.pd, "hello", 5);
	*idb = p.ev.id;
	none();
}

static void accepted(uint32_t *ida, uint32_t *idb)
{
	struct cm_packet p;

	requested(ida, idb);
	assert_int_equal(cm_do_accept(&b, *idb, 42, "welcome", 7), 0);
	run();
	cm_expect(&a, *ida, RDMA_CM_EVENT_CONNECT_RESPONSE, &p);
	assert_memory_equal(p.pd, "welcome", 7);
	assert_int_equal(p.ev.param.qp_num, cm_qpn[1]);
	none();
}

static void connected(uint32_t *ida, uint32_t *idb)
{
	accepted(ida, idb);
	assert_int_equal(cm_do_establish(&a, *ida, UINT32_MAX), 0);
	run();
	cm_expect(&b, *idb, RDMA_CM_EVENT_ESTABLISHED, NULL);
	none();
	assert_int_equal(cm_counts(container_on(0)).connections, 1);
	assert_int_equal(cm_counts(container_on(1)).connections, 1);
}

static void ended(struct cm_client *c, uint32_t id)
{
	assert_int_equal(cm_expect(c, id, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	cm_expect_none(c);
	assert_int_equal(cm_do_disconnect(c, id), 0);
	run();
	later(CM_TIMEWAIT_MS + 10);
	assert_int_equal(cm_expect(c, id, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
	assert_int_equal(cm_do_destroy(c, id, NULL), 0);
	run();
}

static void disconnected(uint32_t ida, uint32_t idb, bool by_b)
{
	struct cm_client *x = by_b ? &b : &a, *y = by_b ? &a : &b;
	uint32_t idx = by_b ? idb : ida, idy = by_b ? ida : idb;

	assert_int_equal(cm_do_disconnect(x, idx), 0);
	run();
	cm_expect_none(x);
	assert_int_equal(cm_expect(y, idy, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	assert_int_equal(cm_do_disconnect(y, idy), 0);
	run();
	assert_int_equal(cm_expect(x, idx, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	later(CM_TIMEWAIT_MS + 10);
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
	assert_int_equal(cm_expect(&b, idb, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
	assert_int_equal(cm_do_destroy(&a, ida, NULL), 0);
	assert_int_equal(cm_do_destroy(&b, idb, NULL), 0);
	none();
}

/* ---- one is lost ---------------------------------------------------------------------------- */

/* No program notices. */
static void a_connection(void **state)
{
	static const enum cm_msg_type type[] = { CM_MSG_REQ, CM_MSG_MRA,  CM_MSG_REP,
						 CM_MSG_RTU, CM_MSG_DREQ, CM_MSG_DREP };
	uint32_t ida, idb;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(type); i++)
		for (enum how how = 0; how < NUM_HOW; how++) {
			lose(type[i], how);
			connected(&ida, &idb);
			disconnected(ida, idb, how == BY_ITSELF);
			was_lost();
		}
}

/* It is repeated at the kernel's pace, not more often, and not when the answer has come. */
static void at_its_pace(void **state)
{
	uint32_t ida, idb;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	requested(&ida, &idb);
	assert_int_equal(wire.sent[CM_MSG_REQ], 1);
	later(CM_RETRY_MAX - 500);
	assert_int_equal(wire.sent[CM_MSG_REQ], 1);
	later(1000);
	assert_int_equal(wire.sent[CM_MSG_REQ], 2);
	assert_int_equal(wire.sent[CM_MSG_MRA], 2);
	assert_int_equal(cm_do_accept(&b, idb, 42, NULL, 0), 0);
	run();
	cm_expect(&a, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	reconnect();
	later(1);
	assert_int_equal(wire.sent[CM_MSG_REQ], 2);
	assert_int_equal(wire.sent[CM_MSG_REP], 2);
	assert_int_equal(cm_do_establish(&a, ida, UINT32_MAX), 0);
	run();
	cm_expect(&b, idb, RDMA_CM_EVENT_ESTABLISHED, NULL);
	later(CM_REP_TIMEOUT);
	reconnect();
	later(1);
	assert_int_equal(wire.sent[CM_MSG_REP], 2);
	assert_int_equal(wire.sent[CM_MSG_RTU], 1);
	none();
}

static void a_refusal(void **state)
{
	struct cm_packet p;
	uint32_t ida, idb;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	for (enum how how = 0; how < NUM_HOW; how++)
		for (int destroy = 0; destroy < 2; destroy++) {
			/* the passive side's; there is not a second request */
			requested(&ida, &idb);
			lose(CM_MSG_REJ, how);
			assert_int_equal(cm_do_reject(&b, idb, 0, "no", 2), 0);
			if (destroy)
				assert_int_equal(cm_do_destroy(&b, idb, NULL), 0);
			run();
			was_lost();
			assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_REJECTED, &p), 28);
			assert_memory_equal(p.pd, "no", 2);
			none();
			/* the active side's */
			accepted(&ida, &idb);
			lose(CM_MSG_REJ, how);
			assert_int_equal(cm_do_reject(&a, ida, 0, "oh", 2), 0);
			if (destroy)
				assert_int_equal(cm_do_destroy(&a, ida, NULL), 0);
			run();
			was_lost();
			assert_int_equal(cm_expect(&b, idb, RDMA_CM_EVENT_REJECTED, &p), 28);
			assert_memory_equal(p.pd, "oh", 2);
			none();
		}
}

/* A request is under way while its first copy is refused. */
static void a_late_copy_of_what_was_refused(void **state)
{
	struct cm_packet p;
	struct cm_msg req;
	uint32_t ida;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	ida = cm_routed(&a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(&a, ida, NULL, 0), 0);
	req = wire.q[wire.head % QUEUE].m;
	assert_int_equal(req.type, CM_MSG_REQ);
	run();
	cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_reject(&b, p.ev.id, 0, NULL, 0), 0);
	deliver(1, &req);
	run();
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_REJECTED, NULL), 28);
	assert_int_equal(cm_do_destroy(&b, p.ev.id, NULL), 0);
	deliver(1, &req);
	none();
	/* much later it may be another's */
	later(CM_REQ_TIMEOUT);
	deliver(1, &req);
	cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

/* The client, or its program, goes in the state, and what that says is lost. */
static void one_side_goes(void **state)
{
	uint32_t ida, idb, left;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	for (enum how how = 0; how < NUM_HOW; how++) {
		/* who asked: seen by who accepts */
		requested(&ida, &idb);
		lose(CM_MSG_REJ, how);
		assert_int_equal(cm_do_destroy(&a, ida, NULL), 0);
		run();
		was_lost();
		assert_int_equal(cm_do_accept(&b, idb, 42, NULL, 0), 0);
		run();
		assert_int_equal(cm_expect(&b, idb, RDMA_CM_EVENT_REJECTED, NULL), 4);
		none();

		/* who was asked */
		requested(&ida, &idb);
		lose(CM_MSG_REJ, how);
		assert_int_equal(cm_do_destroy(&b, idb, NULL), 0);
		run();
		was_lost();
		assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_REJECTED, NULL), 28);
		none();

		/* who has accepted: seen by who establishes */
		accepted(&ida, &idb);
		lose(CM_MSG_REJ, how);
		assert_int_equal(cm_do_destroy(&b, idb, NULL), 0);
		run();
		was_lost();
		assert_int_equal(cm_do_establish(&a, ida, UINT32_MAX), 0);
		run();
		ended(&a, ida);

		/* either one of a connection */
		for (int by_b = 0; by_b < 2; by_b++) {
			connected(&ida, &idb);
			left = rig[by_b].ctl.cm->num_timewait;
			lose(CM_MSG_DREQ, how);
			assert_int_equal(by_b ? cm_do_destroy(&b, idb, NULL) :
						cm_do_destroy(&a, ida, NULL),
					 0);
			run();
			was_lost();
			/* the other side has heard of it: nothing is repeated */
			assert_int_equal(rig[by_b].ctl.cm->num_timewait, left);
			ended(by_b ? &a : &b, by_b ? ida : idb);
			none();
		}

		/* one that has disconnected before */
		connected(&ida, &idb);
		lose(CM_MSG_DREQ, how);
		assert_int_equal(cm_do_disconnect(&a, ida), 0);
		assert_int_equal(cm_do_destroy(&a, ida, NULL), 0);
		run();
		was_lost();
		ended(&b, idb);

		/* the RTU is lost, too */
		accepted(&ida, &idb);
		lose(CM_MSG_RTU, how);
		assert_int_equal(cm_do_establish(&a, ida, UINT32_MAX), 0);
		was_lost();
		lose(CM_MSG_DREQ, how);
		assert_int_equal(cm_do_destroy(&a, ida, NULL), 0);
		run();
		was_lost();
		ended(&b, idb);
		none();
	}
}

/* A program ends while the hosts cannot reach each other. */
static void a_session_ends_meanwhile(void **state)
{
	uint32_t ida, idb;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	connected(&ida, &idb);
	cut();
	cm_close(&a);
	for (int i = 0; i < 5; i++)
		later(CM_RETRY_MAX);
	cm_expect_none(&b);
	reconnect();
	later(1);
	ended(&b, idb);
	a = cm_open(&rig[0], 0);

	/* the other's, with a request of ours at hand: whoever is there now refuses it */
	requested(&ida, &idb);
	cut();
	cm_close(&b);
	b = cm_open(&rig[1], 1);
	reconnect();
	later(CM_RETRY_MAX);
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_REJECTED, NULL), 28);
	none();
}

/* The other host's router starts anew: it knows of nothing. */
static void a_router_restarts(void **state)
{
	uint32_t ida[3], idb[3];

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	connected(&ida[0], &idb[0]);
	accepted(&ida[1], &idb[1]);
	requested(&ida[2], &idb[2]);
	cut();
	cm_close(&b);
	cm_timewait_fini(rig[1].ctl.cm);
	b = cm_open(&rig[1], 1);
	reconnect();
	later(1);
	assert_int_equal(cm_expect(&a, ida[2], RDMA_CM_EVENT_REJECTED, NULL), 28);
	none();
	assert_int_equal(cm_do_establish(&a, ida[1], UINT32_MAX), 0);
	run();
	assert_int_equal(cm_expect(&a, ida[1], RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	assert_int_equal(cm_do_disconnect(&a, ida[0]), 0);
	run();
	assert_int_equal(cm_expect(&a, ida[0], RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	none();
}

static void ud(void **state)
{
	static const enum cm_msg_type type[] = { CM_MSG_SIDR_REQ, CM_MSG_MRA, CM_MSG_SIDR_REP };
	struct cm_packet p;
	uint32_t ida, idb;

	(void)state;
	cm_listener(&b, RDMA_PS_UDP, PORT, 0);
	for (unsigned i = 0; i < ARRAY_SIZE(type); i++)
		for (enum how how = 0; how < NUM_HOW; how++) {
			lose(type[i], how);
			connect_from(&ida, RDMA_PS_UDP, "hello");
			cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
			idb = p.ev.id;
			none();
			assert_int_equal(cm_do_accept(&b, idb, 5, "welcome", 7), 0);
			run();
			was_lost();
			assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_ESTABLISHED, &p), 0);
			assert_int_equal(p.ev.ud_qp_num, cm_qpn[1]);
			assert_memory_equal(p.pd, "welcome", 7);
			none();
			assert_int_equal(cm_do_destroy(&a, ida, NULL), 0);
			assert_int_equal(cm_do_destroy(&b, idb, NULL), 0);
		}

	/* the id that answered has gone: as in the kernel it is a new request */
	connect_from(&ida, RDMA_PS_UDP, "");
	cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	lose(CM_MSG_SIDR_REP, WITH_CONNECTION);
	assert_int_equal(cm_do_accept(&b, p.ev.id, 5, NULL, 0), 0);
	assert_int_equal(cm_do_destroy(&b, p.ev.id, NULL), 0);
	run();
	was_lost();
	cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(&b, p.ev.id, 5, NULL, 0), 0);
	run();
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	none();
}

/* ---- twice ---------------------------------------------------------------------------------- */

static void everything_comes_twice(void **state)
{
	struct cm_packet p;
	uint32_t ida, idb;

	(void)state;
	wire.twice = true;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	cm_listener(&b, RDMA_PS_UDP, PORT, 0);
	for (int by_b = 0; by_b < 2; by_b++) {
		connected(&ida, &idb);
		assert_int_equal(cm_counts(container_on(1)).ids, 3);
		disconnected(ida, idb, by_b);
	}
	requested(&ida, &idb);
	assert_int_equal(cm_do_reject(&b, idb, 0, NULL, 0), 0);
	run();
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_REJECTED, NULL), 28);
	connect_from(&ida, RDMA_PS_UDP, "");
	cm_expect(&b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(&b, p.ev.id, 5, NULL, 0), 0);
	run();
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_ESTABLISHED, NULL), 0);
	none();
}

/* ---- for good ------------------------------------------------------------------------------- */

static void the_hosts_do_not_meet_again(void **state)
{
	uint32_t req, req_b, rep, rep_b, ida, idb;

	(void)state;
	cm_listener(&b, RDMA_PS_TCP, PORT, 0);
	requested(&req, &req_b);
	accepted(&rep, &rep_b);
	connected(&ida, &idb);
	cut();
	assert_int_equal(cm_do_disconnect(&a, ida), 0);
	for (int i = 0; i < 15; i++)
		later(CM_RETRY_MAX - 1);
	cm_expect_none(&a);
	cm_expect_none(&b);
	later(2 * CM_RETRY_MAX);
	assert_int_equal(cm_expect(&a, req, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_DISCONNECTED, NULL), -ETIMEDOUT);
	assert_int_equal(cm_expect(&b, rep_b, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	later(CM_TIMEWAIT_MS + 10);
	assert_int_equal(cm_expect(&a, ida, RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL), 0);
	none();
	/* when they do after all, each hears of it when it goes on */
	reconnect();
	later(1);
	none();
	assert_int_equal(cm_do_establish(&a, rep, UINT32_MAX), 0);
	run();
	assert_int_equal(cm_expect(&a, rep, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	assert_int_equal(cm_do_accept(&b, req_b, 42, NULL, 0), 0);
	run();
	assert_int_equal(cm_expect(&b, req_b, RDMA_CM_EVENT_REJECTED, NULL), 4);
	assert_int_equal(cm_do_disconnect(&b, idb), 0);
	run();
	assert_int_equal(cm_expect(&b, idb, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(TEST(a_connection), TEST(at_its_pace), TEST(a_refusal),
			TEST(a_late_copy_of_what_was_refused), TEST(one_side_goes),
			TEST(a_session_ends_meanwhile), TEST(a_router_restarts), TEST(ud),
			TEST(everything_comes_twice), TEST(the_hosts_do_not_meet_again));
}
