/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * store_sqlite.c - the embedded store: one SQLite file that one orchestrator has open at a time,
 * or ":memory:". See store.h. The orchestrator's loop only.
 *
 * Hosts and containers are in the file, in WAL mode with synchronous=FULL: what is committed
 * survives the loss of power. Mappings are in an attached database in memory, so that publishing
 * them writes and syncs nothing; both take part in one transaction.
 *
 * The file bears an application id and a schema version. One that is foreign, damaged or newer is
 * refused before anything in it is changed.
 */
#include "store_txn.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/log.h"

#define SCHEMA_VERSION 1
#define APPLICATION_ID 0x66666f31 /* "ffo1" */

static const char schema[] =
	"CREATE TABLE hosts("
	" name TEXT PRIMARY KEY, instance TEXT NOT NULL, last_seen INTEGER NOT NULL) STRICT;"
	"CREATE TABLE containers("
	" id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,"
	" lid INTEGER NOT NULL UNIQUE, mode TEXT NOT NULL, host TEXT NOT NULL,"
	" epoch INTEGER NOT NULL) STRICT;"
	"CREATE TABLE addresses("
	" container INTEGER NOT NULL REFERENCES containers ON DELETE CASCADE,"
	" idx INTEGER NOT NULL, tenant TEXT NOT NULL, addr BLOB NOT NULL,"
	" PRIMARY KEY(container, idx), UNIQUE(tenant, addr)) STRICT, WITHOUT ROWID;";

#define X(ctype, name) #name " INTEGER NOT NULL,"
static const char soft_schema[] =
	"ATTACH ':memory:' AS soft;"
	"CREATE TABLE soft.maps(" FFO_MAP_FIELDS(X) "PRIMARY KEY(container, rkey)) WITHOUT ROWID;";
#undef X

#define CONTAINER_COLS "id, name, tenant, lid, mode, host, epoch"

static_assert(FFO_MAP_COLS == 9, "MAP_PUT has as many parameters as a mapping has fields");

/* X(NAME, SQL): the statements, prepared once. */
#define STATEMENTS(X)                                                                              \
	X(BEGIN, "BEGIN")                                                                          \
	X(COMMIT, "COMMIT")                                                                        \
	X(ROLLBACK, "ROLLBACK")                                                                    \
	X(HOST_PUT, "INSERT OR REPLACE INTO hosts VALUES(?, ?, ?)")                                \
	X(HOST_LIST, "SELECT name, instance, last_seen FROM hosts WHERE name > ?"                  \
		     " ORDER BY name")                                                             \
	X(CONT_INSERT, "INSERT INTO containers(name, tenant, lid, mode, host, epoch)"              \
		       " VALUES(?1, ?2, ?3, ?4, ?5, ?6)")                                          \
	X(CONT_UPDATE, "UPDATE containers SET name = ?1, tenant = ?2, lid = ?3, mode = ?4,"        \
		       " host = ?5, epoch = ?6 WHERE id = ?7")                                     \
	X(CONT_DELETE, "DELETE FROM containers WHERE id = ?")                                      \
	X(CONT_GET, "SELECT " CONTAINER_COLS " FROM containers WHERE id = ?")                      \
	X(CONT_FIND, "SELECT " CONTAINER_COLS " FROM containers WHERE name = ?")                   \
	X(CONT_LIST, "SELECT " CONTAINER_COLS " FROM containers WHERE id > ? ORDER BY id")         \
	X(ADDR_INSERT, "INSERT INTO addresses VALUES(?, ?, ?, ?)")                                 \
	X(ADDR_DELETE, "DELETE FROM addresses WHERE container = ?")                                \
	X(ADDR_LIST, "SELECT addr FROM addresses WHERE container = ? ORDER BY idx")                \
	X(MAP_PUT, "INSERT OR REPLACE INTO soft.maps VALUES(?, ?, ?, ?, ?, ?, ?, ?, ?)")           \
	X(MAP_DELETE, "DELETE FROM soft.maps WHERE container = ? AND rkey = ?")                    \
	X(MAP_DROP, "DELETE FROM soft.maps WHERE container = ?")                                   \
	X(MAP_DROP_SES, "DELETE FROM soft.maps WHERE container = ? AND session = ?")               \
	X(MAP_DROP_HOST, "DELETE FROM soft.maps WHERE container IN"                                \
			 " (SELECT id FROM containers WHERE host = ?)")                            \
	X(MAP_LIST, "SELECT * FROM soft.maps WHERE (container, rkey) > (?, ?)"                     \
		    " ORDER BY container, rkey")                                                   \
	X(MAP_LIST_ONE, "SELECT * FROM soft.maps WHERE container = ? AND rkey > ?"                 \
			" ORDER BY rkey")

