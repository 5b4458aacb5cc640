/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* threads: yes */
/* build: tests/rig/unit/soft_pair.c tests/rig/unit/rig.c */
/*
 * test_ud.c - datagrams between QPs of this host: the GRH, Q_Keys, lengths, whom they reach.
 */
#include <string.h>

#include "tests/rig/unit/soft_pair.h"
#include "tests/rig/unit/unit.h"

struct ud {
	struct pair p;
	struct ah ah;
};

static void ud_up(struct ud *u, int c1)
{
	pair_up(&u->p, IBV_QPT_UD, 0, c1);
	memset(&u->ah, 0, sizeof(u->ah));
	u->ah.o.kind = OBJ_AH;
	u->ah.o.ses = &u->p.s[0]->s;
	u->ah.pd = &u->p.s[0]->pd;
	u->ah.attr.is_global = 1;
	u->ah.attr.hop_limit = 5;
	memcpy(u->ah.attr.dgid, u->p.s[1]->s.cont->gid[0].raw, 16);
	assert_int_equal(obj_insert(&u->p.s[0]->s.tab[OBJ_AH], &u->ah.o), 0);
}

static void ud_down(struct ud *u)
{
	obj_remove(&u->p.s[0]->s.tab[OBJ_AH], &u->ah.o);
	pair_down(&u->p);
}

static void ud_sqe(struct ud *u, struct rig_qp *from, uint64_t id, uint32_t qkey, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(from, FF_OP_SEND, id);

	rig_sge(e, u->p.mr[0], pair_at(&u->p, 0, 0), len);
	e->ud.ah = u->ah.o.handle;
	e->ud.remote_qpn = u->p.qp[1]->qp.qp_num;
	e->ud.remote_qkey = qkey;
}

static void ud_post(struct ud *u, uint64_t id, uint32_t qkey, uint32_t len)
{
	ud_sqe(u, u->p.qp[0], id, qkey, len);
	rig_post(&u->p.r, u->p.qp[0]);
	rig_run(&u->p.r);
}

/* What is before the data follows from the index of the source and from both GIDs. */
static void ud_headers(void **state)
{
	static const uint8_t ipv4[] = { 0x45, 0xbc, 0,	60, 0, 0, 0x40, 0, 5, 17,
					0x60, 0xf3, 10, 0,  0, 1, 10,	0, 0, 2 };
	static const uint8_t none[20];
	enum { ADDR, LOCAL, LID };
	static const struct {
		uint8_t sgid_index, sl;
		int to;
	} t[] = {
		{ GID_ADDR_V2, 0xa, ADDR }, { GID_ADDR_V2, 9, LOCAL },	{ GID_ADDR_V1, 0, ADDR },
		{ GID_ADDR_V1, 0, LOCAL },  { GID_LOCAL_V1, 0, ADDR },	{ GID_LOCAL_V1, 0, LOCAL },
		{ GID_LOCAL_V2, 9, ADDR },  { GID_LOCAL_V2, 9, LOCAL }, { GID_ADDR_V2, 0xa, LID },
		{ GID_ADDR_V1, 0, LID },
	};
	struct ff_cqe c;
	struct ud u;

	(void)state;
	ud_up(&u, 1);
	u.ah.attr.traffic_class = 0xbc;
	u.ah.attr.flow_label = 0xedcba;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		const struct container *from = u.p.s[0]->s.cont, *to = u.p.s[1]->s.cont;
		union ibv_gid sgid = gid_entry(from, t[i].sgid_index).gid;
		union ibv_gid dgid = t[i].to == LOCAL ? gid_local(to->lid) : to->gid[0];
		const uint8_t *h = u.p.buf[1];

		u.ah.cont = NULL;
		u.ah.attr.is_global = t[i].to != LID;
		u.ah.attr.dlid = to->lid;
		u.ah.attr.sgid_index = t[i].sgid_index;
		memcpy(u.ah.attr.dgid, &dgid, 16);
		rig_recv(&u.p.r, u.p.qp[1], i, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
		ud_post(&u, i, 0x1111, 8);
		pair_expect(u.p.cq[0], i, IBV_WC_SUCCESS);
		assert_true(rig_poll(u.p.cq[1], &c));
		assert_int_equal(c.sl, t[i].sl);
		assert_memory_equal(h + 40, u.p.buf[0], 8);
		if (t[i].sl == 0xa) {
			assert_memory_equal(h, none, 20);
			assert_memory_equal(h + 20, ipv4, 20);
			continue;
		}
		assert_int_equal(h[0] << 24 | h[1] << 16 | h[2] << 8 | h[3], 0x6bcedcba);
		assert_int_equal(h[4] << 8 | h[5], t[i].sl ? 40 : 32);
		assert_int_equal(h[6], t[i].sl ? 17 : 0x1b);
		assert_int_equal(h[7], 5);
		assert_memory_equal(h + 8, &sgid, 16);
		assert_memory_equal(h + 24, &dgid, 16);
	}
	ud_down(&u);
}

