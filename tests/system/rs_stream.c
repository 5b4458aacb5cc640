/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/vt.c -lrdmacm -lpthread */
/* timeout: 300 */
/*
 * rs_stream.c - rsockets of type SOCK_STREAM inside one container: data, blocking and not, the ends
 * of a stream, peers that die, rpoll and rselect, riomap, options, bad arguments. Two containers
 * are rs_programs.sh's.
 */
#include "../lib/vt.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB (1024u * 1024u)
#define CHECK_IS(expr, err)                                                                        \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ((expr), -1);                                                              \
		if (errno != (err))                                                                \
			FAIL("%s: \"%s\", not \"%s\"", #expr, strerror(errno), strerror(err));     \
	} while (0)

/* ---- addresses and pairs ------------------------------------------------------------------------- */

/* The container's IPv4 address, which is GID 0. */
static struct sockaddr_in here(uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct ibv_context *ctx = vt_open_device();
	union ibv_gid gid;

	vt_gid(ctx, &gid);
	memcpy(&sin.sin_addr, gid.raw + 12, 4);
	ibv_close_device(ctx);
	return sin;
}

/* A listener on a port of the CM's choice; *addr is where it is reached. */
static int listener(struct sockaddr_in *addr, int backlog)
{
	socklen_t len = sizeof(*addr);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	*addr = here(0);
	CHECK_OK(rbind(fd, (struct sockaddr *)addr, sizeof(*addr)));
	CHECK_OK(rlisten(fd, backlog));
	CHECK_OK(rgetsockname(fd, (struct sockaddr *)addr, &len));
	CHECK_EQ(len, sizeof(*addr));
	CHECK(addr->sin_port != 0);
	return fd;
}

static int connect_to(const struct sockaddr_in *addr)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_OK(rconnect(fd, (const struct sockaddr *)addr, sizeof(*addr)));
	return fd;
}

struct pair {
	int a, b, l; /* client, server, listener */
	struct sockaddr_in addr;
};

/* From one thread: connecting accepts as well. */
static struct pair pair_open(int bufsize)
{
	struct pair p;

	p.l = listener(&p.addr, 4);
	p.a = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(p.a >= 0);
	if (bufsize) {
		CHECK_OK(rsetsockopt(p.a, SOL_SOCKET, SO_SNDBUF, &bufsize, sizeof(bufsize)));
		CHECK_OK(rsetsockopt(p.a, SOL_SOCKET, SO_RCVBUF, &bufsize, sizeof(bufsize)));
	}
	CHECK_OK(rconnect(p.a, (struct sockaddr *)&p.addr, sizeof(p.addr)));
	p.b = raccept(p.l, NULL, NULL);
	CHECK(p.b >= 0);
	return p;
}

static void pair_close(struct pair *p)
{
	CHECK_OK(rclose(p->a));
	CHECK_OK(rclose(p->b));
	CHECK_OK(rclose(p->l));
}

static void nonblocking(int fd)
{
	int flags = rfcntl(fd, F_GETFL);

	CHECK(flags >= 0);
	CHECK_OK(rfcntl(fd, F_SETFL, (long)(flags | O_NONBLOCK)));
	CHECK(rfcntl(fd, F_GETFL) & O_NONBLOCK);
}

static void send_all(int fd, const void *buf, size_t len)
{
	CHECK_EQ(rsend(fd, buf, len, MSG_NOSIGNAL), len);
}

static void recv_all(int fd, void *buf, size_t len)
{
	CHECK_EQ(rrecv(fd, buf, len, MSG_WAITALL), len);
}

static short poll_one(int fd, short events, int timeout)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = rpoll(&p, 1, timeout);

	CHECK(n >= 0);
	CHECK_EQ(n, p.revents != 0);
	return p.revents;
}

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
		send_all(f->fd, f->buf + at, n);
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
	struct pair p = pair_open(bufsize);
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
	pair_close(&p);
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
	struct pair p = pair_open(0);
	uint8_t c;

	/* far more messages than receives, one byte each */
	for (unsigned round = 0; round < 200; round++) {
		for (unsigned i = 0; i < 100; i++) {
			c = (uint8_t)(round + i);
			send_all(p.a, &c, 1);
		}
		for (unsigned i = 0; i < 100; i++) {
			recv_all(p.b, &c, 1);
			CHECK_EQ(c, (uint8_t)(round + i));
		}
	}
	pair_close(&p);
}

