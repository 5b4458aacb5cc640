/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tenants.h - the list of tenants that have limits, sorted by name. Any thread; the list is the
 * caller's.
 */
#ifndef FFO_BASE_TENANTS_H
#define FFO_BASE_TENANTS_H

#include "ffo/base/proto.h"
#include "ffo/base/limits.h"

#define TENANTS_FULL "512 tenants have limits already"

/* NULL: it has no limits. */
const struct ffo_tenant *tenants_find(const struct ffo_tenant *list, size_t n, const char *name);
/*
 * Change a tenant's limits in a list of *n with room for FFO_TENANTS_MAX; it comes and goes with
 * its limits. 0 or -ENOSPC.
 */
int tenants_change(struct ffo_tenant *list, size_t *n, const char *name,
		   const struct ffo_limits_change *change);

/* To an array: a new reference, or NULL without memory. */
json_t *tenants_to_json(const struct ffo_tenant *list, size_t n);
/* From one, into room for FFO_TENANTS_MAX: 0, or -EINVAL: it is none, or not sorted. */
int tenants_from_json(json_t *j, struct ffo_tenant *list, size_t *n);

#endif
