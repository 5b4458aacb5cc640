/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_copies.c - ffr/ctl/copies.c: which copies of a session's memory the answer of DESTROY_QP and DEALLOC_MW waits for,
 * how long, who is served meanwhile, and what becomes of the call if its connection or its container ends first. No
 * thread copies: the tests set the fields in which pvm.c keeps who is in a call.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c -Wl,--wrap=pvm_passed
 */
#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/copies.c"
#include "ffr/fast/pvm_int.h"
#include "tests/rig/unit/ctl_calls.h"
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/wait.h"

static struct ctl_rig *const g = &call_rig;
static unsigned looks; /* times that somebody asked whether the copies have ended */

bool __real_pvm_passed(const struct session *s, const struct pvm_mark *mark);
bool __wrap_pvm_passed(const struct session *s, const struct pvm_mark *mark);
bool __wrap_pvm_passed(const struct session *s, const struct pvm_mark *mark)
{
	looks++;
	return __real_pvm_passed(s, mark);
}

/* A client of container 0 with two QPs, and who copies from its memory. */
struct client {
	int sock;
	struct session *s;
	uint32_t pd, cq, qp[2];
	struct pvm_client *pc;
};

static void client_open(struct client *c)
{
	c->sock = call_client(g, 0);
	c->s = LIST_FIRST(&g->c[0]->sessions);
	c->pc = c->s->pvm;
	c->pd = call_pd(g, c->sock);
	c->cq = call_cq(g, c->sock);
	for (int i = 0; i < 2; i++)
		c->qp[i] = call_qp(g, c->sock, c->pd, c->cq);
	assert_non_null(c->pc);
	looks = 0;
}

static void client_close(struct client *c)
{
	close(c->sock);
	rig_pump(g);
}

static void runner_begins(struct client *c)
{
	c->pc->in_call = true;
}

static void runner_ends(struct client *c)
{
	c->pc->in_call = false;
	c->pc->runner_seq++;
}

static void worker_begins(struct client *c)
{
	c->pc->has_worker = true;
}

static void worker_ends(struct client *c)
{
	c->pc->has_worker = false;
	c->pc->worker_seq++;
}

static void ask(struct client *c, uint16_t type, uint32_t handle)
{
	uint32_t req[16] = { handle };

	rig_ask(c->sock, type, req, ctl_type(type)->req_size, NULL, 0, 0);
}

static int answer(struct client *c, uint16_t type)
{
	uint32_t resp;

	return rig_answer(g, c->sock, type, &resp, sizeof(resp));
}

/* The call is under way, and stays so although the router has looked several times. */
static void assert_waits(struct client *c, uint16_t type)
{
	unsigned from = looks;

	WAIT_FOR((rig_pump(g), looks >= from + 5));
	assert_int_equal(answer(c, type), -EAGAIN);
}

static void assert_answered(struct client *c, uint16_t type)
{
	int st;

	WAIT_FOR((st = answer(c, type)) != -EAGAIN);
	assert_int_equal(st, 0);
}

/* ---- which copies --------------------------------------------------------------------------- */

static void without_copies_the_answer_comes_at_once(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	assert_int_equal(call_one(g, c.sock, FF_MSG_DESTROY_QP, c.qp[0]), 0);
	assert_int_equal(looks, 1);
	client_close(&c);
}

static void it_waits_for_the_copy_under_way(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	runner_begins(&c);
	ask(&c, FF_MSG_DESTROY_QP, c.qp[0]);
	assert_waits(&c, FF_MSG_DESTROY_QP);
	assert_null(qp_get_unsealed(c.s, c.qp[0]));
	runner_ends(&c);
	assert_answered(&c, FF_MSG_DESTROY_QP);
	client_close(&c);
}

/* A copy that began later is for something else. A peer that never stops copying keeps no call waiting. */
static void it_waits_for_no_later_copy(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	runner_begins(&c);
	ask(&c, FF_MSG_DESTROY_QP, c.qp[0]);
	assert_waits(&c, FF_MSG_DESTROY_QP);
	runner_ends(&c);
	runner_begins(&c);
	assert_answered(&c, FF_MSG_DESTROY_QP);
	assert_true(looks < LOOKS);
	runner_ends(&c);
	client_close(&c);
}

static void it_waits_for_the_runner_and_the_worker(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	for (int runner_first = 0; runner_first < 2; runner_first++) {
		runner_begins(&c);
		worker_begins(&c);
		ask(&c, FF_MSG_DESTROY_QP, c.qp[runner_first]);
		assert_waits(&c, FF_MSG_DESTROY_QP);
		runner_first ? runner_ends(&c) : worker_ends(&c);
		assert_waits(&c, FF_MSG_DESTROY_QP);
		runner_first ? worker_ends(&c) : runner_ends(&c);
		assert_answered(&c, FF_MSG_DESTROY_QP);
	}
	client_close(&c);
}

static void the_end_of_a_window_waits_too(void **state)
{
	struct ff_alloc_mw_resp made;
	struct client c;

	(void)state;
	client_open(&c);
	assert_int_equal(RIG_CALL(g, c.sock, ALLOC_MW,
				  (&(struct ff_alloc_mw_req){ .pd = c.pd, .type = IBV_MW_TYPE_1 }),
				  &made),
			 0);
	worker_begins(&c);
	ask(&c, FF_MSG_DEALLOC_MW, made.mw);
	assert_waits(&c, FF_MSG_DEALLOC_MW);
	worker_ends(&c);
	assert_answered(&c, FF_MSG_DEALLOC_MW);
	client_close(&c);
}

