/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_peer.c - routers that meet: on demand, at the same time, again; who is not let in; what
 * strangers can do. Real sockets, one process. build: ffr/peer/peer.c ffr/peer/conn.c ffr/peer/hello.c ffr/peer/sock.c ffr/peer/tls.c ffr/peer/io.c ffr/conf.c ffr/lib/log.c tests/unit/lib/peer_rig.c tests/unit/lib/certs.c
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "tests/unit/lib/certs.h"
#include "tests/unit/lib/peer_rig.h"

enum { A, B, C };

static int down_all(void **state)
{
	(void)state;
	for (int i = 0; i < RIG_NODES; i++)
		node_down(i);
	return 0;
}

static void up_two(void)
{
	node_up(A);
	node_up(B);
	nodes_meet();
}

static bool settled(void)
{
	for (int i = 0; i < RIG_NODES; i++)
		if (nodes[i].up && in_handshake(i))
			return false;
	return true;
}

/* ---- meeting --------------------------------------------------------------------------------- */

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

		up_two();
		for (int i = 0; i < 10; i++)
			rig_turn();
		assert_false(attached(A, B) || attached(B, A)); /* nobody wants it */
		want(from, to);
		UNTIL(attached(A, B) && attached(B, A) && settled());
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
		down_all(NULL);
	}
}

