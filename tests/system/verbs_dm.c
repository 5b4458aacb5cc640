/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_dm.c - device memory, null MRs, and advice: MRs that are not, or not only, the program's
 * memory. Device memory between two containers is in verbs_peer.c, dma-bufs are in verbs_dmabuf.c.
 */
#include "tests/rig/verbs/vt.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE	  4096u
#define DM_ACCESS (VT_ACCESS_ALL | IBV_ACCESS_ZERO_BASED)

static size_t max_dm(struct ibv_context *ctx)
{
	struct ibv_device_attr_ex attr;

	CHECK_OK(ibv_query_device_ex(ctx, NULL, &attr));
	CHECK(attr.max_dm_size >= 1u << 20);
	return attr.max_dm_size;
}

static struct ibv_dm *dm_alloc(struct ibv_context *ctx, size_t length)
{
	struct ibv_dm *dm =
		CHECK_PTR(ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = length }));

	CHECK(dm->context == ctx);
	return dm;
}

/* ---- device memory -------------------------------------------------------------------------- */

static void dm_life(void)
{
	struct ibv_context *ctx = vt_open_device();
	size_t max = max_dm(ctx), left;
	struct ibv_alloc_dm_attr attr = { .length = max + 1 };
	struct ibv_dm *dm, *many[64];

	CHECK_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.length = 0;
	CHECK_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.length = SIZE_MAX;
	CHECK_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr = (struct ibv_alloc_dm_attr){ .length = 64, .comp_mask = 1 };
	CHECK_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr = (struct ibv_alloc_dm_attr){ .length = 64, .log_align_req = 40 };
	CHECK_NULL(ibv_alloc_dm(ctx, &attr), EINVAL);
	attr.log_align_req = 12;
	CHECK_OK(ibv_free_dm(CHECK_PTR(ibv_alloc_dm(ctx, &attr))));
	for (unsigned i = 0; i < 500; i++)
		CHECK_OK(ibv_free_dm(dm_alloc(ctx, 1 + i * 997 % (max / 2))));
	/* all of it, and no more */
	dm = dm_alloc(ctx, max);
	attr = (struct ibv_alloc_dm_attr){ .length = 4 };
	CHECK_NULL(ibv_alloc_dm(ctx, &attr), ENOMEM);
	CHECK_OK(ibv_free_dm(dm));
	left = ARRAY_SIZE(many);
	for (unsigned i = 0; i < left; i++)
		many[i] = dm_alloc(ctx, max / left);
	CHECK_NULL(ibv_alloc_dm(ctx, &attr), ENOMEM);
	for (unsigned i = 0; i < left; i += 2)
		CHECK_OK(ibv_free_dm(many[i]));
	for (unsigned i = 0; i < left; i += 2)
		many[i] = dm_alloc(ctx, max / left);
	/* what is left goes with the device */
	CHECK_OK(ibv_close_device(ctx));
}

/* The limit is the container's: another process's part counts, until it ends. */
static void dm_shared_limit(void)
{
	int to[2], from[2], status;
	struct ibv_context *ctx;
	struct ibv_dm *dm = NULL;
	size_t max;
	pid_t pid;
	char c;

	CHECK(!pipe(to) && !pipe(from));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		ctx = vt_open_device();
		dm_alloc(ctx, max_dm(ctx) / 4 * 3);
		CHECK(write(from[1], "r", 1) == 1);
		CHECK(read(to[0], &c, 1) == 1);
		_exit(0);
	}
	CHECK(read(from[0], &c, 1) == 1);
	ctx = vt_open_device();
	max = max_dm(ctx);
	CHECK_NULL(ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = max / 2 }), ENOMEM);
	CHECK_OK(ibv_free_dm(dm_alloc(ctx, max / 4)));
	CHECK(write(to[1], "x", 1) == 1);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	WAIT_FOR((dm = ibv_alloc_dm(ctx, &(struct ibv_alloc_dm_attr){ .length = max })));
	CHECK_OK(ibv_free_dm(dm));
	CHECK_OK(ibv_close_device(ctx));
}

