/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_mr.c - protection domains and memory regions: life cycle, errors, iova, rereg, many at
 * once. What kinds of memory there are, threads and fork are in verbs_memory.c.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096u

static struct ibv_context *ctx;
static struct ibv_pd *pd;

static void open_pd(void)
{
	ctx = vt_open_device();
	pd = CHECK_PTR(ibv_alloc_pd(ctx));
}

static void close_pd(void)
{
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void pd_life(void)
{
	struct ibv_pd *many[64];

	open_pd();
	CHECK(pd->context == ctx);
	for (unsigned i = 0; i < 2000; i++)
		CHECK_OK(ibv_dealloc_pd(CHECK_PTR(ibv_alloc_pd(ctx))));
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = CHECK_PTR(ibv_alloc_pd(ctx));
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		CHECK_OK(ibv_dealloc_pd(many[i]));
	close_pd();
}

/* A PD that something hangs on cannot be freed, and stays usable. */
static void pd_busy(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_srq_init_attr srq_attr = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ah_attr ah_attr;
	union ibv_gid gid;
	struct ibv_srq *srq;
	struct ibv_ah *ah;
	struct vt_end e;
	struct ibv_mr *mr;
	void *p = vt_map(PAGE);

	open_pd();
	mr = CHECK_PTR(ibv_reg_mr(pd, p, PAGE, 0));
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_OK(ibv_dereg_mr(mr));
	srq = CHECK_PTR(ibv_create_srq(pd, &srq_attr));
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_OK(ibv_destroy_srq(srq));
	vt_gid(ctx, &gid);
	ah_attr = vt_av(&gid, 0);
	ah = CHECK_PTR(ibv_create_ah(pd, &ah_attr));
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_OK(ibv_destroy_ah(ah));
	vt_end_open_on(&e, &par, ctx, pd);
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_OK(ibv_dereg_mr(e.mr));
	e.mr = NULL;
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	vt_end_close(&e);
	close_pd();
}

static void mr_life(void)
{
	uint8_t *p = vt_map(16 * PAGE);

	open_pd();
	for (unsigned i = 0; i < 2000; i++) {
		size_t off = i * 7 % PAGE, len = 1 + i * 31 % (8 * PAGE);
		struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(pd, p + off, len, VT_ACCESS_ALL));

		CHECK(mr->addr == p + off && mr->length == len);
		CHECK(mr->pd == pd && mr->context == ctx);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	close_pd();
}

static void mr_bad_access(void)
{
	static const int bad[] = {
		IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_REMOTE_ATOMIC,
		IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | 1 << 18, /* no such bit, and not of the optional ones */
	};
	static const int good[] = {
		0,
		IBV_ACCESS_LOCAL_WRITE,
		IBV_ACCESS_REMOTE_READ,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE,
		IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC,
		VT_ACCESS_ALL,
		VT_ACCESS_ALL | IBV_ACCESS_RELAXED_ORDERING, /* optional: may be ignored */
	};
	void *p = vt_map(PAGE);

	open_pd();
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		CHECK_NULL(ibv_reg_mr(pd, p, PAGE, bad[i]), EINVAL);
	for (unsigned i = 0; i < ARRAY_SIZE(good); i++)
		CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(pd, p, PAGE, good[i]))));
	close_pd();
}

