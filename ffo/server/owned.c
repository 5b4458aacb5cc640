/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * owned.c - the containers of a connection's host, as its router is to know them: whose mappings it
 * may publish (op_map.c), and the events attach and detach. The orchestrator's loop only.
 *
 * The router learns which containers it has by container_list, from the answers to its own requests that add, move
 * or remove one, and by events when others did that. It learns of a change of a container that it has by an event
 * only, whoever asked for the change: owned_changed() sends the event before the answer to the router's own request.
 * So the router applies each change once, and has applied it when the answer comes. A container that has left and come
 * back has a new epoch in between: it is detached first.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static struct owned *find(const struct conn *c, uint32_t id)
{
	struct owned *o;

	HASH_FIND(hh, c->owned, &id, sizeof(id), o);
	return o;
}

const struct ffo_container *owned_find(const struct conn *c, uint32_t id)
{
	const struct owned *o = find(c, id);

	return o && o->here ? &o->c : NULL;
}

static struct owned *find_or_make(struct conn *c, uint32_t id)
{
	struct owned *o = find(c, id);

	if (o)
		return o;
	o = calloc(1, sizeof(*o));
	if (!o)
		return NULL;
	o->id = id;
	HASH_ADD(hh, c->owned, id, sizeof(o->id), o);
	if (o->hh.tbl)
		return o;
	free(o);
	return NULL;
}

static void unqueue(struct conn *c, struct owned *o)
{
	if (o->queued)
		TAILQ_REMOVE(&c->owned_to_tell, o, entry);
	o->queued = false;
}

static void forget(struct conn *c, struct owned *o)
{
	unqueue(c, o);
	HASH_DEL(c->owned, o);
	free(o);
}

static void to_tell(struct conn *c, struct owned *o)
{
	if (!c->up)
		return; /* the router will list them */
	if (!o->queued)
		TAILQ_INSERT_TAIL(&c->owned_to_tell, o, entry);
	o->queued = true;
	conn_kick(c);
}

static void dropped(void *arg, int err, const char *why)
{
	(void)arg, (void)err, (void)why; /* nobody reads an old epoch's mappings */
}

/* It is not the host's any more, or in a later epoch. */
static void end_epoch(struct conn *c, struct owned *o)
{
	struct ffo_store *s = c->ffo->store;

	s->ops->map_drop(s, c->host, o->id, o->c.epoch, 0, dropped, NULL);
}

static int put(struct conn *c, const struct ffo_container *cont)
{
	struct owned *o = find_or_make(c, cont->id);

	if (!o)
		return -ENOMEM;
	o->seen = true;
	if (o->here && ffo_container_same(&o->c, cont))
		return 0;
	if (o->here && o->c.epoch != cont->epoch)
		end_epoch(c, o);
	o->c = *cont;
	o->here = true;
	to_tell(c, o);
	access_changed(c);
	return 0;
}

static void del(struct conn *c, uint32_t id)
{
	struct owned *o = find(c, id);

	if (!o || !o->here)
		return;
	end_epoch(c, o);
	o->here = false;
	access_changed(c);
	if (o->told)
		to_tell(c, o);
	else
		forget(c, o);
}

static void listing(struct conn *c)
{
	struct owned *o, *next;

	HASH_ITER(hh, c->owned, o, next)
		o->seen = false;
}

static void listed(struct conn *c)
{
	struct owned *o, *next;

	HASH_ITER(hh, c->owned, o, next)
		if (!o->seen)
			del(c, o->id);
}

/* All are known for the first time: the host's registration is done. */
static void complete(struct conn *c)
{
	struct request *r = c->registering;
	struct owned *o, *next;

	HASH_ITER(hh, c->owned, o, next)
		o->told = o->c.epoch;
	c->registering = NULL;
	c->up = true;
	log_info("host %s: router connected", c->host);
	request_end(r, 0);
}

