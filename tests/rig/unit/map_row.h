/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* map_row.h - rows of the map that tests publish. An inline; no state. */
#ifndef TEST_MAP_ROW_H
#define TEST_MAP_ROW_H

#include "ffo/base/proto.h"

/* A page of that container and key; `key` makes it another one than its neighbours. */
static inline struct ffo_map map_row(uint32_t container, uint32_t rkey, uint32_t key)
{
	return (struct ffo_map){ .container = container,
				 .rkey = rkey,
				 .session = 1 + key % 2,
				 .addr = 0x7f0000000000 + key * 4096ull,
				 .length = 4096,
				 .access = 7,
				 .shadow = 0x7e0000000000 + key * 4096ull,
				 .key = key,
				 .epoch = 1 };
}

#endif
