/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/zk_two.c tests/rig/unit/zk_rig.c ffr/lib/log.c -lzookeeper_st */
/* timeout: 300 */
/*
 * test_acl.c - credentials, and what a host may write with its own.
 */
#include <errno.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/unit/zk_two.h"

/* ---- damage --------------------------------------------------------------------------------- */

/* What is made with credentials is for who has them. */
static void credentials(void **state)
{
	static char file[] = "/tmp/test_store_zk.XXXXXX";
	struct two *t = *state;
	char root[96];
	int fd = mkstemp(file);

	assert_int_equal(write(fd, "digest:ff:secret\n", 17), 17);
	close(fd);
	rig_close(&t->a);
	rig_close(&t->b);
	snprintf(root, sizeof(root), "/locked%u?auth=%s", two_roots, file);
	rig_open(&t->a, root);
	assert_int_equal(two_add(&t->a, "web", "default", "h0", NULL), 0);
	rig_open(&t->b, root);
	assert_int_equal(two_get(&t->b, "web"), 0);
	rig_close(&t->b);
	snprintf(root, sizeof(root), "/locked%u", two_roots);
	rig_open(&t->b, root);
	assert_int_equal(t->b.ready, 0);
	assert_int_equal(two_get(&t->b, "web"), -EBADMSG);
	unlink(file);
}

/* ---- a host's own credentials ---------------------------------------------------------------- */

static char secrets[] = "/tmp/test_store_zk_d.XXXXXX";

/* USER:HASH of digest:USER:USER-secret. */
static const char *id_of(const char *user)
{
	static char id[4][256];
	static unsigned int next;
	char *text = id[next++ % 4], plain[96];
	unsigned char hash[EVP_MAX_MD_SIZE], base64[2 * EVP_MAX_MD_SIZE];
	unsigned int len;

	snprintf(plain, sizeof(plain), "%s:%s-secret", user, user);
	assert_int_equal(EVP_Digest(plain, strlen(plain), hash, &len, EVP_sha1(), NULL), 1);
	EVP_EncodeBlock(base64, hash, (int)len);
	snprintf(text, sizeof(id[0]), "%s:%s", user, (const char *)base64);
	return text;
}

static int remove_secrets(void)
{
	char command[64];

	snprintf(command, sizeof(command), "rm -r %s", secrets);
	return system(command);
}

/* The root with the file of that user, which is made. */
static const char *root_as(const char *user, const char *more)
{
	static char root[128];
	char path[96];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", secrets, user);
	f = fopen(path, "w");
	assert_non_null(f);
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	fprintf(f, "digest:cluster:cluster-secret\n");
	fprintf(f, "own digest:%s:%s-secret\n", user, user);
	fprintf(f, "operator %s\n%s", id_of("operator"), more);
	fclose(f);
	snprintf(root, sizeof(root), "/own%u?auth=%s", two_roots, path);
	return root;
}

static const char *operator_root(void)
{
	char hosts[400];

	snprintf(hosts, sizeof(hosts), "# the hosts\n\nhost h0 %s\nhost h1 %s\n", id_of("h0"),
		 id_of("h1"));
	return root_as("operator", hosts);
}

static void refused_end(void *arg, const struct zk_reply *r)
{
	*(int *)arg = r->err;
}

/* What ZooKeeper itself says to a change that no ffo would make. */
#define RAW(r, op, ...)                                                                            \
	({                                                                                         \
		int raw_err = 1;                                                                   \
		assert_int_equal(op(zks_of((r)->s)->zk, __VA_ARGS__, refused_end, &raw_err), 0);   \
		WAIT_FOR(raw_err <= 0);                                                            \
		raw_err;                                                                           \
	})

static int move_to(struct rig_store *r, const char *name, const char *host, enum ffo_mode mode)
{
	struct ffo_container was, now;

	assert_int_equal(two_get(r, name), 0);
	was = now = two_end.c;
	now.mode = (uint8_t)mode;
	if (strcmp(was.host, host)) {
		memset(now.host, 0, sizeof(now.host));
		strcpy(now.host, host);
		now.epoch++;
	}
	return TWO_CALL(r, container_set, rig_container, &was, &now, 0);
}

/*
 * Three processes, each with its own credentials: an operator's, and those of h0 and h1. h1 has been
 * broken into, and tries what it can on what h0 has.
 */
