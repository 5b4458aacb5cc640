/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/rio_rig.c tests/rig/unit/two_hosts.c tests/rig/fakes/fake_rio.c tests/rig/unit/others.c tests/rig/unit/rig.c */
/*
 * test_link.c - the way between two hosts by RapidIO: when it is taken, what becomes of it when calls fail, the
 * port goes, or somebody sends what nobody asked for; and that nothing of the device's is kept. On virtual time.
 */
#include <errno.h>
#include <string.h>
#include <sys/epoll.h>

#include "tests/rig/unit/rio_rig.h"
#include "tests/rig/unit/unit.h"

static struct hosts t;

static int setup(void **state)
{
	(void)state;
	rio_rig_set();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	hosts_down(&t);
	rio_rig_check();
	return 0;
}

/* All of a message arrives, by whatever carries it. */
static void expect_works(void)
{
	memset(t.h[1].buf, 0, 100000);
	memset(t.h[0].buf, 0x5a, 100000);
	t.h[0].buf[99999] = 1;
	hosts_rdma(&t, FF_OP_WRITE, 1, 0, 0, 100000);
	hosts_run(&t);
	hosts_expect(&t, 0, 1, IBV_WC_SUCCESS);
	assert_memory_equal(t.h[0].buf, t.h[1].buf, 100000);
}

static void expect_by(int host, const char *name)
{
	assert_string_equal(wire_carried_by(&t.h[host].other), name);
	assert_string_equal(t.h[host].qp->qp.send->by(&t.h[host].qp->qp), name);
}

/* As metrics tell it. */
static void expect_counter(int host, const char *name, uint64_t value)
{
	struct carrier_counter list[CARRIER_COUNTERS];
	size_t n = rio_carrier.counters(t.h[host].r.f, list), i = 0;

	assert_true(n <= CARRIER_COUNTERS);
	while (i < n && strcmp(list[i].name, name))
		i++;
	assert_true(i < n);
	assert_int_equal(list[i].value, value);
}

static void expect_lost(int host, const char *why)
{
	hosts_run(&t);
	assert_string_equal(t.h[host].o.why, why);
	assert_null(t.h[host].other.tcp);
	assert_null(t.h[host].other.by);
	expect_by(host, "wire");
}

static void again(void)
{
	hosts_cut(&t);
	hosts_connect(&t);
	hosts_run(&t);
}

/* ---- beginnings -------------------------------------------------------------------------------------- */

static void both_go_over(void **state)
{
	unsigned posted;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	expect_by(0, "rio");
	expect_by(1, "rio");
	posted = fake_rio.posted;
	expect_works();
	assert_true(fake_rio.posted > posted + 90);
	/* buffers that are not used are others' again */
	hosts_advance(&t, RIO_IDLE_NS + 1);
	hosts_advance(&t, RIO_IDLE_NS + 1);
	assert_int_equal(rio_rig_link(&t, 0)->held, 0);
	again();
	expect_by(0, "rio");
	expect_works();
	assert_int_equal(rio_rig_link(&t, 0)->dev->num_ends, 1); /* the one before is gone */
}

/* Whatever fails at the beginning: the wire is used, and it is tried again. */
static void begins_later(void **state)
{
	static const struct {
		unsigned long call;
		int err;
	} fails[] = { { FFRIO_BIND, -ENODEV },	{ FFRIO_BIND, -ENOBUFS },
		      { 1, -ENOMEM },		{ (1 << 20) + 1, -ENOMEM },
		      { FFRIO_ALLOC, -EAGAIN }, { FFRIO_POST, -EHOSTUNREACH },
		      { FFRIO_POST, -ENODEV },	{ FFRIO_POST, -EINTR } };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(fails); i++) {
		rio_rig_set();
		fake_rio.fails = fails[i].call;
		fake_rio.error = fails[i].err;
		hosts_up(&t, IBV_QPT_RC);
		assert_int_equal(fake_rio.fails, 0);
		assert_true(!strcmp(wire_carried_by(&t.h[0].other), "wire") ||
			    !strcmp(wire_carried_by(&t.h[1].other), "wire"));
		expect_works();
		hosts_advance(&t, RIO_RETRY_NS + 1);
		expect_by(0, "rio");
		expect_by(1, "rio");
		expect_works();
		if (i + 1 < ARRAY_SIZE(fails)) {
			hosts_down(&t);
			rio_rig_check();
		}
	}
}

