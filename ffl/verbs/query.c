/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * query.c - what a program learns about device, port, GIDs, P_Keys and time. Any thread; each
 * answer is the router's of this moment (QUERY_DEVICE, QUERY_PORT, QUERY_GID), none is cached.
 *
 * The structs have grown with rdma-core. A program passes the length that it was compiled with:
 * that many bytes are written, those that we know filled in and the others zero, and none behind.
 */
#include <endian.h>
#include <string.h>
#include <time.h>

#include "ffl/session/ffl.h"
#include "ffl/session/symver.h"

/* ibv_query_port() of programs older than rdma-core v22: all but the last of its members */
#define PORT_ATTR_COMPAT_SZ 48
/* ibv_device_attr_ex as v15 knew it */
#define DEVICE_ATTR_EX_V15_SZ 352

/* struct ibv_port_attr of rdma-core v50 and later */
struct port_attr {
	struct ibv_port_attr ibv;
	uint32_t active_speed_ex;
};
static_assert(sizeof(struct ibv_port_attr) == 52, "ABI");
static_assert(offsetof(struct ibv_port_attr, flags) + 1 == PORT_ATTR_COMPAT_SZ, "ABI");
static_assert(offsetof(struct port_attr, active_speed_ex) == 52, "ABI");
static_assert(sizeof(struct ibv_device_attr_ex) == 400, "ABI");
static_assert(sizeof(struct ibv_gid_entry) == 32, "ABI");

/* Public today as an inline function only. */
int compat_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
			   struct ibv_device_attr_ex *attr);

/* Fill in `size` bytes at dst: from a struct of src_size bytes, then zeros. */
static void give(void *dst, size_t size, const void *src, size_t src_size)
{
	size_t n = size < src_size ? size : src_size;

	memcpy(dst, src, n);
	memset((uint8_t *)dst + n, 0, size - n);
}

static int query_port(struct ffl_context *ctx, uint32_t port, struct ff_query_port_resp *resp)
{
	struct ff_query_port_req req = { .port = port };

	return FFL_CALL(ctx, QUERY_PORT, &req, resp);
}

/* ---- device --------------------------------------------------------------------------------------- */

static void fill_device_attr(struct ibv_device_attr *a, const struct ff_query_device_resp *dev)
{
	memcpy(a->fw_ver, dev->fw_ver, sizeof(a->fw_ver));
	a->fw_ver[sizeof(a->fw_ver) - 1] = '\0';
	a->node_guid = dev->node_guid;
	a->sys_image_guid = dev->sys_image_guid;
	a->max_mr_size = dev->max_mr_size;
	a->page_size_cap = dev->page_size_cap;
	a->vendor_id = dev->vendor_id;
	a->vendor_part_id = dev->vendor_part_id;
	a->hw_ver = dev->hw_ver;
	a->max_qp = dev->max_qp;
	a->max_qp_wr = dev->max_qp_wr;
	a->device_cap_flags = (unsigned int)dev->device_cap_flags;
	a->max_sge = dev->max_sge;
	a->max_sge_rd = dev->max_sge_rd;
	a->max_cq = dev->max_cq;
	a->max_cqe = dev->max_cqe;
	a->max_mr = dev->max_mr;
	a->max_mw = dev->max_mw;
	a->max_pd = dev->max_pd;
	a->max_qp_rd_atom = dev->max_qp_rd_atom;
	a->max_res_rd_atom = dev->max_res_rd_atom;
	a->max_qp_init_rd_atom = dev->max_qp_init_rd_atom;
	a->atomic_cap = dev->atomic_cap;
	a->max_ah = dev->max_ah;
	a->max_srq = dev->max_srq;
	a->max_srq_wr = dev->max_srq_wr;
	a->max_srq_sge = dev->max_srq_sge;
	a->max_mcast_grp = dev->max_mcast_grp;
	a->max_mcast_qp_attach = dev->max_mcast_qp_attach;
	a->max_total_mcast_qp_attach = dev->max_total_mcast_qp_attach;
	a->max_pkeys = dev->max_pkeys;
	a->local_ca_ack_delay = dev->local_ca_ack_delay;
	a->phys_port_cnt = dev->phys_port_cnt;
}

