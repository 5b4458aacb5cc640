/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c -lrdmacm -lpthread */
/* timeout: 600 */
/*
 * rs_socket.c - rsockets as descriptors, inside one container: connecting, rpoll and rselect, riomap,
 * options, some bad arguments. All others are rs_arguments.c's, their data is rs_stream.c's.
 */
#include "tests/rig/verbs/rst.h"

#include <fcntl.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- connecting ------------------------------------------------------------------------------------------------ */

static void refused(void)
{
	struct sockaddr_in addr;
	int fd = rst_listener(&addr, 1), err;
	socklen_t len = sizeof(err);

	CHECK_OK(rclose(fd)); /* nobody is there now */
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), ECONNREFUSED);
	CHECK_IS(rsend(fd, "x", 1, 0), ECONNRESET);
	CHECK_OK(rclose(fd));

	fd = rsocket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
	CHECK_IS(rconnect(fd, (struct sockaddr *)&addr, sizeof(addr)), EINPROGRESS);
	CHECK(rst_poll(fd, POLLOUT, 10000) & POLLERR);
	CHECK_OK(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &err, &len));
	CHECK_EQ(err, ECONNREFUSED);
	CHECK_OK(rclose(fd));
}

static void in_use(void)
{
	struct sockaddr_in addr;
	int l = rst_listener(&addr, 1), fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_IS(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)), EADDRINUSE);
	CHECK_OK(rclose(l));
	CHECK_OK(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)));
	CHECK_IS(rbind(fd, (struct sockaddr *)&addr, sizeof(addr)), EINVAL);
	CHECK_OK(rclose(fd));
}

static void reject_before_accept(void)
{
	struct sockaddr_in addr;
	int l = rst_listener(&addr, 2), a = rst_connect(&addr);
	char c;

	/* accepted by the library, never by the program */
	CHECK_OK(rclose(l));
	CHECK(rrecv(a, &c, 1, 0) <= 0);
	CHECK_OK(rclose(a));
}

static void many(void)
{
	enum { N = 100 };
	struct sockaddr_in addr;
	struct pollfd fds[N];
	int l = rst_listener(&addr, N), a[N], b[N], left = N;

	for (int i = 0; i < N; i++) {
		int size = 2048;

		a[i] = rsocket(AF_INET, SOCK_STREAM, 0);
		CHECK(a[i] >= 0);
		CHECK_OK(rsetsockopt(a[i], SOL_SOCKET, SO_SNDBUF, &size, sizeof(size)));
		CHECK_OK(rsetsockopt(a[i], SOL_SOCKET, SO_RCVBUF, &size, sizeof(size)));
		CHECK_OK(rconnect(a[i], (struct sockaddr *)&addr, sizeof(addr)));
		b[i] = raccept(l, NULL, NULL);
		CHECK(b[i] >= 0);
		fds[i] = (struct pollfd){ .fd = b[i], .events = POLLIN };
	}
	for (int i = N - 1; i >= 0; i--)
		rst_send_all(a[i], &i, sizeof(i));
	while (left) {
		CHECK(rpoll(fds, N, 5000) > 0);
		for (int i = 0; i < N; i++) {
			int v;

			if (!(fds[i].revents & POLLIN))
				continue;
			rst_recv_all(b[i], &v, sizeof(v));
			CHECK_EQ(v, i);
			left--;
		}
	}
	CHECK_EQ(rpoll(fds, N, 0), 0);
	for (int i = 0; i < N; i++) {
		CHECK_OK(rclose(a[i]));
		CHECK_OK(rclose(b[i]));
	}
	CHECK_OK(rclose(l));
}

/* ---- rpoll, rselect ---------------------------------------------------------------------------------------------- */

static void *write_later(void *arg)
{
	usleep(30000);
	CHECK_EQ(write(*(int *)arg, "p", 1), 1);
	return NULL;
}

static void *send_later(void *arg)
{
	usleep(30000);
	rst_send_all(*(int *)arg, "r", 1);
	return NULL;
}

