/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/vt.c tests/lib/cmt.c tests/lib/rst.c tests/lib/dynsym.c -lrdmacm -lpthread */
/* timeout: 300 */
/*
 * rs_arguments.c - bad arguments of rsockets, function by function: descriptors that are closed, or
 * are no rsocket; rsockets of the other type and in each state; NULL, lengths, flags, options,
 * addresses. What is expected is what rdma-core 44's librdmacm/rsocket.c answers, which is not always
 * what a socket would. Comments name the place where that is not obvious.
 *
 * Each case has the name of a function, and "every_name" fails if one is exported without a case.
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
#include "tests/lib/dynsym.h"
#include "tests/lib/rst.h"

#include <fcntl.h>
#include <infiniband/sa.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

#define SA(x) ((struct sockaddr *)(x))

/* ---- descriptors that are no rsockets ---------------------------------------------------------- */

enum { CLOSED, PIPE, SOCKET, FILE_, STDIN, NUM_FOREIGN };

/* Near the numbers of rsockets; one was an rsocket's. */
static void foreign(int fd[NUM_FOREIGN])
{
	int pipes[2];

	fd[CLOSED] = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd[CLOSED] >= 0);
	CHECK_OK(pipe(pipes));
	fd[PIPE] = pipes[0];
	fd[SOCKET] = socket(AF_INET, SOCK_STREAM, 0);
	fd[FILE_] = open("/dev/null", O_RDWR);
	CHECK(fd[SOCKET] >= 0 && fd[FILE_] >= 0);
	fd[STDIN] = 0;
	CHECK_OK(rclose(fd[CLOSED]));
}

#define FOREIGN(call)                                                                              \
	do {                                                                                       \
		int fds_[NUM_FOREIGN];                                                             \
		foreign(fds_);                                                                     \
		for (int i_ = 0; i_ < NUM_FOREIGN; i_++) {                                         \
			int fd = fds_[i_];                                                         \
			CHECK_IS((int)(call), EBADF);                                              \
		}                                                                                  \
	} while (0)
/* With those that functions with a check of the range survive, too. */
#define NO_RSOCKET(call)                                                                           \
	do {                                                                                       \
		static const int far_[] = { -1, INT32_MIN, 65536, 1 << 20, INT32_MAX };            \
		FOREIGN(call);                                                                     \
		for (unsigned i_ = 0; i_ < ARRAY_SIZE(far_); i_++) {                               \
			int fd = far_[i_];                                                         \
			CHECK_IS((int)(call), EBADF);                                              \
		}                                                                                  \
	} while (0)

/* ---- rsockets in each state ---------------------------------------------------------------------- */

#define STATES(X)                                                                                  \
	X(INIT)                                                                                    \
	X(BOUND)                                                                                   \
	X(LISTENING)                                                                               \
	X(CONNECTED)                                                                               \
	X(ACCEPTED)                                                                                \
	X(SHUT)	  /* rshutdown(SHUT_RDWR) */                                                       \
	X(FAILED) /* connecting was refused */                                                     \
	X(DGRAM)                                                                                   \
	X(DGRAM_BOUND)                                                                             \
	X(DGRAM_CONNECTED)
#define ENUM(s) s,
enum state { STATES(ENUM) NUM_STATES };
#define NAME(s) #s,
static const char *const state_str[] = { STATES(NAME) };
_Static_assert(ARRAY_SIZE(state_str) == NUM_STATES, "");
#define BIT(s)	    (1u << (s))
#define ALL	    (BIT(NUM_STATES) - 1)
#define DGRAMS	    (BIT(DGRAM) | BIT(DGRAM_BOUND) | BIT(DGRAM_CONNECTED))
#define STREAMS	    (ALL & ~DGRAMS)
#define UNCONNECTED (BIT(INIT) | BIT(BOUND) | BIT(LISTENING))

struct fix {
	int fd;
	struct rst_pair pair;
	bool has_pair;
};

static int bound(int type)
{
	struct sockaddr_in self = cmt_self();
	int fd = rsocket(AF_INET, type, 0);

	CHECK(fd >= 0);
	CHECK_OK(rbind(fd, SA(&self), sizeof(self)));
	return fd;
}

static int refused(void)
{
	struct sockaddr_in addr;
	int l = rst_listener(&addr, 1), fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_OK(rclose(l)); /* nobody is there now */
	CHECK_IS(rconnect(fd, SA(&addr), sizeof(addr)), ECONNREFUSED);
	return fd;
}