enum {
#define X(NAME, sql) ST_##NAME,
	STATEMENTS(X)
#undef X
		NUM_ST
};

static const char *const statement_sql[NUM_ST] = {
#define X(NAME, sql) sql,
	STATEMENTS(X)
#undef X
};

struct store {
	struct ffo_store base; /* first */
	struct ffo_txn txn;    /* the only one; done() comes before commit() returns */
	bool in_txn;
	sqlite3 *db;
	sqlite3_stmt *st[NUM_ST];
	char *where; /* for the log */
};

static struct store *store_of(struct ffo_store *s)
{
	return (struct store *)s;
}

static struct store *txn_store(struct ffo_txn *t)
{
	assert(store_of(t->store)->in_txn);
	return store_of(t->store);
}

/* What an SQLite result means; logs it, unless it is a duplicate or a lack of memory. */
static int failed(struct store *s, int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	case SQLITE_FULL:
		log_err("store %s: no space left", s->where);
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		log_err("store %s: %s", s->where, sqlite3_errmsg(s->db));
		return -EBADMSG;
	case SQLITE_BUSY:
		log_err("store %s: another process has it open", s->where);
		return -EBUSY;
	default:
		log_err("store %s: %s", s->where, sqlite3_errmsg(s->db));
		return -EIO;
	}
}

/* ---- statements ----------------------------------------------------------------------------- */

/*
 * Bind parameters 1.. by a format: 'i' int64_t, 's' const char *, 'a' const struct in6_addr *.
 * Text and addresses are the caller's and must live until the statement is reset.
 */
static sqlite3_stmt *prep(struct store *s, int st, const char *format, ...)
{
	sqlite3_stmt *stmt = s->st[st];
	va_list ap;

	va_start(ap, format);
	for (int i = 1; *format; i++)
		switch (*format++) {
		case 'i':
			sqlite3_bind_int64(stmt, i, va_arg(ap, int64_t));
			break;
		case 's':
			sqlite3_bind_text(stmt, i, va_arg(ap, const char *), -1, SQLITE_STATIC);
			break;
		case 'a':
			sqlite3_bind_blob(stmt, i, va_arg(ap, const struct in6_addr *),
					  sizeof(struct in6_addr), SQLITE_STATIC);
			break;
		}
	va_end(ap);
	return stmt;
}

/* Run a statement without rows. */
static int run(struct store *s, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);
	int err = rc == SQLITE_DONE ? 0 : failed(s, rc);

	sqlite3_reset(stmt);
	return err;
}

/* The next row: 1; none left, or an error: 0 or -errno, and the statement is reset. */
static int next_row(struct store *s, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt), err = 0;

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		err = failed(s, rc);
	sqlite3_reset(stmt);
	return err;
}

/* ---- open and close ------------------------------------------------------------------------- */

