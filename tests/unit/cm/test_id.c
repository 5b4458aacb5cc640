/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_id.c - ids of the connection manager before they have a peer: port spaces, addresses, ports, options and QP
 * attributes. How they are resolved is in test_addr.c, groups are in test_mcast.c.
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

static int create(struct cm_client *c, uint16_t ps, uint8_t qp_type, uint32_t channel, uint32_t *id)
{
	struct ff_cm_create_id_req req = { .channel = channel, .ps = ps, .qp_type = qp_type };
	struct ff_cm_create_id_resp resp;
	int err = cm_call(c, FF_MSG_CM_CREATE_ID, &req, sizeof(req), NULL, 0, &resp, sizeof(resp));

	if (id)
		*id = resp.id;
	return err;
}

/* ---- ids ------------------------------------------------------------------------------------ */

static void port_spaces(void **state)
{
	(void)state;
	assert_int_equal(create(a, RDMA_PS_TCP, 0, a->channel, NULL), 0);
	assert_int_equal(create(a, RDMA_PS_UDP, 0, a->channel, NULL), 0);
	assert_int_equal(create(a, RDMA_PS_IPOIB, 0, a->channel, NULL), 0);
	assert_int_equal(create(a, RDMA_PS_IB, IBV_QPT_XRC_SEND, a->channel, NULL), 0);
	assert_int_equal(create(a, RDMA_PS_IB, 0, a->channel, NULL), -EINVAL);
	assert_int_equal(create(a, RDMA_PS_IB, IBV_QPT_RAW_PACKET, a->channel, NULL), -EINVAL);
	assert_int_equal(create(a, 0, IBV_QPT_RC, a->channel, NULL), -EINVAL);
	assert_int_equal(create(a, RDMA_PS_TCP, 0, 0, NULL), -EINVAL);
	assert_int_equal(create(a, RDMA_PS_TCP, 0, a->channel + 1, NULL), -EINVAL);
	assert_int_equal(cm_counts(g->c[0]).ids, 4);
}

