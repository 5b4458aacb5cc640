// SPDX-License-Identifier: GPL-2.0
/*
 * sysfs.c - a port's files, below /sys/class/rapidio_port/rapidioN: settings and faults in vmport/,
 * counters in statistics/. docs/carriers/rapidio.md says what each means.
 */
#include <linux/sysfs.h>

#include "vmport_int.h"

static struct vmport_port *to_port(struct device *dev)
{
	return to_rio_mport(dev)->priv;
}

/* ---- settings ------------------------------------------------------------------------------------ */

#define SETTING(name, type, parse, format)                                                         \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)   \
	{                                                                                          \
		return sysfs_emit(buf, format "\n", READ_ONCE(to_port(dev)->set.name));            \
	}                                                                                          \
	static ssize_t name##_store(struct device *dev, struct device_attribute *attr,             \
				    const char *buf, size_t n)                                     \
	{                                                                                          \
		type value;                                                                        \
		int ret = parse;                                                                   \
                                                                                                   \
		if (ret)                                                                           \
			return ret;                                                                \
		WRITE_ONCE(to_port(dev)->set.name, value);                                         \
		vmport_wake(to_port(dev));                                                         \
		return n;                                                                          \
	}                                                                                          \
	static DEVICE_ATTR_RW(name)

SETTING(latency, u32, kstrtou32(buf, 0, &value), "%u");
SETTING(bandwidth, u64, kstrtou64(buf, 0, &value), "%llu");
SETTING(error_rate, u32, kstrtou32(buf, 0, &value), "%u");
SETTING(doorbell_loss, u32, kstrtou32(buf, 0, &value), "%u");
SETTING(doorbell_duplicate, u32, kstrtou32(buf, 0, &value), "%u");
SETTING(dma_error_rate, u32, kstrtou32(buf, 0, &value), "%u");
SETTING(doorbell_limit, u32, kstrtou32(buf, 0, &value), "%u");
SETTING(doorbell_hold, bool, kstrtobool(buf, &value), "%d");

static const char *const swrite_name[] = {
	[VMPORT_SWRITE_NEVER] = "never",
	[VMPORT_SWRITE_AUTO] = "auto",
	[VMPORT_SWRITE_ONLY] = "only",
};

static ssize_t swrite_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%s\n", swrite_name[READ_ONCE(to_port(dev)->set.swrite)]);
}

static ssize_t swrite_store(struct device *dev, struct device_attribute *attr, const char *buf,
			    size_t n)
{
	int i = sysfs_match_string(swrite_name, buf);

	if (i < 0)
		return i;
	WRITE_ONCE(to_port(dev)->set.swrite, i);
	return n;
}
static DEVICE_ATTR_RW(swrite);

static ssize_t link_show(struct device *dev, struct device_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%d\n", READ_ONCE(to_port(dev)->link));
}

static ssize_t link_store(struct device *dev, struct device_attribute *attr, const char *buf,
			  size_t n)
{
	bool up;
	int ret = kstrtobool(buf, &up);

	if (ret)
		return ret;
	vmport_link_set(to_port(dev), up);
	return n;
}
static DEVICE_ATTR_RW(link);

static ssize_t reset_store(struct device *dev, struct device_attribute *attr, const char *buf,
			   size_t n)
{
	if (sysfs_streq(buf, "soft"))
		vmport_port_reset(to_port(dev), false);
	else if (sysfs_streq(buf, "hard"))
		vmport_port_reset(to_port(dev), true);
	else
		return -EINVAL;
	return n;
}
static DEVICE_ATTR_WO(reset);

static struct attribute *setting_attrs[] = {
	&dev_attr_latency.attr,
	&dev_attr_bandwidth.attr,
	&dev_attr_error_rate.attr,
	&dev_attr_doorbell_loss.attr,
	&dev_attr_doorbell_duplicate.attr,
	&dev_attr_dma_error_rate.attr,
	&dev_attr_doorbell_limit.attr,
	&dev_attr_doorbell_hold.attr,
	&dev_attr_swrite.attr,
	&dev_attr_link.attr,
	&dev_attr_reset.attr,
	NULL,
};

static const struct attribute_group setting_group = {
	.name = "vmport",
	.attrs = setting_attrs,
};

/* ---- statistics ---------------------------------------------------------------------------------- */

#define STAT_FILE(name)                                                                            \
	static ssize_t name##_show(struct device *dev, struct device_attribute *attr, char *buf)   \
	{                                                                                          \
		return sysfs_emit(buf, "%lld\n",                                                   \
				  atomic64_read(&to_port(dev)->stats[VMPORT_STAT_##name]));        \
	}                                                                                          \
	static DEVICE_ATTR_RO(name);
VMPORT_STATS(STAT_FILE)

#define STAT_ATTR(name) &dev_attr_##name.attr,
static struct attribute *stat_attrs[] = { VMPORT_STATS(STAT_ATTR) NULL };

static const struct attribute_group stat_group = {
	.name = "statistics",
	.attrs = stat_attrs,
};

const struct attribute_group *vmport_port_groups[] = {
	&setting_group,
	&stat_group,
	NULL,
};
