/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_rio.c - see fake_rio.h. */
#include "tests/rig/fakes/fake_rio.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define HEADER 64u

static void must(bool wrong)
{
	if (wrong)
		abort();
}

struct block {
	STAILQ_ENTRY(block) entry;
	struct ffrio_post post;
	int result;
};
STAILQ_HEAD(blocks, block);

struct rmb {
	enum { FREE, FILLED, TAKEN } state;
	struct ffrio_take take;
	uint64_t order;
};

struct file {
	int fd; /* 0: none */
	bool bound;
	uint32_t port, node, endpoint;
	uint8_t *smb, *rmb;
	bool owned[FFRIO_BUFFERS], busy[FFRIO_BUFFERS];
	uint32_t held;
	struct blocks posted, done;
	struct rmb in[FFRIO_BUFFERS];
	bool broken;
};

struct fake_rio fake_rio;
static struct file files[FAKE_RIO_FILES];
static uint64_t order;

static uint32_t stride(void)
{
	return HEADER + ((fake_rio.block + HEADER - 1) & ~(HEADER - 1));
}

void fake_rio_reset(void)
{
	fake_rio = (struct fake_rio){ .block = 1024, .smbs = 16, .rmbs = 4 };
}

static void wake(const struct file *f)
{
	uint64_t one = 1;

	must(write(f->fd, &one, sizeof(one)) != sizeof(one));
}

static struct file *of_fd(int fd)
{
	for (unsigned i = 0; i < FAKE_RIO_FILES; i++)
		if (files[i].fd == fd)
			return &files[i];
	abort();
}

static struct file *at(uint32_t node, uint32_t endpoint)
{
	for (unsigned i = 0; i < FAKE_RIO_FILES; i++)
		if (files[i].fd && files[i].bound && files[i].node == node &&
		    files[i].endpoint == endpoint)
			return &files[i];
	return NULL;
}

/* ---- what moves -------------------------------------------------------------------------------------- */

static bool put(struct file *to, const struct ffrio_take *t, const void *data)
{
	for (uint32_t i = 0; i < fake_rio.rmbs; i++) {
		struct rmb *r = &to->in[i];

		if (r->state != FREE)
			continue;
		memcpy(to->rmb + (size_t)i * stride() + HEADER, data,
		       t->length < fake_rio.block ? t->length : fake_rio.block);
		r->state = FILLED;
		r->take = *t;
		r->take.buffer = i;
		r->order = ++order;
		wake(to);
		return true;
	}
	return false;
}

/* The file's next block. False: there is none, or it waits. */
static bool move_one(struct file *f)
{
	struct block *b = STAILQ_FIRST(&f->posted);
	struct file *to;

	if (!b)
		return false;
	to = at(b->post.destid, b->post.endpoint);
	if (!b->result && !to)
		b->result = -ECONNREFUSED;
	if (!b->result && !put(to,
			       &(struct ffrio_take){ .length = b->post.length,
						     .destid = f->node,
						     .endpoint = f->endpoint,
						     .flags = b->post.flags },
			       f->smb + (size_t)b->post.buffer * stride() + HEADER))
		return false;
	STAILQ_REMOVE_HEAD(&f->posted, entry);
	STAILQ_INSERT_TAIL(&f->done, b, entry);
	wake(f);
	return true;
}

void fake_rio_move(void)
{
	bool some = true;

	while (some) {
		some = false;
		for (unsigned i = 0; i < FAKE_RIO_FILES; i++)
			some |= files[i].fd && files[i].bound && move_one(&files[i]);
	}
}

bool fake_rio_inject(uint32_t node, uint32_t source, uint32_t to_node, uint32_t endpoint,
		     const void *data, uint32_t length)
{
	struct file *to = at(to_node, endpoint);

	return to && put(to,
			 &(struct ffrio_take){ .length = length,
					       .destid = node,
					       .endpoint = source,
					       .flags = FFRIO_FIRST | FFRIO_LAST },
			 data);
}

void fake_rio_break(uint32_t to_node, uint32_t endpoint)
{
	struct file *to = at(to_node, endpoint);

	to->broken = true;
	wake(to);
}

int fake_rio_endpoint(uint32_t port)
{
	int last = -1;

	for (unsigned i = 0; i < FAKE_RIO_FILES; i++)
		if (files[i].fd && files[i].bound && files[i].port == port)
			last = (int)files[i].endpoint;
	return last;
}

/* ---- calls ------------------------------------------------------------------------------------------- */

static int fake_open(void)
{
	int err = fake_rio.open_error;

	fake_rio.open_error = 0;
	if (err)
		return err;
	for (unsigned i = 0; i < FAKE_RIO_FILES; i++) {
		struct file *f = &files[i];

		if (f->fd)
			continue;
		*f = (struct file){ .fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) };
		must(f->fd <= 0);
		STAILQ_INIT(&f->posted);
		STAILQ_INIT(&f->done);
		fake_rio.files++;
		fake_rio.opened++;
		return f->fd;
	}
	return -EMFILE;
}

