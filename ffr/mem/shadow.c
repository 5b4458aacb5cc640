/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shadow.c - which pages of an application the router can reach by a pointer. shadow_map() and
 * shadow_unmap(): control thread; shadow_translate(): runners.
 *
 * A client claims two kinds of runs. Of shadow memory it names pages of its own file (pages.c);
 * which of them it says are where in its memory is its own affair, so bounds are all there is to
 * check. Of a shared mapping it names its address, and the router looks into the process, maps
 * the same file and keeps it mapped for as long as the MR lives, as pinned pages would be.
 *
 * The latter must not give a client anything that it does not have: which mappings there are its
 * own /proc/self/maps tells, and the keeper asks them and opens the files (keeper/look.c).
 * Whatever fails leaves the run to pvm.c, which is always right; so does a kernel that cannot be
 * asked (before Linux 6.11).
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>
#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "ffr/abi/ff_vma.h"
#include "ffr/keeper/keeper.h"
#include "ffr/mem/shadow.h"
#include "ffr/mem/stall.h"
#include "ffr/mem/track.h"
#include "ffr/mem/watch.h"

/* Runs of an MR beyond the claims: shared ones may consist of several mappings. */
#define EXTRA_RUNS FF_MR_MAX_RUNS
/* Runs that MAP_MR may bring an MR to. */
#define MORE_RUNS (2 * FF_MR_MAX_RUNS)

/* Bytes of files that one call looks at for holes, and makes present. */
#define LOOK_MAX (4ull << 20)

#define ACCESS_WRITES (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_READ  22
#define MADV_POPULATE_WRITE 23
#endif

/* Part of an application's file, mapped here; shared by MRs that name the same part. */
struct foreign_key {
	const struct session *ses;
	uint64_t inode, offset, len;
	uint32_t dev_major, dev_minor;
	uint64_t writable;
};

struct foreign {
	UT_hash_handle hh;
	struct foreign_key key;
	uint8_t *map; /* map_len bytes; what was asked for lies `lead` bytes inside */
	uint64_t map_len, lead;
	uint32_t refs; /* runs */
	int watch;     /* sigbus.c's number */
};

static struct foreign *foreigns; /* hash by key */

static uint64_t page_down(uint64_t x)
{
	return x & ~(uint64_t)(FF_PAGE - 1);
}

/* ---- files of the application ------------------------------------------------------------ */

/* What is known about the process while one MR's shared runs are looked at. */
struct peer {
	struct session *ses;
	bool writes;	   /* the MR may be written to */
	uint32_t max_runs; /* of the MR */
	uint64_t look;	   /* bytes that may still be looked at for holes */
	const int *found;  /* the keeper's socket; NULL: nothing more comes */
	struct keeper_found next;
	int next_fd; /* -1: keeper_found() is to be asked */
};

/*
 * Are the mapping's first bytes there, as many as may be looked at? The library has the program
 * touch all of them, so it is only somebody else whose session ends when a hole is met later.
 */
static bool is_there(struct peer *peer, const struct foreign *g)
{
	uint64_t n = g->key.len < peer->look ? g->key.len : peer->look;

	peer->look -= n;
	return !n || !madvise(g->map, page_down(g->lead + n - 1) + FF_PAGE,
			      g->key.writable ? MADV_POPULATE_WRITE : MADV_POPULATE_READ);
}

/*
 * Map bytes [key->offset, + len) of the file. Huge pages can only be mapped as a whole. Parts
 * that the application never touched are left to it: pages are charged to who touches them first.
 */
