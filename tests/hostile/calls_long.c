/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c tests/rig/verbs/order.c -lpthread */
/*
 * calls_long.c - for calls_long.sh: control calls that are made to last, in one container
 * ($FFL_SOCKET). The router answers a client of another container ($FF_VICTIM) before they have
 * ended, or while they wait for a lock of the kernel's. The order shows that, whoever has the CPUs
 * (rig/verbs/order.h). How long the other one waits is measured by make bench (control-wait).
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sockios.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/verbs/order.h"
#include "tests/rig/verbs/raw.h"

#define PAGES 60000u /* mappings; a process may have 65,530 */
#define MRS   30000u
#define CALLS 32u /* the victim's, two turns of the router at least */

static struct raw bad, victim;
static unsigned place[ORDER_MAX];

static uint32_t bad_open(struct raw *r)
{
	struct ff_alloc_pd_resp pd;

	raw_open(r);
	RAW_CALL(r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	return pd.pd;
}

static void victim_ask(unsigned n)
{
	while (n--)
		CHECK(raw_ask(&victim, FF_MSG_QUERY_PORT, &(struct ff_query_port_req){ .port = 1 },
			      sizeof(struct ff_query_port_req), NULL, 0, 0));
}

static void victim_answers(unsigned n)
{
	struct ff_query_port_resp resp;

	while (n--)
		CHECK_EQ(raw_answer(&victim, FF_MSG_QUERY_PORT, n, &resp, sizeof(resp)), 0);
}

/* Ask for the registration of shared mappings. */
static void reg_ask(struct raw *r, uint32_t pd, const void *p, uint64_t len)
{
	struct ff_mr_run run = { .va = (uintptr_t)p, .len = len, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_req req = {
		.addr = run.va, .length = len, .iova = run.va, .pd = pd, .access = VT_ACCESS_ALL
	};

	CHECK(raw_ask(r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1));
}

static void reg_answer(struct raw *r)
{
	struct ff_dereg_mr_resp none;
	struct ff_reg_mr_resp mr;

	CHECK_EQ(raw_answer(r, FF_MSG_REG_MR, 0, &mr, sizeof(mr)), 0);
	RAW_CALL(r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
}

/* ---- calls and ends in parts ----------------------------------------------------------------- */

/* A claim on very many mappings is answered behind a call that comes later. */
static void many_mappings(void)
{
	const char *maps = raw_mappings(PAGES);
	unsigned claim, call;
	struct order o;
	uint32_t pd;

	raw_open_victim(&victim);
	pd = bad_open(&bad);
	order_begin(&o);
	reg_ask(&bad, pd, maps, PAGES * 4096ull);
	claim = order_answer(&o, bad.sock);
	victim_ask(1);
	call = order_answer(&o, victim.sock);
	order_end(&o, place);
	victim_answers(1);
	reg_answer(&bad);
	CHECK(place[call] < place[claim]);
}

/*
 * A container has very many sessions that register memory: a call of another one comes before the
 * last of them.
 */
static void many_sessions(void)
{
	enum { SESSIONS = 200, CLAIM = 16 };
	static struct raw r[SESSIONS];
	const char *maps = raw_mappings(CLAIM);
	unsigned claim[SESSIONS], call, before = 0;
	uint32_t pd[SESSIONS];
	struct order o;

	raw_open_victim(&victim);
	for (unsigned i = 0; i < SESSIONS; i++)
		pd[i] = bad_open(&r[i]);
	order_begin(&o);
	for (unsigned i = 0; i < SESSIONS; i++) {
		reg_ask(&r[i], pd[i], maps, CLAIM * 4096ull);
		claim[i] = order_taken(&o, r[i].sock);
	}
	victim_ask(1);
	call = order_answer(&o, victim.sock);
	order_end(&o, place);
	victim_answers(1);
	for (unsigned i = 0; i < SESSIONS; i++) {
		before += place[claim[i]] < place[call];
		reg_answer(&r[i]);
	}
	printf("%s: %u requests of %u were taken before\n", vt_case_name(), before, SESSIONS);
	CHECK(before < SESSIONS);
}

static void mrs_make(struct raw *r, uint32_t pd, unsigned n)
{
	struct ff_alloc_null_mr_resp mr;

	while (n--)
		RAW_CALL(r, ALLOC_NULL_MR, (&(struct ff_alloc_null_mr_req){ .pd = pd }), &mr);
}

/*
 * A session ends that has as many MRs as it may: calls of another container go on. They are MRs of a page that is
 * shared, whose end takes the router many more turns than the victim's calls.
 */
static void many_mrs(void)
{
	const char *page = raw_mappings(1);
	struct ff_reg_mr_resp mr;
	unsigned end, calls;
	struct order o;
	uint32_t pd;
	int async;

	raw_open_victim(&victim);
	pd = bad_open(&bad);
	for (unsigned i = 0; i < MRS; i++) {
		reg_ask(&bad, pd, page, 4096);
		CHECK_EQ(raw_answer(&bad, FF_MSG_REG_MR, 0, &mr, sizeof(mr)), 0);
	}
	async = dup(bad.async_fd); /* the router closes the other end of it last */
	order_begin(&o);
	raw_close(&bad);
	end = order_answer(&o, async);
	victim_ask(CALLS);
	calls = order_taken(&o, victim.sock);
	order_end(&o, place);
	victim_answers(CALLS);
	CHECK(place[calls] < place[end]);
}

#define SESSIONS 100u

static struct crowd {
	_Atomic bool ready;
	int async[SESSIONS];
} * crowd;

static pid_t crowd_make(void)
{
	static struct raw r[SESSIONS];
	pid_t pid;

	crowd = mmap(NULL, sizeof(*crowd), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	CHECK(crowd != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (pid)
		return pid;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (unsigned i = 0; i < SESSIONS; i++) {
		mrs_make(&r[i], bad_open(&r[i]), MRS / SESSIONS);
		crowd->async[i] = r[i].async_fd;
	}
	crowd->ready = true;
	for (;;)
		pause();
}

static int of_process(pid_t pid, int fd)
{
	int pidfd = (int)syscall(SYS_pidfd_open, pid, 0), own;

	own = (int)syscall(SYS_pidfd_getfd, pidfd, fd, 0);
	if (own < 0)
		FAIL("pidfd_getfd: %s", strerror(errno));
	close(pidfd);
	return own;
}

/* A process dies whose sessions have as many MRs together: the router hears of all ends at once. */
static void end_of_many_sessions(void)
{
	unsigned end[SESSIONS], calls, before = 0;
	pid_t pid = crowd_make();
	int async[SESSIONS];
	struct order o;

	raw_open_victim(&victim);
	WAIT_FOR(crowd->ready);
	for (unsigned i = 0; i < SESSIONS; i++)
		async[i] = of_process(pid, crowd->async[i]);
	order_begin(&o);
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, NULL, 0) == pid);
	for (unsigned i = 0; i < SESSIONS; i++)
		end[i] = order_answer(&o, async[i]);
	victim_ask(CALLS);
	calls = order_taken(&o, victim.sock);
	order_end(&o, place);
	victim_answers(CALLS);
	for (unsigned i = 0; i < SESSIONS; i++)
		before += place[end[i]] < place[calls];
	printf("%s: %u sessions of %u ended before\n", vt_case_name(), before, SESSIONS);
	CHECK(before < SESSIONS);
}

/* ---- locks of the kernel's ------------------------------------------------------------------- */

#define SEEN 5u

static bool is_taken(const struct raw *r)
{
	int unread = 0;

	CHECK(!ioctl(r->sock, SIOCOUTQ, &unread));
	return !unread;
}

/*
 * Wait until the lock is held, have the router take a request that needs the lock, and call as the
 * victim. The number of the probe's call if the victim was answered while the probe was stuck in
 * it, or 0.
 */
static uint64_t answered_meanwhile(const struct probe *p, pid_t holder, void (*ask)(struct raw *r),
				   struct raw *r)
{
	uint64_t stuck;

	WAIT_FOR((stuck = probe_held(p, holder)));
	ask(r);
	WAIT_FOR(is_taken(r));
	victim_ask(1);
	victim_answers(1);
	return probe_stuck(p) == stuck ? stuck : 0;
}

static void lock_is_held(const struct probe *p, pid_t holder, void (*ask)(struct raw *r),
			 void (*finish)(struct raw *r), struct raw *r)
{
	uint64_t until = vt_deadline(), last = 0;
	unsigned seen = 0, asked = 0;

	raw_open_victim(&victim);
	while (seen < SEEN && vt_now() < until) {
		uint64_t stuck = answered_meanwhile(p, holder, ask, r);

		seen += stuck && stuck != last;
		last = stuck ? stuck : last;
		asked++;
		finish(r);
	}
	printf("%s: asked %u times, another was answered meanwhile %u times\n", vt_case_name(),
	       asked, seen);
	CHECK_EQ(seen, SEEN);
	kill(p->pid, SIGKILL);
	kill(holder, SIGKILL);
	CHECK(waitpid(p->pid, NULL, 0) == p->pid && waitpid(holder, NULL, 0) == holder);
}

/*
 * A process whose fork() holds the lock of its address space for long: each copies one mapping
 * after the other.
 */
static struct forker {
	_Atomic bool ready;
	struct probe probe;
	int sock;
	uint32_t pd;
	uint8_t page[FF_PAGE] __attribute__((aligned(FF_PAGE))); /* to be registered */
} * forker;

static void forks(void)
{
	raw_split_memory(PAGES);
	forker->pd = bad_open(&bad);
	forker->sock = bad.sock;
	forker->ready = true;
	for (;;) {
		pid_t pid = fork();

		if (!pid)
			_exit(0);
		CHECK(pid > 0 && waitpid(pid, NULL, 0) == pid);
	}
}

static void touch_forker(void *arg, uint64_t i)
{
	char c;

	(void)i;
	CHECK(pread(*(const int *)arg, &c, 1, (off_t)(uintptr_t)forker->page) == 1);
}

static void forker_reg(struct raw *r)
{
	reg_ask(r, forker->pd, forker->page, FF_PAGE);
}

static void forks_hold_the_lock(void)
{
	struct raw r = { .sock = -1 };
	char path[32];
	pid_t pid;
	int mem;

	forker = mmap(NULL, sizeof(*forker), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	CHECK(forker != MAP_FAILED);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		forks();
	}
	WAIT_FOR(forker->ready);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	mem = open(path, O_RDONLY | O_CLOEXEC);
	CHECK(mem >= 0);
	probe_start(&forker->probe, touch_forker, &mem);
	r.sock = of_process(pid, forker->sock);
	r.seq = 1; /* it has allocated the PD */
	lock_is_held(&forker->probe, pid, forker_reg, reg_answer, &r);
}

#define MOUNTS 8000u /* copying them takes longer than a call */

struct spaces {
	struct probe probe;
	_Atomic bool ready;
	_Atomic int err;
};

/*
 * Each new mount namespace is a copy of the one before, and the lock of all mounts is held for all
 * of it.
 */
static void spaces(struct spaces *s)
{
	if (!raw_mounts(MOUNTS))
		s->err = errno ? errno : EPERM;
	s->ready = true;
	while (!s->err)
		CHECK(!unshare(CLONE_NEWNS));
	pause();
}

static void read_mounts(void *arg, uint64_t i)
{
	char c;

	(void)i;
	CHECK(pread(*(const int *)arg, &c, 1, 0) == 1);
}

/* The router looks for a client that says HELLO among the mounts. */
static void hello_ask(struct raw *r)
{
	struct ff_challenge_resp answer;

	raw_connect(r);
	RAW_CALL(r, CHALLENGE, &(struct ff_challenge_req){ 0 }, &answer);
	memcpy(r->nonce, answer.nonce, sizeof(r->nonce));
	CHECK(raw_hello(r));
}

/* It may be refused where mounts come and go meanwhile, of other tests. */
static void hello_end(struct raw *r)
{
	uint8_t answer[512];
	unsigned n = 0;
	int fds[8];

	(void)raw_recv(r, answer, sizeof(answer), fds, &n);
	while (n)
		close(fds[--n]);
	raw_close(r);
}

static void mounts_hold_the_lock(void)
{
	struct spaces *s =
		mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	int table;
	pid_t pid;

	/*
	 * with a /proc of its own, as in any container: nobody needs the mounts to know the host's
	 * /proc
	 */
	if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("proc", "/proc", "proc", 0, NULL))
		vt_skip("no mount namespaces here: %s", strerror(errno));
	table = open("/proc/self/mounts", O_RDONLY | O_CLOEXEC);
	CHECK(table >= 0 && s != MAP_FAILED);
	if (sysconf(_SC_NPROCESSORS_ONLN) < 2)
		vt_skip("the process that copies mounts has the only CPU");
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		spaces(s);
	}
	WAIT_FOR(s->ready);
	if (s->err)
		vt_skip("no mount namespaces here: %s", strerror(s->err));
	probe_start(&s->probe, read_mounts, &table);
	lock_is_held(&s->probe, pid, hello_ask, hello_end, &bad);
}

VT_MAIN({ "long_many_mappings", many_mappings, 180 }, { "long_many_sessions", many_sessions, 180 },
	{ "long_end_of_many_mrs", many_mrs, 180 },
	{ "long_end_of_many_sessions", end_of_many_sessions, 180 },
	{ "long_forks", forks_hold_the_lock, 180 }, { "long_mounts", mounts_hold_the_lock, 180 })
