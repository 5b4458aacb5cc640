/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/lib/vt.c -lpthread */
/* timeout: 300 */
/*
 * verbs_peer.c - two processes: checked transfers between them, and a peer that dies.
 *
 *	verbs_peer [CASE...]			both sides here, joined by a socket pair
 *	verbs_peer --server [PORT]		serve until the client says that it is done
 *	verbs_peer --client HOST [--port PORT] [CASE...]
 *
 * Each case has two halves that exchange addresses and keep step over a stream socket. The serving
 * half runs in a process of its own, which the other one may ask to be killed.
 */
#include "tests/lib/vt.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netdb.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define PORT_DEFAULT "18600"
#define NAME_MAX_LEN 64
#define MB	     (1024u * 1024u)

static int sock = -1; /* to the other half, in the process of a half */

/* ---- rendezvous ----------------------------------------------------------------------------- */

static void put_all(int fd, const void *data, size_t len)
{
	const char *p = data;

	while (len) {
		ssize_t n = send(fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			FAIL("the other half is gone: %s", strerror(errno));
		p += n;
		len -= (size_t)n;
	}
}

/* False at the end of the stream. */
static bool get_all(int fd, void *data, size_t len)
{
	char *p = data;

	while (len) {
		ssize_t n = recv(fd, p, len, 0);

		if (n <= 0)
			return false;
		p += n;
		len -= (size_t)n;
	}
	return true;
}

static void exchange(const struct vt_addr *mine, struct vt_addr *theirs)
{
	put_all(sock, mine, sizeof(*mine));
	if (!get_all(sock, theirs, sizeof(*theirs)))
		FAIL("the other half is gone");
}

/* Both halves come to this point before either goes on. */
static void meet(char mark)
{
	char c = 0;

	put_all(sock, &mark, 1);
	if (!get_all(sock, &c, 1))
		FAIL("the other half is gone at '%c'", mark);
	CHECK_EQ(c, mark);
}

static void open_connected(struct vt_end *e, const struct vt_param *par)
{
	struct vt_addr peer;

	vt_end_open(e, par);
	exchange(&e->self, &peer);
	vt_connect(e, &peer);
	meet('c');
}

/* ---- transfers ------------------------------------------------------------------------------ */

static const size_t sizes[] = { 1, 8, 63, 64, 65, 4095, 4096, 4097, 100001, MB, 8 * MB + 3 };

static void open_large(struct vt_end *e)
{
	struct vt_param par = VT_PARAM;

	par.len = 9 * MB;
	open_connected(e, &par);
}

static void sends_client(void)
{
	struct vt_end e;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (unsigned k = 0; k < 5; k++) {
			vt_pattern(e.buf, sizes[i], i * 10 + k);
			vt_send(&e, k, 0, sizes[i], IBV_SEND_SIGNALED);
			WANT_OK(e.scq, k);
			/* and back again, changed */
			memset(e.buf, 0, sizes[i]);
			vt_recv(&e, k, 0, sizes[i]);
			meet('r');
			CHECK_EQ(WANT_OK(e.rcq, k).byte_len, sizes[i]);
			CHECK_PATTERN(e.buf, sizes[i], 5000 + i * 10 + k);
		}
	}
	vt_end_close(&e);
}

static void sends_server(void)
{
	struct vt_end e;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		for (unsigned k = 0; k < 5; k++) {
			memset(e.buf, 0, sizes[i]);
			vt_recv(&e, k, 0, sizes[i]);
			CHECK_EQ(WANT_OK(e.rcq, k).byte_len, sizes[i]);
			CHECK_PATTERN(e.buf, sizes[i], i * 10 + k);
			vt_pattern(e.buf, sizes[i], 5000 + i * 10 + k);
			meet('r');
			vt_send(&e, k, 0, sizes[i], IBV_SEND_SIGNALED);
			WANT_OK(e.scq, k);
		}
	}
	vt_end_close(&e);
}

