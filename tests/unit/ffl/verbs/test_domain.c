/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_domain.c - ffl/verbs/domain.c: thread domains, parent domains and their allocators, as cq.c,
 * qp.c and srq.c use them.
 *
 * build: tests/rig/fakes/fake_ffl.c ffl/session/bell.c ffl/verbs/post.c ffl/verbs/post_ex.c ffl/verbs/qp.c ffl/verbs/cq.c ffl/verbs/gone.c ffl/verbs/cq_ex.c ffl/verbs/srq.c ffl/verbs/channel.c ffl/verbs/home.c ffl/session/table.c ffl/verbs/async.c ffl/verbs/domain.c ffl/verbs/xrc.c
 */
#include <stdlib.h>
#include <string.h>

#include "tests/rig/unit/unit.h"
#include "ffl/session/ffl.h"
#include "tests/rig/fakes/fake_ffl.h"

/* What the allocator under test does, and what it saw. */
static struct {
	bool use_default, fail, crooked;
	struct ibv_pd *pd;
	size_t size, alignment;
	uint64_t type;
	unsigned allocs, frees;
	void *last;
} a;
static char pd_context;

static void *give(struct ibv_pd *pd, void *ctx, size_t size, size_t alignment, uint64_t type)
{
	char *p;

	assert_ptr_equal(ctx, &pd_context);
	a.pd = pd;
	a.size = size;
	a.alignment = alignment;
	a.type = type;
	if (a.use_default)
		return IBV_ALLOCATOR_USE_DEFAULT;
	if (a.fail)
		return NULL;
	p = aligned_alloc(alignment, size + alignment);
	assert_non_null(p);
	memset(p, 0xee, size + alignment); /* a program's may forget to clear it */
	a.allocs++;
	return a.last = a.crooked ? p + 8 : p;
}

static void take(struct ibv_pd *pd, void *ctx, void *p, uint64_t type)
{
	assert_ptr_equal(ctx, &pd_context);
	assert_ptr_equal(pd, a.pd);
	assert_int_equal(type, a.type);
	assert_ptr_equal(p, a.last);
	a.frees++;
	free(a.crooked ? (char *)p - 8 : p);
}

static struct ibv_pd *domain(struct ibv_td *td, uint32_t mask)
{
	struct ibv_parent_domain_init_attr attr = {
		.pd = fake.pd,
		.td = td,
		.comp_mask = mask,
		.alloc = give,
		.free = take,
		.pd_context = &pd_context,
	};
	struct ibv_pd *pd = ffl_alloc_parent_domain(&fake.ctx->v.context, &attr);

	assert_non_null(pd);
	return pd;
}

#define ALLOCATORS (IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT)

static int dealloc(struct ibv_pd *pd)
{
	return ffl_domain_free(to_pd(pd));
}

static int setup(void **state)
{
	memset(&a, 0, sizeof(a));
	return fake_setup(state);
}

static void thread_domain(void **state)
{
	struct ibv_td_init_attr attr = { .comp_mask = 1 };
	struct ibv_td *td;
	struct ibv_pd *pd;

	(void)state;
	assert_null(ffl_alloc_td(&fake.ctx->v.context, &attr));
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = 0;
	td = ffl_alloc_td(&fake.ctx->v.context, &attr);
	assert_non_null(td);
	assert_ptr_equal(td->context, &fake.ctx->v.context);
	pd = domain(td, 0);
	assert_int_equal(ffl_dealloc_td(td), EBUSY);
	assert_int_equal(dealloc(pd), 0);
	assert_int_equal(ffl_dealloc_td(td), 0);
}

