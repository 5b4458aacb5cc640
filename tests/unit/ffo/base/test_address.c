/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffo/base/address.c */
/* test_address.c - ffo/base/address.c: what a TCP connection between two hosts is set to. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffo/base/address.h"
#include "tests/rig/unit/unit.h"

static int option(int fd, int level, int name)
{
	int value = 0;
	socklen_t len = sizeof(value);

	assert_int_equal(getsockopt(fd, level, name, &value, &len), 0);
	return value;
}

/* A peer whose machine has gone is noticed, whether it owes an answer or not. */
static void silence_is_noticed(void **state)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)state;
	assert_true(fd >= 0);
	ffo_tcp_options(fd);
	assert_true(option(fd, SOL_SOCKET, SO_KEEPALIVE));
	assert_true(option(fd, IPPROTO_TCP, TCP_KEEPIDLE) * 1000 < FFO_TCP_SILENCE);
	assert_int_equal(option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT), FFO_TCP_SILENCE);
	close(fd);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(silence_is_noticed));
}
