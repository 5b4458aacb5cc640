/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * session.h - the life of a session: one process that opened the device once.
 */
#ifndef FFR_CTL_SESSION_H
#define FFR_CTL_SESSION_H

#include "ffr/obj/objects.h"

struct ctl_conn;

/*
 * A session for that connection, known to the fast thread, with segment 0, bell and async socket;
 * *async_fd is the client's end of the latter, the caller's to close. mem and maps are the client's
 * /proc/self files, which the keeper has looked at and knows as keeper_id; they stay the caller's. The name and
 * status, the process's /proc/PID/status as the keeper has opened it, or -1, become the session's. 0 or -errno.
 */
int session_create(struct ctl_conn *conn, const char *comm, int mem, int maps, int status,
		   uint32_t keeper_id, struct session **out, int *async_fd);
struct ledger_session;
struct ledger_view;
/*
 * The session of a former router, whose connection that is, without its objects: it has a ledger of its own, which the
 * keeper does not hold yet. *r is checked here. 0 or -errno; -EPROTO: what was left is not sound; -EBUSY: some of its
 * memory was about to be replaced. *out is NULL, or a session that is to be ended.
 */
int session_restore(struct ctl_conn *conn, const struct ledger_session *r, struct ledger_view *v,
		    uint32_t keeper_id, struct session **out);
/*
 * Its end: all its objects go; peers see what they would see of a dead host. Its connection stays. The
 * second is called until it is true, and goes on until uv_hrtime() is `until` or a little later.
 */
void session_end_begin(struct session *s);
bool session_end_some(struct session *s, uint64_t until);
void session_end_finish(struct session *s);

/* A SEQPACKET pair for events: the router's end, [0], never blocks. 0 or -errno. */
int session_event_pair(int pair[2]);
/* What the router has sent there, and its client has not read, takes no more than is charged: QUOTA_SOCKET. */
void session_socket_bound(int fd);

/* If the client has sealed segment 0, hear its bells. 0 or -errno. */
int session_check(struct session *s);

/* Bytes that its shadow segments and the router's mappings of its rings take. */
uint64_t session_seg_bytes(const struct session *s, enum seg_kind kind);

#endif
