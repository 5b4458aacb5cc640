/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_verbs.c - ffr/ctl/: the verbs as a client calls them; whose handles are refused, what
 * is rounded up, what has an end.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/common/qp_attr.h"
#include "ffr/fast/xrc.h"
#include "ffr/abi/ff_verbs.h"
#include "ffr/ctl/session.h"
#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;

/* ---- handles ------------------------------------------------------------------------------------- */

static void foreign_and_unknown_handles_are_refused(void **state)
{
	static const uint16_t types[] = {
		FF_MSG_DEALLOC_PD,  FF_MSG_DEREG_MR,   FF_MSG_DESTROY_CHANNEL, FF_MSG_DESTROY_CQ,
		FF_MSG_DESTROY_SRQ, FF_MSG_DESTROY_QP, FF_MSG_DESTROY_AH,
	};
	/* A's are the second of their kind, so that their numbers are none of B's. */
	int a = call_client(g, 0), b = call_client(g, 0);
	uint32_t pd0 = call_pd(g, a), pd = call_pd(g, a), cq0 = call_cq(g, a), cq = call_cq(g, a);
	uint32_t qp0 = call_qp(g, a, pd0, cq0), qp = call_qp(g, a, pd, cq);
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		assert_int_equal(call_one(g, b, types[i], 0), -EINVAL);
		assert_int_equal(call_one(g, b, types[i], 0xffffffff), -EINVAL);
		assert_int_equal(call_one(g, b, types[i], pd), -EINVAL);
		assert_int_equal(call_one(g, b, types[i], cq), -EINVAL);
		assert_int_equal(call_one(g, b, types[i], qp), -EINVAL);
	}
	/* Handles of one session and tables of another, and the wrong kinds of one's own. */
	req = call_qp_req(pd, cq, IBV_QPT_RC);
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.pd = call_pd(g, b);
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.send_cq = call_cq(g, b);
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.recv_cq = req.send_cq;
	req.srq = 77;
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), -EINVAL);
	req.srq = 0;
	assert_int_equal(RIG_CALL(g, b, CREATE_QP, &req, &resp), 0);
	assert_int_equal(call_reg_mr(g, b, 0, &mr, sizeof(mr), 0, &mr), -EINVAL);
	/* A's are as they were. */
	assert_int_equal(call_one(g, a, FF_MSG_DESTROY_QP, qp0), 0);
	assert_int_equal(call_one(g, a, FF_MSG_DESTROY_QP, qp), 0);
	assert_int_equal(call_one(g, a, FF_MSG_DESTROY_QP, qp), -EINVAL);
	assert_int_equal(call_one(g, a, FF_MSG_DESTROY_CQ, cq), 0);
	assert_int_equal(call_one(g, a, FF_MSG_DEALLOC_PD, pd), 0);
	close(a);
	close(b);
}

static void what_is_used_cannot_go(void **state)
{
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s), cq, qp, ah, srq, channel;
	struct ff_create_channel_req ch_req = { 0 };
	struct ff_create_channel_resp ch;
	struct ff_create_cq_resp cq_resp;
	struct ff_create_srq_req srq_req = { .pd = pd, .max_wr = 5, .max_sge = 2 };
	struct ff_create_srq_resp srq_resp;
	struct ff_create_ah_req ah_req = { .pd = pd, .attr = { .dlid = 2, .port_num = 1 } };
	struct ff_create_ah_resp ah_resp;
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;
	struct ff_reg_mr_resp mr;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, CREATE_CHANNEL, &ch_req, &ch), 0);
	channel = ch.channel;
	assert_int_equal(call_create_cq(g, s, 1, channel, &cq_resp), 0);
	cq = cq_resp.cq;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &srq_req, &srq_resp), 0);
	srq = srq_resp.srq;
	assert_int_equal(srq_resp.max_wr, 8);
	assert_int_equal(RIG_CALL(g, s, CREATE_AH, &ah_req, &ah_resp), 0);
	ah = ah_resp.ah;
	req = call_qp_req(pd, cq, IBV_QPT_UD);
	req.srq = srq;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	qp = resp.qp;
	assert_int_equal(resp.rq.depth, 0);
	assert_int_equal(call_reg_mr(g, s, pd, &mr, sizeof(mr), 0, &mr), 0);

	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CQ, cq), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_SRQ, srq), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CHANNEL, channel), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_SRQ, srq), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CHANNEL, channel), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CQ, cq), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CHANNEL, channel), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_AH, ah), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DEREG_MR, mr.mr), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), 0);
	close(s);
}

