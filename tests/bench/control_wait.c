/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * control_wait.c - control calls that are made to last: how long another client waits while one of them is served. Each
 * case prints the longest wait of an attempt, the best of some attempts, because the machine has other work, too. What
 * must hold on any machine is checked by tests/hostile/calls_long.
 *
 *	control_wait [CASE...]
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/verbs/raw.h"

#define PAGES	 60000u /* mappings; a process may have 65,530 */
#define MRS	 60000u
#define ATTEMPTS 8
#define WAIT_US	 5000.0 /* what is promised: no other attempt is needed */

static _Atomic bool stop;
static _Atomic uint64_t longest; /* us */
static _Atomic uint64_t rounds;

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Another client, which makes small calls. */
static void *other(void *arg)
{
	struct ff_query_port_resp resp;
	struct raw *r = arg;

	while (!stop) {
		double from = now_us(), took;

		RAW_CALL(r, QUERY_PORT, (&(struct ff_query_port_req){ .port = 1 }), &resp);
		took = now_us() - from;
		if (took > (double)longest)
			longest = (uint64_t)took;
		rounds++;
		usleep(20);
	}
	return NULL;
}

/* Run it some times: the longest wait while run() goes on, in microseconds, at the best of them. */
static uint64_t best_wait(void (*prepare)(void), void (*run)(void))
{
	uint64_t best = UINT64_MAX;
	pthread_t thread;
	struct raw r;

	raw_open(&r);
	for (int i = 0; i < ATTEMPTS; i++) {
		uint64_t from;

		prepare();
		stop = false;
		CHECK(!pthread_create(&thread, NULL, other, &r));
		from = rounds;
		WAIT_FOR(rounds > from + 10);
		longest = 0;
		run();
		from = rounds;
		WAIT_FOR(rounds > from + 10);
		stop = true;
		pthread_join(thread, NULL);
		if (longest < best)
			best = longest;
		if (best < (uint64_t)WAIT_US)
			break;
	}
	printf("%s: another waited %llu us at most\n", vt_case_name(), (unsigned long long)best);
	raw_close(&r);
	raw_router_serves();
	return best;
}

static struct raw bad;
static uint32_t bad_pd;
static char *maps;

