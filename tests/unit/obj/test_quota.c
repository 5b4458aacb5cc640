/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_quota.c - ffr/obj/quota.c as clients see it: what a container and its tenant may make, what is
 * returned, and calls that wait. That all is returned at the end is in rig_close().
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <rdma/rdma_cma.h>
#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"
#include "tests/rig/common/hello.h"
#include "ffr/ctl/container.h"
#include "ffr/obj/cpu.h"

#define SEC 1000000000ull /* ns */

static struct ctl_rig *const g = &call_rig;

static void limit(int container, const struct ffo_limits *l)
{
	fast_lock(g->ctl.host);
	fast_container_limits(g->c[container], l);
	fast_unlock(g->ctl.host);
}

static void limit_tenant(const struct ffo_limits *l)
{
	fast_lock(g->ctl.host);
	assert_int_equal(fast_tenant_limits(g->ctl.host, "default", l), 0);
	fast_unlock(g->ctl.host);
}

static uint64_t used(int container, enum quota q)
{
	return g->c[container]->quota.use.used[q];
}

/* The status. */
static int create_qp(int s, uint32_t pd, uint32_t cq, uint32_t *qp)
{
	struct ff_create_qp_req req = call_qp_req(pd, cq, IBV_QPT_RC);
	struct ff_create_qp_resp resp;
	int err = RIG_CALL(g, s, CREATE_QP, &req, &resp);

	*qp = resp.qp;
	return err;
}

/*
 * The entries of an SRQ count as those of other queues; a number that wraps around fits no limit.
 */
static void entries_of_srqs_are_counted(void **state)
{
	int s = call_client(g, 0);
	struct ff_create_srq_req req = { .pd = call_pd(g, s), .max_wr = 100, .max_sge = 1 };
	struct ff_create_srq_resp resp;

	(void)state;
	assert_int_equal(RIG_CALL(g, s, CREATE_SRQ, &req, &resp), 0);
	assert_true(used(0, QUOTA_WR) >= 100);
	limit(0, &(struct ffo_limits){ .max_wr = 1000 });
	assert_int_equal(quota_charge(g->c[0], QUOTA_WR, UINT64_MAX), -ENOMEM);
	limit(0, &(struct ffo_limits){ 0 });
	close(s);
	rig_pump(g);
	assert_int_equal(used(0, QUOTA_WR), 0);
}

static void objects_are_counted(void **state)
{
	int s = call_client(g, 0), other = call_client(g, 0);
	uint32_t pd = call_pd(g, s), cq = call_cq(g, s), qp[3];
	struct ff_create_cq_resp resp;
	uint64_t wr;

	(void)state;
	assert_int_equal(create_qp(s, pd, cq, &qp[0]), 0);
	wr = used(0, QUOTA_WR);
	assert_true(wr >= 110); /* what call_qp_req() asks for */
	limit(0, &(struct ffo_limits){ .max_qp = 2, .max_cq = 2, .max_wr = 2 * wr });
	assert_int_equal(create_qp(s, pd, cq, &qp[1]), 0);
	assert_int_equal(create_qp(s, pd, cq, &qp[2]), -ENOMEM);
	assert_int_equal(call_create_cq(g, other, 1, 0, &resp), 0);
	assert_int_equal(call_create_cq(g, other, 1, 0, &resp), -ENOMEM);
	assert_int_equal(used(0, QUOTA_QP), 2);
	assert_int_equal(used(0, QUOTA_CQ), 2);
	limit(0, &(struct ffo_limits){ .max_wr = 2 * wr });
	assert_int_equal(create_qp(s, pd, cq, &qp[2]), -ENOMEM);
	assert_int_equal(used(0, QUOTA_QP), 2); /* not one that is half charged */
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp[0]), 0);
	assert_int_equal(used(0, QUOTA_WR), wr);
	assert_int_equal(create_qp(s, pd, cq, &qp[2]), 0);
	close(s);
	rig_pump(g);
	assert_int_equal(used(0, QUOTA_QP), 0);
	assert_int_equal(used(0, QUOTA_WR), 0);
	assert_int_equal(used(0, QUOTA_SESSION), 1);
	assert_int_equal(used(0, QUOTA_CQ), 1);
	close(other);
}

