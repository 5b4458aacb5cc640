/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* log.c - see log.h. Any thread but fast ones; a line is one write. */
#include "ffr/lib/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum log_level log_level = LOG_LEVEL_INFO;

static const struct {
	const char *name;
	const char *journal; /* sd-daemon(3) */
} levels[LOG_LEVEL_NUM] = {
	[LOG_LEVEL_ERR] = { "error", "<3>" },
	[LOG_LEVEL_WARN] = { "warning", "<4>" },
	[LOG_LEVEL_INFO] = { "info", "<6>" },
	[LOG_LEVEL_DEBUG] = { "debug", "<7>" },
};

int log_level_parse(const char *s, enum log_level *level)
{
	for (unsigned i = 0; i < LOG_LEVEL_NUM; i++) {
		if (!strcmp(s, levels[i].name)) {
			*level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

static void log_vwrite(enum log_level level, const char *fmt, va_list ap)
{
	char line[1024];
	int err = errno;
	int n, m;

	if (getenv("JOURNAL_STREAM"))
		n = snprintf(line, sizeof(line), "%s", levels[level].journal);
	else
		n = snprintf(line, sizeof(line), "%s: %s: ", program_invocation_short_name,
			     levels[level].name);
	errno = err; /* for %m */
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	if (m < 0)
		return;
	n += m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	line[n] = '\n';
	if (write(STDERR_FILENO, line, (size_t)n + 1) < 0) {
		/* Nowhere to tell it. */
	}
	errno = err;
}

void log_write(enum log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	log_vwrite(level, fmt, ap);
	va_end(ap);
}

bool log_allowed(struct log_limit *l, uint64_t now, uint32_t *dropped)
{
	*dropped = 0;
	if (now - l->since >= LOG_WINDOW) {
		*dropped = l->dropped;
		*l = (struct log_limit){ .since = now };
	}
	if (l->written >= LOG_BURST) {
		l->dropped++;
		return false;
	}
	l->written++;
	return true;
}

void log_client(struct log_limit *l, enum log_level level, const char *fmt, ...)
{
	struct timespec ts;
	uint32_t dropped;
	va_list ap;

	if (level > log_level)
		return;
	clock_gettime(CLOCK_MONOTONIC, &ts);
	if (!log_allowed(l, (uint64_t)ts.tv_sec, &dropped))
		return;
	if (dropped)
		log_write(level, "%u lines like the following were dropped", dropped);
	va_start(ap, fmt);
	log_vwrite(level, fmt, ap);
	va_end(ap);
}
