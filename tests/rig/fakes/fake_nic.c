/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_nic.c - see fake_nic.h. One thread, and another one that makes and ends address handles. */
#include "tests/rig/fakes/fake_nic_int.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define WCS 8192u

struct fake_srq {
	struct ibv_srq ib;
	struct ibv_srq_attr attr;
	struct fake_queue recv;
};

struct fake_ah {
	struct ibv_ah ib;
	struct ibv_ah_attr attr;
};

struct fake_cq {
	struct ibv_cq ib;
	bool armed;
	struct ibv_wc wc[WCS];
	uint32_t head, tail;
};

struct fake_nic fake_nic;

static unsigned fail_at[FAKE_CALLS], takes;
static int fail_errno[FAKE_CALLS];
static struct ibv_cq *events[64]; /* in the channel */
static unsigned num_events;
static struct ibv_async_event async_events[64];
static struct ibv_context *async_of[64];
static unsigned num_async;
static struct ibv_context *newest;
static uint32_t next_qpn, next_key;
static pthread_mutex_t ah_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ah_free = PTHREAD_COND_INITIALIZER;
static bool ahs_held;
static unsigned ahs_waiting; /* calls of create_ah() that have not returned */

int fake_fails(enum fake_nic_call call)
{
	fake_nic.calls[call]++;
	if (!fail_at[call] || --fail_at[call])
		return 0;
	errno = fail_errno[call];
	return errno;
}

void fake_nic_fail(enum fake_nic_call call, unsigned nth, int err)
{
	fail_at[call] = nth;
	fail_errno[call] = err;
}

void fake_nic_take(unsigned n)
{
	takes = n;
	fake_nic_fail(FAKE_post_send, 1, ENOMEM);
}

static void gid_set(unsigned i, const char raw[16], uint32_t type)
{
	memcpy(fake_nic.gid[i].gid.raw, raw, 16);
	fake_nic.gid[i].gid_index = i;
	fake_nic.gid[i].port_num = 1;
	fake_nic.gid[i].gid_type = type;
	fake_nic.has_gid[i] = true;
}

