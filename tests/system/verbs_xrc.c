/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_xrc.c - XRC as a program sees it: domains with and without a file, SRQs by number, QPs
 * that several processes have open, every operation, and what is refused.
 */
#include "tests/rig/verbs/vt.h"

#include <endian.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process's side of a domain. */
struct side {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_xrcd *xrcd;
	struct ibv_srq *srq;
	uint32_t srqn;
	uint8_t *buf;
	struct ibv_mr *mr;
};

#define BUF_LEN (256u * 1024)

static struct ibv_xrcd *xrcd_open(struct ibv_context *ctx, int fd, int oflags)
{
	struct ibv_xrcd_init_attr attr = { .comp_mask = IBV_XRCD_INIT_ATTR_FD |
							IBV_XRCD_INIT_ATTR_OFLAGS,
					   .fd = fd,
					   .oflags = oflags };

	return ibv_open_xrcd(ctx, &attr);
}

static struct ibv_srq *srq_make(struct side *s, struct ibv_xrcd *x)
{
	struct ibv_srq_init_attr_ex attr = {
		.attr = { .max_wr = 64, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_XRCD |
			     IBV_SRQ_INIT_ATTR_CQ | IBV_SRQ_INIT_ATTR_PD,
		.srq_type = IBV_SRQT_XRC,
		.xrcd = x,
		.cq = s->cq,
		.pd = s->pd,
	};

	return ibv_create_srq_ex(s->ctx, &attr);
}

static void side_open(struct side *s, int fd)
{
	s->ctx = vt_open_device();
	s->pd = CHECK_PTR(ibv_alloc_pd(s->ctx));
	s->cq = CHECK_PTR(ibv_create_cq(s->ctx, 64, NULL, NULL, 0));
	s->buf = vt_map(BUF_LEN);
	s->mr = CHECK_PTR(ibv_reg_mr(s->pd, s->buf, BUF_LEN, VT_ACCESS_ALL));
	s->xrcd = CHECK_PTR(xrcd_open(s->ctx, fd, O_CREAT));
	s->srq = CHECK_PTR(srq_make(s, s->xrcd));
	CHECK_OK(ibv_get_srq_num(s->srq, &s->srqn));
}

static void side_close(struct side *s)
{
	CHECK_OK(ibv_destroy_srq(s->srq));
	CHECK_OK(ibv_close_xrcd(s->xrcd));
	CHECK_OK(ibv_destroy_cq(s->cq));
	CHECK_OK(ibv_dereg_mr(s->mr));
	CHECK_OK(ibv_dealloc_pd(s->pd));
	CHECK_OK(ibv_close_device(s->ctx));
}

static struct ibv_qp *recv_make(struct side *s)
{
	struct ibv_qp_init_attr_ex attr = { .qp_type = IBV_QPT_XRC_RECV,
					    .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					    .xrcd = s->xrcd };

	return ibv_create_qp_ex(s->ctx, &attr);
}

static struct ibv_qp *qp_open(struct side *s, struct ibv_xrcd *x, uint32_t qpn)
{
	struct ibv_qp_open_attr attr = { .comp_mask = IBV_QP_OPEN_ATTR_NUM | IBV_QP_OPEN_ATTR_XRCD |
						      IBV_QP_OPEN_ATTR_TYPE,
					 .qp_num = qpn,
					 .xrcd = x,
					 .qp_type = IBV_QPT_XRC_RECV };

