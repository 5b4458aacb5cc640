/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stall_rig.h - clients whose memory stalls the router, with real threads. A child process owns a page that
 * nobody fills in (userfaultfd). And writes to a page of our own do not come back before the test says so,
 * as those to a FUSE server's file.
 *
 * A program that uses it is linked with -Wl,--wrap=pwrite,--wrap=pthread_create, and its group's set-up is
 * stall_rig_setup().
 */
#ifndef STALL_RIG_H
#define STALL_RIG_H

#include <sched.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/rig.h"

#define ALL_ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)
#define DEADLINE   (unit_slow() * 10000 * NS_PER_MS)

#define WAIT_FOR(cond)                                                                             \
	do {                                                                                       \
		uint64_t end_ = fast_clock() + DEADLINE;                                           \
		while (!(cond) && fast_clock() < end_)                                             \
			sched_yield();                                                             \
		assert_true(cond);                                                                 \
	} while (0)

/* The child's page and the word by which it is told to fill it in. */
struct child {
	pid_t pid;
	uint8_t *page; /* in the child */
	_Atomic uint32_t *go;
};

/* False: it cannot have such a page here. */
bool child_start(struct child *c);
/* The child's memory, as it would hand it over itself. */
void child_memory(const struct child *c, struct session *s);

bool wait_cqe(struct rig_cq *cq, struct ff_cqe *e);
/* 8 bytes; by a runner that is there. */
void write_to(struct rig *r, struct rig_qp *q, struct mr *from, struct mr *to, uint64_t id);
struct rig_qp *connected(struct rig *r, struct rig_ses *a, struct rig_cq *cqa, struct rig_ses *b,
			 struct rig_cq *cqb, struct rig_qp **other);

extern uint8_t blocked[4096];
extern _Atomic bool blocks;	    /* writes to that page do not end */
extern _Atomic uint32_t in_blocked; /* threads that are in one */
extern _Atomic uint32_t writes;	    /* through /proc/PID/mem, in all */
extern _Atomic pid_t writer;	    /* who made the last one */
extern _Atomic bool no_threads;	    /* pthread_create() fails */
extern _Atomic uint32_t refusals;

#define BAD_SES 4
#define BAD_QPS 8

/* One that writes, to one in good standing and to several sessions of a container that is not. */
struct world {
	struct rig r;
	struct rig_ses *me, *good, *bad[BAD_SES];
	struct rig_cq *cq, *cq_good, *cq_bad[BAD_SES];
	struct rig_qp *to_good, *good_qp, *to_bad[BAD_SES][BAD_QPS], *bad_qp[BAD_SES][BAD_QPS];
	struct mr *from, *at_good, *at_bad[BAD_SES];
};

extern uint8_t world_dst[4096]; /* what at_good is */
/* bad_page is at_bad's; patience is DEADLINE. */
void world_make(struct world *w, void *bad_page);
void world_end(struct world *w);
/* Who made the copy that this one took. */
pid_t write_good(struct world *w, uint64_t id);

uint32_t num_threads(void);
/* Without those of the test before, which end after they were counted out. */
uint32_t threads_before(void);

int stall_rig_setup(void **state);

#endif