static void dm_copy(void)
{
	struct ibv_context *ctx = vt_open_device();
	static uint8_t in[3 * PAGE], out[3 * PAGE];
	struct ibv_dm *dm, *next;

	dm = dm_alloc(ctx, 10000);
	next = dm_alloc(ctx, 4);
	memset(out, 0xff, sizeof(out));
	CHECK_OK(ibv_memcpy_from_dm(out, dm, 0, 10000));
	CHECK(vt_all(out, 10000, 0)); /* nobody else's */
	vt_pattern(in, 10000, 1);
	CHECK_OK(ibv_memcpy_to_dm(dm, 0, in, 10000));
	CHECK_OK(ibv_memcpy_from_dm(out, dm, 0, 10000));
	CHECK_PATTERN(out, 10000, 1);
	CHECK_OK(ibv_memcpy_from_dm(out + 1, dm, 5000, 100)); /* the host's side as it likes */
	CHECK(!memcmp(out + 1, in + 5000, 100));
	CHECK_OK(ibv_memcpy_to_dm(dm, 9996, in, 4));
	CHECK_OK(ibv_memcpy_to_dm(dm, 10000, in, 0));
	CHECK_OK(ibv_memcpy_from_dm(out, next, 0, 4));
	CHECK(vt_all(out, 4, 0));

	CHECK_ERR(ibv_memcpy_to_dm(dm, 10000, in, 4), EFAULT);
	CHECK_ERR(ibv_memcpy_to_dm(dm, 0, in, 10004), EFAULT);
	CHECK_ERR(ibv_memcpy_to_dm(dm, UINT64_MAX - 3, in, 8), EFAULT);
	CHECK_ERR(ibv_memcpy_from_dm(out, dm, 9996, 8), EFAULT);
	CHECK_ERR(ibv_memcpy_to_dm(dm, 1, in, 4), EINVAL);
	CHECK_ERR(ibv_memcpy_to_dm(dm, 4, in, 3), EINVAL);
	CHECK_ERR(ibv_memcpy_from_dm(out, dm, 2, 4), EINVAL);
	CHECK_OK(ibv_free_dm(next));
	/* given back and taken again it is empty */
	CHECK_OK(ibv_free_dm(dm));
	dm = dm_alloc(ctx, 10000);
	CHECK_OK(ibv_memcpy_from_dm(out, dm, 0, 10000));
	CHECK(vt_all(out, 10000, 0));
	CHECK_OK(ibv_free_dm(dm));
	CHECK_OK(ibv_close_device(ctx));
}

static void dm_reg_bad(void)
{
	struct ibv_context *ctx = vt_open_device(), *other = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_pd *alien = CHECK_PTR(ibv_alloc_pd(other));
	struct ibv_dm *dm = dm_alloc(ctx, 1000);
	struct ibv_mr *mr;

	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 0, 1001, DM_ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 1, 1000, DM_ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 1001, 0, DM_ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, UINT64_MAX, 2, DM_ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 8, SIZE_MAX, DM_ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 0, 8, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 0, 8, DM_ACCESS | IBV_ACCESS_MW_BIND), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(pd, dm, 0, 8, DM_ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(alien, dm, 0, 8, DM_ACCESS), EINVAL);
	mr = CHECK_PTR(ibv_reg_dm_mr(pd, dm, 1000, 0, DM_ACCESS));
	CHECK_OK(ibv_dereg_mr(mr));
	mr = CHECK_PTR(ibv_reg_dm_mr(pd, dm, 0, 1000, DM_ACCESS | IBV_ACCESS_RELAXED_ORDERING));
	CHECK_EQ(mr->length, 1000);
	CHECK_ERR(ibv_free_dm(dm), EBUSY);
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_free_dm(dm));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_dealloc_pd(alien));
	CHECK_OK(ibv_close_device(ctx));
	CHECK_OK(ibv_close_device(other));
}

