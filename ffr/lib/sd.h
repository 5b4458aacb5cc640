/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sd.h - what a service manager and its service say to each other. See sd.c.
 */
#ifndef FFR_LIB_SD_H
#define FFR_LIB_SD_H

#include <stdbool.h>
#include <stdint.h>

/*
 * The listening Unix stream socket that was passed under that name, close-on-exec and non-blocking,
 * the caller's from now on; -ENOENT: none was; -EINVAL: it is something else. Once for each name.
 */
int sd_listener(const char *name);
/* Was something passed under that name? */
bool sd_is_passed(const char *name);
/* "READY=1" and the like, if somebody wants to know. */
void sd_notify(const char *state);
/* How often this process should say WATCHDOG=1, twice in the time that it has; 0: nobody waits for it. */
uint64_t sd_watchdog_ms(void);

#endif
