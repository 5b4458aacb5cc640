/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/vt.c tests/lib/cmt.c -lrdmacm -lpthread */
/* timeout: 180 */
/*
 * cm_ids.c - rdma_cm within one container: which events come in which order, with what; ids, ports
 * and channels from beginning to end; wrong arguments.
 */
#include "../lib/cmt.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/ib.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define REJ_CONSUMER	28 /* IB CM: consumer defined */
#define REJ_NO_LISTENER 8  /* invalid service id */

/* ---- a connection from beginning to end ---------------------------------------------------------- */

static void check_data(const struct rdma_conn_param *p, const char *text)
{
	CHECK(p->private_data_len >= strlen(text));
	CHECK(p->private_data && !memcmp(p->private_data, text, strlen(text)));
}

static void transfer(struct rdma_cm_id *from, struct rdma_cm_id *to, uint32_t seed)
{
	uint8_t *out = vt_map(4096), *in = vt_map(4096);
	struct ibv_mr *omr, *imr;
	struct ibv_wc wc;

	vt_pattern(out, 4096, seed);
	omr = CHECK_PTR(rdma_reg_msgs(from, out, 4096));
	imr = CHECK_PTR(rdma_reg_msgs(to, in, 4096));
	CHECK_OK(rdma_post_recv(to, in, in, 4096, imr));
	CHECK_OK(rdma_post_send(from, out, out, 4096, omr, IBV_SEND_SIGNALED));
	CHECK_EQ(rdma_get_send_comp(from, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(rdma_get_recv_comp(to, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_PATTERN(in, 4096, seed);
	CHECK_OK(rdma_dereg_mr(omr));
	CHECK_OK(rdma_dereg_mr(imr));
}

static void connection(void)
{
	struct rdma_conn_param param = { .private_data = "hello",
					 .private_data_len = 5,
					 .responder_resources = 3,
					 .initiator_depth = 2,
					 .retry_count = 5,
					 .rnr_retry_count = 4 };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *b;
	struct ibv_qp_init_attr init;
	struct rdma_cm_event *e;
	struct ibv_qp_attr attr;
	int context;

	l->context = &context;
	CHECK(a->verbs && a->pd && a->port_num == 1);
	CHECK_EQ(a->route.num_paths, 1);
	CHECK_EQ(rdma_get_dst_port(a), rdma_get_src_port(l));
	CHECK_EQ(rdma_get_local_addr(a)->sa_family, AF_INET);
	cmt_qp(a);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_INIT);
	CHECK_OK(rdma_connect(a, &param));

	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK(b != l && e->listen_id == l && b->verbs == a->verbs);
	CHECK(b->context == &context);
	check_data(&e->param.conn, "hello");
	CHECK_EQ(e->param.conn.responder_resources, 2); /* what the peer may ask of us */
	CHECK_EQ(e->param.conn.initiator_depth, 3);
	CHECK_EQ(e->param.conn.retry_count, 5);
	CHECK_EQ(e->param.conn.rnr_retry_count, 4);
	CHECK_EQ(e->param.conn.qp_num, a->qp->qp_num);
	CHECK_EQ(rdma_get_dst_port(b), rdma_get_src_port(a));
	CHECK_EQ(rdma_get_src_port(b), rdma_get_src_port(l));
	CHECK_OK(rdma_ack_cm_event(e));

	cmt_qp(b);
	param.private_data = "welcome";
	param.private_data_len = 7;
	param.responder_resources = RDMA_MAX_RESP_RES;
	param.initiator_depth = RDMA_MAX_INIT_DEPTH;
	CHECK_OK(rdma_accept(b, &param));
	CHECK_EQ(vt_state(b->qp), IBV_QPS_RTS);
	e = WANT_CM(ch, a, RDMA_CM_EVENT_ESTABLISHED, 0);
	check_data(&e->param.conn, "welcome");
	CHECK_EQ(e->param.conn.qp_num, b->qp->qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_RTS);
	CHECK_OK(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.max_dest_rd_atomic, 3);
	CHECK_EQ(attr.max_rd_atomic, 2);
	CHECK_OK(ibv_query_qp(b->qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.max_dest_rd_atomic, 2);
	CHECK_EQ(attr.max_rd_atomic, 3);

	transfer(a, b, 1);
	transfer(b, a, 2);

	CHECK_OK(rdma_disconnect(a));
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK_OK(rdma_disconnect(b));
	WANT_CM_ACK(ch, a, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(ch, NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	WANT_CM_ACK(ch, NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	CHECK_NO_EVENT(ch);
	rdma_destroy_qp(a);
	rdma_destroy_qp(b);
	CHECK(!a->send_cq && !a->recv_cq && !a->qp);
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(b));
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
}

/* The programs that keep the QP to themselves. */
static void own_qp(void)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *id[2];
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_ece ece = { .vendor_id = 5, .options = 6 };
	struct rdma_cm_event *e;
	struct ibv_qp *qp[2];
	struct ibv_cq *cq = CHECK_PTR(ibv_create_cq(a->verbs, 16, NULL, NULL, 0));
	struct ibv_qp_attr attr;
	int mask;

	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < 2; i++)
		qp[i] = CHECK_PTR(ibv_create_qp(a->pd, &init));
	param.qp_num = qp[0]->qp_num;
	CHECK_OK(rdma_set_local_ece(a, &ece));
	CHECK_OK(rdma_connect(a, &param));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id[0] = a;
	id[1] = e->id;
	CHECK_EQ(e->param.conn.qp_num, param.qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	ece = (struct ibv_ece){ 0 };
	CHECK_OK(rdma_get_remote_ece(id[1], &ece));
	CHECK_EQ(ece.vendor_id, 5);
	CHECK_EQ(ece.options, 6);
	param.qp_num = qp[1]->qp_num;
	CHECK_OK(rdma_accept(id[1], &param));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_EQ(e->param.conn.qp_num, param.qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_NO_EVENT(ch); /* the passive side hears nothing yet */
	for (int i = 0; i < 2; i++)
		for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
			attr.qp_state = (enum ibv_qp_state)s;
			CHECK_OK(rdma_init_qp_attr(id[i], &attr, &mask));
			CHECK_OK(ibv_modify_qp(qp[i], &attr, mask));
		}
	CHECK_OK(rdma_establish(a));
	WANT_CM_ACK(ch, id[1], RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(vt_state(qp[0]), IBV_QPS_RTS);
	for (int i = 0; i < 2; i++) {
		id[i]->qp = qp[i]; /* for the inline helpers */
		id[i]->send_cq = id[i]->recv_cq = NULL;
	}
	uint8_t *buf = vt_map(4096);
	struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(a->pd, buf, 4096, IBV_ACCESS_LOCAL_WRITE));

	vt_pattern(buf, 100, 9);
	CHECK_OK(rdma_post_recv(id[1], (void *)2, buf + 1000, 100, mr));
	CHECK_OK(rdma_post_send(id[0], (void *)1, buf, 100, mr, IBV_SEND_SIGNALED));
	WAIT_FOR(vt_mismatch(buf + 1000, 100, 9) < 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(vt_wc(cq).status, IBV_WC_SUCCESS);
	CHECK_ERR(rdma_establish(a), EINVAL); /* it has a QP now */
	CHECK_OK(ibv_dereg_mr(mr));
	for (int i = 0; i < 2; i++) {
		CHECK_OK(ibv_destroy_qp(qp[i]));
		id[i]->qp = NULL;
		CHECK_OK(rdma_destroy_id(id[i]));
	}
	CHECK_OK(ibv_destroy_cq(cq));
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
}

static void rejected(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *b;
	struct rdma_cm_event *e;
	char data[200];

	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_ERR(rdma_reject(b, data, 149), EINVAL); /* 148 is what fits */
	CHECK_OK(rdma_reject(b, "no, thanks", 10));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	check_data(&e->param.conn, "no, thanks");
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	CHECK_OK(rdma_destroy_id(b));
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));

	/* a request that is destroyed is rejected, too */
	a = cmt_route(ch, l);
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_OK(rdma_destroy_id(b));
	CHECK_OK(rdma_ack_cm_event(WANT_CM(ch, a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER)));
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));

	/* and one with a listener that goes before anybody took it out of the channel */
	a = cmt_route(ch, l);
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	WAIT_FOR(vt_readable(ch->fd, 0));
	CHECK_OK(rdma_destroy_id(l));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	CHECK_OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));
	rdma_destroy_event_channel(ch);
}

