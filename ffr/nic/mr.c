/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr.c - an MR at the NIC: the MR's pages in a row, registered at the addresses that the application uses.
 * Control thread, no lock, because nobody knows the MR yet, or any more. The worker pins and unpins large MRs.
 *
 * The memory is the application's, or device memory. The NIC gets no dma-bufs and no null MRs.
 *
 * The NIC takes one range of the router's memory. The pages of an MR with one run are such a range; the pages of
 * several runs are mapped once more, one behind the other. If only the application's process reaches some bytes of an
 * MR (shadow.h), the NIC does not get the MR, and WRs at the NIC that use the MR fail as with a wrong key.
 *
 * On-demand memory has no runs. A NIC that can page on demand gets pages of ffmem (view.h): those of the application's
 * pages that are shadow pages, which the library makes of all pages that are there at the registration. Where there is
 * no shadow page, the WR or the peer's access fails. When the application changes its mappings, the module takes the
 * pages away from the router, and the kernel tells the NIC's driver. (Without ffmem, the NIC would keep pages that the
 * application has no more.)
 *
 * The kernel's rxe (7.3) ignores the addresses that an on-demand MR is registered for: it counts from where the pages
 * are mapped, and reads beyond its own tables where the two differ. So for rxe the pages are mapped at the
 * application's addresses and stay there. If the router has something else there, the NIC does not get the MR.
 *
 * The kernel's siw takes as an MR's addresses those where the pages are mapped at the registration, and does not look
 * at them later. Peers use the application's addresses. So for siw the pages of an MR that peers may reach are mapped
 * at the application's addresses during the registration. If the router has something else there, the NIC does not get
 * the MR. This shows an application which addresses the router does not use; a process of its own against that is not
 * worth it for siw, which is a NIC for trials. An MR for the application's own WRs has the router's addresses
 * (nic_mr.base).
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ffr/mem/shadow.h"

#define PAGE_MASK  ((uint64_t)FF_PAGE - 1)
#define STACK_ROOM ((uint64_t)1 << 30) /* bytes below the stack that stay free */
#define KEY_TRIES  8u /* registrations to get a key that the container does not use yet */

/* The access flags for the NIC. */
static unsigned int access_of(const struct mr *mr)
{
	/* the optional ones (relaxed ordering) are ignored by a NIC that does not know them */
	return (mr->odp ? IBV_ACCESS_ON_DEMAND : 0u) |
	       (mr->access &
		(IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		 IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE));
}

/* The pages of a run once more, at their place in the window. 0 or -errno. */
static int map_run(uint8_t *window, uint64_t from, const struct mr_run *run)
{
	uint64_t head = run->va & PAGE_MASK, va = run->va - head;
	uint64_t len = (run->va + run->len - va + PAGE_MASK) & ~PAGE_MASK;

	/* a size of 0: the pages stay where they are, too */
	if (mremap(run->host - head, 0, len, MREMAP_MAYMOVE | MREMAP_FIXED, window + (va - from)) ==
	    MAP_FAILED)
		return -errno;
	return 0;
}

/* at: where the window is to be, if nothing is there; NULL: anywhere */
static int map_window(struct nic_mr *nm, const struct mr *mr, void *at)
{
	int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | (at ? MAP_FIXED_NOREPLACE : 0);
	uint64_t from = mr->addr & ~PAGE_MASK;
	int err = 0;

	nm->size = (mr->addr + mr->length - from + PAGE_MASK) & ~PAGE_MASK;
	nm->window = mmap(at, nm->size, PROT_NONE, flags, -1, 0);
	if (nm->window == MAP_FAILED) {
		nm->window = NULL;
		return -errno;
	}
	if (at && nm->window != at) /* an old kernel takes it for a wish */
		return -EEXIST;
	for (uint32_t i = 0; i < mr->num_runs && !err; i++)
		err = map_run(nm->window, from, &mr->run[i]);
	/* pages that the client has not made present are not made by registering them */
	return err ? err : guard_map(nm->window, nm->size);
}

void nic_mr_free(struct nic_lib *lib, struct nic_mr *nm)
{
	bool stays = nm->ib && lib->dereg_mr(nm->ib);

	if (stays)
		log_err("NIC: an MR cannot be deregistered: %m");
	if (nm->window)
		munmap(nm->window, nm->size);
	view_pages_unmap(&nm->pages, stays);
	free(nm);
}

