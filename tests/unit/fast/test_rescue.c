/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c */
/*
 * test_rescue.c - a thread that gets no CPU, since one of a higher class keeps it, is made SCHED_RR
 * until it has had some; who sleeps or runs is not. Real threads on one CPU; the time of the looks is
 * the test's.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/cpu.h"
#include "tests/rig/fakes/fake_backend.h"
#include "tests/rig/unit/rig.h"

#define LOOK	 (50 * NS_PER_MS)
#define BUDGET	 (2 * NS_PER_MS)
#define OWN_PRIO 2

static struct rig r;

/* The one that is looked after. */
static struct {
	pthread_t thread;
	pid_t tid;
	int ready, go, done; /* eventfds */
	/* its class: when it ran, after a little work, after its budget */
	_Atomic int met, kept, after;
	_Atomic bool quit, spin, spins;
	clockid_t clock;
} c;

static void put(int fd)
{
	assert_int_equal(eventfd_write(fd, 1), 0);
}

static void get(int fd)
{
	eventfd_t n;

	assert_int_equal(eventfd_read(fd, &n), 0);
}

static void burn(uint64_t ns)
{
	uint64_t end = cpu_of_thread() + ns;

	while (cpu_of_thread() < end)
		;
}

static int class_of(pid_t tid)
{
	return sched_getscheduler(tid) & ~SCHED_RESET_ON_FORK;
}

static void *control(void *arg)
{
	c.tid = gettid();
	r.f->host->rescue = rescue_create();
	put(c.ready);
	for (;;) {
		get(c.go);
		if (c.quit)
			return arg;
		c.met = class_of(0);
		rescue_spend(r.f->host->rescue);
		c.kept = class_of(0);
		burn(BUDGET);
		rescue_spend(r.f->host->rescue);
		c.after = class_of(0);
		while (c.spin)
			c.spins = true;
		c.spins = false;
		put(c.done);
	}
}

static void one_cpu(cpu_set_t *old)
{
	cpu_set_t one;
	int cpu = 0;

	assert_int_equal(sched_getaffinity(0, sizeof(*old), old), 0);
	while (!CPU_ISSET(cpu, old))
		cpu++;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
}

static cpu_set_t cpus;

static int setup(void **state)
{
	(void)state;
	fake_reset();
	rig_init(&r, &fake_ops);
	one_cpu(&cpus);
	c.quit = false;
	c.ready = eventfd(0, EFD_CLOEXEC);
	c.go = eventfd(0, EFD_CLOEXEC);
	c.done = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(pthread_create(&c.thread, NULL, control, NULL), 0);
	get(c.ready);
	assert_non_null(r.f->host->rescue);
	assert_int_equal(pthread_getcpuclockid(c.thread, &c.clock), 0);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	c.quit = true;
	put(c.go);
	assert_int_equal(pthread_join(c.thread, NULL), 0);
	rescue_free(r.f->host->rescue);
	r.f->host->rescue = NULL;
	close(c.ready);
	close(c.go);
	close(c.done);
	sched_setaffinity(0, sizeof(cpus), &cpus);
	rig_fini(&r);
	return 0;
}

static void wait_until_asleep(void)
{
	char path[64], text[128] = "";
	int fd;

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", c.tid);
	do {
		sched_yield();
		fd = open(path, O_RDONLY | O_CLOEXEC);
		assert_true(read(fd, text, sizeof(text) - 1) > 0);
		close(fd);
	} while (!strstr(text, ") S"));
}

static void look_after(uint64_t ns)
{
	r.f->now += ns;
	rescue_look(r.f);
}

/* From here on the other one does not run unless this thread sleeps. */
static bool keep_the_cpu(void)
{
	return !sched_set_attr(0, SCHED_FIFO, 0, OWN_PRIO, 0, 0);
}

static void one_that_waits(void **state)
{
	(void)state;
	for (int i = 0; i < 3; i++) {
		wait_until_asleep();
		if (!keep_the_cpu())
			skip();
		put(c.go);
		look_after(LOOK);
		look_after(LOOK - 1); /* not yet */
		assert_int_equal(class_of(c.tid), SCHED_OTHER);
		look_after(1);
		assert_int_equal(class_of(c.tid), SCHED_RR);
		look_after(LOOK); /* it is already */
		get(c.done);
		assert_int_equal(sched_set_attr(0, SCHED_OTHER, 0, 0, 0, 0), 0);
		assert_int_equal(c.met, SCHED_RR);
		assert_int_equal(c.kept, SCHED_RR);
		assert_int_equal(c.after, SCHED_OTHER);
		assert_int_equal(rescue_count(r.f->host->rescue), i + 1);
	}
}

static void one_that_sleeps(void **state)
{
	(void)state;
	wait_until_asleep();
	for (int i = 0; i < 5; i++) {
		look_after(LOOK);
		assert_int_equal(class_of(c.tid), SCHED_OTHER);
	}
	if (!keep_the_cpu())
		skip();
	put(c.go); /* the looks at the sleeper do not count */
	look_after(LOOK);
	assert_int_equal(class_of(c.tid), SCHED_OTHER);
	assert_int_equal(sched_set_attr(0, SCHED_OTHER, 0, 0, 0, 0), 0);
	get(c.done);
	assert_int_equal(c.met, SCHED_OTHER);
}

static void one_that_runs(void **state)
{
	uint64_t cpu;

	(void)state;
	c.spin = true;
	put(c.go);
	while (!c.spins)
		sched_yield();
	for (int i = 0; i < 5; i++) {
		look_after(LOOK);
		assert_int_equal(class_of(c.tid), SCHED_OTHER);
		cpu = cpu_of_clock(c.clock);
		while (cpu_of_clock(c.clock) == cpu)
			sched_yield();
	}
	c.spin = false;
	get(c.done);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(one_that_waits, setup, teardown),
			cmocka_unit_test_setup_teardown(one_that_sleeps, setup, teardown),
			cmocka_unit_test_setup_teardown(one_that_runs, setup, teardown));
}
