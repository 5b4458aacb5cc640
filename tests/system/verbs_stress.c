/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lpthread */
/* test: netns */
/* all: system-san system-tsan */
/* night: docker */
/* timeout: 600 */
/*
 * verbs_stress.c - atomics under contention, many QPs, threads on one QP, objects that come and go
 * under traffic, and a random mix of everything against a model.
 */
#include "tests/rig/verbs/vt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

/* ---- atomics -------------------------------------------------------------------------------- */

static uint64_t word(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, 8);
	return v;
}

static void put(uint8_t *p, uint64_t v)
{
	memcpy(p, &v, 8);
}

static void atomic_results(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_wc wc;
	struct vt_end a, b;

	vt_pair(&a, &b, &par);
	put(b.buf + 64, UINT64_MAX - 1);
	vt_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, 1, 0, 64, 5, 0);
	wc = WANT_OK(a.scq, 1);
	CHECK_EQ(wc.opcode, IBV_WC_FETCH_ADD);
	CHECK_EQ(wc.byte_len, 8);
	CHECK_EQ(word(a.buf), UINT64_MAX - 1);
	CHECK_EQ(word(b.buf + 64), 3); /* wraps */
	vt_atomic(&a, IBV_WR_ATOMIC_CMP_AND_SWP, 2, 8, 64, 4, 0x1122334455667788);
	CHECK_EQ(WANT_OK(a.scq, 2).opcode, IBV_WC_COMP_SWAP);
	CHECK_EQ(word(a.buf + 8), 3); /* not equal: nothing changed */
	CHECK_EQ(word(b.buf + 64), 3);
	vt_atomic(&a, IBV_WR_ATOMIC_CMP_AND_SWP, 3, 16, 64, 3, 0x1122334455667788);
	WANT_OK(a.scq, 3);
	CHECK_EQ(word(a.buf + 16), 3);
	CHECK_EQ(word(b.buf + 64), 0x1122334455667788);
	CHECK_EQ(word(b.buf + 56), 0);
	CHECK_EQ(word(b.buf + 72), 0);
	vt_pair_close(&a, &b);
}

/* The result may be scattered over several entries. */
static void atomic_scatter(void)
{
	struct vt_param par = VT_PARAM;
	struct ibv_sge sge[3];
	struct ibv_send_wr wr = { .wr_id = 1,
				  .sg_list = sge,
				  .num_sge = 3,
				  .opcode = IBV_WR_ATOMIC_FETCH_AND_ADD,
				  .send_flags = IBV_SEND_SIGNALED };
	struct vt_end a, b;
	uint8_t got[8];

	vt_pair(&a, &b, &par);
	put(b.buf, 0x0102030405060708);
	wr.wr.atomic.remote_addr = a.peer.addr;
	wr.wr.atomic.rkey = a.peer.rkey;
	wr.wr.atomic.compare_add = 1;
	sge[0] = vt_sge(&a, 100, 3);
	sge[1] = vt_sge(&a, 200, 4);
	sge[2] = vt_sge(&a, 301, 1);
	if (vt_post(&a, &wr))
		vt_skip("atomics take one entry on this device");
	WANT_OK(a.scq, 1);
	memcpy(got, a.buf + 100, 3);
	memcpy(got + 3, a.buf + 200, 4);
	got[7] = a.buf[301];
	CHECK_EQ(word(got), 0x0102030405060708);
	vt_pair_close(&a, &b);
}

struct adder {
	struct vt_end *b;
	unsigned count;
	bool cas;
};

