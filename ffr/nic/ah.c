/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ah.c - address handles of the NIC, for datagrams. [lock], except for what the worker does.
 *
 * When a handle is made, the kernel asks the network for the peer's hardware address, which takes a second if nobody
 * answers. So a worker that does nothing else (worker.c) makes the handles, and neither the runner nor the control
 * thread waits. Each container has some handles, used last first. The worker has one of a container at a time, so who
 * asks for many handles that do not answer delays only its own datagrams. A handle that a datagram uses is not ended.
 *
 * While the NIC is not up, nobody may call it. Jobs of that time wait on dev->ahs_held, and so do those that the worker
 * had not begun when the NIC was removed. unplug.c ends their handles with all else that was made on the NIC.
 *
 * Tests: test_unplug.c, test_ud.c
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <string.h>

/* After this time a handle that could not be made is asked for again. */
#define AH_REST_NS (1000 * NS_PER_MS)

static struct nic_ah *ah_of(struct nic_job *job)
{
	return (struct nic_ah *)((char *)job - offsetof(struct nic_ah, job));
}

/* ---- by the worker --------------------------------------------------------------------------------------- */

static void make_run(struct nic_job *job)
{
	struct nic_ah *ah = ah_of(job);

	ah->ib = ah->d->lib.create_ah(ah->d->ud_pd, &ah->attr);
}

static void end_run(struct nic_job *job)
{
	struct nic_ah *ah = ah_of(job);

	if (ah->d->lib.destroy_ah(ah->ib))
		log_err("NIC %s: an address handle cannot be destroyed: %m", ah->d->host->name);
}

static void end_back(struct nic_job *job)
{
	free(ah_of(job));
}

void nic_ahs_end(struct nic_lib *lib, struct nic_jobs *jobs)
{
	struct nic_job *job;

	while ((job = STAILQ_FIRST(jobs))) {
		STAILQ_REMOVE_HEAD(jobs, next);
		if (ah_of(job)->ib)
			lib->destroy_ah(ah_of(job)->ib);
		free(ah_of(job));
	}
}

/* ---- a container's handles [lock] -------------------------------------------------------------------- */

static void make_back(struct nic_job *job);

static void give(struct nic_ah *ah)
{
	ah->job.run = ah->ib ? end_run : make_run;
	ah->job.back = ah->ib ? end_back : make_back;
	if (nic_is_up(ah->d))
		nic_job_give(ah->d->ah_worker, &ah->job);
	else
		STAILQ_INSERT_TAIL(&ah->d->ahs_held, &ah->job, next);
}

/* Give the worker the handle that waits the longest. */
static void ask(struct nic_ud_pool *pool)
{
	struct nic_ah *ah;

	if (pool->asking)
		return;
	TAILQ_FOREACH_REVERSE(ah, &pool->ahs, nic_ah_list, entry)
	{
		if (ah->state != AH_ASKED)
			continue;
		pool->asking = ah;
		give(ah);
		return;
	}
}

static void end(struct nic_ah *ah)
{
	if (ah->ib)
		give(ah);
	else
		free(ah);
}

/* Make room for one handle more. False: all are in use. */
static bool evict(struct nic_ud_pool *pool)
{
	struct nic_ah *ah;

	TAILQ_FOREACH_REVERSE(ah, &pool->ahs, nic_ah_list, entry)
	{
		if (ah->users || ah == pool->asking)
			continue;
		TAILQ_REMOVE(&pool->ahs, ah, entry);
		pool->num_ahs--;
		end(ah);
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

	if (pool->num_ahs == pool->max_ahs && !evict(pool))
		return NULL;
	ah = calloc(1, sizeof(*ah));
	if (!ah)
		return NULL;
	ah->d = d;
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
		ask(pool);
	ah->users++;
	return ah;
}

static void made(struct nic_ah *ah)
{
	struct nic_ud_pool *pool = ah->pool;
	struct fast *f = ah->d->f;
	struct nic_ud *u;

	if (!pool) {
		end(ah);
		return;
	}
	pool->asking = NULL;
	ah->state = ah->ib ? AH_READY : AH_FAILED;
	ah->until = host_now(f->host) + AH_REST_NS;
	while ((u = LIST_FIRST(&ah->waiting))) {
		LIST_REMOVE(u, wait);
		u->waits = false;
		fast_qp_activate(f, u->nq->qp);
	}
	ask(pool);
}

static void make_back(struct nic_job *job)
{
	struct nic_ah *ah = ah_of(job);
	struct fast_host *h = ah->d->f->host;

	fast_lock(h);
	made(ah);
	fast_unlock(h);
}

void nic_ahs_forget(struct nic_ud_pool *pool)
{
	struct nic_ah *ah;

	while ((ah = TAILQ_FIRST(&pool->ahs))) {
		TAILQ_REMOVE(&pool->ahs, ah, entry);
		ah->pool = NULL;
		if (ah != pool->asking) /* made() ends that one */
			end(ah);
	}
}

/* ---- beginning and end --------------------------------------------------------------------------------------- */

int nic_ahs_start(struct nic_dev *d)
{
	d->ah_worker = nic_worker_new(d->f->host);
	return d->ah_worker ? nic_worker_start(d->ah_worker) : -ENOMEM;
}

uint32_t nic_ahs_work(struct nic_dev *d)
{
	if (!d->ah_worker)
		return 0;
	fast_lock(d->f->host);
	if (d->state == NIC_LOST)
		nic_jobs_cancel(d->ah_worker, &d->ahs_held);
	fast_unlock(d->f->host);
	return nic_jobs_back(d->ah_worker);
}

void nic_ahs_stop(struct nic_dev *d)
{
	if (!d->ah_worker)
		return;
	nic_jobs_cancel(d->ah_worker, &d->ahs_held);
	nic_worker_free(d->ah_worker);
	d->ah_worker = NULL;
	nic_ahs_end(&d->lib, &d->ahs_held);
}
