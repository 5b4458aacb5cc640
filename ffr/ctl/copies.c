/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * copies.c - calls that are answered when copies of a session's memory have ended. Control thread; called by qp.c and
 * mw.c.
 *
 * A thread may be copying to or from a client's memory, through its process, without the lock. When a QP or a window
 * is destroyed, the copy may be for it. The program may use the memory for something else once the call is back.
 * DEREG_MR is answered with -EAGAIN for that (mr.c). Here the answer waits.
 *
 * Tests: test_copies.c, hostile/objects.c
 */
#include <stdlib.h>

#include "ffr/ctl/obj.h"
#include "ffr/fast/pvm.h"

#define LOOK_MS 1
#define LOOKS	200 /* memory that takes longer does not answer, which is its program's own doing */

struct copies {
	struct ctl_later l;
	uv_timer_t timer;
	struct pvm_mark mark;
	unsigned looks;
};

static void on_closed(uv_handle_t *handle)
{
	free(handle->data);
}

static void copies_end(struct copies *w, int err)
{
	uv_timer_stop(&w->timer);
	w->l.be.done(&w->l.be, err);
	uv_close((uv_handle_t *)&w->timer, on_closed);
}

static void copies_cancel(struct ctl_later *l)
{
	copies_end((struct copies *)l, -ECANCELED);
}

static int copies_finish(struct ctl_call *c, struct ctl_later *l, int err, void *resp)
{
	(void)c;
	(void)l;
	(void)resp;
	return err;
}

static void on_timer(uv_timer_t *t)
{
	struct copies *w = t->data;
	struct session *s = w->l.conn->ses;
	bool passed;

	fast_lock_thread(s->fast);
	passed = pvm_passed(s, &w->mark);
	fast_unlock_thread(s->fast);
	if (passed || ++w->looks == LOOKS)
		copies_end(w, 0);
}

int ctl_after_copies(struct ctl_call *c)
{
	struct fast *f = c->s->fast;
	struct pvm_mark mark;
	struct copies *w;
	bool passed;

	fast_lock_thread(f);
	pvm_cancel(f, c->s, 0, UINT64_MAX, &mark);
	passed = pvm_passed(c->s, &mark);
	fast_unlock_thread(f);
	w = passed ? NULL : calloc(1, sizeof(*w));
	if (!w)
		return 0;
	if (uv_timer_init(c->ctl->loop, &w->timer)) {
		free(w);
		return 0;
	}
	w->mark = mark;
	w->timer.data = w;
	w->l.finish = copies_finish;
	w->l.cancel = copies_cancel;
	ctl_call_later(c, &w->l);
	uv_timer_start(&w->timer, on_timer, LOOK_MS, LOOK_MS);
	return CTL_LATER;
}
