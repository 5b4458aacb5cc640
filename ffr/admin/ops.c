/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ops.c - what administrators can ask of the router. Control thread.
 *
 * Containers are the orchestrator's, but for their cgroups, which are of this host: requests to change
 * them go there. The orchestrator's event about a change of a container comes before the answer, and only the event
 * applies the change (ffr/orch/orch.c). The answer begins or ends a container on this host, because the operator's
 * request has what the event lacks: the cgroup, and the reason. The rest is answered from the router's own tables.
 * Counters are in stats.c, what is about other hosts in cluster.c.
 *
 * Tests: unit/orch/test_orch.c, system/bad_options.sh, system/limits.sh
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffo/base/limits.h"
#include "ffr/admin/admin.h"
#include "ffr/admin/carriers.h"
#include "ffr/ctl/container.h"
#include "ffr/orch/orch.h"
#include "ffr/lib/cgroup.h"
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
	char *dir, device[FFO_NAME_MAX];

	if (j)
		json_object_set_new(j, "thread", json_integer(c->fast->index));
	if (j && c->nic < a->ctl->host->num_nics)
		json_object_set_new(j, "nic", json_string(a->ctl->host->nic[c->nic].name));
	if (j && ct->cgroup)
		json_object_set_new(j, "cgroup", json_string(ct->cgroup));
	if (j && ct->runs)
		json_object_set_new(j, "runs", json_string(ct->runs));
	if (j && ffo_device_name(ct->device_name, 1, 0, device)) {
		json_object_set_new(j, "device_name", json_string(device));
		json_object_set_new(j, "devices", json_integer(ct->devices));
	}
	if (j && ffo_limits_any(&ct->told))
		json_object_set_new(j, "limits", ffo_limits_to_json(&ct->told));
	if (j && asprintf(&dir, "%s/containers/%s", a->ctl->conf.runtime_dir, c->name) >= 0) {
		json_object_set_new(j, "directory", json_string(dir));
		free(dir);
	}
	return j;
}

json_t *usage_json(const struct container *c)
{
	json_t *j = json_object();

	for (int q = 0; q < QUOTA_NUM; q++)
		json_object_set_new(j, quota_name[q],
				    json_integer((json_int_t)c->quota.use.used[q]));
	return j;
}

/* Limits of which the container can have no more: its own, also from `defaults`, and its tenant's. */
static json_t *used_up_json(const struct container *c)
{
	json_t *list = json_array();

	for (enum quota q = 0; q < QUOTA_NUM; q++) {
		const struct ffo_limits *by = quota_used_up(c, q);

		if (by)
			json_array_append_new(
				list, json_pack("{s:s, s:I, s:s}", "limit", quota_name[q], "most",
						(json_int_t)quota_limit(by, q), "of",
						by == &c->limits ? "container" : "tenant"));
	}
	return list;
}

static json_t *sessions_json(const struct container *c)
{
	json_t *list = json_array();
	const struct session *s;

	LIST_FOREACH(s, &c->sessions, entry) {
		struct ff_counts t = { 0 };

		counts_add_session(&t, s);
		json_array_append_new(
			list,
			json_pack("{s:I, s:I, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:o}", "session",
				  (json_int_t)s->id, "pid", (json_int_t)s->pid, "command", s->comm,
				  "qps", (json_int_t)t.qps, "cqs", (json_int_t)t.cqs, "srqs",
				  (json_int_t)t.srqs, "mrs", (json_int_t)t.mrs, "registered_bytes",
				  (json_int_t)t.registered, "zero_copy_bytes",
				  (json_int_t)t.zero_copy, "copied_bytes", copied_json(&t)));
	}
	return list;
}

static const char *refusal(int err)
{
	switch (-err) {
	case EPROTONOSUPPORT:
		return "its library is of another version than this router";
	case EACCES:
		return "it is not in the container's cgroup";
	case EPERM:
		return "what it handed over is not its own memory";
	case ESRCH:
		return "it had ended";
	default:
		return strerror(-err);
	}
}

