/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * unplug.c - a NIC that is removed while it is used, and that comes back. Control thread, without the lock. The worker
 * (worker.c) makes the calls to the kernel.
 *
 * The containers' device is the router's and lives on: connections within the host, or by the wire to other hosts, have
 * lost nothing. So programs that used the NIC get the events that a NIC has for single QPs: IBV_EVENT_QP_FATAL for each
 * QP that the NIC carried, which is in ERR then, its WRs and receives flushed; and IBV_EVENT_PORT_ERR.
 *
 *	nic_lose()	NIC_LOST: from now on nobody calls the NIC
 *	take_down()	QPs, SRQs, MRs and PDs forget the NIC, part by part. Before that, jobs that use something of the
 *			NIC come back, of both workers.
 *	destroy()	NIC_ENDING: the worker destroys everything on the NIC and closes it; a removal may wait for that
 *	look()		NIC_AWAY: each second the worker looks whether a NIC of that name is there (NIC_OPENING)
 *	install()	NIC_UP: the NIC is back. From now on QPs that are made and memory that is registered are the
 *			NIC's, too. Containers hear IBV_EVENT_PORT_ACTIVE, and GID_CHANGE if the GID is another one;
 *			other hosts are told.
 *
 * A UD QP hears only the port's event: it has lost datagrams, which a UD QP may, and still serves containers. Receives
 * of an SRQ are in the SRQ's ring again (srq.c). When the NIC is back, the router's own UD QP has another number, which
 * its peers are told (ud_tunnel.c).
 *
 * QPs that are made while the NIC is away are the software device's alone, and stay so, because programs know their
 * numbers already. If such a QP gets a path that only the NIC can carry, RTR fails with ENODEV, and programs then make
 * the QP anew. Memory that was registered before the NIC came back is not the new NIC's either, because the new NIC has
 * other keys.
 */
#include "ffr/nic/nic.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/nic/cm/cm.h"
#include "ffr/wire/wire.h"

#define LOOK_NS (1000 * NS_PER_MS)
#define PART	256u /* objects, or places in a table, that one hold of the lock handles */

/* A NIC that is being taken down, with all that was made on it. */
struct nic_unplug {
	struct nic_job job;
	struct nic_dev *d; /* for `back`; the worker has `dev` */
	struct nic_dev dev;
	TAILQ_HEAD(, nic_qp) qps;
	SLIST_HEAD(, nic_mr) mrs;
	LIST_HEAD(, nic_srq) srqs;
	struct nic_jobs ahs;
	struct nic_ud_tunnel ud_tunnel;
	struct ibv_pd **pd;
	size_t num_pds, max_pds;
};

struct nic_opening {
	struct nic_job job;
	struct nic_dev *d; /* for `back`; the worker has `dev` */
	struct nic_dev dev;
	int err;
};

/* ---- down ---------------------------------------------------------------------------------------------- */

/* Free what libibverbs has of each object. When the context is closed, the kernel frees its own part. */
static void destroy(struct nic_job *job)
{
	struct nic_unplug *g = (struct nic_unplug *)job;
	struct nic_lib *lib = &g->dev.lib;
	struct nic_srq *ns;
	struct nic_qp *nq;
	struct nic_cq *cq;
	struct nic_mr *nm;

	nic_ud_tunnel_free(lib, &g->ud_tunnel);
	while ((nq = TAILQ_FIRST(&g->qps))) {
		TAILQ_REMOVE(&g->qps, nq, end);
		lib->destroy_qp(nq->ib);
		nic_pace_put(&g->dev, nq);
		nic_ud_free(lib, nq->ud);
		free(nq->sent);
		free(nq->recv_id);
		free(nq);
	}
	nic_ahs_end(lib, &g->ahs);
	while ((ns = LIST_FIRST(&g->srqs))) {
		LIST_REMOVE(ns, entry);
		nic_srq_free(lib, ns);
	}
	while ((cq = LIST_FIRST(&g->dev.cqs))) {
		LIST_REMOVE(cq, entry);
		lib->destroy_cq(cq->cq);
		free(cq);
	}
	while ((nm = SLIST_FIRST(&g->mrs))) {
		SLIST_REMOVE_HEAD(&g->mrs, unplug);
		nic_mr_free(lib, nm);
	}
	for (size_t i = 0; i < g->num_pds; i++)
		lib->dealloc_pd(g->pd[i]);
	nic_dev_close(&g->dev);
}

