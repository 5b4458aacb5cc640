/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* model_router.c - the router's part of model.h: its sources, with the model's atomics. */
#include <sys/epoll.h>
#include <sys/socket.h>

#include "tests/rig/model/model.h"
#include "ffr/fast/internal.h"

static ssize_t send_event(int fd, const void *p, size_t n, int flags)
{
	(void)fd, (void)p, (void)flags;
	c11_give(&model.event);
	return (ssize_t)n;
}

#define send send_event
#include "ffr/fast/comp.c"
#undef send
#include "ffr/fast/recv.c"
#include "ffr/fast/bells.c"
#include "ffr/fast/loop.c"

#define TURNS 2 /* of a router that finds nothing and does not sleep either */

static struct fast f;
static struct fast_host host;
static struct container cont;
static struct tenant tenant;
static struct session ses;
static struct qp qp;
static struct cq cq;
static struct channel channel;
static struct obj *slots[8];
static uint32_t served;

static bool recv_posted(struct fast *fast, struct qp *q, struct srq *srq)
{
	(void)fast, (void)q, (void)srq;
	return false;
}

static const struct backend_ops ops = { .recv_posted = recv_posted };
static struct backend backend = { .ops = &ops };

void router_reset(uint32_t depth)
{
	memset(&f, 0, sizeof(f));
	memset(&cont, 0, sizeof(cont));
	memset(&ses, 0, sizeof(ses));
	memset(&qp, 0, sizeof(qp));
	memset(&cq, 0, sizeof(cq));
	served = 0;
	f.host = &host;
	f.be = &backend;
	for (unsigned i = 0; i < TURN_NUM; i++)
		TAILQ_INIT(&f.turns[i]);
	TAILQ_INIT(&f.active_sessions);
	SLIST_INIT(&f.served);
	TAILQ_INIT(&cont.turns.active);
	cont.of = &tenant;
	ses.cont = &cont;
	ses.fast = &f;
	ses.hdr = &model.ses;
	ses.tab[OBJ_QP].slot = slots;
	ses.tab[OBJ_QP].size = ARRAY_SIZE(slots);
	slots[MODEL_HANDLE] = &qp.o;
	qp.o.ses = &ses;
	qp.o.handle = MODEL_HANDLE;
	qp.hdr = &model.qp_hdr;
	qp.sq.ring = model.sq;
	qp.sq.depth = qp.rq.depth = depth;
	qp.sq.stride = 64;
	qp.rq.ring = model.rq;
	qp.rq.stride = 32;
	cq.o.ses = &ses;
	cq.hdr = &model.cq_hdr;
	cq.ring = model.cq;
	cq.depth = MODEL_DEPTH;
	cq.channel = &channel;
	STAILQ_INIT(&f.notify);
	qp.state = IBV_QPS_RTS;
	qp.is_active = ses.bells.is_active = true;
	cont.turns.num_active = 1;
	TAILQ_INSERT_TAIL(&cont.turns.active, &qp, active);
	TAILQ_INSERT_TAIL(&f.turns[0], &cont, turns.entry);
	TAILQ_INSERT_TAIL(&f.active_sessions, &ses, bells.entry);
}

uint64_t router_state(void)
{
	return served | (uint64_t)qp.sq.head << 4 | (uint64_t)qp.rq.head << 8 |
	       (uint64_t)cq.pi << 12 | (uint64_t)qp.is_active << 16 |
	       (uint64_t)ses.bells.is_active << 17 | (uint64_t)f.coalesces << 18;
}

/* What it finds in one turn. */
static void take_sqes(uint32_t num)
{
	if (ses.bells.is_active)
		scan_dirty(&f, &ses);
	while (qp.is_active && served < num && qp_sqe_ready(&qp, qp.sq.head)) {
		if (c11_has(&model.body))
			c11_plain_load(&model.body);
		qp.sq.head++;
		served++;
		qp_tell_done(&qp);
	}
}

static void sleep_for_bell(void)
{
	struct epoll_event ev = { .data.ptr = bell_name(&ses) };

	if (fast_arm_all(&f)) {
		c11_take(&model.bell);
		fast_bells(&f, &ev, 1);
	}
	fast_disarm_all(&f);
}

void router_serve(uint32_t num, bool rests)
{
	for (unsigned turn = 0; served < num; turn++) {
		if (turn == TURNS)
			c11_leave();
		take_sqes(num);
		if (served >= num)
			return;
		if (rests && qp.is_active)
			fast_qp_rest(&f, &qp);
		if (rests && !qp.is_active && ses.bells.is_active)
			ses_rest(&f, &ses);
		sleep_for_bell();
	}
}

void router_take(uint32_t num)
{
	take_sqes(num);
	if (served < num)
		c11_leave();
}

static void write_cqe(bool is_recv)
{
	struct ff_cqe cqe = { .qp = MODEL_HANDLE,
			      .opcode = is_recv ? FF_CQE_RECV : 0,
			      .user = client_user() };

	cq_put(&f, &cq, &cqe, false, NULL, ENDS_COPY);
}

void router_receive(void)
{
	struct recv_wr wr;

	if (recv_fetch(qp.rq.ring, qp.rq.head, qp.rq.depth, qp.rq.stride, 1, &wr) != FETCH_OK)
		c11_leave();
	c11_plain_load(&model.body);
	qp.rq.head++;
	write_cqe(true);
}

void router_complete(void)
{
	if (!cq.pi)
		c11_plain_store(&model.body, 1);
	write_cqe(false);
	comp_notify(&f);
}

void router_complete_lap(void)
{
	for (unsigned i = 0; i <= MODEL_DEPTH; i++) {
		if (cq.pi - atomic_load_explicit(&cq.hdr->ci, memory_order_relaxed) >= cq.depth)
			c11_leave();
		if (!i)
			c11_plain_store(&model.body, 1);
		write_cqe(false);
	}
	c11_plain_store(&model.body, 2); /* what was in the first one's place */
}
