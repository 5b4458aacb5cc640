/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/log.c */
/*
 * test_ffo_store.c - the SQLite store: what survives a restart and what does not, what is refused,
 * and that a failure at any step of a change leaves what was there before.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

/* The Nth step from now fails with that result; 0: none does. */
static unsigned int fail_at;
static int fail_with;

static int step(sqlite3_stmt *stmt)
{
	if (fail_at && !--fail_at)
		return fail_with;
	return sqlite3_step(stmt);
}

#define sqlite3_step step
#include "ffo/store_sqlite.c"
#undef sqlite3_step

struct test {
	struct ffo_store *s;
	char dir[32], file[48];
};

static int set_up(void **state)
{
	struct test *t = calloc(1, sizeof(*t));

	strcpy(t->dir, "/tmp/test_ffo_store.XXXXXX");
	assert_non_null(mkdtemp(t->dir));
	snprintf(t->file, sizeof(t->file), "%s/ffo.db", t->dir);
	assert_int_equal(store_sqlite.open(t->file, &t->s), 0);
	*state = t;
	return 0;
}

static int tear_down(void **state)
{
	struct test *t = *state;
	char wal[64];

	fail_at = 0;
	store_sqlite.close(t->s);
	snprintf(wal, sizeof(wal), "%s-wal", t->file);
	unlink(wal);
	unlink(t->file);
	assert_int_equal(rmdir(t->dir), 0);
	free(t);
	return 0;
}

static void reopen(struct test *t)
{
	store_sqlite.close(t->s);
	t->s = NULL;
	assert_int_equal(store_sqlite.open(t->file, &t->s), 0);
}

static void committed(void *arg, int err)
{
	*(int *)arg = err;
}

static struct ffo_txn *begin(struct test *t)
{
	struct ffo_txn *txn = NULL;

	assert_int_equal(store_sqlite.begin(t->s, &txn), 0);
	return txn;
}

static int commit(struct ffo_txn *txn)
{
	int err = 1;

	store_sqlite.commit(txn, committed, &err);
	assert_int_not_equal(err, 1); /* this store ends a commit at once */
	return err;
}

static struct ffo_container container(const char *name, uint16_t lid, const char *ip)
{
	struct ffo_container c = { .lid = lid, .epoch = 1, .mode = FFO_MODE_SPIN, .num_ips = 2 };

	strcpy(c.name, name);
	strcpy(c.tenant, "blue");
	strcpy(c.host, "h0");
	assert_int_equal(ffo_addr_parse(ip, &c.ip[0]), 0);
	assert_int_equal(ffo_addr_parse("fd77::1", &c.ip[1]), 0);
	c.ip[1].s6_addr[14] = (uint8_t)(lid >> 8);
	c.ip[1].s6_addr[15] = (uint8_t)lid;
	return c;
}

/* Put in a transaction of its own. */
static int put(struct test *t, struct ffo_container *c)
{
	struct ffo_txn *txn = begin(t);
	int err = store_sqlite.container_put(txn, c);

	if (!err)
		return commit(txn);
	store_sqlite.abort(txn);
	return err;
}

static int put_map(struct test *t, uint32_t cont, uint32_t rkey, uint32_t session)
{
	struct ffo_map m = { .container = cont,
			     .rkey = rkey,
			     .session = session,
			     .epoch = 1,
			     .addr = UINT64_MAX - rkey,
			     .length = 4096,
			     .shadow = 1ull << 63 };
	struct ffo_txn *txn = begin(t);

	assert_int_equal(store_sqlite.map_put(txn, &m), 0);
	return commit(txn);
}

static void expect_container(struct test *t, const struct ffo_container *want)
{
	struct ffo_container got;

	assert_int_equal(store_sqlite.container_get(t->s, want->id, &got), 0);
	assert_memory_equal(&got, want, sizeof(got));
	assert_int_equal(store_sqlite.container_find(t->s, want->name, &got), 0);
	assert_memory_equal(&got, want, sizeof(got));
}

struct seen {
	uint32_t n, stop_at;
	uint32_t container[64], rkey[64], session[64];
	uint64_t addr;
};

static int see_map(void *arg, const struct ffo_map *m)
{
	struct seen *seen = arg;

	seen->container[seen->n] = m->container;
	seen->rkey[seen->n] = m->rkey;
	seen->session[seen->n] = m->session;
	seen->addr = m->addr;
	return ++seen->n == seen->stop_at;
}