/* ---- on-demand memory ------------------------------------------------------------------------------ */

#define ODP (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_ON_DEMAND)

/* The fake device has none; a device that has takes whatever range there can be, and it is charged to nobody. */
static void on_demand(void **state)
{
	struct ff_mr_run run = { .kind = FF_RUN_SHARED, .va = 0x10000, .len = 4096 };
	struct ff_reg_mr_req req = { 0x10000, 4096, 0x10000, 0, ODP };
	struct ff_advise_mr_req adv = { .addr = 0x10000, .length = 3 * FF_PAGE };
	struct ff_rereg_mr_req rereg = { 0 };
	struct ff_rereg_mr_resp rereg_resp;
	struct ff_advise_mr_resp adv_resp;
	struct ff_reg_mr_resp reg;
	const struct session *ses;
	int s = call_client(g, 0);
	const struct mr *mr;

	(void)state;
	req.pd = adv.pd = rereg.pd = call_pd(g, s);
	ses = LIST_FIRST(&g->c[0]->sessions);
	g->ctl.dev.odp_general = 0;
	assert_int_equal(call_reg_mr(g, s, req.pd, (void *)0x10000, 4096, ODP, &reg), -EOPNOTSUPP);
	g->ctl.dev.odp_general = IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT;
	assert_int_equal(call_reg_mr(g, s, req.pd, (void *)-4096, 8192, ODP, &reg), -EINVAL);
	req.addr = -4096ull; /* whatever it is called by */
	req.length = 8192;
	assert_int_equal(RIG_CALL(g, s, REG_MR, &req, &reg), -EINVAL);
	req.addr = 0x10000;
	req.length = 4096;
	/* flushes to what survives a loss of power are not made */
	assert_int_equal(call_reg_mr(g, s, req.pd, (void *)0x10000, 4096,
				     FF_ACCESS_FLUSH_PERSISTENT, &reg),
			 -EOPNOTSUPP);
	assert_int_equal(call_reg_mr(g, s, req.pd, (void *)4096, UINT64_MAX, ODP, &reg), -EINVAL);
	assert_int_equal(rig_call(g, s, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1,
				  &reg, sizeof(reg), NULL, NULL),
			 -EINVAL);
	assert_int_equal(call_reg_mr(g, s, req.pd, NULL, UINT64_MAX, ODP, &reg), 0);
	mr = mr_get((struct session *)ses, reg.mr);
	assert_non_null(mr->odp);
	assert_int_equal(mr->num_runs, 0);
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_REGISTERED], 0);

	/* what the client says that it has prefetched, and not more than there can be */
	adv.lkey = reg.lkey;
	assert_int_equal(RIG_CALL(g, s, ADVISE_MR, &adv, &adv_resp), 0);
	assert_int_equal(adv_resp.va, 0x10000);
	assert_int_equal(adv_resp.on_demand, 1);
	assert_int_equal(mr->odp->odp_prefetched, 0);
	adv.done_pages = 3;
	adv.done_ns = 1000;
	assert_int_equal(RIG_CALL(g, s, ADVISE_MR, &adv, &adv_resp), 0);
	assert_int_equal(mr->odp->odp_prefetched, 3);
	assert_int_equal(mr->odp->odp_prefetch_ns, 1000);
	assert_int_equal(ses->stats.odp_prefetched, 3);
	adv.done_pages = UINT32_MAX;
	assert_int_equal(RIG_CALL(g, s, ADVISE_MR, &adv, &adv_resp), 0);
	assert_int_equal(mr->odp->odp_prefetched, 3 + 5);

	/* to ordinary memory, which is charged, and back */
	rereg.mr = reg.mr;
	rereg.addr = rereg.iova = 0x10000;
	rereg.length = 4096;
	rereg.access = ODP & ~IBV_ACCESS_ON_DEMAND;
	rereg.flags = IBV_REREG_MR_CHANGE_ACCESS;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &rereg, &rereg_resp), -EINVAL);
	rereg.flags |= IBV_REREG_MR_CHANGE_TRANSLATION;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &rereg, &rereg_resp), 0);
	assert_null(mr->odp);
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_REGISTERED], 4096);
	rereg.access = ODP;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &rereg, &rereg_resp), 0);
	assert_non_null(mr->odp);
	assert_int_equal(g->c[0]->quota.use.used[QUOTA_REGISTERED], 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEREG_MR, reg.mr), 0);
	close(s);
}

