/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * c11_atomics.h - included behind all headers and before a source of the product: its atomics are the model's (c11.h).
 * Words that the model does not have are as they are.
 */
#include "tests/rig/model/c11.h"

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#undef atomic_exchange_explicit
#undef atomic_fetch_add
#undef atomic_fetch_add_explicit
#undef atomic_fetch_sub
#undef atomic_fetch_sub_explicit
#undef atomic_fetch_or
#undef atomic_fetch_or_explicit
#undef atomic_compare_exchange_strong
#undef atomic_thread_fence

#define atomic_load(p)			   atomic_load_explicit(p, memory_order_seq_cst)
#define atomic_store(p, v)		   atomic_store_explicit(p, v, memory_order_seq_cst)
#define atomic_exchange(p, v)		   atomic_exchange_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_add(p, v)		   atomic_fetch_add_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_sub(p, v)		   atomic_fetch_sub_explicit(p, v, memory_order_seq_cst)
#define atomic_fetch_or(p, v)		   atomic_fetch_or_explicit(p, v, memory_order_seq_cst)
#define atomic_thread_fence(o)		   c11_fence(o)
#define atomic_load_explicit(p, o)	   c11_as_(p, c11_load((p), sizeof(*(p)), (o)))
#define atomic_store_explicit(p, v, o)	   c11_store((p), sizeof(*(p)), (uint64_t)(v), (o))
#define atomic_exchange_explicit(p, v, o)  c11_rmw_(p, C11_XCHG, v, o)
#define atomic_fetch_add_explicit(p, v, o) c11_rmw_(p, C11_ADD, v, o)
#define atomic_fetch_sub_explicit(p, v, o) c11_rmw_(p, C11_SUB, v, o)
#define atomic_fetch_or_explicit(p, v, o)  c11_rmw_(p, C11_OR, v, o)
#define atomic_compare_exchange_strong(p, e, v)                                                    \
	({                                                                                         \
		uint64_t c11_e_ = (uint64_t)(*(e));                                                \
		bool c11_ok_ =                                                                     \
			c11_cas((p), sizeof(*(p)), &c11_e_, (uint64_t)(v), memory_order_seq_cst);  \
                                                                                                   \
		*(e) = (__typeof__(*(e)))c11_e_;                                                   \
		c11_ok_;                                                                           \
	})

#define c11_rmw_(p, how, v, o) c11_as_(p, c11_rmw((p), sizeof(*(p)), how, (uint64_t)(v), (o)))
/* A statement's value may go unused. The sum has no atomic type, which clang casts nothing to. */
#define c11_as_(p, v)                                                                              \
	({                                                                                         \
		__typeof__(*(p) + 0) c11_v_ = (__typeof__(*(p) + 0))(v);                           \
                                                                                                   \
		c11_v_;                                                                            \
	})
