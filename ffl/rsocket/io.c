/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * io.c - the calls that send and receive. Any thread; one at a time sends on an rsocket and
 * one receives.
 *
 * A stream that is still connecting gives EAGAIN, or waits. Control messages (SCM_*) do not exist:
 * giving some, or room for them, fails with ENOTSUP. Flags that are not known change nothing; that
 * goes for MSG_OOB, and a stream's msg_name. All of that is as in rdma-core's rsockets.
 *
 * Tests: system/rs_stream.c, system/rs_dgram.c
 */
#include <limits.h>
#include <string.h>

#include "ffl/rsocket/rsocket.h"

/* ---- where a call is in its buffers ------------------------------------------------------------------ */

static void advance(struct rs_iter *it, size_t len)
{
	it->off += len;
	while (it->n && it->off >= it->iov->iov_len) {
		it->off -= it->iov->iov_len;
		it->iov++;
		it->n--;
	}
}

static char *at(const struct rs_iter *it, size_t *len)
{
	*len = rs_min(*len, it->iov->iov_len - it->off);
	return (char *)it->iov->iov_base + it->off;
}

void rs_gather(struct rs_iter *it, void *dst, size_t len)
{
	while (len) {
		size_t k = len;
		const char *p = at(it, &k);

		memcpy(dst, p, k);
		dst = (char *)dst + k;
		len -= k;
		advance(it, k);
	}
}

void rs_scatter(struct rs_iter *it, const void *src, size_t len)
{
	while (len) {
		size_t k = len;
		char *p = at(it, &k);

		memcpy(p, src, k);
		src = (const char *)src + k;
		len -= k;
		advance(it, k);
	}
}

const void *rs_contiguous(struct rs_iter *it, size_t len)
{
	size_t k = len;
	const char *p = at(it, &k);

	if (k < len)
		return NULL;
	advance(it, len);
	return p;
}

/* Bytes of all buffers, or -1 and EINVAL. */
static ssize_t iov_len(const struct iovec *iov, size_t n)
{
	size_t len = 0;

	if (n > IOV_MAX)
		return rs_ret(n > INT32_MAX ? -EINVAL : -EMSGSIZE);
	for (size_t i = 0; i < n; i++)
		if (iov[i].iov_len > (size_t)SSIZE_MAX - len)
			return rs_ret(-EINVAL);
		else
			len += iov[i].iov_len;
	return (ssize_t)len;
}

static struct rs_iter iter(const struct iovec *iov, size_t n)
{
	struct rs_iter it = { .iov = iov, .n = (int)n };

	advance(&it, 0); /* no empty buffer in front */
	return it;
}

/* The rsocket and where the call begins: the length, or -1 and errno. */
static ssize_t begin(int fd, const struct iovec *iov, size_t n, struct rsocket **rs,
		     struct rs_iter *it)
{
	ssize_t len = iov_len(iov, n);

	*rs = rs_fd_get(fd);
	if (!*rs)
		return rs_ret(-EBADF);
	if (len >= 0)
		*it = iter(iov, n);
	return len;
}

/* ---- states ---------------------------------------------------------------------------------------------- */

static bool decided(struct rsocket *rs)
{
	return !rs_opening(rs->state);
}

/* 0: data may be sent and received, or -errno; `failed`: where connecting has failed. */
static int connected(struct rsocket *rs, int flags, int failed)
{
	int err;

	if (rs_is_stream(rs))
		return 0;
	if (rs_opening(rs->state)) {
		err = rs_wait(rs, decided, rs_nonblock(rs, flags), 0);
		if (err)
			return err;
	}
	if (rs_is_stream(rs))
		return 0;
	return rs->state == RS_FAILED ? failed : -ENOTCONN;
}

/* ---- receiving --------------------------------------------------------------------------------------------- */

static ssize_t recv_stream(struct rsocket *rs, struct rs_iter *it, size_t len, int flags)
{
	ssize_t n = connected(rs, flags, 0);

	if (n < 0 || !rs_is_stream(rs)) /* the end, as rdma-core's has it */
		return n;
	rs_lock(&rs->recv_lock);
	n = rs_stream_recv(rs, it, len, flags);
	rs_unlock(&rs->recv_lock);
	return n;
}

static ssize_t recv_dgram(struct rsocket *rs, struct rs_iter *it, size_t len, int flags,
			  union rs_addr *from, size_t *full)
{
	ssize_t n;

	rs_lock(&rs->recv_lock);
	n = rs_dgram_recv(rs, it, len, flags, from, full);
	rs_unlock(&rs->recv_lock);
	return n;
}

static void put_name(const union rs_addr *from, struct sockaddr *addr, socklen_t *addrlen)
{
	socklen_t len = rs_addr_len(&from->sa);

	if (!addr || !addrlen)
		return;
	memcpy(addr, from, rs_min(*addrlen, len));
	*addrlen = len;
}

static ssize_t recv_any(int fd, const struct iovec *iov, size_t n, int flags, union rs_addr *from,
			size_t *full)
{
	struct rs_iter it;
	struct rsocket *rs;
	ssize_t len = begin(fd, iov, n, &rs, &it), got;

	if (len < 0)
		return len;
	if (rs->type == SOCK_DGRAM) {
		got = recv_dgram(rs, &it, (size_t)len, flags, from, full);
	} else {
		got = recv_stream(rs, &it, (size_t)len, flags);
		*full = got < 0 ? 0 : (size_t)got;
	}
	if (got >= 0)
		return got;
	errno = (int)-got;
	return -1;
}

