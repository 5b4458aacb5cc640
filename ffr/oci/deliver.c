/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * deliver.c - how a container's programs find our libraries, without a mount over a file that a package has: package
 * managers link, rename and replace their files, and cannot do that with a mount.
 *
 * The libraries are mounted in a folder of their own, OCI_LIB. The image's loader is told to look there first: glibc's
 * by /etc/ld.so.cache (cache.c), musl's by /etc/ld-musl-ARCH.path. Package managers run ldconfig, which makes the cache
 * anew and renames it into place: so the cache is no mount but a file of the container's own, and a line in
 * /etc/ld.so.conf.d has ldconfig list our folder first again. Where the folder is not mounted (an image made of the
 * container, docker commit; a start without the hook) the loader skips what is not there, and looks into the folders
 * that it has built in. When the container has stopped the file is put back (deliver_undo()).
 *
 * The hook writes to the container's own file system only. Where /etc is a volume, or the host's, or read-only, the
 * hook mounts its text over the file, if the file is there.
 *
 * Everything in the image is hostile (rootfs.c). A new file is made beside the old one, by its folder's descriptor,
 * and renamed: nothing of the image is followed or written over.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define CONF_DIR     "etc/ld.so.conf.d"
#define CONF	     "00-freeflow.conf" /* ldconfig reads them by name */
#define CONF_TEXT    OCI_LIB "\n"
#define CACHE	     "etc/ld.so.cache"
#define TEMP	     ".freeflow.new"
#define TEMP_ON_HOST "/run/freeflow-loader.XXXXXX"
#define PATHS_MAX    65536

static const char built_in[] =
	"/lib:/usr/local/lib:/usr/lib"; /* where musl's loader looks without a file */
static const char *const names[NUM_NAMES] = { "libibverbs.so.1", "librdmacm.so.1", "libibverbs.so",
					      "librdmacm.so" };

/* A folder of the container's own, which is not the host's: O_PATH, or -EXDEV, other -errno. */
static int own_folder(int root, const char *path)
{
	int fd = rootfs_own_folder(root, path);
	struct stat own, host;

	if (fd >= 0 && !fstat(fd, &own) && !stat("/etc", &host) && own.st_dev == host.st_dev &&
	    own.st_ino == host.st_ino) {
		close(fd);
		fd = -EXDEV;
	}
	return fd;
}

/* ---- what is to be there ------------------------------------------------------------------------ */

/* The whole file, the caller's to free: how many bytes; -ENOENT: there is none; other -errno. */
static ssize_t read_whole(int root, const char *path, size_t max, char **text)
{
	ssize_t n;

	*text = malloc(max + 1);
	n = *text ? rootfs_read(root, path, *text, max + 1) : -ENOMEM;
	return n > (ssize_t)max ? -E2BIG : n;
}

static int new_cache(struct delivery *d, int root, const struct rootfs_kind *k, bool with)
{
	char *old;
	ssize_t n = read_whole(root, d->path, CACHE_MAX, &old);
	int err = n < 0 && n != -ENOENT ? (int)n : 0;

	if (!err)
		err = cache_edit(old, n > 0 ? (size_t)n : 0, OCI_LIB, with ? names : NULL,
				 k->cache_flags, &d->text, &d->len);
	free(old);
	return err;
}

/* musl's list of folders: ours, and those that are there or built in. */
static int new_paths(struct delivery *d, int root, bool with)
{
	static const char ours[] = OCI_LIB ":";
	const char *first = with ? ours : "", *rest;
	char *old;
	ssize_t n = read_whole(root, d->path, PATHS_MAX, &old);

	if (n >= 0 || n == -ENOENT) {
		old[n > 0 ? n : 0] = '\0';
		rest = n < 0 ? built_in : old;
		if (!strncmp(rest, ours, strlen(ours)))
			rest += strlen(ours);
		n = asprintf(&d->text, "%s%s", first, rest);
		d->len = n > 0 ? (size_t)n : 0;
		n = n < 0 ? -ENOMEM : 0;
	}
	free(old);
	return (int)n;
}

static int new_text(struct delivery *d, int root, const struct rootfs_kind *k, bool with)
{
	*d = (struct delivery){ .libs = -1, .file = -1, .glibc = !k->paths };
	if (d->glibc)
		snprintf(d->path, sizeof(d->path), CACHE);
	else
		snprintf(d->path, sizeof(d->path), "etc/%s", k->paths);
	return d->glibc ? new_cache(d, root, k, with) : new_paths(d, root, with);
}

/* May /etc be written to? 0; -EXDEV: it is another one's; -EROFS, other -errno. */
static int may_write(int root)
{
	int etc = own_folder(root, "etc"), err = 0;

	if (etc < 0)
		return etc == -ENOENT ? 0 : etc; /* it is made */
	if (faccessat(etc, ".", W_OK, 0))
		err = -errno;
	close(etc);
	return err;
}

int deliver_look(struct delivery *d, int root, const struct rootfs_kind *k, char why[WHY_SZ])
{
	int err = new_text(d, root, k, true), fd;

	if (err) {
		snprintf(why, WHY_SZ, "freeflow cannot serve this image: its /%s%s", d->path,
			 err == -EBADMSG ? " is none that glibc's loader reads" :
			 err == -EINVAL	 ? " is no regular file" :
			 err == -E2BIG	 ? " is too large" :
					   "");
		if (err != -EBADMSG && err != -EINVAL && err != -E2BIG)
			snprintf(why + strlen(why), WHY_SZ - strlen(why), ": %s", strerror(-err));
		return err;
	}
	d->over = may_write(root);
	fd = d->over ? rootfs_open(root, d->path, O_PATH) : -1;
	if (d->over && fd < 0) {
		snprintf(why, WHY_SZ,
			 "/etc of the container is a volume or read-only, and has no %s to mount "
			 "over: make it there",
			 d->path + strlen("etc/"));
		return fd;
	}
	if (fd >= 0)
		close(fd);
	return 0;
}

