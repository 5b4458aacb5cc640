/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_plain.c - rdma_cm with peers without freeflow, with a stand-in for the backend that asks the host's kernel: what
 * it is asked for, what becomes of what it tells, and who has nothing to do with it.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/cm/internal.h"
#include "ffr/fast/ucma.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define NIC_IP "10.1.2.3"
#define PEER   "10.1.2.9"
#define PORT   7471

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

/* ---- the stand-in -------------------------------------------------------------------------------- */

enum said { NOTHING, CONNECT, ACCEPT, ESTABLISH, REJECT, DISCONNECT };
struct ucma_id {
	struct ucma_want want;
	void *user;
	struct carrier_later *later;
	enum said said; /* the last call */
	struct ff_cm_param param;
	uint8_t reason, pd[FF_CM_PD_MAX];
	uint32_t pd_len;
};

static struct {
	bool is_away, has_no_memory, is_iwarp;
	uint32_t changes;
	unsigned made, gone;
	struct ucma_id *last; /* made */
	struct ucma_event ev[8];
	unsigned num, at;
} fake;

/* A NIC of RoCE, or one of iWARP, which has RC only. */
static bool is_there(const struct container *c, uint16_t ps, uint8_t qp_type)
{
	(void)c;
	if (fake.is_away)
		return false;
	if (fake.is_iwarp)
		return ps == RDMA_PS_TCP && qp_type == IBV_QPT_RC;
	return qp_type == IBV_QPT_RC || qp_type == IBV_QPT_UC || qp_type == IBV_QPT_UD;
}

static uint32_t changes(const struct container *c)
{
	(void)c;
	return fake.changes;
}

static struct ucma_id *make(const struct ucma_want *w, struct carrier_later *l)
{
	struct ucma_id *id = fake.has_no_memory ? NULL : calloc(1, sizeof(*id));

	if (!id)
		return NULL;
	id->want = *w;
	id->user = w->user;
	id->later = l;
	fake.made++;
	return fake.last = id;
}

static struct ucma_id *resolve(const struct ucma_want *w)
{
	return make(w, NULL);
}

static struct ucma_id *do_listen(const struct ucma_want *w, struct carrier_later *l)
{
	return make(w, l);
}

static void keep(struct ucma_id *id, void *user)
{
	id->user = user;
}

static void destroy(struct ucma_id *id)
{
	fake.gone++;
	if (fake.last == id)
		fake.last = NULL;
	free(id);
}

static int say(struct ucma_id *id, enum said what, const struct ff_cm_param *p, uint8_t reason,
	       const void *pd, uint32_t len)
{
	if (fake.has_no_memory)
		return -ENOMEM;
	id->said = what;
	if (p)
		id->param = *p;
	id->reason = reason;
	id->pd_len = len;
	if (len)
		memcpy(id->pd, pd, len);
	return 0;
}

static int do_connect(struct ucma_id *id, const struct ff_cm_param *p, const void *pd, uint32_t len)
{
	return say(id, CONNECT, p, 0, pd, len);
}

static int do_accept(struct ucma_id *id, const struct ff_cm_param *p, const void *pd, uint32_t len)
{
	return say(id, ACCEPT, p, 0, pd, len);
}

static int do_establish(struct ucma_id *id)
{
	return say(id, ESTABLISH, NULL, 0, NULL, 0);
}

static int do_reject(struct ucma_id *id, uint8_t reason, const void *pd, uint32_t len)
{
	return say(id, REJECT, NULL, reason, pd, len);
}

static int do_disconnect(struct ucma_id *id)
{
	return say(id, DISCONNECT, NULL, 0, NULL, 0);
}

static bool next_event(struct fast *f, struct ucma_event *ev)
{
	(void)f;
	if (fake.at == fake.num)
		return false;
	*ev = fake.ev[fake.at++];
	return true;
}

static const struct ucma_ops ops = { .is_there = is_there,
				     .changes = changes,
				     .resolve = resolve,
				     .listen = do_listen,
				     .keep = keep,
				     .destroy = destroy,
				     .connect = do_connect,
				     .accept = do_accept,
				     .establish = do_establish,
				     .reject = do_reject,
				     .disconnect = do_disconnect,
				     .event = next_event };

