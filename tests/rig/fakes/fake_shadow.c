/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_shadow.c - see fake_shadow.h.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/fakes/fake_pages.h"
#include "tests/rig/fakes/fake_shadow.h"

struct fake_shadow fake_shadow;

void ffl_posted_wait(struct ffl_context *ctx, const struct ffl_going *what)
{
	(void)ctx;
	if (what->kind != FFL_GOING_MR)
		abort();
	atomic_store(&fake_shadow.waited_key, what->key);
	atomic_store(&fake_shadow.waited_mrs, fake_shadow.mrs);
}
int ffl_log_level;

void ffl_log_(enum ffl_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

int ffl_fd_high(int fd)
{
	return fd;
}

/* ---- sessions and MRs: [lock] ------------------------------------------------------------------------ */

/* A run of an MR, and what the router has of it; host is NULL where it has nothing. */
struct held {
	struct ff_mr_run run;
	uint8_t *host;
	void *region;
};

struct mr {
	struct mr *next;
	uint32_t handle;
	struct ses *ses;
	struct held *held;
	unsigned num;
	void *tracked;
};

struct ses {
	struct ses *next;
	struct ffl_context *ctx;
	struct fake_pages *pages;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ses *sessions;
static struct mr *mrs;
static uint32_t last; /* the MR that was registered, or changed, last */

static void *alloc(size_t size)
{
	void *p = calloc(1, size ? size : 1);

	if (!p)
		abort();
	return p;
}

static struct ses *ses_of(const struct ffl_context *ctx)
{
	struct ses *s;

	for (s = sessions; s && s->ctx != ctx; s = s->next)
		;
	if (!s)
		abort();
	return s;
}

static struct mr *mr_of(uint32_t handle)
{
	struct mr *m;

	for (m = mrs; m && m->handle != handle; m = m->next)
		;
	return m;
}

/* Room for `more` runs behind those that it has. */
static void held_grow(struct mr *m, unsigned more)
{
	m->held = realloc(m->held, (m->num + more + 1) * sizeof(*m->held));
	if (!m->held)
		abort();
}

static void run_hold(struct mr *m, struct held *h, const struct ff_mr_run *r)
{
	*h = (struct held){ .run = *r };
	if (r->kind == FF_RUN_SHADOW)
		h->region = fake_pages_get(m->ses->pages, r->off, r->len, &h->host);
}

static void mr_drop_runs(struct mr *m)
{
	for (unsigned i = 0; i < m->num; i++)
		if (m->held[i].region)
			fake_pages_put(m->ses->pages, m->held[i].region);
	free(m->held);
	m->held = NULL;
	m->num = 0;
}

static void mr_set_runs(struct mr *m, const struct ff_mr_run *run, unsigned n)
{
	struct mr old = *m;

	m->held = NULL;
	m->num = 0;
	held_grow(m, n);
	for (; m->num < n; m->num++)
		run_hold(m, &m->held[m->num], &run[m->num]);
	mr_drop_runs(&old);
	last = m->handle;
}

static void mr_free(uint32_t handle)
{
	for (struct mr **p = &mrs; *p; p = &(*p)->next) {
		struct mr *m = *p;

		if (m->handle != handle)
			continue;
		*p = m->next;
		mr_drop_runs(m);
		if (m->tracked)
			fake_pages_untrack(m->tracked);
		free(m);
		return;
	}
}

/* What the tests see of it. */
static void show(const struct mr *m)
{
	fake_shadow.num_runs = m->num;
	for (unsigned i = 0; i < m->num; i++)
		fake_shadow.run[i] = m->held[i].run;
}

/* ---- calls: [lock] ----------------------------------------------------------------------------------- */

static int place_pages(struct ses *s, const struct ff_place_pages_req *req,
		       struct ff_place_pages_resp *resp, int *fds, unsigned *n_fds)
{
	int err = fake_pages_place(s->pages, req,
				   fake_shadow.max_shadow ? fake_shadow.max_shadow : UINT64_MAX,
				   resp, fds);

	*n_fds = err ? 0 : 1;
	return err;
}

static int watch_heat(struct ff_watch_heat_resp *resp, int *fds, unsigned *n_fds)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		abort();
	fake_shadow.heat_fd = pair[0];
	resp->reserved = 0;
	fds[0] = pair[1];
	*n_fds = 1;
	return 0;
}

/* From now on the MR is tracked, or is no more. 0 or -errno. */
static int track(struct mr *m, const struct ff_reg_mr_req *req)
{
	void *tracked = NULL;
	int err = 0;

	if (req->access & FF_ACCESS_TRACK) {
		tracked = fake_pages_tracked(m->ses->pages, req->addr, req->length, &err);
		if (!tracked)
			return err;
	}
	if (m->tracked)
		fake_pages_untrack(m->tracked);
	m->tracked = tracked;
	return 0;
}

static int track_pages(struct ses *s, const struct ff_track_pages_req *req, int *fds,
		       unsigned *n_fds)
{
	int err = fake_pages_track_pages(s->pages, req);

	if (!err && (req->op == FF_TRACK_GET || req->op == FF_TRACK_CLOSE)) {
		fds[0] = fake_pages_uffd(s->pages);
		*n_fds = 1;
		fake_shadow.uffds++;
	}
	return err;
}

static int map_mr(struct ses *s, const struct ff_map_mr_req *req, const struct ff_mr_run *more,
		  unsigned n)
{
	struct mr *m = mr_of(req->mr);
	struct held *all;
	unsigned i = 0, k = 0, num = 0;

	if (!n || m->num + n > FF_MR_MAX_RUNS)
		return -ENOSPC;
	all = alloc((m->num + n) * sizeof(*all));
	while (i < m->num || k < n) {
		bool old = k == n || (i < m->num && m->held[i].run.va < more[k].va);

		if (old)
			all[num] = m->held[i++];
		else
			run_hold(m, &all[num], &more[k++]);
		if (all[num].run.kind != FF_RUN_SHADOW ||
		    (num && all[num].run.va < all[num - 1].run.va + all[num - 1].run.len))
			abort(); /* the library's claims are right */
		num++;
	}
	free(m->held);
	m->held = all;
	m->num = num;
	if (m->handle == last)
		show(m);
	fake_shadow.maps++;
	if (req->open)
		fake_pages_open(s->pages);
	return 0;
}

/* Whole runs go, of which the router is to give up some: what has no run is copied. */
static int drop_runs(const struct ses *s, const struct ff_drop_runs_req *q)
{
	const bool own = q->inode == fake_pages_inode(s->pages);

	for (struct mr *m = mrs; m; m = m->next) {
		unsigned num = 0;

		for (unsigned i = 0; i < m->num; i++) {
			const struct held h = m->held[i];
			bool has = own && m->ses == s && h.run.kind == FF_RUN_SHADOW &&
				   h.run.off < q->off + q->len && q->off < h.run.off + h.run.len;

			if (has && h.run.va - h.run.off != q->va - q->off)
				return -EBUSY;
			if (has && !q->check && h.region)
				fake_pages_put(s->pages, h.region);
			if (!has || q->check)
				m->held[num++] = h;
		}
		m->num = num;
		if (m->handle == last)
			show(m);
	}
	fake_shadow.drops += !q->check;
	return 0;
}

static void remember(const struct ff_reg_mr_req *reg, struct mr *m, const void *tail,
		     unsigned n_tail)
{
	mr_set_runs(m, tail, n_tail);
	fake_shadow.reg = *reg;
	fake_shadow.reg.access &= ~FF_ACCESS_WHY_MASK;
	fake_shadow.why = FF_WHY_OF(reg->access);
	show(m);
}

static struct mr *mr_new(struct ses *s)
{
	static uint32_t next_handle = 0x1000;
	struct mr *m = alloc(sizeof(*m));

	*m = (struct mr){ .next = mrs, .handle = next_handle++, .ses = s };
	mrs = m;
	fake_shadow.mrs++;
	return m;
}

static int answer(struct ses *s, enum ff_msg_type type, const void *req, const void *tail,
		  unsigned n_tail, void *resp, int *fds, unsigned *n_fds)
{
	static uint32_t next_key = 0x1000;

	switch (type) {
	case FF_MSG_PLACE_PAGES:
		return place_pages(s, req, resp, fds, n_fds);
	case FF_MSG_REG_MR: {
		struct ff_reg_mr_resp *r = resp;
		struct mr *m = mr_new(s);
		int err = track(m, req);

		if (err) {
			mr_free(m->handle);
			fake_shadow.mrs--;
			return err;
		}
		remember(req, m, tail, n_tail);
		r->mr = m->handle;
		r->tracked = m->tracked && fake_pages_known(s->pages, fake_shadow.reg.addr,
							    fake_shadow.reg.length);
		r->lkey = r->rkey = next_key++;
		return 0;
	}
	case FF_MSG_REREG_MR: {
		const struct ff_rereg_mr_req *q = req;
		const struct ff_reg_mr_req reg = {
			.addr = q->addr,
			.length = q->length,
			.iova = q->iova,
			.pd = q->pd,
			.access = q->access,
		};
		struct ff_rereg_mr_resp *r = resp;
		int err = track(mr_of(q->mr), &reg);

		if (err)
			return err;
		remember(&reg, mr_of(q->mr), tail, n_tail);
		fake_shadow.rereg_flags = q->flags;
		r->lkey = r->rkey = next_key++;
		return 0;
	}
	case FF_MSG_DEREG_MR:
		if (fake_shadow.on_dereg)
			fake_shadow.on_dereg();
		mr_free(((const struct ff_dereg_mr_req *)req)->mr);
		fake_shadow.mrs--;
		return 0;
	case FF_MSG_TRACK_PAGES:
		return track_pages(s, req, fds, n_fds);
	case FF_MSG_WATCH_HEAT:
		return fake_shadow.has_heat ? watch_heat(resp, fds, n_fds) : -EOPNOTSUPP;
	case FF_MSG_HEAT_DONE:
		fake_shadow.busy += ((const struct ff_heat_done_req *)req)->busy;
		fake_shadow.why = ((const struct ff_heat_done_req *)req)->why;
		fake_shadow.dones++;
		return 0;
	case FF_MSG_SETTLE_PAGES:
		((struct ff_settle_pages_resp *)resp)->idle = fake_pages_idle(s->pages);
		return 0;
	case FF_MSG_DROP_RUNS:
		return drop_runs(s, req);
	case FF_MSG_MAP_MR:
		return map_mr(s, req, tail, n_tail);
	default:
		abort();
	}
}

int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	int err = fake_shadow.fail[type];

	(void)req_len;
	(void)tail_size;
	(void)max_fds;
	if (err) {
		fake_shadow.failed++;
		return err;
	}
	memset(resp, 0, resp_len);
	pthread_mutex_lock(&lock);
	err = answer(ses_of(ctx), type, req, tail, n_tail, resp, fds, n_fds);
	pthread_mutex_unlock(&lock);
	return err;
}

