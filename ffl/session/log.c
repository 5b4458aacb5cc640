/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * log.c - the library's messages, for whoever looks for a fault. Any thread.
 *
 * FFL_LOG=LEVEL[:FILE] with LEVEL none, error, warn or warning, info, debug or 0 to 4; without it, or with an
 * empty LEVEL, errors are shown. Messages go to stderr or are appended to FILE, a line and a
 * write(2) each; never to stdout, which belongs to the program. errno is kept.
 */
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffl/session/ffl.h"

FFL_EXPORT_DATA int ffl_log_level = FFL_ERR;
static int log_fd = STDERR_FILENO;

static const char *const level_name[] = { "none", "error", "warn", "info", "debug" };
static_assert(ARRAY_SIZE(level_name) == FFL_DEBUG + 1, "a name for each level");

static bool is_word(const char *s, size_t len, const char *word)
{
	return len == strlen(word) && !memcmp(s, word, len);
}

/* The level that s[0, len) names; -1: none. Nothing: the default. */
static int level_parse(const char *s, size_t len)
{
	if (!len)
		return FFL_ERR;
	for (int level = 0; level <= FFL_DEBUG; level++)
		if ((len == 1 && s[0] == '0' + level) || is_word(s, len, level_name[level]))
			return level;
	return is_word(s, len, "warning") ? FFL_WARN : -1; /* as ffr.conf has it */
}

/* Reads FFL_LOG, the first time. */
FFL_EXPORT void ffl_log_init(void)
{
	static _Atomic bool done;
	const char *env, *file;
	int fd, level;

	if (atomic_exchange(&done, true))
		return;
	env = secure_getenv("FFL_LOG");
	if (!env)
		return;
	file = strchrnul(env, ':');
	level = level_parse(env, (size_t)(file - env));
	ffl_log_level = level < 0 ? FFL_DEBUG : level;
	if (file[0] && file[1]) {
		fd = open(file + 1, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
		if (fd >= 0)
			log_fd = ffl_fd_high(fd);
		else
			ffl_log(FFL_ERR, "FFL_LOG=%s: %s: %m: standard error is taken", env,
				file + 1);
	}
	if (level < 0)
		ffl_log(FFL_ERR, "FFL_LOG=%s: not none, error, warn, info or debug: debug is taken",
			env);
}

FFL_EXPORT void ffl_log_(enum ffl_level level, const char *fmt, ...)
{
	char line[512];
	int err = errno, n, m;
	va_list ap;

	n = snprintf(line, sizeof(line), "ffl[%d]: %s: ", (int)getpid(), level_name[level]);
	errno = err; /* for %m */
	va_start(ap, fmt);
	m = vsnprintf(line + n, sizeof(line) - n, fmt, ap);
	va_end(ap);
	if (m > 0)
		n = n + m < (int)sizeof(line) - 1 ? n + m : (int)sizeof(line) - 1;
	line[n++] = '\n';
	if (write(log_fd, line, n) < 0)
		log_fd = STDERR_FILENO; /* the program closed it */
	errno = err;
}
