/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/lib/rig.c */
/*
 * test_pvm.c - a client whose memory stalls the router stalls itself only. Real threads: a child
 * process owns a page that nobody fills in (userfaultfd), a runner writes to it.
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
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

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
	int mem;

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)c->pid);
	mem = open(path, O_RDWR | O_CLOEXEC);
	assert_true(mem >= 0);
	assert_int_equal(pvm_session_add(s, mem), 0);
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
	assert_int_equal(bad->s.stats.pvm_stalls, 1);
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
	assert_int_equal(soft_ops.mcast_attach(&r.be, &qp_bad->qp, &group, 0), 0);
	assert_int_equal(soft_ops.mcast_attach(&r.be, &qp_good->qp, &group, 0), 0);
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
	assert_int_equal(bad->s.stats.pvm_stalls, 1);
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stalled_then_filled_in),
		cmocka_unit_test(stalled_then_killed),
		cmocka_unit_test(stalled_and_qp_destroyed),
		cmocka_unit_test(group_with_a_stalled_receiver),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
