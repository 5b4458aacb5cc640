// SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
/*
 * ffrio_ping.c - `ffrio_ping [-p PORT] -l` answers, `ffrio_ping [-p PORT] [-n COUNT] [-s BYTES] DESTID` asks a
 * node that does, and says what a round trip takes. Endpoint 1 by default (-e).
 */
#include "ffrio_tool.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

/* Each message goes back to where it came from. One that is broken off is forgotten. */
static int serve(int fd)
{
	static char buffer[1 << 20];
	struct rio_from from;
	ssize_t n;

	for (;;) {
		n = rio_recv(fd, buffer, sizeof(buffer), &from);
		if (n == -ECONNRESET)
			continue;
		if (n < 0)
			return tool_fail("receive", n);
		n = rio_send(fd, from.destid, from.endpoint, buffer, n, from.last ? 0 : FFRIO_MORE);
		if (n < 0)
			tool_fail("answer", n);
	}
}

static int ask(int fd, const struct tool *t)
{
	double least = 1e12, most = 0, sum = 0;
	char *out = malloc(t->size + 1), *in = malloc(t->size + 1);

	for (long i = 0; i < t->count; i++) {
		double began = now_us(), took;
		ssize_t n;

		memset(out, (int)i, t->size);
		n = rio_send(fd, t->destid, t->endpoint, out, t->size, 0);
		if (n >= 0)
			n = rio_recv(fd, in, t->size + 1, NULL);
		if (n < 0)
			return tool_fail("ping", n);
		if ((size_t)n != t->size || memcmp(in, out, t->size)) {
			fprintf(stderr, "ffrio_ping: the answer is another\n");
			return 1;
		}
		took = now_us() - began;
		sum += took;
		least = took < least ? took : least;
		most = took > most ? took : most;
	}
	printf("%ld round trips of %zu bytes: %.1f us, from %.1f to %.1f\n", t->count, t->size,
	       sum / t->count, least, most);
	free(out);
	free(in);
	return 0;
}

int main(int argc, char **argv)
{
	struct tool t = { .endpoint = 1, .count = 10, .size = 64 };
	int fd;

	if (!tool_options(&t, argc, argv, "p:e:n:s:l") || t.count < 1 ||
	    (!t.listens && t.size > 1 << 20)) {
		fprintf(stderr, "usage: ffrio_ping [-p PORT] [-e ENDPOINT] [-n COUNT] [-s BYTES] "
				"-l|DESTID\n");
		return 2;
	}
	fd = tool_open(&t, NULL);
	if (fd < 0)
		return tool_fail("/dev/ffrio", fd);
	return t.listens ? serve(fd) : ask(fd, &t);
}
