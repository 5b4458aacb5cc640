/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_two.c tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_stranger.c - ffo/store/zk/acl.c, call.c and zks.c: what somebody can do who reaches the
 * ensemble and has no credentials: to a tree that was made with them, and before it is made.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ffo/store/zk/internal.h"
#include "tests/rig/unit/zk_two.h"

/* ---- the stranger ---------------------------------------------------------------------------- */

static struct zk *z; /* its paths are whole ones */
static bool is_connected;

static void on_connected(void *arg, bool fresh, bool watches)
{
	(void)arg, (void)fresh, (void)watches;
	is_connected = true;
}

static void on_other(void *arg)
{
	(void)arg;
	is_connected = false;
}

static void on_change(void *arg, const char *path, enum zk_change what)
{
	(void)arg, (void)path, (void)what;
}

static const struct zk_events events = { .connected = on_connected,
					 .disconnected = on_other,
					 .expired = on_other,
					 .changed = on_change };

static void stranger_open(const struct zk_session *session)
{
	struct zk_conf conf = {
		.servers = rig_servers(), .root = "", .timeout = 6000, .session = session
	};

	is_connected = false;
	assert_int_equal(zk_open(&rig_loop, &conf, &events, NULL, &z), 0);
	WAIT_FOR(is_connected);
}

static struct zk_reply reply;
static bool done;

static void on_reply(void *arg, const struct zk_reply *r)
{
	(void)arg;
	reply = *r;
	done = true;
}

#define TRY(op, ...)                                                                               \
	({                                                                                         \
		done = false;                                                                      \
		assert_int_equal(op(z, __VA_ARGS__, on_reply, NULL), 0);                           \
		WAIT_FOR(done);                                                                    \
		reply.err;                                                                         \
	})

/* ---- a tree that was made with credentials --------------------------------------------------- */

static char file[] = "/tmp/test_stranger.XXXXXX";
static char root[32], locked[96]; /* the tree's, without and with the credentials */

static int credentials(void **state)
{
	int fd = mkstemp(file);

	(void)state;
	if (fd < 0 || write(fd, "digest:ff:secret\n", 17) != 17)
		return -1;
	return close(fd);
}

static void locked_root(void)
{
	snprintf(root, sizeof(root), "/locked%u", two_roots);
	snprintf(locked, sizeof(locked), "%s?auth=%s", root, file);
}

static const char *in_root(const char *path)
{
	static char full[4][128];
	static unsigned next;
	char *text = full[next++ % 4];

	snprintf(text, sizeof(full[0]), "%s%s", root, path);
	return text;
}

/*
 * What it names is of the tree: it reads, changes, adds and removes nothing, and is not told who
 * may.
 */
static void the_tree_is_closed(void **state)
{
	static const char *const nodes[] = {
		"",	  "/version", "/policy", "/ids",      "/containers", "/names", "/lids",
		"/addrs", "/owned",   "/hosts",	 "/hosts/h0", "/active",     "/mcast"
	};
	struct two *t = *state;
	char below[160];

	rig_close(&t->b);
	rig_close(&t->a);
	locked_root();
	rig_open(&t->a, locked);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(two_add(&t->a, "web", "default", "h0", NULL), 0);
	stranger_open(NULL);
	for (size_t i = 0; i < sizeof(nodes) / sizeof(nodes[0]); i++) {
		const char *path = in_root(nodes[i]);

		assert_int_equal(TRY(zk_get, path, false), -EACCES);
		assert_int_equal(TRY(zk_children, path, false), -EACCES);
		assert_int_equal(TRY(zk_get_acl, path), -EACCES);
		assert_int_equal(TRY(zk_set, path, "x", 1, -1), -EACCES);
		assert_int_equal(TRY(zk_to_operators, path), -EACCES);
		snprintf(below, sizeof(below), "%s/more", path);
		assert_int_equal(TRY(zk_create, below, "x", 1, ZK_PERSISTENT), -EACCES);
		assert_int_equal(TRY(zk_create, below, "x", 1, ZK_EPHEMERAL), -EACCES);
		/* of the root the right to remove is its folder's, but there is something in it */
		assert_int_equal(TRY(zk_delete, path, -1), *nodes[i] ? -EACCES : -ENOTEMPTY);
	}
	/* nor is it an ffo's without credentials */
	zk_close(z);
	z = NULL;
	rig_open(&t->b, in_root(""));
	assert_int_equal(two_get(&t->b, "web"), -EBADMSG);
	assert_int_equal(two_get(&t->a, "web"), 0);
}

/*
 * What ZooKeeper itself does not keep from anybody, and freeflow cannot: that a node is there, and
 * when it changes; nodes beside the tree; and the end of another's session, whose number is told
 * with its nodes and whose password follows from the number. That needs no credentials, so only the
 * network keeps strangers away (docs/operate/zookeeper.md).
 */
