/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr.c - memory regions: the verbs. Any thread of the program.
 *
 * Registering is: check the flags and the range as the kernel does; have apply.c make the pages
 * ready; tell the router. Deregistering tells the router, and nothing else: replaced
 * pages stay where they are. Of on-demand memory it is told by a word in shared memory, which it
 * looks at before each copy.
 *
 * Of on-demand memory nothing is made ready: the router finds at each access what this process has
 * mapped there. So there need be nothing there, and advice is to have the process's own pages
 * come. A NIC has of it what are shadow pages, of which the router is told nothing either: where
 * there is one, what can be replaced is, when it is registered.
 */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ffr/abi/ff_verbs.h"
#include "ffl/session/mm.h"
#include "ffl/mem/region.h"
#include "ffl/mem/track.h"

/* macros of <infiniband/verbs.h> in the way of the functions */
#undef ibv_reg_mr
#undef ibv_reg_mr_iova

/* Access bits that programs with newer headers may give; IBV_ACCESS_OPTIONAL_* are hints. */
#define ACCESS_OPTIONAL 0x3ff00000
#define ACCESS_LATER	FF_ACCESS_FLUSH_PERSISTENT
#define ACCESS_REAL                                                                                \
	(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |               \
	 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_MW_BIND | IBV_ACCESS_ON_DEMAND |                    \
	 FF_ACCESS_FLUSH_GLOBAL)
#define ACCESS_KNOWN (ACCESS_REAL | IBV_ACCESS_ZERO_BASED | IBV_ACCESS_HUGETLB)

/* How often a deregistration is tried that meets a copy: 2 s. */
#define COPY_TRIES    2000u
#define COPY_YIELDS   20u
#define COPY_PAUSE_NS 1000000
/* How often a registration is tried while other threads change mappings that are tracked. */
#define TRACK_TRIES 1000u

static struct ffl_mr *to_mr(struct ibv_mr *mr)
{
	return container_of_(mr, struct ffl_mr, ibv);
}

int ffl_mr_context_init(struct ffl_context *ctx)
{
	int err = ffl_fork_init();

	if (err)
		return err;
	ffl_kind_init(ctx);
	ffl_regions_add(ctx);
	return 0;
}

void ffl_mr_context_fini(struct ffl_context *ctx)
{
	if (!ctx->has_regions || (ctx->pid && ctx->pid != getpid()))
		return;
	ffl_heat_stop(ctx);
	ffl_regions_lock();
	if (ctx->pid) /* else the parent's: all was forgotten when this process was forked */
		ffl_malloc_forget(ctx);
	ffl_regions_remove(ctx);
	ffl_regions_unlock();
}

/* As the kernel's ib_check_mr_access(): 0, -EINVAL, or -EOPNOTSUPP for what the device lacks. */
static int check_access(int access)
{
	access &= ~ACCESS_OPTIONAL;
	if ((unsigned int)access & ~(ACCESS_KNOWN | ACCESS_LATER))
		return -EINVAL;
	if ((access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) &&
	    !(access & IBV_ACCESS_LOCAL_WRITE))
		return -EINVAL;
	return (unsigned int)access & ACCESS_LATER ? -EOPNOTSUPP : 0;
}

/*
 * All of the address space is what a device with implicit ODP takes, but for huge pages. Else as
 * the kernel's ib_umem_get(), and ib_umem_odp_get() for on-demand memory. 0 or -errno.
 */
static int check_range(uintptr_t addr, size_t length, uint64_t iova, int access)
{
	bool odp = access & IBV_ACCESS_ON_DEMAND;
	uintptr_t end;

	if (odp && !addr && length == SIZE_MAX)
		return iova || access & IBV_ACCESS_HUGETLB ? -EINVAL : 0;
	if (odp && (!length || __builtin_add_overflow(addr, length, &end) || PAGE_UP(end) < end))
		return -EOVERFLOW;

	if (!length || __builtin_add_overflow(addr, length, &end) || PAGE_UP(end) < end)
		return -EINVAL;
	return 0;
}

