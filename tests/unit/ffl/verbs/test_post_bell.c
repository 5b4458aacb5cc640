/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c */
/* threads: yes */
/*
 * test_post_bell.c - ffl/verbs/post.c: the doorbell, when it is rung and when not; posters that race with a
 * router that goes to sleep, and with each other.
 */
#ifdef __x86_64__
#include <cpuid.h>
#endif
#include <pthread.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ffl/verbs/post.h"
#include "tests/rig/fakes/fake_ffl.h"
#include "tests/rig/unit/unit.h"

static void arm(struct ffl_qp *qp, uint32_t evt)
{
	atomic_store(&qp->hdr->evt, evt);
	atomic_store(&qp->hdr->need, 1);
}

static void bell_when_asked(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 1, 0, false);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };

	(void)state;
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	assert_int_equal(fake_post(qp, &wr), 0); /* watched: nothing but the SQE is written */
	assert_false(fake_take_dirty(qp->handle));
	assert_int_equal(fake_bells(), 0);
	assert_int_equal(fake.ctx->lazy_qp, 0);

	arm(qp, 1);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(atomic_load(&qp->hdr->need), 0);
	assert_int_equal(atomic_load(&fake.ctx->hdr->need_wakeup), 0);
	assert_true(fake_take_dirty(qp->handle));
	assert_int_equal(fake_bells(), 1);

	arm(qp, 2); /* the router is awake already: the dirty set is enough */
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_true(fake_take_dirty(qp->handle));
	assert_int_equal(fake_bells(), 0);

	assert_int_equal(fake_post(qp, &wr), 0); /* need was taken */
	assert_false(fake_take_dirty(qp->handle));
	fake_free(qp, cq);
}

/* A router that asks for it learns when the bell rang; another one costs no look at the clock. */
static void bell_with_time(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 8, 1, 0, false);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ff_ses_hdr *h = fake.ctx->hdr;
	struct timespec t;
	uint64_t since;

	(void)state;
	atomic_store(&h->need_wakeup, FF_WAKEUP);
	arm(qp, 0);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_bells(), 1);
	assert_int_equal(atomic_load(&h->rang_at), 0);

	clock_gettime(CLOCK_MONOTONIC, &t);
	since = (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
	atomic_store(&h->need_wakeup, FF_WAKEUP_TIMED);
	arm(qp, 1);
	assert_int_equal(fake_post(qp, &wr), 0);
	assert_int_equal(fake_bells(), 1);
	assert_int_equal(atomic_load(&h->need_wakeup), FF_WAKEUP_NONE);
	clock_gettime(CLOCK_MONOTONIC, &t);
	assert_in_range(atomic_load(&h->rang_at), since,
			(uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec);
	fake_free(qp, cq);
}

/* The dirty set's words and bits for handles all over its range */
static void dirty_bits(void **state)
{
	static const uint32_t index[] = { 0, 1, 63, 64, 4095, 4096, FF_MAX_QP - 1 };
	struct ff_ses_hdr *h = fake.ctx->hdr;

	(void)state;
	for (size_t k = 0; k < ARRAY_SIZE(index); k++) {
		uint32_t i = index[k];

		ffl_announce(fake.ctx, 0x30000 | i);
		assert_int_equal(atomic_load(&h->dirty_sum[i / 4096]), 1ull << i / 64 % 64);
		assert_int_equal(atomic_load(&h->dirty[i / 64]), 1ull << i % 64);
		assert_true(fake_take_dirty(0x30000 | i));
	}
}

static void event_index(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 16, 1, 0, false);
	struct ibv_send_wr one = { .opcode = IBV_WR_SEND };
	struct ibv_send_wr list[3] = { { .next = &list[1], .opcode = IBV_WR_SEND },
				       { .next = &list[2], .opcode = IBV_WR_SEND },
				       { .opcode = IBV_WR_SEND } };

	(void)state;
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	arm(qp, 3);
	for (int i = 0; i < 3; i++) { /* 0, 1, 2: kept back */
		assert_int_equal(fake_post(qp, &one), 0);
		assert_int_equal(fake.ctx->lazy_qp, qp->handle);
		assert_int_equal(fake_bells(), 0);
	}
	assert_int_equal(fake_post(qp, &one), 0); /* 3 */
	assert_true(fake_take_dirty(qp->handle));
	assert_int_equal(fake_bells(), 1);
	assert_int_equal(fake.ctx->lazy_qp, 0);

	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	arm(qp, 5); /* in the middle of 4, 5, 6 */
	assert_int_equal(fake_post(qp, list), 0);
	assert_int_equal(fake_bells(), 1);
	arm(qp, 7 + 3);
	assert_int_equal(fake_post(qp, list), 0); /* 7, 8, 9: just before it */
	assert_int_equal(atomic_load(&qp->hdr->need), 1);
	assert_int_equal(fake.ctx->lazy_qp, qp->handle);
	fake_free(qp, cq);
}

