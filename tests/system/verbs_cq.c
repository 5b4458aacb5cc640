/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_cq.c - completion queues: depth, resize, overrun, events and their acknowledgement, the
 * extended readers, many QPs on one CQ.
 */
#include "tests/rig/verbs/vt.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <unistd.h>

/* Produce n successful completions on a's send CQ, with wr_id from `first`. */
static void produce(struct vt_end *a, uint64_t first, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		vt_rdma(a, IBV_WR_RDMA_WRITE, first + i, 0, 8, 0, IBV_SEND_SIGNALED);
}

/*
 * Returns when everything that a posted before is done, without polling its CQ: a second
 * connection's completions do not tell, but the last byte written does.
 */
static void produced(struct vt_end *a, struct vt_end *b)
{
	static uint8_t mark;
	struct ibv_sge sge;
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_RDMA_WRITE };

	a->buf[a->len - 1] = ++mark ? mark : ++mark;
	sge = vt_sge(a, a->len - 1, 1);
	wr.wr.rdma.remote_addr = a->peer.addr + b->len - 1;
	wr.wr.rdma.rkey = a->peer.rkey;
	CHECK_OK(vt_post(a, &wr)); /* unsignalled */
	WAIT_FOR(*(volatile uint8_t *)(b->buf + b->len - 1) == mark);
}

static void cq_life(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_comp_channel *ch = CHECK_PTR(ibv_create_comp_channel(ctx));
	struct ibv_device_attr dev;
	int marker;

	CHECK_OK(ibv_query_device(ctx, &dev));
	for (int n = 1; n < 5000; n = n * 3 / 2 + 1) {
		struct ibv_cq *cq = CHECK_PTR(ibv_create_cq(ctx, n, &marker, n % 2 ? ch : NULL, 0));

		CHECK(cq->cqe >= n);
		CHECK(cq->context == ctx && cq->cq_context == &marker);
		CHECK(cq->channel == (n % 2 ? ch : NULL));
		CHECK_EMPTY(cq);
		CHECK_OK(ibv_destroy_cq(cq));
	}
	CHECK_NULL(ibv_create_cq(ctx, 0, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, -1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, dev.max_cqe + 1, NULL, NULL, 0), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, 8, NULL, NULL, -1), EINVAL);
	CHECK_NULL(ibv_create_cq(ctx, 8, NULL, NULL, ctx->num_comp_vectors), EINVAL);
	for (int v = 0; v < ctx->num_comp_vectors; v++)
		CHECK_OK(ibv_destroy_cq(CHECK_PTR(ibv_create_cq(ctx, 8, NULL, ch, v))));
	CHECK_OK(ibv_destroy_comp_channel(ch));
	CHECK_OK(ibv_close_device(ctx));
}

static void cq_busy(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	par.channel = true;
	vt_end_open(&e, &par);
	CHECK_ERR(ibv_destroy_cq(e.scq), EBUSY);
	CHECK_ERR(ibv_destroy_cq(e.rcq), EBUSY);
	CHECK_ERR(ibv_destroy_comp_channel(e.channel), EBUSY);
	vt_end_close(&e);
}

/* A CQ holds as many entries as it says. */
static void cq_full(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.cqe = 50;
	par.send_wr = 256;
	vt_pair(&a, &b, &par);
	for (unsigned lap = 0; lap < 20; lap++) {
		unsigned n = (unsigned)a.scq->cqe > 200 ? 200 : (unsigned)a.scq->cqe;

		produce(&a, 1000 * lap, n);
		produced(&a, &b);
		for (unsigned i = 0; i < n; i++)
			WANT_OK(a.scq, 1000 * lap + i);
		CHECK_EMPTY(a.scq);
	}
	CHECK(!vt_readable(a.ctx->async_fd, 0));
	vt_pair_close(&a, &b);
}

/* Polling several at once gives them in order, at most as many as asked for. */
static void cq_poll_many(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_wc wc[32];
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned lap = 0; lap < 50; lap++) {
		uint64_t next = 0;

		produce(&a, 0, 60);
		produced(&a, &b);
		for (int want = 1; next < 60; want = want % 32 + 1) {
			int n = ibv_poll_cq(a.scq, want, wc);

			CHECK(n >= 0 && n <= want);
			for (int i = 0; i < n; i++) {
				CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
				CHECK_EQ(wc[i].wr_id, next++);
			}
		}
		CHECK_EQ(ibv_poll_cq(a.scq, 0, wc), 0);
	}
	vt_pair_close(&a, &b);
}

/* ---- resize --------------------------------------------------------------------------------- */

