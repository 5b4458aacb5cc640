/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge_cm_state.c - each function of rdma_cm with an id in each state that an id can be in: what it
 * returns, which events come of it, what address the id has.
 */
#include "tests/conformance/judge_cm.h"

static const char *const state_str[] = {
#define NAME(s) #s,
	CMS_STATES(NAME)
#undef NAME
};

struct call {
	const char *name;
	int (*run)(struct cms *f);
	uint32_t not ; /* states in which rdma-core crashes or waits for ever */
};

static int bind_any(struct cms *f)
{
	struct sockaddr_in any = { .sin_family = AF_INET };

	return rdma_bind_addr(f->id, SA(&any));
}

static int bind_self(struct cms *f)
{
	struct sockaddr_in self = cmt_self();

	return rdma_bind_addr(f->id, SA(&self));
}

static int resolve_addr(struct cms *f)
{
	struct sockaddr_in self = cmt_self();

	self.sin_port = htons(9);
	return rdma_resolve_addr(f->id, NULL, SA(&self), 1000);
}

static int resolve_addr_from(struct cms *f)
{
	struct sockaddr_in self = cmt_self(), to = self;

	to.sin_port = htons(9);
	return rdma_resolve_addr(f->id, SA(&self), SA(&to), 1000);
}

static int resolve_route(struct cms *f)
{
	return rdma_resolve_route(f->id, 1000);
}

static int listen_8(struct cms *f)
{
	return rdma_listen(f->id, 8);
}

static int connect_plain(struct cms *f)
{
	struct rdma_conn_param p = cms_param();

	return rdma_connect(f->id, &p);
}

static int connect_data(struct cms *f)
{
	struct rdma_conn_param p = cms_param();

	p.private_data = j_data();
	p.private_data_len = 10;
	return rdma_connect(f->id, &p);
}

static int accept_plain(struct cms *f)
{
	struct rdma_conn_param p = cms_param();

	return rdma_accept(f->id, &p);
}

static int accept_data(struct cms *f)
{
	struct rdma_conn_param p = cms_param();

	p.private_data = j_data();
	p.private_data_len = 10;
	return rdma_accept(f->id, &p);
}

static int reject_plain(struct cms *f)
{
	return rdma_reject(f->id, NULL, 0);
}

static int reject_data(struct cms *f)
{
	return rdma_reject(f->id, j_data(), 10);
}

static int reject_ece(struct cms *f)
{
	return rdma_reject_ece(f->id, NULL, 0);
}

static int establish(struct cms *f)
{
	return rdma_establish(f->id);
}

static int notify_est(struct cms *f)
{
	return rdma_notify(f->id, IBV_EVENT_COMM_EST);
}

static int notify_mig(struct cms *f)
{
	return rdma_notify(f->id, IBV_EVENT_PATH_MIG);
}

static int notify_fatal(struct cms *f)
{
	return rdma_notify(f->id, IBV_EVENT_QP_FATAL);
}

static int disconnect(struct cms *f)
{
	return rdma_disconnect(f->id);
}

static int disconnect_peer(struct cms *f)
{
	return f->peer ? rdma_disconnect(f->peer) : 0;
}

static int destroy_peer(struct cms *f)
{
	struct rdma_cm_id *peer = f->peer;

	f->peer = NULL;
	return peer ? rdma_destroy_id(peer) : 0;
}

static int destroy_listener(struct cms *f)
{
	struct rdma_cm_id *listener = f->listener;

	f->listener = NULL;
	return listener ? rdma_destroy_id(listener) : 0;
}

static int create_qp(struct cms *f)
{
	struct ibv_qp_init_attr attr = { .cap = { 1, 1, 1, 1, 0 }, .qp_type = f->id->qp_type };

	return rdma_create_qp(f->id, NULL, &attr);
}

static int qp_attr_init(struct cms *f)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_INIT };
	int mask = 0, ret = rdma_init_qp_attr(f->id, &a, &mask);

	if (!ret)
		j_say("mask=%x access=%x", mask, a.qp_access_flags);
	return ret;
}

static int qp_attr_rtr(struct cms *f)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTR };
	int mask = 0, ret = rdma_init_qp_attr(f->id, &a, &mask);

	if (!ret)
		j_say("mask=%x mtu=%d rd=%u rnr=%u", mask, a.path_mtu > 0, a.max_dest_rd_atomic,
		      a.min_rnr_timer);
	return ret;
}

static int qp_attr_rts(struct cms *f)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_RTS };
	int mask = 0, ret = rdma_init_qp_attr(f->id, &a, &mask);

	if (!ret)
		j_say("mask=%x rd=%u retry=%u rnr=%u", mask, a.max_rd_atomic, a.retry_cnt,
		      a.rnr_retry);
	return ret;
}

static int qp_attr_err(struct cms *f)
{
	struct ibv_qp_attr a = { .qp_state = IBV_QPS_ERR };
	int mask = 0;

	return rdma_init_qp_attr(f->id, &a, &mask);
}

static int option_tos(struct cms *f)
{
	uint8_t tos = 0x10;

	return rdma_set_option(f->id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1);
}

