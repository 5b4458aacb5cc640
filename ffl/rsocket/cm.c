/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm.c - what comes through the CM channel of an rsocket, and the connection of a stream:
 * resolve the address, resolve the route, connect; or accept. Any thread, with the rsocket's lock.
 *
 * A listener accepts a connection when somebody looks at it: raccept(), rpoll(), or another call of
 * the program that waits for its own connection. The new rsocket then waits in the listener's
 * queue. It may receive at once; it sends when the CM has told that the peer is ready (RTU), since
 * what comes before would be lost and sent again after a timeout.
 *
 * The end: a peer that closes says so in the stream (RS_MSG_CLOSE) before it disconnects. One that
 * disconnects without that word has died or was aborted, and the program is told ECONNRESET.
 *
 * Tests: system/rs_socket.c, system/rs_stream.c
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "ffl/rsocket/rsocket.h"

#define RESOLVE_MS 4000 /* for an address, and for a route */

/* ---- the end ---------------------------------------------------------------------------------------- */

void rs_stream_gone(struct rsocket *rs, int err)
{
	struct rs_stream *s = &rs->s;

	if (s->gone)
		return;
	/* a close that was announced is no error */
	if (err && !s->closed && !(s->rd_shut && s->wr_shut))
		rs->err = err;
	s->gone = true;
	/* our QP goes to the error state; its receives are flushed, which wakes all who sleep */
	rdma_disconnect(rs->id);
}

static void fail(struct rsocket *rs, int err)
{
	rs->err = err;
	rs->state = RS_FAILED;
}

/* ---- connecting ------------------------------------------------------------------------------------- */

int rs_connect_start(struct rsocket *rs, struct sockaddr_storage *dst)
{
	int err = rs_opt_apply(rs);

	if (err)
		return err;
	if (rdma_resolve_addr(rs->id, NULL, (struct sockaddr *)dst, RESOLVE_MS))
		return -errno;
	rs->state = RS_RESOLVING_ADDR;
	return 0;
}

static int resolve_route(struct rsocket *rs)
{
	rs->state = RS_RESOLVING_ROUTE;
	if (rs->opt.route) /* the program has a path; ROUTE_RESOLVED follows all the same */
		return rdma_set_option(rs->id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, rs->opt.route,
				       rs->opt.route_len) ?
			       -errno :
			       0;
	return rdma_resolve_route(rs->id, RESOLVE_MS) ? -errno : 0;
}

static int connect_qp(struct rsocket *rs)
{
	struct rdma_conn_param param = { .flow_control = 1,
					 .retry_count = 7,
					 .rnr_retry_count = 7 };
	struct rs_hello hello;
	int err;

	err = rs_stream_open(rs);
	if (err)
		return err;
	rs_stream_hello(rs, &hello);
	param.private_data = &hello;
	param.private_data_len = sizeof(hello);
	if (rdma_connect(rs->id, &param))
		return -errno;
	rs->state = RS_CONNECTING;
	return 0;
}

/* What the peer said with its reply, or with its request. */
static int hello_of(const struct rdma_conn_param *param, struct rs_hello *hello)
{
	if (!param->private_data || param->private_data_len < sizeof(*hello))
		return -EPROTO;
	memcpy(hello, param->private_data, sizeof(*hello));
	return hello->magic == RS_MAGIC && hello->version == RS_VERSION ? 0 : -EPROTO;
}

static int established(struct rsocket *rs, const struct rdma_conn_param *param)
{
	struct rs_hello hello;
	int err;

	if (rs->state == RS_CONNECTING) {
		err = hello_of(param, &hello);
		if (!err)
			err = rs_stream_pair(rs, &hello);
		if (err)
			return err;
	}
	rs->state = RS_CONNECTED;
	return 0;
}

/* errno for a connection that was not made. */
static int refusal(const struct rdma_cm_event *ev)
{
	switch (ev->event) {
	case RDMA_CM_EVENT_REJECTED:
		return ECONNREFUSED;
	case RDMA_CM_EVENT_UNREACHABLE:
		return ev->status < 0 ? -ev->status : ETIMEDOUT;
	case RDMA_CM_EVENT_ADDR_ERROR:
		return ev->status < 0 ? -ev->status : EHOSTUNREACH;
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return ev->status < 0 ? -ev->status : ENETUNREACH;
	default:
		return ev->status < 0 ? -ev->status : ECONNABORTED;
	}
}

/* ---- accepting --------------------------------------------------------------------------------------- */

