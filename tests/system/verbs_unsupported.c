/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread -ldl */
/* timeout: 300 */
/*
 * verbs_unsupported.c - what makes no sense on this device says EOPNOTSUPP, in each verb's own way
 * of failing: NULL and errno, the errno as the result, or -1 and errno. ffl(7) has the list, which is
 * gone through in walk(); tests/conformance/unsupported.sh compares them. After all of it the device
 * works on.
 */
#include "tests/rig/verbs/vt.h"

#include <dlfcn.h>

static struct vt_end e;

static void open_end(void)
{
	struct vt_param par = VT_PARAM;

	vt_end_open(&e, &par);
	vt_connect(&e, &e.self);
}

static void close_end(void)
{
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, 100, 1000, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	vt_end_close(&e);
}

/* An int verb: the errno is the result, so 0 and -1 are both wrong. */
#define CHECK_RESULT(expr) CHECK_EQ(expr, EOPNOTSUPP)

static void qp_types(void)
{
	static const enum ibv_qp_type types[] = { IBV_QPT_RAW_PACKET, IBV_QPT_DRIVER };
	struct ibv_qp_init_attr init;
	struct ibv_qp_init_attr_ex ex;

	open_end();
	init = (struct ibv_qp_init_attr){ .send_cq = e.scq,
					  .recv_cq = e.rcq,
					  .cap = { 4, 4, 1, 1, 0 } };
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++) {
		init.qp_type = types[i];
		CHECK_NULL(ibv_create_qp(e.pd, &init), EOPNOTSUPP);
		ex = (struct ibv_qp_init_attr_ex){ .send_cq = e.scq,
						   .recv_cq = e.rcq,
						   .cap = init.cap,
						   .qp_type = types[i],
						   .comp_mask = IBV_QP_INIT_ATTR_PD |
								IBV_QP_INIT_ATTR_CREATE_FLAGS,
						   .pd = e.pd };
		CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EOPNOTSUPP);
	}
	close_end();
}

static void qp_attributes(void)
{
	static const uint32_t flags[] = { IBV_QP_CREATE_SCATTER_FCS, IBV_QP_CREATE_CVLAN_STRIPPING,
					  IBV_QP_CREATE_SOURCE_QPN,
					  IBV_QP_CREATE_PCI_WRITE_END_PADDING };
	struct ibv_qp_init_attr_ex ok, ex;
	struct ibv_qp_attr attr = { 0 };

	open_end();
	ok = (struct ibv_qp_init_attr_ex){ .send_cq = e.scq,
					   .recv_cq = e.rcq,
					   .cap = { 4, 4, 1, 1, 0 },
					   .qp_type = IBV_QPT_UD,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = e.pd };
	for (unsigned i = 0; i < ARRAY_SIZE(flags); i++) {
		ex = ok;
		ex.comp_mask |= IBV_QP_INIT_ATTR_CREATE_FLAGS;
		ex.create_flags = flags[i];
		CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EOPNOTSUPP);
	}
	ex = ok;
	ex.comp_mask |= IBV_QP_INIT_ATTR_MAX_TSO_HEADER;
	ex.max_tso_header = 64;
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EOPNOTSUPP);
	ex = ok;
	ex.comp_mask |= IBV_QP_INIT_ATTR_RX_HASH;
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EOPNOTSUPP);
	ex = ok;
	ex.comp_mask |= IBV_QP_INIT_ATTR_IND_TABLE;
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EOPNOTSUPP);
	ex = ok;
	ex.comp_mask |= IBV_QP_INIT_ATTR_SEND_OPS_FLAGS;
	ex.send_ops_flags = IBV_QP_EX_WITH_TSO;
	CHECK_NULL(ibv_create_qp_ex(e.ctx, &ex), EOPNOTSUPP);
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, IBV_QP_RATE_LIMIT));
	CHECK_RESULT(ibv_modify_qp_rate_limit(e.qp, &(struct ibv_qp_rate_limit_attr){ 0 }));
	close_end();
}

