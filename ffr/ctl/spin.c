/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * spin.c - when the control thread looks for the next request instead of sleeping. Control
 * thread; call.c tells of each request and serves those that are found here.
 *
 * A program that sets up connections makes one call after the other, and each would wake this
 * thread, which on a virtual machine takes longer than the call. So a connection of which two
 * requests came within SPIN_MAX is hot until none has come for twice as long as it lets pass between
 * them: a program that registers memory copies it between its calls, and is waited for; one that
 * makes its calls without a pause is soon known to have ended. While there are hot ones the loop
 * does not block: this thread looks into their slots in shared memory (abi/ff_ring.h), each in turn,
 * and every ROUND_NS at everything else that the loop has. Nobody waits for the one who calls; a
 * client that calls seldom is not waited for, and an idle router sleeps. Containers in `socket` mode
 * are never waited for, nor those whose CPU time is limited, nor anybody while fast->no_spin says so.
 *
 * A client on this thread's own CPU must sleep for each of its requests. The kernel put them there,
 * since one woke the other up, and leaves them; so after MOVE_LOCAL such requests this thread moves.
 *
 * When nothing was found the CPU is offered to others: on a machine of few cores the caller itself
 * may be waiting for it. Where such an offer takes long, somebody has work to do there; then this
 * thread had better sleep, since who wakes up is served before who yields. It does so for HOLD_MIN,
 * and for twice as long each time that this is found again at once.
 */
#include "ffr/ctl/spin.h"

#include <sched.h>
#include <stdatomic.h>

#include "ffr/obj/cpu.h"
#include "ffr/ctl/ctl.h"

#define SPIN_MIN   50000u /* ns after the last request */
#define SPIN_MAX   1000000u
#define ROUND_NS   5000u  /* between two looks at the loop's other handles */
#define BUSY_NS	   30000u /* a yield that takes so long gave the CPU to somebody who works */
#define MOVE_LOCAL 8u
#define MOVE_NS	   10000000u  /* between two moves */
#define HOLD_MIN   1000000u   /* ns */
#define HOLD_MAX   100000000u /* ns */

static void on_idle(uv_idle_t *h);

static void set_awake(struct ctl_conn *conn, uint32_t awake)
{
	atomic_store_explicit(&conn->ses->hdr->call.awake, awake, memory_order_relaxed);
}

static void heat(struct ctl_spin *s, struct ctl_conn *conn)
{
	conn->heat.is_hot = true;
	TAILQ_INSERT_TAIL(&s->hot, conn, heat.entry);
	s->num_hot++;
	set_awake(conn, 1 + s->cpu);
	uv_idle_start(&s->idle, on_idle); /* cannot fail with a callback */
}

void ctl_spin_forget(struct ctl_conn *conn)
{
	struct ctl_spin *s = &conn->ctl->spin;

	if (!conn->heat.is_hot)
		return;
	conn->heat.is_hot = false;
	TAILQ_REMOVE(&s->hot, conn, heat.entry);
	if (!--s->num_hot)
		uv_idle_stop(&s->idle);
}

static void cool(struct ctl_conn *conn)
{
	ctl_spin_forget(conn);
	set_awake(conn, 0);
	/* awake before the last look: pairs with the client's fence after its posting */
	atomic_thread_fence(memory_order_seq_cst);
	ctl_serve_slot(conn);
}

/*
 * Each hot connection once, in turn. Serving may end this connection or others; the new ones, and
 * those that are served again, stand behind.
 */
static unsigned look(struct ctl_spin *s, uint64_t now)
{
	unsigned n = s->num_hot, served = 0;
	struct ctl_conn *conn;

	while (n-- && (conn = TAILQ_FIRST(&s->hot))) {
		TAILQ_REMOVE(&s->hot, conn, heat.entry);
		TAILQ_INSERT_TAIL(&s->hot, conn, heat.entry);
		if (ctl_had_turn(conn))
			continue;
		if (ctl_serve_slot(conn)) {
			served++;
			s->local = conn->heat.cpu == s->cpu ? s->local + 1 : 0;
		} else if (now - conn->heat.last >= conn->heat.spin && now >= conn->heat.last) {
			cool(conn);
		}
	}
	return served;
}