static void cq_resize(void)
{
	struct vt_param par = VT_PARAM;
	/* the largest one needs a segment of its own, of which the library says that it is mapped */
	static const int sizes[] = { 300, 80, 1000, 77, 64, 4000, 60000, 70 };
	uint64_t head = 0, tail = 0;
	struct vt_end a, b;

	par.cqe = 64;
	vt_pair(&a, &b, &par);
	for (unsigned lap = 0; lap < 70; lap++) {
		int want = sizes[lap % ARRAY_SIZE(sizes)];
		unsigned n = 10 + lap % 20;

		produce(&a, tail, n);
		tail += n;
		produced(&a, &b);
		CHECK_OK(ibv_resize_cq(a.scq, want));
		CHECK(a.scq->cqe >= want);
		for (; tail - head > lap % 30; head++) {
			struct ibv_wc wc = WANT_OK(a.scq, head);

			CHECK_EQ(wc.opcode, IBV_WC_RDMA_WRITE);
			CHECK_EQ(wc.qp_num, a.qp->qp_num);
		}
	}
	while (head < tail)
		WANT_OK(a.scq, head++);
	CHECK_EMPTY(a.scq);
	vt_pair_close(&a, &b);
}

/* What does not fit what is in it, or no device holds, is refused and changes nothing. */
static void cq_resize_refused(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_device_attr dev;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_query_device(a.ctx, &dev));
	produce(&a, 0, 60);
	produced(&a, &b);
	CHECK_ERR(ibv_resize_cq(a.scq, 0), EINVAL);
	CHECK_ERR(ibv_resize_cq(a.scq, -5), EINVAL);
	CHECK_ERR(ibv_resize_cq(a.scq, dev.max_cqe + 1), EINVAL);
	CHECK_ERR(ibv_resize_cq(a.scq, 2), EINVAL);
	CHECK(a.scq->cqe >= 60);
	for (unsigned i = 0; i < 60; i++)
		WANT_OK(a.scq, i);
	vt_pair_close(&a, &b);
}

/* Resized up and down while completions arrive: none is lost, doubled or out of order. */
static void cq_resize_under_load(void)
{
	struct vt_param par = VT_PARAM;
	uint64_t sent = 0, got = 0, total = 40000 / vt_slow();
	struct vt_end a, b;

	par.cqe = 128;
	vt_pair(&a, &b, &par);
	while (got < total) {
		struct ibv_wc wc;

		for (; sent < total && sent - got < 60; sent++)
			vt_rdma(&a, IBV_WR_RDMA_WRITE, sent, 0, 8, 0, IBV_SEND_SIGNALED);
		if (sent % 5 == 0)
			CHECK_OK(ibv_resize_cq(a.scq, 100 + (int)(sent * 37 % 900)));
		while (ibv_poll_cq(a.scq, 1, &wc) == 1) {
			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK_EQ(wc.wr_id, got++);
		}
	}
	vt_pair_close(&a, &b);
}

/* More completions than the CQ holds: an async event, and no harm to anybody else. */
static void cq_overrun(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b, c, d;
	struct ibv_async_event ev;
	unsigned n, posted = 0;

	par.cqe = 4;
	par.send_wr = 1024;
	vt_pair(&a, &b, &par);
	par = VT_PARAM;
	vt_pair(&c, &d, &par);
	n = 2 * (unsigned)a.scq->cqe + 16;
	CHECK(n <= 1024);
	for (; posted < n; posted++) {
		struct ibv_sge sge = vt_sge(&a, 0, 8);
		struct ibv_send_wr wr = { .wr_id = posted,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED };

		wr.wr.rdma.remote_addr = a.peer.addr;
		wr.wr.rdma.rkey = a.peer.rkey;
		if (vt_post(&a, &wr)) /* the QP may fail with its CQ */
			break;
	}
	CHECK(vt_readable(a.ctx->async_fd, VT_WAIT_MS));
	CHECK_OK(ibv_get_async_event(a.ctx, &ev));
	CHECK_EQ(ev.event_type, IBV_EVENT_CQ_ERR);
	CHECK(ev.element.cq == a.scq);
	ibv_ack_async_event(&ev);
	vt_check_alive(&c, &d);
	vt_check_alive(&d, &c);
	vt_pair_close(&c, &d);
	CHECK_OK(ibv_destroy_qp(a.qp));
	CHECK_OK(ibv_destroy_cq(a.scq));
}

/* ---- events --------------------------------------------------------------------------------- */

