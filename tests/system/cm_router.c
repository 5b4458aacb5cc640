/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/verbs/vt.c tests/rig/verbs/cmt.c -lrdmacm */
/*
 * cm_router.c - what rdma_cm says when the router dies: each id that has the device is told once that it is gone, and
 * then there is nothing more to come. cm_router.sh, which starts this, kills the router when "ready" is printed.
 */
#include "tests/rig/verbs/cmt.h"

#include <stdio.h>

static void removed(void)
{
	struct rdma_event_channel *quiet = cmt_channel();
	struct rdma_cm_id *unbound = cmt_id(quiet, RDMA_PS_TCP);
	struct rdma_cm_event *ev;
	struct cmt_pair p;
	bool active = false, passive = false;

	cmt_pair(&p);
	cmt_transfer(p.active, p.passive, 7);
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
	CHECK_ERR(rdma_get_cm_event(p.ch, &ev), EIO);
	CHECK_ERR(rdma_get_cm_event(quiet, &ev), EIO);
	CHECK_OK(rdma_destroy_id(unbound));
	rdma_destroy_event_channel(quiet);
	cmt_pair_close(&p);
}

VT_MAIN({ "removed", removed, 60 })
