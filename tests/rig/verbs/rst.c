/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rst.c - see rst.h. Plain rsockets; knows nothing of what lies below them. */
#include "tests/rig/verbs/rst.h"

#include <fcntl.h>
#include <sys/socket.h>

int rst_listener(struct sockaddr_in *addr, int backlog)
{
	socklen_t len = sizeof(*addr);
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	*addr = cmt_self();
	CHECK_OK(rbind(fd, (struct sockaddr *)addr, sizeof(*addr)));
	CHECK_OK(rlisten(fd, backlog));
	CHECK_OK(rgetsockname(fd, (struct sockaddr *)addr, &len));
	CHECK_EQ(len, sizeof(*addr));
	CHECK(addr->sin_port != 0);
	return fd;
}

int rst_connect(const struct sockaddr_in *addr)
{
	int fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK(fd >= 0);
	CHECK_OK(rconnect(fd, (const struct sockaddr *)addr, sizeof(*addr)));
	return fd;
}

struct rst_pair rst_pair_open(int bufsize)
{
	struct rst_pair p;

	p.l = rst_listener(&p.addr, 4);
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

void rst_pair_close(struct rst_pair *p)
{
	CHECK_OK(rclose(p->a));
	CHECK_OK(rclose(p->b));
	CHECK_OK(rclose(p->l));
}

void rst_nonblocking(int fd)
{
	int flags = rfcntl(fd, F_GETFL);

	CHECK(flags >= 0);
	CHECK_OK(rfcntl(fd, F_SETFL, (long)(flags | O_NONBLOCK)));
	CHECK(rfcntl(fd, F_GETFL) & O_NONBLOCK);
}

void rst_send_all(int fd, const void *buf, size_t len)
{
	CHECK_EQ(rsend(fd, buf, len, MSG_NOSIGNAL), len);
}

void rst_recv_all(int fd, void *buf, size_t len)
{
	CHECK_EQ(rrecv(fd, buf, len, MSG_WAITALL), len);
}

short rst_poll(int fd, short events, int timeout)
{
	struct pollfd p = { .fd = fd, .events = events };
	int n = rpoll(&p, 1, timeout);

	CHECK(n >= 0);
	CHECK_EQ(n, p.revents != 0);
	return p.revents;
}
