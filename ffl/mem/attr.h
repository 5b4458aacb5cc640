/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * attr.h - what the program has asked of a mapping, beyond its protection. See attr.c.
 */
#ifndef FFL_MEM_ATTR_H
#define FFL_MEM_ATTR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct ffl_attr {
	bool is_locked; /* mlock() */
	int advice[4];	/* for madvise(), 0 ends */
};

/*
 * [region lock] Of the mappings of [va, end). 0; -EOPNOTSUPP: a shadow mapping could not have the
 * same, or differs within; -EAGAIN: finding out takes too much of the program's time, and `must`
 * is not set.
 */
int ffl_attr_get(uintptr_t va, uintptr_t end, bool must, struct ffl_attr *out);
/* A shadow mapping gets the same: before it is at the program's address, and after. */
int ffl_attr_before(const struct ffl_attr *a, void *home, size_t len);
void ffl_attr_after(const struct ffl_attr *a, void *va, size_t len);

#endif
