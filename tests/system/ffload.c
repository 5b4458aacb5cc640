/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: tests/rig/ffload/ffload_plan.c tests/rig/ffload/ffload_report.c tests/rig/ffload/ffload_dev.c tests/rig/ffload/ffload_source.c tests/rig/ffload/ffload_dial.c tests/rig/ffload/ffload_sink.c */
/*
 * ffload.c - the load that verifies itself (tests/rig/ffload/ffload.h) between two programs.
 *
 *	ffload --server [-p PORT]
 *	ffload [OPTIONS] -p PORT HOST
 *
 * Exit status: 0 all was verified; 1 something was wrong; 2 the command line; 3 lanes were lost, or
 * did not come back.
 */
#include "tests/rig/ffload/ffload.h"

#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define MAX_LANES   4096u
#define MAX_CALLERS 1024u
#define BATCH	    64
#define TELL_NS	    (250 * NS_PER_MS) /* between two lines of progress */
#define LOOK_NS	    NS_PER_MS	      /* at the sockets, while there is work */
#define GRACE_NS    (15 * NS_PER_S)   /* for good-byes */
#define CALLER_NS   (10 * NS_PER_S)   /* from its call to the end of its exchange */
#define IDLE_NS	    (60 * NS_PER_S)   /* a sink that nobody has heard of is forgotten */
#define DONE_NS	    (200 * NS_PER_MS) /* --once: no other client has come */

struct options {
	bool server, once, json, reconnect, spin;
	const char *host, *port;
	unsigned qps, ud, stall, rate;
	int seconds; /* 0: no end */
	enum load_lie lie;
	struct load_plan plan;
};

static volatile sig_atomic_t stop;

static void on_signal(int sig)
{
	(void)sig;
	stop = 1;
}

static void usage(FILE *to)
{
	fputs("usage: ffload --server [-p PORT] [--once] [--seconds N] [--json]\n"
	      "       ffload [OPTIONS] [-p PORT] HOST\n"
	      "  -q, --qps N          RC lanes (8)       --ud N       datagram lanes as well (0)\n"
	      "  -w, --window N       operations of a lane under way (8)\n"
	      "  --receives N         that the sink keeps posted (half of the window)\n"
	      "  -s, --size MIN[-MAX] bytes of a message (1-1048576)\n"
	      "  -m, --mix OP[=W],... weights: send send_imm write write_imm read read_back\n"
	      "                       fetch_add cmp_swap shared_add (all of them)\n"
	      "  --timeout N --retry N  as in ibv_qp_attr (14, 7)\n"
	      "  -r, --reconnect      lanes that fail are made again\n"
	      "  -t, --seconds N      (10, of a server 0: until a signal)\n"
	      "  --rate N             operations a second, of all lanes together\n"
	      "  --stall N            seconds after which an operation should have ended (20)\n"
	      "  --lie KIND           go wrong once, to see that it is found: byte lost unwritten unread\n"
	      "                       stale twice undone shared\n"
	      "  --spin               never sleep      --json     the summary, on stdout\n",
	      to);
}

/* ---- options ------------------------------------------------------------------------------------- */

