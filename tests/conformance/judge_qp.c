/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_qp.c - ibv_modify_qp from each state to each, with what the transition needs (IBTA 10.3.1, table
 * 91), without each of it and with each attribute more; values; what posts say in each state.
 */
#include "tests/conformance/judge.h"

#define NUM_ATTRS 26 /* bits of enum ibv_qp_attr_mask, and one that has no name */

static const char *const attr_str[NUM_ATTRS + 1] = {
	"STATE",	"CUR_STATE",
	"SQD_NOTIFY",	"ACCESS",
	"PKEY",		"PORT",
	"QKEY",		"AV",
	"MTU",		"TIMEOUT",
	"RETRY_CNT",	"RNR_RETRY",
	"RQ_PSN",	"MAX_RD",
	"ALT_PATH",	"MIN_RNR",
	"SQ_PSN",	"MAX_DEST_RD",
	"MIG_STATE",	"CAP",
	"DEST_QPN",	[25] = "RATE_LIMIT",
	[26] = "BIT26",
};

#define INIT_MASK   (IBV_QP_PKEY_INDEX | IBV_QP_PORT)
#define RTR_UC_MASK (IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define RTR_RC_MASK (RTR_UC_MASK | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER)
#define RTS_RC_MASK                                                                                \
	(IBV_QP_SQ_PSN | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)

/* What the transition needs beside IBV_QP_STATE. */
static int needed(enum ibv_qp_type type, enum ibv_qp_state from, enum ibv_qp_state to)
{
	if (from == IBV_QPS_RESET && to == IBV_QPS_INIT)
		return INIT_MASK | (type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS);
	if (from == IBV_QPS_INIT && to == IBV_QPS_RTR)
		return type == IBV_QPT_RC ? RTR_RC_MASK : type == IBV_QPT_UC ? RTR_UC_MASK : 0;
	if (from == IBV_QPS_RTR && to == IBV_QPS_RTS)
		return type == IBV_QPT_RC ? RTS_RC_MASK : IBV_QP_SQ_PSN;
	return 0;
}

/* Good values of everything. */
static struct ibv_qp_attr values(const struct vt_end *e, enum ibv_qp_state from,
				 enum ibv_qp_state to)
{
	struct ibv_qp_attr attr = vt_good_attr(e, from, to);

	attr.path_mig_state = IBV_MIG_MIGRATED;
	attr.cap = (struct ibv_qp_cap){ 1, 1, 1, 1, 0 };
	attr.alt_ah_attr = attr.ah_attr;
	attr.alt_port_num = 1;
	attr.alt_timeout = attr.timeout;
	return attr;
}

static void open_self(struct vt_end *e, enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;

	par.type = type;
	vt_end_open(e, &par);
	e->peer = e->self;
}

static void modify(struct vt_end *e, const struct ibv_qp_attr *attr, int mask)
{
	struct ibv_qp_attr a = *attr;

	J(ibv_modify_qp(e->qp, &a, mask));
	j_say("%s", j_qp_state(vt_state(e->qp)));
}

static void transition(struct vt_end *e, enum ibv_qp_state from, enum ibv_qp_state to)
{
	const char *type = j_qp_type(e->par.type);
	int need = needed(e->par.type, from, to) | IBV_QP_STATE;
	struct ibv_qp_attr attr = values(e, from, to);
	struct ibv_qp_attr now;
	struct ibv_qp_init_attr init;

	j_bring(e, from);
	j_case("modify/%s/%s-%s", type, j_qp_state(from), j_qp_state(to));
	modify(e, &attr, need);
	CHECK_OK(ibv_query_qp(e->qp, &now, IBV_QP_STATE, &init));
	if (to == IBV_QPS_SQE || (now.qp_state != to && to != IBV_QPS_RESET) ||
	    (from == IBV_QPS_RESET && to == IBV_QPS_RESET))
		return;
	for (unsigned bit = 1; bit <= NUM_ATTRS; bit++) {
		if (!attr_str[bit])
			continue;
		j_bring(e, from);
		j_case("modify/%s/%s-%s/%s%s", type, j_qp_state(from), j_qp_state(to),
		       need & 1 << bit ? "without-" : "with-", attr_str[bit]);
		modify(e, &attr, need ^ 1 << bit);
	}
}

