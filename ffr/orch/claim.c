/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * claim.c - before a container moves to another host, its owner is asked over the wire whether it
 * runs. Control thread.
 *
 * What the orchestrator knows is not enough. It forgets who runs on a host that has lost its lease,
 * although that host goes on. And it is told only of containers that have sessions, or whose
 * runtime has hooks. So the host that is about to take the container asks the owner's router
 * (RUNS_ASK), by the connection that there is, or by a new one. Only "it does not run" lets the
 * container move. No answer within CLAIM_PATIENCE, an owner that is down, and an owner that does
 * not have the container are reasons to refuse; --force asks nobody. Where one of the two hosts has no wire and the
 * owner is up, what the orchestrator knows counts: there is no way to ask.
 *
 * The owner looks when it is asked (ctl/runs.c). It calls a container in use that it has claimed
 * itself in the last CLAIM_NEW, until a program has opened the device: of two hosts that claim a
 * container at once the second one is refused.
 *
 * Any host of the cluster may ask, about any number. A host learns no more than whether that
 * container runs, and makes the owner look at most QUESTIONS_MAX times a second.
 *
 * Tests: unit/orch/test_claim.c, system/claim.sh, unit/wire/test_runs.c
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ctl/container.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"
#include "ffr/orch/internal.h"
#include "ffr/peer/peer.h"
#include "ffr/wire/runs.h"

#define CLAIM_PATIENCE 4000 /* ms */
#define CLAIM_TICK     20   /* ms between two looks whether there is a connection */
#define CLAIM_NEW      3000 /* ms */
#define QUESTIONS_MAX  50u  /* of all other hosts, in a second */

struct claim {
	LIST_ENTRY(claim) entry; /* o->claims */
	struct orch *o;
	struct wire_peer *peer; /* a reference */
	uint32_t container, epoch, number;
	uint32_t sent_in; /* generation of the connection that has the question; 0: none */
	uint64_t until;	  /* ms, of the loop */
	char name[FFO_NAME_MAX], host[FFO_NAME_MAX];
	orch_claim_fn *fn;
	void *arg;
};

static struct fast *wire_thread(const struct orch *o)
{
	return o->ctl->host->threads[0];
}

/* ---- this host asks -------------------------------------------------------------------------- */

static void claim_end(struct claim *c, int err, const char *why)
{
	struct fast_host *h = c->o->ctl->host;
	char text[512];

	LIST_REMOVE(c, entry);
	fast_lock(h);
	peer_put(c->peer);
	fast_unlock(h);
	snprintf(text, sizeof(text), "container %s: %s %s", c->name, c->host, why);
	c->fn(c->arg, err, err ? text : NULL);
	free(c);
}

#define NO_ANSWER                                                                                  \
	", so it is not known whether it runs there: make sure that it does not, and use --force"

/* Is there, or can there be, a connection? [lock] */
static bool can_answer(const struct wire_peer *p)
{
	return p->tcp || (p->up && p->addr.ss_family && p->instance[0]);
}

/* False: it has ended. */
static bool claim_try(struct claim *c)
{
	struct fast *f = wire_thread(c->o);
	int err = 0;

	fast_lock(f->host);
	if (!c->peer->tcp) {
		err = can_answer(c->peer) ? 0 : -EHOSTDOWN;
		if (!err)
			peer_want(c->peer);
	} else if (c->sent_in != c->peer->generation) {
		err = wire_runs_ask(f, c->peer, c->container, c->epoch, c->number);
		if (!err)
			c->sent_in = c->peer->generation;
	}
	fast_unlock(f->host);
	if (err == -EHOSTDOWN)
		claim_end(c, -EIO, "is down" NO_ANSWER);
	return err != -EHOSTDOWN;
}

static void on_tick(uv_timer_t *t)
{
	struct orch *o = t->data;
	struct claim *c, *next;

	for (c = LIST_FIRST(&o->claims); c; c = next) {
		next = LIST_NEXT(c, entry);
		if (uv_now(o->ctl->loop) >= c->until)
			claim_end(c, -EIO, "does not answer" NO_ANSWER);
		else
			claim_try(c);
	}
	if (LIST_EMPTY(&o->claims))
		uv_timer_stop(t);
}

void orch_claim_ask(struct orch *o, const struct ffo_container *cont, const struct ffo_host *owner,
		    orch_claim_fn *fn, void *arg)
{
	struct fast_host *h = o->ctl->host;
	bool wired = o->conf.peers && owner->wire[0];
	struct claim *c;

	if (!wired && owner->up) {
		fn(arg, 0, NULL);
		return;
	}
	c = calloc(1, sizeof(*c));
	if (c) {
		fast_lock(h);
		c->peer = peer_of_host(o->conf.peers, owner->name, owner->instance, owner->wire,
				       owner->up);
		if (c->peer)
			peer_get(c->peer);
		fast_unlock(h);
	}
	if (!c || !c->peer) {
		free(c);
		fn(arg, -EIO,
		   "the container's host cannot be asked whether it runs there: make sure that it does not, and use --force");
		return;
	}
	c->o = o;
	c->container = cont->id;
	c->epoch = cont->epoch;
	c->number = ++o->claim_number;
	c->until = uv_now(o->ctl->loop) + CLAIM_PATIENCE;
	snprintf(c->name, sizeof(c->name), "%s", cont->name);
	snprintf(c->host, sizeof(c->host), "%s", owner->name);
	c->fn = fn;
	c->arg = arg;
	LIST_INSERT_HEAD(&o->claims, c, entry);
	if (claim_try(c))
		uv_timer_start(&o->claim_tick, on_tick, CLAIM_TICK, CLAIM_TICK);
}

