/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/two_hosts.c tests/rig/unit/others.c tests/rig/unit/rig.c tests/rig/fakes/fake_pvm.c */
/*
 * test_ud.c - datagrams between hosts: to a QP, to a group, from somebody who is not known yet,
 * and what a router that lies achieves with them.
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/fakes/fake_pvm.h"
#include "tests/rig/unit/two_hosts.h"

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 7 } };

struct ud {
	struct hosts t;
	struct ah ah, mc;
};

static void ah_add(struct ud *u, struct ah *ah, const union ibv_gid *gid, bool mcast)
{
	struct rig_ses *s = u->t.h[0].s;

	memset(ah, 0, sizeof(*ah));
	ah->o.kind = OBJ_AH;
	ah->o.ses = &s->s;
	ah->pd = &s->pd;
	ah->mcast = mcast;
	ah->attr.is_global = 1;
	ah->attr.hop_limit = 5;
	memcpy(ah->attr.dgid, gid->raw, 16);
	assert_int_equal(obj_insert(&s->s.tab[OBJ_AH], &ah->o), 0);
}

static void ud_up(struct ud *u)
{
	hosts_up(&u->t, IBV_QPT_UD);
	ah_add(u, &u->ah, &u->t.h[1].r.cont[0].gid[0], false);
	ah_add(u, &u->mc, &group, true);
}

static void ud_down(struct ud *u)
{
	struct obj_table *t = &u->t.h[0].s->s.tab[OBJ_AH];

	obj_remove(t, &u->ah.o);
	obj_remove(t, &u->mc.o);
	hosts_down(&u->t);
}

static int setup(void **state)
{
	*state = malloc(sizeof(struct ud));
	ud_up(*state);
	return 0;
}

static int teardown(void **state)
{
	ud_down(*state);
	free(*state);
	return 0;
}
#define UD_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

static void post(struct ud *u, struct ah *ah, uint64_t id, uint32_t qpn, uint32_t qkey,
		 uint32_t len)
{
	struct host *h = &u->t.h[0];
	struct ff_sqe *e = rig_sqe(h->qp, FF_OP_SEND_IMM, id);

	rig_sge(e, h->mr, hosts_at(&u->t, 0, 0), len);
	e->imm = 77;
	e->ud.ah = ah->o.handle;
	e->ud.remote_qpn = qpn;
	e->ud.remote_qkey = qkey;
	rig_post(&h->r, h->qp);
}

/* Host i does not know where the other's address is; the epoch that it knew. */
static uint32_t forgets(struct hosts *t, int i)
{
	uint32_t epoch = t->h[i].remote.epoch;

	t->h[i].remote.epoch = 0;
	return epoch;
}

static void learns(struct hosts *t, int i, uint32_t epoch)
{
	t->h[i].remote.epoch = epoch;
	remote_changed(t->h[i].r.f, &t->h[i].remote);
}

static void one(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;
	struct ff_cqe c;

	memset(t->h[0].buf, 0x5a, 4096);
	hosts_recv(t, 1, 0, 5000);
	post(u, &u->ah, 2, t->h[1].qp->qp.qp_num, 0x1111, 4096);
	hosts_run(t);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	assert_true(rig_poll(t->h[1].cq, &c));
	assert_int_equal(c.wr_id, 1);
	assert_int_equal(c.status, IBV_WC_SUCCESS);
	assert_int_equal(c.byte_len, 4096 + 40);
	assert_int_equal(c.src_qp, t->h[0].qp->qp.qp_num);
	assert_int_equal(c.slid, t->h[0].r.cont[0].lid);
	assert_int_equal(c.imm, 77);
	assert_int_equal(c.flags, FF_CQE_GRH | FF_CQE_IMM);
	assert_int_equal(c.sl, 0xa);
	assert_int_equal(t->h[1].buf[20], 0x45);
	assert_memory_equal(t->h[1].buf + 32, t->h[0].r.cont[0].gid[0].raw + 12, 4);
	assert_memory_equal(t->h[1].buf + 36, t->h[1].r.cont[0].gid[0].raw + 12, 4);
	assert_memory_equal(t->h[1].buf + 40, t->h[0].buf, 4096);
	/* another Q_Key, another QP number, no receive: lost, and the sender never hears of it */
	post(u, &u->ah, 3, t->h[1].qp->qp.qp_num, 0x2222, 10);
	post(u, &u->ah, 4, t->h[1].qp->qp.qp_num + 1, 0x1111, 10);
	post(u, &u->ah, 5, t->h[1].qp->qp.qp_num, 0x1111, 10);
	hosts_run(t);
	for (uint64_t id = 3; id <= 5; id++)
		hosts_expect(t, 0, id, IBV_WC_SUCCESS);
	hosts_expect_none(t, 1);
}

