/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * hot.c - a session's library is told of the parts of its MRs that are used (WATCH_HEAT), so that its thread replaces
 * their pages (ffl/mem/heat.c). Control thread; on_ring(): a runner.
 *
 * Theory of operation
 * -------------------
 * Runners put such parts into the session's ring (mem/heat.c). A part waits for hot_delay, because who registers
 * memory, moves its bytes once and deregisters it is to have nothing replaced. While the container's files are not
 * mapped (mem/stall.c) all its parts wait, since new shadow pages would be refused, and a part is told of only once.
 * Then the library's thread, which sleeps in read(2) of a socket, gets an event, replaces what it can, and says
 * HEAT_DONE.
 *
 * A program may forbid system calls to all its threads at any time (seccomp(2) with SECCOMP_FILTER_FLAG_TSYNC). A
 * thread that makes one of these calls then ends the process. So the library's thread makes no call but read(2) until
 * it gets an event, and the router looks before it sends one: /proc/PID/status has the number of filters of the
 * process's first thread. When there are others than when the session began, nothing is sent any more, and the router
 * goes on copying. Nor is anything sent when the first thread has ended, since nobody can tell of the others then. An
 * event is of FF_HEAT_SLICE at most, and a look comes before each, so that a look is not older than the work of some
 * 2 ms. The library itself keeps filters that are installed by libc's syscall() out of that time.
 *
 * A process ends when its last thread does. So every LOOK_MS the router looks whether a process has no other threads
 * than the library's, and hangs up then.
 *
 * The keeper has opened the status by the process's number. So the file is no client's, and nobody can hold its lock.
 * Its text may be made long (group ids); then it counts as one that cannot be read, and is not read again.
 *
 * Tests: test_hot.c
 */
#include "ffr/ctl/hot.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/obj.h"
#include "ffr/ctl/session.h"
#include "ffr/mem/heat.h"
#include "ffr/mem/stall.h"
#include "ffr/obj/cpu.h"
#include "ffr/obj/quota.h"

#define STATUS_MAX 8192u /* bytes of the text that are read */
#define LOOK_MS	   2000u
#define BUSY_TRIES 8u /* at a part that has pages which must not be replaced now */
#define NEVER	   UINT64_MAX

uint64_t hot_delay = 20 * NS_PER_MS;

struct hot {
	struct heat_ring ring;
	LIST_ENTRY(hot) entry; /* ctl->hots */
	struct session *s;
	int sock;
	struct heat_part part; /* what is left of the part under way; len 0: there is none */
	uint64_t sent;	       /* bytes of it that the last event was about */
	bool waits;	       /* for HEAT_DONE */
	unsigned tries;
	bool over; /* the process has other filters, or its first thread has ended */
};

/* ---- the process ------------------------------------------------------------------------------- */

struct look {
	int filters;	/* of the first thread; -1: not known */
	bool has_ended; /* the first thread has */
	unsigned long threads;
};

/* The number, or letter, behind a line's name, such as "\nThreads:\t"; NULL: there is no such line. */
static const char *value(const char *text, const char *name)
{
	const char *p = strstr(text, name);

	return p ? p + strlen(name) : NULL;
}

static struct look look(int status_fd)
{
	char text[STATUS_MAX];
	struct look l = { .filters = -1 };
	ssize_t n = status_fd < 0 ? -1 : pread(status_fd, text, sizeof(text) - 1, 0);
	const char *state, *threads, *mode, *filters;

	if (n <= 0)
		return l;
	text[n] = '\0';
	state = value(text, "\nState:\t");
	threads = value(text, "\nThreads:\t");
	mode = value(text, "\nSeccomp:\t");
	filters = value(text, "\nSeccomp_filters:\t");
	l.has_ended = state && (*state == 'Z' || *state == 'X');
	if (threads)
		l.threads = strtoul(threads, NULL, 10);
	if (mode && *mode == '0')
		l.filters = 0;
	else if (mode && *mode == '2' && filters)
		l.filters = (int)strtol(filters, NULL, 10);
	return l;
}

