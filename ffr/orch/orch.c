/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orch.c - the router as a client of the orchestrator: the connection, and the containers of this
 * host. Control thread.
 *
 * Neighbours: ffo/client/client.c is the connection. What the orchestrator says of this host's
 * containers is done here, by ctl/container.c; what it says of other hosts' containers is dir/'s,
 * of tenants' limits tenant.c's. map.c publishes what may be reached here, active.c tells which
 * containers run, store.c knows the store, claim.c asks other hosts which of their containers run.
 *
 * A connection starts with hello, host_register, the policy, the tenants' limits and the list of
 * this host's containers; then the router attaches what it did not have, detaches what it should
 * not have, and publishes all MRs anew (the orchestrator drops a host's mappings with its
 * connection). After that it is told of changes by events, those that its own operators ask for
 * included: a container that was moved to another host is detached at once, with all its sessions.
 * A lost connection is tried again, ever more slowly; meanwhile the host serves its containers from
 * what it knows. So it does where the orchestrator has another store than the one that these
 * containers are in (store.c).
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/base/address.h"
#include "ffo/server/ffo.h"
#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/dir/ctl.h"
#include "ffr/lib/log.h"
#include "ffr/obj/events.h"
#include "ffr/orch/internal.h"
#include "ffo/tls/tls.h"

#define RETRY_MIN   100	  /* ms */
#define RETRY_MAX   5000  /* ms */
#define READY_AFTER 2000  /* ms: an orchestrator that says nothing is waited for no longer */
#define PATIENCE    10000 /* ms: until it is connected, with all that belongs to that */
#define ZOOKEEPER   "zookeeper:"

static void orch_connect(struct orch *o);

/* ---- the connection ------------------------------------------------------------------------ */

static void tell_ready(struct orch *o)
{
	if (o->told)
		return;
	o->told = true;
	o->conf.ready(o->conf.arg);
}

static void on_retry(uv_timer_t *t)
{
	orch_connect(t->data);
}

/* Packets may just vanish. Administrators come meanwhile; then it is tried again. */
static void on_patience(uv_timer_t *t)
{
	struct orch *o = t->data;

	if (!o->told) {
		tell_ready(o);
		uv_timer_start(t, on_patience, PATIENCE - READY_AFTER, 0);
		return;
	}
	orch_down(o, "it does not answer");
}

/* Not reached, lost, or of no use: try again later. */
void orch_down(struct orch *o, const char *why)
{
	if (o->delay == RETRY_MIN || strncmp(o->said, why, sizeof(o->said) - 1))
		log_warn("orchestrator %s: %s", o->conf.where, why);
	snprintf(o->said, sizeof(o->said), "%s", why);
	if (o->up)
		event_add(EVENT_DISCONNECTED, NULL, "orchestrator %s: %s", o->conf.where, why);
	ffo_client_close(o->client);
	o->client = NULL;
	o->up = false;
	uv_timer_stop(&o->patience);
	orch_map_down(o);
	dir_disconnected(o->ctl->host->dir);
	if (o->embedded)
		ffo_embedded_stop();
	o->embedded = false;
	orch_fence_down(o);
	uv_timer_start(&o->retry, on_retry, o->delay, 0);
	o->delay = o->delay * 2 < RETRY_MAX ? o->delay * 2 : RETRY_MAX;
	store_told(o, -ENOTCONN, o->said);
	tell_ready(o);
}

/* It is there, but its store is not: this host is not cut off. */
static void refuse(struct orch *o, const char *why)
{
	orch_down(o, why);
	orch_fence_reached(o);
}

void orch_now(struct orch *o)
{
	o->delay = RETRY_MIN;
	uv_timer_start(&o->retry, on_retry, 0, 0);
}

static bool has_file(const struct orch *o)
{
	return !strcmp(o->conf.where, "embedded") && o->conf.store[0] == '/';
}

void orch_state(const struct orch *o, struct orch_state *s)
{
	*s = (struct orch_state){ .where = o->conf.where,
				  .up = o->up,
				  .known = o->known,
				  .store = has_file(o) ? o->conf.store : NULL,
				  .why = o->said };
}

