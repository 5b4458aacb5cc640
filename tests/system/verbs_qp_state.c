/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: system-san system-tsan */
/* night: docker */
/* timeout: 600 */
/*
 * verbs_qp_state.c - the state machine of RC, UC and UD QPs: which transitions exist, what each
 * needs and allows (IBTA 10.3.1, table 91), what is posted in each.
 * What SQD, ERR and RESET do with the queues is in verbs_qp_drain.c.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>

#define ANY -1

/* Attributes that a transition requires and those that it allows besides, by type. */
struct transition {
	int from, to; /* enum ibv_qp_state; from may be ANY */
	struct {
		int req, opt;
	} rc, uc, ud;
};

#define A_AV	  IBV_QP_AV
#define A_ACCESS  IBV_QP_ACCESS_FLAGS
#define A_PKEY	  IBV_QP_PKEY_INDEX
#define A_CUR	  IBV_QP_CUR_STATE
#define A_RNRT	  IBV_QP_MIN_RNR_TIMER
#define A_INIT	  (A_PKEY | IBV_QP_PORT | A_ACCESS)
#define A_INIT_UD (A_PKEY | IBV_QP_PORT | IBV_QP_QKEY)
#define A_RTR_UC  (A_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN)
#define A_RTR	  (A_RTR_UC | IBV_QP_MAX_DEST_RD_ATOMIC | A_RNRT)
#define A_RTS                                                                                      \
	(IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |                    \
	 IBV_QP_MAX_QP_RD_ATOMIC)
#define A_SQD                                                                                      \
	(IBV_QP_PORT | A_AV | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |               \
	 IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_MAX_DEST_RD_ATOMIC | A_ACCESS | A_PKEY | A_RNRT)
/* Alternate paths are left out: a device without path migration may refuse them. */
#define A_ALL                                                                                      \
	(A_CUR | IBV_QP_EN_SQD_ASYNC_NOTIFY | A_ACCESS | A_PKEY | IBV_QP_PORT | IBV_QP_QKEY |      \
	 A_RTR | A_RTS)