static void nobody_listens(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *u;
	struct sockaddr_in sin = cmt_self();

	/* a port of another port space is another port */
	sin.sin_port = rdma_get_src_port(l);
	u = cmt_id(ch, RDMA_PS_UDP);
	CHECK_OK(rdma_bind_addr(u, (struct sockaddr *)&sin));
	CHECK_OK(rdma_destroy_id(l));
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	WANT_CM_ACK(ch, a, RDMA_CM_EVENT_REJECTED, REJ_NO_LISTENER);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(u));
	rdma_destroy_event_channel(ch);
}

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
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(b));
	CHECK_OK(rdma_destroy_id(c));
	rdma_destroy_event_channel(ch);
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
		cmt_qp(a);
		CHECK_OK(rdma_connect(a, NULL));
		e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
		b = e->id;
		CHECK_OK(rdma_ack_cm_event(e));
		cmt_qp(b);
		CHECK_OK(rdma_accept(b, NULL));
		WANT_CM_ACK(ch, a, RDMA_CM_EVENT_ESTABLISHED, 0);
		WANT_CM_ACK(ch, b, RDMA_CM_EVENT_ESTABLISHED, 0);
		transfer(a, b, i);
		rdma_destroy_qp(a);
		rdma_destroy_qp(b);
		CHECK_OK(rdma_destroy_id(a));
		CHECK_OK(rdma_destroy_id(b));
	}
	CHECK_OK(rdma_destroy_id(l));
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

