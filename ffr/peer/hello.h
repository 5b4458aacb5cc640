/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hello.h - the two messages of the handshake between routers: made, and checked.
 */
#ifndef FFR_PEER_HELLO_H
#define FFR_PEER_HELLO_H

#include "ffr/peer/peer.h"

/* What a hello says, in the host's byte order. Pointers are into the hello. */
struct hello {
	uint16_t version; /* the highest that both speak; 0: there is none */
	enum wire_refusal status;
	uint64_t seq, oldest;
	const char *cluster, *host, *to, *instance;
};

/*
 * From a router that goes on, with another nonce each time; or, refused, without anything that tells
 * a stranger who we are.
 */
void hello_make(struct wire_hello *w, const struct hello *h);
void hello_make_refusal(struct wire_hello *w, enum wire_refusal why);
/*
 * What the peer has sent. 0, and *h points into *w; -EPROTO: *why tells what is wrong. Of a hello
 * that refuses, or that has no version in common, only these two are valid.
 */
int hello_parse(struct hello *h, const struct wire_hello *w, const char **why);

void verdict_make(struct wire_verdict *v, enum wire_refusal code);
/* enum wire_refusal, or -EPROTO. */
int verdict_parse(const struct wire_verdict *v);

const char *wire_refusal_str(enum wire_refusal why);

#endif