static void vectors_and_flags(void)
{
	struct pair p = pair_open(0);
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
	pair_close(&p);
}

static void names(void)
{
	struct pair p = pair_open(0);
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
	pair_close(&p);
}

/* ---- not blocking --------------------------------------------------------------------------------------- */

static void nonblocking_all(void)
{
	struct sockaddr_in addr;
	int l = listener(&addr, 4), a = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), b, err;
	socklen_t len = sizeof(err);
	uint8_t *out = vt_map(4 * MB), *in = vt_map(4 * MB);
	size_t sent = 0, got = 0;

	nonblocking(l);
	CHECK_IS(raccept(l, NULL, NULL), EAGAIN);
	CHECK_EQ(poll_one(l, POLLIN, 0), 0);
	CHECK_IS(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	CHECK_IS(rrecv(a, in, 1, 0), EAGAIN);
	CHECK_IS(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)), EALREADY);
	WAIT_FOR((poll_one(a, POLLOUT, 0), poll_one(l, POLLIN, 10) == POLLIN));
	b = raccept(l, NULL, NULL);
	CHECK(b >= 0);
	CHECK(rfcntl(b, F_GETFL) & O_NONBLOCK);
	CHECK_EQ(poll_one(a, POLLOUT, 5000), POLLOUT);
	CHECK_OK(rgetsockopt(a, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQ(err, 0);
	CHECK_IS(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)), EISCONN);

	vt_pattern(out, 4 * MB, 3);
	while (got < 4 * MB) {
		ssize_t n = sent < 4 * MB ? rsend(a, out + sent, 4 * MB - sent, 0) : 0;

		CHECK(n >= 0 || errno == EAGAIN);
		if (n < 0) /* full; a credit may come at any moment, nothing else */
			CHECK_EQ(poll_one(a, POLLOUT, 0) & ~POLLOUT, 0);
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
	struct pair p = pair_open(0);
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
	pair_close(&p);
}

/* ---- ends of a stream --------------------------------------------------------------------------------------- */

static void half_close(void)
{
	struct pair p = pair_open(0);
	char c[10];

	send_all(p.a, "abc", 3);
	CHECK_OK(rshutdown(p.a, SHUT_WR));
	CHECK_IS(rsend(p.a, "x", 1, 0), EPIPE);
	CHECK_EQ(rrecv(p.b, c, 10, MSG_WAITALL), 3);
	CHECK_EQ(rrecv(p.b, c, 10, 0), 0);
	CHECK_EQ(poll_one(p.b, POLLIN | POLLRDHUP, 0), POLLIN | POLLRDHUP);
	send_all(p.b, "0123456789", 10);
	CHECK_OK(rshutdown(p.b, SHUT_WR));
	CHECK_EQ(rrecv(p.a, c, 10, MSG_WAITALL), 10);
	CHECK_EQ(rrecv(p.a, c, 10, 0), 0);
	CHECK(poll_one(p.a, POLLIN, 1000) & POLLHUP);
	pair_close(&p);
}

static void close_keeps_data(void)
{
	struct pair p = pair_open(0);
	uint8_t out[100000], in[100000];

	vt_pattern(out, sizeof(out), 9);
	send_all(p.a, out, sizeof(out));
	CHECK_OK(rclose(p.a));
	recv_all(p.b, in, sizeof(in));
	CHECK_PATTERN(in, sizeof(in), 9);
	CHECK_EQ(rrecv(p.b, in, 1, 0), 0);
	CHECK_EQ(rrecv(p.b, in, 1, 0), 0);
	CHECK_IS(rsend(p.b, in, 1, 0), EPIPE);
	CHECK_OK(rclose(p.b));
	CHECK_OK(rclose(p.l));
}

