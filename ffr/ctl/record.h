/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * record.h - what a session leaves for the next router (record.c), and how the next router makes it again
 * (restore.c). docs/internals/restart.md has the theory. Control thread.
 */
#ifndef FFR_CTL_RECORD_H
#define FFR_CTL_RECORD_H

#include "ffr/obj/ledger.h"
#include "ffr/obj/objects.h"

struct ctl;
struct ctl_conn;

/* ---- record.c: nothing is done for a session without a ledger ------------------------------------------------- */

/* The numbers of a session's descriptors at the keeper. */
enum {
	SAVED_LEDGER = 1,
	SAVED_CONN,
	SAVED_PIDFD,
	SAVED_MEM,
	SAVED_MAPS,
	SAVED_STATUS,
	SAVED_ASYNC,
	SAVED_BELL,
	SAVED_TRACK,
	SAVED_SEG = 0x10000,	  /* and its id */
	SAVED_CHANNEL = 0x100000, /* and the index of its handle */
};

/* A session has begun: record it, and have the keeper hold its descriptors. */
void record_session(struct session *s);
/* The session of a former router has begun: record it. Its descriptors are with the keeper already. */
void record_session_again(struct session *s);
/* All of it is recorded: the keeper holds this ledger in place of the former router's. 0 or -errno. */
int record_renew(struct session *s);
/* The session, or what its segments have given, has changed. */
void record_session_changed(struct session *s);
/* Its memory is tracked from now on. */
void record_track(struct session *s);
/* The session is about to have an object of that kind. */
void record_kind(struct session *s, enum obj_kind kind);
/* The object is complete, or has changed. */
void record_obj(struct obj *o);
/* The object is in no table any more. */
void record_gone(struct obj *o);
/* No lock: its descriptor is about to be closed. */
void record_channel_free(const struct channel *ch);
/* A zeroed object with cursors, in the ledger if there is one. NULL: no memory. */
void *record_live_new(struct session *s, enum ledger_kind kind, size_t size);
void record_live_free(struct session *s, struct obj *o); /* NULL: does nothing */
/* Of a QP with an SRQ, no lock: room in the ledger for the receive that it takes, qp->kept. */
void record_recv_new(struct qp *qp);
void record_recv_free(struct qp *qp); /* no lock; nobody uses it any more */

/* ---- restore.c -------------------------------------------------------------------------------------------------- */

/* The router begins: look what the last one has left, and end the sessions that nobody can restore. */
void sessions_look(struct ctl *ctl);
/* The host's containers are known: restore the others, or end them. Does it once. */
void sessions_restore(struct ctl *ctl);
/* The router ends, and the containers never were known: what is left stays with the keeper. */
void sessions_restore_stop(struct ctl *ctl);

/* ---- in the files of the objects: make one again, with its handle. 0 or -errno; -EPROTO: it is not sound ---- */

int pd_restore(struct session *s, const struct ledger_pd *r);
/* fd is the channel's afterwards, in any case. */
int channel_restore(struct session *s, const struct ledger_channel *r, int fd);
int cq_restore(struct ctl *ctl, struct session *s, const struct ledger_cq *r,
	       const struct ledger_view *v, uint32_t slot);
int srq_restore(struct ctl *ctl, struct session *s, const struct ledger_srq *r,
		const struct ledger_view *v, uint32_t slot);
int mr_restore(struct ctl *ctl, struct session *s, const struct ledger_mr *r);
int ah_restore(struct ctl *ctl, struct session *s, const struct ledger_ah *r);
/* In RESET, with its cursors; qp_go_on() gives it its state back, when the QP that it is connected to is there. */
int qp_restore(struct ctl *ctl, struct session *s, const struct ledger_qp *r,
	       const struct ledger_view *v, uint32_t slot);
/* The receive that a QP, which is there, had taken from its SRQ, if it had one. */
int recv_restore(struct session *s, const struct ledger_recv *r, const struct ledger_view *v,
		 uint32_t slot);
/*
 * Before the first qp_go_on(): has the last router left an atomic that may have been done? *ses: on that session's
 * memory.
 */
bool qp_atom_left(const struct qp *qp, uint32_t *ses);
/* Find out whether it was done. target NULL: that session is not there. */
void qp_atom_settle(struct ctl *ctl, struct qp *qp, struct session *target);
int qp_go_on(struct ctl *ctl, struct qp *qp, const struct ledger_qp *r, const struct ledger_view *v,
	     uint32_t slot);

#endif
