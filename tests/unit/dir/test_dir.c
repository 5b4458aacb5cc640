/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/dir_rig.c tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c ffr/dir/dir.c ffr/dir/sub.c ffr/dir/event.c ffr/dir/map.c ffr/dir/policy.c tests/rig/unit/dir_nine.c */
/*
 * test_dir.c - ffr/dir/dir.c and ffr/dir/event.c: who is at an address, and what becomes of the orchestrator's
 * answers. What is asked for, and how much of that there can be, is in test_sub.c.
 */
#include <errno.h>

#include "tests/rig/unit/dir_rig.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/dir_nine.h"
#define BY_ID "{'event':'resolve','id':9,'container':%s,'host':%s}"

static void those_of_this_host_are_found_at_once(void **state)
{
	(void)state;
	assert_int_equal(path(0, 2, &dir_here, &dir_there), DIR_HERE);
	assert_ptr_equal(dir_here, &dir_rig.rig.cont[1]);
	assert_int_equal(path_lid(0, 3, &dir_here, &dir_there), DIR_HERE);
	assert_ptr_equal(dir_here, &dir_rig.rig.cont[2]);
	expect_none();
}

static void another_host_is_asked_for_and_told(void **state)
{
	struct remote *waits;

	(void)state;
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	waits = dir_there;
	assert_non_null(waits);
	assert_int_equal(waits->epoch, 0);
	remote_get(waits);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	assert_ptr_equal(dir_there, waits);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_true(told(waits));
	remote_put(dir_fast, waits);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_REMOTE);
	assert_ptr_not_equal(dir_there, waits);
	assert_int_equal(dir_there->id, 9);
	assert_int_equal(dir_there->epoch, 3);
	assert_int_equal(dir_there->lid, 9);
	assert_string_equal(dir_there->name, "c9");
	assert_string_equal(dir_there->tenant, "t");
	assert_string_equal(dir_there->peer->host, "h1");
	assert_true(dir_there->peer->up);
	/* and by all its other names it is the same */
	waits = dir_there;
	expect(FFO_OP_RESOLVE, DIR_ID(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path_lid(1, 9, &dir_here, &dir_there), DIR_WAIT);
	expect(FFO_OP_RESOLVE, "{'tenant':'t','lid':9}");
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path_lid(1, 9, &dir_here, &dir_there), DIR_REMOTE);
	assert_ptr_equal(dir_there, waits);
	assert_ptr_equal(dir_by_id(dir_fast, 9), waits);
	expect_none();
}

/* Where container 0 finds the link-local GID of that LID. */
static int path_to_lid(struct ff_ah_attr *ah, uint16_t lid)
{
	union ibv_gid gid = gid_local(lid);

	memcpy(ah->dgid, &gid, 16);
	return dir_path(dir_fast, &dir_rig.rig.cont[0], ah, &dir_here, &dir_there);
}

/* Link-local GIDs are asked for as LIDs: whatever a container says of itself, they lead to nobody else. */
static void link_local_is_the_lid(void **state)
{
	struct ff_ah_attr ah = { .is_global = 1 };

	(void)state;
	dir_rig.rig.cont[0].gid[0] = gid_local(3);
	assert_int_equal(path_to_lid(&ah, 3), DIR_HERE);
	assert_ptr_equal(dir_here, &dir_rig.rig.cont[2]);
	assert_int_equal(path_to_lid(&ah, 9), DIR_WAIT);
	expect(FFO_OP_RESOLVE, "{'tenant':'t','lid':9}");
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here, &dir_there),
			 DIR_REMOTE);
	assert_int_equal(dir_there->id, 9);
	expect(FFO_OP_RESOLVE, DIR_ID(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	/* another tenant's container of this host is the policy's business, as by its address */
	assert_int_equal(path_to_lid(&ah, 4), DIR_WAIT);
	expect(FFO_OP_RESOLVE, "{'tenant':'t','lid':4}");
	answer(NOBODY);
	assert_int_equal(dir_path(dir_fast, &dir_rig.rig.cont[0], &ah, &dir_here, &dir_there),
			 DIR_NOBODY);
	event("{'event':'policy','rules':[{'a':'t/a','b':'t/c','action':'deny'}]}");
	assert_int_equal(path_to_lid(&ah, 3), DIR_DENIED);
	/* what is no container's LID is an address */
	assert_int_equal(path_to_lid(&ah, 0xffff), DIR_WAIT);
	expect(FFO_OP_RESOLVE, "{'tenant':'t','ip':'fe80::266:66ff:fe00:ffff'}");
	answer(NOBODY);
}

static void nobody_becomes_somebody(void **state)
{
	struct remote *waits;

	(void)state;
	path(0, 9, &dir_here, &dir_there);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer(NOBODY);
	assert_int_equal(path(0, 9, &dir_here, &waits), DIR_NOBODY);
	remote_get(waits);
	told_any();
	event(ADDRESS, "null", "null");
	assert_int_equal(told_any(), 0); /* nothing new */
	event(ADDRESS, cont_text(9, "t", "10.0.0.9", "h1", 1), H1);
	assert_true(told(waits));
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_REMOTE);
	told_any();
	event(ADDRESS, "null", "null");
	assert_true(told(waits));
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_NOBODY);
	remote_put(dir_fast, waits);
}

