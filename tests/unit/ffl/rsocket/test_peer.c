/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_peer.c - ffl/rsocket/peer.c: how many peers and datagrams are kept while addresses are
 * resolved. The test is the connection manager, which does not answer.
 */
#include "ffl/rsocket/peer.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static struct rsocket rs;
static struct rdma_cm_id ids[2 * MAX_PEERS];
static unsigned num_ids, num_destroyed;

int rdma_create_id(struct rdma_event_channel *ch, struct rdma_cm_id **id, void *context,
		   enum rdma_port_space ps)
{
	(void)ch, (void)ps;
	assert_true(num_ids < 2 * MAX_PEERS);
	*id = &ids[num_ids++];
	(*id)->context = context;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	(void)id;
	num_destroyed++;
	return 0;
}

int rdma_resolve_addr(struct rdma_cm_id *id, struct sockaddr *src, struct sockaddr *dst,
		      int timeout_ms)
{
	(void)id, (void)src, (void)dst, (void)timeout_ms;
	return 0;
}

bool rs_addr_eq(const struct sockaddr *a, const struct sockaddr *b)
{
	return !memcmp(a, b, sizeof(struct sockaddr_in));
}

socklen_t rs_addr_len(const struct sockaddr *sa)
{
	(void)sa;
	return sizeof(struct sockaddr_in);
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, rdma_resolve_route, struct rdma_cm_id *id, int timeout_ms)
NOT_CALLED(int, rdma_connect, struct rdma_cm_id *id, struct rdma_conn_param *param)
NOT_CALLED(int, rdma_accept, struct rdma_cm_id *id, struct rdma_conn_param *param)
NOT_CALLED(int, rdma_reject, struct rdma_cm_id *id, const void *data, uint8_t len)
NOT_CALLED(struct ibv_ah *, ibv_create_ah, struct ibv_pd *pd, struct ibv_ah_attr *attr)
NOT_CALLED(int, ibv_destroy_ah, struct ibv_ah *ah)
NOT_CALLED(int, rs_dgram_post, struct rsocket *s, struct ibv_ah *ah, uint32_t qpn, const void *buf,
	   uint32_t len)

static int setup(void **state)
{
	(void)state;
	memset(&rs, 0, sizeof(rs));
	num_ids = num_destroyed = 0;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	rs_peers_free(&rs);
	assert_int_equal(rs.d.num_peers, 0);
	assert_int_equal(rs.d.num_resolving, 0);
	assert_int_equal(num_ids, num_destroyed);
	return 0;
}

static struct rs_peer *peer(uint32_t i)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(0x0a000000 + i) };
	struct rs_peer *p = rs_peer_get(&rs, (struct sockaddr *)&a);

	assert_non_null(p);
	return p;
}

/* What is sent to an address that nobody has answered for yet is kept, as far as there is room. */
static void only_so_many_datagrams_are_kept(void **state)
{
	struct rs_peer *p = peer(1);

	(void)state;
	for (int i = 0; i < 100; i++)
		assert_int_equal(rs_peer_send(&rs, p, "x", 1), 0);
	assert_int_equal(p->num_kept, MAX_KEPT);
	assert_int_equal(num_ids, 1);
	peer(2); /* nothing is kept for others */
	assert_int_equal(peer(2)->num_kept, 0);
}

/* A peer that is being asked stays when there is no more room for peers: its answer will come. */
static void who_is_asked_stays(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < MAX_PEERS; i++)
		if (i % 2)
			assert_int_equal(rs_peer_send(&rs, peer(i), "x", 1), 0);
		else
			peer(i);
	assert_int_equal(rs.d.num_peers, MAX_PEERS);
	for (uint32_t i = 0; i < MAX_PEERS / 4; i++)
		peer(MAX_PEERS + i);
	assert_int_equal(rs.d.num_peers, MAX_PEERS);
	assert_int_equal(rs.d.num_resolving, MAX_PEERS / 2);
	assert_int_equal(num_destroyed, 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	return UNIT_RUN(T(only_so_many_datagrams_are_kept), T(who_is_asked_stays));
}