/* Of an IPv4 header: 0xffff if its checksum is right (RFC 1071). */
static uint32_t ipv4_folded(const uint8_t *h)
{
	uint32_t sum = 0;

	for (int i = 0; i < 20; i += 2)
		sum += (uint32_t)(h[i] << 8 | h[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* The sum of the header's words is 0x1ffff, so that adding its carry carries again. */
static void ud_checksum_that_carries_twice(void **state)
{
	static const uint8_t to[4] = { 192, 168, 0xab, 9 };
	struct ud u;

	(void)state;
	ud_up(&u, 1);
	memcpy(u.ah.attr.dgid + 12, to, sizeof(to));
	u.ah.cont = u.p.s[1]->s.cont;
	rig_recv(&u.p.r, u.p.qp[1], 1, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 1, 0x1111, 8);
	pair_expect(u.p.cq[1], 1, IBV_WC_SUCCESS);
	assert_memory_equal(u.p.buf[1] + 36, to, sizeof(to));
	assert_int_equal(ipv4_folded(u.p.buf[1] + 20), 0xffff);
	assert_int_equal(u.p.buf[1][30] << 8 | u.p.buf[1][31], 0xfffe);
	ud_down(&u);
}

/* A connected QP receives no datagrams, even with the right Q_Key. */
static void ud_to_a_connected_qp(void **state)
{
	struct rig_qp *rc;
	struct ff_sqe *e;
	struct ud u;

	(void)state;
	ud_up(&u, 1);
	rc = rig_qp(&u.p.r, u.p.s[1], IBV_QPT_RC, u.p.cq[1], u.p.cq[1], NULL);
	rig_connect(&u.p.r, rc, u.p.qp[0]);
	rig_recv(&u.p.r, rc, 1, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_sqe(&u, u.p.qp[0], 1, 0x1111, 8);
	e = qp_sqe(&u.p.qp[0]->qp, u.p.qp[0]->sq_tail);
	e->ud.remote_qpn = rc->qp.qp_num;
	rig_post(&u.p.r, u.p.qp[0]);
	rig_run(&u.p.r);
	pair_expect(u.p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect_none(u.p.cq[1]);
	assert_int_equal(u.p.qp[0]->qp.stats.ud_drops, 1);
	rig_qp_free(&u.p.r, rc);
	ud_down(&u);
}

static void ud_datagrams(void **state)
{
	struct ff_cqe c;
	struct ud u;

	(void)state;
	ud_up(&u, 1);
	rig_recv(&u.p.r, u.p.qp[1], 9, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 1, 0x2222, 8); /* wrong Q_Key */
	pair_expect(u.p.cq[0], 1, IBV_WC_SUCCESS);
	pair_expect_none(u.p.cq[1]);
	ud_post(&u, 2, 0x1111, 8);
	pair_expect(u.p.cq[0], 2, IBV_WC_SUCCESS);
	assert_true(rig_poll(u.p.cq[1], &c));
	assert_int_equal(c.byte_len, 48);
	assert_int_equal(c.flags, FF_CQE_GRH);
	assert_int_equal(c.src_qp, u.p.qp[0]->qp.qp_num);
	assert_memory_equal(u.p.buf[1] + 40, u.p.buf[0], 8);
	/* the QP's own Q_Key */
	rig_recv(&u.p.r, u.p.qp[1], 10, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 3, 0x80000000, 8);
	pair_expect(u.p.cq[1], 10, IBV_WC_SUCCESS);
	/* too long for the path */
	ud_post(&u, 4, 0x1111, 4097);
	pair_expect(u.p.cq[0], 3, IBV_WC_SUCCESS);
	pair_expect(u.p.cq[0], 4, IBV_WC_LOC_LEN_ERR);
	assert_int_equal(u.p.qp[0]->qp.state, IBV_QPS_SQE);
	ud_down(&u);
	/* another tenant's container of that address does not exist for us */
	ud_up(&u, 3);
	rig_recv(&u.p.r, u.p.qp[1], 9, u.p.mr[1], pair_at(&u.p, 1, 0), 48);
	ud_post(&u, 5, 0x1111, 8);
	pair_expect(u.p.cq[0], 5, IBV_WC_SUCCESS);
	pair_expect_none(u.p.cq[1]);
	ud_down(&u);
}

/* Two send to a receive behind a process in the same turn: one waits for the other's, and none is lost. */
static void ud_both_arrive(void **state)
{
	enum { N = 4 };
	struct rig_qp *other;
	struct ud u;

	(void)state;
	ud_up(&u, 1);
	rig_mr_free(&u.p.r, u.p.mr[1]);
	u.p.mr[1] = rig_mr_pvm(&u.p.r, u.p.s[1], u.p.buf[1], PAIR_BUF, PAIR_ACCESS);
	other = rig_qp(&u.p.r, u.p.s[0], IBV_QPT_UD, u.p.cq[0], u.p.cq[0], NULL);
	rig_connect(&u.p.r, other, u.p.qp[1]);
	for (unsigned i = 0; i < 2 * N; i++)
		rig_recv(&u.p.r, u.p.qp[1], 100 + i, u.p.mr[1], pair_at(&u.p, 1, 64 * i), 48);
	for (unsigned i = 0; i < N; i++) {
		ud_sqe(&u, u.p.qp[0], i, 0x1111, 8);
		rig_post(&u.p.r, u.p.qp[0]);
		ud_sqe(&u, other, i, 0x1111, 8);
		rig_post(&u.p.r, other);
	}
	rig_run(&u.p.r);
	for (unsigned i = 0; i < 2 * N; i++)
		pair_expect(u.p.cq[1], 100 + i, IBV_WC_SUCCESS);
	assert_int_equal(u.p.qp[1]->qp.stats.ud_drops, 0);
	rig_qp_free(&u.p.r, other);
	ud_down(&u);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(ud_headers),
			cmocka_unit_test(ud_checksum_that_carries_twice),
			cmocka_unit_test(ud_datagrams), cmocka_unit_test(ud_to_a_connected_qp),
			cmocka_unit_test(ud_both_arrive));
}
