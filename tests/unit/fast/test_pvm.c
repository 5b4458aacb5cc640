/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/lib/rig.c -Wl,--wrap=pwrite,--wrap=pthread_create */
/*
 * test_pvm.c - a client whose memory stalls the router stalls itself only. Real threads: a child
 * process owns a page that nobody fills in (userfaultfd), a runner writes to it. And writes to a page of
 * our own that do not come back before the test says so, as those to a FUSE server's file.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffr/abi/ff_vma.h"
#include "tests/lib/rig.h"

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define DEADLINE   (10000 * NS_PER_MS)

/* The child's page and the word by which it is told to fill it in. */
struct child {
	pid_t pid;
	uint8_t *page; /* in the child */
	_Atomic uint32_t *go;
};

static int open_uffd(void)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC);
	struct uffdio_api api = { .api = UFFD_API };
	int fd;

	if (dev < 0)
		return -1;
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);
	close(dev);
	return fd >= 0 && ioctl(fd, UFFDIO_API, &api) == 0 ? fd : -1;
}

static void child_main(int uffd, uint8_t *page, _Atomic uint32_t *go)
{
	struct uffdio_register reg = { .range = { (uintptr_t)page, 4096 },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	struct uffdio_zeropage zero = { .range = { (uintptr_t)page, 4096 } };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (ioctl(uffd, UFFDIO_REGISTER, &reg))
		_exit(1);
	atomic_store(go, 1); /* ready */
	while (atomic_load(go) != 2)
		sched_yield();
	if (ioctl(uffd, UFFDIO_ZEROPAGE, &zero))
		_exit(2);
	while (atomic_load(go) != 3)
		sched_yield();
	_exit(memcmp(page, "stalled!", 8) ? 3 : 0);
}

static bool child_start(struct child *c)
{
	uint64_t end = fast_clock() + DEADLINE;

	c->go = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	c->page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	c->pid = fork();
	if (!c->pid) {
		int uffd = open_uffd();

		if (uffd < 0)
			_exit(4);
		child_main(uffd, c->page, c->go);
	}
	while (atomic_load(c->go) != 1 && fast_clock() < end && waitpid(c->pid, NULL, WNOHANG) == 0)
		sched_yield();
	return atomic_load(c->go) == 1;
}

/* The child's memory, as it would hand it over itself. */
static void child_memory(const struct child *c, struct session *s)
{
	char path[32];
	int mem, maps;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	assert_true(mem >= 0);
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)c->pid);
	maps = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(maps >= 0);
	assert_int_equal(pvm_session_add(s, mem, maps), 0);
	close(maps);
	close(mem);
}

static bool wait_cqe(struct rig_cq *cq, struct ff_cqe *e)
{
	uint64_t end = fast_clock() + DEADLINE;

	while (fast_clock() < end) {
		if (rig_poll(cq, e))
			return true;
		sched_yield();
	}
	return false;
}

static void write_to(struct rig *r, struct rig_qp *q, struct mr *from, struct mr *to, uint64_t id)
{
	struct ff_sqe *e = rig_sqe(q, FF_OP_WRITE, id);

	rig_sge(e, from, from->addr, 8);
	e->remote_addr = to->addr;
	e->rkey = to->rkey;
	fast_lock(r->f);
	rig_post(r, q);
	fast_unlock(r->f);
}

static struct rig_qp *connected(struct rig *r, struct rig_ses *a, struct rig_cq *cqa,
				struct rig_ses *b, struct rig_cq *cqb, struct rig_qp **other)
{
	struct rig_qp *q = rig_qp(r, a, IBV_QPT_RC, cqa, cqa, NULL);

	*other = rig_qp(r, b, IBV_QPT_RC, cqb, cqb, NULL);
	rig_connect(r, q, *other);
	rig_connect(r, *other, q);
	return q;
}

/* Which threads of this process are kept from a CPU, and from how many in all. */
static void kept_off(int *threads, int *cpus)
{
	DIR *d = opendir("/proc/self/task");
	cpu_set_t all, set;
	struct dirent *e;

	*threads = *cpus = 0;
	assert_non_null(d);
	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	while ((e = readdir(d))) {
		int less;

		if (e->d_name[0] == '.' || sched_getaffinity(atoi(e->d_name), sizeof(set), &set))
			continue;
		less = CPU_COUNT(&all) - CPU_COUNT(&set);
		*threads += less > 0;
		*cpus += less;
	}
	closedir(d);
}

