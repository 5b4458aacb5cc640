/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_device.c - the list of devices, with a router and without.
 */
#include <fcntl.h>
#include <netinet/ip.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

static void test_list(void **state)
{
	static const uint8_t zero[64];
	struct ibv_device **list;
	int n = -1;

	(void)state;
	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 1);
	assert_non_null(list[0]);
	assert_null(list[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "ff0");
	assert_string_equal(list[0]->dev_name, "uverbs_ff0");
	assert_string_equal(list[0]->ibdev_path, "/sys/class/infiniband/ff0");
	assert_int_equal(list[0]->node_type, IBV_NODE_CA);
	assert_int_equal(list[0]->transport_type, IBV_TRANSPORT_IB);
	assert_int_equal(ibv_get_device_guid(list[0]), 0x1122334455667788);
	assert_int_equal(ibv_get_device_index(list[0]), -1);
	/* where libmlx5 and libefa look for a pointer of theirs */
	assert_memory_equal(list[0] + 1, zero, sizeof(zero));
	ibv_free_device_list(list);
	assert_non_null(list = ibv_get_device_list(NULL));
	ibv_free_device_list(list);
}

/*
 * What the router says that they are. It runs in a child: a process keeps the names that it has seen. Returns how many
 * devices the list has, all of which have been opened.
 */
static int several_in_child(void)
{
	struct ibv_device **list;
	int n = 0;

	list = ibv_get_device_list(&n);
	for (int i = 0; i < n; i++) {
		char name[64], node[64], path[128];
		struct ibv_context *c = ibv_open_device(list[i]);

		snprintf(name, sizeof(name), "mlx5_%d", i);
		snprintf(node, sizeof(node), "uverbs_ff%d", i);
		snprintf(path, sizeof(path), "/sys/class/infiniband/mlx5_%d", i);
		if (!c || c->device != list[i] || strcmp(ibv_get_device_name(list[i]), name) ||
		    strcmp(list[i]->dev_name, node) || strcmp(list[i]->ibdev_path, path) ||
		    ibv_get_device_guid(list[i]) != 0x1122334455667788 + (uint64_t)i)
			_exit(99);
		ibv_close_device(c);
	}
	ibv_free_device_list(list);
	return n;
}

static int child_sees(uint16_t num, const char *name)
{
	int status;
	pid_t child;

	device_router.num_devices = num;
	device_router.device_name = name;
	child = fork();
	if (!child)
		_exit(several_in_child());
	assert_true(child > 0);
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Before the others: nobody in this process has asked for a list yet. */
static void test_several(void **state)
{
	(void)state;
	assert_int_equal(child_sees(3, "mlx5_"), 3);
	assert_int_equal(child_sees(FF_DEVICES_MAX, "mlx5_"), FF_DEVICES_MAX);
	assert_int_equal(child_sees(FF_DEVICES_MAX + 1, "mlx5_"), 0);
	/* no part of a path */
	assert_int_equal(child_sees(1, "../mlx5_"), 0);
	assert_int_equal(child_sees(1, "x/mlx5_"), 0);
}

static void assert_no_device(void)
{
	struct ibv_device **list;
	int n = -1;

	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 0);
	assert_null(list[0]);
	ibv_free_device_list(list);
}

static void test_no_device(void **state)
{
	static const enum fault faults[] = { FAULT_STATUS, FAULT_SHORT, FAULT_CLOSE,
					     FAULT_FD_MISSING, FAULT_FD };
	unsigned int i;

	(void)state;
	setenv("FFL_SOCKET", "/nonexistent/sock", 1);
	assert_no_device();
	setenv("FFL_SOCKET", device_router.path, 1);
	device_router.fault_type = FF_MSG_HELLO;
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		device_router.fault = faults[i];
		assert_no_device();
	}
	device_router.fault = FAULT_NONE;
	router_stop(&device_router);
	assert_no_device();
}

/* The container has used up its share of the router's CPU: its programs wait, and find the device. */
static void test_busy_router(void **state)
{
	struct ibv_device **list;
	int n = -1;

	(void)state;
	device_router.hello_ms = 2500;
	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 1);
	ibv_free_device_list(list);
}

static unsigned open_fds(void)
{
	unsigned n = 0;

	for (int fd = 0; fd < 2048; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void look(void)
{
	uint32_t closed = device_router.closed;

	ibv_free_device_list(ibv_get_device_list(NULL));
	router_wait_closed(&device_router, closed + 1);
}

/* A look at the list leaves no session and no descriptor behind. */
static void test_looks(void **state)
{
	unsigned before;

	(void)state;
	look(); /* the router has its segment after the first */
	before = open_fds();
	for (int i = 0; i < 5; i++)
		look();
	assert_int_equal(open_fds(), before);
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_ROUTER_TEST(test_several), DEVICE_ROUTER_TEST(test_list),
			DEVICE_ROUTER_TEST(test_looks), DEVICE_ROUTER_TEST(test_no_device),
			DEVICE_ROUTER_TEST(test_busy_router));
}
