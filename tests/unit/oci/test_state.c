/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/* build: ffr/oci/state.c ffr/oci/docker.c ffr/oci/wrap.c */
/*
 * test_state.c - what a runtime says, what the router is asked for it, and what becomes of a runtime's configuration.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/rig/unit/unit.h"
#include "ffr/oci/oci.h"

static char dir[] = "/tmp/test_state.XXXXXX", why[WHY_SZ];
static bool pool;

static int setup(void **state)
{
	(void)state;
	return mkdtemp(dir) ? 0 : -1;
}

static int teardown(void **state)
{
	char path[64];

	(void)state;
	snprintf(path, sizeof(path), "%s/config.json", dir);
	unlink(path);
	return rmdir(dir);
}

static void config(const char *text)
{
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "%s/config.json", dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* %s is the bundle. */
static int read_state(const char *fmt, struct oci_state *s)
{
	int err, fd = memfd_create("state", 0);

	assert_true(dprintf(fd, fmt, dir) >= 0);
	lseek(fd, 0, SEEK_SET);
	err = oci_state_read(fd, s, why);
	close(fd);
	return err;
}

static void states(void **state)
{
	static const char *const bad[] = {
		"",
		"[]",
		"{\"id\":\"a\"}",
		"{\"id\":\"../a\",\"pid\":1,\"bundle\":\"%s\"}",
		"{\"id\":\"a/b\",\"pid\":1,\"bundle\":\"%s\"}",
		"{\"id\":\"\",\"pid\":1,\"bundle\":\"%s\"}",
		"{\"id\":\"a\",\"pid\":-1,\"bundle\":\"%s\"}",
		"{\"id\":\"a\",\"pid\":4294967297,\"bundle\":\"%s\"}",
		"{\"id\":\"a\",\"pid\":1,\"bundle\":\"x%s\"}",
		"{\"id\":\"a\",\"pid\":1,\"bundle\":\"/nonexistent%s\"}",
	};
	struct oci_state s;

	(void)state;
	config("{\"root\":{\"path\":\"rootfs\"},\"hostname\":\"web\"}");
	assert_int_equal(read_state("{\"id\":\"4f-1\",\"pid\":7,\"bundle\":\"%s\"}", &s), 0);
	assert_string_equal(s.id, "4f-1");
	assert_int_equal(s.pid, 7);
	assert_string_equal(s.hostname, "web");
	assert_memory_equal(s.rootfs, dir, strlen(dir));
	assert_string_equal(s.rootfs + strlen(dir), "/rootfs");
	assert_false(s.net_admin);
	oci_state_free(&s);
	config("{\"root\":{\"path\":\"r\"},\"process\":{\"capabilities\":{\"bounding\":[\"CAP_CHOWN\",\"CAP_NET_ADMIN\"]}}}");
	assert_int_equal(read_state("{\"id\":\"a\",\"pid\":7,\"bundle\":\"%s\"}", &s), 0);
	assert_true(s.net_admin);
	oci_state_free(&s);
	/* one that has stopped has no configuration any more */
	assert_int_equal(read_state("{\"id\":\"a\",\"pid\":0,\"bundle\":\"/gone%s\"}", &s), 0);
	oci_state_free(&s);
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		assert_int_equal(read_state(bad[i], &s), -EINVAL);
	config("{\"root\":{}}");
	assert_int_equal(read_state("{\"id\":\"a\",\"pid\":7,\"bundle\":\"%s\"}", &s), -EINVAL);
}

static void what_does_not_fit_is_no_json(void **state)
{
	int fd = memfd_create("text", 0);
	json_t *j;

	(void)state;
	assert_int_equal(write(fd, "{}  ", 4), 4);
	for (size_t max = 2; max <= 5; max++) {
		lseek(fd, 0, SEEK_SET);
		j = oci_read_json(fd, max);
		assert_int_equal(json_is_object(j), max == 5);
		json_decref(j);
	}
	close(fd);
}

static json_t *request(const char *annotations, const struct oci_options *o)
{
	struct oci_state s = { .hostname = (char *)"web",
			       .rootfs = (char *)"/",
			       .bundle = (char *)"/" };
	json_t *r;

	s.annotations = json_loads(annotations, 0, NULL);
	assert_non_null(s.annotations);
	r = oci_request(&s, o, &pool, why);
	json_decref(s.annotations);
	return r;
}

