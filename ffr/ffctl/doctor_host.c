/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * doctor_host.c - what ffctl doctor looks at beside the router: is there one, the libraries, RapidIO, what container
 * engines were told, an image, the network of a process, a port of another host.
 *
 * Tests: system/doctor.sh
 */
#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "ffr/ffctl/ffctl.h"
#include "ffr/lib/addr.h"
#include "ffr/oci/oci.h"

#define CONNECT_MS 2000

/* ---- no router ------------------------------------------------------------------------------------ */

/* The number of a process of that name, or 0. */
static long process_of(const char *name)
{
	DIR *proc = opendir("/proc");
	char path[300], comm[32];
	struct dirent *e;
	long pid = 0;
	FILE *f;

	while (proc && !pid && (e = readdir(proc))) {
		snprintf(path, sizeof(path), "/proc/%s/comm", e->d_name);
		f = e->d_name[0] >= '1' && e->d_name[0] <= '9' ? fopen(path, "re") : NULL;
		if (f && fgets(comm, sizeof(comm), f) && !strncmp(comm, name, strlen(name)) &&
		    comm[strlen(name)] == '\n')
			pid = strtol(e->d_name, NULL, 10);
		if (f)
			fclose(f);
	}
	if (proc)
		closedir(proc);
	return pid;
}

/* Does somebody listen at a Unix socket that was bound to that path, whether the path is there or not? */
static bool listens_at(const char *table, const char *path)
{
	FILE *f = fopen(table, "re");
	bool found = false;
	char line[512];

	while (f && !found && fgets(line, sizeof(line), f)) {
		unsigned long flags;
		int at = 0;

		line[strcspn(line, "\n")] = '\0';
		/* number, references, protocol, flags, type, state, inode, path; __SO_ACCEPTCON */
		if (sscanf(line, "%*s %*s %*s %lx %*s %*s %*s %n", &flags, &at) == 1 && at)
			found = flags & 0x10000 && !strcmp(line + at, path);
	}
	if (f)
		fclose(f);
	return found;
}

/* Is the router there, or systemd for it, and its socket's path not? */
static bool was_removed(const char *path, long pid)
{
	char table[40];

	snprintf(table, sizeof(table), "/proc/%ld/net/unix", pid);
	return access(path, F_OK) && errno == ENOENT &&
	       (listens_at("/proc/net/unix", path) || listens_at(table, path));
}

#define START_AGAIN "systemctl reset-failed ffr ffr-admin.socket; systemctl start ffr"
#define MAKE_AGAIN  "systemd-tmpfiles --create; systemctl restart ffr-admin.socket ffr"
#define POD_LOG	    "kubectl -n freeflow logs daemonset/freeflow-router -c router says why"

/* Whether systemd has given the router up, with a finding. */
static bool check_unit(struct findings *f)
{
	/* 1: it has exited, and not by a signal of that number */
	if (unit_is("ffr.service", "ExecMainStatus", "2") &&
	    unit_is("ffr.service", "ExecMainCode", "1"))
		finding(f, FINDING_PROBLEM, "ffr --check names it; then " START_AGAIN,
			"router: ffr.service: there is a mistake in ffr.conf, or on the command line");
	else if (unit_is("ffr.service", "Result", "start-limit-hit") ||
		 unit_is("ffr-admin.socket", "Result", "service-start-limit-hit") ||
		 unit_is("ffr-admin.socket", "Result", "trigger-limit-hit"))
		finding(f, FINDING_PROBLEM, "journalctl -u ffr says why; then " START_AGAIN,
			"router: ffr.service: it failed so often that systemd does not start it any more");
	else
		return false;
	return true;
}

enum absence { NOT_ANSWERING, NO_SOCKET, NOT_RUNNING, FAILING };