/* A connection of its own to one word of b's memory. */
static void *add(void *arg)
{
	struct adder *t = arg;
	struct vt_param par = VT_PARAM;
	struct vt_end a;
	struct vt_addr peer = t->b->self;
	struct ibv_qp *qp;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	vt_end_open(&a, &par);
	pthread_mutex_lock(&lock);
	qp = vt_make_qp(t->b);
	peer.qpn = qp->qp_num;
	vt_connect_qp(qp, &par, &peer, &a.self);
	pthread_mutex_unlock(&lock);
	vt_connect(&a, &peer);
	for (unsigned i = 0; i < t->count;) {
		if (!t->cas) {
			vt_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, i, 0, 0, 1, 0);
			WANT_OK(a.scq, i++);
			continue;
		}
		uint64_t old = word(a.buf);

		vt_atomic(&a, IBV_WR_ATOMIC_CMP_AND_SWP, i, 0, 0, old, old + 1);
		WANT_OK(a.scq, i);
		i += word(a.buf) == old; /* else try again with what it really was */
	}
	vt_end_close(&a);
	return NULL;
}

static void contend(bool cas)
{
	struct vt_param par = VT_PARAM;
	struct adder t[4];
	pthread_t id[4];
	struct vt_end b;

	vt_end_open(&b, &par);
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = (struct adder){ &b, 5000 / vt_slow(), cas };
		CHECK_EQ(pthread_create(&id[i], NULL, add, &t[i]), 0);
	}
	for (unsigned i = 0; i < ARRAY_SIZE(t); i++)
		CHECK_EQ(pthread_join(id[i], NULL), 0);
	CHECK_EQ(word(b.buf), 4 * t[0].count);
}

static void atomic_add_contended(void)
{
	contend(false);
}
static void atomic_cas_contended(void)
{
	contend(true);
}

/* ---- many QPs ------------------------------------------------------------------------------- */

static void thousand_qps(void)
{
	enum { NUM = 1000 };
	static struct ibv_qp *x[NUM], *y[NUM];
	struct vt_param par = VT_PARAM;
	uint32_t rnd = 1;
	struct vt_end a, b;

	par.send_wr = par.recv_wr = 4;
	par.send_sge = par.recv_sge = 1;
	vt_pair(&a, &b, &par);
	for (unsigned lap = 0; lap < 2; lap++) {
		vt_pair_more(&a, &b, x, y, NUM);
		for (unsigned i = 0; i < NUM; i++)
			CHECK(x[i]->qp_num != y[i]->qp_num && !(x[i]->qp_num >> 24));
		for (unsigned i = 0; i < 3 * NUM; i++) {
			unsigned k = vt_rand(&rnd) % NUM;
			struct ibv_sge from = vt_sge(&a, 0, 64), to = vt_sge(&b, 64, 64);
			struct ibv_send_wr *bad, wr = { .wr_id = k,
							.sg_list = &from,
							.num_sge = 1,
							.opcode = IBV_WR_SEND,
							.send_flags = IBV_SEND_SIGNALED };
			struct ibv_recv_wr *bad_rr,
				rr = { .wr_id = i, .sg_list = &to, .num_sge = 1 };

			vt_pattern(a.buf, 64, i);
			CHECK_OK(ibv_post_recv(y[k], &rr, &bad_rr));
			CHECK_OK(ibv_post_send(x[k], &wr, &bad));
			CHECK_EQ(WANT_OK(a.scq, k).qp_num, x[k]->qp_num);
			CHECK_EQ(WANT_OK(b.rcq, i).qp_num, y[k]->qp_num);
			CHECK_PATTERN(b.buf + 64, 64, i);
		}
		vt_destroy_qps(x, NUM);
		vt_destroy_qps(y, NUM);
	}
	vt_pair_close(&a, &b);
}

/* ---- threads on one QP ---------------------------------------------------------------------- */

static atomic_uint posted_count, done_count;

struct poster {
	struct vt_end *a;
	unsigned id, count;
};

static void *post(void *arg)
{
	struct poster *p = arg;

	for (unsigned i = 0; i < p->count; i++) {
		struct ibv_sge sge = vt_sge(p->a, 64 * p->id, 16);
		struct ibv_send_wr *bad, wr = { .wr_id = p->id * 1000000ull + i,
						.sg_list = &sge,
						.num_sge = 1,
						.opcode = IBV_WR_RDMA_WRITE,
						.send_flags = IBV_SEND_SIGNALED };
		int err;

		wr.wr.rdma.remote_addr = p->a->peer.addr + 64 * p->id;
		wr.wr.rdma.rkey = p->a->peer.rkey;
		/* never more under way than the CQ holds, as programs do */
		WAIT_FOR(posted_count - done_count < 200);
		posted_count++;
		while ((err = VERB_ERRNO(ibv_post_send(p->a->qp, &wr, &bad))) == ENOMEM)
			vt_pause();
		CHECK_EQ(err, 0);
	}
	return NULL;
}

