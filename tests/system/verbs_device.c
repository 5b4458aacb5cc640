/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 600 */
/*
 * verbs_device.c - device list, contexts, and whether what the queries tell is consistent: each
 * number with the others, and the ways of asking for the same thing with one another.
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <endian.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

/* Exported, used by ibv_devinfo and by providers, but declared in no public header. */
enum gid_type_sysfs { GID_TYPE_SYSFS_IB_ROCE_V1, GID_TYPE_SYSFS_ROCE_V2 };
int ibv_query_gid_type(struct ibv_context *ctx, uint8_t port, unsigned index,
		       enum gid_type_sysfs *type);

static int open_fds(void)
{
	int n = 0;

	for (int fd = 0; fd < 4096; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void device_list(void)
{
	struct ibv_device **list, **again;
	int num = -1, num2 = -1;

	list = CHECK_PTR(ibv_get_device_list(&num));
	CHECK(num > 0 && !list[num]);
	for (int i = 0; i < num; i++) {
		CHECK(list[i]);
		CHECK(strlen(ibv_get_device_name(list[i])) > 0);
		CHECK(ibv_get_device_guid(list[i]) != 0);
		CHECK_EQ(list[i]->node_type, IBV_NODE_CA);
		CHECK_EQ(list[i]->transport_type, IBV_TRANSPORT_IB);
		CHECK(strlen(ibv_node_type_str(list[i]->node_type)) > 0);
		ibv_get_device_index(list[i]); /* may be unknown, must not crash */
	}
	again = CHECK_PTR(ibv_get_device_list(&num2));
	CHECK_EQ(num2, num);
	CHECK(!strcmp(ibv_get_device_name(again[0]), ibv_get_device_name(list[0])));
	CHECK_EQ(ibv_get_device_guid(again[0]), ibv_get_device_guid(list[0]));
	ibv_free_device_list(again);
	ibv_free_device_list(list);
	for (unsigned i = 0; i < 300; i++)
		ibv_free_device_list(CHECK_PTR(ibv_get_device_list(NULL)));
}

/* A context outlives the list that its device came from. */
static void device_open_close(void)
{
	struct ibv_context *many[20];
	int before, after;

	CHECK_OK(ibv_close_device(vt_open_device()));
	before = open_fds();
	for (unsigned i = 0; i < 300; i++) {
		struct ibv_context *ctx = vt_open_device();

		CHECK(ctx->device && strlen(ibv_get_device_name(ctx->device)) > 0);
		CHECK(ctx->num_comp_vectors > 0);
		CHECK(fcntl(ctx->async_fd, F_GETFD) >= 0);
		CHECK_OK(ibv_close_device(ctx));
	}
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = vt_open_device();
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++) {
		struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(many[i]));

		CHECK_OK(ibv_dealloc_pd(pd));
		CHECK_OK(ibv_close_device(many[i]));
	}
	after = open_fds();
	CHECK_EQ(after, before);
}

/* Descriptors are not handed to programs that this one starts. */
static void device_cloexec(void)
{
	bool had[1024];
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	for (int fd = 0; fd < 1024; fd++)
		had[fd] = fcntl(fd, F_GETFD) >= 0;
	par.channel = true;
	vt_end_open(&e, &par);
	for (int fd = 0; fd < 1024; fd++) {
		int flags = fcntl(fd, F_GETFD);

		if (!had[fd] && flags >= 0 && !(flags & FD_CLOEXEC))
			FAIL("descriptor %d is inherited through exec", fd);
	}
	vt_end_close(&e);
}

