/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_event.c - events of the connection manager on their way: channels that are full, ids that
 * move from one to the other, what goes with an id or a channel, and backlogs.
 * build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/cm_rig.h"
#include "ffr/cm/internal.h"

#define PORT 7471
#define MANY 1000 /* packets: more than a descriptor takes */

static struct ctl_rig *const g = &cm_two.rig;
static struct cm_client *const a = &cm_two.a, *const b = &cm_two.b;

/* ADDR_RESOLVED of a new id, not taken. */
static uint32_t one_event(void)
{
	uint32_t id = cm_new(a, RDMA_PS_TCP);

	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(B_IP, PORT), 1000), 0);
	return id;
}

static uint32_t requested(void)
{
	uint32_t id = cm_routed(a, RDMA_PS_TCP, B_IP, PORT);

	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	return id;
}

static int migrate(struct cm_client *c, uint32_t id, uint32_t channel, uint32_t taken, uint32_t *n)
{
	struct ff_cm_migrate_id_req req = { id, channel, taken };
	struct ff_cm_migrate_id_resp resp;
	int err = cm_call(c, FF_MSG_CM_MIGRATE_ID, &req, sizeof(req), NULL, 0, &resp, sizeof(resp));

	*n = resp.events_reported;
	return err;
}

static int destroy_channel(struct cm_client *c, uint32_t channel)
{
	struct ff_destroy_channel_req req = { channel };
	struct ff_destroy_channel_resp resp;
	int err;

	do /* others have their turn before it is over */
		err = cm_call(c, FF_MSG_DESTROY_CHANNEL, &req, sizeof(req), NULL, 0, &resp,
			      sizeof(resp));
	while (err == -EAGAIN);
	return err;
}

/* ---- full channels -------------------------------------------------------------------------- */

