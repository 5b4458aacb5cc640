/* SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB */
/*
 * proto.c - requests checked against the table of ops, and structs to JSON and back. Used by the
 * orchestrator (request.c) and by its clients (client.c, the router's orch.c, ffctl). Any thread.
 *
 * Tests: unit/orch/test_orch.c, unit/ffo/store/zk/test_topic.c
 */
#include "ffo/base/proto.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ffr/abi/ff_proto.h"
#include "ffo/base/limits.h"

const char *const ffo_op_name[] = {
#define X(NAME, name, caller, host, operator) #name,
	FFO_OPS(X)
#undef X
};

const uint8_t ffo_op_caller[] = {
#define X(NAME, name, caller, host, operator) FFO_CALLER_##caller,
	FFO_OPS(X)
#undef X
};

static const bool for_operators[] = {
#define X(NAME, name, caller, host, operator)                                                      \
	FFO_CALLER_##caller == FFO_CALLER_ANY &&FFO_GRANT_##operator== FFO_GRANT_ALL,
	FFO_OPS(X)
#undef X
};

int ffo_op_for_operators(const char *name)
{
	for (int i = 0; i < FFO_NUM_OPS; i++)
		if (!strcmp(name, ffo_op_name[i]))
			return for_operators[i] ? i : -EOPNOTSUPP;
	return -EOPNOTSUPP;
}

const char *const ffo_mode_name[] = {
#define X(num, NAME, name) [num] = #name,
	FFO_MODES(X)
#undef X
};

#define X(num, NAME, name) static_assert((int)FFO_MODE_##NAME == (int)FF_MODE_##NAME, "one number");
FFO_MODES(X)
#undef X
static_assert((int)FFO_NUM_MODES == (int)FF_MODE_NUM, "all modes");

/* ---- requests ------------------------------------------------------------------------------- */

enum field_type { T_NAME, T_TEXT, T_UINT, T_LIST, T_OBJ };
enum field_need { OPT, REQ };

struct field {
	const char *name;
	enum field_type type;
	enum field_need need;
	size_t offset; /* in the op's struct ffo_req_* */
};

#define F(op, type, field, need) { #field, T_##type, need, offsetof(struct ffo_req_##op, field) },
#define X(NAME, op, caller, host, operator)                                                        \
	static const struct field fields_##op[] = { FFO_FIELDS_##op(F, op){ 0 } };
FFO_OPS(X)
#undef X
#undef F

static const struct field *const op_fields[] = {
#define X(NAME, op, caller, host, operator) fields_##op,
	FFO_OPS(X)
#undef X
};
static_assert(sizeof(op_fields) / sizeof(op_fields[0]) == FFO_NUM_OPS, "one row for each op");

static bool text_ok(const char *s)
{
	size_t len = 0;

	for (; s[len]; len++)
		if (s[len] < ' ' || s[len] > '~')
			return false;
	return len < FFO_TEXT_MAX;
}

bool ffo_name_ok(const char *name)
{
	static const char chars[] =
		"_.-0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t len = strspn(name, chars);

	return len && len < FFO_NAME_MAX && !name[len] && !strchr("_.-", name[0]);
}

bool ffo_device_name(const char *first, unsigned devices, unsigned i, char name[FFO_NAME_MAX])
{
	const char *base = *first ? first : FF_DEVICE_NAME;
	size_t len = strlen(base), prefix = len;

	while (prefix && len - prefix < 9 && isdigit((unsigned char)base[prefix - 1]))
		prefix--;
	while (prefix + 1 < len && base[prefix] == '0')
		prefix++;
	if (devices <= 1)
		return snprintf(name, FFO_NAME_MAX, "%s", base) < (int)FFO_NAME_MAX;
	return snprintf(name, FFO_NAME_MAX, "%.*s%lu", (int)prefix, base,
			strtoul(base + prefix, NULL, 10) + i) < (int)FFO_NAME_MAX;
}

bool ffo_party_ok(const char *party)
{
	const char *slash = strchr(party, '/');
	char tenant[FFO_NAME_MAX];

	if (!slash)
		return ffo_name_ok(party);
	if (slash - party >= (ptrdiff_t)sizeof(tenant))
		return false;
	memcpy(tenant, party, (size_t)(slash - party));
	tenant[slash - party] = '\0';
	return ffo_name_ok(tenant) && ffo_name_ok(slash + 1);
}

