// SPDX-License-Identifier: GPL-2.0-only
/*
 * The debug kernel asks the emulated machine's TLB oracle at every flush that is
 * left out, under the PTE lock, before anything is stored in the PTE's place:
 * no CPU may hold the entry. One in SAMPLE_EVERY flushes that are not left out
 * is asked, too: a site that never finds a holder is asked in the wrong way.
 *
 * A CPU may hold the entry if it must flush fully before it uses the address
 * space again: its context lags behind tlb_gen, and it is not running in it. A
 * CPU that is about to load CR3 in the kernel looks as if it did not have to:
 * wait for it. One that runs user code with the entry at hand does not.
 */

#define pr_fmt(fmt) "abis: " fmt

#include <linux/debugfs.h>
#include <linux/init.h>
#include <linux/mm.h>
#include <linux/seq_file.h>
#include <linux/string.h>

#include <asm/apic.h>
#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/tlbflush.h>

#include "abis.h"

#define ORACLE_LEAF		0x40000100	/* EAX: the last leaf; then a name */
#define ORACLE_NAME_EBX		0x54424c54	/* "TLBT" */
#define ORACLE_NAME_ECX		0x4c54424c	/* "LBTL" */
#define ORACLE_NAME_EDX		0x424c5442	/* "BTLB" */
#define ORACLE_ALL_CPUS		0xffffffff
#define ORACLE_OP_QUERY		1
#define ORACLE_FLAG_TLB		1

#define ORACLE_HOLDER_USER	BIT(0)	/* it runs user code in the entry's context */

#define HOLDERS_MAX		256
#define SAMPLE_EVERY		4
#define RETRIES			10000

/* To be aligned to its size, as the machine asks. */
struct oracle_request {
	u32 op;
	u32 status;
	u32 flags;
	u32 apic_id;
	u64 linear;
	u64 pages;
	u64 root[4];
	u64 buffer;	/* physical */
	u32 capacity;
	u32 count;
	u64 reserved[2];
	u64 holders[4];
} __aligned(128);

struct oracle_holder {
	u32 apic_id;
	u16 pcid;
	u8 kind;
	u8 size;
	u32 rights;
	u32 state;
	u64 linear;
	u64 physical;
	u64 root;
	u64 reserved2;
};

static_assert(sizeof(struct oracle_request) == 128);
static_assert(sizeof(struct oracle_holder) == 48);

struct oracle {
	struct oracle_request request;
	struct oracle_holder holders[HOLDERS_MAX];
};

struct abis_checks {
	u64 checked[ABIS_SITES][ABIS_REASONS];
	u64 sampled[ABIS_SITES];
	u64 sampled_held[ABIS_SITES];
	u64 unelided[ABIS_SITES];
};

static struct oracle *oracles;		/* one for each CPU */
static u32 oracle_msr;
static DEFINE_PER_CPU(struct abis_checks, checks);
static atomic_long_t violations;

enum abis_mutant abis_mutant_chosen;

static const char * const mutant_names[ABIS_MUTANTS] = {
	[ABIS_MUTANT_NONE]		= "none",
	[ABIS_MUTANT_GAP_NONE]		= "gap-none",
	[ABIS_MUTANT_IN_FLIGHT_IGNORED]	= "in-flight-ignored",
	[ABIS_MUTANT_NAIVE_CREDIT]	= "naive-credit",
	[ABIS_MUTANT_EARLY_CREDIT]	= "early-credit",
	[ABIS_MUTANT_PARTIAL_ROUND]	= "partial-round",
	[ABIS_MUTANT_NEVER_IS_ZERO]	= "never-is-zero",
	[ABIS_MUTANT_EPOCH_IGNORED]	= "epoch-ignored",
	[ABIS_MUTANT_ACCESSED_IGNORED]	= "accessed-ignored",
	[ABIS_MUTANT_CLEAR_UNSTAMPED]	= "clear-unstamped",
	[ABIS_MUTANT_UNCACHED_UNFLUSHED] = "uncached-unflushed",
	[ABIS_MUTANT_SOFTWARE_BIT]	= "software-bit",
};

