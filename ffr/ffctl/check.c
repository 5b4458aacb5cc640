/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * check.c - ffctl container check: why a program has no device. What no library can tell, since it was
 * not loaded, is to be seen from here: by /proc/PID, which root may look into.
 *
 * The process's files are its container's: they are found as the process would find them (openat2() in its
 * root), looked at and not executed, and names are printed without control characters.
 *
 * Tests: system/check.sh
 */
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <linux/openat2.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ffr/abi/ff_proto.h"
#include "ffr/ffctl/ffctl.h"
#include "ffr/lib/cgroup.h"

#define OURS		INSIDE_LIB "/libibverbs.so.1"
#define CACHE		"/etc/ld.so.cache"
#define OUR_VERSION	"FREEFLOW_1.0"
#define INTERPRETER	"ld-linux-x86-64.so.2"
#define LIBRARY		"libibverbs"
#define MAX_PHDRS	64
#define IN_FOLDER	"/" LIBRARY ".so.1"
#define LIBRARY_HEAD	(1u << 20) /* bytes that are read of a file */
#define ENVIRONMENT_MAX (1u << 20) /* bytes that are read of an environment */
#define RDMA_CORE                                                                                  \
	"libibverbs: Warning: " /* what rdma-core's libibverbs of any version says, and ours does not */
#define PROGRAM_MAX (1u << 28) /* bytes that are looked through of a program */

struct check {
	pid_t pid;
	int root; /* the process's */
	const json_t *container;
	struct findings *f;
	unsigned before;     /* problems of others */
	char told[PATH_MAX]; /* the file that tells its loader where libraries are */
};

/* A path of the process's: a descriptor, or -1 with errno. */
static int open_inside(const struct check *k, const char *path, int flags)
{
	struct open_how how = { .flags = (uint64_t)flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };

	if (flags & O_PATH) /* these go with few others */
		how.flags = (uint64_t)flags | O_CLOEXEC;
	return (int)syscall(SYS_openat2, k->root, path, &how, sizeof(how));
}

static bool stat_inside(const struct check *k, const char *path, struct stat *st)
{
	int fd = open_inside(k, path, O_PATH), err;

	if (fd < 0)
		return false;
	err = fstat(fd, st);
	close(fd);
	return !err;
}

/* One of the process's files in /proc, or NULL. */
static FILE *proc_open(const struct check *k, const char *name)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)k->pid, name);
	return fopen(path, "re");
}

/* Up to `size` bytes of a file of the process's that is a plain one, and that file, if ino is not 0. */
static size_t read_inside(const struct check *k, const char *path, ino_t ino, char *buf,
			  size_t size)
{
	int fd = open_inside(k, path, O_RDONLY);
	size_t len = 0;
	struct stat st;
	ssize_t n;

	if (fd < 0)
		return 0;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && (!ino || st.st_ino == ino))
		while (len < size && (n = read(fd, buf + len, size - len)) > 0)
			len += (size_t)n;
	close(fd);
	return len;
}

/* Is that text in the first part of the file? */
static bool has_text(const struct check *k, const char *path, ino_t ino, const char *text)
{
	static char head[LIBRARY_HEAD];
	size_t n = read_inside(k, path, ino, head, sizeof(head));

	return memmem(head, n, text, strlen(text));
}

/* ---- what it is ------------------------------------------------------------------------------ */

/* The dynamic linker that the program names; "" if it names none. 0 or -errno. */
static int interpreter(const struct check *k, char name[PATH_MAX])
{
	Elf64_Phdr phdr[MAX_PHDRS];
	FILE *f = proc_open(k, "exe");
	Elf64_Ehdr e;
	int err = -ENOEXEC;

	name[0] = '\0';
	if (!f)
		return -errno;
	if (fread(&e, sizeof(e), 1, f) != 1 || memcmp(e.e_ident, ELFMAG, SELFMAG) ||
	    e.e_ident[EI_CLASS] != ELFCLASS64 || e.e_machine != EM_X86_64 ||
	    e.e_phentsize != sizeof(phdr[0]) || e.e_phnum > MAX_PHDRS ||
	    fseek(f, (long)e.e_phoff, SEEK_SET) ||
	    fread(phdr, sizeof(phdr[0]), e.e_phnum, f) != e.e_phnum)
		goto out;
	err = 0;
	for (unsigned i = 0; i < e.e_phnum; i++) {
		if (phdr[i].p_type != PT_INTERP)
			continue;
		if (phdr[i].p_filesz >= PATH_MAX || fseek(f, (long)phdr[i].p_offset, SEEK_SET) ||
		    fread(name, 1, phdr[i].p_filesz, f) != phdr[i].p_filesz)
			err = -ENOEXEC;
		name[err ? 0 : phdr[i].p_filesz] = '\0';
		break;
	}
out:
	fclose(f);
	return err;
}

