/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_kill.c - a router that is killed at any instruction of a WR: what the next router makes of the QPs and CQs. A
 * child carries the WR out, one instruction after the other, and what it has in memory then is restored here: each
 * WR and each receive has to have one completion in the end.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/rig/unit/soft_pair.h"
#include "ffr/ctl/cq.c"
#include "ffr/ctl/qp.c"

#define STEPS_MAX 100000

/* The two QPs' records in a ledger, which has their cursors. */
struct left {
	struct ledger *l;
	struct ledger_view *v;
	uint32_t slot[2];
};

static void read_child(pid_t pid, void *to, const void *from, size_t len)
{
	struct iovec here = { to, len }, there = { (void *)from, len };

	assert_int_equal(process_vm_readv(pid, &here, 1, &there, 1, 0), (ssize_t)len);
}

/* As cq_restore() and qp_restore() do it with what the child has. */
static void restore(struct pair *p, struct left *left, pid_t pid)
{
	for (int i = 0; i < 2; i++) {
		struct cq cq;
		struct qp *qp = ledger_live(left->l, left->slot[i]);

		read_child(pid, &cq, &p->cq[i]->cq, sizeof(cq));
		p->cq[i]->cq.pi = cq.pi;
		p->cq[i]->cq.ci_seen = cq.ci_seen;
		p->cq[i]->cq.late = 0;
		late_cqe(&p->cq[i]->cq);
		read_child(pid, qp, &p->qp[i]->qp, sizeof(*qp));
	}
	for (int i = 0; i < 2; i++)
		cursors_restore(&p->qp[i]->qp, left->v, left->slot[i]);
}

/* Completions that there will be in all: what is there, and what is to come. */
static void check(struct pair *p, const struct ctl *ctl, struct left *left, bool has_recv,
		  bool has_cqe)
{
	struct qp *qp = &p->qp[0]->qp;
	uint32_t sent = p->cq[0]->cq.pi, received = p->cq[1]->cq.pi;
	enum left_wr what = left_wr(ctl, qp, &qp->attr, left->v, left->slot[0]);
	bool again = what == LEFT_AGAIN || !qp->sq.head;

	assert_int_not_equal(what, LEFT_UNKNOWN);
	assert_int_equal(sent + (has_cqe && (again || what == LEFT_TELL)), has_cqe);
	assert_int_equal(received + (has_recv && again), has_recv);
	/* the receive is there for who repeats it, and for nobody else */
	assert_int_equal(p->qp[1]->qp.rq.head, received);
	/* told with the CQE, once */
	assert_int_equal(qp->sq.cqes + (has_cqe && (again || what == LEFT_TELL)), has_cqe);
}

static void left_open(struct left *left)
{
	static const struct ledger_qp none;

	left->l = ledger_new(NULL);
	assert_non_null(left->l);
	for (int i = 0; i < 2; i++) {
		left->slot[i] = ledger_slot_new(left->l, LEDGER_QP);
		ledger_write(left->l, left->slot[i], &none);
	}
	assert_int_equal(ledger_open(ledger_fd(left->l), &left->v), 0);
}

/* One WR is posted on QP 0. */
static void killed_anywhere(struct pair *p, bool has_recv, bool has_cqe)
{
	const struct ctl ctl = { .host = p->r.f->host };
	struct left left;
	int status, steps = 0;
	pid_t pid;

	left_open(&left);
	pid = fork();
	if (!pid) {
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
		raise(SIGSTOP);
		rig_run(&p->r);
		raise(SIGUSR1); /* all is done */
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR1 && steps++ < STEPS_MAX) {
		restore(p, &left, pid);
		check(p, &ctl, &left, has_recv, has_cqe);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	restore(p, &left, pid);
	check(p, &ctl, &left, has_recv, has_cqe);
	assert_int_equal(p->cq[0]->cq.pi, has_cqe);
	assert_int_equal(p->cq[1]->cq.pi, has_recv);
	assert_in_range(steps, 100, STEPS_MAX);
	kill(pid, SIGKILL);
	waitpid(pid, &status, 0);
	ledger_close(left.v);
	ledger_free(left.l);
	/* the pair is as it was, but for what is shared with the child */
	for (int i = 0; i < 2; i++)
		p->cq[i]->cq.pi = p->qp[i]->qp.rq.head = p->qp[i]->qp.rq.done = 0;
	p->qp[0]->qp.sq.head = p->qp[0]->qp.sq.cqes = 0;
}

static void a_write(void **state)
{
	struct pair *p = *state;

	pair_rdma(p, FF_OP_WRITE, 7, 0, 0, 8);
	killed_anywhere(p, false, true);
}

static void a_read_of_several_pieces(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_READ, 7);

	e->remote_addr = pair_at(p, 1, 0);
	e->rkey = p->mr[1]->rkey;
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	rig_sge(e, p->mr[0], pair_at(p, 0, 64), 8);
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, false, true);
}

static void a_send(void **state)
{
	struct pair *p = *state;

	rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 64);
	pair_send(p, 7, 8);
	killed_anywhere(p, true, true);
}

static void a_send_of_several_pieces(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND, 7);

	rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 64);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	rig_sge(e, p->mr[0], pair_at(p, 0, 64), 8);
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, true, true);
}

/* An unsignalled SEND has no CQE, from which the next router could tell how far the SEND came. */
static void a_send_that_is_not_signalled(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND, 7);

	rig_recv(&p->r, p->qp[1], 9, p->mr[1], pair_at(p, 1, 0), 64);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->flags &= (uint8_t)~FF_SQE_SIGNALED;
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, true, false);
}

int main(void)
{
#ifndef __x86_64__
	puts("needs a CPU whose atomics are single instructions");
	return 77;
#endif
	return UNIT_RUN(PAIR_TEST(a_write), PAIR_TEST(a_send_that_is_not_signalled),
			PAIR_TEST(a_read_of_several_pieces), PAIR_TEST(a_send),
			PAIR_TEST(a_send_of_several_pieces));
}