static const struct transition transitions[] = {
	{ ANY, IBV_QPS_RESET, { 0, 0 }, { 0, 0 }, { 0, 0 } },
	{ ANY, IBV_QPS_ERR, { 0, 0 }, { 0, 0 }, { 0, 0 } },
	{ IBV_QPS_RESET, IBV_QPS_INIT, { A_INIT, 0 }, { A_INIT, 0 }, { A_INIT_UD, 0 } },
	{ IBV_QPS_INIT, IBV_QPS_INIT, { 0, A_INIT }, { 0, A_INIT }, { 0, A_INIT_UD } },
	{ IBV_QPS_INIT,
	  IBV_QPS_RTR,
	  { A_RTR, A_ACCESS | A_PKEY },
	  { A_RTR_UC, A_ACCESS | A_PKEY },
	  { 0, A_PKEY | IBV_QP_QKEY } },
	{ IBV_QPS_RTR,
	  IBV_QPS_RTS,
	  { A_RTS, A_CUR | A_ACCESS | A_RNRT },
	  { IBV_QP_SQ_PSN, A_CUR | A_ACCESS },
	  { IBV_QP_SQ_PSN, A_CUR | IBV_QP_QKEY } },
	{ IBV_QPS_RTS,
	  IBV_QPS_RTS,
	  { 0, A_CUR | A_ACCESS | A_RNRT },
	  { 0, A_CUR | A_ACCESS },
	  { 0, A_CUR | IBV_QP_QKEY } },
	{ IBV_QPS_RTS,
	  IBV_QPS_SQD,
	  { 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	  { 0, IBV_QP_EN_SQD_ASYNC_NOTIFY },
	  { 0, IBV_QP_EN_SQD_ASYNC_NOTIFY } },
	{ IBV_QPS_SQD,
	  IBV_QPS_RTS,
	  { 0, A_CUR | A_ACCESS | A_RNRT },
	  { 0, A_CUR | A_ACCESS },
	  { 0, A_CUR | IBV_QP_QKEY } },
	{ IBV_QPS_SQD,
	  IBV_QPS_SQD,
	  { 0, A_SQD },
	  { 0, A_AV | A_ACCESS | A_PKEY },
	  { 0, A_PKEY | IBV_QP_QKEY } },
};

static const enum ibv_qp_state states[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR,
					    IBV_QPS_RTS,   IBV_QPS_SQD,	 IBV_QPS_ERR };

static const struct transition *find(int from, int to)
{
	for (unsigned i = 0; i < ARRAY_SIZE(transitions); i++)
		if ((transitions[i].from == ANY || transitions[i].from == from) &&
		    transitions[i].to == to &&
		    !(from == IBV_QPS_RESET && to == IBV_QPS_ERR)) /* the one way out is INIT */
			return &transitions[i];
	return NULL;
}

static void masks(const struct transition *t, enum ibv_qp_type type, int *req, int *opt)
{
	*req = type == IBV_QPT_RC ? t->rc.req : type == IBV_QPT_UC ? t->uc.req : t->ud.req;
	*opt = type == IBV_QPT_RC ? t->rc.opt : type == IBV_QPT_UC ? t->uc.opt : t->ud.opt;
}

static int step(struct vt_end *e, int from, int to, int mask)
{
	struct ibv_qp_attr attr = vt_good_attr(e, from, to);

	return VERB_ERRNO(ibv_modify_qp(e->qp, &attr, mask | IBV_QP_STATE));
}

/* Bring the QP from RESET to that state on the shortest way. */
static void bring(struct vt_end *e, int state)
{
	static const int way[] = { IBV_QPS_RESET, IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS,
				   IBV_QPS_SQD };
	int req, opt;

	CHECK_OK(step(e, ANY, IBV_QPS_RESET, 0));
	if (state == IBV_QPS_ERR) { /* not from RESET */
		bring(e, IBV_QPS_INIT);
		CHECK_OK(step(e, ANY, IBV_QPS_ERR, 0));
		return;
	}
	for (unsigned i = 1; way[i - 1] != state; i++) {
		masks(find(way[i - 1], way[i]), e->par.type, &req, &opt);
		CHECK_OK(step(e, way[i - 1], way[i], req));
	}
}

static void refuses(struct vt_end *e, int from, int to, int mask, const char *what)
{
	int err = step(e, from, to, mask);

	if (err != EINVAL)
		FAIL("state %d to %d with attributes 0x%x (%s) gave \"%s\", not EINVAL", from, to,
		     mask, what, err ? strerror(err) : "no error");
	if ((int)vt_state(e->qp) != from)
		FAIL("a refused change from state %d to %d left state %d", from, to,
		     vt_state(e->qp));
}

static void accepts(struct vt_end *e, int from, int to, int mask)
{
	int err = step(e, from, to, mask);

	if (err)
		FAIL("state %d to %d with attributes 0x%x gave \"%s\"", from, to, mask,
		     strerror(err));
	CHECK_EQ(vt_state(e->qp), to);
	CHECK_EQ(e->qp->state, to);
}

static void table(enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	par.type = type;
	vt_end_open(&e, &par);
	for (unsigned f = 0; f < ARRAY_SIZE(states); f++) {
		for (unsigned t = 0; t < ARRAY_SIZE(states); t++) {
			int from = states[f], to = states[t], req, opt;
			const struct transition *tr = find(from, to);

			bring(&e, from);
			if (!tr) {
				refuses(&e, from, to, 0, "no such transition");
				continue;
			}
			masks(tr, type, &req, &opt);
			for (int bit = 1; bit <= A_ALL; bit <<= 1) {
				if (req & bit)
					refuses(&e, from, to, req & ~bit, "required one missing");
				if ((A_ALL & bit) && !((req | opt) & bit))
					refuses(&e, from, to, req | bit, "one not allowed");
			}
			accepts(&e, from, to, req);
			for (int bit = 1; bit <= A_ALL; bit <<= 1) {
				if (!(opt & bit))
					continue;
				bring(&e, from);
				accepts(&e, from, to, req | bit);
			}
			bring(&e, from);
			accepts(&e, from, to, req | opt);
		}
	}
	for (unsigned i = 0; i < ARRAY_SIZE(states); i++) {
		bring(&e, states[i]);
		CHECK_ERR(step(&e, states[i], 42, 0), EINVAL);
		CHECK_ERR(step(&e, states[i], IBV_QPS_SQE, 0), EINVAL);
		CHECK_EQ(vt_state(e.qp), states[i]);
		CHECK_OK(ibv_destroy_qp(e.qp)); /* possible in each state */
		e.qp = vt_make_qp(&e);
	}
	vt_end_close(&e);
}

static void table_rc(void)
{
	table(IBV_QPT_RC);
}
static void table_uc(void)
{
	table(IBV_QPT_UC);
}
static void table_ud(void)
{
	table(IBV_QPT_UD);
}

/* Values that cannot be: EINVAL, and the QP stays as it was. */
static void bad_values(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_device_attr dev;
	struct ibv_port_attr port;
	struct vt_end e;

	vt_end_open(&e, &par);
	CHECK_OK(ibv_query_device(e.ctx, &dev));
	CHECK_OK(ibv_query_port(e.ctx, 1, &port));
#define REFUSED(from, to, mask, field, value)                                                      \
	do {                                                                                       \
		struct ibv_qp_attr attr_ = vt_good_attr(&e, from, to);                             \
		attr_.field = (value);                                                             \
		bring(&e, from);                                                                   \
		CHECK_ERR(ibv_modify_qp(e.qp, &attr_, IBV_QP_STATE | (mask)), EINVAL);             \
		CHECK_EQ(vt_state(e.qp), from);                                                    \
	} while (0)
	REFUSED(IBV_QPS_RESET, IBV_QPS_INIT, A_INIT, port_num, 0);
	REFUSED(IBV_QPS_RESET, IBV_QPS_INIT, A_INIT, port_num, dev.phys_port_cnt + 1);
	REFUSED(IBV_QPS_RESET, IBV_QPS_INIT, A_INIT, pkey_index, port.pkey_tbl_len);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, path_mtu, 0);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, path_mtu, 6);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, path_mtu, port.active_mtu + 1);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, max_dest_rd_atomic, dev.max_qp_rd_atom + 1);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, min_rnr_timer, 32);
	REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, ah_attr.port_num, 7);
	if (port.gid_tbl_len < 256)
		REFUSED(IBV_QPS_INIT, IBV_QPS_RTR, A_RTR, ah_attr.grh.sgid_index, port.gid_tbl_len);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, A_RTS, max_rd_atomic, dev.max_qp_init_rd_atom + 1);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, A_RTS, timeout, 32);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, A_RTS, retry_cnt, 8);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, A_RTS, rnr_retry, 8);
	REFUSED(IBV_QPS_RTR, IBV_QPS_RTS, A_RTS | A_CUR, cur_qp_state, IBV_QPS_INIT);
	REFUSED(IBV_QPS_RTS, IBV_QPS_RTS, A_CUR, cur_qp_state, IBV_QPS_SQD);