static int setup(void **state)
{
	static const struct carrier plain = { .ucma = &ops };
	static const struct carrier_use list[] = { { .ops = &plain }, { 0 } };

	memset(&fake, 0, sizeof(fake));
	ctl_rig_carriers = list;
	cm_two_setup(state);
	for (int i = 0; i < 2; i++) {
		struct cm_addr nic;
		struct ff_cm_addr ip = cm_sa(NIC_IP, 0);

		cm_addr_parse(&nic, &ip, RDMA_PS_TCP);
		g->c[i]->has_nic_gid = true;
		g->c[i]->nic_gid = nic.gid;
	}
	return 0;
}

static int teardown(void **state)
{
	cm_two_teardown(state);
	assert_int_equal(fake.made, fake.gone);
	return 0;
}

static void pump(void)
{
	g->ctl.host->cm_wake(g->ctl.host);
	rig_pump(g);
}

/* The kernel tells of it. */
static void tell(const struct ucma_id *id, enum rdma_cm_event_type event, struct ucma_event ev)
{
	if (fake.at == fake.num)
		fake.at = fake.num = 0;
	ev.event = event;
	ev.user = id->user;
	fake.ev[fake.num++] = ev;
	pump();
}

/* An event with more than its name. */
#define TELL_MORE(id, EVENT, ...)                                                                  \
	tell(id, RDMA_CM_EVENT_##EVENT, (struct ucma_event){ __VA_ARGS__ })
#define TELL(id, EVENT) TELL_MORE(id, EVENT, .status = 0)

static union ibv_gid gid_of(const char *ip)
{
	struct ff_cm_addr sa = cm_sa(ip, 0);
	struct cm_addr addr;

	cm_addr_parse(&addr, &sa, RDMA_PS_TCP);
	return addr.gid;
}

/* ---- as a client ---------------------------------------------------------------------------------- */

static uint32_t routed(uint16_t ps, struct ucma_id **k)
{
	uint32_t id = cm_new(a, ps);

	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	assert_non_null(fake.last);
	*k = fake.last;
	cm_expect_none(a);
	TELL(*k, ROUTE_RESOLVED);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
	assert_int_equal(cm_do_route(a, id), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	return id;
}

static const struct ff_cm_param theirs = {
	.qp_num = 0x777, .responder_resources = 5, .initiator_depth = 6, .rnr_retry_count = 3
};

static void respond(struct ucma_id *k)
{
	struct ucma_event ev = { .param = theirs,
				 .rq_psn = 0x111,
				 .sq_psn = 0x222,
				 .path_mtu = IBV_MTU_1024,
				 .pd_len = FF_CM_PD_REP };

	memset(ev.pd, 9, sizeof(ev.pd));
	tell(k, RDMA_CM_EVENT_CONNECT_RESPONSE, ev);
}

static uint32_t connected(struct ucma_id **k)
{
	uint32_t id = routed(RDMA_PS_TCP, k);

	assert_int_equal(cm_do_connect(a, id, "hi", 2), 0);
	respond(*k);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), 0);
	assert_int_equal((*k)->said, ESTABLISH);
	return id;
}