static int dgram_connected(void)
{
	struct sockaddr_in self = cmt_self();
	int fd = bound(SOCK_DGRAM);
	socklen_t len = sizeof(self);

	CHECK_OK(rgetsockname(fd, SA(&self), &len));
	CHECK_OK(rconnect(fd, SA(&self), sizeof(self))); /* to itself */
	return fd;
}

static struct fix fix_open(enum state s)
{
	struct sockaddr_in addr;
	struct fix f = { .fd = -1 };

	switch (s) {
	case INIT:
		f.fd = rsocket(AF_INET, SOCK_STREAM, 0);
		break;
	case BOUND:
		f.fd = bound(SOCK_STREAM);
		break;
	case LISTENING:
		f.fd = rst_listener(&addr, 1);
		break;
	case CONNECTED:
	case ACCEPTED:
	case SHUT:
		f.pair = rst_pair_open(0);
		f.has_pair = true;
		f.fd = s == ACCEPTED ? f.pair.b : f.pair.a;
		if (s == SHUT)
			CHECK_OK(rshutdown(f.fd, SHUT_RDWR));
		break;
	case FAILED:
		f.fd = refused();
		break;
	case DGRAM:
		f.fd = rsocket(AF_INET, SOCK_DGRAM, 0);
		break;
	case DGRAM_BOUND:
		f.fd = bound(SOCK_DGRAM);
		break;
	case DGRAM_CONNECTED:
		f.fd = dgram_connected();
		break;
	case NUM_STATES:
		break;
	}
	CHECK(f.fd >= 0);
	return f;
}

static void fix_close(struct fix *f)
{
	if (f->has_pair)
		rst_pair_close(&f->pair);
	else
		CHECK_OK(rclose(f->fd));
}

/* `op` gives 0 for those of `ok`, `err` for those of `refused`; others are not tried. */
static void in_states(const char *what, int (*op)(int fd), uint32_t ok, int err, uint32_t refused)
{
	for (enum state s = 0; s < NUM_STATES; s++) {
		int want = ok & BIT(s) ? 0 : err, e;
		struct fix f;

		if (((ok | refused) & BIT(s)) == 0)
			continue;
		f = fix_open(s);
		e = VERB_ERRNO(op(f.fd));
		if (e != want)
			FAIL("%s, state %s: \"%s\", not \"%s\"", what, state_str[s],
			     e ? strerror(e) : "no error", want ? strerror(want) : "no error");
		fix_close(&f);
	}
}
#define IN_STATES(op, ok, err, refused) in_states(#op, op, ok, err, refused)

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
	for (enum state s = 0; s < NUM_STATES; s++) {
		struct fix f = fix_open(s);

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
	fd = bound(SOCK_STREAM);
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
	struct fix f;

	NO_RSOCKET(rgetpeername(fd, SA(&in6), &len));
	IN_STATES(peer_name, STREAMS | BIT(DGRAM_CONNECTED), ENOTCONN, DGRAMS);
	IN_STATES(peer_length, STREAMS | BIT(DGRAM_CONNECTED), ENOTCONN, DGRAMS);
	f = fix_open(INIT);
	memset(&in6, 0xff, sizeof(in6));
	CHECK_OK(rgetpeername(f.fd, SA(&in6), &len)); /* rs_copy_addr() */
	CHECK_EQ(in6.sin6_family, AF_UNSPEC);
	CHECK_EQ(len, sizeof(in6));
	fix_close(&f);
	f = fix_open(CONNECTED);
	memset(&in6, 0xff, sizeof(in6));
	len = 3; /* no more than that */
	CHECK_OK(rgetpeername(f.fd, SA(&in6), &len));
	CHECK_EQ(len, sizeof(struct sockaddr_in));
	CHECK_EQ(in6.sin6_family, AF_INET);
	CHECK(vt_all((uint8_t *)&in6 + 3, sizeof(in6) - 3, 0xff));
	fix_close(&f);
	f = fix_open(DGRAM_CONNECTED); /* getpeername() */
	len = sizeof(in6);
	CHECK_IS(rgetpeername(f.fd, NULL, &len), EFAULT);
	CHECK_IS(rgetpeername(f.fd, SA(&in6), NULL), EFAULT);
	fix_close(&f);
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
	struct fix f;
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
	f = fix_open(DGRAM_BOUND);
	len = sizeof(in6);
	CHECK_IS(rgetsockname(f.fd, NULL, &len), EFAULT);
	CHECK_IS(rgetsockname(f.fd, SA(&in6), NULL), EFAULT);
	fix_close(&f);
}

