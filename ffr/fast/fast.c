/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fast.c - what comes and goes: threads, containers, sessions, and objects as the fast path knows them. Control
 * thread, by the lock, but for a thread's own beginning and end.
 */
#include "ffr/fast/fast.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "ffr/fast/internal.h"
#include "ffr/fast/mw.h"
#include "ffr/fast/pvm.h"

/* ---- containers, sessions, objects --------------------------------------------------------------- */

uint8_t fast_nic_choose(const struct fast_host *h)
{
	uint32_t used[HOST_NICS_MAX] = { 0 };
	const struct container *c;
	uint8_t best = 0;

	LIST_FOREACH(c, &h->containers, entry)
		used[c->nic]++;
	for (uint8_t i = 1; i < h->num_nics; i++)
		if (h->nic[i].is_away != h->nic[best].is_away ? h->nic[best].is_away :
								used[i] < used[best])
			best = i;
	return best;
}

int fast_container_add(struct fast_host *h, struct container *c)
{
	int err = rate_container_add(h, c);

	if (err)
		return err;
	TAILQ_INIT(&c->turns.active);
	LIST_INSERT_HEAD(&h->containers, c, entry);
	sched_choose(c->fast);
	for (uint32_t i = 0; i < h->num_threads; i++)
		c->fast->be->ops->container_come(h->threads[i]);
	return 0;
}

void fast_container_del(struct fast_host *h, struct container *c)
{
	struct fast *f = c->fast;

	LIST_REMOVE(c, entry);
	cpu_forget(c);
	pvm_container_del(c);
	threads_forget(h, c);
	c->place.near = NULL;
	c->place.near_first = c->place.at_first = false;
	sched_choose(f);
	f->be->ops->container_gone(f, c);
	rate_container_del(c);
}

int fast_session_add(struct fast *f, struct session *s)
{
	int err;

	s->fast = f;
	s->mem.node = f->conf.node;
	s->sched.cpu = 0xffff;
	atomic_store(&s->hdr->need_wakeup, 1);
	atomic_store(&s->hdr->yield_polls, f->conf.yield_polls);
	err = fast_bell_add(f, s);
	if (err)
		return err;
	LIST_INSERT_HEAD(&s->cont->sessions, s, entry);
	if (s->cont->mode == FF_MODE_SPIN)
		f->num_spin++;
	fast_kick(f);
	return 0;
}

void fast_session_del(struct fast *f, struct session *s)
{
	epoll_ctl(f->epoll_fd, EPOLL_CTL_DEL, s->bell_fd, NULL);
	LIST_REMOVE(s, entry);
	if (s->cont->mode == FF_MODE_SPIN)
		f->num_spin--;
	ses_deactivate(f, s);
	if (s->sched.is_touched)
		SLIST_REMOVE(&f->touched, s, session, sched.entry);
	s->sched.is_touched = false;
	if (LIST_EMPTY(&s->cont->sessions))
		s->cont->place.at_first = s->cont->place.near_first = false;
	pvm_session_del(f, s);
}

void fast_mr_del(struct mr *mr)
{
	key_remove(&mr->o.ses->cont->keys, mr);
}

void fast_mw_del(struct fast *f, struct mw *mw)
{
	mw_unbind(mw);
	mw_forget(f, mw);
	mw_key_del(mw->o.ses->cont, mw);
}

void fast_cq_del(struct fast *f, struct cq *cq)
{
	comp_forget_cq(f, cq);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void carriers_close(struct fast *f)
{
	while (f->be->num_open) {
		const struct carrier *c = f->be->carriers[--f->be->num_open].ops;

		if (c->close)
			c->close(f);
	}
}

/* 0 or -errno; carriers_close() closes those that were opened. */
static int carriers_open(struct fast *f)
{
	CARRIER_FOREACH(u, f) {
		int err = u->ops->open ? u->ops->open(f, u->conf) : 0;

		if (err)
			return err;
		f->be->num_open++;
	}
	return 0;
}

static void thread_free(struct fast *f)
{
	carriers_close(f);
	if (f->be->priv)
		f->be->ops->close(f->be);
	pvm_free(f->pvm);
	sched_free(f->sched);
	timer_heap_free(&f->timers);
	if (f->epoll_fd >= 0)
		close(f->epoll_fd);
	if (f->stop_fd >= 0)
		close(f->stop_fd);
	free(f);
}

/* The next one of the host. 0 or -errno. */
static int thread_add(struct fast_host *h, const struct fast_conf *conf, struct backend *be)
{
	struct fast *f = calloc(1, sizeof(*f));
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };
	int err = -ENOMEM;

	if (!f)
		return err;
	f->host = h;
	f->index = h->num_threads;
	f->conf = *conf;
	f->be = be;
	be->f = f;
	f->now = fast_clock();
	sem_init(&f->started, 0, 0);
	for (int i = 0; i < TURN_NUM; i++)
		TAILQ_INIT(&f->turns[i]);
	f->quantum = conf->quantum;
	f->round = 1; /* no container has had one */
	TAILQ_INIT(&f->active_sessions);
	STAILQ_INIT(&f->notify);
	TAILQ_INIT(&f->mw_turns);
	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->epoll_fd < 0 || f->stop_fd < 0 ||
	    epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, f->stop_fd, &ev) < 0 || lock_init(f))
		goto err;
	f->sched = sched_create(f);
	f->pvm = pvm_create(f);
	if (f->sched && f->pvm)
		err = be->ops->open(be);
	if (!err)
		err = carriers_open(f);
	if (err)
		goto err;
	h->threads[h->num_threads++] = f;
	return 0;
err:
	thread_free(f);
	return err;
}

struct fast_host *fast_create(const struct fast_conf *conf, struct backend *be)
{
	struct fast_host *h = calloc(1, sizeof(*h));
	int err = h ? thread_add(h, conf, be) : -ENOMEM;

	if (!err)
		return h;
	free(h);
	errno = -err;
	return NULL;
}

int fast_add_thread(struct fast_host *h, const struct fast_conf *conf)
{
	struct backend *be;
	int err;

	if (h->num_threads == FAST_THREADS_MAX)
		return -ENOSPC;
	be = calloc(1, sizeof(*be));
	if (!be)
		return -ENOMEM;
	be->ops = h->threads[0]->be->ops;
	be->carriers = h->threads[0]->be->carriers;
	err = thread_add(h, conf, be);
	if (err)
		free(be);
	return err;
}

int fast_start(struct fast_host *h)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < h->num_threads; i++)
		err = pvm_start(h->threads[i]->pvm);
	return err;
}

void fast_stop(struct fast_host *h)
{
	uint64_t one = 1;

	for (uint32_t i = 0; i < h->num_threads; i++) {
		struct fast *f = h->threads[i];

		atomic_store(&f->stop, 1);
		while (write(f->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	for (uint32_t i = 0; i < h->num_threads; i++) {
		struct fast *f = h->threads[i];

		pvm_stop(f->pvm);
		CARRIERS_DO(stop, f);
	}
}

void fast_free(struct fast_host *h)
{
	if (!h)
		return;
	rate_free(h);
	for (uint32_t i = h->num_threads; i-- > 0;) {
		struct backend *be = h->threads[i]->be;

		thread_free(h->threads[i]);
		if (i)
			free(be); /* the first one's is the caller's */
	}
	free(h->qps.slot);
	free(h);
}
