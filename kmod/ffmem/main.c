// SPDX-License-Identifier: GPL-2.0
/*
 * main.c - the device /dev/ffmem: what opening, a call and closing do. See ../ffmem.h for what each
 * call means. The keeper opens it as root (the node is 0600) and passes it to the router, whose
 * address space the file is bound to at FFMEM_HELLO.
 *
 * Tests: vm/ffmem.sh
 */
#include <linux/lockdep.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "ffmem_int.h"

static unsigned int max_processes = 4096;
module_param(max_processes, uint, 0644);
MODULE_PARM_DESC(max_processes, "processes for each open of the device");
static unsigned int max_objects = FFMEM_OBJECTS_MAX - 1;
module_param(max_objects, uint, 0644);
MODULE_PARM_DESC(max_objects, "objects for each open of the device, at most 16383");
static unsigned long max_bytes = 1UL << 52;
module_param(max_bytes, ulong, 0644);
MODULE_PARM_DESC(max_bytes, "sum of the objects' lengths for each open, bytes");
static unsigned long max_pinned_bytes;
module_param(max_pinned_bytes, ulong, 0644);
MODULE_PARM_DESC(max_pinned_bytes, "pinned for each open, bytes; 0: half of the memory");
unsigned int ffmem_fault_wait_us = 1000;
module_param_named(fault_wait_us, ffmem_fault_wait_us, uint, 0644);
MODULE_PARM_DESC(fault_wait_us, "microseconds that an access waits for the process's mmap_lock");

/* The views' i_mmap_rwsem is taken in notifiers, below the same lock of the process's files. */
static struct lock_class_key ffmem_i_mmap_key;

static int ffmem_open(struct inode *inode, struct file *filp)
{
	struct ffmem_file *file = kzalloc(sizeof(*file), GFP_KERNEL_ACCOUNT);

	if (!file)
		return -ENOMEM;
	mutex_init(&file->lock);
	spin_lock_init(&file->event_lock);
	idr_init(&file->processes);
	idr_init(&file->objects);
	INIT_LIST_HEAD(&file->all);
	address_space_init_once(&file->mapping);
	lockdep_set_class(&file->mapping.i_mmap_rwsem, &ffmem_i_mmap_key);
	file->mapping.host = inode;
	file->mapping.a_ops = &empty_aops;
	filp->f_mapping = &file->mapping;
	filp->private_data = file;
	return nonseekable_open(inode, filp);
}

/* The last view is gone: each holds the file open. */
static int ffmem_release(struct inode *inode, struct file *filp)
{
	struct ffmem_file *file = filp->private_data;

	ffmem_unmap_all(file);
	ffmem_file_forget(file);
	idr_destroy(&file->objects);
	idr_destroy(&file->processes);
	if (file->event)
		eventfd_ctx_put(file->event);
	kfree(file);
	return 0;
}

unsigned int ffmem_max_processes(void)
{
	return max_processes;
}

unsigned int ffmem_max_objects(void)
{
	return min_t(unsigned int, max_objects, FFMEM_OBJECTS_MAX - 1);
}

u64 ffmem_max_bytes(void)
{
	return max_bytes;
}

u64 ffmem_max_pinned_pages(void)
{
	return (max_pinned_bytes ?: totalram_pages() * PAGE_SIZE / 2) >> PAGE_SHIFT;
}

static long ffmem_hello(struct ffmem_file *file, struct ffmem_hello *h)
{
	u32 theirs = h->version;
	int ret = 0;

	memset(h, 0, sizeof(*h));
	h->version = FFMEM_VERSION;
	if (theirs != FFMEM_VERSION) {
		pr_info_ratelimited(
			"refused a program of version %u (%s, pid %d): this module is version %u\n",
			theirs, current->comm, task_tgid_nr(current), FFMEM_VERSION);
		return -EPROTO;
	}
	ret = ffmem_become_router(file);
	h->page_size = PAGE_SIZE;
	h->max_processes = ffmem_max_processes();
	h->max_objects = ffmem_max_objects();
	h->max_bytes = ffmem_max_bytes();
	h->max_pinned_bytes = ffmem_max_pinned_pages() << PAGE_SHIFT;
	return ret;
}

