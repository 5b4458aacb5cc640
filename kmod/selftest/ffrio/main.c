// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - the self-test of ffrio.ko: ffrio_test [GROUP...], as root, with the module loaded and three ports
 * of vmport that are enumerated. Says what was tested and how long it took.
 */
#include "rt.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static const struct check_group groups[] = {
	{ "calls", test_calls },       { "messages", test_messages },
	{ "in-place", test_in_place }, { "windows", test_windows_of_others },
	{ "pinned", test_pinned },     { "pinned-ends", test_ends },
	{ "changes", test_changes },   { "sixteen", test_sixteen },
	{ "losses", test_losses },     { "cut", test_cut },
	{ "fuzz", test_fuzz },	       { "gone", test_gone },
};

int rt_open(unsigned int port, int endpoint, int flags)
{
	int fd = rio_open(port, endpoint, flags, NULL);

	if (fd < 0)
		check_fail("port %u, endpoint %d: %s", port, endpoint, strerror(-fd));
	return fd;
}

static int parameter(const char *name, int flags)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), "/sys/module/ffrio/parameters/%s", name);
	fd = open(path, flags | O_CLOEXEC);
	CHECK(fd >= 0);
	return fd;
}

void rt_parameter_get(const char *name, char *value, size_t size)
{
	int fd = parameter(name, O_RDONLY);
	ssize_t n = read(fd, value, size - 1);

	CHECK(n > 0);
	value[n] = 0;
	close(fd);
}

void rt_parameter(const char *name, const char *value)
{
	int fd = parameter(name, O_WRONLY);

	CHECK(write(fd, value, strlen(value)) == (ssize_t)strlen(value));
	close(fd);
}

void rt_quiet(void)
{
	static const char *const faults[] = { "doorbell_loss", "doorbell_duplicate", "error_rate",
					      "dma_error_rate" };

	for (int port = 0; port < PORTS; port++)
		for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
			EXPECT(mport_set(port, faults[i], "0"), 0);
}

/* Else `missing` tells what is not. */
static bool is_free(int fd, char *missing, size_t size)
{
	for (int port = 0; port < PORTS; port++) {
		struct ffrio_bind b;
		struct ffrio_stats s = { 0 };
		int own = rio_open(port, -1, 0, &b);

		CHECK(own >= 0);
		close(own);
		EXPECT(rio_state(fd, port, &s), 0);
		if (s.rmbs_free != b.rmbs || s.smbs_free != b.smbs) {
			snprintf(missing, size, "port %d has %u of %u RMBs, %u of %u SMBs", port,
				 s.rmbs_free, b.rmbs, s.smbs_free, b.smbs);
			return false;
		}
	}
	return true;
}

/* Pins of the whole machine that were not given back; the kernel has counted them all when this returns. */
static long long pinned(void)
{
	FILE *f = fopen("/proc/sys/vm/stat_refresh", "w");
	long long acquired = -1, released = -1, value;
	char name[64];

	CHECK(f && fputc('1', f) == '1');
	fclose(f);
	f = fopen("/proc/vmstat", "r");
	CHECK(f);
	while (fscanf(f, "%63s %lld", name, &value) == 2) {
		if (!strcmp(name, "nr_foll_pin_acquired"))
			acquired = value;
		else if (!strcmp(name, "nr_foll_pin_released"))
			released = value;
	}
	fclose(f);
	CHECK(acquired >= 0 && released >= 0);
	return acquired - released;
}

void rt_none_pinned(void)
{
	AWAIT(!pinned());
}

/*
 * With the module's parameters a buffer may take 13 s: a grant waits for its data (2.5 s), a transfer ends (1.25), its
 * cancellation is not answered (4), and the buffer is kept from DMA of a dead peer's (5).
 */
void rt_all_free(int fd)
{
	double end = check_now() + 20;
	char missing[100];

	while (!is_free(fd, missing, sizeof(missing))) {
		if (check_now() > end)
			check_fail("after 20 s %s", missing);
		vt_pause();
	}
	rt_none_pinned();
}

#define NAME(name) #name,

/* What the ports have counted, for whoever looks for the cause. */
static void tell_counters(int fd)
{
	static const char *const names[] = { FFRIO_STATS(NAME) };

	for (unsigned int port = 0; port < 3; port++) {
		uint64_t values[FFRIO_STAT_COUNT] = { 0 };
		struct ffrio_stats s = { .values = (uintptr_t)values, .count = FFRIO_STAT_COUNT };

		if (rio_state(fd, port, &s))
			continue;
		printf("  port %u:", port);
		for (int i = 0; i < FFRIO_STAT_COUNT; i++)
			if (values[i])
				printf(" %s %lu", names[i], values[i]);
		printf("\n");
	}
}

void rt_send(int fd, unsigned int to, unsigned int endpoint, size_t n, uint32_t seed,
	     unsigned int flags)
{
	uint8_t *p = malloc(n + 8), *at = p + seed % 8;
	long ret;

	vt_fill(at, n, seed);
	ret = rio_send(fd, to, endpoint, at, n, flags);
	if (ret < 0)
		tell_counters(fd);
	EXPECT(ret, (long)n);
	free(p);
}

void rt_expect(int fd, size_t n, uint32_t seed)
{
	uint8_t *p = malloc(n + 9), *at = p + seed % 7;
	struct rio_from from;

	EXPECT(rio_recv(fd, at, n + 1, &from), (long)n);
	CHECK(from.first && from.last);
	CHECK(!vt_differ(at, n, seed));
	free(p);
}

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IOLBF, 0);
	check_groups(groups, sizeof(groups) / sizeof(groups[0]), argc, argv);
	return 0;
}
