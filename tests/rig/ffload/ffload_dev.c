/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffload_dev.c - the RDMA device of a load: one context, PD and CQ for all lanes. When the device
 * dies (its fatal event, or EIO from a poll), lanes let go of their QPs and MRs, the context is closed
 * and opened again, as often as it takes.
 */
#include "tests/rig/ffload/ffload.h"

#include <fcntl.h>
#include <string.h>

#define REOPEN_NS (20 * NS_PER_MS)

uint64_t wr_id_of(enum load_kind kind, unsigned lane, unsigned attempt, uint64_t seq)
{
	return (uint64_t)kind << 62 | (uint64_t)(lane & 0x3fff) << 48 |
	       (uint64_t)(attempt & 0xffff) << 32 | (seq & 0xffffffff);
}

static int nonblocking(int fd)
{
	int flags = fcntl(fd, F_GETFL);

	return flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

static struct ibv_context *open_first(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;

	if (list)
		ibv_free_device_list(list);
	return ctx;
}

static int open_objects(struct load_dev *d)
{
	struct ibv_port_attr port;

	d->pd = ibv_alloc_pd(d->ctx);
	d->channel = ibv_create_comp_channel(d->ctx);
	if (!d->pd || !d->channel)
		return -errno;
	d->cq = ibv_create_cq(d->ctx, d->cqe, NULL, d->channel, 0);
	if (!d->cq)
		return -errno;
	if (ibv_query_port(d->ctx, 1, &port) || ibv_query_gid(d->ctx, 1, 0, &d->gid))
		return -EIO;
	d->lid = port.lid;
	d->mtu = port.active_mtu;
	return nonblocking(d->ctx->async_fd) ?: nonblocking(d->channel->fd);
}

int dev_open(struct load_dev *d)
{
	uint64_t now = load_now();
	int err;

	if (now < d->retry_at)
		return -EAGAIN;
	d->retry_at = now + REOPEN_NS;
	d->ctx = open_first();
	if (!d->ctx)
		return -ENODEV;
	d->dead = false;
	d->cq_events = 0;
	err = open_objects(d);
	if (err) {
		dev_close(d);
		return err;
	}
	if (d->generation++)
		d->report->reopens++;
	return 0;
}

void dev_close(struct load_dev *d)
{
	if (!d->ctx)
		return;
	if (d->cq) {
		if (d->cq_events)
			ibv_ack_cq_events(d->cq, d->cq_events);
		ibv_destroy_cq(d->cq);
	}
	if (d->channel)
		ibv_destroy_comp_channel(d->channel);
	if (d->pd)
		ibv_dealloc_pd(d->pd);
	ibv_close_device(d->ctx);
	d->ctx = NULL;
	d->cq = NULL;
	d->channel = NULL;
	d->pd = NULL;
	d->cq_events = 0;
}

int dev_poll(struct load_dev *d, struct ibv_wc *wc, int n)
{
	int got = d->ctx ? ibv_poll_cq(d->cq, n, wc) : 0;

	if (got < 0) {
		d->dead = true;
		return 0;
	}
	for (int i = 0; i < got; i++)
		d->report->status[(unsigned)wc[i].status % LOAD_STATUSES]++;
	return got;
}

void dev_arm(struct load_dev *d)
{
	if (d->ctx && ibv_req_notify_cq(d->cq, 0))
		d->dead = true;
}

void dev_take_comp_events(struct load_dev *d)
{
	struct ibv_cq *cq;
	void *context;

	while (!ibv_get_cq_event(d->channel, &cq, &context))
		d->cq_events++;
	if (errno != EAGAIN && errno != EINTR)
		d->dead = true;
	if (d->cq_events > 1000) {
		ibv_ack_cq_events(d->cq, d->cq_events);
		d->cq_events = 0;
	}
}

void dev_take_async_events(struct load_dev *d)
{
	struct ibv_async_event ev;

	while (!ibv_get_async_event(d->ctx, &ev)) {
		enum ibv_event_type type = ev.event_type;

		ibv_ack_async_event(&ev);
		d->report->async_events++;
		if (type == IBV_EVENT_COMM_EST)
			continue;
		report_line(d->report, "event: %s", ibv_event_type_str(type));
		if (type == IBV_EVENT_DEVICE_FATAL) {
			d->dead = true;
			return;
		}
	}
	if (errno != EAGAIN && errno != EINTR)
		d->dead = true;
}

/* ---- queue pairs --------------------------------------------------------------------------------- */

struct ibv_qp *dev_qp(struct load_dev *d, const struct load_plan *plan, unsigned send_wr,
		      unsigned recv_wr)
{
	struct ibv_qp_init_attr init = {
		.send_cq = d->cq,
		.recv_cq = d->cq,
		.cap = { .max_send_wr = send_wr,
			 .max_recv_wr = recv_wr,
			 .max_send_sge = 4,
			 .max_recv_sge = 1,
			 .max_inline_data = 64 },
		.qp_type = plan->ud ? IBV_QPT_UD : IBV_QPT_RC,
	};

	return ibv_create_qp(d->pd, &init);
}

int dev_qp_init(struct ibv_qp *qp, const struct load_plan *plan)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.qkey = LOAD_QKEY,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
				   IBV_ACCESS_REMOTE_ATOMIC,
	};

	return -ibv_modify_qp(qp, &attr,
			      IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      (plan->ud ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS));
}

static struct ibv_ah_attr path_to(const struct load_end *peer)
{
	return (struct ibv_ah_attr){
		.dlid = (uint16_t)peer->lid,
		.port_num = 1,
		.is_global = 1,
		.grh = { .dgid = peer->gid, .sgid_index = 0, .hop_limit = 64 },
	};
}

struct ibv_ah *dev_ah(struct load_dev *d, const struct load_end *peer)
{
	struct ibv_ah_attr attr = path_to(peer);

	return ibv_create_ah(d->pd, &attr);
}

int dev_qp_connect(struct load_dev *d, struct ibv_qp *qp, const struct load_plan *plan,
		   uint32_t psn, const struct load_end *peer)
{
	struct ibv_qp_attr attr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = plan->mtu < d->mtu ? (enum ibv_mtu)plan->mtu : d->mtu,
		.dest_qp_num = peer->qpn,
		.rq_psn = peer->psn,
		.max_dest_rd_atomic = 8,
		.min_rnr_timer = 12,
		.ah_attr = path_to(peer),
	};
	int mask = IBV_QP_STATE, err;

	if (!plan->ud)
		mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
			IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	err = ibv_modify_qp(qp, &attr, mask);
	if (err)
		return -err;
	attr.qp_state = IBV_QPS_RTS;
	attr.sq_psn = psn;
	attr.timeout = plan->timeout;
	attr.retry_cnt = plan->retry;
	attr.rnr_retry = 7;
	attr.max_rd_atomic = 8;
	mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
	if (!plan->ud)
		mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
			IBV_QP_MAX_QP_RD_ATOMIC;
	return -ibv_modify_qp(qp, &attr, mask);
}

void dev_qp_error(struct ibv_qp *qp)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_ERR };

	ibv_modify_qp(qp, &attr, IBV_QP_STATE); /* a dead device's QP need not be told */
}
