/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_stream.c - ffl/rsocket/stream.c: rings and credits, over verbs that execute at once and
 * insist that a receive is there; what a hostile peer sends. ffl/rsocket/fd.c: the table.
 *
 * build: ffl/rsocket/fd.c ffl/rsocket/lock.c
 */

#include "tests/rig/unit/unit.h"
#include "ffl/rsocket/stream.c"

#define FIFO 4096u

struct side {
	struct rsocket rs;
	struct rdma_cm_id id;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_context ctx;
	struct ibv_wc wc[FIFO];
	unsigned head, tail;
	unsigned recvs; /* posted */
	struct side *peer;
};
static struct side side[2];
static int post_err; /* what posting a send fails with; 0: it does not */

static struct side *side_of_qp(struct ibv_qp *qp)
{
	return qp == &side[0].qp ? &side[0] : &side[1];
}

static void push(struct side *s, struct ibv_wc wc)
{
	assert_true(s->tail - s->head < FIFO);
	s->wc[s->tail++ % FIFO] = wc;
}

/* ---- verbs that execute at once -------------------------------------------------------------------- */

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	struct side *s = side_of_qp(qp), *p = s->peer;
	uint32_t len = wr->num_sge ? wr->sg_list[0].length : 0;

	(void)bad;
	if (post_err)
		return post_err;
	assert_null(wr->next);
	if (len) { /* stays within the peer's ring */
		uint64_t off = wr->wr.rdma.remote_addr - (uintptr_t)p->rs.s.rbuf;

		assert_true(off + len <= p->rs.s.rsize);
		memcpy(p->rs.s.rbuf + off, (void *)(uintptr_t)wr->sg_list[0].addr, len);
	}
	if (wr->opcode == IBV_WR_RDMA_WRITE_WITH_IMM) {
		assert_true(p->recvs > 0); /* never RNR */
		p->recvs--;
		push(p, (struct ibv_wc){ .wr_id = WR_RECV,
					 .wc_flags = IBV_WC_WITH_IMM,
					 .imm_data = wr->imm_data });
	}
	if (wr->send_flags & IBV_SEND_SIGNALED)
		push(s, (struct ibv_wc){ .wr_id = wr->wr_id });
	return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)bad;
	for (; wr; wr = wr->next)
		side_of_qp(qp)->recvs++;
	return 0;
}

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	struct side *s = cq == &side[0].cq ? &side[0] : &side[1];
	int got = 0;

	while (got < n && s->head != s->tail)
		wc[got++] = s->wc[s->head++ % FIFO];
	return got;
}

