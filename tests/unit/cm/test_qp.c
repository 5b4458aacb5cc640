/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_qp.c - QPs that the router makes and moves for connections (ff_cm.h): with which
 * attributes, and that nothing is changed where it cannot be done.
 * build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c tests/rig/unit/ctl_calls.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/ctl_calls.h"
#include "ffr/cm/internal.h"
#include "ffr/ctl/container.h"

#define PORT 7471

static struct ctl_rig rig, *g = &rig;

/* A program: a session of the CM's, and one of the device's that it imports from. */
static struct program {
	struct cm_client cm;
	int dev;
	struct session *ses; /* the device's */
	uint32_t pd, cq;
} a, b;

static void program_device(struct program *p, int container, bool import)
{
	struct ff_import_device_req req;
	struct ff_import_device_resp resp;

	p->dev = call_client(g, container);
	p->ses = LIST_FIRST(&g->c[container]->sessions);
	p->pd = call_pd(g, p->dev);
	p->cq = call_cq(g, p->dev);
	memcpy(req.token, p->ses->import.token, sizeof(req.token));
	if (import)
		assert_int_equal(RIG_CALL(g, p->cm.sock, IMPORT_DEVICE, &req, &resp), 0);
}

static int setup(void **state)
{
	(void)state;
	cm_two_open(g, &a.cm, &b.cm);
	program_device(&a, 0, true);
	program_device(&b, 1, true);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	close(a.dev);
	close(b.dev);
	cm_two_close(g, &a.cm, &b.cm);
	return 0;
}

/* ---- calls ------------------------------------------------------------------------------------ */

static int create(struct program *p, uint32_t id, uint32_t type, struct ff_cm_create_qp_resp *resp)
{
	struct ff_cm_create_qp_req req = { .id = id, .qp = call_qp_req(p->pd, p->cq, type) };

	return RIG_CALL(g, p->cm.sock, CM_CREATE_QP, &req, resp);
}

static uint32_t make(struct program *p, uint32_t id)
{
	struct ff_cm_create_qp_resp resp;

	assert_int_equal(create(p, id, IBV_QPT_RC, &resp), 0);
	assert_int_equal(resp.qp_state, IBV_QPS_INIT);
	return resp.qp.qp;
}

static struct ff_qp_attr query(struct program *p, uint32_t qp)
{
	struct ff_query_qp_req req = { qp };
	struct ff_query_qp_resp resp;

	assert_int_equal(RIG_CALL(g, p->dev, QUERY_QP, &req, &resp), 0);
	return resp.attr;
}

static int accept_with(struct program *p, uint32_t id, uint32_t qp, uint8_t depth)
{
	struct ff_cm_accept_req req = {
		.id = id,
		.param = { .qp_num = 0xb2, .responder_resources = 3, .initiator_depth = depth },
		.uid = 1,
		.qp = qp,
	};
	struct ff_cm_accept_resp resp;

	return RIG_CALL(g, p->cm.sock, CM_ACCEPT, &req, &resp);
}

static int establish_with(struct program *p, uint32_t id, uint32_t qp)
{
	struct ff_cm_establish_req req = { .id = id, .event = UINT32_MAX, .qp = qp };
	struct ff_cm_establish_resp resp;

	return RIG_CALL(g, p->cm.sock, CM_ESTABLISH, &req, &resp);
}

