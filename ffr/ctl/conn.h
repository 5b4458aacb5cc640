/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* conn.h - what conn.c (connections) and call.c (their calls) ask of each other. Control thread. */
#ifndef FFR_CTL_CONN_H
#define FFR_CTL_CONN_H

#include "ffr/ctl/ctl.h"

/* ---- conn.c ---- */
/* Close the connection, and charge what that costs to its container. why: of ctl_conn_close(). */
void ctl_conn_end(struct ctl_conn *conn, const char *why);
/* The connection has no session: close it unless HELLO comes in time. */
void ctl_conn_await_hello(struct ctl_conn *conn);
/* The connection has a session now, or goes. */
void ctl_conn_heard(struct ctl_conn *conn);

/* ---- call.c ---- */
/* The socket has packets, or has ended; uv_poll_cb. */
void ctl_conn_readable(uv_poll_t *h, int status, int events);
/* The connection is to end, but a call that is answered later has objects of it: read nothing more. */
void ctl_call_leave(struct ctl_conn *conn, const char *why);

#endif
