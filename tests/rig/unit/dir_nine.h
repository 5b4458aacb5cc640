/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * dir_nine.h - container 9, which is on another host, h1, and has 10.0.0.9; beside dir_rig.h, with the
 * texts of requests and answers that name it.
 */
#ifndef DIR_NINE_H
#define DIR_NINE_H

#include "tests/rig/unit/unit.h"
#include "tests/rig/unit/dir_rig.h"

#define DIR_IP(n) "{'tenant':'t','ip':'10.0.0." #n "'}"
#define NOBODY	  "{'container':null,'host':null}"
#define DIR_ID(n) "{'container':" #n "}"
#define ANSWER	  "{'container':%s,'host':%s}"
#define ADDRESS	  "{'event':'resolve','tenant':'t','ip':'10.0.0.9','container':%s,'host':%s}"
#define H1	  host_text("h1", true)

extern struct fast *dir_fast;

extern struct container *dir_here;

extern struct remote *dir_there;
/* Container 9 is on h1 and has 10.0.0.9; the path to it is known. */
struct remote *dir_find_nine(void);
int dir_nine_setup(void **state);

#define DIR_T(fn) cmocka_unit_test_setup_teardown(fn, dir_nine_setup, dir_teardown)

#endif
