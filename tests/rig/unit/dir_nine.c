/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* dir_nine.c - see dir_nine.h. */
#include "tests/rig/unit/dir_nine.h"

struct fast *dir_fast;
struct container *dir_here;
struct remote *dir_there;

struct remote *dir_find_nine(void)
{
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_WAIT);
	expect(FFO_OP_RESOLVE, DIR_IP(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	expect(FFO_OP_RESOLVE, DIR_ID(9));
	answer(ANSWER, cont_text(9, "t", "10.0.0.9", "h1", 3), H1);
	expect_none();
	assert_int_equal(path(0, 9, &dir_here, &dir_there), DIR_REMOTE);
	told_any();
	return dir_there;
}

int dir_nine_setup(void **state)
{
	if (dir_setup(state))
		return -1;
	dir_fast = dir_rig.rig.f;
	return 0;
}