/* ---- limits and capabilities --------------------------------------------------------------------- */

static void capabilities_are_rounded_up_and_bounded(void **state)
{
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s);
	const struct ff_query_device_resp *dev = &g->ctl.dev;
	struct ff_create_cq_resp cq;
	struct ff_create_qp_req req;
	struct ff_create_qp_resp resp;
	uint32_t *cap;

	(void)state;
	assert_int_equal(call_create_cq(g, s, 0, 0, &cq), -EINVAL);
	assert_int_equal(call_create_cq(g, s, dev->max_cqe + 1, 0, &cq), -EINVAL);
	assert_int_equal(call_create_cq(g, s, 10, 12345, &cq), -EINVAL);
	assert_int_equal(call_create_cq(g, s, 10, 0, &cq), 0);
	assert_int_equal(cq.cqe, 16);
	assert_int_equal(cq.ring.depth, 16);
	assert_int_equal(cq.ring.off % 4096, 0);

	req = call_qp_req(pd, cq.cq, IBV_QPT_RC);
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	assert_int_equal(resp.cap.max_send_wr, 128);
	assert_int_equal(resp.cap.max_recv_wr, 16);
	assert_int_equal(resp.cap.max_send_sge, 3);
	assert_true(resp.cap.max_inline >= 100);
	assert_int_equal(resp.sq.depth, 128);
	assert_int_equal(resp.sq.stride, ff_sqe_stride(3, resp.cap.max_inline));
	assert_true(resp.rq.ring_off >= resp.sq.ring_off + resp.sq.depth * resp.sq.stride);
	/* there is room for more, but the device has no more */
	g->ctl.dev.max_inline = req.cap.max_inline;
	assert_true(resp.cap.max_inline > req.cap.max_inline);
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	assert_int_equal(resp.cap.max_inline, req.cap.max_inline);

	for (size_t i = 0; i < sizeof(req.cap) / sizeof(*cap); i++) {
		req = call_qp_req(pd, cq.cq, IBV_QPT_RC);
		cap = (uint32_t *)&req.cap + i;
		*cap = 0xffffffff;
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EINVAL);
		*cap = FF_MAX_WR + 1;
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EINVAL);
		*cap = 0;
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	}
	req = call_qp_req(pd, cq.cq, IBV_QPT_RAW_PACKET);
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EOPNOTSUPP);
	req = call_qp_req(pd, cq.cq, IBV_QPT_RC);
	req.create_flags = 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -EOPNOTSUPP);
	close(s);
}

