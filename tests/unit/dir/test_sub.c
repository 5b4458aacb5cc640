/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/dir_rig.c tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c ffr/dir/dir.c ffr/dir/sub.c ffr/dir/event.c ffr/dir/map.c ffr/dir/policy.c tests/rig/unit/dir_nine.c */
/*
 * test_sub.c - what the directory asks the orchestrator for, for how long, and how much of that there can be.
 */
#include <stdlib.h>

#include "tests/rig/unit/dir_rig.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/dir_nine.h"

/* The connection is lost with a call under way, and before what was given up could be told. */
static void calls_end_with_the_connection(void **state)
{
	(void)state;
	path(0, 9, &dir_here, &dir_there);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	lose_orchestrator();
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	find_orchestrator();
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	entry_give_up(dir_fast->host->dir, dir_there->entry);
	lose_orchestrator();
	assert_null(dir_fast->host->dir->entries);
	find_orchestrator();
	expect_none();
}

/* Given up, and wanted again while the orchestrator still tells of it: all is asked for anew. */
static void given_up_and_wanted_again(void **state)
{
	struct remote *r = dir_find_nine();

	(void)state;
	entry_give_up(dir_fast->host->dir,
		      entry_find(dir_fast->host->dir, ENTRY_GID, "t", &r->gid[0], 0));
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	expect(FFO_OP_UNRESOLVE, DIR_IP(9));
	event(ADDRESS, cont_text(9, "t", "10.0.0.9", "h1", 3), H1); /* of the one before */
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	answer("{}");
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_REMOTE);
	expect_none();
}

static void what_nobody_uses_goes(void **state)
{
	struct remote *r = dir_find_nine();

	(void)state;
	remote_get(r);
	dir_tick(dir_fast->host->dir,
		 dir_fast->now - 1); /* it waited for the lock, and others used it */
	dir_tick(dir_fast->host->dir, dir_fast->now + 50000 * NS_PER_MS);
	expect_none();
	dir_tick(dir_fast->host->dir, dir_fast->now + 61000 * NS_PER_MS);
	expect(FFO_OP_UNRESOLVE, DIR_IP(9));
	answer("{}");
	expect_none(); /* what is used stays */
	assert_int_equal(HASH_COUNT(dir_fast->host->dir->entries), 1);
	remote_put(dir_fast, r);
	dir_tick(dir_fast->host->dir, dir_fast->now + 200000 * NS_PER_MS);
	expect(FFO_OP_UNRESOLVE, DIR_ID(9));
	answer("{}");
	assert_null(dir_fast->host->dir->entries);
	assert_int_equal(peers_live(), 0);
}

static void nothing_goes_while_the_orchestrator_is_away(void **state)
{
	dir_find_nine();
	(void)state;
	lose_orchestrator();
	dir_tick(dir_fast->host->dir, dir_fast->now + 61000 * NS_PER_MS);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_REMOTE);
}

static void answer_all(void)
{
	for (;;) {
		uv_run(&dir_rig.loop, UV_RUN_NOWAIT);
		if (!dir_calls_waiting())
			return;
		answer(NOBODY);
	}
}

/* A program asks for every address that there is; another container is none the worse. */
static void there_is_only_so_much_room(void **state)
{
	struct remote *kept;
	struct ff_ah_attr ah = { .is_global = 1 };

	(void)state;
	assert_int_equal(path(0, 9, &dir_here, &kept), DIR_WAIT);
	remote_get(kept);
	for (uint32_t i = 0; i < 3 * DIR_ROOM; i++) {
		memcpy(ah.dgid + 12, &i, sizeof(i));
		dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here, &dir_there);
	}
	assert_true(HASH_COUNT(dir_fast->host->dir->entries) <= 2 * DIR_ROOM);
	/* its turn comes with the first of the other's thousands */
	assert_int_equal(path(1, 99, &dir_here, &dir_there), DIR_WAIT);
	assert_non_null(dir_there);
	uv_run(&dir_rig.loop, UV_RUN_NOWAIT);
	assert_true(dir_asked_for("10.0.0.99"));
	answer_all();
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_NOBODY); /* in use: it has stayed */
	assert_ptr_equal(dir_there, kept);
	for (uint32_t i = 0; i < DIR_ROOM; i++) {
		memcpy(ah.dgid + 8, &i, sizeof(i));
		dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here, &dir_there);
		if (i % 100 == 0)
			answer_all();
	}
	answer_all();
	assert_true(HASH_COUNT(dir_fast->host->dir->entries) <= DIR_ROOM + 2);
	remote_put(dir_fast, kept);
}