void fake_nic_reset(void)
{
	memset(&fake_nic, 0, sizeof(fake_nic));
	memset(fail_at, 0, sizeof(fail_at));
	takes = num_events = num_async = 0;
	next_qpn = 0x1000;
	next_key = 0x200100;
	fake_nic.name[0] = "fake0";
	strcpy(fake_nic.attr.fw_ver, "1.2.3");
	fake_nic.attr.max_qp_wr = 256;
	fake_nic.attr.max_sge = 16;
	fake_nic.attr.max_sge_rd = 8;
	fake_nic.attr.max_qp_rd_atom = 4;
	fake_nic.attr.max_qp_init_rd_atom = 2;
	fake_nic.attr.max_srq = 10;
	fake_nic.attr.max_srq_wr = 128;
	fake_nic.attr.max_srq_sge = 8;
	fake_nic.max_inline = 300;
	fake_nic.port = (struct ibv_port_attr){ .state = IBV_PORT_ACTIVE,
						.active_mtu = IBV_MTU_2048,
						.max_mtu = IBV_MTU_4096,
						.gid_tbl_len = FAKE_NIC_GIDS,
						.max_msg_sz = 1u << 30,
						.link_layer = IBV_LINK_LAYER_ETHERNET };
	gid_set(0, "\xfe\x80\0\0\0\0\0\0\x02\x66\x66\xff\xfe\0\0\1", IBV_GID_TYPE_ROCE_V2);
	gid_set(2, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x09\0\1", IBV_GID_TYPE_ROCE_V1);
	gid_set(3, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\x09\0\1", IBV_GID_TYPE_ROCE_V2);
	gid_set(5, "\xfd\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\1", IBV_GID_TYPE_ROCE_V2);
}

bool fake_nic_is_clean(void)
{
	const struct fake_nic *n = &fake_nic;
	bool is = !n->lists && !n->contexts && !n->pds && !n->mrs && !n->cqs && !n->channels &&
		  !n->qps && !n->ahs && !n->srqs;

	if (!is)
		fprintf(stderr,
			"fake_nic: %u lists, %u contexts, %u PDs, %u MRs, %u CQs, %u channels, %u QPs, %u SRQs, %u AHs\n",
			n->lists, n->contexts, n->pds, n->mrs, n->cqs, n->channels, n->qps, n->srqs,
			n->ahs);
	return is;
}

/* ---- completions --------------------------------------------------------------------------------- */

static struct fake_qp *qp_of(struct ibv_qp *qp)
{
	return (struct fake_qp *)qp;
}

static struct fake_cq *cq_of(struct ibv_cq *cq)
{
	return (struct fake_cq *)cq;
}

void fake_nic_push(struct ibv_cq *cq, const struct ibv_wc *wc)
{
	struct fake_cq *c = cq_of(cq);
	uint64_t one = 1;

	MUST(c->tail - c->head < WCS && c->tail - c->head < (uint32_t)cq->cqe);
	c->wc[c->tail++ % WCS] = *wc;
	if (!c->armed || !cq->channel)
		return;
	c->armed = false;
	MUST(num_events < 64);
	events[num_events++] = cq;
	MUST(write(cq->channel->fd, &one, sizeof(one)) == sizeof(one));
}

void fake_nic_sent(struct ibv_qp *qp, enum ibv_wc_status st)
{
	static const enum ibv_wc_opcode of[] = {
		[IBV_WR_RDMA_WRITE] = IBV_WC_RDMA_WRITE,
		[IBV_WR_RDMA_WRITE_WITH_IMM] = IBV_WC_RDMA_WRITE,
		[IBV_WR_SEND] = IBV_WC_SEND,
		[IBV_WR_SEND_WITH_IMM] = IBV_WC_SEND,
		[IBV_WR_RDMA_READ] = IBV_WC_RDMA_READ,
		[IBV_WR_ATOMIC_CMP_AND_SWP] = IBV_WC_COMP_SWAP,
		[IBV_WR_ATOMIC_FETCH_AND_ADD] = IBV_WC_FETCH_ADD,
		[IBV_WR_SEND_WITH_INV] = IBV_WC_SEND,
	};
	struct fake_qp *q = qp_of(qp);
	uint32_t at = q->send.una % QUEUE;
	struct ibv_wc wc = { .wr_id = q->send.id[at], .status = st, .qp_num = qp->qp_num };

	MUST(q->send.una != q->send.tail);
	wc.opcode = of[q->send.opcode[at]];
	q->send.una++;
	fake_nic_push(qp->send_cq, &wc);
}

/* Where the QP's receives come from. */
static struct fake_queue *recvs_of(struct fake_qp *q)
{
	return q->init.srq ? &((struct fake_srq *)q->init.srq)->recv : &q->recv;
}

void fake_nic_received(struct ibv_qp *qp, enum ibv_wc_status st, uint32_t len,
		       const struct ibv_wc *with)
{
	struct fake_queue *r = recvs_of(qp_of(qp));
	struct ibv_wc wc = with ? *with : (struct ibv_wc){ .opcode = IBV_WC_RECV };

	MUST(r->una != r->tail);
	wc.wr_id = r->id[r->una++ % QUEUE];
	wc.status = st;
	wc.byte_len = len;
	wc.qp_num = qp->qp_num;
	fake_nic_push(qp->recv_cq, &wc);
}

void fake_nic_datagram(struct ibv_qp *qp, const void *data, uint32_t len, const struct ibv_wc *wc)
{
	struct fake_qp *q = qp_of(qp);
	const struct ibv_sge *sge = &q->recv.sge[q->recv.una % QUEUE];

	MUST(q->recv.una != q->recv.tail && len <= sge->length);
	memcpy((void *)(uintptr_t)sge->addr, data, len);
	fake_nic_received(qp, IBV_WC_SUCCESS, len, wc);
}

const struct ibv_ah_attr *fake_nic_ah(const struct ibv_ah *ah)
{
	return &((const struct fake_ah *)ah)->attr;
}

void fake_nic_hold_ahs(bool hold)
{
	pthread_mutex_lock(&ah_mutex);
	ahs_held = hold;
	pthread_cond_broadcast(&ah_free);
	pthread_mutex_unlock(&ah_mutex);
}

unsigned fake_nic_ahs_waiting(void)
{
	unsigned n;

	pthread_mutex_lock(&ah_mutex);
	n = ahs_waiting;
	pthread_mutex_unlock(&ah_mutex);
	return n;
}

void fake_nic_flush(struct ibv_qp *qp)
{
	while (fake_nic_sends(qp))
		fake_nic_sent(qp, IBV_WC_WR_FLUSH_ERR);
	while (fake_nic_recvs(qp))
		fake_nic_received(qp, IBV_WC_WR_FLUSH_ERR, 0, NULL);
}

static void clean(const struct fake_qp *q, struct ibv_cq *cq)
{
	struct fake_cq *c = cq_of(cq);
	uint32_t to = c->head;

	for (uint32_t i = c->head; i != c->tail; i++)
		if (c->wc[i % WCS].qp_num != q->ib.qp_num)
			c->wc[to++ % WCS] = c->wc[i % WCS];
	c->tail = to;
}

/* The QP has gone, or begins anew: nothing of it is in the CQs any more. */
static void forget(struct fake_qp *q)
{
	q->send.una = q->send.tail;
	q->recv.una = q->recv.tail;
	if (fake_nic.keeps_stale)
		return;
	clean(q, q->ib.send_cq);
	clean(q, q->ib.recv_cq);
}

enum ibv_qp_state fake_nic_state(struct ibv_qp *qp)
{
	return qp_of(qp)->state;
}

void fake_nic_iw_connected(struct ibv_qp *qp)
{
	MUST(fake_nic.transport == IBV_TRANSPORT_IWARP && qp_of(qp)->state == IBV_QPS_INIT);
	qp_of(qp)->state = IBV_QPS_RTS;
}

unsigned fake_nic_sends(struct ibv_qp *qp)
{
	return qp_of(qp)->send.tail - qp_of(qp)->send.una;
}

unsigned fake_nic_recvs(struct ibv_qp *qp)
{
	return qp_of(qp)->recv.tail - qp_of(qp)->recv.una;
}

unsigned fake_nic_srq_recvs(struct ibv_srq *srq)
{
	const struct fake_srq *s = (struct fake_srq *)srq;

	return s->recv.tail - s->recv.una;
}

static const struct fake_nic_wr *log_at(unsigned n, bool is_recv)
{
	for (unsigned i = 0; i < fake_nic.num_log; i++)
		if (fake_nic.log[i].is_recv == is_recv && !n--)
			return &fake_nic.log[i];
	MUST(!"so many WRs were posted");
	return NULL;
}

const struct fake_nic_wr *fake_nic_send_at(unsigned n)
{
	return log_at(n, false);
}

const struct fake_nic_wr *fake_nic_recv_at(unsigned n)
{
	return log_at(n, true);
}

static unsigned log_count(bool is_recv)
{
	unsigned n = 0;

	for (unsigned i = 0; i < fake_nic.num_log; i++)
		n += fake_nic.log[i].is_recv == is_recv;
	return n;
}

unsigned fake_nic_num_sends(void)
{
	return log_count(false);
}

unsigned fake_nic_num_recvs(void)
{
	return log_count(true);
}

/* ---- the context's calls ---------------------------------------------------------------------------- */

static struct fake_nic_wr *note(struct ibv_qp *qp, bool is_recv, uint64_t id,
				const struct ibv_sge *sge, int n)
{
	struct fake_nic_wr *w = &fake_nic.log[fake_nic.num_log++];

	MUST(fake_nic.num_log <= FAKE_NIC_LOG && n <= FAKE_NIC_SGE);
	*w = (struct fake_nic_wr){ .qp = qp, .is_recv = is_recv, .wr_id = id, .num_sge = n };
	w->call = fake_nic.calls[!qp	 ? FAKE_post_srq_recv :
				 is_recv ? FAKE_post_recv :
					   FAKE_post_send];
	memcpy(w->sge, sge, (size_t)n * sizeof(*sge));
	return w;
}

void fake_send_one(struct fake_qp *q, const struct ibv_send_wr *wr)
{
	struct fake_nic_wr *w = note(&q->ib, false, wr->wr_id, wr->sg_list, wr->num_sge);
	uint32_t at = 0;

	w->send = *wr;
	w->send.next = NULL;
	w->send.sg_list = NULL;
	for (int i = 0; i < wr->num_sge && wr->send_flags & IBV_SEND_INLINE; i++) {
		const struct ibv_sge *sge = &wr->sg_list[i];

		MUST(at + sge->length <= q->init.cap.max_inline_data);
		memcpy(w->data + at, (void *)(uintptr_t)sge->addr, sge->length);
		at += sge->length;
	}
	if (q->ib.qp_type == IBV_QPT_UD && wr->num_sge) {
		MUST(wr->num_sge == 1);
		memcpy(w->data, (void *)(uintptr_t)wr->sg_list[0].addr,
		       wr->sg_list[0].length < sizeof(w->data) ? wr->sg_list[0].length :
								 sizeof(w->data));
	}
	MUST(q->ib.qp_type != IBV_QPT_UD || wr->wr.ud.ah->pd == q->ib.pd);
	q->send.opcode[q->send.tail % QUEUE] = wr->opcode;
	q->send.id[q->send.tail++ % QUEUE] = wr->wr_id;
}

static int post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct fake_qp *q = qp_of(qp);
	unsigned max = UINT32_MAX;
	int err = fake_fails(FAKE_post_send);

	if (err) {
		max = takes;
		takes = 0;
	}
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (!max--)
			return err;
		if (q->state < IBV_QPS_RTS || wr->num_sge > (int)q->init.cap.max_send_sge)
			return EINVAL;
		if (fake_nic_sends(qp) == q->init.cap.max_send_wr)
			return ENOMEM;
		fake_send_one(q, wr);
	}
	if (q->state == IBV_QPS_ERR && !fake_nic.flushes_late)
		fake_nic_flush(qp);
	return 0;
}

