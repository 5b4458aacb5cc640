/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/deliver.c ffr/oci/cache.c ffr/oci/rootfs.c ffr/oci/mount.c */
/*
 * test_deliver.c - what a container's loader is told, and that the container's own files are the only ones written: over
 * files of other owners, links, folders, FIFOs, a /etc that is a volume; and all of it back again.
 */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

#define CONF	  "etc/ld.so.conf.d/00-freeflow.conf"
#define CACHE	  "etc/ld.so.cache"
#define MUSL_PATH "etc/ld-musl-x86_64.path"
#define OURS	  OCI_LIB "/libibverbs.so.1"

static const struct rootfs_kind musl = { .name = "x86_64-musl", .paths = "ld-musl-x86_64.path" };
static char dir[64], text[1 << 16];
static char *why; /* WHY_SZ bytes, which a child shares */
static int root = -1;

static const char *in(const char *path)
{
	static char whole[256];

	snprintf(whole, sizeof(whole), "%s/%s", dir, path);
	return whole;
}

static int setup(void **state)
{
	(void)state;
	strcpy(dir, "/tmp/test_deliver.XXXXXX");
	if (!mkdtemp(dir) || mkdir(in("etc"), 0755))
		return -1;
	root = open(dir, O_PATH | O_DIRECTORY);
	return root < 0 ? -1 : 0;
}

static int teardown(void **state)
{
	char cmd[128];

	(void)state;
	close(root);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd);
}

static void make(const char *path, const char *what, size_t len)
{
	int fd = open(in(path), O_WRONLY | O_CREAT | O_TRUNC, 0644);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, what, len), len);
	close(fd);
}