/* As source, destination, receive, and from afar; addresses count from 0. */
static void dm_transfers(void)
{
	enum { LEN = 20000, OFF = 100 };
	static uint8_t host[LEN];
	struct vt_param par = VT_PARAM;
	struct ibv_mr *mr;
	struct ibv_dm *dm;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr rr = { .wr_id = 9, .sg_list = &sge, .num_sge = 1 };
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	dm = dm_alloc(b.ctx, LEN + OFF);
	mr = CHECK_PTR(ibv_reg_dm_mr(b.pd, dm, OFF, LEN, DM_ACCESS));

	/* a writes to it and reads it */
	vt_pattern(a.buf, LEN, 1);
	sge = vt_sge(&a, 0, LEN);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.rkey = mr->rkey;
	wr.wr.rdma.remote_addr = 0;
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 0);
	CHECK_OK(ibv_memcpy_from_dm(host, dm, OFF, LEN));
	CHECK_PATTERN(host, LEN, 1);
	memset(a.buf, 0, LEN);
	wr.opcode = IBV_WR_RDMA_READ;
	sge = vt_sge(&a, 0, 1000);
	wr.wr.rdma.remote_addr = 19000;
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 0);
	CHECK(!memcmp(a.buf, host + 19000, 1000));
	/* an atomic */
	memset(host, 0, 8);
	CHECK_OK(ibv_memcpy_to_dm(dm, OFF + 4, host, 8));
	a.peer.addr = 0;
	a.peer.rkey = mr->rkey;
	vt_pattern(host, 8, 3);
	CHECK_OK(ibv_memcpy_to_dm(dm, OFF, host, 8));
	vt_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 7, 0, 0, 1, 0);
	WANT_OK(a.scq, 7);
	CHECK(!memcmp(a.buf, host, 8));
	CHECK_OK(ibv_memcpy_from_dm(host + 8, dm, OFF, 8));
	CHECK_EQ(*(uint64_t *)(host + 8) - *(uint64_t *)host, 1);

	/* b sends from it and receives into it */
	vt_recv(&a, 8, 4096, 500);
	sge = (struct ibv_sge){ .addr = 1000, .length = 500, .lkey = mr->lkey };
	wr.opcode = IBV_WR_SEND;
	CHECK_OK(vt_post(&b, &wr));
	WANT_OK(b.scq, 0);
	WANT_OK(a.rcq, 8);
	CHECK_OK(ibv_memcpy_from_dm(host, dm, OFF + 1000, 500));
	CHECK(!memcmp(a.buf + 4096, host, 500));
	sge = (struct ibv_sge){ .addr = LEN - 500, .length = 500, .lkey = mr->lkey };
	CHECK_OK(vt_post_recv(&b, &rr));
	vt_send(&a, 10, 4096, 500, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 10);
	WANT_OK(b.rcq, 9);
	CHECK_OK(ibv_memcpy_from_dm(host, dm, OFF + LEN - 500, 500));
	CHECK(!memcmp(a.buf + 4096, host, 500));

	/* bounds: the MR's, not the memory's */
	sge = vt_sge(&a, 0, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = LEN - 7;
	CHECK_OK(vt_post(&a, &wr));
	WANT(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(&b, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_reset(&a, &b);
	sge = (struct ibv_sge){ .addr = LEN - 7, .length = 8, .lkey = mr->lkey };
	wr.opcode = IBV_WR_SEND;
	CHECK_OK(vt_post(&b, &wr));
	WANT(b.scq, 0, IBV_WC_LOC_PROT_ERR);
	vt_pair_reset(&a, &b);

	/* rights: an MR without the remote ones */
	CHECK_OK(ibv_dereg_mr(mr));
	mr = CHECK_PTR(ibv_reg_dm_mr(b.pd, dm, 0, LEN, IBV_ACCESS_ZERO_BASED));
	sge = vt_sge(&a, 0, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = 0;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK_OK(vt_post(&a, &wr));
	WANT(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(&b, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_reset(&a, &b);
	sge = (struct ibv_sge){ .addr = 0, .length = 8, .lkey = mr->lkey };
	CHECK_OK(vt_post_recv(&b, &rr));
	vt_send(&a, 11, 0, 8, IBV_SEND_SIGNALED);
	WANT(b.rcq, 9, IBV_WC_LOC_PROT_ERR);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_free_dm(dm));
	vt_pair_close(&a, &b);
}

/* A forked child has no device memory, and does its parent's no harm. */
static void dm_fork(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_dm *dm = dm_alloc(ctx, 4096);
	uint8_t in[64], out[64];
	int status;
	pid_t pid;

	vt_pattern(in, 64, 4);
	CHECK_OK(ibv_memcpy_to_dm(dm, 0, in, 64));
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		memset(in, 0, 64);
		CHECK_ERR(ibv_memcpy_to_dm(dm, 0, in, 64), EIO);
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && !status);
	CHECK_OK(ibv_memcpy_from_dm(out, dm, 0, 64));
	CHECK_PATTERN(out, 64, 4);
	CHECK_OK(ibv_free_dm(dm));
	CHECK_OK(ibv_close_device(ctx));
}

/* ---- null MR -------------------------------------------------------------------------------- */

static void null_mr(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_mr *null;
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = { .sg_list = sge, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_recv_wr rr = { .wr_id = 5, .sg_list = sge, .num_sge = 3 };
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	null = CHECK_PTR(ibv_alloc_null_mr(a.pd));
	CHECK(null->pd == a.pd && null->context == a.ctx && null->lkey);
	CHECK_ERR(ibv_dealloc_pd(a.pd), EBUSY);

	/* a frame with a hole: WRITE zeros in the middle */
	memset(b.buf, 0xff, b.len);
	vt_pattern(a.buf, 200, 1);
	sge[0] = vt_sge(&a, 0, 100);
	sge[1] = (struct ibv_sge){ .addr = 0x123456, .length = 30000, .lkey = null->lkey };
	sge[2] = vt_sge(&a, 100, 100);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.num_sge = 3;
	wr.wr.rdma.remote_addr = b.self.addr;
	wr.wr.rdma.rkey = b.self.rkey;
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 0);
	CHECK(!memcmp(b.buf, a.buf, 100));
	CHECK(vt_all(b.buf + 100, 30000, 0));
	CHECK(!memcmp(b.buf + 30100, a.buf + 100, 100));
	CHECK(vt_all(b.buf + 30200, 100, 0xff));

	/* receive the ends of a message only, and READ likewise */
	for (int read = 0; read < 2; read++) {
		memset(a.buf, 0, 1000);
		vt_pattern(b.buf, 40200, 2 + (uint32_t)read);
		sge[1].length = 40000;
		if (read) {
			wr.opcode = IBV_WR_RDMA_READ;
			CHECK_OK(vt_post(&a, &wr));
			WANT_OK(a.scq, 0);
		} else {
			CHECK_OK(vt_post_recv(&a, &rr));
			vt_send(&b, 6, 0, 40200, IBV_SEND_SIGNALED);
			WANT_OK(b.scq, 6);
			CHECK_EQ(WANT_OK(a.rcq, 5).byte_len, 40200);
		}
		CHECK(!memcmp(a.buf, b.buf, 100));
		CHECK(!memcmp(a.buf + 100, b.buf + 40100, 100));
		CHECK(vt_all(a.buf + 200, 800, 0));
	}
	/* an atomic's answer that nobody wants */
	sge[0] = (struct ibv_sge){ .addr = 0, .length = 8, .lkey = null->lkey };
	wr.num_sge = 1;
	wr.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
	wr.wr.atomic.remote_addr = b.self.addr;
	wr.wr.atomic.rkey = b.self.rkey;
	wr.wr.atomic.compare_add = 3;
	memset(b.buf, 0, 8);
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 0);
	CHECK_EQ(*(uint64_t *)b.buf, 3);

	/* of local use only */
	CHECK_EQ(null->rkey, 0);
	wr.opcode = IBV_WR_RDMA_WRITE;
	sge[0] = vt_sge(&b, 0, 8);
	wr.wr.rdma.remote_addr = 0;
	wr.wr.rdma.rkey = null->lkey;
	CHECK_OK(vt_post(&b, &wr));
	WANT(b.scq, 0, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(&a, IBV_EVENT_QP_ACCESS_ERR);
	vt_pair_reset(&a, &b);
	CHECK_EQ(ibv_rereg_mr(null, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	sge[0] = (struct ibv_sge){ .addr = 0, .length = 8, .lkey = null->lkey };
	CHECK_OK(ibv_dereg_mr(null));
	/* and gone */
	CHECK_OK(vt_post(&a, &wr));
	WANT(a.scq, 0, IBV_WC_LOC_PROT_ERR);
	vt_pair_close(&a, &b);
}

/* ---- advice --------------------------------------------------------------------------------- */

static unsigned present(void *p, size_t pages)
{
	unsigned n = 0;
	uint64_t e;
	int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);

	CHECK(fd >= 0);
	for (size_t i = 0; i < pages; i++) {
		CHECK(pread(fd, &e, 8, (off_t)((uintptr_t)p / PAGE + i) * 8) == 8);
		n += e >> 63 & 1;
	}
	close(fd);
	return n;
}

static void advise(void)
{
	enum { PAGES = 256 };
	static const int advices[] = { IBV_ADVISE_MR_ADVICE_PREFETCH,
				       IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE,
				       IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT };
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_pd *other = CHECK_PTR(ibv_alloc_pd(ctx));
	int fd = memfd_create("advise", 0);
	struct ibv_mr *mr, *ro, *null;
	struct ibv_sge sge[2];
	uint8_t *p;

	CHECK(fd >= 0 && !ftruncate(fd, PAGES * PAGE));
	p = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	mr = CHECK_PTR(ibv_reg_mr_iova(pd, p, PAGES * PAGE, 0x1000000, VT_ACCESS_ALL));
	ro = CHECK_PTR(ibv_reg_mr(pd, p, PAGES * PAGE, IBV_ACCESS_REMOTE_READ));
	null = CHECK_PTR(ibv_alloc_null_mr(pd));
	/* what it is for: entries of pages that are not there any more are */
	CHECK(!madvise(p, PAGES * PAGE, MADV_DONTNEED));
	CHECK_EQ(present(p, PAGES), 0);
	sge[0] = (struct ibv_sge){ .addr = 0x1000000 + 4 * PAGE + 5,
				   .length = 3 * PAGE,
				   .lkey = mr->lkey };
	CHECK_OK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT, 0, sge, 1));
	CHECK_EQ(present(p, PAGES), 0);
	CHECK_OK(
		ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, IBV_ADVISE_MR_FLAG_FLUSH, sge, 1));
	CHECK(present(p + 4 * PAGE, 4) == 4);
	CHECK_EQ(present(p + PAGES / 2 * PAGE, PAGES / 2), 0); /* near ones may come along */
	sge[1] = (struct ibv_sge){ .addr = 0x1000000, .length = PAGES * PAGE, .lkey = mr->lkey };
	CHECK_OK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, sge, 2));
	CHECK_EQ(present(p, PAGES), PAGES);
	CHECK(vt_all(p, PAGES * PAGE, 0));

	for (unsigned i = 0; i < ARRAY_SIZE(advices); i++) {
		int a = advices[i];

		CHECK_OK(ibv_advise_mr(pd, a, 0, sge, 2));
		CHECK_ERR(ibv_advise_mr(pd, a, 0, sge, 0), EINVAL);
		CHECK_ERR(ibv_advise_mr(pd, a, 0, NULL, 1), EINVAL);
		CHECK_ERR(ibv_advise_mr(pd, a, 2, sge, 1), EINVAL);
		CHECK_ERR(ibv_advise_mr(other, a, 0, sge, 1), EPERM);
		sge[1].lkey = mr->lkey + 1;
		CHECK_ERR(ibv_advise_mr(pd, a, 0, sge, 2), ENOENT);
		sge[1].lkey = null->lkey;
		CHECK_ERR(ibv_advise_mr(pd, a, 0, sge, 2), EINVAL);
		sge[1].lkey = mr->lkey;
		sge[1].addr++;
		CHECK_ERR(ibv_advise_mr(pd, a, 0, sge, 2), EFAULT);
		sge[1].addr -= 2;
		CHECK_ERR(ibv_advise_mr(pd, a, 0, sge, 2), EFAULT);
		sge[1].addr++;
	}
	sge[0] = (struct ibv_sge){ .addr = (uintptr_t)p, .length = PAGE, .lkey = ro->lkey };
	CHECK_OK(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, sge, 1));
	CHECK_ERR(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, 0, sge, 1), EPERM);
	CHECK_ERR(ibv_advise_mr(pd, 3, 0, sge, 1), EOPNOTSUPP);
	CHECK_ERR(ibv_advise_mr(pd, 1000, 0, sge, 1), EOPNOTSUPP);
	/* memory that is gone */
	CHECK(munmap(p + PAGE, PAGE) == 0);
	sge[0].length = 3 * PAGE;
	CHECK_ERR(ibv_advise_mr(pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, sge, 1), EFAULT);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_dereg_mr(ro));
	CHECK_OK(ibv_dereg_mr(null));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_dealloc_pd(other));
	CHECK_OK(ibv_close_device(ctx));
}

VT_MAIN({ "dm_life", dm_life, 0 }, { "dm_shared_limit", dm_shared_limit, 0 },
	{ "dm_copy", dm_copy, 0 }, { "dm_reg_bad", dm_reg_bad, 0 },
	{ "dm_transfers", dm_transfers, 0 }, { "dm_fork", dm_fork, 0 }, { "null_mr", null_mr, 0 },
	{ "advise", advise, 0 })
