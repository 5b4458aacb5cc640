/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * oci.h - inside ff-hook, the program that an OCI runtime (runc, crun) runs as a container starts and when it has
 * stopped, and freeflow-runc, the same program in front of a runtime: what the runtime says (state.c), what Docker
 * knows beside that (docker.c), what is in the image (rootfs.c), how its programs find our libraries (deliver.c, cache.c),
 * what is mounted there (mount.c), the router (ask.c), the runtime's
 * configuration (wrap.c), addresses (addr.c), what is kept while it runs (note.c). The same program again is a daemon that
 * follows addresses (follow.c).
 *
 * Root, on the host, for some milliseconds, but for that daemon. Everything in the image is hostile: paths are resolved in its root
 * (openat2), nothing of it is run, and of its files a bounded part is read.
 *
 * The room ffr/oci/ is that program. It may use lib/, and ffo's texts of limits, and speaks with the router by its
 * socket only.
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
	pid_t pid;	     /* 0: it has ended */
	char *bundle;	     /* absolute */
	json_t *annotations; /* an object */
	char *rootfs; /* absolute; of the bundle's config.json; NULL: it has ended, and that is gone */
	char *hostname; /* likewise; "" */
	bool net_admin; /* likewise: its programs may give themselves addresses */
};

/* Its state from a descriptor, and the bundle's config.json if the container runs. 0, or -errno with a line in why. */
int oci_state_read(int fd, struct oci_state *s, char why[WHY_SZ]);
void oci_state_free(struct oci_state *s);
/* All that is to be read, at most `max` bytes. NULL: more, or no JSON. */
json_t *oci_read_json(int fd, size_t max);

struct oci_options {
	const char *name;   /* NULL: the annotation's, or the host name */
	const char *tenant; /* NULL: default */
	bool annotations;   /* those of the container count */
	bool kubernetes;    /* a pod's: name and tenant are what the kubelet says */
	bool pool;	    /* addresses are the orchestrator's, not the engine's */
	const char *admin;  /* the router's socket */
	const char *run;    /* the router's runtime_dir, which has the containers' folders */
	const char *lib;    /* the folder of our libraries */
};

/*
 * The router's request that adds this container: name, and by its labels and annotations tenant, addresses, mode,
 * limits. *pool: its addresses are the orchestrator's ("ip" is "pool").
 */
json_t *oci_request(const struct oci_state *s, const struct oci_options *o, bool *pool,
		    char why[WHY_SZ]);

/* ---- docker.c ---- */

/*
 * Returns an object with the labels and annotations freeflow.io/... of the docker run that made the container. The
 * object is empty for other engines. Returns NULL, with why, if they cannot be told from the image's.
 */
json_t *docker_words(const char *rootfs, const char *id, char why[WHY_SZ]);

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
	const char *name;   /* of its folder among our libraries; messages */
	const char *libc;   /* likewise */
	const char *loader; /* of its programs */
	unsigned machine;   /* as in ELF */
	int cache_flags;    /* of its libraries in ld.so.cache, with glibc */
	const char *paths;  /* the file in /etc that says where its loader looks, with musl */
};
extern const struct rootfs_kind *const rootfs_own; /* the hook's own machine, with glibc */
/* A bit for each kind that the folder `lib` has libraries for; the host's own is one. */
unsigned rootfs_kinds_in(const char *lib);
/* The one of those kinds whose libraries its programs can load. NULL: none, with why. */
const struct rootfs_kind *rootfs_find_kind(int root, unsigned kinds, char why[WHY_SZ]);
/* Where our libraries for that kind are: the folder `lib` or one in it. */
void rootfs_our_folder(const struct rootfs_kind *k, const char *lib, char *path, size_t size);

/* ---- cache.c: /etc/ld.so.cache ---- */

#define NUM_NAMES 4	     /* by which programs look for our libraries */
#define CACHE_MAX (4u << 20) /* bytes */

/*
 * That cache (len 0: none) without the libraries in `folder`, and with NUM_NAMES of them before all others; names NULL:
 * without. 0 with a new one, the caller's to free, new_len 0: nothing is left in it; -EBADMSG: it is no cache; -E2BIG; -ENOMEM.
 */
int cache_edit(const void *old, size_t len, const char *folder, const char *const *names, int flags,
	       char **new, size_t *new_len);

/* ---- deliver.c: how programs find our libraries ---- */

#define OCI_LIB "/usr/lib/freeflow" /* in the container */

struct delivery {
	bool glibc;
	char path[64]; /* of the file that tells the loader, below the root */
	char *text;    /* what is to be in it */
	size_t len;
	bool over;	/* the file cannot be written, but mounted over */
	char temp[32];	/* on the host: the file that is mounted there; "" */
	int libs, file; /* trees: the folder of our libraries, that file; or -1 */
};

