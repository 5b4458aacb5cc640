/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ledger.h - what a router leaves of a session for the next one: memory that outlives the router, with the records of
 * objects, and with the objects themselves whose cursors the fast path moves. docs/internals/restart.md has the theory.
 *
 * A ledger is a memfd: a header, and chunks, each with slots of one kind. A slot has room for the live object (QPs,
 * CQs and SRQs; it is the router's private memory like any other), and two copies of the object's record. The control
 * thread makes and frees slots and writes records; runners use the objects in them.
 */
#ifndef FFR_OBJ_LEDGER_H
#define FFR_OBJ_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ffr/abi/ff_proto.h"

/*
 * Records: X(KIND, name, fields), fields: F(type, name) or A(type, name, elements). Fixed widths; the fields of a
 * record have no padding between them and are a multiple of 8 bytes. A change needs another LEDGER_VERSION.
 */
#define LEDGER_VERSION 2u

#define LEDGER_SESSION_FIELDS(F, A)                                                                \
	A(char, comm, 16)                                                                          \
	A(uint8_t, token, FF_TOKEN_SZ)                                                             \
	F(uint32_t, id)                                                                            \
	F(uint32_t, container)                                                                     \
	F(uint32_t, epoch)                                                                         \
	F(uint32_t, device)                                                                        \
	F(uint32_t, generation) /* of handles that are free */                                     \
	F(uint32_t, filters)                                                                       \
	F(uint32_t, has_track) /* SAVED_TRACK */                                                   \
	F(uint32_t, is_closed) /* some of its memory is */
#define LEDGER_SEG_FIELDS(F, A)                                                                    \
	F(uint64_t, size)                                                                          \
	F(uint32_t, id)                                                                            \
	F(uint32_t, pages) /* that were handed out at some time: none behind them was */
#define LEDGER_PD_FIELDS(F, A)                                                                     \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, reserved)
#define LEDGER_CHANNEL_FIELDS(F, A)                                                                \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, reserved)
#define LEDGER_CQ_FIELDS(F, A)                                                                     \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, seg)                                                                           \
	F(uint32_t, off)                                                                           \
	F(uint32_t, depth)                                                                         \
	F(uint32_t, flags)                                                                         \
	F(uint32_t, channel)                                                                       \
	F(uint32_t, mod_count)                                                                     \
	F(uint32_t, mod_period)
#define LEDGER_QP_FIELDS(F, A)                                                                     \
	F(uint64_t, user)                                                                          \
	F(uint64_t, attr_set)                                                                      \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, qp_num)                                                                        \
	F(uint32_t, type)                                                                          \
	F(uint32_t, sig_all)                                                                       \
	F(uint32_t, pd)                                                                            \
	F(uint32_t, scq)                                                                           \
	F(uint32_t, rcq)                                                                           \
	F(uint32_t, seg)                                                                           \
	F(uint32_t, off)                                                                           \
	F(uint32_t, sq_stride)                                                                     \
	F(uint32_t, rq_stride)                                                                     \
	F(uint32_t, block_self_lb)                                                                 \
	F(uint32_t, srq)                                                                           \
	F(uint32_t, reserved)                                                                      \
	A(uint8_t, attr, 128) /* struct ff_qp_attr */
#define LEDGER_MR_FIELDS(F, A)                                                                     \
	F(uint64_t, addr)                                                                          \
	F(uint64_t, length)                                                                        \
	F(uint64_t, iova)                                                                          \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, key)                                                                           \
	F(uint32_t, pd)                                                                            \
	F(uint32_t, access)                                                                        \
	F(uint32_t, why)                                                                           \
	F(uint32_t, tracked)
#define LEDGER_SRQ_FIELDS(F, A)                                                                    \
	F(uint64_t, user)                                                                          \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, pd)                                                                            \
	F(uint32_t, seg)                                                                           \
	F(uint32_t, off)                                                                           \
	F(uint32_t, depth)                                                                         \
	F(uint32_t, max_sge)                                                                       \
	F(uint32_t, num)                                                                           \
	F(uint32_t, reserved)