static void refused(void **state)
{
	struct ibv_context other = { 0 };
	struct ibv_pd foreign = { .context = &other };
	struct ibv_td foreign_td = { .context = &other };
	struct ibv_parent_domain_init_attr attr;

	(void)state;
#define REFUSED(change)                                                                            \
	do {                                                                                       \
		attr = (struct ibv_parent_domain_init_attr){ .pd = fake.pd };                      \
		change;                                                                            \
		errno = 0;                                                                         \
		assert_null(ffl_alloc_parent_domain(&fake.ctx->v.context, &attr));                 \
		assert_int_equal(errno, EINVAL);                                                   \
	} while (0)
	REFUSED(attr.pd = NULL);
	REFUSED(attr.pd = &foreign);
	REFUSED(attr.td = &foreign_td);
	REFUSED(attr.comp_mask = 1 << 3);
	assert_int_equal(to_pd(fake.pd)->refs, 0);
}

/* It has its PD's handle, keeps it alive, and one of a parent domain is one of the PD. */
static void handles(void **state)
{
	struct ibv_pd *pd = domain(NULL, ALLOCATORS), *second;
	struct ibv_parent_domain_init_attr attr = { .pd = pd, .comp_mask = 1 << 2 };

	(void)state;
	assert_int_equal(to_pd(pd)->handle, to_pd(fake.pd)->handle);
	assert_ptr_equal(pd->context, fake.pd->context);
	assert_int_equal(to_pd(fake.pd)->refs, 1);
	second = ffl_alloc_parent_domain(&fake.ctx->v.context, &attr);
	assert_non_null(second);
	assert_int_equal(to_pd(fake.pd)->refs, 2);
	assert_int_equal(dealloc(pd), 0);
	assert_int_equal(to_pd(second)->handle, to_pd(fake.pd)->handle);
	assert_int_equal(dealloc(second), 0);
	assert_int_equal(to_pd(fake.pd)->refs, 0);
}

static struct ibv_cq *make_cq(struct ibv_pd *pd)
{
	struct ibv_cq_init_attr_ex attr = { .cqe = 4,
					    .comp_mask = IBV_CQ_INIT_ATTR_MASK_PD,
					    .parent_domain = pd };
	struct ibv_cq_ex *cq = ffl_create_cq_ex(&fake.ctx->v.context, &attr);

	return cq ? ibv_cq_ex_to_cq(cq) : NULL;
}

static struct ibv_qp *make_qp(struct ibv_pd *pd, struct ibv_cq *cq)
{
	struct ibv_qp_init_attr attr = {
		.send_cq = cq, .recv_cq = cq, .cap = { 2, 2, 1, 1, 0 }, .qp_type = IBV_QPT_RC
	};

	return ibv_create_qp(pd, &attr);
}

static struct ibv_srq *make_srq(struct ibv_pd *pd)
{
	struct ibv_srq_init_attr attr = { .attr = { .max_wr = 2, .max_sge = 1 } };

	return ibv_create_srq(pd, &attr);
}

static void allocators(void **state)
{
	struct ibv_pd *pd = domain(NULL, ALLOCATORS);
	struct ibv_srq *srq;
	struct ibv_cq *cq;
	struct ibv_qp *qp;

	(void)state;
	cq = make_cq(pd);
	assert_ptr_equal(cq, a.last);
	assert_ptr_equal(a.pd, pd);
	assert_int_equal(a.type, FFL_RES_CQ);
	assert_int_equal(a.alignment, FF_CACHELINE);
	assert_true(a.size >= sizeof(struct ffl_cq) && a.size % FF_CACHELINE == 0);
	assert_int_equal(dealloc(pd), EBUSY);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(a.frees, 1);

	srq = make_srq(pd);
	assert_ptr_equal(srq, a.last);
	assert_int_equal(a.type, FFL_RES_SRQ);
	assert_ptr_equal(srq->pd, pd);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(a.frees, 2);

	cq = make_cq(NULL); /* the flag says that there is one: not so */
	assert_null(cq);
	assert_int_equal(errno, EINVAL);
	cq = &fake_cq(4)->cq; /* elsewhere: memory of libc's */
	qp = make_qp(pd, cq);
	assert_ptr_equal(qp, a.last);
	assert_int_equal(a.type, FFL_RES_QP);
	assert_ptr_equal(qp->pd, pd);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(a.frees, 3);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(a.allocs, 3);
	assert_int_equal(a.frees, 3);
	assert_int_equal(dealloc(pd), 0);
}