static void assert_request(json_t *r, const char *want)
{
	json_t *w = json_loads(want, 0, NULL);

	assert_non_null(r);
	assert_true(json_equal(r, w));
	json_decref(w);
	json_decref(r);
}

static void annotations(void **state)
{
	static const char all[] =
		"{\"freeflow.io/name\":\"db\",\"freeflow.io/tenant\":\"red\","
		"\"freeflow.io/ip\":\"10.0.0.2,fd00::2\",\"freeflow.io/mode\":\"spin\","
		"\"freeflow.io/max-qp\":\"64\",\"freeflow.io/rate\":\"8kbit\",\"other\":\"x\"}";
	static const char *const bad[] = {
		"{\"freeflow.io/name\":\"../x\"}",   "{\"freeflow.io/ip\":\"10.0.0\"}",
		"{\"freeflow.io/ip\":\"\"}",	     "{\"freeflow.io/max-cows\":\"1\"}",
		"{\"freeflow.io/max-qp\":\"many\"}", "{\"freeflow.io/mode\":\"fast\"}",
		"{\"freeflow.io/tenant\":\"a/b\"}",  "{\"freeflow.io/max-qp\":64}",
	};
	const struct oci_options none = { 0 }, with = { .annotations = true };

	(void)state;
	/* nobody said that they count */
	assert_request(request(all, &none), "{\"op\":\"container_add\",\"name\":\"web\"}");
	assert_request(
		request(all, &with),
		"{\"op\":\"container_add\",\"name\":\"db\",\"tenant\":\"red\",\"mode\":\"spin\","
		"\"ips\":[\"10.0.0.2\",\"fd00::2\"],"
		"\"limits\":{\"max_qp\":64,\"tx_rate\":1000,\"rx_rate\":1000}}");
	assert_false(pool);
	assert_request(request("{\"freeflow.io/ip\":\"pool\"}", &with),
		       "{\"op\":\"container_add\",\"name\":\"web\"}");
	assert_true(pool);
	assert_request(request("{}", &(struct oci_options){ .pool = true }),
		       "{\"op\":\"container_add\",\"name\":\"web\"}");
	assert_true(pool);
	/* the hook's own word is last */
	assert_request(request(all, &(struct oci_options){ .name = "x", .tenant = "blue" }),
		       "{\"op\":\"container_add\",\"name\":\"x\",\"tenant\":\"blue\"}");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (request(bad[i], &with))
			fail_msg("%s is taken", bad[i]);
	assert_request(request("{\"freeflow.io/max-qp\":\"many\"}", &none),
		       "{\"op\":\"container_add\",\"name\":\"web\"}");
}

#define POD                                                                                             \
	"\"io.kubernetes.cri.sandbox-namespace\":\"red\",\"io.kubernetes.cri.sandbox-name\":\"web-1\"," \
	"\"io.kubernetes.cri.container-name\":\"app\""

static void pods(void **state)
{
	static const char *const bad[] = {
		"{}",
		"{\"io.kubernetes.cri.sandbox-namespace\":\"red\"}",
		"{\"io.kubernetes.pod.namespace\":\"../red\",\"io.kubernetes.pod.name\":\"w\","
		"\"io.kubernetes.container.name\":\"a\"}",
		"{" POD ",\"freeflow.io/tenant\":\"blue\"}",
		"{" POD ",\"freeflow.io/name\":\"db\"}",
		"{" POD ",\"freeflow.io/ip\":\"10.0.0.2\"}",
		"{" POD ",\"freeflow.io/max-cows\":\"2\"}",
		"{" POD ",\"freeflow.io/max-qp\":2}",
	};
	const struct oci_options o = { .kubernetes = true };
	char text[1024], longer[254];
	json_t *r, *again;

	(void)state;
	assert_request(request("{" POD ",\"freeflow.io/max-qp\":\"7\",\"freeflow.io/ip\":\"pool\"}",
			       &o),
		       "{\"op\":\"container_add\",\"name\":\"red.web-1.app\",\"tenant\":\"red\","
		       "\"pod\":true,\"limits\":{\"max_qp\":7}}");
	assert_true(pool);
	assert_request(
		request("{\"io.kubernetes.pod.namespace\":\"red\",\"io.kubernetes.pod.name\":\"w\","
			"\"io.kubernetes.container.name\":\"a\"}",
			&o),
		"{\"op\":\"container_add\",\"name\":\"red.w.a\",\"tenant\":\"red\",\"pod\":true}");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		if (request(bad[i], &o))
			fail_msg("%s is taken", bad[i]);
	/* longer than a name may be, and different at the end only */
	memset(longer, 'x', sizeof(longer) - 1);
	longer[sizeof(longer) - 1] = '\0';
	for (int i = 0; i < 2; i++) {
		snprintf(
			text, sizeof(text),
			"{\"io.kubernetes.pod.namespace\":\"red\",\"io.kubernetes.pod.name\":\"%s\","
			"\"io.kubernetes.container.name\":\"%c\"}",
			longer, 'a' + i);
		r = i ? r : request(text, &o);
		again = request(text, &o);
		assert_int_equal(json_equal(r, again), !i);
		json_decref(again);
	}
	json_decref(r);
}

