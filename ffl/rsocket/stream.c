/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stream.c - SOCK_STREAM: bytes from the program's buffer to the peer's ring and from the
 * own ring to the program's buffer. cm.c makes the connection, io.c calls.
 *
 * Each direction has a ring of bytes in the receiver's memory. The sender adds to it with RDMA
 * WRITEs whose immediate data says how many bytes came (RS_MSG_DATA); the receiver counts them
 * and copies from the ring to the program's buffer, in pieces that need not be the sender's. The
 * sender's buffer has the ring's size and the same bytes at the same offset: when the receiver has
 * given bytes back, the WRITE that brought them has been executed, and the sender's copy is free
 * together with the receiver's. So no completion is needed to reuse it.
 *
 * Credits: bytes, given back by quarters of the ring (RS_MSG_BYTES), and messages, given back by
 * halves (RS_MSG_MSGS), since each takes a receive WQE. A receive carries no buffer and is posted
 * again when its completion is taken, so that the receive queue never runs dry: it has RQ_RESERVE
 * more entries than there are data messages in flight. Messages other than data need no credit,
 * there are at most four BYTES, two MSGS, FIN and CLOSE not yet taken by the peer; RQ_RESERVE
 * covers them and the receives that wait to be posted in a batch. Therefore everything that was
 * posted is executed without the peer's program doing anything, and a close can wait for it.
 *
 * Sending takes no lock but send_lock while there are credits; receiving none but recv_lock while
 * there are bytes.
 */
#include <endian.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "ffl/session/freeflow.h"
#include "ffl/rsocket/rsocket.h"

#define RQ_RESERVE 32u	       /* receives beyond those for data */
#define RQ_BATCH   16u	       /* receives that are posted at once */
#define CTL_SLOTS  16u	       /* entries of the SQ for messages that are not data */
#define WC_BATCH   16	       /* completions that are taken at once */
#define CHUNK	   (64u << 10) /* bytes of a WRITE: the receiver copies while the next one is made */

/* wr_id: bits 0-1 what it is, 2-31 its number (data: among data, control: among control), 32-63 of
 * data: low bits of iotail */
enum wr_kind { WR_RECV, WR_DATA, WR_CTL, WR_KIND_MASK };
#define WR_SEQ_MASK ((1u << 30) - 1)

static uint64_t wr_id(enum wr_kind kind, uint32_t seq, uint64_t iopos)
{
	return iopos << 32 | (seq & WR_SEQ_MASK) << 2 | kind;
}

uint32_t rs_ring_size(uint32_t bytes)
{
	bytes = rs_min(rs_max(bytes, RS_BUF_MIN), RS_BUF_MAX);
	return 1u << (31 - __builtin_clz(bytes));
}

/* ---- posting ----------------------------------------------------------------------------------------- */

bool rs_stream_sq_room(const struct rs_stream *s)
{
	return ((s->sq_posted - s->sq_done) & WR_SEQ_MASK) < s->sq_max;
}

int rs_stream_write(struct rsocket *rs, const void *buf, uint32_t lkey, uint32_t len, uint64_t addr,
		    uint32_t rkey, bool has_imm, uint32_t imm)
{
	struct rs_stream *s = &rs->s;
	struct ibv_sge sge = { .addr = (uintptr_t)buf, .length = len, .lkey = lkey };
	struct ibv_send_wr *bad, wr = {
		.sg_list = &sge,
		.num_sge = 1,
		.opcode = has_imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.send_flags = len <= s->inline_max ? IBV_SEND_INLINE : 0,
		.imm_data = htobe32(imm),
		.wr.rdma = { .remote_addr = addr, .rkey = rkey },
	};
	uint32_t seq = s->sq_posted + 1;
	int err;

	if (((seq - s->sq_signaled) & WR_SEQ_MASK) >= s->sq_max / 4 ||
	    s->iotail - s->io_signaled >= s->ssize / 4) {
		wr.send_flags |= IBV_SEND_SIGNALED;
		s->sq_signaled = seq;
		s->io_signaled = s->iotail;
	}
	wr.wr_id = wr_id(WR_DATA, seq, s->iotail);
	s->sq_posted = seq;
	err = ibv_post_send(rs->id->qp, &wr, &bad);
	if (!err)
		return 0;
	s->sq_posted = seq - 1;
	return -err;
}

