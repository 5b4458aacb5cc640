/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * metrics.h - what the router tells Prometheus: the text (metrics.c), and who serves it over HTTP
 * (http.c). Control thread.
 */
#ifndef FFR_ADMIN_METRICS_H
#define FFR_ADMIN_METRICS_H

#include <stddef.h>

#include <uv.h>

#include "ffr/ctl/ctl.h"

struct metrics;
struct peers;

/* Strings stay the caller's, and are there as long as it listens. */
struct metrics_conf {
	const char *where; /* "tcp:ADDR:PORT" of the loopback or "unix:/path" */
	const char *host;  /* this one's name */
	uv_loop_t *loop;
	struct ctl *ctl;
	struct peers *peers; /* NULL: a single host */
};
/* 0 or -errno. */
int metrics_start(struct metrics **out, const struct metrics_conf *conf);
void metrics_stop(struct metrics *m); /* NULL is fine; frees itself while the loop runs */

/* The exposition, to be freed, and its length. NULL without memory. */
char *metrics_text(const struct metrics_conf *conf, size_t *len);

#endif