static bool parse_mix(struct load_plan *plan, char *text)
{
	memset(plan->weight, 0, sizeof(plan->weight));
	for (char *save, *w = strtok_r(text, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
		char *eq = strchr(w, '=');
		unsigned op;

		if (eq)
			*eq = '\0';
		for (op = 0; op < OP_NUM && strcmp(w, load_op_str[op]); op++)
			;
		if (op == OP_NUM)
			return false;
		plan->weight[op] = eq ? (uint16_t)atoi(eq + 1) : 1;
	}
	return true;
}

static bool parse_lie(struct options *o, const char *text)
{
	static const char *const names[] = { "none",
#define X(name, op) #name,
					     LOAD_LIES(X)
#undef X
	};

	for (unsigned i = 0; i < ARRAY_SIZE(names); i++) {
		if (strcmp(text, names[i]))
			continue;
		o->lie = (enum load_lie)i;
		return true;
	}
	return false;
}

static bool parse_size(struct load_plan *plan, const char *text)
{
	char *end;

	plan->min = plan->max = (uint32_t)strtoul(text, &end, 0);
	if (*end == '-')
		plan->max = (uint32_t)strtoul(end + 1, &end, 0);
	return !*end;
}

static const struct option long_options[] = {
	{ "server", no_argument, NULL, 'S' },	      { "once", no_argument, NULL, 'O' },
	{ "port", required_argument, NULL, 'p' },     { "qps", required_argument, NULL, 'q' },
	{ "ud", required_argument, NULL, 'U' },	      { "window", required_argument, NULL, 'w' },
	{ "receives", required_argument, NULL, 'R' }, { "size", required_argument, NULL, 's' },
	{ "mix", required_argument, NULL, 'm' },      { "timeout", required_argument, NULL, 'T' },
	{ "retry", required_argument, NULL, 'Y' },    { "reconnect", no_argument, NULL, 'r' },
	{ "seconds", required_argument, NULL, 't' },  { "stall", required_argument, NULL, 'L' },
	{ "rate", required_argument, NULL, 'A' },     { "lie", required_argument, NULL, 'I' },
	{ "spin", no_argument, NULL, 'P' },	      { "json", no_argument, NULL, 'J' },
	{ "help", no_argument, NULL, 'h' },	      { NULL, 0, NULL, 0 },
};

static bool set_option(struct options *o, int opt)
{
	switch (opt) {
	case 'S':
		o->server = true;
		return true;
	case 'O':
		o->once = true;
		return true;
	case 'p':
		o->port = optarg;
		return true;
	case 'q':
		o->qps = (unsigned)atoi(optarg);
		return true;
	case 'U':
		o->ud = (unsigned)atoi(optarg);
		return true;
	case 'w':
		o->plan.window = (uint32_t)atoi(optarg);
		return true;
	case 'R':
		o->plan.receives = (uint32_t)atoi(optarg);
		return true;
	case 's':
		return parse_size(&o->plan, optarg);
	case 'm':
		return parse_mix(&o->plan, optarg);
	case 'T':
		o->plan.timeout = (uint8_t)atoi(optarg);
		return true;
	case 'Y':
		o->plan.retry = (uint8_t)atoi(optarg);
		return true;
	case 'r':
		o->reconnect = true;
		return true;
	case 't':
		o->seconds = atoi(optarg);
		return true;
	case 'L':
		o->stall = (unsigned)atoi(optarg);
		return true;
	case 'A':
		o->rate = (unsigned)atoi(optarg);
		return true;
	case 'I':
		return parse_lie(o, optarg);
	case 'P':
		o->spin = true;
		return true;
	case 'J':
		o->json = true;
		return true;
	}
	return false;
}

static void parse(struct options *o, int argc, char **argv)
{
	int opt;

	*o = (struct options){
		.port = "18700",
		.qps = 8,
		.seconds = -1,
		.stall = 20,
		.plan = { .min = 1,
			  .max = 1u << 20,
			  .window = 8,
			  .timeout = 14,
			  .retry = 7,
			  .mtu = IBV_MTU_4096 },
	};
	for (unsigned i = 0; i < OP_NUM; i++)
		o->plan.weight[i] = 1;
	while ((opt = getopt_long(argc, argv, "p:q:w:s:m:rt:h", long_options, NULL)) != -1) {
		if (opt == 'h') {
			usage(stdout);
			exit(0);
		}
		if (!set_option(o, opt)) {
			usage(stderr);
			exit(2);
		}
	}
	if (!o->plan.receives)
		o->plan.receives = o->plan.window / 2;
	if (o->seconds < 0)
		o->seconds = o->server ? 0 : 10;
	o->host = argv[optind];
	if (!plan_valid(&o->plan) || !o->host == !o->server || o->qps + o->ud > MAX_LANES ||
	    (!o->server && !(o->qps + o->ud)) || argc - optind > 1) {
		usage(stderr);
		exit(2);
	}
}

static struct addrinfo *address(const char *host, const char *port)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
				  .ai_flags = host ? 0 : AI_PASSIVE,
				  .ai_family = host ? AF_UNSPEC : AF_INET6 },
			*ai;
	int err = getaddrinfo(host, port, &hints, &ai);

	if (err && !host) {
		hints.ai_family = AF_INET;
		err = getaddrinfo(host, port, &hints, &ai);
	}
	if (err) {
		fprintf(stderr, "ffload: %s: %s\n", host ? host : port, gai_strerror(err));
		exit(2);
	}
	return ai;
}

