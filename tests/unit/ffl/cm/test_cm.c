/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_cm.c - ffl/cm/channel.c, event.c, id.c and mcast.c: which packets become events
 * of whom, through destruction, migration and leaving. The test is the router: calls are answered
 * in process, channels are real sockets.
 *
 * build: ffl/cm/channel.c ffl/cm/event.c ffl/cm/id.c ffl/cm/mcast.c ffl/session/table.c ffl/verbs/async.c
 *
 * threads: yes
 */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "ffl/cm/cm.h"

/* ---- the router ---------------------------------------------------------------------------------- */

#define NUM_CHANNELS 8
#define NUM_IDS	     64
#define NUM_WAIT     4096

static struct {
	struct ffl_context ctx;
	struct cm_session ses;
	pthread_mutex_t lock;
	int channel[NUM_CHANNELS]; /* our ends; handle is the index + 1 */
	struct {
		bool live, held;
		uint32_t channel, written;
	} id[NUM_IDS]; /* by handle */
	struct {
		uint32_t id;
		struct ff_cm_event ev;
	} wait[NUM_WAIT]; /* events of held ids */
	unsigned num_wait;
	uint32_t next_id;
	int fail[FF_MSG_NUM]; /* answer with this -errno */
	uint32_t destroyed[NUM_IDS];
	unsigned num_destroyed;
	struct ff_cm_join_req join;
	uint8_t port_num; /* what CM_QUERY and the events tell */
	unsigned attached, devices;
	int device_ret;
	int attach_ret;
} r;

int ffl_log_level;
void ffl_log_(enum ffl_level level, const char *fmt, ...)
{
	(void)level, (void)fmt;
}
/* async.c's, of which the events' counters are used here */
struct ffl_context *ffl_session_of(struct ibv_context *context)
{
	(void)context;
	abort();
}

void ffl_mark_dead(struct ffl_context *ctx)
{
	atomic_store(&ctx->dead, true);
}
struct cm_session *cm_session_get(void)
{
	return cm_session_ref(&r.ses);
}
struct cm_session *cm_session_ref(struct cm_session *s)
{
	__atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
	return s;
}
void cm_session_put(struct cm_session *s)
{
	__atomic_sub_fetch(&s->refs, 1, __ATOMIC_RELAXED);
}
int cm_device_get(struct cm_id *id)
{
	static struct ibv_context verbs;

	if (r.device_ret)
		return r.device_ret;
	r.devices++;
	id->has_device = true;
	id->id.verbs = &verbs;
	return 0;
}
void cm_device_put(struct cm_session *s)
{
	(void)s;
	r.devices--;
}
int cm_qp_response(struct cm_id *id, const struct ff_cm_ece *ece)
{
	(void)id, (void)ece;
	return r.attach_ret;
}
int cm_qp_error(struct cm_id *id)
{
	(void)id;
	return 0;
}
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	r.attached += !r.attach_ret;
	return r.attach_ret;
}
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	r.attached--;
	return 0;
}
void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	(void)res;
}