static void steering(void)
{
	struct ibv_flow_attr attr = { .type = IBV_FLOW_ATTR_NORMAL,
				      .size = sizeof(attr),
				      .port = 1 };
	struct ibv_flow_action_esp_attr esp = { 0 };
	struct ibv_flow flow;
	struct ibv_flow_action action;

	open_end();
	CHECK_NULL(ibv_create_flow(e.qp, &attr), EOPNOTSUPP);
	flow = (struct ibv_flow){ .context = e.ctx };
	CHECK_RESULT(ibv_destroy_flow(&flow));
	CHECK_NULL(ibv_create_flow_action_esp(e.ctx, &esp), EOPNOTSUPP);
	action = (struct ibv_flow_action){ .context = e.ctx };
	CHECK_RESULT(ibv_modify_flow_action_esp(&action, &esp));
	CHECK_RESULT(ibv_destroy_flow_action(&action));
	close_end();
}

static void work_queues(void)
{
	struct ibv_wq_init_attr init = { .wq_type = IBV_WQT_RQ, .max_wr = 4, .max_sge = 1 };
	struct ibv_rwq_ind_table_init_attr table = { 0 };
	struct ibv_wq_attr attr = { .attr_mask = IBV_WQ_ATTR_STATE, .wq_state = IBV_WQS_RDY };
	struct ibv_wq wq;
	struct ibv_rwq_ind_table ind;

	open_end();
	init.pd = e.pd;
	init.cq = e.rcq;
	CHECK_NULL(ibv_create_wq(e.ctx, &init), EOPNOTSUPP);
	wq = (struct ibv_wq){ .context = e.ctx };
	CHECK_RESULT(ibv_modify_wq(&wq, &attr));
	CHECK_RESULT(ibv_destroy_wq(&wq));
	CHECK_NULL(ibv_create_rwq_ind_table(e.ctx, &table), EOPNOTSUPP);
	ind = (struct ibv_rwq_ind_table){ .context = e.ctx };
	CHECK_RESULT(ibv_destroy_rwq_ind_table(&ind));
	close_end();
}

static void counters(void)
{
	struct ibv_counters_init_attr init = { 0 };
	struct ibv_counter_attach_attr attach = { .counter_desc = IBV_COUNTER_PACKETS };
	struct ibv_counters c;
	struct ibv_flow flow;
	uint64_t value;

	open_end();
	CHECK_NULL(ibv_create_counters(e.ctx, &init), EOPNOTSUPP);
	c = (struct ibv_counters){ .context = e.ctx };
	flow = (struct ibv_flow){ .context = e.ctx };
	CHECK_RESULT(ibv_attach_counters_point_flow(&c, &attach, &flow));
	CHECK_RESULT(ibv_read_counters(&c, &value, 1, 0));
	CHECK_RESULT(ibv_destroy_counters(&c));
	close_end();
}

static void tag_matching(void)
{
	struct ibv_srq_init_attr_ex init = {
		.attr = { .max_wr = 4, .max_sge = 1 },
		.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD | IBV_SRQ_INIT_ATTR_CQ |
			     IBV_SRQ_INIT_ATTR_TM,
		.srq_type = IBV_SRQT_TM,
		.tm_cap = { .max_num_tags = 4, .max_ops = 4 },
	};
	struct ibv_srq_init_attr plain = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_ops_wr op = { .wr_id = 1, .opcode = IBV_WR_TAG_ADD }, *bad = NULL;
	struct ibv_srq_attr attr = { .max_wr = 8 };
	struct ibv_srq *srq;

	open_end();
	init.pd = e.pd;
	init.cq = e.rcq;
	CHECK_NULL(ibv_create_srq_ex(e.ctx, &init), EOPNOTSUPP);
	srq = CHECK_PTR(ibv_create_srq(e.pd, &plain));
	CHECK_RESULT(ibv_post_srq_ops(srq, &op, &bad));
	CHECK(bad == &op);
	CHECK_RESULT(ibv_modify_srq(srq, &attr, IBV_SRQ_MAX_WR));
	CHECK_OK(ibv_destroy_srq(srq));
	close_end();
}

static void completion_fields(void)
{
	static const uint64_t fields[] = { IBV_WC_EX_WITH_CVLAN, IBV_WC_EX_WITH_FLOW_TAG,
					   IBV_WC_EX_WITH_TM_INFO };
	struct ibv_cq_init_attr_ex init = { .cqe = 4 };

	open_end();
	for (unsigned i = 0; i < ARRAY_SIZE(fields); i++) {
		init.wc_flags = IBV_WC_STANDARD_FLAGS | fields[i];
		CHECK_NULL(ibv_create_cq_ex(e.ctx, &init), EOPNOTSUPP);
	}
	init.wc_flags = IBV_WC_STANDARD_FLAGS;
	init.comp_mask = IBV_CQ_INIT_ATTR_MASK_FLAGS;
	init.flags = IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN;
	CHECK_NULL(ibv_create_cq_ex(e.ctx, &init), EOPNOTSUPP);
	close_end();
}

