/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * raw_handles.c - a hostile client whose requests are well-formed: handles of others, numbers that are
 * absurd, claims that are false. As raw_proto.c, with a victim beside it.
 */
#include <unistd.h>

#include <rdma/rdma_cma.h>

#include "tests/rig/verbs/raw.h"

/* ---- handles -------------------------------------------------------------------------------- */

/*
 * Requests whose only flaw is a handle. `bad` goes where the handle belongs, in turn in each field of each request that
 * has one (tests/lint/handles). None may be served.
 */
static void handles_refused(struct raw *r, uint32_t bad, const struct raw_qp *own, uint32_t dm)
{
	union {
#define X(num, NAME, name, tail, fds) struct ff_##name##_resp name;
		FF_MSG_TABLE(X)
#undef X
	} a;
	int st;

	if (bad == own->pd || bad == own->cq || bad == own->mr || bad == own->qp || bad == dm)
		return; /* by chance a good one */
#define REFUSED(NAME, name, ...)                                                                   \
	do {                                                                                       \
		struct ff_##name##_req req_ = { __VA_ARGS__ };                                     \
		st = RAW_TRY(r, NAME, &req_, &a.name);                                             \
		if (st >= 0)                                                                       \
			FAIL("%s with handle 0x%x: %s", #NAME, bad, st ? "closed" : "served");     \
	} while (0)
	REFUSED(DEALLOC_PD, dealloc_pd, .pd = bad);
	REFUSED(REG_MR, reg_mr, .pd = bad, .addr = (uintptr_t)own->buf, .length = 8);
	REFUSED(DEREG_MR, dereg_mr, .mr = bad);
	REFUSED(REREG_MR, rereg_mr, .mr = bad, .flags = IBV_REREG_MR_CHANGE_ACCESS);
	REFUSED(REREG_MR, rereg_mr, .pd = bad, .mr = own->mr, .flags = IBV_REREG_MR_CHANGE_PD);
	REFUSED(MAP_MR, map_mr, .mr = bad);
	REFUSED(ADVISE_MR, advise_mr, .pd = bad, .addr = (uintptr_t)own->buf, .length = 8,
		.lkey = own->lkey);
	REFUSED(ALLOC_NULL_MR, alloc_null_mr, .pd = bad);
	REFUSED(ALLOC_MW, alloc_mw, .pd = bad, .type = IBV_MW_TYPE_1);
	REFUSED(DEALLOC_MW, dealloc_mw, .mw = bad);
	REFUSED(FREE_DM, free_dm, .dm = bad);
	REFUSED(DESTROY_CHANNEL, destroy_channel, .channel = bad);
	REFUSED(RESIZE_CQ, resize_cq, .cq = bad, .cqe = 64);
	REFUSED(DESTROY_CQ, destroy_cq, .cq = bad);
	REFUSED(MODIFY_CQ, modify_cq, .cq = bad, .count = 1, .period = 1);
	REFUSED(REPEAT_EVENT, repeat_event, .cq = bad);
	REFUSED(CREATE_SRQ, create_srq, .pd = bad, .max_wr = 4, .max_sge = 1);
	REFUSED(MODIFY_SRQ, modify_srq, .srq = bad, .mask = IBV_SRQ_LIMIT, .srq_limit = 1);
	REFUSED(QUERY_SRQ, query_srq, .srq = bad);
	REFUSED(DESTROY_SRQ, destroy_srq, .srq = bad);
	REFUSED(MODIFY_QP, modify_qp, .qp = bad, .mask = IBV_QP_STATE,
		.attr.qp_state = IBV_QPS_ERR);
	REFUSED(QUERY_QP, query_qp, .qp = bad);
	REFUSED(DESTROY_QP, destroy_qp, .qp = bad);
	REFUSED(ATTACH_MCAST, attach_mcast, .qp = bad, .gid = { 0xff, 0x0e, [15] = 1 });
	REFUSED(DETACH_MCAST, detach_mcast, .qp = bad, .gid = { 0xff, 0x0e, [15] = 1 });
	REFUSED(CREATE_AH, create_ah, .pd = bad, .attr.port_num = 1);
	REFUSED(DESTROY_AH, destroy_ah, .ah = bad);
	REFUSED(CLOSE_XRCD, close_xrcd, .xrcd = bad);
	REFUSED(OPEN_QP, open_qp, .xrcd = bad, .qp_num = 2, .qp_type = IBV_QPT_XRC_RECV);
	REFUSED(CREATE_QP, create_qp, .xrcd = bad, .qp_type = IBV_QPT_XRC_RECV);
	REFUSED(CM_CREATE_ID, cm_create_id, .channel = bad, .ps = RDMA_PS_TCP);
	REFUSED(CM_DESTROY_ID, cm_destroy_id, .id = bad);
	REFUSED(CM_BIND, cm_bind, .id = bad);
	REFUSED(CM_RESOLVE_ADDR, cm_resolve_addr, .id = bad);
	REFUSED(CM_RESOLVE_ROUTE, cm_resolve_route, .id = bad);
	REFUSED(CM_QUERY, cm_query, .id = bad);
	REFUSED(CM_DEVICE, cm_device, .id = bad);
	REFUSED(CM_LISTEN, cm_listen, .id = bad);
	REFUSED(CM_CONNECT, cm_connect, .id = bad);
	REFUSED(CM_ACCEPT, cm_accept, .id = bad);
	REFUSED(CM_REJECT, cm_reject, .id = bad);
	REFUSED(CM_ESTABLISH, cm_establish, .id = bad);
	REFUSED(CM_DISCONNECT, cm_disconnect, .id = bad);
	REFUSED(CM_INIT_QP_ATTR, cm_init_qp_attr, .id = bad);
	REFUSED(CM_MIGRATE_ID, cm_migrate_id, .id = bad);
	REFUSED(CM_SET_OPTION, cm_set_option, .id = bad);
	REFUSED(CM_JOIN, cm_join, .id = bad);
	REFUSED(CM_LEAVE, cm_leave, .id = bad);
	REFUSED(CM_WRITE_EVENT, cm_write_event, .id = bad);
	REFUSED(CM_CREATE_QP, cm_create_qp, .id = bad);
	REFUSED(IMPORT_PD, import_pd, .pd = bad);
	REFUSED(IMPORT_MR, import_mr, .pd = own->pd, .mr = bad);
	REFUSED(IMPORT_MR, import_mr, .pd = bad, .mr = own->mr);
	REFUSED(REG_DM_MR, reg_dm_mr, .pd = bad, .dm = dm, .length = 8);
	REFUSED(REG_DM_MR, reg_dm_mr, .pd = own->pd, .dm = bad, .length = 8);
	if (bad)
		REFUSED(CREATE_SRQ, create_srq, .pd = own->pd, .cq = own->cq, .xrcd = bad,
			.max_wr = 4, .max_sge = 1);
	if (bad)
		REFUSED(CREATE_SRQ, create_srq, .pd = own->pd, .cq = bad, .max_wr = 4,
			.max_sge = 1);
	if (bad)
		REFUSED(CREATE_CQ, create_cq, .cqe = 4, .channel = bad);
	REFUSED(CREATE_QP, create_qp, .pd = bad, .send_cq = own->cq, .recv_cq = own->cq,
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	REFUSED(CREATE_QP, create_qp, .pd = own->pd, .send_cq = bad, .recv_cq = own->cq,
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	REFUSED(CREATE_QP, create_qp, .pd = own->pd, .send_cq = own->cq, .recv_cq = bad,
		.qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
	if (bad)
		REFUSED(CREATE_QP, create_qp, .pd = own->pd, .send_cq = own->cq, .recv_cq = own->cq,
			.srq = bad, .qp_type = IBV_QPT_RC, .cap = { 4, 4, 1, 1, 0 });
#undef REFUSED
}

/* Device memory of 4 KB, sealed, so that only its handle can be refused. */
static uint32_t make_dm(struct raw *r)
{
	struct ff_alloc_dm_resp dm;

	RAW_CALL(r, ALLOC_DM, (&(struct ff_alloc_dm_req){ .length = FF_PAGE }), &dm);
	raw_at(r, dm.seg, dm.off);
	return dm.dm;
}

static void unknown_handles(void)
{
	static const uint32_t bad[] = { 0,	    0xffffffff, 0xffff,	    0x10000, 0x7fffffff,
					0x80000000, 0x12345678, 0xffff0000, 999 };
	struct raw_qp q;
	struct raw r;
	uint32_t dm;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	dm = make_dm(&r);
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++)
		handles_refused(&r, bad[i], &q, dm);
	/* right index, wrong generation */
	handles_refused(&r, q.cq ^ 0x10000, &q, dm);
	handles_refused(&r, q.qp ^ 0x80000000, &q, dm);
	raw_qp_connect(&r, &q); /* the session is as good as before */
	raw_close(&r);
	victim_stop();
}

/* The handles of another session mean nothing in this one. */
static void foreign_handles(void)
{
	struct raw_qp q[4], mine;
	struct raw a, b;
	uint32_t dm;

	victim_start();
	raw_open(&a);
	raw_open(&b);
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		raw_qp_make(&a, &q[i], IBV_QPT_RC, 8192);
	raw_qp_make(&b, &mine, IBV_QPT_RC, 8192);
	dm = make_dm(&b);
	for (unsigned i = 1; i < ARRAY_SIZE(q); i++) {
		const uint32_t theirs[] = { q[i].pd, q[i].cq, q[i].mr, q[i].qp };

		for (unsigned k = 0; k < ARRAY_SIZE(theirs); k++)
			handles_refused(&b, theirs[k], &mine, dm);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(q); i++)
		raw_qp_connect(&a, &q[i]);
	raw_qp_connect(&b, &mine);
	raw_close(&a);
	raw_close(&b);
	victim_stop();
}

/* Destroyed twice, used after destruction, destroyed while in use. */
static void stale_handles(void)
{
	struct ff_alloc_pd_resp pd, pd2;
	struct ff_dealloc_pd_resp none;
	struct ff_destroy_cq_resp none_cq;
	struct raw_qp q;
	struct raw r;

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	CHECK_EQ(RAW_TRY(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = q.pd }), &none),
		 -EBUSY);
	CHECK_EQ(RAW_TRY(&r, DESTROY_CQ, (&(struct ff_destroy_cq_req){ q.cq }), &none_cq), -EBUSY);
	for (unsigned i = 0; i < 1000; i++) {
		RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
		RAW_CALL(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd.pd }), &none);
		CHECK(RAW_TRY(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd.pd }), &none) <
		      0);
		RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd2);
		CHECK(pd2.pd != pd.pd);
		CHECK(RAW_TRY(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd.pd }), &none) <
		      0);
		RAW_CALL(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = pd2.pd }), &none);
	}
	raw_close(&r);
	raw_router_serves();
}

