/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/stall_rig.c tests/rig/unit/rig.c -Wl,--wrap=pwrite,--wrap=pthread_create */
/*
 * test_roles.c - a client whose memory stalls the router stalls itself only: runner, watcher and workers, as
 * real threads.
 */
#include <dirent.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "tests/rig/unit/stall_rig.h"
#include "ffr/soft/soft.h"

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

/*
 * One that sends, one whose memory is the child's and stalls, and one in good standing, each with a CQ
 * and an MR. QPs are the test's, which starts the threads.
 */
struct three {
	struct rig r;
	struct rig_ses *me, *bad, *good;
	struct rig_cq *cq, *cq_bad, *cq_good;
	struct mr *from, *at_bad, *at_good;
	struct child c;
	uint8_t src[4096], dst[4096];
};

static void three_make(struct three *t, const char *text)
{
	struct rig *r = &t->r;

	memset(t, 0, sizeof(*t));
	strcpy((char *)t->src, text);
	rig_init(r, &soft_ops);
	r->f->conf.realtime = false;
	pvm_patience = DEADLINE;
	if (!child_start(&t->c)) {
		waitpid(t->c.pid, NULL, 0);
		rig_fini(r);
		skip();
	}
	t->me = rig_session(r, 0);
	t->bad = rig_session(r, 1);
	t->good = rig_session(r, 2);
	pvm_session_del(r->f, &t->bad->s); /* the child's address space instead of ours */
	child_memory(&t->c, &t->bad->s);
	t->cq = rig_cq(r, t->me, 64, false);
	t->cq_bad = rig_cq(r, t->bad, 64, false);
	t->cq_good = rig_cq(r, t->good, 64, false);
	t->from = rig_mr(r, t->me, t->src, sizeof(t->src), ALL_ACCESS);
	t->at_bad = rig_mr_pvm(r, t->bad, t->c.page, 4096, ALL_ACCESS);
	t->at_good = rig_mr(r, t->good, t->dst, sizeof(t->dst), ALL_ACCESS);
}

/* When threads are stopped, the child has ended and the test's QPs are gone. */
static void three_end(struct three *t)
{
	struct rig *r = &t->r;

	rig_mr_free(r, t->from);
	rig_mr_free(r, t->at_bad);
	rig_mr_free(r, t->at_good);
	rig_cq_free(r, t->cq);
	rig_cq_free(r, t->cq_bad);
	rig_cq_free(r, t->cq_good);
	rig_session_free(r, t->me);
	rig_session_free(r, t->bad);
	rig_session_free(r, t->good);
	rig_fini(r);
	munmap(t->c.page, 4096);
	munmap((void *)t->c.go, 4096);
}

enum ending { FILLED_IN, KILLED, QP_DESTROYED };