/* What is in it, in `text`; how many bytes. */
static size_t content(const char *path)
{
	int fd = open(in(path), O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	assert_true(n >= 0);
	close(fd);
	text[n] = '\0';
	return (size_t)n;
}

static bool is_there(const char *path)
{
	struct stat st;

	return !lstat(in(path), &st);
}

static bool cache_has_ours(void)
{
	size_t n = content(CACHE);

	return memmem(text, n, OURS, sizeof(OURS));
}

/*
 * All of it but the look on the host: what is mounted is an empty folder and a file of the test's own. In a mount
 * namespace, which a child leaves behind.
 */
static int deliver(const struct rootfs_kind *k, const char *volume)
{
	char lib[] = "/tmp/test_deliver_lib.XXXXXX";
	pid_t child = fork();
	struct delivery d;
	int status, err, inside;

	if (!child) {
		if (unshare(CLONE_NEWNS) || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
		    !mkdtemp(lib))
			_exit(99);
		if (volume && mount(volume, in("etc"), NULL, MS_BIND, NULL))
			_exit(99);
		inside = open(dir, O_PATH | O_DIRECTORY);
		err = -deliver_look(&d, inside, k, why);
		d.libs = err ? -1 : mount_take(AT_FDCWD, lib, true);
		d.file = err || !d.over ? -1 : mount_take(AT_FDCWD, "/dev/null", true);
		if (!err)
			err = -deliver_put(&d, inside, why);
		deliver_free(&d);
		rmdir(lib);
		_exit(err);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == 99)
		skip(); /* not root */
	return -WEXITSTATUS(status);
}

static void glibc(void **state)
{
	struct stat st;

	(void)state;
	mkdir(in("etc/ld.so.conf.d"), 0755);
	assert_int_equal(deliver(rootfs_own, NULL), 0);
	assert_true(cache_has_ours());
	content(CONF);
	assert_string_equal(text, OCI_LIB "\n");
	/* a second start, of a file of somebody else's: its owner and mode stay */
	if (chown(in(CACHE), 1234, 4321) || chmod(in(CACHE), 04640))
		skip();
	assert_int_equal(deliver(rootfs_own, NULL), 0);
	assert_int_equal(stat(in(CACHE), &st), 0);
	assert_int_equal(st.st_uid, 1234);
	assert_int_equal(st.st_gid, 4321);
	assert_int_equal(st.st_mode & 07777, 0640);
	assert_true(cache_has_ours());
	/* and back: there was none */
	deliver_undo(root, rootfs_own);
	assert_false(is_there(CACHE));
	assert_false(is_there(CONF));
	assert_true(is_there("etc/ld.so.conf.d"));
	assert_false(is_there("usr/lib/freeflow"));
}

/* A line in ld.so.conf.d that somebody changed is his. */
static void changed(void **state)
{
	(void)state;
	mkdir(in("etc/ld.so.conf.d"), 0755);
	assert_int_equal(deliver(rootfs_own, NULL), 0);
	make(CONF, OCI_LIB "\n/opt\n", sizeof(OCI_LIB "\n/opt\n") - 1);
	make("usr/lib/freeflow/own", "x", 1);
	deliver_undo(root, rootfs_own);
	assert_true(is_there(CONF));
	assert_true(is_there("usr/lib/freeflow/own"));
}

static void musl_paths(void **state)
{
	(void)state;
	assert_int_equal(deliver(&musl, NULL), 0);
	content(MUSL_PATH);
	assert_string_equal(text, OCI_LIB ":/lib:/usr/local/lib:/usr/lib");
	assert_int_equal(deliver(&musl, NULL), 0);
	content(MUSL_PATH);
	assert_string_equal(text, OCI_LIB ":/lib:/usr/local/lib:/usr/lib");
	deliver_undo(root, &musl);
	assert_false(is_there(MUSL_PATH));
	/* the image's own list stays behind ours */
	make(MUSL_PATH, "/opt/lib\n/lib\n", 14);
	assert_int_equal(deliver(&musl, NULL), 0);
	content(MUSL_PATH);
	assert_string_equal(text, OCI_LIB ":/opt/lib\n/lib\n");
	deliver_undo(root, &musl);
	content(MUSL_PATH);
	assert_string_equal(text, "/opt/lib\n/lib\n");
	/* one that is empty says that there are no folders */
	make(MUSL_PATH, "", 0);
	assert_int_equal(deliver(&musl, NULL), 0);
	content(MUSL_PATH);
	assert_string_equal(text, OCI_LIB ":");
}

/* What is no cache is refused, and reading it neither waits nor ends late. */
static void refused(void **state)
{
	struct delivery d;

	(void)state;
	make(CACHE, "no cache", 8);
	assert_int_equal(deliver_look(&d, root, rootfs_own, why), -EBADMSG);
	assert_non_null(strstr(why, "/etc/ld.so.cache is none"));
	assert_int_equal(truncate(in(CACHE), (off_t)1 << 40), 0);
	assert_int_equal(deliver_look(&d, root, rootfs_own, why), -E2BIG);
	unlink(in(CACHE));
	assert_int_equal(mkfifo(in(CACHE), 0644), 0);
	assert_int_equal(deliver_look(&d, root, rootfs_own, why), -EINVAL);
	deliver_undo(root, rootfs_own);
	assert_true(is_there(CACHE));
	unlink(in(CACHE));
	assert_int_equal(mkdir(in(CACHE), 0755), 0);
	assert_int_equal(deliver_look(&d, root, rootfs_own, why), -EINVAL);
	rmdir(in(CACHE));
	/* a folder where the new file is to be made */
	assert_int_equal(mkdir(in("etc/.freeflow.new"), 0755), 0);
	assert_int_equal(deliver(rootfs_own, NULL), -EEXIST);
}

/* Links are replaced, not followed; those to folders lead to the image's own. */
static void links(void **state)
{
	char victim[] = "/tmp/test_deliver_victim.XXXXXX", other[64];
	int fd = mkstemp(victim);
	struct stat st;

	(void)state;
	assert_int_equal(write(fd, "untouched", 9), 9);
	close(fd);
	assert_int_equal(symlink(victim, in(CACHE)), 0);
	assert_int_equal(symlink(victim, in("etc/.freeflow.new")), 0);
	snprintf(other, sizeof(other), "%s", "/tmp");
	assert_int_equal(symlink(other, in("etc/ld.so.conf.d")), 0);
	assert_int_equal(deliver(rootfs_own, NULL), 0);
	assert_int_equal(lstat(in(CACHE), &st), 0);
	assert_true(S_ISREG(st.st_mode));
	assert_true(cache_has_ours());
	assert_false(is_there("etc/.freeflow.new"));
	assert_int_equal(access("/tmp/00-freeflow.conf", F_OK), -1);
	assert_int_equal(stat(victim, &st), 0);
	assert_int_equal(st.st_size, 9);
	unlink(victim);
}

/* What an image may have at a place of ours. `victim` is a folder of the host's. False: this file system has no such. */
static bool put_there(unsigned what, const char *place, const char *victim)
{
	const char *at = in(place);
	struct stat st;
	char path[128];
	int fd;

	switch (what) {
	case 0: /* 0 bytes */
		close(open(at, O_WRONLY | O_CREAT, 0000));
		break;
	case 1:
		fd = open(at, O_WRONLY | O_CREAT, 0644);
		assert_int_equal(ftruncate(fd, (off_t)1 << 40), 0);
		close(fd);
		break;
	case 2: /* a folder with something in it */
		snprintf(path, sizeof(path), "%s/x", place);
		mkdir(at, 0755);
		make(path, "x", 1);
		break;
	case 3:
		(void)!mkfifo(at, 0666);
		break;
	case 4: /* /dev/zero, which has no end */
		(void)!mknod(at, S_IFCHR | 0666, makedev(1, 5));
		break;
	case 5:
		(void)!mknod(at, S_IFSOCK | 0666, 0);
		break;
	case 6:
		(void)!symlink("/nowhere", at);
		break;
	case 7:
		(void)!symlink(victim, at);
		break;
	case 8:
		(void)!symlink("../../../../../../..", at);
		break;
	case 9: /* to itself */
		(void)!symlink(strrchr(place, '/') ? strrchr(place, '/') + 1 : place, at);
		break;
	case 10:
		(void)!symlink("/proc/self/root/etc", at);
		break;
	case 11: /* to a folder in the image that has files of its own */
		(void)!symlink("/opt", at);
		break;
	case 12: /* to a file in there */
		(void)!symlink("/opt/x", at);
		break;
	default:
		return false;
	}
	return !lstat(in(place), &st);
}

/*
 * Whatever an image has at a place of ours: it is served or refused with a reason, and soon. Nothing outside of it, and no
 * file that a link leads to, is changed.
 */
static void whatever_is_there(void **state)
{
	static const char *const places[] = {
		"etc", CACHE,	  "etc/ld.so.conf.d", CONF, "etc/.freeflow.new",
		"usr", "usr/lib", OCI_LIB + 1,
	};
	char victim[] = "/tmp/test_deliver_victim.XXXXXX", cmd[300], own[128];
	struct stat st;

	assert_non_null(mkdtemp(victim));
	for (size_t p = 0; p < sizeof(places) / sizeof(places[0]); p++)
		for (unsigned what = 0;; what++) {
			int err;

			teardown(state);
			assert_int_equal(setup(state), 0);
			snprintf(cmd, sizeof(cmd), "mkdir -p %s", in(places[p]));
			assert_int_equal(system(cmd), 0);
			assert_int_equal(rmdir(in(places[p])), 0);
			mkdir(in("opt"), 0755);
			make("opt/x", "x", 1);
			if (!put_there(what, places[p], victim))
				break;
			alarm(20);
			why[0] = '\0';
			err = deliver(rootfs_own, NULL);
			deliver_undo(root, rootfs_own);
			alarm(0);
			if (err)
				printf("   %s, %u: %s\n", places[p], what, why);
			assert_int_equal(!err, !*why);
			assert_int_equal(rmdir(victim), 0); /* nothing is in it */
			assert_int_equal(mkdir(victim, 0700), 0);
			assert_int_equal(content("opt/x"), 1);
			assert_int_equal(stat(in("opt"), &st), 0);
			snprintf(own, sizeof(own), "%s/../nowhere", dir);
			assert_int_equal(stat(own, &st), -1);
			if (what ==
			    6) /* a link to nowhere does not make the place that it leads to */
				assert_false(is_there("nowhere"));
		}
	rmdir(victim);
}

/* A volume, or the host's own folder: not written to, but mounted over where there is something to mount over. */
static void volume(void **state)
{
	char other[] = "/tmp/test_deliver_volume.XXXXXX", cmd[128], path[128];
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(other));
	assert_int_equal(deliver(rootfs_own, other), -ENOENT);
	snprintf(path, sizeof(path), "%s/ld.so.cache", other);
	assert_int_equal(stat(path, &st), -1);
	close(open(path, O_CREAT | O_WRONLY, 0644));
	assert_int_equal(deliver(rootfs_own, other), 0);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_size, 0);
	snprintf(path, sizeof(path), "%s/ld.so.conf.d", other);
	assert_int_equal(stat(path, &st), -1);
	snprintf(cmd, sizeof(cmd), "rm -r %s", other);
	assert_int_equal(system(cmd), 0);
}

#define T(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	why = mmap(NULL, WHY_SZ, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	return UNIT_RUN(T(glibc), T(changed), T(musl_paths), T(refused), T(links),
			T(whatever_is_there), T(volume));
}