#undef REFUSED
	vt_end_close(&e);
}

/* ibv_query_qp gives back what ibv_modify_qp was given. */
static void query_returns_attributes(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr init;
	struct ibv_qp_attr set, got;
	struct vt_end e;

	par.sig_all = true;
	vt_end_open(&e, &par);
	set = vt_good_attr(&e, IBV_QPS_RESET, IBV_QPS_INIT);
	set.qp_access_flags = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	set.path_mtu = IBV_MTU_512;
	set.dest_qp_num = 0x123456;
	set.rq_psn = 0xabcdef;
	set.sq_psn = 0x654321;
	set.max_dest_rd_atomic = 3;
	set.max_rd_atomic = 2;
	set.min_rnr_timer = 21;
	set.timeout = 17;
	set.retry_cnt = 5;
	set.rnr_retry = 4;
	set.ah_attr.sl = 3;
	set.ah_attr.grh.flow_label = 0x54321;
	set.ah_attr.grh.hop_limit = 33;
	set.ah_attr.grh.traffic_class = 0x28;

	CHECK_OK(ibv_query_qp(e.qp, &got, 0x1fffff, &init));
	CHECK_EQ(got.qp_state, IBV_QPS_RESET);
	CHECK_EQ(init.qp_type, IBV_QPT_RC);
	CHECK_EQ(init.sq_sig_all, 1);
	CHECK(init.send_cq == e.scq && init.recv_cq == e.rcq && !init.srq);
	CHECK(init.qp_context == e.qp->qp_context);

	CHECK_OK(ibv_modify_qp(e.qp, &set, IBV_QP_STATE | A_INIT));
	set.qp_state = IBV_QPS_RTR;
	CHECK_OK(ibv_modify_qp(e.qp, &set, IBV_QP_STATE | A_RTR));
	set.qp_state = IBV_QPS_RTS;
	CHECK_OK(ibv_modify_qp(e.qp, &set, IBV_QP_STATE | A_RTS));
	CHECK_OK(ibv_query_qp(e.qp, &got, 0x1fffff, &init));
#define SAME(field) CHECK_EQ(got.field, set.field)
	SAME(qp_state);
	SAME(qp_access_flags);
	SAME(path_mtu);
	SAME(dest_qp_num);
	SAME(rq_psn);
	SAME(sq_psn);
	SAME(max_dest_rd_atomic);
	SAME(max_rd_atomic);
	SAME(min_rnr_timer);
	SAME(timeout);
	SAME(retry_cnt);
	SAME(rnr_retry);
	SAME(port_num);
	SAME(pkey_index);
	SAME(ah_attr.sl);
	SAME(ah_attr.is_global);
	SAME(ah_attr.port_num);
	SAME(ah_attr.grh.sgid_index);
	SAME(ah_attr.grh.hop_limit);
	SAME(ah_attr.grh.traffic_class);
	SAME(ah_attr.grh.flow_label);
#undef SAME
	CHECK(!memcmp(&got.ah_attr.grh.dgid, &set.ah_attr.grh.dgid, 16));
	CHECK_EQ(got.cur_qp_state, IBV_QPS_RTS);
	CHECK_EQ(got.sq_draining, 0);
	CHECK(got.cap.max_send_wr >= par.send_wr && got.cap.max_recv_wr >= par.recv_wr);

	/* an attribute changed in RTS */
	set.qp_access_flags = IBV_ACCESS_REMOTE_READ;
	set.min_rnr_timer = 9;
	CHECK_OK(ibv_modify_qp(e.qp, &set, A_ACCESS | A_RNRT));
	CHECK_OK(ibv_query_qp(e.qp, &got, A_ACCESS | A_RNRT, &init));
	CHECK_EQ(got.qp_access_flags, IBV_ACCESS_REMOTE_READ);
	CHECK_EQ(got.min_rnr_timer, 9);
	vt_end_close(&e);
}

