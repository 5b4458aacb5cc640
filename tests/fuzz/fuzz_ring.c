/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rig.c tests/rig/unit/others.c ffr/fast/pvm.c ffr/fast/roles.c @lib @keeper @obj @mem @fast ffr/peer/io.c @wire @soft @remote -lbsd */
/*
 * fuzz_ring.c - libFuzzer target: a client that writes whatever it likes into its rings and
 * headers, beside one that behaves and must get every byte right.
 *
 * The input is a program of 4-byte instructions; each writes into the hostile client's shared
 * memory, posts, rings, resets its QPs or lets time pass, some of which it is charged for: its CPU time
 * is limited. Hostile QPs of each type are connected to each other and (UD) to anybody, and the UD ones
 * are a multicast group. The victim's memory must only ever hold what its own peer wrote.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "tests/rig/unit/rig.h"
#include "ffr/soft/soft.h"

#define ALL_ACCESS                                                                                 \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC)
#define BUF	8192
#define NUM_QPS 6

struct world {
	struct rig r;
	struct rig_ses *bad, *good[2];
	struct rig_cq *bad_cq, *good_cq[2];
	struct rig_srq *srq;
	struct rig_qp *q[NUM_QPS], *g[2];
	struct mr *bad_mr, *good_mr[2];
	struct ah ah, group_ah;
	struct mw mw[2];    /* one of each type */
	struct mr *null_mr; /* all three the bad one's */
	uint8_t *buf[3];
};

static const union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 1 } };

static void add_ah(struct world *w, struct ah *ah, const union ibv_gid *gid)
{
	ah->o.kind = OBJ_AH;
	ah->o.ses = &w->bad->s;
	ah->pd = &w->bad->pd;
	ah->attr.is_global = 1;
	ah->mcast = gid == &group;
	memcpy(ah->attr.dgid, gid->raw, 16);
	if (obj_insert(&w->bad->s.tab[OBJ_AH], &ah->o))
		abort();
}

static void add_windows(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		struct mw *mw = &w->mw[i];

		mw->o.kind = OBJ_MW;
		mw->o.ses = &w->bad->s;
		mw->pd = &w->bad->pd;
		mw->type = i ? IBV_MW_TYPE_2 : IBV_MW_TYPE_1;
		if (obj_insert(&w->bad->s.tab[OBJ_MW], &mw->o) || mw_key_new(w->bad->s.cont, mw))
			abort();
	}
	w->null_mr = rig_mr_pvm(&w->r, w->bad, NULL, UINT64_MAX, IBV_ACCESS_LOCAL_WRITE);
	w->null_mr->kind = MR_NULL;
}

static void del_windows(struct world *w)
{
	for (int i = 0; i < 2; i++) {
		fast_mw_del(w->r.f, &w->mw[i]);
		obj_remove(&w->bad->s.tab[OBJ_MW], &w->mw[i].o);
	}
	if (w->bad_mr->o.refs || w->null_mr->o.refs)
		abort();
	rig_mr_free(&w->r, w->null_mr);
}

