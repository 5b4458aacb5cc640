/* SPDX-License-Identifier: GPL-2.0 */
/*
 * check.h - what the self-tests of the modules share: checks, of which the first that fails ends the
 * test, and the groups of cases (check.c).
 */
#ifndef CHECK_H
#define CHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#define check_fail(...)                                                                            \
	do {                                                                                       \
		fprintf(stderr, "%s:%d: ", __FILE__, __LINE__);                                    \
		fprintf(stderr, __VA_ARGS__);                                                      \
		fputc('\n', stderr);                                                               \
		exit(1);                                                                           \
	} while (0)
#define CHECK(x)                                                                                   \
	do {                                                                                       \
		if (!(x))                                                                          \
			check_fail("not so: %s (%m)", #x);                                         \
	} while (0)
/* A call that must give this value: 0, or the negative errno. */
#define EXPECT(call, want)                                                                         \
	do {                                                                                       \
		long got_ = (call);                                                                \
		if (got_ != (want))                                                                \
			check_fail("%s is %ld, not %ld", #call, got_, (long)(want));               \
	} while (0)

double check_now(void); /* seconds */

struct check_group {
	const char *name;
	void (*run)(void);
};

/* Runs those that argv names, or all, and says how long each took. */
void check_groups(const struct check_group *groups, size_t num, int argc, char **argv);

#endif
