/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_rio.h - /dev/ffrio for tests of ffr/rio/, in the place of the kernel's (rio_calls): nodes by their ports' numbers, and
 * endpoints on them with buffers of their own. It keeps the device's rules and says what it says. A block arrives as soon as it is
 * posted, if the receiver has a buffer, or as the test says. What was not given back is counted.
 */
#ifndef FAKE_RIO_H
#define FAKE_RIO_H

#include "ffr/rio/rio.h"

#define FAKE_RIO_FILES	    16
#define FAKE_RIO_NODE(port) (0x40u + (port))

extern const struct rio_calls fake_rio_calls;

struct fake_rio {
	/* the test's */
	uint32_t block;	     /* bytes; 1024 */
	uint32_t smbs, rmbs; /* of each endpoint; 16 and 4 */
	int result;	     /* of what is posted from now on, which does not arrive; 0: it does */
	bool holds;	     /* nothing moves until fake_rio_move() */
	unsigned long fails; /* the call that fails */
	int error;	     /* the -errno that it fails with */
	unsigned after;	     /* so many succeed before it fails; afterwards all succeed */
	int open_error;	     /* of the next that is opened */
	/* the fake's */
	unsigned files, maps;
	unsigned opened, posted;
};
extern struct fake_rio fake_rio;

void fake_rio_reset(void);
/* Everything moves that can. */
void fake_rio_move(void);
/* A block from `node` and its endpoint, that nobody of ours has posted, for that endpoint. False: there is no room. */
bool fake_rio_inject(uint32_t node, uint32_t source, uint32_t to_node, uint32_t endpoint,
		     const void *data, uint32_t length);
/* The endpoint that a port's files were given last; what is in its next block, of which nothing is taken: bytes, or -1. */
int fake_rio_endpoint(uint32_t port);
/* Readers of that endpoint hear that a message of that node's is broken. */
void fake_rio_break(uint32_t to_node, uint32_t endpoint);

#endif
