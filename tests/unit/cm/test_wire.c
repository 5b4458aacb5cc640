/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_wire.c - ffr/cm/wire.c: which frames of other hosts can be messages between two containers.
 */
#include <stdlib.h>

/* What take_one() has from other rooms is this test's. */
#define wire_cm_take  fake_cm_take
#define wire_cm_taken fake_cm_taken
#define dir_allowed   fake_dir_allowed
#define cm_deliver    fake_cm_deliver
#define ctl_charge    fake_ctl_charge
#include "ffr/cm/wire.c" /* NOLINT(bugprone-suspicious-include) */
#include "tests/rig/unit/unit.h"

static const union ibv_gid gid_there = { .raw = { [15] = 1 } }, gid_here = { .raw = { [15] = 2 } };

static struct remote there = { .num_gids = 1, .lid = 1 };
static struct container here = { .num_gids = 1, .lid = 2 };

/* A frame with the first len bytes of the message. */
static bool sound(const struct cm_msg *m, uint32_t len)
{
	struct cm_frame *fr = calloc(1, sizeof(*fr) + len);
	struct cm_msg got;
	bool is;

	fr->h.len = len;
	memcpy(fr->msg, m, len < sizeof(*m) ? len : sizeof(*m));
	is = is_sound(fr, &there, &here, &got);
	free(fr);
	return is;
}

static void a_message_fits_into_its_frame(void **state)
{
	struct cm_msg m = { .type = CM_MSG_REQ, .sgid = gid_there, .dgid = gid_here, .pd_len = 5 };

	(void)state;
	there.gid[0] = gid_there;
	here.gid[0] = gid_here;
	assert_true(sound(&m, MSG_SZ(5)));
	assert_false(sound(&m, MSG_SZ(4)));
	m.pd_len = 0;
	assert_true(sound(&m, MSG_SZ(0)));
	assert_false(sound(&m, MSG_SZ(0) - 1));
	assert_false(sound(&m, sizeof(m) + 1));
	m.type = CM_MSG_NUM;
	assert_false(sound(&m, MSG_SZ(0)));
}

/* A host speaks for its own containers only. */
static void its_path_is_the_containers(void **state)
{
	struct cm_msg m = { .type = CM_MSG_REQ, .sgid = gid_here, .dgid = gid_here };

	(void)state;
	there.gid[0] = gid_there;
	here.gid[0] = gid_here;
	assert_false(sound(&m, MSG_SZ(0)));
	m.sgid = m.dgid = gid_there;
	assert_false(sound(&m, MSG_SZ(0)));
}

/* ---- a frame that has come ------------------------------------------------------------------ */

static struct cm_frame *come;
static bool is_allowed;
static unsigned delivered, charged;

struct cm_frame *wire_cm_take(struct fast *f, struct remote **from)
{
	struct cm_frame *fr = come;

	(void)f;
	*from = &there;
	come = NULL;
	return fr;
}

void wire_cm_taken(struct fast *f, struct cm_frame *fr)
{
	(void)f;
	free(fr);
}

bool dir_allowed(const struct fast_host *h, const struct container *to, const char *tenant,
		 const char *name)
{
	(void)h;
	assert_ptr_equal(to, &here);
	assert_string_equal(tenant, "blue");
	assert_string_equal(name, "sender");
	return is_allowed;
}

void cm_deliver(struct cm *cm, const struct cm_from *from, struct container *to,
		const struct cm_msg *m)
{
	(void)cm;
	assert_int_equal(from->id, 5);
	assert_string_equal(from->tenant, "blue");
	assert_string_equal(from->name, "sender");
	assert_ptr_equal(to, &here);
	assert_int_equal(m->type, CM_MSG_REQ);
	delivered++;
}

void ctl_charge(struct container *c, uint64_t begun)
{
	(void)begun;
	assert_ptr_equal(c, &here);
	charged++;
}

/* Does a request for container 7 in epoch 3 get to its receiver? Whoever the frame is for pays for it. */
static bool gets_there(uint32_t cont, uint32_t epoch, bool allowed)
{
	static const struct cm_msg m = { .type = CM_MSG_REQ, .sgid.raw[15] = 1, .dgid.raw[15] = 2 };
	struct fast f = { 0 };
	struct fast *threads[1] = { &f };
	struct fast_host host = { 0 };
	struct ctl ctl = { .host = &host };
	struct cm cm = { .ctl = &ctl };

	host.threads[0] = threads[0];
	f.host = &host;
	LIST_INSERT_HEAD(&host.containers, &here, entry);
	come = calloc(1, sizeof(*come) + MSG_SZ(0));
	come->h.len = MSG_SZ(0);
	come->h.dst_cont = cont;
	come->h.dst_epoch = epoch;
	memcpy(come->msg, &m, MSG_SZ(0));
	delivered = charged = 0;
	is_allowed = allowed;
	assert_true(take_one(&cm));
	assert_int_equal(charged, cont == here.id);
	assert_false(take_one(&cm)); /* there was one */
	return delivered;
}

static void only_what_the_policy_allows_gets_there(void **state)
{
	(void)state;
	there.gid[0] = gid_there;
	here.gid[0] = gid_here;
	there.id = 5;
	strcpy(there.tenant, "blue");
	strcpy(there.name, "sender");
	here.id = 7;
	here.epoch = 3;
	assert_true(gets_there(7, 3, true));
	assert_false(gets_there(7, 3, false));
	assert_false(gets_there(7, 2, true)); /* of a container that was here before */
	assert_false(gets_there(8, 3, true)); /* that is not here */
	here.dying = true;
	assert_false(gets_there(7, 3, true));
	here.dying = false;
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_message_fits_into_its_frame),
			cmocka_unit_test(its_path_is_the_containers),
			cmocka_unit_test(only_what_the_policy_allows_gets_there));
}