/* The first block does not arrive: either side stays with the wire in its direction. */
static void no_way(void **state)
{
	(void)state;
	fake_rio.result = -EHOSTUNREACH;
	hosts_up(&t, IBV_QPT_RC);
	expect_by(0, "wire");
	expect_works();
	hosts_advance(&t, RIO_RETRY_NS + 1);
	expect_by(0, "wire");
	expect_works();
	fake_rio.result = 0;
	hosts_advance(&t, RIO_RETRY_NS + 1);
	expect_by(0, "rio");
	expect_works();
	assert_int_equal(fake_rio.opened, 2);
}

static void no_device(void **state)
{
	(void)state;
	fake_rio.open_error = -ENOENT;
	hosts_up(&t, IBV_QPT_RC);
	expect_by(0, "wire");
	expect_works();
	hosts_advance(&t, RIO_RETRY_NS + 1);
	expect_by(0, "rio");
	expect_by(1, "rio");
}

/* The connection ends while an endpoint is being opened, or before the peer is known. */
static void ends_early(void **state)
{
	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_cut(&t);
	hosts_connect(&t);
	hosts_cut(&t);
	hosts_connect(&t);
	hosts_turn(&t);
	hosts_cut(&t);
	fake_rio.holds = true;
	hosts_connect(&t);
	hosts_run(&t);
	expect_by(0, "wire");
	expect_works();
	fake_rio.holds = false;
	fake_rio_move();
	hosts_run(&t);
	expect_by(0, "rio");
	expect_works();
}

/* The peer tells of another place while it is asked at the former one: it is asked there, too. */
static void the_peer_moves(void **state)
{
	struct rio_link *l;
	uint64_t asked;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_cut(&t);
	fake_rio.holds = true;
	hosts_connect(&t);
	hosts_run(&t);
	l = rio_rig_link(&t, 0);
	assert_int_equal(l->state, RIO_ASKED);
	asked = l->dev->stats.blocks_out;
	rio_by.told(t.h[0].r.f, &t.h[0].other,
		    &(struct wire_hdr){ .type = WIRE_BY,
					.by = { .token = l->to.token,
						.node = l->to.node,
						.endpoint = l->to.endpoint,
						.block = l->to.block } });
	assert_int_equal(l->state, RIO_ASKED);
	assert_int_equal(l->dev->stats.blocks_out, asked);
	fake_rio_move();
	rio_link_ready(l, EPOLLOUT);
	assert_int_equal(l->state, RIO_ASKED);
	assert_int_equal(l->dev->stats.blocks_out, asked + 1);
	fake_rio.holds = false;
	fake_rio_move();
	hosts_run(&t);
	expect_by(0, "rio");
	expect_works();
}

/* ---- ends -------------------------------------------------------------------------------------------- */

/* A block fails: the connection ends, what was not done is done on the next one, which is the wire's at first. */
static void block_fails(void **state)
{
	static const struct {
		int err;
		const char *why;
	} fails[] = {
		{ -EHOSTUNREACH, "RapidIO: it does not answer" },
		{ -ECONNREFUSED, "RapidIO: nobody is at its endpoint" },
		{ -EIO, "RapidIO: transfers fail" },
		{ -ETIMEDOUT, "RapidIO: it takes too long" },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(fails); i++) {
		rio_rig_set();
		hosts_up(&t, IBV_QPT_RC);
		fake_rio.result = fails[i].err;
		hosts_rdma(&t, FF_OP_WRITE, 7, 0, 0, 5000);
		expect_lost(0, fails[i].why);
		fake_rio.result = 0;
		hosts_cut(&t);
		hosts_connect(&t);
		hosts_run(&t);
		hosts_expect(&t, 0, 7, IBV_WC_SUCCESS);
		expect_by(0, "wire");
		hosts_advance(&t, RIO_RETRY_NS + 1);
		expect_by(0, "rio");
		expect_works();
		if (i + 1 < ARRAY_SIZE(fails)) {
			hosts_down(&t);
			rio_rig_check();
		}
	}
}

