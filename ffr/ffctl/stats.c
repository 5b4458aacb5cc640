/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * stats.c - ffctl stats: counters, times, queue pairs and memory regions, once or again and again.
 *
 * Tests: system/stats.sh
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ffr/ffctl/ffctl.h"
#include "ffr/obj/lat.h"
#include "ffr/obj/stats.h"

struct wish {
	const char *name, *tenant;
	bool latency, qps, mrs;
	double watch; /* seconds from one reading to the next; 0: one reading */
};

void lat_from_json(struct lat *h, const json_t *j)
{
	const json_t *bucket;
	size_t i;

	memset(h, 0, sizeof(*h));
	json_array_foreach(json_object_get(j, "buckets"), i, bucket) {
		json_int_t bound = json_integer_value(json_array_get(bucket, 0));

		h->count[lat_index((uint64_t)bound - 1)] +=
			(uint64_t)json_integer_value(json_array_get(bucket, 1));
	}
	h->sum = (uint64_t)int_of(j, "sum_ns");
	h->max = (uint64_t)int_of(j, "max_ns");
}

/* How counters are shown. */
static bool leaves_out_zeros; /* --nonzero */
static bool is_human;	      /* --human */
static double since_s;	      /* since the reading before; 0: there is none */

static bool ends_with(const char *name, const char *end)
{
	size_t n = strlen(name), m = strlen(end);

	return n >= m && !strcmp(name + n - m, end);
}

static const char *value_text(const char *name, json_int_t value, char buf[24])
{
	if (!is_human)
		snprintf(buf, 24, "%lld", (long long)value);
	else if (ends_with(name, "_bytes"))
		bytes_text(value, buf);
	else if (ends_with(name, "_ns"))
		time_text((uint64_t)value, buf);
	else
		count_text((double)value, buf);
	return buf;
}

static const char *per_second_text(const char *name, json_int_t grown, char buf[24])
{
	double n = (double)grown / since_s;
	char text[16];

	if (ends_with(name, "_bytes"))
		rate_text(n, buf);
	else
		snprintf(buf, 24, "%s/s",
			 ends_with(name, "_ns") ? time_text((uint64_t)n, text) :
						  count_text(n, text));
	return buf;
}

/* A line. grown: since the reading before, NULL: that is not known, or of no meaning. */
static void print_line(const char *name, json_int_t value, const json_int_t *grown,
		       const char *help)
{
	char text[24], rate[24] = "";

	if (!value && leaves_out_zeros)
		return;
	if (grown && *grown >= 0) /* not added anew, nor another router */
		per_second_text(name, *grown, rate);
	printf("  %-17s %16s  ", name, value_text(name, value, text));
	if (since_s > 0)
		printf("%12s  ", rate);
	printf("%s\n", help);
}

static void print_value(const char *name, json_int_t value, const char *help)
{
	print_line(name, value, NULL, help);
}

/* before: the container's counters in the reading before; NULL: they are not known. */
static void print_counter(const json_t *counters, const json_t *before, const char *name,
			  const char *help)
{
	json_int_t value = int_of(counters, name), grown = value - int_of(before, name);

	print_line(name, value, before ? &grown : NULL, help);
}

static const char *owner(const json_t *c)
{
	return str_of(c, json_object_get(c, "name") ? "name" : "tenant");
}

/* What has happened at all; success is known from above. */
static void print_failures(const json_t *completions)
{
	const char *name;
	json_t *n;

	json_object_foreach((json_t *)completions, name, n) {
		if (json_integer_value(n) && strcmp(name, "success"))
			printf("  %-26s %6lld  completions with this error\n", name,
			       (long long)json_integer_value(n));
	}
}

static void print_copied(json_t *copied)
{
	static const char *const name[] = {
#define X(NAME, name, text) name,
		FF_WHYS(X)
#undef X
	};
	static const char *const text[] = {
#define X(NAME, name, text) text,
		FF_WHYS(X)
#undef X
	};
	char help[160];

	for (size_t i = 0; i < FF_WHY_NUM; i++) {
		json_t *n = json_object_get(copied, name[i]);

		if (!n)
			continue;
		snprintf(help, sizeof(help), "bytes that are copied (%s): %s", name[i], text[i]);
		print_value("copied_bytes", json_integer_value(n), help);
	}
}

