/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/nic_rig.c tests/rig/fakes/fake_nic.c tests/rig/fakes/fake_nic_wr.c tests/rig/fakes/fake_ucma.c tests/rig/unit/rig.c */
/*
 * test_iwarp.c - a NIC of iWARP, with a kernel that the test plays: how a QP comes to a connection and loses it, what is
 * refused, and what is the kernel's siw alone.
 */
#include "tests/rig/unit/nic_rig.h"

#include <errno.h>
#include <net/if.h>
#include <rdma/rdma_cma.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "ffr/fast/ucma.h"
#include "ffr/obj/gid.h"
#include "tests/rig/fakes/fake_ucma.h"

enum { CONNECT = 6, ACCEPT = 8, REJECT = 9, DISCONNECT = 10 }; /* of <rdma/rdma_user_cm.h> */
#define SIW 0x626d74

static struct nic_rig *n;
static const struct ucma_ops *ops;

static void start(uint32_t vendor)
{
	fake_nic_reset();
	fake_ucma_reset();
	fake_nic.transport = IBV_TRANSPORT_IWARP;
	fake_nic.attr.vendor_id = vendor;
	fake_nic.attr.max_sge_rd = 1;
	fake_ucma.guid = fake_nic.attr.node_guid = 0x1234;
	fake_nic.gid[0].ndev_ifindex = if_nametoindex("lo");
	n = calloc(1, sizeof(*n));
	nic_rig_open_qp(n, IBV_QPT_RC);
	ops = carriers_ucma(n->r.f);
}

static int setup(void **state)
{
	(void)state;
	start(0);
	return 0;
}

static int setup_siw(void **state)
{
	(void)state;
	start(SIW);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	nic_rig_close(n);
	free(n);
	return 0;
}

static void heard(void)
{
	fast_lock(n->r.f->host);
	CARRIERS_FIRST(ready, n->r.f, n->r.f->host->nic[0].dev->ucma, EPOLLIN);
	fast_unlock(n->r.f->host);
	for (int i = 0; i < 4; i++)
		nic_rig_work(n);
	rig_run(&n->r);
}

static struct ucma_event expect(enum rdma_cm_event_type event)
{
	struct ucma_event ev;

	assert_true(ops->event(n->r.f, &ev));
	assert_int_equal(ev.event, event);
	return ev;
}

static void expect_none(void)
{
	struct ucma_event ev;

	assert_false(ops->event(n->r.f, &ev));
}

static struct ucma_want want(const struct container *c)
{
	struct ucma_want w = { .user = n,
			       .cont = c,
			       .ps = RDMA_PS_TCP,
			       .qp_type = IBV_QPT_RC,
			       .port = 7471,
			       .timeout_ms = 1000,
			       .backlog = 3 };

	memcpy(&w.dst, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x0a\1\2\x9", 16);
	return w;
}

static struct ucma_id *resolved(const struct container *c)
{
	struct ucma_want w = want(c);
	struct ucma_id *id = ops->resolve(&w);

	assert_non_null(id);
	nic_rig_work(n);
	return id;
}

static void end(struct ucma_id *id)
{
	ops->destroy(id);
	nic_rig_work(n);
	nic_rig_work(n);
}

static void ask(struct ucma_id *id, uint32_t qp_num)
{
	struct ff_cm_param p = { .qp_num = qp_num };

	assert_int_equal(ops->connect(id, &p, "hi", 2), 0);
	nic_rig_work(n);
}

/* RTR and RTS with that number of the peer's. 0 or -errno */
static int go(struct rig_qp *q, uint32_t peer)
{
	int err;

	nic_rig_attr(n, q);
	q->qp.attr.dest_qp_num = peer;
	err = rig_state_try(q, IBV_QPS_RTR);
	return err ? err : rig_state_try(q, IBV_QPS_RTS);
}

/* n->qp is connected, as a client's: the kernel's number of the id. */
static struct ucma_id *connected(uint32_t *k)
{
	struct ucma_id *id = resolved(&n->r.cont[0]);