static void a_client_connects(void **state)
{
	struct ff_cm_init_qp_attr_resp attr;
	struct ff_cm_query_resp path;
	union ibv_gid peer = gid_of(PEER), nic = gid_of(NIC_IP);
	struct cm_packet p;
	struct ucma_id *k;
	uint32_t id;

	(void)state;
	id = routed(RDMA_PS_TCP, &k);
	assert_memory_equal(&k->want.dst, &peer, 16);
	assert_int_equal(k->want.port, PORT);
	assert_int_equal(k->want.qp_type, IBV_QPT_RC);
	assert_int_equal(k->want.timeout_ms, 1000);
	assert_int_equal(cm_do_query(a, id, &path), 0);
	assert_memory_equal(path.sgid, &nic, 16);
	assert_memory_equal(path.dgid, &peer, 16);

	assert_int_equal(cm_do_connect(a, id, "hi", 2), 0);
	assert_int_equal(k->said, CONNECT);
	assert_int_equal(k->param.qp_num, cm_qpn[0]);
	assert_int_equal(k->param.responder_resources, 3);
	assert_int_equal(k->param.initiator_depth, 4);
	assert_int_equal(k->param.retry_count, 5);
	assert_int_equal(k->pd_len, 2);
	assert_memory_equal(k->pd, "hi", 2);
	/* the kernel repeats it: here nothing is said again */
	k->said = NOTHING;
	cm_at(g, 20000);
	assert_int_equal(k->said, NOTHING);

	respond(k);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, &p);
	assert_int_equal(p.ev.param.qp_num, 0x777);
	assert_int_equal(p.ev.param.responder_resources, 5);
	assert_int_equal(p.ev.param.initiator_depth, 6);
	assert_int_equal(p.ev.private_data_len, FF_CM_PD_REP);
	assert_int_equal(p.pd[FF_CM_PD_REP - 1], 9);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTR, &attr), 0);
	assert_int_equal(attr.attr.rq_psn, 0x111);
	assert_int_equal(attr.attr.dest_qp_num, 0x777);
	assert_int_equal(attr.attr.path_mtu, IBV_MTU_1024);
	assert_int_equal(attr.attr.ah.sgid_index, gid_nic_index(g->c[0]));
	assert_memory_equal(attr.attr.ah.dgid, &peer, 16);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTS, &attr), 0);
	assert_int_equal(attr.attr.sq_psn, 0x222);
	assert_int_equal(attr.attr.rnr_retry, 3);
	assert_int_equal(cm_do_establish(a, id, UINT32_MAX), 0);
	assert_int_equal(k->said, ESTABLISH);

	assert_int_equal(cm_do_disconnect(a, id), 0);
	assert_int_equal(k->said, DISCONNECT);
	cm_expect_none(a);
	TELL(k, DISCONNECTED);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	assert_int_equal(fake.gone, 1);
}

/* The peer ends it; the program agrees by its own disconnect. */
static void the_peer_ends_it(void **state)
{
	struct ucma_id *k;
	uint32_t id = connected(&k);

	(void)state;
	TELL(k, DISCONNECTED);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_DISCONNECTED, NULL), 0);
	assert_int_equal(k->said, ESTABLISH);
	assert_int_equal(cm_do_disconnect(a, id), 0);
	assert_int_equal(k->said, DISCONNECT);
	cm_expect_none(a);
}

static void a_request_fails(void **state)
{
	struct ucma_event no = { .status = CM_REJ_CONSUMER, .pd_len = 3 };
	struct cm_packet p;
	struct ucma_id *k;
	uint32_t id = routed(RDMA_PS_TCP, &k);

	(void)state;
	memcpy(no.pd, "no!", 3);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	tell(k, RDMA_CM_EVENT_REJECTED, no);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, &p), CM_REJ_CONSUMER);
	assert_memory_equal(p.pd, "no!", 4);
	id = routed(RDMA_PS_TCP, &k);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	TELL_MORE(k, UNREACHABLE, .status = -ETIMEDOUT);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);
	/* the kernel does not take the call */
	id = routed(RDMA_PS_TCP, &k);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	TELL_MORE(k, CONNECT_ERROR, .status = -EINVAL);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -EINVAL);
	/* there is no memory for it */
	id = routed(RDMA_PS_TCP, &k);
	fake.has_no_memory = true;
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ENOMEM);
	/* it gives up, and destroys it */
	fake.has_no_memory = false;
	id = routed(RDMA_PS_TCP, &k);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	assert_int_equal(fake.made, fake.gone + 1); /* that of the one that was rejected */
}

/* It goes on looking for a container until its time is over, and does not ask the NIC again. */
static void nobody_is_there(void **state)
{
	uint32_t id = cm_new(a, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	TELL_MORE(fake.last, ADDR_ERROR, .status = -EHOSTUNREACH);
	cm_expect_none(a);
	cm_at(g, 500);
	cm_expect_none(a);
	assert_int_equal(fake.made, 1);
	cm_at(g, 1001);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_ERROR, NULL), -ETIMEDOUT);
	/* the next try asks again; this time nothing is heard at all */
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	assert_int_equal(fake.made, 2);
	cm_at(g, 2002);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_ERROR, NULL), -ETIMEDOUT);
	assert_int_equal(fake.gone, 2);
}