static int try_send(struct vt_end *e)
{
	struct ibv_sge sge = vt_sge(e, 0, 8);
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = &sge,
				  .num_sge = 1,
				  .opcode = IBV_WR_SEND,
				  .send_flags = IBV_SEND_SIGNALED };

	return vt_post(e, &wr);
}

/* Sends are refused before RTS, receives are taken from INIT on. */
static void posting_by_state(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge;
	struct ibv_recv_wr rr = { .wr_id = 77, .sg_list = &sge, .num_sge = 1 };
	struct vt_end a, b;

	vt_end_open(&a, &par);
	vt_end_open(&b, &par);
	sge = vt_sge(&a, 0, 8);
	CHECK_EQ(try_send(&a), EINVAL);
	CHECK_EQ(vt_post_recv(&a, &rr), EINVAL);
	CHECK_OK(vt_to_init(a.qp, &par));
	CHECK_EQ(try_send(&a), EINVAL);
	vt_recv(&a, 1, 0, 8);
	CHECK_OK(vt_to_rtr(a.qp, &par, &b.self));
	CHECK_EQ(try_send(&a), EINVAL);
	vt_recv(&a, 2, 0, 8);
	vt_connect(&b, &a.self);
	/* in RTR it already receives and serves RDMA */
	vt_send(&b, 3, 0, 8, IBV_SEND_SIGNALED);
	vt_rdma(&b, IBV_WR_RDMA_WRITE, 4, 0, 8, 0, IBV_SEND_SIGNALED);
	vt_rdma(&b, IBV_WR_RDMA_READ, 5, 0, 8, 0, IBV_SEND_SIGNALED);
	for (unsigned i = 3; i <= 5; i++)
		WANT_OK(b.scq, i);
	WANT_OK(a.rcq, 1);
	CHECK_OK(vt_to_rts(a.qp, &par, a.self.psn));
	a.peer = b.self;
	vt_send(&b, 6, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(b.scq, 6);
	WANT_OK(a.rcq, 2);
	vt_check_alive(&a, &b);
	CHECK_EMPTY(a.rcq);
	vt_pair_close(&a, &b);
}

VT_MAIN({ "state_table_rc", table_rc, 0 }, { "state_table_uc", table_uc, 0 },
	{ "state_table_ud", table_ud, 0 }, { "state_bad_values", bad_values, 0 },
	{ "state_query", query_returns_attributes, 0 }, { "state_posting", posting_by_state, 0 })
