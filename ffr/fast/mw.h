/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * mw.h - memory windows: bind, invalidate, and what their rkeys open. See mw.c. [lock]
 */
#ifndef FFR_FAST_MW_H
#define FFR_FAST_MW_H

#include "ffr/obj/objects.h"

/* Carry out the bind in qp->wr. If it fails the window is as it was. */
enum ff_vendor_err mw_bind(struct qp *qp);
/* Invalidate a type 2 window that is bound to the QP; any other rkey is an error. */
enum ff_vendor_err mw_invalidate(struct qp *qp, uint32_t rkey);
/* The window is bound to nothing afterwards. */
void mw_unbind(struct mw *mw);
/* The QP goes: what is bound to it, but no more than max windows, is bound to nothing. True: all is. */
bool mw_qp_gone(struct qp *qp, uint32_t max);
/* The MR goes, and nobody finds it by its key any more: likewise what is bound to it. */
bool mw_mr_gone(struct mr *mr, uint32_t max);
#define WINDOWS_STEP 1024u /* that go before others get the lock: there may be 65,535 */

/*
 * Windows that were bound or unbound since they were asked for last, all containers in turn. NULL:
 * no more. [lock] of all threads
 */
struct mw *mw_next_changed(struct fast_host *h);
bool mw_any_changed(const struct fast_host *h);
void mw_note(struct mw *mw);		       /* it is one of them */
void mw_forget(struct fast *f, struct mw *mw); /* it is none, and goes */

/*
 * What a request that `qp` received may reach by a window's rkey: the MR and the address in it, as
 * mr->addr counts. `at` is all within the window, which grants the access.
 */
enum ff_vendor_err mw_resolve(const struct qp *qp, const struct pd *pd, const struct ff_sge *at,
			      uint32_t access, struct mr **mr, uint64_t *va);

#endif
