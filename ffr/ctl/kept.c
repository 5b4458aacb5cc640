/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * kept.c - what is known of a container on this host only, and is kept for the next router: a word for each of
 * KEPT_*, in a file beside the containers' folders, <runtime_dir>/containers/.NAME.SUFFIX, with the container's
 * number in front. It is there as long as these folders are: over the end of a router, not over that of the host.
 * Control thread; called by container.c and by those whose it is. (What cgroup.c keeps has rules of its own: it locks
 * out where it is not understood.)
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

#define FILE_NAME (CONTAINER_NAME_MAX + 16)

static const char *const suffix[] = { [KEPT_RUNS] = ".runs", [KEPT_NIC] = ".nic" };

static_assert(sizeof(suffix) / sizeof(suffix[0]) == KEPT_NUM, "");

static const char *file_name(const char *name, enum kept what, char buf[FILE_NAME])
{
	snprintf(buf, FILE_NAME, ".%s%s", name, suffix[what]);
	return buf;
}

void kept_forget(struct ctl *ctl, const char *name, enum kept what)
{
	char file[FILE_NAME];

	if (unlinkat(ctl->containers_fd, file_name(name, what, file), 0) && errno != ENOENT)
		log_warn("container %s: remove %s/containers/%s: %m", name, ctl->conf.runtime_dir,
			 file);
}

void kept_forget_all(struct ctl *ctl, const char *name)
{
	for (int i = 0; i < KEPT_NUM; i++)
		kept_forget(ctl, name, (enum kept)i);
}

int kept_read(const struct container *c, enum kept what, char word[KEPT_MAX])
{
	struct ctl *ctl = ((struct container_ctl *)c->ctl)->ctl;
	char file[FILE_NAME], text[KEPT_MAX + 16], *end;
	unsigned long id;
	ssize_t n;
	int fd = openat(ctl->containers_fd, file_name(c->name, what, file),
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return -errno;
	n = read(fd, text, sizeof(text) - 1);
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	id = strtoul(text, &end, 10);
	if (end == text || *end != ' ' || id != c->id || sscanf(end, "%159s", word) != 1) {
		kept_forget(ctl, c->name, what); /* another container's of that name, or damage */
		return -ENOENT;
	}
	return 0;
}

int kept_write(const struct container *c, enum kept what, const char *word)
{
	struct ctl *ctl = ((struct container_ctl *)c->ctl)->ctl;
	char file[FILE_NAME], text[KEPT_MAX + 16];
	int n = snprintf(text, sizeof(text), "%u %s\n", c->id, word), err = 0;
	int fd = openat(ctl->containers_fd, file_name(c->name, what, file),
			O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	errno = EIO;
	if (write(fd, text, (size_t)n) != n)
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

bool kept_file(const char *file, char name[CONTAINER_NAME_MAX])
{
	const char *end = strrchr(file, '.');
	size_t n = end ? (size_t)(end - file) : 0;
	int i = 0;

	while (end && i < KEPT_NUM && strcmp(end, suffix[i]) != 0)
		i++;
	if (file[0] != '.' || n < 2 || n > CONTAINER_NAME_MAX || i == KEPT_NUM)
		return false;
	memcpy(name, file + 1, n - 1);
	name[n - 1] = '\0';
	return container_name_ok(name);
}
