/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_two.c tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_zks.c - lost connections and sessions, contents that are damaged, other versions of the
 * tree.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/zk_two.h"

/* ---- the connection, the session ------------------------------------------------------------ */

/* The node is stopped for less than the session lives: nothing is lost, and calls wait. */
static void a_short_break(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 };
	struct rig_end put = { 0 };
	struct ffo_map row = two_map_of(1, 2);

	rig_close(&t->a);
	snprintf(t->root, sizeof(t->root), "/t/%u?timeout=20000", two_roots);
	rig_open(&t->a, t->root);
	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	two_put_maps(&t->a, "h0", 1, 1, 1);
	rig_node("kill", 0);
	WAIT_FOR(t->a.state == STORE_AWAY && t->b.state == STORE_AWAY);
	assert_int_equal(two_get(&t->a, "web"), -ENOTCONN);
	assert_int_equal(two_add(&t->a, "x", "default", "h0", NULL), -ENOTCONN);
	t->a.s->ops->map_put(t->a.s, "h0", &row, 1, rig_done, &put);
	for (int i = 0; i < 20; i++)
		rig_turn();
	assert_false(put.done);
	rig_node("start", 0);
	WAIT_FOR(put.done);
	assert_int_equal(put.err, 0);
	assert_int_equal(t->a.lost, 0);
	w.w.key.id = w.w.key.epoch = 1;
	WAIT_FOR(t->b.state == STORE_READY);
	two_watch(&t->b, &w, STORE_MAP, "h0");
	WAIT_FOR(w.synced && two_rows_of(&w) == 2);
	two_unwatch(&w);
}

/*
 * The node is given a copy of its data that is older than what its clients have seen. ZooKeeper lets no client in that
 * has seen a newer tree. The copy has the clients' sessions, too, which are over all the same.
 */
static void an_older_copy_is_brought_back(void **state)
{
	struct two *t = *state;
	unsigned lost;
	char name[16];

	rig_close(&t->a);
	snprintf(t->root, sizeof(t->root), "/t/%u?timeout=2000", two_roots);
	rig_open(&t->a, t->root);
	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	rig_node("kill", 0);
	WAIT_FOR(t->a.state == STORE_AWAY && t->b.state == STORE_AWAY);
	rig_node("save", 0);
	rig_node("start", 0);
	WAIT_FOR(t->a.state == STORE_READY && t->b.state == STORE_READY);
	for (int i = 0; i < 50; i++) {
		snprintf(name, sizeof(name), "late%d", i);
		assert_int_equal(two_add(&t->a, name, "default", "h0", NULL), 0);
	}
	assert_int_equal(two_get(&t->b, "late49"), 0);
	lost = t->a.lost; /* not 0 if the node was away for 2 s, as it is on a busy host */
	rig_node("kill", 0);
	WAIT_FOR(t->a.state == STORE_AWAY && t->b.state == STORE_AWAY);
	rig_node("restore", 0);
	rig_node("start", 0);
	WAIT_FOR(t->a.state == STORE_READY && t->b.state == STORE_READY);
	assert_true(t->a.lost > lost);
	assert_int_equal(two_get(&t->a, "web"), 0);
	assert_int_equal(two_get(&t->a, "late49"), -ENOENT);
	assert_int_equal(two_get(&t->b, "late49"), -ENOENT);
}

/*
 * More watches than fit into one message (1 MB): the client would set them all at once after a
 * reconnection, and never be let in again.
 */
static void many_watches_survive(void **state)
{
	enum { MANY = 12000 }; /* of 110 bytes */
	struct two_watched *w = calloc(MANY, sizeof(*w));
	struct two *t = *state;
	int err;

	rig_close(&t->a);
	rig_close(&t->b);
	snprintf(t->root, sizeof(t->root), "/t/%u-%080d?timeout=20000", two_roots, 0);
	rig_open(&t->a, t->root);
	rig_open(&t->b, t->root);
	for (uint32_t i = 0; i < MANY; i++) {
		w[i].w.key.id = i + 1;
		two_watch(&t->a, &w[i], STORE_ID, "");
	}
	for (int i = 0; i < MANY; i++)
		WAIT_FOR(w[i].told);
	rig_node("kill", 0);
	WAIT_FOR(t->a.state == STORE_AWAY);
	rig_node("start", 0);
	WAIT_FOR(t->a.state == STORE_READY && t->b.state == STORE_READY);
	assert_int_equal(t->a.lost, 0);
	/* The node has just started, and may let go of a connection again. */
	do {
		rig_turn();
		err = two_add(&t->b, "web", "default", "h0", NULL);
	} while (err == -ENOTCONN);
	assert_true(!err || err == -EEXIST);
	assert_true(two_end.has_c && two_end.c.id && two_end.c.id <= MANY);
	WAIT_FOR(w[two_end.c.id - 1].there);
	for (int i = 0; i < MANY; i++)
		two_unwatch(&w[i]);
	free(w);
}

