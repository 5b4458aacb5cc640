/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_region_kinds.c - ffl/mem/region.c: memory that is not replaced, because it is shared, somebody's
 * stack, a file's or watched by others, or because there is nothing to replace it with.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 *
 * threads: yes
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"

static void shared_mappings_are_named(void **state)
{
	char *p = mmap(NULL, 4 * PG, RW, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int id = shmget(IPC_PRIVATE, 3 * PG, IPC_CREAT | 0600);
	char *q = shmat(id, NULL, 0);
	struct ibv_mr *mr;
	int fd;

	(void)state;
	shmctl(id, IPC_RMID, NULL);
	mr = rg_reg(p + 10,
		    2 * PG); /* whole pages are named: the router checks bounds by the byte */
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow.run[0].kind, FF_RUN_SHARED);
	assert_int_equal(fake_shadow.run[0].va, (uintptr_t)p);
	assert_int_equal(fake_shadow.run[0].len, 3 * PG);
	rg_dereg(mr);
	mr = rg_reg(q, 3 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHARED), 3 * PG);
	rg_dereg(mr);
	shmdt(q);
	munmap(p, 4 * PG);

	/* what is beyond the end of the file cannot be had */
	fd = memfd_create("short", MFD_CLOEXEC);
	assert_int_equal(ftruncate(fd, PG), 0);
	p = mmap(NULL, 4 * PG, RW, MAP_SHARED, fd, 0);
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_int_equal(fake_shadow.why, FF_WHY_MAPPINGS);
	rg_dereg(mr);
	munmap(p, 4 * PG);
	close(fd);
}

static void *stack_thread(void *arg)
{
	char buf[20 * FF_PAGE];
	struct ibv_mr *mr;

	(void)arg;
	rg_fill(buf, sizeof(buf), 10);
	mr = rg_reg(buf, sizeof(buf));
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_int_equal(fake_shadow.why, FF_WHY_STACK);
	rg_dereg(mr);
	rg_check(buf, sizeof(buf), 10);
	return NULL;
}

static pthread_barrier_t barrier;
static char *others_stack;

