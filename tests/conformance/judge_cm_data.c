/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_cm_data.c - what connect, accept and reject carry to the other side: private data of each length,
 * parameters, and how the events tell them.
 */
#include "tests/conformance/judge_cm.h"

static const unsigned lengths[] = { 0,	 1,   2,   55,	56,  57,  84,  92,  93,	 135, 136, 137,
				    148, 149, 180, 181, 195, 196, 197, 216, 217, 254, 255 };

enum verb { CONNECT, ACCEPT, REJECT, REJECT_ECE, NUM_VERBS };
static const char *const verb_str[] = { "connect", "accept", "reject", "reject-ece" };

struct data_case {
	enum rdma_port_space ps;
	enum verb verb;
	unsigned len;
};

static struct rdma_conn_param with_data(unsigned len)
{
	struct rdma_conn_param p = cms_param();

	p.private_data = j_data();
	p.private_data_len = (uint8_t)len;
	return p;
}

static void carry(const void *arg)
{
	const struct data_case *c = arg;
	struct rdma_conn_param p = with_data(c->len);
	struct j_pair pair;
	int ret;

	if (c->verb == CONNECT) {
		j_pair_route(&pair, c->ps, 8);
		if (!J(rdma_connect(pair.active, &p)))
			j_events(pair.lch, NULL, 1000);
		return;
	}
	j_pair_request(&pair, c->ps);
	if (c->verb == ACCEPT)
		ret = J(rdma_accept(pair.passive, &p));
	else if (c->verb == REJECT)
		ret = J(rdma_reject(pair.passive, j_data(), (uint8_t)c->len));
	else
		ret = J(rdma_reject_ece(pair.passive, j_data(), (uint8_t)c->len));
	j_events(pair.ch, pair.active, ret ? 30 : 1000);
	j_say("passive");
	j_events(pair.lch, pair.passive, 5);
}

static void private_data(enum rdma_port_space ps, const char *name)
{
	for (enum verb v = 0; v < NUM_VERBS; v++)
		for (unsigned i = 0; i < ARRAY_SIZE(lengths); i++) {
			struct data_case c = { ps, v, lengths[i] };

			j_apart(carry, &c, "cm-data/%s/%s/%u", name, verb_str[v], lengths[i]);
		}
}

static void data_tcp(void)
{
	private_data(RDMA_PS_TCP, "TCP");
}

static void data_udp(void)
{
	private_data(RDMA_PS_UDP, "UDP");
}

/* ---- parameters -------------------------------------------------------------------------------- */

struct param_case {
	const char *name;
	bool accept; /* of rdma_accept, else of rdma_connect */
	size_t off;
	uint8_t value;
};

static void say_params(const struct rdma_cm_event *e, uint32_t qpn)
{
	const struct rdma_conn_param *p = &e->param.conn;

	j_say("resp=%u init=%u flow=%u retry=%u rnr=%u srq=%u", p->responder_resources,
	      p->initiator_depth, p->flow_control, p->retry_count, p->rnr_retry_count, p->srq);
	j_say("qpn=%s", p->qp_num == qpn ? "sent" : p->qp_num ? "other" : "0");
}

static void params(const void *arg)
{
	const struct param_case *c = arg;
	struct rdma_conn_param p = cms_param(), other = cms_param();
	struct rdma_cm_event *e;
	struct j_pair pair;

	p.responder_resources = other.responder_resources = 3;
	p.initiator_depth = other.initiator_depth = 2;
	if (c->name)
		((uint8_t *)&p)[c->off] = c->value;
	j_pair_route(&pair, RDMA_PS_TCP, 8);
	if (J(rdma_connect(pair.active, c->accept ? &other : &p)))
		return;
	e = j_event(pair.lch, NULL, 1000);
	if (!e)
		return;
	say_params(e, c->accept ? other.qp_num : p.qp_num);
	pair.passive = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	if (!c->accept)
		return;
	j_say("accept");
	J(rdma_accept(pair.passive, &p));
	e = j_event(pair.ch, pair.active, 50);
	if (e && e->event == RDMA_CM_EVENT_CONNECT_RESPONSE)
		say_params(e, p.qp_num);
}

static void parameters(void)
{
#define P(f, v)                                                                                    \
	{                                                                                          \
#f "=" #v, false, offsetof(struct rdma_conn_param, f), v                           \
	}
	static const struct param_case tries[] = {
		P(responder_resources, 0),
		P(responder_resources, 1),
		P(responder_resources, 128),
		P(responder_resources, 129),
		P(responder_resources, 254),
		P(responder_resources, 255),
		P(initiator_depth, 0),
		P(initiator_depth, 128),
		P(initiator_depth, 129),
		P(initiator_depth, 254),
		P(initiator_depth, 255),
		P(flow_control, 0),
		P(flow_control, 1),
		P(flow_control, 2),
		P(flow_control, 255),
		P(retry_count, 0),
		P(retry_count, 7),
		P(retry_count, 8),
		P(retry_count, 255),
		P(rnr_retry_count, 0),
		P(rnr_retry_count, 7),
		P(rnr_retry_count, 8),
		P(rnr_retry_count, 255),
		P(srq, 0),
		P(srq, 1),
		P(srq, 255),
	};

	for (unsigned accept = 0; accept < 2; accept++)
		for (unsigned i = 0; i < ARRAY_SIZE(tries); i++) {
			struct param_case c = tries[i];

			c.accept = accept;
			j_apart(params, &c, "cm-param/%s/%s", accept ? "accept" : "connect",
				c.name);
		}
}

