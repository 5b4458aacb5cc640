/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * socket.c - rsockets: making and closing them, bind, listen, accept, connect, shutdown, names.
 * Any thread.
 *
 * An rsocket's descriptor is that of its CM channel: a descriptor of its own that the kernel knows,
 * of no use for read(2) or write(2). All descriptors of rsockets close on exec, whatever FD_CLOEXEC
 * says, since the program that is executed could do nothing with them.
 *
 * Tests: system/rs_socket.c, system/rs_stream.c, system/rs_dgram.c
 */
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/rsocket/rsocket.h"

#define CLOSE_US 2000000u /* us that a close waits for the data posted before it */
#define EXIT_US	 100000u  /* the same at exit(), for each connection */

/* ---- addresses ---------------------------------------------------------------------------------------- */

socklen_t rs_addr_len(const struct sockaddr *sa)
{
	switch (sa->sa_family) {
	case AF_INET:
		return sizeof(struct sockaddr_in);
	case AF_INET6:
		return sizeof(struct sockaddr_in6);
	default:
		return 0;
	}
}

bool rs_addr_eq(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in *a4 = (const void *)a, *b4 = (const void *)b;
	const struct sockaddr_in6 *a6 = (const void *)a, *b6 = (const void *)b;

	if (a->sa_family != b->sa_family)
		return false;
	if (a->sa_family == AF_INET)
		return a4->sin_port == b4->sin_port && a4->sin_addr.s_addr == b4->sin_addr.s_addr;
	return a->sa_family == AF_INET6 && a6->sin6_port == b6->sin6_port &&
	       IN6_ARE_ADDR_EQUAL(&a6->sin6_addr, &b6->sin6_addr);
}

/*
 * What a program gives as an address of a datagram rsocket: 0 or -errno, as by the UDP socket that
 * rdma-core's has. Those of streams go to rdma_cm unseen, as there.
 */
static int check_addr(const struct rsocket *rs, const struct sockaddr *sa, socklen_t len)
{
	if (!sa)
		return len ? -EFAULT : -EINVAL;
	if (len < sizeof(sa->sa_family) || len < rs_addr_len(sa))
		return -EINVAL;
	return sa->sa_family == rs->domain ? 0 : -EAFNOSUPPORT;
}

/* ---- making ----------------------------------------------------------------------------------------------- */

struct rsocket *rs_new(int domain, int type)
{
	struct rsocket *rs = calloc(1, sizeof(*rs));
	int err;

	if (!rs)
		return NULL;
	rs->type = type;
	rs->domain = domain;
	rs->pid = getpid();
	rs->fd = -1;
	rs->accepted_end = &rs->accepted;
	rs_opt_defaults(&rs->opt);
	rs->ec = rdma_create_event_channel();
	if (!rs->ec) {
		err = errno;
		goto err_free;
	}
	if (fcntl(rs->ec->fd, F_SETFL, O_NONBLOCK) || fcntl(rs->ec->fd, F_SETFD, FD_CLOEXEC)) {
		err = errno;
		goto err_free;
	}
	err = -rs_fd_put(rs->ec->fd, rs);
	if (err)
		goto err_free;
	rs->fd = rs->ec->fd;
	return rs;

err_free:
	rs_free(rs);
	errno = err;
	return NULL;
}

void rs_free(struct rsocket *rs)
{
	if (!rs)
		return;
	rs_fd_del(rs->fd);
	if (rs->type == SOCK_DGRAM)
		rs_dgram_free(rs);
	else
		rs_stream_free(rs);
	if (rs->id)
		rdma_destroy_id(rs->id);
	if (rs->ec)
		rdma_destroy_event_channel(rs->ec);
	rs_opt_free(&rs->opt);
	free(rs);
}

