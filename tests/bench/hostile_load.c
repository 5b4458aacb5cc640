/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hostile_load.c - one kind of hostility, as much of it as one client can make, for measurements of
 * what others feel of it. The same things, checked, are in tests/system/raw_*.c.
 *
 * It says "attacks" when the first lap of its kind is done, goes on until its standard input ends, and
 * then tells how often and with how much CPU time. No thread of it ever sleeps: what is compared with it
 * is "burn", the same number of threads that do nothing.
 */
#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/verbs/fuse.h"
#include "tests/rig/common/hello.h"
#include "tests/rig/verbs/raw.h"
#include "bench.h"

#define BUF 65536u

static _Atomic uint64_t laps;

static void lap(void)
{
	if (laps++)
		return;
	puts("attacks");
	fflush(stdout);
}

static struct ff_hdr header(uint16_t type)
{
	return (struct ff_hdr){ .magic = FF_PROTO_MAGIC, .type = type };
}

static void *burn(void *arg)
{
	for (;;) {
		for (volatile unsigned i = 0; i < 100000; i++)
			;
		lap();
	}
	return arg;
}

/* ---- the control socket ----------------------------------------------------------------------- */

/* Calls that cost little each, many at once. */
static void calls(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_query_port_req req;
	} m = { .hdr = header(FF_MSG_QUERY_PORT), .req.port = 1 };
	uint8_t answer[FF_MSG_MAX];
	struct raw r;

	raw_open(&r);
	for (;;) {
		for (unsigned i = 0; i < 16; i++)
			CHECK(raw_send(&r, &m, sizeof(m), -1));
		for (unsigned i = 0; i < 16; i++)
			CHECK(raw_recv(&r, answer, sizeof(answer), NULL, NULL));
		lap();
	}
}

static void objects(void)
{
	struct ff_alloc_pd_resp pd;
	struct raw r;

	raw_open(&r);
	RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	for (;;) {
		struct ff_destroy_qp_resp no_qp;
		struct ff_destroy_cq_resp no_cq;
		struct ff_create_cq_resp cq;
		struct ff_create_qp_resp qp;

		RAW_CALL(&r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 256 }), &cq);
		RAW_CALL(&r, CREATE_QP,
			 (&(struct ff_create_qp_req){ .pd = pd.pd,
						      .send_cq = cq.cq,
						      .recv_cq = cq.cq,
						      .qp_type = IBV_QPT_RC,
						      .cap = { 64, 64, 4, 4, 64 } }),
			 &qp);
		RAW_CALL(&r, DESTROY_QP, (&(struct ff_destroy_qp_req){ .qp = qp.qp }), &no_qp);
		RAW_CALL(&r, DESTROY_CQ, (&(struct ff_destroy_cq_req){ .cq = cq.cq }), &no_cq);
		lap();
	}
}

static void sessions(void)
{
	for (;;) {
		struct raw r;

		raw_connect(&r);
		raw_hello(&r);
		raw_close(&r);
		lap();
	}
}

/* Each packet is wrong in another way, and costs its session. */
static void packets(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_alloc_pd_req req;
		uint8_t rest[FF_MSG_MAX];
	} m;

	memset(&m, 0, sizeof(m));
	for (unsigned n = 0;; n++) {
		size_t len = sizeof(m.hdr) + sizeof(m.req);
		struct raw r;

		m.hdr = header(FF_MSG_ALLOC_PD);
		if (n % 8 == 0)
			m.hdr.magic = 0;
		else if (n % 8 == 1)
			m.hdr.type = 0xffff;
		else if (n % 8 == 2)
			m.hdr.status = -1;
		else if (n % 8 == 3)
			m.hdr.n_tail = 0xffff;
		else if (n % 8 == 4)
			m.hdr.n_fds = 1;
		else if (n % 8 == 5)
			len = sizeof(m);
		else if (n % 8 == 6)
			len = 1;
		else
			len--;
		raw_connect(&r);
		if (n / 8 % 4)
			raw_hello(&r);
		raw_send(&r, &m, len, -1);
		raw_close(&r);
		lap();
	}
}

/*
 * More connections than the router hears at a time, which say a byte of a HELLO now and then, or pass a
 * descriptor with it. Those that it closes come again.
 */
