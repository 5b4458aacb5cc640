/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.c - the verbs backend's ops: those of the software device, and the NIC beside it. See nic.h.
 *
 * Tests: test_gone.c, test_ud.c
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <stdio.h>

#include "ffr/soft/soft.h"

static int verbs_open(struct backend *be)
{
	int err = soft_ops.open(be);

	if (err)
		return err;
	if (be->f->index) {
		log_err("backend verbs: a NIC is served by one thread: fast_threads = 1");
		err = -EINVAL;
	} else {
		err = nic_open(be->f, be->conf);
		((struct soft_dev *)be->priv)->ud_carry = nic_trunk_send;
	}
	if (err)
		soft_ops.close(be);
	return err;
}

static void verbs_close(struct backend *be)
{
	if (!be->f->index)
		nic_close(be->f);
	soft_ops.close(be);
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
	/* all of an address space would be all of the router's; UD and XRC are the software device's, or copied (ud.c) */
	d->odp_general &= n->odp.general_caps & IBV_ODP_SUPPORT;
	d->odp_rc &= n->odp.per_transport_caps.rc_odp_caps;
	d->odp_uc &= n->odp.per_transport_caps.uc_odp_caps;
}

/* What the software device and all NICs have: a container's device is the same whichever NIC is its. */
static void verbs_query(struct backend *be, struct ff_query_device_resp *d)
{
	const struct nic_dev *n = nic_first(be->f);

	soft_ops.query(be, d);
	snprintf(d->fw_ver, sizeof(d->fw_ver), "%.*s", (int)sizeof(d->fw_ver) - 1, n->attr.fw_ver);
	NIC_FOREACH(n, be->f)
		at_most(d, n);
	/* with a NIC it is pages of ffmem that are paged (mr.c) */
	if (!view_is_there() || !(d->odp_general & IBV_ODP_SUPPORT))
		d->odp_general = d->odp_rc = d->odp_uc = d->odp_ud = d->odp_xrc = 0;
}

static int verbs_qp_create(struct fast *f, struct qp *qp)
{
	int err = soft_ops.qp_create(f, qp);

	if (err || !qp->nic)
		return err;
	qp->nic->soft_send = qp->send;
	if (qp->nic->ud)
		qp->send = &nic_ud_send;
	return 0;
}

static void verbs_qp_modify(struct fast *f, struct qp *qp, enum ibv_qp_state old)
{
	if (!nic_qp_modify(f, qp, old))
		soft_ops.qp_modify(f, qp, old);
}

static void verbs_qp_destroy(struct fast *f, struct qp *qp)
{
	nic_qp_forget(f, qp);
	soft_ops.qp_destroy(f, qp);
}

static bool verbs_recv_posted(struct fast *f, struct qp *qp, struct srq *srq)
{
	if (srq) {
		bool more = soft_ops.recv_posted(f, NULL, srq);

		if (srq->nic)
			nic_srq_fill(f, srq->nic);
		return more;
	}
	if (!qp->nic || !qp->nic->carried)
		return soft_ops.recv_posted(f, qp, NULL);
	if (qp->state != IBV_QPS_ERR)
		nic_recv_fill_all(f, qp->nic);
	return false;
}

static void verbs_remote_changed(struct fast *f, struct remote *r)
{
	soft_ops.remote_changed(f, r);
	nic_qp_ask(f);
}

static void verbs_policy_changed(struct fast *f)
{
	soft_ops.policy_changed(f);
	nic_policy_changed(f);
}

static void verbs_peer_told(struct fast *f, struct wire_peer *p)
{
	(void)p;
	nic_qp_ask(f);
}

static uint32_t verbs_poll(struct fast *f)
{
	struct nic_dev *d;
	uint32_t work = 0;

	NIC_FOREACH(d, f)
		work += nic_poll(d) + nic_ahs_done(d) + nic_fill_on(d) + nic_srq_fill_on(d);
	return work + soft_ops.poll(f);
}

static uint32_t verbs_flush(struct fast *f)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		nic_batch_post(d);
	return soft_ops.flush(f);
}

/* Is it something of that NIC's? Then that is looked after. */
static bool is_ready(struct nic_dev *d, void *what)
{
	if (what == d)
		nic_heard(d);
	else if (what == &d->ahs)
		nic_ahs_ready(d);
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

static void verbs_ready(struct fast *f, void *what, uint32_t events)
{
	struct nic_dev *d;

	NIC_FOREACH(d, f)
		if (is_ready(d, what))
			return;
	soft_ops.ready(f, what, events);
}

const struct backend_ops *verbs_ops(void)
{
	static struct backend_ops ops;

	ops = soft_ops;
	ops.name = "verbs";
	ops.ucma = &nic_ucma_ops;
	ops.open = verbs_open;
	ops.close = verbs_close;
	ops.start = nic_start;
	ops.stop = nic_stop;
	ops.query = verbs_query;
	ops.pd_break = nic_pd_break;
	ops.srq_break = nic_srq_break;
	ops.mr_make = nic_mr_make;
	ops.mr_break = nic_mr_break;
	ops.mr_advise = nic_mr_advise;
	ops.mr_make_later = nic_mr_make_later;
	ops.mr_break_later = nic_mr_break_later;
	ops.settle = nic_settle;
	ops.qp_make = nic_qp_make;
	ops.qp_break = nic_qp_break;
	ops.qp_prepare = nic_qp_prepare;
	ops.work = nic_work;
	ops.qp_create = verbs_qp_create;
	ops.qp_modify = verbs_qp_modify;
	ops.qp_destroy = verbs_qp_destroy;
	ops.remote_changed = verbs_remote_changed;
	ops.policy_changed = verbs_policy_changed;
	ops.peer_told = verbs_peer_told;
	ops.recv_posted = verbs_recv_posted;
	ops.poll = verbs_poll;
	ops.flush = verbs_flush;
	ops.arm = nic_arm;
	ops.ready = verbs_ready;
	return &ops;
}
