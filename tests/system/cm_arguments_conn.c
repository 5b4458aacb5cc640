/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/cms.c -lrdmacm -lpthread */
/* timeout: 600 */
/*
 * cm_arguments_conn.c - cm_arguments.c's for connections, their QPs and SRQs, and endpoints.
 *
 * Not tried, because the real library crashes or hangs on it:
 *	- ids without a device: rdma_create_qp() and rdma_create_srq() look into id->verbs,
 *	  rdma_connect() and rdma_accept() into the limits of the device; rdma_accept() with neither a QP
 *	  nor parameters
 *	- rdma_destroy_qp() and rdma_destroy_srq() of ids that have none
 *	- rdma_disconnect() of a synchronous id in a state in which no event follows: waits for ever
 * Not tried because it works by accident: rdma_establish() accepts the request of a UD id.
 */
#include "tests/rig/verbs/cms.h"

#include <infiniband/ib.h>
#include <stdlib.h>

#define SA(x) ((struct sockaddr *)(x))

/* ---- connecting -------------------------------------------------------------------------------------- */

static int connect_no_qp(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = cms_param();

	return rdma_connect(id, &p);
}

static int connect_null(struct rdma_cm_id *id)
{
	return rdma_connect(id, NULL);
}

static uint8_t blob[256];

static int connect_data(struct rdma_cm_id *id, unsigned len)
{
	struct rdma_conn_param p = cms_param();

	p.private_data = blob;
	p.private_data_len = (uint8_t)len;
	return rdma_connect(id, &p);
}

/* An id whose route is resolved by AF_IB addresses. */
static struct rdma_cm_id *route_ib(struct rdma_event_channel *ch, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = cmt_id(ch, listener->ps);
	struct sockaddr_in self = cmt_self();
	struct sockaddr_ib ib = { .sib_family = AF_IB, .sib_pkey = htons(0xffff) };
	uint64_t port = ntohs(rdma_get_src_port(listener));

	ib.sib_addr.sib_addr16[5] = 0xffff; /* GID 0: the IPv4 address, mapped */
	memcpy(&ib.sib_addr.sib_addr32[3], &self.sin_addr, 4);
	ib.sib_sid = htobe64((uint64_t)listener->ps << 16 | port);
	ib.sib_sid_mask = htobe64(~0ull);
	CHECK_OK(rdma_resolve_addr(id, NULL, SA(&ib), 1000));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK_OK(rdma_resolve_route(id, 1000));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	return id;
}

/*
 * cm_validate_req_param(): 92 bytes, of which cma_user_data_offset() takes 36 but between AF_IB
 * addresses; ib_send_cm_sidr_req(): 216.
 */
static void longest_request(enum rdma_port_space ps, bool ib, unsigned most)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct sockaddr_in6 any = { .sin6_family = AF_INET6 }; /* of all families */
	struct rdma_cm_id *l = cmt_id(ch, ps), *id, *req;

	CHECK_OK(rdma_bind_addr(l, SA(&any)));
	CHECK_OK(rdma_listen(l, 0));
	id = ib ? route_ib(ch, l) : cmt_route(ch, l);
	for (unsigned len = most + 1; len < 256; len++)
		CHECK_ERR(connect_data(id, len), EINVAL);
	CHECK_OK(connect_data(id, most)); /* it has lost nothing */
	req = cms_request(ch);
	cmt_close(ch, req, id, l, NULL);
}

static void t_rdma_connect(void)
{
	struct ibv_device_attr dev;
	struct rdma_conn_param p;
	struct cms f;

	IN_STATES(connect_no_qp, .ok = BIT(ROUTED), .crashes = NO_DEVICE);
	/* neither a QP nor the number of one: ucma_valid_param() minds in RDMA_PS_TCP only */
	IN_STATES(connect_null, .ok = 0, .crashes = BIT(UD_IDLE));
	longest_request(RDMA_PS_TCP, false, 56);
	longest_request(RDMA_PS_TCP, true, 92);
	longest_request(RDMA_PS_UDP, false, 180);
	longest_request(RDMA_PS_UDP, true, 216);

	f = cms_open(ROUTED);
	CHECK_OK(ibv_query_device(f.id->verbs, &dev));
	p = cms_param();
	p.responder_resources = (uint8_t)(dev.max_qp_rd_atom + 1);
	CHECK_ERR(rdma_connect(f.id, &p), EINVAL);
	p = cms_param();
	p.initiator_depth = (uint8_t)(dev.max_qp_init_rd_atom + 1);
	CHECK_ERR(rdma_connect(f.id, &p), EINVAL);
	p = cms_param();
	p.private_data_len = 255; /* of nothing: not looked at */
	p.retry_count = p.rnr_retry_count = p.flow_control = 255;
	p.responder_resources = RDMA_MAX_RESP_RES;
	p.initiator_depth = RDMA_MAX_INIT_DEPTH;
	p.qp_num = UINT32_MAX;
	CHECK_OK(rdma_connect(f.id, &p));
	CHECK_ERR(rdma_connect(f.id, &p), EINVAL);
	cms_close(&f);
}