/* ---- receiving ------------------------------------------------------------------------------------------------ */

static char data[64];
static struct iovec one = { data, sizeof(data) };

/* An empty rsocket, non-blocking; after the end, and after a failure, 0 bytes; else EAGAIN. */
#define RECEIVES(call)                                                                             \
	do {                                                                                       \
		static const enum state st_[] = { CONNECTED, ACCEPTED, DGRAM_BOUND,                \
						  DGRAM_CONNECTED };                               \
		for (unsigned k_ = 0; k_ < ARRAY_SIZE(st_); k_++) {                                \
			struct fix f_ = fix_open(st_[k_]);                                         \
			int fd = f_.fd;                                                            \
			rst_nonblocking(fd);                                                       \
			CHECK_IS((int)(call), EAGAIN);                                             \
			fix_close(&f_);                                                            \
		}                                                                                  \
		struct fix f_ = fix_open(SHUT);                                                    \
		int fd = f_.fd;                                                                    \
		CHECK_EQ((call), 0);                                                               \
		fix_close(&f_);                                                                    \
		f_ = fix_open(FAILED);                                                             \
		fd = f_.fd;                                                                        \
		CHECK_EQ((call), 0); /* rs_conn_have_rdata() */                                    \
		fix_close(&f_);                                                                    \
	} while (0)

static void t_rrecv(void)
{
	FOREIGN(rrecv(fd, data, 1, 0));
	RECEIVES(rrecv(fd, data, 1, 0));
	RECEIVES(rrecv(fd, data, 1, MSG_OOB | MSG_PEEK | 1 << 30)); /* unknown flags: unseen */
}

static void t_rrecvfrom(void)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);

	FOREIGN(rrecvfrom(fd, data, 1, 0, NULL, NULL));
	RECEIVES(rrecvfrom(fd, data, 1, 0, NULL, NULL));
	RECEIVES(rrecvfrom(fd, data, 1, 0, SA(&from), &len));
}

static void t_rrecvmsg(void)
{
	struct msghdr m = { .msg_iov = &one, .msg_iovlen = 1 };
	struct msghdr ctl = {
		.msg_iov = &one, .msg_iovlen = 1, .msg_control = data, .msg_controllen = 1
	};
	struct fix f = fix_open(CONNECTED);

	FOREIGN(rrecvmsg(fd, &m, 0));
	RECEIVES(rrecvmsg(fd, &m, 0));
	CHECK_IS(rrecvmsg(f.fd, &ctl, 0), ENOTSUP);
	CHECK_IS(rrecvmsg(-1, &ctl, 0), ENOTSUP); /* is looked at first */
	fix_close(&f);
}

static void t_rread(void)
{
	FOREIGN(rread(fd, data, 1));
	RECEIVES(rread(fd, data, 1));
}

static void t_rreadv(void)
{
	FOREIGN(rreadv(fd, &one, 1));
	RECEIVES(rreadv(fd, &one, 1));
}

/* ---- sending ---------------------------------------------------------------------------------------------------- */

/* Nothing can always be sent, something not after a failure. */
#define SENDS(call, nothing)                                                                       \
	do {                                                                                       \
		static const enum state st_[] = { INIT, BOUND, LISTENING, FAILED, CONNECTED };     \
		for (unsigned k_ = 0; k_ < ARRAY_SIZE(st_); k_++) {                                \
			struct fix f_ = fix_open(st_[k_]);                                         \
			int fd = f_.fd;                                                            \
			CHECK_EQ((nothing), 0);                                                    \
			fix_close(&f_);                                                            \
		}                                                                                  \
		struct fix f_ = fix_open(FAILED);                                                  \
		int fd = f_.fd;                                                                    \
		CHECK_IS((int)(call), ECONNRESET); /* rs_conn_can_send() */                        \
		fix_close(&f_);                                                                    \
	} while (0)

static void t_rsend(void)
{
	struct fix f = fix_open(CONNECTED);
	char c = 0;

	FOREIGN(rsend(fd, data, 1, 0));
	SENDS(rsend(fd, data, 1, 0), rsend(fd, data, 0, 0));
	CHECK_EQ(rsend(f.fd, "o", 1, MSG_OOB | 1 << 30), 1); /* unknown flags: unseen */
	CHECK_EQ(rrecv(f.pair.b, &c, 1, 0), 1);
	CHECK_EQ(c, 'o');
	fix_close(&f);
}