/* However the two run into each other, one connection is left, and few were made. */
static void both_at_once(void **state)
{
	(void)state;
	for (int round = 0; round < 60; round++) {
		up_two();
		want(A, B);
		for (int i = 0; i < round % 4; i++)
			uv_run(&nodes[i & 1].r.loop, UV_RUN_NOWAIT);
		want(B, A);
		UNTIL(attached(A, B) && attached(B, A) && settled());
		assert_true(joined(A, B));
		assert_int_equal(nodes[B].attached, 1);
		assert_int_equal(nodes[B].detached, 0);
		down_all(NULL);
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
				UNTIL(attached(x, y) && attached(y, x) && settled() &&
				      joined(x, y));
}

/* One has lost it, the other believes in it still: the new one takes its place, either way round. */
static void lost_on_one_side(void **state)
{
	(void)state;
	for (int loser = A; loser <= B; loser++) {
		int other = B - loser;

		up_two();
		want(A, B);
		UNTIL(attached(A, B) && attached(B, A) && settled());
		for (uint32_t k = 1; k < 10; k++) {
			lose(loser, other);
			assert_true(attached(other, loser));
			want(loser, other);
			UNTIL(attached(loser, other) && settled() &&
			      peer_at(other, loser)->generation == k + 1);
			assert_true(joined(A, B));
			assert_int_equal(nodes[other].detached, k);
		}
		down_all(NULL);
	}
}

static void lost_on_both(void **state)
{
	(void)state;
	up_two();
	want(A, B);
	for (int k = 0; k < 20; k++) {
		UNTIL(attached(A, B) && attached(B, A) && settled());
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
			UNTIL(attached(x, (x + 1) % 3) && attached((x + 1) % 3, x) && settled());
		for (int x = A; x <= C; x++)
			assert_true(joined(x, (x + 1) % 3));
		down_all(NULL);
	}
}

/* A router that was started anew has another instance. */
static void started_anew(void **state)
{
	(void)state;
	up_two();
	want(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
	node_down(B);
	node_up(B);
	node_tell(B, A);
	want(B, A);
	/* A does not know of it yet, and asks */
	UNTIL(nodes[A].asked);
	assert_string_equal(nodes[A].asked_for, "b");
	assert_int_equal(peer_at(A, B)->generation, 1);
	node_tell(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
	assert_true(joined(A, B));
	assert_int_equal(nodes[A].detached, 1);
	assert_int_equal(peer_at(A, B)->generation, 2);
}

/* The orchestrator says that it is another one: the connection with the old is not kept. */
static void the_old_one_is_not_kept(void **state)
{
	struct wire_peer *p;

	(void)state;
	up_two();
	want(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
	strcpy(nodes[B].r.instance, "another");
	p = node_tell(A, B);
	assert_non_null(p->tcp); /* not from within */
	UNTIL(!attached(A, B));
	assert_int_equal(nodes[A].detached, 1);
}

/* The wire cannot take it (no memory): closed, and tried again. */
static void the_wire_refuses(void **state)
{
	(void)state;
	up_two();
	nodes[A].refuse = true;
	want(A, B);
	UNTIL(nodes[B].attached >= 2);
	nodes[A].refuse = false;
	UNTIL(attached(A, B) && attached(B, A) && settled() && joined(A, B));
}

/* ---- trying again ---------------------------------------------------------------------------- */

static struct peer_ctl *ctl_at(int at, int of)
{
	return peer_at(at, of)->ctl;
}

static void slower_and_slower(void **state)
{
	unsigned int last = 0;

	(void)state;
	up_two();
	node_down(B); /* nobody listens */
	want(A, B);
	while (last < peer_times.retry_max) {
		UNTIL(ctl_at(A, B)->delay > last);
		assert_true(ctl_at(A, B)->delay == peer_times.retry_max ||
			    ctl_at(A, B)->delay == (last ? 2 * last : peer_times.retry_min));
		last = ctl_at(A, B)->delay;
	}
	/* it is there again, with news: at once */
	node_up(B);
	node_tell(A, B);
	UNTIL(!ctl_at(A, B)->delay);
	node_tell(B, A);
	UNTIL(attached(A, B) && attached(B, A) && settled());
}

/* Wanted no more: not tried any more. */
static void unwanted(void **state)
{
	(void)state;
	up_two();
	node_down(B);
	want(A, B);
	UNTIL(ctl_at(A, B)->delay);
	fast_lock(&nodes[A].f);
	peer_unwant(peer_at(A, B));
	fast_unlock(&nodes[A].f);
	UNTIL(!ctl_at(A, B)->out && !uv_is_active((uv_handle_t *)&ctl_at(A, B)->retry));
}

/* Connections that end as soon as they are made do not keep the routers busy. */
static void short_lives(void **state)
{
	(void)state;
	up_two();
	want(A, B);
	for (int k = 0; k < 6; k++) {
		UNTIL(attached(A, B) && attached(B, A) && settled());
		lose(A, B);
		lose(B, A);
		want(A, B);
	}
	UNTIL(ctl_at(A, B)->delay == peer_times.retry_max);
}

static void down_is_not_tried(void **state)
{
	(void)state;
	up_two();
	fast_lock(&nodes[A].f);
	peer_of_host(nodes[A].r.peers, "b", nodes[B].r.instance, "tcp:127.0.0.1:1", false);
	fast_unlock(&nodes[A].f);
	want(A, B);
	UNTIL(!ctl_at(A, B)->kicked);
	assert_null(ctl_at(A, B)->out);
	assert_false(uv_is_active((uv_handle_t *)&ctl_at(A, B)->retry));
	node_tell(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
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
	fast_lock(&nodes[A].f);
	assert_null(peer_of_host(r->peers, "a", "i", "tcp:127.0.0.1:1", true)); /* that is us */
	assert_null(peer_of_host(r->peers, "", "i", "tcp:127.0.0.1:1", true));
	assert_null(peer_of_host(r->peers, longer, "i", "tcp:127.0.0.1:1", true));
	assert_null(peer_of_host(r->peers, "b", longer, "tcp:127.0.0.1:1", true));
	assert_int_equal(peer_of_host(r->peers, "b", "i", longer, true)->addr.ss_family, 0);
	assert_int_equal(peer_of_host(r->peers, "c", NULL, NULL, true)->addr.ss_family, 0);
	assert_int_equal(peer_of_host(r->peers, "b", "i", "tcp:[::1]:1", true)->addr.ss_family,
			 AF_INET6);
	fast_unlock(&nodes[A].f);
	assert_string_equal(peers_wire(r->peers), r->conf.wire_listen);
}

static void unused_hosts_are_forgotten(void **state)
{
	unsigned int sweep = peer_times.sweep;

	(void)state;
	peer_times.sweep = 20;
	up_two();
	node_up(C);
	nodes_meet();
	fast_lock(&nodes[A].f);
	peer_get(peer_at(A, C));
	fast_unlock(&nodes[A].f);
	want(A, B);
	UNTIL(attached(A, B) && !peer_at(B, C)); /* b has no use for c, and a uses both */
	assert_non_null(peer_at(A, C));
	assert_true(attached(A, B) && attached(B, A));
	fast_lock(&nodes[A].f);
	peer_put(peer_at(A, C));
	fast_unlock(&nodes[A].f);
	UNTIL(!peer_at(A, C));
	peer_times.sweep = sweep;
}

static void it_ends_in_the_middle(void **state)
{
	(void)state;
	for (int turns = 0; turns < 12; turns++) {
		up_two();
		want(A, B);
		want(B, A);
		for (int i = 0; i < turns; i++)
			uv_run(&nodes[i & 1].r.loop, UV_RUN_NOWAIT);
		down_all(NULL);
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

/* ---- who is not let in ----------------------------------------------------------------------- */

static uint32_t addr_of(int i)
{
	return rig_net + (uint32_t)i + 1;
}

/* As b would say it to a. */
static void make_hello(struct wire_hello *w)
{
	struct hello h = { .cluster = "test",
			   .host = "b",
			   .to = "a",
			   .instance = nodes[B].r.instance,
			   .seq = 1,
			   .oldest = 1 };

	hello_make(w, &h);
}

static enum wire_refusal refusal_of(const struct wire_hello *w)
{
	struct hello h;
	const char *why;

	assert_int_equal(hello_parse(&h, w, &why), 0);
	return h.status;
}

/* Sends it from there, and tells how a ends it. */
static enum wire_refusal answer_to(const struct wire_hello *w, uint32_t from)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	int fd = dial(A, from);

	assert_int_equal(send(fd, w, sizeof(*w), 0), sizeof(*w));
	assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), sizeof(*w));
	close(fd);
	return refusal_of((const struct wire_hello *)buf);
}

static void refused_for_what_it_says(void **state)
{
	struct wire_hello w;

	(void)state;
	up_two();
	node_down(B); /* its words are ours now */
	make_hello(&w);
	strncpy(w.cluster, "other", sizeof(w.cluster));
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_CLUSTER);
	make_hello(&w);
	strncpy(w.host, "a", sizeof(w.host));
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_SELF);
	make_hello(&w);
	strncpy(w.to, "z", sizeof(w.to));
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_NOT_ME);
	make_hello(&w);
	w.version = w.oldest_v = htobe16(WIRE_PROTO + 1);
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_VERSION);
	assert_int_equal(nodes[A].asked, 0);
	assert_int_equal(nodes[A].attached, 0);
}

