/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c tests/rig/verbs/rss.c tests/rig/verbs/dynsym.c -lrdmacm -lpthread */
/* timeout: 600 */
/*
 * rs_arguments.c - bad arguments of rsockets, function by function: descriptors that are closed, or
 * are no rsocket; rsockets of the other type and in each state; NULL, lengths, flags, options,
 * addresses. What is expected is what rdma-core 44's librdmacm/rsocket.c answers, which is not always
 * what a socket would. Comments name the place where that is not obvious.
 *
 * Each case has the name of a function; those that move data are in rs_arguments_data.c. "every_name"
 * fails if a function is exported without a case.
 *
 * Not tried, because the real library crashes on it:
 *	- NULL where it looks without a check: addresses (with a length), results, option values that
 *	  it knows, messages, iovecs
 *	- datagrams: rlisten(), riomap(), riounmap(), riowrite(), rsendmsg(), rwritev(), which take the
 *	  rsocket for a stream; rsend() before rconnect(); rsendto() without an address or with more
 *	  than 2,048 bytes
 *	- sending (of some bytes) and receiving on a stream that never began to connect: there is no CQ
 *	- counts of buffers below 1: the first one is used all the same
 *	- descriptors below 0 and above 65,535 where it does not look whether they are in its table
 * And where it does what nobody can want: rclose() of what is no rsocket returns EBADF, not -1; here
 * it returns -1. Options that it refuses and this library knows (SO_TYPE, SO_RCVTIMEO, IP_TOS and the
 * like) are rs_socket.c's, as are SOCK_NONBLOCK and SOCK_CLOEXEC.
 */
#include "tests/rig/verbs/dynsym.h"
#include "tests/rig/verbs/rss.h"

#include <fcntl.h>
#include <infiniband/sa.h>
#include <netinet/tcp.h>

/* ---- rsocket, rclose ------------------------------------------------------------------------------- */

static void t_rsocket(void)
{
	static const int streams[] = { AF_INET, AF_INET6, AF_IB };
	int fd;

	for (int domain = -1; domain < 64; domain++) {
		if (domain == AF_INET || domain == AF_INET6 || domain == AF_IB)
			continue;
		CHECK_IS(rsocket(domain, SOCK_STREAM, 0), ENOTSUP);
		CHECK_IS(rsocket(domain, SOCK_DGRAM, 0), ENOTSUP);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(streams); i++) {
		for (int type = -1; type < 16; type++)
			if (type != SOCK_STREAM && type != SOCK_DGRAM)
				CHECK_IS(rsocket(streams[i], type, 0), ENOTSUP);
		CHECK_IS(rsocket(streams[i], SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
		CHECK_IS(rsocket(streams[i], SOCK_STREAM, -1), ENOTSUP);
		CHECK_IS(rsocket(streams[i], SOCK_DGRAM, IPPROTO_TCP), ENOTSUP);
		CHECK_IS(rsocket(streams[i], SOCK_DGRAM, IPPROTO_ICMP), ENOTSUP);
		fd = rsocket(streams[i], SOCK_STREAM, IPPROTO_TCP);
		CHECK(fd >= 0);
		CHECK_OK(rclose(fd));
	}
	CHECK_IS(rsocket(AF_IB, SOCK_DGRAM, 0), EAFNOSUPPORT); /* ds_init(): there is no such UDP */
}

static void t_rclose(void)
{
	NO_RSOCKET(rclose(fd));
	for (enum rss_state s = 0; s < NUM_STATES; s++) {
		struct rss f = rss_open(s);

		CHECK_OK(rclose(f.fd));
		CHECK_IS(rclose(f.fd), EBADF);
		if (f.has_pair) {
			CHECK_OK(rclose(f.fd == f.pair.a ? f.pair.b : f.pair.a));
			CHECK_OK(rclose(f.pair.l));
		}
	}
}

/* ---- bind, listen, accept, connect ---------------------------------------------------------------------- */

static int bind_self(int fd)
{
	struct sockaddr_in self = cmt_self();

	return rbind(fd, SA(&self), sizeof(self));
}

static int bind_null(int fd)
{
	return rbind(fd, NULL, 0);
}

static int bind_unix(int fd)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNIX };

	return rbind(fd, SA(&ss), sizeof(ss));
}

static int bind_nobodys(int fd)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_addr = { htonl(0xc0000201) } };

	return rbind(fd, SA(&in), sizeof(in));
}

