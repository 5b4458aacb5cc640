/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rig.c tests/rig/unit/others.c ffr/fast/pvm.c */
/*
 * test_roles_both.c - a worker and a runner that lost its role are in calls on one client's memory at the same time,
 * in each order in which they may end. No threads: the steps of roles.c are called one by one.
 */
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "ffr/fast/roles.c"
#include "tests/rig/unit/rig.h"
#include "tests/rig/unit/unit.h"

struct both {
	struct rig r;
	struct rig_ses *s;
	struct pvm *p;
	struct pvm_client *pc;
	struct runner runner;
	struct pvm_call c[3]; /* the runner's, the worker's, and one that comes later */
	bool worker_spare;
};

static void both_make(struct both *b)
{
	memset(b, 0, sizeof(*b));
	rig_init(&b->r, &soft_ops);
	b->s = rig_session(&b->r, 0);
	b->p = b->r.f->pvm;
	b->pc = b->s->s.pvm;
	assert_non_null(b->pc);
	for (int i = 0; i < 3; i++) {
		struct pvm_call *c = &b->c[i];

		c->ses = &b->s->s;
		c->client = b->pc;
		c->user = b->pc->q;
		c->held = &b->pc->q->held[c->use];
		c->busy = true;
	}
	/* one waits for a worker that has not begun yet, and the runner is trusted with another one */
	pvm_call_work(&b->c[1]);
	pvm_enqueue(b->p, &b->c[1], PVM_READY);
	b->runner = (struct runner){ .call = &b->c[0], .client = b->pc };
	b->pc->in_call = true;
	b->p->runner = &b->runner;
	atomic_fetch_add(&b->p->call_seq, 1);
	/* the worker begins, the runner is taken for stuck, and a further call comes */
	b->worker_spare = work_begin(b->p, b->pc, &b->pc->has_worker);
	pvm_dequeue(b->p, &b->c[1]);
	take_over(b->p, NS_PER_MS);
	assert_true(b->runner.lost);
	pvm_call_work(&b->c[2]);
	pvm_enqueue(b->p, &b->c[2], PVM_READY);
	assert_int_equal(atomic_load(&b->pc->q->workers), 2);
	assert_true(TAILQ_EMPTY(&b->pc->q->ready));
}

static void worker_ends(struct both *b)
{
	b->pc->worker_seq++;
	work_end(b->p, b->pc, b->worker_spare, &b->pc->has_worker);
}

static void runner_returns(struct both *b)
{
	b->pc->in_call = false;
	b->pc->runner_seq++;
	work_end(b->p, b->pc, b->runner.spare, &b->pc->has_lost);
}

/* The client is in its queue's ready list exactly once. */
static void assert_ready(struct both *b)
{
	struct pvm_client *first = TAILQ_FIRST(&b->pc->q->ready);

	assert_ptr_equal(first, b->pc);
	assert_null(TAILQ_NEXT(first, entry));
	assert_int_equal(atomic_load(&b->pc->q->workers), 0);
	pvm_dequeue(b->p, &b->c[2]);
	assert_true(TAILQ_EMPTY(&b->pc->q->ready));
}

static void both_end(struct both *b)
{
	assert_int_equal(b->p->spare, 0);
	b->p->runner = NULL;
	rig_session_free(&b->r, b->s);
	rig_fini(&b->r);
}

static void worker_ends_first(void **state)
{
	struct both b;

	(void)state;
	both_make(&b);
	worker_ends(&b);
	assert_true(TAILQ_EMPTY(&b.pc->q->ready)); /* calls are made in order */
	runner_returns(&b);
	assert_ready(&b);
	both_end(&b);
}

static void runner_returns_first(void **state)
{
	struct pvm_mark mark;
	struct both b;

	(void)state;
	both_make(&b);
	pvm_cancel(b.r.f, &b.s->s, 1, 1, &mark); /* none, but who is in calls now */
	runner_returns(&b);
	assert_true(TAILQ_EMPTY(&b.pc->q->ready));
	assert_false(pvm_passed(&b.s->s, &mark)); /* the worker is still in one */
	worker_ends(&b);
	assert_true(pvm_passed(&b.s->s, &mark));
	assert_ready(&b);
	both_end(&b);
}

/* The session ends while a worker and a lost runner are in calls: the later of the two frees the client. */
static void session_goes(bool runner_first)
{
	struct pvm_queue *q;
	struct both b;
	int fd;

	both_make(&b);
	pvm_dequeue(b.p, &b.c[2]);
	fd = b.pc->mem_fd;
	q = b.pc->q;
	atomic_fetch_add(&q->refs, 1); /* the test's */
	pvm_session_del(b.r.f, &b.s->s);
	if (runner_first)
		runner_returns(&b);
	else
		worker_ends(&b);
	assert_true(fcntl(fd, F_GETFD) >= 0);
	assert_int_equal(atomic_load(&q->workers), 1);
	if (runner_first)
		worker_ends(&b);
	else
		runner_returns(&b);
	assert_int_equal(fcntl(fd, F_GETFD), -1);
	assert_int_equal(atomic_load(&q->workers), 0);
	assert_true(TAILQ_EMPTY(&q->ready));
	pvm_queue_put(q);
	both_end(&b);
}

static void session_goes_runner_first(void **state)
{
	(void)state;
	session_goes(true);
}

static void session_goes_worker_first(void **state)
{
	(void)state;
	session_goes(false);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(worker_ends_first), cmocka_unit_test(runner_returns_first),
			cmocka_unit_test(session_goes_runner_first),
			cmocka_unit_test(session_goes_worker_first));
}
