/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ucma_abi.c - the calls of the kernel's rdma_cm: see ucma_abi.h. Only the worker of ucma.c calls this file.
 *
 * Tests: test_ucma.c
 */
#include "ffr/nic/cm/ucma_abi.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rdma_user_cm.h>
#include <string.h>
#include <unistd.h>

#include "ffr/obj/gid.h"

#define ROUTE_MS 2000 /* with RoCE nobody is asked */

static int sys_open(void)
{
	return open("/dev/infiniband/rdma_cm", O_RDWR | O_CLOEXEC | O_NONBLOCK);
}

static const struct ucma_sys real = { .open = sys_open, .write = write };
const struct ucma_sys *ucma_sys = &real;

/* 0 or -errno */
static int call(int fd, uint32_t cmd, const void *in, uint16_t in_len, uint16_t out_len)
{
	uint8_t buf[sizeof(struct rdma_ucm_cmd_hdr) + 512];
	struct rdma_ucm_cmd_hdr h = { .cmd = cmd, .in = in_len, .out = out_len };
	size_t len = sizeof(h) + in_len;

	memcpy(buf, &h, sizeof(h));
	memcpy(buf + sizeof(h), in, in_len);
	return ucma_sys->write(fd, buf, len) == (ssize_t)len ? 0 : -errno;
}

