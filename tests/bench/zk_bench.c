/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* zk_bench.c - see zk_bench.h. */
#include "zk_bench.h"

#include <arpa/inet.h>
#include <malloc.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/rig/unit/map_row.h"

uv_loop_t zkb_loop;
static uv_timer_t tick;

void zkb_init(void)
{
	signal(SIGPIPE, SIG_IGN);
	log_level = LOG_LEVEL_ERR;
	uv_loop_init(&zkb_loop);
	uv_timer_init(&zkb_loop, &tick);
}

static void ticked(uv_timer_t *t)
{
	(void)t;
}

void zkb_turn(void)
{
	uv_timer_start(&tick, ticked, 5, 0);
	uv_run(&zkb_loop, UV_RUN_ONCE);
}

static void state_is(void *arg, enum store_state state)
{
	struct zkb_store *b = arg;

	b->state = state;
	b->lost += state == STORE_LOST;
}

void zkb_open(struct zkb_store *b, const char *servers, const char *root)
{
	static struct alloc *alloc;
	char where[600];
	struct store_conf conf = { .where = where, .loop = &zkb_loop, .state = state_is, .arg = b };

	if (!alloc && alloc_create(&alloc))
		bench_die("alloc");
	conf.alloc = alloc;
	b->state = STORE_AWAY;
	snprintf(where, sizeof(where), "%s%s%cauth=%s", servers, root,
		 strchr(root, '?') ? '&' : '?', ZKS_OPEN_TO_ALL);
	if (store_zk.open(&conf, &b->s))
		bench_die("%s", where);
}

struct ffo_map zkb_map(uint32_t container, uint32_t rkey)
{
	struct ffo_map m = map_row(container, rkey, rkey);

	m.session = 1;
	return m;
}

long zkb_memory(void)
{
	struct mallinfo2 m = mallinfo2();

	return (long)((m.uordblks + m.hblkhd) / 1024);
}

void zkb_done(void *arg, int err, const char *why)
{
	if (err) {
		errno = -err;
		bench_die("a call failed (%s)", why);
	}
	++*(unsigned int *)arg;
}

/* ---- servers -------------------------------------------------------------------------------- */

static int ask(const char *server, char *answer, size_t size)
{
	struct sockaddr_in sa = { .sin_family = AF_INET };
	struct timeval patience = { .tv_sec = 5 };
	char host[64];
	unsigned int port;
	size_t len = 0;
	ssize_t n;
	int fd;

	if (sscanf(server, "%63[0-9.]:%u", host, &port) != 2)
		return -1;
	inet_pton(AF_INET, host, &sa.sin_addr);
	sa.sin_port = htons((uint16_t)port);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) || write(fd, "mntr", 4) != 4) {
		close(fd);
		return -1;
	}
	while (len < size - 1 && (n = read(fd, answer + len, size - 1 - len)) > 0)
		len += (size_t)n;
	answer[len] = '\0';
	close(fd);
	return 0;
}

static double value(const char *answer, const char *key)
{
	const char *at = strstr(answer, key);

	return at ? strtod(at + strlen(key), NULL) : 0;
}

void zkb_stats(const char *servers, struct zkb_stats *st)
{
	static char answer[65536];

	memset(st, 0, sizeof(*st));
	for (const char *s = servers; *s; s += strcspn(s, ",") + (s[strcspn(s, ",")] == ',')) {
		double latency;

		if (ask(s, answer, sizeof(answer)))
			continue;
		st->packets_received += (uint64_t)value(answer, "zk_packets_received\t");
		st->packets_sent += (uint64_t)value(answer, "zk_packets_sent\t");
		st->watches += (uint64_t)value(answer, "zk_watch_count\t");
		st->connections += (uint64_t)value(answer, "zk_num_alive_connections\t");
		st->znodes = (uint64_t)value(answer, "zk_znode_count\t");
		st->data_size = (uint64_t)value(answer, "zk_approximate_data_size\t");
		latency = value(answer, "zk_avg_latency\t");
		st->latency = latency > st->latency ? latency : st->latency;
	}
}
