/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_cm.c - ffl/rsocket/cm.c: connection requests that are no rsocket's, and those that cannot be
 * accepted. The test is the connection manager.
 */
#include <errno.h>

#include "ffl/rsocket/cm.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static struct {
	struct rsocket listener, fresh;
	struct rdma_cm_id id;
	struct rdma_cm_event ev;
	bool has_event;
	int new_err, accept_err;
	unsigned rejected, accepted, acked;
	unsigned ids, sockets; /* that are not freed */
} w;

/* ---- the connection manager and the rest of rsockets ----------------------------------------- */

int rdma_get_cm_event(struct rdma_event_channel *ch, struct rdma_cm_event **ev)
{
	(void)ch;
	if (!w.has_event) {
		errno = EAGAIN;
		return -1;
	}
	w.has_event = false;
	*ev = &w.ev;
	return 0;
}

int rdma_ack_cm_event(struct rdma_cm_event *ev)
{
	(void)ev;
	w.acked++;
	return 0;
}

int rdma_reject(struct rdma_cm_id *id, const void *data, uint8_t len)
{
	(void)data, (void)len;
	assert_ptr_equal(id, &w.id);
	w.rejected++;
	return 0;
}

int rdma_accept(struct rdma_cm_id *id, struct rdma_conn_param *param)
{
	(void)id, (void)param;
	if (w.accept_err) {
		errno = w.accept_err;
		return -1;
	}
	w.accepted++;
	return 0;
}

int rdma_destroy_id(struct rdma_cm_id *id)
{
	assert_ptr_equal(id, &w.id);
	w.ids--;
	return 0;
}

int rdma_migrate_id(struct rdma_cm_id *id, struct rdma_event_channel *ch)
{
	(void)id, (void)ch;
	return 0;
}

struct rsocket *rs_new(int domain, int type)
{
	(void)domain, (void)type;
	if (w.new_err) {
		errno = w.new_err;
		return NULL;
	}
	w.sockets++;
	return &w.fresh;
}

void rs_free(struct rsocket *rs)
{
	if (rs->id)
		rdma_destroy_id(rs->id);
	w.sockets--;
}

void rs_opt_inherit(struct rs_options *to, const struct rs_options *from)
{
	(void)to, (void)from;
}

int rs_stream_open(struct rsocket *rs)
{
	(void)rs;
	return 0;
}

int rs_stream_pair(struct rsocket *rs, const struct rs_hello *hello)
{
	(void)rs, (void)hello;
	return 0;
}

void rs_stream_hello(struct rsocket *rs, struct rs_hello *hello)
{
	(void)rs;
	memset(hello, 0, sizeof(*hello));
}

#pragma GCC diagnostic ignored "-Wunused-parameter"
#define NOT_CALLED(type, name, ...)                                                                \
	type name(__VA_ARGS__)                                                                     \
	{                                                                                          \
		abort();                                                                           \
	}
NOT_CALLED(int, rdma_connect, struct rdma_cm_id *id, struct rdma_conn_param *param)
NOT_CALLED(int, rdma_disconnect, struct rdma_cm_id *id)
NOT_CALLED(int, rdma_resolve_addr, struct rdma_cm_id *id, struct sockaddr *src,
	   struct sockaddr *dst, int timeout_ms)
NOT_CALLED(int, rdma_resolve_route, struct rdma_cm_id *id, int timeout_ms)
NOT_CALLED(int, rdma_set_option, struct rdma_cm_id *id, int level, int option, void *value,
	   size_t len)
NOT_CALLED(int, rs_opt_apply, struct rsocket *rs)
NOT_CALLED(void, rs_peer_event, struct rsocket *rs, struct rdma_cm_event *ev,
	   struct rdma_cm_id **done)
NOT_CALLED(void, rs_stream_process, struct rsocket *rs)

/* ---- the listener ---------------------------------------------------------------------------- */

static struct rs_hello hello;

static int setup(void **state)
{
	(void)state;
	memset(&w, 0, sizeof(w));
	w.listener.type = SOCK_STREAM;
	w.listener.domain = AF_INET;
	w.listener.state = RS_LISTENING;
	w.listener.backlog = 4;
	w.listener.accepted_end = &w.listener.accepted;
	hello = (struct rs_hello){ .magic = RS_MAGIC, .version = RS_VERSION, .sndbuf = 65536 };
	return 0;
}

static void request(const void *data, uint8_t len)
{
	w.ids = 1;
	w.ev = (struct rdma_cm_event){
		.event = RDMA_CM_EVENT_CONNECT_REQUEST,
		.id = &w.id,
		.param.conn = { .private_data = data, .private_data_len = len },
	};
	w.has_event = true;
	rs_cm_process(&w.listener);
	assert_int_equal(w.acked, 1);
}

/* Neither the socket nor the id of the request is left. */
static void expect_rejected(void)
{
	assert_int_equal(w.rejected, 1);
	assert_int_equal(w.accepted, 0);
	assert_int_equal(w.ids, 0);
	assert_int_equal(w.sockets, 0);
	assert_null(w.listener.accepted);
}

static void a_request_is_accepted(void **state)
{
	(void)state;
	request(&hello, sizeof(hello));
	assert_int_equal(w.accepted, 1);
	assert_int_equal(w.rejected, 0);
	assert_ptr_equal(w.listener.accepted, &w.fresh);
	assert_int_equal(w.listener.num_accepted, 1);
}

static void other_programs_are_rejected(void **state)
{
	(void)state;
	hello.magic++;
	request(&hello, sizeof(hello));
	expect_rejected();
}

static void other_versions_are_rejected(void **state)
{
	(void)state;
	hello.version++;
	request(&hello, sizeof(hello));
	expect_rejected();
}

/* What is behind the end of the private data is not read. */
static void short_data_is_rejected(void **state)
{
	(void)state;
	request(&hello, sizeof(hello) - 1);
	expect_rejected();
}

static void no_data_is_rejected(void **state)
{
	(void)state;
	request(NULL, 0);
	expect_rejected();
}

static void without_memory_it_is_rejected(void **state)
{
	(void)state;
	w.new_err = ENOMEM;
	request(&hello, sizeof(hello));
	expect_rejected();
}

static void what_cannot_be_accepted_is_rejected(void **state)
{
	(void)state;
	w.accept_err = ENOMEM;
	request(&hello, sizeof(hello));
	expect_rejected();
}

#define T(f) cmocka_unit_test_setup(f, setup)

int main(void)
{
	return UNIT_RUN(T(a_request_is_accepted), T(other_programs_are_rejected),
			T(other_versions_are_rejected), T(short_data_is_rejected),
			T(no_data_is_rejected), T(without_memory_it_is_rejected),
			T(what_cannot_be_accepted_is_rejected));
}
