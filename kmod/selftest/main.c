// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - the self-test of ffmem.ko: ffmem_test [GROUP...], as root with the module loaded; the group
 * `load FILE` loads it itself. Says what was tested and how long it took; the first mistake ends it.
 */
#include "ft.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct check_group groups[] = {
	{ "calls", test_calls }, { "kinds", test_kinds }, { "follow", test_follow },
	{ "ends", test_ends },	 { "waits", test_waits }, { "traffic", test_traffic },
	{ "fuzz", test_fuzz },
};

int main(int argc, char **argv)
{
	const struct rlimit most = { RLIM_INFINITY, RLIM_INFINITY };

	setrlimit(RLIMIT_MEMLOCK, &most); /* owners', too: 8 MB are few pages of 64 KB */
	setvbuf(stdout, NULL, _IOLBF, 0);
	ft_signals();
	if (argc == 3 && !strcmp(argv[1], "load")) {
		test_load(argv[2]);
		return 0;
	}
	ft_fd = ft_open();
	check_groups(groups, sizeof(groups) / sizeof(groups[0]), argc, argv);
	return 0;
}
