/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_qp_make.c - ibv_create_qp, ibv_create_srq and ibv_create_ah with all sorts of attributes, what
 * is reported back, and what cannot be destroyed while something uses it.
 */
#include "tests/conformance/judge.h"

struct base {
	struct ibv_context *ctx;
	struct ibv_device_attr dev;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
	struct ibv_srq *srq;
};

static struct ibv_srq *make_srq(struct ibv_pd *pd, uint32_t wr, uint32_t sge, uint32_t limit)
{
	struct ibv_srq_init_attr attr = {
		.attr = { .max_wr = wr, .max_sge = sge, .srq_limit = limit }
	};

	return ibv_create_srq(pd, &attr);
}

static void base_open(struct base *b)
{
	b->ctx = vt_open_device();
	CHECK_OK(ibv_query_device(b->ctx, &b->dev));
	b->pd = CHECK_PTR(ibv_alloc_pd(b->ctx));
	b->cq = CHECK_PTR(ibv_create_cq(b->ctx, 64, NULL, NULL, 0));
	b->srq = CHECK_PTR(make_srq(b->pd, 16, 1, 0));
}

static void base_close(struct base *b)
{
	CHECK_OK(ibv_destroy_srq(b->srq));
	CHECK_OK(ibv_destroy_cq(b->cq));
	CHECK_OK(ibv_dealloc_pd(b->pd));
	CHECK_OK(ibv_close_device(b->ctx));
}

static struct ibv_qp_init_attr usual(const struct base *b, enum ibv_qp_type type)
{
	return (struct ibv_qp_init_attr){
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.cap = { 8, 8, 2, 2, 0 },
		.qp_type = type,
	};
}

static struct ibv_qp_init_attr_ex usual_ex(const struct base *b, enum ibv_qp_type type,
					   uint32_t comp_mask, uint64_t ops)
{
	return (struct ibv_qp_init_attr_ex){
		.send_cq = b->cq,
		.recv_cq = b->cq,
		.cap = { 8, 8, 2, 2, 0 },
		.qp_type = type,
		.comp_mask = comp_mask,
		.pd = b->pd,
		.send_ops_flags = ops,
	};
}

static bool less(const struct ibv_qp_cap *a, const struct ibv_qp_cap *b, bool srq)
{
	return a->max_send_wr < b->max_send_wr || a->max_send_sge < b->max_send_sge ||
	       a->max_inline_data < b->max_inline_data ||
	       (!srq && (a->max_recv_wr < b->max_recv_wr || a->max_recv_sge < b->max_recv_sge));
}

/* "ok", and whether the capabilities are less than what was asked for. */
static struct ibv_qp *try_qp(struct base *b, struct ibv_qp_init_attr attr)
{
	struct ibv_qp_cap want = attr.cap;
	struct ibv_qp_init_attr told;
	struct ibv_qp_attr now;
	struct ibv_qp *qp = J_PTR(ibv_create_qp(b->pd, &attr));

	if (!qp)
		return NULL;
	if (less(&attr.cap, &want, attr.srq))
		j_say("less");
	CHECK_OK(ibv_query_qp(qp, &now, IBV_QP_CAP, &told));
	if (less(&told.cap, &want, attr.srq))
		j_say("query tells less");
	if (memcmp(&told.cap, &now.cap, sizeof(told.cap)))
		j_say("query tells two");
	return qp;
}

static void one_qp(struct base *b, struct ibv_qp_init_attr attr)
{
	struct ibv_qp *qp = try_qp(b, attr);

	if (qp)
		CHECK_OK(ibv_destroy_qp(qp));
}

/* ---- QPs --------------------------------------------------------------------------------------- */

static void create_types(void)
{
	static const int types[] = {
		IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_XRC_SEND, IBV_QPT_XRC_RECV, 0, 1, 5, 99
	};
	struct base b;

	base_open(&b);
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		struct ibv_qp_init_attr attr = usual(&b, (enum ibv_qp_type)types[i]);

		if (types[i] > 4 || types[i] < 2) {
			j_case("create-qp/type=%d", types[i]);
			one_qp(&b, attr);
			continue;
		}
		j_case("create-qp/%s/usual", j_qp_type(attr.qp_type));
		one_qp(&b, attr);
		j_case("create-qp/%s/all-0", j_qp_type(attr.qp_type));
		attr.cap = (struct ibv_qp_cap){ 0 };
		one_qp(&b, attr);
		attr = usual(&b, attr.qp_type);
		attr.srq = b.srq;
		j_case("create-qp/%s/srq", j_qp_type(attr.qp_type));
		one_qp(&b, attr);
		attr.cap.max_recv_wr = (uint32_t)b.dev.max_qp_wr + 1;
		attr.cap.max_recv_sge = (uint32_t)b.dev.max_sge + 1;
		j_case("create-qp/%s/srq-and-too-many-recvs", j_qp_type(attr.qp_type));
		one_qp(&b, attr);
	}
	base_close(&b);
}

