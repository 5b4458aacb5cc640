/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* mounts.c - see mounts.h. Control thread; called by ctl_peer.c and shadow.c. */
#include "mounts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>

/* "36 35 0:31 / /dev/shm rw - tmpfs tmpfs rw": the type stands behind " - ". */
static bool line_is(const char *line, dev_t dev, const char *const *types)
{
	const char *type = strstr(line, " - ");
	unsigned major, minor;

	if (!type || sscanf(line, "%*d %*d %u:%u", &major, &minor) != 2 ||
	    makedev(major, minor) != dev)
		return false;
	type += 3;
	for (; *types; types++) {
		size_t n = strlen(*types);

		if (!strncmp(type, *types, n) && type[n] == ' ')
			return true;
	}
	return false;
}

bool mounts_is(pid_t pid, dev_t dev, const char *const *types)
{
	char path[32], *line = NULL;
	bool found = false;
	size_t size = 0, sum = 0;
	ssize_t n;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)pid);
	f = fopen(path, "re");
	if (!f)
		return false;
	while (!found && sum < MOUNTS_MAX && (n = getline(&line, &size, f)) > 0) {
		sum += (size_t)n;
		found = line_is(line, dev, types);
	}
	free(line);
	fclose(f);
	return found;
}
