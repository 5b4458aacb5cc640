/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_region.c - ffl's memory registration (mr.c, region.c, window.c, pool.c, fork.c, malloc.c):
 * what is replaced, what is not, and that no byte and no mapping of the program is lost.
 *
 * build: tests/unit/fake_shadow.c ffl/mr.c ffl/region.c ffl/window.c ffl/pool.c ffl/fork.c ffl/malloc.c
 */
#include <setjmp.h>
#include <stdarg.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "fake_shadow.h"
#include "ffl/freeflow.h"
#include "ffr/abi/ff_vma.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define PG     ((size_t)FF_PAGE)
#define RW     (PROT_READ | PROT_WRITE)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

extern char **environ;

static struct ffl_context *ctx;
static struct ibv_pd *pd;

static int setup(void **state)
{
	(void)state;
	memset(&fake_shadow, 0, sizeof(fake_shadow));
	ctx = fake_shadow_open(true);
	pd = fake_shadow_pd(ctx);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	if (fake_shadow.mrs || to_pd(pd)->refs)
		return -1;
	fake_shadow_close(ctx);
	free(pd);
	return 0;
}

static void need_uffd(void)
{
	if (!fake_shadow_has_uffd()) {
		print_message("no /dev/userfaultfd here\n");
		skip();
	}
}

static char *map(size_t len)
{
	char *p = mmap(NULL, len, RW, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	assert_ptr_not_equal(p, MAP_FAILED);
	return p;
}

static struct ff_vma vma_at(const void *p)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct ff_vma v = { 0 };

	assert_true(maps >= 0);
	assert_int_equal(ff_vma_query(maps, (uintptr_t)p, &v), 0);
	assert_true(v.start <= (uintptr_t)p);
	close(maps);
	return v;
}

static bool is_shared(const void *p)
{
	return vma_at(p).flags & FF_VMA_SHARED;
}

static unsigned count_vmas(void)
{
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	struct ff_vma v;
	unsigned n = 0;

	for (uint64_t pos = 0; !ff_vma_query(maps, pos, &v); pos = v.end)
		n++;
	close(maps);
	return n;
}

static struct ibv_mr *reg(void *p, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(pd, p, len, ACCESS);

	assert_non_null(mr);
	return mr;
}

static void dereg(struct ibv_mr *mr)
{
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* The bytes of a page have its number, and something of their place. */
static void fill(char *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		p[i] = (char)(i / PG * 7 + i + salt);
}

static void check_filled(const char *p, size_t len, unsigned salt)
{
	for (size_t i = 0; i < len; i++)
		if (p[i] != (char)(i / PG * 7 + i + salt))
			fail_msg("byte %zu of %zu differs", i, len);
}

/* ---- what is replaced ---------------------------------------------------------------------------- */

static void interior_is_replaced(void **state)
{
	char *p = map(10 * PG);
	struct ibv_mr *mr;
	unsigned before;

	(void)state;
	need_uffd();
	fill(p, 10 * PG, 1);
	mr = reg(p + 3 * PG, PG); /* warms the pool up, so that mappings can be counted */
	dereg(mr);
	before = count_vmas();
	mr = reg(p + 100, 8 * PG);
	assert_ptr_equal(mr->addr, p + 100);
	assert_int_equal(mr->length, 8 * PG);
	assert_ptr_equal(mr->context, &ctx->v.context);
	assert_ptr_equal(mr->pd, pd);
	assert_int_equal(to_pd(pd)->refs, 1);
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow.run[0].va, (uintptr_t)p + PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 7 * PG);
	check_filled(p, 10 * PG, 1);
	assert_false(is_shared(p));
	assert_true(is_shared(p + PG));
	assert_true(is_shared(p + 8 * PG - 1));
	assert_false(is_shared(p + 8 * PG));
	/* one-sided, both ways */
	*fake_shadow_at((uintptr_t)p + 5 * PG + 17) = 0x5a;
	assert_int_equal(p[5 * PG + 17], 0x5a);
	p[6 * PG] = 0x3c;
	assert_int_equal(*fake_shadow_at((uintptr_t)p + 6 * PG), 0x3c);
	dereg(mr);
	assert_false(is_shared(p + 5 * PG));
	assert_int_equal(p[5 * PG + 17], 0x5a);
	assert_int_equal(p[6 * PG], 0x3c);
	fill(p + 5 * PG, 2 * PG, 1 + 5 * 7 + 5 * PG);
	check_filled(p, 10 * PG, 1);
	assert_in_range(count_vmas(), before - 1, before + 1);
	munmap(p, 10 * PG);
}

