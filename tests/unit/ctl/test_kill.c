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
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>

#include "tests/rig/unit/soft_pair.h"
#include "ffr/ctl/cq.c"
#include "ffr/fast/pvm.c"
#include "ffr/ctl/qp.c"

#define STEPS_MAX 100000
#define RECV_ID	  9u
#define RECV_LEN  64u /* bytes */

/* The records of the two QPs, of QP 1's SRQ and of the receive that QP 1 has, in a ledger, which has their cursors. */
struct left {
	struct ledger *l;
	struct ledger_view *v;
	uint32_t slot[2], srq, recv;
	pid_t pid;     /* of the child */
	bool was_open; /* an atomic was noted that the word had to tell of */
};

/* An atomic on a word of 5, which becomes `after`. */
struct an_atomic {
	uint8_t op;
	uint64_t compare_add, swap, after;
};

/* What one WR leads to, if nobody is killed. */
struct outcome {
	bool has_recv, has_cqe;
	bool may_be_lost;     /* a datagram */
	const uint64_t *word; /* at the peer: an atomic's, or NULL */
	uint64_t before, after;
};

static void read_child(pid_t pid, void *to, const void *from, size_t len)
{
	struct iovec here = { to, len }, there = { (void *)from, len };

	assert_int_equal(process_vm_readv(pid, &here, 1, &there, 1, 0), (ssize_t)len);
}

/* As srq_restore() and recv_restore(). */
static void restore_srq(struct pair *p, struct left *left, pid_t pid)
{
	struct qp *qp = &p->qp[1]->qp;

	if (!qp->srq)
		return;
	read_child(pid, ledger_live(left->l, left->srq), qp->srq, sizeof(*qp->srq));
	read_child(pid, ledger_live(left->l, left->recv), qp->kept, sizeof(*qp->kept));
	assert_int_equal(srq_cursors(qp->srq, left->v, left->srq), 0);
	qp->soft->resp.recv = RECV_NONE;
	memset(qp->kept, 0xee, sizeof(*qp->kept));
	assert_int_equal(taken_restore(qp, left->v, left->recv), 0);
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
	restore_srq(p, left, pid);
}

/* Receives that were taken, and of which no completion tells. */
static uint32_t receives_taken(const struct qp *qp)
{
	if (!qp->srq)
		return qp->rq.head;
	if (qp->soft->resp.recv != RECV_TAKEN)
		return qp->srq->head;
	assert_int_equal(qp->kept->wr_id, RECV_ID);
	assert_int_equal(qp->kept->num_sge, 1);
	assert_int_equal(qp->kept->length, RECV_LEN);
	return qp->srq->head - 1;
}

/*
 * The word is as if the atomic was done, or not begun, and the next router knows which. In between it looks at the
 * word: *was_open.
 */
static void check_word(const struct qp *qp, const struct outcome *want, uint64_t word, bool again,
		       bool *was_open)
{
	struct pvm_word w = { .now = word };
	enum atom_step step = qp_atom_step(qp);

	assert_true(word == want->before || word == want->after);
	if (step == ATOM_TRIED) {
		*was_open = true;
		step = settled(&w, &qp->atom, 0);
		assert_int_equal(settled(&w, &qp->atom, -EFAULT), ATOM_LOST);
	}
	assert_int_not_equal(step, ATOM_LOST);
	if (want->before != want->after)
		assert_int_equal(step == ATOM_DONE, word == want->after);
	if (step == ATOM_DONE)
		assert_int_equal(qp->atom.old, want->before);
	else
		assert_true(again);
}