/* Handles of others, of the past, and of other kinds mean nothing. */
static void handles(void **state)
{
	struct ff_cm_init_qp_attr_resp at;
	struct ff_cm_query_resp q;
	uint32_t bad[4], old;

	(void)state;
	old = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_destroy(a, old, NULL), 0);
	cm_new(a, RDMA_PS_TCP);
	bad[0] = 0;
	bad[1] = old;
	cm_new(b, RDMA_PS_TCP);
	bad[2] = cm_new(b, RDMA_PS_TCP);
	bad[3] = UINT32_MAX;
	for (int i = 0; i < 4; i++) {
		uint32_t h = bad[i];
		struct ff_cm_join_req join = { .id = h };
		struct ff_cm_leave_req leave = { .id = h };
		struct ff_cm_migrate_id_req migrate = { .id = h, .channel = a->channel };
		struct ff_cm_write_event_req write = { .id = h, .channel = a->channel };
		struct ff_cm_join_resp jr;
		struct ff_cm_leave_resp lr;
		struct ff_cm_migrate_id_resp mr;
		struct ff_cm_write_event_resp wr;

		assert_int_equal(cm_do_bind(a, h, cm_sa(A_IP, 0), NULL), -EINVAL);
		assert_int_equal(cm_do_listen(a, h, 0), -EINVAL);
		assert_int_equal(cm_do_resolve(a, h, cm_sa("", 0), cm_sa(B_IP, 1), 1), -EINVAL);
		assert_int_equal(cm_do_route(a, h), -EINVAL);
		assert_int_equal(cm_do_connect(a, h, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_accept(a, h, 0, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_reject(a, h, 0, NULL, 0), -EINVAL);
		assert_int_equal(cm_do_establish(a, h, UINT32_MAX), -EINVAL);
		assert_int_equal(cm_do_disconnect(a, h), -EINVAL);
		assert_int_equal(cm_do_option(a, h, 0, 0, 0), -EINVAL);
		assert_int_equal(cm_do_attr(a, h, IBV_QPS_INIT, &at), -EINVAL);
		assert_int_equal(cm_do_query(a, h, &q), -EINVAL);
		assert_int_equal(cm_do_destroy(a, h, NULL), -EINVAL);
		assert_int_equal(cm_call(a, FF_MSG_CM_JOIN, &join, sizeof(join), NULL, 0, &jr,
					 sizeof(jr)),
				 -EINVAL);
		assert_int_equal(cm_call(a, FF_MSG_CM_LEAVE, &leave, sizeof(leave), NULL, 0, &lr,
					 sizeof(lr)),
				 -EINVAL);
		assert_int_equal(cm_call(a, FF_MSG_CM_MIGRATE_ID, &migrate, sizeof(migrate), NULL,
					 0, &mr, sizeof(mr)),
				 -EINVAL);
		assert_int_equal(cm_call(a, FF_MSG_CM_WRITE_EVENT, &write, sizeof(write), NULL, 0,
					 &wr, sizeof(wr)),
				 -EINVAL);
	}
}

static void as_many_as_allowed(void **state)
{
	struct cm_client c;
	uint32_t id;

	(void)state;
	g->ctl.conf.limits.max_cm_id = 3;
	c = cm_open(g, 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(create(&c, RDMA_PS_TCP, 0, c.channel, &id), 0);
	assert_int_equal(create(&c, RDMA_PS_TCP, 0, c.channel, NULL), -ENOMEM);
	assert_int_equal(cm_do_destroy(&c, id, NULL), 0);
	assert_int_equal(create(&c, RDMA_PS_TCP, 0, c.channel, &id), 0);
	cm_close(&c);
	assert_int_equal(cm_counts(g->c[0]).ids, 0);
}

/* ---- ports ---------------------------------------------------------------------------------- */

static void bind_wants_an_own_address(void **state)
{
	struct ff_cm_addr odd = { { 77 } };
	struct ff_cm_query_resp q;
	uint16_t port, other;
	uint32_t id;

	(void)state;
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_query(a, id, &q), 0);
	assert_int_equal(q.port_num, 0);
	assert_int_equal(cm_do_bind(a, id, cm_sa("", 0), NULL), -EAFNOSUPPORT);
	assert_int_equal(cm_do_bind(a, id, odd, NULL), -EAFNOSUPPORT);
	assert_int_equal(cm_do_bind(a, id, cm_sa(B_IP, PORT), NULL), -EADDRNOTAVAIL);
	assert_int_equal(cm_do_bind(a, id, cm_sa("fd00::2", PORT), NULL), -EADDRNOTAVAIL);
	assert_int_equal(cm_do_bind(a, id, cm_sib("fd00::1", RDMA_PS_UDP, PORT), NULL),
			 -EPROTONOSUPPORT);
	assert_int_equal(cm_do_bind(a, id, cm_sa(A_IP, 0), &port), 0);
	assert_in_range(port, 32768, 60999);
	assert_int_equal(cm_do_bind(a, id, cm_sa(A_IP, 0), NULL), -EINVAL);
	assert_int_equal(cm_do_query(a, id, &q), 0);
	assert_int_equal(cm_port_of(&q.local), port);
	assert_memory_equal(q.sgid, &g->c[0]->gid[0], 16);
	assert_int_equal(q.port_num, 1);
	assert_int_equal(q.pkey, 0xffff);

	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sa("::1", 0), &other), 0);
	assert_int_not_equal(port, other);
	id = cm_new(a, RDMA_PS_IB);
	assert_int_equal(cm_do_bind(a, id, cm_sib("fd00::1", RDMA_PS_IB, PORT), NULL), 0);
	assert_int_equal(cm_do_query(a, id, &q), 0);
	{
		struct ff_cm_addr want = cm_sib("fd00::1", RDMA_PS_IB, PORT);

		((struct sockaddr_ib *)&want)->sib_pkey = 0xffff;
		assert_memory_equal(&q.local, &want, sizeof(want));
	}
	/* given back, it can be had again */
	assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	id = cm_new(a, RDMA_PS_IB);
	assert_int_equal(cm_do_bind(a, id, cm_sib("fd00::1", RDMA_PS_IB, PORT), NULL), 0);
}

