/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/raw.c tests/rig/verbs/vt.c -lpthread */
/* timeout: 600 */
/*
 * raw_rings.c - a hostile client in the shared memory: corrupted queues, indices and headers,
 * entries that change while they are read, segments with holes, memory that faults or stalls. The
 * router must touch nothing that the client may not touch, and go on serving others.
 */
#include "tests/rig/verbs/raw.h"

#include <fcntl.h>
#include <linux/userfaultfd.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void noise(void *p, size_t len, uint32_t *rnd)
{
	uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		b[i] = (uint8_t)(vt_rand(rnd) >> 7);
}

static uint64_t for_a_while(void)
{
	return vt_now() + 500000000ull;
}

/* The session may have been closed for what was done to it; if not, its QP can be used again. */
static bool session_lives(struct raw *r)
{
	struct ff_query_device_resp resp;
	int st = RAW_TRY(r, QUERY_DEVICE, &(struct ff_query_device_req){ 0 }, &resp);

	CHECK(st == 0 || st == RAW_CLOSED);
	return st == 0;
}

/* A session that was closed for what its rings held begins anew, with a QP. */
static void again_if_closed(struct raw *r, struct raw_qp *q)
{
	if (session_lives(r))
		return;
	raw_close(r);
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, 65536);
}

static void open_beside_victim(struct raw *r, struct raw_qp *q)
{
	victim_start();
	raw_open(r);
	raw_qp_make(r, q, IBV_QPT_RC, 65536);
}

static void close_beside_victim(struct raw *r)
{
	raw_close(r);
	victim_stop();
	raw_router_serves();
}

/* ---- work queues ---------------------------------------------------------------------------- */

/* Entries of noise, made valid. */
static void send_queue_noise(void)
{
	uint32_t rnd = 11;
	struct raw_qp q;
	struct raw r;

	open_beside_victim(&r, &q);
	for (unsigned round = 0; round < 500; round++) {
		raw_qp_connect(&r, &q);
		for (unsigned i = 0; i < 40; i++) {
			struct ff_sqe *e = raw_sqe(&q);

			noise(e, q.q.sq.stride, &rnd);
			raw_publish(&r, &q);
			raw_cqe(&q);
		}
		CHECK(raw_canaries(&q));
		again_if_closed(&r, &q);
	}
	close_beside_victim(&r);
}

/* Good entries with one field wrong, every opcode and flag; never a byte outside of the MR. */
static void send_queue_fields(void)
{
	static const uint64_t numbers[] = { 0,		1,	    7,
					    0x7fffffff, 0x80000000, 0xffffffff,
					    1ull << 40, UINT64_MAX, UINT64_MAX - 7 };
	static const enum ibv_qp_type types[] = { IBV_QPT_RC, IBV_QPT_UC, IBV_QPT_UD };
	struct raw r;

	victim_start();
	raw_open(&r);
	for (unsigned t = 0; t < ARRAY_SIZE(types); t++) {
		struct raw_qp q;

		raw_qp_make(&r, &q, types[t], 65536);
		for (unsigned i = 0; i < 256 + 256 + 10 * ARRAY_SIZE(numbers); i++) {
			struct ff_sqe *e;
			struct ff_cqe *c;
			uint64_t v = i >= 512 ? numbers[(i - 512) / 10] : 0;
			unsigned field = (i - 512) % 10;

			raw_qp_connect(&r, &q);
			while (raw_cqe(&q))
				;
			e = raw_sqe(&q);
			memset(e, 0, q.q.sq.stride);
			raw_write_wr(&q, e, 1);
			if (i < 256)
				e->opcode = (uint8_t)i;
			else if (i < 512)
				e->flags = (uint8_t)i | FF_SQE_SIGNALED;
			else if (field == 0)
				e->num_sge = (uint16_t)v;
			else if (field == 1)
				e->sge[0].length = (uint32_t)v;
			else if (field == 2)
				e->sge[0].addr = v;
			else if (field == 3)
				e->sge[0].lkey = (uint32_t)v;
			else if (field == 4)
				e->remote_addr = v;
			else if (field == 5)
				e->rkey = (uint32_t)v;
			else if (field == 6) /* exactly behind the MR's end */
				e->remote_addr = (uintptr_t)q.buf + q.len - 8 + i % 8;
			else if (field == 7)
				e->sge[0].length = (uint32_t)(q.len + v);
			else if (field == 8)
				e->ud.ah = (uint32_t)v;
			else
				e->ud.remote_qpn = (uint32_t)v;
			raw_publish(&r, &q);
			/* served, or failed: it completes, and what was out of bounds is untouched */
			WAIT_FOR((c = raw_cqe(&q)) || !session_lives(&r));
			CHECK(c);
			CHECK_EQ(c->qp, q.qp);
			CHECK(raw_canaries(&q));
		}
	}
	close_beside_victim(&r);
}

