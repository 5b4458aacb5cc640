/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/* test: netns */
/* all: docker */
/* night: system-san */
/* timeout: 600 */
/*
 * verbs_lazy.c - large private memory that is registered as it is, and replaced while it is used: contents in
 * both directions, and a program that deregisters, unmaps, forks and ends in the middle of it.
 */
#include "tests/rig/verbs/vt_mem.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/common/dir.h"

#define PAGE   4096u
#define MB     ((size_t)1 << 20)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define DEPTH  16u

/* Memory of each side: touched, private, and registered. */
struct side {
	uint64_t *p;
	struct ibv_mr *mr;
};

/* Without UFFDIO_MOVE nobody can tell which pages are pinned: all is replaced as it is registered. */
static void need_move(void)
{
	struct utsname u;
	unsigned major = 0, minor = 0;

	CHECK_EQ(uname(&u), 0);
	CHECK_EQ(sscanf(u.release, "%u.%u", &major, &minor), 2);
	if (major < 6 || (major == 6 && minor < 8))
		vt_skip("Linux %u.%u has no UFFDIO_MOVE", major, minor);
}

static unsigned threads(void)
{
	return dir_count("/proc/self/task");
}

/* A word of each page, and one in its middle, tell the place and the pass. */
static uint64_t mark_of(size_t word, uint64_t pass)
{
	return word * 0x9e3779b97f4a7c15ull ^ pass << 56;
}

static void mark(uint64_t *p, size_t len, uint64_t pass)
{
	for (size_t i = 0; i < len / 8; i += 255)
		p[i] = mark_of(i, pass);
}

static void check_marks(const uint64_t *p, size_t len, uint64_t pass)
{
	for (size_t i = 0; i < len / 8; i += 255)
		if (p[i] != mark_of(i, pass))
			FAIL("pass %llu: byte %zu is not what was written",
			     (unsigned long long)pass, i * 8);
}

static void side_open(struct side *s, struct vt_end *e, size_t len)
{
	s->p = vt_map(len);
	memset(s->p, 1, len);
	s->mr = vt_reg(e, s->p, len, ACCESS);
	CHECK_EQ(vt_mem_shared(s->p, len), 0); /* nothing was replaced for that */
}

static void post(struct vt_end *a, enum ibv_wr_opcode op, const struct side *mine,
		 const struct side *theirs, uint64_t id, size_t off, size_t len)
{
	struct ibv_sge sge = { (uintptr_t)mine->p + off, (uint32_t)len, mine->mr->lkey };
	struct ibv_send_wr wr = vt_wr(op, id, &sge, IBV_SEND_SIGNALED);

	wr.wr.rdma.remote_addr = (uintptr_t)theirs->p + off;
	wr.wr.rdma.rkey = theirs->mr->rkey;
	CHECK_EQ(vt_post(a, &wr), 0);
}

/* All of it, in messages of `msg` bytes. */
static void pass(struct vt_end *a, enum ibv_wr_opcode op, const struct side *mine,
		 const struct side *theirs, size_t len, size_t msg)
{
	size_t posted = 0, done = 0;

	while (done < len) {
		for (; posted < len && posted - done < DEPTH * msg; posted += msg)
			post(a, op, mine, theirs, posted, posted,
			     len - posted < msg ? len - posted : msg);
		WANT_OK(a->scq, done);
		done += msg;
	}
}

static struct vt_param param(void)
{
	struct vt_param par = VT_PARAM;

	par.access = ACCESS;
	par.len = 4096;
	return par;
}

/* What is replaced within WAIT_FOR()'s time on a slow machine: of 1 GB it is not. */
static size_t much(void)
{
	uint64_t left = (uint64_t)sysconf(_SC_AVPHYS_PAGES) * PAGE;

	return left > 4ull << 30 ? 256 * MB : 32 * MB;
}