static int take_field(const struct field *f, json_t *value, void *req, char *why, size_t size)
{
	char *at = (char *)req + f->offset;
	const char *what = NULL;

	switch (f->type) {
	case T_NAME:
		if (!json_is_string(value) || !ffo_name_ok(json_string_value(value)))
			what = "a name of letters, digits, '_', '.' and '-', below 64 bytes";
		else
			*(const char **)at = json_string_value(value);
		break;
	case T_TEXT:
		if (!json_is_string(value) || !text_ok(json_string_value(value)))
			what = "a short printable text";
		else
			*(const char **)at = json_string_value(value);
		break;
	case T_UINT:
		if (!json_is_integer(value) || json_integer_value(value) < 0 ||
		    json_integer_value(value) > UINT32_MAX)
			what = "an integer from 0 to 2^32-1";
		else
			*(uint32_t *)at = (uint32_t)json_integer_value(value);
		break;
	case T_LIST:
		if (!json_is_array(value))
			what = "an array";
		else
			*(json_t **)at = value;
		break;
	case T_OBJ:
		if (!json_is_object(value))
			what = "an object";
		else
			*(json_t **)at = value;
		break;
	}
	if (!what)
		return 0;
	snprintf(why, size, "field \"%s\" must be %s", f->name, what);
	return -EINVAL;
}

/* A printable excerpt of a string that a client sent, for a message or the log. */
static const char *excerpt(const char *s, char *buf, size_t size)
{
	size_t i;

	for (i = 0; i + 1 < size && s[i]; i++)
		buf[i] = s[i] >= ' ' && s[i] <= '~' ? s[i] : '?';
	buf[i] = '\0';
	return buf;
}

int ffo_req_parse(json_t *msg, enum ffo_op *op, union ffo_req *req, char *why, size_t size)
{
	const char *name = json_string_value(json_object_get(msg, "op"));
	const struct field *f;
	const char *key;
	char short_key[32];
	json_t *value;
	int i;

	if (!name) {
		snprintf(why, size, "field \"op\" must be a string");
		return -EINVAL;
	}
	for (i = 0; i < FFO_NUM_OPS && strcmp(name, ffo_op_name[i]); i++)
		;
	if (i == FFO_NUM_OPS) {
		snprintf(why, size, "no such op: \"%s\"",
			 excerpt(name, short_key, sizeof(short_key)));
		return -EOPNOTSUPP;
	}
	*op = i;

	memset(req, 0, sizeof(*req));
	json_object_foreach(msg, key, value) {
		if (!strcmp(key, "op") || !strcmp(key, "id"))
			continue;
		for (f = op_fields[i]; f->name && strcmp(key, f->name); f++)
			;
		if (!f->name) {
			snprintf(why, size, "unknown field \"%s\"",
				 excerpt(key, short_key, sizeof(short_key)));
			return -EINVAL;
		}
		if (take_field(f, value, req, why, size))
			return -EINVAL;
	}
	for (f = op_fields[i]; f->name; f++)
		if (f->need == REQ && !json_object_get(msg, f->name)) {
			snprintf(why, size, "field \"%s\" is missing", f->name);
			return -EINVAL;
		}
	return 0;
}

/* ---- names of errors and modes -------------------------------------------------------------- */

int ffo_mode_parse(const char *name)
{
	for (int i = 0; i < FFO_NUM_MODES; i++)
		if (!strcmp(name, ffo_mode_name[i]))
			return i;
	return -EINVAL;
}

/* What an answer can carry; anything else is told as EIO. */
static const int known_errors[] = { EPERM,	   ENOENT,	    EIO,	EAGAIN,
				    ENOMEM,	   EBUSY,	    EEXIST,	EINVAL,
				    EMSGSIZE,	   ENOSPC,	    EPROTO,	EBADMSG,
				    EOPNOTSUPP,	   ESTALE,	    EADDRINUSE, ENODATA,
				    EADDRNOTAVAIL, EPROTONOSUPPORT, ESHUTDOWN,	ENOTCONN };

#define NUM_ERRORS (sizeof(known_errors) / sizeof(known_errors[0]))

const char *ffo_error_name(int err)
{
	for (size_t i = 0; i < NUM_ERRORS; i++)
		if (err == -known_errors[i])
			return strerrorname_np(-err);
	return "EIO";
}

int ffo_error_number(const char *name)
{
	for (size_t i = 0; i < NUM_ERRORS; i++)
		if (!strcmp(name, strerrorname_np(known_errors[i])))
			return -known_errors[i];
	return -EPROTO;
}

/* ---- addresses ------------------------------------------------------------------------------ */

int ffo_addr_parse(const char *text, struct in6_addr *addr)
{
	struct in_addr v4;

	if (inet_pton(AF_INET6, text, addr) == 1)
		return IN6_IS_ADDR_V4MAPPED(addr) ? -EINVAL : 0;
	if (inet_pton(AF_INET, text, &v4) != 1)
		return -EINVAL;
	memset(addr, 0, 10);
	memset(&addr->s6_addr[10], 0xff, 2);
	memcpy(&addr->s6_addr[12], &v4, 4);
	return 0;
}

