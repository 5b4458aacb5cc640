/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* cgroup.c - see cgroup.h. Any thread. */
#include "ffr/lib/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* More is not read: 16 hierarchies with the longest paths. */
#define TEXT_MAX (16u * CGROUP_MAX)

const char *cgroup_path_wrong(const char *path)
{
	size_t n;

	if (path[0] != '/')
		return "a cgroup's path begins with \"/\", at the root of all cgroups";
	if (!path[1])
		return "\"/\" is the root of all cgroups: every process is in it";
	/* one more may be the beginning of a longer one, which the kernel has cut off */
	if (strlen(path) >= CGROUP_MAX - 1)
		return "no cgroup's path is so long";
	for (const char *p = path; *p; p++)
		if ((unsigned char)*p < ' ' || *p == 0x7f)
			return "a control character is in it";
	for (const char *p = path; *p; p += n) {
		p++;
		n = strcspn(p, "/");
		if (!n)
			return "an empty name is in it, or \"/\" at its end";
		if (p[0] == '.' && (n == 1 || (n == 2 && p[1] == '.')))
			return "\".\" and \"..\" are no cgroups' names";
	}
	return NULL;
}

/* Is `name` one of "cpu,cpuacct"? */
static bool has_controller(const char *list, const char *name)
{
	size_t len = strlen(name), n;

	for (;; list += n + 1) {
		n = strcspn(list, ",");
		if (n == len && !strncmp(list, name, n))
			return true;
		if (!list[n])
			return false;
	}
}

/* How good a hierarchy with these controllers is, 0 the best; less than 0: of no use. */
static int rank_of(const char *number, const char *controllers)
{
	if (has_controller(controllers, "pids"))
		return 0;
	if (has_controller(controllers, "memory"))
		return 1;
	if (!strcmp(number, "0") && !*controllers)
		return 2;
	return strcmp(controllers, "name=systemd") ? -1 : 3;
}

/* Lines are "NUMBER:CONTROLLERS:PATH"; there may be a colon in a path, and no newline. */
const char *cgroup_parse(char *text)
{
	const char *best = NULL;
	int best_rank = 4, rank;
	char *line, *rest, *controllers, *path;

	for (line = text; *line; line = rest) {
		rest = strchr(line, '\n');
		if (!rest) /* the rest of it is not here */
			break;
		*rest++ = '\0';
		controllers = strchr(line, ':');
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*controllers++ = '\0';
		*path++ = '\0';
		rank = rank_of(line, controllers);
		if (rank < 0 || rank >= best_rank)
			continue;
		best = *path == '/' && strlen(path) < CGROUP_MAX ? path : NULL;
		best_rank = rank;
	}
	return best;
}

/* All of that file, at most size - 1 bytes. 0 or -errno. */
static int file_read(int fd, char *text, size_t size)
{
	size_t len = 0;
	ssize_t n;

	do
		n = read(fd, text + len, size - 1 - len);
	while (n > 0 && (len += (size_t)n) < size - 1);
	text[len] = '\0';
	return n < 0 ? -errno : 0;
}

static int text_read(const char *name, char *text, size_t size)
{
	int fd = open(name, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -errno;
	err = file_read(fd, text, size);
	close(fd);
	return err;
}

int cgroup_of(pid_t pid, char path[CGROUP_MAX])
{
	char name[32];
	int fd, err;

	snprintf(name, sizeof(name), "/proc/%d/cgroup", (int)pid);
	fd = open(name, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? -ESRCH : -errno;
	err = cgroup_read(fd, path);
	close(fd);
	return err;
}

int cgroup_read(int fd, char path[CGROUP_MAX])
{
	char *text = malloc(TEXT_MAX);
	const char *found;
	int err;

	if (!text)
		return -ENOMEM;
	err = file_read(fd, text, TEXT_MAX);
	found = err ? NULL : cgroup_parse(text);
	if (found)
		memcpy(path, found, strlen(found) + 1);
	else if (!err)
		err = -ENOENT;
	free(text);
	return err;
}

bool cgroup_within(const char *path, const char *cgroup)
{
	size_t n = strlen(cgroup);

	return n > 1 && !strncmp(path, cgroup, n) && (!path[n] || path[n] == '/');
}

bool cgroup_is_outside(const char *path)
{
	return cgroup_within(path, "/..");
}

/* ---- memory ------------------------------------------------------------------------------------ */

/* The least number in the files of that name from `path` up to the root. A word, such as "max", is no limit. */
static uint64_t least_above(const char *root, char *path, const char *file)
{
	char name[2 * CGROUP_MAX], text[32], *end;
	uint64_t least = UINT64_MAX, n;

	for (char *slash = path + strlen(path); slash; slash = strrchr(path, '/')) {
		*slash = '\0';
		if (snprintf(name, sizeof(name), "%s%s/%s", root, path, file) >=
			    (int)sizeof(name) ||
		    text_read(name, text, sizeof(text)))
			continue;
		n = strtoull(text, &end, 10);
		if (end != text && n < least)
			least = n;
	}
	return least;
}

uint64_t cgroup_memory_limit(const char *root, char *text)
{
	uint64_t least = UINT64_MAX, n;
	char *line, *rest, v1[CGROUP_MAX];

	snprintf(v1, sizeof(v1), "%s/memory", root);
	for (line = text; (rest = strchr(line, '\n')); line = rest) {
		char *controllers = strchr(line, ':'), *path;

		*rest++ = '\0';
		path = controllers ? strchr(controllers + 1, ':') : NULL;
		if (!path)
			continue;
		*controllers++ = '\0';
		*path++ = '\0';
		if (has_controller(controllers, "memory"))
			n = least_above(v1, path, "memory.limit_in_bytes");
		else if (!*controllers)
			n = least_above(root, path, "memory.max");
		else
			continue;
		if (n < least)
			least = n;
	}
	return least;
}

uint64_t cgroup_memory_limit_own(void)
{
	char *text = malloc(TEXT_MAX);
	uint64_t n = UINT64_MAX;

	if (text && !text_read("/proc/self/cgroup", text, TEXT_MAX))
		n = cgroup_memory_limit("/sys/fs/cgroup", text);
	free(text);
	return n;
}