static void create_caps(void)
{
	static const char *const names[] = { "send_wr", "recv_wr", "send_sge", "recv_sge",
					     "inline" };
	struct base b;

	base_open(&b);
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
			uint32_t max = i < 2 ? (uint32_t)b.dev.max_qp_wr : (uint32_t)b.dev.max_sge;
			const struct {
				const char *name;
				uint32_t value;
			} tries[] = { { "0", 0 },	    { "1", 1 },
				      { "max", max },	    { "max+1", max + 1 },
				      { "2^31", 1u << 31 }, { "2^32-1", UINT32_MAX } };

			for (unsigned k = 0; k < ARRAY_SIZE(tries); k++) {
				struct ibv_qp_init_attr attr = usual(&b, j_types[t]);
				uint32_t v = tries[k].value;

				if (i == 4 && (k == 2 || k == 3)) /* no limit is told */
					continue;
				if (i < 2 && k == 2) /* memory for so many may not be there */
					v = 4096;
				((uint32_t *)&attr.cap)[i] = v;
				j_case("create-qp/%s/%s=%s", j_qp_type(j_types[t]), names[i],
				       i < 2 && k == 2 ? "4096" : tries[k].name);
				one_qp(&b, attr);
			}
		}
	for (unsigned inl = 2; inl <= 512; inl *= 2) /* what both have */ {
		struct ibv_qp_init_attr attr = usual(&b, IBV_QPT_RC);

		attr.cap.max_inline_data = inl;
		j_case("create-qp/RC/inline=%u", inl);
		one_qp(&b, attr);
	}
	base_close(&b);
}

static void create_ex(void)
{
	static const struct {
		const char *name;
		uint32_t comp_mask, flags;
		uint64_t ops;
	} tries[] = {
		{ "pd", IBV_QP_INIT_ATTR_PD, 0, 0 },
		{ "nothing", 0, 0, 0 },
		{ "unknown-mask", IBV_QP_INIT_ATTR_PD | 1 << 20, 0, 0 },
		{ "create-flags-0", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS, 0, 0 },
		{ "create-flags-lb", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_BLOCK_SELF_MCAST_LB, 0 },
		{ "create-flags-fcs", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  IBV_QP_CREATE_SCATTER_FCS, 0 },
		{ "create-flags-unknown", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_CREATE_FLAGS,
		  1u << 30, 0 },
		{ "ops-send", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0,
		  IBV_QP_EX_WITH_SEND },
		{ "ops-0", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0, 0 },
		{ "ops-unknown", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0,
		  1ull << 40 },
		{ "ops-tso", IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 0,
		  IBV_QP_EX_WITH_TSO },
	};
	struct base b;

	base_open(&b);
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
			struct ibv_qp_init_attr_ex attr =
				usual_ex(&b, j_types[t], tries[i].comp_mask, tries[i].ops);
			struct ibv_qp *qp;

			attr.create_flags = tries[i].flags;
			j_case("create-qp-ex/%s/%s", j_qp_type(j_types[t]), tries[i].name);
			qp = J_PTR(ibv_create_qp_ex(b.ctx, &attr));
			if (!qp)
				continue;
			if (tries[i].comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS)
				j_say("ex=%d", ibv_qp_to_qp_ex(qp) != NULL);
			CHECK_OK(ibv_destroy_qp(qp));
		}
	base_close(&b);
}

/* Every operation that a type has or has not, asked for by itself. */
static void create_ops(void)
{
	struct base b;

	base_open(&b);
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		for (unsigned bit = 0; bit < 14; bit++) {
			struct ibv_qp_init_attr_ex attr = usual_ex(
				&b, j_types[t],
				IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS, 1ull << bit);
			struct ibv_qp *qp;

			j_case("create-qp-ops/%s/%u", j_qp_type(j_types[t]), bit);
			qp = J_PTR(ibv_create_qp_ex(b.ctx, &attr));
			if (qp)
				CHECK_OK(ibv_destroy_qp(qp));
		}
	base_close(&b);
}

