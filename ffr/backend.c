/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * backend.c - the list of backends. Names are those of ffr.conf's `backend`.
 */
#include "ffr/fast/backend.h"

const struct backend_ops *const backends[] = { &soft_ops, NULL };
