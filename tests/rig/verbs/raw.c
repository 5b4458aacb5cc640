/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* raw.c - see raw.h. */
#include "tests/rig/verbs/raw.h"

#include <fcntl.h>
#include <limits.h>
#include <linux/userfaultfd.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/common/hello.h"
#include "tests/rig/common/qp_attr.h"

bool raw_spin, raw_unsealed;

/* ---- packets -------------------------------------------------------------------------------- */

void raw_connect(struct raw *r)
{
	const char *path = getenv("FFL_SOCKET");
	struct sockaddr_un sun = { .sun_family = AF_UNIX };

	memset(r, 0, sizeof(*r));
	r->async_fd = r->bell_fd = r->uffd_dev = -1;
	strncpy(sun.sun_path, path ? path : FF_SOCKET_DEFAULT, sizeof(sun.sun_path) - 1);
	r->sock =
		socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | (raw_spin ? SOCK_NONBLOCK : 0), 0);
	CHECK(r->sock >= 0);
	while (connect(r->sock, (struct sockaddr *)&sun, sizeof(sun)))
		if (errno != EAGAIN || !raw_spin)
			FAIL("connect to %s: %s", sun.sun_path, strerror(errno));
}

bool raw_hello(struct raw *r)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_req req;
	} m = { .hdr = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_HELLO, .n_fds = 2 },
		.req = { .version_min = FF_PROTO_VERSION,
			 .version_max = FF_PROTO_VERSION,
			 .comm = "raw" } };
	int fd[2];
	bool sent;

	memcpy(m.req.nonce, r->nonce, sizeof(r->nonce));
	hello_memory(fd);
	sent = raw_send_fds(r, &m, sizeof(m), fd, 2);
	close(fd[0]);
	close(fd[1]);
	return sent;
}

void raw_knock(void)
{
	uint8_t answer[512];
	unsigned n = 0;
	struct raw r;
	int fds[8];

	raw_connect(&r);
	if (raw_hello(&r))
		(void)raw_recv(&r, answer, sizeof(answer), fds, &n);
	while (n)
		close(fds[--n]);
	raw_close(&r);
}

int raw_try_open(struct raw *r)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_resp resp;
	} a;
	unsigned n_fds = 0;
	int fds[8];

	raw_connect(r);
	/* other programs of this user may have too many descriptors on their way for a while */
	WAIT_FOR(raw_hello(r) || errno != ETOOMANYREFS);
	CHECK_EQ(raw_recv(r, &a, sizeof(a), fds, &n_fds), sizeof(a));
	if (a.hdr.status == -EAGAIN) { /* before Linux 6.5 */
		struct ff_challenge_resp answer;

		RAW_CALL(r, CHALLENGE, &(struct ff_challenge_req){ 0 }, &answer);
		memcpy(r->nonce, answer.nonce, sizeof(r->nonce));
		CHECK(raw_hello(r));
		CHECK_EQ(raw_recv(r, &a, sizeof(a), fds, &n_fds), sizeof(a));
	}
	if (a.hdr.status)
		return a.hdr.status;
	CHECK(n_fds == 2u + !!a.resp.has_uffd);
	r->hello = a.resp;
	r->async_fd = fds[0];
	r->bell_fd = fds[1];
	if (a.resp.has_uffd)
		r->uffd_dev = fds[2];
	raw_at(r, 0, 0); /* the next call ends that it can be mapped */
	return 0;
}

void raw_open(struct raw *r)
{
	CHECK_EQ(raw_try_open(r), 0);
}

void raw_open_victim(struct raw *r)
{
	const char *own = getenv("FFL_SOCKET"), *other = getenv("FF_VICTIM");
	char path[PATH_MAX];

	CHECK(own && other);
	snprintf(path, sizeof(path), "%s", own);
	CHECK(!setenv("FFL_SOCKET", other, true));
	raw_open(r);
	CHECK(!setenv("FFL_SOCKET", path, true));
}

void raw_close(struct raw *r)
{
	for (unsigned i = 0; i < RAW_MAX_SEGS; i++) {
		if (!r->seg[i].map)
			continue;
		munmap(r->seg[i].map, r->seg[i].size);
		close(r->seg[i].fd);
	}
	close(r->sock);
	if (r->async_fd >= 0)
		close(r->async_fd);
	if (r->bell_fd >= 0)
		close(r->bell_fd);
	if (r->uffd_dev >= 0)
		close(r->uffd_dev);
}

