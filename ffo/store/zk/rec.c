/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * rec.c - see rec.h. No state. tests/fuzz/fuzz_zk.c feeds the parsers.
 */
#include "ffo/store/zk/rec.h"

#include "ffo/base/tenants.h"

#include <endian.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- JSON behind a version byte -------------------------------------------------------------- */

/* j is taken. */
static char *to_bytes(json_t *j, size_t *len)
{
	size_t need = j ? json_dumpb(j, NULL, 0, JSON_COMPACT) : 0;
	char *buf = need ? malloc(need + 1) : NULL;

	if (buf) {
		buf[0] = REC_VERSION;
		json_dumpb(j, buf + 1, need, JSON_COMPACT);
		*len = need + 1;
	}
	json_decref(j);
	return buf;
}

static int check_version(const char *data, size_t len)
{
	if (!len || len > REC_MAX)
		return -EBADMSG;
	return data[0] == REC_VERSION ? 0 : -EPROTO;
}

static int to_json(const char *data, size_t len, json_t **j)
{
	json_error_t error;
	int err = check_version(data, len);

	if (err)
		return err;
	*j = json_loadb(data + 1, len - 1, JSON_REJECT_DUPLICATES, &error);
	if (!*j)
		return json_error_code(&error) == json_error_out_of_memory ? -ENOMEM : -EBADMSG;
	return 0;
}

char *rec_container(const struct ffo_container *c, size_t *len)
{
	json_t *j = ffo_container_to_json(c);

	if (j)
		json_object_del(j, "active"); /* a node of its own */
	return to_bytes(j, len);
}

int rec_to_container(const char *data, size_t len, struct ffo_container *c)
{
	json_t *j;
	int err = to_json(data, len, &j);

	if (err)
		return err;
	err = ffo_container_from_json(j, c) ? -EBADMSG : 0;
	json_decref(j);
	c->active = false;
	return err;
}

char *rec_policy(const struct ffo_rule *rules, size_t n, size_t *len)
{
	json_t *list = json_array();

	for (size_t i = 0; i < n; i++)
		if (json_array_append_new(list, ffo_rule_to_json(&rules[i]))) {
			json_decref(list);
			return NULL;
		}
	return to_bytes(json_pack("{s:o}", "rules", list), len);
}

int rec_to_policy(const char *data, size_t len, struct ffo_rule *rules, size_t *n)
{
	json_t *j, *list;
	int err = to_json(data, len, &j);

	*n = 0;
	if (err)
		return err;
	list = json_object_get(j, "rules");
	if (!json_is_array(list) || json_array_size(list) > FFO_RULES_MAX)
		err = -EBADMSG;
	for (size_t i = 0; !err && i < json_array_size(list); i++) {
		if (ffo_rule_from_json(json_array_get(list, i), &rules[i]))
			err = -EBADMSG;
		/* Sorted, each pair once: policy_list_set() relies on it. */
		else if (i && (strcmp(rules[i - 1].a, rules[i].a) > 0 ||
			       (!strcmp(rules[i - 1].a, rules[i].a) &&
				strcmp(rules[i - 1].b, rules[i].b) >= 0)))
			err = -EBADMSG;
	}
	if (!err)
		*n = json_array_size(list);
	json_decref(j);
	return err;
}

char *rec_tenants(const struct ffo_tenant *list, size_t n, size_t *len)
{
	return to_bytes(json_pack("{s:o}", "tenants", tenants_to_json(list, n)), len);
}

int rec_to_tenants(const char *data, size_t len, struct ffo_tenant *list, size_t *n)
{
	json_t *j;
	int err = to_json(data, len, &j);

	*n = 0;
	if (err)
		return err;
	err = tenants_from_json(json_object_get(j, "tenants"), list, n) ? -EBADMSG : 0;
	json_decref(j);
	return err;
}

static void hex(char *to, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		snprintf(to + 2 * i, 3, "%02x", ((const uint8_t *)data)[i]);
}

