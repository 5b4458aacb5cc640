/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rst.h - what the rs_*.c programs share beyond vt.h and cmt.h: calls that fail with an errno,
 * listeners and pairs of connected rsockets within one process.
 */
#ifndef RST_H
#define RST_H

#include "tests/rig/verbs/cmt.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <rdma/rsocket.h>

#define MB (1024u * 1024u)

/* -1, and that errno. */
#define CHECK_IS(expr, err)                                                                        \
	do {                                                                                       \
		errno = 0;                                                                         \
		CHECK_EQ((expr), -1);                                                              \
		if (errno != (err))                                                                \
			FAIL("%s: \"%s\", not \"%s\"", #expr, strerror(errno), strerror(err));     \
	} while (0)

/* A listener on a port of the CM's choice; *addr is where it is reached. */
int rst_listener(struct sockaddr_in *addr, int backlog);
int rst_connect(const struct sockaddr_in *addr);

struct rst_pair {
	int a, b, l; /* client, server, listener */
	struct sockaddr_in addr;
};
/* From one thread: connecting accepts as well. bufsize: both buffers' bytes, 0 the default. */
struct rst_pair rst_pair_open(int bufsize);
void rst_pair_close(struct rst_pair *p);

void rst_nonblocking(int fd);
void rst_send_all(int fd, const void *buf, size_t len);
void rst_recv_all(int fd, void *buf, size_t len);
/* What rpoll() tells of one descriptor. */
short rst_poll(int fd, short events, int timeout /* ms */);

#endif
