/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cms.h - ids of rdma_cm in each state that an id can be in, for the programs that try what each
 * function says to them.
 */
#ifndef CMS_H
#define CMS_H

#include "tests/rig/verbs/cmt.h"

/* The functions that cm_arguments_conn.c has cases for; cm_arguments.c has the others. */
#define CMS_CONN_NAMES(X)                                                                          \
	X(rdma_connect)                                                                            \
	X(rdma_accept)                                                                             \
	X(rdma_reject)                                                                             \
	X(rdma_reject_ece)                                                                         \
	X(rdma_establish)                                                                          \
	X(rdma_notify)                                                                             \
	X(rdma_disconnect)                                                                         \
	X(rdma_get_request)                                                                        \
	X(rdma_create_qp)                                                                          \
	X(rdma_create_qp_ex)                                                                       \
	X(rdma_destroy_qp)                                                                         \
	X(rdma_create_srq)                                                                         \
	X(rdma_create_srq_ex)                                                                      \
	X(rdma_destroy_srq)                                                                        \
	X(rdma_init_qp_attr)                                                                       \
	X(rdma_create_ep)                                                                          \
	X(rdma_destroy_ep)

/* RC unless the name says UD. The kernel's rdma_cm and IB CM states are in brackets. */
#define CMS_STATES(X)                                                                              \
	X(IDLE)                                                                                    \
	X(BOUND_ANY)  /* to the wildcard: no device [ADDR_BOUND] */                                \
	X(BOUND)      /* to an address of the device [ADDR_BOUND] */                               \
	X(RESOLVED)   /* [ADDR_RESOLVED] */                                                        \
	X(ROUTED)     /* [ROUTE_RESOLVED] */                                                       \
	X(LISTEN_ANY) /* on the wildcard: no device [LISTEN] */                                    \
	X(LISTEN)     /* [LISTEN, LISTEN] */                                                       \
	X(REQ_SENT)   /* rdma_connect() called [CONNECT, REQ_SENT] */                              \
	X(REQ_RCVD)   /* of CONNECT_REQUEST [CONNECT, REQ_RCVD] */                                 \
	X(REP_SENT)   /* rdma_accept() called [CONNECT, REP_SENT] */                               \
	X(REP_RCVD)   /* of CONNECT_RESPONSE [CONNECT, REP_RCVD] */                                \
	X(ACTIVE)     /* connected [CONNECT, ESTABLISHED] */                                       \
	X(PASSIVE)    /* the same of the other side */                                             \
	X(ENDED)      /* of DISCONNECTED [DISCONNECT, TIMEWAIT] */                                 \
	X(REJECTED)   /* of REJECTED [CONNECT, IDLE] */                                            \
	X(UD_IDLE)                                                                                 \
	X(UD_BOUND)    /* [ADDR_BOUND] */                                                          \
	X(UD_RESOLVED) /* [ADDR_RESOLVED] */                                                       \
	X(UD_LISTEN)   /* [LISTEN, LISTEN] */                                                      \
	X(UD_REQ_SENT) /* rdma_connect() called [CONNECT, SIDR_REQ_SENT] */                        \
	X(UD_REQ_RCVD) /* of CONNECT_REQUEST [CONNECT, SIDR_REQ_RCVD] */                           \
	X(UD_DONE)     /* of ESTABLISHED [CONNECT, IDLE] */
#define ENUM(s) s,
enum cms_state { CMS_STATES(ENUM) NUM_STATES };
#define BIT(s) (1u << (s))
#define ALL    (BIT(NUM_STATES) - 1)
#define UD                                                                                         \
	(BIT(UD_IDLE) | BIT(UD_BOUND) | BIT(UD_RESOLVED) | BIT(UD_LISTEN) | BIT(UD_REQ_SENT) |     \
	 BIT(UD_REQ_RCVD) | BIT(UD_DONE))
#define NO_DEVICE (BIT(IDLE) | BIT(BOUND_ANY) | BIT(LISTEN_ANY) | BIT(UD_IDLE))
#define CONNECTED (BIT(ACTIVE) | BIT(PASSIVE))

struct cms {
	struct rdma_event_channel *ch;
	struct rdma_cm_id *id;		    /* in the state */
	struct rdma_cm_id *listener, *peer; /* or NULL */
};

struct cms cms_open(enum cms_state s);
void cms_close(struct cms *f);
/*
 * Without a QP: what a QP is needed for the program does. With a QP number that was not there before:
 * the kernel takes a request or a reply of a number that it knows already for a stale connection.
 */
struct rdma_conn_param cms_param(void);
/* The id of the CONNECT_REQUEST that is next in the channel. */
struct rdma_cm_id *cms_request(struct rdma_event_channel *ch);

/*
 * What `op` must give for an id of each state: 0 for those of `ok`, EINVAL for the others, nothing
 * for those that the real library would not survive. `op` is a call as CHECK_OK() takes it.
 */
struct cms_want {
	uint32_t ok, crashes, isconn;
};

void cms_in_states(const char *what, int (*op)(struct rdma_cm_id *id), struct cms_want want);
#define IN_STATES(op, ...) cms_in_states(#op, op, (struct cms_want){ __VA_ARGS__ })

#endif