static void calls_fail(void **state)
{
	static const unsigned long calls[] = { FFRIO_POST, FFRIO_TAKE, FFRIO_REAP };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(calls); i++)
		for (unsigned after = 0; after < 4; after++) {
			rio_rig_set();
			hosts_up(&t, IBV_QPT_RC);
			fake_rio.fails = calls[i];
			fake_rio.after = after;
			fake_rio.error = -ENODEV;
			hosts_rdma(&t, FF_OP_WRITE, 7, 0, 0, 50000);
			hosts_run(&t);
			hosts_cut(&t);
			hosts_connect(&t);
			hosts_run(&t);
			hosts_expect(&t, 0, 7, IBV_WC_SUCCESS);
			expect_works();
			if (i + 1 < ARRAY_SIZE(calls) || after < 3) {
				hosts_down(&t);
				rio_rig_check();
			}
		}
}

static void port_goes(void **state)
{
	struct fast *f;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	f = t.h[0].r.f;
	CARRIERS_FIRST(ready, f, t.h[0].other.by, EPOLLERR | EPOLLHUP);
	expect_lost(0, "RapidIO: the port is gone");
	fake_rio.holds = true;
	hosts_cut(&t);
	hosts_connect(&t);
	hosts_advance(&t, RIO_RETRY_NS + 1); /* it has an endpoint, and is not over yet */
	CARRIERS_FIRST(ready, f, t.h[0].other.by, EPOLLERR | EPOLLHUP);
	hosts_run(&t);
	assert_int_equal(rio_rig_link(&t, 0)->state, RIO_CLOSED);
	expect_works();
	fake_rio.holds = false;
	fake_rio_move();
	hosts_advance(&t, RIO_RETRY_NS + 1);
	hosts_advance(&t, RIO_RETRY_NS + 1);
	if (!t.h[0].other.tcp)
		again();
	expect_works();
}

/* An event of an endpoint that was closed meanwhile puts nothing off. */
static void a_late_event(void **state)
{
	struct rio_link *l;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_cut(&t);
	fake_rio.holds = true;
	hosts_connect(&t);
	hosts_run(&t);
	l = rio_rig_link(&t, 0);
	rio_link_ready(l, EPOLLHUP);
	assert_int_equal(l->state, RIO_CLOSED);
	hosts_advance(&t, RIO_RETRY_NS / 2 + 1);
	assert_int_equal(l->state, RIO_CLOSED);
	rio_link_ready(l, EPOLLHUP);
	hosts_advance(&t, RIO_RETRY_NS / 2 + 1);
	assert_int_not_equal(l->state, RIO_CLOSED);
	fake_rio.holds = false;
	fake_rio_move();
	hosts_run(&t);
	expect_works();
}

/* The other router closes its stream, which nobody reads any more. */
static void stream_ends(void **state)
{
	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	wire_detach(t.h[1].r.f, &t.h[1].other, "it goes");
	expect_lost(0, "the other side has closed it");
	again();
	expect_by(0, "rio"); /* that was in order */
	expect_works();
}

/* ---- receivers with few buffers, senders with few ------------------------------------------------------- */

static void few_buffers(void **state)
{
	static const uint32_t few[] = { 1, 2, 3 };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(few); i++) {
		rio_rig_set();
		fake_rio.rmbs = few[i];
		fake_rio.smbs = 2 * few[i];
		fake_rio.block = 256u << i;
		hosts_up(&t, IBV_QPT_RC);
		expect_by(0, "rio");
		for (int k = 0; k < 8; k++)
			hosts_rdma(&t, k % 2 ? FF_OP_READ : FF_OP_WRITE, 10 + (uint64_t)k,
				   (uint64_t)k * 200000, (uint64_t)k * 200000, 150001);
		hosts_run(&t);
		for (int k = 0; k < 8; k++)
			hosts_expect(&t, 0, 10 + (uint64_t)k, IBV_WC_SUCCESS);
		expect_works();
		if (i + 1 < ARRAY_SIZE(few)) {
			hosts_down(&t);
			rio_rig_check();
		}
	}
}

