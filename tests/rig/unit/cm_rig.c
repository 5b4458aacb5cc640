/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* cm_rig.c - see cm_rig.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <infiniband/ib.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/rig/unit/cm_rig.h"

/* ---- clients -------------------------------------------------------------------------------- */

int cm_new_channel(struct cm_client *c, uint32_t *channel)
{
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	int fds[RIG_MAX_FDS];
	unsigned n;

	assert_int_equal(rig_call(c->g, c->sock, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0,
				  0, &resp, sizeof(resp), fds, &n),
			 0);
	assert_int_equal(n, 1);
	*channel = resp.channel;
	return fds[0];
}

struct cm_client cm_open(struct ctl_rig *g, int container)
{
	struct cm_client c = { .g = g, .sock = rig_connect(g, container) };

	assert_int_equal(rig_hello(g, c.sock), 0);
	c.fd = cm_new_channel(&c, &c.channel);
	return c;
}

void cm_close(struct cm_client *c)
{
	close(c->fd);
	close(c->sock);
	rig_pump(c->g);
}

void cm_two_open(struct ctl_rig *g, struct cm_client *a, struct cm_client *b)
{
	rig_open(g);
	*a = cm_open(g, 0);
	*b = cm_open(g, 1);
}

void cm_two_close(struct ctl_rig *g, struct cm_client *a, struct cm_client *b)
{
	cm_close(a);
	cm_close(b);
	/* a session with many ids ends in parts, between which others are served */
	for (int i = 0; i < 1000 && (g->c[0]->cm || g->c[1]->cm); i++)
		rig_pump(g);
	assert_null(g->c[0]->cm);
	assert_null(g->c[1]->cm);
	rig_close(g);
}

struct cm_two cm_two;

int cm_two_setup(void **state)
{
	(void)state;
	cm_two_open(&cm_two.rig, &cm_two.a, &cm_two.b);
	return 0;
}

int cm_two_teardown(void **state)
{
	(void)state;
	cm_two_close(&cm_two.rig, &cm_two.a, &cm_two.b);
	return 0;
}

/* ---- addresses ------------------------------------------------------------------------------ */

struct ff_cm_addr cm_sa(const char *ip, uint16_t port)
{
	struct ff_cm_addr a = { 0 };
	struct sockaddr_in sin = { .sin_family = AF_INET, .sin_port = htons(port) };
	struct sockaddr_in6 sin6 = { .sin6_family = AF_INET6, .sin6_port = htons(port) };

	if (!*ip)
		return a;
	if (inet_pton(AF_INET, ip, &sin.sin_addr) == 1) {
		memcpy(&a, &sin, sizeof(sin));
		return a;
	}
	assert_int_equal(inet_pton(AF_INET6, ip, &sin6.sin6_addr), 1);
	memcpy(&a, &sin6, sizeof(sin6));
	return a;
}

struct ff_cm_addr cm_sib(const char *gid, uint16_t ps, uint16_t port)
{
	struct sockaddr_ib sib = { .sib_family = AF_IB };
	struct ff_cm_addr a = { 0 };

	assert_int_equal(inet_pton(AF_INET6, gid, &sib.sib_addr), 1);
	sib.sib_sid = htobe64((uint64_t)ps << 16 | port);
	sib.sib_sid_mask = UINT64_MAX;
	memcpy(&a, &sib, sizeof(sib));
	return a;
}

uint16_t cm_port_of(const struct ff_cm_addr *a)
{
	struct sockaddr_in sin;

	memcpy(&sin, a, sizeof(sin));
	return ntohs(sin.sin_port);
}

/* ---- calls ---------------------------------------------------------------------------------- */

int cm_call(struct cm_client *c, uint16_t type, const void *req, size_t len, const void *pd,
	    size_t pd_len, void *resp, size_t resp_len)
{
	return rig_call(c->g, c->sock, type, req, len, pd, pd_len, (unsigned)pd_len, resp, resp_len,
			NULL, NULL);
}