/* Completions that there will be in all: what is there, and what is to come. */
static void check(struct pair *p, const struct ctl *ctl, struct left *left, struct outcome want)
{
	struct qp *qp = &p->qp[0]->qp;
	uint32_t sent = p->cq[0]->cq.pi, received = p->cq[1]->cq.pi;
	enum left_wr what = left_wr(ctl, qp, &qp->attr, left->v, left->slot[0]);
	bool again = what == LEFT_AGAIN || !qp->sq.head;
	uint32_t told = want.has_cqe && (again || what == LEFT_TELL);

	assert_int_not_equal(what, LEFT_UNKNOWN);
	if (want.word) {
		uint64_t word;

		read_child(left->pid, &word, want.word, sizeof(word));
		check_word(qp, &want, word, again, &left->was_open);
	}
	assert_int_equal(sent + told, want.has_cqe);
	if (want.may_be_lost)
		assert_true(received + again <= 1);
	else
		assert_int_equal(received + (want.has_recv && again), want.has_recv);
	/* the receive is there for who repeats it, and for nobody else */
	assert_int_equal(receives_taken(&p->qp[1]->qp), received);
	/* told with the CQE, once */
	assert_int_equal(qp->sq.cqes + told, want.has_cqe);
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
	left->srq = ledger_slot_new(left->l, LEDGER_SRQ);
	left->recv = ledger_slot_new(left->l, LEDGER_RECV);
	assert_int_equal(ledger_open(ledger_fd(left->l), &left->v), 0);
}

/* One WR is posted on QP 0. */
static void killed_anywhere(struct pair *p, struct outcome want)
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
	left.pid = pid;
	left.was_open = false;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	while (WIFSTOPPED(status) && WSTOPSIG(status) != SIGUSR1 && steps++ < STEPS_MAX) {
		restore(p, &left, pid);
		check(p, &ctl, &left, want);
		assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, NULL), 0);
		assert_int_equal(waitpid(pid, &status, 0), pid);
	}
	restore(p, &left, pid);
	check(p, &ctl, &left, want);
	assert_int_equal(p->cq[0]->cq.pi, want.has_cqe);
	assert_int_equal(p->cq[1]->cq.pi, want.has_recv);
	assert_in_range(steps, 100, STEPS_MAX);
	assert_int_equal(left.was_open, want.word && want.before != want.after);
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
	killed_anywhere(p, (struct outcome){ .has_cqe = true });
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
	killed_anywhere(p, (struct outcome){ .has_cqe = true });
}

static void a_send(void **state)
{
	struct pair *p = *state;

	rig_recv(&p->r, p->qp[1], RECV_ID, p->mr[1], pair_at(p, 1, 0), RECV_LEN);
	pair_send(p, 7, 8);
	killed_anywhere(p, (struct outcome){ .has_recv = true, .has_cqe = true });
}

static void a_send_of_several_pieces(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND, 7);

	rig_recv(&p->r, p->qp[1], RECV_ID, p->mr[1], pair_at(p, 1, 0), RECV_LEN);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	rig_sge(e, p->mr[0], pair_at(p, 0, 64), 8);
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, (struct outcome){ .has_recv = true, .has_cqe = true });
}

/* An unsignalled SEND has no CQE, from which the next router could tell how far the SEND came. */
static void a_send_that_is_not_signalled(void **state)
{
	struct pair *p = *state;
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND, 7);

	rig_recv(&p->r, p->qp[1], RECV_ID, p->mr[1], pair_at(p, 1, 0), RECV_LEN);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->flags &= (uint8_t)~FF_SQE_SIGNALED;
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, (struct outcome){ .has_recv = true });
}

/* QP 1 gets an SRQ with one receive, and has room for the receive that it takes. */
static struct rig_srq *srq_up(struct pair *p)
{
	struct rig_srq *srq = rig_srq(&p->r, p->s[1], 16);

	rig_qp_free(&p->r, p->qp[1]);
	p->qp[1] = rig_qp(&p->r, p->s[1], IBV_QPT_RC, p->cq[1], p->cq[1], srq);
	p->qp[1]->qp.kept = calloc(1, sizeof(struct recv_wr));
	rig_state(&p->r, p->qp[0], IBV_QPS_RESET);
	rig_connect(&p->r, p->qp[0], p->qp[1]);
	rig_connect(&p->r, p->qp[1], p->qp[0]);
	rig_srq_recv(&p->r, srq, RECV_ID, p->mr[1], pair_at(p, 1, 0), RECV_LEN);
	return srq;
}

