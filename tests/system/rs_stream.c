/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c -lrdmacm -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * rs_stream.c - the data of rsockets of type SOCK_STREAM inside one container: blocking and not, both
 * ends of a stream, peers that die. Two containers are rs_programs.sh's.
 */
#include "tests/rig/verbs/rst.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- data ------------------------------------------------------------------------------------------ */

struct flow {
	int fd;
	size_t total;
	uint32_t seed;
	uint8_t *buf;
};

static void *send_flow(void *arg)
{
	struct flow *f = arg;
	uint32_t r = f->seed;

	for (size_t at = 0, n; at < f->total; at += n) {
		n = 1 + vt_rand(&r) % (vt_rand(&r) % 4 ? 3000 : 200000);
		if (n > f->total - at)
			n = f->total - at;
		rst_send_all(f->fd, f->buf + at, n);
	}
	return NULL;
}

static void *recv_flow(void *arg)
{
	struct flow *f = arg;
	uint32_t r = f->seed * 7 + 1;

	for (size_t at = 0; at < f->total;) {
		size_t want = 1 + vt_rand(&r) % (vt_rand(&r) % 4 ? 5000 : 300000);
		ssize_t n =
			rrecv(f->fd, f->buf + at, want < f->total - at ? want : f->total - at, 0);

		CHECK(n > 0);
		at += (size_t)n;
	}
	return NULL;
}

/* Both directions at once, four threads, random sizes. */
static void duplex(int bufsize, size_t total)
{
	struct rst_pair p = rst_pair_open(bufsize);
	struct flow f[4] = { { p.a, total, 11, NULL },
			     { p.b, total, 11, NULL },
			     { p.b, total, 22, NULL },
			     { p.a, total, 22, NULL } };
	pthread_t t[4];

	for (int i = 0; i < 4; i++) {
		f[i].buf = vt_map(total);
		if (i % 2 == 0)
			vt_pattern(f[i].buf, total, f[i].seed);
		CHECK_EQ(pthread_create(&t[i], NULL, i % 2 ? recv_flow : send_flow, &f[i]), 0);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	CHECK_PATTERN(f[1].buf, total, 11);
	CHECK_PATTERN(f[3].buf, total, 22);
	for (int i = 0; i < 4; i++)
		munmap(f[i].buf, total);
	rst_pair_close(&p);
}

static void duplex_default(void)
{
	duplex(0, 24 * MB);
}

static void duplex_small_ring(void)
{
	duplex(2048, 3 * MB);
}

static void duplex_large_ring(void)
{
	duplex(2 * MB, 48 * MB);
}

static void message_credits(void)
{
	struct rst_pair p = rst_pair_open(0);
	uint8_t c;

	/* far more messages than receives, one byte each */
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 100; i++) {
			c = (uint8_t)(round + i);
			rst_send_all(p.a, &c, 1);
		}
		for (unsigned i = 0; i < 100; i++) {
			rst_recv_all(p.b, &c, 1);
			CHECK_EQ(c, (uint8_t)(round + i));
		}
	}
	rst_pair_close(&p);
}

static void vectors_and_flags(void)
{
	struct rst_pair p = rst_pair_open(0);
	uint8_t out[6000], in[6000];
	struct iovec w[4] = { { out, 1 }, { NULL, 0 }, { out + 1, 2999 }, { out + 3000, 3000 } };
	struct iovec r[3] = { { in, 10 }, { in + 10, 90 }, { in + 100, 5900 } };
	struct sockaddr_in from;
	struct msghdr m = { .msg_iov = r, .msg_iovlen = 3, .msg_name = &from, .msg_namelen = 99 };
	socklen_t len = sizeof(from);

	vt_pattern(out, sizeof(out), 5);
	CHECK_EQ(rwritev(p.a, w, 4), 6000);
	CHECK_EQ(rrecv(p.b, in, 100, MSG_PEEK), 100);
	CHECK_PATTERN(in, 100, 5);
	memset(in, 0, sizeof(in));
	CHECK_EQ(rrecvmsg(p.b, &m, MSG_WAITALL), 6000);
	CHECK_PATTERN(in, 6000, 5);
	CHECK_EQ(m.msg_flags, 0);
	CHECK_IS(rrecv(p.b, in, 1, MSG_DONTWAIT), EAGAIN);

	m = (struct msghdr){ .msg_iov = w, .msg_iovlen = 4 };
	CHECK_EQ(rsendmsg(p.b, &m, 0), 6000);
	memset(in, 0, sizeof(in));
	for (int got = 0; got < 6000;) {
		r[0] = (struct iovec){ in + got, 1 };
		r[1] = (struct iovec){ in + got + 1, (size_t)(5999 - got) };
		int n = (int)rreadv(p.a, r, 2);

		CHECK(n > 0);
		got += n;
	}
	CHECK_PATTERN(in, 6000, 5);
	CHECK_EQ(rwrite(p.a, out, 10), 10);
	CHECK_EQ(rrecvfrom(p.b, in, 10, MSG_WAITALL, (struct sockaddr *)&from, &len), 10);
	CHECK_EQ(len, sizeof(from));
	CHECK_EQ(from.sin_addr.s_addr, p.addr.sin_addr.s_addr);
	CHECK_EQ(rsendto(p.b, out, 10, 0, NULL, 0), 10);
	CHECK_EQ(rread(p.a, in, 5), 5);
	CHECK_EQ(rread(p.a, in + 5, 10), 5);
	CHECK_EQ(rsend(p.a, out, 0, 0), 0);
	CHECK_EQ(rrecv(p.a, in, 0, 0), 0);
	rst_pair_close(&p);
}