static void poll_mixed(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct pollfd fds[4];
	fd_set rd, wr;
	struct timeval none = { 0, 0 }, some = { 5, 0 };
	int pipes[2];
	pthread_t t;
	char c;

	CHECK_OK(pipe(pipes));
	fds[0] = (struct pollfd){ .fd = p.b, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = pipes[0], .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = p.l, .events = POLLIN };
	fds[3] = (struct pollfd){ .fd = -1, .events = POLLIN };
	CHECK_EQ(rpoll(fds, 4, 0), 0);
	CHECK_EQ(rpoll(fds, 4, 20), 0);

	/* the ordinary descriptor wakes a sleeper, and so does the rsocket */
	CHECK_EQ(pthread_create(&t, NULL, write_later, &pipes[1]), 0);
	CHECK_EQ(rpoll(fds, 4, 5000), 1);
	CHECK_EQ(fds[1].revents, POLLIN);
	pthread_join(t, NULL);
	CHECK_EQ(read(pipes[0], &c, 1), 1);
	CHECK_EQ(pthread_create(&t, NULL, send_later, &p.a), 0);
	CHECK_EQ(rpoll(fds, 4, 5000), 1);
	CHECK_EQ(fds[0].revents, POLLIN);
	pthread_join(t, NULL);

	CHECK_EQ(write(pipes[1], "p", 1), 1);
	CHECK_EQ(rpoll(fds, 4, -1), 2);
	FD_ZERO(&rd);
	FD_ZERO(&wr);
	FD_SET(p.b, &rd);
	FD_SET(pipes[0], &rd);
	FD_SET(p.l, &rd);
	FD_SET(p.a, &wr);
	CHECK_EQ(rselect(FD_SETSIZE, &rd, &wr, NULL, &some), 3);
	CHECK(FD_ISSET(p.b, &rd) && FD_ISSET(pipes[0], &rd) && !FD_ISSET(p.l, &rd));
	CHECK(FD_ISSET(p.a, &wr));
	rst_recv_all(p.b, &c, 1);
	CHECK_EQ(read(pipes[0], &c, 1), 1);
	FD_ZERO(&wr);
	CHECK_EQ(rselect(FD_SETSIZE, &rd, &wr, NULL, &none), 0);
	CHECK(!FD_ISSET(p.b, &rd));

	fds[1].fd = pipes[1];
	close(pipes[1]);
	CHECK_EQ(rpoll(fds, 4, 0), 1);
	CHECK_EQ(fds[1].revents, POLLNVAL);
	close(pipes[0]);
	rst_pair_close(&p);
}

struct pinger {
	int fd;
	unsigned rounds;
	bool first;
};

/* Ping-pong that sleeps in rpoll() each time. */
static void *ping(void *arg)
{
	struct pinger *g = arg;
	char c = 0;

	for (unsigned i = 0; i < g->rounds; i++) {
		if (g->first || i)
			rst_send_all(g->fd, &c, 1);
		CHECK_EQ(rst_poll(g->fd, POLLIN, 10000), POLLIN);
		rst_recv_all(g->fd, &c, 1);
	}
	if (!g->first)
		rst_send_all(g->fd, &c, 1);
	return NULL;
}

static void poll_ping_pong(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct pinger g[2] = { { p.a, 3000, true }, { p.b, 3000, false } };
	pthread_t t[2];

	for (int i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, ping, &g[i]), 0);
	for (int i = 0; i < 2; i++)
		pthread_join(t[i], NULL);
	rst_pair_close(&p);
}

/* ---- accepting while a thread of the program connects ------------------------------------------------------------ */

#define SELVES 20

struct acceptor {
	int l;
	bool polls;
};

static void *accept_selves(void *arg)
{
	struct acceptor *w = arg;

	for (char i = 0; i < SELVES; i++) {
		int b;

		if (w->polls)
			CHECK(rst_poll(w->l, POLLIN, 30000) & POLLIN);
		b = raccept(w->l, NULL, NULL);
		CHECK(b >= 0);
		rst_send_all(b, &i, 1);
		CHECK_OK(rclose(b));
	}
	return NULL;
}

