/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/stall_rig.c tests/rig/unit/rig.c -Wl,--wrap=pwrite,--wrap=pthread_create */
/*
 * test_pvm.c - calls on clients' memory: what becomes of one that cannot be made, is given up, or finds no
 * room for its buffer.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/fast/pvm_int.h"
#include "tests/rig/unit/stall_rig.h"

/* Sessions and QPs end while calls on their memory are out, wait, and are to be tried again. */
static void all_ends_meanwhile(void **state)
{
	struct world w = { 0 };
	struct ff_cqe e;
	int failed = 0;

	(void)state;
	world_make(&w, blocked);
	blocks = true;
	assert_int_equal(fast_start(w.r.f->host), 0);
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++)
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
	WAIT_FOR(in_blocked == BAD_SES);
	fast_lock(w.r.f->host);
	for (int k = 0; k < BAD_QPS; k++) {
		rig_qp_free(&w.r, w.to_bad[0][k]);
		w.to_bad[0][k] = rig_qp(&w.r, w.me, IBV_QPT_RC, w.cq, w.cq, NULL);
	}
	/* those that wait fail, the one that is out ends as it may */
	pvm_session_del(w.r.f, &w.bad[1]->s);
	fast_unlock(w.r.f->host);
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

/* A sanitizer's pages may come in a copy, too, and count. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define MOST_FAULTS 100
#else
#define MOST_FAULTS 1
#endif

/* Pages of on-demand memory that come in a copy are counted, those that are there are not; and rights hold. */
static void on_demand(void **state)
{
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct odp *odp = odp_new();
	struct world w = { 0 };
	struct ff_vma v;
	struct ff_cqe e;
	int maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);

	(void)state;
	madvise(p, 8192, MADV_NOHUGEPAGE); /* a neighbour's huge page is not to bring it */
	world_make(&w, p);
	w.at_bad[0]->odp = odp;
	assert_int_equal(fast_start(w.r.f->host), 0);
	for (int i = 0; i < 2; i++) {
		write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 1);
		assert_true(wait_cqe(w.cq, &e));
		assert_int_equal(e.status, IBV_WC_SUCCESS);
		fast_lock(w.r.f->host);
		assert_in_range(odp->odp_faults, 1, MOST_FAULTS);
		assert_true(odp->odp_fault_ns > 0);
		assert_int_equal(w.bad[0]->s.stats.odp_faults, odp->odp_faults);
		fast_unlock(w.r.f->host);
	}
	assert_int_equal(atomic_load(&w.bad[0]->s.hdr->leaving.busy), 0);
	assert_int_equal(mprotect(p, 8192, PROT_READ), 0);
	if (ff_vma_ask(maps, 0, &v) != -ENOTTY) {
		write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 2);
		assert_true(wait_cqe(w.cq, &e));
		assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
	}
	close(maps);
	w.at_bad[0]->odp = NULL;
	world_end(&w);
	assert_int_equal(atomic_load(&odp->refs), 1);
	odp_put(odp);
	munmap(p, 8192);
}

/* What its client has deregistered by shared memory is not reached any more, and a client's false count is its own. */
static void on_demand_that_leaves(void **state)
{
	uint8_t *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct odp *odp = odp_new();
	struct ff_leaving *l;
	struct world w = { 0 };
	struct ff_cqe e;

	(void)state;
	world_make(&w, p);
	l = &w.bad[0]->s.hdr->leaving;
	odp->mr = 0x10007;
	w.at_bad[0]->odp = odp;
	assert_int_equal(fast_start(w.r.f->host), 0);
	atomic_store(&l->busy, 1000);
	atomic_store(&l->mr[5], 0x20007); /* an older one of the same number */
	write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 1);
	assert_true(wait_cqe(w.cq, &e));
	assert_int_equal(e.status, IBV_WC_SUCCESS);
	assert_int_equal(atomic_load(&l->busy), 1000);
	memset(p, 0, 8192);
	atomic_store(&l->mr[FF_LEAVING - 1], odp->mr);
	write_to(&w.r, w.to_bad[0][0], w.from, w.at_bad[0], 2);
	assert_true(wait_cqe(w.cq, &e));
	assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
	assert_int_equal(atomic_load(&l->busy), 1000);
	for (size_t i = 0; i < 8192; i++)
		assert_int_equal(p[i], 0);
	w.at_bad[0]->odp = NULL;
	world_end(&w);
	assert_int_equal(atomic_load(&odp->refs), 1);
	odp_put(odp);
	munmap(p, 8192);
}