static void build(struct world *w)
{
	static const enum ibv_qp_type type[NUM_QPS] = { IBV_QPT_RC, IBV_QPT_RC, IBV_QPT_UC,
							IBV_QPT_UC, IBV_QPT_UD, IBV_QPT_UD };

	rig_init(&w->r, &soft_ops);
	pvm_patience = 0;
	w->bad = rig_session(&w->r, 0);
	w->bad_cq = rig_cq(&w->r, w->bad, 16, true);
	w->srq = rig_srq(&w->r, w->bad, 16);
	for (int i = 0; i < 3; i++)
		w->buf[i] = calloc(1, BUF);
	w->bad_mr = rig_mr(&w->r, w->bad, w->buf[2], BUF, ALL_ACCESS | IBV_ACCESS_MW_BIND);
	for (int i = 0; i < NUM_QPS; i++)
		w->q[i] =
			rig_qp(&w->r, w->bad, type[i], w->bad_cq, w->bad_cq, i & 1 ? w->srq : NULL);
	for (int i = 0; i < NUM_QPS; i++)
		rig_connect(&w->r, w->q[i], w->q[i ^ 1]);
	add_ah(w, &w->ah, &w->r.cont[0].gid[0]);
	add_ah(w, &w->group_ah, &group);
	add_windows(w);
	for (int i = 0; i < NUM_QPS; i++)
		if (type[i] == IBV_QPT_UD && mcast_attach(w->r.f, &w->q[i]->qp, &group, 0))
			abort();
	for (int i = 0; i < 2; i++) {
		w->good[i] = rig_session(&w->r, 1 + i);
		w->good_cq[i] = rig_cq(&w->r, w->good[i], 16, false);
		w->good_mr[i] = rig_mr(&w->r, w->good[i], w->buf[i], BUF, ALL_ACCESS);
		w->g[i] = rig_qp(&w->r, w->good[i], IBV_QPT_RC, w->good_cq[i], w->good_cq[i], NULL);
	}
	rig_connect(&w->r, w->g[0], w->g[1]);
	rig_connect(&w->r, w->g[1], w->g[0]);
	fast_container_limits(&w->r.cont[0], &(struct ffo_limits){ .max_cpu = 100 });
}

/* A bell of the hostile client, and what the thread hears of it. */
static void ring(struct world *w)
{
	struct epoll_event ev[8];
	uint64_t one = 1;

	if (write(w->bad->bell, &one, sizeof(one)) < 0)
		abort();
	fast_bells(w->r.f, ev, epoll_wait(w->r.f->epoll_fd, ev, 8, 0));
}

static void tear_down(struct world *w)
{
	for (int i = 0; i < NUM_QPS; i++)
		rig_qp_free(&w->r, w->q[i]);
	obj_remove(&w->bad->s.tab[OBJ_AH], &w->ah.o);
	obj_remove(&w->bad->s.tab[OBJ_AH], &w->group_ah.o);
	del_windows(w);
	rig_mr_free(&w->r, w->bad_mr);
	rig_srq_free(&w->r, w->srq);
	rig_cq_free(&w->r, w->bad_cq);
	rig_session_free(&w->r, w->bad);
	for (int i = 0; i < 2; i++) {
		rig_qp_free(&w->r, w->g[i]);
		rig_mr_free(&w->r, w->good_mr[i]);
		rig_cq_free(&w->r, w->good_cq[i]);
		rig_session_free(&w->r, w->good[i]);
	}
	for (int i = 0; i < 3; i++)
		free(w->buf[i]);
	free(w->r.cont[0].keys.slot);
	rig_fini(&w->r);
}

/* The shared memory that a client can write, as one list. */
static uint8_t *hostile_byte(struct world *w, unsigned which, unsigned off)
{
	struct qp *qp = &w->q[which % NUM_QPS]->qp;

	switch (which / NUM_QPS % 6) {
	case 0:
		return qp->sq.ring + off % ((size_t)qp->sq.depth * qp->sq.stride);
	case 1:
		return (qp->rq.depth ? qp->rq.ring : w->srq->srq.ring) +
		       off % ((size_t)16 * qp->rq.stride);
	case 2:
		return (uint8_t *)qp->hdr + off % sizeof(*qp->hdr);
	case 3:
		return (uint8_t *)w->bad_cq->cq.hdr + off % sizeof(struct ff_cq_hdr);
	case 4:
		return (uint8_t *)w->bad->s.hdr + off % sizeof(struct ff_ses_hdr);
	default:
		return (uint8_t *)w->bad_cq->cq.ring + off % (16 * sizeof(struct ff_cqe));
	}
}