static void limits_hold(void **state)
{
	struct ff_alloc_pd_req pd_req = { 0 };
	struct ff_alloc_pd_resp pd_resp;
	struct ff_place_pages_req bad[] = {
		{ .len = 100, .span = FF_PAGE },
		{ .len = FF_PAGE, .span = 100 },
		{ .len = UINT64_MAX & ~4095ull, .span = UINT64_MAX & ~4095ull },
		{ .len = 2 * FF_PAGE, .span = FF_PAGE },
	};
	struct ff_place_pages_resp placed;
	struct ff_create_cq_resp cq;
	uint64_t off[2];
	int s, fd;

	(void)state;
	g->ctl.conf.limits.max_pd = 3;
	g->ctl.conf.limits.max_ring_mb = 4;
	g->ctl.conf.limits.max_shadow_mb = 2;
	s = call_client(g, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(RIG_CALL(g, s, ALLOC_PD, &pd_req, &pd_resp), 0);
	assert_int_equal(RIG_CALL(g, s, ALLOC_PD, &pd_req, &pd_resp), -ENOMEM);
	assert_int_equal(pd_resp.pd, 0); /* nothing but the status */
	assert_int_equal(call_create_cq(g, s, 1 << 17, 0, &cq), -ENOMEM);
	assert_int_equal(call_create_cq(g, s, 100, 0, &cq), 0);
	close(call_watch_pages(g, s));
	assert_int_equal(call_place_pages(g, s, 1 << 20, &off[0]), 0);
	assert_int_equal(call_place_pages(g, s, 1 << 20, &off[1]), 0);
	assert_int_equal(off[1] - off[0], FF_PAGES_STRIDE);
	assert_int_equal(call_place_pages(g, s, FF_PAGE, &off[0]), -ENOSPC);
	for (unsigned i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(rig_call_fd(g, s, FF_MSG_PLACE_PAGES, &bad[i], sizeof(bad[i]),
					     NULL, 0, &placed, sizeof(placed), &fd),
				 -EINVAL);
	close(s);
}

/* ---- queries ------------------------------------------------------------------------------------- */

static void the_port_is_the_containers(void **state)
{
	struct ff_query_port_req port_req = { .port = 1 };
	struct ff_query_port_resp port;
	struct ff_query_gid_req gid_req = { .port = 1 };
	struct ff_query_gid_resp gid;
	struct ff_query_device_req dev_req = { 0 };
	struct ff_query_device_resp dev_a, dev_b;
	int a = call_client(g, 0), b = call_client(g, 1);

	(void)state;
	assert_int_equal(RIG_CALL(g, b, QUERY_PORT, &port_req, &port), 0);
	assert_int_equal(port.lid, 2);
	assert_int_equal(port.state, IBV_PORT_ACTIVE);
	assert_int_equal(port.gid_tbl_len, 6);
	assert_int_equal(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	port_req.port = 0;
	assert_int_equal(RIG_CALL(g, b, QUERY_PORT, &port_req, &port), -EINVAL);
	port_req.port = 2;
	assert_int_equal(RIG_CALL(g, b, QUERY_PORT, &port_req, &port), -EINVAL);
	assert_int_equal(RIG_CALL(g, b, QUERY_GID, &gid_req, &gid), 0);
	assert_memory_equal(gid.gid, &g->c[1]->gid[0], 16);
	assert_int_equal(gid.gid_type, IBV_GID_TYPE_ROCE_V2);
	gid_req.index = GID_LOCAL_V1;
	assert_int_equal(RIG_CALL(g, b, QUERY_GID, &gid_req, &gid), 0);
	assert_int_equal(gid_lid(gid.gid), 2);
	assert_int_equal(gid.gid_type, IBV_GID_TYPE_ROCE_V1);
	gid_req.index = 4;
	assert_int_equal(RIG_CALL(g, b, QUERY_GID, &gid_req, &gid), 0);
	assert_memory_equal(gid.gid, &g->c[1]->gid[1], 16);
	gid_req.index = 6;
	assert_int_equal(RIG_CALL(g, b, QUERY_GID, &gid_req, &gid), -EINVAL);
	assert_int_equal(RIG_CALL(g, a, QUERY_DEVICE, &dev_req, &dev_a), 0);
	assert_int_equal(RIG_CALL(g, b, QUERY_DEVICE, &dev_req, &dev_b), 0);
	assert_true(dev_a.node_guid != dev_b.node_guid);
	assert_true(dev_b.node_guid == gid_local(2).global.interface_id);
	assert_int_equal(dev_a.phys_port_cnt, 1);
	close(a);
	close(b);
}

/* ---- memory regions ------------------------------------------------------------------------------ */

static void mr_arguments_are_checked(void **state)
{
	static uint8_t buf[8192];
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s);
	struct ff_mr_run run[2] = {
		{ .kind = FF_RUN_SHADOW, .off = 99, .va = (uintptr_t)buf & ~4095ull, .len = 4096 }
	};
	struct ff_reg_mr_req req = { (uintptr_t)buf, sizeof(buf), (uintptr_t)buf, pd, 0 };
	struct ff_reg_mr_resp mr;

	(void)state;
	assert_int_equal(call_reg_mr(g, s, pd, buf, 0, 0, &mr), -EINVAL);
	assert_int_equal(call_reg_mr(g, s, pd, (void *)-4096, 8192, 0, &mr), -EINVAL);
	assert_int_equal(call_reg_mr(g, s, pd, buf, UINT64_MAX, 0, &mr), -EINVAL);
	/* either end is behind that of all addresses */
	req.addr = -4096ull;
	assert_int_equal(RIG_CALL(g, s, REG_MR, &req, &mr), -EINVAL);
	req.addr = (uintptr_t)buf;
	req.iova = -4096ull;
	assert_int_equal(RIG_CALL(g, s, REG_MR, &req, &mr), -EINVAL);
	req.iova = (uintptr_t)buf;
	assert_int_equal(call_reg_mr(g, s, pd, buf, 10, IBV_ACCESS_REMOTE_WRITE, &mr), -EINVAL);
	assert_int_equal(call_reg_mr(g, s, pd, buf, 10, IBV_ACCESS_REMOTE_ATOMIC, &mr), -EINVAL);
	assert_int_equal(call_reg_mr(g, s, pd, buf, 10, 1u << 31, &mr), -EINVAL);
	assert_int_equal(rig_call(g, s, FF_MSG_REG_MR, &req, sizeof(req), run, sizeof(run[0]), 1,
				  &mr, sizeof(mr), NULL, NULL),
			 -EINVAL);
	assert_int_equal(call_reg_mr(g, s, pd, buf, sizeof(buf), IBV_ACCESS_REMOTE_READ, &mr), 0);
	assert_int_equal(mr.lkey, mr.rkey);
	assert_ptr_equal(key_lookup(&g->c[0]->keys, mr.rkey)->addr, (uintptr_t)buf);
	assert_int_equal(call_one(g, s, FF_MSG_DEREG_MR, mr.mr), 0);
	assert_null(key_lookup(&g->c[0]->keys, mr.rkey));
	close(s);
}

static int refuse_mr(struct fast *f, enum obj_kind kind, struct obj *o, struct carrier_later *l)
{
	(void)f;
	(void)o;
	return kind == OBJ_MR && !l ? -ENOSPC : 0;
}

static int refuse_qp(struct fast *f, struct qp *qp)
{
	(void)f;
	(void)qp;
	return -ENOSPC;
}

/* Nothing of what the backend refuses stays. */
static void what_the_backend_refuses(void **state)
{
	static const struct carrier mean = { .make = refuse_mr };
	static const struct carrier_use carriers[] = { { .ops = &mean }, { 0 } };
	const struct carrier_use *all = g->backend.carriers;
	const struct backend_ops *real = g->backend.ops;
	struct backend_ops ops = *real;
	const struct quota_use *use = &g->c[0]->quota.use;
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s), cq = call_cq(g, s);
	struct ff_create_qp_req req = call_qp_req(pd, cq, IBV_QPT_RC);
	struct session *ses = LIST_FIRST(&g->c[0]->sessions);
	const uint32_t keys = g->c[0]->keys.used;
	struct ff_create_qp_resp resp;
	struct ff_reg_mr_resp mr;
	uint64_t rings = 0, memory = 0;
	uint8_t byte;
	uint32_t qp;

	(void)state;
	ops.qp_create = refuse_qp;
	g->backend.ops = &ops;
	g->backend.carriers = carriers;
	assert_int_equal(call_reg_mr(g, s, pd, &byte, 1, 0, &mr), -ENOSPC);
	g->backend.carriers = all;
	assert_int_equal(g->c[0]->keys.used, keys);
	assert_int_equal(use->used[QUOTA_MR], 0);
	for (int i = 0; i < 100; i++) {
		assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -ENOSPC);
		if (!i) {
			rings = session_seg_bytes(ses, SEG_RINGS);
			memory = use->used[QUOTA_MEMORY];
		}
	}
	assert_int_equal(session_seg_bytes(ses, SEG_RINGS), rings);
	assert_int_equal(use->used[QUOTA_MEMORY], memory);
	assert_int_equal(use->used[QUOTA_QP], 0);
	g->backend.ops = real;
	call_qp(g, s, pd, cq);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), -EBUSY); /* for the QP alone */
	/* with other hosts a QP has more, until it is gone; the pages of rings stay */
	qp = call_qp(g, s, pd, cq);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp), 0);
	memory = use->used[QUOTA_MEMORY];
	g->ctl.host->wired = true;
	qp = call_qp(g, s, pd, cq);
	assert_true(use->used[QUOTA_MEMORY] > memory);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp), 0);
	g->ctl.host->wired = false;
	assert_int_equal(use->used[QUOTA_MEMORY], memory);
	close(s);
}

