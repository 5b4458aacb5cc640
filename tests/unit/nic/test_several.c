/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/nic_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/*
 * test_several.c - a host with several NICs, and several ports of one: which a container gets, what is made where, what
 * happens when one of them fails or goes, and which way QPs go between hosts that have some each.
 */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/obj/gid.h"
#include "ffr/wire/wire.h"
#include "tests/rig/unit/two_hosts.h"

#define SECOND 1000000000ull

/* Two ports of one device, and another device. */
static struct nic_conf third = {
	.name = "fake1", .port = 1, .gid_index = -1, .direct = true, .no_worker = true
};
static struct nic_conf second = { .name = "fake0",
				  .port = 2,
				  .gid_index = -1,
				  .direct = true,
				  .no_worker = true,
				  .next = &third };

static struct nic_dev *dev(const struct nic_rig *n, int i)
{
	return n->r.f->host->nic[i].dev;
}

static int setup(void **state)
{
	static struct nic_rig n;

	fake_nic_reset();
	fake_nic.name[1] = "fake1";
	nic_rig_conf.next = &second;
	nic_rig_open_rts(&n, IBV_QPT_RC);
	nic_rig_conf.next = NULL;
	*state = &n;
	return 0;
}

/* A QP of that container, with an MR, which its NIC carries. */
struct user {
	struct rig_ses *s;
	struct rig_cq *cq;
	struct rig_qp *qp;
	struct mr *mr;
	uint8_t *buf;
};

static void user_open(struct nic_rig *n, struct user *u, int container)
{
	struct container *c = &n->r.cont[container];

	u->s = rig_session(&n->r, container);
	u->cq = rig_cq(&n->r, u->s, 64, true);
	u->buf = aligned_alloc(FF_PAGE, FF_PAGE);
	memset(u->buf, 1, FF_PAGE);
	u->mr = rig_mr(&n->r, u->s, u->buf, FF_PAGE, NIC_RIG_ACCESS);
	u->qp = rig_qp(&n->r, u->s, IBV_QPT_RC, u->cq, u->cq, NULL);
	assert_int_equal(gid_nic_index(c), gid_nic_index(&n->r.cont[0]));
	nic_rig_connect(n, u->qp);
	rig_run(&n->r);
}

static void user_close(struct nic_rig *n, struct user *u)
{
	rig_qp_free(&n->r, u->qp);
	rig_mr_free(&n->r, u->mr);
	rig_cq_free(&n->r, u->cq);
	rig_session_free(&n->r, u->s);
	free(u->buf);
}

static void user_send(struct nic_rig *n, struct user *u, uint64_t wr_id)
{
	rig_sge(rig_sqe(u->qp, FF_OP_SEND, wr_id), u->mr, (uintptr_t)u->buf, 8);
	rig_post(&n->r, u->qp);
	rig_run(&n->r);
}

