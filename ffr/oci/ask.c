/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* ask.c - one request to the router's admin socket, one answer; what is said there is in admin/socket.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "ffo/base/proto.h"
#include "ffr/oci/oci.h"

#define TIMEOUT 10 /* seconds that an answer may take: an engine waits for us */

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

json_t *ask(const char *path, json_t *request, int *err, char why[WHY_SZ])
{
	char *line = json_dumps(request, JSON_COMPACT), *answer = NULL;
	int fd = router_connect(path);
	FILE *f = fd < 0 ? NULL : fdopen(fd, "r+");
	json_t *j = NULL;
	size_t size = 0;
	const char *text;

	json_decref(request);
	/* -ENOENT is the router's word that it knows no such container */
	*err = fd == -ENOENT ? -ECONNREFUSED : fd < 0 ? fd : -EIO;
	if (fd >= 0 && !f)
		close(fd);
	if (f && line && fprintf(f, "%s\n", line) > 0 && !fflush(f) &&
	    getline(&answer, &size, f) > 0)
		j = json_loads(answer, 0, NULL);
	free(line);
	free(answer);
	if (f)
		fclose(f);
	if (json_is_true(json_object_get(j, "ok")))
		return j;
	if (j) {
		text = json_string_value(json_object_get(j, "error"));
		*err = text ? ffo_error_number(text) : -EPROTO;
		text = json_string_value(json_object_get(j, "message"));
		snprintf(why, WHY_SZ, "%s", text ? text : "the router's answer is not understood");
	} else {
		snprintf(why, WHY_SZ, "%s: %s: is ffr running?", path, strerror(-*err));
	}
	json_decref(j);
	return NULL;
}
