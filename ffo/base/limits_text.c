/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * limits_text.c - see limits_text.h. Used by ffctl and by the router's log. Any thread.
 */
#include "ffo/base/limits_text.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define MAX_DIGITS 18 /* of a number, so that it fits into 64 bits */

struct unit {
	const char *name;
	uint64_t size;
};

/* Rising; the first one is written when no larger one fits. */
static const struct unit rate_units[] = {
	{ "bit", 1 },		{ "kbit", 1000 },	   { "Mbit", 1000000 },
	{ "Gbit", 1000000000 }, { "Tbit", 1000000000000 }, { 0 },
};
static const struct unit count_units[] = {
	{ "", 1 }, { "k", 1000 }, { "M", 1000000 }, { "G", 1000000000 }, { 0 },
};
static const struct unit bytes_units[] = {
	{ "B", 1 },	      { "kB", 1ull << 10 }, { "MB", 1ull << 20 },
	{ "GB", 1ull << 30 }, { "TB", 1ull << 40 }, { 0 },
};

static const struct unit cpus_units[] = { { "m", 1 }, { "", 1000 }, { 0 } };

static const struct {
	const struct unit *units;
	unsigned int per_value; /* units of 1 that a value of 1 is */
	unsigned int parts;	/* a fraction is written if it is a multiple of 1 / parts */
	const char *example;
} kinds[] = {
	[FFO_LIMIT_RATE] = { rate_units, 8, 1000, "a rate like 10Gbit, 250Mbit or 800kbit" },
	[FFO_LIMIT_COUNT] = { count_units, 1, 10, "a number like 64, 500k or 2M" },
	[FFO_LIMIT_BYTES] = { bytes_units, 1, 10, "a number of bytes like 64kB, 1.5MB or 1GB" },
	[FFO_LIMIT_CPUS] = { cpus_units, 1, 1000, "a number of CPUs like 0.05, 50m or 2" },
	[FFO_LIMIT_FLAG] = { .example = "yes or no" },
};

const char *ffo_limit_example(enum ffo_limit_kind kind)
{
	return kinds[kind].example;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* A number as digits / 10^places; what is behind it, or NULL: it is none. */
static const char *take_number(const char *text, uint64_t *digits, uint64_t *scale)
{
	bool point = false;
	int n = 0;

	*digits = 0;
	*scale = 1;
	if (!isdigit((unsigned char)*text))
		return NULL;
	for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		if (n++ == MAX_DIGITS)
			return NULL;
		*digits = *digits * 10 + (uint64_t)(*text - '0');
		*scale *= point ? 10 : 1;
	}
	return text[-1] == '.' ? NULL : text;
}

static const struct unit *find_unit(enum ffo_limit_kind kind, const char *name)
{
	const struct unit *u = kinds[kind].units;

	if (kind == FFO_LIMIT_BYTES && !*name)
		return u;
	for (; u->name; u++)
		if (!strcasecmp(u->name, name))
			return u;
	return NULL;
}

int ffo_limit_parse(enum ffo_limit_kind kind, uint64_t max, const char *text, uint64_t *value)
{
	uint64_t digits, scale, per;
	const struct unit *u;
	unsigned __int128 v;

	*value = 0;
	if (!strcasecmp(text, "none"))
		return 0;
	if (!strcasecmp(text, "unlimited") && kind != FFO_LIMIT_FLAG) {
		*value = FFO_UNLIMITED;
		return 0;
	}
	if (kind == FFO_LIMIT_FLAG) {
		*value = !strcasecmp(text, "yes");
		return *value || !strcasecmp(text, "no") ? 0 : -EINVAL;
	}
	text = take_number(text, &digits, &scale);
	u = text ? find_unit(kind, text) : NULL;
	if (!u)
		return -EINVAL;
	v = (unsigned __int128)digits * u->size;
	per = scale * kinds[kind].per_value;
	if (kind != FFO_LIMIT_RATE && v % per)
		return -EINVAL;
	v = (v + per / 2) / per;
	if (!v && digits && kind == FFO_LIMIT_RATE)
		v = 1;
	if (!v || v > max)
		return -ERANGE;
	*value = (uint64_t)v;
	return 0;
}

/* ---- writing --------------------------------------------------------------------------------- */

const char *ffo_limit_text(enum ffo_limit_kind kind, uint64_t value, char buf[LIMIT_TEXT_MAX])
{
	const struct unit *units = kinds[kind].units, *u;
	unsigned int parts = kinds[kind].parts, rest;
	unsigned __int128 v = value;
	char fraction[16] = "";

	if (kind == FFO_LIMIT_FLAG || !value) {
		snprintf(buf, LIMIT_TEXT_MAX, "%s", value ? "yes" : "none");
		return buf;
	}
	if (value == FFO_UNLIMITED) {
		snprintf(buf, LIMIT_TEXT_MAX, "unlimited");
		return buf;
	}
	v *= kinds[kind].per_value;
	for (u = units; u[1].name && v >= u[1].size;)
		u++;
	while (u > units && v * parts % u->size)
		u--;
	rest = (unsigned int)(v % u->size * parts / u->size);
	if (rest) {
		snprintf(fraction, sizeof(fraction), ".%0*u", parts == 1000 ? 3 : 1, rest % parts);
		for (char *end = fraction + strlen(fraction) - 1; *end == '0'; end--)
			*end = '\0';
	}
	snprintf(buf, LIMIT_TEXT_MAX, "%" PRIu64 "%s%s", (uint64_t)(v / u->size), fraction,
		 u->name);
	return buf;
}