static void look_again(struct nic_dev *d)
{
	struct fast *f = d->f;

	if (d->state == NIC_CLOSED)
		return;
	fast_lock(f->host);
	nic_dev_to(d, NIC_AWAY);
	timer_arm(&f->timers, &d->look, host_now(f->host) + LOOK_NS);
	fast_kick(f); /* a runner that sleeps does not know of this timer */
	fast_unlock(f->host);
}

static void is_down(struct nic_job *job)
{
	struct nic_unplug *g = (struct nic_unplug *)job;
	struct nic_dev *d = g->d;

	look_again(d);
	free(g->pd);
	free(g);
}

/* If there is no memory to note a PD, it ends with the context. */
static void take_pd(struct nic_unplug *g, struct pd *pd)
{
	struct ibv_pd **more;

	if (!pd->nic)
		return;
	if (g->num_pds == g->max_pds) {
		more = reallocarray(g->pd, g->max_pds + PART, sizeof(*more));
		if (!more) {
			pd->nic = NULL;
			return;
		}
		g->pd = more;
		g->max_pds += PART;
	}
	g->pd[g->num_pds++] = pd->nic;
	pd->nic = NULL;
}

static void take_qps(struct nic_unplug *g)
{
	struct fast *f = g->d->f;
	const struct qp_table *t = &f->host->qps;
	uint32_t n = 0;

	fast_lock(f->host);
	for (uint32_t i = 0; i < t->size; i++) {
		struct qp *qp = t->slot[i];

		if (qp && qp->nic && qp->nic->d == g->d) {
			struct nic_qp *nq = nic_qp_lose(f, qp);

			TAILQ_INSERT_TAIL(&g->qps, nq, end);
			take_pd(g, qp->pd);
			n += PART / 16;
		}
		if (++n >= PART) {
			n = 0;
			fast_unlock(f->host);
			fast_lock(f->host);
		}
	}
	fast_unlock(f->host);
}

/* The receives of an SRQ are there for other QPs again. */
static void take_srqs(struct nic_unplug *g)
{
	struct nic_srq *ns;

	while ((ns = LIST_FIRST(&g->d->srqs))) {
		take_pd(g, ns->srq->pd);
		nic_srq_lose(g->d->f, ns->srq);
		LIST_INSERT_HEAD(&g->srqs, ns, entry);
	}
}

/* Take what datagrams need. With the last UD QP of a container nobody uses its address handles any more. */
static void take_ahs(struct nic_unplug *g)
{
	struct nic_dev *d = g->d;
	struct nic_qp *nq;

	TAILQ_FOREACH(nq, &g->qps, end)
		if (nq->ud)
			nic_ud_leave(d, nq->ud);
	fast_lock(d->f->host);
	nic_ud_tunnel_lose(d, &g->ud_tunnel);
	STAILQ_CONCAT(&g->ahs, &d->ahs_held);
	fast_unlock(d->f->host);
}

static void take_mrs(struct fast *f, struct nic_unplug *g, struct obj_table *t)
{
	fast_lock(f->host);
	for (uint32_t i = 0; i < t->size; i++) {
		struct mr *mr = t->slot[i] ? obj_of(t->slot[i], mr) : NULL;

		if (mr && mr->backend) {
			struct nic_mr *nm = mr->backend;

			SLIST_INSERT_HEAD(&g->mrs, nm, unplug);
			mr->backend = NULL;
			mr->pages_object = 0;
			take_pd(g, mr->pd);
		}
		if (i % PART == PART - 1) {
			fast_unlock(f->host);
			fast_lock(f->host);
		}
	}
	fast_unlock(f->host);
}

