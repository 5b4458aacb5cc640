/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * wrap.c - freeflow-runc: an OCI runtime for engines without CDI (Docker before 25). freeflow-runc puts our hooks into
 * the configuration of a container that is about to be created, and then executes runc. Its own options stand before
 * runc's, in the engine's configuration (runtimeArgs): --freeflow-runtime=PATH, and the hook's options (main.c) as
 * --freeflow-OPTION or --freeflow-OPTION=VALUE.
 *
 * Tests: system/runtime_options.sh, system/runtime_docker.sh
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define OWN	 "--freeflow-"
#define MAX_ARGS 8

static int add_hook(json_t *hooks, const char *kind, const char *hook, const char *const *args)
{
	json_t *list = json_object_get(hooks, kind), *words;

	words = json_pack("[s, s]", "ff-hook", kind);
	for (; *args; args++)
		json_array_append_new(words, json_string(*args));
	if (!json_is_array(list)) {
		list = json_array();
		json_object_set_new(hooks, kind, list);
	}
	return json_array_append_new(list, json_pack("{s:s, s:o}", "path", hook, "args", words)) ?
		       -ENOMEM :
		       0;
}

int wrap_config(json_t *config, const char *hook, const char *const *args)
{
	json_t *hooks = json_object_get(config, "hooks");

	if (!json_is_object(config))
		return -EINVAL;
	if (!json_is_object(hooks)) {
		hooks = json_object();
		json_object_set_new(config, "hooks", hooks);
	}
	return add_hook(hooks, "createRuntime", hook, args) ||
			       add_hook(hooks, "poststop", hook, args) ?
		       -ENOMEM :
		       0;
}

/* The file for a runtime's messages (runc's --log), or NULL. */
static const char *log_file;

/* Engines show what the runtime's log says, and not its standard error. */
__attribute__((noreturn)) static void fail(const char *what, const char *why)
{
	int fd = log_file ? open(log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW,
				 0600) :
			    -1;
	char text[PATH_MAX + 256];
	json_t *line;

	snprintf(text, sizeof(text), "freeflow-runc: %s: %s", what, why);
	fprintf(stderr, "%s\n", text);
	line = json_pack("{s:s, s:s}", "level", "error", "msg", text);
	if (fd >= 0 && line && !json_dumpfd(line, fd, JSON_COMPACT))
		dprintf(fd, "\n");
	exit(EXIT_FAILURE);
}

/* ---- our options ------------------------------------------------------------------------------ */

static const struct {
	const char *name;
	bool has_value;
} hook_option[] = {
	{ "name", true },  { "tenant", true },	    { "annotations", false },
	{ "pool", false }, { "kubernetes", false }, { "admin", true },
	{ "lib", true },   { "socket-dir", true },
};

/* The hook's word for that argument, which is one of ours. */
static void take_option(const char *arg, char *text, size_t size)
{
	const char *name = arg + strlen(OWN);
	size_t len = strcspn(name, "="), i = 0, num = sizeof(hook_option) / sizeof(hook_option[0]);

	while (i < num && (strncmp(hook_option[i].name, name, len) || hook_option[i].name[len]))
		i++;
	if (i == num)
		fail(arg, "there is no such option: see ff-hook(8)");
	if (hook_option[i].has_value && !name[len])
		fail(arg, "its value is missing: write it as " OWN "OPTION=VALUE, in one argument");
	if (!hook_option[i].has_value && name[len])
		fail(arg, "it takes no value");
	if (snprintf(text, size, "--%s", name) >= (int)size)
		fail(arg, "it is too long");
}

/* The path behind "--log" of runc's arguments. */
static const char *log_of(char **argv)
{
	for (; *argv; argv++) {
		if (!strcmp(*argv, "--log") && argv[1])
			return argv[1];
		if (!strncmp(*argv, "--log=", 6))
			return *argv + 6;
	}
	return NULL;
}

/* ---- the container's configuration --------------------------------------------------------------- */

/* A whole file or none takes the old one's place. */
static void change_config(const char *bundle, const char *const *args)
{
	char path[PATH_MAX], next[PATH_MAX + 8], hook[PATH_MAX];
	ssize_t n = readlink("/proc/self/exe", hook, sizeof(hook) - 1);
	json_error_t error;
	json_t *config;

	if (n < 0)
		fail("/proc/self/exe", strerror(errno));
	hook[n] = '\0';
	snprintf(path, sizeof(path), "%s/config.json", bundle);
	snprintf(next, sizeof(next), "%s.ff", path);
	config = json_load_file(path, 0, &error);
	if (!config)
		fail(path, error.text);
	if (wrap_config(config, hook, args) || json_dump_file(config, next, JSON_COMPACT) ||
	    rename(next, path))
		fail(path, "cannot be changed");
	json_decref(config);
}

/* Of "create" and "run", in any place: "--bundle B", "--bundle=B", "-b B"; the working directory else. */
static const char *bundle_of(char **argv)
{
	bool creates = false;
	const char *bundle = ".";

	for (; *argv; argv++) {
		if (!strcmp(*argv, "create") || !strcmp(*argv, "run"))
			creates = true;
		else if ((!strcmp(*argv, "--bundle") || !strcmp(*argv, "-b")) && argv[1])
			bundle = *++argv;
		else if (!strncmp(*argv, "--bundle=", 9))
			bundle = *argv + 9;
	}
	return creates ? bundle : NULL;
}

int wrap_main(int argc, char **argv)
{
	const char *runtime = "runc", *args[MAX_ARGS + 1] = { NULL }, *bundle;
	static char text[MAX_ARGS][256];
	int num = 0, n = 1;

	log_file = log_of(argv + 1);
	for (int i = 1; i < argc; i++) {
		if (strncmp(argv[i], OWN, strlen(OWN))) {
			argv[n++] = argv[i];
		} else if (!strncmp(argv[i], OWN "runtime=", strlen(OWN "runtime="))) {
			runtime = argv[i] + strlen(OWN "runtime=");
		} else {
			if (num == MAX_ARGS)
				fail(argv[i], "one option too many");
			take_option(argv[i], text[num], sizeof(text[num]));
			args[num] = text[num];
			num++;
		}
	}
	argv[n] = NULL;
	bundle = bundle_of(argv + 1);
	if (bundle)
		change_config(bundle, args);
	argv[0] = (char *)runtime;
	execvp(runtime, argv);
	fail(runtime, strerror(errno));
}