static int unhex(uint8_t *to, const char *text, size_t len)
{
	unsigned int byte;

	if (strlen(text) != 2 * len || strspn(text, "0123456789abcdef") != 2 * len)
		return -EINVAL;
	for (size_t i = 0; i < len; i++) {
		sscanf(text + 2 * i, "%2x", &byte);
		to[i] = (uint8_t)byte;
	}
	return 0;
}

char *rec_up(const struct rec_up *u, size_t *len)
{
	char passwd[2 * sizeof(u->session.passwd) + 1];
	json_t *j = ffo_host_to_json(&u->host);

	if (!j)
		return NULL;
	if (u->session.id) {
		hex(passwd, u->session.passwd, sizeof(u->session.passwd));
		if (json_object_set_new(j, "session", json_integer(u->session.id)) ||
		    json_object_set_new(j, "passwd", json_string(passwd)) ||
		    json_object_set_new(j, "process", json_string(u->process))) {
			json_decref(j);
			return NULL;
		}
	}
	return to_bytes(j, len);
}

int rec_to_up(const char *data, size_t len, struct rec_up *u)
{
	const char *passwd = NULL, *process = "";
	json_int_t session = 0;
	json_t *j;
	int err = to_json(data, len, &j);

	memset(u, 0, sizeof(*u));
	if (err)
		return err;
	if (ffo_host_from_json(j, &u->host) ||
	    json_unpack(j, "{s?I, s?s, s?s}", "session", &session, "passwd", &passwd, "process",
			&process))
		err = -EBADMSG;
	else if (passwd && unhex((uint8_t *)u->session.passwd, passwd, sizeof(u->session.passwd)))
		err = -EBADMSG;
	else if (strlen(process) >= sizeof(u->process))
		err = -EBADMSG;
	if (!err) {
		u->session.id = passwd ? session : 0;
		strcpy(u->process, process);
	}
	json_decref(j);
	return err;
}

/* ---- numbers -------------------------------------------------------------------------------- */

size_t rec_number(uint32_t n, char *buf)
{
	return (size_t)snprintf(buf, REC_NUMBER_MAX, "%c%" PRIu32, REC_VERSION, n);
}

int rec_name_number(const char *name, uint32_t *n)
{
	size_t len = strspn(name, "0123456789");
	unsigned long long v;

	if (!len || len > 10 || name[len])
		return -EINVAL;
	v = strtoull(name, NULL, 10);
	*n = (uint32_t)v;
	return v > UINT32_MAX ? -EINVAL : 0;
}

int rec_to_number(const char *data, size_t len, uint32_t *n)
{
	char text[REC_NUMBER_MAX];
	int err = check_version(data, len);

	if (err)
		return err;
	if (len > sizeof(text))
		return -EBADMSG;
	memcpy(text, data + 1, len - 1);
	text[len - 1] = '\0';
	return strlen(text) == len - 1 && !rec_name_number(text, n) ? 0 : -EBADMSG;
}

/* ---- segments ------------------------------------------------------------------------------- */

#define SEG_VERSION 1

static void put32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
}

static void put64(uint8_t *at, uint64_t v)
{
	v = htole64(v);
	memcpy(at, &v, sizeof(v));
}

static uint32_t get32(const uint8_t *at)
{
	uint32_t v;

	memcpy(&v, at, sizeof(v));
	return le32toh(v);
}

static uint64_t get64(const uint8_t *at)
{
	uint64_t v;

	memcpy(&v, at, sizeof(v));
	return le64toh(v);
}

void seg_head(uint8_t *buf, uint32_t container, uint32_t epoch, uint32_t rows)
{
	memset(buf, 0, SEG_HEAD);
	buf[0] = SEG_VERSION;
	put32(buf + 4, container);
	put32(buf + 8, epoch);
	put32(buf + 12, rows);
}

