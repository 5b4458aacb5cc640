/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mr.c - an MR at the NIC: its pages in a row, registered at the addresses that the application uses.
 * Control thread, no lock: nobody knows the MR yet, or any more. Large ones the worker pins and unpins.
 *
 * The NIC takes one range of the router's memory. The pages of one run are that already; those of several
 * are mapped once more behind one another. An MR of which some bytes are reached by the application's
 * process only (shadow.h) is none of the NIC's: its WRs fail there as with a wrong key.
 */
#include "ffr/nic/nic.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "ffr/mem/shadow.h"

#define PAGE_MASK ((uint64_t)FF_PAGE - 1)
#define KEY_TRIES 8u /* keys of the NIC that may be taken, one after the other */

/* What the application's flags mean to a NIC. */
static unsigned int access_of(const struct mr *mr)
{
	/* the optional ones (relaxed ordering) are ignored by a NIC that does not know them */
	return mr->access &
	       (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
		IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_OPTIONAL_RANGE);
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

static int map_window(struct nic_mr *nm, const struct mr *mr)
{
	uint64_t from = mr->addr & ~PAGE_MASK;
	int err = 0;

	nm->size = (mr->addr + mr->length - from + PAGE_MASK) & ~PAGE_MASK;
	nm->window =
		mmap(NULL, nm->size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (nm->window == MAP_FAILED) {
		nm->window = NULL;
		return -errno;
	}
	for (uint32_t i = 0; i < mr->num_runs && !err; i++)
		err = map_run(nm->window, from, &mr->run[i]);
	/* pages that the client has not made present are not made by registering them */
	return err ? err : guard_map(nm->window, nm->size);
}

void nic_mr_free(struct nic_lib *lib, struct nic_mr *nm)
{
	if (nm->ib && lib->dereg_mr(nm->ib))
		log_err("NIC: an MR cannot be deregistered: %m");
	if (nm->window)
		munmap(nm->window, nm->size);
	free(nm);
}

/* One that is to be registered: it has its pages in a row, *host. NULL: it has not. */
static struct nic_mr *nic_mr_prepare(struct nic_dev *d, struct mr *mr, uint8_t **host)
{
	struct ibv_pd *pd = nic_pd(d, mr->pd);
	struct nic_mr *nm = pd ? calloc(1, sizeof(*nm)) : NULL;

	if (!nm)
		return NULL;
	nm->length = mr->length;
	*host = shadow_first(mr, mr->addr, mr->length);
	if (!*host && !map_window(nm, mr))
		*host = (uint8_t *)nm->window + (mr->addr & PAGE_MASK);
	if (*host)
		return nm;
	nic_mr_free(&d->lib, nm);
	return NULL;
}

static void tell_refused(const struct mr *mr)
{
	log_client(&mr->o.ses->cont->log, LOG_LEVEL_WARN,
		   "container %s: %llu bytes are not registered with the NIC: %m",
		   mr->o.ses->cont->name, (unsigned long long)mr->length);
}

/* Register it. NULL: the NIC has it not. */
static struct nic_mr *nic_mr_new(struct nic_dev *d, struct mr *mr)
{
	uint8_t *host;
	struct nic_mr *nm = nic_mr_prepare(d, mr, &host);

	if (nm)
		nm->ib =
			d->lib.reg_mr_iova2(mr->pd->nic, host, mr->length, mr->iova, access_of(mr));
	if (nm && nm->ib)
		return nm;
	tell_refused(mr);
	if (nm)
		nic_mr_free(&d->lib, nm);
	return NULL;
}

/* Peers are told the rkey; of an MR that none may reach there may be no such. */
static uint32_t key_of(const struct nic_mr *nm)
{
	return nm->ib->rkey ? nm->ib->rkey : nm->ib->lkey;
}

/*
 * One whose key the container has not yet. Those that it has are kept until then, for the NIC would give them again.
 * NULL: there is none, or too many are taken, which a container with many windows can bring about.
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

static bool is_for_nic(const struct nic_dev *d, const struct mr *mr)
{
	return d->is_there && mr->kind == MR_USER && !mr->odp && mr->zero_copy == mr->length &&
	       mr->num_runs;
}

/* nm: NULL, if the NIC has not taken it. */
static void have(struct mr *mr, struct nic_mr *nm)
{
	mr->backend = nm;
	if (nm)
		mr->lkey = mr->rkey = key_of(nm);
}

int nic_mr_make(struct backend *be, struct mr *mr)
{
	struct nic_dev *d = nic_of(be->f);

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
	struct backend_later *l;
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
}

/* Once more, since its key is taken. False: there were too many, or it cannot be; then r->nm is NULL. */
static bool reg_again(struct reg *r)
{
	r->misfit[r->num_misfits++] = r->nm;
	r->nm = NULL;
	if (r->num_misfits == KEY_TRIES || !r->d->is_there)
		return false;
	r->nm = nic_mr_prepare(r->d, r->mr, &r->host);
	if (r->nm)
		nic_job_give(r->d->worker, &r->job);
	return r->nm;
}

static void reg_back(struct nic_job *job)
{
	struct reg *r = (struct reg *)job;
	struct backend_later *l = r->l;

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

bool nic_mr_make_later(struct backend *be, struct mr *mr, struct backend_later *l)
{
	struct nic_dev *d = nic_of(be->f);
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

/* The end of one. */
struct dereg {
	struct nic_job job;
	struct nic_lib *lib;
	struct nic_mr *nm;
	struct backend_later *l; /* NULL: nobody waits */
};

static void dereg_run(struct nic_job *job)
{
	struct dereg *r = (struct dereg *)job;

	nic_mr_free(r->lib, r->nm);
}

static void dereg_back(struct nic_job *job)
{
	struct dereg *r = (struct dereg *)job;
	struct backend_later *l = r->l;

	free(r);
	if (l)
		l->done(l, 0);
}

bool nic_mr_break_later(struct backend *be, struct mr *mr, struct backend_later *l)
{
	struct nic_dev *d = nic_of(be->f);
	struct nic_mr *nm = mr->backend;
	struct dereg *r = nm && nm->length >= NIC_LONG ? calloc(1, sizeof(*r)) : NULL;

	if (!r)
		return false;
	r->job.run = dereg_run;
	r->job.back = dereg_back;
	r->lib = &d->lib;
	r->nm = nm;
	r->l = l;
	mr->backend = NULL;
	nic_job_give(d->worker, &r->job);
	return true;
}

void nic_mr_break(struct backend *be, struct mr *mr)
{
	/* the pages that it has pinned stay until then, whoever unmaps them */
	if (mr->backend && !nic_mr_break_later(be, mr, NULL))
		nic_mr_free(&nic_of(be->f)->lib, mr->backend);
	mr->backend = NULL;
}

void nic_settle(struct backend *be)
{
	nic_jobs_settle(nic_of(be->f)->worker);
	nic_ucma_settle(nic_of(be->f));
}
