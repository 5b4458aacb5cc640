/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ffload_report.c - what a load has seen: lines on stderr as it goes, a summary on stdout at the end. */
#include "tests/rig/ffload/ffload.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <time.h>

#define WRONG_TOLD 100

uint64_t load_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

uint64_t load_random(void)
{
	uint64_t x;

	if (getrandom(&x, sizeof(x), 0) != (ssize_t)sizeof(x))
		abort();
	return x ? x : 1;
}

static void line(const struct load_report *r, const char *what, const char *fmt, va_list ap)
{
	char text[400];

	vsnprintf(text, sizeof(text), fmt, ap);
	fprintf(stderr, "%8.3f %s%s\n", (double)(load_now() - r->started) / NS_PER_S, what, text);
}

void report_line(const struct load_report *r, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	line(r, "", fmt, ap);
	va_end(ap);
}

void report_wrong(struct load_report *r, const char *fmt, ...)
{
	va_list ap;

	if (r->wrong++ >= WRONG_TOLD)
		return;
	va_start(ap, fmt);
	line(r, "WRONG: ", fmt, ap);
	va_end(ap);
}

void report_good(struct load_report *r, uint64_t now)
{
	if (r->last_good && now - r->last_good > r->longest_gap)
		r->longest_gap = now - r->last_good;
	r->last_good = now;
}

void report_recovery(struct load_report *r, uint64_t ns)
{
	if (!r->recovery)
		r->recovery = calloc(LOAD_RECOVERIES, sizeof(*r->recovery));
	if (r->recovery && r->recoveries < LOAD_RECOVERIES)
		r->recovery[r->recoveries++] = ns;
}

static int by_size(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double ms(uint64_t ns)
{
	return (double)ns / NS_PER_MS;
}

static void json_counts(const struct load_report *r)
{
	const char *comma = "";

	printf("\"ops\": {");
	for (unsigned i = 0; i < OP_NUM; i++)
		printf("%s\"%s\": %llu", i ? ", " : "", load_op_str[i],
		       (unsigned long long)r->ops[i]);
	printf("}, \"completions\": {");
	for (unsigned i = 0; i < LOAD_STATUSES; i++) {
		if (!r->status[i])
			continue;
		printf("%s\"%s\": %llu", comma, ibv_wc_status_str((enum ibv_wc_status)i),
		       (unsigned long long)r->status[i]);
		comma = ", ";
	}
	printf("}");
}

void report_json(const struct load_report *r)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < OP_NUM; i++)
		total += r->ops[i];
	printf("{\"role\": \"%s\", \"seconds\": %.3f, \"lanes\": %u, \"total\": %llu, "
	       "\"bytes\": %llu, ",
	       r->role, (double)(r->ended - r->started) / NS_PER_S, r->lanes,
	       (unsigned long long)total, (unsigned long long)r->bytes);
	json_counts(r);
#define NUMBER(field) printf(", \"%s\": %llu", #field, (unsigned long long)r->field)
	NUMBER(wrong);
	NUMBER(peer_wrong);
	NUMBER(verified);
	NUMBER(scanned);
	NUMBER(failures);
	NUMBER(connects);
	NUMBER(attempts_failed);
	NUMBER(ambiguous);
	NUMBER(reopens);
	NUMBER(peer_restarts);
	NUMBER(probes);
	NUMBER(stalls);
	NUMBER(async_events);
	NUMBER(ud_sent);
	NUMBER(ud_received);
	NUMBER(ud_lost);
	NUMBER(ud_reordered);
	NUMBER(unended);
	NUMBER(recoveries);
#undef NUMBER
	if (r->recoveries) {
		qsort(r->recovery, r->recoveries, sizeof(*r->recovery), by_size);
		printf(", \"recovery_ms\": {\"min\": %.3f, \"median\": %.3f, \"p99\": %.3f, \"max\": "
		       "%.3f}",
		       ms(r->recovery[0]), ms(r->recovery[r->recoveries / 2]),
		       ms(r->recovery[(uint64_t)r->recoveries * 99 / 100]),
		       ms(r->recovery[r->recoveries - 1]));
	}
	printf(", \"longest_gap_ms\": %.3f}\n", ms(r->longest_gap));
	fflush(stdout);
}

void report_text(const struct load_report *r)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < OP_NUM; i++)
		total += r->ops[i];
	printf("%s: %llu operations, %llu bytes, %llu verified by the sink; %llu wrong\n", r->role,
	       (unsigned long long)total, (unsigned long long)r->bytes,
	       (unsigned long long)r->verified, (unsigned long long)(r->wrong + r->peer_wrong));
	printf("%s: %llu connections, %llu failures, %u came back", r->role,
	       (unsigned long long)r->connects, (unsigned long long)r->failures, r->recoveries);
	if (r->recoveries) {
		qsort(r->recovery, r->recoveries, sizeof(*r->recovery), by_size);
		printf(" after %.1f ms (median; at most %.1f)", ms(r->recovery[r->recoveries / 2]),
		       ms(r->recovery[r->recoveries - 1]));
	}
	printf("; %llu operations left open; the device was opened again %llu times\n",
	       (unsigned long long)r->ambiguous, (unsigned long long)r->reopens);
	fflush(stdout);
}