	*k = fake_ucma_only();
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	ask(id, n->qp->qp.qp_num);
	fake_nic_iw_connected(n->ib);
	fake_ucma_tell(*k, RDMA_CM_EVENT_ESTABLISHED, 0, 'x');
	heard();
	assert_int_equal(go(n->qp, expect(RDMA_CM_EVENT_CONNECT_RESPONSE).param.qp_num), 0);
	assert_int_equal(ops->establish(id), 0);
	nic_rig_work(n);
	return id;
}

/* ---- the device ------------------------------------------------------------------------------------- */

static void its_address_is_the_network_devices(void **state)
{
	const struct ibv_gid_entry other = { .gid.raw = { 2, 0xde, 0xad, 0xbe, 0xef, 1 } };
	union ibv_gid gid;

	(void)state;
	assert_memory_equal(n->r.f->host->nic[0].gid.raw, "\0\0\0\0\0\0\0\0\0\0\xff\xff\x7f\0\0\1",
			    16);
	assert_int_equal(nic_iwarp_address(&other, &gid), ENODATA); /* nobody's MAC */
	assert_true(ops->is_there(&n->r.cont[0], RDMA_PS_TCP, IBV_QPT_RC));
	assert_false(ops->is_there(&n->r.cont[0], RDMA_PS_TCP, IBV_QPT_UC));
	assert_false(ops->is_there(&n->r.cont[0], RDMA_PS_UDP, IBV_QPT_UD));
}

/* UC and UD reach containers, and are refused a path by the NIC. */
static void only_rc_is_the_nics(void **state)
{
	struct rig_qp *uc = rig_qp(&n->r, n->s, IBV_QPT_UC, n->cq, n->cq, NULL);
	struct rig_qp *ud = rig_qp(&n->r, n->s, IBV_QPT_UD, n->cq, n->cq, NULL);

	(void)state;
	assert_null(uc->qp.nic);
	assert_null(ud->qp.nic);
	rig_state(&n->r, uc, IBV_QPS_INIT);
	assert_int_equal(go(uc, 5), -EOPNOTSUPP);
	rig_qp_free(&n->r, uc);
	rig_qp_free(&n->r, ud);
}

/* ---- connections -------------------------------------------------------------------------------------- */

static void a_client_connects(void **state)
{
	struct ucma_id *id = resolved(&n->r.cont[0]);
	uint32_t k = fake_ucma_only();
	struct ucma_event ev;

	(void)state;
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	nic_rig_recv(n, 1, 64);
	assert_int_equal(fake_nic_recvs(n->ib), 0);
	ask(id, n->qp->qp.qp_num);
	/* the peer may send as soon as it has heard of it */
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_INIT);
	assert_int_equal(fake_nic_recvs(n->ib), 1);
	assert_int_equal(fake_ucma.id[k].call[fake_ucma.id[k].num_calls - 1], CONNECT);
	nic_rig_recv(n, 2, 64);
	rig_run(&n->r);
	assert_int_equal(fake_nic_recvs(n->ib), 2);
	fake_nic_iw_connected(n->ib);
	fake_nic_received(n->ib, IBV_WC_SUCCESS, 9, NULL);
	rig_run(&n->r);
	nic_rig_expect(n, 1, IBV_WC_SUCCESS);
	fake_ucma_tell(k, RDMA_CM_EVENT_ESTABLISHED, 0, 'x');
	heard();
	ev = expect(RDMA_CM_EVENT_CONNECT_RESPONSE);
	assert_int_equal(ev.pd[0], 'x');
	assert_int_not_equal(ev.param.qp_num, 0);
	assert_int_equal(go(n->qp, ev.param.qp_num + 1), -EINVAL); /* another connection's */
	assert_int_equal(go(n->qp, ev.param.qp_num), 0);
	nic_rig_send(n, 3, 64);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 1);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 3, IBV_WC_SUCCESS);
	/* the kernel has no RTU */
	assert_int_equal(ops->establish(id), 0);
	nic_rig_work(n);
	assert_int_equal(fake_ucma.id[k].call[fake_ucma.id[k].num_calls - 1], CONNECT);
	/* the peer goes */
	fake_ucma_tell(k, RDMA_CM_EVENT_DISCONNECTED, 0, 0);
	heard();
	expect(RDMA_CM_EVENT_DISCONNECTED);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	nic_rig_expect(n, 2, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_no_event(n);
	end(id);
	assert_int_equal(fake_ucma.num_ids, 0);
	/* it is not the NIC's again */
	rig_state(&n->r, n->qp, IBV_QPS_RESET);
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	assert_int_equal(go(n->qp, ev.param.qp_num), -EOPNOTSUPP);
	id = resolved(&n->r.cont[0]);
	ask(id, n->qp->qp.qp_num);
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR).status, -EISCONN);
	end(id);
}

/* A message that comes before its receive would end the connection. */
static void receives_are_there_before_the_answer(void **state)
{
	uint32_t k;
	struct ucma_id *id = connected(&k);

	(void)state;
	rig_run(&n->r);
	rig_sge(rig_sqe(n->qp, FF_OP_SEND, 2), n->mr, nic_rig_at(n, 0), 64);
	nic_rig_recv(n, 1, 64);
	rig_post(&n->r, n->qp);
	rig_run(&n->r);
	assert_int_equal(fake_nic.num_log, 2);
	assert_true(fake_nic.log[0].is_recv);
	assert_false(fake_nic.log[1].is_recv);
	end(id);
}

