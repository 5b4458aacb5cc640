/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * zk_hosts.c - many hosts on one ZooKeeper ensemble, by their stores alone (no data path):
 * zk_hosts SERVERS HOSTS PROCESSES CONTAINERS REGIONS PEERS SECONDS [PIDS]
 *
 * Each host has a store of its own, so a session; CONTAINERS containers with REGIONS mappings each;
 * and talks with PEERS containers of others: it has their address resolved, follows their host and
 * their mappings, and follows the policy and its own containers. Phases, each timed until all hosts
 * are through it:
 *
 *	connect		all sessions at once
 *	register	hosts up, containers added
 *	publish		all mappings
 *	resolve		all peers known, with their mappings
 *	idle		SECONDS with nothing to do
 *	work		SECONDS in which each host replaces a mapping every second, which PEERS hosts
 *			are told of
 *	policy		one rule is changed: until all have been told
 *
 * What the servers have received and sent in each phase is theirs to say (mntr); the CPU time of the
 * processes PIDS (comma-separated: the servers') is read from /proc.
 */
#include "zk_bench.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum phase { CONNECT, REGISTER, PUBLISH, RESOLVE, IDLE, WORK, POLICY, END, NUM_PHASES };

static const char *const phase_name[] = { "connect", "register", "publish", "resolve",
					  "idle",    "work",	 "policy",  "end" };
static_assert(sizeof(phase_name) / sizeof(phase_name[0]) == NUM_PHASES, "a name each");

static char root[64]; /* of this run */

static struct options {
	const char *servers, *pids;
	unsigned int hosts, processes, containers, regions, peers, seconds;
} opt;

/* Between the processes. */
static struct shared {
	_Atomic unsigned int phase;
	_Atomic unsigned int done[NUM_PHASES]; /* hosts that are through */
	_Atomic unsigned long told;	       /* changes of peers' mappings */
	_Atomic unsigned long lost;	       /* sessions */
} * shared;

/* A container of another host that a host talks with. */
struct peer {
	struct host *host;
	struct store_watch name, up, map;
	bool known, host_known, map_known;
};

struct host {
	struct zkb_store b;
	char name[32];
	unsigned int number;
	struct ffo_container *containers;
	struct peer *peers;
	struct store_watch owned, policy;
	unsigned int num_done; /* calls that ended in this phase */
	unsigned int num_added;
	bool adding;
	bool counted[NUM_PHASES];
	unsigned int rules; /* of the policy, as told last */
	uint64_t next;	    /* ns, WORK */
	uint32_t seq;
};

static void add_done(void *arg, int err, const char *why, const struct ffo_container *c)
{
	struct host *h = arg;
	unsigned int done = 0;

	zkb_done(&done, err, why);
	h->containers[h->num_added++] = *c;
	h->adding = false;
}

/* ---- peers ---------------------------------------------------------------------------------- */

static void map_told(void *arg, const struct store_news *news)
{
	struct peer *p = arg;

	p->map_known |= news->synced;
	shared->told += news->map.num;
}

static void up_told(void *arg, const struct store_news *news)
{
	((struct peer *)arg)->host_known = news->host && news->host->up;
}

static void name_told(void *arg, const struct store_news *news)
{
	struct peer *p = arg;

	if (!news->container || p->known)
		return;
	p->known = true;
	p->up = (struct store_watch){ .key.kind = STORE_HOST, .cb = up_told, .arg = p };
	strcpy(p->up.key.name, news->container->host);
	store_zk.watch(p->host->b.s, &p->up);
	p->map = (struct store_watch){ .key = { .kind = STORE_MAP,
						.id = news->container->id,
						.epoch = news->container->epoch },
				       .cb = map_told,
				       .arg = p };
	strcpy(p->map.key.name, news->container->host);
	store_zk.watch(p->host->b.s, &p->map);
}

static void nothing_told(void *arg, const struct store_news *news)
{
	(void)arg, (void)news;
}

static void policy_told(void *arg, const struct store_news *news)
{
	((struct host *)arg)->rules = (unsigned int)news->policy.num;
}

/* Peers are spread over all hosts, the same ones in each run. */
static void resolve(struct host *h)
{
	h->owned = (struct store_watch){ .key.kind = STORE_OWNED, .cb = nothing_told };
	strcpy(h->owned.key.name, h->name);
	store_zk.watch(h->b.s, &h->owned);
	h->policy = (struct store_watch){ .key.kind = STORE_POLICY, .cb = policy_told, .arg = h };
	store_zk.watch(h->b.s, &h->policy);
	for (unsigned int i = 0; i < opt.peers; i++) {
		struct peer *p = &h->peers[i];
		unsigned int other = (h->number + 1 + i * 37) % opt.hosts;

		p->host = h;
		p->name = (struct store_watch){ .key.kind = STORE_NAME, .cb = name_told, .arg = p };
		snprintf(p->name.key.name, sizeof(p->name.key.name), "n%u-c%u", other,
			 i % opt.containers);
		store_zk.watch(h->b.s, &p->name);
	}
}

/* ---- phases --------------------------------------------------------------------------------- */

static void put_one(struct host *h, uint32_t container, uint32_t rkey)
{
	struct ffo_map m = zkb_map(container, rkey);

	m.shadow += ++h->seq * 4096ull;
	store_zk.map_put(h->b.s, h->name, &m, 1, zkb_done, &h->num_done);
}

static void begin(struct host *h, enum phase phase)
{
	struct ffo_host host = { .instance = "bench", .wire = "tcp:10.0.0.1:7471" };
	struct ffo_container c = { .tenant = "default" };
	struct ffo_map rows[FFO_BATCH_MAX];

	h->num_done = 0;
	strcpy(host.name, h->name);
	strcpy(c.host, h->name);
	switch (phase) {
	case REGISTER:
		store_zk.host_up(h->b.s, &host, zkb_done, &h->num_done);
		break;
	case PUBLISH:
		for (unsigned int i = 0; i < opt.containers; i++) {
			for (unsigned int k = 0; k < opt.regions; k++)
				rows[k] = zkb_map(h->containers[i].id, k + 1);
			store_zk.map_put(h->b.s, h->name, rows, opt.regions, zkb_done,
					 &h->num_done);
		}
		break;
	case RESOLVE:
		resolve(h);
		break;
	case WORK:
		h->next = bench_now() + h->number % 1000 * 1000000ull;
		break;
	default:
		break;
	}
}

static bool peers_known(const struct host *h)
{
	for (unsigned int i = 0; i < opt.peers; i++)
		if (!h->peers[i].host_known || !h->peers[i].map_known)
			return false;
	return true;
}

static bool through(struct host *h, enum phase phase)
{
	struct ffo_container c = { .tenant = "default" };

	switch (phase) {
	case CONNECT:
		return h->b.state == STORE_READY;
	case REGISTER: /* one container after the other */
		if (h->num_done && !h->adding && h->num_added < opt.containers) {
			snprintf(c.name, sizeof(c.name), "n%u-c%u", h->number, h->num_added);
			strcpy(c.host, h->name);
			h->adding = true;
			store_zk.container_add(h->b.s, &c, add_done, h);
		}
		return h->num_added == opt.containers;
	case PUBLISH:
		return h->num_done == opt.containers;
	case RESOLVE:
		return peers_known(h);
	case WORK:
		if (bench_now() > h->next) {
			h->next += 1000000000ull;
			put_one(h, h->containers[0].id, 1 + h->seq % opt.regions);
		}
		return true;
	case POLICY:
		return h->rules;
	default:
		return true;
	}
}

static void simulate(unsigned int first, unsigned int n)
{
	struct host *hosts = calloc(n, sizeof(*hosts));
	enum phase phase = CONNECT, begun = CONNECT;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	zkb_init();
	for (unsigned int i = 0; i < n; i++) {
		hosts[i].number = first + i;
		snprintf(hosts[i].name, sizeof(hosts[i].name), "n%u", first + i);
		hosts[i].containers = calloc(opt.containers, sizeof(*hosts[i].containers));
		hosts[i].peers = calloc(opt.peers, sizeof(*hosts[i].peers));
		zkb_open(&hosts[i].b, opt.servers, root);
	}
	while ((phase = shared->phase) != END) {
		for (unsigned int i = 0; i < n; i++) {
			if (phase != begun)
				begin(&hosts[i], phase);
			if (through(&hosts[i], phase) && !hosts[i].counted[phase]) {
				hosts[i].counted[phase] = true;
				shared->done[phase]++;
			}
		}
		begun = phase;
		zkb_turn();
	}
	for (unsigned int i = 0; i < n; i++)
		shared->lost += hosts[i].b.lost;
	_exit(0); /* the sessions expire */
}

/* ---- the parent ----------------------------------------------------------------------------- */

static double cpu_seconds(void)
{
	unsigned long user = 0, sys = 0;
	double total = 0;
	char path[64];

	for (const char *p = opt.pids; p && *p;
	     p += strcspn(p, ",") + (p[strcspn(p, ",")] == ',')) {
		snprintf(path, sizeof(path), "/proc/%ld/stat", strtol(p, NULL, 10));
		FILE *f = fopen(path, "r");

		if (f &&
		    fscanf(f, "%*d (%*[^)]) %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu",
			   &user, &sys) == 2)
			total += (double)(user + sys) / (double)sysconf(_SC_CLK_TCK);
		if (f)
			fclose(f);
	}
	return total;
}

static void run_phase(enum phase phase, uint64_t patience)
{
	struct zkb_stats before, after;
	double cpu = cpu_seconds(), took;
	unsigned long told = shared->told;
	uint64_t start;

	zkb_stats(opt.servers, &before);
	start = bench_now();
	shared->phase = phase;
	while (shared->done[phase] < opt.hosts) {
		if (bench_now() - start > patience * 1000000000ull) {
			errno = 0;
			bench_die("%s: %u of %u hosts are through after %lu s", phase_name[phase],
				  shared->done[phase], opt.hosts, (unsigned long)patience);
		}
		usleep(1000);
	}
	if (phase == IDLE || phase == WORK)
		sleep(opt.seconds);
	took = (double)(bench_now() - start) / 1e9;
	zkb_stats(opt.servers, &after);
	printf("%s\"%s\": {\"seconds\": %.2f, \"received\": %lu, \"sent\": %lu, "
	       "\"received_per_s\": %.0f, \"sent_per_s\": %.0f, \"cpu\": %.2f, \"latency_ms\": %.2f, "
	       "\"znodes\": %lu, \"watches\": %lu, \"bytes\": %lu, \"sessions\": %lu, \"told\": %lu}",
	       phase ? ",\n " : "{\n ", phase_name[phase], took,
	       (unsigned long)(after.packets_received - before.packets_received),
	       (unsigned long)(after.packets_sent - before.packets_sent),
	       (double)(after.packets_received - before.packets_received) / took,
	       (double)(after.packets_sent - before.packets_sent) / took, cpu_seconds() - cpu,
	       after.latency, (unsigned long)after.znodes, (unsigned long)after.watches,
	       (unsigned long)after.data_size, (unsigned long)after.connections,
	       shared->told - told);
	fflush(stdout);
}

/* The rule that the last phase is about, by a store of our own. */
static void change_policy(void)
{
	struct zkb_store b = { 0 };
	struct ffo_rule rule;
	unsigned int done = 0;

	zkb_init();
	zkb_open(&b, opt.servers, root);
	ZKB_WAIT_FOR(20, b.state == STORE_READY);
	ffo_rule_make(&rule, "default", "other", true);
	store_zk.policy_set(b.s, &rule, zkb_done, &done);
	ZKB_WAIT_FOR(20, done);
	store_zk.close(b.s);
	_exit(0);
}

int main(int argc, char **argv)
{
	unsigned int first = 0;

	if (argc != 8 && argc != 9)
		bench_die(
			"usage: zk_hosts SERVERS HOSTS PROCESSES CONTAINERS REGIONS PEERS SECONDS "
			"[PIDS]");
	opt = (struct options){
		.servers = argv[1],
		.hosts = (unsigned int)bench_num(argv[2], 1, 10000),
		.processes = (unsigned int)bench_num(argv[3], 1, 100),
		.containers = (unsigned int)bench_num(argv[4], 1, 100),
		.regions = (unsigned int)bench_num(argv[5], 1, FFO_BATCH_MAX),
		.peers = (unsigned int)bench_num(argv[6], 0, 1000),
		.seconds = (unsigned int)bench_num(argv[7], 1, 600),
		.pids = argv[8],
	};
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		      0);
	if (shared == MAP_FAILED)
		bench_die("mmap");
	snprintf(root, sizeof(root), "/bench-hosts-%d-%lx?timeout=10000", getpid(),
		 (unsigned long)time(NULL));
	for (unsigned int i = 0; i < opt.processes; i++) {
		unsigned int n = (opt.hosts - first) / (opt.processes - i);

		if (!fork())
			simulate(first, n);
		first += n;
	}
	for (enum phase p = CONNECT; p < POLICY; p++)
		run_phase(p, 240);
	if (!fork())
		change_policy();
	run_phase(POLICY, 60);
	shared->phase = END;
	while (wait(NULL) > 0)
		;
	printf(",\n \"hosts\": %u, \"containers\": %u, \"regions\": %u, \"peers\": %u, \"lost\": %lu\n}\n",
	       opt.hosts, opt.containers, opt.regions, opt.peers, shared->lost);
	return 0;
}