static struct foreign *foreign_map(struct peer *peer, const struct foreign_key *key, int fd,
				   uint64_t page_size)
{
	uint64_t from = key->offset & ~(page_size - 1);
	uint64_t to = (key->offset + key->len + page_size - 1) & ~(page_size - 1);
	struct foreign *g = calloc(1, sizeof(*g));

	if (!g)
		return NULL;
	g->key = *key;
	g->lead = key->offset - from;
	g->map_len = to - from;
	/* no reserve: of huge pages none are set aside for the router */
	g->map = mmap(NULL, g->map_len, PROT_READ | (key->writable ? PROT_WRITE : 0),
		      MAP_SHARED | MAP_NORESERVE, fd, (off_t)from);
	if (g->map == MAP_FAILED)
		goto err_free;
	if (guard_map(g->map, g->map_len))
		goto err_unmap;
	/* whoever can write to the file can cut it off: it is watched from the first access on */
	g->watch = sigbus_watch(g->map, g->map_len, page_size, (struct session *)key->ses);
	if (g->watch < 0)
		goto err_unmap;
	if (is_there(peer, g))
		return g;
	sigbus_unwatch(g->watch);
err_unmap:
	munmap(g->map, g->map_len);
err_free:
	free(g);
	return NULL;
}

/*
 * The part [va, va + len) of mapping v, which is of file fd, mapped here, with one more
 * reference. NULL: it cannot be mapped.
 */
static struct foreign *foreign_get(struct peer *peer, const struct ff_vma *v, int fd, uint64_t va,
				   uint64_t len)
{
	struct foreign_key key;
	struct stall_wait w;
	struct foreign *g;

	memset(&key, 0, sizeof(key)); /* hashed as bytes */
	key.ses = peer->ses;
	key.inode = v->inode;
	key.offset = v->offset + (va - v->start);
	key.len = len;
	key.dev_major = v->dev_major;
	key.dev_minor = v->dev_minor;
	key.writable = peer->writes;
	HASH_FIND(hh, foreigns, &key, sizeof(key), g);
	if (g) { /* the session has this file mapped; while it does, its inode is no other's */
		g->refs++;
		return g;
	}
	if (peer->ses->mem.num_foreign >= MAX_FOREIGN || stall_maps_no_file(peer->ses->cont))
		return NULL;
	stall_wait_begin(&w);
	g = foreign_map(peer, &key, fd, v->page_size > FF_PAGE ? v->page_size : FF_PAGE);
	stall_wait_end(peer->ses->cont, &w);
	if (!g)
		return NULL;
	g->refs = 1;
	HASH_ADD(hh, foreigns, key, sizeof(g->key), g);
	if (!g->hh.tbl) {
		sigbus_unwatch(g->watch);
		munmap(g->map, g->map_len);
		free(g);
		return NULL;
	}
	peer->ses->mem.num_foreign++;
	return g;
}

static void foreign_put(struct foreign *g)
{
	struct session *s = (struct session *)g->key.ses;

	if (--g->refs)
		return;
	HASH_DELETE(hh, foreigns, g);
	s->mem.num_foreign--;
	sigbus_unwatch(g->watch);
	unmap_later(s, g->map, g->map_len, -1);
	free(g);
}

/* ---- claims ------------------------------------------------------------------------------ */

/* Is the claim well formed, behind `prev_end`, and on pages of the MR? */
static bool claim_valid(const struct mr *mr, const struct ff_mr_run *c, uint64_t prev_end)
{
	uint64_t lo = page_down(mr->addr), hi = page_down(mr->addr + mr->length - 1) + FF_PAGE;
	uint64_t end;

	if (!c->len || (c->va | c->len) % FF_PAGE || __builtin_add_overflow(c->va, c->len, &end))
		return false;
	if (c->va < lo || c->va < prev_end || end > hi)
		return false;
	if (c->kind == FF_RUN_SHARED)
		return true;
	return c->kind == FF_RUN_SHADOW && !(c->off % FF_PAGE);
}

static bool claims_valid(const struct mr *mr, const struct ff_mr_run *claim, uint32_t n)
{
	uint64_t end = 0;

	/* the last page's end must not wrap */
	if (!mr->length || mr->addr + mr->length - 1 < mr->addr ||
	    mr->addr + mr->length - 1 >= page_down(UINT64_MAX))
		return false;
	for (uint32_t i = 0; i < n; i++) {
		if (!claim_valid(mr, &claim[i], end))
			return false;
		end = claim[i].va + claim[i].len;
	}
	return true;
}

