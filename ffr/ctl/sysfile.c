/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * sysfile.c - folders, files and links below a container's directory. Control thread; called by
 * sysfs.c.
 *
 * A container that has mounted its directory to write in it may have put anything there: nothing
 * is followed, only regular files are written, and nothing is waited for.
 *
 * Tests: test_container.c
 */
#include "ffr/ctl/sysfile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAX_DEPTH 16

int sysfile_dir(int dir_fd, const char *path)
{
	int fd = dup(dir_fd), next;
	char name[256];

	while (fd >= 0 && *path) {
		size_t n = strcspn(path, "/");

		snprintf(name, sizeof(name), "%.*s", (int)n, path);
		path += n + (path[n] == '/');
		if (mkdirat(fd, name, 0755) && errno != EEXIST)
			next = -1;
		else
			next = openat(fd, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
		if (next < 0) {
			int err = -errno;

			close(fd);
			return err;
		}
		close(fd);
		fd = next;
	}
	return fd < 0 ? -errno : fd;
}

int sysfile_write(int dir_fd, const char *name, const char *text)
{
	size_t n = strlen(text);
	struct stat st;
	int fd, err = 0;

	fd = openat(dir_fd, name, O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode))
		err = -EINVAL;
	else if (pwrite(fd, text, n, 0) != (ssize_t)n ||
		 (st.st_size > (off_t)n && ftruncate(fd, (off_t)n)))
		err = errno ? -errno : -EIO;
	close(fd);
	return err;
}

int sysfile_printf(int dir_fd, const char *name, const char *fmt, ...)
{
	char text[256];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	return sysfile_write(dir_fd, name, text);
}

static void remove_below(int dir_fd, const char *name, int depth)
{
	int fd = openat(dir_fd, name, O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC | O_RDONLY);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	while (d && depth && (e = readdir(d))) {
		if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, ".."))
			continue;
		if (unlinkat(fd, e->d_name, 0))
			remove_below(fd, e->d_name, depth - 1);
	}
	if (d)
		closedir(d);
	else if (fd >= 0)
		close(fd);
	unlinkat(dir_fd, name, AT_REMOVEDIR);
}

void sysfile_remove(int dir_fd, const char *name)
{
	remove_below(dir_fd, name, MAX_DEPTH);
}

static bool leads_to(int dir_fd, const char *name, const char *target)
{
	char now[256];
	ssize_t n = readlinkat(dir_fd, name, now, sizeof(now));

	return n == (ssize_t)strlen(target) && !memcmp(now, target, (size_t)n);
}

int sysfile_link(int dir_fd, const char *name, const char *target)
{
	if (leads_to(dir_fd, name, target))
		return 0;
	if (!symlinkat(target, dir_fd, name))
		return 0;
	if (errno == EEXIST && (!unlinkat(dir_fd, name, 0) || errno == EISDIR)) {
		sysfile_remove(dir_fd, name);
		if (!symlinkat(target, dir_fd, name))
			return 0;
	}
	return -errno;
}

void sysfile_keep_one(int dir_fd, const char *name)
{
	int fd = dup(dir_fd);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	if (!d)
		return;
	rewinddir(d);
	while ((e = readdir(d)))
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && strcmp(e->d_name, name))
			unlinkat(dir_fd, e->d_name, 0);
	closedir(d);
}