/* What the orchestrator does not say within the time is not so. */
static void refused_for_what_is_not_known(void **state)
{
	struct wire_hello w;

	(void)state;
	up_two();
	node_down(B);
	make_hello(&w);
	assert_int_equal(answer_to(&w, addr_of(C)), WIRE_ADDRESS);
	assert_int_equal(nodes[A].asked, 0);
	strncpy(w.host, "nobody", sizeof(w.host));
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_UNKNOWN);
	assert_string_equal(nodes[A].asked_for, "nobody");
	make_hello(&w);
	strncpy(w.instance, "earlier", sizeof(w.instance));
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_INSTANCE);
	assert_int_equal(nodes[A].asked, 2);
	fast_lock(&nodes[A].f);
	peer_of_host(nodes[A].r.peers, "b", nodes[B].r.instance, "tcp:127.0.0.1:1", false);
	fast_unlock(&nodes[A].f);
	make_hello(&w);
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_DOWN);
	assert_int_equal(nodes[A].attached, 0);
}

/* Who is not known yet waits until the orchestrator tells. */
static void known_a_little_later(void **state)
{
	(void)state;
	node_up(A);
	node_up(B);
	node_tell(B, A);
	want(B, A);
	UNTIL(nodes[A].asked);
	assert_null(peer_at(A, B));
	assert_int_equal(in_handshake(A), 1);
	node_tell(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
	assert_true(joined(A, B));
	assert_int_equal(nodes[A].asked, 1);
}

/* An address that is not checked is not. */
static void translated_addresses(void **state)
{
	struct wire_hello w, answer;
	struct wire_verdict v;
	int fd;

	(void)state;
	up_two();
	node_down(B);
	nodes[A].r.peers->conf.check_addr = false;
	make_hello(&w);
	fd = dial(A, addr_of(C));
	assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
	verdict_make(&v, WIRE_OK);
	assert_int_equal(send(fd, &v, sizeof(v), 0), sizeof(v));
	UNTIL(attached(A, B));
	assert_int_equal(recv(fd, &answer, sizeof(answer), MSG_WAITALL), sizeof(answer));
	assert_int_equal(refusal_of(&answer), WIRE_OK);
	close(fd);
}

/* ---- hostile handshakes ---------------------------------------------------------------------- */

/* Anything but a hello is answered with nothing. */
static void not_a_hello(void **state)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	struct wire_hello w;

	(void)state;
	up_two();
	node_down(B);
	for (int k = 0; k < 9; k++) {
		int fd = dial(A, addr_of(B));

		make_hello(&w);
		switch (k) {
		case 0:
			w.magic[3] ^= 1;
			break;
		case 1:
			w.length = htobe32(sizeof(w) + 1);
			break;
		case 2:
			w.reserved = 1;
			break;
		case 3:
			w.status = htobe16(WIRE_BUSY); /* of an answer only */
			break;
		case 4:
			w.status = htobe16(999);
			break;
		case 5:
			memset(w.host, 'b', sizeof(w.host));
			break;
		case 6:
			w.instance[sizeof(w.instance) - 1] = 'x'; /* behind the end */
			break;
		case 7:
			w.oldest = 0;
			break;
		case 8:
			strncpy(w.host, "b\n<3>h", sizeof(w.host));
			break;
		}
		assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), 0);
		close(fd);
	}
	assert_int_equal(nodes[A].asked, 0);
	assert_int_equal(in_handshake(A), 0);
}

