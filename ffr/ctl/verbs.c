/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * verbs.c - handlers: segments, queries, PDs, channels, AHs. Control thread.
 *
 * Neighbours: hello.c, mr.c, cq.c (SRQs too), qp.c have the others; call.c calls them.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/obj.h"
#include "ffr/ctl/import.h"
#include "ffr/ctl/record.h"
#include "ffr/dir/dir.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/log.h"
#include "ffr/ctl/session.h"
#include "ffr/fast/pvm.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/stall.h"
#include "ffr/mem/watch.h"
#include "ffr/obj/events.h"

#define CHANNEL_NS 1000000u /* for which one call destroys ids with their channel */

/* ---- shared by the handlers ---------------------------------------------------------------- */

int ctl_obj_insert(struct session *s, enum obj_kind kind, struct obj *o)
{
	int err;

	o->kind = (uint8_t)kind;
	o->ses = s;
	record_kind(s, kind);
	err = quota_charge_obj(s->cont, o);
	if (err)
		return err;
	err = o->handle ? obj_insert_at(&s->tab[kind], o) : obj_insert(&s->tab[kind], o);
	if (err)
		quota_return_obj(s->cont, o);
	return err;
}

void ctl_obj_remove(struct session *s, struct obj *o)
{
	record_gone(o);
	obj_remove(&s->tab[o->kind], o);
	quota_return_obj(s->cont, o);
}

void ctl_obj_lock(struct fast *f, unsigned kind)
{
	if (kind == OBJ_QP)
		fast_lock(f->host);
	else
		fast_lock_thread(f);
}

void ctl_obj_unlock(struct fast *f, unsigned kind)
{
	if (kind == OBJ_QP)
		fast_unlock(f->host);
	else
		fast_unlock_thread(f);
}

int ctl_obj_destroy(struct obj *o)
{
	const struct obj_ops *ops = obj_ops[o->kind];
	struct fast *f = o->ses->fast;
	int err = -EBUSY;

	ctl_obj_lock(f, o->kind);
	if (!o->refs) {
		ctl_obj_remove(o->ses, o);
		if (ops->forget)
			ops->forget(f, o);
		err = 0;
	}
	ctl_obj_unlock(f, o->kind);
	if (!err)
		ops->free(o);
	return err;
}

int ctl_ring_alloc(struct ctl_call *c, uint64_t size, struct ff_ring_at *at, uint8_t **map)
{
	uint64_t limit = (uint64_t)c->ctl->conf.limits.max_ring_mb << 20;
	int err;

	if (size > UINT32_MAX || session_seg_bytes(c->s, SEG_RINGS) + size > limit)
		return -ENOMEM;
	err = ring_alloc(c->s, (uint32_t)size, &at->seg, &at->off);
	if (!err)
		*map = seg_get(c->s, at->seg)->map + at->off;
	return err;
}

int ctl_ring_alloc_sealed(struct ctl_call *c, uint64_t size, struct ff_ring_at *at, uint8_t **map)
{
	int err = ctl_ring_alloc(c, size, at, map);

	if (err || !seg_check(c->s, at->seg))
		return err;
	ctl_ring_free(c->s, at, size);
	return -EAGAIN;
}

void ctl_ring_free(struct session *s, const struct ff_ring_at *at, uint64_t size)
{
	ring_free(s, at->seg, at->off, (uint32_t)size);
}

struct qp_limits ctl_qp_limits(const struct ctl *ctl, const struct container *c)
{
	return (struct qp_limits){
		.num_ports = CTL_NUM_PORTS,
		.num_gids = (uint8_t)gid_table_len(c),
		.max_rd_atomic = (uint8_t)ctl->dev.max_qp_init_rd_atom,
		.max_dest_rd_atomic = (uint8_t)ctl->dev.max_qp_rd_atom,
	};
}

/*
 * Programs tell NICs apart by the node GUID. A container's first device has the one of its link-local GID; in those of
 * the other devices, the byte before the LID is the device's number.
 */
uint64_t ctl_node_guid(const struct container *c, unsigned device)
{
	union ibv_gid gid = gid_local(c->lid);

	gid.raw[13] = (uint8_t)device;
	return gid.global.interface_id;
}