/* Seconds count backwards from now. */
static json_t *heard_json(const struct container *c)
{
	const struct container_heard *h = &((const struct container_ctl *)c->ctl)->heard;
	uint64_t now = uv_hrtime() / 1000000000;
	json_t *j = json_pack("{s:I, s:I, s:I}", "known_s", (json_int_t)(now - h->since), "opened",
			      (json_int_t)h->opened, "refused", (json_int_t)h->refused);

	if (h->opened)
		json_object_set_new(j, "opened_s", json_integer((json_int_t)(now - h->opened_at)));
	if (h->refused) {
		json_object_set_new(j, "refused_s",
				    json_integer((json_int_t)(now - h->refused_at)));
		json_object_set_new(j, "refused_pid", json_integer((json_int_t)h->refused_pid));
		json_object_set_new(j, "refused_why", json_string(refusal(h->refused_err)));
	}
	return j;
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

void admin_containers(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);
	struct orch_state o;
	struct container *c;
	struct session *s;
	json_t *list, *j;
	json_int_t n;

	(void)msg;
	orch_state(a->ctl->orch, &o);
	if (!o.known) {
		admin_error(conn, -ENOTCONN,
			    "the containers are not known yet: orchestrator %s: %s", o.where,
			    *o.why ? o.why : "no answer yet");
		return;
	}
	list = json_array();
	LIST_FOREACH(c, &a->ctl->host->containers, entry) {
		n = 0;
		LIST_FOREACH(s, &c->sessions, entry)
			n++;
		j = container_json(a, c);
		json_object_set_new(j, "sessions", json_integer(n));
		json_array_append_new(list, j);
	}
	admin_reply(conn, json_pack("{s:o}", "containers", list));
}

static json_t *carriers_json(const struct container *c)
{
	struct carriers sum = { 0 };
	json_t *j = json_object();

	carriers_add(&sum, c);
	for (uint32_t i = 0; i < sum.n; i++)
		json_object_set_new(j, sum.list[i].by, json_integer(sum.list[i].qps));
	return j;
}

void admin_container_show(struct admin_conn *conn, json_t *msg)
{
	struct container *c = admin_named(conn, msg);
	json_t *j;

	if (!c)
		return;
	j = container_json(admin_conf(conn), c);
	json_object_set_new(j, "usage", usage_json(c));
	json_object_set_new(j, "used_up", used_up_json(c));
	json_object_set_new(j, "sessions", sessions_json(c));
	json_object_set_new(j, "heard", heard_json(c));
	json_object_set_new(j, "carried", carriers_json(c));
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
		admin_error(conn, err, "fast threads are 0 to %u", a->ctl->host->num_threads - 1);
	else if (err == -EPERM)
		admin_error(conn, err,
			    "container %s, or one that it talks to, has to be on thread 0",
			    c->name);
	else
		admin_error(conn, err, "container %s cannot be moved now: %s", c->name,
			    strerror(-err));
}