	return ibv_open_qp(s->ctx, &attr);
}

static void srq_recv(struct side *s, uint64_t id, size_t off, uint32_t len)
{
	struct ibv_sge sge = { (uintptr_t)s->buf + off, len, s->mr->lkey };
	struct ibv_recv_wr wr = { .wr_id = id, .sg_list = &sge, .num_sge = 1 }, *bad;

	CHECK_OK(ibv_post_srq_recv(s->srq, &wr, &bad));
}

/* ---- the sending end ------------------------------------------------------------------------ */

#define XRC_OPS                                                                                    \
	(IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_WRITE |          \
	 IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |                           \
	 IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD)

struct sender {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	uint8_t *buf;
	struct ibv_mr *mr;
};

static void address(struct ibv_context *ctx, struct vt_addr *a, uint32_t qpn)
{
	struct ibv_port_attr port;

	CHECK_OK(ibv_query_port(ctx, 1, &port));
	memset(a, 0, sizeof(*a));
	vt_gid(ctx, &a->gid);
	a->lid = port.lid;
	a->qpn = qpn;
	a->psn = 7;
}

static void sender_open(struct sender *s)
{
	struct ibv_qp_init_attr_ex attr = {
		.cap = { .max_send_wr = 64, .max_send_sge = 1, .max_inline_data = 32 },
		.qp_type = IBV_QPT_XRC_SEND,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.send_ops_flags = XRC_OPS,
	};

	s->ctx = vt_open_device();
	s->pd = attr.pd = CHECK_PTR(ibv_alloc_pd(s->ctx));
	s->cq = attr.send_cq = CHECK_PTR(ibv_create_cq(s->ctx, 64, NULL, NULL, 0));
	s->qp = CHECK_PTR(ibv_create_qp_ex(s->ctx, &attr));
	s->buf = vt_map(BUF_LEN);
	s->mr = CHECK_PTR(ibv_reg_mr(s->pd, s->buf, BUF_LEN, VT_ACCESS_ALL));
}

static void sender_close(struct sender *s)
{
	CHECK_OK(ibv_destroy_qp(s->qp));
	CHECK_OK(ibv_destroy_cq(s->cq));
	CHECK_OK(ibv_dereg_mr(s->mr));
	CHECK_OK(ibv_dealloc_pd(s->pd));
	CHECK_OK(ibv_close_device(s->ctx));
}

/* Both halves of a connection, which are modified with what either of them has. */
static void connect_halves(struct sender *from, struct ibv_qp *recv)
{
	struct vt_param par = VT_PARAM;
	struct vt_addr a, b;

	address(from->ctx, &a, from->qp->qp_num);
	address(recv->context, &b, recv->qp_num);
	vt_connect_qp(from->qp, &par, &a, &b);
	vt_connect_qp(recv, &par, &b, &a);
}

static void post(struct sender *s, enum ibv_wr_opcode op, uint64_t id, uint32_t len, uint32_t srqn,
		 uint64_t remote_addr, uint32_t rkey)
{
	struct ibv_sge sge = { (uintptr_t)s->buf, len, s->mr->lkey };
	struct ibv_send_wr wr = { .wr_id = id,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = op,
				  .send_flags = IBV_SEND_SIGNALED,
				  .imm_data = htobe32((uint32_t)id) },
			   *bad;

	wr.qp_type.xrc.remote_srqn = srqn;
	if (op == IBV_WR_ATOMIC_FETCH_AND_ADD || op == IBV_WR_ATOMIC_CMP_AND_SWP) {
		wr.wr.atomic.remote_addr = remote_addr;
		wr.wr.atomic.rkey = rkey;
		wr.wr.atomic.compare_add = 5;
		wr.wr.atomic.swap = 11;
	} else {
		wr.wr.rdma.remote_addr = remote_addr;
		wr.wr.rdma.rkey = rkey;
	}
	CHECK_OK(ibv_post_send(s->qp, &wr, &bad));
}

static void send_to(struct sender *s, uint64_t id, uint32_t len, uint32_t srqn)
{
	post(s, IBV_WR_SEND, id, len, srqn, 0, 0);
}

/* An unlinked file's name and descriptor. */
static int temp_file(char name[32])
{
	int fd;

	strcpy(name, "/tmp/verbs_xrc.XXXXXX");
	fd = mkstemp(name);
	CHECK(fd >= 0);
	return fd;
}

/* ---- domains -------------------------------------------------------------------------------- */

static void domains(void)
{
	struct ibv_context *a = vt_open_device(), *b = vt_open_device();
	struct ibv_device_attr dev;
	struct ibv_xrcd *x, *y, *z;
	char name[32];
	int fd = temp_file(name), again = open(name, O_RDONLY);

	CHECK_OK(ibv_query_device(a, &dev));
	CHECK(dev.device_cap_flags & IBV_DEVICE_XRC);
	CHECK_NULL(xrcd_open(a, fd, 0), EAGAIN);
	CHECK_NULL(xrcd_open(a, fd, O_EXCL), EAGAIN);
	x = CHECK_PTR(xrcd_open(a, fd, O_CREAT | O_EXCL));
	CHECK_NULL(xrcd_open(b, fd, O_CREAT | O_EXCL), EINVAL);
	y = CHECK_PTR(xrcd_open(b, again, 0)); /* the file counts, not the descriptor */
	z = CHECK_PTR(xrcd_open(b, fd, O_CREAT));
	CHECK_OK(ibv_close_xrcd(x));
	CHECK_OK(ibv_close_xrcd(y));
	x = CHECK_PTR(xrcd_open(a, fd, 0)); /* it is still open once */
	CHECK_OK(ibv_close_xrcd(x));
	CHECK_OK(ibv_close_xrcd(z));
	CHECK_NULL(xrcd_open(a, fd, 0), EAGAIN);
	/* it goes with the last context that has it, closed or not */
	CHECK_PTR(xrcd_open(b, fd, O_CREAT));
	CHECK_OK(ibv_close_device(b));
	WAIT_FOR(!(x = xrcd_open(a, fd, 0)) && errno == EAGAIN);
	/* without a file */
	x = CHECK_PTR(xrcd_open(a, -1, O_CREAT));
	y = CHECK_PTR(xrcd_open(a, -1, O_CREAT));
	CHECK_OK(ibv_close_xrcd(x));
	CHECK_OK(ibv_close_xrcd(y));
	CHECK_NULL(xrcd_open(a, -2, O_CREAT), EBADF);
	close(again);
	CHECK_NULL(xrcd_open(a, again, O_CREAT), EBADF);
	CHECK_OK(ibv_close_device(a));
	close(fd);
	unlink(name);
}

static void refusals(void)
{
	struct side s, o;
	struct ibv_xrcd *x;
	struct ibv_srq *srq;
	struct ibv_qp *qp, *second;
	uint32_t qpn;

	side_open(&s, -1);
	side_open(&o, -1);
	CHECK_ERR(ibv_close_xrcd(s.xrcd), EBUSY);
	CHECK_ERR(ibv_destroy_cq(s.cq), EBUSY);
	/* objects of two contexts */
	CHECK_NULL(srq_make(&s, o.xrcd), EINVAL);
	x = s.xrcd;
	s.xrcd = o.xrcd;
	CHECK_NULL(recv_make(&s), EINVAL);
	s.xrcd = x;
	/* a domain with a QP, and no QP without its domain */
	x = CHECK_PTR(xrcd_open(s.ctx, -1, O_CREAT));
	qp = CHECK_PTR(recv_make(&s));
	CHECK_NULL(qp_open(&s, x, qp->qp_num), EINVAL);
	CHECK_NULL(qp_open(&s, s.xrcd, qp->qp_num + 1), EINVAL);
	second = CHECK_PTR(qp_open(&s, s.xrcd, qp->qp_num));
	CHECK_EQ(second->qp_num, qp->qp_num);
	qpn = qp->qp_num;
	CHECK_OK(ibv_destroy_qp(qp));
	CHECK_ERR(ibv_close_xrcd(s.xrcd), EBUSY);
	CHECK_OK(ibv_destroy_qp(second));
	CHECK_NULL(qp_open(&s, s.xrcd, qpn), EINVAL);
	CHECK_OK(ibv_close_xrcd(x));
	/* limits as for other SRQs */
	srq = s.srq;
	CHECK_ERR(ibv_modify_srq(srq, &(struct ibv_srq_attr){ .srq_limit = 1000 }, IBV_SRQ_LIMIT),
		  EINVAL);
	CHECK_OK(ibv_modify_srq(srq, &(struct ibv_srq_attr){ .srq_limit = 3 }, IBV_SRQ_LIMIT));
	side_close(&o);
	side_close(&s);
}

/* ---- operations ----------------------------------------------------------------------------- */

static void operations(void)
{
	static const uint32_t sizes[] = { 1, 64, 4096, 100001 };
	struct sender from;
	struct ibv_qp *qp;
	struct ibv_wc wc;
	uint64_t *word, remote;
	struct side s;

	side_open(&s, -1);
	sender_open(&from);
	qp = CHECK_PTR(recv_make(&s));
	connect_halves(&from, qp);
	remote = (uintptr_t)s.buf;
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		vt_pattern(from.buf, sizes[i], i);
		srq_recv(&s, i, 0, BUF_LEN);
		send_to(&from, i, sizes[i], s.srqn);
		WANT_OK(from.cq, i);
		wc = WANT_OK(s.cq, i);
		CHECK_EQ(wc.byte_len, sizes[i]);
		CHECK_EQ(wc.qp_num, qp->qp_num);
		CHECK_EQ(wc.src_qp, from.qp->qp_num);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_PATTERN(s.buf, sizes[i], i);

		vt_pattern(from.buf, sizes[i], 50 + i);
		post(&from, IBV_WR_RDMA_WRITE, i, sizes[i], s.srqn, remote, s.mr->rkey);
		WANT_OK(from.cq, i);
		CHECK_PATTERN(s.buf, sizes[i], 50 + i);
		memset(from.buf, 0, sizes[i]);
		post(&from, IBV_WR_RDMA_READ, i, sizes[i], s.srqn, remote, s.mr->rkey);
		WANT_OK(from.cq, i);
		CHECK_PATTERN(from.buf, sizes[i], 50 + i);
		CHECK_EMPTY(s.cq);
	}
	srq_recv(&s, 1, 0, 64);
	post(&from, IBV_WR_SEND_WITH_IMM, 77, 8, s.srqn, 0, 0);
	WANT_OK(from.cq, 77);
	wc = WANT_OK(s.cq, 1);
	CHECK(wc.wc_flags & IBV_WC_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 77);
	srq_recv(&s, 2, 0, 64);
	post(&from, IBV_WR_RDMA_WRITE_WITH_IMM, 78, 8, s.srqn, remote, s.mr->rkey);
	WANT_OK(from.cq, 78);
	wc = WANT_OK(s.cq, 2);
	CHECK_EQ(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
	CHECK_EQ(be32toh(wc.imm_data), 78);

	word = (uint64_t *)s.buf;
	*word = 5;
	post(&from, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 8, s.srqn, remote, s.mr->rkey);
	WANT_OK(from.cq, 3);
	CHECK_EQ(*word, 11);
	CHECK_EQ(*(uint64_t *)from.buf, 5);
	post(&from, IBV_WR_ATOMIC_FETCH_AND_ADD, 4, 8, s.srqn, remote, s.mr->rkey);
	WANT_OK(from.cq, 4);
	CHECK_EQ(*word, 16);

	CHECK_OK(ibv_destroy_qp(qp));
	sender_close(&from);
	side_close(&s);
}

static void built_work_requests(void)
{
	struct sender from;
	struct ibv_qp_ex *ex;
	struct ibv_qp *qp;
	struct side s;

	side_open(&s, -1);
	sender_open(&from);
	qp = CHECK_PTR(recv_make(&s));
	connect_halves(&from, qp);
	ex = CHECK_PTR(ibv_qp_to_qp_ex(from.qp));
	srq_recv(&s, 1, 0, 64);
	ibv_wr_start(ex);
	ex->wr_flags = IBV_SEND_SIGNALED;
	ex->wr_id = 1;
	ibv_wr_send(ex);
	ibv_wr_set_xrc_srqn(ex, s.srqn);
	ibv_wr_set_inline_data(ex, "xrc", 4);
	ex->wr_id = 2;
	ibv_wr_rdma_write(ex, s.mr->rkey, (uintptr_t)s.buf + 100);
	ibv_wr_set_xrc_srqn(ex, s.srqn);
	ibv_wr_set_inline_data(ex, "write", 6);
	ex->wr_id = 3;
	*(uint64_t *)(s.buf + 200) = 40;
	ibv_wr_atomic_fetch_add(ex, s.mr->rkey, (uintptr_t)s.buf + 200, 2);
	ibv_wr_set_xrc_srqn(ex, s.srqn);
	ibv_wr_set_sge(ex, from.mr->lkey, (uintptr_t)from.buf, 8);
	CHECK_OK(ibv_wr_complete(ex));
	for (uint64_t id = 1; id <= 3; id++)
		WANT_OK(from.cq, id);
	CHECK_EQ(WANT_OK(s.cq, 1).byte_len, 4);
	CHECK(!strcmp((char *)s.buf, "xrc") && !strcmp((char *)s.buf + 100, "write"));
	CHECK_EQ(*(uint64_t *)(s.buf + 200), 42);
	CHECK_OK(ibv_destroy_qp(qp));
	sender_close(&from);
	side_close(&s);
}

/* Each failure ends the connection, and tells both sides why. */
static void errors(void)
{
	struct sender from;
	struct side s, other;
	struct ibv_qp *qp;
	struct ibv_mr *elsewhere;
	struct ibv_pd *pd;

	side_open(&s, -1);
	side_open(&other, -1);
	sender_open(&from);
	qp = CHECK_PTR(recv_make(&s));
	pd = CHECK_PTR(ibv_alloc_pd(s.ctx));
	elsewhere = CHECK_PTR(ibv_reg_mr(pd, s.buf, BUF_LEN, VT_ACCESS_ALL));
#define FAILS(action, status, event)                                                               \
	do {                                                                                       \
		connect_halves(&from, qp);                                                         \
		action;                                                                            \
		WANT(from.cq, 9, status);                                                          \
		WANT_EVENT(s.ctx, event);                                                          \
		WANT_EVENT(s.ctx, IBV_EVENT_QP_LAST_WQE_REACHED);                                  \
		CHECK_EQ(vt_state(qp), IBV_QPS_ERR);                                               \
		CHECK_OK(vt_to_state(qp, IBV_QPS_RESET));                                          \
		CHECK_OK(vt_to_state(from.qp, IBV_QPS_RESET));                                     \
	} while (0)
	/* no such SRQ; one of another domain */
	FAILS(send_to(&from, 9, 8, 0xfffff1), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	srq_recv(&other, 1, 0, 64);
	FAILS(send_to(&from, 9, 8, other.srqn), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	CHECK_EMPTY(other.cq);
	/* memory of another PD than the SRQ's */
	FAILS(post(&from, IBV_WR_RDMA_WRITE, 9, 8, s.srqn, (uintptr_t)s.buf, elsewhere->rkey),
	      IBV_WC_REM_ACCESS_ERR, IBV_EVENT_QP_ACCESS_ERR);
	FAILS(post(&from, IBV_WR_RDMA_WRITE, 9, 8, 0xfffff1, (uintptr_t)s.buf, s.mr->rkey),
	      IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	/* too long for the receive, which ends in error itself */
	srq_recv(&s, 2, 0, 4);
	FAILS(send_to(&from, 9, 8, s.srqn), IBV_WC_REM_INV_REQ_ERR, IBV_EVENT_QP_REQ_ERR);
	WANT(s.cq, 2, IBV_WC_LOC_LEN_ERR);
#undef FAILS
	/* and it goes on where nothing is wrong */
	connect_halves(&from, qp);
	srq_recv(&s, 3, 0, 64);
	send_to(&from, 10, 8, s.srqn);
	WANT_OK(from.cq, 10);
	WANT_OK(s.cq, 3);
	CHECK_OK(ibv_dereg_mr(elsewhere));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_destroy_qp(qp));
	sender_close(&from);
	side_close(&other);
	side_close(&s);
}

/* ---- several processes ---------------------------------------------------------------------- */

/* What two processes tell each other. */
static void say(int sock, uint32_t word)
{
	CHECK_EQ(send(sock, &word, sizeof(word), MSG_NOSIGNAL), sizeof(word));
}

static uint32_t hear(int sock)
{
	uint32_t word = 0;

	CHECK_EQ(recv(sock, &word, sizeof(word), MSG_WAITALL), sizeof(word));
	return word;
}

/* Finds the domain by its file; with qpn not 0 it opens that QP, too. Serves `num` messages. */
static void sharer(const char *name, int sock, unsigned num)
{
	struct ibv_qp *qp = NULL;
	struct side s;
	uint32_t qpn = hear(sock);
	int fd = open(name, O_RDONLY);

	CHECK(fd >= 0);
	side_open(&s, fd);
	if (qpn)
		qp = CHECK_PTR(qp_open(&s, s.xrcd, qpn));
	for (unsigned i = 0; i < num; i++)
		srq_recv(&s, i, i * 1000, 1000);
	say(sock, s.srqn);
	for (unsigned i = 0; i < num; i++) {
		CHECK_EQ(WANT_OK(s.cq, i).byte_len, 1000);
		CHECK_PATTERN(s.buf + i * 1000, 1000, i);
	}
	say(sock, 1);
	hear(sock); /* until it is told to go */
	if (qp)
		CHECK_OK(ibv_destroy_qp(qp));
	side_close(&s);
	_exit(0);
}

static pid_t start_sharer(const char *name, unsigned num, int *sock)
{
	int pair[2];
	pid_t pid;

	CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, pair));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(pair[0]);
		sharer(name, pair[1], num);
	}
	close(pair[1]);
	*sock = pair[0];
	return pid;
}