/* Lower than what is there: it stays, and there is no more. */
static void a_tenant_is_the_sum(void **state)
{
	int a = call_client(g, 0), b = call_client(g, 1);
	uint32_t pd_a = call_pd(g, a), pd_b = call_pd(g, b), cq_a = call_cq(g, a);
	uint32_t cq_b = call_cq(g, b), qp, none;

	(void)state;
	limit_tenant(&(struct ffo_limits){ .max_qp = 2 });
	assert_int_equal(create_qp(a, pd_a, cq_a, &qp), 0);
	assert_null(quota_used_up(g->c[0], QUOTA_QP));
	assert_int_equal(create_qp(b, pd_b, cq_b, &qp), 0);
	assert_int_equal(create_qp(a, pd_a, cq_a, &none), -ENOMEM);
	assert_int_equal(g->c[0]->of->use.used[QUOTA_QP], 2);
	assert_ptr_equal(quota_used_up(g->c[0], QUOTA_QP), &g->c[0]->of->limits);
	limit_tenant(&(struct ffo_limits){ .max_qp = 1 });
	assert_int_equal(call_one(g, b, FF_MSG_DESTROY_QP, qp), 0);
	assert_int_equal(create_qp(b, pd_b, cq_b, &none), -ENOMEM);
	limit_tenant(&(struct ffo_limits){ .max_qp = 0 });
	assert_int_equal(create_qp(b, pd_b, cq_b, &qp), 0);
	close(a);
	close(b);
}

static void memory_is_counted(void **state)
{
	struct ff_alloc_null_mr_req null = { 0 };
	const uint64_t dm_bytes = 2 * FF_PAGE;
	struct ff_alloc_dm_req dm = { .length = dm_bytes - 3192 };
	uint64_t off;
	struct ff_alloc_null_mr_resp null_mr;
	struct ff_alloc_dm_resp dm_resp;
	struct ff_rereg_mr_req rereg = { .flags = IBV_REREG_MR_CHANGE_TRANSLATION };
	struct ff_rereg_mr_resp again;
	struct ff_reg_mr_resp mr, more;
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s);
	uint64_t pinned = used(0, QUOTA_PINNED);
	void *buf = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	(void)state;
	assert_ptr_not_equal(buf, MAP_FAILED);
	assert_true(pinned > 0); /* rings */
	g->ctl.dev.max_dm_size = 1 << 20;
	limit(0, &(struct ffo_limits){ .max_registered = 10000,
				       .max_pinned = pinned + (1 << 20) + dm_bytes });
	assert_int_equal(call_reg_mr(g, s, pd, buf, 6000, 0, &mr), 0);
	assert_int_equal(call_reg_mr(g, s, pd, buf, 4001, 0, &more), -ENOMEM);
	null.pd = pd;
	assert_int_equal(RIG_CALL(g, s, ALLOC_NULL_MR, &null, &null_mr), 0);
	assert_int_equal(used(0, QUOTA_MR), 2);
	assert_int_equal(used(0, QUOTA_REGISTERED), 6000);
	rereg.mr = mr.mr;
	rereg.addr = rereg.iova = (uintptr_t)buf;
	rereg.length = 10001;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &rereg, &again), -ENOMEM);
	assert_int_equal(used(0, QUOTA_REGISTERED), 6000);
	rereg.length = 10000;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &rereg, &again), 0);
	assert_int_equal(used(0, QUOTA_REGISTERED), 10000);
	rereg.length = 100;
	assert_int_equal(RIG_CALL(g, s, REREG_MR, &rereg, &again), 0);
	assert_int_equal(used(0, QUOTA_REGISTERED), 100);
	assert_int_equal(call_reg_mr(g, s, pd, buf, 9900, 0, &more), 0);

	close(call_watch_pages(g, s));
	assert_int_equal(call_place_pages(g, s, 1 << 20, &off), 0);
	assert_int_equal(call_place_pages(g, s, 1 << 20, &off), -ENOMEM);
	assert_int_equal(RIG_CALL(g, s, ALLOC_DM, &dm, &dm_resp), 0);
	assert_int_equal(used(0, QUOTA_PINNED), pinned + (1 << 20) + dm_bytes);
	assert_int_equal(RIG_CALL(g, s, ALLOC_DM, &dm, &dm_resp), -ENOMEM);
	assert_int_equal(call_one(g, s, FF_MSG_FREE_DM, dm_resp.dm),
			 -EINVAL); /* of the failed one */
	close(s);
	rig_pump(g);
	assert_int_equal(used(0, QUOTA_PINNED), 0);
	munmap(buf, 1 << 20);
}

