/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* cmt.c - see cmt.h. Plain librdmacm; knows nothing of what lies below it. */
#include "tests/rig/verbs/cmt.h"

#include <fcntl.h>
#include <stdarg.h>

struct rdma_cm_event *cmt_want(const char *file, int line, struct rdma_event_channel *ch,
			       struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e;

	if (!vt_readable(ch->fd, VT_WAIT_MS * (int)vt_slow()))
		vt_fail(file, line, "no %s comes", rdma_event_str(type));
	if (rdma_get_cm_event(ch, &e))
		vt_fail(file, line, "rdma_get_cm_event: %s", strerror(errno));
	if (e->event != type || e->status != status)
		vt_fail(file, line, "%s %d, not %s %d", rdma_event_str(e->event), e->status,
			rdma_event_str(type), status);
	if (id && e->id != id)
		vt_fail(file, line, "%s is another id's", rdma_event_str(type));
	return e;
}

void cmt_nonblock(struct rdma_event_channel *ch)
{
	CHECK_OK(fcntl(ch->fd, F_SETFL, fcntl(ch->fd, F_GETFL) | O_NONBLOCK));
}

struct sockaddr_in cmt_self(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET };
	struct ibv_context **list = CHECK_PTR(rdma_get_devices(NULL));
	union ibv_gid gid;

	vt_gid(list[0], &gid);
	memcpy(&sin.sin_addr, gid.raw + 12, sizeof(sin.sin_addr));
	rdma_free_devices(list);
	return sin;
}

struct rdma_event_channel *cmt_channel(void)
{
	return CHECK_PTR(rdma_create_event_channel());
}

struct rdma_cm_id *cmt_id(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct rdma_cm_id *id;

	CHECK_OK(rdma_create_id(ch, &id, NULL, ps));
	return id;
}

struct rdma_cm_id *cmt_listen(struct rdma_event_channel *ch, enum rdma_port_space ps)
{
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *id = cmt_id(ch, ps);

	CHECK_OK(rdma_bind_addr(id, (struct sockaddr *)&any));
	CHECK_OK(rdma_listen(id, 0));
	CHECK(rdma_get_src_port(id) != 0);
	return id;
}

struct rdma_cm_id *cmt_route(struct rdma_event_channel *ch, struct rdma_cm_id *listener)
{
	struct rdma_cm_id *id = cmt_id(ch, listener->ps);
	struct sockaddr_in sin = cmt_self();

	sin.sin_port = rdma_get_src_port(listener);
	cmt_resolve(id, (struct sockaddr *)&sin);
	return id;
}

void cmt_resolve(struct rdma_cm_id *id, struct sockaddr *to)
{
	CHECK_OK(rdma_resolve_addr(id, NULL, to, 2000));
	WANT_CM_ACK(id->channel, id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	CHECK_OK(rdma_resolve_route(id, 2000));
	WANT_CM_ACK(id->channel, id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
}

void cmt_qp(struct rdma_cm_id *id)
{
	struct ibv_qp_init_attr attr = {
		.cap = { .max_send_wr = 16,
			 .max_recv_wr = 16,
			 .max_send_sge = 1,
			 .max_recv_sge = 1 },
		.qp_type = id->qp_type,
	};

	CHECK_OK(rdma_create_qp(id, NULL, &attr));
	CHECK(id->qp && id->send_cq && id->recv_cq && id->pd);
}

struct rdma_cm_id *cmt_request(struct rdma_event_channel *ch, const struct rdma_cm_id *listener)
{
	struct rdma_cm_event *e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	struct rdma_cm_id *id = e->id;

	CHECK(e->listen_id == listener);
	CHECK_OK(rdma_ack_cm_event(e));
	return id;
}

struct rdma_cm_id *cmt_connect(struct rdma_cm_id *a, const struct rdma_cm_id *listener)
{
	struct rdma_cm_id *b;

	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	b = cmt_request(a->channel, listener);
	cmt_qp(b);
	CHECK_OK(rdma_accept(b, NULL));
	WANT_CM_ACK(a->channel, a, RDMA_CM_EVENT_ESTABLISHED, 0);
	WANT_CM_ACK(a->channel, b, RDMA_CM_EVENT_ESTABLISHED, 0);
	return b;
}

void cmt_destroy(struct rdma_cm_id *id)
{
	rdma_destroy_qp(id);
	CHECK_OK(rdma_destroy_id(id));
}

void cmt_close(struct rdma_event_channel *ch, ...)
{
	struct rdma_cm_id *id;
	va_list ids;

	va_start(ids, ch);
	while ((id = va_arg(ids, struct rdma_cm_id *)))
		CHECK_OK(rdma_destroy_id(id));
	va_end(ids);
	rdma_destroy_event_channel(ch);
}

void cmt_pair(struct cmt_pair *p)
{
	p->ch = cmt_channel();
	p->listener = cmt_listen(p->ch, RDMA_PS_TCP);
	p->active = cmt_route(p->ch, p->listener);
	p->passive = cmt_connect(p->active, p->listener);
}

void cmt_pair_close(struct cmt_pair *p)
{
	cmt_destroy(p->active);
	cmt_destroy(p->passive);
	cmt_close(p->ch, p->listener, NULL);
}

void cmt_transfer(struct rdma_cm_id *from, struct rdma_cm_id *to, uint32_t seed)
{
	uint8_t *out = vt_map(4096), *in = vt_map(4096);
	struct ibv_mr *omr, *imr;
	struct ibv_wc wc;

	vt_pattern(out, 4096, seed);
	omr = CHECK_PTR(rdma_reg_msgs(from, out, 4096));
	imr = CHECK_PTR(rdma_reg_msgs(to, in, 4096));
	CHECK_OK(rdma_post_recv(to, in, in, 4096, imr));
	CHECK_OK(rdma_post_send(from, out, out, 4096, omr, IBV_SEND_SIGNALED));
	CHECK_EQ(rdma_get_send_comp(from, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_EQ(rdma_get_recv_comp(to, &wc), 1);
	CHECK_EQ(wc.status, IBV_WC_SUCCESS);
	CHECK_PATTERN(in, 4096, seed);
	CHECK_OK(rdma_dereg_mr(omr));
	CHECK_OK(rdma_dereg_mr(imr));
}
