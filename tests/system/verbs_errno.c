/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm -lpthread */
/* timeout: 300 */
/*
 * verbs_errno.c - how each function that returns an int fails: a bad call of each, what it returns,
 * and what errno is afterwards. In rdma-core three ways of it have come about:
 *	BOTH	verbs that command the kernel return the errno, and it is set, too;
 *	MINUS	those that read something, and all of rdma_cm, return -1 and set it;
 *	VALUE	those that a provider does by itself return it, and leave errno alone.
 * Programs look at either. verbs_arguments.c and cm_arguments.c have what is refused with which error,
 * verbs_unsupported.c what is not there.
 *
 * What fails only when the router is gone fails in a child that was forked, for its parent's objects.
 */
#include "tests/rig/verbs/cmt.h"

#include <fcntl.h>
#include <unistd.h>

enum way { BOTH, MINUS, VALUE };

struct row {
	const char *name;
	int (*call)(void);
	enum way way;
	int err;
};

/* One line of a table: the call is compiled where the table is, so that it has a function's name. */
#define CALL(name, ...)                                                                            \
	static int name(void)                                                                      \
	{                                                                                          \
		return (int)(__VA_ARGS__);                                                         \
	}
#define ROW(name, way, err)                                                                        \
	{                                                                                          \
#name, name, way, err                                                              \
	}

static void check(const struct row *r)
{
	int want = r->way == MINUS ? -1 : r->err, want_errno = r->way == VALUE ? 0 : r->err, ret;

	errno = 0;
	ret = r->call();
	if (ret != want || errno != want_errno)
		FAIL("%s returned %d, not %d, with errno %d (%s), not %d", r->name, ret, want,
		     errno, strerror(errno), want_errno);
}

static void check_all(const struct row *r, size_t num)
{
	for (; num--; r++)
		check(r);
}

/* ---- verbs: an end that is connected to itself, and of everything something that is in use ---------- */

static struct vt_end e, ud;
static struct ibv_td *td;
static struct ibv_pd *domain;
static struct ibv_xrcd *xrcd;
static struct ibv_dm *dm;
static struct ibv_mr *dm_mr;
static struct ibv_mw *mw;
static struct ibv_cq_ex *cq_ex;
static struct ibv_qp *qp_ex, *xrc_qp;
static struct ibv_ah_attr ah_attr;
static union ibv_gid group = { .raw = { 0xff, 0x0e, [15] = 9 } };

static void open_all(void)
{
	struct ibv_parent_domain_init_attr in_domain;
	struct ibv_xrcd_init_attr x = {
		.comp_mask = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS,
		.fd = -1,
		.oflags = O_CREAT,
	};
	struct ibv_qp_init_attr_ex init = { .cap = { 4, 4, 1, 1, 0 },
					    .qp_type = IBV_QPT_RC,
					    .comp_mask = IBV_QP_INIT_ATTR_PD |
							 IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
					    .send_ops_flags = IBV_QP_EX_WITH_SEND };
	struct ibv_cq_init_attr_ex cq = { .cqe = 4 };
	struct vt_param par = VT_PARAM;

	par.srq = true;
	par.channel = true;
	vt_end_open(&e, &par);
	vt_connect(&e, &e.self);
	par = VT_PARAM;
	par.type = IBV_QPT_UD;
	vt_end_open(&ud, &par);
	CHECK_OK(ibv_attach_mcast(ud.qp, &group, 0));
	td = CHECK_PTR(ibv_alloc_td(e.ctx, &(struct ibv_td_init_attr){ 0 }));
	in_domain = (struct ibv_parent_domain_init_attr){ .pd = e.pd, .td = td };
	domain = CHECK_PTR(ibv_alloc_parent_domain(e.ctx, &in_domain));
	xrcd = CHECK_PTR(ibv_open_xrcd(e.ctx, &x));
	dm = CHECK_PTR(ibv_alloc_dm(e.ctx, &(struct ibv_alloc_dm_attr){ .length = 64 }));
	dm_mr = CHECK_PTR(ibv_reg_dm_mr(e.pd, dm, 0, 64, IBV_ACCESS_ZERO_BASED));
	mw = CHECK_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_1));
	cq_ex = CHECK_PTR(ibv_create_cq_ex(e.ctx, &cq));
	init.pd = domain;
	init.send_cq = init.recv_cq = e.scq;
	qp_ex = CHECK_PTR(ibv_create_qp_ex(e.ctx, &init));
	init = (struct ibv_qp_init_attr_ex){ .qp_type = IBV_QPT_XRC_RECV,
					     .comp_mask = IBV_QP_INIT_ATTR_XRCD,
					     .xrcd = xrcd };
	xrc_qp = CHECK_PTR(ibv_create_qp_ex(e.ctx, &init));
	CHECK_OK(fcntl(e.channel->fd, F_SETFL, O_NONBLOCK));
	CHECK_OK(fcntl(e.ctx->async_fd, F_SETFL, O_NONBLOCK));
}