static void mr_bad_range(void)
{
	uint8_t *p = vt_map(8 * PAGE);
	struct ibv_mr *mr;

	open_pd();
	CHECK_NULL(ibv_reg_mr(pd, NULL, PAGE, 0), EFAULT);
	CHECK(munmap(p + 4 * PAGE, PAGE) == 0);
	CHECK_NULL(ibv_reg_mr(pd, p, 8 * PAGE, VT_ACCESS_ALL), EFAULT);
	CHECK_NULL(ibv_reg_mr(pd, p + 4 * PAGE, PAGE, VT_ACCESS_ALL), EFAULT);
	CHECK_NULL(ibv_reg_mr(pd, p + 4 * PAGE - 1, 2, VT_ACCESS_ALL), EFAULT);
	CHECK_NULL(ibv_reg_mr(pd, p + 4 * PAGE + 1, PAGE, 0), EFAULT);
	mr = CHECK_PTR(ibv_reg_mr(pd, p, 4 * PAGE, VT_ACCESS_ALL)); /* up to the hole */
	CHECK_OK(ibv_dereg_mr(mr));
	mr = CHECK_PTR(ibv_reg_mr(pd, p + 5 * PAGE, 3 * PAGE, VT_ACCESS_ALL));
	CHECK_OK(ibv_dereg_mr(mr));

	CHECK(mprotect(p, PAGE, PROT_NONE) == 0);
	CHECK_NULL(ibv_reg_mr(pd, p, PAGE, 0), EFAULT);
	CHECK_NULL(ibv_reg_mr(pd, p, 2 * PAGE, VT_ACCESS_ALL), EFAULT);
	CHECK(mprotect(p, PAGE, PROT_READ) == 0);
	CHECK_NULL(ibv_reg_mr(pd, p, PAGE, IBV_ACCESS_LOCAL_WRITE), EFAULT);
	CHECK_NULL(ibv_reg_mr(pd, p, 2 * PAGE, VT_ACCESS_ALL), EFAULT);
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(pd, p, 2 * PAGE, IBV_ACCESS_REMOTE_READ))));

	errno = 0;
	CHECK(!ibv_reg_mr(pd, p, SIZE_MAX - PAGE, VT_ACCESS_ALL));
	CHECK(errno == EINVAL || errno == EFAULT || errno == ENOMEM);
	errno = 0;
	CHECK(!ibv_reg_mr(pd, (void *)(UINTPTR_MAX - 10), 100, VT_ACCESS_ALL));
	CHECK(errno == EINVAL || errno == EFAULT);
	errno = 0;
	CHECK(!ibv_reg_mr(pd, (void *)(UINTPTR_MAX - 2 * PAGE), PAGE, VT_ACCESS_ALL));
	CHECK(errno == EINVAL || errno == EFAULT);
	CHECK_NULL(ibv_reg_mr(pd, p + PAGE, 0, VT_ACCESS_ALL), EINVAL);
	close_pd();
}

/* ---- iova ----------------------------------------------------------------------------------- */

