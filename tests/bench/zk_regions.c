/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk_regions.c - many registered regions in a ZooKeeper cluster, by the store alone:
 * zk_regions SERVERS REGIONS BATCH
 *
 *	publish		one host publishes them in batches, one under way, as a router does
 *	lookup		another host that knows nothing asks who has an address and for one rkey there:
 *			how long it takes and in how many flights, so round trips
 *	follow		as many are withdrawn and published again while that host watches
 *	memory		bytes for each mapping: here, where it is watched, and in each server
 */
#include "zk_bench.h"

struct lookup {
	struct zkb_store *b;
	struct store_watch addr, map;
	uint32_t rkey;
	bool asked;
	uint64_t found; /* ns; 0: not yet */
};

static void map_told(void *arg, const struct store_news *news)
{
	struct lookup *l = arg;
	struct ffo_map row;

	if (news->synced && !l->found && !store_zk.map_row(l->b->s, &l->map, l->rkey, &row))
		l->found = bench_now();
}

static void addr_told(void *arg, const struct store_news *news)
{
	struct lookup *l = arg;

	if (!news->container || l->asked)
		return;
	l->asked = true;
	l->map.key.kind = STORE_MAP;
	l->map.key.id = news->container->id;
	l->map.key.epoch = news->container->epoch;
	strcpy(l->map.key.name, news->container->host);
	l->map.cb = map_told;
	l->map.arg = l;
	store_zk.watch(l->b->s, &l->map);
}

static struct ffo_container added;
static unsigned int num_added;

static void add_done(void *arg, int err, const char *why, const struct ffo_container *c)
{
	zkb_done(arg, err, why);
	added = *c;
}

static void publish(struct zkb_store *b, uint32_t first, uint32_t n, uint32_t batch)
{
	struct ffo_map rows[FFO_BATCH_MAX];
	unsigned int done;

	for (uint32_t i = 0; i < n; i += batch) {
		uint32_t k = batch < n - i ? batch : n - i;

		for (uint32_t j = 0; j < k; j++) /* rkeys are not in order, either */
			rows[j] = zkb_map(added.id, (first + i + j) * 2654435761u);
		done = 0;
		store_zk.map_put(b->s, "bench0", rows, k, zkb_done, &done);
		ZKB_WAIT_FOR(60, done);
	}
}

static size_t rows_of(struct lookup *l)
{
	struct ffo_map rows[1024];
	uint32_t after = 0;
	size_t total = 0;
	ssize_t n;

	for (int i = 0; i < 4; i++)
		zkb_turn();
	while ((n = store_zk.map_page(l->b->s, &l->map, after, rows, 1024)) > 0) {
		total += (size_t)n;
		after = rows[n - 1].rkey;
	}
	return total;
}

static double seconds(uint64_t since)
{
	return (double)(bench_now() - since) / 1e9;
}

int main(int argc, char **argv)
{
	struct zkb_store a = { 0 }, b = { 0 };
	struct lookup l = { .b = &b };
	struct ffo_host h = { .name = "bench0", .instance = "i" };
	struct ffo_container c = { .name = "bench", .tenant = "default", .host = "bench0" };
	struct zkb_stats before, after;
	uint32_t regions, batch;
	unsigned int done = 0;
	double put, again, seen;
	uint64_t start, flights, lookup;
	long memory, there;

	if (argc != 4)
		bench_die("usage: zk_regions SERVERS REGIONS BATCH");
	regions = (uint32_t)bench_num(argv[2], 1, 10000000);
	batch = (uint32_t)bench_num(argv[3], 1, FFO_BATCH_MAX);
	zkb_init();
	zkb_open(&a, argv[1], "/bench-regions");
	zkb_open(&b, argv[1], "/bench-regions");
	ZKB_WAIT_FOR(20, a.state == STORE_READY && b.state == STORE_READY);
	store_zk.host_up(a.s, &h, zkb_done, &done);
	store_zk.container_add(a.s, &c, add_done, &num_added);
	ZKB_WAIT_FOR(20, done && num_added);

	zkb_stats(argv[1], &before);
	memory = zkb_memory();
	start = bench_now();
	publish(&a, 1, regions, batch);
	put = seconds(start);
	memory = zkb_memory() - memory;
	zkb_stats(argv[1], &after);

	there = zkb_memory();
	flights = zk_flights(zks_of(b.s)->zk);
	l.rkey = regions * 2654435761u;
	l.addr.key.kind = STORE_ADDR;
	l.addr.key.addr = added.ip[0];
	strcpy(l.addr.key.name, "default");
	l.addr.cb = addr_told;
	l.addr.arg = &l;
	start = bench_now();
	store_zk.watch(b.s, &l.addr);
	ZKB_WAIT_FOR(60, l.found);
	lookup = l.found - start;
	flights = zk_flights(zks_of(b.s)->zk) - flights;
	there = zkb_memory() - there;

	done = 0;
	store_zk.map_drop(a.s, "bench0", added.id, 0, 0, zkb_done, &done);
	ZKB_WAIT_FOR(60, done && !rows_of(&l));
	start = bench_now();
	publish(&a, 1, regions, batch);
	again = seconds(start);
	ZKB_WAIT_FOR(60, rows_of(&l) == regions);
	seen = seconds(start);

	printf("{\"regions\": %u, \"batch\": %u, \"publish_per_s\": %.0f, "
	       "\"publish_watched_per_s\": %.0f, \"watcher_behind_ms\": %.0f, "
	       "\"lookup_ms\": %.2f, \"lookup_round_trips\": %lu, "
	       "\"bytes_publisher\": %.0f, \"bytes_watcher\": %.0f, \"bytes_server\": %.1f, "
	       "\"znodes\": %lu, \"packets\": %lu}\n",
	       regions, batch, regions / put, regions / again, (seen - again) * 1e3,
	       (double)lookup / 1e6, (unsigned long)flights, memory * 1024.0 / regions,
	       there * 1024.0 / regions, (double)(after.data_size - before.data_size) / regions,
	       (unsigned long)(after.znodes - before.znodes),
	       (unsigned long)(after.packets_received - before.packets_received));
	store_zk.unwatch(b.s, &l.map);
	store_zk.unwatch(b.s, &l.addr);
	done = 0;
	store_zk.container_del(a.s, &added, add_done, &done);
	ZKB_WAIT_FOR(20, done);
	store_zk.close(a.s);
	store_zk.close(b.s);
	return 0;
}