/* On failure the caller destroys the new rsocket, and the id with it. */
static int accept_id(struct rsocket *listener, struct rsocket *rs, struct rdma_cm_id *id,
		     const struct rs_hello *hello)
{
	struct rdma_conn_param param = { .flow_control = 1, .rnr_retry_count = 7 };
	struct rs_hello reply;
	int err;

	id->context = rs;
	if (rdma_migrate_id(id, rs->ec))
		return -errno;
	rs_opt_inherit(&rs->opt, &listener->opt);
	rs->fs_flags = listener->fs_flags;
	rs->fd_flags = listener->fd_flags;
	/* the rings need be no larger than what the peer sends and takes */
	rs->opt.rcvbuf = rs_min(rs->opt.rcvbuf, rs_max(hello->sndbuf, RS_BUF_MIN));
	err = rs_stream_open(rs);
	if (!err)
		err = rs_stream_pair(rs, hello);
	if (err)
		return err;
	rs_stream_hello(rs, &reply);
	param.private_data = &reply;
	param.private_data_len = sizeof(reply);
	rs->state = RS_ACCEPTING;
	return rdma_accept(id, &param) ? -errno : 0;
}

static void accept_request(struct rsocket *listener, struct rdma_cm_id *id,
			   const struct rs_hello *hello)
{
	struct rsocket *rs = NULL;
	int err = hello ? 0 : -EPROTO;

	if (!err) {
		rs = rs_new(listener->domain, SOCK_STREAM);
		err = rs ? 0 : -errno;
	}
	if (!err) {
		rs->id = id;
		err = accept_id(listener, rs, id, hello);
	}
	if (err) {
		rdma_reject(id, NULL, 0);
		if (rs)
			rs_free(rs);
		else
			rdma_destroy_id(id);
		return;
	}
	rs->next_accepted = NULL;
	*listener->accepted_end = rs;
	listener->accepted_end = &rs->next_accepted;
	listener->num_accepted++;
}

/* ---- events -------------------------------------------------------------------------------------------- */

static void stream_event(struct rsocket *rs, const struct rdma_cm_event *ev)
{
	int err = 0;

	switch (ev->event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		err = resolve_route(rs);
		break;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		err = connect_qp(rs);
		break;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
	case RDMA_CM_EVENT_ESTABLISHED:
		err = established(rs, &ev->param.conn);
		break;
	case RDMA_CM_EVENT_ADDR_ERROR:
	case RDMA_CM_EVENT_ROUTE_ERROR:
	case RDMA_CM_EVENT_CONNECT_ERROR:
	case RDMA_CM_EVENT_UNREACHABLE:
	case RDMA_CM_EVENT_REJECTED:
		err = -refusal(ev);
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
	case RDMA_CM_EVENT_DEVICE_REMOVAL:
		err = -ECONNRESET;
		break;
	default:
		break;
	}
	if (!err)
		return;
	if (rs_is_stream(rs)) {
		rs_stream_process(rs); /* what came before the end is the program's */
		rs_stream_gone(rs, -err);
	} else {
		fail(rs, -err);
	}
}

static void handle_event(struct rsocket *rs, struct rdma_cm_event *ev)
{
	struct rdma_cm_id *done = NULL;
	struct rs_hello hello;
	bool known;

	if (rs->type == SOCK_DGRAM) {
		rs_peer_event(rs, ev, &done);
		rdma_ack_cm_event(ev);
		if (done)
			rdma_destroy_id(done); /* waits for the acknowledgement */
	} else if (ev->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		struct rdma_cm_id *id = ev->id;

		known = !hello_of(&ev->param.conn, &hello);
		rdma_ack_cm_event(ev);
		accept_request(rs, id, known ? &hello : NULL);
	} else {
		stream_event(rs, ev);
		rdma_ack_cm_event(ev);
	}
}

void rs_cm_process(struct rsocket *rs)
{
	struct rdma_cm_event *ev;

	rs->cm_looked = rs_now();
	while (!rs->cm_lost && rs->num_accepted <= rs->backlog) {
		if (!rdma_get_cm_event(rs->ec, &ev))
			handle_event(rs, ev);
		else if (errno != EIO)
			break;
		else /* the router is gone; the channel is readable from now on, and nothing comes */
			rs->cm_lost = true;
	}
	if (rs->cm_lost &&
	    (rs->state == RS_LISTENING || rs->state == RS_OPEN || rs_opening(rs->state)))
		fail(rs, ENODEV);
}

void rs_cm_look(struct rsocket *rs)
{
	if (rs_now() - rs->cm_looked >= RS_CM_INTERVAL)
		rs_cm_process(rs);
}