static int sendto_there(int fd)
{
	return rsendto(fd, data, 1, 0, SA(&there), sizeof(there)) < 0 ? -1 : 0;
}

static int sendto_length(int fd)
{
	return (int)rsendto(fd, data, 1, 0, NULL, 1);
}

static void t_rsendto(void)
{
	struct sockaddr_storage ss = { .ss_family = AF_UNIX };
	struct fix f = fix_open(DGRAM);

	there = cmt_self();
	there.sin_port = htons(9);
	FOREIGN(rsendto(fd, data, 1, 0, SA(&there), sizeof(there)));
	FOREIGN(rsendto(fd, data, 1, 0, NULL, 0));
	IN_STATES(sendto_there, 0, EISCONN, STREAMS);
	IN_STATES(sendto_length, 0, EISCONN, STREAMS);
	SENDS(rsendto(fd, data, 1, 0, NULL, 0), rsendto(fd, data, 0, 0, NULL, 0));
	for (socklen_t len = 0; len < sizeof(there); len++)
		CHECK_IS((int)rsendto(f.fd, data, 1, 0, SA(&there), len), EINVAL);
	CHECK_IS((int)rsendto(f.fd, data, 1, 0, SA(&ss), sizeof(ss)), EAFNOSUPPORT);
	fix_close(&f);
}

static void t_rsendmsg(void)
{
	struct msghdr m = { .msg_iov = &one, .msg_iovlen = 1 }, named, ctl;
	struct iovec none = { data, 0 };
	struct msghdr empty = { .msg_iov = &none, .msg_iovlen = 1 };
	struct fix f = fix_open(CONNECTED);

	there = cmt_self();
	FOREIGN(rsendmsg(fd, &m, 0));
	SENDS(rsendmsg(fd, &m, 0), rsendmsg(fd, &empty, 0));
	ctl = m;
	ctl.msg_control = data;
	ctl.msg_controllen = 1;
	CHECK_IS((int)rsendmsg(f.fd, &ctl, 0), ENOTSUP);
	CHECK_IS((int)rsendmsg(-1, &ctl, 0), ENOTSUP); /* is looked at first */
	named = m;
	named.msg_name = &there; /* is not */
	named.msg_namelen = sizeof(there);
	CHECK_EQ(rsendmsg(f.fd, &named, 0), sizeof(data));
	named.msg_namelen = 1;
	CHECK_EQ(rsendmsg(f.fd, &named, 0), sizeof(data));
	fix_close(&f);
}

static void t_rwrite(void)
{
	FOREIGN(rwrite(fd, data, 1));
	SENDS(rwrite(fd, data, 1), rwrite(fd, data, 0));
}

static void t_rwritev(void)
{
	struct iovec none[2] = { { data, 0 }, { NULL, 0 } };

	FOREIGN(rwritev(fd, &one, 1));
	SENDS(rwritev(fd, &one, 1), rwritev(fd, none, 2));
}

/* ---- poll, select -------------------------------------------------------------------------------------------------- */

static void t_rpoll(void)
{
	struct pollfd p[4] = { { .fd = -1, .events = POLLIN } };
	int fds[NUM_FOREIGN];
	struct fix f;

	CHECK_EQ(rpoll(NULL, 0, 0), 0);
	CHECK_EQ(rpoll(NULL, 0, 1), 0);
	CHECK_EQ(rpoll(p, 1, 0), 0);
	foreign(fds);
	f = fix_open(CONNECTED);
	p[0] = (struct pollfd){ .fd = f.fd, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = 1 << 20, .events = POLLIN };
	CHECK_EQ(rpoll(p, 2, -77), 1);
	CHECK(p[0].revents == 0 && p[1].revents == POLLNVAL);
	close(fds[FILE_]);
	p[1].fd = fds[FILE_];
	p[1].events = 0;
	CHECK_EQ(rpoll(p, 2, -1), 1);
	CHECK_EQ(p[1].revents, POLLNVAL);
	fix_close(&f);
	/* rs_poll_rs(): nothing happens to those */
	f = fix_open(INIT);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0), 0);
	fix_close(&f);
	f = fix_open(BOUND);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0), 0);
	fix_close(&f);
	f = fix_open(LISTENING);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0), 0);
	fix_close(&f);
	f = fix_open(FAILED);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0) & (POLLIN | POLLOUT | POLLERR),
		 POLLIN | POLLOUT | POLLERR);
	fix_close(&f);
}

