/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cgroup.c - the cgroup that a container has, where an operator has told it, and who is kept out by it.
 * Control thread; called by container.c, by hello.c, and by admin/.
 *
 * Who reaches a container's socket is that container. Where its cgroup is known, a process must be in it as
 * well, or below it, when it says HELLO: the one that connected, whoever has the socket's descriptor by
 * then. That is looked at once. Who may move processes between these cgroups (root, and the owner of a
 * delegated part of the tree within that part) can get in, and can leave afterwards with the session.
 *
 * A cgroup is known by its path, so that one that is removed and made again, with its container, is the
 * same. It is a thing of this host, and nobody else's: the orchestrator does not know of it. It is kept
 * beside the containers' folders, in <runtime_dir>/containers/.<name>.cgroup with the container's number,
 * where no container reaches, and for as long as these folders are: over the end of a router, not over
 * that of the host. What is there and cannot be understood keeps everybody out.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/ctl/container.h"
#include "ffr/ctl/ctl.h"
#include "ffr/keeper/keeper.h"
#include "ffr/lib/cgroup.h"

#define SUFFIX	  ".cgroup"
#define FILE_NAME (CONTAINER_NAME_MAX + 16)
#define UNKNOWN	  "?" /* no cgroup is that, nor below it */
#define SHOWN	  160 /* bytes of a path in the log */

static const char *file_name(const char *container, char buf[FILE_NAME])
{
	snprintf(buf, FILE_NAME, ".%s" SUFFIX, container);
	return buf;
}

/* What is to become that file. */
static const char *next_name(const char *file, char buf[FILE_NAME + 8])
{
	snprintf(buf, FILE_NAME + 8, "%s.new", file);
	return buf;
}

/* ---- what is kept ---------------------------------------------------------------------------- */

/* "NUMBER PATH\n". The path, or NULL; *id is 0 where there is none. */
static char *text_parse(char *text, uint32_t *id)
{
	char *end, *path;
	unsigned long n;

	*id = 0;
	n = strtoul(text, &end, 10);
	if (end == text || *end != ' ' || !n || n > UINT32_MAX)
		return NULL;
	*id = (uint32_t)n;
	path = end + 1;
	end = strchr(path, '\n');
	if (!end || end[1])
		return NULL;
	*end = '\0';
	return cgroup_path_wrong(path) ? NULL : path;
}

/* A file of a router that had no user of its own may be unreadable: that is an error. */
static int text_read(int dir, const char *file, char *text, size_t size)
{
	int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n;
	int err;

	if (fd < 0)
		return -errno;
	n = read(fd, text, size - 1);
	err = n < 0 ? -errno : 0;
	close(fd);
	text[n < 0 ? 0 : n] = '\0';
	return err;
}

int container_cgroup_recall(struct container *c)
{
	struct container_ctl *ct = c->ctl;
	char text[CGROUP_MAX + 32], file[FILE_NAME], *path;
	int err = text_read(ct->ctl->containers_fd, file_name(c->name, file), text, sizeof(text));
	uint32_t id = 0;

	if (err == -ENOENT)
		return 0;
	path = err ? NULL : text_parse(text, &id);
	if (id && id != c->id) { /* of a container that had this name */
		container_cgroup_forget(ct->ctl, c->name);
		return 0;
	}
	if (!path)
		log_err("container %s: %s/containers/%s: %s: nobody is let in until its "
			"cgroup is told again (ffctl container set --cgroup)",
			c->name, ct->ctl->conf.runtime_dir, file,
			err ? strerror(-err) : "not understood");
	ct->cgroup = strdup(path ? path : UNKNOWN);
	return ct->cgroup ? 0 : -ENOMEM;
}

void container_cgroup_forget(struct ctl *ctl, const char *name)
{
	char file[FILE_NAME], next[FILE_NAME + 8];

	if (unlinkat(ctl->containers_fd, file_name(name, file), 0) && errno != ENOENT)
		log_warn("container %s: remove %s/containers/%s: %m", name, ctl->conf.runtime_dir,
			 file);
	unlinkat(ctl->containers_fd, next_name(file, next), 0); /* of a router that died */
}

/* A whole file or none takes the old one's place. */
static int text_write(int dir, const char *file, uint32_t id, const char *path)
{
	char next[FILE_NAME + 8], text[CGROUP_MAX + 32];
	int fd, len, err = 0;

	next_name(file, next);
	len = snprintf(text, sizeof(text), "%u %s\n", id, path);
	fd = openat(dir, next, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return -errno;
	errno = EIO;
	if (write(fd, text, (size_t)len) != len)
		err = -errno;
	if (close(fd) && !err)
		err = -errno;
	if (!err && renameat(dir, next, dir, file))
		err = -errno;
	if (err)
		unlinkat(dir, next, 0);
	return err;
}

int container_cgroup_tell(struct container *c, const char *path)
{
	struct container_ctl *ct = c->ctl;
	int err, dir = ct->ctl->containers_fd;
	char file[FILE_NAME], *copy = NULL;

	file_name(c->name, file);
	if (path) {
		if (cgroup_path_wrong(path))
			return -EINVAL;
		copy = strdup(path);
		err = copy ? text_write(dir, file, c->id, path) : -ENOMEM;
	} else {
		err = unlinkat(dir, file, 0) && errno != ENOENT ? -errno : 0;
	}
	if (err) {
		free(copy);
		return err;
	}
	free(ct->cgroup);
	ct->cgroup = copy;
	return 0;
}

bool container_cgroup_file(const char *file, char name[CONTAINER_NAME_MAX])
{
	size_t n = strlen(file), suffix = strlen(SUFFIX);

	if (file[0] != '.' || n < 1 + suffix || strcmp(file + n - suffix, SUFFIX))
		return false;
	n -= 1 + suffix;
	if (n >= CONTAINER_NAME_MAX)
		return false;
	memcpy(name, file + 1, n);
	name[n] = '\0';
	return container_name_ok(name);
}

/* ---- HELLO ----------------------------------------------------------------------------------- */

/* The end of a path in a line of the log: in a cgroup's name there may be anything. */
static const char *shown(const char *path, char buf[SHOWN])
{
	size_t n = strlen(path);
	const char *end = n < SHOWN - 8 ? path : path + n - (SHOWN - 8);

	snprintf(buf, SHOWN, "%s%s", *path == '/' && end == path ? "" : "...", end);
	for (char *p = buf; *p; p++)
		if (*p < ' ' || *p > '~')
			*p = '?';
	return buf;
}

void container_cgroup_refused(const struct ctl_conn *conn, const struct keeper_added *a)
{
	struct container *c = conn->cont;
	const struct container_ctl *ct = c->ctl;
	const char *where = "another one", *why = "";
	char is[SHOWN], must[SHOWN];

	c->stats.cgroup_refused++; /* nobody else writes there: no lock */
	if (a->err == -EXDEV)
		where = "one outside of ffr's cgroup namespace";
	else if (*a->cgroup)
		where = shown(a->cgroup, is);
	if (a->err != -EACCES && a->err != -EXDEV)
		why = strerror(-a->err);
	log_client(
		&c->log, LOG_LEVEL_WARN,
		"container %s: pid %d: HELLO refused: its cgroup is %s, and the container's is %s%s%s",
		c->name, (int)conn->peer.pid, where, ct->cgroup ? shown(ct->cgroup, must) : "any",
		*why ? ": " : "", why);
}