static int accept_no_qp(struct rdma_cm_id *id)
{
	struct rdma_conn_param p = cms_param();

	return rdma_accept(id, &p);
}

static int accept_data(struct rdma_cm_id *id, unsigned len)
{
	struct rdma_conn_param p = cms_param();

	p.private_data = blob;
	p.private_data_len = (uint8_t)len;
	return rdma_accept(id, &p);
}

static void t_rdma_accept(void)
{
	struct ibv_device_attr dev;
	struct rdma_conn_param p;
	struct cms f;

	IN_STATES(accept_no_qp, .ok = BIT(REQ_RCVD) | BIT(UD_REQ_RCVD), .crashes = NO_DEVICE);
	f = cms_open(REQ_RCVD);
	CHECK_OK(ibv_query_device(f.id->verbs, &dev));
	p = cms_param();
	p.responder_resources = (uint8_t)(dev.max_qp_rd_atom + 1);
	CHECK_ERR(rdma_accept(f.id, &p), EINVAL);
	p = cms_param();
	p.initiator_depth = (uint8_t)(dev.max_qp_init_rd_atom + 1);
	CHECK_ERR(rdma_accept(f.id, &p), EINVAL);
	CHECK_OK(accept_data(f.id, 196)); /* ib_send_cm_rep() */
	CHECK_ERR(accept_data(f.id, 196), EINVAL);
	cms_close(&f);
	/* what the kernel cannot send as an acceptance it sends as a refusal: __rdma_accept() */
	f = cms_open(REQ_RCVD);
	CHECK_ERR(accept_data(f.id, 197), EINVAL);
	WANT_CM_ACK(f.ch, f.peer, RDMA_CM_EVENT_REJECTED, 28);
	CHECK_ERR(accept_data(f.id, 0), EINVAL);
	cms_close(&f);
	f = cms_open(REQ_RCVD);
	cmt_qp(f.id);
	CHECK_ERR(accept_data(f.id, 255), EINVAL);
	CHECK_EQ(vt_state(f.id->qp), IBV_QPS_ERR); /* ucma_modify_qp_err() */
	rdma_destroy_qp(f.id);
	cms_close(&f);
	f = cms_open(UD_REQ_RCVD);
	CHECK_OK(accept_data(f.id, 136)); /* ib_send_cm_sidr_rep() */
	cms_close(&f);
	f = cms_open(UD_REQ_RCVD);
	CHECK_ERR(accept_data(f.id, 137), EINVAL);
	WANT_CM_ACK(f.ch, f.peer, RDMA_CM_EVENT_UNREACHABLE, 2 /* IB_SIDR_REJECT */);
	cms_close(&f);
}

static int reject_plain(struct rdma_cm_id *id)
{
	return rdma_reject(id, NULL, 0);
}

static int reject_ece(struct rdma_cm_id *id)
{
	return rdma_reject_ece(id, NULL, 0);
}

#define REJECTABLE                                                                                 \
	(BIT(REQ_SENT) | BIT(REQ_RCVD) | BIT(REP_SENT) | BIT(REP_RCVD) | BIT(UD_REQ_RCVD))