static void t_rselect(void)
{
	struct timeval none = { 0, 0 }, negative = { -1, 0 };
	struct fix f = fix_open(CONNECTED);
	int fds[NUM_FOREIGN];
	fd_set rd, wr, ex;

	CHECK_EQ(rselect(0, NULL, NULL, NULL, &none), 0);
	CHECK_IS(rselect(-1, NULL, NULL, NULL, NULL), ENOMEM); /* rs_select_to_poll() */
	CHECK_IS(rselect(INT32_MIN, NULL, NULL, NULL, &none), ENOMEM);
	FD_ZERO(&wr);
	FD_SET(f.fd, &wr);
	/* rs_convert_timeout(): without end, but here is something to tell */
	CHECK_EQ(rselect(f.fd + 1, NULL, &wr, NULL, &negative), 1);
	foreign(fds);
	close(fds[FILE_]);
	FD_ZERO(&rd);
	FD_SET(fds[FILE_], &rd);
	/* rs_poll_to_select(): closed is no error, and in none of these sets */
	CHECK_EQ(rselect(fds[FILE_] + 1, &rd, NULL, NULL, NULL), 0);
	FD_ZERO(&ex);
	FD_SET(fds[FILE_], &ex);
	CHECK_EQ(rselect(fds[FILE_] + 1, NULL, NULL, &ex, NULL), 1);
	CHECK(FD_ISSET(fds[FILE_], &ex));
	fix_close(&f);
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
	struct fix f;

	NO_RSOCKET(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, one_, sizeof(int)));
	f = fix_open(INIT);
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], one_, 4), ENOTSUP);
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], one_, 0), ENOTSUP);
		CHECK_IS(rsetsockopt(f.fd, unknown[i][0], unknown[i][1], NULL, 4), ENOTSUP);
	}
	/* of a stream's options the lengths are not looked at ... */
	for (unsigned i = 0; i < ARRAY_SIZE(ints); i++)
		for (socklen_t len = 1; len <= sizeof(one_); len++)
			CHECK_OK(rsetsockopt(f.fd, ints[i][0], ints[i][1], one_, len));
	/* ... but by rdma_set_option() */
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
	fix_close(&f);
	f = fix_open(CONNECTED);
	for (int name = -1; name < 10; name++)
		CHECK_IS(rsetsockopt(f.fd, SOL_RDMA, name, one_, 4), EINVAL); /* too late */
	fix_close(&f);

	f = fix_open(DGRAM); /* setsockopt() of UDP is asked first */
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
	fix_close(&f);
}

static void t_rgetsockopt(void)
{
	static const int unknown[][2] = { { SOL_SOCKET, 9999 },	 { SOL_SOCKET, -1 },
					  { IPPROTO_TCP, 9999 }, { IPPROTO_IPV6, 9999 },
					  { SOL_RDMA, 99 },	 { 12345, SO_REUSEADDR } };
	struct ibv_path_data path;
	socklen_t len = sizeof(path);
	struct fix f;

	NO_RSOCKET(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &path, &len));
	for (enum state s = INIT; s <= DGRAM; s += DGRAM) {
		f = fix_open(s);
		for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++) {
			CHECK_IS(rgetsockopt(f.fd, unknown[i][0], unknown[i][1], &path, &len),
				 ENOTSUP);
			CHECK_IS(rgetsockopt(f.fd, unknown[i][0], unknown[i][1], NULL, NULL),
				 ENOTSUP);
		}
		len = sizeof(path);
		CHECK_OK(rgetsockopt(f.fd, IPPROTO_TCP, TCP_NODELAY, &path, &len));
		CHECK_EQ(len, sizeof(int));
		fix_close(&f);
	}
	f = fix_open(INIT);
	for (len = 0; len < sizeof(path); len++) {
		socklen_t given = len;

		CHECK_IS(rgetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, &given), EINVAL);
	}
	CHECK_OK(rgetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, &len));
	CHECK_EQ(len, 0); /* none yet */
	CHECK_OK(rsetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, sizeof(path)));
	len = sizeof(path) - 1;
	CHECK_IS(rgetsockopt(f.fd, SOL_RDMA, RDMA_ROUTE, &path, &len), EINVAL);
	fix_close(&f);
}