/* One connection serves the SRQs of three processes. */
static void one_connection_for_several_processes(void)
{
	enum { NUM = 3, EACH = 20 };
	uint32_t srqn[NUM];
	struct sender from;
	struct ibv_qp *qp;
	pid_t pid[NUM];
	int sock[NUM];
	char name[32];
	int fd = temp_file(name);
	struct side s;

	for (int k = 0; k < NUM; k++)
		pid[k] = start_sharer(name, EACH, &sock[k]);
	side_open(&s, fd);
	sender_open(&from);
	qp = CHECK_PTR(recv_make(&s));
	connect_halves(&from, qp);
	for (int k = 0; k < NUM; k++) {
		say(sock[k], 0);
		srqn[k] = hear(sock[k]);
	}
	for (uint32_t i = 0; i < EACH; i++) {
		vt_pattern(from.buf, 1000, i);
		for (int k = 0; k < NUM; k++) {
			send_to(&from, i, 1000, srqn[(k + i) % NUM]);
			WANT_OK(from.cq, i);
		}
	}
	for (int k = 0; k < NUM; k++) {
		CHECK_EQ(hear(sock[k]), 1);
		say(sock[k], 0);
		CHECK_EQ(vt_child_status(pid[k]), 0);
	}
	CHECK_EMPTY(s.cq);
	CHECK_OK(ibv_destroy_qp(qp));
	sender_close(&from);
	side_close(&s);
	close(fd);
	unlink(name);
}

