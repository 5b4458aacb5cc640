/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* table.c - aligned columns for people. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ffctl/ffctl.h"

#define MAX_COLS 16

struct table {
	int cols, width[MAX_COLS];
	bool right[MAX_COLS];
	char **cell; /* heads first */
	size_t n, size;
};

static void put(struct table *t, char *text)
{
	int col = (int)(t->n % (size_t)t->cols);

	if (!text)
		fail("out of memory");
	if (t->n == t->size) {
		t->size = t->size ? t->size * 2 : 64;
		t->cell = realloc(t->cell, t->size * sizeof(*t->cell));
		if (!t->cell)
			fail("out of memory");
	}
	t->cell[t->n++] = text;
	if ((int)strlen(text) > t->width[col])
		t->width[col] = (int)strlen(text);
}

struct table *table_new(const char *const *heads)
{
	struct table *t = calloc(1, sizeof(*t));

	if (!t)
		fail("out of memory");
	while (heads[t->cols]) {
		t->right[t->cols] = heads[t->cols][0] == '>';
		t->cols++;
	}
	for (int i = 0; i < t->cols; i++)
		put(t, strdup(heads[i] + t->right[i]));
	return t;
}

void table_cell(struct table *t, const char *fmt, ...)
{
	char *text;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&text, fmt, ap) < 0)
		text = NULL;
	va_end(ap);
	put(t, text);
}

void table_print(struct table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		int col = (int)(i % (size_t)t->cols);
		bool last = col == t->cols - 1;

		if (last && !t->right[col])
			printf("%s\n", t->cell[i]);
		else
			printf("%*s%s", t->right[col] ? t->width[col] : -t->width[col], t->cell[i],
			       last ? "\n" : "  ");
		free(t->cell[i]);
	}
	free(t->cell);
	free(t);
}

/* "128kB", "10.5MB": one digit behind the point, as limits are written. Returns buf. */
static const char *number_text(double v, const char *unit, char buf[16])
{
	long long tenths = (long long)(v * 10 + 0.5);

	snprintf(buf, 16, tenths % 10 ? "%.1f%s" : "%.0f%s", (double)tenths / 10, unit);
	return buf;
}

const char *bytes_text(json_int_t n, char buf[16])
{
	static const char *const units[] = { "B", "kB", "MB", "GB", "TB", "PB", "EB" };
	double v = (double)n;
	int u = 0;

	for (; v >= 1023.95 && u < 6; u++)
		v /= 1024;
	return number_text(v, units[u], buf);
}

const char *count_text(double n, char buf[16])
{
	static const char *const units[] = { "", "k", "M", "G", "T", "P", "E" };
	int u = 0;

	for (; n >= 999.95 && u < 6; u++)
		n /= 1000;
	return number_text(u ? n : (double)(long long)(n + 0.5), units[u], buf);
}

const char *rate_text(double bytes, char buf[24])
{
	char n[16];

	snprintf(buf, 24, "%sbit/s", count_text(8 * bytes, n));
	return buf;
}

const char *time_text(uint64_t ns, char buf[16])
{
	static const char *const units[] = { "ns", "us", "ms", "s" };
	double v = (double)ns;
	int u = 0;

	for (; v >= 999.95 && u < 3; u++)
		v /= 1000;
	return number_text(v, units[u], buf);
}
