/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_dgram.c - ffl/rsocket/dgram.c: which messages become datagrams of the program, and what is
 * sent. The test is the device.
 *
 * build: ffl/rsocket/lock.c
 */
#include <string.h>

#include "ffl/rsocket/dgram.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

enum { SLOTS = 4, MTU = 256, STRIDE = 320 };

static struct {
	struct rsocket rs;
	struct ibv_qp qp;
	struct ibv_cq cq;
	struct ibv_context ctx;
	struct ibv_mr mr;
	uint8_t rbuf[SLOTS * STRIDE], sbuf[SLOTS * STRIDE];
	struct rs_rx rx[SLOTS];
	struct ibv_wc wc[SLOTS]; /* completions that are not polled */
	int num_wc;
	unsigned sends, receives; /* posted */
	size_t peer_sends;
} w;

/* ---- the device and the rest of the library -------------------------------------------------- */

static int fake_post_send(struct ibv_qp *qp, struct ibv_send_wr *wr, struct ibv_send_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	w.sends++;
	return 0;
}

static int fake_post_recv(struct ibv_qp *qp, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad)
{
	(void)qp, (void)wr, (void)bad;
	w.receives++;
	return 0;
}

static int fake_poll_cq(struct ibv_cq *cq, int n, struct ibv_wc *wc)
{
	int got = w.num_wc;

	(void)cq;
	assert_true(got <= n);
	memcpy(wc, w.wc, (size_t)got * sizeof(*wc));
	w.num_wc = 0;
	return got;
}

int rs_wait(struct rsocket *rs, bool (*ready)(struct rsocket *rs), bool nonblock, uint64_t timeout)
{
	(void)timeout;
	assert_true(nonblock);
	return ready(rs) ? 0 : -EAGAIN;
}

bool rs_addr_eq(const struct sockaddr *a, const struct sockaddr *b)
{
	const struct sockaddr_in *x = (const void *)a, *y = (const void *)b;

	return x->sin_addr.s_addr == y->sin_addr.s_addr && x->sin_port == y->sin_port;
}

const void *rs_contiguous(struct rs_iter *it, size_t len)
{
	(void)it, (void)len;
	return w.sbuf;
}

struct rs_peer *rs_peer_get(struct rsocket *rs, const struct sockaddr *to)
{
	(void)rs, (void)to;
	return (struct rs_peer *)&w;
}

int rs_peer_send(struct rsocket *rs, struct rs_peer *p, const void *buf, uint32_t len)
{
	(void)rs, (void)p, (void)buf;
	w.peer_sends += len;
	return 0;
}

bool rs_peers_resolved(struct rsocket *rs)
{
	(void)rs;
	return true;
}

void rs_peer_heard(struct rsocket *rs, const struct sockaddr *from, const union ibv_gid *gid,
		   uint32_t qpn)
{
	(void)rs, (void)from, (void)gid, (void)qpn;
}

void rs_cm_look(struct rsocket *rs)
{
	(void)rs;
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, rs_wait_served, struct rsocket *rs, bool (*done)(struct rsocket *rs), uint64_t us)
NOT_CALLED(void, rs_gather, struct rs_iter *it, void *to, size_t len)
NOT_CALLED(void, rs_scatter, struct rs_iter *it, const void *src, size_t len)
NOT_CALLED(socklen_t, rs_addr_len, const struct sockaddr *sa)
NOT_CALLED(void, rs_cq_close, struct rs_cq *q)
NOT_CALLED(int, rs_cq_open, struct rs_cq *q, struct ibv_context *ctx, int cqe)
NOT_CALLED(int, rs_opt_bind, struct rsocket *rs)
NOT_CALLED(void, rs_peers_free, struct rsocket *rs)
NOT_CALLED(void, rs_service_add, struct rsocket *rs)
NOT_CALLED(struct ibv_pd *, ibv_alloc_pd, struct ibv_context *c)
NOT_CALLED(int, ibv_dealloc_pd, struct ibv_pd *pd)
NOT_CALLED(struct ibv_qp *, ibv_create_qp, struct ibv_pd *pd, struct ibv_qp_init_attr *attr)
NOT_CALLED(int, ibv_destroy_qp, struct ibv_qp *qp)
NOT_CALLED(int, ibv_modify_qp, struct ibv_qp *qp, struct ibv_qp_attr *attr, int mask)
#undef ibv_query_port
NOT_CALLED(int, ibv_query_port, struct ibv_context *c, uint8_t port,
	   struct _compat_ibv_port_attr *attr)
#undef ibv_reg_mr
NOT_CALLED(struct ibv_mr *, ibv_reg_mr, struct ibv_pd *pd, void *addr, size_t len, int access)
NOT_CALLED(struct ibv_mr *, ibv_reg_mr_iova2, struct ibv_pd *pd, void *addr, size_t len,
	   uint64_t iova, unsigned int access)
NOT_CALLED(int, ibv_dereg_mr, struct ibv_mr *mr)
NOT_CALLED(void *, ibv_malloc, struct ibv_pd *pd, size_t size)
NOT_CALLED(void, ibv_free, void *p)
NOT_CALLED(int, rdma_bind_addr, struct rdma_cm_id *id, struct sockaddr *addr)
NOT_CALLED(int, rdma_create_id, struct rdma_event_channel *ch, struct rdma_cm_id **id,
	   void *context, enum rdma_port_space ps)
