/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_note.c - what is noted of a container that runs, and of one whose process is gone or is another one by now.
 */
#include "tests/rig/unit/unit.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

#include "ffr/oci/oci.h"

#undef NOTES
#define NOTES "notes" /* in the folder that this test works in */
#include "ffr/oci/note.c"

static char dir[] = "/tmp/test_note.XXXXXX";

static int setup(void **state)
{
	(void)state;
	return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	return rmdir(NOTES) || rmdir(dir);
}

static struct note note_of(pid_t pid)
{
	struct note n = { .added = true, .pid = pid };

	strcpy(n.name, "web");
	strcpy(n.admin, "/run/freeflow/admin.sock");
	return n;
}

static void one_that_runs(void **state)
{
	struct note n = note_of(getpid()), got;

	(void)state;
	assert_int_equal(note_read("a", &got), -ENOENT);
	assert_int_equal(note_write("a", &n), 0);
	assert_int_equal(note_read("a", &got), 0);
	assert_string_equal(got.name, n.name);
	assert_string_equal(got.admin, n.admin);
	assert_true(got.added);
	assert_false(got.follow);
	assert_int_equal(got.pid, getpid());
	assert_true(got.runs);
	note_remove("a");
	assert_int_equal(note_read("a", &got), -ENOENT);
}

static void one_that_has_ended(void **state)
{
	pid_t pid = fork();
	struct note n = note_of(pid), got;

	(void)state;
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(note_write("a", &n), 0);
	assert_int_equal(note_read("a", &got), 0);
	assert_true(got.runs);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	assert_int_equal(note_read("a", &got), 0);
	assert_false(got.runs);
	note_remove("a");
}

/* The number is this process's, which began at another time. */
static void another_process_with_its_number(void **state)
{
	char path[PATH_MAX];
	struct note n = note_of(getpid()), got;
	json_t *j;

	(void)state;
	assert_int_equal(note_write("a", &n), 0);
	j = json_load_file(note_path("a", path), 0, NULL);
	json_object_set_new(j, "began", json_integer(note_began(getpid()) - 1));
	assert_int_equal(json_dump_file(j, path, 0), 0);
	json_decref(j);
	assert_int_equal(note_read("a", &got), 0);
	assert_false(got.runs);
	note_remove("a");
}

static void names_of_notes(void **state)
{
	char id[OCI_ID_MAX];

	(void)state;
	assert_true(note_id("ab.json", id));
	assert_string_equal(id, "ab");
	assert_false(note_id(".json", id));
	assert_false(note_id("ab.jso", id));
	assert_false(note_id("ab", id));
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(one_that_runs),
			      cmocka_unit_test(one_that_has_ended),
			      cmocka_unit_test(another_process_with_its_number),
			      cmocka_unit_test(names_of_notes));
}