static void *waiting_thread(void *arg)
{
	char buf[20 * FF_PAGE];

	(void)arg;
	rg_fill(buf, sizeof(buf), 11);
	others_stack = buf;
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	rg_check(buf, sizeof(buf), 11);
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
	mr = rg_reg(others_stack, 20 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	pthread_barrier_wait(&barrier);
	pthread_join(t, NULL);
	assert_int_equal(ibv_dereg_mr(mr), 0);
}

/* A stack that nothing tells from other memory: the registering thread's own, as coroutines have. */
static void *coroutine(void *arg)
{
	char *frame = __builtin_frame_address(0), *low = frame - 256 * PG;
	struct ibv_mr *mr;

	(void)arg;
	/* with its page: a large one may begin farther below than what registering uses of the stack */
	mr = rg_reg(low, ((uintptr_t)frame / PG + 1) * PG - (uintptr_t)low);
	assert_int_equal(fake_shadow.num_runs, 0);
	rg_dereg(mr);
	mr = rg_reg(low, 200 * PG); /* of the same mapping, but far from the frames */
	rg_dereg(mr);
	return NULL;
}

static void stack_without_a_guard(void **state)
{
	size_t len = 1024 * PG;
	char *p = rg_map(len);
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
	char *p, *ro = rg_map(2 * PG);
	struct ibv_mr *mr;

	(void)state;
	assert_int_equal(ftruncate(fileno(f), 3 * PG), 0);
	p = mmap(NULL, 3 * PG, RW, MAP_PRIVATE, fileno(f), 0);
	memset(p, 1, 3 * PG);
	mr = rg_reg(p, 3 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_int_equal(fake_shadow.why, FF_WHY_FILE);
	rg_dereg(mr);
	munmap(p, 3 * PG);
	fclose(f);

	mprotect(ro, 2 * PG, PROT_READ);
	assert_null(ibv_reg_mr(rg_pd, ro, PG, IBV_ACCESS_LOCAL_WRITE));
	assert_int_equal(errno, EFAULT);
	mr = ibv_reg_mr(rg_pd, ro, PG, IBV_ACCESS_REMOTE_READ);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_int_equal(fake_shadow.why, FF_WHY_RIGHTS);
	rg_dereg(mr);
	mprotect(ro, 2 * PG, PROT_NONE);
	assert_null(ibv_reg_mr(rg_pd, ro, PG, 0));
	assert_int_equal(errno, EFAULT);
	munmap(ro, 2 * PG);
}

static void without_shadow_memory(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_fill(p, 4 * PG, 13);
	fake_shadow.fail[FF_MSG_PLACE_PAGES] = -ENOMEM;
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow.num_runs, 0);
	if (fake_shadow_has_uffd())
		assert_int_equal(fake_shadow.why, FF_WHY_LIMIT);
	assert_false(rg_is_shared(p));
	rg_check(p, 4 * PG, 13);
	rg_gone(mr, p, 4 * PG, 13);
}

/* A router that watches nothing is asked once. */
static void without_a_watcher(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_fill(p, 4 * PG, 14);
	fake_shadow.fail[FF_MSG_WATCH_PAGES] = -EOPNOTSUPP;
	for (int i = 0; i < 2; i++) {
		mr = rg_reg(p, 4 * PG);
		assert_int_equal(fake_shadow.num_runs, 0);
		assert_int_equal(fake_shadow.why, FF_WHY_UFFD);
		assert_false(rg_is_shared(p));
		rg_check(p, 4 * PG, 14);
		rg_dereg(mr);
		fake_shadow.fail[FF_MSG_WATCH_PAGES] = 0;
	}
	munmap(p, 4 * PG);
}

static void without_userfaultfd(void **state)
{
	struct ffl_context *plain;
	struct ibv_pd *plain_pd;
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	fake_shadow_close(rg_ctx); /* the process has one userfaultfd, from the first context */
	plain = fake_shadow_open(false);
	plain_pd = fake_shadow_pd(plain);
	mr = ibv_reg_mr(plain_pd, p, 4 * PG, ACCESS);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.num_runs, 0);
	assert_int_equal(fake_shadow.why, FF_WHY_UFFD);
	rg_dereg(mr);
	fake_shadow_close(plain);
	free(plain_pd);
	rg_ctx = fake_shadow_open(true);
	rg_pd->context = &rg_ctx->v.context;
	to_pd(rg_pd)->ctx = rg_ctx;
	munmap(p, 4 * PG);
}

static void watched_by_another_userfaultfd(void **state)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register r;
	char *p = rg_map(8 * PG);
	struct ibv_mr *mr;
	int dev, fd;

	(void)state;
	rg_need_uffd();
	dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	fd = ioctl(dev, _IO(0xAA, 0), O_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(ioctl(fd, UFFDIO_API, &api), 0);
	rg_fill(p, 8 * PG, 14);
	r = (struct uffdio_register){ .range = { (uintptr_t)p + 4 * PG, 2 * PG },
				      .mode = UFFDIO_REGISTER_MODE_MISSING };
	assert_int_equal(ioctl(fd, UFFDIO_REGISTER, &r), 0);
	mr = rg_reg(p, 8 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 6 * PG);
	assert_null(fake_shadow_at((uintptr_t)p + 4 * PG));
	assert_int_equal(fake_shadow.why, FF_WHY_ATTRIBUTE);
	rg_check(p, 8 * PG, 14);
	rg_dereg(mr);
	rg_check(p, 8 * PG, 14);
	close(fd);
	close(dev);
	munmap(p, 8 * PG);
}

/* An MR has the reason of most of its bytes. */
static void most_of_the_bytes(void **state)
{
	char *p = rg_map(16 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow.num_runs, 1);
	assert_int_equal(fake_shadow.why, FF_WHY_UNUSED); /* of no byte */
	rg_dereg(mr);
	mr = rg_reg(p + 4 * PG + 10, PG);
	assert_int_equal(fake_shadow.why, FF_WHY_EDGE);
	rg_dereg(mr);
	assert_int_equal(madvise(p + 8 * PG, 3 * PG, MADV_DONTFORK), 0);
	mr = rg_reg(p + 5 * PG + 10, 6 * PG); /* 3 pages of it, and two edges */
	assert_int_equal(fake_shadow.why, FF_WHY_ATTRIBUTE);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 2 * PG);
	rg_dereg(mr);
	assert_int_equal(madvise(p + 9 * PG, 2 * PG, MADV_DOFORK), 0);
	mr = rg_reg(p + 7 * PG + 10, 2 * PG); /* 1 page of it */
	assert_int_equal(fake_shadow.why, FF_WHY_EDGE);
	rg_dereg(mr);
	munmap(p, 16 * PG);
}

