/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * test_region_stress.c - registering under a running program: threads register and deregister
 * overlapping ranges of one buffer while others write into it, read(2) into it, make it private again,
 * and fork. No write may be lost, of the program, of the kernel or of the router, and no child may be
 * seen.
 *
 * Every page of the buffer has a slot for each of those who write, so that everybody knows what
 * must be in his own.
 *
 * build: tests/rig/fakes/fake_shadow.c tests/rig/fakes/fake_pages.c ffr/mem/fallible.c ffl/mem/mr.c ffl/mem/heat.c ffl/mem/track.c ffl/mem/filter.c ffl/mem/kind.c ffl/mem/attr.c ffl/mem/plan.c ffl/mem/apply.c ffl/mem/lock.c ffl/mem/region.c ffl/mem/window.c ffl/mem/fork.c ffl/mem/malloc.c ffl/mem/private.c
 * timeout: 300
 * night: unit unit-san unit-tsan
 *
 * threads: yes
 */
#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "tests/rig/fakes/fake_shadow.h"
#include "ffl/mem/region.h"

#undef ibv_reg_mr

#define PG	   ((size_t)FF_PAGE)
#define PAGES	   1024u /* of the buffer */
#define REGISTRARS 3u
#define ROUNDS	   3000u /* registrations by each registrar */
#define FEW_ROUNDS 1000u /* registrations by each registrar where FF_BRIEF is set */
#define WRITERS	   2u
#define FORKS	   60u
#define READ_SIZE  1024u /* bytes read(2) into a page */

/* Where in each page the slots are. */
#define WRITER_AT(i)	(64u * (i))
#define REGISTRAR_AT(i) (1024u + 64u * (i))
#define READ_AT		2048u

static char *buf;
static struct ibv_pd *pd;
static _Atomic bool stop;
static _Atomic uint32_t lost, children_bad, zero_copy;

static volatile uint64_t *slot(size_t page, size_t at)
{
	return (volatile uint64_t *)(buf + page * PG + at);
}

static void *writer(void *arg)
{
	uint64_t expect[PAGES] = { 0 }, writes = 0;
	unsigned id = (unsigned)(uintptr_t)arg, seed = id;

	while (!stop) {
		size_t page = (size_t)rand_r(&seed) % PAGES;
		volatile uint64_t *s = slot(page, WRITER_AT(id));

		for (int i = 0; i < 100; i++) {
			if (*s != expect[page])
				lost++;
			*s = ++expect[page];
		}
		writes += 100;
	}
	for (size_t page = 0; page < PAGES; page++)
		if (*slot(page, WRITER_AT(id)) != expect[page])
			lost++;
	return (void *)(uintptr_t)(writes > 0);
}

static void *reader(void *arg)
{
	uint8_t expect[PAGES] = { 0 }, data[READ_SIZE];
	unsigned seed = 99;
	int fds[2];

	(void)arg;
	if (pipe(fds))
		abort();
	for (uint8_t v = 1; !stop; v++) {
		size_t page = (size_t)rand_r(&seed) % PAGES;
		uint8_t *p = (uint8_t *)buf + page * PG + READ_AT;

		memset(data, expect[page], sizeof(data));
		if (memcmp(p, data, sizeof(data)))
			lost++;
		memset(data, v, sizeof(data));
		if (write(fds[1], data, sizeof(data)) != sizeof(data) ||
		    read(fds[0], p, sizeof(data)) != sizeof(data))
			lost++;
		expect[page] = v;
	}
	close(fds[0]);
	close(fds[1]);
	return NULL;
}

static unsigned rounds(void)
{
	return getenv("FF_BRIEF") ? FEW_ROUNDS : ROUNDS;
}

