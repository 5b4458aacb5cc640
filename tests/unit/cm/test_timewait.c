/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/unit/ctl_rig.c tests/rig/unit/cm_rig.c ffo/base/limits.c ffo/base/proto.c */
/*
 * test_timewait.c - what is left of connections is bounded, and no tenant takes the place of another's.
 */
#include <string.h>

#include "ffr/cm/internal.h"
#include "tests/rig/unit/cm_rig.h"
#include "tests/rig/unit/unit.h"

#define ROOM 4096u /* entries that there may be */
#define BLUE 100u

static struct cm *cm(void)
{
	return cm_two.rig.ctl.cm;
}

/* A connection of that tenant has ended, whose id had that number. */
static void ends(const char *tenant, uint32_t comm)
{
	struct container c = { 0 };
	struct cm_cont cont = { .c = &c };
	struct cm_id id = { .cm = cm(), .cont = &cont, .comm = comm, .peer.comm = comm };
	struct cm_msg m = { .type = CM_MSG_REJ };

	strcpy(c.tenant, tenant);
	cm_timewait(&id, &m, 1);
}

static void a_flood_replaces_itself(void **state)
{
	const uint32_t first = 0x1000;

	(void)state;
	for (uint32_t i = 0; i < BLUE; i++)
		ends("blue", i + 1);
	for (uint32_t i = 0; i < 2 * ROOM; i++)
		ends("red", first + i);
	assert_int_equal(cm()->num_timewait, ROOM);
	for (uint32_t i = 0; i < BLUE; i++)
		assert_non_null(cm_timewait_by_comm(cm(), i + 1));
	/* the youngest of red's are there, and no others */
	assert_null(cm_timewait_by_comm(cm(), first + ROOM + BLUE - 1));
	assert_non_null(cm_timewait_by_comm(cm(), first + ROOM + BLUE));
	/* a third tenant finds a place, which is one of red's */
	ends("green", 0x800000);
	assert_non_null(cm_timewait_by_comm(cm(), 0x800000));
	assert_non_null(cm_timewait_by_comm(cm(), 1));
	assert_null(cm_timewait_by_comm(cm(), first + ROOM + BLUE));
	cm_timewait_fini(cm());
	assert_null(cm()->timewait_tenants);
}

/*
 * The answer to a DREQ ends its repetition, if it comes along the connection's path from the peer.
 */
static void an_answer_comes_along_the_path(void **state)
{
	const union ibv_gid here = { .raw = { [15] = 1 } }, there = { .raw = { [15] = 2 } };
	const union ibv_gid other = { .raw = { [15] = 3 } };
	struct container c = { .tenant = "blue" };
	struct cm_cont cont = { .c = &c };
	struct cm_id id = { .cm = cm(), .cont = &cont, .comm = 5, .peer.comm = 5 };
	struct cm_msg m = {
		.type = CM_MSG_DREQ, .sgid = here, .dgid = there, .src_comm = 5, .dst_comm = 7
	};
	struct cm_msg drep = {
		.type = CM_MSG_DREP, .sgid = there, .dgid = other, .src_comm = 7, .dst_comm = 5
	};

	(void)state;
	cm_timewait(&id, &m, 1);
	assert_non_null(cm_timewait_by_comm(cm(), 5));
	assert_false(cm_timewait_answer(cm(), &drep));
	drep.dgid = here;
	drep.sgid = other;
	assert_false(cm_timewait_answer(cm(), &drep));
	drep.sgid = there;
	drep.src_comm = 8;
	assert_false(cm_timewait_answer(cm(), &drep));
	assert_non_null(cm_timewait_by_comm(cm(), 5));
	drep.src_comm = 7;
	assert_true(cm_timewait_answer(cm(), &drep));
	assert_null(cm_timewait_by_comm(cm(), 5));
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test_setup_teardown(a_flood_replaces_itself, cm_two_setup,
							cm_two_teardown),
			cmocka_unit_test_setup_teardown(an_answer_comes_along_the_path,
							cm_two_setup, cm_two_teardown));
}