const char *ffo_addr_text(const struct in6_addr *addr, char *buf)
{
	if (IN6_IS_ADDR_V4MAPPED(addr))
		return inet_ntop(AF_INET, &addr->s6_addr[12], buf, INET6_ADDRSTRLEN);
	return inet_ntop(AF_INET6, addr, buf, INET6_ADDRSTRLEN);
}

int ffo_mgid_parse(const char *text, struct in6_addr *mgid)
{
	if (inet_pton(AF_INET6, text, mgid) != 1)
		return -EINVAL;
	if (IN6_IS_ADDR_V4MAPPED(mgid))
		return mgid->s6_addr[12] >> 4 == 0xe ? 0 : -EINVAL;
	return mgid->s6_addr[0] == 0xff ? 0 : -EINVAL;
}

bool ffo_container_same(const struct ffo_container *a, const struct ffo_container *b)
{
	return a->id == b->id && a->epoch == b->epoch && a->lid == b->lid && a->mode == b->mode &&
	       a->num_ips == b->num_ips && !memcmp(a->ip, b->ip, a->num_ips * sizeof(a->ip[0])) &&
	       !strcmp(a->name, b->name) && !strcmp(a->tenant, b->tenant) &&
	       !strcmp(a->host, b->host) && !strcmp(a->device_name, b->device_name) &&
	       a->devices == b->devices && !memcmp(&a->limits, &b->limits, sizeof(a->limits));
}

/* ---- structs -------------------------------------------------------------------------------- */

/* j["limits"], unless there are none: j, or NULL without memory. */
static json_t *add_limits(json_t *j, const struct ffo_limits *l)
{
	if (j && ffo_limits_any(l) && json_object_set_new(j, "limits", ffo_limits_to_json(l))) {
		json_decref(j);
		return NULL;
	}
	return j;
}

/* What was said of its devices, likewise. */
static json_t *add_devices(json_t *j, const struct ffo_container *c)
{
	if (j && ((*c->device_name &&
		   json_object_set_new(j, "device_name", json_string(c->device_name))) ||
		  (c->devices && json_object_set_new(j, "devices", json_integer(c->devices))))) {
		json_decref(j);
		return NULL;
	}
	return j;
}

json_t *ffo_container_to_json(const struct ffo_container *c)
{
	json_t *ips = json_array(), *j;
	char text[INET6_ADDRSTRLEN];

	for (unsigned int i = 0; i < c->num_ips; i++)
		if (json_array_append_new(ips, json_string(ffo_addr_text(&c->ip[i], text)))) {
			json_decref(ips);
			return NULL;
		}
	j = json_pack("{s:I, s:s, s:s, s:o, s:i, s:s, s:s, s:I, s:b}", "id", (json_int_t)c->id,
		      "name", c->name, "tenant", c->tenant, "ips", ips, "lid", (int)c->lid, "mode",
		      ffo_mode_name[c->mode], "host", c->host, "epoch", (json_int_t)c->epoch,
		      "active", (int)c->active);
	return add_limits(add_devices(j, c), &c->limits);
}

static int copy_name(char *to, const char *name)
{
	if (!ffo_name_ok(name))
		return -EINVAL;
	strcpy(to, name); /* a name fits into FFO_NAME_MAX */
	return 0;
}

int ffo_container_from_json(json_t *j, struct ffo_container *c)
{
	const char *name, *tenant, *mode, *host, *ip, *device = "";
	json_int_t id, lid, epoch, devices = 0;
	int active = 0;
	json_t *ips;

	memset(c, 0, sizeof(*c));
	if (json_unpack(j, "{s:I, s:s, s:s, s:o, s:I, s:s, s:s, s:I, s?b, s?s, s?I}", "id", &id,
			"name", &name, "tenant", &tenant, "ips", &ips, "lid", &lid, "mode", &mode,
			"host", &host, "epoch", &epoch, "active", &active, "device_name", &device,
			"devices", &devices))
		return -EINVAL;
	if (devices < 0 || devices > FFO_DEVICES_MAX ||
	    (*device && copy_name(c->device_name, device)))
		return -EINVAL;
	if (id < 1 || id > UINT32_MAX || lid < 1 || lid > FFO_LID_MAX || epoch < 1 ||
	    epoch > UINT32_MAX || ffo_mode_parse(mode) < 0 || copy_name(c->name, name) ||
	    copy_name(c->tenant, tenant) || copy_name(c->host, host) || !json_is_array(ips) ||
	    !json_array_size(ips) || json_array_size(ips) > FFO_ADDR_MAX ||
	    ffo_limits_from_json(json_object_get(j, "limits"), &c->limits))
		return -EINVAL;
	c->id = (uint32_t)id;
	c->lid = (uint16_t)lid;
	c->epoch = (uint32_t)epoch;
	c->mode = (uint8_t)ffo_mode_parse(mode);
	c->active = active;
	c->devices = (uint8_t)devices;
	for (; c->num_ips < json_array_size(ips); c->num_ips++) {
		ip = json_string_value(json_array_get(ips, c->num_ips));
		if (!ip || ffo_addr_parse(ip, &c->ip[c->num_ips]))
			return -EINVAL;
	}
	return 0;
}