/* ---- what Docker keeps ---- */

#define HEX "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

/* Folders on the way are made. */
static void put(const char *path, mode_t mode, const char *text)
{
	char whole[256];
	FILE *f;

	snprintf(whole, sizeof(whole), "%s/docker/%s", dir, path);
	for (char *p = strchr(whole + 1, '/'); p; p = strchr(p + 1, '/')) {
		*p = '\0';
		mkdir(whole, 0755);
		*p = '/';
	}
	f = fopen(whole, "w");
	assert_non_null(f);
	fputs(text, f);
	fclose(f);
	assert_int_equal(chmod(whole, mode), 0);
}

#define DOCKERS "/run/containerd/io.containerd.runtime.v2.task/moby"
#define PODMANS "/var/lib/containers/storage/overlay-containers"

static const char *bundle = PODMANS; /* the container's, without its id */

static json_t *words_of(const char *rootfs, const char *id)
{
	char path[256], whole[256];

	snprintf(path, sizeof(path), "%s/docker/%s", dir, rootfs);
	snprintf(whole, sizeof(whole), "%s/%s", bundle, id);
	why[0] = '\0';
	return docker_words(whole, path, id, why);
}

static void assert_words(const char *rootfs, const char *id, const char *want)
{
	json_t *w = json_loads(want, 0, NULL), *is = words_of(rootfs, id);

	assert_true(json_equal(is, w));
	json_decref(w);
	json_decref(is);
}

static void assert_refused(const char *rootfs, const char *id, const char *reason)
{
	assert_null(words_of(rootfs, id));
	assert_non_null(strstr(why, reason));
}

#define IMAGE	"image/overlay2/imagedb/content/sha256/" HEX
#define CONFIG	"containers/c1/config.v2.json"
#define REQUEST "containers/c1/hostconfig.json"
#define MERGED	"overlay2/layer/merged"
#define OURS	"{\"freeflow.io/max-qp\":\"7\",\"freeflow.io/tenant\":\"red\"}"

static const char labelled[] = "{\"Image\":\"sha256:" HEX
			       "\",\"Config\":{\"Labels\":{\"freeflow.io/tenant\":"
			       "\"red\",\"other\":\"x\",\"freeflow.io/max-qp\":\"7\"}}}";