/* A plausible WR, to reach deeper than noise does; the following writes may spoil it. */
static void plausible(struct world *w, struct rig_qp *q, unsigned op, unsigned arg)
{
	struct ff_sqe *e = rig_sqe(q, (uint8_t)(1 + op % (FF_OP_NUM - 1)), arg);
	uint32_t len = e->opcode > FF_OP_READ ? 8 : arg % 200;
	const struct mw *mw = &w->mw[arg >> 4 & 1];

	rig_sge(e, arg & 0x40 ? w->null_mr : w->bad_mr, w->bad_mr->addr + arg % 64, len);
	e->remote_addr = w->bad_mr->addr + 4096 + (arg & ~7u) % 4096;
	e->rkey = arg & 1 ? w->good_mr[0]->rkey : arg & 8 ? mw->rkey : w->bad_mr->rkey;
	e->imm = mw->rkey;
	if (e->opcode == FF_OP_BIND_MW) {
		e->imm = ALL_ACCESS;
		e->bind.length = arg & 0x20 ? 0 : arg;
		e->bind.mw = mw->o.handle;
		e->bind.lkey = w->bad_mr->lkey;
	}
	if (q->qp.type == IBV_QPT_UD) {
		e->ud.ah = arg & 4 ? w->group_ah.o.handle : w->ah.o.handle;
		e->ud.remote_qpn = arg & 4 ? 0xffffff :
				   arg & 2 ? w->g[0]->qp.qp_num :
					     w->q[4]->qp.qp_num;
		e->ud.remote_qkey = 0x1111;
	}
	rig_recv(&w->r, w->q[0], arg, w->bad_mr, w->bad_mr->addr, 100);
	rig_recv(&w->r, w->q[4], arg, w->bad_mr, w->bad_mr->addr, 300);
	rig_srq_recv(&w->r, w->srq, arg, w->bad_mr, w->bad_mr->addr, 300);
}

static void victim(struct world *w, uint8_t v)
{
	struct ff_cqe c;
	struct ff_sqe *e;

	for (int i = 0; i < 100; i++)
		w->buf[0][i] = (uint8_t)(v + i);
	e = rig_sqe(w->g[0], FF_OP_WRITE, v);
	rig_sge(e, w->good_mr[0], (uintptr_t)w->buf[0], 100);
	e->remote_addr = (uintptr_t)w->buf[1];
	e->rkey = w->good_mr[1]->rkey;
	rig_post(&w->r, w->g[0]);
	for (int i = 0; i < 100 && !rig_poll(w->good_cq[0], &c); i++)
		fast_turn(w->r.f);
	if (c.wr_id != v || c.status != IBV_WC_SUCCESS || memcmp(w->buf[0], w->buf[1], 100))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	struct world *w = calloc(1, sizeof(*w));

	build(w);
	for (size_t i = 0; i + 4 <= len && i < 4096; i += 4) {
		unsigned op = in[i], which = in[i + 1], off = in[i + 2] | (unsigned)in[i + 3] << 8;
		struct rig_qp *q = w->q[which % NUM_QPS];

		switch (op % 8) {
		case 0:
		case 1:
			*hostile_byte(w, which, off) = in[i + 3] ^ in[i];
			break;
		case 2:
			plausible(w, q, off, off >> 3);
			break;
		case 3:
			rig_post(&w->r, q);
			break;
		case 4:
			w->r.f->now += (uint64_t)off * 1000;
			fast_turn(w->r.f);
			break;
		case 5:
			if (which & 1)
				ring(w);
			if (which & 2)
				cpu_settle(w->r.f, (uint64_t)off * 100);
			fast_turn(w->r.f);
			break;
		case 6:
			if (which & 0x80)
				rig_state(&w->r, q, IBV_QPS_ERR);
			else {
				rig_state(&w->r, q, IBV_QPS_RESET);
				rig_connect(&w->r, q, w->q[(which % NUM_QPS) ^ 1]);
			}
			break;
		default:
			victim(w, in[i + 3]);
			break;
		}
	}
	for (int i = 0; i < 50; i++)
		fast_turn(w->r.f);
	victim(w, 77);
	tear_down(w);
	free(w);
	return 0;
}
