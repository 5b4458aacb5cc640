/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cm_rig.h - clients of the connection manager in a test: sessions over real sockets (ctl_rig.h), a
 * channel each, calls and events in one line. Time passes when the test says so.
 */
#ifndef CM_RIG_H
#define CM_RIG_H

#include <rdma/rdma_cma.h>

#include "ffr/cm/cm.h"
#include "tests/rig/unit/ctl_rig.h"

/* Of the first two containers of a rig. */
#define A_IP "0.0.0.1"
#define B_IP "0.0.0.2"

struct cm_client {
	struct ctl_rig *g;
	int sock;
	uint32_t channel;
	int fd; /* the channel's */
};

struct cm_packet {
	struct ff_cm_event ev;
	uint8_t pd[FF_CM_PD_MAX];
};

/* A session in that container, with a channel. */
struct cm_client cm_open(struct ctl_rig *g, int container);
void cm_close(struct cm_client *c);
/* A rig with a client in each of two containers; nothing of the CM may be left at the end. */
void cm_two_open(struct ctl_rig *g, struct cm_client *a, struct cm_client *b);
void cm_two_close(struct ctl_rig *g, struct cm_client *a, struct cm_client *b);
/* The same as a test's set-up and its end. */
struct cm_two {
	struct ctl_rig rig;
	struct cm_client a, b;
};
extern struct cm_two cm_two;
int cm_two_setup(void **state);
int cm_two_teardown(void **state);
int cm_new_channel(struct cm_client *c, uint32_t *channel);

/* Addresses: "" is none, "0.0.0.2", "fd00::2", "::" …; cm_sib is AF_IB's for a GID. */
struct ff_cm_addr cm_sa(const char *ip, uint16_t port);
struct ff_cm_addr cm_sib(const char *gid, uint16_t ps, uint16_t port);
uint16_t cm_port_of(const struct ff_cm_addr *a);

/* The calls: 0 or -errno. uid is the low word of id's events; ids come with uid 0x1000 + ps. */
int cm_call(struct cm_client *c, uint16_t type, const void *req, size_t len, const void *pd,
	    size_t pd_len, void *resp, size_t resp_len);
uint32_t cm_new(struct cm_client *c, uint16_t ps);
int cm_do_bind(struct cm_client *c, uint32_t id, struct ff_cm_addr a, uint16_t *port);
int cm_do_listen(struct cm_client *c, uint32_t id, int backlog);
int cm_do_resolve(struct cm_client *c, uint32_t id, struct ff_cm_addr src, struct ff_cm_addr dst,
		  int timeout_ms);
int cm_do_route(struct cm_client *c, uint32_t id);
/* What connect and accept said last as their QP's number; it is another one each time. */
extern uint32_t cm_qpn[2];
int cm_do_connect(struct cm_client *c, uint32_t id, const void *pd, size_t len);
int cm_do_accept(struct cm_client *c, uint32_t id, uint64_t uid, const void *pd, size_t len);
int cm_do_reject(struct cm_client *c, uint32_t id, uint32_t reason, const void *pd, size_t len);
int cm_do_establish(struct cm_client *c, uint32_t id, uint32_t event);
int cm_do_disconnect(struct cm_client *c, uint32_t id);
int cm_do_destroy(struct cm_client *c, uint32_t id, uint32_t *events);
int cm_do_option(struct cm_client *c, uint32_t id, uint32_t level, uint32_t option, uint32_t value);
int cm_do_attr(struct cm_client *c, uint32_t id, int state, struct ff_cm_init_qp_attr_resp *resp);
int cm_do_query(struct cm_client *c, uint32_t id, struct ff_cm_query_resp *resp);
int cm_do_join(struct cm_client *c, uint32_t id, uint64_t uid, const char *group, uint32_t flags,
	       uint32_t *mc);
int cm_do_leave(struct cm_client *c, uint32_t id, uint32_t mc, uint32_t *events);

/* The next packet of the channel's descriptor. False: there is none. */
bool cm_next(struct cm_client *c, struct cm_packet *p);
bool cm_next_fd(struct cm_client *c, int fd, struct cm_packet *p);
/* It must be that event of that id; returns its status. */
int cm_expect(struct cm_client *c, uint32_t id, enum rdma_cm_event_type event, struct cm_packet *p);
/* There must be none. */
void cm_expect_none(struct cm_client *c);

/* A listener on the wildcard (AF_INET) with that port. */
uint32_t cm_listener(struct cm_client *c, uint16_t ps, uint16_t port, int backlog);
/* An id that may connect to that address, its events taken. */
/*
 * A request from a to B_IP, whose answer b makes longer than `most`, what it may have: it is refused, and so is the
 * request, which a is told by that event; its status.
 */
int cm_accept_too_long(struct cm_client *a, struct cm_client *b, uint16_t ps, uint16_t port,
		       size_t most, enum rdma_cm_event_type event);
uint32_t cm_routed(struct cm_client *c, uint16_t ps, const char *ip, uint16_t port);
/* A connection from `a` to the listener of `b`: both ids, all events taken. */
void cm_connected(struct cm_client *a, struct cm_client *b, const char *ip, uint16_t port,
		  uint32_t *ida, uint32_t *idb);

/* It is ms later than when the rig was opened: what was due until then happens. */
void cm_at(struct ctl_rig *g, uint64_t ms);

#endif
