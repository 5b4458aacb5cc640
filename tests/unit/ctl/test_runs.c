/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_runs.c - ffr/ctl/runs.c: that a container runs is told by one id, known to the next router, and gone with it; who asks is
 * told also of a container that nobody has told of.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;

static struct container_ctl *ctl(void)
{
	return g->c[0]->ctl;
}

static char *file(char path[128])
{
	snprintf(path, 128, "%s/containers/.a.runs", g->dir);
	return path;
}

static bool kept(void)
{
	char path[128];

	return !access(file(path), F_OK);
}

/* As the next router finds it: by what is kept only. */
static void recall(uint32_t id)
{
	uint32_t mine = g->c[0]->id;

	free(ctl()->runs);
	ctl()->runs = NULL;
	g->c[0]->id = id;
	assert_int_equal(container_runs_recall(g->c[0]), 0);
	g->c[0]->id = mine;
}

static void one_id(void **state)
{
	(void)state;
	assert_null(ctl()->runs);
	assert_int_equal(container_runs_tell(g->c[0], "4f", true), 0);
	assert_int_equal(container_runs_tell(g->c[0], "4f", true), 0);
	assert_int_equal(container_runs_tell(g->c[0], "5a", true), -EBUSY);
	/* the end of another one, which was refused, is not its */
	assert_int_equal(container_runs_tell(g->c[0], "5a", false), 0);
	assert_string_equal(ctl()->runs, "4f");
	assert_int_equal(container_runs_tell(g->c[0], "4f", false), 0);
	assert_null(ctl()->runs);
	assert_int_equal(container_runs_tell(g->c[0], "4f", false), 0);
	assert_false(kept());
}

static void what_is_no_id(void **state)
{
	static const char *const bad[] = { "", "a b", "a/b", "a\n", "\xff" };
	char text[RUNS_ID_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(container_runs_tell(g->c[0], bad[i], true), -EINVAL);
	memset(text, 'a', sizeof(text));
	text[RUNS_ID_MAX] = '\0';
	assert_int_equal(container_runs_tell(g->c[0], text, true), -EINVAL);
	text[RUNS_ID_MAX - 1] = '\0';
	assert_int_equal(container_runs_tell(g->c[0], text, true), 0);
	recall(g->c[0]->id);
	assert_string_equal(ctl()->runs, text);
}

static void the_next_router_knows_it(void **state)
{
	(void)state;
	assert_int_equal(container_runs_tell(g->c[0], "4f-1", true), 0);
	assert_true(kept());
	recall(g->c[0]->id);
	assert_string_equal(ctl()->runs, "4f-1");
	/* another one of that name */
	recall(g->c[0]->id + 7);
	assert_null(ctl()->runs);
	assert_false(kept());
	assert_int_equal(container_runs_tell(g->c[0], "4f-1", true), 0);
	container_detach(g->c[0]);
	g->c[0] = NULL;
	assert_false(kept());
}

static void damage_and_leftovers(void **state)
{
	char path[160];
	int fd;

	(void)state;
	fd = open(file(path), O_WRONLY | O_CREAT, 0600);
	assert_int_equal(write(fd, "x\n", 2), 2);
	close(fd);
	recall(g->c[0]->id);
	assert_null(ctl()->runs);
	assert_false(kept());
	assert_int_equal(container_runs_tell(g->c[0], "4f", true), 0);
	snprintf(path, sizeof(path), "%s/containers/.old.runs", g->dir);
	assert_int_equal(close(open(path, O_WRONLY | O_CREAT, 0600)), 0);
	containers_sweep(&g->ctl);
	assert_true(kept());
	assert_int_not_equal(access(path, F_OK), 0);
}

/* ---- asked ----------------------------------------------------------------------------------- */

static struct {
	unsigned num;
	enum container_runs runs;
} told;

static void tell(void *arg, enum container_runs runs, bool stale)
{
	(void)stale;
	assert_ptr_equal(arg, &told);
	told.num++;
	told.runs = runs;
}

static enum container_runs ask(void)
{
	told.num = 0;
	container_runs_ask(g->c[0], tell, &told);
	while (!told.num)
		uv_run(&g->loop, UV_RUN_ONCE);
	assert_int_equal(told.num, 1);
	return told.runs;
}

static void it_runs_while_anything_tells_so(void **state)
{
	int s;

	(void)state;
	assert_int_equal(ask(), RUNS_NO);
	assert_int_equal(container_runs_tell(g->c[0], "4f", true), 0);
	assert_int_equal(ask(), RUNS_YES);
	assert_int_equal(container_runs_tell(g->c[0], "4f", false), 0);
	assert_int_equal(ask(), RUNS_NO);
	s = call_client(g, 0);
	assert_int_equal(ask(), RUNS_YES);
	close(s);
	rig_pump(g);
	assert_int_equal(ask(), RUNS_NO);
}

/* As docker run does it with the flags of ffctl: no program has the device open. */
static void it_runs_while_its_folder_is_mounted(void **state)
{
	char dir[128];
	int end[2], began[2];
	char c = 0;
	pid_t pid;

	(void)state;
	snprintf(dir, sizeof(dir), "%s/containers/a", g->dir);
	assert_int_equal(pipe(end) | pipe(began), 0);
	pid = fork();
	if (!pid) {
		close(end[1]);
		if (!unshare(CLONE_NEWNS) && !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
		    !mount(dir, "/mnt", NULL, MS_BIND, NULL))
			c = 'y';
		if (write(began[1], &c, 1) == 1)
			(void)!read(end[0], &c, 1);
		_exit(0);
	}
	assert_int_equal(read(began[0], &c, 1), 1);
	if (c)
		assert_int_equal(ask(), RUNS_YES);
	close(end[0]);
	close(end[1]);
	close(began[0]);
	close(began[1]);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	if (!c) {
		print_message("no right to mount here\n");
		skip();
	}
	assert_int_equal(ask(), RUNS_NO);
}

static void who_has_asked_is_told_at_the_end(void **state)
{
	(void)state;
	told.num = 0;
	container_runs_ask(g->c[0], tell, &told);
	container_detach(g->c[0]);
	g->c[0] = NULL;
	assert_int_equal(told.num, 0);
	container_runs_stop(&g->ctl);
	assert_int_equal(told.num, 1);
	assert_int_equal(told.runs, RUNS_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CALL_TEST(one_id),
		CALL_TEST(what_is_no_id),
		CALL_TEST(the_next_router_knows_it),
		CALL_TEST(damage_and_leftovers),
		CALL_TEST(it_runs_while_anything_tells_so),
		CALL_TEST(it_runs_while_its_folder_is_mounted),
		CALL_TEST(who_has_asked_is_told_at_the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
