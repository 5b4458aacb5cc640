/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * internal.h - inside store.c: its statements (here), rows read (row.c), changes and
 * who is told of them (watch.c), the policy and the tenants (policy.c), ephemeral state
 * (ephemeral.c). The orchestrator's loop only.
 */
#ifndef FFO_STORE_SQLITE_INTERNAL_H
#define FFO_STORE_SQLITE_INTERNAL_H

#include "ffo/store/sqlite/db.h"
#include "ffo/store/store.h"
#include "ffo/store/topic.h"

#define CONTAINER_COLS                                                                             \
	"id, name, tenant, lid, mode, host, epoch, EXISTS(SELECT 1 FROM ephemeral.active AS a"     \
	" WHERE a.container = containers.id AND a.epoch = containers.epoch), limits,"              \
	" device_name, devices"
#define HOST_COLS "name, instance, wire, last_seen, name IN (SELECT host FROM ephemeral.up)"
#define OF_HOST	  "container IN (SELECT id FROM containers WHERE host = ?)"

/* X(NAME, SQL): the statements, prepared once. */
#define STATEMENTS(X)                                                                              \
	X(HOST_PUT, "INSERT OR REPLACE INTO hosts(name, instance, wire, last_seen)"                \
		    " VALUES(?, ?, ?, ?)")                                                         \
	X(HOST_SEEN, "UPDATE hosts SET last_seen = ? WHERE name = ?")                              \
	X(HOST_DEL, "DELETE FROM hosts WHERE name = ?")                                            \
	X(HOST_GET, "SELECT " HOST_COLS " FROM hosts WHERE name = ?")                              \
	X(HOST_LIST, "SELECT " HOST_COLS " FROM hosts WHERE name > ? ORDER BY name LIMIT ?")       \
	X(UP_ADD, "INSERT OR REPLACE INTO ephemeral.up VALUES(?)")                                 \
	X(UP_DEL, "DELETE FROM ephemeral.up WHERE host = ?")                                       \
	X(IDENTITY, "SELECT id, coalesce((SELECT seq FROM sqlite_sequence"                         \
		    " WHERE name = 'containers'), 0) FROM store")                                  \
	X(CONT_INSERT, "INSERT INTO containers(name, tenant, lid, mode, host, epoch, limits, id,"  \
		       " device_name, devices) VALUES(?1, ?2, ?3, ?4, ?5, ?6, ?7, nullif(?8, 0),"  \
		       " ?9, ?10)")                                                                \
	X(CONT_UPDATE, "UPDATE containers SET name = ?1, tenant = ?2, lid = ?3, mode = ?4,"        \
		       " host = ?5, epoch = ?6, limits = ?7, device_name = ?9, devices = ?10"      \
		       " WHERE id = ?8")                                                           \
	X(CONT_DELETE, "DELETE FROM containers WHERE id = ?")                                      \
	X(CONT_ID, "SELECT " CONTAINER_COLS " FROM containers WHERE id = ?")                       \
	X(CONT_NAME, "SELECT " CONTAINER_COLS " FROM containers WHERE name = ?")                   \
	X(CONT_LID, "SELECT " CONTAINER_COLS " FROM containers WHERE lid = ?")                     \
	X(CONT_ADDR, "SELECT " CONTAINER_COLS " FROM containers WHERE id ="                        \
		     " (SELECT container FROM addresses WHERE tenant = ? AND addr = ?)")           \
	X(CONT_LIST, "SELECT " CONTAINER_COLS " FROM containers WHERE id > ? ORDER BY id LIMIT ?") \
	X(CONT_OWNED, "SELECT " CONTAINER_COLS " FROM containers WHERE host = ? AND id > ?"        \
		      " ORDER BY id LIMIT ?")                                                      \
	X(ADDR_INSERT, "INSERT INTO addresses VALUES(?, ?, ?, ?)")                                 \
	X(ADDR_DELETE, "DELETE FROM addresses WHERE container = ?")                                \
	X(ADDR_LIST, "SELECT addr FROM addresses WHERE container = ? ORDER BY idx")                \
	X(ACTIVE_ADD, "INSERT OR REPLACE INTO ephemeral.active SELECT id, epoch, host"             \
		      " FROM containers WHERE id = ? AND epoch = ? AND host = ?")                  \
	X(ACTIVE_DEL, "DELETE FROM ephemeral.active WHERE container = ? AND host = ?")             \
	X(ACTIVE_DROP, "DELETE FROM ephemeral.active WHERE container = ?")                         \
	X(ACTIVE_DROP_HOST, "DELETE FROM ephemeral.active WHERE host = ?")                         \
	X(MAP_PUT, "INSERT OR REPLACE INTO ephemeral.maps SELECT ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE"  \
		   " EXISTS(SELECT 1 FROM containers WHERE id = ?1 AND epoch = ?9)")               \
	X(MAP_DELETE, "DELETE FROM ephemeral.maps WHERE container = ? AND rkey = ?")               \
	X(MAP_DROP, "DELETE FROM ephemeral.maps WHERE container = ?1"                              \
		    " AND (?2 = 0 OR epoch = ?2) AND (?3 = 0 OR session = ?3)")                    \
	X(MAP_DROP_HOST, "DELETE FROM ephemeral.maps WHERE " OF_HOST)                              \
	X(MAP_LIST, "SELECT * FROM ephemeral.maps WHERE (container, rkey) > (?, ?)"                \
		    " ORDER BY container, rkey LIMIT ?")                                           \
	X(MAP_LIST_ONE, "SELECT * FROM ephemeral.maps WHERE container = ? AND rkey > ?"            \
			" ORDER BY rkey LIMIT ?")                                                  \
	X(MAP_ROW, "SELECT * FROM ephemeral.maps WHERE container = ? AND rkey = ?")                \
	X(MCAST_ADD, "INSERT OR REPLACE INTO ephemeral.mcast VALUES(?, ?, ?)")                     \
	X(MCAST_DEL, "DELETE FROM ephemeral.mcast WHERE tenant = ? AND mgid = ? AND host = ?")     \
	X(MCAST_DROP_HOST, "DELETE FROM ephemeral.mcast WHERE host = ?")                           \
	X(MCAST_COUNT, "SELECT count(*) FROM ephemeral.mcast WHERE tenant = ? AND mgid = ?")       \
	X(MCAST_LIST, "SELECT " HOST_COLS " FROM hosts WHERE name IN"                              \
		      " (SELECT host FROM ephemeral.mcast WHERE tenant = ? AND mgid = ?)"          \
		      " ORDER BY name")                                                            \
	X(RULE_PUT, "INSERT OR REPLACE INTO policy VALUES(?, ?, ?)")                               \
	X(RULE_DEL, "DELETE FROM policy WHERE a = ? AND b = ?")                                    \
	X(RULE_LIST, "SELECT a, b, allow FROM policy ORDER BY a, b")                               \
	X(TENANT_PUT, "INSERT OR REPLACE INTO tenants VALUES(?, ?)")                               \
	X(TENANT_DEL, "DELETE FROM tenants WHERE name = ?")                                        \
	X(TENANT_LIST, "SELECT name, limits FROM tenants ORDER BY name")