/* The watcher, and nobody else, is not to be where the runner is: not who was it before either. */
static void assert_watcher_apart(void)
{
	uint64_t end = fast_clock() + DEADLINE;
	int threads, cpus;
	cpu_set_t all;

	assert_int_equal(sched_getaffinity(0, sizeof(all), &all), 0);
	if (CPU_COUNT(&all) < 2)
		return;
	do {
		kept_off(&threads, &cpus);
	} while ((threads != 1 || cpus != 1) && fast_clock() < end);
	assert_int_equal(threads, 1);
	assert_int_equal(cpus, 1);
}

enum ending { FILLED_IN, KILLED, QP_DESTROYED };

static void stall(enum ending ending)
{
	static uint8_t src[4096] = "stalled!", dst[4096];
	struct rig_ses *me, *bad, *good;
	struct rig_cq *cq, *cq_bad, *cq_good;
	struct rig_qp *to_bad[2], *to_good, *peer_bad[2], *peer_good;
	struct mr *from, *at_bad, *at_good;
	struct ff_cqe e;
	struct child c;
	struct rig r;
	int st;

	rig_init(&r, &soft_ops);
	pvm_patience = DEADLINE;
	if (!child_start(&c)) {
		waitpid(c.pid, NULL, 0);
		rig_fini(&r);
		skip();
	}
	me = rig_session(&r, 0);
	bad = rig_session(&r, 1);
	good = rig_session(&r, 2);
	pvm_session_del(r.f, &bad->s); /* the child's address space instead of ours */
	child_memory(&c, &bad->s);
	cq = rig_cq(&r, me, 64, false);
	cq_bad = rig_cq(&r, bad, 64, false);
	cq_good = rig_cq(&r, good, 64, false);
	for (int i = 0; i < 2; i++)
		to_bad[i] = connected(&r, me, cq, bad, cq_bad, &peer_bad[i]);
	to_good = connected(&r, me, cq, good, cq_good, &peer_good);
	from = rig_mr(&r, me, src, sizeof(src), ALL_ACCESS);
	at_bad = rig_mr_pvm(&r, bad, c.page, 4096, ALL_ACCESS);
	at_good = rig_mr(&r, good, dst, sizeof(dst), ALL_ACCESS);

	r.f->conf.realtime = false;
	assert_int_equal(fast_start(r.f), 0);
	assert_watcher_apart();
	write_to(&r, to_bad[0], from, at_bad, 1);
	write_to(&r, to_bad[1], from, at_bad, 2);
	/* others are served meanwhile, many times over */
	for (uint64_t i = 0; i < 1000; i++) {
		write_to(&r, to_good, from, at_good, 100 + i);
		assert_true(wait_cqe(cq, &e));
		assert_int_equal(e.wr_id, 100 + i);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	assert_watcher_apart();
	fast_lock(r.f);
	assert_in_range(bad->s.stats.pvm_stalls, 1, 2);
	if (ending == QP_DESTROYED) { /* with the call still out */
		rig_qp_free(&r, to_bad[0]);
		to_bad[0] = NULL;
	}
	fast_unlock(r.f);
	if (ending == KILLED)
		kill(c.pid, SIGKILL);
	else
		atomic_store(c.go, 2);
	for (int i = ending == QP_DESTROYED; i < 2; i++) {
		assert_true(wait_cqe(cq, &e));
		assert_in_range(e.wr_id, 1, 2);
		/* the call under way may end well or not when its target dies */
		if (ending != KILLED)
			assert_int_equal(e.status, IBV_WC_SUCCESS);
		else if (e.status != IBV_WC_SUCCESS)
			assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
	}
	/* the worker has gone home: calls are made on the runner again */
	write_to(&r, to_good, from, at_good, 9);
	assert_true(wait_cqe(cq, &e));
	atomic_store(c.go, 3);
	waitpid(c.pid, &st, 0);
	if (ending != KILLED)
		assert_int_equal(st, 0);
	fast_stop(r.f);

	for (int i = 0; i < 2; i++) {
		if (to_bad[i])
			rig_qp_free(&r, to_bad[i]);
		rig_qp_free(&r, peer_bad[i]);
	}
	rig_qp_free(&r, to_good);
	rig_qp_free(&r, peer_good);
	rig_mr_free(&r, from);
	rig_mr_free(&r, at_bad);
	rig_mr_free(&r, at_good);
	rig_cq_free(&r, cq);
	rig_cq_free(&r, cq_bad);
	rig_cq_free(&r, cq_good);
	rig_session_free(&r, me);
	rig_session_free(&r, bad);
	rig_session_free(&r, good);
	rig_fini(&r);
	munmap(c.page, 4096);
	munmap((void *)c.go, 4096);
}

static void stalled_then_filled_in(void **state)
{
	(void)state;
	stall(FILLED_IN);
}

static void stalled_then_killed(void **state)
{
	(void)state;
	stall(KILLED);
}

static void stalled_and_qp_destroyed(void **state)
{
	(void)state;
	stall(QP_DESTROYED);
}

/* A multicast group: the stalled receiver loses what is sent to it, the others lose nothing. */
static void group_with_a_stalled_receiver(void **state)
{
	static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };
	static uint8_t src[4096] = "group", dst[4096];
	struct rig_ses *me, *bad, *good;
	struct rig_cq *cq, *cq_bad, *cq_good;
	struct rig_qp *qp, *qp_bad, *qp_good;
	struct mr *from, *at_bad, *at_good;
	struct ah ah = { .o.kind = OBJ_AH, .mcast = true, .attr.is_global = 1 };
	struct ff_cqe e;
	struct child c;
	struct rig r;

	(void)state;
	rig_init(&r, &soft_ops);
	pvm_patience = DEADLINE;
	if (!child_start(&c)) {
		waitpid(c.pid, NULL, 0);
		rig_fini(&r);
		skip();
	}
	me = rig_session(&r, 0);
	bad = rig_session(&r, 1);
	good = rig_session(&r, 2);
	pvm_session_del(r.f, &bad->s);
	child_memory(&c, &bad->s);
	cq = rig_cq(&r, me, 64, false);
	cq_bad = rig_cq(&r, bad, 64, false);
	cq_good = rig_cq(&r, good, 64, false);
	qp = rig_qp(&r, me, IBV_QPT_UD, cq, cq, NULL);
	qp_bad = rig_qp(&r, bad, IBV_QPT_UD, cq_bad, cq_bad, NULL);
	qp_good = rig_qp(&r, good, IBV_QPT_UD, cq_good, cq_good, NULL);
	rig_connect(&r, qp, NULL);
	rig_connect(&r, qp_bad, NULL);
	rig_connect(&r, qp_good, NULL);
	from = rig_mr(&r, me, src, sizeof(src), ALL_ACCESS);
	at_bad = rig_mr_pvm(&r, bad, c.page, 4096, ALL_ACCESS);
	at_good = rig_mr(&r, good, dst, sizeof(dst), ALL_ACCESS);
	ah.o.ses = &me->s;
	ah.pd = &me->pd;
	memcpy(ah.attr.dgid, group.raw, 16);
	assert_int_equal(obj_insert(&me->s.tab[OBJ_AH], &ah.o), 0);
	assert_int_equal(soft_ops.mcast_attach(r.f, &qp_bad->qp, &group, 0), 0);
	assert_int_equal(soft_ops.mcast_attach(r.f, &qp_good->qp, &group, 0), 0);
	rig_recv(&r, qp_bad, 1, at_bad, at_bad->addr, 4096);

	r.f->conf.realtime = false;
	assert_int_equal(fast_start(r.f), 0);
	for (uint64_t i = 0; i < 100; i++) {
		struct ff_sqe *sqe;

		fast_lock(r.f);
		rig_recv(&r, qp_good, i, at_good, at_good->addr, 4096);
		sqe = rig_sqe(qp, FF_OP_SEND, i);
		rig_sge(sqe, from, from->addr, 8);
		sqe->ud.ah = ah.o.handle;
		sqe->ud.remote_qpn = 0xffffff;
		sqe->ud.remote_qkey = 0x1111;
		rig_post(&r, qp);
		fast_unlock(r.f);
		assert_true(wait_cqe(cq_good, &e));
		assert_int_equal(e.wr_id, i);
		assert_true(wait_cqe(cq, &e));
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
		assert_memory_equal(dst + 40, src, 8);
	}
	fast_lock(r.f);
	assert_in_range(bad->s.stats.pvm_stalls, 1, 100);
	assert_int_equal(stats_of_session(&bad->s).ud_drops, 100);
	fast_unlock(r.f);
	assert_false(rig_poll(cq_bad, &e));
	kill(c.pid, SIGKILL);
	waitpid(c.pid, NULL, 0);
	fast_stop(r.f);

	obj_remove(&me->s.tab[OBJ_AH], &ah.o);
	rig_qp_free(&r, qp);
	rig_qp_free(&r, qp_bad);
	rig_qp_free(&r, qp_good);
	rig_mr_free(&r, from);
	rig_mr_free(&r, at_bad);
	rig_mr_free(&r, at_good);
	rig_cq_free(&r, cq);
	rig_cq_free(&r, cq_bad);
	rig_cq_free(&r, cq_good);
	rig_session_free(&r, me);
	rig_session_free(&r, bad);
	rig_session_free(&r, good);
	rig_fini(&r);
	munmap(c.page, 4096);
	munmap((void *)c.go, 4096);
}

