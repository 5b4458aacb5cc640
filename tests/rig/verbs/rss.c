/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* rss.c - see rss.h. */
#include "tests/rig/verbs/rss.h"

#include <fcntl.h>
#include <unistd.h>

void rss_foreign(int fd[NUM_FOREIGN])
{
	int pipes[2];

	fd[CLOSED] = rsocket(AF_INET, SOCK_STREAM, 0);
	CHECK(fd[CLOSED] >= 0);
	CHECK_OK(pipe(pipes));
	fd[PIPE] = pipes[0];
	fd[SOCKET] = socket(AF_INET, SOCK_STREAM, 0);
	fd[FILE_] = open("/dev/null", O_RDWR);
	CHECK(fd[SOCKET] >= 0 && fd[FILE_] >= 0);
	fd[STDIN] = 0;
	CHECK_OK(rclose(fd[CLOSED]));
}

#define NAME(s) #s,
static const char *const rss_state_str[] = { RSS_STATES(NAME) };
_Static_assert(ARRAY_SIZE(rss_state_str) == NUM_STATES, "");

int rss_bound(int type)
{
	struct sockaddr_in self = cmt_self();
	int fd = rsocket(AF_INET, type, 0);

	CHECK(fd >= 0);
	CHECK_OK(rbind(fd, SA(&self), sizeof(self)));
	return fd;
}

static int refused(void)
{
	struct sockaddr_in addr;
	int l = rst_listener(&addr, 1), fd = rsocket(AF_INET, SOCK_STREAM, 0);

	CHECK_OK(rclose(l)); /* nobody is there now */
	CHECK_IS(rconnect(fd, SA(&addr), sizeof(addr)), ECONNREFUSED);
	return fd;
}

static int rss_dgram_connected(void)
{
	struct sockaddr_in self = cmt_self();
	int fd = rss_bound(SOCK_DGRAM);
	socklen_t len = sizeof(self);

	CHECK_OK(rgetsockname(fd, SA(&self), &len));
	CHECK_OK(rconnect(fd, SA(&self), sizeof(self))); /* to itself */
	return fd;
}

struct rss rss_open(enum rss_state s)
{
	struct sockaddr_in addr;
	struct rss f = { .fd = -1 };

	switch (s) {
	case INIT:
		f.fd = rsocket(AF_INET, SOCK_STREAM, 0);
		break;
	case BOUND:
		f.fd = rss_bound(SOCK_STREAM);
		break;
	case LISTENING:
		f.fd = rst_listener(&addr, 1);
		break;
	case CONNECTED:
	case ACCEPTED:
	case SHUT:
		f.pair = rst_pair_open(0);
		f.has_pair = true;
		f.fd = s == ACCEPTED ? f.pair.b : f.pair.a;
		if (s == SHUT)
			CHECK_OK(rshutdown(f.fd, SHUT_RDWR));
		break;
	case FAILED:
		f.fd = refused();
		break;
	case DGRAM:
		f.fd = rsocket(AF_INET, SOCK_DGRAM, 0);
		break;
	case DGRAM_BOUND:
		f.fd = rss_bound(SOCK_DGRAM);
		break;
	case DGRAM_CONNECTED:
		f.fd = rss_dgram_connected();
		break;
	case NUM_STATES:
		break;
	}
	CHECK(f.fd >= 0);
	return f;
}

void rss_close(struct rss *f)
{
	if (f->has_pair)
		rst_pair_close(&f->pair);
	else
		CHECK_OK(rclose(f->fd));
}

void rss_in_states(const char *what, int (*op)(int fd), uint32_t ok, int err, uint32_t refused)
{
	for (enum rss_state s = 0; s < NUM_STATES; s++) {
		int want = ok & BIT(s) ? 0 : err, e;
		struct rss f;

		if (((ok | refused) & BIT(s)) == 0)
			continue;
		f = rss_open(s);
		e = VERB_ERRNO(op(f.fd));
		if (e != want)
			FAIL("%s, state %s: \"%s\", not \"%s\"", what, rss_state_str[s],
			     e ? strerror(e) : "no error", want ? strerror(want) : "no error");
		rss_close(&f);
	}
}