static void cq_event(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.channel = true;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 500; i++) {
		CHECK_OK(ibv_req_notify_cq(a.scq, 0));
		CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
		vt_recv(&b, i, 0, 8);
		vt_send(&a, i, 0, 8, IBV_SEND_SIGNALED);
		WANT_COMP_EVENT(a.channel, a.scq);
		WANT_COMP_EVENT(b.channel, b.rcq);
		WANT_OK(a.scq, i); /* the completion was there before the event */
		WANT_OK(b.rcq, i);
	}
	/* one event for each arming, however many completions */
	CHECK_OK(ibv_req_notify_cq(a.scq, 0));
	produce(&a, 0, 20);
	produced(&a, &b);
	WANT_COMP_EVENT(a.channel, a.scq);
	CHECK(!vt_readable(a.channel->fd, 0));
	for (unsigned i = 0; i < 20; i++)
		WANT_OK(a.scq, i);
	/* and none without arming */
	produce(&a, 0, 1);
	produced(&a, &b);
	CHECK(!vt_readable(a.channel->fd, 0));
	WANT_OK(a.scq, 0);
	ibv_ack_cq_events(a.scq, 501);
	ibv_ack_cq_events(b.rcq, 500);
	vt_pair_close(&a, &b);
}

/* A completion that was in the CQ when it was armed makes no event; the next one does. */
static void cq_event_after_arming(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.channel = true;
	vt_pair(&a, &b, &par);
	produce(&a, 1, 1);
	produced(&a, &b);
	CHECK_OK(ibv_req_notify_cq(a.scq, 0));
	/* traffic on another CQ passes meanwhile */
	CHECK_OK(ibv_req_notify_cq(a.rcq, 0));
	vt_recv(&a, 5, 0, 8);
	vt_send(&b, 6, 0, 8, IBV_SEND_SIGNALED);
	WANT_COMP_EVENT(a.channel, a.rcq);
	WANT_OK(a.rcq, 5);
	CHECK(!vt_readable(a.channel->fd, 0));
	produce(&a, 2, 1);
	WANT_COMP_EVENT(a.channel, a.scq);
	WANT_OK(a.scq, 1);
	WANT_OK(a.scq, 2);
	ibv_ack_cq_events(a.rcq, 1);
	ibv_ack_cq_events(a.scq, 1);
	vt_pair_close(&a, &b);
}

/* Armed for solicited completions only: a SEND with the flag, or an error. */
static void cq_event_solicited(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.channel = true;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_req_notify_cq(b.rcq, 1));
	for (unsigned i = 0; i < 10; i++) {
		vt_recv(&b, i, 0, 8);
		vt_send(&a, i, 0, 8, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, i);
		WANT_OK(b.rcq, i);
		CHECK(!vt_readable(b.channel->fd, 0));
	}
	vt_recv(&b, 10, 0, 8);
	vt_send(&a, 10, 0, 8, IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	WANT_COMP_EVENT(b.channel, b.rcq);
	WANT_OK(b.rcq, 10);
	WANT_OK(a.scq, 10);

	CHECK_OK(ibv_req_notify_cq(b.rcq, 1));
	vt_recv(&b, 11, 0, 8);
	vt_rdma(&a, IBV_WR_RDMA_WRITE_WITH_IMM, 11, 0, 8, 0,
		IBV_SEND_SIGNALED | IBV_SEND_SOLICITED);
	WANT_COMP_EVENT(b.channel, b.rcq);
	WANT_OK(b.rcq, 11);
	WANT_OK(a.scq, 11);

	/* armed for solicited, then for any: any holds; the other way about it still does */
	CHECK_OK(ibv_req_notify_cq(b.rcq, 1));
	CHECK_OK(ibv_req_notify_cq(b.rcq, 0));
	CHECK_OK(ibv_req_notify_cq(b.rcq, 1));
	vt_recv(&b, 12, 0, 8);
	vt_send(&a, 12, 0, 8, IBV_SEND_SIGNALED);
	WANT_COMP_EVENT(b.channel, b.rcq);
	WANT_OK(b.rcq, 12);
	WANT_OK(a.scq, 12);

	CHECK_OK(ibv_req_notify_cq(b.rcq, 1));
	vt_recv(&b, 13, 0, 8);
	CHECK_OK(vt_to_state(b.qp, IBV_QPS_ERR));
	WANT_COMP_EVENT(b.channel, b.rcq);
	WANT(b.rcq, 13, IBV_WC_WR_FLUSH_ERR);
	ibv_ack_cq_events(b.rcq, 4);
	vt_pair_close(&a, &b);
}

