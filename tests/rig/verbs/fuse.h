/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fuse.h - a file on a file system in user space whose server answers its own PID namespace and lets all
 * others, such as the router, wait for ever. Needs root.
 */
#ifndef TEST_FUSE_H
#define TEST_FUSE_H

#include <stdbool.h>
#include <sys/types.h>

struct fuse {
	char dir[32];
	pid_t server;
};

/* False, and errno: none can be had here. */
bool fuse_start(struct fuse *f);
/* Its file, opened for reading and writing; with O_CLOEXEC. */
int fuse_file(const struct fuse *f);
/* Whoever waits fails. */
void fuse_end(struct fuse *f);

#endif
