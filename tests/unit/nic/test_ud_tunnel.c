/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/nic_rig.c tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/rig.c */
/*
 * test_ud_tunnel.c - datagrams between containers of two hosts by the routers' own UD QPs: what goes that way and what by
 * the wire, who is believed, and a NIC that fails. What the NIC of host 0 gets the test brings to host 1's.
 */
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffr/nic/nic.h"
#include "tests/rig/fakes/fake_nic.h"
#include "tests/rig/unit/nic_rig.h"
#include "tests/rig/unit/two_hosts.h"

struct t {
	struct hosts t;
	struct ah ah;
	unsigned taken; /* of what the NIC of host 0 has got */
};

static struct nic_conf conf = {
	.name = "fake0", .port = 1, .gid_index = -1, .net = "fabric", .no_worker = true
};

static struct nic_ud_tunnel *tunnel(struct t *u, int host)
{
	return &nic_first(u->t.h[host].r.f)->ud_tunnel;
}

static int setup(void **state)
{
	static struct t u;
	struct rig_ses *s;

	fake_nic_reset();
	memset(&u, 0, sizeof(u));
	rig_carriers = nic_rig_carriers(&conf);
	hosts_up(&u.t, IBV_QPT_UD);
	rig_carriers = NULL;
	hosts_run(&u.t);
	s = u.t.h[0].s;
	u.ah = (struct ah){ .o = { .kind = OBJ_AH, .ses = &s->s }, .pd = &s->pd };
	u.ah.attr.is_global = 1;
	u.ah.attr.hop_limit = 5;
	memcpy(u.ah.attr.dgid, u.t.h[1].r.cont[0].gid[0].raw, 16);
	assert_int_equal(obj_insert(&s->s.tab[OBJ_AH], &u.ah.o), 0);
	*state = &u;
	return 0;
}

static int teardown(void **state)
{
	struct t *u = *state;

	obj_remove(&u->t.h[0].s->s.tab[OBJ_AH], &u->ah.o);
	hosts_down(&u->t);
	assert_true(fake_nic_is_clean());
	return 0;
}
#define TUNNEL_TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

static void send_one(struct t *u, uint64_t id, uint32_t len)
{
	struct host *h = &u->t.h[0];
	struct ff_sqe *e = rig_sqe(h->qp, FF_OP_SEND_IMM, id);

	rig_sge(e, h->mr, hosts_at(&u->t, 0, 0), len);
	e->imm = 77;
	e->ud.ah = u->ah.o.handle;
	e->ud.remote_qpn = u->t.h[1].qp->qp.qp_num;
	e->ud.remote_qkey = 0x1111;
	rig_post(&h->r, h->qp);
	hosts_run(&u->t);
	hosts_expect(&u->t, 0, id, IBV_WC_SUCCESS);
}

/* The last WR that host 0's NIC has got comes to host 1, after what change() does to it. */
static void bring(struct t *u, void (*change)(uint8_t *data, uint32_t *len))
{
	const struct fake_nic_wr *w = fake_nic_send_at(fake_nic_num_sends() - 1);
	struct ibv_wc wc = { .opcode = IBV_WC_RECV, .src_qp = 5, .wc_flags = IBV_WC_GRH };
	uint8_t buf[40 + 2048] = { 0 };
	uint32_t len = w->sge[0].length;

	assert_ptr_equal(w->qp, tunnel(u, 0)->ib);
	assert_int_equal(w->send.wr.ud.remote_qpn, tunnel(u, 1)->ib->qp_num);
	assert_int_equal(w->send.wr.ud.remote_qkey, u->t.h[1].r.f->host->nic[0].ud_qkey);
	assert_in_range(len, 0, sizeof(w->data));
	memcpy(buf + 40, w->data, len);
	if (change)
		change(buf + 40, &len);
	fake_nic_datagram(tunnel(u, 1)->ib, buf, 40 + len, &wc);
	if (fake_nic_sends(tunnel(u, 0)->ib))
		fake_nic_sent(tunnel(u, 0)->ib, IBV_WC_SUCCESS);
	hosts_run(&u->t);
}

static void work(struct t *u, int host)
{
	nic_carrier.work(u->t.h[host].r.f, false);
}

