/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rig.c - see rig.h.
 */
#include "tests/lib/rig.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/dir/dir.h"
#include "tests/lib/hello.h"

#define QP_DEPTH  16u
#define QP_SGE	  4u
#define QP_INLINE 64u

static void must(int err)
{
	if (err)
		abort();
}

static void *shared(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	must(p == MAP_FAILED);
	return p;
}

static void session_bad(struct session *s, const char *why)
{
	(void)why;
	s->closing = true;
}

uint32_t rig_threads = 1;

void rig_init(struct rig *r, const struct backend_ops *ops)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;

	memset(r, 0, sizeof(*r));
	r->be.ops = ops;
	r->f = fast_create(&conf, &r->be);
	must(!r->f);
	r->f->session_bad = session_bad;
	for (uint32_t n = 1; n < rig_threads; n++)
		must(fast_add_thread(r->f, &conf));
	for (int i = 0; i < 4; i++) {
		struct container *c = &r->cont[i];

		c->name[0] = (char)('a' + i);
		strcpy(c->tenant, i < 3 ? "t" : "other"); /* container 3 is another tenant's */
		memcpy(c->gid[0].raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0", 15);
		c->gid[0].raw[15] = (uint8_t)(i + 1);
		c->num_gids = 1;
		c->lid = (uint16_t)(i + 1);
		TAILQ_INIT(&c->mw.changed);
		if (fast_container_add(r->f, c))
			abort();
		dir_container_added(r->f, c);
	}
}

void rig_fini(struct rig *r)
{
	for (int i = 0; i < 4; i++) {
		fast_container_del(r->f, &r->cont[i]);
		dir_container_gone(r->f, &r->cont[i]);
		free(r->cont[i].keys.slot);
	}
	fast_free(r->f);
}

static void obj_add(struct rig_ses *s, struct obj *o, enum obj_kind kind)
{
	o->kind = kind;
	o->ses = &s->s;
	must(obj_insert(&s->s.tab[kind], o));
}

struct rig_ses *rig_session(struct rig *r, int container)
{
	struct rig_ses *s = calloc(1, sizeof(*s));
	int fd[2], memory[2];

	for (int k = 1; k < OBJ_NUM_KINDS; k++)
		s->s.tab[k].max = FF_MAX_QP;
	must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, fd));
	s->async = fd[0];
	s->s.async_fd = fd[1];
	s->bell = s->s.bell_fd = eventfd(0, EFD_NONBLOCK);
	s->s.cont = &r->cont[container];
	s->s.pid = getpid();
	s->s.hdr = shared(sizeof(*s->s.hdr));
	s->s.mem.maps_fd = -1;
	hello_memory(memory);
	must(pvm_session_add(&s->s, memory[0], memory[1]));
	close(memory[0]);
	close(memory[1]);
	must(fast_session_add(s->s.cont->fast, &s->s));
	obj_add(s, &s->pd.o, OBJ_PD);
	return s;
}

void rig_session_free(struct rig *r, struct rig_ses *s)
{
	obj_remove(&s->s.tab[OBJ_PD], &s->pd.o);
	(void)r;
	fast_session_del(s->s.fast, &s->s);
	for (int k = 1; k < OBJ_NUM_KINDS; k++)
		obj_table_free(&s->s.tab[k]);
	munmap(s->s.hdr, sizeof(*s->s.hdr));
	close(s->async);
	close(s->s.async_fd);
	close(s->bell);
	free(s);
}

struct rig_cq *rig_cq(struct rig *r, struct rig_ses *s, uint32_t depth, bool with_channel)
{
	struct rig_cq *c = calloc(1, sizeof(*c));

	c->cq.depth = c->cq.cqe = depth;
	c->cq.hdr = shared(sizeof(*c->cq.hdr));
	c->cq.ring = shared(depth * sizeof(struct ff_cqe));
	if (with_channel) {
		must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, c->channel));
		c->chan.fd = c->channel[1];
		c->cq.channel = &c->chan;
	}
	obj_add(s, &c->cq.o, OBJ_CQ);
	must(r->be.ops->cq_create(s->s.fast, &c->cq));
	return c;
}

void rig_cq_free(struct rig *r, struct rig_cq *c)
{
	(void)r;
	fast_cq_del(c->cq.o.ses->fast, &c->cq);
	obj_remove(&c->cq.o.ses->tab[OBJ_CQ], &c->cq.o);
	munmap(c->cq.ring, c->cq.depth * sizeof(struct ff_cqe));
	munmap(c->cq.hdr, sizeof(*c->cq.hdr));
	if (c->cq.channel) {
		close(c->channel[0]);
		close(c->channel[1]);
	}
	free(c);
}

struct rig_srq *rig_srq(struct rig *r, struct rig_ses *s, uint32_t depth)
{
	struct rig_srq *q = calloc(1, sizeof(*q));