/* 0 or a positive errno, which is set, too, as by all verbs below unless they say otherwise. */
int ffl_query_device_ex(struct ibv_context *context, const struct ibv_query_device_ex_input *in,
			struct ibv_device_attr_ex *attr, size_t attr_size)
{
	struct ff_query_device_req req = { 0 };
	struct ibv_device_attr_ex full = { 0 };
	struct ff_query_device_resp dev;
	int ret;

	if ((in && in->comp_mask) || attr_size < sizeof(attr->orig_attr))
		return ffl_ret(-EINVAL);
	ret = FFL_CALL(ffl_session_of(context), QUERY_DEVICE, &req, &dev);
	if (ret)
		return ffl_ret(ret);
	fill_device_attr(&full.orig_attr, &dev);
	full.completion_timestamp_mask = dev.timestamp_mask;
	full.hca_core_clock = dev.hca_core_clock;
	full.cq_mod_caps.max_cq_count = (uint16_t)dev.max_cq_count;
	full.cq_mod_caps.max_cq_period = (uint16_t)dev.max_cq_period;
	full.device_cap_flags_ex = dev.device_cap_flags;
	full.max_dm_size = dev.max_dm_size;
	full.phys_port_cnt_ex = dev.phys_port_cnt;
	full.odp_caps.general_caps = dev.odp_general;
	full.odp_caps.per_transport_caps.rc_odp_caps = dev.odp_rc;
	full.odp_caps.per_transport_caps.uc_odp_caps = dev.odp_uc;
	full.odp_caps.per_transport_caps.ud_odp_caps = dev.odp_ud;
	full.xrc_odp_caps = dev.odp_xrc;
	give(attr, attr_size, &full, sizeof(full));
	return 0;
}

FFL_EXPORT int ibv_query_device(struct ibv_context *context, struct ibv_device_attr *attr)
{
	/* the plain attributes are the first member of the extended ones */
	return ffl_query_device_ex(context, NULL, (struct ibv_device_attr_ex *)attr, sizeof(*attr));
}

/* Only v15 had this as a function, with no length: what v15 knew is filled in. */
FFL_EXPORT int compat_query_device_ex(struct ibv_context *context,
				      const struct ibv_query_device_ex_input *in,
				      struct ibv_device_attr_ex *attr)
{
	return ffl_query_device_ex(context, in, attr, DEVICE_ATTR_EX_V15_SZ);
}
FFL_SYMVER(compat_query_device_ex, ibv_query_device_ex, "@@IBVERBS_1.0");

/* ---- port ------------------------------------------------------------------------------------------- */

int ffl_query_port(struct ibv_context *context, uint8_t port, struct ibv_port_attr *attr,
		   size_t len)
{
	struct port_attr full = { 0 };
	struct ff_query_port_resp p;
	int ret;

	ret = query_port(ffl_session_of(context), port, &p);
	if (ret)
		return ffl_ret(ret);
	full.ibv.state = p.state;
	full.ibv.max_mtu = p.max_mtu;
	full.ibv.active_mtu = p.active_mtu;
	full.ibv.gid_tbl_len = p.gid_tbl_len;
	full.ibv.port_cap_flags = p.port_cap_flags;
	full.ibv.max_msg_sz = p.max_msg_sz;
	full.ibv.pkey_tbl_len = p.pkey_tbl_len;
	full.ibv.lid = p.lid;
	full.ibv.sm_lid = p.sm_lid;
	full.ibv.lmc = p.lmc;
	full.ibv.max_vl_num = p.max_vl_num;
	full.ibv.sm_sl = p.sm_sl;
	full.ibv.active_width = p.active_width;
	/* XDR (256) does not fit: the fastest that does here, itself in the newer member */
	full.ibv.active_speed = p.active_speed > UINT8_MAX ? 128 : p.active_speed;
	full.active_speed_ex = p.active_speed > UINT8_MAX ? p.active_speed : 0;
	full.ibv.phys_state = p.phys_state;
	full.ibv.link_layer = p.link_layer;
	full.ibv.flags = p.flags;
	full.ibv.port_cap_flags2 = p.port_cap_flags2;
	give(attr, len, &full, sizeof(full));
	return 0;
}

/* Called by programs older than v22, and by newer ones through an inline that zeroes the rest. */
#undef ibv_query_port
FFL_EXPORT int ibv_query_port(struct ibv_context *context, uint8_t port,
			      struct _compat_ibv_port_attr *attr)
{
	return ffl_query_port(context, port, (struct ibv_port_attr *)attr, PORT_ATTR_COMPAT_SZ);
}