/* As long as there is no address handle they go by the wire. */
static void warm_up(struct t *u)
{
	uint64_t id = 1000;

	while (!fake_nic_num_sends()) {
		hosts_recv(&u->t, id, 0, 200);
		send_one(u, id, 8);
		if (!fake_nic_num_sends())
			hosts_expect(&u->t, 1, id, IBV_WC_SUCCESS);
		sched_yield();
		work(u, 0);
		id++;
	}
	bring(u, NULL);
	hosts_expect(&u->t, 1, id - 1, IBV_WC_SUCCESS);
}

/* ---- which way -------------------------------------------------------------------------------------------- */

static void what_both_are_told(void **state)
{
	struct t *u = *state;

	for (int i = 0; i < 2; i++) {
		const struct wire_peer *here = &u->t.h[i].other, *there = &u->t.h[!i].other;

		assert_int_equal(here->nic[0].ud_qpn, tunnel(u, !i)->ib->qp_num);
		assert_int_equal(here->nic[0].ud_qkey, u->t.h[!i].r.f->host->nic[0].ud_qkey);
		assert_false(here->nic[0].ud_qkey & 0x80000000u);
		assert_int_equal(here->nic[0].ud_out, there->nic_ud_in);
		assert_int_not_equal(here->nic[0].ud_out, 0);
	}
	assert_int_not_equal(u->t.h[0].other.nic_ud_in, u->t.h[1].other.nic_ud_in);
	assert_int_equal(fake_nic_state(tunnel(u, 0)->ib), IBV_QPS_RTS);
	assert_int_equal(fake_nic_recvs(tunnel(u, 0)->ib), 256);
}

static void by_the_nic(void **state)
{
	struct t *u = *state;
	struct ff_cqe c;

	warm_up(u);
	for (uint64_t i = 0; i < 10; i++) {
		memset(u->t.h[0].buf, (int)i, 500);
		hosts_recv(&u->t, i, 4096, 600);
		send_one(u, i, 500);
		assert_false(rig_poll(u->t.h[1].cq, &c)); /* the wire has not had it */
		bring(u, NULL);
		assert_true(rig_poll(u->t.h[1].cq, &c));
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.byte_len, 540);
		assert_int_equal(c.imm, 77);
		assert_int_equal(c.src_qp, u->t.h[0].qp->qp.qp_num);
		for (int k = 0; k < 500; k++)
			assert_int_equal(u->t.h[1].buf[4096 + 40 + k], i);
		/* the GRH is between the containers: an IPv4 one */
		assert_int_equal(u->t.h[1].buf[4096 + 20], 0x45);
		assert_memory_equal(u->t.h[1].buf + 4096 + 32, u->t.h[0].r.cont[0].gid[0].raw + 12,
				    4);
		assert_memory_equal(u->t.h[1].buf + 4096 + 36, u->t.h[1].r.cont[0].gid[0].raw + 12,
				    4);
	}
	assert_int_equal(fake_nic.calls[FAKE_create_ah], 1);
	assert_int_equal(fake_nic_recvs(tunnel(u, 1)->ib), 256);
}

/* By the wire it comes at once. */
static void wire_has(struct t *u, uint64_t id, uint32_t len)
{
	unsigned n = fake_nic_num_sends();

	hosts_recv(&u->t, id, 0, len + 40);
	send_one(u, id, len);
	hosts_expect(&u->t, 1, id, IBV_WC_SUCCESS);
	assert_int_equal(fake_nic_num_sends(), n);
}

static void what_does_not_fit(void **state)
{
	struct t *u = *state;

	warm_up(u);
	wire_has(u, 1, 2048 - 40 - 88 + 1);
	wire_has(u, 2, 4096);
	send_one(u, 3, 2048 - 40 - 88);
	assert_int_equal(fake_nic_num_sends(), 2);
}

static void a_full_window(void **state)
{
	struct t *u = *state;

	warm_up(u);
	for (uint64_t i = 0; i < 64; i++)
		send_one(u, i, 8);
	assert_int_equal(fake_nic_sends(tunnel(u, 0)->ib), 64);
	wire_has(u, 100, 8);
	fake_nic_sent(tunnel(u, 0)->ib, IBV_WC_SUCCESS);
	hosts_run(&u->t);
	send_one(u, 101, 8);
	assert_int_equal(fake_nic_sends(tunnel(u, 0)->ib), 64);
}