static struct later {
	struct carrier_later l;
	int err;
} later;

static void done(struct carrier_later *l, int err)
{
	((struct later *)l)->err = err;
}

static struct ucma_event requested(struct ucma_id **l, uint32_t *k)
{
	struct ucma_want w = want(&n->r.cont[0]);

	later = (struct later){ .l.done = done, .err = 1 };
	*l = ops->listen(&w, &later.l);
	nic_rig_work(n);
	assert_int_equal(later.err, 0);
	*k = fake_ucma_request(fake_ucma_only());
	heard();
	return expect(RDMA_CM_EVENT_CONNECT_REQUEST);
}

static void a_listener_accepts(void **state)
{
	struct ucma_id *l;
	uint32_t k;
	struct ucma_event ev = requested(&l, &k);

	(void)state;
	ops->keep(ev.request, n);
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	nic_rig_recv(n, 1, 64);
	assert_int_equal(go(n->qp, ev.param.qp_num), 0);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_INIT);
	assert_int_equal(fake_nic_recvs(n->ib), 1);
	/* what is posted before it is there waits */
	nic_rig_send(n, 2, 64);
	rig_run(&n->r);
	ev.param.qp_num = n->qp->qp.qp_num;
	assert_int_equal(ops->accept(ev.request, &ev.param, "yes", 3), 0);
	nic_rig_work(n);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 0);
	fake_nic_iw_connected(n->ib);
	fake_ucma_tell(k, RDMA_CM_EVENT_ESTABLISHED, 0, 0);
	heard();
	expect(RDMA_CM_EVENT_ESTABLISHED);
	assert_int_equal(fake_nic_sends(n->ib), 1);
	fake_nic_sent(n->ib, IBV_WC_SUCCESS);
	rig_run(&n->r);
	nic_rig_expect(n, 2, IBV_WC_SUCCESS);
	/* it ends it itself: the QP first */
	rig_state(&n->r, n->qp, IBV_QPS_ERR);
	nic_rig_work(n);
	assert_int_equal(ops->disconnect(ev.request), 0);
	nic_rig_work(n);
	assert_int_equal(fake_ucma.id[k].call[fake_ucma.id[k].num_calls - 1], DISCONNECT);
	assert_int_equal(fake_nic_state(n->ib), IBV_QPS_ERR);
	end(ev.request);
	end(l);
	expect_none();
}

/* Before it is accepted it is rejected in the kernel's way, with what is to be said. */
static void a_listener_rejects(void **state)
{
	struct ucma_id *l;
	uint32_t k;
	struct ucma_event ev = requested(&l, &k);

	(void)state;
	ops->keep(ev.request, n);
	assert_int_equal(ops->reject(ev.request, 0, "no", 2), 0);
	nic_rig_work(n);
	assert_int_equal(fake_ucma.id[k].call[fake_ucma.id[k].num_calls - 1], REJECT);
	end(ev.request);
	end(l);
}

static void a_peer_rejects(void **state)
{
	static const struct {
		enum rdma_cm_event_type event;
		int status, reason;
	} by[] = { { RDMA_CM_EVENT_REJECTED, -ECONNRESET, 28 },
		   { RDMA_CM_EVENT_REJECTED, -ECONNREFUSED, 8 },
		   { RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT, -ETIMEDOUT } };

	(void)state;
	for (unsigned i = 0; i < 3; i++) {
		struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
		struct ucma_id *id = resolved(&n->r.cont[0]);

		rig_state(&n->r, q, IBV_QPS_INIT);
		ask(id, q->qp.qp_num);
		fake_ucma_tell(fake_ucma_only(), by[i].event, by[i].status, 0);
		heard();
		assert_int_equal(expect(by[i].event).status, by[i].reason);
		assert_int_equal(q->qp.state, IBV_QPS_ERR);
		end(id);
		rig_qp_free(&n->r, q);
	}
}

