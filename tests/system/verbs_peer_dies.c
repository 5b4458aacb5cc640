/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/halves.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * verbs_peer_dies.c - two processes, by halves.h: a peer that dies or ends in the middle, and memory that
 * stalls the router.
 */
#include "tests/rig/verbs/halves.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MB (1024u * 1024u)

/* ---- a peer that dies ----------------------------------------------------------------------- */

static void *die_on_request(void *arg)
{
	char c;

	if (halves_get(halves_sock, &c, 1) && c == 'K')
		kill(getpid(), SIGKILL);
	return arg;
}

static void wait_for_death(void)
{
	for (;;)
		pause();
}

enum { TIMEOUT = 14, RETRIES = 3 }; /* 67 ms, four times */

static void dying_param(struct vt_param *par)
{
	*par = VT_PARAM;
	par->len = 4 * MB;
	par->timeout = TIMEOUT;
	par->retry_cnt = RETRIES;
	par->rnr_timer = 1;
}

/* The end that is killed when the other one says so. */
static void dying_open(struct vt_end *e)
{
	struct vt_param par;
	pthread_t t;

	dying_param(&par);
	halves_open(e, &par);
	CHECK_EQ(pthread_create(&t, NULL, die_on_request, NULL), 0);
}

/* Killed while both sides send as fast as they can. */
static void killed_server(void)
{
	struct vt_end e;

	dying_open(&e);
	for (uint64_t i = 0;; i++) {
		struct ibv_wc wc;

		vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, MB, MB, IBV_SEND_SIGNALED);
		wc = vt_wc(e.scq);
		if (wc.status != IBV_WC_SUCCESS)
			wait_for_death();
	}
}

static void killed_client(void)
{
	struct vt_param par;
	unsigned before = 0, posted = 0, next = 0;
	struct vt_end e, x, y;
	uint64_t start;
	uint64_t budget = (4096ull << TIMEOUT) * (RETRIES + 1);

	dying_param(&par);
	halves_open(&e, &par);
	for (unsigned i = 0; i < 20; i++)
		vt_recv(&e, 1000 + i, 3 * MB, 64);
	while (before < 200) {
		for (; posted - next < 32; posted++)
			vt_rdma(&e, IBV_WR_RDMA_WRITE, posted, 0, 64 * 1024, 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, next++);
		before++;
	}
	halves_put(halves_sock, "K", 1);
	start = vt_now();
	for (;;) {
		struct ibv_wc wc = vt_wc(e.scq);

		CHECK_EQ(wc.wr_id, next++);
		if (wc.status != IBV_WC_SUCCESS) {
			CHECK_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
			break;
		}
		vt_rdma(&e, IBV_WR_RDMA_WRITE, posted++, 0, 64 * 1024, 0, IBV_SEND_SIGNALED);
	}
	if (vt_now() - start > 4 * budget + 2000000000ull * vt_slow())
		FAIL("the peer's death was told after %llu ms",
		     (unsigned long long)(vt_now() - start) / 1000000);
	while (next < posted)
		WANT(e.scq, next++, IBV_WC_WR_FLUSH_ERR);
	for (unsigned i = 0; i < 20; i++)
		WANT(e.rcq, 1000 + i, IBV_WC_WR_FLUSH_ERR);
	CHECK_EQ(vt_state(e.qp), IBV_QPS_ERR);
	/* the device serves on, and so does the session */
	par = VT_PARAM;
	vt_pair(&x, &y, &par);
	vt_check_alive(&x, &y);
	vt_pair_close(&x, &y);
	vt_end_close(&e);
}

/* Killed while the client waits in RNR, and while it only waits for a message. */
static void killed_idle_server(void)
{
	struct vt_end e;

	dying_open(&e);
	wait_for_death();
}

static void killed_idle_client(void)
{
	struct vt_param par;
	struct vt_end e;

	dying_param(&par);
	halves_open(&e, &par);
	vt_recv(&e, 50, 0, 64);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, 64, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	for (unsigned i = 2; i < 10; i++)
		vt_send(&e, i, 0, 64, IBV_SEND_SIGNALED); /* RNR: there is no receive */
	halves_put(halves_sock, "K", 1);
	WANT(e.scq, 2, IBV_WC_RETRY_EXC_ERR);
	for (unsigned i = 3; i < 10; i++)
		WANT(e.scq, i, IBV_WC_WR_FLUSH_ERR);
	WANT(e.rcq, 50, IBV_WC_WR_FLUSH_ERR);
	vt_end_close(&e);
}