static void nothing_is_lost(void **state)
{
	static uint32_t id[MANY];
	uint32_t n;

	(void)state;
	for (int i = 0; i < MANY; i++)
		id[i] = one_event();
	/* an id that goes takes its event with it, if that still waits */
	assert_int_equal(cm_do_destroy(a, id[MANY - 1], &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(cm_do_destroy(a, id[0], &n), 0);
	assert_int_equal(n, 1);
	for (int i = 0; i < MANY - 1; i++)
		cm_expect(a, id[i], RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	cm_expect_none(a);
	/* and so on */
	cm_expect(a, one_event(), RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(cm_do_destroy(a, id[1], &n), 0);
	assert_int_equal(n, 1);
}

/* A client that asks again and again and never reads. */
static void what_waits_is_bounded(void **state)
{
	struct cm_packet p;
	unsigned n = 0;
	uint32_t id;
	int err;

	(void)state;
	for (int i = 0; i < MANY; i++)
		one_event();
	id = cm_new(a, RDMA_PS_TCP);
	do {
		err = cm_do_resolve(a, id, cm_sa("", 0), cm_sa("0.0.0.9", PORT), 0);
		cm_at(g, 1);
		n += !err;
	} while (!err);
	assert_int_equal(err, -ENOMEM);
	assert_int_equal(n, 64);
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(B_IP, PORT), 0), -ENOMEM);
	while (cm_next(a, &p))
		;
	assert_int_equal(cm_do_resolve(a, id, cm_sa("", 0), cm_sa(B_IP, PORT), 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
}

/* The other end is closed: events go nowhere, and nothing else happens. */
static void nobody_reads(void **state)
{
	(void)state;
	close(a->fd);
	a->fd = -1;
	for (int i = 0; i < 10; i++)
		one_event();
	rig_pump(g);
	assert_int_equal(cm_counts(g->c[0]).ids, 10);
	a->fd = cm_new_channel(a, &a->channel);
	cm_expect(a, one_event(), RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
}

/* ---- what goes with a channel ---------------------------------------------------------------- */

static void a_channel_takes_its_ids_with_it(void **state)
{
	struct cm_client c = *b;
	uint32_t ida, idb;

	(void)state;
	c.fd = cm_new_channel(&c, &c.channel);
	cm_listener(&c, RDMA_PS_TCP, PORT, 0);
	cm_connected(a, &c, B_IP, PORT, &ida, &idb);
	assert_int_equal(cm_counts(g->c[1]).ids, 2);
	assert_int_equal(destroy_channel(&c, c.channel), 0);
	assert_int_equal(destroy_channel(&c, c.channel), -EINVAL);
	cm_expect(a, ida, RDMA_CM_EVENT_DISCONNECTED, NULL);
	assert_int_equal(cm_counts(g->c[1]).ids, 0);
	assert_int_equal(cm_do_destroy(&c, idb, NULL), -EINVAL);
	close(c.fd);
	/* also a full one */
	for (int i = 0; i < MANY; i++)
		one_event();
	assert_int_equal(destroy_channel(a, a->channel), 0);
	assert_int_equal(cm_counts(g->c[0]).ids, 0);
}

/* ---- listeners and their requests ------------------------------------------------------------ */

/* Fill b's channel, so that what comes later waits in the router. */
static uint32_t fill_b(void)
{
	uint32_t id = 0;

	for (int i = 0; i < MANY; i++) {
		id = cm_new(b, RDMA_PS_TCP);
		assert_int_equal(cm_do_resolve(b, id, cm_sa("", 0), cm_sa(B_IP, PORT), 1000), 0);
	}
	return id;
}

static void requests_go_with_their_listener(void **state)
{
	uint32_t l, id[3], n;
	struct cm_packet p;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	id[0] = requested();
	fill_b();
	id[1] = requested();
	id[2] = requested();
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 3 + MANY);
	/* a request that its peer takes back before anybody was told is as if it had never been */
	assert_int_equal(cm_do_destroy(a, id[2], NULL), 0);
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 2 + MANY);
	assert_int_equal(cm_do_destroy(b, l, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(cm_expect(a, id[1], RDMA_CM_EVENT_REJECTED, NULL), 28);
	cm_expect_none(a);
	/* the one that was told lives */
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
	cm_expect(a, id[0], RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	for (int i = 0; i < MANY; i++)
		cm_expect(b, 0, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	cm_expect_none(b);
}

/* A hostile client names an id that it was not told of: its business. */
static void a_request_that_was_guessed(void **state)
{
	uint32_t l, last, id, n;
	struct cm_packet p;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	last = fill_b();
	for (int i = 0; i < 2; i++) {
		id = requested();
		last++;
		if (i) { /* destroyed: its event is gone, too */
			assert_int_equal(cm_do_destroy(b, last, NULL), 0);
			cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL);
		} else {
			assert_int_equal(cm_do_accept(b, last, 1, NULL, 0), 0);
			cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
		}
	}
	for (int i = 0; i < MANY; i++)
		cm_expect(b, 0, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	cm_expect(b, last - 1, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_expect_none(b);
	assert_int_equal(cm_do_destroy(b, l, &n), 0);
	assert_int_equal(n, 1);
}

/* A backlog is what has not been read, as in the kernel; what is beyond it is tried again. */
static void backlogs(void **state)
{
	uint32_t l, id[5];
	struct cm_packet p;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 2);
	for (int i = 0; i < 5; i++)
		id[i] = requested();
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 2);
	cm_at(g, 70);
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 2);
	for (int i = 0; i < 2; i++)
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	cm_expect_none(b);
	cm_at(g, 300);
	for (int i = 0; i < 2; i++)
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	cm_at(g, 2000);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_expect_none(b);
	cm_expect_none(a);
	assert_int_equal(cm_do_destroy(b, l, NULL), 0);
	assert_int_equal(cm_do_destroy(b, p.ev.id, NULL), 0);
	assert_int_equal(cm_expect(a, 0, RDMA_CM_EVENT_REJECTED, NULL), 28);
	/* one that is taken back while it is not taken */
	l = cm_listener(b, RDMA_PS_TCP, PORT, 1);
	requested();
	id[0] = requested();
	assert_int_equal(cm_do_destroy(a, id[0], NULL), 0);
	cm_at(g, 3000);
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	cm_expect_none(b);
	/* accepting and rejecting make room as well */
	id[0] = requested();
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_reject(b, p.ev.id, 0, NULL, 0), 0);
	cm_expect(a, id[0], RDMA_CM_EVENT_REJECTED, NULL);
	requested();
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
}

/* One peer's requests fill its own share of a backlog: another one has room. */
static void backlogs_are_each_peers(void **state)
{
	struct cm_client c = cm_open(g, 1); /* of the listener's own container: another peer */
	uint32_t id;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 2);
	for (int i = 0; i < 5; i++)
		requested();
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 2);
	id = cm_routed(&c, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(&c, id, NULL, 0), 0);
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + 2 + 2); /* its own, and the request */
	for (int i = 0; i < 3; i++)
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, NULL);
	cm_expect_none(b);
	cm_close(&c);
}

