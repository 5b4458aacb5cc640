/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ctl_calls.c - see ctl_calls.h. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/rig/unit/ctl_calls.h"
#include "tests/rig/unit/seal.h"

struct ctl_rig call_rig;

int call_setup(void **state)
{
	(void)state;
	rig_open(&call_rig);
	return 0;
}

int call_teardown(void **state)
{
	(void)state;
	rig_close(&call_rig);
	return 0;
}

int call_client(struct ctl_rig *g, int container)
{
	int sock = rig_connect(g, container);

	assert_int_equal(rig_hello(g, sock), 0);
	if (!g->unsealed)
		clients_seal(g->ctl.host);
	return sock;
}

int call_uffd(void)
{
	struct uffdio_api api = { .api = UFFD_API };
	int fd =
		(int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */);

	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	return fd;
}

int call_try_watch_pages(struct ctl_rig *g, int sock, int *file)
{
	struct ff_watch_pages_req req = { 0 };
	struct ff_watch_pages_resp resp;
	int send[] = { call_uffd(), open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) };
	int st = rig_call_fd(g, sock, FF_MSG_WATCH_PAGES, &req, sizeof(req), send, 2, &resp,
			     sizeof(resp), file);

	close(send[0]);
	close(send[1]);
	return st;
}

int call_watch_pages(struct ctl_rig *g, int sock)
{
	int file;

	assert_int_equal(call_try_watch_pages(g, sock, &file), 0);
	assert_true(file >= 0);
	return file;
}

int call_place_pages(struct ctl_rig *g, int sock, uint64_t span, uint64_t *off)
{
	struct ff_place_pages_req req = { .len = span, .span = span };
	struct ff_place_pages_resp resp;
	int fd, status = rig_call_fd(g, sock, FF_MSG_PLACE_PAGES, &req, sizeof(req), NULL, 0, &resp,
				     sizeof(resp), &fd);

	assert_int_equal(fd >= 0, !status);
	if (fd >= 0)
		close(fd);
	*off = resp.off;
	return status;
}

int call_shadow(struct ctl_rig *g, int sock, uint64_t len, uint64_t *off)
{
	int file = call_watch_pages(g, sock);

	assert_int_equal(call_place_pages(g, sock, len, off), 0);
	assert_int_equal(fallocate(file, 0, (off_t)*off, (off_t)len), 0);
	return file;
}

uint32_t call_pd(struct ctl_rig *g, int sock)
{
	struct ff_alloc_pd_req req = { 0 };
	struct ff_alloc_pd_resp resp;

	assert_int_equal(RIG_CALL(g, sock, ALLOC_PD, &req, &resp), 0);
	assert_int_not_equal(resp.pd, 0);
	return resp.pd;
}

int call_create_cq(struct ctl_rig *g, int sock, uint32_t cqe, uint32_t channel,
		   struct ff_create_cq_resp *resp)
{
	struct ff_create_cq_req req = { .cqe = cqe, .channel = channel };

	return RIG_CALL(g, sock, CREATE_CQ, &req, resp);
}

uint32_t call_cq(struct ctl_rig *g, int sock)
{
	struct ff_create_cq_resp resp;

	assert_int_equal(call_create_cq(g, sock, 10, 0, &resp), 0);
	return resp.cq;
}

struct ff_create_qp_req call_qp_req(uint32_t pd, uint32_t cq, uint32_t type)
{
	return (struct ff_create_qp_req){
		.pd = pd,
		.send_cq = cq,
		.recv_cq = cq,
		.qp_type = type,
		.cap = { 100, 10, 3, 1, 100 },
	};
}

uint32_t call_qp(struct ctl_rig *g, int sock, uint32_t pd, uint32_t cq)
{
	struct ff_create_qp_req req = call_qp_req(pd, cq, IBV_QPT_RC);
	struct ff_create_qp_resp resp;

	assert_int_equal(RIG_CALL(g, sock, CREATE_QP, &req, &resp), 0);
	return resp.qp;
}

int call_reg_mr(struct ctl_rig *g, int sock, uint32_t pd, void *addr, uint64_t len, uint32_t access,
		struct ff_reg_mr_resp *resp)
{
	struct ff_reg_mr_req req = { (uintptr_t)addr, len, (uintptr_t)addr, pd, access };

	return RIG_CALL(g, sock, REG_MR, &req, resp);
}

/* Calls whose request is one handle, and zeros. */
int call_one(struct ctl_rig *g, int sock, uint16_t type, uint32_t handle)
{
	uint32_t req[16] = { handle }, resp;

	return rig_call(g, sock, type, req, ctl_type(type)->req_size, NULL, 0, 0, &resp,
			sizeof(resp), NULL, NULL);
}
