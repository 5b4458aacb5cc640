/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * oci.h - internals of one program with three uses: ff-hook, which an OCI runtime (runc, crun) runs as a container
 * starts and when it has stopped; freeflow-runc, which stands in front of a runtime; and the daemon `ff-hook follow`.
 *
 *	state.c		what the runtime says of the container
 *	docker.c	what Docker knows beside that
 *	rootfs.c	what is in the image
 *	deliver.c	how the container's programs find our libraries; cache.c: the loader's cache
 *	mount.c		what is mounted in the container
 *	ask.c		requests to the router
 *	wrap.c		the runtime's configuration (freeflow-runc)
 *	addr.c		the container's addresses; follow.c: the daemon that follows them
 *	note.c		what is kept while the container runs
 *
 * The program runs as root, on the host, for some milliseconds; the daemon runs all the time. Everything in the image
 * is hostile: paths are resolved in the image's root (openat2), no program of the image is run, and only a bounded part
 * of its files is read.
 *
 * The room ffr/oci/ is this program. It may use lib/ and ffo's texts of limits, and speaks with the router only by the
 * router's socket.
 */
#ifndef FFR_OCI_OCI_H
#define FFR_OCI_OCI_H

#include <jansson.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "ffo/base/proto.h"

#define OCI_ID_MAX 128
#define WHY_SZ	   512
#define OCI_PREFIX "freeflow.io/" /* of annotations and labels of ours */

/* ---- state.c: what the runtime says ---- */

struct oci_state {
	char id[OCI_ID_MAX];
	pid_t pid;	     /* 0: the container has ended */
	char *bundle;	     /* absolute path */
	json_t *annotations; /* an object */
	/* From the bundle's config.json, which is gone when the container has ended. */
	char *rootfs;	/* absolute path; NULL: gone */
	char *hostname; /* "": gone, or none */
	bool net_admin; /* programs of the container may set addresses in its network */
};

/* Read a container's state from fd, and the bundle's config.json if the container runs. 0, or -errno with why. */
int oci_state_read(int fd, struct oci_state *s, char why[WHY_SZ]);
void oci_state_free(struct oci_state *s);
/* Read fd to its end as JSON. NULL: the text is longer than `max` bytes, or no JSON. */
json_t *oci_read_json(int fd, size_t max);

struct oci_options {
	const char *name;   /* NULL: the name of the annotation, or else the host name */
	const char *tenant; /* NULL: default */
	bool annotations;   /* the container's annotations count */
	bool kubernetes;    /* the container is a pod's: the kubelet says its name and tenant */
	bool pool;	    /* the orchestrator chooses addresses, not the engine */
	const char *admin;  /* the router's socket */
	const char *run;    /* the router's runtime_dir, which has the containers' folders */
	const char *lib;    /* the folder of our libraries */
};

/*
 * The request to the router that adds this container: name, and from labels and annotations tenant, addresses, mode and
 * limits. *pool: the orchestrator is to choose the addresses ("ip" is "pool").
 */
json_t *oci_request(const struct oci_state *s, const struct oci_options *o, bool *pool,
		    char why[WHY_SZ]);

/* ---- docker.c ---- */

/*
 * Returns an object with the labels and annotations freeflow.io/... of the docker run that made the container. The
 * object is empty for other engines. Returns NULL, with why, if they cannot be told from the image's, or if Docker's
 * record of the container is not found. `bundle` is absolute.
 */
json_t *docker_words(const char *bundle, const char *rootfs, const char *id, char why[WHY_SZ]);

/* ---- rootfs.c: what is in the image ---- */