static void less_than_a_page_is_left_alone(void **state)
{
	char *p = map(3 * PG);
	struct ibv_mr *mr;

	(void)state;
	mr = reg(p + 10, 100);
	assert_int_equal(fake_shadow.num_runs, 0);
	dereg(mr);
	mr = reg(p + 1, 2 * PG - 2);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_false(is_shared(p + PG));
	dereg(mr);
	munmap(p, 3 * PG);
}

static void untouched_memory_reads_zero(void **state)
{
	size_t len = 3 << 20;
	char *p = map(len);
	struct ibv_mr *mr;

	(void)state;
	need_uffd();
	mr = reg(p, len);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
	memset(p, 9, len);
	dereg(mr);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 9);
	/* pages of the pool that were used before must not show through */
	munmap(p, len);
	p = map(len);
	mr = reg(p, len);
	for (size_t i = 0; i < len; i++)
		assert_int_equal(p[i], 0);
	dereg(mr);
	munmap(p, len);
}

static void heap_bss_and_huge_pages(void **state)
{
	static char bss[20 * FF_PAGE];
	char *heap = malloc(100000), *huge = map(6 << 20);
	struct ibv_mr *mr[3];

	(void)state;
	need_uffd();
	madvise(huge, 6 << 20, MADV_HUGEPAGE);
	fill(bss, sizeof(bss), 2);
	fill(heap, 100000, 3);
	fill(huge, 6 << 20, 4);
	mr[0] = reg(bss, sizeof(bss));
	assert_in_range(fake_shadow_bytes(FF_RUN_SHADOW), 19 * PG, 20 * PG);
	mr[1] = reg(heap, 100000);
	assert_in_range(fake_shadow_bytes(FF_RUN_SHADOW), 23 * PG, 24 * PG);
	mr[2] = reg(huge + 12345, 5 << 20);
	assert_true(fake_shadow_bytes(FF_RUN_SHADOW) >= (5 << 20) - 2 * PG);
	free(malloc(200000));
	for (int i = 0; i < 3; i++)
		dereg(mr[i]);
	check_filled(bss, sizeof(bss), 2);
	check_filled(heap, 100000, 3);
	check_filled(huge, 6 << 20, 4);
	free(heap);
	munmap(huge, 6 << 20);
}

static void beyond_the_stash(void **state)
{
	size_t len = 70 << 20; /* more than region.c's STASH_MAX */
	char *p = map(len), *q = map(4 * PG);
	struct ibv_mr *mr, *small;

	(void)state;
	need_uffd();
	for (size_t i = 0; i < len; i += 512)
		*(uint64_t *)(p + i) = i;
	fill(q, 4 * PG, 5);
	mr = reg(p, len);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), len);
	small = reg(q, 4 * PG);
	dereg(mr);
	for (size_t i = 0; i < len; i += 512)
		assert_int_equal(*(uint64_t *)(p + i), i);
	assert_false(is_shared(p));
	dereg(small);
	check_filled(q, 4 * PG, 5);
	munmap(p, len);
	munmap(q, 4 * PG);
}

/* ---- overlaps ---------------------------------------------------------------------------------------- */

static void overlapping_mrs(void **state)
{
	char *p = map(16 * PG);
	struct ibv_mr *a, *b, *c;
	uint8_t *host;

	(void)state;
	need_uffd();
	fill(p, 16 * PG, 6);
	a = reg(p + 2 * PG, 8 * PG);
	host = fake_shadow_at((uintptr_t)p + 7 * PG);
	b = reg(p + 6 * PG, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	assert_ptr_equal(fake_shadow_at((uintptr_t)p + 7 * PG), host);
	c = reg(p + 100,
		15 * PG); /* its interior holds both; its last page is only partly its own */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 14 * PG);
	assert_ptr_equal(fake_shadow_at((uintptr_t)p + 7 * PG), host);
	dereg(a);
	assert_true(is_shared(p + 3 * PG)); /* c's */
	dereg(c);
	assert_false(is_shared(p + 3 * PG));
	assert_false(is_shared(p + 5 * PG));
	assert_true(is_shared(p + 6 * PG));
	assert_true(is_shared(p + 13 * PG));
	assert_false(is_shared(p + 14 * PG));
	check_filled(p, 16 * PG, 6);
	*host = 1;
	assert_int_equal(p[7 * PG], 1);
	dereg(b);
	assert_false(is_shared(p + 7 * PG));
	assert_int_equal(p[7 * PG], 1);
	munmap(p, 16 * PG);
}

