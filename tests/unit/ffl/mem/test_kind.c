/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_kind.c - ffl/mem/kind.c and what follows from it: with a router that has a NIC each kind of memory is
 * replaced, with what others have on its pages, and neither they nor children nor the program's handlers notice.
 * night: unit unit-san
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/region_rig.h"

/*
 * One device for all tests, because replaced pages stay: to the next device the heap and the variables would be shared
 * memory.
 */
static int whole_setup(void **state)
{
	static struct ffl_context *ctx;
	static struct ibv_pd *pd;

	if (!ctx) {
		rg_setup(state);
		fake_shadow_close(rg_ctx);
		setenv("FFL_REPLACE", "whole", 1);
		ctx = fake_shadow_open(true);
		unsetenv("FFL_REPLACE");
		ctx->has_nic = true; /* all of it at once, however long it takes to look at */
		pd = rg_pd;
		to_pd(pd)->ctx = ctx;
		pd->context = &ctx->v.context;
	}
	rg_ctx = ctx;
	rg_pd = pd;
	return 0;
}

/* Fails when an MR was left. */
static int whole_teardown(void **state)
{
	(void)state;
	return fake_shadow.mrs || to_pd(rg_pd)->refs ? -1 : 0;
}

#define WHOLE(fn) cmocka_unit_test_setup_teardown(fn, whole_setup, whole_teardown)

static struct ibv_mr *reg_ro(const void *p, size_t len)
{
	struct ibv_mr *mr = ibv_reg_mr(rg_pd, (void *)p, len, IBV_ACCESS_REMOTE_READ);

	assert_non_null(mr);
	return mr;
}

/* All of it is the router's, too, one-sided and both ways; what is beside it stays. */
static void use(char *p, size_t len)
{
	struct ibv_mr *mr;
	char before, after;

	rg_fill(p, len, 3);
	before = p[-1];
	after = p[len];
	mr = rg_reg(p, len);
	rg_check(p, len, 3);
	for (size_t i = 0; i < len; i++) {
		uint8_t *host = fake_shadow_at((uintptr_t)p + i);

		assert_non_null(host);
		assert_int_equal((char)*host, p[i]);
		*host ^= 0x5a;
	}
	for (size_t i = 0; i < len; i++)
		p[i] ^= 0x5a;
	rg_check(p, len, 3);
	rg_dereg(mr);
	rg_check(p, len, 3);
	assert_int_equal(p[-1], before);
	assert_int_equal(p[len], after);
}

static void not_replaced(const void *p, size_t len)
{
	struct ibv_mr *mr = reg_ro(p, len);

	assert_null(fake_shadow_at((uintptr_t)p));
	rg_dereg(mr);
}

/* ---- kinds --------------------------------------------------------------------------------------- */

static void the_heap(void **state)
{
	static const size_t lens[] = { 1, 100, 4095, 4096, 5000, 100000, 3000000 };

	(void)state;
	rg_need_uffd();
	for (unsigned i = 0; i < ARRAY_SIZE(lens); i++) {
		char *before = malloc(40), *p = malloc(lens[i] + 2), *after = malloc(40);

		memset(before, 1, 40);
		memset(after, 2, 40);
		use(p + 1, lens[i]);
		for (unsigned k = 0; k < 40; k++)
			assert_true(before[k] == 1 && after[k] == 2);
		free(after);
		free(p);
		free(before);
	}
}

