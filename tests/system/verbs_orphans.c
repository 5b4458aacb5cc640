/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/*
 * verbs_orphans.c - registered memory stays ordinary memory when the router dies. Threads drop pages all the time, by the
 * bare system call, and look whether they are zeros. verbs_orphans.sh, which kills routers meanwhile, says what is to
 * be done, a word a line, and waits for the same word:
 *
 *	open	open the device, and register memory that is new, beside what there is
 *	check	all of it, from here: drop, unmap, move, grow, fork
 *	turns	wait until each thread has been through all of it
 *	close	close the devices
 *	unmap	end the threads, and unmap all
 */
#include "tests/rig/verbs/vt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE	    4096u
#define MAX_OPEN    16u
#define NUM_THREADS 2u
#define ZONE	    ((size_t)24 * PAGE) /* of one thread in a buffer */
#define MINE	    (NUM_THREADS * ZONE)
#define LEN	    (MINE + 16 * PAGE)
#define GROWS	    ((size_t)16 * PAGE)

static struct {
	struct ibv_context *ctx;
	uint8_t *buf, *grows;
} one[MAX_OPEN];
static atomic_uint num_open;
static atomic_ulong turns[NUM_THREADS];
static atomic_bool stop;

static void drop(void *p, size_t len)
{
	CHECK_EQ(syscall(SYS_madvise, p, len, MADV_DONTNEED), 0);
}

/* Some pages of a thread's part: filled, dropped, zero, filled again, and all others are as they were. */
static void drop_some(uint8_t *zone, uint32_t *rnd)
{
	size_t from = vt_rand(rnd) % (ZONE / PAGE), num = 1 + vt_rand(rnd) % (ZONE / PAGE - from);
	uint8_t *p = zone + from * PAGE;

	CHECK(vt_all(zone, ZONE, 0x5a));
	drop(p, num * PAGE);
	if (vt_rand(rnd) % 2)
		CHECK(vt_all(p, num * PAGE, 0));
	memset(p, 0x5a, num * PAGE);
	CHECK(vt_all(zone, ZONE, 0x5a));
}

static void *drops(void *arg)
{
	unsigned i = (unsigned)(uintptr_t)arg;
	uint32_t rnd = i + 1;

	while (!stop) {
		for (unsigned k = 0; k < num_open && !stop; k++)
			drop_some(one[k].buf + i * ZONE, &rnd);
		turns[i]++;
	}
	return NULL;
}

static bool is_shadow(const void *p)
{
	FILE *f = fopen("/proc/self/maps", "r");
	unsigned long from, to;
	char line[512];
	bool is = false;

	CHECK(f);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from <= (uintptr_t)p &&
		    to > (uintptr_t)p)
			is = strstr(line, "freeflow-shadow");
	fclose(f);
	return is;
}

static void *reg_new(struct ibv_pd *pd, size_t len, uint8_t byte)
{
	uint8_t *p = vt_map(len);

	memset(p, byte, len);
	CHECK(ibv_reg_mr(pd, p, len, VT_ACCESS_ALL));
	if (!is_shadow(p) || !is_shadow(p + len - 1))
		vt_skip("memory is not shared with the router here");
	return p;
}

static void do_open(void)
{
	unsigned k = num_open;
	struct ibv_pd *pd;

	CHECK(k < MAX_OPEN);
	one[k].ctx = vt_open_device();
	pd = CHECK_PTR(ibv_alloc_pd(one[k].ctx));
	one[k].buf = reg_new(pd, LEN, 0x5a);
	one[k].grows = reg_new(pd, GROWS, 0x3c);
	num_open++;
}

static void check_child(const uint8_t *p, size_t len)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid)
		_exit(vt_all(p, len, 0x77) ? 0 : 1);
	CHECK_EQ(vt_child_status(pid), 0);
}

static void check_one(unsigned k)
{
	uint8_t *p = one[k].buf + MINE, *to;

	memset(p, 0x77, 16 * PAGE);
	check_child(p, 16 * PAGE);
	drop(p + 2 * PAGE, 3 * PAGE);
	CHECK(vt_all(p, 2 * PAGE, 0x77) && vt_all(p + 2 * PAGE, 3 * PAGE, 0) &&
	      vt_all(p + 5 * PAGE, 11 * PAGE, 0x77));
	p = one[k].grows;
	CHECK(vt_all(p, GROWS, 0x3c));
	to = mremap(p, GROWS, 2 * GROWS, MREMAP_MAYMOVE);
	CHECK(to != MAP_FAILED);
	CHECK(vt_all(to, GROWS, 0x3c) && vt_all(to + GROWS, GROWS, 0));
	drop(to, PAGE);
	CHECK(vt_all(to, PAGE, 0) && vt_all(to + PAGE, GROWS - PAGE, 0x3c));
	CHECK(!munmap(to + GROWS, GROWS));
	memset(to, 0x3c, PAGE);
	one[k].grows = to;
}

static void do_turns(void)
{
	for (unsigned i = 0; i < NUM_THREADS; i++) {
		unsigned long before = turns[i];

		WAIT_FOR(turns[i] >= before + 2);
	}
}

static void do_close(void)
{
	for (unsigned k = 0; k < num_open; k++)
		if (one[k].ctx)
			ibv_close_device(one[k].ctx);
	for (unsigned k = 0; k < num_open; k++)
		one[k].ctx = NULL;
}

static void do_unmap(pthread_t *t)
{
	stop = true;
	for (unsigned i = 0; i < NUM_THREADS; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	for (unsigned k = 0; k < num_open; k++)
		CHECK(!munmap(one[k].buf, LEN) && !munmap(one[k].grows, GROWS));
}

static void run(void)
{
	pthread_t t[NUM_THREADS];
	char word[64];

	for (unsigned i = 0; i < NUM_THREADS; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, drops, (void *)(uintptr_t)i), 0);
	while (scanf("%63s", word) == 1) {
		if (!strcmp(word, "open"))
			do_open();
		else if (!strcmp(word, "turns"))
			do_turns();
		else if (!strcmp(word, "close"))
			do_close();
		else if (!strcmp(word, "unmap"))
			do_unmap(t);
		else
			for (unsigned k = 0; k < num_open; k++)
				check_one(k);
		printf("%s\n", word);
		fflush(stdout);
	}
}

VT_MAIN({ "orphans", run, 300 })
