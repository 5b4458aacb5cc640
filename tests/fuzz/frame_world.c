/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* frame_world.c - see frame_world.h. */
#include "tests/fuzz/frame_world.h"

#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/peer/io.h"
#include "ffr/fast/xrc.h"
#include "tests/rig/fakes/fake_pvm.h"

#define MEM_MAX (1u << 18)

struct world *w;
const union ibv_gid world_group = { .raw = { 0xff, 0x0e, [15] = 1 } };
static _Alignas(4096) uint8_t mem[MEM_MAX], want[MEM_MAX]; /* is, should be */

static const struct {
	uint32_t size, access;
	uint8_t fill;
	bool pvm;
} areas[NUM_AREAS] = {
	[OPEN] = { 98304, REMOTE_ALL, PUBLIC, false },
	[OPEN_PVM] = { 98304, REMOTE_ALL, PUBLIC, true },
	[RECV] = { NUM_SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE, SECRET, false },
	[RECV_PVM] = { NUM_SLOTS * SLOT, IBV_ACCESS_LOCAL_WRITE, SECRET, true },
	[READ_ONLY] = { 4096, IBV_ACCESS_REMOTE_READ, PUBLIC, false },
	[OTHER_PD] = { 4096, REMOTE_ALL, SECRET, false },
	[OTHER_CONT] = { 4096, REMOTE_ALL, SECRET, false },
	[HONEST] = { 4096, REMOTE_ALL, SECRET, false },
};

uint64_t addr_of(enum area a)
{
	return (uintptr_t)mem + w->at[a];
}

/* ---- connections ---------------------------------------------------------------------------------- */

static void stream_close(struct stream *s)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	s->got = s->same = 0;
}

void stream_open(struct stream *s)
{
	struct wire_hello hello = { 0 };
	int fd[2], size = 1 << 15;

	must(!s->peer.tcp);
	stream_close(s);
	must(!socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd));
	setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
	must(!wire_attach(fast(), &s->peer, wire_io_plain(fd[0]), &hello));
	s->fd = fd[1];
}

void stream_cut(struct stream *s)
{
	if (s->peer.tcp)
		wire_detach(fast(), &s->peer, "cut");
	stream_close(s);
}

/* The router has sent n bytes: are they frames, and of what may be seen? */
static void look_at(struct stream *s, const uint8_t *p, size_t n)
{
	static const uint32_t max[WIRE_TYPES_NUM] = {
#define X(name, bytes) bytes,
		WIRE_TYPES(X)
#undef X
	};

	while (n) {
		size_t k = n;

		if (s->got < sizeof(s->h)) {
			if (k > sizeof(s->h) - s->got)
				k = sizeof(s->h) - s->got;
			memcpy((uint8_t *)&s->h + s->got, p, k);
			s->same = 0;
		} else {
			if (k > s->h.len - (s->got - sizeof(s->h)))
				k = s->h.len - (s->got - sizeof(s->h));
			for (size_t i = 0; i < k; i++) {
				s->same = p[i] == SECRET ? s->same + 1 : 0;
				must(s->same < 16);
			}
		}
		s->got += (uint32_t)k;
		p += k;
		n -= k;
		if (s->got < sizeof(s->h))
			continue;
		must(s->h.type && s->h.type < WIRE_TYPES_NUM && s->h.len <= max[s->h.type]);
		if (s->got < sizeof(s->h) + s->h.len)
			continue;
		s->got = 0;
		if (s == &w->friend && s->h.type == WIRE_ACK)
			w->honest_msn = s->h.msn + 1;
	}
}

void stream_drain(struct stream *s, uint32_t most)
{
	static uint8_t buf[65536];

	while (s->fd >= 0 && most) {
		ssize_t n = recv(s->fd, buf, most < sizeof(buf) ? most : sizeof(buf), 0);

		if (n <= 0)
			return;
		look_at(s, buf, (size_t)n);
		most -= (uint32_t)n;
	}
}

/* ---- completions ------------------------------------------------------------------------------------- */

uint8_t *slot_at(unsigned i)
{
	return mem + w->at[i < NUM_SLOTS ? RECV : RECV_PVM] + i % NUM_SLOTS * SLOT;
}