static void receive_queue_noise(void)
{
	uint32_t rnd = 12;
	struct raw_qp q;
	struct raw r;

	open_beside_victim(&r, &q);
	for (unsigned round = 0; round < 500; round++) {
		struct ff_sqe *e;

		raw_qp_connect(&r, &q);
		while (raw_cqe(&q))
			;
		for (unsigned i = 0; i < q.q.rq.depth; i++) {
			struct ff_rqe *w = (struct ff_rqe *)(q.rq + (size_t)i * q.q.rq.stride);

			noise(w, q.q.rq.stride, &rnd);
			if (round % 2)
				w->num_sge = 1;
			atomic_store(&w->seq, ff_seq(i));
		}
		e = raw_sqe(&q);
		raw_write_wr(&q, e, round);
		e->opcode = FF_OP_SEND;
		e->sge[0].length = 5000;
		raw_publish(&r, &q);
		WAIT_FOR(raw_cqe(&q) || !session_lives(&r));
		CHECK(raw_canaries(&q));
		again_if_closed(&r, &q);
	}
	close_beside_victim(&r);
}

/* ---- entries that change while they are read ------------------------------------------------ */

static struct flipper {
	struct raw_qp *q;
	atomic_bool stop;
} flip;

/* Between good and bad, as fast as it goes, in all entries of the ring. */
static void *flip_fields(void *arg)
{
	struct raw_qp *q = flip.q;
	uint32_t rnd = 77;

	while (!flip.stop) {
		unsigned i = vt_rand(&rnd) % q->q.sq.depth;
		struct ff_sqe *e = (struct ff_sqe *)(q->sq + (size_t)i * q->q.sq.stride);
		volatile struct ff_sqe *v = e;

		switch (vt_rand(&rnd) % 7) {
		case 0:
			v->num_sge = v->num_sge == 1 ? 0xffff : 1;
			break;
		case 1:
			v->sge[0].length = v->sge[0].length == 8 ? 0x7fffffff : 8;
			break;
		case 2:
			v->sge[0].addr ^= 1ull << 63;
			break;
		case 3:
			v->sge[0].lkey ^= 0x5555;
			break;
		case 4:
			v->remote_addr += v->remote_addr % 2 ? 65535 : -65535ull;
			break;
		case 5:
			v->opcode = v->opcode == FF_OP_WRITE ? FF_OP_READ : FF_OP_WRITE;
			break;
		default:
			v->flags ^= FF_SQE_INLINE;
			break;
		}
	}
	return arg;
}

