/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread -ldl */
/* timeout: 300 */
/*
 * verbs_buf.c - ibv_reg_mr_ex, ibv_alloc_buf, ibv_free_buf and ibv_reg_buf_mr as a program that is
 * built with rdma-core v64's headers calls them; Debian 12's do not know them, so they are found by
 * name.
 */
#include "tests/rig/verbs/vt.h"

#include <dlfcn.h>

struct ibv_buf;

/* As of v64. */
struct mr_init_attr {
	size_t length;
	int access;
	uint64_t comp_mask;
	uint64_t iova;
	void *addr;
	int fd;
	uint64_t fd_offset;
	void *dmah;
	struct ibv_buf *buf;
};
enum { IOVA = 1, ADDR = 2, FD = 4, FD_OFFSET = 8, DMAH = 16, BUF = 32, NEWER = 64 };

static struct ibv_mr *(*reg_mr_ex)(struct ibv_pd *, struct mr_init_attr *);
static void *(*alloc_buf)(struct ibv_pd *, size_t, struct ibv_buf **);
static void (*free_buf)(struct ibv_buf *);
static int (*export_fd)(struct ibv_buf *); /* NULL before v65 */
static struct ibv_mr *(*reg_buf_mr)(struct ibv_pd *, struct ibv_buf *, void *, size_t, int);

static struct vt_end e;

static void open_end(void)
{
	struct vt_param par = VT_PARAM;

	*(void **)&reg_mr_ex = dlvsym(RTLD_DEFAULT, "ibv_reg_mr_ex", "IBVERBS_1.15");
	*(void **)&alloc_buf = dlvsym(RTLD_DEFAULT, "ibv_alloc_buf", "IBVERBS_1.17");
	*(void **)&free_buf = dlvsym(RTLD_DEFAULT, "ibv_free_buf", "IBVERBS_1.17");
	*(void **)&reg_buf_mr = dlvsym(RTLD_DEFAULT, "ibv_reg_buf_mr", "IBVERBS_1.17");
	*(void **)&export_fd = dlvsym(RTLD_DEFAULT, "ibv_export_buf_dmabuf_fd", "IBVERBS_1.18");
	if (!reg_mr_ex || !alloc_buf || !free_buf || !reg_buf_mr)
		vt_skip("this library is older than v64");
	vt_end_open(&e, &par);
	vt_connect(&e, &e.self);
}

/* A WRITE from the end's buffer to that key's memory at addr. */
static void write_to(uint64_t addr, uint32_t rkey, uint32_t seed)
{
	struct ibv_sge sge = vt_sge(&e, 0, 100);
	struct ibv_send_wr wr = { .wr_id = seed,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED,
				  .wr.rdma = { addr, rkey } };

	vt_pattern(e.buf, 100, seed);
	CHECK_OK(vt_post(&e, &wr));
	WANT_OK(e.scq, seed);
}

static void registration(void)
{
	struct mr_init_attr attr;
	struct ibv_mr *mr;
	uint8_t *mem;

	open_end();
	mem = vt_map(8192);
	attr = (struct mr_init_attr){
		.length = 4096, .access = VT_ACCESS_ALL, .comp_mask = ADDR, .addr = mem
	};
	mr = CHECK_PTR(reg_mr_ex(e.pd, &attr));
	CHECK(mr->addr == mem && mr->length == 4096 && mr->pd == e.pd && mr->context == e.ctx);
	write_to((uintptr_t)mem, mr->rkey, 1);
	CHECK_PATTERN(mem, 100, 1);
	CHECK_OK(ibv_dereg_mr(mr));
	attr.comp_mask = ADDR | IOVA;
	attr.iova = 0x100000;
	mr = CHECK_PTR(reg_mr_ex(e.pd, &attr));
	write_to(0x100000, mr->rkey, 2);
	CHECK_PATTERN(mem, 100, 2);
	CHECK_OK(ibv_dereg_mr(mr));
#define REFUSED(mask, err)                                                                         \
	do {                                                                                       \
		attr.comp_mask = (mask);                                                           \
		CHECK_NULL(reg_mr_ex(e.pd, &attr), err);                                           \
	} while (0)
	attr.fd = -1;
	REFUSED(0, EINVAL);
	REFUSED(IOVA, EINVAL);
	REFUSED(FD | IOVA, EINVAL);
	REFUSED(FD | FD_OFFSET, EINVAL);
	REFUSED(FD | FD_OFFSET | IOVA | ADDR, EINVAL);
	REFUSED(ADDR | FD_OFFSET, EINVAL);
	REFUSED(ADDR | DMAH, EOPNOTSUPP);
	REFUSED(ADDR | NEWER, EOPNOTSUPP);
#undef REFUSED
	vt_end_close(&e);
}

static void buffers(void)
{
	static const size_t sizes[] = { 1, 4096, 5000, 100000, 1 << 20 };
	struct ibv_pd *other;
	struct ibv_buf *buf;
	struct ibv_mr *mr;
	uint8_t *mem;

	open_end();
	other = CHECK_PTR(ibv_alloc_pd(e.ctx));
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		size_t n = sizes[i];

		mem = CHECK_PTR(alloc_buf(e.pd, n, &buf));
		CHECK(!((uintptr_t)mem % 4096));
		memset(mem, 0x11, n);
		CHECK_NULL(reg_buf_mr(e.pd, buf, mem, n + 1, 0), EINVAL);
		CHECK_NULL(reg_buf_mr(e.pd, buf, mem - 1, n, 0), EINVAL);
		CHECK_NULL(reg_buf_mr(e.pd, buf, mem + 1, n, 0), EINVAL);
		CHECK_NULL(reg_buf_mr(other, buf, mem, n, 0), EINVAL);
		mr = CHECK_PTR(reg_buf_mr(e.pd, buf, mem, n, VT_ACCESS_ALL));
		CHECK(mr->addr == mem && mr->length == n);
		if (n >= 100) {
			write_to((uintptr_t)mem + n - 100, mr->rkey, i);
			CHECK_PATTERN(mem + n - 100, 100, i);
		}
		CHECK_OK(ibv_dereg_mr(mr));
		if (export_fd) {
			errno = 0;
			CHECK(export_fd(buf) == -1 && errno == ENODATA);
		}
		free_buf(buf);
	}
	CHECK_OK(ibv_dealloc_pd(other));
	vt_end_close(&e);
}

VT_MAIN({ "registration", registration, 0 }, { "buffers", buffers, 0 })
