/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * pace.c - the NIC's own rate limits, beside the router's: how fast a container's packets leave the NIC. Control
 * thread, no lock.
 *
 * The router counts what a container sends before the NIC gets it (rate.h). The NIC then sends at the speed of its
 * link, in bursts, and answers READs of others without asking anybody. Two functions of NICs improve on this:
 *
 * - mlx5 has scheduling elements (mlx5dv_sched_node_create(3)). Each tenant has a node, and each of its containers has
 *   a leaf below the node, for each direction: what QPs send, and what is read from them. All QPs of the container are
 *   joined to its leaves. The NIC enforces serve_rate there, which nothing else can, and spreads what is sent.
 * - Other NICs may have packet pacing (ibv_modify_qp_rate_limit(3)), which is a rate for each QP.
 *
 * tx_rate counts the bytes of programs exactly, without headers, and the NIC counts packets. So the NIC gets HEADERS
 * times the rate for what is sent: the NIC only spreads, and the router's count is the limit.
 *
 * If the NIC refuses, the router's count is the only limit. The log says so once.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <infiniband/mlx5dv.h>
#include <string.h>

#define HEADERS 2u /* RoCE v2 adds 78 bytes to a packet, as many as a small message has */

enum pace_dir { PACE_SEND, PACE_SERVE, PACE_DIRS };

/* A tenant's part of the tree. */
struct pace_tenant {
	LIST_ENTRY(pace_tenant) entry;
	const struct tenant *of;
	uint32_t used; /* containers */
	struct mlx5dv_sched_node *node[PACE_DIRS];
	uint32_t mbit[PACE_DIRS];
};

/* A container's, or the rate of each of its QPs. */
struct nic_pace {
	LIST_ENTRY(nic_pace) entry;
	const struct container *cont;
	uint32_t used; /* QPs */
	uint32_t kbit; /* of packet pacing; 0: none */
	struct pace_tenant *tenant;
	struct mlx5dv_sched_leaf *leaf[PACE_DIRS]; /* NULL: there is no tree */
	uint32_t mbit[PACE_DIRS];
};

/* A rate in units of so many bits per second, rounded up; 0: none is set. */
static uint32_t rate_in(uint64_t bytes_per_second, uint64_t bits)
{
	unsigned __int128 n = ((unsigned __int128)bytes_per_second * 8 + bits - 1) / bits;

	return n > UINT32_MAX ? UINT32_MAX : (uint32_t)n;
}

static uint32_t mbit_of(const struct ffo_limits *l, enum pace_dir dir)
{
	return rate_in(dir == PACE_SEND ? HEADERS * l->tx_rate : l->serve_rate, 1000000);
}

/* ---- mlx5's tree ---------------------------------------------------------------------------------------- */

static struct mlx5dv_sched_attr attr_of(struct mlx5dv_sched_node *parent, uint32_t mbit)
{
	return (struct mlx5dv_sched_attr){ .parent = parent,
					   .flags = MLX5DV_SCHED_ELEM_ATTR_FLAGS_MAX_AVG_BW,
					   .max_avg_bw = mbit };
}

static void no_more(struct nic_dev *d, const char *what, int err)
{
	if (!d->pace_failed)
		log_warn("NIC %s: %s: %s: rates are kept by the router alone", d->host->name, what,
			 strerror(err));
	d->pace_failed = true;
}

/* A scheduling element stays in the NIC. If the NIC was removed, nobody needs to know. */
static void tell_kept(const struct nic_dev *d)
{
	if (!d->is_quiet)
		log_err("NIC %s: a scheduling element cannot be destroyed: %m", d->host->name);
}

void nic_pace_open(struct nic_dev *d)
{
	struct mlx5dv_sched_attr root = { 0 };
	struct verbs_context *v;

	if (nic_is_mlx5(d)) {
		d->pace_root = d->lib.mlx5.sched_node_create(d->ctx, &root);
		if (!d->pace_root)
			no_more(d, "scheduling elements", errno);
	}
	v = d->pace_root ? NULL : verbs_get_ctx_op(d->ctx, query_device_ex);
	if (v) {
		struct ibv_device_attr_ex ex = { 0 };

		if (!v->query_device_ex(d->ctx, NULL, &ex, sizeof(ex)))
			d->pacing = ex.packet_pacing_caps;
	}
}

void nic_pace_close(struct nic_dev *d)
{
	if (d->pace_root && d->lib.mlx5.sched_node_destroy(d->pace_root))
		tell_kept(d);
	d->pace_root = NULL;
}

