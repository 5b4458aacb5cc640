/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * bundle.c - ffctl support-bundle: what whoever helps wants to see of a host, in one archive.
 *
 * The parts are outputs of programs, ffctl's own commands among them, and files. A part that cannot
 * be had says why, in its file: a bundle is asked for where something is broken. Keys, certificates
 * and the store are not read.
 *
 * Tests: system/support_bundle.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ffr/ffctl/ffctl.h"
#include "ffr/lib/version.h"

#define CONFIG	  "/etc/freeflow/ffr.conf"
#define FOLDER	  "freeflow-support" /* in the archive */
#define PATIENCE  "20"		     /* seconds that a program may take */
#define LOG_LINES "2000"
#define ARGS_MAX  8

extern char **environ;

/* ffctl's own commands: their JSON, but for doctor, which is for people. */
#define OURS(...)                                                                                  \
	{                                                                                          \
		"ffctl", __VA_ARGS__                                                               \
	}
/* clang-format off */
static const struct part {
	const char *file, *what;
	const char *args[ARGS_MAX]; /* "ffctl": this program, with the options that it has */
} parts[] = {
	{ "doctor.txt", "ffctl doctor", OURS("doctor") },
	{ "ping.json", "the router's version", OURS("--json", "ping") },
	{ "containers.json", "this host's containers, with addresses and limits", OURS("--json", "container", "list") },
	{ "cluster.json", "the containers of all hosts", OURS("--json", "container", "list", "--all") },
	{ "hosts.json", "the hosts", OURS("--json", "host", "list") },
	{ "policy.json", "the policy", OURS("--json", "policy", "list") },
	{ "tenants.json", "the tenants' limits", OURS("--json", "tenant", "list") },
	{ "stats.json", "counters and times", OURS("--json", "stats", "--latency", "--qps") },
	{ "events.json", "the last events", OURS("--json", "events", "-n", "1024") },
	{ "log.txt", "the last lines of the log of ffr and ffo",
	  { "journalctl", "-u", "ffr", "-u", "ffo", "-n", LOG_LINES, "--no-pager" } },
	{ "service.txt", "the state of the services",
	  { "systemctl", "status", "ffr", "ffo", "--no-pager", "--lines=0" } },
	{ "packages.txt", "versions of packages",
	  { "dpkg-query", "-W", "*freeflow*", "libibverbs1", "rdma-core", "libuv1" } },
	{ "kernel.txt", "the kernel's version", { "uname", "-a" } },
	{ "modules.txt", "the kernel's modules", { "cat", "/proc/modules" } },
	{ "memory.txt", "memory", { "cat", "/proc/meminfo" } },
	{ "cpus.txt", "CPUs", { "lscpu" } },
	{ "rdma.txt", "RDMA devices", { "ls", "-l", "/sys/class/infiniband" } },
	{ "sysctl.txt", "settings of the kernel that matter",
	  { "grep", "-r", ".", "/proc/sys/vm/unprivileged_userfaultfd", "/proc/sys/kernel/io_uring_disabled",
	    "/proc/sys/kernel/yama/ptrace_scope", "/proc/sys/vm/overcommit_memory" } },
};
/* clang-format on */
#define NUM_PARTS (sizeof(parts) / sizeof(parts[0]))

static char dir[PATH_MAX];   /* the folder that FOLDER is made in */
static const char *unwanted; /* the archive, until it is whole */

static const char *path_of(const char *file)
{
	static char path[PATH_MAX + 64];

	snprintf(path, sizeof(path), "%s/" FOLDER "%s%s", dir, *file ? "/" : "", file);
	return path;
}

static void clean_up(void)
{
	for (size_t i = 0; i < NUM_PARTS; i++)
		unlink(path_of(parts[i].file));
	unlink(path_of("ffr.conf"));
	unlink(path_of("README"));
	rmdir(path_of(""));
	rmdir(dir);
	if (unwanted)
		unlink(unwanted);
}

static FILE *part_open(const char *file)
{
	FILE *f = fopen(path_of(file), "wex");

	if (!f)
		fail("%s: %m", path_of(file));
	return f;
}

/*
 * Runs it, with its output to that descriptor. Its status, or -1: it cannot be run, or was killed.
 */