/* The peer, and the owner itself, name the memory by iova; the bytes are at addr. */
static void use_iova(struct vt_end *a, struct vt_end *b, struct ibv_mr *mr, uint64_t iova,
		     size_t off, size_t len)
{
	struct ibv_sge sge = vt_sge(a, 0, 1000), local;
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr rr = { .wr_id = 2, .sg_list = &local, .num_sge = 1 };

	vt_pattern(a->buf, 1000, (uint32_t)iova);
	memset(b->buf, 0, b->len);
	wr.wr.rdma.remote_addr = iova + 100;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK_OK(vt_post(a, &wr));
	WANT_OK(a->scq, 1);
	CHECK_PATTERN(b->buf + off + 100, 1000, (uint32_t)iova);
	CHECK(vt_all(b->buf, off + 100, 0));
	wr.opcode = IBV_WR_RDMA_READ;
	sge = vt_sge(a, 2000, 1000);
	CHECK_OK(vt_post(a, &wr));
	WANT_OK(a->scq, 1);
	CHECK_PATTERN(a->buf + 2000, 1000, (uint32_t)iova);

	/* through the lkey as well (ibv_reg_mr(3)) */
	local = (struct ibv_sge){ .addr = iova + len - 500, .length = 500, .lkey = mr->lkey };
	CHECK_OK(ibv_post_recv(b->qp, &rr, &(struct ibv_recv_wr *){ NULL }));
	vt_send(a, 3, 0, 500, IBV_SEND_SIGNALED);
	WANT_OK(a->scq, 3);
	WANT_OK(b->rcq, 2);
	CHECK_PATTERN(b->buf + off + len - 500, 500, (uint32_t)iova);
	if (off)
		return;
	/* the real address is no name of it */
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = (uintptr_t)b->buf + off;
	CHECK_OK(vt_post(a, &wr));
	WANT(a->scq, 1, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(b, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_reset(a, b);
}

static void mr_iova(void)
{
	static const uint64_t iovas[] = { 0,	      0x1000,
					  0x7000,     0x123456789000,
					  1ull << 62, 0xfffffffffff00000 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(iovas); i++) {
		struct ibv_mr *mr =
			CHECK_PTR(ibv_reg_mr_iova(b.pd, b.buf, 8192, iovas[i], VT_ACCESS_ALL));

		use_iova(&a, &b, mr, iovas[i], 0, 8192);
		CHECK_OK(ibv_dereg_mr(mr));
		mr = CHECK_PTR(ibv_reg_mr_iova2(b.pd, b.buf + 123, 8192, iovas[i] + 123,
						VT_ACCESS_ALL | IBV_ACCESS_RELAXED_ORDERING));
		use_iova(&a, &b, mr, iovas[i] + 123, 123, 8192);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	vt_pair_close(&a, &b);
}

/* An iova with another offset in its page than the address: works or is refused. */
static void mr_iova_other_offset(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_mr *mr;

	vt_pair(&a, &b, &par);
	mr = ibv_reg_mr_iova(b.pd, b.buf + 100, 8192, 0x5007, VT_ACCESS_ALL);
	if (!mr) {
		CHECK_EQ(errno, EINVAL);
	} else {
		use_iova(&a, &b, mr, 0x5007, 100, 8192);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	/* iova + length must not wrap */
	errno = 0;
	CHECK(!ibv_reg_mr_iova(b.pd, b.buf, 8192, UINT64_MAX - 4095, VT_ACCESS_ALL));
	CHECK_EQ(errno, EINVAL);
	vt_pair_close(&a, &b);
}

/* ---- rereg ---------------------------------------------------------------------------------- */

/* WRITE of 64 bytes to that address and key: succeeds or is refused. */
static void write_to(struct vt_end *a, struct vt_end *b, void *addr, uint32_t rkey, bool ok)
{
	struct ibv_sge sge = vt_sge(a, 0, 64);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { .remote_addr = (uintptr_t)addr, .rkey = rkey } };

	CHECK_OK(vt_post(a, &wr));
	if (ok) {
		WANT_OK(a->scq, 1);
		CHECK(!memcmp(addr, a->buf, 64));
		return;
	}
	WANT(a->scq, 1, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(b, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_reset(a, b);
}

static void mr_rereg(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_pd *other;
	uint8_t *old, *new;

	vt_pair(&a, &b, &par);
	other = CHECK_PTR(ibv_alloc_pd(b.ctx));
	old = vt_map(4 * PAGE);
	new = vt_map(8 * PAGE);
	for (int flags = 1; flags < 8; flags++) {
		bool trans = flags & IBV_REREG_MR_CHANGE_TRANSLATION;
		bool access = flags & IBV_REREG_MR_CHANGE_ACCESS;
		bool to_pd = flags & IBV_REREG_MR_CHANGE_PD;
		struct ibv_mr *mr =
			CHECK_PTR(ibv_reg_mr(to_pd ? other : b.pd, old, 4 * PAGE,
					     access ? IBV_ACCESS_LOCAL_WRITE : VT_ACCESS_ALL));
		uint32_t lkey = mr->lkey, rkey = mr->rkey;
		uint8_t *now = trans ? new + 100 : old;
		size_t len = trans ? 7 * PAGE : 4 * PAGE;

		vt_pattern(a.buf, 64, (uint32_t)flags);
		write_to(&a, &b, old, mr->rkey, !access && !to_pd);
		CHECK_EQ(ibv_rereg_mr(mr, flags, b.pd, new + 100, 7 * PAGE,
				      access ? VT_ACCESS_ALL : 0),
			 0);
		CHECK(mr->addr == now && mr->length == len);
		CHECK(mr->pd == b.pd);
		CHECK(mr->lkey == lkey && mr->rkey == rkey);
		write_to(&a, &b, now, mr->rkey, true);
		write_to(&a, &b, now + len - 64, mr->rkey, true);
		write_to(&a, &b, now + len - 63, mr->rkey, false);
		if (trans)
			write_to(&a, &b, old, mr->rkey, false);
		if (to_pd) {
			struct ibv_pd *tmp = CHECK_PTR(ibv_alloc_pd(b.ctx));

			CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, tmp, NULL, 0, 0), 0);
			CHECK_ERR(ibv_dealloc_pd(tmp), EBUSY);
			write_to(&a, &b, now, mr->rkey, false);
			CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, b.pd, NULL, 0, 0), 0);
			CHECK_OK(ibv_dealloc_pd(tmp));
			write_to(&a, &b, now, mr->rkey, true);
		}
		if (access) {
			CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
					      IBV_ACCESS_REMOTE_READ),
				 0);
			write_to(&a, &b, now, mr->rkey, false);
		}
		CHECK_OK(ibv_dereg_mr(mr));
	}
	CHECK_OK(ibv_dealloc_pd(other));
	vt_pair_close(&a, &b);
}