/* Half a hello, none, or a hello and no verdict: each for its time, and then no more. */
static void half_and_silence(void **state)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	struct wire_hello w;

	(void)state;
	up_two();
	node_down(B);
	make_hello(&w);
	for (size_t len = 0; len <= sizeof(w); len += sizeof(w) / 2) {
		int fd = dial(A, addr_of(B));

		assert_int_equal(send(fd, &w, len, 0), len);
		UNTIL(in_handshake(A) == 1);
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), len == sizeof(w) ? len : 0);
		close(fd);
	}
	assert_int_equal(in_handshake(A), 0);
	assert_int_equal(nodes[A].attached, 0);
}

/* Byte by byte it is a hello as well. */
static void in_small_pieces(void **state)
{
	struct wire_verdict v;
	struct wire_hello w;
	int fd, one = 1;

	(void)state;
	up_two();
	node_down(B);
	make_hello(&w);
	verdict_make(&v, WIRE_OK);
	fd = dial(A, addr_of(B));
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	for (size_t i = 0; i < sizeof(w); i++) {
		assert_int_equal(send(fd, (uint8_t *)&w + i, 1, 0), 1);
		rig_turn();
	}
	assert_int_equal(send(fd, &v, sizeof(v) - 1, 0), sizeof(v) - 1);
	for (int i = 0; i < 5; i++)
		rig_turn();
	assert_false(attached(A, B));
	assert_int_equal(send(fd, (uint8_t *)&v + sizeof(v) - 1, 1, 0), 1);
	UNTIL(attached(A, B));
	close(fd);
}

static void a_wrong_verdict(void **state)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	struct wire_verdict v = { "none", 0, 0 };
	struct wire_hello w;
	int fd;

	(void)state;
	up_two();
	node_down(B);
	make_hello(&w);
	fd = dial(A, addr_of(B));
	assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
	assert_int_equal(send(fd, &v, sizeof(v), 0), sizeof(v));
	assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), sizeof(w));
	close(fd);
	assert_int_equal(nodes[A].attached, 0);
}

/* Host a's connection `seq`, which still has those from `oldest` on, with b, who decides. */
static int verdict_of_b(uint64_t seq, uint64_t oldest, enum wire_refusal *verdict)
{
	struct hello h = { .cluster = "test", .host = "a", .to = "b", .seq = seq, .oldest = oldest };
	struct {
		struct wire_hello w;
		struct wire_verdict v;
	} answer;
	int fd = dial(B, addr_of(A));
	struct wire_hello w;
	size_t got = 0;
	ssize_t n;

	h.instance = nodes[A].r.instance;
	hello_make(&w, &h);
	assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
	while (got < sizeof(answer)) {
		rig_turn();
		n = recv(fd, (char *)&answer + got, sizeof(answer) - got, MSG_DONTWAIT);
		assert_true(n > 0 || (n < 0 && errno == EAGAIN));
		got += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(refusal_of(&answer.w), WIRE_OK);
	*verdict = (enum wire_refusal)verdict_parse(&answer.v);
	return fd;
}

/* A second connection is not taken while the peer has the first, and in its place when not. */
static void the_numbers_decide(void **state)
{
	static const struct {
		uint64_t seq, oldest;
		enum wire_refusal verdict;
		uint32_t generation;
	} said[] = {
		{ 3, 2, WIRE_OK, 1 }, { 4, 3, WIRE_DUPLICATE, 1 }, { 5, 1, WIRE_DUPLICATE, 1 },
		{ 6, 4, WIRE_OK, 2 }, { 7, 7, WIRE_OK, 3 },	   { 8, 7, WIRE_DUPLICATE, 3 },
		{ 8, 8, WIRE_OK, 4 },
	};
	int fd[sizeof(said) / sizeof(said[0])];
	enum wire_refusal verdict;

	(void)state;
	up_two();
	node_down(A);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		fd[i] = verdict_of_b(said[i].seq, said[i].oldest, &verdict);
		assert_int_equal(verdict, said[i].verdict);
		UNTIL(peer_at(B, A)->generation == said[i].generation && settled());
		assert_int_equal(nodes[B].detached, said[i].generation - 1);
	}
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++)
		close(fd[i]);
}