static void recv_one(struct fake_queue *r, struct ibv_qp *qp, const struct ibv_recv_wr *wr)
{
	note(qp, true, wr->wr_id, wr->sg_list, wr->num_sge);
	if (wr->num_sge)
		r->sge[r->tail % QUEUE] = wr->sg_list[0];
	r->id[r->tail++ % QUEUE] = wr->wr_id;
}

static int post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_qp *q = qp_of(qp);
	int err = fake_fails(FAKE_post_recv);

	MUST(!q->init.srq);
	for (; wr; wr = wr->next) {
		*bad = wr;
		if (err)
			return err;
		if (q->state == IBV_QPS_RESET || wr->num_sge > (int)q->init.cap.max_recv_sge)
			return EINVAL;
		if (fake_nic_recvs(qp) == q->init.cap.max_recv_wr)
			return ENOMEM;
		recv_one(&q->recv, qp, wr);
	}
	if (q->state == IBV_QPS_ERR && !fake_nic.flushes_late)
		fake_nic_flush(qp);
	return 0;
}

static int post_srq_recv(struct ibv_srq *srq, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	struct fake_srq *s = (struct fake_srq *)srq;
	int err = fake_fails(FAKE_post_srq_recv);

	for (; wr; wr = wr->next) {
		*bad = wr;
		if (err)
			return err;
		if (wr->num_sge > (int)s->attr.max_sge)
			return EINVAL;
		if (fake_nic_srq_recvs(srq) == s->attr.max_wr)
			return ENOMEM;
		recv_one(&s->recv, NULL, wr);
	}
	return 0;
}