static void print_stats(const json_t *c, const json_t *before)
{
	const json_t *counters = json_object_get(c, "counters"),
		     *old = json_object_get(before, "counters");
	json_int_t reg = int_of(c, "registered_bytes"), zero = int_of(c, "zero_copy_bytes");
	char shared[80];

	printf("%s\n", owner(c));
	print_value("sessions", int_of(c, "sessions"), "programs that have the device open");
	print_value("qps", int_of(c, "qps"), "queue pairs");
	print_value("cqs", int_of(c, "cqs"), "completion queues");
	print_value("srqs", int_of(c, "srqs"), "shared receive queues");
	print_value("mrs", int_of(c, "mrs"), "memory regions");
	print_value("on_demand_mrs", int_of(c, "on_demand_mrs"), "of these, with on-demand paging");
	print_value("registered_bytes", reg, "bytes of memory regions without on-demand paging");
	snprintf(shared, sizeof(shared), "of these, pages that the router shares (%.1f %%)",
		 reg ? 100.0 * (double)zero / (double)reg : 0.0);
	print_value("zero_copy_bytes", zero, shared);
	print_copied(json_object_get(c, "copied_bytes"));
	print_value("cm_ids", int_of(c, "cm_ids"), "ids of the connection manager (rdma_cm)");
	print_value("cm_listeners", int_of(c, "cm_listeners"), "of these, that listen");
	print_value("cm_connections", int_of(c, "cm_connections"), "of these, established");
#define X(name, help) print_counter(counters, old, #name, help);
	FF_STATS(X)
#undef X
	print_failures(json_object_get(c, "completions"));
}

static void latency_cells(struct table *t, const json_t *latency)
{
	static const char *const keys[] = { "p50_ns", "p90_ns", "p99_ns", "p999_ns", "max_ns" };
	char buf[16];

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		table_cell(t, "%s",
			   int_of(latency, "count") ?
				   time_text((uint64_t)int_of(latency, keys[i]), buf) :
				   "-");
}

static void print_latency(const json_t *list)
{
	static const char *const heads[] = { "NAME", ">REQUESTS", ">50%", ">90%",
					     ">99%", ">99.9%",	  ">MAX", NULL };
	struct table *t = table_new(heads);
	json_t *c;
	size_t i;

	json_array_foreach(list, i, c) {
		const json_t *latency = json_object_get(c, "latency");

		table_cell(t, "%s", owner(c));
		table_cell(t, "%lld", (long long)int_of(latency, "count"));
		latency_cells(t, latency);
	}
	table_print(t);
}

/* ---- queue pairs ----------------------------------------------------------------------------- */

/* All of one container's, in pages: "qps" of the op qp_list, "mrs" of mr_list. */
static json_t *container_all(const char *name, const char *op, const char *key, bool latency)
{
	json_t *list = json_array(), *after = NULL, *answer;

	do {
		answer = router_call(json_pack("{s:s, s:s, s:b, s:o*}", "op", op, "name", name,
					       "latency", latency, "after", after));
		json_array_extend(list, json_object_get(answer, key));
		after = json_incref(json_object_get(answer, "next"));
		json_decref(answer);
	} while (after);
	return list;
}

static void qp_row(struct table *t, const char *container, const json_t *qp, bool latency)
{
	const json_t *st = json_object_get(qp, "counters");
	char a[16], b[16];

	table_cell(t, "%s", container);
	table_cell(t, "%lld", (long long)int_of(qp, "pid"));
	table_cell(t, "0x%06llx", (long long)int_of(qp, "qp"));
	table_cell(t, "%s", str_of(qp, "type"));
	table_cell(t, "%s", str_of(qp, "state"));
	table_cell(t, "%s", str_of(qp, "by"));
	if (latency) {
		table_cell(t, "%lld", (long long)int_of(json_object_get(qp, "latency"), "count"));
		latency_cells(t, json_object_get(qp, "latency"));
		return;
	}
	table_cell(t, "%lld/%lld/%lld", (long long)int_of(qp, "sq_depth"),
		   (long long)int_of(qp, "rq_depth"), (long long)int_of(qp, "cq_depth"));
	table_cell(t, "%s", bytes_text(int_of(st, "tx_bytes"), a));
	table_cell(t, "%s", bytes_text(int_of(st, "rx_bytes"), b));
	table_cell(t, "%s",
		   count_text((double)int_of(json_object_get(qp, "completions"), "success"), a));
	table_cell(t, "%lld", (long long)int_of(st, "errors"));
	table_cell(t, "%lld", (long long)int_of(st, "rnr"));
	table_cell(t, "%lld", (long long)int_of(st, "retries"));
}