/* A host without, a router that knows of none, another network. */
static void whom_the_wire_is_for(void **state)
{
	struct t *u = *state;
	struct wire_peer *p = &u->t.h[0].other;
	const struct wire_peer as_it_was = *p;

	warm_up(u);
	p->nic[0].ud_qpn = 0;
	wire_has(u, 1, 8);
	p->nic[0].ud_qpn = as_it_was.nic[0].ud_qpn;
	p->nic[0].ud_out = 0;
	wire_has(u, 2, 8);
	p->nic[0].ud_out = as_it_was.nic[0].ud_out;
	strcpy(p->nic[0].net, "other");
	wire_has(u, 3, 8);
	strcpy(p->nic[0].net, as_it_was.nic[0].net);
	hosts_recv(&u->t, 4, 0, 200);
	send_one(u, 4, 8);
	bring(u, NULL);
	hosts_expect(&u->t, 1, 4, IBV_WC_SUCCESS);
}

/* Another connection: another number. */
static void a_new_connection(void **state)
{
	struct t *u = *state;
	uint64_t old = u->t.h[0].other.nic[0].ud_out;
	unsigned n;

	warm_up(u);
	n = fake_nic_num_sends();
	hosts_cut(&u->t);
	hosts_connect(&u->t);
	hosts_run(&u->t);
	assert_int_not_equal(u->t.h[0].other.nic[0].ud_out, old);
	hosts_recv(&u->t, 1, 0, 200);
	send_one(u, 1, 8);
	assert_int_equal(fake_nic_num_sends(), n + 1);
	bring(u, NULL);
	hosts_expect(&u->t, 1, 1, IBV_WC_SUCCESS);
}

/* ---- who is believed ---------------------------------------------------------------------------------------- */

static void no_number(uint8_t *data, uint32_t *len)
{
	(void)len;
	memset(data, 0, 8);
}

static void wrong_number(uint8_t *data, uint32_t *len)
{
	(void)len;
	data[3] ^= 1;
}

static void wrong_type(uint8_t *data, uint32_t *len)
{
	(void)len;
	data[8 + offsetof(struct wire_hdr, type)] = WIRE_REQ;
}

static void too_short(uint8_t *data, uint32_t *len)
{
	(void)data;
	*len = 87;
}

static void longer_than_it_says(uint8_t *data, uint32_t *len)
{
	(void)data;
	++*len;
}

static void shorter_than_it_says(uint8_t *data, uint32_t *len)
{
	(void)data;
	--*len;
}

static void lies_about_its_length(uint8_t *data, uint32_t *len)
{
	(void)len;
	memset(data + 8 + offsetof(struct wire_hdr, len), 0xff, 4);
}

static void nothing(uint8_t *data, uint32_t *len)
{
	(void)data;
	*len = 0;
}

static void another_container(uint8_t *data, uint32_t *len)
{
	(void)len;
	data[8 + offsetof(struct wire_hdr, src_cont)] ^= 1;
}

static void not_that_containers_qp(uint8_t *data, uint32_t *len)
{
	(void)len;
	data[8 + offsetof(struct wire_hdr, dst_cont)] ^= 1;
}

static void another_epoch(uint8_t *data, uint32_t *len)
{
	(void)len;
	data[8 + offsetof(struct wire_hdr, src_epoch)] ^= 1;
}

static void wrong_qkey(uint8_t *data, uint32_t *len)
{
	(void)len;
	data[8 + offsetof(struct wire_hdr, ud.qkey)] ^= 1;
}

static void rubbish(void **state)
{
	static void (*const change[])(uint8_t * data, uint32_t * len) = {
		no_number,
		wrong_number,
		wrong_type,
		too_short,
		longer_than_it_says,
		shorter_than_it_says,
		lies_about_its_length,
		nothing,
		another_container,
		not_that_containers_qp,
		another_epoch,
		wrong_qkey,
	};
	struct t *u = *state;

	warm_up(u);
	hosts_recv(&u->t, 1, 0, 500);
	for (unsigned i = 0; i < sizeof(change) / sizeof(change[0]); i++) {
		send_one(u, i, 100);
		bring(u, change[i]);
		hosts_expect_none(&u->t, 1);
		assert_int_equal(fake_nic_recvs(tunnel(u, 1)->ib), 256);
	}
	send_one(u, 99, 100);
	bring(u, NULL);
	hosts_expect(&u->t, 1, 1, IBV_WC_SUCCESS);
}