int ctl_device(struct ctl_call *c, const struct ff_device_req *req, struct ff_device_resp *resp)
{
	const struct container_ctl *ct = c->s->cont->ctl;
	uint32_t index = req->index == FF_DEVICE_AS_IS ? c->s->device : req->index;

	static_assert(FF_DEVICE_NAME_SZ == FFO_NAME_MAX && FF_DEVICES_MAX == FFO_DEVICES_MAX,
		      "ABI");
	if (index >= ct->devices)
		return -ENODEV;
	c->s->device = (uint8_t)index;
	record_session_changed(c->s);
	resp->index = index;
	resp->node_guid = ctl_node_guid(c->s->cont, index);
	ffo_device_name(ct->device_name, ct->devices, index, resp->name);
	return 0;
}

/* ---- segments ------------------------------------------------------------------------------ */

int ctl_get_seg(struct ctl_call *c, const struct ff_get_seg_req *req, struct ff_get_seg_resp *resp)
{
	struct seg *g = seg_get(c->s, req->seg);

	if (!g)
		return -EINVAL;
	g->sent = true;
	resp->size = g->size;
	ctl_reply_fd(c->reply, g->fd, false);
	return 0;
}

/* The file's size is address space only: what is in it is the client's, and what is mapped here is charged. */
int ctl_watch_pages(struct ctl_call *c, const struct ff_watch_pages_req *req,
		    struct ff_watch_pages_resp *resp)
{
	int fd, err;

	(void)req;
	(void)resp;
	if (c->s->mem.pages)
		return -EBUSY;
	err = quota_charge(c->s->cont, QUOTA_FD, PAGES_FDS);
	if (err)
		return err;
	fd = sealed_memfd("freeflow-shadow", REGIONS_MAX * FF_PAGES_STRIDE);
	err = fd < 0 ? fd : pages_watch(c->s, c->fds[0], c->fds[1], pvm_mem_fd(c->s), fd);
	if (err) {
		if (fd >= 0)
			close(fd);
		quota_return(c->s->cont, QUOTA_FD, PAGES_FDS);
		return err;
	}
	ctl_reply_fd(c->reply, fd, true);
	return 0;
}

int ctl_place_pages(struct ctl_call *c, const struct ff_place_pages_req *req,
		    struct ff_place_pages_resp *resp)
{
	uint64_t limit = (uint64_t)c->ctl->conf.limits.max_shadow_mb << 20;
	struct stall_wait w;
	int uffd, err;

	err = req->len ? ctl_map_wait(c) : 0;
	if (err)
		return err;
	if (stall_maps_no_file(c->s->cont))
		return -ENOSPC; /* the library leaves the memory as it is, and it is copied */
	stall_wait_begin(&w);
	err = pages_place(c->s, req, limit, &resp->off, &uffd);
	stall_wait_end(c->s->cont, &w);
	if (!err)
		ctl_reply_fd(c->reply, uffd, false);
	return err;
}

int ctl_settle_pages(struct ctl_call *c, const struct ff_settle_pages_req *req,
		     struct ff_settle_pages_resp *resp)
{
	(void)req;
	resp->idle = pages_idle(c->s);
	return 0;
}

/* ---- queries ------------------------------------------------------------------------------- */

int ctl_query_device(struct ctl_call *c, const struct ff_query_device_req *req,
		     struct ff_query_device_resp *resp)
{
	(void)req;
	*resp = c->ctl->dev;
	resp->node_guid = resp->sys_image_guid = ctl_node_guid(c->s->cont, c->s->device);
	resp->phys_port_cnt = CTL_NUM_PORTS;
	return 0;
}

#define PHYS_LINK_UP 5	/* IBTA 14.2.5.6 PortPhysicalState */
#define SPEED_EDR    32 /* of a lane: 25 Gbit/s */
#define WIDTH_4X     2
#define DEFAULT_PKEY 0xffffu

