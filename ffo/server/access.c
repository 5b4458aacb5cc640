/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * access.c - what the role of a connection's certificate lets it do. Asked by request.c for each
 * request, and by the op_*.c for what the request turns out to be about. The orchestrator's loop only.
 *
 * The table is FFO_OPS in base/proto.h. Where it says OWN or PEER for a host:
 *
 *	host_register		the host is one that the certificate names		op_host.c
 *	container_add		it is to be on such a host, of a tenant that the certificate
 *				has; with limits only if it brings its id along		here
 *	container_set, _rm, _get  it is on such a host; _set: no limits. It can be handed over to
 *				another host, and not be taken from one			here
 *	container_list		of such a host						here
 *	container_active, map_publish, _withdraw, _drop
 *				of the containers that the router has			op_*.c, owned.c
 *	map_list, map_get	of one of them						here, op_map.c
 *	map_watch, resolve	of a container that one of them may talk to, as long as it may;
 *				another one is nobody					op_*.c
 *	mcast_join, mcast_watch	of a tenant that one of them is of			here
 *
 * A host that somebody has broken into can thus change what is its own, and learn of those whom its
 * containers could talk to anyway. Limits are not its to set, although it is the one to hold them: what
 * an operator reads is what an operator wrote. The one exception is a container that was in a store which is
 * lost: its host is the only one that still knows its limits.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "ffo/server/server.h"

static const uint8_t granted[][FFO_NUM_OPS] = {
	[TLS_ROLE_HOST] = {
#define X(NAME, name, caller, host, operator) FFO_GRANT_##host,
		FFO_OPS(X)
#undef X
	},
	[TLS_ROLE_OPERATOR] = {
#define X(NAME, name, caller, host, operator) FFO_GRANT_##operator,
		FFO_OPS(X)
#undef X
	},
};

static bool is_host(const struct conn *c)
{
	return c->tls && tls_stream_role(c->tls) == TLS_ROLE_HOST;
}

static int __attribute__((format(printf, 2, 3))) refuse(struct request *r, const char *fmt, ...)
{
	const struct conn *c = r->conn;
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(r->why, sizeof(r->why), fmt, ap);
	va_end(ap);
	log_client(&r->ffo->log_limit, LOG_LEVEL_WARN, "client %lu%s%s: refused: %s: %s", c->number,
		   *c->host ? ", host " : "", c->host, ffo_op_name[r->op], r->why);
	return -EPERM;
}

/* Limits go with a container to other hosts, whose operators rely on them. */
static int refuse_limits(struct request *r)
{
	return refuse(
		r,
		"limits need an operator's certificate, and the router's is a host's: add the container "
		"without, then ffctl container set with --orchestrator, --cert, --key and --ca");
}

/* ---- before it runs -------------------------------------------------------------------------- */

static int check_add(struct request *r)
{
	const struct ffo_req_container_add *arg = &r->arg.container_add;
	const char *host = arg->host ? arg->host : r->conn->host;
	const char *tenant = arg->tenant ? arg->tenant : TENANT_DEFAULT;

	if (*host && !tls_stream_is(r->conn->tls, host))
		return refuse(r, "a host adds no containers to host %s", host);
	if (!tls_stream_has_tenant(r->conn->tls, tenant))
		return refuse(r, "this host's certificate has not the tenant \"%s\"", tenant);
	/* What comes from a store that is lost has the limits that an operator gave it there. */
	if (arg->limits && !arg->container)
		return refuse_limits(r);
	return 0;
}

static int check_list(struct request *r)
{
	const char *host = r->arg.container_list.host;

	if (host && tls_stream_is(r->conn->tls, host))
		return 0;
	return refuse(
		r, "a host lists its own containers; all of them need an operator's certificate");
}

static int check_map_list(struct request *r)
{
	if (owned_find(r->conn, r->arg.map_list.container))
		return 0;
	return refuse(r,
		      "a host lists mappings of its own containers; all of them need an operator's "
		      "certificate");
}

static int check_tenant(struct request *r, const char *tenant)
{
	if (access_tenant(r->conn, tenant))
		return 0;
	return refuse(r, "host %s has no container of tenant \"%s\"", r->conn->host, tenant);
}

static int check_own(struct request *r)
{
	switch (r->op) {
	case FFO_OP_CONTAINER_ADD:
		return check_add(r);
	case FFO_OP_CONTAINER_SET:
		if (!r->arg.container_set.limits)
			return 0;
		return refuse_limits(r);
	case FFO_OP_CONTAINER_LIST:
		return check_list(r);
	case FFO_OP_MAP_LIST:
		return check_map_list(r);
	default:
		return 0; /* the op looks when it knows what it is about */
	}
}

static int check_peer(struct request *r)
{
	if (r->op == FFO_OP_MCAST_JOIN)
		return check_tenant(r, r->arg.mcast_join.tenant);
	if (r->op == FFO_OP_MCAST_WATCH)
		return check_tenant(r, r->arg.mcast_watch.tenant);
	return 0; /* likewise */
}

int access_check(struct request *r)
{
	enum tls_role role;

	if (!r->conn->tls)
		return 0;
	role = tls_stream_role(r->conn->tls);
	switch ((enum ffo_grant)granted[role][r->op]) {
	case FFO_GRANT_ALL:
		return 0;
	case FFO_GRANT_OWN:
		return check_own(r);
	case FFO_GRANT_PEER:
		return check_peer(r);
	case FFO_GRANT_NO:
		break;
	}
	if (role == TLS_ROLE_HOST)
		return refuse(
			r,
			"this needs an operator's certificate, and the router's is a host's: run ffctl with --orchestrator, --cert, --key and --ca");
	return refuse(r, "%s is for hosts, and this is an operator's certificate",
		      ffo_op_name[r->op]);
}

/* ---- what it is about ------------------------------------------------------------------------ */

int access_container(struct request *r, const struct ffo_container *c)
{
	if (!is_host(r->conn) || tls_stream_is(r->conn->tls, c->host))
		return 0;
	return refuse(
		r,
		"container \"%s\" is on host %s: that host can hand it over, or an operator move it",
		c->name, c->host);
}

bool access_peer(const struct conn *c, const char *tenant, const char *container)
{
	const struct policy_party to = { .tenant = tenant, .container = container };
	const struct ffo *f = c->ffo;
	struct policy_party own;
	const struct owned *o;

	if (!is_host(c))
		return true;
	for (o = c->owned; o; o = o->hh.next) {
		if (!o->here)
			continue;
		own.tenant = o->c.tenant;
		own.container = o->c.name;
		if (policy_allows(f->rules, f->num_rules, &own, &to))
			return true;
	}
	return false;
}

bool access_tenant(const struct conn *c, const char *tenant)
{
	const struct owned *o;

	if (!is_host(c))
		return true;
	for (o = c->owned; o; o = o->hh.next)
		if (o->here && !strcmp(o->c.tenant, tenant))
			return true;
	return false;
}

void access_changed(struct conn *c)
{
	if (!is_host(c) || c->closing)
		return;
	c->access_changed = true;
	conn_kick(c);
}