static void cq_event_nonblocking(void)
{
	struct vt_param par = VT_PARAM;
	struct pollfd p = { .events = POLLIN };
	struct ibv_cq *cq;
	struct vt_end a, b;
	void *context;
	int flags;

	par.channel = true;
	vt_pair(&a, &b, &par);
	p.fd = a.channel->fd;
	flags = fcntl(a.channel->fd, F_GETFL);
	CHECK(flags >= 0 && !(flags & O_NONBLOCK));
	CHECK_OK(fcntl(a.channel->fd, F_SETFL, flags | O_NONBLOCK));
	errno = 0;
	CHECK(ibv_get_cq_event(a.channel, &cq, &context) == -1 && errno == EAGAIN);
	CHECK_OK(ibv_req_notify_cq(a.scq, 0));
	CHECK_EQ(poll(&p, 1, 0), 0);
	produce(&a, 1, 1);
	CHECK_EQ(poll(&p, 1, VT_WAIT_MS), 1);
	WANT_COMP_EVENT(a.channel, a.scq);
	CHECK_EQ(poll(&p, 1, 0), 0);
	ibv_ack_cq_events(a.scq, 1);
	WANT_OK(a.scq, 1);

	flags = fcntl(a.ctx->async_fd, F_GETFL);
	CHECK_OK(fcntl(a.ctx->async_fd, F_SETFL, flags | O_NONBLOCK));
	errno = 0;
	CHECK(ibv_get_async_event(a.ctx, &(struct ibv_async_event){ 0 }) == -1);
	CHECK_EQ(errno, EAGAIN);
	vt_pair_close(&a, &b);
}

/* Two CQs on one channel, each event with its own CQ and context. */
static void cq_shared_channel(void)
{
	struct ibv_comp_channel *ch;
	struct vt_param par = VT_PARAM;
	unsigned seen[2] = { 0 };
	struct ibv_cq *cq[2];
	struct vt_end a, b;
	int marks[2];

	vt_pair(&a, &b, &par);
	ch = CHECK_PTR(ibv_create_comp_channel(a.ctx));
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_cq *old = a.scq;

		cq[i] = CHECK_PTR(ibv_create_cq(a.ctx, 64, &marks[i], ch, 0));
		a.scq = cq[i];
		struct ibv_qp *qp = vt_make_qp(&a);
		a.scq = old;
		vt_connect_qp(qp, &par, &a.self, &b.self);
		CHECK_OK(ibv_req_notify_cq(cq[i], 0));
		CHECK_OK(vt_to_state(qp, IBV_QPS_ERR));
		struct ibv_send_wr wr = { .wr_id = i, .opcode = IBV_WR_SEND }, *bad;
		CHECK_OK(ibv_post_send(qp, &wr, &bad));
	}
	for (unsigned i = 0; i < 2; i++) {
		struct ibv_cq *got;
		void *context;

		CHECK(vt_readable(ch->fd, VT_WAIT_MS));
		CHECK_OK(ibv_get_cq_event(ch, &got, &context));
		CHECK(got == cq[0] || got == cq[1]);
		CHECK(context == &marks[got == cq[1]]);
		seen[got == cq[1]]++;
		WANT(got, got == cq[1], IBV_WC_WR_FLUSH_ERR);
		ibv_ack_cq_events(got, 1);
	}
	CHECK(seen[0] == 1 && seen[1] == 1);
}

static atomic_bool destroyed;

static void *destroy(void *arg)
{
	CHECK_OK(ibv_destroy_cq(arg));
	destroyed = true;
	return NULL;
}

/* ibv_destroy_cq waits until all events that were taken are acknowledged. */
static void cq_destroy_waits(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_cq *cq;
	struct vt_end a, b;
	uint64_t until;
	pthread_t t;

	par.channel = true;
	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_OK(ibv_req_notify_cq(a.scq, 0));
		produce(&a, i, 1);
		WANT_COMP_EVENT(a.channel, a.scq);
		WANT_OK(a.scq, i);
	}
	CHECK_OK(ibv_destroy_qp(a.qp));
	a.qp = NULL;
	cq = a.scq;
	CHECK_EQ(pthread_create(&t, NULL, destroy, cq), 0);
	ibv_ack_cq_events(cq, 2);
	for (until = vt_now() + 50000000; vt_now() < until; vt_pause())
		CHECK(!destroyed);
	ibv_ack_cq_events(cq, 1);
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(destroyed);
}

