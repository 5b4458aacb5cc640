/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * runs.c - which containers run, as the hooks of their runtimes tell (ffr/oci). Control thread.
 *
 * A container that runs is in use, also while none of its programs has the device open, so nobody moves it to another
 * host. It is told with the runtime's id, and only what is told with the same one ends it. A file beside the container's
 * folder keeps it for the next router: "ID-OF-THE-ORCHESTRATOR ID-OF-THE-RUNTIME".
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/lib/log.h"

#define FILE_NAME (CONTAINER_NAME_MAX + 8)

static const char *file_name(const char *name, char buf[FILE_NAME])
{
	snprintf(buf, FILE_NAME, ".%s.runs", name);
	return buf;
}

int container_runs_recall(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	char file[FILE_NAME], text[RUNS_ID_MAX + 16], id[RUNS_ID_MAX];
	unsigned known;
	ssize_t n;
	int fd = openat(ct->ctl->containers_fd, file_name(c->name, file),
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return errno == ENOENT ? 0 : -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	if (sscanf(text, "%u %127s", &known, id) != 2 || known != c->id) {
		container_runs_forget(ct->ctl, c->name);
		return 0;
	}
	ct->runs = strdup(id);
	return ct->runs ? 0 : -ENOMEM;
}

void container_runs_forget(struct ctl *ctl, const char *name)
{
	char file[FILE_NAME];

	if (unlinkat(ctl->containers_fd, file_name(name, file), 0) && errno != ENOENT)
		log_warn("container %s: remove %s/containers/%s: %m", name, ctl->conf.runtime_dir,
			 file);
}

bool container_runs_file(const char *file, char name[CONTAINER_NAME_MAX])
{
	const char *end = strrchr(file, '.');
	size_t n = end ? (size_t)(end - file) : 0;

	if (file[0] != '.' || n < 2 || n > CONTAINER_NAME_MAX || strcmp(end, ".runs"))
		return false;
	memcpy(name, file + 1, n - 1);
	name[n - 1] = '\0';
	return container_name_ok(name);
}

static int keep(const struct ctl *ctl, const struct container *c, const char *id)
{
	char file[FILE_NAME], text[RUNS_ID_MAX + 16];
	int n = snprintf(text, sizeof(text), "%u %s", c->id, id), err = 0;
	int fd = openat(ctl->containers_fd, file_name(c->name, file),
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	errno = EIO;
	if (write(fd, text, (size_t)n) != n)
		err = -errno;
	close(fd);
	return err;
}

bool container_runs_id_ok(const char *id)
{
	return *id && strlen(id) < RUNS_ID_MAX &&
	       !id[strspn(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-")];
}

int container_runs_tell(struct container *c, const char *id, bool runs)
{
	struct container_ctl *ct = c->ctl;
	char *copy;
	int err;

	if (!container_runs_id_ok(id))
		return -EINVAL;
	if (ct->runs && strcmp(ct->runs, id))
		return runs ? -EBUSY : 0;
	if (!runs) {
		free(ct->runs);
		ct->runs = NULL;
		container_runs_forget(ct->ctl, c->name);
	} else if (!ct->runs) {
		copy = strdup(id);
		err = copy ? keep(ct->ctl, c, id) : -ENOMEM;
		if (err) {
			free(copy);
			return err;
		}
		ct->runs = copy;
	}
	if (ct->ctl->hooks)
		ct->ctl->hooks->session_changed(ct->ctl->orch);
	return 0;
}
