/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * limits_text.h - limits as people write and read them: 10Gbit, 500k, 64kB, yes. Any thread.
 *
 *	RATE	bits per second in powers of 1000, with their unit: bit, kbit, Mbit, Gbit, Tbit
 *	COUNT	a number, or one in powers of 1000: k, M, G
 *	BYTES	a number, or one in powers of 1024: B, kB, MB, GB, TB
 *	CPUS	a number of CPUs, or of thousandths: 0.5, 500m
 *	FLAG	yes or no
 *
 * Numbers may have a fraction: 1.5Gbit. Case is of no matter. "none" takes away what was set;
 * "unlimited" is FFO_UNLIMITED.
 */
#ifndef FFO_BASE_LIMITS_TEXT_H
#define FFO_BASE_LIMITS_TEXT_H

#include "ffo/base/limits.h"

#define LIMIT_TEXT_MAX 32u

/*
 * 0, or -errno: -EINVAL (it is not written so), -ERANGE (0, or above what that limit can be). A
 * rate that is no whole number of bytes per second is rounded, up to one at least.
 */
int ffo_limit_parse(enum ffo_limit_kind kind, uint64_t max, const char *text, uint64_t *value);
/* How it is to be written, for a message. */
const char *ffo_limit_example(enum ffo_limit_kind kind);
/* Exactly that value, as short as possible; 0: "none". Returns buf. */
const char *ffo_limit_text(enum ffo_limit_kind kind, uint64_t value, char buf[LIMIT_TEXT_MAX]);

#endif
