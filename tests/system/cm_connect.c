/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm -lpthread */
/* test: netns */
/* all: docker system-san */
/* timeout: 360 */
/*
 * cm_connect.c - connections of rdma_cm within one container: which events come in which order, with
 * what; refusals, synchronous ids, a peer that dies, many at once. Ids are cm_ids.c's.
 */
#include "tests/rig/verbs/cmt.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define REJ_CONSUMER	28 /* IB CM: consumer defined */
#define REJ_NO_LISTENER 8  /* invalid service id */

/* ---- a connection from beginning to end ---------------------------------------------------------- */

static void check_data(const struct rdma_conn_param *p, const char *text)
{
	CHECK(p->private_data_len >= strlen(text));
	CHECK(p->private_data && !memcmp(p->private_data, text, strlen(text)));
}

static void connection(void)
{
	struct rdma_conn_param param = { .private_data = "hello",
					 .private_data_len = 5,
					 .responder_resources = 3,
					 .initiator_depth = 2,
					 .retry_count = 5,
					 .rnr_retry_count = 4 };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *b;
	struct ibv_qp_init_attr init;
	struct rdma_cm_event *e;
	struct ibv_qp_attr attr;
	int context;

	l->context = &context;
	CHECK(a->verbs && a->pd && a->port_num == 1);
	CHECK_EQ(a->route.num_paths, 1);
	CHECK_EQ(rdma_get_dst_port(a), rdma_get_src_port(l));
	CHECK_EQ(rdma_get_local_addr(a)->sa_family, AF_INET);
	cmt_qp(a);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_INIT);
	CHECK_OK(rdma_connect(a, &param));

	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK(b != l && e->listen_id == l && b->verbs == a->verbs);
	CHECK(b->context == &context);
	check_data(&e->param.conn, "hello");
	CHECK_EQ(e->param.conn.responder_resources, 2); /* what the peer may ask of us */
	CHECK_EQ(e->param.conn.initiator_depth, 3);
	CHECK_EQ(e->param.conn.retry_count, 5);
	CHECK_EQ(e->param.conn.rnr_retry_count, 4);
	CHECK_EQ(e->param.conn.qp_num, a->qp->qp_num);
	CHECK_EQ(rdma_get_dst_port(b), rdma_get_src_port(a));
	CHECK_EQ(rdma_get_src_port(b), rdma_get_src_port(l));
	CHECK_OK(rdma_ack_cm_event(e));

	cmt_qp(b);
	param.private_data = "welcome";
	param.private_data_len = 7;
	param.responder_resources = RDMA_MAX_RESP_RES;
	param.initiator_depth = RDMA_MAX_INIT_DEPTH;
	CHECK_OK(rdma_accept(b, &param));
	CHECK_EQ(vt_state(b->qp), IBV_QPS_RTS);
	e = WANT_CM(ch, a, RDMA_CM_EVENT_ESTABLISHED, 0);
	check_data(&e->param.conn, "welcome");
	CHECK_EQ(e->param.conn.qp_num, b->qp->qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_RTS);
	CHECK_OK(ibv_query_qp(a->qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.max_dest_rd_atomic, 3);
	CHECK_EQ(attr.max_rd_atomic, 2);
	CHECK_OK(ibv_query_qp(b->qp, &attr, IBV_QP_STATE, &init));
	CHECK_EQ(attr.max_dest_rd_atomic, 2);
	CHECK_EQ(attr.max_rd_atomic, 3);

	cmt_transfer(a, b, 1);
	cmt_transfer(b, a, 2);

	CHECK_OK(rdma_disconnect(a));
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_DISCONNECTED, 0);
	CHECK_OK(rdma_disconnect(b));
	WANT_CM_ACK(ch, a, RDMA_CM_EVENT_DISCONNECTED, 0);
	WANT_CM_ACK(ch, NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	WANT_CM_ACK(ch, NULL, RDMA_CM_EVENT_TIMEWAIT_EXIT, 0);
	CHECK_NO_EVENT(ch);
	rdma_destroy_qp(a);
	rdma_destroy_qp(b);
	CHECK(!a->send_cq && !a->recv_cq && !a->qp);
	cmt_close(ch, a, b, l, NULL);
}