/*
 * The pages of MRs, for who may not wait for a lock. For those that find no place, everything counts as
 * an MR's. `to` is 0 in a place that is free, and TAKEN in one that is being filled.
 */
#define KNOWN	    4096u
#define KNOWN_TRIES 8u
#define PLACELESS   (KNOWN + 1)
#define TAKEN	    1u
static struct {
	_Atomic uintptr_t from, to;
} known[KNOWN];
static _Atomic uint32_t known_next, num_placeless;

/* A number for known_del(). */
static uint32_t known_add(uintptr_t addr, size_t length)
{
	for (unsigned i = 0; i < KNOWN_TRIES; i++) {
		uint32_t at = atomic_fetch_add(&known_next, 1) % KNOWN;
		uintptr_t none = 0;

		if (!atomic_compare_exchange_strong(&known[at].to, &none, TAKEN))
			continue;
		atomic_store(&known[at].from, PAGE_DOWN(addr));
		atomic_store(&known[at].to, PAGE_UP(addr + length));
		return at + 1;
	}
	atomic_fetch_add(&num_placeless, 1);
	return PLACELESS;
}

static void known_del(uint32_t number)
{
	if (number == PLACELESS)
		atomic_fetch_sub(&num_placeless, 1);
	else if (number)
		atomic_store(&known[number - 1].to, 0);
}

bool ffl_mr_covers(uintptr_t from, uintptr_t to)
{
	bool found = atomic_load(&num_placeless);

	for (unsigned i = 0; i < KNOWN && !found; i++)
		found = atomic_load(&known[i].to) > from && atomic_load(&known[i].from) < to;
	return found;
}

/* Where one registration's claims are collected; region lock. */
static struct ff_mr_run scratch[FF_MR_MAX_RUNS];

/*
 * What an MR has of this process's memory, as the router was told.
 */
struct hold {
	struct ff_mr_run *run; /* for free() */
	unsigned num;
	struct ffl_lazy *lazy; /* NULL: all that can be claimed is */
	enum ff_why why;       /* most of what has no run is copied for this */
};

/* Region lock. Claim the range, and have the rest replaced when it is used. Runs or -errno. */
static int claim_lazy(struct ffl_context *ctx, uintptr_t addr, size_t length, int access,
		      struct hold *h)
{
	enum ffl_when when = ffl_heat_when(ctx, length, access);
	struct ffl_lazy l = { .from = PAGE_UP(addr),
			      .to = PAGE_DOWN(addr + length),
			      .closed = ffl_track_closed() };
	uint64_t later;
	int num = ffl_apply_mr(ctx, addr, length, access, when, &h->why, &later, scratch);

	if (later && later >= (l.to - l.from) / 2 && ffl_heat_start(ctx))
		h->lazy = malloc(sizeof(*h->lazy));
	if (h->lazy)
		*h->lazy = l;
	else if (later)
		num = ffl_apply_mr(ctx, addr, length, access, FFL_NOW, &h->why, &later, scratch);
	return num;
}

/* Claim the range. 0, and the router has to be told of it, or -errno. */
static int claim(struct ffl_context *ctx, uintptr_t addr, size_t length, int access, struct hold *h)
{
	int num;

	*h = (struct hold){ 0 };
	if (access & IBV_ACCESS_ON_DEMAND && (!ctx->has_nic || length == SIZE_MAX)) {
		atomic_fetch_add(&ffl_untold, 1);
		return 0;
	}
	ffl_regions_lock();
	if (ffl_heat_when(ctx, length, access) != FFL_LATER)
		ffl_heat_replace(PAGE_DOWN(addr), PAGE_UP(addr + length));
	num = claim_lazy(ctx, addr, length, access, h);
	if (num > 0) {
		h->run = malloc((size_t)num * sizeof(*h->run));
		if (h->run) {
			h->num = (unsigned)num;
			memcpy(h->run, scratch, (size_t)num * sizeof(*h->run));
		} else {
			free(h->lazy);
			num = -ENOMEM;
		}
	}
	if (num >= 0)
		atomic_fetch_add(&ffl_untold, 1);
	ffl_regions_unlock();
	return num < 0 ? num : 0;
}