/* ---- numbers -------------------------------------------------------------------------------- */

#define BAD_CALL(NAME, name, ...)                                                                  \
	do {                                                                                       \
		struct ff_##name##_req req_ = { __VA_ARGS__ };                                     \
		struct ff_##name##_resp resp_;                                                     \
		int st_ = RAW_TRY(&r, NAME, &req_, &resp_);                                        \
		if (st_ >= 0)                                                                      \
			FAIL("%s { %s }: %s", #NAME, #__VA_ARGS__, st_ ? "closed" : "served");     \
	} while (0)

static void absurd_counts(void)
{
	static const uint32_t huge[] = { 1u << 31, 0xffffffff, 0x7fffffff, 0x10000001, 1u << 24 };
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	BAD_CALL(CREATE_CQ, create_cq, .cqe = 0);
	BAD_CALL(CREATE_CQ, create_cq, .cqe = 4, .comp_vector = 0xffffffff);
	BAD_CALL(CREATE_CQ, create_cq, .cqe = 4, .flags = 0xffffffff);
	BAD_CALL(RESIZE_CQ, resize_cq, .cq = q.cq, .cqe = 0);
	BAD_CALL(CREATE_SRQ, create_srq, .pd = q.pd, .max_wr = 0, .max_sge = 1);
	BAD_CALL(CREATE_QP, create_qp, .pd = q.pd, .send_cq = q.cq, .recv_cq = q.cq, .qp_type = 0);
	BAD_CALL(CREATE_QP, create_qp, .pd = q.pd, .send_cq = q.cq, .recv_cq = q.cq,
		 .qp_type = 999);
	BAD_CALL(QUERY_PORT, query_port, .port = 0);
	BAD_CALL(QUERY_PORT, query_port, .port = 2);
	BAD_CALL(QUERY_GID, query_gid, .port = 0);
	BAD_CALL(QUERY_GID, query_gid, .port = 1, .index = 0xffffffff);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE,
		 .span = FF_PAGE); /* nothing is watched */
	CHECK_EQ(raw_watch_pages(&r), 0);
	close(r.last_fd);
	CHECK(raw_watch_pages(&r) < 0);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE);
	BAD_CALL(PLACE_PAGES, place_pages, .len = 100, .span = FF_PAGE);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE, .span = FF_PAGE + 1);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE, .span = FF_PAGE, .off = FF_PAGE);
	BAD_CALL(PLACE_PAGES, place_pages, .len = 2 * FF_PAGE, .span = FF_PAGE);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE, .span = UINT64_MAX - FF_PAGE + 1);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE, .span = 1ull << 62);
	BAD_CALL(PLACE_PAGES, place_pages, .len = FF_PAGE, .off = UINT64_MAX - FF_PAGE + 1);
	BAD_CALL(GET_SEG, get_seg, .seg = 0xffffffff);
	BAD_CALL(GET_SEG, get_seg, .seg = 1000);
	for (unsigned i = 0; i < ARRAY_SIZE(huge); i++) {
		BAD_CALL(CREATE_CQ, create_cq, .cqe = huge[i]);
		BAD_CALL(RESIZE_CQ, resize_cq, .cq = q.cq, .cqe = huge[i]);
		BAD_CALL(CREATE_SRQ, create_srq, .pd = q.pd, .max_wr = huge[i], .max_sge = 1);
		BAD_CALL(CREATE_SRQ, create_srq, .pd = q.pd, .max_wr = 4, .max_sge = huge[i]);
		for (unsigned k = 0; k < 5; k++) {
			uint32_t cap[5] = { 4, 4, 1, 1, 0 };

			cap[k] = huge[i];
			BAD_CALL(CREATE_QP, create_qp, .pd = q.pd, .send_cq = q.cq, .recv_cq = q.cq,
				 .qp_type = IBV_QPT_RC,
				 .cap = { cap[0], cap[1], cap[2], cap[3], cap[4] });
		}
		BAD_CALL(QUERY_PORT, query_port, .port = huge[i]);
		BAD_CALL(QUERY_GID, query_gid, .port = 1, .index = huge[i]);
		BAD_CALL(GET_SEG, get_seg, .seg = huge[i]);
	}
	raw_qp_connect(&r, &q);
	raw_close(&r);
	victim_stop();
}