static void linger_resets(void)
{
	struct pair p = pair_open(0);
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
	struct pair p = pair_open(4096);
	uint8_t *buf = vt_map(MB);
	pthread_t t;
	ssize_t n;

	CHECK_EQ(pthread_create(&t, NULL, shut_later, &p.a), 0);
	CHECK_EQ(rrecv(p.a, buf, 1, 0), 0);
	pthread_join(t, NULL);
	pair_close(&p);

	p = pair_open(4096);
	CHECK_EQ(pthread_create(&t, NULL, shut_later, &p.a), 0);
	n = rsend(p.a, buf, MB, 0);
	CHECK(n > 0 && n < (ssize_t)MB);
	CHECK_IS(rsend(p.a, buf, 1, 0), EPIPE);
	pthread_join(t, NULL);
	pair_close(&p);
}

static void peer_killed(void)
{
	int to_child[2], l, b;
	struct sockaddr_in addr;
	char c[8];
	pid_t pid;

	/* the child is forked first: an rsocket belongs to its process */
	CHECK_OK(pipe(to_child));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(read(to_child[0], &addr, sizeof(addr)), sizeof(addr));
		l = connect_to(&addr);
		send_all(l, "word", 4);
		for (;;)
			pause();
	}
	l = listener(&addr, 4);
	CHECK_EQ(write(to_child[1], &addr, sizeof(addr)), sizeof(addr));
	b = raccept(l, NULL, NULL);
	CHECK(b >= 0);
	recv_all(b, c, 4);
	CHECK_EQ(poll_one(b, POLLIN, 0), 0);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	CHECK_IS(rrecv(b, c, 1, 0), ECONNRESET);
	CHECK(poll_one(b, POLLIN | POLLOUT, 0) & POLLHUP);
	CHECK_IS(rsend(b, c, 1, 0), EPIPE);
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
}

static void peer_exits(void)
{
	int to_child[2], l, b;
	struct sockaddr_in addr;
	char c[8];
	pid_t pid;

	CHECK_OK(pipe(to_child));
	pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		CHECK_EQ(read(to_child[0], &addr, sizeof(addr)), sizeof(addr));
		l = connect_to(&addr);
		send_all(l, "word", 4);
		exit(0); /* without rclose() */
	}
	l = listener(&addr, 4);
	CHECK_EQ(write(to_child[1], &addr, sizeof(addr)), sizeof(addr));
	b = raccept(l, NULL, NULL);
	CHECK(b >= 0);
	recv_all(b, c, 4);
	CHECK_EQ(rrecv(b, c, 1, 0), 0);
	waitpid(pid, NULL, 0);
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
}

/* ---- connecting ------------------------------------------------------------------------------------------------ */

static void refused(void)
{
	struct sockaddr_in addr;
	int fd = listener(&addr, 1), err;
	socklen_t len = sizeof(err);

	CHECK_OK(rclose(fd)); /* nobody is there now */
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), ECONNREFUSED);
	CHECK_IS(rsend(fd, "x", 1, 0), ENOTCONN);
	CHECK_OK(rclose(fd));

	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK_IS(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	CHECK(poll_one(fd, POLLOUT, 10000) & POLLERR);
	CHECK_OK(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQ(err, ECONNREFUSED);
	CHECK_OK(rclose(fd));
}

static void in_use(void)
{
	struct sockaddr_in addr;
	int l = listener(&addr, 1), fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_IS(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)), EADDRINUSE);
	CHECK_OK(rclose(l));
	CHECK_OK(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	CHECK_IS(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)), EINVAL);
	CHECK_OK(rclose(fd));
}

static void reject_before_accept(void)
{
	struct sockaddr_in addr;
	int l = listener(&addr, 2), a = connect_to(&addr);
	char c;

	/* accepted by the library, never by the program */
	CHECK_OK(rclose(l));
	CHECK(rrecv(a, &c, 1, 0) <= 0);
	CHECK_OK(rclose(a));
}