static void transitions(enum ibv_qp_type type)
{
	struct vt_end e;

	open_self(&e, type);
	for (unsigned i = 0; i < ARRAY_SIZE(j_states); i++)
		for (enum ibv_qp_state to = 0; to <= IBV_QPS_ERR; to++)
			transition(&e, j_states[i], to);
	vt_end_close(&e);
}

static void transitions_rc(void)
{
	transitions(IBV_QPT_RC);
}

static void transitions_uc(void)
{
	transitions(IBV_QPT_UC);
}

static void transitions_ud(void)
{
	transitions(IBV_QPT_UD);
}

/* ---- values ------------------------------------------------------------------------------------ */

/* One attribute of a transition, with that value. */
struct value {
	const char *name;
	int mask;
	size_t off, size; /* in struct ibv_qp_attr */
	uint32_t value;
};
#define V(m, f, v)                                                                                 \
	{                                                                                          \
#f "=" #v, m, offsetof(struct ibv_qp_attr, f),                                     \
			sizeof(((struct ibv_qp_attr *)0)->f), v                                    \
	}
static const struct value values_init[] = {
	V(0, pkey_index, 1),
	V(0, pkey_index, 0xffff),
	V(0, port_num, 0),
	V(0, port_num, 2),
	V(0, port_num, 255),
	V(0, qp_access_flags, 0),
	V(0, qp_access_flags, IBV_ACCESS_LOCAL_WRITE),
	V(0, qp_access_flags, IBV_ACCESS_REMOTE_WRITE),
	V(0, qp_access_flags, IBV_ACCESS_MW_BIND),
	V(0, qp_access_flags, IBV_ACCESS_ZERO_BASED),
	V(0, qp_access_flags, IBV_ACCESS_ON_DEMAND),
	V(0, qp_access_flags, IBV_ACCESS_RELAXED_ORDERING),
	V(0, qp_access_flags, 1u << 30),
	V(0, qkey, 0x80000000),
	V(IBV_QP_CUR_STATE, cur_qp_state, IBV_QPS_RTS),
	V(IBV_QP_CUR_STATE, cur_qp_state, 77),
};
static const struct value values_rtr[] = {
	V(0, path_mtu, 0),
	V(0, path_mtu, IBV_MTU_256),
	V(0, path_mtu, IBV_MTU_4096),
	V(0, path_mtu, 6),
	V(0, dest_qp_num, 0x1000000),
	V(0, dest_qp_num, 0xffffffff),
	V(0, rq_psn, 0xffffff),
	V(0, rq_psn, 0x1000000),
	V(0, max_dest_rd_atomic, 0),
	V(0, max_dest_rd_atomic, 128),
	V(0, max_dest_rd_atomic, 129),
	V(0, max_dest_rd_atomic, 255),
	V(0, min_rnr_timer, 0),
	V(0, min_rnr_timer, 31),
	V(0, min_rnr_timer, 32),
	V(0, min_rnr_timer, 255),
	V(0, ah_attr.is_global, 0),
	V(0, ah_attr.port_num, 0),
	V(0, ah_attr.port_num, 2),
	V(0, ah_attr.sl, 7),
	V(0, ah_attr.sl, 8),
	V(0, ah_attr.sl, 16),
	V(0, ah_attr.src_path_bits, 127),
	V(0, ah_attr.static_rate, 99),
	V(0, ah_attr.dlid, 0xffff),
	V(0, ah_attr.grh.sgid_index, 200),
	V(0, ah_attr.grh.sgid_index, 255),
	V(0, ah_attr.grh.hop_limit, 0),
	V(0, ah_attr.grh.hop_limit, 1),
	V(0, ah_attr.grh.traffic_class, 255),
	V(0, ah_attr.grh.flow_label, 0xfffff),
	V(0, ah_attr.grh.flow_label, 0x100000),
};
static const struct value values_rts[] = {
	V(0, sq_psn, 0xffffff),	  V(0, sq_psn, 0x1000000),  V(0, max_rd_atomic, 0),
	V(0, max_rd_atomic, 128), V(0, max_rd_atomic, 129), V(0, max_rd_atomic, 255),
	V(0, timeout, 0),	  V(0, timeout, 31),	    V(0, timeout, 32),
	V(0, timeout, 255),	  V(0, retry_cnt, 0),	    V(0, retry_cnt, 7),
	V(0, retry_cnt, 8),	  V(0, retry_cnt, 255),	    V(0, rnr_retry, 0),
	V(0, rnr_retry, 7),	  V(0, rnr_retry, 8),	    V(0, rnr_retry, 255),
};