/* A message without data; imm 0: none, for the completion alone. -EAGAIN: no entry is free. */
static int post_ctl(struct rsocket *rs, enum rs_msg msg, uint32_t arg, bool signaled)
{
	struct rs_stream *s = &rs->s;
	uint32_t imm = (uint32_t)msg << RS_MSG_SHIFT | arg, seq = s->ctl_posted + 1;
	struct ibv_send_wr *bad, wr = {
		.wr_id = wr_id(WR_CTL, seq, 0),
		.opcode = imm ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE,
		.imm_data = htobe32(imm),
		.wr.rdma = { .remote_addr = s->ring_addr, .rkey = s->ring_rkey },
	};
	int err;

	if (((s->ctl_posted - s->ctl_done) & WR_SEQ_MASK) >= CTL_SLOTS)
		return -EAGAIN;
	signaled |= ((seq - s->ctl_signaled) & WR_SEQ_MASK) >= CTL_SLOTS / 4;
	if (signaled)
		wr.send_flags = IBV_SEND_SIGNALED;
	err = ibv_post_send(rs->id->qp, &wr, &bad);
	if (err)
		return -err;
	s->ctl_posted = seq;
	if (signaled)
		s->ctl_signaled = seq;
	return 0;
}

static int post_recvs(struct rsocket *rs, uint32_t n)
{
	struct ibv_recv_wr wr[RQ_BATCH], *bad;
	int err;

	memset(wr, 0, sizeof(wr));
	while (n) {
		uint32_t k = rs_min(n, RQ_BATCH);

		for (uint32_t i = 0; i < k; i++)
			wr[i].next = i + 1 < k ? &wr[i + 1] : NULL;
		err = ibv_post_recv(rs->id->qp, wr, &bad);
		if (err)
			return -err;
		n -= k;
	}
	return 0;
}

/* Give the peer what it may use again. What does not fit into the SQ now goes the next time. */
static void give_back(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;
	uint64_t bytes = s->rhead - s->rgiven;

	if (s->gone || s->close_sent)
		return;
	if (s->rq_missing >= RQ_BATCH) {
		if (post_recvs(rs, s->rq_missing)) {
			rs_stream_gone(rs, ECONNRESET);
			return;
		}
		s->rq_missing = 0;
	}
	if (s->rmsgs >= s->rmsgs_max / 2 && !post_ctl(rs, RS_MSG_MSGS, s->rmsgs, false))
		s->rmsgs = 0;
	if (bytes >= s->rsize / 4 && !post_ctl(rs, RS_MSG_BYTES, (uint32_t)bytes, false))
		s->rgiven += bytes;
}

/* ---- completions --------------------------------------------------------------------------------------- */

/* A message of the peer. false: it breaks the protocol. */
static bool take_msg(struct rsocket *rs, uint32_t imm)
{
	struct rs_stream *s = &rs->s;
	uint32_t arg = imm & RS_MSG_ARG;

	switch ((enum rs_msg)(imm >> RS_MSG_SHIFT)) {
	case RS_MSG_DATA:
		if (!arg || s->fin || arg > s->rsize - (s->rtail - s->rhead))
			return false;
		s->rmsgs++;
		atomic_store_explicit(&s->rtail, s->rtail + arg, memory_order_release);
		return true;
	case RS_MSG_BYTES:
		if (arg > s->stail + s->ssize - s->slimit)
			return false;
		s->slimit += arg;
		return true;
	case RS_MSG_MSGS:
		if (arg > s->smsgs + s->smsgs_max - s->smsgs_limit)
			return false;
		s->smsgs_limit += arg;
		return true;
	case RS_MSG_CLOSE:
		s->closed = true;
		/* fall through */
	case RS_MSG_FIN:
		s->fin = true;
		return true;
	case RS_MSG_IOMAP:
		s->rmsgs++;
		return true;
	}
	return false;
}

