/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dev.c - opening endpoints of /dev/ffrio, and the lines in the log. Control thread. The keeper opens the device, which
 * belongs to root. Links ask for an endpoint by dev->wanted (link.c), and get it under the lock, if they still exist.
 *
 * Tests: test_link.c
 */
#include "ffr/rio/rio.h"

#include <errno.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ffr/keeper/keeper.h"
#include "ffr/lib/log.h"
#include "ffr/peer/peer.h"

/* ---- the kernel's ------------------------------------------------------------------------------------ */

static int kernel_call(int fd, unsigned long request, void *arg)
{
	return ioctl(fd, request, arg) < 0 ? -errno : 0;
}

static void *kernel_map(int fd, uint64_t offset, uint64_t length, bool writes)
{
	void *p = mmap(NULL, length, writes ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd,
		       (off_t)offset);

	return p == MAP_FAILED ? NULL : p;
}

static void kernel_unmap(const void *p, uint64_t length)
{
	munmap((void *)p, length);
}

static void kernel_close(int fd)
{
	close(fd);
}

const struct rio_calls rio_kernel = {
	.open = keeper_open_rio,
	.call = kernel_call,
	.map = kernel_map,
	.unmap = kernel_unmap,
	.close = kernel_close,
};
const struct rio_calls *rio_calls = &rio_kernel;

/* ---- an endpoint ------------------------------------------------------------------------------------- */

/* Is a buffer where its number says? */
static bool fits(const struct ffrio_bind *b)
{
	uint64_t room = (uint64_t)b->header + b->block;

	return b->block >= RIO_BLOCK_MIN && b->stride >= room && b->smbs && b->rmbs &&
	       b->smbs <= FFRIO_BUFFERS && b->rmbs <= FFRIO_BUFFERS &&
	       b->smb_length >= (uint64_t)b->stride * (b->smbs - 1) + room &&
	       b->rmb_length >= (uint64_t)b->stride * (b->rmbs - 1) + room;
}

static int bind_and_map(struct rio_end *e, uint32_t port)
{
	struct ffrio_bind *b = &e->bound;
	int err;

	*b = (struct ffrio_bind){ .version = FFRIO_VERSION, .port = port, .endpoint = -1 };
	err = rio_calls->call(e->fd, FFRIO_BIND, b);
	if (err)
		return err;
	if (!fits(b))
		return -ENOBUFS; /* its block_size is none for this */
	e->smb = rio_calls->map(e->fd, b->smb_offset, b->smb_length, true);
	e->rmb = e->smb ? rio_calls->map(e->fd, b->rmb_offset, b->rmb_length, false) : NULL;
	return e->rmb ? 0 : -errno;
}

int rio_end_open(struct rio_end *e, uint32_t port)
{
	int err;

	*e = (struct rio_end){ .fd = rio_calls->open() };
	if (e->fd < 0) {
		err = e->fd;
		e->fd = -1;
		return err;
	}
	err = bind_and_map(e, port);
	if (err)
		rio_end_close(e);
	return err;
}

void rio_end_close(struct rio_end *e)
{
	if (e->fd < 0)
		return;
	if (e->smb)
		rio_calls->unmap(e->smb, e->bound.smb_length);
	if (e->rmb)
		rio_calls->unmap(e->rmb, e->bound.rmb_length);
	rio_calls->close(e->fd);
	*e = (struct rio_end){ .fd = -1 };
}

/* ---- what links ask for -------------------------------------------------------------------------------- */

static struct rio_link *find(struct rio_dev *d, uint64_t id)
{
	struct rio_link *l;

	LIST_FOREACH(l, &d->links, entry)
		if (l->id == id)
			return l;
	return NULL;
}

/* The number of a link that is to be opened, 0: there is none. */
static uint64_t next(struct rio_dev *d)
{
	uint64_t id = 0;
	struct rio_link *l;

	fast_lock(d->f->host);
	LIST_FOREACH(l, &d->links, entry)
		if (l->state == RIO_OPENING)
			id = l->id;
	fast_unlock(d->f->host);
	return id;
}

static void say_opened(struct rio_dev *d, int err)
{
	/* the file is not for this process, which the sandbox keeps from sysfs */
	if (err && err != d->said)
		log_warn(
			"RapidIO: endpoint of port %u: %s: other hosts are reached by TCP; what ffrio says of "
			"the port is in /sys/class/rapidio_port/rapidio%u/ffrio",
			d->conf.port,
			err == -ENOENT ? "there is no /dev/ffrio: load ffrio.ko" : strerror(-err),
			d->conf.port);
	d->said = err;
}

/* A mistake is told when the router starts, not when the first peer is reached otherwise. */
static void look_for_port(struct rio_dev *d)
{
	struct rio_end e;

	d->is_new = false;
	say_opened(d, rio_end_open(&e, d->conf.port));
	rio_end_close(&e);
}

static void open_one(struct rio_dev *d, uint64_t id)
{
	struct rio_end e;
	struct rio_link *l;
	int err = rio_end_open(&e, d->conf.port);

	say_opened(d, err);
	fast_lock(d->f->host);
	l = find(d, id);
	if (l)
		rio_link_opened(l, &e, err);
	fast_unlock(d->f->host);
	rio_end_close(&e); /* if nobody has taken it */
}

/* What has become of one of them; false: the log knows all. */
static bool say_one(struct rio_dev *d)
{
	char host[WIRE_HOST_SZ];
	enum rio_state state;
	struct rio_link *l;
	unsigned node;
	int err;

	fast_lock(d->f->host);
	LIST_FOREACH(l, &d->links, entry)
		if (!l->logged)
			break;
	if (l) {
		l->logged = true;
		memcpy(host, l->peer->host, sizeof(host));
		state = l->state;
		node = l->to.node;
		err = l->err;
	}
	fast_unlock(d->f->host);
	if (!l)
		return false;
	if (state == RIO_UP)
		log_info("host %s: by RapidIO, node %u", host, node);
	else if (state == RIO_FAILED)
		log_warn("host %s: RapidIO, node %u: %s: by TCP", host, node, strerror(-err));
	return true;
}

void rio_work(struct fast *f, bool all)
{
	struct rio_dev *d = rio_dev_of(f);
	uint64_t id;

	(void)all;				       /* nobody waits for it */
	if (!d || !atomic_exchange(&d->wanted, false)) /* NULL: of another thread */
		return;
	if (d->is_new)
		look_for_port(d);
	while ((id = next(d)))
		open_one(d, id);
	while (say_one(d))
		;
}