static int bind_(struct file *f, struct ffrio_bind *b)
{
	static uint32_t endpoint;

	if (f->bound)
		return -EISCONN;
	if (b->version != FFRIO_VERSION || b->endpoint != -1)
		return -EINVAL;
	f->bound = true;
	f->port = b->port;
	f->node = b->destid = FAKE_RIO_NODE(b->port);
	f->endpoint = endpoint++ % FFRIO_ENDPOINTS;
	b->endpoint = (int)f->endpoint;
	b->block = fake_rio.block;
	b->stride = stride();
	b->header = HEADER;
	b->smbs = fake_rio.smbs;
	b->rmbs = fake_rio.rmbs;
	b->smb_length = (uint64_t)stride() * b->smbs;
	b->rmb_length = (uint64_t)stride() * b->rmbs;
	b->rmb_offset = 1 << 20;
	f->smb = calloc(1, b->smb_length);
	f->rmb = calloc(1, b->rmb_length);
	must(!f->smb || !f->rmb);
	return 0;
}

static int alloc(struct file *f, struct ffrio_buf *b)
{
	if (f->held >= (fake_rio.smbs / 4 ? fake_rio.smbs / 4 : 1))
		return -ENOBUFS;
	for (uint32_t i = 0; i < fake_rio.smbs; i++)
		if (!f->owned[i]) {
			f->owned[i] = true;
			f->held++;
			b->buffer = i;
			return 0;
		}
	return -EAGAIN;
}

static int free_(struct file *f, const struct ffrio_buf *b)
{
	must(b->buffer >= fake_rio.smbs || !f->owned[b->buffer] || f->busy[b->buffer]);
	f->owned[b->buffer] = false;
	f->held--;
	return 0;
}

static int post(struct file *f, const struct ffrio_post *p)
{
	struct block *b;

	must(p->buffer >= fake_rio.smbs || !f->owned[p->buffer] || f->busy[p->buffer]);
	must(p->length > fake_rio.block || p->flags != (FFRIO_FIRST | FFRIO_LAST));
	b = calloc(1, sizeof(*b));
	must(!b);
	b->post = *p;
	b->result = fake_rio.result;
	f->busy[p->buffer] = true;
	STAILQ_INSERT_TAIL(&f->posted, b, entry);
	fake_rio.posted++;
	if (!fake_rio.holds)
		fake_rio_move();
	return 0;
}

static int reap(struct file *f, struct ffrio_reap *r)
{
	struct block *b = STAILQ_FIRST(&f->done);

	if (!b)
		return STAILQ_EMPTY(&f->posted) ? -ENODATA : -EAGAIN;
	STAILQ_REMOVE_HEAD(&f->done, entry);
	*r = (struct ffrio_reap){ .buffer = b->post.buffer, .result = b->result };
	f->busy[b->post.buffer] = false;
	free(b);
	return 0;
}

static int take(struct file *f, struct ffrio_take *t)
{
	struct rmb *first = NULL;

	if (f->broken) {
		f->broken = false;
		return -ECONNRESET;
	}
	for (uint32_t i = 0; i < fake_rio.rmbs; i++)
		if (f->in[i].state == FILLED && (!first || f->in[i].order < first->order))
			first = &f->in[i];
	if (!first)
		return -EAGAIN;
	first->state = TAKEN;
	*t = first->take;
	return 0;
}

static int give_back(struct file *f, const struct ffrio_buf *b)
{
	must(b->buffer >= fake_rio.rmbs || f->in[b->buffer].state != TAKEN);
	f->in[b->buffer].state = FREE;
	if (!fake_rio.holds)
		fake_rio_move();
	return 0;
}

static int fake_call(int fd, unsigned long request, void *arg)
{
	struct file *f = of_fd(fd);

	if (fake_rio.fails == request && !fake_rio.after--) {
		fake_rio.fails = 0;
		return fake_rio.error;
	}
	switch (request) {
	case FFRIO_BIND:
		return bind_(f, arg);
	case FFRIO_ALLOC:
		return alloc(f, arg);
	case FFRIO_FREE:
		return free_(f, arg);
	case FFRIO_POST:
		return post(f, arg);
	case FFRIO_REAP:
		return reap(f, arg);
	case FFRIO_TAKE:
		return take(f, arg);
	case FFRIO_GIVE_BACK:
		return give_back(f, arg);
	default:
		abort();
	}
}

static void *fake_map(int fd, uint64_t offset, uint64_t length, bool writes)
{
	struct file *f = of_fd(fd);

	must(length % stride() || writes != !offset);
	if (fake_rio.fails == offset + 1) { /* FFRIO_ calls have other numbers */
		fake_rio.fails = 0;
		errno = -fake_rio.error;
		return NULL;
	}
	fake_rio.maps++;
	return offset ? f->rmb : f->smb;
}

static void fake_unmap(const void *p, uint64_t length)
{
	must(!p || !length);
	fake_rio.maps--;
}

static void blocks_free(struct blocks *list)
{
	struct block *b;

	while ((b = STAILQ_FIRST(list))) {
		STAILQ_REMOVE_HEAD(list, entry);
		free(b);
	}
}

static void fake_close(int fd)
{
	struct file *f = of_fd(fd);

	blocks_free(&f->posted);
	blocks_free(&f->done);
	free(f->smb);
	free(f->rmb);
	close(f->fd);
	*f = (struct file){ 0 };
	fake_rio.files--;
}

const struct rio_calls fake_rio_calls = {
	.open = fake_open,
	.call = fake_call,
	.map = fake_map,
	.unmap = fake_unmap,
	.close = fake_close,
};