/* What comes from another host is charged to its receiver's limit, and lost above it. */
static void limited_receiver(void **state)
{
	struct ffo_limits rx = { .rx_ops = 100 };
	struct ud *u = *state;
	struct hosts *t = &u->t;
	unsigned got = 0;
	struct ff_cqe c;

	fast_container_limits(&t->h[1].r.cont[0], &rx);
	for (uint64_t i = 0; i < 15; i++) {
		hosts_recv(t, i, 0, 100);
		post(u, &u->ah, i, t->h[1].qp->qp.qp_num, 0x1111, 8);
	}
	hosts_run(t);
	while (rig_poll(t->h[1].cq, &c))
		got++;
	assert_in_range(got, 1, 14);
	assert_int_equal(t->h[1].qp->qp.stats.ud_drops, 15 - got);
	hosts_advance(t, 1000 * NS_PER_MS);
	post(u, &u->ah, 20, t->h[1].qp->qp.qp_num, 0x1111, 8);
	hosts_run(t);
	assert_true(rig_poll(t->h[1].cq, &c));
}

/* What nobody is ever known to have sent makes room after a while. */
static void sender_that_stays_unknown(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;
	const struct soft_dev *dev = t->h[1].r.be.priv;
	uint32_t epoch = forgets(t, 1);

	for (uint64_t i = 0; i < 3; i++)
		post(u, &u->ah, i, t->h[1].qp->qp.qp_num, 0x1111, 8);
	hosts_run(t);
	assert_int_equal(dev->num_held, 3);
	hosts_advance(t, 2100 * NS_PER_MS);
	post(u, &u->ah, 3, t->h[1].qp->qp.qp_num, 0x1111, 8);
	hosts_run(t);
	assert_int_equal(dev->num_held, 1);
	hosts_recv(t, 1, 0, 100);
	learns(t, 1, epoch);
	hosts_run(t);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS);
	hosts_expect_none(t, 1);
	assert_int_equal(dev->num_held, 0);
}

/* The receiver's router does not know the sender, and then does. */
static void unknown_sender(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;
	uint32_t epoch = forgets(t, 1);

	for (uint64_t i = 0; i < 3; i++)
		hosts_recv(t, i, 100 * i, 100);
	for (uint64_t i = 0; i < 3; i++)
		post(u, &u->ah, 10 + i, t->h[1].qp->qp.qp_num, 0x1111, 1 + (uint32_t)i);
	hosts_run(t);
	hosts_expect_none(t, 1);
	learns(t, 1, epoch);
	/* whoever brings the news has no time for memory that may be slow */
	hosts_expect_none(t, 1);
	hosts_run(t);
	for (uint64_t i = 0; i < 3; i++) {
		struct ff_cqe c;

		assert_true(rig_poll(t->h[1].cq, &c));
		assert_int_equal(c.wr_id, i);
		assert_int_equal(c.byte_len, 41 + i); /* in order */
	}
	/* it turns out to be somebody of another epoch */
	t->h[1].remote.epoch = 0;
	hosts_recv(t, 9, 0, 100);
	post(u, &u->ah, 20, t->h[1].qp->qp.qp_num, 0x1111, 1);
	hosts_run(t);
	learns(t, 1, epoch + 1);
	hosts_run(t);
	hosts_expect_none(t, 1);
}