/* Two threads post, two poll one CQ: every WR completes once. */
static void *poll_shared(void *arg)
{
	struct poster *p = arg;
	uint64_t until = vt_deadline();

	while (done_count < 2 * p->count) {
		struct ibv_wc wc[8];
		int n = ibv_poll_cq(p->a->scq, 8, wc);

		CHECK(n >= 0);
		for (int i = 0; i < n; i++) {
			CHECK_EQ(wc[i].status, IBV_WC_SUCCESS);
			CHECK(wc[i].wr_id / 1000000 < 2 && wc[i].wr_id % 1000000 < p->count);
		}
		done_count += (unsigned)n;
		if (n)
			until = vt_deadline();
		else if (vt_now() > until)
			FAIL("only %u completions came", done_count);
	}
	return NULL;
}

static void threads_on_one_qp(void)
{
	struct vt_param par = VT_PARAM;
	struct poster p[2];
	struct vt_end a, b;
	pthread_t t[4];

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 2; i++) {
		p[i] = (struct poster){ &a, i, 50000 / vt_slow() };
		CHECK_EQ(pthread_create(&t[i], NULL, post, &p[i]), 0);
		CHECK_EQ(pthread_create(&t[2 + i], NULL, poll_shared, &p[i]), 0);
	}
	for (unsigned i = 0; i < 4; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	CHECK_EQ(done_count, 2 * p[0].count);
	CHECK_EMPTY(a.scq);
	vt_pair_close(&a, &b);
}

/* ---- comings and goings --------------------------------------------------------------------- */

static atomic_bool stop;

static void *churn(void *arg)
{
	struct vt_param par = VT_PARAM;

	while (!stop) {
		struct vt_end a, b;

		par.srq = !par.srq;
		vt_pair(&a, &b, &par);
		vt_check_alive(&a, &b);
		vt_send(&a, 1, 0, 8, 0); /* left unfinished */
		vt_pair_close(&a, &b);
	}
	return arg;
}

/* Sessions are opened and closed with work under way while others carry data. */
static void churn_beside_traffic(void)
{
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;
	uint64_t until = vt_now() + 1500000000ull;
	pthread_t t[2];

	vt_pair(&a, &b, &par);
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(pthread_create(&t[i], NULL, churn, NULL), 0);
	while (vt_now() < until)
		vt_check_alive(&a, &b);
	stop = true;
	for (unsigned i = 0; i < 2; i++)
		CHECK_EQ(pthread_join(t[i], NULL), 0);
	vt_pair_close(&a, &b);
}

/* ---- a random mix against a model ----------------------------------------------------------- */

enum { AREA = 1 << 20, MAX_OP = 200000, OPS = 16 };

/*
 * Random operations one after the other, with a model of both memories.
 */
