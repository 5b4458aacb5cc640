/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_db.c - the file: what survives a restart and what does not, files that are refused.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/store/sqlite/db.c"
#include "tests/rig/unit/sqlite_rig.h"
#include "tests/rig/unit/unit.h"

/* ---- what is kept --------------------------------------------------------------------------- */

static void test_restart(void **state)
{
	struct ffo_rule rule, more;
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL), b = lite_cont("b", "10.9.9.9");
	struct lite_end *e;

	strcpy(b.device_name, "mlx5_0");
	b.devices = 4;
	b.limits = (struct ffo_limits){ .tx_rate = 1000000000000, .max_registered = 1ull << 50 };
	assert_int_equal(lite_up(t, "h0", "boot 1"), 0);
	assert_int_equal(lite_add(t, &a), 0);
	assert_int_equal(lite_add(t, &b), 0);
	assert_int_not_equal(a.id, 0);
	assert_int_not_equal(a.id, b.id);
	assert_int_equal(lite_put_map(t, "h0", &a, 7, 1), 0);
	assert_int_equal(LITE_CALL(t, container_active, "h0", a.id, a.epoch, true, lite_done)->err,
			 0);
	assert_int_equal(ffo_rule_make(&rule, "red", "blue/a", true), 0);
	assert_int_equal(LITE_CALL(t, policy_set, &rule, lite_done)->err, 0);
	assert_int_equal(ffo_rule_make(&more, "red", "blue", false), 0);
	assert_int_equal(LITE_CALL(t, policy_set, &more, lite_done)->err, 0);
	assert_int_equal(LITE_CALL(t, policy_rm, &more, lite_done)->err, 0);
	assert_int_equal(LITE_CALL(t, policy_rm, &more, lite_done)->err, -ENOENT);
	assert_int_equal(lite_num_maps(t), 1);
	e = LITE_CALL(t, host_get, "h0", lite_host_done);
	assert_true(e->h.up);
	a.active = true;
	lite_expect_container(t, &a);

	lite_reopen(t);
	a.active = false; /* ephemeral state */
	lite_expect_container(t, &a);
	lite_expect_container(t, &b);
	assert_int_equal(lite_num_maps(t), 0);
	e = LITE_CALL(t, host_list, "", 8, lite_hosts_listed);
	assert_int_equal(e->n, 1);
	assert_string_equal(e->hosts[0].name, "h0");
	assert_string_equal(e->hosts[0].instance, "boot 1");
	assert_string_equal(e->hosts[0].wire, "tcp:1.2.3.4:5");
	assert_true(e->hosts[0].last_seen == 1ull << 40);
	assert_false(e->hosts[0].up);
	assert_int_equal(LITE_CALL(t, host_list, "h0", 8, lite_hosts_listed)->n, 0);
	assert_int_equal(LITE_CALL(t, host_get, "h1", lite_host_done)->err, -ENOENT);
	/* What is taken is known to be. */
	b = lite_cont("c", NULL);
	assert_int_equal(lite_add(t, &b), 0);
	assert_int_equal(b.lid, 3);
	assert_memory_equal(&b.ip[0].s6_addr[12], "\x0a\x01\x00\x03", 4);
	b = lite_cont("d", "10.9.9.9");
	e = LITE_CALL(t, container_add, &b, lite_container_done);
	assert_int_equal(e->err, -EADDRINUSE);
	assert_string_equal(e->why, "10.9.9.9 is in use in tenant \"blue\"");
}

static void test_durable(void **state)
{
	struct lite *t = *state;
	char text[64];

	assert_int_equal(get_text(store_of(t->s)->db.db, "PRAGMA journal_mode", text), 0);
	assert_string_equal(text, "wal");
	assert_int_equal(get_text(store_of(t->s)->db.db, "PRAGMA synchronous", text), 0);
	assert_string_equal(text, "2"); /* FULL */
}

/* ---- what is refused ------------------------------------------------------------------------ */

/* Change the closed file by SQL, then open it: that error, and the file is as it was. */
static void expect_refused(struct lite *t, const char *sql, int err)
{
	struct stat before, after;
	sqlite3 *db;

	store_sqlite.close(t->s);
	t->s = NULL;
	assert_int_equal(sqlite3_open(t->file, &db), SQLITE_OK);
	assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
	sqlite3_close(db);
	assert_int_equal(stat(t->file, &before), 0);
	assert_int_equal(lite_open(t, &t->s), err);
	assert_null(t->s);
	assert_int_equal(stat(t->file, &after), 0);
	assert_int_equal(after.st_size, before.st_size);
	assert_int_equal(after.st_mtim.tv_sec, before.st_mtim.tv_sec);
	assert_int_equal(after.st_mtim.tv_nsec, before.st_mtim.tv_nsec);
}

static void test_newer(void **state)
{
	expect_refused(*state, "PRAGMA user_version = 6", -EPROTONOSUPPORT);
}

static void test_older(void **state)
{
	expect_refused(*state, "PRAGMA user_version = 3", -EPROTONOSUPPORT);
}

static void test_foreign(void **state)
{
	expect_refused(*state, "PRAGMA application_id = 7", -EBADMSG);
}

/* A program that gives its databases no id. */
static void test_foreign_without_id(void **state)
{
	expect_refused(*state, "PRAGMA application_id = 0", -EBADMSG);
}