static struct seen maps(struct test *t, uint32_t only, uint32_t cont, uint32_t rkey, uint32_t stop)
{
	struct seen seen = { .stop_at = stop };

	assert_int_equal(store_sqlite.map_list(t->s, only, cont, rkey, see_map, &seen), 0);
	return seen;
}

static int see_container(void *arg, const struct ffo_container *c)
{
	struct seen *seen = arg;

	seen->container[seen->n] = c->id;
	return ++seen->n == seen->stop_at;
}

static int see_host(void *arg, const struct ffo_host *h)
{
	struct ffo_host *list = arg;

	while (*list->name)
		list++;
	*list = *h;
	return 0;
}

/* ---- what is kept --------------------------------------------------------------------------- */

static void test_restart(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), b = container("b", 2, "10.1.1.2");
	struct ffo_host h = { .name = "h0", .instance = "boot 1", .last_seen = 1ull << 40 };
	struct ffo_host hosts[4] = { 0 };
	struct ffo_txn *txn;

	b.num_ips = 1;
	memset(&b.ip[1], 0, sizeof(b.ip[1]));
	assert_int_equal(put(t, &a), 0);
	assert_int_equal(put(t, &b), 0);
	assert_int_not_equal(a.id, 0);
	assert_int_not_equal(a.id, b.id);
	assert_int_equal(put_map(t, a.id, 7, 1), 0);
	txn = begin(t);
	assert_int_equal(store_sqlite.host_put(txn, &h), 0);
	assert_int_equal(commit(txn), 0);
	assert_int_equal(maps(t, 0, 0, 0, 0).n, 1);

	reopen(t);
	expect_container(t, &a);
	expect_container(t, &b);
	assert_int_equal(store_sqlite.host_list(t->s, "", see_host, hosts), 0);
	assert_memory_equal(&hosts[0], &h, sizeof(h));
	assert_string_equal(hosts[1].name, "");
	memset(hosts, 0, sizeof(hosts));
	assert_int_equal(store_sqlite.host_list(t->s, "h0", see_host, hosts), 0);
	assert_string_equal(hosts[0].name, "");
	assert_int_equal(maps(t, 0, 0, 0, 0).n, 0); /* soft state */
}

static void test_durable(void **state)
{
	struct test *t = *state;
	char text[64];

	assert_int_equal(get_text(store_of(t->s), "PRAGMA journal_mode", text), 0);
	assert_string_equal(text, "wal");
	assert_int_equal(get_text(store_of(t->s), "PRAGMA synchronous", text), 0);
	assert_string_equal(text, "2"); /* FULL */
}

static off_t bytes_on_disk(struct test *t)
{
	char wal[64];
	struct stat st, st_wal;

	snprintf(wal, sizeof(wal), "%s-wal", t->file);
	assert_int_equal(stat(t->file, &st), 0);
	assert_int_equal(stat(wal, &st_wal), 0);
	return st.st_size + st_wal.st_size;
}

/* Publishing writes nothing to the file, changing a container does. */
static void test_soft_is_cheap(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1");
	off_t before;

	assert_int_equal(put(t, &a), 0);
	before = bytes_on_disk(t);
	for (uint32_t i = 1; i < 1000; i++)
		assert_int_equal(put_map(t, a.id, i, 1), 0);
	assert_int_equal(bytes_on_disk(t), before);
	a.epoch++;
	assert_int_equal(put(t, &a), 0);
	assert_true(bytes_on_disk(t) > before);
}

static void test_change(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), gone = a;
	uint32_t first;

	assert_int_equal(put(t, &a), 0);
	a.epoch = UINT32_MAX;
	a.lid = FFO_LID_MAX;
	a.mode = FFO_MODE_SOCKET;
	strcpy(a.host, "h1");
	a.num_ips = 1;
	memset(&a.ip[1], 0, sizeof(a.ip[1]));
	assert_int_equal(ffo_addr_parse("10.9.9.9", &a.ip[0]), 0);
	assert_int_equal(put(t, &a), 0);
	expect_container(t, &a);
	/* What it had is free again. */
	gone = container("b", 1, "10.1.1.1");
	assert_int_equal(put(t, &gone), 0);

	gone.id = 12345;
	assert_int_equal(put(t, &gone), -ENOENT);
	first = a.id;
	{
		struct ffo_txn *txn = begin(t);

		assert_int_equal(store_sqlite.container_del(txn, a.id), 0);
		assert_int_equal(store_sqlite.container_del(txn, a.id), -ENOENT);
		assert_int_equal(commit(txn), 0);
	}
	assert_int_equal(store_sqlite.container_get(t->s, first, &gone), -ENOENT);
	assert_int_equal(store_sqlite.container_find(t->s, "a", &gone), -ENOENT);
}

