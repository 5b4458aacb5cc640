/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/device_rig.c tests/rig/fakes/fake_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c */
/*
 * test_context.c - what a program finds in a context that it opens, and when it cannot.
 */
#include <fcntl.h>
#include <netinet/ip.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/device_rig.h"
#include "tests/rig/unit/unit.h"

static void test_open_fails(void **state)
{
	static const enum ff_msg_type types[] = { FF_MSG_HELLO, FF_MSG_QUERY_DEVICE,
						  FF_MSG_GET_SEG };
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;
	unsigned int i;
	int status;
	pid_t pid;

	(void)state;
	assert_non_null(list[0]);
	device_router.fault = FAULT_STATUS;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		device_router.fault_type = types[i];
		errno = 0;
		assert_null(ibv_open_device(list[0]));
		assert_int_equal(errno, EMFILE);
	}
	device_router.fault = FAULT_NONE;
	device_mr_ret = -ENOMEM;
	assert_null(ibv_open_device(list[0]));
	assert_int_equal(errno, ENOMEM);
	router_wait_closed(&device_router, 5);
	/* Nothing of them is left for fork's handlers to go through. */
	device_mr_ret = 0;
	c = ibv_open_device(list[0]);
	assert_non_null(c);
	pid = fork();
	if (!pid)
		_exit(0);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	assert_int_equal(ibv_close_device(c), 0);
	ibv_free_device_list(list);
}

/* A program that takes the number as it is would find no vector to make a CQ with. */
static void test_no_vectors(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c;

	(void)state;
	device_router.dev.num_comp_vectors = 0;
	c = ibv_open_device(list[0]);
	assert_non_null(c);
	assert_int_equal(c->num_comp_vectors, 1);
	assert_int_equal(ibv_close_device(c), 0);
	ibv_free_device_list(list);
}

/* Where the kernel does not tell the router who connected, HELLO has to show a number. */
static void test_challenge(void **state)
{
	struct ibv_device **list;
	struct ibv_context *c;

	(void)state;
	device_router.challenge = true;
	list = ibv_get_device_list(NULL);
	assert_non_null(list[0]);
	c = ibv_open_device(list[0]);
	assert_non_null(c);
	assert_int_equal(device_router.calls[FF_MSG_CHALLENGE], 2);
	assert_int_equal(device_router.calls[FF_MSG_HELLO], 4);
	assert_memory_equal(device_router.hello.nonce, ROUTER_NONCE, FF_NONCE_SZ);
	ibv_free_device_list(list);
	assert_int_equal(ibv_close_device(c), 0);
	router_wait_closed(&device_router, 2);
}

static void test_context(void **state)
{
	struct verbs_context *v = verbs_get_ctx(device_ctx);
	int flags;

	(void)state;
	assert_ptr_equal(device_ctx->abi_compat, (void *)UINTPTR_MAX);
	assert_int_equal(*((size_t *)device_ctx - 1), FFL_VERBS_CONTEXT_SZ);
	assert_string_equal(device_ctx->device->name, "ff0");
	assert_int_equal(device_ctx->num_comp_vectors, 1);
	assert_true(device_ctx->cmd_fd >= 512);
	flags = fcntl(device_ctx->async_fd, F_GETFL);
	assert_true(flags >= 0 && !(flags & O_NONBLOCK));
	assert_int_equal(fcntl(device_ctx->async_fd, F_GETFD), FD_CLOEXEC);
	assert_true(to_ctx(device_ctx)->sock >= 512 && to_ctx(device_ctx)->bell_fd >= 512);
	assert_ptr_equal(device_ctx->ops.post_send, ffl_post_send);
	assert_ptr_equal(v->create_qp_ex, ffl_create_qp_ex);
	assert_ptr_equal(device_ctx->ops.bind_mw, ffl_bind_mw);
	assert_ptr_equal(v->reg_dm_mr, ffl_reg_dm_mr);
	assert_ptr_equal(v->open_xrcd, ffl_open_xrcd);
	assert_null(v->priv);
	/* the newest operation known, which lies below our verbs_context */
	assert_null(*(void **)((uint8_t *)device_ctx + sizeof(*device_ctx) - 696));
	assert_string_equal(device_router.hello.comm, "test_context");
	assert_null(ibv_create_counters(device_ctx, &(struct ibv_counters_init_attr){ 0 }));
	assert_int_equal(errno, EOPNOTSUPP);
}

static bool is_open(int fd)
{
	return fcntl(fd, F_GETFD) >= 0;
}

/* rdma_cm leaves a device whose router is gone; the program may know the context, and have objects in it. */
static void test_leave(void **state)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *c = ibv_open_device(list[0]);
	int fds[] = { to_ctx(c)->sock, to_ctx(c)->bell_fd, c->async_fd, c->cmd_fd };
	struct ibv_xrcd_init_attr domain = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct ibv_pd *pd = ibv_alloc_pd(c);
	struct ibv_xrcd *xrcd = ibv_open_xrcd(c, &domain);

	(void)state;
	ibv_free_device_list(list);
	assert_true(pd && xrcd);
	assert_int_equal(ffl_device_leave(c), -EBUSY);
	ffl_mark_dead(to_ctx(c));
	assert_int_equal(ffl_device_leave(c), -EBUSY);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		assert_true(is_open(fds[i]));
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ffl_device_leave(c), -EBUSY);
	assert_int_equal(ibv_close_xrcd(xrcd), 0);
	/* the program has closed one that it saw, and has another file there */
	assert_int_equal(dup2(STDERR_FILENO, c->cmd_fd), c->cmd_fd);
	assert_int_equal(ffl_device_leave(c), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(fds); i++)
		assert_int_equal(is_open(fds[i]), i == 3);
	close(fds[3]);
	assert_int_equal(c->async_fd, -1);
	assert_null(ibv_alloc_pd(c));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_query_device(c, &attr), EIO);
	assert_int_equal(ibv_get_async_event(c, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	assert_int_equal(ibv_get_async_event(c, &ev), -1);
	assert_int_equal(errno, EIO);
	ffl_session_free(to_ctx(c));
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	return UNIT_RUN(DEVICE_ROUTER_TEST(test_open_fails), DEVICE_ROUTER_TEST(test_challenge),
			DEVICE_ROUTER_TEST(test_no_vectors), DEVICE_TEST(test_context),
			DEVICE_ROUTER_TEST(test_leave));
}
