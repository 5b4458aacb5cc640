/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.c - messages of the connection manager between hosts, as the wire carries them: what is
 * inside is cm/wire.c's business. [lock]
 *
 * What comes in waits for the control thread. What goes out while there is no connection waits for
 * one, for a while, unless it will be said again. What is lost with a connection is not noticed here:
 * the connection manager is told that there was one, and will be another (host->cm_frames()).
 */
#include "ffr/remote/remote.h"

#include <stdlib.h>
#include <string.h>

#define WAITING_MAX 4096u
#define OUT_NS	    (5000 * NS_PER_MS)
#define IN_NS	    (2000 * NS_PER_MS)

static void frame_free(struct soft_dev *dev, struct cm_frame *m)
{
	dev->num_cm--;
	peer_put(m->peer);
	free(m);
}

static void expire(struct soft_dev *dev, struct cm_frames *list, uint64_t now)
{
	struct cm_frame *m, *next;

	STAILQ_FOREACH_SAFE(m, list, entry, next) {
		if (m->until > now)
			continue;
		STAILQ_REMOVE(list, m, cm_frame, entry);
		frame_free(dev, m);
	}
}

/* How many of those that wait come from that container. */
static uint32_t num_from(const struct cm_frames *list, uint32_t container)
{
	const struct cm_frame *m;
	uint32_t n = 0;

	STAILQ_FOREACH(m, list, entry)
		n += m->h.src_cont == container;
	return n;
}

/* One container's may be as many as there is room for others; few are no matter, and not counted. */
static bool has_share(const struct soft_dev *dev, uint32_t container)
{
	uint32_t own;

	if (dev->num_cm < WAITING_MAX / 2)
		return true;
	own = num_from(&dev->cm_in, container) + num_from(&dev->cm_out, container);
	return !share_full(own, dev->num_cm, WAITING_MAX);
}

/* A copy at the end of a list. */
static void keep(struct fast *f, struct cm_frames *list, struct wire_peer *p,
		 const struct wire_hdr *h, const void *msg, uint64_t ns)
{
	struct soft_dev *dev = f->be->priv;
	struct cm_frame *m;

	if (dev->num_cm >= WAITING_MAX) {
		expire(dev, &dev->cm_in, f->now);
		expire(dev, &dev->cm_out, f->now);
	}
	m = has_share(dev, h->src_cont) ? malloc(sizeof(*m) + h->len) : NULL;
	if (!m)
		return; /* it is lost, which the connection manager is used to */
	peer_get(p);
	m->peer = p;
	m->until = f->now + ns;
	m->h = *h;
	memcpy(m->msg, msg, h->len);
	dev->num_cm++;
	STAILQ_INSERT_TAIL(list, m, entry);
}

void remote_cm_recv(struct fast *f, struct wire_peer *p, const struct wire_hdr *h,
		    const uint8_t *msg)
{
	struct soft_dev *dev = f->be->priv;

	keep(f, &dev->cm_in, p, h, msg, IN_NS);
	if (f->host->cm_frames)
		f->host->cm_frames(f->host);
}

uint32_t remote_cm_send(struct fast *f, const struct container *from, struct remote *to,
			const void *msg, uint32_t len, bool keep_it)
{
	struct soft_dev *dev = f->be->priv;
	struct wire_hdr h = {
		.type = WIRE_CM,
		.len = len,
		.dst_cont = to->id,
		.dst_epoch = to->epoch,
		.src_cont = from->id,
		.src_epoch = from->epoch,
	};

	if (!to->peer)
		return 0;
	if (!wire_send(f, to->peer, &h, msg))
		return to->peer->generation;
	/* a connection that is full takes it when there is room */
	if (keep_it || to->peer->tcp) {
		f->now = fast_clock();
		keep(f, &dev->cm_out, to->peer, &h, msg, OUT_NS);
	}
	if (!to->peer->tcp)
		peer_want(to->peer);
	return remote_cm_conn(to);
}

uint32_t remote_cm_conn(const struct remote *to)
{
	return to->peer && to->peer->tcp ? to->peer->generation : 0;
}

uint32_t remote_cm_changes(struct fast *f)
{
	struct soft_dev *dev = f->be->priv;

	return dev->cm_changes;
}

void remote_cm_changed(struct fast *f)
{
	struct soft_dev *dev = f->be->priv;

	dev->cm_changes++;
	if (f->host->cm_frames)
		f->host->cm_frames(f->host);
}

void remote_cm_flush(struct fast *f, struct wire_peer *p)
{
	struct soft_dev *dev = f->be->priv;
	struct cm_frame *m, *next;

	expire(dev, &dev->cm_out, f->now);
	STAILQ_FOREACH_SAFE(m, &dev->cm_out, entry, next) {
		if (m->peer != p)
			continue;
		if (wire_send(f, p, &m->h, m->msg))
			return;
		STAILQ_REMOVE(&dev->cm_out, m, cm_frame, entry);
		frame_free(dev, m);
	}
}

struct cm_frame *remote_cm_take(struct fast *f, struct remote **from)
{
	struct soft_dev *dev = f->be->priv;
	struct cm_frame *m, *next;

	STAILQ_FOREACH_SAFE(m, &dev->cm_in, entry, next) {
		struct remote *r = dir_by_id(f, m->h.src_cont);

		if ((!r || !r->epoch) && m->until > fast_clock())
			continue; /* not known yet: remote_changed() */
		STAILQ_REMOVE(&dev->cm_in, m, cm_frame, entry);
		if (r && r->epoch == m->h.src_epoch && r->peer == m->peer) {
			*from = r;
			return m;
		}
		frame_free(dev, m);
	}
	return NULL;
}

void remote_cm_taken(struct fast *f, struct cm_frame *m)
{
	frame_free(f->be->priv, m);
}

void remote_cm_known(struct fast *f)
{
	struct soft_dev *dev = f->be->priv;

	if (!STAILQ_EMPTY(&dev->cm_in) && f->host->cm_frames)
		f->host->cm_frames(f->host);
}

void remote_cm_fini(struct soft_dev *dev)
{
	expire(dev, &dev->cm_in, UINT64_MAX);
	expire(dev, &dev->cm_out, UINT64_MAX);
}
