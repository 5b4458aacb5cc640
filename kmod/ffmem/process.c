// SPDX-License-Identifier: GPL-2.0
/*
 * process.c - which processes a router may map, and who is a router.
 *
 * The kernel exports neither pidfd_get_pid() nor ptrace_may_access() to modules. A pidfd is known by
 * what only the kernel can make: an anonymous inode's file of that name (before pidfs), an inode of
 * pidfs (since 6.9). A descriptor of /proc/PID/mem is known by the file operations that one opened at
 * load has, and only if that one leads to the loader's own address space as expected; then the
 * check is the one that the kernel made at its open().
 *
 * Tests: vm/ffmem.sh
 */
#include <linux/cred.h>
#include <linux/file.h>
#include <linux/magic.h>
#include <linux/sched/mm.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "../compat.h"
#include "ffmem_int.h"

/* Routers and processes: an address space is never both. */
static DEFINE_MUTEX(ffmem_mms_lock);
static LIST_HEAD(ffmem_routers);
static LIST_HEAD(ffmem_processes);

static const struct file_operations *ffmem_proc_mem_fops;

int __init ffmem_process_init(void)
{
	struct file *f = filp_open("/proc/self/mem", O_RDONLY, 0);

	if (IS_ERR(f)) {
		pr_err("cannot open /proc/self/mem: %ld\n", PTR_ERR(f));
		return PTR_ERR(f);
	}
	if (file_inode(f)->i_sb->s_magic == PROC_SUPER_MAGIC && f->private_data == current->mm)
		ffmem_proc_mem_fops = f->f_op;
	fput(f);
	if (!ffmem_proc_mem_fops) {
		pr_err("this kernel's /proc/self/mem isn't as expected\n");
		return -ENODEV;
	}
	return 0;
}

/* ---- routers ----------------------------------------------------------------------------------- */

/* Binds the file to the caller's address space; a second time is an error. */
int ffmem_become_router(struct ffmem_file *file)
{
	struct ffmem_process *p;
	int ret = 0;

	mutex_lock(&ffmem_mms_lock);
	list_for_each_entry(p, &ffmem_processes, all) if (p->mm == current->mm) ret = -EDEADLK;
	if (file->mm)
		ret = -EALREADY;
	if (!ret) {
		mmgrab(current->mm);
		list_add(&file->all, &ffmem_routers);
		/* ffmem_call() reads it without the lock. */
		smp_store_release(&file->mm, current->mm);
	}
	mutex_unlock(&ffmem_mms_lock);
	return ret;
}

/* At the end of the file: its processes, and that its address space is a router. */
void ffmem_file_forget(struct ffmem_file *file)
{
	struct ffmem_process *p;
	int id;

	idr_for_each_entry(&file->processes, p, id) ffmem_process_put(p);
	if (!file->mm)
		return;
	mutex_lock(&ffmem_mms_lock);
	list_del(&file->all);
	mutex_unlock(&ffmem_mms_lock);
	mmdrop(file->mm);
}

/* ---- processes --------------------------------------------------------------------------------- */

static struct pid *ffmem_pidfd_pid(int fd)
{
	struct pid *pid = ERR_PTR(-EBADF);
	struct file *f = fget(fd);

	if (!f)
		return pid;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
	if (file_inode(f)->i_sb->s_magic == PID_FS_MAGIC)
		pid = get_pid(file_inode(f)->i_private);
#else
	if (file_inode(f)->i_sb->s_magic == ANON_INODE_FS_MAGIC && !f->f_op->owner &&
	    !strcmp(f->f_path.dentry->d_name.name, "[pidfd]"))
		pid = get_pid(f->private_data);
#endif
	fput(f);
	return pid;
}

