/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/* test: netns */
/* all: docker */
/* night: system-san */
/* timeout: 600 */
/*
 * verbs_fork.c - registered memory under threads and under fork: stores that race with
 * registrations, neighbours on the edge pages, system calls into the memory, children that see a
 * snapshot and never touch the parent's pages. Children that use their parent's context are in
 * verbs_fork_context.c.
 */
#include "tests/rig/verbs/vt_mem.h"

#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

extern char **environ;

static atomic_bool stop;

static uint64_t run_until(void)
{
	return vt_now() + 1000000000ull; /* how long a race is provoked; not a wait */
}

static void start(pthread_t *t, void *(*fn)(void *), void *arg)
{
	CHECK_EQ(pthread_create(t, NULL, fn, arg), 0);
}

static void join(pthread_t t)
{
	CHECK_EQ(pthread_join(t, NULL), 0);
}

/* ---- threads -------------------------------------------------------------------------------- */

/* Counts in one word of memory that others register; every increment must be there at the end. */
struct counter {
	volatile uint64_t *word;
	uint64_t count;
};

static void *count(void *arg)
{
	struct counter *c = arg;

	while (!stop) {
		if (*c->word != c->count)
			FAIL("a store was lost: %llu, not %llu", (unsigned long long)*c->word,
			     (unsigned long long)c->count);
		*c->word = ++c->count;
	}
	return NULL;
}

/* Threads write while their memory, its edges included, is registered and deregistered. */
static void stores_during_registration(void)
{
	enum { WRITERS = 3 };
	struct vt_param par = VT_PARAM;
	size_t len = 64 * PAGE;
	uint8_t *p = vt_map(len);
	struct counter c[WRITERS] = { { 0 } };
	pthread_t t[WRITERS];
	uint64_t until;
	uint32_t rnd = 17;
	struct vt_end e;

	vt_end_open(&e, &par);
	c[0].word = (uint64_t *)(p + 8);	     /* on an edge page */
	c[1].word = (uint64_t *)(p + 30 * PAGE);     /* inside */
	c[2].word = (uint64_t *)(p + 63 * PAGE + 8); /* on the other edge */
	for (unsigned i = 0; i < WRITERS; i++)
		start(&t[i], count, &c[i]);
	for (until = run_until(); vt_now() < until;) {
		size_t off = vt_rand(&rnd) % (2 * PAGE), end = vt_rand(&rnd) % (2 * PAGE);

		CHECK_OK(ibv_dereg_mr(vt_reg(&e, p + off, len - off - end, VT_ACCESS_ALL)));
	}
	stop = true;
	for (unsigned i = 0; i < WRITERS; i++) {
		join(t[i]);
		CHECK(*c[i].word == c[i].count && c[i].count > 0);
	}
	vt_end_close(&e);
}

static int pipe_fds[2];

static void *feed_pipe(void *arg)
{
	uint8_t data[512];

	memset(data, 0x6b, sizeof(data));
	while (!stop)
		if (write(pipe_fds[1], data, sizeof(data)) != sizeof(data))
			FAIL("write to the pipe: %s", strerror(errno));
	close(pipe_fds[1]);
	return arg;
}

struct syscall_range {
	uint8_t *p;
	size_t len;
	uint64_t calls;
};

static void *read_into(void *arg)
{
	struct syscall_range *r = arg;
	uint32_t rnd = 3;

	for (;;) {
		size_t off = vt_rand(&rnd) % (r->len - 512);
		ssize_t n = read(pipe_fds[0], r->p + off, 512);

		if (n < 0)
			FAIL("read(2) into registered memory: %s", strerror(errno));
		if (!n)
			return NULL;
		if (!vt_all(r->p + off, (size_t)n, 0x6b))
			FAIL("read(2) did not deliver its bytes");
		r->calls++;
	}
}

/* The kernel writes to the memory meanwhile: no EFAULT, no lost byte. */
static void syscalls_during_registration(void)
{
	struct vt_param par = VT_PARAM;
	struct syscall_range r = { .len = 32 * PAGE };
	pthread_t feeder, reader;
	struct vt_end e;
	uint64_t until;

	r.p = vt_map(r.len);
	vt_end_open(&e, &par);
	CHECK_EQ(pipe(pipe_fds), 0);
	start(&feeder, feed_pipe, NULL);
	start(&reader, read_into, &r);
	for (until = run_until(); vt_now() < until;)
		CHECK_OK(ibv_dereg_mr(vt_reg(&e, r.p + 100, r.len - 300, VT_ACCESS_ALL)));
	stop = true;
	join(feeder);
	join(reader);
	CHECK(r.calls > 0);
	vt_end_close(&e);
}

