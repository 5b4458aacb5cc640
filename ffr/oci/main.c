/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * main.c - ff-hook, which runs as a container starts and when it has stopped; and freeflow-runc (wrap.c), if the
 * program is called by that name. See ff-hook(8).
 *
 * As the container starts (createRuntime), the runtime has made the container's namespaces and mounts and waits; no
 * program of the container has run. The hook looks at the image first, so that an image that cannot be served is
 * refused before the router knows of it. Then the hook tells the router, and then makes the mounts. After a failure the
 * hook takes back what it has told the router.
 *
 * When the container has stopped (poststop), the hook tells the router, which forgets the container if the hook had
 * added it. The mounts are gone with the namespace. The hook puts back the few files that it wrote.
 *
 * Tests: system/runtime_docker.sh, system/runtime_docker_cdi.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/oci/oci.h"

static void warn_line(const char *text)
{
	fprintf(stderr, "freeflow: %s\n", text);
}

/* ---- the router ------------------------------------------------------------------------------ */

/*
 * The container's addresses are the engine's, unless somebody said which, or to take some of the pool. False: they are
 * not. None in *a: there are none yet to tell, or they may be another container's choice.
 */
static bool engines_addresses(const struct oci_state *s, struct addrs *a)
{
	struct addrs_socks socks;
	bool is_own;

	*a = (struct addrs){ 0 };
	is_own = !addrs_open(s->pid, &socks);
	if (is_own)
		addrs_read(&socks, a);
	if (is_own && addrs_anyones(s->pid))
		*a = (struct addrs){ 0 };
	addrs_close(&socks);
	return is_own;
}

/* Takes the request. What somebody else has of the addresses is left out (follow.c says so). */
static json_t *add(const struct oci_options *o, json_t *request, const struct addrs *a, int *err,
		   char why[WHY_SZ])
{
	char ignored[WHY_SZ];
	json_t *answer;

	if (a->num)
		json_object_set_new(request, "ips", addrs_json(a));
	answer = ask(o->admin, json_incref(request), err, why);
	if (!answer && a->num && addrs_refused(*err)) {
		json_object_del(request, "ips");
		answer = ask(o->admin, json_incref(request), err, why);
		if (answer)
			addrs_tell(o->admin, json_string_value(json_object_get(request, "name")), a,
				   ignored);
	}
	json_decref(request);
	return answer;
}

/*
 * Tell the router that the container runs, write the container's note, and open the container's folder. The path of
 * the folder is not taken from the router's answer, because an attacker who controls the router would name another
 * folder. Returns a descriptor, or -1 with why.
 */
static int begin(const struct oci_state *s, const struct oci_options *o, struct note *n,
		 char why[WHY_SZ])
{
	char ignored[WHY_SZ];
	int dir;

	if (tell_runs(o->admin, n->name, s->id, true, why))
		return -1;
	n->pid = s->pid;
	dir = mount_folder(o->run, n->name, why);
	if (dir >= 0 && !note_write(s->id, n))
		return dir;
	if (dir >= 0) {
		snprintf(why, WHY_SZ, NOTES ": cannot be written");
		close(dir);
	}
	tell_runs(o->admin, n->name, s->id, false, ignored);
	return -1;
}

/* Another hook of this start made it one: the engine was given two devices. */
static bool has_one(const struct oci_state *s, char why[WHY_SZ])
{
	struct note n;

	if (note_read(s->id, &n) || !n.runs)
		return false;
	snprintf(why, WHY_SZ, "it is %.64s already: a container has one RDMA device", n.name);
	return true;
}

/* Of the router's answer, which may be an attacker's. */
static unsigned num_devices(const json_t *answer)
{
	const json_t *c = json_object_get(answer, "container");
	json_int_t n = json_integer_value(json_object_get(c, "devices"));

	return n > 1 && n <= (json_int_t)FF_DEVICES_MAX ? (unsigned)n : 1;
}

/* Known to the router, by now at least, and running. Its folder's descriptor; -1 with why. */
static int start(const struct oci_state *s, const struct oci_options *o, unsigned *devices,
		 char why[WHY_SZ])
{
	bool pool, follows, again;
	struct note n = { 0 };
	struct addrs a = { 0 };
	json_t *request = has_one(s, why) ? NULL : oci_request(s, o, &pool, why), *answer;
	int err, dir;

	if (!request)
		return -1;
	snprintf(n.name, sizeof(n.name), "%s", json_string_value(json_object_get(request, "name")));
	snprintf(n.admin, sizeof(n.admin), "%s", o->admin);
	follows = !pool && !json_object_get(request, "ips") && engines_addresses(s, &a);
	answer = ask(o->admin, json_pack("{s:s, s:s}", "op", "container_show", "name", n.name),
		     &err, why);
	if (!answer && err == -ENOENT) {
		answer = add(o, json_incref(request), &a, &err, why);
		n.added = answer;
	}
	json_decref(request);
	again = answer && end_gone(o->admin, n.name);
	if (again && follows)
		addrs_tell(o->admin, n.name, &a, why);
	n.added |= again;
	/* who can give himself addresses has those of the start */
	n.follow = n.added && follows && !s->net_admin;
	*devices = num_devices(answer);
	dir = answer ? begin(s, o, &n, why) : -1;
	if (dir < 0 && n.added)
		forget(o->admin, n.name);
	json_decref(answer);
	return dir;
}