NOT_CALLED(int, rdma_destroy_id, struct rdma_cm_id *id)
NOT_CALLED(struct ibv_context **, rdma_get_devices, int *num)
NOT_CALLED(void, rdma_free_devices, struct ibv_context **list)
NOT_CALLED(int, rdma_listen, struct rdma_cm_id *id, int backlog)

/* ---- the program ----------------------------------------------------------------------------- */

static int setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.ctx.ops.post_send = fake_post_send;
	w.ctx.ops.post_recv = fake_post_recv;
	w.ctx.ops.poll_cq = fake_poll_cq;
	w.qp.context = w.cq.context = &w.ctx;
	w.rs.type = SOCK_DGRAM;
	w.rs.domain = AF_INET;
	w.rs.state = RS_OPEN;
	w.rs.cq.cq = &w.cq;
	w.rs.d.qp = &w.qp;
	w.rs.d.rmr = w.rs.d.smr = &w.mr;
	w.rs.d.rbuf = w.rbuf;
	w.rs.d.sbuf = w.sbuf;
	w.rs.d.rx = w.rx;
	w.rs.d.rslots = w.rs.d.sslots = SLOTS;
	w.rs.d.mtu = MTU;
	w.rs.d.stride = STRIDE;
	w.rs.d.to.sa.sa_family = AF_UNSPEC;
	return 0;
}

/* A message of that many bytes behind the GRH, from 10.0.0.<last>, port 7. */
static void comes(uint8_t last, uint32_t len)
{
	uint8_t *p = w.rbuf;
	struct header h = { .magic = MAGIC, .version = VERSION, .port = htons(7) };

	memset(p, 0, GRH_LEN);
	p[GRH_LEN - 8] = 10;
	p[GRH_LEN - 5] = last;
	memcpy(p + GRH_LEN, &h, sizeof(h));
	w.wc[0] = (struct ibv_wc){ .wr_id = WR_RECV,
				   .wc_flags = IBV_WC_GRH,
				   .byte_len = GRH_LEN + len };
	w.num_wc = 1;
	rs_dgram_process(&w.rs);
}

static void what_is_shorter_than_a_header_is_dropped(void **state)
{
	(void)state;
	comes(1, sizeof(struct header) - 1);
	assert_int_equal(w.rs.d.rx_tail, 0);
	assert_int_equal(w.receives, 1); /* its slot may be used again */
	comes(1, sizeof(struct header));
	assert_int_equal(w.rs.d.rx_tail, 1);
	assert_int_equal(w.rx[0].len, 0);
	assert_int_equal(w.receives, 1); /* the program has not taken it yet */
}

static void a_connected_socket_has_one_peer(void **state)
{
	(void)state;
	w.rs.d.to.sin.sin_family = AF_INET;
	w.rs.d.to.sin.sin_addr.s_addr = htonl(0x0a000001);
	w.rs.d.to.sin.sin_port = htons(7);
	comes(2, sizeof(struct header) + 4);
	assert_int_equal(w.rs.d.rx_tail, 0);
	assert_int_equal(w.receives, 1);
	comes(1, sizeof(struct header) + 4);
	assert_int_equal(w.rs.d.rx_tail, 1);
	assert_int_equal(w.rx[0].len, 4);
}

static ssize_t send_bytes(size_t len)
{
	struct sockaddr_in to = { .sin_family = AF_INET };
	struct rs_iter it = { 0 };

	return rs_dgram_send(&w.rs, &it, len, MSG_DONTWAIT, (struct sockaddr *)&to);
}

/* The header and the data are one message of the path's MTU at most. */
static void what_is_larger_than_the_mtu_is_refused(void **state)
{
	const size_t most = MTU - sizeof(struct header);

	(void)state;
	assert_int_equal(send_bytes(most), most);
	assert_int_equal(w.peer_sends, most);
	assert_int_equal(send_bytes(most + 1), -EMSGSIZE);
	assert_int_equal(w.peer_sends, most);
}

/* A slot is used again when its message was sent, and not before. */
static void a_slot_has_one_message(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < SLOTS; i++)
		assert_int_equal(rs_dgram_post(&w.rs, NULL, 1, "x", 1), 0);
	assert_int_equal(rs_dgram_post(&w.rs, NULL, 1, "y", 1), -EAGAIN);
	assert_int_equal(w.sends, SLOTS);
	w.wc[0] = (struct ibv_wc){ .wr_id = 1 };
	w.num_wc = 1;
	rs_dgram_process(&w.rs);
	assert_int_equal(rs_dgram_post(&w.rs, NULL, 1, "y", 1), 0);
	assert_int_equal(w.sends, SLOTS + 1);
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	return UNIT_RUN(T(what_is_shorter_than_a_header_is_dropped),
			T(a_connected_socket_has_one_peer),
			T(what_is_larger_than_the_mtu_is_refused), T(a_slot_has_one_message));
}
