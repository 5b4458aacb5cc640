/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/*
 * verbs_dmabuf.c - MRs on dma-bufs of plain memory, from /dev/udmabuf. Skipped (77) where the
 * kernel or the container does not have it, after trying what must be refused everywhere: what is
 * none.
 */
/* test: netns */
/* all: docker system-san */

#include "tests/rig/verbs/vt.h"

#include <fcntl.h>
#include <linux/udmabuf.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE   4096u
#define PAGES  16u
#define LEN    (PAGES * PAGE)
#define ACCESS VT_ACCESS_ALL

/* A memfd that can become a udmabuf, mapped at *map. */
static int make_memfd(uint8_t **map)
{
	int fd = memfd_create("dmabuf", MFD_ALLOW_SEALING);

	CHECK(fd >= 0 && !ftruncate(fd, LEN) && !fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK));
	*map = mmap(NULL, LEN, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(*map != MAP_FAILED);
	return fd;
}

static int make_dmabuf(int memfd)
{
	struct udmabuf_create c = { .memfd = (uint32_t)memfd, .offset = 0, .size = LEN };
	int dev = open("/dev/udmabuf", O_RDWR | O_CLOEXEC), fd;

	CHECK(dev >= 0);
	fd = ioctl(dev, UDMABUF_CREATE, &c);
	CHECK(fd >= 0);
	close(dev);
	return fd;
}

static void dmabuf_refused(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	uint8_t *map;
	int memfd = make_memfd(&map), pipes[2];

	CHECK(!pipe(pipes));
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, -1, ACCESS), EOPNOTSUPP); /* a probe */
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, 1000000, ACCESS), EBADF);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, memfd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, pipes[0], ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, ctx->async_fd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, open("/dev/null", O_RDWR), ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, open("/", O_PATH), ACCESS), EINVAL);
	/* the session has survived it, and the descriptors are the program's as before */
	CHECK(fcntl(memfd, F_GETFD) >= 0);
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(pd, map, LEN, ACCESS))));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void dmabuf_bad(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	uint8_t *map;
	int fd = make_dmabuf(make_memfd(&map));

	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, 0, 0, fd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, LEN + 1, 0, fd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, PAGE, LEN, 0, fd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, UINT64_MAX - PAGE + 1, LEN, 0, fd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 8, PAGE, 0, fd, ACCESS), EINVAL); /* other page offsets */
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, UINT64_MAX - 4095, fd, ACCESS), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, IBV_ACCESS_REMOTE_WRITE), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, ACCESS | IBV_ACCESS_MW_BIND), EINVAL);
	CHECK_NULL(ibv_reg_dmabuf_mr(pd, 0, PAGE, 0, fd, ACCESS | IBV_ACCESS_ON_DEMAND), EINVAL);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void dmabuf_transfers(void)
{
	struct vt_param par = VT_PARAM;
	uint64_t iova = 0x7000064;
	uint32_t n = 3 * PAGE;
	struct vt_end a, b;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .send_flags = IBV_SEND_SIGNALED };
	struct ibv_mr *mr;
	uint8_t *map;
	int memfd = make_memfd(&map), fd = make_dmabuf(memfd);

	vt_pair(&a, &b, &par);
	mr = CHECK_PTR(ibv_reg_dmabuf_mr(b.pd, PAGE + 100, n, iova, fd,
					 ACCESS | IBV_ACCESS_RELAXED_ORDERING));
	CHECK(mr->addr == (void *)(uintptr_t)(PAGE + 100) && mr->length == n && mr->pd == b.pd);
	close(fd); /* the MR keeps the buffer */
	close(memfd);
	vt_pattern(a.buf, n, 1);
	sge = vt_sge(&a, 0, n);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = iova;
	wr.wr.rdma.rkey = mr->rkey;
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 0);
	CHECK_PATTERN(map + PAGE + 100, n, 1);
	CHECK(vt_all(map, PAGE + 100, 0));
	CHECK(vt_all(map + PAGE + 100 + n, LEN - PAGE - 100 - n, 0));
	memset(a.buf, 0, n);
	wr.opcode = IBV_WR_RDMA_READ;
	CHECK_OK(vt_post(&a, &wr));
	WANT_OK(a.scq, 0);
	CHECK_PATTERN(a.buf, n, 1);
	vt_recv(&a, 1, 0, n);
	sge = (struct ibv_sge){ .addr = iova + 10, .length = 1000, .lkey = mr->lkey };
	wr.opcode = IBV_WR_SEND;
	CHECK_OK(vt_post(&b, &wr));
	WANT_OK(b.scq, 0);
	WANT_OK(a.rcq, 1);
	CHECK(!memcmp(a.buf, map + PAGE + 110, 1000));
	sge = vt_sge(&a, 0, 8);
	wr.opcode = IBV_WR_RDMA_WRITE;
	wr.wr.rdma.remote_addr = iova + n - 7;
	CHECK_OK(vt_post(&a, &wr));
	WANT(a.scq, 0, IBV_WC_REM_ACCESS_ERR);
	WANT_QP_EVENT(&b, IBV_EVENT_QP_ACCESS_ERR);
	CHECK_EQ(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_OK(ibv_dereg_mr(mr));
	vt_pair_close(&a, &b);
}

static const struct vt_case cases[] = {
	{ "dmabuf_refused", dmabuf_refused, 0 },
	{ "dmabuf_bad", dmabuf_bad, 0 },
	{ "dmabuf_transfers", dmabuf_transfers, 0 },
};

int main(int argc, char **argv)
{
	bool have = !access("/dev/udmabuf", R_OK | W_OK);
	int ret = vt_main(argc, argv, cases, have ? ARRAY_SIZE(cases) : 1);

	if (ret || have)
		return ret;
	printf("no /dev/udmabuf here: only what must be refused was tried\n");
	return 77;
}