/* Events that nobody took do not hold up the destruction, nor come afterwards. */
static void cq_destroy_with_event(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.channel = true;
	vt_pair(&a, &b, &par);
	CHECK_OK(ibv_req_notify_cq(a.scq, 0));
	produce(&a, 1, 1);
	CHECK(vt_readable(a.channel->fd, VT_WAIT_MS));
	CHECK_OK(ibv_destroy_qp(a.qp));
	CHECK_OK(ibv_destroy_cq(a.scq));
	a.scq = CHECK_PTR(ibv_create_cq(a.ctx, 16, &par, a.channel, 0));
	a.qp = vt_make_qp(&a);
	a.self.qpn = a.qp->qp_num;
	vt_connect_qp(a.qp, &par, &a.self, &b.self);
	CHECK_OK(ibv_req_notify_cq(a.scq, 0));
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_ERR));
	vt_send(&a, 2, 0, 8, IBV_SEND_SIGNALED);
	WANT_COMP_EVENT(a.channel, a.scq); /* of the new CQ, not of the dead one */
	ibv_ack_cq_events(a.scq, 1);
	WANT(a.scq, 2, IBV_WC_WR_FLUSH_ERR);
	vt_pair_close(&a, &b);
}

/* ---- several QPs ---------------------------------------------------------------------------- */

static void cq_many_qps(void)
{
	enum { QPS = 40, EACH = 50 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp *x[QPS], *y[QPS];
	unsigned next[QPS] = { 0 };

	par.cqe = QPS * EACH;
	vt_pair(&a, &b, &par);
	vt_pair_more(&a, &b, x, y, QPS);
	for (unsigned k = 0; k < EACH; k++) {
		for (unsigned i = 0; i < QPS; i++) {
			struct ibv_sge sge = vt_sge(&a, 0, 16);
			struct ibv_send_wr *bad, wr = {
				.wr_id = i * 1000 + k,
				.sg_list = &sge,
				.num_sge = 1,
				.opcode = IBV_WR_RDMA_WRITE,
				.send_flags = IBV_SEND_SIGNALED,
				.wr.rdma = { .remote_addr = b.self.addr, .rkey = b.self.rkey },
			};

			CHECK_OK(ibv_post_send(x[i], &wr, &bad));
		}
	}
	for (unsigned n = 0; n < QPS * EACH; n++) {
		struct ibv_wc wc = vt_wc(a.scq);
		unsigned i = (unsigned)(wc.wr_id / 1000);

		CHECK_EQ(wc.status, IBV_WC_SUCCESS);
		CHECK(i < QPS);
		CHECK_EQ(wc.qp_num, x[i]->qp_num);
		CHECK_EQ(wc.wr_id % 1000, next[i]++); /* in order for each QP */
	}
	CHECK_EMPTY(a.scq);
	vt_destroy_qps(x, QPS);
	vt_destroy_qps(y, QPS);
	vt_pair_close(&a, &b);
}

/* Completions of a QP that was destroyed are gone; those of others stay, in order. */
static void cq_destroy_qp(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	struct ibv_qp *gone;

	vt_pair(&a, &b, &par);
	for (unsigned lap = 0; lap < 30; lap++) {
		gone = vt_make_qp(&a);
		vt_connect_qp(gone, &par, &a.self, &b.self);
		CHECK_OK(vt_to_state(gone, IBV_QPS_ERR));
		for (unsigned i = 0; i < 10; i++) {
			struct ibv_send_wr wr = { .wr_id = 666, .opcode = IBV_WR_SEND }, *bad;

			produce(&a, i, 1);
			produced(&a, &b);
			CHECK_OK(ibv_post_send(gone, &wr, &bad)); /* flushed into the CQ */
		}
		CHECK_OK(ibv_destroy_qp(gone));
		for (unsigned i = 0; i < 10; i++)
			WANT_OK(a.scq, i);
		CHECK_EMPTY(a.scq);
	}
	vt_pair_close(&a, &b);
}

VT_MAIN({ "cq_life", cq_life, 0 }, { "cq_busy", cq_busy, 0 }, { "cq_full", cq_full, 0 },
	{ "cq_poll_many", cq_poll_many, 0 }, { "cq_resize", cq_resize, 0 },
	{ "cq_resize_refused", cq_resize_refused, 0 },
	{ "cq_resize_under_load", cq_resize_under_load, 0 }, { "cq_overrun", cq_overrun, 0 },
	{ "cq_event", cq_event, 0 }, { "cq_event_after_arming", cq_event_after_arming, 0 },
	{ "cq_event_solicited", cq_event_solicited, 0 },
	{ "cq_event_nonblocking", cq_event_nonblocking, 0 },
	{ "cq_shared_channel", cq_shared_channel, 0 }, { "cq_destroy_waits", cq_destroy_waits, 0 },
	{ "cq_destroy_with_event", cq_destroy_with_event, 0 }, { "cq_many_qps", cq_many_qps, 0 },
	{ "cq_destroy_qp", cq_destroy_qp, 0 })
