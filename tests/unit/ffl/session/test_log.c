/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_log.c - ffl/session/log.c: what FFL_LOG means. Each value is read in a child, for the library
 * reads it once.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/log.c"

int ffl_fd_high(int fd)
{
	return fd;
}

/* The level that the library takes with FFL_LOG=value; NULL: without it. */
static int level_of(const char *value)
{
	int status;
	pid_t pid;

	if (value)
		assert_int_equal(setenv("FFL_LOG", value, 1), 0);
	else
		assert_int_equal(unsetenv("FFL_LOG"), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		ffl_log_init();
		_exit(ffl_log_level);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static void test_levels(void **state)
{
	(void)state;
	assert_int_equal(level_of("none"), 0);
	assert_int_equal(level_of("0"), 0);
	assert_int_equal(level_of("error"), FFL_ERR);
	assert_int_equal(level_of("warn"), FFL_WARN);
	assert_int_equal(level_of("3"), FFL_INFO);
	assert_int_equal(level_of("debug"), FFL_DEBUG);
	assert_int_equal(level_of("4"), FFL_DEBUG);
	assert_int_equal(level_of("loud"), FFL_DEBUG);
	assert_int_equal(level_of("warning"), FFL_WARN);
}

static void test_empty_is_unset(void **state)
{
	(void)state;
	assert_int_equal(level_of(NULL), FFL_ERR);
	assert_int_equal(level_of(""), FFL_ERR);
	assert_int_equal(level_of(":"), FFL_ERR);
}

/* Without a level the file gets what stderr would have got. */
static void test_file(void **state)
{
	char path[] = "/tmp/test_ffl_log.XXXXXX", value[64], line[128];
	int fd = mkstemp(path), status;
	ssize_t n;
	pid_t pid;

	(void)state;
	assert_true(fd >= 0);
	snprintf(value, sizeof(value), ":%s", path);
	assert_int_equal(setenv("FFL_LOG", value, 1), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		ffl_log_init();
		ffl_log(FFL_WARN, "not told");
		ffl_log(FFL_ERR, "told");
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	n = read(fd, line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "error: told\n"));
	assert_null(strstr(line, "not told"));
	close(fd);
	unlink(path);
}

/* Who mistypes a level is told. */
static void test_no_level(void **state)
{
	char path[] = "/tmp/test_ffl_log.XXXXXX", value[64], line[200];
	int fd = mkstemp(path);
	ssize_t n;

	(void)state;
	assert_true(fd >= 0);
	snprintf(value, sizeof(value), "loud:%s", path);
	assert_int_equal(level_of(value), FFL_DEBUG);
	n = read(fd, line, sizeof(line) - 1);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "error: FFL_LOG=loud:/tmp/"));
	close(fd);
	unlink(path);
}

/* If the file in FFL_LOG cannot be written, stderr has that error, and all further lines. */
static void test_no_file(void **state)
{
	char path[] = "/tmp/test_ffl_log.XXXXXX", line[400];
	int fd = mkstemp(path), err = dup(STDERR_FILENO);
	ssize_t n;

	(void)state;
	assert_true(fd >= 0 && err >= 0);
	assert_int_equal(dup2(fd, STDERR_FILENO), STDERR_FILENO);
	assert_int_equal(level_of("warn:/none/of/it"), FFL_WARN);
	dup2(err, STDERR_FILENO);
	close(err);
	n = pread(fd, line, sizeof(line) - 1, 0);
	assert_true(n > 0);
	line[n] = '\0';
	assert_non_null(strstr(line, "/none/of/it: No such file or directory: standard error"));
	close(fd);
	unlink(path);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(test_levels), cmocka_unit_test(test_empty_is_unset),
			cmocka_unit_test(test_file), cmocka_unit_test(test_no_level),
			cmocka_unit_test(test_no_file));
}
