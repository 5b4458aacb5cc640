/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_posted.c - objects that go while WRs that name them are posted: MRs, memory windows, address handles. What was
 * posted before is carried out. The transfers are long, so that they are under way when the object goes.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>

#define LEN    (4u << 20)
#define ROUNDS 4

static struct vt_end a, b;

static void open_pair(size_t len)
{
	struct vt_param par = VT_PARAM;

	par.len = len;
	vt_pair(&a, &b, &par);
}

/* A WR from that memory of a's to or from all of b's. */
static void post(enum ibv_wr_opcode op, uint64_t id, const struct ibv_mr *mr)
{
	struct ibv_sge sge = { (uintptr_t)mr->addr, (uint32_t)mr->length, mr->lkey };
	struct ibv_send_wr wr = vt_wr(op, id, &sge, IBV_SEND_SIGNALED);

	wr.wr.rdma.remote_addr = a.peer.addr;
	wr.wr.rdma.rkey = a.peer.rkey;
	CHECK_OK(vt_post(&a, &wr));
}

/* The memory is a program's own again as soon as ibv_dereg_mr() has returned, so that it may be changed. */
static void dereg_writes(void)
{
	uint8_t *p = vt_map(LEN);

	open_pair(LEN);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = vt_reg(&a, p, LEN, IBV_ACCESS_LOCAL_WRITE);

		vt_pattern(p, LEN, i + 1);
		post(IBV_WR_RDMA_WRITE, i, mr);
		CHECK_OK(ibv_dereg_mr(mr));
		memset(p, 0xff, LEN);
		WANT_OK(a.scq, i);
		CHECK_PATTERN(b.buf, LEN, i + 1);
	}
	vt_pair_close(&a, &b);
}

static void dereg_reads(void)
{
	uint8_t *p = vt_map(LEN);

	open_pair(LEN);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct ibv_mr *mr = vt_reg(&a, p, LEN, IBV_ACCESS_LOCAL_WRITE);

		vt_pattern(b.buf, LEN, i + 1);
		post(IBV_WR_RDMA_READ, i, mr);
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK_PATTERN(p, LEN, i + 1);
		WANT_OK(a.scq, i);
	}
	vt_pair_close(&a, &b);
}

/* The memory behind all of a full queue's WRs. */
static void dereg_many(void)
{
	const unsigned num = 32;
	struct ibv_mr *mr;
	uint8_t *p = vt_map(LEN);

	open_pair(LEN);
	mr = vt_reg(&a, p, LEN, IBV_ACCESS_LOCAL_WRITE);
	for (unsigned i = 0; i < num; i++)
		post(i % 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, i, mr);
	/* the time may not be enough for all of them: those that were begun by then are carried out */
	CHECK_OK(ibv_dereg_mr(mr));
	WANT_OK(a.scq, 0);
	vt_pair_close(&a, &b);
}

/* A WR that waits for a receive of the peer's is waited for once, and not for ever. */
static void dereg_in_vain(void)
{
	struct ibv_mr *mr[8];
	struct ibv_sge sge;
	struct ibv_send_wr wr;
	uint8_t *p = vt_map(LEN);

	open_pair(4096);
	for (unsigned i = 0; i < ARRAY_SIZE(mr); i++) {
		mr[i] = vt_reg(&a, p, 4096, IBV_ACCESS_LOCAL_WRITE);
		sge = (struct ibv_sge){ (uintptr_t)p, 8, mr[i]->lkey };
		wr = vt_wr(IBV_WR_SEND, i, &sge, IBV_SEND_SIGNALED);
		CHECK_OK(vt_post(&a, &wr));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(mr); i++)
		CHECK_OK(ibv_dereg_mr(mr[i]));
	vt_recv(&b, 1, 0, 64);
	WANT(a.scq, 0, IBV_WC_LOC_PROT_ERR);
	for (unsigned i = 1; i < ARRAY_SIZE(mr); i++)
		WANT(a.scq, i, IBV_WC_WR_FLUSH_ERR);
	vt_pair_close(&a, &b);
}