/* ---- the loop that both have ------------------------------------------------------------------------ */

/* The device's descriptors come first in p; returns how many they are. */
static nfds_t dev_fds(const struct load_dev *d, struct pollfd *p)
{
	if (!d->ctx)
		return 0;
	p[0] = (struct pollfd){ .fd = d->channel->fd, .events = POLLIN };
	p[1] = (struct pollfd){ .fd = d->ctx->async_fd, .events = POLLIN };
	return 2;
}

static void dev_ready(struct load_dev *d, const struct pollfd *p)
{
	if (p[0].revents)
		dev_take_comp_events(d);
	if (p[1].revents)
		dev_take_async_events(d);
}

static void progress(const struct load_report *r, uint64_t now, uint64_t *next, unsigned up,
		     unsigned of)
{
	uint64_t ops = 0;

	if (now < *next)
		return;
	*next = now + TELL_NS;
	for (unsigned i = 0; i < OP_NUM; i++)
		ops += r->ops[i];
	report_line(r, "progress: %llu operations, %u of %u lanes up, %llu wrong, %llu failures",
		    (unsigned long long)ops, up, of, (unsigned long long)(r->wrong + r->peer_wrong),
		    (unsigned long long)r->failures);
}

/* ---- the client ------------------------------------------------------------------------------------ */

static bool client_completions(struct client *c, uint64_t now)
{
	struct ibv_wc wc[BATCH];
	int n = dev_poll(&c->dev, wc, BATCH);

	for (int i = 0; i < n; i++)
		if (wr_lane(wc[i].wr_id) < c->num)
			source_wc(&c->sources[wr_lane(wc[i].wr_id)], &wc[i], now);
	return n > 0;
}

static bool client_work(struct client *c, uint64_t now)
{
	bool busy = client_completions(c, now);

	if (c->dev.dead && c->dev.ctx) {
		for (unsigned i = 0; i < c->num; i++)
			source_device_gone(&c->sources[i], now);
		dev_close(&c->dev);
	}
	if (!c->dev.ctx && (c->reconnect || !c->dev.generation))
		dev_open(&c->dev);
	for (unsigned i = 0; i < c->num; i++)
		busy |= source_run(&c->sources[i], now);
	return busy;
}

static void client_wait(struct client *c, struct pollfd *p, struct source **dialing, int ms)
{
	nfds_t n = dev_fds(&c->dev, p), first = n;
	uint64_t now;

	for (unsigned i = 0; i < c->num; i++) {
		struct source *s = &c->sources[i];

		if (s->fd < 0)
			continue;
		dialing[n - first] = s;
		p[n++] = (struct pollfd){ .fd = s->fd, .events = s->connecting ? POLLOUT : POLLIN };
	}
	if (poll(p, n, ms) <= 0)
		return;
	if (first)
		dev_ready(&c->dev, p);
	now = load_now();
	for (nfds_t i = first; i < n; i++)
		if (p[i].revents && dialing[i - first]->fd == p[i].fd)
			source_ready(dialing[i - first], now);
}

static unsigned count(const struct client *c, enum source_state state)
{
	unsigned n = 0;

	for (unsigned i = 0; i < c->num; i++)
		n += c->sources[i].state == state;
	return n;
}

