/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ephemeral.c - the ephemeral state in store.c: what hangs on the sessions of hosts, mappings
 * above all. The orchestrator's loop only.
 */
#include "ffo/store/sqlite/internal.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static_assert(FFO_MAP_COLS == 9, "MAP_PUT has as many parameters as a mapping has fields");
static_assert(FFO_MAP_COL_container == 0 && FFO_MAP_COL_epoch == 8, "MAP_PUT's ?1 and ?9");

int sqlite_drop_ephemeral(struct store *s, const char *host)
{
	int err = run(s, prep(s, ST_UP_DEL, "s", host));

	if (!err)
		err = run(s, prep(s, ST_ACTIVE_DROP_HOST, "s", host));
	if (!err)
		err = run(s, prep(s, ST_MCAST_DROP_HOST, "s", host));
	if (!err)
		err = run(s, prep(s, ST_MAP_DROP_HOST, "s", host));
	if (!err)
		err = sqlite_note_named(s, STORE_HOST, host);
	if (!err)
		err = sqlite_note_groups(s);
	return err ? err : sqlite_note_maps(s, host);
}

/* ---- ephemeral state ------------------------------------------------------------------------------ */

/* Begin a change of the ephemeral state of a host, which must be up. Else it has ended. */
static int begin_ephemeral(struct store *s, const char *host)
{
	struct ffo_host h;
	int err = sqlite_begin(s);

	if (err)
		return err;
	err = sqlite_get_host(s, host, &h);
	if (!err && h.up)
		return 0;
	sqlite_end(s, -ESHUTDOWN);
	return err && err != -ENOENT ? err : -ESHUTDOWN;
}

/* Rows of one map have changed. */
static int note_rows(struct store *s, const struct store_key *key, const struct ffo_map *rows,
		     size_t num)
{
	int err = 0;
	struct note *n = sqlite_note(s, key, num, &err);

	for (size_t i = 0; n && i < num; i++)
		n->rkeys[i] = rows[i].rkey;
	if (n)
		n->num = num;
	return err;
}

static int put_map(struct store *s, const struct ffo_map *m)
{
	sqlite3_stmt *stmt = s->db.st[ST_MAP_PUT];

#define X(ctype, name) sqlite3_bind_int64(stmt, FFO_MAP_COL_##name + 1, (int64_t)m->name);
	FFO_MAP_FIELDS(X)
#undef X
	return run(s, stmt);
}

void sqlite_map_put(struct ffo_store *base, const char *host, const struct ffo_map *rows, size_t n,
		    store_done_cb done, void *arg)
{
	struct store *s = store_of(base);
	struct store_key key = { .kind = STORE_MAP };
	int err = begin_ephemeral(s, host);
	size_t last;

	if (err) {
		done(arg, err, "");
		return;
	}
	for (size_t first = 0; !err && first < n; first = last) {
		for (last = first;
		     !err && last < n && rows[last].container == rows[first].container &&
		     rows[last].epoch == rows[first].epoch;
		     last++)
			err = put_map(s, &rows[last]);
		key.id = rows[first].container;
		key.epoch = rows[first].epoch;
		if (!err)
			err = note_rows(s, &key, &rows[first], last - first);
	}
	done(arg, sqlite_end(s, err), "");
	sqlite_work_off(s);
}

/* Take out a row, which is of whatever epoch: 0, -ENOENT, ... */
static int del_map(struct store *s, const struct store_map_id *id)
{
	struct store_key key = { .kind = STORE_MAP, .id = id->container };
	struct ffo_map m;
	ssize_t n;
	int err;

	n = sqlite_get_maps(s, prep(s, ST_MAP_ROW, "ii", (int64_t)id->container, (int64_t)id->rkey),
			    &m, 1);
	if (n < 1)
		return n ? (int)n : -ENOENT;
	key.epoch = m.epoch;
	err = run(s, prep(s, ST_MAP_DELETE, "ii", (int64_t)id->container, (int64_t)id->rkey));
	return err ? err : note_rows(s, &key, &m, 1);
}

void sqlite_map_del(struct ffo_store *base, const char *host, const struct store_map_id *ids,
		    size_t n, store_count_cb done, void *arg)
{
	struct store *s = store_of(base);
	int err = begin_ephemeral(s, host);
	size_t count = 0;

	if (err) {
		done(arg, err, "", 0);
		return;
	}
	for (size_t i = 0; !err && i < n; i++) {
		err = del_map(s, &ids[i]);
		if (!err)
			count++;
		else if (err == -ENOENT)
			err = 0;
	}
	done(arg, sqlite_end(s, err), "", count);
	sqlite_work_off(s);
}

