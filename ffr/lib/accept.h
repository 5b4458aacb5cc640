/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * accept.h - a listening socket in a loop of libuv. See accept.c.
 */
#ifndef FFR_LIB_ACCEPT_H
#define FFR_LIB_ACCEPT_H

#include <stdbool.h>
#include <uv.h>

#include "ffr/lib/log.h"

#define ACCEPT_PAUSE  100 /* ms without accepting, when there are no descriptors */
#define ACCEPT_SPARES 4	  /* one for a connection, three for what it asks for */

struct acceptor {
	const char *name;		 /* for the log */
	void (*came)(void *arg, int fd); /* one connection, close-on-exec and non-blocking */
	void (*closed)(void *arg);	 /* acceptor_close() is done */
	void *arg;			 /* of both */
	bool keeps_spares;
	/* accept.c's own */
	int fd;
	int spare[ACCEPT_SPARES]; /* -1: none */
	uv_poll_t poll;
	uv_timer_t pause;
	int open_handles;
	struct log_limit log;
};

/* Listen on fd, which is the acceptor's from now on. 0; or -errno, and fd is closed. */
int acceptor_start(struct acceptor *a, uv_loop_t *loop, int fd, int backlog);
/* A connection has been closed: the acceptor may keep its descriptor as a spare. */
void acceptor_refill(struct acceptor *a);
/* Ends with closed(), from the loop. */
void acceptor_close(struct acceptor *a);

#endif