static void absurd_attributes(void)
{
	struct ff_modify_qp_resp resp;
	struct ff_modify_qp_req req;
	struct raw_qp q;
	uint32_t rnd = 3;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	for (unsigned i = 0; i < 5000; i++) {
		uint8_t *p = (uint8_t *)&req;
		int st;

		for (size_t b = 0; b < sizeof(req); b++)
			p[b] = vt_rand(&rnd) % 2 ? 0 : (uint8_t)vt_rand(&rnd);
		req.qp = q.qp;
		req.mask = i % 2 ? vt_rand(&rnd) : 1u << vt_rand(&rnd) % 32;
		if (i % 4 == 3)
			req.attr.qp_state = vt_rand(&rnd) % 8;
		st = RAW_TRY(&r, MODIFY_QP, &req, &resp);
		CHECK(st <= 0); /* served or refused, no reason to close */
	}
	raw_qp_connect(&r, &q);
	raw_close(&r);
	victim_stop();
}

static int reg(struct raw *r, uint32_t pd, uint64_t addr, uint64_t len, const struct ff_mr_run *run,
	       uint16_t n)
{
	struct ff_reg_mr_req req = {
		.addr = addr, .length = len, .iova = addr, .pd = pd, .access = VT_ACCESS_ALL
	};
	struct ff_reg_mr_resp resp;

	return raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(*run), n, &resp,
			     sizeof(resp));
}