/* Later on, too. */
static void another_reason(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	assert_int_equal(madvise(p, 4 * PG, MADV_WIPEONFORK), 0);
	mr = rg_reg(p, 4 * PG);
	assert_int_equal(fake_shadow.why, FF_WHY_ATTRIBUTE);
	assert_int_equal(madvise(p, 4 * PG, MADV_KEEPONFORK), 0);
	assert_int_equal(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p, 4 * PG, 0), 0);
	assert_int_equal(fake_shadow.why, FF_WHY_UNUSED);
	assert_int_equal(fake_shadow.num_runs, 1);
	rg_dereg(mr);
	munmap(p, 4 * PG);
}

/* Once pages were asked for, the rights of this page change, and pages are given. */
static void *protect_page(void *page)
{
	while (!atomic_load(&fake_shadow.failed))
		sched_yield();
	assert_int_equal(mprotect(page, PG, PROT_READ), 0);
	fake_shadow.fail[FF_MSG_PLACE_PAGES] = 0;
	return NULL;
}

/* Memory that changes while memory before it is replaced is left alone: it was planned for what it was. */
static void changed_since_it_was_planned(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;
	pthread_t t;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 4 * PG, 7);
	assert_ptr_equal(mmap(p + 2 * PG, PG, RW, MAP_SHARED | MAP_ANONYMOUS | MAP_FIXED, -1, 0),
			 p + 2 * PG);
	fake_shadow.failed = 0;
	fake_shadow.fail[FF_MSG_PLACE_PAGES] = -EINPROGRESS;
	assert_int_equal(pthread_create(&t, NULL, protect_page, p + 3 * PG), 0);
	mr = rg_reg(p, 4 * PG);
	pthread_join(t, NULL);
	assert_int_equal(fake_shadow.why, FF_WHY_CHANGED);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 2 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHARED), PG);
	assert_true(rg_is_shared(p));
	assert_false(rg_is_shared(p + 3 * PG));
	assert_int_equal(rg_vma_at(p + 3 * PG).flags, FF_VMA_READ);
	rg_dereg(mr);
	munmap(p, 4 * PG);
}

/* Where a NIC is, what is there of on-demand memory is replaced, also behind a hole, which may be filled partly. */
static void on_demand_for_a_nic(void **state)
{
	const size_t len = 64u << 20;
	char *p = rg_map(len), *q = p + len - 2 * PG;
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	rg_ctx->has_nic = true;
	rg_fill(p, 2 * PG, 8);
	rg_fill(q, 2 * PG, 9);
	munmap(p + 2 * PG, len - 4 * PG);
	mr = ibv_reg_mr(rg_pd, p, len, ACCESS | IBV_ACCESS_ON_DEMAND);
	assert_non_null(mr);
	assert_int_equal(fake_shadow.num_runs, 0); /* the router asks what is there */
	assert_int_equal(fake_shadow.why, FF_WHY_OTHER);
	assert_true(rg_is_shared(p));
	assert_true(rg_is_shared(q));
	rg_check(p, 2 * PG, 8);
	rg_check(q, 2 * PG, 9);
	rg_dereg(mr);
	munmap(p, 2 * PG);
	munmap(q, 2 * PG);
}

int main(void)
{
#define T(fn) cmocka_unit_test_setup_teardown(fn, rg_setup, rg_teardown)

	return UNIT_RUN(T(shared_mappings_are_named), T(stacks_are_left_alone),
			T(stack_without_a_guard), T(file_and_read_only_mappings),
			T(without_shadow_memory), T(without_a_watcher), T(without_userfaultfd),
			T(watched_by_another_userfaultfd), T(most_of_the_bytes), T(another_reason),
			T(changed_since_it_was_planned), T(on_demand_for_a_nic));
}
