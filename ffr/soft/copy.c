/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * copy.c - see copy.h. What streams is SSE2, which every x86-64 has: wider stores were at most 5 per
 * cent faster (Xeon with AVX-512). Other machines have plain copies only.
 */
#include "ffr/soft/copy.h"

#include <stdatomic.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "ffr/fast/internal.h"

#define LINE	    64
#define AHEAD	    1024 /* bytes of the source that are fetched before they are needed */
#define TIMED	    4u	 /* copies of a phase */
#define FIRST_PLAIN 16u
#define PLAIN_MIN   256u
#define PLAIN_MAX   4096u
#define STREAM_NUM  1024u
#define PLAIN_AGAIN 64u /* of 64 KB: more than a core's own cache */
#define TRY_GAIN    8	/* one part in so many */

void copy_init(struct copy_how *h)
{
	*h = (struct copy_how){
		.phase = COPY_PLAIN, .left = FIRST_PLAIN, .cost = UINT32_MAX, .pause = PLAIN_MIN
	};
}

#ifdef __SSE2__
static void stream_lines(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	for (uint64_t i = 0; i < n; i += LINE) {
		__m128i *to = (__m128i *)(dst + i);
		const __m128i *from = (const __m128i *)(src + i);
		__m128i a = _mm_loadu_si128(from), b = _mm_loadu_si128(from + 1);
		__m128i c = _mm_loadu_si128(from + 2), d = _mm_loadu_si128(from + 3);

		/* beyond the end it does no harm: it never faults */
		__builtin_prefetch(src + i + AHEAD);
		_mm_stream_si128(to, a);
		_mm_stream_si128(to + 1, b);
		_mm_stream_si128(to + 2, c);
		_mm_stream_si128(to + 3, d);
	}
	/* these stores keep no order by themselves: all of them before what follows */
	_mm_sfence();
}

void copy_stream(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	uint64_t head = -(uintptr_t)dst % LINE, lines;
	uint64_t v;

	if (n < head + 2 * LINE) {
		copy_plain(dst, src, n);
		return;
	}
	v = copy_last(src, n);
	memcpy(dst, src, head);
	lines = (n - sizeof(v) - head) / LINE * LINE;
	stream_lines(dst + head, src + head, lines);
	memcpy(dst + head + lines, src + head + lines, n - sizeof(v) - head - lines);
	copy_put_last(dst + n, v);
}

static bool may_stream(const uint8_t *dst, const uint8_t *src, uint64_t n)
{
	return dst + n <= src || src + n <= dst;
}
#else
void copy_stream(uint8_t *dst, const uint8_t *src, uint64_t n)
{
	copy_plain(dst, src, n);
}

static bool may_stream(const uint8_t *dst, const uint8_t *src, uint64_t n)
{
	(void)dst, (void)src, (void)n;
	return false;
}
#endif

void copy_done(struct copy_how *h, uint64_t ns, uint64_t n)
{
	if (ns && ns * 65536 / n < h->cost)
		h->cost = (uint32_t)(ns * 65536 / n);
	if (--h->left)
		return;
	switch (h->phase) {
	case COPY_PLAIN:
		h->plain = h->cost;
		h->phase = COPY_TRY;
		h->left = TIMED;
		break;
	case COPY_TRY:
		if (h->cost < h->plain - h->plain / TRY_GAIN) {
			h->phase = COPY_STREAM;
			h->left = STREAM_NUM;
			h->pause = PLAIN_MIN;
			break;
		}
		h->phase = COPY_PLAIN;
		h->left = h->pause;
		h->pause = h->pause < PLAIN_MAX ? h->pause * 2 : PLAIN_MAX;
		break;
	case COPY_STREAM:
		h->phase = COPY_PLAIN;
		h->left = PLAIN_AGAIN;
		break;
	}
	h->cost = UINT32_MAX;
}

void copy_large(struct copy_how *h, uint8_t *dst, const uint8_t *src, uint64_t n)
{
	bool timed = h->phase == COPY_TRY || (h->phase == COPY_PLAIN && h->left <= TIMED);
	uint64_t from = 0;

	if (!may_stream(dst, src, n)) {
		copy_plain(dst, src, n);
		return;
	}
	if (timed)
		from = fast_clock();
	if (h->phase == COPY_PLAIN)
		copy_plain(dst, src, n);
	else
		copy_stream(dst, src, n);
	copy_done(h, timed ? fast_clock() - from : 0, n);
}