int rdma_create_qp(struct rdma_cm_id *id, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
{
	struct side *s = (struct side *)((char *)id - offsetof(struct side, id));

	(void)pd;
	(void)attr;
	id->qp = &s->qp;
	return 0;
}

void rdma_destroy_qp(struct rdma_cm_id *id)
{
	id->qp = NULL;
}

int rs_cq_open(struct rs_cq *q, struct ibv_context *ctx, int cqe)
{
	(void)cqe;
	q->cq = ctx == &side[0].ctx ? &side[0].cq : &side[1].cq;
	return 0;
}

void rs_cq_close(struct rs_cq *q)
{
	q->cq = NULL;
}

void *ibv_malloc(struct ibv_pd *pd, size_t size)
{
	(void)pd;
	return malloc(size);
}

void ibv_free(void *p)
{
	free(p);
}

static struct ibv_mr the_mr = { .rkey = 7, .lkey = 8 };

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t len, int access)
{
	(void)pd;
	(void)addr;
	(void)len;
	(void)access;
	return &the_mr;
}

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t len, uint64_t iova,
				unsigned int access)
{
	(void)iova;
	return ibv_reg_mr(pd, addr, len, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *mr)
{
	(void)mr;
	return 0;
}

/* ---- the other files of rsockets --------------------------------------------------------------------- */

void rs_stream_gone(struct rsocket *rs, int err)
{
	rs->s.gone = true;
	rs->err = err;
}

int rs_wait(struct rsocket *rs, bool (*ready)(struct rsocket *rs), bool nonblock, uint64_t timeout)
{
	(void)nonblock;
	(void)timeout;
	rs_stream_process(rs);
	return ready(rs) ? 0 : -EAGAIN;
}

int rs_iomap_flush(struct rsocket *rs, int flags)
{
	(void)rs;
	(void)flags;
	return 0;
}

void rs_iomap_free(struct rsocket *rs)
{
	(void)rs;
}

void rs_gather(struct rs_iter *it, void *dst, size_t len)
{
	memcpy(dst, (char *)it->iov->iov_base + it->off, len);
	it->off += len;
}

void rs_scatter(struct rs_iter *it, const void *src, size_t len)
{
	memcpy((char *)it->iov->iov_base + it->off, src, len);
	it->off += len;
}

const void *rs_contiguous(struct rs_iter *it, size_t len)
{
	const char *p = (char *)it->iov->iov_base + it->off;

	it->off += len;
	return p;
}

/* ---- a pair --------------------------------------------------------------------------------------------- */

static void open_pair(uint32_t rcvbuf, uint32_t sndbuf, uint32_t queue)
{
	struct rs_hello h[2];

	memset(side, 0, sizeof(side));
	for (int i = 0; i < 2; i++) {
		struct side *s = &side[i];

		s->peer = &side[1 - i];
		s->ctx.ops.post_send = fake_post_send;
		s->ctx.ops.post_recv = fake_post_recv;
		s->ctx.ops.poll_cq = fake_poll_cq;
		s->qp.context = s->cq.context = s->id.verbs = &s->ctx;
		s->rs.id = &s->id;
		s->rs.type = SOCK_STREAM;
		s->rs.opt = (struct rs_options){
			.rcvbuf = rcvbuf, .sndbuf = sndbuf, .sq_size = queue, .rq_size = queue
		};
		assert_int_equal(rs_stream_open(&s->rs), 0);
		rs_stream_hello(&s->rs, &h[i]);
	}
	for (int i = 0; i < 2; i++) {
		assert_int_equal(rs_stream_pair(&side[i].rs, &h[1 - i]), 0);
		side[i].rs.state = RS_CONNECTED;
	}
}

static void close_pair(void)
{
	rs_stream_free(&side[0].rs);
	rs_stream_free(&side[1].rs);
}

static ssize_t put_bytes(int i, const void *buf, size_t len)
{
	struct iovec iov = { (void *)buf, len };
	struct rs_iter it = { &iov, 1, 0 };

	return rs_stream_send(&side[i].rs, &it, len, 0);
}

static ssize_t get_bytes(int i, void *buf, size_t len, int flags)
{
	struct iovec iov = { buf, len };
	struct rs_iter it = { &iov, 1, 0 };

	return rs_stream_recv(&side[i].rs, &it, len, flags);
}

static uint32_t next_random(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	return *x ^= *x << 5;
}

/* ---- cases ------------------------------------------------------------------------------------------------ */

static void ring_sizes(void **state)
{
	(void)state;
	assert_int_equal(rs_ring_size(0), 4096);
	assert_int_equal(rs_ring_size(4096), 4096);
	assert_int_equal(rs_ring_size(8191), 4096);
	assert_int_equal(rs_ring_size(8192), 8192);
	assert_int_equal(rs_ring_size(UINT32_MAX), RS_BUF_MAX);
	/* each direction has the smaller of what its sides want */
	open_pair(65536, 9000, 64);
	assert_int_equal(side[0].rs.s.ssize, 8192);
	assert_int_equal(side[0].rs.s.rsize, 8192);
	close_pair();
}

static void full_and_given_back(void **state)
{
	static uint8_t buf[10000];

	(void)state;
	open_pair(4096, 4096, 64);
	assert_int_equal(put_bytes(0, buf, sizeof(buf)), 4096);
	assert_int_equal(put_bytes(0, buf, 1), -EAGAIN);
	assert_false(rs_stream_writable(&side[0].rs));
	rs_stream_process(&side[1].rs);
	/* a byte less than a quarter is not worth a message */
	assert_int_equal(get_bytes(1, buf, 1023, 0), 1023);
	assert_int_equal(put_bytes(0, buf, 1), -EAGAIN);
	assert_int_equal(get_bytes(1, buf, 1, 0), 1);
	assert_int_equal(put_bytes(0, buf, sizeof(buf)), 1024);
	assert_int_equal(put_bytes(0, buf, 1), -EAGAIN);
	close_pair();
}

static void messages_given_back(void **state)
{
	uint8_t c;

	(void)state;
	open_pair(65536, 65536, 16);
	for (int i = 0; i < 16; i++)
		assert_int_equal(put_bytes(0, "x", 1), 1);
	assert_int_equal(put_bytes(0, "x", 1), -EAGAIN);
	/* taking the completions gives them back, whether the program takes the bytes or not */
	rs_stream_process(&side[1].rs);
	assert_int_equal(put_bytes(0, "x", 1), 1);
	for (int i = 0; i < 17; i++)
		assert_int_equal(get_bytes(1, &c, 1, 0), 1);
	assert_int_equal(get_bytes(1, &c, 1, 0), -EAGAIN);
	close_pair();
}

/* Both ways, random sizes and turns: the bytes are the same, no receive is ever missing. */
static void random_traffic(void **state)
{
	static const uint32_t shapes[][2] = { { 4096, 16 }, { 16384, 64 }, { 1u << 18, 384 } };
	static uint8_t out[300000], in[300000];
	uint32_t x = 12345;

	(void)state;
	for (size_t k = 0; k < sizeof(shapes) / sizeof(shapes[0]); k++) {
		uint64_t sent[2] = { 0 }, got[2] = { 0 };

		open_pair(shapes[k][0], shapes[k][0], shapes[k][1]);
		for (int turn = 0; turn < 60000; turn++) {
			int i = next_random(&x) & 1;
			size_t len = 1 + next_random(&x) % (next_random(&x) % 8 ? 300 : 20000);
			ssize_t n;

			if (next_random(&x) & 1) {
				for (size_t j = 0; j < len; j++)
					out[j] = (uint8_t)((sent[i] + j) * 2654435761u >> 13);
				n = put_bytes(i, out, len);
				assert_true(n > 0 || n == -EAGAIN);
				sent[i] += n > 0 ? (uint64_t)n : 0;
			} else {
				n = get_bytes(i, in, len, 0);
				assert_true(n > 0 || n == -EAGAIN);
				for (ssize_t j = 0; j < n; j++)
					assert_int_equal(in[j], (uint8_t)((got[i] + (uint64_t)j) *
										  2654435761u >>
									  13));
				got[i] += n > 0 ? (uint64_t)n : 0;
			}
			assert_true(got[0] <= sent[1] && got[1] <= sent[0]);
		}
		assert_true(got[0] > 100000 && got[1] > 100000);
		close_pair();
	}
}

static void ends(void **state)
{
	uint8_t buf[16];

	(void)state;
	open_pair(4096, 4096, 16);
	assert_int_equal(put_bytes(0, "abc", 3), 3);
	rs_lock(&side[0].rs.lock);
	assert_int_equal(rs_stream_shut(&side[0].rs, SHUT_WR), 0);
	rs_unlock(&side[0].rs.lock);
	assert_int_equal(put_bytes(0, "d", 1), -EPIPE);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), 3);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), 0);
	assert_int_equal(put_bytes(1, "e", 1), 1);
	assert_int_equal(get_bytes(0, buf, 1, 0), 1);
	rs_lock(&side[0].rs.lock);
	assert_int_equal(rs_stream_shut(&side[0].rs, SHUT_RD), 0);
	rs_stream_process(&side[0].rs);
	assert_true(rs_stream_flushed(&side[0].rs));
	rs_unlock(&side[0].rs.lock);
	rs_stream_process(&side[1].rs);
	assert_true(side[1].rs.s.closed);
	assert_int_equal(put_bytes(1, "f", 1), -EPIPE);
	close_pair();
}