/* What ibv_rereg_mr refuses leaves the MR as it was. */
static void mr_rereg_refused(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint8_t *hole = vt_map(4 * PAGE);
	int ret;

	/* not munmap: a mapping of the library's own could fall into the gap */
	CHECK(mprotect(hole + PAGE, PAGE, PROT_NONE) == 0);
	vt_pair(&a, &b, &par);
	vt_pattern(a.buf, 64, 8);
	CHECK(ibv_rereg_mr(b.mr, 0x10, NULL, NULL, 0, 0) != 0);
	CHECK(ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, NULL, 0, 0) != 0);
	write_to(&a, &b, b.buf, b.mr->rkey, true);
	CHECK_OK(ibv_dereg_mr(b.mr));
	b.mr = vt_reg(&b, b.buf, b.len, VT_ACCESS_ALL);
	ret = ibv_rereg_mr(b.mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, hole, 4 * PAGE, 0);
	CHECK(ret != 0);
	/* after IBV_REREG_MR_ERR_CMD the MR may be gone, else it must be as it was */
	if (ret == IBV_REREG_MR_ERR_INPUT)
		write_to(&a, &b, b.buf, b.mr->rkey, true);
	vt_pair_close(&a, &b);
}

/* ---- many ----------------------------------------------------------------------------------- */

/* Small MRs all over the heap, each with a key of its own that opens nothing else. */
static void mr_many(void)
{
	enum { NUM = 3000 };
	static struct ibv_mr *mr[NUM];
	static uint8_t *mem[NUM];
	struct vt_param par = VT_PARAM;
	uint32_t rnd = 31;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < NUM; i++) {
		size_t len = 64 + vt_rand(&rnd) % 300;

		mem[i] = CHECK_PTR(malloc(len));
		memset(mem[i], 0, len);
		mr[i] = vt_reg(&b, mem[i], len, VT_ACCESS_ALL);
	}
	for (unsigned i = 0; i < NUM; i++) {
		vt_pattern(a.buf, 64, i);
		write_to(&a, &b, mem[i], mr[i]->rkey, true);
	}
	for (unsigned i = 0; i < NUM; i++)
		CHECK_PATTERN(mem[i], 64, i);
	for (unsigned i = 0; i < NUM; i += 2)
		CHECK_OK(ibv_dereg_mr(mr[i]));
	for (unsigned i = 1; i < NUM; i += 2) {
		vt_pattern(a.buf, 64, i + 5);
		write_to(&a, &b, mem[i], mr[i]->rkey, true);
	}
	for (unsigned i = 0; i < 20; i++) {
		unsigned odd = 1 + 2 * (vt_rand(&rnd) % (NUM / 2));

		write_to(&a, &b, mem[odd - 1], mr[odd]->rkey, false);
	}
	for (unsigned i = 1; i < NUM; i += 2)
		CHECK_OK(ibv_dereg_mr(mr[i]));
	for (unsigned i = 0; i < NUM; i++) {
		CHECK_PATTERN(mem[i], 64, i % 2 ? i + 5 : i);
		free(mem[i]);
	}
	vt_pair_close(&a, &b);
}

/* Keys are not handed out again at once: a dead key stays dead while others come and go. */
static void mr_dead_key(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_mr *mr;
	uint32_t dead;

	vt_pair(&a, &b, &par);
	mr = vt_reg(&b, b.buf, PAGE, VT_ACCESS_ALL);
	dead = mr->rkey;
	CHECK_OK(ibv_dereg_mr(mr));
	for (unsigned i = 0; i < 100; i++) {
		mr = vt_reg(&b, b.buf, PAGE, VT_ACCESS_ALL);
		CHECK(mr->rkey != dead);
		CHECK_OK(ibv_dereg_mr(mr));
	}
	write_to(&a, &b, b.buf, dead, false);
	vt_pair_close(&a, &b);
}