/* ---- a NIC that fails ---------------------------------------------------------------------------------------- */

/* What it refuses goes by the wire, and the QP is made anew. */
static void it_refuses_one(void **state)
{
	struct t *u = *state;

	warm_up(u);
	fake_nic_fail(FAKE_post_send, 1, ENOMEM);
	wire_has(u, 1, 8);
	wire_has(u, 2, 8);
	/* the first time that does not succeed either */
	fake_nic_fail(FAKE_modify_qp, 2, EINVAL);
	work(u, 0);
	wire_has(u, 3, 8);
	work(u, 0);
	assert_int_equal(fake_nic_state(tunnel(u, 0)->ib), IBV_QPS_RTS);
	assert_int_equal(fake_nic_recvs(tunnel(u, 0)->ib), 256);
	hosts_recv(&u->t, 4, 0, 200);
	send_one(u, 4, 8);
	bring(u, NULL);
	hosts_expect(&u->t, 1, 4, IBV_WC_SUCCESS);
}

static void what_ends_in_error(void **state)
{
	struct t *u = *state;

	warm_up(u);
	send_one(u, 1, 8);
	fake_nic_sent(tunnel(u, 0)->ib, IBV_WC_LOC_QP_OP_ERR);
	fake_nic_received(tunnel(u, 1)->ib, IBV_WC_LOC_PROT_ERR, 0, NULL);
	hosts_run(&u->t);
	for (int i = 0; i < 2; i++) {
		assert_int_not_equal(tunnel(u, i)->state, TUNNEL_UP);
		work(u, i);
		assert_int_equal(tunnel(u, i)->state, TUNNEL_UP);
		assert_int_equal(fake_nic_recvs(tunnel(u, i)->ib), 256);
	}
	hosts_recv(&u->t, 4, 0, 200);
	send_one(u, 4, 8);
	bring(u, NULL);
	hosts_expect(&u->t, 1, 4, IBV_WC_SUCCESS);
	/* a receive that it does not take again */
	fake_nic_fail(FAKE_post_recv, 1, EIO);
	send_one(u, 5, 8);
	bring(u, NULL);
	assert_int_not_equal(tunnel(u, 1)->state, TUNNEL_UP);
	work(u, 1);
	assert_int_equal(fake_nic_recvs(tunnel(u, 1)->ib), 256);
}

/* Host 0's, or the other one's, and all that follows. */
static void lose(struct t *u, int host)
{
	struct fast *f = u->t.h[host].r.f;

	fast_lock(f->host);
	nic_lose(nic_first(f));
	fast_unlock(f->host);
	while (nic_first(f)->ctx) {
		sched_yield();
		work(u, host); /* a handle may be under way */
	}
	work(u, host);
	hosts_run(&u->t);
}

/* The next of those calls fails, when it has been opened. */
static void return_with(struct t *u, int host, enum fake_nic_call call)
{
	hosts_advance(&u->t, 1000000000);
	work(u, host);
	if (call != FAKE_CALLS)
		fake_nic_fail(call, 1, EIO);
	work(u, host);
	hosts_run(&u->t);
	assert_true(nic_is_up(nic_first(u->t.h[host].r.f)));
}

static void return_it(struct t *u, int host)
{
	return_with(u, host, FAKE_CALLS);
}

/* Both hosts' NICs are removed, one after the other: the wire has all. They are back: both are told of other QPs. */
static void it_goes_and_comes(void **state)
{
	struct t *u = *state;
	uint64_t id = 10;

	warm_up(u);
	send_one(u, 1, 8); /* with the NIC */
	for (int i = 0; i < 2; i++) {
		uint64_t number = u->t.h[!i].other.nic[0].ud_out;

		lose(u, i);
		assert_null(tunnel(u, i)->ib);
		assert_int_equal(u->t.h[!i].other.nic[0].ud_qpn, 0);
		assert_int_equal(u->t.h[!i].other.nic[0].ud_out, 0);
		assert_int_equal(u->t.h[i].other.nic_ud_in, 0);
		wire_has(u, id++, 8);
		return_it(u, i);
		assert_int_equal(u->t.h[!i].other.nic[0].ud_qpn, tunnel(u, i)->ib->qp_num);
		assert_int_equal(u->t.h[!i].other.nic[0].ud_qkey,
				 u->t.h[i].r.f->host->nic[0].ud_qkey);
		assert_int_equal(u->t.h[!i].other.nic[0].ud_out, u->t.h[i].other.nic_ud_in);
		assert_int_not_equal(u->t.h[!i].other.nic[0].ud_out, number);
		assert_int_equal(fake_nic_recvs(tunnel(u, i)->ib), 256);
	}
	for (unsigned n = fake_nic_num_sends(); fake_nic_num_sends() == n; id++) {
		hosts_recv(&u->t, id, 0, 200);
		send_one(u, id, 8);
		if (fake_nic_num_sends() == n)
			hosts_expect(&u->t, 1, id, IBV_WC_SUCCESS);
		sched_yield();
		work(u, 0);
	}
	bring(u, NULL);
	hosts_expect(&u->t, 1, id - 1, IBV_WC_SUCCESS);
}