/* What start() did; again where there is nothing to be undone. */
static int stop(const struct oci_state *s, const struct oci_options *o, char why[WHY_SZ])
{
	struct note n;
	int err = 0;

	if (!note_read(s->id, &n)) {
		err = tell_runs(o->admin, n.name, s->id, false, why);
		if (!err && n.added)
			forget(o->admin, n.name);
		if (err == -ENOENT) /* it was removed meanwhile */
			err = 0;
	}
	if (!err)
		note_remove(s->id);
	else
		note_touch(s->id); /* follow.c tells the router later */
	return err;
}

/* ---- the mounts ------------------------------------------------------------------------------ */

struct trees {
	struct delivery libs;
	unsigned devices;
	int run, node[FF_DEVICES_MAX], class[NUM_CLASSES];
};

static int take(int *fd, int at, const char *path, bool read_only, char why[WHY_SZ])
{
	*fd = mount_take(at, path, read_only);
	if (*fd < 0)
		snprintf(why, WHY_SZ, "%.400s: %s", *path ? path : "the container's folder",
			 strerror(-*fd));
	return *fd < 0 ? *fd : 0;
}

/* The folder of a class, of the container's folder. */
static int take_class(int *fd, int dir, const char *name, char why[WHY_SZ])
{
	char path[64];
	int class, err;

	snprintf(path, sizeof(path), "sys/class/%s", name);
	class = mount_beneath(dir, path);
	if (class < 0) {
		snprintf(why, WHY_SZ, "the container's folder has no %s: %s", path,
			 strerror(-class));
		return class;
	}
	err = take(fd, class, "", true, why);
	close(class);
	return err;
}

static int take_all(struct trees *t, const struct rootfs_kind *k, int dir,
		    const struct oci_options *o, char why[WHY_SZ])
{
	char path[PATH_MAX];
	int err;

	rootfs_our_folder(k, o->lib, path, sizeof(path));
	err = deliver_take(&t->libs, path, why);
	if (!err)
		err = take(&t->run, dir, "", true, why);
	for (unsigned i = 0; i < t->devices && !err; i++)
		err = take(&t->node[i], AT_FDCWD, "/dev/null", false, why);
	for (int i = 0; i < NUM_CLASSES && !err; i++)
		err = take_class(&t->class[i], dir, oci_class[i], why);
	return err;
}

static int put(int tree, int to, const char *where, char why[WHY_SZ])
{
	int err = to < 0 ? to : mount_put(tree, to);

	if (err)
		snprintf(why, WHY_SZ, "/%s of the container: %s", where, mount_why(err));
	if (to >= 0)
		close(to);
	return err;
}

static int put_all(struct trees *t, const char *rootfs, char why[WHY_SZ])
{
	int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC), err = root < 0 ? -errno : 0;
	char node[32];

	if (err)
		snprintf(why, WHY_SZ, "%s: %s", rootfs, strerror(-err));
	if (!err)
		err = deliver_put(&t->libs, root, why);
	if (!err)
		err = put(t->run, rootfs_folder(root, "run/freeflow"), "run/freeflow", why);
	for (unsigned i = 0; i < t->devices && !err; i++) {
		snprintf(node, sizeof(node), FF_DEVICE_NODE "%u", i);
		err = put(t->node[i], rootfs_file(root, "dev/infiniband", node), "dev/infiniband",
			  why);
	}
	if (!err) {
		err = class_put(root, t->class);
		if (err)
			snprintf(why, WHY_SZ, "/sys/class of the container: %s", strerror(-err));
	}
	if (root >= 0)
		close(root);
	return err;
}