static void entries_change(void)
{
	uint64_t until;
	struct raw_qp q;
	unsigned rounds = 0;
	pthread_t t;
	struct raw r;

	open_beside_victim(&r, &q);
	flip.q = &q;
	CHECK_EQ(pthread_create(&t, NULL, flip_fields, NULL), 0);
	for (until = 4 * (for_a_while() - vt_now()) + vt_now(); vt_now() < until; rounds++) {
		raw_qp_connect(&r, &q);
		for (unsigned i = 0; i < 30; i++) {
			raw_write_wr(&q, raw_sqe(&q), i);
			raw_publish(&r, &q);
			raw_cqe(&q);
		}
		while (raw_cqe(&q))
			;
		CHECK(raw_canaries(&q));
		CHECK(session_lives(&r)); /* bad work requests are no reason to close */
	}
	flip.stop = true;
	CHECK_EQ(pthread_join(t, NULL), 0);
	CHECK(rounds > 0);
	close_beside_victim(&r);
}

/* ---- headers, CQ, doorbells ----------------------------------------------------------------- */

static void *post_good(void *arg)
{
	struct raw *r = arg;

	while (!flip.stop) {
		raw_write_wr(flip.q, raw_sqe(flip.q), 1);
		raw_publish(r, flip.q);
		vt_pause();
	}
	return NULL;
}

/* Noise over a header while entries are posted. */
static void scribble_on(struct raw *r, struct raw_qp *q, void *what, size_t len)
{
	uint64_t until;
	uint32_t rnd = 5;
	pthread_t t;

	raw_at(r, 0, 0); /* mapped before the other thread needs it */
	flip.q = q;
	flip.stop = false;
	CHECK_EQ(pthread_create(&t, NULL, post_good, r), 0);
	for (until = for_a_while(); vt_now() < until;) {
		noise(what, len, &rnd);
		vt_pause();
	}
	flip.stop = true;
	CHECK_EQ(pthread_join(t, NULL), 0);
	victim_check();
	CHECK(raw_canaries(q));
}

static void header_noise(void)
{
	victim_start();
	for (unsigned kind = 0; kind < 5; kind++) {
		struct raw_qp q;
		struct raw r;

		raw_open(&r);
		raw_qp_make(&r, &q, IBV_QPT_RC, 65536);
		raw_qp_connect(&r, &q);
		if (kind == 0)
			scribble_on(&r, &q, q.hdr, sizeof(*q.hdr));
		else if (kind == 1)
			scribble_on(&r, &q, q.cq_hdr, sizeof(*q.cq_hdr));
		else if (kind == 2)
			scribble_on(&r, &q, q.cqe, (size_t)q.c.ring.depth * q.c.ring.stride);
		else if (kind == 3)
			scribble_on(&r, &q, raw_at(&r, 0, 0), sizeof(struct ff_ses_hdr));
		else
			scribble_on(&r, &q, raw_at(&r, q.q.sq.seg, 0), r.seg[q.q.sq.seg].size);
		session_lives(&r);
		raw_close(&r);
		raw_router_serves();
	}
	victim_stop();
}

/* Consumer indices that cannot be. */
static void absurd_consumer_index(void)
{
	static const uint32_t cis[] = { 0xffffffff, 0x80000000, 0x7fffffff, 1000000, 255, 256, 257 };

	victim_start();
	for (unsigned i = 0; i < ARRAY_SIZE(cis); i++) {
		struct raw_qp q;
		struct raw r;

		raw_open(&r);
		raw_qp_make(&r, &q, IBV_QPT_RC, 65536);
		raw_qp_connect(&r, &q);
		for (unsigned k = 0; k < 2000; k++) {
			atomic_store(&q.cq_hdr->ci, cis[i] + k * (i % 3));
			raw_write_wr(&q, raw_sqe(&q), k);
			raw_publish(&r, &q);
		}
		victim_check();
		session_lives(&r);
		raw_close(&r);
	}
	victim_stop();
	raw_router_serves();
}

