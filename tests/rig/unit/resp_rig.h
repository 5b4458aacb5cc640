/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * resp_rig.h - the responder of two_hosts.h, host 1's, and frames that are made for it by hand, so that they
 * come in any order.
 */
#ifndef RESP_RIG_H
#define RESP_RIG_H

#include "tests/rig/unit/two_hosts.h"

struct remote_qp *rem(const struct hosts *t);
void is_in(const struct hosts *t, enum rx_state want);
/* A part of a message: where it begins, its length. */
void part(struct hosts *t, struct wire_hdr *h, uint64_t offset, uint32_t n);
/* 20 bytes. */
struct wire_hdr write_of(struct hosts *t, uint32_t msn);
/* A message that is ahead: the peer is told of what is missing. */
void ahead(struct hosts *t);
/* The connection ends, and there is another one. */
void again(struct hosts *t);

#endif
