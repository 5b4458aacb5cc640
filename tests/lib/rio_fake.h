/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rio_fake.h - /dev/ffrio for tests of ffr/rio/, in the place of the kernel's (rio_calls): nodes by their ports' numbers, and
 * endpoints on them with buffers of their own. It keeps the device's rules and says what it says. A block arrives as soon as it is
 * posted, if the receiver has a buffer, or as the test says. What was not given back is counted.
 */
#ifndef RIO_FAKE_H
#define RIO_FAKE_H

#include "ffr/rio/rio.h"

#define RIO_FAKE_FILES	    16
#define RIO_FAKE_NODE(port) (0x40u + (port))

extern const struct rio_calls rio_fake_calls;

struct rio_fake {
	/* the test's */
	uint32_t block;	     /* bytes; 1024 */
	uint32_t smbs, rmbs; /* of each endpoint; 16 and 4 */
	int result;	     /* of what is posted from now on, which does not arrive; 0: it does */
	bool holds;	     /* nothing moves until rio_fake_move() */
	unsigned long fails; /* that call ... */
	int error;	     /* ... with this -errno ... */
	unsigned after;	     /* ... after so many that succeed; then all of them do */
	int open_error;	     /* of the next that is opened */
	/* the fake's */
	unsigned files, maps;
	unsigned opened, posted;
};
extern struct rio_fake rio_fake;

void rio_fake_reset(void);
/* Everything moves that can. */
void rio_fake_move(void);
/* A block from `node` and its endpoint, that nobody of ours has posted, for that endpoint. False: there is no room. */
bool rio_fake_inject(uint32_t node, uint32_t source, uint32_t to_node, uint32_t endpoint,
		     const void *data, uint32_t length);
/* The endpoint that a port's files were given last; what is in its next block, of which nothing is taken: bytes, or -1. */
int rio_fake_endpoint(uint32_t port);
/* Readers of that endpoint hear that a message of that node's is broken. */
void rio_fake_break(uint32_t to_node, uint32_t endpoint);

#endif