/* One row: what is bound, with which options, and what the second one hears. */
static void ports_are_shared_or_not(void **state)
{
	static const struct {
		const char *first, *second;
		bool reuse, listen, only, other_ps;
		int err;
	} t[] = {
		{ A_IP, A_IP, .err = -EADDRINUSE },
		/* loopback is a wildcard */
		{ A_IP, "127.0.0.1", .err = -EADDRNOTAVAIL },
		{ "::1", A_IP, .err = -EADDRNOTAVAIL },
		{ "127.0.0.1", "127.0.0.2", .err = -EADDRNOTAVAIL },
		{ "127.0.0.1", "::1", .only = true, .err = 0 },
		{ "127.0.0.1", "127.0.0.1", .err = -EADDRNOTAVAIL },
		{ A_IP, "fd00::1", .err = 0 },
		{ A_IP, "0.0.0.0", .err = -EADDRNOTAVAIL },
		{ "0.0.0.0", A_IP, .err = -EADDRNOTAVAIL },
		{ "0.0.0.0", "::", .err = -EADDRNOTAVAIL },
		{ "0.0.0.0", "::", .only = true, .err = 0 },
		{ "0.0.0.0", "fd00::1", .err = -EADDRNOTAVAIL },
		{ A_IP, A_IP, .other_ps = true, .err = 0 },
		{ A_IP, A_IP, .reuse = true, .err = 0 },
		{ "0.0.0.0", A_IP, .reuse = true, .err = 0 },
		{ A_IP, A_IP, .reuse = true, .listen = true, .err = -EADDRINUSE },
		{ A_IP, "0.0.0.0", .reuse = true, .listen = true, .err = -EADDRNOTAVAIL },
	};
	uint32_t id[2];

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		id[0] = cm_new(a, RDMA_PS_TCP);
		id[1] = cm_new(a, t[i].other_ps ? RDMA_PS_UDP : RDMA_PS_TCP);
		for (int k = 0; k < 2; k++) {
			if (t[i].reuse)
				assert_int_equal(cm_do_option(a, id[k], RDMA_OPTION_ID,
							      RDMA_OPTION_ID_REUSEADDR, 1),
						 0);
			if (t[i].only)
				assert_int_equal(cm_do_option(a, id[k], RDMA_OPTION_ID,
							      RDMA_OPTION_ID_AFONLY, 1),
						 0);
		}
		assert_int_equal(cm_do_bind(a, id[0], cm_sa(t[i].first, PORT), NULL), 0);
		if (t[i].listen)
			assert_int_equal(cm_do_listen(a, id[0], 0), 0);
		assert_int_equal(cm_do_bind(a, id[1], cm_sa(t[i].second, PORT), NULL), t[i].err);
		/* another container has ports of its own */
		{
			uint32_t far = cm_new(b, RDMA_PS_TCP);

			assert_int_equal(cm_do_bind(b, far, cm_sa("0.0.0.0", PORT), NULL), 0);
			assert_int_equal(cm_do_destroy(b, far, NULL), 0);
		}
		assert_int_equal(cm_do_destroy(a, id[0], NULL), 0);
		assert_int_equal(cm_do_destroy(a, id[1], NULL), 0);
	}
	/* a port that several share can be listened on by nobody */
	for (int k = 0; k < 2; k++) {
		id[k] = cm_new(a, RDMA_PS_TCP);
		assert_int_equal(
			cm_do_option(a, id[k], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), 0);
		assert_int_equal(cm_do_bind(a, id[k], cm_sa(A_IP, PORT), NULL), 0);
	}
	assert_int_equal(cm_do_listen(a, id[0], 0), -EADDRINUSE);
	assert_int_equal(cm_do_destroy(a, id[1], NULL), 0);
	assert_int_equal(cm_do_listen(a, id[0], 0), 0);
}

