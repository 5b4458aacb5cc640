/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mounts.c - see mounts.h. Keeper; called by hello.c and keeper/.
 *
 * Reading a mount table takes 2 ms for each MB, and its length and its changes are a client's to make.
 * So one is kept by a thread during a call, as a list of devices with their types, while poll() of it tells of no
 * change: what was mounted then is still mounted, so a device number means what it meant. A descriptor of
 * it is bound to the mount namespace, not to the process's number.
 */
#include "ffr/keeper/mounts.h"

#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ffr/keeper/opener.h"

#define TYPE_SIZE  16	 /* longer ones are nobody's question */
#define MOUNTS_NUM 8192u /* lines that are kept */
/* A table that changes while it is read is read again, so often, if it is so short: 0.1 ms each. */
#define AGAIN_NUM  8u
#define AGAIN_SIZE (64u << 10)

struct mount {
	dev_t dev;
	char type[TYPE_SIZE];
};

static __thread struct {
	pid_t pid; /* 0: none is kept */
	int fd;
	struct mount *mount;
	uint32_t num, size;
} kept;

static __thread uint32_t reads_left = UINT_MAX; /* this: outside of a call */

/* "36 35 0:31 / /dev/shm rw - tmpfs tmpfs rw": the type stands behind " - ". */
static bool line_parse(const char *line, struct mount *m)
{
	const char *type = strstr(line, " - ");
	unsigned major, minor;
	size_t n;

	if (!type || sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2)
		return false;
	type += 3;
	n = strcspn(type, " ");
	if (!n || n >= TYPE_SIZE)
		return false;
	m->dev = makedev(major, minor);
	memcpy(m->type, type, n);
	m->type[n] = '\0';
	return true;
}

static bool keep(const struct mount *m)
{
	uint32_t size = kept.size ? 2 * kept.size : 64;
	struct mount *more;

	if (kept.num == MOUNTS_NUM)
		return false;
	if (kept.num == kept.size) {
		more = realloc(kept.mount, size * sizeof(*more));
		if (!more)
			return false;
		kept.mount = more;
		kept.size = size;
	}
	kept.mount[kept.num++] = *m;
	return true;
}

static void forget(void)
{
	if (kept.pid)
		close(kept.fd);
	kept.pid = 0;
	kept.num = 0;
}

/* The kernel tells of a change since the last time that it was asked. */
static bool has_changed(void)
{
	struct pollfd p = { .fd = kept.fd, .events = POLLPRI };

	return poll(&p, 1, 0) != 0;
}

/* False: it has changed meanwhile, and is to be read again. */
static bool table_read(pid_t pid)
{
	char path[32], *line = NULL;
	size_t size = 0, sum = 0;
	struct mount m;
	ssize_t n;
	FILE *f;
	int fd;

	forget();
	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	fd = opener_proc(path);
	if (fd < 0)
		return true;
	kept.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0);
	f = fdopen(fd, "r");
	if (kept.fd < 0 || !f) {
		if (kept.fd >= 0)
			close(kept.fd);
		close(fd);
		return true;
	}
	kept.pid = pid;
	while (sum < MOUNTS_MAX && (n = getline(&line, &size, f)) > 0) {
		sum += (size_t)n;
		if (line_parse(line, &m) && !keep(&m))
			break;
	}
	free(line);
	fclose(f);
	if (!has_changed())
		return true;
	forget(); /* it may be of two times */
	return sum > AGAIN_SIZE;
}

void mounts_call_begins(void)
{
	reads_left = 1;
}

void mounts_call_ends(void)
{
	forget();
	reads_left = UINT_MAX;
	free(kept.mount); /* the thread may be about to end */
	kept.mount = NULL;
	kept.size = 0;
}

static bool is_mounted(dev_t dev, const char *const *types)
{
	for (uint32_t i = 0; kept.pid && i < kept.num; i++)
		for (const char *const *t = types; *t; t++)
			if (kept.mount[i].dev == dev && !strcmp(kept.mount[i].type, *t))
				return true;
	return false;
}

bool mounts_is(pid_t pid, dev_t dev, const char *const *types)
{
	bool is;

	if (kept.pid != pid || has_changed()) {
		forget();
		if (!reads_left)
			return false;
		if (reads_left != UINT_MAX)
			reads_left--;
		for (unsigned n = 0; n <= AGAIN_NUM && !table_read(pid); n++)
			;
	}
	is = is_mounted(dev, types);
	if (reads_left == UINT_MAX)
		forget();
	return is;
}