/* Only this thread changes tables and what a PD has. */
static void take_pds(struct nic_unplug *g, struct obj_table *t)
{
	for (uint32_t i = 0; i < t->size; i++) {
		struct pd *pd = t->slot[i] ? obj_of(t->slot[i], pd) : NULL;

		if (pd)
			take_pd(g, pd->of ? pd->of : pd);
	}
}

/* Move what the worker is to close from d to g. */
static void take_device(struct nic_unplug *g)
{
	struct nic_dev *d = g->d;
	struct nic_cq *cq;

	g->dev.lib = d->lib;
	g->dev.ctx = d->ctx;
	g->dev.list = d->list;
	g->dev.channel = d->channel;
	g->dev.node_fd = d->node_fd;
	g->dev.ud_pd = d->ud_pd;
	g->dev.host = d->host; /* its name */
	g->dev.is_quiet = true;
	nic_pace_move(&g->dev, d);
	LIST_INIT(&g->dev.cqs);
	while ((cq = LIST_FIRST(&d->cqs))) {
		LIST_REMOVE(cq, entry);
		LIST_INSERT_HEAD(&g->dev.cqs, cq, entry);
	}
	nic_dev_forget(d);
}

/* Take what the sessions of the NIC's containers have. */
static void take_sessions(struct nic_unplug *g)
{
	struct fast *f = g->d->f;
	struct container *c;
	struct session *s;

	LIST_FOREACH(c, &f->host->containers, entry) {
		if (nic_of(c) != g->d)
			continue;
		LIST_FOREACH(s, &c->sessions, entry) {
			take_mrs(f, g, &s->tab[OBJ_MR]);
			take_pds(g, &s->tab[OBJ_PD]);
		}
	}
}

static void take_down(struct nic_dev *d)
{
	struct fast *f = d->f;
	struct nic_unplug *g = calloc(1, sizeof(*g));
	struct nic_mr *nm;

	if (!g) { /* try again with the next call of nic_work() */
		nic_wake(f);
		return;
	}
	log_warn("NIC %s: it is gone", d->host->name);
	TAILQ_INIT(&g->qps);
	STAILQ_INIT(&g->ahs);
	g->d = d;
	g->job.run = destroy;
	g->job.back = is_down;
	take_qps(g);
	take_srqs(g);
	take_ahs(g);
	nic_tell_net(d, "");
	take_sessions(g);
	SLIST_FOREACH(nm, &g->mrs,
		      unplug) /* their sessions may go before the worker has come to them */
		view_pages_end(&nm->pages);
	fast_lock(f->host);
	nic_dev_deafen(d);
	take_device(g);
	nic_dev_to(d, NIC_ENDING);
	d->host->is_away = true;
	nic_tell_port(d, IBV_EVENT_PORT_ERR);
	fast_unlock(f->host);
	nic_job_give(d->worker, &g->job);
}

/* ---- up ------------------------------------------------------------------------------------------------- */

static void try_open(struct nic_job *job)
{
	struct nic_opening *o = (struct nic_opening *)job;

	o->err = nic_dev_open(&o->dev);
}

static void install(struct nic_dev *d, const struct nic_dev *from)
{
	d->list = from->list;
	d->device = from->device;
	d->ctx = from->ctx;
	d->attr = from->attr;
	d->port_attr = from->port_attr;
	d->channel = from->channel;
	d->node_fd = from->node_fd;
	d->gid_index = from->gid_index;
	d->max_inline = from->max_inline;
	d->is_iwarp = from->is_iwarp;
	d->is_siw = from->is_siw;
	d->is_rxe = from->is_rxe;
	d->odp = from->odp;
	d->ud_pd = from->ud_pd;
	d->pace_root = from->pace_root;
	d->pacing = from->pacing;
}

/* Make the tunnel again. If that fails, datagrams to other hosts go by the wire. */
static void tunnel_again(struct nic_dev *d)
{
	struct nic_ud_tunnel t;
	int err = nic_ud_tunnel_start(d);

	if (!err)
		return;
	log_err("NIC %s: the router's UD QP: %s", d->host->name, strerror(err));
	fast_lock(d->f->host);
	nic_ud_tunnel_lose(d, &t);
	fast_unlock(d->f->host);
	nic_ud_tunnel_free(&d->lib, &t);
	if (t.cq)
		nic_cq_put(t.cq, t.cq->used);
}