static void what_zookeeper_tells_all(void **state)
{
	struct two *t = *state;

	rig_close(&t->b);
	rig_close(&t->a);
	locked_root();
	rig_open(&t->a, locked);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	stranger_open(NULL);
	assert_int_equal(TRY(zk_exists, in_root("/hosts/h0/up"), false), 0);
	assert_true(reply.stat.owner == zks_of(t->a.s)->session.id);
	assert_int_equal(TRY(zk_create, in_root("beside"), "x", 1, ZK_PERSISTENT), 0);
	rig_close(&t->a);
	WAIT_FOR(TRY(zk_exists, in_root("/hosts/h0/up"), false) == -ENOENT);
	zk_close(z);
	z = NULL;
}

/*
 * java.util.Random, from which ZooKeeper's SessionTrackerImpl and ZooKeeperServer take a session's
 * password.
 */
static void password_of(int64_t id, char passwd[16])
{
	const uint64_t multiplier = 0x5deece66d, mask = (1ull << 48) - 1;
	uint64_t seed = ((uint64_t)id ^ 0xb3415c00 ^ multiplier) & mask;

	for (int i = 0; i < 16; i++) {
		static uint32_t word;

		if (i % 4 == 0) {
			seed = (seed * multiplier + 0xb) & mask;
			word = (uint32_t)(seed >> 16);
		}
		passwd[i] = (char)(word >> i % 4 * 8);
	}
}

/*
 * A stranger ends the session that way: the host takes another one, and publishes anew what it had.
 */
static void a_session_that_a_stranger_ends(void **state)
{
	struct two *t = *state;
	struct zk_session session;
	struct two_watched w = { 0 };

	rig_close(&t->b);
	rig_close(&t->a);
	locked_root();
	rig_open(&t->a, locked);
	rig_open(&t->b, locked);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	stranger_open(NULL);
	assert_int_equal(TRY(zk_exists, in_root("/hosts/h0/up"), false), 0);
	session.id = reply.stat.owner;
	zk_close(z);
	password_of(session.id, session.passwd);
	assert_memory_equal(session.passwd, zks_of(t->a.s)->session.passwd, 16);
	rig_expire(&t->a); /* has no more than that */
	WAIT_FOR(t->a.lost == 1 && t->a.state == STORE_READY);
	assert_true(zks_of(t->a.s)->session.id != session.id);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	two_watch(&t->b, &w, STORE_HOST, "h0");
	WAIT_FOR(w.there && w.h.up);
	two_unwatch(&w);
}

/* ---- before the tree is made ----------------------------------------------------------------- */

static void no_tree_yet(struct two *t)
{
	rig_close(&t->b);
	rig_close(&t->a);
	locked_root();
	stranger_open(NULL);
}

static void it_is_refused(struct two *t)
{
	rig_begin(&t->a, locked);
	WAIT_FOR(zks_of(t->a.s)->refused);
	assert_int_equal(two_get(&t->a, "web"), -EBADMSG);
	zk_close(z);
	rig_begin(&t->b, locked); /* and by others */
	WAIT_FOR(zks_of(t->b.s)->refused);
	assert_int_equal(t->b.ready, 0);
}

/*
 * A root that is empty and open to all: what ffo makes in it would be closed, but anybody could
 * make more.
 */
static void somebody_made_the_root(void **state)
{
	no_tree_yet(*state);
	assert_int_equal(TRY(zk_create, root, "", 0, ZK_PERSISTENT), 0);
	it_is_refused(*state);
}

/* A folder in it, too: now the tree cannot be made as one. */
static void somebody_made_a_folder(void **state)
{
	no_tree_yet(*state);
	assert_int_equal(TRY(zk_create, root, "", 0, ZK_PERSISTENT), 0);
	assert_int_equal(TRY(zk_create, in_root("/containers"), "", 0, ZK_PERSISTENT), 0);
	it_is_refused(*state);
}

/* A whole tree, by an ffo without credentials. */
static void somebody_made_the_tree(void **state)
{
	struct two *t = *state;

	no_tree_yet(t);
	rig_open(&t->a, in_root(""));
	assert_int_equal(two_add(&t->a, "web", "default", "h0", NULL), 0);
	rig_close(&t->a);
	it_is_refused(t);
}

static void on_acl(int rc, const void *arg)
{
	(void)arg;
	assert_int_equal(rc, ZOK);
	done = true;
}

/* One node of a tree that is closed otherwise is open to all. */
static void a_folder_is_open(void **state)
{
	struct two *t = *state;
	struct zk *owner;

	no_tree_yet(t);
	rig_open(&t->a, locked);
	owner = zks_of(t->a.s)->zk;
	done = false;
	assert_int_equal(zoo_aset_acl(owner->zh, in_root("/names"), -1, &ZOO_OPEN_ACL_UNSAFE,
				      on_acl, NULL),
			 ZOK);
	owner->dirty = true;
	WAIT_FOR(done);
	rig_close(&t->a);
	it_is_refused(t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO_TEST(the_tree_is_closed),
		TWO_TEST(what_zookeeper_tells_all),
		TWO_TEST(a_session_that_a_stranger_ends),
		TWO_TEST(somebody_made_the_root),
		TWO_TEST(somebody_made_a_folder),
		TWO_TEST(somebody_made_the_tree),
		TWO_TEST(a_folder_is_open),
	};
	int err;

	if (credentials(NULL))
		return 1;
	err = two_run(tests);
	unlink(file);
	return err;
}