static void close_all(void)
{
	CHECK_OK(ibv_destroy_qp(xrc_qp));
	CHECK_OK(ibv_destroy_qp(qp_ex));
	CHECK_OK(ibv_destroy_cq(ibv_cq_ex_to_cq(cq_ex)));
	CHECK_OK(ibv_dealloc_mw(mw));
	CHECK_OK(ibv_dereg_mr(dm_mr));
	CHECK_OK(ibv_free_dm(dm));
	CHECK_OK(ibv_close_xrcd(xrcd));
	CHECK_OK(ibv_dealloc_pd(domain));
	CHECK_OK(ibv_dealloc_td(td));
	CHECK_OK(ibv_detach_mcast(ud.qp, &group, 0));
	vt_end_close(&ud);
	vt_end_close(&e);
}

static struct ibv_port_attr port;
static struct ibv_gid_entry entry;
static union ibv_gid gid;
static __be16 pkey;
static struct ibv_qp_attr qp_attr;
static struct ibv_qp_init_attr qp_init;
static struct ibv_srq_attr srq_attr = { .srq_limit = UINT32_MAX };
static struct ibv_sge sges[8];
static struct ibv_send_wr wr = { .opcode = (enum ibv_wr_opcode)99 }, *bad_wr;
static struct ibv_recv_wr rr = { .sg_list = sges, .num_sge = 8 }, *bad_rr;
static struct ibv_wc wc = { .wc_flags = IBV_WC_GRH };
static struct ibv_grh grh;
static struct ibv_async_event async;
static struct ibv_cq *cq;
static void *context;
static uint32_t word;

/* An object whose handle is not one. */
#define BAD_HANDLE(obj, call)                                                                      \
	({                                                                                         \
		uint32_t keep_ = (obj)->handle;                                                    \
		int ret_, err_;                                                                    \
		(obj)->handle = UINT32_MAX;                                                        \
		ret_ = (call);                                                                     \
		err_ = errno;                                                                      \
		(obj)->handle = keep_;                                                             \
		errno = err_;                                                                      \
		ret_;                                                                              \
	})

