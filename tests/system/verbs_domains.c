/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_domains.c - thread domains, parent domains and their allocators: a parent domain goes
 * wherever a PD goes, and traffic over what was made in it is traffic like any other.
 */
#include "tests/rig/verbs/vt.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>

/* An allocator that counts; its memory is that of libc's or of a mapping of the program's. */
struct pool {
	unsigned allocs, frees;
	bool decline; /* let the library use its own */
	uint8_t *next, *end;
};

static void *pool_alloc(struct ibv_pd *pd, void *ctx, size_t size, size_t alignment, uint64_t type)
{
	struct pool *p = ctx;
	void *mem;

	CHECK(pd && size && type);
	CHECK(alignment && !(alignment & (alignment - 1)));
	p->allocs++;
	if (p->decline)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (p->next) {
		mem = (void *)(((uintptr_t)p->next + alignment - 1) & ~(alignment - 1));
		p->next = (uint8_t *)mem + size;
		CHECK(p->next <= p->end);
		return mem;
	}
	CHECK_EQ(posix_memalign(&mem, alignment < sizeof(void *) ? sizeof(void *) : alignment,
				size),
		 0);
	return memset(mem, 0, size);
}

static void pool_free(struct ibv_pd *pd, void *ctx, void *ptr, uint64_t type)
{
	struct pool *p = ctx;

	CHECK(pd && type);
	p->frees++;
	if (!p->end)
		free(ptr);
}

static struct ibv_pd *make_domain(struct ibv_context *ctx, struct ibv_pd *pd, struct ibv_td *td,
				  struct pool *pool)
{
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .td = td };

	if (pool) {
		attr.comp_mask = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS |
				 IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
		attr.alloc = pool_alloc;
		attr.free = pool_free;
		attr.pd_context = pool;
	}
	return CHECK_PTR(ibv_alloc_parent_domain(ctx, &attr));
}

static struct ibv_td *make_td(struct ibv_context *ctx)
{
	struct ibv_td_init_attr attr = { 0 };

	return CHECK_PTR(ibv_alloc_td(ctx, &attr));
}

static void td_life(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_td_init_attr bad = { .comp_mask = 1 };
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx)), *parent;
	struct ibv_td *td = make_td(ctx), *many[50];

	CHECK(td->context == ctx);
	CHECK_NULL(ibv_alloc_td(ctx, &bad), EINVAL);
	parent = make_domain(ctx, pd, td, NULL);
	CHECK_ERR(ibv_dealloc_td(td), EBUSY);
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_OK(ibv_dealloc_pd(parent));
	CHECK_OK(ibv_dealloc_td(td));
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = make_td(ctx);
	for (unsigned i = 0; i < ARRAY_SIZE(many); i++)
		CHECK_OK(ibv_dealloc_td(many[i]));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void bad_arguments(void)
{
	struct ibv_context *ctx = vt_open_device(), *other = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx)), *foreign = CHECK_PTR(ibv_alloc_pd(other));
	struct ibv_td *td = make_td(other);
	struct ibv_parent_domain_init_attr attr = { .pd = NULL };
	struct ibv_cq_init_attr_ex cq = { .cqe = 8, .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD };

	CHECK_NULL(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	attr.pd = foreign;
	CHECK_NULL(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	attr.pd = pd;
	attr.td = td;
	CHECK_NULL(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	attr.td = NULL;
	attr.comp_mask = 1u << 20;
	CHECK_NULL(ibv_alloc_parent_domain(ctx, &attr), EINVAL);
	/* a CQ wants a parent domain where it says that it names one */
	CHECK_NULL(ibv_create_cq_ex(ctx, &cq), EINVAL);
	cq.parent_domain = pd;
	CHECK_NULL(ibv_create_cq_ex(ctx, &cq), EINVAL);
	CHECK_OK(ibv_dealloc_td(td));
	CHECK_OK(ibv_dealloc_pd(foreign));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(other));
	CHECK_OK(ibv_close_device(ctx));
}

static struct ibv_cq *make_cq(struct ibv_context *ctx, struct ibv_pd *parent)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 256,
					    .wc_flags = IBV_WC_STANDARD_FLAGS,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = parent };

	return ibv_cq_ex_to_cq(CHECK_PTR(ibv_create_cq_ex(ctx, &attr)));
}