/* Interrupts off: one question at a time on a CPU. Return: number of entries held. */
static unsigned int ask(struct oracle *oracle, struct mm_struct *mm, unsigned long addr)
{
	oracle->request = (struct oracle_request) {
		.op = ORACLE_OP_QUERY,
		.flags = ORACLE_FLAG_TLB,
		.apic_id = ORACLE_ALL_CPUS,
		.linear = addr & PAGE_MASK,
		.pages = 1,
		.root = { __pa(mm->pgd) },
		.buffer = virt_to_phys(oracle->holders),
		.capacity = HOLDERS_MAX,
	};
	wrmsrl(oracle_msr, virt_to_phys(&oracle->request));
	/* The WRMSR has written to memory that the compiler does not know of. */
	barrier();
	WARN_ONCE(oracle->request.status, "the oracle refused: %u\n",
		  oracle->request.status);
	WARN_ONCE(oracle->request.count > HOLDERS_MAX, "%u entries, %u looked at\n",
		  oracle->request.count, HOLDERS_MAX);
	return min_t(u32, oracle->request.count, HOLDERS_MAX);
}

static int cpu_of_apic_id(u32 apic_id)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		if (per_cpu(x86_cpu_to_apicid, cpu) == apic_id)
			return cpu;
	}
	return -1;
}

/* Must this CPU flush fully before it uses @mm again? It may be about to do so. */
static bool must_flush(const struct oracle_holder *holder, struct mm_struct *mm)
{
	int cpu = cpu_of_apic_id(holder->apic_id);
	const struct tlb_state *state;
	const struct tlb_context *context;
	unsigned int asid = holder->pcid ? holder->pcid - 1 : 0;

	if (cpu < 0 || asid >= TLB_NR_DYN_ASIDS)
		return false;
	state = &per_cpu(cpu_tlbstate, cpu);
	context = &state->ctxs[asid];
	if (READ_ONCE(context->ctx_id) != mm->context.ctx_id)
		return true;
	if (READ_ONCE(context->tlb_gen) >= atomic64_read(&mm->context.tlb_gen))
		return false;
	return READ_ONCE(state->loaded_mm) != mm ||
	       READ_ONCE(per_cpu(cpu_tlbstate_shared, cpu).is_lazy);
}

/* Return: a holder that may use the entry, or NULL. */
static const struct oracle_holder *find_holder(struct oracle *oracle,
					       struct mm_struct *mm, unsigned long addr)
{
	unsigned int i, count = ask(oracle, mm, addr);

	for (i = 0; i < count; i++) {
		if (!must_flush(&oracle->holders[i], mm))
			return &oracle->holders[i];
	}
	return NULL;
}

/* Would Linux have interrupted anybody? See should_flush_tlb(). */
static bool has_remote_target(struct mm_struct *mm)
{
	int cpu, this = raw_smp_processor_id();

	for_each_cpu(cpu, mm_cpumask(mm)) {
		if (cpu != this && !per_cpu(cpu_tlbstate_shared, cpu).is_lazy &&
		    per_cpu(cpu_tlbstate, cpu).loaded_mm == mm)
			return true;
	}
	return false;
}

void abis_debug_check(struct mm_struct *mm, unsigned long addr, pte_t pte,
		      spte_t spte, enum abis_site site, struct abis_verdict verdict)
{
	const struct oracle_holder *holder;
	struct oracle *oracle;
	unsigned long flags;
	int i;

	if (!oracle_msr)
		return;
	local_irq_save(flags);
	oracle = oracles + smp_processor_id();
	if (verdict.targets != ABIS_NONE) {
		if (this_cpu_inc_return(checks.unelided[site]) % SAMPLE_EVERY == 0) {
			this_cpu_inc(checks.sampled[site]);
			if (ask(oracle, mm, addr))
				this_cpu_inc(checks.sampled_held[site]);
		}
		goto out;
	}
	if (has_remote_target(mm))
		this_cpu_inc(checks.checked[site][verdict.reason]);
	for (i = 0; i < RETRIES; i++) {
		holder = find_holder(oracle, mm, addr);
		if (!holder)
			goto out;
		if (holder->state & ORACLE_HOLDER_USER)
			break;
		cpu_relax();
	}
	atomic_long_inc(&violations);
	pr_err("%s of 0x%lx elided (%s), but CPU %d holds it: pte %#lx spte %#x version %llu; held: frame %#llx rights %#x pcid %u, its tlb_gen %llu of %llu\n",
	       abis_site_names[site], addr, abis_reason_names[verdict.reason],
	       cpu_of_apic_id(holder->apic_id), pte_val(pte), spte,
	       (u64)atomic64_read(&mm->context.abis.version), holder->physical,
	       holder->rights, holder->pcid,
	       per_cpu(cpu_tlbstate, cpu_of_apic_id(holder->apic_id))
		       .ctxs[holder->pcid ? holder->pcid - 1 : 0].tlb_gen,
	       (u64)atomic64_read(&mm->context.tlb_gen));
	WARN_ON(1);
out:
	local_irq_restore(flags);
}

