/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_pvm.h - pvm.h without threads, for fuzz targets and unit tests: how a copy behind a process
 * ends, and what others do with the lock meanwhile, is what the program says. Instead of
 * ffr/fast/pvm.c and roles.c.
 */
#ifndef TEST_PVM_FAKE_H
#define TEST_PVM_FAKE_H

#include "ffr/fast/pvm.h"

enum pvm_fate {
	PVM_AT_ONCE,
	PVM_FAILS,
	PVM_LOCK_GIVEN, /* somebody else had the lock, and did something */
	PVM_STUCK,	/* the thread lost the role of the runner; another one ran */
	PVM_AGAIN,	/* it failed for now, with the lock given away; a worker has it */
	PVM_NUM_FATES,
};

struct fake_pvm {
	enum pvm_fate (*fate)(void);
	bool (*reaches)(uint64_t va, uint32_t len); /* is that memory of the process? */
	bool (*full)(void); /* has who wants a call to wait for room? NULL: never */
	void (*meanwhile)(enum pvm_fate fate); /* others have the lock, for PVM_LOCK_GIVEN, _STUCK */
	unsigned calls;			       /* that are not put back */
	enum pvm_fate next;		       /* after fake_pvm_calm(): of the next call alone */
};
extern struct fake_pvm fake_pvm;

/* From now on all memory is there, nobody does anything meanwhile, and calls end at once but for next. */
void fake_pvm_calm(void);

/* The worker of a client that has one ends a call. False: there is none. */
bool fake_pvm_work(struct fast *f, struct session *s);

#endif