/* The frames that come right behind the handshake are the wire's. */
static void frames_right_behind(void **state)
{
	struct {
		struct wire_hello w;
		struct wire_verdict v;
		char frame[6];
	} all;
	char got[7] = "";
	struct iovec iov = { got, 6 };
	int fd;

	(void)state;
	up_two();
	node_down(B);
	make_hello(&all.w);
	verdict_make(&all.v, WIRE_OK);
	memcpy(all.frame, "frames", 6);
	fd = dial(A, addr_of(B));
	assert_int_equal(send(fd, &all, offsetof(__typeof__(all), frame) + 6, 0), 390);
	UNTIL(attached(A, B));
	assert_int_equal(wire_io_readv(peer_at(A, B)->tcp->io, &iov, 1), 6);
	assert_string_equal(got, "frames");
	close(fd);
}

/* Strangers by the hundred are held to their number, and a host gets in among them. */
static void a_flood(void **state)
{
	enum { ADDRS = 20, EACH = 20 };
	static int fd[ADDRS * EACH];
	int n = 0;

	(void)state;
	node_up(A);
	node_up(B);
	node_tell(B, A);
	node_tell(A, B);
	for (int k = 0; k < ADDRS; k++) {
		for (int i = 0; i < EACH; i++) {
			fd[n++] = dial(A, rig_net + 100 + (uint32_t)k);
			rig_turn();
			assert_true(nodes[A].r.peers->num_strangers <= PEER_MAX_STRANGERS);
		}
		assert_true(in_handshake(A) <= (unsigned int)(k + 1) * PEER_MAX_FROM);
	}
	UNTIL(in_handshake(A) == PEER_MAX_STRANGERS);
	want(B, A);
	UNTIL(attached(A, B) && attached(B, A) && joined(A, B));
	for (int i = 0; i < n; i++)
		close(fd[i]);
	UNTIL(settled());
	assert_int_equal(nodes[A].r.peers->num_strangers, 0);
}

/* The one at a host's address may be anybody; what it answers is checked like what comes in. */
static void a_false_host(void **state)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct wire_hello w;

	(void)state;
	up_two();
	node_down(B);
	sa.sin_addr.s_addr = htonl(addr_of(B));
	sa.sin_port = htons(7471);
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	assert_int_equal(bind(l, (struct sockaddr *)&sa, sizeof(sa)), 0);
	assert_int_equal(listen(l, 10), 0);
	want(A, B);
	for (int k = 0; k < 6; k++) {
		uint8_t buf[2 * sizeof(w)];
		int fd;

		UNTIL(ctl_at(A, B)->out);
		fd = accept(l, NULL, NULL);
		assert_true(fd >= 0);
		make_hello(&w);
		switch (k) {
		case 0:
			strncpy(w.host, "c", sizeof(w.host));
			break;
		case 1:
			strncpy(w.instance, "earlier", sizeof(w.instance));
			break;
		case 2:
			strncpy(w.cluster, "other", sizeof(w.cluster));
			break;
		case 3:
			hello_make_refusal(&w, WIRE_DOWN);
			break;
		case 4:
			w.zero = 1;
			break;
		case 5:
			strncpy(w.to, "c", sizeof(w.to));
			break;
		}
		send(fd, &w, sizeof(w), 0);
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), sizeof(w));
		close(fd);
	}
	close(l);
	assert_int_equal(nodes[A].attached, 0);
	assert_int_equal(nodes[A].asked, 1); /* about the instance */
}

/* ---- TLS ------------------------------------------------------------------------------------- */

static char dir[] = "/tmp/test_peer.XXXXXX";
static struct authority ours, foreign;
static long serial_a, serial_b, serial_foreign;

