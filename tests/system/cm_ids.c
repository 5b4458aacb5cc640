/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm -lpthread */
/* timeout: 360 */
/*
 * cm_ids.c - ids of rdma_cm within one container: addresses and ports, datagrams and groups, devices,
 * wrong arguments. Connections are cm_connect.c's, channels cm_channel.c's.
 */
#include "tests/rig/verbs/cmt.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <stdlib.h>
#include <unistd.h>

/* ---- addresses, ports ---------------------------------------------------------------------------- */

static void nobody_there(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();
	uint64_t start = vt_now();

	sin.sin_addr.s_addr ^= htonl(0x7f); /* one of the subnet that no container has */
	sin.sin_port = htons(1);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 300));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	CHECK(vt_now() - start > 250000000ull);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

static void ports(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *a = cmt_id(ch, RDMA_PS_TCP), *b = cmt_id(ch, RDMA_PS_TCP), *c;
	struct sockaddr_in any = { .sin_family = AF_INET }, self = cmt_self(), other = self;
	int one = 1;

	CHECK_OK(rdma_bind_addr(a, (struct sockaddr *)&any));
	CHECK(!a->verbs); /* the wildcard is no device's */
	CHECK_ERR(rdma_bind_addr(a, (struct sockaddr *)&any), EINVAL);
	self.sin_port = rdma_get_src_port(a);
	CHECK(self.sin_port != 0);
	CHECK_ERR(rdma_bind_addr(b, (struct sockaddr *)&self), EADDRNOTAVAIL); /* as the kernel */
	other.sin_addr.s_addr ^= htonl(0x7f);
	CHECK_ERR(rdma_bind_addr(b, (struct sockaddr *)&other), EADDRNOTAVAIL);
	c = cmt_id(ch, RDMA_PS_UDP);
	CHECK_OK(rdma_bind_addr(c, (struct sockaddr *)&self));
	CHECK(c->verbs && c->port_num == 1); /* an address is the device's */
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_bind_addr(b, (struct sockaddr *)&self));
	CHECK_EQ(rdma_get_src_port(b), self.sin_port);
	a = cmt_id(ch, RDMA_PS_TCP);
	CHECK_ERR(rdma_bind_addr(a, (struct sockaddr *)&self), EADDRINUSE);
	CHECK_OK(rdma_set_option(a, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, sizeof(one)));
	CHECK_ERR(rdma_bind_addr(a, (struct sockaddr *)&self), EADDRINUSE); /* b has not agreed */
	cmt_close(ch, a, b, c, NULL);
}

/* One address in its three spellings, and loopback. */
static void spellings(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in self = cmt_self(), lo = { .sin_family = AF_INET };
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 }, lo6 = any6;
	struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };
	struct sockaddr *to[] = { (struct sockaddr *)&self, (struct sockaddr *)&lo,
				  (struct sockaddr *)&lo6, (struct sockaddr *)&ib };

	CHECK_OK(rdma_bind_addr(l, (struct sockaddr *)&any6)); /* ::, of both families */
	CHECK_OK(rdma_listen(l, 1));
	lo6.sin6_port = self.sin_port = lo.sin_port = rdma_get_src_port(l);
	lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	lo6.sin6_addr = in6addr_loopback;
	ib.sib_addr.sib_addr16[5] = 0xffff; /* GID 0: the IPv4 address, mapped */
	memcpy(&ib.sib_addr.sib_addr32[3], &self.sin_addr, 4);
	ib.sib_sid = htobe64(RDMA_IB_IP_PS_TCP | ntohs(self.sin_port));
	ib.sib_sid_mask = htobe64(~0ull);
	for (unsigned i = 0; i < ARRAY_SIZE(to); i++) {
		struct rdma_cm_id *a = cmt_id(ch, RDMA_PS_TCP), *b;
		struct rdma_cm_event *e;

		CHECK_OK(rdma_resolve_addr(a, NULL, to[i], 1000));
		CHECK(vt_readable(ch->fd, VT_WAIT_MS));
		CHECK_OK(rdma_get_cm_event(ch, &e));
		if (e->event != RDMA_CM_EVENT_ADDR_RESOLVED)
			FAIL("address %u: %s %d", i, rdma_event_str(e->event), e->status);
		CHECK_OK(rdma_ack_cm_event(e));
		CHECK_EQ(rdma_get_peer_addr(a)->sa_family, to[i]->sa_family);
		CHECK_OK(rdma_resolve_route(a, 1000));
		WANT_CM_ACK(ch, a, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
		b = cmt_connect(a, l);
		cmt_transfer(a, b, i);
		cmt_destroy(a);
		cmt_destroy(b);
	}
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
}