/* One-sided: the serving half only looks at its memory. */
static void one_sided_client(void)
{
	struct vt_end e;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		vt_pattern(e.buf, sizes[i], i);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, sizes[i], 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, i);
		meet('w');
		meet('p'); /* the server has put a pattern there */
		vt_rdma(&e, IBV_WR_RDMA_READ, i, 0, sizes[i], 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, i);
		CHECK_PATTERN(e.buf, sizes[i], 700 + i);
	}
	for (unsigned i = 0; i < 100; i++) {
		uint64_t old;

		vt_atomic(&e, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, 8 * MB + 64, 3, 0);
		WANT_OK(e.scq, i);
		memcpy(&old, e.buf, 8);
		CHECK_EQ(old, 3 * i);
	}
	meet('a');
	vt_end_close(&e);
}

static void one_sided_server(void)
{
	struct vt_end e;
	uint64_t v;

	open_large(&e);
	for (unsigned i = 0; i < ARRAY_SIZE(sizes); i++) {
		meet('w');
		CHECK_PATTERN(e.buf, sizes[i], i);
		vt_pattern(e.buf, sizes[i], 700 + i);
		meet('p');
		CHECK_EQ(ibv_poll_cq(e.rcq, 1, &(struct ibv_wc){ 0 }), 0);
	}
	meet('a');
	memcpy(&v, e.buf + 8 * MB + 64, 8);
	CHECK_EQ(v, 300);
	vt_end_close(&e);
}

/* Both write a counter to the other and wait for the other's, as latency tests do. */
static void ping_pong(bool first)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	open_connected(&e, &par);
	for (uint64_t i = 1; i <= 20000 / vt_slow(); i++) {
		if (!first)
			WAIT_FOR(*(volatile uint64_t *)(e.buf + 64) == i);
		memcpy(e.buf, &i, 8);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, i, 0, 8, 64, IBV_SEND_SIGNALED);
		if (first)
			WAIT_FOR(*(volatile uint64_t *)(e.buf + 64) == i);
		WANT_OK(e.scq, i);
	}
	meet('e');
	vt_end_close(&e);
}

static void ping_pong_client(void)
{
	ping_pong(true);
}
static void ping_pong_server(void)
{
	ping_pong(false);
}

/* UD and UC between the processes, blocking in ibv_get_cq_event. */
static void datagrams(bool first)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	par.type = IBV_QPT_UD;
	par.channel = true;
	open_connected(&e, &par);
	vt_recv(&e, 0, 0, 2048);
	CHECK_OK(ibv_req_notify_cq(e.rcq, 0));
	meet('r');
	for (unsigned i = 0; i < 500; i++) {
		if (first) {
			vt_pattern(e.buf + 4096, 800, i);
			vt_send(&e, i, 4096, 800, IBV_SEND_SIGNALED);
			WANT_OK(e.scq, i);
		}
		WANT_COMP_EVENT(e.channel, e.rcq);
		CHECK_OK(ibv_req_notify_cq(e.rcq, 0));
		CHECK_EQ(WANT_OK(e.rcq, i).byte_len, 840);
		CHECK_PATTERN(e.buf + VT_GRH, 800, first ? 10000 + i : i);
		vt_recv(&e, i + 1, 0, 2048);
		if (!first) {
			vt_pattern(e.buf + 4096, 800, 10000 + i);
			vt_send(&e, i, 4096, 800, IBV_SEND_SIGNALED);
			WANT_OK(e.scq, i);
		}
	}
	ibv_ack_cq_events(e.rcq, 500);
	meet('e');
	vt_end_close(&e);
}

static void datagrams_client(void)
{
	datagrams(true);
}
static void datagrams_server(void)
{
	datagrams(false);
}

/* ---- a peer that dies ----------------------------------------------------------------------- */

