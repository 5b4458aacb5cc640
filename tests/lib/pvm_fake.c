/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* pvm_fake.c - see pvm_fake.h. The order of what happens in a call is pvm_exec()'s. */
#include "tests/lib/pvm_fake.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/fast/backend.h"

TAILQ_HEAD(call_queue, pvm_call);

struct pvm_client {
	struct call_queue queue;
	bool has_worker;
};

struct pvm_fake pvm_fake;
uint64_t pvm_patience;
static bool is_stuck; /* a thread that lost its role is still in its call */

struct pvm *pvm_create(struct fast *f)
{
	(void)f;
	return calloc(1, 1);
}

void pvm_stop(struct pvm *p)
{
	(void)p;
}

void pvm_free(struct pvm *p)
{
	free(p);
}

int pvm_start(struct pvm *p)
{
	(void)p;
	return -ENOSYS;
}

bool pvm_lost(const struct fast *f)
{
	(void)f;
	return false;
}

void pvm_container_del(struct container *c)
{
	(void)c;
}

int pvm_session_add(struct session *s, int mem, int maps)
{
	(void)mem, (void)maps;
	s->pvm = calloc(1, sizeof(*s->pvm));
	if (!s->pvm)
		return -ENOMEM;
	TAILQ_INIT(&s->pvm->queue);
	return 0;
}

struct pvm_call *pvm_call_get(struct pvm *p)
{
	struct pvm_call *c = calloc(1, sizeof(*c));

	(void)p;
	c->buf = malloc(PVM_MAX);
	pvm_fake.calls++;
	return c;
}

void pvm_call_put(struct pvm *p, struct pvm_call *c)
{
	(void)p;
	if (!c)
		return;
	if (c->busy && c->place == PVM_NOWHERE) {
		c->orphan = true;
		c->qp = NULL;
		return;
	}
	if (c->busy) /* it waits, and is not made any more */
		TAILQ_REMOVE(&c->client->queue, c, entry);
	pvm_fake.calls--;
	free(c->buf);
	free(c);
}

static int copy(const struct pvm_call *c)
{
	uint8_t *p = (uint8_t *)(uintptr_t)c->va;

	if (!pvm_fake.reaches(c->va, c->len))
		return -EFAULT;
	if (c->dir == PVM_READ)
		memcpy(c->buf, p, c->len);
	else
		memcpy(p, c->buf, c->len);
	return 0;
}

enum pvm_state pvm_state(const struct session *s)
{
	return s->pvm && s->pvm->has_worker ? PVM_STALLED : PVM_IDLE;
}

static void finish(struct fast *f, struct pvm_call *c, int result)
{
	c->busy = false;
	c->place = PVM_NOWHERE;
	if (c->orphan) {
		pvm_call_put(f->pvm, c);
		return;
	}
	c->result = result;
	fast_qp_activate(f, c->qp);
}

static int wait_for_worker(struct pvm_client *pc, struct pvm_call *c)
{
	c->client = pc;
	c->place = PVM_READY;
	TAILQ_INSERT_TAIL(&pc->queue, c, entry);
	pc->has_worker = true;
	return -EINPROGRESS;
}

int pvm_exec(struct fast *f, struct pvm_call *c)
{
	const struct backend_ops *ops = f->be->ops;
	struct pvm_client *pc = c->ses->pvm;
	enum pvm_fate fate;
	int result;

	if (!pc)
		return -EFAULT;
	if (c->busy) /* a worker may have it: neither its buffer nor its entry is the caller's */
		abort();
	c->busy = true;
	if (pc->has_worker)
		return wait_for_worker(pc, c);
	fate = pvm_fake.fate();
	if (fate == PVM_STUCK && is_stuck)
		fate = PVM_LOCK_GIVEN;
	switch (fate) {
	case PVM_AT_ONCE:
	case PVM_FAILS:
		c->busy = false;
		return fate == PVM_FAILS ? -EFAULT : copy(c);
	case PVM_LOCK_GIVEN:
	case PVM_AGAIN:
		f->epoch++;
		pvm_fake.meanwhile(PVM_LOCK_GIVEN);
		if (fate == PVM_AGAIN && !c->orphan)
			return wait_for_worker(pc, c);
		result = copy(c);
		c->busy = false;
		if (!c->orphan)
			return result;
		pvm_call_put(f->pvm, c);
		return -ECANCELED;
	default:
		break;
	}
	f->epoch++;
	pvm_fake.meanwhile(PVM_LOCK_GIVEN); /* before the watcher comes */
	is_stuck = pc->has_worker = true;
	if (!c->orphan)
		ops->call_stuck(f, c->qp, c);
	f->epoch++;
	pvm_fake.meanwhile(fate);
	is_stuck = false;
	f->epoch++;
	finish(f, c, copy(c));
	return -ECANCELED;
}

bool pvm_fake_work(struct fast *f, struct session *s)
{
	struct pvm_client *pc = s->pvm;
	struct pvm_call *c = TAILQ_FIRST(&pc->queue);

	if (!c) {
		pc->has_worker = false;
		return false;
	}
	TAILQ_REMOVE(&pc->queue, c, entry);
	f->epoch++;
	finish(f, c, copy(c));
	return true;
}

void pvm_session_del(struct fast *f, struct session *s)
{
	while (pvm_fake_work(f, s))
		;
	free(s->pvm);
	s->pvm = NULL;
}
