/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_cm_conn.c - the life of connections: who ends them and in which order, reasons of refusals,
 * backlogs, ids that go while something is under way or unread, QPs on the way.
 */
#include "tests/conformance/judge_cm.h"

#include <unistd.h>

static void qps(const struct j_pair *p)
{
	if (p->active && p->active->qp)
		j_say("active=%s", j_qp_state(vt_state(p->active->qp)));
	if (p->passive && p->passive->qp)
		j_say("passive=%s", j_qp_state(vt_state(p->passive->qp)));
}

static void both(struct j_pair *p, unsigned ms)
{
	j_say("[active");
	j_events(p->ch, p->active, ms);
	j_say("passive");
	j_events(p->lch, p->passive, ms);
	j_say("]");
}

/* ---- ends -------------------------------------------------------------------------------------- */

enum deed { DISCONNECT_A, DISCONNECT_P, QP_A, QP_P, DESTROY_A, DESTROY_P, DESTROY_L, NUM_DEEDS };
static const char *const deed_str[] = { "disconnect-a", "disconnect-p", "qp-a",	    "qp-p",
					"destroy-a",	"destroy-p",	"destroy-l" };

struct ends {
	bool with_qps;
	enum deed deed[2];
};

static bool doable(const struct j_pair *p, enum deed d)
{
	switch (d) {
	case DISCONNECT_A:
	case DESTROY_A:
		return p->active != NULL;
	case DISCONNECT_P:
	case DESTROY_P:
		return p->passive != NULL;
	case QP_A:
		return p->active && p->active->qp;
	case QP_P:
		return p->passive && p->passive->qp;
	default:
		return p->listener != NULL;
	}
}

static void do_deed(struct j_pair *p, enum deed d)
{
	struct rdma_cm_id **id = d == DESTROY_A ? &p->active :
				 d == DESTROY_P ? &p->passive :
						  &p->listener;

	switch (d) {
	case DISCONNECT_A:
		J(rdma_disconnect(p->active));
		return;
	case DISCONNECT_P:
		J(rdma_disconnect(p->passive));
		return;
	case QP_A:
		rdma_destroy_qp(p->active);
		j_say("done");
		return;
	case QP_P:
		rdma_destroy_qp(p->passive);
		j_say("done");
		return;
	default:
		if ((*id)->qp)
			rdma_destroy_qp(*id);
		J(rdma_destroy_id(*id));
		*id = NULL;
	}
}

static void end(const void *arg)
{
	const struct ends *e = arg;
	struct j_pair p;

	j_pair_connect(&p, e->with_qps);
	for (unsigned i = 0; i < 2; i++) {
		if (!doable(&p, e->deed[i])) {
			j_say("-");
			continue;
		}
		do_deed(&p, e->deed[i]);
		both(&p, 20);
		qps(&p);
	}
}

static void ends(void)
{
	for (unsigned with_qps = 0; with_qps < 2; with_qps++)
		for (enum deed a = 0; a < NUM_DEEDS; a++)
			for (enum deed b = 0; b < NUM_DEEDS; b++) {
				struct ends e = { with_qps, { a, b } };

				if (!with_qps && (a == QP_A || a == QP_P || b == QP_A || b == QP_P))
					continue;
				j_apart(end, &e, "cm-end/%s/%s,%s", with_qps ? "qps" : "no-qps",
					deed_str[a], deed_str[b]);
			}
}