static void *die_on_request(void *arg)
{
	char c;

	if (get_all(sock, &c, 1) && c == 'K')
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

/* Killed while both sides send as fast as they can. */
static void killed_server(void)
{
	struct vt_param par;
	struct vt_end e;
	pthread_t t;

	dying_param(&par);
	open_connected(&e, &par);
	CHECK_EQ(pthread_create(&t, NULL, die_on_request, NULL), 0);
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
	open_connected(&e, &par);
	for (unsigned i = 0; i < 20; i++)
		vt_recv(&e, 1000 + i, 3 * MB, 64);
	while (before < 200) {
		for (; posted - next < 32; posted++)
			vt_rdma(&e, IBV_WR_RDMA_WRITE, posted, 0, 64 * 1024, 0, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, next++);
		before++;
	}
	put_all(sock, "K", 1);
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
	struct vt_param par;
	struct vt_end e;
	pthread_t t;

	dying_param(&par);
	open_connected(&e, &par);
	CHECK_EQ(pthread_create(&t, NULL, die_on_request, NULL), 0);
	wait_for_death();
}

static void killed_idle_client(void)
{
	struct vt_param par;
	struct vt_end e;

	dying_param(&par);
	open_connected(&e, &par);
	vt_recv(&e, 50, 0, 64);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, 64, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	for (unsigned i = 2; i < 10; i++)
		vt_send(&e, i, 0, 64, IBV_SEND_SIGNALED); /* RNR: there is no receive */
	put_all(sock, "K", 1);
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
	open_connected(&e, &par);
	vt_rdma(&e, IBV_WR_RDMA_READ, 1, 0, MB, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	put_all(sock, "K", 1);
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
	open_connected(&e, &par);
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
	exchange(&e.self, &peer);
	e.peer = peer;
	CHECK_OK(vt_to_rtr(e.qp, &par, &peer));
	CHECK_OK(vt_to_rts(e.qp, &par, e.self.psn));
	meet('c');
	WANT_OK(e.rcq, 2);
	CHECK(!get_all(sock, &c, 1)); /* it has ended */
	vt_send(&e, 3, 0, 64, IBV_SEND_SIGNALED);
	WANT(e.scq, 3, IBV_WC_RETRY_EXC_ERR);
	vt_end_close(&e);
}

/* ---- memory windows and device memory ------------------------------------------------------- */

#define WINDOW_OFF 4096u
#define WINDOW_LEN (MB + 5)

static void give(uint32_t v)
{
	put_all(sock, &v, sizeof(v));
}

static uint32_t take(void)
{
	uint32_t v = 0;

	CHECK(get_all(sock, &v, sizeof(v)));
	return v;
}

/* The serving half lets the other one at a part of its memory, for one round at a time. */
static void windows_server(void)
{
	const unsigned access = IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_WRITE;
	struct vt_param par = VT_PARAM;
	struct vt_end e;
	struct ibv_mw *mw;
	struct ibv_wc wc;

	par.len = 2 * MB;
	par.access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND;
	open_connected(&e, &par);
	mw = CHECK_PTR(ibv_alloc_mw(e.pd, IBV_MW_TYPE_2));
	for (uint32_t i = 0; i < 20; i++) {
		uint32_t rkey = ibv_inc_rkey((mw->rkey & ~0xffu) | i);
		struct ibv_send_wr wr = {
			.wr_id = 1,
			.opcode = IBV_WR_BIND_MW,
			.send_flags = IBV_SEND_SIGNALED,
			.bind_mw = { mw,
				     rkey,
				     { e.mr, e.self.addr + WINDOW_OFF, WINDOW_LEN, access } },
		};

		memset(e.buf, 0x55, e.len);
		vt_recv(&e, 2, e.len - 64, 64);
		CHECK_OK(vt_post(&e, &wr));
		CHECK_EQ(WANT_OK(e.scq, 1).opcode, IBV_WC_BIND_MW);
		give(rkey);
		/* the other half has written to it, and gives it back with a message */
		wc = WANT_OK(e.rcq, 2);
		CHECK_EQ(wc.wc_flags, IBV_WC_WITH_INV);
		CHECK_EQ(wc.invalidated_rkey, rkey);
		CHECK_PATTERN(e.buf + WINDOW_OFF, WINDOW_LEN, i);
		CHECK(vt_all(e.buf, WINDOW_OFF, 0x55));
		CHECK_OK(ibv_dereg_mr(e.mr)); /* nothing is bound to it */
		e.mr = vt_reg(&e, e.buf, e.len, par.access);
	}
	meet('o'); /* the other one tries the last rkey once more */
	WANT_QP_EVENT(&e, IBV_EVENT_QP_ACCESS_ERR);
	CHECK_PATTERN(e.buf + WINDOW_OFF, WINDOW_LEN, 19);
	CHECK_OK(ibv_dealloc_mw(mw));
	vt_end_close(&e);
}

static void windows_client(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_send_wr wr = { .wr_id = 3,
				  .opcode = IBV_WR_SEND_WITH_INV,
				  .send_flags = IBV_SEND_SIGNALED };
	struct ibv_sge sge;
	struct vt_end e;

	par.len = 2 * MB;
	open_connected(&e, &par);
	for (uint32_t i = 0; i < 20; i++) {
		e.peer.rkey = take();
		vt_pattern(e.buf, WINDOW_LEN, i);
		vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, WINDOW_LEN, WINDOW_OFF, 0);
		vt_rdma(&e, IBV_WR_RDMA_READ, 2, 0, WINDOW_LEN, WINDOW_OFF, IBV_SEND_SIGNALED);
		WANT_OK(e.scq, 2);
		CHECK_PATTERN(e.buf, WINDOW_LEN, i);
		sge = vt_sge(&e, 0, 64);
		wr.sg_list = &sge;
		wr.num_sge = 1;
		wr.invalidate_rkey = e.peer.rkey;
		CHECK_OK(vt_post(&e, &wr));
		WANT_OK(e.scq, 3);
	}
	meet('o');
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 4, 0, 64, WINDOW_OFF, IBV_SEND_SIGNALED);
	WANT(e.scq, 4, IBV_WC_REM_ACCESS_ERR);
	vt_end_close(&e);
}

