/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_import.c - sessions that use another one's PDs and MRs: who may, what they get, and in which
 * order all of it may end.
 * build: tests/rig/unit/ctl_calls.c tests/rig/unit/ctl_rig.c ffo/base/limits.c ffo/base/proto.c
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/ctl/import.h"
#include "ffr/fast/mw.h"
#include "tests/rig/unit/ctl_calls.h"

static struct ctl_rig *const g = &call_rig;
static uint64_t memory[4];

struct client {
	int sock;
	struct session *s;
	uint8_t token[FF_TOKEN_SZ];
};

static void client_open(struct client *c, int container)
{
	struct ff_hello_req req = { FF_PROTO_VERSION, FF_PROTO_VERSION, "test", { 0 } };
	struct ff_hello_resp resp;
	int fds[RIG_MAX_FDS];
	unsigned n = 0;

	c->sock = rig_connect(g, container);
	assert_int_equal(rig_hello_with(g, c->sock, &req, &resp, NULL, fds, &n), 0);
	while (n)
		close(fds[--n]);
	c->s = LIST_FIRST(&g->c[container]->sessions);
	memcpy(c->token, resp.token, sizeof(c->token));
}

static void client_close(struct client *c)
{
	close(c->sock);
	rig_pump(g);
}

static int import(struct client *c, const uint8_t token[FF_TOKEN_SZ])
{
	struct ff_import_device_req req;
	struct ff_import_device_resp resp;

	memcpy(req.token, token, sizeof(req.token));
	return RIG_CALL(g, c->sock, IMPORT_DEVICE, &req, &resp);
}

static uint32_t new_pd(struct client *c)
{
	struct ff_alloc_pd_resp resp;

	assert_int_equal(RIG_CALL(g, c->sock, ALLOC_PD, (&(struct ff_alloc_pd_req){ 0 }), &resp),
			 0);
	return resp.pd;
}

static int import_pd(struct client *c, uint32_t pd, uint32_t *handle)
{
	struct ff_import_pd_req req = { pd };
	struct ff_import_pd_resp resp;
	int err = RIG_CALL(g, c->sock, IMPORT_PD, &req, &resp);

	*handle = resp.pd;
	return err;
}

static int dealloc_pd(struct client *c, uint32_t pd, uint32_t unimport)
{
	struct ff_dealloc_pd_req req = { pd, unimport };
	struct ff_dealloc_pd_resp resp;

	return RIG_CALL(g, c->sock, DEALLOC_PD, &req, &resp);
}

static struct ff_reg_mr_resp new_mr(struct client *c, uint32_t pd)
{
	struct ff_reg_mr_req req = { (uintptr_t)memory, sizeof(memory), (uintptr_t)memory, pd,
				     IBV_ACCESS_LOCAL_WRITE };
	struct ff_reg_mr_resp resp;

	assert_int_equal(RIG_CALL(g, c->sock, REG_MR, &req, &resp), 0);
	return resp;
}

static int import_mr(struct client *c, uint32_t pd, uint32_t mr, struct ff_import_mr_resp *resp)
{
	struct ff_import_mr_req req = { pd, mr };

	return RIG_CALL(g, c->sock, IMPORT_MR, &req, resp);
}

static int dereg_mr(struct client *c, uint32_t mr, uint32_t imported)
{
	struct ff_dereg_mr_req req = { mr, imported };
	struct ff_dereg_mr_resp resp;

	return RIG_CALL(g, c->sock, DEREG_MR, &req, &resp);
}

/* ---- who may -------------------------------------------------------------------------------- */

