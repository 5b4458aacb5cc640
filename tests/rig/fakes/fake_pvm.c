/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_pvm.c - see fake_pvm.h. The order of what happens in a call is pvm_make()'s. */
#include "tests/rig/fakes/fake_pvm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

TAILQ_HEAD(call_queue, pvm_call);

TAILQ_HEAD(waits, pvm_wait);

struct pvm {
	struct call_queue next;
	struct waits waits;
};

struct pvm_client {
	struct call_queue queue;
	bool has_worker;
};

struct fake_pvm fake_pvm;
static struct waits *waits; /* of the one that there is */
uint64_t pvm_patience;
static bool is_stuck; /* a thread that lost its role is still in its call */

static enum pvm_fate fate_of_next(void)
{
	enum pvm_fate now = fake_pvm.next;

	fake_pvm.next = PVM_AT_ONCE;
	return now;
}

static bool reaches_all(uint64_t va, uint32_t len)
{
	(void)va, (void)len;
	return true;
}

static void nobody(enum pvm_fate fate)
{
	(void)fate;
}

void fake_pvm_calm(void)
{
	fake_pvm.fate = fate_of_next;
	fake_pvm.reaches = reaches_all;
	fake_pvm.meanwhile = nobody;
	fake_pvm.next = PVM_AT_ONCE;
}

struct pvm *pvm_create(struct fast *f)
{
	struct pvm *p = calloc(1, sizeof(*p));

	(void)f;
	if (p) {
		TAILQ_INIT(&p->next);
		TAILQ_INIT(&p->waits);
		waits = &p->waits;
	}
	return p;
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

void pvm_container_leaves(struct container *c)
{
	(void)c;
}

void pvm_wait_end(struct pvm_wait *w)
{
	if (w->q)
		TAILQ_REMOVE(waits, w, entry);
	w->q = NULL;
	w->called = false;
}

bool pvm_waits_shortly(const struct pvm_wait *w)
{
	return w->use == PVM_COPY;
}

static bool must_wait(struct pvm *p, struct qp *qp, enum pvm_use use, struct pvm_wait *w)
{
	bool first = w->called || TAILQ_EMPTY(&p->waits);

	if (w->q)
		return true;
	w->called = false;
	if (!fake_pvm.full || (first && !fake_pvm.full()))
		return false;
	*w = (struct pvm_wait){ .q = (struct pvm_queue *)p, .qp = qp, .use = use };
	TAILQ_INSERT_TAIL(&p->waits, w, entry);
	return true;
}

struct pvm_call *pvm_call_get(struct pvm *p, struct qp *qp, enum pvm_use use, uint32_t len,
			      struct pvm_wait *w)
{
	struct pvm_call *c;

	if (must_wait(p, qp, use, w))
		return NULL;
	c = calloc(1, sizeof(*c));
	c->buf = malloc(len);
	c->qp = qp;
	fake_pvm.calls++;
	return c;
}

static void unlist(struct pvm *p, struct pvm_call *c)
{
	if (c->place == PVM_NEXT)
		TAILQ_REMOVE(&p->next, c, entry);
	else
		TAILQ_REMOVE(&c->client->queue, c, entry);
	c->place = PVM_NOWHERE;
}

void pvm_call_put(struct pvm *p, struct pvm_call *c)
{
	if (!c)
		return;
	if (c->busy && c->place == PVM_NOWHERE) {
		c->orphan = true;
		c->qp = NULL;
		return;
	}
	if (c->busy) /* it waits, and is not made any more */
		unlist(p, c);
	fake_pvm.calls--;
	free(c->buf);
	free(c);
}

static int copy(struct pvm_call *c)
{
	uint8_t *p = (uint8_t *)(uintptr_t)c->va;

	if (!fake_pvm.reaches(c->va, c->len))
		return -EFAULT;
	if (c->dir == PVM_ATOMIC) {
		uint64_t new;

		memcpy(&c->word.old, p, sizeof(c->word.old));
		new = pvm_word_new(&c->word, c->word.old);
		memcpy(p, &new, sizeof(new));
		return 0;
	}
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

static void wait_for_worker(struct pvm_call *c)
{
	c->place = PVM_READY;
	TAILQ_INSERT_TAIL(&c->client->queue, c, entry);
	c->client->has_worker = true;
}

int pvm_submit(struct fast *f, struct pvm_call *c, const struct mr *mr, struct pvm_wait *w)
{
	struct pvm_client *pc = c->ses->pvm;

	(void)mr;
	if (!pc)
		return -EFAULT;
	if (c->busy) /* a worker may have it: neither its buffer nor its entry is the caller's */
		abort();
	if (pc->has_worker && must_wait(f->pvm, c->qp, PVM_WORK, w))
		return -EAGAIN;
	c->busy = true;
	c->client = pc;
	if (pc->has_worker) {
		wait_for_worker(c);
	} else {
		c->place = PVM_NEXT;
		TAILQ_INSERT_TAIL(&f->pvm->next, c, entry);
	}
	return 0;
}

/* While the lock is given up others have it, unless there is a turn of theirs already. */
static void make_one(struct fast *f, struct pvm_call *c)
{
	enum pvm_fate fate = fake_pvm.fate();

	if (fate == PVM_STUCK && is_stuck)
		fate = PVM_LOCK_GIVEN;
	if (fate != PVM_AT_ONCE && fate != PVM_FAILS)
		fake_pvm.meanwhile(PVM_LOCK_GIVEN);
	if (fate == PVM_AGAIN && !c->orphan) {
		wait_for_worker(c);
		return;
	}
	if (fate == PVM_STUCK) {
		is_stuck = c->client->has_worker = true;
		fake_pvm.meanwhile(fate);
		is_stuck = false;
	}
	finish(f, c, fate == PVM_FAILS || c->orphan ? -EFAULT : copy(c));
}

uint32_t pvm_make(struct fast *f)
{
	struct pvm_wait *w;
	struct pvm_call *c;
	uint32_t n;

	for (n = 0; (c = TAILQ_FIRST(&f->pvm->next)); n++) {
		TAILQ_REMOVE(&f->pvm->next, c, entry);
		c->place = PVM_NOWHERE;
		if (c->client->has_worker)
			wait_for_worker(c);
		else
			make_one(f, c);
	}
	w = TAILQ_FIRST(&f->pvm->waits);
	if (w && !fake_pvm.full()) { /* room for one */
		pvm_wait_end(w);
		w->called = true;
		fast_qp_activate(f, w->qp);
		n++;
	}
	return n;
}

bool fake_pvm_work(struct fast *f, struct session *s)
{
	struct pvm_client *pc = s->pvm;
	struct pvm_call *c = TAILQ_FIRST(&pc->queue);

	if (!c) {
		pc->has_worker = false;
		return false;
	}
	TAILQ_REMOVE(&pc->queue, c, entry);
	finish(f, c, copy(c));
	return true;
}

void pvm_session_del(struct fast *f, struct session *s)
{
	struct pvm_call *c, *next;

	TAILQ_FOREACH_SAFE(c, &f->pvm->next, entry, next) {
		if (c->client != s->pvm)
			continue;
		unlist(f->pvm, c);
		finish(f, c, -EFAULT);
	}
	while (fake_pvm_work(f, s))
		;
	free(s->pvm);
	s->pvm = NULL;
}
