/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_map.c - the mem-to-shadow map: published and withdrawn by routers in batches, listed, looked
 * up. Called by request.c; the orchestrator's loop only.
 *
 * A batch is one change of the store. A row that makes no sense fails it as a whole, for then the
 * router is in error. A row whose container is gone, is another host's or has moved on is refused by
 * itself: containers go while batches are under way. Whose a container is, is known here (owned.c),
 * so a batch costs no read.
 */
#include "ffo/server/server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static int check_batch(struct request *r, json_t *maps)
{
	if (json_array_size(maps) && json_array_size(maps) <= FFO_BATCH_MAX)
		return 0;
	return request_fail(r, -EINVAL, "\"maps\" must have 1 to %u rows", FFO_BATCH_MAX);
}

static void changed(void *arg, int err, const char *why)
{
	struct request *r = arg;

	request_end(r, err ? request_failed(r, err, why) : 0);
}

/* ---- publish and withdraw -------------------------------------------------------------------- */

static int refuse_row(json_t *refused, size_t i, int err)
{
	return json_array_append_new(refused,
				     json_pack("[I, s]", (json_int_t)i, ffo_error_name(err))) ?
		       -ENOMEM :
		       0;
}

/* The request's rows that may be stored into rows[], the others into `refused`. */
static int take_rows(struct request *r, json_t *maps, struct ffo_map *rows, size_t *n,
		     json_t *refused)
{
	const struct ffo_container *c;
	json_t *row;
	size_t i;
	int err = 0;

	json_array_foreach(maps, i, row) {
		if (ffo_map_from_json(row, &rows[*n]))
			return request_fail(r, -EINVAL, "row %zu of \"maps\" is no mapping", i);
		c = owned_find(r->conn, rows[*n].container);
		if (c && c->epoch == rows[*n].epoch)
			++*n;
		else
			err |= refuse_row(refused, i, c ? -ESTALE : -ENOENT);
	}
	return err ? -ENOMEM : 0;
}

int op_map_publish(struct request *r)
{
	json_t *maps = r->arg.map_publish.maps, *refused = json_array();
	struct ffo_store *s = r->ffo->store;
	struct ffo_map *rows = NULL;
	size_t n = 0;
	int err;

	err = request_reply(r, "refused", refused);
	if (!err)
		err = check_batch(r, maps);
	if (!err) {
		rows = reallocarray(NULL, json_array_size(maps), sizeof(*rows));
		err = rows ? take_rows(r, maps, rows, &n, refused) : -ENOMEM;
	}
	if (!err)
		err = request_reply(r, "stored", json_integer((json_int_t)n));
	if (!err && n) {
		s->ops->map_put(s, r->conn->host, rows, n, changed, r);
		err = REQUEST_LATER;
	}
	free(rows);
	return err;
}

static void withdrawn(void *arg, int err, const char *why, size_t count)
{
	struct request *r = arg;

	if (err)
		request_failed(r, err, why);
	else
		err = request_reply(r, "removed", json_integer((json_int_t)count));
	request_end(r, err);
}

int op_map_withdraw(struct request *r)
{
	json_t *maps = r->arg.map_withdraw.maps, *row;
	struct ffo_store *s = r->ffo->store;
	struct store_map_id *ids;
	size_t i, n = 0;
	int err = check_batch(r, maps);

	if (err)
		return err;
	ids = reallocarray(NULL, json_array_size(maps), sizeof(*ids));
	if (!ids)
		return -ENOMEM;
	json_array_foreach(maps, i, row) {
		err = ffo_map_id_from_json(row, &ids[n].container, &ids[n].rkey);
		if (err) {
			request_fail(r, err, "row %zu of \"maps\" must be [container, rkey]", i);
			break;
		}
		if (owned_find(r->conn, ids[n].container))
			n++;
	}
	if (!err && n) {
		s->ops->map_del(s, r->conn->host, ids, n, withdrawn, r);
		err = REQUEST_LATER;
	} else if (!err) {
		err = request_reply(r, "removed", json_integer(0));
	}
	free(ids);
	return err;
}

