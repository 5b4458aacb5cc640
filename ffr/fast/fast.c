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

int fast_container_add(struct fast *first, struct container *c)
{
	int err = rate_container_add(first, c);

	if (err)
		return err;
	TAILQ_INIT(&c->turns.active);
	LIST_INSERT_HEAD(&first->containers, c, entry);
	sched_choose(c->fast);
	for (uint32_t i = 0; first->be->ops->container_come && i < first->num_threads; i++)
		first->be->ops->container_come(first->threads[i]);
	return 0;
}

void fast_container_del(struct fast *first, struct container *c)
{
	struct fast *f = c->fast;

	LIST_REMOVE(c, entry);
	cpu_forget(c);
	pvm_container_del(c);
	threads_forget(first, c);
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

void fast_mr_del(struct fast *f, struct mr *mr)
{
	key_remove(&mr->o.ses->cont->keys, mr);
	f->be->ops->mr_dereg(f, mr);
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
	f->be->ops->cq_destroy(f, cq);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static void thread_free(struct fast *f)
{
	if (f->be->priv)
		f->be->ops->close(f->be);
	pvm_free(f->pvm);
	sched_free(f->sched);
	timer_heap_free(&f->timers);
	if (f->epoll_fd >= 0)
		close(f->epoll_fd);
	if (f->stop_fd >= 0)
		close(f->stop_fd);
	free(f->qps.slot);
	free(f);
}

struct fast *fast_create(const struct fast_conf *conf, struct backend *be)
{
	struct fast *f = calloc(1, sizeof(*f));
	struct epoll_event ev = { .events = EPOLLIN | EPOLLET };

	if (!f)
		return NULL;
	f->first = f->threads[0] = f;
	f->num_threads = 1;
	f->conf = *conf;
	f->be = be;
	be->f = f;
	f->now = fast_clock();
	for (int i = 0; i < TURN_NUM; i++)
		TAILQ_INIT(&f->turns[i]);
	f->quantum = conf->quantum;
	f->round = 1; /* no container has had one */
	TAILQ_INIT(&f->active_sessions);
	TAILQ_INIT(&f->mw_turns);
	f->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
	f->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (f->epoll_fd < 0 || f->stop_fd < 0 ||
	    epoll_ctl(f->epoll_fd, EPOLL_CTL_ADD, f->stop_fd, &ev) < 0 || lock_init(f))
		goto err;
	f->sched = sched_create(f);
	f->pvm = pvm_create(f);
	if (!f->sched || !f->pvm || be->ops->open(be))
		goto err;
	return f;
err:
	thread_free(f);
	return NULL;
}

int fast_add_thread(struct fast *first, const struct fast_conf *conf)
{
	struct backend *be;
	struct fast *f;

	if (first->num_threads == FAST_THREADS_MAX)
		return -ENOSPC;
	be = calloc(1, sizeof(*be));
	if (!be)
		return -ENOMEM;
	be->ops = first->be->ops;
	f = fast_create(conf, be);
	if (!f) {
		free(be);
		return -ENOMEM;
	}
	f->first = first;
	f->index = first->num_threads;
	first->threads[first->num_threads++] = f;
	return 0;
}

int fast_start(struct fast *first)
{
	int err = 0;

	for (uint32_t i = 0; !err && i < first->num_threads; i++)
		err = pvm_start(first->threads[i]->pvm);
	return err;
}

void fast_stop(struct fast *first)
{
	uint64_t one = 1;

	for (uint32_t i = 0; i < first->num_threads; i++) {
		struct fast *f = first->threads[i];

		atomic_store(&f->stop, 1);
		while (write(f->stop_fd, &one, sizeof(one)) < 0 && errno == EINTR)
			;
	}
	for (uint32_t i = 0; i < first->num_threads; i++)
		pvm_stop(first->threads[i]->pvm);
}

void fast_free(struct fast *first)
{
	if (!first)
		return;
	rate_free(first);
	for (uint32_t i = first->num_threads; i-- > 1;) {
		struct backend *be = first->threads[i]->be;

		thread_free(first->threads[i]);
		free(be);
	}
	thread_free(first);
}
