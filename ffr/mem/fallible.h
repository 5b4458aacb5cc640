/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * fallible.h - copies that may meet memory that is not there, and end there instead of raising a signal. Any
 * thread, once sigbus_install() was called.
 */
#ifndef FFR_MEM_FALLIBLE_H
#define FFR_MEM_FALLIBLE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <ucontext.h>

/*
 * n bytes, from the lowest address up. How many of them, from the end, were not copied: 0 is success. Where the places
 * overlap, what is copied is as if one byte followed the other.
 */
uint64_t fallible_bytes(uint8_t *dst, const uint8_t *src, uint64_t n);

/* The instruction that a handler's context is about. */
static inline uintptr_t *fault_pc(void *ucontext)
{
	ucontext_t *c = ucontext;

#ifdef __x86_64__
	return (uintptr_t *)&c->uc_mcontext.gregs[REG_RIP];
#else
	return (uintptr_t *)&c->uc_mcontext.pc;
#endif
}

/* For a handler of SIGBUS and SIGSEGV: was it such a copy? Then that ends when the handler returns. */
bool fallible_fault(void *ucontext);

/* Likewise, and the last 8 bytes are seen last, as with copy_plain() (soft/copy.h). */
static inline uint64_t fallible_copy(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	uint64_t first = n > 8 ? n - 8 : 0, left = fallible_bytes(dst, src, first);

	if (left)
		return left + (n - first);
	atomic_thread_fence(memory_order_release);
	return fallible_bytes(dst + first, src + first, n - first);
}

#endif