/* Those whose container has had its turn stay hot, for their slots cannot be served now. */
static void cool_all(struct ctl_spin *s)
{
	unsigned n = s->num_hot;
	struct ctl_conn *conn;

	while (n-- && (conn = TAILQ_FIRST(&s->hot))) {
		TAILQ_REMOVE(&s->hot, conn, heat.entry);
		TAILQ_INSERT_TAIL(&s->hot, conn, heat.entry);
		if (!ctl_had_turn(conn))
			cool(conn);
	}
}

/* A yield took from `from` to `to`. Was it too long? */
static bool is_busy(struct ctl_spin *s, uint64_t from, uint64_t to)
{
	if (to - from < BUSY_NS)
		return false;
	/* soon after the last hold: the CPU is no freer than it was */
	s->hold = from - s->hold_until < s->hold ? s->hold * 2 : HOLD_MIN;
	if (s->hold > HOLD_MAX)
		s->hold = HOLD_MAX;
	s->hold_until = to + s->hold;
	return true;
}

/* Who waits on this CPU is told so: it had better sleep. */
static void tell_cpu(struct ctl_spin *s)
{
	uint32_t cpu = (uint32_t)sched_getcpu();
	struct ctl_conn *conn;

	if (cpu == s->cpu)
		return;
	s->cpu = cpu;
	TAILQ_FOREACH(conn, &s->hot, heat.entry)
		set_awake(conn, 1 + cpu);
}

/* Let the kernel choose among the other CPUs, if this thread may run on others. */
static void move_away(struct ctl_spin *s, uint64_t now)
{
	cpu_set_t all, other;

	if (s->local < MOVE_LOCAL || now - s->moved_at < MOVE_NS)
		return;
	s->local = 0;
	s->moved_at = now;
	if (s->cpu >= CPU_SETSIZE || sched_getaffinity(0, sizeof(all), &all) || CPU_COUNT(&all) < 2)
		return;
	other = all;
	CPU_CLR(s->cpu, &other);
	if (!sched_setaffinity(0, sizeof(other), &other))
		sched_setaffinity(0, sizeof(all), &all);
}

static void on_idle(uv_idle_t *h)
{
	struct ctl_spin *s = h->data;
	uint64_t start = uv_hrtime(), now = start, from;

	move_away(s, now);
	tell_cpu(s);
	do {
		if (look(s, now)) {
			now = uv_hrtime();
			continue;
		}
		from = uv_hrtime();
		sched_yield();
		now = uv_hrtime();
		if (is_busy(s, from, now))
			cool_all(s);
	} while (s->num_hot && now - start < ROUND_NS);
}

void ctl_spin_init(struct ctl_spin *s, uv_loop_t *loop)
{
	TAILQ_INIT(&s->hot);
	uv_idle_init(loop, &s->idle);
	s->idle.data = s;
}

void ctl_spin_close(struct ctl_spin *s)
{
	uv_close((uv_handle_t *)&s->idle, NULL);
}

void ctl_spin_served(struct ctl_conn *conn)
{
	struct ctl_spin *s = &conn->ctl->spin;
	uint64_t now = uv_hrtime();
	uint64_t gap = now - conn->heat.last, *spin = &conn->heat.spin;
	bool soon = gap < SPIN_MAX;

	conn->heat.last = now;
	/* a long gap counts at once and is forgotten slowly */
	*spin = 2 * gap > *spin && soon ? 2 * gap : *spin - *spin / 8;
	if (*spin < SPIN_MIN)
		*spin = SPIN_MIN;
	else if (*spin > SPIN_MAX)
		*spin = SPIN_MAX;
	if (soon && now >= s->hold_until && !conn->heat.is_hot &&
	    conn->cont->mode != FF_MODE_SOCKET && !conn->cont->fast->no_spin &&
	    !cpu_limited(conn->cont))
		heat(s, conn);
}