/* ---- memory that does not answer ------------------------------------------------------------------- */

#define BAD_SES 4
#define BAD_QPS 8

static uint8_t blocked[4096] __attribute__((aligned(4096)));
static _Atomic bool blocks;	    /* writes to that page do not end */
static _Atomic uint32_t in_blocked; /* threads that are in one */
static _Atomic uint32_t writes;	    /* through /proc/PID/mem, in all */
static _Atomic pid_t writer;	    /* who made the last one */
static _Atomic bool no_threads;	    /* pthread_create() fails */
static _Atomic uint32_t refusals;

ssize_t __real_pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t n, off_t at)
{
	const struct timespec pause = { .tv_nsec = 100 * NS_PER_US };

	writes++;
	writer = (pid_t)syscall(SYS_gettid);
	if ((uintptr_t)at >= (uintptr_t)blocked && (uintptr_t)at < (uintptr_t)blocked + 4096) {
		in_blocked++;
		while (blocks)
			nanosleep(&pause, NULL);
		in_blocked--;
	}
	return __real_pwrite(fd, buf, n, at);
}

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a, void *(*fn)(void *), void *arg)
{
	if (no_threads) {
		refusals++;
		return EAGAIN;
	}
	return __real_pthread_create(t, a, fn, arg);
}

#define WAIT_UNTIL(cond)                                                                           \
	do {                                                                                       \
		uint64_t end_ = fast_clock() + DEADLINE;                                           \
		while (!(cond) && fast_clock() < end_)                                             \
			sched_yield();                                                             \
		assert_true(cond);                                                                 \
	} while (0)