static void user_expect(struct user *u, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	assert_true(rig_poll(u->cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, st);
}

static bool has_event(struct user *u, enum ibv_event_type *type)
{
	struct ff_async_event ev;
	bool has = recv(u->s->async, &ev, sizeof(ev), MSG_DONTWAIT) == sizeof(ev);

	*type = has ? (enum ibv_event_type)ev.event_type : 0;
	return has;
}

/* ---- which of them --------------------------------------------------------------------------------------- */

static void containers_are_spread(void **state)
{
	struct nic_rig *n = *state;
	const struct fast_host *h = n->r.f->host;

	assert_int_equal(h->num_nics, 3);
	for (int i = 0; i < 4; i++) {
		assert_int_equal(n->r.cont[i].nic, i % 3);
		assert_memory_equal(&n->r.cont[i].nic_gid, &dev(n, i % 3)->gid, 16);
		assert_ptr_equal(nic_of(&n->r.cont[i]), dev(n, i % 3));
	}
	for (int i = 0; i < 3; i++)
		for (int j = 0; j < i; j++)
			assert_memory_not_equal(&h->nic[i].gid, &h->nic[j].gid, 16);
	assert_string_equal(h->nic[0].name, "fake0:1");
	assert_string_equal(h->nic[1].name, "fake0:2");
	assert_string_equal(h->nic[2].name, "fake1:1");
}

static void the_one_that_fewest_have(void **state)
{
	struct fast_host h = { .num_nics = 3 };
	struct container c[5] = { 0 };

	(void)state;
	assert_int_equal(fast_nic_choose(&h), 0);
	for (int i = 0; i < 5; i++)
		LIST_INSERT_HEAD(&h.containers, &c[i], entry);
	assert_int_equal(fast_nic_choose(&h), 1);
	c[0].nic = 1;
	assert_int_equal(fast_nic_choose(&h), 2);
	c[1].nic = c[2].nic = 2;
	assert_int_equal(fast_nic_choose(&h), 1);
	h.nic[1].is_away = true;
	assert_int_equal(fast_nic_choose(&h), 0);
	h.nic[0].is_away = true;
	assert_int_equal(fast_nic_choose(&h), 2);
	h.nic[2].is_away = true;
	assert_int_equal(fast_nic_choose(&h), 1);
}

static void one_cannot_be_opened(void **state)
{
	struct nic_conf nic = nic_rig_conf;
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct backend be = { .ops = &soft_ops, .carriers = nic_rig_carriers(&nic) };

	(void)state;
	fake_nic_reset();
	nic.next = &second; /* and third: there is no "fake1" */
	assert_null(fast_create(&conf, &be));
	assert_true(fake_nic_is_clean());
}

/* ---- what is made where ------------------------------------------------------------------------------------ */

static void each_by_its_own(void **state)
{
	struct nic_rig *n = *state;
	struct user u[2];

	for (int i = 0; i < 2; i++) {
		struct nic_dev *d = dev(n, i + 1);
		const struct ibv_ah_attr *ah;

		user_open(n, &u[i], i + 1);
		assert_ptr_equal(nic_rig_ib(u[i].qp)->context, d->ctx);
		assert_ptr_equal(((struct nic_mr *)u[i].mr->backend)->ib->context, d->ctx);
		assert_ptr_equal(u[i].s->pd.nic->context, d->ctx);
		ah = &fake_nic.modify[(fake_nic.num_modify - 2) % 64].attr.ah_attr; /* RTR */
		assert_int_equal(ah->port_num, i ? 1 : 2);
	}
	assert_ptr_equal(n->ib->context, dev(n, 0)->ctx);
	for (int i = 0; i < 2; i++) {
		user_send(n, &u[i], 7);
		assert_ptr_equal(fake_nic_send_at((unsigned)i)->qp, nic_rig_ib(u[i].qp));
		fake_nic_sent(nic_rig_ib(u[i].qp), IBV_WC_SUCCESS);
		rig_run(&n->r);
		user_expect(&u[i], 7, IBV_WC_SUCCESS);
	}
	nic_rig_expect_none(n);
	for (int i = 0; i < 2; i++)
		user_close(n, &u[i]);
}

/* One NIC gives a number that a QP of another has: there are two of that number. */
static void numbers_are_each_nics(void **state)
{
	struct nic_rig *n = *state;
	struct user u;

	fake_nic.qpn[fake_nic.qpn_at] = n->qp->qp.qp_num;
	user_open(n, &u, 2);
	assert_int_equal(u.qp->qp.qp_num, n->qp->qp.qp_num);
	user_send(n, &u, 7);
	nic_rig_send(n, 8, 8);
	rig_run(&n->r);
	fake_nic_sent(nic_rig_ib(u.qp), IBV_WC_SUCCESS);
	rig_run(&n->r);
	user_expect(&u, 7, IBV_WC_SUCCESS);
	nic_rig_expect_none(n);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 8, IBV_WC_SUCCESS);
	user_close(n, &u);
}

