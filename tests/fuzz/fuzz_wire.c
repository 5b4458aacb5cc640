/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/peer/peer.c ffr/peer/conn.c ffr/peer/hello.c ffr/peer/sock.c ffr/peer/tls.c ffo/tls/tls.c ffo/tls/cert.c ffo/tls/crl.c ffr/peer/io.c ffr/lib/addr.c ffr/lib/log.c -lssl -lcrypto */
/*
 * fuzz_wire.c - whatever bytes come in where a router accepts others: only one that said who it is,
 * is known to be that, and gave a verdict where it decides, is attached; everything else ends, and
 * nothing is left of it.
 *
 * Through the whole of peer.c on a socket pair. The first byte's bits: 0: it comes from the known
 * host's address; 1: the router's name is the greater one, it decides; 2: a valid hello is sent
 * before the bytes, 3: into which the bytes are XORed instead; the rest: where they are cut in two.
 */
#include <arpa/inet.h>
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/fast/backend.h"
#include "ffr/peer/internal.h"
#include "ffr/peer/io.h"

static uv_loop_t loop;
static struct peers *ps;
static struct fast_host host;
static struct fast f;
static struct wire_hello attached_with;
static uint32_t attached;

void fast_lock(struct fast_host *h)
{
	(void)h;
}

void fast_unlock(struct fast_host *h)
{
	(void)h;
}

static void want_host(void *arg, const char *host)
{
	assert(arg == &loop && strlen(host) < WIRE_HOST_SZ);
}

static int wire_attach(struct fast *fast, struct wire_peer *p, struct wire_io *io,
		       const struct wire_hello *theirs)
{
	assert(fast == &f && !p->tcp);
	attached_with = *theirs;
	attached++;
	p->tcp = (struct wire_tcp *)io;
	return 0;
}

static void wire_detach(struct fast *fast, struct wire_peer *p, const char *why)
{
	assert(fast == &f && p->tcp && why);
	wire_io_close((struct wire_io *)p->tcp);
	p->tcp = NULL;
}

static const struct backend_ops ops = {
	.wire_attach = wire_attach,
	.wire_detach = wire_detach,
};
static struct backend backend = { .ops = &ops };

static void begin(bool decides)
{
	static char wire[32];
	const struct peers_conf conf = {
		.loop = &loop,
		.fast = &host,
		.host = decides ? "z" : "a",
		.instance = "i",
		.cluster = "c",
		.listen = wire,
		.check_addr = true,
	};
	char err[256];

	/* several may run at a time */
	snprintf(wire, sizeof(wire), "tcp:127.%d.%d.1:7471", 1 + (getpid() >> 8 & 127),
		 getpid() & 255);
	f.host = &host;
	host.threads[0] = &f;
	host.num_threads = 1;
	f.be = &backend;
	attached = 0;
	if (uv_loop_init(&loop) || peers_create(&ps, &conf, err, sizeof(err)))
		abort();
	peers_on_stranger(ps, want_host, &loop);
	if (!peer_of_host(ps, "m", "im", "tcp:127.0.0.9:1", true))
		abort();
}

static void turn(void)
{
	for (int i = 0; i < 4; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
}

static void hello_of_m(struct wire_hello *w)
{
	struct hello h = { .cluster = "c",
			   .host = "m",
			   .to = ps->conf.host,
			   .instance = "im",
			   .seq = 1,
			   .oldest = 1 };

	hello_make(w, &h);
	memset(w->nonce, 1, sizeof(w->nonce));
}

static void put(int fd, const uint8_t *data, size_t len)
{
	if (len && send(fd, data, len, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
		return; /* it has closed */
	turn();
}

static void check(bool known_addr)
{
	const struct wire_hello *w = &attached_with;
	struct wire_hello ours;

	if (!attached)
		return;
	hello_of_m(&ours);
	assert(known_addr && attached == 1);
	assert(!strcmp(w->host, "m") && !strcmp(w->instance, "im") && !strcmp(w->cluster, "c"));
	assert(!strcmp(w->to, ps->conf.host) && !w->status);
	assert(!memcmp(w->magic, ours.magic, sizeof(ours.magic)) && w->length == ours.length);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t flags = size ? data[0] : 0, buf[2048];
	struct sockaddr_storage from = { 0 };
	struct sockaddr_in *four = (void *)&from;
	size_t len = size ? size - 1 : 0, cut, n = 0;
	int fd[2];

	log_level = LOG_LEVEL_ERR;
	if (len > sizeof(buf) - sizeof(struct wire_hello))
		return 0;
	begin(flags & 2);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd))
		abort();
	four->sin_family = AF_INET;
	four->sin_addr.s_addr = htonl(flags & 1 ? 0x7f000009 : 0x7f000008);
	peer_conn_accept(ps, fd[0], &from);
	turn();
	if (flags & 12) {
		hello_of_m((struct wire_hello *)buf);
		n = sizeof(struct wire_hello);
	}
	for (size_t i = 0; i < len; i++) {
		if (flags & 8 && i < sizeof(struct wire_hello))
			buf[i] ^= data[1 + i];
		else
			buf[n++] = data[1 + i];
	}
	cut = n * (flags >> 4) / 16;
	put(fd[1], buf, cut);
	put(fd[1], buf + cut, n - cut);
	check(flags & 1);
	close(fd[1]);
	turn();
	assert(!ps->num_conns && !ps->num_strangers);
	peers_free(ps);
	uv_run(&loop, UV_RUN_DEFAULT);
	if (uv_loop_close(&loop))
		abort();
	return 0;
}