/* Container 0 asks for the i-th address of a list. */
static void ask_for(uint32_t i, union ibv_gid *gid)
{
	struct ff_ah_attr ah = { .is_global = 1 };

	memcpy(ah.dgid + 12, &i, sizeof(i));
	memcpy(gid, ah.dgid, sizeof(*gid));
	dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here, &dir_there);
}

static bool is_known(const union ibv_gid *gid)
{
	return entry_find(dir_fast->host->dir, ENTRY_GID, "t", gid, 0);
}

/* What is asked for beyond that waits for answers to what was asked before. */
static void only_so_many_calls_at_once(void **state)
{
	union ibv_gid gid;

	(void)state;
	for (uint32_t i = 1; i <= 1000; i++)
		ask_for(i, &gid);
	uv_run(&dir_rig.loop, UV_RUN_NOWAIT);
	assert_false(TAILQ_EMPTY(&dir_fast->host->dir->turns));
	answer_all();
	assert_true(TAILQ_EMPTY(&dir_fast->host->dir->turns));
}

static void the_least_lately_used_one_makes_place(void **state)
{
	union ibv_gid first, second, gid;

	(void)state;
	ask_for(1, &first);
	ask_for(2, &second);
	for (uint32_t i = 3; i <= DIR_ROOM; i++)
		ask_for(i, &gid);
	ask_for(1, &first);
	assert_true(is_known(&second));
	ask_for(DIR_ROOM + 1, &gid);
	assert_true(is_known(&first));
	assert_false(is_known(&second));
	answer_all();
}

/* All of them in use: no room, and nothing of them is lost. */
static void what_is_used_stays(void **state)
{
	struct remote **r = calloc(DIR_ROOM, sizeof(struct remote *));
	struct ff_ah_attr ah = { .is_global = 1 };

	(void)state;
	for (uint32_t i = 0; i <= DIR_ROOM; i++) {
		memcpy(ah.dgid + 12, &i, sizeof(i));
		assert_int_equal(dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here,
					  &dir_there),
				 DIR_WAIT);
		if (i == DIR_ROOM) {
			assert_null(dir_there);
			break;
		}
		r[i] = dir_there;
		remote_get(dir_there);
	}
	for (uint32_t i = 0; i < DIR_ROOM; i++)
		remote_put(dir_fast, r[i]);
	assert_int_equal(dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here, &dir_there),
			 DIR_WAIT);
	assert_non_null(dir_there);
	answer_all();
	free(r);
}

static void a_container_goes_with_what_it_asked_for(void **state)
{
	struct remote *r = dir_find_nine();
	unsigned n;

	(void)state;
	remote_get(r);
	n = HASH_COUNT(dir_fast->host->dir->owners);
	dir_container_gone(dir_fast->host, &dir_rig.rig.cont[0]);
	assert_int_equal(HASH_COUNT(dir_fast->host->dir->owners), n - 1);
	assert_int_equal(r->epoch, 3); /* a wire may still have a reference */
	remote_put(dir_fast, r);
	assert_int_equal(path(1, 9, &dir_here, &dir_there), DIR_REMOTE); /* and others find it */
	assert_ptr_equal(dir_there, r);
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;

	return UNIT_RUN(DIR_T(calls_end_with_the_connection), DIR_T(given_up_and_wanted_again),
			DIR_T(what_nobody_uses_goes),
			DIR_T(nothing_goes_while_the_orchestrator_is_away),
			DIR_T(there_is_only_so_much_room), DIR_T(only_so_many_calls_at_once),
			DIR_T(the_least_lately_used_one_makes_place), DIR_T(what_is_used_stays),
			DIR_T(a_container_goes_with_what_it_asked_for));
}
