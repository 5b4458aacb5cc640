/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/vt_mem.c -lpthread */
/* test: netns */
/* all: docker */
/* night: system-san */
/* timeout: 600 */
/*
 * verbs_fork_context.c - children that use the context that their parent opened, and what they have
 * of its objects.
 */
#include "tests/rig/verbs/vt_mem.h"

#include <pthread.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE 4096u

static atomic_bool stop;

static void start(pthread_t *t, void *(*fn)(void *), void *arg)
{
	CHECK_EQ(pthread_create(t, NULL, fn, arg), 0);
}

static void join(pthread_t t)
{
	CHECK_EQ(pthread_join(t, NULL), 0);
}

/* ---- the context in a child ------------------------------------------------------------------ */

static pid_t child(void (*fn)(void *), void *arg)
{
	pid_t pid = fork();

	CHECK(pid >= 0);
	if (!pid) {
		fn(arg);
		_exit(0);
	}
	return pid;
}

/* Two connected ends on a context and PD that exist. */
struct couple {
	struct ibv_context *ctx;
	struct ibv_pd *pd;
	struct vt_end a, b;
};

static void couple_open(struct couple *c, const struct vt_param *par, struct ibv_context *ctx)
{
	c->ctx = ctx;
	c->pd = CHECK_PTR(ibv_alloc_pd(ctx));
	CHECK(c->pd->context == ctx);
	vt_end_open_on(&c->a, par, ctx, c->pd);
	vt_end_open_on(&c->b, par, ctx, c->pd);
	vt_connect(&c->a, &c->b.self);
	vt_connect(&c->b, &c->a.self);
}

static void couple_check(struct couple *c, unsigned times)
{
	for (unsigned i = 0; i < times; i++)
		vt_check_alive(&c->a, &c->b);
}

static void couple_close(struct couple *c)
{
	vt_end_close(&c->a);
	vt_end_close(&c->b);
	CHECK_OK(ibv_dealloc_pd(c->pd));
}

static void check_dm(struct ibv_context *ctx, struct ibv_pd *pd)
{
	struct ibv_alloc_dm_attr attr = { .length = 256 };
	struct ibv_dm *dm = CHECK_PTR(ibv_alloc_dm(ctx, &attr));
	uint8_t in[64], out[64];

	CHECK(dm->context == ctx);
	vt_pattern(in, sizeof(in), 5);
	CHECK_OK(ibv_memcpy_to_dm(dm, 8, in, sizeof(in)));
	CHECK_OK(ibv_memcpy_from_dm(out, dm, 8, sizeof(out)));
	CHECK_PATTERN(out, sizeof(out), 5);
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(
		ibv_reg_dm_mr(pd, dm, 0, 256, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED))));
	CHECK_OK(ibv_free_dm(dm));
}

/* Everything that a program makes, in a process that has only inherited the context. */
static void use_context(void *arg)
{
	struct ibv_context *ctx = arg;
	struct vt_param par = VT_PARAM;
	int async_fd = ctx->async_fd, cmd_fd = ctx->cmd_fd;
	struct couple c;

	par.channel = true;
	couple_open(&c, &par, ctx);
	CHECK(ctx->async_fd == async_fd && ctx->cmd_fd == cmd_fd);
	couple_check(&c, 100);
	check_dm(ctx, c.pd);
	CHECK_OK(ibv_req_notify_cq(c.b.rcq, 0));
	vt_recv(&c.b, 1, 0, 64);
	vt_send(&c.a, 2, 0, 64, IBV_SEND_SIGNALED);
	WANT_COMP_EVENT(c.b.channel, c.b.rcq);
	ibv_ack_cq_events(c.b.rcq, 1);
	WANT_OK(c.b.rcq, 1);
	WANT_OK(c.a.scq, 2);
	couple_close(&c);
}

static void use_and_close(void *arg)
{
	use_context(arg);
	CHECK_OK(ibv_close_device(arg));
}

static void just_close(void *arg)
{
	CHECK_OK(ibv_close_device(arg));
}

/* Parent and child transfer at the same time, each in its own session of the one context. */
static void child_uses_context(void)
{
	struct vt_param par = VT_PARAM;
	struct couple c;
	pid_t pid[4];

	couple_open(&c, &par, vt_open_device());
	couple_check(&c, 1);
	pid[0] = child(use_context, c.ctx);
	pid[1] = child(use_and_close, c.ctx);
	pid[2] = child(just_close, c.ctx);
	couple_check(&c, 100);
	for (unsigned i = 0; i < 3; i++)
		CHECK_EQ(vt_child_status(pid[i]), 0);
	couple_check(&c, 100);
	check_dm(c.ctx, c.pd);
	couple_close(&c);
	CHECK_OK(ibv_close_device(c.ctx));
}