/* Nothing has ended: there is nothing to wait for. */
static void a_refused_call_does_not_wait(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	runner_begins(&c);
	assert_int_equal(call_one(g, c.sock, FF_MSG_DESTROY_QP, c.qp[1] ^ 0x10000), -EINVAL);
	assert_int_equal(call_one(g, c.sock, FF_MSG_DEALLOC_MW, c.qp[0]), -EINVAL);
	assert_int_equal(looks, 0);
	runner_ends(&c);
	client_close(&c);
}

/* A copy that no thread has begun is taken back, and its QP makes it anew: it may be for another QP. */
static void a_copy_that_waits_is_taken_back(void **state)
{
	static uint8_t memory[64];
	struct ff_reg_mr_resp mr;
	struct pvm_wait w = { 0 };
	struct pvm_call *call;
	struct client c;
	struct fast *f;
	struct qp *qp;

	(void)state;
	client_open(&c);
	f = c.s->fast;
	assert_int_equal(call_reg_mr(g, c.sock, c.pd, memory, sizeof(memory),
				     IBV_ACCESS_LOCAL_WRITE, &mr),
			 0);
	fast_lock(g->ctl.host);
	qp = qp_get_unsealed(c.s, c.qp[1]);
	call = pvm_call_get(f->pvm, qp, PVM_COPY, sizeof(memory), &w);
	assert_non_null(call);
	call->ses = c.s;
	call->dir = PVM_READ;
	call->va = (uintptr_t)memory;
	call->len = sizeof(memory);
	assert_int_equal(pvm_submit(f, call, mr_get(c.s, mr.mr), &w), 0);
	assert_true(call->busy);
	fast_unlock(g->ctl.host);
	assert_int_equal(call_one(g, c.sock, FF_MSG_DESTROY_QP, c.qp[0]), 0);
	assert_false(call->busy);
	assert_int_equal(call->result, -EAGAIN);
	fast_lock(g->ctl.host);
	pvm_call_put(f->pvm, call);
	fast_unlock(g->ctl.host);
	client_close(&c);
}

/* ---- memory that does not answer -------------------------------------------------------------- */

static void it_does_not_wait_for_ever(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	runner_begins(&c); /* and never ends */
	ask(&c, FF_MSG_DESTROY_QP, c.qp[0]);
	assert_answered(&c, FF_MSG_DESTROY_QP);
	assert_int_equal(looks, 1 + LOOKS);
	/* the session is as good as before */
	assert_int_equal(call_one(g, c.sock, FF_MSG_DESTROY_QP, c.qp[0]), -EINVAL);
	runner_ends(&c);
	assert_int_equal(call_one(g, c.sock, FF_MSG_DESTROY_QP, c.qp[1]), 0);
	client_close(&c);
}

/* Of the same container and of another one: the copy is held until the others have their answers. */
static void others_are_served_meanwhile(void **state)
{
	union {
		struct ff_hdr hdr;
		uint8_t bytes[FF_MSG_MAX];
	} p;
	struct client c, same;
	int other;

	(void)state;
	client_open(&same);
	client_open(&c);
	other = call_client(g, 1);
	runner_begins(&c);
	ask(&c, FF_MSG_DESTROY_QP, c.qp[0]);
	assert_int_equal(call_one(g, same.sock, FF_MSG_DESTROY_QP, same.qp[0]), 0);
	assert_int_equal(call_one(g, other, FF_MSG_DEALLOC_PD, call_pd(g, other)), 0);
	assert_int_equal(recv(c.sock, &p, sizeof(p), MSG_DONTWAIT), -1);
	runner_ends(&c);
	WAIT_FOR((rig_pump(g), recv(c.sock, &p, sizeof(p), MSG_DONTWAIT) > 0));
	assert_int_equal(p.hdr.status, 0);
	close(other);
	client_close(&same);
	client_close(&c);
}

/* ---- ends -------------------------------------------------------------------------------------- */

static void the_client_goes_first(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	runner_begins(&c);
	ask(&c, FF_MSG_DESTROY_QP, c.qp[0]);
	assert_waits(&c, FF_MSG_DESTROY_QP);
	close(c.sock);
	WAIT_FOR((rig_pump(g), LIST_EMPTY(&g->c[0]->sessions)));
	assert_true(c.pc->gone); /* kept for the thread in the call */
	runner_ends(&c);
	fast_lock(g->ctl.host);
	pvm_client_put(c.pc);
	fast_unlock(g->ctl.host);
}

/* The teardown ends it with all connections. */
static void the_container_goes_first(void **state)
{
	struct client c;

	(void)state;
	client_open(&c);
	runner_begins(&c);
	ask(&c, FF_MSG_DESTROY_QP, c.qp[0]);
	assert_waits(&c, FF_MSG_DESTROY_QP);
	c.pc->in_call = false; /* the call has ended, but the router has not looked again */
	close(c.sock);
}

int main(void)
{
	return UNIT_RUN(
		CALL_TEST(without_copies_the_answer_comes_at_once),
		CALL_TEST(it_waits_for_the_copy_under_way), CALL_TEST(it_waits_for_no_later_copy),
		CALL_TEST(it_waits_for_the_runner_and_the_worker),
		CALL_TEST(the_end_of_a_window_waits_too), CALL_TEST(a_refused_call_does_not_wait),
		CALL_TEST(a_copy_that_waits_is_taken_back), CALL_TEST(it_does_not_wait_for_ever),
		CALL_TEST(others_are_served_meanwhile), CALL_TEST(the_client_goes_first),
		CALL_TEST(the_container_goes_first));
}
