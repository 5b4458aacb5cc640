/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* cms.c - see cms.h. Plain librdmacm; knows nothing of what lies below it. */
#include "tests/rig/verbs/cms.h"

#include <unistd.h>

#define NAME(s) #s,
static const char *const state_str[] = { CMS_STATES(NAME) };
_Static_assert(ARRAY_SIZE(state_str) == NUM_STATES, "");

struct rdma_conn_param cms_param(void)
{
	static uint32_t num;

	return (struct rdma_conn_param){ .qp_num = ((uint32_t)getpid() << 8 | num++) & 0xffffff,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
}

static struct rdma_cm_id *bound(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = cmt_id(ch, ps);
	struct sockaddr_in self = cmt_self();

	CHECK_OK(rdma_bind_addr(id, (struct sockaddr *)&self));
	CHECK(id->verbs);
	return id;
}

static struct rdma_cm_id *listening(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = bound(ch, ps);

	CHECK_OK(rdma_listen(id, 0));
	return id;
}

static struct rdma_cm_id *resolved(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id = cmt_id(ch, ps);
	struct sockaddr_in self = cmt_self();

	self.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&self, 2000));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	return id;
}

struct rdma_cm_id *cms_request(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = e->id;

	CHECK_OK(rdma_ack_cm_event(e));
	return id;
}

/* A listener, an id that connects to it, and the id of the request. */
static void request(struct cms *f, struct rdma_cm_id **active, struct rdma_cm_id **passive,
		    enum rdma_port_space ps)
{
	struct rdma_conn_param p = cms_param();

	f->listener = listening(f->ch, ps);
	*active = cmt_route(f->ch, f->listener);
	CHECK_OK(rdma_connect(*active, &p));
	*passive = cms_request(f->ch);
}

static void accepted(struct cms *f, struct rdma_cm_id **active, struct rdma_cm_id **passive)
{
	struct rdma_conn_param p = cms_param();

	request(f, active, passive, RDMA_PS_TCP);
	CHECK_OK(rdma_accept(*passive, &p));
}

static void established(struct cms *f, struct rdma_cm_id **active, struct rdma_cm_id **passive)
{
	accepted(f, active, passive);
	WANT_CM_ACK(f->ch, *active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_OK(rdma_establish(*active));
	WANT_CM_ACK(f->ch, *passive, RDMA_CM_EVENT_ESTABLISHED, 0);
}

static void ud_done(struct cms *f)
{
	struct rdma_conn_param p = cms_param();

	request(f, &f->id, &f->peer, RDMA_PS_UDP);
	CHECK_OK(rdma_accept(f->peer, &p));
	WANT_CM_ACK(f->ch, f->id, RDMA_CM_EVENT_ESTABLISHED, 0);
}

struct cms cms_open(enum cms_state s)
{
	struct cms f = { .ch = cmt_channel() };

	switch (s) {
	case IDLE:
		f.id = cmt_id(f.ch, RDMA_PS_TCP);
		break;
	case BOUND_ANY:
	case LISTEN_ANY:
		f.id = cmt_id(f.ch, RDMA_PS_TCP);
		CHECK_OK(rdma_bind_addr(
			f.id, (struct sockaddr *)&(struct sockaddr_in){ .sin_family = AF_INET }));
		if (s == LISTEN_ANY)
			CHECK_OK(rdma_listen(f.id, 0));
		CHECK(!f.id->verbs);
		break;
	case BOUND:
		f.id = bound(f.ch, RDMA_PS_TCP);
		break;
	case RESOLVED:
		f.id = resolved(f.ch, RDMA_PS_TCP);
		break;
	case ROUTED:
		f.listener = listening(f.ch, RDMA_PS_TCP);
		f.id = cmt_route(f.ch, f.listener);
		break;
	case LISTEN:
		f.id = listening(f.ch, RDMA_PS_TCP);
		break;
	case REQ_SENT:
		request(&f, &f.id, &f.peer, RDMA_PS_TCP);
		break;
	case REQ_RCVD:
		request(&f, &f.peer, &f.id, RDMA_PS_TCP);
		break;
	case REP_SENT:
		accepted(&f, &f.peer, &f.id);
		break;
	case REP_RCVD:
		accepted(&f, &f.id, &f.peer);
		WANT_CM_ACK(f.ch, f.id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
		break;
	case ACTIVE:
		established(&f, &f.id, &f.peer);
		break;
	case PASSIVE:
		established(&f, &f.peer, &f.id);
		break;
	case ENDED:
		established(&f, &f.id, &f.peer);
		CHECK_OK(rdma_disconnect(f.peer));
		WANT_CM_ACK(f.ch, NULL, RDMA_CM_EVENT_DISCONNECTED, 0);
		CHECK_OK(rdma_disconnect(f.id)); /* the kernel's peer waits for it */
		WANT_CM_ACK(f.ch, NULL, RDMA_CM_EVENT_DISCONNECTED, 0);
		break;
	case REJECTED:
		request(&f, &f.id, &f.peer, RDMA_PS_TCP);
		CHECK_OK(rdma_reject(f.peer, NULL, 0));
		WANT_CM_ACK(f.ch, f.id, RDMA_CM_EVENT_REJECTED, 28 /* consumer defined */);
		break;
	case UD_IDLE:
		f.id = cmt_id(f.ch, RDMA_PS_UDP);
		break;
	case UD_BOUND:
		f.id = bound(f.ch, RDMA_PS_UDP);
		break;
	case UD_RESOLVED:
		f.id = resolved(f.ch, RDMA_PS_UDP);
		break;
	case UD_LISTEN:
		f.id = listening(f.ch, RDMA_PS_UDP);
		break;
	case UD_REQ_SENT:
		request(&f, &f.id, &f.peer, RDMA_PS_UDP);
		break;
	case UD_REQ_RCVD:
		request(&f, &f.peer, &f.id, RDMA_PS_UDP);
		break;
	case UD_DONE:
		ud_done(&f);
		break;
	case NUM_STATES:
		FAIL("no such state");
	}
	return f;
}

void cms_close(struct cms *f)
{
	if (f->id)
		CHECK_OK(rdma_destroy_id(f->id));
	if (f->peer)
		CHECK_OK(rdma_destroy_id(f->peer));
	if (f->listener)
		CHECK_OK(rdma_destroy_id(f->listener));
	rdma_destroy_event_channel(f->ch);
}

void cms_in_states(const char *what, int (*op)(struct rdma_cm_id *id), struct cms_want want)
{
	for (enum cms_state s = 0; s < NUM_STATES; s++) {
		struct cms f;
		int e, exp = want.ok & BIT(s) ? 0 : want.isconn & BIT(s) ? EISCONN : EINVAL;

		if (want.crashes & BIT(s))
			continue;
		f = cms_open(s);
		e = VERB_ERRNO(op(f.id));
		if (e != exp)
			FAIL("%s, state %s: \"%s\", not \"%s\"", what, state_str[s],
			     e ? strerror(e) : "no error", exp ? strerror(exp) : "no error");
		cms_close(&f);
	}
}