/* Opens the device and becomes a daemon: its child goes on when it has ended. */
static void daemon_parent(void *arg)
{
	struct ibv_context *ctx = vt_open_device();
	pid_t pid, parent = getpid();
	int *done = arg;

	close(done[0]);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		WAIT_FOR(getppid() != parent);
		use_and_close(ctx);
		_exit(write(done[1], "x", 1) != 1);
	}
}

static void daemon_uses_context(void)
{
	int done[2];
	pid_t pid;
	char c;

	CHECK_OK(pipe(done));
	pid = child(daemon_parent, done);
	close(done[1]);
	CHECK_EQ(vt_child_status(pid), 0);
	CHECK_EQ(read(done[0], &c, 1), 1);
}

/* Workers of one parent, connected with each other. */
struct worker {
	struct ibv_context *ctx;
	int sock;
	bool sends;
};

static void work(void *arg)
{
	struct worker *w = arg;
	struct vt_param par = VT_PARAM;
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(w->ctx));
	struct vt_addr peer;
	struct vt_end e;
	char c = 0;

	vt_end_open_on(&e, &par, w->ctx, pd);
	CHECK_EQ(send(w->sock, &e.self, sizeof(e.self), 0), sizeof(e.self));
	CHECK_EQ(recv(w->sock, &peer, sizeof(peer), MSG_WAITALL), sizeof(peer));
	vt_connect(&e, &peer);
	if (!w->sends)
		vt_recv(&e, 1, 0, 512);
	CHECK_EQ(send(w->sock, &c, 1, 0), 1);
	CHECK_EQ(recv(w->sock, &c, 1, 0), 1);
	if (w->sends) {
		vt_pattern(e.buf, 512, 9);
		vt_send(&e, 2, 0, 512, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 2);
	} else {
		WANT_OK(e.rcq, 1);
		CHECK_PATTERN(e.buf, 512, 9);
	}
	CHECK_EQ(send(w->sock, &c, 1, 0), 1);
	CHECK_EQ(recv(w->sock, &c, 1, 0), 1);
	vt_end_close(&e);
	CHECK_OK(ibv_dealloc_pd(pd));
}

static void workers(void)
{
	enum { PAIRS = 4 };
	struct ibv_context *ctx = vt_open_device();
	pid_t pid[2 * PAIRS];

	for (unsigned i = 0; i < PAIRS; i++) {
		int s[2];

		CHECK_OK(socketpair(AF_UNIX, SOCK_STREAM, 0, s));
		for (unsigned k = 0; k < 2; k++)
			pid[2 * i + k] = child(work, &(struct worker){ ctx, s[k], k });
		close(s[0]);
		close(s[1]);
	}
	for (unsigned i = 0; i < 2 * PAIRS; i++)
		CHECK_EQ(vt_child_status(pid[i]), 0);
	CHECK_OK(ibv_close_device(ctx));
}

/* Threads that are the first in the child, all at once, while others fork on. */
static void *use_in_thread(void *arg)
{
	struct vt_param par = VT_PARAM;
	struct couple c;

	couple_open(&c, &par, arg);
	couple_check(&c, 20);
	couple_close(&c);
	return NULL;
}

static void race_in_child(void *arg)
{
	enum { THREADS = 4 };
	pthread_t t[THREADS];
	pid_t pid;

	for (unsigned i = 0; i < THREADS; i++)
		start(&t[i], use_in_thread, arg);
	pid = child(use_context, arg);
	for (unsigned i = 0; i < THREADS; i++)
		join(t[i]);
	CHECK_EQ(vt_child_status(pid), 0);
	CHECK_OK(ibv_close_device(arg));
}

static void threads_race(void)
{
	struct vt_param par = VT_PARAM;
	struct couple c;

	couple_open(&c, &par, vt_open_device());
	for (unsigned i = 0; i < 10; i++)
		CHECK_EQ(vt_child_status(child(race_in_child, c.ctx)), 0);
	couple_check(&c, 1);
	couple_close(&c);
	CHECK_OK(ibv_close_device(c.ctx));
}

/* ---- the parent's objects in a child ---------------------------------------------------------- */

