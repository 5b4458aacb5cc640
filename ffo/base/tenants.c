/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * tenants.c - see tenants.h. Used by the orchestrator and by the router. Any thread.
 */
#include "ffo/base/tenants.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static_assert(FFO_TENANTS_MAX == 512, "TENANTS_FULL");

/* Where it is, or would be. */
static size_t place(const struct ffo_tenant *list, size_t n, const char *name)
{
	size_t i = 0;

	while (i < n && strcmp(list[i].name, name) < 0)
		i++;
	return i;
}

const struct ffo_tenant *tenants_find(const struct ffo_tenant *list, size_t n, const char *name)
{
	size_t i = place(list, n, name);

	return i < n && !strcmp(list[i].name, name) ? &list[i] : NULL;
}

int tenants_change(struct ffo_tenant *list, size_t *n, const char *name,
		   const struct ffo_limits_change *change)
{
	size_t i = place(list, *n, name);
	bool there = i < *n && !strcmp(list[i].name, name);
	struct ffo_tenant t = { 0 };

	if (there)
		t = list[i];
	snprintf(t.name, sizeof(t.name), "%s", name);
	ffo_limits_apply(&t.limits, change);
	if (ffo_limits_any(&t.limits)) {
		if (!there && *n == FFO_TENANTS_MAX)
			return -ENOSPC;
		if (!there) {
			memmove(&list[i + 1], &list[i], (*n - i) * sizeof(*list));
			++*n;
		}
		list[i] = t;
	} else if (there) {
		--*n;
		memmove(&list[i], &list[i + 1], (*n - i) * sizeof(*list));
	}
	return 0;
}

json_t *tenants_to_json(const struct ffo_tenant *list, size_t n)
{
	json_t *j = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(j, ffo_tenant_to_json(&list[i]))) {
			json_decref(j);
			return NULL;
		}
	return j;
}

int tenants_from_json(json_t *j, struct ffo_tenant *list, size_t *n)
{
	size_t num = json_array_size(j);

	*n = 0;
	if (!json_is_array(j) || num > FFO_TENANTS_MAX)
		return -EINVAL;
	for (size_t i = 0; i < num; i++)
		if (ffo_tenant_from_json(json_array_get(j, i), &list[i]) ||
		    (i && strcmp(list[i - 1].name, list[i].name) >= 0))
			return -EINVAL;
	*n = num;
	return 0;
}