static void ports_run_out(void **state)
{
	struct cm_client c = cm_open(g, 0);
	unsigned n = 0;
	uint32_t id;
	int err;

	(void)state;
	do {
		id = cm_new(&c, RDMA_PS_TCP);
		err = cm_do_bind(&c, id, cm_sa("0.0.0.0", 0), NULL);
		n += !err;
	} while (!err);
	assert_int_equal(err, -EADDRNOTAVAIL);
	assert_int_equal(n, 60999 - 32768 + 1);
	assert_int_equal(cm_do_bind(&c, id, cm_sa("0.0.0.0", PORT), NULL), 0);
	cm_close(&c);
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(a, id, cm_sa("0.0.0.0", 0), NULL), 0);
}

static void listen_states(void **state)
{
	struct ff_cm_query_resp q;
	uint32_t id = cm_new(a, RDMA_PS_TCP);

	(void)state;
	assert_int_equal(cm_do_listen(a, id, 5), 0); /* binds to a port of the router's choice */
	assert_int_equal(cm_do_query(a, id, &q), 0);
	assert_in_range(cm_port_of(&q.local), 32768, 60999);
	assert_int_equal(cm_do_listen(a, id, 5), -EINVAL);
	assert_int_equal(cm_do_bind(a, id, cm_sa(A_IP, 0), NULL), -EINVAL);
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(B_IP, 1), 1), -EINVAL);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), -EINVAL);
	assert_int_equal(cm_do_disconnect(a, id), -EINVAL);
	assert_int_equal(cm_do_accept(a, id, 0, NULL, 0), -EINVAL);
	assert_int_equal(cm_counts(g->c[0]).listeners, 1);
	assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	assert_int_equal(cm_counts(g->c[0]).listeners, 0);

	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_listen(a, id, 5), -EINVAL);
}

/* ---- options -------------------------------------------------------------------------------- */

static void options(void **state)
{
	struct ff_cm_init_qp_attr_resp at;
	struct cm_packet p;
	uint32_t id, l;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_option(a, id, 9, 0, 1), -ENOSYS);
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_ID, 9, 1), -ENOSYS);
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_IB, 9, 1), -ENOSYS);
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 0), -EINVAL);
	/* five bits of it count */
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, 32 + 11),
			 0);
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 0x68), 0);
	assert_int_equal(cm_do_option(a, cm_new(a, RDMA_PS_UDP), RDMA_OPTION_ID,
				      RDMA_OPTION_ID_ACK_TIMEOUT, 11),
			 -EINVAL);
	assert_int_equal(cm_do_option(b, l, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 1), -EINVAL);
	assert_int_equal(cm_do_option(b, l, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1), -EINVAL);

	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(B_IP, PORT), 1000), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	/* not before it listens */
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, 0), -EINVAL);
	/* a path is as good as a resolved route */
	assert_int_equal(cm_do_option(a, id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	/* both QPs' packets have that traffic class */
	assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTR, &at), 0);
	assert_int_equal(at.attr.ah.traffic_class, 0x68);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTR, &at), 0);
	assert_int_equal(at.attr.ah.traffic_class, 0x68);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTS, &at), 0);
	assert_int_equal(at.attr.timeout, 11);
	assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTS, &at), 0);
	assert_int_equal(at.attr.timeout, 17);
}

/* ---- QP attributes -------------------------------------------------------------------------- */