static void on_closed(void *arg, int err)
{
	struct orch *o = arg;
	const char *why = ffo_client_why(o->client);

	orch_down(o, *why ? why : strerror(-err));
}

void orch_sync_done(struct orch *o)
{
	struct container *c, *next;

	memcpy(o->store, o->says, sizeof(o->store));
	for (c = LIST_FIRST(&o->ctl->host->containers); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (((struct container_ctl *)c->ctl)->sync != o->sync)
			container_leave(c, "it was removed, or moved to another host, meanwhile");
	}
	containers_sweep(o->ctl);
	uv_timer_stop(&o->patience);
	o->up = o->known = true;
	orch_fence_up(o);
	if (o->delay != RETRY_MIN)
		log_info("orchestrator %s: connected", o->conf.where);
	event_add(EVENT_CONNECTED, NULL, "orchestrator %s", o->conf.where);
	o->delay = RETRY_MIN;
	orch_map_up(o);
	orch_active_up(o);
	dir_connected(o->ctl->host->dir, orch_call, o);
	store_told(o, 0, "");
	tell_ready(o);
}

/* The list is complete. */
static void sync_done(struct orch *o)
{
	const char *why = store_refused_missing(o);

	if (*why)
		refuse(o, why);
	else
		store_fill(o);
}

struct container *orch_container(struct ctl *ctl, const struct ffo_container *info, int *err)
{
	struct container *c = container_find(ctl, info->name);

	*err = 0;
	if (c && c->id != info->id) {
		container_leave(c, "it was removed, and is to be added again");
		c = NULL;
	}
	if (c) {
		if (info->epoch >= c->epoch)
			container_update(c, info);
		return c;
	}
	*err = container_attach(ctl, info);
	return *err ? NULL : container_find(ctl, info->name);
}

/* False: the orchestrator was given up. */
static bool sync_container(struct orch *o, json_t *j)
{
	struct ffo_container info;
	struct container *c;
	const char *why;
	int err;

	if (ffo_container_from_json(j, &info)) {
		log_err("orchestrator: a container's description is not understood");
		return true;
	}
	if (strcmp(info.host, o->conf.host))
		return true;
	why = o->up ? "" : store_refused_for(o, &info);
	if (*why) {
		refuse(o, why);
		return false;
	}
	c = orch_container(o->ctl, &info, &err);
	if (c)
		((struct container_ctl *)c->ctl)->sync = o->sync;
	else
		log_err("container %s: %s", info.name, strerror(-err));
	return true;
}

/* Moved to another host, or removed: nobody may use its address here any more. */
static void event_detach(struct orch *o, json_t *msg)
{
	json_int_t id = json_integer_value(json_object_get(msg, "container"));
	struct container *c = id > 0 && id <= UINT32_MAX ? container_by_id(o->ctl, (uint32_t)id) :
							   NULL;

	if (!c)
		return;
	log_info("container %s: it has left this host", c->name);
	container_leave(c, "it was removed, or moved to another host");
}

static void event_tenants(struct orch *o, json_t *msg)
{
	int err = orch_tenants(o->ctl->host, json_object_get(msg, "tenants"));

	if (err)
		log_err("orchestrator: the tenants' limits are not understood, older ones stay: %s",
			strerror(-err));
}

static void on_event(void *arg, const char *event, json_t *msg)
{
	struct orch *o = arg;

	if (!strcmp(event, "attach"))
		sync_container(o, json_object_get(msg, "container"));
	else if (!strcmp(event, "detach"))
		event_detach(o, msg);
	else if (!strcmp(event, "tenants"))
		event_tenants(o, msg);
	else
		dir_event(o->ctl->host->dir, event, msg);
}

static void listed(void *arg, int err, const char *why, json_t *answer);

static void sync_list(struct orch *o, json_int_t after)
{
	int err = ffo_client_call(o->client, FFO_OP_CONTAINER_LIST,
				  json_pack("{s:s, s:I}", "host", o->conf.host, "after", after),
				  listed, o);

	if (err)
		orch_down(o, strerror(-err));
}

