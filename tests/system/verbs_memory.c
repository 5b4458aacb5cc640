/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_memory.c - memory regions over every kind of memory that a program has, with its threads,
 * its neighbours on the same pages, and its forks (which are in verbs_fork.c where they are the
 * point). What is checked for each kind: all operations move the right bytes, one-sided ones are
 * seen at the application's address without a call, nothing beside the region changes, contents
 * outlive the registration, and the memory stays ordinary memory afterwards.
 */
#include "tests/rig/verbs/vt_mem.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ipc.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

/* Shadow memory from the start: an extension, which other libraries do not have. */
void *ibv_malloc(struct ibv_pd *pd, size_t size) __attribute__((weak));
void ibv_free(void *p) __attribute__((weak));

/* ---- kinds of memory ------------------------------------------------------------------------ */

static void heap_large(void)
{
	uint8_t *p = CHECK_PTR(malloc(3000000));

	vt_mem_use(p, 3000000, 0, 3000000);
	vt_mem_use(p, 3000000, 777, 2000001);
	free(p);
}

static void heap_small(void)
{
	static const size_t lens[] = { 1, 7, 8, 100, 4095, 4096, 5000, 12345 };

	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		uint8_t *before = CHECK_PTR(malloc(40)), *p = CHECK_PTR(malloc(lens[i])),
			*after = CHECK_PTR(malloc(40));

		memset(before, 1, 40);
		memset(after, 2, 40);
		vt_mem_use(p, lens[i], 0, lens[i]);
		CHECK(vt_all(before, 40, 1) && vt_all(after, 40, 2));
		free(after);
		free(p);
		free(before);
	}
}

static void heap_aligned(void)
{
	void *p;

	CHECK_EQ(posix_memalign(&p, PAGE, 16 * PAGE), 0);
	vt_mem_use(p, 16 * PAGE, 0, 16 * PAGE);
	free(p);
	CHECK_EQ(posix_memalign(&p, 2 << 20, 4 << 20), 0);
	vt_mem_use(p, 4 << 20, 0, 4 << 20);
	free(p);
}

static void mmap_private(void)
{
	uint8_t *p = vt_map(300 * PAGE);

	vt_mem_use(p, 300 * PAGE, 0, 300 * PAGE);
	vt_mem_use(p, 300 * PAGE, 1, 300 * PAGE - 2);
	vt_mem_use(p, 300 * PAGE, PAGE, PAGE);
	vt_mem_use(p, 300 * PAGE, PAGE - 1, PAGE + 2);
	vt_mem_use(p, 300 * PAGE, 5 * PAGE + 100, 200);
	CHECK(munmap(p, 300 * PAGE) == 0);
}

