/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * window.h - swapping the pages behind an address under a running program. See window.c.
 */
#ifndef FFL_MEM_WINDOW_H
#define FFL_MEM_WINDOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes swapped at once; who touches them waits meanwhile: about 50 us. A multiple of a page. */
#define FFL_WINDOW_MAX (1024u * 1024)

/* A userfaultfd of this process from an open /dev/userfaultfd, or -errno. *moves: it can be probed what is pinned. */
int ffl_window_open(int uffd_dev, bool *moves);
/* That is done in `probe`: FFL_WINDOW_MAX bytes of private memory, readable and writable, never touched. 0 or -errno. */
int ffl_window_probe(int uffd, char *probe);

/*
 * The private anonymous pages at p go to `stash`, the shared pages at `home` come to p, with the
 * content that p had. prot is p's protection, with PROT_READ, and stays it; stash, and home, which is readable and
 * writable, are mapped, as long as p. maps is an open
 * /proc/self/maps; nowhere is an address at which nothing can be read, NULL: it is not looked again whether p is
 * still there. 0, or -errno and nothing has changed (but what is in the stash, and in home). With a probe -EBUSY:
 * a device, or the kernel, is writing to some of the pages, or may. -EFAULT: home is no single mapping.
 */
int ffl_window_in(int uffd, int maps, const char *nowhere, char *probe, char *p, size_t len,
		  char *stash, char *home, int prot);

/*
 * The same for the private pages of a file, which no userfaultfd watches: `alone`: this thread is the process's only
 * one; else nobody can write to p, and nobody did. All of p is present.
 */
int ffl_window_file_in(bool alone, char *p, size_t len, char *stash, char *home, int prot);

/*
 * The reverse: the shared pages at p go back to `home`, the pages of `stash` come to p, with the
 * content that p had. prot (PROT_*) is p's protection and stays it; the stash is readable and writable. `sparse`:
 * pages that have that content already are not written to. 0, or -errno and p is as it was. Afterwards nothing is
 * mapped at stash.
 */
int ffl_window_out(int uffd, char *p, size_t len, char *stash, char *home, int prot, bool sparse);

/* Is it one mapping? In pieces, stash or home must not go to p: p would be unmapped for a moment. */
bool ffl_window_is_whole(char *at, size_t len);

#endif
