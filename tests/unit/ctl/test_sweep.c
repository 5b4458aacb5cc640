/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_sweep.c - ffr/ctl/sweep.c: folders of containers that the orchestrator does not know are removed,
 * with what is kept beside them. Folders that a container has mounted stay.
 * build: tests/rig/unit/mounter.c tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "tests/rig/unit/mounter.h"

static struct ctl_rig *const g = &call_rig;

static const char *path_of(const char *name)
{
	static char path[192];

	snprintf(path, sizeof(path), "%s/containers/%s", g->dir, name);
	return path;
}

static bool is_there(const char *name)
{
	return !access(path_of(name), F_OK);
}

/* A folder with a socket that nobody serves, and notes. */
static void leave(const char *name)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int s = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	char note[64];

	assert_int_equal(mkdir(path_of(name), 0755), 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%.60s/containers/%.20s/ffr.sock", g->dir, name);
	assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(s);
	snprintf(note, sizeof(note), ".%s.cgroup", name);
	assert_int_equal(close(open(path_of(note), O_WRONLY | O_CREAT, 0600)), 0);
	snprintf(note, sizeof(note), ".%s.nic", name);
	assert_int_equal(close(open(path_of(note), O_WRONLY | O_CREAT, 0600)), 0);
}

static void sweep(void)
{
	containers_sweep(&g->ctl);
	while (!LIST_EMPTY(&g->ctl.leftovers))
		uv_run(&g->loop, UV_RUN_ONCE);
}

static void leftovers_are_removed(void **state)
{
	(void)state;
	leave("old");
	leave("older");
	sweep();
	assert_false(is_there("old"));
	assert_false(is_there("older"));
	assert_false(is_there(".old.cgroup"));
	assert_false(is_there(".older.nic"));
	assert_true(is_there("a/ffr.sock"));
}

static void one_that_is_mounted_stays(void **state)
{
	struct stat before, st;
	int end[2];
	pid_t pid;

	(void)state;
	leave("old");
	leave("runs");
	assert_int_equal(stat(path_of("runs"), &before), 0);
	pid = mounter_start(path_of("runs"), "/mnt", end);
	if (!pid) {
		print_message("no right to mount here\n");
		skip();
	}
	sweep();
	assert_false(is_there("old"));
	assert_int_equal(stat(path_of("runs"), &st), 0);
	assert_int_equal(st.st_ino, before.st_ino);
	assert_true(is_there(".runs.cgroup"));
	assert_true(is_there(".runs.nic"));
	/* when it has stopped */
	mounter_stop(pid, end);
	sweep();
	assert_false(is_there("runs"));
	assert_false(is_there(".runs.cgroup"));
}

static void swept_twice_at_once(void **state)
{
	(void)state;
	leave("old");
	leave("older");
	containers_sweep(&g->ctl);
	sweep();
	assert_false(is_there("old"));
	assert_false(is_there("older"));
}

static void the_router_ends_meanwhile(void **state)
{
	(void)state;
	leave("old");
	leave("older");
	containers_sweep(&g->ctl);
	containers_sweep_stop(&g->ctl);
	container_runs_stop(&g->ctl);
	assert_true(is_there("old"));
	assert_true(is_there("older"));
	sweep();
}

int main(void)
{
	return UNIT_RUN(CALL_TEST(leftovers_are_removed), CALL_TEST(one_that_is_mounted_stays),
			CALL_TEST(swept_twice_at_once), CALL_TEST(the_router_ends_meanwhile));
}