static void is_up(struct nic_job *job)
{
	struct nic_opening *o = (struct nic_opening *)job;
	struct nic_dev *d = o->d;
	struct fast *f = d->f;
	bool is_other;

	if (d->state == NIC_CLOSED) {
		nic_dev_close(&o->dev);
		free(o);
		return;
	}
	if (!o->err) {
		fast_lock(f->host);
		install(d, &o->dev);
		o->err = nic_dev_listen(d);
		if (!o->err)
			nic_dev_to(d, NIC_UP);
		fast_unlock(f->host);
		if (o->err) {
			log_err("NIC %s: cannot be listened to: %s", d->host->name,
				strerror(-o->err));
			nic_dev_close(d);
		}
	}
	if (o->err) {
		look_again(d);
		free(o);
		return;
	}
	log_info("NIC %s: it is back: GID index %u", d->host->name, d->gid_index);
	is_other = memcmp(&d->gid, &o->dev.gid, sizeof(d->gid)) != 0;
	fast_lock(f->host);
	d->gid = o->dev.gid;
	d->host->is_away = false;
	nic_tell_port(d, IBV_EVENT_PORT_ACTIVE);
	/* nobody has heard the events that came before the runner listened */
	d->port_is_new = true;
	fast_unlock(f->host);
	if (nic_net_of(d))
		tunnel_again(d);
	if (is_other)
		nic_tell_gid(d);
	nic_tell_net(d, nic_net_of(d) ? nic_net_of(d) : "");
	nic_ucma_changed(d);
	nic_wake(f);
	free(o);
}

static void look(struct nic_dev *d)
{
	struct nic_opening *o = calloc(1, sizeof(*o));

	if (!o) {
		look_again(d);
		return;
	}
	o->d = d;
	o->dev.conf = d->conf;
	o->dev.host = d->host; /* its name */
	o->dev.lib = d->lib;
	o->dev.port = d->port;
	o->dev.is_quiet = true;
	o->job.run = try_open;
	o->job.back = is_up;
	fast_lock(d->f->host);
	nic_dev_to(d, NIC_OPENING);
	fast_unlock(d->f->host);
	nic_job_give(d->worker, &o->job);
}

void nic_on_look(struct timer *t)
{
	struct nic_dev *d = (struct nic_dev *)((char *)t - offsetof(struct nic_dev, look));

	nic_dev_to(d, NIC_DUE);
	nic_wake(d->f);
}

void nic_unplug_work(struct nic_dev *d)
{
	struct fast *f = d->f;
	enum nic_dev_state state;
	bool port_is_new;
	uint32_t jobs = nic_jobs_back(d->worker);

	fast_lock(f->host);
	state = d->state;
	port_is_new = d->port_is_new && state == NIC_UP;
	d->port_is_new = false;
	fast_unlock(f->host);
	/* before all jobs are back, they may have something of the NIC */
	jobs += nic_ahs_work(d);
	if (state == NIC_LOST && !jobs)
		take_down(d);
	if (state == NIC_DUE)
		look(d);
	if (port_is_new)
		nic_look_at_port(d);
}

/* ---- others are told ---------------------------------------------------------------------------------------- */

void nic_tell_gid(struct nic_dev *d)
{
	struct fast_host *h = d->f->host;

	fast_lock(h);
	d->host->gid = d->gid;
	fast_unlock(h);
	if (h->nic_changed) /* the GID is in containers' tables */
		h->nic_changed(h);
	fast_lock(h);
	if (h->nic_direct)
		nic_tell_port(d, IBV_EVENT_GID_CHANGE);
	wire_tell_nic(h->threads[0]);
	fast_unlock(h);
	nic_ucma_changed(d);
}

void nic_tell_net(struct nic_dev *d, const char *net)
{
	struct fast_host *h = d->f->host;

	fast_lock(h);
	if (strcmp(d->host->net, net)) {
		snprintf(d->host->net, sizeof(d->host->net), "%s", net);
		wire_tell_nic(h->threads[0]);
	}
	fast_unlock(h);
}
