/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * shm.h - the one way in which the router reads what a client can write at any time: entries of rings,
 * headers, the call slot. Any thread. tests/lint/lint (shm) finds other ways.
 *
 * What plain C reads, the compiler may read twice: between a check and the use of what was checked, a
 * client can change it. So a field is read once, by shm_read() or, where it is one, as an atomic, and
 * bytes by shm_copy(); then the copy is checked, and the copy is used.
 */
#ifndef FFR_LIB_SHM_H
#define FFR_LIB_SHM_H

#include <stdint.h>
#include <string.h>

/* The field that p points to, of 8 bytes at most. */
#define shm_read(p)                                                                                \
	({                                                                                         \
		_Static_assert(sizeof(*(p)) <= 8, "more than one access: shm_copy()");             \
		*(const volatile __typeof__(*(p)) *)(p);                                           \
	})

/*
 * n bytes into, or out of, shared memory. What is read at `to` afterwards was copied: the compiler
 * cannot know that it is the same as at `from`.
 */
static inline __attribute__((always_inline)) void shm_copy(void *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	__asm__("" : "+m"(*(uint8_t(*)[n ? n : 1])to));
}

#endif
