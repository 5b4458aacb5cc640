/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * runs.c - does a container run? The keeper looks for a mount of the container's folder in other
 * mount namespaces, and for processes in the container's cgroup. A thread for each question,
 * because a host may have thousands of processes; it answers through the question's own socket.
 * Keeper, or the control thread where there is no keeper. Called by keeper.c and call.c.
 *
 * A mount of the folder is a line of /proc/PID/mountinfo with the folder's file system and with the
 * folder's path in that file system. Both follow from the keeper's own mountinfo and the folder's
 * descriptor: no file system is asked, since it may be a client's. One process of each mount
 * namespace is looked at. A folder that was removed while it was mounted has "//deleted" behind its
 * path: programs below such a mount reach no router any more.
 *
 * A container can hide only itself (by a mount table that is longer than MOUNTS_MAX), and is
 * claimed from another host then.
 *
 * Tests: test_keeper.c, system/claim.sh
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/keeper/mounts.h"
#include "ffr/keeper/opener.h"
#include "ffr/lib/cgroup.h"
#include "ffr/lib/fds.h"

#define RUNS_MAX   16u	       /* questions at a time */
#define SPACES_MAX 16384u      /* mount namespaces that one question looks at */
#define BYTES_MAX  (64u << 20) /* of their tables: 2 ms for each MB */
#define DELETED	   "//deleted"

/* A folder as mount tables show it. */
struct folder {
	dev_t dev;	     /* of its file system */
	char path[PATH_MAX]; /* in that file system */
};

struct runs {
	int dir, sock;
	char cgroup[CGROUP_MAX]; /* "": not known */
	struct folder folder;
	ino_t *space; /* mount namespaces that were looked at; [0] is ours */
	uint32_t num, size;
	size_t bytes;	/* of tables */
	uint32_t found; /* KEEPER_RUNS_* */
};

static _Atomic uint32_t questions;

static void runs_free(struct runs *r)
{
	if (r->dir >= 0)
		close(r->dir);
	if (r->sock >= 0)
		close(r->sock);
	free(r->space);
	free(r);
	atomic_fetch_sub(&questions, 1);
}

/* ---- lines of mountinfo ---------------------------------------------------------------------- */

static bool is_octal(char c)
{
	return c >= '0' && c <= '7';
}

/* The kernel writes blanks, tabs, line feeds and backslashes as three octal digits. */
static void unescape(char *s)
{
	char *to = s;

	for (; *s; to++) {
		if (s[0] == '\\' && is_octal(s[1]) && is_octal(s[2]) && is_octal(s[3])) {
			*to = (char)((s[1] - '0') << 6 | (s[2] - '0') << 3 | (s[3] - '0'));
			s += 4;
		} else {
			*to = *s++;
		}
	}
	*to = '\0';
}

struct line {
	int id;
	dev_t dev;
	char *root, *point; /* of the mount in its file system; where it is mounted */
};

/* "36 35 0:31 /root /mnt rw ...". The line is changed. */
static bool line_parse(char *text, struct line *l)
{
	unsigned major, minor;
	int at = 0;
	char *rest;

	if (sscanf(text, "%d %*d %u:%u %n", &l->id, &major, &minor, &at) != 3 || !at)
		return false;
	rest = text + at;
	l->root = strsep(&rest, " ");
	l->point = strsep(&rest, " ");
	if (!rest)
		return false;
	unescape(l->root);
	unescape(l->point);
	l->dev = makedev(major, minor);
	return true;
}

/* `path`, or what is below it. */
static bool begins(const char *s, const char *path)
{
	size_t n = strlen(path);

	return !strncmp(s, path, n) && (!s[n] || s[n] == '/');
}

/* The number of the mount that the descriptor is of, or -1. Asks no file system. */
static int mount_of(int fd)
{
	struct statx st;

	if (statx(fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_MNT_ID, &st) ||
	    !(st.stx_mask & STATX_MNT_ID))
		return -1;
	return (int)st.stx_mnt_id;
}

/*
 * Set the folder's path in its file system, from the line of its mount: behind the mount point, both paths are equal.
 */
static bool folder_at(struct folder *d, const struct line *l, const char *path)
{
	const char *point = strcmp(l->point, "/") ? l->point : "";
	const char *root = strcmp(l->root, "/") ? l->root : "";
	int n;

	if (!begins(path, point))
		return false;
	d->dev = l->dev;
	n = snprintf(d->path, sizeof(d->path), "%s%s", root, path + strlen(point));
	return n > 1 && (size_t)n < sizeof(d->path);
}

