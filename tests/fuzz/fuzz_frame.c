/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/fuzz/frame_world.c tests/rig/unit/rig.c tests/rig/unit/others.c tests/rig/fakes/fake_pvm.c @lib @keeper @obj @mem @fast ffr/peer/io.c @wire @soft @remote -lbsd */
/*
 * fuzz_frame.c - libFuzzer target: a router of another host that sends whatever it likes, beside one
 * that behaves.
 *
 * The input is a program: frames whose fields are right or nearly so, where the stream is cut, turns
 * and time, WRs and receives of our own programs, ends of connections, resets of QPs, news of the
 * directory, and how copies behind a process end. What must hold:
 *	- memory that no rkey, no posted receive and no READ of ours opens never changes;
 *	- none of it goes out;
 *	- a completion with success had all its bytes come in, and each receive ends once;
 *	- each responder's state says what is so;
 *	- what goes out are frames;
 *	- the other router's QP is served, and in the end the fast path comes to rest.
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include "ffr/lib/log.h"
#include "ffr/fast/xrc.h"
#include "ffr/wire/cm.h"
#include "tests/fuzz/frame_world.h"
#include "tests/rig/fakes/fake_pvm.h"

#define OUT_MAX (1u << 20)

static uint8_t payload[WIRE_PAYLOAD_MAX + 256];
static uint8_t out[OUT_MAX]; /* the liar's frames that are not in the socket yet */

static uint8_t byte(void)
{
	if (!w->left)
		return 0;
	w->left--;
	return *w->in++;
}

#define PICK(table) ((table)[byte() % ARRAY_SIZE(table)])

static enum pvm_fate fate(void)
{
	uint32_t f = w->fates & 7;

	w->fates = w->fates >> 3 | w->fates << 29;
	return f < PVM_NUM_FATES ? (enum pvm_fate)f : PVM_AT_ONCE;
}

/* Now and then there is no room for one more call. */
static bool full(void)
{
	return fate() == PVM_NUM_FATES - 1 && w->fates & 1;
}

/* ---- the liar's frames ----------------------------------------------------------------------------------- */

static void push(const void *p, uint32_t n)
{
	if (n > OUT_MAX - w->out_len)
		return;
	memcpy(out + w->out_len, p, n);
	w->out_len += n;
}

static void push_frame(struct wire_hdr *h, uint8_t how)
{
	uint32_t len = h->len;

	if (how >= 0xe0) {
		uint8_t i = byte();

		((uint8_t *)h)[i % sizeof(*h)] ^= byte();
		len = h->len < sizeof(payload) ? h->len : 0;
	}
	push(h, sizeof(*h));
	push(payload, len);
}

/* Sends up to n bytes of them, and what does not fit into the socket after a turn. */
static void deliver(uint32_t n)
{
	struct stream *s = &w->liar;

	while (n && w->out_at < w->out_len) { /* a turn may have delivered, or cut, on its own */
		ssize_t k = w->out_len - w->out_at;

		if (!s->peer.tcp)
			stream_open(s);
		k = send(s->fd, out + w->out_at, n < k ? n : (size_t)k, MSG_NOSIGNAL);
		if (k < 0 && errno == EAGAIN) {
			world_turn();
			continue;
		}
		if (k < 0) { /* the router has ended it */
			world_turn();
			stream_cut(s);
			break;
		}
		w->out_at += (uint32_t)k;
		n -= (uint32_t)k;
	}
	if (w->out_at >= w->out_len)
		w->out_at = w->out_len = 0;
}

static const uint32_t lengths[] = { 0, 1, 8, 9, 100, 1000, 2000, 2048, 5000, 65536, 65537, 90000 };
static const uint32_t chunks[] = { UINT32_MAX, UINT32_MAX, UINT32_MAX, 1, 8, 80, 1000, 20000 };

/* Where requests of either side go to. */
static uint32_t target(uint64_t *addr)
{
	static const enum area a[] = { OPEN,	  OPEN, OPEN,	  OPEN,	    OPEN,
				       OPEN,	  OPEN, OPEN_PVM, OPEN_PVM, OPEN_PVM,
				       READ_ONLY, RECV, RECV_PVM, OTHER_PD, OTHER_CONT };
	static const int32_t off[] = { 0,  0,	0,    8,    8,	  16,	16, 24,
				       64, 512, 1000, 4088, 4089, 4096, -8, 40000 };
	uint8_t which = byte() % (ARRAY_SIZE(a) + 1);

	if (which == ARRAY_SIZE(a)) {
		*addr = addr_of(HONEST);
		return byte() * 0x0101u;
	}
	*addr = addr_of(a[which]) + (uint64_t)(int64_t)PICK(off);
	return w->mr[a[which]]->rkey;
}

