/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/ask.c */
/*
 * test_ask.c - a router that answers well, and one that was taken over: long answers, none, and words for a terminal.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

static char dir[] = "/tmp/test_ask.XXXXXX", path[64], why[WHY_SZ];
static int listener, err;

static int setup(void **state)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	(void)state;
	if (!mkdtemp(dir))
		return -1;
	snprintf(path, sizeof(path), "%s/admin.sock", dir);
	strcpy(sa.sun_path, path);
	listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	return bind(listener, (struct sockaddr *)&sa, sizeof(sa)) || listen(listener, 4);
}

static int teardown(void **state)
{
	(void)state;
	close(listener);
	unlink(path);
	return rmdir(dir);
}

/* A process answers with `times` times the text. */
static json_t *asked(const char *text, unsigned times)
{
	char request[256];
	json_t *answer;
	pid_t pid = fork();

	if (!pid) {
		int fd = accept(listener, NULL, NULL);

		if (read(fd, request, sizeof(request)) <= 0)
			_exit(1);
		while (times-- && send(fd, text, strlen(text), MSG_NOSIGNAL) > 0)
			;
		_exit(0);
	}
	assert_true(pid > 0);
	answer = ask(path, json_pack("{s:s}", "op", "ping"), &err, why);
	waitpid(pid, NULL, 0);
	return answer;
}

static void answers(void **state)
{
	json_t *j = asked("{\"ok\":true,\"x\":1}\n", 1);

	(void)state;
	assert_int_equal(json_integer_value(json_object_get(j, "x")), 1);
	json_decref(j);
	assert_null(asked("{\"ok\":false,\"error\":\"ENOENT\",\"message\":\"no container\"}\n", 1));
	assert_int_equal(err, -ENOENT);
	assert_string_equal(why, "no container");
}

static void bad_answers(void **state)
{
	(void)state;
	assert_null(asked("", 0));
	assert_int_equal(err, -EIO);
	assert_null(asked("{\"ok\":true}", 1)); /* its line has no end */
	assert_int_equal(err, -EIO);
	assert_null(asked("{\"ok\":true, \"and so on\":                           ", 100000));
	assert_int_equal(err, -EIO);
	assert_null(asked("[]\n", 1));
	assert_null(asked("{}\n", 1));
	assert_int_equal(err, -EPROTO);
	assert_null(asked("{\"error\":\"EPERM\",\"message\":\"a\\u001b[2Jb\\nc\"}\n", 1));
	assert_string_equal(why, "a?[2Jb?c");
}

static void nobody(void **state)
{
	(void)state;
	assert_null(ask("/nonexistent/admin.sock", json_object(), &err, why));
	assert_int_equal(err, -ECONNREFUSED);
	assert_non_null(strstr(why, "is ffr running?"));
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(answers),
			      cmocka_unit_test(bad_answers), cmocka_unit_test(nobody));
}