static void loris(void)
{
	enum { CONNS = 500 };
	static struct raw r[CONNS];
	struct ff_hdr h = header(FF_MSG_HELLO);
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);
	uint64_t next = bench_now();

	CHECK(fd >= 0);
	for (unsigned i = 0; i < CONNS; i++)
		raw_connect(&r[i]);
	for (unsigned n = 0;; n++) {
		struct raw *c = &r[n % CONNS];
		char end;

		while (bench_now() < next)
			;
		next += 1000000;
		raw_send(c, (uint8_t *)&h + n % sizeof(h), 1, n % 2 ? fd : -1);
		if (!recv(c->sock, &end, 1, 0)) {
			raw_close(c);
			raw_connect(c);
		}
		lap();
	}
}

/* As many as go with one packet, for requests that have none. */
static void descriptors(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_alloc_pd_req req;
	} m = { .hdr = header(FF_MSG_ALLOC_PD) };
	int fds[RAW_MAX_FDS];

	fds[0] = open("/dev/null", O_RDONLY | O_CLOEXEC);
	CHECK(fds[0] >= 0);
	for (unsigned i = 1; i < RAW_MAX_FDS; i++)
		fds[i] = fds[0];
	for (unsigned n = 0;; n++) {
		struct raw r;

		raw_connect(&r);
		if (n % 2)
			raw_hello(&r);
		m.hdr.n_fds = n % 3 ? RAW_MAX_FDS : 0;
		raw_send_fds(&r, &m, sizeof(m), fds, RAW_MAX_FDS);
		raw_close(&r);
		lap();
	}
}

/* ---- the rings -------------------------------------------------------------------------------- */

#define WRS 32u /* posted at once; fewer than an SQ of raw_qp_make() holds */

static void post(struct raw *r, struct raw_qp *q, uint8_t opcode)
{
	struct ff_sqe *e = raw_sqe(q);

	memset((uint8_t *)e + sizeof(e->seq), 0, q->q.sq.stride - sizeof(e->seq));
	raw_write_wr(q, e, q->sq_tail);
	if (opcode)
		e->opcode = opcode;
	raw_publish(r, q);
}

static void post_bad(struct raw *r, struct raw_qp *q, unsigned how)
{
	struct ff_sqe *e = raw_sqe(q);

	memset((uint8_t *)e + sizeof(e->seq), 0, q->q.sq.stride - sizeof(e->seq));
	raw_write_wr(q, e, q->sq_tail);
	if (q->type == IBV_QPT_UD)
		e->ud.ah ^= 0x5a5a0000u;
	else if (how % 6 == 0)
		e->sge[0].lkey ^= 0x5555;
	else if (how % 6 == 1)
		e->rkey ^= 0x5555;
	else if (how % 6 == 2)
		e->remote_addr += 1ull << 40;
	else if (how % 6 == 3)
		e->num_sge = 0xffff;
	else if (how % 6 == 4)
		e->opcode = 0xff;
	else
		e->sge[0].length = 0x7fffffff;
	raw_publish(r, q);
}

/* In turn: wrong keys, addresses and opcodes, wrong AHs, and now and then nobody to send to. */
static void bad_wrs(void)
{
	struct raw_qp rc, ud, nobody;
	struct raw r;

	raw_open(&r);
	raw_qp_make(&r, &rc, IBV_QPT_RC, BUF);
	raw_qp_make(&r, &ud, IBV_QPT_UD, BUF);
	raw_qp_make(&r, &nobody, IBV_QPT_RC, BUF);
	raw_qp_connect_to(&r, &nobody, 0xfffff0);
	post(&r, &nobody, 0);
	for (unsigned n = 0;; n++) {
		struct raw_qp *q = n % 4 ? &rc : &ud;

		raw_qp_connect(&r, q);
		for (unsigned i = 0; i < WRS; i++)
			post_bad(&r, q, n);
		for (unsigned i = 0; i < WRS;)
			i += raw_cqe(q) != NULL;
		if (raw_cqe(&nobody)) {
			raw_qp_connect_to(&r, &nobody, 0xfffff0);
			post(&r, &nobody, 0);
		}
		lap();
	}
}

