// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ffrio_perf.c - throughput of messages: `ffrio_perf [-p PORT] -l` receives, `ffrio_perf [-p PORT] [-n COUNT]
 * [-s BYTES] [-w] [-r|-z] DESTID` sends and says MB/s and its share of a CPU. It copies; -r: from its own pages,
 * which the kernel pins; -z: from send buffers, in blocks. -w: each message has arrived before the next. Endpoint 2
 * by default (-e). The receiver ends with -n messages (0: never).
 *
 * Tests: vm/ffrio.sh
 */
#include "ffrio_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec + t.tv_nsec / 1e9;
}

static double cpu(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_utime.tv_sec + u.ru_stime.tv_sec +
	       (u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static int receive(int fd, long count, bool in_place)
{
	static char buffer[1 << 20];

	for (long i = 0; !count || i < count;) {
		struct rio_from from = { 0 };
		struct ffrio_take t;
		long n;

		if (in_place) {
			n = rio_take(fd, &t);
			from.last = !n && t.flags & FFRIO_LAST;
			if (!n)
				n = rio_give_back(fd, t.buffer);
		} else {
			n = rio_recv(fd, buffer, sizeof(buffer), &from);
		}
		if (n < 0 && n != -ECONNRESET)
			return tool_fail("receive", n);
		i += from.last;
	}
	return 0;
}

/* One message in blocks of the program's own buffers, each posted as soon as it is back. */
static int post_message(int fd, const struct ffrio_bind *b, const struct tool *t, int *buffers,
			int *idle)
{
	struct ffrio_reap r;
	int ret;

	for (size_t at = 0; at < t->size || !at;) {
		size_t n = t->size - at < b->block ? t->size - at : b->block;

		if (!*idle) {
			ret = rio_reap(fd, &r);
			if (ret || r.result)
				return ret ? ret : r.result;
			buffers[(*idle)++] = r.buffer;
			continue;
		}
		ret = rio_post(fd, t->destid, t->endpoint, buffers[--*idle], n,
			       (at ? 0 : FFRIO_FIRST) | (at + n == t->size ? FFRIO_LAST : 0), 0);
		if (ret)
			return ret;
		at += n;
		if (!n)
			break;
	}
	return 0;
}

static int post_all(int fd, const struct ffrio_bind *b, const struct tool *t)
{
	int buffers[FFRIO_BUFFERS], all = 0, idle, ret = 0;

	while (all < 8 && (buffers[all] = rio_alloc(fd)) >= 0)
		all++;
	if (!all)
		return buffers[0];
	idle = all;
	for (long i = 0; i < t->count && !ret; i++)
		ret = post_message(fd, b, t, buffers, &idle);
	while (idle < all && !ret) {
		struct ffrio_reap r;

		ret = rio_reap(fd, &r);
		if (!ret)
			ret = r.result;
		idle++;
	}
	return ret;
}

static int send_all(int fd, const struct tool *t, const char *p)
{
	unsigned int flags = (t->pinned ? FFRIO_PINNED : FFRIO_COPY) | (t->waits ? FFRIO_SYNC : 0);
	long ret = 0;

	for (long i = 0; i < t->count && ret >= 0; i++)
		ret = rio_send(fd, t->destid, t->endpoint, p, t->size, flags);
	return ret < 0 ? ret : rio_flush(fd);
}

int main(int argc, char **argv)
{
	struct tool tool = { .endpoint = 2, .count = -1, .size = 16 << 20 };
	struct ffrio_bind b;
	double t, c;
	char *p;
	int fd, ret;

	if (!tool_options(&tool, argc, argv, "p:e:n:s:lrwz")) {
		fprintf(stderr, "usage: ffrio_perf [-p PORT] [-e ENDPOINT] [-n COUNT] [-s BYTES] "
				"[-w] [-r|-z] -l|DESTID\n");
		return 2;
	}
	fd = tool_open(&tool, &b);
	if (fd < 0)
		return tool_fail("/dev/ffrio", fd);
	if (tool.listens)
		return receive(fd, tool.count < 0 ? 0 : tool.count, tool.in_place);
	if (tool.count < 0)
		tool.count = 10;
	/* its pages are there before the clock runs */
	p = malloc(tool.size + 1);
	if (!p)
		return tool_fail("memory", -ENOMEM);
	memset(p, 0x5a, tool.size);
	t = now();
	c = cpu();
	ret = tool.in_place ? post_all(fd, &b, &tool) : send_all(fd, &tool, p);
	free(p);
	if (ret)
		return tool_fail("send", ret);
	t = now() - t;
	c = cpu() - c;
	printf("%ld messages of %zu bytes: %.2f MB/s, %.0f %% of a CPU\n", tool.count, tool.size,
	       tool.count * (double)tool.size / t / 1e6, 100 * c / t);
	return 0;
}
