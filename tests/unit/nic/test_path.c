/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_path.c - whether the NIC carries a QP's path, for each answer of the directory and of the other host; and a QP of
 * which nobody knows that yet: what the QP waits for, and how that ends.
 */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <string.h>

#include "ffr/remote/remote.h"
#include "tests/rig/unit/others.h"

#define SECOND 1000000000ull

/* One container of another host, whose NIC is in the network "fab" as this one's is. */
static struct others others;
static struct remote far;
static struct wire_peer peer;
static const union ibv_gid far_gid = { .raw = { 0xfd, 9, [15] = 7 } };
static const union ibv_gid far_nic = { .raw = { 0xfd, 1, [15] = 9 } };

static struct nic_rig rig;

static int path_setup(void **state)
{
	struct nic_rig *n = &rig;

	fake_nic_reset();
	nic_rig_conf.net = "fab";
	nic_rig_open_qp(n, IBV_QPT_RC);
	nic_rig_conf.net = NULL;
	fake_nic.num_modify = 0; /* the router's own UD QP is up */
	n->r.f->host->wired = true;
	peer = (struct wire_peer){ .up = true, .refs = 1 };
	far = (struct remote){ .id = 77, .epoch = 1, .num_gids = 1, .refs = 1 };
	strcpy(far.tenant, "t");
	strcpy(far.name, "far");
	far.gid[0] = far_gid;
	far.peer = &peer;
	others = (struct others){ .f = n->r.f, .remote = { &far }, .peer = { &peer } };
	others_add(&others);
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	nic_rig_attr(n, n->qp);
	n->qp->qp.attr.ah.sgid_index = 0;
	memcpy(n->qp->qp.attr.ah.dgid, &far_gid, 16);
	*state = n;
	return 0;
}

static int path_teardown(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_close(n);
	others_del(&others);
	assert_int_equal(far.refs, 1);
	return 0;
}

/* The peer is connected, and has told of its NIC. No frame is sent to it in these tests. */
static void told(const char *net)
{
	static uint8_t connection;

	peer.tcp = (struct wire_tcp *)&connection;
	peer.nic_told = true;
	peer.num_nics = 1;
	peer.nic[0].gid = far_nic;
	strcpy(peer.nic[0].net, net);
}

static enum nic_path path(struct nic_rig *n, union ibv_gid *to)
{
	struct remote *there;

	return nic_path_of(n->r.f, &n->qp->qp, &n->qp->qp.attr.ah, to, &there);
}

static void to_rts(struct nic_rig *n)
{
	rig_state(&n->r, n->qp, IBV_QPS_RTR);
	rig_state(&n->r, n->qp, IBV_QPS_RTS);
}

/* ---- which -------------------------------------------------------------------------------------------------- */

static void where_a_path_leads(void **state)
{
	struct nic_rig *n = *state;
	struct fast_host *h = n->r.f->host;
	struct ff_ah_attr *ah = &n->qp->qp.attr.ah;
	union ibv_gid to;

	assert_int_equal(path(n, &to), PATH_UNKNOWN); /* not connected */
	assert_true(others.is_wanted);
	told("fab");
	peer.nic_told = false;
	assert_int_equal(path(n, &to), PATH_UNKNOWN);
	peer.nic_told = true;
	assert_int_equal(path(n, &to), PATH_NIC);
	assert_memory_equal(&to, &far_nic, 16);
	strcpy(peer.nic[0].net, "other");
	assert_int_equal(path(n, &to), PATH_SOFT);
	strcpy(peer.nic[0].net, "");
	assert_int_equal(path(n, &to), PATH_SOFT);
	strcpy(peer.nic[0].net, "fab");
	far.peer = NULL;
	assert_int_equal(path(n, &to), PATH_UNKNOWN);
	far.peer = &peer;
	far.epoch = 0;
	assert_int_equal(path(n, &to), PATH_UNKNOWN);
	far.epoch = 1;
	others.is_denied = true;
	assert_int_equal(path(n, &to), PATH_SOFT);
	others.is_denied = false;
	h->wired = false;
	assert_int_equal(path(n, &to), PATH_SOFT);
	h->wired = true;
	h->nic[0].net[0] = '\0';
	assert_int_equal(path(n, &to), PATH_SOFT);
	strcpy(h->nic[0].net, "fab");
	memcpy(ah->dgid, &n->r.cont[1].gid[0], 16); /* of this host */
	assert_int_equal(path(n, &to), PATH_SOFT);
	ah->dgid[15] = 99; /* nobody */
	assert_int_equal(path(n, &to), PATH_SOFT);
	ah->sgid_index = 4; /* the NIC's own: to whomever */
	assert_int_equal(path(n, &to), PATH_NIC);
	assert_memory_equal(&to, ah->dgid, 16);
}