/* One container cannot fill a table that all share; what it is refused is told. */
static void shares_leave_room(void **state)
{
	uint32_t n[3] = { 0 };

	(void)state;
	while (!quota_share_take(g->c[0], SHARE_MAPPING, 1))
		n[0]++;
	assert_in_range(n[0], 16000, 16384);
	assert_true(g->c[0]->quota.refusal.untold);
	assert_string_equal(g->c[0]->quota.refusal.share, "mappings of clients' memory");
	quota_tell(g->c[0]);
	assert_false(g->c[0]->quota.refusal.untold);
	/* another one of its tenant has the few that anybody has */
	while (!quota_share_take(g->c[1], SHARE_MAPPING, 1))
		n[1]++;
	if (g->c[1]->of == g->c[0]->of)
		assert_int_equal(n[1], SHARE_SMALL);
	else
		assert_in_range(n[1], 8000, 8192);
	quota_share_return(g->c[0], SHARE_MAPPING, 1);
	assert_int_equal(quota_share_take(g->c[0], SHARE_MAPPING, 1), -ENOSPC);
	while (g->c[0]->quota.use.shares[SHARE_MAPPING])
		quota_share_return(g->c[0], SHARE_MAPPING, 1);
	while (g->c[1]->quota.use.shares[SHARE_MAPPING])
		quota_share_return(g->c[1], SHARE_MAPPING, 1);
	/* few are always to be had, until there is none */
	assert_false(share_full(SHARE_SMALL - 1, 100, 101));
	assert_true(share_full(SHARE_SMALL, 100, 101));
	assert_true(share_full(0, 101, 101));
}

/* One container cannot have all that the process may open. */
static void descriptors_are_shared(void **state)
{
	struct rlimit was, few = { 400, 400 };
	uint64_t before = used(0, QUOTA_FD), n[2] = { 0 };

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &was), 0);
	few.rlim_max = was.rlim_max;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
	while (!quota_charge(g->c[0], QUOTA_FD, 4))
		n[0] += 4;
	assert_in_range(n[0], 120, 150);
	assert_string_equal(g->c[0]->quota.refusal.share, "descriptors");
	quota_tell(g->c[0]);
	while (!quota_charge(g->c[1], QUOTA_FD, 4))
		n[1] += 4;
	assert_int_equal(n[1], SHARE_SMALL); /* of the same tenant */
	quota_tell(g->c[1]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &was), 0);
	quota_return(g->c[0], QUOTA_FD, n[0]);
	quota_return(g->c[1], QUOTA_FD, n[1]);
	assert_int_equal(used(0, QUOTA_FD), before);
}

/* Bytes until it is refused, in objects or in pages. */
static uint64_t memory_taken(int container, enum quota q, uint64_t n)
{
	uint64_t was = used(container, QUOTA_MEMORY);

	while (!quota_charge(g->c[container], q, n))
		;
	return used(container, QUOTA_MEMORY) - was;
}

static void give_all_back(int container, enum quota q, uint64_t n)
{
	while (used(container, q))
		quota_return(g->c[container], q, n);
}

