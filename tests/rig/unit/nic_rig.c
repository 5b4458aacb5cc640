/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* nic_rig.c - see nic_rig.h. */
#include "tests/rig/unit/nic_rig.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <string.h>

#include "ffr/obj/gid.h"
#include "ffr/remote/remote.h"

struct nic_conf nic_rig_conf = {
	.name = "fake0", .port = 1, .gid_index = -1, .direct = true, .no_worker = true
};

static struct nic_rig *woken;

static void work_wake(struct fast_host *h)
{
	(void)h;
	__atomic_fetch_add(&woken->wakes, 1, __ATOMIC_RELAXED); /* threads of the NIC's do, too */
}

const struct carrier_use *nic_rig_carriers(const struct nic_conf *conf)
{
	static struct carrier_use list[] = { { 0 }, { .ops = &wire_carrier }, { 0 } };

	list[0] = (struct carrier_use){ &nic_carrier, conf };
	return list;
}

void nic_rig_init(struct rig *r, const struct nic_conf *conf)
{
	rig_carriers = nic_rig_carriers(conf);
	rig_init(r, &soft_ops);
	rig_carriers = NULL;
}

void nic_rig_open(struct nic_rig *n)
{
	*n = (struct nic_rig){ 0 };
	woken = n;
	nic_rig_init(&n->r, &nic_rig_conf);
	n->r.f->host->work_wake = work_wake;
	n->s = rig_session(&n->r, 0);
	n->cq = rig_cq(&n->r, n->s, 256, true);
	n->buf = aligned_alloc(FF_PAGE, NIC_RIG_BUF);
	memset(n->buf, 0xa5, NIC_RIG_BUF);
	n->mr = rig_mr(&n->r, n->s, n->buf, NIC_RIG_BUF, NIC_RIG_ACCESS);
}

void nic_rig_open_qp(struct nic_rig *n, enum ibv_qp_type type)
{
	nic_rig_open(n);
	n->qp = rig_qp(&n->r, n->s, type, n->cq, n->cq, NULL);
	n->ib = nic_rig_ib(n->qp);
}

void nic_rig_open_rts(struct nic_rig *n, enum ibv_qp_type type)
{
	nic_rig_open_qp(n, type);
	nic_rig_connect(n, n->qp);
	rig_run(&n->r);
}

void nic_rig_close(struct nic_rig *n)
{
	if (n->qp)
		rig_qp_free(&n->r, n->qp);
	if (n->mr)
		rig_mr_free(&n->r, n->mr);
	rig_cq_free(&n->r, n->cq);
	rig_session_free(&n->r, n->s);
	rig_fini(&n->r);
	free(n->buf);
	assert_true(fake_nic_is_clean());
}

static int setup(void **state, enum ibv_qp_type type)
{
	static struct nic_rig n;

	fake_nic_reset();
	nic_rig_open_rts(&n, type);
	*state = &n;
	return 0;
}

int nic_rig_setup(void **state)
{
	return setup(state, IBV_QPT_RC);
}

int nic_rig_setup_uc(void **state)
{
	return setup(state, IBV_QPT_UC);
}

int nic_rig_teardown(void **state)
{
	nic_rig_close(*state);
	return 0;
}

void nic_rig_attr(struct nic_rig *n, struct rig_qp *q)
{
	struct ff_qp_attr *a = &q->qp.attr;

	a->qp_access_flags = NIC_RIG_ACCESS;
	a->path_mtu = IBV_MTU_1024;
	a->dest_qp_num = 0x4321;
	a->rq_psn = 0x111;
	a->sq_psn = 0x222;
	a->timeout = 14;
	a->retry_cnt = 3;
	a->rnr_retry = 5;
	a->min_rnr_timer = 12;
	a->max_rd_atomic = a->max_dest_rd_atomic = 1;
	a->ah = (struct ff_ah_attr){ .is_global = 1,
				     .sgid_index = (uint8_t)gid_nic_index(&n->r.cont[0]),
				     .hop_limit = 9,
				     .traffic_class = 8,
				     .flow_label = 7,
				     .sl = 6 };
	memcpy(a->ah.dgid, "\xfd\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\2", 16);
}

void nic_rig_connect(struct nic_rig *n, struct rig_qp *q)
{
	rig_state(&n->r, q, IBV_QPS_INIT);
	nic_rig_attr(n, q);
	rig_state(&n->r, q, IBV_QPS_RTR);
	rig_state(&n->r, q, IBV_QPS_RTS);
}

struct ibv_qp *nic_rig_ib(const struct rig_qp *q)
{
	assert_non_null(q->qp.nic);
	return q->qp.nic->ib;
}

void nic_rig_work(struct nic_rig *n)
{
	__atomic_store_n(&n->wakes, 0, __ATOMIC_RELAXED);
	nic_carrier.work(n->r.f, false);
}

void nic_rig_error(struct nic_rig *n)
{
	rig_state(&n->r, n->qp, IBV_QPS_ERR);
	nic_rig_work(n);
	rig_run(&n->r);
}

void nic_rig_events(struct nic_rig *n)
{
	struct fast *f = n->r.f;

	CARRIERS_FIRST(ready, f, &f->host->nic[0].dev->ear[NIC_EAR_ASYNC], EPOLLIN);
	nic_rig_work(n);
	rig_run(&n->r);
}

void nic_rig_expect_event(struct nic_rig *n, enum ibv_event_type type, uint32_t handle)
{
	struct ff_async_event ev;

	assert_int_equal(recv(n->s->async, &ev, sizeof(ev), MSG_DONTWAIT), sizeof(ev));
	assert_int_equal(ev.event_type, type);
	assert_int_equal(ev.handle, handle);
}

void nic_rig_expect_no_event(struct nic_rig *n)
{
	struct ff_async_event ev;

	assert_int_equal(recv(n->s->async, &ev, sizeof(ev), MSG_DONTWAIT), -1);
}

uint64_t nic_rig_at(const struct nic_rig *n, uint64_t off)
{
	return (uintptr_t)n->buf + off;
}

void nic_rig_send(struct nic_rig *n, uint64_t wr_id, uint32_t len)
{
	rig_sge(rig_sqe(n->qp, FF_OP_SEND, wr_id), n->mr, nic_rig_at(n, 0), len);
	rig_post(&n->r, n->qp);
}

void nic_rig_recv(struct nic_rig *n, uint64_t wr_id, uint32_t len)
{
	rig_recv(&n->r, n->qp, wr_id, n->mr, nic_rig_at(n, 0), len);
}

void nic_rig_expect(struct nic_rig *n, uint64_t wr_id, enum ibv_wc_status st)
{
	struct ff_cqe c;

	assert_true(rig_poll(n->cq, &c));
	assert_int_equal(c.wr_id, wr_id);
	assert_int_equal(c.status, st);
}

void nic_rig_expect_none(struct nic_rig *n)
{
	struct ff_cqe c;

	assert_false(rig_poll(n->cq, &c));
}
