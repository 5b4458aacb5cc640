/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cluster.c - what administrators can ask that is about all hosts: hosts, the map, the policy,
 * the tenants, and where containers are. Control thread.
 *
 * It is the orchestrator's; most requests are passed on, and its answer is passed back.
 *
 * Tests: unit/orch/test_orch.c, system/fault_tls.sh
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/admin/admin.h"
#include "ffr/ctl/container.h"
#include "ffr/orch/orch.h"

/* The answer as it came, without what belongs to the other connection. */
static void forwarded(void *arg, int status, const char *text, json_t *answer)
{
	struct admin_conn *conn = arg;

	if (status) {
		admin_error(conn, status, "%s", text);
		return;
	}
	answer = json_copy(answer);
	if (answer)
		json_object_del(answer, "id");
	admin_reply(conn, answer);
}

static void forward(struct admin_conn *conn, enum ffo_op op, json_t *fields)
{
	orch_call(admin_conf(conn)->ctl->orch, op, fields, forwarded, conn);
}

void admin_map_list(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "after", "limit", NULL };
	const char *name = json_string_value(json_object_get(msg, "name"));
	json_t *fields = admin_fields(msg, names);
	struct container *c;

	if (json_object_get(msg, "name")) {
		c = name ? container_find(admin_conf(conn)->ctl, name) : NULL;
		if (!c) {
			json_decref(fields);
			admin_error(conn, -ENOENT, "no container \"%.64s\" on this host",
				    name ? name : "");
			return;
		}
		json_object_set_new(fields, "container", json_integer(c->id));
	}
	forward(conn, FFO_OP_MAP_LIST, fields);
}

void admin_map_lookup(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "name", "ip", "tenant", "rkey", NULL };

	forward(conn, FFO_OP_MAP_GET, admin_fields(msg, names));
}

void admin_host_list(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "after", "limit", NULL };

	forward(conn, FFO_OP_HOST_LIST, admin_fields(msg, names));
}

static void accepted(void *arg, int err, const char *why, uint32_t kept, uint32_t gone)
{
	struct admin_conn *conn = arg;

	if (err)
		admin_error(conn, err, "%s", why);
	else
		admin_reply(conn, json_pack("{s:I, s:I}", "kept", (json_int_t)kept, "gone",
					    (json_int_t)gone));
}

void admin_store_accept(struct admin_conn *conn, json_t *msg)
{
	(void)msg;
	orch_accept(admin_conf(conn)->ctl->orch, accepted, conn);
}

void admin_cluster_list(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "after", "limit", NULL };

	forward(conn, FFO_OP_CONTAINER_LIST, admin_fields(msg, names));
}

void admin_policy_list(struct admin_conn *conn, json_t *msg)
{
	(void)msg;
	forward(conn, FFO_OP_POLICY_LIST, json_object());
}

void admin_policy_set(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "a", "b", "action", NULL };

	forward(conn, FFO_OP_POLICY_SET, admin_fields(msg, names));
}

void admin_policy_rm(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "a", "b", NULL };

	forward(conn, FFO_OP_POLICY_RM, admin_fields(msg, names));
}

void admin_tenant_list(struct admin_conn *conn, json_t *msg)
{
	(void)msg;
	forward(conn, FFO_OP_TENANT_LIST, json_object());
}

void admin_tenant_set(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "tenant", "limits", NULL };

	forward(conn, FFO_OP_TENANT_SET, admin_fields(msg, names));
}

/* ---- moving a container --------------------------------------------------------------------- */

/* Does the host exist? Then the orchestrator moves the container, and this host follows. */
struct migrate {
	struct admin_conn *conn;
	char name[FFO_NAME_MAX], host[FFO_NAME_MAX];
	bool force, host_up;
};

static void migrate_fail(struct migrate *m, int err, const char *text)
{
	admin_error(m->conn, err, "%s", text);
	free(m);
}

