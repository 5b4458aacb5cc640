/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_dir.c - ffr/dir/dir.c, ffr/dir/sub.c, ffr/dir/event.c: who is at an address, what the orchestrator is
 * asked for that, what becomes of its answers, and how much of all that there can be.
 * build: tests/unit/lib/dir_rig.c tests/lib/rig.c tests/lib/backend_fake.c ffr/dir/dir.c ffr/dir/sub.c ffr/dir/event.c ffr/dir/map.c ffr/dir/policy.c
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tests/unit/lib/dir_rig.h"

#define IP(n)	"{'tenant':'t','ip':'10.0.0." #n "'}"
#define NOBODY	"{'container':null,'host':null}"
#define ID(n)	"{'container':" #n "}"
#define ANSWER	"{'container':%s,'host':%s}"
#define ADDRESS "{'event':'resolve','tenant':'t','ip':'10.0.0.9','container':%s,'host':%s}"
#define BY_ID	"{'event':'resolve','id':9,'container':%s,'host':%s}"
#define H1	host_text("h1", true)

static struct fast *f;
static struct container *here;
static struct remote *there;

/* Container 9 is on h1 and has 10.0.0.9; the path to it is known. */
static struct remote *find_nine(void)
{
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	expect(FFO_OP_RESOLVE, IP(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	expect(FFO_OP_RESOLVE, ID(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	expect_none();
	assert_int_equal(path(0, 9, &here, &there), DIR_REMOTE);
	told_any();
	return there;
}

static void those_of_this_host_are_found_at_once(void **state)
{
	(void)state;
	assert_int_equal(path(0, 2, &here, &there), DIR_HERE);
	assert_ptr_equal(here, &dir_rig.rig.cont[1]);
	assert_int_equal(path_lid(0, 3, &here, &there), DIR_HERE);
	assert_ptr_equal(here, &dir_rig.rig.cont[2]);
	expect_none();
}

static void another_host_is_asked_for_and_told(void **state)
{
	struct remote *waits;

	(void)state;
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	waits = there;
	assert_non_null(waits);
	assert_int_equal(waits->epoch, 0);
	remote_get(waits);
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	assert_ptr_equal(there, waits);
	expect(FFO_OP_RESOLVE, IP(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_true(told(waits));
	remote_put(f, waits);
	assert_int_equal(path(0, 9, &here, &there), DIR_REMOTE);
	assert_ptr_not_equal(there, waits);
	assert_int_equal(there->id, 9);
	assert_int_equal(there->epoch, 3);
	assert_int_equal(there->lid, 9);
	assert_string_equal(there->name, "c9");
	assert_string_equal(there->tenant, "t");
	assert_string_equal(there->peer->host, "h1");
	assert_true(there->up);
	/* and by all its other names it is the same */
	waits = there;
	expect(FFO_OP_RESOLVE, ID(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path_lid(1, 9, &here, &there), DIR_WAIT);
	expect(FFO_OP_RESOLVE, "{'tenant':'t','lid':9}");
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path_lid(1, 9, &here, &there), DIR_REMOTE);
	assert_ptr_equal(there, waits);
	assert_ptr_equal(dir_by_id(f, 9), waits);
	expect_none();
}

static void nobody_becomes_somebody(void **state)
{
	struct remote *waits;

	(void)state;
	path(0, 9, &here, &there);
	expect(FFO_OP_RESOLVE, IP(9));
	answer(NOBODY);
	assert_int_equal(path(0, 9, &here, &waits), DIR_NOBODY);
	remote_get(waits);
	told_any();
	event(ADDRESS, "null", "null");
	assert_int_equal(told_any(), 0); /* nothing new */
	event(ADDRESS, cont_text(9, "t", "10.0.0.9", "h1", 1), H1);
	assert_true(told(waits));
	assert_int_equal(path(0, 9, &here, &there), DIR_REMOTE);
	told_any();
	event(ADDRESS, "null", "null");
	assert_true(told(waits));
	assert_int_equal(path(0, 9, &here, &there), DIR_NOBODY);
	remote_put(f, waits);
}

static void a_move_grows_the_epoch(void **state)
{
	struct remote *r = find_nine();

	(void)state;
	remote_get(r);
	event(BY_ID, cont_text(9, "t", "10.0.0.9", "h2", 4), host_text("h2", true));
	assert_true(told(r));
	assert_int_equal(r->epoch, 4);
	assert_string_equal(r->peer->host, "h2");
	event(BY_ID, cont_text(9, "t", "10.0.0.9", "h1", 3), H1); /* from before that */
	assert_int_equal(told_any(), 0);
	assert_int_equal(r->epoch, 4);
	event(BY_ID, cont_text(9, "t", "10.0.0.9", "h2", 4), host_text("h2", false));
	assert_true(told(r));
	assert_false(r->up);
	assert_non_null(r->peer);
	event(BY_ID, cont_text(9, "t", "10.0.0.9", "h2", 4), "null");
	assert_true(told(r));
	assert_null(r->peer);
	event(BY_ID, "null", "null");
	assert_true(told(r));
	assert_int_equal(r->epoch, 0);
	assert_int_equal(path(0, 9, &here, &there), DIR_NOBODY);
	assert_null(dir_by_id(f, 9));
	remote_put(f, r);
}

/* It is said to be here, but is not attached yet; then it is. */
static void one_comes_to_this_host(void **state)
{
	struct container c = { .id = 9, .name = "c9", .tenant = "u" };
	struct remote *r = find_nine(), *waits;

	(void)state;
	remote_get(r);
	event(BY_ID, cont_text(9, "u", "10.0.0.9", "h0", 4), host_text("h0", true));
	assert_true(told(r));
	assert_null(r->peer);
	assert_int_equal(path(0, 9, &here, &waits), DIR_WAIT);
	remote_get(waits);
	TAILQ_INIT(&c.mw.changed);
	LIST_INIT(&c.sessions);
	assert_int_equal(fast_container_add(f, &c), 0);
	dir_container_added(f, &c);
	assert_true(told(waits));
	event("{'event':'policy','rules':[{'a':'t','b':'u','action':'allow'}]}");
	assert_int_equal(path(0, 9, &here, &there), DIR_HERE);
	assert_ptr_equal(here, &c);
	event("{'event':'policy','rules':[]}");
	assert_int_equal(path(0, 9, &here, &there), DIR_DENIED);
	fast_container_del(f, &c);
	dir_container_gone(f, &c);
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	remote_put(f, waits);
	remote_put(f, r);
}

static void the_policy_decides(void **state)
{
	struct remote *r;

	(void)state;
	path(0, 9, &here, &there);
	expect(FFO_OP_RESOLVE, IP(9));
	answer(ANSWER, cont_text(9, "u", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path(0, 9, &here, &there), DIR_DENIED);
	assert_null(there);
	event("{'event':'policy','rules':[{'a':'t','b':'u','action':'allow'}]}");
	assert_int_equal(told_policy(), 1);
	assert_int_equal(path(0, 9, &here, &r), DIR_REMOTE);
	assert_true(dir_allowed(f, &dir_rig.rig.cont[0], "u", "c9"));
	event("{'event':'policy','rules':[{'a':'u','b':'t','action':'allow'}]}"); /* the same */
	assert_int_equal(told_policy(), 0);
	event("{'event':'policy','rules':[{'a':'t','b':'t','action':'deny'}]}");
	assert_int_equal(told_policy(), 1);
	assert_int_equal(path(0, 9, &here, &there), DIR_DENIED);
	assert_int_equal(path(0, 2, &here, &there), DIR_DENIED); /* on this host, too */
	assert_null(here);
	assert_int_equal(path(0, 1, &here, &there), DIR_HERE); /* itself */
	event("{'event':'policy','rules':'none'}");	       /* not understood: as it was */
	assert_int_equal(told_policy(), 0);
	assert_int_equal(path(0, 2, &here, &there), DIR_DENIED);
}

/* What a frame from another host names. */
static void ids_are_asked_for(void **state)
{
	(void)state;
	assert_null(dir_by_id(f, 0));
	assert_null(dir_by_id(f, 77));
	expect(FFO_OP_RESOLVE, ID(77));
	answer(NOBODY);
	assert_null(dir_by_id(f, 77));
	expect_none();
	event("{'event':'resolve','id':77,'container':%s,'host':%s}",
	      cont_text(77, "t", "10.0.0.77", "h1", 1), H1);
	assert_int_equal(dir_by_id(f, 77)->epoch, 1);
	/* an answer about somebody else changes nothing */
	event("{'event':'resolve','id':77,'container':%s,'host':%s}",
	      cont_text(78, "t", "10.0.0.78", "h1", 9), H1);
	assert_int_equal(dir_by_id(f, 77)->epoch, 1);
}

static void the_orchestrator_goes_and_comes_back(void **state)
{
	struct remote *r = find_nine(), *waits;

	(void)state;
	remote_get(r);
	lose_orchestrator();
	assert_int_equal(told_any(), 0);
	assert_int_equal(path(0, 9, &here, &there), DIR_REMOTE);
	assert_ptr_equal(there, r);
	assert_int_equal(path(0, 10, &here, &waits), DIR_WAIT);
	expect_none();
	find_orchestrator();
	/* all that there is, in whatever order */
	for (int i = 0; i < 3; i++) {
		expect(FFO_OP_RESOLVE, i == 0 ? IP(9) : i == 1 ? ID(9) : IP(10));
		if (i == 2)
			answer(NOBODY);
		else
			answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3 + (uint32_t)i), H1);
		if (i == 0)
			assert_int_equal(told_any(), 0); /* as it was */
		if (i == 1)
			assert_true(told(r)); /* it has moved and come back meanwhile */
	}
	expect_none();
	assert_int_equal(r->epoch, 4);
	assert_int_equal(path(0, 10, &here, &there), DIR_NOBODY);
	remote_put(f, r);
}

/* The connection is lost with a call under way, and before what was given up could be told. */
static void calls_end_with_the_connection(void **state)
{
	(void)state;
	path(0, 9, &here, &there);
	expect(FFO_OP_RESOLVE, IP(9));
	lose_orchestrator();
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	find_orchestrator();
	expect(FFO_OP_RESOLVE, IP(9));
	entry_give_up(f->dir, there->entry);
	lose_orchestrator();
	assert_null(f->dir->entries);
	find_orchestrator();
	expect_none();
}

static void what_is_refused_is_nobody_for_now(void **state)
{
	(void)state;
	path(0, 9, &here, &there);
	expect(FFO_OP_RESOLVE, IP(9));
	answer_error(-EOPNOTSUPP);
	assert_int_equal(path(0, 9, &here, &there), DIR_NOBODY);
	expect_none();
	assert_int_equal(f->dir->failed, 1);
	dir_tick(f->dir, f->now);
	expect(FFO_OP_RESOLVE, IP(9));
	answer_error(-ENOMEM);
	assert_int_equal(f->dir->failed, 1);
	lose_orchestrator();
	find_orchestrator();
	expect(FFO_OP_RESOLVE, IP(9));
	answer(NOBODY);
	assert_int_equal(path(0, 9, &here, &there), DIR_NOBODY);
}

/* Given up, and wanted again while the orchestrator still tells of it: all is asked for anew. */
static void given_up_and_wanted_again(void **state)
{
	struct remote *r = find_nine();

	(void)state;
	entry_give_up(f->dir, entry_find(f->dir, ENTRY_GID, "t", &r->gid[0], 0));
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	expect(FFO_OP_UNRESOLVE, IP(9));
	event(ADDRESS, cont_text(9, "t", "10.0.0.9", "h1", 3), H1); /* of the one before */
	assert_int_equal(path(0, 9, &here, &there), DIR_WAIT);
	answer("{}");
	expect(FFO_OP_RESOLVE, IP(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path(0, 9, &here, &there), DIR_REMOTE);
	expect_none();
}

static void what_nobody_uses_goes(void **state)
{
	struct remote *r = find_nine();

	(void)state;
	remote_get(r);
	dir_tick(f->dir, f->now - 1); /* it waited for the lock, and others used it */
	dir_tick(f->dir, f->now + 50000 * NS_PER_MS);
	expect_none();
	dir_tick(f->dir, f->now + 61000 * NS_PER_MS);
	expect(FFO_OP_UNRESOLVE, IP(9));
	answer("{}");
	expect_none(); /* what is used stays */
	assert_int_equal(HASH_COUNT(f->dir->entries), 1);
	remote_put(f, r);
	dir_tick(f->dir, f->now + 200000 * NS_PER_MS);
	expect(FFO_OP_UNRESOLVE, ID(9));
	answer("{}");
	assert_null(f->dir->entries);
	assert_int_equal(peers_live(), 0);
}

static void nothing_goes_while_the_orchestrator_is_away(void **state)
{
	find_nine();
	(void)state;
	lose_orchestrator();
	dir_tick(f->dir, f->now + 61000 * NS_PER_MS);
	assert_int_equal(path(0, 9, &here, &there), DIR_REMOTE);
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
	assert_int_equal(path(0, 9, &here, &kept), DIR_WAIT);
	remote_get(kept);
	for (uint32_t i = 0; i < 3 * DIR_ROOM; i++) {
		memcpy(ah.dgid + 12, &i, sizeof(i));
		dir_path(f, &dir_rig.rig.cont[0], &ah, &here, &there);
	}
	assert_true(HASH_COUNT(f->dir->entries) <= 2 * DIR_ROOM);
	/* its turn comes with the first of the other's thousands */
	assert_int_equal(path(1, 99, &here, &there), DIR_WAIT);
	assert_non_null(there);
	uv_run(&dir_rig.loop, UV_RUN_NOWAIT);
	assert_true(dir_asked_for("10.0.0.99"));
	answer_all();
	assert_int_equal(path(0, 9, &here, &there), DIR_NOBODY); /* in use: it has stayed */
	assert_ptr_equal(there, kept);
	for (uint32_t i = 0; i < DIR_ROOM; i++) {
		memcpy(ah.dgid + 8, &i, sizeof(i));
		dir_path(f, &dir_rig.rig.cont[0], &ah, &here, &there);
		if (i % 100 == 0)
			answer_all();
	}
	answer_all();
	assert_true(HASH_COUNT(f->dir->entries) <= DIR_ROOM + 2);
	remote_put(f, kept);
}

/* All of them in use: no room, and nothing of them is lost. */
static void what_is_used_stays(void **state)
{
	struct remote **r = calloc(DIR_ROOM, sizeof(struct remote *));
	struct ff_ah_attr ah = { .is_global = 1 };

	(void)state;
	for (uint32_t i = 0; i <= DIR_ROOM; i++) {
		memcpy(ah.dgid + 12, &i, sizeof(i));
		assert_int_equal(dir_path(f, &dir_rig.rig.cont[0], &ah, &here, &there), DIR_WAIT);
		if (i == DIR_ROOM) {
			assert_null(there);
			break;
		}
		r[i] = there;
		remote_get(there);
	}
	for (uint32_t i = 0; i < DIR_ROOM; i++)
		remote_put(f, r[i]);
	assert_int_equal(dir_path(f, &dir_rig.rig.cont[0], &ah, &here, &there), DIR_WAIT);
	assert_non_null(there);
	answer_all();
	free(r);
}

static void a_container_goes_with_what_it_asked_for(void **state)
{
	struct remote *r = find_nine();
	unsigned n;

	(void)state;
	remote_get(r);
	n = HASH_COUNT(f->dir->owners);
	dir_container_gone(f, &dir_rig.rig.cont[0]);
	assert_int_equal(HASH_COUNT(f->dir->owners), n - 1);
	assert_int_equal(r->epoch, 3); /* a wire may still have a reference */
	remote_put(f, r);
	assert_int_equal(path(1, 9, &here, &there), DIR_REMOTE); /* and others find it */
	assert_ptr_equal(there, r);
}

#define GROUP "{'tenant':'t','mgid':'ff12::5'}"

static union ibv_gid mgid(uint8_t last)
{
	union ibv_gid g = { .raw = { 0xff, 0x12 } };

	g.raw[15] = last;
	return g;
}

static void groups_have_hosts(void **state)
{
	union ibv_gid g = mgid(5);
	struct wire_peer **peers;

	(void)state;
	assert_int_equal(dir_mcast(f, "t", &g, &peers), -1);
	expect(FFO_OP_MCAST_WATCH, GROUP);
	answer("{'hosts':[%s,%s]}", host_text("h0", true), H1);
	assert_int_equal(told_mcast(), 1);
	assert_int_equal(dir_mcast(f, "t", &g, &peers), 1); /* this one is not counted */
	assert_string_equal(peers[0]->host, "h1");
	event("{'event':'mcast','tenant':'t','mgid':'ff12::5','hosts':[%s,%s]}", H1,
	      host_text("h2", true));
	assert_int_equal(told_mcast(), 1);
	assert_int_equal(dir_mcast(f, "t", &g, &peers), 2);
	event("{'event':'mcast','tenant':'u','mgid':'ff12::5','hosts':[]}"); /* another's */
	event("{'event':'mcast','tenant':'t','mgid':'ff12::5','hosts':[5]}");
	assert_int_equal(dir_mcast(f, "t", &g, &peers), 2);
	event("{'event':'mcast','tenant':'t','mgid':'ff12::5','hosts':[]}");
	assert_int_equal(dir_mcast(f, "t", &g, &peers), 0);
	expect_none();
}

static void members_join_and_leave(void **state)
{
	struct wire_peer **peers;
	union ibv_gid g = mgid(5), four = { .raw = { [10] = 0xff, 0xff, 224, 1, 2, 3 } };

	(void)state;
	dir_mcast_member(f, "t", &g, true);
	expect(FFO_OP_MCAST_JOIN, GROUP);
	dir_mcast_member(f, "t", &g, false); /* and back, while it is under way */
	dir_mcast_member(f, "t", &g, true);
	dir_mcast_member(f, "t", &g, false);
	answer("{}");
	expect(FFO_OP_MCAST_LEAVE, GROUP);
	answer("{}");
	expect_none();
	assert_false(dir_mcast_pending(f, "t", &g));
	dir_mcast_member(f, "t", &g, true);
	assert_true(dir_mcast_pending(f, "t", &g));
	expect(FFO_OP_MCAST_JOIN, GROUP);
	assert_true(dir_mcast_pending(f, "t", &g));
	answer("{}");
	assert_false(dir_mcast_pending(f, "t", &g));
	assert_int_equal(dir_mcast(f, "t", &g, &peers), -1); /* that was no answer to this */
	expect(FFO_OP_MCAST_WATCH, GROUP);
	answer("{'hosts':[]}");
	assert_int_equal(dir_mcast(f, "t", &g, &peers), 0);
	assert_true(entry_pinned(entry_find(f->dir, ENTRY_GROUP, "t", &g, 0)));
	lose_orchestrator();
	assert_false(dir_mcast_pending(f, "t", &g)); /* nobody to wait for */
	find_orchestrator();
	expect(FFO_OP_MCAST_WATCH, GROUP);
	answer("{'hosts':[]}");
	expect(FFO_OP_MCAST_JOIN, GROUP); /* membership dies with the session */
	answer("{}");
	dir_mcast_member(f, "t", &four, true);
	expect(FFO_OP_MCAST_JOIN, "{'tenant':'t','mgid':'::ffff:224.1.2.3'}");
	answer("{}");
	expect_none();
	dir_mcast_member(f, "t", &g, false);
	expect(FFO_OP_MCAST_LEAVE, GROUP);
	answer("{}");
}

static void a_host_that_connects_is_looked_up(void **state)
{
	(void)state;
	dir_want_host(f->dir, "h7");
	dir_want_host(f->dir, "no such name");
	expect(FFO_OP_HOST_GET, "{'host':'h7'}");
	answer("{'host':%s}", host_text("h7", true));
	assert_int_equal(dir_rig_hosts(), 1);
	expect_none();
	dir_want_host(f->dir, "h8");
	expect(FFO_OP_HOST_GET, "{'host':'h8'}");
	answer_error(-ENOENT);
	dir_want_host(f->dir, "h8");
	expect(FFO_OP_HOST_GET, "{'host':'h8'}");
	answer("{'host':7}");
	dir_want_host(f->dir, "h8");
	lose_orchestrator();
	assert_int_equal(dir_rig_hosts(), 1);
	assert_int_equal(f->dir->num_wanted, 0);
	for (int i = 0; i < 1000; i++)
		dir_want_host(f->dir, "h9");
	assert_true(f->dir->num_wanted < 100);
}

static void nonsense_changes_nothing(void **state)
{
	static const char *const bad[] = {
		"{'event':'resolve'}",
		"{'event':'resolve','id':9,'container':5}",
		"{'event':'resolve','id':9,'container':{}}",
		"{'event':'resolve','id':-9,'container':null}",
		"{'event':'resolve','tenant':'t','ip':'nowhere','container':null}",
		"{'event':'resolve','tenant':'t','lid':99999999,'container':null}",
		"{'event':'resolve','id':9,'container':null,'host':7}",
		"{'event':'mcast','tenant':'t'}",
		"{'event':'mcast','tenant':'t','mgid':'x','hosts':[]}",
		"{'event':'map'}",
		"{'event':'map','container':9,'epoch':3,'put':5,'del':'x'}",
		"{'event':'map','container':4000000000,'epoch':3,'put':[[]],'del':[]}",
		"{'event':'policy'}",
	};
	struct remote *r = find_nine();

	(void)state;
	remote_get(r);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		event("%s", bad[i]);
	assert_int_equal(told_any(), 0);
	assert_int_equal(r->epoch, 3);
	assert_false(dir_event(f->dir, "fireworks", NULL));
	remote_put(f, r);
}

static int setup(void **state)
{
	if (dir_set_up(state))
		return -1;
	f = dir_rig.rig.f;
	return 0;
}

#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, dir_tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(those_of_this_host_are_found_at_once),
		T(another_host_is_asked_for_and_told),
		T(nobody_becomes_somebody),
		T(a_move_grows_the_epoch),
		T(one_comes_to_this_host),
		T(the_policy_decides),
		T(ids_are_asked_for),
		T(the_orchestrator_goes_and_comes_back),
		T(calls_end_with_the_connection),
		T(what_is_refused_is_nobody_for_now),
		T(given_up_and_wanted_again),
		T(what_nobody_uses_goes),
		T(nothing_goes_while_the_orchestrator_is_away),
		T(there_is_only_so_much_room),
		T(what_is_used_stays),
		T(a_container_goes_with_what_it_asked_for),
		T(groups_have_hosts),
		T(members_join_and_leave),
		T(a_host_that_connects_is_looked_up),
		T(nonsense_changes_nothing),
	};

	log_level = LOG_LEVEL_ERR;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