static void need_event_wraps(void **state)
{
	(void)state;
	assert_true(ff_need_event(0xffffffff, 1, 0xfffffffe));
	assert_true(ff_need_event(0, 1, 0xffffffff));
	assert_false(ff_need_event(1, 1, 0xffffffff));
	assert_false(ff_need_event(0xfffffffd, 1, 0xfffffffe));
	assert_false(ff_need_event(5, 5, 5));
}

static void lazy_is_rung(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *a = fake_qp(IBV_QPT_RC, cq, 64, 1, 0, false);
	struct ffl_qp *b = fake_qp(IBV_QPT_RC, cq, 64, 1, 0, false);
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND };
	struct ibv_wc wc;

	(void)state;
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	arm(a, 32);
	arm(b, 32);
	assert_int_equal(fake_post(a, &wr), 0);
	assert_int_equal(fake_post(a, &wr), 0);
	assert_false(fake_take_dirty(a->handle));
	/* another QP takes its place: the first one is announced */
	assert_int_equal(fake_post(b, &wr), 0);
	assert_true(fake_take_dirty(a->handle));
	assert_int_equal(fake_bells(), 1);
	assert_false(fake_take_dirty(b->handle));
	/* an empty poll, once */
	atomic_store(&fake.ctx->hdr->need_wakeup, 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_true(fake_take_dirty(b->handle));
	assert_int_equal(fake_bells(), 1);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	assert_false(fake_take_dirty(b->handle));
	/* asking for an event */
	assert_int_equal(fake_post(b, &wr), 0);
	assert_int_equal(ibv_req_notify_cq(&cq->cq, 0), 0);
	assert_true(fake_take_dirty(b->handle));
	/* a destroyed QP may be left behind */
	assert_int_equal(fake_post(b, &wr), 0);
	assert_int_equal(ibv_destroy_qp(&b->qp), 0);
	assert_int_equal(ibv_poll_cq(&cq->cq, 1, &wc), 0);
	fake_free(a, cq);
}

/*
 * Dekker: a router that arms, fences and looks again, and sleeps on the eventfd when it finds
 * nothing, must see every WR; a lost wake-up leaves it asleep for ever, which alarm() ends.
 * The poster waits for the router now and then, and the router polls for a varying time, so that
 * both meet at the edge of sleep. (Without the fence in ffl_doorbell most runs hang.)
 */
#define STRESS_WRS 300000u

/* Keep the calling thread on the nth CPU that it may use, if there is one. */
static void pin(int nth)
{
	cpu_set_t one, may;

	sched_getaffinity(0, sizeof(may), &may);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
		if (!CPU_ISSET(cpu, &may) || nth--)
			continue;
		CPU_ZERO(&one);
		CPU_SET(cpu, &one);
		sched_setaffinity(0, sizeof(one), &one);
	}
}

struct stress {
	struct ffl_qp *qp;
	_Atomic uint32_t seen;
	uint32_t sleeps;
	uint32_t bad;
};

