/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sock.c - sockets between routers, their options and addresses. Control thread.
 *
 * A peer that is not there any more shows by TCP_USER_TIMEOUT when there is traffic and by keepalive
 * when there is none; who waits for it makes a new connection then, which on a link that came back
 * is there sooner than an old one that has backed off (TCP_RTO_MAX_MS bounds that where it is there).
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ffr/peer/internal.h"

#ifndef TCP_RTO_MAX_MS
#define TCP_RTO_MAX_MS 44 /* Linux 6.15 */
#endif

#define USER_TIMEOUT 3000	  /* ms without an acknowledgement: the connection is dead */
#define KEEP_IDLE    2		  /* s without traffic until it is asked whether it lives */
#define KEEP_INTVL   1		  /* s */
#define KEEP_CNT     3		  /* questions */
#define RTO_MAX	     1000	  /* ms: soon there again when a link comes back */
#define NOTSENT	     (256 * 1024) /* bytes in the socket that TCP cannot send yet */
#define BACKLOG	     128

/* ---- addresses ------------------------------------------------------------------------------- */

/* As IPv6, where IPv4 is a part of it. */
static struct in6_addr addr_six(const struct sockaddr_storage *sa)
{
	const struct sockaddr_in6 *six = (const void *)sa;
	const struct sockaddr_in *four = (const void *)sa;
	struct in6_addr a = { .s6_addr = { [10] = 0xff, 0xff } };

	if (sa->ss_family == AF_INET6)
		return six->sin6_addr;
	memcpy(&a.s6_addr[12], &four->sin_addr, 4);
	return a;
}

bool addr_same(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct in6_addr x = addr_six(a), y = addr_six(b);

	return a->ss_family && b->ss_family && !memcmp(&x, &y, sizeof(x));
}

bool addr_near(const struct sockaddr_storage *a, const struct sockaddr_storage *b)
{
	struct in6_addr x = addr_six(a), y = addr_six(b);

	return !memcmp(&x, &y, IN6_IS_ADDR_V4MAPPED(&x) ? sizeof(x) : 8);
}

const char *addr_str(const struct sockaddr_storage *sa, char *buf, size_t size)
{
	const struct sockaddr_in6 *six = (const void *)sa;
	const struct sockaddr_in *four = (const void *)sa;
	char a[INET6_ADDRSTRLEN] = "?";

	if (sa->ss_family == AF_INET6) {
		inet_ntop(AF_INET6, &six->sin6_addr, a, sizeof(a));
		snprintf(buf, size, "[%s]:%u", a, ntohs(six->sin6_port));
	} else {
		inet_ntop(AF_INET, &four->sin_addr, a, sizeof(a));
		snprintf(buf, size, "%s:%u", a, ntohs(four->sin_port));
	}
	return buf;
}

/* ---- the socket ------------------------------------------------------------------------------ */

static void set_int(int fd, int level, int option, int value)
{
	/* one that this kernel does not have is one that it does without */
	(void)setsockopt(fd, level, option, &value, sizeof(value));
}

void sock_setup(int fd)
{
	set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEP_IDLE);
	set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEP_INTVL);
	set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEP_CNT);
	set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, USER_TIMEOUT);
	set_int(fd, IPPROTO_TCP, TCP_RTO_MAX_MS, RTO_MAX);
	set_int(fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_int(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOTSENT);
}

static socklen_t addr_len(const struct sockaddr_storage *sa)
{
	return sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
}

int sock_connect(const struct sockaddr_storage *from, const struct sockaddr_storage *to)
{
	int fd = socket(to->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	sock_setup(fd);
	if (from->ss_family == to->ss_family) {
		set_int(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
		/* an address that others translate to ours cannot be had, and need not */
		(void)!bind(fd, (const struct sockaddr *)from, addr_len(from));
	}
	/* the length by which the sandbox tells it from a Unix socket's address */
	if (!connect(fd, (const struct sockaddr *)to, sizeof(*to)) || errno == EINPROGRESS)
		return fd;
	err = -errno;
	close(fd);
	return err;
}

int sock_listen(const struct sockaddr_storage *sa)
{
	int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int err;

	if (fd < 0)
		return -errno;
	set_int(fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (!bind(fd, (const struct sockaddr *)sa, addr_len(sa)) && !listen(fd, BACKLOG))
		return fd;
	err = -errno;
	close(fd);
	return err;
}