static void query_device(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_device_attr attr;
	struct ibv_device_attr_ex ex;
	struct ibv_port_attr port;

	memset(&attr, 0xff, sizeof(attr));
	CHECK_OK(ibv_query_device(ctx, &attr));
	CHECK(memchr(attr.fw_ver, 0, sizeof(attr.fw_ver)));
	CHECK_EQ(attr.node_guid, ibv_get_device_guid(ctx->device));
	CHECK(attr.sys_image_guid != 0);
	CHECK(attr.max_mr_size >= 1u << 30);
	CHECK(attr.page_size_cap & (uint64_t)sysconf(_SC_PAGESIZE));
	/* Mellanox's would make programs load its library */
	CHECK(attr.vendor_id != 0 && attr.vendor_id != 0x02c9);
	CHECK(attr.max_qp >= 1000 && attr.max_qp_wr >= 1000);
	CHECK(attr.max_sge >= 4 && attr.max_sge_rd >= 1);
	CHECK(attr.max_cq >= 100 && attr.max_cqe >= 1000);
	CHECK(attr.max_mr >= 1000 && attr.max_pd >= 16 && attr.max_ah >= 16);
	CHECK(attr.max_qp_rd_atom >= 1 && attr.max_qp_init_rd_atom >= 1);
	CHECK(attr.max_srq >= 1 && attr.max_srq_wr >= 100 && attr.max_srq_sge >= 1);
	CHECK(attr.atomic_cap == IBV_ATOMIC_HCA || attr.atomic_cap == IBV_ATOMIC_GLOB);
	CHECK_EQ(attr.phys_port_cnt, 1);
	CHECK_OK(ibv_query_port(ctx, 1, &port));
	CHECK(attr.max_pkeys >= port.pkey_tbl_len);

	memset(&ex, 0xff, sizeof(ex));
	CHECK_OK(ibv_query_device_ex(ctx, NULL, &ex));
	CHECK(!memcmp(&ex.orig_attr, &attr, sizeof(attr)));
	CHECK_EQ(ex.comp_mask, 0);
	CHECK_EQ(ex.odp_caps.general_caps, IBV_ODP_SUPPORT | IBV_ODP_SUPPORT_IMPLICIT);
	CHECK_EQ(ex.tso_caps.max_tso, 0);

	CHECK(ex.device_cap_flags_ex == 0 ||
	      (uint32_t)ex.device_cap_flags_ex == attr.device_cap_flags);
	CHECK_OK(ibv_close_device(ctx));
}

static void query_port(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_port_attr port;

	memset(&port, 0xff, sizeof(port));
	CHECK_OK(ibv_query_port(ctx, 1, &port));
	CHECK_EQ(port.state, IBV_PORT_ACTIVE);
	CHECK(port.max_mtu >= port.active_mtu);
	CHECK(port.active_mtu >= IBV_MTU_256 && port.active_mtu <= IBV_MTU_4096);
	CHECK(port.max_msg_sz >= 1u << 23);
	CHECK(port.gid_tbl_len > (int)vt_gid_index());
	CHECK(port.pkey_tbl_len >= 1);
	CHECK(port.active_width && port.active_speed);
	CHECK_EQ(port.link_layer, IBV_LINK_LAYER_ETHERNET);
	CHECK(strlen(ibv_port_state_str(port.state)) > 0);
	CHECK_ERR(ibv_query_port(ctx, 0, &port), EINVAL);
	CHECK_ERR(ibv_query_port(ctx, 2, &port), EINVAL);
	CHECK_ERR(ibv_query_port(ctx, 255, &port), EINVAL);
	CHECK_OK(ibv_close_device(ctx));
}

static void query_gids(void)
{
	static const union ibv_gid zero;
	struct ibv_context *ctx = vt_open_device();
	struct ibv_gid_entry entries[256], one;
	struct ibv_port_attr port;
	unsigned valid = 0;
	ssize_t n;

	CHECK_OK(ibv_query_port(ctx, 1, &port));
	CHECK(port.gid_tbl_len > 0);
	n = ibv_query_gid_table(ctx, entries, ARRAY_SIZE(entries), 0);
	CHECK(n > 0 && n <= port.gid_tbl_len);
	for (int i = 0; i < port.gid_tbl_len; i++) {
		union ibv_gid gid;
		enum gid_type_sysfs type;

		memset(&gid, 0xff, sizeof(gid));
		CHECK_OK(ibv_query_gid(ctx, 1, i, &gid));
		if (!memcmp(&gid, &zero, sizeof(gid))) {
			CHECK(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &one, 0) != 0);
			continue;
		}
		CHECK_OK(ibv_query_gid_ex(ctx, 1, (uint32_t)i, &one, 0));
		CHECK(!memcmp(&one.gid, &gid, sizeof(gid)));
		CHECK_EQ(one.gid_index, i);
		CHECK_EQ(one.port_num, 1);
		CHECK(one.gid_type == IBV_GID_TYPE_ROCE_V1 || one.gid_type == IBV_GID_TYPE_ROCE_V2);
		/* the address, and what most NICs have at 3, is RoCE v2; nothing is there twice */
		CHECK((i != 0 && i != 3) || one.gid_type == IBV_GID_TYPE_ROCE_V2);
		for (unsigned k = 0; k < valid; k++)
			CHECK(entries[k].gid_type != one.gid_type ||
			      memcmp(&entries[k].gid, &gid, sizeof(gid)) != 0);
		CHECK(valid < (unsigned)n);
		CHECK(!memcmp(&entries[valid].gid, &gid, sizeof(gid)));
		CHECK_EQ(entries[valid].gid_index, i);
		CHECK_EQ(entries[valid].gid_type, one.gid_type);
		valid++;
		CHECK_OK(ibv_query_gid_type(ctx, 1, (unsigned)i, &type));
		CHECK_EQ(type, one.gid_type == IBV_GID_TYPE_ROCE_V2 ? GID_TYPE_SYSFS_ROCE_V2 :
								      GID_TYPE_SYSFS_IB_ROCE_V1);
	}
	CHECK_EQ(valid, n);
	CHECK(valid >= 4);
	CHECK(ibv_query_gid_table(ctx, entries, 0, 0) < 0);
	CHECK(ibv_query_gid(ctx, 1, port.gid_tbl_len, &one.gid) != 0);
	CHECK(ibv_query_gid(ctx, 1, -1, &one.gid) != 0);
	CHECK(ibv_query_gid(ctx, 2, 0, &one.gid) != 0);
	CHECK(ibv_query_gid_ex(ctx, 1, 100000, &one, 0) != 0);
	CHECK(ibv_query_gid_ex(ctx, 1, 0, &one, 1) != 0); /* no flags exist */
	CHECK_OK(ibv_close_device(ctx));
}