/* One container cannot have all the memory that the router may have, whatever it takes it for. */
static void memory_is_shared(void **state)
{
	static const enum quota kinds[] = { QUOTA_QP,	  QUOTA_CQ,	 QUOTA_SRQ,   QUOTA_MR,
					    QUOTA_OBJECT, QUOTA_SESSION, QUOTA_MEMORY };
	const uint64_t mb = 1 << 20, max = 64 * mb;
	const uint64_t slack = 2 * QUOTA_MEMORY_UNIT;
	uint64_t taken;

	(void)state;
	quota_memory_bound(max);
	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		uint64_t n = kinds[i] == QUOTA_MEMORY ? FF_PAGE : 1;

		taken = memory_taken(0, kinds[i], n);
		assert_in_range(taken, max / 2 - slack, max / 2 + slack);
		assert_string_equal(g->c[0]->quota.refusal.share, "kB of memory");
		assert_in_range(g->c[0]->quota.refusal.used, 31 * 1024, 33 * 1024);
		assert_int_equal(g->c[0]->quota.refusal.limit, 64 * 1024);
		quota_tell(g->c[0]);
		/* another one of its tenant has the few that anybody has */
		taken = memory_taken(1, QUOTA_MEMORY, FF_PAGE);
		assert_in_range(taken, SHARE_SMALL * QUOTA_MEMORY_UNIT - slack,
				SHARE_SMALL * QUOTA_MEMORY_UNIT + slack);
		assert_int_equal(g->c[0]->of->use.used[QUOTA_MEMORY],
				 used(0, QUOTA_MEMORY) + used(1, QUOTA_MEMORY));
		give_all_back(0, kinds[i], n);
		give_all_back(1, QUOTA_MEMORY, FF_PAGE);
		assert_int_equal(used(0, QUOTA_MEMORY), 0);
	}
	assert_int_equal(quota_charge(g->c[0], QUOTA_MEMORY, UINT64_MAX), -ENOMEM);
	assert_int_equal(quota_charge(g->c[0], QUOTA_MEMORY, max), -ENOMEM);
	quota_memory_bound(0);
	assert_int_equal(quota_charge(g->c[0], QUOTA_MEMORY, 2 * max), 0);
	quota_return(g->c[0], QUOTA_MEMORY, 2 * max);
	quota_tell(g->c[0]);
}

/* A client has what it needs from few bytes on, and is refused as by a small device. */
static void calls_that_take_memory_are_refused(void **state)
{
	int s = call_client(g, 0);
	struct ff_create_cq_req req = { .cqe = 8100 };
	struct ff_create_cq_resp resp;
	uint64_t was = used(0, QUOTA_MEMORY);
	uint32_t cq[64], n = 0;

	(void)state;
	assert_true(was >= sizeof(struct ff_ses_hdr));
	quota_memory_bound(20 << 20);
	while (!RIG_CALL(g, s, CREATE_CQ, &req, &resp)) {
		assert_true(n < 64);
		cq[n++] = resp.cq;
	}
	assert_in_range(n, 17, 20); /* 512 kB each, of 10 MB */
	was = used(0, QUOTA_MEMORY);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CQ, cq[i]), 0);
	/* the rings' pages may stay in the file: charged, but not again */
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(RIG_CALL(g, s, CREATE_CQ, &req, &resp), 0);
	assert_int_equal(used(0, QUOTA_MEMORY), was);
	quota_memory_bound(0);
	close(s);
	rig_pump(g);
	assert_int_equal(used(0, QUOTA_MEMORY), 0);
}

