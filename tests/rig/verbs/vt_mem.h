/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * vt_mem.h - what is checked for each kind of memory that a program registers: all operations move
 * the right bytes, one-sided ones are seen at the application's address without a call, nothing
 * beside the region changes, contents outlive the registration, and the memory stays ordinary
 * memory afterwards.
 */
#ifndef VT_MEM_H
#define VT_MEM_H

#include "tests/rig/verbs/vt.h"

/* [outer + off, + len) is registered; it lies inside [outer, + outer_len), which is overwritten. */
void vt_mem_use(uint8_t *outer, size_t outer_len, size_t off, size_t len);
/* Memory that may only be read: it is sent, and read by the peer. */
void vt_mem_use_read_only(const void *mem, size_t len);
/* Another mapping of the same pages sees what the peer wrote, and the other way about. */
void vt_mem_use_alias(uint8_t *p, uint8_t *alias, size_t len);
/*
 * As vt_mem_use, for children: one has the memory as it was, writes to it, and the parent's traffic
 * goes on unharmed. `shared`: the child sees the parent's memory, and leaves it alone.
 */
void vt_mem_fork(uint8_t *outer, size_t outer_len, size_t off, size_t len, bool shared);

/* Bytes of [p, + len) that are mapped as shared memory. */
size_t vt_mem_shared(const void *p, size_t len);

#endif