/* All QPs are announced as dirty, without end, though hardly one exists. */
static void doorbell_storm(void)
{
	struct ff_ses_hdr *h;
	uint64_t until, huge = UINT64_MAX - 1;
	struct raw_qp q;
	struct raw r;

	open_beside_victim(&r, &q);
	h = raw_at(&r, 0, 0);
	for (until = 4 * (for_a_while() - vt_now()) + vt_now(); vt_now() < until;) {
		for (unsigned i = 0; i < ARRAY_SIZE(h->dirty); i++)
			atomic_store(&h->dirty[i], UINT64_MAX);
		for (unsigned i = 0; i < ARRAY_SIZE(h->dirty_sum); i++)
			atomic_store(&h->dirty_sum[i], UINT64_MAX);
		atomic_fetch_add(&h->srq_kick, 1);
		raw_kick(&r, 0xffffffff);
	}
	victim_check();
	fcntl(r.bell_fd, F_SETFL, O_NONBLOCK);
	while (write(r.bell_fd, &huge, sizeof(huge)) > 0)
		; /* until the counter is full */
	victim_check();
	CHECK(session_lives(&r));
	raw_qp_connect(&r, &q);
	close_beside_victim(&r);
}

/* ---- segments and memory -------------------------------------------------------------------- */

/* The segments are sealed; a hole in one is zeros, and the client's own trouble. */
static void segments(void)
{
	struct raw_qp q;
	struct raw r;

	open_beside_victim(&r, &q);
	raw_qp_connect(&r, &q);
	raw_at(&r, 0, 0);
	CHECK_EQ(raw_watch_pages(&r), 0);
	for (unsigned i = 0; i < 3; i++) {
		int fd = i == 0 ? r.seg[0].fd : i == 1 ? r.seg[q.q.sq.seg].fd : r.last_fd;

		CHECK(ftruncate(fd, 0) < 0);
		CHECK(ftruncate(fd, 1ll << 40) < 0);
		CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE) < 0);
		fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, 1 << 20);
		for (unsigned k = 0; k < 100; k++) {
			raw_write_wr(&q, raw_sqe(&q), k);
			raw_publish(&r, &q);
			raw_cqe(&q);
		}
		victim_check();
		session_lives(&r);
	}
	close(r.last_fd);
	close_beside_victim(&r);
}

/* Registers [p, p + len) with one run that names it as shared. */
static uint32_t reg_shared(struct raw *r, struct raw_qp *q, void *p, size_t len)
{
	struct ff_reg_mr_req req = { .addr = (uintptr_t)p,
				     .length = len,
				     .iova = (uintptr_t)p,
				     .pd = q->pd,
				     .access = VT_ACCESS_ALL };
	struct ff_mr_run run = { .va = (uintptr_t)p, .len = len, .kind = FF_RUN_SHARED };
	struct ff_reg_mr_resp resp;

	CHECK_EQ(raw_call_tail(r, FF_MSG_REG_MR, &req, sizeof(req), &run, sizeof(run), 1, &resp,
			       sizeof(resp)),
		 0);
	return resp.lkey;
}

/* The client truncates the file under a shared mapping that the router has mapped as well. */
static void truncated_memory(void)
{
	size_t len = 64 * FF_PAGE;

	victim_start();
	for (unsigned round = 0; round < 20; round++) {
		int fd = memfd_create("hostile", MFD_CLOEXEC);
		struct raw_qp q;
		struct ff_sqe *e;
		uint32_t key;
		struct raw r;
		void *p;

		CHECK(fd >= 0 && ftruncate(fd, (off_t)len) == 0);
		p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
		CHECK(p != MAP_FAILED);
		memset(p, 1, len); /* what nobody touched the router does not map */
		raw_open(&r);
		raw_qp_make(&r, &q, IBV_QPT_RC, 65536);
		raw_qp_connect(&r, &q);
		key = reg_shared(&r, &q, p, len);
		for (unsigned i = 0; i < 40; i++) {
			if (i == round)
				CHECK(ftruncate(fd, 0) == 0);
			e = raw_sqe(&q);
			raw_write_wr(&q, e, i);
			if (i % 2) {
				e->remote_addr = (uintptr_t)p + 5 * FF_PAGE;
				e->rkey = key;
			} else {
				e->sge[0] = (struct ff_sge){ (uintptr_t)p + 9 * FF_PAGE, 8, key };
			}
			raw_publish(&r, &q);
			raw_cqe(&q);
		}
		victim_check();
		session_lives(&r);
		raw_close(&r);
		munmap(p, len);
		close(fd);
	}
	victim_stop();
	raw_router_serves();
}

