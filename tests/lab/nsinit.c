/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * nsinit.c - `nsinit NAME DIR SOCKETS LIB`: process 1 of a container of the lab's netns engine. Single thread.
 *
 * netns.sh starts it in fresh mount, PID, IPC, UTS and network namespaces; every mount made here is private and
 * goes with the namespace. DIR/hosts becomes /etc/hosts, and SOCKETS appears as /run/freeflow. Programs find the
 * libraries in LIB by /etc/ld.so.preload, and by /etc/ld.so.cache where they load them by name later. DIR/pid, its
 * number outside, is there when all is done. A program and not a script, because forty commands took half a second of
 * CPU time.
 */
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define PATH_SIZE 4096
#define LIB_HERE  "/run/freeflow-lib"
#define FILE_SIZE 65536 /* a container's hosts: 250 lines */

static char private[PATH_SIZE]; /* a file system of this container's own */

__attribute__((noreturn)) static void die(const char *what)
{
	fprintf(stderr, "nsinit: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* One of a few, which later calls overwrite. */
__attribute__((format(printf, 1, 2))) static const char *path(const char *format, ...)
{
	static char room[4][PATH_SIZE];
	static unsigned n;
	char *p = room[n++ % 4];
	va_list ap;

	va_start(ap, format);
	if (vsnprintf(p, PATH_SIZE, format, ap) >= PATH_SIZE) {
		errno = ENAMETOOLONG;
		die(format);
	}
	va_end(ap);
	return p;
}

static void folder(const char *name)
{
	if (mkdir(name, 0755) && errno != EEXIST)
		die(name);
}

static void empty_file(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);

	if (fd < 0)
		die(name);
	close(fd);
}

static void bind_mount(const char *from, const char *to, unsigned long flags)
{
	if (mount(from, to, NULL, MS_BIND | (flags & MS_REC), NULL))
		die(to);
	if (flags & MS_RDONLY && mount(NULL, to, NULL, MS_REMOUNT | MS_BIND | MS_RDONLY, NULL))
		die(to);
}

static void fresh(const char *type, const char *to, const char *options)
{
	if (mount(type, to, type, 0, options))
		die(to);
}

static size_t read_file(const char *name, char buf[FILE_SIZE])
{
	int fd = open(name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, FILE_SIZE - 1);

	if (n < 0)
		die(name);
	close(fd);
	buf[n] = 0;
	return (size_t)n;
}

static void write_file(const char *name, const char *text, size_t len)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);

	if (fd < 0 || write(fd, text, len) != (ssize_t)len || close(fd))
		die(name);
}

/* The machine's /etc under a private layer; a copy where the kernel has no overlay. */
static void make_etc(const char *hosts)
{
	static char text[FILE_SIZE];
	const char *upper = path("%s/etc", private), *work = path("%s/work", private);

	folder(upper);
	folder(work);
	if (mount("overlay", "/etc", "overlay", 0,
		  path("lowerdir=/etc,upperdir=%s,workdir=%s", upper, work))) {
		if (system(path("cp -a /etc/. '%s/'", upper)))
			die("a copy of /etc");
		bind_mount(upper, "/etc", 0);
	}
	write_file("/etc/hosts", text, read_file(hosts, text));
}

/*
 * A /dev as Docker makes it, with what a freeflow container has there (ffctl container add --docker) and the
 * kernel's devices that programs use to test memory of other kinds, where there are any.
 */
static void make_dev(void)
{
	static const char *const devices[] = { "null",	  "zero", "full",    "random",
					       "urandom", "tty",  "udmabuf", "userfaultfd" };
	static const char *const streams[] = { "stdin", "stdout", "stderr" };
	const char *f;

	folder(path("%s/dev", private));
	folder(path("%s/dev/pts", private));
	folder(path("%s/dev/shm", private));
	folder(path("%s/dev/infiniband", private));
	for (size_t i = 0; i < sizeof(devices) / sizeof(devices[0]); i++) {
		if (access(path("/dev/%s", devices[i]), F_OK))
			continue;
		f = path("%s/dev/%s", private, devices[i]);
		empty_file(f);
		bind_mount(path("/dev/%s", devices[i]), f, 0);
	}
	f = path("%s/dev/infiniband/uverbs_ff0", private);
	empty_file(f);
	bind_mount("/dev/null", f, 0);
	bind_mount("/dev/pts", path("%s/dev/pts", private), MS_REC);
	fresh("tmpfs", path("%s/dev/shm", private), "mode=1777");
	if (symlink("pts/ptmx", path("%s/dev/ptmx", private)) ||
	    symlink("/proc/self/fd", path("%s/dev/fd", private)))
		die("links in /dev");
	for (int i = 0; i < 3; i++)
		if (symlink(path("/proc/self/fd/%d", i), path("%s/dev/%s", private, streams[i])))
			die(streams[i]);
	bind_mount(path("%s/dev", private), "/dev", MS_REC);
}