static void mr_set_hold(struct ffl_mr *mr, const struct hold *h)
{
	mr->run = h->run;
	mr->num_runs = h->num;
	mr->lazy = h->lazy;
	if (mr->lazy)
		mr->lazy->mr = mr;
}

/* What of it the router is told. */
static unsigned told(const struct hold *h, int access)
{
	return access & IBV_ACCESS_ON_DEMAND ? 0 : h->num;
}

/* For who wants to know which memory is copied, and why. On-demand memory always is. */
static void say(const struct ffl_mr *mr, enum ff_why why)
{
	unsigned long long copied = mr->ibv.length - mr->zero_copy;

	if (copied && !(mr->access & IBV_ACCESS_ON_DEMAND))
		ffl_log(FFL_INFO, "MR %p, %zu bytes: %llu are copied: %s", mr->ibv.addr,
			mr->ibv.length, copied, ffl_plan_why_text(why));
	else
		ffl_log(FFL_DEBUG, "MR %p, %zu bytes: none are copied", mr->ibv.addr,
			mr->ibv.length);
}

/* What the router is told of the access. */
static uint32_t told_access(const struct hold *h, int access)
{
	return (uint32_t)(access & ACCESS_REAL) | (h->lazy ? FF_ACCESS_TRACK : 0) |
	       (access & IBV_ACCESS_ON_DEMAND ? 0 : FF_ACCESS_WHY(h->why));
}

/* REG_MR or REREG_MR. 0 or -errno. */
static int call_reg(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t len,
		    const struct hold *h, int access, void *resp, size_t resp_len)
{
	int err = -EAGAIN;

	for (unsigned i = 0; err == -EAGAIN && i < TRACK_TRIES; i++) {
		do
			err = ffl_call(ctx, type, req, len, h->run, sizeof(*h->run),
				       told(h, access), resp, resp_len, NULL, 0, NULL);
		while (ffl_map_again(err));
		if (err == -EAGAIN)
			sched_yield();
	}
	return err;
}

static struct ibv_mr *reg_mr(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova,
			     int access)
{
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct ff_reg_mr_req req;
	struct ff_reg_mr_resp resp;
	struct ffl_mr *mr;
	struct hold hold;
	int err;

	if (access & IBV_ACCESS_ZERO_BASED)
		iova = 0;
	err = ctx->pid != getpid() ? -EIO : check_access(access);
	if (!err)
		err = check_range((uintptr_t)addr, length, iova, access);
	if (err)
		return ffl_err_ptr(-err);
	mr = calloc(1, sizeof(*mr));
	if (!mr)
		return ffl_err_ptr(ENOMEM);
	mr->known = known_add((uintptr_t)addr, length);
	err = claim(ctx, (uintptr_t)addr, length, access, &hold);
	if (err)
		goto err_free;
	req = (struct ff_reg_mr_req){
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.pd = to_pd(pd)->handle,
		.access = told_access(&hold, access),
	};
	err = call_reg(ctx, FF_MSG_REG_MR, &req, sizeof(req), &hold, access, &resp, sizeof(resp));
	atomic_fetch_sub(&ffl_untold, 1);
	if (err)
		goto err_drop;
	mr->ibv = (struct ibv_mr){
		.context = pd->context,
		.pd = pd,
		.addr = addr,
		.length = length,
		.handle = resp.mr,
		.lkey = resp.lkey,
		.rkey = resp.rkey,
	};
	mr->ctx = ctx;
	mr->iova = iova;
	mr->access = access;
	mr->zero_copy = resp.zero_copy;
	mr_set_hold(mr, &hold);
	ffl_heat_add(mr->lazy, resp.tracked);
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	say(mr, hold.why);
	return &mr->ibv;

err_drop: /* the pages stay what they are */
	free(hold.lazy);
	free(hold.run);
err_free:
	known_del(mr->known);
	free(mr);
	return ffl_err_ptr(-err);
}

