/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fds.h - one packet with descriptors, through a Unix socket. See unix(7), SCM_RIGHTS. Any thread.
 */
#ifndef FFR_LIB_FDS_H
#define FFR_LIB_FDS_H

#include <stddef.h>
#include <sys/types.h>

#define FDS_MAX 253u /* with one packet: the kernel's SCM_MAX_FD */

/* As send(): with the n descriptors, which stay the caller's. n is at most FDS_MAX. */
ssize_t fds_send(int sock, const void *bytes, size_t len, const int *fds, unsigned n, int flags);
/*
 * As recv(): *n descriptors came with it, at most `max`, which are the caller's now and close-on-exec;
 * 0 when it fails. What is more than `max` the kernel has closed. max is at most FDS_MAX.
 */
ssize_t fds_recv(int sock, void *buf, size_t size, int *fds, unsigned max, unsigned *n, int flags);

#endif