#define DM_LEN 100000u

static void device_memory_server(void)
{
	static uint8_t host[DM_LEN];
	struct vt_param par = VT_PARAM;
	struct ibv_dm *dm;
	struct ibv_mr *mr;
	struct vt_end e;

	open_connected(&e, &par);
	dm = CHECK_PTR(ibv_alloc_dm(e.ctx, &(struct ibv_alloc_dm_attr){ .length = DM_LEN }));
	mr = CHECK_PTR(ibv_reg_dm_mr(e.pd, dm, 0, DM_LEN, VT_ACCESS_ALL | IBV_ACCESS_ZERO_BASED));
	give(mr->rkey);
	meet('w');
	CHECK_OK(ibv_memcpy_from_dm(host, dm, 0, DM_LEN));
	CHECK_PATTERN(host, DM_LEN, 1);
	vt_pattern(host, DM_LEN, 2);
	CHECK_OK(ibv_memcpy_to_dm(dm, 0, host, DM_LEN));
	meet('r');
	meet('d');
	CHECK_OK(ibv_dereg_mr(mr));
	CHECK_OK(ibv_free_dm(dm));
	vt_end_close(&e);
}

static void device_memory_client(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end e;

	par.len = DM_LEN;
	open_connected(&e, &par);
	e.peer.rkey = take();
	e.peer.addr = 0;
	vt_pattern(e.buf, DM_LEN, 1);
	vt_rdma(&e, IBV_WR_RDMA_WRITE, 1, 0, DM_LEN, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 1);
	meet('w');
	meet('r');
	vt_rdma(&e, IBV_WR_RDMA_READ, 2, 0, DM_LEN, 0, IBV_SEND_SIGNALED);
	WANT_OK(e.scq, 2);
	CHECK_PATTERN(e.buf, DM_LEN, 2);
	meet('d');
	vt_end_close(&e);
}

/* ---- memory that stalls the router ------------------------------------------------------------ */

