/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * worker.c - a thread for calls to the kernel that take long, and the queue of its jobs. Meanwhile the control thread
 * and the runner serve others. The control thread gets the jobs back in the order in which they were given
 * (nic_work()).
 *
 * A NIC has up to three workers, because none of them may wait for another: one pins pages, opens the NIC and takes it
 * down; one makes address handles (ah.c), for which the kernel may ask the network for seconds; one calls the kernel's
 * rdma_cm (cm/ucma.c).
 *
 * The runner starts the worker, in nic_start(), before the runner's seccomp filter. So the worker has the credential
 * that the NIC was opened with, which the kernel demands where a doorbell is a call. And the worker may open files, as
 * far as Landlock allows: those that libibverbs reads, and /dev/infiniband.
 *
 * A signal that has no other meaning here interrupts a call that waits. The signal may come before the call begins, and
 * the call would then wait nevertheless. So nic_job_await() sends the signal again until the job is done.
 *
 * Without a thread (nic_conf.no_worker, for tests) nic_job_give() does the job, and the job comes back as from the
 * thread.
 */
#include "ffr/nic/nic.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

#include "ffr/lib/sandbox.h"

#define INTERRUPT SIGURG   /* ignored where a process has no handler */
#define AGAIN_NS  1000000l /* between two signals of nic_job_await() */
#define NS_PER_S  1000000000l

struct nic_worker {
	struct fast_host *host;
	bool has_thread;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t news;	/* a job is there, or stop is set */
	pthread_cond_t is_done; /* a job can come back */
	struct nic_jobs todo, done;
	const struct nic_job *running; /* the job that the thread is in, or NULL */
	_Atomic uint32_t num;	       /* jobs that were given and have not come back */
	bool stop;
};

static struct nic_job *job_take(struct nic_worker *w)
{
	struct nic_job *job;

	while (STAILQ_EMPTY(&w->todo) && !w->stop)
		pthread_cond_wait(&w->news, &w->lock);
	job = STAILQ_FIRST(&w->todo);
	if (job)
		STAILQ_REMOVE_HEAD(&w->todo, next);
	w->running = job;
	return job;
}

static void interrupted(int sig)
{
	(void)sig;
}

/* All threads have the handler, and only this one gets the signal. */
static void be_interruptible(void)
{
	struct sigaction sa = { .sa_handler = interrupted }; /* without SA_RESTART */
	sigset_t set;

	sigemptyset(&sa.sa_mask);
	sigemptyset(&set);
	sigaddset(&set, INTERRUPT);
	sigaction(INTERRUPT, &sa, NULL);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
}

static void *worker_main(void *arg)
{
	struct nic_worker *w = arg;
	struct nic_job *job;

	be_interruptible();
	if (sandbox_filter(SANDBOX_NIC))
		abort(); /* it would be confined to nothing; the log has the line */
	pthread_mutex_lock(&w->lock);
	while ((job = job_take(w))) {
		pthread_mutex_unlock(&w->lock);
		job->run(job);
		pthread_mutex_lock(&w->lock);
		w->running = NULL;
		STAILQ_INSERT_TAIL(&w->done, job, next);
		pthread_cond_signal(&w->is_done);
		fast_want_work(w->host);
	}
	pthread_mutex_unlock(&w->lock);
	return NULL;
}

struct nic_worker *nic_worker_new(struct fast_host *host)
{
	struct nic_worker *w = calloc(1, sizeof(*w));
	pthread_mutexattr_t attr;

	if (!w)
		return NULL;
	w->host = host;
	/* a runner of the class SCHED_FIFO may wait for the lock */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&w->lock, &attr);
	pthread_mutexattr_destroy(&attr);
	pthread_cond_init(&w->news, NULL);
	pthread_cond_init(&w->is_done, NULL);
	STAILQ_INIT(&w->todo);
	STAILQ_INIT(&w->done);
	return w;
}

