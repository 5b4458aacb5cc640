/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * top.c - ffctl top: what each container does now, as a screen that refreshes itself.
 *
 * The router counts since it started; rates are the differences of two readings, by this program's
 * clock. Times are those of the requests between them.
 *
 * Tests: system/stats.sh
 */
#include <getopt.h>
#include <ncurses.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ffr/ffctl/ffctl.h"
#include "ffr/obj/lat.h"

#define LINE_WIDTH 80
#define FIXED_ROWS 4 /* title, heads, an empty line, footer */

/* One container in one reading; in a row, what it was per second. */
struct sample {
	char name[64], tenant[64];
	json_int_t sessions, qps;
	double tx, rx, ops, errors, rnr, cpu; /* ns */
	uint64_t p50, p99;
	struct lat lat;
};

struct reading {
	double at; /* s */
	size_t n;
	struct sample *row;
};

enum sort {
	BY_CONTAINER,
	BY_TX,
	BY_RX,
	BY_OPS,
	BY_LATENCY,
	BY_CPU,
	BY_ERRORS,
	BY_TENANT,
	SORT_NUM
};

static const struct {
	const char *name;
	char key;
} sorts[SORT_NUM] = {
	[BY_CONTAINER] = { "container", 'c' },
	[BY_TX] = { "tx", 't' },
	[BY_RX] = { "rx", 'r' },
	[BY_OPS] = { "ops", 'o' },
	[BY_LATENCY] = { "latency", 'l' },
	[BY_CPU] = { "cpu", 'p' },
	[BY_ERRORS] = { "errors", 'e' },
	[BY_TENANT] = { "tenant", 'n' },
};

static enum sort sort_by = BY_TX;
static double interval = 1; /* s */

/* ---- readings --------------------------------------------------------------------------------- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static double sum_of(const json_t *c, const char *const *keys)
{
	double sum = 0;

	for (; *keys; keys++)
		sum += (double)int_of(c, *keys);
	return sum;
}

static void sample_take(struct sample *s, const json_t *c)
{
	static const char *const done[] = { "send_ops",	 "write_ops", "read_ops", "atomic_ops",
					    "flush_ops", "mw_ops",    NULL };
	const json_t *st = json_object_get(c, "counters");

	snprintf(s->name, sizeof(s->name), "%s", str_of(c, "name"));
	snprintf(s->tenant, sizeof(s->tenant), "%s", str_of(c, "tenant"));
	s->sessions = int_of(c, "sessions");
	s->qps = int_of(c, "qps");
	s->tx = (double)int_of(st, "tx_bytes");
	s->rx = (double)int_of(st, "rx_bytes");
	s->ops = sum_of(st, done);
	s->errors = (double)int_of(st, "errors");
	s->rnr = (double)int_of(st, "rnr");
	s->cpu = (double)int_of(st, "cpu_ns");
	lat_from_json(&s->lat, json_object_get(c, "latency"));
}

static struct reading read_all(void)
{
	json_t *answer = router_call(json_pack("{s:s, s:b}", "op", "stats", "latency", 1)), *c;
	json_t *list = json_object_get(answer, "containers");
	struct reading r = { .at = now(), .n = json_array_size(list) };
	size_t i;

	r.row = calloc(r.n + 1, sizeof(*r.row));
	if (!r.row)
		fail("out of memory");
	json_array_foreach(list, i, c)
		sample_take(&r.row[i], c);
	json_decref(answer);
	return r;
}

/* The longest of a difference is not known: the bound of its last bucket. */
static void lat_between(struct lat *d, const struct lat *from, const struct lat *to)
{
	d->max = 0;
	for (uint32_t i = 0; i < LAT_BUCKETS; i++) {
		d->count[i] = to->count[i] - from->count[i];
		if (d->count[i])
			d->max = lat_bound(i) < to->max ? lat_bound(i) : to->max;
	}
}

/* What happened per second between two readings of one container. */
static void rates(struct sample *to, const struct sample *from, double seconds)
{
	struct lat d;

	/* added anew since, or another router: its counters began again */
	if (to->tx < from->tx || to->ops < from->ops || to->lat.sum < from->lat.sum)
		return;
	to->tx = (to->tx - from->tx) / seconds;
	to->rx = (to->rx - from->rx) / seconds;
	to->ops = (to->ops - from->ops) / seconds;
	to->errors = (to->errors - from->errors) / seconds;
	to->rnr = (to->rnr - from->rnr) / seconds;
	to->cpu = (to->cpu - from->cpu) / seconds;
	lat_between(&d, &from->lat, &to->lat);
	to->p50 = lat_percentile(&d, 0.5);
	to->p99 = lat_percentile(&d, 0.99);
}