struct mr *slot_mr(unsigned i)
{
	return w->mr[i < NUM_SLOTS ? RECV : RECV_PVM];
}

static bool is_filled(const uint8_t *p, uint32_t n)
{
	return !memchr(p, EMPTY, n);
}

/* A slot is the program's again: from now on it does not change. */
void slot_free(unsigned i)
{
	const uint8_t *p = slot_at(i);

	w->slot[i].use = FREE;
	memcpy(want + (p - mem), p, w->slot[i].len);
}

static void completion(const struct ff_cqe *c)
{
	unsigned i = (unsigned)c->wr_id;
	bool is_recv = c->opcode & FF_CQE_RECV;
	struct slot *s;

	if (i >= 2 * NUM_SLOTS)
		return;
	s = &w->slot[i];
	must(is_recv ? s->use == FOR_RECV : s->use == FOR_READ || s->use == FOR_ATOMIC);
	if (c->status == IBV_WC_SUCCESS && !(c->opcode == (FF_CQE_RECV | 1))) {
		must(c->byte_len <= s->len);
		must(is_filled(slot_at(i), is_recv ? c->byte_len : s->len));
	}
	slot_free(i);
}

void world_poll(void)
{
	struct ff_cqe c;
	uint32_t handle;

	while (rig_poll(w->cq, &c))
		completion(&c);
	while (rig_poll(w->good_cq, &c))
		must(c.status == IBV_WC_SUCCESS);
	while (rig_async(w->s, &handle))
		;
}

void world_turn(void)
{
	struct epoll_event ev[8];
	int n = epoll_wait(fast()->epoll_fd, ev, 8, 0);

	fast_bells(fast(), ev, n);
	fast_turn(fast());
	world_poll();
}

/* ---- memory ------------------------------------------------------------------------------------------ */

static void same(uint32_t from, uint32_t to)
{
	must(!memcmp(mem + from, want + from, to - from));
}

void world_check(void)
{
	uint32_t at = 0;

	for (int a = 0; a < NUM_AREAS; a++) {
		if (a == RECV || a == RECV_PVM)
			continue;
		if (a != OPEN && a != OPEN_PVM) {
			same(w->at[a], w->at[a] + areas[a].size + GAP);
			continue;
		}
		at = w->at[a] + areas[a].size;
		same(at, at + GAP);
	}
	same(0, GAP);
	for (unsigned i = 0; i < 2 * NUM_SLOTS; i++) {
		at = (uint32_t)(slot_at(i) - mem);
		if (i >= NUM_SLOTS) /* a worker may be late, and write what was flushed */
			same(at + SLOT_MAX, at + SLOT);
		else
			same(at + (w->slot[i].use == FREE ? 0 : w->slot[i].len), at + SLOT);
	}
	same(w->at[RECV] + areas[RECV].size, w->at[RECV] + areas[RECV].size + GAP);
	same(w->at[RECV_PVM] + areas[RECV_PVM].size, w->at[RECV_PVM] + areas[RECV_PVM].size + GAP);
}

bool world_reaches(uint64_t va, uint32_t len)
{
	for (int a = 0; a < NUM_AREAS; a++)
		if (areas[a].pvm && va >= addr_of(a) && va + len <= addr_of(a) + areas[a].size)
			return true;
	abort(); /* nothing else is behind a process */
}

void mr_again(enum area a)
{
	struct rig_ses *s = a == OTHER_CONT || a == HONEST ? w->good : w->s;

	if (w->mr[a])
		rig_mr_free(&w->r, w->mr[a]);
	w->mr[a] = (areas[a].pvm ? rig_mr_pvm : rig_mr)(&w->r, s, mem + w->at[a], areas[a].size,
							areas[a].access);
	if (a == OTHER_PD)
		w->mr[a]->pd = &w->pd;
}

/* ---- the honest one ----------------------------------------------------------------------------------- */

