/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * db.c - see db.h. The orchestrator's loop only.
 *
 * What is to be kept is in the file, in WAL mode with synchronous=FULL: what is committed survives
 * the loss of power. Ephemeral state is in an attached database in memory, so that changing it writes
 * and syncs nothing; both take part in one transaction.
 *
 * The file bears an application id and a schema version. One that is foreign, damaged or of another
 * version is refused before anything in it is changed.
 */
#include "ffo/store/sqlite/db.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ffo/base/proto.h"
#include "ffr/lib/log.h"

#define APPLICATION_ID 0x66666f31 /* "ffo1" */
#define SCHEMA_VERSION 5
#define STR(n)	       STR_OF(n)
#define STR_OF(n)      #n

static const char schema[] =
	"CREATE TABLE hosts("
	" name TEXT PRIMARY KEY, instance TEXT NOT NULL, last_seen INTEGER NOT NULL,"
	" wire TEXT NOT NULL) STRICT;"
	"CREATE TABLE containers("
	" id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL UNIQUE, tenant TEXT NOT NULL,"
	" lid INTEGER NOT NULL UNIQUE, mode TEXT NOT NULL, host TEXT NOT NULL,"
	" epoch INTEGER NOT NULL, limits TEXT NOT NULL,"
	" device_name TEXT NOT NULL, devices INTEGER NOT NULL) STRICT;"
	"CREATE INDEX containers_of_host ON containers(host, id);"
	"CREATE TABLE addresses("
	" container INTEGER NOT NULL REFERENCES containers ON DELETE CASCADE,"
	" idx INTEGER NOT NULL, tenant TEXT NOT NULL, addr BLOB NOT NULL,"
	" PRIMARY KEY(container, idx), UNIQUE(tenant, addr)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE policy("
	" a TEXT NOT NULL, b TEXT NOT NULL, allow INTEGER NOT NULL,"
	" PRIMARY KEY(a, b)) STRICT, WITHOUT ROWID;"
	"CREATE TABLE tenants("
	" name TEXT PRIMARY KEY, limits TEXT NOT NULL) STRICT, WITHOUT ROWID;"
	"CREATE TABLE store(id TEXT NOT NULL) STRICT;"
	"INSERT INTO store VALUES(lower(hex(randomblob(16))));"
	"PRAGMA application_id = " STR(APPLICATION_ID) ";"
						       "PRAGMA user_version = " STR(SCHEMA_VERSION);

#define X(ctype, name) #name " INTEGER NOT NULL,"
static const char ephemeral_schema[] =
	"ATTACH ':memory:' AS ephemeral;"
	"CREATE TABLE ephemeral.maps(" FFO_MAP_FIELDS(
		X) "PRIMARY KEY(container, rkey)) WITHOUT ROWID;"
		   "CREATE TABLE ephemeral.up(host TEXT PRIMARY KEY) WITHOUT ROWID;"
		   "CREATE TABLE ephemeral.active("
		   " container INTEGER PRIMARY KEY, epoch INTEGER NOT NULL, host TEXT NOT NULL);"
		   "CREATE TABLE ephemeral.mcast("
		   " tenant TEXT NOT NULL, mgid BLOB NOT NULL, host TEXT NOT NULL,"
		   " PRIMARY KEY(tenant, mgid, host)) WITHOUT ROWID;"
		   "CREATE INDEX ephemeral.mcast_of_host ON mcast(host);";
#undef X

static int error_of(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_CONSTRAINT:
		return -EEXIST;
	case SQLITE_FULL:
		return -ENOSPC;
	case SQLITE_NOMEM:
		return -ENOMEM;
	case SQLITE_CORRUPT:
	case SQLITE_NOTADB:
		return -EBADMSG;
	case SQLITE_BUSY:
		return -EBUSY;
	default:
		return -EIO;
	}
}

int sqldb_error(sqlite3 *db, int rc, char *why, size_t size)
{
	int err = error_of(rc);

	snprintf(why, size, "%s",
		 err == -ENOSPC ? "no space left" :
		 err == -EBUSY	? "another process has it open" :
				  sqlite3_errmsg(db));
	return err;
}

/* What an SQLite result means; logs it, unless it is a duplicate or a lack of memory. */
static int failed(struct sqldb *d, int rc)
{
	char why[200];
	int err = sqldb_error(d->db, rc, why, sizeof(why));

	if (err != -EEXIST && err != -ENOMEM)
		log_err("store %s: %s", d->where, why);
	return err;
}

/* ---- statements ----------------------------------------------------------------------------- */

sqlite3_stmt *sqldb_prep(struct sqldb *d, int st, const char *format, ...)
{
	sqlite3_stmt *stmt = d->st[st];
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

int sqldb_run(struct sqldb *d, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt);
	int err = rc == SQLITE_DONE ? 0 : failed(d, rc);

	sqlite3_reset(stmt);
	return err;
}

int sqldb_next(struct sqldb *d, sqlite3_stmt *stmt)
{
	int rc = sqlite3_step(stmt), err = 0;

	if (rc == SQLITE_ROW)
		return 1;
	if (rc != SQLITE_DONE)
		err = failed(d, rc);
	sqlite3_reset(stmt);
	return err;
}

int sqldb_text(sqlite3_stmt *stmt, int col, char *to, size_t size)
{
	const char *text = (const char *)sqlite3_column_text(stmt, col);

	if (!text || strlen(text) >= size)
		return -EBADMSG;
	strcpy(to, text);
	return 0;
}

/* ---- open and close ------------------------------------------------------------------------- */