static void answered(struct orch *o, const struct runs_frame *fr)
{
	struct claim *c;

	LIST_FOREACH(c, &o->claims, entry)
		if (c->number == fr->number && c->peer == fr->peer &&
		    c->container == fr->container && c->epoch == fr->epoch)
			break;
	if (!c)
		return;
	switch (fr->code) {
	case WIRE_RUNS_NO:
		claim_end(c, 0, "");
		break;
	case WIRE_RUNS_YES:
		claim_end(c, -EBUSY, "says that it is in use: stop it there first");
		break;
	case WIRE_RUNS_CLAIMED:
		claim_end(c, -ESTALE,
			  "has claimed it a moment ago: claim it later, or use --force");
		break;
	case WIRE_RUNS_NOT_HERE:
		claim_end(c, -EIO, "does not know it" NO_ANSWER);
		break;
	default:
		claim_end(c, -EIO, "cannot tell" NO_ANSWER);
	}
}

/* ---- this host is asked ---------------------------------------------------------------------- */

struct question {
	struct orch *o;
	struct runs_frame frame;
};

/* Is it about to be started here? */
static bool is_new(const struct orch *o, uint32_t container)
{
	const struct container *c = container_by_id(o->ctl, container);
	const struct container_ctl *ct = c ? c->ctl : NULL;

	return ct && ct->claimed_at && !ct->heard.opened &&
	       uv_now(o->ctl->loop) < ct->claimed_at + CLAIM_NEW;
}

static void frame_end(struct orch *o, struct runs_frame *fr)
{
	struct fast_host *h = o->ctl->host;

	fast_lock(h);
	peer_put(fr->peer);
	fast_unlock(h);
}

static void reply(struct orch *o, const struct runs_frame *fr, enum wire_runs code)
{
	struct fast *f = wire_thread(o);

	fast_lock(f->host);
	wire_runs_tell(f, fr, code);
	fast_unlock(f->host);
}

static void looked(void *arg, enum container_runs runs, bool stale)
{
	static const enum wire_runs code[] = {
		[RUNS_NO] = WIRE_RUNS_NO, [RUNS_YES] = WIRE_RUNS_YES, [RUNS_UNKNOWN] = WIRE_RUNS_UNKNOWN
	};
	struct question *q = arg;
	bool is_claimed = runs == RUNS_NO && is_new(q->o, q->frame.container);

	(void)stale;
	reply(q->o, &q->frame, is_claimed ? WIRE_RUNS_CLAIMED : code[runs]);
	frame_end(q->o, &q->frame);
	free(q);
}

static bool too_many(struct orch *o)
{
	uint64_t second = uv_now(o->ctl->loop) / 1000;

	if (second != o->asked_second)
		o->num_asked = 0;
	o->asked_second = second;
	return o->num_asked++ >= QUESTIONS_MAX;
}

/* Takes the frame. */
static void asked(struct orch *o, struct runs_frame *fr)
{
	struct container *c = container_by_id(o->ctl, fr->container);
	struct question *q;

	if (!c || c->epoch != fr->epoch) {
		reply(o, fr, WIRE_RUNS_NOT_HERE);
		frame_end(o, fr);
		return;
	}
	q = too_many(o) ? NULL : malloc(sizeof(*q));
	if (!q) {
		frame_end(o, fr);
		return;
	}
	*q = (struct question){ .o = o, .frame = *fr };
	container_runs_ask(c, looked, q);
}

static void on_frames(uv_async_t *a)
{
	struct orch *o = a->data;
	struct fast *f = wire_thread(o);
	struct runs_frame fr;
	bool more;

	for (;;) {
		fast_lock(f->host);
		more = wire_runs_take(f, &fr);
		fast_unlock(f->host);
		if (!more)
			return;
		if (!fr.is_answer) {
			asked(o, &fr);
			continue;
		}
		answered(o, &fr);
		frame_end(o, &fr);
	}
}

/* ---- life ------------------------------------------------------------------------------------ */

/* [lock] */
static void frames_came(struct fast_host *h)
{
	uv_async_send(h->runs_arg);
}

int orch_claim_init(struct orch *o)
{
	struct fast_host *h = o->ctl->host;
	int err = uv_async_init(o->ctl->loop, &o->runs_frames, on_frames);

	if (err)
		return err;
	uv_timer_init(o->ctl->loop, &o->claim_tick);
	o->runs_frames.data = o->claim_tick.data = o;
	o->open_handles += 2;
	LIST_INIT(&o->claims);
	fast_lock(h);
	h->runs_arg = &o->runs_frames;
	h->runs_frames = frames_came;
	fast_unlock(h);
	return 0;
}

void orch_claim_stop(struct orch *o)
{
	struct fast *f = wire_thread(o);
	struct runs_frame fr;
	struct claim *c;

	while ((c = LIST_FIRST(&o->claims)))
		claim_end(c, -ECANCELED, "was not asked: the router ends");
	fast_lock(f->host);
	f->host->runs_frames = NULL;
	while (wire_runs_take(f, &fr))
		peer_put(fr.peer);
	fast_unlock(f->host);
	uv_close((uv_handle_t *)&o->runs_frames, orch_on_handle_closed);
	uv_close((uv_handle_t *)&o->claim_tick, orch_on_handle_closed);
}