/* Bytes of the run that are the MR's. */
static uint64_t run_bytes(const struct mr *mr, const struct mr_run *r)
{
	uint64_t from = r->va > mr->addr ? r->va : mr->addr, to = mr->addr + mr->length;

	return (r->va + r->len < to ? r->va + r->len : to) - from;
}

static void run_add(struct mr *mr, const struct mr_run *r)
{
	mr->run[mr->num_runs++] = *r;
	mr->zero_copy += run_bytes(mr, r);
}

/*
 * A claim on shadow pages; `now`: some of the router's entries are made at once. False: the
 * region has none to give at the moment, or they are not there, and the run is left to pvm.c.
 */
static bool run_shadow(struct session *s, const struct ff_mr_run *c, bool now, struct mr_run *r)
{
	*r = (struct mr_run){ .va = c->va, .len = c->len };
	if (stall_maps_no_file(s->cont))
		return false;
	r->region = pages_get(s, c->off, c->len, &r->host);
	if (!r->region)
		return false;
	if (!populate(s, r->region, c->off % FF_PAGES_STRIDE, c->len, now))
		return true;
	pages_put(s, r->region);
	return false;
}

/* The next file that the keeper has found before address `end`: peer->next and next_fd. */
static bool next_found(struct peer *peer, uint64_t end)
{
	if (peer->next_fd < 0 && peer->found) {
		peer->next_fd = keeper_found(*peer->found, &peer->next);
		if (peer->next_fd < 0)
			peer->found = NULL;
	}
	return peer->next_fd >= 0 && peer->next.start < end;
}

static void found_done(struct peer *peer)
{
	if (peer->next_fd >= 0)
		close(peer->next_fd);
	peer->next_fd = -1;
}

/* Map what was found of a claim on shared mappings; the rest is pvm.c's. */
static void map_shared(struct mr *mr, struct peer *peer, uint64_t va, uint64_t end)
{
	for (; mr->num_runs < peer->max_runs && next_found(peer, end); found_done(peer)) {
		const struct keeper_found *f = &peer->next;
		struct foreign *g = NULL;

		if (f->start >= va && f->end <= end && f->start < f->end)
			g = foreign_get(peer, &f->vma, peer->next_fd, f->start, f->end - f->start);
		if (g)
			run_add(mr, &(struct mr_run){ .va = f->start,
						      .len = f->end - f->start,
						      .host = g->map + g->lead,
						      .foreign = g });
	}
}

int shadow_map(struct mr *mr, const struct ff_mr_run *claim, uint32_t n, const int *found)
{
	struct session *s = mr->o.ses;
	struct peer peer = {
		.ses = s,
		.writes = mr->access & ACCESS_WRITES,
		.max_runs = n,
		.look = LOOK_MAX,
		.found = found,
		.next_fd = -1,
	};
	struct mr_run *shrunk, r;
	bool now = true;

	mr->run = NULL;
	mr->num_runs = 0;
	mr->zero_copy = 0;
	if (!claims_valid(mr, claim, n))
		return -EINVAL;
	if (!n)
		return 0;
	for (uint32_t i = 0; i < n; i++)
		if (claim[i].kind == FF_RUN_SHARED)
			peer.max_runs = n + EXTRA_RUNS;
	mr->run = calloc(peer.max_runs, sizeof(*mr->run));
	if (!mr->run)
		return -ENOMEM;
	for (uint32_t i = 0; i < n && mr->num_runs < peer.max_runs; i++) {
		const struct ff_mr_run *c = &claim[i];

		if (c->kind == FF_RUN_SHARED) {
			map_shared(mr, &peer, c->va, c->va + c->len);
		} else if (run_shadow(s, c, now, &r)) {
			run_add(mr, &r);
			now = false;
		}
	}
	found_done(&peer);
	if (!mr->num_runs) {
		shadow_unmap(mr);
		return 0;
	}
	if (mr->num_runs < peer.max_runs) {
		shrunk = realloc(mr->run, mr->num_runs * sizeof(*shrunk));
		if (shrunk)
			mr->run = shrunk;
	}
	return 0;
}