/* What is added to a number that is right otherwise. */
static uint32_t wrong_by(uint8_t how)
{
	return (how & 0x70) == 0x60 ? (uint32_t)(int8_t)byte() : 0;
}

/*
 * One of n operations, or of those that have no bytes of their own. Few numbers are theirs, so that a file
 * of the corpus still means what it did before these were there.
 */
static uint8_t operation(uint8_t b, const uint8_t *ops, unsigned n)
{
	if (b >= 240)
		return b & 1 ? FF_OP_FLUSH : FF_OP_ATOMIC_WRITE;
	return ops[b % n];
}

static bool is_bare(uint8_t op)
{
	return op == FF_OP_FLUSH || op == FF_OP_ATOMIC_WRITE;
}

static void make_req(struct line *l, struct wire_hdr *h, uint8_t how)
{
	static const uint8_t ops[] = { FF_OP_SEND,     FF_OP_SEND,	FF_OP_SEND_IMM, FF_OP_WRITE,
				       FF_OP_WRITE,    FF_OP_WRITE_IMM, FF_OP_READ,	FF_OP_READ,
				       FF_OP_CMP_SWAP, FF_OP_FETCH_ADD, FF_OP_SEND_INV };
	const struct remote_qp *rq = rem(l);
	uint64_t n;

	if (how & 1 || w->out_at == w->out_len) { /* go by what the router expects */
		bool open = rq && rq->rx.state != RX_CLOSED;

		if (!open || l->msn != rq->rx.msn || l->off != rq->rx.off)
			l->off = 0;
		l->msn = open ? rq->rx.msn : 0;
		l->tag = open ? rq->rx.tag : how;
	}
	if ((how & 0x0c) == 0x0c) /* another one in its place */
		l->off = 0;
	if (!l->off) {
		l->opcode = operation(byte(), ops, ARRAY_SIZE(ops));
		l->length = PICK(lengths);
		l->rkey = target(&l->addr);
	}
	n = PICK(chunks);
	if (n > l->length - l->off)
		n = l->length - l->off;
	if (n > WIRE_PAYLOAD_MAX)
		n = WIRE_PAYLOAD_MAX;
	h->opcode = l->opcode;
	h->flags = how & 4 ? WIRE_SOLICITED : 0;
	h->tag = l->tag;
	h->msn = l->msn + wrong_by(how);
	if (ff_op_is_word(l->opcode)) {
		h->atomic.addr = l->addr;
		h->atomic.compare_add = byte() & 3;
		h->atomic.swap = byte();
		h->atomic.rkey = l->rkey;
		h->atomic.srqn = w->xsrq[how >> 1 & 1]->srq.num;
	} else if (l->opcode == FF_OP_FLUSH) {
		h->flush.addr = l->addr;
		h->flush.length = l->length;
		h->flush.rkey = l->rkey;
		h->flush.srqn = w->xsrq[how >> 1 & 1]->srq.num;
		h->flush.types = byte() & 3;
		h->flush.level = byte() % 3;
	} else {
		h->req.addr = l->addr;
		h->req.length = l->length;
		h->req.rkey = l->rkey;
		h->req.imm = w->mr[OPEN]->rkey;
		h->req.srqn = w->xsrq[how >> 1 & 1]->srq.num;
		if (l->opcode == FF_OP_READ && how & 8)
			h->req.most = 1u << (how >> 3);
	}
	if ((how & 0x32) == 0x32) {
		h->flags |= WIRE_PROBE;
		return;
	}
	h->offset = l->off;
	if (!ff_op_fetches(l->opcode) && (!is_bare(l->opcode) || (how & 0x70) == 0x50)) {
		h->len = (uint32_t)n;
		l->off += n;
	}
	if (ff_op_fetches(l->opcode) || is_bare(l->opcode) || l->off == l->length) {
		h->flags |= WIRE_LAST;
		l->msn++;
		l->off = 0;
	}
}