/* ---- SRQs -------------------------------------------------------------------------------------- */

static void try_srq(struct base *b, uint32_t wr, uint32_t sge, uint32_t limit)
{
	struct ibv_srq *srq = J_PTR(make_srq(b->pd, wr, sge, limit));
	struct ibv_srq_attr now;

	if (!srq)
		return;
	CHECK_OK(ibv_query_srq(srq, &now));
	j_say("%s %s limit=%u", now.max_wr < wr ? "less" : "enough",
	      now.max_sge < sge ? "less" : "enough", now.srq_limit);
	CHECK_OK(ibv_destroy_srq(srq));
}

static void srqs(void)
{
	struct ibv_srq_attr attr;
	struct base b;
	uint32_t wr, sge;

	base_open(&b);
	wr = (uint32_t)b.dev.max_srq_wr;
	sge = (uint32_t)b.dev.max_srq_sge;
	j_case("create-srq/usual");
	try_srq(&b, 16, 1, 0);
	j_case("create-srq/wr=0");
	try_srq(&b, 0, 1, 0);
	j_case("create-srq/wr=max+1");
	try_srq(&b, wr + 1, 1, 0);
	j_case("create-srq/wr=2^32-1");
	try_srq(&b, UINT32_MAX, 1, 0);
	j_case("create-srq/sge=0");
	try_srq(&b, 16, 0, 0);
	j_case("create-srq/sge=max");
	try_srq(&b, 16, sge, 0);
	j_case("create-srq/sge=max+1");
	try_srq(&b, 16, sge + 1, 0);
	j_case("create-srq/limit=5");
	try_srq(&b, 16, 1, 5);
	j_case("create-srq/limit=17");
	try_srq(&b, 16, 1, 17);
	CHECK_OK(ibv_query_srq(b.srq, &attr));
	{
		const struct {
			const char *name;
			uint32_t limit;
		} limits[] = { { "0", 0 }, { "max+1", attr.max_wr + 1 }, { "2^32-1", UINT32_MAX } };

		for (unsigned i = 0; i < ARRAY_SIZE(limits); i++) {
			attr = (struct ibv_srq_attr){ .srq_limit = limits[i].limit };
			j_case("modify-srq/limit=%s", limits[i].name);
			J(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT));
			CHECK_OK(ibv_query_srq(b.srq, &attr));
			j_say("%u", attr.srq_limit);
		}
	}
	attr = (struct ibv_srq_attr){ .srq_limit = 0 };
	CHECK_OK(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT));
	j_case("modify-srq/nothing");
	J(ibv_modify_srq(b.srq, &attr, 0));
	j_case("modify-srq/unknown");
	J(ibv_modify_srq(b.srq, &attr, 4));
	attr.max_wr = 0;
	j_case("modify-srq/wr=0");
	J(ibv_modify_srq(b.srq, &attr, IBV_SRQ_MAX_WR));
	attr.max_wr = wr + 1;
	j_case("modify-srq/wr=max+1");
	J(ibv_modify_srq(b.srq, &attr, IBV_SRQ_MAX_WR));
	base_close(&b);
}

/* The event comes once, when the SRQ has fewer than that, and the limit is 0 then. */
static void srq_limit(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 3 };
	struct vt_param par = VT_PARAM;
	struct vt_end x, y;

	par.srq = true;
	vt_pair(&x, &y, &par);
	for (unsigned i = 0; i < 4; i++)
		vt_recv(&y, i, 64 * i, 64);
	j_case("srq-limit/armed");
	J(ibv_modify_srq(y.srq, &attr, IBV_SRQ_LIMIT));
	j_async(y.ctx, true);
	for (unsigned i = 0; i < 4; i++) {
		j_case("srq-limit/send%u", i);
		vt_send(&x, i, 0, 64, IBV_SEND_SIGNALED);
		j_wcs(x.scq, 1, 1000);
		j_wcs(y.rcq, 1, 1000);
		j_async(y.ctx, true);
		CHECK_OK(ibv_query_srq(y.srq, &attr));
		j_say("limit=%u", attr.srq_limit);
	}
	j_case("srq-limit/armed-above-what-is-there");
	attr.srq_limit = 5;
	J(ibv_modify_srq(y.srq, &attr, IBV_SRQ_LIMIT));
	j_async(y.ctx, true);
	j_case("srq-limit/to-error");
	J(vt_to_state(y.qp, IBV_QPS_ERR));
	j_async(y.ctx, true);
	vt_pair_close(&x, &y);
}

