/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * client.h - a connection to the orchestrator from a libuv loop: requests with callbacks. Used by
 * the router (ffr/orch/orch.c). Everything is called on the loop's thread.
 *
 * The connection begins with ffo_client_call(c, FFO_OP_HELLO, ...); nothing is sent by itself.
 * When it ends, every call under way is answered with -ECONNRESET, then `closed` is called; to
 * connect again is the caller's. The process must ignore SIGPIPE.
 *
 * The room ffo/client/ may use base/ and tls/.
 */
#ifndef FFO_CLIENT_CLIENT_H
#define FFO_CLIENT_CLIENT_H

#include <stdbool.h>
#include <uv.h>

#include "ffo/base/proto.h"

#define FFO_CLIENT_CALLS 4096u /* calls under way at once */

struct ffo_client;
struct tls;

/*
 * The answer to a call, once for each. err: 0 and `answer` is the message, which lives until the
 * return; or -errno: the orchestrator's, -ECONNRESET (the connection ended), -ECANCELED
 * (ffo_client_close()). `why`: one line for people when err is set, else "".
 * It may call ffo_client_call() and ffo_client_close().
 */
typedef void (*ffo_reply_cb)(void *arg, int err, const char *why, json_t *answer);
/*
 * The connection ended by itself: -errno (-ECONNREFUSED ..., -EPROTO: nonsense was received, -EACCES:
 * a certificate was not taken, the orchestrator's here or this side's there). The client must not be
 * used after the return; before, ffo_client_why() may have more to tell.
 */
typedef void (*ffo_closed_cb)(void *arg, int err);

/*
 * An event: a message that is no answer. `event` is its kind; `msg` lives until the return. It may call
 * ffo_client_call() and ffo_client_close(). One that is of no kind it knows is to be left alone.
 */
typedef void (*ffo_event_cb)(void *arg, const char *event, json_t *msg);

/* Over a connected Unix stream socket; takes fd in any case. 0 or -errno. */
int ffo_client_open(uv_loop_t *loop, int fd, ffo_closed_cb closed, void *arg,
		    struct ffo_client **c);
/*
 * To "unix:/path", "tcp:ADDRESS:PORT" or "tls:ADDRESS:PORT", where tls has this side's files and may
 * be NULL otherwise. Returns at once; calls may be made right away and are sent when the connection is
 * there. 0, -EINVAL (no such address), or -errno.
 */
int ffo_client_connect(uv_loop_t *loop, const char *address, struct tls *tls, ffo_closed_cb closed,
		       void *arg, struct ffo_client **c);
/* A line about what is wrong with its TLS; "": nothing is. */
const char *ffo_client_why(const struct ffo_client *c);
/* Has the orchestrator's certificate been revoked since? */
bool ffo_client_is_revoked(const struct ffo_client *c);
/* Who is told of events, with the arg of `closed`; NULL: nobody, they are dropped. */
void ffo_client_on_event(struct ffo_client *c, ffo_event_cb event);
/* Calls under way end with -ECANCELED before the return. `closed` is not called. NULL is fine. */
void ffo_client_close(struct ffo_client *c);

/*
 * Ask. Takes the reference `fields`: a JSON object with the op's fields, or NULL for none. cb is
 * called later, and only when this returns 0; or -ENOBUFS (FFO_CLIENT_CALLS under way), -ENOTCONN
 * (the connection has ended, or `closed` is about to tell so), -EMSGSIZE (longer than FFO_LINE_MAX),
 * -ENOMEM, -EINVAL (fields is no object).
 */
int ffo_client_call(struct ffo_client *c, enum ffo_op op, json_t *fields, ffo_reply_cb cb,
		    void *arg);

#endif