int ffl_call_fds(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
		 const int *send, unsigned n_send, void *resp, size_t resp_len, int *fds,
		 unsigned max_fds, unsigned *n_fds)
{
	int err = fake_shadow.fail[type];

	(void)req;
	(void)req_len;
	if (type == FF_MSG_TRACK ? n_send != 1 || max_fds :
				   type != FF_MSG_WATCH_PAGES || n_send != 2 || max_fds != 1)
		abort();
	*n_fds = 0;
	if (err)
		return err;
	memset(resp, 0, resp_len);
	pthread_mutex_lock(&lock);
	if (type == FF_MSG_TRACK) {
		err = fake_pages_track(ses_of(ctx)->pages, send[0]);
		pthread_mutex_unlock(&lock);
		return err;
	}
	err = fake_pages_watch(ses_of(ctx)->pages, send[0], send[1], fds);
	pthread_mutex_unlock(&lock);
	*n_fds = err ? 0 : 1;
	return err;
}

bool fake_shadow_has_uffd(void)
{
	return !access("/dev/userfaultfd", R_OK | W_OK);
}

static struct ff_ses_hdr page; /* of one context, and of all */

unsigned fake_shadow_left(void)
{
	unsigned n = 0;

	for (unsigned i = 0; i < FF_LEAVING; i++) {
		uint32_t handle = atomic_exchange(&page.leaving.mr[i], 0);

		if (!handle)
			continue;
		pthread_mutex_lock(&lock);
		mr_free(handle);
		pthread_mutex_unlock(&lock);
		n++;
	}
	fake_shadow.mrs -= n;
	return n;
}