/* Are the pages to be mapped at the addresses that peers are told? */
static bool is_at_home(const struct nic_dev *d, const struct mr *mr)
{
	return d->is_siw && mr->access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ);
}

/* 0 or -errno */
static int map_home(struct nic_mr *nm, const struct mr *mr)
{
	uint64_t home = mr->iova & ~PAGE_MASK;

	if (((mr->iova ^ mr->addr) & PAGE_MASK) || !home)
		return -EINVAL;
	return map_window(nm, mr, (void *)(uintptr_t)home);
}

/* After the registration: siw has the pages, so they need not stay at the application's addresses. */
static void leave_home(const struct nic_dev *d, struct nic_mr *nm)
{
	if (!d->is_siw || !nm->window)
		return;
	munmap(nm->window, nm->size);
	nm->window = NULL;
}

/*
 * Is the range where this thread's stack may grow to? The kernel would let a mapping be made there. This is the control
 * thread, whose stack is the process's; the stacks of other threads are mapped as a whole.
 */
static bool is_near_stack(uint64_t from, uint64_t len)
{
	uint64_t here = (uintptr_t)__builtin_frame_address(0);

	return from < here && from + len + STACK_ROOM > here;
}

/* 0 or -errno */
static int map_pages(const struct nic_dev *d, struct nic_mr *nm, const struct mr *mr)
{
	uint64_t home = mr->iova & ~PAGE_MASK;

	if (!d->is_rxe)
		return view_pages_map(mr, NULL, &nm->pages);
	if (((mr->iova ^ mr->addr) & PAGE_MASK) || !home || is_near_stack(home, mr->length))
		return -EINVAL;
	return view_pages_map(mr, (void *)(uintptr_t)home, &nm->pages);
}

/* The place where the NIC finds the MR's bytes. NULL: there is none; *err is why. */
static uint8_t *place(struct nic_dev *d, struct nic_mr *nm, struct mr *mr, int *err)
{
	uint8_t *host = NULL;

	*err = 0;
	if (mr->odp) {
		*err = map_pages(d, nm, mr);
		return *err ? NULL : nm->pages.base + (mr->addr & PAGE_MASK);
	}
	if (!is_at_home(d, mr))
		host = shadow_first(mr, mr->addr, mr->length);
	if (host)
		return host;
	*err = is_at_home(d, mr) ? map_home(nm, mr) : map_window(nm, mr, NULL);
	return *err ? NULL : (uint8_t *)nm->window + (mr->addr & PAGE_MASK);
}

/* The NIC's part of an MR that is to be registered, with the MR's pages in a row at *host. NULL: errno */
static struct nic_mr *nic_mr_prepare(struct nic_dev *d, struct mr *mr, uint8_t **host)
{
	struct ibv_pd *pd = nic_pd(d, mr->pd);
	struct nic_mr *nm = pd ? calloc(1, sizeof(*nm)) : NULL;
	int err;

	if (!nm)
		return NULL;
	nm->length = mr->length;
	*host = place(d, nm, mr, &err);
	if (*host) {
		nm->base = d->is_siw ? (uintptr_t)*host : mr->iova;
		return nm;
	}
	nic_mr_free(&d->lib, nm);
	errno = -err;
	return NULL;
}

static void tell_refused(const struct mr *mr)
{
	log_client(&mr->o.ses->cont->log, LOG_LEVEL_WARN,
		   "container %s: %llu bytes are not registered with the NIC: %m",
		   mr->o.ses->cont->name, (unsigned long long)mr->length);
}

/* Register the MR. NULL: the NIC did not take it. */
static struct nic_mr *nic_mr_new(struct nic_dev *d, struct mr *mr)
{
	uint8_t *host;
	struct nic_mr *nm = nic_mr_prepare(d, mr, &host);

	if (nm)
		nm->ib =
			d->lib.reg_mr_iova2(mr->pd->nic, host, mr->length, mr->iova, access_of(mr));
	if (nm)
		leave_home(d, nm);
	if (nm && nm->ib)
		return nm;
	tell_refused(mr);
	if (nm)
		nic_mr_free(&d->lib, nm);
	return NULL;
}