/* And what ibv_query_qp says of it. */
static void value(struct vt_end *e, enum ibv_qp_state from, enum ibv_qp_state to,
		  const struct value *v)
{
	int mask = needed(e->par.type, from, to) | IBV_QP_STATE | v->mask;
	struct ibv_qp_attr attr = values(e, from, to), now;
	struct ibv_qp_init_attr init;
	uint32_t got = 0;

	memcpy((char *)&attr + v->off, &v->value, v->size);
	j_bring(e, from);
	j_case("value/%s/%s", j_qp_type(e->par.type), v->name);
	modify(e, &attr, mask);
	if (ibv_query_qp(e->qp, &now, mask, &init))
		return;
	memcpy(&got, (char *)&now + v->off, v->size);
	if (now.qp_state == to && !v->mask)
		j_say("%x", got);
}

static void attr_values(void)
{
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++) {
		bool ud = j_types[t] == IBV_QPT_UD;
		struct vt_end e;

		open_self(&e, j_types[t]);
		for (unsigned i = 0; i < ARRAY_SIZE(values_init); i++)
			value(&e, IBV_QPS_RESET, IBV_QPS_INIT, &values_init[i]);
		for (unsigned i = 0; i < ARRAY_SIZE(values_rtr) && !ud; i++)
			value(&e, IBV_QPS_INIT, IBV_QPS_RTR, &values_rtr[i]);
		for (unsigned i = 0; i < ARRAY_SIZE(values_rts); i++)
			value(&e, IBV_QPS_RTR, IBV_QPS_RTS, &values_rts[i]);
		vt_end_close(&e);
	}
}

/* Without IBV_QP_STATE, and to states that there are not. */
static void odd_modify(void)
{
	static const unsigned odd[] = { 7, 8, 99, 0xff };

	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++) {
		struct vt_end e;

		open_self(&e, j_types[t]);
		for (unsigned i = 0; i < ARRAY_SIZE(j_states); i++) {
			struct ibv_qp_attr attr = values(&e, j_states[i], j_states[i]);
			const char *s = j_qp_state(j_states[i]);

			j_bring(&e, j_states[i]);
			j_case("odd-modify/%s/%s/nothing", j_qp_type(j_types[t]), s);
			modify(&e, &attr, 0);
			j_case("odd-modify/%s/%s/access-alone", j_qp_type(j_types[t]), s);
			modify(&e, &attr, IBV_QP_ACCESS_FLAGS);
			j_case("odd-modify/%s/%s/qkey-alone", j_qp_type(j_types[t]), s);
			modify(&e, &attr, IBV_QP_QKEY);
			for (unsigned k = 0; k < ARRAY_SIZE(odd); k++) {
				attr.qp_state = (enum ibv_qp_state)odd[k];
				j_case("odd-modify/%s/%s/state-%u", j_qp_type(j_types[t]), s,
				       odd[k]);
				modify(&e, &attr, IBV_QP_STATE);
			}
		}
		vt_end_close(&e);
	}
}

/* ---- posts ------------------------------------------------------------------------------------- */