/* Both disconnected: TIMEWAIT_EXIT comes to both. */
static void timewait(void)
{
	struct j_pair p;

	j_pair_connect(&p, true);
	j_case("cm-timewait/disconnect");
	J(rdma_disconnect(p.active));
	j_events(p.lch, p.passive, 1000);
	J(rdma_disconnect(p.passive));
	j_events(p.ch, p.active, 1000);
	j_case("cm-timewait/exit-active");
	j_events(p.ch, p.active, 15000);
	j_case("cm-timewait/exit-passive");
	j_events(p.lch, p.passive, 15000);
	j_case("cm-timewait/then");
	J(rdma_disconnect(p.active));
	J(rdma_disconnect(p.passive));
	both(&p, 20);
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* What becomes of requests that nobody answers. */
static void nobody(const void *arg)
{
	const unsigned how = *(const unsigned *)arg;
	struct rdma_conn_param par = cms_param(), reply = cms_param();
	struct rdma_cm_event *e;
	struct j_pair p;

	j_pair_route(&p, how & 1 ? RDMA_PS_UDP : RDMA_PS_TCP, 8);
	if (how >> 1 == 0) { /* no listener */
		CHECK_OK(rdma_destroy_id(p.listener));
		p.listener = NULL;
	}
	J(rdma_connect(p.active, &par));
	switch (how >> 1) {
	case 0:
		break;
	case 1: /* the listener goes with the request unread */
		CHECK(vt_readable(p.lch->fd, 1000));
		J(rdma_destroy_id(p.listener));
		break;
	case 2: /* the event is read, and acknowledged */
		p.passive = cms_request(p.lch);
		J(rdma_destroy_id(p.listener));
		break;
	case 3: /* the request's id goes */
		p.passive = cms_request(p.lch);
		J(rdma_destroy_id(p.passive));
		break;
	case 4: /* the active id goes */
		CHECK(vt_readable(p.lch->fd, 1000));
		J(rdma_destroy_id(p.active));
		p.active = NULL;
		e = j_event(p.lch, NULL, 1000);
		if (!e)
			return;
		p.passive = e->id;
		CHECK_OK(rdma_ack_cm_event(e));
		j_say("accept");
		J(rdma_accept(p.passive, &reply));
		break;
	case 5: /* the active id changes its mind */
		p.passive = cms_request(p.lch);
		J(rdma_disconnect(p.active));
		break;
	case 6: /* the passive id is disconnected instead of refused */
		p.passive = cms_request(p.lch);
		J(rdma_disconnect(p.passive));
		break;
	case 7: /* the channel goes with the request unread */
		CHECK(vt_readable(p.lch->fd, 1000));
		close(p.lch->fd);
		break;
	}
	j_say("[active");
	j_events(p.ch, p.active, how >> 1 == 4 ? 0 : how >> 1 ? 100 : 2000);
	if (how >> 1 != 7) {
		j_say("passive");
		j_events(p.lch, p.passive, 20);
	}
	j_say("]");
}

static void unanswered(void)
{
	static const char *const names[] = { "no-listener",	    "listener-gone-unread",
					     "listener-gone-read",  "request-destroyed",
					     "active-destroyed",    "active-disconnects",
					     "passive-disconnects", "channel-closed" };

	for (unsigned how = 0; how < 16; how++)
		j_apart(nobody, &how, "cm-request/%s/%s", how & 1 ? "UDP" : "TCP", names[how >> 1]);
}

/* How many requests a listener takes that reads none; those beyond are refused or ignored. */
static void backlog(const void *arg)
{
	const int most = *(const int *)arg;
	struct rdma_cm_id *active[8];
	unsigned came = 0, refused = 0;
	struct rdma_cm_event *e;
	struct j_pair p;

	j_pair_route(&p, RDMA_PS_TCP, most);
	for (unsigned i = 0; i < ARRAY_SIZE(active); i++) {
		struct rdma_conn_param par = cms_param();

		active[i] = cmt_route(p.ch, p.listener);
		CHECK_OK(rdma_connect(active[i], &par));
		usleep(5000 * vt_slow()); /* one after the other */
	}
	while (vt_readable(p.ch->fd, 50 * (int)vt_slow())) {
		CHECK_OK(rdma_get_cm_event(p.ch, &e));
		if (!refused++)
			j_say_event(e, NULL);
		CHECK_OK(rdma_ack_cm_event(e));
	}
	while (vt_readable(p.lch->fd, 0)) { /* at once: each that is read makes room */
		CHECK_OK(rdma_get_cm_event(p.lch, &e));
		came += e->event == RDMA_CM_EVENT_CONNECT_REQUEST;
		CHECK_OK(rdma_ack_cm_event(e));
	}
	/* where events are read is seen of a channel as a whole: up to two more (ffr/cm/conn.c) */
	j_say("%s refused=%u",
	      came == ARRAY_SIZE(active)			   ? "all" :
	      came >= (unsigned)most && came <= (unsigned)most + 2 ? "as many" :
								     "others",
	      refused);
}

static void backlogs(void)
{
	static const int tries[] = { 0, 1, 2, 3, 5, 8, 100, -1 };

	for (unsigned i = 0; i < ARRAY_SIZE(tries); i++)
		j_apart(backlog, &tries[i], "cm-backlog/%d", tries[i]);
}

/* A QP number that is of a connection, or was a moment ago. */
static void stale(void)
{
	struct rdma_conn_param par = cms_param(), reply = cms_param();
	struct rdma_cm_id *first;
	struct j_pair p;

	j_pair_route(&p, RDMA_PS_TCP, 8);
	CHECK_OK(rdma_connect(p.active, &par));
	p.passive = cms_request(p.lch);
	CHECK_OK(rdma_accept(p.passive, &reply));
	WANT_CM_ACK(p.ch, p.active, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_OK(rdma_establish(p.active));
	WANT_CM_ACK(p.lch, p.passive, RDMA_CM_EVENT_ESTABLISHED, 0);
	first = p.active;
	p.active = cmt_route(p.ch, p.listener);
	j_case("cm-stale/connect");
	J(rdma_connect(p.active, &par));
	both(&p, 50);
	CHECK_OK(rdma_destroy_id(p.active));
	j_case("cm-stale/accept");
	p.active = cmt_route(p.ch, p.listener);
	par.qp_num ^= 0x800000;
	CHECK_OK(rdma_connect(p.active, &par));
	p.passive = j_events(p.lch, NULL, 500);
	if (p.passive) {
		J(rdma_accept(p.passive, &reply));
		both(&p, 50);
	}
	CHECK_OK(rdma_destroy_id(first));
}

/* ---- QPs on the way ---------------------------------------------------------------------------- */

static void qp_states(void)
{
	struct rdma_conn_param par = cms_param();
	struct j_pair p;

	j_pair_route(&p, RDMA_PS_TCP, 8);
	j_case("cm-qp/create-active");
	cmt_qp(p.active);
	qps(&p);
	j_case("cm-qp/create-twice");
	{
		struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = IBV_QPT_RC };

		J(rdma_create_qp(p.active, NULL, &attr));
	}
	j_case("cm-qp/connect");
	J(rdma_connect(p.active, &par));
	qps(&p);
	p.passive = cms_request(p.lch);
	cmt_qp(p.passive);
	j_case("cm-qp/request");
	qps(&p);
	j_case("cm-qp/accept");
	J(rdma_accept(p.passive, &par));
	j_say("passive=%s", j_qp_state(vt_state(p.passive->qp)));
	j_case("cm-qp/events");
	both(&p, 1000);
	qps(&p);
	j_case("cm-qp/transfer");
	cmt_transfer(p.active, p.passive, 1);
	cmt_transfer(p.passive, p.active, 2);
	j_say("ok");
	j_case("cm-qp/disconnect");
	J(rdma_disconnect(p.active));
	qps(&p);
	j_events(p.lch, p.passive, 1000);
	qps(&p);
	j_case("cm-qp/reject");
	j_pair_route(&p, RDMA_PS_TCP, 8);
	cmt_qp(p.active);
	CHECK_OK(rdma_connect(p.active, &par));
	p.passive = cms_request(p.lch);
	cmt_qp(p.passive);
	J(rdma_reject(p.passive, NULL, 0));
	j_events(p.ch, p.active, 1000);
	qps(&p);
	j_case("cm-qp/ud");
	j_pair_route(&p, RDMA_PS_UDP, 8);
	cmt_qp(p.active);
	qps(&p);
	J(rdma_connect(p.active, &par));
	p.passive = cms_request(p.lch);
	cmt_qp(p.passive);
	J(rdma_accept(p.passive, &par));
	j_events(p.ch, p.active, 1000);
	qps(&p);
	j_case("cm-qp/ud-disconnect");
	J(rdma_disconnect(p.active));
	qps(&p);
}

/* The events of an id that goes: those unread go with it, those unacknowledged hold it. */
static void unread(void)
{
	struct sockaddr_in self = cmt_self();
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *a = cmt_id(ch, RDMA_PS_TCP), *b = cmt_id(ch, RDMA_PS_TCP);

	self.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(a, NULL, SA(&self), 1000));
	CHECK_OK(rdma_resolve_addr(b, NULL, SA(&self), 1000));
	usleep(50000 * vt_slow());
	j_case("cm-unread/destroy-one");
	J(rdma_destroy_id(a));
	j_events(ch, b, 100);
	j_case("cm-unread/migrate");
	CHECK_OK(rdma_resolve_route(b, 1000));
	usleep(50000 * vt_slow());
	{
		struct rdma_event_channel *to = cmt_channel();

		J(rdma_migrate_id(b, to));
		j_say("old");
		j_events(ch, b, 20);
		j_say("new");
		j_events(to, b, 100);
	}
	j_case("cm-unread/destroy-channel");
	rdma_destroy_event_channel(ch);
	j_say("done");
}