/* The thread that sleeps for connections takes them in, not the one that connects, of which the other would not know. */
static void self_accepted(bool polls)
{
	struct sockaddr_in addr;
	struct acceptor w = { rst_listener(&addr, 4), polls };
	pthread_t t;

	CHECK(!pthread_create(&t, NULL, accept_selves, &w));
	for (char i = 0; i < SELVES; i++) {
		int a = rsocket(AF_INET, SOCK_STREAM, 0);
		char c;

		CHECK_OK(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)));
		rst_recv_all(a, &c, 1);
		CHECK_EQ(c, i);
		CHECK_OK(rclose(a));
	}
	CHECK(!pthread_join(t, NULL));
	CHECK_OK(rclose(w.l));
}

static void accepted_by_a_thread(void)
{
	self_accepted(false);
}

static void accepted_by_a_polling_thread(void)
{
	self_accepted(true);
}

/* ---- riomap ---------------------------------------------------------------------------------------------------------- */

static void iomap(void)
{
	struct sockaddr_in addr;
	int l = rst_listener(&addr, 1), a = rsocket(AF_INET, SOCK_STREAM, 0), b, two = 2;
	uint8_t *mem = vt_map(2 * MB), *out = vt_map(2 * MB), c;
	size_t len = MB + 12345;

	CHECK_OK(rsetsockopt(a, SOL_RDMA, RDMA_IOMAPSIZE, &two, sizeof(two)));
	CHECK_OK(rconnect(a, (struct sockaddr *)&addr, sizeof(addr)));
	b = raccept(l, NULL, NULL);
	CHECK(b >= 0);
	/* a said that b may map two buffers; b said none */
	CHECK_IS(riomap(a, mem, len, PROT_WRITE, 0, 0), ENOMEM);
	CHECK_IS(riomap(b, mem, len, PROT_READ, 0, 0), EINVAL);
	CHECK_EQ(riomap(b, mem, len, PROT_WRITE, 0, 5000), 5000);
	CHECK_EQ(riomap(b, mem + len, 100, PROT_WRITE, 0, -1), (off_t)(uintptr_t)(mem + len));
	CHECK_IS(riomap(b, mem, len, PROT_WRITE, 0, 0), ENOMEM);
	rst_send_all(b, "m", 1);
	rst_recv_all(a, &c, 1);

	vt_pattern(out, len, 77);
	CHECK_EQ(riowrite(a, out, len, 5000, 0), len);
	CHECK_EQ(riowrite(a, out, 100, (off_t)(uintptr_t)(mem + len), 0), 100);
	CHECK_EQ(riowrite(a, out, 200, (off_t)(5000 + len - 50), 0), 50); /* to the end of it */
	CHECK_EQ(riowrite(a, out, 100, 4999, 0), 0);
	rst_send_all(a, "w", 1); /* what was written before is there when this is */
	rst_recv_all(b, &c, 1);
	CHECK_PATTERN(mem, len - 50, 77);
	CHECK_PATTERN(mem + len - 50, 50, 77);
	CHECK_PATTERN(mem + len, 100, 77);

	CHECK_IS(riounmap(b, mem, 1), EINVAL);
	CHECK_OK(riounmap(b, mem, len));
	rst_send_all(b, "u", 1);
	rst_recv_all(a, &c, 1);
	CHECK_EQ(riowrite(a, out, 100, 5000, 0), 0);
	CHECK_EQ(riomap(b, mem, 4096, PROT_WRITE, 0, 0), 0);
	CHECK_EQ(riomap(b, mem, 4096, PROT_NONE, 0, 0), 0);
	CHECK_OK(rclose(a));
	CHECK_OK(rclose(b));
	CHECK_OK(rclose(l));
}

/* ---- options, bad arguments ------------------------------------------------------------------------------------------ */

static int get_int(int fd, int level, int name)
{
	int v = -1;
	socklen_t len = sizeof(v);

	CHECK_OK(rgetsockopt(fd, level, name, &v, &len));
	CHECK_EQ(len, sizeof(v));
	return v;
}

static void set_int(int fd, int level, int name, int v)
{
	CHECK_OK(rsetsockopt(fd, level, name, &v, sizeof(v)));
}