static void names(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct sockaddr_in a, b;
	socklen_t alen = sizeof(a), blen = sizeof(b);

	CHECK_OK(rgetsockname(p.a, (struct sockaddr *)&a, &alen));
	CHECK_OK(rgetpeername(p.b, (struct sockaddr *)&b, &blen));
	CHECK_EQ(alen, sizeof(a));
	CHECK_EQ(blen, sizeof(b));
	CHECK_EQ(a.sin_port, b.sin_port);
	CHECK_EQ(a.sin_addr.s_addr, b.sin_addr.s_addr);
	CHECK_OK(rgetpeername(p.a, (struct sockaddr *)&a, &alen));
	CHECK_EQ(a.sin_port, p.addr.sin_port);
	alen = 0;
	CHECK_OK(rgetsockname(p.a, NULL, &alen));
	CHECK_EQ(alen, sizeof(a));
	rst_pair_close(&p);
}

/* ---- not blocking --------------------------------------------------------------------------------------- */

static void nonblocking_all(void)
{
	struct sockaddr_in addr;
	int l = rst_listener(&addr, 4), a = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), b,
	    err;
	socklen_t len = sizeof(err);
	uint8_t *out = vt_map(4 * MB), *in = vt_map(4 * MB);
	size_t sent = 0, got = 0;

	rst_nonblocking(l);
	CHECK_IS(raccept(l, NULL, NULL), EAGAIN);
	CHECK_EQ(rst_poll(l, POLLIN, 0), 0);
	CHECK_IS(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	CHECK_IS(rrecv(a, in, 1, 0), EAGAIN);
	CHECK_IS(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	WAIT_FOR((rst_poll(a, POLLOUT, 0), rst_poll(l, POLLIN, 10) == POLLIN));
	b = raccept(l, NULL, NULL);
	CHECK(b >= 0);
	CHECK(rfcntl(b, F_GETFL) & O_NONBLOCK);
	CHECK_EQ(rst_poll(a, POLLOUT, 5000), POLLOUT);
	CHECK_OK(rgetsockopt(a, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQ(err, 0);
	CHECK_OK(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)));

	vt_pattern(out, 4 * MB, 3);
	while (got < 4 * MB) {
		ssize_t n = sent < 4 * MB ? rsend(a, out + sent, 4 * MB - sent, 0) : 0;

		CHECK(n >= 0 || errno == EAGAIN);
		if (n < 0) /* full; a credit may come at any moment, nothing else */
			CHECK_EQ(rst_poll(a, POLLOUT, 0) & ~POLLOUT, 0);
		sent += n > 0 ? (size_t)n : 0;
		n = rrecv(b, in + got, 100000, 0);
		CHECK(n > 0 || errno == EAGAIN);
		got += n > 0 ? (size_t)n : 0;
	}
	CHECK_PATTERN(in, 4 * MB, 3);
	rclose(a);
	rclose(b);
	rclose(l);
}

static void receive_timeout(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct timeval tv = { 0, 50000 }, back;
	socklen_t len = sizeof(back);
	uint64_t start;
	char c;

	CHECK_OK(rsetsockopt(p.a, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv)));
	CHECK_OK(rgetsockopt(p.a, SOL_SOCKET, SO_RCVTIMEO, &back, &len));
	CHECK_EQ(back.tv_usec, 50000);
	start = vt_now();
	CHECK_IS(rrecv(p.a, &c, 1, 0), EAGAIN);
	CHECK(vt_now() - start >= 50000000);
	rst_pair_close(&p);
}

/* ---- memory of the program ------------------------------------------------------------------------------ */