/* Memory that is gone when the router comes to copy: an error for that QP. */
static void unmapped_memory(void)
{
	struct raw_qp q;
	struct ff_cqe *c;
	struct raw r;

	victim_start();
	raw_open(&r);
	for (unsigned i = 0; i < 50; i++) {
		raw_qp_make(&r, &q, IBV_QPT_RC, 65536);
		raw_qp_connect(&r, &q);
		if (i % 2) /* the source or the destination, or both */
			munmap(q.buf, FF_PAGE);
		if (i % 3)
			munmap(q.buf + q.len / 2, FF_PAGE);
		raw_write_wr(&q, raw_sqe(&q), 1);
		raw_publish(&r, &q);
		WAIT_FOR((c = raw_cqe(&q)));
		if (i % 2 || i % 3)
			CHECK(c->status != IBV_WC_SUCCESS);
		else
			CHECK_EQ(c->status, IBV_WC_SUCCESS);
		CHECK(session_lives(&r));
	}
	raw_close(&r);
	victim_stop();
}

/* A userfaultfd that nobody serves: who touches these pages waits for ever. */
static int stall(void *p, size_t len, struct raw *r)
{
	struct uffdio_api api = { .api = UFFD_API };
	struct uffdio_register reg = { .range = { (uintptr_t)p, len },
				       .mode = UFFDIO_REGISTER_MODE_MISSING };
	int fd = -1;

	if (r->uffd_dev >= 0)
		fd = ioctl(r->uffd_dev, USERFAULTFD_IOC_NEW, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK);
	if (fd < 0)
		vt_skip("no userfaultfd: %s", strerror(errno));
	CHECK_EQ(ioctl(fd, UFFDIO_API, &api), 0);
	CHECK_EQ(ioctl(fd, UFFDIO_REGISTER, &reg), 0);
	return fd;
}

/* A client whose memory stalls the router's copies stalls only itself. */
static void stalling_memory(void)
{
	enum { CLIENTS = 6 };
	struct raw r[CLIENTS];
	struct raw_qp q[CLIENTS];
	size_t len = 16 * FF_PAGE;
	int uffd[CLIENTS];

	victim_start();
	for (unsigned i = 0; i < CLIENTS; i++) {
		uint8_t *trap = vt_map(len);
		struct ff_reg_mr_req req;
		struct ff_reg_mr_resp mr;
		struct ff_sqe *e;

		raw_open(&r[i]);
		raw_qp_make(&r[i], &q[i], IBV_QPT_RC, 65536);
		raw_qp_connect(&r[i], &q[i]);
		uffd[i] = stall(trap, len, &r[i]);
		req = (struct ff_reg_mr_req){ .addr = (uintptr_t)trap,
					      .length = len,
					      .iova = (uintptr_t)trap,
					      .pd = q[i].pd,
					      .access = VT_ACCESS_ALL };
		RAW_CALL(&r[i], REG_MR, &req, &mr);
		for (unsigned k = 0; k < 20; k++) {
			e = raw_sqe(&q[i]);
			raw_write_wr(&q[i], e, k);
			if ((i + k) % 2) {
				e->remote_addr = (uintptr_t)trap + 100;
				e->rkey = mr.rkey;
			} else {
				e->sge[0] = (struct ff_sge){ (uintptr_t)trap + 200, 8, mr.lkey };
			}
			raw_publish(&r[i], &q[i]);
		}
		victim_check();
		raw_router_serves();
	}
	for (unsigned lap = 0; lap < 20; lap++)
		victim_check();
	/* half of them end their session in the middle of it, the others let go first */
	for (unsigned i = 0; i < CLIENTS; i++) {
		if (i % 2)
			raw_close(&r[i]);
		victim_check();
		close(uffd[i]);
		if (i % 2)
			continue;
		for (unsigned k = 0; k < 20; k++)
			WAIT_FOR(raw_cqe(&q[i]) || !session_lives(&r[i]));
		raw_close(&r[i]);
	}
	victim_stop();
	raw_router_serves();
}