#define CALL(fd, CMD, in) call(fd, RDMA_USER_CM_CMD_##CMD, &(in), sizeof(in), 0)
#define ASK(fd, CMD, in, out)                                                                      \
	((in).response = (uintptr_t)(out),                                                         \
	 call(fd, RDMA_USER_CM_CMD_##CMD, &(in), sizeof(in), sizeof(*(out))))
_Static_assert(sizeof(struct rdma_ucm_accept) <= 512, "the longest of them");

/* ---- addresses ------------------------------------------------------------------------------------------ */

/* Write the address to *to. Returns its length. */
static uint16_t to_sockaddr(struct __kernel_sockaddr_storage *to, const union ibv_gid *gid,
			    uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	memset(to, 0, sizeof(*to));
	if (gid_is_v4(gid->raw)) {
		memcpy(&sin.sin_addr, gid->raw + 12, sizeof(sin.sin_addr));
		memcpy(to, &sin, sizeof(sin));
		return sizeof(sin);
	}
	memcpy(&sin6.sin6_addr, gid->raw, sizeof(gid->raw));
	memcpy(to, &sin6, sizeof(sin6));
	return sizeof(sin6);
}

static int from_sockaddr(union ibv_gid *gid, uint16_t *port,
			 const struct __kernel_sockaddr_storage *from)
{
	static const uint8_t v4_prefix[12] = { [10] = 0xff, [11] = 0xff };
	struct sockaddr_in6 sin6;
	struct sockaddr_in sin;

	memcpy(&sin, from, sizeof(sin));
	memcpy(&sin6, from, sizeof(sin6));
	*port = ntohs(sin.sin_port); /* in the same place of both structs */
	if (sin.sin_family == AF_INET) {
		memcpy(gid->raw, v4_prefix, sizeof(v4_prefix));
		memcpy(gid->raw + 12, &sin.sin_addr, sizeof(sin.sin_addr));
		return 0;
	}
	memcpy(gid->raw, &sin6.sin6_addr, sizeof(gid->raw));
	return sin.sin_family == AF_INET6 ? 0 : -EAFNOSUPPORT;
}

static int query(int fd, uint32_t id, struct rdma_ucm_query_addr_resp *resp)
{
	struct rdma_ucm_query in = { .id = id, .option = RDMA_USER_CM_QUERY_ADDR };

	memset(resp, 0, sizeof(*resp));
	return ASK(fd, QUERY, in, resp);
}

/* ---- ids -------------------------------------------------------------------------------------------------- */

int ucma_create(int fd, uint64_t uid, uint16_t ps, uint8_t qp_type, uint32_t *id)
{
	struct rdma_ucm_create_id in = { .uid = uid, .ps = ps, .qp_type = qp_type };
	struct rdma_ucm_create_id_resp out = { 0 };
	int err = ASK(fd, CREATE_ID, in, &out);

	*id = out.id;
	return err;
}

void ucma_destroy(int fd, uint32_t id)
{
	struct rdma_ucm_destroy_id in = { .id = id };
	struct rdma_ucm_destroy_id_resp out;

	ASK(fd, DESTROY_ID, in, &out);
}

int ucma_bind(int fd, uint32_t id, const union ibv_gid *gid, uint16_t port, uint64_t guid)
{
	struct rdma_ucm_bind in = { .id = id };
	struct rdma_ucm_query_addr_resp at;
	int err;

	in.addr_size = to_sockaddr(&in.addr, gid, port);
	err = CALL(fd, BIND, in);
	if (!err)
		err = query(fd, id, &at);
	/* another device may have the address as well */
	return err ? err : at.node_guid == guid ? 0 : -ENODEV;
}

int ucma_resolve(int fd, uint32_t id, const struct ucma_want *w)
{
	struct rdma_ucm_resolve_addr in = { .id = id, .timeout_ms = w->timeout_ms };
	struct rdma_ucm_set_option tos = {
		.optval = (uintptr_t)&w->tos,
		.id = id,
		.level = RDMA_OPTION_ID,
		.optname = RDMA_OPTION_ID_TOS,
		.optlen = sizeof(w->tos),
	};
	int err = w->tos ? CALL(fd, SET_OPTION, tos) : 0;

	in.dst_size = to_sockaddr(&in.dst_addr, &w->dst, w->port);
	return err ? err : CALL(fd, RESOLVE_ADDR, in);
}

int ucma_listen(int fd, uint32_t id, uint32_t backlog)
{
	struct rdma_ucm_listen in = { .id = id, .backlog = backlog };

	return CALL(fd, LISTEN, in);
}

/* ---- connections ------------------------------------------------------------------------------------------ */

static struct rdma_ucm_conn_param to_param(const struct ff_cm_param *p, const void *pd, uint8_t len)
{
	struct rdma_ucm_conn_param to = {
		.qp_num = p->qp_num,
		.qkey = p->qkey,
		.private_data_len = len,
		.srq = p->srq,
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control,
		.retry_count = p->retry_count,
		.rnr_retry_count = p->rnr_retry_count,
		.valid = 1,
	};

	if (len)
		memcpy(to.private_data, pd, len);
	return to;
}

int ucma_connect(int fd, uint32_t id, const struct ff_cm_param *p, const void *pd, uint8_t len)
{
	struct rdma_ucm_connect in = { .conn_param = to_param(p, pd, len), .id = id };

	return CALL(fd, CONNECT, in);
}

int ucma_accept(int fd, uint32_t id, uint64_t uid, const struct ff_cm_param *p, const void *pd,
		uint8_t len)
{
	struct rdma_ucm_accept in = { .uid = uid, .id = id };

	if (p)
		in.conn_param = to_param(p, pd, len);
	return CALL(fd, ACCEPT, in);
}

int ucma_reject(int fd, uint32_t id, uint8_t reason, const void *pd, uint8_t len)
{
	struct rdma_ucm_reject in = { .id = id, .private_data_len = len, .reason = reason };

	if (len)
		memcpy(in.private_data, pd, len);
	return CALL(fd, REJECT, in);
}

int ucma_disconnect(int fd, uint32_t id)
{
	struct rdma_ucm_disconnect in = { .id = id };

	return CALL(fd, DISCONNECT, in);
}

/* ---- events ------------------------------------------------------------------------------------------------- */

static int attr_for(int fd, uint32_t id, enum ibv_qp_state state, struct ib_uverbs_qp_attr *a)
{
	struct rdma_ucm_init_qp_attr in = { .id = id, .qp_state = state };

	memset(a, 0, sizeof(*a));
	return ASK(fd, INIT_QP_ATTR, in, a);
}

int ucma_ask_path(int fd, struct ucma_told *t)
{
	struct ib_uverbs_qp_attr rtr, rts;
	int err = attr_for(fd, t->id, IBV_QPS_RTR, &rtr);

	if (!err)
		err = attr_for(fd, t->id, IBV_QPS_RTS, &rts);
	if (err)
		return err;
	t->rq_psn = rtr.rq_psn & 0xffffff;
	t->sq_psn = rts.sq_psn & 0xffffff;
	t->path_mtu = (uint8_t)rtr.path_mtu;
	t->traffic_class = rtr.ah_attr.grh.traffic_class;
	return 0;
}

int ucma_ask_peer(int fd, struct ucma_told *t)
{
	struct rdma_ucm_query_addr_resp at;
	int err = query(fd, t->id, &at);

	return err ? err : from_sockaddr(&t->peer, &t->peer_port, &at.dst_addr);
}

int ucma_resolve_route(int fd, uint32_t id)
{
	struct rdma_ucm_resolve_route in = { .id = id, .timeout_ms = ROUTE_MS };

	return CALL(fd, RESOLVE_ROUTE, in);
}

int ucma_next(int fd, struct ucma_told *t)
{
	struct rdma_ucm_get_event in = { 0 };
	struct rdma_ucm_event_resp e = { 0 };
	int err = ASK(fd, GET_EVENT, in, &e);

	_Static_assert(sizeof(e) <= sizeof(t->resp), "it fits");
	memset(t, 0, sizeof(*t));
	t->uid = e.uid;
	t->id = e.id;
	t->event = e.event;
	t->status = (int)e.status;
	memcpy(t->resp, &e, sizeof(e));
	return err;
}

static struct ff_cm_param conn_param(const struct rdma_ucm_conn_param *p)
{
	return (struct ff_cm_param){
		.qp_num = p->qp_num & 0xffffff,
		.responder_resources = p->responder_resources,
		.initiator_depth = p->initiator_depth,
		.flow_control = p->flow_control & 1,
		.retry_count = p->retry_count & 7,
		.rnr_retry_count = p->rnr_retry_count & 7,
		.srq = p->srq & 1,
	};
}

void ucma_fill(struct ucma_event *ev, const struct ucma_told *t, bool is_ud)
{
	struct rdma_ucm_event_resp e;
	const struct rdma_ucm_ud_param *ud = &e.param.ud;

	_Static_assert(sizeof(ev->pd) >= UINT8_MAX, "private data fits");
	memcpy(&e, t->resp, sizeof(e));
	ev->peer = t->peer;
	ev->peer_port = t->peer_port;
	ev->traffic_class = t->traffic_class;
	ev->path_mtu = t->path_mtu;
	ev->rq_psn = t->rq_psn;
	ev->sq_psn = t->sq_psn;
	if (is_ud) {
		ev->param =
			(struct ff_cm_param){ .qp_num = ud->qp_num & 0xffffff, .qkey = ud->qkey };
		ev->pd_len = ud->private_data_len;
		memcpy(ev->pd, ud->private_data, ev->pd_len);
	} else {
		ev->param = conn_param(&e.param.conn);
		ev->pd_len = e.param.conn.private_data_len;
		memcpy(ev->pd, e.param.conn.private_data, ev->pd_len);
	}
}