static int exec(struct store *s, const char *sql)
{
	int rc = sqlite3_exec(s->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : failed(s, rc);
}

static int take_text(void *to, int cols, char **text, char **names)
{
	(void)cols, (void)names;
	snprintf(to, 64, "%s", text[0] ? text[0] : "");
	for (char *nl = to; (nl = strchr(nl, '\n'));)
		*nl = ' ';
	return 0;
}

/* The single value that a PRAGMA or SELECT gives, as one line of at most 63 bytes. */
static int get_text(struct store *s, const char *sql, char *text)
{
	int rc;

	text[0] = '\0';
	rc = sqlite3_exec(s->db, sql, take_text, text, NULL);
	return rc == SQLITE_OK ? 0 : failed(s, rc);
}

static int get_number(struct store *s, const char *sql, long *n)
{
	char text[64];
	int err = get_text(s, sql, text);

	*n = strtol(text, NULL, 10);
	return err;
}

/* Is the file ours to use? *fresh: it is empty. */
static int check_file(struct store *s, bool *fresh)
{
	long id, version, tables;
	char text[64];
	int err;

	err = get_number(s, "PRAGMA application_id", &id);
	if (!err)
		err = get_number(s, "PRAGMA user_version", &version);
	if (!err)
		err = get_number(s, "SELECT count(*) FROM sqlite_schema", &tables);
	if (err)
		return err;
	*fresh = !id && !version && !tables;
	if (*fresh)
		return 0;
	if (id != APPLICATION_ID) {
		log_err("store %s: a database, but not of ffo", s->where);
		return -EBADMSG;
	}
	if (version != SCHEMA_VERSION) {
		log_err("store %s: schema version %ld, this ffo knows %d; use the ffo that wrote it",
			s->where, version, SCHEMA_VERSION);
		return -EPROTONOSUPPORT;
	}
	err = get_text(s, "PRAGMA quick_check(1)", text);
	if (!err && strcmp(text, "ok")) {
		log_err("store %s: damaged: %s", s->where, text);
		err = -EBADMSG;
	}
	return err;
}

static int prepare_file(struct store *s)
{
	bool fresh = false;
	char sql[128];
	int err;

	/* Held from the first access on, so a second orchestrator cannot use the file. */
	err = exec(s, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;"
		      "PRAGMA foreign_keys = ON;");
	if (!err)
		err = check_file(s, &fresh);
	if (!err)
		err = exec(s, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			      "BEGIN IMMEDIATE");
	if (!err && fresh)
		err = exec(s, schema);
	if (!err && fresh) {
		snprintf(sql, sizeof(sql), "PRAGMA application_id = %d; PRAGMA user_version = %d",
			 APPLICATION_ID, SCHEMA_VERSION);
		err = exec(s, sql);
	}
	if (!err)
		err = exec(s, "COMMIT");
	if (!err)
		err = exec(s, soft_schema);
	return err;
}

static void sqlite_close(struct ffo_store *base)
{
	struct store *s = store_of(base);

	if (!s)
		return;
	assert(!s->in_txn);
	for (int i = 0; i < NUM_ST; i++)
		sqlite3_finalize(s->st[i]);
	sqlite3_close(s->db);
	free(s->where);
	free(s);
}

static int sqlite_open(const char *where, struct ffo_store **out)
{
	struct store *s = calloc(1, sizeof(*s));
	int err, rc;

	if (!s)
		return -ENOMEM;
	s->base.ops = &store_sqlite;
	s->txn.store = &s->base;
	s->where = strdup(where);
	if (!s->where) {
		err = -ENOMEM;
		goto err_close;
	}
	rc = sqlite3_open_v2(where, &s->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			     NULL);
	if (rc != SQLITE_OK) {
		log_err("store %s: cannot be opened: %s", where,
			s->db ? sqlite3_errmsg(s->db) : "out of memory");
		err = -EIO;
		goto err_close;
	}
	err = prepare_file(s);
	if (err)
		goto err_close;
	for (int i = 0; i < NUM_ST; i++) {
		rc = sqlite3_prepare_v3(s->db, statement_sql[i], -1, SQLITE_PREPARE_PERSISTENT,
					&s->st[i], NULL);
		if (rc != SQLITE_OK) {
			err = failed(s, rc);
			goto err_close;
		}
	}
	*out = &s->base;
	return 0;

err_close:
	sqlite_close(&s->base);
	return err;
}

/* ---- transactions --------------------------------------------------------------------------- */

static int sqlite_begin(struct ffo_store *base, struct ffo_txn **t)
{
	struct store *s = store_of(base);
	int err;

	assert(!s->in_txn);
	err = run(s, s->st[ST_BEGIN]);
	if (err)
		return err;
	s->in_txn = true;
	*t = &s->txn;
	return 0;
}

static void sqlite_abort(struct ffo_txn *t)
{
	struct store *s = txn_store(t);

	s->in_txn = false;
	/* Some errors (disk full, I/O) have rolled it back already. */
	if (!sqlite3_get_autocommit(s->db))
		run(s, s->st[ST_ROLLBACK]);
}

static void sqlite_commit(struct ffo_txn *t, store_done_cb done, void *arg)
{
	struct store *s = txn_store(t);
	int err = run(s, s->st[ST_COMMIT]);

	if (err)
		sqlite_abort(t);
	s->in_txn = false;
	done(arg, err);
}

/* ---- hosts ---------------------------------------------------------------------------------- */

static int sqlite_host_put(struct ffo_txn *t, const struct ffo_host *h)
{
	struct store *s = txn_store(t);

	return run(s, prep(s, ST_HOST_PUT, "ssi", h->name, h->instance, (int64_t)h->last_seen));
}

static int take_name(sqlite3_stmt *stmt, int col, char *to, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(stmt, col);

	if (!text || strlen(text) >= size)
		return -EBADMSG;
	strcpy(to, text);
	return 0;
}

static int sqlite_host_list(struct ffo_store *base, const char *after, store_host_cb cb, void *arg)
{
	struct store *s = store_of(base);
	sqlite3_stmt *stmt = prep(s, ST_HOST_LIST, "s", after);
	struct ffo_host h;
	int err;

	while ((err = next_row(s, stmt)) == 1) {
		memset(&h, 0, sizeof(h));
		if (take_name(stmt, 0, h.name, sizeof(h.name)) || !ffo_name_ok(h.name) ||
		    take_name(stmt, 1, h.instance, sizeof(h.instance))) {
			log_err("store %s: a host's row makes no sense", s->where);
			err = -EBADMSG;
			break;
		}
		h.last_seen = (uint64_t)sqlite3_column_int64(stmt, 2);
		if (cb(arg, &h)) {
			err = 0;
			break;
		}
	}
	sqlite3_reset(stmt);
	return err;
}

/* ---- containers ----------------------------------------------------------------------------- */

static int sqlite_container_put(struct ffo_txn *t, struct ffo_container *c)
{
	struct store *s = txn_store(t);
	int st = c->id ? ST_CONT_UPDATE : ST_CONT_INSERT, err;

	err = run(s, prep(s, st, c->id ? "ssissii" : "ssissi", c->name, c->tenant, (int64_t)c->lid,
			  ffo_mode_name[c->mode], c->host, (int64_t)c->epoch, (int64_t)c->id));
	if (err)
		return err;
	if (!c->id) {
		if (sqlite3_last_insert_rowid(s->db) > UINT32_MAX)
			return -ENOSPC;
		c->id = (uint32_t)sqlite3_last_insert_rowid(s->db);
	} else if (!sqlite3_changes(s->db)) {
		return -ENOENT;
	}
	err = run(s, prep(s, ST_ADDR_DELETE, "i", (int64_t)c->id));
	for (unsigned int i = 0; !err && i < c->num_ips; i++)
		err = run(s, prep(s, ST_ADDR_INSERT, "iisa", (int64_t)c->id, (int64_t)i, c->tenant,
				  &c->ip[i]));
	return err;
}

static int sqlite_container_del(struct ffo_txn *t, uint32_t id)
{
	struct store *s = txn_store(t);
	int err = run(s, prep(s, ST_CONT_DELETE, "i", (int64_t)id));

	if (err)
		return err;
	if (!sqlite3_changes(s->db))
		return -ENOENT;
	return run(s, prep(s, ST_MAP_DROP, "i", (int64_t)id));
}

/* A row of CONTAINER_COLS and the addresses that go with it, checked. */
static int take_container(struct store *s, sqlite3_stmt *stmt, struct ffo_container *c)
{
	int64_t id = sqlite3_column_int64(stmt, 0), lid = sqlite3_column_int64(stmt, 3);
	int64_t epoch = sqlite3_column_int64(stmt, 6);
	sqlite3_stmt *ips = s->st[ST_ADDR_LIST];
	char mode[16];
	int err;

	memset(c, 0, sizeof(*c));
	if (id < 1 || id > UINT32_MAX || lid < 1 || lid > FFO_LID_MAX || epoch < 1 ||
	    epoch > UINT32_MAX || take_name(stmt, 1, c->name, sizeof(c->name)) ||
	    take_name(stmt, 2, c->tenant, sizeof(c->tenant)) ||
	    take_name(stmt, 4, mode, sizeof(mode)) ||
	    take_name(stmt, 5, c->host, sizeof(c->host)) || !ffo_name_ok(c->name) ||
	    !ffo_name_ok(c->tenant) || !ffo_name_ok(c->host) || ffo_mode_parse(mode) < 0)
		goto bad;
	c->id = (uint32_t)id;
	c->lid = (uint16_t)lid;
	c->epoch = (uint32_t)epoch;
	c->mode = (uint8_t)ffo_mode_parse(mode);

	prep(s, ST_ADDR_LIST, "i", id);
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
	log_err("store %s: the row of container %" PRId64 " makes no sense", s->where, id);
	return -EBADMSG;
}

static int get_container(struct store *s, sqlite3_stmt *stmt, struct ffo_container *c)
{
	int err = next_row(s, stmt);

	if (err != 1)
		return err ? err : -ENOENT;
	err = take_container(s, stmt, c);
	sqlite3_reset(stmt);
	return err;
}

static int sqlite_container_get(struct ffo_store *base, uint32_t id, struct ffo_container *c)
{
	struct store *s = store_of(base);

	return get_container(s, prep(s, ST_CONT_GET, "i", (int64_t)id), c);
}

static int sqlite_container_find(struct ffo_store *base, const char *name, struct ffo_container *c)
{
	struct store *s = store_of(base);

	return get_container(s, prep(s, ST_CONT_FIND, "s", name), c);
}

static int sqlite_container_list(struct ffo_store *base, uint32_t after, store_container_cb cb,
				 void *arg)
{
	struct store *s = store_of(base);
	sqlite3_stmt *stmt = prep(s, ST_CONT_LIST, "i", (int64_t)after);
	struct ffo_container c;
	int err;

	while ((err = next_row(s, stmt)) == 1) {
		err = take_container(s, stmt, &c);
		if (err || cb(arg, &c))
			break;
	}
	sqlite3_reset(stmt);
	return err;
}

/* ---- mappings ------------------------------------------------------------------------------- */

static int sqlite_map_put(struct ffo_txn *t, const struct ffo_map *m)
{
	struct store *s = txn_store(t);
	sqlite3_stmt *stmt = s->st[ST_MAP_PUT];

#define X(ctype, name) sqlite3_bind_int64(stmt, FFO_MAP_COL_##name + 1, (int64_t)m->name);
	FFO_MAP_FIELDS(X)
#undef X
	return run(s, stmt);
}

static int sqlite_map_del(struct ffo_txn *t, uint32_t container, uint32_t rkey)
{
	struct store *s = txn_store(t);
	int err = run(s, prep(s, ST_MAP_DELETE, "ii", (int64_t)container, (int64_t)rkey));

	return err ? err : sqlite3_changes(s->db) ? 0 : -ENOENT;
}

static int sqlite_map_drop(struct ffo_txn *t, uint32_t container, uint32_t session)
{
	struct store *s = txn_store(t);

	if (!session)
		return run(s, prep(s, ST_MAP_DROP, "i", (int64_t)container));
	return run(s, prep(s, ST_MAP_DROP_SES, "ii", (int64_t)container, (int64_t)session));
}

static int sqlite_map_drop_host(struct ffo_txn *t, const char *host)
{
	struct store *s = txn_store(t);

	return run(s, prep(s, ST_MAP_DROP_HOST, "s", host));
}

static int sqlite_map_list(struct ffo_store *base, uint32_t only, uint32_t container, uint32_t rkey,
			   store_map_cb cb, void *arg)
{
	struct store *s = store_of(base);
	struct ffo_map m;
	sqlite3_stmt *stmt;
	int err;

	if (!only)
		stmt = prep(s, ST_MAP_LIST, "ii", (int64_t)container, (int64_t)rkey);
	else if (container <= only)
		stmt = prep(s, ST_MAP_LIST_ONE, "ii", (int64_t)only,
			    container == only ? (int64_t)rkey : (int64_t)0);
	else
		return 0;
	while ((err = next_row(s, stmt)) == 1) {
#define X(ctype, name) m.name = (ctype)sqlite3_column_int64(stmt, FFO_MAP_COL_##name);
		FFO_MAP_FIELDS(X)
#undef X
		if (cb(arg, &m)) {
			err = 0;
			break;
		}
	}
	sqlite3_reset(stmt);
	return err;
}

const struct ffo_store_ops store_sqlite = {
	.name = "sqlite",
	.open = sqlite_open,
	.close = sqlite_close,
	.begin = sqlite_begin,
	.commit = sqlite_commit,
	.abort = sqlite_abort,
	.host_put = sqlite_host_put,
	.container_put = sqlite_container_put,
	.container_del = sqlite_container_del,
	.map_put = sqlite_map_put,
	.map_del = sqlite_map_del,
	.map_drop = sqlite_map_drop,
	.map_drop_host = sqlite_map_drop_host,
	.host_list = sqlite_host_list,
	.container_get = sqlite_container_get,
	.container_find = sqlite_container_find,
	.container_list = sqlite_container_list,
	.map_list = sqlite_map_list,
};
