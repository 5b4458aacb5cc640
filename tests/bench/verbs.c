/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* verbs.c - set-up of the verbs_*.c programs: device, PD, MR, CQ, connected RC QPs. See verbs.h. */
#include "verbs.h"

void verbs_open(struct verbs *v, const char *device)
{
	struct ibv_device **list = ibv_get_device_list(NULL);

	if (!list)
		bench_die("ibv_get_device_list");
	memset(v, 0, sizeof(*v));
	for (int i = 0; list[i] && !v->ctx; i++) {
		if (!device || !strcmp(device, ibv_get_device_name(list[i]))) {
			v->ctx = ibv_open_device(list[i]);
			if (!v->ctx)
				bench_die("ibv_open_device(%s)", ibv_get_device_name(list[i]));
		}
	}
	ibv_free_device_list(list);
	errno = 0;
	if (!v->ctx)
		bench_die("no RDMA device %s", device ? device : "");
	v->pd = ibv_alloc_pd(v->ctx);
	if (!v->pd)
		bench_die("ibv_alloc_pd");
	errno = ibv_query_port(v->ctx, VERBS_PORT, &v->port);
	if (errno)
		bench_die("ibv_query_port");
	if (ibv_query_gid(v->ctx, VERBS_PORT, 0, &v->gid))
		bench_die("ibv_query_gid");
}

void verbs_close(struct verbs *v)
{
	errno = ibv_dealloc_pd(v->pd);
	if (errno)
		bench_die("ibv_dealloc_pd");
	ibv_close_device(v->ctx);
}

struct ibv_mr *verbs_reg(struct verbs *v, void *p, size_t size)
{
	struct ibv_mr *mr = ibv_reg_mr(v->pd, p, size,
				       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
					       IBV_ACCESS_REMOTE_READ);

	if (!mr)
		bench_die("ibv_reg_mr of %zu bytes", size);
	return mr;
}

struct ibv_cq *verbs_cq(struct verbs *v, uint32_t cqe, struct ibv_comp_channel *channel)
{
	struct ibv_cq *cq = ibv_create_cq(v->ctx, (int)cqe, NULL, channel, 0);

	if (!cq)
		bench_die("ibv_create_cq of %u", cqe);
	return cq;
}

struct ibv_qp *verbs_qp(struct verbs *v, struct ibv_cq *cq, const struct verbs_qp_opts *opts)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = opts->send_wr,
			 .max_recv_wr = opts->recv_wr,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = opts->max_inline },
		.qp_type = IBV_QPT_RC,
		.sq_sig_all = opts->sq_sig_all,
	};
	struct ibv_qp *qp = ibv_create_qp(v->pd, &attr);

	if (!qp)
		bench_die("ibv_create_qp");
	return qp;
}

struct verbs_addr verbs_addr_of(const struct verbs *v, const struct ibv_qp *qp)
{
	return (struct verbs_addr){ .gid = v->gid, .qp_num = qp->qp_num, .lid = v->port.lid };
}

static void modify(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask, const char *to)
{
	errno = ibv_modify_qp(qp, attr, mask);
	if (errno)
		bench_die("ibv_modify_qp to %s", to);
}

void verbs_connect(const struct verbs *v, struct ibv_qp *qp, const struct verbs_addr *peer)
{
	struct ibv_qp_attr init = {
		.qp_state = IBV_QPS_INIT,
		.port_num = VERBS_PORT,
		.qp_access_flags = IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ,
	};
	struct ibv_qp_attr rtr = {
		.qp_state = IBV_QPS_RTR,
		.path_mtu = v->port.active_mtu,
		.dest_qp_num = peer->qp_num,
		.max_dest_rd_atomic = 1,
		.min_rnr_timer = 12,
		.ah_attr = { .is_global = 1,
			     .grh = { .dgid = peer->gid, .sgid_index = 0, .hop_limit = 1 },
			     .dlid = peer->lid,
			     .port_num = VERBS_PORT },
	};
	struct ibv_qp_attr rts = {
		.qp_state = IBV_QPS_RTS,
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7,
		.max_rd_atomic = 1,
	};

	modify(qp, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
	       "INIT");
	modify(qp, &rtr,
	       IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		       IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
	       "RTR");
	modify(qp, &rts,
	       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
		       IBV_QP_MAX_QP_RD_ATOMIC,
	       "RTS");
}