static void a_move_grows_the_epoch(void **state)
{
	struct remote *r = dir_find_nine();

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
	assert_int_equal(told_any(), 0); /* whether its host can be reached the wire tells */
	assert_non_null(r->peer);
	assert_false(r->peer->up);
	event(BY_ID, cont_text(9, "t", "10.0.0.9", "h2", 4), "null");
	assert_true(told(r));
	assert_null(r->peer);
	event(BY_ID, "null", "null");
	assert_true(told(r));
	assert_int_equal(r->epoch, 0);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_NOBODY);
	assert_null(dir_by_id(dir_fast, 9));
	remote_put(dir_fast, r);
}

/* It is said to be here, but is not attached yet; then it is. */
static void one_comes_to_this_host(void **state)
{
	struct container c = { .id = 9, .name = "c9", .tenant = "u" };
	struct remote *r = dir_find_nine(), *waits;

	(void)state;
	remote_get(r);
	event(BY_ID, cont_text(9, "u", "10.0.0.9", "h0", 4), host_text("h0", true));
	assert_true(told(r));
	assert_null(r->peer);
	assert_int_equal(path(0, 9, &dir_here, &waits), DIR_WAIT);
	remote_get(waits);
	TAILQ_INIT(&c.mw.changed);
	LIST_INIT(&c.sessions);
	assert_int_equal(fast_container_add(dir_fast->host, &c), 0);
	dir_container_added(dir_fast->host, &c);
	assert_true(told(waits));
	event("{'event':'policy','rules':[{'a':'t','b':'u','action':'allow'}]}");
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_HERE);
	assert_ptr_equal(dir_here, &c);
	event("{'event':'policy','rules':[]}");
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_DENIED);
	fast_container_del(dir_fast->host, &c);
	dir_container_gone(dir_fast->host, &c);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	remote_put(dir_fast, waits);
	remote_put(dir_fast, r);
}

static void the_policy_decides(void **state)
{
	struct remote *r;

	(void)state;
	path(0, 9, &dir_here, &dir_there);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer(ANSWER, cont_text(9, "u", "10.0.0.9", "h1", 3), H1);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_DENIED);
	assert_null(dir_there);
	event("{'event':'policy','rules':[{'a':'t','b':'u','action':'allow'}]}");
	assert_int_equal(told_policy(), 1);
	assert_int_equal(path(0, 9, &dir_here, &r), DIR_REMOTE);
	assert_true(dir_allowed(dir_fast->host, &dir_rig.rig.cont[0], "u", "c9"));
	event("{'event':'policy','rules':[{'a':'u','b':'t','action':'allow'}]}"); /* the same */
	assert_int_equal(told_policy(), 0);
	event("{'event':'policy','rules':[{'a':'t','b':'t','action':'deny'}]}");
	assert_int_equal(told_policy(), 1);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_DENIED);
	assert_int_equal(path(0, 2, &dir_here, &dir_there), DIR_DENIED); /* on this host, too */
	assert_null(dir_here);
	assert_int_equal(path(0, 1, &dir_here, &dir_there), DIR_HERE); /* itself */
	event("{'event':'policy','rules':'none'}"); /* not understood: as it was */
	assert_int_equal(told_policy(), 0);
	assert_int_equal(path(0, 2, &dir_here, &dir_there), DIR_DENIED);
}

