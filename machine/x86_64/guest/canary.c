// SPDX-License-Identifier: GPL-2.0-only
/*
 * The oracle against behaviour. Again and again all CPUs use some pages in some address spaces at random; then one CPU
 * makes entries point to other frames, without a flush, and asks the oracle who holds what; then all CPUs read. Each
 * must see the frame that the oracle said it holds, and the new one if it holds none. Only where the CPU's own counters
 * say that it has lost translations in between may it see the new frame all the same.
 *
 * With INVLPGB, CPUs broadcast among what they do at random, and some of the entries that change are dropped everywhere
 * before the oracle is asked: after TLBSYNC nobody may hold the former frame. Without TLBSYNC the request is pending, or
 * done: the oracle must know which.
 */
#include "long.h"
#include "oracle.h"

#define PAGE_FLAGS (P | W | U | A | D)
#define SPACES 5
#define SMALL 24
#define GLOBAL 4
#define LARGE 4
#define PAGES (SMALL + GLOBAL + LARGE)
#define BATCH 16
#define OPERATIONS 24
#define HOLDERS 64

/* Frames say who they are. */
static uint64_t canary_of(uint64_t frame)
{
	return frame ^ 0xcafe000000000000ul;
}

struct subject {
	volatile uint64_t *entry;
	uint64_t frames[2], flags;
	unsigned int now;
};

struct question {
	unsigned int page;
	uint64_t address, frame;
	/* Dropped everywhere before. */
	bool is_dropped;
	uint32_t count;
	struct tlb_holder holders[HOLDERS];
	/* By CPU: what it saw, and whether it has lost translations since. */
	volatile uint64_t saw[CPUS_MAX];
	volatile bool has_lost[CPUS_MAX];
};

static struct {
	uint64_t root[SPACES];
	struct subject subjects[SPACES][PAGES];
	struct question questions[BATCH];
	unsigned int batch, space;
	uint64_t seed;
	struct tlb_stats stats[CPUS_MAX];
	/* Odd: all act at random; even: all read what the questions are about. */
	volatile uint64_t phase, arrived, is_over;
	uint64_t asked, reads, held, old, excused, dropped, wrong;
} it;

static uint64_t address_of(unsigned int page)
{
	if (page < SMALL + GLOBAL)
		return window((PAGE_1G | PAGE_2M * 2) + page * 9 * PAGE_BYTES);
	return window(PAGE_1G * 2 + page * PAGE_2M);
}

/* CPUs give an address space PCIDs of their own. */
static uint64_t pcid_of(unsigned int cpu, unsigned int space)
{
	return has_pcid() ? 1 + (space + cpu * 3) % SPACES + 16 * cpu : 0;
}

static void space_load(unsigned int space, bool keep)
{
	cr3_write(it.root[space] | pcid_of(this_cpu()->id, space) | (keep && has_pcid() ? CR3_KEEP : 0));
}

static void subject_point(struct subject *subject)
{
	*subject->entry = subject->frames[subject->now] | subject->flags;
}

static void make(void)
{
	uint64_t shared[GLOBAL + LARGE][2];

	for (unsigned int i = 0; i < GLOBAL + LARGE; i++)
		for (unsigned int which = 0; which < 2; which++) {
			shared[i][which] = i < GLOBAL ? frame_alloc(0) : frame_alloc_2m(0);
			frame_fill(shared[i][which], canary_of(shared[i][which]));
		}
	for (unsigned int space_ = 0; space_ < SPACES; space_++) {
		it.root[space_] = space();
		for (unsigned int page = 0; page < PAGES; page++) {
			struct subject *subject = &it.subjects[space_][page];
			bool is_large = page >= SMALL + GLOBAL;

			*subject = (struct subject){ .entry = entry(it.root[space_], address_of(page), is_large ? 2 : 1),
						     .flags = PAGE_FLAGS | (is_large ? PS : 0) |
							      (page >= SMALL && page < SMALL + GLOBAL ? G : 0) };
			for (unsigned int which = 0; which < 2; which++) {
				if (page >= SMALL) {
					subject->frames[which] = shared[page - SMALL][which];
					continue;
				}
				subject->frames[which] = frame_alloc(0);
				frame_fill(subject->frames[which], canary_of(subject->frames[which]));
			}
			subject_point(subject);
		}
	}
}

