/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_cgroup.c - ffr/ctl/cgroup.c: who is kept out of a container whose cgroup is known, and how long it
 * is known. In which cgroup this process is, is what a case says.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c -Wl,--wrap=opener_cgroup_of
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/lib/cgroup.h"
#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;
static const char *here; /* this process's */
static int cannot;	 /* it cannot be found out: -errno */

int __wrap_opener_cgroup_of(pid_t pid, char path[CGROUP_MAX]);
int __wrap_opener_cgroup_of(pid_t pid, char path[CGROUP_MAX])
{
	if (pid != getpid())
		return -ESRCH;
	strcpy(path, here);
	return cannot;
}

static struct container_ctl *ctl(void)
{
	return g->c[0]->ctl;
}

/* The status of a HELLO to the first container. */
static int hello(void)
{
	int s = rig_connect(g, 0), st = rig_hello(g, s);

	close(s);
	rig_pump(g);
	return st;
}

static char *file(char path[128])
{
	snprintf(path, 128, "%s/containers/.a.cgroup", g->dir);
	return path;
}

static bool kept(void)
{
	char path[128];

	return !access(file(path), F_OK);
}

static void put(const char *text)
{
	char path[128];
	int fd = open(file(path), O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	close(fd);
}

/* The router ends, and the next one finds the container with that number. */
static int next_router(uint32_t id)
{
	struct ffo_container info = {
		.id = id, .epoch = 1, .lid = 1, .num_ips = 1, .name = "a", .tenant = "default"
	};
	int err;

	info.ip[0].s6_addr[10] = info.ip[0].s6_addr[11] = 0xff;
	container_stop(g->c[0]);
	rig_pump(g);
	err = container_attach(&g->ctl, &info);
	g->c[0] = container_find(&g->ctl, "a");
	return err;
}

static void others_are_refused(void **state)
{
	int s;

	(void)state;
	here = "/docker/abc";
	assert_int_equal(hello(), 0);
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/abc"), 0);
	assert_int_equal(hello(), 0);
	here = "/docker/abc/init.scope";
	assert_int_equal(hello(), 0);
	assert_int_equal(g->c[0]->stats.cgroup_refused, 0);
	here = "/docker/abcd";
	assert_int_equal(hello(), -EACCES);
	here = "/docker";
	assert_int_equal(hello(), -EACCES);
	here = "/../docker/abc";
	assert_int_equal(hello(), -EACCES);
	here = "/docker/abc (deleted)";
	assert_int_equal(hello(), -EACCES);
	assert_int_equal(g->c[0]->stats.cgroup_refused, 4);
	assert_true(LIST_EMPTY(&g->c[0]->sessions));
	/* the other container says nothing */
	s = rig_connect(g, 1);
	assert_int_equal(rig_hello(g, s), 0);
	close(s);
	assert_int_equal(container_cgroup_tell(g->c[0], NULL), 0);
	assert_int_equal(hello(), 0);
}

static void what_cannot_be_found_out_refuses(void **state)
{
	static const int err[] = { -ENOENT, -EACCES, -ENAMETOOLONG, -ENOMEM };

	(void)state;
	here = "/docker/abc";
	assert_int_equal(container_cgroup_tell(g->c[0], here), 0);
	for (size_t i = 0; i < sizeof(err) / sizeof(err[0]); i++) {
		cannot = err[i];
		assert_int_equal(hello(), -EACCES);
	}
	cannot = 0;
	assert_int_equal(hello(), 0);
}

/* HELLO is what is promised: who is in stays in. */
static void a_session_stays(void **state)
{
	int s;

	(void)state;
	here = "/docker/abc";
	s = rig_connect(g, 0);
	assert_int_equal(rig_hello(g, s), 0);
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/other"), 0);
	call_pd(g, s);
	assert_int_equal(hello(), -EACCES);
	call_pd(g, s);
	close(s);
}

static void the_next_router_knows_it(void **state)
{
	char path[128];
	struct stat st;

	(void)state;
	here = "/docker/abc";
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/first"), 0);
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/other"), 0);
	assert_int_equal(stat(file(path), &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	assert_int_equal(next_router(1), 0);
	assert_string_equal(ctl()->cgroup, "/docker/other");
	assert_int_equal(hello(), -EACCES);
	assert_int_equal(container_cgroup_tell(g->c[0], NULL), 0);
	assert_false(kept());
	assert_int_equal(next_router(1), 0);
	assert_null(ctl()->cgroup);
	assert_int_equal(hello(), 0);
}

/* Removed and added again: it is another one. */
static void another_one_of_that_name_has_its_own(void **state)
{
	(void)state;
	here = "/docker/abc";
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/other"), 0);
	assert_int_equal(next_router(7), 0);
	assert_null(ctl()->cgroup);
	assert_false(kept());
	assert_int_equal(hello(), 0);
	assert_int_equal(container_cgroup_tell(g->c[0], here), 0);
	assert_true(kept());
	container_detach(g->c[0]);
	g->c[0] = NULL;
	assert_false(kept());
}

static void leftovers_are_removed(void **state)
{
	char path[160];

	(void)state;
	assert_int_equal(container_cgroup_tell(g->c[0], "/docker/abc"), 0);
	snprintf(path, sizeof(path), "%s/containers/.old.cgroup", g->dir);
	assert_int_equal(close(open(path, O_WRONLY | O_CREAT, 0600)), 0);
	containers_sweep(&g->ctl);
	assert_true(kept());
	assert_int_not_equal(access(path, F_OK), 0);
}

/* What is kept and cannot be understood is no reason to let anybody in. */
static void damage_keeps_everybody_out(void **state)
{
	static const char *const bad[] = {
		"",
		"1",
		"1 ",
		"1 /",
		"1 relative\n",
		"1 /docker/abc",
		"1 /docker/abc\n\n",
		"1 /docker/abc\n/x\n",
		"1 /../x\n",
		" /docker/abc\n",
		"0 /docker/abc\n",
		"-1 /docker/abc\n",
		"1/docker/abc\n",
		"99999999999 /docker/abc\n",
	};
	char longer[CGROUP_MAX + 64], path[128];

	(void)state;
	here = "/docker/abc";
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		put(bad[i]);
		assert_int_equal(next_router(1), 0);
		assert_non_null(ctl()->cgroup);
		assert_int_equal(hello(), -EACCES);
	}
	memset(longer, 'a', sizeof(longer));
	memcpy(longer, "1 /", 3);
	longer[sizeof(longer) - 1] = '\0';
	put(longer);
	assert_int_equal(next_router(1), 0);
	assert_int_equal(hello(), -EACCES);
	/* not a file of ours */
	assert_int_equal(unlink(file(path)), 0);
	assert_int_equal(symlink("/etc/hostname", path), 0);
	assert_int_equal(next_router(1), 0);
	assert_int_equal(hello(), -EACCES);
	assert_int_equal(container_cgroup_tell(g->c[0], here), 0); /* told again */
	assert_int_equal(hello(), 0);
}

static void what_is_no_cgroup_changes_nothing(void **state)
{
	(void)state;
	here = "/docker/abc";
	assert_int_equal(container_cgroup_tell(g->c[0], here), 0);
	assert_int_equal(container_cgroup_tell(g->c[0], "/"), -EINVAL);
	assert_int_equal(container_cgroup_tell(g->c[0], "x"), -EINVAL);
	assert_int_equal(container_cgroup_tell(g->c[0], "/a\n2 /b"), -EINVAL);
	assert_string_equal(ctl()->cgroup, here);
	assert_int_equal(next_router(1), 0);
	assert_string_equal(ctl()->cgroup, here);
}

/* A folder that cannot be written: the operator is told, and what was known is. */
static void what_cannot_be_kept_is_not_known(void **state)
{
	int fd = g->ctl.containers_fd, null = open("/dev/null", O_RDONLY);

	(void)state;
	here = "/docker/abc";
	assert_int_equal(container_cgroup_tell(g->c[0], here), 0);
	g->ctl.containers_fd = null;
	assert_true(container_cgroup_tell(g->c[0], "/docker/other") < 0);
	assert_true(container_cgroup_tell(g->c[0], NULL) < 0);
	g->ctl.containers_fd = fd;
	close(null);
	assert_string_equal(ctl()->cgroup, here);
	assert_int_equal(hello(), 0);
}

static void names_of_its_files(void **state)
{
	static const char *const no[] = { ".cgroup",	"..cgroup", "a.cgroup",	 ".a.cgroup.new",
					  ".a.cgroupx", ".a",	    "...cgroup", "" };
	char name[CONTAINER_NAME_MAX], file_of[CONTAINER_NAME_MAX + 32];

	(void)state;
	assert_true(container_cgroup_file(".web-1.x.cgroup", name));
	assert_string_equal(name, "web-1.x");
	assert_true(container_cgroup_file(".x.cgroup.cgroup", name));
	assert_string_equal(name, "x.cgroup");
	for (size_t i = 0; i < sizeof(no) / sizeof(no[0]); i++)
		assert_false(container_cgroup_file(no[i], name));
	memset(file_of, 'a', sizeof(file_of));
	file_of[0] = '.';
	strcpy(file_of + CONTAINER_NAME_MAX, ".cgroup");
	assert_true(container_cgroup_file(file_of, name));
	memset(file_of + CONTAINER_NAME_MAX, 'a', 1);
	strcpy(file_of + CONTAINER_NAME_MAX + 1, ".cgroup");
	assert_false(container_cgroup_file(file_of, name));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CALL_TEST(others_are_refused),
		CALL_TEST(what_cannot_be_found_out_refuses),
		CALL_TEST(a_session_stays),
		CALL_TEST(the_next_router_knows_it),
		CALL_TEST(another_one_of_that_name_has_its_own),
		CALL_TEST(leftovers_are_removed),
		CALL_TEST(damage_keeps_everybody_out),
		CALL_TEST(what_is_no_cgroup_changes_nothing),
		CALL_TEST(what_cannot_be_kept_is_not_known),
		CALL_TEST(names_of_its_files),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
