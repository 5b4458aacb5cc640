/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_addr.c - how an id of the connection manager finds its way: addresses that are resolved, those of one link,
 * loopback ones, and those that lead nowhere.
 */
#include <errno.h>
#include <infiniband/ib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define PORT 7471

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

static void resolve_finds_the_way(void **state)
{
	static const struct {
		const char *src, *dst, *local;
		int sgid;
	} t[] = {
		{ "", B_IP, A_IP, 0 },	      { "", "fd00::2", "fd00::1", 1 },
		{ A_IP, B_IP, A_IP, 0 },      { "0.0.0.0", B_IP, A_IP, 0 },
		{ "", A_IP, A_IP, 0 },	      { "", "127.0.0.1", "127.0.0.1", 0 },
		{ "", "::1", "::1", 0 },      { A_IP, "127.0.0.1", A_IP, 0 },
		{ "", "239.1.2.3", A_IP, 0 }, { "", "ff0e::7", "fd00::1", 1 },
	};
	struct ff_cm_query_resp q;
	struct cm_packet p;
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		struct ff_cm_addr local, remote = cm_sa(t[i].dst, PORT);

		id = cm_new(a, RDMA_PS_UDP);
		assert_int_equal(cm_do_resolve(a, id, cm_sa(t[i].src, 0), remote, 1000), 0);
		assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, &p), 0);
		assert_int_equal(p.ev.private_data_len, 0);
		assert_int_equal(cm_do_query(a, id, &q), 0);
		local = cm_sa(t[i].local, cm_port_of(&q.local));
		assert_in_range(cm_port_of(&q.local), 32768, 60999);
		assert_memory_equal(&q.local, &local, sizeof(local));
		assert_memory_equal(&q.remote, &remote, sizeof(remote));
		assert_memory_equal(q.sgid, &g->c[0]->gid[t[i].sgid], 16);
		assert_int_equal(q.mtu, IBV_MTU_4096);
		assert_int_equal(q.hop_limit, 64);
		/* no second time, no route twice */
		assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), remote, 1), -EINVAL);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_route(a, id), 0);
		cm_expect(a, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
		assert_int_equal(cm_do_route(a, id), -EINVAL);
	}
}

static struct ff_cm_addr scoped(const char *ip, uint16_t port)
{
	struct ff_cm_addr a = cm_sa(ip, port);
	struct sockaddr_in6 sin6;

	memcpy(&sin6, &a, sizeof(sin6));
	sin6.sin6_scope_id = 2;
	memcpy(&a, &sin6, sizeof(sin6));
	return a;
}

/* The link-local addresses that the router made: bound, reached, also by who has no other IPv6 address. */
static void link_local(void **state)
{
	const char *const own = "fe80::266:66ff:fe00:1", *const peer = "fe80::266:66ff:fe00:2";
	union ibv_gid sgid = gid_local(1), dgid = gid_local(2);
	struct ff_cm_init_qp_attr_resp at;
	struct ff_cm_query_resp q;
	struct cm_packet p;
	uint32_t id, l = cm_new(b, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cm_do_bind(b, l, scoped(own, PORT), NULL), -EADDRNOTAVAIL);
	assert_int_equal(cm_do_bind(b, l, scoped(peer, PORT), NULL), 0);
	assert_int_equal(cm_do_listen(b, l, 5), 0);
	for (int i = 0; i < 3; i++) {
		struct ff_cm_addr any = { 0 };

		g->c[0]->num_gids = i ? 1 : 2;
		id = cm_new(a, RDMA_PS_TCP);
		assert_int_equal(cm_do_resolve(a, id, i == 2 ? scoped(own, 0) : any,
					       scoped(peer, PORT), 1000),
				 0);
		assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL), 0);
		assert_int_equal(cm_do_route(a, id), 0);
		cm_expect(a, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
		assert_int_equal(cm_do_query(a, id, &q), 0);
		assert_memory_equal(q.sgid, &sgid, 16);
		assert_memory_equal(q.dgid, &dgid, 16);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTR, &at), 0);
		assert_int_equal(at.attr.ah.sgid_index, GID_LOCAL_V2);
		assert_memory_equal(at.attr.ah.dgid, &sgid, 16);
		assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
		cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL);
	}
	g->c[0]->num_gids = 2;
}

