/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * request.c - the life of a request: parsed, checked against the table of ops, carried out by an
 * op_*.c, answered. Called by server.c for each line. The orchestrator's loop only.
 *
 * An op that asks the store ends the request from the store's callback, which may come at once or
 * later; the request lives and holds its connection until then. The store ends every call, but not
 * every watch has a first state while the store is away: requests that wait for one, and for the
 * store itself, are in f->waiting, which gives them up after f->patience.
 */
#include "ffo/server/server.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*const op_run[])(struct request *r) = {
#define X(NAME, name, caller, host, operator) op_##name,
	FFO_OPS(X)
#undef X
};
static_assert(sizeof(op_run) / sizeof(op_run[0]) == FFO_NUM_OPS, "one function for each op");

int request_fail(struct request *r, int err, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	return err;
}

int request_failed(struct request *r, int err, const char *why)
{
	return *r->why ? err : request_fail(r, err, "%s", why);
}

int request_try(struct request *r, uint32_t dry_run)
{
	struct ffo_store *s = r->ffo->store;
	int err;

	if (dry_run > 1)
		return request_fail(r, -EINVAL, "\"dry_run\" must be 0 or 1");
	r->dry_run = dry_run;
	err = dry_run ? s->ops->try_next(s) : 0;
	if (err)
		request_fail(r, err, "a store in %s cannot try a change", s->ops->name);
	return err;
}

int request_reply(struct request *r, const char *key, json_t *value)
{
	return json_object_set_new(r->reply, key, value) ? -ENOMEM : 0;
}

#define STORE_AWAY                                                                                 \
	"the orchestrator's store cannot be reached; ZooKeeper needs a majority of its servers"

static const char *error_text(int err)
{
	return err == -ENOTCONN ? STORE_AWAY : strerror(-err);
}

json_t *request_error(json_int_t id, int err, const char *why)
{
	return json_pack("{s:I, s:b, s:s, s:s}", "id", id, "ok", 0, "error", ffo_error_name(err),
			 "message", *why ? why : error_text(err));
}

void request_end(struct request *r, int err)
{
	struct conn *c = r->conn;
	json_t *reply;

	request_wait_end(r);
	reply = err ? request_error(r->id, err, r->why) : json_incref(r->reply);
	conn_send(c, reply);
	json_decref(reply);
	json_decref(r->reply);
	json_decref(r->msg);
	free(r);
	c->busy--;
	if (c->paused)
		conn_kick(c);
	conn_put(c);
}

void request_end_list(struct request *r, int err, const char *why, const char *key, json_t *list,
		      json_t *next)
{
	if (err)
		request_failed(r, err, why);
	if (!err && next)
		err = request_reply(r, "next", json_incref(next));
	if (!err)
		err = request_reply(r, key, json_incref(list));
	json_decref(next);
	json_decref(list);
	request_end(r, err);
}

/* ---- requests that wait ---------------------------------------------------------------------- */

/* What they wait for may never come: the store is away. */
static void expired(uv_timer_t *t)
{
	struct ffo *f = t->data;
	uint64_t now = uv_now(f->loop);
	struct request *r;

	while ((r = TAILQ_FIRST(&f->waiting)) && r->until <= now) {
		request_wait_end(r);
		if (r->sub)
			sub_give_up(r);
		request_fail(r, -ENOTCONN, STORE_AWAY);
		if (r->conn->registering == r)
			owned_abort(r->conn);
		request_end(r, -ENOTCONN);
	}
	if (r)
		uv_timer_start(t, expired, r->until - now, 0);
}

void request_wait(struct request *r)
{
	struct ffo *f = r->ffo;

	r->waiting = true;
	r->until = uv_now(f->loop) + f->patience;
	if (TAILQ_EMPTY(&f->waiting))
		uv_timer_start(&f->wait_timer, expired, f->patience, 0);
	TAILQ_INSERT_TAIL(&f->waiting, r, wait_entry);
}

void request_wait_end(struct request *r)
{
	struct ffo *f = r->ffo;

	if (!r->waiting)
		return;
	r->waiting = false;
	TAILQ_REMOVE(&f->waiting, r, wait_entry);
	if (TAILQ_EMPTY(&f->waiting))
		uv_timer_stop(&f->wait_timer);
}

/* ---------------------------------------------------------------------------------------------- */

/* May this connection ask for that now? */
static int check_caller(struct request *r)
{
	switch ((enum ffo_caller)ffo_op_caller[r->op]) {
	case FFO_CALLER_NEW:
		return r->conn->said_hello ? request_fail(r, -EPROTO, "hello was said already") : 0;
	case FFO_CALLER_ANY:
	case FFO_CALLER_HOST:
		break;
	}
	if (!r->conn->said_hello)
		return request_fail(r, -EPROTO, "the first request must be hello");
	if (ffo_op_caller[r->op] == FFO_CALLER_HOST && !r->conn->up)
		return request_fail(r, -EPERM,
				    "%s is for the router of a host: host_register first",
				    ffo_op_name[r->op]);
	return 0;
}

static int run(struct request *r)
{
	json_t *id = json_object_get(r->msg, "id");
	int err;

	if (!json_is_integer(id) || json_integer_value(id) < 0)
		return request_fail(r, -EINVAL, "field \"id\" must be an integer >= 0");
	r->id = json_integer_value(id);
	err = ffo_req_parse(r->msg, &r->op, &r->arg, r->why, sizeof(r->why));
	if (!err)
		err = check_caller(r);
	if (!err)
		err = access_check(r);
	if (err)
		return err;
	r->reply = json_pack("{s:I, s:b}", "id", r->id, "ok", 1);
	if (!r->reply)
		return -ENOMEM;
	return op_run[r->op](r);
}

int request_line(struct conn *c, const char *line, size_t len, char *why, size_t size)
{
	struct request *r;
	json_error_t error;
	json_t *msg;
	int err;

	msg = json_loadb(line, len, JSON_REJECT_DUPLICATES, &error);
	if (!json_is_object(msg)) {
		if (msg)
			snprintf(why, size, "a message must be a JSON object");
		else
			snprintf(why, size, "malformed JSON at byte %d", error.position);
		json_decref(msg);
		return -EBADMSG;
	}
	r = calloc(1, sizeof(*r));
	if (!r) {
		json_decref(msg);
		conn_close(c, "out of memory");
		return 0;
	}
	conn_get(c);
	c->busy++;
	r->conn = c;
	r->ffo = c->ffo;
	r->msg = msg;
	err = run(r);
	if (err != REQUEST_LATER)
		request_end(r, err);
	return 0;
}