static void edge_page_of_a_replaced_neighbour(void **state)
{
	char *p = map(4 * PG);
	struct ibv_mr *a, *b;

	(void)state;
	need_uffd();
	fill(p, 4 * PG, 7);
	a = reg(p, 4 * PG);
	b = reg(p + PG + 8, 16); /* inside a page that is shadow already */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), PG);
	dereg(a);
	assert_true(is_shared(p + PG));
	assert_false(is_shared(p));
	assert_false(is_shared(p + 2 * PG));
	*fake_shadow_at((uintptr_t)p + PG + 8) = 0x77;
	assert_int_equal(p[PG + 8], 0x77);
	dereg(b);
	assert_false(is_shared(p + PG));
	assert_int_equal(p[PG + 8], 0x77);
	munmap(p, 4 * PG);
}

static void pages_of_another_context_are_not_claimed(void **state)
{
	struct ffl_context *other = fake_shadow_open(true);
	struct ibv_pd *other_pd = fake_shadow_pd(other);
	char *p = map(8 * PG);
	struct ibv_mr *a, *b;

	(void)state;
	need_uffd();
	fill(p, 8 * PG, 8);
	a = reg(p + 2 * PG, 2 * PG);
	b = ibv_reg_mr(other_pd, p, 8 * PG, ACCESS);
	assert_non_null(b);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 6 * PG);
	assert_null(fake_shadow_at((uintptr_t)p + 2 * PG));
	assert_null(fake_shadow_at((uintptr_t)p + 4 * PG - 1));
	dereg(a);
	assert_false(is_shared(p + 2 * PG));
	check_filled(p, 8 * PG, 8);
	/* the other one is closed with its MR alive: the pages come back all the same */
	fake_shadow_close(other);
	fake_shadow.mrs--;
	free(container_of_(b, struct ffl_mr, ibv)->run);
	free(b);
	free(other_pd);
	assert_false(is_shared(p));
	check_filled(p, 8 * PG, 8);
	munmap(p, 8 * PG);
}

static void reregistered(void **state)
{
	char *p = map(8 * PG);
	struct ibv_mr *mr;
	uint32_t rkey;

	(void)state;
	need_uffd();
	fill(p, 8 * PG, 9);
	mr = reg(p, 4 * PG);
	rkey = mr->rkey;
	assert_int_equal(
		ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p + 2 * PG, 4 * PG, 0), 0);
	assert_int_not_equal(mr->rkey, rkey);
	assert_ptr_equal(mr->addr, p + 2 * PG);
	assert_false(is_shared(p + PG));
	assert_true(is_shared(p + 2 * PG));
	assert_true(is_shared(p + 5 * PG));
	fake_shadow.fail[FF_MSG_REREG_MR] = -ENOSPC;
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, PG, 0),
			 IBV_REREG_MR_ERR_CMD);
	assert_int_equal(errno, ENOSPC);
	fake_shadow.fail[FF_MSG_REREG_MR] = 0;
	assert_false(is_shared(p));
	assert_true(is_shared(p + 2 * PG));
	assert_int_equal(ibv_rereg_mr(mr, 0, NULL, p, PG, 0), IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0,
				      IBV_ACCESS_REMOTE_WRITE),
			 IBV_REREG_MR_ERR_INPUT);
	assert_int_equal(errno, EINVAL);
	check_filled(p, 8 * PG, 9);
	dereg(mr);
	assert_false(is_shared(p + 2 * PG));
	munmap(p, 8 * PG);
}

/* ---- what is not replaced --------------------------------------------------------------------------- */

static void shared_mappings_are_named(void **state)
{
	char *p = mmap(NULL, 4 * PG, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int id = shmget(IPC_PRIVATE, 3 * PG, IPC_CREAT | 0600);
	char *q = shmat(id, NULL, 0);
	struct ibv_mr *mr;

	(void)state;
	shmctl(id, IPC_RMID, NULL);
	mr = reg(p + 10, 2 * PG); /* whole pages are named: the router checks bounds by the byte */
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow.run[0].kind, FF_RUN_SHARED);
	assert_int_equal(fake_shadow.run[0].va, (uintptr_t)p);
	assert_int_equal(fake_shadow.run[0].len, 3 * PG);
	dereg(mr);
	mr = reg(q, 3 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHARED), 3 * PG);
	dereg(mr);
	shmdt(q);
	munmap(p, 4 * PG);
}