static void many(void)
{
	enum { N = 100 };
	struct sockaddr_in addr;
	struct pollfd fds[N];
	int l = listener(&addr, N), a[N], b[N], left = N;

	for (int i = 0; i < N; i++) {
		int size = 2048;

		a[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(a[i] >= 0);
		CHECK_OK(rsetsockopt(a[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
		CHECK_OK(rsetsockopt(a[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
		CHECK_OK(rconnect(a[i], (struct sockaddr *)&addr, sizeof(addr)));
		b[i] = raccept(l, NULL, NULL);
		CHECK(b[i] >= 0);
		fds[i] = (struct pollfd){ .fd = b[i], .events = POLLIN };
	}
	for (int i = N - 1; i >= 0; i--)
		send_all(a[i], &i, sizeof(i));
	while (left) {
		CHECK(rpoll(fds, N, 5000) > 0);
		for (int i = 0; i < N; i++) {
			int v;

			if (!(fds[i].revents & POLLIN))
				continue;
			recv_all(b[i], &v, sizeof(v));
			CHECK_EQ(v, i);
			left--;
		}
	}
	CHECK_EQ(rpoll(fds, N, 0), 0);
	for (int i = 0; i < N; i++) {
		CHECK_OK(rclose(a[i]));
		CHECK_OK(rclose(b[i]));
	}
	CHECK_OK(rclose(l));
}

/* ---- rpoll, rselect ---------------------------------------------------------------------------------------------- */

static void *write_later(void *arg)
{
	usleep(30000);
	CHECK_EQ(write(*(int *)arg, "p", 1), 1);
	return NULL;
}

static void *send_later(void *arg)
{
	usleep(30000);
	send_all(*(int *)arg, "r", 1);
	return NULL;
}

static void poll_mixed(void)
{
	struct pair p = pair_open(0);
	struct pollfd fds[4];
	fd_set rd, wr;
	struct timeval none = { 0, 0 }, some = { 5, 0 };
	int pipes[2];
	pthread_t t;
	char c;

	CHECK_OK(pipe(pipes));
	fds[0] = (struct pollfd){ .fd = p.b, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = p.l, .events = POLLIN };
	fds[3] = (struct pollfd){ .fd = -1, .events = POLLIN };
	CHECK_EQ(rpoll(fds, 4, 0), 0);
	CHECK_EQ(rpoll(fds, 4, 20), 0);

	/* the ordinary descriptor wakes a sleeper, and so does the rsocket */
	CHECK_EQ(pthread_create(&t, NULL, write_later, &pipes[1]), 0);
	CHECK_EQ(rpoll(fds, 4, 5000), 1);
	CHECK_EQ(fds[1].revents, POLLIN);
	pthread_join(t, NULL);
	CHECK_EQ(read(pipes[0], &c, 1), 1);
	CHECK_EQ(pthread_create(&t, NULL, send_later, &p.a), 0);
	CHECK_EQ(rpoll(fds, 4, 5000), 1);
	CHECK_EQ(fds[0].revents, POLLIN);
	pthread_join(t, NULL);

	CHECK_EQ(write(pipes[1], "p", 1), 1);
	CHECK_EQ(rpoll(fds, 4, -1), 2);
	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_SET(p.b, &rd);
	FD_SET(pipes[0], &rd);
	FD_SET(p.l, &rd);
	FD_SET(p.a, &wr);
	CHECK_EQ(rselect(FD_SETSIZE, &rd, &wr, NULL, &some), 3);
	CHECK(FD_ISSET(p.b, &rd) && FD_ISSET(pipes[0], &rd) && !FD_ISSET(p.l, &rd));
	CHECK(FD_ISSET(p.a, &wr));
	recv_all(p.b, &c, 1);
	CHECK_EQ(read(pipes[0], &c, 1), 1);
	FD_ZERO(&wr);
	CHECK_EQ(rselect(FD_SETSIZE, &rd, &wr, NULL, &none), 0);
	CHECK(!FD_ISSET(p.b, &rd));

	fds[1].fd = pipes[1];
	close(pipes[1]);
	CHECK_EQ(rpoll(fds, 4, 0), 1);
	CHECK_EQ(fds[1].revents, POLLNVAL);
	close(pipes[0]);
	pair_close(&p);
}

struct pinger {
	int fd;
	unsigned rounds;
	bool first;
};

/* Ping-pong that sleeps in rpoll() each time. */
static void *ping(void *arg)
{
	struct pinger *g = arg;
	char c = 0;

	for (unsigned i = 0; i < g->rounds; i++) {
		if (g->first || i)
			send_all(g->fd, &c, 1);
		CHECK_EQ(poll_one(g->fd, POLLIN, 10000), POLLIN);
		recv_all(g->fd, &c, 1);
	}
	if (!g->first)
		send_all(g->fd, &c, 1);
	return NULL;
}

static void poll_ping_pong(void)
{
	struct pair p = pair_open(0);
	struct pinger g[2] = { { p.a, 3000, true }, { p.b, 3000, false } };
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, ping, &g[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	pair_close(&p);
}

/* ---- riomap ---------------------------------------------------------------------------------------------------------- */

static void iomap(void)
{
	struct sockaddr_in addr;
	int l = listener(&addr, 1), a = rsocket(AF_INET, SOCK_STREAM, 0), b, two = 2;
	uint8_t *mem = vt_map(2 * MB), *out = vt_map(2 * MB), c;
	size_t len = MB + 12345;

	CHECK_OK(rsetsockopt(a, SOL_RDMA, RDMA_IOMAPSIZE, &two, sizeof(two)));
	CHECK_OK(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)));
	b = raccept(l, NULL, NULL);
	CHECK(b >= 0);
	/* a said that b may map two buffers; b said none */
	CHECK_IS(riomap(a, mem, len, PROT_WRITE, 0, 0), ENOMEM);
	CHECK_IS(riomap(b, mem, len, PROT_READ, 0, 0), EINVAL);
	CHECK_EQ(riomap(b, mem, len, PROT_WRITE, 0, 5000), 5000);
	CHECK_EQ(riomap(b, mem + len, 100, PROT_WRITE, 0, -1), (off_t)(uintptr_t)(mem + len));
	CHECK_IS(riomap(b, mem, len, PROT_WRITE, 0, 0), ENOMEM);
	send_all(b, "m", 1);
	recv_all(a, &c, 1);

	vt_pattern(out, len, 77);
	CHECK_EQ(riowrite(a, out, len, 5000, 0), len);
	CHECK_EQ(riowrite(a, out, 100, (off_t)(uintptr_t)(mem + len), 0), 100);
	CHECK_EQ(riowrite(a, out, 200, (off_t)(5000 + len - 50), 0), 50); /* to the end of it */
	CHECK_EQ(riowrite(a, out, 100, 4999, 0), 0);
	send_all(a, "w", 1); /* what was written before is there when this is */
	recv_all(b, &c, 1);
	CHECK_PATTERN(mem, len - 50, 77);
	CHECK_PATTERN(mem + len - 50, 50, 77);
	CHECK_PATTERN(mem + len, 100, 77);

	CHECK_IS(riounmap(b, mem, 1), EINVAL);
	CHECK_OK(riounmap(b, mem, len));
	send_all(b, "u", 1);
	recv_all(a, &c, 1);
	CHECK_EQ(riowrite(a, out, 100, 5000, 0), 0);
	CHECK_EQ(riomap(b, mem, 4096, PROT_WRITE, 0, 0), 0);
	CHECK_EQ(riomap(b, mem, 4096, PROT_NONE, 0, 0), 0);
	CHECK_OK(rclose(a));
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
}

/* ---- options, bad arguments ------------------------------------------------------------------------------------------ */

static int get_int(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	CHECK_OK(rgetsockopt(fd, level, name, &v, &len));
	CHECK_EQ(len, sizeof(v));
	return v;
}

static void set_int(int fd, int level, int name, int v)
{
	CHECK_OK(rsetsockopt(fd, level, name, &v, sizeof(v)));
}

static void options(void)
{
	static const int flags[][2] = {
		{ SOL_SOCKET, SO_REUSEADDR },  { SOL_SOCKET, SO_KEEPALIVE },
		{ SOL_SOCKET, SO_OOBINLINE },  { IPPROTO_TCP, TCP_NODELAY },
		{ IPPROTO_IPV6, IPV6_V6ONLY },
	};
	static const int rdma[] = { RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE };
	int fd = rsocket(AF_INET6, SOCK_STREAM, IPPROTO_TCP), v = 1;
	struct linger l = { 1, 5 };
	struct tcp_info info;
	socklen_t len = sizeof(l);

	CHECK(fd >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		CHECK_EQ(get_int(fd, flags[i][0], flags[i][1]), 0);
		set_int(fd, flags[i][0], flags[i][1], 1);
		CHECK_EQ(get_int(fd, flags[i][0], flags[i][1]), 1);
		set_int(fd, flags[i][0], flags[i][1], 0);
		CHECK_EQ(get_int(fd, flags[i][0], flags[i][1]), 0);
	}
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 100000);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 200000);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 50000);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 100000);
	for (size_t i = 0; i < ARRAY_SIZE(rdma); i++) {
		set_int(fd, SOL_RDMA, rdma[i], 100);
		CHECK_EQ(get_int(fd, SOL_RDMA, rdma[i]), 100);
	}
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
	CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 30);
	CHECK_OK(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	memset(&l, 0, sizeof(l));
	CHECK_OK(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len));
	CHECK_EQ(l.l_onoff, 1);
	CHECK_EQ(l.l_linger, 5);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
	len = sizeof(info);
	CHECK_OK(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	CHECK_EQ(info.tcpi_state, TCP_CLOSE);
	CHECK_IS(rsetsockopt(fd, SOL_SOCKET, SO_PASSCRED, &v, sizeof(v)), ENOTSUP);
	CHECK_IS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &v, 1), EINVAL);
	CHECK_IS(rgetsockopt(fd, 12345, 1, &v, &len), ENOTSUP);
	CHECK_EQ(rfcntl(fd, F_GETFD), 0);
	CHECK_OK(rfcntl(fd, F_SETFD, (long)FD_CLOEXEC));
	CHECK_EQ(rfcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_IS(rfcntl(fd, F_GETOWN), ENOTSUP);
	CHECK_OK(rclose(fd));
}

static void bad_descriptors(void)
{
	const int bad[] = { -1, 0, 1000000, 2000000 };
	struct sockaddr_in sin = here(1);
	socklen_t len = sizeof(sin);
	struct iovec iov = { &sin, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int v = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int fd = bad[i];

		CHECK_IS(rbind(fd, (struct sockaddr *)&sin, len), EBADF);
		CHECK_IS(rlisten(fd, 1), EBADF);
		CHECK_IS(raccept(fd, NULL, NULL), EBADF);
		CHECK_IS(rconnect(fd, (struct sockaddr *)&sin, len), EBADF);
		CHECK_IS(rshutdown(fd, SHUT_RD), EBADF);
		CHECK_IS(rclose(fd), EBADF);
		CHECK_IS(rrecv(fd, &v, 1, 0), EBADF);
		CHECK_IS(rrecvfrom(fd, &v, 1, 0, NULL, NULL), EBADF);
		CHECK_IS(rrecvmsg(fd, &m, 0), EBADF);
		CHECK_IS(rread(fd, &v, 1), EBADF);
		CHECK_IS(rreadv(fd, &iov, 1), EBADF);
		CHECK_IS(rsend(fd, &v, 1, 0), EBADF);
		CHECK_IS(rsendto(fd, &v, 1, 0, (struct sockaddr *)&sin, len), EBADF);
		CHECK_IS(rsendmsg(fd, &m, 0), EBADF);
		CHECK_IS(rwrite(fd, &v, 1), EBADF);
		CHECK_IS(rwritev(fd, &iov, 1), EBADF);
		CHECK_IS(rgetpeername(fd, (struct sockaddr *)&sin, &len), EBADF);
		CHECK_IS(rgetsockname(fd, (struct sockaddr *)&sin, &len), EBADF);
		CHECK_IS(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)), EBADF);
		CHECK_IS(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len), EBADF);
		CHECK_IS(rfcntl(fd, F_GETFL), EBADF);
		CHECK_IS(riomap(fd, &v, 4, PROT_WRITE, 0, 0), EBADF);
		CHECK_IS(riounmap(fd, &v, 4), EBADF);
		CHECK_IS((int)riowrite(fd, &v, 4, 0, 0), EBADF);
	}
}