void seg_row(uint8_t *buf, unsigned int i, const struct ffo_map *m)
{
	uint8_t *at = buf + SEG_HEAD + i * SEG_ROW;

	put32(at, m->rkey);
	put32(at + 4, m->session);
	put32(at + 8, m->access);
	put32(at + 12, m->key);
	put64(at + 16, m->addr);
	put64(at + 24, m->length);
	put64(at + 32, m->shadow);
}

int seg_parse(const uint8_t *data, size_t len, uint32_t container, uint32_t epoch)
{
	uint32_t rows;

	if (!len)
		return -EBADMSG;
	if (data[0] != SEG_VERSION)
		return -EPROTO;
	if (len < SEG_HEAD || data[1] || data[2] || data[3])
		return -EBADMSG;
	rows = get32(data + 12);
	if (rows > SEG_ROWS || len != SEG_HEAD + rows * SEG_ROW)
		return -EBADMSG;
	if (get32(data + 4) != container || get32(data + 8) != epoch)
		return -EBADMSG;
	for (uint32_t i = 0; i < rows; i++) {
		const uint8_t *at = data + SEG_HEAD + i * SEG_ROW;

		/* An rkey, a session, and a range that does not wrap. */
		if (!get32(at) || !get32(at + 4) ||
		    get64(at + 16) + get64(at + 24) < get64(at + 16))
			return -EBADMSG;
	}
	return (int)rows;
}

void seg_to_row(const uint8_t *data, unsigned int i, struct ffo_map *m)
{
	const uint8_t *at = data + SEG_HEAD + i * SEG_ROW;

	*m = (struct ffo_map){
		.container = get32(data + 4),
		.epoch = get32(data + 8),
		.rkey = get32(at),
		.session = get32(at + 4),
		.access = get32(at + 8),
		.key = get32(at + 12),
		.addr = get64(at + 16),
		.length = get64(at + 24),
		.shadow = get64(at + 32),
	};
}

/* ---- processes ------------------------------------------------------------------------------ */

#define PROCESS_SCAN "%36[0-9a-f-]:%" SCNu64 ":%d:%" SCNu64

struct process {
	char boot[37];
	uint64_t pidns; /* inode */
	int pid;
	uint64_t start; /* ticks after boot; 0: there is none of that PID */
};

static uint64_t start_of(int pid)
{
	char path[32], line[512], *at;
	uint64_t start = 0;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	/* The name, field 2, may hold anything; state is field 3, the start field 22. */
	if (fgets(line, sizeof(line), f) && (at = strrchr(line, ')')) && strncmp(at, ") Z", 3)) {
		for (int field = 2; at && field < 22; field++)
			at = strchr(at + 1, ' ');
		if (at)
			start = strtoull(at + 1, NULL, 10);
	}
	fclose(f);
	return start;
}

static void myself(struct process *p)
{
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	struct stat st;

	memset(p, 0, sizeof(*p));
	if (f) {
		if (fscanf(f, "%36[0-9a-f-]", p->boot) != 1)
			p->boot[0] = '\0';
		fclose(f);
	}
	p->pidns = stat("/proc/self/ns/pid", &st) ? 0 : st.st_ino;
	p->pid = getpid();
	p->start = start_of(p->pid);
}

void rec_process(char *buf)
{
	struct process p;

	myself(&p);
	snprintf(buf, FFO_TEXT_MAX, "%s:%" PRIu64 ":%d:%" PRIu64, p.boot, p.pidns, p.pid, p.start);
}

bool rec_process_dead(const char *text)
{
	struct process p, me;

	if (sscanf(text, PROCESS_SCAN, p.boot, &p.pidns, &p.pid, &p.start) != 4 || p.pid <= 0)
		return false;
	myself(&me);
	if (!*me.boot || !me.pidns || !me.start) /* /proc is not to be had */
		return false;
	return !strcmp(p.boot, me.boot) && p.pidns == me.pidns && start_of(p.pid) != p.start;
}