static void who_does_not_go_by_it(void **state)
{
	uint32_t id = cm_routed(a, RDMA_PS_TCP, "0.0.0.2", PORT); /* a container has it */

	(void)state;
	(void)id;
	id = cm_new(a, RDMA_PS_TCP); /* from an address of its own */
	assert_int_equal(cm_do_resolve(a, id, cm_sa("0.0.0.1", 0), cm_sa(PEER, PORT), 1000), 0);
	id = cm_new(a, RDMA_PS_TCP); /* the NIC has no address of that kind */
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa("fd99::1", PORT), 1000), 0);
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(
		cm_do_resolve(a, id, cm_sa("", 0), cm_sib("fd99::1", RDMA_PS_TCP, PORT), 1000), 0);
	g->c[0]->has_nic_gid = false; /* it may not */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	assert_int_equal(cm_do_bind(a, cm_new(a, RDMA_PS_TCP), cm_sa(NIC_IP, 0), NULL),
			 -EADDRNOTAVAIL);
	g->c[0]->has_nic_gid = true;
	fake.is_away = true;
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	fake.is_away = false;
	fake.has_no_memory = true;
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	cm_expect_none(a);
	assert_int_equal(fake.made, 0);
	fake.has_no_memory = false;
	/* one that is bound to the NIC's address does */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sa(NIC_IP, 0), NULL), 0);
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(PEER, PORT), 1000), 0);
	assert_int_equal(fake.made, 1);
	cm_at(g, 6); /* nor was it for good that the NIC was away, or not allowed */
	assert_int_equal(fake.made, 3);
}

/* ---- as a listener ----------------------------------------------------------------------------------- */

/* The answer to CM_LISTEN, when the kernel has said err. */
static int listen_at(struct cm_client *c, uint32_t id, int err)
{
	struct ff_cm_listen_req req = { .id = id, .backlog = 4 };
	struct ff_cm_listen_resp resp;
	struct ucma_id *was = fake.last;
	struct carrier_later *l;

	rig_ask(c->sock, FF_MSG_CM_LISTEN, &req, sizeof(req), NULL, 0, 0);
	rig_pump(g);
	if (fake.last != was) {
		l = fake.last->later;
		fake.last->later = NULL;
		l->done(l, err);
	}
	return rig_answer(g, c->sock, FF_MSG_CM_LISTEN, &resp, sizeof(resp));
}

static uint32_t bound(struct cm_client *c, uint16_t ps, const char *ip)
{
	uint32_t id = cm_new(c, ps);

	assert_int_equal(cm_do_bind(c, id, cm_sa(ip, PORT), NULL), 0);
	return id;
}

/* A request from the peer, to that listener of the kernel's: its id. */
static struct ucma_id *request(const struct ucma_id *l)
{
	const struct ucma_want none = { 0 };
	struct ucma_id *k = make(&none, NULL);
	struct ucma_event ev = { .request = k,
				 .param = theirs,
				 .peer = gid_of(PEER),
				 .peer_port = 99,
				 .rq_psn = 0x333,
				 .sq_psn = 0x444,
				 .path_mtu = IBV_MTU_2048,
				 .pd_len = FF_CM_PD_REQ };

	ev.param.qp_num += fake.made;
	memset(ev.pd, 8, FF_CM_PD_REQ);
	tell(l, RDMA_CM_EVENT_CONNECT_REQUEST, ev);
	return k;
}

