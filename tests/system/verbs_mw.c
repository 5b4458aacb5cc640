/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: system-san system-tsan */
/* night: docker */
/* timeout: 600 */
/*
 * verbs_mw.c - memory windows of both types: bind, use, invalidate from here and from afar, and
 * what must be refused. Between two containers windows are used by verbs_peer.c.
 *
 * End a reaches for memory of end b, whose MR allows nothing but windows.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>

#define RW	 (IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE)
#define BINDABLE (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND)

static void pair_up(struct vt_end *a, struct vt_end *b, uint64_t send_ops)
{
	struct vt_param par = VT_PARAM;

	par.access = BINDABLE;
	par.inline_data = 64;
	par.send_ops = send_ops;
	vt_pair(a, b, &par);
}

static struct ibv_mw *mw_alloc(struct vt_end *e, enum ibv_mw_type type)
{
	struct ibv_mw *mw = CHECK_PTR(ibv_alloc_mw(e->pd, type));

	CHECK(mw->context == e->ctx && mw->pd == e->pd && mw->type == type);
	return mw;
}

/* ibv_bind_mw on [off, off + len) of the end's buffer. 0 or the errno. */
static int bind1(struct vt_end *e, struct ibv_mw *mw, struct ibv_mr *mr, size_t off, size_t len,
		 unsigned access)
{
	struct ibv_mw_bind bind = {
		.wr_id = 50,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_info = { .mr = mr,
			       .addr = mr ? (uintptr_t)e->buf + off : 0,
			       .length = len,
			       .mw_access_flags = access },
	};

	return VERB_ERRNO(ibv_bind_mw(e->qp, mw, &bind));
}

static void bound1(struct vt_end *e, struct ibv_mw *mw, size_t off, size_t len, unsigned access)
{
	uint32_t old = mw->rkey;

	CHECK_OK(bind1(e, mw, e->mr, off, len, access));
	CHECK_EQ(mw->rkey, ibv_inc_rkey(old));
	CHECK_EQ(WANT_OK(e->scq, 50).opcode, IBV_WC_BIND_MW);
}

static struct ibv_send_wr bind2_wr(struct vt_end *e, struct ibv_mw *mw, uint32_t rkey, size_t off,
				   size_t len, unsigned access)
{
	return (struct ibv_send_wr){
		.wr_id = 51,
		.opcode = IBV_WR_BIND_MW,
		.send_flags = IBV_SEND_SIGNALED,
		.bind_mw = { .mw = mw,
			     .rkey = rkey,
			     .bind_info = { .mr = e->mr,
					    .addr = (uintptr_t)e->buf + off,
					    .length = len,
					    .mw_access_flags = access } },
	};
}

static enum ibv_wc_status bind2(struct vt_end *e, struct ibv_mw *mw, uint32_t rkey, size_t off,
				size_t len, unsigned access)
{
	struct ibv_send_wr wr = bind2_wr(e, mw, rkey, off, len, access);
	struct ibv_wc wc;

	CHECK_OK(vt_post(e, &wr));
	wc = vt_wc(e->scq);
	CHECK_EQ(wc.wr_id, 51);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.opcode, IBV_WC_BIND_MW);
	return wc.status;
}

static enum ibv_wc_status local_inv(struct vt_end *e, uint32_t rkey)
{
	struct ibv_send_wr wr = { .wr_id = 52,
				  .opcode = IBV_WR_LOCAL_INV,
				  .send_flags = IBV_SEND_SIGNALED | IBV_SEND_FENCE,
				  .invalidate_rkey = rkey };
	struct ibv_wc wc;

	CHECK_OK(vt_post(e, &wr));
	wc = vt_wc(e->scq);
	CHECK_EQ(wc.wr_id, 52);
	if (wc.status == IBV_WC_SUCCESS)
		CHECK_EQ(wc.opcode, IBV_WC_LOCAL_INV);
	return wc.status;
}

