/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_spin.c - ffr/ctl/spin.c and the router's side of the slot (abi/ff_ring.h): for whom the
 * control thread stays awake and when it sleeps again, on virtual time; that nobody is kept waiting
 * by who is looked at; hostile slots.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 *
 * threads: yes
 */
#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/ctl_calls.h"

static uint64_t clock_ns, look_ns, yield_ns; /* now; what a look at the clock and a yield take */
static unsigned yields;

static uint64_t test_clock(void)
{
	return clock_ns += look_ns;
}

static int test_yield(void)
{
	yields++;
	clock_ns += yield_ns;
	return 0;
}

#define uv_hrtime   test_clock
#define sched_yield test_yield
#include "ffr/ctl/spin.c"
#undef uv_hrtime
#undef sched_yield

static struct ctl_rig *const g = &call_rig;
static struct client {
	int sock;
	struct ctl_conn *conn;
	struct ff_call_slot *slot;
} a, b;

static void client_open(struct client *c, int container)
{
	c->sock = call_client(g, container);
	c->conn = LIST_FIRST(&g->c[container]->sessions)->conn;
	c->slot = &c->conn->ses->hdr->call;
}

static int setup(void **state)
{
	int err = call_setup(state);

	clock_ns = 1000000000;
	look_ns = 10;
	yield_ns = 100;
	client_open(&a, 0);
	client_open(&b, 1);
	clock_ns += 1000000;
	return err;
}

static int teardown(void **state)
{
	close(a.sock);
	close(b.sock);
	return call_teardown(state);
}

/* Would the loop sleep now, with nothing to do? */
static bool sleeps(void)
{
	return uv_backend_timeout(&g->loop) != 0;
}

static void one_call(struct client *c)
{
	call_pd(g, c->sock);
}

/* One turn of the loop. */
static void turn(void)
{
	uv_run(&g->loop, UV_RUN_NOWAIT);
}

static void make_hot(struct client *c)
{
	c->conn->heat.last = clock_ns;
	ctl_spin_served(c->conn);
	assert_true(c->conn->heat.is_hot);
}

/* ALLOC_PD in the slot, as the library puts it there. */
static void post(struct client *c, uint16_t type, uint32_t seq)
{
	struct ff_hdr h = { .magic = FF_PROTO_MAGIC, .type = type, .seq = seq };
	struct ff_alloc_pd_req req = { 0 };

	memcpy(c->slot->packet, &h, sizeof(h));
	memcpy(c->slot->packet + sizeof(h), &req, sizeof(req));
	c->slot->len = sizeof(h) + sizeof(req);
	c->slot->cpu = 0xffff;
	c->slot->state = FF_CALL_POSTED;
}

static struct ff_hdr answer(struct client *c)
{
	struct ff_hdr h;

	assert_int_equal(c->slot->state, FF_CALL_ANSWERED);
	assert_int_equal(c->slot->len, sizeof(h) + sizeof(struct ff_alloc_pd_resp));
	memcpy(&h, c->slot->packet, sizeof(h));
	return h;
}

static ssize_t from_socket(struct client *c, struct ff_hdr *h)
{
	uint8_t buf[1024];
	ssize_t n = recv(c->sock, buf, sizeof(buf), MSG_DONTWAIT);

	if (n > 0)
		memcpy(h, buf, sizeof(*h));
	return n;
}

/* ---- when it sleeps ----------------------------------------------------------------------------- */

static void sleeps_but_for_quick_calls(void **state)
{
	(void)state;
	assert_true(sleeps());
	one_call(&a);
	assert_true(sleeps());
	clock_ns += SPIN_MAX;
	one_call(&a); /* seldom enough */
	assert_true(sleeps());
	assert_int_equal(a.slot->awake, 0);
	one_call(&b);
	one_call(&a);
	assert_true(a.conn->heat.is_hot);
	assert_false(b.conn->heat.is_hot);
	assert_false(sleeps());
	assert_int_equal(a.slot->awake, 1 + g->ctl.spin.cpu);
	for (unsigned i = 0; i < 2 * SPIN_MIN / ROUND_NS; i++)
		turn();
	/* nothing came: the router is idle again, and says so */
	assert_false(a.conn->heat.is_hot);
	assert_int_equal(a.slot->awake, 0);
	assert_true(sleeps());
	assert_in_range(yields, 1, 2 * SPIN_MIN / yield_ns);
}

