/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * log.c - see log.h. Any thread but fast ones; a line is one write, which does not block in a daemon: a reader that
 * stands still would stop the control thread. Lines that standard error does not take are counted.
 *
 * The journal takes a line with fields (log_journal()) as one datagram: "NAME=value" lines, and for a value that may
 * have anything in it the name alone, a length of 8 bytes, and the value (systemd's "Native Journal Protocol").
 * Which container or host a line is about follows from its format's first words, so that nothing
 * that a client says can become a field.
 */
#include "ffr/lib/log.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define LINE_MAX_LEN 1024
#define NAME_CHARS   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-"

enum log_level log_level = LOG_LEVEL_INFO;
static int journal_fd = -1;
static _Atomic uint32_t lost; /* lines that nobody took, until a line says so */

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
	if (!strcmp(s, "warn")) /* as FFL_LOG has it */
		s = "warning";
	for (unsigned i = 0; i < LOG_LEVEL_NUM; i++) {
		if (!strcmp(s, levels[i].name)) {
			*level = (enum log_level)i;
			return 0;
		}
	}
	return -EINVAL;
}

/* Is that what stderr is? "DEVICE:INODE" of the journal's stream. */
static bool is_stderr(const char *stream)
{
	unsigned long long dev, ino;
	struct stat st;

	return stream && sscanf(stream, "%llu:%llu", &dev, &ino) == 2 &&
	       !fstat(STDERR_FILENO, &st) && st.st_dev == dev && st.st_ino == ino;
}

void log_journal(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };

	if (journal_fd >= 0)
		close(journal_fd);
	journal_fd = -1;
	if (!path || !is_stderr(getenv("JOURNAL_STREAM")))
		return;
	journal_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	snprintf(sa.sun_path, sizeof(sa.sun_path), "%s", path);
	if (journal_fd >= 0 && connect(journal_fd, (struct sockaddr *)&sa, sizeof(sa))) {
		close(journal_fd);
		journal_fd = -1;
	}
}

/*
 * A description of our own, opened by /proc, so that whoever shares a pipe or a terminal with us goes on blocking.
 * There is none of a socket, nor of a pipe that belongs to another user: there the description that we have is changed.
 */
void log_never_block(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL), fd;
	struct stat st;

	if (flags < 0 || flags & O_NONBLOCK || fstat(STDERR_FILENO, &st) || S_ISREG(st.st_mode))
		return;
	fd = S_ISSOCK(st.st_mode) ?
		     -1 :
		     open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	if (fd >= 0) {
		dup2(fd, STDERR_FILENO);
		close(fd);
	} else if (!S_ISCHR(st.st_mode)) {
		fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK);
	}
}

/* "FREEFLOW_CONTAINER=web\n", where the format begins with the word and a name. Bytes of it. */
static size_t subject(char *buf, size_t size, const char *fmt, const char *text)
{
	static const struct {
		const char *word, *field;
	} subjects[] = {
		{ "container ", "FREEFLOW_CONTAINER" },
		{ "host ", "FREEFLOW_HOST" },
	};

	for (size_t i = 0; i < sizeof(subjects) / sizeof(subjects[0]); i++) {
		size_t n = strlen(subjects[i].word);

		if (strncmp(fmt, subjects[i].word, n) || strncmp(fmt + n, "%s", 2))
			continue;
		return (size_t)snprintf(buf, size, "%s=%.*s\n", subjects[i].field,
					(int)strspn(text + n, NAME_CHARS), text + n);
	}
	return 0;
}

/* One datagram; false: the journal does not take it now. */
static bool journal_write(enum log_level level, const char *fmt, const char *text, size_t len,
			  int err)
{
	char buf[2 * LINE_MAX_LEN + 256];
	uint64_t le = htole64(len);
	size_t n;

	n = (size_t)snprintf(buf, sizeof(buf), "PRIORITY=%c\nSYSLOG_IDENTIFIER=%s\n",
			     levels[level].journal[1], program_invocation_short_name);
	if (strstr(fmt, "%m"))
		n += (size_t)snprintf(buf + n, sizeof(buf) - n, "ERRNO=%d\n", err);
	n += subject(buf + n, sizeof(buf) - n, fmt, text);
	memcpy(buf + n, "MESSAGE\n", 8);
	memcpy(buf + n + 8, &le, sizeof(le));
	memcpy(buf + n + 16, text, len);
	n += 16 + len;
	buf[n++] = '\n';
	return write(journal_fd, buf, n) == (ssize_t)n;
}

/* One line. False: nobody takes it now. */
static bool line_vwrite(enum log_level level, const char *fmt, va_list ap)
{
	char line[LINE_MAX_LEN];
	int err = errno;
	int n, m, text;
	bool taken;

	if (getenv("JOURNAL_STREAM"))
		n = snprintf(line, sizeof(line), "%s", levels[level].journal);
	else
		n = snprintf(line, sizeof(line), "%s: %s: ", program_invocation_short_name,
			     levels[level].name);
	text = n;
	errno = err; /* for %m */
	m = vsnprintf(line + n, sizeof(line) - (size_t)n - 1, fmt, ap);
	if (m < 0)
		return true;
	n += m;
	if (n > (int)sizeof(line) - 2)
		n = (int)sizeof(line) - 2;
	taken = journal_fd >= 0 && journal_write(level, fmt, line + text, (size_t)(n - text), err);
	line[n] = '\n';
	taken = taken || write(STDERR_FILENO, line, (size_t)n + 1) == n + 1;
	errno = err;
	return taken;
}

static bool __attribute__((format(printf, 2, 3)))
line_write(enum log_level level, const char *fmt, ...)
{
	va_list ap;
	bool taken;

	va_start(ap, fmt);
	taken = line_vwrite(level, fmt, ap);
	va_end(ap);
	return taken;
}

static void log_vwrite(enum log_level level, const char *fmt, va_list ap)
{
	uint32_t n = atomic_exchange(&lost, 0);

	if (n && !line_write(LOG_LEVEL_WARN, "log: %u lines were lost: nobody read them", n))
		atomic_fetch_add(&lost, n);
	if (!line_vwrite(level, fmt, ap))
		atomic_fetch_add(&lost, 1);
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