/* With other hosts a QP may have copies of the WRs that wait for a peer's answer: they are charged from the start. */
static void what_waits_for_other_hosts_is_charged(void **state)
{
	int s = call_client(g, 0);
	uint32_t pd = call_pd(g, s), cq = call_cq(g, s), qp;
	struct ff_create_qp_req req = call_qp_req(pd, cq, IBV_QPT_RC);
	struct ff_create_qp_resp resp;
	uint64_t was = used(0, QUOTA_MEMORY), alone, few, many;

	(void)state;
	/* the ring's pages stay in their segment, and are charged from the first QP on */
	assert_int_equal(create_qp(s, pd, cq, &qp), 0);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp), 0);
	was = used(0, QUOTA_MEMORY);
	assert_int_equal(create_qp(s, pd, cq, &qp), 0);
	alone = used(0, QUOTA_MEMORY) - was;
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp), 0);
	g->ctl.host->wired = true;
	assert_int_equal(create_qp(s, pd, cq, &qp), 0);
	few = used(0, QUOTA_MEMORY) - was;
	assert_true(few > alone + 64 * sizeof(struct send_wr));
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, qp), 0);
	assert_int_equal(used(0, QUOTA_MEMORY), was);
	/* as many as may be under way, with as much inline data as there may be */
	req.cap.max_send_wr = 4096;
	req.cap.max_inline = 1024;
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), 0);
	many = used(0, QUOTA_MEMORY) - was;
	assert_true(many > 4096 * 1024 + 128 * 1024);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_QP, resp.qp), 0);
	assert_true(used(0, QUOTA_MEMORY) < was + many);
	was = used(0, QUOTA_MEMORY);
	/* refused with nothing left behind */
	quota_memory_bound(2 * many - 1);
	assert_int_equal(RIG_CALL(g, s, CREATE_QP, &req, &resp), -ENOMEM);
	assert_int_equal(used(0, QUOTA_MEMORY), was);
	quota_memory_bound(0);
	close(s);
	rig_pump(g);
	g->ctl.host->wired = false;
}

/* Of the host, where the orchestrator was told nothing. */
static void defaults_are_in_force(void **state)
{
	struct ffo_container info = { .mode = g->c[0]->mode, .epoch = g->c[0]->epoch };
	int s = call_client(g, 0), other = rig_connect(g, 0);
	uint32_t pd = call_pd(g, s), cq = call_cq(g, s), qp;

	(void)state;
	info.lid = g->c[0]->lid;
	info.num_ips = g->c[0]->num_gids;
	for (unsigned i = 0; i < info.num_ips; i++)
		memcpy(&info.ip[i], &g->c[0]->gid[i], sizeof(info.ip[i]));
	g->ctl.conf.defaults = (struct ffo_limits){ .max_qp = 1, .max_rings = 1 };
	container_update(g->c[0], &info);
	assert_int_equal(create_qp(s, pd, cq, &qp), 0); /* in a segment that is there */
	assert_int_equal(create_qp(s, pd, cq, &qp), -ENOMEM);
	assert_ptr_equal(quota_used_up(g->c[0], QUOTA_QP), &g->c[0]->limits);
	assert_int_equal(rig_hello(g, other), -ENOMEM); /* no rings */
	info.limits.max_qp = FFO_UNLIMITED;
	container_update(g->c[0], &info);
	assert_int_equal(create_qp(s, pd, cq, &qp), 0);
	memset(&g->ctl.conf.defaults, 0, sizeof(g->ctl.conf.defaults));
	info.limits.max_qp = 0;
	container_update(g->c[0], &info);
	close(s);
	close(other);
	rig_pump(g);
}

static void sessions_and_descriptors_are_counted(void **state)
{
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	int s = call_client(g, 0), other = rig_connect(g, 0), fds[4];
	uint64_t fd = used(0, QUOTA_FD);
	unsigned n_fds = 4;

	(void)state;
	limit(0, &(struct ffo_limits){ .max_session = 1, .max_fd = fd + 1 });
	assert_int_equal(rig_hello(g, other), -ENOMEM);
	assert_int_equal(used(0, QUOTA_SESSION), 1);
	assert_int_equal(used(0, QUOTA_FD), fd);
	assert_int_equal(rig_call(g, s, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), fds, &n_fds),
			 0);
	close(fds[0]);
	assert_int_equal(used(0, QUOTA_FD), fd + 1);
	n_fds = 4;
	assert_int_equal(rig_call(g, s, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), fds, &n_fds),
			 -ENOMEM);
	limit(0, &(struct ffo_limits){ .max_fd = fd + 3 });
	assert_int_equal(rig_hello(g, other), -ENOMEM); /* it needs four and a segment */
	limit(0, &(struct ffo_limits){ .max_pinned = 3 << 20 });
	assert_int_equal(rig_hello(g, other), -ENOMEM);
	assert_int_equal(used(0, QUOTA_FD), fd + 1);
	limit(0, &(struct ffo_limits){ 0 });
	assert_int_equal(rig_hello(g, other), 0);
	close(s);
	close(other);
}