/* What a frame from another host names. */
static void ids_are_asked_for(void **state)
{
	(void)state;
	assert_null(dir_by_id(dir_fast, 0));
	assert_null(dir_by_id(dir_fast, 77));
	expect(FFO_OP_RESOLVE, DIR_ID(77));
	answer(NOBODY);
	assert_null(dir_by_id(dir_fast, 77));
	expect_none();
	event("{'event':'resolve','id':77,'container':%s,'host':%s}",
	      cont_text(77, "t", "10.0.0.77", "h1", 1), H1);
	assert_int_equal(dir_by_id(dir_fast, 77)->epoch, 1);
	/* an answer about somebody else changes nothing */
	event("{'event':'resolve','id':77,'container':%s,'host':%s}",
	      cont_text(78, "t", "10.0.0.78", "h1", 9), H1);
	assert_int_equal(dir_by_id(dir_fast, 77)->epoch, 1);
}

static void the_orchestrator_goes_and_comes_back(void **state)
{
	struct remote *r = dir_find_nine(), *waits;

	(void)state;
	remote_get(r);
	lose_orchestrator();
	assert_int_equal(told_any(), 0);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_REMOTE);
	assert_ptr_equal(dir_there, r);
	assert_int_equal(path(0, 10, &dir_here, &waits), DIR_WAIT);
	expect_none();
	find_orchestrator();
	/* all that there is, in whatever order */
	for (int i = 0; i < 3; i++) {
		expect(FFO_OP_RESOLVE, i == 0 ? DIR_IP(9) : i == 1 ? DIR_ID(9) : DIR_IP(10));
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
	assert_int_equal(path(0, 10, &dir_here, &dir_there), DIR_NOBODY);
	remote_put(dir_fast, r);
}

static void what_is_refused_is_nobody_for_now(void **state)
{
	(void)state;
	path(0, 9, &dir_here, &dir_there);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer_error(-EOPNOTSUPP);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_NOBODY);
	expect_none();
	assert_int_equal(dir_fast->host->dir->failed, 1);
	dir_tick(dir_fast->host->dir, dir_fast->now);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer_error(-ENOMEM);
	assert_int_equal(dir_fast->host->dir->failed, 1);
	lose_orchestrator();
	find_orchestrator();
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer(NOBODY);
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_NOBODY);
}

/* Given up while it is asked for: its refusal goes with it. */
static void what_is_refused_too_late_is_forgotten(void **state)
{
	(void)state;
	path(0, 9, &dir_here, &dir_there);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	entry_give_up(dir_fast->host->dir, dir_there->entry);
	answer_error(-EOPNOTSUPP);
	assert_null(dir_fast->host->dir->entries);
	assert_int_equal(dir_fast->host->dir->failed, 0);
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
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), -1);
	expect(FFO_OP_MCAST_WATCH, GROUP);
	answer("{'hosts':[%s,%s]}", host_text("h0", true), H1);
	assert_int_equal(told_mcast(), 1);
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), 1); /* this one is not counted */
	assert_string_equal(peers[0]->host, "h1");
	event("{'event':'mcast','tenant':'t','mgid':'ff12::5','hosts':[%s,%s]}", H1,
	      host_text("h2", true));
	assert_int_equal(told_mcast(), 1);
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), 2);
	event("{'event':'mcast','tenant':'u','mgid':'ff12::5','hosts':[]}"); /* another's */
	event("{'event':'mcast','tenant':'t','mgid':'ff12::5','hosts':[5]}");
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), 2);
	event("{'event':'mcast','tenant':'t','mgid':'ff12::5','hosts':[]}");
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), 0);
	expect_none();
}