/* Answers to the first fetch of that kind that is under way. */
static bool make_data(struct line *l, struct wire_hdr *h, uint8_t how)
{
	const struct remote_qp *rq = rem(l);
	const struct sent *s = NULL;
	uint64_t n = PICK(chunks);
	uint32_t m;

	if (!rq)
		return false;
	for (m = rq->tx.una; m != rq->tx.nxt; m++) {
		s = remote_sent_wr(rq, m);
		if (!s->done && ff_op_fetches(s->wr.opcode) &&
		    (s->wr.opcode == FF_OP_READ) == (h->type == WIRE_READ_DATA))
			break;
	}
	if (m == rq->tx.nxt)
		return false;
	h->tag = rq->tx.tag;
	h->msn = m + wrong_by(how);
	if (h->type == WIRE_ATOMIC_DATA) {
		h->atomic_data.orig = 0x0101010101010101ull * (1 + byte() % 16);
		return true;
	}
	if (how & 1 || l->read_msn != m)
		l->read_off = s->got;
	l->read_msn = m;
	if (l->read_off > s->wr.length)
		l->read_off = 0;
	if (n > s->wr.length - l->read_off)
		n = s->wr.length - l->read_off;
	if (n > WIRE_PAYLOAD_MAX)
		n = WIRE_PAYLOAD_MAX;
	h->offset = l->read_off;
	h->len = (uint32_t)n;
	l->read_off += n;
	return true;
}

static void make_ud(struct wire_hdr *h, uint8_t how)
{
	static const uint32_t len[] = { 40, 41, 140, 1040, 39, 0, 4136, 4137 };

	h->opcode = how & 1 ? FF_OP_SEND_IMM : FF_OP_SEND;
	h->len = PICK(len);
	h->dst_qpn = w->line[(how & 0x0a) == 0x0a ? how >> 4 & 3 : UD].qp->qp_num;
	h->ud.qkey = 0x1111;
	if (how & 4) {
		h->flags |= WIRE_MCAST;
		memcpy(h->ud.mgid, &world_group, sizeof(world_group));
	}
}

/* ---- our own programs ----------------------------------------------------------------------------------- */

/* A slot for that use, or -1. */
static int slot_new(unsigned line, enum slot_use use, uint32_t len, bool pvm)
{
	unsigned first = pvm ? NUM_SLOTS : 0;

	for (unsigned i = first; i < first + NUM_SLOTS; i++) {
		if (w->slot[i].use != FREE)
			continue;
		w->slot[i] = (struct slot){ use, len, line };
		memset(slot_at(i), EMPTY, len);
		return (int)i;
	}
	return -1;
}

/* Spread the last receive over several entries. */
static void split(uint8_t *ring, uint32_t i, uint32_t depth, uint32_t stride, uint32_t at)
{
	struct ff_rqe *e = (struct ff_rqe *)(ring + (size_t)(i & (depth - 1)) * stride);
	struct ff_sge all = e->sge[0];

	if (at > all.length)
		return;
	e->num_sge = 3;
	e->sge[0].length = at;
	(&e->sge[0])[1] = (struct ff_sge){ all.addr, 0, all.lkey };
	(&e->sge[0])[2] = (struct ff_sge){ all.addr + at, all.length - at, all.lkey };
}

static void post_recv(uint8_t which, bool pvm)
{
	static const uint32_t len[] = { 2000, 1999, 1000, 100, 8, 1, 0 };
	unsigned i = w->now;
	struct line *l = &w->line[i];
	uint32_t n = len[which % ARRAY_SIZE(len)], at = which * 3u;
	struct rig_srq *srq = i == RC_SRQ ? w->srq : i == XRC_IN ? w->xsrq[n & 1] : NULL;
	int k;

	if (i == XRC_OUT ||
	    (srq ? srq->tail - srq->srq.head : l->rq->rq_tail - l->qp->rq.head) > 13)
		return;
	k = slot_new(i, FOR_RECV, n, pvm);
	if (k < 0)
		return;
	if (srq) {
		rig_srq_recv(&w->r, srq, (uint64_t)k, slot_mr((unsigned)k), (uintptr_t)slot_at(k),
			     n);
		split(srq->srq.ring, srq->tail - 1, srq->srq.depth, srq->srq.stride, at);
	} else {
		rig_recv(&w->r, l->rq, (uint64_t)k, slot_mr((unsigned)k), (uintptr_t)slot_at(k), n);
		split(l->qp->rq.ring, l->rq->rq_tail - 1, l->qp->rq.depth, l->qp->rq.stride, at);
	}
}