static void bind_taken(int type, int err)
{
	struct sockaddr_in any = { .sin_family = AF_INET }, self = cmt_self();
	int a = rsocket(AF_INET, type, 0), b = rsocket(AF_INET, type, 0);
	socklen_t len = sizeof(any);

	CHECK_OK(rbind(a, SA(&any), sizeof(any)));
	CHECK_OK(rgetsockname(a, SA(&any), &len));
	self.sin_port = any.sin_port;
	CHECK_IS(rbind(b, SA(&self), sizeof(self)), err);
	CHECK_IS(rbind(b, SA(&any), sizeof(any)), err);
	CHECK_OK(rclose(a));
	CHECK_OK(rbind(b, SA(&self), sizeof(self)));
	CHECK_OK(rclose(b));
}

static void t_rbind(void)
{
	struct sockaddr_in self = cmt_self();
	struct sockaddr_in6 any6 = { .sin6_family = AF_INET6 };
	int fd;

	NO_RSOCKET(rbind(fd, SA(&self), sizeof(self)));
	IN_STATES(bind_self, BIT(INIT) | BIT(DGRAM), EINVAL, ALL);
	/* streams: rdma_bind_addr(), datagrams: bind() */
	IN_STATES(bind_null, 0, EINVAL, ALL);
	IN_STATES(bind_unix, 0, EINVAL, STREAMS);
	IN_STATES(bind_unix, 0, EAFNOSUPPORT, BIT(DGRAM));
	IN_STATES(bind_nobodys, 0, EADDRNOTAVAIL, BIT(INIT) | BIT(DGRAM));
	bind_taken(SOCK_STREAM, EADDRNOTAVAIL); /* cma_check_port() */
	bind_taken(SOCK_DGRAM, EADDRINUSE);

	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_OK(rbind(fd, SA(&self), 0)); /* the length is not looked at */
	CHECK_OK(rclose(fd));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_OK(rbind(fd, SA(&any6), sizeof(any6))); /* nor the family */
	CHECK_OK(rclose(fd));
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK_IS(rbind(fd, NULL, sizeof(self)), EFAULT);
	for (socklen_t len = 0; len < sizeof(self); len++)
		CHECK_IS(rbind(fd, SA(&self), len), EINVAL);
	CHECK_IS(rbind(fd, SA(&any6), sizeof(any6)), EAFNOSUPPORT);
	CHECK_OK(rbind(fd, SA(&self), sizeof(self)));
	CHECK_OK(rclose(fd));
}

static int listen_one(int fd)
{
	return rlisten(fd, 1);
}

static int listen_negative(int fd)
{
	return rlisten(fd, -1);
}

static void t_rlisten(void)
{
	NO_RSOCKET(rlisten(fd, 1));
	IN_STATES(listen_one, UNCONNECTED, EINVAL, STREAMS); /* twice is fine */
	IN_STATES(listen_negative, UNCONNECTED, EINVAL, STREAMS);
}

static int accept_any(int fd)
{
	return raccept(fd, NULL, NULL);
}

static void t_raccept(void)
{
	struct sockaddr_in addr;
	socklen_t len = sizeof(addr);
	int l;

	NO_RSOCKET(raccept(fd, NULL, NULL));
	IN_STATES(accept_any, 0, EBADF, ALL & ~BIT(LISTENING));
	l = rst_listener(&addr, 1);
	rst_nonblocking(l);
	CHECK_IS(raccept(l, SA(&addr), &len), EAGAIN);
	CHECK_OK(rclose(l));
}

static struct sockaddr_in there;

static int connect_there(int fd)
{
	return rconnect(fd, SA(&there), sizeof(there));
}