static void attributes_of_a_connection(void **state)
{
	struct ff_cm_init_qp_attr_resp at;
	uint32_t id, idb;

	(void)state;
	id = cm_new(a, RDMA_PS_TCP);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_INIT, &at), -EINVAL); /* no device yet */
	id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_INIT, &at), 0);
	assert_int_equal(at.mask,
			 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS);
	assert_int_equal(at.attr.qp_state, IBV_QPS_INIT);
	assert_int_equal(at.attr.port_num, 1);
	assert_int_equal(at.attr.pkey_index, 0);
	assert_int_equal(at.attr.qp_access_flags, 0);
	/* without a connection each state is told the same */
	for (uint32_t state_ = IBV_QPS_RESET; state_ <= IBV_QPS_ERR; state_++) {
		assert_int_equal(cm_do_attr(a, id, state_, &at), 0);
		assert_int_equal(at.mask, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT |
						  IBV_QP_ACCESS_FLAGS);
		assert_int_equal(at.attr.qp_state, state_);
	}
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_ERR + 1, &at), -EINVAL);

	idb = cm_new(b, RDMA_PS_TCP);
	assert_int_equal(cm_do_bind(b, idb, cm_sa(B_IP, 0), NULL), 0);
	assert_int_equal(cm_do_attr(b, idb, IBV_QPS_INIT, &at), 0);
	assert_int_equal(cm_do_disconnect(b, idb), -EINVAL);
	assert_int_equal(cm_do_listen(b, idb, 0), 0);
	assert_int_equal(cm_do_attr(b, idb, IBV_QPS_INIT, &at), -EINVAL);
	assert_int_equal(cm_do_disconnect(b, idb), 0); /* of nothing */

	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, b, B_IP, PORT, &id, &idb);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_INIT, &at), 0);
	assert_int_equal(at.attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ |
							  IBV_ACCESS_REMOTE_ATOMIC);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTR, &at), 0);
	assert_int_equal(at.mask, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN |
					  IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
					  IBV_QP_MIN_RNR_TIMER);
	assert_int_equal(at.attr.path_mtu, IBV_MTU_4096);
	assert_int_equal(at.attr.ah.is_global, 1);
	assert_int_equal(at.attr.ah.port_num, 1);
	assert_int_equal(at.attr.ah.hop_limit, 64);
	assert_int_equal(at.attr.ah.sgid_index, 0);
	assert_memory_equal(at.attr.ah.dgid, &g->c[1]->gid[0], 16);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTS, &at), 0);
	assert_int_equal(at.mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_RETRY_CNT |
					  IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC |
					  IBV_QP_TIMEOUT);
	/* what a program asks for beyond the device is cut */
	{
		struct ff_cm_connect_req req = {
			.id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT),
			.param = { .responder_resources = 255, .initiator_depth = 255 },
		};
		struct ff_cm_connect_resp resp;
		struct cm_packet p;

		assert_int_equal(cm_call(a, FF_MSG_CM_CONNECT, &req, sizeof(req), NULL, 0, &resp,
					 sizeof(resp)),
				 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(p.ev.param.initiator_depth, 255);
		assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTR, &at), 0);
		assert_int_equal(at.attr.max_dest_rd_atomic, g->ctl.dev.max_qp_rd_atom);
		assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTS, &at), 0);
		assert_int_equal(at.attr.max_rd_atomic, g->ctl.dev.max_qp_init_rd_atom);
	}
	/* a QP that has no resources to answer READs and atomics allows none */
	{
		struct ff_cm_connect_req req = {
			.id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT),
			.param = { .qp_num = 77, .responder_resources = 1, .initiator_depth = 0 },
		};
		struct ff_cm_connect_resp resp;
		struct cm_packet p;

		assert_int_equal(cm_call(a, FF_MSG_CM_CONNECT, &req, sizeof(req), NULL, 0, &resp,
					 sizeof(resp)),
				 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_INIT, &at), 0);
		assert_int_equal(at.attr.qp_access_flags, IBV_ACCESS_REMOTE_WRITE);
	}
	assert_int_equal(cm_do_disconnect(a, id), 0);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_RTR, &at), -EINVAL);
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_INIT, &at), -EINVAL);
}

