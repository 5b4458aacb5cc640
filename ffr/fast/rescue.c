/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rescue.c - the control thread, when the kernel gives it no CPU.
 *
 * The scheduler's virtual time does not always go on. On Linux 6.18, where programs of several groups
 * (cgroups, or sessions with autogroup) keep all CPUs busy and the router's fast threads are SCHED_FIFO,
 * a CPU's avg_vruntime was seen to go backwards for seconds, while the weights of those groups change
 * with each of their threads that sleeps or moves. The control thread, runnable all the time and hardly
 * ahead of that average, was not eligible: it waited for up to 37 s. Programs that transfer do well
 * meanwhile, since the fast threads that serve them do not depend on it.
 *
 * So the fast threads look: one of them, every LOOK_NS while they work, reads the control thread's state
 * and CPU time. Who is found runnable twice without having run between is made SCHED_RR, and is so until
 * it has used BUDGET_NS, and to the end of the request that it is serving then: in this way clients' calls
 * take hardly more than BUDGET_NS / LOOK_NS of a CPU from the programs of this host.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/obj/cpu.h"
#include "ffr/fast/internal.h"
#include "ffr/lib/log.h"

#define LOOK_NS	  (50 * NS_PER_MS)
#define BUDGET_NS (2 * NS_PER_MS)
#define TELL_NS	  (60000 * NS_PER_MS) /* between two lines in the log */
#define PRIORITY  1

enum rescue_state { ORDINARY, RAISED, REFUSED };

struct rescue {
	pid_t tid;
	clockid_t clock; /* the thread's CPU time */
	int stat_fd;	 /* its /proc/TID/stat */
	_Atomic uint64_t look_at;
	/* at the last look */
	_Atomic bool waited;
	_Atomic uint64_t cpu;
	_Atomic uint32_t state;
	/* [ctl] */
	bool raised;
	uint64_t raised_cpu, told_at, num, told_num;
};

struct rescue *rescue_create(void)
{
	struct rescue *r = calloc(1, sizeof(*r));
	int err;

	if (!r)
		return NULL;
	r->tid = gettid();
	r->stat_fd = open("/proc/thread-self/stat", O_RDONLY | O_CLOEXEC);
	err = r->stat_fd < 0 ? errno : pthread_getcpuclockid(pthread_self(), &r->clock);
	if (!err)
		return r;
	rescue_free(r);
	errno = err;
	return NULL;
}

void rescue_free(struct rescue *r)
{
	if (r && r->stat_fd >= 0)
		close(r->stat_fd);
	free(r);
}

/* "TID (NAME) STATE ...", where the name may be anything but is short. */
static bool is_runnable(const struct rescue *r)
{
	char text[128];
	ssize_t n = pread(r->stat_fd, text, sizeof(text) - 1, 0);
	char *name_end;

	if (n <= 0)
		return false;
	text[n] = 0;
	name_end = strrchr(text, ')');
	return name_end && !strncmp(name_end, ") R", 3);
}

/* Threads that it starts are ordinary. The flag stays: to take it back needs CAP_SYS_NICE. */
static int set_class(pid_t tid, uint32_t policy, uint32_t priority)
{
	return sched_set_attr(tid, policy, 0, priority, 0, SCHED_FLAG_RESET_ON_FORK);
}

static void raise_it(struct rescue *r)
{
	int err = set_class(r->tid, SCHED_RR, PRIORITY);

	if (err) {
		log_warn("the control thread gets no CPU, and SCHED_RR for it is refused: %s",
			 strerror(-err));
		atomic_store(&r->state, REFUSED);
		return;
	}
	atomic_store(&r->state, RAISED);
}

void rescue_look(struct fast *f)
{
	struct rescue *r = f->host->rescue;
	uint64_t due, cpu;
	bool waits;

	if (!r || atomic_load_explicit(&r->state, memory_order_relaxed) == REFUSED)
		return;
	due = atomic_load_explicit(&r->look_at, memory_order_relaxed);
	if (f->now < due || !atomic_compare_exchange_strong(&r->look_at, &due, f->now + LOOK_NS))
		return;
	waits = is_runnable(r);
	cpu = cpu_of_clock(r->clock);
	if (waits && r->waited && cpu == r->cpu)
		raise_it(r);
	r->waited = waits;
	r->cpu = cpu;
}

static void tell(struct rescue *r)
{
	uint64_t now = fast_clock();

	r->num++;
	if (r->told_at && now - r->told_at < TELL_NS)
		return;
	log_info("the host gave the control thread no CPU for more than %llu ms, %llu times; "
		 "see BUSY HOSTS in ffr(8)",
		 LOOK_NS / NS_PER_MS, (unsigned long long)(r->num - r->told_num));
	r->told_at = now;
	r->told_num = r->num;
}

void rescue_spend(struct rescue *r)
{
	uint64_t cpu;

	if (!r || atomic_load_explicit(&r->state, memory_order_relaxed) != RAISED)
		return;
	cpu = cpu_of_thread();
	if (!r->raised) {
		r->raised = true;
		r->raised_cpu = cpu;
		tell(r);
	}
	if (cpu - r->raised_cpu < BUDGET_NS)
		return;
	r->raised = false;
	atomic_store(&r->state, ORDINARY); /* from the next line on it may not run for long */
	set_class(0, SCHED_OTHER, 0);
}

uint64_t rescue_count(const struct rescue *r)
{
	return r ? r->num : 0;
}
