/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * calls.c - handlers of the connection manager's messages: a client's handles become its objects,
 * the rest is cm/'s. Control thread.
 *
 * Tests: test_conn.c, system/cm_ids.c
 */
#include <errno.h>

#include "ffr/cm/internal.h"
#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/ctl/import.h"

/* Private data is the tail of a message. */
static_assert(sizeof(struct ff_cm_byte) == 1, "ABI");

/* ---- ids ------------------------------------------------------------------------------------ */

/* The port space decides which QPs there are; RDMA_PS_IB leaves it to the client. */
static int qp_type_of(const struct ff_cm_create_id_req *req)
{
	switch (req->ps) {
	case RDMA_PS_TCP:
		return IBV_QPT_RC;
	case RDMA_PS_UDP:
	case RDMA_PS_IPOIB:
		return IBV_QPT_UD;
	case RDMA_PS_IB:
		break;
	default:
		return -EINVAL;
	}
	switch (req->qp_type) {
	case IBV_QPT_RC:
	case IBV_QPT_UC:
	case IBV_QPT_UD:
	case IBV_QPT_XRC_SEND:
	case IBV_QPT_XRC_RECV:
		return req->qp_type;
	default:
		return -EINVAL;
	}
}

static int ctl_cm_create_id(struct ctl_call *c, const struct ff_cm_create_id_req *req,
			    struct ff_cm_create_id_resp *resp)
{
	struct channel *ch = channel_get(c->s, req->channel);
	int qp_type = qp_type_of(req);
	struct cm_id *id;

	if (!ch || qp_type < 0)
		return -EINVAL;
	id = cm_id_create(c->s, ch, req->ps, (uint8_t)qp_type);
	if (!id)
		return -ENOMEM;
	id->uid = req->uid;
	resp->id = id->o.handle;
	return 0;
}

static int ctl_cm_destroy_id(struct ctl_call *c, const struct ff_cm_destroy_id_req *req,
			     struct ff_cm_destroy_id_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	if (!id)
		return -EINVAL;
	resp->events_reported = id->written;
	cm_id_destroy(id);
	return 0;
}

static int ctl_cm_bind(struct ctl_call *c, const struct ff_cm_bind_req *req,
		       struct ff_cm_bind_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);
	struct cm_addr a;
	int err;

	if (!id)
		return -EINVAL;
	err = cm_addr_parse(&a, &req->addr, id->ps);
	if (!err)
		err = cm_bind(id, &a);
	if (!err)
		cm_addr_format(&resp->addr, &id->src, id->ps);
	return err;
}

static int ctl_cm_listen(struct ctl_call *c, const struct ff_cm_listen_req *req,
			 struct ff_cm_listen_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);
	int err = id ? cm_listen(id, req->backlog) : -EINVAL;

	(void)resp;
	return err ? err : cm_plain_listen(c, id);
}

static int ctl_cm_resolve_addr(struct ctl_call *c, const struct ff_cm_resolve_addr_req *req,
			       struct ff_cm_resolve_addr_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id ? cm_resolve_addr(id, &req->src, &req->dst, req->timeout_ms) : -EINVAL;
}

static int ctl_cm_resolve_route(struct ctl_call *c, const struct ff_cm_resolve_route_req *req,
				struct ff_cm_resolve_route_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id && req->timeout_ms ? cm_resolve_route(id) : -EINVAL;
}

static int ctl_cm_query(struct ctl_call *c, const struct ff_cm_query_req *req,
			struct ff_cm_query_resp *resp)
{
	const struct cm_id *id = cm_id_get(c->s, req->id);

	if (!id)
		return -EINVAL;
	cm_id_path(id, resp);
	return 0;
}

static int ctl_cm_device(struct ctl_call *c, const struct ff_cm_device_req *req,
			 struct ff_cm_device_resp *resp)
{
	const struct container_ctl *ct = c->s->cont->ctl;
	struct cm_id *id = cm_id_get(c->s, req->id);

	if (!id || !id->attached)
		return -EINVAL;
	id->device = (uint8_t)gid_device(c->s->cont, ct->devices, id->sgid_index);
	resp->device = id->device;
	return 0;
}

static int ctl_cm_init_qp_attr(struct ctl_call *c, const struct ff_cm_init_qp_attr_req *req,
			       struct ff_cm_init_qp_attr_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	return id ? cm_qp_attr_told(id, req->qp_state, resp) : -EINVAL;
}

/*
 * The QP is made in the client's other session and moved as the id wants it. What it needs for that
 * is known before, so only a lack of something can be in the way.
 */
static int ctl_cm_create_qp(struct ctl_call *c, const struct ff_cm_create_qp_req *req,
			    struct ff_cm_create_qp_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);
	struct ctl_call dev = *c;
	struct ff_destroy_qp_resp gone;
	int err;

	dev.s = id ? import_source(c->s, id->device) : NULL;
	if (!dev.s)
		return -EINVAL;
	err = ctl_create_qp(&dev, &req->qp, &resp->qp);
	if (err)
		return err;
	err = cm_qp_ready(id, resp->qp.qp, &resp->qp_state);
	if (err)
		ctl_destroy_qp(&dev, &(struct ff_destroy_qp_req){ .qp = resp->qp.qp }, &gone);
	return err;
}