/* An MR whose WR is carried out before it changes has its old range then. */
static void rereg(void)
{
	uint8_t *p = vt_map(LEN), *q = vt_map(LEN);
	struct ibv_mr *mr;

	open_pair(LEN);
	mr = vt_reg(&a, p, LEN, IBV_ACCESS_LOCAL_WRITE);
	vt_pattern(p, LEN, 7);
	post(IBV_WR_RDMA_WRITE, 1, mr);
	CHECK_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, q, LEN, 0));
	WANT_OK(a.scq, 1);
	CHECK_PATTERN(b.buf, LEN, 7);
	CHECK_OK(ibv_dereg_mr(mr));
	vt_pair_close(&a, &b);
}

/* Behind a long WRITE: a window's bind. It is bound then, and so the MR is in use; the window goes, bound as it is. */
static void windows(void)
{
	uint8_t *p = vt_map(LEN);
	struct ibv_send_wr wr = { .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *mr, *bound;
	struct ibv_mw *mw;

	open_pair(LEN);
	for (unsigned i = 0; i < ROUNDS; i++) {
		mr = vt_reg(&a, p, LEN, IBV_ACCESS_LOCAL_WRITE);
		bound = vt_reg(&a, p, LEN, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND);
		mw = CHECK_PTR(ibv_alloc_mw(a.pd, IBV_MW_TYPE_2));
		post(IBV_WR_RDMA_WRITE, 1, mr);
		wr.wr_id = 2;
		wr.bind_mw.mw = mw;
		wr.bind_mw.rkey = ibv_inc_rkey(mw->rkey);
		wr.bind_mw.bind_info =
			(struct ibv_mw_bind_info){ .mr = bound,
						   .addr = (uintptr_t)p,
						   .length = 4096,
						   .mw_access_flags = IBV_ACCESS_REMOTE_READ };
		CHECK_OK(vt_post(&a, &wr));
		if (i % 2)
			CHECK_ERR(ibv_dereg_mr(bound), EBUSY);
		CHECK_OK(ibv_dealloc_mw(mw));
		WANT_OK(a.scq, 1);
		WANT_OK(a.scq, 2);
		CHECK_OK(ibv_dereg_mr(bound));
		CHECK_OK(ibv_dereg_mr(mr));
	}
	vt_pair_close(&a, &b);
}

/* The last datagrams of two QPs, whose address handle goes at once. */
static void address_handles(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_ah_attr av;
	struct ibv_sge sge;
	struct ibv_qp *more;
	struct ibv_send_wr wr, *bad;
	union ibv_gid gid;
	struct ibv_ah *ah;

	par.type = IBV_QPT_UD;
	vt_pair(&a, &b, &par);
	vt_gid(a.ctx, &gid);
	more = vt_make_qp(&a);
	vt_connect_qp(more, &par, &a.self, &a.peer);
	for (unsigned i = 0; i < 200; i++) {
		vt_recv(&b, 1, 0, 4096);
		vt_recv(&b, 2, 4096, 4096);
		av = vt_av(&gid, 0);
		ah = CHECK_PTR(ibv_create_ah(a.pd, &av));
		wr = vt_ud_wr(&a, &sge, i, 0, 64, ah, a.peer.qpn);
		CHECK_OK(ibv_post_send(more, &wr, &bad));
		CHECK_OK(ibv_post_send(a.qp, &wr, &bad));
		CHECK_OK(ibv_destroy_ah(ah));
		WANT_OK(a.scq, i);
		WANT_OK(a.scq, i);
		WANT_OK(b.rcq, 1);
		WANT_OK(b.rcq, 2);
	}
	vt_destroy_qps(&more, 1);
	vt_pair_close(&a, &b);
}

VT_MAIN({ "dereg_writes", dereg_writes, 0 }, { "dereg_reads", dereg_reads, 0 },
	{ "dereg_many", dereg_many, 0 }, { "dereg_in_vain", dereg_in_vain, 0 },
	{ "rereg", rereg, 0 }, { "windows", windows, 0 }, { "address_handles", address_handles, 0 })