/* What rsend() has taken is the stream's: the memory may be written again, or be gone. */
static void memory_after_send(void)
{
	struct rst_pair p = rst_pair_open(0);
	uint8_t *in = vt_map(MB);

	for (uint32_t round = 0; round < 20; round++) {
		size_t len = round % 2 ? 65536 : 200000; /* the ring has room for it */
		uint8_t *out = vt_map(len);

		vt_pattern(out, len, round);
		rst_send_all(p.a, out, len);
		if (round % 4 < 2)
			CHECK_OK(munmap(out, len));
		else
			memset(out, 0xff, len);
		rst_recv_all(p.b, in, len);
		CHECK_PATTERN(in, len, round);
		if (round % 4 >= 2)
			munmap(out, len);
	}
	munmap(in, MB);
	rst_pair_close(&p);
}

/* A sender waits for a peer that does not read, and for nothing else. */
static void unread(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct flow out = { p.a, 4 * MB, 33, vt_map(4 * MB) },
		    in = { p.b, 4 * MB, 33, vt_map(4 * MB) };
	size_t sent = 0;
	pthread_t t;
	ssize_t n;

	while ((n = rsend(p.a, out.buf, 65536, MSG_DONTWAIT)) > 0)
		sent += (size_t)n;
	CHECK(n == -1 && errno == EAGAIN);
	CHECK(sent >= 65536 && sent < 4 * MB);
	CHECK_EQ(rst_poll(p.a, POLLOUT, 20), 0);
	rst_recv_all(p.b, in.buf, sent);
	CHECK_EQ(rst_poll(p.a, POLLOUT, 5000), POLLOUT);

	vt_pattern(out.buf, out.total, out.seed);
	CHECK_EQ(pthread_create(&t, NULL, send_flow, &out), 0);
	usleep(50000);
	recv_flow(&in);
	pthread_join(t, NULL);
	CHECK_PATTERN(in.buf, in.total, in.seed);
	munmap(out.buf, out.total);
	munmap(in.buf, in.total);
	rst_pair_close(&p);
}

/* ---- ends of a stream --------------------------------------------------------------------------------------- */