/* Nobody has the address yet: the datagram waits for a while. */
static void unknown_receiver(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;
	uint32_t epoch = forgets(t, 0);

	hosts_recv(t, 1, 0, 100);
	post(u, &u->ah, 2, t->h[1].qp->qp.qp_num, 0x1111, 8);
	hosts_run(t);
	hosts_expect_none(t, 0);
	learns(t, 0, epoch);
	hosts_run(t);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS);
	/* not for ever */
	t->h[0].remote.epoch = 0;
	post(u, &u->ah, 3, t->h[1].qp->qp.qp_num, 0x1111, 8);
	hosts_run(t);
	hosts_expect_none(t, 0);
	hosts_advance(t, 501 * NS_PER_MS);
	hosts_expect(t, 0, 3, IBV_WC_SUCCESS);
	t->h[0].remote.epoch = epoch;
}

static void denied(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;

	hosts_recv(t, 1, 0, 100);
	/* the sender's router lets it through; the receiver's does not */
	t->h[1].o.is_denied = true;
	post(u, &u->ah, 2, t->h[1].qp->qp.qp_num, 0x1111, 8);
	hosts_run(t);
	hosts_expect(t, 0, 2, IBV_WC_SUCCESS);
	hosts_expect_none(t, 1);
}

/* Members on both hosts; each gets one copy. */
static void groups(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;
	struct ff_cqe c;

	for (int i = 0; i < 2; i++)
		assert_int_equal(mcast_attach(t->h[i].r.f, &t->h[i].qp->qp, &group, 0), 0);
	memset(t->h[0].buf, 0x77, 500);
	rig_recv(&t->h[0].r, t->h[0].qp, 1, t->h[0].mr, hosts_at(t, 0, 10000), 1000);
	hosts_recv(t, 2, 0, 1000);
	post(u, &u->mc, 3, 0xffffff, 0x1111, 500);
	hosts_run(t);
	assert_true(rig_poll(t->h[0].cq, &c));
	assert_int_equal(c.wr_id, 1);
	hosts_expect(t, 0, 3, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 2, IBV_WC_SUCCESS);
	assert_memory_equal(t->h[1].buf + 40, t->h[0].buf, 500);
	assert_memory_equal(t->h[1].buf + 24, group.raw, 16);
	for (int i = 0; i < 2; i++)
		assert_int_equal(mcast_detach(t->h[i].r.f, &t->h[i].qp->qp, &group, 0), 0);
}

/* The first message for a group waits for the connection; one that does not come holds up nobody else. */
static void groups_wait(void **state)
{
	struct ud *u = *state;
	struct hosts *t = &u->t;

	assert_int_equal(mcast_attach(t->h[1].r.f, &t->h[1].qp->qp, &group, 0), 0);
	for (uint64_t i = 0; i < 3; i++)
		hosts_recv(t, i, 1000 * i, 1000);
	hosts_cut(t);
	t->h[0].o.is_wanted = false;
	post(u, &u->mc, 3, 0xffffff, 0x1111, 500);
	hosts_run(t);
	assert_true(t->h[0].o.is_wanted);
	hosts_expect_none(t, 0);
	hosts_connect(t);
	hosts_run(t);
	hosts_expect(t, 0, 3, IBV_WC_SUCCESS);
	hosts_expect(t, 1, 0, IBV_WC_SUCCESS);

	hosts_cut(t);
	post(u, &u->mc, 4, 0xffffff, 0x1111, 500);
	hosts_run(t);
	hosts_expect_none(t, 0);
	hosts_advance(t, 250 * NS_PER_MS);
	hosts_run(t);
	hosts_expect(t, 0, 4, IBV_WC_SUCCESS);
	post(u, &u->mc, 5, 0xffffff, 0x1111, 500); /* it is not waited for again */
	hosts_run(t);
	hosts_expect(t, 0, 5, IBV_WC_SUCCESS);
	hosts_connect(t);
	hosts_run(t);
	hosts_expect_none(t, 1);
	assert_int_equal(mcast_detach(t->h[1].r.f, &t->h[1].qp->qp, &group, 0), 0);
}