static void a_listener_accepts(void **state)
{
	static const char *const at[] = { "0.0.0.0", NIC_IP };
	struct ff_cm_init_qp_attr_resp attr;
	union ibv_gid peer = gid_of(PEER);
	struct cm_packet p;
	struct ucma_id *l, *k;
	uint32_t lid, id;

	(void)state;
	for (int i = 0; i < 2; i++) {
		lid = bound(b, RDMA_PS_TCP, at[i]);
		assert_int_equal(listen_at(b, lid, 0), 0);
		l = fake.last;
		assert_int_equal(l->want.port, PORT);
		assert_int_equal(l->want.backlog, 4);
		k = request(l);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		id = p.ev.id;
		assert_int_equal(p.ev.listener, lid);
		assert_int_equal(p.ev.param.responder_resources, 5);
		assert_int_equal(p.ev.private_data_len, FF_CM_PD_REQ);
		assert_int_equal(p.pd[0], 8);
		assert_memory_equal(p.ev.path.dgid, &peer, 16);
		assert_int_equal(cm_port_of(&p.ev.path.remote), 99);
		assert_int_equal(cm_do_attr(b, id, IBV_QPS_RTR, &attr), 0);
		assert_int_equal(attr.attr.rq_psn, 0x333);
		assert_int_equal(attr.attr.path_mtu, IBV_MTU_2048);
		assert_int_equal(attr.attr.ah.sgid_index, gid_nic_index(g->c[1]));
		assert_int_equal(cm_do_attr(b, id, IBV_QPS_RTS, &attr), 0);
		assert_int_equal(attr.attr.sq_psn, 0x444);
		assert_int_equal(k->said, NOTHING);
		assert_int_equal(cm_do_accept(b, id, 5, "yes", 3), 0);
		assert_int_equal(k->said, ACCEPT);
		assert_int_equal(k->param.qp_num, cm_qpn[1]);
		assert_memory_equal(k->pd, "yes", 3);
		TELL(k, ESTABLISHED);
		cm_expect(b, id, RDMA_CM_EVENT_ESTABLISHED, NULL);
		TELL(k, DISCONNECTED);
		cm_expect(b, id, RDMA_CM_EVENT_DISCONNECTED, NULL);
		/* another is refused, and one destroyed unanswered */
		k = request(l);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_reject(b, p.ev.id, 0, "no", 2), 0);
		assert_int_equal(k->said, REJECT);
		assert_memory_equal(k->pd, "no", 2);
		request(l);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
		/* an accepted one, of which the peer thinks better */
		k = request(l);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_accept(b, p.ev.id, 5, NULL, 0), 0);
		TELL_MORE(k, REJECTED, .status = CM_REJ_CONSUMER);
		cm_expect(b, p.ev.id, RDMA_CM_EVENT_REJECTED, NULL);
		assert_int_equal(cm_do_destroy(b, lid, NULL), 0);
	}
}

static void a_port_is_taken(void **state)
{
	uint32_t id = bound(a, RDMA_PS_TCP, NIC_IP);

	(void)state;
	assert_int_equal(listen_at(a, id, -EADDRINUSE), -EADDRINUSE);
	assert_int_equal(listen_at(a, id, 0), 0);
	/* who has not asked for that address is there for containers */
	id = bound(b, RDMA_PS_TCP, "0.0.0.0");
	assert_int_equal(listen_at(b, id, -EADDRINUSE), 0);
	assert_int_equal(fake.gone, 2);
	id = cm_routed(a, RDMA_PS_TCP, "0.0.0.2", PORT);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

static void who_is_not_exposed(void **state)
{
	(void)state;
	assert_int_equal(listen_at(a, bound(a, RDMA_PS_TCP, "0.0.0.1"), 0), 0);
	assert_int_equal(listen_at(b, bound(b, RDMA_PS_TCP, "127.0.0.1"), 0), 0);
	assert_int_equal(listen_at(a, bound(a, RDMA_PS_UDP, "fd00::1"), 0), 0);
	fake.is_away = true;
	assert_int_equal(listen_at(a, bound(a, RDMA_PS_IB, "0.0.0.0"), 0), 0);
	fake.is_away = false;
	fake.has_no_memory = true;
	assert_int_equal(listen_at(b, bound(b, RDMA_PS_UDP, "0.0.0.0"), 0), 0);
	assert_int_equal(fake.made, 0);
}

/* Its backlog is full, it does not listen any more, or there is nobody: the kernel refuses them. */
static void requests_nobody_takes(void **state)
{
	uint32_t id = bound(b, RDMA_PS_TCP, "0.0.0.0");
	struct cm_packet p;
	struct ucma_id *l;
	uint64_t before;

	(void)state;
	assert_int_equal(listen_at(b, id, 0), 0);
	l = fake.last;
	before = g->c[1]->cpu.ctl_ns;
	for (int i = 0; i < 6; i++)
		request(l);
	assert_int_equal(fake.gone, 2);
	assert_true(g->c[1]->cpu.ctl_ns > before); /* who listens pays for them */
	for (int i = 0; i < 4; i++)
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_expect_none(b);
}

/* ---- what is lost -------------------------------------------------------------------------------------- */

static void the_nic_goes(void **state)
{
	uint32_t id, lid = bound(b, RDMA_PS_TCP, "0.0.0.0");
	struct cm_packet p;
	struct ucma_id *l, *k;

	(void)state;
	assert_int_equal(listen_at(b, lid, 0), 0);
	l = fake.last;
	k = request(l);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	TELL(k, DEVICE_REMOVAL);
	assert_int_equal(cm_do_accept(b, p.ev.id, 5, NULL, 0), -EINVAL);
	k = request(l);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 5, NULL, 0), 0);
	TELL(k, DEVICE_REMOVAL);
	assert_int_equal(cm_expect(b, p.ev.id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ENODEV);
	TELL(l, DEVICE_REMOVAL);

	id = connected(&k);
	TELL(k, DEVICE_REMOVAL);
	cm_expect(a, id, RDMA_CM_EVENT_DISCONNECTED, NULL);
	assert_int_equal(cm_do_disconnect(a, id), 0);
	id = connected(&k);
	assert_int_equal(cm_do_disconnect(a, id), 0);
	TELL(k, DEVICE_REMOVAL);
	cm_expect(a, id, RDMA_CM_EVENT_DISCONNECTED, NULL);
	/* one that is gone before the call */
	id = routed(RDMA_PS_TCP, &k);
	TELL(k, DEVICE_REMOVAL);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ENODEV);

	/* it is back: who listens is there again */
	assert_int_equal(fake.made, fake.gone);
	fake.changes++;
	pump();
	assert_int_equal(fake.made, fake.gone + 1);
	request(fake.last);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

