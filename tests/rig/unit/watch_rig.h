/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * watch_rig.h - a session with pages that the router watches (ffr/mem/pages.c), and its client: another
 * process, which does to its mappings what it is told.
 */
#ifndef WATCH_RIG_H
#define WATCH_RIG_H

#include <fcntl.h>
#include <sched.h>
#include <stdbool.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "tests/rig/unit/wait.h"
#include "ffr/lib/fds.h"
#include "ffr/mem/pages_int.h"

#define PG    ((uint64_t)FF_PAGE)
#define RW    (PROT_READ | PROT_WRITE)
#define LIMIT ((uint64_t)1 << 30)

extern struct container cont;
extern struct session ses;
extern int file; /* of all pages */

/* ---- the client ---- */

enum op { MAP, DROP, DROP_HALF, UNMAP, MOVE, FILL, CHECK, CHURN };

struct client {
	pid_t pid; /* 0: there is no /dev/userfaultfd here, so there is no client */
	int sock;
};
extern struct client client;

/*
 * Its userfaultfd, and its /proc/PID/mem, maps and pagemap: the caller closes them. False: no userfaultfd here.
 * rig_setup() does it, and has it watched.
 */
bool rig_client_start(int fds[4]);
void rig_client_stop(void);
/* It begins; what it says when it has done it, which is not 0 if that went well. tell() does both. */
void order(enum op op, uint64_t va, uint64_t len, uint64_t arg);
uint64_t answer(void);
uint64_t tell(enum op op, uint64_t va, uint64_t len, uint64_t arg);

/* ---- pages ---- */

/* [va, va + len), has that byte everywhere: 1. */
uint64_t has_all(uint64_t va, uint64_t len, uint8_t byte);

/* A place in the file for so many bytes: its offset. */
uint64_t place(uint64_t span);
/* What was placed last is mapped. */
void placed(void);
/* A new region, all of which the client has mapped and filled: its address there. */
uint64_t region(uint64_t span, uint8_t byte, uint64_t *off);
/* Pages of the file. */
uint64_t pages(void);

/* ---- the session ---- */

unsigned threads(void); /* of this process, and two more */
/* Of the group, and of each test, with a session and its client. */
int rig_group_setup(void **state);
int rig_setup(void **state);
int rig_teardown(void **state);
/* Skips a test that needs the client, where there is none. */
void need_client(void);

#endif
