/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/rig.c tests/rig/fakes/fake_backend.c */
/*
 * test_cpu.c - who pays for a fast thread's CPU time, and what becomes of a container that has used
 * what max_cpu allows, with the fake backend and in virtual time.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/obj/cpu.h"
#include "tests/rig/fakes/fake_backend.h"
#include "tests/rig/unit/rig.h"

#define BURST CPU_BURST_NS

static struct rig r;
static struct rig_ses *ses[2];
static struct rig_cq *cq[2];
static struct rig_qp *qp[2];

static int setup(void **state)
{
	(void)state;
	fake_reset();
	rig_init(&r, &fake_ops);
	for (int i = 0; i < 2; i++) {
		ses[i] = rig_session(&r, i);
		cq[i] = rig_cq(&r, ses[i], 64, false);
		qp[i] = rig_qp(&r, ses[i], IBV_QPT_RC, cq[i], cq[i], NULL);
		rig_connect(&r, qp[i], NULL);
	}
	rig_run(&r);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	for (int i = 0; i < 2; i++) {
		rig_qp_free(&r, qp[i]);
		rig_cq_free(&r, cq[i]);
		rig_session_free(&r, ses[i]);
	}
	rig_fini(&r);
	return 0;
}

static void limit(int i, uint64_t max_cpu)
{
	fast_container_limits(&r.cont[i], &(struct ffo_limits){ .max_cpu = max_cpu });
}

static uint64_t paid(int i)
{
	return r.cont[i].stats.cpu_ns;
}

/* The thread has worked for it alone, for so long. */
static void work_for(int i, uint64_t ns)
{
	r.f->now += ns;
	cpu_served(r.f, &r.cont[i], ns);
	cpu_settle(r.f, ns);
}

/* One WR, as the library posts it: is a doorbell asked for? */
static bool post(int i, uint64_t id)
{
	struct ff_qp_hdr *h = qp[i]->qp.hdr;
	struct ff_ses_hdr *s = ses[i]->s.hdr;
	uint32_t old = qp[i]->sq_tail, slot = FF_HANDLE_INDEX(qp[i]->qp.o.handle);

	rig_sqe(qp[i], FF_OP_WRITE, id);
	atomic_store(&qp_sqe(&qp[i]->qp, old)->seq, ff_seq(old));
	qp[i]->sq_tail++;
	if (!atomic_load(&h->need) || !ff_need_event(atomic_load(&h->evt), qp[i]->sq_tail, old) ||
	    !atomic_exchange(&h->need, 0))
		return false;
	atomic_fetch_or(&s->dirty[slot / 64], 1ull << (slot % 64));
	atomic_fetch_or(&s->dirty_sum[slot / 64 / 64], 1ull << (slot / 64 % 64));
	return atomic_exchange(&s->need_wakeup, 0);
}

static void ring(int i)
{
	uint64_t one = 1;

	assert_int_equal(write(ses[i]->bell, &one, sizeof(one)), sizeof(one));
}

/* Bells that the thread hears. -1: nothing wakes it at all. */
static int heard(void)
{
	struct epoll_event ev[8];
	int n = epoll_wait(r.f->epoll_fd, ev, 8, 0);

	return n ? (int)fast_bells(r.f, ev, n) : -1;
}

/* ---- who pays --------------------------------------------------------------------------------- */

static void turns_are_paid(void **state)
{
	(void)state;
	cpu_settle(r.f, 5000); /* nobody was served */
	cpu_served(r.f, &r.cont[0], 2000);
	cpu_served(r.f, &r.cont[1], 1000);
	cpu_served(r.f, &r.cont[0], 1000);
	cpu_settle(r.f, 8000); /* half of it was not in turns, and nobody woke the thread */
	assert_int_equal(paid(0), 6000);
	assert_int_equal(paid(1), 2000);
	cpu_settle(r.f, 8000);
	assert_int_equal(paid(0), 6000);
	/* less than by the clock: others ran meanwhile */
	cpu_served(r.f, &r.cont[0], 4000000);
	cpu_served(r.f, &r.cont[1], 1000000);
	cpu_settle(r.f, 10000);
	assert_int_equal(paid(0), 6000 + 8000);
	assert_int_equal(paid(1), 2000 + 2000);
}