static void *stack_thread(void *arg)
{
	char buf[20 * FF_PAGE];
	struct ibv_mr *mr;

	(void)arg;
	fill(buf, sizeof(buf), 10);
	mr = reg(buf, sizeof(buf));
	assert_int_equal(fake_shadow.num_runs, 0);
	dereg(mr);
	check_filled(buf, sizeof(buf), 10);
	return NULL;
}

static pthread_barrier_t barrier;
static char *others_stack;

static void *waiting_thread(void *arg)
{
	char buf[20 * FF_PAGE];

	(void)arg;
	fill(buf, sizeof(buf), 11);
	others_stack = buf;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	check_filled(buf, sizeof(buf), 11);
	return NULL;
}

static void stacks_are_left_alone(void **state)
{
	struct ibv_mr *mr;
	pthread_t t;

	(void)state;
	stack_thread(NULL);
	assert_int_equal(pthread_create(&t, NULL, stack_thread, NULL), 0);
	pthread_join(t, NULL);
	pthread_barrier_init(&barrier, NULL, 2);
	assert_int_equal(pthread_create(&t, NULL, waiting_thread, NULL), 0);
	pthread_barrier_wait(&barrier);
	mr = reg(others_stack, 20 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	pthread_barrier_wait(&barrier);
	pthread_join(t, NULL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A stack that nothing tells from other memory: the registering thread's own, as coroutines have. */
static void *coroutine(void *arg)
{
	char *low = (char *)__builtin_frame_address(0) - 256 * PG;
	struct ibv_mr *mr;

	(void)arg;
	mr = reg(low, 256 * PG + 8);
	assert_int_equal(fake_shadow.num_runs, 0);
	dereg(mr);
	mr = reg(low, 200 * PG); /* of the same mapping, but far from the frames */
	dereg(mr);
	return NULL;
}

static void stack_without_a_guard(void **state)
{
	size_t len = 1024 * PG;
	char *p = map(len);
	pthread_attr_t attr;
	pthread_t t;

	(void)state;
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, p, len), 0);
	assert_int_equal(pthread_create(&t, &attr, coroutine, NULL), 0);
	pthread_join(t, NULL);
	pthread_attr_destroy(&attr);
	munmap(p, len);
}

static void file_and_read_only_mappings(void **state)
{
	FILE *f = tmpfile();
	char *p, *ro = map(2 * PG);
	struct ibv_mr *mr;

	(void)state;
	assert_int_equal(ftruncate(fileno(f), 3 * PG), 0);
	p = mmap(NULL, 3 * PG, RW, MAP_PRIVATE, fileno(f), 0);
	memset(p, 1, 3 * PG);
	mr = reg(p, 3 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	dereg(mr);
	munmap(p, 3 * PG);
	fclose(f);

	mprotect(ro, 2 * PG, PROT_READ);
	assert_null(ibv_reg_mr(pd, ro, PG, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(pd, ro, PG, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.num_runs, 0);
	dereg(mr);
	mprotect(ro, 2 * PG, PROT_NONE);
	assert_null(ibv_reg_mr(pd, ro, PG, 0));
	assert_int_equal(errno, EFAULT);
	munmap(ro, 2 * PG);
}

static void bad_arguments(void **state)
{
	char *p = map(4 * PG);

	(void)state;
	assert_null(ibv_reg_mr(pd, p, 0, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(pd, p, SIZE_MAX, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(pd, (void *)(UINTPTR_MAX - 10), 5, ACCESS));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(pd, p, PG, IBV_ACCESS_REMOTE_WRITE));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(pd, p, PG, IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_REMOTE_READ));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(pd, p, PG, 1 << 15));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_reg_mr(pd, p, PG, ACCESS | IBV_ACCESS_ON_DEMAND));
	assert_int_equal(errno, EOPNOTSUPP);
	assert_null(ibv_reg_mr(pd, p, PG, ACCESS | IBV_ACCESS_MW_BIND));
	assert_int_equal(errno, EOPNOTSUPP);
	munmap(p + 2 * PG, PG);
	assert_null(ibv_reg_mr(pd, p, 4 * PG, ACCESS));
	assert_int_equal(errno, EFAULT);
	assert_false(is_shared(p)); /* nothing was replaced before the hole was found */
	assert_null(ibv_reg_mr(pd, p + PG, PG + 1, 0));
	assert_int_equal(errno, EFAULT);
	munmap(p, 4 * PG);
}

static void hints_are_masked(void **state)
{
	char *p = map(PG);
	struct ibv_mr *mr;

	(void)state;
	mr = ibv_reg_mr_iova2(pd, p, PG, 0x1234,
			      ACCESS | IBV_ACCESS_RELAXED_ORDERING | IBV_ACCESS_HUGETLB | 1u << 29);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.access, ACCESS);
	assert_int_equal(fake_shadow.reg.iova, 0x1234);
	dereg(mr);
	mr = ibv_reg_mr(pd, p, PG, ACCESS | IBV_ACCESS_ZERO_BASED);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.reg.iova, 0);
	assert_int_equal(fake_shadow.reg.addr, (uintptr_t)p);
	dereg(mr);
	munmap(p, PG);
}

