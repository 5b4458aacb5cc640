/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * map_file.c - the file behind a client's shared mapping, opened. Any thread of the keeper's; called by look.c.
 *
 * This file must not give a client, or a router that was taken over, anything that the client does not have. The
 * mapping can change at any time. The link in /proc/PID/map_files opens with the keeper's rights. The number in the
 * link may be another process's by now. Opening a file, or even asking about it, may block if its file system is a
 * client's. Hence, in this order, after look.c has asked the client's maps for the mapping:
 *
 *	1. open the link with O_PATH, which calls no file system; the file is pinned from here on
 *	2. statx(AT_STATX_DONT_SYNC) of the link's file, which calls no file system either: it must be the same
 *	   regular file, on a device that is known to be tmpfs or hugetlbfs
 *	3. only now open it, for writing only if the mapping is writable
 *	4. ask the client's maps for the mapping: it shows this very file, shared, and as writable as
 *	   asked for; and the process that was looked into by its number still lives
 *
 * The maps are the client's own, and only a process that may look into the client can have them. A mapping that is
 * shared and writable proves that the client had the file open for writing. Step 4 finds the mapping on the inode that
 * was opened. So a client gains nothing by swapping mappings in between, or by an exec.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ffr/keeper/mounts.h"
#include "ffr/keeper/keeper.h"
#include "ffr/keeper/opener.h"

/* <linux/memfd.h>, which does not go with <sys/mman.h> */
#define HUGE_2MB (21u << 26)
#define HUGE_1GB (30u << 26)

static bool same_mapping(const struct ff_vma *a, const struct ff_vma *b)
{
	return a->start == b->start && a->end == b->end && a->offset == b->offset &&
	       a->inode == b->inode && a->dev_major == b->dev_major &&
	       a->dev_minor == b->dev_minor && a->flags == b->flags;
}

static const unsigned shm_kind[] = { 0, MFD_HUGETLB | HUGE_2MB, MFD_HUGETLB | HUGE_1GB };
#define SHM_KINDS (sizeof(shm_kind) / sizeof(shm_kind[0]))

static dev_t shm_dev[SHM_KINDS]; /* 0: the kernel has none */

static void shm_devs_ask(void)
{
	for (size_t i = 0; i < SHM_KINDS; i++) {
		int fd = memfd_create("freeflow-which", MFD_CLOEXEC | shm_kind[i]);
		struct stat st;

		if (fd >= 0 && !fstat(fd, &st))
			shm_dev[i] = st.st_dev;
		if (fd >= 0)
			close(fd);
	}
}

/* Does the kernel's own tmpfs or hugetlbfs, the one of memfds and of System V, have that device? */
static bool kernel_shm(dev_t dev)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, shm_devs_ask);
	for (size_t i = 0; i < SHM_KINDS; i++)
		if (shm_dev[i] && shm_dev[i] == dev)
			return true;
	return false;
}

int map_file_open(pid_t pid, int pidfd, int maps, const struct ff_vma *v, bool writes)
{
	static const char *const shm[] = { "tmpfs", "hugetlbfs", NULL };
	const uint32_t need = FF_VMA_SHARED | FF_VMA_READ | (writes ? FF_VMA_WRITE : 0);
	struct statx st;
	struct ff_vma now = { 0 };
	char path[64];
	int handle, fd, err = -EACCES;
	dev_t dev;

	if ((v->flags & need) != need)
		return -EACCES;
	snprintf(path, sizeof(path), "/proc/%d/map_files/%llx-%llx", pid,
		 (unsigned long long)v->start, (unsigned long long)v->end);
	handle = open(path, O_PATH | O_CLOEXEC);
	if (handle < 0)
		return -errno;
	if (statx(handle, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_TYPE | STATX_INO, &st)) {
		err = -errno;
		goto out;
	}
	dev = makedev(st.stx_dev_major, st.stx_dev_minor);
	if (!S_ISREG(st.stx_mode) || st.stx_ino != v->inode || st.stx_dev_major != v->dev_major ||
	    st.stx_dev_minor != v->dev_minor)
		goto out;
	if (!kernel_shm(dev) && !mounts_is(pid, dev, shm))
		goto out;
	fd = opener_shm(handle, writes);
	if (fd < 0) {
		err = fd;
		goto out;
	}
	if (ff_vma_ask(maps, v->start, &now) || !same_mapping(v, &now) || !ctl_peer_lives(pidfd)) {
		close(fd);
		goto out;
	}
	err = fd;
out:
	close(handle);
	return err;
}