/* One that writes, to one in good standing and to several sessions of a container that is not. */
struct world {
	struct rig r;
	struct rig_ses *me, *good, *bad[BAD_SES];
	struct rig_cq *cq, *cq_good, *cq_bad[BAD_SES];
	struct rig_qp *to_good, *good_qp, *to_bad[BAD_SES][BAD_QPS], *bad_qp[BAD_SES][BAD_QPS];
	struct mr *from, *at_good, *at_bad[BAD_SES];
};

static uint8_t world_src[4096] = "source", world_dst[4096];

static void world_make(struct world *w, void *bad_page)
{
	struct rig *r = &w->r;

	rig_init(r, &soft_ops);
	r->f->conf.realtime = false;
	pvm_patience = DEADLINE;
	writes = refusals = 0;
	w->me = rig_session(r, 0);
	w->good = rig_session(r, 2);
	w->cq = rig_cq(r, w->me, 64, false);
	w->cq_good = rig_cq(r, w->good, 64, false);
	w->to_good = connected(r, w->me, w->cq, w->good, w->cq_good, &w->good_qp);
	w->from = rig_mr(r, w->me, world_src, sizeof(world_src), ALL_ACCESS);
	w->at_good = rig_mr_pvm(r, w->good, world_dst, sizeof(world_dst), ALL_ACCESS);
	for (int i = 0; i < BAD_SES; i++) {
		w->bad[i] = rig_session(r, 1);
		w->cq_bad[i] = rig_cq(r, w->bad[i], 64, false);
		w->at_bad[i] = rig_mr_pvm(r, w->bad[i], bad_page, 4096, ALL_ACCESS);
		for (int k = 0; k < BAD_QPS; k++)
			w->to_bad[i][k] = connected(r, w->me, w->cq, w->bad[i], w->cq_bad[i],
						    &w->bad_qp[i][k]);
	}
}

