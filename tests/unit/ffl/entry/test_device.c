/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_device.c - the control side of the library as a program sees it, against a router on a
 * socket: list, open, queries of every length, events, PDs, AHs, fork, a router that dies.
 *
 * build: tests/unit/lib/ffl_router.c ffl/verbs/ah.c ffl/verbs/async.c ffl/session/call.c ffl/session/slot.c ffl/session/context.c ffl/entry/context.c ffl/entry/device.c ffl/verbs/domain.c ffl/entry/enum.c ffl/entry/ops.c ffl/session/log.c ffl/verbs/pd.c ffl/verbs/query.c ffl/session/table.c ffl/entry/import.c ffl/verbs/xrc.c
 */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/ip.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffl/session/ffl.h"
#include "tests/unit/lib/ffl_router.h"

static struct router r;
static struct ibv_context *ctx;

/* ---- the parts of the library that are not under test ------------------------------------------- */

static int mr_ret;
static unsigned int mr_live;

int ffl_mr_context_init(struct ffl_context *c)
{
	(void)c;
	mr_live += !mr_ret;
	return mr_ret;
}

int ffl_fork_init(void)
{
	return 0;
}

void ffl_mr_context_fini(struct ffl_context *c)
{
	(void)c;
	mr_live--;
}

#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
#pragma GCC diagnostic ignored "-Wunused-parameter"
NOT_CALLED(int, ffl_poll_cq, struct ibv_cq *cq, int n, struct ibv_wc *wc)
NOT_CALLED(int, ffl_req_notify_cq, struct ibv_cq *cq, int solicited_only)
NOT_CALLED(int, ffl_post_send, struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
NOT_CALLED(int, ffl_post_recv, struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
NOT_CALLED(int, ffl_post_srq_recv, struct ibv_srq *srq, struct ibv_recv_wr *wr,
	   struct ibv_recv_wr **bad)
NOT_CALLED(struct ibv_cq_ex *, ffl_create_cq_ex, struct ibv_context *c,
	   struct ibv_cq_init_attr_ex *attr)
NOT_CALLED(int, ffl_modify_cq, struct ibv_cq *cq, struct ibv_modify_cq_attr *attr)
NOT_CALLED(struct ibv_qp *, ffl_create_qp_ex, struct ibv_context *c,
	   struct ibv_qp_init_attr_ex *attr)
NOT_CALLED(int, ffl_qp_make, struct ffl_context *c, const struct ffl_qp_maker *by,
	   const struct ff_create_qp_req *req, struct ff_create_qp_resp *resp,
	   enum ibv_qp_state *state)
NOT_CALLED(struct ibv_srq *, ffl_create_srq_ex, struct ibv_context *c,
	   struct ibv_srq_init_attr_ex *attr)
NOT_CALLED(int, ffl_get_srq_num, struct ibv_srq *srq, uint32_t *num)
NOT_CALLED(void, ffl_mr_forget, struct ffl_mr *mr)
NOT_CALLED(struct ibv_mw *, ffl_alloc_mw, struct ibv_pd *pd, enum ibv_mw_type type)
NOT_CALLED(int, ffl_bind_mw, struct ibv_qp *qp, struct ibv_mw *mw, struct ibv_mw_bind *bind)
NOT_CALLED(int, ffl_dealloc_mw, struct ibv_mw *mw)
NOT_CALLED(struct ibv_dm *, ffl_alloc_dm, struct ibv_context *c, struct ibv_alloc_dm_attr *attr)
NOT_CALLED(int, ffl_free_dm, struct ibv_dm *dm)
NOT_CALLED(struct ibv_mr *, ffl_reg_dm_mr, struct ibv_pd *pd, struct ibv_dm *dm, uint64_t offset,
	   size_t length, unsigned int access)
NOT_CALLED(struct ibv_mr *, ffl_alloc_null_mr, struct ibv_pd *pd)
NOT_CALLED(int, ffl_advise_mr, struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
	   struct ibv_sge *sg, uint32_t num_sge)

/* ---- fixture -------------------------------------------------------------------------------------- */

static int setup_router(void **state)
{
	(void)state;
	ffl_log_init();
	ffl_log_level = 0;
	mr_ret = 0;
	router_start(&r);
	return 0;
}

static int setup(void **state)
{
	struct ibv_device **list;
	int n = 0;

	setup_router(state);
	list = ibv_get_device_list(&n);
	assert_int_equal(n, 1);
	ctx = ibv_open_device(list[0]);
	ibv_free_device_list(list);
	assert_non_null(ctx);
	router_wait_closed(&r, 1); /* the list's connection: events go to the other */
	return 0;
}

static int teardown_router(void **state)
{
	(void)state;
	router_stop(&r);
	assert_int_equal(r.malformed, 0);
	assert_int_equal(mr_live, 0);
	return 0;
}

static int teardown(void **state)
{
	assert_int_equal(ibv_close_device(ctx), 0);
	return teardown_router(state);
}

/* ---- list and open ----------------------------------------------------------------------------------- */

static void test_list(void **state)
{
	static const uint8_t zero[64];
	struct ibv_device **list;
	int n = -1;

	(void)state;
	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 1);
	assert_non_null(list[0]);
	assert_null(list[1]);
	assert_string_equal(ibv_get_device_name(list[0]), "ff0");
	assert_string_equal(list[0]->dev_name, "uverbs_ff0");
	assert_string_equal(list[0]->ibdev_path, "/sys/class/infiniband/ff0");
	assert_int_equal(list[0]->node_type, IBV_NODE_CA);
	assert_int_equal(list[0]->transport_type, IBV_TRANSPORT_IB);
	assert_int_equal(ibv_get_device_guid(list[0]), 0x1122334455667788);
	assert_int_equal(ibv_get_device_index(list[0]), -1);
	/* where libmlx5 and libefa look for a pointer of theirs */
	assert_memory_equal(list[0] + 1, zero, sizeof(zero));
	ibv_free_device_list(list);
	assert_non_null(list = ibv_get_device_list(NULL));
	ibv_free_device_list(list);
}

static void assert_no_device(void)
{
	struct ibv_device **list;
	int n = -1;

	list = ibv_get_device_list(&n);
	assert_non_null(list);
	assert_int_equal(n, 0);
	assert_null(list[0]);
	ibv_free_device_list(list);
}

static void test_no_device(void **state)
{
	static const enum fault faults[] = { FAULT_STATUS, FAULT_SHORT, FAULT_CLOSE,
					     FAULT_FD_MISSING, FAULT_FD };
	unsigned int i;

	(void)state;
	setenv("FFL_SOCKET", "/nonexistent/sock", 1);
	assert_no_device();
	setenv("FFL_SOCKET", r.path, 1);
	r.fault_type = FF_MSG_HELLO;
	for (i = 0; i < ARRAY_SIZE(faults); i++) {
		r.fault = faults[i];
		assert_no_device();
	}
	r.fault = FAULT_NONE;
	router_stop(&r);
	assert_no_device();
}

static void test_open_fails(void **state)
{
	static const enum ff_msg_type types[] = { FF_MSG_HELLO, FF_MSG_QUERY_DEVICE,
						  FF_MSG_GET_SEG };
	struct ibv_device **list = ibv_get_device_list(NULL);
	unsigned int i;

	(void)state;
	assert_non_null(list[0]);
	r.fault = FAULT_STATUS;
	for (i = 0; i < ARRAY_SIZE(types); i++) {
		r.fault_type = types[i];
		errno = 0;
		assert_null(ibv_open_device(list[0]));
		assert_int_equal(errno, EMFILE);
	}
	r.fault = FAULT_NONE;
	mr_ret = -ENOMEM;
	assert_null(ibv_open_device(list[0]));
	assert_int_equal(errno, ENOMEM);
	router_wait_closed(&r, 5);
	ibv_free_device_list(list);
}

/* Where the kernel does not tell the router who connected, HELLO has to show a number. */
static void test_challenge(void **state)
{
	struct ibv_device **list;
	struct ibv_context *c;

	(void)state;
	r.challenge = true;
	list = ibv_get_device_list(NULL);
	assert_non_null(list[0]);
	c = ibv_open_device(list[0]);
	assert_non_null(c);
	assert_int_equal(r.calls[FF_MSG_CHALLENGE], 2);
	assert_int_equal(r.calls[FF_MSG_HELLO], 4);
	assert_memory_equal(r.hello.nonce, ROUTER_NONCE, FF_NONCE_SZ);
	ibv_free_device_list(list);
	assert_int_equal(ibv_close_device(c), 0);
	router_wait_closed(&r, 2);
}

static void test_context(void **state)
{
	struct verbs_context *v = verbs_get_ctx(ctx);
	int flags;

	(void)state;
	assert_ptr_equal(ctx->abi_compat, (void *)UINTPTR_MAX);
	assert_int_equal(*((size_t *)ctx - 1), 696);
	assert_string_equal(ctx->device->name, "ff0");
	assert_int_equal(ctx->num_comp_vectors, 1);
	assert_true(ctx->cmd_fd >= 512);
	flags = fcntl(ctx->async_fd, F_GETFL);
	assert_true(flags >= 0 && !(flags & O_NONBLOCK));
	assert_int_equal(fcntl(ctx->async_fd, F_GETFD), FD_CLOEXEC);
	assert_true(to_ctx(ctx)->sock >= 512 && to_ctx(ctx)->bell_fd >= 512);
	assert_ptr_equal(ctx->ops.post_send, ffl_post_send);
	assert_ptr_equal(v->create_qp_ex, ffl_create_qp_ex);
	assert_ptr_equal(ctx->ops.bind_mw, ffl_bind_mw);
	assert_ptr_equal(v->reg_dm_mr, ffl_reg_dm_mr);
	assert_ptr_equal(v->open_xrcd, ffl_open_xrcd);
	assert_null(v->priv);
	/* the newest operation known, which lies below our verbs_context */
	assert_null(*(void **)((uint8_t *)ctx + sizeof(*ctx) - 696));
	assert_string_equal(r.hello.comm, "test_device");
	assert_null(ibv_create_counters(ctx, &(struct ibv_counters_init_attr){ 0 }));
	assert_int_equal(errno, EOPNOTSUPP);
}

/* ---- queries ---------------------------------------------------------------------------------------------- */

static void test_query_device(void **state)
{
	static const size_t len[] = { 232, 352, 376, 384, 400, 480 };
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	uint8_t buf[512];
	unsigned int i;
	size_t k;

	(void)state;
	strcpy(r.dev.fw_ver, "1.2.3");
	r.dev.max_qp = 4096;
	r.dev.max_sge = 32;
	r.dev.device_cap_flags = 1ull << 34 | IBV_DEVICE_RC_RNR_NAK_GEN;
	r.dev.hca_core_clock = 1000000;
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
	assert_string_equal(attr.fw_ver, "1.2.3");
	assert_int_equal(attr.max_qp, 4096);
	assert_int_equal(attr.device_cap_flags, IBV_DEVICE_RC_RNR_NAK_GEN);
	assert_int_equal(attr.phys_port_cnt, 1);
	assert_int_equal(ibv_query_device_ex(ctx, NULL, &ex), 0);
	assert_int_equal(ex.device_cap_flags_ex, 1ull << 34 | IBV_DEVICE_RC_RNR_NAK_GEN);
	assert_int_equal(ex.hca_core_clock, 1000000);
	assert_int_equal(ex.phys_port_cnt_ex, 1);
	assert_memory_equal(&ex.orig_attr, &attr, sizeof(attr));
	for (i = 0; i < ARRAY_SIZE(len); i++) {
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(ffl_query_device_ex(ctx, NULL, (void *)buf, len[i]), 0);
		assert_memory_equal(buf, &ex, len[i] < sizeof(ex) ? len[i] : sizeof(ex));
		for (k = sizeof(ex); k < len[i]; k++)
			assert_int_equal(buf[k], 0);
		assert_int_equal(buf[len[i]], 0xee);
	}
	assert_int_equal(ffl_query_device_ex(ctx, NULL, (void *)buf, 231), EINVAL);
	assert_int_equal(ibv_query_device_ex(
				 ctx, &(struct ibv_query_device_ex_input){ .comp_mask = 1 }, &ex),
			 EINVAL);
}

#undef ibv_query_port
static void test_query_port(void **state)
{
	static const size_t len[] = { 48, 52, 56, 64 };
	struct ibv_port_attr attr;
	uint8_t buf[80];
	unsigned int i;

	(void)state;
	r.port.state = IBV_PORT_ACTIVE;
	r.port.link_layer = IBV_LINK_LAYER_ETHERNET;
	r.port.active_speed = 256;
	r.port.port_cap_flags2 = 0x5a;
	r.port.flags = 3;
	assert_int_equal(___ibv_query_port(ctx, 1, &attr), 0);
	assert_int_equal(attr.state, IBV_PORT_ACTIVE);
	assert_int_equal(attr.link_layer, IBV_LINK_LAYER_ETHERNET);
	assert_int_equal(attr.active_speed, 128);
	assert_int_equal(attr.port_cap_flags2, 0x5a);
	assert_int_equal(attr.gid_tbl_len, ROUTER_GIDS);
	for (i = 0; i < ARRAY_SIZE(len); i++) {
		memset(buf, 0xee, sizeof(buf));
		assert_int_equal(ffl_query_port(ctx, 1, (void *)buf, len[i]), 0);
		assert_int_equal(buf[len[i]], 0xee);
		assert_int_equal(buf[47], 3);
		if (len[i] >= 56)
			assert_int_equal(*(uint32_t *)(buf + 52), 256);
	}
	memset(buf, 0xee, sizeof(buf));
	assert_int_equal(ibv_query_port(ctx, 1, (void *)buf), 0);
	assert_int_equal(buf[47], 3);
	assert_int_equal(buf[48], 0xee);
	assert_int_equal(ibv_query_port(ctx, 2, (void *)buf), EINVAL);
}

static void set_gids(void)
{
	static const uint8_t v4[16] = { [10] = 0xff, 0xff, 10, 0, 0, 2 };
	static const uint8_t v6[16] = { 0xfd, [15] = 2 };

	memcpy(r.gid[0], v4, 16);
	memcpy(r.gid[2], v6, 16);
	r.gid_type[0] = r.gid_type[2] = IBV_GID_TYPE_ROCE_V2;
}

static void test_query_gid(void **state)
{
	static const uint8_t none[16];
	struct ibv_gid_entry e[4];
	union ibv_gid gid;
	uint32_t type;
	__be16 pkey = 0;

	(void)state;
	set_gids();
	assert_int_equal(ibv_query_gid(ctx, 1, 0, &gid), 0);
	assert_memory_equal(gid.raw, r.gid[0], 16);
	assert_int_equal(ibv_query_gid(ctx, 1, 1, &gid), 0);
	assert_memory_equal(gid.raw, none, 16);
	assert_int_equal(ibv_query_gid(ctx, 1, 4, &gid), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_query_gid(ctx, 1, -1, &gid), -1);

	assert_int_equal(ffl_query_gid_type(ctx, 1, 0, &type), 0);
	assert_int_equal(type, 1);
	assert_int_equal(ffl_query_gid_type(ctx, 1, 1, &type), 0);
	assert_int_equal(type, 0);
	assert_int_equal(ffl_query_gid_type(ctx, 2, 0, &type), -1);

	assert_int_equal(ibv_query_gid_ex(ctx, 1, 2, &e[0], 0), 0);
	assert_memory_equal(e[0].gid.raw, r.gid[2], 16);
	assert_int_equal(e[0].gid_index, 2);
	assert_int_equal(e[0].port_num, 1);
	assert_int_equal(e[0].gid_type, IBV_GID_TYPE_ROCE_V2);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 1, &e[0], 0), ENODATA);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 9, &e[0], 0), EINVAL);
	assert_int_equal(ibv_query_gid_ex(ctx, 1, 0, &e[0], 1), EINVAL);
	/* the first members only, as an older program would ask for */
	memset(e, 0xee, sizeof(e));
	assert_int_equal(_ibv_query_gid_ex(ctx, 1, 0, e, 0, 16), 0);
	assert_memory_equal(e, r.gid[0], 16);
	assert_int_equal(((uint8_t *)e)[16], 0xee);

	assert_int_equal(ibv_query_gid_table(ctx, e, 4, 0), 2);
	assert_int_equal(e[1].gid_index, 2);
	assert_memory_equal(e[1].gid.raw, r.gid[2], 16);
	assert_int_equal(ibv_query_gid_table(ctx, e, 1, 0), -EINVAL);

	assert_int_equal(ibv_query_pkey(ctx, 1, 0, &pkey), 0);
	assert_int_equal(pkey, 0xffff);
	assert_int_equal(ibv_query_pkey(ctx, 1, 1, &pkey), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, htons(0xffff)), 0);
	assert_int_equal(ibv_get_pkey_index(ctx, 1, htons(0x8001)), -1);
}