/* ib_send_cm_rej(), ib_send_cm_sidr_rep() */
static void longest_refusal(int (*reject)(struct rdma_cm_id *, const void *, uint8_t))
{
	struct cms f = cms_open(REQ_RCVD);

	CHECK_ERR(reject(f.id, blob, 149), EINVAL);
	CHECK_ERR(reject(f.id, blob, 255), EINVAL);
	CHECK_OK(reject(f.id, blob, 148));
	CHECK_ERR(reject(f.id, blob, 0), EINVAL); /* it is over */
	cms_close(&f);
	f = cms_open(REQ_RCVD);
	CHECK_OK(reject(f.id, NULL, 255)); /* of nothing: not looked at */
	cms_close(&f);
	f = cms_open(UD_REQ_RCVD);
	CHECK_ERR(reject(f.id, blob, 137), EINVAL);
	CHECK_OK(reject(f.id, blob, 136));
	cms_close(&f);
}

static void t_rdma_reject(void)
{
	IN_STATES(reject_plain, .ok = REJECTABLE);
	longest_refusal(rdma_reject);
}

static void t_rdma_reject_ece(void)
{
	IN_STATES(reject_ece, .ok = REJECTABLE);
	longest_refusal(rdma_reject_ece);
}

static void t_rdma_establish(void)
{
	struct cms f;

	IN_STATES(rdma_establish, .ok = BIT(REP_RCVD), .crashes = BIT(UD_REQ_RCVD));
	f = cms_open(BOUND);
	cmt_qp(f.id);
	CHECK_ERR(rdma_establish(f.id), EINVAL); /* rdma_get_cm_event() does it for ids with a QP */
	rdma_destroy_qp(f.id);
	cms_close(&f);
}

static int notify_comm_est(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_COMM_EST);
}

static int notify_path_mig(struct rdma_cm_id *id)
{
	return rdma_notify(id, IBV_EVENT_PATH_MIG);
}

static int notify_others(struct rdma_cm_id *id)
{
	for (int event = -1; event < 32; event++)
		if (event != IBV_EVENT_COMM_EST && event != IBV_EVENT_PATH_MIG)
			CHECK_ERR(rdma_notify(id, (enum ibv_event_type)event), EINVAL);
	return rdma_notify(id, (enum ibv_event_type)INT32_MAX);
}

static void t_rdma_notify(void)
{
	IN_STATES(notify_comm_est, .ok = BIT(REP_SENT), .isconn = CONNECTED); /* cm_establish() */
	IN_STATES(notify_path_mig, .ok = CONNECTED);			      /* cm_migrate() */
	IN_STATES(notify_others, .ok = 0);
}

/* An IB CM id is all that the kernel's rdma_disconnect() wants, a listening one will do. */
static void t_rdma_disconnect(void)
{
	struct cms f;

	IN_STATES(rdma_disconnect, .ok = BIT(LISTEN) | BIT(REQ_SENT) | BIT(REQ_RCVD) |
					 BIT(REP_SENT) | BIT(REP_RCVD) | CONNECTED | BIT(ENDED) |
					 BIT(REJECTED) | BIT(UD_LISTEN) | BIT(UD_REQ_SENT) |
					 BIT(UD_REQ_RCVD) | BIT(UD_DONE));
	f = cms_open(BOUND);
	cmt_qp(f.id);
	CHECK_ERR(rdma_disconnect(f.id), EINVAL);
	CHECK_EQ(vt_state(f.id->qp), IBV_QPS_ERR); /* ucma_shutdown() comes first */
	rdma_destroy_qp(f.id);
	cms_close(&f);
}

static void t_rdma_get_request(void)
{
	struct rdma_cm_id *id, *req;
	struct cms f = cms_open(LISTEN);

	CHECK_ERR(rdma_get_request(f.id, &req), EINVAL); /* not synchronous */
	cms_close(&f);
	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	cmt_nonblock(id->channel);
	CHECK_ERR(rdma_get_request(id, &req), EAGAIN); /* it does not even listen */
	CHECK_OK(rdma_listen(id, 1));
	CHECK_ERR(rdma_get_request(id, &req), EAGAIN);
	CHECK_OK(rdma_destroy_id(id));
}

/* ---- QPs, SRQs ------------------------------------------------------------------------------------------ */

static int create_qp_of(struct rdma_cm_id *id, enum ibv_qp_type type)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = type };
	int ret = rdma_create_qp(id, NULL, &attr);

	if (!ret) {
		rdma_destroy_qp(id);
	} else { /* nothing is left of it */
		CHECK(!id->qp && !id->send_cq && !id->recv_cq && !id->send_cq_channel &&
		      !id->recv_cq_channel);
	}
	return ret;
}

static int create_qp(struct rdma_cm_id *id)
{
	return create_qp_of(id, id->qp_type);
}

