/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * plan.h - how the router is to reach the pages of an MR. See plan.c.
 */
#ifndef FFL_MEM_PLAN_H
#define FFL_MEM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/abi/ff_vma.h"

/* When pages of an MR are to be replaced. */
enum ffl_when {
	FFL_NOW,   /* however long it takes */
	FFL_QUICK, /* now, but for those that would take long to look at (attr.c) */
	FFL_LATER,
};

/* Pages that the router is to reach. Addresses are multiples of FF_PAGE. */
struct ffl_ask {
	uintptr_t va, end;  /* all pages on which it has bytes */
	uintptr_t from, to; /* the pages of these that may be replaced */
	unsigned max;	    /* runs, at most FF_MR_MAX_RUNS */
	enum ffl_when when;
	bool write;	   /* the program must have the right to write; else to read */
	bool is_on_demand; /* nothing has to be mapped */
	bool only_own;	   /* shared memory that is no shadow pages of the context gets no run */
	bool whole;	   /* ffl_context.whole_pages */
	bool can_replace;  /* the process and the context have what that needs */
};

/* Private memory, as far as it matters for replacing it (kind.c). */
enum ffl_use {
	FFL_USE_PLAIN,	/* anonymous memory */
	FFL_USE_STACK,	/* a stack, or thread-local memory */
	FFL_USE_FILE,	/* of a file, and other threads may write to it */
	FFL_USE_CLEAN,	/* of a file; nobody has written to it, nor may */
	FFL_USE_SINGLE, /* of a file, and the process has one thread */
};

/* A mapping of the program, with what the library knows of it. */
struct ffl_known {
	struct ff_vma v;
	bool is_own; /* shadow pages of the context */
	uintptr_t va,
		end; /* ffl_plan_fresh(): the pages that may be replaced, if nothing forbids it */
	enum ff_why why;  /* ffl_plan_fresh(): what forbids it; FF_WHY_NUM: nothing so far */
	enum ffl_use use; /* of these pages, if nothing forbids it so far */
};

/* The ways by which the router gets a pointer to pages of an MR. */
enum ffl_way {
	FFL_WAY_OWN,	/* nothing: they are shadow pages of the context */
	FFL_WAY_SHARED, /* nothing: they are other shared memory */
	FFL_WAY_WINDOW, /* shadow pages take their place: ffl_window_in() */
	FFL_WAY_FILE, /* shadow pages take their place: ffl_window_file_in(), beside other threads */
	FFL_WAY_ALONE, /* shadow pages take their place: ffl_window_file_in(), with no other thread */
};

/* Pages [va, end) of mapping v are to be one run. */
struct ffl_step {
	struct ff_vma v;
	uintptr_t va, end;
	enum ffl_way way;
};

struct ffl_plan {
	struct ffl_ask ask;
	uintptr_t at; /* mappings below are in the plan */
	unsigned num;
	struct ffl_step step[FF_MR_MAX_RUNS];
	uint64_t copied[FF_WHY_NUM]; /* bytes that are in no step, by the reason */
};

void ffl_plan_begin(struct ffl_plan *p); /* of p->ask */
/* What the next mapping tells. True: what its pages [k->va, k->end) are used for has to be known as well. */
bool ffl_plan_fresh(const struct ffl_plan *p, struct ffl_known *k);
/*
 * That mapping, which has some of the pages. 0; -EFAULT: there is a hole before it, or the program lacks
 * the right, and the plan is of no use.
 */
int ffl_plan_add(struct ffl_plan *p, const struct ffl_known *k);
/* There is no further mapping. 0 or -EFAULT, as above. */
int ffl_plan_end(struct ffl_plan *p);

/* Pages [va, end) are copied after all. */
void ffl_plan_copy(struct ffl_plan *p, enum ff_why why, uintptr_t va, uintptr_t end);

/* Why pages stay that window.c could not replace, or whose attributes attr.c could not tell: of -errno. */
enum ff_why ffl_plan_why_window(int err);
enum ff_why ffl_plan_why_attr(int err);
/* The reason of most of these bytes; UNUSED if there are none. */
enum ff_why ffl_plan_why_most(const uint64_t copied[FF_WHY_NUM]);
const char *ffl_plan_why_text(enum ff_why why);

#endif