/* However long a backlog is: one peer has half of all places, and the next one half of the rest. */
static void a_backlog_has_room_for_others(void **state)
{
	enum { HALF = FF_CM_MAX_BACKLOG / 2 };
	struct cm_client c = cm_open(g, 1);
	uint32_t id;

	(void)state;
	cm_listener(b, RDMA_PS_TCP, PORT, 0);
	fill_b(); /* nothing is read */
	for (int i = 0; i < HALF + 10; i++)
		requested();
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + MANY + HALF);
	for (int i = 0; i < HALF; i++) {
		id = cm_routed(&c, RDMA_PS_TCP, B_IP, PORT);
		assert_int_equal(cm_do_connect(&c, id, NULL, 0), 0);
	}
	assert_int_equal(cm_counts(g->c[1]).ids, 1 + MANY + HALF + HALF + HALF / 2);
	cm_close(&c);
}

/* A request that was accepted or refused takes no part of the backlog any more. */
static void a_backlog_gets_its_places_back(void **state)
{
	struct cm_packet p;
	uint32_t id, l;

	(void)state;
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	for (int i = 0; i < 4; i++) {
		id = requested();
		assert_int_equal(cm_id_get(LIST_FIRST(&g->c[1]->sessions), l)->num_pending, 1);
		cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
		if (i % 2)
			assert_int_equal(cm_do_accept(b, p.ev.id, 1, NULL, 0), 0);
		else
			assert_int_equal(cm_do_reject(b, p.ev.id, 0, NULL, 0), 0);
		cm_expect(a, id, i % 2 ? RDMA_CM_EVENT_CONNECT_RESPONSE : RDMA_CM_EVENT_REJECTED,
			  NULL);
		assert_int_equal(cm_id_get(LIST_FIRST(&g->c[1]->sessions), l)->num_pending, 0);
	}
}