static void *mutate(void *arg)
{
	struct raw_qp *q = arg;
	uint32_t rnd = 77;

	for (;;) {
		unsigned i = vt_rand(&rnd) % q->q.sq.depth;
		volatile struct ff_sqe *v = (struct ff_sqe *)(q->sq + (size_t)i * q->q.sq.stride);

		if (i % 4 == 0)
			v->num_sge = v->num_sge == 1 ? 0xffff : 1;
		else if (i % 4 == 1)
			v->sge[0].length = v->sge[0].length == 8 ? 0x7fffffff : 8;
		else if (i % 4 == 2)
			v->sge[0].addr ^= 1ull << 63;
		else
			v->opcode = v->opcode == FF_OP_WRITE ? FF_OP_READ : FF_OP_WRITE;
	}
	return NULL;
}

static void mutated(void)
{
	struct raw_qp q;
	struct raw r;
	pthread_t t;

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
	CHECK_EQ(pthread_create(&t, NULL, mutate, &q), 0);
	for (;;) {
		raw_qp_connect(&r, &q);
		for (unsigned i = 0; i < WRS; i++)
			post(&r, &q, 0);
		for (unsigned i = 0; i < WRS;)
			i += raw_cqe(&q) != NULL;
		lap();
	}
}

static void scribble(void *p, size_t len, uint32_t *rnd)
{
	uint32_t *w = p;

	for (size_t i = 0; i < len / sizeof(*w); i++)
		w[i] = vt_rand(rnd);
}

/* All that counts postings and completions becomes noise, in session after session. */
static void indices(void)
{
	uint32_t rnd = 5;

	for (;;) {
		struct raw_qp q;
		struct raw r;
		void *page;

		raw_open(&r);
		raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
		raw_qp_connect(&r, &q);
		page = raw_at(&r, 0, 0);
		for (unsigned i = 0; i < 1000; i++) {
			scribble(q.hdr, sizeof(*q.hdr), &rnd);
			scribble(q.cq_hdr, sizeof(*q.cq_hdr), &rnd);
			scribble(page, offsetof(struct ff_ses_hdr, call), &rnd);
			post(&r, &q, 0);
		}
		raw_close(&r);
		munmap(q.buf - RAW_CANARY, BUF + 2 * RAW_CANARY);
		lap();
	}
}

/* A CQ of which nothing is ever taken: filled, overrun, made anew. */
static void cq_overrun(void)
{
	struct raw_qp q;
	struct raw r;

	raw_open(&r);
	for (;;) {
		struct ff_destroy_qp_resp no_qp;
		struct ff_destroy_cq_resp no_cq;
		struct ff_dereg_mr_resp no_mr;
		struct ff_dealloc_pd_resp no_pd;
		struct ff_async_event event = { 0 };

		raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
		raw_qp_connect(&r, &q);
		/* until the event tells of the overrun; those of the QP are the last lap's */
		for (uint32_t seen = 0; event.event_type != IBV_EVENT_CQ_ERR;) {
			const struct ff_cqe *c = &q.cqe[seen % q.c.ring.depth];

			if (seen < q.c.ring.depth &&
			    atomic_load(&c->phase) == ff_cqe_phase(seen, q.c.ring.depth))
				seen++;
			if (q.sq_tail - seen < WRS)
				post(&r, &q, 0);
			if (recv(r.async_fd, &event, sizeof(event), MSG_DONTWAIT) < 0)
				CHECK_EQ(errno, EAGAIN);
		}
		RAW_CALL(&r, DESTROY_QP, (&(struct ff_destroy_qp_req){ .qp = q.qp }), &no_qp);
		RAW_CALL(&r, DESTROY_CQ, (&(struct ff_destroy_cq_req){ .cq = q.cq }), &no_cq);
		RAW_CALL(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = q.mr }), &no_mr);
		RAW_CALL(&r, DEALLOC_PD, (&(struct ff_dealloc_pd_req){ .pd = q.pd }), &no_pd);
		munmap(q.buf - RAW_CANARY, BUF + 2 * RAW_CANARY);
		lap();
	}
}

