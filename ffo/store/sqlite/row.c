/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * row.c - what store.c reads, checked: rows that no ffo would write are told of in the
 * log and never handed on. The orchestrator's loop only.
 *
 * Tests: test_store.c
 */
#include "ffo/store/sqlite/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "ffr/lib/log.h"

/* ---- rows ------------------------------------------------------------------------------------ */

static int take_name(sqlite3_stmt *stmt, int col, char *to)
{
	int err = sqldb_text(stmt, col, to, FFO_NAME_MAX);

	return !err && !ffo_name_ok(to) ? -EBADMSG : err;
}

/* A row of HOST_COLS, checked. */
static int take_host(struct store *s, sqlite3_stmt *stmt, struct ffo_host *h)
{
	memset(h, 0, sizeof(*h));
	if (take_name(stmt, 0, h->name) || sqldb_text(stmt, 1, h->instance, sizeof(h->instance)) ||
	    sqldb_text(stmt, 2, h->wire, sizeof(h->wire))) {
		log_err("store %s: a host's row makes no sense", s->db.where);
		return -EBADMSG;
	}
	h->last_seen = (uint64_t)sqlite3_column_int64(stmt, 3);
	h->up = sqlite3_column_int(stmt, 4);
	return 0;
}

int sqlite_get_host(struct store *s, const char *name, struct ffo_host *h)
{
	sqlite3_stmt *stmt = prep(s, ST_HOST_GET, "s", name);
	int err = next_row(s, stmt);

	if (err != 1)
		return err ? err : -ENOENT;
	err = take_host(s, stmt, h);
	sqlite3_reset(stmt);
	return err;
}

char *sqlite_limits_text(const struct ffo_limits *l)
{
	json_t *j = ffo_limits_to_json(l);
	char *text = j ? json_dumps(j, JSON_COMPACT) : NULL;

	json_decref(j);
	return text;
}

/* The JSON in a column. */
static int take_limits(sqlite3_stmt *stmt, int col, struct ffo_limits *l)
{
	const char *text = (const char *)sqlite3_column_text(stmt, col);
	json_error_t error;
	json_t *j;
	int err;

	if (!text)
		return -ENOMEM; /* the column is NOT NULL */
	j = json_loads(text, JSON_REJECT_DUPLICATES, &error);
	if (!j)
		return json_error_code(&error) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
	err = ffo_limits_from_json(j, l) ? -EBADMSG : 0;
	json_decref(j);
	return err;
}

/* A row of CONTAINER_COLS and the addresses that go with it, checked. */
static int take_container(struct store *s, sqlite3_stmt *stmt, struct ffo_container *c)
{
	int64_t id = sqlite3_column_int64(stmt, 0), lid = sqlite3_column_int64(stmt, 3);
	int64_t epoch = sqlite3_column_int64(stmt, 6), devices = sqlite3_column_int64(stmt, 10);
	sqlite3_stmt *ips;
	char mode[16];
	int err;

	memset(c, 0, sizeof(*c));
	if (id < 1 || id > UINT32_MAX || lid < 1 || lid > FFO_LID_MAX || epoch < 1 ||
	    epoch > UINT32_MAX || take_name(stmt, 1, c->name) || take_name(stmt, 2, c->tenant) ||
	    sqldb_text(stmt, 4, mode, sizeof(mode)) || take_name(stmt, 5, c->host) ||
	    ffo_mode_parse(mode) < 0 ||
	    sqldb_text(stmt, 9, c->device_name, sizeof(c->device_name)) ||
	    (*c->device_name && !ffo_name_ok(c->device_name)) || devices < 0 ||
	    devices > FFO_DEVICES_MAX)
		goto bad;
	err = take_limits(stmt, 8, &c->limits);
	if (err == -EBADMSG)
		goto bad;
	if (err)
		return err;
	c->id = (uint32_t)id;
	c->lid = (uint16_t)lid;
	c->epoch = (uint32_t)epoch;
	c->mode = (uint8_t)ffo_mode_parse(mode);
	c->active = sqlite3_column_int(stmt, 7);
	c->devices = (uint8_t)devices;

	ips = prep(s, ST_ADDR_LIST, "i", id);
	while ((err = next_row(s, ips)) == 1) {
		if (c->num_ips == FFO_ADDR_MAX ||
		    sqlite3_column_bytes(ips, 0) != sizeof(c->ip[0])) {
			sqlite3_reset(ips);
			goto bad;
		}
		memcpy(&c->ip[c->num_ips++], sqlite3_column_blob(ips, 0), sizeof(c->ip[0]));
	}
	if (err)
		return err;
	if (c->num_ips)
		return 0;
bad:
	log_err("store %s: the row of container %" PRId64 " makes no sense", s->db.where, id);
	return -EBADMSG;
}