static void srq_down(struct pair *p, struct rig_srq *srq)
{
	struct recv_wr *kept = p->qp[1]->qp.kept;

	rig_qp_free(&p->r, p->qp[1]);
	p->qp[1] = NULL;
	rig_srq_free(&p->r, srq);
	free(kept);
}

static void a_send_to_an_srq(void **state)
{
	struct pair *p = *state;
	struct rig_srq *srq = srq_up(p);

	pair_send(p, 7, 8);
	killed_anywhere(p, (struct outcome){ .has_recv = true, .has_cqe = true });
	srq_down(p, srq);
}

static void a_send_of_several_pieces_to_an_srq(void **state)
{
	struct pair *p = *state;
	struct rig_srq *srq = srq_up(p);
	struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_SEND, 7);

	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	rig_sge(e, p->mr[0], pair_at(p, 0, 64), 8);
	e->flags &= (uint8_t)~FF_SQE_SIGNALED;
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, (struct outcome){ .has_recv = true });
	srq_down(p, srq);
}

static void a_datagram_that(struct pair *p, bool is_signaled)
{
	struct ah ah = { .o = { .kind = OBJ_AH, .ses = &p->s[0]->s }, .pd = &p->s[0]->pd };
	struct ff_sqe *e;

	ah.attr.is_global = 1;
	memcpy(ah.attr.dgid, p->s[1]->s.cont->gid[0].raw, 16);
	assert_int_equal(obj_insert(&p->s[0]->s.tab[OBJ_AH], &ah.o), 0);
	rig_recv(&p->r, p->qp[1], RECV_ID, p->mr[1], pair_at(p, 1, 0), RECV_LEN);
	e = rig_sqe(p->qp[0], FF_OP_SEND, 7);
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	if (!is_signaled)
		e->flags &= (uint8_t)~FF_SQE_SIGNALED;
	e->ud.ah = ah.o.handle;
	e->ud.remote_qpn = p->qp[1]->qp.qp_num;
	e->ud.remote_qkey = p->qp[1]->qp.attr.qkey;
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, (struct outcome){
				   .has_recv = true, .has_cqe = is_signaled, .may_be_lost = true });
	obj_remove(&p->s[0]->s.tab[OBJ_AH], &ah.o);
}

static void a_datagram(void **state)
{
	a_datagram_that(*state, true);
}

static void a_datagram_that_is_not_signalled(void **state)
{
	a_datagram_that(*state, false);
}

/* An atomic on that word of 5 in that MR, which makes it `after`. */
static void an_atomic_on(struct pair *p, uint64_t *word, const struct mr *mr, struct an_atomic a,
			 bool is_signaled)
{
	struct outcome want = {
		.has_cqe = is_signaled, .word = word, .before = 5, .after = a.after
	};
	struct ff_sqe *e = rig_sqe(p->qp[0], a.op, 7);

	*word = 5;
	rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
	e->remote_addr = (uintptr_t)word;
	e->rkey = mr->rkey;
	e->atomic.compare_add = a.compare_add;
	e->atomic.swap = a.swap;
	if (!is_signaled)
		e->flags &= (uint8_t)~FF_SQE_SIGNALED;
	rig_post(&p->r, p->qp[0]);
	killed_anywhere(p, want);
}

static void an_atomic(struct pair *p, struct an_atomic a, bool is_signaled)
{
	an_atomic_on(p, (uint64_t *)(p->buf[1] + 64), p->mr[1], a, is_signaled);
}

static const struct an_atomic add = { FF_OP_FETCH_ADD, 3, 0, 8 },
			      swap = { FF_OP_CMP_SWAP, 5, 6, 6 },
			      no_swap = { FF_OP_CMP_SWAP, 4, 6, 5 };

static void a_fetch_add(void **state)
{
	an_atomic(*state, add, true);
}

static void a_cmp_swap(void **state)
{
	an_atomic(*state, swap, true);
}

static void a_cmp_swap_that_finds_another_value(void **state)
{
	an_atomic(*state, no_swap, true);
}

static void a_fetch_add_that_is_not_signalled(void **state)
{
	an_atomic(*state, add, false);
}