/* Frames that a router sends as it likes: the connection ends, or nothing happens. */
static void lies(void **state)
{
	static const struct wire_hdr bad[] = {
		{ .type = WIRE_NONE },
		{ .type = WIRE_TYPES_NUM },
		{ .type = 0xff },
	};
	struct wire_hdr h;
	struct ud u;
	struct hosts *t = &u.t;
	uint8_t data[100] = { 0 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(bad); i++) {
		ud_up(&u);
		wire_send(t->h[0].r.f, &t->h[0].other, &bad[i], NULL);
		hosts_run(t);
		assert_string_equal(t->h[1].o.why, "it sends frames that make no sense");
		ud_down(&u);
	}
	ud_up(&u); /* longer than any of its kind */
	memset(&h, 0, sizeof(h));
	h.type = WIRE_ACK;
	h.len = sizeof(data);
	wire_send(t->h[0].r.f, &t->h[0].other, &h, data);
	hosts_run(t);
	assert_string_equal(t->h[1].o.why, "it sends frames that make no sense");
	ud_down(&u);
	ud_up(&u);
	hosts_recv(t, 1, 0, 100);
	memset(&h, 0, sizeof(h));
	h.type = WIRE_UD;
	h.opcode = FF_OP_SEND;
	h.len = 41;
	h.dst_qpn = t->h[1].qp->qp.qp_num;
	h.dst_cont = t->h[1].r.cont[0].id;
	h.dst_epoch = 1;
	h.src_cont = t->h[0].r.cont[0].id;
	h.src_epoch = 1;
	h.ud.qkey = 0x1111;
	for (int i = 0; i < 6; i++) {
		struct wire_hdr l = h;

		switch (i) {
		case 0:
			l.src_epoch = 2;
			break;
		case 1:
			l.dst_epoch = 2;
			break;
		case 2:
			l.dst_cont++;
			break;
		case 3:
			l.opcode = FF_OP_WRITE;
			break;
		case 4:
			l.len = 39;
			break;
		case 5: /* a container that is on a third host */
			t->h[1].remote.peer = NULL;
			break;
		}
		wire_send(t->h[0].r.f, &t->h[0].other, &l, data);
		hosts_run(t);
		hosts_expect_none(t, 1);
		assert_int_equal(t->h[1].qp->qp.stats.ud_drops, 0); /* it did not get to the QP */
	}
	t->h[1].remote.peer = &t->h[1].other;
	wire_send(t->h[0].r.f, &t->h[0].other, &h, data);
	hosts_run(t);
	hosts_expect(t, 1, 1, IBV_WC_SUCCESS); /* the honest one */
	ud_down(&u);
}

/* ---- receives behind a process ------------------------------------------------------------------------- */

static void late_up(struct ud *u)
{
	struct host *h = &u->t.h[1];

	ud_up(u);
	rig_mr_free(&h->r, h->mr);
	h->mr = rig_mr_pvm(&h->r, h->s, h->buf, HOSTS_BUF, HOSTS_ACCESS);
	fake_pvm_calm();
}

static int late_setup(void **state)
{
	*state = malloc(sizeof(struct ud));
	late_up(*state);
	return 0;
}
#define LATE_TEST(name) cmocka_unit_test_setup_teardown(name, late_setup, teardown)

/* n datagrams, with as many receives. */
static void late_post(struct ud *u, unsigned n, bool group)
{
	struct qp *to = &u->t.h[1].qp->qp;

	for (unsigned i = 0; i < n; i++) {
		hosts_recv(&u->t, 10 + i, 1000 * i, 140);
		post(u, group ? &u->mc : &u->ah, i, group ? 0xffffff : to->qp_num, to->attr.qkey,
		     100);
	}
	hosts_run(&u->t);
	for (unsigned i = 0; i < n; i++)
		hosts_expect(&u->t, 0, i, IBV_WC_SUCCESS);
}

