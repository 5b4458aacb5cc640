/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * copy.h - how bytes get from one place to another, and which of two ways is the faster one. [lock]
 *
 * A plain copy leaves what it wrote in the cache, and reads there before it writes. Where neither
 * place is in a cache, that costs as much as it moves: then a copy that streams past the cache moves
 * up to 1.7 times as many bytes a second, also for a reader who has to get them from memory. Where
 * both are in the core's own cache it moves half as many. Nobody tells which it is; so each QP's
 * larger copies are timed, now and then.
 *
 *	PLAIN	some copies, the last ones timed; it is where a QP begins
 *	TRY	a few that stream, timed. Faster by TRY_GAIN: STREAM, else PLAIN, for longer each time
 *	STREAM	many; then PLAIN again, for long enough that what it moves can be in the cache
 *
 * What is timed in PLAIN follows other plain copies: the first ones behind those that streamed find
 * nothing in the cache. What is compared is the best of each, so that nobody else's time slice counts.
 */
#ifndef FFR_SOFT_COPY_H
#define FFR_SOFT_COPY_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Shorter ones are plain: they take less time than the decision may cost. Bytes. */
#define COPY_LARGE 16384u

enum copy_phase { COPY_PLAIN, COPY_TRY, COPY_STREAM };

struct copy_how {
	enum copy_phase phase;
	uint32_t left;	/* copies before the next phase, at least 1 */
	uint32_t cost;	/* the least cost of a copy in this phase, ns for 64 KB */
	uint32_t plain; /* the least cost of a copy in the last PLAIN, ns for 64 KB */
	uint32_t pause; /* how many copies the PLAIN after the next TRY in vain has */
};

void copy_init(struct copy_how *h);
/* The last 8 bytes by a store of their own, after all others: the fence keeps the order, on x86 the compiler's. */
static inline void copy_put_last(uint8_t *end, uint64_t v)
{
	atomic_thread_fence(memory_order_release);
	memcpy(end - sizeof(v), &v, sizeof(v));
}

static inline uint64_t copy_last(const uint8_t *src, uint64_t n)
{
	uint64_t v;

	memcpy(&v, src + n - sizeof(v), sizeof(v));
	return v;
}

/*
 * n bytes; the places may overlap. The last 8 bytes are seen last: programs poll the end of a message.
 */
static inline void copy_plain(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	uint64_t v;

	/* memmove: a client may well name overlapping memory; glibc makes no difference in speed */
	if (n < sizeof(v)) {
		memmove(dst, src, n);
		return;
	}
	v = copy_last(src, n);
	if (n > sizeof(v))
		memmove(dst, src, n - sizeof(v));
	copy_put_last(dst + n, v);
}

/* The same past the cache, where the machine can. The places must not overlap. */
void copy_stream(uint8_t *dst, const uint8_t *src, uint64_t n);
/* The same as copy_plain(), in the way that suits `h`. */
void copy_large(struct copy_how *h, uint8_t *dst, const uint8_t *src, uint64_t n);

static inline void copy_bytes(struct copy_how *h, uint8_t *dst, const uint8_t *src, uint64_t n)
{
	if (n < COPY_LARGE)
		copy_plain(dst, src, n);
	else
		copy_large(h, dst, src, n);
}

/* A copy of the phase took so long; 0: it was not timed. For tests. */
void copy_done(struct copy_how *h, uint64_t ns, uint64_t n);

#endif
