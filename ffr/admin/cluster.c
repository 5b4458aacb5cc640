/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cluster.c - what administrators can ask that is about all hosts. Control thread.
 *
 * Hosts, the map, the policy, the tenants and the store are the orchestrator's: such a request is passed on unread, and
 * the answer is passed back. Moves of containers and other stores need this host as well.
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

bool admin_forward(struct admin_conn *conn, const char *name, json_t *msg)
{
	int op = ffo_op_for_operators(name);

	if (op < 0)
		return false;
	orch_call(admin_conf(conn)->ctl->orch, (enum ffo_op)op, json_incref(msg), forwarded, conn);
	return true;
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

/* ---- moving a container --------------------------------------------------------------------- */

/*
 * Where is the container, and does it run there? Does the host exist that is to have it? Then the
 * orchestrator moves it, if it has the same epoch still, and this host follows. --force skips the
 * first question.
 */
struct migrate {
	struct admin_conn *conn;
	char name[FFO_NAME_MAX], host[FFO_NAME_MAX];
	struct ffo_container now; /* as it was when its host was asked; id 0: it was not */
	bool force, dry_run, host_up;
	bool only_ask; /* whether it may be moved here */
	int refused;   /* -errno: its host says no, for this reason: */
	char why[512];
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
	char why[128];
	int err = 0;

	if (!status && ffo_container_from_json(container, &info)) {
		status = -EPROTO;
		text = "the orchestrator's answer is not understood";
	}
	if (status) {
		migrate_fail(m, status, text);
		return;
	}
	if (m->dry_run) {
		admin_reply(m->conn, moved_json(a, m, container));
		free(m);
		return;
	}
	c = container_find(a->ctl, info.name);
	if (!strcmp(info.host, a->host)) {
		c = orch_container(a->ctl, &info, &err);
		if (c && m->now.id && m->now.epoch != info.epoch)
			((struct container_ctl *)c->ctl)->claimed_at = uv_now(a->ctl->loop);
	} else if (c && c->id == info.id) {
		snprintf(why, sizeof(why), "an operator has moved it to host %s", info.host);
		container_leave(c, why);
	}
	if (err) {
		admin_error(m->conn, err, "%s/containers/%s: %s", a->ctl->conf.runtime_dir,
			    info.name, strerror(-err));
	} else if (c && !strcmp(info.host, a->host)) {
		admin_reply_came(m->conn, c, moved_json(a, m, container));
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
	if (m->dry_run)
		json_object_set_new(fields, "dry_run", json_integer(1));
	if (m->now.id)
		json_object_set_new(fields, "epoch", json_integer(m->now.epoch));
	orch_call(admin_conf(m->conn)->ctl->orch, FFO_OP_CONTAINER_SET, fields, moved, m);
}

/* Its host says that it may. */
static void may_move(struct migrate *m)
{
	if (m->only_ask) {
		admin_reply(m->conn, json_object());
		free(m);
	} else {
		move(m);
	}
}

static void asked_again(void *arg, int status, const char *text, json_t *answer)
{
	struct migrate *m = arg;
	struct ffo_container info;
	char why[256];

	(void)text;
	if (status || ffo_container_from_json(json_object_get(answer, "container"), &info) ||
	    (info.id == m->now.id && info.epoch == m->now.epoch)) {
		migrate_fail(m, m->refused, m->why);
		return;
	}
	snprintf(why, sizeof(why), "container %s: host %s has taken it meanwhile", m->name,
		 info.host);
	migrate_fail(m, -ESTALE, why);
}

/*
 * Its host says no. Another host may have taken the container since we asked the orchestrator where it is; then that is
 * the reason, not what its former host makes of the question.
 */
static void refused(struct migrate *m, int err, const char *why)
{
	m->refused = err;
	snprintf(m->why, sizeof(m->why), "%s", why);
	orch_call(admin_conf(m->conn)->ctl->orch, FFO_OP_CONTAINER_GET,
		  json_pack("{s:s}", "name", m->name), asked_again, m);
}

/* Of one that is here. */
static void runs_told(void *arg, enum container_runs runs, bool stale)
{
	struct migrate *m = arg;
	char why[256];

	(void)stale;
	if (runs == RUNS_NO) {
		may_move(m);
		return;
	}
	snprintf(
		why, sizeof(why),
		runs == RUNS_YES ?
			"container %s is in use on this host: stop it first" :
			"container %s: it cannot be found out whether it runs on this host: stop it, and use --force",
		m->name);
	refused(m, runs == RUNS_YES ? -EBUSY : -EIO, why);
}

/* Of one on another host. */
static void owner_told(void *arg, int err, const char *text)
{
	struct migrate *m = arg;

	if (err)
		refused(m, err, text);
	else
		may_move(m);
}

/* Of an answer to HOST_GET: 0 and the host, or -errno and why. */
static int read_host(int status, const char **why, json_t *answer, struct ffo_host *h)
{
	if (status || !ffo_host_from_json(json_object_get(answer, "host"), h))
		return status;
	*why = "the orchestrator's answer is not understood";
	return -EPROTO;
}

static void owner_got(void *arg, int status, const char *text, json_t *answer)
{
	struct migrate *m = arg;
	struct ffo_host h;

	status = read_host(status, &text, answer, &h);
	if (status)
		migrate_fail(m, status, text);
	else
		orch_claim_ask(admin_conf(m->conn)->ctl->orch, &m->now, &h, owner_told, m);
}

/* m->now is known. */
static void ask_owner(struct migrate *m)
{
	const struct admin_conf *a = admin_conf(m->conn);
	struct container *c = container_by_id(a->ctl, m->now.id);

	if (!strcmp(m->now.host, m->host)) /* it stays */
		may_move(m);
	else if (strcmp(m->now.host, a->host) != 0)
		orch_call(a->ctl->orch, FFO_OP_HOST_GET, json_pack("{s:s}", "host", m->now.host),
			  owner_got, m);
	else if (c)
		container_runs_ask(c, runs_told, m);
	else
		refused(m, -EIO,
			"the router does not have the container yet: try again, or use --force");
}

static void container_got(void *arg, int status, const char *text, json_t *answer)
{
	struct migrate *m = arg;

	if (!status && ffo_container_from_json(json_object_get(answer, "container"), &m->now)) {
		status = -EPROTO;
		text = "the orchestrator's answer is not understood";
	}
	if (status)
		migrate_fail(m, status, text);
	else
		ask_owner(m);
}

static void host_got(void *arg, int status, const char *text, json_t *answer)
{
	struct migrate *m = arg;
	struct ffo_host h;
	char why[160];

	status = read_host(status, &text, answer, &h);
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
	if (m->force)
		move(m);
	else
		orch_call(admin_conf(m->conn)->ctl->orch, FFO_OP_CONTAINER_GET,
			  json_pack("{s:s}", "name", m->name), container_got, m);
}

/* An operator is about to have it moved to this host, by the orchestrator: its host is asked from here. */
void admin_container_ask(struct admin_conn *conn, json_t *msg)
{
	struct migrate *m = calloc(1, sizeof(*m));

	if (!m) {
		admin_error(conn, -ENOMEM, "out of memory");
		return;
	}
	if (ffo_container_from_json(json_object_get(msg, "container"), &m->now)) {
		free(m);
		admin_error(conn, -EINVAL, "\"container\" is missing, or is none");
		return;
	}
	m->conn = conn;
	m->only_ask = true;
	snprintf(m->name, sizeof(m->name), "%s", m->now.name);
	snprintf(m->host, sizeof(m->host), "%s", admin_conf(conn)->host);
	ask_owner(m);
}

static void migrate_start(struct admin_conn *conn, const char *name, const char *host, json_t *msg)
{
	struct migrate *m = calloc(1, sizeof(*m));

	if (!m) {
		admin_error(conn, -ENOMEM, "out of memory");
		return;
	}
	m->conn = conn;
	m->force = json_is_true(json_object_get(msg, "force"));
	m->dry_run = admin_is_dry_run(msg);
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
	migrate_start(conn, name, host, msg);
}
