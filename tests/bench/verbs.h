/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs.h - the little that the verbs_*.c programs share: open a device, make RC QPs, connect
 * them, wait for a completion. Plain libibverbs, so that any provider can run them. See verbs.c.
 *
 * Nothing here returns an error: a benchmark that cannot go on says why and exits with 1.
 */
#ifndef BENCH_VERBS_H
#define BENCH_VERBS_H

#include <infiniband/verbs.h>

#include "bench.h"

#define VERBS_PORT 1

struct verbs {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct ibv_port_attr port;
	union ibv_gid gid; /* index 0 */
};

/* Where a QP is reached; plain data, so that it can go through a pipe. */
struct verbs_addr {
	union ibv_gid gid;
	uint32_t qp_num;
	uint32_t rkey;
	uint64_t addr;
	uint16_t lid;
};

struct verbs_qp_opts {
	uint32_t send_wr, recv_wr;
	uint32_t max_inline; /* bytes */
	int sq_sig_all;
};

void verbs_open(struct verbs *v, const char *device); /* NULL: the first one */
void verbs_close(struct verbs *v);
struct ibv_mr *verbs_reg(struct verbs *v, void *p, size_t size);
struct ibv_cq *verbs_cq(struct verbs *v, uint32_t cqe, struct ibv_comp_channel *channel);
struct ibv_qp *verbs_qp(struct verbs *v, struct ibv_cq *cq, const struct verbs_qp_opts *opts);
struct verbs_addr verbs_addr_of(const struct verbs *v, const struct ibv_qp *qp);
/* From RESET to RTS, connected to that address. */
void verbs_connect(const struct verbs *v, struct ibv_qp *qp, const struct verbs_addr *peer);

/* Fails unless the completion is a success. */
static inline void verbs_check(const struct ibv_wc *wc)
{
	if (wc->status != IBV_WC_SUCCESS) {
		errno = 0;
		bench_die("completion of wr_id %lu: %s (vendor error %u)", (unsigned long)wc->wr_id,
			  ibv_wc_status_str(wc->status), wc->vendor_err);
	}
}

static inline void verbs_post(struct ibv_qp *qp, struct ibv_send_wr *wr)
{
	struct ibv_send_wr *bad;

	errno = ibv_post_send(qp, wr, &bad);
	if (errno)
		bench_die("ibv_post_send");
}

/* Spin for one completion. */
static inline void verbs_wait(struct ibv_cq *cq, struct ibv_wc *wc)
{
	int n;

	while (!(n = ibv_poll_cq(cq, 1, wc)))
		;
	if (n < 0)
		bench_die("ibv_poll_cq");
	verbs_check(wc);
}

#endif