/* The allocator goes on with what is on replaced pages: its lists, its top, all of it. */
static void the_allocator(void **state)
{
	enum { MANY = 400 };
	struct ibv_mr *mr[MANY] = { NULL };
	char *p[MANY] = { NULL };
	size_t len[MANY] = { 0 };

	(void)state;
	rg_need_uffd();
	srand(1);
	for (unsigned round = 0; round < 6000; round++) {
		unsigned i = (unsigned)rand() % MANY, what = (unsigned)rand() % 4;

		if (p[i])
			rg_check(p[i], len[i], i);
		if (p[i] && !what) {
			if (mr[i])
				rg_dereg(mr[i]);
			mr[i] = NULL;
			rg_check(p[i], len[i], i);
			free(p[i]);
			p[i] = NULL;
		} else if (p[i] && what == 1 && !mr[i]) {
			size_t now = 1 + (size_t)rand() % 20000;

			p[i] = realloc(p[i], now);
			rg_check(p[i], now < len[i] ? now : len[i], i);
			len[i] = now;
			rg_fill(p[i], len[i], i);
		} else if (p[i] && !mr[i]) {
			mr[i] = rg_reg(p[i], len[i]);
		} else if (!p[i]) {
			len[i] = 1 + (size_t)rand() % (round % 50 ? 3000 : 200000);
			p[i] = malloc(len[i]);
			rg_fill(p[i], len[i], i);
		}
		if (round % 100 == 99)
			malloc_trim(0);
	}
	for (unsigned i = 0; i < MANY; i++) {
		if (p[i])
			rg_check(p[i], len[i], i);
		if (mr[i])
			rg_dereg(mr[i]);
		if (p[i])
			rg_check(p[i], len[i], i);
		free(p[i]);
	}
}

static char data_small[102] = { 1 };
static char data_large[50002] = { 1 };
static char data_beside[50002] = { 1 }; /* which no other test registers */
static char bss_small[102];
static char bss_large[500002];

static void variables(void **state)
{
	(void)state;
	rg_need_uffd();
	use(bss_small + 1, 100);
	use(bss_large + 1, 500000);
	use(data_small + 1, 100);
	use(data_large + 1, 50000);
}

static _Atomic bool stop;

static void *wait_for_stop(void *arg)
{
	while (!stop)
		usleep(1000);
	return arg;
}

/* Which the thread could write to meanwhile. */
static void initialized_variables_beside_a_thread(void **state)
{
	pthread_t t;

	(void)state;
	rg_need_uffd();
	stop = false;
	assert_int_equal(pthread_create(&t, NULL, wait_for_stop, NULL), 0);
	data_beside[20000] = 7;
	not_replaced(data_beside + 10000, 20000);
	use(bss_large + 2 * PG, 20000); /* on no page of the data before it */
	stop = true;
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(data_beside[20000], 7);
}

static void what_may_only_be_read(void **state)
{
	char *p = rg_map(4 * PG);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	rg_fill(p, 4 * PG, 4);
	assert_int_equal(mprotect(p, 4 * PG, PROT_READ), 0);
	mr = reg_ro(p + 100, 2 * PG);
	assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 3 * PG);
	assert_memory_equal(fake_shadow_at((uintptr_t)p + 100), p + 100, PG);
	rg_check(p, 4 * PG, 4);
	assert_int_equal(rg_vma_at(p).flags, FF_VMA_READ | FF_VMA_SHARED);
	rg_dereg(mr);
	assert_int_equal(rg_vma_at(p).flags, FF_VMA_READ | FF_VMA_SHARED);
	rg_check(p, 4 * PG, 4);
	/* what it may do while it is registered stays, and so does what it writes then */
	mr = reg_ro(p + 100, 2 * PG);
	assert_int_equal(mprotect(p, 4 * PG, RW), 0);
	p[PG] = 99;
	assert_int_equal(*fake_shadow_at((uintptr_t)p + PG), 99);
	rg_dereg(mr);
	assert_int_equal(rg_vma_at(p).flags, FF_VMA_READ | FF_VMA_WRITE | FF_VMA_SHARED);
	assert_int_equal(p[PG], 99);
	munmap(p, 4 * PG);
}

static int file_of(size_t pages)
{
	int fd = memfd_create("file", 0);
	char page[FF_PAGE];

	assert_true(fd >= 0);
	for (size_t i = 0; i < pages; i++) {
		rg_fill(page, PG, (unsigned)(8 + i * (7 + PG)));
		assert_int_equal(write(fd, page, PG), PG);
	}
	return fd;
}

/* Beside a thread that reads it all the time. */
static void *read_file(void *arg)
{
	while (!stop)
		rg_check(arg, 4 * PG, 8);
	return arg;
}

