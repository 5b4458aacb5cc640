/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/* test: netns */
/* all: docker */
/* timeout: 300 */
/*
 * verbs_seccomp.c - a program that allows itself what a program with verbs needs after it has registered its memory,
 * and is ended by any other call of any thread of its own.
 */
#include "tests/rig/verbs/vt_mem.h"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MB     ((size_t)1 << 20)
#define LEN    (4 * MB)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define ROUNDS 24u

#define ALLOW(nr)                                                                                  \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, nr, 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter strict[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
	ALLOW(SYS_read),
	ALLOW(SYS_write),
	ALLOW(SYS_futex),
	ALLOW(SYS_exit),
	ALLOW(SYS_exit_group),
	ALLOW(SYS_clock_gettime),
	ALLOW(SYS_clock_nanosleep),
	ALLOW(SYS_sched_yield),
	ALLOW(SYS_rt_sigprocmask),
	ALLOW(SYS_restart_syscall),
	/* posting, and polling: whether the router lives, and where the thread is */
	ALLOW(SYS_ppoll),
	ALLOW(SYS_getpid),
	ALLOW(SYS_sched_getaffinity),
	ALLOW(SYS_sched_setaffinity),
#ifdef SYS_poll
	ALLOW(SYS_poll),
#endif
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_filter lax[] = { BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW) };

/* By the system call itself, as a runtime that does without libc makes it. */
static long bare_seccomp(unsigned long flags, const struct sock_fprog *prog)
{
#ifdef __x86_64__
	long ret;

	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(SYS_seccomp), "D"(SECCOMP_SET_MODE_FILTER), "S"(flags), "d"(prog)
			 : "rcx", "r11", "memory");
	return ret;
#else
	register long nr __asm__("x8") = SYS_seccomp;
	register unsigned long x0 __asm__("x0") = SECCOMP_SET_MODE_FILTER, x1 __asm__("x1") = flags;
	register const void *x2 __asm__("x2") = prog;

	__asm__ volatile("svc #0" : "+r"(x0) : "r"(nr), "r"(x1), "r"(x2) : "memory", "cc");
	return (long)x0;
#endif
}

static void limit(bool bare)
{
	struct sock_fprog prog = { ARRAY_SIZE(strict), strict };

	CHECK_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	if (bare)
		CHECK_OK(bare_seccomp(SECCOMP_FILTER_FLAG_TSYNC, &prog));
	else
		CHECK_OK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC,
				 &prog));
}

struct two {
	struct vt_end a, b;
	uint8_t *from, *to;
	struct ibv_mr *mine, *theirs;
};

static void begin(struct two *t)
{
	struct vt_param par = VT_PARAM;

	par.access = ACCESS;
	par.len = 4096;
	vt_pair(&t->a, &t->b, &par);
	t->from = vt_map(LEN);
	t->to = vt_map(LEN);
	memset(t->from, 1, LEN);
	memset(t->to, 2, LEN);
	t->mine = vt_reg(&t->a, t->from, LEN, ACCESS);
	t->theirs = vt_reg(&t->b, t->to, LEN, ACCESS);
}

/* All of it. False: it did not come to be. No system call but sched_yield(). */
static bool write_all(struct two *t)
{
	struct ibv_sge sge = { (uintptr_t)t->from, LEN, t->mine->lkey };
	struct ibv_send_wr wr = vt_wr(IBV_WR_RDMA_WRITE, 1, &sge, IBV_SEND_SIGNALED);
	struct ibv_wc wc;
	int n;

	wr.wr.rdma.remote_addr = (uintptr_t)t->to;
	wr.wr.rdma.rkey = t->theirs->rkey;
	if (vt_post(&t->a, &wr))
		return false;
	while (!(n = ibv_poll_cq(t->a.scq, 1, &wc)))
		sched_yield();
	return n == 1 && wc.status == IBV_WC_SUCCESS;
}

/* Long enough for whatever the library would do: many times what it takes from a use to the replacing. */
static void go_on(struct two *t)
{
	uint64_t until = vt_now() + 200000000;

	do
		if (!write_all(t))
			_exit(3);
	while (vt_now() < until);
	_exit(memcmp(t->from, t->to, LEN) ? 4 : 0);
}

static void in_child(void (*fn)(unsigned), unsigned arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		fn(arg);
		_exit(5);
	}
	CHECK_EQ(vt_child_status(pid), 0);
}

static void before_the_first_write(unsigned bare)
{
	struct two t;

	begin(&t);
	limit(bare);
	go_on(&t);
}

static void seccomp_before_the_first_write(void)
{
	in_child(before_the_first_write, false);
	in_child(before_the_first_write, true);
}

static atomic_bool runs;

static void *traffic(void *arg)
{
	struct two *t = arg;

	runs = true;
	for (;;)
		if (!write_all(t))
			_exit(3);
	return NULL;
}

/* While another thread writes, at a moment between the first use and the end of the replacing. */
static void in_the_middle(unsigned round)
{
	struct two t;
	pthread_t thread;
	uint64_t until;

	begin(&t);
	CHECK_EQ(pthread_create(&thread, NULL, traffic, &t), 0);
	WAIT_FOR(runs);
	until = vt_now() + round * 50000000ull / ROUNDS;
	while (vt_now() < until)
		;
	limit(false);
	until = vt_now() + 100000000;
	while (vt_now() < until)
		sched_yield();
	_exit(0);
}

static void seccomp_in_the_middle(void)
{
	for (unsigned i = 0; i < ROUNDS; i++)
		in_child(in_the_middle, i);
}

/* The process has filters from the start, as in a container of Docker's: memory is replaced all the same. */
static void from_the_start(unsigned arg)
{
	struct sock_fprog prog = { ARRAY_SIZE(lax), lax };
	struct two t;

	(void)arg;
	CHECK_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK_OK(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &prog));
	begin(&t);
	for (unsigned i = 0; i < 4; i++)
		CHECK(write_all(&t));
	WAIT_FOR(vt_mem_shared(t.to, LEN) == LEN && vt_mem_shared(t.from, LEN) == LEN);
	_exit(0);
}

static void seccomp_from_the_start(void)
{
	in_child(from_the_start, 0);
}

/* Filters that came after the device was opened: the call that registers replaces all, and there is no thread. */
static void since_it_was_opened(unsigned arg)
{
	struct sock_fprog prog = { ARRAY_SIZE(lax), lax };
	struct vt_param par = VT_PARAM;
	struct two t = { 0 };

	(void)arg;
	vt_pair(&t.a, &t.b, &par);
	CHECK_OK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
	CHECK_OK(bare_seccomp(0, &prog));
	t.from = vt_map(LEN);
	memset(t.from, 1, LEN);
	t.mine = vt_reg(&t.a, t.from, LEN, ACCESS);
	CHECK_EQ(vt_mem_shared(t.from, LEN), LEN);
	_exit(0);
}

static void seccomp_since_it_was_opened(void)
{
	in_child(since_it_was_opened, 0);
}

VT_MAIN({ "seccomp_before_the_first_write", seccomp_before_the_first_write, 0 },
	{ "seccomp_in_the_middle", seccomp_in_the_middle, 0 },
	{ "seccomp_from_the_start", seccomp_from_the_start, 0 },
	{ "seccomp_since_it_was_opened", seccomp_since_it_was_opened, 0 })
