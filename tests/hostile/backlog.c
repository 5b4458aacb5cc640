/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c -lrdmacm -lpthread */
/*
 * backlog.c - for backlog.sh: a listener of rdma_cm with a short backlog that takes its time for each request, an
 * attacker that asks it for very many connections at once, without end, and a victim that asks it for one after the other.
 *
 *	backlog listen		says "listens" when it does
 *	backlog hold		the same, and takes no request before it has read a byte
 *	backlog flood HOST	says "attacks" when all have been asked for, and goes on until its standard input ends
 *	backlog ask HOST N	asks N times, one after the other, and tells how many requests the listener had taken
 *				before the first of them
 */
#include <netdb.h>
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/verbs/vt.h"

#define PORT	"7471"
#define BACKLOG 4
#define WORK_US 5000 /* of the listener's, for each request */
#define IDS	500u

static struct rdma_event_channel *ch;
static struct addrinfo *to;
static uint32_t qpn = 0x100; /* another one each time: a QP that is connected is refused */

/* *before: what a listener says with a rejection. */
static struct rdma_cm_id *next_event(enum rdma_cm_event_type *what, uint32_t *before)
{
	struct rdma_cm_event *e;
	struct rdma_cm_id *id;

	CHECK_OK(rdma_get_cm_event(ch, &e));
	*what = e->event;
	id = e->id;
	if (before && e->event == RDMA_CM_EVENT_REJECTED) {
		CHECK(e->param.conn.private_data_len >= sizeof(*before));
		memcpy(before, e->param.conn.private_data, sizeof(*before));
	}
	CHECK_OK(rdma_ack_cm_event(e));
	return id;
}

static void do_listen(bool hold)
{
	uint32_t before = 0;
	char c;
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(PORT)) };
	struct rdma_cm_id *l;

	CHECK_OK(rdma_create_id(ch, &l, NULL, RDMA_PS_TCP));
	CHECK_OK(rdma_bind_addr(l, (struct sockaddr *)&any));
	CHECK_OK(rdma_listen(l, BACKLOG));
	puts("listens");
	fflush(stdout);
	if (hold)
		CHECK(read(0, &c, 1) == 1);
	for (;;) {
		enum rdma_cm_event_type what;
		struct rdma_cm_id *id = next_event(&what, NULL);

		if (what != RDMA_CM_EVENT_CONNECT_REQUEST)
			continue;
		usleep(WORK_US);
		(void)rdma_reject(id, &before, sizeof(before)); /* its sender may have gone */
		before++;
		CHECK_OK(rdma_destroy_id(id));
	}
}

static void begin(void)
{
	struct rdma_cm_id *id;

	CHECK_OK(rdma_create_id(ch, &id, NULL, RDMA_PS_TCP));
	CHECK_OK(rdma_resolve_addr(id, NULL, to->ai_addr, 10000));
}

/* False: it has ended. */
static bool go_on(struct rdma_cm_id *id, enum rdma_cm_event_type what, bool *asked)
{
	struct rdma_conn_param param = { .qp_num = qpn++ & 0xffffff };

	switch (what) {
	case RDMA_CM_EVENT_ADDR_RESOLVED:
		CHECK_OK(rdma_resolve_route(id, 10000));
		return true;
	case RDMA_CM_EVENT_ROUTE_RESOLVED:
		CHECK_OK(rdma_connect(id, &param));
		*asked = true;
		return true;
	default:
		return false;
	}
}

static void *end_with_input(void *arg)
{
	char c;

	while (read(0, &c, 1) > 0)
		;
	_exit(0);
	return arg;
}

static void flood(void)
{
	unsigned num_asked = 0;
	pthread_t t;

	CHECK_EQ(pthread_create(&t, NULL, end_with_input, NULL), 0);
	for (unsigned i = 0; i < IDS; i++)
		begin();
	for (;;) {
		enum rdma_cm_event_type what;
		struct rdma_cm_id *id = next_event(&what, NULL);
		bool asked = false;

		if (!go_on(id, what, &asked)) {
			CHECK_OK(rdma_destroy_id(id));
			begin();
		}
		if (asked && ++num_asked == IDS) {
			puts("attacks");
			fflush(stdout);
		}
	}
}

static void ask(unsigned n)
{
	uint32_t first = 0;

	for (unsigned i = 0; i < n; i++) {
		enum rdma_cm_event_type what;
		struct rdma_cm_id *id;
		bool asked = false;
		uint32_t before = 0;

		begin();
		do
			id = next_event(&what, &before);
		while (go_on(id, what, &asked));
		CHECK_EQ(what, RDMA_CM_EVENT_REJECTED);
		CHECK_OK(rdma_destroy_id(id));
		first = i ? first : before;
	}
	printf("%u\n", first);
}

int main(int argc, char **argv)
{
	struct addrinfo want = { .ai_family = AF_INET };

	CHECK(argc > 1);
	ch = rdma_create_event_channel();
	CHECK(ch);
	if (!strcmp(argv[1], "listen") || !strcmp(argv[1], "hold"))
		do_listen(!strcmp(argv[1], "hold"));
	CHECK(argc > 2);
	CHECK_EQ(getaddrinfo(argv[2], PORT, &want, &to), 0);
	if (!strcmp(argv[1], "flood"))
		flood();
	CHECK(argc > 3);
	ask((unsigned)atoi(argv[3]));
	return 0;
}