static void resolve_in_vain(void **state)
{
	struct ff_cm_addr none = { 0 }, odd = { { 77 } };
	struct ff_cm_query_resp q;
	uint32_t id = cm_new(a, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cm_do_route(a, id), -EINVAL);
	assert_int_equal(cm_do_resolve(a, id, none, none, 100), -EINVAL);
	assert_int_equal(cm_do_resolve(a, id, none, odd, 100), -EAFNOSUPPORT);
	assert_int_equal(cm_do_resolve(a, id, cm_sa(B_IP, 0), cm_sa(B_IP, 1), 100), -EADDRNOTAVAIL);
	/* nobody has that address: in time, not at once */
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("0.0.0.9", PORT), 2000), 0);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa(B_IP, PORT), 2000), -EINVAL);
	cm_at(g, 1900);
	cm_expect_none(a);
	cm_at(g, 2100);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_ERROR, NULL), -ETIMEDOUT);
	/* it may be tried again, with another address of the same family */
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("fd00::2", PORT), 100), -EINVAL);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("0.0.0.9", PORT), 0), 0);
	cm_at(g, 0);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_ADDR_ERROR, NULL), -ETIMEDOUT);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa(B_IP, PORT), 100), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	/* a negative time is one without end */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("0.0.0.9", PORT), -5), 0);
	cm_at(g, 20000);
	cm_expect_none(a);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa(B_IP, PORT), 100), -EINVAL);
	assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	/* a scope is missing */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sa("fe80::1", 0), NULL), -EINVAL);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("fe80::1", PORT), 100), -EINVAL);
	/* no address of that family */
	g->c[0]->num_gids = 1;
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("fd00::2", PORT), 100), -ENETUNREACH);
	g->c[0]->num_gids = 2;
	assert_int_equal(cm_do_query(a, id, &q), 0);
	assert_int_equal(q.port_num, 0);
	/* an id that goes while it waits */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("0.0.0.9", PORT), 100), 0);
	assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	cm_at(g, 200);
	cm_expect_none(a);
}

/* To who binds it a loopback address is a wildcard: no device, until the destination is loopback. */
static void loopback_takes_no_device(void **state)
{
	static const struct {
		const char *src, *dst, *local;
		int err, status;
	} t[] = {
		{ "127.0.0.1", "127.0.0.1", "127.0.0.1", 0, 0 },
		{ "127.7.7.7", "127.8.8.8", "127.0.0.1", 0, 0 },
		{ "::1", "::1", "::1", 0, 0 },
		/* from there is no way out, to an address of the container neither */
		{ "127.0.0.1", B_IP, NULL, -EINVAL, 0 },
		{ "127.0.0.1", A_IP, NULL, 0, -ENODEV },
		{ "::1", "fd00::2", NULL, 0, -ENODEV },
		{ "::1", "fd00::1", NULL, 0, -ENODEV },
	};
	struct ff_cm_addr none = { 0 }, src, local;
	struct ff_cm_query_resp q;
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		id = cm_new(a, RDMA_PS_TCP);
		src = cm_sa(t[i].src, PORT);
		assert_int_equal(cm_do_bind(a, id, src, NULL), 0);
		assert_int_equal(cm_do_query(a, id, &q), 0);
		assert_int_equal(q.port_num, 0);
		assert_memory_equal(&q.local, &src, sizeof(src));
		assert_int_equal(cm_do_resolve(a, id, none, cm_sa(t[i].dst, PORT), 100), t[i].err);
		if (t[i].err)
			cm_expect_none(a);
		else
			assert_int_equal(cm_expect(a, id,
						   t[i].status ? RDMA_CM_EVENT_ADDR_ERROR :
								 RDMA_CM_EVENT_ADDR_RESOLVED,
						   NULL),
					 t[i].status);
		assert_int_equal(cm_do_query(a, id, &q), 0);
		assert_int_equal(q.port_num, !!t[i].local);
		local = t[i].local ? cm_sa(t[i].local, PORT) : src;
		assert_memory_equal(&q.local, &local, sizeof(local));
		if (t[i].local) {
			assert_memory_equal(q.sgid, &g->c[0]->gid[0], 16);
			assert_memory_equal(q.dgid, &g->c[0]->gid[0], 16);
		}
		assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	}
	/* the other way round the device is there: the path leads from its address to itself */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sa("fd00::1", 0), NULL), 0);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sa("::1", PORT), 100), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(cm_do_query(a, id, &q), 0);
	assert_memory_equal(q.sgid, &g->c[0]->gid[1], 16);
	assert_memory_equal(q.dgid, &g->c[0]->gid[1], 16);
	/* an AF_IB source is found for the destination */
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sib("::1", RDMA_PS_TCP, 0), NULL), 0);
	assert_int_equal(cm_do_query(a, id, &q), 0);
	assert_int_equal(q.port_num, 0);
	assert_int_equal(cm_do_resolve(a, id, none, cm_sib("fd00::2", RDMA_PS_TCP, PORT), 100), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)

int main(void)
{
	log_level = LOG_LEVEL_ERR;

	return UNIT_RUN(TEST(resolve_finds_the_way), TEST(link_local), TEST(resolve_in_vain),
			TEST(loopback_takes_no_device));
}
