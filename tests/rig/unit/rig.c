/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rig.c - see rig.h.
 */
#include "tests/rig/unit/rig.h"

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
#include "tests/rig/common/hello.h"

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
const struct carrier_use *rig_carriers;
/* Weak: tests of rooms below the device, which have fakes of its neighbours, are linked without it. */
extern const struct carrier wire_carrier __attribute__((weak));
extern const struct backend_ops soft_ops __attribute__((weak));
static const struct carrier_use wire[] = { { .ops = &wire_carrier }, { 0 } };

void rig_init(struct rig *r, const struct backend_ops *ops)
{
	struct fast_conf conf = FAST_CONF_DEFAULT;
	struct fast_host *host;

	memset(r, 0, sizeof(*r));
	r->be.ops = ops;
	r->be.carriers = rig_carriers ? rig_carriers : ops == &soft_ops ? wire : NULL;
	host = fast_create(&conf, &r->be);
	must(!host);
	r->f = host->threads[0];
	must(CARRIERS_FIRST(start, r->f));
	host->session_bad = session_bad;
	for (uint32_t n = 1; n < rig_threads; n++)
		must(fast_add_thread(host, &conf));
	for (int i = 0; i < 4; i++) {
		struct container *c = &r->cont[i];

		c->name[0] = (char)('a' + i);
		strcpy(c->tenant, i < 3 ? "t" : "other"); /* container 3 is another tenant's */
		memcpy(c->gid[0].raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\0\0", 15);
		c->gid[0].raw[15] = (uint8_t)(i + 1);
		c->num_gids = 1;
		c->lid = (uint16_t)(i + 1);
		c->nic = fast_nic_choose(host);
		c->has_nic_gid = host->nic_direct;
		c->nic_gid = host->nic[c->nic].gid;
		TAILQ_INIT(&c->mw.changed);
		if (fast_container_add(host, c))
			abort();
		dir_container_added(host, c);
	}
}

void rig_fini(struct rig *r)
{
	for (int i = 0; i < 4; i++) {
		fast_container_del(r->f->host, &r->cont[i]);
		dir_container_gone(r->f->host, &r->cont[i]);
		free(r->cont[i].keys.slot);
	}
	fast_free(r->f->host);
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
	CARRIERS_FIRST(end, r->f, OBJ_PD, &s->pd.o, NULL);
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

	(void)r;
	c->cq.depth = c->cq.cqe = depth;
	c->cq.hdr = shared(sizeof(*c->cq.hdr));
	c->cq.ring = shared(depth * sizeof(struct ff_cqe));
	if (with_channel) {
		must(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, c->channel));
		c->chan.fd = c->channel[1];
		c->cq.channel = &c->chan;
	}
	obj_add(s, &c->cq.o, OBJ_CQ);
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
	CARRIERS_FIRST(end, r->f, OBJ_SRQ, &q->srq.o, NULL);
	obj_remove(&q->srq.o.ses->tab[OBJ_SRQ], &q->srq.o);
	munmap(q->srq.ring, (size_t)q->srq.depth * q->srq.stride);
	munmap(q->srq.hdr, sizeof(*q->srq.hdr));
	free(q);
}

uint32_t rig_depth = QP_DEPTH;

static int qp_add(struct qp *qp)
{
	struct fast *f = qp->o.ses->fast;
	int err = CARRIERS_FIRST(make, f, OBJ_QP, &qp->o, NULL);

	if (err)
		return err;
	err = fast_qp_add(f, qp);
	if (err)
		CARRIERS_FIRST(end, f, OBJ_QP, &qp->o, NULL);
	return err;
}

static void qp_free(struct rig_qp *q)
{
	struct qp *qp = &q->qp;

	obj_remove(&qp->o.ses->tab[OBJ_QP], &qp->o);
	munmap(qp->sq.ring, (size_t)qp->sq.depth * qp->sq.stride);
	munmap(qp->rq.ring, (size_t)qp->sq.depth * qp->rq.stride);
	munmap(qp->hdr, sizeof(*qp->hdr));
	free(qp->wr);
	free(q);
}

struct rig_qp *rig_qp_try(struct rig_ses *s, enum ibv_qp_type type, struct rig_cq *scq,
			  struct rig_cq *rcq, struct rig_srq *srq, int *err)
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
	qp->max_send_wr = qp->sq.depth = rig_depth;
	qp->sq.stride = ff_sqe_stride(QP_SGE, QP_INLINE);
	qp->max_recv_wr = qp->rq.depth = srq ? 0 : rig_depth;
	qp->rq.stride = ff_rqe_stride(QP_SGE);
	qp->hdr = shared(sizeof(*qp->hdr));
	qp->sq.ring = shared((size_t)rig_depth * qp->sq.stride);
	qp->rq.ring = shared((size_t)rig_depth * qp->rq.stride);
	qp->wr = send_buf_new();
	obj_add(s, &qp->o, OBJ_QP);
	*err = qp_add(qp);
	if (!*err)
		return q;
	qp_free(q);
	return NULL;
}

struct rig_qp *rig_qp(struct rig *r, struct rig_ses *s, enum ibv_qp_type type, struct rig_cq *scq,
		      struct rig_cq *rcq, struct rig_srq *srq)
{
	int err;
	struct rig_qp *q = rig_qp_try(s, type, scq, rcq, srq, &err);