/* The MR's key. Peers are told the rkey; an MR that no peer may reach may have none. */
static uint32_t key_of(const struct nic_mr *nm)
{
	return nm->ib->rkey ? nm->ib->rkey : nm->ib->lkey;
}

/*
 * Register the MR with a key that the container does not use yet. Registrations with used keys are kept meanwhile,
 * because the NIC would give the same key again. NULL: the NIC refused, or gave KEY_TRIES used keys, which a container
 * with many memory windows can cause.
 */
static struct nic_mr *nic_mr_fitting(struct nic_dev *d, struct mr *mr)
{
	struct nic_mr *misfit[KEY_TRIES], *nm;
	uint32_t n = 0;

	while ((nm = nic_mr_new(d, mr)) && mr_key_taken(mr->o.ses->cont, key_of(nm))) {
		misfit[n++] = nm;
		nm = NULL;
		if (n == KEY_TRIES)
			break;
	}
	while (n)
		nic_mr_free(&d->lib, misfit[--n]);
	return nm;
}

static uint32_t paged_units(const struct mr *mr)
{
	return 1 + (uint32_t)(mr->length >> NIC_PAGED_SHIFT);
}

/*
 * May the MR's container have the kernel keep so much memory for the MR? If so, the memory counts as the container's
 * until nic_mr_break() (mr_pinned()).
 */
static bool take_paged(struct mr *mr)
{
	struct container *c = mr->o.ses->cont;
	uint64_t cost = mr->length / NIC_PAGED_PART;
	int err = mr->length > NIC_PAGED_MAX || quota_charge(c, QUOTA_REGISTERED, cost);

	if (!err) {
		quota_return(c, QUOTA_REGISTERED, cost);
		err = quota_share_take(c, SHARE_PAGED, paged_units(mr));
	}
	quota_tell(c);
	if (!err)
		mr->paged = cost ? cost : 1;
	return !err;
}

static void return_paged(struct mr *mr)
{
	if (mr->paged)
		quota_share_return(mr->o.ses->cont, SHARE_PAGED, paged_units(mr));
	mr->paged = 0;
}

/*
 * May the NIC get this MR of device memory, whose pages are the router's? The MR's addresses begin with 0, and the
 * kernel wants the same offset in a page for the memory. The control thread registers the MR, without the worker.
 */
static bool is_dm_for_nic(const struct nic_dev *d, const struct mr *mr)
{
	return mr->num_runs && mr->length < NIC_LONG && !is_at_home(d, mr) &&
	       !((uintptr_t)mr->run->host & PAGE_MASK);
}

static bool is_for_nic(const struct nic_dev *d, struct mr *mr)
{
	if (nic_is_up(d) && mr->kind == MR_DM)
		return is_dm_for_nic(d, mr);
	if (!nic_is_up(d) || mr->kind != MR_USER)
		return false;
	if (mr->odp)
		return mr->view && d->odp.general_caps & IBV_ODP_SUPPORT &&
		       (mr->paged || take_paged(mr));
	return mr->zero_copy == mr->length && mr->num_runs;
}

/* nm: NULL, if the NIC has not taken it. */
static void have(struct mr *mr, struct nic_mr *nm)
{
	mr->backend = nm;
	mr->pages_object = nm ? nm->pages.object : 0;
	if (nm)
		mr->lkey = mr->rkey = key_of(nm);
}

int nic_mr_make(struct mr *mr)
{
	struct nic_dev *d = nic_of(mr->o.ses->cont);

	if (is_for_nic(d, mr))
		have(mr, nic_mr_fitting(d, mr));
	return 0;
}

/* ---- by the worker ---------------------------------------------------------------------------------- */

/* A registration. What `run` reads are copies. */
struct reg {
	struct nic_job job;
	struct nic_dev *d;
	struct mr *mr;
	struct carrier_later *l;
	struct ibv_pd *pd;
	struct nic_mr *nm, *misfit[KEY_TRIES];
	uint32_t num_misfits;
	uint8_t *host;
	uint64_t iova;
	unsigned int access;
	int err;
};

static void reg_run(struct nic_job *job)
{
	struct reg *r = (struct reg *)job;

	r->nm->ib = r->d->lib.reg_mr_iova2(r->pd, r->host, r->nm->length, r->iova, r->access);
	r->err = errno;
	leave_home(r->d, r->nm);
}

