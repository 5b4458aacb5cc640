/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * bpftrace.c - a QP that waits for a receive of another one of the same process for ever. Prints their
 * numbers, "WAITING OTHER", and stays. Used by bpftrace.sh.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static struct ibv_qp *qp_new(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr a = {
		.send_cq = cq,
		.recv_cq = cq,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_qp *qp = ibv_create_qp(pd, &a);

	if (!qp)
		die("ibv_create_qp");
	return qp;
}

static void connect_to(struct ibv_qp *qp, uint32_t peer, const union ibv_gid *gid)
{
	struct ibv_qp_attr a = {
		.qp_state = IBV_QPS_INIT,
		.port_num = 1,
		.path_mtu = IBV_MTU_4096,
		.dest_qp_num = peer,
		.min_rnr_timer = 14, /* 1 ms */
		.timeout = 14,
		.retry_cnt = 7,
		.rnr_retry = 7, /* for ever */
		.max_rd_atomic = 1,
		.max_dest_rd_atomic = 1,
		.ah_attr = { .is_global = 1,
			     .port_num = 1,
			     .grh = { .dgid = *gid, .hop_limit = 1 } },
	};

	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS))
		die("INIT");
	a.qp_state = IBV_QPS_RTR;
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
				  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER))
		die("RTR");
	a.qp_state = IBV_QPS_RTS;
	if (ibv_modify_qp(qp, &a,
			  IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
				  IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC))
		die("RTS");
}

int main(void)
{
	struct ibv_device **list = ibv_get_device_list(NULL);
	struct ibv_context *ctx = list && list[0] ? ibv_open_device(list[0]) : NULL;
	struct ibv_send_wr wr = { .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp *qp[2];
	union ibv_gid gid;
	struct ibv_pd *pd;
	struct ibv_cq *cq;

	if (!ctx || ibv_query_gid(ctx, 1, 0, &gid))
		die("no device");
	pd = ibv_alloc_pd(ctx);
	cq = ibv_create_cq(ctx, 16, NULL, NULL, 0);
	if (!pd || !cq)
		die("objects");
	qp[0] = qp_new(pd, cq);
	qp[1] = qp_new(pd, cq);
	connect_to(qp[0], qp[1]->qp_num, &gid);
	connect_to(qp[1], qp[0]->qp_num, &gid);
	if (ibv_post_send(qp[0], &wr, &bad))
		die("ibv_post_send");
	printf("%u %u\n", qp[0]->qp_num, qp[1]->qp_num);
	fflush(stdout);
	for (;;)
		pause();
}
