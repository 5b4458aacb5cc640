/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ffrio_tool.h - what ffrio's tools have in common: their options, their way to fail. One thread. */
#ifndef FFRIO_TOOL_H
#define FFRIO_TOOL_H

#include "ffrio_lib.h"

struct tool {
	unsigned int port, endpoint, destid; /* -p, -e, DESTID: unless it listens */
	long count;			     /* -n */
	size_t size;			     /* -s, bytes */
	bool listens, in_place;		     /* -l, -z */
	bool pinned, waits;		     /* -r, -w */
};

/* The options and the argument over what t has by default. letters: getopt()'s, of those that the tool has. */
bool tool_options(struct tool *t, int argc, char **argv, const char *letters);
/* Opens the port of t, with the endpoint if it listens, and says why if it has none; bound may be NULL. */
int tool_open(const struct tool *t, struct ffrio_bind *bound);
/* Says what failed, and why; the exit status. */
int tool_fail(const char *what, long error);

#endif
