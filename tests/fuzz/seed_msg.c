/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * seed_msg.c - writes seeds of fuzz_msg.c into the folder that it is given: qp, xrc, mw. They are made
 * of ff_proto.h's structs, so after a change of these
 *
 *	gcc -D_GNU_SOURCE -I. -o /tmp/seed_msg tests/fuzz/seed_msg.c && /tmp/seed_msg tests/fuzz/corpus/msg
 *
 * makes them reach as far again. tests/fuzz/README.md has what they reach.
 */
#include <infiniband/verbs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_ring.h"

static FILE *out;
static uint32_t answers; /* so far, of those that are served */

static void seed_open(const char *dir, const char *name)
{
	char path[4096];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	out = fopen(path, "w");
	if (!out) {
		perror(path);
		exit(1);
	}
	answers = 0;
}

/* A formed record of the first client. What its answer begins with is named by what this returns. */
static uint32_t call(uint8_t type, const void *req, size_t len)
{
	const uint8_t head[3] = { 0, (uint8_t)(type - FF_MSG_GET_SEG), 0 };

	fwrite(head, sizeof(head), 1, out);
	fwrite(req, len, 1, out);
	return 0xaa000000u | answers++;
}
#define CALL(NAME, name, ...)                                                                      \
	call(FF_MSG_##NAME, &(struct ff_##name##_req){ __VA_ARGS__ },                              \
	     sizeof(struct ff_##name##_req))

static const struct ff_qp_cap cap = { 16, 16, 2, 2, 64 };

static void modify(uint32_t qp, uint8_t state, uint32_t mask)
{
	struct ff_modify_qp_req req = {
		.qp = qp,
		.mask = mask | IBV_QP_STATE,
		.attr = { .ah = { .is_global = 1, .port_num = 1, .hop_limit = 1 },
			  .qkey = 0x11111111,
			  .dest_qp_num = 2,
			  .qp_access_flags = IBV_ACCESS_REMOTE_WRITE,
			  .qp_state = state,
			  .path_mtu = IBV_MTU_1024,
			  .max_rd_atomic = 1,
			  .max_dest_rd_atomic = 1,
			  .min_rnr_timer = 12,
			  .port_num = 1,
			  .timeout = 14,
			  .retry_cnt = 7,
			  .rnr_retry = 7 }
	};

	call(FF_MSG_MODIFY_QP, &req, sizeof(req));
}

#define INIT  (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define PATH  (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RETRY (IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC)

static void to_rts(uint32_t qp)
{
	modify(qp, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS);
	modify(qp, IBV_QPS_RTR, PATH | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
	modify(qp, IBV_QPS_RTS, RETRY | IBV_QP_SQ_PSN);
}

static void seed_qp(void)
{
	uint32_t pd = CALL(ALLOC_PD, alloc_pd, 0);
	uint32_t ch = CALL(CREATE_CHANNEL, create_channel, 0);
	uint32_t cq = CALL(CREATE_CQ, create_cq, .cqe = 16, .channel = ch);
	uint32_t srq = CALL(CREATE_SRQ, create_srq, .pd = pd, .max_wr = 8, .max_sge = 2);
	uint32_t rc = CALL(CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq,
			   .qp_type = IBV_QPT_RC, .cap = cap);
	uint32_t shared = CALL(CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq,
			       .srq = srq, .qp_type = IBV_QPT_UC, .cap = cap);
	uint32_t ud = CALL(CREATE_QP, create_qp, .pd = pd, .send_cq = cq, .recv_cq = cq,
			   .qp_type = IBV_QPT_UD, .cap = cap);

	CALL(RESIZE_CQ, resize_cq, .cq = cq, .cqe = 64);
	CALL(MODIFY_CQ, modify_cq, .cq = cq, .count = 4, .period = 10);
	CALL(MODIFY_SRQ, modify_srq, .srq = srq, .mask = IBV_SRQ_LIMIT, .srq_limit = 2);
	CALL(QUERY_SRQ, query_srq, .srq = srq);
	to_rts(rc);
	CALL(QUERY_QP, query_qp, .qp = rc);
	modify(rc, IBV_QPS_SQD, 0);
	modify(rc, IBV_QPS_RTS, 0);
	modify(shared, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS);
	modify(shared, IBV_QPS_RTR, PATH);
	modify(ud, IBV_QPS_INIT, INIT | IBV_QP_QKEY);
	modify(ud, IBV_QPS_RTR, 0);
	modify(ud, IBV_QPS_RTS, IBV_QP_SQ_PSN);
	CALL(ATTACH_MCAST, attach_mcast, .qp = ud, .lid = 0xc001, .gid = { 0xff, 0x12, [15] = 1 });
	CALL(DETACH_MCAST, detach_mcast, .qp = ud, .lid = 0xc001, .gid = { 0xff, 0x12, [15] = 1 });
	modify(rc, IBV_QPS_ERR, 0);
	modify(rc, IBV_QPS_RESET, 0);
	CALL(DESTROY_QP, destroy_qp, .qp = rc);
	CALL(DESTROY_QP, destroy_qp, .qp = shared);
	CALL(DESTROY_QP, destroy_qp, .qp = ud);
	CALL(DESTROY_SRQ, destroy_srq, .srq = srq);
	CALL(DESTROY_CQ, destroy_cq, .cq = cq);
	CALL(DESTROY_CHANNEL, destroy_channel, .channel = ch);
	CALL(DEALLOC_PD, dealloc_pd, .pd = pd);
}

static void seed_xrc(void)
{
	uint32_t pd = CALL(ALLOC_PD, alloc_pd, 0);
	uint32_t xrcd = CALL(OPEN_XRCD, open_xrcd, 0);
	uint32_t cq = CALL(CREATE_CQ, create_cq, .cqe = 16);
	uint32_t srq = CALL(CREATE_SRQ, create_srq, .pd = pd, .max_wr = 8, .max_sge = 2,
			    .xrcd = xrcd, .cq = cq);
	uint32_t rx = CALL(CREATE_QP, create_qp, .xrcd = xrcd, .qp_type = IBV_QPT_XRC_RECV);
	uint32_t tx = CALL(CREATE_QP, create_qp, .pd = pd, .send_cq = cq,
			   .qp_type = IBV_QPT_XRC_SEND,
			   .cap = { .max_send_wr = 16, .max_send_sge = 1 });

	modify(rx, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS);
	modify(tx, IBV_QPS_INIT, INIT | IBV_QP_ACCESS_FLAGS);
	CALL(OPEN_QP, open_qp, .xrcd = xrcd, .qp_num = 2, .qp_type = IBV_QPT_XRC_RECV);
	CALL(DESTROY_QP, destroy_qp, .qp = tx);
	CALL(DESTROY_QP, destroy_qp, .qp = rx);
	CALL(DESTROY_SRQ, destroy_srq, .srq = srq);
	CALL(CLOSE_XRCD, close_xrcd, .xrcd = xrcd);
}

static void seed_mw(void)
{
	uint32_t pd = CALL(ALLOC_PD, alloc_pd, 0);
	uint32_t one = CALL(ALLOC_MW, alloc_mw, .pd = pd, .type = IBV_MW_TYPE_1);
	uint32_t two = CALL(ALLOC_MW, alloc_mw, .pd = pd, .type = IBV_MW_TYPE_2);

	CALL(DEALLOC_MW, dealloc_mw, .mw = one);
	CALL(DEALLOC_PD, dealloc_pd, .pd = pd); /* in use */
	answers--;
	CALL(DEALLOC_MW, dealloc_mw, .mw = two);
	CALL(DEALLOC_PD, dealloc_pd, .pd = pd);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*write)(void);
	} seeds[] = { { "qp", seed_qp }, { "xrc", seed_xrc }, { "mw", seed_mw } };

	if (argc != 2) {
		fprintf(stderr, "usage: seed_msg FOLDER\n");
		return 2;
	}
	for (size_t i = 0; i < sizeof(seeds) / sizeof(seeds[0]); i++) {
		seed_open(argv[1], seeds[i].name);
		seeds[i].write();
		if (fclose(out)) {
			perror(seeds[i].name);
			return 1;
		}
	}
	return 0;
}