/* The next run, merged with the one before where that reaches up to it, here and there. */
static void run_append(struct mr *mr, const struct mr_run *r)
{
	struct mr_run *last = mr->num_runs ? &mr->run[mr->num_runs - 1] : NULL;

	if (last && last->region && last->region == r->region && last->va + last->len == r->va &&
	    last->host + last->len == r->host) {
		last->len += r->len;
		pages_put(mr->o.ses, r->region);
	} else {
		mr->run[mr->num_runs++] = *r;
	}
}

int shadow_more(const struct mr *mr, const struct ff_mr_run *claim, uint32_t n, struct mr *new)
{
	uint32_t i = 0, k = 0;

	*new = *mr;
	if (!n || !claims_valid(mr, claim, n))
		return -EINVAL;
	if (mr->num_runs + n > MORE_RUNS)
		return -ENOSPC;
	for (k = 0; k < n; k++) {
		while (i < mr->num_runs && mr->run[i].va + mr->run[i].len <= claim[k].va)
			i++;
		if (claim[k].kind != FF_RUN_SHADOW ||
		    (i < mr->num_runs && mr->run[i].va < claim[k].va + claim[k].len))
			return -EINVAL;
	}
	new->num_runs = 0;
	new->run = malloc((mr->num_runs + n) * sizeof(*new->run));
	if (!new->run)
		return -ENOMEM;
	for (i = 0, k = 0; i < mr->num_runs || k < n;) {
		struct mr_run r;

		if (k == n || (i < mr->num_runs && mr->run[i].va < claim[k].va)) {
			run_append(new, &mr->run[i++]);
		} else if (track_is_home(mr->tracked, claim[k].va, claim[k].len) &&
			   run_shadow(mr->o.ses, &claim[k], !k, &r)) {
			new->zero_copy += run_bytes(mr, &r);
			run_append(new, &r);
			k++;
		} else {
			k++;
		}
	}
	return 0;
}

/* ---- memory that the program wants to have private again ------------------------------------ */

/* Is the run of that file? *off: where it begins there. */
static bool run_of_file(const struct mr *mr, const struct mr_run *r,
			const struct ff_drop_runs_req *q, uint64_t *off)
{
	const struct foreign *g = r->foreign;

	if (r->region) {
		*off = pages_off(mr->o.ses, r->region, r->host);
		return pages_are(mr->o.ses, q->inode, q->dev_major, q->dev_minor);
	}
	if (!g || g->key.inode != q->inode || g->key.dev_major != q->dev_major ||
	    g->key.dev_minor != q->dev_minor)
		return false;
	*off = g->key.offset + (uint64_t)(r->host - (g->map + g->lead));
	return true;
}

static enum shadow_part run_find(const struct mr *mr, const struct mr_run *r,
				 const struct ff_drop_runs_req *q)
{
	uint64_t off;

	if (!run_of_file(mr, r, q, &off) || off >= q->off + q->len || q->off >= off + r->len)
		return SHADOW_NONE;
	return r->va - off == q->va - q->off ? SHADOW_THERE : SHADOW_MOVED;
}

enum shadow_part shadow_find(const struct mr *mr, const struct ff_drop_runs_req *q)
{
	enum shadow_part found = SHADOW_NONE;

	for (uint32_t i = 0; i < mr->num_runs; i++) {
		enum shadow_part p = run_find(mr, &mr->run[i], q);

		found = p > found ? p : found;
	}
	return found;
}

/* The part [va, end) of a run, with a reference of its own. */
static void run_part(struct mr *mr, const struct mr_run *r, uint64_t va, uint64_t end)
{
	struct mr_run part = *r;
	uint8_t *host;

	if (va >= end)
		return;
	part.va = va;
	part.len = end - va;
	part.host += va - r->va;
	if (part.foreign)
		part.foreign->refs++;
	else if (!pages_get(mr->o.ses, pages_off(mr->o.ses, r->region, part.host), part.len, &host))
		return; /* cannot be; it is copied from and to */
	run_add(mr, &part);
}

