// SPDX-License-Identifier: GPL-2.0
/*
 * test_traffic.c - contents under traffic. Threads of the router and a thread of the owner each count up
 * a word of their own in every page, while the owner forks, unmaps, moves, protects and swaps the pages.
 * No count may be lost, by nobody.
 */
#include "ft.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGES	96
#define N	(PAGES * PAGE)
#define THREADS 2

struct count {
	uint8_t *p;
	int word;
	volatile bool *stop;
	uint64_t expected[PAGES];
	uint64_t bus, lost;
};

/* An increment is a load and a store; a SIGBUS between them (the range is away) means to try again. */
static void *count_run(void *arg)
{
	struct count *c = arg;
	sigjmp_buf here;

	while (!*c->stop)
		for (volatile int page = 0; page < PAGES; page++) {
			volatile uint64_t *word = (uint64_t *)(c->p + page * PAGE) + c->word;

			ft_bus = &here;
			if (sigsetjmp(here, 0)) {
				c->bus++;
				continue;
			}
			c->lost += *word != c->expected[page];
			*word = c->expected[page] + 1;
			ft_bus = NULL;
			c->expected[page]++;
		}
	return NULL;
}

/*
 * Is there surely something to follow? MADV_PAGEOUT leaves a page alone that is mapped twice, as by a view of
 * FFMEM_PAGES.
 */
static bool is_followed(int kinds, uint32_t flags)
{
	if (flags & FFMEM_PINNED)
		return false;
	return !(flags & FFMEM_PAGES) || kinds & ~(CHURN_PAGEOUT | CHURN_COUNT);
}

static void traffic(struct owner *o, const char *name, int kinds, uint32_t flags, uint64_t ms)
{
	uint64_t at = own_mmap(o, N, PROT_READ | PROT_WRITE,
			       (flags & FFMEM_PAGES ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS,
			       NULL);
	struct count count[THREADS] = {};
	volatile bool stop = false;
	pthread_t thread[THREADS];
	struct ffmem_stat s;
	struct view v;
	uint64_t n = 0, bus = 0, lost = 0;

	view_make(&v, o, at, N, FFMEM_WRITE | flags);
	own_send(o, OWN_CHURN, at, N, ms, kinds);
	for (int i = 0; i < THREADS; i++) {
		count[i] = (struct count){ .p = v.p, .word = WORD_ROUTER + i, .stop = &stop };
		CHECK(!pthread_create(&thread[i], NULL, count_run, &count[i]));
	}
	EXPECT(own_wait(o), 0);
	stop = true;
	for (int i = 0; i < THREADS; i++) {
		pthread_join(thread[i], NULL);
		for (int page = 0; page < PAGES; page++) {
			uint64_t word;

			CHECK(pread(o->mem_fd, &word, 8, at + page * PAGE + 8 * count[i].word) ==
			      8);
			lost += word != count[i].expected[page];
			n += word;
		}
		lost += count[i].lost;
		bus += count[i].bus;
	}
	view_stat(&v, &s);
	printf("  %s: %lu counted, %lu lost, %lu SIGBUS, %llu faults, %llu invalidations\n", name,
	       n, lost, bus, s.faults, s.invalidations);
	CHECK(!lost && n && (s.invalidations || !is_followed(kinds, flags)));
	/* Where nothing is ever unmapped, one that waits always gets its page. */
	if (!(kinds & (CHURN_PROTECT | CHURN_REMAP)) && (flags & FFMEM_WAIT))
		CHECK(!bus);
	view_end(&v);
}

void test_traffic(void)
{
	uint64_t ms = atoi(getenv("FT_MS") ?: "1500");
	struct owner o;

	owner_start(&o);
	traffic(&o, "fork", CHURN_FORK | CHURN_COUNT, 0, ms);
	traffic(&o, "fork, pinned", CHURN_FORK | CHURN_COUNT, FFMEM_PINNED, ms);
	traffic(&o, "MADV_PAGEOUT", CHURN_PAGEOUT | CHURN_COUNT, 0, ms);
	traffic(&o, "MADV_PAGEOUT, waiting", CHURN_PAGEOUT | CHURN_COUNT, FFMEM_WAIT, ms);
	traffic(&o, "MADV_PAGEOUT, never waiting", CHURN_PAGEOUT | CHURN_COUNT, FFMEM_NOWAIT, ms);
	traffic(&o, "MADV_PAGEOUT and fork, waiting", CHURN_PAGEOUT | CHURN_FORK | CHURN_COUNT,
		FFMEM_WAIT, ms);
	traffic(&o, "mprotect", CHURN_PROTECT, 0, ms);
	traffic(&o, "mremap", CHURN_REMAP, 0, ms);
	traffic(&o, "all of these", CHURN_PROTECT | CHURN_REMAP | CHURN_FORK | CHURN_PAGEOUT, 0,
		ms);
	traffic(&o, "shared, pages: MADV_PAGEOUT", CHURN_PAGEOUT | CHURN_COUNT, FFMEM_PAGES, ms);
	traffic(&o, "shared, pages: all of these",
		CHURN_PROTECT | CHURN_REMAP | CHURN_FORK | CHURN_PAGEOUT, FFMEM_PAGES, ms);
	owner_stop(&o);
}
