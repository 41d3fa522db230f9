// SPDX-License-Identifier: GPL-2.0-only
/* Starting CPUs and giving them work. An idle CPU sleeps, so that it costs the host nothing. */
#include "cpu.h"

#define APIC 0xfee00000ul
#define APIC_SPURIOUS 0xf0
#define APIC_ICR_LOW 0x300
#define APIC_ICR_HIGH 0x310
#define APIC_LVT_TIMER 0x320
#define APIC_TIMER_COUNT 0x380
#define APIC_TIMER_DIVIDE 0x3e0
#define ICR_INIT 0x4500
#define ICR_STARTUP (0x4600 | TRAMPOLINE >> 12)
#define PM_TIMER 0x608
#define PM_TIMER_HZ 3579545
#define START_US_MAX 20000000
#define JOB_US_MAX 20000000

_Static_assert(offsetof(struct cpu, resume_rip) == CPU_RESUME_RIP, "layout.h");
_Static_assert(offsetof(struct cpu, resume_rsp) == CPU_RESUME_RSP, "layout.h");
_Static_assert(offsetof(struct cpu, user_rsp) == CPU_USER_RSP, "layout.h");
_Static_assert(offsetof(struct cpu, trip_rsp) == CPU_TRIP_RSP, "layout.h");

struct cpu cpus[CPUS_MAX];
unsigned int cpu_count = 1;
static volatile bool present[CPUS_MAX];
volatile uint32_t trip_hold, trip_held;

extern char trampoline[], trampoline_end[];
void main(void) __attribute__((noreturn));
void cpu_entry(unsigned int id);

static void apic_write(unsigned int offset, uint32_t value)
{
	*(volatile uint32_t *)(APIC + offset) = value;
}

/* Virtual time, by the power management timer; one caller at a time. */
uint64_t now_us(void)
{
	static uint32_t last;
	static uint64_t ticks;
	uint32_t now = inl(PM_TIMER) & 0xffffff;

	ticks += (now - last) & 0xffffff;
	last = now;
	return ticks * 1000000 / PM_TIMER_HZ;
}

void cpu_kick(unsigned int id, uint32_t command)
{
	apic_write(APIC_ICR_HIGH, id << 24);
	apic_write(APIC_ICR_LOW, command);
}

void cpu_tick(void)
{
	apic_write(APIC_TIMER_DIVIDE, 0xb);
	apic_write(APIC_LVT_TIMER, VECTOR_TICK);
	apic_write(APIC_TIMER_COUNT, 100000);
}

static void idle(struct cpu *cpu)
{
	for (;;) {
		asm volatile("cli");
		if (cpu->asked == cpu->done) {
			asm volatile("sti; hlt; cli" : : : "memory");
			continue;
		}
		cpu->abort_reason = NULL;
		if (!jump_save(&cpu->abort))
			cpu->job(cpu->argument);
		__atomic_store_n(&cpu->done, cpu->done + 1, __ATOMIC_RELEASE);
	}
}

void cpu_entry(unsigned int id)
{
	struct cpu *cpu = &cpus[id];

	cpu->self = cpu;
	cpu->id = id;
	wrmsr(MSR_GS_BASE, (uint64_t)cpu);
	traps_init(cpu);
	apic_write(APIC_SPURIOUS, 0x1ff);
	if (cpu->on_start)
		cpu->on_start(cpu);
	cpu_settle();
	if (id == 0)
		main();
	__atomic_store_n(&present[id], true, __ATOMIC_RELEASE);
	idle(cpu);
}

/* `count` comes from the command line of the emulator; a CPU that is not there does not answer. */
void cpus_start(void)
{
	memory_copy((void *)TRAMPOLINE, trampoline, (size_t)(trampoline_end - trampoline));
	cpu_count = (unsigned int)option_number("cpus", 1);
	if (cpu_count > CPUS_MAX)
		cpu_count = CPUS_MAX;
	for (unsigned int id = 1; id < cpu_count; id++)
		if (!cpu_restart(id, NULL)) {
			say("CPU %u does not start\n", id);
			power_off();
		}
}

bool cpu_restart(unsigned int id, void (*on_start)(struct cpu *cpu))
{
	uint64_t begin = now_us();

	cpus[id].on_start = on_start;
	present[id] = false;
	cpu_kick(id, ICR_INIT);
	cpu_kick(id, ICR_STARTUP);
	while (!__atomic_load_n(&present[id], __ATOMIC_ACQUIRE)) {
		if (now_us() - begin > START_US_MAX)
			return false;
		pause();
	}
	return true;
}

void on_cpu_begin(unsigned int id, void (*job)(void *argument), void *argument)
{
	struct cpu *cpu = &cpus[id];

	cpu->job = job;
	cpu->argument = argument;
	__atomic_store_n(&cpu->asked, cpu->asked + 1, __ATOMIC_RELEASE);
	cpu_kick(id, 0x4000 | VECTOR_WAKE);
}

#define KICK_AGAIN_US 300000

void on_cpu_end(unsigned int id)
{
	struct cpu *cpu = &cpus[id];
	uint64_t begin = now_us(), kicked = begin;

	while (__atomic_load_n(&cpu->done, __ATOMIC_ACQUIRE) != cpu->asked) {
		/* With a host thread a vCPU, one wake-up in some thousands has no effect; the cause was not traced. */
		if (now_us() - kicked > KICK_AGAIN_US) {
			cpu_kick(id, 0x4000 | VECTOR_WAKE);
			kicked = now_us();
		}
		if (now_us() - begin > JOB_US_MAX)
			give_up("CPU %u does not come to an end", id);
		pause();
	}
	if (cpu->abort_reason)
		give_up("%s", cpu->abort_reason);
}

void on_cpu(unsigned int id, void (*job)(void *argument), void *argument)
{
	if (id == this_cpu()->id) {
		job(argument);
		return;
	}
	on_cpu_begin(id, job, argument);
	on_cpu_end(id);
}

void on_all(void (*job)(void *argument), void *argument)
{
	unsigned int self = this_cpu()->id;

	for (unsigned int id = 0; id < cpu_count; id++)
		if (id != self)
			on_cpu_begin(id, job, argument);
	job(argument);
	for (unsigned int id = 0; id < cpu_count; id++)
		if (id != self)
			on_cpu_end(id);
}

void cpu_settle(void)
{
	struct cpu *cpu = this_cpu();

	cpu->resume_rip = 0;
	cpu->on_nmi = NULL;
	cr0_write(cr0_read() | CR0_WP);
	if (cr4_read() & CR4_LA57) {
		cr4_write(CR4_PAE | CR4_LA57);
		cr3_write((uint64_t)boot_pml5);
		legacy_trip(CR4_PAE, (uint32_t)(uint64_t)boot_pml4);
	}
	if (has_pku()) {
		cr4_write(cr4_read() | CR4_PKE);
		wrpkru(0);
	}
	/* PGE and PCIDE change here: each of them drops everything. */
	cr4_write(CR4_PAE);
	cr3_write((uint64_t)boot_pml4);
	cr4_write(CR4_BASE);
}

void settle_job(void *argument)
{
	(void)argument;
	cpu_settle();
}
