/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fake_shadow.h - a router as far as ffl's memory registration knows one: it keeps shadow pages (fake_pages.c) and
 * remembers MRs. ffl_call() is answered in process, by any thread.
 */
#ifndef FAKE_SHADOW_H
#define FAKE_SHADOW_H

#include "ffl/session/ffl.h"

struct fake_shadow {
	_Atomic uint32_t mrs;	      /* registered now */
	_Atomic int fail[FF_MSG_NUM]; /* answer with this -errno */
	_Atomic uint32_t failed;      /* answers of that kind */
	_Atomic uint64_t max_shadow;  /* bytes that a session's regions may have, 0: any */
	struct ff_reg_mr_req
		reg; /* the last REG_MR or REREG_MR, without its FF_ACCESS_WHY, and its runs */
	_Atomic uint32_t why; /* why of the last REG_MR, REREG_MR or HEAT_DONE */
	struct ff_mr_run run[FF_MR_MAX_RUNS];
	unsigned num_runs;
	uint32_t rereg_flags;
	bool has_heat;		      /* WATCH_HEAT is answered: */
	int heat_fd;		      /* the router's end of the socket */
	_Atomic uint32_t dones, busy; /* HEAT_DONEs, and those that said busy */
	void (*on_dereg)(void);	      /* is called by the thread of a DEREG_MR; NULL: nothing */
	_Atomic uint32_t maps;	      /* MAP_MRs that were granted */
	uint32_t drops;		      /* DROP_RUNS that were granted */
	_Atomic uint32_t uffds;	      /* how often the library was given the userfaultfd */
	/* ffl_posted_wait(): the MR that it was called for last, and how many there were then */
	_Atomic uint32_t waited_key, waited_mrs;
};
extern struct fake_shadow fake_shadow;

/* A context with userfaultfd (where the machine has it) or without. */
struct ffl_context *fake_shadow_open(bool with_uffd);
void fake_shadow_close(struct ffl_context *ctx);
struct ibv_pd *fake_shadow_pd(struct ffl_context *ctx);
bool fake_shadow_has_uffd(void);
/* MRs that have left without a call since it was asked last: they are gone now. */
unsigned fake_shadow_left(void);

/* Pages that the file of this session's shadow pages has. */
uint64_t fake_shadow_pages(const struct ffl_context *ctx);

/* The router's own address of the program's byte va, by the runs of the last registration, while its MR is there. */
uint8_t *fake_shadow_at(uint64_t va);
/* The same for one MR, which may be any thread's. */
uint8_t *fake_shadow_mr_at(struct ibv_mr *mr, uint64_t va);
/* A store by that address, unless there is none; DROP_RUNS waits for it. */
bool fake_shadow_mr_store(struct ibv_mr *mr, uint64_t va, uint64_t value);
/* Where the router would copy byte va of that MR, which has no run for it: fake_pages_where(). */
uint64_t fake_shadow_where(struct ibv_mr *mr, uint64_t va);
/* Bytes that the runs of the last registration cover, of that kind. */
uint64_t fake_shadow_bytes(enum ff_run_kind kind);

#endif
