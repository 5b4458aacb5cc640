/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* asleep.h - does a thread of the test sleep in the kernel? */
#ifndef ASLEEP_H
#define ASLEEP_H

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static inline bool is_asleep(int tid)
{
	char path[64], line[256] = "";
	const char *end;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", tid);
	f = fopen(path, "re");
	if (!f)
		return false;
	end = fgets(line, sizeof(line), f) ? strrchr(line, ')') : NULL;
	fclose(f);
	return end && end[1] == ' ' && end[2] == 'S';
}

#endif