	(void)r;
	must(err);
	return q;
}

void rig_qp_free(struct rig *r, struct rig_qp *q)
{
	struct fast *f = q->qp.o.ses->fast;

	(void)r;
	fast_qp_del(f, &q->qp);
	CARRIERS_FIRST(end, f, OBJ_QP, &q->qp.o, NULL);
	qp_free(q);
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

void rig_one_close(struct rig_one *o)
{
	rig_qp_free(&o->r, o->qp);
	rig_cq_free(&o->r, o->cq);
	rig_session_free(&o->r, o->s);
	rig_fini(&o->r);
}

int rig_state_try(struct rig_qp *q, enum ibv_qp_state st)
{
	struct qp *qp = &q->qp;
	int err = CARRIERS_FIRST(prepare, qp->o.ses->fast, qp, &qp->attr, qp->state, st);

	if (err)
		return err;
	if (st == IBV_QPS_RESET)
		fast_qp_reset(q->qp.o.ses->fast, &q->qp, q->sq_tail, q->rq_tail);
	else
		fast_qp_set_state(q->qp.o.ses->fast, &q->qp, st);
	if (st == IBV_QPS_RTS) /* watched, as after a posting: tests look at turns, not at bells */
		fast_qp_activate(q->qp.o.ses->fast, &q->qp);
	return 0;
}

void rig_state(struct rig *r, struct rig_qp *q, enum ibv_qp_state st)
{
	(void)r;
	must(rig_state_try(q, st));
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

static struct mr *mr_new(struct rig_ses *s, uint64_t va, uint64_t len, uint32_t access)
{
	struct mr *mr = calloc(1, sizeof(*mr));

	mr->pd = &s->pd;
	mr->addr = mr->iova = va;
	mr->length = len;
	mr->access = access;
	obj_add(s, &mr->o, OBJ_MR);
	return mr;
}

static void mr_add(struct mr *mr)
{
	must(CARRIERS_FIRST(make, mr->o.ses->fast, OBJ_MR, &mr->o, NULL));
	must(mr_key_new(mr->o.ses->cont, mr));
}

struct mr *rig_mr_pvm(struct rig *r, struct rig_ses *s, void *buf, uint64_t len, uint32_t access)
{
	struct mr *mr = mr_new(s, (uintptr_t)buf, len, access);

	(void)r;
	mr_add(mr);
	return mr;
}

struct mr *rig_mr_runs(struct rig_ses *s, uint64_t va, uint8_t *const *host, const uint64_t *len,
		       unsigned n, uint32_t access)
{
	struct mr *mr = mr_new(s, va, 0, access);

	mr->run = calloc(n, sizeof(*mr->run));
	for (unsigned i = 0; i < n; i++) {
		mr->run[i] = (struct mr_run){ .va = va, .len = len[i], .host = host[i] };
		va += len[i];
		mr->length += len[i];
	}
	mr->zero_copy = mr->length;
	mr->num_runs = n;
	mr_add(mr);
	return mr;
}

struct mr *rig_mr(struct rig *r, struct rig_ses *s, void *buf, uint64_t len, uint32_t access)
{
	uint8_t *host = buf;

	(void)r;
	return rig_mr_runs(s, (uintptr_t)buf, &host, &len, 1, access);
}

void rig_mr_free(struct rig *r, struct mr *mr)
{
	struct fast *f = mr->o.ses->fast;

	(void)r;
	fast_mr_del(mr);
	CARRIERS_FIRST(end, f, OBJ_MR, &mr->o, NULL);
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

bool rig_post_as_ffl(struct rig_one *o, uint64_t wr_id)
{
	struct ff_qp_hdr *h = o->qp->qp.hdr;
	struct ff_ses_hdr *s = o->s->s.hdr;
	uint32_t old = o->qp->sq_tail, i = FF_HANDLE_INDEX(o->qp->qp.o.handle);
	uint64_t one = 1;

	rig_sqe(o->qp, FF_OP_WRITE, wr_id);
	atomic_store(&qp_sqe(&o->qp->qp, old)->seq, ff_seq(old));
	o->qp->sq_tail++;
	atomic_thread_fence(memory_order_seq_cst);
	if (!atomic_load(&h->need) || !ff_need_event(atomic_load(&h->evt), o->qp->sq_tail, old) ||
	    !atomic_exchange(&h->need, 0))
		return false;
	atomic_fetch_or(&s->dirty[i / 64], 1ull << (i % 64));
	atomic_fetch_or(&s->dirty_sum[i / 64 / 64], 1ull << (i / 64 % 64));
	if (atomic_exchange(&s->need_wakeup, 0))
		must(write(o->s->bell, &one, sizeof(one)) == sizeof(one) ? 0 : -1);
	return true;
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

		for (uint32_t n = 0; n < r->f->host->num_threads; n++)
			work += fast_turn(r->f->host->threads[n]);
		if (!work)
			return;
	}
	abort(); /* the fast path does not come to rest */
}

void rig_advance(struct rig *r, uint64_t ns)
{
	for (uint32_t n = 0; n < r->f->host->num_threads; n++)
		r->f->host->threads[n]->now += ns;
	rig_run(r);
}
