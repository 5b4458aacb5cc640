/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/lib/log.c */
/*
 * test_log.c - what the journal gets of a line, and where lines go when it gets none.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/lib/log.h"

static char dir[] = "/tmp/test_log.XXXXXX", path[64];
static int journal, err_pipe[2], err_old;

/* stderr is a pipe, and JOURNAL_STREAM says so. */
static int setup(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	char stream[64];
	struct stat st;

	(void)state;
	if (!mkdtemp(dir) || pipe(err_pipe))
		return -1;
	snprintf(path, sizeof(path), "%s/socket", dir);
	strcpy(sa.sun_path, path);
	journal = socket(AF_UNIX, SOCK_DGRAM, 0);
	if (bind(journal, (struct sockaddr *)&sa, sizeof(sa)))
		return -1;
	err_old = dup(STDERR_FILENO);
	dup2(err_pipe[1], STDERR_FILENO);
	fstat(STDERR_FILENO, &st);
	snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)st.st_dev,
		 (unsigned long long)st.st_ino);
	setenv("JOURNAL_STREAM", stream, 1);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	log_journal(NULL);
	dup2(err_old, STDERR_FILENO);
	unlink(path);
	return rmdir(dir);
}

static void assert_journal(const char *fields, const char *message)
{
	char buf[4096], want[4096];
	uint64_t len = strlen(message);
	size_t n = strlen(fields);
	ssize_t got = recv(journal, buf, sizeof(buf), MSG_DONTWAIT);

	memcpy(want, fields, n);
	memcpy(want + n, "MESSAGE\n", 8);
	memcpy(want + n + 8, &len, 8);
	memcpy(want + n + 16, message, len);
	want[n + 16 + len] = '\n';
	assert_int_equal(got, n + 16 + len + 1);
	assert_memory_equal(buf, want, (size_t)got);
}

#define ID "SYSLOG_IDENTIFIER=test_log\n"

static void fields(void **state)
{
	(void)state;
	log_journal(path);
	log_info("ready");
	assert_journal("PRIORITY=6\n" ID, "ready");
	log_warn("container %s: no luck", "web-1.a");
	assert_journal("PRIORITY=4\n" ID "FREEFLOW_CONTAINER=web-1.a\n",
		       "container web-1.a: no luck");
	log_err("host %s: disconnected", "h1");
	assert_journal("PRIORITY=3\n" ID "FREEFLOW_HOST=h1\n", "host h1: disconnected");
	errno = ENOENT;
	log_err("file: %m");
	assert_journal("PRIORITY=3\n" ID "ERRNO=2\n", "file: No such file or directory");
}

/* A line break makes no field, and what only looks like a container's line is none. */
static void nothing_is_a_field_that_a_client_says(void **state)
{
	(void)state;
	log_journal(path);
	log_info("container %s: %s", "web", "x\nPRIORITY=0\nCODE_FILE=y");
	assert_journal("PRIORITY=6\n" ID "FREEFLOW_CONTAINER=web\n",
		       "container web: x\nPRIORITY=0\nCODE_FILE=y");
	log_info("container %s: odd", "a\nPRIORITY=0");
	assert_journal("PRIORITY=6\n" ID "FREEFLOW_CONTAINER=a\n", "container a\nPRIORITY=0: odd");
	log_info("%s", "container db: odd");
	assert_journal("PRIORITY=6\n" ID, "container db: odd");
}

static void long_lines(void **state)
{
	static char text[5000], want[1020];

	(void)state;
	log_journal(path);
	memset(text, 'x', sizeof(text) - 1);
	memset(want, 'x', sizeof(want) - 1);
	log_info("%s", text);
	assert_journal("PRIORITY=6\n" ID, want);
}

static void assert_stderr(const char *want)
{
	char buf[256];
	ssize_t n = read(err_pipe[0], buf, sizeof(buf) - 1);

	assert_true(n >= 0);
	buf[n] = '\0';
	assert_string_equal(buf, want);
	assert_int_equal(recv(journal, buf, sizeof(buf), MSG_DONTWAIT), -1);
}

static void stderr_where_the_journal_does_not_take_it(void **state)
{
	char stream[64];

	(void)state;
	log_journal(NULL);
	log_info("one");
	assert_stderr("<6>one\n");
	/* another program's stream: stderr was redirected since */
	snprintf(stream, sizeof(stream), "%s", getenv("JOURNAL_STREAM"));
	setenv("JOURNAL_STREAM", "1:1", 1);
	log_journal(path);
	log_info("two");
	assert_stderr("<6>two\n");
	setenv("JOURNAL_STREAM", stream, 1);
	log_journal(path);
	close(journal); /* journald has ended */
	log_info("three");
	journal = socket(AF_UNIX, SOCK_DGRAM, 0);
	assert_stderr("<6>three\n");
}

/* A reader that stands still blocks nobody; the number of lines that it missed follows. */
static void a_reader_that_stands_still(void **state)
{
	char buf[2048];
	int mine = dup(STDERR_FILENO), reader[2], n = 0;
	ssize_t got;

	(void)state;
	log_journal(NULL);
	assert_int_equal(pipe(reader), 0);
	dup2(reader[1], STDERR_FILENO);
	log_never_block();
	/* whoever shares the pipe goes on blocking */
	assert_false(fcntl(reader[1], F_GETFL) & O_NONBLOCK);
	fcntl(reader[1], F_SETFL, O_NONBLOCK);
	memset(buf, 'x', sizeof(buf));
	while (write(reader[1], buf, sizeof(buf)) > 0)
		n++;
	for (int i = 0; i < 3; i++) {
		errno = ENOENT;
		log_info("lost");
		assert_int_equal(errno, ENOENT);
	}
	while (n--)
		assert_int_equal(read(reader[0], buf, sizeof(buf)), sizeof(buf));
	errno = ENOENT;
	log_info("found: %m");
	got = read(reader[0], buf, sizeof(buf) - 1);
	buf[got < 0 ? 0 : got] = '\0';
	assert_string_equal(buf, "<4>log: 3 lines were lost: nobody read them\n"
				 "<6>found: No such file or directory\n");
	dup2(mine, STDERR_FILENO);
	close(mine);
	close(reader[0]);
	close(reader[1]);
}

static void names_of_levels(void **state)
{
	enum log_level level;

	(void)state;
	assert_int_equal(log_level_parse("warning", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("warn", &level), 0);
	assert_int_equal(level, LOG_LEVEL_WARN);
	assert_int_equal(log_level_parse("loud", &level), -EINVAL);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(fields),
			      cmocka_unit_test(nothing_is_a_field_that_a_client_says),
			      cmocka_unit_test(long_lines),
			      cmocka_unit_test(stderr_where_the_journal_does_not_take_it),
			      cmocka_unit_test(a_reader_that_stands_still),
			      cmocka_unit_test(names_of_levels));
}