/* Doorbells of QPs that have nothing to do, and of all those that do not exist. */
static void bells(void)
{
	struct ff_ses_hdr *h;
	struct raw_qp q;
	struct raw r;

	raw_open(&r);
	raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
	raw_qp_connect(&r, &q);
	h = raw_at(&r, 0, 0);
	for (unsigned n = 0;; n++) {
		if (n % 16 == 0) {
			for (unsigned i = 0; i < ARRAY_SIZE(h->dirty); i++)
				atomic_store(&h->dirty[i], UINT64_MAX);
			for (unsigned i = 0; i < ARRAY_SIZE(h->dirty_sum); i++)
				atomic_store(&h->dirty_sum[i], UINT64_MAX);
		}
		raw_kick(&r, q.qp);
		lap();
	}
}

/* ---- what a client may have ------------------------------------------------------------------- */

#define MANY 32768u

/* QPs and MRs until the router refuses more; then each of them is used, in turn, all at once. */
static void exhaust(void)
{
	static struct raw_qp q[MANY];
	static struct ff_reg_mr_resp mr[MANY];
	uint32_t qps = 0, mrs = 1;
	struct raw r;

	raw_open(&r);
	raw_qp_make(&r, &q[0], IBV_QPT_RC, BUF);
	RAW_CALL(&r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = MANY }), &q[0].c);
	mr[0].lkey = q[0].lkey;
	for (; mrs < MANY; mrs++)
		if (RAW_TRY(&r, REG_MR,
			    (&(struct ff_reg_mr_req){ .addr = (uintptr_t)q[0].buf,
						      .length = BUF,
						      .iova = (uintptr_t)q[0].buf,
						      .pd = q[0].pd,
						      .access = VT_ACCESS_ALL }),
			    &mr[mrs]))
			break;
	for (; qps < MANY; qps++) {
		struct raw_qp *n = &q[qps];

		if (qps)
			*n = q[0];
		if (RAW_TRY(&r, CREATE_QP,
			    (&(struct ff_create_qp_req){ .pd = q[0].pd,
							 .send_cq = q[0].c.cq,
							 .recv_cq = q[0].c.cq,
							 .qp_type = IBV_QPT_RC,
							 .cap = { 4, 4, 1, 1, 0 } }),
			    &n->q))
			break;
		n->qp = n->q.qp;
		n->qp_num = n->q.qp_num;
		n->sq = raw_at(&r, n->q.sq.seg, n->q.sq.ring_off);
		raw_qp_connect(&r, n);
	}
	CHECK(qps > 1 && mrs > 1);
	q[0].cq_hdr = raw_at(&r, q[0].c.ring.seg, q[0].c.ring.off);
	q[0].cqe = raw_at(&r, q[0].c.ring.seg, q[0].c.ring.ring_off);
	q[0].ci = 0;
	for (uint32_t m = 0;; m++) {
		for (uint32_t i = 0; i < qps; i++) {
			q[i].lkey = mr[(i + m) % mrs].lkey;
			post(&r, &q[i], 0);
		}
		for (uint32_t i = 0; i < qps;) {
			struct ff_cqe *c = raw_cqe(&q[0]);

			if (!c)
				continue;
			CHECK_EQ(c->status, IBV_WC_SUCCESS);
			i++;
		}
		lap();
	}
}

/* SENDs that find no receive: of some QPs for ever, of the others until they give up, and again. */
static void rnr(void)
{
	enum { QPS = 64 };
	static struct raw_qp q[QPS];
	struct raw r;

	raw_open(&r);
	for (unsigned i = 0; i < QPS; i++) {
		raw_qp_make(&r, &q[i], IBV_QPT_RC, BUF);
		q[i].rnr_retry = i % 2 ? 7 : 6;
		raw_qp_connect(&r, &q[i]);
		for (unsigned k = 0; k < WRS; k++)
			post(&r, &q[i], FF_OP_SEND);
	}
	for (;;) {
		for (unsigned i = 0; i < QPS; i++) {
			if (!raw_cqe(&q[i]))
				continue;
			for (unsigned k = 1; k < WRS;)
				k += raw_cqe(&q[i]) != NULL;
			raw_qp_connect(&r, &q[i]);
			for (unsigned k = 0; k < WRS; k++)
				post(&r, &q[i], FF_OP_SEND);
			lap();
		}
	}
}