int ctl_query_port(struct ctl_call *c, const struct ff_query_port_req *req,
		   struct ff_query_port_resp *resp)
{
	if (!req->port || req->port > CTL_NUM_PORTS)
		return -EINVAL;
	*resp = (struct ff_query_port_resp){
		.state = IBV_PORT_ACTIVE,
		.max_mtu = IBV_MTU_4096,
		.active_mtu = IBV_MTU_4096,
		.gid_tbl_len = gid_table_len(c->s->cont),
		.pkey_tbl_len = 1,
		.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS,
		.max_msg_sz = FF_MAX_MSG_SZ,
		.active_speed = SPEED_EDR,
		.lid = c->s->cont->lid,
		.pkey0 = DEFAULT_PKEY,
		.active_width = WIDTH_4X,
		.phys_state = PHYS_LINK_UP,
		.link_layer = IBV_LINK_LAYER_ETHERNET,
		.max_vl_num = 1,
	};
	return 0;
}

int ctl_query_gid(struct ctl_call *c, const struct ff_query_gid_req *req,
		  struct ff_query_gid_resp *resp)
{
	const struct container *cont = c->s->cont;
	struct gid_entry e = gid_entry(cont, gid_of_device(cont, c->s->device, req->index));

	if (!req->port || req->port > CTL_NUM_PORTS || req->index >= gid_table_len(cont))
		return -EINVAL;
	memcpy(resp->gid, &e.gid, sizeof(resp->gid));
	resp->gid_type = e.type;
	return 0;
}

/* ---- PDs ----------------------------------------------------------------------------------- */

int ctl_alloc_pd(struct ctl_call *c, const struct ff_alloc_pd_req *req,
		 struct ff_alloc_pd_resp *resp)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	int err;

	(void)req;
	if (!pd)
		return -ENOMEM;
	fast_lock_thread(c->s->fast);
	err = ctl_obj_insert(c->s, OBJ_PD, &pd->o);
	fast_unlock_thread(c->s->fast);
	if (err) {
		free(pd);
		return err;
	}
	record_obj(&pd->o);
	resp->pd = pd->o.handle;
	return 0;
}

int pd_restore(struct session *s, const struct ledger_pd *r)
{
	struct pd *pd = calloc(1, sizeof(*pd));
	int err;

	if (!pd)
		return -ENOMEM;
	pd->o.handle = r->handle;
	fast_lock_thread(s->fast);
	err = r->handle ? ctl_obj_insert(s, OBJ_PD, &pd->o) : -EPROTO;
	fast_unlock_thread(s->fast);
	if (err)
		free(pd);
	else
		record_obj(&pd->o);
	return err;
}

int ctl_dealloc_pd(struct ctl_call *c, const struct ff_dealloc_pd_req *req,
		   struct ff_dealloc_pd_resp *resp)
{
	struct pd *pd = pd_handle_get(c->s, req->pd);

	(void)resp;
	if (!pd || req->unimport > !!pd->of)
		return -EINVAL;
	return pd->of ? import_pd_dealloc(c, pd, req->unimport) : ctl_obj_destroy(&pd->o);
}

/* ---- completion channels ------------------------------------------------------------------- */

int ctl_create_channel(struct ctl_call *c, const struct ff_create_channel_req *req,
		       struct ff_create_channel_resp *resp)
{
	struct channel *ch = calloc(1, sizeof(*ch));
	int pair[2], err;

	(void)req;
	if (!ch)
		return -ENOMEM;
	err = session_event_pair(pair);
	if (err)
		goto err_free;
	ch->fd = pair[0];
	fast_lock_thread(c->s->fast);
	err = ctl_obj_insert(c->s, OBJ_CHANNEL, &ch->o);
	fast_unlock_thread(c->s->fast);
	if (err)
		goto err_pair;
	record_obj(&ch->o);
	ctl_reply_fd(c->reply, pair[1], true);
	resp->channel = ch->o.handle;
	return 0;

err_pair:
	close(pair[0]);
	close(pair[1]);
err_free:
	free(ch);
	return err;
}