static void client_loop(struct client *c, const struct options *o)
{
	uint64_t start = load_now(), end = start + (uint64_t)o->seconds * NS_PER_S, grace = 0,
		 look = 0;
	struct pollfd *p = calloc(c->num + 2, sizeof(*p));
	struct source **dialing = calloc(c->num, sizeof(struct source *));
	uint64_t tell = start + TELL_NS;
	bool armed = false;

	if (!p || !dialing)
		abort();
	for (;;) {
		uint64_t now = load_now();
		bool busy;

		if (!c->ending && (stop || c->lost || (o->seconds && now > end))) {
			c->ending = true;
			grace = now + GRACE_NS;
		}
		busy = client_work(c, now);
		progress(&c->report, now, &tell, count(c, SOURCE_UP), c->num);
		if (c->ending && (now > grace || count(c, SOURCE_ENDED) == c->num))
			break;
		if (busy || o->spin) {
			armed = false;
			if (now > look) {
				client_wait(c, p, dialing, 0);
				look = now + LOOK_NS;
			}
		} else if (!armed) { /* and look once more before sleeping */
			dev_arm(&c->dev);
			armed = true;
		} else {
			client_wait(c, p, dialing, o->ud ? 5 : 20);
			armed = false;
		}
	}
	c->report.unended = c->num - count(c, SOURCE_ENDED);
	free(dialing);
	free(p);
}

/* The word that all lanes counted in. */
static void check_shared(struct client *c)
{
	if (c->report.unended || c->lost)
		return;
	if (c->shared_seen < c->shared_done || c->shared_seen > c->shared_done + c->shared_open)
		report_wrong(&c->report,
			     "the shared word is %llu; %llu additions are complete, %llu left open",
			     (unsigned long long)c->shared_seen, (unsigned long long)c->shared_done,
			     (unsigned long long)c->shared_open);
}

static int summary(struct load_report *r, const struct options *o, bool lost)
{
	r->ended = load_now();
	if (o->json)
		report_json(r);
	else
		report_text(r);
	free(r->recovery);
	if (r->wrong || r->peer_wrong)
		return 1;
	return lost ? 3 : 0;
}

/* A datagram has its number in it, and fits into a packet. */
static struct load_plan ud_plan(const struct client *c, const struct options *o)
{
	struct load_plan plan = o->plan;
	uint32_t mtu = 128u << c->dev.mtu;

	plan.ud = 1;
	plan.max = plan.max > mtu ? mtu : plan.max < 16 ? 16 : plan.max;
	plan.min = plan.min < 16 ? 16 : plan.min > plan.max ? plan.max : plan.min;
	plan.receives = 4 * plan.window;
	return plan;
}

static int client(const struct options *o)
{
	struct addrinfo *ai = address(o->host, o->port);
	struct sockaddr_storage server = { 0 };
	struct load_plan plan = o->plan, ud;
	struct client c = {
		.report = { .role = "client", .started = load_now(), .lanes = o->qps + o->ud },
		.server = &server,
		.server_len = ai->ai_addrlen,
		.num = o->qps + o->ud,
		.reconnect = o->reconnect,
		.stall_ns = o->stall * NS_PER_S,
		.rate = o->rate,
		.lie = o->lie,
	};

	memcpy(&server, ai->ai_addr, ai->ai_addrlen);
	freeaddrinfo(ai);
	c.dev.report = &c.report;
	c.dev.cqe = (int)(c.num * (o->plan.window + 20));
	if (dev_open(&c.dev)) {
		fprintf(stderr, "ffload: there is no RDMA device\n");
		return 3;
	}
	c.sources = calloc(c.num, sizeof(*c.sources));
	if (!c.sources)
		abort();
	plan.run = load_random();
	plan.mtu = (uint8_t)c.dev.mtu;
	ud = ud_plan(&c, o);
	ud.run = plan.run;
	ud.mtu = plan.mtu;
	for (unsigned i = 0; i < c.num; i++)
		if (source_init(&c.sources[i], &c, i, i < o->qps ? &plan : &ud)) {
			fprintf(stderr, "ffload: no memory for lane %u\n", i);
			return 3;
		}
	client_loop(&c, o);
	check_shared(&c);
	for (unsigned i = 0; i < c.num; i++) {
		if (c.sources[i].plan.ud)
			c.report.ud_sent += c.sources[i].posted;
		source_fini(&c.sources[i]);
	}
	if (c.report.ud_sent > c.report.ud_received)
		c.report.ud_lost = c.report.ud_sent - c.report.ud_received;
	dev_close(&c.dev);
	free(c.sources);
	return summary(&c.report, o, c.lost || c.report.unended);
}

/* ---- the server ------------------------------------------------------------------------------------ */