static int poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct fake_cq *c = cq_of(cq);
	int got = 0;

	for (; got < n && c->head != c->tail; got++)
		wc[got] = c->wc[c->head++ % WCS];
	return got;
}

static int req_notify_cq(struct ibv_cq *cq, int solicited_only)
{
	int err = fake_fails(FAKE_req_notify_cq);

	MUST(!solicited_only);
	cq_of(cq)->armed = !err;
	return err;
}

static int query_port(struct ibv_context *ctx, uint8_t port, struct ibv_port_attr *attr, size_t len)
{
	int err = fake_fails(FAKE_query_port);

	(void)ctx;
	if (err)
		return err;
	if (port < 1 || port > FAKE_NIC_PORTS)
		return EINVAL;
	memcpy(attr, &fake_nic.port, len < sizeof(*attr) ? len : sizeof(*attr));
	return 0;
}

/* ---- the library's -------------------------------------------------------------------------------- */

static struct ibv_device devices[FAKE_NIC_NAMES];

static struct ibv_device **get_device_list(int *num)
{
	struct ibv_device **list;
	int n = 0;

	if (fake_fails(FAKE_get_device_list))
		return NULL;
	list = calloc(FAKE_NIC_NAMES + 1, sizeof(*list));
	MUST(list);
	while (n < FAKE_NIC_NAMES && fake_nic.name[n]) {
		strcpy(devices[n].dev_name, FAKE_NIC_NODE);
		devices[n].transport_type = fake_nic.transport;
		list[n] = &devices[n];
		n++;
	}
	if (num)
		*num = n;
	fake_nic.lists++;
	return list;
}