static void options(void)
{
	static const int flags[][2] = {
		{ SOL_SOCKET, SO_REUSEADDR },  { SOL_SOCKET, SO_KEEPALIVE },
		{ SOL_SOCKET, SO_OOBINLINE },  { IPPROTO_TCP, TCP_NODELAY },
		{ IPPROTO_IPV6, IPV6_V6ONLY },
	};
	static const int rdma[] = { RDMA_SQSIZE, RDMA_RQSIZE, RDMA_INLINE };
	int fd = rsocket(AF_INET6, SOCK_STREAM, IPPROTO_TCP), v = 1;
	struct linger l = { 1, 5 };
	struct tcp_info info;
	socklen_t len = sizeof(l);

	CHECK(fd >= 0);
	for (size_t i = 0; i < ARRAY_SIZE(flags); i++) {
		CHECK_EQ(get_int(fd, flags[i][0], flags[i][1]), 0);
		set_int(fd, flags[i][0], flags[i][1], 1);
		CHECK_EQ(get_int(fd, flags[i][0], flags[i][1]), 1);
		set_int(fd, flags[i][0], flags[i][1], 0);
		CHECK_EQ(get_int(fd, flags[i][0], flags[i][1]), 0);
	}
	set_int(fd, SOL_SOCKET, SO_RCVBUF, 100000);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_RCVBUF), 200000);
	set_int(fd, SOL_SOCKET, SO_SNDBUF, 50000);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_SNDBUF), 100000);
	for (size_t i = 0; i < ARRAY_SIZE(rdma); i++) {
		set_int(fd, SOL_RDMA, rdma[i], 100);
		CHECK_EQ(get_int(fd, SOL_RDMA, rdma[i]), 100);
	}
	set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, 30);
	CHECK_EQ(get_int(fd, IPPROTO_TCP, TCP_KEEPIDLE), 30);
	CHECK_OK(rsetsockopt(fd, SOL_SOCKET, SO_LINGER, &l, sizeof(l)));
	memset(&l, 0, sizeof(l));
	CHECK_OK(rgetsockopt(fd, SOL_SOCKET, SO_LINGER, &l, &len));
	CHECK_EQ(l.l_onoff, 1);
	CHECK_EQ(l.l_linger, 5);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_TYPE), SOCK_STREAM);
	CHECK_EQ(get_int(fd, SOL_SOCKET, SO_ACCEPTCONN), 0);
	len = sizeof(info);
	CHECK_OK(rgetsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len));
	CHECK_EQ(info.tcpi_state, TCP_CLOSE);
	CHECK_IS(rsetsockopt(fd, SOL_SOCKET, SO_PASSCRED, &v, sizeof(v)), ENOTSUP);
	CHECK_IS(rsetsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &v, 1), EINVAL);
	CHECK_IS(rgetsockopt(fd, 12345, 1, &v, &len), ENOTSUP);
	CHECK_EQ(rfcntl(fd, F_GETFD), 0);
	CHECK_OK(rfcntl(fd, F_SETFD, (long)FD_CLOEXEC));
	CHECK_EQ(rfcntl(fd, F_GETFD), FD_CLOEXEC);
	CHECK_IS(rfcntl(fd, F_GETOWN), ENOTSUP);
	CHECK_OK(rclose(fd));
}