/* A client on the other end of a TCP connection, in the middle of an exchange. */
struct caller {
	int fd; /* -1: free */
	struct load_hello hello;
	size_t have;
	struct sink *sink; /* once the hello is complete */
	uint64_t deadline;
};

struct service {
	struct server srv;
	struct caller callers[MAX_CALLERS];
	struct pollfd p[MAX_CALLERS + 3];
	struct caller *of[MAX_CALLERS + 3];
	int listener;
	uint64_t idle_since; /* --once: nobody is there since then */
	bool had_one;
};

static void hang_up(struct caller *k)
{
	close(k->fd);
	if (k->sink)
		k->sink->expects = false;
	*k = (struct caller){ .fd = -1 };
}

static void accept_callers(struct service *v, uint64_t now)
{
	int fd, one = 1;

	while ((fd = accept4(v->listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) >= 0) {
		struct caller *k = v->callers;

		while (k < v->callers + MAX_CALLERS && k->fd >= 0)
			k++;
		if (k == v->callers + MAX_CALLERS) {
			close(fd);
			return;
		}
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		*k = (struct caller){ .fd = fd, .deadline = now + CALLER_NS };
	}
}

static void caller_ready(struct service *v, struct caller *k, uint64_t now)
{
	ssize_t n = recv(k->fd, (char *)&k->hello + k->have, sizeof(k->hello) - k->have, 0);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0) {
		hang_up(k);
		return;
	}
	k->have += (size_t)n;
	if (k->have < sizeof(k->hello))
		return;
	k->sink = sink_of(&v->srv, &k->hello);
	if (!k->sink || k->sink->expects) { /* nonsense, or its last call is not through */
		k->sink = NULL;
		hang_up(k);
		return;
	}
	k->sink->expects = true;
	k->sink->last_heard = now;
	v->had_one = true;
	sink_retire(k->sink);
}

/* Callers whose sink has got everything of the old connection. */
static bool answer_callers(struct service *v, uint64_t now)
{
	struct load_answer a;
	bool any = false;

	for (struct caller *k = v->callers; k < v->callers + MAX_CALLERS; k++) {
		struct sink *s = k->sink;
		bool bye;

		if (k->fd < 0 || (!s && now < k->deadline))
			continue;
		if (s && !sink_retired(s)) {
			if (now < k->deadline)
				continue;
			report_wrong(&v->srv.report, "lane %u: receives do not come back",
				     s->plan.lane);
		}
		if (s) {
			sink_answer(s, &k->hello, &a);
			if (send(k->fd, &a, sizeof(a), MSG_NOSIGNAL) != (ssize_t)sizeof(a))
				report_line(&v->srv.report, "lane %u: the answer was not sent",
					    s->plan.lane);
		}
		bye = s && k->hello.what == HELLO_BYE;
		hang_up(k);
		if (bye)
			sink_free(s);
		any = true;
	}
	return any;
}

static bool server_completions(struct server *srv, uint64_t now)
{
	struct ibv_wc wc[BATCH];
	struct sink *touched[BATCH], *s;
	int n = dev_poll(&srv->dev, wc, BATCH);

	for (int i = 0; i < n; i++) {
		s = wr_lane(wc[i].wr_id) < srv->num ? srv->sinks[wr_lane(wc[i].wr_id)] : NULL;
		touched[i] = s;
		if (!s)
			continue;
		s->last_heard = now;
		sink_wc(s, &wc[i]);
	}
	for (int i = 0; i < n; i++)
		if (touched[i])
			sink_tell(touched[i]);
	return n > 0;
}

static unsigned count_sinks(const struct server *srv)
{
	unsigned n = 0;

	for (unsigned i = 0; i < srv->num; i++)
		n += !!srv->sinks[i];
	return n;
}

static bool server_work(struct service *v, uint64_t now)
{
	struct server *srv = &v->srv;
	bool busy = server_completions(srv, now);

	if (srv->dev.dead && srv->dev.ctx) {
		for (unsigned i = 0; i < srv->num; i++)
			if (srv->sinks[i])
				sink_device_gone(srv->sinks[i]);
		dev_close(&srv->dev);
	}
	if (!srv->dev.ctx)
		dev_open(&srv->dev);
	for (unsigned i = 0; i < srv->num; i++) {
		struct sink *s = srv->sinks[i];

		if (s && !s->expects && now - s->last_heard > IDLE_NS)
			sink_free(s);
	}
	return answer_callers(v, now) || busy;
}