static void test_query_rt_values(void **state)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct timespec a, b;
	int64_t ns;

	(void)state;
	clock_gettime(CLOCK_MONOTONIC, &a);
	assert_int_equal(ibv_query_rt_values_ex(ctx, &v), 0);
	clock_gettime(CLOCK_MONOTONIC, &b);
	ns = v.raw_clock.tv_nsec;
	assert_int_equal(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
	assert_true(ns >= a.tv_sec * 1000000000 + a.tv_nsec);
	assert_true(ns <= b.tv_sec * 1000000000 + b.tv_nsec);
	v.comp_mask = 2;
	assert_int_equal(ibv_query_rt_values_ex(ctx, &v), EINVAL);
}

/* ---- PD and AH ------------------------------------------------------------------------------------------- */

/* Takes the place of qp.c's: there are no queues here. */
static struct {
	unsigned int calls;
	uint32_t qp, tail;
} left;

void ffl_qp_datagrams_leave(struct ffl_context *ctx, uint32_t handle, uint32_t tail)
{
	(void)ctx;
	left.calls++;
	left.qp = handle;
	left.tail = tail;
}

static void test_pd_ah(void **state)
{
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1, .sl = 3, .static_rate = 2 };
	struct ibv_pd *pd;
	struct ibv_ah *ah;

	(void)state;
	pd = ibv_alloc_pd(ctx);
	assert_non_null(pd);
	assert_ptr_equal(pd->context, ctx);
	attr.grh.sgid_index = 2;
	attr.grh.hop_limit = 64;
	attr.grh.dgid.raw[15] = 9;
	ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	assert_ptr_equal(ah->pd, pd);
	assert_int_equal(r.ah.pd, to_pd(pd)->handle);
	assert_int_equal(r.ah.attr.dgid[15], 9);
	assert_int_equal(r.ah.attr.sgid_index, 2);
	assert_int_equal(r.ah.attr.sl, 3);
	assert_int_equal(r.ah.attr.is_global, 1);
	assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(left.calls, 0);
	/* one that was posted with waits for that datagram */
	ah = ibv_create_ah(pd, &attr);
	assert_non_null(ah);
	ffl_ah_use(to_ah(ah), &(struct ffl_qp){ .handle = 0x10007 }, 9);
	assert_int_equal(ibv_destroy_ah(ah), 0);
	assert_int_equal(left.calls, 1);
	assert_int_equal(left.qp, 0x10007);
	assert_int_equal(left.tail, 9);

	attr.port_num = 2;
	assert_null(ibv_create_ah(pd, &attr));
	assert_int_equal(errno, EINVAL);
	attr.port_num = 1;
	r.fault = FAULT_STATUS;
	r.fault_type = FF_MSG_CREATE_AH;
	assert_null(ibv_create_ah(pd, &attr));
	assert_int_equal(errno, EMFILE);
	r.fault_type = FF_MSG_DEALLOC_PD;
	assert_int_equal(ibv_dealloc_pd(pd), EMFILE);
	r.fault = FAULT_NONE;
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static uint16_t ip_sum(const void *p)
{
	const uint16_t *half = p;
	uint32_t sum = 0;
	int i;

	for (i = 0; i < 10; i++)
		sum += half[i];
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return ~sum;
}