static void peek_leaves_the_bytes(void **state)
{
	char buf[8] = "";

	(void)state;
	open_pair(4096, 4096, 16);
	assert_int_equal(put_bytes(0, "abcd", 4), 4);
	assert_int_equal(get_bytes(1, buf, 2, MSG_PEEK), 2);
	assert_memory_equal(buf, "ab", 2);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), MSG_PEEK), 4);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), 4);
	assert_memory_equal(buf, "abcd", 4);
	assert_int_equal(get_bytes(1, buf, 1, MSG_PEEK), -EAGAIN);
	close_pair();
}

/* Bytes of a WRITE that could not be posted take no room, and the next ones come in their place. */
static void failed_post(void **state)
{
	char buf[8] = "";

	(void)state;
	open_pair(4096, 4096, 16);
	for (int i = 0; i < 20; i++) {
		post_err = ENOMEM;
		assert_int_equal(put_bytes(0, "xyz", 3), -ENOMEM);
		post_err = 0;
	}
	assert_int_equal(put_bytes(0, "abc", 3), 3);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), 3);
	assert_memory_equal(buf, "abc", 3);
	close_pair();
}

/* A connection that is lost: the data that came, without a hang-up, then the error, once. */
static void lost_connection(void **state)
{
	struct rsocket *rs = &side[1].rs;
	char buf[8];

	(void)state;
	open_pair(4096, 4096, 16);
	assert_int_equal(put_bytes(0, "abc", 3), 3);
	rs_stream_process(rs);
	rs_stream_gone(rs, ECONNRESET);
	assert_int_equal(rs_stream_revents(rs, POLLIN), POLLIN | POLLERR);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), 3);
	assert_int_equal(rs_stream_revents(rs, POLLIN), POLLIN | POLLHUP | POLLERR);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), -ECONNRESET);
	assert_int_equal(get_bytes(1, buf, sizeof(buf), 0), 0);
	assert_int_equal(rs_stream_revents(rs, POLLIN), POLLIN | POLLHUP);
	close_pair();
}

