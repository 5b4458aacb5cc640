/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ffl_cm_rig.c - see ffl_cm_rig.h. */
#include "tests/rig/unit/ffl_cm_rig.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- the router ---------------------------------------------------------------------------------- */

struct cm_router cm_router;

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
bool ffl_check_alive(struct ffl_context *ctx)
{
	return !atomic_load(&ctx->dead);
}
pthread_mutex_t cm_lock = PTHREAD_MUTEX_INITIALIZER;
pthread_cond_t cm_acked = PTHREAD_COND_INITIALIZER;
struct cm_session *cm_session_get(void)
{
	if (!atomic_load(&cm_router.ctx.dead))
		return cm_session_ref(&cm_router.ses);
	if (!cm_router.session_err)
		return cm_session_ref(&cm_router.next_ses);
	errno = cm_router.session_err;
	return NULL;
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
	static struct cm_device dev;

	if (cm_router.device_ret)
		return cm_router.device_ret;
	cm_router.devices++;
	id->dev = &dev;
	id->id.verbs = &verbs;
	return 0;
}
void cm_device_put(struct cm_id *id)
{
	(void)id;
	cm_router.devices--;
}
int cm_qp_response(struct cm_id *id, const struct ff_cm_ece *ece)
{
	(void)id, (void)ece;
	return cm_router.attach_ret;
}
int cm_qp_error(struct cm_id *id)
{
	(void)id;
	cm_router.qp_errors++;
	return 0;
}
int ibv_attach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	cm_router.attached += !cm_router.attach_ret;
	return cm_router.attach_ret;
}
int ibv_detach_mcast(struct ibv_qp *qp, const union ibv_gid *gid, uint16_t lid)
{
	(void)qp, (void)gid, (void)lid;
	cm_router.attached--;
	return 0;
}
void rdma_freeaddrinfo(struct rdma_addrinfo *res)
{
	(void)res;
}

/* Call with router.lock held. */
static void put(uint32_t channel, struct ff_cm_event *ev, const void *data)
{
	struct iovec iov[] = { { (void *)ev, sizeof(*ev) },
			       { (void *)data, ev->private_data_len } };
	struct msghdr msg = { .msg_iov = iov, .msg_iovlen = 2 };

	ev->num = ++cm_router.id[ev->listener ? ev->listener : ev->id].written;
	assert_int_equal(sendmsg(cm_router.channel[channel - 1], &msg, 0),
			 sizeof(*ev) + ev->private_data_len);
}

static uint32_t owner(const struct ff_cm_event *ev)
{
	return ev->listener ? ev->listener : ev->id;
}

void cm_rig_event(struct ff_cm_event ev)
{
	uint32_t id = owner(&ev);

	ev.path.port_num = cm_router.port_num;
	pthread_mutex_lock(&cm_router.lock);
	if (cm_router.id[id].held) {
		assert_true(cm_router.num_wait < NUM_WAIT);
		cm_router.wait[cm_router.num_wait].id = id;
		cm_router.wait[cm_router.num_wait++].ev = ev;
	} else {
		put(cm_router.id[id].channel, &ev, "");
	}
	pthread_mutex_unlock(&cm_router.lock);
}

void cm_rig_simple(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status)
{
	cm_rig_event(
		(struct ff_cm_event){ .id = to_id(id)->handle, .event = type, .status = status });
}

void cm_rig_router_ends(void)
{
	pthread_mutex_lock(&cm_router.lock);
	atomic_store(&cm_router.ctx.dead, true);
	for (unsigned i = 0; i < NUM_CHANNELS; i++) {
		if (cm_router.channel[i] >= 0)
			close(cm_router.channel[i]);
		cm_router.channel[i] = -1;
	}
	for (unsigned i = 0; i < NUM_IDS; i++)
		cm_router.id[i].live = false;
	pthread_mutex_unlock(&cm_router.lock);
}

static uint32_t new_id(uint32_t channel)
{
	uint32_t handle = ++cm_router.next_id;

	assert_true(handle < NUM_IDS);
	cm_router.id[handle].live = true;
	cm_router.id[handle].channel = channel;
	return handle;
}

uint32_t cm_rig_request(struct rdma_cm_id *listener)
{
	uint32_t l = to_id(listener)->handle, id = new_id(cm_router.id[l].channel);

	cm_rig_event((struct ff_cm_event){ .id = id,
					   .listener = l,
					   .event = RDMA_CM_EVENT_CONNECT_REQUEST,
					   .ps = RDMA_PS_TCP });
	return id;
}

static void migrate(const struct ff_cm_migrate_id_req *req, struct ff_cm_migrate_id_resp *resp)
{
	unsigned i, kept = 0;

	resp->events_reported = cm_router.id[req->id].written;
	cm_router.id[req->id].held = resp->events_reported != req->taken;
	if (cm_router.id[req->id].held)
		return;
	cm_router.id[req->id].channel = req->channel;
	for (i = 0; i < cm_router.num_wait; i++)
		if (cm_router.wait[i].id == req->id) {
			put(req->channel, &cm_router.wait[i].ev, "");
		} else {
			cm_router.wait[kept++] = cm_router.wait[i];
		}
	cm_router.num_wait = kept;
}