/* Posted in that state, what came until then and after ERR. */
static void posts(struct vt_end *e, enum ibv_qp_state s)
{
	const char *type = j_qp_type(e->par.type), *state = j_qp_state(s);
	struct ibv_sge sge = vt_sge(e, 0, 64), rsge = vt_sge(e, 4096, 128);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_recv_wr recv = { .wr_id = 2, .sg_list = &rsge, .num_sge = 1 }, *bad_recv;
	struct ibv_ah *ah = NULL;

	if (e->par.type == IBV_QPT_UD) {
		struct ibv_qp_attr attr = values(e, s, s);

		ah = CHECK_PTR(ibv_create_ah(e->pd, &attr.ah_attr));
		wr.wr.ud.ah = ah;
		wr.wr.ud.remote_qpn = e->qp->qp_num;
		wr.wr.ud.remote_qkey = VT_QKEY;
	}
	j_bring(e, s);
	j_case("post/%s/%s/recv", type, state);
	J(ibv_post_recv(e->qp, &recv, &bad_recv));
	if (s == IBV_QPS_ERR)
		j_wcs(e->rcq, 1, 200);
	j_case("post/%s/%s/send", type, state);
	bad = NULL;
	if (J(ibv_post_send(e->qp, &wr, &bad)))
		j_say("%s", bad == &wr ? "bad" : "bad?");
	if (s == IBV_QPS_RTS || s == IBV_QPS_ERR)
		j_wcs(e->scq, 1, 500);
	if (s == IBV_QPS_RTS) {
		j_case("post/%s/%s/received", type, state);
		j_wcs(e->rcq, 1, 200);
	}
	if (s != IBV_QPS_RESET && s != IBV_QPS_ERR) {
		CHECK_OK(ibv_post_recv(e->qp, &recv, &bad_recv));
		CHECK_OK(vt_to_state(e->qp, IBV_QPS_ERR));
		j_case("post/%s/%s/flushed-recv", type, state);
		j_wcs(e->rcq, s == IBV_QPS_RTS ? 1 : 2, 500);
		j_case("post/%s/%s/flushed-send", type, state);
		j_wcs(e->scq, s == IBV_QPS_SQD ? 1 : 0, 500);
	}
	if (ah)
		CHECK_OK(ibv_destroy_ah(ah));
}

static void posts_in_states(void)
{
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		for (unsigned i = 0; i < ARRAY_SIZE(j_states); i++) {
			struct vt_end e;

			open_self(&e, j_types[t]);
			posts(&e, j_states[i]);
			vt_end_close(&e);
		}
}

/* ---- what ibv_query_qp tells ------------------------------------------------------------------- */

static void query(void)
{
	for (unsigned t = 0; t < ARRAY_SIZE(j_types); t++)
		for (unsigned i = 0; i < ARRAY_SIZE(j_states); i++) {
			const char *type = j_qp_type(j_types[t]), *state = j_qp_state(j_states[i]);
			bool path = i > 1 && i < 5 && j_types[t] != IBV_QPT_UD;
			struct ibv_qp_init_attr init;
			struct ibv_qp_attr a;
			struct vt_end e;

			open_self(&e, j_types[t]);
			j_bring(&e, j_states[i]);
			memset(&a, 0, sizeof(a));
			memset(&init, 0, sizeof(init));
			j_case("query/%s/%s", type, state);
			J(ibv_query_qp(e.qp, &a, (1 << 21) - 1, &init));
			j_say("%s port=%u access=%x mtu=%u", j_qp_state(a.qp_state), a.port_num,
			      a.qp_access_flags, path ? a.path_mtu : 0);
			j_say("qkey=%x dest=%s rd=%u/%u", a.qkey,
			      a.dest_qp_num == e.qp->qp_num ? "self" :
			      a.dest_qp_num		    ? "other" :
							      "0",
			      a.max_rd_atomic, a.max_dest_rd_atomic);
			j_say("timeout=%u retry=%u rnr=%u min_rnr=%u", a.timeout, a.retry_cnt,
			      a.rnr_retry, a.min_rnr_timer);
			j_say("psn=%d/%d", a.sq_psn == e.self.psn, a.rq_psn == e.self.psn);
			j_say("drain=%u", a.sq_draining);
			j_case("query/%s/%s/cur", type, state);
			j_say("%s", j_qp_state(a.cur_qp_state));
			j_case("query/%s/%s/init", type, state);
			j_say("%s cqs=%d,%d srq=%d all=%d context=%d", j_qp_type(init.qp_type),
			      init.send_cq == e.scq, init.recv_cq == e.rcq, init.srq != NULL,
			      init.sq_sig_all, init.qp_context == e.qp->qp_context);
			if (path) {
				j_case("query/%s/%s/path", type, state);
				j_say("global=%u port=%u sgid=%d gid=%d", a.ah_attr.is_global,
				      a.ah_attr.port_num,
				      a.ah_attr.grh.sgid_index == vt_gid_index(),
				      !memcmp(&a.ah_attr.grh.dgid, &e.self.gid, 16));
			}
			vt_end_close(&e);
		}
}

JUDGE_GROUPS(judge_qp, { "modify/RC", transitions_rc, 60 }, { "modify/UC", transitions_uc, 60 },
	     { "modify/UD", transitions_ud, 60 }, { "value", attr_values, 60 },
	     { "odd-modify", odd_modify, 0 }, { "post", posts_in_states, 60 },
	     { "query", query, 0 })
