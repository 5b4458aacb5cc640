/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* test: hostile */
/* timeout: 300 */
/*
 * memory.c - memory that a client would have the router pay for: pages that it never touched, holes that it
 * memory.c - memory that a client would have the router pay for: pages that it never touched, holes that it
 * punches where others write, files that it cuts off, rings that it makes again and again, mappings that it changes
 * all the time. What the router makes of a file is seen in the number of the file's blocks. A container whose
 * sessions lose memory is copied for a while (ffr/mem/stall.c), so what needs the router to map it comes first.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define MB     (1ull << 20)
#define PUNCH  (FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE)
#define LENGTH (8 * MB)

static uint64_t bytes_of(int fd)
{
	struct stat st;

	CHECK(!fstat(fd, &st));
	return (uint64_t)st.st_blocks * 512;
}

/* Shadow pages of an attacker: all of the file, and where the last region is mapped here. */
static int pages_fd = -1;
static char *pages;

/* A new region, mapped, and untouched: where it is in the file. */
static uint64_t grow(struct raw *r, uint64_t size)
{
	uint64_t off;

	if (pages_fd < 0) {
		CHECK_EQ(raw_watch_pages(r), 0);
		pages_fd = r->last_fd;
	}
	CHECK_EQ(raw_place_pages(r, size, &off), 0);
	pages = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, pages_fd, (off_t)off);
	CHECK(pages != MAP_FAILED);
	return off;
}

/* Before the next attacker. */
static void grow_end(void)
{
	close(pages_fd);
	pages_fd = -1;
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

/* A victim, and an attacker beside it with a QP. */
static void begin(struct raw *r, struct raw_qp *q)
{
	victim_start();
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, 4096);
}

/* Registering what was never touched makes no page of it. */
static void untouched(void)
{
	struct ff_mr_run run = { .va = 1ull << 40, .kind = FF_RUN_SHADOW };
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;

	begin(&r, &q);
	for (unsigned i = 0; i < 4; i++) {
		run.len = 256 * MB;
		run.off = grow(&r, run.len);
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
		CHECK_EQ(mr.zero_copy, 0);   /* copied, like all that the router does not have */
		*(volatile char *)pages = 1; /* the first page only */
		run.len = 4096;
		CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
		run.len = 256 * MB;
		run.va += 1ull << 32;
		CHECK(reg(&r, q.pd, &run, &mr) != RAW_CLOSED);
		CHECK_EQ(bytes_of(pages_fd), (i + 1) * 4096);
	}
	grow_end();
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

	begin(&r, &q);
	run.off = grow(&r, LENGTH);
	fd = pages_fd;
	memset(pages, 1, LENGTH);
	CHECK_EQ(reg(&r, q.pd, &run, &mr), 0);
	CHECK(!fallocate(fd, PUNCH, (off_t)run.off, LENGTH));
	writes_into(&r, &q, run.va, mr.rkey, fd);
	grow_end();
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

/* Memory that one may write to, but whose pages do not come: beyond the end of its file. */
static uint8_t *pages_that_do_not_come(size_t len)
{
	int fd = memfd_create("hostile", 0);
	void *p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);

	CHECK(fd >= 0 && p != MAP_FAILED);
	close(fd);
	return p;
}

static uint32_t reg_process(struct raw *r, uint32_t pd, const uint8_t *p, size_t len)
{
	struct ff_reg_mr_resp mr;

	RAW_CALL(r, REG_MR,
		 (&(struct ff_reg_mr_req){ .addr = (uintptr_t)p,
					   .length = len,
					   .iova = (uintptr_t)p,
					   .pd = pd,
					   .access = VT_ACCESS_ALL }),
		 &mr);
	return mr.lkey;
}