static void known_at_once(void **state)
{
	struct nic_rig *n = *state;

	told("fab");
	to_rts(n);
	assert_true(nic_qp_is_carried(n->qp->qp.nic));
	assert_int_equal(far.refs, 2);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
	assert_memory_equal(&fake_nic.modify[1].attr.ah_attr.grh.dgid, &far_nic, 16);
	assert_int_equal(fake_nic.modify[1].attr.ah_attr.grh.hop_limit, 64);
	rig_state(&n->r, n->qp, IBV_QPS_RESET);
	assert_int_equal(far.refs, 1);
}

/* ---- not known yet ------------------------------------------------------------------------------------------- */

static void until_the_peer_tells(void **state)
{
	struct nic_rig *n = *state;

	nic_rig_recv(n, 9, 8);
	to_rts(n);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	assert_int_equal(fake_nic.num_modify, 0);
	n->wakes = 0;
	nic_carrier.news(n->r.f, &far);
	assert_int_equal(n->wakes, 1);
	nic_rig_work(n); /* and has not said what it is needed for */
	assert_int_equal(fake_nic.num_modify, 0);
	far.id = 0; /* nor does the directory know who it is */
	far.epoch = 0;
	nic_rig_work(n);
	assert_true(nic_qp_is_undecided(n->qp->qp.nic));
	far.id = 77;
	far.epoch = 1;
	told("fab");
	nic_carrier.news(n->r.f, &far);
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 1);
	assert_int_equal(fake_nic_recvs(n->ib), 1);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	assert_true(TAILQ_EMPTY(&n->r.f->host->nic[0].dev->undecided));
}

static void in_rtr_yet(void **state)
{
	struct nic_rig *n = *state;

	rig_state(&n->r, n->qp, IBV_QPS_RTR);
	told("fab");
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTR);
	rig_state(&n->r, n->qp, IBV_QPS_RTS);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
}

/* Tenths of a second of the runner's and the control thread's, in each of which it is asked for once. */
static void tenths(struct nic_rig *n, int num)
{
	for (int i = 0; i < num; i++) { /* what was asked may have been lost */
		n->wakes = 0;
		n->r.f->now += SECOND / 10 - 1;
		rig_run(&n->r);
		assert_int_equal(n->wakes, 0);
		nic_rig_work(n);
		assert_true(nic_qp_is_undecided(n->qp->qp.nic));
		n->r.f->now += 1;
		rig_run(&n->r);
		assert_int_equal(n->wakes, 1);
		nic_rig_work(n);
	}
}

/* A peer that does not answer: it could be told the next moment, and go by the NIC, so the wire is no way out. */
static void nobody_tells(void **state)
{
	struct nic_rig *n = *state;

	n->qp->qp.attr.timeout = 14; /* eight times 67 ms */
	n->qp->qp.attr.retry_cnt = 7;
	to_rts(n);
	tenths(n, 30);
	assert_true(nic_qp_is_undecided(n->qp->qp.nic)); /* for as long as nothing is posted */
	nic_rig_send(n, 1, 8);
	nic_rig_send(n, 2, 8);
	rig_run(&n->r);
	tenths(n, 9);
	nic_rig_expect_none(n);
	n->r.f->now += SECOND / 10;
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_RETRY_EXC_ERR);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	told("fab");
	nic_carrier.news(n->r.f, &far);
	nic_rig_work(n);
	assert_int_equal(fake_nic.num_modify, 0);
}

/* It waits for longer where a peer's answer may take so long, and without an end if it may take any time. */
static void with_patience(void **state)
{
	struct nic_rig *n = *state;

	for (int i = 0; i < 2; i++) {
		peer.tcp = NULL;
		n->qp->qp.attr.timeout = i ? 0 : 18; /* three times 1.07 s */
		n->qp->qp.attr.retry_cnt = 2;
		to_rts(n);
		nic_rig_send(n, 1, 8);
		rig_run(&n->r);
		tenths(n, i ? 200 : 32);
		nic_rig_expect_none(n);
		if (i)
			break;
		n->r.f->now += SECOND / 10;
		rig_run(&n->r);
		nic_rig_expect(n, 1, IBV_WC_RETRY_EXC_ERR);
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		rig_state(&n->r, n->qp, IBV_QPS_INIT);
		nic_rig_attr(n, n->qp);
		n->qp->qp.attr.ah.sgid_index = 0;
		memcpy(n->qp->qp.attr.ah.dgid, &far_gid, 16);
	}
	told("fab");
	nic_carrier.news(n->r.f, &far);
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 1);
}

