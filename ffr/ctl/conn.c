/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * conn.c - clients' connections, from their beginning to their end. Control thread. call.c serves what they ask.
 *
 * A connection belongs to the container whose socket it reached (container.c). It is closed, with its session, when the
 * client closes it or dies (pidfd: the descriptor may live on in a child), breaks the protocol, does not read its
 * responses, or has corrupted its shared memory (ctl_wake). A client that connects and does not say HELLO is closed
 * after a while; a container can hold so many of those only (container.c).
 *
 * Tests: test_ctl.c
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/conn.h"
#include "ffr/ctl/container.h"
#include "ffr/ctl/discard.h"
#include "ffr/ctl/hot.h"
#include "ffr/ctl/session.h"
#include "ffr/ctl/sysfs.h"
#include "ffr/lib/log.h"
#include "ffr/mem/stall.h"
#include "ffr/obj/cpu.h"
#include "ffr/obj/events.h"

#define END_NS	  1000000ull /* of sessions' ends in a turn: then calls have their turn */
#define END_SLICE 100000ull  /* of one session's, after which other sessions have theirs */
#define CONN_FDS  2u	     /* socket and pidfd */

uint64_t ctl_hello_patience = 5000;

/* ---- connections --------------------------------------------------------------------------- */

void ctl_conn_end(struct ctl_conn *conn, const char *why)
{
	struct container *c = conn->cont;
	uint64_t from = cpu_of_thread();

	ctl_conn_close(conn, why);
	ctl_charge(c, from);
}

static void on_silence(uv_timer_t *t)
{
	ctl_conn_end(t->data, "no HELLO came");
}

void ctl_conn_await_hello(struct ctl_conn *conn)
{
	uv_timer_start(&conn->hello, on_silence, ctl_hello_patience, 0);
}

void ctl_conn_heard(struct ctl_conn *conn)
{
	if (!conn->silent)
		return;
	conn->silent = false;
	uv_timer_stop(&conn->hello);
	container_heard(conn->cont);
}

/* The process has ended, though its socket may live on in a child: its memory is gone. */
static void on_process_exit(uv_poll_t *h, int status, int events)
{
	(void)status;
	(void)events;
	ctl_conn_end(h->data, NULL);
}

static void on_handle_closed(uv_handle_t *h)
{
	struct ctl_conn *conn = h->data;

	if (--conn->open_handles)
		return;
	close(conn->peer.pidfd);
	free(conn);
}

static void handle_close(uv_handle_t *h)
{
	if (h->data) /* set when it was initialized */
		uv_close(h, on_handle_closed);
}

static int poll_start(struct ctl_conn *conn, uv_poll_t *h, int fd, uv_poll_cb cb)
{
	int err = uv_poll_init(conn->ctl->loop, h, fd);

	if (err)
		return err;
	conn->open_handles++;
	h->data = conn;
	return uv_poll_start(h, UV_READABLE | UV_DISCONNECT, cb);
}

/* Takes fd, and pidfd, the peer's; -1: it is to be found. 0 or -errno. */
static int conn_create(struct container *c, int fd, int pidfd, struct ctl_conn **out)
{
	struct container_ctl *ct = c->ctl;
	struct ctl_conn *conn = calloc(1, sizeof(*conn));
	int err;

	if (!conn) {
		discard_socket(&ct->discard, fd);
		if (pidfd >= 0)
			close(pidfd);
		return -ENOMEM;
	}
	conn->ctl = ct->ctl;
	conn->cont = c;
	conn->fd = fd;
	err = pidfd < 0 ? ctl_peer_find(fd, &conn->peer) : ctl_peer_again(fd, pidfd, &conn->peer);
	if (err)
		goto err;
	err = quota_charge(c, QUOTA_FD, CONN_FDS);
	if (err)
		goto err_quota;
	err = quota_charge(c, QUOTA_MEMORY, QUOTA_SOCKET);
	if (err)
		goto err_fds;
	session_socket_bound(fd);
	TAILQ_INSERT_TAIL(&conn->ctl->conns, conn, entry);
	ct->num_silent++;
	conn->silent = true;
	uv_timer_init(conn->ctl->loop, &conn->hello); /* cannot fail, as the start of it */
	uv_timer_init(conn->ctl->loop, &conn->turn);
	conn->hello.data = conn->turn.data = conn;
	conn->open_handles = 2;
	ctl_conn_await_hello(conn);
	err = poll_start(conn, &conn->poll, fd, ctl_conn_readable);
	if (!err)
		err = poll_start(conn, &conn->pid_poll, conn->peer.pidfd, on_process_exit);
	if (err)
		ctl_conn_close(conn, "cannot be watched");
	else
		*out = conn;
	return err;

err_fds:
	quota_return(c, QUOTA_FD, CONN_FDS);
err_quota:
	quota_tell(c);
err:
	if (conn->peer.pidfd >= 0)
		close(conn->peer.pidfd);
	discard_socket(&ct->discard, fd);
	free(conn);
	return err;
}