/* What the call itself says is told as if the peer had. */
static void a_call_fails(void **state)
{
	static const struct {
		int err;
		enum rdma_cm_event_type event;
		int status;
	} by[] = { { ECONNREFUSED, RDMA_CM_EVENT_REJECTED, 8 },
		   { EINTR, RDMA_CM_EVENT_UNREACHABLE, -ETIMEDOUT },
		   { EHOSTUNREACH, RDMA_CM_EVENT_UNREACHABLE, -EHOSTUNREACH },
		   { ENOMEM, RDMA_CM_EVENT_CONNECT_ERROR, -ENOMEM } };

	(void)state;
	for (unsigned i = 0; i < 4; i++) {
		struct rig_qp *q = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
		struct ucma_id *id = resolved(&n->r.cont[0]);

		rig_state(&n->r, q, IBV_QPS_INIT);
		fake_ucma_fail(CONNECT, 1, by[i].err);
		ask(id, q->qp.qp_num);
		assert_int_equal(expect(by[i].event).status, by[i].status);
		assert_int_equal(q->qp.state, IBV_QPS_ERR);
		end(id);
		assert_int_equal(fake_ucma.num_ids, 0);
		rig_qp_free(&n->r, q);
	}
}

/* ---- what is refused ------------------------------------------------------------------------------------ */

/* The kernel would take any number: the router only its container's, of a QP that can be connected. */
static void other_qps_are_not_connected(void **state)
{
	struct ucma_id *id = resolved(&n->r.cont[1]);
	uint32_t k = fake_ucma_only(), calls = fake_ucma.id[k].num_calls;

	(void)state;
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	ask(id, n->qp->qp.qp_num); /* another container's */
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR).status, -EINVAL);
	ask(id, n->qp->qp.qp_num + 1); /* nobody's */
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR).status, -EINVAL);
	end(id);
	rig_state(&n->r, n->qp, IBV_QPS_RESET);
	id = resolved(&n->r.cont[0]);
	ask(id, n->qp->qp.qp_num); /* not in INIT */
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR).status, -EINVAL);
	assert_int_equal(fake_ucma.id[k].num_calls, calls);
	end(id);
	/* two at once, or one twice */
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	id = resolved(&n->r.cont[0]);
	ask(id, n->qp->qp.qp_num);
	ask(id, n->qp->qp.qp_num);
	assert_int_equal(expect(RDMA_CM_EVENT_CONNECT_ERROR).status, -EISCONN);
	fake_ucma_tell(fake_ucma_only(), RDMA_CM_EVENT_REJECTED, -ECONNRESET, 0);
	end(id);
	heard();
	assert_int_equal(fake_ucma.num_ids, 0);
}

static void by_numbers_alone_is_refused(void **state)
{
	struct ucma_id *id = resolved(&n->r.cont[1]);

	(void)state;
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	for (uint32_t peer = 0; peer < 9; peer++) /* also that of another container's connection */
		assert_int_equal(go(n->qp, peer), -EOPNOTSUPP);
	assert_int_equal(n->qp->qp.state, IBV_QPS_INIT);
	end(id);
}

static void what_iwarp_has_not(void **state)
{
	static const uint8_t op[] = { FF_OP_SEND_IMM, FF_OP_WRITE_IMM, FF_OP_FETCH_ADD,
				      FF_OP_CMP_SWAP };
	struct ucma_id *id;
	struct ff_sqe *e;
	uint32_t k;

	(void)state;
	for (unsigned i = 0; i <= 4; i++) {
		id = connected(&k);
		e = rig_sqe(n->qp, i < 4 ? op[i] : FF_OP_READ, 7);
		rig_sge(e, n->mr, nic_rig_at(n, 0), 8);
		if (i == 4)
			rig_sge(e, n->mr, nic_rig_at(n, 64), 8);
		rig_post(&n->r, n->qp);
		rig_run(&n->r);
		nic_rig_expect(n, 7, IBV_WC_LOC_QP_OP_ERR);
		assert_int_equal(fake_nic_num_sends(), 0);
		end(id);
		rig_qp_free(&n->r, n->qp);
		n->qp = rig_qp(&n->r, n->s, IBV_QPT_RC, n->cq, n->cq, NULL);
		n->ib = nic_rig_ib(n->qp);
	}
}

/* ---- ends ----------------------------------------------------------------------------------------------- */

/* iw_cm would wait for the other side: the id is destroyed when that has answered. */
static void one_in_doubt_is_destroyed_later(void **state)
{
	struct ucma_id *id = resolved(&n->r.cont[0]);
	uint32_t k = fake_ucma_only();

	(void)state;
	rig_state(&n->r, n->qp, IBV_QPS_INIT);
	ask(id, n->qp->qp.qp_num);
	end(id);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	assert_int_equal(fake_ucma.num_ids, 1);
	fake_ucma_tell(k, RDMA_CM_EVENT_CONNECT_ERROR, -EINVAL, 0);
	heard();
	assert_int_equal(fake_ucma.num_ids, 0);
	expect_none();
}