static void world_end(struct world *w)
{
	struct rig *r = &w->r;

	fast_stop(r->f);
	for (int i = 0; i < BAD_SES; i++) {
		for (int k = 0; k < BAD_QPS; k++) {
			rig_qp_free(r, w->to_bad[i][k]);
			rig_qp_free(r, w->bad_qp[i][k]);
		}
		rig_mr_free(r, w->at_bad[i]);
		rig_cq_free(r, w->cq_bad[i]);
		rig_session_free(r, w->bad[i]);
	}
	rig_qp_free(r, w->to_good);
	rig_qp_free(r, w->good_qp);
	rig_mr_free(r, w->from);
	rig_mr_free(r, w->at_good);
	rig_cq_free(r, w->cq);
	rig_cq_free(r, w->cq_good);
	rig_session_free(r, w->me);
	rig_session_free(r, w->good);
	rig_fini(r);
}

/* Who made the copy that this one took. */
static pid_t write_good(struct world *w, uint64_t id)
{
	struct ff_cqe e;

	write_to(&w->r, w->to_good, w->from, w->at_good, id);
	assert_true(wait_cqe(w->cq, &e));
	assert_int_equal(e.wr_id, id);
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	return writer;
}

static uint32_t num_threads(void)
{
	DIR *d = opendir("/proc/self/task");
	struct dirent *e;
	uint32_t n = 0;

	assert_non_null(d);
	while ((e = readdir(d)))
		n += e->d_name[0] != '.';
	closedir(d);
	return n;
}

static uint32_t own_threads; /* at the start: a sanitizer may have one of its own */

/* Without those of the test before, which end after they were counted out. */
static uint32_t threads_before(void)
{
	WAIT_UNTIL(num_threads() == own_threads);
	return own_threads;
}

static bool all_stalled(struct world *w)
{
	uint32_t stalls = 0;

	fast_lock(w->r.f);
	for (int i = 0; i < BAD_SES; i++)
		stalls += pvm_state(&w->bad[i]->s) == PVM_STALLED;
	fast_unlock(w->r.f);
	return stalls == BAD_SES;
}

/*
 * Several clients of one container stall, each with many calls: it has so many threads and no more, a
 * neighbour whose memory is behind its process, too, is served meanwhile, and when it is over the threads
 * are gone.
 */
static void workers_are_bounded(void **state)
{
	uint32_t before = threads_before(), most = 0;
	struct world w = { 0 };
	struct ff_cqe e;

	(void)state;
	world_make(&w, blocked);
	w.r.f->conf.memory_workers = 2;
	blocks = true;
	assert_int_equal(fast_start(w.r.f), 0);
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++)
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
	WAIT_UNTIL(in_blocked == 2);
	WAIT_UNTIL(all_stalled(&w));
	for (uint64_t i = 0; i < 1000; i++) {
		uint32_t n = num_threads();

		write_good(&w, 100 + i);
		if (n > most)
			most = n;
	}
	assert_int_equal(in_blocked, 2);
	/* the runner, its watcher, two workers, one that waits for work */
	assert_in_range(most, before + 4, before + 5);
	fast_lock(w.r.f);
	assert_true(stats_of_session(&w.bad[0]->s).pvm_stalls <= 1);
	/* the runner's time that it took */
	assert_true(w.r.cont[1].stats.cpu_ns >= NS_PER_MS);
	fast_unlock(w.r.f);
	blocks = false;
	for (int i = 0; i < BAD_SES * BAD_QPS; i++) {
		assert_true(wait_cqe(w.cq, &e));
		assert_int_equal(e.wr_id, 1);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	WAIT_UNTIL(num_threads() == before + 2);
	world_end(&w);
}

/* Sessions and QPs end while calls on their memory are out, wait, and are to be tried again. */
static void all_ends_meanwhile(void **state)
{
	struct world w = { 0 };
	struct ff_cqe e;
	int failed = 0;

	(void)state;
	world_make(&w, blocked);
	blocks = true;
	assert_int_equal(fast_start(w.r.f), 0);
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++)
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
	WAIT_UNTIL(in_blocked == BAD_SES);
	fast_lock(w.r.f);
	for (int k = 0; k < BAD_QPS; k++) {
		rig_qp_free(&w.r, w.to_bad[0][k]);
		w.to_bad[0][k] = rig_qp(&w.r, w.me, IBV_QPT_RC, w.cq, w.cq, NULL);
	}
	/* those that wait fail, the one that is out ends as it may */
	pvm_session_del(w.r.f, &w.bad[1]->s);
	fast_unlock(w.r.f);
	blocks = false;
	for (int k = 0; k < 3 * BAD_QPS; k++) {
		assert_true(wait_cqe(w.cq, &e));
		failed += e.status == IBV_WC_REM_ACCESS_ERR;
		if (e.status != IBV_WC_REM_ACCESS_ERR)
			assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	assert_int_equal(failed, BAD_QPS - 1);
	write_good(&w, 9);
	world_end(&w);
}