/* One large MR, contents checked from end to end. */
static void mr_large(void)
{
	struct vt_param par = VT_PARAM;
	size_t len = 96u << 20;
	struct vt_end a, b;
	struct ibv_mr *mr;
	uint8_t *p = vt_map(len);

	par.len = 4 << 20;
	vt_pair(&a, &b, &par);
	mr = vt_reg(&b, p, len, VT_ACCESS_ALL);
	vt_aim(&a, p, mr);
	vt_pattern(a.buf, a.len, 3);
	for (size_t off = 0; off < len; off += a.len)
		vt_rdma(&a, IBV_WR_RDMA_WRITE, off, 0, a.len, off, IBV_SEND_SIGNALED);
	for (size_t off = 0; off < len; off += a.len)
		WANT_OK(a.scq, off);
	for (size_t off = 0; off < len; off += a.len)
		CHECK_PATTERN(p + off, a.len, 3);
	CHECK_OK(ibv_dereg_mr(mr));
	for (size_t off = 0; off < len; off += a.len)
		CHECK_PATTERN(p + off, a.len, 3);
	vt_pair_close(&a, &b);
}

/* Deregistration while the peer writes: the write is done or refused, and none comes after it. */
static void mr_dereg_under_load(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	size_t n = 512 * 1024;
	uint8_t *p;

	par.len = n;
	par.timeout = 10;
	vt_pair(&a, &b, &par);
	memset(a.buf, 0x77, n);
	for (unsigned round = 0; round < 100; round++) {
		struct ibv_mr *mr;
		bool failed;

		p = vt_map(n);
		mr = vt_reg(&b, p, n, VT_ACCESS_ALL);
		vt_aim(&a, p, mr);
		for (unsigned i = 0; i < 16; i++)
			vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, n, 0, IBV_SEND_SIGNALED);
		if (round % 3)
			WANT_OK(a.scq, 0);
		CHECK_OK(ibv_dereg_mr(mr));
		memset(p, 0x11, n);
		failed = vt_want_cut(a.scq, !!(round % 3), 16);
		CHECK(vt_all(p, n, 0x11));
		CHECK(munmap(p, n) == 0);
		if (failed) {
			WANT_QP_EVENT(&b, IBV_EVENT_QP_ACCESS_ERR);
			vt_pair_reset(&a, &b);
		}
	}
	a.peer = b.self;
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* Memory that the program unmaps while it is registered: an error for it alone. */
static void mr_unmapped(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, c, d;
	size_t n = 16 * PAGE;
	uint8_t *p = vt_map(n);
	struct ibv_mr *mr;
	struct ibv_wc wc;

	vt_pair(&a, &b, &par);
	vt_pair(&c, &d, &par);
	mr = vt_reg(&b, p + 10, n - 20, VT_ACCESS_ALL);
	CHECK(munmap(p, n) == 0);
	vt_aim(&a, p + 10, mr);
	vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, n - 20, 0, IBV_SEND_SIGNALED);
	wc = vt_wc(a.scq); /* a device keeps the pages: success is right as well */
	CHECK_EQ(wc.wr_id, 1);
	vt_check_alive(&c, &d);
	CHECK_OK(ibv_dereg_mr(mr));
	p = mmap(p, n, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	CHECK(p != MAP_FAILED);
	CHECK(vt_all(p, n, 0));
	mr = vt_reg(&d, p, n, VT_ACCESS_ALL);
	vt_aim(&c, p, mr);
	vt_pattern(c.buf, 64, 9);
	vt_rdma(&c, IBV_WR_RDMA_WRITE, 2, 0, 64, PAGE - 10, IBV_SEND_SIGNALED);
	WANT_OK(c.scq, 2);
	CHECK_PATTERN(p + PAGE - 10, 64, 9);
	CHECK_OK(ibv_dereg_mr(mr));
	vt_pair_close(&c, &d);
}

VT_MAIN({ "pd_life", pd_life, 0 }, { "pd_busy", pd_busy, 0 }, { "mr_life", mr_life, 0 },
	{ "mr_bad_access", mr_bad_access, 0 }, { "mr_bad_range", mr_bad_range, 0 },
	{ "mr_iova", mr_iova, 0 }, { "mr_iova_other_offset", mr_iova_other_offset, 0 },
	{ "mr_rereg", mr_rereg, 0 }, { "mr_rereg_refused", mr_rereg_refused, 0 },
	{ "mr_many", mr_many, 0 }, { "mr_dead_key", mr_dead_key, 0 }, { "mr_large", mr_large, 0 },
	{ "mr_dereg_under_load", mr_dereg_under_load, 0 }, { "mr_unmapped", mr_unmapped, 0 })
