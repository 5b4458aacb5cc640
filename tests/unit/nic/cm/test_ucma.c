/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/fakes/fake_ucma.c tests/rig/unit/rig.c */
/* test_ucma.c - what the host's rdma_cm is asked, with a kernel that the test plays; which of its calls may fail. */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <rdma/rdma_cma.h>
#include <string.h>

#include "ffr/fast/ucma.h"
#include "tests/rig/fakes/fake_ucma.h"

/* of <rdma/rdma_user_cm.h>, which does not go with librdmacm's */
enum {
	CREATE_ID,
	DESTROY_ID,
	BIND = 20,
	RESOLVE_ADDR = 21,
	RESOLVE_ROUTE = 4,
	CONNECT = 6,
	LISTEN = 7,
	ACCEPT = 8,
	REJECT = 9,
	DISCONNECT = 10,
	INIT_QP_ATTR = 11,
	SET_OPTION = 14,
	QUERY = 19
};

static struct nic_rig *n;
static const struct ucma_ops *ops;

static int setup(void **state)
{
	fake_nic_reset();
	fake_ucma_reset();
	fake_ucma.guid = fake_nic.attr.node_guid = 0x1234;
	fake_ucma.rq_psn = 0x1000111; /* 24 bits of it */
	fake_ucma.sq_psn = 0x222;
	fake_ucma.mtu = IBV_MTU_1024;
	n = calloc(1, sizeof(*n));
	nic_rig_open(n);
	ops = carriers_ucma(n->r.f);
	*state = n;
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	nic_rig_close(n);
	free(n);
	return 0;
}

/* The kernel has told of something, which epoll says. */
static void heard(void)
{
	fast_lock(n->r.f->host);
	CARRIERS_FIRST(ready, n->r.f, n->r.f->host->nic[0].dev->ucma, EPOLLIN);
	fast_unlock(n->r.f->host);
	for (int i = 0; i < 4; i++)
		nic_rig_work(n);
}

static struct ucma_event expect(enum rdma_cm_event_type event, const void *user)
{
	struct ucma_event ev;

	assert_true(ops->event(n->r.f, &ev));
	assert_int_equal(ev.event, event);
	assert_ptr_equal(ev.user, user);
	return ev;
}

static void expect_none(void)
{
	struct ucma_event ev;

	assert_false(ops->event(n->r.f, &ev));
}

static struct ucma_want want(void *user)
{
	struct ucma_want w = { .user = user,
			       .cont = &n->r.cont[0],
			       .ps = RDMA_PS_TCP,
			       .qp_type = IBV_QPT_RC,
			       .port = 7471,
			       .timeout_ms = 1000,
			       .backlog = 3 };

	memcpy(&w.dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\2\x9", 16);
	return w;
}

static struct ucma_id *resolve(void *user)
{
	struct ucma_want w = want(user);
	struct ucma_id *id = ops->resolve(&w);

	assert_non_null(id);
	nic_rig_work(n);
	return id;
}

static struct later {
	struct carrier_later l;
	int calls, err;
} later;

static void done(struct carrier_later *l, int err)
{
	(void)l;
	later.calls++;
	later.err = err;
}

static struct ucma_id *listen_at(void *user)
{
	struct ucma_want w = want(user);
	struct ucma_id *id;