static void post_rdma(struct vt_end *a, enum ibv_wr_opcode op, uint64_t addr, uint32_t rkey,
		      size_t len)
{
	struct ibv_sge sge = vt_sge(a, 0, len);
	struct ibv_send_wr wr = vt_wr(op, 1, &sge, IBV_SEND_SIGNALED);

	wr.wr.rdma.remote_addr = addr;
	wr.wr.rdma.rkey = rkey;
	CHECK_OK(vt_post(a, &wr));
}

/* WRITE and READ of len bytes there: both must do what they are for. */
static void reaches(struct vt_end *a, struct vt_end *b, size_t off, size_t len, uint64_t addr,
		    uint32_t rkey)
{
	static uint32_t seed;

	vt_pattern(a->buf, len, ++seed);
	post_rdma(a, IBV_WR_RDMA_WRITE, addr, rkey, len);
	WANT_OK(a->scq, 1);
	CHECK_PATTERN(b->buf + off, len, seed);
	memset(a->buf, 0, len);
	post_rdma(a, IBV_WR_RDMA_READ, addr, rkey, len);
	WANT_OK(a->scq, 1);
	CHECK_PATTERN(a->buf, len, seed);
}

static void refused(struct vt_end *a, struct vt_end *b, enum ibv_wr_opcode op, uint64_t addr,
		    uint32_t rkey, size_t len)
{
	uint8_t before[256];

	CHECK(len <= sizeof(before));
	memcpy(before, b->buf, sizeof(before));
	memset(a->buf, 0xee, len);
	post_rdma(a, op, addr, rkey, len);
	WANT(a->scq, 1, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(b, IBV_EVENT_QP_ACCESS_ERR);
	CHECK(!memcmp(before, b->buf, sizeof(before)));
	vt_pair_reset(a, b);
}

/* ---- objects -------------------------------------------------------------------------------- */

static void mw_caps(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_device_attr attr;

	CHECK_OK(ibv_query_device(ctx, &attr));
	CHECK(attr.max_mw >= 1000);
	CHECK(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW);
	CHECK(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2B);
	CHECK(!(attr.device_cap_flags & IBV_DEVICE_MEM_WINDOW_TYPE_2A));
	CHECK(!(attr.device_cap_flags & IBV_DEVICE_MEM_MGT_EXTENSIONS));
	CHECK_OK(ibv_close_device(ctx));
}

static void mw_life(void)
{
	enum { NUM = 2000 };
	static struct ibv_mw *mw[NUM];
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));

	CHECK_NULL(ibv_alloc_mw(pd, 0), EINVAL);
	CHECK_NULL(ibv_alloc_mw(pd, 3), EINVAL);
	for (unsigned i = 0; i < NUM; i++) {
		mw[i] = CHECK_PTR(ibv_alloc_mw(pd, i % 2 ? IBV_MW_TYPE_1 : IBV_MW_TYPE_2));
		for (unsigned k = i > 20 ? i - 20 : 0; k < i; k++)
			CHECK(mw[i]->rkey >> 8 != mw[k]->rkey >> 8);
	}
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	for (unsigned i = 0; i < NUM; i++)
		CHECK_OK(ibv_dealloc_mw(mw[i]));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