static void stall(enum ending ending)
{
	struct rig_qp *to_bad[2], *to_good, *peer_bad[2], *peer_good;
	struct ff_cqe e;
	struct three t;
	int st;

	three_make(&t, "stalled!");
	for (int i = 0; i < 2; i++)
		to_bad[i] = connected(&t.r, t.me, t.cq, t.bad, t.cq_bad, &peer_bad[i]);
	to_good = connected(&t.r, t.me, t.cq, t.good, t.cq_good, &peer_good);

	assert_int_equal(fast_start(t.r.f->host), 0);
	assert_watcher_apart();
	write_to(&t.r, to_bad[0], t.from, t.at_bad, 1);
	write_to(&t.r, to_bad[1], t.from, t.at_bad, 2);
	/* others are served meanwhile, many times over */
	for (uint64_t i = 0; i < 1000; i++) {
		write_to(&t.r, to_good, t.from, t.at_good, 100 + i);
		assert_true(wait_cqe(t.cq, &e));
		assert_int_equal(e.wr_id, 100 + i);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	assert_watcher_apart();
	fast_lock(t.r.f->host);
	assert_in_range(t.bad->s.stats.pvm_stalls, 1, 2);
	if (ending == QP_DESTROYED) { /* with the call still out */
		rig_qp_free(&t.r, to_bad[0]);
		to_bad[0] = NULL;
	}
	fast_unlock(t.r.f->host);
	if (ending == KILLED)
		kill(t.c.pid, SIGKILL);
	else
		atomic_store(t.c.go, 2);
	for (int i = ending == QP_DESTROYED; i < 2; i++) {
		assert_true(wait_cqe(t.cq, &e));
		assert_in_range(e.wr_id, 1, 2);
		/*
		 * The call under way may end well or not when its target dies. Nobody answers then, though the
		 * session stays.
		 */
		if (ending != KILLED)
			assert_int_equal(e.status, IBV_WC_SUCCESS);
		else if (e.status != IBV_WC_SUCCESS)
			assert_int_equal(e.status, IBV_WC_RETRY_EXC_ERR);
	}
	/* the worker has gone home: calls are made on the runner again */
	write_to(&t.r, to_good, t.from, t.at_good, 9);
	assert_true(wait_cqe(t.cq, &e));
	atomic_store(t.c.go, 3);
	waitpid(t.c.pid, &st, 0);
	if (ending != KILLED)
		assert_int_equal(st, 0);
	fast_stop(t.r.f->host);

	for (int i = 0; i < 2; i++) {
		if (to_bad[i])
			rig_qp_free(&t.r, to_bad[i]);
		rig_qp_free(&t.r, peer_bad[i]);
	}
	rig_qp_free(&t.r, to_good);
	rig_qp_free(&t.r, peer_good);
	three_end(&t);
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
	struct ah ah = { .o.kind = OBJ_AH, .mcast = true, .attr.is_global = 1 };
	struct rig_qp *qp, *qp_bad, *qp_good;
	struct ff_cqe e;
	struct three t;

	(void)state;
	three_make(&t, "group");
	qp = rig_qp(&t.r, t.me, IBV_QPT_UD, t.cq, t.cq, NULL);
	qp_bad = rig_qp(&t.r, t.bad, IBV_QPT_UD, t.cq_bad, t.cq_bad, NULL);
	qp_good = rig_qp(&t.r, t.good, IBV_QPT_UD, t.cq_good, t.cq_good, NULL);
	rig_connect(&t.r, qp, NULL);
	rig_connect(&t.r, qp_bad, NULL);
	rig_connect(&t.r, qp_good, NULL);
	ah.o.ses = &t.me->s;
	ah.pd = &t.me->pd;
	memcpy(ah.attr.dgid, group.raw, 16);
	assert_int_equal(obj_insert(&t.me->s.tab[OBJ_AH], &ah.o), 0);
	assert_int_equal(mcast_attach(t.r.f, &qp_bad->qp, &group, 0), 0);
	assert_int_equal(mcast_attach(t.r.f, &qp_good->qp, &group, 0), 0);
	rig_recv(&t.r, qp_bad, 1, t.at_bad, t.at_bad->addr, 4096);

	assert_int_equal(fast_start(t.r.f->host), 0);
	for (uint64_t i = 0; i < 100; i++) {
		struct ff_sqe *sqe;

		fast_lock(t.r.f->host);
		rig_recv(&t.r, qp_good, i, t.at_good, t.at_good->addr, 4096);
		sqe = rig_sqe(qp, FF_OP_SEND, i);
		rig_sge(sqe, t.from, t.from->addr, 8);
		sqe->ud.ah = ah.o.handle;
		sqe->ud.remote_qpn = 0xffffff;
		sqe->ud.remote_qkey = 0x1111;
		rig_post(&t.r, qp);
		fast_unlock(t.r.f->host);
		assert_true(wait_cqe(t.cq_good, &e));
		assert_int_equal(e.wr_id, i);
		assert_true(wait_cqe(t.cq, &e));
		assert_int_equal(e.wr_id, i);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
		assert_memory_equal(t.dst + 40, t.src, 8);
	}
	fast_lock(t.r.f->host);
	assert_in_range(t.bad->s.stats.pvm_stalls, 1, 100);
	assert_int_equal(stats_of_session(&t.bad->s).ud_drops, 100);
	fast_unlock(t.r.f->host);
	assert_false(rig_poll(t.cq_bad, &e));
	kill(t.c.pid, SIGKILL);
	waitpid(t.c.pid, NULL, 0);
	fast_stop(t.r.f->host);

	obj_remove(&t.me->s.tab[OBJ_AH], &ah.o);
	rig_qp_free(&t.r, qp);
	rig_qp_free(&t.r, qp_bad);
	rig_qp_free(&t.r, qp_good);
	three_end(&t);
}

/* ---- memory that does not answer ------------------------------------------------------------------- */

static bool all_stalled(struct world *w)
{
	uint32_t stalls = 0;

	fast_lock(w->r.f->host);
	for (int i = 0; i < BAD_SES; i++)
		stalls += pvm_state(&w->bad[i]->s) == PVM_STALLED;
	fast_unlock(w->r.f->host);
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
	assert_int_equal(fast_start(w.r.f->host), 0);
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++)
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
	WAIT_FOR(in_blocked == 2);
	WAIT_FOR(all_stalled(&w));
	for (uint64_t i = 0; i < 1000; i++) {
		uint32_t n = num_threads();

		write_good(&w, 100 + i);
		if (n > most)
			most = n;
	}
	assert_int_equal(in_blocked, 2);
	/* the runner, its watcher, two workers, one that waits for work */
	assert_in_range(most, before + 4, before + 5);
	fast_lock(w.r.f->host);
	assert_true(stats_of_session(&w.bad[0]->s).pvm_stalls <= 1);
	/* the runner's time that it took */
	assert_true(w.r.cont[1].stats.cpu_ns >= NS_PER_MS);
	fast_unlock(w.r.f->host);
	blocks = false;
	for (int i = 0; i < BAD_SES * BAD_QPS; i++) {
		assert_true(wait_cqe(w.cq, &e));
		assert_int_equal(e.wr_id, 1);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	WAIT_FOR(num_threads() == before + 2);
	world_end(&w);
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
	fast_lock(w.r.f->host);
	assert_int_equal(fast_start(w.r.f->host), 0);
	no_threads = true;
	fast_unlock(w.r.f->host);
	WAIT_FOR(refusals > 2);
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
	WAIT_FOR((runner = write_good(&w, 8)) == write_good(&w, 9));
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
	assert_int_equal(fast_start(w.r.f->host), 0);
	for (int n = 0; n < 16; n++) {
		blocks = true;
		write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 1);
		WAIT_FOR(in_blocked == 1);
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
	fast_lock(w.r.f->host);
	assert_in_range(w.bad[0]->s.stats.pvm_stalls, 8, 15);
	fast_unlock(w.r.f->host);
	world_end(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(stalled_then_filled_in),
		cmocka_unit_test(stalled_then_killed),
		cmocka_unit_test(stalled_and_qp_destroyed),
		cmocka_unit_test(group_with_a_stalled_receiver),
		cmocka_unit_test(workers_are_bounded),
		cmocka_unit_test(a_watcher_is_tried_again),
		cmocka_unit_test(stalls_are_remembered),
	};

	return cmocka_run_group_tests(tests, stall_rig_setup, NULL);
}