/* Somebody who reads the dead peer's memory gets an error, not stale data. */
static void killed_read_client(void)
{
	struct vt_param par;
	struct vt_end e;

	dying_param(&par);
	halves_open(&e, &par);
	vt_rdma(&e, IBV_WR_RDMA_READ, 1, 0, MB, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	halves_put(halves_sock, "K", 1);
	for (uint64_t id = 2;; id++) {
		struct ibv_wc wc;

		vt_rdma(&e, IBV_WR_RDMA_READ, id, 0, MB, 0, IBV_SEND_SIGNALED);
		wc = vt_wc(e.scq);
		if (wc.status == IBV_WC_SUCCESS)
			continue;
		CHECK_EQ(wc.status, IBV_WC_RETRY_EXC_ERR);
		break;
	}
	vt_end_close(&e);
}

/* The peer ends its program in order, without closing anything. */
static void exits_server(void)
{
	struct vt_param par;
	struct vt_end e;

	dying_param(&par);
	halves_open(&e, &par);
	vt_send(&e, 1, 0, 64, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
}

static void exits_client(void)
{
	struct vt_param par;
	struct vt_end e;
	char c;

	dying_param(&par);
	vt_end_open(&e, &par);
	CHECK_OK(vt_to_init(e.qp, &par));
	vt_recv(&e, 2, 0, 64);
	struct vt_addr peer;
	halves_exchange(&e.self, &peer);
	e.peer = peer;
	CHECK_OK(vt_to_rtr(e.qp, &par, &peer));
	CHECK_OK(vt_to_rts(e.qp, &par, e.self.psn));
	halves_meet('c');
	WANT_OK(e.rcq, 2);
	CHECK(!halves_get(halves_sock, &c, 1)); /* it has ended */
	vt_send(&e, 3, 0, 64, IBV_SEND_SIGNALED);
	WANT(e.scq, 3, IBV_WC_RETRY_EXC_ERR);
	vt_end_close(&e);
}

/* ---- memory that stalls the router ------------------------------------------------------------ */

enum { STUCK_OFF = 104, STUCK_LEN = 64, STUCK_ROUNDS = 3 };

static const struct stuck_op {
	enum ibv_wr_opcode op;
	bool server; /* whose memory stalls */
} stuck_ops[] = {
	{ IBV_WR_RDMA_WRITE, true },  { IBV_WR_RDMA_READ, true },
	{ IBV_WR_SEND, true },	      { IBV_WR_ATOMIC_FETCH_AND_ADD, true },
	{ IBV_WR_RDMA_WRITE, false }, { IBV_WR_RDMA_READ, false },
	{ IBV_WR_SEND, false },	      { IBV_WR_ATOMIC_FETCH_AND_ADD, false },
};

/* An end whose memory is part of a page, so that no pointer of the router reaches it. */
struct stuck {
	struct vt_end e;
	uint8_t *page, *buf;
	struct ibv_mr *mr; /* vt_end_open()'s */
};

static void stuck_open(struct stuck *s, const struct vt_end *e)
{
	struct vt_param par = VT_PARAM;
	struct vt_addr peer;

	vt_end_open_on(&s->e, &par, e->ctx, e->pd);
	s->page = vt_map(4096);
	memset(s->page, 0, 4096);
	s->buf = s->e.buf;
	s->mr = s->e.mr;
	s->e.buf = s->page + STUCK_OFF;
	s->e.mr = vt_reg(&s->e, s->e.buf, STUCK_LEN, VT_ACCESS_ALL);
	s->e.self.addr = (uintptr_t)s->e.buf;
	s->e.self.rkey = s->e.mr->rkey;
	halves_exchange(&s->e.self, &peer);
	vt_connect(&s->e, &peer);
	halves_meet('s');
}

static void stuck_close(struct stuck *s)
{
	CHECK_OK(ibv_dereg_mr(s->e.mr));
	s->e.buf = s->buf;
	s->e.mr = s->mr;
	vt_end_close(&s->e);
	munmap(s->page, 4096);
}

/* -1: there is none here, as in Docker's default profile. */
static int new_uffd(void)
{
	int dev = open("/dev/userfaultfd", O_RDWR | O_CLOEXEC), fd;

	if (dev < 0)
		return (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	fd = ioctl(dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	close(dev);
	return fd;
}

/* Can both halves make memory stall? */
static bool can_stick(void)
{
	int fd = new_uffd();
	char mine = fd >= 0 ? 'y' : 'n', theirs = 'n';

	if (fd >= 0)
		close(fd);
	halves_put(halves_sock, &mine, 1);
	if (!halves_get(halves_sock, &theirs, 1))
		FAIL("the other half is gone");
	return mine == 'y' && theirs == 'y';
}

/* Its page is not there, and who touches it waits until the descriptor is closed. */
static int stick(struct stuck *s)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)s->page, 4096 },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = new_uffd();

	CHECK(fd >= 0);
	CHECK_OK(madvise(s->page, 4096, MADV_DONTNEED));
	CHECK_EQ(ioctl(fd, UFFDIO_API, &api), 0);
	CHECK_EQ(ioctl(fd, UFFDIO_REGISTER, &reg), 0);
	return fd;
}

static void stuck_post(struct stuck *s, const struct stuck_op *o, unsigned i)
{
	if (o->op == IBV_WR_SEND)
		vt_send(&s->e, i, 0, STUCK_LEN, IBV_SEND_SIGNALED);
	else if (o->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
		vt_atomic(&s->e, o->op, i, 0, 0, 5, 0);
	else
		vt_rdma(&s->e, o->op, i, 0, STUCK_LEN, 0, IBV_SEND_SIGNALED);
}

/* A message waits for a page; others, of the same two programs, do not; then it is carried out. */
static void stuck_client(void)
{
	struct vt_param par = VT_PARAM;
	struct stuck s;
	struct vt_end e;

	if (!can_stick())
		vt_skip("no userfaultfd here");
	halves_open(&e, &par);
	stuck_open(&s, &e);
	for (unsigned i = 0; i < ARRAY_SIZE(stuck_ops); i++) {
		const struct stuck_op *o = &stuck_ops[i];
		int fd = -1;

		vt_pattern(s.e.buf, STUCK_LEN, i);
		halves_meet('a');
		if (!o->server)
			fd = stick(&s);
		halves_meet('b');
		stuck_post(&s, o, i);
		for (unsigned k = 0; k < STUCK_ROUNDS; k++) {
			vt_pattern(e.buf, 8192, k);
			vt_rdma(&e, IBV_WR_RDMA_WRITE, k, 0, 8192, 0, IBV_SEND_SIGNALED);
			WANT_OK(e.scq, k);
		}
		CHECK_EMPTY(s.e.scq);
		halves_meet('c');
		halves_meet('x');
		if (fd >= 0)
			close(fd);
		WANT_OK(s.e.scq, i);
		if (o->op == IBV_WR_RDMA_READ) {
			if (o->server)
				CHECK(vt_all(s.e.buf, STUCK_LEN, 0));
			else
				CHECK_PATTERN(s.e.buf, STUCK_LEN, 100 + i);
		}
		halves_meet('d');
	}
	stuck_close(&s);
	vt_end_close(&e);
}

static void stuck_server(void)
{
	struct vt_param par = VT_PARAM;
	struct stuck s;
	struct vt_end e;

	if (!can_stick())
		return;
	halves_open(&e, &par);
	stuck_open(&s, &e);
	for (unsigned i = 0; i < ARRAY_SIZE(stuck_ops); i++) {
		const struct stuck_op *o = &stuck_ops[i];
		uint64_t was, v;
		int fd = -1;

		vt_pattern(s.e.buf, STUCK_LEN, 100 + i);
		memcpy(&was, s.e.buf, 8);
		if (o->op == IBV_WR_SEND)
			vt_recv(&s.e, i, 0, STUCK_LEN);
		halves_meet('a');
		if (o->server) {
			fd = stick(&s);
			was = 0;
		}
		halves_meet('b');
		halves_meet('c');
		CHECK_PATTERN(e.buf, 8192, STUCK_ROUNDS - 1);
		CHECK_EMPTY(s.e.rcq);
		halves_meet('x');
		if (fd >= 0)
			close(fd);
		halves_meet('d');
		if (o->op == IBV_WR_SEND)
			CHECK_EQ(WANT_OK(s.e.rcq, i).byte_len, STUCK_LEN);
		memcpy(&v, s.e.buf, 8);
		if (o->op == IBV_WR_ATOMIC_FETCH_AND_ADD)
			CHECK_EQ(v, was + 5);
		else if (o->op != IBV_WR_RDMA_READ && o->server)
			CHECK_PATTERN(s.e.buf, STUCK_LEN, i);
		else if (o->op != IBV_WR_RDMA_READ)
			CHECK(vt_all(s.e.buf, STUCK_LEN, 0));
	}
	stuck_close(&s);
	vt_end_close(&e);
}

HALVES_MAIN({ "peer_killed", killed_client, killed_server },
	    { "peer_killed_idle", killed_idle_client, killed_idle_server },
	    { "peer_killed_read", killed_read_client, killed_idle_server },
	    { "peer_exits", exits_client, exits_server },
	    { "peer_stuck_memory", stuck_client, stuck_server })
