/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * findings.c - what a command has found that looks for problems: kept, and told at its end.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/ffctl/ffctl.h"

static const struct {
	const char *json, *text;
} level_name[] = {
	[FINDING_OK] = { "ok", "ok" },
	[FINDING_NOTE] = { "note", "note" },
	[FINDING_PROBLEM] = { "problem", "PROBLEM" },
};

void finding(struct findings *f, enum finding_level level, const char *advice, const char *fmt, ...)
{
	char text[1024];
	va_list ap;
	json_t *j;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	for (char *p = text; *p; p++) /* names are anybody's */
		if (*p < ' ' || *p > '~')
			*p = '?';
	if (!f->list)
		f->list = json_array();
	j = json_pack("{s:b, s:s, s:s, s:s*}", "ok", level != FINDING_PROBLEM, "level",
		      level_name[level].json, "text", text, "advice", advice);
	if (json_array_append_new(f->list, j))
		fail("out of memory");
	f->problems += level == FINDING_PROBLEM;
}

static void print(const json_t *found)
{
	const char *name = level_name[FINDING_OK].text, *advice;

	for (size_t i = 0; i < sizeof(level_name) / sizeof(level_name[0]); i++)
		if (!strcmp(str_of(found, "level"), level_name[i].json))
			name = level_name[i].text;
	printf("%-8s %s\n", name, str_of(found, "text"));
	advice = json_string_value(json_object_get(found, "advice"));
	if (advice)
		printf("%-8s   -> %s\n", "", advice);
}

void findings_end(struct findings *f)
{
	json_t *found;
	size_t i;

	if (json_out)
		json_print(f->list);
	json_array_foreach(f->list, i, found)
		if (!json_out)
			print(found);
	json_decref(f->list);
	f->list = NULL;
	if (fflush(stdout) || ferror(stdout))
		fail("standard output: %m");
	if (f->problems)
		exit(EXIT_FAILURE);
}