/* What to do about a router that is not there. */
static const char *const absence_advice[][3] = {
	[NOT_ANSWERING] = {
		[HOME_SYSTEMD] = "systemctl status ffr; its watchdog starts it again",
		[HOME_POD] = "its liveness probe starts it again; " POD_LOG,
		[HOME_SHELL] = "kill -CONT, if somebody stopped it; otherwise end it and start ffr again",
	},
	[NO_SOCKET] = {
		[HOME_SYSTEMD] = MAKE_AGAIN "; then start the containers of this host again",
		[HOME_POD] = "delete the router's pod of this node; then start the containers of this node again",
		[HOME_SHELL] = "start ffr again, and then the containers of this host",
	},
	[NOT_RUNNING] = {
		[HOME_SYSTEMD] = "systemctl start ffr; journalctl SYSLOG_IDENTIFIER=ffr says why it ended",
		[HOME_POD] = "kubectl -n freeflow get pods -o wide: is its pod on this node?; " POD_LOG,
		[HOME_SHELL] = "`ffr &`: it says on standard error why it ends",
	},
	[FAILING] = {
		[HOME_SYSTEMD] = "journalctl SYSLOG_IDENTIFIER=ffr",
		[HOME_POD] = POD_LOG,
		[HOME_SHELL] = "standard error of ffr",
	},
};

void doctor_no_router(struct findings *f, int err)
{
	const char *path = admin_socket();
	enum router_home home = router_home();
	long pid = process_of("ffr");

	if ((!pid || err == -EAGAIN) && check_unit(f))
		return;
	if (err == -ESHUTDOWN)
		finding(f, FINDING_PROBLEM, "systemctl start ffr",
			"router: ffr.service was stopped (%s)", path);
	else if (err == -EAGAIN)
		finding(f, FINDING_PROBLEM, absence_advice[NOT_ANSWERING][home],
			"router: %s: it does not answer: stopped, or stuck", path);
	else if (err == -EACCES || err == -EPERM)
		finding(f, FINDING_PROBLEM, "be root", "router: %s: %s", path, strerror(-err));
	else if (err != -ENOENT && err != -ECONNREFUSED)
		finding(f, FINDING_PROBLEM, absence_advice[FAILING][home], "router: %s: %s", path,
			strerror(-err));
	else if (pid && was_removed(path, pid))
		finding(f, FINDING_PROBLEM, absence_advice[NO_SOCKET][home],
			"router: ffr runs (process %ld), but %s was removed, and with it what containers mount",
			pid, path);
	else if (pid)
		finding(f, FINDING_PROBLEM,
			"start it; if the other one is this host's: ffctl --admin SOCKET, which is admin_socket "
			"of its ffr.conf, or runtime_dir and /admin.sock",
			"router: this host's router does not run at %s; another ffr runs (process %ld)",
			path, pid);
	else
		finding(f, FINDING_PROBLEM, absence_advice[NOT_RUNNING][home],
			"router: ffr does not run (%s: %s)", path, strerror(-err));
}

/* ---- libraries, engines ----------------------------------------------------------------------------- */

void doctor_libraries(struct findings *f)
{
	char dir[PATH_MAX];

	if (lib_folder(dir))
		finding(f, FINDING_OK, NULL, "libraries: %s", dir);
	else
		finding(f, FINDING_PROBLEM, "apt-get install libfreeflow-container",
			"libraries: neither beside ffctl nor in %s: containers would have none",
			dir);
}

/* What ffrio.ko says of each port of RapidIO's. */
void doctor_rapidio(struct findings *f)
{
	glob_t ports;
	char why[256];

	if (glob("/sys/class/rapidio_port/*/ffrio", 0, NULL, &ports))
		return;
	for (size_t i = 0; i < ports.gl_pathc; i++) {
		FILE *file = fopen(ports.gl_pathv[i], "re");
		const char *port = strstr(ports.gl_pathv[i], "/rapidio_port/") + 14;
		int length = (int)strcspn(port, "/");

		if (file && fgets(why, sizeof(why), file)) {
			why[strcspn(why, "\n")] = 0;
			if (strcmp(why, "ready"))
				finding(f, FINDING_PROBLEM,
					"rmmod ffrio, and modprobe ffrio with parameters that fit",
					"RapidIO: ffrio has no %.*s: %s", length, port, why);
			else
				finding(f, FINDING_OK, NULL, "RapidIO: ffrio has %.*s", length,
					port);
		}
		if (file)
			fclose(file);
	}
	globfree(&ports);
}