static void server_wait(struct service *v, int ms)
{
	nfds_t n = dev_fds(&v->srv.dev, v->p), first = n;
	uint64_t now;

	v->p[n++] = (struct pollfd){ .fd = v->listener, .events = POLLIN };
	for (struct caller *k = v->callers; k < v->callers + MAX_CALLERS; k++) {
		if (k->fd < 0 || k->sink)
			continue;
		v->of[n] = k;
		v->p[n++] = (struct pollfd){ .fd = k->fd, .events = POLLIN };
	}
	if (poll(v->p, n, ms) <= 0)
		return;
	now = load_now();
	if (first)
		dev_ready(&v->srv.dev, v->p);
	if (v->p[first].revents)
		accept_callers(v, now);
	for (nfds_t i = first + 1; i < n; i++)
		if (v->p[i].revents)
			caller_ready(v, v->of[i], now);
}

static bool server_ends(struct service *v, const struct options *o, uint64_t now)
{
	if (stop || (o->seconds && now - v->srv.report.started > (uint64_t)o->seconds * NS_PER_S))
		return true;
	if (!o->once || !v->had_one || count_sinks(&v->srv)) {
		v->idle_since = 0;
		return false;
	}
	if (!v->idle_since)
		v->idle_since = now;
	return now - v->idle_since > DONE_NS;
}

static int listen_on(const char *port)
{
	struct addrinfo *ai = address(NULL, port);
	int fd = socket(ai->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0), one = 1,
	    off = 0;

	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
	if (fd < 0 || bind(fd, ai->ai_addr, ai->ai_addrlen) || listen(fd, 1024)) {
		fprintf(stderr, "ffload: port %s: %s\n", port, strerror(errno));
		exit(2);
	}
	freeaddrinfo(ai);
	return fd;
}

static int serve(const struct options *o)
{
	struct service *v = calloc(1, sizeof(*v));
	struct server *srv;
	uint64_t look = 0, tell;
	bool armed = false;
	int status;

	if (!v)
		abort();
	srv = &v->srv;
	srv->incarnation = load_random();
	srv->report = (struct load_report){ .role = "server", .started = load_now() };
	srv->dev.report = &srv->report;
	srv->dev.cqe = 16384;
	tell = srv->report.started + TELL_NS;
	for (unsigned i = 0; i < MAX_CALLERS; i++)
		v->callers[i].fd = -1;
	if (dev_open(&srv->dev)) {
		fprintf(stderr, "ffload: there is no RDMA device\n");
		return 3;
	}
	v->listener = listen_on(o->port);
	report_line(&srv->report, "listening on port %s", o->port);
	for (;;) {
		uint64_t now = load_now();
		bool busy = server_work(v, now);

		if (server_ends(v, o, now))
			break;
		progress(&srv->report, now, &tell, count_sinks(srv), count_sinks(srv));
		if (busy || o->spin) {
			armed = false;
			if (now > look) {
				server_wait(v, 0);
				look = now + LOOK_NS;
			}
		} else if (!armed) {
			dev_arm(&srv->dev);
			armed = true;
		} else {
			server_wait(v, 20);
			armed = false;
		}
	}
	for (unsigned i = 0; i < srv->num; i++)
		if (srv->sinks[i])
			sink_free(srv->sinks[i]);
	for (struct caller *k = v->callers; k < v->callers + MAX_CALLERS; k++)
		if (k->fd >= 0)
			close(k->fd);
	close(v->listener);
	dev_close(&srv->dev);
	status = summary(&srv->report, o, false);
	free(srv->runs);
	free(v);
	return status;
}

int main(int argc, char **argv)
{
	struct sigaction sa = { .sa_handler = on_signal };
	struct options o;

	parse(&o, argc, argv);
	sigaction(SIGTERM, &sa, NULL);
	sigaction(SIGINT, &sa, NULL);
	setvbuf(stderr, NULL, _IOLBF, 0);
	return o.server ? serve(&o) : client(&o);
}
