/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ah.c - address handles of the NIC, for datagrams. [lock], but for the thread, which has a lock of its own.
 *
 * The kernel asks the network for the peer's hardware address when a handle is made, and that lasts a second where
 * nobody answers. So neither the runner nor the control thread makes them, but a thread that does nothing else.
 * Each container has some, used last first, of which the thread has one at a time: who asks for many that do not
 * answer waits for its own. A handle that is in use by a datagram is not ended.
 *
 * Tests: test_unplug.c, test_ud.c
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ffr/lib/sandbox.h"

#define AH_REST_NS (1000 * NS_PER_MS) /* one that could not be made is not asked for again before */

/* ---- the thread ------------------------------------------------------------------------------------- */

static void do_job(struct nic_dev *d, struct nic_ah *ah, bool is_confined)
{
	struct nic_ahs *a = &d->ahs;
	uint64_t one = 1;

	if (ah->ib) {
		if (d->lib.destroy_ah(ah->ib))
			log_err("NIC %s: an address handle cannot be destroyed: %m", d->host->name);
		free(ah);
		return;
	}
	if (is_confined)
		ah->ib = d->lib.create_ah(d->ud_pd, &ah->attr);
	pthread_mutex_lock(&a->mutex);
	STAILQ_INSERT_TAIL(&a->done, ah, job);
	pthread_mutex_unlock(&a->mutex);
	atomic_store(&a->has_done, true);
	if (write(a->fd, &one, sizeof(one)) != sizeof(one))
		log_err("NIC %s: eventfd: %m", d->host->name);
}

static void *ah_thread(void *arg)
{
	struct nic_dev *d = arg;
	struct nic_ahs *a = &d->ahs;
	bool is_confined = !sandbox_enter(SANDBOX_NIC);
	struct nic_ah *ah;

	pthread_mutex_lock(&a->mutex);
	while (!a->stop) {
		ah = a->rests ? NULL : STAILQ_FIRST(&a->todo);
		if (!ah) {
			pthread_cond_wait(&a->more, &a->mutex);
			continue;
		}
		STAILQ_REMOVE_HEAD(&a->todo, job);
		a->busy = true;
		pthread_mutex_unlock(&a->mutex);
		do_job(d, ah, is_confined);
		pthread_mutex_lock(&a->mutex);
		a->busy = false;
		if (a->rests)
			nic_wake(d->f); /* nic_ahs_rest() */
	}
	pthread_mutex_unlock(&a->mutex);
	return NULL;
}

static void give(struct nic_dev *d, struct nic_ah *ah)
{
	struct nic_ahs *a = &d->ahs;

	pthread_mutex_lock(&a->mutex);
	STAILQ_INSERT_TAIL(&a->todo, ah, job);
	pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->mutex);
}

int nic_ahs_start(struct nic_dev *d)
{
	struct nic_ahs *a = &d->ahs;
	pthread_mutexattr_t attr;
	int err;

	a->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (a->fd < 0)
		return errno;
	err = fast_watch(d->f, a->fd, EPOLLIN, a);
	if (err)
		return -err;
	STAILQ_INIT(&a->todo);
	STAILQ_INIT(&a->done);
	pthread_cond_init(&a->more, NULL);
	/* a runner of the FIFO class may want it */
	pthread_mutexattr_init(&attr);
	pthread_mutexattr_setprotocol(&attr, PTHREAD_PRIO_INHERIT);
	pthread_mutex_init(&a->mutex, &attr);
	pthread_mutexattr_destroy(&attr);
	err = pthread_create(&a->thread, NULL, ah_thread, d);
	a->runs = !err;
	return err;
}

void nic_ahs_end(struct nic_lib *lib, struct nic_ah_jobs *ahs)
{
	struct nic_ah *ah;

	while ((ah = STAILQ_FIRST(ahs))) {
		STAILQ_REMOVE_HEAD(ahs, job);
		if (ah->ib)
			lib->destroy_ah(ah->ib);
		free(ah);
	}
}

void nic_ahs_stop(struct nic_dev *d)
{
	struct nic_ahs *a = &d->ahs;

	if (a->runs) {
		pthread_mutex_lock(&a->mutex);
		a->stop = true;
		pthread_cond_signal(&a->more);
		pthread_mutex_unlock(&a->mutex);
		pthread_join(a->thread, NULL);
		pthread_mutex_destroy(&a->mutex);
		pthread_cond_destroy(&a->more);
		nic_ahs_end(&d->lib, &a->todo);
		nic_ahs_end(&d->lib, &a->done);
	}
	if (a->fd > 0)
		close(a->fd);
}

/* ---- the NIC is removed, and is back ------------------------------------------------------------------ */

bool nic_ahs_rest(struct nic_dev *d)
{
	struct nic_ahs *a = &d->ahs;
	bool is_idle;

	if (!a->runs)
		return true;
	pthread_mutex_lock(&a->mutex);
	a->rests = true;
	is_idle = !a->busy;
	pthread_mutex_unlock(&a->mutex);
	return is_idle;
}

void nic_ahs_go_on(struct nic_dev *d)
{
	struct nic_ahs *a = &d->ahs;

	if (!a->runs)
		return;
	pthread_mutex_lock(&a->mutex);
	a->rests = false;
	pthread_cond_signal(&a->more);
	pthread_mutex_unlock(&a->mutex);
}

void nic_ahs_take(struct nic_dev *d, struct nic_ah_jobs *to)
{
	struct nic_ahs *a = &d->ahs;

	if (!a->runs)
		return;
	pthread_mutex_lock(&a->mutex);
	STAILQ_CONCAT(to, &a->todo);
	STAILQ_CONCAT(to, &a->done);
	pthread_mutex_unlock(&a->mutex);
}