/* A request that b has: both ids. What a says is cm_do_connect()'s: 3 resources, a depth of 4. */
static void request(uint32_t *ida, uint32_t *idb)
{
	struct cm_packet p;

	cm_listener(&b.cm, RDMA_PS_TCP, PORT, 0);
	*ida = cm_routed(&a.cm, RDMA_PS_TCP, B_IP, PORT);
	assert_int_equal(cm_do_connect(&a.cm, *ida, NULL, 0), 0);
	cm_expect(&b.cm, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	*idb = p.ev.id;
}

/* ---- tests ------------------------------------------------------------------------------------ */

static void both_sides_are_moved(void **state)
{
	struct ff_qp_attr at_a, at_b;
	uint32_t ida, idb, qpa, qpb;

	(void)state;
	request(&ida, &idb);
	qpa = make(&a, ida);
	qpb = make(&b, idb);
	assert_int_equal(query(&a, qpa).port_num, 1);
	/* as negotiated: the request is known on this side */
	assert_int_equal(query(&b, qpb).qp_access_flags, IBV_ACCESS_REMOTE_WRITE |
								 IBV_ACCESS_REMOTE_READ |
								 IBV_ACCESS_REMOTE_ATOMIC);

	assert_int_equal(accept_with(&b, idb, qpb, 2), 0);
	at_b = query(&b, qpb);
	assert_int_equal(at_b.qp_state, IBV_QPS_RTS);
	assert_int_equal(at_b.dest_qp_num, cm_qpn[0]);
	assert_int_equal(at_b.max_dest_rd_atomic, 3);
	assert_int_equal(at_b.max_rd_atomic, 2);
	assert_int_equal(at_b.retry_cnt, 5);
	assert_int_equal(at_b.rnr_retry, 6);

	cm_expect(&a.cm, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(query(&a, qpa).qp_state, IBV_QPS_INIT);
	cm_expect_none(&b.cm);
	assert_int_equal(establish_with(&a, ida, qpa), 0);
	cm_expect(&b.cm, idb, RDMA_CM_EVENT_ESTABLISHED, NULL);
	at_a = query(&a, qpa);
	assert_int_equal(at_a.qp_state, IBV_QPS_RTS);
	assert_int_equal(at_a.dest_qp_num, 0xb2);
	assert_int_equal(at_a.max_dest_rd_atomic, 2);
	assert_int_equal(at_a.max_rd_atomic, 3);
	assert_int_equal(at_a.sq_psn, at_b.rq_psn);
	assert_int_equal(at_a.rq_psn, at_b.sq_psn);
	assert_memory_equal(at_a.ah.dgid, &g->c[1]->gid[0], 16);
	assert_memory_equal(at_b.ah.dgid, &g->c[0]->gid[0], 16);
}

/* What cannot be moved keeps its state, nobody hears of it, and the id can be used again. */
static void refused_means_unchanged(void **state)
{
	struct ff_modify_qp_req err = { .mask = IBV_QP_STATE, .attr.qp_state = IBV_QPS_ERR };
	struct ff_modify_qp_resp resp;
	uint32_t ida, idb, qpb, plain;

	(void)state;
	request(&ida, &idb);
	qpb = make(&b, idb);
	plain = call_qp(g, b.dev, b.pd, b.cq);
	assert_int_equal(accept_with(&b, idb, qpb + 0x10000, 2), -EINVAL); /* another generation */
	assert_int_equal(accept_with(&b, idb, plain, 2), -EINVAL);	   /* in RESET */
	assert_int_equal(query(&b, plain).qp_state, IBV_QPS_RESET);
	/* the second step is not allowed, so there is no first one */
	assert_int_equal(accept_with(&b, idb, qpb, 200), -EINVAL);
	assert_int_equal(query(&b, qpb).qp_state, IBV_QPS_INIT);
	cm_expect_none(&a.cm);
	err.qp = plain = make(&b, idb);
	assert_int_equal(RIG_CALL(g, b.dev, MODIFY_QP, &err, &resp), 0);
	assert_int_equal(accept_with(&b, idb, plain, 2), -EINVAL);
	assert_int_equal(query(&b, plain).qp_state, IBV_QPS_ERR);

	assert_int_equal(accept_with(&b, idb, qpb, 2), 0);
	cm_expect(&a.cm, ida, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(establish_with(&a, ida, qpb), -EINVAL); /* b's handle */
	assert_int_equal(establish_with(&a, ida, make(&a, ida)), 0);
	cm_expect(&b.cm, idb, RDMA_CM_EVENT_ESTABLISHED, NULL);
	/* too late for another one */
	assert_int_equal(accept_with(&b, idb, make(&b, idb), 2), -EINVAL);
}

static void only_of_the_imported_session(void **state)
{
	struct ff_cm_create_qp_resp resp;
	struct program c = { .cm = cm_open(g, 1) };
	uint32_t id = cm_routed(&c.cm, RDMA_PS_TCP, B_IP, PORT), ida, idb, qpb;

	(void)state;
	program_device(&c, 1, false);
	assert_int_equal(create(&c, id, IBV_QPT_RC, &resp), -EINVAL);
	close(c.dev);
	cm_close(&c.cm);
	/* the device's session has ended */
	request(&ida, &idb);
	qpb = make(&b, idb);
	close(b.dev);
	rig_pump(g);
	assert_int_equal(accept_with(&b, idb, qpb, 2), -EINVAL);
	assert_int_equal(create(&b, idb, IBV_QPT_RC, &resp), -EINVAL);
	b.dev = call_client(g, 1);
}

static void a_qp_that_cannot_be_used_is_not_made(void **state)
{
	struct ff_cm_create_qp_resp resp;
	uint32_t ida, idb, used = a.ses->tab[OBJ_QP].used;

	(void)state;
	/* not bound to a device; of a type with other attributes; an id that is over */
	assert_int_equal(create(&a, cm_new(&a.cm, RDMA_PS_TCP), IBV_QPT_RC, &resp), -EINVAL);
	request(&ida, &idb);
	assert_int_equal(create(&a, ida, IBV_QPT_UD, &resp), -EINVAL);
	assert_int_equal(create(&a, ida + 0x10000, IBV_QPT_RC, &resp), -EINVAL);
	assert_int_equal(cm_do_reject(&b.cm, idb, 0, NULL, 0), 0);
	assert_int_equal(create(&a, ida, IBV_QPT_RC, &resp), -EINVAL);
	assert_int_equal(a.ses->tab[OBJ_QP].used, used);
}

static void ud_is_ready_at_once(void **state)
{
	uint32_t id = cm_routed(&a.cm, RDMA_PS_UDP, B_IP, PORT);
	struct ff_cm_create_qp_resp resp;
	struct ff_cm_query_resp path;

	(void)state;
	assert_int_equal(create(&a, id, IBV_QPT_UD, &resp), 0);
	assert_int_equal(resp.qp_state, IBV_QPS_RTS);
	assert_int_equal(cm_do_query(&a.cm, id, &path), 0);
	assert_int_equal(query(&a, resp.qp.qp).qkey, path.qkey);
	assert_int_not_equal(path.qkey, 0);
}

/* Events tell what CM_QUERY would. */
static void events_have_the_path(void **state)
{
	struct ff_cm_query_resp q;
	struct cm_packet p;
	uint32_t id = cm_new(&a.cm, RDMA_PS_TCP);

	(void)state;
	cm_listener(&b.cm, RDMA_PS_TCP, PORT, 0);
	assert_int_equal(cm_do_resolve(&a.cm, id, cm_sa("", 0), cm_sa(B_IP, PORT), 1000), 0);
	cm_expect(&a.cm, id, RDMA_CM_EVENT_ADDR_RESOLVED, &p);
	assert_int_equal(cm_do_query(&a.cm, id, &q), 0);
	assert_memory_equal(&p.ev.path, &q, sizeof(q));
	assert_int_equal(q.port_num, 1);
	assert_int_equal(cm_do_option(&a.cm, id, RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, 9), 0);
	assert_int_equal(cm_do_route(&a.cm, id), 0);
	cm_expect(&a.cm, id, RDMA_CM_EVENT_ROUTE_RESOLVED, &p);
	assert_int_equal(p.ev.path.traffic_class, 9);
	assert_int_equal(cm_do_connect(&a.cm, id, NULL, 0), 0);
	cm_expect(&b.cm, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_query(&b.cm, p.ev.id, &q), 0);
	assert_memory_equal(&p.ev.path, &q, sizeof(q));
}

/* ---- several devices ---------------------------------------------------------------------------- */

#define B_SECOND_IP "0.0.0.9"

static void two_devices(struct container *c)
{
	struct container_ctl *ct = c->ctl;

	c->gid[1] = c->gid[0];
	c->gid[1].raw[15] = 9;
	c->num_gids = 2;
	ct->devices = 2;
}

/* Another session of b's, of that device, from which its CM's session may import. */
static struct program on_device(uint32_t device)
{
	struct ff_device_req req = { .index = device };
	struct ff_device_resp resp;
	struct program p = { .cm = b.cm };

	program_device(&p, 1, false);
	assert_int_equal(RIG_CALL(g, p.dev, DEVICE, &req, &resp), 0);
	return p;
}

static int import(const struct program *p)
{
	struct ff_import_device_req req;
	struct ff_import_device_resp resp;

	memcpy(req.token, p->ses->import.token, sizeof(req.token));
	return RIG_CALL(g, b.cm.sock, IMPORT_DEVICE, &req, &resp);
}

static int device_of(uint32_t id, uint32_t *device)
{
	struct ff_cm_device_req req = { .id = id };
	struct ff_cm_device_resp resp;
	int err = RIG_CALL(g, b.cm.sock, CM_DEVICE, &req, &resp);

	*device = resp.device;
	return err;
}

static uint8_t sgid_index_of_join(uint32_t id)
{
	struct cm_packet p;
	uint32_t mc;

	assert_int_equal(cm_do_join(&b.cm, id, 1, "239.1.1.1", RDMA_MC_JOIN_FLAG_FULLMEMBER, &mc),
			 0);
	cm_expect(&b.cm, id, RDMA_CM_EVENT_MULTICAST_JOIN, &p);
	return p.ev.ud_sgid_index;
}

/* The device of an id is the one whose first GID is the id's address, and its QPs are of that device's session. */
static void an_id_is_on_the_device_of_its_address(void **state)
{
	struct ff_cm_create_qp_resp resp;
	struct program first, second;
	uint32_t wild = cm_new(&b.cm, RDMA_PS_TCP), id0 = cm_new(&b.cm, RDMA_PS_TCP),
		 id1 = cm_new(&b.cm, RDMA_PS_TCP), device;

	(void)state;
	two_devices(g->c[1]);
	first = on_device(0);
	second = on_device(1);
	assert_int_equal(import(&first), -EINVAL); /* b.dev is of device 0, too */
	assert_int_equal(cm_do_bind(&b.cm, wild, cm_sa("0.0.0.0", 0), NULL), 0);
	assert_int_equal(cm_do_bind(&b.cm, id0, cm_sa(B_IP, 0), NULL), 0);
	assert_int_equal(cm_do_bind(&b.cm, id1, cm_sa(B_SECOND_IP, 0), NULL), 0);
	assert_int_equal(device_of(wild, &device), -EINVAL);
	assert_int_equal(device_of(id0 + 0x10000, &device), -EINVAL);
	assert_int_equal(device_of(id0, &device), 0);
	assert_int_equal(device, 0);

	/* a library that does not ask has device 0 only */
	make(&b, id1);
	assert_int_equal(device_of(id1, &device), 0);
	assert_int_equal(device, 1);
	assert_int_equal(create(&b, id1, IBV_QPT_RC, &resp),
			 -EINVAL); /* nothing is imported for it */
	assert_int_equal(import(&second), 0);
	assert_int_equal(import(&second), -EINVAL);
	assert_int_equal(second.ses->tab[OBJ_QP].used, 0);
	make(&second, id1);
	assert_int_equal(second.ses->tab[OBJ_QP].used, 1);
	make(&b, id0);
	assert_int_equal(second.ses->tab[OBJ_QP].used, 1);
	close(first.dev);
	close(second.dev);
}

/* Each device has its own address in the first place, and the router keeps the container's index. */
static void gid_indices_are_those_of_the_device(void **state)
{
	struct ff_cm_init_qp_attr_resp attr;
	struct program second;
	struct cm_packet p;
	uint32_t id, ud, qp, device;

	(void)state;
	two_devices(g->c[1]);
	second = on_device(1);
	assert_int_equal(import(&second), 0);
	ud = cm_new(&b.cm, RDMA_PS_UDP);
	assert_int_equal(cm_do_bind(&b.cm, ud, cm_sa(B_SECOND_IP, 0), NULL), 0);
	assert_int_equal(sgid_index_of_join(ud), 4);
	assert_int_equal(device_of(ud, &device), 0);
	assert_int_equal(sgid_index_of_join(ud), 0);

	cm_listener(&a.cm, RDMA_PS_TCP, PORT, 0);
	id = cm_new(&b.cm, RDMA_PS_TCP);
	assert_int_equal(cm_do_resolve(&b.cm, id, cm_sa(B_SECOND_IP, 0), cm_sa(A_IP, PORT), 1000),
			 0);
	cm_expect(&b.cm, id, RDMA_CM_EVENT_ADDR_RESOLVED, NULL);
	assert_int_equal(device_of(id, &device), 0);
	assert_int_equal(device, 1);
	assert_int_equal(cm_do_route(&b.cm, id), 0);
	cm_expect(&b.cm, id, RDMA_CM_EVENT_ROUTE_RESOLVED, NULL);
	qp = make(&second, id);
	assert_int_equal(cm_do_connect(&b.cm, id, NULL, 0), 0);
	cm_expect(&a.cm, 0, RDMA_CM_EVENT_CONNECT_REQUEST, &p);
	assert_int_equal(cm_do_accept(&a.cm, p.ev.id, 1, NULL, 0), 0);
	cm_expect(&b.cm, id, RDMA_CM_EVENT_CONNECT_RESPONSE, NULL);
	assert_int_equal(cm_do_attr(&b.cm, id, IBV_QPS_RTR, &attr), 0);
	assert_int_equal(attr.attr.ah.sgid_index, 0);
	assert_int_equal(establish_with(&second, id, qp), 0);
	assert_int_equal(query(&second, qp).ah.sgid_index, 0);
	assert_int_equal(qp_get_unsealed(second.ses, qp)->attr.ah.sgid_index, 4);
	close(second.dev);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

	log_level = LOG_LEVEL_ERR;
	return UNIT_RUN(TEST(both_sides_are_moved), TEST(refused_means_unchanged),
			TEST(only_of_the_imported_session),
			TEST(a_qp_that_cannot_be_used_is_not_made), TEST(ud_is_ready_at_once),
			TEST(events_have_the_path), TEST(an_id_is_on_the_device_of_its_address),
			TEST(gid_indices_are_those_of_the_device));
}