/* What is known of them is not all: the router is to begin anew. */
static void failed(struct conn *c, int err)
{
	struct request *r = c->registering;

	if (!r) {
		conn_close(c, "its containers cannot be read");
		return;
	}
	owned_abort(c);
	request_end(r, request_fail(r, err, "the containers of host %s cannot be read",
				    r->arg.host_register.host));
}

static void news_came(void *arg, const struct store_news *news)
{
	struct conn *c = arg;
	int err = news->err;

	if (news->reset)
		listing(c);
	for (size_t i = 0; !err && i < news->owned.num_put; i++)
		err = put(c, &news->owned.put[i]);
	for (size_t i = 0; !err && i < news->owned.num_del; i++)
		del(c, news->owned.del[i]);
	if (err) {
		failed(c, err);
		return;
	}
	if (!news->synced)
		return;
	listed(c);
	if (c->registering)
		complete(c);
}

void owned_start(struct conn *c, struct request *r)
{
	struct ffo_store *s = c->ffo->store;

	c->registering = r;
	c->owned_watch.key.kind = STORE_OWNED;
	memcpy(c->owned_watch.key.name, c->host, sizeof(c->host));
	c->owned_watch.cb = news_came;
	c->owned_watch.arg = c;
	request_wait(r);
	s->ops->watch(s, &c->owned_watch);
}

static void unwatch(struct conn *c)
{
	struct ffo_store *s = c->ffo->store;
	struct owned *o, *next;

	if (c->owned_watch.cb)
		s->ops->unwatch(s, &c->owned_watch);
	c->owned_watch.cb = NULL;
	HASH_ITER(hh, c->owned, o, next)
		forget(c, o);
}

void owned_abort(struct conn *c)
{
	c->registering = NULL;
	unwatch(c);
	host_gone(c);
}

void owned_stop(struct conn *c)
{
	struct request *r = c->registering;

	c->registering = NULL;
	unwatch(c);
	if (r)
		request_end(r, -EAGAIN);
}

/* The event that the container is the host's, or has changed; the container waits no more. NULL: no memory. */
static json_t *attach_event(struct conn *c, struct owned *o)
{
	unqueue(c, o);
	o->told = o->c.epoch;
	return json_pack("{s:s, s:o}", "event", "attach", "container",
			 ffo_container_to_json(&o->c));
}

/*
 * Sends the event about a change, unless the store's news of it came first and the event was sent then. News that come
 * later change nothing: put() compares.
 */
static void tell_change(struct conn *c, struct owned *o, const struct ffo_container *cont)
{
	json_t *msg;

	put(c, cont);
	if (!o->queued)
		return;
	msg = attach_event(c, o);
	conn_send(c, msg); /* without memory for it, this ends the connection */
	json_decref(msg);
}

void owned_changed(struct conn *c, const struct ffo_container *cont, bool gone)
{
	struct owned *o;

	if (!c->up || c->closing)
		return;
	if (strcmp(cont->host, c->host)) {
		del(c, cont->id);
		return;
	}
	o = find(c, cont->id);
	if (gone) {
		if (o)
			forget(c, o); /* its mappings went with it */
		access_changed(c);
		return;
	}
	if (o && o->told == cont->epoch) {
		tell_change(c, o, cont);
		return;
	}
	o = find_or_make(c, cont->id);
	if (!o)
		return; /* the watch tells */
	unqueue(c, o);
	o->c = *cont;
	o->here = true;
	o->told = cont->epoch;
	access_changed(c);
}

json_t *owned_event(struct conn *c)
{
	struct owned *o = TAILQ_FIRST(&c->owned_to_tell);
	json_t *msg;

	if (o->told && (!o->here || o->told != o->c.epoch)) {
		msg = json_pack("{s:s, s:I, s:s}", "event", "detach", "container",
				(json_int_t)o->id, "name", o->c.name);
		o->told = 0;
		if (!o->here)
			forget(c, o);
		return msg;
	}
	return attach_event(c, o);
}