/*
 * The device's files, where a machine with a NIC has its own. An overlay makes the place where /sys has none,
 * so that programs here look at them; a kernel without it leaves them in /run/freeflow/sys.
 */
static void make_sys(void)
{
	const char *class = path("%s/class", private);

	if (access("/sys/class/infiniband", F_OK)) {
		folder(class);
		folder(path("%s/infiniband", class));
		folder(path("%s/infiniband_verbs", class));
		(void)mount("overlay", "/sys/class", "overlay", 0,
			    path("lowerdir=%s:/sys/class", class));
	}
	if (!access("/sys/class/infiniband", F_OK))
		bind_mount(path("%s/run/freeflow/sys/class/infiniband", private),
			   "/sys/class/infiniband", MS_RDONLY);
	if (!access("/sys/class/infiniband_verbs", F_OK))
		bind_mount(path("%s/run/freeflow/sys/class/infiniband_verbs", private),
			   "/sys/class/infiniband_verbs", MS_RDONLY);
}

/* Where the libraries are in here; the build's list says where they are in a Docker container. */
static void preload(const char *lib)
{
	static const char there[] = OCI_LIB "/", here[] = LIB_HERE "/";
	static char list[FILE_SIZE];

	static_assert(sizeof(there) == sizeof(here), "replaced in place");
	size_t len = read_file(path("%s/preload", lib), list);

	for (char *p = list; (p = strstr(p, there)); p += sizeof(here) - 1)
		memcpy(p, here, sizeof(here) - 1);
	write_file("/etc/ld.so.preload", list, len);
}

/* A program that loads "libibverbs.so" itself, as NCCL does, gets the package's if only the preload list names ours. */
static void cache(void)
{
	static const char *const names[NUM_NAMES] = { "libibverbs.so.1", "librdmacm.so.1",
						      "libibverbs.so", "librdmacm.so" };
	static char old[CACHE_MAX];
	int fd = open("/etc/ld.so.cache", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, old, sizeof(old));
	size_t len;
	char *new;

	if (n < 0)
		die("/etc/ld.so.cache");
	close(fd);
	errno = -cache_edit(old, (size_t)n, LIB_HERE, names, rootfs_own->cache_flags, &new, &len);
	if (errno)
		die("an edited /etc/ld.so.cache");
	write_file("/etc/ld.so.cache", new, len);
	free(new);
}

int main(int argc, char **argv)
{
	char outside[32];
	const char *dir, *sockets, *lib, *f;
	ssize_t n;

	if (argc != 5) {
		fprintf(stderr, "usage: nsinit NAME DIR SOCKETS LIB\n");
		return 2;
	}
	dir = argv[2];
	sockets = argv[3];
	lib = argv[4];
	/* /proc is still the machine's */
	n = readlink("/proc/self", outside, sizeof(outside) - 2);
	if (n < 0)
		die("/proc/self");
	outside[n] = '\n';
	if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    sethostname(argv[1], strlen(argv[1])))
		die("namespaces of its own");
	fresh("proc", "/proc", NULL);

	snprintf(private, sizeof(private), "%s", path("%s/private", dir));
	folder(private);
	fresh("tmpfs", private, "mode=755");
	folder(path("%s/run", private));
	f = path("%s/run/freeflow", private);
	folder(f);
	bind_mount(sockets, f, MS_RDONLY);
	f = path("%s" LIB_HERE, private);
	folder(f);
	bind_mount(lib, f, MS_RDONLY);
	make_etc(path("%s/hosts", dir));
	make_dev();
	bind_mount(path("%s/run", private), "/run", MS_REC);
	make_sys();
	preload(lib);
	cache();
	f = path("%s/pid.new", dir);
	write_file(f, outside, (size_t)n + 1);
	if (rename(f, path("%s/pid", dir)))
		die("pid");

	signal(SIGCHLD, SIG_IGN); /* whatever is orphaned in here leaves no zombie */
	for (;;)
		pause();
}