/* ---- putting it there --------------------------------------------------------------------------- */

/* A tree that is a file of the host's with that text. It has a name until it is mounted: the kernel wants that. */
static int file_tree(struct delivery *d)
{
	int fd, err = 0;

	strcpy(d->temp, TEMP_ON_HOST);
	fd = mkostemp(d->temp, O_CLOEXEC);
	if (fd < 0) {
		d->temp[0] = '\0';
		return -errno;
	}
	if (fchmod(fd, 0644))
		err = -errno;
	else if (write(fd, d->text, d->len) != (ssize_t)d->len)
		err = -EIO;
	close(fd);
	return err ? err : mount_take(AT_FDCWD, d->temp, true);
}

int deliver_take(struct delivery *d, const char *lib, char why[WHY_SZ])
{
	d->file = d->over ? file_tree(d) : -1;
	if (d->over && d->file < 0) {
		snprintf(why, WHY_SZ, TEMP_ON_HOST ": %s", strerror(-d->file));
		return d->file;
	}
	d->libs = mount_take(AT_FDCWD, lib, true);
	if (d->libs < 0)
		snprintf(why, WHY_SZ, "%.400s: %s", lib, strerror(-d->libs));
	return d->libs < 0 ? d->libs : 0;
}

static int make_like(int folder, const struct stat *st, const char *text, size_t len)
{
	int fd = openat(folder, TEMP, O_CREAT | O_EXCL | O_WRONLY | O_NOFOLLOW | O_CLOEXEC, 0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (fchown(fd, st->st_uid, st->st_gid) || fchmod(fd, st->st_mode & 0666))
		err = -errno;
	else if (write(fd, text, len) != (ssize_t)len)
		err = -ENOSPC;
	if (close(fd) && !err)
		err = -errno;
	return err;
}

/* That file of the folder is the text from now on, with the old one's owner and mode. */
static int replace(int folder, const char *name, const char *text, size_t len)
{
	struct stat st;
	int err;

	if (fstatat(folder, name, &st, AT_SYMLINK_NOFOLLOW) || !S_ISREG(st.st_mode)) {
		if (fstat(folder, &st))
			return -errno;
		st.st_mode = 0644;
	}
	unlinkat(folder, TEMP, 0); /* of a start that was interrupted */
	err = make_like(folder, &st, text, len);
	if (!err && renameat(folder, TEMP, folder, name))
		err = -errno;
	if (err && err != -EEXIST)
		unlinkat(folder, TEMP, 0);
	return err;
}

/* Where the folder has no such line, ldconfig drops what the cache has of us: no reason to refuse the container. */
static void put_conf(int root)
{
	int dir = own_folder(root, CONF_DIR);

	if (dir < 0)
		return;
	(void)replace(dir, CONF, CONF_TEXT, strlen(CONF_TEXT));
	close(dir);
}

static int put_file(struct delivery *d, int root)
{
	int at = d->over ? rootfs_open(root, d->path, O_PATH) : rootfs_folder(root, "etc"), err;

	if (at < 0)
		return at;
	if (d->over)
		err = mount_put(d->file, at);
	else
		err = replace(at, strrchr(d->path, '/') + 1, d->text, d->len);
	close(at);
	if (!err && !d->over && d->glibc)
		put_conf(root);
	return err;
}

int deliver_put(struct delivery *d, int root, char why[WHY_SZ])
{
	const char *where = OCI_LIB + 1;
	int to = rootfs_folder(root, where), err = to < 0 ? to : mount_put(d->libs, to);

	if (to >= 0)
		close(to);
	if (!err) {
		err = put_file(d, root);
		where = err == -EEXIST ? "etc/" TEMP : d->path; /* a folder is in its way */
	}
	if (err)
		snprintf(why, WHY_SZ, "/%s of the container: %s", where, mount_why(err));
	return err;
}

/* ---- taking it away ------------------------------------------------------------------------------ */

static void undo_conf(int root)
{
	char text[sizeof(CONF_TEXT)];
	int dir;

	if (rootfs_read(root, CONF_DIR "/" CONF, text, sizeof(text)) != sizeof(text) - 1 ||
	    memcmp(text, CONF_TEXT, sizeof(text) - 1))
		return;
	dir = own_folder(root, CONF_DIR);
	if (dir >= 0) {
		unlinkat(dir, CONF, 0);
		close(dir);
	}
}

/* A folder that we mounted on, if it is empty. */
static void undo_folder(int root, const char *parent, const char *name)
{
	int dir = own_folder(root, parent);

	if (dir >= 0) {
		unlinkat(dir, name, AT_REMOVEDIR);
		close(dir);
	}
}

void deliver_undo(int root, const struct rootfs_kind *k)
{
	int etc = own_folder(root, "etc");
	struct delivery d;
	const char *name;

	if (etc >= 0 && !new_text(&d, root, k, false)) {
		name = strrchr(d.path, '/') + 1;
		if (!d.len ||
		    (!d.glibc && d.len == strlen(built_in) && !memcmp(d.text, built_in, d.len)))
			unlinkat(etc, name, 0);
		else
			(void)replace(etc, name, d.text, d.len);
		free(d.text);
	}
	if (etc >= 0)
		close(etc);
	undo_conf(root);
	undo_folder(root, "usr/lib", "freeflow");
	undo_folder(root, "run", "freeflow");
}

void deliver_free(struct delivery *d)
{
	if (*d->temp)
		unlink(d->temp);
	free(d->text);
	if (d->libs >= 0)
		close(d->libs);
	if (d->file >= 0)
		close(d->file);
}