static void rereg_changes_what_it_names(void **state)
{
	static uint8_t buf[8192];
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s), pd2 = call_pd(g, s);
	struct ff_rereg_mr_req req = { .addr = 1, .length = 0, .pd = 77, .access = 1u << 30 };
	struct ff_rereg_mr_resp resp;
	struct ff_reg_mr_resp mr;
	struct mr *m;

	(void)state;
	assert_int_equal(call_reg_mr(g, s, pd, buf, 100, IBV_ACCESS_LOCAL_WRITE, &mr), 0);
	req.mr = mr.mr;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), -EINVAL); /* no flags */
	for (req.flags = 1; req.flags < 16; req.flags++) /* each names something that is wrong */
		assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), -EINVAL);
	assert_non_null(key_lookup(&g->c[0]->keys, mr.rkey)); /* and nothing has changed */

	req.flags = IBV_REREG_MR_CHANGE_PD;
	req.pd = pd2;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), 0);
	assert_int_equal(resp.lkey, mr.lkey);
	assert_int_equal(resp.rkey, mr.rkey);
	m = key_lookup(&g->c[0]->keys, resp.rkey);
	assert_non_null(m);
	assert_int_equal(m->access, IBV_ACCESS_LOCAL_WRITE);
	assert_int_equal(m->length, 100);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd), 0); /* not used any more */
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd2), -EBUSY);

	req.flags = IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_ACCESS;
	req.addr = req.iova = (uintptr_t)buf + 50;
	req.length = 7;
	req.access = 0;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &req, &resp), 0);
	m = key_lookup(&g->c[0]->keys, mr.rkey);
	assert_int_equal(m->addr, (uintptr_t)buf + 50);
	assert_int_equal(m->length, 7);
	assert_int_equal(m->access, 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEREG_MR, mr.mr), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DEALLOC_PD, pd2), 0);
	close(s);
}