json_t *ffo_host_to_json(const struct ffo_host *h)
{
	return json_pack("{s:s, s:s, s:s, s:b, s:I}", "name", h->name, "instance", h->instance,
			 "wire", h->wire, "up", (int)h->up, "last_seen", (json_int_t)h->last_seen);
}

int ffo_host_from_json(json_t *j, struct ffo_host *h)
{
	const char *name, *instance, *wire;
	json_int_t last_seen;
	int up;

	memset(h, 0, sizeof(*h));
	if (json_unpack(j, "{s:s, s:s, s:s, s:b, s:I}", "name", &name, "instance", &instance,
			"wire", &wire, "up", &up, "last_seen", &last_seen))
		return -EINVAL;
	if (copy_name(h->name, name) || !text_ok(instance) || !text_ok(wire) || last_seen < 0)
		return -EINVAL;
	strcpy(h->instance, instance);
	strcpy(h->wire, wire);
	h->up = up;
	h->last_seen = (uint64_t)last_seen;
	return 0;
}

int ffo_rule_make(struct ffo_rule *r, const char *a, const char *b, bool allow)
{
	bool swap = strcmp(a, b) > 0;

	if (!ffo_party_ok(a) || !ffo_party_ok(b))
		return -EINVAL;
	memset(r, 0, sizeof(*r)); /* two names and '/' fit into FFO_PARTY_MAX */
	strcpy(r->a, swap ? b : a);
	strcpy(r->b, swap ? a : b);
	r->allow = allow;
	return 0;
}

json_t *ffo_rule_to_json(const struct ffo_rule *r)
{
	return json_pack("{s:s, s:s, s:s}", "a", r->a, "b", r->b, "action",
			 r->allow ? "allow" : "deny");
}

int ffo_rule_from_json(json_t *j, struct ffo_rule *r)
{
	const char *a, *b, *action;

	if (json_unpack(j, "{s:s, s:s, s:s}", "a", &a, "b", &b, "action", &action))
		return -EINVAL;
	if (strcmp(action, "allow") && strcmp(action, "deny"))
		return -EINVAL;
	return ffo_rule_make(r, a, b, !strcmp(action, "allow"));
}

json_t *ffo_tenant_to_json(const struct ffo_tenant *t)
{
	return json_pack("{s:s, s:o}", "tenant", t->name, "limits", ffo_limits_to_json(&t->limits));
}

int ffo_tenant_from_json(json_t *j, struct ffo_tenant *t)
{
	const char *name = json_string_value(json_object_get(j, "tenant"));

	memset(t, 0, sizeof(*t));
	if (!name || copy_name(t->name, name))
		return -EINVAL;
	return ffo_limits_from_json(json_object_get(j, "limits"), &t->limits);
}

json_t *ffo_map_to_json(const struct ffo_map *m)
{
	json_t *j = json_array();
	int err = 0;

#define X(ctype, name) err |= json_array_append_new(j, json_integer((json_int_t)m->name));
	FFO_MAP_FIELDS(X)
#undef X
	if (!err)
		return j;
	json_decref(j);
	return NULL;
}

int ffo_map_from_json(json_t *j, struct ffo_map *m)
{
	json_t *value;
	json_int_t n;

	if (!json_is_array(j) || json_array_size(j) != FFO_MAP_COLS)
		return -EINVAL;
#define X(ctype, name)                                                                             \
	value = json_array_get(j, FFO_MAP_COL_##name);                                             \
	n = json_integer_value(value);                                                             \
	m->name = (ctype)n;                                                                        \
	if (!json_is_integer(value) || (json_int_t)m->name != n)                                   \
		return -EINVAL;
	FFO_MAP_FIELDS(X)
#undef X
	return m->container && m->rkey && m->session && m->epoch ? 0 : -EINVAL;
}

int ffo_map_id_from_json(json_t *j, uint32_t *container, uint32_t *rkey)
{
	json_t *id = json_array_get(j, 0), *key = json_array_get(j, 1);

	if (json_array_size(j) != 2 || !json_is_integer(id) || !json_is_integer(key))
		return -EINVAL;
	*container = (uint32_t)json_integer_value(id);
	*rkey = (uint32_t)json_integer_value(key);
	return *container == json_integer_value(id) && *rkey == json_integer_value(key) ? 0 :
											  -EINVAL;
}