int ctl_conn_create(struct container *c, int fd)
{
	struct ctl_conn *conn;

	return conn_create(c, fd, -1, &conn);
}

int ctl_conn_restore(struct container *c, int fd, int pidfd, struct ctl_conn **conn)
{
	return conn_create(c, fd, pidfd, conn);
}

void ctl_conn_restored(struct ctl_conn *conn, struct session *s)
{
	conn->ses = s;
	ctl_conn_heard(conn);
	atomic_store_explicit(&s->hdr->call.awake, 0, memory_order_relaxed);
}

/*
 * All ends in a turn of the loop share END_NS: a process that dies may have had hundreds of
 * sessions.
 */
static uint64_t ends_until(struct ctl *ctl)
{
	if (ctl->ends_turn != ctl->turn)
		ctl->ends_until = uv_hrtime() + END_NS;
	ctl->ends_turn = ctl->turn;
	return ctl->ends_until;
}

static void end_forget(struct ctl_conn *conn);
static bool end_later(struct ctl_conn *conn);
static void conn_end(struct ctl_conn *conn);

void ctl_conn_close(struct ctl_conn *conn, const char *why)
{
	struct session *s = conn->ses;
	char id[24] = "no session";

	if (conn->later && !conn->is_leaving) {
		ctl_call_leave(conn, why);
		if (conn->later->cancel && !conn->later->is_counted)
			conn->later->cancel(conn->later);
		return;
	}
	if (conn->later) { /* at once, now: on_later() closes it */
		if (conn->later->cancel)
			conn->later->cancel(conn->later);
		else
			CARRIERS_DO(work, conn->ctl->host->threads[0], true);
		if (!conn->ending)
			return;
	}
	if (conn->ending) { /* at once, now */
		end_forget(conn);
		conn_end(conn);
		return;
	}
	if (s)
		snprintf(id, sizeof(id), "session %u", s->id);
	if (s && s->mem.gone)
		stall_memory_gone(conn->cont, atomic_load(&s->mem.gone_ns));
	if (why)
		log_client(&conn->cont->log, LOG_LEVEL_WARN,
			   "container %s: pid %d (%s): %s closed: %s", conn->cont->name,
			   (int)conn->peer.pid, s ? s->comm : "?", id, why);
	else
		log_debug("container %s: pid %d: %s ended", conn->cont->name, (int)conn->peer.pid,
			  id);
	ctl_spin_forget(conn);
	if (s) {
		event_add_client(EVENT_CLOSED, conn->cont, "session %u of pid %d (%s)%s%s", s->id,
				 (int)s->pid, s->comm, why ? ": " : "", why ? why : "");
		session_end_begin(s);
		if (!session_end_some(s, ends_until(conn->ctl)) && end_later(conn))
			return;
	}
	conn_end(conn);
}

/* ---- ends that take long ------------------------------------------------------------------- */

/* ctl->ends, while there are any. */
struct ctl_ends {
	struct ctl *ctl;
	uv_idle_t idle;
	struct ctl_conn_list conns;
};

static void on_ends_closed(uv_handle_t *h)
{
	free(h->data);
}

static void end_forget(struct ctl_conn *conn)
{
	struct ctl_ends *ends = conn->ctl->ends;

	conn->ending = false;
	TAILQ_REMOVE(&ends->conns, conn, end);
	if (!TAILQ_EMPTY(&ends->conns))
		return;
	conn->ctl->ends = NULL;
	uv_close((uv_handle_t *)&ends->idle, on_ends_closed);
}

/* The next session goes on to end for a slice of time. */
static void end_go_on(struct ctl_ends *ends)
{
	struct ctl_conn *conn = TAILQ_FIRST(&ends->conns);
	struct container *c = conn->cont;
	uint64_t from = cpu_of_thread();

	TAILQ_REMOVE(&ends->conns, conn, end);
	TAILQ_INSERT_TAIL(&ends->conns, conn, end);
	if (session_end_some(conn->ses, uv_hrtime() + END_SLICE)) {
		end_forget(conn);
		conn_end(conn);
	}
	ctl_charge(c, from);
}

