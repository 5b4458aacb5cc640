/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm -lpthread */
/* timeout: 300 */
/*
 * verbs_fields.c - public fields of the public structs, which programs read without asking anybody:
 * they are kept as rdma-core keeps them. What is in the structs that queries fill in is
 * verbs_device.c's and verbs_qp_state.c's.
 */
#include "tests/rig/verbs/cmt.h"

#include <fcntl.h>
#include <infiniband/sa.h>
#include <pthread.h>

/* ---- acknowledged events --------------------------------------------------------------------------- */

/* The mutex beside a counter is nobody's while no acknowledgement is under way. */
static bool is_free(pthread_mutex_t *mutex)
{
	return !pthread_mutex_trylock(mutex) && !pthread_mutex_unlock(mutex);
}

static void *ack_one(void *cq)
{
	ibv_ack_cq_events(cq, 1);
	return NULL;
}

static void completion_events(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	pthread_t t;

	par.channel = true;
	vt_pair(&a, &b, &par);
	CHECK(!a.scq->comp_events_completed && !a.scq->async_events_completed);
	for (unsigned i = 0; i < 3; i++) {
		CHECK_OK(ibv_req_notify_cq(a.scq, 0));
		vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 8, 0, IBV_SEND_SIGNALED);
		WANT_COMP_EVENT(a.channel, a.scq);
		WANT_OK(a.scq, i);
		CHECK_EQ(a.scq->comp_events_completed, 0);
	}
	ibv_ack_cq_events(a.scq, 0);
	CHECK_EQ(a.scq->comp_events_completed, 0);
	ibv_ack_cq_events(a.scq, 2);
	CHECK_EQ(a.scq->comp_events_completed, 2);
	CHECK(is_free(&a.scq->mutex));
	/* who waits for the last one, as ibv_destroy_cq() does, is woken */
	CHECK(!pthread_mutex_lock(&a.scq->mutex));
	CHECK(!pthread_create(&t, NULL, ack_one, a.scq));
	while (a.scq->comp_events_completed != 3)
		CHECK(!pthread_cond_wait(&a.scq->cond, &a.scq->mutex));
	CHECK(!pthread_mutex_unlock(&a.scq->mutex));
	CHECK(!pthread_join(t, NULL));
	CHECK_EQ(a.scq->async_events_completed, 0);
	CHECK_EQ(a.rcq->comp_events_completed, 0);
	vt_pair_close(&a, &b);
}

static struct ibv_async_event next_event(struct ibv_context *ctx, enum ibv_event_type type)
{
	struct ibv_async_event ev;

	CHECK(vt_readable(ctx->async_fd, VT_WAIT_MS));
	CHECK_OK(ibv_get_async_event(ctx, &ev));
	CHECK_EQ(ev.event_type, type);
	return ev;
}

static void async_event_of_a_cq(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev;
	struct vt_end a, b;
	unsigned n;

	par.cqe = 4;
	par.send_wr = 1024;
	vt_pair(&a, &b, &par);
	n = 2 * (unsigned)a.scq->cqe + 16;
	for (unsigned i = 0; i < n; i++) {
		struct ibv_send_wr wr = { .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = { a.peer.addr, a.peer.rkey } };

		if (vt_post(&a, &wr)) /* the QP may fail with its CQ */
			break;
	}
	ev = next_event(a.ctx, IBV_EVENT_CQ_ERR);
	CHECK(ev.element.cq == a.scq);
	CHECK_EQ(a.scq->async_events_completed, 0);
	ibv_ack_async_event(&ev);
	CHECK_EQ(a.scq->async_events_completed, 1);
	CHECK_EQ(a.scq->comp_events_completed, 0);
	CHECK(is_free(&a.scq->mutex));
	vt_pair_close(&a, &b);
}

static void async_events_of_a_qp(void)
{
	struct ibv_qp_attr attr = { .qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1 };
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev[2];
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(ev); i++) {
		CHECK_OK(ibv_modify_qp(a.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY));
		ev[i] = next_event(a.ctx, IBV_EVENT_SQ_DRAINED);
		CHECK(ev[i].element.qp == a.qp);
		CHECK_OK(vt_to_state(a.qp, IBV_QPS_RTS));
	}
	CHECK_EQ(a.qp->events_completed, 0);
	ibv_ack_async_event(&ev[0]);
	CHECK_EQ(a.qp->events_completed, 1);
	ibv_ack_async_event(&ev[1]);
	CHECK_EQ(a.qp->events_completed, 2);
	CHECK(is_free(&a.qp->mutex));
	vt_pair_close(&a, &b);
}

