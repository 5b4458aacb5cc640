/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fake_rig.c - see fake_rig.h. */
#include "tests/rig/unit/fake_rig.h"

int fake_rig_setup(void **state)
{
	static struct rig_one one;

	fake_reset();
	rig_one_open(&one, &fake_ops, IBV_QPT_RC, 64, false);
	rig_connect(&one.r, one.qp, NULL);
	rig_run(&one.r);
	*state = &one;
	return 0;
}

int fake_rig_teardown(void **state)
{
	rig_one_close(*state);
	return 0;
}