static void post_send(uint8_t kind)
{
	static const uint8_t ops[] = { FF_OP_SEND, FF_OP_SEND_IMM, FF_OP_WRITE,	   FF_OP_WRITE_IMM,
				       FF_OP_READ, FF_OP_READ,	   FF_OP_CMP_SWAP, FF_OP_FETCH_ADD };
	unsigned i = w->now;
	struct line *l = &w->line[i];
	struct qp *qp = l->qp;
	uint8_t op = i == UD ? FF_OP_SEND : operation(kind, ops, ARRAY_SIZE(ops)), how = byte();
	uint32_t len = PICK(lengths);
	struct ff_sqe *e;
	int k = 255;

	if (i == XRC_IN || l->rq->sq_tail - (qp->sq.head - qp->busy - qp->in_flight) > 13 ||
	    (i == UC && (ff_op_fetches(op) || is_bare(op))))
		return;
	if (ff_op_fetches(op)) {
		if (op != FF_OP_READ)
			len = 8;
		if (len > SLOT_MAX)
			len = SLOT_MAX;
		k = slot_new(i, op == FF_OP_READ ? FOR_READ : FOR_ATOMIC, len, how & 8);
		if (k < 0)
			return;
	} else if (i == UD && len > 4096) {
		len = 4096;
	}
	e = rig_sqe(l->rq, op, (uint64_t)k);
	if (ff_op_fetches(op))
		rig_sge(e, slot_mr((unsigned)k), (uintptr_t)slot_at(k), len);
	else if (!is_bare(op))
		rig_sge(e, w->mr[how & 1 ? OPEN : OPEN_PVM], addr_of(how & 1 ? OPEN : OPEN_PVM),
			len);
	if (how & 2)
		e->flags |= FF_SQE_FENCE;
	e->rkey = target(&e->remote_addr);
	if (op == FF_OP_FLUSH) {
		e->flush.length = len;
		e->flush.types = 1 + how % 3;
		e->flush.level = how >> 4 & 1;
	} else if (op == FF_OP_ATOMIC_WRITE) {
		e->atomic.compare_add = how;
	}
	if (i == UD) {
		e->ud.ah = how & 4 ? w->group_ah.o.handle : w->ah.o.handle;
		e->ud.remote_qpn = how & 4 ? 0xffffff : PEER_QPN;
		e->ud.remote_qkey = 0x1111;
	} else if (i == XRC_OUT) {
		if (ff_op_srqn_in_imm(op))
			e->imm = 5;
		else
			e->remote_srqn = 5;
	}
	rig_post(&w->r, l->rq);
}

/* What was posted is gone with its ring; what others have taken of an SRQ ends nowhere. */
static void forget_slots(unsigned line)
{
	for (unsigned i = 0; i < 2 * NUM_SLOTS; i++)
		if (w->slot[i].use != FREE && w->slot[i].line == line &&
		    (w->slot[i].use != FOR_RECV || (line != RC_SRQ && line != XRC_IN)))
			slot_free(i);
}

static void change_qp(uint8_t how)
{
	unsigned i = (how & 31) % NUM_LINES;
	struct line *l = &w->line[i];
	enum ibv_qp_state st = how & 0x40 ? IBV_QPS_ERR : IBV_QPS_RESET;

	if (st == IBV_QPS_ERR && how & 0x20) {
		fast_qp_error(fast(), l->qp, IBV_EVENT_QP_FATAL);
		return;
	}
	if (l->rq)
		rig_state(&w->r, l->rq, IBV_QPS_RESET);
	else
		fast_qp_set_state(fast(), l->qp, IBV_QPS_RESET);
	world_poll(); /* before the same numbers are posted again */
	forget_slots(i);
	connect_line(i);
}

static void srq_again(struct rig_srq *q)
{
	xrc_srq_del(fast(), &q->srq);
	xrc_srq_add(&q->srq, &w->last_srqn);
}

/* ---- both --------------------------------------------------------------------------------------------- */