/* Without the QP the NIC is used all the same. */
static void it_cannot_be_made_again(void **state)
{
	static const enum fake_nic_call call[] = { FAKE_reg_mr_iova2, FAKE_create_qp,
						   FAKE_modify_qp, FAKE_post_recv };
	struct t *u = *state;
	uint64_t id = 10;

	for (unsigned i = 0; i < sizeof(call) / sizeof(call[0]); i++) {
		lose(u, 0);
		return_with(u, 0, call[i]);
		assert_null(tunnel(u, 0)->ib);
		assert_int_equal(u->t.h[0].r.f->host->nic[0].ud_qpn, 0);
		assert_string_equal(u->t.h[1].other.nic[0].net, "fabric");
		assert_int_equal(u->t.h[1].other.nic[0].ud_qpn, 0);
		wire_has(u, id++, 8);
	}
}

/* Its CQ has overrun: peers do not send to it any more, and it is not brought up again by this NIC. */
static void its_cq_fails(void **state)
{
	struct t *u = *state;
	struct fast *f = u->t.h[1].r.f;

	warm_up(u);
	fake_nic_event(IBV_EVENT_CQ_ERR, tunnel(u, 1)->cq->cq);
	CARRIERS_FIRST(ready, f, &nic_first(f)->ear[NIC_EAR_ASYNC], EPOLLIN);
	hosts_run(&u->t);
	work(u, 1);
	assert_int_not_equal(tunnel(u, 1)->state, TUNNEL_UP);
	assert_int_equal(u->t.h[0].other.nic[0].ud_qpn, 0);
	wire_has(u, 1, 8);
	lose(u, 1);
	return_it(u, 1);
	assert_int_equal(tunnel(u, 1)->state, TUNNEL_UP);
}

/* The router does not start, and says why; nothing is left. */
static void what_fails_at_the_start(void **state)
{
	static const struct {
		enum fake_nic_call call;
		unsigned nth;
	} cases[] = {
		{ FAKE_alloc_pd, 1 },  { FAKE_reg_mr_iova2, 1 }, { FAKE_create_qp, 1 },
		{ FAKE_modify_qp, 1 }, { FAKE_modify_qp, 3 },	 { FAKE_post_recv, 7 },
	};

	(void)state;
	for (unsigned i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct fast_conf fc = FAST_CONF_DEFAULT;
		struct backend be = { .ops = &soft_ops, .carriers = nic_rig_carriers(&conf) };
		struct fast_host *host;

		fake_nic_reset();
		host = fast_create(&fc, &be);
		assert_non_null(host);
		/* probes are over: the next calls are the tunnel's */
		fake_nic_fail(cases[i].call, cases[i].nth, ENOMEM);
		assert_int_not_equal(CARRIERS_FIRST(start, be.f), 0);
		fast_free(host);
		assert_true(fake_nic_is_clean());
	}
}

int main(void)
{
	return UNIT_RUN(TUNNEL_TEST(what_both_are_told), TUNNEL_TEST(by_the_nic),
			TUNNEL_TEST(what_does_not_fit), TUNNEL_TEST(a_full_window),
			TUNNEL_TEST(whom_the_wire_is_for), TUNNEL_TEST(a_new_connection),
			TUNNEL_TEST(rubbish), TUNNEL_TEST(it_refuses_one),
			TUNNEL_TEST(what_ends_in_error), TUNNEL_TEST(it_goes_and_comes),
			TUNNEL_TEST(it_cannot_be_made_again), TUNNEL_TEST(its_cq_fails),
			cmocka_unit_test(what_fails_at_the_start));
}