/* ---- options -------------------------------------------------------------------------------- */

static int set_ack_timeout(struct cm_id *id, uint32_t value)
{
	if (id->qp_type != IBV_QPT_RC && id->qp_type != IBV_QPT_XRC_SEND)
		return -EINVAL;
	id->ack_timeout = value & 31; /* the field's five bits: the kernel does not look either */
	id->has_ack_timeout = true;
	return 0;
}

static int set_id_option(struct cm_id *id, uint32_t option, uint32_t value)
{
	switch (option) {
	case RDMA_OPTION_ID_TOS:
		id->tos = (uint8_t)value;
		return 0;
	case RDMA_OPTION_ID_REUSEADDR:
		if (id->state != CM_IDLE && (!value || id->state == CM_LISTEN))
			return -EINVAL;
		id->reuse_addr = value;
		return 0;
	case RDMA_OPTION_ID_AFONLY:
		if (id->state != CM_IDLE && id->state != CM_BOUND)
			return -EINVAL;
		id->af_only = value;
		id->af_only_set = true;
		return 0;
	case RDMA_OPTION_ID_ACK_TIMEOUT:
		return set_ack_timeout(id, value);
	default:
		return -ENOSYS;
	}
}

static int ctl_cm_set_option(struct ctl_call *c, const struct ff_cm_set_option_req *req,
			     struct ff_cm_set_option_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	if (!id)
		return -EINVAL;
	if (req->level == RDMA_OPTION_ID)
		return set_id_option(id, req->option, req->value);
	if (req->level == RDMA_OPTION_IB && req->option == RDMA_OPTION_IB_PATH)
		return cm_resolve_route(id);
	return -ENOSYS;
}

/* ---- connections ---------------------------------------------------------------------------- */

static int ctl_cm_connect(struct ctl_call *c, const struct ff_cm_connect_req *req,
			  struct ff_cm_connect_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id ? cm_connect(id, req, c->tail, c->n_tail) : -EINVAL;
}

static int ctl_cm_accept(struct ctl_call *c, const struct ff_cm_accept_req *req,
			 struct ff_cm_accept_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id ? cm_accept(id, req, c->tail, c->n_tail) : -EINVAL;
}

static int ctl_cm_reject(struct ctl_call *c, const struct ff_cm_reject_req *req,
			 struct ff_cm_reject_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id ? cm_reject(id, req->reason, c->tail, c->n_tail) : -EINVAL;
}

static int ctl_cm_establish(struct ctl_call *c, const struct ff_cm_establish_req *req,
			    struct ff_cm_establish_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id ? cm_establish(id, req->event, req->qp) : -EINVAL;
}

static int ctl_cm_disconnect(struct ctl_call *c, const struct ff_cm_disconnect_req *req,
			     struct ff_cm_disconnect_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	(void)resp;
	return id ? cm_disconnect(id) : -EINVAL;
}

/* ---- channels ------------------------------------------------------------------------------- */

static int ctl_cm_migrate_id(struct ctl_call *c, const struct ff_cm_migrate_id_req *req,
			     struct ff_cm_migrate_id_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);
	struct channel *ch = channel_get(c->s, req->channel);
	struct cm_chan *to;

	if (!id || !ch)
		return -EINVAL;
	resp->events_reported = id->written;
	if (id->chan->ch == ch && !id->held)
		return 0;
	if (id->chan->ch != ch && req->taken != id->written) {
		cm_event_hold(id);
		return 0;
	}
	to = cm_chan_get(ch);
	if (!to)
		return -ENOMEM;
	cm_event_move(id, to);
	return 0;
}

static int ctl_cm_write_event(struct ctl_call *c, const struct ff_cm_write_event_req *req,
			      struct ff_cm_write_event_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);
	struct channel *ch = channel_get(c->s, req->channel);
	int err;

	if (!id || !ch || c->n_tail > FF_CM_PD_MAX || req->event.private_data_len != c->n_tail)
		return -EINVAL;
	err = cm_event_write(ch, &req->event, c->tail);
	if (err)
		return err;
	resp->events_reported = ++id->written;
	return 0;
}

/* ---- multicast ------------------------------------------------------------------------------ */

static int ctl_cm_join(struct ctl_call *c, const struct ff_cm_join_req *req,
		       struct ff_cm_join_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	return id ? cm_join(id, req, &resp->mc) : -EINVAL;
}

static int ctl_cm_leave(struct ctl_call *c, const struct ff_cm_leave_req *req,
			struct ff_cm_leave_resp *resp)
{
	struct cm_id *id = cm_id_get(c->s, req->id);

	return id ? cm_leave(id, req->mc, &resp->events_reported) : -EINVAL;
}

/* ---- for ctl/ ------------------------------------------------------------------------------- */

#define X(num, NAME, name, tail, fds) CTL_SERVE(name)
FF_CM_MSGS(X)
#undef X

const struct ctl_cm_ops cm_ops = {
	.serve = {
#define X(num, NAME, name, tail, fds) [num] = serve_##name,
		FF_CM_MSGS(X)
#undef X
	},
	.session_gone = cm_session_gone,
	.channel_gone = cm_channel_gone,
};