/* One of each, of the parent; the ends are RC, `ud` is UD. */
struct objects {
	struct couple c;
	struct couple ud;
	struct ibv_mw *mw;
	struct ibv_dm *dm;
	struct ibv_mr *dm_mr;
	struct ibv_xrcd *xrcd;
	uint8_t *mem; /* registered, beside the ends' buffers */
	struct ibv_mr *mr;
};

enum { MEM = 8 * PAGE };

static void objects_open(struct objects *o, struct ibv_context *ctx)
{
	struct ibv_xrcd_init_attr xattr = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_alloc_dm_attr attr = { .length = 256 };
	struct vt_param par = VT_PARAM;

	par.srq = par.channel = true;
	couple_open(&o->c, &par, ctx);
	par.srq = par.channel = false;
	par.type = IBV_QPT_UD;
	couple_open(&o->ud, &par, ctx);
	o->mw = CHECK_PTR(ibv_alloc_mw(o->c.pd, IBV_MW_TYPE_2));
	o->dm = CHECK_PTR(ibv_alloc_dm(ctx, &attr));
	o->dm_mr = CHECK_PTR(ibv_reg_dm_mr(o->c.pd, o->dm, 0, 256,
					   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED));
	o->xrcd = CHECK_PTR(ibv_open_xrcd(ctx, &xattr));
	if (!o->mem)
		o->mem = vt_map(MEM);
	o->mr = vt_reg(&o->c.a, o->mem, MEM, VT_ACCESS_ALL);
}

static void objects_close(struct objects *o)
{
	CHECK_OK(ibv_dereg_mr(o->mr));
	CHECK_OK(ibv_close_xrcd(o->xrcd));
	CHECK_OK(ibv_dereg_mr(o->dm_mr));
	CHECK_OK(ibv_free_dm(o->dm));
	CHECK_OK(ibv_dealloc_mw(o->mw));
	couple_close(&o->ud);
	couple_close(&o->c);
}

/* Into the memory, which the other end's peer has. */
static void objects_write(struct objects *o, uint32_t seed)
{
	vt_aim(&o->c.b, o->mem, o->mr);
	vt_pattern(o->c.b.buf, MEM, seed);
	vt_rdma(&o->c.b, IBV_WR_RDMA_WRITE, 1, 0, MEM, 0, IBV_SEND_SIGNALED);
	WANT_OK(o->c.b.scq, 1);
	CHECK_PATTERN(o->mem, MEM, seed);
}