static bool check_program(struct check *k)
{
	char name[PATH_MAX];
	const char *base;
	int err = interpreter(k, name);

	base = strrchr(name, '/') ? strrchr(name, '/') + 1 : name;
	/* ld-musl-x86_64.so.1 reads ld-musl-x86_64.path */
	snprintf(k->told, sizeof(k->told), CACHE);
	if (!strncmp(base, "ld-musl", 7))
		snprintf(k->told, sizeof(k->told), "/etc/%.*s.path", (int)strcspn(base, "."), base);
	if (err == -ENOEXEC)
		finding(k->f, FINDING_PROBLEM, NULL,
			"it is no 64-bit program for x86: there is no library for it");
	else if (err)
		finding(k->f, FINDING_PROBLEM, NULL, "its program cannot be read: %s",
			strerror(-err));
	else if (!*name)
		finding(k->f, FINDING_PROBLEM, NULL,
			"it is linked statically: it loads no library, and none can be put into "
			"place for it; link it dynamically, with glibc");
	else if (!strncmp(base, "ld-musl", 7) && !has_text(k, k->told, 0, INSIDE_LIB))
		finding(k->f, FINDING_PROBLEM, NULL,
			"it is linked with musl (%s), and no %s there names " INSIDE_LIB
			": start the container with the runtime or the device of freeflow, on a host "
			"with libraries for musl",
			name, k->told);
	else if (!strncmp(base, "ld-musl", 7))
		finding(k->f, FINDING_OK, NULL, "it is linked dynamically, with musl");
	else if (strcmp(base, INTERPRETER))
		finding(k->f, FINDING_PROBLEM, NULL, "its dynamic linker is %s, not glibc's", name);
	else
		finding(k->f, FINDING_OK, NULL, "it is linked dynamically, with glibc");
	return k->f->problems == k->before;
}

/* ---- the library ------------------------------------------------------------------------------ */

/* The name of a symbol version that no other libibverbs has is among its strings, at its beginning. */
static bool is_the_routers(const struct check *k, const char *path, ino_t ino)
{
	return has_text(k, path, ino, OUR_VERSION);
}

/* Is that a libibverbs? Its renamed copies in Python's wheels (libibverbs-1de1263b.so.1) are, too. */
static bool is_library(const char *base)
{
	const char *rest = base + strlen(LIBRARY);

	return !strncmp(base, LIBRARY, strlen(LIBRARY)) && (*rest == '.' || *rest == '-') &&
	       strstr(rest, ".so");
}

/*
 * Is that a library of rdma-core for one kind of NIC, which programs call directly (mlx5dv, DevX)? Such a library finds
 * that freeflow's device is not of its kind.
 */