static void test_ids_are_not_used_again(void **state)
{
	struct test *t = *state;
	uint32_t last = 0;

	for (int i = 0; i < 4; i++) {
		struct ffo_container c = container("a", 1, "10.1.1.1");
		struct ffo_txn *txn;

		assert_int_equal(put(t, &c), 0);
		assert_true(c.id > last);
		last = c.id;
		txn = begin(t);
		assert_int_equal(store_sqlite.container_del(txn, c.id), 0);
		assert_int_equal(commit(txn), 0);
		reopen(t);
	}
}

static void test_unique(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), b;

	assert_int_equal(put(t, &a), 0);
	b = container("a", 2, "10.1.1.2");
	assert_int_equal(put(t, &b), -EEXIST);
	b = container("b", 1, "10.1.1.2");
	assert_int_equal(put(t, &b), -EEXIST);
	b = container("b", 2, "10.1.1.1");
	assert_int_equal(put(t, &b), -EEXIST);
	strcpy(b.tenant, "red"); /* has addresses of its own */
	b.id = 0;
	assert_int_equal(put(t, &b), 0);
	expect_container(t, &a);
	expect_container(t, &b);
}

static void test_abort(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), b = container("b", 2, "10.1.1.2");
	struct ffo_map m = { .container = 1, .rkey = 5, .session = 1, .epoch = 1 };
	struct ffo_txn *txn;

	assert_int_equal(put(t, &a), 0);
	txn = begin(t);
	assert_int_equal(store_sqlite.container_put(txn, &b), 0);
	assert_int_equal(store_sqlite.container_del(txn, a.id), 0);
	assert_int_equal(store_sqlite.map_put(txn, &m), 0);
	store_sqlite.abort(txn);
	expect_container(t, &a);
	assert_int_equal(store_sqlite.container_find(t->s, "b", &b), -ENOENT);
	assert_int_equal(maps(t, 0, 0, 0, 0).n, 0);
}

/* ---- lists and mappings --------------------------------------------------------------------- */

static void test_lists(void **state)
{
	struct test *t = *state;
	struct seen seen = { .stop_at = 3 };
	uint32_t ids[6];

	for (uint16_t i = 0; i < 6; i++) {
		char name[8] = { (char)('f' - i) }, ip[16];
		struct ffo_container c;

		snprintf(ip, sizeof(ip), "10.1.1.%u", i + 1);
		c = container(name, i + 1, ip);
		assert_int_equal(put(t, &c), 0);
		ids[i] = c.id;
	}
	assert_int_equal(store_sqlite.container_list(t->s, ids[1], see_container, &seen), 0);
	assert_int_equal(seen.n, 3);
	assert_memory_equal(seen.container, &ids[2], 3 * sizeof(ids[0]));
}