/* A window holds its MR; whatever ends the binding frees it. */
static void mw_holds_mr(void)
{
	struct vt_end a, b;
	struct ibv_mw *mw;
	struct ibv_mr *mr;

	pair_up(&a, &b, 0);
	mw = mw_alloc(&b, IBV_MW_TYPE_1);
	bound1(&b, mw, 0, 4096, RW);
	CHECK_ERR(ibv_dereg_mr(b.mr), EBUSY);
	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, BINDABLE),
		 IBV_REREG_MR_ERR_CMD);
	CHECK_EQ(errno, EBUSY);
	reaches(&a, &b, 0, 4096, (uintptr_t)b.buf, mw->rkey);
	bound1(&b, mw, 0, 0, 0);
	CHECK_EQ(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, BINDABLE), 0);

	/* to another MR: the first is free */
	mr = vt_reg(&b, b.buf, b.len, BINDABLE);
	bound1(&b, mw, 0, 4096, RW);
	CHECK_OK(bind1(&b, mw, mr, 0, 4096, RW));
	WANT_OK(b.scq, 50);
	CHECK_OK(ibv_dereg_mr(b.mr));
	b.mr = mr;
	reaches(&a, &b, 0, 4096, (uintptr_t)b.buf, mw->rkey);
	CHECK_ERR(ibv_dereg_mr(b.mr), EBUSY);
	CHECK_OK(ibv_dealloc_mw(mw));
	CHECK_OK(ibv_dereg_mr(b.mr));

	/* a type 2 window's QP that goes frees it, too */
	b.mr = vt_reg(&b, b.buf, b.len, BINDABLE);
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	CHECK_EQ(bind2(&b, mw, ibv_inc_rkey(mw->rkey), 0, 64, RW), IBV_WC_SUCCESS);
	CHECK_ERR(ibv_dereg_mr(b.mr), EBUSY);
	CHECK_OK(ibv_destroy_qp(b.qp));
	b.qp = NULL;
	CHECK_OK(ibv_dereg_mr(b.mr));
	b.mr = NULL;
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

/* ---- type 1 --------------------------------------------------------------------------------- */

static void mw_type1(void)
{
	struct vt_end a, b;
	struct ibv_mw *mw;
	uint64_t base;
	uint32_t old;

	pair_up(&a, &b, 0);
	base = (uintptr_t)b.buf;
	mw = mw_alloc(&b, IBV_MW_TYPE_1);
	refused(&a, &b, IBV_WR_RDMA_WRITE, base, b.mr->rkey, 8);
	refused(&a, &b, IBV_WR_RDMA_WRITE, base, mw->rkey, 8);
	bound1(&b, mw, 1000, 5000, RW);
	reaches(&a, &b, 1000, 5000, base + 1000, mw->rkey);
	refused(&a, &b, IBV_WR_RDMA_WRITE, base + 999, mw->rkey, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 5993, mw->rkey, 8);
	old = mw->rkey;
	bound1(&b, mw, 64, 64, IBV_ACCESS_REMOTE_READ);
	refused(&a, &b, IBV_WR_RDMA_WRITE, base + 64, mw->rkey, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 1000, old, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 64, old, 8);
	post_rdma(&a, IBV_WR_RDMA_READ, base + 64, mw->rkey, 64);
	WANT_OK(a.scq, 1);
	bound1(&b, mw, 64, 64, IBV_ACCESS_REMOTE_ATOMIC);
	memset(b.buf + 64, 0, 8);
	a.peer.rkey = mw->rkey;
	vt_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 2, 0, 64, 5, 0);
	WANT_OK(a.scq, 2);
	CHECK_EQ(*(uint64_t *)(b.buf + 64), 5);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 64, mw->rkey, 8);
	/* what programs give along */
	bound1(&b, mw, 0, 64, RW | IBV_ACCESS_LOCAL_WRITE);
	reaches(&a, &b, 0, 64, base, mw->rkey);
	old = mw->rkey;
	CHECK_OK(bind1(&b, mw, NULL, 0, 0, 0)); /* no MR: nothing */
	WANT_OK(b.scq, 50);
	refused(&a, &b, IBV_WR_RDMA_READ, base, old, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, base, mw->rkey, 8);
	bound1(&b, mw, 0, 64, RW);
	reaches(&a, &b, 0, 64, base, mw->rkey);
	old = mw->rkey;
	CHECK_OK(ibv_dealloc_mw(mw));
	refused(&a, &b, IBV_WR_RDMA_READ, base, old, 8);
	vt_pair_close(&a, &b);
}

