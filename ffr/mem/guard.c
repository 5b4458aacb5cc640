/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * guard.c - mappings of clients' files in which the router allocates nothing. Control thread; called by
 * seg.c and shadow.c.
 *
 * A page of a shared mapping is charged to the memory cgroup of who touches it first. Were that the
 * router, a client could have it hold any amount of memory: by naming pages that it never touched, or
 * by punching holes later. So a mapping of clients' memory is registered with a userfaultfd of the
 * router's own, for missing pages, with UFFD_FEATURE_SIGBUS: what is in the page cache, or swapped
 * out, faults in as ever, and an access to what is not there raises SIGBUS (sigbus.c), or fails with
 * EFAULT where it is the kernel's. Nobody ever reads that descriptor, and the pages cost nothing more:
 * 1 to 3 us for each mapping, once. UFFD_USER_MODE_ONLY makes it one that needs no privilege; for
 * faults inside the kernel SIGBUS is raised all the same.
 *
 * Without it (a kernel without userfaultfd or before 5.11, a file system that is neither tmpfs nor
 * hugetlbfs, a mapping that cannot become writable) clients' memory is not mapped, but copied by pvm.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/lib/log.h"
#include "ffr/mem/shadow.h"

#ifndef USERFAULTFD_IOC_NEW
#define USERFAULTFD_IOC_NEW _IO(0xAA, 0x00)
#endif
#ifndef UFFD_USER_MODE_ONLY
#define UFFD_USER_MODE_ONLY 1
#endif

#define FLAGS (O_CLOEXEC | O_NONBLOCK | UFFD_USER_MODE_ONLY)

static int uffd = -1;

/* By the system call, or by the device where a filter of the router's container forbids the call. */
static int uffd_new(void)
{
	int fd = (int)syscall(SYS_userfaultfd, FLAGS), dev, err;

	if (fd >= 0)
		return fd;
	err = -errno;
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	if (dev < 0)
		return err;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, FLAGS);
	if (fd < 0)
		err = -errno;
	close(dev);
	return fd < 0 ? err : fd;
}

int guard_init(void)
{
	struct uffdio_api api = {
		.api = UFFD_API,
		.features = UFFD_FEATURE_SIGBUS | UFFD_FEATURE_MISSING_SHMEM |
			    UFFD_FEATURE_MISSING_HUGETLBFS,
	};
	int fd, err;

	if (uffd >= 0)
		return 0;
	fd = uffd_new();
	if (fd < 0)
		return fd;
	if (ioctl(fd, UFFDIO_API, &api)) {
		err = -errno;
		close(fd);
		return err;
	}
	uffd = fd;
	return 0;
}

int guard_map(void *map, uint64_t size)
{
	struct uffdio_register reg = {
		.range = { (uintptr_t)map, size },
		.mode = UFFDIO_REGISTER_MODE_MISSING,
	};
	int err = guard_init();

	if (err)
		return err;
	return ioctl(uffd, UFFDIO_REGISTER, &reg) ? -errno : 0;
}