static void late_expect(struct ud *u, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		hosts_expect(&u->t, 1, 10 + i, IBV_WC_SUCCESS);
	hosts_expect_none(&u->t, 1);
}

static void work(struct ud *u)
{
	while (fake_pvm_work(u->t.h[1].r.f, &u->t.h[1].s->s))
		;
	hosts_run(&u->t);
}

/* They wait for it, in order, a moment or longer. */
static void late(void **state)
{
	static const enum pvm_fate by[] = { PVM_AT_ONCE, PVM_LOCK_GIVEN, PVM_AGAIN };
	struct ud *u = *state;

	for (unsigned i = 0; i < ARRAY_SIZE(by); i++) {
		fake_pvm.next = by[i];
		late_post(u, 5, false);
		if (by[i] == PVM_AGAIN) {
			hosts_expect_none(&u->t, 1);
			work(u);
		}
		late_expect(u, 5);
	}
	assert_int_equal(u->t.h[1].qp->qp.stats.ud_drops, 0);
}

/* What comes at once waits in the connection, where there is no room for all of it. */
static void late_burst(void **state)
{
	enum { N = 200 };
	struct ud u;

	(void)state;
	rig_depth = 512;
	late_up(&u);
	late_post(&u, N, false);
	late_expect(&u, N);
	assert_int_equal(mcast_attach(u.t.h[1].r.f, &u.t.h[1].qp->qp, &group, 0), 0);
	late_post(&u, N, true);
	late_expect(&u, N);
	assert_int_equal(u.t.h[1].qp->qp.stats.ud_drops, 0);
	assert_int_equal(mcast_detach(u.t.h[1].r.f, &u.t.h[1].qp->qp, &group, 0), 0);
	ud_down(&u);
	rig_depth = 16;
}

/* Of very many some do. */
static void late_many(void **state)
{
	enum { N = 300, RECVS = 5 };
	struct ud *u = *state;
	struct qp *to = &u->t.h[1].qp->qp;

	fake_pvm.next = PVM_AGAIN;
	late_post(u, RECVS, false);
	for (unsigned i = 0; i < N; i++) {
		post(u, &u->ah, i, to->qp_num, to->attr.qkey, 2000);
		hosts_run(&u->t);
		hosts_expect(&u->t, 0, i, IBV_WC_SUCCESS);
	}
	assert_in_range(to->stats.ud_drops, N / 2, N - 1);
	work(u);
	late_expect(u, RECVS);
	assert_int_equal(to->stats.ud_drops, N); /* no receives for those that had waited */
}

/* Their QP goes, or fails. */
static void late_in_vain(void **state)
{
	struct ud *u = *state;
	struct qp *to = &u->t.h[1].qp->qp;

	fake_pvm.next = PVM_AGAIN;
	late_post(u, 3, false);
	fast_qp_error(u->t.h[1].r.f, to, IBV_EVENT_QP_FATAL);
	assert_int_equal(to->stats.ud_drops, 3);
	work(u);
	for (unsigned i = 0; i < 3; i++)
		hosts_expect(&u->t, 1, 10 + i, IBV_WC_WR_FLUSH_ERR);
	hosts_expect_none(&u->t, 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		UD_TEST(one),
		UD_TEST(limited_receiver),
		UD_TEST(sender_that_stays_unknown),
		UD_TEST(unknown_sender),
		UD_TEST(unknown_receiver),
		UD_TEST(denied),
		UD_TEST(groups),
		UD_TEST(groups_wait),
		cmocka_unit_test(lies),
		LATE_TEST(late),
		cmocka_unit_test(late_burst),
		LATE_TEST(late_many),
		LATE_TEST(late_in_vain),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