/* The peer of an XRC send QP is an XRC receive QP, and each has its half of the attributes. */
static void attributes_of_xrc(void **state)
{
	struct ff_cm_connect_req req = { .param = { .qp_num = 5, .initiator_depth = 2 } };
	struct ff_cm_init_qp_attr_resp at;
	struct ff_cm_connect_resp resp;
	struct cm_packet p;
	uint32_t l;

	(void)state;
	assert_int_equal(create(b, RDMA_PS_IB, IBV_QPT_XRC_RECV, b->channel, &l), 0);
	assert_int_equal(cm_do_bind(b, l, cm_sa("0.0.0.0", PORT), NULL), 0);
	assert_int_equal(cm_do_listen(b, l, 0), 0);
	assert_int_equal(create(a, RDMA_PS_IB, IBV_QPT_XRC_SEND, a->channel, &req.id), 0);
	assert_int_equal(cm_do_resolve(a, req.id, cm_sa("", 0), cm_sa(B_IP, PORT), 1000), 0);
	cm_expect(a, req.id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(cm_do_route(a, req.id), 0);
	cm_expect(a, req.id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	assert_int_equal(
		cm_call(a, FF_MSG_CM_CONNECT, &req, sizeof(req), NULL, 0, &resp, sizeof(resp)), 0);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(p.ev.param.qp_type, IBV_QPT_XRC_RECV);
	assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTR, &at), 0);
	assert_true(at.mask & IBV_QP_MAX_DEST_RD_ATOMIC);
	assert_int_equal(cm_do_attr(b, p.ev.id, IBV_QPS_RTS, &at), 0);
	assert_int_equal(at.mask, IBV_QP_STATE | IBV_QP_SQ_PSN | IBV_QP_TIMEOUT);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
	cm_expect(a, req.id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_attr(a, req.id, IBV_QPS_RTR, &at), 0);
	assert_false(at.mask & IBV_QP_MAX_DEST_RD_ATOMIC);
	assert_int_equal(cm_do_attr(a, req.id, IBV_QPS_RTS, &at), 0);
	assert_true(at.mask & IBV_QP_MAX_QP_RD_ATOMIC);

	/* an RC QP does not fit there */
	req.id = cm_routed(a, RDMA_PS_IB, B_IP, PORT);
	assert_int_equal(cm_do_connect(a, req.id, NULL, 0), 0);
	assert_int_equal(cm_expect(a, req.id, RDMA_CM_EVENT_REJECTED, NULL), 28);
}

static void attributes_of_ud(void **state)
{
	struct ff_cm_init_qp_attr_resp at;
	uint32_t id = cm_routed(a, RDMA_PS_UDP, B_IP, PORT);

	(void)state;
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_INIT, &at), 0);
	for (uint32_t state_ = IBV_QPS_RESET; state_ <= IBV_QPS_ERR; state_++) {
		assert_int_equal(cm_do_attr(a, id, state_, &at), 0);
		assert_int_equal(at.mask,
				 IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY);
		assert_int_equal(at.attr.qkey, RDMA_UDP_QKEY);
	}
	assert_int_equal(cm_do_attr(a, id, IBV_QPS_ERR + 1, &at), -EINVAL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)

int main(void)
{
	log_level = LOG_LEVEL_ERR;

	return UNIT_RUN(TEST(port_spaces), TEST(handles), TEST(as_many_as_allowed),
			TEST(bind_wants_an_own_address), TEST(ports_are_shared_or_not),
			TEST(ports_run_out), TEST(listen_states), TEST(options),
			TEST(attributes_of_a_connection), TEST(attributes_of_xrc),
			TEST(attributes_of_ud));
}
