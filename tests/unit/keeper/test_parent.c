/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* test_parent.c - configurations that a parent sends to its router, and whether there is a next router; the rest is in system/reload.sh and sandbox.sh. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/keeper/parent.c"

static void send_text(int sock, const char *text)
{
	struct children c = { .conf = sock, .text = (char *)text };

	assert_int_equal(text_send(&c), 0);
}

static void the_newest_text_counts(void **state)
{
	static char longest[65536];
	int pair[2], err;
	char *text;

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	assert_null(parent_text(pair[1], &err));
	assert_int_equal(err, 0);
	send_text(pair[0], "");
	text = parent_text(pair[1], &err);
	assert_string_equal(text, "");
	free(text);
	memset(longest, '#', sizeof(longest) - 1);
	send_text(pair[0], "a");
	send_text(pair[0], longest);
	text = parent_text(pair[1], &err);
	assert_string_equal(text, longest);
	assert_int_equal(err, 0);
	free(text);
	send_text(pair[0], "last");
	close(pair[0]);
	text = parent_text(pair[1], &err);
	assert_string_equal(text, "last");
	assert_int_equal(err, -EPIPE);
	free(text);
	assert_null(parent_text(pair[1], &err));
	assert_int_equal(err, -EPIPE);
	close(pair[1]);
}

/* One that reads nothing does not keep the parent waiting. */
static void a_router_that_is_stuck(void **state)
{
	int pair[2], err = 0;
	struct children c = { .text = (char *)"text" };

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair), 0);
	c.conf = pair[0];
	for (int i = 0; !err && i < 100000; i++)
		err = text_send(&c);
	assert_int_equal(err, -EAGAIN);
	close(pair[1]);
	err = text_send(&c);
	assert_true(err == -EPIPE || err == -ECONNRESET);
	close(pair[0]);
}

static void descriptors_are_passed_by_number(void **state)
{
	char number[16];
	int fd = dup(0), conf, orphans;

	(void)state;
	snprintf(number, sizeof(number), "%d", fd);
	setenv(KEEPER_ENV, number, 1);
	setenv(CONF_ENV, "2", 1);
	setenv(ORPHANS_ENV, number, 1);
	assert_int_equal(keeper_of_parent(&conf, &orphans), fd);
	assert_int_equal(conf, -1);
	assert_int_equal(orphans, fd);
	assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
	assert_int_equal(keeper_of_parent(&conf, &orphans), -1); /* once */
	assert_int_equal(orphans, -1);
	close(fd);
}

/* Is a router started after one that ended so, after so many seconds? */
static bool next_after(int status, time_t lived, bool stopping)
{
	const struct children c = { .since = seconds() - lived,
				    .status = status,
				    .stopping = stopping };

	return is_to_live(&c);
}

static void which_routers_are_started_again(void **state)
{
	const time_t long_enough = TOO_SOON_S + 10;

	(void)state;
	assert_true(next_after(W_EXITCODE(0, SIGSEGV), long_enough, false));
	assert_true(next_after(W_EXITCODE(EXIT_FAILURE, 0), long_enough, false));
	assert_false(next_after(W_EXITCODE(EXIT_SUCCESS, 0), long_enough, false));
	assert_false(next_after(W_EXITCODE(SANDBOX_EXIT, 0), long_enough, false));
	assert_false(next_after(W_EXITCODE(0, SIGSEGV), 0, false));
	assert_false(next_after(W_EXITCODE(EXIT_FAILURE, 0), 0, false));
	assert_false(next_after(W_EXITCODE(0, SIGTERM), long_enough, true));
}

/* A router that was told to is started again, however young; one that has crashed has a new nursery. */
static void which_routers_leave_something(void **state)
{
	struct children c = { .again = true,
			      .status = W_EXITCODE(ROUTER_AGAIN, 0),
			      .since = seconds() };

	(void)state;
	assert_true(is_to_live(&c));
	assert_false(has_crashed(&c));
	c.stopping = true;
	assert_false(is_to_live(&c));
	c.stopping = false;
	c.again = false; /* nobody has told it */
	assert_false(is_to_live(&c));
	assert_true(has_crashed(&c));
	c.again = true; /* it was told, and crashed */
	c.status = W_EXITCODE(0, SIGSEGV);
	assert_false(is_to_live(&c));
	assert_true(has_crashed(&c));
	c.status = W_EXITCODE(0, SIGKILL);
	assert_false(has_crashed(&c));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(the_newest_text_counts),
			cmocka_unit_test(a_router_that_is_stuck),
			cmocka_unit_test(descriptors_are_passed_by_number),
			cmocka_unit_test(which_routers_are_started_again),
			cmocka_unit_test(which_routers_leave_something));
}