static void async_event_of_an_srq(void)
{
	struct ibv_srq_attr attr = { .srq_limit = 2 };
	struct vt_param par = VT_PARAM;
	struct ibv_async_event ev;
	struct vt_end a, b;

	par.srq = true;
	vt_pair(&a, &b, &par);
	vt_recv(&b, 1, 0, 8);
	vt_recv(&b, 2, 0, 8);
	CHECK_OK(ibv_modify_srq(b.srq, &attr, IBV_SRQ_LIMIT));
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	WANT_OK(a.scq, 1);
	ev = next_event(b.ctx, IBV_EVENT_SRQ_LIMIT_REACHED);
	CHECK(ev.element.srq == b.srq);
	CHECK_EQ(b.srq->events_completed, 0);
	ibv_ack_async_event(&ev);
	CHECK_EQ(b.srq->events_completed, 1);
	CHECK(is_free(&b.srq->mutex));
	vt_pair_close(&a, &b);
}

/* ---- objects ----------------------------------------------------------------------------------------- */

static void devices_and_domains(void)
{
	struct ibv_xrcd_init_attr x = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx)), *parent;
	struct ibv_td *td = CHECK_PTR(ibv_alloc_td(ctx, &(struct ibv_td_init_attr){ 0 }));
	struct ibv_parent_domain_init_attr in = { .pd = pd, .td = td };
	struct ibv_xrcd *xrcd = CHECK_PTR(ibv_open_xrcd(ctx, &x));
	struct ibv_device *dev = ctx->device;

	CHECK_EQ(dev->node_type, IBV_NODE_CA);
	CHECK_EQ(dev->transport_type, IBV_TRANSPORT_IB);
	CHECK(!strcmp(dev->name, ibv_get_device_name(dev)));
	CHECK(!strncmp(dev->dev_path, "/sys/class/infiniband_verbs/", 28));
	CHECK(!strcmp(dev->dev_path + 28, dev->dev_name));
	CHECK(!strncmp(dev->ibdev_path, "/sys/class/infiniband/", 22));
	CHECK(!strcmp(dev->ibdev_path + 22, dev->name));
	CHECK(fcntl(ctx->cmd_fd, F_GETFD) >= 0 && fcntl(ctx->async_fd, F_GETFD) >= 0);
	CHECK(ctx->num_comp_vectors > 0);
	CHECK(is_free(&ctx->mutex));
	CHECK(pd->context == ctx && td->context == ctx && xrcd->context == ctx);
	parent = CHECK_PTR(ibv_alloc_parent_domain(ctx, &in));
	CHECK(parent->context == ctx && parent->handle == pd->handle);
	CHECK_OK(ibv_dealloc_pd(parent));
	CHECK_OK(ibv_close_xrcd(xrcd));
	CHECK_OK(ibv_dealloc_td(td));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void memory(void)
{
	const int access = VT_ACCESS_ALL;
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx)), *pd2 = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_alloc_dm_attr dm_attr = { .length = 256 };
	uint8_t *buf = vt_map(16384);
	struct ibv_mr *mr, *other;
	struct ibv_dm *dm;
	struct ibv_mw *mw;

	CHECK(pd->handle != pd2->handle);
	mr = CHECK_PTR(ibv_reg_mr(pd, buf + 3, 5000, access));
	other = CHECK_PTR(ibv_reg_mr(pd, buf + 3, 5000, access));
	CHECK(mr->context == ctx && mr->pd == pd && mr->addr == buf + 3 && mr->length == 5000);
	CHECK(mr->handle != other->handle && mr->lkey != other->lkey && mr->rkey != other->rkey);
	CHECK_OK(ibv_dereg_mr(other));
	CHECK_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD, pd2,
			      buf + 8192, 100, 0));
	CHECK(mr->context == ctx && mr->pd == pd2 && mr->addr == buf + 8192 && mr->length == 100);
	CHECK_OK(ibv_dereg_mr(mr));
	/* the address is the program's, also where the peer knows another one */
	mr = CHECK_PTR(ibv_reg_mr_iova(pd, buf, 4096, 0x1234000, access));
	CHECK(mr->addr == buf && mr->length == 4096);
	CHECK_OK(ibv_dereg_mr(mr));
	mr = CHECK_PTR(ibv_alloc_null_mr(pd));
	CHECK(mr->context == ctx && mr->pd == pd && !mr->addr && mr->length == SIZE_MAX);
	CHECK_OK(ibv_dereg_mr(mr));
	dm = CHECK_PTR(ibv_alloc_dm(ctx, &dm_attr));
	CHECK(dm->context == ctx && dm->comp_mask == IBV_DM_MASK_HANDLE);
	mr = CHECK_PTR(ibv_reg_dm_mr(pd, dm, 64, 128, access | IBV_ACCESS_ZERO_BASED));
	CHECK(mr->context == ctx && mr->pd == pd && !mr->addr && mr->length == 128);
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_free_dm(dm));
	mw = CHECK_PTR(ibv_alloc_mw(pd, IBV_MW_TYPE_2));
	CHECK(mw->context == ctx && mw->pd == pd && mw->type == IBV_MW_TYPE_2 && mw->rkey);
	CHECK_OK(ibv_dealloc_mw(mw));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_dealloc_pd(pd2));
	CHECK_OK(ibv_close_device(ctx));
}