static void bad_descriptors(void)
{
	const int bad[] = { -1, 0, 1000000, 2000000 };
	struct sockaddr_in sin = cmt_self();
	socklen_t len = sizeof(sin);
	struct iovec iov = { &sin, 1 };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1 };
	int v = 0;

	for (size_t i = 0; i < ARRAY_SIZE(bad); i++) {
		int fd = bad[i];

		CHECK_IS(rbind(fd, (struct sockaddr *)&sin, len), EBADF);
		CHECK_IS(rlisten(fd, 1), EBADF);
		CHECK_IS(raccept(fd, NULL, NULL), EBADF);
		CHECK_IS(rconnect(fd, (struct sockaddr *)&sin, len), EBADF);
		CHECK_IS(rshutdown(fd, SHUT_RD), EBADF);
		CHECK_IS(rclose(fd), EBADF);
		CHECK_IS(rrecv(fd, &v, 1, 0), EBADF);
		CHECK_IS(rrecvfrom(fd, &v, 1, 0, NULL, NULL), EBADF);
		CHECK_IS(rrecvmsg(fd, &m, 0), EBADF);
		CHECK_IS(rread(fd, &v, 1), EBADF);
		CHECK_IS(rreadv(fd, &iov, 1), EBADF);
		CHECK_IS(rsend(fd, &v, 1, 0), EBADF);
		CHECK_IS(rsendto(fd, &v, 1, 0, (struct sockaddr *)&sin, len), EBADF);
		CHECK_IS(rsendmsg(fd, &m, 0), EBADF);
		CHECK_IS(rwrite(fd, &v, 1), EBADF);
		CHECK_IS(rwritev(fd, &iov, 1), EBADF);
		CHECK_IS(rgetpeername(fd, (struct sockaddr *)&sin, &len), EBADF);
		CHECK_IS(rgetsockname(fd, (struct sockaddr *)&sin, &len), EBADF);
		CHECK_IS(rsetsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &v, sizeof(v)), EBADF);
		CHECK_IS(rgetsockopt(fd, SOL_SOCKET, SO_ERROR, &v, &len), EBADF);
		CHECK_IS(rfcntl(fd, F_GETFL), EBADF);
		CHECK_IS(riomap(fd, &v, 4, PROT_WRITE, 0, 0), EBADF);
		CHECK_IS(riounmap(fd, &v, 4), EBADF);
		CHECK_IS((int)riowrite(fd, &v, 4, 0, 0), EBADF);
	}
}

/* Those that rdma-core does not survive. */
static void bad_arguments(void)
{
	struct rst_pair p = rst_pair_open(0);
	struct sockaddr_in sin = cmt_self();
	struct iovec huge[2] = { { &sin, SIZE_MAX / 2 }, { &sin, SIZE_MAX / 2 } };
	char ctl[64];
	struct msghdr m = { .msg_control = ctl, .msg_controllen = sizeof(ctl) };
	int fd;

	CHECK_IS(rsocket(AF_UNIX, SOCK_STREAM, 0), ENOTSUP);
	CHECK_IS(rsocket(AF_INET, SOCK_RAW, 0), ENOTSUP);
	CHECK_IS(rsocket(AF_INET, SOCK_STREAM, IPPROTO_UDP), ENOTSUP);
	fd = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK_IS(raccept(fd, NULL, NULL), EBADF);
	CHECK_IS(rsend(fd, &sin, 1, 0), ENOTCONN);
	CHECK_IS(rrecv(fd, &sin, 1, 0), ENOTCONN);
	sin.sin_addr.s_addr = htonl(0xc0000201); /* nobody's */
	CHECK_IS(rbind(fd, (struct sockaddr *)&sin, sizeof(sin)), EADDRNOTAVAIL);
	CHECK_OK(rclose(fd));
	CHECK_IS(rclose(fd), EBADF);

	CHECK_IS(rlisten(p.a, 1), EINVAL);
	CHECK_OK(rlisten(p.l, 9));
	CHECK_IS(rsendto(p.a, &sin, 1, 0, (struct sockaddr *)&sin, sizeof(sin)), EISCONN);
	CHECK_IS(rsendmsg(p.a, &m, 0), ENOTSUP);
	CHECK_IS(rwritev(p.a, huge, 2), EINVAL);
	CHECK_IS(rwritev(p.a, huge, -1), EINVAL);
	rst_pair_close(&p);
}

VT_MAIN({ "refused", refused, 0 }, { "in_use", in_use, 0 },
	{ "reject_before_accept", reject_before_accept, 0 }, { "many", many, 0 },
	{ "accepted_by_a_thread", accepted_by_a_thread, 0 },
	{ "accepted_by_a_polling_thread", accepted_by_a_polling_thread, 0 },
	{ "poll_mixed", poll_mixed, 0 }, { "poll_ping_pong", poll_ping_pong, 0 },
	{ "iomap", iomap, 0 }, { "options", options, 0 }, { "bad_descriptors", bad_descriptors, 0 },
	{ "bad_arguments", bad_arguments, 0 })
