/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_host.c - hello, and hosts. A host is up while the connection lives that registered it; with
 * that connection its ephemeral state goes (store.h), its containers stay. Called by request.c and
 * server.c; the orchestrator's loop only.
 *
 * Registration: the store says which one it is, and takes the host as up, unless another router is
 * connected as it, here or at another orchestrator; then its containers are read (owned.c). A store
 * that is not ready is waited for. Over TLS, a router is of the host that its certificate names and of no other.
 */
#include "ffo/server/server.h"

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

/* ---- registration ---------------------------------------------------------------------------- */

static struct conn *host_conn(struct ffo *f, const char *host)
{
	struct conn *c;

	LIST_FOREACH(c, &f->conns, entry)
		if (!strcmp(c->host, host))
			return c;
	return NULL;
}

static void host_now(struct ffo_host *h, const char *name, const char *instance, const char *wire)
{
	memset(h, 0, sizeof(*h));
	snprintf(h->name, sizeof(h->name), "%s", name);
	snprintf(h->instance, sizeof(h->instance), "%s", instance);
	snprintf(h->wire, sizeof(h->wire), "%s", wire);
	h->last_seen = (uint64_t)time(NULL);
}

static void came_up(void *arg, int err, const char *why)
{
	struct request *r = arg;
	struct conn *c = r->conn;

	if (err) {
		c->host[0] = '\0';
		request_end(r, request_failed(r, err, why));
	} else if (c->closing) {
		request_end(r, -EAGAIN);
	} else {
		owned_start(c, r);
	}
}

static void identified(void *arg, int err, const char *why, const char *id, uint32_t last)
{
	struct request *r = arg;
	struct ffo_store *s = r->ffo->store;
	struct conn *c = r->conn;
	struct ffo_host h;

	if (!err)
		err = request_reply(r, "store", json_string(id));
	if (!err && last)
		err = request_reply(r, "last", json_integer(last));
	if (err || c->closing) {
		c->host[0] = '\0';
		request_end(r, err ? request_failed(r, err, why) : -EAGAIN);
		return;
	}
	host_now(&h, c->host, c->instance,
		 r->arg.host_register.wire ? r->arg.host_register.wire : "");
	s->ops->host_up(s, &h, came_up, r);
}

static int bring_up(struct request *r)
{
	const struct ffo_req_host_register *arg = &r->arg.host_register;
	const char *instance = arg->instance ? arg->instance : "";
	struct conn *c = r->conn, *other = host_conn(r->ffo, arg->host);
	struct ffo_store *s = r->ffo->store;

	if (other && (!*instance || strcmp(other->instance, instance)))
		return request_fail(r, -EEXIST, "another router is connected as host %s",
				    arg->host);
	if (other) {
		other->host[0] = '\0'; /* the host does not go down in between */
		conn_close(other, "its router has connected again");
	}
	/* From now on, so that nobody else becomes it while the store is asked. */
	snprintf(c->host, sizeof(c->host), "%s", arg->host);
	snprintf(c->instance, sizeof(c->instance), "%s", instance);
	s->ops->identity(s, identified, r);
	return REQUEST_LATER;
}

int op_host_register(struct request *r)
{
	struct conn *c = r->conn;

	if (*c->host)
		return request_fail(r, -EINVAL, "this connection is registered as host %s",
				    c->host);
	if (c->registering)
		return request_fail(r, -EINVAL, "this connection is being registered");
	if (c->tls && !tls_stream_is(c->tls, r->arg.host_register.host)) {
		log_client(&r->ffo->log_limit, LOG_LEVEL_WARN,
			   "client %lu: refused as host %s: its certificate is not that host's",
			   c->number, r->arg.host_register.host);
		return request_fail(r, -EPERM,
				    "the certificate of this connection is not that of host %s",
				    r->arg.host_register.host);
	}
	if (r->ffo->ready)
		return bring_up(r);
	c->registering = r;
	request_wait(r);
	return REQUEST_LATER;
}

