/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * op_map.c - the mem-to-shadow map: published and withdrawn by routers in batches, listed. Called
 * by request.c; the orchestrator's loop only.
 *
 * A batch is one transaction. A row that makes no sense fails it as a whole, for then the router is
 * in error. A row whose container is gone, is another host's or has moved on is refused by itself:
 * containers go while batches are under way.
 */
#include "server.h"

#include <errno.h>
#include <string.h>

/* The container of the rows before: batches have runs of one container. */
struct owner {
	struct ffo_container c;
	int err; /* what looking it up gave; no container has id 0 */
};

/* May this connection change mappings of that container? 0, -ENOENT, -EPERM, or the store's. */
static int check_owner(struct request *r, uint32_t container, struct owner *o)
{
	struct ffo_store *s = r->ffo->store;

	if (o->c.id != container) {
		o->err = s->ops->container_get(s, container, &o->c);
		if (!o->err && strcmp(o->c.host, r->conn->host))
			o->err = -EPERM;
		o->c.id = container;
	}
	return o->err;
}

static int check_batch(struct request *r, json_t *maps)
{
	if (json_array_size(maps) && json_array_size(maps) <= FFO_BATCH_MAX)
		return 0;
	return request_fail(r, -EINVAL, "\"maps\" must have 1 to %u rows", FFO_BATCH_MAX);
}

static int refuse_row(json_t *refused, size_t i, int err)
{
	return json_array_append_new(refused,
				     json_pack("[I, s]", (json_int_t)i, ffo_error_name(err))) ?
		       -ENOMEM :
		       0;
}

int op_map_publish(struct request *r)
{
	json_t *maps = r->arg.map_publish.maps, *refused = json_array(), *row;
	struct owner owner = { .err = -ENOENT };
	json_int_t stored = 0;
	struct ffo_map m;
	size_t i;
	int err;

	err = request_reply(r, "refused", refused);
	if (!err)
		err = check_batch(r, maps);
	if (!err)
		err = request_txn(r);
	if (err)
		return err;
	json_array_foreach(maps, i, row) {
		if (ffo_map_from_json(row, &m))
			return request_fail(r, -EINVAL, "row %zu of \"maps\" is no mapping", i);
		err = check_owner(r, m.container, &owner);
		if (!err && m.epoch != owner.c.epoch)
			err = -ESTALE;
		if (err == -ENOENT || err == -EPERM || err == -ESTALE) {
			err = refuse_row(refused, i, err);
		} else if (!err) {
			err = r->txn->store->ops->map_put(r->txn, &m);
			stored++;
		}
		if (err)
			return err;
	}
	return request_reply(r, "stored", json_integer(stored));
}

int op_map_withdraw(struct request *r)
{
	json_t *maps = r->arg.map_withdraw.maps, *row;
	struct owner owner = { .err = -ENOENT };
	uint32_t container, rkey;
	json_int_t removed = 0;
	size_t i;
	int err;

	err = check_batch(r, maps);
	if (!err)
		err = request_txn(r);
	if (err)
		return err;
	json_array_foreach(maps, i, row) {
		if (ffo_map_id_from_json(row, &container, &rkey))
			return request_fail(r, -EINVAL,
					    "row %zu of \"maps\" must be [container, rkey]", i);
		err = check_owner(r, container, &owner);
		if (!err)
			err = r->txn->store->ops->map_del(r->txn, container, rkey);
		if (!err)
			removed++;
		else if (err != -ENOENT && err != -EPERM)
			return err;
	}
	return request_reply(r, "removed", json_integer(removed));
}

int op_map_drop(struct request *r)
{
	const struct ffo_req_map_drop *arg = &r->arg.map_drop;
	struct owner owner = { .err = -ENOENT };
	int err;

	err = check_owner(r, arg->container, &owner);
	if (err == -ENOENT)
		return request_fail(r, err, "there is no container with id %u", arg->container);
	if (err == -EPERM)
		return request_fail(r, err, "container %u is not of host %s", arg->container,
				    r->conn->host);
	if (!err)
		err = request_txn(r);
	return err ? err : r->txn->store->ops->map_drop(r->txn, arg->container, arg->session);
}

struct map_page {
	json_t *list;
	uint32_t limit, container, rkey; /* the last one's */
	bool more;
	int err;
};

static int add_map(void *arg, const struct ffo_map *m)
{
	struct map_page *p = arg;

	if (json_array_size(p->list) == p->limit) {
		p->more = true;
		return 1;
	}
	p->container = m->container;
	p->rkey = m->rkey;
	if (json_array_append_new(p->list, ffo_map_to_json(m)))
		p->err = -ENOMEM;
	return p->err;
}

int op_map_list(struct request *r)
{
	const struct ffo_req_map_list *arg = &r->arg.map_list;
	struct map_page p = { .list = json_array() };
	uint32_t container = 0, rkey = 0;
	struct ffo_store *s = r->ffo->store;
	int err;

	p.limit = arg->limit && arg->limit < FFO_BATCH_MAX ? arg->limit : FFO_BATCH_MAX;
	err = request_reply(r, "maps", p.list);
	if (!err && arg->after && ffo_map_id_from_json(arg->after, &container, &rkey))
		return request_fail(r, -EINVAL, "\"after\" must be [container, rkey]");
	if (!err)
		err = s->ops->map_list(s, arg->container, container, rkey, add_map, &p);
	if (!err)
		err = p.err;
	if (!err && p.more)
		err = request_reply(r, "next",
				    json_pack("[I, I]", (json_int_t)p.container,
					      (json_int_t)p.rkey));
	return err;
}
