/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c -lrdmacm -lpthread */
/* timeout: 300 */
/*
 * rs_dgram.c - rsockets of type SOCK_DGRAM inside one container: datagrams and their addresses,
 * sizes, nobody there, rpoll, bad arguments. Two containers are rs_programs.sh's.
 */
#include "tests/rig/verbs/rst.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <rdma/rsocket.h>
#include <unistd.h>

/* Bound to a port of the CM's choice, on the wildcard address; *addr is where it is reached. */
static int bound(struct sockaddr_in *addr)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	socklen_t len = sizeof(any);
	int fd = rsocket(AF_INET, SOCK_DGRAM, 0);

	CHECK(fd >= 0);
	CHECK_OK(rbind(fd, (struct sockaddr *)&any, sizeof(any)));
	CHECK_OK(rgetsockname(fd, (struct sockaddr *)&any, &len));
	CHECK(any.sin_port != 0);
	*addr = cmt_self();
	addr->sin_port = any.sin_port;
	return fd;
}

/* From one thread, to rsockets that are never in a call when they are asked for their QP. */
static void both_ways(void)
{
	struct sockaddr_in addr[2], from;
	int fd[2] = { bound(&addr[0]), bound(&addr[1]) };
	uint8_t out[2000], in[2000];
	socklen_t len;

	for (unsigned i = 0; i < 200; i++) {
		unsigned s = i % 2, r = 1 - s, n = (i * 37) % sizeof(out);

		vt_pattern(out, n, i);
		CHECK_EQ(rsendto(fd[s], out, n, 0, (struct sockaddr *)&addr[r], sizeof(addr[r])),
			 n);
		len = sizeof(from);
		CHECK_EQ(rrecvfrom(fd[r], in, sizeof(in), 0, (struct sockaddr *)&from, &len), n);
		CHECK_PATTERN(in, n, i);
		CHECK_EQ(len, sizeof(from));
		CHECK_EQ(from.sin_port, addr[s].sin_port);
		CHECK_EQ(from.sin_addr.s_addr, addr[s].sin_addr.s_addr);
	}
	CHECK_OK(rclose(fd[0]));
	CHECK_OK(rclose(fd[1]));
}

static void connected(void)
{
	struct sockaddr_in addr[2], name;
	int a = bound(&addr[0]), b = bound(&addr[1]), c = rsocket(AF_INET, SOCK_DGRAM, 0);
	socklen_t len = sizeof(name);
	char buf[16];

	CHECK_IS(rgetpeername(c, (struct sockaddr *)&name, &len), ENOTCONN);
	CHECK_IS(rsend(c, "x", 1, 0), EDESTADDRREQ);
	CHECK_OK(rconnect(c, (struct sockaddr *)&addr[0], sizeof(addr[0])));
	CHECK_OK(rgetpeername(c, (struct sockaddr *)&name, &len));
	CHECK_EQ(name.sin_port, addr[0].sin_port);
	CHECK_EQ(rsend(c, "hello", 5, 0), 5);
	len = sizeof(name);
	CHECK_EQ(rrecvfrom(a, buf, sizeof(buf), 0, (struct sockaddr *)&name, &len), 5);
	/* only what comes from the peer is received */
	CHECK_EQ(rsendto(b, "alien", 5, 0, (struct sockaddr *)&name, sizeof(name)), 5);
	CHECK_EQ(rsendto(a, "answer", 6, 0, (struct sockaddr *)&name, sizeof(name)), 6);
	CHECK_EQ(rrecv(c, buf, sizeof(buf), 0), 6);
	CHECK_EQ(memcmp(buf, "answer", 6), 0);
	CHECK_IS(rrecv(c, buf, sizeof(buf), MSG_DONTWAIT), EAGAIN);
	rclose(a);
	rclose(b);
	rclose(c);
}

static void sizes(void)
{
	struct sockaddr_in addr;
	int a = bound(&addr), b = rsocket(AF_INET, SOCK_DGRAM, 0);
	uint8_t big[5000] = { 0 }, in[100];
	struct iovec w[2] = { { big, 60 }, { big + 60, 40 } }, r = { in, 70 };
	struct msghdr out = { .msg_name = &addr,
			      .msg_namelen = sizeof(addr),
			      .msg_iov = w,
			      .msg_iovlen = 2 },
		      msg = { .msg_iov = &r, .msg_iovlen = 1 };

	CHECK_IS(rsendto(b, big, sizeof(big), 0, (struct sockaddr *)&addr, sizeof(addr)), EMSGSIZE);
	CHECK_EQ(rsendto(b, NULL, 0, 0, (struct sockaddr *)&addr, sizeof(addr)), 0);
	CHECK_EQ(rrecv(a, in, sizeof(in), 0), 0);
	vt_pattern(big, 100, 4);
	CHECK_EQ(rsendmsg(b, &out, 0), 100);
	CHECK_EQ(rrecv(a, in, 10, MSG_PEEK | MSG_TRUNC), 100);
	CHECK_EQ(rrecvmsg(a, &msg, 0), 70);
	CHECK_EQ(msg.msg_flags, MSG_TRUNC);
	CHECK_PATTERN(in, 70, 4);
	CHECK_IS(rrecv(a, in, 1, MSG_DONTWAIT), EAGAIN); /* the rest is gone */
	rclose(a);
	rclose(b);
}

