/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * status.h - what the router's status page shows: the page (page.c) and its numbers as JSON (status.c), which http.c
 * serves. Control thread.
 */
#ifndef FFR_ADMIN_STATUS_H
#define FFR_ADMIN_STATUS_H

#include <stdbool.h>
#include <stddef.h>

struct metrics_conf;
struct status;

/* HTML, and the value of the header Content-Security-Policy that goes with it. */
extern const char status_page[], status_policy[];

/*
 * The JSON is made in steps, between which the loop serves others: a host may have many containers, and each of
 * them many QPs. NULL: no memory.
 */
struct status *status_begin(const struct metrics_conf *conf);
/* Works for about STATUS_STEP_NS. True: there is more to do. */
#define STATUS_STEP_NS 1000000u
bool status_step(struct status *s);
/* Frees it. The text, to be freed, and its length; NULL: no memory. */
char *status_end(struct status *s, size_t *len);

#endif