static void a_file_that_may_only_be_read(void **state)
{
	int fd = file_of(4);

	(void)state;
	rg_need_uffd();
	for (unsigned i = 0; i < 200; i++) {
		char *p = mmap(NULL, 4 * PG, PROT_READ, MAP_PRIVATE, fd, 0);
		struct ibv_mr *mr;
		pthread_t t;

		stop = false;
		assert_int_equal(pthread_create(&t, NULL, read_file, p), 0);
		mr = reg_ro(p + 100, 2 * PG);
		assert_int_equal(fake_shadow_bytes(FF_RUN_SHADOW), 3 * PG);
		assert_memory_equal(fake_shadow_at((uintptr_t)p + 100), p + 100, PG);
		rg_dereg(mr);
		mr = reg_ro(p + 100, 2 * PG);
		assert_memory_equal(fake_shadow_at((uintptr_t)p + 100), p + 100, PG);
		stop = true;
		assert_int_equal(pthread_join(t, NULL), 0);
		rg_gone(mr, p, 4 * PG, 8);
	}
	close(fd);
}

/* A file's pages that the program has made its own, and may no longer write to. */
static void a_file_that_was_written_to(void **state)
{
	int fd = file_of(4);
	char *p = mmap(NULL, 4 * PG, RW, MAP_PRIVATE, fd, 0);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	use(p + 1, 2 * PG);
	p[PG + 5] = 77;
	assert_int_equal(mprotect(p, 4 * PG, PROT_READ), 0);
	mr = reg_ro(p + 100, 2 * PG);
	assert_int_equal(*fake_shadow_at((uintptr_t)p + PG + 5), 77);
	rg_dereg(mr);
	assert_int_equal(p[PG + 5], 77);
	assert_int_equal(rg_vma_at(p + PG).flags, FF_VMA_READ | FF_VMA_SHARED);
	munmap(p, 4 * PG);
	close(fd);
}

/* It stays a copy. */
static void a_file_that_ends_meanwhile(void **state)
{
	int fd = file_of(4);
	char *p = mmap(NULL, 4 * PG, PROT_READ, MAP_PRIVATE, fd, 0);
	struct ibv_mr *mr;

	(void)state;
	rg_need_uffd();
	mr = reg_ro(p, 4 * PG);
	assert_int_equal(ftruncate(fd, (off_t)PG), 0);
	rg_check(p, 4 * PG, 8);
	rg_gone(mr, p, 4 * PG, 8);
	close(fd);
}

static void a_file_that_ends_before(void **state)
{
	int fd = file_of(2);
	char *p = mmap(NULL, 4 * PG, PROT_READ, MAP_PRIVATE, fd, 0);

	(void)state;
	not_replaced(p + PG, 2 * PG);
	munmap(p, 4 * PG);
	close(fd);
}

static __thread char local[100] = { 1 };
static __thread char local_large[3 * UNIT_PAGE_MAX];

/* Not sanitized, since ASan keeps the variables of a function that it watches elsewhere (detect_stack_use_after_return). */
__attribute__((no_sanitize_address)) static void *own_stack_and_tls(void *arg)
{
	char stack[5 * FF_PAGE];

	memset(stack, 1, sizeof(stack));
	not_replaced(stack + 10, 100);
	not_replaced(stack, sizeof(stack));
	not_replaced(local, sizeof(local));
	not_replaced(local_large, sizeof(local_large));
	return arg;
}

static void stacks_and_thread_local_memory(void **state)
{
	pthread_t t;

	(void)state;
	own_stack_and_tls(NULL);
	assert_int_equal(pthread_create(&t, NULL, own_stack_and_tls, NULL), 0);
	assert_int_equal(pthread_join(t, NULL), 0);
	not_replaced((const void *)own_stack_and_tls, 64);
}

enum { STACK_PAGES = 64, ABOVE_PAGES = 64 };

static struct {
	pthread_barrier_t meet;
	char *stack, *above;
} beside;

/* Its stack has a guard below, and above it, in the same mapping, are other pages. Not sanitized, as above. */
__attribute__((no_sanitize_address)) static void *on_that_stack(void *arg)
{
	char here[5 * FF_PAGE];

	memset(here, 1, sizeof(here));
	not_replaced(here, sizeof(here));
	pthread_barrier_wait(&beside.meet);
	pthread_barrier_wait(&beside.meet);
	return arg;
}