/* A path in the image's root, links followed in there: a descriptor (O_PATH as well) or -errno. */
int rootfs_open(int root, const char *path, int flags);
/* A folder that is reached over no mount: of the container's own file system. O_PATH, or -errno (-EXDEV). */
int rootfs_own_folder(int root, const char *path);
/* A folder and those above it, made where they are not. O_PATH, or -errno. */
int rootfs_folder(int root, const char *path);
/* A file to mount over, made where there is none; refuses what is no regular file. O_PATH, or -errno. */
int rootfs_file(int root, const char *folder, const char *name);
/* The first bytes of a regular file: how many, at most `size`; -EINVAL: it is none; other -errno. */
ssize_t rootfs_read(int root, const char *path, void *buf, size_t size);
/* What an image's programs are: a machine and a C library. */
struct rootfs_kind {
	const char *name;   /* the name of the kind's folder among our libraries, and in messages */
	const char *libc;   /* the name of the C library, in messages */
	const char *loader; /* the path of the programs' loader */
	unsigned machine;   /* as in ELF */
	int cache_flags;    /* glibc: flags of the kind's libraries in ld.so.cache */
	const char *paths;  /* musl: the file in /etc that says where the loader looks */
};
extern const struct rootfs_kind *const rootfs_own; /* the hook's own machine, with glibc */
/* A bit for each kind that the folder `lib` has libraries for; the host's own kind always is among them. */
unsigned rootfs_kinds_in(const char *lib);
/* The kind among `kinds` whose libraries the image's programs can load. NULL: none, with why. */
const struct rootfs_kind *rootfs_find_kind(int root, unsigned kinds, char why[WHY_SZ]);
/* Where our libraries for that kind are: the folder `lib` or one in it. */
void rootfs_our_folder(const struct rootfs_kind *k, const char *lib, char *path, size_t size);

/* ---- cache.c: /etc/ld.so.cache ---- */

#define NUM_NAMES 4	     /* names by which programs look for our libraries */
#define CACHE_MAX (4u << 20) /* bytes of a cache, at most */

/*
 * Edit the cache `old` (len 0: there is none): remove the libraries in `folder`; unless names is NULL, put the
 * NUM_NAMES libraries in `folder` before all others. 0, with a new cache that the caller frees (new_len 0: the cache is
 * empty);
 * -EBADMSG: `old` is no cache; -E2BIG; -ENOMEM.
 */
int cache_edit(const void *old, size_t len, const char *folder, const char *const *names, int flags,
	       char **new, size_t *new_len);

/* ---- deliver.c: how programs find our libraries ---- */

#define OCI_LIB "/usr/lib/freeflow" /* in the container */

struct delivery {
	bool glibc;
	char path[64]; /* the file that tells the loader, below the image's root */
	char *text;    /* the new text of that file */
	size_t len;
	bool over;	/* the file is mounted over, because it cannot be written */
	char temp[32];	/* on the host: the file that is mounted over it; "": none */
	int libs, file; /* mount trees of our libraries' folder, and of `temp`; -1: none */
};

/* In the container: plan what its loader is to be told. 0, or -errno with why. Call deliver_free() in both cases. */
int deliver_look(struct delivery *d, int root, const struct rootfs_kind *k, char why[WHY_SZ]);
/* On the host: take the mount trees; `lib` is our libraries' folder for the kind. */
int deliver_take(struct delivery *d, const char *lib, char why[WHY_SZ]);
/* In the container: write the files and make the mounts. */
int deliver_put(struct delivery *d, int root, char why[WHY_SZ]);
void deliver_free(struct delivery *d);
/* On the host, after the container has stopped: put its files back, as far as possible. */
void deliver_undo(int root, const struct rootfs_kind *k);

/* ---- mount.c ---- */

/* Open a folder below the folder `at`, over no link and no mount. O_PATH, or -errno. */
int mount_beneath(int at, const char *path);
/*
 * Opens BASE/containers/NAME, which must have the same owner as BASE/containers. `base` comes from root's
 * configuration; ffo_name_ok(name) is true. Returns an O_PATH descriptor, or -errno with why.
 */
int mount_folder(const char *base, const char *name, char why[WHY_SZ]);
/* Clone the mount tree at that path of the host ("": at the descriptor `at`). A descriptor, or -errno. */
int mount_take(int at, const char *path, bool read_only);
/* Enter the mount namespace of the container's first process. 0 or -errno. */
int mount_enter(pid_t pid);
int mount_return(int host); /* enter the mount namespace `host` again. 0, or -1 with errno */
/* Mount the tree at the descriptor `to`. 0 or -errno. */
int mount_put(int tree, int to);
/* A text for an error of mount_put() in the container. */
const char *mount_why(int err);

/* ---- class.c ---- */

#define NUM_CLASSES 2
extern const char *const oci_class[NUM_CLASSES];
/* Mount the trees in /sys/class of the container's root, if the container has a sysfs there. 0 or -errno. */
int class_put(int root, const int trees[NUM_CLASSES]);

