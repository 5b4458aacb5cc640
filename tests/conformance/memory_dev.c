/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * memory_dev.c - the verbs device: one RC QP, connected with itself.
 */
#include "tests/conformance/memory.h"
#include "tests/rig/verbs/vt.h"

#include <sched.h>
#include <stdlib.h>

static struct ibv_context *ctx;
static struct ibv_pd *pd;
static struct ibv_cq *cq;
static struct ibv_qp *qp;
static struct ibv_mr *mr, *bounce_mr;
static uint8_t *bounce; /* a page that is written from, and one that is read into */
static uint8_t *base;

static const char *verbs_open(void)
{
	struct ibv_qp_init_attr init = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 16, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1 }
	};
	struct vt_param par = VT_PARAM;
	struct vt_addr self = { .psn = 1 };
	struct ibv_port_attr port;
	const char *name = getenv("VT_DEVICE");
	struct ibv_device **list;
	int n = 0, i = 0;

	list = ibv_get_device_list(&n);
	while (list && name && i < n && strcmp(ibv_get_device_name(list[i]), name))
		i++;
	if (!list || i >= n)
		return "no-device";
	ctx = ibv_open_device(list[i]);
	ibv_free_device_list(list);
	if (!ctx || !(pd = ibv_alloc_pd(ctx)) || !(cq = ibv_create_cq(ctx, 64, NULL, NULL, 0)))
		return "not-opened";
	init.send_cq = init.recv_cq = cq;
	bounce = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	qp = ibv_create_qp(pd, &init);
	bounce_mr = ibv_reg_mr(pd, bounce, 2 * PAGE, IBV_ACCESS_LOCAL_WRITE);
	if (!qp || !bounce_mr || ibv_query_port(ctx, 1, &port))
		return "not-created";
	vt_gid(ctx, &self.gid);
	self.lid = port.lid;
	self.qpn = qp->qp_num;
	vt_connect_qp(qp, &par, &self, &self);
	return "ok";
}

static int verbs_reg(void *p, size_t len, bool atomics)
{
	errno = 0;
	base = p;
	mr = ibv_reg_mr(pd, p, len, VT_ACCESS_ALL & ~(atomics ? 0 : IBV_ACCESS_REMOTE_ATOMIC));
	return mr ? 0 : errno;
}

static int verbs_dereg(void)
{
	return ibv_dereg_mr(mr);
}

static const char *move(enum ibv_wr_opcode op, void *local, size_t off)
{
	struct ibv_sge sge = { (uintptr_t)local, PAGE, bounce_mr->lkey };
	struct ibv_send_wr *bad, wr = { .sg_list = &sge,
					.num_sge = 1,
					.opcode = op,
					.send_flags = IBV_SEND_SIGNALED,
					.wr.rdma = { (uintptr_t)base + off, mr->rkey } };
	struct ibv_wc wc;
	int err = ibv_post_send(qp, &wr, &bad);

	if (err)
		return err_name(err);
	while (!(err = ibv_poll_cq(cq, 1, &wc)))
		sched_yield();
	if (err < 0)
		return "poll";
	switch (wc.status) {
	case IBV_WC_SUCCESS:
		return "ok";
	case IBV_WC_REM_ACCESS_ERR:
		return "remote-access";
	case IBV_WC_REM_OP_ERR:
		return "remote-operation";
	case IBV_WC_LOC_PROT_ERR:
		return "local-protection";
	case IBV_WC_WR_FLUSH_ERR:
		return "flushed";
	default:
		return "failed";
	}
}

static const char *verbs_write(size_t off, const void *page)
{
	memcpy(bounce, page, PAGE);
	return move(IBV_WR_RDMA_WRITE, bounce, off);
}

static const char *verbs_read(size_t off, void *page)
{
	const char *word = move(IBV_WR_RDMA_READ, bounce + PAGE, off);

	memcpy(page, bounce + PAGE, PAGE);
	return word;
}

const struct device dev_verbs = {
	"dev", verbs_open, verbs_reg, verbs_dereg, verbs_write, verbs_read
};