/* Whether there is such a file; *j is NULL, with a finding of that kind, if it is no JSON. */
static bool load(struct findings *f, const char *path, const char *kind, const char *advice,
		 json_t **j)
{
	json_error_t why;

	*j = NULL;
	if (access(path, F_OK))
		return false;
	*j = json_load_file(path, 0, &why);
	if (!*j)
		finding(f, FINDING_PROBLEM, advice, "%s: %s, line %d: %s", kind, path, why.line,
			why.text);
	return true;
}

/* The router's socket that a runtime's arguments name, or NULL: then it is the usual one. */
static const char *runtime_socket(const json_t *runtime)
{
	static const char option[] = "--freeflow-admin=";
	const char *text;
	json_t *arg;
	size_t i;

	json_array_foreach(json_object_get(runtime, "runtimeArgs"), i, arg) {
		text = json_string_value(arg);
		if (text && !strncmp(text, option, strlen(option)))
			return text + strlen(option);
	}
	return NULL;
}

static void check_runtime(struct findings *f, const char *file, const char *name,
			  const json_t *runtime)
{
	const char *to = str_of(runtime, "path"), *socket = runtime_socket(runtime);

	if (*to == '/' && access(to, X_OK))
		finding(f, FINDING_PROBLEM, "apt-get install freeflow-router, or correct the path",
			"docker: %s: runtime %s: %s: %s", file, name, to, strerror(errno));
	else if (!socket || !access(socket, F_OK))
		finding(f, FINDING_OK, NULL, "docker: --runtime %s", name);
	else if (strcmp(socket,
			admin_socket())) /* the router that ffctl asks was looked at before */
		finding(f, FINDING_PROBLEM,
			"start the router that makes this socket, or remove the runtime",
			"docker: %s: runtime %s: its router's socket %s: %s", file, name, socket,
			strerror(errno));
}

/* Is freeflow a runtime of dockerd's, or has it CDI? */
static bool check_daemon_json(struct findings *f, const char *path)
{
	const char *name;
	json_t *j, *runtime;
	bool any = load(f, path, "docker", "correct it: dockerd does not start with it", &j);

	if (!j)
		return any;
	any = json_is_true(json_object_get(json_object_get(j, "features"), "cdi"));
	json_object_foreach(json_object_get(j, "runtimes"), name, runtime) {
		if (strcmp(basename(str_of(runtime, "path")), "freeflow-runc"))
			continue;
		any = true;
		check_runtime(f, path, name, runtime);
	}
	json_decref(j);
	return any;
}

static const json_t *cdi_device(const json_t *spec, const char *name)
{
	json_t *dev;
	size_t i;

	json_array_foreach(json_object_get(spec, "devices"), i, dev)
		if (!strcmp(str_of(dev, "name"), name))
			return dev;
	return NULL;
}

/* The hook that a device names; "" if it names none. */
static const char *cdi_hook(const json_t *dev)
{
	const json_t *hooks = json_object_get(json_object_get(dev, "containerEdits"), "hooks");
	const char *path = json_string_value(json_object_get(json_array_get(hooks, 0), "path"));

	return path ? path : "";
}

static bool check_cdi(struct findings *f, const char *path, const json_t *containers)
{
	unsigned before = f->problems;
	const char *hook;
	json_t *spec, *c;
	size_t i;

	if (!load(f, path, "CDI", "ffctl cdi --write", &spec)) {
		finding(f, FINDING_NOTE, "ffctl cdi --write",
			"CDI: there is no %s: no engine knows the device freeflow.io/rdma", path);
		return false;
	}
	if (!spec)
		return true;
	hook = cdi_hook(json_array_get(json_object_get(spec, "devices"), 0));
	if (access(hook, X_OK))
		finding(f, FINDING_PROBLEM, "ffctl cdi --write", "CDI: %s: its hook %s: %s", path,
			hook, strerror(errno));
	/* The hook adds a container as it starts, and ffr-cdi.path writes the file a moment later. A container that
	 * runs has been started, so it needs no device in the file now. */
	json_array_foreach(containers, i, c)
		if (!json_object_get(c, "runs") && !cdi_device(spec, str_of(c, "name")))
			finding(f, FINDING_PROBLEM,
				systemd_runs() ?
					"ffctl cdi --write; systemctl enable --now ffr-cdi.path keeps it current" :
					"ffctl cdi --write",
				"CDI: %s has no device for container %s: it is old", path,
				str_of(c, "name"));
	if (f->problems == before)
		finding(f, FINDING_OK, NULL, "CDI: %s is current", path);
	json_decref(spec);
	return true;
}