void hosts_resume(struct ffo *f)
{
	struct conn *c, *next;
	struct request *r;
	int err;

	for (c = LIST_FIRST(&f->conns); c; c = next) {
		next = LIST_NEXT(c, entry);
		r = c->registering;
		if (!r || *c->host)
			continue;
		c->registering = NULL;
		request_wait_end(r);
		err = bring_up(r);
		if (err != REQUEST_LATER)
			request_end(r, err);
		next = LIST_FIRST(&f->conns); /* other connections may have ended meanwhile */
	}
}

static void gone_down(void *arg, int err, const char *why)
{
	(void)arg;
	if (err && err != -ECANCELED)
		log_warn("a host has left, and the store did not note when: %s",
			 *why ? why : strerror(-err));
}

void host_gone(struct conn *c)
{
	struct ffo_store *s = c->ffo->store;
	struct ffo_host h;

	if (!*c->host)
		return;
	log_info("host %s: router disconnected", c->host);
	host_now(&h, c->host, c->instance, "");
	c->host[0] = '\0';
	c->up = false;
	s->ops->host_down(s, &h, gone_down, NULL);
}

/* ---- removal --------------------------------------------------------------------------------- */

static void removed(void *arg, int err, const char *why)
{
	struct request *r = arg;
	const char *host = r->arg.host_rm.host;

	if (err == -ENOENT)
		request_fail(r, err, "there is no host \"%s\"", host);
	else if (err == -EBUSY)
		request_fail(r, err, "host %s is up: stop its router first", host);
	request_end(r, err ? request_failed(r, err, why) : 0);
}

static void looked_for_containers(void *arg, int err, const char *why,
				  const struct ffo_container *list, size_t n, bool more)
{
	struct request *r = arg;
	struct ffo_store *s = r->ffo->store;

	if (!err && n)
		err = request_fail(r, -EBUSY,
				   "host %s has containers, %s%s: move or remove them first",
				   r->arg.host_rm.host, list->name, more ? " among them" : "");
	if (!err)
		err = request_try(r, r->arg.host_rm.dry_run);
	if (err)
		request_end(r, request_failed(r, err, why));
	else
		s->ops->host_del(s, r->arg.host_rm.host, removed, r);
}

int op_host_rm(struct request *r)
{
	struct ffo_store *s = r->ffo->store;

	s->ops->container_list(s, r->arg.host_rm.host, 0, 1, looked_for_containers, r);
	return REQUEST_LATER;
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void got_host(void *arg, int err, const char *why, const struct ffo_host *h)
{
	struct request *r = arg;

	if (err == -ENOENT)
		request_fail(r, err, "there is no host \"%s\"", r->arg.host_get.host);
	if (err)
		request_failed(r, err, why);
	else
		err = request_reply(r, "host", ffo_host_to_json(h));
	request_end(r, err);
}

int op_host_get(struct request *r)
{
	struct ffo_store *s = r->ffo->store;

	s->ops->host_get(s, r->arg.host_get.host, got_host, r);
	return REQUEST_LATER;
}

static void listed(void *arg, int err, const char *why, const struct ffo_host *list, size_t n,
		   bool more)
{
	json_t *hosts = json_array();

	for (size_t i = 0; !err && i < n; i++)
		err = json_array_append_new(hosts, ffo_host_to_json(&list[i])) ? -ENOMEM : 0;
	request_end_list(arg, err, why, "hosts", hosts,
			 more && n ? json_string(list[n - 1].name) : NULL);
}

int op_host_list(struct request *r)
{
	const struct ffo_req_host_list *arg = &r->arg.host_list;
	uint32_t limit = arg->limit && arg->limit < FFO_PAGE_MAX ? arg->limit : FFO_PAGE_MAX;
	struct ffo_store *s = r->ffo->store;

	s->ops->host_list(s, arg->after ? arg->after : "", limit, listed, r);
	return REQUEST_LATER;
}
