/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dry_run.c - the op that has a change tried:
 * {"op":"dry_run","request":{"op":"container_rm","name":"web"}}. Control thread.
 *
 * The request goes the way of a change, with a field "dry_run" for the orchestrator, whose store
 * makes the change in a transaction and undoes it; then the change of this host is left out. It is
 * an op of its own because a router that does not know the field would make the change.
 *
 * Tests: system/dry_run.sh
 */
#include <errno.h>
#include <string.h>

#include "ffr/admin/admin.h"

static const struct {
	const char *name;
	void (*fn)(struct admin_conn *conn, json_t *msg);
} changes[] = {
	{ "container_add", admin_container_add }, { "container_set", admin_container_set },
	{ "container_rm", admin_container_rm },	  { "container_migrate", admin_container_migrate },
	{ "policy_set", admin_policy_set },	  { "policy_rm", admin_policy_rm },
	{ "tenant_set", admin_tenant_set },
};

bool admin_is_dry_run(json_t *msg)
{
	return json_integer_value(json_object_get(msg, "dry_run"));
}

void admin_dry_run(struct admin_conn *conn, json_t *msg)
{
	json_t *request = json_object_get(msg, "request");
	const char *op = json_string_value(json_object_get(request, "op"));

	for (size_t i = 0; op && i < sizeof(changes) / sizeof(changes[0]); i++) {
		if (strcmp(op, changes[i].name))
			continue;
		json_object_set_new(request, "dry_run", json_integer(1));
		changes[i].fn(conn, request);
		return;
	}
	admin_error(conn, -EINVAL, "\"request\" is missing, or is none of a change");
}