/* ---- QPs ----------------------------------------------------------------------------------------- */

static void a_qp_goes_through_its_states(void **state)
{
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s), cq = call_cq(g, s);
	struct ff_query_qp_req query = { .qp = call_qp(g, s, pd, cq) };
	struct ff_modify_qp_req mod = { .qp = query.qp };
	struct ff_modify_qp_resp modded;
	struct ff_query_qp_resp attr;

	(void)state;
	mod.attr = (struct ff_qp_attr){ .qp_state = IBV_QPS_INIT, .port_num = 1 };
	mod.mask = IBV_QP_STATE | IBV_QP_PORT | IBV_QP_PKEY_INDEX;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), -EINVAL);
	mod.mask |= IBV_QP_ACCESS_FLAGS;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(modded.qp_state, IBV_QPS_INIT);

	mod.attr = qp_attr_usual(IBV_QPS_RTR, 17);
	mod.attr.rq_psn = 5;
	mod.attr.ah = (struct ff_ah_attr){ .dlid = 2, .port_num = 1 };
	mod.attr.timeout = 31; /* not named */
	mod.mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
		   IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(RIG_CALL(g, s, QUERY_QP, &query, &attr), 0);
	assert_int_equal(attr.attr.qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.attr.cur_qp_state, IBV_QPS_RTR);
	assert_int_equal(attr.attr.dest_qp_num, 17);
	assert_int_equal(attr.attr.rq_psn, 5);
	assert_int_equal(attr.attr.port_num, 1);
	assert_int_equal(attr.attr.timeout, 0);
	assert_int_equal(attr.attr.ah.dlid, 2);
	assert_int_equal(attr.attr.cap.max_send_wr, 128);

	mod.mask = IBV_QP_STATE;
	mod.attr.qp_state = IBV_QPS_ERR;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	mod.attr.qp_state = IBV_QPS_RTS;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), -EINVAL);
	mod.attr.qp_state = IBV_QPS_RESET;
	assert_int_equal(RIG_CALL(g, s, MODIFY_QP, &mod, &modded), 0);
	assert_int_equal(RIG_CALL(g, s, QUERY_QP, &query, &attr), 0);
	assert_int_equal(attr.attr.qp_state, IBV_QPS_RESET);
	assert_int_equal(attr.attr.dest_qp_num, 0);
	assert_int_equal(attr.attr.cap.max_send_wr, 128);
	close(s);
}