static void listed(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;
	json_t *next, *j;
	size_t i;

	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (err) {
		orch_down(o, why);
		return;
	}
	json_array_foreach(json_object_get(answer, "containers"), i, j)
		if (!sync_container(o, j))
			return;
	next = json_object_get(answer, "next");
	if (json_is_integer(next))
		sync_list(o, json_integer_value(next));
	else
		sync_done(o);
}

static void tenants_told(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;

	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (!err && orch_tenants(o->ctl->host, json_object_get(answer, "tenants"))) {
		err = -EPROTO;
		why = "its limits of tenants are not understood";
	}
	if (err) {
		orch_down(o, why);
		return;
	}
	o->sync++;
	sync_list(o, 0);
}

static void policy_told(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;

	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (!err && dir_policy(o->ctl->host->dir, json_object_get(answer, "rules"))) {
		err = -EPROTO;
		why = "its policy is not understood";
	}
	if (!err) {
		err = ffo_client_call(o->client, FFO_OP_TENANT_WATCH, NULL, tenants_told, o);
		why = strerror(-err);
	}
	if (err)
		orch_down(o, why);
}

static void registered(void *arg, int err, const char *why, json_t *answer)
{
	json_t *store = json_object_get(answer, "store"), *last = json_object_get(answer, "last");
	struct orch *o = arg;

	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (!err && !json_string_length(store)) {
		err = -EPROTO;
		why = "it does not say which store it has";
	}
	if (!err) {
		snprintf(o->says, sizeof(o->says), "%s", json_string_value(store));
		o->last = json_is_integer(last) ? (uint32_t)json_integer_value(last) : 0;
		why = store_refused(o);
		if (*why) {
			refuse(o, why);
			return;
		}
	}
	if (!err)
		err = ffo_client_call(o->client, FFO_OP_POLICY_WATCH, NULL, policy_told, o);
	if (err)
		orch_down(o, *why ? why : strerror(-err));
}

static json_t *host_fields(struct orch *o)
{
	json_t *fields =
		json_pack("{s:s, s:s}", "host", o->conf.host, "instance", o->conf.instance);
	const char *wire = o->conf.wire;

	if (*wire)
		json_object_set_new(fields, "wire", json_string(wire));
	return fields;
}

static void greeted(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;

	(void)answer;
	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (!err)
		err = ffo_client_call(o->client, FFO_OP_HOST_REGISTER, host_fields(o), registered,
				      o);
	if (err)
		orch_down(o, *why ? why : strerror(-err));
}

/* The hosts share a store, and each has an orchestrator of its own. */
static bool is_zookeeper(const struct orch_conf *conf)
{
	return !strncmp(conf->where, ZOOKEEPER, strlen(ZOOKEEPER));
}

static int embedded_open(struct orch *o)
{
	const struct orch_conf *conf = &o->conf;
	struct ffo_conf fc = {
		.store = is_zookeeper(conf) ? conf->where : conf->store,
		.pools = conf->pools,
		.num_pools = conf->num_pools,
	};
	mode_t old = umask(077); /* the store has keys in it */
	int fd, err = ffo_embedded_start(&fc, &fd);

	umask(old);
	if (err)
		return err;
	o->embedded = true;
	return ffo_client_open(o->ctl->loop, fd, on_closed, o, &o->client);
}

static void orch_connect(struct orch *o)
{
	const struct orch_conf *conf = &o->conf;
	char why[sizeof(o->said)];
	int err;

	uv_timer_start(&o->patience, on_patience, o->told ? PATIENCE : READY_AFTER, 0);
	if (!strcmp(conf->where, "embedded") || is_zookeeper(conf))
		err = embedded_open(o);
	else
		err = ffo_client_connect(o->ctl->loop, conf->where, o->tls, on_closed, o,
					 &o->client);
	if (!err) {
		ffo_client_on_event(o->client, on_event);
		err = ffo_client_call(o->client, FFO_OP_HELLO,
				      json_pack("{s:i, s:s}", "version", FFO_PROTO_VERSION, "host",
						conf->host),
				      greeted, o);
	}
	if (!err || err == -ENOTCONN) /* not reached: on_closed() will tell why */
		return;
	snprintf(why, sizeof(why), "store %s: %s", conf->store,
		 err == -EBADMSG ? "damaged, or no store of ffo" : strerror(-err));
	orch_down(o, has_file(o) ? why : strerror(-err));
}