static void memory(void)
{
	open_end();
	CHECK_NULL(ibv_import_dm(e.ctx, 1), EOPNOTSUPP);
	close_end();
}

/* Migration of paths, and addresses that Ethernet would resolve: the router finds the peer. */
static void paths(void)
{
	struct ibv_qp_attr attr = { .path_mig_state = IBV_MIG_REARM };
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1 };
	uint8_t mac[6];
	uint16_t vid;

	open_end();
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, IBV_QP_ALT_PATH));
	CHECK_RESULT(ibv_modify_qp(e.qp, &attr, IBV_QP_PATH_MIG_STATE));
	ah.grh.dgid = e.self.gid;
	CHECK_EQ(ibv_resolve_eth_l2_from_gid(e.ctx, &ah, mac, &vid), -EOPNOTSUPP);
	close_end();
}

/* Operations that a posting of another device might carry. */
static void opcodes(void)
{
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1 }, *bad = NULL;

	open_end();
	sge = vt_sge(&e, 0, 8);
	wr.opcode = IBV_WR_TSO;
	CHECK_RESULT(ibv_post_send(e.qp, &wr, &bad));
	CHECK(bad == &wr);
	wr.opcode = IBV_WR_DRIVER1;
	CHECK_RESULT(ibv_post_send(e.qp, &wr, &bad));
	close_end();
}

/* Each operation on a QP of each type, in ERR: what is taken is flushed. -1: not tried here. */
static void each_opcode(void)
{
	enum { TAKEN = 0, OTHER = EINVAL, NEVER = EOPNOTSUPP };
	static const struct {
		unsigned opcode;
		int rc, uc, ud;
	} op[] = {
		{ IBV_WR_RDMA_WRITE, TAKEN, TAKEN, OTHER },
		{ IBV_WR_RDMA_WRITE_WITH_IMM, TAKEN, TAKEN, OTHER },
		{ IBV_WR_SEND, TAKEN, TAKEN, TAKEN },
		{ IBV_WR_SEND_WITH_IMM, TAKEN, TAKEN, TAKEN },
		{ IBV_WR_RDMA_READ, TAKEN, OTHER, OTHER },
		{ IBV_WR_ATOMIC_CMP_AND_SWP, TAKEN, OTHER, OTHER },
		{ IBV_WR_ATOMIC_FETCH_AND_ADD, TAKEN, OTHER, OTHER },
		{ IBV_WR_LOCAL_INV, TAKEN, TAKEN, OTHER },
		{ IBV_WR_BIND_MW, -1, -1, OTHER }, /* a window is needed */
		{ IBV_WR_SEND_WITH_INV, TAKEN, OTHER, OTHER },
		{ IBV_WR_TSO, NEVER, NEVER, NEVER },
		{ IBV_WR_DRIVER1, NEVER, NEVER, NEVER },
		{ 12, OTHER, OTHER, OTHER },
		{ 13, OTHER, OTHER, OTHER },
		{ 14 /* IBV_WR_FLUSH */, NEVER, NEVER, NEVER },
		{ IBV_WR_ATOMIC_WRITE, TAKEN, OTHER, OTHER },
		{ 16, OTHER, OTHER, OTHER },
		{ 31, OTHER, OTHER, OTHER },
		{ 32, OTHER, OTHER, OTHER },
		{ UINT32_MAX, OTHER, OTHER, OTHER },
	};
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };

	for (unsigned t = 0; t < ARRAY_SIZE(types); t++) {
		struct vt_param par = VT_PARAM;
		struct vt_end x;

		par.type = types[t];
		par.qp_access = types[t] == IBV_QPT_RC ? VT_ACCESS_ALL : IBV_ACCESS_REMOTE_WRITE;
		vt_end_open(&x, &par);
		vt_connect(&x, &x.self);
		CHECK_OK(ibv_modify_qp(x.qp, &(struct ibv_qp_attr){ .qp_state = IBV_QPS_ERR },
				       IBV_QP_STATE));
		for (unsigned i = 0; i < ARRAY_SIZE(op); i++) {
			struct ibv_sge sge = vt_sge(&x, 0, 8);
			struct ibv_send_wr wr = { .wr_id = i,
						  .sg_list = &sge,
						  .num_sge = 1,
						  .opcode = (enum ibv_wr_opcode)op[i].opcode };
			struct ibv_send_wr *bad = NULL;
			int want = !t ? op[i].rc : t == 1 ? op[i].uc : op[i].ud, ret;

			if (want < 0)
				continue;
			if (types[t] == IBV_QPT_UD) {
				wr.wr.ud.ah = x.ah;
				wr.wr.ud.remote_qpn = x.qp->qp_num;
			}
			ret = ibv_post_send(x.qp, &wr, &bad);
			if (ret != want || bad != (want ? &wr : NULL))
				FAIL("opcode %u, QP type %d: %d, not %d", op[i].opcode, types[t],
				     ret, want);
			if (!want)
				CHECK_EQ(vt_wc(x.scq).status, IBV_WC_WR_FLUSH_ERR);
		}
		CHECK_EMPTY(x.scq);
		vt_end_close(&x);
	}
}