struct ffl_context *fake_shadow_open(bool with_uffd)
{
	struct ffl_context *ctx = alloc(sizeof(*ctx));
	struct ses *s = alloc(sizeof(*s));

	*s = (struct ses){ .ctx = ctx, .pages = fake_pages_new() };
	pthread_mutex_lock(&lock);
	s->next = sessions;
	sessions = s;
	pthread_mutex_unlock(&lock);
	ctx->pid = getpid();
	ctx->hdr = &page;
	ctx->has_track = true;
	ctx->uffd_dev = with_uffd ? open("/dev/userfaultfd", O_RDWR | O_CLOEXEC) : -1;
	if (ffl_mr_context_init(ctx))
		abort();
	return ctx;
}

void fake_shadow_close(struct ffl_context *ctx)
{
	struct ses **p = &sessions, *s = ses_of(ctx);
	struct mr *next;

	ffl_mr_context_fini(ctx);
	for (struct mr *m = mrs; m; m = next) { /* that the program has not deregistered */
		next = m->next;
		if (m->ses == s)
			mr_free(m->handle);
	}
	pthread_mutex_lock(&lock); /* the library's thread looks through them */
	while (*p != s)
		p = &(*p)->next;
	*p = s->next;
	pthread_mutex_unlock(&lock);
	fake_pages_end(s->pages);
	free(s);
	if (ctx->uffd_dev >= 0)
		close(ctx->uffd_dev);
	free(ctx);
}