/* ---- what the router refuses ------------------------------------------------------------------------- */

static void refused_mr_is_undone(void **state)
{
	char *p = map(4 * PG);

	(void)state;
	fill(p, 4 * PG, 12);
	fake_shadow.fail[FF_MSG_REG_MR] = -EDQUOT;
	assert_null(ibv_reg_mr(pd, p, 4 * PG, ACCESS));
	assert_int_equal(errno, EDQUOT);
	assert_int_equal(to_pd(pd)->refs, 0);
	fake_shadow.fail[FF_MSG_REG_MR] = 0;
	assert_false(is_shared(p));
	check_filled(p, 4 * PG, 12);
	munmap(p, 4 * PG);
}

static void without_shadow_memory(void **state)
{
	char *p = map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	fill(p, 4 * PG, 13);
	fake_shadow.fail[FF_MSG_SHADOW_GROW] = -ENOMEM;
	mr = reg(p, 4 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_false(is_shared(p));
	check_filled(p, 4 * PG, 13);
	dereg(mr);
	munmap(p, 4 * PG);
}

static void without_userfaultfd(void **state)
{
	struct ffl_context *plain;
	struct ibv_pd *plain_pd;
	char *p = map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	fake_shadow_close(ctx); /* the process has one userfaultfd, from the first context */
	plain = fake_shadow_open(false);
	plain_pd = fake_shadow_pd(plain);
	mr = ibv_reg_mr(plain_pd, p, 4 * PG, ACCESS);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.num_runs, 0);
	dereg(mr);
	fake_shadow_close(plain);
	free(plain_pd);
	ctx = fake_shadow_open(true);
	pd->context = &ctx->v.context;
	munmap(p, 4 * PG);
}

static void watched_by_another_userfaultfd(void **state)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r;
	char *p = map(8 * PG);
	struct ibv_mr *mr;
	int dev, fd;

	(void)state;
	need_uffd();
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	fd = ioctl(dev, _IO(0xAA, 0), O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	fill(p, 8 * PG, 14);
	r = (struct uffdio_register){ .range = { (uintptr_t)p + 4 * PG, 2 * PG },
				      .mode = UFFDIO_REGISTER_MODE_MISSING };
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &r), 0);
	mr = reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 6 * PG);
	assert_null(fake_shadow_at((uintptr_t)p + 4 * PG));
	check_filled(p, 8 * PG, 14);
	dereg(mr);
	check_filled(p, 8 * PG, 14);
	close(fd);
	close(dev);
	munmap(p, 8 * PG);
}

/* ---- what the program does behind our back ------------------------------------------------------ */