/*
 * A plain store over a live PTE may lose an accessed bit that hardware sets at
 * that moment, and then nobody stamps: whatever is stored must have it set.
 */
void abis_debug_set_ptes(struct mm_struct *mm, pte_t *ptep, pte_t pte, unsigned int nr)
{
	if (!abis_tracking() || mm == &init_mm || (pte_flags(pte) & _PAGE_ACCESSED))
		return;
	while (nr--) {
		WARN_ONCE(pte_flags(ptep_get(ptep + nr)) & _PAGE_PRESENT,
			  "a live PTE %#lx is overwritten with %#lx\n",
			  pte_val(ptep_get(ptep + nr)), pte_val(pte));
	}
}
EXPORT_SYMBOL_GPL(abis_debug_set_ptes);

#define SUM(field) ({						\
	u64 sum_ = 0;						\
	int cpu_;						\
								\
	for_each_possible_cpu(cpu_)				\
		sum_ += READ_ONCE(per_cpu(checks, cpu_).field);	\
	sum_;							\
})

void abis_debug_show(struct seq_file *file)
{
	u64 checked = 0, n;
	int site, reason;

	for (site = 0; site < ABIS_SITES; site++) {
		for (reason = 0; reason <= ABIS_PRIVATE; reason++) {
			n = SUM(checked[site][reason]);
			checked += n;
			seq_printf(file, "%s_checked_%s %llu\n", abis_site_names[site],
				   abis_reason_names[reason], n);
		}
		seq_printf(file, "%s_sampled %llu\n", abis_site_names[site],
			   SUM(sampled[site]));
		seq_printf(file, "%s_sampled_held %llu\n", abis_site_names[site],
			   SUM(sampled_held[site]));
	}
	seq_printf(file, "checked %llu\n", checked);
	seq_printf(file, "violations %ld\n", atomic_long_read(&violations));
}

static int mutant_show(struct seq_file *file, void *unused)
{
	int i;

	for (i = 0; i < ABIS_MUTANTS; i++)
		seq_printf(file, i == abis_mutant_chosen ? "[%s]\n" : "%s\n",
			   mutant_names[i]);
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
	int chosen;

	if (count >= sizeof(name))
		return -EINVAL;
	if (copy_from_user(name, from, count))
		return -EFAULT;
	chosen = sysfs_match_string(mutant_names, name);
	if (chosen < 0)
		return chosen;
	WRITE_ONCE(abis_mutant_chosen, chosen);
	if (chosen)
		pr_warn("broken on purpose: %s\n", mutant_names[chosen]);
	return count;
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
	int chosen = arg ? match_string(mutant_names, ABIS_MUTANTS, arg) : -EINVAL;

	if (chosen < 0) {
		pr_err("abis_mutant=%s is no break that this kernel knows\n", arg ?: "");
		return chosen;
	}
	abis_mutant_chosen = chosen;
	if (chosen)
		pr_warn("broken on purpose: %s\n", mutant_names[chosen]);
	return 0;
}
early_param("abis_mutant", mutant_setup);

static bool __init oracle_found(void)
{
	u32 eax, ebx, ecx, edx;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return false;
	cpuid(ORACLE_LEAF, &eax, &ebx, &ecx, &edx);
	if (eax <= ORACLE_LEAF || ebx != ORACLE_NAME_EBX ||
	    ecx != ORACLE_NAME_ECX || edx != ORACLE_NAME_EDX)
		return false;
	cpuid(ORACLE_LEAF + 1, &eax, &ebx, &ecx, &edx);
	if (!eax)
		return false;
	oracle_msr = ebx;
	return true;
}

void __init abis_debug_init(struct dentry *dir)
{
	debugfs_create_file("mutant", 0600, dir, NULL, &mutant_fops);
	/* Physically contiguous and aligned as the requests in it must be. */
	oracles = kcalloc(nr_cpu_ids, roundup_pow_of_two(sizeof(*oracles)), GFP_KERNEL);
	if (oracles && oracle_found())
		pr_info("every elision is checked by the machine's TLB oracle\n");
	else
		pr_warn("no TLB oracle here: nothing is checked\n");
}