void sqlite_map_drop(struct ffo_store *base, const char *host, uint32_t container, uint32_t epoch,
		     uint32_t session, store_done_cb done, void *arg)
{
	struct store *s = store_of(base);
	struct ffo_container c;
	int err = begin_ephemeral(s, host);

	if (err) {
		done(arg, err, "");
		return;
	}
	err = run(s, prep(s, ST_MAP_DROP, "iii", (int64_t)container, (int64_t)epoch,
			  (int64_t)session));
	if (!err && sqlite3_changes(s->db.db) && !sqlite_get_by_id(s, container, &c))
		err = sqlite_note_reset(s, container, c.epoch);
	done(arg, sqlite_end(s, err), "");
	sqlite_work_off(s);
}

void sqlite_container_active(struct ffo_store *base, const char *host, uint32_t container,
			     uint32_t epoch, bool active, store_done_cb done, void *arg)
{
	struct store *s = store_of(base);
	int err = begin_ephemeral(s, host);

	if (err) {
		done(arg, err, "");
		return;
	}
	if (active)
		err = run(s,
			  prep(s, ST_ACTIVE_ADD, "iis", (int64_t)container, (int64_t)epoch, host));
	else
		err = run(s, prep(s, ST_ACTIVE_DEL, "is", (int64_t)container, host));
	done(arg, sqlite_end(s, err), "");
}

static unsigned int count_members(struct store *s, const struct store_key *group)
{
	sqlite3_stmt *stmt = prep(s, ST_MCAST_COUNT, "sa", group->name, &group->addr);
	unsigned int n = 0;

	if (next_row(s, stmt) == 1)
		n = (unsigned int)sqlite3_column_int(stmt, 0);
	sqlite3_reset(stmt);
	return n;
}

void sqlite_mcast_member(struct ffo_store *base, const char *host, const char *tenant,
			 const struct in6_addr *mgid, bool member, store_done_cb done, void *arg)
{
	struct store_key key = sqlite_named(STORE_MCAST, tenant);
	struct store *s = store_of(base);
	int err = begin_ephemeral(s, host);
	char why[60] = "";

	if (err) {
		done(arg, err, "");
		return;
	}
	key.addr = *mgid;
	err = run(s, prep(s, member ? ST_MCAST_ADD : ST_MCAST_DEL, "sas", tenant, mgid, host));
	if (!err && member && count_members(s, &key) > FFO_GROUP_MAX) {
		snprintf(why, sizeof(why), "the group has members on %u hosts", FFO_GROUP_MAX);
		err = -ENOSPC;
	}
	if (!err)
		err = sqlite_note_key(s, &key);
	done(arg, sqlite_end(s, err), why);
	sqlite_work_off(s);
}

/* ---- mappings -------------------------------------------------------------------------------- */

void sqlite_map_list(struct ffo_store *base, uint32_t only, uint32_t container, uint32_t rkey,
		     size_t limit, store_maps_cb done, void *arg)
{
	struct ffo_map *list = calloc(limit + 1, sizeof(*list));
	struct store *s = store_of(base);
	sqlite3_stmt *stmt;
	ssize_t n = -ENOMEM;

	if (!only)
		stmt = prep(s, ST_MAP_LIST, "iii", (int64_t)container, (int64_t)rkey,
			    (int64_t)limit + 1);
	else
		stmt = prep(s, ST_MAP_LIST_ONE, "iii", (int64_t)only,
			    container == only ? (int64_t)rkey : (int64_t)0, (int64_t)limit + 1);
	if (only && container > only)
		n = 0; /* behind all of it */
	else if (list)
		n = sqlite_get_maps(s, stmt, list, limit + 1);
	if (n < 0)
		done(arg, (int)n, "", NULL, 0, false);
	else
		done(arg, 0, "", list, (size_t)n > limit ? limit : (size_t)n, (size_t)n > limit);
	free(list);
}

/* A container's rows are of its epoch: others are not stored, and go with a move. */
ssize_t sqlite_map_page(struct ffo_store *base, const struct store_watch *w, uint32_t after,
			struct ffo_map *rows, size_t n)
{
	struct store *s = store_of(base);
	ssize_t num = sqlite_get_maps(
		s, prep(s, ST_MAP_LIST_ONE, "iii", (int64_t)w->key.id, (int64_t)after, (int64_t)n),
		rows, n);

	return num > 0 && rows[0].epoch != w->key.epoch ? 0 : num;
}

int sqlite_map_row(struct ffo_store *base, const struct store_watch *w, uint32_t rkey,
		   struct ffo_map *row)
{
	struct store *s = store_of(base);
	ssize_t n = sqlite_get_maps(s, prep(s, ST_MAP_ROW, "ii", (int64_t)w->key.id, (int64_t)rkey),
				    row, 1);

	if (n < 0)
		return (int)n;
	return n && row->epoch == w->key.epoch ? 0 : -ENOENT;
}
