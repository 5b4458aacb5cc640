/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffrio_lib.h - the calls of /dev/ffrio for programs: messages between RapidIO nodes, and memory by
 * RapidIO address. Each returns 0 or a number, or a negative errno; ../ffrio.h says which and why. A
 * descriptor may be used by several threads: one sends and one receives at a time, others wait.
 */
#ifndef FFRIO_LIB_H
#define FFRIO_LIB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "../ffrio.h"

/* A descriptor, bound to an endpoint (-1: any) of a port; flags as of open(), such as O_NONBLOCK. */
int rio_open(unsigned int port, int endpoint, int flags, struct ffrio_bind *bound);

/* Bytes that were taken over; less than n with O_NONBLOCK. flags: enum ffrio_send_flags. */
ssize_t rio_send(int fd, unsigned int destid, unsigned int endpoint, const void *p, size_t n,
		 unsigned int flags);
int rio_flush(int fd);

struct rio_from {
	uint16_t destid;
	uint8_t endpoint;
	bool first, last; /* the bytes begin, end a message */
};

/* Bytes of the next message or of its rest. from may be NULL. */
ssize_t rio_recv(int fd, void *p, size_t n, struct rio_from *from);

/* The pools in the program's memory; NULL with errno. */
void *rio_map_smb(int fd, const struct ffrio_bind *bound);
const void *rio_map_rmb(int fd, const struct ffrio_bind *bound);
/* Where the data of a buffer is in its pool. */
static inline size_t rio_data(const struct ffrio_bind *bound, unsigned int buffer)
{
	return (size_t)buffer * bound->stride + bound->header;
}

int rio_alloc(int fd); /* a send buffer's number */
int rio_free(int fd, unsigned int buffer);
/* A block of a message; flags: FFRIO_FIRST, FFRIO_LAST. cookie: below 2^56. */
int rio_post(int fd, unsigned int destid, unsigned int endpoint, unsigned int buffer, size_t n,
	     unsigned int flags, uint64_t cookie);
int rio_reap(int fd, struct ffrio_reap *r);
int rio_take(int fd, struct ffrio_take *t);
int rio_give_back(int fd, unsigned int buffer);

/* Memory that others reach at its RapidIO address; NULL with errno. */
struct rio_window {
	void *memory;
	size_t length;
	uint64_t rio;
	uint32_t id;
};
int rio_window(int fd, size_t length, struct rio_window *w);
int rio_window_end(int fd, struct rio_window *w);

/* flags: FFRIO_RESPONSE, FFRIO_POSTED. All of n, or a negative errno. */
int rio_read(int fd, unsigned int destid, uint64_t rio, void *p, size_t n);
int rio_write(int fd, unsigned int destid, uint64_t rio, const void *p, size_t n,
	      unsigned int flags);

/* Counters of a port by name, whether or not it is fd's; -ENOENT. */
long long rio_stat(int fd, unsigned int port, const char *name);
int rio_state(int fd, unsigned int port, struct ffrio_stats *s);

#endif
