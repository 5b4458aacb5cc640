/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hot.h - a session's library is told of the parts of its MRs that are used. See hot.c. Control thread.
 */
#ifndef FFR_CTL_HOT_H
#define FFR_CTL_HOT_H

#include <stdbool.h>
#include <stdint.h>

struct ctl;
struct session;

void hot_init(struct ctl *ctl);
void hot_close(struct ctl *ctl); /* no session is left; its handles close while the loop runs */

/*
 * The seccomp filters of the first thread of the process whose /proc/PID/status is open, which nobody else may read.
 * -1: it has ended, is in strict mode, or it cannot be found out.
 */
int hot_filters(int status_fd);

/* The session goes; no runner knows it any more. */
void hot_end(struct session *s);

/* How long a part waits from its use until the library is told of it; ns. */
extern uint64_t hot_delay;

#endif