void doctor_engines(struct findings *f, const char *daemon_json, const char *cdi,
		    const json_t *containers)
{
	bool docker = check_daemon_json(f, daemon_json), any = check_cdi(f, cdi, containers);

	if (!docker && !any)
		finding(f, FINDING_NOTE,
			"ff-hook(8) has the two ways: --runtime freeflow and --device freeflow.io/rdma",
			"engines: none knows freeflow by one flag (%s, %s): containers are started with "
			"the flags of ffctl container show NAME --docker",
			daemon_json, cdi);
}

/* ---- an image ---------------------------------------------------------------------------------------- */

void doctor_image(struct findings *f, const char *path)
{
	int root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	char why[WHY_SZ];

	if (root < 0)
		fail("%s: %s", path, strerror(errno));
	if (!rootfs_find_kind(root, rootfs_kinds_in("/usr/lib/freeflow"), why))
		finding(f, FINDING_PROBLEM,
			"an image of Debian, Ubuntu, RHEL or openSUSE, or the libraries for this one",
			"image %s: %s", path, why);
	else
		finding(f, FINDING_OK, NULL, "image %s: its programs can load the libraries", path);
	close(root);
}

/* ---- networks ------------------------------------------------------------------------------------------ */

int doctor_connect(const char *wire)
{
	struct sockaddr_storage sa = { 0 };
	struct pollfd p = { .events = POLLOUT };
	socklen_t len = sizeof(int);
	int err = addr_parse(wire, &sa);

	if (err)
		return err;
	p.fd = socket(sa.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (p.fd < 0)
		return -errno;
	if (!connect(p.fd, (struct sockaddr *)&sa, sizeof(sa)))
		err = 0;
	else if (errno != EINPROGRESS)
		err = -errno;
	else if (poll(&p, 1, CONNECT_MS) <= 0)
		err = -ETIMEDOUT;
	else if (getsockopt(p.fd, SOL_SOCKET, SO_ERROR, &err, &len))
		err = -errno;
	else
		err = -err;
	close(p.fd);
	return err;
}

/* Is that address the process's network's own? The kernel lists IPv6 as 32 digits, IPv4 in a tree of text. */
static bool has_address(pid_t pid, const char *address)
{
	char path[64], digits[33], line[256], word[64];
	bool v6 = strchr(address, ':'), found = false, local = false;
	struct in6_addr a;
	FILE *f;

	if (v6 && inet_pton(AF_INET6, address, &a) == 1)
		for (int i = 0; i < 16; i++)
			snprintf(digits + 2 * i, 3, "%02x", a.s6_addr[i]);
	else if (v6)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/net/%s", (int)pid, v6 ? "if_inet6" : "fib_trie");
	f = fopen(path, "re");
	/* "|-- 10.0.0.2", and below it "/32 host LOCAL" */
	while (f && !found && fgets(line, sizeof(line), f)) {
		if (v6) {
			found = !strncmp(line, digits, 32);
			continue;
		}
		if (sscanf(line, " |-- %63s", word) == 1)
			local = !strcmp(word, address);
		else
			found = local && strstr(line, "host LOCAL");
	}
	if (f)
		fclose(f);
	return found;
}

void doctor_addresses(struct findings *f, const json_t *container, pid_t pid)
{
	const char *first = NULL;
	json_t *ip;
	size_t i;

	json_array_foreach(json_object_get(container, "ips"), i, ip) {
		first = first ? first : json_string_value(ip);
		if (json_string_value(ip) && has_address(pid, json_string_value(ip))) {
			finding(f, FINDING_OK, NULL,
				"container %s: %s is an address of its network",
				str_of(container, "name"), json_string_value(ip));
			return;
		}
	}
	finding(f, FINDING_NOTE,
		"rdma_cm programs must be given this address, not the engine's; or ffctl container set NAME "
		"--ip ADDRESS",
		"container %s: %s is none of its network's addresses", str_of(container, "name"),
		first ? first : "?");
}
