// SPDX-License-Identifier: GPL-2.0-only
/*
 * Choosing a deliberate break: abis_mutant= on the command line, or the file in debugfs.
 * And a machine with CPUs that no SPTE can name: abis_cpus=.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include "debug.h"

#define MUTANT(id, ...)	{ ABIS_MUTANT_##id, __VA_ARGS__ }
static const struct {
	enum abis_mutant mutant;
	const char *name;
	const char *what;
} mutants[ABIS_MUTANTS] = {
#include "mutants.h"
};
#undef MUTANT

enum abis_mutant abis_mutant_chosen;

/* A name that is not known is none. */
static int choose(const char *name)
{
	int i;

	for (i = 0; i < ABIS_MUTANTS; i++) {
		if (!sysfs_streq(name, mutants[i].name))
			continue;
		WRITE_ONCE(abis_mutant_chosen, mutants[i].mutant);
		if (i)
			pr_warn("broken on purpose: %s (%s)\n", mutants[i].name, mutants[i].what);
		return 0;
	}
	return -EINVAL;
}

static int mutant_show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < ABIS_MUTANTS; i++)
		seq_printf(file, i == abis_mutant_chosen ? "[%s]\n" : "%s\n", mutants[i].name);
	return 0;
}

static int mutant_open(struct inode *inode, struct file *file)
{
	return single_open(file, mutant_show, NULL);
}

static ssize_t mutant_write(struct file *file, const char __user *from, size_t count,
			    loff_t *offset)
{
	char name[32] = "";

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, count))
		return -EFAULT;
	return choose(name) ?: count;
}

static const struct file_operations mutant_fops = {
	.open		= mutant_open,
	.read		= seq_read,
	.write		= mutant_write,
	.llseek		= seq_lseek,
	.release	= single_release,
};

static int __init mutant_setup(char *arg)
{
	int err = arg ? choose(arg) : -EINVAL;

	if (err)
		pr_err("abis_mutant=%s is no break that this kernel knows\n", arg ?: "");
	return err;
}
early_param("abis_mutant", mutant_setup);

unsigned int abis_cpus __ro_after_init = SPTE_CPUS;

static int __init cpus_setup(char *arg)
{
	int err = arg ? kstrtouint(arg, 0, &abis_cpus) : -EINVAL;

	if (err || abis_cpus > SPTE_CPUS) {
		pr_err("abis_cpus=%s is no number up to %u\n", arg ?: "", SPTE_CPUS);
		abis_cpus = SPTE_CPUS;
	}
	return err;
}
early_param("abis_cpus", cpus_setup);

void __init abis_debug_mutants_init(struct dentry *dir)
{
	debugfs_create_file("mutant", 0600, dir, NULL, &mutant_fops);
}