static void members_join_and_leave(void **state)
{
	struct wire_peer **peers;
	union ibv_gid g = mgid(5), four = { .raw = { [10] = 0xff, 0xff, 224, 1, 2, 3 } };

	(void)state;
	dir_mcast_member(dir_fast, "t", &g, true);
	expect(FFO_OP_MCAST_JOIN, GROUP);
	dir_mcast_member(dir_fast, "t", &g, false); /* and back, while it is under way */
	dir_mcast_member(dir_fast, "t", &g, true);
	dir_mcast_member(dir_fast, "t", &g, false);
	answer("{}");
	expect(FFO_OP_MCAST_LEAVE, GROUP);
	answer("{}");
	expect_none();
	assert_false(dir_mcast_pending(dir_fast, "t", &g));
	dir_mcast_member(dir_fast, "t", &g, true);
	assert_true(dir_mcast_pending(dir_fast, "t", &g));
	expect(FFO_OP_MCAST_JOIN, GROUP);
	assert_true(dir_mcast_pending(dir_fast, "t", &g));
	answer("{}");
	assert_false(dir_mcast_pending(dir_fast, "t", &g));
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), -1); /* that was no answer to this */
	expect(FFO_OP_MCAST_WATCH, GROUP);
	answer("{'hosts':[]}");
	assert_int_equal(dir_mcast(dir_fast, "t", &g, &peers), 0);
	assert_true(entry_pinned(entry_find(dir_fast->host->dir, ENTRY_GROUP, "t", &g, 0)));
	lose_orchestrator();
	assert_false(dir_mcast_pending(dir_fast, "t", &g)); /* nobody to wait for */
	find_orchestrator();
	expect(FFO_OP_MCAST_WATCH, GROUP);
	answer("{'hosts':[]}");
	expect(FFO_OP_MCAST_JOIN, GROUP); /* membership dies with the session */
	answer("{}");
	dir_mcast_member(dir_fast, "t", &four, true);
	expect(FFO_OP_MCAST_JOIN, "{'tenant':'t','mgid':'::ffff:224.1.2.3'}");
	answer("{}");
	expect_none();
	dir_mcast_member(dir_fast, "t", &g, false);
	expect(FFO_OP_MCAST_LEAVE, GROUP);
	answer("{}");
}

static void a_host_that_connects_is_looked_up(void **state)
{
	(void)state;
	dir_want_host(dir_fast->host->dir, "h7");
	dir_want_host(dir_fast->host->dir, "no such name");
	expect(FFO_OP_HOST_GET, "{'host':'h7'}");
	answer("{'host':%s}", host_text("h7", true));
	assert_int_equal(dir_rig_hosts(), 1);
	expect_none();
	dir_want_host(dir_fast->host->dir, "h8");
	expect(FFO_OP_HOST_GET, "{'host':'h8'}");
	answer_error(-ENOENT);
	dir_want_host(dir_fast->host->dir, "h8");
	expect(FFO_OP_HOST_GET, "{'host':'h8'}");
	answer("{'host':7}");
	dir_want_host(dir_fast->host->dir, "h8");
	lose_orchestrator();
	assert_int_equal(dir_rig_hosts(), 1);
	assert_int_equal(dir_fast->host->dir->num_wanted, 0);
	for (int i = 0; i < 1000; i++)
		dir_want_host(dir_fast->host->dir, "h9");
	assert_true(dir_fast->host->dir->num_wanted < 100);
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
	struct remote *r = dir_find_nine();

	(void)state;
	remote_get(r);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		event("%s", bad[i]);
	assert_int_equal(told_any(), 0);
	assert_int_equal(r->epoch, 3);
	assert_false(dir_event(dir_fast->host->dir, "fireworks", NULL));
	remote_put(dir_fast, r);
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;

	return UNIT_RUN(DIR_T(those_of_this_host_are_found_at_once),
			DIR_T(another_host_is_asked_for_and_told), DIR_T(link_local_is_the_lid),
			DIR_T(nobody_becomes_somebody), DIR_T(a_move_grows_the_epoch),
			DIR_T(one_comes_to_this_host), DIR_T(the_policy_decides),
			DIR_T(ids_are_asked_for), DIR_T(the_orchestrator_goes_and_comes_back),
			DIR_T(what_is_refused_is_nobody_for_now),
			DIR_T(what_is_refused_too_late_is_forgotten), DIR_T(groups_have_hosts),
			DIR_T(members_join_and_leave), DIR_T(a_host_that_connects_is_looked_up),
			DIR_T(nonsense_changes_nothing));
}
