/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sub.c - subscriptions: what a connection has asked to be told of. Their kinds are in op_resolve.c,
 * op_map_watch.c, op_mcast.c, op_policy.c and op_tenant.c. The orchestrator's loop only.
 *
 * A subscription has a state, kept up to date by watches of the store. Whoever asks before there is
 * a first state waits for it. Afterwards a change puts the subscription into a queue of its
 * connection, once, however often it changes; the event is made when the connection has room for
 * it, from the state as it is then. So a client that is slow is told less often, not later and
 * later.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdlib.h>

static struct sub *find(struct conn *c, const struct store_key *key)
{
	struct sub *sub;

	HASH_FIND(hh, c->subs, key, sizeof(*key), sub);
	return sub;
}

static void drop(struct sub *sub)
{
	struct conn *c = sub->conn;

	HASH_DEL(c->subs, sub);
	if (sub->queued)
		TAILQ_REMOVE(&c->to_tell, sub, entry);
	if (sub->ops->policy)
		LIST_REMOVE(sub, policy_entry);
	sub->ops->stop(sub);
	free(sub);
}

/* End the requests that wait for it. It may be gone after that, or was before. */
static void end_waiters(struct request *r)
{
	struct request *next;

	for (; r; r = next) {
		next = LIST_NEXT(r, sub_entry);
		request_end(r, r->err);
	}
}

/* Take the requests that wait for it away from it; `err` and `why`, or its state, answer them. */
static struct request *take_waiters(struct sub *sub, int err, const char *why)
{
	struct request *first = LIST_FIRST(&sub->waiters), *r;

	LIST_FOREACH(r, &sub->waiters, sub_entry) {
		r->sub = NULL;
		r->err = err;
		if (err)
			request_failed(r, err, why);
		else if (sub->ops->answer)
			r->err = sub->ops->answer(sub, r);
	}
	LIST_INIT(&sub->waiters);
	return first;
}

static struct sub *make(struct conn *c, const struct sub_ops *ops, const struct store_key *key)
{
	struct sub *sub = calloc(1, ops->size);

	if (!sub)
		return NULL;
	sub->conn = c;
	sub->ops = ops;
	sub->key = *key;
	LIST_INIT(&sub->waiters);
	HASH_ADD(hh, c->subs, key, sizeof(sub->key), sub);
	if (!sub->hh.tbl) {
		free(sub);
		return NULL;
	}
	if (ops->policy)
		LIST_INSERT_HEAD(&c->ffo->by_policy, sub, policy_entry);
	return sub;
}

int sub_request(struct request *r, const struct sub_ops *ops, const struct store_key *key)
{
	struct conn *c = r->conn;
	struct sub *sub = find(c, key);
	bool is_new = !sub;

	if (sub && sub->ready)
		return ops->answer ? ops->answer(sub, r) : 0;
	if (is_new && HASH_COUNT(c->subs) >= FFO_SUBS_MAX)
		return request_fail(r, -ENOSPC, "this connection has %u subscriptions",
				    FFO_SUBS_MAX);
	if (is_new)
		sub = make(c, ops, key);
	if (!sub)
		return -ENOMEM;
	r->sub = sub;
	LIST_INSERT_HEAD(&sub->waiters, r, sub_entry);
	request_wait(r);
	if (is_new)
		ops->start(sub, r);
	return REQUEST_LATER;
}

void sub_give_up(struct request *r)
{
	struct sub *sub = r->sub;

	r->sub = NULL;
	LIST_REMOVE(r, sub_entry);
	if (!sub->ready && LIST_EMPTY(&sub->waiters))
		drop(sub);
}

int sub_cancel(struct request *r, const struct store_key *key)
{
	struct sub *sub = find(r->conn, key);
	struct request *waiters;

	if (!sub)
		return request_fail(r, -ENOENT, "this was not asked for");
	waiters = take_waiters(sub, -EAGAIN, "it was taken back");
	drop(sub);
	end_waiters(waiters);
	return 0;
}

void sub_ready(struct sub *sub, int err, const char *why)
{
	struct request *waiters;

	sub->ready = !err;
	waiters = take_waiters(sub, err, why);
	if (err)
		drop(sub);
	end_waiters(waiters);
}

void sub_changed(struct sub *sub)
{
	if (!sub->queued)
		TAILQ_INSERT_TAIL(&sub->conn->to_tell, sub, entry);
	sub->queued = true;
	conn_kick(sub->conn);
}

void subs_access(struct conn *c)
{
	struct sub *sub, *next;

	HASH_ITER(hh, c->subs, sub, next)
		if (sub->ready && sub->ops->access)
			sub->ops->access(sub);
}

void subs_stop(struct conn *c)
{
	struct sub *sub, *next;
	struct request *waiters;

	HASH_ITER(hh, c->subs, sub, next) {
		waiters = take_waiters(sub, -EAGAIN, "the connection has ended");
		drop(sub);
		end_waiters(waiters);
	}
}

/* The next event. *more: there was something to tell. */
static json_t *next_event(struct conn *c, bool *any)
{
	struct sub *sub = TAILQ_FIRST(&c->to_tell);
	enum sub_event what;
	json_t *msg = NULL;

	*any = true;
	if (!TAILQ_EMPTY(&c->owned_to_tell))
		return owned_event(c);
	for (; sub; sub = TAILQ_FIRST(&c->to_tell)) {
		TAILQ_REMOVE(&c->to_tell, sub, entry);
		sub->queued = false;
		what = sub->ops->event(sub, &msg);
		if (what == SUB_MORE)
			sub_changed(sub);
		if (what != SUB_NOTHING)
			return msg;
	}
	*any = false;
	return NULL;
}

void subs_tell(struct conn *c)
{
	json_t *msg;
	bool any;

	while (!c->closing && !c->leaving && conn_has_room(c)) {
		msg = next_event(c, &any);
		if (!any)
			return;
		conn_send(c, msg); /* without memory for it, this ends the connection */
		json_decref(msg);
	}
}