/* A peer writes one half of a page while the program writes the other half. */
static void neighbours(void)
{
	struct vt_param par = VT_PARAM;
	uint8_t *p = vt_map(3 * PAGE);
	struct counter before = { .word = (uint64_t *)(p + PAGE / 2 - 8) };
	struct counter after = { .word = (uint64_t *)(p + 2 * PAGE + PAGE / 2) };
	size_t len = 2 * PAGE;
	struct vt_end a, b;
	pthread_t t[2];
	uint64_t until;

	vt_pair(&a, &b, &par);
	start(&t[0], count, &before);
	start(&t[1], count, &after);
	for (until = run_until(); vt_now() < until;) {
		struct ibv_mr *mr = vt_reg(&b, p + PAGE / 2, len, VT_ACCESS_ALL);

		vt_aim(&a, p + PAGE / 2, mr);
		for (unsigned i = 0; i < 20; i++) {
			memset(a.buf, (int)i, len);
			vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, len, 0, IBV_SEND_SIGNALED);
			WANT_OK(a.scq, i);
			CHECK(vt_all(p + PAGE / 2, len, (uint8_t)i));
		}
		CHECK_OK(ibv_dereg_mr(mr));
	}
	stop = true;
	join(t[0]);
	join(t[1]);
	CHECK(*before.word == before.count && *after.word == after.count);
	vt_pair_close(&a, &b);
}

/* Threads that register parts of one area, all pages shared with others, and move data there. */
struct part {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	uint8_t *p; /* its own bytes */
	size_t len;
	unsigned id;
};

static void *use_part(void *arg)
{
	struct part *part = arg;
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.len = 65536;
	vt_end_open_on(&a, &par, part->ctx, part->pd);
	vt_end_open_on(&b, &par, part->ctx, part->pd);
	vt_connect(&a, &b.self);
	vt_connect(&b, &a.self);
	for (unsigned i = 0; i < 200; i++) {
		struct ibv_mr *mr;

		vt_pattern(part->p, part->len, part->id * 1000 + i);
		mr = vt_reg(&b, part->p, part->len, VT_ACCESS_ALL);
		CHECK_PATTERN(part->p, part->len, part->id * 1000 + i);
		vt_aim(&a, part->p, mr);
		vt_pattern(a.buf, part->len, part->id * 2000 + i);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, part->len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, i);
		CHECK_PATTERN(part->p, part->len, part->id * 2000 + i);
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK_PATTERN(part->p, part->len, part->id * 2000 + i);
	}
	vt_end_close(&a);
	vt_end_close(&b);
	return NULL;
}

static void eight_threads(void)
{
	enum { THREADS = 8 };
	struct part part[THREADS];
	pthread_t t[THREADS];
	size_t each = 3 * PAGE + 1000; /* no part begins at a page */
	uint8_t *p = vt_map(THREADS * each);
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));

	for (unsigned i = 0; i < THREADS; i++) {
		part[i] = (struct part){ ctx, pd, p + i * each, each, i + 1 };
		start(&t[i], use_part, &part[i]);
	}
	for (unsigned i = 0; i < THREADS; i++)
		join(t[i]);
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

/* ---- fork ----------------------------------------------------------------------------------- */

static uint8_t bss[20 * PAGE];

static void child_sees_snapshot(void)
{
	uint8_t *p = vt_map(40 * PAGE), *heap = CHECK_PTR(malloc(100000)), local[30000];

	CHECK_OK(ibv_fork_init());
	vt_mem_fork(p, 40 * PAGE, 0, 40 * PAGE, false);
	vt_mem_fork(p, 40 * PAGE, 1000, 35 * PAGE, false);
	vt_mem_fork(p, 40 * PAGE, PAGE + 5, 100, false);
	vt_mem_fork(heap, 100000, 77, 90000, false);
	vt_mem_fork(bss, sizeof(bss), 9, sizeof(bss) - 100, false);
	vt_mem_fork(local, sizeof(local), 50, sizeof(local) - 100, false);
	free(heap);
	munmap(p, 40 * PAGE);
	p = mmap(NULL, 40 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(p != MAP_FAILED);
	vt_mem_fork(p, 40 * PAGE, 1000, 35 * PAGE, true);
}

/* More than a segment of shadow memory, and than the library keeps of the program's own pages. */
static void child_sees_snapshot_of_much(void)
{
	size_t len = 72 << 20;
	uint8_t *p = vt_map(len);

	vt_mem_fork(p, len, 100, len - 200, false);
	munmap(p, len);
}

static void *fork_often(void *arg)
{
	unsigned *children = arg;

	while (!stop) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid)
			_exit(0);
		CHECK_EQ(vt_child_status(pid), 0);
		++*children;
	}
	return NULL;
}

