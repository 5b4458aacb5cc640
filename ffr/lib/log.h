/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * log.h - the daemons' log: lines on stderr, with journald's level prefix when it listens.
 *
 * `%m` in a format is the text of errno. Not for fast threads, which count instead. What a
 * container can cause goes through a struct log_limit, so that it cannot fill the disk.
 *
 * The room ffr/lib/ is what the daemons share, ffo too: log, sandbox, Landlock, users, service managers,
 * timers, addresses, the one way to read shared memory (shm.h). It may use abi/, and knows nothing of
 * routers; any thread, unless a file says otherwise.
 */
#ifndef FFR_LIB_LOG_H
#define FFR_LIB_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_LEVEL_ERR, LOG_LEVEL_WARN, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG, LOG_LEVEL_NUM };

extern enum log_level log_level; /* lines up to this one are written */

#define LOG_JOURNAL "/run/systemd/journal/socket"
/*
 * From now on lines go to the journal with fields (PRIORITY, SYSLOG_IDENTIFIER, ERRNO, FREEFLOW_CONTAINER,
 * FREEFLOW_HOST), where stderr is its stream; to stderr where it does not take them. NULL: to stderr. At the start of a
 * process, before it confines itself.
 */
void log_journal(const char *path);

/*
 * At the start of a daemon: a reader of stderr that stands still blocks no thread from now on. Lines that stderr does
 * not take are dropped; the next line that it takes follows their number.
 */
void log_never_block(void);

/* Reads "error", "warning", "info", "debug"; 0 or -EINVAL. */
int log_level_parse(const char *s, enum log_level *level);
void log_write(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#define log_at(level, ...)                                                                         \
	do {                                                                                       \
		if ((level) <= log_level)                                                          \
			log_write(level, __VA_ARGS__);                                             \
	} while (0)
#define log_err(...)   log_at(LOG_LEVEL_ERR, __VA_ARGS__)
#define log_warn(...)  log_at(LOG_LEVEL_WARN, __VA_ARGS__)
#define log_info(...)  log_at(LOG_LEVEL_INFO, __VA_ARGS__)
#define log_debug(...) log_at(LOG_LEVEL_DEBUG, __VA_ARGS__)

#define LOG_BURST  10u /* lines in each LOG_WINDOW */
#define LOG_WINDOW 10u /* seconds */

struct log_limit {
	uint64_t since; /* s, CLOCK_MONOTONIC: start of the window */
	uint32_t written, dropped;
};

/* May another line of that source be written at `now` (seconds)? Tells once what was dropped. */
bool log_allowed(struct log_limit *l, uint64_t now, uint32_t *dropped);
/* A line about what the container did, within its limit. */
void log_client(struct log_limit *l, enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

#endif
