/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * events.c - ffctl events: what happened on this host, and what happens.
 *
 * Tests: system/events.sh
 */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "ffr/ffctl/ffctl.h"

#define COUNT_MAX 1000000

struct wish {
	json_int_t count;
	bool follow;
};

static void print_event(const json_t *e)
{
	json_int_t ms = int_of(e, "time_ms");
	time_t s = (time_t)(ms / 1000);
	char when[32];
	struct tm tm;

	strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S", localtime_r(&s, &tm));
	printf("%s.%03d  %-12s  %-16s  %s\n", when, (int)(ms % 1000), str_of(e, "event"),
	       json_object_get(e, "container") ? str_of(e, "container") : "-", str_of(e, "text"));
}

/* A line that came: an event, or how many were lost. */
static void print_line(const json_t *line)
{
	if (json_out) {
		json_dumpf(line, stdout, JSON_COMPACT);
		putchar('\n');
	} else if (json_object_get(line, "lost")) {
		printf("... %lld events were lost: they came faster than they were read\n",
		       (long long)int_of(line, "lost"));
	} else {
		print_event(line);
	}
}

static struct wish parse(int argc, char **argv)
{
	static const struct option options[] = {
		{ "follow", no_argument, NULL, 'f' },
		{ 0 },
	};
	struct wish w = { .count = 20 };
	int o;

	while ((o = getopt_long(argc, argv, ":n:f", options, NULL)) != -1) {
		switch (o) {
		case 'n':
			w.count = option_number("-n", optarg, 0, COUNT_MAX);
			break;
		case 'f':
			w.follow = true;
			break;
		default:
			option_fail(o, argv);
		}
	}
	no_more(argc, argv, optind);
	return w;
}

void cmd_events(int argc, char **argv)
{
	struct wish w = parse(argc, argv);
	json_t *request = json_pack("{s:s, s:I, s:b}", "op", "events", "count", w.count, "follow",
				    (int)w.follow);
	struct router_stream *s;
	json_t *answer, *e;
	size_t i;

	if (!w.follow) {
		answer = router_call(request);
		if (json_only(answer, "events"))
			return;
		json_array_foreach(json_object_get(answer, "events"), i, e)
			print_event(e);
		json_decref(answer);
		return;
	}
	answer = router_follow(request, &s);
	json_array_foreach(json_object_get(answer, "events"), i, e)
		print_line(e);
	json_decref(answer);
	while (!fflush(stdout)) {
		e = router_next(s);
		print_line(e);
		json_decref(e);
	}
}