enum { STUCK_OFF = 104, STUCK_LEN = 64, STUCK_ROUNDS = 20 };

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
	exchange(&s->e.self, &peer);
	vt_connect(&s->e, &peer);
	meet('s');
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
	put_all(sock, &mine, 1);
	if (!get_all(sock, &theirs, 1))
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
	open_connected(&e, &par);
	stuck_open(&s, &e);
	for (unsigned i = 0; i < ARRAY_SIZE(stuck_ops); i++) {
		const struct stuck_op *o = &stuck_ops[i];
		int fd = -1;

		vt_pattern(s.e.buf, STUCK_LEN, i);
		meet('a');
		if (!o->server)
			fd = stick(&s);
		meet('b');
		stuck_post(&s, o, i);
		for (unsigned k = 0; k < STUCK_ROUNDS; k++) {
			vt_pattern(e.buf, 8192, k);
			vt_rdma(&e, IBV_WR_RDMA_WRITE, k, 0, 8192, 0, IBV_SEND_SIGNALED);
			WANT_OK(e.scq, k);
		}
		CHECK_EMPTY(s.e.scq);
		meet('c');
		meet('x');
		if (fd >= 0)
			close(fd);
		WANT_OK(s.e.scq, i);
		if (o->op == IBV_WR_RDMA_READ) {
			if (o->server)
				CHECK(vt_all(s.e.buf, STUCK_LEN, 0));
			else
				CHECK_PATTERN(s.e.buf, STUCK_LEN, 100 + i);
		}
		meet('d');
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
	open_connected(&e, &par);
	stuck_open(&s, &e);
	for (unsigned i = 0; i < ARRAY_SIZE(stuck_ops); i++) {
		const struct stuck_op *o = &stuck_ops[i];
		uint64_t was, v;
		int fd = -1;

		vt_pattern(s.e.buf, STUCK_LEN, 100 + i);
		memcpy(&was, s.e.buf, 8);
		if (o->op == IBV_WR_SEND)
			vt_recv(&s.e, i, 0, STUCK_LEN);
		meet('a');
		if (o->server) {
			fd = stick(&s);
			was = 0;
		}
		meet('b');
		meet('c');
		CHECK_PATTERN(e.buf, 8192, STUCK_ROUNDS - 1);
		CHECK_EMPTY(s.e.rcq);
		meet('x');
		if (fd >= 0)
			close(fd);
		meet('d');
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

/* ---- running both halves -------------------------------------------------------------------- */

static const struct half {
	const char *name;
	void (*client)(void), (*server)(void);
} halves[] = {
	{ "peer_sends", sends_client, sends_server },
	{ "peer_one_sided", one_sided_client, one_sided_server },
	{ "peer_ping_pong", ping_pong_client, ping_pong_server },
	{ "peer_datagrams", datagrams_client, datagrams_server },
	{ "peer_killed", killed_client, killed_server },
	{ "peer_killed_idle", killed_idle_client, killed_idle_server },
	{ "peer_killed_read", killed_read_client, killed_idle_server },
	{ "peer_exits", exits_client, exits_server },
	{ "peer_stuck_memory", stuck_client, stuck_server },
	{ "peer_windows", windows_client, windows_server },
	{ "peer_device_memory", device_memory_client, device_memory_server },
};

static const char *host, *port = PORT_DEFAULT;

static int dial(void)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM }, *ai;
	uint64_t until = vt_deadline();
	int err = getaddrinfo(host, port, &hints, &ai), fd;

	if (err)
		FAIL("%s: %s", host, gai_strerror(err));
	for (;;) { /* the server may be about to start */
		fd = socket(ai->ai_family, ai->ai_socktype, 0);
		CHECK(fd >= 0);
		if (!connect(fd, ai->ai_addr, ai->ai_addrlen))
			break;
		if (vt_now() > until)
			FAIL("connect to %s: %s", host, strerror(errno));
		close(fd);
		vt_pause();
	}
	freeaddrinfo(ai);
	return fd;
}

static void say_name(int fd, const char *name)
{
	char buf[NAME_MAX_LEN] = { 0 };

	strncpy(buf, name, sizeof(buf) - 1);
	put_all(fd, buf, sizeof(buf));
}