/* What has no quota of its own; identifiers of the connection manager count as 8. */
static void other_objects_are_counted(void **state)
{
	struct ff_cm_create_id_req id = { .ps = RDMA_PS_TCP };
	struct ff_create_channel_req channel = { 0 };
	struct ff_alloc_mw_req mw = { .type = IBV_MW_TYPE_1 };
	struct ff_create_channel_resp channel_resp;
	struct ff_cm_create_id_resp id_resp;
	struct ff_alloc_mw_resp mw_resp;
	struct ff_alloc_pd_req pd = { 0 };
	struct ff_alloc_pd_resp pd_resp;
	int s = call_client(g, 0), fds[4];
	unsigned n_fds = 4;

	(void)state;
	assert_int_equal(rig_call(g, s, FF_MSG_CREATE_CHANNEL, &channel, sizeof(channel), NULL, 0,
				  0, &channel_resp, sizeof(channel_resp), fds, &n_fds),
			 0);
	close(fds[0]);
	assert_int_equal(used(0, QUOTA_OBJECT), 0);
	limit(0, &(struct ffo_limits){ .max_object = 11 });
	mw.pd = call_pd(g, s);
	assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &mw, &mw_resp), 0);
	assert_int_equal(used(0, QUOTA_OBJECT), 2);
	id.channel = channel_resp.channel;
	assert_int_equal(RIG_CALL(g, s, CM_CREATE_ID, &id, &id_resp), 0);
	assert_int_equal(used(0, QUOTA_OBJECT), 10);
	assert_int_equal(RIG_CALL(g, s, CM_CREATE_ID, &id, &id_resp), -ENOMEM);
	assert_int_equal(RIG_CALL(g, s, ALLOC_PD, &pd, &pd_resp), 0);
	assert_int_equal(RIG_CALL(g, s, ALLOC_PD, &pd, &pd_resp), -ENOMEM);
	assert_int_equal(RIG_CALL(g, s, ALLOC_MW, &mw, &mw_resp), -ENOMEM);
	assert_int_equal(used(0, QUOTA_OBJECT), 11);
	close(s);
	rig_pump(g);
	assert_int_equal(used(0, QUOTA_OBJECT), 0);
	limit(0, &(struct ffo_limits){ 0 });
}

/* What sockets can hold of what a client does not read is the router's memory, and no more than is charged. */
static void sockets_are_memory(void **state)
{
	uint64_t before = used(0, QUOTA_MEMORY), with;
	int s = call_client(g, 0), fds[4], bytes = 0;
	struct ff_create_channel_req req = { 0 };
	struct ff_create_channel_resp resp;
	socklen_t len = sizeof(bytes);
	struct channel *ch;
	unsigned n_fds = 4;

	(void)state;
	with = used(0, QUOTA_MEMORY);
	assert_true(with >= before + 2 * QUOTA_SOCKET);
	assert_int_equal(rig_call(g, s, FF_MSG_CREATE_CHANNEL, &req, sizeof(req), NULL, 0, 0, &resp,
				  sizeof(resp), fds, &n_fds),
			 0);
	assert_int_equal(used(0, QUOTA_MEMORY), with + QUOTA_SOCKET);
	ch = channel_get(LIST_FIRST(&g->c[0]->sessions), resp.channel);
	assert_int_equal(getsockopt(ch->fd, SOL_SOCKET, SO_SNDBUF, &bytes, &len), 0);
	assert_true(bytes > 0 && (unsigned)bytes <= QUOTA_SOCKET);
	close(fds[0]);
	assert_int_equal(call_one(g, s, FF_MSG_DESTROY_CHANNEL, resp.channel), 0);
	assert_int_equal(used(0, QUOTA_MEMORY), with);
	close(s);
	rig_pump(g);
	assert_int_equal(used(0, QUOTA_MEMORY), before);
}

/* ---- calls ----------------------------------------------------------------------------------- */