/* To who binds them loopback addresses are wildcards: no device, and there for every address. */
static void loopback(void)
{
	struct sockaddr_in self = cmt_self(), lo = { .sin_family = AF_INET };
	struct sockaddr_in6 lo6 = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
	struct sockaddr *at[] = { (struct sockaddr *)&lo, (struct sockaddr *)&lo6 };
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_event_channel *ch = cmt_channel();

	lo.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	for (unsigned i = 0; i < ARRAY_SIZE(at); i++) {
		struct rdma_cm_id *l = cmt_id(ch, RDMA_PS_TCP), *a = cmt_id(ch, RDMA_PS_TCP), *b;
		struct sockaddr *local = rdma_get_local_addr(l);

		CHECK_OK(rdma_bind_addr(l, at[i]));
		CHECK(!l->verbs && !l->pd && !l->port_num);
		CHECK_ERR(rdma_create_qp(l, NULL, &init), EINVAL);
		CHECK_EQ(local->sa_family, at[i]->sa_family);
		self.sin_port = rdma_get_src_port(l);
		CHECK(self.sin_port);
		CHECK_ERR(rdma_bind_addr(a, (struct sockaddr *)&self), EADDRNOTAVAIL);
		CHECK_OK(rdma_listen(l, 1));
		CHECK(!l->verbs);
		if (i)
			CHECK(!memcmp(&((struct sockaddr_in6 *)local)->sin6_addr, &lo6.sin6_addr,
				      16));
		else
			CHECK_EQ(((struct sockaddr_in *)local)->sin_addr.s_addr,
				 lo.sin_addr.s_addr);
		cmt_resolve(a, (struct sockaddr *)&self);
		b = cmt_connect(a, l);
		CHECK(b->verbs == a->verbs && b->port_num == 1);
		cmt_transfer(a, b, i);
		cmt_destroy(a);
		cmt_destroy(b);
		CHECK_OK(rdma_destroy_id(l));
	}
	rdma_destroy_event_channel(ch);
}

static void addrinfo(void)
{
	struct rdma_addrinfo hints = { .ai_flags = RAI_NUMERICHOST, .ai_port_space = RDMA_PS_UDP };
	struct rdma_addrinfo *res;

	CHECK_OK(rdma_getaddrinfo("10.1.2.3", "7471", &hints, &res));
	CHECK_EQ(res->ai_family, AF_INET);
	CHECK_EQ(res->ai_port_space, RDMA_PS_UDP);
	CHECK_EQ(res->ai_qp_type, IBV_QPT_UD);
	CHECK_EQ(res->ai_dst_len, sizeof(struct sockaddr_in));
	CHECK_EQ(((struct sockaddr_in *)res->ai_dst_addr)->sin_port, htons(7471));
	CHECK(!res->ai_src_addr && !res->ai_route_len && !res->ai_next);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_PASSIVE,
					.ai_family = AF_INET,
					.ai_port_space = RDMA_PS_TCP };
	CHECK_OK(rdma_getaddrinfo(NULL, "1234", &hints, &res));
	CHECK(res->ai_flags & RAI_PASSIVE);
	CHECK_EQ(res->ai_qp_type, IBV_QPT_RC);
	CHECK_EQ(((struct sockaddr_in *)res->ai_src_addr)->sin_addr.s_addr, INADDR_ANY);
	CHECK(!res->ai_dst_addr);
	rdma_freeaddrinfo(res);
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST | RAI_FAMILY,
					.ai_family = AF_IB,
					.ai_port_space = RDMA_PS_TCP };
	CHECK_OK(rdma_getaddrinfo("fe80::1", "18", &hints, &res));
	CHECK_EQ(res->ai_family, AF_IB);
	CHECK_EQ(((struct sockaddr_ib *)res->ai_dst_addr)->sib_sid,
		 htobe64(RDMA_IB_IP_PS_TCP | 18));
	rdma_freeaddrinfo(res);
	CHECK(rdma_getaddrinfo("10.1.2.3", "18", &hints, &res)); /* no GID */
	hints = (struct rdma_addrinfo){ .ai_flags = RAI_NUMERICHOST };
	CHECK_EQ(rdma_getaddrinfo("no-number", NULL, &hints, &res), EAI_NONAME);
	CHECK_ERR(rdma_getaddrinfo(NULL, NULL, NULL, &res), EINVAL);
	hints = (struct rdma_addrinfo){ .ai_flags = 0x10 /* RAI_SA */ };
	CHECK_ERR(rdma_getaddrinfo(NULL, "x", &hints, &res), EOPNOTSUPP);
	CHECK_OK(rdma_getaddrinfo("localhost", NULL, NULL, &res));
	rdma_freeaddrinfo(res);
	rdma_freeaddrinfo(NULL);
}