static void *registrar(void *arg)
{
	uint64_t expect[PAGES] = { 0 };
	unsigned id = (unsigned)(uintptr_t)arg, seed = id + 1000;
	size_t at = REGISTRAR_AT(id);

	for (unsigned round = 0; round < rounds(); round++) {
		size_t from = (size_t)rand_r(&seed) % (PAGES - 1) * PG + (size_t)rand_r(&seed) % PG;
		size_t max = PAGES * PG - from < 64 * PG ? PAGES * PG - from : 64 * PG;
		size_t len = (size_t)rand_r(&seed) % max + 1;
		struct ibv_mr *mr = ibv_reg_mr(pd, buf + from, len, IBV_ACCESS_LOCAL_WRITE);
		size_t first = from / PG, last = (from + len - 1) / PG;

		if (!mr)
			abort();
		for (size_t page = first; page <= last; page++) {
			if (*slot(page, at) != expect[page])
				lost++;
			if (!fake_shadow_mr_store(mr, (uintptr_t)buf + page * PG + at,
						  expect[page] + 1))
				continue; /* an edge, or private again: process_vm_*'s */
			zero_copy++;
			expect[page]++;
			if (*slot(page, at) != expect[page])
				lost++;
		}
		if (ibv_dereg_mr(mr))
			abort();
		for (size_t page = first; page <= last; page++)
			if (*slot(page, at) != expect[page])
				lost++;
	}
	return NULL;
}

static void *forker(void *arg)
{
	(void)arg;
	for (unsigned i = 0; i < FORKS; i++) {
		int status;
		pid_t pid = fork();

		if (!pid) {
			alarm(20 * unit_slow());
			memset(buf, 0xee, PAGES * PG);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) != pid || status)
			children_bad++;
	}
	return NULL;
}

static void *returner(void *arg)
{
	uint64_t done = 0;
	unsigned seed = 7;

	(void)arg;
	while (!stop) {
		size_t from = (size_t)rand_r(&seed) % PAGES;
		size_t num = (size_t)rand_r(&seed) % 32 + 1;

		if (num > PAGES - from)
			num = PAGES - from;
		if (ffl_private_has((uintptr_t)buf + from * PG, num * PG))
			done += !ffl_private_make((uintptr_t)buf + from * PG, num * PG);
		sched_yield();
	}
	return (void *)(uintptr_t)done;
}

static void no_write_is_lost(void **state)
{
	struct ffl_context *ctx = fake_shadow_open(true);
	pthread_t reg[REGISTRARS], wr[WRITERS], rd, fk, ret;
	void *wrote, *returned;

	(void)state;
	pd = fake_shadow_pd(ctx);
	/* between pages to read: a kernel may make one mapping of it and a thread's stack, which is not replaced */
	buf = mmap(NULL, (PAGES + 2) * PG, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	assert_ptr_not_equal(buf, MAP_FAILED);
	buf += PG;
	assert_int_equal(mprotect(buf, PAGES * PG, PROT_READ | PROT_WRITE), 0);
	for (uintptr_t i = 0; i < WRITERS; i++)
		assert_int_equal(pthread_create(&wr[i], NULL, writer, (void *)i), 0);
	assert_int_equal(pthread_create(&rd, NULL, reader, NULL), 0);
	for (uintptr_t i = 0; i < REGISTRARS; i++)
		assert_int_equal(pthread_create(&reg[i], NULL, registrar, (void *)i), 0);
	assert_int_equal(pthread_create(&fk, NULL, forker, NULL), 0);
	assert_int_equal(pthread_create(&ret, NULL, returner, NULL), 0);
	for (unsigned i = 0; i < REGISTRARS; i++)
		pthread_join(reg[i], NULL);
	pthread_join(fk, NULL);
	stop = true;
	for (unsigned i = 0; i < WRITERS; i++) {
		pthread_join(wr[i], &wrote);
		assert_non_null(wrote);
	}
	pthread_join(rd, NULL);
	pthread_join(ret, &returned);
	assert_int_equal(lost, 0);
	assert_int_equal(children_bad, 0);
	assert_int_equal(fake_shadow.mrs, 0);
	if (fake_shadow_has_uffd())
		assert_true(zero_copy > rounds() && returned);
	fake_shadow_close(ctx);
	free(pd);
	munmap(buf - PG, (PAGES + 2) * PG);
}

int main(void)
{
	return UNIT_RUN(cmocka_unit_test(no_write_is_lost));
}