/* ---- channels ------------------------------------------------------------------------------------ */

static void nonblocking(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();

	CHECK_NO_EVENT(ch);
	sin.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK_NO_EVENT(ch);
	/* an event that was destroyed with its id leaves nothing behind */
	CHECK_OK(rdma_resolve_route(id, 1000));
	WAIT_FOR(vt_readable(ch->fd, 0));
	CHECK_OK(rdma_destroy_id(id));
	CHECK_NO_EVENT(ch);
	rdma_destroy_event_channel(ch);
}

static void migrate_pending(void)
{
	struct rdma_event_channel *one = cmt_channel(), *two = cmt_channel();
	struct cmt_pair p;

	cmt_pair(&p);
	CHECK_OK(rdma_disconnect(p.active));
	WAIT_FOR(vt_readable(p.ch->fd, 0));
	CHECK_OK(rdma_migrate_id(p.passive, one));
	CHECK(p.passive->channel == one);
	CHECK_OK(rdma_disconnect(p.passive));
	WAIT_FOR(vt_readable(p.ch->fd, 0)); /* the active one's */
	CHECK_OK(rdma_migrate_id(p.active, two));
	CHECK_NO_EVENT(p.ch);
	WANT_CM_ACK(one, p.passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(two, p.active, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(two, p.active, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	WANT_CM_ACK(one, p.passive, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	cmt_pair_close(&p);
	rdma_destroy_event_channel(one);
	rdma_destroy_event_channel(two);
}

static struct rdma_cm_event *held;
static _Atomic int acknowledged;

static void *acknowledge(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		vt_pause();
	acknowledged = 1;
	rdma_ack_cm_event(held);
	return NULL;
}

static void destroy_waits(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();
	pthread_t t;

	sin.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	held = WANT_CM(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK_OK(pthread_create(&t, NULL, acknowledge, NULL));
	CHECK_OK(rdma_destroy_id(id));
	CHECK_EQ(acknowledged, 1);
	pthread_join(t, NULL);
	rdma_destroy_event_channel(ch);
}

/* A handler with SA_RESTART does not end a blocked call, one without does. */
static volatile sig_atomic_t signals;
static _Atomic int blocked_ret = 1;

static void on_signal(int sig)
{
	(void)sig;
	signals++;
}

static void *blocked(void *channel)
{
	struct rdma_cm_event *e;
	int ret = rdma_get_cm_event(channel, &e);

	if (!ret)
		rdma_ack_cm_event(e);
	blocked_ret = ret ? -errno : 0;
	return NULL;
}

static void signals_restart(void)
{
	struct sigaction sa = { .sa_handler = on_signal, .sa_flags = SA_RESTART };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct sockaddr_in sin = cmt_self();
	pthread_t t;

	CHECK_OK(sigaction(SIGUSR1, &sa, NULL));
	CHECK_OK(pthread_create(&t, NULL, blocked, ch));
	for (int n = 0; n < 5; n++) {
		CHECK_OK(pthread_kill(t, SIGUSR1));
		WAIT_FOR(signals > n);
	}
	CHECK_EQ(blocked_ret, 1);
	sin.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&sin, 1000));
	pthread_join(t, NULL);
	CHECK_EQ(blocked_ret, 0);
	sa.sa_flags = 0;
	CHECK_OK(sigaction(SIGUSR1, &sa, NULL));
	blocked_ret = 1;
	CHECK_OK(pthread_create(&t, NULL, blocked, ch));
	WAIT_FOR((pthread_kill(t, SIGUSR1), blocked_ret != 1)); /* until it has met the call */
	pthread_join(t, NULL);
	CHECK_EQ(blocked_ret, -EINTR);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

/* ---- synchronous ids ------------------------------------------------------------------------------ */

static struct rdma_addrinfo *own_address(int flags, uint16_t port)
{
	static struct sockaddr_in sin;
	struct rdma_addrinfo *ai = calloc(1, sizeof(*ai));

	sin = cmt_self();
	sin.sin_port = port;
	ai->ai_flags = flags;
	ai->ai_family = AF_INET;
	ai->ai_qp_type = IBV_QPT_RC;
	ai->ai_port_space = RDMA_PS_TCP;
	if (flags & RAI_PASSIVE) {
		ai->ai_src_addr = (struct sockaddr *)&sin;
		ai->ai_src_len = sizeof(sin);
	} else {
		ai->ai_dst_addr = (struct sockaddr *)&sin;
		ai->ai_dst_len = sizeof(sin);
	}
	return ai;
}

static void *sync_server(void *listener)
{
	struct rdma_cm_id *id;

	CHECK_OK(rdma_get_request(listener, &id));
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(id->qp != NULL);
	CHECK_OK(rdma_accept(id, NULL));
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void synchronous(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_addrinfo *ai = own_address(RAI_PASSIVE, 0);
	struct rdma_cm_id *l, *a, *b;
	pthread_t t;
	void *ret;

	CHECK_OK(rdma_create_ep(&l, ai, NULL, &attr));
	CHECK_OK(rdma_listen(l, 0));
	free(ai);
	ai = own_address(0, rdma_get_src_port(l));
	CHECK_OK(pthread_create(&t, NULL, sync_server, l));
	CHECK_OK(rdma_create_ep(&a, ai, NULL, &attr));
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_OK(rdma_connect(a, NULL));
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_ESTABLISHED);
	pthread_join(t, &ret);
	b = ret;
	transfer(a, b, 3);
	CHECK_OK(rdma_disconnect(a));
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_DISCONNECTED);
	CHECK_ERR(rdma_migrate_id(a, NULL), EINVAL);
	rdma_destroy_ep(a);
	rdma_destroy_ep(b);
	CHECK_ERR(rdma_get_request((struct rdma_cm_id *)cmt_id(cmt_channel(), RDMA_PS_TCP), &b),
		  EINVAL); /* not synchronous */

	/* nobody listens any more */
	rdma_destroy_ep(l);
	attr = (struct ibv_qp_init_attr){ .cap = { 4, 4, 1, 1, 0 } };
	CHECK_OK(rdma_create_ep(&a, ai, NULL, &attr));
	CHECK_ERR(rdma_connect(a, NULL), ECONNREFUSED);
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(a);
	free(ai);
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
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(b));
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
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
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(l));
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
	CHECK_OK(ibv_close_device(other));
}

/* The parent's ids are not the child's; what the child makes itself works, and so does the parent. */
static void forked(void)
{
	struct cmt_pair p;
	pid_t pid;

	cmt_pair(&p);
	pid = fork();
	if (!pid) {
		struct rdma_cm_event *e;
		struct rdma_cm_id *id;
		struct cmt_pair mine;

		CHECK_ERR(rdma_get_cm_event(p.ch, &e), EIO);
		CHECK_ERR(rdma_create_id(p.ch, &id, NULL, RDMA_PS_TCP), EIO);
		CHECK_ERR(rdma_disconnect(p.active), EIO);
		cmt_pair(&mine);
		transfer(mine.active, mine.passive, 4);
		cmt_pair_close(&mine);
		CHECK_OK(rdma_destroy_id(p.listener)); /* its memory only */
		_exit(0);
	}
	CHECK_EQ(vt_child_status(pid), 0);
	transfer(p.active, p.passive, 5);
	CHECK_OK(rdma_disconnect(p.active));
	WANT_CM_ACK(p.ch, p.passive, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(p.ch, p.active, RDMA_CM_EVENT_DISCONNECTED, 0);
	cmt_pair_close(&p);
}

/* The peer's process is killed: the connection ends with an event. */
static void peer_killed(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *b;
	struct rdma_cm_event *e;
	int go[2];
	pid_t pid;

	CHECK_OK(pipe(go));
	pid = fork();
	if (!pid) {
		struct rdma_event_channel *mine = cmt_channel();
		struct rdma_cm_id *a = cmt_id(mine, RDMA_PS_TCP);
		struct sockaddr_in sin;

		sin = cmt_self();
		CHECK_EQ(read(go[0], &sin.sin_port, 2), 2);
		CHECK_OK(rdma_resolve_addr(a, NULL, (struct sockaddr *)&sin, 1000));
		WANT_CM_ACK(mine, a, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
		CHECK_OK(rdma_resolve_route(a, 1000));
		WANT_CM_ACK(mine, a, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
		cmt_qp(a);
		CHECK_OK(rdma_connect(a, NULL));
		WANT_CM_ACK(mine, a, RDMA_CM_EVENT_ESTABLISHED, 0);
		for (;;)
			pause();
	}
	uint16_t port = rdma_get_src_port(l);
	CHECK_EQ(write(go[1], &port, 2), 2);
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	cmt_qp(b);
	CHECK_OK(rdma_accept(b, NULL));
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_OK(kill(pid, SIGKILL));
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_DISCONNECTED, 0);
	vt_child_status(pid);
	rdma_destroy_qp(b);
	CHECK_OK(rdma_destroy_id(b));
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
}

/* Requests beyond the backlog wait at their senders; all are served in the end. */
static void backlog(void)
{
	enum { N = 40 };
	struct rdma_event_channel *ch = cmt_channel(), *chl = cmt_channel();
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *l = cmt_id(chl, RDMA_PS_TCP), *a[N], *b[N];

	CHECK_OK(rdma_bind_addr(l, (struct sockaddr *)&any));
	CHECK_OK(rdma_listen(l, 4));
	for (int i = 0; i < N; i++) {
		a[i] = cmt_route(ch, l);
		cmt_qp(a[i]);
	}
	for (int i = 0; i < N; i++)
		CHECK_OK(rdma_connect(a[i], NULL));
	for (int requests = 0, established = 0; requests < N || established < N;) {
		struct rdma_cm_event *e;

		CHECK(vt_readable(chl->fd, VT_WAIT_MS));
		CHECK_OK(rdma_get_cm_event(chl, &e));
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			b[requests++] = e->id;
			cmt_qp(e->id);
			CHECK_OK(rdma_accept(e->id, NULL));
			WANT_CM_ACK(ch, NULL, RDMA_CM_EVENT_ESTABLISHED, 0);
		} else {
			CHECK_EQ(e->event, RDMA_CM_EVENT_ESTABLISHED);
			established++;
		}
		CHECK_OK(rdma_ack_cm_event(e));
	}
	for (int i = 0; i < N; i++) {
		rdma_destroy_qp(a[i]);
		rdma_destroy_qp(b[i]);
		CHECK_OK(rdma_destroy_id(a[i]));
		CHECK_OK(rdma_destroy_id(b[i]));
	}
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(chl);
}

int main(int argc, char **argv)
{
	static const struct vt_case cases[] = {
		{ "connection", connection, 0 },
		{ "own_qp", own_qp, 0 },
		{ "rejected", rejected, 0 },
		{ "nobody_listens", nobody_listens, 0 },
		{ "nobody_there", nobody_there, 0 },
		{ "ports", ports, 0 },
		{ "spellings", spellings, 0 },
		{ "addrinfo", addrinfo, 0 },
		{ "addrinfo_event", addrinfo_event, 0 },
		{ "nonblocking", nonblocking, 0 },
		{ "migrate_pending", migrate_pending, 0 },
		{ "destroy_waits", destroy_waits, 0 },
		{ "signals_restart", signals_restart, 0 },
		{ "synchronous", synchronous, 0 },
		{ "datagram", datagram, 0 },
		{ "multicast", multicast, 0 },
		{ "devices", devices, 0 },
		{ "strings", strings, 0 },
		{ "bad_arguments", bad_arguments, 0 },
		{ "forked", forked, 0 },
		{ "peer_killed", peer_killed, 0 },
		{ "backlog", backlog, 0 },
	};

	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