static void unmapped_while_registered(void **state)
{
	char *p = map(8 * PG), *q;
	struct ibv_mr *mr, *again;
	uint8_t *old;

	(void)state;
	need_uffd();
	fill(p, 8 * PG, 15);
	mr = reg(p, 8 * PG);
	old = fake_shadow_at((uintptr_t)p + 3 * PG);
	/* the middle becomes something else */
	q = mmap(p + 2 * PG, 3 * PG, RW, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
	assert_ptr_equal(q, p + 2 * PG);
	fill(q, 3 * PG, 16);
	again = reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	/* what the first MR may still write to is not given to the second one */
	assert_ptr_not_equal(fake_shadow_at((uintptr_t)p + 3 * PG), old);
	memset(old, 0xee, PG);
	check_filled(q, 3 * PG, 16);
	dereg(mr);
	check_filled(q, 3 * PG, 16);
	assert_true(is_shared(p));
	munmap(p + 6 * PG, PG);
	dereg(again);
	check_filled(p, 2 * PG, 15);
	check_filled(q, 3 * PG, 16);
	assert_false(is_shared(p));
	assert_false(is_shared(q));
	assert_false(is_shared(p + 7 * PG));
	munmap(p, 8 * PG);
}

static void moved_while_registered(void **state)
{
	char *p = map(8 * PG), *to = map(8 * PG), *q = map(64 * PG);
	struct ibv_mr *mr;

	(void)state;
	need_uffd();
	fill(p, 8 * PG, 17);
	mr = reg(p, 8 * PG);
	/* as realloc() does */
	assert_ptr_equal(mremap(p, 8 * PG, 8 * PG, MREMAP_MAYMOVE | MREMAP_FIXED, to), to);
	check_filled(to, 8 * PG, 17);
	dereg(mr);
	check_filled(to, 8 * PG, 17);
	/* nobody else ever gets the pages that it has taken with it */
	mr = reg(q, 64 * PG);
	memset(q, 0, 64 * PG);
	check_filled(to, 8 * PG, 17);
	dereg(mr);
	check_filled(to, 8 * PG, 17);
	munmap(to, 8 * PG);
	munmap(q, 64 * PG);
}

static void protections_are_kept(void **state)
{
	char *p = map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	need_uffd();
	fill(p, 8 * PG, 18);
	mr = reg(p, 8 * PG);
	mprotect(p + 2 * PG, PG, PROT_READ);
	mprotect(p + 4 * PG, PG, PROT_NONE);
	dereg(mr);
	assert_int_equal(vma_at(p).flags, FF_VMA_READ | FF_VMA_WRITE);
	assert_int_equal(vma_at(p + 2 * PG).flags, FF_VMA_READ);
	assert_int_equal(vma_at(p + 3 * PG).flags, FF_VMA_READ | FF_VMA_WRITE);
	assert_int_equal(vma_at(p + 4 * PG).flags, 0);
	assert_int_equal(vma_at(p + 5 * PG).flags, FF_VMA_READ | FF_VMA_WRITE);
	mprotect(p, 8 * PG, RW);
	check_filled(p, 8 * PG, 18);
	/* the pool's pages came back writable */
	mr = reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 8 * PG);
	memset(p, 0, 8 * PG);
	dereg(mr);
	munmap(p, 8 * PG);
}

static void locked_memory_is_locked_again(void **state)
{
	unsigned char in_core[4];
	char *p = map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	fill(p, 4 * PG, 19);
	if (syscall(SYS_mlock, p, 4 * PG)) /* the function is a sanitizer's */
		skip();
	mr = reg(p, 4 * PG);
	check_filled(p, 4 * PG, 19);
	dereg(mr);
	check_filled(p, 4 * PG, 19);
	assert_int_equal(mincore(p, 4 * PG, in_core), 0);
	assert_int_equal(madvise(p, 4 * PG, MADV_DONTNEED), -1); /* refused: locked */
	assert_int_equal(errno, EINVAL);
	munmap(p, 4 * PG);
}

/* Where the descriptor is gone nothing can be swapped: the pages stay, and so does the content. */
static void userfaultfd_closed_by_the_program(void **state)
{
	char *p = map(4 * PG);
	struct ibv_mr *mr;
	int fds = 0;

	(void)state;
	need_uffd();
	fill(p, 4 * PG, 20);
	mr = reg(p, 4 * PG);
	for (int fd = 3; fd < 2048; fd++) {
		char link[64], name[64] = "";

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		if (readlink(link, name, sizeof(name) - 1) > 0 && strstr(name, "[userfaultfd]"))
			fds += !close(fd);
	}
	assert_int_equal(fds, 1);
	dereg(mr);
	assert_true(is_shared(p));
	check_filled(p, 4 * PG, 20);
	mr = reg(p, 4 * PG); /* still a region, and still good */
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 4 * PG);
	*fake_shadow_at((uintptr_t)p) = 1;
	assert_int_equal(p[0], 1);
	dereg(mr);
	munmap(p, 4 * PG);
}

/* ---- children -------------------------------------------------------------------------------------------- */

/* Runs fn in a forked child; its exit status. */
static int in_child(int (*fn)(void *), void *arg)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (!pid)
		_exit(fn(arg));
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int child_scribbles(void *arg)
{
	char *p = arg;

	alarm(10);
	for (size_t i = 0; i < 8 * PG; i++)
		if (p[i] != (char)(i / PG * 7 + i + 21))
			return 1;
	memset(p, 0x66, 8 * PG);
	/* a device opened by the child works like any other */
	ctx = fake_shadow_open(true);
	pd = fake_shadow_pd(ctx);
	p = map(4 * PG);
	fill(p, 4 * PG, 22);
	dereg(reg(p, 4 * PG));
	check_filled(p, 4 * PG, 22);
	return 0;
}