/* The index of the host's NIC of that name, DEVICE or DEVICE:PORT; -1: it has none, or several of that name. */
static int nic_named(const struct fast_host *h, const char *name)
{
	size_t len = strlen(name);
	int found = -1;

	for (uint32_t i = 0; i < h->num_nics; i++) {
		if (!strcmp(h->nic[i].name, name))
			return (int)i;
		if (strncmp(h->nic[i].name, name, len) || h->nic[i].name[len] != ':' ||
		    strchr(name, ':'))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

void admin_container_nic(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);
	const char *name = json_string_value(json_object_get(msg, "nic"));
	struct container *c = admin_named(conn, msg);
	int i, err;

	if (!c)
		return;
	i = name ? nic_named(a->ctl->host, name) : -1;
	err = i < 0 ? -ENODEV : container_set_nic(c, (uint8_t)i);
	if (!err)
		admin_reply(conn, json_pack("{s:o}", "container", container_json(a, c)));
	else if (err == -ENODEV)
		admin_error(conn, err, "the router has no NIC %s, or several ports of it",
			    name ? name : "of no name");
	else if (err == -EBUSY)
		admin_error(conn, err, "programs have the device of container %s open", c->name);
	else
		admin_error(conn, err, "container %s: its NIC cannot be kept: %s", c->name,
			    strerror(-err));
}

/* From the hooks of a container's runtime: it runs from now on, or has ended. */
void admin_container_runs(struct admin_conn *conn, json_t *msg)
{
	const char *id = json_string_value(json_object_get(msg, "id"));
	json_t *runs = json_object_get(msg, "runs");
	struct container *c = admin_named(conn, msg);
	int err;

	if (!c)
		return;
	err = id && json_is_boolean(runs) ? container_runs_tell(c, id, json_is_true(runs)) :
					    -EINVAL;
	if (!err)
		admin_reply(conn,
			    json_pack("{s:o}", "container", container_json(admin_conf(conn), c)));
	else if (err == -EBUSY)
		admin_error(conn, err, "container %s runs already, as %.64s", c->name,
			    ((const struct container_ctl *)c->ctl)->runs);
	else
		admin_error(conn, err, "container %s: \"id\" or \"runs\": %s", c->name,
			    strerror(-err));
}

/* ---- the orchestrator's -------------------------------------------------------------------- */

bool admin_is_dry_run(json_t *msg)
{
	const json_t *j = json_object_get(msg, "dry_run");

	return j && !(json_is_integer(j) && !json_integer_value(j));
}

/* Those of the named fields that are there, for the orchestrator. */
static json_t *fields_of(json_t *msg, const char *const *names)
{
	json_t *fields = json_object(), *v;

	for (; *names; names++) {
		v = json_object_get(msg, *names);
		if (v)
			json_object_set(fields, *names, v);
	}
	return fields;
}

/*
 * A container that is to be added or changed. What is of this host only, its cgroup, does not go to the
 * orchestrator, and is told when that has answered.
 */
struct change {
	struct admin_conn *conn;
	bool dry_run;
	bool tells_cgroup;
	char *cgroup; /* NULL: none */
};

static void change_end(struct change *ch)
{
	free(ch->cgroup);
	free(ch);
}

/* NULL after an error was sent. */
static struct change *change_new(struct admin_conn *conn, json_t *msg)
{
	json_t *j = json_object_get(msg, "cgroup");
	const char *path = json_string_value(j), *wrong = path ? cgroup_path_wrong(path) : NULL;
	struct change *ch;

	if (j && !path && !json_is_null(j))
		wrong = "it is no text";
	if (wrong) {
		admin_error(conn, -EINVAL, "\"cgroup\": %s", wrong);
		return NULL;
	}
	ch = calloc(1, sizeof(*ch));
	if (ch) {
		ch->conn = conn;
		ch->dry_run = admin_is_dry_run(msg);
		ch->tells_cgroup = j;
		ch->cgroup = path ? strdup(path) : NULL;
	}
	if (ch && (!path || ch->cgroup))
		return ch;
	free(ch);
	admin_error(conn, -ENOMEM, "out of memory");
	return NULL;
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

struct came {
	struct admin_conn *conn;
	json_t *answer;
	char name[CONTAINER_NAME_MAX];
};

static json_t *warning(const char *fmt, const char *name)
{
	char text[256];

	snprintf(text, sizeof(text), fmt, name);
	return json_string(text);
}

static void came_looked(void *arg, enum container_runs runs, bool stale)
{
	struct came *w = arg;

	(void)runs;
	if (stale)
		json_object_set_new(
			w->answer, "warning",
			warning("something runs with the folder of a former container %s, and has no device: start it anew",
				w->name));
	admin_reply(w->conn, w->answer);
	free(w);
}

void admin_reply_came(struct admin_conn *conn, struct container *c, json_t *answer)
{
	struct came *w = answer ? calloc(1, sizeof(*w)) : NULL;

	if (!w) {
		admin_reply(conn, answer);
		return;
	}
	w->conn = conn;
	w->answer = answer;
	memcpy(w->name, c->name, sizeof(w->name));
	container_runs_ask(c, came_looked, w);
}

static void ignore_answer(void *arg, int status, const char *text, json_t *answer)
{
	(void)arg;
	(void)status;
	(void)text;
	(void)answer;
}

/*
 * Its cgroup is known before anybody can say HELLO: between the two no connection is served. If the event about the
 * container came first, the container is here already, and nobody was told of its folder.
 */
static int attach(struct ctl *ctl, const struct ffo_container *info, const char *cgroup)
{
	int err;
	struct container *c = orch_container(ctl, info, &err);

	err = c ? container_cgroup_tell(c, cgroup) : err;
	if (err && c)
		container_leave(c, "its cgroup cannot be kept");
	return err;
}

/* What the container would be, from the orchestrator's answer. Takes ch. */
static void tried(struct change *ch, json_t *answer)
{
	json_t *c = json_object_get(answer, "container");

	admin_reply(ch->conn, json_pack("{s:O}", "container", c));
	change_end(ch);
}

static void added(void *arg, int status, const char *text, json_t *answer)
{
	struct change *ch = arg;
	struct admin_conn *conn = ch->conn;
	const struct admin_conf *a = admin_conf(conn);
	struct ffo_container info;
	struct container *c;
	int err;

	if (!taken(conn, status, text, answer, &info)) {
		change_end(ch);
		return;
	}
	if (ch->dry_run) {
		tried(ch, answer);
		return;
	}
	err = attach(a->ctl, &info, ch->cgroup);
	change_end(ch);
	if (err) {
		orch_call(a->ctl->orch, FFO_OP_CONTAINER_RM, json_pack("{s:s}", "name", info.name),
			  ignore_answer, NULL);
		admin_error(conn, err, "%s/containers/%s: %s", a->ctl->conf.runtime_dir, info.name,
			    strerror(-err));
		return;
	}
	c = container_find(a->ctl, info.name);
	admin_reply_came(conn, c, json_pack("{s:o}", "container", container_json(a, c)));
}

/*
 * The author of a pod chooses the pod's limits by annotations, and is not trusted. So a pod gets no more than the
 * host's defaults. Where the operator has set the same limit for the tenant (the pod's namespace), the pod may ask
 * for any value, because the tenant's limit holds for all of its pods together. False: refused, and the client has an
 * answer.
 */
static bool pod_may_ask(struct admin_conn *conn, json_t *msg)
{
	const struct admin_conf *a = admin_conf(conn);
	const char *tenant = json_string_value(json_object_get(msg, "tenant"));
	struct ffo_limits_change asked;
	struct ffo_limits of_tenant;
	char why[256];
	size_t i;

	if (!json_is_true(json_object_get(msg, "pod")))
		return true;
	if (ffo_limits_change_parse(json_object_get(msg, "limits"), false, &asked, why,
				    sizeof(why))) {
		admin_error(conn, -EINVAL, "%s", why);
		return false;
	}
	fast_lock(a->ctl->host);
	of_tenant = fast_limits_of_tenant(a->ctl->host, tenant ? tenant : "default");
	fast_unlock(a->ctl->host);
	i = ffo_limits_beyond(&asked.to, &a->ctl->conf.defaults, &of_tenant);
	if (i == FFO_NUM_LIMITS)
		return true;
	admin_error(conn, -EPERM, "a pod may not ask for more than the host's default of %s%s%s%s",
		    ffo_limit[i].name, ffo_limit[i].tenant ? ": ffctl tenant set " : "",
		    ffo_limit[i].tenant ? (tenant ? tenant : "default") : "",
		    ffo_limit[i].tenant ? " lets it" : "");
	return false;
}

void admin_container_add(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "name",	    "tenant",  "ips",	  "mode", "limits",
					     "device_name", "devices", "dry_run", NULL };
	const struct admin_conf *a = admin_conf(conn);
	const char *name = json_string_value(json_object_get(msg, "name"));
	struct change *ch;
	json_t *fields;

	if (!name || !container_name_ok(name)) {
		admin_error(conn, -EINVAL,
			    "\"%.64s\" is no name: a letter or digit, then letters, digits, "
			    "\"_.-\", at most %d",
			    name ? name : "", CONTAINER_NAME_MAX - 1);
		return;
	}
	if (!pod_may_ask(conn, msg))
		return;
	ch = change_new(conn, msg);
	if (!ch)
		return;
	fields = fields_of(msg, names);
	json_object_set_new(fields, "host", json_string(a->host));
	if (!json_object_get(fields, "mode"))
		json_object_set_new(fields, "mode", json_string(ffo_mode_name[a->mode]));
	orch_call(a->ctl->orch, FFO_OP_CONTAINER_ADD, fields, added, ch);
}

/* What is of this host only, and the answer. Takes ch. */
static void changed_here(struct change *ch, const char *name)
{
	struct container *c = container_find(admin_conf(ch->conn)->ctl, name);
	int err = 0;

	if (c && ch->tells_cgroup && !ch->dry_run)
		err = container_cgroup_tell(c, ch->cgroup);
	if (err)
		admin_error(ch->conn, err, "container %s: its cgroup cannot be kept: %s", name,
			    strerror(-err));
	else
		container_reply(ch->conn, name);
	change_end(ch);
}

static void changed(void *arg, int status, const char *text, json_t *answer)
{
	struct change *ch = arg;
	struct ffo_container info;

	if (!taken(ch->conn, status, text, answer, &info))
		change_end(ch);
	else if (ch->dry_run)
		tried(ch, answer);
	else
		changed_here(ch, info.name);
}

void admin_container_set(struct admin_conn *conn, json_t *msg)
{
	static const char *const names[] = { "name", "ips", "mode", "limits", "dry_run", NULL };
	struct container *c = admin_named(conn, msg);
	bool mode = json_object_get(msg, "mode"), told = mode || json_object_get(msg, "ips");
	struct change *ch;

	if (!c)
		return;
	if (mode && !LIST_EMPTY(&c->sessions)) {
		admin_error(conn, -EBUSY, "container %s is in use: stop its programs first",
			    c->name);
		return;
	}
	ch = change_new(conn, msg);
	if (!ch)
		return;
	if (!told && !json_object_get(msg, "limits") && ch->tells_cgroup)
		changed_here(ch, c->name);
	else
		orch_call(admin_conf(conn)->ctl->orch, FFO_OP_CONTAINER_SET, fields_of(msg, names),
			  changed, ch);
}

/* A container that is removed; what runs then has a folder without a socket. */
struct removal {
	struct admin_conn *conn;
	char name[CONTAINER_NAME_MAX];
	bool runs, dry_run;
};

static void removed(void *arg, int status, const char *text, json_t *answer)
{
	struct removal *r = arg;
	struct ffo_container info;
	struct container *c;
	json_t *j;

	if (status) {
		admin_error(r->conn, status, "%s", text);
		free(r);
		return;
	}
	if (!r->dry_run && !ffo_container_from_json(json_object_get(answer, "container"), &info)) {
		c = container_find(admin_conf(r->conn)->ctl, info.name);
		if (c)
			container_leave(c, "an operator has removed it");
	}
	j = json_object();
	if (r->runs && r->dry_run)
		json_object_set_new(j, "warning",
				    warning("container %s runs, and would have no device any more",
					    r->name));
	else if (r->runs)
		json_object_set_new(
			j, "warning",
			warning("container %s still runs, and has no device any more: after another `container add` start it anew",
				r->name));
	admin_reply(r->conn, j);
	free(r);
}

static void removal_looked(void *arg, enum container_runs runs, bool stale)
{
	struct removal *r = arg;
	json_t *fields = json_pack("{s:s}", "name", r->name);

	(void)stale;
	r->runs = runs == RUNS_YES;
	if (r->dry_run)
		json_object_set_new(fields, "dry_run", json_integer(1));
	orch_call(admin_conf(r->conn)->ctl->orch, FFO_OP_CONTAINER_RM, fields, removed, r);
}

void admin_container_rm(struct admin_conn *conn, json_t *msg)
{
	struct container *c = admin_named(conn, msg);
	struct removal *r = c ? calloc(1, sizeof(*r)) : NULL;

	if (c && !r)
		admin_error(conn, -ENOMEM, "out of memory");
	if (!r)
		return;
	r->conn = conn;
	r->dry_run = admin_is_dry_run(msg);
	memcpy(r->name, c->name, sizeof(r->name));
	container_runs_ask(c, removal_looked, r);
}
