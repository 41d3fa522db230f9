/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The emulated machine whose TLBs can be asked. It announces itself by a CPUID leaf and
 * answers one MSR, which is given the physical address of a request; the answer is in
 * memory when the WRMSR is done.
 */
#ifndef MM_CEASEFIRE_MACHINE_H
#define MM_CEASEFIRE_MACHINE_H

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/types.h>
#include <linux/wordpart.h>

#include <asm/cpufeature.h>
#include <asm/msr.h>

#define MACHINE_LEAF		0x40000100	/* EAX: the last leaf; then a name */
#define MACHINE_NAME_EBX	0x54424c54	/* "TLBT" */
#define MACHINE_NAME_ECX	0x4c54424c	/* "LBTL" */
#define MACHINE_NAME_EDX	0x424c5442	/* "BTLB" */

/* The leaf after it. EAX: the version, EBX: the MSR, ECX: */
#define MACHINE_INSERTS		BIT(4)

#define MACHINE_ALL_CPUS	0xffffffff
#define MACHINE_OP_QUERY	1
#define MACHINE_OP_STATS	2
#define MACHINE_FLAG_TLB	1
#define MACHINE_FLAG_STRUCTURES	2
#define MACHINE_ANSWERED	0

#define MACHINE_KIND_PDE	2
#define MACHINE_HOLDER_USER	BIT(0)	/* it runs user code in the entry's context */

/* To be aligned to its size, as the machine asks. */
struct machine_request {
	u32 op;
	u32 status;
	u32 flags;
	u32 apic_id;
	u64 linear;
	u64 pages;
	u64 root[4];
	u64 buffer;	/* physical */
	u32 capacity;	/* holders, or u64s, that fit into the buffer */
	u32 count;	/* those that there are */
	u64 reserved[2];
	u64 holders[4];
} __aligned(128);

/* What MACHINE_OP_QUERY finds. */
struct machine_holder {
	u32 apic_id;
	u16 pcid;
	u8 kind;
	u8 size;
	u32 rights;
	u32 state;
	u64 linear;
	u64 physical;
	u64 root;
	u64 through;	/* the root that it came through */
};

static_assert(sizeof(struct machine_request) == 128);
static_assert(sizeof(struct machine_holder) == 48);

/* Linux's own is in another header in each series. */
static inline void machine_cpuid(u32 leaf, u32 *eax, u32 *ebx, u32 *ecx, u32 *edx)
{
	asm volatile("cpuid" : "=a" (*eax), "=b" (*ebx), "=c" (*ecx), "=d" (*edx)
			     : "a" (leaf), "c" (0));
}

/* Return: the MSR, or 0 on another machine; @features, if wanted, only with an MSR. */
static inline u32 machine_find(u32 *features)
{
	u32 eax, ebx, ecx, edx;

	if (!boot_cpu_has(X86_FEATURE_HYPERVISOR))
		return 0;
	machine_cpuid(MACHINE_LEAF, &eax, &ebx, &ecx, &edx);
	if (eax <= MACHINE_LEAF || ebx != MACHINE_NAME_EBX ||
	    ecx != MACHINE_NAME_ECX || edx != MACHINE_NAME_EDX)
		return 0;
	machine_cpuid(MACHINE_LEAF + 1, &eax, &ebx, &ecx, &edx);
	if (features)
		*features = ecx;
	return eax ? ebx : 0;
}

/*
 * @request is a physical address. Return: 0, or -errno where the machine takes no such request.
 * The answer is in memory that the compiler does not know of.
 */
static inline int machine_ask(u32 msr, u64 request)
{
	int err = wrmsr_safe(msr, lower_32_bits(request), upper_32_bits(request));

	barrier();
	return err;
}

struct seq_file;

/* Statistics of the emulated TLBs as "name value" lines; none on other machines. */
void machine_show(struct seq_file *seq);

#endif
