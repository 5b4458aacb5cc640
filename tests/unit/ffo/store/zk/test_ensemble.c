/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_ensemble.c - stores on three ZooKeeper nodes of which some die, the leader and then most of
 * them, while mappings are published and withdrawn: what a watcher knows in the end is what is
 * published, no call is lost, and no session either.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/zk_rig.h"

#define RKEYS 5000u

static struct rig_store a, b;
static struct store_watch map;
static bool synced;
static bool have[RKEYS];
static struct rig_end added;

/* One change at a time, on and on. */
static struct load {
	bool stop, busy;
	unsigned long calls;
} load;

static void next_change(void);

static void changed(void *arg, int err, const char *why)
{
	(void)arg, (void)why;
	assert_int_equal(err, 0);
	load.busy = false;
	load.calls++;
	next_change();
}

static void withdrawn(void *arg, int err, const char *why, size_t count)
{
	(void)count;
	changed(arg, err, why);
}

static void next_change(void)
{
	struct store_map_id ids[100];
	struct ffo_map rows[100];
	bool put = rand() % 3;
	size_t n = 1 + (size_t)rand() % 100;

	if (load.stop)
		return;
	load.busy = true;
	for (size_t i = 0; i < n; i++) {
		uint32_t rkey = 1 + (uint32_t)rand() % (RKEYS - 1);

		rows[i] = (struct ffo_map){
			.container = added.c.id, .rkey = rkey, .session = 1, .length = 1, .epoch = 1
		};
		ids[i] = (struct store_map_id){ added.c.id, rkey };
		have[rkey] = put;
	}
	if (put)
		store_zk.map_put(a.s, "h0", rows, n, changed, NULL);
	else
		store_zk.map_del(a.s, "h0", ids, n, withdrawn, NULL);
}

static void told(void *arg, const struct store_news *news)
{
	(void)arg;
	synced = news->synced;
}

static bool same(void)
{
	struct ffo_map row;

	for (uint32_t i = 1; i < RKEYS; i++)
		if ((store_zk.map_row(b.s, &map, i, &row) == 0) != have[i])
			return false;
	return true;
}

/* Let it work for so many calls. */
static void work(unsigned long calls)
{
	unsigned long until = load.calls + calls;

	WAIT_FOR(load.calls >= until);
}

static void nodes_die(void **state)
{
	struct ffo_container c = { .name = "web", .tenant = "default", .host = "h0" };
	struct ffo_host h = { .name = "h0", .instance = "i0" };
	struct rig_end up = { 0 };
	int leader, other;

	(void)state;
	rig_open(&a, "/t?timeout=20000");
	rig_open(&b, "/t?timeout=20000");
	store_zk.host_up(a.s, &h, rig_done, &up);
	store_zk.container_add(a.s, &c, rig_container, &added);
	WAIT_FOR(up.done && added.done);
	assert_int_equal(up.err, 0);
	assert_int_equal(added.err, 0);
	map.key.kind = STORE_MAP;
	map.key.id = added.c.id;
	map.key.epoch = 1;
	strcpy(map.key.name, "h0");
	map.cb = told;
	store_zk.watch(b.s, &map);
	next_change();
	work(50);

	leader = rig_leader();
	assert_true(leader >= 0);
	rig_node("kill", leader);
	work(50);
	rig_node("start", leader);
	work(50);

	/* Two of three: nothing can be written; calls wait until one is back. */
	leader = rig_leader();
	other = (leader + 1) % 3;
	rig_node("kill", leader);
	rig_node("kill", other);
	WAIT_FOR(a.state == STORE_AWAY && b.state == STORE_AWAY);
	rig_node("start", other); /* waits until it serves, so until there is a leader again */
	work(50);
	rig_node("start", leader);

	/* A node that hangs: whoever is connected to it goes to another one. */
	rig_node("stop", leader);
	work(50);
	rig_node("cont", leader);
	work(50);

	load.stop = true;
	WAIT_FOR(!load.busy && synced && same());
	assert_int_equal(a.lost, 0);
	assert_int_equal(b.lost, 0);
	store_zk.unwatch(b.s, &map);
	rig_close(&a);
	rig_close(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(nodes_die) };
	int err = rig_start(3);

	if (err)
		return err;
	log_level = getenv("LOG") ? LOG_LEVEL_DEBUG : LOG_LEVEL_ERR;
	err = cmocka_run_group_tests(tests, NULL, NULL);
	rig_stop();
	return err;
}