/* UC: what nobody is there for is lost, and the QP remains. */
static void without_an_answer(void **state)
{
	struct nic_rig *n = *state;

	n->qp->qp.type = IBV_QPT_UC;
	to_rts(n);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	tenths(n, 9);
	nic_rig_expect_none(n);
	n->r.f->now += SECOND / 10;
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	assert_int_equal(n->qp->qp.stats.ud_drops, 1);
	assert_true(nic_qp_is_undecided(n->qp->qp.nic));
}

/* A frame of the wire for the QP, of the peer's that it is connected to but for what `is` has. */
static void frame(struct nic_rig *n, struct wire_hdr is)
{
	const struct qp *qp = &n->qp->qp;
	struct wire_hdr h = is;
	struct wire_qp *wq;

	h.type = is.type ? is.type : WIRE_REQ;
	h.opcode = FF_OP_SEND;
	h.offset = 1; /* the one who sent it is told nothing */
	h.dst_cont = qp->o.ses->cont->id;
	h.dst_qpn = qp->qp_num;
	h.dst_epoch = qp->o.ses->cont->epoch;
	h.src_cont = is.src_cont ? is.src_cont : far.id;
	h.src_qpn = is.src_qpn ? is.src_qpn : qp->attr.dest_qp_num;
	h.src_epoch = is.src_epoch ? is.src_epoch : far.epoch;
	assert_int_equal(remote_wire_ops.begin(n->r.f, &peer, &h, &wq), SINK_DISCARD);
}

/* It knows of no NIC here: nothing would come of it if this one were the NIC's. */
static void its_peer_goes_by_the_wire(void **state)
{
	static const struct wire_hdr not_its[] = { { .src_cont = 78 },
						   { .src_epoch = 2 },
						   { .src_qpn = 4711 } };
	struct nic_rig *n = *state;

	for (int type = 0; type < 2; type++) {
		peer.tcp = NULL;
		to_rts(n);
		nic_rig_send(n, 1, 8);
		rig_run(&n->r);
		n->wakes = 0;
		for (size_t i = 0; i < ARRAY_SIZE(not_its); i++)
			frame(n, not_its[i]);
		assert_int_equal(n->wakes, 0);
		frame(n, (struct wire_hdr){ .type = type ? WIRE_GO : WIRE_REQ });
		frame(n, (struct wire_hdr){ 0 });
		assert_int_equal(n->wakes, 1);
		assert_string_equal(n->qp->qp.send->name, "?"); /* the control thread decides */
		nic_rig_work(n);
		assert_false(nic_qp_is_undecided(n->qp->qp.nic));
		assert_true(TAILQ_EMPTY(&n->r.f->host->nic[0].dev->undecided));
		assert_true(route_is_ours(&n->qp->qp));
		told("fab");
		nic_carrier.news(n->r.f, &far);
		nic_rig_work(n);
		assert_int_equal(fake_nic.num_modify, 0);
		peer.tcp = NULL;
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		rig_state(&n->r, n->qp, IBV_QPS_INIT);
		nic_rig_attr(n, n->qp);
		n->qp->qp.attr.ah.sgid_index = 0;
		memcpy(n->qp->qp.attr.ah.dgid, &far_gid, 16);
	}
	/* that was a former life's */
	to_rts(n);
	told("fab");
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
}

/* Who is looked for, by a frame or by a QP of this host that names it, stays with what carries it. */
static void nobody_else_takes_it(void **state)
{
	struct nic_rig *n = *state;

	to_rts(n);
	route_resolve(n->r.f, &n->qp->qp);
	assert_null(n->qp->qp.soft->rem);
	assert_string_equal(n->qp->qp.send->name, "?");
	told("fab");
	nic_rig_work(n);
	assert_true(nic_qp_is_carried(n->qp->qp.nic));
	route_resolve(n->r.f, &n->qp->qp);
	frame(n, (struct wire_hdr){ 0 });
	nic_rig_work(n);
	assert_null(n->qp->qp.soft->rem);
	assert_ptr_equal(n->qp->qp.send, &nic_send);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_RTS);
}

