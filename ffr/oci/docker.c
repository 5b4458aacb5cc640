/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * docker.c - the labels that `docker run` was given. A runtime is not told of them (annotations Docker knows from 25 on),
 * so they are looked up where dockerd keeps them: in the container's config.v2.json, below the folder that the
 * container's root is in too. An image's own labels are mixed with them there, and an image is anybody's: what
 * the image's configuration has by that name is not the command line's word, whatever its value.
 */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ffr/oci/oci.h"

#define CONFIG_MAX (8 << 20)
#define DIGEST	   "sha256:"
#define DIGEST_HEX 64

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

/* A file of root's, which nobody else can have written. */
static json_t *read_roots(const char *path)
{
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	json_t *j = NULL;
	struct stat st;

	if (fd < 0)
		return NULL;
	if (!fstat(fd, &st) && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    !(st.st_mode & 0022))
		j = oci_read_json(fd, CONFIG_MAX);
	close(fd);
	return j;
}

static json_t *labels_of(const json_t *j, const char *key)
{
	json_t *labels = json_object_get(json_object_get(j, key), "Labels");

	return json_is_object(labels) ? labels : NULL;
}

/* The configuration of the image that it was made of. */
static json_t *image_config(const char *root, const char *driver, const char *digest)
{
	const char *hex = digest + strlen(DIGEST);
	char path[PATH_MAX];

	if (strncmp(digest, DIGEST, strlen(DIGEST)) || strlen(hex) != DIGEST_HEX ||
	    strspn(hex, "0123456789abcdef") != DIGEST_HEX ||
	    snprintf(path, sizeof(path), "%s/image/%s/imagedb/content/sha256/%s", root, driver,
		     hex) >= (int)sizeof(path))
		return NULL;
	return read_roots(path);
}

json_t *docker_labels(const char *rootfs, const char *id)
{
	char root[PATH_MAX], path[PATH_MAX];
	json_t *j, *image, *images, *given = NULL;
	const char *driver, *digest, *key;
	json_t *value;

	if (!split_root(rootfs, root, &driver) ||
	    snprintf(path, sizeof(path), "%s/containers/%s/config.v2.json", root, id) >=
		    (int)sizeof(path))
		return json_object();
	j = read_roots(path);
	digest = json_string_value(json_object_get(j, "Image"));
	image = digest ? image_config(root, driver, digest) : NULL;
	if (image)
		given = json_copy(labels_of(j, "Config"));
	images = labels_of(image, "config");
	json_object_foreach(images, key, value) {
		json_object_del(given, key);
	}
	json_decref(image);
	json_decref(j);
	return given ? given : json_object();
}
