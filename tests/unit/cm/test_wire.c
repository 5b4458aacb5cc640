/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_wire.c - ffr/cm/wire.c: which frames of other hosts can be messages between two containers.
 */
#include <stdlib.h>

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

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(a_message_fits_into_its_frame),
			cmocka_unit_test(its_path_is_the_containers));
}