static void a_cq_is_resized_while_it_holds_completions(void **state)
{
	int s = call_client(g, 0);
	struct ff_create_cq_resp resp;
	struct ff_resize_cq_req req;
	struct ff_resize_cq_resp resized;
	uint64_t rings = 0;
	struct cq *cq;

	(void)state;
	assert_int_equal(call_create_cq(g, s, 64, 0, &resp), 0);
	cq = cq_get_unsealed(LIST_FIRST(&g->c[0]->sessions), resp.cq);
	cq->pi = 20; /* as if 20 had been written and 3 consumed */
	atomic_store(&cq->hdr->ci, 3);
	for (uint32_t i = 0; i < 20; i++)
		cq->ring[i].wr_id = i;
	req = (struct ff_resize_cq_req){ .cq = resp.cq, .cqe = 16 };
	assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), -EINVAL);
	assert_int_equal(cq->depth, 64);
	req.cqe = 17;
	assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), 0);
	assert_int_equal(resized.cqe, 32);
	assert_int_equal(resized.ring.depth, 32);
	assert_int_equal(cq->pi, 17);
	for (uint32_t i = 0; i < 17; i++)
		assert_int_equal(cq->ring[i].wr_id, i + 3);
	req.cqe = 0;
	assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), -EINVAL);
	for (unsigned i = 0; i < 2000;
	     i++) { /* the former ring goes, and so does one that is too small */
		req.cqe = i % 10 ? 16 : 8192;
		assert_int_equal(RIG_CALL(g, s, RESIZE_CQ, &req, &resized), i % 10 ? -EINVAL : 0);
		if (i == 10)
			rings = session_seg_bytes(LIST_FIRST(&g->c[0]->sessions), SEG_RINGS);
	}
	assert_int_equal(session_seg_bytes(LIST_FIRST(&g->c[0]->sessions), SEG_RINGS), rings);
	close(s);
}

static void srqs_have_limits(void **state)
{
	int s = call_client(g, 0);
	struct ff_create_srq_req req = { .pd = call_pd(g, s), .max_wr = 0, .max_sge = 1 };
	struct ff_create_srq_resp resp;
	struct ff_modify_srq_req mod = { .mask = IBV_SRQ_LIMIT, .srq_limit = 3 };
	struct ff_modify_srq_resp modded;
	struct ff_query_srq_req query;
	struct ff_query_srq_resp attr;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -EINVAL);
	req.max_wr = FF_MAX_WR + 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -EINVAL);
	req.max_wr = 4;
	req.max_sge = FF_MAX_SGE + 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -EINVAL);
	req.max_sge = 2;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), 0);
	query.srq = mod.srq = resp.srq;
	mod.srq_limit = 5;
	assert_int_equal(RIG_CALL(g, s, MODIFY_SRQ, &mod, &modded), -EINVAL);
	mod.mask = IBV_SRQ_MAX_WR;
	assert_int_equal(RIG_CALL(g, s, MODIFY_SRQ, &mod, &modded), -EOPNOTSUPP);
	mod.mask = 8;
	assert_int_equal(RIG_CALL(g, s, MODIFY_SRQ, &mod, &modded), -EINVAL);
	assert_int_equal(RIG_CALL(g, s, QUERY_SRQ, &query, &attr), 0);
	assert_int_equal(attr.max_wr, 4);
	assert_int_equal(attr.max_sge, 2);
	close(s);
}

/* A completion names an SRQ by 15 bits of its index. Here so many are said to be there. */
static void srqs_that_no_completion_can_name(void **state)
{
	int s = call_client(g, 0);
	struct ff_create_srq_req req = { .pd = call_pd(g, s), .max_wr = 4, .max_sge = 1 };
	struct session *ses = LIST_FIRST(&g->c[0]->sessions);
	struct obj_table *t = &ses->tab[OBJ_SRQ], was = *t;
	struct ff_create_srq_resp resp;

	(void)state;
	t->size = FF_CQE_OF_SRQ + 2;
	t->slot = calloc(t->size, sizeof(*t->slot));
	t->gen = calloc(t->size, sizeof(*t->gen));
	t->used = t->next_free = FF_CQE_OF_SRQ;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), -ENOMEM);
	assert_int_equal(t->used, FF_CQE_OF_SRQ);
	t->used = t->next_free = FF_CQE_OF_SRQ - 1;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_SRQ, resp.srq), 0);
	free(t->slot);
	free(t->gen);
	*t = was;
	close(s);
}