static char *file(const char *name)
{
	static char path[4][64];
	static int turn;
	char *p = path[turn++ & 3];

	snprintf(p, sizeof(path[0]), "%s/%s", dir, name);
	return p;
}

static void prepare_tls(int i, const char *cert, const char *ca)
{
	struct ffr_conf *c = &nodes[i].r.conf;
	char name[32];

	node_prepare(i);
	c->wire_tls = true;
	snprintf(name, sizeof(name), "%s.pem", cert);
	c->wire_cert = strdup(file(name));
	snprintf(name, sizeof(name), "%s.key", cert);
	c->wire_key = strdup(file(name));
	c->wire_ca = strdup(file(ca));
}

static void up_tls(int i, const char *cert, const char *ca)
{
	char err[256] = "";

	prepare_tls(i, cert, ca);
	if (node_start(i, err, sizeof(err)))
		fail_msg("%s", err);
}

static void tls_meets(void **state)
{
	(void)state;
	for (int from = A; from <= B; from++) {
		up_tls(A, "a", "ca.pem");
		up_tls(B, "b", "ca.pem");
		nodes_meet();
		/* the certificate is the proof, whatever the address */
		fast_lock(&nodes[B - from].f);
		peer_of_host(nodes[B - from].r.peers, from ? "b" : "a", nodes[from].r.instance,
			     "tcp:127.0.0.1:1", true);
		fast_unlock(&nodes[B - from].f);
		want(from, B - from);
		UNTIL(attached(A, B) && attached(B, A) && settled());
		assert_true(joined(A, B));
		assert_false(wire_io_is_plain(peer_at(A, B)->tcp->io));
		assert_string_equal(SSL_get_version(wire_io_ssl(peer_at(A, B)->tcp->io)),
				    "TLSv1.3");
		down_all(NULL);
	}
}

static void tls_both_at_once(void **state)
{
	(void)state;
	for (int round = 0; round < 10; round++) {
		up_tls(A, "a", "ca.pem");
		up_tls(B, "b", "ca.pem");
		nodes_meet();
		want(A, B);
		want(B, A);
		UNTIL(attached(A, B) && attached(B, A) && settled());
		assert_true(joined(A, B));
		assert_int_equal(nodes[B].attached, 1);
		down_all(NULL);
	}
}

/* A certificate that is not the host's, or of another authority, or too old: not as who connects,
 * not as who is connected to. */
static void tls_who_is_not_let_in(void **state)
{
	static const char *const bad[] = { "foreign", "c",	  "expired",  "upper",
					   "wild",    "roleless", "operator", "orchestrator" };

	(void)state;
	for (unsigned int k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		up_tls(A, "a", "ca.pem");
		up_tls(B, bad[k], "ca.pem");
		nodes_meet();
		want(A, B);
		UNTIL(ctl_at(A, B)->delay > 2 * peer_times.retry_min);
		fast_lock(&nodes[A].f);
		peer_unwant(peer_at(A, B));
		fast_unlock(&nodes[A].f);
		want(B, A);
		UNTIL(ctl_at(B, A)->delay > 2 * peer_times.retry_min);
		assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
		assert_int_equal(nodes[A].asked, 0); /* nobody is asked about who has no proof */
		down_all(NULL);
	}
}

/* A common name is a name where there is no other. */
static void tls_common_name(void **state)
{
	(void)state;
	up_tls(A, "a", "ca.pem");
	up_tls(B, "common", "ca.pem");
	nodes_meet();
	want(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
}

static void tls_and_plain(void **state)
{
	(void)state;
	up_tls(A, "a", "ca.pem");
	node_up(B);
	nodes_meet();
	want(A, B);
	UNTIL(ctl_at(A, B)->delay > peer_times.retry_min);
	want(B, A);
	UNTIL(ctl_at(B, A)->delay > peer_times.retry_min);
	assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
}

static void tls_silence(void **state)
{
	static const uint8_t half[] = { 0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3 };
	uint8_t buf[4096];
	int fd;

	(void)state;
	up_tls(A, "a", "ca.pem");
	for (size_t len = 0; len <= sizeof(half); len += sizeof(half)) {
		fd = dial(A, 0);
		assert_int_equal(send(fd, half, len, 0), len);
		UNTIL(in_handshake(A) == 1);
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), 0);
		close(fd);
	}
	UNTIL(settled());
}