static void t_rconnect(void)
{
	struct sockaddr_storage ss = { 0 };
	struct sockaddr_in6 in6 = { .sin6_family = AF_INET6 };
	int l = rst_listener(&there, 4), fd, a;

	NO_RSOCKET(rconnect(fd, SA(&there), sizeof(there)));
	/* rs_do_connect(): connected is connected */
	IN_STATES(connect_there, BIT(INIT) | BIT(BOUND) | BIT(CONNECTED) | BIT(ACCEPTED) | DGRAMS,
		  EINVAL, BIT(LISTENING));
	IN_STATES(connect_there, 0, ENOTCONN, BIT(FAILED));
	for (int family = 0; family < 64; family++) {
		if (family == AF_INET || family == AF_INET6 || family == AF_IB)
			continue;
		ss.ss_family = (sa_family_t)family;
		fd = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK_IS(rconnect(fd, SA(&ss), sizeof(ss)), EINVAL);
		CHECK_OK(rclose(fd));
		if (family == AF_UNSPEC) /* ends the association */
			continue;
		fd = rsocket(AF_INET, SOCK_DGRAM, 0);
		CHECK_IS(rconnect(fd, SA(&ss), sizeof(ss)), EAFNOSUPPORT);
		CHECK_OK(rclose(fd));
	}
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(rconnect(fd, NULL, 0), EINVAL);
	CHECK_OK(rclose(fd));
	fd = rss_bound(SOCK_STREAM);
	CHECK_IS(rconnect(fd, SA(&in6), sizeof(in6)), EINVAL); /* it has another family */
	CHECK_OK(rclose(fd));
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	/* what is given of the address is used: to the wildcard's port 0 */
	CHECK_IS(rconnect(fd, SA(&there), sizeof(there.sin_family)), ECONNREFUSED);
	CHECK_OK(rclose(fd));
	fd = rsocket(AF_INET, SOCK_DGRAM, 0);
	CHECK_IS(rconnect(fd, NULL, sizeof(there)), EFAULT);
	for (socklen_t len = 0; len < sizeof(there); len++)
		CHECK_IS(rconnect(fd, SA(&there), len), EINVAL);
	CHECK_IS(rconnect(fd, SA(&in6), sizeof(in6)), EAFNOSUPPORT);
	CHECK_OK(rclose(fd));
	CHECK_OK(rclose(l));
	l = rst_listener(&there, 4);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	rst_nonblocking(fd);
	CHECK_IS(connect_there(fd), EINPROGRESS);
	CHECK_IS(connect_there(fd), EINPROGRESS); /* each call goes on with it */
	a = raccept(l, NULL, NULL);
	CHECK(a >= 0);
	CHECK(rst_poll(fd, POLLOUT, 10000) & POLLOUT);
	CHECK_OK(connect_there(fd));
	CHECK_OK(rclose(a));
	CHECK_OK(rclose(fd));
	CHECK_OK(rclose(l));
}

/* ---- shutdown, names --------------------------------------------------------------------------------------- */

static int shut_how;

static int shut(int fd)
{
	return rshutdown(fd, shut_how);
}

static void t_rshutdown(void)
{
	static const int how[] = { SHUT_RD, SHUT_WR, SHUT_RDWR, 3, -1, 77 };

	NO_RSOCKET(rshutdown(fd, SHUT_RDWR));
	for (unsigned i = 0; i < ARRAY_SIZE(how); i++) {
		shut_how = how[i];
		IN_STATES(shut, ALL, 0, 0); /* what is not connected has nothing to shut */
	}
}

static int peer_name(int fd)
{
	struct sockaddr_in6 in6;
	socklen_t len = sizeof(in6);

	return rgetpeername(fd, SA(&in6), &len);
}

static int peer_length(int fd)
{
	socklen_t len = 0;

	return rgetpeername(fd, NULL, &len);
}

static void t_rgetpeername(void)
{
	struct sockaddr_in6 in6;
	socklen_t len = sizeof(in6);
	struct rss f;

	NO_RSOCKET(rgetpeername(fd, SA(&in6), &len));
	IN_STATES(peer_name, STREAMS | BIT(DGRAM_CONNECTED), ENOTCONN, DGRAMS);
	IN_STATES(peer_length, STREAMS | BIT(DGRAM_CONNECTED), ENOTCONN, DGRAMS);
	f = rss_open(INIT);
	memset(&in6, 0xff, sizeof(in6));
	CHECK_OK(rgetpeername(f.fd, SA(&in6), &len)); /* rs_copy_addr() */
	CHECK_EQ(in6.sin6_family, AF_UNSPEC);
	CHECK_EQ(len, sizeof(in6));
	rss_close(&f);
	f = rss_open(CONNECTED);
	memset(&in6, 0xff, sizeof(in6));
	len = 3; /* no more than that */
	CHECK_OK(rgetpeername(f.fd, SA(&in6), &len));
	CHECK_EQ(len, sizeof(struct sockaddr_in));
	CHECK_EQ(in6.sin6_family, AF_INET);
	CHECK(vt_all((uint8_t *)&in6 + 3, sizeof(in6) - 3, 0xff));
	rss_close(&f);
	f = rss_open(DGRAM_CONNECTED); /* getpeername() */
	len = sizeof(in6);
	CHECK_IS(rgetpeername(f.fd, NULL, &len), EFAULT);
	CHECK_IS(rgetpeername(f.fd, SA(&in6), NULL), EFAULT);
	rss_close(&f);
}

static int own_name(int fd)
{
	struct sockaddr_in6 in6;
	socklen_t len = sizeof(in6);

	return rgetsockname(fd, SA(&in6), &len);
}

