/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ffl_cm_rig.h - the library's connection manager in a test, which is the router: calls are answered in process,
 * channels are real sockets.
 */
#ifndef FFL_CM_RIG_H
#define FFL_CM_RIG_H

#include "tests/rig/unit/unit.h"
#include "ffl/cm/cm.h"

#define NUM_CHANNELS 8
#define NUM_IDS	     64
#define NUM_WAIT     4096

struct cm_router {
	struct ffl_context ctx;
	struct cm_session ses;
	/* of the next router, which is there when ctx is dead; session_err: it does not take us */
	struct ffl_context next_ctx;
	struct cm_session next_ses;
	int session_err;
	pthread_mutex_t lock;
	int channel[NUM_CHANNELS]; /* our ends; handle is the index + 1 */
	struct {
		bool live, held;
		uint32_t channel, written;
	} id[NUM_IDS]; /* by handle */
	struct {
		uint32_t id;
		struct ff_cm_event ev;
	} wait[NUM_WAIT]; /* events of held ids */
	unsigned num_wait;
	uint32_t next_id;
	int fail[FF_MSG_NUM]; /* answer with this -errno */
	uint32_t destroyed[NUM_IDS];
	unsigned num_destroyed;
	struct ff_cm_join_req join;
	/* the last of each */
	struct ff_cm_bind_req bind;
	struct ff_cm_listen_req listen;
	struct ff_cm_set_option_req option;
	struct ff_cm_addr local; /* what CM_QUERY tells */
	uint8_t port_num;	 /* what CM_QUERY and the events tell */
	unsigned attached, devices;
	unsigned qp_errors; /* QPs that were moved to the error state */
	int device_ret;
	int attach_ret;
};

extern struct cm_router cm_router;
/* An event happens. */
void cm_rig_event(struct ff_cm_event ev);
void cm_rig_simple(struct rdma_cm_id *id, enum rdma_cm_event_type type, int status);
/* The router ends: all that it has of channels and ids. The next one is there, as cm_session_get() sees it. */
void cm_rig_router_ends(void);
/* A connection request: the new id's handle. */
uint32_t cm_rig_request(struct rdma_cm_id *listener);

extern struct rdma_event_channel *cm_ch;
struct rdma_event_channel *cm_rig_new_channel(void);
int ffl_cm_rig_setup(void **state);
int ffl_cm_rig_teardown(void **state);
struct rdma_cm_id *cm_rig_new_on(struct rdma_event_channel *c);
void cm_rig_expect_none(struct rdma_event_channel *c);
void cm_rig_expect(struct rdma_event_channel *c, struct rdma_cm_id *id,
		   enum rdma_cm_event_type type, int status);

#define CM_RIG_TEST(f) cmocka_unit_test_setup_teardown(f, ffl_cm_rig_setup, ffl_cm_rig_teardown)

#endif
