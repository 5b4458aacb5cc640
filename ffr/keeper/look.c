/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * look.c - which files a client has mapped shared in some ranges of its address space. A thread for
 * each question, in the keeper, or in the router where there is no keeper. Called by clients.c.
 *
 * Both the client's maps and /proc/PID/map_files need the lock of its address space. The client can
 * hold that lock for seconds, by a fork() with many pages. So the keeper's first thread, which answers
 * the router for all clients, asks neither of them. It starts a thread for the question. That thread
 * asks, and sends what it finds through the question's own socket, whose end is the end of the answer.
 *
 * Tests: test_keeper.c, unit/mem/test_shadow.c
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/keeper/mounts.h"
#include "ffr/lib/fds.h"

/*
 * What one question may cost: mappings that are asked for, 1 us each, and files that are opened, or
 * cannot be, 30 us each. What is beyond is not found.
 */
#define ASKED_MAX 512u
#define TRIED_MAX 32u

#define LOOKS_MAX 4096u /* at a time; a session has one */

struct look {
	pid_t pid;
	int pidfd, maps, sock;
	bool writes;
	uint32_t n;
	struct keeper_range range[];
};

static _Atomic uint32_t looks;

static void look_free(struct look *l)
{
	if (l->pidfd >= 0)
		close(l->pidfd);
	if (l->maps >= 0)
		close(l->maps);
	if (l->sock >= 0)
		close(l->sock);
	free(l);
	atomic_fetch_sub(&looks, 1);
}

/* False: nobody waits for it any more. */
static bool tell(const struct look *l, const struct keeper_found *found, int fd)
{
	ssize_t n;

	do
		n = fds_send(l->sock, found, sizeof(*found), &fd, 1, 0);
	while (n < 0 && errno == EINTR);
	return n >= 0;
}

static void look_through(const struct look *l)
{
	uint32_t need = FF_VMA_SHARED | FF_VMA_READ | (l->writes ? FF_VMA_WRITE : 0);
	uint32_t asked = 0, tried = 0;

	for (uint32_t i = 0; i < l->n; i++) {
		struct ff_vma v = { 0 };

		for (uint64_t at = l->range[i].start; at < l->range[i].end; at = v.end) {
			struct keeper_found found;
			bool told;
			int fd;

			if (asked++ == ASKED_MAX || ff_vma_ask(l->maps, at, &v))
				return;
			found = (struct keeper_found){
				.start = v.start > at ? v.start : at,
				.end = v.end < l->range[i].end ? v.end : l->range[i].end,
				.vma = v,
			};
			if (found.start >= found.end || (v.flags & need) != need)
				continue;
			if (tried++ == TRIED_MAX)
				return;
			/* as the client has it: only what can be written to can be guarded */
			fd = map_file_open(l->pid, l->pidfd, l->maps, &v, v.flags & FF_VMA_WRITE);
			if (fd < 0)
				continue;
			told = tell(l, &found, fd);
			close(fd);
			if (!told)
				return;
		}
	}
}

static void *look_thread(void *arg)
{
	struct look *l = arg;

	mounts_call_begins();
	look_through(l);
	mounts_call_ends();
	look_free(l);
	return NULL;
}

void look_settle(void)
{
	while (atomic_load(&looks))
		sched_yield();
}

int look_start(pid_t pid, int pidfd, int maps, const struct keeper_range *range, uint32_t n,
	       bool writes, int sock)
{
	struct look *l;
	int err;

	if (n > KEEPER_RANGES)
		return -EINVAL;
	if (atomic_fetch_add(&looks, 1) >= LOOKS_MAX) {
		atomic_fetch_sub(&looks, 1);
		return -EAGAIN;
	}
	l = calloc(1, sizeof(*l) + n * sizeof(*range));
	if (!l) {
		atomic_fetch_sub(&looks, 1);
		return -ENOMEM;
	}
	l->pid = pid;
	l->writes = writes;
	l->n = n;
	for (uint32_t i = 0; i < n; i++)
		l->range[i] = range[i];
	l->pidfd = fcntl(pidfd, F_DUPFD_CLOEXEC, 0);
	l->maps = fcntl(maps, F_DUPFD_CLOEXEC, 0);
	l->sock = fcntl(sock, F_DUPFD_CLOEXEC, 0);
	err = l->pidfd < 0 || l->maps < 0 || l->sock < 0 ? -errno : keeper_thread(look_thread, l);
	if (err)
		look_free(l);
	return err;
}