static int child_uses_parents_context(void *arg)
{
	struct ibv_mr *mr = arg;

	alarm(10);
	if (ibv_reg_mr(pd, mr->addr, PG, ACCESS) || errno != EIO)
		return 1;
	if (ibv_malloc(pd, 100) || errno != EIO)
		return 2;
	return ibv_dereg_mr(mr) ? 3 : 0;
}

static void forks(void **state)
{
	char *p = map(8 * PG);
	struct ibv_mr *mr;

	(void)state;
	fill(p, 8 * PG, 21);
	mr = reg(p + 10, 8 * PG - 20);
	assert_int_equal(in_child(child_scribbles, p), 0);
	check_filled(p, 8 * PG, 21);
	assert_int_equal(in_child(child_uses_parents_context, mr), 0);
	if (fake_shadow_at((uintptr_t)p + PG)) {
		*fake_shadow_at((uintptr_t)p + PG) = 5;
		assert_int_equal(p[PG], 5);
		p[PG] = (char)(7 + PG + 21);
	}
	dereg(mr);
	check_filled(p, 8 * PG, 21);
	assert_int_equal(in_child(child_scribbles, p), 0);
	check_filled(p, 8 * PG, 21);
	munmap(p, 8 * PG);
}

/* The child's memory is its own: what the parent does with the pages afterwards it does not see. */
static void child_outlives_the_mr(void **state)
{
	char *p = map(8 * PG);
	int go[2], status;
	struct ibv_mr *mr;
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(go), 0);
	fill(p, 8 * PG, 23);
	mr = reg(p, 8 * PG);
	pid = fork();
	if (!pid) {
		alarm(10);
		close(go[1]);
		if (read(go[0], &c, 1) != 0)
			_exit(1);
		for (size_t i = 0; i < 8 * PG; i++)
			if (p[i] != (char)(i / PG * 7 + i + 23))
				_exit(2);
		_exit(0);
	}
	memset(p, 0, 8 * PG);
	dereg(mr);
	mr = reg(p, 8 * PG);
	memset(p, 1, 8 * PG);
	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	dereg(mr);
	close(go[0]);
	munmap(p, 8 * PG);
}

/* Too much to copy at once: the pages are the child's as long as nobody writes, then too. */
static void large_regions_and_fork(void **state)
{
	size_t len = 40 << 20; /* more than fork.c's COPY_MAX */
	char *p = map(len), *q = map(len);
	int go[2], status;
	struct ibv_mr *mr;
	pid_t pid;
	char c;

	(void)state;
	assert_int_equal(pipe(go), 0);
	memset(p, 3, len);
	mr = reg(p, len);
	pid = fork();
	if (!pid) {
		alarm(20);
		close(go[1]);
		if (read(go[0], &c, 1) != 0)
			_exit(1);
		for (size_t i = 0; i < len; i += PG)
			if (p[i] != 3)
				_exit(2);
		_exit(0);
	}
	dereg(mr);
	mr = reg(q, len); /* must not be the same shadow pages */
	memset(q, 4, len);
	close(go[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
	dereg(mr);
	close(go[0]);
	munmap(p, len);
	munmap(q, len);
}

static void other_ways_of_making_a_process(void **state)
{
	char *const argv[] = { "true", NULL };
	char *p = map(4 * PG);
	struct ibv_mr *mr;
	int status;
	pid_t pid;

	(void)state;
	fill(p, 4 * PG, 24);
	mr = reg(p, 4 * PG);
	pid = vfork();
	if (!pid)
		_exit(0);
	waitpid(pid, &status, 0);
	assert_int_equal(posix_spawn(&pid, "/bin/true", NULL, NULL, argv, environ), 0);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	assert_int_equal(system("true"), 0);
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (!pid)
		syscall(SYS_exit_group, 0);
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
	check_filled(p, 4 * PG, 24);
	dereg(mr);
	check_filled(p, 4 * PG, 24);
	munmap(p, 4 * PG);
}

/* ---- ibv_malloc -------------------------------------------------------------------------------------------- */

static void malloc_is_shadow_from_the_start(void **state)
{
	char *big = ibv_malloc(pd, 100000), *small = ibv_malloc(pd, 300);
	struct ibv_mr *mr[2];

	(void)state;
	assert_non_null(big);
	assert_non_null(small);
	assert_int_equal((uintptr_t)big % PG, 0);
	assert_int_equal((uintptr_t)small % 64, 0);
	fill(big, 100000, 25);
	fill(small, 300, 26);
	mr[0] = reg(big + 5, 99990);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 25 * PG);
	*fake_shadow_at((uintptr_t)big + 99990) = 0x11;
	assert_int_equal(big[99990], 0x11);
	mr[1] = reg(small, 300);
	assert_true(fake_shadow_bytes(FF_RUN_SHADOW) > 0);
	*fake_shadow_at((uintptr_t)small + 7) = 0x22;
	assert_int_equal(small[7], 0x22);
	ibv_free(big); /* the MR still has it */
	assert_int_equal(big[99990], 0x11);
	dereg(mr[0]);
	dereg(mr[1]);
	assert_int_equal(small[7], 0x22);
	ibv_free(small);
	ibv_free(NULL);
}

static void malloc_many(void **state)
{
	enum { N = 300 };
	char *p[N];
	unsigned seed = 1;

	(void)state;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < N; i++) {
			size_t size = (size_t)rand_r(&seed) % (i % 10 ? 2000 : 60000) + 1;

			p[i] = ibv_malloc(pd, size);
			assert_non_null(p[i]);
			memset(p[i], i, size);
			*(uint32_t *)p[i] = (uint32_t)i;
		}
		for (int i = 0; i < N; i++) /* no two overlap */
			assert_int_equal(*(uint32_t *)p[i], i);
		for (int i = 0; i < N; i++)
			ibv_free(p[(i * 7 + round) % N]);
	}
	/* all of it came back: the first segment is enough for ever */
	assert_true(fake_shadow.shadow <= 16u << 20);
	assert_null(ibv_malloc(pd, SIZE_MAX - 5));
	assert_int_equal(errno, ENOMEM);
	fake_shadow.fail[FF_MSG_SHADOW_GROW] = -ENOMEM;
	assert_null(ibv_malloc(pd, 100 << 20));
	assert_int_equal(errno, ENOMEM);
}