/* An allocation, and a thread that is created after it: before 6.7 the kernel makes one mapping of it and the stack. */
static void above_a_stack(void **state)
{
	char *p = mmap(NULL, (1 + STACK_PAGES + ABOVE_PAGES) * PG, PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	pthread_attr_t attr;
	pthread_t t;
	/* where thread-local memory is above the control block, one cannot tell how much of it */
	size_t margin =
#ifdef __x86_64__
		0;
#else
		32 * PG;
#endif

	(void)state;
	rg_need_uffd();
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p, PG, PROT_NONE), 0);
	beside.stack = p + PG;
	beside.above = beside.stack + STACK_PAGES * PG;
	pthread_barrier_init(&beside.meet, NULL, 2);
	pthread_attr_init(&attr);
	assert_int_equal(pthread_attr_setstack(&attr, beside.stack, STACK_PAGES * PG), 0);
	assert_int_equal(pthread_create(&t, &attr, on_that_stack, NULL), 0);
	pthread_attr_destroy(&attr);
	pthread_barrier_wait(&beside.meet);
	use(beside.above + margin, 4 * PG);
	use(beside.above + margin + 2 * PG + 100, 10000);
	not_replaced(beside.above - PG, PG);
	not_replaced(beside.above - 100, 50);
	not_replaced(beside.stack + PG, 3 * PG);
	pthread_barrier_wait(&beside.meet);
	assert_int_equal(pthread_join(t, NULL), 0);
	pthread_barrier_destroy(&beside.meet);
	munmap(p, (1 + STACK_PAGES + ABOVE_PAGES) * PG);
}

/* ---- neighbours ------------------------------------------------------------------------------------ */

struct counter {
	volatile uint64_t *word;
	uint64_t count;
};

static void *count(void *arg)
{
	struct counter *c = arg;

	while (!stop && *c->word == c->count)
		*c->word = ++c->count;
	return NULL;
}

/*
 * Pages that the kernel makes no mapping of with a stack that comes to lie below, which would not be replaced: a page
 * that may only be read is there.
 */
static char *map_alone(size_t len)
{
	char *p = rg_map(PG + len);

	assert_int_equal(mprotect(p, PG, PROT_READ), 0);
	return p + PG;
}

static void unmap_alone(char *p, size_t len)
{
	munmap(p - PG, PG + len);
}

/* Others' words on the pages of buffers that come and go. */
static void stores_beside_it(void **state)
{
	char *p = map_alone(3 * PG);
	struct counter c[2] = { { .word = (void *)(p + 8) }, { .word = (void *)(p + 2 * PG) } };
	unsigned rounds = getenv("FF_BRIEF") ? 5000 : 20000;
	pthread_t t[2];

	(void)state;
	rg_need_uffd();
	stop = false;
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, count, &c[i]), 0);
	for (unsigned i = 0; i < rounds / unit_slow(); i++) {
		struct ibv_mr *mr = rg_reg(p + 100, i % 2 ? 100 : 2 * PG);
		uint8_t *host = fake_shadow_at((uintptr_t)p + 100);

		assert_non_null(host);
		*host = (uint8_t)i;
		assert_int_equal((uint8_t)p[100], (uint8_t)i);
		rg_dereg(mr);
	}
	stop = true;
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(pthread_join(t[i], NULL), 0);
		assert_int_equal(*c[i].word, c[i].count);
		assert_true(c[i].count > 0);
	}
	unmap_alone(p, 3 * PG);
}

/* Several MRs on one page, which end in any order. */
static void many_on_one_page(void **state)
{
	char *p = rg_map(PG);
	struct ibv_mr *mr[40];

	(void)state;
	rg_need_uffd();
	rg_fill(p, PG, 6);
	for (unsigned i = 0; i < 40; i++) {
		mr[i] = rg_reg(p + i * 100, 100);
		assert_non_null(fake_shadow_mr_at(mr[i], (uintptr_t)p + i * 100));
	}
	for (unsigned i = 0; i < 40; i++) {
		*fake_shadow_mr_at(mr[i * 7 % 40], (uintptr_t)p + i * 7 % 40 * 100) ^= 0x5a;
		rg_dereg(mr[i * 7 % 40]);
		p[i * 7 % 40 * 100] ^= 0x5a;
	}
	rg_check(p, PG, 6);
	munmap(p, PG);
}

