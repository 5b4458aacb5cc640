/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * runs.c - which containers run. Control thread.
 *
 * A container that runs is in use, also while none of its programs has the device open, so nobody
 * moves it to another host. Hooks of a runtime (ffr/oci) tell when it begins and ends. It is told
 * with the runtime's id, and only what is told with the same one ends it. The next router knows it
 * too (kept.c).
 *
 * Nobody tells of a container that was started with flags (ffctl container add --docker). So when
 * somebody is about to move a container, the keeper looks whether another mount namespace has its
 * folder, or its cgroup has processes (keeper/runs.c). That takes some ms where there are many
 * processes, so the answer comes later, and nothing is looked at before that.
 *
 * Tests: unit/ctl/test_runs.c, unit/keeper/test_keeper.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/keeper/keeper.h"

#define ASK_PATIENCE 3000 /* ms: the keeper looks at all processes of the host */
#define ASKS_MAX     64u  /* questions under way */

int container_runs_recall(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	char id[KEPT_MAX];
	int err = kept_read(c, KEPT_RUNS, id);

	if (err)
		return err == -ENOENT ? 0 : err;
	ct->runs = strdup(id);
	return ct->runs ? 0 : -ENOMEM;
}

bool container_runs_id_ok(const char *id)
{
	return *id && strlen(id) < RUNS_ID_MAX &&
	       !id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")];
}

int container_runs_tell(struct container *c, const char *id, bool runs)
{
	struct container_ctl *ct = c->ctl;
	char *copy;
	int err;

	if (!container_runs_id_ok(id))
		return -EINVAL;
	if (ct->runs && strcmp(ct->runs, id))
		return runs ? -EBUSY : 0;
	if (!runs) {
		free(ct->runs);
		ct->runs = NULL;
		kept_forget(ct->ctl, c->name, KEPT_RUNS);
	} else if (!ct->runs) {
		copy = strdup(id);
		err = copy ? kept_write(c, KEPT_RUNS, id) : -ENOMEM;
		if (err) {
			free(copy);
			return err;
		}
		ct->runs = copy;
	}
	if (ct->ctl->hooks)
		ct->ctl->hooks->session_changed(ct->ctl->orch);
	return 0;
}

/* ---- asked ----------------------------------------------------------------------------------- */

struct runs_ask {
	LIST_ENTRY(runs_ask) entry; /* ctl->runs_asks */
	struct ctl *ctl;
	container_runs_fn *fn;
	void *arg;
	int sock;
	uv_poll_t poll;
	uv_timer_t patience;
	unsigned open_handles;
};

static void on_closed(uv_handle_t *h)
{
	struct runs_ask *q = h->data;

	if (--q->open_handles)
		return;
	close(q->sock);
	free(q);
}

static void ask_end(struct runs_ask *q, enum container_runs runs, bool stale)
{
	LIST_REMOVE(q, entry);
	q->ctl->num_runs_asks--;
	uv_close((uv_handle_t *)&q->poll, on_closed);
	uv_close((uv_handle_t *)&q->patience, on_closed);
	q->fn(q->arg, runs, stale);
}

static void on_patience(uv_timer_t *t)
{
	ask_end(t->data, RUNS_UNKNOWN, false);
}

static void on_answer(uv_poll_t *h, int status, int events)
{
	struct runs_ask *q = h->data;
	struct keeper_ran ran;
	ssize_t n = recv(q->sock, &ran, sizeof(ran), MSG_DONTWAIT);

	(void)status;
	(void)events;
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n != sizeof(ran) || ran.err)
		ask_end(q, RUNS_UNKNOWN, false);
	else if (ran.found & (KEEPER_RUNS_MOUNTED | KEEPER_RUNS_CGROUP))
		ask_end(q, RUNS_YES, ran.found & KEEPER_RUNS_STALE);
	else
		ask_end(q, ran.found & KEEPER_RUNS_UNSURE ? RUNS_UNKNOWN : RUNS_NO,
			ran.found & KEEPER_RUNS_STALE);
}

/* False: it cannot be asked. */
static bool ask_keeper(struct ctl *ctl, int dir, const char *cgroup, container_runs_fn *fn,
		       void *arg)
{
	struct runs_ask *q = ctl->num_runs_asks < ASKS_MAX ? calloc(1, sizeof(*q)) : NULL;

	if (!q)
		return false;
	q->sock = keeper_runs(dir, cgroup);
	if (q->sock < 0 || uv_poll_init(ctl->loop, &q->poll, q->sock)) {
		if (q->sock >= 0)
			close(q->sock);
		free(q);
		return false;
	}
	uv_timer_init(ctl->loop, &q->patience);
	q->poll.data = q->patience.data = q;
	q->open_handles = 2;
	q->ctl = ctl;
	q->fn = fn;
	q->arg = arg;
	LIST_INSERT_HEAD(&ctl->runs_asks, q, entry);
	ctl->num_runs_asks++;
	uv_poll_start(&q->poll, UV_READABLE | UV_DISCONNECT, on_answer);
	uv_timer_start(&q->patience, on_patience, ASK_PATIENCE, 0);
	return true;
}

void container_runs_ask(struct container *c, container_runs_fn *fn, void *arg)
{
	const struct container_ctl *ct = c->ctl;

	if (!LIST_EMPTY(&c->sessions) || ct->runs)
		fn(arg, RUNS_YES, false);
	else if (!ask_keeper(ct->ctl, ct->dir_fd, ct->cgroup, fn, arg))
		fn(arg, RUNS_UNKNOWN, false);
}

void folder_runs_ask(struct ctl *ctl, int dir, container_runs_fn *fn, void *arg)
{
	if (!ask_keeper(ctl, dir, NULL, fn, arg))
		fn(arg, RUNS_UNKNOWN, false);
}

void container_runs_stop(struct ctl *ctl)
{
	struct runs_ask *q;

	while ((q = LIST_FIRST(&ctl->runs_asks)))
		ask_end(q, RUNS_UNKNOWN, false);
}