/* Never touched before: reads as zeros, and takes what is written. */
static void mmap_untouched(void)
{
	struct vt_param par = VT_PARAM;
	size_t len = 500 * PAGE;
	uint8_t *p = vt_map(len);
	struct vt_end a, b;
	struct ibv_mr *mr;

	par.len = len;
	vt_pair(&a, &b, &par);
	mr = vt_reg(&b, p, len, VT_ACCESS_ALL);
	memset(a.buf, 0xff, len);
	vt_aim(&a, p, mr);
	vt_rdma(&a, IBV_WR_RDMA_READ, 1, 0, len, 0, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	CHECK(vt_all(a.buf, len, 0));
	CHECK(vt_all(p, len, 0));
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK(vt_all(p, len, 0));
	CHECK(munmap(p, len) == 0);
	vt_pair_close(&a, &b);
}

static uint8_t data_small[100] = { 1 };
static uint8_t data_large[50000] = { 1 };
static uint8_t bss_small[100];
static uint8_t bss_large[500000];
static const uint8_t rodata[20000] = "read-only data of the program";

static void static_data(void)
{
	vt_mem_use(data_small, sizeof(data_small), 3, 90);
	vt_mem_use(data_large, sizeof(data_large), 0, sizeof(data_large));
	vt_mem_use(bss_small, sizeof(bss_small), 0, sizeof(bss_small));
	vt_mem_use(bss_large, sizeof(bss_large), 5, sizeof(bss_large) - 9);
}

static void read_only_data(void)
{
	vt_mem_use_read_only(rodata, sizeof(rodata));
	vt_mem_use_read_only("a string literal", 17);
	vt_mem_use_read_only((const void *)vt_mem_use_read_only, 256); /* the program's text */
}

static void mprotected(void)
{
	uint8_t *p = vt_map(10 * PAGE);

	vt_pattern(p, 10 * PAGE, 7);
	CHECK(mprotect(p, 10 * PAGE, PROT_READ) == 0);
	vt_mem_use_read_only(p + 10, 10 * PAGE - 20);
	CHECK_PATTERN(p, 10 * PAGE, 7);
	CHECK(mprotect(p, 10 * PAGE, PROT_READ | PROT_WRITE) == 0);
	vt_mem_use(p, 10 * PAGE, 0, 10 * PAGE);
	CHECK(munmap(p, 10 * PAGE) == 0);
}

static void stack(void)
{
	uint8_t large[200000], small[64];

	vt_mem_use(large, sizeof(large), 11, sizeof(large) - 30);
	vt_mem_use(small, sizeof(small), 8, 40);
}

static void *stack_of_thread(void *arg)
{
	stack();
	return arg;
}

static void thread_stack(void)
{
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, stack_of_thread, NULL), 0);
	CHECK_EQ(pthread_join(t, NULL), 0);
}

static void shared_anonymous(void)
{
	uint8_t *p =
		mmap(NULL, 64 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	CHECK(p != MAP_FAILED);
	vt_mem_use(p, 64 * PAGE, 0, 64 * PAGE);
	vt_mem_use(p, 64 * PAGE, 100, 60 * PAGE);
	CHECK(munmap(p, 64 * PAGE) == 0);
}

static void memfd(void)
{
	int fd = memfd_create("vt", MFD_CLOEXEC);
	uint8_t *p, *alias;

	CHECK(fd >= 0 && ftruncate(fd, 40 * PAGE) == 0);
	p = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	alias = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && alias != MAP_FAILED);
	vt_mem_use(p, 40 * PAGE, 0, 40 * PAGE);
	vt_mem_use_alias(p, alias, 40 * PAGE);
	vt_mem_use_alias(p + 4096, alias + 4096, 10 * PAGE);
	CHECK(munmap(p, 40 * PAGE) == 0);
	p = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED);
	memset(alias, 0x99, 40 * PAGE);
	vt_mem_use(p, 40 * PAGE, 30, 30 * PAGE);
	CHECK(vt_all(alias, 40 * PAGE, 0x99)); /* what was private stayed private */
	CHECK(munmap(p, 40 * PAGE) == 0 && munmap(alias, 40 * PAGE) == 0);
	close(fd);
}