/* It is waited for as long as it takes between its calls, and when it ends that is forgotten. */
static void waits_for_who_copies_between_calls(void **state)
{
	const uint64_t gap = 300000;

	(void)state;
	one_call(&a);
	for (int i = 0; i < 3; i++) {
		clock_ns += gap;
		one_call(&a);
	}
	assert_false(sleeps());
	clock_ns += 2 * gap - 2 * SPIN_MIN;
	turn();
	assert_false(sleeps());
	clock_ns += 4 * SPIN_MIN;
	turn();
	assert_true(sleeps());
	for (int i = 0; i < 30; i++)
		one_call(&a);
	clock_ns += 2 * SPIN_MIN;
	turn();
	assert_true(sleeps());
}

static void not_in_socket_mode(void **state)
{
	(void)state;
	g->c[0]->mode = FF_MODE_SOCKET;
	one_call(&a);
	one_call(&a);
	assert_true(sleeps());
	assert_int_equal(a.slot->awake, 0);
}

static void gives_way_to_who_works(void **state)
{
	uint64_t hold[3];

	(void)state;
	for (int i = 0; i < 3; i++) {
		make_hot(&a);
		make_hot(&b);
		yield_ns = BUSY_NS;
		turn();
		assert_true(sleeps());
		assert_int_equal(a.slot->awake, 0);
		assert_int_equal(b.slot->awake, 0);
		hold[i] = g->ctl.spin.hold_until - clock_ns;
		one_call(&a);
		one_call(&a);
		assert_true(sleeps());
		clock_ns = g->ctl.spin.hold_until + (i == 1 ? 2 * HOLD_MAX : 0);
	}
	assert_in_range(hold[0], HOLD_MIN - 1000, HOLD_MIN);
	assert_in_range(hold[1], 2 * HOLD_MIN - 1000, 2 * HOLD_MIN); /* again at once */
	assert_in_range(hold[2], HOLD_MIN - 1000, HOLD_MIN);	     /* long after */
	yield_ns = 100;
	make_hot(&a);
	turn();
	assert_true(a.conn->heat.is_hot);
}

static void a_session_that_ends_is_forgotten(void **state)
{
	(void)state;
	make_hot(&a);
	make_hot(&b);
	close(a.sock);
	rig_pump(g);
	assert_int_equal(g->ctl.spin.num_hot, 1);
	close(b.sock);
	rig_pump(g);
	assert_int_equal(g->ctl.spin.num_hot, 0);
	assert_true(sleeps());
	client_open(&a, 0);
	client_open(&b, 1);
}

/* ---- the slot ------------------------------------------------------------------------------------ */

static void requests_in_the_slot(void **state)
{
	struct ff_hdr h;

	(void)state;
	post(&a, FF_MSG_ALLOC_PD, 77);
	turn();
	assert_int_equal(a.slot->state, FF_CALL_POSTED); /* nobody looks */
	make_hot(&a);
	turn();
	h = answer(&a);
	assert_int_equal(h.seq, 77);
	assert_int_equal(h.status, 0);
	assert_int_equal(from_socket(&a, &h), -1);
	/* a client that has given up looking is told through the socket ... */
	post(&a, FF_MSG_ALLOC_PD, 78);
	a.slot->wait = 78;
	turn();
	assert_int_equal(a.slot->wait, 0);
	assert_true(from_socket(&a, &h) > 0);
	assert_int_equal(h.seq, 78);
	/* the answer is of that request, and no other */
	post(&a, FF_MSG_ALLOC_PD, 79);
	a.slot->wait = 80;
	turn();
	assert_int_equal(a.slot->wait, 80);
	assert_int_equal(from_socket(&a, &h), -1);
	assert_int_equal(answer(&a).seq, 79);
	/* a message that the router does not know is answered by its header alone */
	post(&a, FF_MSG_NUM, 82);
	turn();
	assert_int_equal(a.slot->state, FF_CALL_ANSWERED);
	assert_int_equal(a.slot->len, sizeof(h));
	memcpy(&h, a.slot->packet, sizeof(h));
	assert_int_equal(h.seq, 82);
	assert_int_equal(h.status, -EOPNOTSUPP);
	/* the last look, when it cools */
	clock_ns += SPIN_MIN;
	post(&a, FF_MSG_ALLOC_PD, 81);
	cool(a.conn);
	assert_int_equal(answer(&a).seq, 81);
}