/* ---- a container's handles [lock] -------------------------------------------------------------------- */

/* The thread gets the one that waits the longest. */
static void ask(struct nic_dev *d, struct nic_ud_pool *pool)
{
	struct nic_ah *ah;

	if (pool->asking)
		return;
	TAILQ_FOREACH_REVERSE(ah, &pool->ahs, nic_ah_list, entry)
	{
		if (ah->state != AH_ASKED)
			continue;
		pool->asking = ah;
		give(d, ah);
		return;
	}
}

static void end(struct nic_dev *d, struct nic_ah *ah)
{
	if (ah->ib)
		give(d, ah);
	else
		free(ah);
}

/* One place more. False: all are in use. */
static bool evict(struct nic_dev *d, struct nic_ud_pool *pool)
{
	struct nic_ah *ah;

	TAILQ_FOREACH_REVERSE(ah, &pool->ahs, nic_ah_list, entry)
	{
		if (ah->users || ah == pool->asking)
			continue;
		TAILQ_REMOVE(&pool->ahs, ah, entry);
		pool->num_ahs--;
		end(d, ah);
		return true;
	}
	return false;
}

static bool is_same(const struct ibv_ah_attr *a, const struct ibv_ah_attr *b)
{
	return !memcmp(&a->grh.dgid, &b->grh.dgid, sizeof(a->grh.dgid)) &&
	       a->grh.sgid_index == b->grh.sgid_index && a->grh.flow_label == b->grh.flow_label &&
	       a->grh.hop_limit == b->grh.hop_limit &&
	       a->grh.traffic_class == b->grh.traffic_class && a->dlid == b->dlid &&
	       a->sl == b->sl && a->src_path_bits == b->src_path_bits &&
	       a->static_rate == b->static_rate;
}

static struct nic_ah *find(struct nic_ud_pool *pool, const struct ibv_ah_attr *attr)
{
	struct nic_ah *ah;

	TAILQ_FOREACH(ah, &pool->ahs, entry)
		if (is_same(&ah->attr, attr))
			return ah;
	return NULL;
}

static struct nic_ah *ah_new(struct nic_dev *d, struct nic_ud_pool *pool,
			     const struct ibv_ah_attr *attr)
{
	struct nic_ah *ah;

	if (pool->num_ahs == pool->max_ahs && !evict(d, pool))
		return NULL;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->pool = pool;
	ah->attr = *attr;
	LIST_INIT(&ah->waiting);
	TAILQ_INSERT_HEAD(&pool->ahs, ah, entry);
	pool->num_ahs++;
	return ah;
}

struct nic_ah *nic_ah_get(struct nic_dev *d, struct nic_ud_pool *pool,
			  const struct ibv_ah_attr *attr)
{
	struct nic_ah *ah = find(pool, attr);

	if (!ah)
		ah = ah_new(d, pool, attr);
	if (!ah)
		return NULL;
	if (ah != TAILQ_FIRST(&pool->ahs)) {
		TAILQ_REMOVE(&pool->ahs, ah, entry);
		TAILQ_INSERT_HEAD(&pool->ahs, ah, entry);
	}
	if (ah->state == AH_FAILED && d->f->now >= ah->until)
		ah->state = AH_ASKED;
	if (ah->state == AH_ASKED)
		ask(d, pool);
	ah->users++;
	return ah;
}

static void done_one(struct nic_dev *d, struct nic_ah *ah)
{
	struct nic_ud_pool *pool = ah->pool;
	struct nic_ud *u;

	if (!pool) {
		end(d, ah);
		return;
	}
	pool->asking = NULL;
	ah->state = ah->ib ? AH_READY : AH_FAILED;
	ah->until = d->f->now + AH_REST_NS;
	while ((u = LIST_FIRST(&ah->waiting))) {
		LIST_REMOVE(u, wait);
		u->waits = false;
		fast_qp_activate(d->f, u->nq->qp);
	}
	ask(d, pool);
}

uint32_t nic_ahs_done(struct nic_dev *d)
{
	struct nic_ahs *a = &d->ahs;
	struct nic_ah_jobs now = STAILQ_HEAD_INITIALIZER(now);
	struct nic_ah *ah;
	uint32_t n = 0;

	if (!atomic_load_explicit(&a->has_done, memory_order_relaxed))
		return 0;
	atomic_store(&a->has_done, false);
	pthread_mutex_lock(&a->mutex);
	STAILQ_CONCAT(&now, &a->done);
	pthread_mutex_unlock(&a->mutex);
	while ((ah = STAILQ_FIRST(&now))) {
		STAILQ_REMOVE_HEAD(&now, job);
		done_one(d, ah);
		n++;
	}
	return n;
}

void nic_ahs_ready(struct nic_dev *d)
{
	uint64_t n;

	/* has_done tells the rest */
	if (read(d->ahs.fd, &n, sizeof(n)) < 0 && errno != EAGAIN)
		log_err("NIC %s: eventfd: %m", d->host->name);
}

void nic_ahs_forget(struct nic_dev *d, struct nic_ud_pool *pool)
{
	struct nic_ah *ah;

	while ((ah = TAILQ_FIRST(&pool->ahs))) {
		TAILQ_REMOVE(&pool->ahs, ah, entry);
		ah->pool = NULL;
		if (ah != pool->asking) /* done_one() */
			end(d, ah);
	}
}
