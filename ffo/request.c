/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * request.c - the life of a request: parsed, checked against the table of ops, carried out by an
 * op_*.c, committed, answered. Called by server.c for each line. The orchestrator's loop only.
 *
 * The commit may end later (store.h); the request lives and holds its connection until then. What
 * the op took from the allocator is kept or given back according to how the commit ended, so the
 * allocator always knows at least what the store knows.
 */
#include "server.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int (*const op_run[])(struct request *r) = {
#define X(NAME, name, caller) op_##name,
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

int request_txn(struct request *r)
{
	return r->txn ? 0 : r->ffo->store->ops->begin(r->ffo->store, &r->txn);
}

int request_reply(struct request *r, const char *key, json_t *value)
{
	return json_object_set_new(r->reply, key, value) ? -ENOMEM : 0;
}

json_t *request_error(json_int_t id, int err, const char *why)
{
	return json_pack("{s:I, s:b, s:s, s:s}", "id", id, "ok", 0, "error", ffo_error_name(err),
			 "message", *why ? why : strerror(-err));
}

static void give_back(struct ffo *f, const struct holding *h)
{
	for (unsigned int i = 0; i < h->num_ips; i++)
		alloc_put_addr(f->alloc, h->tenant, &h->ip[i]);
	if (h->lid)
		alloc_put_lid(f->alloc, h->lid);
}

/* store_done_cb, too. */
static void request_end(void *arg, int err)
{
	struct request *r = arg;
	json_t *reply;

	give_back(r->ffo, err ? &r->claimed : &r->unclaimed);
	if (r->registers && err)
		r->conn->host[0] = '\0';
	else if (r->registers)
		log_info("host %s: router connected", r->conn->host);
	reply = err ? request_error(r->id, err, r->why) : json_incref(r->reply);
	conn_send(r->conn, reply);
	json_decref(reply);
	json_decref(r->reply);
	json_decref(r->msg);
	conn_put(r->conn);
	free(r);
}

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
	if (ffo_op_caller[r->op] == FFO_CALLER_HOST && !*r->conn->host)
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
	r->conn = c;
	r->ffo = c->ffo;
	r->msg = msg;
	err = run(r);
	if (!err && r->txn) {
		r->ffo->store->ops->commit(r->txn, request_end, r);
		return 0;
	}
	if (r->txn)
		r->ffo->store->ops->abort(r->txn);
	request_end(r, err);
	return 0;
}
