/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * bucket.h - a token bucket, the one of all limits that are a number of units per second: bytes and
 * requests (rate.h), CPU time (cpu.h), control calls (quota.h). Arithmetic only: it reads no clock,
 * takes no lock and lets nobody wait; who is to wait, and how, is each limit's own.
 *
 * A bucket is a time: until when what was charged is paid for, at `rate`. While that is ahead of now,
 * units are owed. It lies behind by `burst` at most: what could have been used in that time may be used
 * at once. So in any t ns no more is let through than the rate carries in t + burst, beside what a
 * limit lets begin before it has somebody wait. Nor is there any less: what a division leaves over is
 * kept, so that many small charges take exactly as long as one of their sum.
 *
 * `now` is of any clock of ns that does not go back. Rates and numbers of units may be any; times are
 * cut off at BUCKET_NS_MAX, so that no sum of two of them wraps.
 */
#ifndef FFR_OBJ_BUCKET_H
#define FFR_OBJ_BUCKET_H

#include <stdint.h>

#define BUCKET_SECOND 1000000000ull /* ns */
#define BUCKET_NS_MAX (1ull << 62)  /* 146 years */

struct bucket {
	uint64_t rate;	/* units per second; 0: no limit */
	uint64_t burst; /* ns that `paid` may lie behind */
	uint64_t paid;	/* ns */
	uint64_t frac;	/* parts of a ns beyond that; a ns has `rate` of them */
};

/* The compiler calls a function for a long division; these are nearly always short ones. */
static inline unsigned __int128 bucket_div(unsigned __int128 n, uint64_t by)
{
	return n >> 64 ? n / by : (uint64_t)n / by;
}

static inline uint64_t bucket_cut(unsigned __int128 ns)
{
	return ns < BUCKET_NS_MAX ? (uint64_t)ns : BUCKET_NS_MAX;
}

/* ns that n units take at that rate, rounded down. */
static inline uint64_t bucket_ns(uint64_t rate, uint64_t n)
{
	return rate ? bucket_cut(bucket_div((unsigned __int128)n * BUCKET_SECOND, rate)) : 0;
}

/* Units that these ns carry at that rate, rounded down. */
static inline uint64_t bucket_units(uint64_t rate, uint64_t ns)
{
	unsigned __int128 n = bucket_div((unsigned __int128)ns * rate, BUCKET_SECOND);

	return n < UINT64_MAX ? (uint64_t)n : UINT64_MAX;
}

/* Until when it is paid for, as seen at `now`: not longer ago than the burst. */
static inline uint64_t bucket_from(const struct bucket *b, uint64_t now)
{
	return b->paid < now && now - b->paid > b->burst ? now - b->burst : b->paid;
}

/* What is owed from `from` on, in parts of a ns. */
static inline void bucket_owe(struct bucket *b, uint64_t from, unsigned __int128 parts)
{
	unsigned __int128 ns = bucket_div(parts, b->rate);

	b->paid = bucket_cut(ns + from);
	b->frac = (uint64_t)parts - (uint64_t)ns * b->rate;
}

/*
 * From `now` on another rate holds, with a burst in ns. What is owed then is owed at the new rate; without
 * one `paid` is 0.
 */
static inline void bucket_set(struct bucket *b, uint64_t now, uint64_t rate, uint64_t burst)
{
	unsigned __int128 owed = 0;

	if (b->rate && b->paid >= now)
		owed = (unsigned __int128)(b->paid - now) * b->rate + b->frac;
	*b = (struct bucket){ .rate = rate, .burst = burst };
	if (rate)
		bucket_owe(b, now, owed);
}

/* Charge n units. Who may have been idle until `now` is not paid for more than the burst before that. */
static inline void bucket_charge(struct bucket *b, uint64_t now, uint64_t n)
{
	if (b->rate)
		bucket_owe(b, bucket_from(b, now), (unsigned __int128)n * BUCKET_SECOND + b->frac);
}

/* Units that may be charged then, so that all is paid for at `end`, rounded down. */
static inline uint64_t bucket_room(const struct bucket *b, uint64_t now, uint64_t end)
{
	uint64_t from = bucket_from(b, now);

	if (!b->rate)
		return UINT64_MAX;
	return from < end ? bucket_units(b->rate, end - from) : 0;
}

/* ns until all is paid for. */
static inline uint64_t bucket_wait(const struct bucket *b, uint64_t now)
{
	return b->rate && b->paid > now ? b->paid - now : 0;
}

/* ns that it lies behind more than by the burst: the next charge at `now` forgets them. */
static inline uint64_t bucket_lost(const struct bucket *b, uint64_t now)
{
	return b->rate ? bucket_from(b, now) - b->paid : 0;
}

#endif