static void frame(void)
{
	static const uint8_t types[] = {
		WIRE_REQ, WIRE_REQ,  WIRE_REQ, WIRE_REQ, WIRE_READ_DATA,   WIRE_READ_DATA,
		WIRE_ACK, WIRE_NAK,  WIRE_ASK, WIRE_GO,	 WIRE_ATOMIC_DATA, WIRE_UD,
		WIRE_UD,  WIRE_PING, WIRE_CM,  WIRE_PONG
	};
	unsigned i = w->now;
	struct line *l = &w->line[i];
	struct remote_qp *rq = rem(l);
	struct wire_hdr h = {
		.type = PICK(types),
		.dst_qpn = l->qp->qp_num,
		.src_qpn = PEER_QPN + i,
		.dst_cont = w->r.cont[0].id,
		.dst_epoch = 1,
		.src_cont = LIAR_ID,
		.src_epoch = 1,
		.tag = rq ? rq->tx.tag : 0,
	};
	uint8_t how = byte();

	if (l->qp->state == IBV_QPS_ERR && how & 6) {
		change_qp((uint8_t)i);
		return;
	}
	switch (h.type) {
	case WIRE_REQ:
		make_req(l, &h, how);
		break;
	case WIRE_ATOMIC_DATA:
	case WIRE_READ_DATA:
		if (!make_data(l, &h, how)) { /* so that there is something to answer */
			post_send(h.type == WIRE_READ_DATA ? 4 : 6);
			world_turn();
			return;
		}
		break;
	case WIRE_ACK:
	case WIRE_NAK:
		h.code = (uint8_t)(1 + byte() % 8);
		if (rq && rq->tx.phase == REM_LATER && how & 8)
			h.code = NAK_PROBE_OK;
		h.nak.rnr_timer = how & 31;
		h.msn = (rq ? rq->tx.una : 0) + (how & 3) - ((how & 0x70) == 0x60 ? 2 : 0);
		if (how & 4) /* part of it is there */
			h.offset = 1000;
		break;
	case WIRE_ASK:
		h.tag = rq ? rq->rx.tag : 0;
		h.msn = (rq ? rq->rx.msn : 0) - (how & 3);
		h.flags = how & 4 ? WIRE_STEP : 0;
		break;
	case WIRE_UD:
		make_ud(&h, how);
		break;
	case WIRE_CM:
		h.len = how;
		break;
	case WIRE_PING:
		for (uint32_t n = how > 250 ? 4000 : 0; n;
		     n--) /* more answers than there is room for */
			push_frame(&h, 0);
		break;
	default:
		break;
	}
	push_frame(&h, how);
}

static void woken(struct fast_host *h)
{
	(void)h;
}

/* The connection manager's: one goes out, those that came are taken. */
static void messages(void)
{
	struct wire_hdr h = { .type = WIRE_CM, .len = 100 };
	struct cm_frame *m;
	struct remote *from;

	if (w->liar.peer.tcp)
		wire_send(fast(), &w->liar.peer, &h, payload);
	while ((m = wire_cm_take(fast(), &from))) {
		must(from->peer == m->peer);
		wire_cm_taken(fast(), m);
	}
}

/* What the control thread does; also in the middle of a copy behind a process. */
static void control(uint8_t what)
{
	switch (what & 7) {
	case 0:
	case 1:
		change_qp(what >> 1);
		break;
	case 2:
		stream_cut(&w->liar);
		w->out_at = w->out_len = 0;
		break;
	case 3:
		srq_again(w->xsrq[what >> 3 & 1]);
		break;
	case 4:
		mr_again(what >> 3 & 3);
		break;
	case 5:
		w->o.map = (enum map_answer)(what >> 3 & 3) % 3;
		remote_changed(fast(), &w->liar.remote);
		break;
	case 6:
		/* the container is not known, has moved, or its host is down; and is as it was */
		w->liar.remote.epoch = what & 8 ? 0 : what & 16 ? 2 : 1;
		w->liar.remote.peer->up = what & 32;
		remote_changed(fast(), &w->liar.remote);
		if (what & 64)
			break;
		w->liar.remote.epoch = 1;
		w->liar.remote.peer->up = true;
		remote_changed(fast(), &w->liar.remote);
		break;
	default:
		if (what & 8) {
			messages();
			break;
		}
		/* policy, of one host only: the other's QP stays */
		w->liar.remote.tenant[0] = 'x';
		remote_policy_changed(fast());
		w->liar.remote.tenant[0] = 't';
		break;
	}
}

/* Others have the lock while a copy behind a process is under way. */
static void meanwhile(enum pvm_fate fate)
{
	uint8_t what = byte();

	if (what & 0x80)
		control(what & 0x7f);
	for (unsigned i = 0; fate == PVM_STUCK && i < (what & 3); i++) {
		if (what & 4)
			deliver(byte());
		world_turn();
	}
}