/* A WRITE of the other router's, which comes whole and is acknowledged. */
void honest_write(void)
{
	struct wire_hdr h = {
		.type = WIRE_REQ,
		.opcode = FF_OP_WRITE,
		.flags = WIRE_LAST,
		.len = 100,
		.dst_qpn = w->honest->qp.qp_num,
		.src_qpn = PEER_QPN,
		.dst_cont = w->r.cont[1].id,
		.dst_epoch = 1,
		.src_cont = HONEST_ID,
		.src_epoch = 1,
		.tag = 77,
		.msn = w->honest_msn,
		.req = { .addr = addr_of(HONEST), .length = 100, .rkey = w->mr[HONEST]->rkey },
	};
	uint8_t data[100];
	uint32_t was = w->honest_msn;

	memset(data, (int)(1 + was % 64), sizeof(data));
	must(send(w->friend.fd, &h, sizeof(h), 0) == sizeof(h));
	must(send(w->friend.fd, data, sizeof(data), 0) == sizeof(data));
	for (int i = 0; i < 100 && w->honest_msn == was; i++) {
		world_turn();
		stream_drain(&w->friend, UINT32_MAX);
	}
	must(w->honest_msn == was + 1);
	must(!memcmp(mem + w->at[HONEST], data, sizeof(data)));
	memcpy(want + w->at[HONEST], data, sizeof(data));
}

/* ---- life -------------------------------------------------------------------------------------------- */

