/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carriers.h - what carries queue pairs, for operators. See carriers.c.
 */
#ifndef FFR_ADMIN_CARRIERS_H
#define FFR_ADMIN_CARRIERS_H

#include "ffr/fast/fast.h"

/* [lock] A static string; NULL: nothing does yet, before RTR. */
const char *carrier_of(const struct qp *qp);

/* Queue pairs that are connected, by what carries them. Zeroed at first. */
#define CARRIERS_MAX 8u
struct carriers {
	struct carried {
		const char *by;
		uint32_t qps;
	} list[CARRIERS_MAX];
	uint32_t n;
};
void carriers_add(struct carriers *sum, const struct container *c);

#endif
