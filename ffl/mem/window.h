/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * window.h - shared pages take the place of private ones under a running program. See window.c.
 */
#ifndef FFL_MEM_WINDOW_H
#define FFL_MEM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes replaced at once; who touches them waits meanwhile. A multiple of a page. */
#define FFL_WINDOW_MAX (2048u * 1024)

/*
 * What windows need, once for a process: a userfaultfd of it from an open /dev/userfaultfd, and
 * some address space. 0 or -errno. Windows are opened by one thread at a time.
 */
int ffl_window_init(int uffd_dev);
/* In a child `fd_too` is false: the number may be another file's. */
void ffl_window_fini(bool fd_too);
/* Can it be told which pages a device, or the kernel, has by their numbers? */
bool ffl_window_knows_pins(void);

/* A userfaultfd of this process, from an open /dev/userfaultfd, with UFFD_FEATURE_*; or -errno. */
int ffl_uffd_open(int uffd_dev, uint64_t features);

struct ffl_attr;

/* Pages to be replaced, and what replaces them. */
struct ffl_swap {
	char *p;
	size_t len;   /* at most FFL_WINDOW_MAX */
	int prot;     /* p's protection, with PROT_READ, which it keeps */
	char *home;   /* a mapping of shared pages, readable and writable, which goes to p */
	int fd;	      /* of the shared file that home maps, */
	uint64_t off; /* where home begins in that file */
	int maps;     /* an open /proc/self/maps */
	const struct ffl_attr *attr; /* what p's mapping is expected to be like, and home's is */
};

/*
 * Private anonymous pages. 0, and home is at p, with the content that p had; or -errno, and
 * nothing has changed, but the content of home. -EBUSY: a device, or the kernel, is writing to
 * some of the pages, or may. -EAGAIN: the program has mapped something else there meanwhile.
 * -ESTALE: p has other attributes than `attr`.
 */
int ffl_window_in(const struct ffl_swap *s);

/*
 * The same for the private pages of a file, which no userfaultfd watches: `alone`: this thread is
 * the process's only one; else nobody can write to p, and nobody did. All of p is present.
 */
int ffl_window_file_in(const struct ffl_swap *s, bool alone);

/*
 * The other way: p is the file's pages, and home private memory, readable and writable. 0, and home is
 * at p with the same content; or -errno, and p is as it was. -EAGAIN: the program has mapped something
 * else there meanwhile. `settled` is called while p can be used: 0, when the router has answered all
 * faults from before.
 */
int ffl_window_out(const struct ffl_swap *s, int (*settled)(void *arg), void *arg);

#endif
