/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * cdi.c - ffctl cdi: the Container Device Interface's specification, by which Docker and podman know what
 * --device freeflow.io/rdma=NAME is: a hook of the runtime, and nothing else.
 *
 * Engines run the hook as root, so whoever can write this file is root: it is written by root, here, and the router
 * is asked for nothing but the containers' names. ffr-cdi.path has this run when the router's folder of
 * containers changes; `container add`, `claim` and `rm` do it themselves, so that the next line of a script finds the
 * device.
 */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/base/proto.h"
#include "ffr/ffctl/ffctl.h"

#define CDI_KIND "freeflow.io/rdma"
#define CDI_AUTO "auto"	      /* a container that the router gets to know as it starts */
#define CDI_PODS "kubernetes" /* a pod's container (ff-device-plugin) */

/* Beside this program when it was not installed. */
static const char *hook_path(char buf[PATH_MAX])
{
	char exe[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	char *slash;

	exe[n < 0 ? 0 : n] = '\0';
	slash = strrchr(exe, '/');
	snprintf(buf, PATH_MAX, "%.*s/ff-hook", slash ? (int)(slash - exe) : 0, exe);
	if (!slash || access(buf, X_OK))
		snprintf(buf, PATH_MAX, "/usr/libexec/freeflow/ff-hook");
	return buf;
}

static json_t *hook(const char *kind, const char *name, bool pod, const char *admin,
		    const char *lib)
{
	char path[PATH_MAX];
	json_t *args = json_pack("[s, s, s, s, s, s, s]", "ff-hook", "--admin", admin,
				 "--socket-dir", socket_dir(), "--lib", lib);

	if (name) {
		json_array_append_new(args, json_string("--name"));
		json_array_append_new(args, json_string(name));
	} else if (pod)
		json_array_append_new(args, json_string("--kubernetes"));
	json_array_append_new(args, json_string(kind));
	return json_pack("{s:s, s:s, s:o}", "hookName", kind, "path", hook_path(path), "args",
			 args);
}

static json_t *device(const char *name, const char *admin, const char *lib)
{
	bool pod = !strcmp(name, CDI_PODS);
	const char *known = pod || !strcmp(name, CDI_AUTO) ? NULL : name;

	return json_pack("{s:s, s:{s:[o, o]}}", "name", name, "containerEdits", "hooks",
			 hook("createRuntime", known, pod, admin, lib),
			 hook("poststop", known, pod, admin, lib));
}

/* Version 0.5.0: podman 4.3 knows no later one. */
static json_t *specification(const json_t *containers, const char *admin, const char *lib)
{
	json_t *devices = json_array(), *c;
	const char *name;
	size_t i;

	json_array_append_new(devices, device(CDI_AUTO, admin, lib));
	json_array_append_new(devices, device(CDI_PODS, admin, lib));
	json_array_foreach(containers, i, c) {
		name = str_of(c, "name");
		if (ffo_name_ok(name) && strcmp(name, CDI_AUTO) && strcmp(name, CDI_PODS))
			json_array_append_new(devices, device(name, admin, lib));
	}
	return json_pack("{s:s, s:s, s:o}", "cdiVersion", "0.5.0", "kind", CDI_KIND, "devices",
			 devices);
}

/* A whole file or none takes the old one's place. 0 or -errno. */
static int write_file(const json_t *spec, const char *path)
{
	char next[PATH_MAX + 8], *slash;
	int err = 0;

	snprintf(next, sizeof(next), "%s", path);
	slash = strrchr(next, '/');
	if (slash) {
		*slash = '\0';
		mkdir(next, 0755);
	}
	/* engines read *.json and *.yaml */
	snprintf(next, sizeof(next), "%s.%d", path, (int)getpid());
	errno = EIO;
	if (json_dump_file(spec, next, JSON_INDENT(2)) || chmod(next, 0644) || rename(next, path))
		err = -errno;
	if (err)
		unlink(next);
	return err;
}

static json_t *current(void)
{
	char admin[PATH_MAX], lib[PATH_MAX];
	json_t *answer = router_itself(json_pack("{s:s}", "op", "containers"), "", 0), *spec;

	if (!realpath(admin_socket(), admin))
		fail("%s: %m", admin_socket());
	find_lib(lib);
	spec = specification(json_object_get(answer, "containers"), admin, lib);
	json_decref(answer);
	if (!spec)
		fail("out of memory");
	return spec;
}

void cdi_refresh(void)
{
	json_t *spec;

	if (dry_run || geteuid() || access(CDI_FILE, F_OK) || orch_options.address)
		return;
	spec = current();
	write_file(spec, CDI_FILE);
	json_decref(spec);
}

void cmd_cdi(int argc, char **argv)
{
	bool write = argc >= 2 && !strcmp(argv[1], "--write");
	const char *path = argc == 3 ? argv[2] : CDI_FILE;
	json_t *spec;
	int err;

	no_more(argc, argv, write ? 3 : 1);
	spec = current();
	err = write ? write_file(spec, path) : 0;
	if (err)
		fail("%s: %s", path, strerror(-err));
	if (!write)
		json_print(spec);
	json_decref(spec);
}