static void allocator_declines(void **state)
{
	struct ibv_pd *pd = domain(NULL, ALLOCATORS);
	struct ibv_srq *srq;

	(void)state;
	a.use_default = true;
	srq = make_srq(pd);
	assert_non_null(srq);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(a.frees, 0);

	a.use_default = false;
	a.fail = true;
	errno = 0;
	assert_null(make_srq(pd));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(fake.calls[FF_MSG_CREATE_SRQ], 1);

	a.fail = false;
	a.crooked = true;
	errno = 0;
	assert_null(make_srq(pd));
	assert_int_equal(errno, EINVAL);
	assert_int_equal(a.frees, 1);

	/* the router refuses: the memory goes back */
	a.crooked = false;
	fake.fail[FF_MSG_CREATE_SRQ] = -ENOMEM;
	errno = 0;
	assert_null(make_srq(pd));
	assert_int_equal(errno, ENOMEM);
	assert_int_equal(a.frees, 2);
	assert_int_equal(a.allocs, 2);
	assert_int_equal(dealloc(pd), 0);
}

/* One of the two callbacks alone is none. */
static void half_an_allocator(void **state)
{
	struct ibv_parent_domain_init_attr attr = { .pd = fake.pd,
						    .comp_mask = ALLOCATORS,
						    .alloc = give };
	struct ibv_pd *pd = ffl_alloc_parent_domain(&fake.ctx->v.context, &attr);
	struct ibv_srq *srq = make_srq(pd);

	(void)state;
	assert_non_null(srq);
	assert_int_equal(a.allocs, 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(dealloc(pd), 0);
}

/* Queues of a thread domain take no lock: one that is "held" stops nobody. */
static void no_locks(void **state)
{
	struct ibv_td_init_attr td_attr = { 0 };
	struct ibv_td *td = ffl_alloc_td(&fake.ctx->v.context, &td_attr);
	struct ibv_pd *pd = domain(td, 0), *plain = domain(NULL, 0);
	struct ibv_cq *cq = make_cq(pd), *other = make_cq(plain);
	struct ibv_qp *qp = make_qp(pd, cq);
	struct ibv_srq *srq = make_srq(pd);
	struct ibv_send_wr wr = { .wr_id = 1, .opcode = IBV_WR_SEND }, *bad;
	struct ibv_recv_wr rr = { .wr_id = 2 }, *bad_rr;
	struct ibv_wc wc;

	(void)state;
	assert_true(to_cq(cq)->lock.single && to_srq(srq)->lock.single);
	assert_false(to_cq(other)->lock.single);
	atomic_store(&to_cq(cq)->lock.v, 1);
	atomic_store(&to_qp(qp)->sq_lock.v, 1);
	atomic_store(&to_qp(qp)->rq_lock.v, 1);
	atomic_store(&to_srq(srq)->lock.v, 1);
	qp->state = IBV_QPS_RTS;
	assert_int_equal(ibv_post_send(qp, &wr, &bad), 0);
	assert_non_null(fake_sqe(to_qp(qp), 0));
	assert_int_equal(ibv_post_recv(qp, &rr, &bad_rr), 0);
	assert_int_equal(ibv_post_srq_recv(srq, &rr, &bad_rr), 0);
	assert_int_equal(ibv_poll_cq(cq, 1, &wc), 0);
	assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
	assert_int_equal(ibv_destroy_qp(qp), 0);
	assert_int_equal(ibv_destroy_srq(srq), 0);
	assert_int_equal(ibv_destroy_cq(cq), 0);
	assert_int_equal(ibv_destroy_cq(other), 0);
	assert_int_equal(dealloc(pd), 0);
	assert_int_equal(dealloc(plain), 0);
	assert_int_equal(ffl_dealloc_td(td), 0);
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, setup, fake_teardown)

	return UNIT_RUN(T(thread_domain), T(refused), T(handles), T(allocators),
			T(allocator_declines), T(half_an_allocator), T(no_locks));
}