/* The programs that keep the QP to themselves. */
static void own_qp(void)
{
	struct ibv_qp_init_attr init = { .cap = { 4, 4, 1, 1, 0 }, .qp_type = IBV_QPT_RC };
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *id[2];
	struct rdma_conn_param param = { .retry_count = 7, .rnr_retry_count = 7 };
	struct ibv_ece ece = { .vendor_id = 5, .options = 6 };
	struct rdma_cm_event *e;
	struct ibv_qp *qp[2];
	struct ibv_cq *cq = CHECK_PTR(ibv_create_cq(a->verbs, 16, NULL, NULL, 0));
	struct ibv_qp_attr attr;
	int mask;

	init.send_cq = init.recv_cq = cq;
	for (int i = 0; i < 2; i++)
		qp[i] = CHECK_PTR(ibv_create_qp(a->pd, &init));
	param.qp_num = qp[0]->qp_num;
	CHECK_OK(rdma_set_local_ece(a, &ece));
	CHECK_OK(rdma_connect(a, &param));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	id[0] = a;
	id[1] = e->id;
	CHECK_EQ(e->param.conn.qp_num, param.qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	ece = (struct ibv_ece){ 0 };
	CHECK_OK(rdma_get_remote_ece(id[1], &ece));
	CHECK_EQ(ece.vendor_id, 5);
	CHECK_EQ(ece.options, 6);
	param.qp_num = qp[1]->qp_num;
	CHECK_OK(rdma_accept(id[1], &param));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_CONNECT_RESPONSE, 0);
	CHECK_EQ(e->param.conn.qp_num, param.qp_num);
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_NO_EVENT(ch); /* the passive side hears nothing yet */
	for (int i = 0; i < 2; i++)
		for (int s = IBV_QPS_INIT; s <= IBV_QPS_RTS; s++) {
			attr.qp_state = (enum ibv_qp_state)s;
			CHECK_OK(rdma_init_qp_attr(id[i], &attr, &mask));
			CHECK_OK(ibv_modify_qp(qp[i], &attr, mask));
		}
	CHECK_OK(rdma_establish(a));
	WANT_CM_ACK(ch, id[1], RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_EQ(vt_state(qp[0]), IBV_QPS_RTS);
	for (int i = 0; i < 2; i++) {
		id[i]->qp = qp[i]; /* for the inline helpers */
		id[i]->send_cq = id[i]->recv_cq = NULL;
	}
	uint8_t *buf = vt_map(4096);
	struct ibv_mr *mr = CHECK_PTR(ibv_reg_mr(a->pd, buf, 4096, IBV_ACCESS_LOCAL_WRITE));

	vt_pattern(buf, 100, 9);
	CHECK_OK(rdma_post_recv(id[1], (void *)2, buf + 1000, 100, mr));
	CHECK_OK(rdma_post_send(id[0], (void *)1, buf, 100, mr, IBV_SEND_SIGNALED));
	WAIT_FOR(vt_mismatch(buf + 1000, 100, 9) < 0);
	for (int i = 0; i < 2; i++)
		CHECK_EQ(vt_wc(cq).status, IBV_WC_SUCCESS);
	CHECK_ERR(rdma_establish(a), EINVAL); /* it has a QP now */
	CHECK_OK(ibv_dereg_mr(mr));
	for (int i = 0; i < 2; i++) {
		CHECK_OK(ibv_destroy_qp(qp[i]));
		id[i]->qp = NULL;
		CHECK_OK(rdma_destroy_id(id[i]));
	}
	CHECK_OK(ibv_destroy_cq(cq));
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
}

static void rejected(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *b;
	struct rdma_cm_event *e;
	char data[200];

	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_ERR(rdma_reject(b, data, 149), EINVAL); /* 148 is what fits */
	CHECK_OK(rdma_reject(b, "no, thanks", 10));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	check_data(&e->param.conn, "no, thanks");
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	CHECK_OK(rdma_destroy_id(b));
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));

	/* a request that is destroyed is rejected, too */
	a = cmt_route(ch, l);
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	e = WANT_CM(ch, NULL, RDMA_CM_EVENT_CONNECT_REQUEST, 0);
	b = e->id;
	CHECK_OK(rdma_ack_cm_event(e));
	CHECK_OK(rdma_destroy_id(b));
	CHECK_OK(rdma_ack_cm_event(WANT_CM(ch, a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER)));
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));

	/* and one with a listener that goes before anybody took it out of the channel */
	a = cmt_route(ch, l);
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	WAIT_FOR(vt_readable(ch->fd, 0));
	CHECK_OK(rdma_destroy_id(l));
	e = WANT_CM(ch, a, RDMA_CM_EVENT_REJECTED, REJ_CONSUMER);
	CHECK_OK(rdma_ack_cm_event(e));
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));
	rdma_destroy_event_channel(ch);
}