int hot_filters(int status_fd)
{
	struct look l = look(status_fd);

	return l.has_ended ? -1 : l.filters;
}

static bool may_work(const struct session *s)
{
	return s->mem.filters >= 0 && hot_filters(s->mem.status_fd) == s->mem.filters;
}

/* ---- events ------------------------------------------------------------------------------------ */

/* The next event is sent, if it is time. In how many ms there is one; NEVER: something else comes first. */
static uint64_t next(struct hot *h)
{
	struct ff_heat_event e = { 0 };
	const struct heat_part *p;
	uint64_t now = uv_hrtime(), stalled;

	if (h->over || h->waits)
		return NEVER;
	if (!h->part.len) {
		p = heat_first(&h->ring);
		if (!p)
			return NEVER;
		h->part = *p;
		h->tries = 0;
		heat_took(&h->ring);
	}
	if (now - h->part.at < hot_delay)
		return (hot_delay - (now - h->part.at)) / NS_PER_MS + 1;
	stalled = stall_room_in(h->s->cont);
	if (stalled)
		return stalled;
	h->over = h->s->mem.filtered = !may_work(h->s);
	if (h->over)
		return NEVER;
	h->sent = h->part.len < FF_HEAT_SLICE ? h->part.len : FF_HEAT_SLICE;
	e.mr = h->part.mr;
	e.va = h->part.va;
	e.len = h->sent;
	h->waits = send(h->sock, &e, sizeof(e), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(e);
	h->over = !h->waits; /* the library's end is closed */
	return NEVER;
}

static void on_due(uv_timer_t *t);

static void due_in(struct ctl *ctl, uint64_t ms)
{
	if (ms != NEVER && (!uv_is_active((uv_handle_t *)&ctl->hot_due) ||
			    uv_timer_get_due_in(&ctl->hot_due) > ms))
		uv_timer_start(&ctl->hot_due, on_due, ms, 0);
}

static void serve(struct ctl *ctl)
{
	struct hot *h;

	LIST_FOREACH(h, &ctl->hots, entry) {
		uint64_t from = cpu_of_thread();

		due_in(ctl, next(h));
		ctl_charge(h->s->cont, from);
	}
}

static void on_due(uv_timer_t *t)
{
	serve(t->data);
}

static void on_wake(uv_async_t *a)
{
	serve(a->data);
}

/* [lock] Something is in the ring. */
static void on_ring(void *arg)
{
	uv_async_send(arg);
}

/* ---- the process's end ------------------------------------------------------------------------- */

/* The library has a thread for each session of the process that is in the list. */
static void hang_up(struct ctl *ctl, pid_t pid, unsigned long threads)
{
	unsigned long own = 0;
	struct hot *h;

	LIST_FOREACH(h, &ctl->hots, entry)
		own += h->s->pid == pid;
	if (threads > 1 + own)
		return;
	LIST_FOREACH(h, &ctl->hots, entry)
		if (h->s->pid == pid)
			shutdown(h->sock, SHUT_RDWR);
}

static void on_look(uv_timer_t *t)
{
	struct ctl *ctl = t->data;
	struct hot *h;

	LIST_FOREACH(h, &ctl->hots, entry) {
		uint64_t from = cpu_of_thread();
		struct look l = look(h->s->mem.status_fd);

		if (l.has_ended && l.threads)
			hang_up(ctl, h->s->pid, l.threads);
		ctl_charge(h->s->cont, from);
	}
}

/* ---- calls ------------------------------------------------------------------------------------- */

static int socket_new(struct session *s, struct hot *h, int *theirs)
{
	int pair[2], err = quota_charge(s->cont, QUOTA_FD, 1);

	if (err)
		return err;
	err = quota_charge(s->cont, QUOTA_MEMORY, QUOTA_SOCKET + sizeof(*h));
	if (err)
		goto err_fd;
	err = session_event_pair(pair);
	if (err)
		goto err_memory;
	h->sock = pair[0];
	*theirs = pair[1];
	return 0;

err_memory:
	quota_return(s->cont, QUOTA_MEMORY, QUOTA_SOCKET + sizeof(*h));
err_fd:
	quota_return(s->cont, QUOTA_FD, 1);
	return err;
}

int ctl_watch_heat(struct ctl_call *c, const struct ff_watch_heat_req *req,
		   struct ff_watch_heat_resp *resp)
{
	struct session *s = c->s;
	struct hot *h;
	int fd, err;

	(void)req;
	/*
	 * A NIC has what is there when an MR is registered. Between hosts a WRITE whose call goes to a worker is
	 * asked for again from there on. Replacing pages holds the lock of the address space that these calls want,
	 * so many go to workers then: QEMU's migration of 1 GB took 14.0 s with it and 9.5 without, and with
	 * rdma-pin-all 9.5 and 4.5.
	 */
	if (carriers_make_objects(s->fast) || c->ctl->host->wired)
		return -EOPNOTSUPP;
	if (s->mem.hot)
		return -EBUSY;
	if (!may_work(s))
		return -EPERM;
	h = calloc(1, sizeof(*h));
	if (!h)
		return -ENOMEM;
	err = socket_new(s, h, &fd);
	if (err) {
		free(h);
		return err;
	}
	h->s = s;
	h->ring.wake = on_ring;
	h->ring.arg = &c->ctl->hot_wake;
	if (LIST_EMPTY(&c->ctl->hots))
		uv_timer_start(&c->ctl->hot_look, on_look, LOOK_MS, LOOK_MS);
	LIST_INSERT_HEAD(&c->ctl->hots, h, entry);
	fast_lock_thread(c->s->fast);
	s->mem.hot = &h->ring;
	fast_unlock_thread(c->s->fast);
	ctl_reply_fd(c->reply, fd, true);
	resp->reserved = 0;
	return 0;
}

int ctl_heat_done(struct ctl_call *c, const struct ff_heat_done_req *req,
		  struct ff_heat_done_resp *resp)
{
	struct hot *h = (struct hot *)c->s->mem.hot;
	struct mr *mr;

	(void)resp;
	if (!h || !h->waits)
		return -EINVAL;
	mr = mr_get(c->s, h->part.mr);
	if (mr && req->why < FF_WHY_NUM && req->why != FF_WHY_UNUSED)
		mr->why = (uint8_t)req->why;
	h->waits = false;
	if (req->busy && ++h->tries < BUSY_TRIES) {
		h->part.at = uv_hrtime();
	} else {
		h->part.va += h->sent;
		h->part.len -= h->sent;
		h->tries = 0;
	}
	due_in(c->ctl, 0); /* when this call has been answered */
	return 0;
}

/* ---- life -------------------------------------------------------------------------------------- */

void hot_end(struct session *s)
{
	struct hot *h = (struct hot *)s->mem.hot;
	struct ctl *ctl = s->conn->ctl;

	if (!h)
		return;
	s->mem.hot = NULL;
	LIST_REMOVE(h, entry);
	if (LIST_EMPTY(&ctl->hots)) {
		uv_timer_stop(&ctl->hot_look);
		uv_timer_stop(&ctl->hot_due);
	}
	close(h->sock);
	quota_return(s->cont, QUOTA_FD, 1);
	quota_return(s->cont, QUOTA_MEMORY, QUOTA_SOCKET + sizeof(*h));
	free(h);
}

void hot_init(struct ctl *ctl)
{
	LIST_INIT(&ctl->hots);
	uv_async_init(ctl->loop, &ctl->hot_wake, on_wake);
	uv_timer_init(ctl->loop, &ctl->hot_due);
	uv_timer_init(ctl->loop, &ctl->hot_look);
	ctl->hot_wake.data = ctl->hot_due.data = ctl->hot_look.data = ctl;
}

void hot_close(struct ctl *ctl)
{
	uv_close((uv_handle_t *)&ctl->hot_wake, NULL);
	uv_close((uv_handle_t *)&ctl->hot_due, NULL);
	uv_close((uv_handle_t *)&ctl->hot_look, NULL);
}