/* However much one peer has to send, it has a share of the send buffers, and others have theirs. */
static void a_share_of_the_buffers(void **state)
{
	const struct rio_link *l;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_advance(&t, RIO_IDLE_NS + 1);
	hosts_advance(&t, RIO_IDLE_NS + 1);
	l = rio_rig_link(&t, 0);
	l->dev->num_ends = 4; /* as if there were three peers more */
	fake_rio.holds = true;
	hosts_rdma(&t, FF_OP_WRITE, 7, 0, 0, 100000);
	hosts_run(&t);
	assert_int_equal(l->held, fake_rio.smbs / 2 / 4);
	l->dev->num_ends = 1;
	fake_rio.holds = false;
	fake_rio_move();
	hosts_run(&t);
	hosts_expect(&t, 0, 7, IBV_WC_SUCCESS);
	expect_works();
}

/* A block is padded to a multiple of 8 bytes: the padding is zeros, not bytes of another peer's block. */
static void what_goes_along_is_zeros(void **state)
{
	enum { LEN = sizeof(struct rio_head) + sizeof(struct wire_hdr) + 5, PAD = -LEN & 7 };
	const struct rio_link *l;
	unsigned found = 0;

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	l = rio_rig_link(&t, 0);
	fake_rio.holds = true;
	memset(l->end.smb, 0xff, (size_t)l->end.bound.smbs * l->end.bound.stride);
	memset(t.h[0].buf, 0x5a, 5);
	hosts_rdma(&t, FF_OP_WRITE, 7, 0, 0, 5);
	hosts_run(&t);
	for (uint32_t i = 0; i < l->end.bound.smbs; i++) {
		const uint8_t *p =
			l->end.smb + (size_t)i * l->end.bound.stride + l->end.bound.header;

		if (p[LEN - 1] != 0x5a)
			continue;
		found++;
		for (unsigned k = 0; k < PAD; k++)
			assert_int_equal(p[LEN + k], 0);
		assert_int_equal(p[LEN + PAD], 0xff);
	}
	assert_int_equal(found, 1);
	assert_true(PAD > 0);
	fake_rio.holds = false;
	fake_rio_move();
	hosts_run(&t);
	hosts_expect(&t, 0, 7, IBV_WC_SUCCESS);
}

/* Somebody else has all send buffers for a while. */
static void starved(void **state)
{
	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	hosts_advance(&t, RIO_IDLE_NS + 1);
	hosts_advance(&t, RIO_IDLE_NS + 1);
	fake_rio.fails = FFRIO_ALLOC;
	fake_rio.error = -EAGAIN;
	hosts_rdma(&t, FF_OP_WRITE, 7, 0, 0, 5000);
	hosts_run(&t);
	hosts_expect_none(&t, 0);
	hosts_advance(&t, RIO_AGAIN_NS + 1);
	hosts_expect(&t, 0, 7, IBV_WC_SUCCESS);
	expect_works();
}

/* ---- strangers, and a peer that breaks the protocol ------------------------------------------------------ */

static bool send_block(uint64_t token, uint32_t number, uint32_t source, uint32_t length)
{
	const struct rio_link *l = rio_rig_link(&t, 0);
	uint8_t block[1024] = { 0 };
	const struct rio_head h = { .token = token, .number = number };

	memcpy(block, &h, sizeof(h));
	return fake_rio_inject(l->to.node, source, l->end.bound.destid,
			       (uint32_t)l->end.bound.endpoint, block, length);
}

static void strangers(void **state)
{
	const struct rio_link *l;
	uint8_t junk[100];

	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	l = rio_rig_link(&t, 0);
	memset(junk, 0xff, sizeof(junk));
	for (int i = 0; i < 100; i++) {
		/* another node, another endpoint, another token, an end of the last connection's; nothing at all */
		fake_rio_inject(99, l->to.endpoint, l->end.bound.destid,
				(uint32_t)l->end.bound.endpoint, junk, sizeof(junk));
		send_block(l->token, l->number_in, l->to.endpoint + 1u, 100);
		send_block(l->token + 1, l->number_in, l->to.endpoint, 100);
		fake_rio_break(l->end.bound.destid, (uint32_t)l->end.bound.endpoint);
		hosts_run(&t);
		send_block(l->token, l->number_in, l->to.endpoint, 15);
		send_block(l->token, l->number_in, l->to.endpoint, 0);
		/* longer than any buffer, which a device that errs may say */
		send_block(l->token, l->number_in, l->to.endpoint, fake_rio.block + 1);
		hosts_run(&t);
	}
	assert_int_equal(l->dev->stats.strangers, 700);
	expect_counter(0, "rio_strangers_total", 700);
	expect_counter(0, "rio_peers", 1);
	expect_by(0, "rio");
	expect_works();
}

