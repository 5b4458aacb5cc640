/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* night: docker system-san */
/* timeout: 600 */
/*
 * verbs_caps.c - what the queries report is what works: each limit can be reached and not passed,
 * each capability bit has its feature, and what no bit promises is refused.
 *
 * Limits of memory windows, XRC and device memory are walked in the programs of those.
 */
#include "tests/rig/verbs/vt.h"

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Bits with a test: here, or in the program of the feature (windows, XRC). */
#define CAPS_HERE                                                                                  \
	(IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_SYS_IMAGE_GUID)
#define CAPS_ELSEWHERE                                                                             \
	(IBV_DEVICE_MEM_WINDOW | IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B |   \
	 IBV_DEVICE_MEM_MGT_EXTENSIONS | IBV_DEVICE_XRC)

static struct ibv_device_attr_ex dev;
static struct vt_end e; /* of which the cases take what they need */

static void open_end(enum ibv_qp_type type)
{
	struct vt_param par = VT_PARAM;

	par.type = type;
	vt_end_open(&e, &par);
	CHECK_OK(ibv_query_device_ex(e.ctx, NULL, &dev));
}

/* ---- counts --------------------------------------------------------------------------------- */

#define MANY 5000 /* objects that are slow to make: no more, and the limit is not walked up to */

/*
 * Make `limit` objects; one more is refused with ENOMEM, until one has gone. `have` of them are
 * there already.
 */
static void fill(void *(*make)(void), int (*destroy)(void *), int limit, int have)
{
	int n = limit - have;
	void **obj = calloc((size_t)n, sizeof(*obj));

	CHECK(n > 0 && obj);
	for (int i = 0; i < n; i++) {
		obj[i] = make();
		if (!obj[i])
			FAIL("%d of %d: %s", i + have, limit, strerror(errno));
	}
	if (limit != MANY)
		CHECK_NULL(make(), ENOMEM);
	CHECK_OK(destroy(obj[n / 2]));
	obj[n / 2] = CHECK_PTR(make());
	for (int i = 0; i < n; i++)
		CHECK_OK(destroy(obj[i]));
	free(obj);
}

static void *make_pd(void)
{
	return ibv_alloc_pd(e.ctx);
}

static int destroy_pd(void *o)
{
	return ibv_dealloc_pd(o);
}

static void *make_ah(void)
{
	struct ibv_ah_attr attr = { .port_num = 1, .is_global = 1, .grh.dgid = e.self.gid };

	return ibv_create_ah(e.pd, &attr);
}

static int destroy_ah(void *o)
{
	return ibv_destroy_ah(o);
}

static void *make_cq(void)
{
	return ibv_create_cq(e.ctx, 1, NULL, NULL, 0);
}

static int destroy_cq(void *o)
{
	return ibv_destroy_cq(o);
}

static void *make_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return ibv_create_srq(e.pd, &attr);
}

static int destroy_srq(void *o)
{
	return ibv_destroy_srq(o);
}

static struct ibv_qp_init_attr qp_init(void)
{
	return (struct ibv_qp_init_attr){
		.send_cq = e.scq, .recv_cq = e.rcq, .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};
}

static void *make_qp(void)
{
	struct ibv_qp_init_attr init = qp_init();

	return ibv_create_qp(e.pd, &init);
}

static int destroy_qp(void *o)
{
	return ibv_destroy_qp(o);
}

static void *make_mr(void)
{
	return ibv_reg_mr(e.pd, e.buf, 64, IBV_ACCESS_LOCAL_WRITE);
}

static int destroy_mr(void *o)
{
	return ibv_dereg_mr(o);
}

