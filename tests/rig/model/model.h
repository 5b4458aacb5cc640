/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * model.h - a client and a router that share a QP, a CQ and a session's page, for the explorer (c11.h). The client's
 * sources are in model_client.c, the router's in model_router.c, since the two may not see each other.
 */
#ifndef MODEL_H
#define MODEL_H

#include "tests/rig/model/c11_atomics.h"
#include "ffr/abi/ff_ring.h"

#define MODEL_DEPTH  2u
#define MODEL_HANDLE 5u /* of the QP and of the CQ */

struct model {
	_Alignas(FF_CACHELINE) uint8_t sq[MODEL_DEPTH * 64];
	_Alignas(FF_CACHELINE) uint8_t rq[MODEL_DEPTH * 32];
	struct ff_cqe cq[MODEL_DEPTH];
	struct ff_qp_hdr qp_hdr;
	struct ff_cq_hdr cq_hdr;
	struct ff_ses_hdr ses;
	_Atomic uint32_t bell;	/* the session's eventfd */
	_Atomic uint32_t event; /* packets in the completion channel */
	uint32_t body;		/* what an entry holds, or the program's data: not atomic */
};
extern struct model model;

/* Which of the words are the model's: the fewer, the fewer orders. */
enum model_part {
	MODEL_BELLS,
	MODEL_SQ,
	MODEL_RQ,   /* a receive in the place of one that was completed */
	MODEL_RECV, /* the first receive */
	MODEL_CQ,
	MODEL_LAP, /* a completion in the place of one that was polled */
	MODEL_LOCK
};

/* ---- client: model_client.c ---------------------------------------------------------------------- */

void client_reset(enum model_part part);
uint64_t client_state(void);
void client_send(void);		 /* posts an SQE; leaves the run where there is no room */
void client_receive(void);	 /* posts an RQE, likewise */
void client_receive_first(void); /* the same, with the data that it is for */
bool client_poll(void);		 /* takes a CQE; false: there is none */
void client_wait(void);		 /* the same: polls, arms, polls, sleeps */
void client_locked(void);	 /* changes what is not atomic with the SQ's lock held */
uint64_t client_user(void);	 /* what CQEs have of the QP */

/* ---- router: model_router.c ------------------------------------------------------------------------ */

void router_reset(uint32_t depth); /* of the rings */
uint64_t router_state(void);
/* Takes so many SQEs, and sleeps when there is none. rests: the QP, then the session, are armed by themselves before. */
void router_serve(uint32_t num, bool rests);
void router_take(uint32_t num); /* takes so many, or leaves the run */
void router_receive(void);	/* takes an RQE, and completes it */
void router_complete(void);	/* writes a CQE, and tells those who sleep */
void router_complete_lap(void); /* writes one more than there is room for, or leaves the run */

#endif