void nic_pace_move(struct nic_dev *to, struct nic_dev *from)
{
	struct pace_tenant *t;
	struct nic_pace *p;

	LIST_INIT(&to->paces);
	LIST_INIT(&to->pace_tenants);
	while ((p = LIST_FIRST(&from->paces))) {
		LIST_REMOVE(p, entry);
		LIST_INSERT_HEAD(&to->paces, p, entry);
	}
	while ((t = LIST_FIRST(&from->pace_tenants))) {
		LIST_REMOVE(t, entry);
		LIST_INSERT_HEAD(&to->pace_tenants, t, entry);
	}
	to->pace_root = from->pace_root;
	from->pace_root = NULL;
	from->pacing = (struct ibv_packet_pacing_caps){ 0 };
	from->pace_failed = false;
}

static void tenant_put(struct nic_dev *d, struct pace_tenant *t)
{
	if (--t->used)
		return;
	for (int dir = 0; dir < PACE_DIRS; dir++)
		if (t->node[dir] && d->lib.mlx5.sched_node_destroy(t->node[dir]))
			tell_kept(d);
	LIST_REMOVE(t, entry);
	free(t);
}

/* NULL: errno */
static struct pace_tenant *tenant_get(struct nic_dev *d, const struct tenant *of)
{
	struct pace_tenant *t;
	int err;

	LIST_FOREACH(t, &d->pace_tenants, entry)
		if (t->of == of) {
			t->used++;
			return t;
		}
	t = calloc(1, sizeof(*t));
	if (!t)
		return NULL;
	t->of = of;
	t->used = 1;
	LIST_INSERT_HEAD(&d->pace_tenants, t, entry);
	for (enum pace_dir dir = 0; dir < PACE_DIRS; dir++) {
		struct mlx5dv_sched_attr a;

		t->mbit[dir] = mbit_of(&of->limits, dir);
		a = attr_of(d->pace_root, t->mbit[dir]);
		t->node[dir] = d->lib.mlx5.sched_node_create(d->ctx, &a);
		if (!t->node[dir]) {
			err = errno;
			tenant_put(d, t);
			errno = err;
			return NULL;
		}
	}
	return t;
}

static void leaves_free(struct nic_dev *d, struct nic_pace *p)
{
	for (int dir = 0; dir < PACE_DIRS; dir++) {
		if (p->leaf[dir] && d->lib.mlx5.sched_leaf_destroy(p->leaf[dir]))
			tell_kept(d);
		p->leaf[dir] = NULL;
	}
	if (p->tenant)
		tenant_put(d, p->tenant);
	p->tenant = NULL;
}

/* 0 or an errno */
static int leaves_make(struct nic_dev *d, struct nic_pace *p)
{
	int err;

	p->tenant = tenant_get(d, p->cont->of);
	if (!p->tenant)
		return errno;
	for (enum pace_dir dir = 0; dir < PACE_DIRS; dir++) {
		struct mlx5dv_sched_attr a;

		p->mbit[dir] = mbit_of(&p->cont->limits, dir);
		a = attr_of(p->tenant->node[dir], p->mbit[dir]);
		p->leaf[dir] = d->lib.mlx5.sched_leaf_create(d->ctx, &a);
		if (!p->leaf[dir]) {
			err = errno;
			leaves_free(d, p);
			return err;
		}
	}
	return 0;
}

/* Is the rate another one than the NIC was told? Note the new one. */
static bool is_new(uint32_t *told, const struct ffo_limits *l, enum pace_dir dir)
{
	uint32_t mbit = mbit_of(l, dir);
	bool is = mbit != *told;

	*told = mbit;
	return is;
}

static void was_told(struct nic_dev *d, int err)
{
	if (err)
		no_more(d, "the rate of a scheduling element", err);
}

static void node_update(struct nic_dev *d, struct pace_tenant *t, enum pace_dir dir)
{
	struct mlx5dv_sched_attr a;

	if (!is_new(&t->mbit[dir], &t->of->limits, dir))
		return;
	a = attr_of(d->pace_root, t->mbit[dir]);
	was_told(d, d->lib.mlx5.sched_node_modify(t->node[dir], &a));
}

static void leaf_update(struct nic_dev *d, struct nic_pace *p, enum pace_dir dir)
{
	struct mlx5dv_sched_attr a;

	if (!is_new(&p->mbit[dir], &p->cont->limits, dir))
		return;
	a = attr_of(p->tenant->node[dir], p->mbit[dir]);
	was_told(d, d->lib.mlx5.sched_leaf_modify(p->leaf[dir], &a));
}

