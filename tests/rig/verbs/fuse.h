/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fuse.h - files on a file system in user space whose server answers its own PID namespace and lets all
 * others, such as the router, wait for ever. Needs root. "file" has a content; all others are empty.
 */
#ifndef TEST_FUSE_H
#define TEST_FUSE_H

#include <stdbool.h>
#include <sys/types.h>

struct fuse {
	char parent[24], dir[40]; /* the latter is named by this process's number */
	pid_t server;
};

/* False, and errno: none can be had here. */
bool fuse_start(struct fuse *f);
/* A file, opened by O_RDWR or another mode; with O_CLOEXEC. */
int fuse_file(const struct fuse *f, const char *name, int mode);
/* Whoever waits fails. */
void fuse_end(struct fuse *f);

#endif