/* fork in one thread, registrations and transfers in another. */
static void fork_during_registration(void)
{
	struct vt_param par = VT_PARAM;
	size_t len = 40 * PAGE, n = 30 * PAGE;
	uint8_t *p = vt_map(len);
	unsigned children = 0;
	struct counter c = { .word = (uint64_t *)(p + 35 * PAGE) };
	uint32_t rnd = 8, round = 0;
	struct vt_end a, b;
	pthread_t forker, counter;
	uint64_t until;

	par.len = n;
	vt_pair(&a, &b, &par);
	start(&forker, fork_often, &children);
	start(&counter, count, &c);
	for (until = run_until(); vt_now() < until; round++) {
		size_t off = vt_rand(&rnd) % PAGE;
		struct ibv_mr *mr = vt_reg(&b, p + off, len - PAGE, VT_ACCESS_ALL);

		vt_aim(&a, p + off, mr);
		vt_pattern(a.buf, n, round);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, n, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 1);
		CHECK_PATTERN(p + off, n, round);
		CHECK_OK(ibv_dereg_mr(mr));
		CHECK_PATTERN(p + off, n, round);
	}
	stop = true;
	join(forker);
	join(counter);
	CHECK(children > 0 && round > 0 && *c.word == c.count);
	vt_pair_close(&a, &b);
}

/* posix_spawn, vfork and system() leave the parent's registrations alone. */
static void spawn_and_system(void)
{
	struct vt_param par = VT_PARAM;
	char *argv[] = { "true", NULL };
	struct vt_end a, b;
	pid_t pid;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 20; i++) {
		if (posix_spawnp(&pid, "true", NULL, NULL, argv, environ))
			vt_skip("there is no program \"true\"");
		CHECK_EQ(vt_child_status(pid), 0);
		vt_check_alive(&a, &b);
		CHECK_EQ(system("exit 3"), 3 << 8);
		vt_check_alive(&a, &b);
	}
	vt_pair_close(&a, &b);
}

/* A child makes its own use of the device while the parent's goes on. */
static void child_opens_device(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	pid_t pid;

	CHECK_OK(ibv_fork_init());
	vt_pair(&a, &b, &par);
	vt_check_alive(&a, &b);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		struct vt_end c, d;

		vt_pair(&c, &d, &par);
		for (unsigned i = 0; i < 200; i++)
			vt_check_alive(&c, &d);
		vt_pair_close(&c, &d);
		_exit(0);
	}
	for (unsigned i = 0; i < 200; i++)
		vt_check_alive(&a, &b);
	CHECK_EQ(vt_child_status(pid), 0);
	vt_check_alive(&a, &b);
	vt_pair_close(&a, &b);
}

/* A child that exits, closing what it inherited, does not end the parent's session. */
static void child_exits(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 20; i++) {
		pid_t pid = fork();

		CHECK(pid >= 0);
		if (!pid) {
			for (int fd = 3; fd < 256; fd++)
				close(fd);
			if (i % 2)
				kill(getpid(), SIGKILL);
			exit(0); /* with atexit handlers and destructors */
		}
		vt_child_status(pid);
		vt_check_alive(&a, &b);
	}
	vt_pair_close(&a, &b);
}

/* The parent deregisters and unmaps while a child that has the mappings lives on. */
static void child_outlives_registration(void)
{
	struct vt_param par = VT_PARAM;
	size_t len = 30 * PAGE;
	uint8_t *p = vt_map(len);
	struct vt_end e;
	struct ibv_mr *mr;
	int go[2];
	pid_t pid;

	vt_end_open(&e, &par);
	vt_pattern(p, len, 6);
	mr = vt_reg(&e, p + 10, len - 20, VT_ACCESS_ALL);
	CHECK_EQ(pipe(go), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		char c;

		close(go[1]);
		_exit(read(go[0], &c, 1) == 0 && vt_mismatch(p, len, 6) < 0 ? 0 : 1);
	}
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_PATTERN(p, len, 6);
	memset(p, 0, len);
	CHECK(munmap(p, len) == 0);
	vt_end_close(&e);
	close(go[1]);
	CHECK_EQ(vt_child_status(pid), 0);
}

VT_MAIN({ "threads_stores_during_registration", stores_during_registration, 0 },
	{ "threads_syscalls_during_registration", syscalls_during_registration, 0 },
	{ "threads_neighbours", neighbours, 0 }, { "threads_eight", eight_threads, 0 },
	{ "fork_child_sees_snapshot", child_sees_snapshot, 0 },
	{ "fork_child_sees_snapshot_of_much", child_sees_snapshot_of_much, 0 },
	{ "fork_during_registration", fork_during_registration, 0 },
	{ "fork_spawn_and_system", spawn_and_system, 0 },
	{ "fork_child_opens_device", child_opens_device, 0 },
	{ "fork_child_exits", child_exits, 0 },
	{ "fork_child_outlives_registration", child_outlives_registration, 0 })