static void test_maps(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), b = container("b", 2, "10.1.1.2");
	struct ffo_txn *txn;
	struct seen seen;

	strcpy(b.host, "h1");
	assert_int_equal(put(t, &a), 0);
	assert_int_equal(put(t, &b), 0);
	for (uint32_t i = 1; i <= 4; i++) {
		assert_int_equal(put_map(t, a.id, UINT32_MAX - i, 1 + i % 2), 0);
		assert_int_equal(put_map(t, b.id, i, 1), 0);
	}
	assert_int_equal(put_map(t, a.id, UINT32_MAX - 4, 9), 0); /* changes it */
	seen = maps(t, 0, 0, 0, 0);
	assert_int_equal(seen.n, 8);
	assert_int_equal(seen.rkey[0], UINT32_MAX - 4);
	assert_int_equal(seen.session[0], 9);
	assert_int_equal(seen.container[4], b.id);
	assert_true(seen.addr == UINT64_MAX - 4); /* all 64 bits */

	seen = maps(t, 0, a.id, UINT32_MAX - 2, 3); /* behind that one, 3 of them */
	assert_int_equal(seen.n, 3);
	assert_int_equal(seen.rkey[0], UINT32_MAX - 1);
	assert_int_equal(seen.rkey[2], 2);
	assert_int_equal(maps(t, b.id, 0, 0, 0).n, 4);
	assert_int_equal(maps(t, b.id, a.id, 3, 0).n, 4);
	assert_int_equal(maps(t, b.id, b.id, 3, 0).n, 1);
	assert_int_equal(maps(t, a.id, b.id, 0, 0).n, 0);

	txn = begin(t);
	assert_int_equal(store_sqlite.map_del(txn, b.id, 3), 0);
	assert_int_equal(store_sqlite.map_del(txn, b.id, 3), -ENOENT);
	assert_int_equal(store_sqlite.map_drop(txn, a.id, 1), 0); /* its session 1: one left */
	assert_int_equal(commit(txn), 0);
	assert_int_equal(maps(t, b.id, 0, 0, 0).n, 3);
	assert_int_equal(maps(t, a.id, 0, 0, 0).n, 3);

	txn = begin(t);
	assert_int_equal(store_sqlite.map_drop_host(txn, "h1"), 0);
	assert_int_equal(commit(txn), 0);
	assert_int_equal(maps(t, 0, 0, 0, 0).n, 3);
	txn = begin(t);
	assert_int_equal(store_sqlite.container_del(txn, a.id), 0);
	assert_int_equal(commit(txn), 0);
	assert_int_equal(maps(t, 0, 0, 0, 0).n, 0);
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* Change the closed file by SQL, then open it: that error, and the file is as it was. */
static void expect_refused(struct test *t, const char *sql, int err)
{
	struct stat before, after;
	sqlite3 *db;

	store_sqlite.close(t->s);
	t->s = NULL;
	assert_int_equal(sqlite3_open(t->file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(stat(t->file, &before), 0);
	assert_int_equal(store_sqlite.open(t->file, &t->s), err);
	assert_null(t->s);
	assert_int_equal(stat(t->file, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void test_newer(void **state)
{
	expect_refused(*state, "PRAGMA user_version = 2", -EPROTONOSUPPORT);
}

static void test_foreign(void **state)
{
	expect_refused(*state, "PRAGMA application_id = 7", -EBADMSG);
}

static void test_no_database(void **state)
{
	struct test *t = *state;
	static const char text[] =
		"This is a letter of some length, and no database at all. Dear ...";
	int fd;

	store_sqlite.close(t->s);
	t->s = NULL;
	fd = open(t->file, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	close(fd);
	assert_int_equal(store_sqlite.open(t->file, &t->s), -EBADMSG);
	assert_int_equal(store_sqlite.open("/nonexistent/ffo.db", &t->s), -EIO);
	assert_null(t->s);
}

static void test_damaged(void **state)
{
	struct test *t = *state;
	char zero[4096] = { 0 };
	struct stat st;
	int fd;

	for (uint16_t i = 0; i < 200; i++) {
		char name[8], ip[16];
		struct ffo_container c;

		snprintf(name, sizeof(name), "c%u", i);
		snprintf(ip, sizeof(ip), "10.1.2.%u", i + 1);
		c = container(name, i + 1, ip);
		assert_int_equal(put(t, &c), 0);
	}
	store_sqlite.close(t->s);
	t->s = NULL;
	fd = open(t->file, O_WRONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size > 16 * 4096);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), st.st_size - 4096), 4096);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), st.st_size - 3 * 4096), 4096);
	close(fd);
	assert_int_equal(store_sqlite.open(t->file, &t->s), -EBADMSG);
	assert_null(t->s);
}

/* Rows that no ffo would write: told, and never handed on. */
static void test_nonsense_rows(void **state)
{
	static const char *const nonsense[] = {
		"UPDATE containers SET name = '../../etc'",
		"UPDATE containers SET lid = 70000",
		"UPDATE containers SET epoch = 0",
		"UPDATE containers SET mode = 'turbo'",
		"UPDATE containers SET host = ''",
		"UPDATE containers SET tenant = printf('%.*c', 500, 'x')",
		"UPDATE addresses SET addr = x'0102' WHERE idx = 1",
		"DELETE FROM addresses",
	};
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), got;
	struct seen seen = { 0 };
	struct store *s = store_of(t->s);

	assert_int_equal(put(t, &a), 0);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		assert_int_equal(exec(s, "SAVEPOINT whole"), 0);
		assert_int_equal(exec(s, nonsense[i]), 0);
		assert_int_equal(store_sqlite.container_get(t->s, a.id, &got), -EBADMSG);
		assert_int_equal(store_sqlite.container_list(t->s, 0, see_container, &seen),
				 -EBADMSG);
		assert_int_equal(seen.n, 0);
		assert_int_equal(exec(s, "ROLLBACK TO whole; RELEASE whole"), 0);
	}
	expect_container(t, &a);
}