/* ---- the list of ffl(7) ------------------------------------------------------------------------------- */

/*
 * All of the list, in its order, without a look at what they are given: BAD would crash whoever looked at
 * it. Those that are inline in the headers are called with objects of nothing but a context. Verbs that
 * are younger than the headers of Debian 12 are called by name.
 */
#define BAD ((void *)16)
enum way { POINTER, RESULT, MINUS_ONE, NEGATIVE };

static struct ibv_context *ctx;
static const char *younger; /* the name of the row that runs */

static void *by_name(void)
{
	void *f = dlsym(RTLD_DEFAULT, younger);

	if (!f)
		FAIL("%s is missing", younger);
	return f;
}

static void *new_pointer(void)
{
	return ((void *(*)(void *, void *, void *))by_name())(BAD, BAD, BAD);
}

static intptr_t new_int(void)
{
	return ((int (*)(void *, void *, void *))by_name())(BAD, BAD, BAD);
}

/* The capabilities of what there is not are zeros, as long as the program's struct is. */
static intptr_t no_caps(void)
{
	int (*f)(void *, void *, size_t) = (int (*)(void *, void *, size_t))by_name();
	uint8_t caps[24];
	int ret;

	memset(caps, 0xff, sizeof(caps));
	ret = f(ctx, caps, 16);
	CHECK(vt_all(caps, 16, 0) && vt_all(caps + 16, 8, 0xff));
	return ret;
}

#define VERBS(X)                                                                                   \
	X(ibv_create_flow, POINTER,                                                                \
	  ibv_create_flow(&(struct ibv_qp){ .context = ctx }, &(struct ibv_flow_attr){ 0 }))       \
	X(ibv_create_flow_action_esp, POINTER, ibv_create_flow_action_esp(ctx, BAD))               \
	X(ibv_destroy_flow, RESULT, ibv_destroy_flow(&(struct ibv_flow){ .context = ctx }))        \
	X(ibv_modify_flow_action_esp, RESULT,                                                      \
	  ibv_modify_flow_action_esp(&(struct ibv_flow_action){ .context = ctx }, BAD))            \
	X(ibv_destroy_flow_action, RESULT,                                                         \
	  ibv_destroy_flow_action(&(struct ibv_flow_action){ .context = ctx }))                    \
	X(ibv_create_counters, POINTER, ibv_create_counters(ctx, BAD))                             \
	X(ibv_attach_counters_point_flow, RESULT,                                                  \
	  ibv_attach_counters_point_flow(&(struct ibv_counters){ .context = ctx }, BAD, BAD))      \
	X(ibv_read_counters, RESULT,                                                               \
	  ibv_read_counters(&(struct ibv_counters){ .context = ctx }, BAD, 1, 0))                  \
	X(ibv_destroy_counters, RESULT,                                                            \
	  ibv_destroy_counters(&(struct ibv_counters){ .context = ctx }))                          \
	X(ibv_create_wq, POINTER, ibv_create_wq(ctx, &(struct ibv_wq_init_attr){ 0 }))             \
	X(ibv_create_rwq_ind_table, POINTER,                                                       \
	  ibv_create_rwq_ind_table(ctx, &(struct ibv_rwq_ind_table_init_attr){ 0 }))               \
	X(ibv_modify_wq, RESULT, ibv_modify_wq(&(struct ibv_wq){ .context = ctx }, BAD))           \
	X(ibv_destroy_wq, RESULT, ibv_destroy_wq(&(struct ibv_wq){ .context = ctx }))              \
	X(ibv_destroy_rwq_ind_table, RESULT,                                                       \
	  ibv_destroy_rwq_ind_table(&(struct ibv_rwq_ind_table){ .context = ctx }))                \
	X(ibv_post_srq_ops, RESULT,                                                                \
	  ibv_post_srq_ops(&(struct ibv_srq){ .context = ctx }, BAD, &(struct ibv_ops_wr *){ 0 })) \
	X(ibv_modify_qp_rate_limit, RESULT,                                                        \
	  ibv_modify_qp_rate_limit(&(struct ibv_qp){ .context = ctx }, BAD))                       \
	X(ibv_query_ece, RESULT, ibv_query_ece(BAD, BAD))                                          \
	X(ibv_set_ece, RESULT, ibv_set_ece(BAD, BAD))                                              \
	X(ibv_alloc_dmah, POINTER, new_pointer())                                                  \
	X(ibv_dealloc_dmah, RESULT, new_int())                                                     \
	X(ibv_create_comp_cntr, POINTER, new_pointer())                                            \
	X(ibv_destroy_comp_cntr, RESULT, new_int())                                                \
	X(ibv_set_comp_cntr, RESULT, new_int())                                                    \
	X(ibv_set_err_comp_cntr, RESULT, new_int())                                                \
	X(ibv_inc_comp_cntr, RESULT, new_int())                                                    \
	X(ibv_inc_err_comp_cntr, RESULT, new_int())                                                \
	X(ibv_read_comp_cntr, RESULT, new_int())                                                   \
	X(ibv_read_err_comp_cntr, RESULT, new_int())                                               \
	X(ibv_qp_attach_comp_cntr, RESULT, new_int())                                              \
	X(_ibv_query_comp_cntr_caps, RESULT, no_caps())                                            \
	X(ibv_import_dm, POINTER, ibv_import_dm(BAD, 1))                                           \
	X(ibv_dm_export_dmabuf_fd, MINUS_ONE, new_int())                                           \
	X(ibv_resolve_eth_l2_from_gid, NEGATIVE, new_int())