static int option_timeout(struct cms *f)
{
	uint8_t timeout = 15;

	return rdma_set_option(f->id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, 1);
}

static int option_reuse(struct cms *f)
{
	int on = 1;

	return rdma_set_option(f->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof(on));
}

static int option_no_reuse(struct cms *f)
{
	int off = 0;

	return rdma_set_option(f->id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &off, sizeof(off));
}

static int option_afonly(struct cms *f)
{
	int on = 1;

	return rdma_set_option(f->id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof(on));
}

static int join(struct cms *f)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe8010101) };

	return rdma_join_multicast(f->id, SA(&group), NULL);
}

static int leave(struct cms *f)
{
	struct sockaddr_in group = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0xe8010101) };

	return rdma_leave_multicast(f->id, SA(&group));
}

static int migrate(struct cms *f)
{
	struct rdma_event_channel *ch = cmt_channel();
	int ret = rdma_migrate_id(f->id, ch);

	if (!ret && f->id->channel == ch)
		f->ch = ch;
	return ret;
}

static int look(struct cms *f)
{
	j_addr(rdma_get_local_addr(f->id));
	j_port(rdma_get_src_port(f->id), 0);
	j_say("to");
	j_addr(rdma_get_peer_addr(f->id));
	j_say("port=%d dev=%d", rdma_get_dst_port(f->id) != 0, f->id->verbs != NULL);
	j_say("port_num=%u pd=%d paths=%d", f->id->port_num, f->id->pd != NULL,
	      f->id->route.num_paths);
	return 0;
}

static int destroy(struct cms *f)
{
	struct rdma_cm_id *id = f->id;

	f->id = NULL;
	return rdma_destroy_id(id);
}

#define WITHOUT_DEVICE NO_DEVICE
static const struct call calls[] = {
	{ "bind-any", bind_any, 0 },
	{ "bind-self", bind_self, 0 },
	{ "resolve-addr", resolve_addr, 0 },
	{ "resolve-addr-from", resolve_addr_from, 0 },
	{ "resolve-route", resolve_route, WITHOUT_DEVICE },
	{ "listen", listen_8, 0 },
	{ "connect", connect_plain, WITHOUT_DEVICE },
	{ "connect-data", connect_data, WITHOUT_DEVICE },
	{ "accept", accept_plain, WITHOUT_DEVICE },
	{ "accept-data", accept_data, WITHOUT_DEVICE },
	{ "reject", reject_plain, 0 },
	{ "reject-data", reject_data, 0 },
	{ "reject-ece", reject_ece, 0 },
	{ "establish", establish, BIT(UD_REQ_RCVD) },
	{ "notify-est", notify_est, 0 },
	{ "notify-mig", notify_mig, 0 },
	{ "notify-fatal", notify_fatal, 0 },
	{ "disconnect", disconnect, 0 },
	{ "disconnect-peer", disconnect_peer, 0 },
	{ "destroy-peer", destroy_peer, 0 },
	{ "destroy-listener", destroy_listener, 0 },
	{ "create-qp", create_qp, WITHOUT_DEVICE },
	{ "qp-attr-init", qp_attr_init, 0 },
	{ "qp-attr-rtr", qp_attr_rtr, 0 },
	{ "qp-attr-rts", qp_attr_rts, 0 },
	{ "qp-attr-err", qp_attr_err, 0 },
	{ "option-tos", option_tos, 0 },
	{ "option-timeout", option_timeout, 0 },
	{ "option-reuse", option_reuse, 0 },
	{ "option-no-reuse", option_no_reuse, 0 },
	{ "option-afonly", option_afonly, 0 },
	{ "join", join, 0 },
	{ "leave", leave, 0 },
	{ "migrate", migrate, 0 },
	{ "look", look, 0 },
	{ "destroy", destroy, 0 },
};

struct cell {
	enum cms_state state;
	const struct call *call;
};

static void cell(const void *arg)
{
	const struct cell *c = arg;
	struct cms f = cms_open(c->state);
	int ret;

	if (c->state == REP_SENT)
		WANT_CM_ACK(f.ch, f.peer, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	ret = J(c->call->run(&f));

	j_events(f.ch, f.id, ret ? 5 : 15);
}

static void in_states(enum cms_state from, enum cms_state to)
{
	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++)
		for (enum cms_state s = from; s < to; s++)
			if (!(calls[i].not &BIT(s))) {
				struct cell c = { s, &calls[i] };

				j_apart(cell, &c, "cm-state/%s/%s", calls[i].name, state_str[s]);
			}
}

static void rc_new(void)
{
	in_states(IDLE, REQ_SENT);
}

static void rc_connected(void)
{
	in_states(REQ_SENT, UD_IDLE);
}

static void ud(void)
{
	in_states(UD_IDLE, NUM_STATES);
}

JUDGE_GROUPS(judge_cm_state, { "cm-state/new", rc_new, 120 },
	     { "cm-state/connected", rc_connected, 240 }, { "cm-state/ud", ud, 120 })
