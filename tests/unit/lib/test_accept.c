/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/lib/accept.c ffr/lib/log.c */
/*
 * test_accept.c - a listening socket without descriptors for its connections: the loop goes on, and with spare
 * descriptors one connection at a time is served.
 */
#include "tests/rig/unit/unit.h"

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffr/lib/accept.h"

#define CLIENTS 3

static uv_loop_t loop;
static struct acceptor a;
static struct sockaddr_un sa = { .sun_family = AF_UNIX };
static int came[CLIENTS], num_came;
static bool is_closed;
static struct rlimit old;

static void on_came(void *arg, int fd)
{
	assert_ptr_equal(arg, &a);
	came[num_came++] = fd;
}

static void on_closed(void *arg)
{
	(void)arg;
	is_closed = true;
}

static void start(bool keeps_spares)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	num_came = 0;
	is_closed = false;
	uv_loop_init(&loop);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "/tmp/test_accept.%d", (int)getpid());
	unlink(sa.sun_path);
	assert_int_equal(bind(fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
	a = (struct acceptor){ .name = "test",
			       .came = on_came,
			       .closed = on_closed,
			       .arg = &a,
			       .keeps_spares = keeps_spares };
	assert_int_equal(acceptor_start(&a, &loop, fd, CLIENTS), 0);
}

static void stop(void)
{
	acceptor_close(&a);
	uv_run(&loop, UV_RUN_DEFAULT);
	assert_true(is_closed);
	assert_int_equal(uv_loop_close(&loop), 0);
	unlink(sa.sun_path);
}

static int dial(void)
{
	int s = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(connect(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	return s;
}

/* No descriptor is free any more. */
static void no_room(void)
{
	struct rlimit none;
	int next = dup(STDERR_FILENO);

	close(next);
	getrlimit(RLIMIT_NOFILE, &old);
	none = old;
	none.rlim_cur = (rlim_t)next;
	setrlimit(RLIMIT_NOFILE, &none);
}

static void turns(void)
{
	for (int i = 0; i < 20; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

/* A pause, and what it ends with. */
static void after_pause(void)
{
	for (int i = 0; i < 5 && !num_came; i++)
		uv_run(&loop, UV_RUN_ONCE);
}

static void connections_wait_for_descriptors(void **state)
{
	struct pollfd p;
	int s;

	(void)state;
	start(false);
	s = dial();
	no_room();
	turns();
	assert_int_equal(num_came, 0);
	p = (struct pollfd){ .fd = uv_backend_fd(&loop), .events = POLLIN };
	assert_int_equal(poll(&p, 1, 0), 0); /* the loop would sleep */
	setrlimit(RLIMIT_NOFILE, &old);
	after_pause();
	assert_int_equal(num_came, 1);
	close(came[0]);
	close(s);
	stop();
}

static void spares_serve_one_at_a_time(void **state)
{
	int s[CLIENTS], copy;

	(void)state;
	start(true);
	for (int i = 0; i < CLIENTS; i++)
		s[i] = dial();
	no_room();
	for (int i = 0; i < CLIENTS; i++) {
		after_pause();
		turns();
		assert_int_equal(num_came, 1);
		copy = dup(STDERR_FILENO); /* what the connection asks for may open something */
		assert_true(copy >= 0);
		close(copy);
		close(came[0]);
		acceptor_refill(&a);
		num_came = 0;
	}
	setrlimit(RLIMIT_NOFILE, &old);
	for (int i = 0; i < CLIENTS; i++)
		close(s[i]);
	stop();
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(connections_wait_for_descriptors),
			cmocka_unit_test(spares_serve_one_at_a_time));
}