/* A client with no room for another id is like a full backlog. */
static void a_listener_with_no_room(void **state)
{
	struct cm_client c;
	struct cm_packet p;
	uint32_t id;

	(void)state;
	g->ctl.conf.limits.max_cm_id = 2;
	c = cm_open(g, 1);
	cm_listener(&c, RDMA_PS_TCP, PORT, 0);
	requested();
	id = requested();
	cm_expect(&c, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_expect_none(&c);
	assert_int_equal(cm_do_destroy(&c, p.ev.id, NULL), 0);
	cm_expect(a, 0, RDMA_CM_EVENT_REJECTED, NULL);
	cm_at(g, 70);
	cm_expect(&c, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(&c, p.ev.id, 1, NULL, 0), 0);
	cm_expect(a, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	cm_close(&c);
}

/*
 * A request that the listener's container has room for, but not for its event, is like a full backlog, too: others decide
 * when it comes, and the session would end if its event could not wait.
 */
static void a_quota_with_no_room(void **state)
{
	struct cm_client c;
	struct cm_packet p;

	(void)state;
	c = cm_open(g, 1);
	cm_listener(&c, RDMA_PS_TCP, PORT, 0);
	g->c[1]->limits.max_object = g->c[1]->quota.use.used[QUOTA_OBJECT] + CM_ID_OBJECTS;
	requested();
	cm_expect_none(&c);
	g->c[1]->limits.max_object++;
	cm_at(g, 70);
	cm_expect(&c, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_close(&c);
	g->c[1]->limits.max_object = 0;
}

/* ---- moving ---------------------------------------------------------------------------------- */

static void ids_move_with_their_events(void **state)
{
	struct cm_packet p;
	uint32_t id, to, n;
	int fd;

	(void)state;
	fd = cm_new_channel(a, &to);
	id = one_event();
	/* one packet lies in the old channel and was not taken */
	assert_int_equal(migrate(a, id, to + 1, 0, &n), -EINVAL);
	assert_int_equal(migrate(a, id, to, 0, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(cm_do_route(a, id), 0); /* held */
	cm_expect(a, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	cm_expect_none(a);
	assert_false(cm_next_fd(a, fd, &p));
	assert_int_equal(migrate(a, id, to, 1, &n), 0);
	assert_int_equal(n, 1);
	cm_expect_none(a);
	assert_true(cm_next_fd(a, fd, &p));
	assert_int_equal(p.ev.event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	/* from now on there */
	assert_int_equal(cm_do_connect(a, id, NULL, 0), 0);
	cm_at(g, 2 * CM_LISTEN_MS);
	assert_true(cm_next_fd(a, fd, &p));
	assert_int_equal(p.ev.event, RDMA_CM_EVENT_REJECTED);
	/* the old channel can go; the new one takes the id with it */
	assert_int_equal(destroy_channel(a, a->channel), 0);
	assert_int_equal(cm_counts(g->c[0]).ids, 1);
	assert_int_equal(destroy_channel(a, to), 0);
	assert_int_equal(cm_counts(g->c[0]).ids, 0);
	close(fd);
}

/* Events that wait go along, in order; a hold can also end where the id is. */
static void waiting_events_move(void **state)
{
	struct cm_packet p;
	uint32_t id, to, n;
	int fd;

	(void)state;
	fd = cm_new_channel(a, &to);
	for (int i = 0; i < MANY; i++)
		one_event();
	id = one_event();
	assert_int_equal(cm_do_route(a, id), 0);
	assert_int_equal(migrate(a, id, to, 5, &n), 0); /* a lie: it is held */
	assert_int_equal(n, 0);
	assert_int_equal(migrate(a, id, a->channel, 0, &n), 0);
	assert_int_equal(n, 0);
	assert_int_equal(migrate(a, id, a->channel, 0, &n), 0);
	assert_int_equal(migrate(a, id, to, 0, &n), 0);
	assert_true(cm_next_fd(a, fd, &p));
	assert_int_equal(p.ev.event, RDMA_CM_EVENT_ADDR_RESOLVED);
	assert_int_equal(p.ev.id, id);
	assert_true(cm_next_fd(a, fd, &p));
	assert_int_equal(p.ev.event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	assert_false(cm_next_fd(a, fd, &p));
	assert_int_equal(cm_do_destroy(a, id, &n), 0);
	assert_int_equal(n, 2);
	for (int i = 0; i < MANY; i++)
		cm_expect(a, 0, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	cm_expect_none(a);
	close(fd);
}

/* A listener that moves takes the requests along that nobody was told of, with their ids. */
static void listeners_move(void **state)
{
	struct cm_client c = *b;
	struct cm_packet p[2];
	uint32_t l, id[2], n;

	(void)state;
	c.fd = cm_new_channel(&c, &c.channel);
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	requested();
	fill_b();
	id[0] = requested();
	id[1] = requested();
	assert_int_equal(migrate(b, l, c.channel, 1, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(destroy_channel(b, b->channel), 0);
	assert_int_equal(cm_expect(a, 0, RDMA_CM_EVENT_REJECTED, NULL), 28); /* told there */
	assert_int_equal(cm_counts(g->c[1]).ids, 3);
	for (int i = 0; i < 2; i++)
		cm_expect(&c, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p[i]);
	for (int i = 0; i < 2; i++) {
		assert_int_equal(cm_do_accept(&c, p[i].ev.id, 1, NULL, 0), 0);
		cm_expect(a, id[i], RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
		assert_int_equal(cm_do_establish(a, id[i], UINT32_MAX), 0);
		cm_expect(&c, p[i].ev.id, RDMA_CM_EVENT_ESTABLISHED, NULL);
	}
	close(c.fd);
}

/* A held id can go at any time. */
static void a_held_id_is_destroyed(void **state)
{
	uint32_t id, l, to, n, req;
	struct cm_packet p;
	int fd;

	(void)state;
	fd = cm_new_channel(b, &to);
	l = cm_listener(b, RDMA_PS_TCP, PORT, 0);
	req = requested();
	assert_int_equal(migrate(b, l, to, 0, &n), 0);
	assert_int_equal(n, 1);
	id = requested();
	cm_expect(b, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	cm_expect_none(b);
	assert_int_equal(cm_do_destroy(b, l, &n), 0);
	assert_int_equal(n, 1);
	assert_int_equal(cm_expect(a, id, RDMA_CM_EVENT_REJECTED, NULL), 28);
	assert_int_equal(cm_do_reject(b, p.ev.id, 0, NULL, 0), 0);
	cm_expect(a, req, RDMA_CM_EVENT_REJECTED, NULL);
	close(fd);
}

/* ---- rdma_write_cm_event --------------------------------------------------------------------- */

static int write_event(uint32_t id, uint32_t channel, uint32_t len, size_t pd_len, uint32_t *n)
{
	struct ff_cm_write_event_req req = {
		.id = id,
		.channel = channel,
		.event = { .uid = 5, .id = 6, .event = 7, .status = 8, .private_data_len = len },
	};
	struct ff_cm_write_event_resp resp;
	char pd[300] = "own";
	int err = cm_call(a, FF_MSG_CM_WRITE_EVENT, &req, sizeof(req), pd, pd_len, &resp,
			  sizeof(resp));

	*n = resp.events_reported;
	return err;
}

static void programs_write_events(void **state)
{
	uint32_t id = cm_new(a, RDMA_PS_TCP), n;
	struct cm_packet p;
	int err;

	(void)state;
	assert_int_equal(write_event(id, a->channel, 4, 3, &n), -EINVAL);
	assert_int_equal(write_event(id, a->channel, 257, 257, &n), -EINVAL);
	assert_int_equal(write_event(id, 0, 0, 0, &n), -EINVAL);
	assert_int_equal(write_event(id, a->channel, 3, 3, &n), 0);
	assert_int_equal(n, 1);
	cm_expect(a, 6, 7, &p);
	assert_int_equal(p.ev.status, 8);
	assert_int_equal(p.ev.uid, 5);
	assert_memory_equal(p.pd, "own", 3);
	do
		err = write_event(id, a->channel, 0, 0, &n);
	while (!err);
	assert_int_equal(err, -EAGAIN);
	assert_int_equal(cm_do_destroy(a, id, &n), 0);
	assert_true(n > 100);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, cm_two_setup, cm_two_teardown)

	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(TEST(nothing_is_lost), TEST(what_waits_is_bounded), TEST(nobody_reads),
			TEST(a_channel_takes_its_ids_with_it),
			TEST(requests_go_with_their_listener), TEST(a_request_that_was_guessed),
			TEST(backlogs), TEST(backlogs_are_each_peers),
			TEST(a_backlog_has_room_for_others), TEST(a_backlog_gets_its_places_back),
			TEST(a_listener_with_no_room), TEST(a_quota_with_no_room),
			TEST(ids_move_with_their_events), TEST(waiting_events_move),
			TEST(listeners_move), TEST(a_held_id_is_destroyed),
			TEST(programs_write_events));
}