int nic_worker_start(struct nic_worker *w)
{
	int err = pthread_create(&w->thread, NULL, worker_main, w);

	w->has_thread = !err;
	return -err;
}

void nic_worker_join(struct nic_worker *w)
{
	if (!w || !w->has_thread)
		return;
	pthread_mutex_lock(&w->lock);
	w->stop = true;
	pthread_cond_signal(&w->news);
	pthread_mutex_unlock(&w->lock);
	pthread_join(w->thread, NULL);
	w->has_thread = false;
}

void nic_worker_free(struct nic_worker *w)
{
	if (!w)
		return;
	nic_worker_join(w);
	while (nic_jobs_back(w))
		;
	pthread_cond_destroy(&w->news);
	pthread_cond_destroy(&w->is_done);
	pthread_mutex_destroy(&w->lock);
	free(w);
}

void nic_job_give(struct nic_worker *w, struct nic_job *job)
{
	w->num++;
	if (!w->has_thread) {
		job->run(job);
		STAILQ_INSERT_TAIL(&w->done, job, next);
		fast_want_work(w->host);
		return;
	}
	pthread_mutex_lock(&w->lock);
	STAILQ_INSERT_TAIL(&w->todo, job, next);
	pthread_cond_signal(&w->news);
	pthread_mutex_unlock(&w->lock);
}

uint32_t nic_jobs_back(struct nic_worker *w)
{
	struct nic_jobs done = STAILQ_HEAD_INITIALIZER(done);
	struct nic_job *job;

	pthread_mutex_lock(&w->lock);
	STAILQ_CONCAT(&done, &w->done);
	pthread_mutex_unlock(&w->lock);
	while ((job = STAILQ_FIRST(&done))) {
		STAILQ_REMOVE_HEAD(&done, next);
		w->num--;
		job->back(job);
	}
	return w->num;
}

void nic_jobs_settle(struct nic_worker *w)
{
	while (nic_jobs_back(w)) {
		pthread_mutex_lock(&w->lock);
		while (STAILQ_EMPTY(&w->done))
			pthread_cond_wait(&w->is_done, &w->lock);
		pthread_mutex_unlock(&w->lock);
	}
}

bool nic_job_cancel(struct nic_worker *w, struct nic_job *job)
{
	struct nic_job *j;

	pthread_mutex_lock(&w->lock);
	STAILQ_FOREACH(j, &w->todo, next)
		if (j == job)
			break;
	if (j)
		STAILQ_REMOVE(&w->todo, j, nic_job, next);
	pthread_mutex_unlock(&w->lock);
	w->num -= j != NULL;
	return j;
}

void nic_jobs_cancel(struct nic_worker *w, struct nic_jobs *to)
{
	struct nic_job *job;

	pthread_mutex_lock(&w->lock);
	STAILQ_FOREACH(job, &w->todo, next)
		w->num--;
	STAILQ_CONCAT(to, &w->todo);
	pthread_mutex_unlock(&w->lock);
}

/* Call with w->lock held. */
static bool interrupt_it(struct nic_worker *w, const struct nic_job *job)
{
	if (w->running != job)
		return false;
	pthread_kill(w->thread, INTERRUPT);
	return true;
}

bool nic_job_interrupt(struct nic_worker *w, const struct nic_job *job)
{
	bool is;

	pthread_mutex_lock(&w->lock);
	is = interrupt_it(w, job);
	pthread_mutex_unlock(&w->lock);
	return is;
}

void nic_job_await(struct nic_worker *w, const struct nic_job *job)
{
	struct timespec at;

	pthread_mutex_lock(&w->lock);
	while (interrupt_it(w, job)) {
		clock_gettime(CLOCK_REALTIME, &at);
		at.tv_nsec += AGAIN_NS;
		at.tv_sec += at.tv_nsec / NS_PER_S;
		at.tv_nsec %= NS_PER_S;
		pthread_cond_timedwait(&w->is_done, &w->lock, &at);
	}
	pthread_mutex_unlock(&w->lock);
}