/*
 * Newer than the headers that this is built with: the rate of all lanes of the port, in units of 100 Mbit/s. Speed
 * and width are the codes of ibv_port_attr. NCCL 2.30 warns its user where this fails.
 */
int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed);
FFL_EXPORT int ibv_query_port_speed(struct ibv_context *context, uint32_t port, uint64_t *speed)
{
	/* SDR, DDR, QDR, FDR10, FDR, EDR, HDR, NDR, XDR: bit 0 and up, as are widths of 1, 4, 8, 12 and 2 lanes. */
	static const unsigned int lane[] = { 25, 50, 100, 100, 140, 250, 500, 1000, 2000 };
	static const unsigned int lanes[] = { 1, 4, 8, 12, 2 };
	struct ff_query_port_resp p;
	unsigned int s, w;
	int ret;

	ret = port > UINT8_MAX ? -EINVAL : query_port(ffl_session_of(context), (uint8_t)port, &p);
	if (ret)
		return ffl_ret(ret);
	s = (unsigned int)__builtin_ffs((int)p.active_speed) - 1;
	w = (unsigned int)__builtin_ffs((int)p.active_width) - 1;
	if (s >= sizeof(lane) / sizeof(*lane) || w >= sizeof(lanes) / sizeof(*lanes))
		return ffl_ret(-EOPNOTSUPP);
	*speed = (uint64_t)lane[s] * lanes[w];
	return 0;
}

/* ---- GIDs ------------------------------------------------------------------------------------------- */

/* 0; -ENODATA for an empty entry; -EINVAL outside the table; -errno. */
static int ask_gid(struct ffl_context *ctx, uint32_t port, uint32_t index, struct ibv_gid_entry *e)
{
	struct ff_query_gid_req req = { .port = port, .index = index };
	static const uint8_t none[16];
	struct ff_query_gid_resp resp;
	int ret;

	ret = FFL_CALL(ctx, QUERY_GID, &req, &resp);
	if (ret)
		return ret;
	if (!memcmp(resp.gid, none, sizeof(none)))
		return -ENODATA;
	memset(e, 0, sizeof(*e));
	memcpy(e->gid.raw, resp.gid, sizeof(resp.gid));
	e->gid_index = index;
	e->port_num = port;
	e->gid_type = resp.gid_type;
	e->ndev_ifindex = resp.ndev_ifindex;
	return 0;
}

/*
 * The interface of a GID in the process's own network, which the router does not see. One that is
 * on none, as the link-local GID and the NIC's, is said to be where the first address is that is
 * on one, as in gid_attrs/ndevs (ffr/ctl/sysfs.c).
 */
static uint32_t find_ndev(struct ffl_context *ctx, const struct ibv_gid_entry *of)
{
	uint32_t ndev = ffl_ndev_of(of->gid.raw);
	struct ibv_gid_entry e;

	for (uint32_t i = 0; !ndev && !ask_gid(ctx, of->port_num, i, &e); i++)
		ndev = ffl_ndev_of(e.gid.raw);
	return ndev ? ndev : ffl_ndev_any();
}

/* ask_gid(), and the GID's interface. */
static int query_gid(struct ffl_context *ctx, uint32_t port, uint32_t index,
		     struct ibv_gid_entry *e)
{
	int ret = ask_gid(ctx, port, index, e);

	if (!ret)
		e->ndev_ifindex = find_ndev(ctx, e);
	return ret;
}

/* 0 or -1 with errno; an empty entry is all zeros. */
static int gid_or_zeros(struct ibv_context *context, uint8_t port, uint32_t index,
			struct ibv_gid_entry *e)
{
	int ret;

	memset(e, 0, sizeof(*e));
	ret = ask_gid(ffl_session_of(context), port, index, e);
	if (!ret || ret == -ENODATA)
		return 0;
	errno = -ret;
	return -1;
}

/* 0 or -1 with errno; an empty entry is all zeros. */
FFL_EXPORT int ibv_query_gid(struct ibv_context *context, uint8_t port, int index,
			     union ibv_gid *gid)
{
	struct ibv_gid_entry e;

	if (gid_or_zeros(context, port, (uint32_t)index, &e))
		return -1;
	*gid = e.gid;
	return 0;
}

FFL_EXPORT int _ibv_query_gid_ex(struct ibv_context *context, uint32_t port, uint32_t index,
				 struct ibv_gid_entry *entry, uint32_t flags, size_t entry_size)
{
	struct ibv_gid_entry e;
	int ret;