/* clang-format off */
CALL(query_port, ibv_query_port(e.ctx, 2, &port))
CALL(query_gid_ex, ibv_query_gid_ex(e.ctx, 1, 0, &entry, 1))
CALL(query_gid_ex_index, ibv_query_gid_ex(e.ctx, 1, 1u << 30, &entry, 0))
CALL(query_rt_values_ex, ibv_query_rt_values_ex(e.ctx, &(struct ibv_values_ex){ .comp_mask = ~0u }))
CALL(dealloc_pd, ibv_dealloc_pd(e.pd))
CALL(dealloc_parent_domain, ibv_dealloc_pd(domain))
CALL(dealloc_td, ibv_dealloc_td(td))
CALL(close_xrcd, ibv_close_xrcd(xrcd))
CALL(dereg_mr, BAD_HANDLE(e.mr, ibv_dereg_mr(e.mr)))
CALL(advise_mr, ibv_advise_mr(e.pd, IBV_ADVISE_MR_ADVICE_PREFETCH, 0, NULL, 0))
CALL(free_dm, ibv_free_dm(dm))
CALL(dealloc_mw, BAD_HANDLE(mw, ibv_dealloc_mw(mw)))
CALL(bind_mw, ibv_bind_mw(ud.qp, mw, &(struct ibv_mw_bind){ .bind_info.mr = NULL }))
CALL(destroy_comp_channel, ibv_destroy_comp_channel(e.channel))
CALL(resize_cq, ibv_resize_cq(e.scq, -1))
CALL(modify_cq, ibv_modify_cq(e.scq, &(struct ibv_modify_cq_attr){ .attr_mask = ~0u }))
CALL(destroy_cq, ibv_destroy_cq(e.scq))
CALL(modify_srq, ibv_modify_srq(e.srq, &srq_attr, IBV_SRQ_LIMIT))
CALL(destroy_srq, ibv_destroy_srq(e.srq))
CALL(modify_qp, ibv_modify_qp(e.qp, &qp_attr, IBV_QP_CAP))
CALL(destroy_qp, ibv_destroy_qp(ud.qp))
CALL(attach_mcast, ibv_attach_mcast(e.qp, &group, 0))
CALL(detach_mcast, ibv_detach_mcast(e.qp, &group, 0))

CALL(query_gid, ibv_query_gid(e.ctx, 1, -1, &gid))
CALL(query_pkey, ibv_query_pkey(e.ctx, 1, -1, &pkey))
CALL(get_pkey_index, ibv_get_pkey_index(e.ctx, 1, 0x1234))
CALL(rereg_mr, ibv_rereg_mr(e.mr, -1, NULL, NULL, 0, 0))
CALL(init_ah_from_wc, ibv_init_ah_from_wc(e.ctx, 1, &wc, &grh, &ah_attr))
CALL(get_cq_event, ibv_get_cq_event(e.channel, &cq, &context))
CALL(get_async_event, ibv_get_async_event(e.ctx, &async))

CALL(post_send, ibv_post_send(e.qp, &wr, &bad_wr))
CALL(post_recv, ibv_post_recv(qp_ex, &rr, &bad_rr))
CALL(post_srq_recv, ibv_post_srq_recv(e.srq, &rr, &bad_rr))
CALL(wr_complete, (ibv_wr_start(ibv_qp_to_qp_ex(qp_ex)), ibv_wr_complete(ibv_qp_to_qp_ex(qp_ex))))
CALL(start_poll, ibv_start_poll(cq_ex, &(struct ibv_poll_cq_attr){ 0 }))
CALL(memcpy_to_dm, ibv_memcpy_to_dm(dm, 64, &word, 4))
CALL(memcpy_from_dm, ibv_memcpy_from_dm(&word, dm, 2, 4))

CALL(query_qp, ibv_query_qp(e.qp, &qp_attr, 0, &qp_init))
CALL(query_srq, ibv_query_srq(e.srq, &srq_attr))
CALL(req_notify_cq, ibv_req_notify_cq(e.scq, 0))
/* clang-format on */