/* ---- ask.c: the router ---- */

/* Ask the router. Returns the answer; NULL: why, and in *err the error that the answer names, or -errno. */
json_t *ask(const char *socket, json_t *request, int *err, char why[WHY_SZ]);

/* ---- addr.c: addresses in a container's network ---- */

#define ADDRS_SEEN                                                                                 \
	64 /* addresses that are looked at; the router is told the first FFO_ADDR_MAX of them */

struct addrs {
	unsigned num;
	struct in6_addr ip[FFO_ADDR_MAX]; /* IPv4 as ::ffff:a.b.c.d */
};

/* Two sockets in a network namespace, which stays while they are open. */
struct addrs_socks {
	int ear; /* the kernel tells when addresses change */
	int ask; /* for requests */
};

/* Open them in the network namespace of a process. 0; -EXDEV: that is this process's own; other -errno. */
int addrs_open(pid_t pid, struct addrs_socks *s);
void addrs_close(struct addrs_socks *s);
/*
 * May another container's process change the addresses of that process's network (CAP_NET_ADMIN)? True as well if that
 * cannot be found out, and for a moment while a runtime makes a container in that network.
 */
bool addrs_anyones(pid_t pid);
/* Read the addresses that others can reach: by interface, IPv4 before IPv6. 0 or -errno. */
int addrs_read(const struct addrs_socks *s, struct addrs *a);
/* Has an address changed since the last call? */
bool addrs_heard(const struct addrs_socks *s);
/* Put `found` in order: first the addresses that `now` has too, in the order of `now`, then the others. */
void addrs_order(const struct addrs *now, const struct addrs *found, struct addrs *next);
json_t *addrs_json(const struct addrs *a);
/* Did the orchestrator refuse an address, and not something else? */
bool addrs_refused(int err);
/*
 * Give the router's container these addresses, except for those that another container of its tenant has; `why` then
 * names these. If no address is left, the container keeps its addresses. 0 or -errno.
 */
int addrs_tell(const char *admin, const char *name, const struct addrs *found, char why[WHY_SZ]);

/* ---- note.c ---- */

#define NOTES "/run/freeflow-oci"

struct note {
	char name[FFO_NAME_MAX];
	char admin[PATH_MAX]; /* the router's socket */
	bool added; /* the hook has added the container: the router forgets it when it has stopped */
	bool follow; /* the engine chooses the container's addresses */
	pid_t pid;
	bool runs; /* note_read(): the process with this pid is still the container's */
};

/* When a process began, in the kernel's ticks; 0: there is no process of that number. */
json_int_t note_began(pid_t pid);
/* Write, read and remove the note of the container with the runtime's id `id`. 0 or -errno. */
int note_write(const char *id, const struct note *n);
int note_read(const char *id, struct note *n);
void note_remove(const char *id);
/* Makes `ff-hook follow`, which watches the notes' folder by inotify, look at the note again. */
void note_touch(const char *id);
/* Is the file of that name a note? Then `id` is the id of the note's container. */
bool note_id(const char *file, char id[OCI_ID_MAX]);

/* ---- ended.c ---- */

/*
 * Lock the notes. Any number of hooks may have the lock at once; `alone`: for a process that is no hook, only while no
 * hook has the lock. A descriptor that has the lock; -EWOULDBLOCK: a hook works; other -errno.
 */
int notes_lock(bool alone);
/* The router's container runs, or has ended, by that id. 0, or -errno with why. */
int tell_runs(const char *admin, const char *name, const char *id, bool runs, char why[WHY_SZ]);
void forget(const char *admin, const char *name);
/* Ends containers of that name whose processes are gone. Was one of them added by us? */
bool end_gone(const char *admin, const char *name);
/* Ends all of that router's whose processes are gone, and forgets those that we have added. False: some are left. */
bool end_all_gone(const char *admin);

/* ---- follow.c ---- */

/* ff-hook follow, for the router of that socket; returns after an error only: the exit status. */
int follow_main(const char *admin);

/* ---- wrap.c: freeflow-runc ---- */

/* Adds our hooks to a runtime's configuration. 0 or -errno. */
int wrap_config(json_t *config, const char *hook, const char *const *args);
int wrap_main(int argc, char **argv);

#endif