/* ---- children ----------------------------------------------------------------------------------------- */

static char *neighbour;

static int child_uses_heap(void *arg)
{
	char *more[200];
	FILE *f = arg;

	for (unsigned i = 0; i < 100; i++)
		if (neighbour[i] != (char)(i + 9))
			return 1;
	memset(neighbour, 0, 100);
	for (unsigned i = 0; i < 200; i++) {
		more[i] = malloc(100 + i);
		memset(more[i], 1, 100 + i);
	}
	for (unsigned i = 0; i < 200; i++)
		free(more[i]);
	return fputs("child\n", f) < 0 || fflush(f) ? 2 : 0;
}

static void check_neighbour(void)
{
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(neighbour[i], (char)(i + 9));
}

/* fork() in a process with threads: libc looks at its open files in the child before any handler runs. */
static void children_of_a_heap(bool thread)
{
	struct sigaction was, is;
	struct ibv_mr *mr[64];
	FILE *f[64];
	char *p[64];
	stack_t altstack;
	pthread_t t;

#ifdef __SANITIZE_ADDRESS__
	skip(); /* the sanitizer's heap is not libc's, whose fork() this is about */
#endif
	rg_need_uffd();
	stop = false;
	if (thread)
		assert_int_equal(pthread_create(&t, NULL, wait_for_stop, NULL), 0);
	neighbour = malloc(100);
	for (unsigned i = 0; i < 100; i++)
		neighbour[i] = (char)(i + 9);
	for (unsigned i = 0; i < 64; i++) {
		p[i] = malloc(200);
		f[i] = fopen("/dev/null", "w");
		memset(p[i], (int)i, 200);
	}
	assert_int_equal(sigaction(SIGSEGV, NULL, &was), 0);
	for (unsigned i = 0; i < 64; i++) {
		mr[i] = rg_reg(p[i], 200);
		assert_non_null(fake_shadow_at((uintptr_t)p[i]));
	}
	for (unsigned i = 0; i < 20; i++) {
		assert_int_equal(rg_in_child(child_uses_heap, f[i]), 0);
		check_neighbour();
		*fake_shadow_mr_at(mr[i], (uintptr_t)p[i]) = 0x77;
		assert_int_equal(p[i][0], 0x77);
	}
	assert_int_equal(sigaction(SIGSEGV, NULL, &is), 0);
	assert_ptr_equal(is.sa_sigaction, was.sa_sigaction);
	assert_int_equal(is.sa_flags, was.sa_flags);
	assert_int_equal(sigaltstack(NULL, &altstack), 0);
	assert_int_equal(altstack.ss_flags, SS_DISABLE);
	for (unsigned i = 0; i < 64; i++) {
		rg_dereg(mr[i]);
		for (unsigned k = 1; k < 200; k++)
			assert_int_equal(p[i][k], i);
		free(p[i]);
		fclose(f[i]);
	}
	check_neighbour();
	free(neighbour);
	stop = true;
	if (thread)
		assert_int_equal(pthread_join(t, NULL), 0);
}

static void a_child(void **state)
{
	(void)state;
	children_of_a_heap(false);
}

static void a_child_beside_a_thread(void **state)
{
	(void)state;
	children_of_a_heap(true);
}

struct forks {
	_Atomic unsigned children;
	_Atomic bool over;
	int status; /* of the last child */
};

static void *fork_often(void *arg)
{
	struct forks *f = arg;

	while (!stop && !f->status) {
		pid_t pid = fork();

		if (!pid) {
			char *p = malloc(1000);

			memset(p, 1, 1000);
			free(p);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &f->status, 0) != pid)
			f->status = -1;
		else
			f->children++;
	}
	f->over = true;
	return NULL;
}

#define CHILDREN 300u