RS_EXPORT int rsocket(int domain, int type, int protocol)
{
	int flags = type & (SOCK_CLOEXEC | SOCK_NONBLOCK), err;
	struct rsocket *rs;

	type &= ~(SOCK_CLOEXEC | SOCK_NONBLOCK);
	/* first of all: librspreload comes here for each socket of the program */
	if ((domain != AF_INET && domain != AF_INET6 && domain != AF_IB) ||
	    !((type == SOCK_STREAM && (!protocol || protocol == IPPROTO_TCP)) ||
	      (type == SOCK_DGRAM && (!protocol || protocol == IPPROTO_UDP))))
		return rs_ret(-ENOTSUP);
	if (domain == AF_IB && type == SOCK_DGRAM)
		return rs_ret(-EAFNOSUPPORT);
	rs = rs_new(domain, type);
	if (!rs)
		return -1;
	if (rdma_create_id(rs->ec, &rs->id, rs, type == SOCK_STREAM ? RDMA_PS_TCP : RDMA_PS_UDP)) {
		err = -errno;
		rs->id = NULL;
		rs_free(rs);
		return rs_ret(err);
	}
	rs->fs_flags = flags & SOCK_NONBLOCK ? O_RDWR | O_NONBLOCK : O_RDWR;
	rs->fd_flags = flags & SOCK_CLOEXEC ? FD_CLOEXEC : 0;
	return rs->fd;
}

/* ---- bind, listen, accept ------------------------------------------------------------------------------------- */

static int bind_stream(struct rsocket *rs, const struct sockaddr *sa)
{
	int err = rs_opt_bind(rs);

	if (err)
		return err;
	if (rdma_bind_addr(rs->id, (struct sockaddr *)sa))
		return -errno;
	rs->state = RS_BOUND;
	return 0;
}

RS_EXPORT int rbind(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct rsocket *rs = rs_fd_get(fd);
	int err;

	if (!rs)
		return rs_ret(-EBADF);
	err = rs->type == SOCK_DGRAM ? check_addr(rs, sa, len) : 0;
	if (err)
		return rs_ret(err);
	rs_lock(&rs->lock);
	err = rs->type == SOCK_STREAM ? bind_stream(rs, sa) : rs_dgram_bind(rs, sa);
	rs_unlock(&rs->lock);
	if (!err && rs->type == SOCK_DGRAM)
		rs_service_add(rs);
	return rs_ret(err);
}

RS_EXPORT int rlisten(int fd, int backlog)
{
	struct rsocket *rs = rs_fd_get(fd);
	bool first = false;
	int err = 0;

	if (!rs)
		return rs_ret(-EBADF);
	if (rs->type != SOCK_STREAM)
		return rs_ret(-EOPNOTSUPP);
	rs_lock(&rs->lock);
	if (rs->state == RS_INIT || rs->state == RS_BOUND) {
		err = rs->state == RS_INIT ? rs_opt_apply(rs) : 0;
		if (!err && rdma_listen(rs->id, backlog))
			err = -errno;
		if (!err) {
			rs->state = RS_LISTENING;
			first = true;
		}
	} else if (rs->state != RS_LISTENING) {
		err = -EINVAL;
	}
	if (!err)
		rs->backlog = backlog <= 0 ? 1 : rs_min((unsigned)backlog, RS_ACCEPT_MAX);
	rs_unlock(&rs->lock);
	if (first)
		rs_service_add(rs);
	return rs_ret(err);
}

static bool has_accepted(struct rsocket *rs)
{
	return rs->num_accepted || rs->state == RS_FAILED;
}

/*
 * The new rsocket was made when the request was seen, but its number is one that was free when the
 * program called, as accept(2)'s: librspreload of rdma-core 44 opens the program's descriptor just
 * before, and its select() finds rsockets only if their numbers are above those.
 */