static void nobody_listens(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *a = cmt_route(ch, l), *u;
	struct sockaddr_in sin = cmt_self();

	/* a port of another port space is another port */
	sin.sin_port = rdma_get_src_port(l);
	u = cmt_id(ch, RDMA_PS_UDP);
	CHECK_OK(rdma_bind_addr(u, (struct sockaddr *)&sin));
	CHECK_OK(rdma_destroy_id(l));
	cmt_qp(a);
	CHECK_OK(rdma_connect(a, NULL));
	WANT_CM_ACK(ch, a, RDMA_CM_EVENT_REJECTED, REJ_NO_LISTENER);
	CHECK_EQ(vt_state(a->qp), IBV_QPS_ERR);
	rdma_destroy_qp(a);
	CHECK_OK(rdma_destroy_id(a));
	CHECK_OK(rdma_destroy_id(u));
	rdma_destroy_event_channel(ch);
}

/* ---- synchronous ids ------------------------------------------------------------------------------ */

static struct rdma_addrinfo *own_address(int flags, uint16_t port)
{
	static struct sockaddr_in sin;
	struct rdma_addrinfo *ai = calloc(1, sizeof(*ai));

	sin = cmt_self();
	sin.sin_port = port;
	ai->ai_flags = flags;
	ai->ai_family = AF_INET;
	ai->ai_qp_type = IBV_QPT_RC;
	ai->ai_port_space = RDMA_PS_TCP;
	if (flags & RAI_PASSIVE) {
		ai->ai_src_addr = (struct sockaddr *)&sin;
		ai->ai_src_len = sizeof(sin);
	} else {
		ai->ai_dst_addr = (struct sockaddr *)&sin;
		ai->ai_dst_len = sizeof(sin);
	}
	return ai;
}

static void *sync_server(void *listener)
{
	struct rdma_cm_id *id;

	CHECK_OK(rdma_get_request(listener, &id));
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_CONNECT_REQUEST);
	CHECK(id->qp != NULL);
	CHECK_OK(rdma_accept(id, NULL));
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_ESTABLISHED);
	return id;
}

static void *sync_disconnect(void *arg)
{
	struct rdma_cm_id *id = arg;

	CHECK_OK(rdma_disconnect(id));
	CHECK_EQ(id->event->event, RDMA_CM_EVENT_DISCONNECTED);
	return NULL;
}

static void synchronous(void)
{
	struct ibv_qp_init_attr attr = { .cap = { 4, 4, 1, 1, 0 } };
	struct rdma_addrinfo *ai = own_address(RAI_PASSIVE, 0);
	struct rdma_cm_id *l, *a, *b;
	pthread_t t;
	void *ret;

	CHECK_OK(rdma_create_ep(&l, ai, NULL, &attr));
	CHECK_OK(rdma_listen(l, 0));
	free(ai);
	ai = own_address(0, rdma_get_src_port(l));
	CHECK_OK(pthread_create(&t, NULL, sync_server, l));
	CHECK_OK(rdma_create_ep(&a, ai, NULL, &attr));
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_ROUTE_RESOLVED);
	CHECK_OK(rdma_connect(a, NULL));
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_ESTABLISHED);
	pthread_join(t, &ret);
	b = ret;
	cmt_transfer(a, b, 3);
	CHECK_OK(pthread_create(&t, NULL, sync_disconnect, b)); /* each waits for the other */
	CHECK_OK(rdma_disconnect(a));
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_DISCONNECTED);
	pthread_join(t, NULL);
	CHECK_ERR(rdma_migrate_id(a, NULL), EINVAL);
	rdma_destroy_ep(a);
	rdma_destroy_ep(b);
	CHECK_ERR(rdma_get_request((struct rdma_cm_id *)cmt_id(cmt_channel(), RDMA_PS_TCP), &b),
		  EINVAL); /* not synchronous */

	/* nobody listens any more */
	rdma_destroy_ep(l);
	attr = (struct ibv_qp_init_attr){ .cap = { 4, 4, 1, 1, 0 } };
	CHECK_OK(rdma_create_ep(&a, ai, NULL, &attr));
	CHECK_ERR(rdma_connect(a, NULL), ECONNREFUSED);
	CHECK_EQ(a->event->event, RDMA_CM_EVENT_REJECTED);
	rdma_destroy_ep(a);
	free(ai);
}