/* The process that made the QP ends; who has it open keeps the connection. */
static void the_connection_outlives_its_creator(void)
{
	struct sender from;
	struct ibv_qp *qp;
	char name[32];
	int fd = temp_file(name), sock;
	struct side s;
	uint32_t srqn;
	pid_t pid;

	pid = start_sharer(name, 2, &sock);
	side_open(&s, fd);
	sender_open(&from);
	qp = CHECK_PTR(recv_make(&s));
	connect_halves(&from, qp);
	say(sock, qp->qp_num);
	srqn = hear(sock);
	vt_pattern(from.buf, 1000, 0);
	send_to(&from, 1, 1000, srqn);
	WANT_OK(from.cq, 1);
	CHECK_OK(ibv_close_device(s.ctx)); /* and with it everything of it */
	vt_pattern(from.buf, 1000, 1);
	send_to(&from, 2, 1000, srqn);
	WANT_OK(from.cq, 2);
	CHECK_EQ(hear(sock), 1);
	/* the last one that has it open is killed: nobody answers */
	CHECK_OK(kill(pid, SIGKILL));
	CHECK_EQ(vt_child_status(pid), 1000 + SIGKILL);
	send_to(&from, 3, 8, srqn);
	CHECK(vt_wc(from.cq).status != IBV_WC_SUCCESS);
	sender_close(&from);
	close(fd);
	unlink(name);
}

VT_MAIN({ "domains", domains, 0 }, { "refusals", refusals, 0 }, { "operations", operations, 0 },
	{ "built_work_requests", built_work_requests, 0 }, { "errors", errors, 0 },
	{ "one_connection_for_several_processes", one_connection_for_several_processes, 0 },
	{ "the_connection_outlives_its_creator", the_connection_outlives_its_creator, 0 })
