/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 300 */
/*
 * verbs_import.c - ibv_import_device, ibv_import_pd, ibv_import_mr: in the same process, in another
 * one that got the descriptor over a socket, and what is refused.
 */
#include "tests/rig/verbs/vt.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define LEN 65536u

static void in_the_same_process(void)
{
	struct vt_end a, b;
	struct vt_param par = VT_PARAM;
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	struct ibv_sge sge;
	struct ibv_send_wr wr, *bad;
	int fd;

	vt_end_open(&a, &par); /* whose PD and MR are imported */
	vt_end_open(&b, &par); /* the peer */
	fd = dup(a.ctx->cmd_fd);
	CHECK(fd >= 0);
	ctx = CHECK_PTR(ibv_import_device(fd));
	CHECK_EQ(ctx->cmd_fd, fd);
	pd = CHECK_PTR(ibv_import_pd(ctx, a.pd->handle));
	CHECK_EQ(pd->handle, a.pd->handle);
	mr = CHECK_PTR(ibv_import_mr(pd, a.mr->handle));
	CHECK_EQ(mr->handle, a.mr->handle);
	CHECK_EQ(mr->lkey, a.mr->lkey);
	CHECK_EQ(mr->rkey, a.mr->rkey);
	CHECK_EQ(mr->length, a.mr->length);
	CHECK(!mr->addr);
	/* a QP of the importing context uses the key, and its peer reaches the memory */
	{
		struct vt_end c;

		vt_end_open_on(&c, &par, ctx, pd);
		vt_connect(&c, &b.self);
		vt_connect(&b, &c.self);
		vt_pattern(a.buf, 1000, 3);
		sge = (struct ibv_sge){ (uintptr_t)a.buf, 1000, mr->lkey };
		wr = (struct ibv_send_wr){ .wr_id = 1,
					   .sg_list = &sge,
					   .num_sge = 1,
					   .opcode = IBV_WR_RDMA_WRITE,
					   .send_flags = IBV_SEND_SIGNALED,
					   .wr.rdma = { b.self.addr, b.self.rkey } };
		CHECK_OK(ibv_post_send(c.qp, &wr, &bad));
		WANT_OK(c.scq, 1);
		CHECK_PATTERN(b.buf, 1000, 3);
		vt_pattern(b.buf, 1000, 4);
		vt_aim(&b, a.buf, a.mr);
		vt_rdma(&b, IBV_WR_RDMA_WRITE, 2, 0, 1000, 0, IBV_SEND_SIGNALED);
		WANT_OK(b.scq, 2);
		CHECK_PATTERN(a.buf, 1000, 4);
		CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
		vt_end_close(&c);
	}
	ibv_unimport_mr(mr);
	ibv_unimport_pd(pd);
	CHECK_OK(ibv_close_device(ctx));
	CHECK_EQ(fcntl(fd, F_GETFD), -1); /* it was the context's */
	/* the original is as it was */
	vt_connect_qp(a.qp, &par, &a.self, &b.self);
	CHECK_OK(vt_to_state(b.qp, IBV_QPS_RESET));
	vt_connect(&b, &a.self);
	a.peer = b.self;
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 3, 0, 100, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 3);
	vt_end_close(&b);
	vt_end_close(&a);
}

/* ---- another process -------------------------------------------------------------------------- */

struct offer {
	uint32_t pd, mr;
	uint64_t addr;
};

static void send_offer(int sock, const struct offer *o, int fd)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(sizeof(int))];
	} cm = { 0 };
	struct iovec iov = { (void *)o, sizeof(*o) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = cm.buf,
			      .msg_controllen = sizeof(cm.buf) };

	cm.h.cmsg_level = SOL_SOCKET;
	cm.h.cmsg_type = SCM_RIGHTS;
	cm.h.cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(&cm.h), &fd, sizeof(fd));
	CHECK_EQ(sendmsg(sock, &msg, 0), sizeof(*o));
}