/* New files are taken up without a new start; broken ones are not. */
static void tls_new_certificates(void **state)
{
	FILE *f;

	(void)state;
	cert_make(&foreign, "b", "b", 5, file("new.pem"), file("new.key"));
	up_tls(A, "a", "ca.pem");
	up_tls(B, "new", "ca.pem");
	nodes_meet();
	want(A, B);
	UNTIL(ctl_at(A, B)->delay > peer_times.retry_min);
	cert_make(&ours, "b", "b", 5, file("new.pem"), file("new.key"));
	UNTIL(attached(A, B) && attached(B, A) && settled());
	f = fopen(file("new.pem"), "w");
	assert_non_null(f);
	fputs("nothing\n", f);
	fclose(f);
	lose(A, B);
	want(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled() && peer_at(B, A)->generation == 2);
	assert_true(joined(A, B));
}

/* One that names no role is a host's, where that is allowed. */
static void tls_any_role(void **state)
{
	char err[256] = "";

	(void)state;
	prepare_tls(A, "a", "ca.pem");
	nodes[A].r.conf.wire_any_role = true;
	assert_int_equal(node_start(A, err, sizeof(err)), 0);
	up_tls(B, "roleless", "ca.pem");
	nodes_meet();
	want(B, A);
	UNTIL(attached(A, B) && attached(B, A) && settled());
}

static void new_list(const long *serials, size_t n)
{
	crl_make(&ours, serials, n, 5, file("new.crl"), false);
	assert_int_equal(rename(file("new.crl"), file("list.crl")), 0);
}

static void up_listed(int i, const char *cert)
{
	char err[256] = "";

	prepare_tls(i, cert, "ca.pem");
	nodes[i].r.conf.wire_crl = strdup(file("list.crl"));
	if (node_start(i, err, sizeof(err)))
		fail_msg("%s", err);
}

/* A connection ends when the certificate of either side comes onto the list, and is not made again. */
static void tls_revoked(void **state)
{
	(void)state;
	for (int at = A; at <= B; at++) {
		new_list(NULL, 0);
		if (at == A)
			up_listed(A, "a");
		else
			up_tls(A, "a", "ca.pem");
		if (at == B)
			up_listed(B, "b");
		else
			up_tls(B, "b", "ca.pem");
		nodes_meet();
		want(A, B);
		UNTIL(attached(A, B) && attached(B, A) && settled());
		new_list(at == A ? &serial_b : &serial_a, 1);
		UNTIL(!attached(at, B - at));
		lose(B - at, at); /* as the wire notices */
		nodes[A].attached = nodes[B].attached = 0;
		want(A, B);
		UNTIL(ctl_at(A, B)->delay > 2 * peer_times.retry_min);
		want(B, A);
		UNTIL(ctl_at(B, A)->delay > 2 * peer_times.retry_min);
		assert_int_equal(nodes[A].attached + nodes[B].attached, 0);
		/* Another's number does no harm. */
		new_list(&serial_foreign, 1);
		UNTIL(attached(A, B) && attached(B, A) && settled());
		down_all(NULL);
	}
}

/* Nobody is let in by a list that is not there, and who was is left alone. */
static void tls_list_gone(void **state)
{
	(void)state;
	new_list(NULL, 0);
	up_listed(A, "a");
	up_tls(B, "b", "ca.pem");
	nodes_meet();
	want(A, B);
	UNTIL(attached(A, B) && attached(B, A) && settled());
	unlink(file("list.crl"));
	UNTIL(nodes[A].r.peers->list == 1);
	assert_true(attached(A, B));
	lose(A, B);
	want(A, B);
	UNTIL(ctl_at(A, B)->delay > 2 * peer_times.retry_min);
	assert_false(attached(A, B));
	new_list(NULL, 0);
	UNTIL(attached(A, B) && attached(B, A) && settled());
}

static void tls_files(void **state)
{
	static const struct {
		const char *cert, *ca, *word;
	} bad[] = {
		{ "none", "ca.pem", "No such file" }, { "a", "none.pem", "No such file" },
		{ "locked", "ca.pem", "passphrase" }, { "mixed", "ca.pem", "not that of" },
		{ "a", "empty.pem", "empty.pem" },    { "empty", "ca.pem", "empty.pem" },
	};
	char err[512];

	(void)state;
	for (unsigned int k = 0; k < sizeof(bad) / sizeof(bad[0]); k++) {
		prepare_tls(A, bad[k].cert, bad[k].ca);
		err[0] = '\0';
		assert_int_equal(node_start(A, err, sizeof(err)), -EINVAL);
		if (!strstr(err, bad[k].word) || strncmp(err, dir, strlen(dir)))
			fail_msg("%s: \"%s\"", bad[k].cert, err);
		node_conf_free(A);
	}
}

