/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * copy.h - copies of the SQLite store for tools: a file is read and checked, and takes the place of
 * a store that no orchestrator has open. The thread that calls.
 */
#ifndef FFO_STORE_SQLITE_COPY_H
#define FFO_STORE_SQLITE_COPY_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>

#include "ffo/store/store.h"

struct sqlite_copy {
	sqlite3 *db;	       /* in memory */
	char id[STORE_ID_MAX]; /* the store's identity */
	long containers;
};

/*
 * Read a file, and check that it is a store, whole, and of the version that this program knows. 0; or
 * -errno and a line in why, and there is nothing to close.
 */
int sqlite_copy_load(struct sqlite_copy *c, const char *path, char *why, size_t size);
/*
 * Write it to a file, which becomes this store as a whole or stays as it was. 0; or -errno and a
 * line in why: -EEXIST (a store is there, and is not to be replaced), -EBUSY (a process has that
 * store open), ...
 */
int sqlite_copy_write(struct sqlite_copy *c, const char *path, bool replace, char *why,
		      size_t size);
void sqlite_copy_close(struct sqlite_copy *c);

#endif
