/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_stall.c - ffr/mem/stall.c: what counts as a wait, and what a container owes for it. The time is the test's.
 */
#include <fcntl.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>
#include <uv.h>

#include "tests/rig/unit/unit.h"
#include "ffr/mem/stall.h"

static uint64_t now, cpu;
static long num_sleeps;

static uint64_t test_time(void)
{
	return now;
}

static uint64_t test_cpu(void)
{
	return cpu;
}

static int test_usage(int who, struct rusage *ru)
{
	(void)who;
	*ru = (struct rusage){ .ru_nvcsw = num_sleeps };
	return 0;
}

static uint64_t awaited; /* a CPU, ns */

static ssize_t test_pread(int fd, void *buf, size_t len, off_t off)
{
	(void)off;
	return fd == 7 ? snprintf(buf, len, "%llu %llu 5\n", 1234567ull,
				  (unsigned long long)awaited) :
			 -1;
}

#define pread	      test_pread
#define uv_hrtime     test_time
#define cpu_of_thread test_cpu
#define getrusage     test_usage
#include "ffr/mem/stall.c"

#define MS	1000000ull
#define SECONDS 1000000000ull

static struct container c;

static int setup(void **state)
{
	(void)state;
	c = (struct container){ .name = "web" };
	now = 1000 * SECONDS;
	return 0;
}

/* What is counted of ns in which the thread had the CPU for cpu_ns, and slept so often. */
static uint64_t counted(uint64_t ns, uint64_t cpu_ns, long slept)
{
	struct stall_wait w;

	stall_wait_begin(&w);
	now += ns;
	cpu += cpu_ns;
	num_sleeps += slept;
	return stall_waited(&w);
}

static void a_wait_is_sleep_or_cpu_time(void **state)
{
	(void)state;
	assert_int_equal(counted(0, 0, 0), 0);
	assert_int_equal(counted(WAIT_MIN_NS - 1, WAIT_MIN_NS - 1, 3), 0); /* what the work takes */
	assert_int_equal(counted(250 * MS, 1000, 1), 250 * MS);		   /* behind a lock */
	assert_int_equal(counted(250 * MS, 240 * MS, 0), 240 * MS); /* at a lock that it spins on */
	assert_int_equal(counted(250 * MS, 1000, 0), 0);	    /* it had no CPU */
	assert_int_equal(counted(250 * MS, WAIT_MIN_NS - 1, 0), 0);
}

/* What the thread slept while others had the CPUs, as long as the kernel tells how long that was. */
static void time_without_a_cpu_is_nobodys(void **state)
{
	struct stall_wait w;

	(void)state;
	schedstat = 7;
	stall_wait_begin(&w);
	now += 250 * MS;
	awaited += 230 * MS;
	num_sleeps++;
	assert_int_equal(stall_waited(&w), 20 * MS);
	awaited += 15 * MS;
	assert_int_equal(stall_waited(&w), 0);
	awaited += 10 * MS; /* clocks differ a little */
	assert_int_equal(stall_waited(&w), 0);
	assert_int_equal(counted(250 * MS, 1000, 1), 250 * MS);
	schedstat = -1;
	stall_wait_begin(&w);
	now += 250 * MS;
	awaited += 230 * MS;
	num_sleeps++;
	assert_int_equal(stall_waited(&w), 250 * MS);
}

static void debts_are_paid_by_time(void **state)
{
	(void)state;
	assert_false(stall_maps_no_file(&c));
	stall_charge(&c, 0);
	stall_charge(&c, STALL_FREE_NS);
	assert_false(stall_maps_no_file(&c));
	assert_int_equal(stall_left(&c, now), 0);
	stall_charge(&c, 50 * MS);
	assert_true(stall_maps_no_file(&c));
	assert_int_equal(stall_left(&c, now), 50 * MS * STALL_SHARE);
	assert_int_equal(stall_room_in(&c), (50 + STALL_FREE_NS / MS / 2) * STALL_SHARE + 1);
	assert_int_equal(c.stats.stalled_ns, STALL_FREE_NS + 50 * MS);
	now += 50 * MS * STALL_SHARE - STALL_SHARE;
	assert_true(stall_maps_no_file(&c));
	now += STALL_SHARE;
	assert_false(stall_maps_no_file(&c));
	/* the rest is still there, and goes as well */
	stall_charge(&c, MS);
	assert_true(stall_maps_no_file(&c));
	now += 1000 * SECONDS;
	stall_charge(&c, STALL_FREE_NS);
	assert_false(stall_maps_no_file(&c));
}

/* However often it is made to wait: one STALL_SHARE-th of the time, beside what is free. */
static void the_share_is_bounded(void **state)
{
	uint64_t from = now, waits = 0;

	(void)state;
	for (int i = 0; i < 100; i++) {
		now += stall_left(&c, now) + 1;
		stall_charge(&c, 300 * MS);
		waits += 300 * MS;
	}
	assert_true(waits <= (now - from) / STALL_SHARE + STALL_FREE_NS + 300 * MS + 100);
}

/* A session that loses its memory counts if it kept a runner waiting; a program that cuts off its files is none. */
static void memory_that_goes_counts(void **state)
{
	(void)state;
	for (int i = 0; i < 1000; i++)
		stall_memory_gone(&c, WAIT_MIN_NS - 1);
	assert_int_equal(c.stall.debt, 0);
	stall_memory_gone(&c, STALL_FREE_NS + 300 * MS);
	assert_int_equal(stall_left(&c, now), 300 * MS * STALL_SHARE);
}

/* While mappings of it wait to be unmapped, no others are made. */
static void it_has_mappings_that_wait(void **state)
{
	(void)state;
	c.stall.unmaps = 1;
	assert_true(stall_maps_no_file(&c));
	assert_int_equal(stall_room_in(&c), UNMAP_LOOK_NS / MS + 1);
	c.stall.unmaps = 0;
	assert_false(stall_maps_no_file(&c));
	assert_int_equal(stall_room_in(&c), 0);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(T(a_wait_is_sleep_or_cpu_time), T(time_without_a_cpu_is_nobodys),
			T(debts_are_paid_by_time), T(the_share_is_bounded),
			T(memory_that_goes_counts), T(it_has_mappings_that_wait));
}