#define COUNT(name, limit, have)                                                                   \
	static void count_##name(void)                                                             \
	{                                                                                          \
		open_end(IBV_QPT_RC);                                                              \
		fill(make_##name, destroy_##name, dev.orig_attr.limit, have);                      \
		vt_end_close(&e);                                                                  \
	}
COUNT(pd, max_pd, 1)
COUNT(ah, max_ah, 0)
COUNT(cq, max_cq, 2)
COUNT(srq, max_srq, 0)
COUNT(qp, max_qp, 1)
#undef COUNT

static void count_mr(void)
{
	open_end(IBV_QPT_RC);
	CHECK(dev.orig_attr.max_mr >= MANY);
	fill(make_mr, destroy_mr, MANY, 1);
	vt_end_close(&e);
}

/* ---- sizes ---------------------------------------------------------------------------------- */

static void cq_size(void)
{
	struct ibv_cq *cq;
	int max;

	open_end(IBV_QPT_RC);
	max = dev.orig_attr.max_cqe;
	cq = CHECK_PTR(ibv_create_cq(e.ctx, max, NULL, NULL, 0));
	CHECK(cq->cqe >= max);
	CHECK_ERR(ibv_resize_cq(cq, max + 1), EINVAL);
	CHECK_OK(ibv_resize_cq(cq, 1));
	CHECK_OK(ibv_resize_cq(cq, max));
	CHECK_OK(ibv_destroy_cq(cq));
	CHECK_NULL(ibv_create_cq(e.ctx, max + 1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, 0, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, -1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, 1, NULL, NULL, e.ctx->num_comp_vectors), EINVAL);
	CHECK_NULL(ibv_create_cq(e.ctx, 1, NULL, NULL, -1), EINVAL);
	for (int i = 0; i < e.ctx->num_comp_vectors; i++)
		CHECK_OK(ibv_destroy_cq(CHECK_PTR(ibv_create_cq(e.ctx, 1, NULL, NULL, i))));
	vt_end_close(&e);
}

static void srq_size(void)
{
	struct ibv_srq_init_attr attr = { 0 };
	struct ibv_srq *srq;

	open_end(IBV_QPT_RC);
	attr.attr.max_wr = (uint32_t)dev.orig_attr.max_srq_wr;
	attr.attr.max_sge = (uint32_t)dev.orig_attr.max_srq_sge;
	srq = CHECK_PTR(ibv_create_srq(e.pd, &attr));
	CHECK(attr.attr.max_wr >= (uint32_t)dev.orig_attr.max_srq_wr);
	CHECK_OK(ibv_destroy_srq(srq));
	attr.attr.max_wr = (uint32_t)dev.orig_attr.max_srq_wr + 1;
	CHECK_NULL(ibv_create_srq(e.pd, &attr), EINVAL);
	attr.attr.max_wr = 1;
	attr.attr.max_sge = (uint32_t)dev.orig_attr.max_srq_sge + 1;
	CHECK_NULL(ibv_create_srq(e.pd, &attr), EINVAL);
	vt_end_close(&e);
}

static void qp_size(void)
{
	struct ibv_qp_init_attr init;
	uint32_t wr, sge;

	open_end(IBV_QPT_RC);
	wr = (uint32_t)dev.orig_attr.max_qp_wr;
	sge = (uint32_t)dev.orig_attr.max_sge;
	init = qp_init();
	init.cap = (struct ibv_qp_cap){ wr, wr, sge, sge, 0 };
	CHECK_OK(ibv_destroy_qp(CHECK_PTR(ibv_create_qp(e.pd, &init))));
	CHECK(init.cap.max_send_wr >= wr && init.cap.max_recv_sge >= sge);
#define TOO_MUCH(field, value)                                                                     \
	do {                                                                                       \
		init = qp_init();                                                                  \
		init.cap.field = (value);                                                          \
		CHECK_NULL(ibv_create_qp(e.pd, &init), EINVAL);                                    \
	} while (0)
	TOO_MUCH(max_send_wr, wr + 1);
	TOO_MUCH(max_recv_wr, wr + 1);
	TOO_MUCH(max_send_sge, sge + 1);
	TOO_MUCH(max_recv_sge, sge + 1);
	TOO_MUCH(max_send_wr, UINT32_MAX);
	TOO_MUCH(max_inline_data, UINT32_MAX);
#undef TOO_MUCH
	vt_end_close(&e);
}

/* As many SGEs in one WR as the device says: a SEND and, by max_sge_rd, a READ. */
static void sge_count(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_context *ctx = vt_open_device();
	struct ibv_sge sge[256], rsge[256];
	struct ibv_send_wr wr = { .sg_list = sge, .send_flags = IBV_SEND_SIGNALED }, *bad;
	struct ibv_recv_wr rr = { .wr_id = 1, .sg_list = rsge };
	struct vt_end a, b;
	int n;

	CHECK_OK(ibv_query_device_ex(ctx, NULL, &dev));
	CHECK_OK(ibv_close_device(ctx));
	n = dev.orig_attr.max_sge;
	CHECK(n <= 255 && dev.orig_attr.max_sge_rd <= n);
	par.send_sge = par.recv_sge = (uint32_t)n;
	vt_pair(&a, &b, &par);
	for (int i = 0; i <= n; i++) {
		sge[i] = vt_sge(&a, (size_t)i * 100, 10);
		rsge[i] = vt_sge(&b, (size_t)i * 50, 10);
		vt_pattern(a.buf + i * 100, 10, (uint32_t)i);
	}
	wr.opcode = IBV_WR_SEND;
	wr.num_sge = rr.num_sge = n;
	CHECK_OK(vt_post_recv(&b, &rr));
	CHECK_OK(ibv_post_send(a.qp, &wr, &bad));
	WANT_OK(a.scq, 0);
	CHECK_EQ(WANT_OK(b.rcq, 1).byte_len, 10 * n);
	for (int i = 0; i < n; i++)
		CHECK_PATTERN(b.buf + i * 50, 10, (uint32_t)i);
	wr.num_sge = rr.num_sge = n + 1;
	CHECK_ERR(ibv_post_send(a.qp, &wr, &bad), EINVAL);
	CHECK(bad == &wr);
	CHECK_ERR(vt_post_recv(&b, &rr), EINVAL);

	n = dev.orig_attr.max_sge_rd;
	vt_pattern(b.buf, 10 * (size_t)n, 99);
	wr.opcode = IBV_WR_RDMA_READ;
	wr.num_sge = n;
	wr.wr.rdma.remote_addr = a.peer.addr;
	wr.wr.rdma.rkey = a.peer.rkey;
	CHECK_OK(ibv_post_send(a.qp, &wr, &bad));
	WANT_OK(a.scq, 0);
	for (int i = 0; i < n; i++)
		CHECK(!memcmp(a.buf + i * 100, b.buf + i * 10, 10));
	vt_pair_close(&a, &b);
}

static int modify(struct ibv_qp *qp, enum ibv_qp_state from, struct ibv_qp_attr *attr, int mask)
{
	struct vt_param par = e.par;

	CHECK_OK(vt_to_state(qp, IBV_QPS_RESET));
	if (from >= IBV_QPS_INIT)
		CHECK_OK(vt_to_init(qp, &par));
	if (from >= IBV_QPS_RTR)
		CHECK_OK(vt_to_rtr(qp, &par, &e.self));
	return ibv_modify_qp(qp, attr, mask);
}

/* Depths of READ and atomics, both ways; the sum over all QPs is the device's resources. */
static void rd_atomic(void)
{
	struct vt_param par;
	int dest, init;

	open_end(IBV_QPT_RC);
	dest = dev.orig_attr.max_qp_rd_atom;
	init = dev.orig_attr.max_qp_init_rd_atom;
	CHECK_EQ(dev.orig_attr.max_res_rd_atom, dest * dev.orig_attr.max_qp);
	CHECK(dest < 255 && init < 255);
	for (int over = 0; over < 2; over++) {
		par = e.par;
		CHECK_OK(vt_to_state(e.qp, IBV_QPS_RESET));
		CHECK_OK(vt_to_init(e.qp, &par));
		par.dest_rd_atomic = (uint8_t)(dest + over);
		CHECK_EQ(vt_to_rtr(e.qp, &par, &e.self), over * EINVAL);
		if (over)
			CHECK_OK(vt_to_rtr(e.qp, &e.par, &e.self));
		par.rd_atomic = (uint8_t)(init + over);
		CHECK_EQ(vt_to_rts(e.qp, &par, 0), over * EINVAL);
	}
	CHECK(dev.orig_attr.atomic_cap == IBV_ATOMIC_HCA ||
	      dev.orig_attr.atomic_cap == IBV_ATOMIC_GLOB);
	vt_end_close(&e);
}

/* ---- memory --------------------------------------------------------------------------------- */

static void mr_size(void)
{
	size_t big = (size_t)1 << 30;
	struct ibv_mr *mr;
	uint8_t *mem;

	open_end(IBV_QPT_RC);
	CHECK(dev.orig_attr.page_size_cap & (uint64_t)sysconf(_SC_PAGESIZE));
	CHECK(dev.orig_attr.max_mr_size >= big);
	/* nobody has so much memory: it ends outside of the address space */
	CHECK(!ibv_reg_mr(e.pd, e.buf, dev.orig_attr.max_mr_size + 1, 0));
	CHECK(errno == EFAULT || errno == EINVAL || errno == ENOMEM);
	/* a gigabyte of which no page was ever touched: only the address space is large */
	mem = mmap(NULL, big, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE,
		   -1, 0);
	CHECK(mem != MAP_FAILED);
	mr = CHECK_PTR(ibv_reg_mr(e.pd, mem, big, VT_ACCESS_ALL));
	CHECK_EQ(mr->length, big);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(munmap(mem, big));
	vt_end_close(&e);
}

/* A message that is longer than the port's max_msg_sz: a few SGEs of the same memory make one. */
static void message_size(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge[32];
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = sge,
				  .num_sge = 32,
				  .opcode = IBV_WR_RDMA_WRITE,
				  .send_flags = IBV_SEND_SIGNALED },
			   *bad;
	struct ibv_port_attr port;
	struct vt_end a, b;
	uint64_t each;

	par.len = (64u << 20) + 4096;
	par.send_sge = 32;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_port(a.ctx, 1, &port));
	each = (port.max_msg_sz + 32ull) / 32;
	if (each > par.len || each > UINT32_MAX)
		vt_skip("max_msg_sz %u is too much for this test", port.max_msg_sz);
	for (unsigned i = 0; i < 32; i++)
		sge[i] = vt_sge(&a, 0, each - (i == 31 ? 31 : 0));
	wr.wr.rdma.remote_addr = a.peer.addr;
	wr.wr.rdma.rkey = a.peer.rkey;
	CHECK_OK(ibv_post_send(a.qp, &wr, &bad));
	WANT(a.scq, 1, IBV_WC_LOC_LEN_ERR);
	vt_pair_close(&a, &b);
}

