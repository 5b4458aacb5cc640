/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ops.c - what administrators can ask of the router. Control thread.
 *
 * Containers are the orchestrator's: requests to change them go there, and this host follows the
 * answer. The rest is answered from the router's own tables. Counters are in stats.c, what is
 * about other hosts in cluster.c.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/limits.h"
#include "ffr/admin/admin.h"
#include "ffr/ctl/container.h"
#include "ffr/orch/orch.h"
#include "ffr/lib/version.h"

/* ---- containers as JSON -------------------------------------------------------------------- */

static json_t *ips_json(const struct container *c)
{
	json_t *ips = json_array();
	char text[INET6_ADDRSTRLEN];
	struct in6_addr a;

	for (unsigned i = 0; i < c->num_gids; i++) {
		memcpy(&a, &c->gid[i], sizeof(a));
		json_array_append_new(ips, json_string(ffo_addr_text(&a, text)));
	}
	return ips;
}

static json_t *container_json(const struct admin_conf *a, const struct container *c)
{
	json_t *j = json_pack("{s:s, s:s, s:o, s:s, s:i, s:I, s:I, s:s}", "name", c->name, "tenant",
			      c->tenant, "ips", ips_json(c), "mode", ffo_mode_name[c->mode], "lid",
			      c->lid, "id", (json_int_t)c->id, "epoch", (json_int_t)c->epoch,
			      "host", a->host);
	const struct container_ctl *ct = c->ctl;
	char *dir;

	if (j)
		json_object_set_new(j, "thread", json_integer(c->fast->index));
	if (j && ffo_limits_any(&ct->told))
		json_object_set_new(j, "limits", ffo_limits_to_json(&ct->told));
	if (j && asprintf(&dir, "%s/containers/%s", a->ctl->conf.runtime_dir, c->name) >= 0) {
		json_object_set_new(j, "directory", json_string(dir));
		free(dir);
	}
	return j;
}

static json_t *usage_json(const struct container *c)
{
	json_t *j = json_object();

	for (int q = 0; q < QUOTA_NUM; q++)
		json_object_set_new(j, quota_name[q],
				    json_integer((json_int_t)c->quota.use.used[q]));
	return j;
}

static json_t *sessions_json(const struct container *c)
{
	json_t *list = json_array();
	const struct session *s;

	LIST_FOREACH(s, &c->sessions, entry) {
		struct ff_counts t = { 0 };

		counts_add_session(&t, s);
		json_array_append_new(
			list, json_pack("{s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I}", "session",
					(json_int_t)s->id, "pid", (json_int_t)s->pid, "command",
					s->comm, "qps", (json_int_t)t.qps, "cqs", (json_int_t)t.cqs,
					"srqs", (json_int_t)t.srqs, "mrs", (json_int_t)t.mrs,
					"registered_bytes", (json_int_t)t.registered,
					"zero_copy_bytes", (json_int_t)t.zero_copy));
	}
	return list;
}

/* ---- the router's own ---------------------------------------------------------------------- */

void admin_version(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);

	(void)msg;
	admin_reply(conn, json_pack("{s:s, s:s, s:s}", "version", FF_VERSION, "hostname", a->host,
				    "runtime_dir", a->ctl->conf.runtime_dir));
}

struct container *admin_named(struct admin_conn *conn, json_t *msg)
{
	const char *name = json_string_value(json_object_get(msg, "name"));
	struct container *c = name ? container_find(admin_conf(conn)->ctl, name) : NULL;

	if (!name)
		admin_error(conn, -EINVAL, "\"name\" is missing");
	else if (!c)
		admin_error(conn, -ENOENT, "no container \"%.64s\" on this host", name);
	return c;
}

void admin_container_list(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);
	json_t *list = json_array(), *j;
	struct container *c;
	struct session *s;
	json_int_t n;

	(void)msg;
	LIST_FOREACH(c, &a->ctl->fast->containers, entry) {
		n = 0;
		LIST_FOREACH(s, &c->sessions, entry)
			n++;
		j = container_json(a, c);
		json_object_set_new(j, "sessions", json_integer(n));
		json_array_append_new(list, j);
	}
	admin_reply(conn, json_pack("{s:o}", "containers", list));
}

void admin_container_show(struct admin_conn *conn, json_t *msg)
{
	struct container *c = admin_named(conn, msg);
	json_t *j;

	if (!c)
		return;
	j = container_json(admin_conf(conn), c);
	json_object_set_new(j, "usage", usage_json(c));
	json_object_set_new(j, "sessions", sessions_json(c));
	admin_reply(conn, json_pack("{s:o}", "container", j));
}

void admin_container_thread(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);
	json_t *n = json_object_get(msg, "thread");
	struct container *c = admin_named(conn, msg);
	json_int_t thread = json_is_integer(n) ? json_integer_value(n) : -1;
	int err;

	if (!c)
		return;
	err = thread < 0 || thread > UINT32_MAX ? -EINVAL : fast_move(c, (uint32_t)thread);
	if (!err)
		admin_reply(conn, json_pack("{s:o}", "container", container_json(a, c)));
	else if (err == -EINVAL)
		admin_error(conn, err, "fast threads are 0 to %u", a->ctl->fast->num_threads - 1);
	else if (err == -EPERM)
		admin_error(conn, err,
			    "container %s, or one that it talks to, has to be on thread 0",
			    c->name);
	else
		admin_error(conn, err, "container %s cannot be moved now: %s", c->name,
			    strerror(-err));
}

