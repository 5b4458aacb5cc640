// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/* ffrio_tool.c - see ffrio_tool.h. */
#include "ffrio_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool tool_options(struct tool *t, int argc, char **argv, const char *letters)
{
	int opt;

	while ((opt = getopt(argc, argv, letters)) != -1) {
		if (opt == 'p')
			t->port = atoi(optarg);
		else if (opt == 'e')
			t->endpoint = atoi(optarg);
		else if (opt == 'n')
			t->count = atol(optarg);
		else if (opt == 's')
			t->size = atol(optarg);
		else if (opt == 'l')
			t->listens = true;
		else if (opt == 'z')
			t->in_place = true;
		else if (opt == 'r')
			t->pinned = true;
		else if (opt == 'w')
			t->waits = true;
		else
			return false;
	}
	if (optind + !t->listens != argc)
		return false;
	if (!t->listens)
		t->destid = strtoul(argv[optind], NULL, 0);
	return true;
}

/* If the module has not that port, the kernel says why. */
static void say_why(unsigned int port)
{
	char path[64], why[256];
	FILE *f;

	snprintf(path, sizeof(path), "/sys/class/rapidio_port/rapidio%u/ffrio", port);
	f = fopen(path, "re");
	if (!f)
		return;
	if (fgets(why, sizeof(why), f) && strcmp(why, "ready\n"))
		fprintf(stderr, "%s: port %u: %s", program_invocation_short_name, port, why);
	fclose(f);
}

int tool_open(const struct tool *t, struct ffrio_bind *bound)
{
	int fd = rio_open(t->port, t->listens ? (int)t->endpoint : -1, 0, bound);

	if (fd < 0)
		say_why(t->port);
	return fd;
}

int tool_fail(const char *what, long error)
{
	fprintf(stderr, "%s: %s: %s\n", program_invocation_short_name, what, strerror(-error));
	return 1;
}