/* Register the MR once more, because its key is taken. False: it cannot be done, and r->nm is NULL. */
static bool reg_again(struct reg *r)
{
	r->misfit[r->num_misfits++] = r->nm;
	r->nm = NULL;
	if (r->num_misfits == KEY_TRIES || !nic_is_up(r->d))
		return false;
	r->nm = nic_mr_prepare(r->d, r->mr, &r->host);
	if (r->nm)
		nic_job_give(r->d->worker, &r->job);
	return r->nm;
}

static void reg_back(struct nic_job *job)
{
	struct reg *r = (struct reg *)job;
	struct carrier_later *l = r->l;

	if (!r->nm->ib) {
		errno = r->err;
		tell_refused(r->mr);
		nic_mr_free(&r->d->lib, r->nm);
		r->nm = NULL;
	} else if (mr_key_taken(r->mr->o.ses->cont, key_of(r->nm)) && reg_again(r)) {
		return;
	}
	have(r->mr, r->nm);
	while (r->num_misfits)
		nic_mr_free(&r->d->lib, r->misfit[--r->num_misfits]);
	free(r);
	l->done(l, 0);
}

bool nic_mr_make_later(struct mr *mr, struct carrier_later *l)
{
	struct nic_dev *d = nic_of(mr->o.ses->cont);
	struct reg *r;

	if (mr->length < NIC_LONG || !is_for_nic(d, mr))
		return false;
	r = calloc(1, sizeof(*r));
	if (!r)
		return false;
	r->nm = nic_mr_prepare(d, mr, &r->host);
	if (!r->nm) {
		free(r);
		return false;
	}
	r->job.run = reg_run;
	r->job.back = reg_back;
	r->d = d;
	r->mr = mr;
	r->l = l;
	r->pd = mr->pd->nic;
	r->iova = mr->iova;
	r->access = access_of(mr);
	nic_job_give(d->worker, &r->job);
	return true;
}

/* The end of a registration. */
struct dereg {
	struct nic_job job;
	struct nic_lib *lib;
	struct nic_mr *nm;
	struct carrier_later *l; /* NULL: nobody waits */
};

static void dereg_run(struct nic_job *job)
{
	struct dereg *r = (struct dereg *)job;

	nic_mr_free(r->lib, r->nm);
}

static void dereg_back(struct nic_job *job)
{
	struct dereg *r = (struct dereg *)job;
	struct carrier_later *l = r->l;

	free(r);
	if (l)
		l->done(l, 0);
}

bool nic_mr_break_later(struct mr *mr, struct carrier_later *l)
{
	struct nic_dev *d = nic_of(mr->o.ses->cont);
	struct nic_mr *nm = mr->backend;
	struct dereg *r = nm && nm->length >= NIC_LONG ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return false;
	r->job.run = dereg_run;
	r->job.back = dereg_back;
	r->lib = &d->lib;
	r->nm = nm;
	r->l = l;
	view_pages_end(&nm->pages); /* the session may go before the worker has come to it */
	mr->backend = NULL;
	mr->pages_object = 0;
	nic_job_give(d->worker, &r->job);
	return true;
}

void nic_mr_break(struct mr *mr)
{
	/* pinned pages stay until the NIC has let go of them, even if somebody unmaps them */
	if (mr->backend && !nic_mr_break_later(mr, NULL))
		nic_mr_free(&nic_of(mr->o.ses->cont)->lib, mr->backend);
	mr->backend = NULL;
	mr->pages_object = 0;
	return_paged(mr);
}

/* The NIC makes pages present if it can. Advice has no result, so nobody looks at the answer. */
void nic_mr_advise(struct mr *mr, const struct ff_advise_mr_req *req)
{
	const struct nic_dev *d = nic_of(mr->o.ses->cont);
	struct verbs_context *v = nic_is_up(d) ? verbs_get_ctx_op(d->ctx, advise_mr) : NULL;
	const struct nic_mr *nm = mr->backend;
	struct ibv_sge sge;

	if (!nm || !v)
		return;
	sge = (struct ibv_sge){ nm->base + (req->addr - mr->iova), req->length, nm->ib->lkey };
	v->advise_mr(mr->pd->nic, req->advice, 0, &sge, 1);
}