/* ---- peers that die, many at once ------------------------------------------------------------------ */

static void peer_killed(void)
{
	struct rdma_event_channel *ch = cmt_channel();
	struct rdma_cm_id *l = cmt_listen(ch, RDMA_PS_TCP), *b;
	int go[2];
	pid_t pid;

	CHECK_OK(pipe(go));
	pid = fork();
	if (!pid) {
		struct rdma_event_channel *mine = cmt_channel();
		struct rdma_cm_id *a = cmt_id(mine, RDMA_PS_TCP);
		struct sockaddr_in sin;

		sin = cmt_self();
		CHECK_EQ(read(go[0], &sin.sin_port, 2), 2);
		cmt_resolve(a, (struct sockaddr *)&sin);
		cmt_qp(a);
		CHECK_OK(rdma_connect(a, NULL));
		WANT_CM_ACK(mine, a, RDMA_CM_EVENT_ESTABLISHED, 0);
		for (;;)
			pause();
	}
	uint16_t port = rdma_get_src_port(l);
	CHECK_EQ(write(go[1], &port, 2), 2);
	b = cmt_request(ch, l);
	cmt_qp(b);
	CHECK_OK(rdma_accept(b, NULL));
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_ESTABLISHED, 0);
	CHECK_OK(kill(pid, SIGKILL));
	WANT_CM_ACK(ch, b, RDMA_CM_EVENT_DISCONNECTED, 0);
	vt_child_status(pid);
	cmt_destroy(b);
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
}

/* Requests beyond the backlog wait at their senders; all are served in the end. */
static void backlog(void)
{
	enum { N = 40 };
	struct rdma_event_channel *ch = cmt_channel(), *chl = cmt_channel();
	struct sockaddr_in any = { .sin_family = AF_INET };
	struct rdma_cm_id *l = cmt_id(chl, RDMA_PS_TCP), *a[N], *b[N];

	CHECK_OK(rdma_bind_addr(l, (struct sockaddr *)&any));
	CHECK_OK(rdma_listen(l, 4));
	for (int i = 0; i < N; i++) {
		a[i] = cmt_route(ch, l);
		cmt_qp(a[i]);
	}
	for (int i = 0; i < N; i++)
		CHECK_OK(rdma_connect(a[i], NULL));
	for (int requests = 0, established = 0; requests < N || established < N;) {
		struct rdma_cm_event *e;

		CHECK(vt_readable(chl->fd, VT_WAIT_MS));
		CHECK_OK(rdma_get_cm_event(chl, &e));
		if (e->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
			b[requests++] = e->id;
			cmt_qp(e->id);
			CHECK_OK(rdma_accept(e->id, NULL));
			WANT_CM_ACK(ch, NULL, RDMA_CM_EVENT_ESTABLISHED, 0);
		} else {
			CHECK_EQ(e->event, RDMA_CM_EVENT_ESTABLISHED);
			established++;
		}
		CHECK_OK(rdma_ack_cm_event(e));
	}
	for (int i = 0; i < N; i++) {
		rdma_destroy_qp(a[i]);
		rdma_destroy_qp(b[i]);
		CHECK_OK(rdma_destroy_id(a[i]));
		CHECK_OK(rdma_destroy_id(b[i]));
	}
	CHECK_OK(rdma_destroy_id(l));
	rdma_destroy_event_channel(ch);
	rdma_destroy_event_channel(chl);
}

VT_MAIN({ "connection", connection, 0 }, { "own_qp", own_qp, 0 }, { "rejected", rejected, 0 },
	{ "nobody_listens", nobody_listens, 0 }, { "synchronous", synchronous, 0 },
	{ "peer_killed", peer_killed, 0 }, { "backlog", backlog, 0 })
