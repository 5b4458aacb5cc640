/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * state.c - what an OCI runtime says of a container (runtime-spec: State, config.json), and the request to the router
 * for the container.
 *
 * The operator sets name, tenant, addresses, mode, devices and limits: by options of the hook, by the labels of docker
 * run's command line, or by annotations. Some engines (podman) copy annotations from the image, whose author is not the
 * operator. Therefore annotations count only if an option of the hook says so. The host name always comes from the
 * command line.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffo/base/limits_text.h"
#include "ffo/base/proto.h"
#include "ffr/oci/oci.h"

#define STATE_MAX  (1 << 20)
#define CONFIG_MAX (8 << 20)
#define POOL	   "pool" /* "ip": whichever the orchestrator has */

static bool id_ok(const char *id)
{
	size_t n = strlen(id);

	return n > 0 && n < OCI_ID_MAX && isalnum((unsigned char)id[0]) &&
	       n == strspn(id,
			   "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.+-");
}

json_t *oci_read_json(int fd, size_t max)
{
	char *text = malloc(max);
	size_t len = 0;
	ssize_t n = 1;
	json_t *j;

	while (text && n > 0 && len < max) {
		n = read(fd, text + len, max - len);
		len += n > 0 ? (size_t)n : 0;
	}
	j = text && len < max ? json_loadb(text, len, 0, NULL) : NULL;
	free(text);
	return j;
}

/* May its programs change addresses? Where nothing is said of capabilities, the runtime gives none. */
static bool may_net_admin(const json_t *config)
{
	const json_t *caps = json_object_get(
		json_object_get(json_object_get(config, "process"), "capabilities"), "bounding");
	const char *text;
	json_t *c;
	size_t i;

	json_array_foreach(caps, i, c) {
		text = json_string_value(c);
		if (text && !strcmp(text, "CAP_NET_ADMIN"))
			return true;
	}
	return false;
}

/* Root, host name and capabilities are of the bundle's config.json. */
static int read_config(struct oci_state *s, char why[WHY_SZ])
{
	char path[PATH_MAX];
	const char *root, *host;
	json_t *config;
	int fd, n;

	snprintf(path, sizeof(path), "%s/config.json", s->bundle);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	config = fd < 0 ? NULL : oci_read_json(fd, CONFIG_MAX);
	if (fd >= 0)
		close(fd);
	root = json_string_value(json_object_get(json_object_get(config, "root"), "path"));
	host = json_string_value(json_object_get(config, "hostname"));
	s->hostname = strdup(host ? host : "");
	s->net_admin = may_net_admin(config);
	n = root ? asprintf(&s->rootfs, "%s%s%s", root[0] == '/' ? "" : s->bundle,
			    root[0] == '/' ? "" : "/", root) :
		   -1;
	json_decref(config);
	if (n >= 0 && s->hostname)
		return 0;
	s->rootfs = NULL;
	snprintf(why, WHY_SZ, "%.300s has no root", path);
	return -EINVAL;
}

int oci_state_read(int fd, struct oci_state *s, char why[WHY_SZ])
{
	json_t *j = oci_read_json(fd, STATE_MAX);
	const char *id = json_string_value(json_object_get(j, "id"));
	const char *bundle = json_string_value(json_object_get(j, "bundle"));
	json_int_t pid = json_integer_value(json_object_get(j, "pid"));
	json_t *annotations = json_object_get(j, "annotations");
	int err = -EINVAL;

	*s = (struct oci_state){ 0 };
	snprintf(why, WHY_SZ, "standard input is no state of an OCI runtime");
	if (id && id_ok(id) && bundle && bundle[0] == '/' && pid >= 0 && pid <= INT_MAX) {
		strcpy(s->id, id);
		s->pid = (pid_t)pid;
		s->bundle = strdup(bundle);
		s->annotations = json_is_object(annotations) ? json_incref(annotations) :
							       json_object();
		err = s->bundle ? 0 : -ENOMEM;
		if (!err && read_config(s, why) && pid)
			err = -EINVAL;
	}
	json_decref(j);
	if (err)
		oci_state_free(s);
	return err;
}

void oci_state_free(struct oci_state *s)
{
	free(s->bundle);
	free(s->rootfs);
	free(s->hostname);
	json_decref(s->annotations);
	*s = (struct oci_state){ 0 };
}

/* ---- the router's request -------------------------------------------------------------------- */

