/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * slow.h - a TCP connection whose far end reads nothing, and whose last descriptor waits for that when it
 * is closed.
 */
#ifndef TEST_SLOW_H
#define TEST_SLOW_H

#include <fcntl.h>
#include <netinet/in.h>
#include <stdint.h>
#include <sys/socket.h>
#include <unistd.h>

struct slow {
	int near, far;
};

/* The near end does not block, is full, and lingers so long. 0, or -1 and errno. */
static inline int slow_open(struct slow *s, int linger_s)
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger linger = { 1, linger_s };
	static const uint8_t bytes[65536];
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (bind(l, (struct sockaddr *)&sa, sizeof(sa)) || listen(l, 1) ||
	    getsockname(l, (struct sockaddr *)&sa, &len))
		return -1;
	s->near = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (connect(s->near, (struct sockaddr *)&sa, sizeof(sa)))
		return -1;
	s->far = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
	if (s->far < 0 || fcntl(s->near, F_SETFL, O_NONBLOCK))
		return -1;
	while (write(s->near, bytes, sizeof(bytes)) > 0)
		;
	return setsockopt(s->near, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger));
}

#endif
