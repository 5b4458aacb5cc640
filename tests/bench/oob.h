/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * oob.h - a TCP connection between the two halves of a benchmark: `-l PORT` is the half that waits,
 * `-c HOST -p PORT` the other one. Blocking, TCP_NODELAY.
 */
#ifndef BENCH_OOB_H
#define BENCH_OOB_H

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"

/* Waits for one caller. */
static inline int oob_listen(const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE },
			*ai;
	int l, fd, one = 1, err = getaddrinfo(NULL, port, &hints, &ai);

	errno = 0;
	if (err)
		bench_die("port %s: %s", port, gai_strerror(err));
	l = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (l < 0)
		bench_die("socket");
	setsockopt(l, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(l, ai->ai_addr, ai->ai_addrlen) || listen(l, 1))
		bench_die("port %s", port);
	freeaddrinfo(ai);
	fd = accept(l, NULL, NULL);
	if (fd < 0)
		bench_die("accept");
	close(l);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

static inline int oob_connect(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_family = AF_INET, .ai_socktype = SOCK_STREAM }, *ai;
	int fd, one = 1, err = getaddrinfo(host, port, &hints, &ai);

	errno = 0;
	if (err)
		bench_die("%s: %s", host, gai_strerror(err));
	fd = socket(ai->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || connect(fd, ai->ai_addr, ai->ai_addrlen))
		bench_die("%s port %s", host, port);
	freeaddrinfo(ai);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* Which half this is: it waits at a port, or calls. */
struct oob_end {
	const char *listen, *host, *port;
};
#define OOB_OPTS(end)                                                                              \
	BENCH_TEXT('l', (end).listen), BENCH_TEXT('c', (end).host), BENCH_TEXT('p', (end).port)

static inline int oob_is_told(const struct oob_end *e)
{
	return e->listen || (e->host && e->port);
}

static inline int oob_open(const struct oob_end *e)
{
	return e->listen ? oob_listen(e->listen) : oob_connect(e->host, e->port);
}

static inline void oob_send(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			bench_die("the other half");
		p += n;
		len -= (size_t)n;
	}
}

/* 0 at the end of the stream before the first byte. */
static inline int oob_recv(int fd, void *data, size_t len)
{
	char *p = data;
	size_t have = 0;

	while (have < len) {
		ssize_t n = recv(fd, p + have, len - have, 0);

		if (n < 0 || (!n && have))
			bench_die("the other half");
		if (!n)
			return 0;
		have += (size_t)n;
	}
	return 1;
}

#endif