static void test_ah_from_wc(void **state)
{
	struct ibv_wc wc = { .wc_flags = IBV_WC_GRH, .sl = 5, .slid = 7 };
	struct ibv_ah_attr attr;
	union {
		struct ibv_grh grh;
		struct {
			uint8_t none[20];
			struct iphdr ip;
		};
	} h;

	(void)state;
	set_gids();
	/* IPv4 */
	memset(&h, 0xff, sizeof(h));
	h.ip = (struct iphdr){ .version = 4, .ihl = 5, .ttl = 33, .tos = 8, .protocol = 17 };
	h.ip.saddr = inet_addr("10.0.0.9");
	h.ip.daddr = inet_addr("10.0.0.2");
	h.ip.check = ip_sum(&h.ip);
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.is_global, 1);
	assert_int_equal(attr.grh.sgid_index, 0);
	assert_int_equal(attr.grh.hop_limit, 33);
	assert_int_equal(attr.grh.traffic_class, 8);
	assert_int_equal(attr.sl, 5);
	assert_int_equal(attr.dlid, 7);
	assert_int_equal(attr.grh.dgid.raw[11], 0xff);
	assert_int_equal(attr.grh.dgid.raw[15], 9);
	/* the same where the 20 bytes look like the start of IPv6: the checksum decides */
	h.none[0] = 0x60;
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 0);
	h.ip.daddr = inet_addr("10.0.0.3");
	h.ip.check = 0;
	h.ip.check = ip_sum(&h.ip);
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &h.grh, &attr), -1);
	h.ip.daddr = inet_addr("239.0.0.3");
	h.ip.check = 0;
	h.ip.check = ip_sum(&h.ip);
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &h.grh, &attr), -1);
	assert_int_equal(errno, EINVAL);
	/* IPv6 */
	memset(&h, 0, sizeof(h));
	h.grh.version_tclass_flow = htonl(6u << 28 | 0x17u << 20 | 0x12345);
	h.grh.next_hdr = IPPROTO_UDP;
	h.grh.hop_limit = 44;
	memcpy(h.grh.dgid.raw, r.gid[2], 16);
	memcpy(h.grh.sgid.raw, r.gid[2], 16);
	h.grh.sgid.raw[15] = 77;
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &h.grh, &attr), 0);
	assert_int_equal(attr.grh.sgid_index, 2);
	assert_int_equal(attr.grh.dgid.raw[15], 77);
	assert_int_equal(attr.grh.flow_label, 0x12345);
	assert_int_equal(attr.grh.traffic_class, 0x17);
	assert_int_equal(attr.grh.hop_limit, 44);
	h.grh.next_hdr = 6;
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, &h.grh, &attr), -1);
	assert_int_equal(errno, EPROTONOSUPPORT);
	/* no GRH: nothing of it is read */
	wc.wc_flags = 0;
	assert_int_equal(ibv_init_ah_from_wc(ctx, 1, &wc, NULL, &attr), 0);
	assert_int_equal(attr.is_global, 0);
}