static void the_id_goes_first(void **state)
{
	uint32_t k;
	struct ucma_id *id = connected(&k);

	(void)state;
	nic_rig_recv(n, 4, 64);
	rig_run(&n->r);
	end(id);
	rig_run(&n->r);
	assert_int_equal(n->qp->qp.state, IBV_QPS_ERR);
	nic_rig_expect(n, 4, IBV_WC_WR_FLUSH_ERR);
	assert_int_equal(fake_ucma.num_ids, 0);
}

static void the_qp_goes_first(void **state)
{
	uint32_t k;
	struct ucma_id *id = connected(&k);

	(void)state;
	rig_qp_free(&n->r, n->qp);
	n->qp = NULL;
	fake_ucma_tell(k, RDMA_CM_EVENT_DISCONNECTED, 0, 0);
	heard();
	expect(RDMA_CM_EVENT_DISCONNECTED);
	end(id);
}

/* ---- siw -------------------------------------------------------------------------------------------------- */

/* Posted to one that is not in RTS any more, or not yet taken: siw says nothing of it. */
static void the_router_flushes_for_siw(void **state)
{
	uint32_t k;
	struct ucma_id *id = connected(&k);
	struct mr *mr = rig_mr(&n->r, n->s, n->buf, 4096, IBV_ACCESS_LOCAL_WRITE);

	(void)state;
	fake_nic.flushes_late = true;
	rig_recv(&n->r, n->qp, 5, mr, nic_rig_at(n, 0), 64);
	rig_sge(rig_sqe(n->qp, FF_OP_SEND, 6), mr, nic_rig_at(n, 0), 64);
	rig_post(&n->r, n->qp);
	rig_run(&n->r);
	assert_int_equal(fake_nic_sends(n->ib), 1);
	assert_int_equal(fake_nic_recvs(n->ib), 1);
	fake_ucma_tell(k, RDMA_CM_EVENT_DISCONNECTED, 0, 0);
	heard();
	nic_rig_expect(n, 6, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect(n, 5, IBV_WC_WR_FLUSH_ERR);
	nic_rig_expect_none(n);
	expect(RDMA_CM_EVENT_DISCONNECTED);
	end(id);
	rig_mr_free(&n->r, mr);
}

/* It has the addresses that the pages have when it is told of them. */
static void memory_of_siw(void **state)
{
	int fd = memfd_create("mr", MFD_CLOEXEC);
	uint64_t len = 2 * FF_PAGE, va;
	uint8_t *host;
	struct mr *mr;

	(void)state;
	assert_null(
		n->mr->backend); /* peers may reach it, and the router itself is at its address */
	assert_int_equal(ftruncate(fd, (off_t)len), 0);
	host = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	va = (uintptr_t)mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap((void *)(uintptr_t)va, len);
	/* where nothing is: there for that moment, and nothing afterwards */
	mr = rig_mr_runs(n->s, va, &host, &len, 1, NIC_RIG_ACCESS);
	assert_non_null(mr->backend);
	assert_int_equal((uintptr_t)fake_nic.mr.addr, va);
	assert_int_equal(((struct nic_mr *)mr->backend)->base, va);
	assert_int_equal(msync((void *)(uintptr_t)va, len, MS_ASYNC), -1);
	rig_mr_free(&n->r, mr);
	/* that is its own: anywhere */
	mr = rig_mr_runs(n->s, va, &host, &len, 1, IBV_ACCESS_LOCAL_WRITE);
	assert_ptr_equal(fake_nic.mr.addr, host);
	assert_int_equal(((struct nic_mr *)mr->backend)->base, (uintptr_t)host);
	rig_mr_free(&n->r, mr);
	munmap(host, len);
	close(fd);
}

int main(void)
{
#define TEST(name)     cmocka_unit_test_setup_teardown(name, setup, teardown)
#define SIW_TEST(name) cmocka_unit_test_setup_teardown(name, setup_siw, teardown)
	return UNIT_RUN(TEST(its_address_is_the_network_devices), TEST(only_rc_is_the_nics),
			TEST(a_client_connects), TEST(receives_are_there_before_the_answer),
			TEST(a_listener_accepts), TEST(a_listener_rejects), TEST(a_peer_rejects),
			TEST(a_call_fails), TEST(other_qps_are_not_connected),
			TEST(by_numbers_alone_is_refused), TEST(what_iwarp_has_not),
			TEST(one_in_doubt_is_destroyed_later), TEST(the_id_goes_first),
			TEST(the_qp_goes_first), SIW_TEST(the_router_flushes_for_siw),
			SIW_TEST(memory_of_siw));
}