static const struct half *half_of(const char *name)
{
	for (unsigned i = 0; i < ARRAY_SIZE(halves); i++)
		if (!strcmp(name, halves[i].name))
			return &halves[i];
	return NULL;
}

/* The client's half of the case that runs, and, without a host, the server's beside it. */
static void run_client(void)
{
	const struct half *half = CHECK_PTR(half_of(vt_case_name()));
	int fds[2], status = 0;
	pid_t pid;

	if (host) {
		sock = dial();
		say_name(sock, half->name);
		half->client();
		return;
	}
	CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	pid = fork();
	CHECK(pid >= 0);
	if (!pid) {
		close(fds[0]);
		sock = fds[1];
		half->server();
		_exit(0);
	}
	close(fds[1]);
	sock = fds[0];
	half->client();
	CHECK(waitpid(pid, &status, 0) == pid);
	if (WIFEXITED(status))
		CHECK_EQ(WEXITSTATUS(status), 0);
	else
		CHECK_EQ(WTERMSIG(status), SIGKILL); /* as asked for */
}

static const struct vt_case cases[] = {
	{ "peer_sends", run_client, 0 },	 { "peer_one_sided", run_client, 0 },
	{ "peer_ping_pong", run_client, 0 },	 { "peer_datagrams", run_client, 0 },
	{ "peer_killed", run_client, 0 },	 { "peer_killed_idle", run_client, 0 },
	{ "peer_killed_read", run_client, 0 },	 { "peer_exits", run_client, 0 },
	{ "peer_stuck_memory", run_client, 0 },	 { "peer_windows", run_client, 0 },
	{ "peer_device_memory", run_client, 0 },
};
_Static_assert(ARRAY_SIZE(cases) == ARRAY_SIZE(halves), "a case for each pair of halves");

/* Serve one connection in a process of its own. False when the client is done. */
static bool serve_one(int fd)
{
	const struct half *half;
	char name[NAME_MAX_LEN];

	if (!get_all(fd, name, sizeof(name)))
		return true;
	name[sizeof(name) - 1] = 0;
	if (!strcmp(name, "done"))
		return false;
	half = half_of(name);
	if (!half)
		return true;
	fflush(stdout);
	if (!fork()) {
		sock = fd;
		alarm(60 * vt_slow());
		half->server();
		_exit(0);
	}
	return true;
}

static int serve(void)
{
	struct addrinfo hints = { .ai_family = AF_INET,
				  .ai_socktype = SOCK_STREAM,
				  .ai_flags = AI_PASSIVE },
			*ai;
	int one = 1, fd, status, bad = 0;
	bool more = true;

	if (getaddrinfo(NULL, port, &hints, &ai)) {
		fprintf(stderr, "verbs_peer: bad port %s\n", port);
		return 2;
	}
	fd = socket(ai->ai_family, ai->ai_socktype, 0);
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 8)) {
		perror("verbs_peer: listen");
		return 1;
	}
	freeaddrinfo(ai);
	while (more) {
		int conn = accept(fd, NULL, NULL);

		if (conn < 0)
			continue;
		more = serve_one(conn);
		close(conn);
	}
	while (wait(&status) > 0)
		if (WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status) != SIGKILL)
			bad = 1;
	return bad;
}

int main(int argc, char **argv)
{
	int ret, first = 1;

	if (argc >= 2 && !strcmp(argv[1], "--server")) {
		port = argc > 2 ? argv[2] : PORT_DEFAULT;
		return serve();
	}
	if (argc >= 3 && !strcmp(argv[1], "--client")) {
		host = argv[2];
		first = 3;
		if (argc >= 5 && !strcmp(argv[3], "--port")) {
			port = argv[4];
			first = 5;
		}
	}
	argv[first - 1] = argv[0];
	ret = vt_main(argc - first + 1, argv + first - 1, cases, ARRAY_SIZE(cases));
	if (host) {
		int fd = dial();

		say_name(fd, "done");
		close(fd);
	}
	return ret;
}