	(void)r;
	q->srq.pd = &s->pd;
	q->srq.depth = q->srq.max_wr = depth;
	q->srq.max_sge = QP_SGE;
	q->srq.stride = ff_rqe_stride(QP_SGE);
	q->srq.hdr = shared(sizeof(*q->srq.hdr));
	q->srq.ring = shared((size_t)depth * q->srq.stride);
	obj_add(s, &q->srq.o, OBJ_SRQ);
	return q;
}

void rig_srq_free(struct rig *r, struct rig_srq *q)
{
	(void)r;
	obj_remove(&q->srq.o.ses->tab[OBJ_SRQ], &q->srq.o);
	munmap(q->srq.ring, (size_t)q->srq.depth * q->srq.stride);
	munmap(q->srq.hdr, sizeof(*q->srq.hdr));
	free(q);
}

uint32_t rig_depth = QP_DEPTH;

struct rig_qp *rig_qp(struct rig *r, struct rig_ses *s, enum ibv_qp_type type, struct rig_cq *scq,
		      struct rig_cq *rcq, struct rig_srq *srq)
{
	struct rig_qp *q = calloc(1, sizeof(*q));
	struct qp *qp = &q->qp;

	qp->type = type;
	qp->pd = &s->pd;
	qp->scq = &scq->cq;
	qp->rcq = &rcq->cq;
	qp->srq = srq ? &srq->srq : NULL;
	qp->max_send_sge = qp->max_recv_sge = QP_SGE;
	qp->max_inline = QP_INLINE;
	qp->sq.depth = rig_depth;
	qp->sq.stride = ff_sqe_stride(QP_SGE, QP_INLINE);
	qp->rq.depth = srq ? 0 : rig_depth;
	qp->rq.stride = ff_rqe_stride(QP_SGE);
	qp->hdr = shared(sizeof(*qp->hdr));
	qp->sq.ring = shared((size_t)rig_depth * qp->sq.stride);
	qp->rq.ring = shared((size_t)rig_depth * qp->rq.stride);
	qp->wr = send_buf_new();
	obj_add(s, &qp->o, OBJ_QP);
	(void)r;
	must(fast_qp_add(s->s.fast, qp));
	return q;
}

void rig_qp_free(struct rig *r, struct rig_qp *q)
{
	struct qp *qp = &q->qp;

	(void)r;
	fast_qp_del(qp->o.ses->fast, qp);
	obj_remove(&qp->o.ses->tab[OBJ_QP], &qp->o);
	munmap(qp->sq.ring, (size_t)qp->sq.depth * qp->sq.stride);
	munmap(qp->rq.ring, (size_t)qp->sq.depth * qp->rq.stride);
	munmap(qp->hdr, sizeof(*qp->hdr));
	free(qp->wr);
	free(q);
}

void rig_one_open(struct rig_one *o, const struct backend_ops *ops, enum ibv_qp_type type,
		  uint32_t cqe, bool with_channel)
{
	*o = (struct rig_one){ 0 };
	rig_init(&o->r, ops);
	o->s = rig_session(&o->r, 0);
	o->cq = rig_cq(&o->r, o->s, cqe, with_channel);
	o->qp = rig_qp(&o->r, o->s, type, o->cq, o->cq, NULL);
}

void rig_state(struct rig *r, struct rig_qp *q, enum ibv_qp_state st)
{
	(void)r;
	if (st == IBV_QPS_RESET)
		fast_qp_reset(q->qp.o.ses->fast, &q->qp, q->sq_tail, q->rq_tail);
	else
		fast_qp_set_state(q->qp.o.ses->fast, &q->qp, st);
	if (st == IBV_QPS_RTS) /* watched, as after a posting: tests look at turns, not at bells */
		fast_qp_activate(q->qp.o.ses->fast, &q->qp);
}

void rig_connect(struct rig *r, struct rig_qp *q, struct rig_qp *to)
{
	struct ff_qp_attr *a = &q->qp.attr;

	rig_state(r, q, IBV_QPS_INIT);
	a->qp_access_flags = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE |
			     IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
	a->qkey = 0x1111;
	a->timeout = 14;
	a->retry_cnt = 2;
	a->rnr_retry = 2;
	a->min_rnr_timer = 12;
	a->max_rd_atomic = a->max_dest_rd_atomic = 1;
	if (to) {
		a->dest_qp_num = to->qp.qp_num;
		a->ah.is_global = 1;
		memcpy(a->ah.dgid, to->qp.o.ses->cont->gid[0].raw, 16);
		dir_meet(q->qp.o.ses->cont, &a->ah);
	}
	rig_state(r, q, IBV_QPS_RTR);
	rig_state(r, q, IBV_QPS_RTS);
}

struct mr *rig_mr_pvm(struct rig *r, struct rig_ses *s, void *buf, uint64_t len, uint32_t access)
{
	struct mr *mr = calloc(1, sizeof(*mr));

