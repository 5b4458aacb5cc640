/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm */
/*
 * cm_router.c - what rdma_cm says when the router dies: each id that has the device is told once that it is gone, who waits
 * for an address that there is none, and then nothing more comes. cm_router.sh, which starts this, kills the router when
 * "ready" is printed.
 */
#include "tests/rig/verbs/cmt.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <stdio.h>

/*
 * The channel may be readable without an event: while no router is there, a connection to the socket that the keeper
 * holds waits for the next one, and ends with the keeper.
 */
static void no_event(struct rdma_event_channel *ch)
{
	struct rdma_cm_event *ev;
	int flags = fcntl(ch->fd, F_GETFL);

	CHECK_OK(fcntl(ch->fd, F_SETFL, flags | O_NONBLOCK));
	CHECK_ERR(rdma_get_cm_event(ch, &ev), EAGAIN);
	CHECK_OK(fcntl(ch->fd, F_SETFL, flags));
}

static void removed(void)
{
	struct rdma_event_channel *quiet = cmt_channel();
	struct rdma_cm_id *unbound = cmt_id(quiet, RDMA_PS_TCP), *asks = cmt_id(quiet, RDMA_PS_TCP),
			  *waits, *none;
	struct sockaddr_in nobody = { .sin_family = AF_INET };
	struct rdma_cm_event *ev;
	struct cmt_pair p;
	bool active = false, passive = false;

	cmt_pair(&p);
	cmt_transfer(p.active, p.passive, 7);
	CHECK_OK(rdma_create_id(NULL, &waits, NULL, RDMA_PS_TCP));
	CHECK_EQ(inet_pton(AF_INET, "192.0.2.77", &nobody.sin_addr), 1);
	CHECK_OK(rdma_resolve_addr(asks, NULL, (struct sockaddr *)&nobody, 100000));
	printf("ready\n");
	fflush(stdout);
	for (int i = 0; i < 2; i++) {
		CHECK_OK(rdma_get_cm_event(p.ch, &ev));
		CHECK_EQ(ev->event, RDMA_CM_EVENT_DEVICE_REMOVAL);
		active |= ev->id == p.active;
		passive |= ev->id == p.passive;
		CHECK_OK(rdma_ack_cm_event(ev));
	}
	CHECK(active && passive); /* and not the listener, which is bound to no device */
	no_event(p.ch);
	WANT_CM_ACK(quiet, asks, RDMA_CM_EVENT_ADDR_ERROR, -ENODEV);
	no_event(quiet);
	CHECK_ERR(rdma_resolve_addr(asks, NULL, (struct sockaddr *)&nobody, 1000), EIO);
	CHECK_ERR(rdma_create_id(quiet, &none, NULL, RDMA_PS_TCP), EIO);
	CHECK_ERR(rdma_create_id(NULL, &none, NULL, RDMA_PS_TCP), ENODEV);
	/* a synchronous id does not wait for a router */
	CHECK_ERR(rdma_resolve_addr(waits, NULL, (struct sockaddr *)&nobody, 1000), EIO);
	CHECK_ERR(rdma_get_cm_event(waits->channel, &ev), EIO);
	CHECK_OK(rdma_destroy_id(waits));
	cmt_close(quiet, unbound, asks, NULL);
	cmt_pair_close(&p);
}

VT_MAIN({ "removed", removed, 60 })