static void labels_of_the_command_line(void **state)
{
	/* each is something to some parser, or was something of another image's */
	static const char *const says[] = {
		"{\"config\":{\"Labels\":{\"freeflow.io/tenant\":\"blue\"}}}",
		"{\"config\":{\"labels\":{\"freeflow.io/name\":\"payroll\"}}}",
		"{\"Config\":{\"Labels\":{\"freeflow.io/max-qp\":\"1\"}}}",
		"{\"config\":{\"Labels\":{\"\\u0066reeflow.io\\/tenant\":\"blue\"}}}",
		"{\"config\":{\"Labels\":{\"\\u0066\\u0072EEflow.io/\":1,\"\\u0046\\u0066\\u0072eeflow\\u002Eio/\":2}}}",
		"\\\\freeflow.io/",
		"not JSON freeflow.io/",
	};
	static const char *const silent[] = {
		"{\"config\":{\"Labels\":null}}",
		"{\"config\":{\"Labels\":{\"FREEFLOW.io/tenant\":\"blue\",\"freeflow\\u0000.io/tenant\":\"x\"}}}",
		"{\"config\":{\"Cmd\":[\"a \\u0026\\u0026 b \\\\u0066reeflow.i\"],\"x\":\"\\u00",
		"\\",
		"",
	};
	char command[64];

	(void)state;
	put(CONFIG, 0600, labelled);
	put(REQUEST, 0600, "{\"Annotations\":null}");
	for (size_t i = 0; i < sizeof(says) / sizeof(says[0]); i++) {
		put(IMAGE, 0600, says[i]);
		assert_refused(MERGED, "c1", "its image has that text");
	}
	for (size_t i = 0; i < sizeof(silent) / sizeof(silent[0]); i++) {
		put(IMAGE, 0600, silent[i]);
		assert_words(MERGED, "c1", OURS);
	}
	/* which are the image's, nobody knows: another driver, somebody else's file, a path as its number */
	assert_refused("vfs/layer/merged", "c1", "cannot be read");
	put(IMAGE, 0666, "{}");
	assert_refused(MERGED, "c1", "cannot be read");
	put("image/overlay2/imagedb/content/sha256/aa", 0600, "{}");
	put(CONFIG, 0600,
	    "{\"Image\":\"sha256:./././././././././././././././././././././././././././././././aa\","
	    "\"Config\":{\"Labels\":{\"freeflow.io/mode\":\"spin\"}}}");
	assert_refused(MERGED, "c1", "cannot be read");
	put(CONFIG, 0600,
	    "{\"Image\":\"sha256:../../etc\",\"Config\":{\"Labels\":{\"freeflow.io/mode\":\"spin\"}}}");
	assert_refused(MERGED, "c1", "cannot be read");
	put(CONFIG, 0600, "{\"Config\":{\"Labels\":{\"freeflow.io/mode\":\"spin\"}}}");
	assert_refused(MERGED, "c1", "cannot be read");
	/* who has no labels of ours needs no image */
	put(CONFIG, 0600,
	    "{\"Image\":\"sha256:../../etc\",\"Config\":{\"Labels\":{\"other\":\"x\"}}}");
	assert_words(MERGED, "c1", "{}");
	/* another engine's container */
	assert_words(MERGED, "c2", "{}");
	assert_words("merged", "c1", "{}");
	bundle = "/run/containerd/amoby";
	assert_words("merged", "c1", "{}");
	/* one of Docker's that has its record elsewhere, or none */
	bundle = DOCKERS;
	assert_refused("merged", "c1", "config.v2.json");
	assert_refused(MERGED, "c2", "config.v2.json");
	bundle = PODMANS;
	snprintf(command, sizeof(command), "rm -r %s/docker", dir);
	assert_int_equal(system(command), 0);
}

static void what_cannot_be_read_is_refused(void **state)
{
	char command[64];

	(void)state;
	put(IMAGE, 0600, "{}");
	put(REQUEST, 0600, "{}");
	put(CONFIG, 0666, labelled);
	assert_refused(MERGED, "c1", "config.v2.json");
	put(CONFIG, 0600,
	    "{\"Config\":{\"Labels\":{\"freeflow.io/tenant\":\"red\",\"a\\u0000b\":\"\"}}}");
	assert_refused(MERGED, "c1", "config.v2.json");
	put(CONFIG, 0600, "[]");
	assert_refused(MERGED, "c1", "config.v2.json");
	/* a NUL in somebody's label takes nothing away from the operator's */
	put(CONFIG, 0600,
	    "{\"Image\":\"sha256:" HEX
	    "\",\"Config\":{\"Labels\":{\"freeflow.io/tenant\":\"red\",\"a\":\"\\u0000\"}}}");
	assert_words(MERGED, "c1", "{\"freeflow.io/tenant\":\"red\"}");
	put(REQUEST, 0600, "{");
	assert_refused(MERGED, "c1", "hostconfig.json");
	snprintf(command, sizeof(command), "rm %s/docker/" REQUEST, dir);
	assert_int_equal(system(command), 0);
	assert_refused(MERGED, "c1", "hostconfig.json");
	snprintf(command, sizeof(command), "rm -r %s/docker", dir);
	assert_int_equal(system(command), 0);
}

static void annotations_come_first(void **state)
{
	char command[64];

	(void)state;
	put(CONFIG, 0600, labelled);
	put(IMAGE, 0600, "{\"config\":{\"Labels\":{\"freeflow.io/tenant\":\"blue\"}}}");
	put(REQUEST, 0600, "{\"Annotations\":{\"freeflow.io/rate\":\"1GB\",\"other\":\"x\"}}");
	assert_words(MERGED, "c1", "{\"freeflow.io/rate\":\"1GB\"}");
	snprintf(command, sizeof(command), "rm -r %s/docker", dir);
	assert_int_equal(system(command), 0);
}

#define LONG_NAME "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" /* 64 bytes */