/* Names of RDMACM_1.4, which the headers that this is built with do not have. */
static void addrinfo_event(void)
{
	void *lib = CHECK_PTR(dlopen("librdmacm.so.1", RTLD_NOW));
	int (*resolve)(struct rdma_cm_id *, const char *, const char *,
		       const struct rdma_addrinfo *);
	int (*query)(struct rdma_cm_id *, struct rdma_addrinfo **);
	int (*write_event)(struct rdma_cm_id *, int, int, uint64_t);
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct rdma_addrinfo *info;
	struct rdma_cm_event *e;
	uint64_t arg;

	resolve = dlvsym(lib, "rdma_resolve_addrinfo", "RDMACM_1.4");
	query = dlvsym(lib, "rdma_query_addrinfo", "RDMACM_1.4");
	write_event = dlvsym(lib, "rdma_write_cm_event", "RDMACM_1.4");
	if (!resolve || !query || !write_event)
		vt_skip("this librdmacm has no RDMACM_1.4");
	CHECK_ERR(query(id, &info), ENOENT);
	CHECK_OK(resolve(id, "10.2.3.4", "99", NULL));
	CHECK_ERR(resolve(id, "10.2.3.4", "99", NULL), EBUSY);
	WANT_CM_ACK(ch, id, 16 /* ADDRINFO_RESOLVED */, 0);
	CHECK_OK(query(id, &info));
	CHECK_EQ(((struct sockaddr_in *)info->ai_dst_addr)->sin_port, htons(99));
	rdma_freeaddrinfo(info);
	CHECK_ERR(query(id, &info), ENOENT);
	CHECK_OK(write_event(id, 18 /* USER */, -7, 0x1122334455667788ull));
	e = WANT_CM(ch, id, 18, -7);
	memcpy(&arg, &e->param, sizeof(arg));
	CHECK(arg == 0x1122334455667788ull);
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_ERR(write_event(id, RDMA_CM_EVENT_ESTABLISHED, 0, 0), EINVAL);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
	dlclose(lib);
}

/* ---- UD ---------------------------------------------------------------------------------------------- */

static void datagram(void)
{
	struct rdma_conn_param param = { .private_data = "ask", .private_data_len = 3 };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_UDP), *a = cmt_route(ch, l), *b;
	struct rdma_cm_event *e;
	struct ibv_ah *ah;
	uint8_t *buf = vt_map(4096);
	struct ibv_mr *mr;
	struct ibv_wc wc;

	CHECK_EQ(a->qp_type, IBV_QPT_UD);
	cmt_qp(a);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_RTS);
	CHECK_OK(rdma_connect(a, &param));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK(e->param.ud.private_data_len >= 3 && !memcmp(e->param.ud.private_data, "ask", 3));
	CHECK_OK(rdma_ack_cm_event(e));
	cmt_qp(b);
	mr = CHECK_PTR(ibv_reg_mr(b->pd, buf, 4096, IBV_ACCESS_LOCAL_WRITE));
	CHECK_OK(rdma_post_recv(b, NULL, buf, 2048, mr));
	param.private_data = "told";
	param.private_data_len = 4;
	CHECK_OK(rdma_accept(b, &param));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK(e->param.ud.private_data_len >= 4 && !memcmp(e->param.ud.private_data, "told", 4));
	CHECK_EQ(e->param.ud.qp_num, b->qp->qp_num);
	CHECK_EQ(e->param.ud.qkey, RDMA_UDP_QKEY);
	ah = CHECK_PTR(ibv_create_ah(a->pd, &e->param.ud.ah_attr));
	vt_pattern(buf + 2048, 100, 77);
	CHECK_OK(rdma_post_ud_send(a, NULL, buf + 2048, 100, mr, IBV_SEND_SIGNALED, ah,
				   e->param.ud.qp_num));
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_EQ(rdma_get_recv_comp(b, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(wc.byte_len, 100 + VT_GRH);
	CHECK_PATTERN(buf + VT_GRH, 100, 77);
	CHECK_OK(ibv_destroy_ah(ah));
	CHECK_OK(ibv_dereg_mr(mr));
	rdma_destroy_qp(a);
	rdma_destroy_qp(b);
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(b));
	/* refused: SIDR has no reason but a status of its own */
	a = cmt_route(ch, l);
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, &param));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_OK(rdma_reject(b, NULL, 0));
	CHECK(vt_readable(ch->fd, VT_WAIT_MS));
	CHECK_OK(rdma_get_cm_event(ch, &e));
	CHECK_EQ(e->event, RDMA_CM_EVENT_UNREACHABLE);
	CHECK(e->status != 0);
	CHECK_OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(a);
	cmt_close(ch, a, b, l, NULL);
}