#define CALL(NAME, req, pd, len, resp)                                                             \
	cm_call(c, FF_MSG_##NAME, &(req), sizeof(req), pd, len, resp, sizeof(*(resp)))

uint32_t cm_new(struct cm_client *c, uint16_t ps)
{
	struct ff_cm_create_id_req req = {
		.uid = 0x1000 + ps,
		.channel = c->channel,
		.ps = ps,
		.qp_type = IBV_QPT_RC,
	};
	struct ff_cm_create_id_resp resp;

	assert_int_equal(CALL(CM_CREATE_ID, req, NULL, 0, &resp), 0);
	return resp.id;
}

int cm_do_bind(struct cm_client *c, uint32_t id, struct ff_cm_addr a, uint16_t *port)
{
	struct ff_cm_bind_req req = { .id = id, .addr = a };
	struct ff_cm_bind_resp resp;
	int err = CALL(CM_BIND, req, NULL, 0, &resp);

	if (port)
		*port = cm_port_of(&resp.addr);
	return err;
}

int cm_do_listen(struct cm_client *c, uint32_t id, int backlog)
{
	struct ff_cm_listen_req req = { .id = id, .backlog = backlog };
	struct ff_cm_listen_resp resp;

	return CALL(CM_LISTEN, req, NULL, 0, &resp);
}

int cm_do_resolve(struct cm_client *c, uint32_t id, struct ff_cm_addr src, struct ff_cm_addr dst,
		  int timeout_ms)
{
	struct ff_cm_resolve_addr_req req = { .id = id, timeout_ms, src, dst };
	struct ff_cm_resolve_addr_resp resp;

	return CALL(CM_RESOLVE_ADDR, req, NULL, 0, &resp);
}

int cm_do_route(struct cm_client *c, uint32_t id)
{
	struct ff_cm_resolve_route_req req = { .id = id, .timeout_ms = 1000 };
	struct ff_cm_resolve_route_resp resp;

	return CALL(CM_RESOLVE_ROUTE, req, NULL, 0, &resp);
}

/* What each side says is told apart by its numbers. */
uint32_t cm_qpn[2];

static uint32_t next_qpn(int side)
{
	return cm_qpn[side] = ((cm_qpn[side] + 0x100) & 0xffff00) | (side ? 0xb2 : 0xa1);
}

int cm_do_connect(struct cm_client *c, uint32_t id, const void *pd, size_t len)
{
	struct ff_cm_connect_req req = {
		.id = id,
		.param = { .qp_num = next_qpn(0),
			   .responder_resources = 3,
			   .initiator_depth = 4,
			   .flow_control = 1,
			   .retry_count = 5,
			   .rnr_retry_count = 6 },
		.ece = { 1, 2, 3 },
	};
	struct ff_cm_connect_resp resp;

	return CALL(CM_CONNECT, req, pd, len, &resp);
}

int cm_do_accept(struct cm_client *c, uint32_t id, uint64_t uid, const void *pd, size_t len)
{
	struct ff_cm_accept_req req = {
		.id = id,
		.param = { .qp_num = next_qpn(1),
			   .qkey = 77,
			   .responder_resources = 1,
			   .initiator_depth = 2,
			   .rnr_retry_count = 9,
			   .srq = 1 },
		.ece = { 4, 5, 6 },
		.uid = uid,
	};
	struct ff_cm_accept_resp resp;

	return CALL(CM_ACCEPT, req, pd, len, &resp);
}

int cm_do_reject(struct cm_client *c, uint32_t id, uint32_t reason, const void *pd, size_t len)
{
	struct ff_cm_reject_req req = { .id = id, .reason = reason };
	struct ff_cm_reject_resp resp;

	return CALL(CM_REJECT, req, pd, len, &resp);
}

int cm_do_establish(struct cm_client *c, uint32_t id, uint32_t event)
{
	struct ff_cm_establish_req req = { .id = id, .event = event };
	struct ff_cm_establish_resp resp;

	return CALL(CM_ESTABLISH, req, NULL, 0, &resp);
}

int cm_do_disconnect(struct cm_client *c, uint32_t id)
{
	struct ff_cm_disconnect_req req = { .id = id };
	struct ff_cm_disconnect_resp resp;

	return CALL(CM_DISCONNECT, req, NULL, 0, &resp);
}

int cm_do_destroy(struct cm_client *c, uint32_t id, uint32_t *events)
{
	struct ff_cm_destroy_id_req req = { .id = id };
	struct ff_cm_destroy_id_resp resp;
	int err = CALL(CM_DESTROY_ID, req, NULL, 0, &resp);

	if (events)
		*events = resp.events_reported;
	return err;
}

int cm_do_option(struct cm_client *c, uint32_t id, uint32_t level, uint32_t option, uint32_t value)
{
	struct ff_cm_set_option_req req = { id, level, option, value };
	struct ff_cm_set_option_resp resp;

	return CALL(CM_SET_OPTION, req, NULL, 0, &resp);
}

int cm_do_attr(struct cm_client *c, uint32_t id, int state, struct ff_cm_init_qp_attr_resp *resp)
{
	struct ff_cm_init_qp_attr_req req = { id, (uint32_t)state };

	return CALL(CM_INIT_QP_ATTR, req, NULL, 0, resp);
}

int cm_do_query(struct cm_client *c, uint32_t id, struct ff_cm_query_resp *resp)
{
	struct ff_cm_query_req req = { id };

	return CALL(CM_QUERY, req, NULL, 0, resp);
}

int cm_do_join(struct cm_client *c, uint32_t id, uint64_t uid, const char *group, uint32_t flags,
	       uint32_t *mc)
{
	struct ff_cm_join_req req = {
		.uid = uid, .id = id, .join_flags = flags, .addr = cm_sa(group, 0)
	};
	struct ff_cm_join_resp resp;
	int err = cm_call(c, FF_MSG_CM_JOIN, &req, sizeof(req), NULL, 0, &resp, sizeof(resp));

	if (mc)
		*mc = resp.mc;
	return err;
}

int cm_do_leave(struct cm_client *c, uint32_t id, uint32_t mc, uint32_t *events)
{
	struct ff_cm_leave_req req = { id, mc };
	struct ff_cm_leave_resp resp;
	int err = cm_call(c, FF_MSG_CM_LEAVE, &req, sizeof(req), NULL, 0, &resp, sizeof(resp));

	if (events)
		*events = resp.events_reported;
	return err;
}

/* ---- events --------------------------------------------------------------------------------- */

bool cm_next_fd(struct cm_client *c, int fd, struct cm_packet *p)
{
	ssize_t n;

	rig_pump(c->g);
	memset(p, 0, sizeof(*p));
	n = recv(fd, p, sizeof(*p), MSG_DONTWAIT);
	if (n < 0 && errno == EAGAIN)
		return false;
	assert_int_equal(n, sizeof(p->ev) + p->ev.private_data_len);
	return true;
}

bool cm_next(struct cm_client *c, struct cm_packet *p)
{
	return cm_next_fd(c, c->fd, p);
}

int cm_expect(struct cm_client *c, uint32_t id, enum rdma_cm_event_type event, struct cm_packet *p)
{
	struct cm_packet own;

	if (!p)
		p = &own;
	assert_true(cm_next(c, p));
	assert_int_equal(p->ev.event, event);
	if (id)
		assert_int_equal(p->ev.id, id);
	return p->ev.status;
}

void cm_expect_none(struct cm_client *c)
{
	struct cm_packet p;

	if (cm_next(c, &p))
		fail_msg("event %u of id %x, status %d", p.ev.event, p.ev.id, p.ev.status);
}

/* ---- states --------------------------------------------------------------------------------- */

uint32_t cm_listener(struct cm_client *c, uint16_t ps, uint16_t port, int backlog)
{
	uint32_t id = cm_new(c, ps);

	assert_int_equal(cm_do_bind(c, id, cm_sa("0.0.0.0", port), NULL), 0);
	assert_int_equal(cm_do_listen(c, id, backlog), 0);
	return id;
}

uint32_t cm_routed(struct cm_client *c, uint16_t ps, const char *ip, uint16_t port)
{
	uint32_t id = cm_new(c, ps);

	assert_int_equal(cm_do_resolve(c, id, cm_sa("", 0), cm_sa(ip, port), 1000), 0);
	assert_int_equal(cm_expect(c, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	assert_int_equal(cm_do_route(c, id), 0);
	assert_int_equal(cm_expect(c, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL), 0);
	return id;
}

void cm_connected(struct cm_client *a, struct cm_client *b, const char *ip, uint16_t port,
		  uint32_t *ida, uint32_t *idb)
{
	struct cm_packet p;

	*ida = cm_routed(a, RDMA_PS_TCP, ip, port);
	assert_int_equal(cm_do_connect(a, *ida, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	*idb = p.ev.id;
	assert_int_equal(cm_do_accept(b, *idb, 42, NULL, 0), 0);
	cm_expect(a, *ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_establish(a, *ida, UINT32_MAX), 0);
	cm_expect(b, *idb, RDMA_CM_EVENT_ESTABLISHED, NULL);
}

/* In place of libuv's: only cm_at() lets time pass, however long the machine takes for a step. */
uint64_t uv_now(const uv_loop_t *loop)
{
	(void)loop;
	return 1000000;
}

void cm_at(struct ctl_rig *g, uint64_t ms)
{
	while (!cm_expire(g->ctl.cm, uv_now(&g->loop) + ms))
		;
}

int cm_accept_too_long(struct cm_client *a, struct cm_client *b, uint16_t ps, uint16_t port,
		       size_t most, enum rdma_cm_event_type event)
{
	uint32_t id = cm_routed(a, ps, B_IP, port);
	uint8_t pd[FF_CM_PD_MAX] = { 0 };
	struct cm_packet p;

	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, pd, most + 1), -EINVAL);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, pd, 0), -EINVAL);
	return cm_expect(a, id, event, NULL);
}