	later = (struct later){ .l.done = done };
	id = ops->listen(&w, &later.l);
	assert_non_null(id);
	nic_rig_work(n);
	assert_int_equal(later.calls, 1);
	return id;
}

static void end(struct ucma_id *id)
{
	ops->destroy(id);
	nic_rig_work(n);
}

/* ---- clients -------------------------------------------------------------------------------------- */

static void an_address_is_resolved(void **state)
{
	static const uint32_t calls[] = { BIND, QUERY, RESOLVE_ADDR, RESOLVE_ROUTE };
	struct ucma_id *id = resolve(n);
	uint32_t k = fake_ucma_only();

	(void)state;
	assert_true(ops->is_there(&n->r.cont[0], RDMA_PS_TCP, IBV_QPT_RC));
	expect_none();
	fake_ucma_tell(k, RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	heard();
	expect_none();
	assert_memory_equal(fake_ucma.id[k].call, calls, sizeof(calls));
	fake_ucma_tell(k, RDMA_CM_EVENT_ROUTE_RESOLVED, 0, 0);
	heard();
	expect(RDMA_CM_EVENT_ROUTE_RESOLVED, n);
	end(id);
	assert_int_equal(fake_ucma.num_ids, 0);
	assert_int_equal(fake_ucma.opens, 1);
}

static void calls_fail(void **state)
{
	static const int cmd[] = { CREATE_ID, BIND, QUERY, RESOLVE_ADDR };
	struct ucma_id *id;

	(void)state;
	for (int i = 0; i < 4; i++) {
		fake_ucma_fail(cmd[i], 1, EADDRNOTAVAIL);
		id = resolve(n);
		assert_int_equal(expect(RDMA_CM_EVENT_ADDR_ERROR, n).status, -EADDRNOTAVAIL);
		assert_int_equal(fake_ucma.num_ids, 0);
		end(id);
	}
	/* another device has the address */
	fake_ucma.guid = 5;
	id = resolve(n);
	assert_int_equal(expect(RDMA_CM_EVENT_ADDR_ERROR, n).status, -ENODEV);
	end(id);
	fake_ucma.guid = 0x1234;
	/* the way cannot be asked for */
	id = resolve(n);
	fake_ucma_fail(RESOLVE_ROUTE, 1, ENOMEM);
	fake_ucma_tell(fake_ucma_only(), RDMA_CM_EVENT_ADDR_RESOLVED, 0, 0);
	heard();
	assert_int_equal(expect(RDMA_CM_EVENT_ROUTE_ERROR, n).status, -ENOMEM);
	end(id);
	/* the kernel refuses what is said; not so that it is told */
	id = resolve(n);
	fake_ucma_fail(CONNECT, 1, EINVAL);
	assert_int_equal(ops->connect(id, &(struct ff_cm_param){ 0 }, NULL, 0), 0);
	nic_rig_work(n);
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR, n).status, -EINVAL);
	fake_ucma_fail(DISCONNECT, 1, EINVAL);
	assert_int_equal(ops->disconnect(id), 0);
	nic_rig_work(n);
	expect_none();
	/* an answer whose numbers cannot be found out is none */
	fake_ucma_fail(INIT_QP_ATTR, 2, EINVAL);
	fake_ucma_tell(fake_ucma_only(), RDMA_CM_EVENT_CONNECT_RESPONSE, 0, 0);
	heard();
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR, n).status, -EINVAL);
	end(id);
}

static void there_is_no_file(void **state)
{
	struct ucma_id *id;

	(void)state;
	fake_ucma.no_file = ENOENT;
	id = resolve(n);
	assert_int_equal(expect(RDMA_CM_EVENT_ADDR_ERROR, n).status, -ENOENT);
	assert_int_equal(ops->establish(id), 0); /* of one that the kernel does not have */
	nic_rig_work(n);
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR, n).status, -ENOENT);
	end(id);
	fake_ucma.no_file = 0;
	id = resolve(n);
	expect_none();
	end(id);
	assert_int_equal(fake_ucma.opens, 1);
}

static void an_answer_comes(void **state)
{
	struct ucma_id *id = resolve(n);
	uint32_t k = fake_ucma_only();
	struct ucma_event ev;

	(void)state;
	assert_int_equal(ops->connect(id, &(struct ff_cm_param){ .qp_num = 7 }, "hi", 2), 0);
	nic_rig_work(n);
	assert_memory_equal(fake_ucma.id[k].last + 8, "hi", 2); /* behind the numbers */
	fake_ucma_tell(k, RDMA_CM_EVENT_CONNECT_RESPONSE, 0, 'x');
	heard();
	ev = expect(RDMA_CM_EVENT_CONNECT_RESPONSE, n);
	assert_int_equal(ev.rq_psn, 0x111);
	assert_int_equal(ev.sq_psn, 0x222);
	assert_int_equal(ev.path_mtu, IBV_MTU_1024);
	assert_int_equal(ev.pd_len, 1);
	assert_int_equal(ev.pd[0], 'x');
	/* what is on its way when it ends is nobody's, also if another has the kernel's number then */
	fake_ucma_tell(k, RDMA_CM_EVENT_DISCONNECTED, 0, 0);
	heard();
	fake_ucma_tell(k, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0, 0);
	end(id);
	expect_none();
	id = resolve(&later);
	assert_int_equal(fake_ucma_only(), k);
	heard();
	expect_none();
	end(id);
}

