/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/raw.c tests/lib/vt.c -lpthread */
/* timeout: 120 */
/*
 * memory.c - memory that a client would have the router pay for: pages that it never touched, holes that it
 * punches where others write, files that it cuts off. What the router makes of a client's file is seen in the
 * number of the file's blocks.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/raw.h"

#define MB     (1ull << 20)
#define PUNCH  (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define LENGTH (8 * MB)

static uint64_t bytes_of(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return (uint64_t)st.st_blocks * 512;
}

static uint32_t grow(struct raw *r, uint64_t size)
{
	struct ff_shadow_grow_resp resp;

	RAW_CALL(r, SHADOW_GROW, (&(struct ff_shadow_grow_req){ .size = size }), &resp);
	CHECK(raw_at(r, resp.seg, 0));
	return resp.seg;
}

static int reg(struct raw *r, uint32_t pd, const struct ff_mr_run *run, struct ff_reg_mr_resp *mr)
{
	struct ff_reg_mr_req req = {
		.addr = run->va,
		.length = run->len,
		.iova = run->va,
		.pd = pd,
		.access = VT_ACCESS_ALL,
	};

	return raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(*run), 1, mr,
			     sizeof(*mr));
}

/* Registering what was never touched makes no page of it. */
static void untouched(void)
{
	struct ff_mr_run run = { .va = 1ull << 40, .kind = FF_RUN_SHADOW };
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 4096);
	for (unsigned i = 0; i < 4; i++) {
		run.len = 256 * MB;
		run.seg = grow(&r, run.len);
		CHECK_EQ(reg(&r, q.pd, &run, &mr), -EFAULT);
		*(volatile char *)raw_at(&r, run.seg, 0) = 1; /* the first page only */
		run.len = 4096;
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
		run.len = 256 * MB;
		run.va += 1ull << 32;
		CHECK(reg(&r, q.pd, &run, &mr) != RAW_CLOSED);
		CHECK_EQ(bytes_of(r.seg[run.seg].fd), 4096);
	}
	victim_check();
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* WRITEs of another session, all over the hostile one's MR: what it gets is its end, not pages. */
static void writes_into(struct raw *bad, const struct raw_qp *bq, uint64_t va, uint32_t rkey,
			int fd)
{
	struct raw_qp q;
	struct raw r;

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 65536);
	raw_qp_connect_to(&r, &q, bq->qp_num);
	raw_qp_connect_to(bad, (struct raw_qp *)bq, q.qp_num);
	for (uint64_t i = 0; i < 64; i++) {
		struct ff_sqe *e = raw_sqe(&q);
		struct ff_cqe *c;

		raw_write_wr(&q, e, i);
		e->remote_addr = va + i * (LENGTH / 64);
		e->rkey = rkey;
		raw_publish(&r, &q);
		WAIT_FOR((c = raw_cqe(&q)));
		if (c->status != IBV_WC_SUCCESS)
			break;
	}
	raw_want_closed(bad);
	CHECK(bytes_of(fd) == 0);
	raw_close(&r);
}

static void punched(void)
{
	struct ff_mr_run run = { .va = 1ull << 40, .len = LENGTH, .kind = FF_RUN_SHADOW };
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;
	int fd;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 4096);
	run.seg = grow(&r, LENGTH);
	fd = r.seg[run.seg].fd;
	memset(raw_at(&r, run.seg, 0), 1, LENGTH);
	CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
	CHECK(!fallocate(fd, PUNCH, 0, LENGTH));
	fd = dup(fd);
	writes_into(&r, &q, run.va, mr.rkey, fd);
	victim_check();
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

static void own_file(bool cut)
{
	int fd = memfd_create("hostile", 0);
	struct ff_mr_run run = { .len = LENGTH, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;
	char *p;

	victim_start();
	CHECK(fd >= 0 && !ftruncate(fd, LENGTH));
	p = mmap(NULL, LENGTH, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	memset(p, 1, LENGTH);
	run.va = (uintptr_t)p;
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 4096);
	CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
	if (!mr.zero_copy)
		vt_skip("the router does not map shared memory here");
	CHECK(!(cut ? ftruncate(fd, 0) : fallocate(fd, PUNCH, 0, LENGTH)));
	writes_into(&r, &q, run.va, mr.rkey, fd);
	victim_check();
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

static void own_file_punched(void)
{
	own_file(false);
}

static void own_file_cut(void)
{
	own_file(true);
}

static const struct vt_case cases[] = {
	{ "memory_untouched", untouched, 0 },
	{ "memory_punched", punched, 0 },
	{ "memory_own_file_punched", own_file_punched, 0 },
	{ "memory_own_file_cut", own_file_cut, 0 },
};

int main(int argc, char **argv)
{
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