/* "10.0.0.2,fd00::2" */
static bool take_ips(json_t *request, const char *text)
{
	char *copy = strdup(text), *save = NULL;
	json_t *ips = json_array();
	struct in6_addr a;
	bool ok = copy;

	for (char *ip = ok ? strtok_r(copy, ",", &save) : NULL; ip;
	     ip = strtok_r(NULL, ",", &save)) {
		ok = ok && !ffo_addr_parse(ip, &a);
		json_array_append_new(ips, json_string(ip));
	}
	ok = ok && json_array_size(ips);
	json_object_set_new(request, "ips", ips);
	free(copy);
	return ok;
}

/* A limit by the name of ffctl's option, "max-qp": its number. FFO_NUM_LIMITS: there is none of that name. */
static size_t limit_of(const char *option)
{
	char name[32];
	size_t i = 0;

	snprintf(name, sizeof(name), "%s", option);
	for (char *p = name; *p; p++)
		*p = *p == '-' ? '_' : *p;
	while (i < FFO_NUM_LIMITS && strcmp(name, ffo_limit[i].name))
		i++;
	return i;
}

static bool take_limit(json_t *request, const char *option, const char *text)
{
	json_t *limits = json_object_get(request, "limits");
	size_t i = limit_of(option);
	uint64_t value;

	if (i == FFO_NUM_LIMITS ||
	    ffo_limit_parse(ffo_limit[i].kind, ffo_limit[i].max, text, &value))
		return false;
	if (!limits) {
		limits = json_object();
		json_object_set_new(request, "limits", limits);
	}
	return !json_object_set_new(limits, ffo_limit[i].name, json_integer((json_int_t)value));
}

static bool take_devices(json_t *request, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	unsigned long n = strtoul(text, NULL, 10);

	return digits && digits < 3 && !text[digits] && n && n <= FFO_DEVICES_MAX &&
	       !json_object_set_new(request, "devices", json_integer((json_int_t)n));
}