/* Where nothing is mapped by itself, beneath sanitizers either. */
#define NOBODYS ((void *)0x7e9000000000)

/* It is tried twice, as a mapping may be under change, and fails; nobody waits, and nobody else works. */
static void unmapped_fails_at_once(void **state)
{
	void *page = mmap(NOBODYS, 4096, PROT_NONE,
			  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
	uint32_t threads, before = threads_before();
	struct world w = { 0 };
	struct ff_vma v;
	struct ff_cqe e;
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	(void)state;
	if (ff_vma_ask(maps, 0, &v) == -ENOTTY)
		skip(); /* before Linux 6.11 nobody can tell */
	close(maps);
	world_make(&w, page);
	munmap(page, 4096);
	assert_int_equal(fast_start(w.r.f), 0);
	WAIT_UNTIL(num_threads() == before + 2);
	threads = num_threads();
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++) {
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
			assert_true(wait_cqe(w.cq, &e));
			assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
		}
	assert_int_equal(writes, 2 * BAD_SES * BAD_QPS);
	assert_int_equal(num_threads(), threads);
	fast_lock(w.r.f);
	for (int i = 0; i < BAD_SES; i++)
		assert_int_equal(stats_of_session(&w.bad[i]->s).pvm_stalls, 0);
	fast_unlock(w.r.f);
	world_end(&w);
}

/* Mapped, but not there for now: until patience ends, by a worker. */
static void what_does_not_come_fails_late(void **state)
{
	struct world w = { 0 };
	struct ff_cqe e;
	struct child c;

	(void)state;
	if (!child_start(&c)) {
		waitpid(c.pid, NULL, 0);
		skip();
	}
	world_make(&w, c.page);
	for (int i = 0; i < BAD_SES; i++) {
		pvm_session_del(w.r.f, &w.bad[i]->s);
		child_memory(&c, &w.bad[i]->s);
	}
	pvm_patience = 200 * NS_PER_MS;
	assert_int_equal(fast_start(w.r.f), 0);
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++)
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
	for (int i = 0; i < BAD_SES * BAD_QPS; i++) {
		assert_true(wait_cqe(w.cq, &e));
		assert_int_equal(e.wr_id, 1);
		assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
	}
	/* the first one, and then once in RETRY_NS or RETRY_CALL_NS for each, whichever is longer */
	assert_true(writes > 2 * BAD_SES * BAD_QPS);
	assert_true(w.r.cont[1].stats.cpu_ns > 0);
	write_good(&w, 9);
	world_end(&w);
	kill(c.pid, SIGKILL);
	waitpid(c.pid, NULL, 0);
	munmap(c.page, 4096);
	munmap((void *)c.go, 4096);
}

/* No thread can be started but the first: what a client may stall waits for one, and the rest goes on. */
static void a_watcher_is_tried_again(void **state)
{
	struct world w = { 0 };
	struct ff_cqe e;
	pid_t runner;

	(void)state;
	world_make(&w, blocked);
	w.at_good->run = calloc(1, sizeof(*w.at_good->run));
	*w.at_good->run = (struct mr_run){ .va = w.at_good->addr, .len = 4096, .host = world_dst };
	w.at_good->num_runs = 1;
	fast_lock(w.r.f);
	assert_int_equal(fast_start(w.r.f), 0);
	no_threads = true;
	fast_unlock(w.r.f);
	WAIT_UNTIL(refusals > 2);
	write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 1);
	for (uint64_t i = 0; i < 100; i++)
		write_good(&w, 100 + i); /* mapped */
	assert_int_equal(writes, 0);
	no_threads = false;
	assert_true(wait_cqe(w.cq, &e));
	assert_int_equal(e.wr_id, 1);
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	/* from now on it is watched, and makes calls itself */
	w.at_good->num_runs = 0;
	runner = write_good(&w, 7);
	WAIT_UNTIL((runner = write_good(&w, 8)) == write_good(&w, 9));
	world_end(&w);
}

