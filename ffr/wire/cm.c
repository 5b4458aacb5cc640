/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.c - frames of type CM: messages of the connection manager. What is inside is the business of cm/wire.c. [lock]
 *
 * A message that comes in waits for the control thread, and for the directory if that does not know the sender yet.
 * A message that was sent may be lost with its connection, and this file does not notice. The connection manager is
 * told that a connection has ended, begun, or has room again (wire_changes(), host->cm_wake()), and repeats messages.
 *
 * Tests: unit/wire/test_cm.c
 */
#include "ffr/wire/cm.h"

#include <stdlib.h>
#include <string.h>

#include "ffr/fast/internal.h"
#include "ffr/obj/quota.h"
#include "ffr/peer/peer.h"

#define WAITING_MAX 4096u
#define IN_NS	    (2000 * NS_PER_MS)

/* ---- messages that wait ----------------------------------------------------------------------- */

void cm_queue_init(struct cm_queue *q)
{
	STAILQ_INIT(&q->list);
	q->num = 0;
}

static void frame_free(struct cm_frame *m)
{
	peer_put(m->peer);
	free(m);
}

void cm_queue_drop(struct cm_queue *q, struct cm_frame *m)
{
	STAILQ_REMOVE(&q->list, m, cm_frame, entry);
	q->num--;
	frame_free(m);
}

void cm_queue_expire(struct cm_queue *q, uint64_t now)
{
	struct cm_frame *m, *next;

	STAILQ_FOREACH_SAFE(m, &q->list, entry, next)
		if (m->until <= now)
			cm_queue_drop(q, m);
}

/* Is there room for another message of the container? While the queue is half empty, nobody counts. */
static bool has_share(const struct cm_queue *q, uint32_t container)
{
	const struct cm_frame *m;
	uint32_t own = 0;

	if (q->num < WAITING_MAX / 2)
		return true;
	STAILQ_FOREACH(m, &q->list, entry)
		own += m->h.src_cont == container;
	return !share_full(own, q->num, WAITING_MAX);
}

void cm_queue_add(struct cm_queue *q, struct wire_peer *p, const struct wire_hdr *h,
		  const void *msg, uint64_t now, uint64_t until)
{
	struct cm_frame *m;

	if (q->num >= WAITING_MAX)
		cm_queue_expire(q, now);
	m = has_share(q, h->src_cont) ? malloc(sizeof(*m) + h->len) : NULL;
	if (!m)
		return;
	peer_get(p);
	m->peer = p;
	m->until = until;
	m->h = *h;
	if (h->len)
		memcpy(m->msg, msg, h->len);
	STAILQ_INSERT_TAIL(&q->list, m, entry);
	q->num++;
}

/* ---- messages that come in -------------------------------------------------------------------- */

static void wake(struct fast *f)
{
	if (f->host->cm_wake)
		f->host->cm_wake(f->host);
}

void wire_cm_came(struct fast *f, struct wire_peer *p, const struct wire_hdr *h, const void *msg)
{
	if (!f->host->cm_wake) /* it has not begun, or has ended */
		return;
	cm_queue_add(&wire_dev(f)->cm_in, p, h, msg, f->now, f->now + IN_NS);
	wake(f);
}

void wire_cm_changed(struct fast *f)
{
	wire_dev(f)->changes++;
	wake(f);
}

void wire_cm_known(struct fast *f)
{
	if (wire_dev(f)->cm_in.num)
		wake(f);
}

struct cm_frame *wire_cm_take(struct fast *f, struct remote **from)
{
	struct cm_queue *q = &wire_dev(f)->cm_in;
	struct cm_frame *m, *next;

	STAILQ_FOREACH_SAFE(m, &q->list, entry, next) {
		struct remote *r = dir_by_id(f, m->h.src_cont);

		if ((!r || !r->epoch) && m->until > fast_clock())
			continue; /* not known yet: wire_cm_known() */
		if (r && r->epoch == m->h.src_epoch && r->peer == m->peer) {
			STAILQ_REMOVE(&q->list, m, cm_frame, entry);
			q->num--;
			*from = r;
			return m;
		}
		cm_queue_drop(q, m);
	}
	return NULL;
}

void wire_cm_taken(struct fast *f, struct cm_frame *m)
{
	(void)f;
	frame_free(m);
}

void wire_cm_stop(struct fast *f)
{
	cm_queue_expire(&wire_dev(f)->cm_in, UINT64_MAX);
}