static void walk(void)
{
	static const char *const way_str[] = { "NULL", "a result", "-1", "a negative result" };
	static const intptr_t want[] = { 0, EOPNOTSUPP, -1, -EOPNOTSUPP };

	if (!dlsym(RTLD_DEFAULT, "ibv_create_comp_cntr"))
		vt_skip("this library is older");
	open_end();
	ctx = e.ctx;
#define X(name, way, call)                                                                         \
	do {                                                                                       \
		intptr_t got;                                                                      \
                                                                                                   \
		younger = #name;                                                                   \
		errno = 0;                                                                         \
		got = (intptr_t)(call);                                                            \
		if (got != want[way] ||                                                            \
		    ((way == POINTER || way == MINUS_ONE) && errno != EOPNOTSUPP))                 \
			FAIL(#name ": %ld, %s, not %s", (long)got, strerror(errno), way_str[way]); \
	} while (0);
	VERBS(X)
#undef X
	ibv_unimport_dm(BAD);
	close_end();
}

/* In no public header: what madvise(2) would do is done already. */
int ibv_dontfork_range(void *base, size_t size);
int ibv_dofork_range(void *base, size_t size);

/* What is left of the verbs: those that no other test calls have little to do. */
static void small_ones(void)
{
	open_end();
	CHECK_OK(ibv_dontfork_range(e.buf, 4096));
	CHECK_OK(ibv_dofork_range(e.buf, 4096));
	CHECK_EQ(ibv_query_qp_data_in_order(e.qp, IBV_WR_RDMA_WRITE, 0), 0);
	CHECK(ibv_is_qpt_supported(1u << IBV_QPT_RC, IBV_QPT_RC));
	CHECK(ibv_flow_label_to_udp_sport(0) >= 0xc000);
	close_end();
}

VT_MAIN({ "qp_types", qp_types, 0 }, { "qp_attributes", qp_attributes, 0 },
	{ "steering", steering, 0 }, { "work_queues", work_queues, 0 }, { "counters", counters, 0 },
	{ "tag_matching", tag_matching, 0 }, { "completion_fields", completion_fields, 0 },
	{ "memory", memory, 0 }, { "paths", paths, 0 }, { "opcodes", opcodes, 0 },
	{ "each_opcode", each_opcode, 0 }, { "walk", walk, 0 }, { "small_ones", small_ones, 0 })