static json_t *moved_json(const struct admin_conf *a, const struct migrate *m, json_t *container)
{
	json_t *j = json_copy(container);
	struct container *c = container_find(a->ctl, m->name);
	char *dir;

	if (j && c && asprintf(&dir, "%s/containers/%s", a->ctl->conf.runtime_dir, c->name) >= 0) {
		json_object_set_new(j, "directory", json_string(dir));
		free(dir);
	}
	return json_pack("{s:o, s:b}", "container", j, "host_up", (int)m->host_up);
}

static void moved(void *arg, int status, const char *text, json_t *answer)
{
	struct migrate *m = arg;
	const struct admin_conf *a = admin_conf(m->conn);
	json_t *container = json_object_get(answer, "container");
	struct ffo_container info;
	struct container *c;
	int err = 0;

	if (!status && ffo_container_from_json(container, &info)) {
		status = -EPROTO;
		text = "the orchestrator's answer is not understood";
	}
	if (status) {
		migrate_fail(m, status, text);
		return;
	}
	c = container_find(a->ctl, info.name);
	if (!strcmp(info.host, a->host))
		orch_container(a->ctl, &info, &err);
	else if (c && c->id == info.id)
		container_detach(c);
	if (err) {
		admin_error(m->conn, err, "%s/containers/%s: %s", a->ctl->conf.runtime_dir,
			    info.name, strerror(-err));
	} else {
		admin_reply(m->conn, moved_json(a, m, container));
	}
	free(m);
}

static void move(struct migrate *m)
{
	json_t *fields = json_pack("{s:s, s:s}", "name", m->name, "host", m->host);

	if (m->force)
		json_object_set_new(fields, "force", json_integer(1));
	orch_call(admin_conf(m->conn)->ctl->orch, FFO_OP_CONTAINER_SET, fields, moved, m);
}

static void host_got(void *arg, int status, const char *text, json_t *answer)
{
	struct migrate *m = arg;
	struct ffo_host h;
	char why[160];

	if (!status && ffo_host_from_json(json_object_get(answer, "host"), &h)) {
		status = -EPROTO;
		text = "the orchestrator's answer is not understood";
	}
	if (status == -ENOENT) {
		snprintf(why, sizeof(why), "no host \"%s\": the orchestrator has never seen it",
			 m->host);
		text = why;
	}
	if (status) {
		migrate_fail(m, status, text);
		return;
	}
	m->host_up = h.up;
	move(m);
}

static void migrate_start(struct admin_conn *conn, const char *name, const char *host, bool force)
{
	struct container *c = container_find(admin_conf(conn)->ctl, name);
	struct migrate *m;

	if (c && !LIST_EMPTY(&c->sessions) && !force) {
		admin_error(conn, -EBUSY,
			    "container %s is in use: stop its programs first, or force it", name);
		return;
	}
	m = calloc(1, sizeof(*m));
	if (!m) {
		admin_error(conn, -ENOMEM, "out of memory");
		return;
	}
	m->conn = conn;
	m->force = force;
	snprintf(m->name, sizeof(m->name), "%s", name);
	snprintf(m->host, sizeof(m->host), "%s", host);
	orch_call(admin_conf(conn)->ctl->orch, FFO_OP_HOST_GET, json_pack("{s:s}", "host", host),
		  host_got, m);
}

/* To "host", or to this one. */
void admin_container_migrate(struct admin_conn *conn, json_t *msg)
{
	const char *name = json_string_value(json_object_get(msg, "name"));
	const char *host = json_string_value(json_object_get(msg, "host"));
	const struct admin_conf *a = admin_conf(conn);

	if (!json_object_get(msg, "host"))
		host = a->host;
	if (!name || !container_name_ok(name) || !host || !ffo_name_ok(host)) {
		admin_error(conn, -EINVAL, "\"name\" or \"host\" is missing, or is no name");
		return;
	}
	migrate_start(conn, name, host, json_is_true(json_object_get(msg, "force")));
}