uint64_t fake_shadow_pages(const struct ffl_context *ctx)
{
	return fake_pages_bytes(ses_of(ctx)->pages) / FF_PAGE;
}

struct ibv_pd *fake_shadow_pd(struct ffl_context *ctx)
{
	struct ffl_pd *pd = calloc(1, sizeof(*pd));

	if (!pd)
		abort();
	pd->ibv.context = &ctx->v.context;
	pd->ctx = ctx;
	pd->handle = 1;
	return &pd->ibv;
}

/* [lock] */
static uint8_t *host_of_(uint32_t handle, uint64_t va)
{
	const struct mr *m = mr_of(handle);
	uint8_t *host = NULL;

	for (unsigned i = 0; m && i < m->num; i++) {
		const struct held *h = &m->held[i];

		if (h->host && va >= h->run.va && va < h->run.va + h->run.len)
			host = h->host + (va - h->run.va);
	}
	return host;
}

static uint8_t *host_of(uint32_t handle, uint64_t va)
{
	uint8_t *host;

	pthread_mutex_lock(&lock);
	host = host_of_(handle, va);
	pthread_mutex_unlock(&lock);
	return host;
}

bool fake_shadow_mr_store(struct ibv_mr *mr, uint64_t va, uint64_t value)
{
	volatile uint64_t *host;

	pthread_mutex_lock(&lock);
	host = (volatile uint64_t *)host_of_(mr->handle, va);
	if (host)
		*host = value;
	pthread_mutex_unlock(&lock);
	return host;
}

uint64_t fake_shadow_where(struct ibv_mr *mr, uint64_t va)
{
	uint64_t where;

	/* the program may go on before the router has dealt with what it did */
	do {
		pthread_mutex_lock(&lock);
		where = fake_pages_where(mr_of(mr->handle)->tracked, va);
		pthread_mutex_unlock(&lock);
	} while (where == FAKE_NOT_NOW);
	return where;
}

uint8_t *fake_shadow_at(uint64_t va)
{
	return host_of(last, va);
}

uint8_t *fake_shadow_mr_at(struct ibv_mr *mr, uint64_t va)
{
	return host_of(mr->handle, va);
}

uint64_t fake_shadow_bytes(enum ff_run_kind kind)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < fake_shadow.num_runs; i++)
		if (fake_shadow.run[i].kind == kind)
			sum += fake_shadow.run[i].len;
	return sum;
}
