/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* deep_rig.c - see deep_rig.h. */
#include "tests/rig/unit/deep_rig.h"

int deep_setup(void **state)
{
	static struct rig_one one;
	uint32_t usual = rig_depth;

	rig_depth = DEEP;
	rig_one_open(&one, &soft_ops, IBV_QPT_RC, 2 * DEEP, false);
	rig_depth = usual;
	*state = &one;
	return 0;
}

int deep_teardown(void **state)
{
	rig_one_close(*state);
	return 0;
}