static void verbs(void)
{
	static const struct row rows[] = {
		ROW(query_port, BOTH, EINVAL),
		ROW(query_gid_ex, BOTH, EINVAL),
		ROW(query_gid_ex_index, BOTH, EINVAL),
		ROW(query_rt_values_ex, BOTH, EINVAL),
		ROW(dealloc_pd, BOTH, EBUSY),
		ROW(dealloc_parent_domain, BOTH, EBUSY),
		ROW(dealloc_td, BOTH, EBUSY),
		ROW(close_xrcd, BOTH, EBUSY),
		ROW(dereg_mr, BOTH, EINVAL),
		ROW(advise_mr, BOTH, EINVAL),
		ROW(free_dm, BOTH, EBUSY),
		ROW(dealloc_mw, BOTH, EINVAL),
		ROW(bind_mw, BOTH, EINVAL),
		ROW(destroy_comp_channel, BOTH, EBUSY),
		ROW(resize_cq, BOTH, EINVAL),
		ROW(modify_cq, BOTH, EINVAL),
		ROW(destroy_cq, BOTH, EBUSY),
		ROW(modify_srq, BOTH, EINVAL),
		ROW(destroy_srq, BOTH, EBUSY),
		ROW(modify_qp, BOTH, EINVAL),
		ROW(destroy_qp, BOTH, EBUSY),
		ROW(attach_mcast, BOTH, EINVAL),
		ROW(detach_mcast, BOTH, EINVAL),
		ROW(query_gid, MINUS, EINVAL),
		ROW(query_pkey, MINUS, EINVAL),
		ROW(get_pkey_index, MINUS, EINVAL),
		ROW(rereg_mr, MINUS, EINVAL),
		ROW(init_ah_from_wc, MINUS, EPROTONOSUPPORT),
		ROW(get_cq_event, MINUS, EAGAIN),
		ROW(get_async_event, MINUS, EAGAIN),
		ROW(post_send, VALUE, EINVAL),
		ROW(post_recv, VALUE, EINVAL),
		ROW(post_srq_recv, VALUE, EINVAL),
		ROW(wr_complete, VALUE, EINVAL),
		ROW(start_poll, VALUE, ENOENT),
		ROW(memcpy_to_dm, VALUE, EFAULT),
		ROW(memcpy_from_dm, VALUE, EINVAL),
	};

	open_all();
	check_all(rows, ARRAY_SIZE(rows));
	/* the only one of all that returns -errno */
	errno = 0;
	CHECK_EQ(ibv_query_gid_table(e.ctx, &entry, 1, 1), -EINVAL);
	CHECK_EQ(errno, EINVAL);
	close_all();
}

static void verbs_of_the_parent(void)
{
	static const struct row rows[] = {
		ROW(modify_qp, BOTH, EIO),     ROW(query_qp, BOTH, EIO),
		ROW(modify_srq, BOTH, EIO),    ROW(query_srq, BOTH, EIO),
		ROW(attach_mcast, BOTH, EIO),  ROW(detach_mcast, BOTH, EIO),
		ROW(req_notify_cq, BOTH, EIO), ROW(get_cq_event, MINUS, EIO),
	};
	pid_t pid;

	open_all();
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		check_all(rows, ARRAY_SIZE(rows));
		_exit(0);
	}
	CHECK_EQ(vt_child_status(pid), 0);
	close_all();
}

/* ---- rdma_cm: all of it returns -1 ----------------------------------------------------------------------- */

static struct rdma_event_channel *ch;
static struct rdma_cm_id *id, *sync_id, *made;
static struct rdma_cm_event *event;
static struct rdma_addrinfo *info;
static struct rdma_conn_param param;
static struct ibv_srq_init_attr srq_init = { .attr = { 4, 1, 0 } };
static struct ibv_srq_init_attr_ex srq_init_ex;
static struct ibv_qp_init_attr_ex qp_init_ex;
static struct rdma_addrinfo passive = { .ai_flags = RAI_PASSIVE,
					.ai_port_space = RDMA_PS_TCP,
					.ai_qp_type = IBV_QPT_RC };
static struct rdma_cm_join_mc_attr_ex join = { .comp_mask = 1u << 9 };
static struct ibv_ece ece;
static int mask;