static void a_session_is_lost(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 }, mine = { 0 };

	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	two_put_maps(&t->a, "h0", 1, 1, 100);
	w.w.key.id = w.w.key.epoch = mine.w.key.id = mine.w.key.epoch = 1;
	two_watch(&t->b, &w, STORE_MAP, "h0");
	two_watch(&t->a, &mine, STORE_MAP, "h0");
	WAIT_FOR(w.synced && mine.synced);
	rig_expire(&t->a); /* an expiry, without waiting for one */
	WAIT_FOR(t->a.lost == 1 && t->a.state == STORE_READY);
	WAIT_FOR(two_rows_of(&w) == 0 && two_rows_of(&mine) == 0);
	assert_int_equal(two_put_maps(&t->a, "h0", 1, 1, 100), -ESHUTDOWN);
	assert_int_equal(t->b.lost, 0);

	/* It comes again, and all is published anew. */
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(two_put_maps(&t->a, "h0", 1, 1, 100), 0);
	WAIT_FOR(two_rows_of(&w) == 100 && two_rows_of(&mine) == 100);
	two_unwatch(&w);
	two_unwatch(&mine);
}

/* ---- damage --------------------------------------------------------------------------------- */

static void damage_is_refused(void **state)
{
	struct two *t = *state;
	struct two_watched w = { 0 }, other = { 0 }, policy = { 0 };

	two_host_up(&t->a, "h0", "i0");
	two_add(&t->a, "web", "default", "h0", NULL);
	two_add(&t->a, "db", "default", "h0", NULL);
	two_watch(&t->b, &w, STORE_NAME, "web");
	two_watch(&t->b, &other, STORE_NAME, "db");
	two_watch(&t->b, &policy, STORE_POLICY, "");
	WAIT_FOR(w.there && other.there && policy.told);

	two_write_raw(&t->a, "/names/web", "1{\"id\":", 7);
	WAIT_FOR(w.err == -EBADMSG);
	assert_int_equal(two_get(&t->b, "web"), -EBADMSG);
	two_write_raw(&t->a, "/names/web", "2{}", 3); /* newer */
	two_write_raw(&t->a, "/containers/0000000001", "1[]", 3);
	assert_int_equal(TWO_CALL(&t->b, container_list, rig_containers, "h0", 0, 10), 0);
	assert_int_equal(two_end.count, 1); /* the other one */
	two_write_raw(&t->a, "/policy", "1{\"rules\":[7]}", 14);
	WAIT_FOR(policy.err == -EBADMSG);
	two_write_raw(&t->a, "/policy", "1{\"rules\":[]}", 13);
	WAIT_FOR(policy.err == 0);
	assert_int_equal(two_get(&t->b, "db"), 0);
	assert_int_equal(other.err, 0);
	two_unwatch(&w);
	two_unwatch(&other);
	two_unwatch(&policy);
}

static void another_version_is_refused(void **state)
{
	static const char *const other[] = { "11", "13" };
	struct two *t = *state;

	for (int i = 0; i < 2; i++) {
		two_write_raw(&t->a, "/version", other[i], 2);
		rig_close(&t->b);
		rig_open(&t->b, t->root);
		assert_int_equal(t->b.ready, 0);
		assert_int_equal(two_get(&t->b, "web"), -EBADMSG);
		assert_int_equal(two_host_up(&t->b, "h0", "i0"), -EBADMSG);
	}
}

/* ---- a host's own credentials ---------------------------------------------------------------- */

/* close() ends what is under way. */
static void closing(void **state)
{
	struct two *t = *state;
	static struct rig_end a, b, c;
	struct store_key key = { .kind = STORE_ID, .id = 1 };
	struct ffo_host h = { .name = "h0", .instance = "i" };
	struct ffo_map row = two_map_of(1, 2);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	memset(&c, 0, sizeof(c));
	assert_int_equal(two_host_up(&t->a, "h1", "i"), 0);
	t->a.s->ops->container_get(t->a.s, &key, rig_container, &a);
	t->a.s->ops->host_up(t->a.s, &h, rig_done, &b);
	t->a.s->ops->map_put(t->a.s, "h1", &row, 1, rig_done, &c);
	rig_close(&t->a);
	assert_true(a.done && b.done && c.done);
	assert_int_equal(a.err, -ECANCELED);
	assert_int_equal(b.err, -ECANCELED);
	assert_int_equal(c.err, -ECANCELED);
}

static void not_backed_up(void *arg, int err, const char *why, const void *data, size_t size)
{
	assert_int_equal(err, -EOPNOTSUPP);
	assert_true(*why && !data && !size);
	*(bool *)arg = true;
}

/* What this store does not do, it refuses: a change that is to be tried must not be made. */
static void what_it_has_not(void **state)
{
	struct two *t = *state;
	bool told = false;

	assert_int_equal(t->a.s->ops->try_next(t->a.s), -EOPNOTSUPP);
	t->a.s->ops->backup(t->a.s, not_backed_up, &told);
	assert_true(told);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO_TEST(many_watches_survive),
		TWO_TEST(a_short_break),
		TWO_TEST(an_older_copy_is_brought_back),
		TWO_TEST(a_session_is_lost),
		TWO_TEST(damage_is_refused),
		TWO_TEST(another_version_is_refused),
		TWO_TEST(what_it_has_not),
		TWO_TEST(closing),
	};

	return two_run(tests);
}