/* ---- files ----------------------------------------------------------------------------------- */

static int make_files(void **state)
{
	FILE *f;

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as main() does */
	log_level = getenv("TEST_LOG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERR;
	peer_times = (struct peer_times){ .connect = 1000,
					  .handshake = 600,
					  .accept = 300,
					  .retry_min = 5,
					  .retry_max = 40,
					  .stable = 1000,
					  .sweep = 60000,
					  .look = 20 };
	if (!mkdtemp(dir))
		return -1;
	authority_make(&ours, "ours", file("ca.pem"));
	authority_make(&foreign, "ours", file("foreign-ca.pem"));
	serial_a = cert_make_named(&ours, "a", "DNS:a,URI:freeflow:host", 5, file("a.pem"),
				   file("a.key"));
	serial_b = cert_make_named(&ours, "b", "DNS:b,URI:freeflow:host", 5, file("b.pem"),
				   file("b.key"));
	cert_make_named(&ours, "b", "DNS:b", 5, file("roleless.pem"), file("roleless.key"));
	cert_make_named(&ours, "b", "DNS:b,URI:freeflow:operator", 5, file("operator.pem"),
			file("operator.key"));
	cert_make_named(&ours, "b", "DNS:b,URI:freeflow:orchestrator", 5, file("orchestrator.pem"),
			file("orchestrator.key"));
	cert_make(&ours, "b", "c", 5, file("c.pem"), file("c.key"));
	cert_make(&ours, "B", "B", 5, file("upper.pem"), file("upper.key"));
	cert_make(&ours, "*", "*", 5, file("wild.pem"), file("wild.key"));
	cert_make(&ours, "b", NULL, 5, file("common.pem"), file("common.key"));
	cert_make(&ours, "b", "b", -1, file("expired.pem"), file("expired.key"));
	serial_foreign = cert_make_named(&foreign, "b", "DNS:b,URI:freeflow:host", 5,
					 file("foreign.pem"), file("foreign.key"));
	cert_make(&ours, "a", "a", 5, file("locked.pem"), file("locked.key"));
	key_make_locked(file("locked.key"));
	cert_make(&ours, "a", "a", 5, file("mixed.pem"), file("other.key"));
	cert_make(&ours, "a", "a", 5, file("other.pem"), file("mixed.key"));
	cert_make(&ours, "a", "a", 5, file("empty.pem"), file("empty.key"));
	f = fopen(file("empty.pem"), "w");
	return f ? fclose(f) : -1;
}

static int remove_files(void **state)
{
	char cmd[64];

	(void)state;
	authority_free(&ours);
	authority_free(&foreign);
	snprintf(cmd, sizeof(cmd), "rm -r %s", dir);
	return system(cmd);
}

#define T(name) cmocka_unit_test_teardown(name, down_all)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(on_demand),
		T(both_at_once),
		T(many_at_once),
		T(lost_on_one_side),
		T(lost_on_both),
		T(whatever_happens),
		T(started_anew),
		T(the_old_one_is_not_kept),
		T(the_wire_refuses),
		T(slower_and_slower),
		T(unwanted),
		T(short_lives),
		T(down_is_not_tried),
		T(what_the_orchestrator_says),
		T(unused_hosts_are_forgotten),
		T(it_ends_in_the_middle),
		T(a_taken_port),
		T(refused_for_what_it_says),
		T(refused_for_what_is_not_known),
		T(known_a_little_later),
		T(translated_addresses),
		T(not_a_hello),
		T(half_and_silence),
		T(in_small_pieces),
		T(a_wrong_verdict),
		T(the_numbers_decide),
		T(frames_right_behind),
		T(a_flood),
		T(a_false_host),
		T(tls_meets),
		T(tls_both_at_once),
		T(tls_who_is_not_let_in),
		T(tls_common_name),
		T(tls_and_plain),
		T(tls_silence),
		T(tls_new_certificates),
		T(tls_files),
		T(tls_any_role),
		T(tls_revoked),
		T(tls_list_gone),
	};

	return cmocka_run_group_tests(tests, make_files, remove_files);
}