static void wakeups_are_paid(void **state)
{
	(void)state;
	/* one worked for long, the other woke the thread for little */
	cpu_woken_by(r.f, &r.cont[0]);
	cpu_served(r.f, &r.cont[0], 100000);
	for (int i = 0; i < 9; i++) {
		cpu_woken_by(r.f, &r.cont[1]);
		cpu_served(r.f, &r.cont[1], 1000);
	}
	cpu_settle(r.f, 109000 + 40000);
	assert_int_equal(paid(0), 100000 + 4000);
	assert_int_equal(paid(1), 9000 + 36000);
	/* a timer did: who is served then */
	r.f->timer_woke = true;
	cpu_served(r.f, &r.cont[1], 0);
	r.f->timer_woke = false;
	cpu_served(r.f, &r.cont[0], 1000);
	cpu_settle(r.f, 5000);
	assert_int_equal(paid(0), 104000 + 1000);
	assert_int_equal(paid(1), 45000 + 4000);
	/* and for nothing */
	cpu_woken_by(r.f, &r.cont[1]);
	cpu_settle(r.f, 700);
	assert_int_equal(paid(1), 49700);
}

/* What turns_serve() tells: a container that is alone has the turn, others what they took. */
static void turns_tell(void **state)
{
	(void)state;
	rig_advance(&r, 10 * NS_PER_MS);
	rig_sqe(qp[0], FF_OP_WRITE, 1);
	rig_post(&r, qp[0]);
	fast_turn(r.f);
	assert_ptr_equal(r.f->turn_of, &r.cont[0]);
	r.f->turn_of = NULL;
	rig_sqe(qp[1], FF_OP_WRITE, 2);
	rig_post(&r, qp[1]);
	fast_turn(r.f);
	assert_null(r.f->turn_of);
	assert_true(r.cont[1].cpu.is_served);
	cpu_settle(r.f, 100);
	assert_int_equal(paid(1), 100); /* the other one found nothing to do */
}

/* ---- the limit -------------------------------------------------------------------------------- */

static void who_is_over_rests(void **state)
{
	uint64_t from;

	(void)state;
	limit(0, 100);
	work_for(0, BURST);
	assert_false(r.cont[0].cpu.parked); /* it may begin with that */
	work_for(0, BURST);
	assert_true(r.cont[0].cpu.parked);
	from = r.f->now;
	for (int i = 0; i < 5; i++)
		assert_false(post(0, i));
	rig_run(&r);
	assert_int_equal(fake_posted(), 0);
	/* another one is served as ever */
	post(1, 7);
	fast_qp_activate(r.f, &qp[1]->qp);
	rig_run(&r);
	assert_int_equal(fake_posted(), 1);
	fake_complete(r.f, IBV_WC_SUCCESS);
	/* two bursts are 5 ms at that limit, less the half that they took */
	rig_advance(&r, 18 * BURST - NS_PER_US);
	assert_true(r.cont[0].cpu.parked);
	assert_int_equal(fake_posted(), 1);
	rig_advance(&r, NS_PER_US);
	assert_false(r.cont[0].cpu.parked);
	assert_int_equal(r.cont[0].stats.held_ns, r.f->now - from);
	for (int i = 0; i < 5; i++) {
		struct ff_cqe c;

		assert_int_equal(fake_posted(), 2 + i);
		fake_complete(r.f, IBV_WC_SUCCESS);
		rig_run(&r);
		assert_true(rig_poll(cq[0], &c));
		assert_int_equal(c.wr_id, i);
	}
}

/* Over a long time it has its share, and no more, whatever it asks for. */
static void its_share_holds(void **state)
{
	static const uint64_t max_cpu[] = { 1, 20, 50, 500, 1500 };

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(max_cpu); i++) {
		uint64_t from = r.f->now, before = paid(0), all = 20000 * NS_PER_MS;

		limit(0, max_cpu[i]);
		while (r.f->now - from < all) {
			if (!r.cont[0].cpu.parked)
				work_for(0, 100 * NS_PER_US);
			else
				rig_advance(&r, timer_next(&r.f->timers) - r.f->now);
		}
		all = max_cpu[i] < 1000 ? all / 1000 * max_cpu[i] : all;
		assert_in_range(paid(0) - before, all - all / 50, all + all / 50);
	}
}

