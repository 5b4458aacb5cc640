/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * carrier.c - the NIC's entry in the list of carriers. See nic.h.
 *
 * Tests: test_unplug.c, test_ud.c
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <stdio.h>

#include "ffr/nic/cm/cm.h"
#include "ffr/soft/soft.h"

static int open_all(struct fast *f, const void *conf)
{
	int err;

	if (f->index) {
		log_err("nic: a NIC is served by one thread: fast_threads = 1");
		return -EINVAL;
	}
	err = nic_open(f, conf);
	if (!err)
		((struct soft_dev *)f->be->priv)->ud_carry = nic_ud_tunnel_send;
	return err;
}

#define AT_MOST(a, b)                                                                              \
	do {                                                                                       \
		if ((a) > (b))                                                                     \
			(a) = (b);                                                                 \
	} while (0)

static void at_most(struct ff_query_device_resp *d, const struct nic_dev *n)
{
	AT_MOST(d->max_qp_wr, (uint32_t)n->attr.max_qp_wr);
	AT_MOST(d->max_sge, (uint32_t)n->attr.max_sge);
	AT_MOST(d->max_sge_rd, (uint32_t)n->attr.max_sge_rd);
	if (n->attr.max_srq) {
		AT_MOST(d->max_srq_wr, (uint32_t)n->attr.max_srq_wr);
		AT_MOST(d->max_srq_sge, (uint32_t)n->attr.max_srq_sge);
	}
	AT_MOST(d->max_inline, n->max_inline);
	AT_MOST(d->max_qp_rd_atom, (uint32_t)n->attr.max_qp_rd_atom);
	AT_MOST(d->max_qp_init_rd_atom, (uint32_t)n->attr.max_qp_init_rd_atom);
	/*
	 * No implicit MRs: those of a whole address space would be of the router's. UD and XRC stay as they are,
	 * because the software device carries them, or ud.c copies.
	 */
	d->odp_general &= n->odp.general_caps & IBV_ODP_SUPPORT;
	d->odp_rc &= n->odp.per_transport_caps.rc_odp_caps;
	d->odp_uc &= n->odp.per_transport_caps.uc_odp_caps;
}

/* Describe what all NICs have, so that a container's device is the same whichever NIC the container has. */
static void describe(struct fast *f, struct ff_query_device_resp *d)
{
	const struct nic_dev *n = nic_first(f);

	snprintf(d->fw_ver, sizeof(d->fw_ver), "%.*s", (int)sizeof(d->fw_ver) - 1, n->attr.fw_ver);
	NIC_FOREACH(n, f)
		at_most(d, n);
	/* with a NIC it is pages of ffmem that are paged (mr.c) */
	if (!view_is_there() || !(d->odp_general & IBV_ODP_SUPPORT))
		d->odp_general = d->odp_rc = d->odp_uc = d->odp_ud = d->odp_xrc = 0;
}

static int make(struct fast *f, enum obj_kind kind, struct obj *o, struct carrier_later *l)
{
	if (kind == OBJ_MR)
		return l ? nic_mr_make_later(obj_of(o, mr), l) : nic_mr_make(obj_of(o, mr));
	return kind == OBJ_QP ? nic_qp_make(f, obj_of(o, qp)) : 0;
}

static int end(struct fast *f, enum obj_kind kind, struct obj *o, struct carrier_later *l)
{
	if (l)
		return kind == OBJ_MR && nic_mr_break_later(obj_of(o, mr), l);
	if (kind == OBJ_MR)
		nic_mr_break(obj_of(o, mr));
	else if (kind == OBJ_QP)
		nic_qp_break(obj_of(o, qp));
	else if (kind == OBJ_SRQ)
		nic_srq_break(f, obj_of(o, srq));
	else if (kind == OBJ_PD)
		nic_pd_break(obj_of(o, pd));
	return 0;
}

static void advise(struct fast *f, struct mr *mr, const struct ff_advise_mr_req *req)
{
	(void)f;
	nic_mr_advise(mr, req);
}

static void news(struct fast *f, struct remote *r)
{
	if (r)
		nic_qp_ask(f);
	else
		nic_policy_changed(f);
}

static bool recv_posted(struct fast *f, struct qp *qp, struct srq *srq)
{
	if (srq) {
		if (srq->nic)
			nic_srq_fill(f, srq->nic);
		return false;
	}
	if (!qp->nic || !nic_qp_is_carried(qp->nic))
		return false;
	if (qp->state != IBV_QPS_ERR)
		nic_recv_fill_all(f, qp->nic);
	return true;
}

static uint32_t poll_all(struct fast *f)
{
	struct nic_dev *d;
	uint32_t work = 0;

	NIC_FOREACH(d, f)
		work += nic_poll(d) + nic_fill_on(d) + nic_srq_fill_on(d);
	return work;
}

static uint32_t flush(struct fast *f)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		nic_batch_post(d);
	return 0;
}

/* Is it something of that NIC's? Then that is looked after. */
static bool is_ready(struct nic_dev *d, void *what)
{
	if (what == d)
		nic_heard(d);
	else if (d->ucma && what == d->ucma)
		nic_ucma_heard(d->ucma);
	else if (what == &d->ear[NIC_EAR_ASYNC])
		nic_events(d);
	else if (what == &d->ear[NIC_EAR_NODE])
		nic_node_events(d);
	else
		return false;
	return true;
}

static bool arm(struct fast *f)
{
	return !nic_arm(f);
}

static bool ready(struct fast *f, void *what, uint32_t events)
{
	struct nic_dev *d;

	(void)events;
	NIC_FOREACH(d, f)
		if (is_ready(d, what))
			return true;
	return false;
}

const struct carrier nic_carrier = {
	.name = "nic",
	.ucma = &nic_ucma_ops,
	.locks = true,
	.open = open_all,
	.close = nic_close,
	.start = nic_start,
	.stop = nic_stop,
	.describe = describe,
	.make = make,
	.end = end,
	.prepare = nic_qp_prepare,
	.advise = advise,
	.work = nic_work,
	.claim = nic_qp_modify,
	.forget = nic_qp_forget,
	.news = news,
	.recv = recv_posted,
	.poll = poll_all,
	.flush = flush,
	.arm = arm,
	.ready = ready,
};