/* ---- memory that is not there, does not come, or is under change ------------------------------- */

static void unmap_page(struct raw *r, uint8_t *page)
{
	(void)r;
	munmap(page, 4096);
}

/* Nobody fills it in. */
static void stall_page(struct raw *r, uint8_t *page)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)page, 4096 },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = r->uffd_dev < 0 ? -1 : ioctl(r->uffd_dev, USERFAULTFD_IOC_NEW, O_CLOEXEC);

	CHECK(fd >= 0);
	madvise(page, 4096, MADV_DONTNEED);
	CHECK_EQ(ioctl(fd, UFFDIO_API, &api), 0);
	CHECK_EQ(ioctl(fd, UFFDIO_REGISTER, &reg), 0);
}

/* The lock of the address space is kept by changes of it, one after the other. */
static void hold_pages(struct raw *r, uint8_t *page)
{
	(void)r, (void)page;
	raw_hold_map();
}

/* WRITEs, READs and atomics there, of many QPs in several sessions; who fails begins anew. */
static void bad_memory(void (*spoil)(struct raw *r, uint8_t *page))
{
	enum { SESSIONS = 8, QPS = 16 };
	static const uint8_t op[] = { FF_OP_WRITE, FF_OP_READ, FF_OP_FETCH_ADD };
	static struct raw_qp q[SESSIONS][QPS];
	static struct raw r[SESSIONS];
	static struct ff_reg_mr_resp bad[SESSIONS][QPS];
	static bool is_posted[SESSIONS][QPS];
	uint8_t *page[SESSIONS];

	for (unsigned i = 0; i < SESSIONS; i++) {
		raw_open(&r[i]);
		page[i] = vt_map(4096);
		for (unsigned k = 0; k < QPS; k++) {
			raw_qp_make(&r[i], &q[i][k], IBV_QPT_RC, 4096);
			RAW_CALL(&r[i], REG_MR,
				 (&(struct ff_reg_mr_req){ .addr = (uintptr_t)page[i],
							   .length = 4096,
							   .iova = (uintptr_t)page[i],
							   .pd = q[i][k].pd,
							   .access = VT_ACCESS_ALL }),
				 &bad[i][k]);
		}
		spoil(&r[i], page[i]);
	}
	for (unsigned n = 0;; n++)
		for (unsigned i = 0; i < SESSIONS; i++)
			for (unsigned k = 0; k < QPS; k++) {
				struct raw_qp *p = &q[i][k];
				struct ff_cqe *c = raw_cqe(p);
				struct ff_sqe *e;

				if (is_posted[i][k] && !c)
					continue;
				if (!c || c->status != IBV_WC_SUCCESS)
					raw_qp_connect(&r[i], p);
				e = raw_sqe(p);
				memset((uint8_t *)e + sizeof(e->seq), 0,
				       p->q.sq.stride - sizeof(e->seq));
				raw_write_wr(p, e, n);
				e->opcode = op[(n + k) % ARRAY_SIZE(op)];
				e->remote_addr = (uintptr_t)page[i];
				e->rkey = bad[i][k].lkey;
				raw_publish(&r[i], p);
				is_posted[i][k] = true;
				if (c)
					lap();
			}
}

static void unmapped(void)
{
	bad_memory(unmap_page);
}

static void stalled(void)
{
	bad_memory(stall_page);
}

static void held(void)
{
	bad_memory(hold_pages);
}

/* The same changes, and nothing of the router's: what `held` is compared with. */
static void locking(void)
{
	hold_pages(NULL, NULL);
	for (;;)
		lap();
}

/* ---- processes, descriptors and calls that last ------------------------------------------------- */

