/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* memory_uffd.c - a userfaultfd of the program's own on the memory. */
#include "tests/conformance/memory.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>

/* What headers of Debian 12 have not. */
struct move_args {
	uint64_t dst, src, len, mode;
	int64_t moved;
};
#define IOCTL_MOVE   _IOWR(UFFDIO, 0x05, struct move_args)
#define FEATURE_MOVE (1 << 16)

static int uffd = -1;
static struct area *watched;
static _Atomic unsigned faults;

static void *handler(void *arg)
{
	static uint8_t pages[2 << 20] __attribute__((aligned(4096)));
	size_t unit = watched->kind->align; /* what is missing, or protected, at a time */
	struct uffd_msg msg;

	while (read(uffd, &msg, sizeof(msg)) == (ssize_t)sizeof(msg)) {
		uint64_t at = msg.arg.pagefault.address & ~(uint64_t)(unit - 1);

		if (msg.event != UFFD_EVENT_PAGEFAULT)
			continue;
		faults++;
		if (msg.arg.pagefault.flags & UFFD_PAGEFAULT_FLAG_WP) {
			struct uffdio_writeprotect wp = { .range = { at, unit } };

			ioctl(uffd, UFFDIO_WRITEPROTECT, &wp);
		} else {
			struct uffdio_copy copy = { at, (uintptr_t)pages, unit, 0, 0 };

			for (size_t i = 0; i < unit / PAGE; i++)
				fill(pages + i * PAGE, NEW,
				     (unsigned)((at - (uintptr_t)watched->p) / PAGE + i));
			ioctl(uffd, UFFDIO_COPY, &copy);
		}
	}
	return arg;
}

static bool watch(struct area *a, uint64_t features, uint64_t mode)
{
	struct uffdio_api api = { .api = UFFD_API, .features = features };
	struct uffdio_register range = { .range = { (uintptr_t)MIDDLE(a), MIDDLE_LEN(a) },
					 .mode = mode };
	pthread_t thread;

	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (!say_ret("userfaultfd", uffd) || !say_ret("api", ioctl(uffd, UFFDIO_API, &api)) ||
	    !say_ret("register", ioctl(uffd, UFFDIO_REGISTER, &range)))
		return false;
	watched = a;
	faults = 0;
	return !pthread_create(&thread, NULL, handler, NULL);
}

static void op_missing(struct area *a, int arg)
{
	(void)arg;
	if (!watch(a, 0, UFFDIO_REGISTER_MODE_MISSING))
		return;
	say_ret("dontneed", m_madvise(MIDDLE(a), MIDDLE_LEN(a), MADV_DONTNEED));
}

/*
 * One fault for each page of quarter 1 that is written to; pages of large mappings fault together.
 */
static void op_write_protect(struct area *a, int arg)
{
	struct uffdio_writeprotect wp = { .range = { (uintptr_t)MIDDLE(a), MIDDLE_LEN(a) },
					  .mode = UFFDIO_WRITEPROTECT_MODE_WP };

	(void)arg;
	if (!watch(a, 0, UFFDIO_REGISTER_MODE_WP))
		return;
	say_ret("protect", ioctl(uffd, UFFDIO_WRITEPROTECT, &wp));
	fill_quarters(a, 1, 2, NEW);
	say(" faults=%s", faults ? "yes" : "none");
}

/* Pinned pages are not moved: EBUSY. */
static void op_uffd_move(struct area *a, int arg)
{
	struct uffdio_api api = { .api = UFFD_API, .features = FEATURE_MOVE };
	uint8_t *to = mmap(MOVED_AT, a->q, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	struct uffdio_register range = { .range = { (uintptr_t)to, a->q },
					 .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct move_args move = { (uintptr_t)to, (uintptr_t)MIDDLE(a), a->q, 0, 0 };

	(void)arg;
	uffd = (int)syscall(SYS_userfaultfd, O_CLOEXEC);
	if (!say_ret("userfaultfd", uffd) || !say_ret("api", ioctl(uffd, UFFDIO_API, &api)) ||
	    !say_ret("register", ioctl(uffd, UFFDIO_REGISTER, &range)))
		return;
	if (say_ret("move", ioctl(uffd, IOCTL_MOVE, &move))) {
		a->moved = to;
		a->moved_len = a->q;
		a->moved_page = (unsigned)(a->q / PAGE);
	}
	close(uffd);
}

OPS(ops_uffd, { "uffd-missing", op_missing, 0, 0, NULL }, //
    { "uffd-write-protect", op_write_protect, 0, 0, NULL },
    { "uffd-move", op_uffd_move, 0, 0, NULL })