static bool is_known(const char *key)
{
	static const char *const keys[] = { "name", "tenant",	   "ip",     "mode",
					    "rate", "device-name", "devices" };

	for (size_t i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return limit_of(key) < FFO_NUM_LIMITS;
}

static bool take_annotation(json_t *request, const char *key, const char *value)
{
	if (!strcmp(key, "name"))
		return !json_object_set_new(request, "name", json_string(value));
	if (!strcmp(key, "tenant"))
		return ffo_name_ok(value) &&
		       !json_object_set_new(request, "tenant", json_string(value));
	if (!strcmp(key, "ip") && !strcmp(value, POOL))
		return !json_object_set_new(request, POOL, json_true());
	if (!strcmp(key, "ip"))
		return take_ips(request, value);
	if (!strcmp(key, "mode"))
		return ffo_mode_parse(value) >= 0 &&
		       !json_object_set_new(request, "mode", json_string(value));
	if (!strcmp(key, "device-name"))
		return ffo_name_ok(value) &&
		       !json_object_set_new(request, "device_name", json_string(value));
	if (!strcmp(key, "devices"))
		return take_devices(request, value);
	if (!strcmp(key, "rate"))
		return take_limit(request, "tx-rate", value) &&
		       take_limit(request, "rx-rate", value);
	return take_limit(request, key, value);
}

/* ---- Kubernetes: who a container is, by its runtime's annotations ---- */

/* containerd's word for it, or CRI-O's; NULL. A pod's author chooses none of them. */
static const char *cri_word(const json_t *annotations, const char *containerd, const char *crio)
{
	const char *text = json_string_value(json_object_get(annotations, containerd));

	return text ? text : json_string_value(json_object_get(annotations, crio));
}

/* Of any length to one that a name may have: what is too long ends with a number made of all of it (FNV-1a). */
static void pod_name(char name[FFO_NAME_MAX], const char *space, const char *pod, const char *cont)
{
	uint64_t hash = 0xcbf29ce484222325u;
	char whole[3 * 256];
	int n = snprintf(whole, sizeof(whole), "%.253s.%.253s.%.253s", space, pod, cont);

	snprintf(name, FFO_NAME_MAX, "%.63s", whole);
	if (n < (int)FFO_NAME_MAX)
		return;
	for (const char *p = whole; *p; p++)
		hash = (hash ^ (uint8_t)*p) * 0x100000001b3u;
	snprintf(name, FFO_NAME_MAX, "%.46s-%016" PRIx64, whole, hash);
}

/* Name and tenant of a pod's container. False with why. */
static bool take_pod(json_t *request, const json_t *a, char why[WHY_SZ])
{
	const char *space =
		cri_word(a, "io.kubernetes.cri.sandbox-namespace", "io.kubernetes.pod.namespace");
	const char *pod = cri_word(a, "io.kubernetes.cri.sandbox-name", "io.kubernetes.pod.name");
	const char *cont =
		cri_word(a, "io.kubernetes.cri.container-name", "io.kubernetes.container.name");
	char name[FFO_NAME_MAX];

	if (!space || !pod || !cont || !ffo_name_ok(space)) {
		snprintf(why, WHY_SZ, "the runtime does not say whose pod this is");
		return false;
	}
	pod_name(name, space, pod, cont);
	json_object_set_new(request, "tenant", json_string(space));
	json_object_set_new(request, "name", json_string(name));
	json_object_set_new(request, "pod", json_true()); /* the router bounds its limits */
	return true;
}

/* A pod's author may say what it uses, not who it is. */
static bool take_pod_annotations(json_t *request, const json_t *annotations, char why[WHY_SZ])
{
	const char *key, *text;
	json_t *value;

	json_object_foreach((json_t *)annotations, key, value) {
		if (strncmp(key, OCI_PREFIX, strlen(OCI_PREFIX)))
			continue;
		text = json_string_value(value);
		if (text && strcmp(key, OCI_PREFIX "name") && strcmp(key, OCI_PREFIX "tenant") &&
		    (strcmp(key, OCI_PREFIX "ip") || !strcmp(text, POOL)) &&
		    take_annotation(request, key + strlen(OCI_PREFIX), text))
			continue;
		snprintf(why, WHY_SZ, "annotation %.100s: \"%.100s\" is not a pod's to say", key,
			 text ? text : "");
		return false;
	}
	return true;
}

static bool take_kubernetes(json_t *request, const json_t *annotations, char why[WHY_SZ])
{
	return take_pod(request, annotations, why) &&
	       take_pod_annotations(request, annotations, why);
}

/* Those of ours. False with why. */
static bool take_all(json_t *request, const json_t *words, const char *what, char why[WHY_SZ])
{
	const char *key, *text;
	json_t *value;

	json_object_foreach((json_t *)words, key, value) {
		text = json_string_value(value);
		if (strncmp(key, OCI_PREFIX, strlen(OCI_PREFIX)) ||
		    (text && strlen(text) == json_string_length(value) &&
		     take_annotation(request, key + strlen(OCI_PREFIX), text)))
			continue;
		if (is_known(key + strlen(OCI_PREFIX)))
			snprintf(why, WHY_SZ, "%s %.100s: \"%.100s\" is no value of it", what, key,
				 text ? text : "");
		else
			snprintf(why, WHY_SZ,
				 "there is no %s %.100s: there are name, tenant, ip, mode, rate, "
				 "device-name, devices and the limits of ffctl(8)",
				 what, key);
		return false;
	}
	return true;
}

/* What docker run was given counts always: it is the operator's word. */
static bool take_docker(json_t *request, const struct oci_state *s, char why[WHY_SZ])
{
	json_t *words = docker_words(s->bundle, s->rootfs, s->id, why);
	bool ok = words && take_all(request, words, "label or annotation", why);

	json_decref(words);
	return ok;
}

json_t *oci_request(const struct oci_state *s, const struct oci_options *o, bool *pool,
		    char why[WHY_SZ])
{
	json_t *request = json_pack("{s:s, s:s}", "op", "container_add", "name", s->hostname);
	const char *name;

	if (o->tenant)
		json_object_set_new(request, "tenant", json_string(o->tenant));
	if ((o->kubernetes && !take_kubernetes(request, s->annotations, why)) ||
	    (o->annotations && !o->kubernetes &&
	     !take_all(request, s->annotations, "annotation", why)) ||
	    (!o->kubernetes && !take_docker(request, s, why))) {
		json_decref(request);
		return NULL;
	}
	*pool = json_is_true(json_object_get(request, POOL)) || o->pool;
	json_object_del(request, POOL);
	if (o->name)
		json_object_set_new(request, "name", json_string(o->name));
	name = json_string_value(json_object_get(request, "name"));
	if (name && ffo_name_ok(name))
		return request;
	snprintf(why, WHY_SZ, "\"%.64s\" cannot be a container's name: give --hostname",
		 name ? name : "");
	json_decref(request);
	return NULL;
}