/* WRITEs and READs over much memory, before, while and after it is replaced. */
static void lazy_stream(void)
{
	struct vt_param par = param();
	size_t len = much();
	struct vt_end a, b;
	struct side mine, theirs;
	uint64_t n = 1;

	need_move();
	vt_pair(&a, &b, &par);
	side_open(&mine, &a, len);
	side_open(&theirs, &b, len);
	for (unsigned i = 0; i < 2; i++) {
		mark(mine.p, len, n);
		pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, MB);
		check_marks(theirs.p, len, n++);
		mark(theirs.p, len, n);
		pass(&a, IBV_WR_RDMA_READ, &mine, &theirs, len, 256 * 1024 + 24);
		check_marks(mine.p, len, n++);
	}
	WAIT_FOR(vt_mem_shared(mine.p, len) == len && vt_mem_shared(theirs.p, len) == len);
	mark(mine.p, len, n);
	pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, MB);
	check_marks(theirs.p, len, n);
	CHECK_OK(ibv_dereg_mr(mine.mr));
	CHECK_EQ(vt_mem_shared(mine.p, len), len); /* they stay */
	CHECK_OK(ibv_dereg_mr(theirs.mr));
	check_marks(mine.p, len, n);
	check_marks(theirs.p, len, n);
	vt_pair_close(&a, &b);
}

/* Short messages make a part hot as well; and ends that are no whole pages stay the program's. */
static void lazy_short_messages(void)
{
	struct vt_param par = param();
	size_t len = 4 * MB;
	struct vt_end a, b;
	struct side mine, theirs;
	uint8_t *all;

	need_move();
	vt_pair(&a, &b, &par);
	all = vt_map(len + 2 * PAGE);
	memset(all, 1, len + 2 * PAGE);
	theirs.p = (uint64_t *)(all + 1000);
	theirs.mr = vt_reg(&b, theirs.p, len, ACCESS);
	side_open(&mine, &a, len);
	mark(mine.p, len, 1);
	for (unsigned i = 0; i < 100; i++)
		for (size_t off = i * 8; off < len; off += MB) {
			post(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, off, off, 8);
			WANT_OK(a.scq, off);
		}
	WAIT_FOR(vt_mem_shared(all, len + 2 * PAGE) == len - PAGE);
	CHECK_EQ(vt_mem_shared(all, PAGE), 0);
	CHECK_EQ(vt_mem_shared(all + len, PAGE), 0);
	pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, 64 * 1024);
	check_marks(theirs.p, len, 1);
	CHECK_EQ(all[999], 1);
	CHECK_EQ(all[1000 + len], 1);
	CHECK_OK(ibv_dereg_mr(mine.mr));
	CHECK_OK(ibv_dereg_mr(theirs.mr));
	check_marks(theirs.p, len, 1);
	vt_pair_close(&a, &b);
}

/* MRs over the same memory: one that was registered before, one while it is being replaced. */
static void lazy_overlap(void)
{
	struct vt_param par = param();
	size_t len = 8 * MB;
	struct vt_end a, b;
	struct side mine, theirs, other;

	need_move();
	vt_pair(&a, &b, &par);
	side_open(&mine, &a, len);
	side_open(&theirs, &b, len);
	other.p = theirs.p + 3 * MB / 8;
	other.mr = vt_reg(&b, other.p, 3 * MB, ACCESS);
	mark(mine.p, len, 1);
	for (unsigned i = 0; i < 4; i++) /* what is used again and again is replaced */
		pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, MB);
	WAIT_FOR(vt_mem_shared(theirs.p, len) == len);
	for (unsigned i = 0; i < 3; i++) { /* it claims what is replaced */
		mark(mine.p, 3 * MB, 2);
		pass(&a, IBV_WR_RDMA_WRITE, &mine, &other, 3 * MB, MB);
		check_marks(other.p, 3 * MB, 2);
	}
	CHECK_OK(ibv_dereg_mr(theirs.mr));
	pass(&a, IBV_WR_RDMA_READ, &mine, &other, 3 * MB, MB);
	check_marks(mine.p, 3 * MB, 2);
	theirs.mr = vt_reg(&b, theirs.p, len, ACCESS);
	pass(&a, IBV_WR_RDMA_READ, &mine, &theirs, len, MB);
	CHECK_EQ(memcmp(mine.p, theirs.p, len), 0);
	CHECK_OK(ibv_dereg_mr(other.mr));
	CHECK_OK(ibv_dereg_mr(theirs.mr));
	CHECK_EQ(vt_mem_shared(theirs.p, len), len);
	CHECK_EQ(memcmp(mine.p, theirs.p, len), 0);
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
}

