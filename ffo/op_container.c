/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_container.c - containers: added with addresses and a LID, changed, moved, removed, listed.
 * Called by request.c; the orchestrator's loop only.
 *
 * What an op takes from the allocator goes into r->claimed at once, what the container no longer
 * needs into r->unclaimed; request.c gives back the right one of them. A container that moves to
 * another host gets a new epoch in the same transaction that drops its mappings, so a mapping with
 * an older epoch is never current.
 */
#include "server.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TENANT_DEFAULT "default"

/* The container that a request names by id or by name. */
static int find(struct request *r, uint32_t id, const char *name, struct ffo_container *c)
{
	struct ffo_store *s = r->ffo->store;
	int err;

	if (!id == !name)
		return request_fail(r, -EINVAL, "give either \"container\" (an id) or \"name\"");
	err = id ? s->ops->container_get(s, id, c) : s->ops->container_find(s, name, c);
	if (err == -ENOENT && id)
		request_fail(r, err, "there is no container with id %u", id);
	else if (err == -ENOENT)
		request_fail(r, err, "there is no container \"%s\"", name);
	return err;
}

static int reply_container(struct request *r, const struct ffo_container *c)
{
	return request_reply(r, "container", ffo_container_to_json(c));
}

static int parse_mode(struct request *r, const char *name, struct ffo_container *c)
{
	int mode = ffo_mode_parse(name);

	if (mode < 0)
		return request_fail(r, mode, "mode must be adaptive, spin or socket");
	c->mode = (uint8_t)mode;
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

static bool has_ip(const struct in6_addr *list, unsigned int n, const struct in6_addr *ip)
{
	for (unsigned int i = 0; i < n; i++)
		if (IN6_ARE_ADDR_EQUAL(&list[i], ip))
			return true;
	return false;
}

static int claim_ip(struct request *r, const struct ffo_container *c, const struct in6_addr *ip)
{
	int err = alloc_take_addr(r->ffo->alloc, c->tenant, ip);
	char text[INET6_ADDRSTRLEN];

	if (err == -EADDRINUSE)
		return request_fail(r, err, "%s is in use in tenant \"%s\"",
				    ffo_addr_text(ip, text), c->tenant);
	if (err == -EADDRNOTAVAIL)
		return request_fail(r, err, "%s cannot be a container's address",
				    ffo_addr_text(ip, text));
	if (err)
		return err;
	r->claimed.ip[r->claimed.num_ips++] = *ip;
	return 0;
}

/* Make c->ip what the request lists: those that it has stay, others are claimed or given up. */
static int set_ips(struct request *r, json_t *ips, struct ffo_container *c)
{
	const struct ffo_container before = *c;
	const char *text;
	struct in6_addr ip;
	int err;

	if (!json_array_size(ips) || json_array_size(ips) > FFO_ADDR_MAX)
		return request_fail(r, -EINVAL, "\"ips\" must have 1 to %u addresses",
				    FFO_ADDR_MAX);
	c->num_ips = 0;
	for (unsigned int i = 0; i < json_array_size(ips); i++) {
		text = json_string_value(json_array_get(ips, i));
		if (!text || ffo_addr_parse(text, &ip))
			return request_fail(r, -EINVAL, "\"ips\" must hold IPv4 or IPv6 addresses");
		if (has_ip(c->ip, c->num_ips, &ip))
			return request_fail(r, -EINVAL, "%s is given twice", text);
		if (!has_ip(before.ip, before.num_ips, &ip)) {
			err = claim_ip(r, c, &ip);
			if (err)
				return err;
		}
		c->ip[c->num_ips++] = ip;
	}
	for (unsigned int i = 0; i < before.num_ips; i++)
		if (!has_ip(c->ip, c->num_ips, &before.ip[i]))
			r->unclaimed.ip[r->unclaimed.num_ips++] = before.ip[i];
	return 0;
}

/* One of each family from the tenant's pools, IPv4 first. */
static int allocate_ips(struct request *r, struct ffo_container *c)
{
	static const int families[] = { AF_INET, AF_INET6 };
	struct in6_addr ip;
	int err;

	for (unsigned int i = 0; i < sizeof(families) / sizeof(families[0]); i++) {
		err = alloc_addr(r->ffo->alloc, c->tenant, families[i], &ip);
		if (err == -ENOSPC)
			return request_fail(r, err, "no %s address is left for tenant \"%s\"",
					    families[i] == AF_INET ? "IPv4" : "IPv6", c->tenant);
		if (err)
			return err;
		c->ip[c->num_ips++] = r->claimed.ip[r->claimed.num_ips++] = ip;
	}
	return 0;
}

/* ---- changes -------------------------------------------------------------------------------- */

int op_container_add(struct request *r)
{
	const struct ffo_req_container_add *arg = &r->arg.container_add;
	const char *host = arg->host ? arg->host : r->conn->host;
	struct ffo_store *s = r->ffo->store;
	struct ffo_container c = { .epoch = 1 }, other;
	int err;

	if (!*host)
		return request_fail(r, -EINVAL, "\"host\" is missing: the caller is no host");
	err = s->ops->container_find(s, arg->name, &other);
	if (!err)
		return request_fail(r, -EEXIST, "there is a container \"%s\" already, on host %s",
				    arg->name, other.host);
	if (err != -ENOENT)
		return err;
	snprintf(c.name, sizeof(c.name), "%s", arg->name);
	snprintf(c.tenant, sizeof(c.tenant), "%s", arg->tenant ? arg->tenant : TENANT_DEFAULT);
	snprintf(c.host, sizeof(c.host), "%s", host);
	err = parse_mode(r, arg->mode ? arg->mode : ffo_mode_name[FFO_MODE_ADAPTIVE], &c);
	if (err)
		return err;

	memcpy(r->claimed.tenant, c.tenant, sizeof(c.tenant));
	err = arg->ips ? set_ips(r, arg->ips, &c) : allocate_ips(r, &c);
	if (err)
		return err;
	err = alloc_lid(r->ffo->alloc, &c.lid);
	if (err == -ENOSPC)
		return request_fail(r, err, "no LID is left: %u containers exist", FFO_LID_MAX);
	if (err)
		return err;
	r->claimed.lid = c.lid;

	err = request_txn(r);
	if (!err)
		err = s->ops->container_put(r->txn, &c);
	return err ? err : reply_container(r, &c);
}

int op_container_set(struct request *r)
{
	const struct ffo_req_container_set *arg = &r->arg.container_set;
	struct ffo_container c;
	bool moves;
	int err;

	err = find(r, arg->container, arg->name, &c);
	if (err)
		return err;
	memcpy(r->claimed.tenant, c.tenant, sizeof(c.tenant));
	memcpy(r->unclaimed.tenant, c.tenant, sizeof(c.tenant));
	if (arg->mode)
		err = parse_mode(r, arg->mode, &c);
	if (!err && arg->ips)
		err = set_ips(r, arg->ips, &c);
	if (err)
		return err;
	moves = arg->host && strcmp(arg->host, c.host);
	if (moves) {
		if (c.epoch == UINT32_MAX)
			return request_fail(r, -ENOSPC, "container \"%s\" has used all epochs",
					    c.name);
		snprintf(c.host, sizeof(c.host), "%s", arg->host);
		c.epoch++;
	}

	err = request_txn(r);
	if (!err)
		err = r->txn->store->ops->container_put(r->txn, &c);
	if (!err && moves)
		err = r->txn->store->ops->map_drop(r->txn, c.id, 0);
	return err ? err : reply_container(r, &c);
}

int op_container_rm(struct request *r)
{
	const struct ffo_req_container_rm *arg = &r->arg.container_rm;
	struct ffo_container c;
	int err;

	err = find(r, arg->container, arg->name, &c);
	if (err)
		return err;
	memcpy(r->unclaimed.tenant, c.tenant, sizeof(c.tenant));
	memcpy(r->unclaimed.ip, c.ip, sizeof(c.ip));
	r->unclaimed.num_ips = c.num_ips;
	r->unclaimed.lid = c.lid;

	err = request_txn(r);
	if (!err)
		err = r->txn->store->ops->container_del(r->txn, c.id);
	return err ? err : reply_container(r, &c);
}

/* ---- reads ---------------------------------------------------------------------------------- */

int op_container_get(struct request *r)
{
	struct ffo_container c;
	int err;

	err = find(r, r->arg.container_get.container, r->arg.container_get.name, &c);
	return err ? err : reply_container(r, &c);
}

struct container_page {
	json_t *list;
	const char *host; /* NULL: all */
	uint32_t limit, last;
	bool more;
	int err;
};

static int add_container(void *arg, const struct ffo_container *c)
{
	struct container_page *p = arg;

	if (p->host && strcmp(p->host, c->host))
		return 0;
	if (json_array_size(p->list) == p->limit) {
		p->more = true;
		return 1;
	}
	p->last = c->id;
	if (json_array_append_new(p->list, ffo_container_to_json(c)))
		p->err = -ENOMEM;
	return p->err;
}

int op_container_list(struct request *r)
{
	const struct ffo_req_container_list *arg = &r->arg.container_list;
	struct container_page p = { .list = json_array(), .host = arg->host };
	struct ffo_store *s = r->ffo->store;
	int err;

	p.limit = arg->limit && arg->limit < FFO_PAGE_MAX ? arg->limit : FFO_PAGE_MAX;
	err = request_reply(r, "containers", p.list);
	if (!err)
		err = s->ops->container_list(s, arg->after, add_container, &p);
	if (!err)
		err = p.err;
	if (!err && p.more)
		err = request_reply(r, "next", json_integer(p.last));
	return err;
}
