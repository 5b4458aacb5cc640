/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * metrics.h - what the router tells Prometheus: the text (metrics.c), and who serves it over HTTP
 * (http.c). Control thread.
 */
#ifndef FFR_ADMIN_METRICS_H
#define FFR_ADMIN_METRICS_H

#include <stddef.h>

#include "ffr/router.h"

struct metrics;

/* Listens at conf.metrics, where that is set. 0 or -errno. */
int metrics_start(struct router *r);
void metrics_stop(struct metrics *m); /* NULL is fine; frees itself while the loop runs */

/* The exposition, to be freed, and its length. NULL without memory. */
char *metrics_text(struct router *r, size_t *len);

#endif