/* 0 or -errno: what mount tables show of the folder that is open as fd. */
static int folder_find(struct folder *d, int fd)
{
	char link[64], path[PATH_MAX], *text = NULL;
	int id = mount_of(fd), err = -ENOENT;
	size_t size = 0;
	struct line l;
	ssize_t n;
	FILE *f;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	n = readlink(link, path, sizeof(path) - 1);
	if (n <= 0 || id < 0)
		return -ENOENT;
	path[n] = '\0';
	f = opener_proc_stream("/proc/self/mountinfo");
	while (f && getline(&text, &size, f) > 0)
		if (line_parse(text, &l) && l.id == id)
			err = folder_at(d, &l, path) ? 0 : -EXDEV;
	free(text);
	if (f)
		fclose(f);
	return err;
}

/* ---- processes ------------------------------------------------------------------------------- */

static ino_t space_of(const char *pid)
{
	char path[64];
	struct stat st;

	snprintf(path, sizeof(path), "/proc/%s/ns/mnt", pid);
	return stat(path, &st) ? 0 : st.st_ino;
}

/* Is it one that was not looked at? */
static bool space_is_new(struct runs *r, ino_t space)
{
	uint32_t size = r->size ? 2 * r->size : 64;
	ino_t *more;

	for (uint32_t i = 0; i < r->num; i++)
		if (r->space[i] == space)
			return false;
	if (r->num == SPACES_MAX || r->bytes > BYTES_MAX) {
		r->found |= KEEPER_RUNS_UNSURE;
		return false;
	}
	if (r->num == r->size) {
		more = realloc(r->space, size * sizeof(*more));
		if (!more) {
			r->found |= KEEPER_RUNS_UNSURE;
			return false;
		}
		r->space = more;
		r->size = size;
	}
	r->space[r->num++] = space;
	return true;
}

static void line_look(struct runs *r, char *text)
{
	size_t n = strlen(r->folder.path);
	struct line l;

	if (!line_parse(text, &l) || l.dev != r->folder.dev || !begins(l.root, r->folder.path))
		return;
	/* the folder's own removal; that of a file in it tells nothing */
	r->found |= !strcmp(l.root + n, DELETED) ? KEEPER_RUNS_STALE : KEEPER_RUNS_MOUNTED;
}

static void table_look(struct runs *r, const char *pid)
{
	char path[64], *text = NULL;
	size_t size = 0, sum = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%s/mountinfo", pid);
	f = opener_proc_stream(path);
	while (f && sum < MOUNTS_MAX && (n = getline(&text, &size, f)) > 0) {
		sum += (size_t)n;
		line_look(r, text);
	}
	r->bytes += sum;
	free(text);
	if (f)
		fclose(f);
}

static void process_look(struct runs *r, const char *pid)
{
	char cgroup[CGROUP_MAX];
	ino_t space;

	if (*r->cgroup && !opener_cgroup_of((pid_t)atoi(pid), cgroup) &&
	    cgroup_within(cgroup, r->cgroup))
		r->found |= KEEPER_RUNS_CGROUP;
	space = space_of(pid);
	if (space && space_is_new(r, space))
		table_look(r, pid);
}

static int look_through(struct runs *r)
{
	int err = folder_find(&r->folder, r->dir);
	struct dirent *e;
	DIR *d;
	int fd;

	if (err)
		return err;
	space_is_new(r, space_of("self"));
	fd = opener_proc("/proc");
	if (fd < 0)
		return fd;
	d = fdopendir(fd);
	if (!d) {
		err = -errno;
		close(fd);
		return err;
	}
	while ((e = readdir(d)) && !(r->found & KEEPER_RUNS_MOUNTED))
		if (isdigit((unsigned char)e->d_name[0]))
			process_look(r, e->d_name);
	closedir(d);
	return 0;
}

static void *runs_thread(void *arg)
{
	struct runs *r = arg;
	int err = look_through(r);
	struct keeper_ran ran = { .err = err, .found = r->found };

	while (fds_send(r->sock, &ran, sizeof(ran), NULL, 0, 0) < 0 && errno == EINTR)
		;
	runs_free(r);
	return NULL;
}

void runs_settle(void)
{
	while (atomic_load(&questions))
		sched_yield();
}

int runs_start(int dir, const char *cgroup, int sock)
{
	struct runs *r;
	int err;

	if (atomic_fetch_add(&questions, 1) >= RUNS_MAX) {
		atomic_fetch_sub(&questions, 1);
		return -EAGAIN;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		atomic_fetch_sub(&questions, 1);
		return -ENOMEM;
	}
	snprintf(r->cgroup, sizeof(r->cgroup), "%s", cgroup);
	r->dir = fcntl(dir, F_DUPFD_CLOEXEC, 0);
	r->sock = fcntl(sock, F_DUPFD_CLOEXEC, 0);
	err = r->dir < 0 || r->sock < 0 ? -errno : keeper_thread(runs_thread, r);
	if (err)
		runs_free(r);
	return err;
}
