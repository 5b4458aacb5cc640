/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * replay.c - `replay_NAME CORPUS`: a fuzz target, built by gcc with the other sanitized programs, over the files of
 * a folder: each as it is, cut off in the middle, and with some bytes changed. What is changed depends on the
 * file's name only, so a run can be repeated. It finds nothing that libFuzzer does not find, but needs no build
 * of its own: make test-all runs this, make test-nightly libFuzzer. A failure is a sanitizer's report or abort().
 */
#include <fts.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CHANGES 2u
#define MAX	65536

int LLVMFuzzerInitialize(int *argc, char ***argv) __attribute__((weak));
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char current[4096]; /* the input that runs now; printed if the target aborts */

static void on_abort(int sig)
{
	(void)sig;
	(void)!write(2, current, strlen(current));
}

/* Run the target on a copy of exactly this size, so that AddressSanitizer reports reads beyond the end. */
static void run(const uint8_t *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static uint32_t next_random(uint32_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 17;
	*x ^= *x << 5;
	return *x;
}

static void replay(const char *path, const char *name)
{
	static uint8_t data[MAX];
	FILE *f = fopen(path, "re");
	uint32_t random = 2166136261u;
	size_t size;

	if (!f) {
		perror(path);
		exit(1);
	}
	size = fread(data, 1, sizeof(data), f);
	fclose(f);
	for (; *name; name++)
		random = (random ^ (uint8_t)*name) * 16777619u;
	random |= 1;
	snprintf(current, sizeof(current), "%s: as it is\n", path);
	run(data, size);
	snprintf(current, sizeof(current), "%s: the first %zu bytes\n", path, size / 2);
	run(data, size / 2);
	for (unsigned i = 0; size && i < CHANGES; i++) {
		size_t at = next_random(&random) % size;
		uint8_t was = data[at];

		data[at] = (uint8_t)next_random(&random);
		snprintf(current, sizeof(current), "%s: byte %zu is %u\n", path, at, data[at]);
		run(data, size);
		data[at] = was;
	}
}

int main(int argc, char **argv)
{
	unsigned n = 0;
	FTSENT *e;
	FTS *fts;

	if (argc != 2) {
		fprintf(stderr, "usage: %s CORPUS\n", argv[0]);
		return 2;
	}
	signal(SIGABRT, on_abort);
	fts = fts_open((char *[]){ argv[1], NULL }, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	while (fts && (e = fts_read(fts))) {
		if (e->fts_info != FTS_F)
			continue;
		replay(e->fts_path, e->fts_name);
		n++;
	}
	if (fts)
		fts_close(fts);
	printf("%u files\n", n);
	return n ? 0 : 1;
}