static void wrong_numbers(void **state)
{
	static const struct {
		int number;
		uint32_t length;
	} wrong[] = { { 1, 100 }, { -1, 100 }, { 0, 16 } };

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		const struct rio_link *l;

		rio_rig_set();
		hosts_up(&t, IBV_QPT_RC);
		expect_works();
		l = rio_rig_link(&t, 0);
		assert_true(send_block(l->token, l->number_in + (uint32_t)wrong[i].number,
				       l->to.endpoint, wrong[i].length));
		expect_lost(0, "RapidIO: it sends blocks that make no sense");
		again();
		expect_works();
		if (i + 1 < ARRAY_SIZE(wrong)) {
			hosts_down(&t);
			rio_rig_check();
		}
	}
}

/* Frames of BY and OVER that cannot be. */
static void wrong_frames(void **state)
{
	static const struct wire_hdr wrong[] = {
		{ .type = WIRE_BY, .by = { .node = 0x10000, .block = 1024 } },
		{ .type = WIRE_BY, .by = { .endpoint = 64, .block = 1024 } },
		{ .type = WIRE_BY, .by = { .block = 255 } },
		{ .type = WIRE_BY, .by = { .block = (1u << 20) + 1 } },
		{ .type = WIRE_OVER },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(wrong); i++) {
		rio_rig_set();
		hosts_up(&t, IBV_QPT_RC);
		assert_int_equal(wire_send(t.h[1].r.f, &t.h[1].other, &wrong[i], NULL), 0);
		hosts_run(&t);
		assert_null(t.h[0].other.tcp);
		again();
		expect_works();
		if (i + 1 < ARRAY_SIZE(wrong)) {
			hosts_down(&t);
			rio_rig_check();
		}
	}
}

/* OVER from a peer to whom no endpoint was told. */
/* What it says of its place is looked at before anything is sent there. */
static void at_no_place(void **state)
{
	static const struct wire_hdr place[] = {
		{ .type = WIRE_BY,
		  .by = { .node = UINT16_MAX + 1u, .endpoint = 1, .block = RIO_BLOCK_MIN } },
		{ .type = WIRE_BY,
		  .by = { .node = 1, .endpoint = FFRIO_ENDPOINTS, .block = RIO_BLOCK_MIN } },
		{ .type = WIRE_BY, .by = { .node = 1, .endpoint = 1, .block = 0 } },
		{ .type = WIRE_BY, .by = { .node = 1, .endpoint = 1, .block = RIO_BLOCK_MIN - 1 } },
		{ .type = WIRE_BY,
		  .by = { .node = 1, .endpoint = 1, .block = (1u << FFRIO_BLOCK_MAX_SHIFT) + 1 } },
	};

	(void)state;
	for (unsigned i = 0; i < ARRAY_SIZE(place); i++) {
		rio_rig_set();
		hosts_up(&t, IBV_QPT_RC);
		expect_works();
		assert_int_equal(wire_send(t.h[1].r.f, &t.h[1].other, &place[i], NULL), 0);
		expect_lost(0, "it is at no place of RapidIO's");
		if (i + 1 < ARRAY_SIZE(place)) {
			hosts_down(&t);
			rio_rig_check();
		}
	}
}

static void states_have_names(void **state)
{
	(void)state;
	hosts_up(&t, IBV_QPT_RC);
	assert_string_equal(rio_state_str(RIO_CLOSED), "CLOSED");
	assert_string_equal(rio_state_str(rio_rig_link(&t, 0)->state), "UP");
	assert_string_equal(rio_state_str(RIO_STATES), "?");
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	return UNIT_RUN(TEST(both_go_over), TEST(begins_later), TEST(no_way), TEST(no_device),
			TEST(ends_early), TEST(block_fails), TEST(calls_fail), TEST(port_goes),
			TEST(stream_ends), TEST(a_late_event), TEST(few_buffers), TEST(starved),
			TEST(the_peer_moves), TEST(a_share_of_the_buffers),
			TEST(what_goes_along_is_zeros), TEST(strangers), TEST(wrong_numbers),
			TEST(wrong_frames), TEST(at_no_place), TEST(states_have_names));
}