/* Queues of a parent domain: a QP to itself, over the CQ and, if `srq`, an SRQ of that domain. */
static void traffic(struct ibv_context *ctx, struct ibv_pd *parent, enum ibv_qp_type type, bool srq)
{
	struct vt_param par = VT_PARAM;
	struct ibv_cq *cq = make_cq(ctx, parent);
	struct ibv_qp_init_attr init = { .cap = { 64, 64, 2, 2, 0 }, .qp_type = type };
	struct vt_end e;

	par.type = type;
	par.srq = srq;
	vt_end_open_on(&e, &par, ctx, parent);
	CHECK(e.qp->pd == parent && e.mr->pd == parent);
	CHECK_OK(ibv_destroy_qp(e.qp));
	init.send_cq = init.recv_cq = cq;
	init.srq = e.srq;
	e.qp = CHECK_PTR(ibv_create_qp(parent, &init));
	CHECK(e.qp->pd == parent);
	e.self.qpn = e.qp->qp_num;
	vt_connect(&e, &e.self);
	for (unsigned i = 0; i < 500; i++) {
		size_t grh = type == IBV_QPT_UD ? VT_GRH : 0;

		vt_pattern(e.buf, 1000, i);
		vt_recv(&e, 2 * i, 4096, 2000);
		vt_send(&e, 2 * i + 1, 0, 1000, IBV_SEND_SIGNALED);
		for (unsigned k = 0; k < 2; k++) {
			struct ibv_wc wc = vt_wc(cq);

			CHECK_EQ(wc.status, IBV_WC_SUCCESS);
			CHECK(wc.wr_id == 2 * i || wc.wr_id == 2 * i + 1);
		}
		CHECK_PATTERN(e.buf + 4096 + grh, 1000, i);
	}
	CHECK_ERR(ibv_dealloc_pd(parent), EBUSY);
	vt_end_close(&e);
	CHECK_OK(ibv_destroy_cq(cq));
}

static void all_traffic(struct pool *pool, bool with_td)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx)), *parent;
	struct ibv_td *td = with_td ? make_td(ctx) : NULL;

	parent = make_domain(ctx, pd, td, pool);
	traffic(ctx, parent, IBV_QPT_RC, false);
	traffic(ctx, parent, IBV_QPT_RC, true);
	traffic(ctx, parent, IBV_QPT_UD, false);
	CHECK_OK(ibv_dealloc_pd(parent));
	if (td)
		CHECK_OK(ibv_dealloc_td(td));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
}

static void traffic_plain(void)
{
	all_traffic(NULL, false);
}

static void traffic_td(void)
{
	all_traffic(NULL, true);
}

static void traffic_allocators(void)
{
	struct pool pool = { 0 };

	all_traffic(&pool, true);
	CHECK(pool.allocs >= 7); /* two QPs and a CQ each time, an SRQ once */
	CHECK_EQ(pool.frees, pool.allocs);
}

static void traffic_default_allocator(void)
{
	struct pool pool = { .decline = true };

	all_traffic(&pool, false);
	CHECK(pool.allocs >= 7);
	CHECK_EQ(pool.frees, 0);
}

/* Memory that the program mapped, where pages are of any size. */
static void traffic_own_mapping(void)
{
	size_t len = 1u << 20;
	struct pool pool = { .next = vt_map(len) };
	uint8_t *base = pool.next;

	pool.end = base + len;
	all_traffic(&pool, false);
	CHECK(pool.next > base);
	CHECK_OK(munmap(base, len));
}