static void complete(struct rsocket *rs, const struct ibv_wc *wc)
{
	struct rs_stream *s = &rs->s;
	uint32_t seq = (uint32_t)wc->wr_id >> 2;

	if (wc->status != IBV_WC_SUCCESS) {
		rs_stream_gone(rs, ECONNRESET);
		return;
	}
	switch ((enum wr_kind)(wc->wr_id & WR_KIND_MASK)) {
	case WR_RECV:
		s->rq_missing++;
		if (rs->state == RS_ACCEPTING)
			rs->state = RS_CONNECTED; /* who sends is ready to receive */
		if (!(wc->wc_flags & IBV_WC_WITH_IMM) || !take_msg(rs, be32toh(wc->imm_data)))
			rs_stream_gone(rs, EPROTO);
		break;
	case WR_DATA:
		s->iodone += (uint32_t)((uint32_t)(wc->wr_id >> 32) - (uint32_t)s->iodone);
		atomic_store_explicit(&s->sq_done, seq, memory_order_release);
		break;
	default:
		s->ctl_done = seq;
		break;
	}
}

void rs_stream_process(struct rsocket *rs)
{
	struct ibv_wc wc[WC_BATCH];
	int n;

	do {
		n = ibv_poll_cq(rs->cq.cq, WC_BATCH, wc);
		for (int i = 0; i < n; i++)
			complete(rs, &wc[i]);
		if (n > 0) {
			rs->cq.fired = true;
			rs->cq.empty = 0;
		}
	} while (n == WC_BATCH);
	if (n < 0)
		rs_stream_gone(rs, ECONNRESET); /* a child of who has it */
	give_back(rs);
}

/* ---- receiving ------------------------------------------------------------------------------------------- */

static uint64_t available(const struct rs_stream *s)
{
	return atomic_load_explicit(&s->rtail, memory_order_acquire) -
	       atomic_load_explicit(&s->rhead, memory_order_relaxed);
}

static bool rs_stream_readable(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;

	return available(s) || s->fin || s->gone || s->rd_shut;
}

/* Copy n bytes that are there, from position `at` on. */
static void copy_out(struct rs_stream *s, struct rs_iter *it, uint64_t at, size_t n)
{
	while (n) {
		uint32_t off = (uint32_t)at & (s->rsize - 1);
		size_t k = rs_min(n, (size_t)(s->rsize - off));

		rs_scatter(it, s->rbuf + off, k);
		at += k;
		n -= k;
	}
}

ssize_t rs_stream_recv(struct rsocket *rs, struct rs_iter *it, size_t len, int flags)
{
	struct rs_stream *s = &rs->s;
	size_t got = 0;
	int err = 0;

	while (got < len) {
		uint64_t n = available(s);

		if (!n) {
			if (got && !(flags & MSG_WAITALL))
				break;
			err = rs_wait(rs, rs_stream_readable, rs_nonblock(rs, flags),
				      rs->opt.rcvtimeo);
			if (err)
				break;
			n = available(s);
			if (!n) { /* the end */
				err = s->gone ? -rs_take_err(rs) : 0;
				break;
			}
		}
		n = rs_min(n, len - got);
		copy_out(s, it, s->rhead, n);
		got += n;
		if (flags & MSG_PEEK)
			break;
		atomic_store_explicit(&s->rhead, s->rhead + n, memory_order_release);
		if (s->rhead - s->rgiven >= s->rsize / 4) {
			rs_lock(&rs->lock);
			give_back(rs);
			rs_unlock(&rs->lock);
		}
	}
	return got ? (ssize_t)got : err;
}

/* ---- sending ----------------------------------------------------------------------------------------------- */

int rs_stream_send_err(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;
	int err;

	if (!s->wr_shut && !s->closed && !s->gone)
		return 0;
	err = s->wr_shut ? 0 : rs_take_err(rs);
	return err ? -err : -EPIPE;
}

static bool has_credit(const struct rs_stream *s)
{
	return s->slimit != s->stail && s->smsgs_limit != s->smsgs && rs_stream_sq_room(s);
}

bool rs_stream_writable(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;

	return s->wr_shut || s->closed || s->gone || (rs->state == RS_CONNECTED && has_credit(s));
}