static void nobody_there(void)
{
	struct sockaddr_in addr;
	int a = bound(&addr), b = rsocket(AF_INET, SOCK_DGRAM, 0), err;
	socklen_t len = sizeof(err);
	char c;

	CHECK_OK(rclose(a));
	/* not connected: lost without a word */
	CHECK_EQ(rsendto(b, "x", 1, 0, (struct sockaddr *)&addr, sizeof(addr)), 1);
	CHECK_OK(rconnect(b, (struct sockaddr *)&addr, sizeof(addr)));
	usleep(150000); /* a refusal is believed for a while */
	CHECK_IS(rsend(b, "x", 1, 0), ECONNREFUSED);
	CHECK_OK(rgetsockopt(b, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQ(err, 0);
	CHECK_IS(rrecv(b, &c, 1, MSG_DONTWAIT), EAGAIN);
	rclose(b);
}

static void nonblocking_and_poll(void)
{
	struct sockaddr_in addr, any = { .sin_family = AF_INET };
	int a = bound(&addr), b = rsocket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, 0), pipes[2];
	struct pollfd fds[3];
	char c;

	CHECK_OK(rbind(b, (struct sockaddr *)&any, sizeof(any)));
	CHECK_OK(pipe(pipes));
	CHECK_IS(rrecv(b, &c, 1, 0), EAGAIN);
	CHECK_EQ(rst_poll(b, POLLIN | POLLOUT, 0), POLLOUT);
	CHECK_EQ(rst_poll(a, POLLIN, 10), 0);
	/* kept until the address is resolved, which the calls of both sides bring on */
	for (int i = 0; i < 5; i++)
		CHECK_EQ(rsendto(b, &i, 1, 0, (struct sockaddr *)&addr, sizeof(addr)), 1);
	fds[0] = (struct pollfd){ .fd = b, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = a, .events = POLLIN };
	CHECK_EQ(rpoll(fds, 3, 10000), 1);
	CHECK_EQ(fds[2].revents, POLLIN);
	for (int i = 0; i < 5; i++) {
		CHECK_EQ(rrecv(a, &c, 1, 0), 1);
		CHECK_EQ(c, i);
	}
	close(pipes[0]);
	close(pipes[1]);
	rclose(a);
	rclose(b);
}

static void *echo(void *arg)
{
	int fd = *(int *)arg;
	struct sockaddr_in from;
	uint8_t buf[512];

	for (;;) {
		socklen_t len = sizeof(from);
		ssize_t n = rrecvfrom(fd, buf, sizeof(buf), 0, (struct sockaddr *)&from, &len);

		CHECK(n >= 0);
		CHECK_EQ(rsendto(fd, buf, (size_t)n, 0, (struct sockaddr *)&from, len), n);
		if (n == 0)
			return NULL;
	}
}

static void ping_pong(void)
{
	struct sockaddr_in addr;
	int a = bound(&addr), b = rsocket(AF_INET, SOCK_DGRAM, 0);
	uint32_t v = 0;
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, echo, &a), 0);
	CHECK_OK(rconnect(b, (struct sockaddr *)&addr, sizeof(addr)));
	for (uint32_t i = 0; i < 5000; i++) {
		CHECK_EQ(rsend(b, &i, sizeof(i), 0), sizeof(i));
		CHECK_EQ(rrecv(b, &v, sizeof(v), 0), sizeof(v));
		CHECK_EQ(v, i);
	}
	CHECK_EQ(rsend(b, NULL, 0, 0), 0);
	pthread_join(t, NULL);
	rclose(a);
	rclose(b);
}

static void errors(void)
{
	struct sockaddr_in addr;
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT };
	int a = bound(&addr), b = rsocket(AF_INET, SOCK_DGRAM, 0);
	char c;

	CHECK_IS(rbind(b, (struct sockaddr *)&addr, sizeof(addr)), EADDRINUSE);
	CHECK_IS(rbind(a, (struct sockaddr *)&addr, sizeof(addr)), EINVAL);
	CHECK_IS(rrecv(b, &c, 1, 0), EINVAL);
	CHECK_IS(rlisten(a, 1), EOPNOTSUPP);
	CHECK_IS(raccept(a, NULL, NULL), EBADF);
	CHECK_OK(rshutdown(a, SHUT_RD));
	CHECK_IS(riomap(a, &c, 1, 0, 0, 0), EINVAL);
	CHECK_IS(rsendto(a, &c, 1, 0, (struct sockaddr *)&sin6, sizeof(sin6)), EAFNOSUPPORT);
	CHECK_IS(rsendto(a, &c, 1, 0, (struct sockaddr *)&addr, 3), EINVAL);
	rclose(a);
	rclose(b);
}

VT_MAIN({ "both_ways", both_ways, 0 }, { "connected", connected, 0 }, { "sizes", sizes, 0 },
	{ "nobody_there", nobody_there, 0 }, { "nonblocking_and_poll", nonblocking_and_poll, 0 },
	{ "ping_pong", ping_pong, 0 }, { "errors", errors, 0 })