static int create_qp_ex(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr_ex attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = id->qp_type };
	int ret = rdma_create_qp_ex(id, &attr);

	if (!ret)
		rdma_destroy_qp(id);
	return ret;
}

/* ib_cm_init_qp_attr() has no INIT for an IB CM id that listens or whose connection has ended. */
#define QP_STATES (ALL & ~(BIT(LISTEN) | BIT(ENDED) | BIT(REJECTED) | NO_DEVICE))

/* Objects of another context, of another kind, and more than the device has. */
static void qp_attributes(enum cms_state s)
{
	struct ibv_context *other = vt_open_device();
	struct ibv_qp_init_attr_ex ex;
	struct ibv_qp_init_attr attr;
	struct cms f = cms_open(s);
	struct ibv_cq *cq, *cq2;
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(other));
	static const enum ibv_qp_type types[] = { IBV_QPT_RC,	       IBV_QPT_UC,
						  IBV_QPT_UD,	       IBV_QPT_XRC_SEND,
						  IBV_QPT_XRC_RECV,    (enum ibv_qp_type)0,
						  (enum ibv_qp_type)99 };

	/* one of another kind cannot be brought to INIT, ucma_init_conn_qp(), or is none */
	for (unsigned i = 0; i < ARRAY_SIZE(types); i++)
		if ((types[i] == IBV_QPT_UD) != (f.id->qp_type == IBV_QPT_UD) &&
		    types[i] != IBV_QPT_XRC_SEND && types[i] != IBV_QPT_XRC_RECV)
			CHECK_ERR(create_qp_of(f.id, types[i]), EINVAL);
	attr = (struct ibv_qp_init_attr){ .cap = { 1, 1, 1, 1, 0 }, .qp_type = f.id->qp_type };
	CHECK_ERR(rdma_create_qp(f.id, pd, &attr), EINVAL);
	ex = (struct ibv_qp_init_attr_ex){ .cap = { 1, 1, 1, 1, 0 },
					   .qp_type = f.id->qp_type,
					   .comp_mask = IBV_QP_INIT_ATTR_PD,
					   .pd = pd };
	CHECK_ERR(rdma_create_qp_ex(f.id, &ex), EINVAL);
	attr.cap.max_send_wr = UINT32_MAX;
	CHECK_ERR(rdma_create_qp(f.id, NULL, &attr), EINVAL);
	attr.cap.max_send_wr = 1;
	attr.cap.max_recv_sge = UINT32_MAX;
	CHECK_ERR(rdma_create_qp(f.id, NULL, &attr), EINVAL);
	attr.cap.max_recv_sge = 1;
	cq = CHECK_PTR(ibv_create_cq(other, 4, NULL, NULL, 0));
	attr.send_cq = attr.recv_cq = cq;
	CHECK_ERR(rdma_create_qp(f.id, NULL, &attr), EINVAL);
	CHECK_OK(ibv_destroy_cq(cq));
	CHECK(!f.id->qp && !f.id->send_cq && !f.id->recv_cq);

	/* of its own CQs one cannot be exchanged */
	cq = CHECK_PTR(ibv_create_cq(f.id->verbs, 4, NULL, NULL, 0));
	cq2 = CHECK_PTR(ibv_create_cq(f.id->verbs, 4, NULL, NULL, 0));
	f.id->send_cq = cq;
	attr.send_cq = attr.recv_cq = cq2;
	CHECK_ERR(rdma_create_qp(f.id, NULL, &attr), EINVAL);
	f.id->send_cq = NULL;
	CHECK_OK(rdma_create_qp(f.id, NULL, &attr));
	CHECK_ERR(rdma_create_qp(f.id, NULL, &attr), EINVAL); /* it has one */
	ex.pd = NULL;
	CHECK_ERR(rdma_create_qp_ex(f.id, &ex), EINVAL);
	rdma_destroy_qp(f.id);
	CHECK_OK(ibv_destroy_cq(cq));
	CHECK_OK(ibv_destroy_cq(cq2));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(other));
	cms_close(&f);
}

static void t_rdma_create_qp(void)
{
	IN_STATES(create_qp, .ok = QP_STATES, .crashes = NO_DEVICE);
	qp_attributes(BOUND);
	qp_attributes(UD_BOUND);
}