/* A TCP connection with unread data, whose last descriptor waits for a minute for its reader. */
static void lingering_new(int fd[2])
{
	struct sockaddr_in sa = { .sin_family = AF_INET,
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	const struct linger linger = { 1, 60 };
	static const uint8_t bytes[65536];
	socklen_t len = sizeof(sa);
	int l = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	CHECK(!bind(l, (struct sockaddr *)&sa, sizeof(sa)) && !listen(l, 1));
	CHECK(!getsockname(l, (struct sockaddr *)&sa, &len));
	fd[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	CHECK(!connect(fd[0], (struct sockaddr *)&sa, sizeof(sa)));
	fd[1] = accept4(l, NULL, NULL, SOCK_CLOEXEC);
	close(l);
	CHECK(fd[1] >= 0 && !fcntl(fd[0], F_SETFL, O_NONBLOCK));
	while (write(fd[0], bytes, sizeof(bytes)) > 0)
		;
	CHECK(!setsockopt(fd[0], SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)));
}

/* In messages of all kinds, read and unread; some wait at any time, fewer than the router allows. */
static void lingering(void)
{
	enum { WAITING = 32 };
	struct {
		struct ff_hdr hdr;
		struct ff_alloc_pd_req req;
	} m = { .hdr = header(FF_MSG_ALLOC_PD) };
	int fd[WAITING][2];

	for (unsigned n = 0;; n++) {
		int *f = fd[n % WAITING];
		struct raw r;

		if (n >= WAITING)
			close(f[1]);
		lingering_new(f);
		raw_connect(&r);
		if (n % 2)
			raw_hello(&r);
		m.hdr.n_fds = n % 3;
		if (n % 5 == 4)
			raw_send(&r, &m, 1, -1);
		raw_send(&r, &m, sizeof(m), f[0]);
		close(f[0]);
		raw_close(&r);
		lap();
	}
}

/* HELLO with a file whose server answers nobody outside its container, in the place of either descriptor. */
static void fuse(void)
{
	struct {
		struct ff_hdr hdr;
		struct ff_hello_req req;
	} m = { .hdr = header(FF_MSG_HELLO),
		.req = { .version_min = FF_PROTO_VERSION,
			 .version_max = FF_PROTO_VERSION,
			 .comm = "fuse" } };
	int own[2], file;
	struct fuse f;

	m.hdr.n_fds = 2;
	if (!fuse_start(&f) || (file = fuse_file(&f, "file", O_RDWR)) < 0)
		FAIL("no file system in user space: %s", strerror(errno));
	hello_memory(own);
	for (unsigned n = 0;; n++) {
		const int fd[2] = { n % 2 ? own[0] : file, n % 2 ? file : own[1] };
		uint8_t answer[512];
		struct raw r;

		raw_connect(&r);
		if (raw_send_fds(&r, &m, sizeof(m), fd, 2))
			raw_recv(&r, answer, sizeof(answer), NULL, NULL);
		raw_close(&r);
		lap();
	}
}

/* Processes with a session and WRs under way that are stopped in the middle, then killed, and others come. */
static void stopped(void)
{
	enum { CLIENTS = 8 };
	pid_t pid[CLIENTS] = { 0 };

	for (unsigned n = 0;; n = (n + 1) % CLIENTS) {
		int status;

		if (pid[n]) {
			kill(pid[n], SIGKILL);
			waitpid(pid[n], &status, 0);
		}
		pid[n] = fork();
		CHECK(pid[n] >= 0);
		if (!pid[n]) {
			struct raw_qp q;
			struct raw r;

			prctl(PR_SET_PDEATHSIG, SIGKILL);
			raw_open(&r);
			raw_qp_make(&r, &q, IBV_QPT_RC, BUF);
			raw_qp_connect(&r, &q);
			for (unsigned i = 0; i < WRS; i++)
				post(&r, &q, 0);
			raise(SIGSTOP);
			_exit(0);
		}
		CHECK(waitpid(pid[n], &status, WUNTRACED) == pid[n] && WIFSTOPPED(status));
		lap();
	}
}

/* A QP with the largest rings there are goes to RESET and INIT, and a WR now and then fills a bit of them. */
static void reset(void)
{
	struct ff_alloc_pd_resp pd;
	struct ff_create_cq_resp cq;
	struct raw_qp q = { .type = IBV_QPT_RC };
	struct raw r;

	raw_open(&r);
	RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	RAW_CALL(&r, CREATE_CQ, (&(struct ff_create_cq_req){ .cqe = 256 }), &cq);
	RAW_CALL(&r, CREATE_QP,
		 (&(struct ff_create_qp_req){
			 .pd = pd.pd,
			 .send_cq = cq.cq,
			 .recv_cq = cq.cq,
			 .qp_type = IBV_QPT_RC,
			 .cap = { FF_MAX_WR, FF_MAX_WR, FF_MAX_SGE, FF_MAX_SGE, 512 } }),
		 &q.q);
	q.qp = q.q.qp;
	for (;;) {
		const struct ff_qp_attr attr = { .port_num = 1 };

		CHECK_EQ(raw_qp_state(&r, &q, IBV_QPS_INIT,
				      IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS, &attr),
			 0);
		CHECK_EQ(raw_qp_state(&r, &q, IBV_QPS_RESET, 0, NULL), 0);
		lap();
	}
}

/* REG_MR without end where nothing is mapped, as memory of all kinds, large and small. */
static void reg_unmapped(void)
{
	struct ff_alloc_pd_resp pd;
	struct raw r;
	uint8_t *hole = vt_map(1ul << 30);

	munmap(hole, 1ul << 30);
	raw_open(&r);
	RAW_CALL(&r, ALLOC_PD, &(struct ff_alloc_pd_req){ 0 }, &pd);
	for (unsigned n = 0;; n++) {
		struct ff_mr_run run = { .va = (uintptr_t)hole,
					 .len = n % 2 ? 1ul << 30 : 4096,
					 .kind = FF_RUN_SHARED };
		struct ff_reg_mr_req req = { .addr = run.va,
					     .length = run.len,
					     .iova = run.va,
					     .pd = pd.pd,
					     .access = VT_ACCESS_ALL };
		struct ff_dereg_mr_resp none;
		struct ff_reg_mr_resp mr;

		if (!raw_call_tail(&r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run),
				   n % 4 < 2, &mr, sizeof(mr)))
			RAW_CALL(&r, DEREG_MR, (&(struct ff_dereg_mr_req){ .mr = mr.mr }), &none);
		lap();
	}
}