/* One page of some PCID or of all, or a PCID; now and then without waiting for it. */
static void act_broadcast(uint64_t address, uint64_t pcid, uint64_t r)
{
	if (!has_invlpgb())
		return;
	if (r & 7 || !has_pcid())
		invlpgb(BY_ADDRESS | (r >> 3 & 1 ? WITH_GLOBAL : 0) | (r >> 4 & 1 ? FINAL_ONLY : 0) |
			(r >> 5 & 1 && has_pcid() ? BY_PCID : 0) | (address & ~0xffful), r >> 6 & 1, pcid);
	else
		invlpgb(BY_PCID | (r >> 4 & 1 ? FINAL_ONLY : 0), 0, pcid);
	if (r >> 7 & 3)
		tlbsync();
}

static void act(uint64_t *random)
{
	for (unsigned int i = 0; i < OPERATIONS; i++) {
		uint64_t r = random_next(random), value;
		unsigned int page = r >> 8 & 0xffff;
		uint64_t address = address_of(page % PAGES), space = r >> 32 & 0xff;

		switch (r % 16) {
		case 0:
			space_load((unsigned int)space % SPACES, false);
			break;
		case 1: case 2: case 3:
			space_load((unsigned int)space % SPACES, true);
			break;
		case 4:
			invlpg(address);
			break;
		case 5:
			if (has_invpcid() && has_pcid())
				invpcid_try(r >> 40 & 7 ? INVPCID_ADDRESS : r >> 44 & 3,
					    &(struct invpcid_descriptor){ pcid_of(this_cpu()->id,
							(unsigned int)space % SPACES), address });
			break;
		case 6: case 7: case 8:
			user_read(address, &value);
			break;
		case 9:
			act_broadcast(address, pcid_of((unsigned int)(r >> 52) % cpu_count, (unsigned int)space % SPACES),
				      r >> 40);
			break;
		default:
			load(address);
		}
	}
}

/* What must be equal for nothing to have been lost. */
static uint64_t losses(const struct tlb_stats *stats)
{
	return stats->at[EVICTIONS] + stats->at[PAGE_FAULTS] + stats->at[CR3_FLUSH] + stats->at[INVLPG] +
	       stats->at[INVLPGB] + stats->at[TLBSYNC] + stats->at[BROADCAST_HITS] +
	       stats->at[INVPCID_0] + stats->at[INVPCID_1] + stats->at[INVPCID_2] + stats->at[INVPCID_3] +
	       stats->at[FLUSH_ALL] + stats->at[CONTEXTS_DROPPED];
}

static void answer(uint64_t random)
{
	unsigned int id = this_cpu()->id;

	space_load(it.space, true);
	for (unsigned int i = 0; i < it.batch; i++) {
		struct question *question = &it.questions[i];
		struct tlb_stats now;
		uint64_t value;

		if (random >> i & 1)
			user_read(question->address, &value);
		else
			value = load(question->address);
		question->saw[id] = value;
		now = oracle_stats(id);
		question->has_lost[id] = losses(&now) != losses(&it.stats[id]);
	}
}

static void phase_run(uint64_t phase, uint64_t *random)
{
	if (phase % 2)
		act(random);
	else
		answer(random_next(random));
}

static void follow(void *argument)
{
	uint64_t seen = 0, random = it.seed * 64 + this_cpu()->id;

	(void)argument;
	pcid_switch(true);
	space_load(0, false);
	for (;;) {
		for (unsigned int spins = 1; it.phase == seen; spins++)
			if (spins % 16 == 0)
				pause();
		seen = it.phase;
		if (it.is_over)
			break;
		phase_run(seen, &random);
		__atomic_fetch_add(&it.arrived, 1, __ATOMIC_SEQ_CST);
	}
	cpu_settle();
}

static void all_do(uint64_t *random)
{
	it.arrived = 0;
	__atomic_fetch_add(&it.phase, 1, __ATOMIC_SEQ_CST);
	phase_run(it.phase, random);
	for (unsigned int spins = 1; it.arrived != cpu_count - 1; spins++) {
		if (spins % 16 == 0)
			pause();
		for (unsigned int id = 1; id < cpu_count && spins % 65536 == 0; id++)
			if (cpus[id].abort_reason)
				give_up("%s", cpus[id].abort_reason);
	}
}

/*
 * What a batch does with what has just changed: drops it everywhere, or only asks for that. The latter only where it
 * stays pending: otherwise it would be done between question and read.
 */
enum drop { KEEP, DROP, LEAVE_PENDING };

