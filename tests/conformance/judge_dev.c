/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_dev.c - contexts, ports, GIDs and PKeys, multicast groups, async events. */
#include "tests/conformance/judge.h"

#include <fcntl.h>

static void ports(void)
{
	static const int tries[] = { 0, 1, 2, 255 };
	struct ibv_context *ctx = vt_open_device();
	struct ibv_port_attr port;
	union ibv_gid gid;
	__be16 pkey;

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		j_case("port/%d/query", tries[i]);
		J(ibv_query_port(ctx, (uint8_t)tries[i], &port));
		j_case("port/%d/gid", tries[i]);
		J(ibv_query_gid(ctx, (uint8_t)tries[i], (int)vt_gid_index(), &gid));
		j_case("port/%d/pkey", tries[i]);
		J(ibv_query_pkey(ctx, (uint8_t)tries[i], 0, &pkey));
	}
	j_case("port/1/attr");
	CHECK_OK(ibv_query_port(ctx, 1, &port));
	j_say("state=%d lid=%u sm_lid=%u lmc=%u layer=%u phys=%u", port.state, port.lid,
	      port.sm_lid, port.lmc, port.link_layer, port.phys_state);
	j_case("port/1/flags");
	j_say("cap=%x flags=%x", port.port_cap_flags, port.flags);
	for (int i = -1; i < 2; i++) {
		j_case("gid-index/%s", i < 0 ? "-1" : i ? "beyond" : "last");
		J(ibv_query_gid(ctx, 1, i < 0 ? -1 : port.gid_tbl_len - 1 + i, &gid));
		j_case("pkey-index/%s", i < 0 ? "-1" : i ? "beyond" : "0");
		J(ibv_query_pkey(ctx, 1, i < 0 ? -1 : i ? port.pkey_tbl_len : 0, &pkey));
	}
	CHECK_OK(ibv_query_pkey(ctx, 1, 0, &pkey));
	j_case("pkey");
	j_say("%x", be16toh(pkey));
	j_case("pkey-index/of-key");
	j_say("%d %d", ibv_get_pkey_index(ctx, 1, pkey),
	      ibv_get_pkey_index(ctx, 1, htobe16(0x1234)));
	for (unsigned i = 0; i < 3; i++) {
		struct ibv_gid_entry entry;

		j_case("gid-ex/%u", i);
		J(ibv_query_gid_ex(ctx, 1,
				   i == 0 ? vt_gid_index() :
				   i == 1 ? 10000 :
					    0,
				   &entry, i == 2 ? 1 : 0));
		if (!i)
			j_say("type=%u port=%u", entry.gid_type, entry.port_num);
	}
	CHECK_OK(ibv_close_device(ctx));
}

static void multicast(void)
{
	static const struct {
		const char *name;
		uint8_t first, second;
		uint16_t lid;
	} tries[] = { { "good", 0xff, 0x0e, 0 },
		      { "lid", 0xff, 0x0e, 0xc000 },
		      { "unicast-lid", 0xff, 0x0e, 1 },
		      { "unicast", 0xfe, 0x80, 0 },
		      { "zero", 0, 0, 0 } };

	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
			union ibv_gid gid = { .raw = { tries[i].first,
						       tries[i].second, [15] = 9 } };
			struct vt_param par = VT_PARAM;
			struct vt_end e;

			par.type = j_types[t];
			vt_end_open(&e, &par);
			CHECK_OK(vt_to_init(e.qp, &par));
			j_case("attach-mcast/%s/%s", j_qp_type(j_types[t]), tries[i].name);
			if (!J(ibv_attach_mcast(e.qp, &gid, tries[i].lid))) {
				j_say("twice");
				J(ibv_attach_mcast(e.qp, &gid, tries[i].lid));
				j_say("destroy");
				if (!J(ibv_destroy_qp(e.qp)))
					e.qp = NULL;
			}
			if (e.qp) {
				j_say("detach");
				J(ibv_detach_mcast(e.qp, &gid, tries[i].lid));
				j_say("twice");
				J(ibv_detach_mcast(e.qp, &gid, tries[i].lid));
			}
			vt_end_close(&e);
		}
}

/* What is read of an async_fd, and COMM_EST. */
static void async(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev;
	struct vt_end x, y;

	vt_end_open(&x, &par);
	vt_end_open(&y, &par);
	j_case("async/none");
	CHECK_OK(fcntl(x.ctx->async_fd, F_SETFL, O_NONBLOCK));
	J(ibv_get_async_event(x.ctx, &ev));
	vt_connect(&x, &y.self);
	CHECK_OK(vt_to_init(y.qp, &par));
	CHECK_OK(vt_to_rtr(y.qp, &par, &x.self));
	vt_recv(&y, 1, 0, 64);
	j_case("async/comm-est");
	vt_send(&x, 2, 0, 8, IBV_SEND_SIGNALED);
	j_wcs(x.scq, 1, 500);
	j_wcs(y.rcq, 1, 500);
	j_async(y.ctx, true);
	CHECK_OK(vt_to_rts(y.qp, &par, y.self.psn));
	j_case("async/sq-drained");
	{
		struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };

		J(ibv_modify_qp(x.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
		j_async(x.ctx, true);
	}
	j_case("async/to-error");
	J(vt_to_state(x.qp, IBV_QPS_ERR));
	j_async(x.ctx, true);
	vt_pair_close(&x, &y);
}

/* What else a device may have: refused in the same way where it does not. */
static void others(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_alloc_dm_attr dm_attr = { .length = 64 };
	struct ibv_values_ex values = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_device_attr_ex dev;
	struct ibv_counters_init_attr counters = { 0 };
	struct ibv_query_device_ex_input input = { .comp_mask = 1 };
	struct ibv_td *td;
	struct ibv_dm *dm;
	struct ibv_mr *mr;

	j_case("query-device-ex/null");
	J(ibv_query_device_ex(ctx, NULL, &dev));
	j_case("query-device-ex/comp-mask");
	J(ibv_query_device_ex(ctx, &input, &dev));
	j_case("alloc-td");
	td = J_PTR(ibv_alloc_td(ctx, &td_attr));
	if (td)
		J(ibv_dealloc_td(td));
	j_case("alloc-dm");
	dm = J_PTR(ibv_alloc_dm(ctx, &dm_attr));
	if (dm)
		J(ibv_free_dm(dm));
	j_case("create-counters");
	J_PTR(ibv_create_counters(ctx, &counters));
	j_case("rt-values");
	J(ibv_query_rt_values_ex(ctx, &values));
	j_case("null-mr");
	mr = J_PTR(ibv_alloc_null_mr(pd));
	if (mr)
		J(ibv_dereg_mr(mr));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

JUDGE_GROUPS(judge_dev, { "port", ports, 0 }, { "attach-mcast", multicast, 0 },
	     { "async", async, 0 }, { "others", others, 0 })
