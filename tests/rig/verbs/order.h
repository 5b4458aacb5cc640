/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * order.h - in what order the router does things, and what it does while a lock of the kernel's is
 * held. For tests of attacks that cost the router time: how long a victim waits depends on who else
 * has the CPUs, but the order does not.
 *
 * Order of answers: the router is stopped, clients send requests, the router continues. The kernel
 * keeps the order in which the router takes requests and answers them, as the order of events in an
 * epoll instance that nobody looks at.
 *
 * Locks: a probe is a process that makes one system call again and again. While the probe is in
 * state D and the holder of the lock works, the holder has the lock that the system call takes. A
 * thread that asks for the lock then gets it no sooner than the probe. So a router that answers a
 * victim while the probe is stuck in that call does not wait for the lock. It is not enough that the
 * probe is in state D: a new reader of a semaphore of the kernel's gets it before a writer that was
 * woken and has no CPU, and before the readers behind that writer.
 */
#ifndef ORDER_H
#define ORDER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define ORDER_MAX 256u

struct order {
	int ep;
	unsigned num;
	struct {
		int fd;
		bool is_taken; /* wait for a request to be taken from fd; else for an answer, or the end */
	} thing[ORDER_MAX];
};

/* Stop all threads of the router, whose process is $FF_ROUTER. */
void order_begin(struct order *o);
/* Something that the router is to do: answer on fd, or close the other end. Its number, from 0. */
unsigned order_answer(struct order *o, int fd);
/* To take the requests that were sent by fd, all but the last one where there are several. */
unsigned order_taken(struct order *o, int fd);
/* Continue the router and wait until all is done: place[number] is 0 for what was done first. */
void order_end(struct order *o, unsigned place[ORDER_MAX]);

/* Shared with the probe's process. */
struct probe {
	_Atomic pid_t pid;
	_Atomic uint64_t calls; /* that have come back */
};

/*
 * Start a process that calls step(arg, 0), step(arg, 1) and so on: each makes one system call. It
 * dies with its parent.
 */
void probe_start(struct probe *p, void (*step)(void *arg, uint64_t i), void *arg);
/* The number of the call in which the probe is stuck, or 0. */
uint64_t probe_stuck(const struct probe *p);
/*
 * As long as the probe is stuck, wait until that process works. The number of the call, or 0: it
 * has come back.
 */
uint64_t probe_held(const struct probe *p, pid_t holder);

#endif
