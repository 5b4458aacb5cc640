/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_container.c - containers: added with addresses and a LID, changed, moved, removed, listed.
 * Called by request.c; the orchestrator's loop only.
 *
 * A change is made from what was read, on the condition that it still is so; when somebody else was
 * faster it is made again from what is there then, unless the request is about one epoch only. A container that moves
 * to another host gets a new epoch in the same step that drops its mappings, so a mapping with an older epoch is never
 * current.
 */
#include "ffo/server/server.h"

#include "ffo/base/limits.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#define TRIES 8u /* of a change that others are faster with */

int container_key(struct request *r, uint32_t id, const char *name, struct store_key *key)
{
	memset(key, 0, sizeof(*key));
	if (!id == !name)
		return request_fail(r, -EINVAL, "give either \"container\" (an id) or \"name\"");
	key->kind = id ? STORE_ID : STORE_NAME;
	key->id = id;
	snprintf(key->name, sizeof(key->name), "%s", name ? name : "");
	return 0;
}

int container_missing(struct request *r, const struct store_key *key, int err, const char *why)
{
	char text[INET6_ADDRSTRLEN];

	if (err != -ENOENT)
		return request_failed(r, err, why);
	if (key->kind == STORE_ID)
		return request_fail(r, err, "there is no container with id %u", key->id);
	if (key->kind == STORE_NAME)
		return request_fail(r, err, "there is no container \"%s\"", key->name);
	return request_fail(r, err, "no container of tenant \"%s\" has the address %s", key->name,
			    ffo_addr_text(&key->addr, text));
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

static int set_limits(struct request *r, json_t *limits, struct ffo_container *c)
{
	struct ffo_limits_change change;
	char why[sizeof(r->why)];

	if (ffo_limits_change_parse(limits, false, &change, why, sizeof(why)))
		return request_fail(r, -EINVAL, "%s", why);
	ffo_limits_apply(&c->limits, &change);
	return 0;
}

static bool has_ip(const struct ffo_container *c, const struct in6_addr *ip)
{
	for (unsigned int i = 0; i < c->num_ips; i++)
		if (IN6_ARE_ADDR_EQUAL(&c->ip[i], ip))
			return true;
	return false;
}

/* Make c->ip what the request lists. What it has in `before` may stay, whatever it is. */
static int set_ips(struct request *r, json_t *ips, const struct ffo_container *before,
		   struct ffo_container *c)
{
	const char *text;
	struct in6_addr ip;

	if (!json_array_size(ips) || json_array_size(ips) > FFO_ADDR_MAX)
		return request_fail(r, -EINVAL, "\"ips\" must have 1 to %u addresses",
				    FFO_ADDR_MAX);
	memset(c->ip, 0, sizeof(c->ip));
	c->num_ips = 0;
	for (unsigned int i = 0; i < json_array_size(ips); i++) {
		text = json_string_value(json_array_get(ips, i));
		if (!text || ffo_addr_parse(text, &ip))
			return request_fail(r, -EINVAL, "\"ips\" must hold IPv4 or IPv6 addresses");
		if (has_ip(c, &ip))
			return request_fail(r, -EINVAL, "%s is given twice", text);
		if (!has_ip(before, &ip) && !alloc_addr_ok(r->ffo->alloc, c->tenant, &ip))
			return request_fail(r, -EADDRNOTAVAIL, "%s cannot be a container's address",
					    text);
		c->ip[c->num_ips++] = ip;
	}
	return 0;
}

/* Its RDMA devices: all of their names are to be ones. */
static int set_devices(struct request *r, const char *first, uint32_t devices,
		       struct ffo_container *c)
{
	char last[FFO_NAME_MAX];

	snprintf(c->device_name, sizeof(c->device_name), "%s", first ? first : "");
	if (devices > FFO_DEVICES_MAX)
		return request_fail(r, -EINVAL, "a container has 1 to %u devices", FFO_DEVICES_MAX);
	c->devices = (uint8_t)devices;
	if (!ffo_device_name(c->device_name, devices, devices ? devices - 1 : 0, last))
		return request_fail(r, -EINVAL, "\"%s\" is too long for the names of %u devices",
				    c->device_name, devices);
	return 0;
}

/* ---- add ------------------------------------------------------------------------------------- */

static void added(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;

	if (err == -EEXIST && c)
		request_fail(r, err, "there is a container \"%s\" already, on host %s", c->name,
			     c->host);
	if (err) {
		request_failed(r, err, why);
	} else {
		if (!r->dry_run)
			owned_changed(r->conn, c, false);
		err = reply_container(r, c);
	}
	request_end(r, err);
}

/* What a container keeps that was in a store which is lost: its peers know it by that. */
static int set_kept(struct request *r, struct ffo_container *c)
{
	const struct ffo_req_container_add *arg = &r->arg.container_add;

	if (!arg->container && !arg->lid && !arg->epoch)
		return 0;
	if (!arg->container || !arg->lid || !arg->epoch || !arg->ips ||
	    arg->container > FFO_ID_KEEP_MAX || arg->lid > FFO_LID_MAX)
		return request_fail(
			r, -EINVAL,
			"\"container\", \"lid\" and \"epoch\" belong together, with \"ips\": an "
			"id of 1 to %u, a LID of 1 to %u, an epoch above 0",
			FFO_ID_KEEP_MAX, FFO_LID_MAX);
	c->id = arg->container;
	c->lid = (uint16_t)arg->lid;
	c->epoch = arg->epoch;
	return 0;
}

int op_container_add(struct request *r)
{
	const struct ffo_req_container_add *arg = &r->arg.container_add;
	const char *host = arg->host ? arg->host : r->conn->host;
	const struct ffo_container none = { 0 };
	struct ffo_store *s = r->ffo->store;
	struct ffo_container c = { .epoch = 1 };
	int err;

	if (!*host)
		return request_fail(r, -EINVAL, "\"host\" is missing: the caller is no host");
	snprintf(c.name, sizeof(c.name), "%s", arg->name);
	snprintf(c.tenant, sizeof(c.tenant), "%s", arg->tenant ? arg->tenant : TENANT_DEFAULT);
	snprintf(c.host, sizeof(c.host), "%s", host);
	err = parse_mode(r, arg->mode ? arg->mode : ffo_mode_name[FFO_MODE_ADAPTIVE], &c);
	if (!err && arg->ips)
		err = set_ips(r, arg->ips, &none, &c);
	if (!err && arg->limits)
		err = set_limits(r, arg->limits, &c);
	if (!err)
		err = set_devices(r, arg->device_name, arg->devices, &c);
	if (!err)
		err = set_kept(r, &c);
	if (!err)
		err = request_try(r, arg->dry_run);
	if (err)
		return err;
	s->ops->container_add(s, &c, added, r);
	return REQUEST_LATER;
}

/* ---- set and rm ------------------------------------------------------------------------------ */

/* The container that a request is about, from now to its change. */
static int read_for(struct request *r, uint32_t id, const char *name, store_container_cb cb)
{
	struct ffo_store *s = r->ffo->store;
	struct store_key key;
	int err = container_key(r, id, name, &key);

	if (err)
		return err;
	s->ops->container_get(s, &key, cb, r);
	return REQUEST_LATER;
}

static int missing(struct request *r, uint32_t id, const char *name, int err, const char *why)
{
	struct store_key key;

	return container_key(r, id, name, &key) ? -EINVAL : container_missing(r, &key, err, why);
}

/* Somebody else was faster: is it to be read and changed once more? */
static bool again(struct request *r, int err)
{
	return err == -EAGAIN && ++r->tries < TRIES && !r->conn->closing;
}

/* A change has ended: with what the container is, or was (gone). */
static void ended(struct request *r, uint32_t id, const char *name, int err, const char *why,
		  const struct ffo_container *c, bool gone)
{
	if (err) {
		missing(r, id, name, err, why);
	} else {
		if (!r->dry_run)
			owned_changed(r->conn, c, gone);
		err = reply_container(r, c);
	}
	request_end(r, err);
}

/* What the container becomes. */
static int make_now(struct request *r, bool *moves)
{
	const struct ffo_req_container_set *arg = &r->arg.container_set;
	struct ffo_container *now = &r->now;
	int err = 0;

	*now = r->was;
	if (arg->force > 1)
		return request_fail(r, -EINVAL, "\"force\" must be 0 or 1");
	if (arg->epoch && arg->epoch != now->epoch)
		return request_fail(r, -ESTALE, "container \"%s\" has moved to host %s meanwhile",
				    now->name, now->host);
	if (arg->mode)
		err = parse_mode(r, arg->mode, now);
	if (!err && arg->ips)
		err = set_ips(r, arg->ips, &r->was, now);
	if (!err && arg->limits)
		err = set_limits(r, arg->limits, now);
	*moves = arg->host && strcmp(arg->host, now->host);
	if (err || !*moves)
		return err;
	if (now->epoch == UINT32_MAX)
		return request_fail(r, -ENOSPC, "container \"%s\" has used all epochs", now->name);
	memset(now->host, 0, sizeof(now->host));
	snprintf(now->host, sizeof(now->host), "%s", arg->host);
	now->epoch++;
	return 0;
}

static void read_to_set(void *arg, int err, const char *why, const struct ffo_container *c);

static void was_set(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;
	const struct ffo_req_container_set *set = &r->arg.container_set;

	if (again(r, err)) {
		read_for(r, set->container, set->name, read_to_set);
		return;
	}
	if (err == -EBUSY)
		request_fail(r, err, "container \"%s\" is in use on host %s: stop it first",
			     r->was.name, r->was.host);
	ended(r, set->container, set->name, err, why, c, false);
}

static void read_to_set(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;
	const struct ffo_req_container_set *set = &r->arg.container_set;
	struct ffo_store *s = r->ffo->store;
	bool moves = false;

	if (err) {
		request_end(r, missing(r, set->container, set->name, err, why));
		return;
	}
	r->was = *c;
	err = access_container(r, c);
	if (!err)
		err = make_now(r, &moves);
	if (!err)
		err = request_try(r, set->dry_run);
	if (err)
		request_end(r, err);
	else
		s->ops->container_set(s, &r->was, &r->now, moves && !set->force ? STORE_IF_IDLE : 0,
				      was_set, r);
}

int op_container_set(struct request *r)
{
	const struct ffo_req_container_set *arg = &r->arg.container_set;

	return read_for(r, arg->container, arg->name, read_to_set);
}

static void read_to_rm(void *arg, int err, const char *why, const struct ffo_container *c);

static void removed(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;
	const struct ffo_req_container_rm *rm = &r->arg.container_rm;

	if (again(r, err)) {
		read_for(r, rm->container, rm->name, read_to_rm);
		return;
	}
	ended(r, rm->container, rm->name, err, why, c, true);
}

static void read_to_rm(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;
	const struct ffo_req_container_rm *rm = &r->arg.container_rm;
	struct ffo_store *s = r->ffo->store;

	if (err)
		missing(r, rm->container, rm->name, err, why);
	else
		err = access_container(r, c);
	if (!err)
		err = request_try(r, rm->dry_run);
	if (err) {
		request_end(r, err);
		return;
	}
	r->was = *c;
	s->ops->container_del(s, &r->was, removed, r);
}

int op_container_rm(struct request *r)
{
	return read_for(r, r->arg.container_rm.container, r->arg.container_rm.name, read_to_rm);
}

/* ---- active ---------------------------------------------------------------------------------- */

static void active_set(void *arg, int err, const char *why)
{
	struct request *r = arg;

	request_end(r, err ? request_failed(r, err, why) : 0);
}

int op_container_active(struct request *r)
{
	const struct ffo_req_container_active *arg = &r->arg.container_active;
	const struct ffo_container *c = owned_find(r->conn, arg->container);
	struct ffo_store *s = r->ffo->store;

	if (arg->active > 1)
		return request_fail(r, -EINVAL, "\"active\" must be 0 or 1");
	if (!c)
		return request_fail(r, -ENOENT, "host %s has no container with id %u",
				    r->conn->host, arg->container);
	s->ops->container_active(s, r->conn->host, c->id, c->epoch, arg->active, active_set, r);
	return REQUEST_LATER;
}

/* ---- reads ----------------------------------------------------------------------------------- */

static void got(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;
	const struct ffo_req_container_get *get = &r->arg.container_get;

	if (err)
		missing(r, get->container, get->name, err, why);
	else
		err = access_container(r, c);
	if (!err)
		err = reply_container(r, c);
	request_end(r, err);
}

int op_container_get(struct request *r)
{
	return read_for(r, r->arg.container_get.container, r->arg.container_get.name, got);
}

static void listed(void *arg, int err, const char *why, const struct ffo_container *list, size_t n,
		   bool more)
{
	json_t *containers = json_array();

	for (size_t i = 0; !err && i < n; i++)
		err = json_array_append_new(containers, ffo_container_to_json(&list[i])) ? -ENOMEM :
											   0;
	request_end_list(arg, err, why, "containers", containers,
			 more && n ? json_integer(list[n - 1].id) : NULL);
}

int op_container_list(struct request *r)
{
	const struct ffo_req_container_list *arg = &r->arg.container_list;
	uint32_t limit = arg->limit && arg->limit < FFO_PAGE_MAX ? arg->limit : FFO_PAGE_MAX;
	struct ffo_store *s = r->ffo->store;

	s->ops->container_list(s, arg->host, arg->after, limit, listed, r);
	return REQUEST_LATER;
}