static void send_alloc_pd(int s, uint32_t seq)
{
	struct {
		struct ff_hdr h;
		struct ff_alloc_pd_req req;
	} msg = { .h = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .seq = seq } };

	rig_send(s, &msg, sizeof(msg), -1, 0);
}

static bool answered(int s)
{
	char buf[512];

	return recv(s, buf, sizeof(buf), MSG_DONTWAIT) > 0;
}

/* A flood is served at its rate, all of it, and another container does not wait for it. */
static void calls_wait(void **state)
{
	int a = call_client(g, 0), b = call_client(g, 1);
	uint64_t start = uv_hrtime(), now;
	unsigned n = 0;

	(void)state;
	limit(0, &(struct ffo_limits){ .max_calls = 100 });
	for (uint32_t i = 0; i < 120; i++)
		send_alloc_pd(a, i);
	for (int i = 0; i < 20; i++)
		rig_pump(g);
	while (answered(a))
		n++;
	now = uv_hrtime();
	assert_in_range(n, 100, 102 + (now - start) / 10000000); /* a second's worth */
	call_pd(g, b);
	while (n < 120) {
		uv_run(&g->loop, UV_RUN_ONCE);
		while (answered(a))
			n++;
	}
	assert_true(uv_hrtime() - start > 180000000); /* 19 of them at 10 ms */
	close(a);
	close(b);
}

static unsigned calls_until_it_waits(uint64_t now)
{
	unsigned n = 0;

	for (; !quota_call_wait(g->c[0], now); n++)
		quota_call_charge(g->c[0], now);
	return n;
}

/* A second's calls at once, beside the one that is served when all is paid for, and then one by one. */
static void calls_have_a_burst(void **state)
{
	uint64_t now = 1000 * SEC;

	(void)state;
	assert_false(quota_calls_limited(g->c[0]));
	assert_int_equal(quota_call_wait(g->c[0], now), 0);
	limit(0, &(struct ffo_limits){ .max_calls = 100 });
	assert_int_equal(calls_until_it_waits(now), 101);
	assert_int_equal(quota_call_wait(g->c[0], now), 10000000);
	assert_int_equal(calls_until_it_waits(now + SEC / 2), 50);
	assert_int_equal(calls_until_it_waits(now + 10 * SEC), 101);
	/* half of it is there when there is another limit, and half of that then */
	now += 10 * SEC + SEC / 2;
	limit(0, &(struct ffo_limits){ .max_calls = 10 });
	assert_int_equal(calls_until_it_waits(now), 5);
	/* a tenant's is for all */
	limit(0, &(struct ffo_limits){ 0 });
	assert_int_equal(quota_call_wait(g->c[0], now), 0);
	limit_tenant(&(struct ffo_limits){ .max_calls = 7 });
	for (int i = 0; i < 7; i++)
		quota_call_charge(g->c[1], now);
	assert_int_equal(calls_until_it_waits(now), 1);
	assert_in_range(quota_call_wait(g->c[1], now), 142857142, 142857143);
	limit_tenant(&(struct ffo_limits){ 0 });
	assert_int_equal(quota_call_wait(g->c[1], now), 0);
}

/* In the slot it stays posted until it may be taken; who hangs up meanwhile is gone at once. */
static void a_slot_waits(void **state)
{
	struct ff_hdr h = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .seq = 7 };
	int a = call_client(g, 0), b = call_client(g, 0);
	struct ctl_conn *conn = LIST_FIRST(&g->c[0]->sessions)->conn;
	struct ff_call_slot *slot = &conn->ses->hdr->call;
	struct container_ctl *ct = g->c[0]->ctl;

	(void)state;
	limit(0, &(struct ffo_limits){ .max_calls = 20 });
	for (uint32_t i = 0; i < 40; i++)
		send_alloc_pd(a, i);
	for (int i = 0; i < 5; i++)
		rig_pump(g);
	memcpy(slot->packet, &h, sizeof(h));
	memset(slot->packet + sizeof(h), 0, sizeof(struct ff_alloc_pd_req));
	slot->len = sizeof(h) + sizeof(struct ff_alloc_pd_req);
	slot->state = FF_CALL_POSTED;
	assert_int_equal(conn->ses->tab[OBJ_PD].used, 0); /* it is b's */
	assert_false(ctl_serve_slot(conn));
	assert_int_equal(slot->state, FF_CALL_POSTED);
	assert_true(conn->waits);
	close(a); /* which waits, too */
	while (rig_conns(ct) != 1)
		uv_run(&g->loop, UV_RUN_ONCE);
	while (slot->state == FF_CALL_POSTED)
		uv_run(&g->loop, UV_RUN_ONCE);
	assert_int_equal(slot->state, FF_CALL_ANSWERED);
	assert_int_equal(conn->ses->tab[OBJ_PD].used, 1);
	close(b);
}

