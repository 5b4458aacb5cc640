/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk_two.h - two orchestrators' stores on one tree of a ZooKeeper node (zk_rig.h), a tree of its own for each
 * test: calls that wait, watches that count, and what others may have written.
 */
#ifndef ZK_TWO_H
#define ZK_TWO_H

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/zk_rig.h"

struct two {
	struct rig_store a, b; /* two orchestrators */
	char root[128];
};

extern unsigned int two_roots; /* trees so far: this one is /t/N */
int zk_two_setup(void **state);
int zk_two_teardown(void **state);

/* ---- calls that wait ------------------------------------------------------------------------ */

extern struct rig_end two_end;

#define TWO_CALL(store, op, callback, ...)                                                         \
	({                                                                                         \
		memset(&two_end, 0, sizeof(two_end));                                              \
		(store)->s->ops->op((store)->s, __VA_ARGS__, callback, &two_end);                  \
		WAIT_FOR(two_end.done);                                                            \
		two_end.err;                                                                       \
	})

struct in6_addr two_addr(const char *text);
int two_add(struct rig_store *r, const char *name, const char *tenant, const char *host,
	    const char *addr);
int two_get(struct rig_store *r, const char *name);
int two_host_up(struct rig_store *r, const char *name, const char *instance);
int two_host_down(struct rig_store *r, const char *name, const char *instance);
struct ffo_map two_map_of(uint32_t container, uint32_t rkey);
int two_put_maps(struct rig_store *r, const char *host, uint32_t container, uint32_t first,
		 uint32_t n);

/* ---- watches -------------------------------------------------------------------------------- */

struct two_watched {
	struct store_watch w;
	struct rig_store *r;
	unsigned int told;
	int err;
	bool there, synced;
	struct ffo_container c;
	struct ffo_host h;
	size_t n; /* of what it is about */
	uint32_t resets, changed;
	struct ffo_host hosts[4];
};

void two_watch(struct rig_store *r, struct two_watched *w, enum store_kind kind, const char *name);
void two_unwatch(struct two_watched *w);
/* The rows that a watch of mappings has; each as two_map_of() says. */
size_t two_rows_of(struct two_watched *w);

/* ---- what others may have written ------------------------------------------------------------ */

void two_write_raw(struct rig_store *r, const char *path, const void *data, size_t len);
void two_make_raw(struct rig_store *r, const char *path, enum zk_mode mode);

/* ---- main ------------------------------------------------------------------------------------ */

#define TWO_TEST(f) cmocka_unit_test_setup_teardown(f, zk_two_setup, zk_two_teardown)
/* With a node for all of them. What main() ends with. */
#define two_run(tests) two_run_tests(tests, sizeof(tests) / sizeof((tests)[0]))
int two_run_tests(const struct CMUnitTest *tests, size_t n);

#endif
