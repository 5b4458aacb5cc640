/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_port.c - who listens at a port, at which addresses, and when that is known.
 */
#include "ffr/cm/internal.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define PORT 7471

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

/* Both sides may start at the same time: who connects a moment before somebody listens is heard. */
static void a_listener_that_is_late(void **state)
{
	static const uint16_t ps[] = { RDMA_PS_TCP, RDMA_PS_UDP };
	struct cm_packet p;
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < sizeof(ps) / sizeof(ps[0]); i++) {
		id = cm_routed(a, ps[i], B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, "hello", 5), 0);
		cm_at(g, CM_LISTEN_MS / 2);
		cm_expect_none(a);
		cm_listener(b, ps[i], PORT, 0);
		cm_expect_none(b);
		cm_at(g, 2 * CM_LISTEN_MS);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_memory_equal(p.pd, "hello", 5);
		assert_int_equal(cm_do_accept(b, p.ev.id, 9, NULL, 0), 0);
		assert_true(cm_next(a, &p));
		assert_int_equal(p.ev.event,
				 i ? RDMA_CM_EVENT_ESTABLISHED : RDMA_CM_EVENT_CONNECT_RESPONSE);
	}
}

/* A listener on an address is there for that one only, on a loopback address as on the wildcard. */
static void listeners_have_addresses(void **state)
{
	static const struct {
		const char *listener, *dst;
		int status; /* 0: it is told */
	} t[] = {
		{ "127.0.0.1", B_IP, 0 },
		{ B_IP, B_IP, 0 },
		{ B_IP, "fd00::2", 8 },
		{ "fd00::2", B_IP, 8 },
		{ "fd00::2", "fd00::2", 0 },
		{ "::", B_IP, 0 },
		{ "::", "fd00::2", 0 },
		{ "0.0.0.0", "fd00::2", 8 },
		{ "::1", B_IP, 0 },
		{ "::1", "fd00::2", 0 },
		{ "127.0.0.1", "fd00::2", 8 },
	};
	struct cm_packet p;
	uint32_t id, l;

	(void)state;
	for (unsigned i = 0; i < sizeof(t) / sizeof(t[0]); i++) {
		l = cm_new(b, RDMA_PS_TCP);
		assert_int_equal(cm_do_bind(b, l, cm_sa(t[i].listener, PORT), NULL), 0);
		assert_int_equal(cm_do_listen(b, l, 0), 0);
		id = cm_routed(a, RDMA_PS_TCP, t[i].dst, PORT);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		if (t[i].status) {
			cm_at(g, 2 * CM_LISTEN_MS);
			assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL),
					 t[i].status);
		} else {
			cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
			assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
			assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), 28);
		}
		assert_int_equal(cm_do_destroy(a, id, NULL), 0);
		assert_int_equal(cm_do_destroy(b, l, NULL), 0);
	}
}

/* The more special listener has the connection. */
static void an_address_goes_before_the_wildcard(void **state)
{
	uint32_t l[2], id;
	struct cm_packet p;

	(void)state;
	for (int i = 0; i < 2; i++) {
		l[i] = cm_new(b, RDMA_PS_TCP);
		assert_int_equal(cm_do_option(b, l[i], RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, 1),
				 0);
		assert_int_equal(cm_do_bind(b, l[i], cm_sa(i ? "fd00::2" : "0.0.0.0", PORT), NULL),
				 0);
		assert_int_equal(cm_do_listen(b, l[i], 0), 0);
	}
	for (int i = 0; i < 2; i++) {
		id = cm_routed(a, RDMA_PS_TCP, i ? "fd00::2" : B_IP, PORT);
		assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		assert_int_equal(p.ev.listener, l[i]);
	}
}

/*
 * A router that was started again does not choose the ports that the one before it chose first, because listeners have yet
 * to take those again. The first router's part of the container is gone with its last id, as after a restart.
 */
static void chosen_ports_begin_elsewhere(void **state)
{
	uint16_t port[4];
	uint32_t id;

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		id = cm_new(a, RDMA_PS_TCP);
		assert_int_equal(cm_do_bind(a, id, cm_sa("0.0.0.0", 0), &port[i]), 0);
		assert_int_equal(cm_do_destroy(a, id, NULL), 0);
	}
	assert_false(port[0] == port[1] && port[1] == port[2] && port[2] == port[3]);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)
	return UNIT_RUN(TEST(a_listener_that_is_late), TEST(listeners_have_addresses),
			TEST(an_address_goes_before_the_wildcard),
			TEST(chosen_ports_begin_elsewhere));
}