static int answer(enum ff_msg_type type, const void *q, const void *tail, void *a, int *fds)
{
	const struct ff_cm_write_event_req *w = q;
	const struct ff_cm_destroy_id_req *d = q;
	struct ff_cm_event copy;
	int sv[2], i;

	switch (type) {
	case FF_MSG_CREATE_CHANNEL:
		for (i = 0; cm_router.channel[i] >= 0; i++)
			;
		assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, sv), 0);
		fds[0] = sv[0];
		cm_router.channel[i] = sv[1];
		((struct ff_create_channel_resp *)a)->channel = (uint32_t)i + 1;
		return 0;
	case FF_MSG_DESTROY_CHANNEL:
		i = (int)((const struct ff_destroy_channel_req *)q)->channel - 1;
		close(cm_router.channel[i]);
		cm_router.channel[i] = -1;
		return 0;
	case FF_MSG_CM_CREATE_ID:
		((struct ff_cm_create_id_resp *)a)->id =
			new_id(((const struct ff_cm_create_id_req *)q)->channel);
		return 0;
	case FF_MSG_CM_DESTROY_ID:
		if (!cm_router.id[d->id].live)
			return -EINVAL;
		cm_router.id[d->id].live = false;
		cm_router.destroyed[cm_router.num_destroyed] = d->id;
		/* a test may wait for it on another thread */
		__atomic_store_n(&cm_router.num_destroyed, cm_router.num_destroyed + 1,
				 __ATOMIC_RELEASE);
		((struct ff_cm_destroy_id_resp *)a)->events_reported = cm_router.id[d->id].written;
		return 0;
	case FF_MSG_CM_QUERY:
		((struct ff_cm_query_resp *)a)->port_num = cm_router.port_num;
		((struct ff_cm_query_resp *)a)->local = cm_router.local;
		return 0;
	case FF_MSG_CM_MIGRATE_ID:
		migrate(q, a);
		return 0;
	case FF_MSG_CM_WRITE_EVENT:
		copy = w->event;
		put(w->channel, &copy, tail);
		return 0;
	case FF_MSG_CM_JOIN:
		cm_router.join = *(const struct ff_cm_join_req *)q;
		((struct ff_cm_join_resp *)a)->mc = 7;
		return 0;
	case FF_MSG_CM_BIND:
		cm_router.bind = *(const struct ff_cm_bind_req *)q;
		return 0;
	case FF_MSG_CM_LISTEN:
		cm_router.listen = *(const struct ff_cm_listen_req *)q;
		return 0;
	case FF_MSG_CM_SET_OPTION:
		cm_router.option = *(const struct ff_cm_set_option_req *)q;
		return 0;
	case FF_MSG_CM_RESOLVE_ADDR:
	case FF_MSG_CM_LEAVE:
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
	pthread_mutex_lock(&cm_router.lock);
	ret = cm_router.fail[type] ? cm_router.fail[type] : answer(type, req, tail, resp, fds);
	pthread_mutex_unlock(&cm_router.lock);
	if (n_fds)
		*n_fds = type == FF_MSG_CREATE_CHANNEL && !ret;
	return ret;
}

/* ---- the program ----------------------------------------------------------------------------------- */

struct rdma_event_channel *cm_ch;

struct rdma_event_channel *cm_rig_new_channel(void)
{
	struct rdma_event_channel *c = rdma_create_event_channel();

	assert_non_null(c);
	fcntl(c->fd, F_SETFL, O_NONBLOCK);
	return c;
}

int ffl_cm_rig_setup(void **state)
{
	(void)state;
	memset(&cm_router, 0, sizeof(cm_router));
	memset(cm_router.channel, -1, sizeof(cm_router.channel));
	pthread_mutex_init(&cm_router.lock, NULL);
	pthread_mutex_init(&cm_router.ctx.table_lock, NULL);
	pthread_mutex_init(&cm_router.next_ctx.table_lock, NULL);
	cm_router.ctx.pid = cm_router.next_ctx.pid = getpid();
	cm_router.ses.ctx = &cm_router.ctx;
	cm_router.next_ses.ctx = &cm_router.next_ctx;
	cm_router.port_num = 1;
	cm_ch = cm_rig_new_channel();
	return 0;
}

int ffl_cm_rig_teardown(void **state)
{
	unsigned i;

	(void)state;
	rdma_destroy_event_channel(cm_ch);
	for (i = 0; i < NUM_CHANNELS; i++)
		assert_int_equal(cm_router.channel[i], -1);
	assert_int_equal(cm_router.ses.refs, 0);
	assert_int_equal(cm_router.next_ses.refs, 0);
	assert_int_equal(cm_router.devices, 0);
	free(cm_router.ctx.table[FFL_CM_ID].slot);
	free(cm_router.next_ctx.table[FFL_CM_ID].slot);
	return 0;
}

struct rdma_cm_id *cm_rig_new_on(struct rdma_event_channel *c)
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

void cm_rig_expect_none(struct rdma_event_channel *c)
{
	struct rdma_cm_event *e;

	assert_false(readable(c));
	assert_int_equal(rdma_get_cm_event(c, &e), -1);
	assert_int_equal(errno, EAGAIN);
}

void cm_rig_expect(struct rdma_event_channel *c, struct rdma_cm_id *id,
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
