/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_wire_out.c - ffr/cm/wire.c: messages to another host, which connection they are in, and what waits for the next
 * one. Two hosts' wires, and the time is the test's.
 */
#include <stdlib.h>

/* Time, and what the connection manager does beside the wire, are this test's. */
#define uv_hrtime	 test_hrtime
#define cm_deliver	 test_deliver
#define ctl_charge	 test_charge
#define cm_plain_events	 test_plain_events
#define cm_conns_changed test_conns_changed
#include "ffr/cm/wire.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/two_hosts.h"
#include "tests/rig/unit/unit.h"

static struct hosts hosts, *t = &hosts;
static struct ctl ctl;
static struct cm cm; /* of host 0 */
static uint64_t now;
static unsigned told, conns_changed;

uint64_t uv_hrtime(void)
{
	return now;
}

void cm_deliver(struct cm *c, const struct cm_from *from, struct container *to,
		const struct cm_msg *m)
{
	(void)c;
	(void)from;
	(void)to;
	fail_msg("host 0 gets a message of type %u", m->type);
}

void ctl_charge(struct container *c, uint64_t begun)
{
	(void)c;
	(void)begun;
}

bool cm_plain_events(struct cm *c)
{
	(void)c;
	return false;
}

void cm_conns_changed(struct cm *c)
{
	(void)c;
	conns_changed++;
}

static void woken(struct fast_host *h)
{
	told += h == t->h[0].r.f->host;
}

static int setup(void **state)
{
	(void)state;
	hosts_up(t, IBV_QPT_RC);
	now = 1000000000;
	memset(&cm, 0, sizeof(cm));
	ctl.host = t->h[0].r.f->host;
	ctl.host->dir = (struct dir *)&hosts; /* there is one; tests/rig/unit/others.c answers */
	cm.ctl = &ctl;
	cm.frames.data = &cm;
	cm_queue_init(&cm.out);
	for (int i = 0; i < 2; i++) {
		t->h[i].other.generation = 1;
		t->h[i].r.f->host->cm_wake = woken;
	}
	cm.conn_changes = wire_changes(t->h[0].r.f);
	told = conns_changed = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	cm_wire_fini(&cm);
	wire_cm_stop(t->h[1].r.f);
	ctl.host->dir = NULL;
	hosts_down(t);
	return 0;
}

/* The control thread's turn, if it was told. */
static void control(void)
{
	if (told)
		frames_came(&cm.frames);
	told = 0;
}

static void reconnect(void)
{
	t->h[0].other.generation++;
	t->h[1].other.generation++;
	hosts_connect(t);
	control();
	hosts_run(t);
}

/* Returns the connection that the message is in. */
static uint32_t send_one(enum cm_msg_type type, uint32_t number)
{
	struct cm_msg m = { .type = (uint8_t)type, .src_comm = number };
	struct container *here;
	uint32_t conn = 99;

	m.dgid = t->h[1].r.cont[0].gid[0];
	assert_true(cm_wire_send(&cm, &t->h[0].r.cont[0], &m, &here, &conn));
	return conn;
}

/* The next message that has come to host 1 has that number; 0: there is none. */
static void expect_one(uint32_t number)
{
	struct host *h = &t->h[1];
	struct remote *from;
	struct cm_frame *fr;
	struct cm_msg m = { 0 };

	hosts_run(t);
	fr = wire_cm_take(h->r.f, &from);
	if (!number) {
		assert_null(fr);
		return;
	}
	assert_non_null(fr);
	assert_true(fr->h.len == MSG_SZ(0) && fr->h.dst_cont == h->r.cont[0].id);
	memcpy(&m, fr->msg, fr->h.len);
	assert_int_equal(m.src_comm, number);
	wire_cm_taken(h->r.f, fr);
}

static void a_message_is_in_a_connection(void **state)
{
	(void)state;
	assert_int_equal(send_one(CM_MSG_REQ, 1), 1);
	assert_int_equal(send_one(CM_MSG_RTU, 2), 1);
	expect_one(1);
	expect_one(2);
	expect_one(0);
	hosts_cut(t);
	reconnect();
	assert_int_equal(conns_changed, 1);
	assert_int_equal(send_one(CM_MSG_REQ, 3), 2);
	expect_one(3);
	expect_one(0);
}

/* A message that will be repeated does not wait for a connection, and no other message waits for long. */
static void what_waits_for_a_connection(void **state)
{
	(void)state;
	hosts_cut(t);
	assert_false(t->h[0].o.is_wanted);
	assert_int_equal(send_one(CM_MSG_REQ, 1), CM_CONN_NONE);
	assert_true(t->h[0].o.is_wanted);
	assert_int_equal(send_one(CM_MSG_REP, 2), CM_CONN_NONE);
	assert_int_equal(send_one(CM_MSG_SIDR_REQ, 3), CM_CONN_NONE);
	assert_int_equal(send_one(CM_MSG_REJ, 4), CM_CONN_NONE);
	assert_int_equal(t->h[0].other.refs, 3); /* the QP's, and the message's */
	reconnect();
	assert_int_equal(t->h[0].other.refs, 2);
	expect_one(4);
	expect_one(0);

	for (uint64_t seconds = 4; seconds <= 6; seconds += 2) {
		hosts_cut(t);
		assert_int_equal(send_one(CM_MSG_REJ, 5), CM_CONN_NONE);
		now += seconds * 1000000000;
		reconnect();
		expect_one(seconds < 5 ? 5 : 0);
	}
}

/* A message that waits goes before a message that finds the new connection first. */
static void order_survives_a_connection(void **state)
{
	(void)state;
	hosts_cut(t);
	send_one(CM_MSG_RTU, 1);
	t->h[0].other.generation++;
	t->h[1].other.generation++;
	hosts_connect(t);
	assert_int_equal(send_one(CM_MSG_DREQ, 2), 2);
	control();
	expect_one(1);
	expect_one(2);
	expect_one(0);
}

/* A connection that takes no more takes the rest later: nothing is lost, and all is in order. */
static void a_full_connection(void **state)
{
	const uint32_t num = 2000;

	(void)state;
	for (uint32_t n = 1; n <= num; n++)
		assert_int_equal(send_one(n % 2 ? CM_MSG_REQ : CM_MSG_RTU, n), 1);
	assert_true(cm.out.num);
	for (uint32_t n = 1; n <= num; n++) {
		hosts_run(t);
		control();
		expect_one(n);
	}
	expect_one(0);
	assert_int_equal(cm.out.num, 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

	return UNIT_RUN(TEST(a_message_is_in_a_connection), TEST(what_waits_for_a_connection),
			TEST(order_survives_a_connection), TEST(a_full_connection));
}
