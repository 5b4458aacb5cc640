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
 * same, or differs within; -EXDEV: it has a NUMA policy; -EAGAIN: finding out takes too much of the program's time,
 * and `must` is not set.
 */
int ffl_attr_get(uintptr_t va, uintptr_t end, bool must, struct ffl_attr *out);
/* [region lock] Of shadow pages [va, end), which are to be private again. 0 or -EOPNOTSUPP. */
int ffl_attr_of_shadow(uintptr_t va, uintptr_t end, struct ffl_attr *out);
/* The mapping that takes their place gets the same: before it is at the program's address, and after. */
int ffl_attr_before(const struct ffl_attr *a, void *home, size_t len);
void ffl_attr_after(const struct ffl_attr *a, void *va, size_t len);

/*
 * [region lock] Has a mapping exactly the advice that is expected, and no other advice, no NUMA policy and no
 * protection key? Call ffl_attr_expect() first, which returns 0 or -errno; then ffl_attr_is(); at last, in any
 * case, ffl_attr_forget(). The mapping has that protection and length, at most `max` of ffl_attr_init(). It is
 * private, anonymous, empty, and registered with `uffd` for missing pages. `uffd` has no UFFD_FEATURE_EVENT_REMAP.
 */
int ffl_attr_init(size_t max);
void ffl_attr_fini(void);
int ffl_attr_expect(const struct ffl_attr *a, int prot, size_t len);
bool ffl_attr_is(int uffd, char *p, size_t len);
void ffl_attr_forget(void);
/* Is the mapping of that page locked? The page will be reclaimed sooner than others. */
bool ffl_attr_is_locked(char *page);

#endif