static void bad_arguments(void)
{
	struct pair p = pair_open(0);
	struct sockaddr_in sin = here(1);
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6 };
	struct iovec huge[2] = { { &sin, SIZE_MAX / 2 }, { &sin, SIZE_MAX / 2 } };
	char ctl[64];
	struct msghdr m = { .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	int fd;

	CHECK_IS(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	CHECK_IS(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
	CHECK_IS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(raccept(fd, NULL, NULL), EINVAL);
	CHECK_IS(rsend(fd, &sin, 1, 0), ENOTCONN);
	CHECK_IS(rrecv(fd, &sin, 1, 0), ENOTCONN);
	CHECK_IS(rshutdown(fd, SHUT_WR), ENOTCONN);
	CHECK_IS(rshutdown(fd, 3), EINVAL);
	CHECK_IS(rgetpeername(fd, NULL, &(socklen_t){ 0 }), ENOTCONN);
	CHECK_IS(rbind(fd, (struct sockaddr *)&sin, 3), EINVAL);
	CHECK_IS(rbind(fd, (struct sockaddr *)&sin6, sizeof(sin6)), EAFNOSUPPORT);
	CHECK_IS(rconnect(fd, (struct sockaddr *)&sin, 1), EINVAL);
	CHECK_IS((int)riowrite(fd, &sin, 1, 0, 0), ENOTCONN);
	sin.sin_addr.s_addr = htonl(0xc0000201); /* nobody's */
	CHECK_IS(rbind(fd, (struct sockaddr *)&sin, sizeof(sin)), EADDRNOTAVAIL);
	CHECK_OK(rclose(fd));
	CHECK_IS(rclose(fd), EBADF);

	CHECK_IS(rlisten(p.a, 1), EINVAL);
	CHECK_OK(rlisten(p.l, 9));
	CHECK_IS(rsendto(p.a, &sin, 1, 0, (struct sockaddr *)&sin, sizeof(sin)), EISCONN);
	CHECK_IS(rsendmsg(p.a, &m, 0), ENOTSUP);
	CHECK_IS(rwritev(p.a, huge, 2), EINVAL);
	CHECK_IS(rwritev(p.a, huge, -1), EINVAL);
	CHECK_IS(rsend(p.a, &sin, 1, MSG_OOB), EOPNOTSUPP);
	CHECK_IS(rselect(-1, NULL, NULL, NULL, NULL), EINVAL);
	pair_close(&p);
}

int main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		{ "duplex_default", duplex_default, 0 },
		{ "duplex_small_ring", duplex_small_ring, 0 },
		{ "duplex_large_ring", duplex_large_ring, 0 },
		{ "message_credits", message_credits, 0 },
		{ "vectors_and_flags", vectors_and_flags, 0 },
		{ "names", names, 0 },
		{ "nonblocking_all", nonblocking_all, 0 },
		{ "receive_timeout", receive_timeout, 0 },
		{ "half_close", half_close, 0 },
		{ "close_keeps_data", close_keeps_data, 0 },
		{ "linger_resets", linger_resets, 0 },
		{ "shutdown_wakes", shutdown_wakes, 0 },
		{ "peer_killed", peer_killed, 0 },
		{ "peer_exits", peer_exits, 0 },
		{ "refused", refused, 0 },
		{ "in_use", in_use, 0 },
		{ "reject_before_accept", reject_before_accept, 0 },
		{ "many", many, 0 },
		{ "poll_mixed", poll_mixed, 0 },
		{ "poll_ping_pong", poll_ping_pong, 0 },
		{ "iomap", iomap, 0 },
		{ "options", options, 0 },
		{ "bad_descriptors", bad_descriptors, 0 },
		{ "bad_arguments", bad_arguments, 0 },
	};

	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