/* In the container: what its loader is to be told. 0 or -errno with why. deliver_free() frees it, also then. */
int deliver_look(struct delivery *d, int root, const struct rootfs_kind *k, char why[WHY_SZ]);
/* On the host: the trees, of our libraries' folder for that kind. */
int deliver_take(struct delivery *d, const char *lib, char why[WHY_SZ]);
/* In the container. */
int deliver_put(struct delivery *d, int root, char why[WHY_SZ]);
void deliver_free(struct delivery *d);
/* On the host, of a container that has stopped: its files are as they were, as far as that can be done. */
void deliver_undo(int root, const struct rootfs_kind *k);

/* ---- mount.c ---- */

/* A folder below another one's descriptor, over no link and no mount. O_PATH, or -errno. */
int mount_beneath(int at, const char *path);
/*
 * Opens BASE/containers/NAME, which must have the same owner as BASE/containers. `base` comes from root's
 * configuration; ffo_name_ok(name) is true. Returns an O_PATH descriptor, or -errno with why.
 */
int mount_folder(const char *base, const char *name, char why[WHY_SZ]);
/* The tree at that path of the host's, read-only or not; "": that of the descriptor `at`. A descriptor or -errno. */
int mount_take(int at, const char *path, bool read_only);
/* Into the mount namespace of the container's first process. 0 or -errno. */
int mount_enter(pid_t pid);
int mount_return(int host); /* back, to the host's; 0 or -1 with errno */
/* Mounts the tree there. 0 or -errno. */
int mount_put(int tree, int to);
/* Why that cannot be done at a place of the container's. */
const char *mount_why(int err);

/* ---- class.c ---- */

#define NUM_CLASSES 2
extern const char *const oci_class[NUM_CLASSES];
/* The trees into /sys/class of the container's root, if it has a sysfs there. 0 or -errno. */
int class_put(int root, const int trees[NUM_CLASSES]);

/* ---- ask.c: the router ---- */

/* The answer's object; NULL with why, and in *err the answer's error by its name's number, or -errno. */
json_t *ask(const char *socket, json_t *request, int *err, char why[WHY_SZ]);

/* ---- addr.c: addresses in a container's network ---- */

#define ADDRS_SEEN 64 /* looked at; the first FFO_ADDR_MAX of them are told */

struct addrs {
	unsigned num;
	struct in6_addr ip[FFO_ADDR_MAX]; /* IPv4 as ::ffff:a.b.c.d */
};

/* Of a network namespace, which is there for as long as they are. */
struct addrs_socks {
	int ear; /* the kernel tells when addresses change */
	int ask;
};

/* 0; -EXDEV: it has this process's network; other -errno. */
int addrs_open(pid_t pid, struct addrs_socks *s);
void addrs_close(struct addrs_socks *s);
/*
 * May another container's process change the addresses of that process's network (CAP_NET_ADMIN)? True as well if that
 * cannot be found out, and for a moment while a runtime makes a container in that network.
 */
bool addrs_anyones(pid_t pid);
/* Those that others can reach: by interface, IPv4 before IPv6. 0 or -errno. */
int addrs_read(const struct addrs_socks *s, struct addrs *a);
/* Has anything changed since it was asked last? */
bool addrs_heard(const struct addrs_socks *s);
/* What `now` becomes: those of it that were found, then the others. */
void addrs_order(const struct addrs *now, const struct addrs *found, struct addrs *next);
json_t *addrs_json(const struct addrs *a);
/* Did the orchestrator refuse an address, and not something else? */
bool addrs_refused(int err);
/*
 * The router's container has these from now on, but those that another one of its tenant has: then why tells of it. Where none
 * is left, it keeps what it has. 0 or -errno.
 */
int addrs_tell(const char *admin, const char *name, const struct addrs *found, char why[WHY_SZ]);

/* ---- note.c ---- */

#define NOTES "/run/freeflow-oci"

struct note {
	char name[FFO_NAME_MAX];
	char admin[PATH_MAX]; /* the socket of its router */
	bool added;	      /* by us: the router forgets it when it has stopped */
	bool follow;	      /* its addresses are its engine's */
	pid_t pid;
	bool runs; /* note_read(): that is the same process still */
};

/* When a process began, in the kernel's ticks; 0: there is none of that number. */
json_int_t note_began(pid_t pid);
/* Of the container by its runtime's id. 0 or -errno. */
int note_write(const char *id, const struct note *n);
int note_read(const char *id, struct note *n);
void note_remove(const char *id);
/* Makes `ff-hook follow`, which watches the notes' folder by inotify, look at the note again. */
void note_touch(const char *id);
/* Is the file of that name a note? Then whose. */
bool note_id(const char *file, char id[OCI_ID_MAX]);

/* ---- ended.c ---- */

/*
 * For hooks, as many as there are; alone: for who is none, while no hook works. A descriptor that has the lock;
 * -EWOULDBLOCK: a hook works; other -errno.
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