static void *stress_router(void *arg)
{
	struct stress *s = arg;
	struct ffl_qp *qp = s->qp;
	struct ff_ses_hdr *h = fake.ctx->hdr;
	uint32_t head = 0, idle = 0;
	uint64_t n;

	pin(1);
	while (head < STRESS_WRS) {
		const struct ff_sqe *e = fake_sqe(qp, head);

		if (e) {
			s->bad += e->wr_id != head || e->sge[5].addr != ~(uint64_t)head;
			head++;
			atomic_store_explicit(&qp->hdr->sq_done, head, memory_order_release);
			atomic_store(&s->seen, head);
			continue;
		}
		if (idle++ < head * 7 % 64)
			continue;
		idle = 0;
		/* QP to rest, then session to rest, then sleep */
		atomic_store_explicit(&qp->hdr->evt, head, memory_order_relaxed);
		atomic_store_explicit(&qp->hdr->need, 1, memory_order_release);
		atomic_store_explicit(&h->need_wakeup, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
		if (!fake_sqe(qp, head) && !atomic_load(&h->dirty_sum[0])) {
			s->sleeps++;
			if (read(fake.ctx->bell_fd, &n, sizeof(n)) != sizeof(n))
				s->bad++;
		}
		atomic_store(&qp->hdr->need, 0);
		atomic_store(&h->need_wakeup, 0);
		fake_take_dirty(qp->handle);
	}
	return NULL;
}

static void no_lost_wakeup(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 64, 6, 0, false);
	struct stress s = { .qp = qp };
	struct ibv_sge sg[6] = { 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = sg, .num_sge = 6 };
	cpu_set_t old;
	pthread_t router;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	close(fake.ctx->bell_fd);
	fake.ctx->bell_fd = eventfd(0, 0); /* this router blocks */
	alarm(60);
	assert_int_equal(pthread_create(&router, NULL, stress_router, &s), 0);
	pin(0);
	for (uint32_t i = 0; i < STRESS_WRS; i++) {
		wr.wr_id = i;
		sg[5].addr = ~(uint64_t)i;
		while (fake_post(qp, &wr) == ENOMEM)
			usleep(0);
		for (uint32_t spin = i % 7 ? 0 : 50000; spin && atomic_load(&s.seen) <= i; spin--)
			;
	}
	pthread_join(router, NULL);
	alarm(0);
	sched_setaffinity(0, sizeof(old), &old);
	assert_int_equal(s.bad, 0);
	assert_int_equal(atomic_load(&s.seen), STRESS_WRS);
	assert_true(s.sleeps > 0);
	fake_free(qp, cq);
}

/* Two posters on one QP: every slot holds one whole WR, and nothing is lost or doubled. */
#define RACE_WRS 20000u

static void *race_poster(void *arg)
{
	struct ffl_qp *qp = arg;
	struct ibv_sge sg = { 0 };
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND, .sg_list = &sg, .num_sge = 1 }, *bad;

	for (uint32_t i = 0; i < RACE_WRS; i++) {
		wr.wr_id = i;
		sg.addr = i;
		while (ibv_post_send(&qp->qp, &wr, &bad))
			usleep(0);
	}
	return NULL;
}

static void two_posters(void **state)
{
	struct ffl_cq *cq = fake_cq(16);
	struct ffl_qp *qp = fake_qp(IBV_QPT_RC, cq, 16, 1, 0, false);
	pthread_t t[2];
	uint64_t sum = 0;

	(void)state;
	for (int i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&t[i], NULL, race_poster, qp), 0);
	for (uint32_t head = 0; head < 2 * RACE_WRS;) {
		const struct ff_sqe *e = fake_sqe(qp, head);

		if (!e) {
			usleep(0);
			continue;
		}
		assert_int_equal(e->wr_id, e->sge[0].addr);
		sum += e->wr_id;
		atomic_store_explicit(&qp->hdr->sq_done, ++head, memory_order_release);
	}
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	assert_int_equal(sum, (uint64_t)RACE_WRS * (RACE_WRS - 1));
	fake_free(qp, cq);
}

/* Where there is none the kernel sets no number for it, and some machines have the instruction all the same. */
static bool has_rdtscp(void)
{
#ifdef __x86_64__
	uint32_t a, b, c, d;

	return __get_cpuid(0x80000001, &a, &b, &c, &d) && d & 1u << 27;
#else
	return false;
#endif
}

/* The CPU's number is the same whichever way it is found. */
static void cpu_ways(void **state)
{
	cpu_set_t one, old;
	int cpu;

	(void)state;
	assert_int_equal(sched_getaffinity(0, sizeof(old), &old), 0);
	for (cpu = 0; !CPU_ISSET(cpu, &old); cpu++)
		;
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	for (int how = FFL_CPU_UNKNOWN; how <= FFL_CPU_CALL; how++) {
		if (how == FFL_CPU_RDPID || (how == FFL_CPU_RDTSCP && !has_rdtscp()))
			continue; /* not on every machine; UNKNOWN finds it */
		atomic_store(&ffl_cpu_how, how);
		assert_int_equal(ffl_cpu(), cpu);
	}
	atomic_store(&ffl_cpu_how, FFL_CPU_UNKNOWN);
	ffl_cpu();
	assert_int_not_equal(atomic_load(&ffl_cpu_how), FFL_CPU_UNKNOWN);
	assert_int_equal(ffl_cpu(), cpu);
	sched_setaffinity(0, sizeof(old), &old);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, fake_setup, fake_teardown)
	return UNIT_RUN(T(bell_when_asked), T(bell_with_time), T(dirty_bits), T(event_index),
			T(need_event_wraps), T(lazy_is_rung), T(no_lost_wakeup), T(two_posters),
			T(cpu_ways));
}