static void file_mapping(void)
{
	char path[] = "/tmp/vt-XXXXXX";
	int fd = mkstemp(path);
	uint8_t *p, *alias;

	CHECK(fd >= 0);
	unlink(path);
	CHECK(ftruncate(fd, 20 * PAGE) == 0);
	p = mmap(NULL, 20 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	alias = mmap(NULL, 20 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED && alias != MAP_FAILED);
	vt_mem_use(p, 20 * PAGE, 0, 20 * PAGE);
	vt_mem_use_alias(p, alias, 20 * PAGE);
	CHECK(munmap(p, 20 * PAGE) == 0);
	vt_pattern(alias, 20 * PAGE, 5);
	p = mmap(NULL, 20 * PAGE, PROT_READ, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	vt_mem_use_read_only(p, 20 * PAGE);
	CHECK(munmap(p, 20 * PAGE) == 0);
	p = mmap(NULL, 20 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
	CHECK(p != MAP_FAILED);
	vt_mem_use(p, 20 * PAGE, 0, 20 * PAGE);
	CHECK_PATTERN(alias, 20 * PAGE, 5);
	CHECK(munmap(p, 20 * PAGE) == 0 && munmap(alias, 20 * PAGE) == 0);
	close(fd);
}

static void sysv_shm(void)
{
	int id = shmget(IPC_PRIVATE, 30 * PAGE, IPC_CREAT | 0600);
	uint8_t *p, *alias;

	if (id < 0)
		vt_skip("shmget: %s", strerror(errno));
	p = shmat(id, NULL, 0);
	alias = shmat(id, NULL, 0);
	CHECK_EQ(shmctl(id, IPC_RMID, NULL), 0);
	CHECK(p != (void *)-1 && alias != (void *)-1);
	vt_mem_use(p, 30 * PAGE, 0, 30 * PAGE);
	vt_mem_use_alias(p, alias, 30 * PAGE);
	CHECK(shmdt(p) == 0 && shmdt(alias) == 0);
}

static void transparent_hugepages(void)
{
	size_t len = 8 << 20;
	uint8_t *p = vt_map(len);

	madvise(p, len, MADV_HUGEPAGE);
	vt_mem_use(p, len, 0, len);
	vt_mem_use(p, len, PAGE + 1, len / 2);
	CHECK(munmap(p, len) == 0);
}

/* One region over neighbouring mappings of different kinds. */
static void mixed_mappings(void)
{
	uint8_t *p = vt_map(50 * PAGE);
	int fd = memfd_create("vt", MFD_CLOEXEC);
	const int rw = PROT_READ | PROT_WRITE;

	CHECK(fd >= 0 && ftruncate(fd, 10 * PAGE) == 0);
	CHECK(mmap(p + 10 * PAGE, 10 * PAGE, rw, MAP_SHARED | MAP_FIXED, fd, 0) != MAP_FAILED);
	CHECK(mmap(p + 20 * PAGE, 10 * PAGE, rw, MAP_PRIVATE | MAP_FIXED, fd, 0) != MAP_FAILED);
	CHECK(mmap(p + 30 * PAGE, PAGE, rw, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	      MAP_FAILED);
	vt_mem_use(p, 50 * PAGE, 0, 50 * PAGE);
	vt_mem_use(p, 50 * PAGE, 9 * PAGE + 9, 22 * PAGE);
	CHECK(munmap(p, 50 * PAGE) == 0);
	close(fd);
}

static void ibv_malloc_memory(void)
{
	static const size_t lens[] = { 1, 100, 4096, 100000, 3 << 20 };
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_mr *mr;
	void *many[64] = { NULL };
	uint32_t rnd = 12;

	if (!ibv_malloc)
		vt_skip("this libibverbs has no ibv_malloc");
	ctx = vt_open_device();
	pd = CHECK_PTR(ibv_alloc_pd(ctx));
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		uint8_t *p = CHECK_PTR(ibv_malloc(pd, lens[i]));

		mr = CHECK_PTR(ibv_reg_mr(pd, p, lens[i], VT_ACCESS_ALL));
		vt_mem_use(p, lens[i], 0, lens[i]); /* in other sessions as well */
		CHECK_OK(ibv_dereg_mr(mr));
		vt_mem_use(p, lens[i], 0, lens[i]);
		ibv_free(p);
	}
	ibv_free(NULL);
	CHECK_NULL(ibv_malloc(pd, SIZE_MAX - 10), ENOMEM);
	for (unsigned i = 0; i < 20000; i++) {
		unsigned k = vt_rand(&rnd) % ARRAY_SIZE(many);
		size_t len = 64 + vt_rand(&rnd) % (i % 50 ? 3000 : 200000);

		if (many[k])
			CHECK_PATTERN(many[k], 64, k);
		ibv_free(many[k]);
		many[k] = CHECK_PTR(ibv_malloc(pd, len));
		CHECK_EQ((uintptr_t)many[k] % 16, 0);
		memset(many[k], (int)i, len);
		vt_pattern(many[k], 64, k);
	}
	for (unsigned k = 0; k < ARRAY_SIZE(many); k++)
		ibv_free(many[k]);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

/* ---- registrations that share pages --------------------------------------------------------- */

static void same_pages_twice(void)
{
	struct vt_param par = VT_PARAM;
	size_t len = 20 * PAGE;
	uint8_t *p = vt_map(len);
	struct vt_end a, b;
	struct ibv_mr *mr[10];

	par.len = len;
	vt_pair(&a, &b, &par);
	vt_pattern(p, len, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(mr); i++)
		mr[i] = vt_reg(&b, p, len, VT_ACCESS_ALL);
	CHECK_PATTERN(p, len, 1);
	for (unsigned i = 0; i < ARRAY_SIZE(mr); i++) {
		vt_pattern(a.buf, len, 100 + i);
		vt_aim(&a, p, mr[i]);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, i);
		CHECK_PATTERN(p, len, 100 + i);
		CHECK_OK(ibv_dereg_mr(mr[i]));
		CHECK_PATTERN(p, len, 100 + i);
	}
	CHECK(munmap(p, len) == 0);
	vt_pair_close(&a, &b);
}

/* Overlapping regions in random order of birth and death, always with the right contents. */
static void overlapping(void)
{
	enum { LIVE = 16 };
	struct vt_param par = VT_PARAM;
	size_t len = 24 * PAGE;
	uint8_t *p = vt_map(len), *shadow = CHECK_PTR(calloc(1, len));
	struct {
		struct ibv_mr *mr;
		size_t off, len;
	} live[LIVE] = { { 0 } };
	uint32_t rnd = 5;
	struct vt_end a, b;

	par.len = len;
	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 3000; round++) {
		unsigned i = vt_rand(&rnd) % LIVE;
		size_t n, at;

		if (live[i].mr && vt_rand(&rnd) % 2) {
			CHECK_OK(ibv_dereg_mr(live[i].mr));
			live[i].mr = NULL;
		} else if (!live[i].mr) {
			live[i].off = vt_rand(&rnd) % (len - 1);
			live[i].len = 1 + vt_rand(&rnd) % (len - live[i].off);
			live[i].mr = vt_reg(&b, p + live[i].off, live[i].len, VT_ACCESS_ALL);
		}
		/* the program writes anywhere, the peer through one of the regions */
		at = vt_rand(&rnd) % (len - 64);
		vt_pattern(p + at, 64, round);
		vt_pattern(shadow + at, 64, round);
		if (live[i].mr) {
			at = vt_rand(&rnd) % live[i].len;
			n = 1 + vt_rand(&rnd) % (live[i].len - at);
			vt_pattern(a.buf, n, round + 7);
			vt_pattern(shadow + live[i].off + at, n, round + 7);
			vt_aim(&a, p + live[i].off, live[i].mr);
			vt_rdma(&a, IBV_WR_RDMA_WRITE, round, 0, n, at, IBV_SEND_SIGNALED);
			WANT_OK(a.scq, round);
		}
		if (memcmp(p, shadow, len))
			FAIL("contents differ after round %u", round);
	}
	for (unsigned i = 0; i < LIVE; i++)
		if (live[i].mr)
			CHECK_OK(ibv_dereg_mr(live[i].mr));
	CHECK(!memcmp(p, shadow, len));
	CHECK(munmap(p, len) == 0);
	free(shadow);
	vt_pair_close(&a, &b);
}

/* After the last deregistration: all that one does with anonymous memory. */
static void ordinary_again(void)
{
	struct vt_param par = VT_PARAM;
	size_t len = 64 * PAGE;
	struct vt_end e;

	vt_end_open(&e, &par);
	for (unsigned round = 0; round < 50; round++) {
		uint8_t *p = vt_map(len), *q;

		vt_pattern(p, len, round);
		CHECK_OK(ibv_dereg_mr(vt_reg(&e, p, len, VT_ACCESS_ALL)));
		CHECK_PATTERN(p, len, round);
		CHECK(madvise(p + 4 * PAGE, 8 * PAGE, MADV_DONTNEED) == 0);
		CHECK(vt_all(p + 4 * PAGE, 8 * PAGE, 0));
		CHECK(mprotect(p + 20 * PAGE, PAGE, PROT_READ) == 0);
		CHECK(mprotect(p + 20 * PAGE, PAGE, PROT_READ | PROT_WRITE) == 0);
		vt_pattern(p, len, round + 1);
		q = mremap(p, len, 2 * len, MREMAP_MAYMOVE);
		CHECK(q != MAP_FAILED);
		CHECK_PATTERN(q, len, round + 1);
		CHECK(vt_all(q + len, len, 0));
		CHECK_OK(ibv_dereg_mr(vt_reg(&e, q, 2 * len, VT_ACCESS_ALL)));
		CHECK_PATTERN(q, len, round + 1);
		CHECK(munmap(q + len / 2, len) == 0);
		CHECK(munmap(q, len / 2) == 0 && munmap(q + len + len / 2, len / 2) == 0);
	}
	vt_end_close(&e);
}

/*
 * What a shared mapping cannot have is asked for of some pages of an MR, before, while and after it is written to: the
 * program sees what was written, and so does who reads.
 */
static void changed_afterwards(void)
{
	static const int advice[] = { MADV_WIPEONFORK, MADV_DONTFORK };
	struct vt_param par = VT_PARAM;
	const size_t len = 64 * PAGE;
	struct vt_end a, b;

	par.len = len;
	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 60; round++) {
		uint8_t *p = vt_map(len);
		struct ibv_mr *mr = vt_reg(&b, p, len, VT_ACCESS_ALL);
		size_t from = round % 30 * PAGE, num = (1 + round % 17) * PAGE;
		int how = advice[round % ARRAY_SIZE(advice)];

		vt_aim(&a, p, mr);
		vt_pattern(a.buf, len, round);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, len, 0, IBV_SEND_SIGNALED);
		CHECK(madvise(p + from, num, how) == 0);
		WANT_OK(a.scq, 1);
		CHECK_PATTERN(p, len, round);
		vt_pattern(a.buf, len, round + 100);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 2, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 2);
		CHECK_PATTERN(p, len, round + 100);
		vt_pattern(p, len, round + 200);
		vt_rdma(&a, IBV_WR_RDMA_READ, 3, 0, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 3);
		CHECK_PATTERN(a.buf, len, round + 200);
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK_PATTERN(p, len, round + 200);
		CHECK(madvise(p, len, MADV_FREE) == 0); /* some are shared still */
		vt_pattern(p, len, round);
		CHECK_PATTERN(p, len, round);
		CHECK(munmap(p, len) == 0);
	}
	vt_pair_close(&a, &b);
}

VT_MAIN({ "memory_heap_large", heap_large, 0 }, { "memory_heap_small", heap_small, 0 },
	{ "memory_heap_aligned", heap_aligned, 0 }, { "memory_mmap_private", mmap_private, 0 },
	{ "memory_mmap_untouched", mmap_untouched, 0 }, { "memory_static_data", static_data, 0 },
	{ "memory_read_only_data", read_only_data, 0 }, { "memory_mprotected", mprotected, 0 },
	{ "memory_stack", stack, 0 }, { "memory_thread_stack", thread_stack, 0 },
	{ "memory_shared_anonymous", shared_anonymous, 0 }, { "memory_memfd", memfd, 0 },
	{ "memory_file_mapping", file_mapping, 0 }, { "memory_sysv_shm", sysv_shm, 0 },
	{ "memory_transparent_hugepages", transparent_hugepages, 0 },
	{ "memory_mixed_mappings", mixed_mappings, 0 },
	{ "memory_ibv_malloc", ibv_malloc_memory, 0 },
	{ "memory_same_pages_twice", same_pages_twice, 0 },
	{ "memory_overlapping", overlapping, 0 }, { "memory_ordinary_again", ordinary_again, 0 },
	{ "memory_changed_afterwards", changed_afterwards, 0 })