static int run(const char *const *args, int out)
{
	posix_spawn_file_actions_t actions;
	int err, status = 0;
	pid_t pid;

	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
	err = posix_spawnp(&pid, args[0], &actions, NULL, (char *const *)args, environ);
	posix_spawn_file_actions_destroy(&actions);
	if (err) {
		errno = err;
		return -1;
	}
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* What goes wrong is in the part itself: the shell has its words there, too. */
static void part_run(const struct part *p)
{
	static const char script[] = "exec 2>&1; exec \"$@\"";
	static char exe[PATH_MAX], seconds[16];
	bool ours = !strcmp(p->args[0], "ffctl");
	const char *args[ARGS_MAX + 12] = { "timeout", PATIENCE, "sh", "-c", script, "sh" };
	ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
	size_t at = 6, i = 0;
	FILE *f = part_open(p->file);
	int status;

	exe[n < 0 ? 0 : n] = '\0';
	if (ours) {
		snprintf(seconds, sizeof(seconds), "%d", answer_s);
		args[at++] = exe;
		args[at++] = "--admin";
		args[at++] = admin_socket();
		args[at++] = "--timeout";
		args[at++] = seconds;
		i = 1;
	}
	while (i < ARGS_MAX && p->args[i])
		args[at++] = p->args[i++];
	status = run(args, fileno(f));
	if (status)
		fprintf(f, "(%s: %s %d)\n", p->args[0],
			status < 0 ? "it was not run, status" : "it ended with status", status);
	if (fclose(f))
		fail("%s: %m", path_of(p->file));
}

/* A line of the configuration without what is behind auth=, unless that is a file's name. */
static void conf_line(FILE *to, const char *line)
{
	const char *auth = strstr(line, "auth=");
	size_t n = auth ? strcspn(auth + 5, "&\"' \t\n") : 0;

	if (!auth || auth[5] == '/')
		fputs(line, to);
	else
		fprintf(to, "%.*s(removed)%s", (int)(auth + 5 - line), line, auth + 5 + n);
}

/*
 * Comments are left out: they may say anything. All else of it are names of files, addresses and
 * numbers.
 */
static void part_conf(const char *path)
{
	FILE *from = fopen(path, "re"), *to = part_open("ffr.conf");
	bool comment = false;
	char *line = NULL;
	size_t size = 0;

	if (!from)
		fprintf(to, "(%s: %m)\n", path);
	while (from && getline(&line, &size, from) > 0) {
		const char *text = line + strspn(line, " \t");

		comment = comment || !strncmp(text, "/*", 2);
		if (!comment && *text != '#' && *text != '\n' && strncmp(text, "//", 2))
			conf_line(to, line);
		if (comment && strstr(text, "*/"))
			comment = false;
	}
	free(line);
	if (from)
		fclose(from);
	if (fclose(to))
		fail("%s: %m", path_of("ffr.conf"));
}

static void list_parts(FILE *to)
{
	fprintf(to, "  %-16s %s\n", "ffr.conf",
		"the router's configuration, without comments and credentials");
	for (size_t i = 0; i < NUM_PARTS; i++)
		fprintf(to, "  %-16s %s\n", parts[i].file, parts[i].what);
}

static void part_readme(void)
{
	FILE *f = part_open("README");

	fputs("ffctl support-bundle, ffctl " FF_VERSION "\n\n", f);
	list_parts(f);
	if (fclose(f))
		fail("%s: %m", path_of("README"));
}

static void archive(int fd)
{
	const char *const args[] = { "tar", "-C", dir, "-czf", "-", FOLDER, NULL };
	int status = run(args, fd);

	if (status < 0)
		fail("tar: %m");
	if (status || fsync(fd) || close(fd))
		fail("tar ended with status %d", status);
}

static void tell(const char *file)
{
	json_t *names = json_array();

	if (!json_out) {
		printf("%s has, of this host:\n", file);
		list_parts(stdout);
		puts("These are names, addresses and lines of the log, and no keys. Look at them before you give "
		     "the file away.");
	} else {
		json_array_append_new(names, json_string("ffr.conf"));
		for (size_t i = 0; i < NUM_PARTS; i++)
			json_array_append_new(names, json_string(parts[i].file));
		json_print(json_pack("{s:s, s:O}", "file", file, "parts", names));
	}
	json_decref(names);
}

void cmd_support_bundle(int argc, char **argv)
{
	static const struct option options[] = {
		{ "config", required_argument, NULL, 'c' },
		{ 0 },
	};
	const char *config = CONFIG, *tmp = getenv("TMPDIR");
	int o, fd;

	while ((o = getopt_long(argc, argv, ":", options, NULL)) != -1) {
		if (o != 'c')
			option_fail(o, argv);
		config = optarg;
	}
	if (optind == argc)
		usage_fail("support-bundle: a file's name is missing");
	no_more(argc, argv, optind + 1);
	if (orch_options.address)
		usage_fail(OF_A_ROUTER);
	fd = open(argv[optind], O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		fail_status(errno == EEXIST ? EXIT_EXISTS : EXIT_FAILURE, "%s: %m", argv[optind]);
	unwanted = argv[optind];
	umask(0077); /* of the parts, wherever they are unpacked */
	snprintf(dir, sizeof(dir), "%s/ffctl.XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir)) {
		unlink(unwanted);
		fail("%s: %m", dir);
	}
	fail_hook = clean_up;
	if (mkdir(path_of(""), 0700))
		fail("%s: %m", path_of(""));
	for (size_t i = 0; i < NUM_PARTS; i++)
		part_run(&parts[i]);
	part_conf(config);
	part_readme();
	archive(fd);
	unwanted = NULL;
	clean_up();
	tell(argv[optind]);
}