/* ---- events ------------------------------------------------------------------------------------------------ */

/* What a context's descriptor is good for, and what is no such descriptor. */
static void test_import(void **state)
{
	static const char wrong[64] = "freeflow sessioN";
	struct ibv_context *imported;
	struct ibv_pd *pd;
	int fd = memfd_create("wrong", 0), mine = dup(ctx->cmd_fd);

	(void)state;
	assert_true(fd >= 0 && mine >= 0);
	errno = 0;
	assert_null(ibv_import_device(-1));
	assert_int_equal(errno, EINVAL);
	assert_null(ibv_import_device(fd)); /* empty */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(write(fd, wrong, sizeof(wrong)), sizeof(wrong));
	assert_null(ibv_import_device(fd));
	assert_int_equal(errno, EINVAL);
	close(fd);
	/* nobody can change what it says */
	assert_int_equal(pwrite(mine, wrong, 1, 0), -1);
	assert_int_equal(ftruncate(mine, 0), -1);

	r.fault_type = FF_MSG_IMPORT_DEVICE;
	r.fault = FAULT_STATUS;
	assert_null(ibv_import_device(mine));
	assert_int_equal(errno, EMFILE);
	assert_true(fcntl(mine, F_GETFD) >= 0);
	r.fault = FAULT_NONE;
	imported = ibv_import_device(mine);
	assert_non_null(imported);
	assert_int_equal(imported->cmd_fd, mine);
	pd = ibv_import_pd(imported, 0x1234);
	assert_non_null(pd);
	assert_int_equal(pd->handle, 0x1234);
	ibv_unimport_pd(pd);
	assert_int_equal(ibv_close_device(imported), 0);
	assert_int_equal(fcntl(mine, F_GETFD), -1);
}