/* Memory that is reached through the process only. The child changes it there, in this process, so that both have it. */
static void through_the_process(struct pair *p, struct an_atomic a)
{
	uint64_t *word =
		mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	struct mr *mr;

	assert_ptr_not_equal(word, MAP_FAILED);
	mr = rig_mr_pvm(&p->r, p->s[1], word, 4096, PAIR_ACCESS);
	an_atomic_on(p, word, mr, a, true);
	rig_mr_free(&p->r, mr);
	munmap(word, 4096);
}

static void a_fetch_add_through_the_process(void **state)
{
	through_the_process(*state, add);
}

static void a_cmp_swap_through_the_process(void **state)
{
	through_the_process(*state, swap);
}

/* The next router: the word tells it what was done, before the WR and any other atomic go on. */
static void what_was_noted_is_settled(void **state)
{
	static const struct {
		uint64_t now, answer, then;
		enum ibv_wc_status status;
	} row[] = {
		{ 5, 5, 8, IBV_WC_SUCCESS },	     /* it was not done */
		{ 8, 5, 8, IBV_WC_SUCCESS },	     /* it was */
		{ 77, 0, 77, IBV_WC_RETRY_EXC_ERR }, /* nobody knows */
	};
	struct pair *p = *state;
	struct mr *pvm = rig_mr_pvm(&p->r, p->s[1], p->buf[1], PAIR_BUF, PAIR_ACCESS);
	uint64_t *word = (uint64_t *)(p->buf[1] + 64), *answer = (uint64_t *)p->buf[0];

	for (unsigned i = 0; i < ARRAY_SIZE(row); i++) {
		struct qp *qp = &p->qp[0]->qp;
		struct ff_sqe *e = rig_sqe(p->qp[0], FF_OP_FETCH_ADD, i);

		*word = row[i].now;
		*answer = 0;
		rig_sge(e, p->mr[0], pair_at(p, 0, 0), 8);
		e->remote_addr = (uintptr_t)word;
		e->rkey = pvm->rkey;
		e->atomic.compare_add = 3;
		qp->atom = (struct qp_atom){ .at = (uint64_t)(qp->sq.head + 1) << 32 | ATOM_TRIED,
					     .old = 5,
					     .new = 8,
					     .va = (uintptr_t)word };
		assert_int_equal(pvm_settle(p->r.f, qp, pvm), 0);
		assert_non_null(qp->settle);
		rig_post(&p->r, p->qp[0]);
		rig_run(&p->r);
		assert_null(qp->settle);
		pair_expect(p->cq[0], i, row[i].status);
		assert_int_equal(*word, row[i].then);
		assert_int_equal(*answer, row[i].answer);
	}
	rig_mr_free(&p->r, pvm);
}

static int datagrams_setup(void **state)
{
	static struct pair p;

	pair_up(&p, IBV_QPT_UD, 0, 1);
	*state = &p;
	return 0;
}

#define UD_TEST(name) cmocka_unit_test_setup_teardown(name, datagrams_setup, pair_teardown)

int main(void)
{
#ifndef __x86_64__
	puts("needs a CPU whose atomics are single instructions");
	return 77;
#endif
	return UNIT_RUN(PAIR_TEST(a_write), PAIR_TEST(a_send_that_is_not_signalled),
			PAIR_TEST(a_read_of_several_pieces), PAIR_TEST(a_send),
			PAIR_TEST(a_send_of_several_pieces), PAIR_TEST(a_send_to_an_srq),
			PAIR_TEST(a_send_of_several_pieces_to_an_srq), PAIR_TEST(a_fetch_add),
			PAIR_TEST(a_cmp_swap), PAIR_TEST(a_cmp_swap_that_finds_another_value),
			PAIR_TEST(a_fetch_add_that_is_not_signalled),
			PAIR_TEST(a_fetch_add_through_the_process),
			PAIR_TEST(a_cmp_swap_through_the_process),
			PAIR_TEST(what_was_noted_is_settled), UD_TEST(a_datagram),
			UD_TEST(a_datagram_that_is_not_signalled));
}