/* Every QP of the PD can be reached through, none of another. */
static void mw_type1_pd(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, c, d;
	struct ibv_pd *other;
	struct ibv_mw *mw;

	pair_up(&a, &b, 0);
	mw = mw_alloc(&b, IBV_MW_TYPE_1);
	bound1(&b, mw, 0, 4096, RW);
	par.access = BINDABLE;
	vt_end_open(&c, &par);
	vt_end_open_on(&d, &par, b.ctx, b.pd);
	vt_connect(&c, &d.self);
	vt_connect(&d, &c.self);
	post_rdma(&c, IBV_WR_RDMA_WRITE, (uintptr_t)b.buf, mw->rkey, 64);
	WANT_OK(c.scq, 1);
	CHECK(!memcmp(b.buf, c.buf, 64));
	/* the bind itself may come from there as well */
	CHECK_OK(bind1(&d, mw, d.mr, 0, 64, RW));
	WANT_OK(d.scq, 50);
	reaches(&a, &d, 0, 64, (uintptr_t)d.buf, mw->rkey);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_end_close(&c);
	vt_end_close(&d);

	mw = mw_alloc(&b, IBV_MW_TYPE_1);
	bound1(&b, mw, 0, 4096, RW);
	other = CHECK_PTR(ibv_alloc_pd(b.ctx));
	vt_end_open(&c, &par);
	vt_end_open_on(&d, &par, b.ctx, other);
	vt_connect(&c, &d.self);
	vt_connect(&d, &c.self);
	post_rdma(&c, IBV_WR_RDMA_WRITE, (uintptr_t)b.buf, mw->rkey, 64);
	WANT(c.scq, 1, IBV_WC_REM_ACCESS_ERR);
	/* neither a window nor an MR of that PD can be bound through a QP of this one */
	CHECK_EQ(bind1(&b, mw, d.mr, 0, 64, RW), EPERM); /* verbs.h */
	CHECK_OK(ibv_dealloc_mw(mw));
	mw = CHECK_PTR(ibv_alloc_mw(other, IBV_MW_TYPE_1));
	CHECK_OK(bind1(&b, mw, d.mr, 0, 64, RW));
	WANT(b.scq, 50, IBV_WC_MW_BIND_ERR);
	CHECK_EQ(vt_state(b.qp), IBV_QPS_ERR);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_end_close(&c);
	vt_end_close(&d);
	CHECK_OK(ibv_dealloc_pd(other));
	vt_pair_close(&a, &b);
}

static void mw_type1_bad(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, ud, fresh;
	struct ibv_mr *plain, *null;
	struct ibv_mw *mw, *two;
	uint32_t rkey;

	pair_up(&a, &b, 0);
	mw = mw_alloc(&b, IBV_MW_TYPE_1);
	two = mw_alloc(&b, IBV_MW_TYPE_2);
	rkey = mw->rkey;
	/* refused at once: nothing was posted and the rkey is what it was */
	CHECK_EQ(bind1(&b, two, b.mr, 0, 64, RW), EINVAL);
	CHECK_EQ(bind1(&b, mw, NULL, 0, 64, RW), EINVAL);
	CHECK_EQ(bind1(&b, mw, b.mr, 0, 64, RW | IBV_ACCESS_ZERO_BASED), EINVAL);
	null = CHECK_PTR(ibv_alloc_null_mr(b.pd));
	CHECK_EQ(bind1(&b, mw, null, 0, 64, RW), EOPNOTSUPP);
	CHECK_OK(ibv_dereg_mr(null));
	par.type = IBV_QPT_UD;
	vt_end_open_on(&ud, &par, b.ctx, b.pd);
	CHECK_EQ(bind1(&ud, mw, b.mr, 0, 64, RW), EINVAL);
	vt_end_close(&ud);
	par.type = IBV_QPT_RC;
	vt_end_open_on(&fresh, &par, b.ctx, b.pd);
	CHECK_EQ(bind1(&fresh, mw, b.mr, 0, 64, RW), EINVAL); /* in RESET */
	vt_end_close(&fresh);
	CHECK_EMPTY(b.scq);
	CHECK_EQ(mw->rkey, rkey);

	/* refused by the device: the QP is in error, the window as it was */
	plain = vt_reg(&b, b.buf, b.len, VT_ACCESS_ALL);
	const struct {
		struct ibv_mr *mr;
		size_t off, len;
		unsigned access;
	} bad[] = {
		{ b.mr, 0, b.len + 1, RW },
		{ b.mr, b.len - 8, 9, RW },
		{ b.mr, (size_t)-8, 16, RW },
		{ b.mr, 0, SIZE_MAX, RW },
		{ b.mr, 0, 64, RW | IBV_ACCESS_ON_DEMAND },
		{ plain, 0, 64, RW },
	};
	bound1(&b, mw, 0, 64, RW);
	rkey = mw->rkey;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		CHECK_OK(bind1(&b, mw, bad[i].mr, bad[i].off, bad[i].len, bad[i].access));
		WANT(b.scq, 50, IBV_WC_MW_BIND_ERR);
		CHECK_EQ(vt_state(b.qp), IBV_QPS_ERR);
		vt_pair_reset(&a, &b);
		reaches(&a, &b, 0, 64, (uintptr_t)b.buf, rkey);
	}
	CHECK_OK(ibv_dereg_mr(plain));
	CHECK_OK(ibv_dealloc_mw(two));
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

