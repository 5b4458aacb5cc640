/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * copy.c - see copy.h.
 *
 * SQLite's backup API copies in both directions. It reads what a write-ahead log beside the file
 * has, too, writes in one transaction, and respects the lock of a process that has the file open.
 */
#include "ffo/store/sqlite/copy.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "ffo/store/sqlite/db.h"

static int copy(sqlite3 *from, sqlite3 *to, char *why, size_t size)
{
	sqlite3_backup *b = sqlite3_backup_init(to, "main", from, "main");
	int rc;

	if (b) {
		sqlite3_backup_step(b, -1);
		sqlite3_backup_finish(b); /* an error of either database is the target's then */
	}
	rc = sqlite3_errcode(to);
	return rc == SQLITE_OK ? 0 : sqldb_error(to, rc, why, size);
}

/*
 * *db is to be closed, whatever the result is. The file may be an attacker's, so views and triggers
 * in it call no functions.
 */
static int open_file(sqlite3 **db, const char *path, int flags, char *why, size_t size)
{
	int rc = sqlite3_open_v2(path, db, flags | SQLITE_OPEN_NOMUTEX, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_db_config(*db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
	return rc == SQLITE_OK ? 0 : sqldb_error(*db, rc, why, size);
}

static int take_value(void *to, int cols, char **text, char **names)
{
	(void)cols, (void)names;
	snprintf(to, STORE_ID_MAX, "%s", text[0] ? text[0] : "");
	return 0;
}

static int read_info(struct sqlite_copy *c, char *why, size_t size)
{
	char number[STORE_ID_MAX] = "";
	int rc = sqlite3_exec(c->db, "SELECT id FROM store", take_value, c->id, NULL);

	if (rc == SQLITE_OK)
		rc = sqlite3_exec(c->db, "SELECT count(*) FROM containers", take_value, number,
				  NULL);
	c->containers = strtol(number, NULL, 10);
	return rc == SQLITE_OK ? 0 : sqldb_error(c->db, rc, why, size);
}

static int read_file(struct sqlite_copy *c, const char *path, char *why, size_t size)
{
	sqlite3 *file;
	int err = open_file(&file, path, SQLITE_OPEN_READONLY, why, size);

	if (!err)
		err = open_file(&c->db, ":memory:", SQLITE_OPEN_READWRITE, why, size);
	if (!err)
		err = copy(file, c->db, why, size);
	sqlite3_close(file);
	return err;
}

int sqlite_copy_load(struct sqlite_copy *c, const char *path, char *why, size_t size)
{
	bool empty;
	int err;

	*c = (struct sqlite_copy){ 0 };
	err = read_file(c, path, why, size);
	if (!err)
		err = sqldb_check(c->db, &empty, why, size);
	if (!err && empty) {
		snprintf(why, size, "an empty file, and no store");
		err = -EBADMSG;
	}
	if (!err)
		err = read_info(c, why, size);
	if (err)
		sqlite_copy_close(c);
	return err;
}

/* May the file be written? It is a new one, an empty one, or a store that is to be replaced. */
static int check_target(sqlite3 *file, bool replace, char *why, size_t size)
{
	bool empty;
	int err = sqldb_check(file, &empty, why, size);

	if (err || empty || replace)
		return err;
	snprintf(why, size, "a store is there");
	return -EEXIST;
}

int sqlite_copy_write(struct sqlite_copy *c, const char *path, bool replace, char *why, size_t size)
{
	mode_t mask = umask(0077);
	sqlite3 *file;
	int err = open_file(&file, path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, why, size);

	if (!err)
		err = check_target(file, replace, why, size);
	if (!err)
		err = copy(c->db, file, why, size);
	sqlite3_close(file);
	umask(mask);
	return err;
}

void sqlite_copy_close(struct sqlite_copy *c)
{
	sqlite3_close(c->db);
	c->db = NULL;
}