/* What another NIC has left of a QP that had the number is nobody's. */
static void a_stale_completion(void **state)
{
	struct nic_rig *n = *state;
	struct ibv_wc wc = { .status = IBV_WC_SUCCESS, .opcode = IBV_WC_SEND };
	struct user u;

	user_open(n, &u, 2);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	wc.qp_num = n->qp->qp.qp_num;
	wc.wr_id = fake_nic_send_at(0)->wr_id;
	fake_nic_push(nic_rig_ib(u.qp)->send_cq, &wc);
	rig_run(&n->r);
	nic_rig_expect_none(n);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	user_close(n, &u);
}

/* ---- events, removal -------------------------------------------------------------------------------------- */

static void events(struct nic_rig *n, int i)
{
	CARRIERS_FIRST(ready, n->r.f, &dev(n, i)->ear[NIC_EAR_ASYNC], EPOLLIN);
	nic_rig_work(n);
	rig_run(&n->r);
}

static void a_port_is_its_containers(void **state)
{
	struct nic_rig *n = *state;
	enum ibv_event_type type;
	struct user u;

	user_open(n, &u, 1);
	fake_nic_event_of(dev(n, 1)->ctx, IBV_EVENT_PORT_ERR, NULL, 2);
	events(n, 1);
	nic_rig_expect_no_event(n);
	assert_true(has_event(&u, &type) && type == IBV_EVENT_PORT_ERR);
	/* the other port of the same device */
	fake_nic_event_of(dev(n, 1)->ctx, IBV_EVENT_PORT_ACTIVE, NULL, 1);
	events(n, 1);
	assert_false(has_event(&u, &type));
	fake_nic_event_of(dev(n, 0)->ctx, IBV_EVENT_PORT_ACTIVE, NULL, 1);
	events(n, 0);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ACTIVE, 1);
	assert_false(has_event(&u, &type));
	user_close(n, &u);
}

static void one_goes_and_comes_back(void **state)
{
	struct nic_rig *n = *state;
	enum ibv_event_type type;
	struct user u, again;

	user_open(n, &u, 2);
	user_send(n, &u, 1);
	nic_rig_send(n, 2, 8);
	rig_run(&n->r);
	fake_nic.name[1] = NULL;
	fake_nic_event_of(dev(n, 2)->ctx, IBV_EVENT_DEVICE_FATAL, NULL, 1);
	events(n, 2);
	nic_rig_work(n);
	assert_false(nic_is_up(dev(n, 2)));
	assert_true(n->r.f->host->nic[2].is_away);
	user_expect(&u, 1, IBV_WC_WR_FLUSH_ERR);
	assert_true(has_event(&u, &type) && type == IBV_EVENT_QP_FATAL);
	assert_true(has_event(&u, &type) && type == IBV_EVENT_PORT_ERR);
	assert_null(u.qp->qp.nic);
	assert_null(u.mr->backend);
	assert_null(u.s->pd.nic);

	/* the other goes on */
	nic_rig_expect_no_event(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
	assert_ptr_equal(n->qp->qp.nic->ib, n->ib);
	assert_non_null(n->mr->backend);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	nic_rig_send(n, 3, 8);
	rig_run(&n->r);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 3, IBV_WC_SUCCESS);

	fake_nic.name[1] = "fake1";
	n->r.f->now += SECOND;
	rig_run(&n->r);
	nic_rig_work(n);
	nic_rig_work(n);
	assert_true(nic_is_up(dev(n, 2)));
	assert_false(n->r.f->host->nic[2].is_away);
	assert_true(has_event(&u, &type) && type == IBV_EVENT_PORT_ACTIVE);
	nic_rig_expect_no_event(n);
	user_close(n, &u);
	user_open(n, &again, 2);
	assert_ptr_equal(nic_rig_ib(again.qp)->context, dev(n, 2)->ctx);
	user_close(n, &again);
}