int shadow_less(const struct mr *mr, const struct ff_drop_runs_req *q, struct mr *new)
{
	const uint64_t end = q->va + q->len;
	uint32_t more = 0;

	*new = *mr;
	new->run = NULL;
	new->num_runs = 0;
	new->zero_copy = 0;
	for (uint32_t i = 0; i < mr->num_runs; i++) /* that have a part before and one behind */
		more += run_find(mr, &mr->run[i], q) == SHADOW_THERE && mr->run[i].va < q->va &&
			mr->run[i].va + mr->run[i].len > end;
	if (mr->num_runs + more > MORE_RUNS + EXTRA_RUNS)
		return -ENOSPC;
	new->run = malloc((mr->num_runs + more) * sizeof(*new->run));
	if (!new->run)
		return -ENOMEM;
	for (uint32_t i = 0; i < mr->num_runs; i++) {
		const struct mr_run *r = &mr->run[i];

		if (run_find(mr, r, q) != SHADOW_THERE) {
			run_part(new, r, r->va, r->va + r->len);
			continue;
		}
		run_part(new, r, r->va, r->va + r->len < q->va ? r->va + r->len : q->va);
		run_part(new, r, r->va > end ? r->va : end, r->va + r->len);
	}
	if (!new->num_runs) {
		free(new->run);
		new->run = NULL;
	}
	return 0;
}

void shadow_unmap(struct mr *mr)
{
	for (uint32_t i = 0; i < mr->num_runs; i++) {
		if (mr->run[i].foreign)
			foreign_put(mr->run[i].foreign);
		if (mr->run[i].region)
			pages_put(mr->o.ses, mr->run[i].region);
	}
	free(mr->run);
	mr->run = NULL;
	mr->num_runs = 0;
	mr->zero_copy = 0;
}

bool shadow_access_ok(const struct mr *mr, uint32_t access)
{
	for (uint32_t i = 0; i < mr->num_runs; i++)
		if (mr->run[i].foreign && !mr->run[i].foreign->key.writable &&
		    (access & ACCESS_WRITES))
			return false;
	return true;
}

int shadow_prefetch(const struct mr *mr, uint64_t va, uint64_t len, bool write)
{
	uint64_t left = len < FF_PREFETCH_MAX ? len : FF_PREFETCH_MAX, n;
	struct container *c = mr->o.ses->cont;
	struct stall_wait w;
	uint8_t *host;
	int err = 0;

	for (; left && !err && !stall_maps_no_file(c); va += n, left -= n) {
		uintptr_t from;

		n = shadow_translate(mr, va, left, &host);
		if (!host)
			continue;
		from = page_down((uintptr_t)host);
		stall_wait_begin(&w);
		/* before Linux 5.14 pages are made present when they are used */
		if (madvise((void *)from, (uintptr_t)host + n - from,
			    write ? MADV_POPULATE_WRITE : MADV_POPULATE_READ) &&
		    errno != EINVAL)
			err = errno == ENOMEM ? -ENOMEM : -EFAULT;
		stall_wait_end(c, &w);
	}
	return err;
}

uint64_t shadow_translate(const struct mr *mr, uint64_t va, uint64_t len, uint8_t **host)
{
	const struct mr_run *r = mr->run;
	uint32_t lo = 0, hi = mr->num_runs;

	/* one run is the usual case */
	if (hi && va >= r->va && va - r->va < r->len) {
		*host = r->host + (va - r->va);
		return len < r->len - (va - r->va) ? len : r->len - (va - r->va);
	}
	while (lo < hi) { /* the first run that ends above va */
		uint32_t mid = (lo + hi) / 2;

		if (r[mid].va + r[mid].len > va)
			hi = mid;
		else
			lo = mid + 1;
	}
	if (lo == mr->num_runs) {
		*host = NULL;
		return len;
	}
	r += lo;
	if (va < r->va) {
		*host = NULL;
		return len < r->va - va ? len : r->va - va;
	}
	*host = r->host + (va - r->va);
	return len < r->len - (va - r->va) ? len : r->len - (va - r->va);
}
