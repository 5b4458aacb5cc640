/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * xrc.h - XRC domains: their shared receive queues by number, their XRC_RECV QPs. See xrc.c.
 */
#ifndef FFR_FAST_XRC_H
#define FFR_FAST_XRC_H

#include "ffr/obj/objects.h"

/* All of it [lock]. */

/* The domain of that file in the container, or NULL. */
struct xrcd *xrcd_find(const struct container *c, uint64_t dev, uint64_t ino);
/* One handle more; the first one makes the domain known to the container. */
void xrcd_hold(struct xrcd *x, struct container *c);
/* One handle less. True: it was the last, the domain is empty and the caller's to free. */
bool xrcd_release(struct xrcd *x, struct container *c);

/* The domain's SRQ of that number, or NULL. */
struct srq *xrcd_srq(const struct xrcd *x, uint32_t num);
/* Give it a number that no SRQ of the domain has, starting behind *last, and enter it. */
void xrc_srq_add(struct srq *srq, uint32_t *last);
/* Nobody delivers to it any more. */
void xrc_srq_del(struct fast *f, struct srq *srq);

/* What an XRC_RECV QP is made of besides a struct qp; no lock. NULL: no memory. */
struct qp *xrc_target_new(void);
void xrc_target_free(struct qp *t);
/* Enter a new one with its first handle. 0 or -errno. */
int xrc_target_add(struct fast *f, struct qp *t, struct qp *user);
/* The domain's XRC_RECV QP of that number, or NULL. */
struct qp *xrc_target_find(const struct container *c, const struct xrcd *x, uint32_t qpn);
/* A further handle. Each is told of the QP's events, at once; so there are no more than so many. */
#define XRCDS_MAX     1024u /* domains of a container, which are looked through by their files */
#define XRC_USERS_MAX 1024u
void xrc_user_add(struct qp *t, struct qp *user);
/* A handle goes; the last one takes the QP along. What is left to be freed, or NULL. */
struct qp *xrc_user_del(struct fast *f, struct qp *user);
/* The message at hand, and those that follow, go to that SRQ; NULL: to none. */
void xrc_target_bind(struct qp *t, struct srq *srq);

#endif