static void words_count(void **state)
{
	static const char *const bad[][2] = {
		{ "device-name", "" },
		{ "device-name", "." },
		{ "device-name", ".." },
		{ "device-name", "a/b" },
		{ "device-name", "a b" },
		{ "device-name", "-d" },
		{ "device-name", "mlx5_\xc3\xa4" },
		{ "device-name", LONG_NAME },
		{ "devices", "0" },
		{ "devices", "17" },
		{ "devices", "" },
		{ "devices", "-1" },
		{ "devices", "4x" },
		{ "devices", "18446744073709551617" },
	};
	const struct oci_options none = { 0 };
	char root[64], command[64], text[256];
	struct oci_state s = { .id = "c1",
			       .hostname = (char *)"web",
			       .rootfs = root,
			       .bundle = (char *)DOCKERS "/c1" };

	(void)state;
	snprintf(root, sizeof(root), "%s/docker/" MERGED, dir);
	put(CONFIG, 0600, "{}");
	put(REQUEST, 0600,
	    "{\"Annotations\":{\"freeflow.io/max-qp\":\"7\",\"com.example\":\"x\"}}");
	assert_request(oci_request(&s, &none, &pool, why),
		       "{\"op\":\"container_add\",\"name\":\"web\",\"limits\":{\"max_qp\":7}}");
	put(REQUEST, 0600, "{\"Annotations\":{\"freeflow.io/max-cows\":\"1\"}}");
	assert_null(oci_request(&s, &none, &pool, why));
	assert_non_null(strstr(why, "no label or annotation freeflow.io/max-cows: "));
	put(REQUEST, 0600, "{\"Annotations\":{\"freeflow.io/max-qp\":\"0\"}}");
	assert_null(oci_request(&s, &none, &pool, why));
	assert_non_null(strstr(why, "freeflow.io/max-qp: \"0\" is no value"));
	put(REQUEST, 0600,
	    "{\"Annotations\":{\"freeflow.io/device-name\":\"mlx5_0\",\"freeflow.io/devices\":\"16\"}}");
	assert_request(
		oci_request(&s, &none, &pool, why),
		"{\"op\":\"container_add\",\"name\":\"web\",\"device_name\":\"mlx5_0\",\"devices\":16}");
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		snprintf(text, sizeof(text), "{\"Annotations\":{\"freeflow.io/%s\":\"%s\"}}",
			 bad[i][0], bad[i][1]);
		put(REQUEST, 0600, text);
		assert_null(oci_request(&s, &none, &pool, why));
		assert_non_null(strstr(why, bad[i][0]));
		assert_non_null(strstr(why, "is no value of it"));
	}
	put(REQUEST, 0600, "{\"Annotations\":{\"freeflow.io/tenant\":\"red\\u0000x\"}}");
	assert_null(oci_request(&s, &none, &pool, why));
	put(REQUEST, 0600, "{");
	assert_null(oci_request(&s, &none, &pool, why));
	snprintf(command, sizeof(command), "rm -r %s/docker", dir);
	assert_int_equal(system(command), 0);
}

static void hooks_are_added(void **state)
{
	const char *const args[] = { "--tenant=red", NULL };
	json_t *c = json_loads("{\"hooks\":{\"createRuntime\":[{\"path\":\"/other\"}]},\"x\":1}", 0,
			       NULL);
	json_t *want = json_loads(
		"{\"x\":1,\"hooks\":{\"createRuntime\":[{\"path\":\"/other\"},"
		"{\"path\":\"/h\",\"args\":[\"ff-hook\",\"createRuntime\",\"--tenant=red\"]}],"
		"\"poststop\":[{\"path\":\"/h\",\"args\":[\"ff-hook\",\"poststop\",\"--tenant=red\"]}]}}",
		0, NULL);

	(void)state;
	assert_int_equal(wrap_config(c, "/h", args), 0);
	assert_true(json_equal(c, want));
	json_decref(c);
	json_decref(want);
	c = json_array();
	assert_int_equal(wrap_config(c, "/h", args), -EINVAL);
	json_decref(c);
}

int main(void)
{
	return UNIT_RUN_GROUP(setup, teardown, cmocka_unit_test(states),
			      cmocka_unit_test(what_does_not_fit_is_no_json),
			      cmocka_unit_test(annotations), cmocka_unit_test(pods),
			      cmocka_unit_test(labels_of_the_command_line),
			      cmocka_unit_test(what_cannot_be_read_is_refused),
			      cmocka_unit_test(annotations_come_first),
			      cmocka_unit_test(words_count), cmocka_unit_test(hooks_are_added));
}