static bool is_direct(const char *base)
{
	static const char *const names[] = { "libmlx5.so", "libmlx4.so", "libefa.so", "libmana.so",
					     "libhns.so" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The files that it has mapped whose names `is` takes. */
struct mapped {
	FILE *maps;
	bool (*is)(const char *base);
	char *line;
	size_t size;
	char path[PATH_MAX]; /* of the one that was found last */
	unsigned long ino;
};

static void mapped_open(const struct check *k, struct mapped *m, bool (*is)(const char *base))
{
	*m = (struct mapped){ .maps = proc_open(k, "maps"), .is = is };
}

static bool mapped_next(struct mapped *m)
{
	char *path;

	while (m->maps && getline(&m->line, &m->size, m->maps) > 0) {
		path = strchr(m->line, '/');
		if (!path || !m->is(strrchr(path, '/') + 1) ||
		    sscanf(m->line, "%*s %*s %*s %*s %lu", &m->ino) != 1)
			continue;
		path[strcspn(path, "\n")] = '\0';
		if (!strcmp(m->path, path)) /* another part of it */
			continue;
		snprintf(m->path, sizeof(m->path), "%s", path);
		return true;
	}
	return false;
}

static void mapped_close(struct mapped *m)
{
	free(m->line);
	if (m->maps)
		fclose(m->maps);
}

/* What it does beside the verbs: a note, because most such programs go on without. */
static void check_direct(struct check *k)
{
	struct mapped m;

	mapped_open(k, &m, is_direct);
	while (mapped_next(&m))
		finding(k->f, FINDING_NOTE, NULL,
			"it has loaded %s: what it asks of a NIC's hardware by that (mlx5dv, DevX) "
			"is not supported, and what it does by the verbs is",
			m.path);
	mapped_close(&m);
}

/* Is rdma-core linked into the program itself? Its text is looked for part by part. */
static bool has_rdma_core(const struct check *k)
{
	enum { PART = 1 << 16, OVERLAP = sizeof(RDMA_CORE) };
	static char buf[OVERLAP + PART];
	FILE *f = proc_open(k, "exe");
	size_t n, kept = 0, sum = 0;
	bool found = false;

	while (f && !found && sum < PROGRAM_MAX && (n = fread(buf + kept, 1, PART, f)) > 0) {
		found = memmem(buf, kept + n, RDMA_CORE, strlen(RDMA_CORE));
		sum += n;
		n += kept;
		kept = n < OVERLAP ? n : OVERLAP;
		memmove(buf, buf + n - kept, kept);
	}
	if (f)
		fclose(f);
	return found;
}

/* Has it mapped any libibverbs? Of each, whose it is. */
static bool check_loaded(struct check *k)
{
	struct mapped m;
	bool any = false;

	mapped_open(k, &m, is_library);
	while (mapped_next(&m)) {
		const char *name = m.path;

		any = true;
		if (is_the_routers(k, name, (ino_t)m.ino))
			finding(k->f, FINDING_OK, NULL, "it has loaded %s", name);
		else
			finding(k->f, FINDING_PROBLEM, NULL,
				"it has loaded %s, which is not the router's: by its LD_PRELOAD or "
				"LD_LIBRARY_PATH, its RUNPATH or RPATH, or a path that it names itself",
				name);
	}
	mapped_close(&m);
	return any;
}

/*
 * The value of a variable of the process's environment, or NULL. The process may have put anything there (PR_SET_MM),
 * so no more than ENVIRONMENT_MAX bytes are read.
 */
static const char *environment(const struct check *k, const char *name)
{
	static char all[ENVIRONMENT_MAX + 1];
	FILE *f = proc_open(k, "environ");
	size_t n = f ? fread(all, 1, ENVIRONMENT_MAX, f) : 0, len = strlen(name);

	if (f)
		fclose(f);
	all[n] = '\0';
	for (const char *p = all; p < all + n; p += strlen(p) + 1)
		if (!strncmp(p, name, len) && p[len] == '=')
			return p + len + 1;
	return NULL;
}

/*
 * The libibverbs that its loader finds by LD_LIBRARY_PATH, which comes before the loader's cache: *path is "" if there
 * is none. Folders that are relative, or that the loader computes ($ORIGIN), are left out.
 */
static void by_environment(const struct check *k, char path[PATH_MAX])
{
	const char *folder = environment(k, "LD_LIBRARY_PATH");
	struct stat st;
	size_t len;

	path[0] = '\0';
	for (; folder && *folder; folder += len + !!folder[len]) {
		len = strcspn(folder, ":;");
		if (*folder != '/' || len + sizeof(IN_FOLDER) > PATH_MAX)
			continue;
		snprintf(path, PATH_MAX, "%.*s" IN_FOLDER, (int)len, folder);
		if (stat_inside(k, path, &st))
			return;
		path[0] = '\0';
	}
}

static void check_library(struct check *k)
{
	char path[PATH_MAX];
	struct stat st;

	if (has_rdma_core(k)) {
		finding(k->f, FINDING_PROBLEM, NULL,
			"rdma-core's libibverbs is linked into it statically, and no library can take its "
			"place: link the program with the shared one");
		return;
	}
	if (check_loaded(k))
		return;
	by_environment(k, path);
	if (!stat_inside(k, OURS, &st))
		finding(k->f, FINDING_PROBLEM, NULL,
			"there is no " OURS
			" there: start the container with --runtime freeflow or --device "
			"freeflow.io/rdma=auto, or the flags of ffctl container show %s --docker",
			str_of(k->container, "name"));
	else if (*path && !is_the_routers(k, path, 0))
		finding(k->f, FINDING_PROBLEM, NULL,
			"by its LD_LIBRARY_PATH it would load %s, which is not the router's: put " INSIDE_LIB
			" before the other folders, or remove the variable",
			path);
	else if (!*path && !has_text(k, k->told, 0, INSIDE_LIB "/"))
		finding(k->f, FINDING_PROBLEM, NULL,
			"neither its LD_LIBRARY_PATH nor %s names " INSIDE_LIB
			", so it does not find the library: run ldconfig there, or give it "
			"LD_LIBRARY_PATH=" INSIDE_LIB,
			k->told);
	else
		finding(k->f, FINDING_OK, NULL,
			"it has loaded no " LIBRARY
			" yet, and would find %s unless its RUNPATH names another folder",
			*path ? path : OURS);
}

/* ---- the socket, and what HELLO needs ------------------------------------------------------------ */

static void check_socket(struct check *k)
{
	const char *path = environment(k, "FFL_SOCKET");
	const char *folder = json_string_value(json_object_get(k->container, "directory"));
	char own[PATH_MAX];
	struct stat inside, st;

	if (!folder) /* there is no router that tells which socket it must be */
		return;
	if (!path || !*path)
		path = FF_SOCKET_DEFAULT;
	snprintf(own, sizeof(own), "%s/ffr.sock", folder);
	if (stat(own, &st))
		finding(k->f, FINDING_PROBLEM, NULL, "%s: %s", own, strerror(errno));
	else if (!stat_inside(k, path, &inside))
		finding(k->f, FINDING_PROBLEM, NULL,
			"%s is not there: start the container with the flags of ffctl container show "
			"%s --docker",
			path, str_of(k->container, "name"));
	else if (inside.st_dev != st.st_dev || inside.st_ino != st.st_ino)
		finding(k->f, FINDING_PROBLEM, NULL, "%s is not the socket of container %s", path,
			str_of(k->container, "name"));
	else
		finding(k->f, FINDING_OK, NULL, "%s is the container's socket", path);
}

/* The number behind "Uid:" of its status that is in force, or -1. */
static long effective_user(const struct check *k)
{
	FILE *f = proc_open(k, "status");
	char line[256];
	long uid = -1;

	while (f && fgets(line, sizeof(line), f))
		if (sscanf(line, "Uid: %*d %ld", &uid) == 1)
			break;
	if (f)
		fclose(f);
	return uid;
}

static void check_memory(struct check *k)
{
	long uid = effective_user(k);
	struct stat st;
	char path[64];

	if (!stat_inside(k, "/proc/version", &st))
		finding(k->f, FINDING_PROBLEM, NULL,
			"no /proc is mounted there: it cannot open its own memory");
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)k->pid);
	if (uid > 0 && !stat(path, &st) && st.st_uid != (uid_t)uid)
		finding(k->f, FINDING_PROBLEM, NULL,
			"it cannot open its own memory: it has changed its user (set-user-ID, file "
			"capabilities), or said PR_SET_DUMPABLE 0");
}