/* What a registration claims about shadow memory is checked before it is believed. */
static void false_shadow_claims(void)
{
	static struct ff_mr_run many[FF_MR_MAX_RUNS + 1];
	const uint64_t size = 16 * FF_PAGE;
	uint64_t off;
	int file;
	struct ff_dereg_mr_resp none;
	uint8_t *p = vt_map(64 * FF_PAGE);
	uint64_t va = (uintptr_t)p;
	struct raw_qp q;
	struct raw r;

	victim_start();
	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, 8192);
	CHECK_EQ(raw_watch_pages(&r), 0);
	file = r.last_fd;
	CHECK_EQ(raw_place_pages(&r, size, &off), 0);
	CHECK_EQ(off, 0);
	/* each is wrong in one field: { va, len, off, reserved, kind } */
	const struct ff_mr_run bad[] = {
		{ va, FF_PAGE, 1, 0, FF_RUN_SHADOW },
		{ va, FF_PAGE, 0, 0, 0 },
		{ va, FF_PAGE, 0, 0, 99 },
		{ va, 0, 0, 0, FF_RUN_SHADOW },
		{ va, 100, 0, 0, FF_RUN_SHADOW },
		{ va + 1, FF_PAGE, 0, 0, FF_RUN_SHADOW },
		{ va - FF_PAGE, FF_PAGE, 0, 0, FF_RUN_SHADOW },	     /* before the MR */
		{ va + 63 * FF_PAGE, FF_PAGE, 0, 0, FF_RUN_SHADOW }, /* behind the MR */
		{ va, UINT64_MAX - FF_PAGE + 1, 0, 0, FF_RUN_SHADOW },
		{ UINT64_MAX - FF_PAGE + 1, FF_PAGE, 0, 0, FF_RUN_SHADOW },
	};
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		int st = reg(&r, q.pd, va, 32 * FF_PAGE, &bad[i], 1);

		if (st >= 0)
			FAIL("claim %u: %s", i, st ? "closed" : "believed");
	}
	/* pages that the session does not have: copied, like all that has no run */
	const struct ff_mr_run none_there[] = {
		{ va, FF_PAGE, size, 0, FF_RUN_SHADOW },
		{ va, size + FF_PAGE, 0, 0, FF_RUN_SHADOW },
		{ va, FF_PAGE, UINT64_MAX - FF_PAGE + 1, 0, FF_RUN_SHADOW },
		{ va, FF_PAGE, FF_PAGES_STRIDE, 0, FF_RUN_SHADOW },
	};
	for (unsigned i = 0; i < ARRAY_SIZE(none_there); i++)
		CHECK_EQ(reg(&r, q.pd, va, 32 * FF_PAGE, &none_there[i], 1), 0);
	const struct ff_mr_run overlap[] = { { va, 2 * FF_PAGE, 0, 0, FF_RUN_SHADOW },
					     { va + FF_PAGE, FF_PAGE, 0, 0, FF_RUN_SHADOW } };
	const struct ff_mr_run order[] = { { va + FF_PAGE, FF_PAGE, 0, 0, FF_RUN_SHADOW },
					   { va, FF_PAGE, FF_PAGE, 0, FF_RUN_SHADOW } };
	CHECK(reg(&r, q.pd, va, 32 * FF_PAGE, overlap, 2) < 0);
	CHECK(reg(&r, q.pd, va, 32 * FF_PAGE, order, 2) < 0);
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = (struct ff_mr_run){ va, FF_PAGE, 0, 0, FF_RUN_SHADOW };
	CHECK(reg(&r, q.pd, va, 32 * FF_PAGE, many, FF_MR_MAX_RUNS) < 0);
	/* "shared": private memory, nothing at all, somebody else's address */
	const struct ff_mr_run shared[] = { { va, FF_PAGE, 0, 0, FF_RUN_SHARED } };
	int st = reg(&r, q.pd, va, 32 * FF_PAGE, shared, 1);
	CHECK(st <= 0);
	/* ranges that cannot be */
	CHECK(reg(&r, q.pd, va, 0, NULL, 0) < 0);
	CHECK(reg(&r, q.pd, UINT64_MAX - 10, 100, NULL, 0) < 0);
	CHECK(reg(&r, q.pd, va, UINT64_MAX - va + 1, NULL, 0) < 0);
	CHECK(reg(&r, q.pd, 0, UINT64_MAX, NULL, 0) < 0);
	/* the first one of the list, with nothing wrong, is believed */
	const struct ff_mr_run good = { va, FF_PAGE, 0, 0, FF_RUN_SHADOW };
	CHECK_EQ(reg(&r, q.pd, va, 32 * FF_PAGE, &good, 1),
		 0); /* that nobody has touched: copied */
	CHECK_EQ(pwrite(file, "x", 1, 0), 1);
	CHECK_EQ(reg(&r, q.pd, va, 32 * FF_PAGE, &good, 1), 0);
	CHECK(RAW_TRY(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ 0 }), &none) < 0);
	/* more runs than a message may name */
	st = reg(&r, q.pd, va, 32 * FF_PAGE, many, FF_MR_MAX_RUNS + 1);
	CHECK(st);
	close(file);
	raw_close(&r);
	victim_stop();
	raw_router_serves();
}

VT_MAIN({ "proto_unknown_handles", unknown_handles, 0 },
	{ "proto_foreign_handles", foreign_handles, 0 },
	{ "proto_stale_handles", stale_handles, 0 }, { "proto_absurd_counts", absurd_counts, 0 },
	{ "proto_absurd_attributes", absurd_attributes, 0 },
	{ "proto_false_shadow_claims", false_shadow_claims, 0 })
