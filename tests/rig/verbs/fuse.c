/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* fuse.c - see fuse.h. The kernel's protocol (linux/fuse.h) as it is; the server is a process of its own. */
#include "tests/rig/verbs/fuse.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fuse.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#define FILE_NODE  2u
#define EMPTY_NODE 3u /* a file as those of procfs are */
#define FILE_SIZE  (1u << 20)

static void reply(int dev, uint64_t unique, int err, const void *body, size_t len)
{
	struct fuse_out_header h = { (uint32_t)(sizeof(h) + (err ? 0 : len)), -err, unique };
	struct iovec iov[2] = { { &h, sizeof(h) }, { (void *)body, len } };

	(void)!writev(dev, iov, err ? 1 : 2);
}

static struct fuse_attr attr_of(uint64_t node)
{
	return (struct fuse_attr){
		.ino = node,
		.size = node == FILE_NODE ? FILE_SIZE : 0,
		.mode = node != FUSE_ROOT_ID ? S_IFREG | 0666 : S_IFDIR | 0755,
		.nlink = 1,
		.blksize = 4096,
	};
}

static void serve(int dev, const struct fuse_in_header *h, const char *name)
{
	struct fuse_init_out init = { .major = FUSE_KERNEL_VERSION,
				      .minor = FUSE_KERNEL_MINOR_VERSION,
				      .max_write = 4096 };
	struct fuse_attr_out attr = { .attr = attr_of(h->nodeid) };
	uint64_t node = strcmp(name, "file") ? EMPTY_NODE : FILE_NODE; /* FUSE_LOOKUP */
	struct fuse_entry_out entry = { .nodeid = node, .attr = attr_of(node) };
	struct fuse_open_out opened = { .open_flags = FOPEN_KEEP_CACHE };

	if (h->opcode == FUSE_INIT) {
		reply(dev, h->unique, 0, &init, sizeof(init));
		return;
	}
	if (!h->pid) /* of nobody here */
		return;
	switch (h->opcode) {
	case FUSE_GETATTR:
		reply(dev, h->unique, 0, &attr, sizeof(attr));
		break;
	case FUSE_LOOKUP:
		reply(dev, h->unique, 0, &entry, sizeof(entry));
		break;
	case FUSE_OPEN:
		reply(dev, h->unique, 0, &opened, sizeof(opened));
		break;
	case FUSE_FLUSH:
		reply(dev, h->unique, 0, NULL, 0);
		break;
	case FUSE_FORGET:
	case FUSE_BATCH_FORGET:
	case FUSE_RELEASE:
		break;
	default:
		reply(dev, h->unique, ENOSYS, NULL, 0);
		break;
	}
}

static void server(int dev)
{
	static union {
		struct fuse_in_header h;
		char bytes[FUSE_MIN_READ_BUFFER + 4096];
	} in; /* a name at its end has its 0 */

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;) {
		ssize_t n = read(dev, &in, sizeof(in));

		if (n < 0 && errno != EINTR && errno != ENOENT && errno != EAGAIN)
			_exit(0);
		if (n >= (ssize_t)sizeof(in.h))
			serve(dev, &in.h, in.bytes + sizeof(in.h));
	}
}

/* A container's /dev may lack it. */
static int device_open(void)
{
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	if (fd >= 0 || mknod("/dev/freeflow-fuse", S_IFCHR | 0600, makedev(10, 229)))
		return fd;
	fd = open("/dev/freeflow-fuse", O_RDWR | O_CLOEXEC);
	unlink("/dev/freeflow-fuse");
	return fd;
}

bool fuse_start(struct fuse *f)
{
	char options[96];
	int dev = device_open();

	if (dev < 0)
		return false;
	strcpy(f->parent, "/tmp/fuse.XXXXXX");
	snprintf(options, sizeof(options), "fd=%d,rootmode=40000,user_id=0,group_id=0,allow_other",
		 dev);
	if (!mkdtemp(f->parent))
		goto err_close;
	snprintf(f->dir, sizeof(f->dir), "%s/%d", f->parent, (int)getpid());
	if (mkdir(f->dir, 0755))
		goto err_parent;
	if (mount("fuse", f->dir, "fuse", MS_NOSUID | MS_NODEV, options))
		goto err_dir;
	f->server = fork();
	if (!f->server)
		server(dev);
	close(dev);
	if (f->server > 0)
		return true;
	umount2(f->dir, MNT_DETACH);
	rmdir(f->dir);
	rmdir(f->parent);
	return false;

err_dir:
	rmdir(f->dir);
err_parent:
	rmdir(f->parent);
err_close:
	close(dev);
	return false;
}

int fuse_file(const struct fuse *f, const char *name, int mode)
{
	char path[64];

	snprintf(path, sizeof(path), "%s/%s", f->dir, name);
	return open(path, mode | O_CLOEXEC);
}

void fuse_end(struct fuse *f)
{
	kill(f->server, SIGKILL);
	waitpid(f->server, NULL, 0);
	umount2(f->dir, MNT_DETACH);
	rmdir(f->dir);
	rmdir(f->parent);
}
