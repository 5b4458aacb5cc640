/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/peer/peer.c ffr/peer/conn.c ffr/peer/hello.c ffr/peer/sock.c ffr/peer/tls.c ffr/peer/io.c ffr/conf.c ffr/lib/log.c tests/rig/unit/peer_rig.c */
/*
 * test_hello.c - who is not let in by what it says, and what strangers can do with a handshake. Real
 * sockets, one process.
 */
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/peer_rig.h"
#include "tests/rig/unit/unit.h"

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

/*
 * As answer_to(), for a sender whom node A does not know: A asks its orchestrator, which does not answer
 * while A waits for it.
 */
static enum wire_refusal answer_without_news(const struct wire_hello *w, uint32_t from)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	uint32_t asked = nodes[A].asked;
	int fd = dial(A, from);

	assert_int_equal(send(fd, w, sizeof(*w), 0), sizeof(*w));
	WAIT_FOR(nodes[A].asked == asked + 1);
	assert_int_equal(in_handshake(A), 1);
	nodes_later(peer_times.accept);
	assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), sizeof(*w));
	close(fd);
	return refusal_of((const struct wire_hello *)buf);
}

static void refused_for_what_it_says(void **state)
{
	struct wire_hello w;

	(void)state;
	nodes_up_two();
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
	make_hello(&w);
	w.version = w.oldest_v = htobe16(WIRE_PROTO_MIN - 1);
	assert_int_equal(answer_to(&w, addr_of(B)), WIRE_VERSION);
	assert_int_equal(nodes[A].asked, 0);
	assert_int_equal(nodes[A].attached, 0);
}

/* What the orchestrator does not say within the time is not so. */
static void refused_for_what_is_not_known(void **state)
{
	struct wire_hello w;

	(void)state;
	nodes_up_two();
	node_down(B);
	make_hello(&w);
	assert_int_equal(answer_to(&w, addr_of(C)), WIRE_ADDRESS);
	assert_int_equal(nodes[A].asked, 0);
	strncpy(w.host, "nobody", sizeof(w.host));
	assert_int_equal(answer_without_news(&w, addr_of(B)), WIRE_UNKNOWN);
	assert_string_equal(nodes[A].asked_for, "nobody");
	make_hello(&w);
	strncpy(w.instance, "earlier", sizeof(w.instance));
	assert_int_equal(answer_without_news(&w, addr_of(B)), WIRE_INSTANCE);
	assert_int_equal(nodes[A].asked, 2);
	fast_lock(&nodes[A].host);
	peer_of_host(nodes[A].r.peers, "b", nodes[B].r.instance, "tcp:127.0.0.1:1", false);
	fast_unlock(&nodes[A].host);
	make_hello(&w);
	assert_int_equal(answer_without_news(&w, addr_of(B)), WIRE_DOWN);
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
	WAIT_FOR(nodes[A].asked);
	assert_null(peer_at(A, B));
	assert_int_equal(in_handshake(A), 1);
	node_tell(A, B);
	WAIT_FOR(attached(A, B) && attached(B, A) && nodes_settled());
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
	nodes_up_two();
	node_down(B);
	nodes[A].r.peers->conf.check_addr = false;
	make_hello(&w);
	fd = dial(A, addr_of(C));
	assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
	verdict_make(&v, WIRE_OK);
	assert_int_equal(send(fd, &v, sizeof(v), 0), sizeof(v));
	WAIT_FOR(attached(A, B));
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
	nodes_up_two();
	node_down(B);
	for (int k = 0; k < 10; k++) {
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
		case 9: /* it still has none but later ones */
			w.oldest = htobe64(be64toh(w.seq) + 1);
			break;
		}
		assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), 0);
		close(fd);
	}
	assert_int_equal(nodes[A].asked, 0);
	assert_int_equal(in_handshake(A), 0);
}

/* Reads that many bytes, while the loops run. */
static void listen_to(int fd, void *buf, size_t len)
{
	size_t got = 0;
	ssize_t n;

	while (got < len) {
		rig_turn();
		n = recv(fd, (char *)buf + got, len - got, MSG_DONTWAIT);
		assert_true(n > 0 || (n < 0 && errno == EAGAIN));
		got += n > 0 ? (size_t)n : 0;
	}
}