static void the_token_is_the_key(void **state)
{
	static const uint8_t zero[FF_TOKEN_SZ];
	struct client a, b, other;
	uint8_t guess[FF_TOKEN_SZ];
	uint32_t pd, h;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	client_open(&other, 1);
	assert_memory_not_equal(a.token, b.token, FF_TOKEN_SZ);
	assert_memory_not_equal(a.token, zero, FF_TOKEN_SZ);
	pd = new_pd(&a);
	assert_int_equal(import_pd(&b, pd, &h), -ENODEV);
	assert_int_equal(import(&b, zero), -ENODEV);
	assert_int_equal(import(&b, b.token), -ENODEV); /* its own */
	assert_int_equal(import(&other, a.token), -ENODEV);
	for (unsigned i = 0; i < FF_TOKEN_SZ; i++) { /* each byte of it counts */
		memcpy(guess, a.token, sizeof(guess));
		guess[i] ^= 1;
		assert_int_equal(import(&b, guess), -ENODEV);
	}
	assert_int_equal(import(&b, a.token), 0);
	assert_int_equal(import(&b, a.token), -EINVAL); /* once */
	assert_int_equal(import_pd(&b, pd, &h), 0);
	assert_int_equal(import_pd(&b, 0, &h), -EINVAL);
	assert_int_equal(import_pd(&b, pd ^ 0x10000, &h), -EINVAL);
	/* the first one learns nothing of the second */
	assert_int_equal(import_pd(&a, h, &h), -ENODEV);
	client_close(&a);
	assert_int_equal(import_pd(&b, pd, &h), -ENODEV);
	client_close(&b);
	client_close(&other);
}

static void mrs_are_found_in_their_pd(void **state)
{
	struct ff_import_mr_resp got;
	struct ff_reg_mr_resp mr;
	struct client a, b;
	uint32_t pd, pd2, h, h2;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	pd = new_pd(&a);
	pd2 = new_pd(&a);
	mr = new_mr(&a, pd);
	assert_int_equal(import(&b, a.token), 0);
	assert_int_equal(import_pd(&b, pd, &h), 0);
	assert_int_equal(import_pd(&b, pd2, &h2), 0);
	assert_int_equal(import_mr(&b, h, mr.mr, &got), 0);
	assert_int_equal(got.lkey, mr.lkey);
	assert_int_equal(got.rkey, mr.rkey);
	assert_int_equal(got.length, sizeof(memory));
	assert_int_equal(got.iova, (uintptr_t)memory);
	assert_int_equal(import_mr(&b, h2, mr.mr, &got), -EINVAL);
	assert_int_equal(import_mr(&b, new_pd(&b), mr.mr, &got), -EINVAL);
	assert_int_equal(import_mr(&b, h, mr.mr + 1, &got), -EINVAL);
	assert_int_equal(dereg_mr(&b, mr.mr, 0), -EINVAL);
	assert_int_equal(dereg_mr(&a, mr.mr, 1), -EINVAL);
	assert_int_equal(dereg_mr(&b, mr.mr, 1), 0);
	assert_int_equal(dereg_mr(&a, mr.mr, 0), -EINVAL);
	client_close(&b);
	client_close(&a);
}

/* ---- ends ------------------------------------------------------------------------------------- */

static void who_imported_a_pd_gives_it_back(void **state)
{
	struct ff_reg_mr_resp mr;
	struct client a, b;
	uint32_t pd, h, again;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	pd = new_pd(&a);
	assert_int_equal(import(&b, a.token), 0);
	assert_int_equal(dealloc_pd(&a, pd, 1), -EINVAL); /* not imported */
	assert_int_equal(import_pd(&b, pd, &h), 0);
	assert_int_equal(dealloc_pd(&b, h, 2), -EINVAL);
	mr = new_mr(&b, h);
	/* it is one PD: whoever uses it keeps it */
	assert_int_equal(dealloc_pd(&a, pd, 0), -EBUSY);
	assert_int_equal(dealloc_pd(&b, h, 0), -EBUSY);
	assert_int_equal(dealloc_pd(&b, h, 1), 0);
	assert_int_equal(dealloc_pd(&b, h, 1), -EINVAL);
	/* what was made in it is still there */
	assert_int_equal(dereg_mr(&b, mr.mr, 0), 0);
	for (int i = 0; i < 5000; i++) { /* more than there may be PDs */
		assert_int_equal(import_pd(&b, pd, &again), 0);
		assert_int_equal(dealloc_pd(&b, again, 1), 0);
	}
	assert_int_equal(import_pd(&b, pd, &h), 0);
	assert_int_equal(dealloc_pd(&b, h, 0), 0);
	assert_int_equal(dealloc_pd(&a, pd, 0), -EINVAL);
	client_close(&a);
	client_close(&b);
}

