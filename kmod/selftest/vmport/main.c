// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - the self-test of vmport.ko, as root in a VM with three enumerated ports:
 * vmport_test [GROUP...]. With another VM: `serve` there, `peer ID` here, ID being the other's first
 * port. Says what was tested and how long it took; the first mistake ends it.
 */
#include "vt.h"

#include <string.h>

static const struct check_group groups[] = {
	{ "maint", test_maint },	 { "dma", test_dma },	{ "windows", test_windows },
	{ "doorbells", test_doorbells }, { "time", test_time }, { "cm", test_cm },
	{ "faults", test_faults },
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	if (argc == 2 && !strcmp(argv[1], "serve")) {
		serve();
		return 0;
	}
	if (argc == 3 && !strcmp(argv[1], "peer")) {
		test_peer(strtoul(argv[2], NULL, 0));
		return 0;
	}
	check_groups(groups, sizeof(groups) / sizeof(groups[0]), argc, argv);
	return 0;
}