/* Half a hello, none, or a hello and no verdict: each for its time, and then no more. */
static void half_and_silence(void **state)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	struct wire_hello w;

	(void)state;
	nodes_up_two();
	node_down(B);
	make_hello(&w);
	for (size_t len = 0; len <= sizeof(w); len += sizeof(w) / 2) {
		int fd = dial(A, addr_of(B));

		assert_int_equal(send(fd, &w, len, 0), len);
		WAIT_FOR(in_handshake(A) == 1);
		if (len == sizeof(w))
			listen_to(fd, buf, len);
		for (int i = 0; i < 5; i++)
			rig_turn();
		assert_int_equal(in_handshake(A), 1);
		nodes_later(peer_times.accept);
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), 0);
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
	nodes_up_two();
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
	WAIT_FOR(attached(A, B));
	close(fd);
}

static void a_wrong_verdict(void **state)
{
	uint8_t buf[2 * sizeof(struct wire_hello)];
	struct wire_verdict v[3] = { { "none", 0, 0 } };
	struct wire_hello w;

	(void)state;
	verdict_make(&v[1], WIRE_REFUSALS_NUM);
	verdict_make(&v[2], WIRE_OK);
	v[2].zero = 1;
	nodes_up_two();
	node_down(B);
	for (int i = 0; i < 3; i++) {
		int fd = dial(A, addr_of(B));

		assert_int_equal(verdict_parse(&v[i]), -EPROTO);
		make_hello(&w);
		assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
		assert_int_equal(send(fd, &v[i], sizeof(v[i]), 0), sizeof(v[i]));
		assert_int_equal(listen_till_end(fd, buf, sizeof(buf)), sizeof(w));
		close(fd);
	}
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

	h.instance = nodes[A].r.instance;
	hello_make(&w, &h);
	assert_int_equal(send(fd, &w, sizeof(w), 0), sizeof(w));
	listen_to(fd, &answer, sizeof(answer));
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
	nodes_up_two();
	node_down(A);
	for (size_t i = 0; i < sizeof(said) / sizeof(said[0]); i++) {
		fd[i] = verdict_of_b(said[i].seq, said[i].oldest, &verdict);
		assert_int_equal(verdict, said[i].verdict);
		WAIT_FOR(peer_at(B, A)->generation == said[i].generation && nodes_settled());
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
	nodes_up_two();
	node_down(B);
	make_hello(&all.w);
	verdict_make(&all.v, WIRE_OK);
	memcpy(all.frame, "frames", 6);
	fd = dial(A, addr_of(B));
	assert_int_equal(send(fd, &all, offsetof(__typeof__(all), frame) + 6, 0), 390);
	WAIT_FOR(attached(A, B));
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
	WAIT_FOR(in_handshake(A) == PEER_MAX_STRANGERS);
	want(B, A);
	WAIT_FOR(attached(A, B) && attached(B, A) && joined(A, B));
	for (int i = 0; i < n; i++)
		close(fd[i]);
	WAIT_FOR(nodes_settled());
	assert_int_equal(nodes[A].r.peers->num_strangers, 0);
}

/* The one at a host's address may be anybody; what it answers is checked like what comes in. */
static void a_false_host(void **state)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	int l = socket(AF_INET, SOCK_STREAM, 0), one = 1;
	struct wire_hello w;

	(void)state;
	nodes_up_two();
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

		WAIT_FOR(peer_ctl_at(A, B)->out);
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

int main(void)
{
	return UNIT_RUN_GROUP(nodes_setup, NULL, NODES_TEST(refused_for_what_it_says),
			      NODES_TEST(refused_for_what_is_not_known),
			      NODES_TEST(known_a_little_later), NODES_TEST(translated_addresses),
			      NODES_TEST(not_a_hello), NODES_TEST(half_and_silence),
			      NODES_TEST(in_small_pieces), NODES_TEST(a_wrong_verdict),
			      NODES_TEST(the_numbers_decide), NODES_TEST(frames_right_behind),
			      NODES_TEST(a_flood), NODES_TEST(a_false_host));
}