FFL_EXPORT struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access)
{
	return reg_mr(pd, addr, length, (uintptr_t)addr, access);
}

FFL_EXPORT struct ibv_mr *ibv_reg_mr_iova(struct ibv_pd *pd, void *addr, size_t length,
					  uint64_t iova, int access)
{
	return reg_mr(pd, addr, length, iova, access);
}

/* What the macros call when optional access bits may be set, which programs do not count on. */
FFL_EXPORT struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length,
					   uint64_t iova, unsigned int access)
{
	return reg_mr(pd, addr, length, iova, (int)access);
}

/* WRs that were posted before find the MR as it is (session/posted.c). */
static void wait_for_posted(const struct ffl_mr *mr)
{
	ffl_posted_wait(mr->ctx, &(struct ffl_going){ .kind = FFL_GOING_MR, .key = mr->ibv.lkey });
}

/*
 * Returns 0 or, unlike other verbs, one of enum ibv_rereg_mr_err_code with errno set. When it
 * fails, the MR is as it was.
 */
FFL_EXPORT int ibv_rereg_mr(struct ibv_mr *ibv, int flags, struct ibv_pd *pd, void *addr,
			    size_t length, int access)
{
	struct ffl_mr *mr = to_mr(ibv);
	struct ffl_context *ctx = mr->ctx;
	struct ff_rereg_mr_req req;
	struct ff_rereg_mr_resp resp;
	uint64_t iova = mr->iova;
	struct hold new;
	uint32_t place;
	int err;

	if (mr->imported || mr->foreign || !flags ||
	    (flags & ~(IBV_REREG_MR_CHANGE_TRANSLATION | IBV_REREG_MR_CHANGE_PD |
		       IBV_REREG_MR_CHANGE_ACCESS)))
		goto err_input;
	if (!(flags & IBV_REREG_MR_CHANGE_PD))
		pd = ibv->pd;
	else if (!pd || to_pd(pd)->ctx != ctx)
		goto err_input;
	if (!(flags & IBV_REREG_MR_CHANGE_ACCESS)) {
		if (access)
			goto err_input;
		access = mr->access;
	}
	if (flags & IBV_REREG_MR_CHANGE_TRANSLATION) {
		if ((!addr && !(access & IBV_ACCESS_ON_DEMAND)) || !length)
			goto err_input;
		iova = access & IBV_ACCESS_ZERO_BASED ? 0 : (uintptr_t)addr;
	} else {
		addr = ibv->addr;
		length = ibv->length;
	}
	err = ctx->pid != getpid() ? -EIO : check_access(access);
	if (!err)
		err = check_range((uintptr_t)addr, length, iova, access);
	if (err) {
		errno = -err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	/*
	 * Other access rights may want another mapping, so that this, too, is a new translation,
	 * of the same range. What both ranges have in common is claimed twice for a moment.
	 */
	place = known_add((uintptr_t)addr, length);
	err = claim(ctx, (uintptr_t)addr, length, access, &new);
	if (err) {
		known_del(place);
		errno = -err;
		return IBV_REREG_MR_ERR_INPUT;
	}
	req = (struct ff_rereg_mr_req){
		.addr = (uintptr_t)addr,
		.length = length,
		.iova = iova,
		.mr = ibv->handle,
		.flags = (uint32_t)flags | IBV_REREG_MR_CHANGE_TRANSLATION,
		.pd = to_pd(pd)->handle,
		.access = told_access(&new, access),
	};
	wait_for_posted(mr);
	ffl_heat_remove(mr->lazy);
	err = call_reg(ctx, FF_MSG_REREG_MR, &req, sizeof(req), &new, access, &resp, sizeof(resp));
	atomic_fetch_sub(&ffl_untold, 1);
	if (err) {
		ffl_heat_add(mr->lazy, true);
		known_del(place);
		free(new.lazy);
		free(new.run);
		errno = -err;
		return IBV_REREG_MR_ERR_CMD;
	}
	ffl_heat_leave(mr->lazy);
	free(mr->run);
	known_del(mr->known);
	mr->known = place;
	atomic_fetch_sub(&to_pd(ibv->pd)->refs, 1);
	atomic_fetch_add(&to_pd(pd)->refs, 1);
	ibv->pd = pd;
	ibv->addr = addr;
	ibv->length = length;
	ibv->lkey = resp.lkey;
	ibv->rkey = resp.rkey;
	mr->iova = iova;
	mr->access = access;
	mr->zero_copy = resp.zero_copy;
	mr_set_hold(mr, &new);
	ffl_heat_add(mr->lazy, false);
	say(mr, new.why);
	return 0;

err_input:
	errno = EINVAL;
	return IBV_REREG_MR_ERR_INPUT;
}

void ffl_mr_forget(struct ffl_mr *mr)
{
	ffl_heat_remove(mr->lazy);
	free(mr->lazy);
	free(mr->run);
	known_del(mr->known);
	atomic_fetch_sub(&to_pd(mr->ibv.pd)->refs, 1);
	free(mr);
}

/*
 * The router is in the middle of a copy, which takes some microseconds. False: it has had its
 * time.
 */
static bool waited_for_copy(unsigned *tries)
{
	const struct timespec pause = { .tv_nsec = COPY_PAUSE_NS };

	if (++*tries < COPY_YIELDS)
		sched_yield();
	else
		nanosleep(&pause, NULL);
	return *tries < COPY_TRIES;
}

static bool free_place(struct ff_leaving *l, uint32_t h, unsigned *at)
{
	for (*at = 0; *at < FF_LEAVING; ++*at) {
		uint32_t none = 0;

		if (!atomic_load_explicit(&l->mr[*at], memory_order_relaxed) &&
		    atomic_compare_exchange_strong(&l->mr[*at], &none, h))
			return true;
	}
	return false;
}

/*
 * On-demand memory, of which the router has no mapping, leaves without a call while no copy of
 * any is under way (struct ff_leaving). Not where windows may be bound to it, which the router
 * has to be asked, or where a NIC may have it. True: it has left.
 */
static bool leaves(const struct ffl_mr *mr)
{
	struct ff_leaving *l = &mr->ctx->hdr->leaving;
	uint32_t h = mr->ibv.handle;
	unsigned at;

	if (!(mr->access & IBV_ACCESS_ON_DEMAND) || mr->access & IBV_ACCESS_MW_BIND ||
	    mr->ctx->has_nic || mr->imported || mr->foreign || mr->ctx->pid != getpid() ||
	    atomic_load_explicit(&mr->ctx->dead, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&l->busy, memory_order_relaxed) || !free_place(l, h, &at))
		return false;
	/* the handle before the look at busy: pairs with the router's count before its own look */
	atomic_thread_fence(memory_order_seq_cst);
	return !atomic_load(&l->busy) || !atomic_compare_exchange_strong(&l->mr[at], &h, 0);
}

FFL_EXPORT int ibv_dereg_mr(struct ibv_mr *ibv)
{
	struct ffl_mr *mr = to_mr(ibv);
	struct ffl_context *ctx = mr->ctx;
	struct ff_dereg_mr_req req = { .mr = ibv->handle, .imported = mr->imported };
	struct ff_dereg_mr_resp resp;
	unsigned tries = 0;
	int err;

	wait_for_posted(mr);
	ffl_heat_remove(mr->lazy);
	if (leaves(mr)) {
		ffl_mr_forget(mr);
		return 0;
	}
	do
		err = ctx->pid != getpid() ? -EIO : FFL_CALL(ctx, DEREG_MR, &req, &resp);
	while (err == -EAGAIN && waited_for_copy(&tries));
	if (err == -EAGAIN) /* memory that does not answer: the program's own doing */
		err = 0;
	/* of a router that is gone, and in a child, the MR is gone, too */
	if (err && err != -EIO) {
		ffl_heat_add(mr->lazy, true);
		return ffl_ret(err);
	}
	ffl_heat_leave(mr->lazy);
	mr->lazy = NULL;
	ffl_mr_forget(mr);
	return 0;
}

/* ---- advice ------------------------------------------------------------------------------ */

/* Have the program's own entries present. 0 or -EFAULT; before Linux 5.14 they come when used. */
static int populate(uintptr_t addr, size_t length, bool write)
{
	uintptr_t from = PAGE_DOWN(addr);

	if (!length || !mm_advise((void *)from, PAGE_UP(addr + length) - from,
				  write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ))
		return 0;
	return errno == EINVAL ? 0 : -EFAULT;
}

/*
 * On-demand memory: the pages come here, and the router counts them. Without
 * IBV_ADVISE_MR_FLAG_FLUSH nobody is told of those that do not.
 */
static int prefetch(struct ffl_context *ctx, struct ff_advise_mr_req *req, uintptr_t va)
{
	bool write = req->advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE;
	uint64_t from = ffl_clock_ns(CLOCK_MONOTONIC);
	struct ff_advise_mr_resp resp;
	int err = populate(va, req->length, write);

	if (!err && req->length) {
		req->done_pages = (uint32_t)((PAGE_UP(va + req->length) - PAGE_DOWN(va)) / FF_PAGE);
		req->done_ns = ffl_clock_ns(CLOCK_MONOTONIC) - from;
		FFL_CALL(ctx, ADVISE_MR, req, &resp); /* only to be counted */
	}
	return req->flags & IBV_ADVISE_MR_FLAG_FLUSH ? err : 0;
}

static int advise_sge(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		      const struct ibv_sge *sg)
{
	struct ff_advise_mr_req req = { .addr = sg->addr,
					.length = sg->length,
					.lkey = sg->lkey,
					.pd = to_pd(pd)->handle,
					.advice = advice,
					.flags = flags };
	struct ffl_context *ctx = to_pd(pd)->ctx;
	struct ff_advise_mr_resp resp;
	uint64_t va;
	int err = FFL_CALL(ctx, ADVISE_MR, &req, &resp);

	va = resp.va;
	if (err || !va || advice == IBV_ADVISE_MR_ADVICE_PREFETCH_NO_FAULT)
		return err;
	if (resp.on_demand)
		return prefetch(ctx, &req, va);
	while (!err && req.length > FF_PREFETCH_MAX) {
		req.addr += FF_PREFETCH_MAX;
		req.length -= FF_PREFETCH_MAX;
		err = FFL_CALL(ctx, ADVISE_MR, &req, &resp);
	}
	return err ? err : populate(va, sg->length, advice == IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE);
}

/*
 * The router checks each part and prepares its side. Nothing goes on when this returns, with or
 * without IBV_ADVISE_MR_FLAG_FLUSH. Parts before the one that is wrong have been served.
 */
int ffl_advise_mr(struct ibv_pd *pd, enum ibv_advise_mr_advice advice, uint32_t flags,
		  struct ibv_sge *sg, uint32_t num_sge)
{
	if (!num_sge || !sg)
		return ffl_ret(-EINVAL);
	for (uint32_t i = 0; i < num_sge; i++) {
		int err = advise_sge(pd, advice, flags, &sg[i]);

		if (err)
			return ffl_ret(err);
	}
	return 0;
}
