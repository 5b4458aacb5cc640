/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* internal.h - a connection of the wire: what tcp.c, tx.c and rx.c share. [lock] */
#ifndef FFR_WIRE_INTERNAL_H
#define FFR_WIRE_INTERNAL_H

#include "ffr/fast/internal.h"
#include "ffr/peer/io.h"
#include "ffr/peer/peer.h"
#include "ffr/wire/wire.h"

#define WIRE_RX_BUF   16384u
#define WIRE_MISC_MAX (256u * 1024) /* bytes of small frames that wait */

/* Where the connection's frames go to: the TCP stream, or the carrier beside it (RapidIO). */
enum out {
	OUT_STREAM,
	OUT_ASKED, /* the stream still, but wire_over() was called */
	OUT_LEAVING, /* the stream's last bytes, with OVER, are on their way; no other frame is begun */
	OUT_OVER, /* the carrier beside the stream */
};

struct wire_tcp {
	LIST_ENTRY(wire_tcp) entry;
	struct fast *f;
	const struct wire_ops *ops; /* wire_dev.ops */
	struct wire_peer *peer;
	struct wire_io *io;
	bool readable, writable;
	bool ending;	/* the other side has closed it, or it is broken */
	bool unflushed; /* TLS: bytes are inside the stream */
	bool dead;
	const char *why;
	uint64_t last_rx; /* ns */
	uint64_t asked;	  /* ns: of the oldest PING without an answer; 0: none */
	struct timer timer;

	/* sending */
	enum out out;
	TAILQ_HEAD(, wire_qp) txq;
	uint8_t *cut; /* rest of a frame that was cut; [sizeof(struct wire_hdr) + WIRE_PAYLOAD_MAX] */
	uint32_t cut_off, cut_len;
	uint8_t *misc; /* small frames; [WIRE_MISC_MAX] */
	uint32_t misc_off, misc_len;
	bool misc_full; /* somebody found no room */

	/* receiving */
	bool in_over; /* frames come from the carrier beside the stream */
	struct wire_hdr h;
	bool in_frame;
	bool is_held;	   /* until the next turn, because memory behind a process is waited for */
	uint32_t got;	   /* bytes of the frame's payload that are where they belong */
	uint32_t gathered; /* bytes behind `got` that wait in pbuf until the whole payload has come */
	const uint8_t *
		rest; /* bytes that have come and are being moved to their place, in rbuf or pbuf */
	uint32_t rest_len;
	enum sink sink;
	struct wire_qp *wq;  /* SINK_QP: NULL when the QP has gone */
	uint32_t rpos, rlen; /* bytes of rbuf that are not handled yet */
	uint8_t rbuf[WIRE_RX_BUF];
	uint8_t pbuf[WIRE_PAYLOAD_MAX]; /* payload that has to be moved, or goes nowhere */
};

/* tcp.c: the connection ends at the end of the turn. `why` stays. */
void wire_tcp_kill(struct wire_tcp *c, const char *why);

/* tx.c: is there anything to send? Send it; the number of frames. */
bool wire_tcp_has_tx(const struct wire_tcp *c);
uint32_t wire_tcp_tx(struct fast *f, struct wire_tcp *c);

/* rx.c: receive. The number of system calls that read something. */
uint32_t wire_tcp_rx(struct fast *f, struct wire_tcp *c);

#endif
