/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * seed_msg.c - writes seeds of fuzz_msg.c into the folder that it is given: qp, xrc, mw, heat. They are made
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
#include "tests/rig/common/qp_attr.h"

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

/* The same with n elements of that size behind it. */
static uint32_t call_tail(uint8_t type, const void *req, size_t len, const void *tail, size_t size,
			  uint8_t n)
{
	const uint8_t head[3] = { 0, (uint8_t)(type - FF_MSG_GET_SEG), n };

	fwrite(head, sizeof(head), 1, out);
	fwrite(req, len, 1, out);
	fwrite(tail, size, n, out);
	return 0xaa000000u | answers++;
}

static const struct ff_qp_cap cap = { 16, 16, 2, 2, 64 };

static void modify(uint32_t qp, enum ibv_qp_state state, uint32_t mask)
{
	struct ff_modify_qp_req req = {
		.qp = qp,
		.mask = mask | IBV_QP_STATE,
		.attr = qp_attr_usual(state, 2),
	};

	req.attr.qkey = 0x11111111;
	req.attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
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
	CALL(REPEAT_EVENT, repeat_event, .cq = cq);
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

static void seed_heat(void)
{
	const uint64_t va = 1ull << 40, mb = 1 << 20;
	uint32_t pd = CALL(ALLOC_PD, alloc_pd, 0);
	uint32_t mr;
	struct ff_map_mr_req more = { 0 };

	CALL(WATCH_HEAT, watch_heat, 0);
	CALL(HEAT_DONE, heat_done, .busy = 1);
	answers--; /* of nothing */
	/* nothing is watched, for which a descriptor would be needed */
	CALL(PLACE_PAGES, place_pages, .len = 4 * mb, .span = 4 * mb);
	CALL(PLACE_PAGES, place_pages, .len = mb, .off = FF_PAGES_STRIDE);
	CALL(TRACK_PAGES, track_pages, .va = va, .len = mb, .op = FF_TRACK_CLOSE);
	answers -= 3; /* refused */
	CALL(TRACK_PAGES, track_pages, .op = FF_TRACK_OPEN);
	mr = CALL(REG_MR, reg_mr, .addr = va, .length = 4 * mb, .iova = va, .pd = pd,
		  .access = IBV_ACCESS_LOCAL_WRITE);
	more.mr = mr;
	for (uint64_t i = 0; i < 3; i++) {
		const struct ff_mr_run run[] = {
			{ va, mb, i * FF_PAGES_STRIDE, 0, FF_RUN_SHADOW },
			{ va + 2 * mb, 4096, mb, 0, FF_RUN_SHADOW },
		};

		call_tail(FF_MSG_MAP_MR, &more, sizeof(more), run, sizeof(*run), 2);
	}
	CALL(DEREG_MR, dereg_mr, .mr = mr);
	CALL(DEALLOC_PD, dealloc_pd, .pd = pd);
}

static void seed_ndevs(void)
{
	struct ff_tell_ndevs_req req = { 0 };
	const struct ff_ndev d[] = { { { [10] = 0xff, 0xff, 10, 0, 0, 1 }, "net1" },
				     { { 0 }, "lo" } };

	call_tail(FF_MSG_TELL_NDEVS, &req, sizeof(req), d, sizeof(*d), 2);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*write)(void);
	} seeds[] = { { "qp", seed_qp },
		      { "xrc", seed_xrc },
		      { "mw", seed_mw },
		      { "heat", seed_heat },
		      { "ndevs", seed_ndevs } };

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