/* Where nothing is mapped by itself, beneath sanitizers either. */
#define NOBODYS	  ((void *)0x7e9000000000)
#define FILE_PART 20 /* pvm.c's */

/*
 * The copy is tried twice, as a mapping may be under change, and fails; nobody waits, and nobody else works. The
 * watcher does not look: it takes a runner that the host interrupts for one that is stuck.
 */
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
	pvm_tick = 1000000 * NS_PER_MS;
	assert_int_equal(fast_start(w.r.f->host), 0);
	WAIT_FOR(num_threads() == before + 2);
	threads = num_threads();
	for (int i = 0; i < BAD_SES; i++)
		for (int k = 0; k < BAD_QPS; k++) {
			write_to(&w.r, w.to_bad[i][k], w.from, w.at_bad[i], 1);
			assert_true(wait_cqe(w.cq, &e));
			assert_int_equal(e.status, IBV_WC_REM_ACCESS_ERR);
		}
	assert_int_equal(writes, 2 * BAD_SES * BAD_QPS);
	assert_int_equal(num_threads(), threads);
	fast_lock(w.r.f->host);
	for (int i = 0; i < BAD_SES; i++)
		assert_int_equal(stats_of_session(&w.bad[i]->s).pvm_stalls, 0);
	fast_unlock(w.r.f->host);
	world_end(&w);
	pvm_tick = NS_PER_MS;
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
	/* a page of shared memory: of a file, for the kernel */
	pvm_patience = (uint64_t)FILE_PART * 200 * NS_PER_MS;
	assert_int_equal(fast_start(w.r.f->host), 0);
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

/* No page of a file comes behind its end, so that is not waited for as long as a window of the client's. */
static void a_file_ends(void **state)
{
	int fd = memfd_create("empty", MFD_CLOEXEC),
	    maps = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
	uint8_t *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0), word[8] = { 0 };
	struct pvm_call c = {
		.va = (uintptr_t)p, .len = 8, .buf = word, .dir = PVM_WRITE, .part = 1
	};
	struct world w = { 0 };
	bool asks;
	struct ff_vma v;

	(void)state;
	assert_ptr_not_equal(p, MAP_FAILED);
	asks = ff_vma_ask(maps, 0, &v) != -ENOTTY;
	close(maps);
	world_make(&w, p);
	assert_int_equal(pvm_attempt(w.bad[0]->s.pvm, &c), -EAGAIN);
	assert_int_equal(c.part, asks ? FILE_PART : 5);
	world_end(&w);
	munmap(p, 4096);
	close(fd);
}

static uint64_t num_held(struct world *w)
{
	uint64_t n;

	fast_lock(w->r.f->host);
	n = w->bad[0]->s.stats.pvm_held;
	fast_unlock(w->r.f->host);
	return n;
}

/* Two QPs of two containers, without threads. */
struct two {
	struct rig_one o;
	struct qp qp[2];
	struct pvm *p;
};

static int two_make(void **state)
{
	struct two *t = malloc(sizeof(*t));

	rig_one_open(&t->o, &soft_ops, IBV_QPT_RC, 64, false);
	t->p = t->o.r.f->pvm;
	for (int i = 0; i < 2; i++) {
		struct rig_ses *s = i ? rig_session(&t->o.r, 1) : t->o.s;

		t->qp[i] = (struct qp){ .o.ses = &s->s };
	}
	assert_ptr_not_equal(t->qp[0].o.ses->cont, t->qp[1].o.ses->cont);
	*state = t;
	return 0;
}

static int two_end(void **state)
{
	struct two *t = *state;

	rig_session_free(&t->o.r, (struct rig_ses *)t->qp[1].o.ses);
	rig_one_close(&t->o);
	free(t);
	return 0;
}

#define TWO_TEST(name) cmocka_unit_test_setup_teardown(name, two_make, two_end)

/* So many buffers of that use and size, all that there may be. */
static void take_all(struct two *t, struct pvm_call **c, int n, enum pvm_use use, uint32_t len)
{
	struct pvm_wait none = { 0 };

	for (int i = 0; i < n; i++)
		assert_non_null(c[i] = pvm_call_get(t->p, &t->qp[0], use, len, &none));
	assert_null(none.q);
}