static void free_device_list(struct ibv_device **list)
{
	fake_nic.lists--;
	free(list);
}

static const char *get_device_name(struct ibv_device *device)
{
	return fake_nic.name[device - devices];
}

static int query_device_ex(struct ibv_context *ctx, const struct ibv_query_device_ex_input *input,
			   struct ibv_device_attr_ex *attr, size_t size)
{
	(void)ctx;
	MUST(!input && size == sizeof(*attr));
	memset(attr, 0, size);
	attr->orig_attr = fake_nic.attr;
	attr->packet_pacing_caps = fake_nic.pacing;
	attr->odp_caps = fake_nic.odp;
	return fake_fails(FAKE_query_device_ex);
}

static int modify_qp_rate_limit(struct ibv_qp *qp, struct ibv_qp_rate_limit_attr *attr)
{
	MUST(qp_of(qp)->state == IBV_QPS_RTS);
	MUST(!attr->rate_limit || (attr->rate_limit >= fake_nic.pacing.qp_rate_limit_min &&
				   attr->rate_limit <= fake_nic.pacing.qp_rate_limit_max));
	fake_nic.rate.qp = qp;
	fake_nic.rate.attr = *attr;
	return fake_fails(FAKE_modify_qp_rate_limit);
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *attr);

static struct ibv_context *open_device(struct ibv_device *device)
{
	struct verbs_context *v;

	if (fake_fails(FAKE_open_device))
		return NULL;
	v = calloc(1, sizeof(*v));
	MUST(v);
	v->sz = sizeof(*v);
	v->query_port = query_port;
	v->query_device_ex = query_device_ex;
	v->create_qp_ex = fake_nic.has_wr ? create_qp_ex : NULL;
	v->modify_qp_rate_limit = modify_qp_rate_limit;
	v->context.device = device;
	v->context.abi_compat = __VERBS_ABI_IS_EXTENDED;
	v->context.ops.post_send = post_send;
	v->context.ops.post_recv = post_recv;
	v->context.ops.post_srq_recv = post_srq_recv;
	v->context.ops.poll_cq = poll_cq;
	v->context.ops.req_notify_cq = req_notify_cq;
	v->context.async_fd = eventfd(0, EFD_SEMAPHORE);
	MUST(v->context.async_fd >= 0);
	newest = &v->context;
	fake_nic.contexts++;
	return &v->context;
}

static struct ibv_async_event async_take(unsigned i)
{
	struct ibv_async_event ev = async_events[i];

	num_async--;
	memmove(async_events + i, async_events + i + 1, (num_async - i) * sizeof(ev));
	memmove(async_of + i, async_of + i + 1, (num_async - i) * sizeof(async_of[0]));
	return ev;
}

static int close_device(struct ibv_context *ctx)
{
	fake_nic.contexts--;
	for (unsigned i = 0; i < num_async; i++)
		if (async_of[i] == ctx)
			async_take(i--);
	close(ctx->async_fd);
	free(verbs_get_ctx(ctx));
	return 0;
}

static int query_device(struct ibv_context *ctx, struct ibv_device_attr *attr)
{
	(void)ctx;
	*attr = fake_nic.attr;
	return fake_fails(FAKE_query_device);
}

static int query_gid(struct ibv_context *ctx, uint8_t port, int index, union ibv_gid *gid)
{
	(void)ctx;
	(void)port;
	if (fake_fails(FAKE_query_gid) || !fake_nic.has_gid[index])
		return -1;
	*gid = fake_nic.gid[index].gid;
	return 0;
}