/* ---- port ----------------------------------------------------------------------------------- */

static void port_limits(void)
{
	struct ibv_ah_attr ah = { .port_num = 1, .is_global = 1 };
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_INIT, .port_num = 1 };
	const int mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
	struct ibv_port_attr port;
	struct vt_param par;
	union ibv_gid gid;
	__be16 pkey;

	open_end(IBV_QPT_RC);
	CHECK_EQ(dev.orig_attr.phys_port_cnt, 1);
	CHECK_EQ(dev.phys_port_cnt_ex, 1);
	CHECK_OK(ibv_query_port(e.ctx, 1, &port));
	CHECK_ERR(ibv_query_port(e.ctx, 2, &port), EINVAL);
	CHECK_EQ(port.pkey_tbl_len, dev.orig_attr.max_pkeys);
	for (int i = 0; i < port.pkey_tbl_len; i++) {
		attr.pkey_index = (uint16_t)i;
		CHECK_OK(ibv_query_pkey(e.ctx, 1, i, &pkey));
		CHECK_OK(modify(e.qp, IBV_QPS_RESET, &attr, mask));
	}
	attr.pkey_index = port.pkey_tbl_len;
	CHECK_ERR(modify(e.qp, IBV_QPS_RESET, &attr, mask), EINVAL);
	attr.pkey_index = 0;
	attr.port_num = 2;
	CHECK_ERR(modify(e.qp, IBV_QPS_RESET, &attr, mask), EINVAL);
	for (int i = 0; i <= port.gid_tbl_len; i++) {
		bool over = i == port.gid_tbl_len;
		struct ibv_ah *h;

		CHECK_EQ(!ibv_query_gid(e.ctx, 1, i, &gid), !over);
		ah.grh.dgid = e.self.gid;
		ah.grh.sgid_index = (uint8_t)i;
		h = ibv_create_ah(e.pd, &ah);
		CHECK_EQ(!h, over);
		if (h)
			CHECK_OK(ibv_destroy_ah(h));
	}
	for (int mtu = IBV_MTU_256 - 1; mtu <= IBV_MTU_4096 + 1; mtu++) {
		bool good = mtu >= IBV_MTU_256 && mtu <= (int)port.active_mtu;

		par = e.par;
		par.mtu = (enum ibv_mtu)mtu;
		CHECK_OK(vt_to_state(e.qp, IBV_QPS_RESET));
		CHECK_OK(vt_to_init(e.qp, &par));
		CHECK_EQ(vt_to_rtr(e.qp, &par, &e.self), good ? 0 : EINVAL);
	}
	CHECK_EQ(port.state, IBV_PORT_ACTIVE);
	CHECK_EQ(port.lmc, 0);
	CHECK_EQ(port.max_vl_num, 1);
	CHECK_EQ(port.bad_pkey_cntr, 0);
	CHECK_EQ(port.qkey_viol_cntr, 0);
	vt_end_close(&e);
}