/* Deregistered in the middle of WRITEs, at whatever moment: none comes after it. */
static void lazy_dereg_in_the_middle(void)
{
	struct vt_param par = param();
	size_t len = 4 * MB;
	struct vt_end a, b;
	struct side mine, theirs;
	uint32_t rnd = 77;

	need_move();
	par.timeout = 10;
	vt_pair(&a, &b, &par);
	side_open(&mine, &a, len);
	memset(mine.p, 0x77, len);
	for (unsigned round = 0; round < 60; round++) {
		uint64_t until;
		bool failed;

		side_open(&theirs, &b, len);
		until = vt_now() + vt_rand(&rnd) % 60 * 1000000;
		do /* up to 60 ms, in which parts of it are replaced */
			pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, MB);
		while (vt_now() < until);
		for (unsigned i = 0; i < DEPTH; i++)
			post(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, i, i % 4 * MB, MB);
		if (round % 2)
			WANT_OK(a.scq, 0);
		CHECK_OK(ibv_dereg_mr(theirs.mr));
		memset(theirs.p, 0x11, len);
		failed = vt_want_cut(a.scq, round % 2, DEPTH);
		CHECK(vt_all(theirs.p, len, 0x11));
		CHECK_EQ(munmap(theirs.p, len), 0);
		if (failed) {
			WANT_QP_EVENT(&b, IBV_EVENT_QP_ACCESS_ERR);
			vt_pair_reset(&a, &b);
		}
	}
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
}

/*
 * Memory that is unmapped, and mapped anew for something else, while it is registered and hot. What is mapped
 * there then is private memory, a shared mapping, or read-only; none may be touched by who replaces pages.
 */
static void lazy_unmap(void)
{
	struct vt_param par = param();
	size_t len = 8 * MB;
	struct vt_end a, b;
	struct side mine, theirs;
	uint32_t rnd = 99;

	need_move();
	vt_pair(&a, &b, &par);
	side_open(&mine, &a, len);
	for (unsigned round = 0; round < 60; round++) {
		size_t at = (1 + vt_rand(&rnd) % 6) * MB;
		int kind = (int)(round % 3);
		uint8_t *p;

		side_open(&theirs, &b, len);
		pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, MB);
		usleep(18000 +
		       vt_rand(&rnd) % 8000); /* about when it is replaced; no wait for it */
		p = (uint8_t *)theirs.p + at;
		CHECK_EQ(munmap(p, MB), 0);
		p = mmap(p, MB, PROT_READ | PROT_WRITE,
			 (kind == 1 ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS |
				 MAP_FIXED_NOREPLACE,
			 -1, 0);
		if (p == MAP_FAILED) { /* replaced in between: an orphan */
			CHECK_EQ(errno, EEXIST);
			CHECK_OK(ibv_dereg_mr(theirs.mr));
			CHECK_EQ(munmap(theirs.p, len), 0);
			continue;
		}
		memset(p, 0x5a, MB);
		if (kind == 2)
			CHECK_EQ(mprotect(p, MB, PROT_READ), 0);
		usleep(vt_rand(&rnd) % 4000);
		CHECK(vt_all(p, MB, 0x5a));
		CHECK_OK(ibv_dereg_mr(theirs.mr));
		CHECK(vt_all(p, MB, 0x5a));
		if (kind == 1)
			CHECK_EQ(vt_mem_shared(p, MB), MB);
		CHECK_EQ(munmap(theirs.p, len), 0);
	}
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
}

/* Children see the content of their moment, whatever was replaced by then. */
static void lazy_fork(void)
{
	struct vt_param par = param();
	size_t len = 16 * MB;
	struct vt_end a, b;
	struct side mine, theirs;

	need_move();
	vt_pair(&a, &b, &par);
	side_open(&mine, &a, len);
	side_open(&theirs, &b, len);
	for (uint64_t n = 1; n <= 12; n++) {
		pid_t pid;

		mark(mine.p, len, n);
		pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, len, MB);
		pid = fork();
		CHECK(pid >= 0);
		if (!pid) {
			check_marks(theirs.p, len, n);
			mark(theirs.p, len, 99);
			check_marks(theirs.p, len, 99);
			_exit(threads() == 1 ? 0 : 3);
		}
		pass(&a, IBV_WR_RDMA_READ, &mine, &theirs, len, MB);
		CHECK_EQ(vt_child_status(pid), 0);
		check_marks(theirs.p, len, n);
	}
	CHECK_OK(ibv_dereg_mr(mine.mr));
	CHECK_OK(ibv_dereg_mr(theirs.mr));
	check_marks(theirs.p, len, 12);
	vt_pair_close(&a, &b);
}

/* Stores of the program and WRITEs of the peer to other words of the same pages, while they are replaced. */
static atomic_bool stop;
static uint64_t *stored;