static void query_pkeys(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_port_attr port;
	__be16 pkey = 0;

	CHECK_OK(ibv_query_port(ctx, 1, &port));
	CHECK_OK(ibv_query_pkey(ctx, 1, 0, &pkey));
	CHECK_EQ(pkey, htons(0xffff)); /* the default partition, full member */
	CHECK_EQ(ibv_get_pkey_index(ctx, 1, pkey), 0);
	CHECK_EQ(ibv_get_pkey_index(ctx, 1, htons(0x1234)), -1);
	CHECK(ibv_query_pkey(ctx, 1, port.pkey_tbl_len, &pkey) != 0);
	CHECK(ibv_query_pkey(ctx, 1, -1, &pkey) != 0);
	CHECK(ibv_query_pkey(ctx, 2, 0, &pkey) != 0);
	CHECK_OK(ibv_close_device(ctx));
}

static void query_clock(void)
{
	struct ibv_values_ex v = { .comp_mask = IBV_VALUES_MASK_RAW_CLOCK };
	struct ibv_context *ctx = vt_open_device();
	struct timespec last = { 0 };

	for (unsigned i = 0; i < 100; i++) {
		int err = VERB_ERRNO(ibv_query_rt_values_ex(ctx, &v));

		if (err == EOPNOTSUPP)
			vt_skip("no raw clock");
		CHECK_EQ(err, 0);
		CHECK_EQ(v.comp_mask, IBV_VALUES_MASK_RAW_CLOCK);
		CHECK(v.raw_clock.tv_sec > last.tv_sec ||
		      (v.raw_clock.tv_sec == last.tv_sec && v.raw_clock.tv_nsec >= last.tv_nsec));
		last = v.raw_clock;
	}
	CHECK_OK(ibv_close_device(ctx));
}

/* The functions that turn numbers into text take any number. */
static void strings(void)
{
	for (int i = -2; i < 60; i++) {
		CHECK(strlen(ibv_wc_status_str((enum ibv_wc_status)i)) > 0);
		CHECK(strlen(ibv_event_type_str((enum ibv_event_type)i)) > 0);
		CHECK(strlen(ibv_port_state_str((enum ibv_port_state)i)) > 0);
		CHECK(strlen(ibv_node_type_str((enum ibv_node_type)i)) > 0);
	}
	CHECK(!strcmp(ibv_wc_status_str(IBV_WC_SUCCESS), "success"));
	CHECK(!strcmp(ibv_wc_status_str(IBV_WC_RNR_RETRY_EXC_ERR), "RNR retry counter exceeded"));
	CHECK(!strcmp(ibv_event_type_str(IBV_EVENT_SQ_DRAINED), "send queue drained"));
	CHECK_EQ(ibv_rate_to_mult(IBV_RATE_10_GBPS), 4);
	CHECK_EQ(mult_to_ibv_rate(4), IBV_RATE_10_GBPS);
	CHECK_EQ(ibv_rate_to_mbps(IBV_RATE_100_GBPS), 103125);
	CHECK_EQ(mbps_to_ibv_rate(103125), IBV_RATE_100_GBPS);
}