static enum drop drop_choose(uint64_t r)
{
	if (!has_invlpgb() || r & 1)
		return KEEP;
	if (r & 2 && option("late"))
		return LEAVE_PENDING;
	/* Nothing of before is done between question and read. */
	tlbsync();
	return DROP;
}

static void drop(struct question *question, enum drop how)
{
	question->is_dropped = how == DROP;
	if (how == KEEP)
		return;
	invlpgb(BY_ADDRESS | WITH_GLOBAL | (question->address & ~0xffful), 0, 0);
	if (how == DROP)
		tlbsync();
	it.dropped += question->is_dropped;
}

static void ask(struct question *question, unsigned int page, enum drop how)
{
	struct subject *subject = &it.subjects[it.space][page];

	subject->now ^= 1;
	subject_point(subject);
	/* Pages that all address spaces share change in all. */
	for (unsigned int space = 0; space < SPACES && page >= SMALL; space++) {
		it.subjects[space][page].now = subject->now;
		subject_point(&it.subjects[space][page]);
	}
	question->page = page;
	question->address = address_of(page);
	question->frame = subject->frames[subject->now];
	if (page >= SMALL + GLOBAL)
		question->address += (page & 1) * 0x800;
	drop(question, how);
	question->count = oracle_look(it.root[it.space], question->address, 1, LOOK_TLB, question->holders, HOLDERS);
}

static void complain(const struct question *question, unsigned int id, const char *what)
{
	if (it.wrong++ < 5)
		say("canary: question %lu, page %u of address space %u, CPU %u: %s\n", it.asked, question->page, it.space,
		    id, what);
}

static void judge(const struct question *question)
{
	for (unsigned int id = 0; id < cpu_count; id++) {
		uint64_t saw = question->saw[id], pcid = pcid_of(id, it.space);
		bool is_held = false, is_right = false;

		for (unsigned int i = 0; i < question->count && i < HOLDERS; i++) {
			const struct tlb_holder *holder = &question->holders[i];

			if (holder->apic_id != id || (!(holder->rights & RIGHT_G) && holder->pcid != pcid))
				continue;
			is_held = true;
			is_right |= saw == canary_of(holder->physical);
			/* Speculation may have filled it since, with what it is now. */
			if (question->is_dropped && holder->physical != question->frame)
				complain(question, id, "holds the former frame after TLBSYNC");
		}
		it.reads++;
		it.held += is_held;
		it.old += is_held && is_right && saw != canary_of(question->frame);
		if (is_held ? is_right : saw == canary_of(question->frame))
			continue;
		if (is_held && saw == canary_of(question->frame) && question->has_lost[id]) {
			it.excused++;
			continue;
		}
		complain(question, id, text("%s, but it read %s", is_held ? "held" : "not held",
					    saw == canary_of(question->frame) ? "the new frame" : "another frame"));
	}
}

void canary(uint64_t questions, uint64_t seed)
{
	uint64_t random = seed;

	memory_reset();
	set_window(200);
	make();
	it.seed = seed;
	pcid_switch(true);
	space_load(0, false);
	for (unsigned int id = 1; id < cpu_count; id++)
		on_cpu_begin(id, follow, NULL);
	while (it.asked < questions) {
		uint64_t pages;
		enum drop how;

		all_do(&random);
		it.space = random_next(&random) % SPACES;
		it.batch = 0;
		pages = random_next(&random);
		how = drop_choose(random_next(&random));
		for (unsigned int id = 0; id < cpu_count; id++)
			it.stats[id] = oracle_stats(id);
		for (unsigned int page = 0; page < PAGES && it.batch < BATCH && it.asked + it.batch < questions; page++)
			if (pages >> page & 1)
				ask(&it.questions[it.batch++], page, how);
		all_do(&random);
		for (unsigned int i = 0; i < it.batch; i++) {
			judge(&it.questions[i]);
			it.asked++;
		}
	}
	it.is_over = 1;
	__atomic_fetch_add(&it.phase, 1, __ATOMIC_SEQ_CST);
	for (unsigned int id = 1; id < cpu_count; id++)
		on_cpu_end(id);
	cpu_settle();
	say("canary %s questions=%lu reads=%lu held=%lu old=%lu excused=%lu dropped=%lu wrong=%lu seed=%lu\n",
	    it.wrong ? "FAIL" : "ok", it.asked, it.reads, it.held, it.old, it.excused, it.dropped, it.wrong, seed);
}