static void *store(void *arg)
{
	size_t len = *(size_t *)arg;
	uint64_t n = 0;

	for (; !stop; n++)
		for (size_t i = 7; i < len / 8; i += PAGE / 8) {
			if (stored[i] != n)
				FAIL("a store to byte %zu was lost", i * 8);
			stored[i] = n + 1;
		}
	return NULL;
}

static void lazy_stores(void)
{
	struct vt_param par = param();
	size_t len = 16 * MB, msg = 2048;
	struct vt_end a, b;
	struct side mine, theirs;
	pthread_t t;

	need_move();
	vt_pair(&a, &b, &par);
	side_open(&mine, &a, len);
	side_open(&theirs, &b, len);
	stored = theirs.p;
	for (size_t i = 7; i < len / 8; i += PAGE / 8)
		stored[i] = 0;
	CHECK_EQ(pthread_create(&t, NULL, store, &len), 0);
	for (unsigned k = 0; k < 20; k++) /* the upper half of each page */
		for (size_t off = PAGE / 2; off < len; off += PAGE) {
			post(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, off, off, msg);
			WANT_OK(a.scq, off);
		}
	WAIT_FOR(vt_mem_shared(theirs.p, len) == len);
	stop = true;
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK_OK(ibv_dereg_mr(theirs.mr));
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
}

/* The thread is there while a device has large memory, and no more. */
static void lazy_thread_ends(void)
{
	struct vt_param par = param();
	struct vt_end a, b;
	struct side mine;

	need_move();
	vt_pair(&a, &b, &par);
	CHECK_EQ(threads(), 1);
	side_open(&mine, &a, 4 * MB);
	CHECK_EQ(threads(), 2);
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
	WAIT_FOR(threads() == 1); /* the kernel takes a moment after the join */
}

static void lazy_off(void)
{
	struct vt_param par = param();
	struct vt_end a, b;
	struct side mine;

	CHECK_EQ(setenv("FFL_REPLACE", "now", 1), 0);
	vt_pair(&a, &b, &par);
	mine.p = vt_map(4 * MB);
	mine.mr = vt_reg(&a, mine.p, 4 * MB, ACCESS);
	CHECK_EQ(threads(), 1);
	CHECK_EQ(vt_mem_shared(mine.p, 4 * MB), 4 * MB);
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
}

/* Remote atomics have to be atomic from the first one on. */
static void lazy_not_for_atomics(void)
{
	struct vt_param par = param();
	struct vt_end a, b;
	struct side mine;

	vt_pair(&a, &b, &par);
	mine.p = vt_map(4 * MB);
	mine.mr = vt_reg(&a, mine.p, 4 * MB, VT_ACCESS_ALL);
	CHECK_EQ(vt_mem_shared(mine.p, 4 * MB), 4 * MB);
	CHECK_OK(ibv_dereg_mr(mine.mr));
	vt_pair_close(&a, &b);
}

static void *leave(void *arg)
{
	(void)arg;
	return NULL;
}

/* A process ends with its last thread, though nobody called exit(); and by exit() in the middle of it. */
static void lazy_process_ends(void)
{
	need_move();
	for (unsigned how = 0; how < 3; how++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			struct vt_param par = param();
			struct vt_end a, b;
			struct side mine, theirs;
			pthread_t t;

			vt_pair(&a, &b, &par);
			side_open(&mine, &a, 16 * MB);
			side_open(&theirs, &b, 16 * MB);
			pass(&a, IBV_WR_RDMA_WRITE, &mine, &theirs, 16 * MB, MB);
			if (how == 1)
				exit(0);
			if (how == 2) {
				usleep(22000);
				exit(0);
			}
			CHECK_EQ(pthread_create(&t, NULL, leave, NULL), 0);
			pthread_detach(t);
			pthread_exit(NULL);
		}
		CHECK_EQ(vt_child_status(pid), 0);
	}
}

VT_MAIN({ "lazy_stream", lazy_stream, 200 }, { "lazy_short_messages", lazy_short_messages, 0 },
	{ "lazy_overlap", lazy_overlap, 0 },
	{ "lazy_dereg_in_the_middle", lazy_dereg_in_the_middle, 0 },
	{ "lazy_unmap", lazy_unmap, 0 }, { "lazy_fork", lazy_fork, 0 },
	{ "lazy_stores", lazy_stores, 0 }, { "lazy_thread_ends", lazy_thread_ends, 0 },
	{ "lazy_off", lazy_off, 0 }, { "lazy_not_for_atomics", lazy_not_for_atomics, 0 },
	{ "lazy_process_ends", lazy_process_ends, 0 })
