/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * ctl_calls.h - clients of a control thread in a test (ctl_rig.h), and the objects that most tests
 * want. What has no status to return must succeed.
 */
#ifndef CTL_CALLS_H
#define CTL_CALLS_H

#include "tests/rig/unit/ctl_rig.h"

/* A rig for each test; the others take any. */
extern struct ctl_rig call_rig;
int call_setup(void **state);
int call_teardown(void **state);
#define CALL_TEST(f) cmocka_unit_test_setup_teardown(f, call_setup, call_teardown)

/* A session in container 0 or 1: its socket. */
int call_client(struct ctl_rig *g, int container);
/* Handles of new objects. */
uint32_t call_pd(struct ctl_rig *g, int sock);
uint32_t call_cq(struct ctl_rig *g, int sock);
uint32_t call_qp(struct ctl_rig *g, int sock, uint32_t pd, uint32_t cq);
/* A request for a QP of that type, with one CQ and moderate capabilities. */
struct ff_create_qp_req call_qp_req(uint32_t pd, uint32_t cq, uint32_t type);

/* A userfaultfd of this process, which needs no right. */
int call_uffd(void);
/* WATCH_PAGES: its status, and *file. */
int call_try_watch_pages(struct ctl_rig *g, int sock, int *file);
/* The same, which must succeed: the session's file of shadow pages. The status of PLACE_PAGES of a new region, and where it is. */
int call_watch_pages(struct ctl_rig *g, int sock);
int call_place_pages(struct ctl_rig *g, int sock, uint64_t span, uint64_t *off);
/* `len` bytes of shadow pages, all of them there, from *off in the file that is the caller's. */
int call_shadow(struct ctl_rig *g, int sock, uint64_t len, uint64_t *off);

/* The status of the call. */
int call_create_cq(struct ctl_rig *g, int sock, uint32_t cqe, uint32_t channel,
		   struct ff_create_cq_resp *resp);
int call_reg_mr(struct ctl_rig *g, int sock, uint32_t pd, void *addr, uint64_t len, uint32_t access,
		struct ff_reg_mr_resp *resp);
/* A call whose request begins with a handle, with nothing else in it. */
int call_one(struct ctl_rig *g, int sock, uint16_t type, uint32_t handle);

#endif