/* The device file of both ports goes. */
static void both_ports_go(void **state)
{
	struct nic_rig *n = *state;

	fake_nic.name[0] = "other";
	for (int i = 0; i < 2; i++)
		fake_nic_event_of(dev(n, i)->ctx, IBV_EVENT_DEVICE_FATAL, NULL, 1);
	events(n, 0);
	events(n, 1);
	nic_rig_work(n);
	assert_false(nic_is_up(dev(n, 0)) || nic_is_up(dev(n, 1)));
	assert_true(nic_is_up(dev(n, 2)));
	fake_nic.name[0] = "fake0";
	n->r.f->now += SECOND;
	rig_run(&n->r);
	nic_rig_work(n);
	nic_rig_work(n);
	assert_true(nic_is_up(dev(n, 0)) && nic_is_up(dev(n, 1)));
}

/* Its address is another one: in its containers' tables only. */
static void another_gid(void **state)
{
	struct nic_rig *n = *state;
	const struct fast_host *h = n->r.f->host;
	union ibv_gid first = h->nic[0].gid;
	enum ibv_event_type type;
	struct user u;

	user_open(n, &u, 2);
	fake_nic.has_gid[3] = false;
	fake_nic_event_of(dev(n, 2)->ctx, IBV_EVENT_GID_CHANGE, NULL, 1);
	events(n, 2);
	assert_int_equal(dev(n, 2)->gid_index, 5);
	assert_memory_equal(&h->nic[2].gid, &dev(n, 2)->gid, 16);
	assert_memory_equal(&h->nic[0].gid, &first, 16);
	nic_rig_expect_no_event(n);
	assert_true(has_event(&u, &type) && type == IBV_EVENT_GID_CHANGE);
	user_close(n, &u);
}

/* ---- between hosts ------------------------------------------------------------------------------------------ */

static struct nic_conf net_b = {
	.name = "fake1", .port = 1, .gid_index = -1, .net = "b", .no_worker = true
};
static struct nic_conf net_a = {
	.name = "fake0", .port = 1, .gid_index = -1, .net = "a", .no_worker = true, .next = &net_b
};

static int hosts_setup_nics(void **state)
{
	static struct hosts t;

	fake_nic_reset();
	fake_nic.name[1] = "fake1";
	rig_carriers = nic_rig_carriers(&net_a);
	hosts_up(&t, IBV_QPT_UD);
	rig_carriers = NULL;
	for (int i = 0; i < 2; i++)
		t.h[i].r.f->host->wired = true;
	hosts_run(&t);
	*state = &t;
	return 0;
}

static int hosts_teardown_nics(void **state)
{
	hosts_down(*state);
	assert_true(fake_nic_is_clean());
	return 0;
}

/* From a container of host 0 to one of host 1. */
static enum nic_path path(struct hosts *t, int from, int to, union ibv_gid *gid)
{
	struct host *h = &t->h[0];
	const struct container *there = &t->h[1].r.cont[to];
	struct session s = { .cont = &h->r.cont[from] };
	struct qp qp = { .o.ses = &s };
	struct ff_ah_attr ah = { .is_global = 1 };
	struct remote *r;

	if (h->remote.id != there->id)
		h->remote.nic = (struct remote_nic){ 0 };
	h->remote.id = there->id;
	h->remote.epoch = there->epoch;
	h->remote.gid[0] = there->gid[0];
	memcpy(ah.dgid, &there->gid[0], 16);
	return nic_path_of(h->r.f, &qp, &ah, gid, &r);
}

static void nics_are_told(void **state)
{
	struct hosts *t = *state;

	for (int i = 0; i < 2; i++) {
		const struct wire_peer *p = &t->h[i].other;
		const struct fast_host *there = t->h[!i].r.f->host;

		assert_true(p->nic_told);
		assert_int_equal(p->num_nics, 2);
		for (int j = 0; j < 2; j++) {
			assert_memory_equal(&p->nic[j].gid, &there->nic[j].gid, 16);
			assert_string_equal(p->nic[j].net, j ? "b" : "a");
			assert_int_equal(p->nic[j].ud_qpn, there->nic[j].ud_qpn);
			assert_int_equal(p->nic[j].ud_qkey, there->nic[j].ud_qkey);
			assert_int_equal(p->nic[j].ud_out, t->h[!i].other.nic_ud_in);
			assert_int_not_equal(p->nic[j].ud_out, 0);
		}
	}
}