static void check_cgroup(struct check *k)
{
	const char *must = json_string_value(json_object_get(k->container, "cgroup"));
	char is[CGROUP_MAX];
	int err;

	if (!must)
		return;
	err = cgroup_of(k->pid, is);
	if (err)
		finding(k->f, FINDING_PROBLEM, NULL, "its cgroup cannot be found out: %s",
			strerror(-err));
	else if (!cgroup_within(is, must))
		finding(k->f, FINDING_PROBLEM, NULL, "its cgroup is %s, and the container's is %s",
			is, must);
	else
		finding(k->f, FINDING_OK, NULL, "it is in the container's cgroup");
}

/* ---- the command ------------------------------------------------------------------------------- */

static bool has_session(struct check *k)
{
	json_t *s;
	size_t i;

	json_array_foreach(json_object_get(k->container, "sessions"), i, s)
		if (int_of(s, "pid") == k->pid) {
			finding(k->f, FINDING_OK, NULL, "it has the device open");
			return true;
		}
	return false;
}

static void check_all(struct check *k)
{
	check_direct(k);
	if (has_session(k) || !check_program(k))
		return;
	check_library(k);
	check_socket(k);
	check_memory(k);
	check_cgroup(k);
	if (k->f->problems == k->before && json_object_get(k->container, "directory"))
		finding(k->f, FINDING_OK, NULL,
			"nothing is in its way: FFL_LOG=debug in its environment has the library tell "
			"what it does; of a program that ends at once, ldd in the container names the "
			"library that it loads");
}

pid_t pid_parse(const char *text)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (*end || end == text || errno || n <= 0 || n > INT_MAX)
		usage_fail("--pid: \"%s\" is no process's number", text);
	return (pid_t)n;
}

void check_process(struct findings *f, const json_t *container, pid_t pid)
{
	struct check k = { .pid = pid, .container = container, .f = f, .before = f->problems };
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/root", (int)pid);
	k.root = open(path, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (k.root < 0)
		fail("process %d: %s", (int)pid,
		     errno == ENOENT ? "there is none" : strerror(errno));
	check_all(&k);
	close(k.root);
}

void cmd_container_check(int argc, char **argv)
{
	static const struct option options[] = { { "pid", required_argument, NULL, 'p' }, { 0 } };
	struct findings f = { 0 };
	json_t *answer;
	pid_t pid = 0;
	int o;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 'p')
			option_fail(o, argv);
		pid = pid_parse(optarg);
	}
	if (optind + 1 != argc || !pid)
		usage_fail("container check: give a container's name, and --pid of a process");
	answer = router_itself(
		json_pack("{s:s, s:s}", "op", "container_show", "name", argv[optind]), "", 0);
	check_process(&f, json_object_get(answer, "container"), pid);
	json_decref(answer);
	findings_end(&f);
}