/* A container has so much in buffers of each use, whatever others have. Who finds no room waits without one. */
static void buffers_are_bounded(void **state)
{
	struct two *t = *state;
	enum { LARGE = PVM_HELD / PVM_MAX, SMALL = PVM_HELD / 4096 };
	struct pvm_call *c[SMALL], *ahead, *other;
	struct pvm_wait none = { 0 }, w = { 0 };

	take_all(t, c, LARGE, PVM_COPY, PVM_MAX);
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_COPY, 1, &w));
	assert_non_null(w.q);
	assert_int_equal(pvm_make(t->o.r.f), 0);
	assert_non_null(w.q);
	assert_non_null(ahead = pvm_call_get(t->p, &t->qp[0], PVM_AHEAD, PVM_MAX, &none));
	assert_non_null(other = pvm_call_get(t->p, &t->qp[1], PVM_COPY, PVM_MAX, &none));
	assert_null(none.q);
	pvm_call_put(t->p, other);
	pvm_call_put(t->p, ahead);
	assert_int_equal(pvm_make(t->o.r.f), 0);
	pvm_call_put(t->p, c[LARGE - 1]);
	assert_int_equal(pvm_make(t->o.r.f), 1);
	assert_null(w.q);
	assert_int_equal(pvm_make(t->o.r.f), 0);
	for (int i = 0; i < LARGE - 1; i++)
		pvm_call_put(t->p, c[i]);
	take_all(t, c, SMALL, PVM_COPY, 4096);
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_COPY, 4096, &w));
	pvm_wait_end(&w);
	for (int i = 0; i < SMALL; i++)
		pvm_call_put(t->p, c[i]);
}

/* Those that wait are called in order, and nobody comes between. */
static void waits_are_in_order(void **state)
{
	struct two *t = *state;
	enum { LARGE = PVM_HELD / PVM_MAX };
	struct pvm_wait none = { 0 }, first = { 0 }, second = { 0 }, late = { 0 };
	struct pvm_call *c[LARGE], *got;

	take_all(t, c, LARGE, PVM_COPY, PVM_MAX);
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_COPY, PVM_MAX, &first));
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_COPY, 1, &second));
	pvm_call_put(t->p, c[0]);
	/* there is room, but for who came before */
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_COPY, 1, &late));
	assert_non_null(late.q);
	assert_int_equal(pvm_make(t->o.r.f), 1);
	assert_null(first.q);
	assert_non_null(second.q);
	assert_non_null(got = pvm_call_get(t->p, &t->qp[0], PVM_COPY, PVM_MAX, &first));
	pvm_call_put(t->p, c[1]);
	assert_int_equal(pvm_make(t->o.r.f), 2);
	assert_null(second.q);
	assert_null(late.q);
	/* a container that leaves the thread, or goes, keeps nobody waiting */
	assert_non_null(c[0] = pvm_call_get(t->p, &t->qp[0], PVM_COPY, PVM_MAX, &second));
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_COPY, PVM_MAX, &none));
	assert_non_null(none.q);
	pvm_container_leaves(t->qp[0].o.ses->cont);
	assert_null(none.q);
	pvm_call_put(t->p, c[0]);
	pvm_call_put(t->p, got);
	for (int i = 2; i < LARGE; i++)
		pvm_call_put(t->p, c[i]);
}

/*
 * Who is called keeps its place until it has what it waited for: while it gets another buffer on the way there, and if
 * others have taken the room before it came.
 */
static void who_is_called_keeps_its_place(void **state)
{
	struct two *t = *state;
	enum { LARGE = PVM_HELD / PVM_MAX };
	struct pvm_wait none = { 0 }, first = { 0 }, second = { 0 }, late = { 0 };
	struct pvm_call *c[LARGE], *on_the_way;

	take_all(t, c, LARGE, PVM_WORK, PVM_MAX);
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &first));
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &second));
	pvm_call_put(t->p, c[0]);
	assert_int_equal(pvm_make(t->o.r.f), 1);
	on_the_way = pvm_call_get(t->p, &t->qp[0], PVM_COPY, PVM_MAX, &first);
	assert_non_null(on_the_way);
	assert_non_null(c[0] = pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &first));
	assert_false(first.called);
	pvm_call_put(t->p, on_the_way);

	pvm_call_put(t->p, c[1]);
	assert_int_equal(pvm_make(t->o.r.f), 1);
	assert_non_null(c[1] = pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &none));
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &late));
	assert_null(pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &second));
	pvm_call_put(t->p, c[1]);
	assert_int_equal(pvm_make(t->o.r.f), 1);
	assert_null(second.q);
	assert_non_null(late.q);
	assert_non_null(c[1] = pvm_call_get(t->p, &t->qp[0], PVM_WORK, PVM_MAX, &second));
	pvm_wait_end(&late);
	for (int i = 0; i < LARGE; i++)
		pvm_call_put(t->p, c[i]);
}

