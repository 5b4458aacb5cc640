/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_ndev.c - ffl/session/ndev.c: the interfaces of the process's addresses, in a network of its own where it may make one.
 *
 * build: ffl/session/log.c
 */
#include <sched.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ndev.c"

static struct ff_ndev told[FF_NDEVS_MAX + 1];
static unsigned num_told;

int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	(void)ctx;
	(void)req;
	(void)req_len;
	(void)resp;
	(void)resp_len;
	(void)fds;
	(void)max_fds;
	(void)n_fds;
	assert_int_equal(type, FF_MSG_TELL_NDEVS);
	assert_int_equal(tail_size, sizeof(told[0]));
	memcpy(told, tail, n_tail * tail_size);
	num_told = n_tail;
	return 0;
}

int ffl_fd_high(int fd)
{
	return fd;
}

static const uint8_t loopback[16] = { [10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1 };
static const uint8_t net1s[16] = { [10] = 0xff, [11] = 0xff, [12] = 192, [14] = 2, [15] = 77 };
static const uint8_t none[16];

static void set_up(const char *name)
{
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct ifreq r = { .ifr_flags = IFF_UP };

	strcpy(r.ifr_name, name);
	assert_int_equal(ioctl(fd, SIOCSIFFLAGS, &r), 0);
	close(fd);
}

static bool is_told(const uint8_t *addr, const char *name)
{
	for (unsigned i = 0; i < num_told; i++)
		if (!memcmp(told[i].addr, addr, 16) && !strcmp(told[i].name, name))
			return true;
	return false;
}

/* A network with nothing but the loopback interface, and then that is up. */
static void no_network(void **state)
{
	(void)state;
	if (unshare(CLONE_NEWNET))
		skip();
	assert_int_equal(ffl_ndev_of(loopback), 0);
	assert_int_equal(ffl_ndev_any(), 0);
	ffl_ndevs_tell(NULL);
	assert_int_equal(num_told, 0);
	set_up("lo");
	assert_int_equal(ffl_ndev_of(loopback), if_nametoindex("lo"));
	assert_int_equal(ffl_ndev_of(net1s), 0);
	assert_int_equal(ffl_ndev_any(), 0); /* it leads nowhere */
	ffl_ndevs_tell(NULL);
	assert_true(is_told(loopback, "lo"));
	for (unsigned i = 0; i < num_told; i++)
		assert_memory_not_equal(told[i].addr, none, 16);
}

/* An interface comes later, and is renamed. */
static void a_network_later(void **state)
{
	(void)state;
	if (!if_nametoindex("lo") || ffl_ndev_any() ||
	    system("ip link add net1 type veth peer name other && ip link set net1 up && "
		   "ip address add 192.0.2.77/24 dev net1 label net1:1"))
		skip();
	assert_int_equal(ffl_ndev_of(net1s), if_nametoindex("net1"));
	assert_int_equal(ffl_ndev_any(), if_nametoindex("net1"));
	ffl_ndevs_tell(NULL);
	assert_true(is_told(net1s, "net1"));
	assert_true(is_told(none, "net1"));
	assert_int_equal(
		system("ip link set net1 down && ip link set net1 name x && ip link set x up"), 0);
	assert_int_equal(ffl_ndev_of(net1s), if_nametoindex("x"));
	ffl_ndevs_tell(NULL);
	assert_true(is_told(none, "x"));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(no_network), cmocka_unit_test(a_network_later));
}
