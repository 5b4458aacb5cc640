/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/peer/peer.c ffr/peer/conn.c ffr/peer/hello.c ffr/peer/sock.c ffr/peer/tls.c ffr/peer/io.c ffr/conf.c ffr/lib/log.c tests/rig/unit/peer_rig.c */
/*
 * test_conn.c - routers that meet: on demand, at the same time, again. Real sockets, one process.
 */
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/peer_rig.h"
#include "tests/rig/unit/unit.h"

static int option(int fd, int name)
{
	int value = -1;
	socklen_t len = sizeof(value);

	getsockopt(fd, IPPROTO_TCP, name, &value, &len);
	return value;
}

/* b, who has the greater name, decides; either may be the one that connects. */
static void on_demand(void **state)
{
	(void)state;
	for (int from = A; from <= B; from++) {
		int to = B - from;

		nodes_up_two();
		for (int i = 0; i < 10; i++)
			rig_turn();
		assert_false(attached(A, B) || attached(B, A)); /* nobody wants it */
		want(from, to);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		assert_true(joined(A, B));
		assert_int_equal(peer_at(A, B)->generation, 1);
		assert_string_equal(peer_at(A, B)->tcp->theirs.host, "b");
		assert_string_equal(peer_at(B, A)->tcp->theirs.instance, nodes[A].r.instance);
		assert_memory_not_equal(peer_at(A, B)->tcp->theirs.nonce,
					peer_at(B, A)->tcp->theirs.nonce, WIRE_NONCE_SZ);
		for (int i = A; i <= B; i++) {
			int fd = wire_io_fd(peer_at(i, B - i)->tcp->io);

			assert_int_equal(option(fd, TCP_NODELAY), 1);
			assert_int_equal(option(fd, TCP_USER_TIMEOUT), 3000);
			assert_true(option(fd, TCP_NOTSENT_LOWAT) > 0);
		}
		nodes_teardown(NULL);
	}
}

/* However the two run into each other, one connection is left, and few were made. */
static void both_at_once(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		nodes_up_two();
		want(A, B);
		for (int i = 0; i < round % 4; i++)
			uv_run(&nodes[i & 1].r.loop, UV_RUN_NOWAIT);
		want(B, A);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		assert_true(joined(A, B));
		assert_int_equal(nodes[B].attached, 1);
		assert_int_equal(nodes[B].detached, 0);
		nodes_teardown(NULL);
	}
}

/* All of four hosts with all others, at once. */
static void many_at_once(void **state)
{
	(void)state;
	for (int i = 0; i < RIG_NODES; i++)
		node_up(i);
	nodes_meet();
	for (int x = 0; x < RIG_NODES; x++)
		for (int y = 0; y < RIG_NODES; y++)
			if (x != y)
				want(x, y);
	for (int x = 0; x < RIG_NODES; x++)
		for (int y = 0; y < RIG_NODES; y++)
			if (x != y)
				WAIT_FOR(attached(x, y) && attached(y, x) && nodes_settled() &&
					 joined(x, y));
}

/* One has lost it, the other believes in it still: the new one takes its place, either way round. */
static void lost_on_one_side(void **state)
{
	(void)state;
	for (int loser = A; loser <= B; loser++) {
		int other = B - loser;

		nodes_up_two();
		want(A, B);
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		for (uint32_t k = 1; k < 10; k++) {
			lose(loser, other);
			assert_true(attached(other, loser));
			want(loser, other);
			WAIT_FOR(attached(loser, other) && nodes_settled() &&
				 peer_at(other, loser)->generation == k + 1);
			assert_true(joined(A, B));
			assert_int_equal(nodes[other].detached, k);
		}
		nodes_teardown(NULL);
	}
}

static void lost_on_both(void **state)
{
	(void)state;
	nodes_up_two();
	want(A, B);
	for (int k = 0; k < 20; k++) {
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		assert_true(joined(A, B));
		lose(A, B);
		lose(B, A);
		want(A, B);
		want(B, A);
	}
}

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Wants, losses on one side and loops that run or do not, at random; then peace: all meet. */
static void whatever_happens(void **state)
{
	(void)state;
	for (uint32_t round = 1; round <= 20; round++) {
		uint32_t seed = round;

		for (int i = A; i <= C; i++)
			node_up(i);
		nodes_meet();
		for (int step = 0; step < 300; step++) {
			int x = (int)(next_random(&seed) % 3);
			int y = (x + 1 + (int)(next_random(&seed) % 2)) % 3;

			switch (next_random(&seed) % 8) {
			case 0:
				if (attached(x, y))
					lose(x, y);
				break;
			case 1:
				if (!attached(x, y))
					want(x, y);
				break;
			default:
				uv_run(&nodes[x].r.loop, UV_RUN_NOWAIT);
			}
		}
		/* one that only one side still has is the other's to make anew */
		for (int x = A; x <= C; x++)
			for (int y = A; y <= C; y++)
				if (x != y && !attached(x, y))
					want(x, y);
		for (int x = A; x <= C; x++)
			WAIT_FOR(attached(x, (x + 1) % 3) && attached((x + 1) % 3, x) &&
				 nodes_settled());
		for (int x = A; x <= C; x++)
			assert_true(joined(x, (x + 1) % 3));
		nodes_teardown(NULL);
	}
}

/* A router that was started anew has another instance. */
static void started_anew(void **state)
{
	(void)state;
	nodes_up_two();
	want(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	node_down(B);
	node_up(B);
	node_tell(B, A);
	want(B, A);
	/* A does not know of it yet, and asks */
	WAIT_FOR(nodes[A].asked);
	assert_string_equal(nodes[A].asked_for, "b");
	assert_int_equal(peer_at(A, B)->generation, 1);
	node_tell(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	assert_true(joined(A, B));
	assert_int_equal(nodes[A].detached, 1);
	assert_int_equal(peer_at(A, B)->generation, 2);
}

/* The orchestrator says that it is another one: the connection with the old is not kept. */
static void the_old_one_is_not_kept(void **state)
{
	struct wire_peer *p;

	(void)state;
	nodes_up_two();
	want(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
	strcpy(nodes[B].r.instance, "another");
	p = node_tell(A, B);
	assert_non_null(p->tcp); /* not from within */
	WAIT_FOR(!attached(A, B));
	assert_int_equal(nodes[A].detached, 1);
}

/* An operator is told what the socket says, not what libuv makes of it. */
static void nobody_listens(void **state)
{
	(void)state;
	nodes_up_two();
	node_down(B);
	want(A, B);
	WAIT_FOR(*peer_ctl_at(A, B)->failed);
	assert_string_equal(peer_ctl_at(A, B)->failed, "Connection refused");
}

/* The wire cannot take it (no memory): closed, and tried again. */
static void the_wire_refuses(void **state)
{
	(void)state;
	nodes_up_two();
	nodes[A].refuse = true;
	want(A, B);
	WAIT_FOR(nodes[B].attached >= 2);
	nodes[A].refuse = false;
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled() && joined(A, B));
}

int main(void)
{
	return UNIT_RUN_GROUP(nodes_setup, NULL, NODES_TEST(on_demand), NODES_TEST(both_at_once),
			      NODES_TEST(many_at_once), NODES_TEST(lost_on_one_side),
			      NODES_TEST(lost_on_both), NODES_TEST(whatever_happens),
			      NODES_TEST(started_anew), NODES_TEST(the_old_one_is_not_kept),
			      NODES_TEST(nobody_listens), NODES_TEST(the_wire_refuses));
}