static void a_tenant_rests(void **state)
{
	struct tenant *t = r.cont[0].of;

	(void)state;
	assert_ptr_equal(t, r.cont[1].of);
	assert_int_equal(
		fast_tenant_limits(r.f->host, t->name, &(struct ffo_limits){ .max_cpu = 100 }), 0);
	work_for(0, 4 * BURST);
	assert_true(r.cont[0].cpu.parked);
	assert_false(r.cont[1].cpu.parked);
	work_for(1, 1000);
	assert_true(r.cont[1].cpu.parked);
	/* another limit, another reckoning */
	assert_int_equal(
		fast_tenant_limits(r.f->host, t->name, &(struct ffo_limits){ .max_cpu = 0 }), 0);
	assert_false(r.cont[0].cpu.parked);
	assert_false(r.cont[1].cpu.parked);
}

static void a_new_limit_ends_it(void **state)
{
	(void)state;
	limit(0, 1);
	work_for(0, 4 * BURST);
	assert_true(r.cont[0].cpu.parked);
	assert_int_equal(cpu_wait(&r.cont[0], r.f->now), (4 * 1000 - 4) * BURST);
	limit(0, 2);
	assert_false(r.cont[0].cpu.parked);
	assert_int_equal(cpu_wait(&r.cont[0], r.f->now), 0);
	post(0, 1);
	rig_run(&r);
	assert_int_equal(fake_posted(), 1);
	fake_complete(r.f, IBV_WC_SUCCESS);
}

/* Sessions that had gone to rest do not wake the thread either, and nobody's hostile bell does twice. */
static void bells_are_not_heard(void **state)
{
	(void)state;
	limit(0, 100);
	rig_advance(&r, 10 * NS_PER_MS);
	assert_false(ses[0]->s.bells.is_active);
	work_for(0, 4 * BURST);
	assert_true(post(0, 1)); /* it had asked for one */
	ring(0);
	assert_int_equal(heard(), 0);
	assert_int_equal(ses[0]->s.hdr->need_wakeup, 0);
	ring(0);
	assert_int_equal(heard(), -1);
	post(1, 2);
	ring(1);
	assert_int_equal(heard(), 1);
	rig_run(&r);
	assert_int_equal(fake_posted(), 1);
	fake_complete(r.f, IBV_WC_SUCCESS);
	rig_advance(&r, 40 * BURST);
	assert_int_equal(fake_posted(), 2); /* without another bell */
	fake_complete(r.f, IBV_WC_SUCCESS);
	rig_advance(&r, 10 * NS_PER_MS);
	heard(); /* what was rung meanwhile */
	ring(0);
	assert_int_equal(heard(), 1);
}

/* Whatever ends or begins while it rests. */
static void what_goes_and_comes(void **state)
{
	struct rig_ses *s;

	(void)state;
	limit(0, 100);
	work_for(0, 4 * BURST);
	s = rig_session(&r, 0);
	fast_qp_activate(r.f, &qp[0]->qp);
	ring(0);
	assert_int_equal(heard(), 0);
	rig_session_free(&r, s);
	rig_qp_free(&r, qp[0]);
	qp[0] = rig_qp(&r, ses[0], IBV_QPT_RC, cq[0], cq[0], NULL);
	rig_connect(&r, qp[0], NULL);
	rig_session_free(&r, rig_session(&r, 0));
	s = rig_session(&r, 0);
	rig_advance(&r, 40 * BURST);
	assert_true(s->s.bells.is_active);
	assert_false(post(0, 1));
	rig_run(&r);
	assert_int_equal(fake_posted(), 1);
	fake_complete(r.f, IBV_WC_SUCCESS);
	rig_session_free(&r, s);
	work_for(0, 4 * BURST); /* and it goes while it rests: teardown */
	assert_true(r.cont[0].cpu.parked);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	return UNIT_RUN(TEST(turns_are_paid), TEST(wakeups_are_paid), TEST(turns_tell),
			TEST(who_is_over_rests), TEST(its_share_holds), TEST(a_tenant_rests),
			TEST(a_new_limit_ends_it), TEST(bells_are_not_heard),
			TEST(what_goes_and_comes));
}
