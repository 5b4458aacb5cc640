/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cq.c - completion queues: create, resize, destroy, ibv_poll_cq, ibv_req_notify_cq. The extended
 * poll is in cq_ex.c, the channels' events in channel.c. Any thread of the application.
 *
 * An empty poll is where a program waits, so it is where the library does what else must be done:
 * announce postings that were kept back (post.h), give the core away after as many empty polls as
 * the router finds right for this machine (the router may need it to make progress), and find out
 * that the router is gone.
 */
#include <sched.h>
#include <stdlib.h>

#include "ffr/abi/ff_probe.h"
#include "ffl/verbs/cq.h"
#include "ffl/verbs/post.h"

/* Empty polls in a row between two looks whether the router lives. */
#define ALIVE_POLLS 1024u
/* Of the time that a yield took, the part that is polled without another one. */
#define YIELD_PART 16u

/* What create_cq_ex supports. */
#define WC_FLAGS                                                                                   \
	(IBV_WC_STANDARD_FLAGS | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP |                             \
	 IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define WC_TIMESTAMPS                                                                              \
	(IBV_WC_EX_WITH_COMPLETION_TIMESTAMP | IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK)
#define WC_FLAGS_KNOWN (IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK * 2 - 1)

/* ---- poll ----------------------------------------------------------------------------------- */

/*
 * Poll on another CPU than the one that the router moves our data on: it yields to us as much as we
 * to it, and every moment of ours on that CPU is lost for the data. The thread may run where it
 * could before: only the kernel's choice among those CPUs is made anew.
 */
static void get_out_of_the_way(struct ffl_context *ctx)
{
	uint64_t busy = atomic_load_explicit(&ctx->hdr->busy, memory_order_relaxed);
	cpu_set_t all, other;
	int cpu;

	if (likely(!busy))
		return;
	cpu = sched_getcpu();
	if (cpu < 0 || !ff_is_busy(busy, ffl_clock_ns(CLOCK_MONOTONIC), (uint16_t)cpu))
		return;
	if (sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	other = all;
	CPU_CLR(cpu, &other);
	if (!sched_setaffinity(0, sizeof(other), &other))
		sched_setaffinity(0, sizeof(all), &all);
}

/*
 * Yields, but not soon after a yield that lasted: then other programs have work for this CPU, and polling for
 * a small part of that time delays nobody by much. A program that polls without waiting needs its turn for
 * more than a poll: QEMU's migration polls twice for each page that it adds to a chunk of 256, and nothing
 * can be found before it has posted the chunk. False if it did not yield.
 */
static bool give_way(struct ffl_cq *cq)
{
	uint64_t start = ffl_clock_ns(CLOCK_MONOTONIC), end;

	if (start < atomic_load_explicit(&cq->no_yield, memory_order_relaxed))
		return false;
	get_out_of_the_way(cq->ctx);
	sched_yield();
	end = ffl_clock_ns(CLOCK_MONOTONIC);
	atomic_store_explicit(&cq->no_yield, end + (end - start) / YIELD_PART,
			      memory_order_relaxed);
	return true;
}

int ffl_cq_idle(struct ffl_cq *cq)
{
	struct ffl_context *ctx = cq->ctx;
	/* Threads that poll one CQ together may lose a count. */
	uint32_t n = atomic_load_explicit(&cq->empty_polls, memory_order_relaxed) + 1;
	uint32_t yield = atomic_load_explicit(&ctx->hdr->yield_polls, memory_order_relaxed);
	bool yielded;

	atomic_store_explicit(&cq->empty_polls, n, memory_order_relaxed);
	ffl_ring_lazy(ctx);
	if (unlikely(atomic_load_explicit(&ctx->dead, memory_order_relaxed)))
		return ffl_cq_gone(cq);
	/* a yield may last: then ALIVE_POLLS are too many */
	yielded = yield && n >= yield && give_way(cq);
	if (!yielded && likely(n % ALIVE_POLLS))
		return 0;
	if (!ffl_check_alive(ctx))
		return ffl_cq_gone(cq);
	return yielded ? EAGAIN : 0;
}

void ffl_cq_log_error(const struct ff_cqe *cqe)
{
	ffl_log(cqe->status == IBV_WC_WR_FLUSH_ERR ? FFL_DEBUG : FFL_INFO,
		"QP 0x%06x: WR 0x%llx completed with status %u, vendor error %u", cqe->qp_num,
		(unsigned long long)cqe->wr_id, cqe->status, cqe->vendor_err);
}

static inline void wc_fill(struct ibv_wc *wc, const struct ff_cqe *cqe)
{
	wc->wr_id = cqe->wr_id;
	wc->status = cqe->status;
	wc->opcode = cqe->opcode;
	wc->vendor_err = cqe->vendor_err;
	wc->byte_len = cqe->byte_len;
	wc->imm_data = cqe->imm;
	wc->qp_num = cqe->qp_num;
	wc->src_qp = cqe->src_qp;
	wc->wc_flags = ffl_wc_flags(cqe->flags);
	wc->pkey_index = cqe->pkey_index;
	wc->slid = cqe->slid;
	wc->sl = cqe->sl;
	wc->dlid_path_bits = cqe->dlid_path_bits;
	if (unlikely(cqe->status != IBV_WC_SUCCESS))
		ffl_cq_log_error(cqe);
}

/*
 * Number of completions, or -1 with EIO: none is left, the router is gone, and this is a child of the program that made
 * the CQ. Nothing means nothing now, also after a
 * yield that lasted: programs go by what they see next. libfabric looks at the connection's events when its CQ is
 * empty, and destroys a QP whose peer has disconnected, with the completions that it has not polled.
 */
int ffl_poll_cq(struct ibv_cq *ibcq, int n, struct ibv_wc *wc)
{
	struct ffl_cq *cq = to_cq(ibcq);
	const struct ff_cqe *cqe;
	bool yielded = false;
	uint32_t ci;
	int got = 0;

again:
	ffl_lock(&cq->lock);
	ci = cq->ci;
	while (got < n && (cqe = ffl_cqe_at(cq, ci))) {
		ci++;
		if (unlikely(!cqe->qp))
			continue;
		wc_fill(&wc[got++], cqe);
		FF_PROBE3(poll, cqe->qp_num, cqe->wr_id, cqe->status);
		ffl_cqe_polled(cqe);
	}
	if (ci != cq->ci)
		ffl_cq_consumed(cq, ci);
	ffl_unlock(&cq->lock);

	if (got || n <= 0 || yielded)
		return got;
	switch (ffl_cq_idle(cq)) {
	case EAGAIN:
		yielded = true;
		goto again;
	case EIO:
		errno = EIO;
		return -1;
	default:
		return 0;
	}
}

/*
 * Ask for one event at the next completion, or the next solicited one or error. CQEs that are
 * there already cause none: the caller polls once more afterwards.
 */
int ffl_req_notify_cq(struct ibv_cq *ibcq, int solicited_only)
{
	struct ffl_cq *cq = to_cq(ibcq);
	struct ffl_context *ctx = cq->ctx;
	uint32_t disarmed = FF_CQ_DISARMED;

	if (unlikely(atomic_load_explicit(&ctx->dead, memory_order_relaxed)))
		return ffl_ret(-EIO);
	ffl_lock(&cq->lock); /* ibv_resize_cq moves hdr */
	/* a request for any completion is not taken back by one for solicited ones */
	if (solicited_only)
		atomic_compare_exchange_strong(&cq->hdr->arm, &disarmed, FF_CQ_ARM_SOLICITED);
	else
		atomic_store(&cq->hdr->arm, FF_CQ_ARM_ANY);
	ffl_unlock(&cq->lock);
	/* arm before the caller's next poll: pairs with the router's fence between CQE and arm */
	atomic_thread_fence(memory_order_seq_cst);
	ffl_ring_lazy(ctx); /* it may sleep now, for what it posted */
	return 0;
}

/*
 * The router has said that this QP is destroyed or reset, so that no CQE of it is to come; forget
 * the ones that are in the ring.
 */
void ffl_cq_clean(struct ffl_cq *cq, uint32_t qp_handle)
{
	struct ff_cqe *cqe;

	ffl_lock(&cq->lock);
	for (uint32_t i = cq->ci; i - cq->ci < cq->depth && (cqe = ffl_cqe_at(cq, i)); i++)
		if (cqe->qp == qp_handle) {
			ffl_cqe_polled(cqe);
			cqe->qp = 0;
		}
	ffl_unlock(&cq->lock);
}

/* ---- create, resize, destroy ------------------------------------------------------------------ */

static int cq_attach_ring(struct ffl_context *ctx, struct ffl_cq *cq, const struct ff_ring_at *at)
{
	struct ff_cq_hdr *hdr = ffl_seg_at(ctx, at->seg, at->off);
	struct ff_cqe *ring = ffl_seg_at(ctx, at->seg, at->ring_off);

	if (!hdr || !ring)
		return -errno;
	cq->hdr = hdr;
	cq->ring = ring;
	cq->depth = at->depth;
	cq->ci = 0;
	return 0;
}

/* domain: the parent domain that it is to be in, or NULL. */
static struct ffl_cq *cq_create(struct ibv_context *ibctx, const struct ibv_cq_init_attr_ex *attr,
				struct ibv_pd *domain)
{
	struct ffl_context *ctx = ffl_session_of(ibctx);
	struct ff_create_cq_resp resp;
	struct ff_create_cq_req req = {
		.cqe = attr->cqe,
		.comp_vector = attr->comp_vector,
		.flags = attr->wc_flags & WC_TIMESTAMPS ? FF_CQ_TIMESTAMP : 0,
	};
	struct ibv_pd *mem;
	struct ffl_cq *cq;
	int err;

	if (!attr->cqe || attr->cqe > ctx->dev.max_cqe ||
	    attr->comp_vector >= (uint32_t)ibctx->num_comp_vectors ||
	    (attr->channel && to_comp_channel(attr->channel)->ctx != ctx) ||
	    (domain && to_pd(domain)->ctx != ctx))
		return ffl_err_ptr(EINVAL);
	if (attr->channel)
		req.channel = to_comp_channel(attr->channel)->handle;

	cq = ffl_obj_alloc(domain, sizeof(*cq), FFL_RES_CQ, &mem);
	if (!cq)
		return NULL;
	cq->ctx = ctx;
	cq->mem = mem;
	cq->domain = domain;
	cq->lock.single = ffl_pd_single(domain);
	err = FFL_CALL(ctx, CREATE_CQ, &req, &resp);
	if (err)
		goto err_free;
	err = cq_attach_ring(ctx, cq, &resp.ring);
	if (!err)
		err = ffl_table_put(ctx, FFL_CQ, resp.cq, cq);
	if (err)
		goto err_destroy;

	cq->handle = resp.cq;
	cq->cq.context = ibctx;
	cq->cq.channel = attr->channel;
	cq->cq.cq_context = attr->cq_context;
	cq->cq.handle = resp.cq;
	cq->cq.cqe = (int)resp.cqe;
	pthread_mutex_init(&cq->cq.mutex, NULL);
	pthread_cond_init(&cq->cq.cond, NULL);
	if (attr->channel)
		__atomic_fetch_add(&attr->channel->refcnt, 1, __ATOMIC_RELAXED);
	if (domain)
		atomic_fetch_add(&to_pd(domain)->refs, 1);
	atomic_fetch_add(&ctx->objects, 1);
	return cq;

err_destroy:
	FFL_CALL(ctx, DESTROY_CQ, &(struct ff_destroy_cq_req){ .cq = resp.cq },
		 &(struct ff_destroy_cq_resp){ 0 });
err_free:
	ffl_obj_free(cq, FFL_RES_CQ, mem);
	return ffl_err_ptr(-err);
}

#undef ibv_create_cq
FFL_EXPORT struct ibv_cq *ibv_create_cq(struct ibv_context *ctx, int cqe, void *cq_context,
					struct ibv_comp_channel *channel, int comp_vector)
{
	struct ibv_cq_init_attr_ex attr = {
		.cqe = cqe < 0 ? 0 : (uint32_t)cqe,
		.cq_context = cq_context,
		.channel = channel,
		.comp_vector = (uint32_t)comp_vector,
	};
	struct ffl_cq *cq = cq_create(ctx, &attr, NULL);

	return cq ? &cq->cq : NULL;
}

/*
 * ibv_create_cq_ex. EINVAL for bits that no version of verbs knows and for a parent domain that is
 * none, EOPNOTSUPP for what freeflow does not have: fields of other devices' completions, ignored
 * overruns.
 */
struct ibv_cq_ex *ffl_create_cq_ex(struct ibv_context *ctx, struct ibv_cq_init_attr_ex *attr)
{
	uint32_t flags = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS ? attr->flags : 0;
	struct ibv_pd *domain = attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD ? attr->parent_domain :
									     NULL;
	struct ffl_cq *cq;

	if (attr->comp_mask & ~(uint32_t)(IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD) ||
	    attr->wc_flags & ~(uint64_t)WC_FLAGS_KNOWN ||
	    flags & ~(uint32_t)(IBV_CREATE_CQ_ATTR_SINGLE_THREADED |
				IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN))
		return ffl_err_ptr(EINVAL);
	if (attr->comp_mask & IBV_CQ_INIT_ATTR_MASK_PD && (!domain || !to_pd(domain)->domain))
		return ffl_err_ptr(EINVAL);
	if (attr->wc_flags & ~(uint64_t)WC_FLAGS || flags & IBV_CREATE_CQ_ATTR_IGNORE_OVERRUN)
		return ffl_err_ptr(EOPNOTSUPP);
	cq = cq_create(ctx, attr, domain);
	if (!cq)
		return NULL;
	cq->lock.single |= flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED;
	ffl_cq_init_poll_ops(cq);
	return &cq->ex;
}

FFL_EXPORT int ibv_resize_cq(struct ibv_cq *ibcq, int cqe)
{
	struct ffl_cq *cq = to_cq(ibcq);
	struct ffl_context *ctx = cq->ctx;
	struct ff_resize_cq_req req = { .cq = cq->handle, .cqe = (uint32_t)cqe };
	struct ff_resize_cq_resp resp;
	int err;

	if (cqe <= 0 || (uint32_t)cqe > ctx->dev.max_cqe)
		return ffl_ret(-EINVAL);
	/* Held across the call: nobody may consume from the ring while the router copies it. */
	ffl_lock(&cq->lock);
	err = FFL_CALL(ctx, RESIZE_CQ, &req, &resp);
	if (err == -EAGAIN) {
		err = ffl_segs_map(ctx);
		if (!err)
			err = FFL_CALL(ctx, RESIZE_CQ, &req, &resp);
	}
	if (!err) {
		err = cq_attach_ring(ctx, cq, &resp.ring);
		if (err)
			ffl_mark_dead(ctx); /* the router writes where we cannot follow */
		else
			ibcq->cqe = (int)resp.cqe;
	}
	ffl_unlock(&cq->lock);
	return ffl_ret(err);
}

/* ibv_modify_cq: moderation, the only thing there is. 0 or a positive errno. */
int ffl_modify_cq(struct ibv_cq *ibcq, struct ibv_modify_cq_attr *attr)
{
	struct ff_modify_cq_req req = {
		.cq = to_cq(ibcq)->handle,
		.count = attr->moderate.cq_count,
		.period = attr->moderate.cq_period,
	};
	struct ff_modify_cq_resp resp;

	if (attr->attr_mask != IBV_CQ_ATTR_MODERATE)
		return ffl_ret(-EINVAL);
	return ffl_ret(FFL_CALL(to_cq(ibcq)->ctx, MODIFY_CQ, &req, &resp));
}

/* EBUSY while QPs use it. Waits until the program has acknowledged the CQ's events. */
FFL_EXPORT int ibv_destroy_cq(struct ibv_cq *ibcq)
{
	struct ffl_cq *cq = to_cq(ibcq);
	struct ffl_context *ctx = cq->ctx;
	struct ff_destroy_cq_req req = { .cq = cq->handle };
	struct ff_destroy_cq_resp resp;
	int err;

	if (atomic_load(&cq->refs))
		return ffl_ret(-EBUSY);
	err = FFL_CALL(ctx, DESTROY_CQ, &req, &resp);
	if (err && err != -EIO) /* a dead router's objects are gone already */
		return ffl_ret(err);
	ffl_table_del(ctx, FFL_CQ, cq->handle);
	ffl_events_drain(ctx, &ibcq->mutex, &ibcq->cond, &ibcq->comp_events_completed,
			 cq->comp_events);
	ffl_events_drain(ctx, &ibcq->mutex, &ibcq->cond, &ibcq->async_events_completed,
			 cq->async_events);
	if (ibcq->channel) {
		ffl_channel_forget_gone(to_comp_channel(ibcq->channel));
		__atomic_fetch_sub(&ibcq->channel->refcnt, 1, __ATOMIC_RELAXED);
	}
	pthread_cond_destroy(&ibcq->cond);
	pthread_mutex_destroy(&ibcq->mutex);
	if (cq->domain)
		atomic_fetch_sub(&to_pd(cq->domain)->refs, 1);
	ffl_obj_free(cq, FFL_RES_CQ, cq->mem);
	atomic_fetch_sub(&ctx->objects, 1);
	return 0;
}