/* Who has stalled the runner again and again is served by others, also when its memory answers. */
static void stalls_are_remembered(void **state)
{
	struct world w = { 0 };
	struct ff_cqe e;
	pid_t runner, who;

	(void)state;
	world_make(&w, blocked);
	assert_int_equal(fast_start(w.r.f), 0);
	for (int n = 0; n < 16; n++) {
		blocks = true;
		write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 1);
		WAIT_UNTIL(in_blocked == 1);
		write_good(&w, 2); /* somebody runs */
		blocks = false;
		assert_true(wait_cqe(w.cq, &e));
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 1);
	assert_true(wait_cqe(w.cq, &e));
	who = writer;
	runner = write_good(&w, 3);
	assert_int_not_equal(runner, who);
	/* 8 of them, and then one as often as it is let */
	fast_lock(w.r.f);
	assert_in_range(w.bad[0]->s.stats.pvm_stalls, 8, 15);
	fast_unlock(w.r.f);
	world_end(&w);
}

static uint64_t num_refused(struct world *w)
{
	uint64_t n;

	fast_lock(w->r.f);
	n = w->bad[0]->s.stats.pvm_refused;
	fast_unlock(w->r.f);
	return n;
}

/* More than some megabytes of its calls wait: it is told that its memory is not there. */
static void too_many_wait(void **state)
{
	enum { QPS = 600 };
	static uint8_t src[65536];
	static struct rig_qp *to[QPS], *peer[QPS];
	struct world w = { 0 };
	struct mr *from, *at;
	struct rig_cq *cq;
	struct ff_cqe e;
	uint32_t failed = 0;

	(void)state;
	world_make(&w, blocked);
	cq = rig_cq(&w.r, w.me, 1024, false);
	from = rig_mr(&w.r, w.me, src, sizeof(src), ALL_ACCESS);
	at = rig_mr_pvm(&w.r, w.bad[0], blocked, sizeof(src), ALL_ACCESS);
	for (int i = 0; i < QPS; i++)
		to[i] = connected(&w.r, w.me, cq, w.bad[0], w.cq_bad[0], &peer[i]);
	blocks = true;
	assert_int_equal(fast_start(w.r.f), 0);
	for (int i = 0; i < QPS; i++) {
		struct ff_sqe *s = rig_sqe(to[i], FF_OP_WRITE, 1);

		rig_sge(s, from, from->addr, sizeof(src));
		s->remote_addr = at->addr;
		s->rkey = at->rkey;
		fast_lock(w.r.f);
		rig_post(&w.r, to[i]);
		fast_unlock(w.r.f);
	}
	WAIT_UNTIL(num_refused(&w) == QPS - (32u << 20) / sizeof(src));
	write_good(&w, 5);
	for (; rig_poll(cq, &e); failed++)
		assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
	fast_lock(w.r.f);
	for (int i = 0; i < QPS; i++) {
		rig_qp_free(&w.r, to[i]);
		rig_qp_free(&w.r, peer[i]);
	}
	fast_unlock(w.r.f);
	assert_true(failed > 0);
	blocks = false;
	rig_mr_free(&w.r, from);
	rig_mr_free(&w.r, at);
	WAIT_UNTIL(!in_blocked);
	write_good(&w, 6);
	fast_lock(w.r.f);
	rig_cq_free(&w.r, cq);
	fast_unlock(w.r.f);
	world_end(&w);
}

static void *ends_at_once(void *arg)
{
	return arg;
}

int main(void)
{
	pthread_t t; /* with the first one a sanitizer starts its own */
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stalled_then_filled_in),
		cmocka_unit_test(stalled_then_killed),
		cmocka_unit_test(stalled_and_qp_destroyed),
		cmocka_unit_test(group_with_a_stalled_receiver),
		cmocka_unit_test(workers_are_bounded),
		cmocka_unit_test(all_ends_meanwhile),
		cmocka_unit_test(unmapped_fails_at_once),
		cmocka_unit_test(what_does_not_come_fails_late),
		cmocka_unit_test(a_watcher_is_tried_again),
		cmocka_unit_test(stalls_are_remembered),
		cmocka_unit_test(too_many_wait),
	};

	assert_int_equal(pthread_create(&t, NULL, ends_at_once, NULL), 0);
	pthread_join(t, NULL);
	own_threads = num_threads();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