/* A WR's id has the low half of a position, which wraps after 4 GB. */
static void positions_wrap(void **state)
{
	const uint64_t wrap = 1ull << 32;
	struct rs_stream *s = &side[0].rs.s;

	(void)state;
	open_pair(4096, 4096, 16);
	s->iodone = wrap - 100;
	push(&side[0], (struct ibv_wc){ .wr_id = wr_id(WR_DATA, 1, wrap - 10) });
	rs_stream_process(&side[0].rs);
	assert_true(s->iodone == wrap - 10);
	push(&side[0], (struct ibv_wc){ .wr_id = wr_id(WR_DATA, 2, wrap + 50) });
	rs_stream_process(&side[0].rs);
	assert_true(s->iodone == wrap + 50);
	close_pair();
}

/* Messages that no rsocket sends end the connection, and nothing else. */
static void hostile(void **state)
{
	static const struct {
		enum rs_msg msg;
		uint32_t arg;
	} bad[] = {
		{ RS_MSG_DATA, 4097 },	      { RS_MSG_DATA, 0 },
		{ RS_MSG_DATA, RS_MSG_ARG },  { RS_MSG_BYTES, 1 },
		{ RS_MSG_BYTES, RS_MSG_ARG }, { RS_MSG_MSGS, 1 },
		{ RS_MSG_MSGS, RS_MSG_ARG },  { RS_MSG_IOMAP + 1, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		open_pair(4096, 4096, 16);
		push(&side[0],
		     (struct ibv_wc){ .wr_id = WR_RECV,
				      .wc_flags = IBV_WC_WITH_IMM,
				      .imm_data = htobe32((uint32_t)bad[i].msg << RS_MSG_SHIFT |
							  bad[i].arg) });
		rs_stream_process(&side[0].rs);
		assert_true(side[0].rs.s.gone);
		assert_int_equal(side[0].rs.err, EPROTO);
		close_pair();
	}
	/* data after the end */
	open_pair(4096, 4096, 16);
	for (int i = 0; i < 2; i++)
		push(&side[0],
		     (struct ibv_wc){ .wr_id = WR_RECV,
				      .wc_flags = IBV_WC_WITH_IMM,
				      .imm_data = htobe32((uint32_t)(i ? RS_MSG_DATA : RS_MSG_FIN)
								  << RS_MSG_SHIFT |
							  (uint32_t)i) });
	rs_stream_process(&side[0].rs);
	assert_true(side[0].rs.s.gone);
	close_pair();
}

static void table(void **state)
{
	static struct rsocket a, b;
	int fd = 0;

	(void)state;
	assert_null(rs_fd_get(-1));
	assert_null(rs_fd_get(5));
	assert_null(rs_fd_get(INT32_MAX));
	assert_int_equal(rs_fd_put(-1, &a), -EMFILE);
	assert_int_equal(rs_fd_put(1 << 20, &a), -EMFILE);
	assert_int_equal(rs_fd_put(5, &a), 0);
	assert_int_equal(rs_fd_put((1 << 20) - 1, &b), 0);
	assert_ptr_equal(rs_fd_get(5), &a);
	assert_ptr_equal(rs_fd_get((1 << 20) - 1), &b);
	assert_ptr_equal(rs_fd_next(&fd), &a);
	assert_ptr_equal(rs_fd_next(&fd), &b);
	assert_null(rs_fd_next(&fd));
	rs_fd_del(5);
	rs_fd_del(77777);
	assert_null(rs_fd_get(5));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(ring_sizes), cmocka_unit_test(full_and_given_back),
			cmocka_unit_test(messages_given_back), cmocka_unit_test(random_traffic),
			cmocka_unit_test(ends), cmocka_unit_test(peek_leaves_the_bytes),
			cmocka_unit_test(failed_post), cmocka_unit_test(lost_connection),
			cmocka_unit_test(positions_wrap), cmocka_unit_test(hostile),
			cmocka_unit_test(table));
}
