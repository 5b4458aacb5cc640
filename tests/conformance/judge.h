/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * judge.h - cases whose outcome is written down, for judge.c and judge_*.c.
 *
 * A case is one line of text, "NAME: WORD WORD ...": what a call answered, what it left behind, which
 * completions and events came. The words are the same wherever the same thing happens: no handles, QP
 * numbers, ports, addresses or times. What two devices may choose for themselves (how much they round
 * up) is written as what holds for both.
 *
 * Groups run in processes of their own, one after the other; so do cases that say so. What does not
 * come to its end says "hangs" or "crashes" in the line that it was at.
 */
#ifndef JUDGE_H
#define JUDGE_H

#include "tests/rig/verbs/vt.h"

struct judge_group {
	const char *name;
	void (*run)(void);
	unsigned seconds; /* time limit, before VT_SLOW; 0: 20 */
};

/* The tables of judge_*.c; each ends with a group without a name. */
extern const struct judge_group judge_qp[], judge_qp_make[], judge_wr[], judge_queue[], judge_cq[],
	judge_mr[], judge_dev[], judge_cm_state[], judge_cm_addr[], judge_cm_conn[],
	judge_cm_data[], judge_cm_misc[];
/* One of those: JUDGE_GROUPS(judge_qp, { "name", function, 0 }, ...). */
#define JUDGE_GROUPS(table, ...) const struct judge_group table[] = { __VA_ARGS__, { 0 } };

/* The next line begins; the one before is written. */
void j_case(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* One word more, or several. */
void j_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
/* "ok", or "EINVAL" of a verb that returned that, or "-1 EINVAL" of one that left it in errno. */
void j_ret(int ret);
#define J(expr)                                                                                    \
	({                                                                                         \
		int j_;                                                                            \
		errno = 0;                                                                         \
		j_ = (expr);                                                                       \
		j_ret(j_);                                                                         \
		j_;                                                                                \
	})
/* "ok", or "NULL EINVAL" */
#define J_PTR(expr)                                                                                \
	({                                                                                         \
		__typeof__(expr) j_;                                                               \
		errno = 0;                                                                         \
		j_ = (expr);                                                                       \
		j_ ? j_say("ok") : j_say("NULL %s", j_errno(errno));                               \
		j_;                                                                                \
	})
/* A case in a process of its own, in which it opens what it needs. */
void j_apart(void (*run)(const void *arg), const void *arg, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

const char *j_errno(int err); /* "EINVAL" */
const char *j_qp_type(enum ibv_qp_type t);
const char *j_qp_state(enum ibv_qp_state s);
const char *j_wr_opcode(enum ibv_wr_opcode op);
const char *j_wc_status(enum ibv_wc_status s);

/*
 * "wr7:RECV len=64", or "wr7:LOC_LEN_ERR", for each completion, until `num` came or `ms` went by without
 * one, which says "no more". The GRH flag is left out: rxe has it for RC, where it means nothing.
 */
void j_wcs(struct ibv_cq *cq, unsigned num, unsigned ms);
/* "QP_FATAL" for each async event that is there, acknowledged; 100 ms for the first if `wait`. */
void j_async(struct ibv_context *ctx, bool wait);

/* A QP towards itself, brought from whatever state into that one, its CQs emptied. */
void j_bring(struct vt_end *e, enum ibv_qp_state to);
extern const enum ibv_qp_state j_states[6]; /* those that a QP can be brought into */
extern const enum ibv_qp_type j_types[3];

#endif