/* Binds are WRs like others: a full queue refuses them, unsignalled ones complete in silence. */
static void mw_queue(void)
{
	struct vt_end a, b;
	struct ibv_mw *mw;
	uint32_t n = 0, rkey;
	struct ibv_wc wc;

	pair_up(&a, &b, 0);
	mw = mw_alloc(&b, IBV_MW_TYPE_1);
	vt_send(&b, 1, 0, 8, IBV_SEND_SIGNALED); /* waits for a receive of a's, and all behind it */
	rkey = mw->rkey;
	for (;;) {
		struct ibv_mw_bind bind = { .wr_id = 100 + n,
					    .send_flags = n % 2 ? IBV_SEND_SIGNALED : 0,
					    .bind_info = { .mr = b.mr,
							   .addr = (uintptr_t)b.buf,
							   .length = 64 + n,
							   .mw_access_flags = RW } };
		int err = VERB_ERRNO(ibv_bind_mw(b.qp, mw, &bind));

		if (err) {
			CHECK_EQ(err, ENOMEM);
			break;
		}
		rkey = ibv_inc_rkey(rkey);
		n++;
		CHECK(n < 10000);
	}
	CHECK(n >= 60);
	CHECK_EQ(mw->rkey, rkey);
	CHECK_EMPTY(b.scq);
	vt_recv(&a, 2, 0, 64);
	WANT_OK(a.rcq, 2);
	WANT_OK(b.scq, 1);
	for (uint32_t i = 1; i < n; i += 2) {
		wc = WANT_OK(b.scq, 100 + i);
		CHECK_EQ(wc.opcode, IBV_WC_BIND_MW);
		CHECK_EQ(wc.byte_len, 0);
	}
	/* the last one counts, and a SEND behind it says that it is done */
	vt_recv(&a, 3, 0, 64);
	vt_send(&b, 4, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(b.scq, 4);
	WANT_OK(a.rcq, 3);
	reaches(&a, &b, 0, 64 + n - 1, (uintptr_t)b.buf, mw->rkey);
	refused(&a, &b, IBV_WR_RDMA_READ, (uintptr_t)b.buf + 64, mw->rkey, n);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

/* ---- type 2 --------------------------------------------------------------------------------- */

static void mw_type2(void)
{
	struct vt_end a, b;
	struct ibv_send_wr wr;
	struct ibv_mw *mw, *one;
	uint64_t base;
	uint32_t rkey;

	pair_up(&a, &b, 0);
	base = (uintptr_t)b.buf;
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	/* the low byte is the program's, the others are not */
	rkey = (mw->rkey & ~0xffu) | ((mw->rkey + 100) & 0xff);
	CHECK_EQ(bind2(&b, mw, rkey ^ 0xabcdef00, 4096, 4096, RW), IBV_WC_SUCCESS);
	reaches(&a, &b, 4096, 4096, base + 4096, rkey);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 4095, rkey, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 4096, rkey ^ 1, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 4096, rkey ^ 0x100, 8);
	/* bound: not again */
	CHECK_EQ(bind2(&b, mw, rkey + 1, 0, 64, RW), IBV_WC_MW_BIND_ERR);
	vt_pair_reset(&a, &b);
	reaches(&a, &b, 4096, 64, base + 4096, rkey);

	CHECK_EQ(local_inv(&b, rkey), IBV_WC_SUCCESS);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 4096, rkey, 8);
	CHECK_EQ(local_inv(&b, rkey), IBV_WC_MW_BIND_ERR); /* it is none any more */
	vt_pair_reset(&a, &b);
	CHECK_EQ(bind2(&b, mw, rkey + 1, 100, 64, RW | IBV_ACCESS_ZERO_BASED), IBV_WC_SUCCESS);
	rkey = (rkey & ~0xffu) | ((rkey + 1) & 0xff);
	reaches(&a, &b, 100, 64, 0, rkey);
	refused(&a, &b, IBV_WR_RDMA_READ, base + 100, rkey, 8);
	refused(&a, &b, IBV_WR_RDMA_READ, 57, rkey, 8);
	CHECK_EQ(bind2(&b, mw, rkey + 1, 0, 0, 0), IBV_WC_SUCCESS); /* of length 0: nothing */
	refused(&a, &b, IBV_WR_RDMA_READ, 0, rkey, 8);

	/* not through ibv_bind_mw, and type 1 not here */
	CHECK_EQ(bind1(&b, mw, b.mr, 0, 64, RW), EINVAL);
	one = mw_alloc(&b, IBV_MW_TYPE_1);
	wr = bind2_wr(&b, one, one->rkey, 0, 64, RW);
	CHECK_EQ(vt_post(&b, &wr), EINVAL);
	wr.bind_mw.mw = NULL;
	CHECK_EQ(vt_post(&b, &wr), EINVAL);
	/* nor can one of type 1 be invalidated */
	bound1(&b, one, 0, 64, RW);
	CHECK_EQ(local_inv(&b, one->rkey), IBV_WC_MW_BIND_ERR);
	vt_pair_reset(&a, &b);
	CHECK_EQ(local_inv(&b, b.mr->rkey), IBV_WC_MW_BIND_ERR);
	vt_pair_reset(&a, &b);
	reaches(&a, &b, 0, 64, base, one->rkey);
	CHECK_OK(ibv_dealloc_mw(one));
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

/* Another QP of the same PD, in the same process, is no way to it. */
static void mw_type2_qp(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, c, d;
	struct ibv_mw *mw;
	uint32_t rkey;

	pair_up(&a, &b, 0);
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	CHECK_EQ(bind2(&b, mw, rkey, 0, 4096, RW), IBV_WC_SUCCESS);
	par.access = BINDABLE;
	vt_end_open(&c, &par);
	vt_end_open_on(&d, &par, b.ctx, b.pd);
	vt_connect(&c, &d.self);
	vt_connect(&d, &c.self);
	post_rdma(&c, IBV_WR_RDMA_WRITE, (uintptr_t)b.buf, rkey, 64);
	WANT(c.scq, 1, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(&d, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_reset(&c, &d);
	CHECK_EQ(local_inv(&d, rkey), IBV_WC_MW_BIND_ERR); /* nor can that QP invalidate it */
	reaches(&a, &b, 0, 4096, (uintptr_t)b.buf, rkey);
	vt_end_close(&c);
	vt_end_close(&d);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

static void send_inv(struct vt_end *a, uint32_t rkey, size_t len, unsigned flags)
{
	struct ibv_sge sge = vt_sge(a, 0, len);
	struct ibv_send_wr wr = vt_wr(IBV_WR_SEND_WITH_INV, 60, &sge, IBV_SEND_SIGNALED | flags);

	wr.invalidate_rkey = rkey;
	CHECK_OK(vt_post(a, &wr));
}

static void mw_send_inv(void)
{
	struct vt_end a, b;
	struct ibv_mw *mw, *one;
	struct ibv_wc wc;
	uint32_t rkey;

	pair_up(&a, &b, 0);
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	one = mw_alloc(&b, IBV_MW_TYPE_1);
	rkey = mw->rkey;
	for (unsigned i = 0; i < 300; i++) { /* the low byte comes around */
		size_t len = i % 3 ? 1000 : 20;

		rkey = ibv_inc_rkey(rkey);
		CHECK_EQ(bind2(&b, mw, rkey, 0, 64, RW), IBV_WC_SUCCESS);
		reaches(&a, &b, 0, 64, (uintptr_t)b.buf, rkey);
		vt_recv(&b, 61, 8192, 4096);
		vt_pattern(a.buf, len, i);
		send_inv(&a, rkey, len, i % 3 ? 0 : IBV_SEND_INLINE);
		CHECK_EQ(WANT_OK(a.scq, 60).opcode, IBV_WC_SEND);
		wc = WANT_OK(b.rcq, 61);
		CHECK_EQ(wc.opcode, IBV_WC_RECV);
		CHECK_EQ(wc.wc_flags, IBV_WC_WITH_INV);
		CHECK_EQ(wc.invalidated_rkey, rkey);
		CHECK_EQ(wc.byte_len, len);
		CHECK_PATTERN(b.buf + 8192, len, i);
		if (i % 50 == 0)
			refused(&a, &b, IBV_WR_RDMA_READ, (uintptr_t)b.buf, rkey, 8);
	}
	/* what is not a window of that QP's is an error of the sender's, and both ends' end */
	bound1(&b, one, 0, 64, RW);
	const uint32_t bad[] = { rkey, rkey ^ 0x100, one->rkey, b.mr->rkey, b.mr->lkey,
				 0,    a.mr->rkey };
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		vt_recv(&b, 61, 8192, 4096);
		send_inv(&a, bad[i], 100, 0);
		WANT(a.scq, 60, IBV_WC_REM_ACCESS_ERR);
		WANT(b.rcq, 61, IBV_WC_WR_FLUSH_ERR);
		WANT_QP_EVENT(&b, IBV_EVENT_QP_ACCESS_ERR);
		vt_pair_reset(&a, &b);
	}
	reaches(&a, &b, 0, 64, (uintptr_t)b.buf, one->rkey);
	CHECK_OK(ibv_dealloc_mw(one));
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_recv(&b, 62, 0, 64);
	vt_send(&a, 63, 0, 64, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 63);
	WANT_OK(b.rcq, 62);
	vt_pair_close(&a, &b);
}

/* The same through ibv_wr_*. */
static void mw_wr_ops(void)
{
	uint64_t ops = IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV |
		       IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_SEND |
		       IBV_QP_EX_WITH_RDMA_WRITE;
	struct vt_end a, b;
	struct ibv_mw_bind_info info;
	struct ibv_qp_ex *qa, *qb;
	struct ibv_mw *mw, *one;
	struct ibv_wc wc;
	uint32_t rkey;

	pair_up(&a, &b, ops);
	qa = ibv_qp_to_qp_ex(a.qp);
	qb = ibv_qp_to_qp_ex(b.qp);
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	one = mw_alloc(&b, IBV_MW_TYPE_1);
	rkey = ibv_inc_rkey(mw->rkey);
	info = (struct ibv_mw_bind_info){
		.mr = b.mr, .addr = (uintptr_t)b.buf, .length = 64, .mw_access_flags = RW
	};
	ibv_wr_start(qb);
	qb->wr_id = 1;
	qb->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_bind_mw(qb, mw, rkey, &info);
	CHECK_OK(ibv_wr_complete(qb));
	CHECK_EQ(WANT_OK(b.scq, 1).opcode, IBV_WC_BIND_MW);

	vt_recv(&b, 2, 8192, 64);
	vt_pattern(a.buf, 64, 3);
	ibv_wr_start(qa);
	qa->wr_id = 3;
	qa->wr_flags = 0;
	ibv_wr_rdma_write(qa, rkey, (uintptr_t)b.buf);
	ibv_wr_set_sge(qa, a.mr->lkey, (uintptr_t)a.buf, 64);
	qa->wr_flags = IBV_SEND_SIGNALED;
	ibv_wr_send_inv(qa, rkey);
	ibv_wr_set_sge(qa, a.mr->lkey, (uintptr_t)a.buf, 5);
	CHECK_OK(ibv_wr_complete(qa));
	WANT_OK(a.scq, 3);
	wc = WANT_OK(b.rcq, 2);
	CHECK_EQ(wc.wc_flags, IBV_WC_WITH_INV);
	CHECK_EQ(wc.invalidated_rkey, rkey);
	CHECK_PATTERN(b.buf, 64, 3);

	/* bind and invalidate in one batch: afterwards there is nothing */
	ibv_wr_start(qb);
	qb->wr_id = 4;
	ibv_wr_bind_mw(qb, mw, ++rkey, &info);
	ibv_wr_local_inv(qb, (mw->rkey & ~0xffu) | (rkey & 0xff));
	CHECK_OK(ibv_wr_complete(qb));
	CHECK_EQ(WANT_OK(b.scq, 4).opcode, IBV_WC_BIND_MW);
	CHECK_EQ(WANT_OK(b.scq, 4).opcode, IBV_WC_LOCAL_INV);
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(b.pd, b.buf, 64, BINDABLE))));

	ibv_wr_start(qb);
	ibv_wr_bind_mw(qb, one, one->rkey, &info);
	CHECK_ERR(ibv_wr_complete(qb), EINVAL);
	CHECK_EMPTY(b.scq);
	CHECK_OK(ibv_dealloc_mw(one));
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

/* UC has windows, but no SEND with invalidate; UD has neither. */
static void mw_qp_types(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr inv = { .opcode = IBV_WR_SEND_WITH_INV };
	struct ibv_send_wr bind;
	struct vt_end a, b;
	struct ibv_mw *mw;
	uint32_t rkey;

	par.type = IBV_QPT_UC;
	par.access = BINDABLE;
	vt_pair(&a, &b, &par);
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	rkey = ibv_inc_rkey(mw->rkey);
	CHECK_EQ(bind2(&b, mw, rkey, 0, 64, RW), IBV_WC_SUCCESS);
	vt_pattern(a.buf, 64, 9);
	post_rdma(&a, IBV_WR_RDMA_WRITE, (uintptr_t)b.buf, rkey, 64);
	WANT_OK(a.scq, 1);
	WAIT_FOR(vt_mismatch(b.buf, 64, 9) < 0);
	CHECK_EQ(vt_post(&a, &inv), EINVAL);
	CHECK_EQ(local_inv(&b, rkey), IBV_WC_SUCCESS);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);

	par.type = IBV_QPT_UD;
	vt_pair(&a, &b, &par);
	mw = mw_alloc(&b, IBV_MW_TYPE_2);
	bind = bind2_wr(&b, mw, mw->rkey, 0, 64, RW);
	CHECK_EQ(vt_post(&b, &bind), EINVAL);
	bind = (struct ibv_send_wr){ .opcode = IBV_WR_LOCAL_INV };
	CHECK_EQ(vt_post(&b, &bind), EINVAL);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_pair_close(&a, &b);
}

VT_MAIN({ "mw_caps", mw_caps, 0 }, { "mw_life", mw_life, 0 }, { "mw_holds_mr", mw_holds_mr, 0 },
	{ "mw_type1", mw_type1, 0 }, { "mw_type1_pd", mw_type1_pd, 0 },
	{ "mw_type1_bad", mw_type1_bad, 0 }, { "mw_queue", mw_queue, 0 },
	{ "mw_type2", mw_type2, 0 }, { "mw_type2_qp", mw_type2_qp, 0 },
	{ "mw_send_inv", mw_send_inv, 0 }, { "mw_wr_ops", mw_wr_ops, 0 },
	{ "mw_qp_types", mw_qp_types, 0 })