static void half_close(void)
{
	struct rst_pair p = rst_pair_open(0);
	char c[10];

	rst_send_all(p.a, "abc", 3);
	CHECK_OK(rshutdown(p.a, SHUT_WR));
	CHECK_IS(rsend(p.a, "x", 1, 0), EPIPE);
	CHECK_EQ(rrecv(p.b, c, 10, MSG_WAITALL), 3);
	CHECK_EQ(rrecv(p.b, c, 10, 0), 0);
	CHECK_EQ(rst_poll(p.b, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP);
	rst_send_all(p.b, "0123456789", 10);
	CHECK_OK(rshutdown(p.b, SHUT_WR));
	CHECK_EQ(rrecv(p.a, c, 10, MSG_WAITALL), 10);
	CHECK_EQ(rrecv(p.a, c, 10, 0), 0);
	CHECK(rst_poll(p.a, POLLIN, 1000) & POLLHUP);
	rst_pair_close(&p);
}

static void close_keeps_data(void)
{
	struct rst_pair p = rst_pair_open(0);
	uint8_t out[100000], in[100000];

	vt_pattern(out, sizeof(out), 9);
	rst_send_all(p.a, out, sizeof(out));
	CHECK_OK(rclose(p.a));
	rst_recv_all(p.b, in, sizeof(in));
	CHECK_PATTERN(in, sizeof(in), 9);
	CHECK_EQ(rrecv(p.b, in, 1, 0), 0);
	CHECK_EQ(rrecv(p.b, in, 1, 0), 0);
	CHECK_IS(rsend(p.b, in, 1, 0), EPIPE);
	CHECK_OK(rclose(p.b));
	CHECK_OK(rclose(p.l));
}

static void linger_resets(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct linger l = { .l_onoff = 1 };
	char c;

	CHECK_OK(rsetsockopt(p.a, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	CHECK_OK(rclose(p.a));
	CHECK_IS(rrecv(p.b, &c, 1, 0), ECONNRESET);
	CHECK_EQ(rrecv(p.b, &c, 1, 0), 0);
	CHECK_OK(rclose(p.b));
	CHECK_OK(rclose(p.l));
}

static void *shut_later(void *arg)
{
	usleep(20000);
	CHECK_OK(rshutdown(*(int *)arg, SHUT_RDWR));
	return NULL;
}

/* A shutdown wakes a receiver and a sender of the same rsocket that sleep. */
static void shutdown_wakes(void)
{
	struct rst_pair p = rst_pair_open(4096);
	uint8_t *buf = vt_map(MB);
	pthread_t t;
	ssize_t n;

	CHECK_EQ(pthread_create(&t, NULL, shut_later, &p.a), 0);
	CHECK_EQ(rrecv(p.a, buf, 1, 0), 0);
	pthread_join(t, NULL);
	rst_pair_close(&p);

	p = rst_pair_open(4096);
	CHECK_EQ(pthread_create(&t, NULL, shut_later, &p.a), 0);
	n = rsend(p.a, buf, MB, 0);
	CHECK(n > 0 && n < (ssize_t)MB);
	CHECK_IS(rsend(p.a, buf, 1, 0), EPIPE);
	pthread_join(t, NULL);
	rst_pair_close(&p);
}

/*
 * A peer in a process of its own, which plays its part when it is connected. It is forked first: an
 * rsocket belongs to its process. *l: the listener, *b: this end.
 */
static pid_t peer_start(void (*part)(int fd), int *l, int *b)
{
	struct sockaddr_in addr;
	int to_child[2];
	pid_t pid;

	CHECK_OK(pipe(to_child));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(read(to_child[0], &addr, sizeof(addr)), sizeof(addr));
		part(rst_connect(&addr));
		for (;;)
			pause();
	}
	*l = rst_listener(&addr, 4);
	CHECK_EQ(write(to_child[1], &addr, sizeof(addr)), sizeof(addr));
	*b = raccept(*l, NULL, NULL);
	CHECK(*b >= 0);
	return pid;
}

static void word_and_wait(int fd)
{
	rst_send_all(fd, "word", 4);
}

static void word_and_exit(int fd)
{
	rst_send_all(fd, "word", 4);
	exit(0); /* without rclose() */
}

static void take_and_wait(int fd)
{
	rst_recv_all(fd, vt_map(MB), 100000);
}

/* A peer that runs `part` and has said that it is ready. */
static pid_t peer_says(void (*part)(int fd), int *l, int *b)
{
	pid_t pid = peer_start(part, l, b);
	char word[4];

	rst_recv_all(*b, word, sizeof(word));
	return pid;
}

static void peer_killed(void)
{
	int l, b;
	char c[8];
	pid_t pid = peer_says(word_and_wait, &l, &b);

	CHECK_EQ(rst_poll(b, POLLIN, 0), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_IS(rrecv(b, c, 1, 0), ECONNRESET);
	CHECK(rst_poll(b, POLLIN | POLLOUT, 0) & POLLHUP);
	CHECK_IS(rsend(b, c, 1, 0), EPIPE);
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
}

static void *kill_later(void *arg)
{
	usleep(50000);
	kill(*(pid_t *)arg, SIGKILL);
	return NULL;
}

/* The peer dies while a large rsend() waits for it: what was taken counts, then comes the error. */
static void peer_killed_in_send(void)
{
	uint8_t *buf = vt_map(8 * MB);
	int l, b;
	pthread_t t;
	ssize_t n;
	pid_t pid;

	pid = peer_start(take_and_wait, &l, &b);
	CHECK_EQ(pthread_create(&t, NULL, kill_later, &pid), 0);
	n = rsend(b, buf, 8 * MB, MSG_NOSIGNAL);
	CHECK(n >= 100000 && n < (ssize_t)(8 * MB));
	CHECK_EQ(rsend(b, buf, 8 * MB, MSG_NOSIGNAL), -1);
	CHECK(errno == ECONNRESET || errno == EPIPE);
	pthread_join(t, NULL);
	waitpid(pid, NULL, 0);
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
	munmap(buf, 8 * MB);
}

static void peer_exits(void)
{
	int l, b;
	char c[8];
	pid_t pid = peer_says(word_and_exit, &l, &b);

	CHECK_EQ(rrecv(b, c, 1, 0), 0);
	waitpid(pid, NULL, 0);
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
}

VT_MAIN({ "duplex_default", duplex_default, 0 }, { "duplex_small_ring", duplex_small_ring, 0 },
	{ "duplex_large_ring", duplex_large_ring, 0 }, { "message_credits", message_credits, 0 },
	{ "vectors_and_flags", vectors_and_flags, 0 }, { "names", names, 0 },
	{ "nonblocking_all", nonblocking_all, 0 }, { "receive_timeout", receive_timeout, 0 },
	{ "memory_after_send", memory_after_send, 0 }, { "unread", unread, 0 },
	{ "half_close", half_close, 0 }, { "close_keeps_data", close_keeps_data, 0 },
	{ "linger_resets", linger_resets, 0 }, { "shutdown_wakes", shutdown_wakes, 0 },
	{ "peer_killed", peer_killed, 0 }, { "peer_killed_in_send", peer_killed_in_send, 0 },
	{ "peer_exits", peer_exits, 0 })