static void what_is_a_hosts_own(void **state)
{
	struct two *t = *state;
	struct ffo_rule rule = { .a = "a", .b = "b", .allow = true };
	const struct ffo_limits_change limits = { .set = 1u << FFO_LIMIT_NR_max_qp,
						  .to.max_qp = 7 };
	struct rig_store op = { 0 };
	struct two_watched w = { .w.key.id = 1, .w.key.epoch = 1 };
	struct store_key key = { .kind = STORE_ID, .id = 1 };
	struct ffo_container web;
	char segment[200] = "/hosts/h0/maps/0000000001";

	rig_close(&t->a);
	rig_close(&t->b);
	assert_non_null(mkdtemp(secrets));
	/* A host makes no tree; it is told of the operator's. */
	rig_begin(&t->a, root_as("h0", ""));
	rig_begin(&t->b, root_as("h1", ""));
	for (int i = 0; i < 100; i++)
		rig_turn();
	assert_int_equal(t->a.ready, 0);
	rig_open(&op, operator_root());
	WAIT_FOR(t->a.ready == 1 && t->b.ready == 1);
	assert_int_equal(two_get(&op, "web"),
			 -ENOENT); /* the hosts' folders were made before that */

	/* h0 does what a host does. */
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);
	assert_int_equal(two_add(&t->a, "web", "default", "h0", "10.9.9.9"), 0);
	assert_int_equal(two_put_maps(&t->a, "h0", 1, 1, 10), 0);
	assert_int_equal(move_to(&t->a, "web", "h0", FFO_MODE_SPIN), 0);
	two_watch(&t->b, &w, STORE_MAP, "h0");
	WAIT_FOR(w.synced);
	assert_int_equal(two_rows_of(&w), 10);

	/* h1 is no other host, and has no place where there is none for it. */
	assert_int_equal(two_host_up(&t->b, "h0", "i0"), -EACCES);
	assert_int_equal(two_host_up(&t->b, "h2", "i2"), -EACCES);
	assert_non_null(strstr(two_end.why, "an operator"));
	assert_int_equal(two_host_up(&t->b, "h1", "i1"), 0);
	/* It takes nothing, removes nothing, and changes no policy or limits. */
	assert_int_equal(move_to(&t->b, "web", "h1", FFO_MODE_SPIN), -EACCES);
	assert_non_null(strstr(two_end.why, "an operator's credentials"));
	assert_int_equal(move_to(&t->b, "web", "h0", FFO_MODE_SOCKET), -EACCES);
	assert_int_equal(two_get(&t->b, "web"), 0);
	web = two_end.c;
	assert_int_equal(TWO_CALL(&t->b, container_del, rig_container, &web), -EACCES);
	assert_int_equal(TWO_CALL(&t->b, policy_set, rig_done, &rule), -EACCES);
	assert_int_equal(TWO_CALL(&t->b, tenant_set, rig_done, "a", &limits), -EACCES);

	/* Nor past any ffo. */
	assert_int_equal(RAW(&t->b, zk_set, "/containers/0000000001", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/names/web", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/names/web", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/addrs/default/10.9.9.9", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/owned/h0/0000000001", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/hosts/h0", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/hosts/h0/up", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_delete, "/hosts/h0/up", -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_create, "/hosts/h0/x", "", 0, ZK_EPHEMERAL), -EACCES);
	assert_int_equal(RAW(&t->b, zk_create, "/hosts/h3", "", 0, ZK_PERSISTENT), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/policy", "1{\"rules\":[]}", 13, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_create, "/tenants", "", 0, ZK_PERSISTENT), -EACCES);
	assert_int_equal(RAW(&t->b, zk_set, "/version", "11", 2, -1), -EACCES);
	assert_int_equal(RAW(&t->b, zk_to_operators, "/hosts/h0"), -EACCES);
	assert_int_equal(RAW(&t->b, zk_to_operators, "/containers"), -EACCES);
	strcat(segment, "/1-1-1");
	assert_int_equal(RAW(&t->b, zk_create, segment, "", 0, ZK_EPHEMERAL), -EACCES);
	assert_int_equal(two_rows_of(&w), 10);
	two_unwatch(&w);

	/* An operator does all of it; what is moved is not the old host's any more, even to write. */
	assert_int_equal(TWO_CALL(&op, policy_set, rig_done, &rule), 0);
	assert_int_equal(TWO_CALL(&op, tenant_set, rig_done, "a", &limits), 0);
	assert_int_equal(move_to(&op, "web", "h1", FFO_MODE_SPIN), 0);
	assert_int_equal(move_to(&t->a, "web", "h0", FFO_MODE_SPIN), -EACCES);
	assert_int_equal(RAW(&t->a, zk_set, "/containers/0000000001", "", 0, -1), -EACCES);
	assert_int_equal(RAW(&t->a, zk_set, "/addrs/default/10.9.9.9", "", 0, -1), -EACCES);
	assert_int_equal(TWO_CALL(&t->b, container_active, rig_done, "h1", 1, 2, true), 0);
	assert_int_equal(TWO_CALL(&op, container_get, rig_container, &key), 0);
	assert_true(two_end.c.active && !strcmp(two_end.c.host, "h1"));
	web = two_end.c;
	assert_int_equal(TWO_CALL(&op, container_del, rig_container, &web), 0);
	/* A host that is gone for good is forgotten by an operator only; it keeps its place. */
	assert_int_equal(two_host_down(&t->a, "h0", "i0"), 0);
	assert_int_equal(TWO_CALL(&t->b, host_del, rig_done, "h0"), -EACCES);
	assert_int_equal(TWO_CALL(&op, host_del, rig_done, "h0"), 0);
	assert_int_equal(TWO_CALL(&op, host_get, rig_host, "h0"), -ENOENT);
	assert_int_equal(two_host_up(&t->a, "h0", "i0"), 0);

	rig_close(&op);
	assert_int_equal(remove_secrets(), 0);
}

static void wrong_places(void **state)
{
	static const char *const wrong[] = { "",
					     "localhost:2181",
					     "127.0.0.1",
					     "127.0.0.1:0",
					     "127.0.0.1:2181,",
					     "127.0.0.1:2181/a//b",
					     "127.0.0.1:2181/../a",
					     "127.0.0.1:2181?timeout=0",
					     "127.0.0.1:2181?x=1",
					     "127.0.0.1:2181?auth=/nonexistent",
					     "127.0.0.1:2181",
					     "127.0.0.1:2181/a?timeout=2000",
					     "127.0.0.1:2181?auth=none",
					     "127.0.0.1:2181?auth=" };
	struct store_conf conf = { .loop = &rig_loop };
	struct ffo_store *s = NULL;

	(void)state;
	for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
		conf.where = wrong[i];
		assert_int_equal(store_zk.open(&conf, &s), -EINVAL);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		TWO_TEST(credentials),
		TWO_TEST(what_is_a_hosts_own),
		TWO_TEST(wrong_places),
	};

	return two_run(tests);
}