/* Nothing that is asked of them has an effect, waits, or seems to have succeeded. */
static void objects_fail(struct objects *o)
{
	struct ibv_sge sge = vt_sge(&o->c.a, 0, 64);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr rwr = { .sg_list = &sge, .num_sge = 1 }, *rbad;
	struct ibv_qp_init_attr init = {
		.send_cq = o->c.a.scq,
		.recv_cq = o->c.a.rcq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_srq_init_attr srq_init = { .attr = { 4, 1, 0 } };
	struct ibv_ah_attr ah = { .port_num = 1 };
	struct ibv_srq_attr srq_attr;
	struct ibv_qp_attr attr;
	struct ibv_qp_init_attr got;
	struct ibv_cq *cq;
	struct ibv_wc wc;
	uint8_t bytes[16] = { 0 };
	void *context;

	CHECK_ERR(ibv_post_send(o->c.a.qp, &wr, &bad), EIO);
	CHECK_ERR(ibv_post_srq_recv(o->c.a.srq, &rwr, &rbad), EIO);
	CHECK_ERR(ibv_post_recv(o->ud.a.qp, &rwr, &rbad), EIO);
	CHECK_ERR(vt_post(&o->ud.a, &wr), EIO);
	CHECK_EQ(ibv_poll_cq(o->c.a.scq, 1, &wc), -1);
	CHECK_EQ(ibv_poll_cq(o->c.a.rcq, 1, &wc), -1);
	CHECK_ERR(ibv_req_notify_cq(o->c.a.scq, 0), EIO);
	CHECK_ERR(ibv_get_cq_event(o->c.a.channel, &cq, &context), EIO);
	CHECK_ERR(vt_to_state(o->c.a.qp, IBV_QPS_ERR), EIO);
	CHECK_ERR(ibv_query_qp(o->c.a.qp, &attr, IBV_QP_STATE, &got), EIO);
	CHECK_ERR(ibv_query_srq(o->c.a.srq, &srq_attr), EIO);
	CHECK_ERR(ibv_resize_cq(o->c.a.scq, 512), EIO);
	CHECK_NULL(ibv_reg_mr(o->c.pd, o->mem, MEM, VT_ACCESS_ALL), EIO);
	CHECK_EQ(ibv_rereg_mr(o->mr, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_ERR(ibv_advise_mr(o->c.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, &sge, 1), EIO);
	CHECK_NULL(ibv_alloc_mw(o->c.pd, IBV_MW_TYPE_2), EIO);
	CHECK_NULL(ibv_alloc_null_mr(o->c.pd), EIO);
	CHECK_NULL(ibv_create_ah(o->c.pd, &ah), EIO);
	CHECK_NULL(ibv_create_qp(o->c.pd, &init), EIO);
	CHECK_NULL(ibv_create_srq(o->c.pd, &srq_init), EIO);
	CHECK_NULL(ibv_reg_dm_mr(o->c.pd, o->dm, 0, 64,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED),
		   EIO);
	CHECK_ERR(ibv_memcpy_to_dm(o->dm, 0, bytes, sizeof(bytes)), EIO);
	CHECK_ERR(ibv_memcpy_from_dm(bytes, o->dm, 0, sizeof(bytes)), EIO);
	CHECK_ERR(ibv_attach_mcast(o->ud.a.qp, &o->ud.a.self.gid, 0), EIO);
}

/* Nor do they go together with the child's own, whose handles have the same values. */
static void objects_do_not_mix(struct objects *theirs, struct objects *own)
{
	struct vt_end *a = &own->c.a;
	struct ibv_sge sge = vt_sge(&theirs->c.a, 0, 64);
	struct ibv_send_wr wr = { .sg_list = &sge, .num_sge = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_qp_init_attr init = {
		.send_cq = a->scq,
		.recv_cq = a->rcq,
		.cap = { 1, 1, 1, 1, 0 },
		.qp_type = IBV_QPT_RC,
	};
	struct ibv_send_wr bind = {
		.opcode = IBV_WR_BIND_MW,
		.bind_mw = { .mw = theirs->mw,
			     .rkey = theirs->mw->rkey + 1,
			     .bind_info = { .mr = a->mr,
					    .addr = (uintptr_t)a->buf,
					    .length = 64,
					    .mw_access_flags = IBV_ACCESS_REMOTE_READ } },
	};

	CHECK_NULL(ibv_create_cq(a->ctx, 4, NULL, theirs->c.a.channel, 0), EINVAL);
	init.send_cq = theirs->c.a.scq;
	CHECK_NULL(ibv_create_qp(own->c.pd, &init), EINVAL);
	init.send_cq = a->scq;
	init.recv_cq = theirs->c.a.rcq;
	CHECK_NULL(ibv_create_qp(own->c.pd, &init), EINVAL);
	init.recv_cq = a->rcq;
	init.srq = theirs->c.a.srq;
	CHECK_NULL(ibv_create_qp(own->c.pd, &init), EINVAL);
	CHECK_NULL(ibv_reg_dm_mr(own->c.pd, theirs->dm, 0, 64,
				 IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_ZERO_BASED),
		   EINVAL);
	CHECK_EQ(ibv_rereg_mr(theirs->mr, IBV_REREG_MR_CHANGE_PD, own->c.pd, NULL, 0, 0),
		 IBV_REREG_MR_ERR_INPUT);
	CHECK_ERR(ibv_post_send(a->qp, &bind, &bad), EINVAL);
	bind.bind_mw.mw = own->mw;
	bind.bind_mw.bind_info.mr = theirs->mr;
	CHECK_ERR(ibv_post_send(a->qp, &bind, &bad), EINVAL);
	wr.wr.ud.ah = theirs->ud.a.ah;
	CHECK_ERR(ibv_post_send(own->ud.a.qp, &wr, &bad), EINVAL);
	/* the parent's lkey is no key of this session */
	wr.wr_id = 7;
	wr.send_flags = IBV_SEND_SIGNALED;
	CHECK_OK(ibv_post_send(a->qp, &wr, &bad));
	WANT(a->scq, 7, IBV_WC_LOC_PROT_ERR);
}

static void child_of_objects(void *arg)
{
	struct objects *theirs = arg, own = { .mem = theirs->mem };
	struct ibv_device_attr attr;

	vt_pattern(own.mem, MEM, 3);
	objects_fail(theirs);
	CHECK_OK(ibv_query_device(theirs->c.ctx, &attr));
	objects_fail(theirs);
	objects_open(&own, theirs->c.ctx);
	/* the case is about handles that are equal */
	CHECK_EQ(own.c.pd->handle, theirs->c.pd->handle);
	CHECK_EQ(own.c.a.qp->handle, theirs->c.a.qp->handle);
	CHECK_EQ(own.mr->handle, theirs->mr->handle);
	objects_fail(theirs);
	couple_check(&own.c, 1);
	/* the ends of the parent's leave the child's as they are, memory among them */
	objects_close(theirs);
	couple_check(&own.c, 10);
	objects_write(&own, 4);
	objects_close(&own);
	CHECK_OK(ibv_close_device(own.c.ctx));
}

static void child_of_objects_mixes(void *arg)
{
	struct objects *theirs = arg, own = { .mem = theirs->mem };

	objects_open(&own, theirs->c.ctx);
	objects_do_not_mix(theirs, &own);
	objects_close(&own);
	objects_close(theirs);
}

static void parents_objects(void)
{
	struct objects o = { .mem = NULL };
	struct ibv_cq *cq;
	void *context;

	objects_open(&o, vt_open_device());
	vt_pattern(o.mem, MEM, 1);
	couple_check(&o.c, 1);
	/* an event that the children could take away */
	CHECK_OK(ibv_req_notify_cq(o.c.b.rcq, 0));
	vt_recv(&o.c.b, 1, 0, 64);
	vt_send(&o.c.a, 2, 0, 64, IBV_SEND_SIGNALED);
	CHECK(vt_readable(o.c.b.channel->fd, VT_WAIT_MS));
	for (unsigned i = 0; i < 3; i++) {
		CHECK_EQ(vt_child_status(child(child_of_objects, &o)), 0);
		CHECK_EQ(vt_child_status(child(child_of_objects_mixes, &o)), 0);
		CHECK_PATTERN(o.mem, MEM, 1);
	}
	CHECK_OK(ibv_get_cq_event(o.c.b.channel, &cq, &context));
	CHECK(cq == o.c.b.rcq);
	ibv_ack_cq_events(cq, 1);
	WANT_OK(o.c.b.rcq, 1);
	WANT_OK(o.c.a.scq, 2);
	couple_check(&o.c, 10);
	objects_write(&o, 2);
	objects_close(&o);
	CHECK_OK(ibv_close_device(o.c.ctx));
}

static void *poll_on(void *arg)
{
	struct ibv_cq *cq = arg;
	struct ibv_wc wc;

	while (!stop)
		CHECK_EQ(ibv_poll_cq(cq, 1, &wc), 0);
	return NULL;
}

static void poll_once(void *arg)
{
	struct objects *o = arg;
	struct ibv_wc wc;

	CHECK_EQ(ibv_poll_cq(o->c.a.scq, 1, &wc), -1);
	CHECK_ERR(vt_to_state(o->c.a.qp, IBV_QPS_RESET), EIO);
}

/* A thread that does not exist in the child had the CQ locked there, most of the time. */
static void forks_while_polling(void)
{
	struct objects o = { .mem = NULL };
	pthread_t t;

	objects_open(&o, vt_open_device());
	start(&t, poll_on, o.c.a.scq);
	for (unsigned i = 0; i < 200; i++)
		CHECK_EQ(vt_child_status(child(poll_once, &o)), 0);
	stop = true;
	join(t);
	objects_close(&o);
	CHECK_OK(ibv_close_device(o.c.ctx));
}

/* A child that forks again: the same once more, for what is the child's. */
static void grandchild_of_objects(void *arg)
{
	struct objects *grand = arg, own = { .mem = NULL };
	struct vt_param par = VT_PARAM;
	pid_t pid[2];

	pid[0] = child(child_of_objects, grand); /* before this one has asked for anything */
	objects_open(&own, grand->c.ctx);
	couple_check(&own.c, 1);
	pid[1] = child(child_of_objects, &own);
	couple_check(&own.c, 20);
	CHECK_EQ(vt_child_status(pid[0]), 0);
	CHECK_EQ(vt_child_status(pid[1]), 0);
	couple_check(&own.c, 1);
	objects_fail(grand);
	objects_close(&own);
	couple_open(&own.c, &par, grand->c.ctx);
	couple_check(&own.c, 1);
	couple_close(&own.c);
	objects_close(grand);
	CHECK_OK(ibv_close_device(grand->c.ctx));
}

static void grandchildren(void)
{
	struct objects o = { .mem = NULL };
	pid_t pid;

	objects_open(&o, vt_open_device());
	pid = child(grandchild_of_objects, &o);
	couple_check(&o.c, 50);
	CHECK_EQ(vt_child_status(pid), 0);
	couple_check(&o.c, 1);
	objects_close(&o);
	CHECK_OK(ibv_close_device(o.c.ctx));
}

/* Each has its own events, under the number that both know. */
static void child_has_event(void *arg)
{
	struct ibv_context *ctx = arg;
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev;
	struct couple c;

	/* as the parent set it, on the parent's socket */
	CHECK_ERR(ibv_get_async_event(ctx, &ev), EAGAIN);
	par.srq = true;
	couple_open(&c, &par, ctx);
	CHECK_OK(vt_to_state(c.b.qp, IBV_QPS_ERR));
	WANT_QP_EVENT(&c.b, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK_ERR(ibv_get_async_event(ctx, &ev), EAGAIN);
	couple_close(&c);
}

static void async_events(void)
{
	struct vt_param par = VT_PARAM;
	struct couple c;

	par.srq = true;
	couple_open(&c, &par, vt_open_device());
	CHECK_OK(fcntl(c.ctx->async_fd, F_SETFL, O_NONBLOCK));
	CHECK_OK(vt_to_state(c.b.qp, IBV_QPS_ERR));
	CHECK(vt_readable(c.ctx->async_fd, VT_WAIT_MS));
	CHECK_EQ(vt_child_status(child(child_has_event, c.ctx)), 0);
	WANT_QP_EVENT(&c.b, IBV_EVENT_QP_LAST_WQE_REACHED);
	CHECK(!vt_readable(c.ctx->async_fd, 0));
	couple_close(&c);
	CHECK_OK(ibv_close_device(c.ctx));
}

/* The context's descriptor is of the process's own session; an imported context stays one. */
struct importer {
	struct ibv_context *first, *imported;
	struct ibv_pd *pd;
};

static void child_imports(void *arg)
{
	struct importer *im = arg;
	struct ibv_pd *pd = CHECK_PTR(ibv_import_pd(im->imported, im->pd->handle)), *own;
	struct ibv_context *ctx;
	uint8_t *p = vt_map(PAGE);

	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(pd, p, PAGE, 0))));
	ibv_unimport_pd(pd);
	own = CHECK_PTR(ibv_alloc_pd(im->first));
	ctx = CHECK_PTR(ibv_import_device(dup(im->first->cmd_fd)));
	pd = CHECK_PTR(ibv_import_pd(ctx, own->handle));
	CHECK_OK(ibv_dereg_mr(CHECK_PTR(ibv_reg_mr(pd, p, PAGE, 0))));
	ibv_unimport_pd(pd);
	CHECK_OK(ibv_dealloc_pd(own));
	CHECK_NULL(ibv_import_pd(ctx, im->pd->handle), EINVAL); /* not the parent's */
	CHECK_OK(ibv_close_device(ctx));
	CHECK_OK(ibv_close_device(im->imported));
	CHECK_OK(ibv_close_device(im->first));
}

static void importers(void)
{
	struct importer im = { .first = vt_open_device() };
	struct ibv_pd *pd;

	im.imported = CHECK_PTR(ibv_import_device(dup(im.first->cmd_fd)));
	im.pd = CHECK_PTR(ibv_alloc_pd(im.first));
	CHECK_EQ(vt_child_status(child(child_imports, &im)), 0);
	pd = CHECK_PTR(ibv_import_pd(im.imported, im.pd->handle));
	ibv_unimport_pd(pd);
	CHECK_OK(ibv_dealloc_pd(im.pd));
	CHECK_OK(ibv_close_device(im.imported));
	CHECK_OK(ibv_close_device(im.first));
}

VT_MAIN({ "fork_child_uses_context", child_uses_context, 0 },
	{ "fork_daemon_uses_context", daemon_uses_context, 0 }, { "fork_workers", workers, 0 },
	{ "fork_threads_race", threads_race, 0 }, { "fork_parents_objects", parents_objects, 0 },
	{ "fork_while_polling", forks_while_polling, 0 },
	{ "fork_grandchildren", grandchildren, 0 }, { "fork_async_events", async_events, 0 },
	{ "fork_importers", importers, 0 })