static long ffmem_stat(struct ffmem_file *file, struct ffmem_stat *s)
{
	struct ffmem_object *o;
	u32 id = s->object;

	mutex_lock(&file->lock);
	o = idr_find(&file->objects, id);
	if (o)
		kref_get(&o->ref);
	mutex_unlock(&file->lock);
	if (!o)
		return -ENOENT;
	memset(s, 0, sizeof(*s));
	s->object = id;
	ffmem_object_stat(o, s);
	ffmem_object_put(o);
	return 0;
}

static long ffmem_set_event(struct ffmem_file *file, const struct ffmem_event *e)
{
	struct eventfd_ctx *ctx = NULL, *old;

	if (e->reserved || e->eventfd < -1)
		return -EINVAL;
	if (e->eventfd >= 0) {
		ctx = eventfd_ctx_fdget(e->eventfd);
		if (IS_ERR(ctx))
			return PTR_ERR(ctx);
	}
	spin_lock(&file->event_lock);
	old = file->event;
	file->event = ctx;
	spin_unlock(&file->event_lock);
	if (old)
		eventfd_ctx_put(old);
	return 0;
}

/* Called in notifiers. */
void ffmem_event(struct ffmem_file *file)
{
	spin_lock(&file->event_lock);
	if (file->event)
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 8, 0)
		eventfd_signal(file->event);
#else
		eventfd_signal(file->event, 1);
#endif
	spin_unlock(&file->event_lock);
}

union ffmem_arg {
	struct ffmem_hello hello;
	struct ffmem_attach attach;
	struct ffmem_detach detach;
	struct ffmem_map map;
	struct ffmem_unmap unmap;
	struct ffmem_populate populate;
	struct ffmem_stat stat;
	struct ffmem_event event;
};

static long ffmem_call(struct file *filp, unsigned int cmd, union ffmem_arg *a)
{
	struct ffmem_file *file = filp->private_data;
	struct mm_struct *mm = READ_ONCE(file->mm);

	if (mm && mm != current->mm)
		return -EPERM;
	if (cmd == FFMEM_HELLO)
		return ffmem_hello(file, &a->hello);
	if (!mm)
		return -ENOTCONN;
	switch (cmd) {
	case FFMEM_ATTACH:
		return ffmem_attach(file, &a->attach);
	case FFMEM_DETACH:
		return ffmem_detach(file, &a->detach);
	case FFMEM_MAP:
		return ffmem_map(file, &a->map);
	case FFMEM_UNMAP:
		return ffmem_unmap(file, &a->unmap);
	case FFMEM_POPULATE:
		return ffmem_populate(filp, &a->populate);
	case FFMEM_STAT:
		return ffmem_stat(file, &a->stat);
	case FFMEM_EVENT:
		return ffmem_set_event(file, &a->event);
	}
	return -ENOTTY;
}

/* The argument's size is in the call's number; the number is known to be one of ours by the switch. */
static long ffmem_ioctl(struct file *filp, unsigned int cmd, unsigned long arg)
{
	void __user *user = (void __user *)arg;
	union ffmem_arg a = {};
	long ret;

	if (_IOC_TYPE(cmd) != FFMEM_IOC || _IOC_SIZE(cmd) > sizeof(a))
		return -ENOTTY;
	if (copy_from_user(&a, user, _IOC_SIZE(cmd)))
		return -EFAULT;
	ret = ffmem_call(filp, cmd, &a);
	/* An answer also with an error: the version, how far it came. What can't be told isn't undone. */
	if (ret != -ENOTTY && (_IOC_DIR(cmd) & _IOC_READ) && copy_to_user(user, &a, _IOC_SIZE(cmd)))
		return -EFAULT;
	return ret;
}

static const struct file_operations ffmem_fops = {
	.owner = THIS_MODULE,
	.open = ffmem_open,
	.release = ffmem_release,
	.unlocked_ioctl = ffmem_ioctl,
	.compat_ioctl = compat_ptr_ioctl,
	.mmap = ffmem_mmap,
	.llseek = noop_llseek,
};

static struct miscdevice ffmem_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "ffmem",
	.fops = &ffmem_fops,
	.mode = 0600,
};

static int __init ffmem_init(void)
{
	int ret = ffmem_process_init();

	return ret ?: misc_register(&ffmem_device);
}

static void __exit ffmem_exit(void)
{
	misc_deregister(&ffmem_device);
}

module_init(ffmem_init);
module_exit(ffmem_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("freeflow: a router's view of its containers' memory");
MODULE_VERSION(__stringify(FFMEM_VERSION));
