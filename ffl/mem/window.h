/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * window.h - swapping the pages behind an address under a running program. See window.c.
 */
#ifndef FFL_MEM_WINDOW_H
#define FFL_MEM_WINDOW_H

#include <stddef.h>
#include <stdint.h>

/* Bytes swapped at once; who touches them waits meanwhile: about 50 us. A multiple of a page. */
#define FFL_WINDOW_MAX (1024u * 1024)

/* A userfaultfd of this process from an open /dev/userfaultfd, or -errno. */
int ffl_window_open(int uffd_dev);

/*
 * The private anonymous pages at p go to `stash`, the shared pages at `home` come to p, with the
 * content that p had. p is readable and writable; stash and home are mapped, as long as p.
 * 0, or -errno and nothing has changed (but that the stash may be empty).
 */
int ffl_window_in(int uffd, char *p, size_t len, char *stash, char *home);

/*
 * The reverse: the shared pages at p go back to `home`, the pages of `stash` come to p, with the
 * content that p had. prot (PROT_*) is p's protection and stays it. 0, or -errno and p is as it
 * was. Afterwards nothing is mapped at stash.
 */
int ffl_window_out(int uffd, char *p, size_t len, char *stash, char *home, int prot);

#endif