/* Whatever takes a PD takes a parent domain, and what is in one is in the PD. */
static void as_a_pd(void)
{
	struct ibv_context *ctx = vt_open_device();
	struct ibv_pd *pd = CHECK_PTR(ibv_alloc_pd(ctx));
	struct ibv_pd *parent = make_domain(ctx, pd, NULL, NULL);
	struct ibv_pd *second = make_domain(ctx, parent, NULL, NULL); /* one of the same PD */
	struct vt_param par = VT_PARAM;
	struct ibv_ah_attr ah_attr;
	struct ibv_qp_init_attr_ex ex;
	struct ibv_ah *ah;
	struct ibv_mr *mr;
	struct ibv_qp *qp;
	struct vt_end e;
	uint8_t *mem = vt_map(8192);

	vt_end_open_on(&e, &par, ctx, pd); /* QP and buffer of the PD ... */
	vt_connect(&e, &e.self);
	mr = CHECK_PTR(ibv_reg_mr(parent, mem, 8192, VT_ACCESS_ALL));
	CHECK(mr->pd == parent);
	/* a key of the parent domain's is good there */
	for (unsigned lap = 0; lap < 2; lap++) {
		struct ibv_sge sge = { (uintptr_t)mem, 100, mr->lkey };
		struct ibv_send_wr wr = { .wr_id = lap,
					  .sg_list = &sge,
					  .num_sge = 1,
					  .opcode = IBV_WR_RDMA_WRITE,
					  .send_flags = IBV_SEND_SIGNALED,
					  .wr.rdma = { e.self.addr + lap * 100, e.self.rkey } };

		vt_pattern(mem, 100, lap);
		CHECK_OK(vt_post(&e, &wr));
		WANT_OK(e.scq, lap);
		CHECK_PATTERN(e.buf + lap * 100, 100, lap);
		if (!lap) /* from one parent domain to another: the PD is the same */
			CHECK_OK(ibv_rereg_mr(mr, IBV_REREG_MR_CHANGE_PD, second, NULL, 0, 0));
	}
	CHECK_OK(ibv_dereg_mr(mr));
	mr = CHECK_PTR(ibv_reg_mr_iova(second, mem, 8192, 0x10000, VT_ACCESS_ALL));
	CHECK_OK(ibv_dereg_mr(mr));
	ah_attr = vt_av(&e.self.gid, 0);
	ah = CHECK_PTR(ibv_create_ah(second, &ah_attr));
	CHECK(ah->pd == second);
	CHECK_ERR(ibv_dealloc_pd(second), EBUSY);
	CHECK_OK(ibv_destroy_ah(ah));
	ex = (struct ibv_qp_init_attr_ex){
		.send_cq = e.scq,
		.recv_cq = e.rcq,
		.cap = { 4, 4, 1, 1, 0 },
		.qp_type = IBV_QPT_UC,
		.comp_mask = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
		.pd = second,
		.send_ops_flags = IBV_QP_EX_WITH_SEND,
	};
	qp = CHECK_PTR(ibv_create_qp_ex(ctx, &ex));
	CHECK(qp->pd == second);
	CHECK_OK(ibv_dealloc_pd(parent)); /* nothing is in this one any more */
	CHECK_ERR(ibv_dealloc_pd(second), EBUSY);
	CHECK_OK(ibv_destroy_qp(qp));
	vt_end_close(&e);
	CHECK_ERR(ibv_dealloc_pd(pd), EBUSY);
	CHECK_OK(ibv_dealloc_pd(second));
	CHECK_OK(ibv_dealloc_pd(pd));
	CHECK_OK(ibv_close_device(ctx));
	CHECK_OK(munmap(mem, 8192));
}

VT_MAIN({ "td_life", td_life, 0 }, { "bad_arguments", bad_arguments, 0 },
	{ "traffic_plain", traffic_plain, 0 }, { "traffic_td", traffic_td, 0 },
	{ "traffic_allocators", traffic_allocators, 0 },
	{ "traffic_default_allocator", traffic_default_allocator, 0 },
	{ "traffic_own_mapping", traffic_own_mapping, 0 }, { "as_a_pd", as_a_pd, 0 })