/* One WRITE of at most `len` bytes. How many it took, or -errno. */
static ssize_t send_chunk(struct rsocket *rs, struct rs_iter *it, size_t len)
{
	struct rs_stream *s = &rs->s;
	uint32_t off = (uint32_t)s->stail & (s->ssize - 1), n = rs_min(s->ssize - off, CHUNK);
	const void *buf = NULL;
	int err;

	n = (uint32_t)rs_min((uint64_t)n, s->slimit - s->stail);
	n = (uint32_t)rs_min((size_t)n, len);
	if (n <= s->inline_max)
		buf = rs_contiguous(it, n);
	if (!buf) {
		rs_gather(it, s->sbuf + off, n);
		buf = s->sbuf + off;
	}
	/* before the post: the credit for it may come at once */
	s->stail += n;
	s->smsgs++;
	err = rs_stream_write(rs, buf, s->smr->lkey, n, s->ring_addr + off, s->ring_rkey, true,
			      (uint32_t)RS_MSG_DATA << RS_MSG_SHIFT | n);
	if (!err)
		return n;
	s->stail -= n;
	s->smsgs--;
	return err;
}

ssize_t rs_stream_send(struct rsocket *rs, struct rs_iter *it, size_t len, int flags)
{
	struct rs_stream *s = &rs->s;
	size_t sent = 0;
	ssize_t n;
	int err = rs_stream_send_err(rs);

	if (!err && s->maps_pending)
		err = rs_iomap_flush(rs, flags);
	while (!err && sent < len) {
		if (rs->state != RS_CONNECTED || !has_credit(s)) {
			err = rs_wait(rs, rs_stream_writable, rs_nonblock(rs, flags),
				      rs->opt.sndtimeo);
			if (!err)
				err = rs_stream_send_err(rs);
			if (err)
				break;
		}
		n = send_chunk(rs, it, len - sent);
		if (n < 0) {
			err = (int)n;
			break;
		}
		sent += (size_t)n;
	}
	return sent ? (ssize_t)sent : err;
}

/* ---- the end -------------------------------------------------------------------------------------------------- */

bool rs_stream_flushed(struct rsocket *rs)
{
	return rs->s.gone || rs->s.ctl_done == (rs->s.ctl_posted & WR_SEQ_MASK);
}

/* FIN or CLOSE. Call with send_lock and lock held. */
static int say_end(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;
	int err = 0;

	/* room comes soon: what was posted does not wait for the peer */
	for (int i = 0; i < 1000 && !s->gone && !s->close_sent; i++) {
		s->close_sent = s->rd_shut;
		err = post_ctl(rs, s->rd_shut ? RS_MSG_CLOSE : RS_MSG_FIN, 0, true);
		if (err != -EAGAIN)
			break;
		s->close_sent = false;
		rs_stream_process(rs);
	}
	return err;
}

int rs_stream_shut(struct rsocket *rs, int how)
{
	struct rs_stream *s = &rs->s;
	int err;

	if (how != SHUT_WR)
		s->rd_shut = true;
	if (how != SHUT_RD)
		s->wr_shut = true;
	if (s->gone || s->close_sent)
		return 0;
	/* wakes who sleeps here: a sender keeps send_lock until then */
	err = post_ctl(rs, RS_MSG_DATA, 0, true);
	if (!s->wr_shut)
		return err == -EAGAIN ? 0 : err;

	rs_unlock(&rs->lock);
	rs_lock(&rs->send_lock);
	rs_lock(&rs->lock);
	err = say_end(rs);
	rs_unlock(&rs->send_lock);
	return err;
}

short rs_stream_revents(struct rsocket *rs, short events)
{
	struct rs_stream *s = &rs->s;
	short in = POLLIN | POLLRDNORM, out = POLLOUT | POLLWRNORM, r = 0;

	if (rs_stream_readable(rs))
		r |= events & in;
	if (rs_stream_writable(rs))
		r |= events & out;
	if (s->fin)
		r |= events & POLLRDHUP;
	/* the data comes first: programs (rstream -T a) take a hang-up for the end */
	if ((s->gone || (s->fin && s->wr_shut)) && !available(s))
		r |= POLLHUP;
	if (rs->err)
		r |= POLLERR;
	return r;
}

/* ---- open, pair, free ------------------------------------------------------------------------------------ */