static void windows_that_get_no_handle(void **state)
{
	int s = call_client(g, 0);
	struct ff_alloc_mw_req req = { .pd = call_pd(g, s), .type = IBV_MW_TYPE_1 };
	struct session *ses = LIST_FIRST(&g->c[0]->sessions);
	const size_t n = 1000;
	struct ff_alloc_mw_resp resp;
	size_t before = 0;

	(void)state;
	ses->tab[OBJ_MW].max = 0;
	for (size_t i = 0; i < 2 * n; i++) {
		if (i == n)
			before = unit_allocated();
		assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &req, &resp), -ENOMEM);
	}
	assert_true(unit_allocated() < before + n * sizeof(struct mw));
	close(s);
}

static void an_xrc_srq_holds_its_cq(void **state)
{
	struct ff_open_xrcd_req open = { .flags = FF_XRCD_CREATE };
	int s = call_client(g, 0);
	struct ff_create_srq_req req = {
		.pd = call_pd(g, s), .max_wr = 4, .max_sge = 1, .cq = call_cq(g, s)
	};
	struct ff_create_srq_resp resp;
	struct ff_open_xrcd_resp xrcd;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, OPEN_XRCD, &open, &xrcd), 0);
	req.xrcd = xrcd.xrcd;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CQ, req.cq), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_CLOSE_XRCD, req.xrcd), -EBUSY);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_SRQ, resp.srq), 0);
	assert_int_equal(call_one(g, s, FF_MSG_CLOSE_XRCD, req.xrcd), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CQ, req.cq), 0);
	close(s);
}

/* They are looked through by their files, with all threads' locks held: so there are not too many. */
static void xrc_domains_are_few(void **state)
{
	struct ff_open_xrcd_req req = { .flags = FF_XRCD_CREATE, .has_file = 1 };
	int s = call_client(g, 0), other = call_client(g, 0);
	struct ff_open_xrcd_resp resp;
	const size_t n = 1000;
	size_t before = 0;

	(void)state;
	for (req.ino = 0; req.ino < XRCDS_MAX; req.ino++)
		assert_int_equal(RIG_CALL(g, req.ino % 2 ? s : other, OPEN_XRCD, &req, &resp), 0);
	assert_int_equal(RIG_CALL(g, s, OPEN_XRCD, &req, &resp), -ENOMEM);
	req.has_file = 0;
	assert_int_equal(RIG_CALL(g, s, OPEN_XRCD, &req, &resp), -ENOMEM);
	req.has_file = 1;
	req.ino = 7; /* one that is there */
	req.flags = FF_XRCD_CREATE | FF_XRCD_EXCLUSIVE;
	assert_int_equal(RIG_CALL(g, s, OPEN_XRCD, &req, &resp), -EINVAL);
	req.flags = FF_XRCD_CREATE;
	for (size_t i = 0; i < 2 * n; i++) {
		if (i == n)
			before = unit_allocated();
		assert_int_equal(RIG_CALL(g, s, OPEN_XRCD, &req, &resp), 0);
		assert_int_equal(call_one(g, s, FF_MSG_CLOSE_XRCD, resp.xrcd), 0);
	}
	assert_true(unit_allocated() < before + n * sizeof(struct xrcd));
	close(other);
	rig_pump(g);
	req.ino = XRCDS_MAX;
	assert_int_equal(RIG_CALL(g, s, OPEN_XRCD, &req, &resp), 0);
	close(s);
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(CALL_TEST(foreign_and_unknown_handles_are_refused),
			CALL_TEST(what_is_used_cannot_go), CALL_TEST(on_demand),
			CALL_TEST(capabilities_are_rounded_up_and_bounded), CALL_TEST(limits_hold),
			CALL_TEST(the_port_is_the_containers), CALL_TEST(mr_arguments_are_checked),
			CALL_TEST(what_the_backend_refuses), CALL_TEST(rereg_changes_what_it_names),
			CALL_TEST(a_qp_goes_through_its_states),
			CALL_TEST(a_cq_is_resized_while_it_holds_completions),
			CALL_TEST(srqs_have_limits), CALL_TEST(srqs_that_no_completion_can_name),
			CALL_TEST(an_xrc_srq_holds_its_cq), CALL_TEST(windows_that_get_no_handle),
			CALL_TEST(xrc_domains_are_few));
}
