/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * trace.c - ffctl trace: the last operations of a container's queue pairs.
 *
 * Tests: system/trace.sh
 */
#include <getopt.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "ffr/ffctl/ffctl.h"

#define WAIT_MS	  1000 /* for operations, when tracing was off */
#define FOLLOW_MS 200

struct wish {
	const char *name;
	json_int_t qp;
	size_t count;
	bool follow;
};

static int by_seq(const void *a, const void *b)
{
	json_int_t x = int_of(*(json_t *const *)a, "seq"), y = int_of(*(json_t *const *)b, "seq");

	return x < y ? -1 : x > y;
}

/* In the order of completion, in an array of its own; *n gets the number. Keeps `list`. */
static json_t **sorted(json_t *list, size_t *n)
{
	json_t **v;

	*n = json_array_size(list);
	v = calloc(*n + 1, sizeof(json_t *));
	if (!v)
		fail("out of memory");
	for (size_t i = 0; i < *n; i++)
		v[i] = json_array_get(list, i);
	qsort(v, *n, sizeof(json_t *), by_seq);
	return v;
}

static const char *span(json_int_t from, json_int_t to, char buf[16])
{
	return from && to >= from ? time_text((uint64_t)(to - from), buf) : "-";
}

static void print_heads(void)
{
	printf("%-16s %-8s %-10s %10s %-8s %9s %9s  %s\n", "DONE", "QP", "OPERATION", "LENGTH",
	       "PEER", "WAITED", "TOOK", "STATUS");
}

static void print_entry(const json_t *e)
{
	json_int_t fetched = int_of(e, "fetched_ns"), started = int_of(e, "started_ns"),
		   done = int_of(e, "done_ns");
	char a[16], b[16];

	printf("%-16.6f 0x%06llx %-10s %10lld 0x%06llx %9s %9s  %s\n", (double)done / 1e9,
	       (long long)int_of(e, "qp"), str_of(e, "operation"), (long long)int_of(e, "length"),
	       (long long)int_of(e, "peer_qp"), span(fetched, started, a), span(started, done, b),
	       str_of(e, "status"));
}

/* The last `count` of an answer. The number of the newest, or `after`. */
static json_int_t print_some(json_t *answer, size_t count, json_int_t after)
{
	size_t n;
	json_t **v = sorted(json_object_get(answer, "entries"), &n);
	json_t *out = json_array();

	for (size_t i = n > count ? n - count : 0; i < n; i++) {
		if (json_out)
			json_array_append(out, v[i]);
		else
			print_entry(v[i]);
	}
	if (json_out)
		json_print(out);
	if (n)
		after = int_of(v[n - 1], "seq");
	fflush(stdout);
	json_decref(out);
	free(v);
	return after;
}

static json_t *ask(const struct wish *w, json_int_t after)
{
	return router_call(json_pack("{s:s, s:s, s:I, s:I}", "op", "trace", "name", w->name, "qp",
				     w->qp, "after", after));
}

static struct wish parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "qp", required_argument, NULL, 'q' },
		{ "follow", no_argument, NULL, 'f' },
		{ 0 },
	};
	struct wish w = { .count = 20 };
	int o;

	while ((o = getopt_long(argc, argv, ":n:f", options, NULL)) != -1) {
		switch (o) {
		case 'q':
			w.qp = option_number("--qp", optarg, 1, 0xffffff);
			break;
		case 'n':
			w.count = (size_t)option_number("-n", optarg, 1, 1000000);
			break;
		case 'f':
			w.follow = true;
			break;
		default:
			option_fail(o, argv);
		}
	}
	if (optind == argc)
		usage_fail("trace: a container's name is missing");
	w.name = argv[optind++];
	no_more(argc, argv, optind);
	if (json_out && w.follow)
		usage_fail("trace: --follow has no JSON");
	return w;
}

void cmd_trace(int argc, char **argv)
{
	struct wish w = parse(argc, argv);
	json_t *answer = ask(&w, 0);
	json_int_t after = 0;

	if (json_is_true(json_object_get(answer, "began")) && !w.follow) {
		json_decref(answer);
		poll(NULL, 0, WAIT_MS);
		answer = ask(&w, 0);
	}
	if (!json_out)
		print_heads();
	after = print_some(answer, w.count, after);
	json_decref(answer);
	while (w.follow) {
		poll(NULL, 0, FOLLOW_MS);
		answer = ask(&w, after);
		after = print_some(answer, SIZE_MAX, after);
		json_decref(answer);
	}
}
