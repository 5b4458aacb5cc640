/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* two_hosts.c - see two_hosts.h. */
#include "tests/rig/unit/two_hosts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/peer/io.h"

/* ---- the two ------------------------------------------------------------------------------------------- */

void (*hosts_work)(struct host *h);

void hosts_connect(struct hosts *t)
{
	struct wire_hello hello = { 0 };
	int size = 1 << 16;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, t->fd),
			 0);
	for (int i = 0; i < 2; i++) {
		setsockopt(t->fd[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
		assert_int_equal(wire_attach(t->h[i].r.f, &t->h[i].other, wire_io_plain(t->fd[i]),
					     &hello),
				 0);
	}
}

void hosts_cut(struct hosts *t)
{
	for (int i = 0; i < 2; i++)
		if (t->h[i].other.tcp)
			wire_detach(t->h[i].r.f, &t->h[i].other, "cut");
	t->fd[0] = t->fd[1] = -1;
}

static void ready(struct host *h)
{
	struct epoll_event ev[8];
	int n = epoll_wait(h->r.f->epoll_fd, ev, 8, 0);

	fast_bells(h->r.f, ev, n);
}

uint32_t hosts_turn(struct hosts *t)
{
	uint32_t work = 0;

	for (int i = 0; i < 2; i++) {
		ready(&t->h[i]);
		if (hosts_work)
			hosts_work(&t->h[i]);
		work += fast_turn(t->h[i].r.f);
	}
	return work;
}

void hosts_run(struct hosts *t)
{
	int idle = 0;

	for (int i = 0; i < 1000000; i++) {
		idle = hosts_turn(t) ? 0 : idle + 1;
		if (idle > 2)
			return;
	}
	fail_msg("the hosts do not come to rest");
}

void hosts_advance(struct hosts *t, uint64_t ns)
{
	t->h[0].r.f->now += ns;
	t->h[1].r.f->now += ns;
	hosts_run(t);
}

static void know(struct host *h, const struct container *c)
{
	struct remote *r = &h->remote;

	r->id = c->id;
	r->epoch = c->epoch;
	memcpy(r->name, c->name, sizeof(r->name));
	memcpy(r->tenant, c->tenant, sizeof(r->tenant));
	r->gid[0] = c->gid[0];
	r->num_gids = 1;
	r->lid = c->lid;
	r->peer = &h->other;
}

static void path(struct rig_qp *q, const struct rig_qp *to)
{
	q->qp.attr.dest_qp_num = to->qp.qp_num;
	q->qp.attr.ah.is_global = 1;
	memcpy(q->qp.attr.ah.dgid, to->qp.o.ses->cont->gid[0].raw, 16);
}

void hosts_up(struct hosts *t, enum ibv_qp_type type)
{
	memset(t, 0, sizeof(*t));
	for (int i = 0; i < 2; i++) {
		struct host *h = &t->h[i];

		rig_init(&h->r, &soft_ops);
		for (unsigned c = 0; c < 4; c++) {
			h->r.cont[c].id = (uint32_t)(10 * (i + 1)) + c;
			h->r.cont[c].epoch = 1;
			h->r.cont[c].gid[0].raw[13] = (uint8_t)i;
			h->r.cont[c].lid = (uint16_t)(h->r.cont[c].lid + 100 * i);
		}
		snprintf(h->other.host, sizeof(h->other.host), "h%d", !i);
		h->other.refs = 1;
		h->other.up = true;
		h->remote.refs = 1;
		h->r.f->now = 1000000;
	}
	for (int i = 0; i < 2; i++) {
		struct host *h = &t->h[i];

		h->o.f = h->r.f;
		h->o.remote[0] = &h->remote;
		h->o.peer[0] = &h->other;
		others_add(&h->o);
	}
	know(&t->h[0], &t->h[1].r.cont[0]);
	know(&t->h[1], &t->h[0].r.cont[0]);
	for (int i = 0; i < 2; i++) {
		struct host *h = &t->h[i];

		h->s = rig_session(&h->r, 0);
		h->cq = rig_cq(&h->r, h->s, 256, true);
		/* numbers differ between the hosts */
		for (int k = 0; k < i; k++)
			rig_qp_free(&h->r, rig_qp(&h->r, h->s, type, h->cq, h->cq, NULL));
		h->qp = rig_qp(&h->r, h->s, type, h->cq, h->cq, NULL);
		h->buf = aligned_alloc(4096, HOSTS_BUF);
		memset(h->buf, 0xa0 + i, HOSTS_BUF);
		h->mr = rig_mr(&h->r, h->s, h->buf, HOSTS_BUF, HOSTS_ACCESS);
	}
	hosts_connect(t);
	for (int i = 0; i < 2; i++) {
		path(t->h[i].qp, t->h[!i].qp);
		rig_connect(&t->h[i].r, t->h[i].qp, NULL);
	}
	hosts_run(t);
}

void hosts_down(struct hosts *t)
{
	for (int i = 0; i < 2; i++) {
		struct host *h = &t->h[i];

		if (h->qp)
			rig_qp_free(&h->r, h->qp);
		if (h->mr)
			rig_mr_free(&h->r, h->mr);
	}
	hosts_cut(t);
	for (int i = 0; i < 2; i++) {
		struct host *h = &t->h[i];

		rig_cq_free(&h->r, h->cq);
		rig_session_free(&h->r, h->s);
		free(h->buf);
		rig_fini(&h->r);
		others_del(&h->o);
		assert_int_equal(h->remote.refs, 1);
		assert_int_equal(h->other.refs, 1);
	}
}

int hosts_setup(void **state)
{
	enum ibv_qp_type type = *state ? (enum ibv_qp_type)(uintptr_t)*state : IBV_QPT_RC;
	struct hosts *t = malloc(sizeof(*t));

	hosts_up(t, type);
	*state = t;
	return 0;
}

int hosts_teardown(void **state)
{
	hosts_down(*state);
	free(*state);
	return 0;
}

uint64_t hosts_at(const struct hosts *t, int host, uint64_t off)
{
	return (uintptr_t)t->h[host].buf + off;
}

void hosts_rdma(struct hosts *t, uint8_t op, uint64_t id, uint64_t loff, uint64_t roff,
		uint32_t len)
{
	struct ff_sqe *e = rig_sqe(t->h[0].qp, op, id);

	rig_sge(e, t->h[0].mr, hosts_at(t, 0, loff), len);
	e->remote_addr = hosts_at(t, 1, roff);
	e->rkey = t->h[1].mr->rkey;
	rig_post(&t->h[0].r, t->h[0].qp);
}

void hosts_send(struct hosts *t, uint64_t id, uint64_t loff, uint32_t len)
{
	struct ff_sqe *e = rig_sqe(t->h[0].qp, FF_OP_SEND, id);

	rig_sge(e, t->h[0].mr, hosts_at(t, 0, loff), len);
	rig_post(&t->h[0].r, t->h[0].qp);
}

void hosts_part(struct hosts *t, struct wire_hdr *h, uint32_t n, uint8_t fill)
{
	const struct qp *to = &t->h[1].qp->qp;
	static uint8_t data[1000];

	assert_true(n <= sizeof(data));
	memset(data, fill, n);
	h->type = WIRE_REQ;
	h->len = n;
	if (!h->dst_qpn)
		h->dst_qpn = to->qp_num;
	h->src_qpn = t->h[0].qp->qp.qp_num;
	h->dst_cont = t->h[1].r.cont[0].id;
	if (!h->dst_epoch)
		h->dst_epoch = 1;
	h->src_cont = t->h[0].r.cont[0].id;
	h->src_epoch = 1;
	if (!h->tag)
		h->tag = 77;
	if (h->offset + n == h->req.length)
		h->flags |= WIRE_LAST;
	assert_int_equal(wire_send(t->h[0].r.f, &t->h[0].other, h, data), 0);
	hosts_run(t);
}

void hosts_recv(struct hosts *t, uint64_t id, uint64_t off, uint32_t len)
{
	rig_recv(&t->h[1].r, t->h[1].qp, id, t->h[1].mr, hosts_at(t, 1, off), len);
}

void hosts_expect(struct hosts *t, int host, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	assert_true(rig_poll(t->h[host].cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, st);
}

void hosts_expect_none(struct hosts *t, int host)
{
	struct ff_cqe c;

	assert_false(rig_poll(t->h[host].cq, &c));
}
