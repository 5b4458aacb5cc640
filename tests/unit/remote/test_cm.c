/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_cm.c - messages of the connection manager on the wire: which connection they are in, what
 * waits for the next one, and that the connection manager is told when there is another.
 */
#include <stdio.h>
#include <string.h>

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
		t->h[i].r.f->host->cm_frames = tell;
		t->h[i].other.generation = 1;
		told[i] = 0;
	}
	return 0;
}

static int teardown(void **state)
{
	(void)state;
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

static uint32_t send_one(const char *text, bool keep)
{
	struct host *h = &t->h[0];

	return remote_cm_send(h->r.f, &h->r.cont[0], &h->remote, text, (uint32_t)strlen(text) + 1,
			      keep);
}

/* The next that has come to host 1 is that; NULL: there is none. */
static void expect_one(const char *text)
{
	struct host *h = &t->h[1];
	struct remote *from = NULL;
	struct cm_frame *m;

	hosts_run(t);
	m = remote_cm_take(h->r.f, &from);
	if (!text) {
		assert_null(m);
		return;
	}
	assert_non_null(m);
	assert_ptr_equal(from, &h->remote);
	assert_string_equal((char *)m->msg, text);
	remote_cm_taken(h->r.f, m);
}

static void a_message_is_in_a_connection(void **state)
{
	(void)state;
	assert_int_equal(remote_cm_conn(&t->h[0].remote), 1);
	assert_int_equal(send_one("one", true), 1);
	assert_int_equal(send_one("two", false), 1);
	expect_one("one");
	expect_one("two");
	expect_one(NULL);
	assert_int_equal(told[0], 0);
	assert_int_equal(told[1], 2);
}

static void a_change_is_told(void **state)
{
	uint32_t changes = remote_cm_changes(t->h[0].r.f);

	(void)state;
	assert_int_equal(send_one("lost", true), 1);
	hosts_cut(t);
	assert_int_equal(told[0], 1);
	assert_int_not_equal(remote_cm_changes(t->h[0].r.f), changes);
	assert_int_equal(remote_cm_conn(&t->h[0].remote), 0);
	changes = remote_cm_changes(t->h[0].r.f);
	reconnect();
	assert_int_equal(told[0], 2);
	assert_int_not_equal(remote_cm_changes(t->h[0].r.f), changes);
	assert_int_equal(remote_cm_conn(&t->h[0].remote), 2);
	expect_one(NULL);
}

/* What will be said again does not wait for a connection, what is too old neither. */
static void what_waits_for_a_connection(void **state)
{
	(void)state;
	hosts_cut(t);
	assert_false(t->h[0].o.is_wanted);
	assert_int_equal(send_one("request", false), 0);
	assert_true(t->h[0].o.is_wanted);
	assert_int_equal(send_one("answer", true), 0);
	reconnect();
	expect_one("answer");
	expect_one(NULL);

	for (uint64_t seconds = 4; seconds <= 6; seconds += 2) {
		hosts_cut(t);
		assert_int_equal(send_one("answer", true), 0);
		t->h[0].r.f->now += seconds * 1000000000;
		reconnect();
		expect_one(seconds < 5 ? "answer" : NULL);
	}
}

/* A connection that takes no more takes the rest later: nothing is lost, and all is in order. */
static void a_full_connection(void **state)
{
	char text[2000];
	unsigned n;

	(void)state;
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	for (n = 0; n < 2000; n++) {
		snprintf(text, 5, "%04u", n);
		text[4] = 'x';
		assert_int_equal(send_one(text, n % 2), 1);
	}
	for (unsigned i = 0; i < n; i++) {
		snprintf(text, 5, "%04u", i);
		text[4] = 'x';
		expect_one(text);
	}
	expect_one(NULL);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

	return UNIT_RUN(TEST(a_message_is_in_a_connection), TEST(a_change_is_told),
			TEST(what_waits_for_a_connection), TEST(a_full_connection));
}
