/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_cm.c - messages of the connection manager that come in, and how messages wait. What goes out is in
 * unit/cm/test_wire_out.c.
 */
#include <errno.h>
#include <string.h>

#include "ffr/wire/cm.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/two_hosts.h"

static struct hosts hosts, *t = &hosts;
static unsigned told[2];

static void tell(struct fast_host *h)
{
	told[t->h[1].r.f->host == h]++;
}

static int setup(void **state)
{
	(void)state;
	hosts_up(t, IBV_QPT_RC);
	for (int i = 0; i < 2; i++) {
		t->h[i].r.f->host->cm_wake = tell;
		t->h[i].other.generation = 1;
		told[i] = 0;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++)
		wire_cm_stop(t->h[i].r.f);
	hosts_down(t);
	return 0;
}

static void reconnect(void)
{
	t->h[0].other.generation++;
	t->h[1].other.generation++;
	hosts_connect(t);
	hosts_run(t);
}

/* Host 0 sends a message of that container, which may be none of its own. */
static void send_from(uint32_t cont, const char *text)
{
	struct wire_hdr h = {
		.type = WIRE_CM, .len = (uint32_t)strlen(text) + 1, .src_cont = cont, .src_epoch = 1
	};

	assert_int_equal(wire_send(t->h[0].r.f, &t->h[0].other, &h, text), 0);
	hosts_run(t);
}

static void send_one(const char *text)
{
	send_from(t->h[0].r.cont[0].id, text);
}

/* The next message that has come to host 1 is that; NULL: there is none. */
static void expect_one(const char *text)
{
	struct host *h = &t->h[1];
	struct remote *from = NULL;
	struct cm_frame *m;

	m = wire_cm_take(h->r.f, &from);
	if (!text) {
		assert_null(m);
		return;
	}
	assert_non_null(m);
	assert_ptr_equal(from, &h->remote);
	assert_ptr_equal(m->peer, &h->other);
	assert_string_equal((char *)m->msg, text);
	wire_cm_taken(h->r.f, m);
}

static void messages_come_in_order(void **state)
{
	(void)state;
	send_one("one");
	send_one("two");
	assert_int_equal(told[0], 0);
	assert_int_equal(told[1], 2);
	expect_one("one");
	expect_one("two");
	expect_one(NULL);
}

/* A host speaks for its own containers, in their present epoch. */
static void a_sender_is_who_it_says(void **state)
{
	struct wire_peer *other = t->h[1].remote.peer;

	(void)state;
	t->h[1].remote.epoch = 2;
	send_one("of before");
	expect_one(NULL);
	t->h[1].remote.epoch = 1;
	t->h[1].remote.peer = NULL;
	send_one("of another host's");
	expect_one(NULL);
	t->h[1].remote.peer = other;
	expect_one(NULL); /* both were dropped */
}

/* A message waits for the directory to know its sender, but not for long. */
static void a_sender_may_become_known(void **state)
{
	struct remote *known = t->h[1].o.remote[0];

	(void)state;
	t->h[1].r.f->now = fast_clock();
	t->h[1].o.remote[0] = NULL;
	send_one("early");
	assert_int_equal(told[1], 1);
	expect_one(NULL);
	t->h[1].o.remote[0] = known;
	wire_carrier.news(t->h[1].r.f, known);
	assert_int_equal(told[1], 2);
	expect_one("early");
	wire_carrier.news(t->h[1].r.f, known);
	assert_int_equal(told[1], 2); /* nothing waits */

	t->h[1].o.remote[0] = NULL;
	t->h[1].r.f->now = fast_clock() - 3000 * NS_PER_MS;
	send_one("too early");
	expect_one(NULL);
	t->h[1].o.remote[0] = known;
	expect_one(NULL);
}

static void changes_are_told(void **state)
{
	struct fast *f = t->h[0].r.f;
	uint32_t changes = wire_changes(f);

	(void)state;
	assert_int_equal(wire_conn(&t->h[0].other), 1);
	assert_true(wire_has_room(&t->h[0].other));
	hosts_cut(t);
	assert_int_equal(told[0], 1);
	assert_int_not_equal(wire_changes(f), changes);
	assert_int_equal(wire_conn(&t->h[0].other), 0);
	assert_false(wire_has_room(&t->h[0].other));
	changes = wire_changes(f);
	reconnect();
	assert_int_equal(told[0], 2);
	assert_int_not_equal(wire_changes(f), changes);
	assert_int_equal(wire_conn(&t->h[0].other), 2);
}

/* A connection that was full tells when the frames that wait have gone, and has no room before. */
static void room_is_told(void **state)
{
	struct fast *f = t->h[0].r.f;
	struct wire_hdr h = { .type = WIRE_CM, .len = 2000, .src_cont = 1 };
	uint32_t changes = wire_changes(f);
	char text[2000] = { 0 };
	int err;

	(void)state;
	while (!(err = wire_send(f, &t->h[0].other, &h, text)))
		;
	assert_int_equal(err, -ENOBUFS);
	assert_false(wire_has_room(&t->h[0].other));
	assert_int_equal(wire_changes(f), changes);
	hosts_run(t);
	assert_true(wire_has_room(&t->h[0].other));
	assert_int_not_equal(wire_changes(f), changes);
	assert_int_equal(told[0], 1);
}

/* Without a connection manager, no message is kept. */
static void nobody_takes_messages(void **state)
{
	uint32_t refs = t->h[1].other.refs;

	(void)state;
	t->h[1].r.f->host->cm_wake = NULL;
	send_one("lost");
	expect_one(NULL);
	t->h[1].r.f->host->cm_wake = tell;
	send_one("kept");
	assert_int_equal(t->h[1].other.refs, refs + 1);
	wire_cm_stop(t->h[1].r.f);
	assert_int_equal(t->h[1].other.refs, refs);
	expect_one(NULL);
}

/* One container's messages leave room for those of others. */
static void a_queue_is_shared(void **state)
{
	struct cm_queue q;
	struct wire_hdr h = { .src_cont = 1 };
	uint32_t greedy, refs = t->h[0].other.refs;

	(void)state;
	cm_queue_init(&q);
	for (int i = 0; i < 5000; i++)
		cm_queue_add(&q, &t->h[0].other, &h, NULL, 1, 100);
	greedy = q.num;
	assert_true(greedy >= 2048 && greedy < 4096);
	h.src_cont = 2;
	cm_queue_add(&q, &t->h[0].other, &h, NULL, 1, 200);
	assert_int_equal(q.num, greedy + 1);
	assert_int_equal(t->h[0].other.refs, refs + q.num);
	cm_queue_expire(&q, 100);
	assert_int_equal(q.num, 1);
	assert_int_equal(STAILQ_FIRST(&q.list)->h.src_cont, 2);
	cm_queue_drop(&q, STAILQ_FIRST(&q.list));
	assert_int_equal(t->h[0].other.refs, refs);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

	return UNIT_RUN(TEST(messages_come_in_order), TEST(a_sender_is_who_it_says),
			TEST(a_sender_may_become_known), TEST(changes_are_told), TEST(room_is_told),
			TEST(nobody_takes_messages), TEST(a_queue_is_shared));
}
