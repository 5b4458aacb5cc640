/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_cgroup.c - ffr/lib/cgroup.c: where a process is, and its memory limit. build: ffr/lib/cgroup.c */
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/lib/cgroup.h"

static void what_may_be_told(void **state)
{
	static const char *const good[] = {
		"/a",
		"/docker/abc",
		"/system.slice/docker-0123.scope",
		"/user.slice/user-1000.slice/user@1000.service/x y/a:b",
		"/...",
		"/.a/..b",
		"/\xc3\xa4",
	};
	static const char *const bad[] = {
		"",    "a",	"none",	 "/",	   "//",    "/a/",    "/a//b",	  "/.",
		"/..", "/../a", "/a/..", "/a/./b", "/a\nb", "/a\x7f", "/\x1b[2J",
	};
	char path[CGROUP_MAX + 1];

	(void)state;
	for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
		assert_null(cgroup_path_wrong(good[i]));
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_non_null(cgroup_path_wrong(bad[i]));
	memset(path, 'a', sizeof(path));
	path[0] = '/';
	path[CGROUP_MAX] = '\0';
	assert_non_null(cgroup_path_wrong(path));
	path[CGROUP_MAX - 1] = '\0'; /* it may have been cut off */
	assert_non_null(cgroup_path_wrong(path));
	path[CGROUP_MAX - 2] = '\0';
	assert_null(cgroup_path_wrong(path));
}

static void within_means_at_a_slash(void **state)
{
	(void)state;
	assert_true(cgroup_within("/docker/abc", "/docker/abc"));
	assert_true(cgroup_within("/docker/abc/init.scope", "/docker/abc"));
	assert_false(cgroup_within("/docker/abcd", "/docker/abc"));
	assert_false(cgroup_within("/docker/abc (deleted)", "/docker/abc"));
	assert_false(cgroup_within("/docker/ab", "/docker/abc"));
	assert_false(cgroup_within("/docker", "/docker/abc"));
	assert_false(cgroup_within("/", "/docker/abc"));
	assert_false(cgroup_within("/x/docker/abc", "/docker/abc"));
	assert_false(cgroup_within("/../docker/abc", "/docker/abc"));
	/* what nobody may tell lets nobody in */
	assert_false(cgroup_within("/docker/abc", ""));
	assert_false(cgroup_within("/docker/abc", "/"));
	assert_false(cgroup_within("?", "/"));
	assert_false(cgroup_within("/docker/abc", "?"));
	assert_true(cgroup_is_outside("/.."));
	assert_true(cgroup_is_outside("/../../docker/abc"));
	assert_false(cgroup_is_outside("/..a"));
	assert_false(cgroup_is_outside("/docker"));
}

/* As kernels show it: v2, v1, both in several ways. */
static void which_hierarchy_is_taken(void **state)
{
	static const struct {
		const char *text, *path;
	} row[] = {
		{ "0::/docker/abc\n", "/docker/abc" },
		{ "0::/\n", "/" },
		{ "0::/../../docker/abc\n", "/../../docker/abc" },
		{ "0::/a:b:c\n", "/a:b:c" },
		{ "0::/docker/abc (deleted)\n", "/docker/abc (deleted)" },
		/* an engine on a host with both puts containers into those of v1 */
		{ "12:pids:/docker/abc\n11:cpu,cpuacct:/\n1:name=systemd:/docker/abc\n"
		  "0::/system.slice/containerd.service\n",
		  "/docker/abc" },
		{ "0::/a\n3:memory:/b\n", "/b" },
		{ "3:memory:/b\n4:pids:/c\n", "/c" },
		{ "4:pids:/c\n3:memory:/b\n", "/c" },
		{ "2:cpu,memory,pids:/d\n", "/d" },
		{ "1:name=systemd:/e\n5:freezer:/f\n", "/e" },
		{ "1:name=systemd:/e\n0::/g\n", "/g" },
		{ "1:name=openrc:/e\n5:freezer:/f\n", NULL },
		/* no such controllers, and no unified hierarchy */
		{ "4:pidsx:/c\n3:xmemory:/b\n0:x:/a\n1::/a\n", NULL },
		{ "", NULL },
		{ "0::/cut", NULL },
		{ "0::/a\n12:pids:/cut", "/a" },
		{ "\n\n::\n:\n0:/a\n", NULL },
		{ "0::\n", NULL },
		{ "0::relative\n", NULL },
		/* the one that counts is not to be read: no other takes its place */
		{ "0::/a\n12:pids:\n", NULL },
	};
	char text[512];
	const char *path;

	(void)state;
	for (size_t i = 0; i < sizeof(row) / sizeof(row[0]); i++) {
		strcpy(text, row[i].text);
		path = cgroup_parse(text);
		if (row[i].path)
			assert_string_equal(path, row[i].path);
		else
			assert_null(path);
	}
}