static void print_qps(json_t *list, const struct wish *w)
{
	static const char *const plain[] = { "CONTAINER", ">PID",      "QP",	   "TYPE", "STATE",
					     "BY",	  ">SQ/RQ/CQ", ">TX",	   ">RX",  ">DONE",
					     ">ERRORS",	  ">RNR",      ">RETRIES", NULL };
	static const char *const times[] = { "CONTAINER", ">PID",      "QP",   "TYPE", "STATE",
					     "BY",	  ">REQUESTS", ">50%", ">90%", ">99%",
					     ">99.9%",	  ">MAX",      NULL };
	struct table *t = table_new(w->latency ? times : plain);
	json_t *c, *qp;
	size_t i, k;

	json_array_foreach(list, i, c)
		json_array_foreach(json_object_get(c, "qp_list"), k, qp)
			qp_row(t, owner(c), qp, w->latency);
	table_print(t);
}

/* ---- memory regions ------------------------------------------------------------------------------ */

static bool is_on_demand(const json_t *mr)
{
	return json_object_get(mr, "odp_faults");
}

static void mr_cells(struct table *t, const char *container, const json_t *mr)
{
	char buf[16];

	table_cell(t, "%s", container);
	table_cell(t, "%lld", (long long)int_of(mr, "pid"));
	table_cell(t, "%s", str_of(mr, "command"));
	table_cell(t, "%s", str_of(mr, "address"));
	table_cell(t, "%s",
		   json_is_true(json_object_get(mr, "implicit")) ?
			   "all" :
			   bytes_text(int_of(mr, "bytes"), buf));
}

static void plain_row(struct table *t, const char *container, const json_t *mr)
{
	char a[16], b[16];

	mr_cells(t, container, mr);
	table_cell(t, "%s", bytes_text(int_of(mr, "zero_copy_bytes"), a));
	table_cell(t, "%s", bytes_text(int_of(mr, "copied_bytes"), b));
	table_cell(t, "%s", int_of(mr, "copied_bytes") ? str_of(mr, "copied_why") : "-");
}

static void on_demand_row(struct table *t, const char *container, const json_t *mr)
{
	char a[16], b[16];

	mr_cells(t, container, mr);
	table_cell(t, "%lld", (long long)int_of(mr, "odp_faults"));
	table_cell(t, "%s", time_text((uint64_t)int_of(mr, "odp_fault_ns"), a));
	table_cell(t, "%lld", (long long)int_of(mr, "odp_invalidations"));
	table_cell(t, "%lld", (long long)int_of(mr, "odp_prefetched"));
	table_cell(t, "%s", time_text((uint64_t)int_of(mr, "odp_prefetch_ns"), b));
}

static size_t num_mrs(json_t *list, bool on_demand)
{
	json_t *c, *mr;
	size_t i, k, n = 0;

	json_array_foreach(list, i, c)
		json_array_foreach(json_object_get(c, "mr_list"), k, mr)
			n += is_on_demand(mr) == on_demand;
	return n;
}

static void print_mrs_of(json_t *list, bool on_demand)
{
	static const char *const plain[] = { "CONTAINER",  ">PID",    "COMMAND", "ADDRESS", ">SIZE",
					     ">ZERO-COPY", ">COPIED", "WHY",	 NULL };
	static const char *const odp[] = { "CONTAINER",	  ">PID",    "COMMAND", "ADDRESS",
					   ">SIZE",	  ">FAULTS", ">TIME",	">INVALIDATED",
					   ">PREFETCHED", ">TIME",   NULL };
	struct table *t = table_new(on_demand ? odp : plain);
	json_t *c, *mr;
	size_t i, k;

	json_array_foreach(list, i, c)
		json_array_foreach(json_object_get(c, "mr_list"), k, mr)
			if (is_on_demand(mr) == on_demand)
				(on_demand ? on_demand_row : plain_row)(t, owner(c), mr);
	table_print(t);
}