/* ---- the orchestrator's -------------------------------------------------------------------- */

json_t *admin_fields(json_t *msg, const char *const *names)
{
	json_t *fields = json_object(), *v;

	for (; *names; names++) {
		v = json_object_get(msg, *names);
		if (v)
			json_object_set(fields, *names, v);
	}
	return fields;
}

/* Is the orchestrator's answer a container? If not, the client is told. */
static bool taken(struct admin_conn *conn, int status, const char *text, json_t *answer,
		  struct ffo_container *info)
{
	if (status)
		admin_error(conn, status, "%s", text);
	else if (ffo_container_from_json(json_object_get(answer, "container"), info))
		admin_error(conn, -EPROTO, "the orchestrator's answer is not understood");
	else
		return true;
	return false;
}

static void container_reply(struct admin_conn *conn, const char *name)
{
	const struct admin_conf *a = admin_conf(conn);
	struct container *c = container_find(a->ctl, name);

	if (c)
		admin_reply(conn, json_pack("{s:o}", "container", container_json(a, c)));
	else
		admin_error(conn, -ENOENT, "container %s has gone meanwhile", name);
}

static void ignore_answer(void *arg, int status, const char *text, json_t *answer)
{
	(void)arg;
	(void)status;
	(void)text;
	(void)answer;
}

static void added(void *arg, int status, const char *text, json_t *answer)
{
	struct admin_conn *conn = arg;
	const struct admin_conf *a = admin_conf(conn);
	struct ffo_container info;
	int err;

	if (!taken(conn, status, text, answer, &info))
		return;
	err = container_attach(a->ctl, &info);
	if (err) {
		orch_call(a->ctl->orch, FFO_OP_CONTAINER_RM, json_pack("{s:s}", "name", info.name),
			  ignore_answer, NULL);
		admin_error(conn, err, "%s/containers/%s: %s", a->ctl->conf.runtime_dir, info.name,
			    strerror(-err));
		return;
	}
	container_reply(conn, info.name);
}

void admin_container_add(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "name", "tenant", "ips", "mode", "limits", NULL };
	const struct admin_conf *a = admin_conf(conn);
	const char *name = json_string_value(json_object_get(msg, "name"));
	json_t *fields;

	if (!name || !container_name_ok(name)) {
		admin_error(conn, -EINVAL,
			    "\"%.64s\" is no name: a letter or digit, then letters, digits, "
			    "\"_.-\", at most %d",
			    name ? name : "", CONTAINER_NAME_MAX - 1);
		return;
	}
	fields = admin_fields(msg, names);
	json_object_set_new(fields, "host", json_string(a->host));
	if (!json_object_get(fields, "mode"))
		json_object_set_new(fields, "mode", json_string(ffo_mode_name[a->mode]));
	orch_call(a->ctl->orch, FFO_OP_CONTAINER_ADD, fields, added, conn);
}

static void changed(void *arg, int status, const char *text, json_t *answer)
{
	struct admin_conn *conn = arg;
	const struct admin_conf *a = admin_conf(conn);
	struct ffo_container info;
	struct container *c;

	if (!taken(conn, status, text, answer, &info))
		return;
	c = container_find(a->ctl, info.name);
	if (c)
		container_update(c, &info);
	container_reply(conn, info.name);
}

void admin_container_set(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "name", "ips", "mode", "limits", NULL };
	struct container *c = admin_named(conn, msg);
	bool told = json_object_get(msg, "ips") || json_object_get(msg, "mode");

	if (!c)
		return;
	if (told && !LIST_EMPTY(&c->sessions)) {
		admin_error(conn, -EBUSY, "container %s is in use: stop its programs first",
			    c->name);
		return;
	}
	orch_call(admin_conf(conn)->ctl->orch, FFO_OP_CONTAINER_SET, admin_fields(msg, names),
		  changed, conn);
}

static void removed(void *arg, int status, const char *text, json_t *answer)
{
	struct admin_conn *conn = arg;
	struct ffo_container info;
	struct container *c;

	if (status) {
		admin_error(conn, status, "%s", text);
		return;
	}
	if (!ffo_container_from_json(json_object_get(answer, "container"), &info)) {
		c = container_find(admin_conf(conn)->ctl, info.name);
		if (c)
			container_detach(c);
	}
	admin_reply(conn, json_object());
}

void admin_container_rm(struct admin_conn *conn, json_t *msg)
{
	struct container *c = admin_named(conn, msg);

	if (c)
		orch_call(admin_conf(conn)->ctl->orch, FFO_OP_CONTAINER_RM,
			  json_pack("{s:s}", "name", c->name), removed, conn);
}