static void by_the_nics_of_both(void **state)
{
	struct hosts *t = *state;
	union ibv_gid gid;

	for (int from = 0; from < 2; from++)
		for (int to = 0; to < 4; to++) {
			enum nic_path want = from == to % 2 ? PATH_NIC : PATH_SOFT;

			t->h[0].remote.id = 0;
			assert_int_equal(path(t, from, to, &gid), PATH_UNKNOWN); /* asked */
			hosts_run(t);
			assert_int_equal(path(t, from, to, &gid), want);
			if (want == PATH_NIC)
				assert_memory_equal(&gid, &t->h[1].r.f->host->nic[to % 2].gid, 16);
		}
}

/* A worker makes the address handle: until there is one, the wire takes datagrams. */
static bool datagram(struct hosts *t, int from)
{
	static const uint8_t data[SOFT_GRH_SZ + 8];
	struct wire_hdr h = { .type = WIRE_UD, .len = sizeof(data) };
	struct host *host = &t->h[0];

	for (int i = 0; i < 300; i++) {
		if (nic_ud_tunnel_send(&host->r.cont[from], &host->other, &h, data))
			return true;
		usleep(1000);
		CARRIERS_DO(work, host->r.f, false);
	}
	return false;
}

/* From the sender's NIC to the first of that network. */
static void datagrams_between_hosts(void **state)
{
	struct hosts *t = *state;
	struct wire_peer *p = &t->h[0].other;

	for (int i = 0; i < 2; i++) {
		const struct nic_dev *d = t->h[0].r.f->host->nic[i].dev;
		const struct fake_nic_wr *w;

		assert_true(datagram(t, i));
		w = fake_nic_send_at((unsigned)i);
		assert_ptr_equal(w->qp, d->ud_tunnel.ib);
		assert_int_equal(w->send.wr.ud.remote_qpn, p->nic[i].ud_qpn);
		assert_int_equal(w->send.wr.ud.remote_qkey, p->nic[i].ud_qkey);
		assert_memory_equal(&fake_nic_ah(w->send.wr.ud.ah)->grh.dgid, &p->nic[i].gid, 16);
	}
	p->nic[0].net[0] = '\0';
	assert_false(datagram(t, 0));
	strcpy(p->nic[0].net, "b");
	assert_true(datagram(t, 1)); /* it is the first in that, now */
	assert_int_equal(fake_nic_send_at(2)->send.wr.ud.remote_qpn, p->nic[0].ud_qpn);
	assert_false(datagram(t, 2));
}

/* What was heard is of that container and that connection. */
static void what_is_known_gets_old(void **state)
{
	struct hosts *t = *state;
	union ibv_gid gid;

	path(t, 0, 2, &gid);
	hosts_run(t);
	assert_int_equal(path(t, 0, 2, &gid), PATH_NIC);
	t->h[1].r.cont[2].nic = 1; /* the operator says so */
	wire_tell_nic_of(t->h[1].r.f, &t->h[1].r.cont[2]);
	hosts_run(t);
	assert_int_equal(path(t, 0, 2, &gid), PATH_SOFT);
	t->h[1].r.cont[2].epoch++;
	assert_int_equal(path(t, 0, 2, &gid), PATH_UNKNOWN);
	t->h[0].r.f->now += SECOND; /* a frame is sent again after some time only */
	assert_int_equal(path(t, 0, 2, &gid), PATH_UNKNOWN);
	hosts_run(t);
	assert_int_equal(path(t, 0, 2, &gid), PATH_SOFT);
	assert_int_equal(path(t, 1, 2, &gid), PATH_NIC);
	t->h[0].other.generation++;
	assert_int_equal(path(t, 1, 2, &gid), PATH_UNKNOWN);
	t->h[1].r.cont[2].nic = 0;
}