int channel_restore(struct session *s, const struct ledger_channel *r, int fd)
{
	struct channel *ch = calloc(1, sizeof(*ch));
	int err = -ENOMEM;

	if (ch) {
		ch->fd = fd;
		ch->o.handle = r->handle;
		fast_lock_thread(s->fast);
		err = r->handle ? ctl_obj_insert(s, OBJ_CHANNEL, &ch->o) : -EPROTO;
		fast_unlock_thread(s->fast);
	}
	if (!err) {
		record_obj(&ch->o);
		return 0;
	}
	close(fd);
	free(ch);
	return err;
}

int ctl_destroy_channel(struct ctl_call *c, const struct ff_destroy_channel_req *req,
			struct ff_destroy_channel_resp *resp)
{
	struct channel *ch = channel_get(c->s, req->channel);

	(void)resp;
	if (!ch)
		return -EINVAL;
	if (ch->o.refs)
		return -EBUSY;
	if (!c->ctl->cm_ops->channel_gone(
		    ch, uv_hrtime() + CHANNEL_NS)) /* others have their turn before the next part */
		return -EAGAIN;
	return ctl_obj_destroy(&ch->o);
}

static void channel_free(struct obj *o)
{
	record_channel_free(obj_of(o, channel));
	close(obj_of(o, channel)->fd);
	free(o);
}

const struct obj_ops channel_obj_ops = { .free = channel_free };

/* The index in the table of the session's device, as one of the container's, or back. */
uint8_t ctl_sgid_index(const struct session *s, uint8_t index)
{
	return (uint8_t)gid_of_device(s->cont, s->device, index);
}

/* ---- AHs ----------------------------------------------------------------------------------- */

/* attr.sgid_index is one of the container's. 0 or -errno: nobody knows the AH. */
static int ah_new(struct session *s, struct pd *pd, const struct ff_ah_attr *attr, uint32_t handle,
		  struct ah **out)
{
	struct ah *ah = calloc(1, sizeof(*ah));
	int err;

	if (!ah)
		return -ENOMEM;
	ah->pd = pd;
	ah->attr = *attr;
	ah->o.handle = handle;
	ah->mcast = attr->is_global && gid_is_mcast(attr->dgid);
	err = ah->mcast ? fast_need_first(s->cont) : 0;
	if (err)
		goto err_free;
	if (!ah->mcast) /* from now on they are a group, or the first datagram would find them apart */
		ah->cont = dir_meet(s->cont, &ah->attr);
	fast_lock_thread(s->fast);
	err = ctl_obj_insert(s, OBJ_AH, &ah->o);
	if (!err)
		pd->o.refs++;
	fast_unlock_thread(s->fast);
	if (err)
		goto err_free;
	record_obj(&ah->o);
	*out = ah;
	return 0;

err_free:
	free(ah);
	return err;
}

int ctl_create_ah(struct ctl_call *c, const struct ff_create_ah_req *req,
		  struct ff_create_ah_resp *resp)
{
	struct qp_limits lim = ctl_qp_limits(c->ctl, c->s->cont);
	struct pd *pd = pd_get(c->s, req->pd);
	struct ff_ah_attr attr = req->attr;
	struct ah *ah;
	int err;

	if (!pd || ah_attr_check(&attr, &lim))
		return -EINVAL;
	attr.sgid_index = ctl_sgid_index(c->s, attr.sgid_index);
	err = ah_new(c->s, pd, &attr, 0, &ah);
	if (!err)
		resp->ah = ah->o.handle;
	return err;
}

int ah_restore(struct ctl *ctl, struct session *s, const struct ledger_ah *r)
{
	struct qp_limits lim = ctl_qp_limits(ctl, s->cont);
	struct pd *pd = pd_get(s, r->pd);
	struct ff_ah_attr attr;
	struct ah *ah;

	memcpy(&attr, r->attr, sizeof(attr));
	if (!r->handle || !pd || ah_attr_check(&attr, &lim))
		return -EPROTO;
	return ah_new(s, pd, &attr, r->handle, &ah);
}

CTL_DESTROY(destroy_ah, ah_get, ah)

static void ah_forget(struct fast *f, struct obj *o)
{
	(void)f;
	obj_of(o, ah)->pd->o.refs--;
}

static void ah_free(struct obj *o)
{
	free(o);
}

const struct obj_ops ah_obj_ops = { .forget = ah_forget, .free = ah_free };
