/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * runs.h - hosts ask each other whether a container runs, before one of them takes it over.
 * [lock]
 */
#ifndef FFR_WIRE_RUNS_H
#define FFR_WIRE_RUNS_H

#include <stdbool.h>
#include <stdint.h>

struct fast;
struct wire_peer;

/* wire_hdr.code of a RUNS */
enum wire_runs {
	WIRE_RUNS_NO = 1,
	WIRE_RUNS_YES,
	WIRE_RUNS_UNKNOWN,  /* it cannot be found out */
	WIRE_RUNS_NOT_HERE, /* that host does not have the container, or in another epoch */
	WIRE_RUNS_CLAIMED,  /* it was claimed a moment ago, and is about to be started */
	WIRE_RUNS_NUM
};

/* A question or an answer that came in. */
struct runs_frame {
	struct wire_peer *peer; /* a reference */
	uint32_t generation;	/* of the connection */
	bool is_answer;
	uint32_t container, epoch, number;
	uint8_t code; /* of an answer; any byte */
};

/* 0; -ENOTCONN: there is no connection now; -ENOBUFS. */
int wire_runs_ask(struct fast *f, struct wire_peer *p, uint32_t container, uint32_t epoch,
		  uint32_t number);
/* Answer a question, if its connection is still there. */
void wire_runs_tell(struct fast *f, const struct runs_frame *question, enum wire_runs code);
/*
 * The next frame, oldest first; who takes it calls peer_put(). False: there is none;
 * host->runs_frames() tells of more.
 */
bool wire_runs_take(struct fast *f, struct runs_frame *fr);

#endif