void orch_call(struct orch *o, enum ffo_op op, json_t *fields, ffo_reply_cb cb, void *arg)
{
	char why[sizeof(o->said) + 64];
	int err;

	if (!o->up) {
		json_decref(fields);
		snprintf(why, sizeof(why), "the orchestrator cannot be reached%s%s",
			 *o->said ? ": " : "", o->said);
		cb(arg, -ENOTCONN, why, NULL);
		return;
	}
	err = ffo_client_call(o->client, op, fields, cb, arg);
	if (err)
		cb(arg, err, strerror(-err), NULL);
}

/* Has the orchestrator's certificate been revoked? */
static void on_look(uv_timer_t *t)
{
	struct orch *o = t->data;
	unsigned int number = tls_list_number(o->tls);

	if (number == o->list)
		return;
	o->list = number;
	if (o->client && ffo_client_is_revoked(o->client))
		orch_down(o, TLS_REVOKED);
}

/* ---- life ---------------------------------------------------------------------------------- */

static void orch_free(struct orch *o)
{
	tls_free(o->tls);
	free(o);
}

static int orch_init(struct orch *o)
{
	const struct orch_conf *conf = &o->conf;
	char why[512];

	if (ffo_address_is_tls(conf->where)) {
		o->tls = tls_create(conf->tls, why, sizeof(why));
		if (!o->tls) {
			log_err("orchestrator %s: %s", conf->where, why);
			return -EINVAL;
		}
	}
	return orch_map_init(o);
}

static const struct ctl_hooks hooks = {
	.mr_added = orch_map_publish,
	.rkey_gone = orch_map_withdraw,
	.session_gone = orch_session_gone,
	.session_changed = orch_container_active,
};

int orch_start(struct ctl *ctl, const struct orch_conf *conf)
{
	struct orch *o = calloc(1, sizeof(*o));
	int err;

	if (!o)
		return -ENOMEM;
	o->ctl = ctl;
	o->conf = *conf;
	o->delay = RETRY_MIN;
	err = orch_init(o);
	if (err) {
		orch_free(o);
		return err;
	}
	o->conf.tls = NULL;
	err = orch_claim_init(o);
	if (err) {
		orch_map_stop(o);
		return err;
	}
	orch_active_init(o);
	orch_fence_init(o);
	uv_timer_init(ctl->loop, &o->retry);
	uv_timer_init(ctl->loop, &o->patience);
	uv_timer_init(ctl->loop, &o->look);
	o->retry.data = o->patience.data = o->look.data = o;
	o->open_handles += 3;
	if (o->tls && tls_has_list(o->tls))
		uv_timer_start(&o->look, on_look, TLS_LOOK, TLS_LOOK);
	ctl->orch = o;
	ctl->hooks = &hooks;
	orch_connect(o);
	return 0;
}

void orch_on_handle_closed(uv_handle_t *h)
{
	struct orch *o = h->data;

	if (!--o->open_handles)
		orch_free(o);
}

void orch_stop(struct orch *o)
{
	if (!o)
		return;
	o->up = false;
	ffo_client_close(o->client);
	store_told(o, -ECANCELED, "the router is being stopped");
	dir_disconnected(o->ctl->host->dir);
	if (o->embedded)
		ffo_embedded_stop();
	orch_map_stop(o);
	orch_active_stop(o);
	orch_claim_stop(o);
	orch_fence_stop(o);
	uv_close((uv_handle_t *)&o->retry, orch_on_handle_closed);
	uv_close((uv_handle_t *)&o->patience, orch_on_handle_closed);
	uv_close((uv_handle_t *)&o->look, orch_on_handle_closed);
}