static void a_path_that_is_too_long_is_none(void **state)
{
	char *text = malloc(3 * CGROUP_MAX);
	const char *path;

	(void)state;
	assert_non_null(text);
	for (unsigned len = CGROUP_MAX - 2; len <= CGROUP_MAX + 1; len++) {
		memcpy(text, "0::/", 4);
		memset(text + 4, 'a', len - 1);
		strcpy(text + 3 + len, "\n");
		path = cgroup_parse(text);
		if (len < CGROUP_MAX) {
			assert_non_null(path);
			assert_int_equal(strlen(path), len);
		} else {
			assert_null(path);
		}
	}
	free(text);
}

static void a_process_is_somewhere(void **state)
{
	char path[CGROUP_MAX], other[CGROUP_MAX];
	pid_t pid;
	int st;

	(void)state;
	st = cgroup_of(getpid(), path);
	if (st == -ENOENT) {
		print_message("no cgroups here\n");
		skip();
	}
	assert_int_equal(st, 0);
	assert_int_equal(path[0], '/');
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		pause();
		_exit(0);
	}
	assert_int_equal(cgroup_of(pid, other), 0);
	assert_string_equal(path, other);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, &st, 0), pid);
	assert_int_equal(cgroup_of(pid, other), -ESRCH);
}

static void file_make(const char *root, const char *path, const char *content)
{
	char name[256];
	FILE *f;

	snprintf(name, sizeof(name), "%s/%s", root, path);
	for (char *p = strchr(name + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(name, 0700);
		*p = '/';
	}
	f = fopen(name, "w");
	assert_non_null(f);
	fputs(content, f);
	fclose(f);
}

static uint64_t limit_of(const char *root, const char *text)
{
	char copy[256];

	snprintf(copy, sizeof(copy), "%s", text);
	return cgroup_memory_limit(root, copy);
}

/* Whichever of the cgroups above it is the smallest; files that are missing or say a word are no limit. */
static void the_least_limit_above_holds(void **state)
{
	char root[] = "/tmp/test_cgroup.XXXXXX", rm[64];

	(void)state;
	assert_non_null(mkdtemp(root));
	file_make(root, "system.slice/ffr.service/memory.max", "max\n");
	file_make(root, "system.slice/memory.max", "3000000\n");
	file_make(root, "system.slice/small.service/memory.max", "2000000\n");
	file_make(root, "other/memory.max", "17\n");
	file_make(root, "memory/memory.limit_in_bytes", "9223372036854771712\n");
	file_make(root, "memory/a/memory.limit_in_bytes", "1500000\n");
	assert_int_equal(limit_of(root, "0::/system.slice/ffr.service\n"), 3000000);
	assert_int_equal(limit_of(root, "0::/system.slice/small.service\n"), 2000000);
	assert_int_equal(limit_of(root, "0::/system.slice/small.service/none\n"), 2000000);
	assert_int_equal(limit_of(root, "0::/\n"), UINT64_MAX);
	assert_int_equal(limit_of(root, "0::/../outside\n"), UINT64_MAX);
	assert_int_equal(limit_of(root, ""), UINT64_MAX);
	assert_int_equal(limit_of(root, "nonsense\n"), UINT64_MAX);
	assert_int_equal(limit_of(root, "4:cpu,memory:/a/b\n3:pids:/other\n0::/system.slice\n"),
			 1500000);
	assert_int_equal(limit_of(root, "4:pids,cpu:/a\n1:name=systemd:/other\n"), UINT64_MAX);
	snprintf(rm, sizeof(rm), "rm -rf %s", root);
	assert_int_equal(system(rm), 0);
	assert_true(cgroup_memory_limit_own() > 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_may_be_told),
		cmocka_unit_test(within_means_at_a_slash),
		cmocka_unit_test(which_hierarchy_is_taken),
		cmocka_unit_test(a_path_that_is_too_long_is_none),
		cmocka_unit_test(a_process_is_somewhere),
		cmocka_unit_test(the_least_limit_above_holds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