static void multicast(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct sockaddr_in self = cmt_self(), group = { .sin_family = AF_INET };
	struct rdma_cm_id *id[2];
	struct rdma_cm_event *e;
	struct ibv_ah *ah = NULL;
	uint8_t *buf = vt_map(4096);
	struct ibv_mr *mr;
	struct ibv_wc wc;
	uint32_t qpn = 0;

	group.sin_addr.s_addr = htonl(0xef010203);
	for (int i = 0; i < 2; i++) {
		id[i] = cmt_id(ch, RDMA_PS_UDP);
		CHECK_OK(rdma_bind_addr(id[i], (struct sockaddr *)&self));
		cmt_qp(id[i]);
		CHECK_OK(rdma_join_multicast(id[i], (struct sockaddr *)&group, &group));
		e = WANT_CM(ch, id[i], RDMA_CM_EVENT_MULTICAST_JOIN, 0);
		CHECK(e->param.ud.private_data == &group);
		CHECK_EQ(e->param.ud.qkey, RDMA_UDP_QKEY);
		CHECK_EQ(e->param.ud.qp_num, 0xffffff);
		qpn = e->param.ud.qp_num;
		if (!ah)
			ah = CHECK_PTR(ibv_create_ah(id[0]->pd, &e->param.ud.ah_attr));
		CHECK_OK(rdma_ack_cm_event(e));
	}
	mr = CHECK_PTR(ibv_reg_mr(id[0]->pd, buf, 4096, IBV_ACCESS_LOCAL_WRITE));
	for (int i = 0; i < 2; i++)
		CHECK_OK(rdma_post_recv(id[i], NULL, buf + 1024 * i, 1024, mr));
	vt_pattern(buf + 3000, 64, 5);
	CHECK_OK(rdma_post_ud_send(id[0], NULL, buf + 3000, 64, mr, IBV_SEND_SIGNALED, ah, qpn));
	for (int i = 0; i < 2; i++) {
		CHECK_EQ(rdma_get_recv_comp(id[i], &wc), 1);
		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK_PATTERN(buf + 1024 * i + VT_GRH, 64, 5);
	}
	CHECK_OK(rdma_leave_multicast(id[1], (struct sockaddr *)&group));
	CHECK_ERR(rdma_leave_multicast(id[1], (struct sockaddr *)&group), EADDRNOTAVAIL);
	CHECK_OK(ibv_destroy_ah(ah));
	CHECK_OK(ibv_dereg_mr(mr));
	for (int i = 0; i < 2; i++) {
		rdma_destroy_qp(id[i]);
		CHECK_OK(rdma_destroy_id(id[i]));
	}
	rdma_destroy_event_channel(ch);
}

/* ---- the rest ---------------------------------------------------------------------------------------- */

static void devices(void)
{
	struct rdma_cm_id *id;
	struct ibv_context **list;
	struct sockaddr_in self = cmt_self();
	int n = -1;

	list = CHECK_PTR(rdma_get_devices(&n));
	CHECK_EQ(n, 1);
	CHECK(list[0] && !list[1]);
	id = cmt_id(cmt_channel(), RDMA_PS_TCP);
	CHECK_OK(rdma_bind_addr(id, (struct sockaddr *)&self));
	CHECK(id->verbs == list[0]);
	rdma_free_devices(list);
	CHECK_OK(rdma_destroy_id(id));
}

static void strings(void)
{
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_ADDR_RESOLVED), "RDMA_CM_EVENT_ADDR_RESOLVED"));
	CHECK(!strcmp(rdma_event_str(RDMA_CM_EVENT_TIMEWAIT_EXIT), "RDMA_CM_EVENT_TIMEWAIT_EXIT"));
	CHECK(!strcmp(rdma_event_str((enum rdma_cm_event_type)99), "UNKNOWN EVENT"));
	CHECK(!strcmp(rdma_event_str((enum rdma_cm_event_type) - 1), "UNKNOWN EVENT"));
}