/* Without parameters at all, with and without a QP. */
static void null_param(const void *arg)
{
	const unsigned how = *(const unsigned *)arg;
	struct rdma_cm_event *e;
	struct j_pair pair;

	j_pair_route(&pair, how & 2 ? RDMA_PS_UDP : RDMA_PS_TCP, 8);
	if (how & 1)
		cmt_qp(pair.active);
	if (J(rdma_connect(pair.active, NULL)))
		return;
	e = j_event(pair.lch, NULL, 1000);
	if (!e)
		return;
	if (!(how & 2))
		j_say("resp=%u init=%u retry=%u rnr=%u srq=%u", e->param.conn.responder_resources,
		      e->param.conn.initiator_depth, e->param.conn.retry_count,
		      e->param.conn.rnr_retry_count, e->param.conn.srq);
	pair.passive = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	if (how == 2) /* rdma-core's rdma_accept() looks into the parameters */
		return;
	if (how & 1)
		cmt_qp(pair.passive);
	j_say("accept");
	J(rdma_accept(pair.passive, NULL));
	e = j_event(pair.ch, pair.active, 100);
	if (e && how == 1)
		j_say("resp=%u init=%u rnr=%u srq=%u flow=%u", e->param.conn.responder_resources,
		      e->param.conn.initiator_depth, e->param.conn.rnr_retry_count,
		      e->param.conn.srq, e->param.conn.flow_control);
	if (e && how & 2)
		j_say("qkey=%x", e->param.ud.qkey);
	j_say("passive");
	j_events(pair.lch, pair.passive, 50);
}

static void null_params(void)
{
	static const char *const names[] = { "tcp", "tcp-qp", "udp", "udp-qp" };

	for (unsigned how = 0; how < 4; how++)
		j_apart(null_param, &how, "cm-param/null/%s", names[how]);
}

/* ---- the fields of events ---------------------------------------------------------------------- */

static void say_ids(const struct rdma_cm_event *e, const struct j_pair *p)
{
	j_say("id=%s listen=%s",
	      e->id == p->active   ? "active" :
	      e->id == p->listener ? "listener" :
	      e->id == p->passive  ? "passive" :
				     "new",
	      !e->listen_id		  ? "0" :
	      e->listen_id == p->listener ? "listener" :
					    "?");
}

static void say_next(const char *what, struct rdma_event_channel *ch, struct rdma_cm_id *id,
		     const struct j_pair *p)
{
	struct rdma_cm_event *e;

	j_case("cm-event/%s", what);
	e = j_event(ch, id, 1000);
	say_ids(e, p);
	CHECK_OK(rdma_ack_cm_event(e));
}

static void fields(void)
{
	struct rdma_conn_param par = cms_param(), reply = cms_param();
	struct rdma_cm_event *e;
	struct j_pair p;

	j_pair_route(&p, RDMA_PS_TCP, 8);
	p.active->context = &p;
	p.listener->context = &par;
	CHECK_OK(rdma_connect(p.active, &par));
	j_case("cm-event/request");
	e = j_event(p.lch, NULL, 1000);
	say_ids(e, &p);
	p.passive = e->id;
	j_say("context=%d ps=%x type=%d channel=%d dev=%d", e->id->context == &par, e->id->ps,
	      e->id->qp_type, e->id->channel == p.lch, e->id->verbs != NULL);
	j_addr(rdma_get_local_addr(e->id));
	j_port(rdma_get_src_port(e->id), rdma_get_src_port(p.listener));
	j_addr(rdma_get_peer_addr(e->id));
	j_port(rdma_get_dst_port(e->id), rdma_get_src_port(p.active));
	j_say("event=%d", e->id->event == e);
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_OK(rdma_accept(p.passive, &reply));
	say_next("response", p.ch, p.active, &p);
	CHECK_OK(rdma_establish(p.active));
	say_next("established", p.lch, p.passive, &p);
	CHECK_OK(rdma_disconnect(p.active));
	say_next("disconnected-passive", p.lch, p.passive, &p);
	CHECK_OK(rdma_disconnect(p.passive));
	say_next("disconnected-active", p.ch, p.active, &p);
}

const struct judge_group judge_cm_data[] = {
	{ "cm-data/TCP", data_tcp, 120 }, { "cm-data/UDP", data_udp, 120 },
	{ "cm-param", parameters, 60 },	  { "cm-param/null", null_params, 0 },
	{ "cm-event", fields, 0 },	  { 0 },
};