int sqlite_get_container(struct store *s, const struct store_key *key, struct ffo_container *c)
{
	sqlite3_stmt *stmt;
	int err;

	switch (key->kind) {
	case STORE_ADDR:
		stmt = prep(s, ST_CONT_ADDR, "sa", key->name, &key->addr);
		break;
	case STORE_LID:
		stmt = prep(s, ST_CONT_LID, "i", (int64_t)key->lid);
		break;
	case STORE_NAME:
		stmt = prep(s, ST_CONT_NAME, "s", key->name);
		break;
	default:
		stmt = prep(s, ST_CONT_ID, "i", (int64_t)key->id);
		break;
	}
	err = next_row(s, stmt);
	if (err != 1)
		return err ? err : -ENOENT;
	err = take_container(s, stmt, c);
	sqlite3_reset(stmt);
	return err;
}

int sqlite_get_by_id(struct store *s, uint32_t id, struct ffo_container *c)
{
	const struct store_key key = { .kind = STORE_ID, .id = id };

	return sqlite_get_container(s, &key, c);
}

/* Up to n containers of a host (NULL: all) with ids above `after`: their number, or -errno. */
ssize_t sqlite_get_containers(struct store *s, const char *host, uint32_t after,
			      struct ffo_container *list, size_t n)
{
	sqlite3_stmt *stmt =
		host ? prep(s, ST_CONT_OWNED, "sii", host, (int64_t)after, (int64_t)n) :
		       prep(s, ST_CONT_LIST, "ii", (int64_t)after, (int64_t)n);
	size_t num = 0;
	int err;

	while ((err = next_row(s, stmt)) == 1) {
		err = take_container(s, stmt, &list[num++]);
		if (err)
			break;
	}
	sqlite3_reset(stmt);
	return err ? err : (ssize_t)num;
}

static void take_map(sqlite3_stmt *stmt, struct ffo_map *m)
{
#define X(ctype, name) m->name = (ctype)sqlite3_column_int64(stmt, FFO_MAP_COL_##name);
	FFO_MAP_FIELDS(X)
#undef X
}

/* The rows of a statement, n at most: their number, or -errno. */
ssize_t sqlite_get_maps(struct store *s, sqlite3_stmt *stmt, struct ffo_map *list, size_t n)
{
	size_t num = 0;
	int err = 0;

	while (num < n && (err = next_row(s, stmt)) == 1)
		take_map(stmt, &list[num++]);
	sqlite3_reset(stmt);
	return err < 0 ? err : (ssize_t)num;
}

ssize_t sqlite_get_hosts(struct store *s, sqlite3_stmt *stmt, struct ffo_host *list, size_t n)
{
	size_t num = 0;
	int err = 0;

	while (num < n && (err = next_row(s, stmt)) == 1) {
		err = take_host(s, stmt, &list[num++]);
		if (err)
			break;
	}
	sqlite3_reset(stmt);
	return err < 0 ? err : (ssize_t)num;
}

/* All rules: room for FFO_RULES_MAX. */
ssize_t sqlite_get_rules(struct store *s, struct ffo_rule *rules)
{
	sqlite3_stmt *stmt = prep(s, ST_RULE_LIST, "");
	char a[FFO_PARTY_MAX], b[FFO_PARTY_MAX];
	size_t num = 0;
	int err;

	while ((err = next_row(s, stmt)) == 1) {
		if (num == FFO_RULES_MAX || sqldb_text(stmt, 0, a, sizeof(a)) ||
		    sqldb_text(stmt, 1, b, sizeof(b)) || strcmp(a, b) > 0 ||
		    ffo_rule_make(&rules[num++], a, b, sqlite3_column_int(stmt, 2))) {
			log_err("store %s: the policy makes no sense", s->db.where);
			err = -EBADMSG;
			break;
		}
	}
	sqlite3_reset(stmt);
	return err ? err : (ssize_t)num;
}

ssize_t sqlite_get_tenants(struct store *s, struct ffo_tenant *tenants)
{
	sqlite3_stmt *stmt = prep(s, ST_TENANT_LIST, "");
	size_t num = 0;
	int err;

	while ((err = next_row(s, stmt)) == 1) {
		err = num == FFO_TENANTS_MAX		    ? -EBADMSG :
		      take_name(stmt, 0, tenants[num].name) ?:
					       take_limits(stmt, 1, &tenants[num].limits);
		if (err == -EBADMSG)
			log_err("store %s: the tenants' limits make no sense", s->db.where);
		if (err)
			break;
		num++;
	}
	sqlite3_reset(stmt);
	return err ? err : (ssize_t)num;
}
