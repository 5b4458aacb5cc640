/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c tests/rig/verbs/rst.c tests/rig/verbs/rss.c -lrdmacm -lpthread */
/* timeout: 600 */
/*
 * rs_arguments_data.c - rs_arguments.c's for what moves data: receiving, sending, poll and select, riomap.
 * What is not tried is told there.
 */
#include "tests/rig/verbs/rss.h"

#include <sys/select.h>
#include <sys/uio.h>
#include <unistd.h>

/* ---- receiving ------------------------------------------------------------------------------------------------ */

static char data[64];
static struct iovec one = { data, sizeof(data) };

/* An empty rsocket, non-blocking; after the end, and after a failure, 0 bytes; else EAGAIN. */
#define RECEIVES(call)                                                                             \
	do {                                                                                       \
		static const enum rss_state st_[] = { CONNECTED, ACCEPTED, DGRAM_BOUND,            \
						      DGRAM_CONNECTED };                           \
		for (unsigned k_ = 0; k_ < ARRAY_SIZE(st_); k_++) {                                \
			struct rss f_ = rss_open(st_[k_]);                                         \
			int fd = f_.fd;                                                            \
			rst_nonblocking(fd);                                                       \
			CHECK_IS((int)(call), EAGAIN);                                             \
			rss_close(&f_);                                                            \
		}                                                                                  \
		struct rss f_ = rss_open(SHUT);                                                    \
		int fd = f_.fd;                                                                    \
		CHECK_EQ((call), 0);                                                               \
		rss_close(&f_);                                                                    \
		f_ = rss_open(FAILED);                                                             \
		fd = f_.fd;                                                                        \
		CHECK_EQ((call), 0); /* rs_conn_have_rdata() */                                    \
		rss_close(&f_);                                                                    \
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
	struct rss f = rss_open(CONNECTED);

	FOREIGN(rrecvmsg(fd, &m, 0));
	RECEIVES(rrecvmsg(fd, &m, 0));
	CHECK_IS(rrecvmsg(f.fd, &ctl, 0), ENOTSUP);
	CHECK_IS(rrecvmsg(-1, &ctl, 0), ENOTSUP); /* is looked at first */
	rss_close(&f);
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
		static const enum rss_state st_[] = { INIT, BOUND, LISTENING, FAILED, CONNECTED }; \
		for (unsigned k_ = 0; k_ < ARRAY_SIZE(st_); k_++) {                                \
			struct rss f_ = rss_open(st_[k_]);                                         \
			int fd = f_.fd;                                                            \
			CHECK_EQ((nothing), 0);                                                    \
			rss_close(&f_);                                                            \
		}                                                                                  \
		struct rss f_ = rss_open(FAILED);                                                  \
		int fd = f_.fd;                                                                    \
		CHECK_IS((int)(call), ECONNRESET); /* rs_conn_can_send() */                        \
		rss_close(&f_);                                                                    \
	} while (0)

static void t_rsend(void)
{
	struct rss f = rss_open(CONNECTED);
	char c = 0;

	FOREIGN(rsend(fd, data, 1, 0));
	SENDS(rsend(fd, data, 1, 0), rsend(fd, data, 0, 0));
	CHECK_EQ(rsend(f.fd, "o", 1, MSG_OOB | 1 << 30), 1); /* unknown flags: unseen */
	CHECK_EQ(rrecv(f.pair.b, &c, 1, 0), 1);
	CHECK_EQ(c, 'o');
	rss_close(&f);
}

static struct sockaddr_in there;

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
	struct rss f = rss_open(DGRAM);

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
	rss_close(&f);
}

static void t_rsendmsg(void)
{
	struct msghdr m = { .msg_iov = &one, .msg_iovlen = 1 }, named, ctl;
	struct iovec none = { data, 0 };
	struct msghdr empty = { .msg_iov = &none, .msg_iovlen = 1 };
	struct rss f = rss_open(CONNECTED);

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
	rss_close(&f);
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
	struct rss f;

	CHECK_EQ(rpoll(NULL, 0, 0), 0);
	CHECK_EQ(rpoll(NULL, 0, 1), 0);
	CHECK_EQ(rpoll(p, 1, 0), 0);
	rss_foreign(fds);
	f = rss_open(CONNECTED);
	p[0] = (struct pollfd){ .fd = f.fd, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = 1 << 20, .events = POLLIN };
	CHECK_EQ(rpoll(p, 2, -77), 1);
	CHECK(p[0].revents == 0 && p[1].revents == POLLNVAL);
	close(fds[FILE_]);
	p[1].fd = fds[FILE_];
	p[1].events = 0;
	CHECK_EQ(rpoll(p, 2, -1), 1);
	CHECK_EQ(p[1].revents, POLLNVAL);
	rss_close(&f);
	/* rs_poll_rs(): nothing happens to those */
	f = rss_open(INIT);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0), 0);
	rss_close(&f);
	f = rss_open(BOUND);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0), 0);
	rss_close(&f);
	f = rss_open(LISTENING);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0), 0);
	rss_close(&f);
	f = rss_open(FAILED);
	CHECK_EQ(rst_poll(f.fd, POLLIN | POLLOUT, 0) & (POLLIN | POLLOUT | POLLERR),
		 POLLIN | POLLOUT | POLLERR);
	rss_close(&f);
}