/* Call with r.lock held. */
static void put(uint32_t channel, struct ff_cm_event *ev, const void *data)
{
	struct iovec iov[] = { { (void *)ev, sizeof(*ev) },
			       { (void *)data, ev->private_data_len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	ev->num = ++r.id[ev->listener ? ev->listener : ev->id].written;
	assert_int_equal(sendmsg(r.channel[channel - 1], &msg, 0),
			 sizeof(*ev) + ev->private_data_len);
}

static uint32_t owner(const struct ff_cm_event *ev)
{
	return ev->listener ? ev->listener : ev->id;
}

/* An event happens. */
static void event(struct ff_cm_event ev)
{
	uint32_t id = owner(&ev);

	ev.path.port_num = r.port_num;
	pthread_mutex_lock(&r.lock);
	if (r.id[id].held) {
		assert_true(r.num_wait < NUM_WAIT);
		r.wait[r.num_wait].id = id;
		r.wait[r.num_wait++].ev = ev;
	} else {
		put(r.id[id].channel, &ev, "");
	}
	pthread_mutex_unlock(&r.lock);
}

static void simple(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	event((struct ff_cm_event){ .id = to_id(id)->handle, .event = type, .status = status });
}

static uint32_t new_id(uint32_t channel)
{
	uint32_t handle = ++r.next_id;

	assert_true(handle < NUM_IDS);
	r.id[handle].live = true;
	r.id[handle].channel = channel;
	return handle;
}

/* A connection request: the new id's handle. */
static uint32_t request(struct rdma_cm_id *listener)
{
	uint32_t l = to_id(listener)->handle, id = new_id(r.id[l].channel);

	event((struct ff_cm_event){ .id = id,
				    .listener = l,
				    .event = RDMA_CM_EVENT_CONNECT_REQUEST,
				    .ps = RDMA_PS_TCP });
	return id;
}

static void migrate(const struct ff_cm_migrate_id_req *req, struct ff_cm_migrate_id_resp *resp)
{
	unsigned i, kept = 0;

	resp->events_reported = r.id[req->id].written;
	r.id[req->id].held = resp->events_reported != req->taken;
	if (r.id[req->id].held)
		return;
	r.id[req->id].channel = req->channel;
	for (i = 0; i < r.num_wait; i++)
		if (r.wait[i].id == req->id) {
			put(req->channel, &r.wait[i].ev, "");
		} else {
			r.wait[kept++] = r.wait[i];
		}
	r.num_wait = kept;
}

static int answer(enum ff_msg_type type, const void *q, const void *tail, void *a, int *fds)
{
	const struct ff_cm_write_event_req *w = q;
	const struct ff_cm_destroy_id_req *d = q;
	struct ff_cm_event copy;
	int sv[2], i;

	switch (type) {
	case FF_MSG_CREATE_CHANNEL:
		for (i = 0; r.channel[i] >= 0; i++)
			;
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
		fds[0] = sv[0];
		r.channel[i] = sv[1];
		((struct ff_create_channel_resp *)a)->channel = (uint32_t)i + 1;
		return 0;
	case FF_MSG_DESTROY_CHANNEL:
		i = (int)((const struct ff_destroy_channel_req *)q)->channel - 1;
		close(r.channel[i]);
		r.channel[i] = -1;
		return 0;
	case FF_MSG_CM_CREATE_ID:
		((struct ff_cm_create_id_resp *)a)->id =
			new_id(((const struct ff_cm_create_id_req *)q)->channel);
		return 0;
	case FF_MSG_CM_DESTROY_ID:
		if (!r.id[d->id].live)
			return -EINVAL;
		r.id[d->id].live = false;
		r.destroyed[r.num_destroyed++] = d->id;
		((struct ff_cm_destroy_id_resp *)a)->events_reported = r.id[d->id].written;
		return 0;
	case FF_MSG_CM_QUERY:
		((struct ff_cm_query_resp *)a)->port_num = r.port_num;
		return 0;
	case FF_MSG_CM_MIGRATE_ID:
		migrate(q, a);
		return 0;
	case FF_MSG_CM_WRITE_EVENT:
		copy = w->event;
		put(w->channel, &copy, tail);
		return 0;
	case FF_MSG_CM_JOIN:
		r.join = *(const struct ff_cm_join_req *)q;
		((struct ff_cm_join_resp *)a)->mc = 7;
		return 0;
	case FF_MSG_CM_BIND:
	case FF_MSG_CM_LISTEN:
	case FF_MSG_CM_RESOLVE_ADDR:
	case FF_MSG_CM_LEAVE:
	case FF_MSG_CM_SET_OPTION:
		return 0;
	default:
		fail_msg("message %d", type);
		return 0;
	}
}

int ffl_call(struct ffl_context *ctx, enum ff_msg_type type, const void *req, size_t req_len,
	     const void *tail, size_t tail_size, unsigned n_tail, void *resp, size_t resp_len,
	     int *fds, unsigned max_fds, unsigned *n_fds)
{
	int ret;

	(void)req_len, (void)tail_size, (void)n_tail, (void)max_fds;
	memset(resp, 0, resp_len);
	if (atomic_load(&ctx->dead))
		return -EIO;
	pthread_mutex_lock(&r.lock);
	ret = r.fail[type] ? r.fail[type] : answer(type, req, tail, resp, fds);
	pthread_mutex_unlock(&r.lock);
	if (n_fds)
		*n_fds = type == FF_MSG_CREATE_CHANNEL && !ret;
	return ret;
}

/* ---- the program ----------------------------------------------------------------------------------- */

static struct rdma_event_channel *ch;

static struct rdma_event_channel *new_channel(void)
{
	struct rdma_event_channel *c = rdma_create_event_channel();

	assert_non_null(c);
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	return c;
}

static int setup(void **state)
{
	(void)state;
	memset(&r, 0, sizeof(r));
	memset(r.channel, -1, sizeof(r.channel));
	pthread_mutex_init(&r.lock, NULL);
	pthread_mutex_init(&r.ctx.table_lock, NULL);
	pthread_cond_init(&r.ctx.event_cond, NULL);
	r.ctx.pid = getpid();
	r.ses.ctx = &r.ctx;
	r.port_num = 1;
	ch = new_channel();
	return 0;
}

static int teardown(void **state)
{
	unsigned i;

	(void)state;
	atomic_store(&r.ctx.dead, false);
	rdma_destroy_event_channel(ch);
	for (i = 0; i < NUM_CHANNELS; i++)
		assert_int_equal(r.channel[i], -1);
	assert_int_equal(r.ses.refs, 0);
	assert_int_equal(r.devices, 0);
	free(r.ctx.table[FFL_CM_ID].slot);
	return 0;
}

static struct rdma_cm_id *new (struct rdma_event_channel *c)
{
	struct rdma_cm_id *id;

	assert_int_equal(rdma_create_id(c, &id, NULL, RDMA_PS_TCP), 0);
	return id;
}

static bool readable(const struct rdma_event_channel *c)
{
	struct pollfd p = { .fd = c->fd, .events = POLLIN };

	return poll(&p, 1, 0) == 1;
}

static void expect_none(struct rdma_event_channel *c)
{
	struct rdma_cm_event *e;

	assert_false(readable(c));
	assert_int_equal(rdma_get_cm_event(c, &e), -1);
	assert_int_equal(errno, EAGAIN);
}

static void expect(struct rdma_event_channel *c, struct rdma_cm_id *id,
		   enum rdma_cm_event_type type, int status)
{
	struct rdma_cm_event *e;

	assert_true(readable(c));
	assert_int_equal(rdma_get_cm_event(c, &e), 0);
	assert_ptr_equal(e->id, id);
	assert_int_equal(e->event, type);
	assert_int_equal(e->status, status);
	assert_int_equal(rdma_ack_cm_event(e), 0);
}

/* ---- tests ------------------------------------------------------------------------------------------- */

static void test_order(void **state)
{
	struct rdma_cm_id *a = new (ch), *b = new (ch);
	int i;

	(void)state;
	expect_none(ch);
	for (i = 0; i < 4; i++)
		simple(i % 2 ? b : a, RDMA_CM_EVENT_UNREACHABLE, i);
	for (i = 0; i < 4; i++)
		expect(ch, i % 2 ? b : a, RDMA_CM_EVENT_UNREACHABLE, i);
	expect_none(ch);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	assert_int_equal(rdma_ack_cm_event(NULL), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_get_cm_event(ch, NULL), -1);
	assert_int_equal(errno, EINVAL);
}

static void test_bad_packets(void **state)
{
	struct rdma_cm_id *a = new (ch);
	struct ff_cm_event ev = { .id = to_id(a)->handle, .event = RDMA_CM_EVENT_ADDR_CHANGE };
	struct rdma_cm_event *e;

	(void)state;
	ev.private_data_len = 5; /* which do not come */
	assert_int_equal(send(r.channel[0], &ev, sizeof(ev), 0), sizeof(ev));
	assert_int_equal(rdma_get_cm_event(ch, &e), -1);
	assert_int_equal(errno, EIO);
	assert_int_equal(send(r.channel[0], &ev, 9, 0), 9);
	assert_int_equal(rdma_get_cm_event(ch, &e), -1);
	assert_int_equal(errno, EIO);
	ev.private_data_len = 0;
	ev.id = NUM_IDS - 1; /* nobody's */
	r.id[ev.id].channel = 1;
	event(ev);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	expect(ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	expect_none(ch);
	/* the router is gone */
	shutdown(r.channel[0], SHUT_RDWR);
	assert_int_equal(rdma_get_cm_event(ch, &e), -1);
	assert_int_equal(errno, EIO);
	atomic_store(&r.ctx.dead, true);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_create_id(ch, &a, NULL, RDMA_PS_TCP), -1);
	assert_int_equal(errno, EIO);
}

static void test_destroy_forgets(void **state)
{
	struct rdma_cm_id *a = new (ch), *b = new (ch);

	(void)state;
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 4);
	expect(ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	assert_int_equal(rdma_destroy_id(a), 0);
	expect(ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	expect_none(ch); /* and not readable for what is left of a */
	assert_int_equal(rdma_destroy_id(b), 0);
}

static void test_destroy_refuses_requests(void **state)
{
	struct rdma_cm_id *l = new (ch);
	struct rdma_cm_event *e;
	struct rdma_cm_id *child;
	uint32_t handle[3];
	int i;

	(void)state;
	for (i = 0; i < 3; i++)
		handle[i] = request(l);
	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	assert_ptr_equal(e->listen_id, l);
	child = e->id;
	assert_int_equal(to_id(child)->handle, handle[0]);
	rdma_ack_cm_event(e);
	r.num_destroyed = 0;
	assert_int_equal(rdma_destroy_id(l), 0);
	expect_none(ch);
	assert_int_equal(r.num_destroyed, 3);
	assert_int_equal(r.destroyed[1], handle[1]);
	assert_int_equal(r.destroyed[2], handle[2]);
	assert_int_equal(rdma_destroy_id(child), 0);
}

static void test_request_fails(void **state)
{
	struct rdma_cm_id *l = new (ch);
	uint32_t handle;

	(void)state;
	r.device_ret = -ENOMEM;
	handle = request(l);
	simple(l, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	expect(ch, l, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	assert_int_equal(r.num_destroyed, 1);
	assert_int_equal(r.destroyed[0], handle);
	assert_int_equal(rdma_destroy_id(l), 0); /* no event of it is left unacknowledged */
}

static void *acknowledge(void *event)
{
	sched_yield(); /* the other thread may wait by then; the test holds either way */
	rdma_ack_cm_event(event);
	return NULL;
}

static void test_destroy_waits(void **state)
{
	struct rdma_cm_id *a = new (ch);
	struct rdma_cm_event *e;
	pthread_t t;

	(void)state;
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 0);
	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	assert_int_equal(pthread_create(&t, NULL, acknowledge, e), 0);
	assert_int_equal(rdma_destroy_id(a), 0);
	pthread_join(t, NULL);
}

static void test_migrate_pending(void **state)
{
	struct rdma_event_channel *to = new_channel();
	struct rdma_cm_id *a = new (ch), *b = new (ch);

	(void)state;
	simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 10);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	simple(b, RDMA_CM_EVENT_ADDR_CHANGE, 11);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	assert_int_equal(rdma_migrate_id(a, to), 0);
	assert_ptr_equal(a->channel, to);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	expect(ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 10);
	expect(ch, b, RDMA_CM_EVENT_ADDR_CHANGE, 11);
	expect_none(ch);
	expect(to, a, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	/* back, before the others were taken, and twice more with nothing new */
	assert_int_equal(rdma_migrate_id(a, ch), 0);
	expect_none(to);
	assert_int_equal(rdma_migrate_id(a, to), 0);
	expect_none(ch);
	assert_int_equal(rdma_migrate_id(a, ch), 0);
	expect_none(to);
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 4);
	expect(ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 2);
	expect(ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 3);
	expect(ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 4);
	expect_none(ch);
	assert_int_equal(rdma_destroy_id(a), 0);
	assert_int_equal(rdma_destroy_id(b), 0);
	rdma_destroy_event_channel(to);
}

static void test_migrate_listener(void **state)
{
	struct rdma_event_channel *to = new_channel();
	struct rdma_cm_id *l = new (ch);
	struct rdma_cm_event *e;
	uint32_t handle = request(l);

	(void)state;
	assert_int_equal(rdma_migrate_id(l, to), 0);
	expect_none(ch);
	assert_int_equal(r.num_destroyed, 0);
	assert_int_equal(rdma_get_cm_event(to, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	assert_int_equal(to_id(e->id)->handle, handle);
	assert_ptr_equal(e->id->channel, to);
	l = e->listen_id;
	struct rdma_cm_id *id = e->id;
	rdma_ack_cm_event(e);
	assert_int_equal(rdma_destroy_id(id), 0);
	assert_int_equal(rdma_destroy_id(l), 0);
	rdma_destroy_event_channel(to);
}

static void test_migrate_fails(void **state)
{
	struct rdma_event_channel *to = new_channel();
	struct rdma_cm_id *a = new (ch);

	(void)state;
	r.fail[FF_MSG_CM_MIGRATE_ID] = -EINVAL;
	assert_int_equal(rdma_migrate_id(a, to), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_migrate_id(a, NULL), -1);
	assert_ptr_equal(a->channel, ch);
	r.fail[FF_MSG_CM_MIGRATE_ID] = 0;
	simple(a, RDMA_CM_EVENT_ADDR_CHANGE, 5);
	expect(ch, a, RDMA_CM_EVENT_ADDR_CHANGE, 5);
	assert_int_equal(rdma_migrate_id(a, NULL), 0);
	assert_int_equal(rdma_migrate_id(a, NULL), -1); /* is synchronous already */
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(a), 0);
	rdma_destroy_event_channel(to);
}

/* Two readers, one of each channel, an id that changes its channel over and over: each event comes once. */
#define RACE_EVENTS 2000
static struct {
	struct rdma_event_channel *c[2];
	_Atomic uint32_t seen[RACE_EVENTS];
	_Atomic unsigned total, bad;
	_Atomic bool stop;
} race;

static void *race_reader(void *c)
{
	struct rdma_cm_event *e;

	for (;;) {
		if (rdma_get_cm_event(c, &e)) {
			race.bad++;
			return NULL;
		}
		int n = e->status;
		rdma_ack_cm_event(e);
		if (n == RACE_EVENTS)
			return NULL;
		if (race.seen[n]++)
			race.bad++;
		race.total++;
	}
}

static void *race_writer(void *id)
{
	int i;

	for (i = 0; i < RACE_EVENTS; i++) {
		simple(id, RDMA_CM_EVENT_ADDR_CHANGE, i);
		if (i % 8 == 0)
			sched_yield();
	}
	race.stop = true;
	return NULL;
}

static void test_migrate_race(void **state)
{
	struct rdma_cm_id *id, *end[2];
	pthread_t reader[2], writer;
	unsigned i;

	(void)state;
	memset(&race, 0, sizeof(race));
	for (i = 0; i < 2; i++) {
		race.c[i] = new_channel();
		fcntl(race.c[i]->fd, F_SETFL, 0);
		end[i] = new (race.c[i]);
	}
	id = new (race.c[0]);
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&reader[i], NULL, race_reader, race.c[i]), 0);
	assert_int_equal(pthread_create(&writer, NULL, race_writer, id), 0);
	for (i = 1; !race.stop || race.total < RACE_EVENTS; i++) {
		assert_int_equal(rdma_migrate_id(id, race.c[i % 2]), 0);
		sched_yield();
	}
	pthread_join(writer, NULL);
	for (i = 0; i < 2; i++)
		simple(end[i], RDMA_CM_EVENT_ADDR_CHANGE, RACE_EVENTS);
	for (i = 0; i < 2; i++)
		pthread_join(reader[i], NULL);
	assert_int_equal(race.bad, 0);
	assert_int_equal(race.total, RACE_EVENTS);
	assert_int_equal(rdma_destroy_id(id), 0);
	for (i = 0; i < 2; i++) {
		assert_int_equal(rdma_destroy_id(end[i]), 0);
		rdma_destroy_event_channel(race.c[i]);
	}
}

static void test_multicast(void **state)
{
	struct sockaddr_in group = { .sin_family = AF_INET,
				     .sin_addr.s_addr = htobe32(0xe0000101) };
	struct ff_cm_event ev = { .event = RDMA_CM_EVENT_MULTICAST_JOIN, .mc = 7 };
	struct rdma_cm_id *id = new (ch);
	struct rdma_cm_event *e;
	struct ibv_qp qp;

	(void)state;
	assert_int_equal(rdma_join_multicast(id, (struct sockaddr *)&group, &group), 0);
	ev.id = to_id(id)->handle;
	ev.uid = r.join.uid;
	memset(ev.dgid, 0xff, sizeof(ev.dgid));
	ev.ud_qkey = 0x1234;
	id->qp = &qp;
	event(ev);
	assert_int_equal(rdma_get_cm_event(ch, &e), 0);
	assert_int_equal(e->event, RDMA_CM_EVENT_MULTICAST_JOIN);
	assert_ptr_equal(e->param.ud.private_data, &group);
	assert_int_equal(e->param.ud.qkey, 0x1234);
	assert_int_equal(e->param.ud.ah_attr.grh.dgid.raw[0], 0xff);
	assert_int_equal(r.attached, 1);
	rdma_ack_cm_event(e);
	/* the device refuses it */
	r.attach_ret = ENOMEM;
	event(ev);
	expect(ch, id, RDMA_CM_EVENT_MULTICAST_ERROR, -ENOMEM);
	r.attach_ret = 0;
	/* left while events wait: they are gone, and not readable */
	event(ev);
	simple(id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	event(ev);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), 0);
	assert_int_equal(r.attached, 0);
	expect(ch, id, RDMA_CM_EVENT_ADDR_CHANGE, 1);
	expect_none(ch);
	assert_int_equal(rdma_leave_multicast(id, (struct sockaddr *)&group), -1);
	assert_int_equal(errno, EADDRNOTAVAIL);
	id->qp = NULL;
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_join_arguments(void **state)
{
	struct sockaddr_in group = { .sin_family = AF_INET };
	struct rdma_cm_join_mc_attr_ex attr = { .comp_mask = 4, .addr = (struct sockaddr *)&group };
	struct rdma_cm_id *id = new (ch);

	(void)state;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENOTSUP);
	attr.comp_mask = RDMA_CM_JOIN_MC_ATTR_ADDRESS;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.comp_mask = 3;
	attr.join_flags = RDMA_MC_JOIN_FLAG_RESERVED;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	attr.join_flags = 0;
	group.sin_family = AF_UNIX;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, EINVAL);
	group.sin_family = AF_INET;
	r.fail[FF_MSG_CM_JOIN] = -ENODEV;
	assert_int_equal(rdma_join_multicast_ex(id, &attr, NULL), -1);
	assert_int_equal(errno, ENODEV);
	assert_null(to_id(id)->mcs);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_sync(void **state)
{
	struct sockaddr_in dst = { .sin_family = AF_INET };
	struct rdma_cm_id *id = new (NULL);

	(void)state;
	simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1), 0);
	assert_non_null(id->verbs);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_RESOLVED);
	simple(id, RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT);
	assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&dst, 1), -1);
	assert_int_equal(errno, ETIMEDOUT);
	assert_int_equal(id->event->event, RDMA_CM_EVENT_ADDR_ERROR);
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_addr_resolved_fails(void **state)
{
	struct rdma_cm_id *id = new (ch);

	(void)state;
	r.port_num = 0; /* no device after all */
	simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect(ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	r.port_num = 1;
	r.device_ret = -ENOMEM;
	simple(id, RDMA_CM_EVENT_ADDR_RESOLVED, 0);
	expect(ch, id, RDMA_CM_EVENT_ADDR_ERROR, -ENOMEM);
	assert_int_equal(rdma_destroy_id(id), 0);
}

/* The answer could not be used: what the peer says about the end of it is not news. */
static void test_response_fails(void **state)
{
	struct rdma_cm_id *id = new (ch);
	struct ibv_qp qp;

	(void)state;
	id->qp = &qp;
	r.attach_ret = -EINVAL;
	simple(id, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	simple(id, RDMA_CM_EVENT_REJECTED, 28);
	simple(id, RDMA_CM_EVENT_DISCONNECTED, 0);
	simple(id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	expect(ch, id, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL);
	expect(ch, id, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	id->qp = NULL;
	assert_int_equal(rdma_destroy_id(id), 0);
}

static void test_options(void **state)
{
	struct rdma_cm_id *id = new (ch);
	uint8_t tos = 8;
	int one = 1;

	(void)state;
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, 1), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &one, 4), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &one, 4), 0);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_ID, 77, &one, 4), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(rdma_set_option(id, 9, RDMA_OPTION_ID_TOS, &tos, 1), -1);
	assert_int_equal(errno, ENOSYS);
	assert_int_equal(rdma_set_option(id, RDMA_OPTION_IB, RDMA_OPTION_IB_PATH, &one, 4), -1);
	assert_int_equal(errno, EINVAL);
	assert_int_equal(rdma_destroy_id(id), 0);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(test_order),
		TEST(test_bad_packets),
		TEST(test_destroy_forgets),
		TEST(test_destroy_refuses_requests),
		TEST(test_request_fails),
		TEST(test_destroy_waits),
		TEST(test_migrate_pending),
		TEST(test_migrate_listener),
		TEST(test_migrate_fails),
		TEST(test_migrate_race),
		TEST(test_multicast),
		TEST(test_join_arguments),
		TEST(test_sync),
		TEST(test_addr_resolved_fails),
		TEST(test_response_fails),
		TEST(test_options),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
