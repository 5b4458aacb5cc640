/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_filter.c - ffl/mem/filter.c: filters that the program installs while the library's thread works,
 * or sleeps. The last test installs one in this process. Not with ThreadSanitizer, which lets no child of a process with
 * threads start one.
 *
 * build: tests/rig/unit/region_rig.c tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c
 */
#include "tests/rig/unit/region_rig.h"
#include "ffl/mem/window.h"
#include "ffl/mem/region.h"

#include <dirent.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define MB ((size_t)1 << 20)

static struct sock_filter allow[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };
static struct sock_fprog program = { 1, allow };

static int setup(void **state)
{
	rg_setup(state);
	fake_shadow.has_heat = true;
	ffl_gate_init();
	return 0;
}

static int child_status(pid_t pid)
{
	int status;

	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

static long install(void)
{
	assert_int_equal(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
	return ffl_filter_seccomp(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
				  &program);
}

/* Filters that are refused, and what is no filter, or for this thread only, leave the gate open. */
static void the_gate_stays_open(void **state)
{
	struct sock_fprog empty = { 0, NULL };
	uint32_t action = SECCOMP_RET_ALLOW;
	pid_t pid;

	(void)state;
	errno = 0;
	assert_int_equal(ffl_filter_seccomp(SYS_seccomp, SECCOMP_SET_MODE_FILTER,
					    SECCOMP_FILTER_FLAG_TSYNC, &empty),
			 -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ffl_filter_seccomp(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action), 0);
	assert_true(ffl_gate_enter());
	/* a child that has copied the memory has no such thread: it waits for nobody */
	pid = (pid_t)syscall(SYS_clone, SIGCHLD, NULL, NULL, NULL, NULL);
	assert_true(pid >= 0);
	if (!pid)
		_exit(install() ? 1 : 0);
	assert_int_equal(child_status(pid), 0);
	ffl_gate_leave();
	assert_true(ffl_gate_enter());
	ffl_gate_leave();
}

static _Atomic int step;

static void *worker(void *arg)
{
	assert_true(ffl_gate_enter());
	step = 1;
	for (unsigned i = 0; i < 1000; i++) { /* who installs is waiting */
		assert_int_equal(step, 1);
		sched_yield();
	}
	step = 2;
	ffl_gate_leave();
	return arg;
}

/* In a child of its own, which keeps the filter. */
static void who_is_inside_is_waited_for(void **state)
{
	pid_t pid = fork();

	(void)state;
	assert_true(pid >= 0);
	if (!pid) {
		pthread_t t;

		ffl_gate_init();
		if (pthread_create(&t, NULL, worker, NULL))
			_exit(2);
		while (step < 1)
			sched_yield();
		if (install() || step != 2)
			_exit(3);
		step = 3;
		_exit(ffl_gate_enter() ? 4 : 0);
	}
	assert_int_equal(child_status(pid), 0);
}

/* The system call that the library's thread is in, as /proc/PID/syscall has it; -1: there is no such thread. */
static long thread_is_in(void)
{
	char path[64], name[32] = "";
	struct dirent *e;
	long nr = -1;
	DIR *d = opendir("/proc/self/task");
	FILE *f;

	assert_non_null(d);
	while (nr < 0 && (e = readdir(d))) {
		snprintf(path, sizeof(path), "/proc/self/task/%.20s/comm", e->d_name);
		f = fopen(path, "re");
		if (f && fgets(name, sizeof(name), f) && !strcmp(name, "ffl-heat\n")) {
			FILE *in;

			snprintf(path, sizeof(path), "/proc/self/task/%.20s/syscall", e->d_name);
			in = fopen(path, "re");
			if (!in || fscanf(in, "%ld", &nr) != 1)
				nr = 0x7fffffff; /* "running" */
			if (in)
				fclose(in);
		}
		if (f)
			fclose(f);
	}
	closedir(d);
	return nr;
}

/* An event that the router sent a moment too early. */
static void behind_the_gate_the_thread_only_reads(void **state)
{
	char *p = rg_map(2 * MB);
	struct ff_heat_event e = { .va = (uintptr_t)p, .len = MB };
	struct ibv_mr *mr;
	int unread = 1;

	(void)state;
	rg_need_uffd();
	if (!ffl_window_knows_pins()) {
		print_message("no UFFDIO_MOVE here\n");
		skip();
	}
	mr = rg_filled(p, 2 * MB, 7);
	assert_int_equal(thread_is_in(), SYS_read); /* from the moment on that it is registered */
	e.mr = mr->handle;
	assert_int_equal(install(), 0);
	assert_int_equal(send(fake_shadow.heat_fd, &e, sizeof(e), 0), sizeof(e));
	while (unread)
		assert_int_equal(ioctl(fake_shadow.heat_fd, SIOCOUTQ, &unread), 0);
	while (thread_is_in() != SYS_read)
		sched_yield();
	assert_int_equal(fake_shadow.dones, 0);
	assert_false(rg_is_shared(p));
	rg_gone(mr, p, 2 * MB, 7);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, rg_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(the_gate_stays_open),
		T(who_is_inside_is_waited_for),
		T(behind_the_gate_the_thread_only_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