static void t_rselect(void)
{
	struct timeval none = { 0, 0 }, negative = { -1, 0 };
	struct rss f = rss_open(CONNECTED);
	int fds[NUM_FOREIGN];
	fd_set rd, wr, ex;

	CHECK_EQ(rselect(0, NULL, NULL, NULL, &none), 0);
	CHECK_IS(rselect(-1, NULL, NULL, NULL, NULL), ENOMEM); /* rs_select_to_poll() */
	CHECK_IS(rselect(INT32_MIN, NULL, NULL, NULL, &none), ENOMEM);
	FD_ZERO(&wr);
	FD_SET(f.fd, &wr);
	/* rs_convert_timeout(): without end, but here is something to tell */
	CHECK_EQ(rselect(f.fd + 1, NULL, &wr, NULL, &negative), 1);
	rss_foreign(fds);
	close(fds[FILE_]);
	FD_ZERO(&rd);
	FD_SET(fds[FILE_], &rd);
	/* rs_poll_to_select(): closed is no error, and in none of these sets */
	CHECK_EQ(rselect(fds[FILE_] + 1, &rd, NULL, NULL, NULL), 0);
	FD_ZERO(&ex);
	FD_SET(fds[FILE_], &ex);
	CHECK_EQ(rselect(fds[FILE_] + 1, NULL, NULL, &ex, NULL), 1);
	CHECK(FD_ISSET(fds[FILE_], &ex));
	rss_close(&f);
}

/* ---- riomap ------------------------------------------------------------------------------------------------------------- */

static int iomap_data(int fd)
{
	return riomap(fd, data, 1, PROT_WRITE, 0, 0) < 0 ? -1 : 0;
}

static void t_riomap(void)
{
	struct rss f = rss_open(CONNECTED);
	static const int prot[] = { PROT_READ, PROT_EXEC, PROT_READ | PROT_WRITE, -1, 1 << 20 };

	FOREIGN(riomap(fd, data, 1, PROT_WRITE, 0, 0));
	IN_STATES(iomap_data, 0, EINVAL, BIT(INIT));			  /* it has no PD */
	IN_STATES(iomap_data, 0, ENOMEM, BIT(CONNECTED) | BIT(ACCEPTED)); /* no RDMA_IOMAPSIZE */
	for (unsigned i = 0; i < ARRAY_SIZE(prot); i++)
		CHECK_IS(riomap(f.fd, data, 1, prot[i], 0, 0), EINVAL);
	CHECK_IS(riomap(f.fd, (void *)4096, 4096, PROT_NONE, 0, 0), EFAULT); /* ibv_reg_mr() */
	CHECK_EQ(riomap(f.fd, data, 1, PROT_NONE, -1, 7), 7); /* no flags are known */
	CHECK_OK(riounmap(f.fd, data, 1));
	rss_close(&f);
}

static int iounmap_data(int fd)
{
	return riounmap(fd, data, 1);
}

static void t_riounmap(void)
{
	struct rss f = rss_open(CONNECTED);

	FOREIGN(riounmap(fd, data, 1));
	IN_STATES(iounmap_data, 0, EINVAL, STREAMS);
	CHECK_EQ(riomap(f.fd, data, 8, PROT_NONE, 0, 7), 7);
	CHECK_IS(riounmap(f.fd, data, 7), EINVAL);
	CHECK_IS(riounmap(f.fd, data + 1, 8), EINVAL);
	CHECK_IS(riounmap(f.fd, NULL, 8), EINVAL);
	CHECK_OK(riounmap(f.fd, data, 8));
	CHECK_IS(riounmap(f.fd, data, 8), EINVAL);
	rss_close(&f);
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

int main(int argc, char **argv)
{
#define CASE(f) { #f, t_##f, 120 },
	static const struct vt_case cases[] = { RSS_DATA_NAMES(CASE) };
#undef CASE

	return vt_main(argc, argv, cases, ARRAY_SIZE(cases));
}
