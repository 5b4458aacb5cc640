/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * region_rig.h - what the tests of ffl's memory registration share: a context and a PD of the fake
 * router for each test, memory of known content, and looks at the process's own mappings.
 */
#ifndef REGION_RIG_H
#define REGION_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <sched.h>
#include <time.h>

#include "tests/rig/fakes/fake_shadow.h"
#include "tests/rig/unit/wait.h"
#include "ffl/session/freeflow.h"
#include "ffr/abi/ff_vma.h"

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

#define PG     ((size_t)FF_PAGE)
#define RW     (PROT_READ | PROT_WRITE)
#define ACCESS (IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ)

extern struct ffl_context *rg_ctx;
extern struct ibv_pd *rg_pd;

/* Of every test; the latter fails when an MR was left. */
int rg_setup(void **state);
int rg_teardown(void **state);
/* Skips the test where there is no userfaultfd. */
void rg_need_uffd(void);

char *rg_map(size_t len); /* private anonymous memory */
struct ff_vma rg_vma_at(const void *p);
bool rg_is_shared(const void *p);
unsigned rg_count_vmas(const void *p, size_t len); /* mappings that have some of it */

/* Registered with ACCESS in rg_pd. */
struct ibv_mr *rg_reg(void *p, size_t len);
void rg_dereg(struct ibv_mr *mr);

/* DONTNEED, which libc and sanitizers know nothing of. 0 or -1 and errno. */
int rg_dontneed(void *p, size_t len);

/* The bytes of a page have its number, and something of their place. */
void rg_fill(char *p, size_t len, unsigned salt);
void rg_check(const char *p, size_t len, unsigned salt);
void rg_check_zero(const char *p, size_t len);
/* Filled, and then registered. */
struct ibv_mr *rg_filled(char *p, size_t len, unsigned salt);
/* The MR goes, the bytes stay; then the memory goes. */
void rg_gone(struct ibv_mr *mr, char *p, size_t len, unsigned salt);

/* Runs fn in a forked child; its exit status. */
int rg_in_child(int (*fn)(void *), void *arg);

#endif