static int recv_offer(int sock, struct offer *o)
{
	union {
		struct cmsghdr h;
		char buf[CMSG_SPACE(sizeof(int))];
	} cm;
	struct iovec iov = { o, sizeof(*o) };
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = cm.buf,
			      .msg_controllen = sizeof(cm.buf) };
	int fd;

	CHECK_EQ(recvmsg(sock, &msg, 0), sizeof(*o));
	memcpy(&fd, CMSG_DATA(&cm.h), sizeof(fd));
	return fd;
}

/* Writes from the other process's memory to the other process's memory, which it cannot see. */
static void importer(int sock)
{
	struct vt_param par = VT_PARAM;
	struct vt_end c, d;
	struct ibv_context *ctx;
	struct ibv_send_wr wr, *bad;
	struct ibv_sge sge;
	struct ibv_pd *pd, *again;
	struct ibv_mr *mr;
	struct offer o = { 0 };
	char go;

	ctx = CHECK_PTR(ibv_import_device(recv_offer(sock, &o)));
	pd = CHECK_PTR(ibv_import_pd(ctx, o.pd));
	mr = CHECK_PTR(ibv_import_mr(pd, o.mr));
	vt_end_open_on(&c, &par, ctx, pd);
	vt_end_open_on(&d, &par, ctx, pd);
	vt_connect(&c, &d.self);
	vt_connect(&d, &c.self);
	sge = (struct ibv_sge){ o.addr, 1000, mr->lkey };
	wr = (struct ibv_send_wr){ .wr_id = 1,
				   .sg_list = &sge,
				   .num_sge = 1,
				   .opcode = IBV_WR_RDMA_WRITE,
				   .send_flags = IBV_SEND_SIGNALED,
				   .wr.rdma = { o.addr + 2000, mr->rkey } };
	CHECK_OK(ibv_post_send(c.qp, &wr, &bad));
	WANT_OK(c.scq, 1);
	CHECK_EQ(write(sock, "w", 1), 1);
	/* the first process ends: its memory is gone, and so are the keys, but not our objects */
	CHECK_EQ(read(sock, &go, 1), 0);
	while ((again = ibv_import_pd(ctx, o.pd))) /* the router has not heard of it yet */
		ibv_unimport_pd(again);
	CHECK_EQ(errno, ENODEV);
	wr.wr_id = 2;
	CHECK_OK(ibv_post_send(c.qp, &wr, &bad));
	WANT(c.scq, 2, IBV_WC_LOC_PROT_ERR);
	ibv_unimport_mr(mr);
	vt_end_close(&d);
	vt_end_close(&c);
	ibv_unimport_pd(pd);
	CHECK_OK(ibv_close_device(ctx));
	_exit(0);
}

static void owner(int sock)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a;
	struct offer o;
	char c;

	vt_end_open(&a, &par);
	vt_pattern(a.buf, 1000, 8);
	o = (struct offer){ a.pd->handle, a.mr->handle, (uintptr_t)a.buf };
	send_offer(sock, &o, a.ctx->cmd_fd);
	CHECK_EQ(read(sock, &c, 1), 1);
	CHECK_PATTERN(a.buf + 2000, 1000, 8);
	_exit(0);
}

static void in_another_process(void)
{
	int pair[2];
	pid_t pid[2];

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	for (int i = 0; i < 2; i++) {
		pid[i] = fork();
		CHECK(pid[i] >= 0);
		if (pid[i])
			continue;
		close(pair[!i]);
		if (i)
			importer(pair[1]);
		owner(pair[0]);
	}
	close(pair[0]);
	close(pair[1]);
	CHECK_EQ(vt_child_status(pid[0]), 0);
	CHECK_EQ(vt_child_status(pid[1]), 0);
}

/* ---- ends -------------------------------------------------------------------------------------- */