static void renumber(struct rsocket *rs)
{
	int fd = fcntl(rs->fd, F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return;
	if (rs_fd_put(fd, rs)) {
		close(fd);
		return;
	}
	rs_fd_del(rs->fd);
	close(rs->fd);
	rs->fd = rs->ec->fd = fd;
}

RS_EXPORT int raccept(int fd, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsocket *rs = rs_fd_get(fd), *new = NULL;
	int err;

	if (!rs)
		return rs_ret(-EBADF);
	if (rs->state != RS_LISTENING && !(rs->state == RS_FAILED && rs->backlog))
		return rs_ret(-EBADF); /* a datagram one never is */
	do {
		err = rs_wait(rs, has_accepted, rs_nonblock(rs, 0), rs->opt.rcvtimeo);
		if (err)
			return rs_ret(err);
		rs_lock(&rs->lock);
		new = rs->accepted;
		if (new) { /* else another thread was quicker */
			rs->accepted = new->next_accepted;
			if (!rs->accepted)
				rs->accepted_end = &rs->accepted;
			rs->num_accepted--;
		} else if (rs->state == RS_FAILED) { /* its router is gone */
			err = -ENODEV;
		}
		rs_unlock(&rs->lock);
		if (err)
			return rs_ret(err);
	} while (!new);
	renumber(new);
	if (addr && addrlen)
		rgetpeername(new->fd, addr, addrlen);
	return new->fd;
}

/* ---- connect --------------------------------------------------------------------------------------------- */

static bool decided(struct rsocket *rs)
{
	return !rs_opening(rs->state);
}

static int connect_stream(struct rsocket *rs, const struct sockaddr *sa, socklen_t len)
{
	struct sockaddr_storage to = { 0 };
	int err;

	if (!sa && len)
		return -EFAULT;
	if (len)
		memcpy(&to, sa, rs_min((size_t)len, sizeof(to)));

	rs_lock(&rs->lock);
	rs_cm_process(rs);
	switch ((enum rs_state)rs->state) {
	case RS_INIT:
	case RS_BOUND:
		err = rs_connect_start(rs, &to);
		break;
	case RS_RESOLVING_ADDR:
	case RS_RESOLVING_ROUTE:
	case RS_CONNECTING:
		err = 0; /* each call goes on with it */
		break;
	case RS_ACCEPTING:
	case RS_CONNECTED:
		rs_unlock(&rs->lock);
		return 0;
	case RS_FAILED:
		err = -rs_take_err(rs);
		if (!err)
			err = -ENOTCONN;
		break;
	default:
		err = -EINVAL;
	}
	rs_unlock(&rs->lock);
	if (err)
		return err;
	if (rs->fs_flags & O_NONBLOCK)
		return -EINPROGRESS;
	err = rs_wait_served(rs, decided, rs->opt.sndtimeo);
	if (err)
		return err == -EAGAIN ? -EINPROGRESS : err;
	return rs->state == RS_FAILED ? -rs_take_err(rs) : 0;
}

RS_EXPORT int rconnect(int fd, const struct sockaddr *sa, socklen_t len)
{
	struct rsocket *rs = rs_fd_get(fd);
	bool fresh = false;
	int err;

	if (!rs)
		return rs_ret(-EBADF);
	if (rs->type == SOCK_STREAM)
		return rs_ret(connect_stream(rs, sa, len));
	if (sa && len >= sizeof(sa->sa_family) && sa->sa_family == AF_UNSPEC)
		err = 0;
	else
		err = check_addr(rs, sa, len);
	if (err)
		return rs_ret(err);

	rs_lock(&rs->lock);
	if (rs->state == RS_INIT) {
		err = rs_dgram_open(rs);
		fresh = !err;
	}
	if (!err)
		err = rs_dgram_connect(rs, sa);
	rs_unlock(&rs->lock);
	if (fresh)
		rs_service_add(rs);
	return rs_ret(err);
}

/* ---- shutdown, close ------------------------------------------------------------------------------------- */

/* As in rdma-core's, what is not connected has nothing to shut, and what is unknown is SHUT_RD. */
RS_EXPORT int rshutdown(int fd, int how)
{
	struct rsocket *rs = rs_fd_get(fd);
	int err = 0;

	if (!rs)
		return rs_ret(-EBADF);
	if (how != SHUT_WR && how != SHUT_RDWR)
		how = SHUT_RD;
	rs_lock(&rs->lock);
	if (rs->type == SOCK_STREAM && rs_is_stream(rs))
		err = rs_stream_shut(rs, how);
	rs_unlock(&rs->lock);
	return rs_ret(err);
}

/* Say the end and wait until everything before it is at the peer; it need do nothing for that. */
static void farewell(struct rsocket *rs, uint64_t timeout /* us */)
{
	if (rs->type == SOCK_DGRAM) {
		if (rs->state == RS_OPEN)
			rs_wait(rs, rs_dgram_flushed, false, timeout);
		return;
	}
	if (!rs_is_stream(rs) || (rs->opt.linger.l_onoff && !rs->opt.linger.l_linger))
		return;
	rs_lock(&rs->lock);
	rs_stream_shut(rs, SHUT_RDWR);
	rs_unlock(&rs->lock);
	rs_wait(rs, rs_stream_flushed, false, timeout);
}

/* Also of one that is not in the table any more, with its farewell to the peer. */
static void rs_close(struct rsocket *rs)
{
	struct rsocket *next;

	if (rs->pid != getpid()) { /* the parent's: nothing of it may be touched */
		rs_fd_del(rs->fd);
		close(rs->fd);
		return;
	}
	rs_service_del(rs);
	farewell(rs, CLOSE_US);
	rs_lock(&rs->lock);
	for (struct rsocket *a = rs->accepted; a; a = next) {
		next = a->next_accepted;
		rs_close(a);
	}
	if (rs_is_stream(rs))
		rs_stream_gone(rs, 0);
	rs_unlock(&rs->lock);
	rs_free(rs);
}

RS_EXPORT int rclose(int fd)
{
	struct rsocket *rs = rs_fd_get(fd);

	if (!rs)
		return rs_ret(-EBADF);
	rs_close(rs);
	return 0;
}

/*
 * A program that ends without closing has closed, as with sockets. One that is killed has not: its
 * peers find out from the CM.
 */
__attribute__((destructor)) static void close_all(void)
{
	pid_t pid = getpid();
	struct rsocket *rs;
	int fd = 0;

	while ((rs = rs_fd_next(&fd)))
		/* one that is locked has a thread that is still at it */
		if (rs->pid == pid && rs_trylock(&rs->send_lock)) {
			rs_unlock(&rs->send_lock);
			farewell(rs, EXIT_US);
		}
}

/* ---- names ----------------------------------------------------------------------------------------------- */

/* What is neither IPv4 nor IPv6 has as many bytes of it as IPv6 has, as in rdma-core's. */
static int put_name(const struct sockaddr *sa, struct sockaddr *addr, socklen_t *addrlen)
{
	socklen_t len = sa->sa_family == AF_INET ? sizeof(struct sockaddr_in) :
						   sizeof(struct sockaddr_in6);

	if (!addrlen || (!addr && *addrlen))
		return -EFAULT;
	if (addr)
		memcpy(addr, sa, rs_min(*addrlen, len));
	*addrlen = len;
	return 0;
}

/* Of a stream that is not connected the family is AF_UNSPEC, and that is no error there. */
RS_EXPORT int rgetpeername(int fd, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsocket *rs = rs_fd_get(fd);

	if (!rs)
		return rs_ret(-EBADF);
	if (rs->type == SOCK_STREAM)
		return rs_ret(put_name(rdma_get_peer_addr(rs->id), addr, addrlen));
	if (rs->d.to.sa.sa_family == AF_UNSPEC)
		return rs_ret(-ENOTCONN);
	return rs_ret(put_name(&rs->d.to.sa, addr, addrlen));
}

RS_EXPORT int rgetsockname(int fd, struct sockaddr *addr, socklen_t *addrlen)
{
	struct rsocket *rs = rs_fd_get(fd);
	union rs_addr none = { .sa.sa_family = AF_UNSPEC };
	const struct sockaddr *sa;

	if (!rs)
		return rs_ret(-EBADF);
	sa = rdma_get_local_addr(rs->id);
	if (sa->sa_family == AF_UNSPEC) { /* not bound yet */
		none.sa.sa_family = (sa_family_t)rs->domain;
		sa = &none.sa;
	}
	return rs_ret(put_name(sa, addr, addrlen));
}