static void check_cq(struct ibv_cq *cq, struct ibv_context *ctx, struct ibv_comp_channel *ch,
		     const void *context)
{
	CHECK(cq->context == ctx && cq->channel == ch && cq->cq_context == context);
	CHECK(cq->cqe >= 4 && !cq->comp_events_completed && !cq->async_events_completed);
	CHECK(is_free(&cq->mutex));
}

static void check_qp(struct ibv_qp *qp, const struct vt_end *e, const void *context,
		     struct ibv_srq *srq)
{
	CHECK(qp->context == e->ctx && qp->pd == e->pd && qp->qp_context == context);
	CHECK(qp->send_cq == e->scq && qp->recv_cq == e->rcq && qp->srq == srq);
	CHECK(qp->qp_num && !qp->events_completed);
	CHECK_EQ(qp->state, IBV_QPS_RESET);
	CHECK_EQ(qp->qp_type, IBV_QPT_RC);
	CHECK(is_free(&qp->mutex));
}

static void queues(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_comp_channel *ch;
	struct ibv_cq_init_attr_ex cq_ex_attr;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_srq_init_attr srq_attr;
	struct ibv_qp_init_attr attr;
	struct ibv_cq_ex *cq_ex;
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;
	int a, b, c;
	struct vt_end e;

	vt_end_open(&e, &par);
	ch = CHECK_PTR(ibv_create_comp_channel(e.ctx));
	CHECK(ch->context == e.ctx && fcntl(ch->fd, F_GETFD) >= 0 && !ch->refcnt);
	cq = CHECK_PTR(ibv_create_cq(e.ctx, 4, &a, ch, 0));
	check_cq(cq, e.ctx, ch, &a);
	CHECK_EQ(ch->refcnt, 1);
	cq_ex_attr = (struct ibv_cq_init_attr_ex){ .cqe = 4, .cq_context = &b, .channel = ch };
	cq_ex = CHECK_PTR(ibv_create_cq_ex(e.ctx, &cq_ex_attr));
	check_cq(ibv_cq_ex_to_cq(cq_ex), e.ctx, ch, &b);
	CHECK_EQ(ch->refcnt, 2);
	CHECK_OK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
	CHECK_OK(ibv_destroy_cq(cq));
	CHECK_EQ(ch->refcnt, 0);
	CHECK_OK(ibv_destroy_comp_channel(ch));

	srq_attr = (struct ibv_srq_init_attr){ .srq_context = &a, .attr = { 4, 1, 0 } };
	srq = CHECK_PTR(ibv_create_srq(e.pd, &srq_attr));
	CHECK(srq->context == e.ctx && srq->pd == e.pd && srq->srq_context == &a);
	CHECK(!srq->events_completed && is_free(&srq->mutex));
	attr = (struct ibv_qp_init_attr){ .qp_context = &b,
					  .send_cq = e.scq,
					  .recv_cq = e.rcq,
					  .srq = srq,
					  .cap = { 4, 0, 1, 0, 0 },
					  .qp_type = IBV_QPT_RC };
	qp = CHECK_PTR(ibv_create_qp(e.pd, &attr));
	check_qp(qp, &e, &b, srq);
	CHECK(!ibv_qp_to_qp_ex(qp));
	CHECK_OK(ibv_destroy_qp(qp));
	CHECK_OK(ibv_destroy_srq(srq));
	ex = (struct ibv_qp_init_attr_ex){ .qp_context = &c,
					   .send_cq = e.scq,
					   .recv_cq = e.rcq,
					   .cap = { 4, 4, 1, 1, 0 },
					   .qp_type = IBV_QPT_RC,
					   .comp_mask = IBV_QP_INIT_ATTR_PD |
							IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					   .pd = e.pd,
					   .send_ops_flags = IBV_QP_EX_WITH_SEND };
	qp = CHECK_PTR(ibv_create_qp_ex(e.ctx, &ex));
	check_qp(qp, &e, &c, NULL);
	CHECK(&ibv_qp_to_qp_ex(qp)->qp_base == qp);
	CHECK_OK(ibv_destroy_qp(qp));
	vt_end_close(&e);
}