/* NULL: none that we can deliver libraries to. */
static const struct rootfs_kind *look(const char *rootfs, unsigned kinds, struct delivery *d,
				      char why[WHY_SZ])
{
	int root = open(rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const struct rootfs_kind *k;

	if (root < 0) {
		snprintf(why, WHY_SZ, "%s: %s", rootfs, strerror(errno));
		return NULL;
	}
	k = rootfs_find_kind(root, kinds, why);
	if (k && deliver_look(d, root, k, why))
		k = NULL;
	close(root);
	return k;
}

/* What is left in its file system of a container that has stopped, as long as its engine has that mounted. */
static void clean(const struct oci_state *s, const struct oci_options *o)
{
	int root = s->rootfs ? open(s->rootfs, O_PATH | O_DIRECTORY | O_CLOEXEC) : -1;
	const struct rootfs_kind *k;
	char ignored[WHY_SZ];

	if (root < 0)
		return;
	k = rootfs_find_kind(root, rootfs_kinds_in(o->lib), ignored);
	if (k)
		deliver_undo(root, k);
	close(root);
}

static int create_runtime(const struct oci_state *s, const struct oci_options *o, char why[WHY_SZ])
{
	char ignored[WHY_SZ];
	unsigned kinds = rootfs_kinds_in(o->lib);
	const struct rootfs_kind *k = NULL;
	struct trees t = { .libs = { .libs = -1, .file = -1 }, .run = -1 };
	int dir, err, host = open("/proc/self/ns/mnt", O_RDONLY | O_CLOEXEC);

	if (!s->pid) {
		snprintf(why, WHY_SZ, "the container has no process");
		return -ESRCH;
	}
	/* the container's mounts are part of its root: it is looked at from inside */
	err = mount_enter(s->pid);
	if (err)
		snprintf(why, WHY_SZ, "the container's mount namespace: %s", strerror(-err));
	if (!err) {
		k = look(s->rootfs, kinds, &t.libs, why);
		err = k ? 0 : -ENOEXEC;
	}
	if (mount_return(host) && !err) {
		snprintf(why, WHY_SZ, "the host's mount namespace: %m");
		err = -EIO;
	}
	if (err)
		return err;
	dir = start(s, o, &t.devices, why);
	if (dir < 0)
		return -EIO;
	err = take_all(&t, k, dir, o, why);
	if (!err)
		err = mount_enter(s->pid);
	if (!err)
		err = put_all(&t, s->rootfs, why);
	if (err && !mount_return(host)) {
		clean(s, o);
		stop(s, o, ignored);
	}
	close(dir);
	deliver_free(&t.libs);
	return err;
}

/* ---- command line ---------------------------------------------------------------------------- */

int main(int argc, char **argv)
{
	static const struct option options[] = {
		{ "name", required_argument, NULL, 'n' },
		{ "tenant", required_argument, NULL, 't' },
		{ "annotations", no_argument, NULL, 'a' },
		{ "kubernetes", no_argument, NULL, 'k' },
		{ "pool", no_argument, NULL, 'p' },
		{ "admin", required_argument, NULL, 's' },
		{ "lib", required_argument, NULL, 'l' },
		{ "socket-dir", required_argument, NULL, 'r' },
		{ 0 },
	};
	struct oci_options o = { .admin = "/run/freeflow/admin.sock",
				 .lib = "/usr/lib/freeflow",
				 .run = "/run/freeflow" };
	char why[WHY_SZ] = "";
	struct oci_state s;
	const char *base = strrchr(argv[0], '/');
	int c, err;

	if (!strcmp(base ? base + 1 : argv[0], "freeflow-runc"))
		return wrap_main(argc, argv);
	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'n')
			o.name = optarg;
		else if (c == 't')
			o.tenant = optarg;
		else if (c == 'a')
			o.annotations = true;
		else if (c == 'k')
			o.kubernetes = true;
		else if (c == 'p')
			o.pool = true;
		else if (c == 's')
			o.admin = optarg;
		else if (c == 'l')
			o.lib = optarg;
		else if (c == 'r')
			o.run = optarg;
		else
			return 2;
	}
	if (optind + 1 == argc && !strcmp(argv[optind], "follow"))
		return follow_main(o.admin);
	if (optind + 1 != argc ||
	    (strcmp(argv[optind], "createRuntime") && strcmp(argv[optind], "poststop"))) {
		warn_line(
			"usage: ff-hook [--name NAME] [--tenant TENANT] [--annotations] [--kubernetes] [--pool] [--admin SOCKET] "
			"[--lib FOLDER] [--socket-dir FOLDER] createRuntime|poststop, as a hook of an OCI runtime; "
			"ff-hook [--admin SOCKET] follow");
		return 2;
	}
	/* until this process ends; without the folder there are no notes, of which begin() tells */
	notes_lock(false);
	err = oci_state_read(STDIN_FILENO, &s, why);
	if (!err && strcmp(argv[optind], "poststop")) {
		err = create_runtime(&s, &o, why);
	} else if (!err) {
		clean(&s, &o);
		err = stop(&s, &o, why);
	}
	if (err)
		warn_line(why);
	oci_state_free(&s);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