static int buf_open(struct ibv_pd *pd, size_t len, int access, uint8_t **buf, struct ibv_mr **mr)
{
	*buf = ibv_malloc(pd, len);
	if (!*buf)
		return -errno;
	memset(*buf, 0, len);
	*mr = ibv_reg_mr(pd, *buf, len, access);
	return *mr ? 0 : -errno;
}

int rs_stream_open(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;
	struct rs_options *o = &rs->opt;
	struct ibv_pd *pd = rs->id->pd;
	struct ibv_qp_init_attr attr = { .qp_type = IBV_QPT_RC };
	uint8_t *table;
	int err;

	s->sq_max = o->sq_size;
	s->rmsgs_max = o->rq_size;
	s->rsize = rs_ring_size(o->rcvbuf);
	attr.cap.max_send_wr = s->sq_max + CTL_SLOTS;
	attr.cap.max_recv_wr = s->rmsgs_max + RQ_RESERVE;
	attr.cap.max_send_sge = attr.cap.max_recv_sge = 1;
	attr.cap.max_inline_data = rs_max(o->inline_size, (uint32_t)sizeof(struct rs_iomap));
	err = rs_cq_open(&rs->cq, rs->id->verbs,
			 (int)(attr.cap.max_send_wr + attr.cap.max_recv_wr));
	if (err)
		return err;
	attr.send_cq = attr.recv_cq = rs->cq.cq;
	if (rdma_create_qp(rs->id, pd, &attr))
		return -errno;
	s->inline_max = attr.cap.max_inline_data;
	o->inline_size = s->inline_max;

	err = buf_open(pd, s->rsize, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &s->rbuf,
		       &s->rmr);
	if (!err && o->iomap_size) {
		err = buf_open(pd, o->iomap_size * sizeof(*s->iomap),
			       IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE, &table,
			       &s->iomap_mr);
		s->iomap = (struct rs_iomap *)table;
	}
	return err ? err : post_recvs(rs, s->rmsgs_max + RQ_RESERVE);
}

void rs_stream_hello(struct rsocket *rs, struct rs_hello *h)
{
	struct rs_stream *s = &rs->s;

	*h = (struct rs_hello){
		.magic = RS_MAGIC,
		.version = RS_VERSION,
		.msgs = (uint16_t)s->rmsgs_max,
		.rcvbuf = s->rsize,
		.sndbuf = rs->opt.sndbuf,
		.ring_addr = (uintptr_t)s->rbuf,
		.ring_rkey = s->rmr->rkey,
		.iomap_addr = (uintptr_t)s->iomap,
		.iomap_rkey = s->iomap_mr ? s->iomap_mr->rkey : 0,
		.iomap_size = s->iomap_mr ? rs->opt.iomap_size : 0,
	};
}

int rs_stream_pair(struct rsocket *rs, const struct rs_hello *h)
{
	struct rs_stream *s = &rs->s;

	if (!h->msgs)
		return -EPROTO;
	s->rsize = rs_min(s->rsize, rs_ring_size(h->sndbuf));
	s->ssize = rs_min(rs_ring_size(rs->opt.sndbuf), rs_ring_size(h->rcvbuf));
	s->slimit = s->ssize;
	s->smsgs_max = h->msgs;
	s->smsgs_limit = h->msgs;
	s->ring_addr = h->ring_addr;
	s->ring_rkey = h->ring_rkey;
	s->peer_iomap_addr = h->iomap_addr;
	s->peer_iomap_rkey = h->iomap_rkey;
	s->peer_iomap_size = rs_min(h->iomap_size, RS_IOMAP_MAX);
	return buf_open(rs->id->pd, s->ssize, IBV_ACCESS_LOCAL_WRITE, &s->sbuf, &s->smr);
}

static void buf_close(void *buf, struct ibv_mr *mr)
{
	if (mr)
		ibv_dereg_mr(mr);
	ibv_free(buf);
}

void rs_stream_free(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;

	if (rs->id && rs->id->qp)
		rdma_destroy_qp(rs->id);
	rs_iomap_free(rs);
	rs_cq_close(&rs->cq);
	buf_close(s->rbuf, s->rmr);
	buf_close(s->sbuf, s->smr);
	buf_close(s->iomap, s->iomap_mr);
	buf_close(s->iobuf, s->iomr);
}