/* ---- listeners ---------------------------------------------------------------------------------------- */

static void a_listener_is_asked(void **state)
{
	struct ucma_id *l = listen_at(n);
	uint32_t lk = fake_ucma_only(), k;
	struct ucma_event ev;

	(void)state;
	assert_int_equal(later.err, 0);
	k = fake_ucma_request(lk);
	heard();
	ev = expect(RDMA_CM_EVENT_CONNECT_REQUEST, n);
	assert_int_equal(ev.peer_port, 99);
	assert_int_equal(ev.peer.raw[15], 9);
	assert_int_equal(ev.param.qp_num, 7);
	assert_int_equal(ev.param.retry_count, 7);
	assert_int_equal(ev.rq_psn, 0x111);
	ops->keep(ev.request, &later);
	assert_int_equal(ops->accept(ev.request, &ev.param, "yes", 3), 0);
	nic_rig_work(n);
	fake_ucma_tell(k, RDMA_CM_EVENT_ESTABLISHED, 0, 0);
	heard();
	expect(RDMA_CM_EVENT_ESTABLISHED, &later);
	assert_int_equal(ops->reject(ev.request, 28, "no", 2), 0);
	nic_rig_work(n);
	assert_int_equal(fake_ucma.id[k].call[fake_ucma.id[k].num_calls - 1], REJECT);
	end(ev.request);
	/* one that is on its way goes with its listener */
	fake_ucma_request(lk);
	heard();
	end(l);
	assert_int_equal(fake_ucma.num_ids, 0);
	expect_none();
}

static void a_port_cannot_be_had(void **state)
{
	struct ucma_id *l;

	(void)state;
	fake_ucma_fail(BIND, 1, EADDRINUSE);
	l = listen_at(n);
	assert_int_equal(later.err, -EADDRINUSE);
	end(l);
	fake_ucma_fail(LISTEN, 1, EADDRINUSE);
	l = listen_at(n);
	assert_int_equal(later.err, -EADDRINUSE);
	end(l);
	assert_int_equal(fake_ucma.num_ids, 0);
	expect_none();
}

/* Of nobody, or of whom nothing can be found out: they end, and take no memory. */
static void requests_of_nobody(void **state)
{
	struct ucma_id *l = listen_at(n);
	uint32_t lk = fake_ucma_only();

	(void)state;
	fake_ucma_fail(QUERY, 1, EINVAL);
	fake_ucma_request(lk);
	heard();
	assert_int_equal(fake_ucma.num_ids, 1);
	for (int i = 0; i < 40; i++)
		fake_ucma_request(lk);
	end(l);
	heard();
	expect_none();
	assert_int_equal(fake_ucma.num_ids, 0);
}

/* More than one fetch takes: the next follows when these are read. */
static void many_events(void **state)
{
	struct ucma_id *id = resolve(n);
	uint32_t k = fake_ucma_only();
	struct ucma_event ev;
	int i = 0;

	(void)state;
	for (; i < 100; i++)
		fake_ucma_tell(k, RDMA_CM_EVENT_TIMEWAIT_EXIT, -i, 0);
	heard();
	for (i = 0; i < 100; i++) {
		if (!ops->event(n->r.f, &ev)) {
			nic_rig_work(n);
			assert_true(ops->event(n->r.f, &ev));
		}
		assert_int_equal(ev.status, -i);
		nic_rig_work(n);
	}
	nic_rig_work(n);
	expect_none();
	end(id);
}

/* Closed with ids, events and a request that nobody has read. */
static void it_ends_with_all(void **state)
{
	(void)state;
	resolve(n);
	fake_ucma_tell(fake_ucma_only(), RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, 0);
	listen_at(n);
	fake_ucma_request(1);
	heard();
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	return UNIT_RUN(TEST(an_address_is_resolved), TEST(calls_fail), TEST(there_is_no_file),
			TEST(an_answer_comes), TEST(a_listener_is_asked),
			TEST(a_port_cannot_be_had), TEST(requests_of_nobody), TEST(many_events),
			TEST(it_ends_with_all));
}
