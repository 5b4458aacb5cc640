/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lrdmacm -lpthread */
/*
 * fault_cm.c - connections of rdma_cm that come and go between two programs, many at a time, until
 * SIGTERM: what is under way then still comes to its end. Any other event than the one that is due ends
 * the program. fault_cm.sh cuts and heals the link meanwhile.
 *
 *	fault_cm --server PORT
 *	fault_cm IP PORT
 */
#include "tests/rig/verbs/vt.h"

#include <arpa/inet.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#define SLOTS	   40u
#define RESOLVE_MS 60000 /* longer than any cut */
#define REFUSED	   28	 /* IB CM: consumer defined */
#define UD_QPN	   77

/* What becomes of a connection; the client tells the server with its private data. */
enum kind { CLIENT_ENDS, SERVER_ENDS, CLIENT_GOES, SERVER_REFUSES, DATAGRAMS, NUM_KINDS };

struct slot {
	struct rdma_cm_id *id; /* NULL: it has ended */
	enum kind kind;
};

static struct rdma_event_channel *ch;
static struct sockaddr_in addr = { .sin_family = AF_INET };
static struct slot slot[SLOTS];
static unsigned connections; /* that ended, or requests that came; without datagrams */
static volatile sig_atomic_t stop;

/* No two connections have the same QP's. */
static uint32_t next_qpn(void)
{
	static uint32_t last;

	return ++last & 0xffffff;
}

static void on_term(int sig)
{
	(void)sig;
	stop = 1;
}

/* ---- the client ------------------------------------------------------------------------------ */

static void begin(struct slot *s)
{
	enum rdma_port_space ps = s->kind == DATAGRAMS ? RDMA_PS_UDP : RDMA_PS_TCP;

	CHECK_OK(rdma_create_id(ch, &s->id, s, ps));
	CHECK_OK(rdma_resolve_addr(s->id, NULL, (struct sockaddr *)&addr, RESOLVE_MS));
}

static void end(struct slot *s)
{
	CHECK_OK(rdma_destroy_id(s->id));
	s->id = NULL;
	connections += s->kind != DATAGRAMS;
	s->kind = (s->kind + 1) % NUM_KINDS;
	if (!stop)
		begin(s);
}

/* Does the event end the connection, as it should? */
static bool client_event(struct slot *s, enum rdma_cm_event_type event, int status)
{
	struct rdma_conn_param param = { .private_data = &(uint8_t){ s->kind },
					 .private_data_len = 1,
					 .qp_num = next_qpn(),
					 .retry_count = 7 };

	switch (event) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		CHECK_OK(rdma_resolve_route(s->id, RESOLVE_MS));
		return false;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		CHECK_OK(rdma_connect(s->id, &param));
		return false;
	case RDMA_CM_EVENT_CONNECT_RESPONSE:
		CHECK_OK(rdma_establish(s->id));
		if (s->kind == CLIENT_ENDS)
			CHECK_OK(rdma_disconnect(s->id));
		if (s->kind <= CLIENT_GOES)
			return s->kind == CLIENT_GOES;
		break;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (!status && s->kind <= SERVER_ENDS)
			return true;
		break;
	case RDMA_CM_EVENT_REJECTED:
		if (status == REFUSED && s->kind == SERVER_REFUSES)
			return true;
		break;
	case RDMA_CM_EVENT_ESTABLISHED:
		if (s->kind == DATAGRAMS)
			return true;
		break;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return false;
	default:
		break;
	}
	FAIL("kind %u: %s, status %d", s->kind, rdma_event_str(event), status);
}

/* ---- the server ------------------------------------------------------------------------------ */

static void request(struct rdma_cm_id *id, enum kind kind)
{
	struct rdma_conn_param param = { .qp_num = kind == DATAGRAMS ? UD_QPN : next_qpn() };

	id->context = (void *)(uintptr_t)kind;
	connections += kind != DATAGRAMS;
	if (kind == SERVER_REFUSES)
		CHECK_OK(rdma_reject(id, NULL, 0));
	else
		CHECK_OK(rdma_accept(id, &param));
	if (kind == SERVER_REFUSES || kind == DATAGRAMS)
		CHECK_OK(rdma_destroy_id(id));
}

static void server_event(struct rdma_cm_id *id, enum rdma_cm_event_type event, int status)
{
	switch (event) {
	case RDMA_CM_EVENT_ESTABLISHED:
		if ((uintptr_t)id->context == SERVER_ENDS)
			CHECK_OK(rdma_disconnect(id));
		return;
	case RDMA_CM_EVENT_DISCONNECTED:
		if (status)
			break;
		CHECK_OK(rdma_destroy_id(id));
		return;
	case RDMA_CM_EVENT_TIMEWAIT_EXIT:
		return;
	default:
		break;
	}
	FAIL("%s, status %d", rdma_event_str(event), status);
}

/* ---- both ------------------------------------------------------------------------------------ */

static void next_event(bool is_server)
{
	enum rdma_cm_event_type event;
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;
	uint8_t kind = 0;
	int status;

	CHECK_OK(rdma_get_cm_event(ch, &e));
	id = e->id;
	event = e->event;
	status = e->status;
	if (event == RDMA_CM_EVENT_CONNECT_REQUEST) {
		const struct rdma_conn_param *p = id->ps == RDMA_PS_UDP ? (void *)&e->param.ud :
									  (void *)&e->param.conn;

		CHECK(p->private_data_len >= 1);
		kind = *(const uint8_t *)p->private_data;
		CHECK(kind < NUM_KINDS);
	}
	CHECK_OK(rdma_ack_cm_event(e));
	if (event == RDMA_CM_EVENT_CONNECT_REQUEST)
		request(id, kind);
	else if (is_server)
		server_event(id, event, status);
	else if (client_event(id->context, event, status))
		end(id->context);
}

static bool is_busy(bool is_server)
{
	for (unsigned i = 0; i < SLOTS; i++)
		if (slot[i].id)
			return true;
	return is_server && !stop;
}

int main(int argc, char **argv)
{
	struct sigaction act = { .sa_handler = on_term };
	bool is_server = argc == 3 && !strcmp(argv[1], "--server");
	struct rdma_cm_id *listener;
	unsigned told = 0;
	struct pollfd p;

	if (argc != 3)
		FAIL("usage: fault_cm --server PORT | IP PORT");
	sigaction(SIGTERM, &act, NULL);
	ch = CHECK_PTR(rdma_create_event_channel());
	addr.sin_port = htons((uint16_t)atoi(argv[2]));
	CHECK(is_server || inet_pton(AF_INET, argv[1], &addr.sin_addr) == 1);
	for (int ud = 0; is_server && ud < 2; ud++) {
		CHECK_OK(rdma_create_id(ch, &listener, NULL, ud ? RDMA_PS_UDP : RDMA_PS_TCP));
		CHECK_OK(rdma_bind_addr(listener, (struct sockaddr *)&addr));
		CHECK_OK(rdma_listen(listener, SLOTS));
	}
	for (unsigned i = 0; !is_server && i < SLOTS; i++) {
		slot[i].kind = i % NUM_KINDS;
		begin(&slot[i]);
	}
	p = (struct pollfd){ .fd = ch->fd, .events = POLLIN };
	setvbuf(stdout, NULL, _IOLBF, 0); /* who watches counts its lines */
	while (is_busy(is_server)) {
		if (poll(&p, 1, 100) > 0)
			next_event(is_server);
		if (connections >= told + 50) {
			told = connections;
			printf("%u connections\n", told);
		}
	}
	printf("%u connections\n", connections);
	return 0;
}
