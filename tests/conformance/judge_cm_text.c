/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* judge_cm_text.c - see judge_cm.h. */
#include "tests/conformance/judge_cm.h"

#include <arpa/inet.h>

const uint8_t *j_data(void)
{
	static uint8_t data[256];

	for (unsigned i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i % 251 + 1);
	return data;
}

static const char *event_name(enum rdma_cm_event_type type)
{
	static const char *const names[] = {
		"ADDR_RESOLVED",   "ADDR_ERROR",       "ROUTE_RESOLVED", "ROUTE_ERROR",
		"CONNECT_REQUEST", "CONNECT_RESPONSE", "CONNECT_ERROR",	 "UNREACHABLE",
		"REJECTED",	   "ESTABLISHED",      "DISCONNECTED",	 "DEVICE_REMOVAL",
		"MULTICAST_JOIN",  "MULTICAST_ERROR",  "ADDR_CHANGE",	 "TIMEWAIT_EXIT",
	};

	return type < ARRAY_SIZE(names) ? names[type] : "UNKNOWN";
}

/* UD has its parameters in other places of the union. */
static bool is_ud(const struct rdma_cm_event *e)
{
	return e->id->ps == RDMA_PS_UDP || e->id->ps == RDMA_PS_IPOIB;
}

void j_say_event(const struct rdma_cm_event *e, const struct rdma_cm_id *id)
{
	const char *whose = !id || e->id == id ? "" : e->listen_id ? "" : "other:";
	const uint8_t *data = is_ud(e) ? e->param.ud.private_data : e->param.conn.private_data;
	unsigned len = is_ud(e) ? e->param.ud.private_data_len : e->param.conn.private_data_len;
	unsigned same = 0;

	if (e->event < RDMA_CM_EVENT_CONNECT_REQUEST || e->event > RDMA_CM_EVENT_DISCONNECTED)
		len = 0;
	while (same < len && data && data[same] == j_data()[same])
		same++;
	if (e->status)
		j_say("%s%s(%d)", whose, event_name(e->event), e->status);
	else
		j_say("%s%s", whose, event_name(e->event));
	if (len)
		j_say("len=%u/%u", len, same);
}

struct rdma_cm_event *j_event(struct rdma_event_channel *ch, struct rdma_cm_id *id, unsigned ms)
{
	struct rdma_cm_event *e;

	if (!vt_readable(ch->fd, (int)(ms * vt_slow())))
		return NULL;
	if (rdma_get_cm_event(ch, &e)) {
		j_say("%s", j_errno(errno));
		return NULL;
	}
	j_say_event(e, id);
	return e;
}

struct rdma_cm_id *j_events(struct rdma_event_channel *ch, struct rdma_cm_id *id, unsigned ms)
{
	struct rdma_cm_id *brought = NULL;
	struct rdma_cm_event *e;
	unsigned n = 0;

	for (; (e = j_event(ch, id, n ? 5 : ms)); n++) {
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST)
			brought = e->id;
		rdma_ack_cm_event(e);
	}
	if (!n)
		j_say("nothing");
	return brought;
}

void j_addr(const struct sockaddr *sa)
{
	const struct sockaddr_in *in = (const struct sockaddr_in *)sa;
	const struct sockaddr_in6 *in6 = (const struct sockaddr_in6 *)sa;
	struct sockaddr_in self = cmt_self();

	if (sa->sa_family == AF_INET) {
		j_say("%s", in->sin_addr.s_addr == INADDR_ANY		? "any4" :
			    in->sin_addr.s_addr == self.sin_addr.s_addr ? "self4" :
			    ntohl(in->sin_addr.s_addr) >> 24 == 127	? "lo4" :
									  "other4");
	} else if (sa->sa_family == AF_INET6) {
		j_say("%s", IN6_IS_ADDR_UNSPECIFIED(&in6->sin6_addr) ? "any6" :
			    IN6_IS_ADDR_LOOPBACK(&in6->sin6_addr)    ? "lo6" :
			    IN6_IS_ADDR_V4MAPPED(&in6->sin6_addr)    ? "mapped6" :
								       "other6");
	} else {
		j_say("family%u", sa->sa_family);
	}
}

void j_port(uint16_t port, uint16_t same)
{
	j_say("port=%s", !port ? "0" : port == same ? "same" : "some");
}

void j_pair_route(struct j_pair *p, enum rdma_port_space ps, int backlog)
{
	struct sockaddr_in self = cmt_self();

	p->ch = cmt_channel();
	p->lch = cmt_channel();
	p->listener = cmt_id(p->lch, ps);
	p->passive = NULL;
	CHECK_OK(rdma_bind_addr(p->listener, SA(&self)));
	CHECK_OK(rdma_listen(p->listener, backlog));
	p->active = cmt_route(p->ch, p->listener);
}

void j_pair_request(struct j_pair *p, enum rdma_port_space ps)
{
	struct rdma_conn_param par = cms_param();

	j_pair_route(p, ps, 8);
	CHECK_OK(rdma_connect(p->active, &par));
	p->passive = cms_request(p->lch);
}

void j_pair_connect(struct j_pair *p, bool qps)
{
	struct rdma_conn_param par = cms_param(), reply = cms_param();

	j_pair_route(p, RDMA_PS_TCP, 8);
	if (qps)
		cmt_qp(p->active);
	CHECK_OK(rdma_connect(p->active, &par));
	p->passive = cms_request(p->lch);
	if (qps)
		cmt_qp(p->passive);
	CHECK_OK(rdma_accept(p->passive, &reply));
	if (qps) {
		WANT_CM_ACK(p->ch, p->active, RDMA_CM_EVENT_ESTABLISHED, 0);
	} else {
		WANT_CM_ACK(p->ch, p->active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		CHECK_OK(rdma_establish(p->active));
	}
	WANT_CM_ACK(p->lch, p->passive, RDMA_CM_EVENT_ESTABLISHED, 0);
}