RS_EXPORT ssize_t rrecvfrom(int fd, void *buf, size_t len, int flags, struct sockaddr *addr,
			    socklen_t *addrlen)
{
	const struct iovec iov = { .iov_base = buf, .iov_len = len };
	union rs_addr from = { .sa.sa_family = AF_UNSPEC };
	size_t full;
	ssize_t n = recv_any(fd, &iov, 1, flags, &from, &full);

	if (n < 0)
		return n;
	if (from.sa.sa_family != AF_UNSPEC)
		put_name(&from, addr, addrlen);
	else if (addr && addrlen)
		rgetpeername(fd, addr, addrlen);
	return flags & MSG_TRUNC && full > (size_t)n ? (ssize_t)full : n;
}

RS_EXPORT ssize_t rrecv(int fd, void *buf, size_t len, int flags)
{
	return rrecvfrom(fd, buf, len, flags, NULL, NULL);
}

RS_EXPORT ssize_t rrecvmsg(int fd, struct msghdr *msg, int flags)
{
	union rs_addr from = { .sa.sa_family = AF_UNSPEC };
	size_t full;
	ssize_t n;

	if (!msg)
		return rs_ret(-EFAULT);
	if (msg->msg_control && msg->msg_controllen)
		return rs_ret(-ENOTSUP);
	n = recv_any(fd, msg->msg_iov, msg->msg_iovlen, flags, &from, &full);
	if (n < 0)
		return n;
	msg->msg_controllen = 0;
	msg->msg_flags = full > (size_t)n ? MSG_TRUNC : 0;
	if (from.sa.sa_family != AF_UNSPEC)
		put_name(&from, msg->msg_name, &msg->msg_namelen);
	else
		msg->msg_namelen = 0;
	return n;
}

RS_EXPORT ssize_t rreadv(int fd, const struct iovec *iov, int n)
{
	union rs_addr from;
	size_t full;

	return n < 0 ? rs_ret(-EINVAL) : recv_any(fd, iov, (size_t)n, 0, &from, &full);
}

RS_EXPORT ssize_t rread(int fd, void *buf, size_t len)
{
	return rrecvfrom(fd, buf, len, 0, NULL, NULL);
}

/* ---- sending --------------------------------------------------------------------------------------------------- */

static ssize_t send_any(int fd, const struct iovec *iov, size_t n, int flags,
			const struct sockaddr *to)
{
	struct rs_iter it;
	struct rsocket *rs;
	ssize_t len = begin(fd, iov, n, &rs, &it), sent;

	if (len < 0)
		return len;
	if (rs->type == SOCK_STREAM) {
		if (!len && !rs_opening(rs->state) && !rs_is_stream(rs))
			return 0;
		sent = connected(rs, flags, -ECONNRESET);
		if (sent < 0)
			return rs_ret((int)sent);
	}
	rs_lock(&rs->send_lock);
	if (rs->type == SOCK_STREAM)
		sent = rs_stream_send(rs, &it, (size_t)len, flags);
	else
		sent = rs_dgram_send(rs, &it, (size_t)len, flags, to);
	rs_unlock(&rs->send_lock);
	if (sent >= 0)
		return sent;
	errno = (int)-sent;
	return -1;
}

RS_EXPORT ssize_t rsendto(int fd, const void *buf, size_t len, int flags, const struct sockaddr *to,
			  socklen_t to_len)
{
	const struct iovec iov = { .iov_base = (void *)buf, .iov_len = len };
	struct rsocket *rs = rs_fd_get(fd);

	if (!rs)
		return rs_ret(-EBADF);
	if (rs->type == SOCK_STREAM && (to || to_len))
		return rs_ret(-EISCONN);
	if (to && (to_len < sizeof(to->sa_family) || to_len < rs_addr_len(to)))
		return rs_ret(-EINVAL);
	return send_any(fd, &iov, 1, flags, to);
}

RS_EXPORT ssize_t rsend(int fd, const void *buf, size_t len, int flags)
{
	return rsendto(fd, buf, len, flags, NULL, 0);
}

RS_EXPORT ssize_t rsendmsg(int fd, const struct msghdr *msg, int flags)
{
	struct rsocket *rs = rs_fd_get(fd);
	const struct sockaddr *to;

	if (!msg)
		return rs_ret(-EFAULT);
	if (msg->msg_control && msg->msg_controllen)
		return rs_ret(-ENOTSUP);
	if (!rs)
		return rs_ret(-EBADF);
	to = msg->msg_namelen && rs->type == SOCK_DGRAM ? msg->msg_name : NULL;
	if (to && (msg->msg_namelen < sizeof(to->sa_family) || msg->msg_namelen < rs_addr_len(to)))
		return rs_ret(-EINVAL);
	return send_any(fd, msg->msg_iov, msg->msg_iovlen, flags, to);
}

RS_EXPORT ssize_t rwritev(int fd, const struct iovec *iov, int n)
{
	return n < 0 ? rs_ret(-EINVAL) : send_any(fd, iov, (size_t)n, 0, NULL);
}

RS_EXPORT ssize_t rwrite(int fd, const void *buf, size_t len)
{
	return rsendto(fd, buf, len, 0, NULL, 0);
}