/* Who imports may destroy, too; the others give back what they have. */
static void destroyed_by_the_importer(void)
{
	struct ibv_context *first = vt_open_device(), *ctx;
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(first)), *imported;
	uint8_t *buf = vt_map(LEN);
	struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(pd, buf, LEN, VT_ACCESS_ALL)), *other;

	ctx = CHECK_PTR(ibv_import_device(dup(first->cmd_fd)));
	imported = CHECK_PTR(ibv_import_pd(ctx, pd->handle));
	other = CHECK_PTR(ibv_import_mr(imported, mr->handle));
	CHECK_OK(ibv_dereg_mr(other));
	CHECK_NULL(ibv_import_mr(imported, mr->handle), EINVAL);
	ibv_unimport_mr(mr);
	CHECK_OK(ibv_dealloc_pd(imported));
	CHECK_NULL(ibv_import_pd(ctx, pd->handle), EINVAL);
	CHECK_NULL(ibv_reg_mr(pd, buf, LEN, VT_ACCESS_ALL), EINVAL);
	ibv_unimport_pd(pd);
	CHECK_OK(ibv_close_device(ctx));
	CHECK_OK(ibv_close_device(first));
	memset(buf, 1, LEN); /* the memory is ours again */
	munmap(buf, LEN);
}

/* The importer keeps a PD alive that its owner has lost. */
static void the_owner_goes_first(void)
{
	struct ibv_context *first = vt_open_device(), *ctx;
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(first)), *imported;
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	ctx = CHECK_PTR(ibv_import_device(dup(first->cmd_fd)));
	imported = CHECK_PTR(ibv_import_pd(ctx, pd->handle));
	vt_end_open_on(&a, &par, ctx, imported);
	CHECK_OK(ibv_close_device(first));
	vt_end_open_on(&b, &par, ctx, imported);
	vt_connect(&a, &b.self);
	vt_connect(&b, &a.self);
	vt_check_alive(&a, &b);
	vt_end_close(&b);
	vt_end_close(&a);
	CHECK_OK(ibv_dealloc_pd(imported));
	CHECK_OK(ibv_close_device(ctx));
}

static void refusals(void)
{
	struct ibv_context *first = vt_open_device(), *ctx;
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(first)),
		      *second = CHECK_PTR(ibv_alloc_pd(first));
	struct ibv_pd *imported;
	uint8_t *buf = vt_map(LEN);
	struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(second, buf, LEN, VT_ACCESS_ALL));
	int pair[2], fd;

	CHECK_NULL(ibv_import_device(-1), EINVAL);
	fd = open("/dev/null", O_RDWR);
	CHECK_NULL(ibv_import_device(fd), EINVAL);
	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	CHECK_NULL(ibv_import_device(pair[0]), EINVAL);
	/* a context that imports nothing, and one that names what is not there */
	CHECK_NULL(ibv_import_pd(first, pd->handle), ENODEV);
	ctx = CHECK_PTR(ibv_import_device(dup(first->cmd_fd)));
	CHECK_NULL(ibv_import_pd(ctx, 0), EINVAL);
	CHECK_NULL(ibv_import_pd(ctx, pd->handle + 77), EINVAL);
	imported = CHECK_PTR(ibv_import_pd(ctx, pd->handle));
	CHECK_NULL(ibv_import_mr(imported, 0), EINVAL);
	CHECK_NULL(ibv_import_mr(imported, mr->handle), EINVAL); /* of another PD */
	/* the descriptor cannot be made to say something else */
	CHECK_EQ(pwrite(first->cmd_fd, "x", 1, 0), -1);
	/* its session has ended */
	fd = dup(first->cmd_fd);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_close_device(first));
	WAIT_FOR(!ibv_import_device(fd) && errno == ENODEV);
	CHECK(fcntl(fd, F_GETFD) >= 0); /* still ours */
	ibv_unimport_pd(imported);
	CHECK_OK(ibv_close_device(ctx));
}

VT_MAIN({ "in_the_same_process", in_the_same_process, 0 },
	{ "in_another_process", in_another_process, 0 },
	{ "destroyed_by_the_importer", destroyed_by_the_importer, 0 },
	{ "the_owner_goes_first", the_owner_goes_first, 0 }, { "refusals", refusals, 0 })