static void test_events(void **state)
{
	struct ffl_context *c = to_ctx(ctx);
	struct ffl_qp qp = { .ctx = c };
	struct ffl_cq cq = { .ctx = c };
	struct ffl_srq srq = { .ctx = c };
	struct ibv_async_event ev;
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };

	(void)state;
	assert_int_equal(ffl_table_put(c, FFL_QP, 0x30005, &qp), 0);
	assert_int_equal(ffl_table_put(c, FFL_CQ, 0x10400, &cq), 0);
	assert_int_equal(ffl_table_put(c, FFL_SRQ, 0x10001, &srq), 0);
	assert_int_equal(poll(&p, 1, 0), 0);
	/* stale, of another kind than its type says, unknown: none is delivered */
	router_event(&r, IBV_EVENT_QP_FATAL, FF_ASYNC_QP, 0x20005);
	router_event(&r, IBV_EVENT_QP_FATAL, FF_ASYNC_CQ, 0x10400);
	router_event(&r, IBV_EVENT_CQ_ERR, FF_ASYNC_CQ, 0x1ffff);
	router_event(&r, IBV_EVENT_COMM_EST, FF_ASYNC_QP, 0x30005);
	router_event(&r, IBV_EVENT_CQ_ERR, FF_ASYNC_CQ, 0x10400);
	router_event(&r, IBV_EVENT_SRQ_LIMIT_REACHED, FF_ASYNC_SRQ, 0x10001);
	router_event(&r, IBV_EVENT_PORT_ACTIVE, FF_ASYNC_PORT, 1);
	assert_int_equal(poll(&p, 1, 1000), 1);

	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_COMM_EST);
	assert_ptr_equal(ev.element.qp, &qp.qp);
	assert_int_equal(qp.async_ev.returned, 1);
	ibv_ack_async_event(&ev);
	ffl_events_drain(c, &qp.async_ev);
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_ptr_equal(ev.element.cq, &cq.cq);
	ibv_ack_async_event(&ev);
	assert_int_equal(cq.async_ev.acked, 1);
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_ptr_equal(ev.element.srq, &srq.ibv);
	ibv_ack_async_event(&ev);
	assert_int_equal(srq.async_ev.acked, 1);
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_PORT_ACTIVE);
	assert_int_equal(ev.element.port_num, 1);
	ibv_ack_async_event(&ev);

	assert_int_equal(fcntl(ctx->async_fd, F_SETFL, O_NONBLOCK), 0);
	assert_int_equal(ibv_get_async_event(ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
	ffl_table_del(c, FFL_QP, 0x30005);
	router_event(&r, IBV_EVENT_QP_FATAL, FF_ASYNC_QP, 0x30005);
	assert_int_equal(ibv_get_async_event(ctx, &ev), -1);
	assert_int_equal(errno, EAGAIN);
}

static void *ack_later(void *arg)
{
	ibv_ack_async_event(arg);
	return NULL;
}

static void test_drain_waits(void **state)
{
	struct ffl_context *c = to_ctx(ctx);
	struct ffl_qp qp = { .ctx = c };
	struct ibv_async_event ev;
	pthread_t t;

	(void)state;
	assert_int_equal(ffl_table_put(c, FFL_QP, 0x10001, &qp), 0);
	router_event(&r, IBV_EVENT_QP_FATAL, FF_ASYNC_QP, 0x10001);
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	ffl_table_del(c, FFL_QP, 0x10001);
	assert_int_equal(qp.async_ev.acked, 0);
	pthread_create(&t, NULL, ack_later, &ev);
	ffl_events_drain(c, &qp.async_ev);
	assert_int_equal(qp.async_ev.acked, 1);
	pthread_join(t, NULL);
}

static void test_router_dies(void **state)
{
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct pollfd p = { .fd = ctx->async_fd, .events = POLLIN };
	struct ibv_pd *pd = ibv_alloc_pd(ctx);

	(void)state;
	router_stop(&r);
	assert_int_equal(poll(&p, 1, 1000), 1);
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
	ibv_ack_async_event(&ev);
	assert_int_equal(ibv_get_async_event(ctx, &ev), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_query_device(ctx, &attr), EIO);
	assert_null(ibv_alloc_pd(ctx));
	assert_int_equal(errno, EIO);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

static void *wait_for_event(void *arg)
{
	return (void *)(intptr_t)ibv_get_async_event(ctx, arg);
}

/* A thread that waits for events learns that another thread's call found the router silent. */
static void test_silent_router_wakes(void **state)
{
	struct ibv_async_event ev = { 0 };
	pthread_t t;
	void *ret;

	(void)state;
	to_ctx(ctx)->call_timeout = 50;
	pthread_create(&t, NULL, wait_for_event, &ev);
	r.fault_type = FF_MSG_ALLOC_PD;
	r.fault = FAULT_SILENT;
	assert_null(ibv_alloc_pd(ctx));
	assert_int_equal(errno, EIO);
	pthread_join(t, &ret);
	assert_null(ret);
	assert_int_equal(ev.event_type, IBV_EVENT_DEVICE_FATAL);
}

/* ---- fork ---------------------------------------------------------------------------------------------------- */

/* What the child, which has asked nothing of the device yet, has of its parent. */
static struct ibv_pd *parents_pd;
static struct ibv_ah *parents_ah;

/* What is of the parent's session ends in EIO, before and after the child has one of its own. */
static int parents_objects(void)
{
	struct ibv_ah_attr attr = { .port_num = 1 };

	errno = 0;
	if (ibv_create_ah(parents_pd, &attr) || errno != EIO)
		return 1;
	return 0;
}

/* The context serves the child, with what the program knows of it unchanged. */
static int childs_context(void)
{
	struct ffl_context *old = to_ctx(ctx), *s;
	int async_fd = ctx->async_fd, cmd_fd = ctx->cmd_fd;
	struct stat was_async, was_cmd, st;
	struct ibv_device_attr attr;
	struct ibv_async_event ev;
	struct ibv_pd *pd;

	if (fstat(async_fd, &was_async) || fstat(cmd_fd, &was_cmd))
		return 11;
	/* no router: as if there were no device, and the next call tries again */
	setenv("FFL_SOCKET", "/nonexistent", 1);
	if (ibv_query_device(ctx, &attr) != EIO || ibv_alloc_pd(ctx) || errno != EIO ||
	    ibv_get_async_event(ctx, &ev) != -1 || errno != EIO)
		return 12;
	setenv("FFL_SOCKET", r.path, 1);
	if (fcntl(async_fd, F_SETFL, O_NONBLOCK))
		return 13;
	if (ibv_query_device(ctx, &attr))
		return 14;
	s = ffl_session_of(ctx);
	if (s == old || s->pid != getpid() || atomic_load(&s->dead) || !atomic_load(&old->dead))
		return 15;
	if (ctx->async_fd != async_fd || ctx->cmd_fd != cmd_fd || s->async_fd != async_fd ||
	    old->async_fd != -1)
		return 16;
	if (fstat(async_fd, &st) || st.st_ino == was_async.st_ino ||
	    fcntl(async_fd, F_GETFD) != FD_CLOEXEC || !(fcntl(async_fd, F_GETFL) & O_NONBLOCK))
		return 17;
	if (fstat(cmd_fd, &st) || st.st_ino == was_cmd.st_ino ||
	    fcntl(cmd_fd, F_GETFD) != FD_CLOEXEC)
		return 18;
	errno = 0;
	if (ibv_get_async_event(ctx, &ev) != -1 || errno != EAGAIN)
		return 19;
	pd = ibv_alloc_pd(ctx);
	if (!pd || pd->context != ctx || to_pd(pd)->ctx != s || ibv_dealloc_pd(pd))
		return 20;
	/* the old one's ring is still there, and nobody's */
	old->hdr->srq_kick = 100;
	return 0;
}

/* A child that forks again. */
static int grandchild(void)
{
	struct ffl_context *parents = atomic_load(&to_ctx(ctx)->current), *s;
	struct ibv_device_attr attr;

	if (parents->pid == getpid() || parents->sock != -1 || ibv_query_device(ctx, &attr))
		return 1;
	s = ffl_session_of(ctx);
	if (s == parents || s->older != parents || parents->older != to_ctx(ctx))
		return 2;
	return ibv_close_device(ctx);
}

static int child(void)
{
	struct ibv_device **list;
	struct ibv_context *own;
	struct ibv_device_attr attr;
	int n, err, status;
	pid_t pid;

	/* the ring is there, but it is not the parent's */
	to_ctx(ctx)->hdr->srq_kick = 99;
	if (!atomic_load(&to_ctx(ctx)->dead) || to_ctx(ctx)->sock != -1)
		return 1;
	if (parents_objects())
		return 2;
	err = childs_context();
	if (err)
		return err;
	if (parents_objects())
		return 3;
	pid = fork();
	if (!pid)
		_exit(grandchild());
	if (waitpid(pid, &status, 0) != pid || status)
		return 4;
	if (ibv_query_device(ctx, &attr))
		return 5;
	/* what it has of the parent's objects goes without a word to the router */
	if (ibv_destroy_ah(parents_ah) || ibv_dealloc_pd(parents_pd))
		return 6;
	if (ibv_close_device(ctx))
		return 7;
	list = ibv_get_device_list(&n);
	if (n != 1)
		return 8;
	own = ibv_open_device(list[0]);
	if (!own || ibv_query_device(own, &attr) || ibv_close_device(own))
		return 9;
	ibv_free_device_list(list);
	return 0;
}

static void expect_fork(int (*fn)(void))
{
	int status;
	pid_t pid;

	pid = fork();
	if (!pid)
		_exit(fn());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

static int child_closes_unused(void)
{
	return ibv_close_device(ctx);
}

/* Daemons close all descriptors, and open others: what has the number now stays what it is. */
static int child_reused_numbers(void)
{
	int async_fd = ctx->async_fd, cmd_fd = ctx->cmd_fd, fds[2];
	struct ibv_device_attr attr;
	char c = 'x';

	close(async_fd);
	if (pipe(fds) || dup2(fds[1], cmd_fd) != cmd_fd)
		return 1;
	if (fds[0] != async_fd && dup2(fds[0], async_fd) != async_fd)
		return 1;
	if (ibv_query_device(ctx, &attr) || ctx->async_fd == async_fd || ctx->cmd_fd == cmd_fd)
		return 2;
	if (fcntl(ctx->async_fd, F_GETFD) < 0 || fcntl(ctx->cmd_fd, F_GETFD) < 0)
		return 3;
	if (ibv_close_device(ctx))
		return 4;
	return write(cmd_fd, &c, 1) == 1 && read(async_fd, &c, 1) == 1 ? 0 : 5;
}

enum { RACERS = 8 };
static pthread_barrier_t start;

static void *race(void *arg)
{
	(void)arg;
	pthread_barrier_wait(&start);
	return ibv_alloc_pd(ctx);
}

/* One session, whoever comes first; all wait for it. */
static int child_races(void)
{
	pthread_t t[RACERS];
	void *pd;

	pthread_barrier_init(&start, NULL, RACERS);
	for (int i = 0; i < RACERS; i++)
		pthread_create(&t[i], NULL, race, NULL);
	for (int i = 0; i < RACERS; i++) {
		pthread_join(t[i], &pd);
		if (!pd || to_pd(pd)->ctx != ffl_session_of(ctx) || ibv_dealloc_pd(pd))
			return 1;
	}
	if (ffl_session_of(ctx)->older != to_ctx(ctx))
		return 2;
	return ibv_close_device(ctx);
}

static void test_fork_kinds(void **state)
{
	struct ibv_pd *pd;

	(void)state;
	expect_fork(child_closes_unused);
	expect_fork(child_reused_numbers);
	expect_fork(child_races);
	pd = ibv_alloc_pd(ctx);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
}

/* A child that never ran the handlers shares the parent's memory, or may: nothing is renewed. */
static void test_vfork(void **state)
{
	struct ibv_device_attr attr;
	volatile int err = -1;
	int status;
	pid_t pid;

	(void)state;
	pid = vfork();
	if (!pid) {
		err = ibv_query_device(ctx, &attr);
		_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(err, EIO);
	assert_ptr_equal(ffl_session_of(ctx), to_ctx(ctx));
	assert_int_equal(ibv_query_device(ctx, &attr), 0);
}

static void test_fork(void **state)
{
	struct ibv_ah_attr attr = { .port_num = 1 };
	struct ibv_async_event ev;
	struct ibv_pd *pd;

	(void)state;
	parents_pd = ibv_alloc_pd(ctx);
	assert_non_null(parents_pd);
	parents_ah = ibv_create_ah(parents_pd, &attr);
	assert_non_null(parents_ah);
	to_ctx(ctx)->hdr->srq_kick = 7;
	expect_fork(child);
	/* of all this the parent's session has felt nothing */
	assert_int_equal(to_ctx(ctx)->hdr->srq_kick, 7);
	pd = ibv_alloc_pd(ctx);
	assert_non_null(pd);
	assert_int_equal(ibv_dealloc_pd(pd), 0);
	assert_int_equal(ibv_destroy_ah(parents_ah), 0);
	assert_int_equal(ibv_dealloc_pd(parents_pd), 0);
	router_event(&r, IBV_EVENT_PORT_ACTIVE, FF_ASYNC_PORT, 1);
	assert_int_equal(ibv_get_async_event(ctx, &ev), 0);
	assert_int_equal(ev.event_type, IBV_EVENT_PORT_ACTIVE);
}

/* A child that lives on does not keep the session alive when its parent has died. */
static void test_fork_outlives(void **state)
{
	int hold[2], status;
	uint32_t closed = r.closed;
	char c;
	pid_t pid;

	(void)state;
	assert_int_equal(pipe(hold), 0);
	pid = fork();
	if (!pid) {
		close(hold[1]);
		_exit(read(hold[0], &c, 1));
	}
	close(hold[0]);
	assert_int_equal(ibv_close_device(ctx), 0);
	router_wait_closed(&r, closed + 1);
	close(hold[1]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- names --------------------------------------------------------------------------------------------------- */

static void test_enums(void **state)
{
	enum ibv_rate rate;
	int n = 0;

	(void)state;
	assert_string_equal(ibv_wc_status_str(IBV_WC_RETRY_EXC_ERR),
			    "transport retry counter exceeded");
	assert_string_equal(ibv_wc_status_str(IBV_WC_TM_RNDV_INCOMPLETE), "TM software rendezvous");
	assert_string_equal(ibv_wc_status_str(24), "unknown");
	assert_string_equal(ibv_wc_status_str(-1), "unknown");
	assert_string_equal(ibv_event_type_str(IBV_EVENT_SQ_DRAINED), "send queue drained");
	assert_string_equal(ibv_event_type_str(21), "unknown");
	assert_string_equal(ibv_port_state_str(IBV_PORT_ACTIVE), "active");
	assert_string_equal(ibv_port_state_str(6), "unknown");
	assert_string_equal(ibv_node_type_str(IBV_NODE_CA), "InfiniBand channel adapter");
	assert_string_equal(ibv_node_type_str(IBV_NODE_UNKNOWN), "unknown");
	assert_string_equal(ibv_node_type_str(0), "unknown");

	for (rate = IBV_RATE_2_5_GBPS; rate <= IBV_RATE_1200_GBPS; rate++) {
		assert_int_equal(mbps_to_ibv_rate(ibv_rate_to_mbps(rate)), rate);
		if (ibv_rate_to_mult(rate) < 0)
			continue;
		assert_int_equal(mult_to_ibv_rate(ibv_rate_to_mult(rate)), rate);
		n++;
	}
	assert_int_equal(n, 15);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_40_GBPS), 16);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	assert_int_equal(ibv_rate_to_mult(IBV_RATE_100_GBPS), -1);
	assert_int_equal(ibv_rate_to_mbps(IBV_RATE_MAX), -1);
	assert_int_equal(mult_to_ibv_rate(0), IBV_RATE_MAX);
	assert_int_equal(mbps_to_ibv_rate(1), IBV_RATE_MAX);
}

int main(void)
{
#define ROUTER(f) cmocka_unit_test_setup_teardown(f, setup_router, teardown_router)
#define DEVICE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		ROUTER(test_list),
		ROUTER(test_no_device),
		ROUTER(test_open_fails),
		ROUTER(test_challenge),
		DEVICE(test_context),
		DEVICE(test_query_device),
		DEVICE(test_query_port),
		DEVICE(test_query_gid),
		DEVICE(test_query_rt_values),
		DEVICE(test_pd_ah),
		DEVICE(test_ah_from_wc),
		DEVICE(test_import),
		DEVICE(test_events),
		DEVICE(test_drain_waits),
		DEVICE(test_router_dies),
		DEVICE(test_silent_router_wakes),
		DEVICE(test_fork),
		DEVICE(test_fork_kinds),
		DEVICE(test_vfork),
		cmocka_unit_test_setup_teardown(test_fork_outlives, setup, teardown_router),
		cmocka_unit_test(test_enums),
	};

	signal(SIGPIPE, SIG_DFL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
