/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/sqlite_rig.c ffr/lib/log.c -Wl,--wrap=sqlite3_step */
/*
 * test_copy.c - copies of the store's file: taken while it is open, read, written to another file.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/store/sqlite/copy.c"
#include "tests/rig/unit/sqlite_rig.h"
#include "tests/rig/unit/unit.h"

static char why[200];

static void path_of(const struct lite *t, const char *name, char path[64])
{
	snprintf(path, 64, "%s/%s", t->dir, name);
}

static void put_file(const char *path, const void *data, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, data, size), size);
	close(fd);
}

static void backed_up(void *arg, int err, const char *text, const void *data, size_t size)
{
	(void)text;
	assert_int_equal(err, 0);
	put_file(arg, data, size);
}

static void identity_told(void *arg, int err, const char *text, const char *id, uint32_t last)
{
	(void)text, (void)last;
	assert_int_equal(err, 0);
	snprintf(arg, STORE_ID_MAX, "%s", id);
}

static void close_store(struct lite *t)
{
	store_sqlite.close(t->s);
	t->s = NULL;
}

/* A container that is in the write-ahead log still is in the copy; one that came later is not. */
static void test_backup_and_restore(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL), late = lite_cont("late", NULL);
	struct store_key name = { .kind = STORE_NAME, .name = "late" };
	char path[64], id[STORE_ID_MAX];
	struct sqlite_copy c;

	path_of(t, "backup", path);
	assert_int_equal(lite_add(t, &a), 0);
	store_sqlite.backup(t->s, backed_up, path);
	assert_int_equal(lite_add(t, &late), 0);
	store_sqlite.identity(t->s, identity_told, id);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), 0);
	assert_int_equal(c.containers, 1);
	assert_string_equal(c.id, id);

	assert_int_equal(sqlite_copy_write(&c, t->file, true, why, sizeof(why)), -EBUSY);
	close_store(t);
	assert_int_equal(sqlite_copy_write(&c, t->file, false, why, sizeof(why)), -EEXIST);
	assert_int_equal(sqlite_copy_write(&c, t->file, true, why, sizeof(why)), 0);
	sqlite_copy_close(&c);
	assert_int_equal(lite_open(t, &t->s), 0);
	lite_expect_container(t, &a);
	assert_int_equal(LITE_CALL(t, container_get, &name, lite_container_done)->err, -ENOENT);
	memset(id, 0, sizeof(id));
	store_sqlite.identity(t->s, identity_told, id);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), 0);
	assert_string_equal(c.id, id);
	sqlite_copy_close(&c);
	unlink(path);
}

/* A store that was not closed, with its write-ahead log, is a backup as well. */
static void test_file_that_was_copied(void **state)
{
	struct lite *t = *state;
	struct ffo_container a = lite_cont("a", NULL);
	char path[64], cmd[300];
	struct sqlite_copy c;

	path_of(t, "copied", path);
	assert_int_equal(lite_add(t, &a), 0);
	snprintf(cmd, sizeof(cmd), "cp %s %s && cp %s-wal %s-wal", t->file, path, t->file, path);
	assert_int_equal(system(cmd), 0);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), 0);
	assert_int_equal(c.containers, 1);
	sqlite_copy_close(&c);
	snprintf(cmd, sizeof(cmd), "rm -f %s %s-wal %s-shm", path, path, path);
	assert_int_equal(system(cmd), 0);
}

static void test_new_file(void **state)
{
	struct lite *t = *state;
	struct sqlite_copy c;
	struct stat st;
	char path[64];

	path_of(t, "new", path);
	store_sqlite.backup(t->s, backed_up, path);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), 0);
	unlink(path);
	assert_int_equal(sqlite_copy_write(&c, path, false, why, sizeof(why)), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0600);
	/* one of no bytes holds nothing that could be lost */
	put_file(path, "", 0);
	assert_int_equal(sqlite_copy_write(&c, path, false, why, sizeof(why)), 0);
	unlink(path);
	path_of(t, "none/new", path);
	assert_int_equal(sqlite_copy_write(&c, path, false, why, sizeof(why)), -EIO);
	sqlite_copy_close(&c);
}

static void test_refused(void **state)
{
	static const char text[] =
		"This is a letter of some length, and no database at all. Dear ...";
	struct lite *t = *state;
	struct sqlite_copy c;
	struct stat st;
	char path[64];

	path_of(t, "bad", path);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), -EIO);
	put_file(path, "", 0);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), -EBADMSG);
	assert_string_equal(why, "an empty file, and no store");
	put_file(path, text, sizeof(text));
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), -EBADMSG);
	/* and none of these is written over */
	store_sqlite.backup(t->s, backed_up, path);
	assert_int_equal(sqlite_copy_load(&c, path, why, sizeof(why)), 0);
	put_file(path, text, sizeof(text));
	assert_int_equal(sqlite_copy_write(&c, path, true, why, sizeof(why)), -EBADMSG);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, sizeof(text));
	sqlite_copy_close(&c);
	unlink(path);
}

int main(void)
{
	return UNIT_RUN(LITE_TEST(test_backup_and_restore), LITE_TEST(test_file_that_was_copied),
			LITE_TEST(test_new_file), LITE_TEST(test_refused));
}
