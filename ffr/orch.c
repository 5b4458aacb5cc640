/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * orch.c - the router as a client of the orchestrator. Control thread.
 *
 * Neighbours: ffo/client.c is the connection, container.c follows what the orchestrator says,
 * ctl_mr.c and session.c tell what to publish.
 *
 * A connection starts with hello, host_register and the list of this host's containers; then the
 * router attaches what it did not have, detaches what it should not have, and publishes all MRs
 * anew (the orchestrator drops a host's mappings with its connection). A lost connection is tried
 * again, ever more slowly; meanwhile the host serves its containers from what it knows.
 *
 * Mappings are published in batches, one under way at a time, so that they stay in order. An MR
 * that goes before its batch was sent is never mentioned. Nobody waits for any of this.
 */
#include "orch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <uthash.h>

#include "../ffo/ffo.h"
#include "container.h"
#include "log.h"

#define RETRY_MIN   100	 /* ms */
#define RETRY_MAX   5000 /* ms */
#define BATCH_DELAY 2	 /* ms: what is registered meanwhile travels together */

/* A mapping to publish, not sent yet. */
struct publish {
	uint64_t id; /* container << 32 | rkey */
	struct ffo_map map;
	UT_hash_handle hh;
};

/* A mapping, or all of a session, to be withdrawn. */
struct withdraw {
	STAILQ_ENTRY(withdraw) entry;
	uint32_t container;
	uint32_t rkey; /* 0: all of the session */
	uint32_t session;
};

struct orch {
	struct router *r;
	struct ffo_client *client; /* NULL: not connected */
	bool up;		   /* synchronized: calls are let through */
	bool told;		   /* router_ready() was called */
	bool embedded;		   /* the thread runs */
	uv_timer_t retry, flush;
	unsigned open_handles;
	uint32_t delay; /* ms until the next try */
	uint32_t sync;	/* number of the listing under way */
	struct publish *publish;
	STAILQ_HEAD(, withdraw) withdraw;
	bool map_busy;
};

static void orch_connect(struct orch *o);
static void flush_soon(struct orch *o);

/* ---- the map ------------------------------------------------------------------------------- */

static uint64_t map_id(uint32_t container, uint32_t rkey)
{
	return (uint64_t)container << 32 | rkey;
}

static void map_forget(struct orch *o)
{
	struct publish *p, *tmp;
	struct withdraw *w;

	HASH_ITER(hh, o->publish, p, tmp) {
		HASH_DEL(o->publish, p);
		free(p);
	}
	while ((w = STAILQ_FIRST(&o->withdraw))) {
		STAILQ_REMOVE_HEAD(&o->withdraw, entry);
		free(w);
	}
	o->map_busy = false;
}

/* The router's address of the MR's first byte, if one mapping reaches all of it. */
static uint64_t map_shadow(const struct mr *mr)
{
	const struct mr_run *run = mr->run;

	if (mr->num_runs != 1 || run->va > mr->addr || run->va + run->len < mr->addr + mr->length)
		return 0;
	return (uint64_t)(run->host + (mr->addr - run->va));
}

void orch_map_publish(struct orch *o, const struct mr *mr)
{
	const struct container *c = mr->o.ses->cont;
	struct publish *p;

	if (!o->up || mr->kind == MR_NULL)
		return; /* all are published when it is; nobody asks for nothing */
	p = calloc(1, sizeof(*p));
	if (!p) {
		log_err("container %s: mapping not published: out of memory", c->name);
		return;
	}
	p->id = map_id(c->id, mr->rkey);
	p->map = (struct ffo_map){
		.container = c->id,
		.rkey = mr->rkey,
		.session = mr->o.ses->id,
		.addr = mr->iova,
		.length = mr->length,
		.access = mr->access,
		.shadow = map_shadow(mr),
		.key = mr->rkey,
		.epoch = ((struct container_ctl *)c->ctl)->epoch,
	};
	HASH_ADD(hh, o->publish, id, sizeof(p->id), p);
	flush_soon(o);
}

static void withdraw_add(struct orch *o, uint32_t container, uint32_t rkey, uint32_t session)
{
	struct withdraw *w = calloc(1, sizeof(*w));

	if (!w) {
		log_err("mapping not withdrawn: out of memory");
		return;
	}
	*w = (struct withdraw){ .container = container, .rkey = rkey, .session = session };
	STAILQ_INSERT_TAIL(&o->withdraw, w, entry);
	flush_soon(o);
}

void orch_map_withdraw(struct orch *o, uint32_t container, uint32_t rkey)
{
	uint64_t id = map_id(container, rkey);
	struct publish *p;

	if (!o->up)
		return;
	HASH_FIND(hh, o->publish, &id, sizeof(id), p);
	if (!p) {
		withdraw_add(o, container, rkey, 0);
		return;
	}
	HASH_DEL(o->publish, p);
	free(p);
}

void orch_session_gone(struct orch *o, uint32_t container, uint32_t session)
{
	struct publish *p, *tmp;

	if (!o->up)
		return;
	HASH_ITER(hh, o->publish, p, tmp) {
		if (p->map.container != container || p->map.session != session)
			continue;
		HASH_DEL(o->publish, p);
		free(p);
	}
	withdraw_add(o, container, 0, session);
}

static void flush_next(struct orch *o);

static void flush_done(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;
	size_t refused = json_array_size(json_object_get(answer, "refused"));

	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (err == -ENOENT || refused)
		log_debug("orchestrator: mappings of a container that has left were refused");
	else if (err)
		log_warn("orchestrator: mappings: %s", why);
	o->map_busy = false;
	flush_next(o);
}

static json_t *publish_batch(struct orch *o)
{
	json_t *rows = json_array();
	struct publish *p, *tmp;

	HASH_ITER(hh, o->publish, p, tmp) {
		if (json_array_size(rows) == FFO_BATCH_MAX)
			break;
		json_array_append_new(rows, ffo_map_to_json(&p->map));
		HASH_DEL(o->publish, p);
		free(p);
	}
	return json_pack("{s:o}", "maps", rows);
}

/* The next withdrawals of one kind: single mappings, or a session. */
static json_t *withdraw_batch(struct orch *o, enum ffo_op *op)
{
	struct withdraw *w = STAILQ_FIRST(&o->withdraw);
	json_t *rows, *fields;

	if (!w->rkey) {
		*op = FFO_OP_MAP_DROP;
		fields = json_pack("{s:I, s:I}", "container", (json_int_t)w->container, "session",
				   (json_int_t)w->session);
		STAILQ_REMOVE_HEAD(&o->withdraw, entry);
		free(w);
		return fields;
	}
	*op = FFO_OP_MAP_WITHDRAW;
	rows = json_array();
	while ((w = STAILQ_FIRST(&o->withdraw)) && w->rkey &&
	       json_array_size(rows) < FFO_BATCH_MAX) {
		json_array_append_new(rows, json_pack("[I, I]", (json_int_t)w->container,
						      (json_int_t)w->rkey));
		STAILQ_REMOVE_HEAD(&o->withdraw, entry);
		free(w);
	}
	return json_pack("{s:o}", "maps", rows);
}

/* Withdrawals first: they are of mappings that were published before what waits now. */
static void flush_next(struct orch *o)
{
	enum ffo_op op = FFO_OP_MAP_PUBLISH;
	json_t *fields;
	int err;

	if (!o->up || o->map_busy)
		return;
	if (!STAILQ_EMPTY(&o->withdraw))
		fields = withdraw_batch(o, &op);
	else if (o->publish)
		fields = publish_batch(o);
	else
		return;
	err = ffo_client_call(o->client, op, fields, flush_done, o);
	if (err)
		log_err("orchestrator: mappings: %s", strerror(-err));
	else
		o->map_busy = true;
}

static void on_flush(uv_timer_t *t)
{
	flush_next(t->data);
}

static void flush_soon(struct orch *o)
{
	if (!o->map_busy && !uv_is_active((uv_handle_t *)&o->flush))
		uv_timer_start(&o->flush, on_flush, BATCH_DELAY, 0);
}

static void publish_all(struct orch *o)
{
	struct container *c;
	struct session *s;

	LIST_FOREACH(c, &o->r->fast->containers, entry) {
		LIST_FOREACH(s, &c->sessions, entry) {
			const struct obj_table *t = &s->tab[OBJ_MR];

			for (uint32_t i = 0; i < t->size; i++)
				if (t->slot[i])
					orch_map_publish(o, obj_of(t->slot[i], mr));
		}
	}
}

/* ---- the connection ------------------------------------------------------------------------ */

static void tell_ready(struct orch *o)
{
	if (o->told)
		return;
	o->told = true;
	router_ready(o->r);
}

static void on_retry(uv_timer_t *t)
{
	orch_connect(t->data);
}

/* Not reached, lost, or of no use: try again later. */
static void orch_down(struct orch *o, const char *why)
{
	if (o->delay == RETRY_MIN)
		log_warn("orchestrator %s: %s", o->r->conf.orchestrator, why);
	ffo_client_close(o->client);
	o->client = NULL;
	o->up = false;
	map_forget(o);
	if (o->embedded)
		ffo_embedded_stop();
	o->embedded = false;
	uv_timer_start(&o->retry, on_retry, o->delay, 0);
	o->delay = o->delay * 2 < RETRY_MAX ? o->delay * 2 : RETRY_MAX;
	tell_ready(o);
}

static void on_closed(void *arg, int err)
{
	struct orch *o = arg;

	orch_down(o, strerror(-err));
}

static void sync_done(struct orch *o)
{
	struct container *c, *next;

	for (c = LIST_FIRST(&o->r->fast->containers); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (((struct container_ctl *)c->ctl)->sync != o->sync)
			container_detach(c);
	}
	containers_sweep(o->r);
	o->up = true;
	if (o->delay != RETRY_MIN)
		log_info("orchestrator %s: connected", o->r->conf.orchestrator);
	o->delay = RETRY_MIN;
	publish_all(o);
	tell_ready(o);
}

static void sync_container(struct orch *o, json_t *j)
{
	struct ffo_container info;
	struct container *c;
	int err = ffo_container_from_json(j, &info);

	if (err) {
		log_err("orchestrator: a container's description is not understood");
		return;
	}
	c = container_find(o->r, info.name);
	if (c && c->id != info.id) { /* removed and added again meanwhile */
		container_detach(c);
		c = NULL;
	}
	if (c) {
		container_update(c, &info);
	} else {
		err = container_attach(o->r, &info);
		c = container_find(o->r, info.name);
	}
	if (c)
		((struct container_ctl *)c->ctl)->sync = o->sync;
	else
		log_err("container %s: %s", info.name, strerror(-err));
}

static void listed(void *arg, int err, const char *why, json_t *answer);

static void sync_list(struct orch *o, json_int_t after)
{
	int err = ffo_client_call(
		o->client, FFO_OP_CONTAINER_LIST,
		json_pack("{s:s, s:I}", "host", o->r->conf.hostname, "after", after), listed, o);

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
		sync_container(o, j);
	next = json_object_get(answer, "next");
	if (json_is_integer(next))
		sync_list(o, json_integer_value(next));
	else
		sync_done(o);
}

static void registered(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;

	(void)answer;
	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (err) {
		orch_down(o, why);
		return;
	}
	o->sync++;
	sync_list(o, 0);
}

static void greeted(void *arg, int err, const char *why, json_t *answer)
{
	struct orch *o = arg;

	(void)answer;
	if (err == -ECONNRESET || err == -ECANCELED)
		return;
	if (!err)
		err = ffo_client_call(o->client, FFO_OP_HOST_REGISTER,
				      json_pack("{s:s, s:s}", "host", o->r->conf.hostname,
						"instance", o->r->instance),
				      registered, o);
	if (err)
		orch_down(o, *why ? why : strerror(-err));
}

static int embedded_open(struct orch *o)
{
	const struct ffr_conf *conf = &o->r->conf;
	struct ffo_conf fc = {
		.store = conf->store,
		.pools = (const char *const *)conf->pools,
		.num_pools = conf->num_pools,
	};
	mode_t old = umask(077); /* the store has keys in it */
	int fd, err = ffo_embedded_start(&fc, &fd);

	umask(old);
	if (err)
		return err;
	o->embedded = true;
	return ffo_client_open(&o->r->loop, fd, on_closed, o, &o->client);
}

static void orch_connect(struct orch *o)
{
	const struct ffr_conf *conf = &o->r->conf;
	int err;

	if (!strcmp(conf->orchestrator, "embedded"))
		err = embedded_open(o);
	else
		err = ffo_client_connect(&o->r->loop, conf->orchestrator, on_closed, o, &o->client);
	if (!err)
		err = ffo_client_call(o->client, FFO_OP_HELLO,
				      json_pack("{s:i, s:s}", "version", FFO_PROTO_VERSION, "host",
						conf->hostname),
				      greeted, o);
	if (err && err != -ENOTCONN) /* not reached: on_closed() will tell why */
		orch_down(o, strerror(-err));
}

void orch_call(struct orch *o, enum ffo_op op, json_t *fields, ffo_reply_cb cb, void *arg)
{
	int err;

	if (!o->up) {
		json_decref(fields);
		cb(arg, -ENOTCONN, "the orchestrator cannot be reached", NULL);
		return;
	}
	err = ffo_client_call(o->client, op, fields, cb, arg);
	if (err)
		cb(arg, err, strerror(-err), NULL);
}

/* ---- life ---------------------------------------------------------------------------------- */

int orch_start(struct router *r)
{
	struct orch *o = calloc(1, sizeof(*o));

	if (!o)
		return -ENOMEM;
	o->r = r;
	o->delay = RETRY_MIN;
	STAILQ_INIT(&o->withdraw);
	uv_timer_init(&r->loop, &o->retry);
	uv_timer_init(&r->loop, &o->flush);
	o->retry.data = o->flush.data = o;
	o->open_handles = 2;
	r->orch = o;
	orch_connect(o);
	return 0;
}

static void on_handle_closed(uv_handle_t *h)
{
	struct orch *o = h->data;

	if (!--o->open_handles)
		free(o);
}

void orch_stop(struct orch *o)
{
	if (!o)
		return;
	o->up = false;
	map_forget(o);
	ffo_client_close(o->client);
	if (o->embedded)
		ffo_embedded_stop();
	uv_close((uv_handle_t *)&o->retry, on_handle_closed);
	uv_close((uv_handle_t *)&o->flush, on_handle_closed);
}