	if (flags || !entry_size)
		return ffl_ret(-EINVAL);
	ret = query_gid(ffl_session_of(context), port, index, &e);
	if (ret)
		return ffl_ret(ret);
	give(entry, entry_size, &e, sizeof(e));
	return 0;
}

/* All entries that are not empty. How many, or -errno; -EINVAL if max_entries are too few. */
static ssize_t query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
			       size_t max_entries, uint32_t flags, size_t entry_size)
{
	struct ffl_context *ctx = ffl_session_of(context);
	struct ff_query_port_resp p;
	struct ibv_gid_entry e;
	uint32_t port, i;
	size_t n = 0;
	int ret;

	if (flags || !entry_size)
		return -EINVAL;
	for (port = 1; port <= ctx->dev.phys_port_cnt; port++) {
		ret = query_port(ctx, port, &p);
		if (ret)
			return ret;
		for (i = 0; i < p.gid_tbl_len; i++) {
			ret = query_gid(ctx, port, i, &e);
			if (ret == -ENODATA)
				continue;
			if (ret)
				return ret;
			if (n == max_entries)
				return -EINVAL;
			give((uint8_t *)entries + n++ * entry_size, entry_size, &e, sizeof(e));
		}
	}
	return n;
}

/* Unlike others it returns -errno. */
FFL_EXPORT ssize_t _ibv_query_gid_table(struct ibv_context *context, struct ibv_gid_entry *entries,
					size_t max_entries, uint32_t flags, size_t entry_size)
{
	ssize_t n = query_gid_table(context, entries, max_entries, flags, entry_size);

	if (n < 0)
		errno = (int)-n;
	return n;
}

/*
 * What sysfs calls the type: 0 is "IB/RoCE v1", 1 is "RoCE v2". ibv_devinfo uses it, so it is
 * exported in the private nodes. 0 or -1 with errno.
 */
FFL_EXPORT int ffl_query_gid_type(struct ibv_context *context, uint8_t port, unsigned int index,
				  uint32_t *type)
{
	struct ibv_gid_entry e;

	if (gid_or_zeros(context, port, index, &e))
		return -1;
	*type = e.gid_type == IBV_GID_TYPE_ROCE_V2;
	return 0;
}
FFL_PRIVATE_15(ffl_query_gid_type, ibv_query_gid_type);

/* ---- P_Keys ------------------------------------------------------------------------------------------ */

/* 0 or -1 with errno. */
FFL_EXPORT int ibv_query_pkey(struct ibv_context *context, uint8_t port, int index, __be16 *pkey)
{
	struct ff_query_port_resp p;
	int ret;

	ret = query_port(ffl_session_of(context), port, &p);
	if (!ret && (index < 0 || (uint32_t)index >= p.pkey_tbl_len))
		ret = -EINVAL;
	if (ret) {
		errno = -ret;
		return -1;
	}
	*pkey = index ? 0 : htobe16(p.pkey0);
	return 0;
}

/* The index or -1 with errno. */
FFL_EXPORT int ibv_get_pkey_index(struct ibv_context *context, uint8_t port, __be16 pkey)
{
	__be16 entry;
	int i;

	for (i = 0; !ibv_query_pkey(context, port, i, &entry); i++)
		if (entry == pkey)
			return i;
	return -1;
}

/* ---- time --------------------------------------------------------------------------------------------- */

/*
 * The raw clock is the one of completion timestamps: nanoseconds of CLOCK_MONOTONIC, all of them
 * in tv_nsec, since "raw" means uncounted ticks.
 */
int ffl_query_rt_values(struct ibv_context *context, struct ibv_values_ex *values)
{
	struct timespec ts;
	uint32_t have = 0;

	(void)context;
	if (values->comp_mask & ~IBV_VALUES_MASK_RAW_CLOCK)
		return ffl_ret(-EINVAL);
	if (values->comp_mask & IBV_VALUES_MASK_RAW_CLOCK) {
		if (clock_gettime(CLOCK_MONOTONIC, &ts))
			return errno;
		values->raw_clock.tv_sec = 0;
		values->raw_clock.tv_nsec = ts.tv_sec * 1000000000L + ts.tv_nsec;
		have |= IBV_VALUES_MASK_RAW_CLOCK;
	}
	values->comp_mask = have;
	return 0;
}
