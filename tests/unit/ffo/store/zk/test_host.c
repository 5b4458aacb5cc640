/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_two.c tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_host.c - hosts that are up, and those that a dead orchestrator left behind.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/zk_two.h"

static void hosts_come_and_go(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 };

	two_watch(&t->b, &w, STORE_HOST, "h0");
	WAIT_FOR(w.told);
	assert_false(w.there);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	WAIT_FOR(w.there && w.h.up);
	assert_string_equal(w.h.wire, "tcp:10.0.0.1:7471");
	assert_string_equal(w.h.instance, "i0");

	/* Another one of that name is refused, wherever; the same one is welcome. */
	assert_int_equal(two_host_up(&t->b, "h0", "i1"), -EEXIST);
	assert_int_equal(two_host_up(&t->a, "h0", "i1"), -EEXIST);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(two_host_up(&t->b, "h1", "i1"), 0);

	assert_int_equal(TWO_CALL(&t->b, host_list, rig_hosts, "", 10), 0);
	assert_int_equal(two_end.count, 2);
	assert_true(two_end.hosts[0].up && two_end.hosts[1].up);
	assert_int_equal(two_host_down(&t->a, "h0", "other"), 0); /* not that one */
	assert_true(w.h.up);
	assert_int_equal(two_host_down(&t->a, "h0", "i0"), 0);
	WAIT_FOR(w.there && !w.h.up);
	WAIT_FOR(w.h.last_seen == 2000);
	assert_int_equal(TWO_CALL(&t->b, host_get, rig_host, "h0"), 0);
	assert_false(two_end.h.up);
	assert_int_equal(two_host_up(&t->b, "h0", "i1"), 0);
	assert_int_equal(TWO_CALL(&t->b, host_get, rig_host, "h9"), -ENOENT);
	two_unwatch(&w);
}

/* The process is dead, as far as its record tells: its successor does not wait. */
static void a_dead_one_is_replaced(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 };

	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	two_put_maps(&t->a, "h0", 1, 1, 10);
	w.w.key.id = w.w.key.epoch = 1;
	two_watch(&t->b, &w, STORE_MAP, "h0");
	WAIT_FOR(w.synced);
	assert_int_equal(two_rows_of(&w), 10);
	rig_crash(&t->a);

	/* The same instance: it is the same router. All that was ephemeral has gone. */
	uint64_t start = uv_hrtime();
	assert_int_equal(two_host_up(&t->b, "h0", "i0"), 0);
	WAIT_FOR(two_rows_of(&w) == 0);
	assert_true(uv_hrtime() - start < 1500000000); /* the session lives for 2 s */
	two_unwatch(&w);
}

/* Another instance, which finds that the process that was up here is dead. */
static void a_killed_one_is_replaced(void **state)
{
	struct rec_up u = { .host = { .name = "h0", .instance = "i0" } };
	struct two *t = *state;
	size_t len;
	char *data;
	int fd[2];

	two_host_up(&t->a, "h0", "i0");
	assert_int_equal(pipe(fd), 0);
	if (!fork()) {
		rec_process(u.process);
		_exit(write(fd[1], u.process, sizeof(u.process)) != sizeof(u.process));
	}
	assert_int_equal(read(fd[0], u.process, sizeof(u.process)), sizeof(u.process));
	assert_true(wait(NULL) > 0);
	close(fd[0]);
	close(fd[1]);
	u.session = zks_of(t->a.s)->session;
	data = rec_up(&u, &len);
	two_write_raw(&t->a, "/hosts/h0/up", data, len);
	free(data);
	rig_crash(&t->a);
	assert_int_equal(two_host_up(&t->b, "h0", "i1"), 0);
}

static void sessions_expire(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 };

	two_host_up(&t->a, "h0", "i0");
	two_watch(&t->b, &w, STORE_HOST, "h0");
	WAIT_FOR(w.there && w.h.up);
	rig_crash(&t->a);
	assert_int_equal(two_host_up(&t->b, "h0", "i1"), -EEXIST); /* for all we know it lives */
	WAIT_FOR(!w.h.up);
	assert_int_equal(two_host_up(&t->b, "h0", "i1"), 0);
	two_unwatch(&w);
}

/* The answer to host_up and host_down does not wait for the record, but what the same session reads comes behind it. */
static void record_is_there(struct rig_store *r)
{
	assert_int_equal(TWO_CALL(r, host_get, rig_host, "h0"), 0);
}

/* Forgotten by another orchestrator than the one that had it; its folder stays, and it can come back. */
static void one_is_forgotten(void **state)
{
	struct two *t = *state;

	assert_int_equal(TWO_CALL(&t->b, host_del, rig_done, "h0"), -ENOENT);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	record_is_there(&t->a);
	assert_int_equal(TWO_CALL(&t->b, host_del, rig_done, "h0"), -EBUSY);
	assert_int_equal(two_host_down(&t->a, "h0", "i0"), 0);
	record_is_there(&t->a);
	assert_int_equal(TWO_CALL(&t->b, host_del, rig_done, "h0"), 0);
	assert_int_equal(TWO_CALL(&t->a, host_get, rig_host, "h0"), -ENOENT);
	assert_int_equal(TWO_CALL(&t->a, host_list, rig_hosts, "", 10), 0);
	assert_int_equal(two_end.count, 0);
	assert_int_equal(TWO_CALL(&t->a, host_del, rig_done, "h0"), -ENOENT);
	assert_int_equal(two_host_up(&t->b, "h0", "i1"), 0);
	record_is_there(&t->b);
	assert_int_equal(TWO_CALL(&t->a, host_get, rig_host, "h0"), 0);
	assert_true(two_end.h.up);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO_TEST(hosts_come_and_go),	    TWO_TEST(a_dead_one_is_replaced),
		TWO_TEST(a_killed_one_is_replaced), TWO_TEST(sessions_expire),
		TWO_TEST(one_is_forgotten),
	};

	return two_run(tests);
}