/* ---- capability bits ------------------------------------------------------------------------ */

static void flag_bits(void)
{
	uint32_t unknown;

	open_end(IBV_QPT_RC);
	unknown = dev.orig_attr.device_cap_flags & ~(uint32_t)(CAPS_HERE | CAPS_ELSEWHERE);
	if (unknown)
		FAIL("device_cap_flags 0x%x have no test", unknown);
	CHECK_EQ((uint32_t)dev.device_cap_flags_ex, dev.orig_attr.device_cap_flags);
	/* FLUSH_GLOBAL, ATOMIC_WRITE: verbs_flush.c */
	CHECK_EQ(dev.device_cap_flags_ex >> 32, 1u << 6 | 1u << 8);
	CHECK_EQ(dev.orig_attr.device_cap_flags & CAPS_HERE, CAPS_HERE);
	CHECK(dev.orig_attr.sys_image_guid != 0);
	CHECK(dev.orig_attr.node_guid != 0);
	/* type 2A and 2B are alternatives */
	CHECK((dev.orig_attr.device_cap_flags &
	       (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) !=
	      (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B));
	vt_end_close(&e);
}

/* IBV_DEVICE_CURR_QP_STATE_MOD: the program says which state it believes the QP to be in. */
static void current_state(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTS, .cur_qp_state = IBV_QPS_RTS };

	open_end(IBV_QPT_RC);
	vt_connect(&e, &e.self);
	CHECK_OK(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE));
	attr.cur_qp_state = IBV_QPS_SQD;
	CHECK_ERR(ibv_modify_qp(e.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
	vt_end_close(&e);
}

/* IBV_DEVICE_RC_RNR_NAK_GEN: a responder without receives says so. */
static void rnr_nak(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.rnr_retry = 1;
	par.rnr_timer = 1;
	vt_pair(&a, &b, &par);
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	WANT(a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	vt_pair_close(&a, &b);
}

/* Bits that are not set, and what they would promise. */
static void absent_bits(void)
{
	struct ibv_srq_init_attr srq_init = { .attr = { .max_wr = 4, .max_sge = 1 } };
	struct ibv_srq_attr srq_attr = { .max_wr = 8 };
	struct ibv_qp_attr attr = { .cap = { 128, 128, 1, 1, 0 }, .path_mig_state = IBV_MIG_REARM };
	struct ibv_srq *srq;
	uint32_t caps;

	open_end(IBV_QPT_RC);
	caps = dev.orig_attr.device_cap_flags;
	vt_connect(&e, &e.self);
	srq = CHECK_PTR(ibv_create_srq(e.pd, &srq_init));
	if (!(caps & IBV_DEVICE_SRQ_RESIZE))
		CHECK_ERR(ibv_modify_srq(srq, &srq_attr, IBV_SRQ_MAX_WR), EOPNOTSUPP);
	CHECK_OK(ibv_destroy_srq(srq));
	if (!(caps & IBV_DEVICE_RESIZE_MAX_WR))
		CHECK_ERR(ibv_modify_qp(e.qp, &attr, IBV_QP_CAP), EINVAL);
	if (!(caps & IBV_DEVICE_AUTO_PATH_MIG)) {
		CHECK_ERR(ibv_modify_qp(e.qp, &attr, IBV_QP_PATH_MIG_STATE), EOPNOTSUPP);
		CHECK_ERR(ibv_modify_qp(e.qp, &attr, IBV_QP_ALT_PATH), EOPNOTSUPP);
	}
	vt_end_close(&e);
}

/* Members of the extended attributes that would promise what is not there. */
static void extended_attributes(void)
{
	open_end(IBV_QPT_RC);
	CHECK_EQ(dev.comp_mask, 0);
	CHECK_EQ(dev.tso_caps.max_tso, 0);
	CHECK_EQ(dev.rss_caps.supported_qpts, 0);
	CHECK_EQ(dev.max_wq_type_rq, 0);
	CHECK_EQ(dev.packet_pacing_caps.qp_rate_limit_max, 0);
	CHECK_EQ(dev.packet_pacing_caps.supported_qpts, 0);
	CHECK_EQ(dev.raw_packet_caps, 0);
	CHECK_EQ(dev.tm_caps.max_num_tags, 0);
	CHECK_EQ(dev.pci_atomic_caps.fetch_add, 0);
	CHECK_EQ(dev.pci_atomic_caps.swap, 0);
	CHECK_EQ(dev.pci_atomic_caps.compare_swap, 0);
	CHECK_EQ(dev.orig_attr.max_ee, 0);
	CHECK_EQ(dev.orig_attr.max_rdd, 0);
	CHECK_EQ(dev.orig_attr.max_raw_ipv6_qp, 0);
	CHECK_EQ(dev.orig_attr.max_raw_ethy_qp, 0);
	CHECK_EQ(dev.orig_attr.max_fmr, 0);
	vt_end_close(&e);
}

VT_MAIN({ "count_pd", count_pd, 0 }, { "count_ah", count_ah, 0 }, { "count_cq", count_cq, 0 },
	{ "count_srq", count_srq, 0 }, { "count_qp", count_qp, 0 }, { "count_mr", count_mr, 0 },
	{ "cq_size", cq_size, 0 }, { "srq_size", srq_size, 0 }, { "qp_size", qp_size, 0 },
	{ "sge_count", sge_count, 0 }, { "rd_atomic", rd_atomic, 0 }, { "mr_size", mr_size, 0 },
	{ "message_size", message_size, 0 }, { "port_limits", port_limits, 0 },
	{ "flag_bits", flag_bits, 0 }, { "current_state", current_state, 0 },
	{ "rnr_nak", rnr_nak, 0 }, { "absent_bits", absent_bits, 0 },
	{ "extended_attributes", extended_attributes, 0 })
