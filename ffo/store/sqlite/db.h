/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * db.h - the SQLite database of store.c: its file, its schema, statements that are
 * prepared once, transactions. The orchestrator's loop only.
 */
#ifndef FFO_STORE_SQLITE_DB_H
#define FFO_STORE_SQLITE_DB_H

#include <netinet/in.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sqldb {
	sqlite3 *db;
	sqlite3_stmt **st; /* [num_st], by the caller's numbers */
	size_t num_st;
	sqlite3_stmt *begin, *commit, *rollback;
	char *where; /* for the log */
};

/*
 * Open the file, or make it; ":memory:" keeps nothing. Its tables are hosts, containers, addresses,
 * policy and tenants; those of the schema `ephemeral` (maps, up, active, mcast) are in memory and
 * empty. sql[num]: the statements. 0; or -errno after a line in the log: -EBADMSG (no database of ffo's, or damaged),
 * -EPROTONOSUPPORT (of another version), -EBUSY (another process has it), ...
 */
int sqldb_open(struct sqldb *d, const char *where, const char *const *sql, size_t num);
/* What sqldb_open() left, whatever it returned. */
void sqldb_close(struct sqldb *d);

/*
 * Is that database a store, whole, and of the version that this program knows? *empty: there is
 * nothing in it yet. 0; or -errno and a line in why: -EBADMSG, -EPROTONOSUPPORT, -EBUSY
 * (another process has it), ...
 */
int sqldb_check(sqlite3 *db, bool *empty, char *why, size_t size);
/* What an SQLite result means: -errno, and a line in why. */
int sqldb_error(sqlite3 *db, int rc, char *why, size_t size);

/*
 * Bind parameters 1.. by a format: 'i' int64_t, 's' const char *, 'a' const struct in6_addr *.
 * Text and addresses are the caller's and must live until the statement is reset.
 */
sqlite3_stmt *sqldb_prep(struct sqldb *d, int st, const char *format, ...);
/* Run a statement without rows. 0 or -errno: -EEXIST for a constraint. */
int sqldb_run(struct sqldb *d, sqlite3_stmt *stmt);
/* The next row: 1; none left, or an error: 0 or -errno, and the statement is reset. */
int sqldb_next(struct sqldb *d, sqlite3_stmt *stmt);
/* Text of a column, checked for length: 0 or -EBADMSG. */
int sqldb_text(sqlite3_stmt *stmt, int col, char *to, size_t size);

int sqldb_begin(struct sqldb *d);
/* End what sqldb_begin() began: commit it if err is 0, else undo it. err, or why it failed. */
int sqldb_end(struct sqldb *d, int err);

#endif