/* The receive that a QP has taken from its SRQ. */
#define LEDGER_RECV_FIELDS(F, A)                                                                   \
	F(uint32_t, qp)                                                                            \
	F(uint32_t, reserved)
#define LEDGER_AH_FIELDS(F, A)                                                                     \
	F(uint32_t, handle)                                                                        \
	F(uint32_t, pd)                                                                            \
	A(uint8_t, attr, 32) /* struct ff_ah_attr */

#define LEDGER_RECORDS(X)                                                                          \
	X(SESSION, session)                                                                        \
	X(SEG, seg)                                                                                \
	X(PD, pd)                                                                                  \
	X(CHANNEL, channel)                                                                        \
	X(CQ, cq)                                                                                  \
	X(QP, qp)                                                                                  \
	X(MR, mr)                                                                                  \
	X(AH, ah)                                                                                  \
	X(SRQ, srq)                                                                                \
	X(RECV, recv)

enum ledger_kind {
	LEDGER_NONE,
#define X(KIND, name) LEDGER_##KIND,
	LEDGER_RECORDS(X)
#undef X
		LEDGER_NUM_KINDS
};

#define LEDGER_F(type, name)	type name;
#define LEDGER_A(type, name, n) type name[n];
struct ledger_session {
	LEDGER_SESSION_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_seg {
	LEDGER_SEG_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_pd {
	LEDGER_PD_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_channel {
	LEDGER_CHANNEL_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_cq {
	LEDGER_CQ_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_qp {
	LEDGER_QP_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_mr {
	LEDGER_MR_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_ah {
	LEDGER_AH_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_srq {
	LEDGER_SRQ_FIELDS(LEDGER_F, LEDGER_A)
};
struct ledger_recv {
	LEDGER_RECV_FIELDS(LEDGER_F, LEDGER_A)
};
#undef LEDGER_F
#undef LEDGER_A

union ledger_record {
#define X(KIND, name) struct ledger_##name name;
	LEDGER_RECORDS(X)
#undef X
};

/* Cursors: X(KIND, type of the object, member, name). The ledger's head says where each lies, and how wide it is. */
#define LEDGER_CURSORS(X)                                                                          \
	X(CQ, cq, pi, cq_pi)                                                                       \
	X(CQ, cq, ci_seen, cq_ci_seen)                                                             \
	X(CQ, cq, overrun, cq_overrun)                                                             \
	X(SRQ, srq, head, srq_head)                                                                \
	X(SRQ, srq, lost, srq_lost)                                                                \
	X(SRQ, srq, limit, srq_limit)                                                              \
	X(SRQ, srq, error, srq_error)                                                              \
	X(RECV, recv_wr, wr_id, recv_wr_id)                                                        \
	X(RECV, recv_wr, num_sge, recv_num_sge)                                                    \
	X(QP, qp, sq.head, sq_head)                                                                \
	X(QP, qp, sq.cqes, sq_cqes)                                                                \
	X(QP, qp, rq.head, rq_head)                                                                \
	X(QP, qp, rq.done, rq_done)                                                                \
	X(QP, qp, srq_took, srq_took)                                                              \
	X(QP, qp, atom.at, atom_at)                                                                \
	X(QP, qp, atom.old, atom_old)                                                              \
	X(QP, qp, atom.new, atom_new)                                                              \
	X(QP, qp, atom.va, atom_va)                                                                \
	X(QP, qp, atom.ses, atom_ses)                                                              \
	X(QP, qp, atom.key, atom_key)                                                              \
	X(QP, qp, took, took)                                                                      \
	X(QP, qp, in_flight, in_flight)                                                            \
	X(QP, qp, state, state)                                                                    \
	X(QP, qp, busy, busy)                                                                      \
	X(QP, qp, torn, torn)                                                                      \
	X(QP, qp, draining, draining)                                                              \
	X(QP, qp, last_wqe_sent, last_wqe_sent)                                                    \
	X(QP, qp, comm_est_sent, comm_est_sent)

enum ledger_cursor {
#define X(KIND, type, member, name) LEDGER_CUR_##name,
	LEDGER_CURSORS(X)
#undef X
		LEDGER_NUM_CURSORS
};

/* Why a session cannot be restored: bits. X(NAME, text) */
#define LEDGER_BARS(X)                                                                             \
	X(ENDING, "it was ending")                                                                 \
	X(OBJECT, "it has, or had, an object that no router restores")                             \
	X(MEMORY, "it has, or had, memory that no router restores")                                \
	X(GROUP, "a QP of it is, or was, in a multicast group")                                    \
	X(REMOTE, "it has, or had, a QP whose peer is on another host")                            \
	X(CARRIER, "the host has a NIC")                                                           \
	X(LOST, "not all of it could be recorded")

enum ledger_bar {
#define X(NAME, text) LEDGER_BAR_##NAME,
	LEDGER_BARS(X)
#undef X
		LEDGER_NUM_BARS
};

struct container;
struct ledger;

/* ---- the router that has the session; control thread but where it says otherwise ------------ */

/* A new one, or NULL. Its memory is charged to the container, until ledger_free(); NULL: to nobody. */
struct ledger *ledger_new(struct container *c);
void ledger_free(struct ledger *l);    /* NULL: does nothing */
int ledger_fd(const struct ledger *l); /* it stays the ledger's */
/* A slot of that kind with an empty record, or 0: there is no memory. l NULL: 0. */
uint32_t ledger_slot_new(struct ledger *l, enum ledger_kind kind);
void ledger_erase(struct ledger *l,
		  uint32_t slot); /* there is no record any more; the slot stays taken */
void ledger_slot_free(struct ledger *l,
		      uint32_t slot); /* ledger_erase(), and the slot is free; 0: does nothing */
/* The slot's room for the live object, zeroed when the slot was made. */
void *ledger_live(struct ledger *l, uint32_t slot);
/* The record is this one from now on, or still the one before. rec: of the slot's kind. */
void ledger_write(struct ledger *l, uint32_t slot, const void *rec);
/* Any thread: the session cannot be restored. l NULL: does nothing. */
void ledger_bar(struct ledger *l, enum ledger_bar why);
/* A call of the session is under way, or not. l NULL: does nothing. */
void ledger_call(struct ledger *l, bool is_under_way);
/* Any thread, one at a time: something is taken from the kernel that it tells once. l NULL: does nothing. */
void ledger_event(struct ledger *l, bool is_under_way);

/* ---- the next router ------------------------------------------------------------------------ */

struct ledger_view;

/* Map and check a ledger that another router has left; fd stays the caller's. 0 or -errno; -EPROTO: not to be used. */
int ledger_open(int fd, struct ledger_view **v);
void ledger_close(struct ledger_view *v); /* NULL: does nothing */
/* Why its session cannot be restored as it says itself, or NULL. */
const char *ledger_barred(const struct ledger_view *v);
/*
 * The next record behind slot *at, 0 at first, of that kind: its copy, and *at. False: there is none. A record whose
 * two copies are both damaged is none, and ledger_is_damaged() is true from then on.
 */
bool ledger_next(struct ledger_view *v, enum ledger_kind kind, uint32_t *at, void *rec);
bool ledger_is_damaged(const struct ledger_view *v);
/* A cursor of the object whose record is in that slot. */
uint64_t ledger_cursor(const struct ledger_view *v, uint32_t slot, enum ledger_cursor which);
/* The bytes of the live object in that slot, from `off` on. False: it has not so many. */
bool ledger_bytes(const struct ledger_view *v, uint32_t slot, uint32_t off, void *to, uint32_t len);
/* All records, as text, for ffctl and the log. Returns the bytes that the text has, also if it is longer than size. */
size_t ledger_dump(struct ledger_view *v, char *text, size_t size);

#endif
