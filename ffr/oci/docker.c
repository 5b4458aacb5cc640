/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * docker.c - read the labels and annotations freeflow.io/... of a `docker run`, and never those of an image.
 *
 * dockerd writes two files for each container, below the folder that has the container's root, too.
 * hostconfig.json has the create request's annotations (Docker 25 and later) and nothing of the image. If it has
 * annotations of ours, labels are ignored. config.v2.json has the labels of the request and of the image
 * together. The author of the image is not trusted, so such labels count only if the text freeflow.io/ is nowhere
 * in the image's configuration. The text is searched instead of parsed, because dockerd's parser and ours may
 * read the same file differently. If a file cannot be read, or a container of Docker's has none, the container does
 * not start, because otherwise it would run without the limits and the tenant that the operator has set.
 *
 * Tests: unit/oci/test_state.c
 */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define CONFIG_MAX (8 << 20)
#define DIGEST	   "sha256:"
#define DIGEST_HEX 64
#define BUNDLES	   "/moby"

/* Docker's folder and storage driver, from "/var/lib/docker/DRIVER/.../merged": the driver is what image/ has, too. */
static bool split_root(const char *rootfs, char root[PATH_MAX], const char **driver)
{
	char *end[3];

	if (snprintf(root, PATH_MAX, "%s", rootfs) >= PATH_MAX)
		return false;
	for (int i = 0; i < 3; i++) { /* "merged", the layer, the driver */
		end[i] = strrchr(root, '/');
		if (!end[i] || end[i] == root)
			return false;
		*end[i] = '\0';
	}
	*driver = end[2] + 1;
	return true;
}

/* A file of root's that nobody else can have written: its text, the caller's, with a NUL behind it. 0 or -errno. */
static int read_roots(const char *path, char **text, size_t *len)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC), err = 0;
	struct stat st;
	ssize_t n = 1;

	*text = NULL;
	*len = 0;
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_uid != geteuid() || st.st_mode & 0022)
		err = -EPERM;
	else if (st.st_size >= CONFIG_MAX)
		err = -EFBIG;
	else if (!(*text = malloc((size_t)st.st_size + 1)))
		err = -ENOMEM;
	while (!err && n > 0 && *len < (size_t)st.st_size) {
		n = read(fd, *text + *len, (size_t)st.st_size - *len);
		if (n < 0)
			err = -errno;
		else
			*len += (size_t)n;
	}
	close(fd);
	if (err) {
		free(*text);
		*text = NULL;
	} else {
		(*text)[*len] = '\0';
	}
	return err;
}

/* NULL with why and *err; -ENOENT is for the caller to judge. */
static json_t *json_of_roots(const char *path, int *err, char why[WHY_SZ])
{
	json_error_t error;
	json_t *j = NULL;
	char *text;
	size_t len;

	*err = read_roots(path, &text, &len);
	if (*err) {
		snprintf(why, WHY_SZ, "%.400s: %s", path, strerror(-*err));
		return NULL;
	}
	j = json_loadb(text, len, JSON_ALLOW_NUL, &error);
	free(text);
	if (!json_is_object(j)) {
		snprintf(why, WHY_SZ, "%.300s: %.150s", path, j ? "no object" : error.text);
		json_decref(j);
		*err = -EINVAL;
		return NULL;
	}
	return j;
}

static int hex(char c)
{
	return c >= '0' && c <= '9' ? c - '0' :
	       c >= 'a' && c <= 'f' ? c - 'a' + 10 :
	       c >= 'A' && c <= 'F' ? c - 'A' + 10 :
				      -1;
}

/*
 * The text without JSON's escapes, in its place; it ends with a NUL, so nothing is read beyond it. Escapes are
 * the same wherever in the text they are, so this needs no parser to agree with dockerd's.
 */