static void bad_arguments(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP), *l = cmt_listen(ch, RDMA_PS_TCP), *a;
	struct rdma_conn_param param = { 0 };
	struct ibv_qp_init_attr init = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_qp_init_attr_ex init_ex = { .comp_mask = IBV_QP_INIT_ATTR_PD };
	struct ibv_srq_init_attr_ex srq = { 0 };
	struct ibv_context *other = vt_open_device();
	struct sockaddr_in sin = { .sin_family = AF_UNIX };
	struct rdma_cm_event *e;
	struct ibv_ece ece = { .vendor_id = 0 };
	struct ibv_qp_attr attr;
	char data[256] = "";
	int mask;

	CHECK_ERR(rdma_create_id(ch, &a, NULL, (enum rdma_port_space)0x7777), EINVAL);
	CHECK_ERR(rdma_get_cm_event(ch, NULL), EINVAL);
	CHECK_ERR(rdma_ack_cm_event(NULL), EINVAL);
	CHECK_ERR(rdma_bind_addr(id, NULL), EINVAL);
	CHECK_ERR(rdma_bind_addr(id, (struct sockaddr *)&sin), EINVAL);
	CHECK_ERR(rdma_resolve_addr(id, NULL, NULL, 1), EINVAL);
	CHECK_ERR(rdma_resolve_addr(id, (struct sockaddr *)&sin, (struct sockaddr *)&sin, 1),
		  EINVAL);
	CHECK_ERR(rdma_resolve_route(id, 100), EINVAL);
	CHECK_ERR(rdma_connect(id, NULL), EINVAL);
	CHECK_ERR(rdma_accept(id, NULL), EINVAL);
	CHECK_ERR(rdma_accept(id, &param), EINVAL);
	CHECK_ERR(rdma_reject(id, NULL, 0), EINVAL);
	CHECK_ERR(rdma_disconnect(id), EINVAL);
	CHECK_ERR(rdma_establish(id), EINVAL);
	CHECK_ERR(rdma_create_qp(id, NULL, &init), EINVAL);
	attr.qp_state = IBV_QPS_RTR;
	CHECK_ERR(rdma_init_qp_attr(id, &attr, &mask), EINVAL);
	CHECK_ERR(rdma_set_local_ece(id, &ece), EINVAL);
	CHECK_ERR(rdma_set_local_ece(NULL, &ece), EINVAL);
	CHECK_ERR(rdma_get_remote_ece(id, NULL), EINVAL);
	CHECK_ERR(rdma_leave_multicast(id, NULL), EINVAL);
	CHECK_ERR(rdma_join_multicast(id, NULL, NULL), EINVAL);

	a = cmt_route(ch, l);
	param = (struct rdma_conn_param){ .private_data = data, .private_data_len = 57 };
	CHECK_ERR(rdma_connect(a, &param), EINVAL); /* 56 is what fits */
	param = (struct rdma_conn_param){ .responder_resources = 254 };
	CHECK_ERR(rdma_connect(a, &param), EINVAL);
	CHECK_ERR(rdma_connect(a, NULL), EINVAL); /* neither QP nor number of one */
	init_ex.pd = CHECK_PTR(ibv_alloc_pd(other));
	CHECK_ERR(rdma_create_qp_ex(a, &init_ex), EINVAL); /* another context's */
	CHECK_OK(ibv_dealloc_pd(init_ex.pd));
	CHECK_ERR(rdma_create_srq_ex(a, &srq), EINVAL);
	cmt_qp(a);
	CHECK_ERR(rdma_create_qp(a, NULL, &init), EINVAL);
	CHECK_ERR(rdma_establish(a), EINVAL);
	CHECK_ERR(rdma_listen(a, 1), EINVAL);
	CHECK_OK(rdma_connect(a, NULL));
	CHECK_ERR(rdma_connect(a, NULL), EINVAL);
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	cmt_qp(e->id);
	param = (struct rdma_conn_param){ .private_data = data, .private_data_len = 197 };
	CHECK_ERR(rdma_accept(e->id, &param), EINVAL); /* 196 */
	rdma_destroy_qp(e->id);
	CHECK_OK(rdma_destroy_id(e->id));
	CHECK_OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(a);
	cmt_close(ch, a, l, id, NULL);
	CHECK_OK(ibv_close_device(other));
}

/* The parent's ids are not the child's; what the child makes itself works, and so does the parent. */

VT_MAIN({ "nobody_there", nobody_there, 0 }, { "ports", ports, 0 }, { "spellings", spellings, 0 },
	{ "loopback", loopback, 0 }, { "addrinfo", addrinfo, 0 },
	{ "addrinfo_event", addrinfo_event, 0 }, { "datagram", datagram, 0 },
	{ "multicast", multicast, 0 }, { "devices", devices, 0 }, { "strings", strings, 0 },
	{ "bad_arguments", bad_arguments, 0 })