bool raw_send_fds(struct raw *r, const void *packet, size_t len, const int *fds, unsigned n_fds)
{
	struct iovec iov = { .iov_base = (void *)packet, .iov_len = len };
	union {
		char room[CMSG_SPACE(RAW_MAX_FDS * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = { .msg_iov = &iov, .msg_iovlen = 1 };
	ssize_t n;

	CHECK(n_fds <= RAW_MAX_FDS);
	if (n_fds) {
		struct cmsghdr *c;

		memset(&control, 0, sizeof(control));
		msg.msg_control = &control;
		msg.msg_controllen = CMSG_SPACE(n_fds * sizeof(int));
		c = CMSG_FIRSTHDR(&msg);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(n_fds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, n_fds * sizeof(int));
	}
	do
		n = sendmsg(r->sock, &msg, MSG_NOSIGNAL);
	while (n < 0 && (errno == EINTR || (errno == EAGAIN && raw_spin)));
	if (n < 0 && errno != EPIPE && errno != ECONNRESET && errno != ETOOMANYREFS)
		FAIL("sendmsg of %zu bytes: %s", len, strerror(errno));
	return n >= 0;
}

const struct raw_msg raw_msgs[] = {
#define X(num, NAME, name, tail, fds)                                                              \
	{ #NAME, num, sizeof(struct ff_##name##_req), sizeof(struct ff_##name##_resp),             \
	  sizeof(struct tail) != sizeof(struct ff_none) },
	FF_MSG_TABLE(X)
#undef X
};
const unsigned raw_num_msgs = ARRAY_SIZE(raw_msgs);

struct ff_hdr raw_header(uint16_t type)
{
	return (struct ff_hdr){ .magic = FF_PROTO_MAGIC, .type = type, .seq = 7 };
}

bool raw_send(struct raw *r, const void *packet, size_t len, int fd)
{
	return raw_send_fds(r, packet, len, &fd, fd >= 0);
}

size_t raw_recv(struct raw *r, void *packet, size_t size, int fds[8], unsigned *n_fds)
{
	struct iovec iov = { .iov_base = packet, .iov_len = size };
	union {
		char room[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control;
	struct msghdr msg = { .msg_iov = &iov,
			      .msg_iovlen = 1,
			      .msg_control = &control,
			      .msg_controllen = sizeof(control.room) };
	struct pollfd p = { .fd = r->sock, .events = POLLIN };
	struct cmsghdr *c;
	ssize_t n;

	if (n_fds)
		*n_fds = 0;
	if (!raw_spin && poll(&p, 1, VT_WAIT_MS * (int)vt_slow()) != 1)
		FAIL("the router neither answered nor closed the session");
	do
		n = recvmsg(r->sock, &msg, MSG_CMSG_CLOEXEC);
	while (n < 0 && errno == EAGAIN && raw_spin);
	if (n <= 0) /* the end, or the reset that a queue of unread packets makes of it */
		return 0;
	for (c = CMSG_FIRSTHDR(&msg); c; c = CMSG_NXTHDR(&msg, c)) {
		unsigned num;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		num = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		CHECK(fds && n_fds && num <= 8);
		memcpy(fds, CMSG_DATA(c), num * sizeof(int));
		*n_fds = num;
	}
	return (size_t)n;
}

void raw_want_closed(struct raw *r)
{
	uint8_t packet[FF_MSG_MAX];
	int fds[8];
	unsigned n;

	while (raw_recv(r, packet, sizeof(packet), fds, &n))
		while (n)
			close(fds[--n]);
}

static bool ask(struct raw *r, uint16_t type, const void *req, size_t req_len, const void *tail,
		size_t tail_size, uint16_t n_tail, const int *fd, unsigned n_fd)
{
	uint8_t packet[2 * FF_MSG_MAX];
	struct ff_hdr hdr = { .magic = FF_PROTO_MAGIC,
			      .type = type,
			      .seq = ++r->seq,
			      .n_tail = n_tail,
			      .n_fds = (uint16_t)n_fd };
	size_t len = sizeof(hdr) + req_len + tail_size * n_tail;

	CHECK(len <= sizeof(packet));
	memcpy(packet, &hdr, sizeof(hdr));
	memcpy(packet + sizeof(hdr), req, req_len);
	if (n_tail)
		memcpy(packet + sizeof(hdr) + req_len, tail, tail_size * n_tail);
	return raw_send_fds(r, packet, len, fd, n_fd);
}

bool raw_ask(struct raw *r, uint16_t type, const void *req, size_t req_len, const void *tail,
	     size_t tail_size, uint16_t n_tail)
{
	return ask(r, type, req, req_len, tail, tail_size, n_tail, NULL, 0);
}

/* The answer to the request with that number. */
static int answer(struct raw *r, uint16_t type, uint32_t seq, void *resp, size_t resp_len)
{
	uint8_t packet[FF_MSG_MAX];
	struct ff_hdr hdr;
	unsigned n_fds;
	int fds[8];
	size_t got;

	got = raw_recv(r, packet, sizeof(packet), fds, &n_fds);
	if (!got)
		return RAW_CLOSED;
	CHECK_EQ(got, sizeof(hdr) + resp_len);
	memcpy(&hdr, packet, sizeof(hdr));
	CHECK_EQ(hdr.magic, FF_PROTO_MAGIC);
	CHECK_EQ(hdr.type, type);
	CHECK_EQ(hdr.seq, seq);
	CHECK_EQ(hdr.n_fds, n_fds);
	CHECK(hdr.status <= 0);
	memcpy(resp, packet + sizeof(hdr), resp_len);
	if (hdr.status) {
		CHECK_EQ(n_fds, 0);
		CHECK(vt_all(resp, resp_len, 0));
	}
	r->last_fd = n_fds ? fds[0] : -1;
	return hdr.status;
}

int raw_answer(struct raw *r, uint16_t type, unsigned behind, void *resp, size_t resp_len)
{
	return answer(r, type, r->seq - behind, resp, resp_len);
}

static int call(struct raw *r, uint16_t type, const void *req, size_t req_len, const void *tail,
		size_t tail_size, uint16_t n_tail, const int *fd, unsigned n_fd, void *resp,
		size_t resp_len)
{
	if (!ask(r, type, req, req_len, tail, tail_size, n_tail, fd, n_fd))
		return RAW_CLOSED;
	return answer(r, type, r->seq, resp, resp_len);
}

int raw_call_tail(struct raw *r, uint16_t type, const void *req, size_t req_len, const void *tail,
		  size_t tail_size, uint16_t n_tail, void *resp, size_t resp_len)
{
	return call(r, type, req, req_len, tail, tail_size, n_tail, NULL, 0, resp, resp_len);
}

int raw_call_fd(struct raw *r, uint16_t type, const void *req, size_t req_len, const int *fd,
		unsigned n_fds, void *resp, size_t resp_len)
{
	return call(r, type, req, req_len, NULL, 0, 0, fd, n_fds, resp, resp_len);
}

char *raw_mappings(unsigned n)
{
	int fd = memfd_create("many", MFD_CLOEXEC);
	char *maps = mmap(NULL, n * 4096ull, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	CHECK(fd >= 0 && !ftruncate(fd, n * 4096ll) && maps != MAP_FAILED);
	for (uint64_t i = 0; i < n; i++)
		if (mmap(maps + i * 4096, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd,
			 (off_t)((n - 1 - i) * 4096)) == MAP_FAILED)
			vt_skip("%llu mappings cannot be made here", (unsigned long long)i);
	memset(maps, 1, n * 4096ull);
	close(fd);
	return maps;
}

void raw_split_memory(unsigned n)
{
	char *p = vt_map(n * 4096ull);

	memset(p, 1, n * 4096ull);
	for (unsigned i = 0; i < n; i += 2)
		CHECK(!mprotect(p + i * 4096ull, 4096, PROT_READ));
}

int raw_watch_pages(struct raw *r)
{
	struct ff_watch_pages_req req = { 0 };
	struct ff_watch_pages_resp resp;
	struct uffdio_api api = { .api = UFFD_API };
	int st, fd[] = { (int)syscall(SYS_userfaultfd,
				      O_CLOEXEC | O_NONBLOCK | 1 /* UFFD_USER_MODE_ONLY */),
			 open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC) };

	CHECK(fd[0] >= 0 && fd[1] >= 0 && !ioctl(fd[0], UFFDIO_API, &api));
	st = raw_call_fd(r, FF_MSG_WATCH_PAGES, &req, sizeof(req), fd, 2, &resp, sizeof(resp));
	close(fd[0]);
	close(fd[1]);
	return st;
}

int raw_place_pages(struct raw *r, uint64_t span, uint64_t *off)
{
	struct ff_place_pages_req req = { .len = span, .span = span };
	struct ff_place_pages_resp resp;
	int st = RAW_TRY(r, PLACE_PAGES, &req, &resp);

	if (!st) {
		close(r->last_fd);
		*off = resp.off;
	}
	return st;
}

void raw_seal(struct raw *r, uint32_t seg)
{
	CHECK(!fcntl(r->seg[seg].fd, F_ADD_SEALS, F_SEAL_FUTURE_WRITE));
}

void *raw_at(struct raw *r, uint32_t seg, uint64_t off)
{
	CHECK(seg < RAW_MAX_SEGS);
	if (!r->seg[seg].map) {
		struct ff_get_seg_req req = { .seg = seg };
		struct ff_get_seg_resp resp;
		void *p;

		RAW_CALL(r, GET_SEG, &req, &resp);
		CHECK(r->last_fd >= 0);
		r->seg[seg].fd = r->last_fd;
		r->seg[seg].size = resp.size;
		p = mmap(NULL, resp.size, PROT_READ | PROT_WRITE, MAP_SHARED, r->seg[seg].fd, 0);
		CHECK(p != MAP_FAILED);
		r->seg[seg].map = p;
		if (!raw_unsealed)
			raw_seal(r, seg);
	}
	CHECK(off < r->seg[seg].size);
	return r->seg[seg].map + off;
}

/* ---- a QP ----------------------------------------------------------------------------------- */

void raw_qp_make(struct raw *r, struct raw_qp *q, enum ibv_qp_type type, size_t len)
{
	struct ff_alloc_pd_resp pd;
	struct ff_reg_mr_resp mr;

	memset(q, 0, sizeof(*q));
	q->type = type;
	RAW_CALL(r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	q->pd = pd.pd;
	RAW_CALL(r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 256 }), &q->c);
	q->cq = q->c.cq;
	q->cq_hdr = raw_at(r, q->c.ring.seg, q->c.ring.off);
	q->cqe = raw_at(r, q->c.ring.seg, q->c.ring.ring_off);
	RAW_CALL(r, CREATE_QP,
		 (&(struct ff_create_qp_req){ .pd = q->pd,
					      .send_cq = q->cq,
					      .recv_cq = q->cq,
					      .qp_type = type,
					      .cap = { 64, 64, 4, 4, 64 } }),
		 &q->q);
	q->qp = q->q.qp;
	q->qp_num = q->q.qp_num;
	q->hdr = raw_at(r, q->q.sq.seg, q->q.sq.off);
	q->sq = raw_at(r, q->q.sq.seg, q->q.sq.ring_off);
	q->rq = raw_at(r, q->q.rq.seg, q->q.rq.ring_off);
	q->len = len;
	q->buf = (uint8_t *)vt_map(len + 2 * RAW_CANARY) + RAW_CANARY;
	memset(q->buf - RAW_CANARY, 0xca, RAW_CANARY);
	memset(q->buf + len, 0xca, RAW_CANARY);
	RAW_CALL(r, REG_MR,
		 (&(struct ff_reg_mr_req){ .addr = (uintptr_t)q->buf,
					   .length = len,
					   .iova = (uintptr_t)q->buf,
					   .pd = q->pd,
					   .access = VT_ACCESS_ALL }),
		 &mr);
	q->mr = mr.mr;
	q->lkey = mr.lkey;
}

int raw_qp_state(struct raw *r, struct raw_qp *q, enum ibv_qp_state state, uint32_t mask,
		 const struct ff_qp_attr *attr)
{
	struct ff_modify_qp_req req = { .qp = q->qp,
					.mask = mask | IBV_QP_STATE,
					.sq_tail = q->sq_tail,
					.rq_tail = q->rq_tail };
	struct ff_modify_qp_resp resp;

	if (attr)
		req.attr = *attr;
	req.attr.qp_state = (uint8_t)state;
	return RAW_TRY(r, MODIFY_QP, &req, &resp);
}

void raw_qp_connect_to(struct raw *r, struct raw_qp *q, uint32_t dest_qp_num)
{
	struct ff_query_gid_req gid_req = { .port = 1 };
	struct ff_query_gid_resp gid;
	struct ff_qp_attr attr = qp_attr_usual(IBV_QPS_RESET, dest_qp_num);
	uint32_t rtr = 0, rts = IBV_QP_SQ_PSN;

	attr.qkey = VT_QKEY;
	attr.qp_access_flags = VT_ACCESS_ALL;
	attr.min_rnr_timer = 1;
	attr.timeout = 10;
	attr.retry_cnt = 1;
	attr.rnr_retry = q->rnr_retry;
	RAW_CALL(r, QUERY_GID, &gid_req, &gid);
	memcpy(attr.ah.dgid, gid.gid, sizeof(attr.ah.dgid));
	CHECK_EQ(raw_qp_state(r, q, IBV_QPS_RESET, 0, &attr), 0);
	/* whatever numbers a test gave its entries */
	memset(q->sq, 0, (size_t)q->q.sq.depth * q->q.sq.stride);
	if (q->type == IBV_QPT_UD && !q->ah) {
		struct ff_create_ah_req req = { .pd = q->pd, .attr = attr.ah };
		struct ff_create_ah_resp ah;

		RAW_CALL(r, CREATE_AH, &req, &ah);
		q->ah = ah.ah;
	}
	CHECK_EQ(raw_qp_state(r, q, IBV_QPS_INIT,
			      IBV_QP_PKEY_INDEX | IBV_QP_PORT |
				      (q->type == IBV_QPT_UD ? IBV_QP_QKEY : IBV_QP_ACCESS_FLAGS),
			      &attr),
		 0);
	if (q->type != IBV_QPT_UD)
		rtr |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
	if (q->type == IBV_QPT_RC) {
		rtr |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
		rts |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY |
		       IBV_QP_MAX_QP_RD_ATOMIC;
	}
	CHECK_EQ(raw_qp_state(r, q, IBV_QPS_RTR, rtr, &attr), 0);
	CHECK_EQ(raw_qp_state(r, q, IBV_QPS_RTS, rts, &attr), 0);
}

void raw_qp_connect(struct raw *r, struct raw_qp *q)
{
	raw_qp_connect_to(r, q, q->qp_num);
}

bool raw_canaries(const struct raw_qp *q)
{
	return vt_all(q->buf - RAW_CANARY, RAW_CANARY, 0xca) &&
	       vt_all(q->buf + q->len, RAW_CANARY, 0xca);
}

struct ff_sqe *raw_sqe(struct raw_qp *q)
{
	return (struct ff_sqe *)(q->sq + (size_t)(q->sq_tail % q->q.sq.depth) * q->q.sq.stride);
}

void raw_kick(struct raw *r, uint32_t handle)
{
	struct ff_ses_hdr *h = raw_at(r, 0, 0);
	uint32_t i = FF_HANDLE_INDEX(handle) % FF_MAX_QP;
	uint64_t one = 1;

	atomic_fetch_or(&h->dirty[i / 64], 1ull << i % 64);
	atomic_fetch_or(&h->dirty_sum[i / 4096], 1ull << i / 64 % 64);
	if (write(r->bell_fd, &one, sizeof(one)) < 0)
		CHECK_EQ(errno, EAGAIN);
}

void raw_publish(struct raw *r, struct raw_qp *q)
{
	struct ff_sqe *e = raw_sqe(q);

	atomic_store_explicit(&e->seq, ff_seq(q->sq_tail++), memory_order_release);
	raw_kick(r, q->qp);
}

void raw_post_nth(struct raw *r, struct raw_qp *q, unsigned n, uint64_t addr, uint32_t rkey)
{
	struct ff_sqe *e = raw_sqe(q);

	memset((uint8_t *)e + sizeof(e->seq), 0, q->q.sq.stride - sizeof(e->seq));
	raw_write_wr(q, e, n);
	e->remote_addr = addr;
	e->rkey = rkey;
	if (n % 3 == 1)
		e->opcode = FF_OP_READ;
	if (n % 3 == 2) {
		e->opcode = FF_OP_FETCH_ADD;
		e->atomic.compare_add = 1;
	}
	raw_publish(r, q);
}

void raw_write_wr(struct raw_qp *q, struct ff_sqe *e, uint64_t id)
{
	e->opcode = FF_OP_WRITE;
	e->flags = FF_SQE_SIGNALED;
	e->num_sge = 1;
	e->wr_id = id;
	e->remote_addr = (uintptr_t)q->buf + q->len / 2;
	e->rkey = q->lkey;
	e->sge[0] = (struct ff_sge){ (uintptr_t)q->buf, 8, q->lkey };
	if (q->type == IBV_QPT_UD) {
		e->opcode = FF_OP_SEND;
		e->ud.ah = q->ah;
		e->ud.remote_qpn = q->qp_num;
		e->ud.remote_qkey = VT_QKEY;
	}
}

struct ff_cqe *raw_cqe(struct raw_qp *q)
{
	struct ff_cqe *c = &q->cqe[q->ci % q->c.ring.depth];

	if (atomic_load_explicit(&c->phase, memory_order_acquire) !=
	    ff_cqe_phase(q->ci, q->c.ring.depth))
		return NULL;
	atomic_store(&q->cq_hdr->ci, ++q->ci);
	return c;
}

/* ---- the victim ----------------------------------------------------------------------------- */

static struct victim {
	_Atomic uint64_t laps;
	_Atomic bool stop;
} * victim;
static pid_t victim_pid;

/* Data of many sizes through every kind of operation, checked, without end. */
static void victim_traffic(void)
{
	struct vt_param par = VT_PARAM;
	size_t n = 100000;
	struct vt_end a, b;

	par.len = 2 * n;
	vt_pair(&a, &b, &par);
	for (uint32_t lap = 0; !victim->stop; lap++) {
		size_t len = 1 + (size_t)lap * 7919 % n;

		vt_pattern(a.buf, len, lap);
		vt_recv(&b, lap, 0, n);
		vt_send(&a, lap, 0, len, IBV_SEND_SIGNALED);
		CHECK_EQ(WANT_OK(b.rcq, lap).byte_len, len);
		WANT_OK(a.scq, lap);
		CHECK_PATTERN(b.buf, len, lap);
		vt_rdma(&a, IBV_WR_RDMA_WRITE, 1, 0, len, n, IBV_SEND_SIGNALED);
		vt_rdma(&a, IBV_WR_RDMA_READ, 2, n, len, 0, IBV_SEND_SIGNALED);
		WANT_OK(a.scq, 1);
		WANT_OK(a.scq, 2);
		CHECK_PATTERN(b.buf + n, len, lap);
		CHECK_PATTERN(a.buf + n, len, lap);
		victim->laps++;
	}
	vt_pair_close(&a, &b);
}

void victim_start(void)
{
	victim = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	CHECK(victim != MAP_FAILED);
	victim_pid = fork();
	CHECK(victim_pid >= 0);
	if (!victim_pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		victim_traffic();
		_exit(0);
	}
	victim_check();
}

void victim_check(void)
{
	uint64_t from = victim->laps;
	int status;

	/* two more: the first may have begun before */
	WAIT_FOR(victim->laps >= from + 2 || waitpid(victim_pid, &status, WNOHANG) != 0);
	if (victim->laps < from + 2)
		FAIL("the victim ended after %llu laps", (unsigned long long)victim->laps);
}

void victim_stop(void)
{
	int status;

	victim_check();
	victim->stop = true;
	CHECK(waitpid(victim_pid, &status, 0) == victim_pid);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void raw_router_serves(void)
{
	struct ff_query_device_resp dev;
	struct raw r;

	raw_open(&r);
	RAW_CALL(&r, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &dev);
	raw_close(&r);
}

/* ---- the lock of the address space ---------------------------------------------------------- */

#define HELD_MAP (8ull << 30) /* its page tables take a while to go through */

static void *change_map(void *arg)
{
	for (int prot = PROT_READ;; prot ^= PROT_WRITE)
		CHECK_EQ(mprotect(arg, HELD_MAP, prot), 0);
	return NULL;
}

void raw_hold_map(void)
{
	static bool is_held;
	pthread_t t;
	uint8_t *map;

	if (is_held)
		return;
	is_held = true;
	map = mmap(NULL, HELD_MAP, PROT_READ | PROT_WRITE,
		   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	CHECK(map != MAP_FAILED);
	madvise(map, HELD_MAP, MADV_NOHUGEPAGE);
	/* The zero page, everywhere. Faults one by one take minutes where the machine is itself a virtual one. */
	if (madvise(map, HELD_MAP, MADV_POPULATE_READ))
		for (size_t i = 0; i < HELD_MAP; i += 4096)
			(void)*(volatile uint8_t *)(map + i);
	CHECK_EQ(pthread_create(&t, NULL, change_map, map), 0);
}

bool raw_mounts(unsigned n)
{
	char dir[32];

	if (unshare(CLONE_NEWNS))
		return false;
	CHECK(!mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL));
	CHECK(!mount("none", "/tmp", "tmpfs", 0, NULL));
	for (unsigned i = 0; i < n;
	     i++) { /* not one on the other, which takes long to look through */
		snprintf(dir, sizeof(dir), "/tmp/%u", i);
		CHECK(!mkdir(dir, 0700) && !mount(dir, dir, NULL, MS_BIND, NULL));
	}
	return true;
}