static size_t unescape(char *text, size_t len)
{
	size_t out = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned code = 0;
		int n = 0;

		if (text[i] != '\\' || i + 1 == len) {
			text[out++] = text[i];
			continue;
		}
		i++;
		if (text[i] != 'u') {
			text[out++] =
				text[i]; /* "\/" is a slash; which control character it is does not matter */
			continue;
		}
		while (n < 4 && i + 1 < len && hex(text[i + 1]) >= 0) {
			code = code * 16 + (unsigned)hex(text[++i]);
			n++;
		}
		text[out++] = code && code < 0x80 ? (char)code : '?';
	}
	return out;
}

/* Does the image that the container was made of say anything of ours? 1, 0, or -errno: nobody knows. */
static int image_speaks(const char *root, const char *driver, const char *digest)
{
	char path[PATH_MAX], *text;
	const char *sum;
	size_t len;
	int err;

	if (!digest || strncmp(digest, DIGEST, strlen(DIGEST)))
		return -EINVAL;
	sum = digest + strlen(DIGEST);
	if (strlen(sum) != DIGEST_HEX || strspn(sum, "0123456789abcdef") != DIGEST_HEX ||
	    snprintf(path, sizeof(path), "%s/image/%s/imagedb/content/sha256/%s", root, driver,
		     sum) >= (int)sizeof(path))
		return -EINVAL;
	err = read_roots(path, &text, &len);
	if (err)
		return err;
	len = unescape(text, len);
	err = memmem(text, len, OCI_PREFIX, strlen(OCI_PREFIX)) != NULL;
	free(text);
	return err;
}

/* Those of ours. */
static void take_words(json_t *words, const json_t *from)
{
	const char *key;
	json_t *value;

	json_object_foreach((json_t *)from, key, value)
		if (!strncmp(key, OCI_PREFIX, strlen(OCI_PREFIX)))
			json_object_set(words, key, value);
}

static int take_labels(json_t *words, const json_t *config, const char *root, const char *driver,
		       char why[WHY_SZ])
{
	const char *digest = json_string_value(json_object_get(config, "Image"));
	int speaks;

	take_words(words, json_object_get(json_object_get(config, "Config"), "Labels"));
	if (!json_object_size(words))
		return 0;
	speaks = image_speaks(root, driver, digest);
	if (!speaks)
		return 0;
	snprintf(why, WHY_SZ,
		 "the container has labels " OCI_PREFIX
		 "..., and %s: whose they are cannot be told. Say it by docker run "
		 "--annotation (Docker 25 and later), or take them out of the image",
		 speaks > 0 ? "its image has that text, too" :
			      "its image's configuration cannot be read");
	return -EPERM;
}

/* dockerd has containerd keep its containers' bundles in a folder of this name, .../moby/ID. */
static bool is_dockers(const char *bundle)
{
	const char *id = strrchr(bundle, '/');

	return id - bundle >= (ptrdiff_t)strlen(BUNDLES) &&
	       !strncmp(id - strlen(BUNDLES), BUNDLES, strlen(BUNDLES));
}

json_t *docker_words(const char *bundle, const char *rootfs, const char *id, char why[WHY_SZ])
{
	char root[PATH_MAX], path[PATH_MAX];
	json_t *config = NULL, *request, *words;
	const char *driver;
	int err = -ENOENT;

	if (split_root(rootfs, root, &driver) &&
	    snprintf(path, sizeof(path), "%s/containers/%s/config.v2.json", root, id) <
		    (int)sizeof(path))
		config = json_of_roots(path, &err, why);
	if (!config && err == -ENOENT && !is_dockers(bundle))
		return json_object();
	if (!config && err == -ENOENT)
		snprintf(why, WHY_SZ,
			 "Docker's config.v2.json, which has the labels, is not where it should be "
			 "for a container with the root %.200s",
			 rootfs);
	if (!config)
		return NULL;
	words = json_object();
	snprintf(path, sizeof(path), "%.3000s/containers/%.900s/hostconfig.json", root, id);
	request = json_of_roots(path, &err, why);
	take_words(words, json_object_get(request, "Annotations"));
	if (!err && !json_object_size(words))
		err = take_labels(words, config, root, driver, why);
	json_decref(request);
	json_decref(config);
	if (!err)
		return words;
	json_decref(words);
	return NULL;
}