/* What the program was told last, by itself or by a query. */
static void qp_state(void)
{
	struct ibv_qp_init_attr init;
	struct vt_param par = VT_PARAM;
	struct ibv_qp_attr attr;
	struct vt_end a, b;

	par.retry_cnt = par.rnr_retry = 0;
	vt_pair(&a, &b, &par);
	CHECK_EQ(a.qp->state, IBV_QPS_RTS);
	CHECK(vt_to_state(a.qp, IBV_QPS_INIT));
	CHECK_EQ(a.qp->state, IBV_QPS_RTS); /* refused */
	vt_send(&a, 1, 0, 8, IBV_SEND_SIGNALED);
	WANT(a.scq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
	CHECK_EQ(a.qp->state, IBV_QPS_RTS);
	CHECK_OK(ibv_query_qp(a.qp, &attr, IBV_QP_CAP, &init));
	CHECK_EQ(a.qp->state, IBV_QPS_RTS); /* it was not asked for */
	CHECK_OK(ibv_query_qp(a.qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(a.qp->state, IBV_QPS_ERR);
	CHECK_OK(vt_to_state(a.qp, IBV_QPS_RESET));
	CHECK_EQ(a.qp->state, IBV_QPS_RESET);
	vt_pair_close(&a, &b);
}

static void address_handle(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_ah_attr attr = { .is_global = 1, .port_num = 1 };
	struct ibv_ah *ah;
	struct vt_end e;

	par.type = IBV_QPT_UD;
	vt_end_open(&e, &par);
	attr.grh.dgid = e.self.gid;
	attr.grh.sgid_index = (uint8_t)vt_gid_index();
	ah = CHECK_PTR(ibv_create_ah(e.pd, &attr));
	CHECK(ah->context == e.ctx && ah->pd == e.pd);
	CHECK_OK(ibv_destroy_ah(ah));
	vt_end_close(&e);
}

/* ---- rdma_cm ------------------------------------------------------------------------------------------ */

static void check_no_queues(const struct rdma_cm_id *id)
{
	CHECK(!id->qp && !id->srq && !id->send_cq && !id->recv_cq);
	CHECK(!id->send_cq_channel && !id->recv_cq_channel);
}

static void check_queues(const struct rdma_cm_id *id)
{
	CHECK(id->qp && id->qp->context == id->verbs && id->qp->pd == id->pd);
	CHECK(id->qp->send_cq == id->send_cq && id->qp->recv_cq == id->recv_cq);
	CHECK(id->send_cq->cq_context == id && id->recv_cq->cq_context == id);
	CHECK(id->send_cq->channel == id->send_cq_channel);
	CHECK(id->recv_cq->channel == id->recv_cq_channel);
}

static void check_device(const struct rdma_cm_id *id)
{
	union ibv_gid gid;

	CHECK(id->verbs && id->pd && id->pd->context == id->verbs);
	CHECK_EQ(id->port_num, 1);
	vt_gid(id->verbs, &gid);
	CHECK(!memcmp(&id->route.addr.addr.ibaddr.sgid, &gid, sizeof(gid)));
	CHECK_EQ(id->route.addr.addr.ibaddr.pkey, 0xffff);
}

static void check_path(const struct rdma_cm_id *id)
{
	const struct ibv_sa_path_rec *rec = id->route.path_rec;
	const struct rdma_ib_addr *addr = &id->route.addr.addr.ibaddr;

	CHECK(rec && id->route.num_paths == 1);
	CHECK(!memcmp(&rec->sgid, &addr->sgid, 16) && !memcmp(&rec->dgid, &addr->dgid, 16));
	CHECK(rec->pkey == 0xffff && rec->reversible && rec->numb_path == 1);
	CHECK(rec->mtu_selector == 2 && rec->rate_selector == 2);
	CHECK(rec->packet_life_time_selector == 2 && rec->mtu && rec->rate && rec->hop_limit);
	CHECK_EQ(rec->preference,
		 IBV_PATH_FLAG_GMP | IBV_PATH_FLAG_PRIMARY | IBV_PATH_FLAG_BIDIRECTIONAL);
}

static void cm_ids(void)
{
	struct rdma_conn_param param = { .private_data = "who",
					 .private_data_len = 3,
					 .responder_resources = 2,
					 .initiator_depth = 3,
					 .retry_count = 5,
					 .rnr_retry_count = 6 };
	struct sockaddr_in self = cmt_self(), *dst;
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *id, *req;
	struct rdma_cm_event *e;
	int cookie;

	CHECK(fcntl(ch->fd, F_GETFD) >= 0);
	l->context = &ch;
	CHECK(!l->verbs && !l->pd && !l->port_num);
	CHECK_OK(rdma_create_id(ch, &id, &cookie, RDMA_PS_TCP));
	CHECK(id->channel == ch && id->context == &cookie && !id->event && !id->verbs && !id->pd);
	CHECK_EQ(id->ps, RDMA_PS_TCP);
	CHECK_EQ(id->qp_type, IBV_QPT_RC);
	check_no_queues(id);
	self.sin_port = rdma_get_src_port(l);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&self, 1000));
	dst = (struct sockaddr_in *)rdma_get_peer_addr(id);
	CHECK(dst == (struct sockaddr_in *)&id->route.addr.dst_addr);
	CHECK(!memcmp(dst, &self, sizeof(self)));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	check_device(id);
	CHECK(!id->route.path_rec && !id->route.num_paths);
	CHECK(rdma_get_src_port(id) && rdma_get_src_port(id) != self.sin_port);
	CHECK_OK(rdma_resolve_route(id, 1000));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
	check_path(id);
	cmt_qp(id);
	check_queues(id);
	CHECK_EQ(id->qp->state, IBV_QPS_INIT);
	CHECK_OK(rdma_connect(id, &param));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	req = e->id;
	CHECK(e->listen_id == l);
	CHECK(e->param.conn.private_data_len >= 3);
	CHECK(!memcmp(e->param.conn.private_data, "who", 3));
	CHECK_EQ(e->param.conn.responder_resources, 3);
	CHECK_EQ(e->param.conn.initiator_depth, 2);
	CHECK_EQ(e->param.conn.retry_count, 5);
	CHECK_EQ(e->param.conn.rnr_retry_count, 6);
	CHECK_EQ(e->param.conn.srq, 0);
	CHECK_EQ(e->param.conn.qp_num, id->qp->qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK(req->channel == ch && req->context == &ch && !req->event);
	CHECK_EQ(req->ps, RDMA_PS_TCP);
	CHECK_EQ(req->qp_type, IBV_QPT_RC);
	check_device(req);
	check_path(req);
	check_no_queues(req);
	CHECK(req->verbs == id->verbs && req->pd == id->pd);
	CHECK(!memcmp(rdma_get_local_addr(req), dst, sizeof(*dst)));
	CHECK(!memcmp(rdma_get_peer_addr(req), rdma_get_local_addr(id), sizeof(*dst)));
	cmt_qp(req);
	CHECK_OK(rdma_accept(req, NULL));
	CHECK_EQ(req->qp->state, IBV_QPS_RTS);
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(id->qp->state, IBV_QPS_RTS);
	WANT_CM_ACK(ch, req, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_OK(rdma_disconnect(id));
	CHECK_EQ(id->qp->state, IBV_QPS_ERR);
	WANT_CM_ACK(ch, req, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK_OK(rdma_disconnect(req));
	WANT_CM_ACK(ch, id, RDMA_CM_EVENT_DISCONNECTED, 0);
	rdma_destroy_qp(req);
	check_no_queues(req);
	rdma_destroy_qp(id);
	check_no_queues(id);
	cmt_close(ch, id, req, l, NULL);
}

/* An id without a channel has one of its own, and the event that its last call waited for. */
static void cm_id_synchronous(void)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct ibv_srq_init_attr srq = { .attr = { 4, 1, 0 } };
	struct sockaddr_in self = cmt_self();
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *id;

	CHECK_OK(rdma_create_id(NULL, &id, NULL, RDMA_PS_TCP));
	CHECK(id->channel && fcntl(id->channel->fd, F_GETFD) >= 0 && !id->event);
	self.sin_port = htons(9);
	CHECK_OK(rdma_resolve_addr(id, NULL, (struct sockaddr *)&self, 1000));
	CHECK(id->event && id->event->id == id && !id->event->status);
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	CHECK_OK(rdma_resolve_route(id, 1000));
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_OK(rdma_create_srq(id, NULL, &srq));
	CHECK(id->srq && id->srq->pd == id->pd);
	CHECK_OK(rdma_create_qp(id, NULL, &init));
	CHECK(id->qp->srq == id->srq);
	check_queues(id);
	CHECK(rdma_connect(id, NULL)); /* nobody listens */
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_REJECTED);
	CHECK_EQ(id->event->status, 8 /* invalid service id */);
	CHECK_EQ(id->qp->state, IBV_QPS_ERR);
	rdma_destroy_qp(id);
	rdma_destroy_srq(id);
	check_no_queues(id);
	CHECK_OK(rdma_migrate_id(id, ch));
	CHECK(id->channel == ch && !id->event);
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

static void cm_events_of_ud(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_UDP), *id = cmt_route(ch, l), *req;
	struct rdma_cm_event *e;

	CHECK_EQ(id->qp_type, IBV_QPT_UD);
	cmt_qp(id);
	CHECK_EQ(id->qp->state, IBV_QPS_RTS);
	CHECK_OK(rdma_connect(id, NULL));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	req = e->id;
	CHECK_EQ(req->ps, RDMA_PS_UDP);
	CHECK_EQ(req->qp_type, IBV_QPT_UD);
	CHECK_OK(rdma_ack_cm_event(e));
	cmt_qp(req);
	CHECK_OK(rdma_accept(req, NULL));
	e = WANT_CM(ch, id, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(e->param.ud.qp_num, req->qp->qp_num);
	CHECK_EQ(e->param.ud.qkey, RDMA_UDP_QKEY);
	CHECK(e->param.ud.ah_attr.is_global && e->param.ud.ah_attr.port_num == id->port_num);
	CHECK_EQ(e->param.ud.ah_attr.grh.sgid_index, 0);
	CHECK(!memcmp(&e->param.ud.ah_attr.grh.dgid, &id->route.addr.addr.ibaddr.dgid, 16));
	CHECK_OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(req);
	rdma_destroy_qp(id);
	cmt_close(ch, id, req, l, NULL);
}

VT_MAIN({ "completion_events", completion_events, 0 },
	{ "async_event_of_a_cq", async_event_of_a_cq, 0 },
	{ "async_events_of_a_qp", async_events_of_a_qp, 0 },
	{ "async_event_of_an_srq", async_event_of_an_srq, 0 },
	{ "devices_and_domains", devices_and_domains, 0 }, { "memory", memory, 0 },
	{ "queues", queues, 0 }, { "qp_state", qp_state, 0 },
	{ "address_handle", address_handle, 0 }, { "cm_ids", cm_ids, 0 },
	{ "cm_id_synchronous", cm_id_synchronous, 0 }, { "cm_events_of_ud", cm_events_of_ud, 0 })