enum {
#define X(NAME, sql) ST_##NAME,
	STATEMENTS(X)
#undef X
		NUM_ST
};

/* Those who watch `key` are to be told. */
struct note {
	STAILQ_ENTRY(note) entry;
	struct store_key key;
	uint32_t container; /* OWNED: whose state has changed */
	bool reset;	    /* MAP: everything may have changed */
	size_t num;	    /* MAP: otherwise, rkeys whose row has changed */
	uint32_t rkeys[];
};

STAILQ_HEAD(notes, note);

struct store {
	struct ffo_store base; /* first */
	struct sqldb db;
	struct alloc *alloc;
	struct topics topics;
	struct notes staged; /* of the change under way */
	struct notes due;    /* of changes that took place */
	bool working_off;
	bool try_next; /* the next change is only tried */
	bool trying;   /* so is the one under way, or the last one */
};

static inline struct store *store_of(struct ffo_store *s)
{
	return (struct store *)s;
}

#define prep(s, st, ...) sqldb_prep(&(s)->db, st, __VA_ARGS__)
#define run(s, stmt)	 sqldb_run(&(s)->db, stmt)
#define next_row(s, st)	 sqldb_next(&(s)->db, st)

/* ---- row.c: 0, -ENOENT, -EBADMSG (after a line in the log), ... ---- */

int sqlite_get_host(struct store *s, const char *name, struct ffo_host *h);
int sqlite_get_container(struct store *s, const struct store_key *key, struct ffo_container *c);
int sqlite_get_by_id(struct store *s, uint32_t id, struct ffo_container *c);
/* Up to n containers of a host (NULL: all) with ids above `after`: their number, or -errno. */
ssize_t sqlite_get_containers(struct store *s, const char *host, uint32_t after,
			      struct ffo_container *list, size_t n);
/* The rows of a statement, n at most: their number, or -errno. */
ssize_t sqlite_get_hosts(struct store *s, sqlite3_stmt *stmt, struct ffo_host *list, size_t n);
ssize_t sqlite_get_maps(struct store *s, sqlite3_stmt *stmt, struct ffo_map *list, size_t n);
/* All rules: room for FFO_RULES_MAX. */
ssize_t sqlite_get_rules(struct store *s, struct ffo_rule *rules);
/* Limits as their column has them, from malloc(); NULL: no memory. */
char *sqlite_limits_text(const struct ffo_limits *l);
/* All tenants that have limits: room for FFO_TENANTS_MAX. */
ssize_t sqlite_get_tenants(struct store *s, struct ffo_tenant *tenants);

/* ---- watch.c: changes, and who is told ---- */

int sqlite_begin(struct store *s);
/*
 * End the change under way, well if err is 0; one that is only tried is undone. Its caller is to be
 * told next, then sqlite_work_off().
 */
int sqlite_end(struct store *s, int err);
void sqlite_work_off(struct store *s);

/* A key that has nothing but a name. */
struct store_key sqlite_named(enum store_kind kind, const char *name);
/* Tell of that key when the change under way has taken place. NULL: nobody watches, or *err. */
struct note *sqlite_note(struct store *s, const struct store_key *key, size_t num, int *err);
int sqlite_note_key(struct store *s, const struct store_key *key);
int sqlite_note_named(struct store *s, enum store_kind kind, const char *name);
/* A map: it is to be read anew. */
int sqlite_note_reset(struct store *s, uint32_t container, uint32_t epoch);
/* All keys that find the container, and its host's. */
int sqlite_note_container(struct store *s, const struct ffo_container *c);
/* All groups: hosts leave or join. The maps of a host's containers. */
int sqlite_note_groups(struct store *s);
int sqlite_note_maps(struct store *s, const char *host);

/* ---- ephemeral.c ---- */

int sqlite_drop_ephemeral(struct store *s, const char *host);

/* ---- the ops of the store: policy.c, ephemeral.c, watch.c, and the others in store.c ---- */

#define X(op) STORE_OP(op) sqlite_##op;
FFO_STORE_OPS(X)
#undef X

#endif