	(void)r;
	mr->pd = &s->pd;
	mr->addr = mr->iova = (uintptr_t)buf;
	mr->length = len;
	mr->access = access;
	obj_add(s, &mr->o, OBJ_MR);
	must(key_insert(&s->s.cont->keys, mr));
	return mr;
}

struct mr *rig_mr(struct rig *r, struct rig_ses *s, void *buf, uint64_t len, uint32_t access)
{
	struct mr *mr = rig_mr_pvm(r, s, buf, len, access);

	mr->run = calloc(1, sizeof(*mr->run));
	mr->run->va = mr->addr;
	mr->run->len = len;
	mr->run->host = buf;
	mr->num_runs = 1;
	return mr;
}

void rig_mr_free(struct rig *r, struct mr *mr)
{
	(void)r;
	fast_mr_del(mr->o.ses->fast, mr);
	obj_remove(&mr->o.ses->tab[OBJ_MR], &mr->o);
	free(mr->run);
	free(mr);
}

struct ff_sqe *rig_sqe(struct rig_qp *q, uint8_t opcode, uint64_t wr_id)
{
	struct ff_sqe *e = qp_sqe(&q->qp, q->sq_tail);

	e->opcode = opcode;
	e->flags = FF_SQE_SIGNALED;
	e->num_sge = 0;
	e->wr_id = wr_id;
	e->cpu = 0xffff;
	return e;
}

void rig_sge(struct ff_sqe *e, const struct mr *mr, uint64_t addr, uint32_t len)
{
	struct ff_sge *sge = (struct ff_sge *)((uint8_t *)e + offsetof(struct ff_sqe, sge));

	sge[e->num_sge++] = (struct ff_sge){ addr, len, mr->lkey };
}

void rig_post(struct rig *r, struct rig_qp *q)
{
	struct ff_sqe *e = qp_sqe(&q->qp, q->sq_tail);

	atomic_store(&e->seq, ff_seq(q->sq_tail));
	q->sq_tail++;
	(void)r;
	fast_qp_activate(q->qp.o.ses->fast, &q->qp);
}

static void fill_rqe(uint8_t *ring, uint32_t i, uint32_t depth, uint32_t stride, uint64_t wr_id,
		     const struct mr *mr, uint64_t addr, uint32_t len)
{
	struct ff_rqe *e = (struct ff_rqe *)(ring + (size_t)(i & (depth - 1)) * stride);

	e->wr_id = wr_id;
	e->num_sge = mr ? 1 : 0;
	if (mr)
		e->sge[0] = (struct ff_sge){ addr, len, mr->lkey };
	atomic_store(&e->seq, ff_seq(i));
}

void rig_recv(struct rig *r, struct rig_qp *q, uint64_t wr_id, const struct mr *mr, uint64_t addr,
	      uint32_t len)
{
	fill_rqe(q->qp.rq.ring, q->rq_tail++, q->qp.rq.depth, q->qp.rq.stride, wr_id, mr, addr,
		 len);
	if (atomic_exchange(&q->qp.hdr->rq_need, 0)) {
		r->be.ops->recv_posted(q->qp.o.ses->fast, &q->qp, NULL);
		fast_qp_activate(q->qp.o.ses->fast, &q->qp);
	}
}

void rig_srq_recv(struct rig *r, struct rig_srq *q, uint64_t wr_id, const struct mr *mr,
		  uint64_t addr, uint32_t len)
{
	fill_rqe(q->srq.ring, q->tail++, q->srq.depth, q->srq.stride, wr_id, mr, addr, len);
	if (atomic_exchange(&q->srq.hdr->need, 0))
		r->be.ops->recv_posted(q->srq.o.ses->fast, NULL, &q->srq);
}

bool rig_poll(struct rig_cq *c, struct ff_cqe *out)
{
	struct ff_cqe *e = &c->cq.ring[c->ci & (c->cq.depth - 1)];

	if (atomic_load(&e->phase) != ff_cqe_phase(c->ci, c->cq.depth))
		return false;
	memcpy(out, e, sizeof(*out));
	c->ci++;
	atomic_store(&c->cq.hdr->ci, c->ci);
	return true;
}

int rig_async(struct rig_ses *s, uint32_t *handle)
{
	struct ff_async_event ev;

	if (recv(s->async, &ev, sizeof(ev), MSG_DONTWAIT) != sizeof(ev))
		return 0;
	if (handle)
		*handle = ev.handle;
	return (int)ev.event_type + 1;
}

void rig_run(struct rig *r)
{
	for (int i = 0; i < 100000; i++) {
		uint32_t work = 0;

		for (uint32_t n = 0; n < r->f->num_threads; n++)
			work += fast_turn(r->f->threads[n]);
		if (!work)
			return;
	}
	abort(); /* the fast path does not come to rest */
}

void rig_advance(struct rig *r, uint64_t ns)
{
	for (uint32_t n = 0; n < r->f->num_threads; n++)
		r->f->threads[n]->now += ns;
	rig_run(r);
}