static int query_gid_ex(struct ibv_context *ctx, uint32_t port, uint32_t index,
			struct ibv_gid_entry *entry, uint32_t flags, size_t size)
{
	int err = fake_fails(FAKE_query_gid_ex);

	if (err)
		return err;
	if (port < 1 || port > FAKE_NIC_PORTS || flags || size != sizeof(*entry))
		return EINVAL;
	if (index >= FAKE_NIC_GIDS || !fake_nic.has_gid[index])
		return ENODATA;
	*entry = fake_nic.gid[index];
	if (index) { /* each port of each device has another one */
		entry->port_num = port;
		entry->gid.raw[14] ^= (uint8_t)(port - 1);
		entry->gid.raw[15] ^= (uint8_t)(ctx->device - devices) << 4;
	}
	return 0;
}

void fake_nic_event_of(struct ibv_context *ctx, enum ibv_event_type type, void *element,
		       uint8_t port)
{
	uint64_t one = 1;

	MUST(num_async < 64);
	async_events[num_async] = (struct ibv_async_event){ .event_type = type };
	if (element)
		async_events[num_async].element.qp = element;
	else
		async_events[num_async].element.port_num = port;
	async_of[num_async++] = ctx;
	MUST(write(ctx->async_fd, &one, sizeof(one)) == sizeof(one));
}

void fake_nic_event(enum ibv_event_type type, void *element)
{
	fake_nic_event_of(newest, type, element, 1);
}