/*
 * The peer, its session or only its QP, goes while the router is in a copy into the peer's memory
 * that takes long: the sender sees an error or no answer, and the router touches nothing of it.
 */
static void peer_goes_in_copy(void)
{
	size_t len = 16 * FF_PAGE;
	uint32_t rnd = 9;

	victim_start();
	for (unsigned round = 0; round < 240; round++) {
		uint64_t until;
		uint8_t *trap = vt_map(len);
		struct ff_destroy_qp_resp none;
		struct ff_reg_mr_resp mr;
		struct ff_sqe *e;
		struct ff_cqe *c;
		struct raw a, b;
		struct raw_qp x, y;
		int uffd;

		raw_open(&a);
		raw_open(&b);
		raw_qp_make(&a, &x, IBV_QPT_RC, 65536);
		raw_qp_make(&b, &y, IBV_QPT_RC, 65536);
		raw_qp_connect_to(&a, &x, y.qp_num);
		raw_qp_connect_to(&b, &y, x.qp_num);
		uffd = stall(trap, len, &b);
		RAW_CALL(&b, REG_MR,
			 (&(struct ff_reg_mr_req){ .addr = (uintptr_t)trap,
						   .length = len,
						   .iova = (uintptr_t)trap,
						   .pd = y.pd,
						   .access = VT_ACCESS_ALL }),
			 &mr);
		e = raw_sqe(&x);
		raw_write_wr(&x, e, 1);
		e->remote_addr = (uintptr_t)trap;
		e->rkey = mr.rkey;
		e->opcode = round % 3 == 0 ? FF_OP_WRITE :
			    round % 3 == 1 ? FF_OP_READ :
					     FF_OP_FETCH_ADD;
		e->atomic.compare_add = 1;
		raw_publish(&a, &x);
		/* somewhere from before the copy to long after its begin */
		for (until = vt_now() + vt_rand(&rnd) % 400000; vt_now() < until;)
			;
		if (round % 2)
			raw_close(&b);
		else
			RAW_CALL(&b, DESTROY_QP, (&(struct ff_destroy_qp_req){ .qp = y.qp }),
				 &none);
		if (round % 8 < 6)
			close(uffd); /* and the copy succeeds after all */
		WAIT_FOR((c = raw_cqe(&x)));
		CHECK_EQ(c->wr_id, 1);
		if (round % 8 >= 6)
			close(uffd);
		if (round % 2 == 0)
			raw_close(&b);
		raw_close(&a);
		munmap(trap, len);
	}
	victim_stop();
	raw_router_serves();
}

VT_MAIN({ "rings_send_queue_noise", send_queue_noise, 0 },
	{ "rings_send_queue_fields", send_queue_fields, 0 },
	{ "rings_receive_queue_noise", receive_queue_noise, 0 },
	{ "rings_entries_change", entries_change, 0 }, { "rings_header_noise", header_noise, 0 },
	{ "rings_absurd_consumer_index", absurd_consumer_index, 0 },
	{ "rings_doorbell_storm", doorbell_storm, 0 }, { "rings_segments", segments, 0 },
	{ "rings_truncated_memory", truncated_memory, 0 },
	{ "rings_unmapped_memory", unmapped_memory, 0 },
	{ "rings_stalling_memory", stalling_memory, 0 },
	{ "rings_peer_goes_in_copy", peer_goes_in_copy, 0 })
