/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dynsym.h - the names that a loaded library exports, read from its file, so that a test can insist
 * on having a case for each of them.
 */
#ifndef DYNSYM_H
#define DYNSYM_H

#include "tests/rig/verbs/vt.h"

/* Calls fn for each function that the library with the function `inside` exports, once a name. */
void dynsym_each(const void *inside, void (*fn)(const char *name, void *arg), void *arg);
/*
 * Each exported function whose name `want` is for must be the name of one of the cases; the case
 * fails with those that are not.
 */
void dynsym_covered(const void *inside, bool (*want)(const char *name), const struct vt_case *cases,
		    size_t num);

#endif