static void know(struct stream *s, uint32_t id, unsigned n)
{
	struct remote *r = &s->remote;

	r->id = id;
	r->epoch = 1;
	strcpy(r->tenant, "t");
	memcpy(r->gid[0].raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\0", 15);
	r->gid[0].raw[15] = (uint8_t)id;
	r->num_gids = 1;
	r->lid = (uint16_t)id;
	r->peer = &s->peer;
	r->refs = s->peer.refs = 1;
	s->peer.up = true;
	s->fd = -1;
	w->o.remote[n] = r;
	w->o.peer[n] = &s->peer;
}

void connect_line(unsigned i)
{
	struct line *l = &w->line[i];
	struct ff_qp_attr *a = &l->qp->attr;

	a->dest_qp_num = PEER_QPN + i;
	a->ah.is_global = 1;
	memcpy(a->ah.dgid, w->liar.remote.gid[0].raw, 16);
	if (l->rq) {
		rig_connect(&w->r, l->rq, NULL);
	} else {
		fast_qp_set_state(fast(), l->qp, IBV_QPS_INIT);
		a->qp_access_flags = REMOTE_ALL;
		a->min_rnr_timer = 1;
		a->max_dest_rd_atomic = 4;
		fast_qp_set_state(fast(), l->qp, IBV_QPS_RTR);
	}
	a->max_rd_atomic = a->max_dest_rd_atomic = 4;
}

static void add_ah(struct ah *ah, const union ibv_gid *gid, bool mcast)
{
	ah->o.kind = OBJ_AH;
	ah->o.ses = &w->s->s;
	ah->pd = &w->s->pd;
	ah->mcast = mcast;
	ah->attr.is_global = 1;
	memcpy(ah->attr.dgid, gid->raw, 16);
	must(!obj_insert(&w->s->s.tab[OBJ_AH], &ah->o));
}

static void add_memory(void)
{
	uint32_t at = GAP;

	for (int a = 0; a < NUM_AREAS; a++) {
		w->at[a] = at;
		at += areas[a].size + GAP;
	}
	must(at <= sizeof(mem));
	memset(mem, SECRET, at);
	for (int a = 0; a < NUM_AREAS; a++)
		memset(mem + w->at[a], areas[a].fill, areas[a].size);
	memcpy(want, mem, at);
	for (int a = 0; a < NUM_AREAS; a++)
		mr_again((enum area)a);
}

static void add_xrc(void)
{
	struct qp *t = xrc_target_new();

	w->xref.xrcd = &w->xrcd;
	xrcd_hold(&w->xrcd, &w->r.cont[0]);
	w->user.type = IBV_QPT_XRC_RECV;
	w->user.xrc.ref = &w->xref;
	w->user.o.kind = OBJ_QP;
	w->user.o.ses = &w->s->s;
	must(!obj_insert(&w->s->s.tab[OBJ_QP], &w->user.o));
	must(!xrc_target_add(fast(), t, &w->user));
	w->line[XRC_IN].qp = t;
	for (int i = 0; i < 2; i++) {
		w->xsrq[i] = rig_srq(&w->r, w->s, 16);
		w->xsrq[i]->srq.xref = &w->xref;
		w->xsrq[i]->srq.cq = &w->cq->cq;
		xrc_srq_add(&w->xsrq[i]->srq, &w->last_srqn);
	}
}

static void add_lines(void)
{
	static const enum ibv_qp_type type[NUM_LINES] = {
		[RC] = IBV_QPT_RC, [RC_SRQ] = IBV_QPT_RC,	 [UC] = IBV_QPT_UC,
		[UD] = IBV_QPT_UD, [XRC_OUT] = IBV_QPT_XRC_SEND,
	};

	w->srq = rig_srq(&w->r, w->s, 16);
	add_xrc();
	for (unsigned i = 0; i < NUM_LINES; i++) {
		struct line *l = &w->line[i];

		if (i != XRC_IN) {
			l->rq = rig_qp(&w->r, w->s, type[i], w->cq, w->cq,
				       i == RC_SRQ ? w->srq : NULL);
			l->qp = &l->rq->qp;
		}
		connect_line(i);
	}
	must(!mcast_attach(w->r.f, w->line[UD].qp, &world_group, 0));
	add_ah(&w->ah, &w->liar.remote.gid[0], false);
	add_ah(&w->group_ah, &world_group, true);
}

static void add_honest(void)
{
	struct ff_qp_attr *a;

	w->good_cq = rig_cq(&w->r, w->good, 16, false);
	w->honest = rig_qp(&w->r, w->good, IBV_QPT_RC, w->good_cq, w->good_cq, NULL);
	a = &w->honest->qp.attr;
	a->dest_qp_num = PEER_QPN;
	a->ah.is_global = 1;
	memcpy(a->ah.dgid, w->friend.remote.gid[0].raw, 16);
	rig_connect(&w->r, w->honest, NULL);
}

void world_build(void)
{
	rig_init(&w->r, &soft_ops);
	fast()->now = 1000000;
	for (unsigned i = 0; i < 4; i++) {
		w->r.cont[i].id = 10 + i;
		w->r.cont[i].epoch = 1;
	}
	know(&w->liar, LIAR_ID, 0);
	know(&w->friend, HONEST_ID, 1);
	w->o.f = fast();
	others_add(&w->o);
	fake_pvm.reaches = world_reaches;
	w->s = rig_session(&w->r, 0);
	w->good = rig_session(&w->r, 1);
	w->cq = rig_cq(&w->r, w->s, 256, true);
	add_memory();
	stream_open(&w->friend);
	stream_open(&w->liar);
	add_lines();
	add_honest();
}

void world_tear_down(void)
{
	for (unsigned i = 0; i < NUM_LINES; i++)
		if (i != XRC_IN)
			rig_qp_free(&w->r, w->line[i].rq);
	rig_qp_free(&w->r, w->honest);
	for (int i = 0; i < 2; i++) {
		xrc_srq_del(fast(), &w->xsrq[i]->srq);
		rig_srq_free(&w->r, w->xsrq[i]);
	}
	xrc_target_free(xrc_user_del(fast(), &w->user));
	obj_remove(&w->s->s.tab[OBJ_QP], &w->user.o);
	xrcd_release(&w->xrcd, &w->r.cont[0]);
	rig_srq_free(&w->r, w->srq);
	obj_remove(&w->s->s.tab[OBJ_AH], &w->ah.o);
	obj_remove(&w->s->s.tab[OBJ_AH], &w->group_ah.o);
	stream_cut(&w->liar);
	stream_cut(&w->friend);
	for (int a = 0; a < NUM_AREAS; a++)
		rig_mr_free(&w->r, w->mr[a]);
	rig_cq_free(&w->r, w->cq);
	rig_cq_free(&w->r, w->good_cq);
	rig_session_free(&w->r, w->s);
	rig_session_free(&w->r, w->good);
	rig_fini(&w->r);
	others_del(&w->o);
	must(w->liar.remote.refs == 1 && w->friend.remote.refs == 1);
	must(w->liar.peer.refs == 1 && w->friend.peer.refs == 1);
	must(!fake_pvm.calls);
}
