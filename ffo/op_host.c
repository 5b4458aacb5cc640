/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_host.c - hello, and hosts. A host is up while the connection lives that registered it; with
 * that connection its mappings go, its containers stay. Called by request.c and server.c; the
 * orchestrator's loop only.
 */
#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int op_hello(struct request *r)
{
	if (!r->arg.hello.version)
		return request_fail(r, -EPROTONOSUPPORT, "protocol version 0 is not spoken here");
	r->conn->said_hello = true;
	if (r->arg.hello.host)
		log_debug("client %lu: hello from %s", r->conn->number, r->arg.hello.host);
	return request_reply(r, "version", json_integer(FFO_PROTO_VERSION));
}

static struct conn *host_conn(struct ffo *f, const char *host)
{
	struct conn *c;

	LIST_FOREACH(c, &f->conns, entry)
		if (!strcmp(c->host, host))
			return c;
	return NULL;
}

static void host_now(struct ffo_host *h, const char *name, const char *instance)
{
	memset(h, 0, sizeof(*h));
	snprintf(h->name, sizeof(h->name), "%s", name);
	snprintf(h->instance, sizeof(h->instance), "%s", instance);
	h->last_seen = (uint64_t)time(NULL);
}

int op_host_register(struct request *r)
{
	const struct ffo_req_host_register *arg = &r->arg.host_register;
	const char *instance = arg->instance ? arg->instance : "";
	struct conn *other = host_conn(r->ffo, arg->host);
	struct ffo_host h;
	int err;

	if (*r->conn->host)
		return request_fail(r, -EINVAL, "this connection is registered as host %s",
				    r->conn->host);
	if (other && (!*instance || strcmp(other->instance, instance)))
		return request_fail(r, -EEXIST, "another router is connected as host %s",
				    arg->host);
	if (other)
		conn_close(other, "its router has connected again");

	host_now(&h, arg->host, instance);
	err = request_txn(r);
	if (!err)
		err = r->txn->store->ops->host_put(r->txn, &h);
	if (!err) /* what is left, should the store have failed when it went */
		err = r->txn->store->ops->map_drop_host(r->txn, h.name);
	if (err)
		return err;
	/* From now on, so that nobody else becomes it while the store commits. */
	memcpy(r->conn->host, h.name, sizeof(h.name));
	memcpy(r->conn->instance, h.instance, sizeof(h.instance));
	r->registers = true;
	return 0;
}

static void gone_done(void *arg, int err)
{
	(void)arg;
	if (err)
		log_warn("a host that left keeps stale mappings: %s", strerror(-err));
}

void host_gone(struct ffo *f, const char *host, const char *instance)
{
	const struct ffo_store_ops *ops = f->store->ops;
	struct ffo_host h;
	struct ffo_txn *t;
	int err;

	log_info("host %s: router disconnected", host);
	host_now(&h, host, instance);
	err = ops->begin(f->store, &t);
	if (err) {
		gone_done(NULL, err);
		return;
	}
	err = ops->host_put(t, &h);
	if (!err)
		err = ops->map_drop_host(t, host);
	if (!err) {
		ops->commit(t, gone_done, NULL);
		return;
	}
	ops->abort(t);
	gone_done(NULL, err);
}

struct host_page {
	struct request *r;
	json_t *list;
	uint32_t limit;
	char last[FFO_NAME_MAX];
	bool more;
	int err;
};

static int add_host(void *arg, const struct ffo_host *stored)
{
	struct host_page *p = arg;
	struct ffo_host h = *stored;

	if (json_array_size(p->list) == p->limit) {
		p->more = true;
		return 1;
	}
	h.up = host_conn(p->r->ffo, h.name);
	memcpy(p->last, h.name, sizeof(p->last));
	if (json_array_append_new(p->list, ffo_host_to_json(&h)))
		p->err = -ENOMEM;
	return p->err;
}

int op_host_list(struct request *r)
{
	const struct ffo_req_host_list *arg = &r->arg.host_list;
	struct host_page p = { .r = r, .list = json_array() };
	int err;

	p.limit = arg->limit && arg->limit < FFO_PAGE_MAX ? arg->limit : FFO_PAGE_MAX;
	err = request_reply(r, "hosts", p.list);
	if (!err)
		err = r->ffo->store->ops->host_list(r->ffo->store, arg->after ? arg->after : "",
						    add_host, &p);
	if (!err)
		err = p.err;
	if (!err && p.more)
		err = request_reply(r, "next", json_string(p.last));
	return err;
}