/* A client that never pauses: others have their turn, through their slots and through the socket. */
static void who_floods_starves_nobody(void **state)
{
	struct ff_hdr h = { .magic = FF_PROTO_MAGIC, .type = FF_MSG_ALLOC_PD, .seq = 5 };
	struct {
		struct ff_hdr h;
		struct ff_alloc_pd_req req;
	} m = { .h = h };
	struct client c;
	unsigned served = 0;

	(void)state;
	client_open(&c, 1);
	make_hot(&a);
	for (uint32_t i = 0; i < 100; i++) {
		post(&a, FF_MSG_ALLOC_PD, i + 1);
		if (i == 50) {
			make_hot(&b);
			post(&b, FF_MSG_ALLOC_PD, 1000);
			rig_send(c.sock, &m, sizeof(m), -1, 0);
		}
		turn();
		served += answer(&a).seq == i + 1;
		if (i == 50) {
			assert_int_equal(answer(&b).seq, 1000);
			turn();
			assert_true(from_socket(&c, &h) > 0);
		}
	}
	assert_int_equal(served, 100);
	close(c.sock);
}

static void hostile_slots_close_their_session(void **state)
{
	(void)state;
	for (int i = 0; i < 4; i++) {
		make_hot(&a);
		post(&a, i == 1 ? FF_MSG_HELLO : FF_MSG_ALLOC_PD, 1);
		if (i == 0)
			a.slot->len = FF_CALL_MAX + 1;
		if (i == 2)
			a.slot->len--;
		if (i == 3)
			a.slot->len = UINT32_MAX; /* more than the router has room for, anywhere */
		turn();
		assert_true(rig_is_closed(g, a.sock));
		assert_int_equal(g->ctl.spin.num_hot, 0);
		close(a.sock);
		one_call(&b);
		client_open(&a, 0);
		clock_ns += 1000000;
	}
	/* states that nobody makes are nothing */
	make_hot(&a);
	a.slot->state = 0xdead;
	turn();
	assert_int_equal(a.slot->state, 0xdead);
	/* a request with a descriptor cannot come here */
	post(&a, FF_MSG_REG_DMABUF_MR, 1);
	a.slot->len = sizeof(struct ff_hdr) + sizeof(struct ff_reg_dmabuf_mr_req);
	turn();
	assert_true(rig_is_closed(g, a.sock));
	close(a.sock);
	client_open(&a, 0);
}

/* An answer with descriptors comes through the socket. */
static void descriptors_need_the_socket(void **state)
{
	struct ff_hdr h;

	(void)state;
	make_hot(&a);
	post(&a, FF_MSG_CREATE_CHANNEL, 9);
	turn();
	assert_int_equal(a.slot->state, FF_CALL_TAKEN);
	assert_true(from_socket(&a, &h) > 0);
	assert_int_equal(h.seq, 9);
	assert_int_equal(h.n_fds, 1);
}

/* A request in the slot is a call like another: one that may not be made yet stays there. */
static void calls_in_the_slot_are_limited(void **state)
{
	unsigned served;

	(void)state;
	g->c[0]->limits.max_calls = 1;
	for (served = 0; served < 1000; served++) {
		post(&a, FF_MSG_ALLOC_PD, 100 + served);
		make_hot(&a);
		turn();
		if (a.slot->state == FF_CALL_POSTED)
			break;
	}
	assert_true(served < 1000);
	g->c[0]->limits.max_calls = 0;
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(TEST(sleeps_but_for_quick_calls), TEST(waits_for_who_copies_between_calls),
			TEST(not_in_socket_mode), TEST(gives_way_to_who_works),
			TEST(a_session_that_ends_is_forgotten), TEST(requests_in_the_slot),
			TEST(who_floods_starves_nobody), TEST(hostile_slots_close_their_session),
			TEST(descriptors_need_the_socket), TEST(calls_in_the_slot_are_limited));
}
