/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/peer/peer.c ffr/peer/conn.c ffr/peer/hello.c ffr/peer/sock.c ffr/peer/tls.c ffr/peer/io.c ffr/conf.c ffr/lib/log.c tests/rig/unit/peer_rig.c */
/*
 * test_peer.c - hosts come and go, are wanted or not, and are tried again. Real sockets, one process.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/peer_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- trying again ---------------------------------------------------------------------------- */

static void slower_and_slower(void **state)
{
	unsigned int last = 0;

	(void)state;
	nodes_up_two();
	node_down(B); /* nobody listens */
	want(A, B);
	while (last < peer_times.retry_max) {
		WAIT_FOR(peer_ctl_at(A, B)->delay > last);
		assert_true(peer_ctl_at(A, B)->delay == peer_times.retry_max ||
			    peer_ctl_at(A, B)->delay == (last ? 2 * last : peer_times.retry_min));
		last = peer_ctl_at(A, B)->delay;
	}
	/* it is there again, with news: at once */
	node_up(B);
	node_tell(A, B);
	WAIT_FOR(!peer_ctl_at(A, B)->delay);
	node_tell(B, A);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
}

/* Wanted no more: not tried any more. */
static void unwanted(void **state)
{
	(void)state;
	nodes_up_two();
	node_down(B);
	want(A, B);
	WAIT_FOR(peer_ctl_at(A, B)->delay);
	fast_lock(&nodes[A].host);
	peer_unwant(peer_at(A, B));
	fast_unlock(&nodes[A].host);
	WAIT_FOR(!peer_ctl_at(A, B)->out &&
		 !uv_is_active((uv_handle_t *)&peer_ctl_at(A, B)->retry));
}

/* Connections that end as soon as they are made do not keep the routers busy. */
static void short_lives(void **state)
{
	(void)state;
	nodes_up_two();
	want(A, B);
	for (int k = 0; k < 6; k++) {
		WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
		lose(A, B);
		lose(B, A);
		want(A, B);
	}
	WAIT_FOR(peer_ctl_at(A, B)->delay == peer_times.retry_max);
}

static void down_is_not_tried(void **state)
{
	(void)state;
	nodes_up_two();
	fast_lock(&nodes[A].host);
	peer_of_host(nodes[A].r.peers, "b", nodes[B].r.instance, "tcp:127.0.0.1:1", false);
	fast_unlock(&nodes[A].host);
	want(A, B);
	WAIT_FOR(!peer_ctl_at(A, B)->kicked);
	assert_null(peer_ctl_at(A, B)->out);
	assert_false(uv_is_active((uv_handle_t *)&peer_ctl_at(A, B)->retry));
	node_tell(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
}

/* ---- hosts come and go ----------------------------------------------------------------------- */

static void what_the_orchestrator_says(void **state)
{
	char longer[200];
	struct router *r;

	(void)state;
	node_up(A);
	r = &nodes[A].r;
	memset(longer, 'x', sizeof(longer));
	longer[sizeof(longer) - 1] = '\0';
	fast_lock(&nodes[A].host);
	assert_null(peer_of_host(r->peers, "a", "i", "tcp:127.0.0.1:1", true)); /* that is us */
	assert_null(peer_of_host(r->peers, "", "i", "tcp:127.0.0.1:1", true));
	assert_null(peer_of_host(r->peers, longer, "i", "tcp:127.0.0.1:1", true));
	assert_null(peer_of_host(r->peers, "b", longer, "tcp:127.0.0.1:1", true));
	assert_int_equal(peer_of_host(r->peers, "b", "i", longer, true)->addr.ss_family, 0);
	assert_int_equal(peer_of_host(r->peers, "c", NULL, NULL, true)->addr.ss_family, 0);
	assert_int_equal(peer_of_host(r->peers, "b", "i", "tcp:[::1]:1", true)->addr.ss_family,
			 AF_INET6);
	fast_unlock(&nodes[A].host);
	assert_string_equal(peers_wire(r->peers), r->conf.wire_listen);
}

static void unused_hosts_are_forgotten(void **state)
{
	unsigned int sweep = peer_times.sweep;

	(void)state;
	peer_times.sweep = 20;
	nodes_up_two();
	node_up(C);
	nodes_meet();
	fast_lock(&nodes[A].host);
	peer_get(peer_at(A, C));
	fast_unlock(&nodes[A].host);
	want(A, B);
	WAIT_FOR(attached(A, B) && !peer_at(B, C)); /* b has no use for c, and a uses both */
	assert_non_null(peer_at(A, C));
	assert_true(attached(A, B) && attached(B, A));
	fast_lock(&nodes[A].host);
	peer_put(peer_at(A, C));
	fast_unlock(&nodes[A].host);
	WAIT_FOR(!peer_at(A, C));
	peer_times.sweep = sweep;
}

static void it_ends_in_the_middle(void **state)
{
	(void)state;
	for (int turns = 0; turns < 12; turns++) {
		nodes_up_two();
		want(A, B);
		want(B, A);
		for (int i = 0; i < turns; i++)
			uv_run(&nodes[i & 1].r.loop, UV_RUN_NOWAIT);
		nodes_teardown(NULL);
	}
}

static void a_taken_port(void **state)
{
	char err[256] = "";

	(void)state;
	node_up(A);
	node_prepare(B);
	free(nodes[B].r.conf.wire_listen);
	nodes[B].r.conf.wire_listen = strdup(nodes[A].r.conf.wire_listen);
	assert_int_equal(node_start(B, err, sizeof(err)), -EADDRINUSE);
	assert_non_null(strstr(err, nodes[A].r.conf.wire_listen));
	node_conf_free(B);
}

int main(void)
{
	return UNIT_RUN_GROUP(nodes_setup, NULL, NODES_TEST(slower_and_slower),
			      NODES_TEST(unwanted), NODES_TEST(short_lives),
			      NODES_TEST(down_is_not_tried), NODES_TEST(what_the_orchestrator_says),
			      NODES_TEST(unused_hosts_are_forgotten),
			      NODES_TEST(it_ends_in_the_middle), NODES_TEST(a_taken_port));
}
