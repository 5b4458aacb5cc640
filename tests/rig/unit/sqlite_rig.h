/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sqlite_rig.h - the SQLite store in a file of its own for each test: its ops as calls that return, watches
 * that count, and steps of SQLite that fail. Link with -Wl,--wrap=sqlite3_step.
 */
#ifndef SQLITE_RIG_H
#define SQLITE_RIG_H

#include <sqlite3.h>

#include "tests/rig/unit/unit.h"
#include "ffo/store/sqlite/internal.h"

/* The Nth step from now fails with that result; 0: none does. */
extern unsigned int lite_fail_at;
extern int lite_fail_with;

#define LITE_NO_NAME ((const char *)NULL)

struct lite {
	struct ffo_store *s;
	struct alloc *alloc;
	uv_loop_t loop;
	char dir[32], file[48];
	enum store_state state;
	int states;
};

int lite_open(struct lite *t, struct ffo_store **s);
int lite_setup(void **state);
int lite_teardown(void **state);
void lite_reopen(struct lite *t);

/* ---- calls, which this store ends at once ----------------------------------------------------- */

#define LITE_NOT_YET 1

struct lite_end {
	int err;
	char why[200];
	bool known;
	struct ffo_container c;
	struct ffo_host h;
	size_t count, n;
	bool more;
	struct ffo_container conts[8];
	struct ffo_host hosts[8];
	struct ffo_map maps[64];
};

struct lite_end *lite_ending(void);
/* Callbacks for store.h's ops, with a struct lite_end. */
void lite_done(void *arg, int err, const char *why);
void lite_counted(void *arg, int err, const char *why, size_t count);
void lite_container_done(void *arg, int err, const char *why, const struct ffo_container *c);
void lite_host_done(void *arg, int err, const char *why, const struct ffo_host *h);
void lite_containers_listed(void *arg, int err, const char *why, const struct ffo_container *list,
			    size_t n, bool more);
void lite_hosts_listed(void *arg, int err, const char *why, const struct ffo_host *list, size_t n,
		       bool more);
void lite_maps_listed(void *arg, int err, const char *why, const struct ffo_map *list, size_t n,
		      bool more);

/* LITE_CALL(op, args..., callback): what it gave. */
#define LITE_CALL(t, op, ...)                                                                      \
	({                                                                                         \
		struct lite_end *e_ = lite_ending();                                               \
                                                                                                   \
		store_sqlite.op((t)->s, __VA_ARGS__, e_);                                          \
		assert_int_not_equal(e_->err, LITE_NOT_YET);                                       \
		e_;                                                                                \
	})

struct ffo_container lite_cont(const char *name, const char *ip);
/* Add it, with that address or from the pools: -errno, or 0 and c is as it was stored. */
int lite_add(struct lite *t, struct ffo_container *c);
int lite_set(struct lite *t, const struct ffo_container *was, struct ffo_container *now,
	     unsigned int flags);
int lite_del(struct lite *t, const struct ffo_container *c);
int lite_get_id(struct lite *t, uint32_t id, struct ffo_container *c);
/* By its id, its name, its LID, each of its addresses. */
void lite_expect_container(struct lite *t, const struct ffo_container *want);
int lite_up(struct lite *t, const char *name, const char *instance);
int lite_down(struct lite *t, const char *name, const char *instance);
int lite_put_map(struct lite *t, const char *host, const struct ffo_container *c, uint32_t rkey,
		 uint32_t session);
struct lite_end *lite_maps(struct lite *t, uint32_t only, uint32_t container, uint32_t rkey,
			   size_t limit);
size_t lite_num_maps(struct lite *t);

/* ---- policy --------------------------------------------------------------------------------- */

int lite_set_tenant(struct lite *t, const char *name, uint64_t max_qp);

/* ---- watches -------------------------------------------------------------------------------- */

struct lite_seen {
	struct lite *t;
	struct store_watch w;
	unsigned int calls;
	bool none, up, reset, synced;
	struct ffo_container c;
	size_t puts, dels, rkeys, rules, tenants, hosts;
	uint32_t last_rkey;
	struct lite_seen *ends; /* by its next news: that watch, too */
};

void lite_watch(struct lite *t, struct lite_seen *v, enum store_kind kind, const char *name);
void lite_begin_watch(struct lite *t, struct lite_seen *v);

#define LITE_TEST(name) cmocka_unit_test_setup_teardown(name, lite_setup, lite_teardown)

#endif