/* Many wait for memory that does not answer: nothing is kept for them, and all end well when it does. */
static void many_wait(void **state)
{
	enum { QPS = 600 };
	static uint8_t src[65536];
	static struct rig_qp *to[QPS], *peer[QPS];
	struct world w = { 0 };
	struct mr *from, *at;
	struct rig_cq *cq;
	struct ff_cqe e;
	uint64_t held;

	(void)state;
	world_make(&w, blocked);
	cq = rig_cq(&w.r, w.me, 1024, false);
	from = rig_mr(&w.r, w.me, src, sizeof(src), ALL_ACCESS);
	at = rig_mr_pvm(&w.r, w.bad[0], blocked, sizeof(src), ALL_ACCESS);
	for (int i = 0; i < QPS; i++)
		to[i] = connected(&w.r, w.me, cq, w.bad[0], w.cq_bad[0], &peer[i]);
	blocks = true;
	assert_int_equal(fast_start(w.r.f->host), 0);
	for (int i = 0; i < QPS; i++) {
		struct ff_sqe *s = rig_sqe(to[i], FF_OP_WRITE, (uint64_t)i);

		rig_sge(s, from, from->addr, sizeof(src));
		s->remote_addr = at->addr;
		s->rkey = at->rkey;
		fast_lock(w.r.f->host);
		rig_post(&w.r, to[i]);
		fast_unlock(w.r.f->host);
	}
	/* the rest is with the worker, but for one that a runner was lost in */
	WAIT_FOR(num_held(&w) >= QPS - PVM_HELD / sizeof(src) - 1);
	write_good(&w, 5);
	held = num_held(&w);
	write_good(&w, 6);
	assert_int_equal(num_held(&w), held); /* they sleep */
	assert_false(rig_poll(cq, &e));
	fast_lock(w.r.f->host);
	for (int i = 0; i < QPS / 2; i++) {
		rig_qp_free(&w.r, to[i]);
		rig_qp_free(&w.r, peer[i]);
	}
	fast_unlock(w.r.f->host);
	blocks = false;
	for (int i = QPS / 2; i < QPS; i++) {
		do
			assert_true(wait_cqe(cq, &e));
		while (e.wr_id < QPS / 2);
		assert_int_equal(e.status, IBV_WC_SUCCESS);
	}
	fast_lock(w.r.f->host);
	for (int i = QPS / 2; i < QPS; i++) {
		rig_qp_free(&w.r, to[i]);
		rig_qp_free(&w.r, peer[i]);
	}
	fast_unlock(w.r.f->host);
	rig_mr_free(&w.r, from);
	rig_mr_free(&w.r, at);
	WAIT_FOR(!in_blocked);
	write_good(&w, 6);
	fast_lock(w.r.f->host);
	rig_cq_free(&w.r, cq);
	fast_unlock(w.r.f->host);
	world_end(&w);
}

/* A container that has stalled the runner too often is trusted again after some time without a stall. */
static void stalls_are_forgotten(void **state)
{
	struct pvm_queue q = { 0 };
	uint64_t now = 1000000 * NS_PER_MS;
	uint32_t too_many;

	(void)state;
	for (too_many = 1; pvm_strike(&q, now), !q.careful_until; too_many++)
		assert_int_equal(q.strikes, too_many);
	assert_true(q.careful_until > now);
	q.careful_until = 0;
	now += 11000 * NS_PER_MS; /* time in which two are forgotten */
	pvm_strike(&q, now);
	assert_int_equal(q.strikes, too_many - 1);
	assert_int_equal(q.careful_until, 0);
	pvm_strike(&q, now + 3600000 * NS_PER_MS);
	assert_int_equal(q.strikes, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_ends_meanwhile),
		cmocka_unit_test(on_demand),
		cmocka_unit_test(on_demand_that_leaves),
		cmocka_unit_test(unmapped_fails_at_once),
		cmocka_unit_test(what_does_not_come_fails_late),
		cmocka_unit_test(a_file_ends),
		TWO_TEST(buffers_are_bounded),
		TWO_TEST(waits_are_in_order),
		TWO_TEST(who_is_called_keeps_its_place),
		cmocka_unit_test(many_wait),
		cmocka_unit_test(stalls_are_forgotten),
	};

	return cmocka_run_group_tests(tests, stall_rig_setup, NULL);
}