static void check_states(void)
{
	for (unsigned i = 0; i < NUM_LINES; i++) {
		const struct line *l = &w->line[i];
		const struct remote_qp *rq = rem(l);

		if (!rq)
			continue;
		must(rq->rx.state == RX_CLOSED || route_receives(l->qp));
		switch (rq->rx.state) {
		case RX_CLOSED:
			must(rq->rx.job_head == rq->rx.job_tail);
			break;
		case RX_EXPECT:
			must(!rq->rx.off);
			break;
		case RX_TAKE:
		case RX_DROP:
			break;
		case RX_TAKE_RECV:
		case RX_DROP_RECV:
			must(l->qp->soft->resp.recv != RECV_NONE);
			break;
		case RX_STALL:
		case RX_STALL_CUT:
			must(rq->is_stalled);
			break;
		case RX_STALL_RECV:
			must(rq->is_stalled && l->qp->soft->resp.recv != RECV_NONE);
			break;
		case RX_REFUSE_RECV:
			must(qp_is_reliable(l->qp) && l->qp->soft->resp.recv != RECV_NONE);
			break;
		case RX_REFUSE:
		case RX_MISFIT:
			must(qp_is_reliable(l->qp));
			break;
		default:
			must(false);
		}
	}
}

/* Nobody answers any more: everything ends, and the fast path has nothing to do. */
static void rest(void)
{
	unsigned i;

	w->left = 0;
	deliver(OUT_MAX);
	stream_drain(&w->liar, UINT32_MAX);
	honest_write();
	stream_cut(&w->liar);
	while (fake_pvm_work(fast(), &w->s->s))
		world_turn();
	for (i = 0; i < 20; i++) {
		fast()->now += 100 * NS_PER_MS;
		world_turn();
	}
	for (i = 0; i < 100 && fast_turn(fast()); i++)
		world_poll();
	must(i < 100);
	honest_write();
}

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *in, size_t len)
{
	static const uint64_t ns[] = { 10 * NS_PER_US,	NS_PER_MS,	 2 * NS_PER_MS,
				       17 * NS_PER_MS,	25 * NS_PER_MS,	 70 * NS_PER_MS,
				       210 * NS_PER_MS, 600 * NS_PER_MS, 3000 * NS_PER_MS };
	uint8_t arg;

	log_level = LOG_LEVEL_ERR;
	if (!payload[0])
		for (size_t i = 0; i < sizeof(payload); i++)
			payload[i] = (uint8_t)(1 + i % 61);
	w = calloc(1, sizeof(*w));
	w->in = in;
	w->left = len < 2048 ? len : 2048;
	fake_pvm.fate = fate;
	fake_pvm.full = full;
	fake_pvm.meanwhile = meanwhile;
	world_build();
	fast()->host->cm_wake = woken;
	for (w->now = NUM_LINES; w->now--;)
		post_recv(0, w->now & 1);
	w->now = RC;
	while (w->left) {
		switch (byte() % 16) {
		case 0:
		case 1:
		case 2:
		case 3:
		case 4:
			frame();
			if (!(byte() & 3))
				break;
			deliver(OUT_MAX);
			world_turn();
			break;
		case 5:
			deliver(byte() * 7u);
			world_turn();
			break;
		case 6:
		case 7:
			deliver(OUT_MAX);
			world_turn();
			break;
		case 8:
			w->now = byte() % NUM_LINES;
			break;
		case 9:
			fast()->now += PICK(ns);
			world_turn();
			break;
		case 10:
			control(byte() & 0x7f);
			break;
		case 11:
			arg = byte();
			post_recv(arg >> 1, arg & 1);
			break;
		case 12:
			post_send(byte());
			break;
		case 13:
			arg = byte();
			stream_drain(&w->liar, arg & 1 ? UINT32_MAX : arg * 99u);
			world_turn();
			break;
		case 14:
			for (int i = 0; i < 3; i++)
				w->fates = w->fates << 8 | byte();
			break;
		default:
			if (byte() & 1)
				fake_pvm_work(fast(), &w->s->s);
			else
				honest_write();
			break;
		}
		world_poll();
		world_check();
		check_states();
	}
	rest();
	world_check();
	check_states();
	wire_cm_stop(fast());
	world_tear_down();
	free(w);
	return 0;
}
