/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/* threads: yes */
/* test_worker.c - jobs are done in order, by the worker while it is there, and come back to the control thread. */
#include "tests/rig/unit/nic_rig.h"

#include <poll.h>
#include <pthread.h>
#include <semaphore.h>

#define JOBS 100

struct job {
	struct nic_job job;
	int number;
};

static sem_t go, woken;
static pthread_t by;  /* who ran the last one */
static int ran, back; /* so many, in order */

static void run(struct nic_job *job)
{
	assert_int_equal(((struct job *)job)->number, ran++);
	by = pthread_self();
}

static void run_slowly(struct nic_job *job)
{
	while (sem_wait(&go))
		;
	run(job);
}

/* As a call that waits for the network. */
static void run_asleep(struct nic_job *job)
{
	sem_post(&go);
	assert_int_equal(poll(NULL, 0, 60000), -1);
	run(job);
}

static void come_back(struct nic_job *job)
{
	assert_int_equal(((struct job *)job)->number, back++);
}

static void wake(struct fast_host *h)
{
	(void)h;
	sem_post(&woken);
}

static struct fast_host host = { .work_wake = wake };
static struct job jobs[JOBS];

static struct nic_worker *with_jobs(void (*how)(struct nic_job *job))
{
	ran = back = 0;
	sem_init(&go, 0, 0);
	sem_init(&woken, 0, 0);
	for (int i = 0; i < JOBS; i++)
		jobs[i] = (struct job){ .job = { .run = how, .back = come_back }, .number = i };
	return nic_worker_new(&host);
}

static void without_a_thread_at_once(void **state)
{
	struct nic_worker *w = with_jobs(run);

	(void)state;
	for (int i = 0; i < JOBS; i++) {
		nic_job_give(w, &jobs[i].job);
		assert_int_equal(ran, i + 1);
		assert_int_equal(back, 0);
	}
	assert_int_equal(nic_jobs_back(w), 0);
	assert_int_equal(back, JOBS);
	assert_true(pthread_equal(by, pthread_self()));
	nic_worker_free(w);
}

static void by_the_thread_in_order(void **state)
{
	struct nic_worker *w = with_jobs(run);

	(void)state;
	assert_int_equal(nic_worker_start(w), 0);
	for (int i = 0; i < JOBS; i++)
		nic_job_give(w, &jobs[i].job);
	for (int i = 0; i < JOBS; i++)
		while (sem_wait(&woken))
			;
	assert_int_equal(nic_jobs_back(w), 0);
	assert_int_equal(back, JOBS);
	nic_worker_join(w);
	assert_false(pthread_equal(by, pthread_self()));
	nic_worker_free(w);
}

/* Who gives one does not wait for it. */
static void nobody_waits(void **state)
{
	struct nic_worker *w = with_jobs(run_slowly);

	(void)state;
	assert_int_equal(nic_worker_start(w), 0);
	nic_job_give(w, &jobs[0].job);
	nic_job_give(w, &jobs[1].job);
	assert_int_equal(nic_jobs_back(w), 2);
	assert_int_equal(back, 0);
	sem_post(&go);
	while (sem_wait(&woken))
		;
	assert_int_equal(nic_jobs_back(w), 1);
	assert_int_equal(back, 1);
	sem_post(&go);
	nic_worker_free(w);
	assert_int_equal(back, 2);
}

/* What was given before the end is done, and what is given afterwards. */
static void at_the_end(void **state)
{
	struct nic_worker *w = with_jobs(run);

	(void)state;
	assert_int_equal(nic_worker_start(w), 0);
	for (int i = 0; i < JOBS - 1; i++)
		nic_job_give(w, &jobs[i].job);
	nic_worker_join(w);
	assert_int_equal(ran, JOBS - 1);
	nic_job_give(w, &jobs[JOBS - 1].job);
	assert_int_equal(ran, JOBS);
	nic_worker_free(w);
	assert_int_equal(back, JOBS);
	nic_worker_free(NULL);
	nic_worker_join(NULL);
}

/* What has not begun can be taken back; what waits in a call can be made to return from it. */
static void one_is_not_wanted(void **state)
{
	struct nic_worker *w = with_jobs(run_asleep);

	(void)state;
	assert_int_equal(nic_worker_start(w), 0);
	nic_job_give(w, &jobs[0].job);
	nic_job_give(w, &jobs[1].job);
	while (sem_wait(&go)) /* the first one has begun */
		;
	assert_true(nic_job_cancel(w, &jobs[1].job));
	assert_false(nic_job_cancel(w, &jobs[1].job));
	assert_false(nic_job_cancel(w, &jobs[0].job));
	assert_false(nic_job_interrupt(w, &jobs[1].job));
	nic_job_await(w, &jobs[1].job); /* nothing to wait for */
	nic_job_await(w, &jobs[0].job);
	assert_int_equal(ran, 1);
	assert_int_equal(nic_jobs_back(w), 0);
	assert_int_equal(back, 1);
	nic_worker_free(w);
}

/* All jobs that have not begun are the giver's again, in their order; the one that has begun comes back. */
static void none_is_wanted(void **state)
{
	struct nic_jobs mine = STAILQ_HEAD_INITIALIZER(mine);
	struct nic_worker *w = with_jobs(run_asleep);
	int i = 0;

	(void)state;
	assert_int_equal(nic_worker_start(w), 0);
	for (int j = 0; j < 4; j++)
		nic_job_give(w, &jobs[j].job);
	while (sem_wait(&go)) /* the first one has begun */
		;
	nic_jobs_cancel(w, &mine);
	while (!STAILQ_EMPTY(&mine)) {
		assert_int_equal(((struct job *)STAILQ_FIRST(&mine))->number, ++i);
		STAILQ_REMOVE_HEAD(&mine, next);
	}
	assert_int_equal(i, 3);
	assert_int_equal(nic_jobs_back(w), 1);
	nic_job_await(w, &jobs[0].job);
	assert_int_equal(nic_jobs_back(w), 0);
	assert_int_equal(ran, 1);
	assert_int_equal(back, 1);
	nic_worker_free(w);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(without_a_thread_at_once),
			cmocka_unit_test(by_the_thread_in_order), cmocka_unit_test(nobody_waits),
			cmocka_unit_test(at_the_end), cmocka_unit_test(one_is_not_wanted),
			cmocka_unit_test(none_is_wanted));
}