/* clang-format off */
CALL(create_id, rdma_create_id(ch, &made, NULL, (enum rdma_port_space)0x7777))
CALL(create_ep, rdma_create_ep(&made, &passive, NULL, NULL))
CALL(bind_addr, rdma_bind_addr(id, NULL))
CALL(resolve_addr, rdma_resolve_addr(id, NULL, NULL, 1))
CALL(resolve_route, rdma_resolve_route(id, 1))
CALL(listen_twice, rdma_listen(id, 1))
CALL(connect_early, rdma_connect(id, &param))
CALL(accept_nobody, rdma_accept(id, &param))
CALL(reject, rdma_reject(id, NULL, 0))
CALL(reject_ece, rdma_reject_ece(id, NULL, 0))
CALL(establish, rdma_establish(id))
CALL(notify, rdma_notify(id, IBV_EVENT_COMM_EST))
CALL(disconnect, rdma_disconnect(id))
CALL(create_qp, rdma_create_qp(id, NULL, &qp_init))
CALL(create_qp_ex, rdma_create_qp_ex(id, &qp_init_ex))
CALL(create_srq, rdma_create_srq(id, NULL, &srq_init))
CALL(create_srq_ex, rdma_create_srq_ex(id, &srq_init_ex))
CALL(init_qp_attr, rdma_init_qp_attr(id, &qp_attr, &mask))
CALL(set_option, rdma_set_option(id, 9, 9, &mask, sizeof(mask)))
CALL(join_multicast, rdma_join_multicast(id, NULL, NULL))
CALL(join_multicast_ex, rdma_join_multicast_ex(id, &join, NULL))
CALL(leave_multicast, rdma_leave_multicast(id, NULL))
CALL(migrate_id, rdma_migrate_id(sync_id, NULL))
CALL(get_request, rdma_get_request(id, &made))
CALL(get_cm_event, rdma_get_cm_event(ch, &event))
CALL(ack_cm_event, rdma_ack_cm_event(NULL))
CALL(getaddrinfo_nothing, rdma_getaddrinfo(NULL, NULL, NULL, &info))
CALL(set_local_ece, rdma_set_local_ece(id, &ece))
CALL(get_remote_ece, rdma_get_remote_ece(id, NULL))
/* clang-format on */

static void rdma_cm(void)
{
	static const struct row rows[] = {
		ROW(create_id, MINUS, EINVAL),
		ROW(create_ep, MINUS, EINVAL),
		ROW(bind_addr, MINUS, EINVAL),
		ROW(resolve_addr, MINUS, EINVAL),
		ROW(resolve_route, MINUS, EINVAL),
		ROW(listen_twice, MINUS, EINVAL),
		ROW(connect_early, MINUS, EINVAL),
		ROW(accept_nobody, MINUS, EINVAL),
		ROW(reject, MINUS, EINVAL),
		ROW(reject_ece, MINUS, EINVAL),
		ROW(establish, MINUS, EINVAL),
		ROW(notify, MINUS, EINVAL),
		ROW(disconnect, MINUS, EINVAL),
		ROW(create_qp, MINUS, EINVAL),
		ROW(create_qp_ex, MINUS, EINVAL),
		ROW(create_srq, MINUS, EINVAL),
		ROW(create_srq_ex, MINUS, EINVAL),
		ROW(init_qp_attr, MINUS, EINVAL),
		ROW(set_option, MINUS, ENOSYS),
		ROW(join_multicast, MINUS, EINVAL),
		ROW(join_multicast_ex, MINUS, ENOTSUP),
		ROW(leave_multicast, MINUS, EINVAL),
		ROW(migrate_id, MINUS, EINVAL),
		ROW(get_request, MINUS, EINVAL),
		ROW(get_cm_event, MINUS, EAGAIN),
		ROW(ack_cm_event, MINUS, EINVAL),
		ROW(getaddrinfo_nothing, MINUS, EINVAL),
		ROW(set_local_ece, MINUS, EINVAL),
		ROW(get_remote_ece, MINUS, EINVAL),
	};

	ch = cmt_channel();
	cmt_nonblock(ch);
	id = cmt_listen(ch, RDMA_PS_TCP);
	CHECK_OK(rdma_create_id(NULL, &sync_id, NULL, RDMA_PS_TCP));
	check_all(rows, ARRAY_SIZE(rows));
	CHECK_OK(rdma_destroy_id(sync_id));
	CHECK_OK(rdma_destroy_id(id));
	rdma_destroy_event_channel(ch);
}

VT_MAIN({ "verbs", verbs, 0 }, { "verbs_of_the_parent", verbs_of_the_parent, 0 },
	{ "rdma_cm", rdma_cm, 0 })
