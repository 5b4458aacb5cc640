/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tenant.c - the tenants' limits, as the orchestrator tells them, put into force. Called by
 * orch.c. Control thread.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/tenants.h"
#include "ffr/fast/fast.h"
#include "ffr/orch/internal.h"

/* Those that are on the list no more. [lock] */
static int lift(struct fast_host *h, const struct ffo_tenant *list, size_t n)
{
	static const struct ffo_limits none;
	struct tenant *t, *next;
	int err = 0;

	for (t = LIST_FIRST(&h->tenants); !err && t; t = next) {
		next = LIST_NEXT(t, entry);
		if (ffo_limits_any(&t->limits) && !tenants_find(list, n, t->name))
			err = fast_tenant_limits(h, t->name, &none);
	}
	return err;
}

/* What has not changed is left alone: the meters keep what they know. [lock] */
static int impose(struct fast_host *h, const struct ffo_tenant *t)
{
	const struct ffo_limits l = ffo_limits_in_force(&t->limits, NULL);
	const struct tenant *is;

	LIST_FOREACH(is, &h->tenants, entry)
		if (!strcmp(is->name, t->name) && !memcmp(&is->limits, &l, sizeof(l)))
			return 0;
	return fast_tenant_limits(h, t->name, &l);
}

int orch_tenants(struct fast_host *h, json_t *j)
{
	struct ffo_tenant *list = malloc(FFO_TENANTS_MAX * sizeof(*list));
	int err = list ? 0 : -ENOMEM;
	size_t n;

	if (!err)
		err = tenants_from_json(j, list, &n);
	if (!err) {
		fast_lock(h);
		err = lift(h, list, n);
		for (size_t i = 0; !err && i < n; i++)
			err = impose(h, &list[i]);
		fast_unlock(h);
	}
	free(list);
	return err;
}