static void t_rgetsockname(void)
{
	struct sockaddr_in6 in6;
	socklen_t len = sizeof(in6);
	struct rss f;
	int fd;

	NO_RSOCKET(rgetsockname(fd, SA(&in6), &len));
	IN_STATES(own_name, ALL, 0, 0);
	fd = rsocket(AF_INET6, SOCK_STREAM, 0);
	len = 1;
	CHECK_OK(rgetsockname(fd, SA(&in6), &len));
	CHECK_EQ(len, sizeof(in6));
	len = 0;
	CHECK_OK(rgetsockname(fd, NULL, &len));
	CHECK_OK(rclose(fd));
	f = rss_open(DGRAM_BOUND);
	len = sizeof(in6);
	CHECK_IS(rgetsockname(f.fd, NULL, &len), EFAULT);
	CHECK_IS(rgetsockname(f.fd, SA(&in6), NULL), EFAULT);
	rss_close(&f);
}

/* ---- options -------------------------------------------------------------------------------------------------------- */

static void t_rsetsockopt(void)
{
	static const int ints[][2] = {
		{ SOL_SOCKET, SO_KEEPALIVE },  { SOL_SOCKET, SO_OOBINLINE },
		{ SOL_SOCKET, SO_RCVBUF },     { SOL_SOCKET, SO_SNDBUF },
		{ SOL_SOCKET, SO_LINGER },     { IPPROTO_TCP, TCP_NODELAY },
		{ IPPROTO_TCP, TCP_KEEPIDLE }, { IPPROTO_TCP, TCP_MAXSEG },
		{ SOL_RDMA, RDMA_SQSIZE },     { SOL_RDMA, RDMA_RQSIZE },
		{ SOL_RDMA, RDMA_INLINE },     { SOL_RDMA, RDMA_IOMAPSIZE },
	};
	static const int ids[][2] = { { SOL_SOCKET, SO_REUSEADDR }, { IPPROTO_IPV6, IPV6_V6ONLY } };
	static const int unknown[][2] = { { SOL_SOCKET, 9999 },
					  { SOL_SOCKET, -1 },
					  { IPPROTO_TCP, 9999 },
					  { IPPROTO_IPV6, 9999 },
					  { IPPROTO_IP, 9999 },
					  { 12345, SO_REUSEADDR },
					  { -1, 1 } };
	int one_[4] = { 1 }, zero = 0, negative = -1;
	struct rss f;

	NO_RSOCKET(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, one_, sizeof(int)));
	f = rss_open(INIT);
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], one_, 4), ENOTSUP);
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], one_, 0), ENOTSUP);
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], NULL, 4), ENOTSUP);
	}
	/* of a stream's options the lengths are not looked at ... */
	for (unsigned i = 0; i < ARRAY_SIZE(ints); i++)
		for (socklen_t len = 1; len <= sizeof(one_); len++)
			CHECK_OK(rsetsockopt(f.fd, ints[i][0], ints[i][1], one_, len));
	/* rdma_set_option() looks at them */
	for (unsigned i = 0; i < ARRAY_SIZE(ids); i++) {
		for (socklen_t len = 0; len <= sizeof(one_); len++)
			if (len != sizeof(int))
				CHECK_IS(rsetsockopt(f.fd, ids[i][0], ids[i][1], one_, len),
					 EINVAL);
		CHECK_OK(rsetsockopt(f.fd, ids[i][0], ids[i][1], one_, sizeof(int)));
	}
	CHECK_IS(rsetsockopt(f.fd, IPPROTO_TCP, TCP_KEEPIDLE, &zero, 4), EINVAL);
	CHECK_IS(rsetsockopt(f.fd, IPPROTO_TCP, TCP_KEEPIDLE, &negative, 4), EINVAL);
	CHECK_OK(rsetsockopt(f.fd, IPPROTO_TCP, TCP_KEEPCNT, NULL, 0));
	CHECK_OK(rsetsockopt(f.fd, IPPROTO_TCP, TCP_KEEPINTVL, NULL, 0));
	CHECK_IS(rsetsockopt(f.fd, SOL_RDMA, 99, one_, 4), ENOTSUP);
	CHECK_OK(rsetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, NULL, 0));
	CHECK_OK(rsetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, one_, 5)); /* until rconnect() */
	CHECK_IS(rconnect(f.fd, SA(&(struct sockaddr_in){ .sin_family = AF_INET }),
			  sizeof(struct sockaddr_in)),
		 EINVAL);
	rss_close(&f);
	f = rss_open(CONNECTED);
	for (int name = -1; name < 10; name++)
		CHECK_IS(rsetsockopt(f.fd, SOL_RDMA, name, one_, 4), EINVAL); /* too late */
	rss_close(&f);

	f = rss_open(DGRAM); /* setsockopt() of UDP is asked first */
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++)
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], one_, 4), ENOPROTOOPT);
	CHECK_IS(rsetsockopt(f.fd, IPPROTO_TCP, TCP_NODELAY, one_, 4), ENOPROTOOPT);
	for (socklen_t len = 0; len < sizeof(int); len++) {
		CHECK_IS(rsetsockopt(f.fd, SOL_SOCKET, SO_RCVBUF, one_, len), EINVAL);
		CHECK_IS(rsetsockopt(f.fd, SOL_SOCKET, SO_REUSEADDR, one_, len), EINVAL);
	}
	CHECK_IS(rsetsockopt(f.fd, SOL_SOCKET, SO_LINGER, one_, 7), EINVAL);
	CHECK_IS(rsetsockopt(f.fd, SOL_SOCKET, SO_RCVBUF, NULL, 4), EFAULT);
	CHECK_IS(rsetsockopt(f.fd, SOL_RDMA, 99, one_, 4), ENOTSUP);
	rss_close(&f);
}