static int exec(struct sqldb *d, const char *sql)
{
	int rc = sqlite3_exec(d->db, sql, NULL, NULL, NULL);

	return rc == SQLITE_OK ? 0 : failed(d, rc);
}

static int take_text(void *to, int cols, char **text, char **names)
{
	(void)cols, (void)names;
	snprintf(to, 64, "%s", text[0] ? text[0] : "");
	for (char *nl = to; (nl = strchr(nl, '\n'));)
		*nl = ' ';
	return 0;
}

/*
 * The single value that a PRAGMA or SELECT gives, as one line of at most 63 bytes. An SQLite
 * result.
 */
static int get_text(sqlite3 *db, const char *sql, char *text)
{
	text[0] = '\0';
	return sqlite3_exec(db, sql, take_text, text, NULL);
}

static int get_number(sqlite3 *db, const char *sql, long *n)
{
	char text[64];
	int rc = get_text(db, sql, text);

	*n = strtol(text, NULL, 10);
	return rc;
}

int sqldb_check(sqlite3 *db, bool *empty, char *why, size_t size)
{
	long id, tables, version;
	char text[64];
	int rc;

	rc = get_number(db, "PRAGMA application_id", &id);
	if (rc == SQLITE_OK)
		rc = get_number(db, "PRAGMA user_version", &version);
	if (rc == SQLITE_OK)
		rc = get_number(db, "SELECT count(*) FROM sqlite_schema", &tables);
	if (rc != SQLITE_OK)
		return sqldb_error(db, rc, why, size);
	*empty = !id && !version && !tables;
	if (*empty)
		return 0;
	if (id != APPLICATION_ID) {
		snprintf(why, size, "a database, but not of ffo");
		return -EBADMSG;
	}
	if (version != SCHEMA_VERSION) {
		snprintf(why, size,
			 "schema version %ld, this ffo knows %d; use the ffo that wrote it",
			 version, SCHEMA_VERSION);
		return -EPROTONOSUPPORT;
	}
	rc = get_text(db, "PRAGMA quick_check(1)", text);
	if (rc != SQLITE_OK)
		return sqldb_error(db, rc, why, size);
	if (strcmp(text, "ok")) {
		snprintf(why, size, "damaged: %s", text);
		return -EBADMSG;
	}
	return 0;
}

/* Is the file ours to use? */
static int check_file(struct sqldb *d, bool *empty)
{
	char why[200];
	int err = sqldb_check(d->db, empty, why, sizeof(why));

	if (err && err != -ENOMEM)
		log_err("store %s: %s", d->where, why);
	return err;
}

static int prepare_file(struct sqldb *d)
{
	bool empty;
	int err;

	/* Held from the first access on, so a second orchestrator cannot use the file. */
	err = exec(d, "PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF;"
		      "PRAGMA foreign_keys = ON;");
	if (!err)
		err = check_file(d, &empty);
	if (!err)
		err = exec(d, "PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL;"
			      "BEGIN IMMEDIATE");
	if (!err && empty)
		err = exec(d, schema);
	if (!err)
		err = exec(d, "COMMIT");
	if (!err)
		err = exec(d, ephemeral_schema);
	return err;
}

static int prepare(struct sqldb *d, const char *sql, sqlite3_stmt **st)
{
	int rc = sqlite3_prepare_v3(d->db, sql, -1, SQLITE_PREPARE_PERSISTENT, st, NULL);

	return rc == SQLITE_OK ? 0 : failed(d, rc);
}

int sqldb_open(struct sqldb *d, const char *where, const char *const *sql, size_t num)
{
	struct stat st;
	int err, rc;

	if (!stat(where, &st) && S_ISREG(st.st_mode) && !st.st_size)
		log_warn("store %s: the file is empty: a new store begins in it", where);
	memset(d, 0, sizeof(*d));
	d->where = strdup(where);
	d->st = calloc(num, sizeof(*d->st));
	if (!d->where || !d->st)
		return -ENOMEM;
	d->num_st = num;
	rc = sqlite3_open_v2(where, &d->db,
			     SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_NOMUTEX,
			     NULL);
	if (rc != SQLITE_OK) {
		log_err("store %s: cannot be opened: %s", where,
			d->db ? sqlite3_errmsg(d->db) : "out of memory");
		return -EIO;
	}
	err = prepare_file(d);
	if (!err)
		err = prepare(d, "BEGIN", &d->begin);
	if (!err)
		err = prepare(d, "COMMIT", &d->commit);
	if (!err)
		err = prepare(d, "ROLLBACK", &d->rollback);
	for (size_t i = 0; !err && i < num; i++)
		err = prepare(d, sql[i], &d->st[i]);
	return err;
}

void sqldb_close(struct sqldb *d)
{
	for (size_t i = 0; i < d->num_st; i++)
		sqlite3_finalize(d->st[i]);
	sqlite3_finalize(d->begin);
	sqlite3_finalize(d->commit);
	sqlite3_finalize(d->rollback);
	sqlite3_close(d->db);
	free(d->st);
	free(d->where);
	memset(d, 0, sizeof(*d));
}

/* ---- transactions ---------------------------------------------------------------------------- */

int sqldb_begin(struct sqldb *d)
{
	return sqldb_run(d, d->begin);
}

int sqldb_end(struct sqldb *d, int err)
{
	if (!err)
		err = sqldb_run(d, d->commit);
	/* Some errors (disk full, I/O) have rolled it back already. */
	if (err && !sqlite3_get_autocommit(d->db))
		sqldb_run(d, d->rollback);
	return err;
}