static int compare(const void *a, const void *b)
{
	const struct sample *x = a, *y = b;
	double d = 0;

	switch (sort_by) {
	case BY_TX:
		d = y->tx - x->tx;
		break;
	case BY_RX:
		d = y->rx - x->rx;
		break;
	case BY_OPS:
		d = y->ops - x->ops;
		break;
	case BY_LATENCY:
		d = (double)y->p99 - (double)x->p99;
		break;
	case BY_CPU:
		d = y->cpu - x->cpu;
		break;
	case BY_ERRORS:
		d = y->errors - x->errors;
		break;
	case BY_TENANT:
		d = strcmp(x->tenant, y->tenant);
		break;
	default:
		break;
	}
	return d < 0 ? -1 : d > 0 ? 1 : strcmp(x->name, y->name);
}

/* A table of rates, sorted. */
static struct reading difference(const struct reading *old, const struct reading *new)
{
	struct reading d = { .n = new->n, .row = calloc(new->n + 1, sizeof(*d.row)) };
	static const struct sample none;

	if (!d.row)
		fail("out of memory");
	for (size_t i = 0; i < new->n; i++) {
		const struct sample *from = &none;

		for (size_t k = 0; k < old->n; k++)
			if (!strcmp(old->row[k].name, new->row[i].name))
				from = &old->row[k];
		d.row[i] = new->row[i];
		rates(&d.row[i], from, new->at - old->at);
	}
	qsort(d.row, d.n, sizeof(*d.row), compare);
	return d;
}

/* ---- lines ------------------------------------------------------------------------------------- */

/* LINE_WIDTH characters */
static void line_put(char line[LINE_WIDTH + 1], const char *const cell[11])
{
	snprintf(line, LINE_WIDTH + 1, "%-12.12s %-7.7s %5s %7s %7s %6s %7s %7s %4s %4s %4s",
		 cell[0], cell[1], cell[2], cell[3], cell[4], cell[5], cell[6], cell[7], cell[8],
		 cell[9], cell[10]);
}

static void heads_text(char line[LINE_WIDTH + 1])
{
	static const char *const heads[11] = { "CONTAINER", "TENANT", "QPS", "TXbit/s",
					       "RXbit/s",   "OPS/s",  "50%", "99%",
					       "CPU%",	    "ERR",    "RNR" };

	line_put(line, heads);
}

/* Of a CPU: of its time in ns per second, 1e7 are one per cent. */
static const char *percent_text(double percent, char buf[16])
{
	snprintf(buf, 16, percent < 9.95 ? "%.1f" : "%.0f", percent);
	return buf;
}

static void line_text(const struct sample *s, char line[LINE_WIDTH + 1])
{
	char qps[16], tx[16], rx[16], ops[16], p50[16], p99[16], cpu[16], err[16], rnr[16];
	const char *const cell[11] = {
		s->name,
		s->tenant,
		count_text((double)s->qps, qps),
		count_text(8 * s->tx, tx),
		count_text(8 * s->rx, rx),
		count_text(s->ops, ops),
		s->p99 ? time_text(s->p50, p50) : "-",
		s->p99 ? time_text(s->p99, p99) : "-",
		percent_text(s->cpu / 1e7, cpu),
		count_text(s->errors, err),
		count_text(s->rnr, rnr),
	};

	line_put(line, cell);
}

static void print_table(const struct reading *d)
{
	char line[LINE_WIDTH + 1];

	heads_text(line);
	puts(line);
	for (size_t i = 0; i < d->n; i++) {
		line_text(&d->row[i], line);
		puts(line);
	}
}

/* The names are those of the counters; what is not of a moment is per second. */
static void print_json(const struct reading *d)
{
	json_t *list = json_array();

	for (size_t i = 0; i < d->n; i++) {
		const struct sample *s = &d->row[i];

		json_array_append_new(
			list,
			json_pack("{s:s, s:s, s:I, s:I, s:f, s:f, s:f, s:f, s:f, s:f, s:I, s:I}",
				  "name", s->name, "tenant", s->tenant, "sessions", s->sessions,
				  "qps", s->qps, "tx_bytes", s->tx, "rx_bytes", s->rx, "ops",
				  s->ops, "errors", s->errors, "rnr", s->rnr, "cpu_ns", s->cpu,
				  "p50_ns", (json_int_t)s->p50, "p99_ns", (json_int_t)s->p99));
	}
	json_print(list);
	json_decref(list);
}