/* The file opens, and has a page that nothing names. */
static void test_lost_page(void **state)
{
	expect_refused(*state,
		       "CREATE TABLE lost(a); PRAGMA writable_schema = ON;"
		       "DELETE FROM sqlite_schema WHERE name = 'lost'",
		       -EBADMSG);
}

/* A text has room for its end, or is not taken. */
static void test_text_length(void **state)
{
	struct lite *t = *state;
	struct {
		char text[4], behind;
	} to = { .behind = 'x' };
	sqlite3_stmt *stmt;

	assert_int_equal(sqlite3_prepare_v2(store_of(t->s)->db.db, "SELECT 'abc', 'abcd'", -1,
					    &stmt, NULL),
			 SQLITE_OK);
	assert_int_equal(sqlite3_step(stmt), SQLITE_ROW);
	assert_int_equal(sqldb_text(stmt, 0, to.text, sizeof(to.text)), 0);
	assert_string_equal(to.text, "abc");
	assert_int_equal(sqldb_text(stmt, 1, to.text, sizeof(to.text)), -EBADMSG);
	assert_int_equal(to.behind, 'x');
	sqlite3_finalize(stmt);
}

static void test_no_database(void **state)
{
	struct lite *t = *state;
	static const char text[] =
		"This is a letter of some length, and no database at all. Dear ...";
	int fd;

	store_sqlite.close(t->s);
	t->s = NULL;
	fd = open(t->file, O_WRONLY | O_TRUNC);
	assert_int_equal(write(fd, text, sizeof(text)), sizeof(text));
	close(fd);
	assert_int_equal(lite_open(t, &t->s), -EBADMSG);
	unlink(t->file);
	strcpy(t->file, "/nonexistent/ffo.db");
	assert_int_equal(lite_open(t, &t->s), -EIO);
	assert_null(t->s);
}

static void test_damaged(void **state)
{
	struct lite *t = *state;
	char zero[4096] = { 0 };
	struct stat st;
	int fd;

	for (uint16_t i = 0; i < 200; i++) {
		char name[8], ip[16];
		struct ffo_container c;

		snprintf(name, sizeof(name), "c%u", i);
		snprintf(ip, sizeof(ip), "10.1.2.%u", i + 1);
		c = lite_cont(name, ip);
		assert_int_equal(lite_add(t, &c), 0);
	}
	store_sqlite.close(t->s);
	t->s = NULL;
	fd = open(t->file, O_WRONLY);
	assert_int_equal(fstat(fd, &st), 0);
	assert_true(st.st_size > 16 * 4096);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), st.st_size - 4096), 4096);
	assert_int_equal(pwrite(fd, zero, sizeof(zero), st.st_size - 3 * 4096), 4096);
	close(fd);
	assert_int_equal(lite_open(t, &t->s), -EBADMSG);
	assert_null(t->s);
}

/* Rows that no ffo would write: told, and never handed on; with them, the store does not open. */
static void test_nonsense_rows(void **state)
{
	static const char *const nonsense[] = {
		"UPDATE containers SET name = '../../etc'",
		"UPDATE containers SET lid = 70000",
		"UPDATE containers SET epoch = 0",
		"UPDATE containers SET mode = 'turbo'",
		"UPDATE containers SET host = ''",
		"UPDATE containers SET limits = ''",
		"UPDATE containers SET limits = '{\"weight\":1001}'",
		"UPDATE containers SET tenant = printf('%.*c', 500, 'x')",
		"UPDATE addresses SET addr = x'0102' WHERE idx = 1",
		"UPDATE containers SET device_name = '..'",
		"UPDATE containers SET devices = 17",
		"DELETE FROM addresses",
	};
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL), got;
	struct sqldb *db = &store_of(t->s)->db;
	struct lite_end *e;

	assert_int_equal(lite_add(t, &a), 0);
	for (size_t i = 0; i < sizeof(nonsense) / sizeof(nonsense[0]); i++) {
		assert_int_equal(exec(db, "SAVEPOINT whole"), 0);
		assert_int_equal(exec(db, nonsense[i]), 0);
		assert_int_equal(lite_get_id(t, a.id, &got), -EBADMSG);
		e = LITE_CALL(t, container_list, LITE_NO_NAME, 0, 8, lite_containers_listed);
		assert_int_equal(e->err, -EBADMSG);
		assert_int_equal(e->n, 0);
		assert_int_equal(exec(db, "ROLLBACK TO whole; RELEASE whole"), 0);
	}
	lite_expect_container(t, &a);
	assert_int_equal(exec(db, "INSERT INTO policy VALUES('b', 'a', 1)"), 0);
	store_sqlite.close(t->s);
	t->s = NULL;
	assert_int_equal(lite_open(t, &t->s), -EBADMSG);
}

static void test_second_user(void **state)
{
	struct lite *t = *state;
	struct ffo_store *second = NULL;

	assert_int_equal(lite_open(t, &second), -EBUSY);
	assert_null(second);
	/* That test's books are the second one's, the first one's are gone. */
	store_sqlite.close(t->s);
	t->s = NULL;
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_newer), LITE_TEST(test_older), LITE_TEST(test_foreign),
			LITE_TEST(test_foreign_without_id), LITE_TEST(test_lost_page),
			LITE_TEST(test_text_length), LITE_TEST(test_no_database),
			LITE_TEST(test_damaged), LITE_TEST(test_nonsense_rows),
			LITE_TEST(test_second_user), LITE_TEST(test_restart),
			LITE_TEST(test_durable));
}