static void a_session_that_imported_leaves_nothing_behind(void **state)
{
	struct client a, b;
	uint32_t pd, h;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	pd = new_pd(&a);
	assert_int_equal(import(&b, a.token), 0);
	assert_int_equal(import_pd(&b, pd, &h), 0);
	new_mr(&b, h);
	assert_int_equal(dealloc_pd(&a, pd, 0), -EBUSY);
	client_close(&b);
	assert_int_equal(dealloc_pd(&a, pd, 0), 0);
	client_close(&a);
}

static unsigned pd_ends;

static int ended(struct fast *f, enum obj_kind kind, struct obj *o, struct carrier_later *l)
{
	(void)f, (void)o, (void)l;
	pd_ends += kind == OBJ_PD;
	return 0;
}

static void a_pd_outlives_its_session(void **state)
{
	struct backend *be = g->ctl.host->threads[0]->be;
	const struct carrier_use *carriers = be->carriers;
	static const struct carrier counter = { .end = ended };
	static const struct carrier_use counting[] = { { .ops = &counter }, { 0 } };
	struct client a, b, c;
	uint32_t pd, hb, hc;

	(void)state;
	be->carriers = counting;
	pd_ends = 0;
	client_open(&a, 0);
	client_open(&b, 0);
	client_open(&c, 0);
	pd = new_pd(&a);
	new_mr(&a, pd);
	assert_int_equal(import(&b, a.token), 0);
	assert_int_equal(import(&c, a.token), 0);
	assert_int_equal(import_pd(&b, pd, &hb), 0);
	assert_int_equal(import_pd(&c, pd, &hc), 0);
	new_mr(&b, hb);
	client_close(&a);
	new_mr(&c, hc); /* the same PD still */
	assert_ptr_equal(pd_get(b.s, hb), pd_get(c.s, hc));
	client_close(&b);
	new_mr(&c, hc);
	assert_int_equal(dealloc_pd(&c, hc, 0), 0);
	assert_int_equal(pd_ends, 0);
	client_close(&c);
	assert_int_equal(pd_ends, 1); /* with the last who has it */
	be->carriers = carriers;
}

/* A window that another session has bound to an MR is bound to nothing when the MR's session ends. */
static void a_window_outlives_the_session_of_its_mr(void **state)
{
	struct ff_reg_mr_resp mr;
	struct ff_alloc_mw_resp resp;
	struct client a, b;
	uint32_t pd, h, mw;
	struct qp *qp;

	(void)state;
	client_open(&a, 0);
	client_open(&b, 0);
	pd = new_pd(&a);
	assert_int_equal(call_reg_mr(g, a.sock, pd, memory, sizeof(memory),
				     IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND, &mr),
			 0);
	assert_int_equal(import(&b, a.token), 0);
	assert_int_equal(import_pd(&b, pd, &h), 0);
	qp = qp_get_unsealed(b.s, call_qp(g, b.sock, h, call_cq(g, b.sock)));
	assert_int_equal(RIG_CALL(g, b.sock, ALLOC_MW,
				  (&(struct ff_alloc_mw_req){ .pd = h, .type = IBV_MW_TYPE_1 }),
				  &resp),
			 0);
	mw = resp.mw;
	qp->wr->imm = IBV_ACCESS_REMOTE_WRITE;
	qp->wr->remote_addr = (uintptr_t)memory;
	qp->wr->bind.length = sizeof(memory);
	qp->wr->bind.mw = mw;
	qp->wr->bind.lkey = mr.lkey;
	fast_lock(g->ctl.host);
	assert_int_equal(mw_bind(qp), FF_VERR_NONE);
	fast_unlock(g->ctl.host);
	assert_non_null(mw_get(b.s, mw)->mr);
	client_close(&a);
	assert_null(mw_get(b.s, mw)->mr);
	assert_int_equal(call_one(g, b.sock, FF_MSG_DEALLOC_MW, mw), 0);
	client_close(&b);
}

int main(void)
{
	return UNIT_RUN(CALL_TEST(the_token_is_the_key), CALL_TEST(mrs_are_found_in_their_pd),
			CALL_TEST(who_imported_a_pd_gives_it_back),
			CALL_TEST(a_session_that_imported_leaves_nothing_behind),
			CALL_TEST(a_pd_outlives_its_session),
			CALL_TEST(a_window_outlives_the_session_of_its_mr));
}