/* Many long WRITEs and READs of such memory at once: while they wait, the router has no buffers for them. */
static void calls(void)
{
	enum { QPS = 64, LEN = 65536 };
	static struct raw_qp q[QPS];
	uint8_t *bad = pages_that_do_not_come(LEN), *good = vt_map(LEN);
	struct raw r;

	victim_start();
	raw_open(&r);
	memset(good, 1, LEN);
	for (unsigned i = 0; i < QPS; i++) {
		struct ff_sqe *e;

		raw_qp_make(&r, &q[i], IBV_QPT_RC, 4096);
		raw_qp_connect(&r, &q[i]);
		e = raw_sqe(&q[i]);
		raw_write_wr(&q[i], e, i);
		if (i % 2)
			e->opcode = FF_OP_READ;
		e->sge[0] = (struct ff_sge){ (uintptr_t)good, LEN,
					     reg_process(&r, q[i].pd, good, LEN) };
		e->remote_addr = (uintptr_t)bad;
		e->rkey = reg_process(&r, q[i].pd, bad, LEN);
	}
	for (unsigned i = 0; i < QPS; i++)
		raw_publish(&r, &q[i]);
	for (unsigned i = 0; i < QPS; i++) {
		struct ff_cqe *c;

		WAIT_FOR((c = raw_cqe(&q[i])));
		CHECK(c->status != IBV_WC_SUCCESS);
	}
	victim_check();
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* DROP_RUNS of parts that are there and that are not, of this file and others. */
static void drop_anything(struct raw *r, uint64_t va, uint64_t off)
{
	struct ff_settle_pages_resp settled;
	struct ff_drop_runs_resp resp;
	struct stat st;

	CHECK(fstat(pages_fd, &st) == 0);
	for (unsigned i = 0; i < 2000; i++) {
		struct ff_drop_runs_req req = {
			.va = va + i % 7 * 4096,
			.len = i % 11 ? (uint64_t)(i % 5) << (i % 50 + 10) : UINT64_MAX - 4095,
			.off = off + i % 3 * 4096,
			.inode = st.st_ino + i % 13 / 12,
			.dev_major = major(st.st_dev),
			.dev_minor = minor(st.st_dev),
			.from = i % 17 ? 0 : i * 0x10001u,
			.check = i % 2,
		};

		CHECK(RAW_TRY(r, DROP_RUNS, &req, &resp) <= 0);
		RAW_CALL(r, SETTLE_PAGES, (&(struct ff_settle_pages_req){ 0 }), &settled);
	}
}

/*
 * MAP_MR without end, with pages that were never touched, over each other, of an MR that is gone: refused, no page
 * is made, and a neighbour is served meanwhile.
 */
static void mapped_later(void)
{
	struct ff_mr_run run = { .va = 1ull << 40, .len = LENGTH, .kind = FF_RUN_SHADOW };
	struct ff_reg_mr_req req = { .addr = run.va, .length = LENGTH, .iova = run.va };
	struct ff_watch_heat_resp watched;
	struct ff_dereg_mr_resp none;
	struct ff_map_mr_req map = { 0 };
	struct ff_map_mr_resp resp;
	struct ff_reg_mr_resp mr;
	struct raw_qp q;
	struct raw r;

	begin(&r, &q);
	RAW_CALL(&r, WATCH_HEAT, (&(struct ff_watch_heat_req){ 0 }), &watched);
	close(r.last_fd);
	run.off = grow(&r, LENGTH);
	req.pd = q.pd;
	req.access = VT_ACCESS_ALL;
	RAW_CALL(&r, REG_MR, &req, &mr);
	map.mr = mr.mr;
	for (unsigned i = 0; i < 2000; i++) {
		run.va = req.addr + i % 2 * 4096;
		run.len = LENGTH - i % 2 * 4096;
		CHECK(raw_call_tail(&r, FF_MSG_MAP_MR, &map, sizeof(map), &run, sizeof(run), 1,
				    &resp, sizeof(resp)) <= 0); /* not a reason to close */
	}
	CHECK_EQ(bytes_of(pages_fd), 0);
	memset(pages, 1, LENGTH);
	run.va = req.addr;
	run.len = 4096;
	for (unsigned i = 0; i < 2000; i++)
		CHECK(raw_call_tail(&r, FF_MSG_MAP_MR, &map, sizeof(map), &run, sizeof(run), 1,
				    &resp, sizeof(resp)) <= 0);
	drop_anything(&r, req.addr, run.off);
	RAW_CALL(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
	run.va += 4096;
	CHECK_EQ(raw_call_tail(&r, FF_MSG_MAP_MR, &map, sizeof(map), &run, sizeof(run), 1, &resp,
			       sizeof(resp)),
		 -EINVAL);
	grow_end();
	victim_check();
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* Large CQs, made and destroyed again and again: no page of them is made but those that the client touches. */
static void rings_again(void)
{
	enum { CQS = 64, SEGS = 16 };
	struct ff_create_cq_req req = { .cqe = 8100 }; /* 512 kB */
	static struct ff_create_cq_resp cq[CQS];
	struct ff_destroy_cq_resp none;
	bool seen[SEGS] = { false };
	uint64_t bytes = 0;
	struct raw_qp q;
	struct raw r;

	begin(&r, &q);
	for (unsigned round = 0; round < 4; round++) {
		for (unsigned i = 0; i < CQS; i++) {
			volatile char *p;

			RAW_CALL(&r, CREATE_CQ, &req, &cq[i]);
			CHECK(cq[i].ring.seg < SEGS);
			p = raw_at(&r, cq[i].ring.seg, cq[i].ring.ring_off);
			if (round == 1)
				*p = 1; /* one page, which stays in its segment */
			seen[cq[i].ring.seg] = true;
		}
		for (unsigned i = 0; i < CQS; i++)
			RAW_CALL(&r, DESTROY_CQ, (&(struct ff_destroy_cq_req){ .cq = cq[i].cq }),
				 &none);
	}
	for (unsigned i = 0; i < SEGS; i++) {
		if (!seen[i])
			continue;
		CHECK(raw_at(&r, i, 0));
		bytes += bytes_of(r.seg[i].fd);
	}
	if (bytes > MB / 2) /* the session's own, the QP's, and a page of each CQ */
		FAIL("%llu bytes", (unsigned long long)bytes);
	victim_check();
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

/* ---- memory that is tracked (ffr/mem/track.c) --------------------------------------------------------- */

#define ROUNDS 3000u

static int uffd_new(void)
{
	struct uffdio_api api = { .api = UFFD_API,
				  .features = UFFD_FEATURE_EVENT_UNMAP | UFFD_FEATURE_EVENT_REMAP };
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		vt_skip("no /dev/userfaultfd here");
	fd = ioctl(dev, _IO(0xAA, 0x00), O_CLOEXEC | O_NONBLOCK);
	close(dev);
	CHECK(fd >= 0 && !ioctl(fd, UFFDIO_API, &api));
	return fd;
}

static int track(struct raw *r, int fd)
{
	struct ff_track_req req = { 0 };
	struct ff_track_resp resp;

	return raw_call_fd(r, FF_MSG_TRACK, &req, sizeof(req), &fd, 1, &resp, sizeof(resp));
}

static int track_mr(struct raw *r, uint32_t pd, const void *p, uint64_t len,
		    struct ff_reg_mr_resp *mr)
{
	struct ff_reg_mr_req req = {
		.addr = (uintptr_t)p,
		.length = len,
		.iova = (uintptr_t)p,
		.pd = pd,
		.access = VT_ACCESS_ALL | FF_ACCESS_TRACK,
	};

	return RAW_TRY(r, REG_MR, &req, mr);
}

static _Atomic bool stop;

/* Events without end, of memory that is tracked and of other. */
static void *change_mappings(void *uffd)
{
	struct uffdio_register reg = { .mode = UFFDIO_REGISTER_MODE_WP };

	while (!atomic_load(&stop)) {
		char *p = vt_map(MB);

		reg.range.start = (uintptr_t)p;
		reg.range.len = MB;
		CHECK(!ioctl(*(int *)uffd, UFFDIO_REGISTER, &reg));
		for (unsigned i = 0; i < 32; i++)
			CHECK(!munmap(p + i * 8192, 4096));
		CHECK(!munmap(p, MB));
	}
	return NULL;
}

/* A WRITE to itself, which may have any result, or none so far. */
static void write_to(struct raw *r, struct raw_qp *q, const void *p, uint32_t rkey, uint64_t id)
{
	struct ff_sqe *e = raw_sqe(q);

	raw_write_wr(q, e, id);
	e->remote_addr = (uintptr_t)p;
	e->rkey = rkey;
	raw_publish(r, q);
}

/*
 * What is no userfaultfd; one that blocks; calls in any order with any numbers; parts that stay closed; a flood of
 * events: refused, or only the session itself waits. A neighbour is served.
 */
static void tracked(void)
{
	struct ff_track_pages_req part = { .op = FF_TRACK_CLOSE };
	struct ff_track_pages_resp none;
	struct ff_reg_mr_resp mr;
	struct ff_dereg_mr_resp gone;
	int uffd = uffd_new(), pair[2];
	char *p = vt_map(LENGTH);
	struct raw_qp q;
	struct raw r;
	pthread_t t;

	begin(&r, &q);
	raw_qp_connect(&r, &q);
	CHECK(!pipe2(pair, O_NONBLOCK));
	CHECK_EQ(track(&r, pair[0]), -EINVAL);
	CHECK_EQ(track_mr(&r, q.pd, p, LENGTH, &mr), -EINVAL);
	part = (struct ff_track_pages_req){ 4096, 4096, FF_TRACK_CLOSE, 0 };
	CHECK_EQ(RAW_TRY(&r, TRACK_PAGES, &part, &none), -EINVAL);
	CHECK_EQ(track(&r, uffd), 0);
	CHECK_EQ(track(&r, uffd), -EBUSY);
	for (unsigned i = 0; i < ROUNDS; i++) {
		part.va = i % 3 ? (uint64_t)i << 52 : UINT64_MAX - i;
		part.len = i % 5 ? (uint64_t)i << 51 : UINT64_MAX - i;
		part.op = i % 7;
		if (!RAW_TRY(&r, TRACK_PAGES, &part, &none) && part.op != FF_TRACK_OPEN &&
		    part.op != FF_TRACK_ALL)
			close(r.last_fd);
	}
	part.op = FF_TRACK_OPEN;
	CHECK_EQ(RAW_TRY(&r, TRACK_PAGES, &part, &none), 0);

	atomic_store(&stop, false);
	CHECK(!pthread_create(&t, NULL, change_mappings, &uffd));
	for (unsigned i = 0; i < ROUNDS; i++) {
		int ret = track_mr(&r, q.pd, p, LENGTH, &mr);

		CHECK(!ret || ret == -EAGAIN);
		if (ret)
			continue;
		CHECK_EQ(RAW_TRY(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &gone),
			 0);
	}
	victim_check();
	atomic_store(&stop, true);
	CHECK(!pthread_join(t, NULL));

	/* closed for good, while copies wait; then the userfaultfd blocks */
	WAIT_FOR(!track_mr(&r, q.pd, p, LENGTH, &mr));
	part = (struct ff_track_pages_req){ (uintptr_t)p, LENGTH, FF_TRACK_CLOSE, 0 };
	WAIT_FOR(!RAW_TRY(&r, TRACK_PAGES, &part, &none));
	close(r.last_fd);
	for (uint64_t i = 0; i < 16; i++)
		write_to(&r, &q, p + i * 4096, mr.rkey, i);
	CHECK(!fcntl(uffd, F_SETFL, 0));
	victim_check();
	raw_close(&r);
	close(uffd);
	victim_stop();
	raw_router_serves();
}

VT_MAIN({ "memory_untouched", untouched, 0 }, { "memory_punched", punched, 0 },
	{ "memory_mapped_later", mapped_later, 60 },
	{ "memory_own_file_punched", own_file_punched, 0 },
	{ "memory_own_file_cut", own_file_cut, 0 }, { "memory_calls", calls, 0 },
	{ "memory_rings_again", rings_again, 0 }, { "memory_tracked", tracked, 60 })