static void test_second_user(void **state)
{
	struct test *t = *state;
	struct ffo_store *second = NULL;

	assert_int_equal(store_sqlite.open(t->file, &second), -EBUSY);
	assert_null(second);
}

/* ---- failures ------------------------------------------------------------------------------- */

static int change_all(struct test *t, struct ffo_container *a, struct ffo_container *b)
{
	struct ffo_map m = { .container = a->id, .rkey = 5, .session = 1, .epoch = 1 };
	const struct ffo_store_ops *ops = &store_sqlite;
	struct ffo_host h = { .name = "h9" };
	struct ffo_txn *txn;
	int err;

	err = ops->begin(t->s, &txn);
	if (err)
		return err;
	err = ops->container_put(txn, b);
	if (!err)
		err = ops->container_put(txn, a);
	if (!err)
		err = ops->host_put(txn, &h);
	if (!err)
		err = ops->map_drop(txn, a->id, 0);
	if (!err)
		err = ops->map_put(txn, &m);
	if (!err)
		return commit(txn);
	ops->abort(txn);
	return err;
}

/* Whatever step fails, the change does not take place, and the next one does. */
static void test_fail_nth_step(void **state)
{
	static const struct {
		int rc, err;
	} faults[] = { { SQLITE_FULL, -ENOSPC },
		       { SQLITE_IOERR, -EIO },
		       { SQLITE_NOMEM, -ENOMEM } };
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), was, b, got;
	struct ffo_host hosts[4] = { 0 };
	unsigned int n;
	int err;

	assert_int_equal(put(t, &a), 0);
	assert_int_equal(put_map(t, a.id, 7, 1), 0);
	was = a;
	for (size_t f = 0; f < sizeof(faults) / sizeof(faults[0]); f++)
		for (n = 1;; n++) {
			a = was;
			a.epoch++;
			strcpy(a.host, "h1");
			b = container("b", 2, "10.1.1.2");
			if (f < 2 && n > 12)
				break;
			fail_at = n;
			fail_with = faults[f].rc;
			err = change_all(t, &a, &b);
			if (fail_at) { /* was not reached: the change is shorter */
				assert_int_equal(err, 0);
				break;
			}
			assert_int_equal(err, faults[f].err);
			expect_container(t, &was);
			assert_int_equal(store_sqlite.container_find(t->s, "b", &got), -ENOENT);
			assert_int_equal(store_sqlite.host_list(t->s, "", see_host, hosts), 0);
			assert_string_equal(hosts[0].name, "");
			assert_int_equal(maps(t, 0, 0, 0, 0).rkey[0], 7);
		}
	assert_true(n > 12);
	fail_at = 0;
	reopen(t);
	expect_container(t, &a);
	expect_container(t, &b);
}

static void test_fail_reads(void **state)
{
	struct test *t = *state;
	struct ffo_container a = container("a", 1, "10.1.1.1"), got;
	struct seen seen = { 0 };

	assert_int_equal(put(t, &a), 0);
	assert_int_equal(put_map(t, a.id, 7, 1), 0);
	fail_with = SQLITE_IOERR;
	for (unsigned int n = 1; n <= 3; n++) { /* the row, its addresses */
		fail_at = n;
		assert_int_equal(store_sqlite.container_get(t->s, a.id, &got), -EIO);
		fail_at = n;
		assert_int_equal(store_sqlite.container_list(t->s, 0, see_container, &seen), -EIO);
		assert_int_equal(seen.n, 0);
	}
	fail_at = 2;
	assert_int_equal(store_sqlite.map_list(t->s, 0, 0, 0, see_map, &seen), -EIO);
	expect_container(t, &a);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
	const struct CMUnitTest tests[] = {
		T(test_restart),
		T(test_durable),
		T(test_soft_is_cheap),
		T(test_change),
		T(test_ids_are_not_used_again),
		T(test_unique),
		T(test_abort),
		T(test_lists),
		T(test_maps),
		T(test_newer),
		T(test_foreign),
		T(test_no_database),
		T(test_damaged),
		T(test_nonsense_rows),
		T(test_second_user),
		T(test_fail_nth_step),
		T(test_fail_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