static void a_session_ends_while_it_is_asked(void **state)
{
	struct ff_cm_listen_req req = { .id = bound(b, RDMA_PS_TCP, "0.0.0.0"), .backlog = 1 };
	struct cm_client c = cm_open(g, 1);
	struct carrier_later *l;

	(void)state;
	req.id = cm_new(&c, RDMA_PS_TCP);
	rig_ask(c.sock, FF_MSG_CM_LISTEN, &req, sizeof(req), NULL, 0, 0);
	rig_pump(g);
	assert_non_null(fake.last);
	l = fake.last->later;
	cm_close(&c);
	assert_int_equal(fake.gone, 0);
	l->done(l, 0);
	rig_pump(g);
	assert_int_equal(fake.gone, 1);
}

/* ---- UD --------------------------------------------------------------------------------------------------- */

static void ud_both_ways(void **state)
{
	struct cm_packet p;
	struct ucma_id *l, *k;
	uint32_t id = routed(RDMA_PS_UDP, &k);

	(void)state;
	assert_int_equal(k->want.qp_type, IBV_QPT_UD);
	assert_int_equal(cm_do_connect(a, id, "hi", 2), 0);
	assert_int_equal(k->said, CONNECT);
	TELL_MORE(k, ESTABLISHED, .param = { .qp_num = 0x55, .qkey = RDMA_UDP_QKEY });
	cm_expect(a, id, RDMA_CM_EVENT_ESTABLISHED, &p);
	assert_int_equal(p.ev.ud_qp_num, 0x55);
	assert_int_equal(p.ev.ud_sgid_index, gid_nic_index(g->c[0]));
	id = routed(RDMA_PS_UDP, &k);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	TELL_MORE(k, UNREACHABLE, .status = CM_SIDR_REJECT);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), CM_SIDR_REJECT);
	id = routed(RDMA_PS_UDP, &k);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	TELL_MORE(k, UNREACHABLE, .status = -ETIMEDOUT);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_UNREACHABLE, NULL), -ETIMEDOUT);

	assert_int_equal(listen_at(b, bound(b, RDMA_PS_UDP, "0.0.0.0"), 0), 0);
	l = fake.last;
	k = request(l);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(p.ev.private_data_len, FF_CM_PD_SIDR_REQ);
	assert_int_equal(cm_do_accept(b, p.ev.id, 5, "yes", 3), 0);
	assert_int_equal(k->said, ACCEPT);
	assert_int_equal(k->param.qp_num, cm_qpn[1]);
	k = request(l);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_reject(b, p.ev.id, 0, "no", 2), 0);
	assert_int_equal(k->said, REJECT);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	return UNIT_RUN(TEST(a_client_connects), TEST(the_peer_ends_it), TEST(a_request_fails),
			TEST(nobody_is_there), TEST(who_does_not_go_by_it),
			TEST(a_listener_accepts), TEST(a_port_is_taken), TEST(who_is_not_exposed),
			TEST(requests_nobody_takes), TEST(the_nic_goes),
			TEST(a_session_ends_while_it_is_asked), TEST(ud_both_ways));
}