/* A frame of the peer's that makes no sense changes nothing. */
static void odd_frames(void **state)
{
	static const struct wire_hdr odd[] = {
		{ .type = WIRE_NIC, .code = 0, .msn = 3 },
		{ .type = WIRE_NIC, .code = 2, .msn = 2 },
		{ .type = WIRE_NIC, .code = 255, .msn = 2 },
		{ .type = WIRE_NIC, .code = 0, .msn = 0 },
		{ .type = WIRE_NIC, .code = 8, .msn = 9 },
		{ .type = WIRE_NIC_OF, .src_cont = 20, .src_epoch = 1, .msn = 2 },
		{ .type = WIRE_NIC_OF, .src_cont = 20, .src_epoch = 2, .msn = 1 },
		{ .type = WIRE_NIC_OF, .src_cont = 99, .src_epoch = 1, .msn = 1 },
		{ .type = WIRE_NIC_ASK, .dst_cont = 99, .dst_epoch = 1 },
		{ .type = WIRE_NIC_ASK, .dst_cont = 10, .dst_epoch = 9 },
	};
	struct hosts *t = *state;
	struct wire_peer was = t->h[0].other;
	union ibv_gid gid;

	path(t, 0, 0, &gid);
	hosts_run(t);
	for (size_t i = 0; i < ARRAY_SIZE(odd); i++)
		assert_int_equal(wire_send(t->h[1].r.f, &t->h[1].other, &odd[i], NULL), 0);
	hosts_run(t);
	assert_non_null(t->h[0].other.tcp);
	assert_true(t->h[0].other.nic_told);
	assert_int_equal(t->h[0].other.num_nics, 2);
	assert_memory_equal(t->h[0].other.nic, was.nic, sizeof(was.nic));
	assert_int_equal(path(t, 0, 0, &gid), PATH_NIC);
}

/* Its network is the container's no more; that of the other is. */
static void one_of_a_hosts_goes(void **state)
{
	struct hosts *t = *state;
	struct host *h = &t->h[1];
	union ibv_gid gid;

	path(t, 1, 1, &gid);
	hosts_run(t);
	assert_int_equal(path(t, 1, 1, &gid), PATH_NIC);
	fast_lock(h->r.f->host);
	nic_lose(h->r.f->host->nic[1].dev);
	fast_unlock(h->r.f->host);
	nic_carrier.work(h->r.f, false);
	hosts_run(t);
	assert_string_equal(t->h[0].other.nic[0].net, "a");
	assert_string_equal(t->h[0].other.nic[1].net, "");
	assert_int_equal(path(t, 1, 1, &gid), PATH_SOFT);
	path(t, 0, 0, &gid);
	hosts_run(t);
	assert_int_equal(path(t, 0, 0, &gid), PATH_NIC);
}

#define TEST(name)  cmocka_unit_test_setup_teardown(name, setup, nic_rig_teardown)
#define HOSTS(name) cmocka_unit_test_setup_teardown(name, hosts_setup_nics, hosts_teardown_nics)

int main(void)
{
	return UNIT_RUN(TEST(containers_are_spread), cmocka_unit_test(the_one_that_fewest_have),
			cmocka_unit_test(one_cannot_be_opened), TEST(each_by_its_own),
			TEST(numbers_are_each_nics), TEST(a_stale_completion),
			TEST(a_port_is_its_containers), TEST(one_goes_and_comes_back),
			TEST(both_ports_go), TEST(another_gid), HOSTS(nics_are_told),
			HOSTS(by_the_nics_of_both), HOSTS(datagrams_between_hosts),
			HOSTS(what_is_known_gets_old), HOSTS(odd_frames),
			HOSTS(one_of_a_hosts_goes));
}