static void unacknowledged(void)
{
	struct sockaddr_in self = cmt_self();
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *e;

	CHECK_OK(rdma_resolve_addr(id, NULL, SA(&self), 1000));
	CHECK_OK(rdma_get_cm_event(ch, &e));
	j_case("cm-unacknowledged/destroy");
	J(rdma_destroy_id(id));
}

static void unacknowledged_migrate(void)
{
	struct sockaddr_in self = cmt_self();
	struct rdma_event_channel *ch = cmt_channel(), *to = cmt_channel();
	struct rdma_cm_id *id = cmt_id(ch, RDMA_PS_TCP);
	struct rdma_cm_event *e;

	CHECK_OK(rdma_resolve_addr(id, NULL, SA(&self), 1000));
	CHECK_OK(rdma_get_cm_event(ch, &e));
	j_case("cm-unacknowledged/migrate");
	J(rdma_migrate_id(id, to));
}

JUDGE_GROUPS(judge_cm_conn, { "cm-end", ends, 180 }, { "cm-timewait", timewait, 60 },
	     { "cm-request", unanswered, 60 }, { "cm-backlog", backlogs, 60 },
	     { "cm-stale", stale, 0 }, { "cm-qp", qp_states, 0 }, { "cm-unread", unread, 0 },
	     { "cm-unacknowledged/destroy", unacknowledged, 1 },
	     { "cm-unacknowledged/migrate", unacknowledged_migrate, 1 })