static int get_async_event(struct ibv_context *ctx, struct ibv_async_event *event)
{
	unsigned i = 0;
	uint64_t one;

	if (fake_fails(FAKE_get_async_event))
		return -1;
	MUST(fcntl(ctx->async_fd, F_GETFL) & O_NONBLOCK);
	if (read(ctx->async_fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	while (i < num_async && async_of[i] != ctx)
		i++;
	MUST(i < num_async);
	*event = async_take(i);
	return 0;
}

static void ack_async_event(struct ibv_async_event *event)
{
	(void)event;
	fake_nic.calls[FAKE_ack_async_event]++;
}

static struct ibv_pd *alloc_pd(struct ibv_context *ctx)
{
	struct ibv_pd *pd;

	if (fake_fails(FAKE_alloc_pd))
		return NULL;
	pd = calloc(1, sizeof(*pd));
	MUST(pd);
	pd->context = ctx;
	fake_nic.pds++;
	return pd;
}

static int dealloc_pd(struct ibv_pd *pd)
{
	int err = fake_fails(FAKE_dealloc_pd);

	MUST(!pd->handle); /* how many use it */
	fake_nic.pds--;
	free(pd);
	return err;
}

/* Numbers of a table come first. */
static uint32_t number(const uint32_t *table, unsigned *at, uint32_t *next)
{
	uint32_t n = *at < 256 ? table[(*at)++] : 0;

	return n ? n : ++*next;
}

static struct ibv_mr *reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
				   unsigned int access)
{
	struct ibv_mr *mr;

	if (fake_fails(FAKE_reg_mr_iova2))
		return NULL;
	mr = calloc(1, sizeof(*mr));
	MUST(mr);
	mr->context = pd->context;
	mr->pd = pd;
	mr->addr = addr;
	mr->length = length;
	mr->lkey = mr->rkey = number(fake_nic.key, &fake_nic.key_at, &next_key);
	fake_nic.mr.pd = pd;
	fake_nic.mr.addr = addr;
	fake_nic.mr.length = length;
	fake_nic.mr.iova = iova;
	fake_nic.mr.access = access;
	pd->handle++;
	fake_nic.mrs++;
	return mr;
}

static int dereg_mr(struct ibv_mr *mr)
{
	int err = fake_fails(FAKE_dereg_mr);

	mr->pd->handle--;
	fake_nic.mrs--;
	free(mr);
	return err;
}

static struct ibv_comp_channel *create_comp_channel(struct ibv_context *ctx)
{
	struct ibv_comp_channel *ch;

	if (fake_fails(FAKE_create_comp_channel))
		return NULL;
	ch = calloc(1, sizeof(*ch));
	MUST(ch);
	ch->context = ctx;
	ch->fd = eventfd(0, EFD_SEMAPHORE);
	MUST(ch->fd >= 0);
	fake_nic.channels++;
	return ch;
}

static int destroy_comp_channel(struct ibv_comp_channel *ch)
{
	MUST(!ch->refcnt);
	fake_fails(FAKE_destroy_comp_channel);
	close(ch->fd);
	free(ch);
	fake_nic.channels--;
	return 0;
}

static struct ibv_cq *create_cq(struct ibv_context *ctx, int cqe, void *arg,
				struct ibv_comp_channel *ch, int vector)
{
	struct fake_cq *c;

	if (fake_fails(FAKE_create_cq))
		return NULL;
	MUST(!vector);
	c = calloc(1, sizeof(*c));
	MUST(c);
	c->ib.context = ctx;
	c->ib.cqe = cqe;
	c->ib.cq_context = arg;
	c->ib.channel = ch;
	if (ch)
		ch->refcnt++;
	fake_nic.cqs++;
	return &c->ib;
}

static int destroy_cq(struct ibv_cq *cq)
{
	int err = fake_fails(FAKE_destroy_cq);

	MUST(!cq->handle);					       /* QPs of it */
	MUST(cq->comp_events_completed == cq->async_events_completed); /* got and acknowledged */
	for (unsigned i = 0; i < num_events; i++)
		if (events[i] == cq)
			events[i--] = events[--num_events];
	if (cq->channel)
		cq->channel->refcnt--;
	fake_nic.cqs--;
	free(cq);
	return err;
}

static int get_cq_event(struct ibv_comp_channel *ch, struct ibv_cq **cq, void **arg)
{
	uint64_t one;

	if (fake_fails(FAKE_get_cq_event))
		return -1;
	MUST(fcntl(ch->fd, F_GETFL) & O_NONBLOCK);
	if (read(ch->fd, &one, sizeof(one)) != sizeof(one))
		return -1;
	MUST(num_events);
	*cq = events[0];
	*arg = (*cq)->cq_context;
	(*cq)->async_events_completed++; /* how many were got */
	memmove(events, events + 1, --num_events * sizeof(events[0]));
	return 0;
}

static void ack_cq_events(struct ibv_cq *cq, unsigned int n)
{
	fake_fails(FAKE_ack_cq_events);
	cq->comp_events_completed += n;
}

static struct ibv_qp *create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct fake_qp *q;

	if (fake_fails(FAKE_create_qp))
		return NULL;
	if (attr->cap.max_inline_data > fake_nic.max_inline ||
	    attr->cap.max_send_wr > (uint32_t)fake_nic.attr.max_qp_wr ||
	    attr->cap.max_recv_wr > (uint32_t)fake_nic.attr.max_qp_wr ||
	    attr->cap.max_send_sge > (uint32_t)fake_nic.attr.max_sge ||
	    attr->cap.max_recv_sge > (uint32_t)fake_nic.attr.max_sge) {
		errno = EINVAL;
		return NULL;
	}
	q = calloc(1, sizeof(*q));
	MUST(q);
	q->ib.context = pd->context;
	q->ib.pd = pd;
	q->ib.send_cq = attr->send_cq;
	q->ib.recv_cq = attr->recv_cq;
	q->ib.qp_type = attr->qp_type;
	q->ib.qp_num = number(fake_nic.qpn, &fake_nic.qpn_at, &next_qpn);
	q->state = IBV_QPS_RESET;
	q->init = fake_nic.init = *attr;
	pd->handle++;
	attr->send_cq->handle++;
	attr->recv_cq->handle++;
	if (attr->srq)
		attr->srq->handle++;
	fake_nic.qps++;
	fake_nic.last_qp = &q->ib;
	return &q->ib;
}

static struct ibv_qp *create_qp_ex(struct ibv_context *ctx, struct ibv_qp_init_attr_ex *ex)
{
	struct ibv_qp_init_attr attr;
	struct ibv_qp *qp;

	if (fake_fails(FAKE_create_qp_ex))
		return NULL;
	MUST(ex->comp_mask == (IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS));
	memcpy(&attr, ex, sizeof(attr)); /* begins alike */
	qp = create_qp(ex->pd, &attr);
	if (!qp)
		return NULL;
	MUST(qp->context == ctx);
	qp_of(qp)->has_ex = true;
	fake_ex_init(&qp_of(qp)->ex);
	return qp;
}