static void random_mix(void)
{
	uint8_t *ma = CHECK_PTR(calloc(1, AREA)), *mb = CHECK_PTR(calloc(1, AREA));
	struct vt_param par = VT_PARAM;
	uint32_t rnd = 20261121;
	struct vt_end a, b;

	par.len = AREA;
	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 150; round++) {
		unsigned n = 1 + vt_rand(&rnd) % OPS, recvs = 0;

		for (unsigned i = 0; i < n; i++) {
			unsigned kind = vt_rand(&rnd) % 5;
			size_t max = vt_rand(&rnd) % 3 ? 300 : MAX_OP;
			size_t len = vt_rand(&rnd) % max, la, rb;
			unsigned flags = IBV_SEND_SIGNALED;
			uint64_t v;

			la = vt_rand(&rnd) % (AREA - MAX_OP);
			rb = vt_rand(&rnd) % (AREA - MAX_OP);
			switch (kind) {
			case 0:
				vt_recv(&b, round * 100 + recvs++, rb, len);
				vt_send(&a, i, la, len, flags);
				memcpy(mb + rb, ma + la, len);
				break;
			case 1:
				vt_rdma(&a, IBV_WR_RDMA_WRITE, i, la, len, rb, flags);
				memcpy(mb + rb, ma + la, len);
				break;
			case 2:
				vt_rdma(&a, IBV_WR_RDMA_READ, i, la, len, rb, flags);
				memcpy(ma + la, mb + rb, len);
				break;
			case 3:
				rb &= ~(size_t)7;
				vt_atomic(&a, IBV_WR_ATOMIC_FETCH_AND_ADD, i, la, rb, rnd, 0);
				v = word(mb + rb);
				put(ma + la, v);
				put(mb + rb, v + rnd);
				break;
			default: /* the programs write themselves */
				vt_rdma(&a, IBV_WR_RDMA_WRITE, i, 0, 0, 0, flags);
				break;
			}
			WANT_OK(a.scq, i);
			if (kind == 4) {
				vt_pattern(a.buf + la, len, round + i);
				vt_pattern(ma + la, len, round + i);
				vt_pattern(b.buf + rb, len, round - i);
				vt_pattern(mb + rb, len, round - i);
			}
		}
		for (unsigned i = 0; i < recvs; i++)
			WANT_OK(b.rcq, round * 100 + i);
		if (memcmp(a.buf, ma, AREA) || memcmp(b.buf, mb, AREA))
			FAIL("memory differs from the model after round %u", round);
	}
	free(ma);
	free(mb);
	vt_pair_close(&a, &b);
}

/* As deep as the queue allows, nothing polled until the end, READs and WRITEs to disjoint places. */
static void deep_pipeline(void)
{
	enum { DEPTH = 64, LEN = 4096 };
	struct vt_param par = VT_PARAM;
	struct vt_end a, b;

	par.len = 2 * DEPTH * LEN;
	par.rd_atomic = par.dest_rd_atomic = 1; /* READs one after the other */
	vt_pair(&a, &b, &par);
	for (unsigned round = 0; round < 100; round++) {
		vt_pattern(b.buf + DEPTH * LEN, DEPTH * LEN, round);
		for (unsigned i = 0; i < DEPTH; i++) {
			vt_pattern(a.buf + i * LEN, LEN, round * 100 + i);
			if (i % 2)
				vt_rdma(&a, IBV_WR_RDMA_WRITE, i, i * LEN, LEN, i * LEN,
					IBV_SEND_SIGNALED);
			else
				vt_rdma(&a, IBV_WR_RDMA_READ, i, (DEPTH + i) * LEN, LEN,
					(DEPTH + i) * LEN, IBV_SEND_SIGNALED);
		}
		for (unsigned i = 0; i < DEPTH; i++)
			WANT_OK(a.scq, i);
		for (unsigned i = 0; i < DEPTH; i++) {
			if (i % 2)
				CHECK_PATTERN(b.buf + i * LEN, LEN, round * 100 + i);
			else
				CHECK(!memcmp(a.buf + (DEPTH + i) * LEN, b.buf + (DEPTH + i) * LEN,
					      LEN));
		}
	}
	vt_pair_close(&a, &b);
}

VT_MAIN({ "atomic_results", atomic_results, 0 }, { "atomic_scatter", atomic_scatter, 0 },
	{ "atomic_add_contended", atomic_add_contended, 0 },
	{ "atomic_cas_contended", atomic_cas_contended, 0 },
	{ "stress_thousand_qps", thousand_qps, 120 },
	{ "stress_threads_on_one_qp", threads_on_one_qp, 0 },
	{ "stress_churn_beside_traffic", churn_beside_traffic, 0 },
	{ "stress_random_mix", random_mix, 0 }, { "stress_deep_pipeline", deep_pipeline, 0 })