static void once(void)
{
	struct reading old = read_all(), new, d;

	poll(NULL, 0, (int)(interval * 1000));
	new = read_all();
	d = difference(&old, &new);
	if (json_out)
		print_json(&d);
	else
		print_table(&d);
	free(old.row);
	free(new.row);
	free(d.row);
}

/* ---- the screen ---------------------------------------------------------------------------------- */

static void end_screen(void)
{
	if (!isendwin())
		endwin();
}

static void draw(const struct reading *d, size_t first)
{
	size_t room = LINES > FIXED_ROWS ? (size_t)(LINES - FIXED_ROWS) : 0;
	double tx = 0, rx = 0, ops = 0;
	char line[LINE_WIDTH + 1], a[24], b[24], c[16];

	for (size_t i = 0; i < d->n; i++) {
		tx += d->row[i].tx;
		rx += d->row[i].rx;
		ops += d->row[i].ops;
	}
	erase();
	mvprintw(0, 0, "freeflow: %zu containers, %s sent, %s received, %s requests/s", d->n,
		 rate_text(tx, a), rate_text(rx, b), count_text(ops, c));
	attron(A_REVERSE);
	heads_text(line);
	mvaddnstr(1, 0, line, COLS);
	attroff(A_REVERSE);
	for (size_t i = 0; i < room && first + i < d->n; i++) {
		line_text(&d->row[first + i], line);
		mvaddnstr((int)i + 2, 0, line, COLS);
	}
	move(LINES - 1, 0);
	for (int i = 0; i < SORT_NUM; i++) {
		if (i == (int)sort_by)
			attron(A_BOLD | A_UNDERLINE);
		printw("%c %s", sorts[i].key, sorts[i].name);
		attroff(A_BOLD | A_UNDERLINE);
		addstr("  ");
	}
	addstr("q quit");
	refresh();
}

/* A key: false ends the program. */
static bool key(int ch, size_t *first, size_t n)
{
	for (int i = 0; i < SORT_NUM; i++)
		if (ch == sorts[i].key)
			sort_by = (enum sort)i;
	if (ch == KEY_DOWN && *first + 1 < n)
		++*first;
	if (ch == KEY_UP && *first)
		--*first;
	return ch != 'q';
}

static void screen(void)
{
	struct reading old = read_all(), new = read_all(), d;
	double next = old.at + interval;
	size_t first = 0;
	int ch;

	if (!initscr())
		fail("top: no terminal of type \"%s\"", getenv("TERM") ? getenv("TERM") : "");
	fail_hook = end_screen;
	cbreak();
	noecho();
	keypad(stdscr, TRUE);
	curs_set(0);
	new.at += 1e-6; /* never at the same moment as the first */
	do {
		double left = next - now();

		if (left <= 0) {
			free(old.row);
			old = new;
			new = read_all();
			next = now() + interval;
			left = interval;
		}
		d = difference(&old, &new);
		draw(&d, first < d.n ? first : 0);
		free(d.row);
		timeout((int)(left * 1000) + 1);
		ch = getch();
	} while (key(ch, &first, new.n));
	end_screen();
	free(old.row);
	free(new.row);
}

static void sort_parse(const char *s)
{
	for (int i = 0; i < SORT_NUM; i++) {
		if (strcmp(s, sorts[i].name) && !(s[0] == sorts[i].key && !s[1]))
			continue;
		sort_by = (enum sort)i;
		return;
	}
	usage_fail("top: --sort: \"%s\" is none of container, tx, rx, ops, latency, cpu, errors, "
		   "tenant",
		   s);
}

double interval_parse(const char *option, const char *text)
{
	char *end;
	double seconds = strtod(text, &end);

	if (end == text || *end || !(seconds >= 0.1 && seconds <= 3600))
		usage_fail("%s: \"%s\" is not 0.1..3600 seconds", option, text);
	return seconds;
}

void cmd_top(int argc, char **argv)
{
	static const struct option options[] = {
		{ "interval", required_argument, NULL, 'i' },
		{ "sort", required_argument, NULL, 's' },
		{ "once", no_argument, NULL, 'o' },
		{ 0 },
	};
	bool one = false;
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		switch (o) {
		case 'i':
			interval = interval_parse("top: --interval", optarg);
			break;
		case 's':
			sort_parse(optarg);
			break;
		case 'o':
			one = true;
			break;
		default:
			option_fail(o, argv);
		}
	}
	no_more(argc, argv, optind);
	one = one || json_out;
	if (!one && !(isatty(STDOUT_FILENO) && isatty(STDIN_FILENO)))
		fail("top: standard output is no terminal; --once prints one table");
	if (one)
		once();
	else
		screen();
}