int op_map_drop(struct request *r)
{
	const struct ffo_req_map_drop *arg = &r->arg.map_drop;
	struct ffo_store *s = r->ffo->store;

	if (!owned_find(r->conn, arg->container))
		return request_fail(r, -ENOENT, "host %s has no container with id %u",
				    r->conn->host, arg->container);
	s->ops->map_drop(s, r->conn->host, arg->container, 0, arg->session, changed, r);
	return REQUEST_LATER;
}

/* ---- lists ----------------------------------------------------------------------------------- */

static void listed(void *arg, int err, const char *why, const struct ffo_map *list, size_t n,
		   bool more)
{
	json_t *maps = json_array();

	for (size_t i = 0; !err && i < n; i++)
		err = json_array_append_new(maps, ffo_map_to_json(&list[i])) ? -ENOMEM : 0;
	request_end_list(arg, err, why, "maps", maps,
			 more && n ? json_pack("[I, I]", (json_int_t)list[n - 1].container,
					       (json_int_t)list[n - 1].rkey) :
				     NULL);
}

int op_map_list(struct request *r)
{
	const struct ffo_req_map_list *arg = &r->arg.map_list;
	uint32_t limit = arg->limit && arg->limit < FFO_BATCH_MAX ? arg->limit : FFO_BATCH_MAX;
	uint32_t container = 0, rkey = 0;
	struct ffo_store *s = r->ffo->store;

	if (arg->after && ffo_map_id_from_json(arg->after, &container, &rkey))
		return request_fail(r, -EINVAL, "\"after\" must be [container, rkey]");
	s->ops->map_list(s, arg->container, container, rkey, limit, listed, r);
	return REQUEST_LATER;
}

/* ---- one mapping ----------------------------------------------------------------------------- */

static int locate(struct request *r, struct store_key *key)
{
	const struct ffo_req_map_get *arg = &r->arg.map_get;

	if (!!arg->container + !!arg->name + !!arg->ip != 1)
		return request_fail(r, -EINVAL, "give one of \"container\", \"name\" and \"ip\"");
	if (!arg->ip)
		return container_key(r, arg->container, arg->name, key);
	memset(key, 0, sizeof(*key));
	key->kind = STORE_ADDR;
	snprintf(key->name, sizeof(key->name), "%s", arg->tenant ? arg->tenant : TENANT_DEFAULT);
	if (!ffo_addr_parse(arg->ip, &key->addr))
		return 0;
	return request_fail(r, -EINVAL, "\"ip\" must be an IPv4 or IPv6 address");
}

static void got_host(void *arg, int err, const char *why, const struct ffo_host *h)
{
	struct request *r = arg;

	if (err && err != -ENOENT)
		request_failed(r, err, why);
	else
		err = request_reply(r, "host", err ? json_null() : ffo_host_to_json(h));
	request_end(r, err);
}

static void got_row(void *arg, int err, const char *why, const struct ffo_map *list, size_t n,
		    bool more)
{
	struct request *r = arg;
	struct ffo_store *s = r->ffo->store;
	uint32_t rkey = r->arg.map_get.rkey;

	(void)more;
	if (err)
		request_failed(r, err, why);
	else if (!n || list[0].rkey != rkey)
		err = request_fail(r, -ENOENT,
				   "container \"%s\" has published no mapping with rkey 0x%x",
				   r->was.name, rkey);
	else
		err = request_reply(r, "map", ffo_map_to_json(&list[0]));
	if (err)
		request_end(r, err);
	else
		s->ops->host_get(s, r->was.host, got_host, r);
}

static void got_container(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct request *r = arg;
	struct ffo_store *s = r->ffo->store;
	struct store_key key;

	if (err && !locate(r, &key))
		container_missing(r, &key, err, why);
	if (!err)
		err = access_container(r, c);
	if (!err)
		err = request_reply(r, "container", ffo_container_to_json(c));
	if (err) {
		request_end(r, err);
		return;
	}
	r->was = *c;
	s->ops->map_list(s, c->id, c->id, r->arg.map_get.rkey - 1, 1, got_row, r);
}

int op_map_get(struct request *r)
{
	struct ffo_store *s = r->ffo->store;
	struct store_key key;
	int err = locate(r, &key);

	if (!err && !r->arg.map_get.rkey)
		return request_fail(r, -EINVAL, "\"rkey\" must not be 0");
	if (err)
		return err;
	s->ops->container_get(s, &key, got_container, r);
	return REQUEST_LATER;
}