static void bad_open(void)
{
	struct ff_alloc_pd_resp pd;

	raw_open(&bad);
	RAW_CALL(&bad, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	bad_pd = pd.pd;
}

static void nothing(void)
{
}

/* Registers shared mappings, and ends that. */
static void reg_shared(const void *p, uint64_t len)
{
	struct ff_mr_run run = { .va = (uintptr_t)p, .len = len, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = { .addr = run.va,
				     .length = run.len,
				     .iova = run.va,
				     .pd = bad_pd,
				     .access = VT_ACCESS_ALL };
	struct ff_reg_mr_resp mr;
	struct ff_dereg_mr_resp none;

	CHECK_EQ(raw_call_tail(&bad, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1, &mr,
			       sizeof(mr)),
		 0);
	RAW_CALL(&bad, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
}

/* One claim on a great many mappings of one page each. */
static void reg_maps(void)
{
	reg_shared(maps, PAGES * 4096ull);
}

static void many_mappings(void)
{
	bad_open();
	maps = raw_mappings(PAGES);
	(void)best_wait(nothing, reg_maps);
	raw_close(&bad);
}

static void mrs_make(void)
{
	struct ff_alloc_null_mr_resp mr;

	bad_open();
	for (unsigned i = 0; i < MRS; i++)
		RAW_CALL(&bad, ALLOC_NULL_MR, (&(struct ff_alloc_null_mr_req){ .pd = bad_pd }),
			 &mr);
}

static void bad_end(void)
{
	raw_close(&bad);
}

/* The end of a session that has as many MRs as it may. */
static void many_mrs(void)
{
	(void)best_wait(mrs_make, bad_end);
}

/* ---- a process with many sessions ---------------------------------------------------------- */

#define SESSIONS 100u

static pid_t crowd;

static void crowd_live(int ready)
{
	static struct raw r[SESSIONS];
	struct ff_alloc_null_mr_resp mr;
	struct ff_alloc_pd_resp pd;
	char c = 0;

	for (unsigned i = 0; i < SESSIONS; i++) {
		raw_open(&r[i]);
		RAW_CALL(&r[i], ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
		for (unsigned k = 0; k < MRS / SESSIONS; k++)
			RAW_CALL(&r[i], ALLOC_NULL_MR,
				 (&(struct ff_alloc_null_mr_req){ .pd = pd.pd }), &mr);
	}
	CHECK(write(ready, &c, 1) == 1);
	pause();
}

static void crowd_make(void)
{
	int ready[2];
	char c;

	CHECK(!pipe(ready));
	crowd = fork();
	CHECK(crowd >= 0);
	if (!crowd) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		crowd_live(ready[1]);
	}
	CHECK(read(ready[0], &c, 1) == 1);
	close(ready[0]);
	close(ready[1]);
}

static void crowd_die(void)
{
	kill(crowd, SIGKILL);
	CHECK(waitpid(crowd, NULL, 0) == crowd);
}

/* A process dies whose sessions have as many MRs together: the router hears of all ends at once. */
static void end_of_many_sessions(void)
{
	(void)best_wait(crowd_make, crowd_die);
}

/* ---- the lock of the client's address space ------------------------------------------------ */

#define HOLD_MS 400

/*
 * What the attacker and the others share: a page to register, and how long it held a lock of the
 * kernel's when it held it shortest.
 */
struct shared {
	uint8_t page[FF_PAGE];
	_Atomic uint64_t hold_us;
};

static struct shared *shared;

static void held_since(uint64_t from)
{
	uint64_t took = (uint64_t)now_us() - from;

	if (took < shared->hold_us)
		shared->hold_us = took;
}

static void *forks(void *arg)
{
	uint64_t end = *(const uint64_t *)arg;

	while ((uint64_t)now_us() < end) {
		uint64_t from = (uint64_t)now_us();
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		held_since(from);
		CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
	}
	return NULL;
}

/* A client whose fork() holds the lock for long registers shared memory, and says HELLO. A router that waits for the lock
 * waits for a whole fork() soon. */
static void forks_and_calls(void)
{
	uint64_t end = (uint64_t)now_us() + HOLD_MS * 1000;
	pthread_t thread;
	struct raw again;

	CHECK(!pthread_create(&thread, NULL, forks, &end));
	while ((uint64_t)now_us() < end) {
		reg_shared(shared->page, FF_PAGE);
		raw_open(&again);
		raw_close(&again);
	}
	pthread_join(thread, NULL);
}

/*
 * The attacker is a process of its own, because a victim in the same process would wait for that
 * address space, too. A fork() copies one mapping after the other, and holds the lock until the
 * last one.
 */
static void forks_prepare(void)
{
	raw_split_memory(PAGES);
	bad_open();
}

static void attack(void (*prepare)(void), void (*run)(void), int go, int done)
{
	char c = 0;

	prepare();
	do {
		CHECK(write(done, &c, 1) == 1);
		if (read(go, &c, 1) != 1)
			return;
		run();
	} while (true);
}

static int attack_go, attack_done;

static void attack_once(void)
{
	char c = 0;

	CHECK(write(attack_go, &c, 1) == 1 && read(attack_done, &c, 1) == 1);
}

/* run() of a process, of which prepare() is the beginning, holds a lock. Nobody else waits for it. */
static void hold(void (*prepare)(void), void (*run)(void))
{
	int go[2], done[2], status;
	pid_t pid;
	char c;

	CHECK(!pipe(go) && !pipe(done));
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(shared != MAP_FAILED);
	shared->hold_us = UINT64_MAX;
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(go[1]);
		close(done[0]);
		attack(prepare, run, go[0], done[1]);
		_exit(0);
	}
	close(go[0]);
	close(done[1]);
	attack_go = go[1];
	attack_done = done[0];
	CHECK(read(attack_done, &c, 1) == 1);
	(void)best_wait(nothing, attack_once);
	printf("%s: the lock is held for %llu us\n", vt_case_name(),
	       (unsigned long long)shared->hold_us);
	close(attack_go);
	CHECK(waitpid(pid, &status, 0) == pid && !status);
}

static void forks_hold_the_lock(void)
{
	hold(forks_prepare, forks_and_calls);
}

/* ---- the kernel's lock of all mounts ------------------------------------------------------- */

#define MOUNTS 8000u /* a mount namespace may have 100,000 */

static int spaces_go[2], spaces_done[2];

/* Each new mount namespace is a copy of the one before, and the lock is held for all of it. */
static void *spaces(void *arg)
{
	uint64_t end;

	if (!raw_mounts(MOUNTS))
		vt_skip("no mount namespaces here: %s", strerror(errno));
	CHECK(write(spaces_done[1], "", 1) == 1);
	while (read(spaces_go[0], &end, sizeof(end)) == sizeof(end)) {
		while ((uint64_t)now_us() < end) {
			uint64_t from = (uint64_t)now_us();

			CHECK(!unshare(CLONE_NEWNS));
			held_since(from);
		}
		CHECK(write(spaces_done[1], "", 1) == 1);
	}
	return arg;
}

static void spaces_prepare(void)
{
	pthread_t thread;
	char c;

	CHECK(!pipe(spaces_go) && !pipe(spaces_done));
	CHECK(!pthread_create(&thread, NULL, spaces, NULL));
	CHECK(read(spaces_done[0], &c, 1) == 1);
}

/* The router looks for a client that says HELLO among the mounts. */
static void spaces_and_calls(void)
{
	uint64_t end = (uint64_t)now_us() + HOLD_MS * 1000;
	char c;

	CHECK(write(spaces_go[1], &end, sizeof(end)) == sizeof(end));
	while ((uint64_t)now_us() < end)
		raw_knock(); /* refused where mounts come and go meanwhile, of other tests */
	CHECK(read(spaces_done[0], &c, 1) == 1);
}

static void mounts_hold_the_lock(void)
{
	hold(spaces_prepare, spaces_and_calls);
}

VT_MAIN({ "wait_mappings", many_mappings, 180 }, { "wait_mrs", many_mrs, 180 },
	{ "wait_sessions", end_of_many_sessions, 180 }, { "wait_forks", forks_hold_the_lock, 180 },
	{ "wait_mounts", mounts_hold_the_lock, 180 })