static void t_rgetsockopt(void)
{
	static const int unknown[][2] = { { SOL_SOCKET, 9999 },	 { SOL_SOCKET, -1 },
					  { IPPROTO_TCP, 9999 }, { IPPROTO_IPV6, 9999 },
					  { SOL_RDMA, 99 },	 { 12345, SO_REUSEADDR } };
	struct ibv_path_data path;
	socklen_t len = sizeof(path);
	struct rss f;

	NO_RSOCKET(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &path, &len));
	for (enum rss_state s = INIT; s <= DGRAM; s += DGRAM) {
		f = rss_open(s);
		for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
			CHECK_IS(rgetsockopt(f.fd, unknown[i][0], unknown[i][1], &path, &len),
				 ENOTSUP);
			CHECK_IS(rgetsockopt(f.fd, unknown[i][0], unknown[i][1], NULL, NULL),
				 ENOTSUP);
		}
		len = sizeof(path);
		CHECK_OK(rgetsockopt(f.fd, IPPROTO_TCP, TCP_NODELAY, &path, &len));
		CHECK_EQ(len, sizeof(int));
		rss_close(&f);
	}
	f = rss_open(INIT);
	for (len = 0; len < sizeof(path); len++) {
		socklen_t given = len;

		CHECK_IS(rgetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, &given), EINVAL);
	}
	CHECK_OK(rgetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, &len));
	CHECK_EQ(len, 0); /* none yet */
	CHECK_OK(rsetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, sizeof(path)));
	len = sizeof(path) - 1;
	CHECK_IS(rgetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, &len), EINVAL);
	rss_close(&f);
}

static void t_rfcntl(void)
{
	static const int unknown[] = { -1, F_DUPFD, F_GETLK, F_SETLKW, F_SETOWN, F_GETSIG, 9999 };
	struct rss f = rss_open(INIT);

	NO_RSOCKET(rfcntl(fd, F_GETFL));
	NO_RSOCKET(rfcntl(fd, 9999));
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++)
		CHECK_IS(rfcntl(f.fd, unknown[i], 0L), ENOTSUP);
	rss_close(&f);
}

/* ---- the list ---------------------------------------------------------------------------------- */

static void every_name(void);

#define CASE(f)                                                                                    \
	{                                                                                          \
#f, t_##f, 120                                                                     \
	}
static const struct vt_case cases[] = {
	CASE(rsocket),
	CASE(rclose),
	CASE(rbind),
	CASE(rlisten),
	CASE(raccept),
	CASE(rconnect),
	CASE(rshutdown),
	CASE(rgetpeername),
	CASE(rgetsockname),
	CASE(rsetsockopt),
	CASE(rgetsockopt),
	CASE(rfcntl),
	{ "every_name", every_name, 0 },
};

static bool is_mine(const char *name)
{
#define IS(f)                                                                                      \
	if (!strcmp(name, #f))                                                                     \
		return false;
	RSS_DATA_NAMES(IS)
#undef IS
	return name[0] == 'r' && strncmp(name, "rdma_", 5);
}

static void every_name(void)
{
	dynsym_covered((const void *)rsocket, is_mine, cases, ARRAY_SIZE(cases));
}

int main(int argc, char **argv)
{
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