/* ---- AHs --------------------------------------------------------------------------------------- */

static void ahs(void)
{
	static const struct {
		const char *name;
		struct ibv_ah_attr attr; /* the GRH's are defaults where they are 0 */
	} tries[] = {
		{ "usual", { .is_global = 1, .port_num = 1 } },
		{ "no-grh", { .port_num = 1, .dlid = 1 } },
		{ "port=0", { .is_global = 1, .port_num = 0 } },
		{ "port=2", { .is_global = 1, .port_num = 2 } },
		{ "sl=15", { .is_global = 1, .port_num = 1, .sl = 15 } },
		{ "sl=255", { .is_global = 1, .port_num = 1, .sl = 255 } },
		{ "sgid=200", { .is_global = 1, .port_num = 1, .grh.sgid_index = 200 } },
		{ "rate=255", { .is_global = 1, .port_num = 1, .static_rate = 255 } },
		{ "tclass=255", { .is_global = 1, .port_num = 1, .grh.traffic_class = 255 } },
	};
	struct base b;
	union ibv_gid gid;

	base_open(&b);
	vt_gid(b.ctx, &gid);
	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
		struct ibv_ah_attr attr = tries[i].attr;
		struct ibv_ah *ah;

		attr.grh.dgid = gid;
		attr.grh.hop_limit = 64;
		if (!attr.grh.sgid_index)
			attr.grh.sgid_index = (uint8_t)vt_gid_index();
		j_case("create-ah/%s", tries[i].name);
		ah = J_PTR(ibv_create_ah(b.pd, &attr));
		if (ah)
			J(ibv_destroy_ah(ah));
	}
	base_close(&b);
}

/* ---- what is in use ---------------------------------------------------------------------------- */

static void busy(void)
{
	struct ibv_comp_channel *ch;
	struct ibv_qp_init_attr attr;
	struct ibv_ah_attr av = { .is_global = 1, .port_num = 1 };
	struct ibv_qp *qp;
	struct ibv_mr *mr;
	struct ibv_mw *mw;
	struct ibv_ah *ah;
	struct ibv_cq *cq;
	struct ibv_pd *pd;
	struct base b;
	void *page = vt_map(4096);

	base_open(&b);
	attr = usual(&b, IBV_QPT_RC);
	attr.srq = b.srq;
	qp = CHECK_PTR(ibv_create_qp(b.pd, &attr));
	j_case("busy/cq-of-qp");
	J(ibv_destroy_cq(b.cq));
	j_case("busy/srq-of-qp");
	J(ibv_destroy_srq(b.srq));
	j_case("busy/pd-of-qp");
	J(ibv_dealloc_pd(b.pd));
	CHECK_OK(ibv_destroy_qp(qp));
	pd = CHECK_PTR(ibv_alloc_pd(b.ctx));
	mr = CHECK_PTR(ibv_reg_mr(pd, page, 4096, 0));
	j_case("busy/pd-of-mr");
	J(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_dereg_mr(mr));
	mw = CHECK_PTR(ibv_alloc_mw(pd, IBV_MW_TYPE_1));
	j_case("busy/pd-of-mw");
	J(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_gid(b.ctx, &av.grh.dgid);
	av.grh.sgid_index = (uint8_t)vt_gid_index();
	av.grh.hop_limit = 64;
	ah = CHECK_PTR(ibv_create_ah(pd, &av));
	j_case("busy/pd-of-ah");
	J(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_destroy_ah(ah));
	j_case("busy/pd-at-last");
	J(ibv_dealloc_pd(pd));
	ch = CHECK_PTR(ibv_create_comp_channel(b.ctx));
	cq = CHECK_PTR(ibv_create_cq(b.ctx, 1, NULL, ch, 0));
	j_case("busy/channel-of-cq");
	J(ibv_destroy_comp_channel(ch));
	CHECK_OK(ibv_destroy_cq(cq));
	j_case("busy/channel-at-last");
	J(ibv_destroy_comp_channel(ch));
	base_close(&b);
}

JUDGE_GROUPS(judge_qp_make, { "create-qp/types", create_types, 0 },
	     { "create-qp/caps", create_caps, 60 }, { "create-qp-ex", create_ex, 0 },
	     { "create-qp-ops", create_ops, 0 }, { "srq", srqs, 0 }, { "srq-limit", srq_limit, 0 },
	     { "create-ah", ahs, 0 }, { "busy", busy, 0 })