static void t_rdma_create_qp_ex(void)
{
	struct ibv_qp_init_attr_ex attr = { .cap = { 1, 1, 1, 1, 0 },
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = 1u << 25 };
	struct cms f = cms_open(BOUND);

	CHECK_ERR(rdma_create_qp_ex(f.id, &attr), EINVAL);
	cms_close(&f);
	IN_STATES(create_qp_ex, .ok = QP_STATES, .crashes = NO_DEVICE);
}

/* Twice is once too many for the real library; between them another can be made. */
static void t_rdma_destroy_qp(void)
{
	struct cms f = cms_open(ROUTED);

	cmt_qp(f.id);
	rdma_destroy_qp(f.id);
	CHECK(!f.id->qp && !f.id->send_cq && !f.id->recv_cq);
	CHECK_OK(create_qp(f.id));
	cms_close(&f);
}

static int create_srq_ex_no_type(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 1, .max_sge = 1 } };

	return rdma_create_srq_ex(id, &attr);
}

static int create_srq(struct rdma_cm_id *id)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	int ret = rdma_create_srq(id, NULL, &attr);

	if (!ret)
		rdma_destroy_srq(id);
	return ret;
}

static void t_rdma_create_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 0, .max_sge = 1 } };
	struct cms f = cms_open(BOUND);

	IN_STATES(create_srq, .ok = ALL, .crashes = NO_DEVICE);
	CHECK_ERR(rdma_create_srq(f.id, NULL, &attr), EINVAL);
	attr.attr.max_wr = UINT32_MAX;
	CHECK_ERR(rdma_create_srq(f.id, NULL, &attr), EINVAL);
	attr.attr.max_wr = 1;
	attr.attr.max_sge = UINT32_MAX;
	CHECK_ERR(rdma_create_srq(f.id, NULL, &attr), EINVAL);
	CHECK(!f.id->srq);
	cms_close(&f);
}

static void t_rdma_create_srq_ex(void)
{
	struct ibv_srq_init_attr_ex attr = { .attr = { .max_wr = 1, .max_sge = 1 },
					     .srq_type = (enum ibv_srq_type)77,
					     .comp_mask = IBV_SRQ_INIT_ATTR_TYPE };
	struct cms f = cms_open(BOUND);

	IN_STATES(create_srq_ex_no_type, .ok = 0);
	CHECK_ERR(rdma_create_srq_ex(f.id, &attr), EINVAL);
	attr.srq_type = IBV_SRQT_BASIC;
	attr.comp_mask |= 1u << 20;
	CHECK_ERR(rdma_create_srq_ex(f.id, &attr), EINVAL);
	CHECK(!f.id->srq);
	cms_close(&f);
}

static void t_rdma_destroy_srq(void)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 1, .max_sge = 1 } };
	struct cms f = cms_open(BOUND);

	CHECK_OK(rdma_create_srq(f.id, NULL, &attr));
	rdma_destroy_srq(f.id);
	CHECK(!f.id->srq);
	CHECK_OK(create_srq(f.id));
	cms_close(&f);
}

static enum ibv_qp_state asked;

static int init_qp_attr(struct rdma_cm_id *id)
{
	struct ibv_qp_attr attr = { .qp_state = asked };
	int mask = 0, ret = rdma_init_qp_attr(id, &attr, &mask);

	if (!ret)
		CHECK(mask & IBV_QP_STATE && attr.qp_state == asked);
	return ret;
}

/*
 * The kernel's rdma_init_qp_attr(): without an IB CM id, and for UD, it tells what INIT needs,
 * whichever state was asked for; with one, ib_cm_init_qp_attr() decides.
 */