/* ---- packet pacing ----------------------------------------------------------------------------------------- */

static bool can_pace(const struct nic_dev *d, const struct nic_qp *nq)
{
	return d->pacing.qp_rate_limit_max && d->pacing.supported_qpts & 1u << nq->qp->type;
}

/* The rate for a QP, within what the NIC can do; 0: none */
static uint32_t kbit_of(const struct nic_dev *d, const struct ffo_limits *l)
{
	uint32_t kbit = rate_in(HEADERS * l->tx_rate, 1000);

	if (!kbit || kbit > d->pacing.qp_rate_limit_max)
		return 0;
	return kbit < d->pacing.qp_rate_limit_min ? d->pacing.qp_rate_limit_min : kbit;
}

static void pace(struct nic_dev *d, const struct nic_qp *nq)
{
	struct ibv_qp_rate_limit_attr a = { .rate_limit = nq->pace->kbit };
	struct verbs_context *v = verbs_get_ctx_op(d->ctx, modify_qp_rate_limit);
	int err = v ? v->modify_qp_rate_limit(nq->ib, &a) : ENOSYS;

	if (err)
		no_more(d, "packet pacing", err);
}

static void pace_update(struct nic_dev *d, struct nic_pace *p)
{
	const struct qp_table *t = &d->f->host->qps;
	uint32_t kbit = kbit_of(d, &p->cont->limits);

	if (kbit == p->kbit)
		return;
	p->kbit = kbit;
	for (uint32_t i = 0; i < t->size; i++) {
		const struct nic_qp *nq = t->slot[i] ? t->slot[i]->nic : NULL;

		if (nq && nq->pace == p && nic_qp_is_carried(nq) && nq->qp->state == IBV_QPS_RTS &&
		    can_pace(d, nq))
			pace(d, nq);
	}
}

/* ---- a container's ------------------------------------------------------------------------------------------ */

void nic_pace_get(struct nic_dev *d, struct nic_qp *nq)
{
	const struct container *c = nq->qp->o.ses->cont;
	struct nic_pace *p;
	int err;

	if (!d->pace_root && !d->pacing.qp_rate_limit_max)
		return;
	LIST_FOREACH(p, &d->paces, entry)
		if (p->cont == c)
			break;
	if (!p) {
		p = calloc(1, sizeof(*p));
		if (!p)
			return;
		p->cont = c;
		p->kbit = kbit_of(d, &c->limits);
		err = d->pace_root ? leaves_make(d, p) : 0;
		if (err) {
			no_more(d, "scheduling elements of a container", err);
			free(p);
			return;
		}
		LIST_INSERT_HEAD(&d->paces, p, entry);
	}
	p->used++;
	nq->pace = p;
}

void nic_pace_put(struct nic_dev *d, struct nic_qp *nq)
{
	struct nic_pace *p = nq->pace;

	nq->pace = NULL;
	if (!p || --p->used)
		return;
	leaves_free(d, p);
	LIST_REMOVE(p, entry);
	free(p);
}

void nic_pace_begin(struct nic_dev *d, struct nic_qp *nq)
{
	const struct nic_pace *p = nq->pace;
	int err;

	if (!p)
		return;
	if (p->leaf[PACE_SEND]) {
		/* one that is not reliable answers nothing */
		err = d->lib.mlx5.modify_qp_sched_elem(
			nq->ib, p->leaf[PACE_SEND],
			nq->qp->type == IBV_QPT_RC ? p->leaf[PACE_SERVE] : NULL);
		if (err)
			no_more(d, "a QP's scheduling element", err);
	} else if (p->kbit && can_pace(d, nq)) {
		pace(d, nq);
	}
}

void nic_pace_update(struct nic_dev *d)
{
	struct pace_tenant *t;
	struct nic_pace *p;

	if (d->pace_seen == d->f->host->limits_changed || !nic_is_up(d))
		return;
	d->pace_seen = d->f->host->limits_changed;
	LIST_FOREACH(t, &d->pace_tenants, entry)
		for (enum pace_dir dir = 0; dir < PACE_DIRS; dir++)
			node_update(d, t, dir);
	LIST_FOREACH(p, &d->paces, entry) {
		if (!p->tenant)
			pace_update(d, p);
		for (enum pace_dir dir = 0; p->tenant && dir < PACE_DIRS; dir++)
			leaf_update(d, p, dir);
	}
}
