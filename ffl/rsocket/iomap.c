/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * iomap.c - riomap, riounmap, riowrite: writing into buffers of the peer beside its ring.
 * Any thread; senders' lock.
 *
 * Each side has a table of RDMA_IOMAPSIZE entries in its memory. The peer that maps a buffer writes
 * (offset, address, length, rkey) to a free entry there, in order with its stream, so that the
 * mapping is known to whoever receives what was sent after riomap(). The table is the peer's to
 * write: what it says is used for WRITEs to that very peer and for nothing else.
 *
 * riowrite() copies to a ring of its own (iobuf), since these bytes have no place in the peer's
 * ring; completions tell what is free of it. The receiver is not told.
 *
 * Tests: system/rs_socket.c
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "ffl/session/freeflow.h"
#include "ffl/rsocket/rsocket.h"

#define IO_CHUNK (64u << 10) /* bytes of a WRITE */

/* ---- telling the peer ------------------------------------------------------------------------------- */

static void unlink_map(struct rs_stream *s, struct rs_iomap_mr *m)
{
	struct rs_iomap_mr **p = &s->maps;

	while (*p != m)
		p = &(*p)->next;
	*p = m->next;
	if (m->mr)
		ibv_dereg_mr(m->mr);
	free(m);
}

static int tell(struct rsocket *rs, struct rs_iomap_mr *m)
{
	struct rs_stream *s = &rs->s;
	struct rs_iomap e = { 0 }; /* no mapping */
	int err;

	if (m->mr)
		e = (struct rs_iomap){
			.offset = m->offset,
			.addr = (uintptr_t)m->mr->addr,
			.len = (uint32_t)m->mr->length,
			.rkey = m->mr->rkey,
		};
	s->smsgs++;
	err = rs_stream_write(rs, &e, 0, sizeof(e), s->peer_iomap_addr + m->index * sizeof(e),
			      s->peer_iomap_rkey, true,
			      (uint32_t)RS_MSG_IOMAP << RS_MSG_SHIFT | m->index);
	if (err)
		s->smsgs--;
	return err;
}

int rs_iomap_flush(struct rsocket *rs, int flags)
{
	struct rs_stream *s = &rs->s;
	struct rs_iomap_mr *m, *next;
	int err = 0;

	for (m = s->maps; m && !err; m = next) {
		next = m->next;
		if (m->told)
			continue;
		if (s->smsgs == s->smsgs_limit || !rs_stream_sq_room(s)) {
			err = rs_wait(rs, rs_stream_writable, rs_nonblock(rs, flags),
				      rs->opt.sndtimeo);
			if (!err)
				err = rs_stream_send_err(rs);
		}
		if (!err)
			err = tell(rs, m);
		if (err)
			break;
		m->told = true;
		if (!m->mr)
			unlink_map(s, m);
	}
	s->maps_pending = err != 0;
	return err;
}

void rs_iomap_free(struct rsocket *rs)
{
	while (rs->s.maps)
		unlink_map(&rs->s, rs->s.maps);
}

/* ---- mapping ------------------------------------------------------------------------------------------ */

/* A mapping that is gone, of whose end the peer was not told: its entry can be used. */
static struct rs_iomap_mr *unmapped(const struct rs_stream *s)
{
	struct rs_iomap_mr *m = s->maps;

	while (m && m->mr)
		m = m->next;
	return m;
}

/* A free entry of the peer's table, or UINT32_MAX. */
static uint32_t free_index(const struct rs_stream *s)
{
	for (uint32_t i = 0; i < s->peer_iomap_size; i++) {
		const struct rs_iomap_mr *m = s->maps;

		while (m && m->index != i)
			m = m->next;
		if (!m)
			return i;
	}
	return UINT32_MAX;
}

static int map(struct rsocket *rs, void *buf, size_t len, int prot, uint64_t offset)
{
	struct rs_stream *s = &rs->s;
	struct rs_iomap_mr *m, **end;
	uint32_t index = UINT32_MAX;
	int access = IBV_ACCESS_LOCAL_WRITE;
	struct ibv_mr *mr;

	if (!rs_is_stream(rs) || prot & ~PROT_WRITE || len > UINT32_MAX)
		return -EINVAL;
	if (prot & PROT_WRITE) {
		access |= IBV_ACCESS_REMOTE_WRITE;
		index = free_index(s);
		if (index == UINT32_MAX && !unmapped(s))
			return -ENOMEM;
	}
	mr = ibv_reg_mr(rs->id->pd, buf, len, access);
	if (!mr)
		return -errno;
	m = prot & PROT_WRITE && index == UINT32_MAX ? unmapped(s) : NULL;
	if (!m) {
		m = calloc(1, sizeof(*m));
		if (!m) {
			ibv_dereg_mr(mr);
			return -ENOMEM;
		}
		m->index = index;
		for (end = &s->maps; *end; end = &(*end)->next)
			;
		*end = m;
	}
	m->mr = mr;
	m->offset = offset;
	m->told = m->index == UINT32_MAX;
	s->maps_pending |= !m->told;
	return 0;
}

RS_EXPORT off_t riomap(int fd, void *buf, size_t len, int prot, int flags, off_t offset)
{
	struct rsocket *rs = rs_fd_get(fd);
	int err;

	(void)flags; /* none is defined */
	if (!rs)
		return rs_ret(-EBADF);
	if (rs->type != SOCK_STREAM)
		return rs_ret(-EINVAL);
	if (offset == -1)
		offset = (off_t)(uintptr_t)buf;
	rs_lock(&rs->send_lock);
	err = map(rs, buf, len, prot, (uint64_t)offset);
	rs_unlock(&rs->send_lock);
	return err ? rs_ret(err) : offset;
}

