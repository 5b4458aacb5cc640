/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_fds.c - ffr/lib/fds.c: descriptors that come with a packet, and more of them than there is
 * room for.
 */
/* build: ffr/lib/fds.c */
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/lib/fds.h"
#include "tests/rig/common/dir.h"
#include "tests/rig/unit/unit.h"

enum { SENT = 4 };

static int sock[2];

static int setup(void **state)
{
	(void)state;
	return socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sock);
}

static int teardown(void **state)
{
	(void)state;
	return close(sock[0]) | close(sock[1]);
}

static void send_some(void)
{
	int fds[SENT];

	for (int i = 0; i < SENT; i++)
		fds[i] = sock[0];
	assert_int_equal(fds_send(sock[0], "x", 1, fds, SENT, 0), 1);
}

/* Also of an odd number, where what pads the room for them would hold one more. */
static void no_more_come_than_there_is_room_for(void **state)
{
	unsigned before = dir_count("/proc/self/fd"), n;
	int fds[SENT];
	char byte;

	(void)state;
	for (unsigned room = 1; room <= SENT; room++) {
		for (int i = 0; i < SENT; i++)
			fds[i] = -1;
		send_some();
		assert_int_equal(fds_recv(sock[1], &byte, 1, fds, room, &n, 0), 1);
		assert_int_equal(n, room);
		for (unsigned i = room; i < SENT; i++)
			assert_int_equal(fds[i], -1);
		for (unsigned i = 0; i < n; i++)
			close(fds[i]);
		assert_int_equal(dir_count("/proc/self/fd"), before); /* the rest is closed */
	}
}

static void programs_do_not_inherit_them(void **state)
{
	int fds[SENT];
	unsigned n;
	char byte;

	(void)state;
	send_some();
	assert_int_equal(fds_recv(sock[1], &byte, 1, fds, SENT, &n, 0), 1);
	assert_int_equal(n, SENT);
	for (unsigned i = 0; i < n; i++) {
		assert_int_equal(fcntl(fds[i], F_GETFD), FD_CLOEXEC);
		close(fds[i]);
	}
}

static void none_come_when_it_fails(void **state)
{
	unsigned n = 7;
	int fds[SENT];
	char byte;

	(void)state;
	assert_int_equal(fds_recv(sock[1], &byte, 1, fds, SENT, &n, MSG_DONTWAIT), -1);
	assert_int_equal(n, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(no_more_come_than_there_is_room_for), T(programs_do_not_inherit_them),
			T(none_come_when_it_fails));
}
