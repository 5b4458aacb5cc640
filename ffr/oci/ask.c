/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ask.c - one request to the router's admin socket, one answer; what is said there is in admin/socket.c. */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "ffo/base/proto.h"
#include "ffr/oci/oci.h"

#define TIMEOUT	   10	      /* seconds that an answer may take: an engine waits for us */
#define ANSWER_MAX (64 << 10) /* bytes: a container has some kilobytes */

static int router_connect(const char *path)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	const struct timeval tv = { .tv_sec = TIMEOUT };
	int fd, err = 0;

	if (strlen(path) >= sizeof(sa.sun_path))
		return -ENAMETOOLONG;
	strcpy(sa.sun_path, path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa))) {
		err = -errno;
		close(fd);
	}
	return err ? err : fd;
}

/* A line, its end taken off, the caller's. NULL: none came in time, or a longer one. */
static char *read_line(int fd)
{
	char *text = malloc(ANSWER_MAX), *end;
	time_t until = time(NULL) + TIMEOUT;
	size_t len = 0;
	ssize_t n;

	while (text && len < ANSWER_MAX && time(NULL) <= until) {
		n = recv(fd, text + len, ANSWER_MAX - len, 0);
		if (n <= 0)
			break;
		end = memchr(text + len, '\n', (size_t)n);
		len += (size_t)n;
		if (!end)
			continue;
		*end = '\0';
		return text;
	}
	free(text);
	return NULL;
}

/* What the router says goes to somebody's terminal. */
static void printable(char *text)
{
	for (; *text; text++)
		if (iscntrl((unsigned char)*text))
			*text = '?';
}

json_t *ask(const char *path, json_t *request, int *err, char why[WHY_SZ])
{
	char *line = json_dumps(request, JSON_COMPACT), *answer = NULL;
	int fd = router_connect(path);
	json_t *j = NULL;
	const char *text;

	json_decref(request);
	/* -ENOENT is the router's word that it knows no such container */
	*err = fd == -ENOENT ? -ECONNREFUSED : fd < 0 ? fd : -EIO;
	if (fd >= 0 && line && dprintf(fd, "%s\n", line) > 0)
		answer = read_line(fd);
	if (answer)
		j = json_loads(answer, 0, NULL);
	free(line);
	free(answer);
	if (fd >= 0)
		close(fd);
	if (json_is_true(json_object_get(j, "ok")))
		return j;
	if (j) {
		text = json_string_value(json_object_get(j, "error"));
		*err = text ? ffo_error_number(text) : -EPROTO;
		text = json_string_value(json_object_get(j, "message"));
		snprintf(why, WHY_SZ, "%s", text ? text : "the router's answer is not understood");
		printable(why);
	} else {
		snprintf(why, WHY_SZ, "%s: %s: is ffr running?", path, strerror(-*err));
	}
	json_decref(j);
	return NULL;
}
