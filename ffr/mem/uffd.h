/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * uffd.h - userfaultfds of clients: what the threads that read them share (watch.c, follow.c), and
 * what the fast path asks.
 *
 * Such a descriptor may be something else, others may read it as well, and may change its flags.
 */
#ifndef FFR_MEM_UFFD_H
#define FFR_MEM_UFFD_H

#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <stdbool.h>
#include <sys/ioctl.h>
#include <sys/uio.h>
#include <unistd.h>

/* A userfaultfd, and none that blocks? What else it can do is its client's affair. */
static inline bool uffd_is_one(int fd)
{
	struct uffdio_range none = { 0, 0 };
	int flags = fcntl(fd, F_GETFL);

	return flags >= 0 && flags & O_NONBLOCK && ioctl(fd, UFFDIO_WAKE, &none) && errno == EINVAL;
}

/*
 * Is an event under way, or one that was not read yet? From before a mapping changes until who
 * changed it goes on, calls fail with EAGAIN, before anything else is looked at. Waits for nobody.
 */
static inline bool uffd_is_changing(int fd)
{
	struct uffdio_zeropage none = { .range = { 0, 0 } };

	return ioctl(fd, UFFDIO_ZEROPAGE, &none) && errno == EAGAIN;
}

/* One message. False: there is none. */
static inline bool uffd_next(int fd, struct uffd_msg *m)
{
	struct iovec iov = { m, sizeof(*m) };
	ssize_t n = preadv2(fd, &iov, 1, -1, RWF_NOWAIT);

	if (n < 0 && errno != EAGAIN) { /* before Linux 6.10 */
		fcntl(fd, F_SETFL, O_NONBLOCK);
		n = read(fd, m, sizeof(*m));
	}
	return n == sizeof(*m);
}

#endif