static void t_rdma_init_qp_attr(void)
{
	const uint32_t any_state = UD | BIT(BOUND) | BIT(RESOLVED) | BIT(ROUTED);
	const uint32_t has_peer = BIT(REQ_RCVD) | BIT(REP_SENT) | BIT(REP_RCVD) | CONNECTED;
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_RTR };
	struct cms f;
	int mask;

	for (asked = IBV_QPS_RESET; asked <= IBV_QPS_ERR; asked++) {
		uint32_t ok = any_state;

		if (asked == IBV_QPS_INIT)
			ok |= BIT(REQ_SENT) | has_peer;
		else if (asked == IBV_QPS_RTR || asked == IBV_QPS_RTS)
			ok |= has_peer;
		IN_STATES(init_qp_attr, .ok = ok & ~NO_DEVICE);
	}
	asked = IBV_QPS_UNKNOWN; /* beyond ERR: ucma_init_qp_attr() */
	IN_STATES(init_qp_attr, .ok = 0);
	asked = (enum ibv_qp_state) - 1;
	IN_STATES(init_qp_attr, .ok = 0);

	f = cms_open(BOUND);
	CHECK_OK(rdma_init_qp_attr(f.id, &attr, &mask));
	CHECK_EQ(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	cms_close(&f);
	f = cms_open(UD_BOUND);
	CHECK_OK(rdma_init_qp_attr(f.id, &attr, &mask));
	CHECK_EQ(mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
	CHECK_EQ(attr.qkey, RDMA_UDP_QKEY);
	cms_close(&f);
}

/* ---- endpoints ------------------------------------------------------------------------------------------ */

static void t_rdma_create_ep(void)
{
	struct ibv_qp_init_attr qp = { .cap = { UINT32_MAX, 1, 1, 1, 0 } };
	struct sockaddr_in self = cmt_self(), elsewhere = self;
	struct ibv_path_data path = { .flags = 0 };
	struct rdma_addrinfo rai, ok = { .ai_port_space = RDMA_PS_TCP,
					 .ai_qp_type = IBV_QPT_RC,
					 .ai_dst_addr = SA(&self),
					 .ai_dst_len = sizeof(self) };
	struct rdma_cm_id *id;

	self.sin_port = htons(9);
#define REFUSED(err, change)                                                                       \
	do {                                                                                       \
		rai = ok;                                                                          \
		change;                                                                            \
		CHECK_ERR(rdma_create_ep(&id, &rai, NULL, NULL), err);                             \
	} while (0)
	REFUSED(EINVAL, rai.ai_port_space = 0);
	REFUSED(EINVAL, rai.ai_port_space = 0x107);
	/* ucma_resolve_addr(): the length must be the family's */
	REFUSED(EINVAL, (rai.ai_dst_addr = NULL, rai.ai_dst_len = 0));
	REFUSED(EINVAL, rai.ai_dst_len = 0);
	REFUSED(EINVAL, rai.ai_dst_len = 3);
	REFUSED(EINVAL, rai.ai_dst_len = sizeof(self) - 1);
	REFUSED(EINVAL, rai.ai_dst_len = sizeof(self) + 1);
	REFUSED(EINVAL, (rai.ai_src_addr = SA(&self), rai.ai_src_len = 2));
	elsewhere.sin_addr.s_addr = htonl(0xc0000201);
	REFUSED(EADDRNOTAVAIL, (rai.ai_src_addr = SA(&elsewhere), rai.ai_src_len = sizeof(self)));
	/* ucma_bind() likewise */
	ok.ai_flags = RAI_PASSIVE;
	REFUSED(EINVAL, rai.ai_src_addr = NULL);
	REFUSED(EINVAL, (rai.ai_src_addr = SA(&self), rai.ai_src_len = 0));
	REFUSED(EINVAL, (rai.ai_src_addr = SA(&self), rai.ai_src_len = sizeof(self) - 1));
	REFUSED(EADDRNOTAVAIL, (rai.ai_src_addr = SA(&elsewhere), rai.ai_src_len = sizeof(self)));
	ok.ai_flags = 0;
	/* ucma_set_ib_path() */
	REFUSED(EINVAL, (rai.ai_route = &path, rai.ai_route_len = sizeof(path)));
	REFUSED(EINVAL, (rai.ai_route = &path, rai.ai_route_len = 5));
#undef REFUSED
	rai = ok;
	CHECK_ERR(rdma_create_ep(&id, &rai, NULL, &qp), EINVAL); /* too many WRs */
	/* a source without a length is none */
	rai.ai_src_addr = SA(&elsewhere);
	CHECK_OK(rdma_create_ep(&id, &rai, NULL, NULL));
	rdma_destroy_ep(id);
}

static void t_rdma_destroy_ep(void)
{
	struct rdma_cm_id *id;

	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP)); /* neither QP nor SRQ */
	rdma_destroy_ep(id);
}

/* ---- the list ---------------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
#define CASE(f) { #f, t_##f, 120 },
	static const struct vt_case cases[] = { CMS_CONN_NAMES(CASE) };
#undef CASE

	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