static struct ibv_qp_ex *qp_to_qp_ex(struct ibv_qp *qp)
{
	fake_fails(FAKE_qp_to_qp_ex);
	return qp_of(qp)->has_ex ? &qp_of(qp)->ex : NULL;
}

static int modify_qp(struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
{
	struct fake_qp *q = qp_of(qp);
	enum ibv_qp_state next = attr->qp_state;
	int err = fake_fails(FAKE_modify_qp);

	MUST(mask & IBV_QP_STATE);
	fake_nic.modify[fake_nic.num_modify++ % 64] = (struct fake_nic_modify){ qp, *attr, mask };
	if (err)
		return err;
	if (next != IBV_QPS_ERR && next != IBV_QPS_RESET && next != q->state + 1 &&
	    !(next == IBV_QPS_INIT && q->state == IBV_QPS_INIT) &&
	    !(next == IBV_QPS_RTS && (q->state == IBV_QPS_SQE || q->state == IBV_QPS_RTS)))
		return EINVAL;
	/* iw_cm's alone */
	MUST(fake_nic.transport != IBV_TRANSPORT_IWARP || next == IBV_QPS_INIT ||
	     next == IBV_QPS_ERR);
	q->state = next;
	if (next == IBV_QPS_RESET)
		forget(q);
	if (next == IBV_QPS_ERR && !fake_nic.flushes_late)
		fake_nic_flush(qp);
	return 0;
}

static int destroy_qp(struct ibv_qp *qp)
{
	int err = fake_fails(FAKE_destroy_qp);

	MUST(!qp_of(qp)->is_open);
	forget(qp_of(qp));
	qp->pd->handle--;
	qp->send_cq->handle--;
	qp->recv_cq->handle--;
	if (qp_of(qp)->init.srq)
		qp_of(qp)->init.srq->handle--;
	fake_nic.qps--;
	free(qp);
	return err;
}

static struct ibv_srq *create_srq(struct ibv_pd *pd, struct ibv_srq_init_attr *attr)
{
	struct fake_srq *s;

	if (fake_fails(FAKE_create_srq))
		return NULL;
	MUST(attr->attr.max_wr <= QUEUE);
	s = calloc(1, sizeof(*s));
	MUST(s);
	s->ib.context = pd->context;
	s->ib.pd = pd;
	s->attr = attr->attr;
	pd->handle++;
	fake_nic.srqs++;
	return &s->ib;
}

static int destroy_srq(struct ibv_srq *srq)
{
	int err = fake_fails(FAKE_destroy_srq);

	MUST(!srq->handle); /* QPs of it */
	srq->pd->handle--;
	fake_nic.srqs--;
	free(srq);
	return err;
}

static struct ibv_ah *create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr)
{
	struct fake_ah *ah = NULL;

	pthread_mutex_lock(&ah_mutex);
	ahs_waiting++;
	while (ahs_held)
		pthread_cond_wait(&ah_free, &ah_mutex);
	ahs_waiting--;
	if (!fake_fails(FAKE_create_ah)) {
		ah = calloc(1, sizeof(*ah));
		MUST(ah && attr->is_global && attr->port_num >= 1 &&
		     attr->port_num <= FAKE_NIC_PORTS);
		ah->ib.context = pd->context;
		ah->ib.pd = pd;
		ah->attr = fake_nic.ah = *attr;
		fake_nic.ahs++;
	}
	pthread_mutex_unlock(&ah_mutex);
	return ah ? &ah->ib : NULL;
}

static int destroy_ah(struct ibv_ah *ah)
{
	int err = fake_fails(FAKE_destroy_ah);

	fake_nic.ahs--;
	free(ah);
	return err;
}

int nic_lib_load(struct nic_lib *lib, const char **why)
{
	*why = "the test says so";
	if (fake_fails(FAKE_load))
		return -errno;
#define X(type, name, params) lib->name = name;
	NIC_LIB(X)
#undef X
	lib->query_gid_ex = query_gid_ex;
	if (fake_nic.load_more)
		fake_nic.load_more(lib);
	return 0;
}