/* ---- main ------------------------------------------------------------------------------------- */

static const struct mode {
	const char *name;
	void (*run)(void);
} modes[] = {
	{ "calls", calls },	  { "objects", objects },
	{ "sessions", sessions }, { "packets", packets },
	{ "loris", loris },	  { "descriptors", descriptors },
	{ "bad-wrs", bad_wrs },	  { "mutated", mutated },
	{ "indices", indices },	  { "cq-overrun", cq_overrun },
	{ "bells", bells },	  { "exhaust", exhaust },
	{ "rnr", rnr },		  { "unmapped", unmapped },
	{ "stalled", stalled },	  { "held", held },
	{ "locking", locking },	  { "lingering", lingering },
	{ "fuse", fuse },	  { "stopped", stopped },
	{ "reset", reset },	  { "reg-unmapped", reg_unmapped },
};

static void *run_mode(void *arg)
{
	((const struct mode *)arg)->run();
	return NULL;
}

static uint64_t cpu_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void start(void *(*run)(void *), const void *arg)
{
	pthread_t t;

	errno = pthread_create(&t, NULL, run, (void *)arg);
	if (errno)
		bench_die("pthread_create");
}

int main(int argc, char **argv)
{
	uint64_t from = bench_now(), cpu = cpu_ns();
	const struct mode *mode = NULL;
	char c;

	for (size_t i = 0; argc == 2 && i < ARRAY_SIZE(modes); i++)
		if (!strcmp(argv[1], modes[i].name))
			mode = &modes[i];
	raw_spin = true;
	if (mode) {
		start(run_mode, mode);
	} else if (argc == 3 && !strcmp(argv[1], "burn")) {
		for (long n = bench_num(argv[2], 1, 64); n; n--)
			start(burn, NULL);
	} else {
		fprintf(stderr, "usage: hostile_load burn THREADS | KIND, which is one of\n");
		for (size_t i = 0; i < ARRAY_SIZE(modes); i++)
			fprintf(stderr, "\t%s\n", modes[i].name);
		return 2;
	}
	while (read(0, &c, 1) > 0)
		;
	printf("{\"laps\": %lu, \"ns\": %lu, \"cpu_ns\": %lu}\n", (unsigned long)laps,
	       bench_now() - from, cpu_ns() - cpu);
	fflush(stdout);
	_exit(0);
}