static int child_writes_malloced(void *arg)
{
	char *p = arg;

	alarm(10);
	if (p[0] != 1)
		return 1;
	memset(p, 2, 50000);
	ibv_free(p);
	return 0;
}

static void malloc_and_fork(void **state)
{
	char *p = ibv_malloc(pd, 50000);

	(void)state;
	memset(p, 1, 50000);
	assert_int_equal(in_child(child_writes_malloced, p), 0);
	assert_int_equal(p[0], 1);
	assert_int_equal(p[49999], 1);
	ibv_free(p);
}

/* ---- many ---------------------------------------------------------------------------------------------------- */

static void many_small_regions(void **state)
{
	enum { N = 3000 };
	static struct ibv_mr *mr[N];
	char *p = map(2 * N * PG);
	unsigned before;

	(void)state;
	need_uffd();
	fill(p, 2 * N * PG, 27);
	before = count_vmas();
	for (int i = 0; i < N; i++)
		mr[i] = reg(p + 2 * (size_t)i * PG, PG);
	for (int i = 0; i < N; i++) {
		dereg(mr[i * 7 % N]); /* 7 and N have no common factor */
		mr[i * 7 % N] = NULL;
	}
	check_filled(p, 2 * N * PG, 27);
	assert_false(is_shared(p));
	/* the pool's mapping is merged now and then (pool.c's MERGE_AFTER) */
	assert_true(count_vmas() < before + 140);
	munmap(p, 2 * N * PG);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
	const struct CMUnitTest tests[] = {
		T(interior_is_replaced),
		T(less_than_a_page_is_left_alone),
		T(untouched_memory_reads_zero),
		T(heap_bss_and_huge_pages),
		T(beyond_the_stash),
		T(overlapping_mrs),
		T(edge_page_of_a_replaced_neighbour),
		T(pages_of_another_context_are_not_claimed),
		T(reregistered),
		T(shared_mappings_are_named),
		T(stacks_are_left_alone),
		T(stack_without_a_guard),
		T(file_and_read_only_mappings),
		T(bad_arguments),
		T(hints_are_masked),
		T(refused_mr_is_undone),
		T(without_shadow_memory),
		T(without_userfaultfd),
		T(watched_by_another_userfaultfd),
		T(unmapped_while_registered),
		T(moved_while_registered),
		T(protections_are_kept),
		T(locked_memory_is_locked_again),
		T(forks),
		T(child_outlives_the_mr),
		T(large_regions_and_fork),
		T(other_ways_of_making_a_process),
		T(malloc_is_shadow_from_the_start),
		T(malloc_many),
		T(malloc_and_fork),
		T(many_small_regions),
		T(userfaultfd_closed_by_the_program),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
