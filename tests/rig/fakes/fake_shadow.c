/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_shadow.c - see fake_shadow.h.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/rig/fakes/fake_shadow.h"

#define MAX_SEGS 256u

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

/* A segment's number is its place here; 0 is the rings', as with the real one. */
static uint8_t *segs[MAX_SEGS];
static uint32_t num_segs = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

void ffl_log_(enum ffl_level level, const char *fmt, ...)
{
	(void)level;
	(void)fmt;
}

int ffl_fd_high(int fd)
{
	return fd;
}

static int grow(const struct ff_shadow_grow_req *req, struct ff_shadow_grow_resp *resp, int *fds,
		unsigned *n_fds)
{
	void *map;
	int fd;

	if (num_segs == MAX_SEGS ||
	    (fake_shadow.max_shadow && fake_shadow.shadow + req->size > fake_shadow.max_shadow))
		return -ENOMEM;
	fd = (int)syscall(SYS_memfd_create, "fake-shadow", 1 /* MFD_CLOEXEC */);
	if (fd < 0 || ftruncate(fd, (off_t)req->size))
		abort();
	map = mmap(NULL, req->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		abort();
	/* the real one is another process */
	madvise(map, req->size, MADV_DONTFORK);
	fake_shadow.shadow += req->size;
	*resp = (struct ff_shadow_grow_resp){ .size = req->size, .seg = num_segs };
	segs[num_segs++] = map;
	fds[0] = fd;
	*n_fds = 1;
	return 0;
}

static int watch_heat(int *fds, unsigned *n_fds)
{
	int pair[2];

	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair))
		abort();
	fake_shadow.heat_fd = pair[0];
	fds[0] = pair[1];
	*n_fds = 1;
	return 0;
}

/* Of one MR at a time: the one that was registered last. */
static int map_mr(const struct ff_mr_run *more, unsigned n)
{
	struct ff_mr_run all[FF_MR_MAX_RUNS];
	unsigned i = 0, k = 0, num = 0;

	if (!n || fake_shadow.num_runs + n > FF_MR_MAX_RUNS)
		return -ENOSPC;
	while (i < fake_shadow.num_runs || k < n) {
		bool old = k == n ||
			   (i < fake_shadow.num_runs && fake_shadow.run[i].va < more[k].va);

		all[num] = old ? fake_shadow.run[i++] : more[k++];
		if (all[num].kind != FF_RUN_SHADOW ||
		    (num && all[num].va < all[num - 1].va + all[num - 1].len))
			return -EINVAL;
		num++;
	}
	memcpy(fake_shadow.run, all, num * sizeof(all[0]));
	fake_shadow.num_runs = num;
	fake_shadow.maps++;
	return 0;
}

static void remember(const struct ff_reg_mr_req *reg, const void *tail, unsigned n_tail)
{
	fake_shadow.reg = *reg;
	fake_shadow.num_runs = n_tail;
	if (n_tail)
		memcpy(fake_shadow.run, tail, n_tail * sizeof(fake_shadow.run[0]));
}

int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	static uint32_t next_key = 0x1000;
	int err = fake_shadow.fail[type];

	(void)ctx;
	(void)req_len;
	(void)tail_size;
	(void)max_fds;
	if (err)
		return err;
	memset(resp, 0, resp_len);
	pthread_mutex_lock(&lock);
	switch (type) {
	case FF_MSG_SHADOW_GROW:
		err = grow(req, resp, fds, n_fds);
		break;
	case FF_MSG_REG_MR: {
		struct ff_reg_mr_resp *r = resp;

		remember(req, tail, n_tail);
		r->mr = next_key;
		r->lkey = r->rkey = next_key++;
		fake_shadow.mrs++;
		break;
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

		remember(&reg, tail, n_tail);
		fake_shadow.rereg_flags = q->flags;
		r->lkey = r->rkey = next_key++;
		break;
	}
	case FF_MSG_DEREG_MR:
		fake_shadow.mrs--;
		break;
	case FF_MSG_WATCH_HEAT:
		err = fake_shadow.has_heat ? watch_heat(fds, n_fds) : -EOPNOTSUPP;
		break;
	case FF_MSG_MAP_MR:
		err = map_mr(tail, n_tail);
		break;
	default:
		abort();
	}
	pthread_mutex_unlock(&lock);
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

	for (unsigned i = 0; i < FF_LEAVING; i++)
		n += atomic_exchange(&page.leaving.mr[i], 0) != 0;
	fake_shadow.mrs -= n;
	return n;
}

struct ffl_context *fake_shadow_open(bool with_uffd)
{
	struct ffl_context *ctx = calloc(1, sizeof(*ctx));

	if (!ctx)
		abort();
	ctx->pid = getpid();
	ctx->hdr = &page;
	ctx->uffd_dev = with_uffd ? open("/dev/userfaultfd", O_RDWR | O_CLOEXEC) : -1;
	if (ffl_mr_context_init(ctx))
		abort();
	return ctx;
}

void fake_shadow_close(struct ffl_context *ctx)
{
	ffl_mr_context_fini(ctx);
	if (ctx->uffd_dev >= 0)
		close(ctx->uffd_dev);
	free(ctx);
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

static uint8_t *host_of(const struct ff_mr_run *run, unsigned num, uint64_t va)
{
	for (const struct ff_mr_run *r = run; r < run + num; r++)
		if (r->kind == FF_RUN_SHADOW && va >= r->va && va < r->va + r->len)
			return segs[r->seg] + r->off + (va - r->va);
	return NULL;
}

uint8_t *fake_shadow_at(uint64_t va)
{
	return host_of(fake_shadow.run, fake_shadow.num_runs, va);
}

uint8_t *fake_shadow_mr_at(struct ibv_mr *ibv, uint64_t va)
{
	const struct ffl_mr *mr = container_of_(ibv, struct ffl_mr, ibv);

	return host_of(mr->run, mr->num_runs, va);
}

uint64_t fake_shadow_bytes(enum ff_run_kind kind)
{
	uint64_t sum = 0;

	for (unsigned i = 0; i < fake_shadow.num_runs; i++)
		if (fake_shadow.run[i].kind == kind)
			sum += fake_shadow.run[i].len;
	return sum;
}