static void on_ends(uv_idle_t *h)
{
	struct ctl_ends *ends = h->data;
	struct ctl *ctl = ends->ctl;
	uint64_t until = uv_hrtime() + END_NS;

	do
		end_go_on(ends);
	while (ctl->ends && uv_hrtime() < until);
}

/* False: no memory for that. */
static bool end_later(struct ctl_conn *conn)
{
	struct ctl *ctl = conn->ctl;

	if (!ctl->ends) {
		ctl->ends = calloc(1, sizeof(*ctl->ends));
		if (!ctl->ends)
			return false;
		ctl->ends->ctl = ctl;
		TAILQ_INIT(&ctl->ends->conns);
		uv_idle_init(ctl->loop, &ctl->ends->idle);
		ctl->ends->idle.data = ctl->ends;
		uv_idle_start(&ctl->ends->idle, on_ends);
	}
	uv_poll_stop(&conn->poll);
	uv_poll_stop(&conn->pid_poll);
	uv_timer_stop(&conn->turn);
	shutdown(conn->fd, SHUT_RDWR);
	conn->ending = true;
	TAILQ_INSERT_TAIL(&ctl->ends->conns, conn, end);
	return true;
}

/* It has no objects any more, or never had a session. */
static void conn_end(struct ctl_conn *conn)
{
	struct container_ctl *ct = conn->cont->ctl;

	if (conn->ses) {
		while (!session_end_some(conn->ses, UINT64_MAX))
			;
		session_end_finish(conn->ses);
	}
	quota_return(conn->cont, QUOTA_FD, CONN_FDS);
	quota_return(conn->cont, QUOTA_MEMORY, QUOTA_SOCKET);
	ctl_conn_heard(conn);
	conn->ses = NULL;
	conn->cont = NULL;
	TAILQ_REMOVE(&conn->ctl->conns, conn, entry);
	handle_close((uv_handle_t *)&conn->poll);
	handle_close((uv_handle_t *)&conn->pid_poll);
	handle_close((uv_handle_t *)&conn->hello);
	handle_close((uv_handle_t *)&conn->turn);
	discard_socket(&ct->discard, conn->fd); /* it is not polled any more */
}

/* ---- life ----------------------------------------------------------------------------------- */

static void on_turn_of_loop(uv_prepare_t *h)
{
	struct ctl *ctl = h->data;

	ctl->turn++;
}

int ctl_open(struct ctl *ctl, uv_loop_t *loop)
{
	int err = uv_async_init(loop, &ctl->wake, ctl_on_wake);

	if (!err)
		err = mem_init(&ctl->mem, loop);
	if (err)
		return err;
	ctl->wake.data = ctl;
	ctl->loop = loop;
	TAILQ_INIT(&ctl->conns);
	ctl->turn = 1;
	uv_prepare_init(loop, &ctl->turns);
	ctl->turns.data = ctl;
	uv_prepare_start(&ctl->turns, on_turn_of_loop);
	uv_unref((uv_handle_t *)&ctl->turns);
	ctl_spin_init(&ctl->spin, loop);
	sysfs_init(ctl);
	hot_init(ctl);
	return 0;
}

void ctl_close(struct ctl *ctl)
{
	uv_close((uv_handle_t *)&ctl->wake, NULL);
	uv_close((uv_handle_t *)&ctl->counters, NULL);
	hot_close(ctl);
	uv_close((uv_handle_t *)&ctl->turns, NULL);
	mem_close(&ctl->mem);
	ctl_spin_close(&ctl->spin);
	ctl_threads_close(ctl);
}

/* ---- the fast thread's complaints ---------------------------------------------------------- */

void ctl_session_bad(struct session *s, const char *why)
{
	if (s->conn->bad)
		return;
	s->conn->bad = why;
	uv_async_send(&s->conn->ctl->wake);
}

void ctl_on_wake(uv_async_t *h)
{
	struct ctl *ctl = h->data;
	struct ctl_conn *conn, *next;

	fast_lock(ctl->host);
	TAILQ_FOREACH(conn, &ctl->conns, entry) {
		if (conn->ses && conn->ses->mem.gone)
			conn->bad = "its shared memory is gone";
		conn->to_close = conn->ses && !conn->ending && !conn->is_leaving ? conn->bad : NULL;
	}
	fast_unlock(ctl->host);
	TAILQ_FOREACH_SAFE(conn, &ctl->conns, entry, next)
		if (conn->to_close)
			ctl_conn_end(conn, conn->to_close);
}

void ctl_memory_gone(void *arg)
{
	struct ctl *ctl = arg;

	uv_async_send(&ctl->wake);
}