static void print_mrs(json_t *list)
{
	bool plain = num_mrs(list, false), odp = num_mrs(list, true);

	if (plain || !odp)
		print_mrs_of(list, false);
	if (plain && odp)
		putchar('\n');
	if (odp)
		print_mrs_of(list, true);
}

/* ---- the command ----------------------------------------------------------------------------- */

static struct wish parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "tenant", required_argument, NULL, 't' }, { "latency", no_argument, NULL, 'l' },
		{ "qps", no_argument, NULL, 'q' },	    { "mrs", no_argument, NULL, 'm' },
		{ "nonzero", no_argument, NULL, 'z' },	    { "human", no_argument, NULL, 'h' },
		{ "watch", required_argument, NULL, 'w' },  { 0 },
	};
	struct wish w = { 0 };
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (o) {
		case 't':
			w.tenant = optarg;
			break;
		case 'l':
			w.latency = true;
			break;
		case 'q':
			w.qps = true;
			break;
		case 'm':
			w.mrs = true;
			break;
		case 'z':
			leaves_out_zeros = true;
			break;
		case 'h':
			is_human = true;
			break;
		case 'w':
			w.watch = interval_parse("stats: --watch", optarg);
			break;
		default:
			option_fail(o, argv);
		}
	}
	if (optind < argc)
		w.name = argv[optind++];
	no_more(argc, argv, optind);
	if (w.tenant && (w.name || w.qps || w.mrs))
		usage_fail(
			"stats: --tenant is the sum of its containers: no name, no --qps, no --mrs");
	if (w.mrs && (w.qps || w.latency))
		usage_fail("stats: --mrs has a table of its own: no --qps, no --latency");
	if ((leaves_out_zeros || is_human) && (w.mrs || w.qps || w.latency || json_out))
		usage_fail("stats: --nonzero and --human are for counters: no --qps, --mrs, "
			   "--latency or --json");
	if (w.watch > 0 && json_out)
		usage_fail("stats: --watch has no JSON");
	return w;
}

static json_t *reading(const struct wish *w)
{
	json_t *answer =
		router_call(json_pack("{s:s, s:s*, s:s*, s:b}", "op", "stats", "name", w->name,
				      "tenant", w->tenant, "latency", w->latency));
	json_t *list = json_incref(json_object_get(answer, "containers")), *c;
	size_t i;

	json_decref(answer);
	if (w->qps)
		json_array_foreach(list, i, c)
			json_object_set_new(c, "qp_list",
					    container_all(str_of(c, "name"), "qp_list", "qps",
							  w->latency));
	if (w->mrs)
		json_array_foreach(list, i, c)
			json_object_set_new(c, "mr_list",
					    container_all(str_of(c, "name"), "mr_list", "mrs",
							  false));
	return list;
}

/* The same container's, or tenant's, in the reading before. */
static const json_t *same(const json_t *before, const json_t *c)
{
	json_t *b;
	size_t i;

	json_array_foreach((json_t *)before, i, b)
		if (!strcmp(owner(b), owner(c)))
			return b;
	return NULL;
}

static void print_reading(json_t *list, const json_t *before, const struct wish *w)
{
	json_t *c;
	size_t i;

	if (json_out) {
		json_print(list);
	} else if (w->qps) {
		print_qps(list, w);
	} else if (w->mrs) {
		print_mrs(list);
	} else if (w->latency) {
		print_latency(list);
	} else {
		json_array_foreach(list, i, c) {
			if (i)
				putchar('\n');
			print_stats(c, same(before, c));
		}
	}
}

static double now_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

void cmd_stats(int argc, char **argv)
{
	struct wish w = parse(argc, argv);
	json_t *list = reading(&w), *before;
	double at = now_s(), last;

	print_reading(list, NULL, &w);
	while (w.watch > 0 && !fflush(stdout)) {
		poll(NULL, 0, (int)(w.watch * 1000));
		before = list;
		last = at;
		list = reading(&w);
		at = now_s();
		since_s = at - last;
		/* a terminal shows one reading, from its top; a file has one behind the other */
		fputs(isatty(STDOUT_FILENO) ? "\033[H\033[J" : "\n", stdout);
		print_reading(list, before, &w);
		json_decref(before);
	}
	json_decref(list);
}