/* Whoever waits before it could say HELLO is not taken for silent. */
static void a_greeting_waits(void **state)
{
	uint64_t patience = ctl_hello_patience;
	int a = call_client(g, 0), b;
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "late", { 0 } };
	struct {
		struct ff_hdr h;
		struct ff_hello_req req;
	} msg = { .h = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_HELLO, .n_fds = 2 }, .req = req };

	(void)state;
	ctl_hello_patience = 20;
	limit(0, &(struct ffo_limits){ .max_calls = 10 });
	for (uint32_t i = 0; i < 12; i++)
		send_alloc_pd(a, i);
	rig_pump(g);
	b = rig_connect(g, 0);
	assert_int_equal(hello_send(b, &msg, sizeof(msg)), sizeof(msg));
	while (!answered(b))
		uv_run(&g->loop, UV_RUN_ONCE);
	ctl_hello_patience = patience;
	close(a);
	close(b);
}

/* The calls of who has used its CPU time wait; others' do not. */
static void cpu_time_is_held(void **state)
{
	int a = call_client(g, 0), b = call_client(g, 1);
	struct ctl_conn *conn = LIST_FIRST(&g->c[0]->sessions)->conn;
	struct container_ctl *ct = g->c[0]->ctl;
	uint32_t sent = 0, n = 0;

	(void)state;
	limit(0, &(struct ffo_limits){ .max_cpu = 1 });
	g->c[0]->cpu.ctl_ns = 0;
	while (!conn->waits) {
		assert_true(sent < 100000);
		send_alloc_pd(a, sent++);
		rig_pump(g);
		while (answered(a))
			n++;
	}
	assert_true(g->c[0]->cpu.ctl_ns >= CPU_BURST_NS);
	assert_true(cpu_wait(g->c[0], uv_hrtime()) > 0);
	for (int i = 0; i < 5; i++) {
		send_alloc_pd(a, sent++);
		rig_pump(g);
		call_pd(g, b);
	}
	assert_false(answered(a));
	limit(0, &(struct ffo_limits){ 0 });
	while (n < sent) {
		uv_run(&g->loop, UV_RUN_ONCE);
		while (answered(a))
			n++;
	}
	/* what its end costs is charged, too */
	g->c[0]->cpu.ctl_ns = 0;
	close(a);
	while (rig_conns(ct))
		uv_run(&g->loop, UV_RUN_ONCE);
	assert_true(g->c[0]->cpu.ctl_ns > 0);
	close(b);
}

int main(void)
{
	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(CALL_TEST(objects_are_counted), CALL_TEST(entries_of_srqs_are_counted),
			CALL_TEST(a_tenant_is_the_sum), CALL_TEST(memory_is_counted),
			CALL_TEST(defaults_are_in_force), CALL_TEST(other_objects_are_counted),
			CALL_TEST(sockets_are_memory), CALL_TEST(descriptors_are_shared),
			CALL_TEST(shares_leave_room), CALL_TEST(memory_is_shared),
			CALL_TEST(calls_that_take_memory_are_refused),
			CALL_TEST(what_waits_for_other_hosts_is_charged),
			CALL_TEST(sessions_and_descriptors_are_counted),
			CALL_TEST(calls_have_a_burst), CALL_TEST(calls_wait),
			CALL_TEST(a_slot_waits), CALL_TEST(a_greeting_waits),
			CALL_TEST(cpu_time_is_held));
}