/* What is not there yet says so, and never pretends. */
static void not_supported(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_qp_init_attr init;
	struct vt_end e;

	vt_end_open(&e, &par);
	init = (struct ibv_qp_init_attr){ .send_cq = e.scq,
					  .recv_cq = e.rcq,
					  .cap = { 4, 4, 1, 1, 0 } };
#define UNSUPPORTED(expr)                                                                          \
	do {                                                                                       \
		errno = 0;                                                                         \
		if (expr)                                                                          \
			FAIL("%s succeeded", #expr);                                               \
		if (errno != EOPNOTSUPP && errno != EINVAL && errno != ENOSYS)                     \
			FAIL("%s gave \"%s\"", #expr, strerror(errno));                            \
	} while (0)
	init.qp_type = IBV_QPT_RAW_PACKET;
	UNSUPPORTED(ibv_create_qp(e.pd, &init));
	init.qp_type = IBV_QPT_XRC_RECV; /* for ibv_create_qp_ex */
	UNSUPPORTED(ibv_create_qp(e.pd, &init));
	init.qp_type = (enum ibv_qp_type)0;
	UNSUPPORTED(ibv_create_qp(e.pd, &init));
	init.qp_type = (enum ibv_qp_type)77;
	UNSUPPORTED(ibv_create_qp(e.pd, &init));

	UNSUPPORTED(ibv_create_flow(
		e.qp, &(struct ibv_flow_attr){ .size = sizeof(struct ibv_flow_attr), .port = 1 }));
#undef UNSUPPORTED
	CHECK(VERB_ERRNO(ibv_attach_mcast(e.qp, &e.self.gid, 0)) != 0);
	vt_connect(&e, &e.self);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, 100, 1000, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	vt_end_close(&e);
}

/* A QP of one session with objects of another: refused. */
static void foreign_objects(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp *qp;

	vt_pair(&a, &b, &par);
	init.send_cq = b.scq;
	init.recv_cq = a.rcq;
	qp = ibv_create_qp(a.pd, &init);
	if (qp) /* the handle may by chance mean a CQ of this session: no harm to the other */
		CHECK_OK(ibv_destroy_qp(qp));
	vt_check_alive(&a, &b);
	vt_check_alive(&b, &a);
	vt_pair_close(&a, &b);
}

static void *open_and_query(void *arg)
{
	for (unsigned i = 0; i < 50; i++) {
		struct ibv_context *ctx = vt_open_device();
		struct ibv_device_attr attr;

		CHECK_OK(ibv_query_device(ctx, &attr));
		CHECK_OK(ibv_close_device(ctx));
	}
	return arg;
}

static void device_threads(void)
{
	pthread_t t[6];

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_create(&t[i], NULL, open_and_query, NULL), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
}

/* One context used by several threads for control calls. */
static void *make_objects(void *arg)
{
	struct ibv_context *ctx = arg;

	for (unsigned i = 0; i < 100; i++) {
		struct vt_param par = VT_PARAM;
		struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
		struct vt_end e;

		vt_end_open_on(&e, &par, ctx, pd);
		vt_connect(&e, &e.self);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, 100, 1000, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, i);
		vt_end_close(&e);
		CHECK_OK(ibv_dealloc_pd(pd));
	}
	return NULL;
}

static void context_threads(void)
{
	struct ibv_context *ctx = vt_open_device();
	pthread_t t[6];

	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_create(&t[i], NULL, make_objects, ctx), 0);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_OK(ibv_close_device(ctx));
}

/* With no router: an empty list, and nothing printed to stdout. */
static void no_router(void)
{
	int fd = open("/tmp", O_TMPFILE | O_RDWR, 0600), out = dup(1), num = -1;
	struct ibv_device **list;

	if (getenv("VT_RXE"))
		vt_skip("a kernel device needs none");
	CHECK(fd >= 0 && out >= 0);
	setenv("FFL_SOCKET", "/nonexistent/ffr.sock", 1);
	CHECK(dup2(fd, 1) == 1);
	list = ibv_get_device_list(&num);
	CHECK(dup2(out, 1) == 1);
	CHECK(list && num == 0 && !list[0]);
	ibv_free_device_list(list);
	CHECK_EQ(lseek(fd, 0, SEEK_END), 0);
}

VT_MAIN({ "device_list", device_list, 0 }, { "device_open_close", device_open_close, 0 },
	{ "device_cloexec", device_cloexec, 0 }, { "device_threads", device_threads, 0 },
	{ "context_threads", context_threads, 0 }, { "query_device", query_device, 0 },
	{ "query_port", query_port, 0 }, { "query_gids", query_gids, 0 },
	{ "query_pkeys", query_pkeys, 0 }, { "query_clock", query_clock, 0 },
	{ "strings", strings, 0 }, { "not_supported", not_supported, 0 },
	{ "foreign_objects", foreign_objects, 0 }, { "no_router", no_router, 0 })
