// SPDX-License-Identifier: GPL-2.0
/* check.c - see check.h. */
#include "check.h"

#include <string.h>
#include <time.h>

double check_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

void check_groups(const struct check_group *groups, size_t num, int argc, char **argv)
{
	for (size_t i = 0; i < num; i++) {
		double t = check_now();
		bool wanted = argc == 1;

		for (int a = 1; a < argc; a++)
			wanted |= !strcmp(argv[a], groups[i].name);
		if (!wanted)
			continue;
		printf("%s\n", groups[i].name);
		groups[i].run();
		printf("%s: ok, %.1f s\n", groups[i].name, check_now() - t);
	}
}