static void t_rfcntl(void)
{
	static const int unknown[] = { -1, F_DUPFD, F_GETLK, F_SETLKW, F_SETOWN, F_GETSIG, 9999 };
	struct fix f = fix_open(INIT);

	NO_RSOCKET(rfcntl(fd, F_GETFL));
	NO_RSOCKET(rfcntl(fd, 9999));
	for (unsigned i = 0; i < ARRAY_SIZE(unknown); i++)
		CHECK_IS(rfcntl(f.fd, unknown[i], 0L), ENOTSUP);
	fix_close(&f);
}

/* ---- riomap ------------------------------------------------------------------------------------------------------------- */

static int iomap_data(int fd)
{
	return riomap(fd, data, 1, PROT_WRITE, 0, 0) < 0 ? -1 : 0;
}

static void t_riomap(void)
{
	struct fix f = fix_open(CONNECTED);
	static const int prot[] = { PROT_READ, PROT_EXEC, PROT_READ | PROT_WRITE, -1, 1 << 20 };

	FOREIGN(riomap(fd, data, 1, PROT_WRITE, 0, 0));
	IN_STATES(iomap_data, 0, EINVAL, BIT(INIT));			  /* it has no PD */
	IN_STATES(iomap_data, 0, ENOMEM, BIT(CONNECTED) | BIT(ACCEPTED)); /* no RDMA_IOMAPSIZE */
	for (unsigned i = 0; i < ARRAY_SIZE(prot); i++)
		CHECK_IS(riomap(f.fd, data, 1, prot[i], 0, 0), EINVAL);
	CHECK_IS(riomap(f.fd, (void *)4096, 4096, PROT_NONE, 0, 0), EFAULT); /* ibv_reg_mr() */
	CHECK_EQ(riomap(f.fd, data, 1, PROT_NONE, -1, 7), 7); /* no flags are known */
	CHECK_OK(riounmap(f.fd, data, 1));
	fix_close(&f);
}

static int iounmap_data(int fd)
{
	return riounmap(fd, data, 1);
}

static void t_riounmap(void)
{
	struct fix f = fix_open(CONNECTED);

	FOREIGN(riounmap(fd, data, 1));
	IN_STATES(iounmap_data, 0, EINVAL, STREAMS);
	CHECK_EQ(riomap(f.fd, data, 8, PROT_NONE, 0, 7), 7);
	CHECK_IS(riounmap(f.fd, data, 7), EINVAL);
	CHECK_IS(riounmap(f.fd, data + 1, 8), EINVAL);
	CHECK_IS(riounmap(f.fd, NULL, 8), EINVAL);
	CHECK_OK(riounmap(f.fd, data, 8));
	CHECK_IS(riounmap(f.fd, data, 8), EINVAL);
	fix_close(&f);
}

/* Where nothing is mapped nothing is written, which is no error. */
static int iowrite_data(int fd)
{
	return (int)riowrite(fd, data, 1, 0, 0);
}

static void t_riowrite(void)
{
	FOREIGN(riowrite(fd, data, 1, 0, 0));
	IN_STATES(iowrite_data, STREAMS & ~BIT(SHUT), 0, 0);
}

/* ---- the list -------------------------------------------------------------------------------------------------------------- */

static void every_name(void);

#define CASE(f)                                                                                    \
	{                                                                                          \
#f, t_##f, 120                                                                     \
	}
static const struct vt_case cases[] = {
	CASE(rsocket),	    CASE(rclose),      CASE(rbind),	  CASE(rlisten),
	CASE(raccept),	    CASE(rconnect),    CASE(rshutdown),	  CASE(rgetpeername),
	CASE(rgetsockname), CASE(rrecv),       CASE(rrecvfrom),	  CASE(rrecvmsg),
	CASE(rread),	    CASE(rreadv),      CASE(rsend),	  CASE(rsendto),
	CASE(rsendmsg),	    CASE(rwrite),      CASE(rwritev),	  CASE(rpoll),
	CASE(rselect),	    CASE(rsetsockopt), CASE(rgetsockopt), CASE(rfcntl),
	CASE(riomap),	    CASE(riounmap),    CASE(riowrite),	  { "every_name", every_name, 0 },
};

static bool is_rsocket(const char *name)
{
	return name[0] == 'r' && strncmp(name, "rdma_", 5);
}

static void every_name(void)
{
	dynsym_covered((const void *)rsocket, is_rsocket, cases, ARRAY_SIZE(cases));
}

int main(int argc, char **argv)
{
	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