static void it_ends_meanwhile(void **state)
{
	struct nic_rig *n = *state;

	to_rts(n);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	rig_state(&n->r, n->qp, IBV_QPS_ERR);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_WR_FLUSH_ERR);
	told("fab");
	n->wakes = 0;
	nic_carrier.news(n->r.f, &far);
	assert_int_equal(n->wakes, 0); /* nobody waits */
	peer.tcp = NULL;
	rig_state(&n->r, n->qp, IBV_QPS_RESET);
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	nic_rig_attr(n, n->qp);
	n->qp->qp.attr.ah.sgid_index = 0;
	memcpy(n->qp->qp.attr.ah.dgid, &far_gid, 16);
	to_rts(n);
	rig_state(&n->r, n->qp, IBV_QPS_RESET); /* it was not known then, either */
	n->r.f->now += 2 * SECOND;
	rig_run(&n->r);
	nic_rig_work(n);
	assert_int_equal(fake_nic.num_modify, 0);
}

static void destroyed_meanwhile(void **state)
{
	struct nic_rig *n = *state;

	to_rts(n);
	rig_qp_free(&n->r, n->qp);
	n->qp = NULL;
	told("fab");
	nic_carrier.news(n->r.f, &far);
	n->r.f->now += 2 * SECOND;
	rig_run(&n->r);
	nic_rig_work(n);
}

static void the_nic_refuses_it(void **state)
{
	struct nic_rig *n = *state;

	for (unsigned nth = 1; nth <= 3; nth++) { /* INIT, RTR, RTS */
		peer.tcp = NULL;
		to_rts(n);
		nic_rig_send(n, nth, 8);
		rig_run(&n->r);
		told("fab");
		fake_nic_fail(FAKE_modify_qp, nth, EINVAL);
		nic_rig_work(n);
		rig_run(&n->r);
		nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle);
		assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
		nic_rig_work(n); /* what the NIC has of it ends */
		rig_run(&n->r);
		nic_rig_expect(n, nth, IBV_WC_WR_FLUSH_ERR);
		rig_state(&n->r, n->qp, IBV_QPS_RESET);
		rig_state(&n->r, n->qp, IBV_QPS_INIT);
		nic_rig_attr(n, n->qp);
		n->qp->qp.attr.ah.sgid_index = 0;
		memcpy(n->qp->qp.attr.ah.dgid, &far_gid, 16);
	}
}

/* The NIC is removed before it is known: it is the wire's. */
static void the_nic_goes(void **state)
{
	struct nic_rig *n = *state;

	to_rts(n);
	nic_rig_send(n, 1, 8);
	rig_run(&n->r);
	fake_nic_event(IBV_EVENT_DEVICE_FATAL, NULL);
	nic_rig_events(n);
	nic_rig_work(n);
	nic_rig_expect_event(n, IBV_EVENT_PORT_ERR, 1);
	nic_rig_expect_no_event(n);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
	assert_null(n->qp->qp.nic);
	assert_string_equal(n->r.f->host->nic[0].net, "");
}

/* ---- policy ---------------------------------------------------------------------------------------------------- */

static void what_is_denied_ends(void **state)
{
	struct nic_rig *n = *state;

	told("fab");
	to_rts(n);
	nic_carrier.news(n->r.f, NULL);
	assert_int_equal(n->qp->qp.state, IBV_QPS_RTS);
	others.is_denied = true;
	nic_carrier.news(n->r.f, NULL);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	nic_rig_expect_event(n, IBV_EVENT_QP_FATAL, n->qp->qp.o.handle);
	nic_rig_work(n);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_ERR);
}

#define PATH_TEST(name) cmocka_unit_test_setup_teardown(name, path_setup, path_teardown)

int main(void)
{
	return UNIT_RUN(PATH_TEST(where_a_path_leads), PATH_TEST(known_at_once),
			PATH_TEST(until_the_peer_tells), PATH_TEST(in_rtr_yet),
			PATH_TEST(nobody_tells), PATH_TEST(with_patience),
			PATH_TEST(without_an_answer), PATH_TEST(its_peer_goes_by_the_wire),
			PATH_TEST(nobody_else_takes_it), PATH_TEST(it_ends_meanwhile),
			PATH_TEST(destroyed_meanwhile), PATH_TEST(the_nic_refuses_it),
			PATH_TEST(the_nic_goes), PATH_TEST(what_is_denied_ends));
}
