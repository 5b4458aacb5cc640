/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_backend.h - a backend that carries nothing out: it counts, and completes when told.
 */
#ifndef FAKE_BACKEND_H
#define FAKE_BACKEND_H

#include "ffr/fast/backend.h"

extern const struct backend_ops fake_ops;

void fake_reset(void);
unsigned fake_posted(void); /* WRs posted since fake_reset() */
/* Complete the WR posted last. */
void fake_complete(struct fast *f, enum ibv_wc_status st);

#endif