/* Whether the holder of fd may read this memory, mm of task, and write it. Call with a user of mm held. */
static int ffmem_consent(int fd, struct task_struct *task, struct mm_struct *mm, bool *may_write)
{
	struct file *f;
	int ret = 0;

	if (fd == -1) {
		*may_write = true;
		return kmod_may_ptrace(task, mm) ? 0 : -EPERM;
	}
	f = fget(fd);
	if (!f)
		return -EBADF;
	if (f->f_op != ffmem_proc_mem_fops || !(f->f_mode & FMODE_READ))
		ret = -EBADF;
	else if (f->private_data != mm)
		ret = -ESRCH;
	*may_write = f->f_mode & FMODE_WRITE;
	fput(f);
	return ret;
}

static void ffmem_process_free(struct kref *ref)
{
	struct ffmem_process *p = container_of(ref, struct ffmem_process, ref);

	mutex_lock(&ffmem_mms_lock);
	list_del(&p->all);
	mutex_unlock(&ffmem_mms_lock);
	mmdrop(p->mm);
	put_pid(p->pid);
	kfree(p);
}

void ffmem_process_put(struct ffmem_process *p)
{
	kref_put(&p->ref, ffmem_process_free);
}

/* Enters it among the processes unless it is a router. */
static int ffmem_process_enter(struct ffmem_process *p)
{
	struct ffmem_file *r;
	int ret = 0;

	mutex_lock(&ffmem_mms_lock);
	list_for_each_entry(r, &ffmem_routers, all) if (r->mm == p->mm) ret = -EDEADLK;
	if (!ret)
		list_add(&p->all, &ffmem_processes);
	mutex_unlock(&ffmem_mms_lock);
	return ret;
}

static struct ffmem_process *ffmem_process_new(struct pid *pid, int mem_fd)
{
	struct task_struct *task = get_pid_task(pid, PIDTYPE_PID);
	struct ffmem_process *p;
	struct mm_struct *mm;
	int ret;

	if (!task)
		return ERR_PTR(-ESRCH);
	mm = get_task_mm(task);
	if (!mm) {
		put_task_struct(task);
		return ERR_PTR(-ESRCH);
	}
	p = kzalloc(sizeof(*p), GFP_KERNEL_ACCOUNT);
	ret = p ? ffmem_consent(mem_fd, task, mm, &p->may_write) : -ENOMEM;
	put_task_struct(task);
	if (ret)
		goto err_free;
	kref_init(&p->ref);
	p->mm = mm;
	ret = ffmem_process_enter(p);
	if (ret)
		goto err_free;
	mmgrab(mm);
	p->pid = get_pid(pid);
	mmput_async(mm);
	return p;

err_free:
	kfree(p);
	mmput_async(mm);
	return ERR_PTR(ret);
}

long ffmem_attach(struct ffmem_file *file, struct ffmem_attach *a)
{
	struct ffmem_process *p;
	struct pid *pid;
	int id;

	if (a->reserved || a->mem_fd < -1)
		return -EINVAL;
	pid = ffmem_pidfd_pid(a->pidfd);
	if (IS_ERR(pid))
		return PTR_ERR(pid);
	p = ffmem_process_new(pid, a->mem_fd);
	put_pid(pid);
	if (IS_ERR(p))
		return PTR_ERR(p);
	mutex_lock(&file->lock);
	id = -ENOSPC;
	if (file->nr_processes < ffmem_max_processes())
		id = idr_alloc_cyclic(&file->processes, p, 1, INT_MAX, GFP_KERNEL_ACCOUNT);
	if (id > 0) {
		p->id = id;
		file->nr_processes++;
	}
	mutex_unlock(&file->lock);
	if (id < 0) {
		ffmem_process_put(p);
		return id;
	}
	a->process = id;
	return 0;
}

long ffmem_detach(struct ffmem_file *file, const struct ffmem_detach *d)
{
	struct ffmem_process *p;
	long ret = 0;

	if (d->reserved)
		return -EINVAL;
	mutex_lock(&file->lock);
	p = idr_find(&file->processes, d->process);
	if (!p)
		ret = -ENOENT;
	else if (p->objects)
		ret = -EBUSY;
	else {
		idr_remove(&file->processes, p->id);
		file->nr_processes--;
	}
	mutex_unlock(&file->lock);
	if (!ret)
		ffmem_process_put(p);
	return ret;
}