static void children_while_pages_come_and_go(void **state)
{
	struct forks f = { 0 };
	pthread_t t;

	(void)state;
	/* The other thread may hold AddressSanitizer's allocator at the fork, for which its handlers wait in the child. */
#ifdef __SANITIZE_ADDRESS__
	skip();
#endif
	rg_need_uffd();
	stop = false;
	assert_int_equal(pthread_create(&t, NULL, fork_often, &f), 0);
	for (unsigned i = 0; f.children < CHILDREN && !f.over; i++) {
		char *p = malloc(64 + i % 5000), *q = malloc(16);
		struct ibv_mr *mr;

		memset(p, (int)i, 64);
		mr = rg_reg(p, 64 + i % 5000);
		assert_int_equal((uint8_t)p[63], (uint8_t)i);
		free(q);
		rg_dereg(mr);
		assert_int_equal((uint8_t)p[63], (uint8_t)i);
		free(p);
	}
	stop = true;
	assert_int_equal(pthread_join(t, NULL), 0);
	assert_int_equal(f.status, 0);
}

/* ---- handlers of the program ----------------------------------------------------------------------------- */

static _Atomic unsigned caught;
static char *guarded;

static void on_segv(int sig, siginfo_t *info, void *uc)
{
	(void)sig;
	(void)uc;
	if (info->si_addr == guarded) {
		caught++;
		mprotect(guarded, PG, RW);
	} else {
		_exit(9);
	}
}

static void *fault_often(void *arg)
{
	while (!stop) {
		mprotect(guarded, PG, PROT_NONE);
		*(volatile char *)guarded = 1;
	}
	return arg;
}

/* Threads that take SIGSEGV for purposes of their own, while another one forks. */
static void the_programs_own_handler(void **state)
{
	struct sigaction sa = { .sa_sigaction = on_segv, .sa_flags = SA_SIGINFO }, was;
	char *p;
	unsigned before;
	struct ibv_mr *mr;
	pthread_t t;

	(void)state;
#ifdef __SANITIZE_ADDRESS__
	skip(); /* pages of the sanitizer's heap are shadow pages since the cases before, and fork() needs them */
#endif
	rg_need_uffd();
	p = malloc(100);
	guarded = rg_map(PG);
	assert_int_equal(sigaction(SIGSEGV, &sa, &was), 0);
	mr = rg_reg(p, 100);
	stop = false;
	assert_int_equal(pthread_create(&t, NULL, fault_often, NULL), 0);
	for (before = caught; caught - before < 100;)
		sched_yield();
	for (unsigned i = 0; i < 100; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			/* it is there in the child, too */
			mprotect(guarded, PG, PROT_NONE);
			caught = 0;
			*(volatile char *)guarded = 1;
			_exit(caught == 1 ? 0 : 1);
		}
		assert_int_equal(waitpid(pid, &status, 0), pid);
		assert_int_equal(status, 0);
	}
	stop = true;
	assert_int_equal(pthread_join(t, NULL), 0);
	rg_dereg(mr);
	assert_int_equal(sigaction(SIGSEGV, &was, NULL), 0);
	munmap(guarded, PG);
	free(p);
}

/* A page that only the MR is on needs no handler; and without the router's word no page is touched but whole ones. */
static void without_a_nic(void **state)
{
	char *p = rg_map(3 * PG);
	struct ibv_mr *mr;

	(void)state;
	mr = rg_reg(p + 1, 2 * PG - 2);
	assert_int_equal(fake_shadow.num_runs, 0);
	rg_dereg(mr);
	not_replaced(data_large, sizeof(data_large));
	munmap(p, 3 * PG);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(without_a_nic, rg_setup, rg_teardown),
			WHOLE(the_heap), WHOLE(the_allocator), WHOLE(variables),
			WHOLE(initialized_variables_beside_a_thread), WHOLE(what_may_only_be_read),
			WHOLE(a_file_that_may_only_be_read), WHOLE(a_file_that_was_written_to),
			WHOLE(a_file_that_ends_before), WHOLE(a_file_that_ends_meanwhile),
			WHOLE(stacks_and_thread_local_memory), WHOLE(above_a_stack),
			WHOLE(stores_beside_it), WHOLE(many_on_one_page), WHOLE(a_child),
			WHOLE(a_child_beside_a_thread), WHOLE(children_while_pages_come_and_go),
			WHOLE(the_programs_own_handler));
}
