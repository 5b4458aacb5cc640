/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_socket.c - the admin socket's connections: how many there may be, lines without an end, and those that are
 * closed before their answer comes.
 */
#include "tests/rig/unit/unit.h"

#include <signal.h>

#include "ffr/admin/socket.c"

static uv_loop_t loop;
static struct ctl ctl;
static struct admin *admin;
static char path[64];

static int start(void **state)
{
	struct admin_conf conf = { .ctl = &ctl, .socket = path, .host = "h0" };

	(void)state;
	signal(SIGPIPE, SIG_IGN); /* as ffr does */
	snprintf(path, sizeof(path), "/tmp/test_socket.%d", (int)getpid());
	uv_loop_init(&loop);
	ctl.loop = &loop;
	return admin_start(&admin, &conf);
}

static int stop(void **state)
{
	(void)state;
	admin_stop(admin);
	uv_run(&loop, UV_RUN_DEFAULT);
	return uv_loop_close(&loop);
}

/* Everything that is ready is served. */
static void turns(void)
{
	for (int i = 0; i < 100; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static int dial(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	turns();
	return fd;
}

static void hang_up(int fd)
{
	close(fd);
	turns();
}

/* Has the router closed it? */
static bool ended(int fd)
{
	char c;

	return recv(fd, &c, 1, MSG_PEEK) == 0;
}

static json_t *answer(int fd)
{
	char text[4096];
	ssize_t n;

	turns();
	n = read(fd, text, sizeof(text));
	assert_true(n > 1);
	assert_int_equal(text[n - 1], '\n');
	return json_loadb(text, (size_t)n - 1, 0, NULL);
}

static void connections_are_bounded(void **state)
{
	int fd[ADMIN_MAX_CONNS], more;

	(void)state;
	for (unsigned i = 0; i < ADMIN_MAX_CONNS; i++) {
		fd[i] = dial();
		assert_false(ended(fd[i]));
	}
	more = dial();
	assert_true(ended(more));
	hang_up(more);
	assert_int_equal(admin->num_conns, ADMIN_MAX_CONNS);
	hang_up(fd[0]);
	fd[0] = dial(); /* in the place of the one that ended */
	assert_false(ended(fd[0]));
	for (unsigned i = 0; i < ADMIN_MAX_CONNS; i++)
		hang_up(fd[i]);
	assert_int_equal(admin->num_conns, 0);
}

static void send_all(int fd, size_t len)
{
	static const char some[1024] = { 'x' };

	while (len) {
		ssize_t n = send(fd, some, len < sizeof(some) ? len : sizeof(some), MSG_NOSIGNAL);

		assert_true(n > 0);
		len -= (size_t)n;
		turns();
	}
}

/* Nothing comes after the bytes that fill the buffer: the connection must end without a read that fails. */
static void a_line_without_an_end(void **state)
{
	int fd = dial();

	(void)state;
	send_all(fd, ADMIN_LINE_MAX - 1);
	assert_false(ended(fd));
	send_all(fd, 1);
	assert_true(ended(fd));
	hang_up(fd);
}

/* The op still has the connection: it stays until the answer, which goes to nobody. */
static void closed_before_its_answer(void **state)
{
	struct admin_conn *conn;
	int fd = dial();

	(void)state;
	conn = LIST_FIRST(&admin->conns);
	conn->busy = conn->asked =
		true; /* as serve_line() leaves it for an op that answers later */
	hang_up(fd);
	assert_true(LIST_EMPTY(&admin->conns));
	assert_int_equal(admin->num_conns, 1);
	admin_reply(conn, json_object());
	assert_int_equal(admin->num_conns, 0);
}

static void an_error_is_one_line_of_ascii(void **state)
{
	int fd = dial();
	json_t *j;

	(void)state;
	admin_error(LIST_FIRST(&admin->conns), -ENOENT, "no container \n\033[2J\x7f\xc3 x~");
	j = answer(fd);
	assert_true(json_is_false(json_object_get(j, "ok")));
	assert_string_equal(json_string_value(json_object_get(j, "message")),
			    "no container ??[2J?? x~");
	json_decref(j);
	hang_up(fd);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(connections_are_bounded, start, stop),
			cmocka_unit_test_setup_teardown(a_line_without_an_end, start, stop),
			cmocka_unit_test_setup_teardown(closed_before_its_answer, start, stop),
			cmocka_unit_test_setup_teardown(an_error_is_one_line_of_ascii, start,
							stop));
}