static int unmap(struct rs_stream *s, const void *buf, size_t len)
{
	for (struct rs_iomap_mr *m = s->maps; m; m = m->next) {
		if (!m->mr || m->mr->addr != buf || m->mr->length != len)
			continue;
		if (m->index == UINT32_MAX) {
			unlink_map(s, m);
			return 0;
		}
		/* at once for the peer; what it knows of it goes with the next send */
		ibv_dereg_mr(m->mr);
		m->mr = NULL;
		m->told = false;
		s->maps_pending = true;
		return 0;
	}
	return -EINVAL;
}

RS_EXPORT int riounmap(int fd, void *buf, size_t len)
{
	struct rsocket *rs = rs_fd_get(fd);
	int err;

	if (!rs)
		return rs_ret(-EBADF);
	if (rs->type != SOCK_STREAM)
		return rs_ret(-EINVAL);
	rs_lock(&rs->send_lock);
	err = unmap(&rs->s, buf, len);
	rs_unlock(&rs->send_lock);
	return rs_ret(err);
}

/* ---- writing --------------------------------------------------------------------------------------------- */

static bool has_io_room(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;

	return s->wr_shut || s->closed || s->gone ||
	       (rs->state == RS_CONNECTED && rs_stream_sq_room(s) &&
		s->iotail - s->iodone <= s->ssize - s->ssize / 4);
}

/* A copy of the entry that has this offset. */
static bool find(const struct rsocket *rs, uint64_t offset, struct rs_iomap *out)
{
	const struct rs_stream *s = &rs->s;

	for (uint32_t i = 0; s->iomap && i < rs->opt.iomap_size; i++) {
		const volatile struct rs_iomap *e = &s->iomap[i];

		*out = (struct rs_iomap){ e->offset, e->addr, e->len, e->rkey };
		if (offset >= out->offset && offset - out->offset < out->len)
			return true;
	}
	return false;
}

static int open_iobuf(struct rsocket *rs)
{
	struct rs_stream *s = &rs->s;
	int err;

	s->iobuf = ibv_malloc(rs->id->pd, s->ssize);
	if (!s->iobuf)
		return -errno;
	s->iomr = ibv_reg_mr(rs->id->pd, s->iobuf, s->ssize, IBV_ACCESS_LOCAL_WRITE);
	if (s->iomr)
		return 0;
	err = -errno;
	ibv_free(s->iobuf);
	s->iobuf = NULL;
	return err;
}

/* One WRITE of at most n bytes, for which there is room. How many it took, or -errno. */
static ssize_t write_chunk(struct rsocket *rs, const char *buf, uint32_t n, uint64_t addr,
			   uint32_t rkey)
{
	struct rs_stream *s = &rs->s;
	uint32_t off = (uint32_t)s->iotail & (s->ssize - 1), lkey = 0;
	int err;

	if (n > s->inline_max) {
		n = rs_min(n, s->ssize - off);
		n = (uint32_t)rs_min((uint64_t)n, s->ssize - (s->iotail - s->iodone));
		n = rs_min(n, IO_CHUNK);
		memcpy(s->iobuf + off, buf, n);
		buf = (const char *)s->iobuf + off;
		lkey = s->iomr->lkey;
		s->iotail += n;
	}
	err = rs_stream_write(rs, buf, lkey, n, addr, rkey, false, 0);
	if (err && lkey)
		s->iotail -= n;
	return err ? err : (ssize_t)n;
}

static ssize_t write_all(struct rsocket *rs, const char *buf, size_t len, uint64_t offset,
			 int flags)
{
	struct rs_stream *s = &rs->s;
	struct rs_iomap e;
	size_t done = 0;
	ssize_t n;
	int err = rs_stream_send_err(rs);

	if (!err && !s->iobuf)
		err = open_iobuf(rs);
	if (!err && s->maps_pending)
		err = rs_iomap_flush(rs, flags);
	while (!err && done < len && find(rs, offset, &e)) {
		if (!has_io_room(rs)) {
			err = rs_wait(rs, has_io_room, rs_nonblock(rs, flags), rs->opt.sndtimeo);
			if (err)
				break;
		}
		err = rs_stream_send_err(rs);
		if (err)
			break;
		n = write_chunk(rs, buf + done,
				(uint32_t)rs_min(len - done, (size_t)(e.offset + e.len - offset)),
				e.addr + (offset - e.offset), e.rkey);
		if (n < 0) {
			err = (int)n;
			break;
		}
		done += (size_t)n;
		offset += (uint64_t)n;
	}
	return done ? (ssize_t)done : err;
}

/* Bytes written: fewer where no mapping goes on, 0 where none begins. (size_t)-1: errno. */
RS_EXPORT size_t riowrite(int fd, const void *buf, size_t len, off_t offset, int flags)
{
	struct rsocket *rs = rs_fd_get(fd);
	ssize_t n;

	if (!rs)
		return (size_t)rs_ret(-EBADF);
	if (rs->type != SOCK_STREAM)
		return (size_t)rs_ret(-EINVAL);
	if (!rs_is_stream(rs)) /* the peer has mapped nothing */
		return 0;
	rs_lock(&rs->send_lock);
	n = write_all(rs, buf, len, (uint64_t)offset, flags);
	rs_unlock(&rs->send_lock);
	/* the program may wait for an answer in memory, with no call: nothing may be kept back */
	rs_lock(&rs->lock);
	rs_process(rs);
	rs_unlock(&rs->lock);
	if (n >= 0)
		return (size_t)n;
	errno = (int)-n;
	return (size_t)-1;
}
