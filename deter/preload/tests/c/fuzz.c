/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Random calls of memory management, beside a model that says what each must answer, and what memory must hold.
 *
 *   fuzz SEED CALLS THREADS
 *
 * Prints a hash of all answers for each thread, which must be the same with and without the library, and the first
 * thing that is not as the model says. Each thread has an arena of its own.
 */
#include "facts.h"

#include <pthread.h>
#include <stdarg.h>
#include <sys/uio.h>

#define PAGES 96
#define LONGEST 24
#define THREADS_MOST 16
#define ARENA(index) ((char *)(0x200000000000UL + (index) * (1UL << 32)))
#define WORDS (PAGE / sizeof(uint64_t))

enum kind { ANONYMOUS, SHARED, FROM_FILE };

/* What is mapped at a page. All words of a page hold `stamp`. */
struct page {
	bool mapped, locked, absent_in_child, zero_in_child;
	/* Lazily freed: zero is as good. */
	bool lazy;
	enum kind kind;
	int protection;
	uint64_t stamp, file_stamp;
};

struct fuzz {
	unsigned int index;
	uint64_t seed, random, hash, calls;
	char *base;
	int file;
	bool in_child;
	struct page pages[PAGES];
	unsigned long wrong;
	/* Pages that were dropped, and are resident all the same. */
	unsigned long kept;
	char first[200];
};

static unsigned int calls_wanted, threads_wanted;

static uint64_t next(struct fuzz *it)
{
	/* xorshift64* */
	it->random ^= it->random >> 12;
	it->random ^= it->random << 25;
	it->random ^= it->random >> 27;
	return it->random * 2685821657736338717UL;
}

static unsigned int below(struct fuzz *it, unsigned int limit)
{
	return (unsigned int)((next(it) >> 33) % limit);
}

__attribute__((format(printf, 2, 3))) static void wrong(struct fuzz *it, const char *format, ...)
{
	va_list list;
	int length;

	if (it->wrong++)
		return;
	length = snprintf(it->first, sizeof(it->first), "call %lu%s: ", it->calls, it->in_child ? " in a child" : "");
	va_start(list, format);
	vsnprintf(it->first + length, sizeof(it->first) - (size_t)length, format, list);
	va_end(list);
}

static uint64_t *words(struct fuzz *it, unsigned int page)
{
	return (uint64_t *)(it->base + page * PAGE);
}

static void check_page(struct fuzz *it, unsigned int number)
{
	const struct page *const page = &it->pages[number];
	const uint64_t *const at = words(it, number);
	static __thread uint64_t held[WORDS];
	struct iovec to = { held, PAGE }, from = { words(it, number), PAGE };

	if (!page->mapped || !(page->protection & PROT_READ)) {
		/* Without faulting. */
		if (process_vm_readv(getpid(), &to, 1, &from, 1, 0) > 0)
			wrong(it, "page %u can be read, and should not", number);
		return;
	}
	for (size_t i = 0; i < WORDS; i++) {
		if (at[i] != page->stamp && !(page->lazy && at[i] == 0)) {
			wrong(it, "page %u holds %lx at %zu, not %lx", number, at[i], i, page->stamp);
			return;
		}
	}
}

static void check_all(struct fuzz *it)
{
	for (unsigned int i = 0; i < PAGES; i++)
		check_page(it, i);
}

static void write_page(struct fuzz *it, unsigned int number)
{
	struct page *const page = &it->pages[number];
	const uint64_t stamp = next(it) | 1;

	if (!page->mapped || !(page->protection & PROT_WRITE) || (it->in_child && page->kind == SHARED))
		return;
	for (size_t i = 0; i < WORDS; i++)
		words(it, number)[i] = stamp;
	page->stamp = stamp;
	page->lazy = false;
}

/* Compares an answer with the model's, and adds it to the hash. */
static void answered(struct fuzz *it, const char *call, long result, int error, long expected, int expected_error)
{
	if (result != expected || (expected == -1 && error != expected_error))
		wrong(it, "%s answers %ld with errno %d, not %ld with %d", call, result, error, expected, expected_error);
	it->hash = (it->hash ^ (uint64_t)(result == -1 ? -error : result == 0 ? 0 : 1)) * 1099511628211UL;
}

/* A range within the arena; its length in bytes may end within the last page. */
struct span {
	unsigned int first, past;
	char *at;
	size_t length;
};

static struct span span_of(struct fuzz *it, unsigned int longest)
{
	struct span span;

	span.first = below(it, PAGES);
	span.past = span.first + 1 + below(it, longest);
	if (span.past > PAGES)
		span.past = PAGES;
	span.at = it->base + span.first * PAGE;
	span.length = (span.past - span.first) * PAGE;
	if (below(it, 4) == 0)
		span.length -= below(it, PAGE);
	return span;
}

static struct span span(struct fuzz *it)
{
	return span_of(it, LONGEST);
}

/* For what takes ranges out of the library's table. */
static struct span short_span(struct fuzz *it)
{
	return span_of(it, LONGEST / 6);
}

static void unmapped(struct fuzz *it, const struct span *span)
{
	for (unsigned int i = span->first; i < span->past; i++)
		it->pages[i] = (struct page){ .mapped = false };
}

static void call_mmap(struct fuzz *it)
{
	const struct span range = span(it);
	static const int protections[] = { PROT_READ, PROT_NONE, RW };
	/* Most are plain: else little would be the library's. */
	const bool odd = below(it, 8) == 0;
	const int protection = odd ? protections[below(it, 3)] : RW;
	const unsigned int sort = odd ? below(it, 4) : 0;
	const enum kind kind = sort < 2 ? ANONYMOUS : sort == 2 ? SHARED : FROM_FILE;
	const bool noreplace = below(it, 4) == 0;
	int flags = noreplace ? MAP_FIXED_NOREPLACE : MAP_FIXED;
	bool taken = false;
	long result;
	int error;

	flags |= kind == ANONYMOUS ? ANON : kind == SHARED ? MAP_SHARED | MAP_ANONYMOUS : MAP_PRIVATE;
	errno = 0;
	if (below(it, 4) == 0)
		result = syscall(SYS_mmap, range.at, range.length, protection, flags, kind == FROM_FILE ? it->file : -1,
				 range.first * PAGE);
	else
		result = (long)mmap(range.at, range.length, protection, flags, kind == FROM_FILE ? it->file : -1,
				    (off_t)(range.first * PAGE));
	error = errno;
	for (unsigned int i = range.first; i < range.past; i++)
		taken |= it->pages[i].mapped;
	if (noreplace && taken) {
		answered(it, "mmap", result, error, -1, EEXIST);
		return;
	}
	answered(it, "mmap", result, error, (long)range.at, 0);
	for (unsigned int i = range.first; i < range.past; i++) {
		const uint64_t stamp = kind == FROM_FILE ? i + 1 : 0;

		it->pages[i] = (struct page){ .mapped = true, .kind = kind, .protection = protection, .stamp = stamp,
					      .file_stamp = stamp };
	}
}

static void call_munmap(struct fuzz *it)
{
	const struct span range = short_span(it);
	const int result = below(it, 4) ? munmap(range.at, range.length) : (int)syscall(SYS_munmap, range.at, range.length);

	answered(it, "munmap", result, errno, 0, 0);
	unmapped(it, &range);
}

static void call_mprotect(struct fuzz *it)
{
	static const int protections[] = { RW, RW, RW, PROT_READ, PROT_NONE };
	const struct span range = short_span(it);
	const int protection = protections[below(it, 5)];
	const int result = below(it, 4) ? mprotect(range.at, range.length, protection)
					: (int)syscall(SYS_mprotect, range.at, range.length, protection);
	const int error = errno;
	unsigned int i;

	for (i = range.first; i < range.past && it->pages[i].mapped; i++)
		it->pages[i].protection = protection;
	answered(it, "mprotect", result, error, i < range.past ? -1 : 0, ENOMEM);
}

/* What the advice does to a page; an error ends the call there. */
static int advise_page(struct fuzz *it, struct page *page, int advice)
{
	(void)it;
	switch (advice) {
	case MADV_DONTNEED:
		if (page->locked)
			return EINVAL;
		if (page->kind != SHARED)
			page->stamp = page->kind == FROM_FILE ? page->file_stamp : 0;
		page->lazy = false;
		return 0;
	case MADV_FREE:
		if (page->locked || page->kind != ANONYMOUS)
			return EINVAL;
		page->lazy = true;
		return 0;
	case MADV_COLD:
	case MADV_PAGEOUT:
		return page->locked ? EINVAL : 0;
	case MADV_DONTFORK:
	case MADV_DOFORK:
		page->absent_in_child = advice == MADV_DONTFORK;
		return 0;
	case MADV_WIPEONFORK:
		if (page->kind != ANONYMOUS)
			return EINVAL;
		page->zero_in_child = true;
		return 0;
	case MADV_KEEPONFORK:
		page->zero_in_child = false;
		return 0;
	}
	return 0;
}

static void call_madvise(struct fuzz *it)
{
	static const int dropping[] = { MADV_DONTNEED, MADV_DONTNEED, MADV_FREE, MADV_FREE, MADV_COLD, MADV_PAGEOUT };
	static const int changing[] = { MADV_DONTFORK, MADV_DOFORK, MADV_WIPEONFORK, MADV_KEEPONFORK, MADV_DONTDUMP,
					MADV_DODUMP, MADV_NOHUGEPAGE };
	const struct span range = span(it);
	const int advice = below(it, 16) ? dropping[below(it, 6)] : changing[below(it, 7)];
	const int result = below(it, 4) ? madvise(range.at, range.length, advice)
					: (int)syscall(SYS_madvise, range.at, range.length, advice);
	const int error = errno;
	unsigned char resident = 0;
	int expected = 0;

	if (advice == MADV_DONTNEED && it->pages[range.first].kind == ANONYMOUS && result == 0 &&
	    mincore(range.at, PAGE, &resident) == 0)
		it->kept += resident & 1;
	for (unsigned int i = range.first; i < range.past && expected != EINVAL; i++) {
		if (!it->pages[i].mapped)
			expected = ENOMEM;
		else if (advise_page(it, &it->pages[i], advice) != 0)
			expected = EINVAL;
	}
	answered(it, "madvise", result, error, expected ? -1 : 0, expected);
}

static void call_mlock(struct fuzz *it)
{
	const struct span range = short_span(it);
	const bool lock = below(it, 3) == 0;
	const int result = lock ? mlock(range.at, range.length) : munlock(range.at, range.length);
	const int error = errno;
	bool unreadable = false;
	unsigned int i;

	for (i = range.first; i < range.past && it->pages[i].mapped; i++) {
		it->pages[i].locked = lock;
		unreadable |= it->pages[i].protection == PROT_NONE;
	}
	answered(it, "mlock", result, error, i < range.past || (lock && unreadable) ? -1 : 0, ENOMEM);
}

/* One page, onto another. */
static void call_mremap(struct fuzz *it)
{
	const unsigned int from = below(it, PAGES), to = below(it, PAGES);
	struct page *const old = &it->pages[from], *const new = &it->pages[to];
	/* Linux 6.18 then unlocks all of the mapping that a locked page is part of. */
	const bool stays = below(it, 4) == 0 && old->kind != SHARED && !old->locked;
	const int flags = MREMAP_MAYMOVE | MREMAP_FIXED | (stays ? 4 : 0);
	void *const at = words(it, from), *const target = words(it, to);
	const long result = below(it, 4) ? (long)mremap(at, PAGE, PAGE, flags, target)
					 : syscall(SYS_mremap, at, PAGE, PAGE, flags, target);
	const int error = errno;

	if (from == to || !old->mapped) {
		answered(it, "mremap", result, error, -1, from == to ? EINVAL : EFAULT);
		return;
	}
	answered(it, "mremap", result, error, (long)target, 0);
	*new = *old;
	if (stays) {
		old->stamp = old->kind == FROM_FILE ? old->file_stamp : 0;
		old->lazy = false;
	} else {
		*old = (struct page){ .mapped = false };
	}
}

static void call_asking(struct fuzz *it)
{
	const struct span range = span(it);
	const bool sync = below(it, 2);
	unsigned char vector[PAGES];
	const int result = sync ? msync(range.at, range.length, MS_ASYNC) : mincore(range.at, range.length, vector);
	const int error = errno;
	bool hole = false;

	for (unsigned int i = range.first; i < range.past; i++)
		hole |= !it->pages[i].mapped;
	answered(it, sync ? "msync" : "mincore", result, error, hole ? -1 : 0, ENOMEM);
}

static void call_bad(struct fuzz *it)
{
	const struct span range = span(it);
	char *const at = range.at + 1 + below(it, PAGE - 1);
	int result;

	switch (below(it, 5)) {
	case 0:
		result = munmap(at, range.length);
		break;
	case 1:
		result = mprotect(at, range.length, RW);
		break;
	case 2:
		result = madvise(at, range.length, MADV_FREE);
		break;
	case 3:
		result = madvise(at, range.length, MADV_DONTNEED);
		break;
	default:
		result = madvise(range.at, range.length, 1000);
		break;
	}
	answered(it, "a bad call", result, errno, -1, EINVAL);
}

static void one_call(struct fuzz *it);

static void call_fork(struct fuzz *it)
{
	struct fuzz *child;
	pid_t pid;
	int says;

	if (it->in_child || threads_wanted > 1 || below(it, 8))
		return;
	fflush(stdout);
	pid = fork();
	if (pid != 0) {
		says = child_says(pid);
		if (says != 0)
			wrong(it, "a child ends with %d", says);
		return;
	}
	child = it;
	child->in_child = true;
	for (unsigned int i = 0; i < PAGES; i++) {
		struct page *const page = &child->pages[i];

		page->locked = false;
		if (page->absent_in_child)
			*page = (struct page){ .mapped = false };
		else if (page->zero_in_child)
			page->stamp = 0;
	}
	check_all(child);
	for (int i = 0; i < 40; i++)
		one_call(child);
	check_all(child);
	if (child->wrong)
		fprintf(stderr, "%s\n", child->first);
	_exit(child->wrong != 0);
}

/* vfork: the child has this very memory. */
static void call_vfork(struct fuzz *it)
{
	const struct span range = span(it);
	volatile int result = -2;
	/* At the end alone: where the child takes a range away, the library retires. */
	const bool unmap = it->calls > calls_wanted / threads_wanted / 32 * 31 && below(it, 4) == 0;
	pid_t pid;

	if (it->in_child || below(it, 4))
		return;
	pid = vfork();
	if (pid == 0) {
		result = unmap ? munmap(range.at, range.length) : madvise(range.at, range.length, MADV_NORMAL);
		_exit(0);
	}
	child_says(pid);
	if (unmap) {
		answered(it, "munmap in a child of vfork", result, errno, 0, 0);
		unmapped(it, &range);
	}
}

static void one_call(struct fuzz *it)
{
	static void (*const calls[])(struct fuzz *) = {
		call_mmap, call_mmap, call_mmap, call_munmap, call_mprotect, call_madvise, call_madvise, call_madvise,
		call_madvise, call_madvise, call_mlock, call_mremap, call_asking, call_bad, call_fork, call_vfork,
	};
	const unsigned int choice = below(it, 16);

	calls[choice](it);
	it->calls++;
	for (int i = 0; i < 4; i++)
		write_page(it, below(it, PAGES));
	check_page(it, below(it, PAGES));
	if (it->calls % 64 == 0)
		check_all(it);
}

static void *fuzz(void *argument)
{
	struct fuzz *const it = argument;

	it->base = ARENA(it->index);
	it->random = (it->seed + it->index + 1) * 0x9e3779b97f4a7c15UL;
	it->hash = 14695981039346656037UL;
	it->file = memfd_create("fuzz", 0);
	for (unsigned int i = 0; i < PAGES; i++) {
		uint64_t page[WORDS];

		for (size_t k = 0; k < WORDS; k++)
			page[k] = i + 1;
		if (write(it->file, page, PAGE) != (ssize_t)PAGE)
			DIE("write");
	}
	while (it->calls < calls_wanted / threads_wanted && !it->wrong)
		one_call(it);
	check_all(it);
	return it;
}

int main(int argc, char **argv)
{
	static struct fuzz all[THREADS_MOST];
	pthread_t threads[THREADS_MOST];
	unsigned long bad = 0, kept = 0;

	if (argc != 4)
		return 2;
	calls_wanted = (unsigned int)strtoul(argv[2], NULL, 10);
	threads_wanted = (unsigned int)strtoul(argv[3], NULL, 10);
	if (!threads_wanted || threads_wanted > THREADS_MOST)
		return 2;
	for (unsigned int i = 0; i < threads_wanted; i++) {
		all[i].index = i;
		all[i].seed = strtoul(argv[1], NULL, 10);
		if (i && pthread_create(&threads[i], NULL, fuzz, &all[i]) != 0)
			DIE("pthread_create");
	}
	fuzz(&all[0]);
	for (unsigned int i = 0; i < threads_wanted; i++) {
		if (i)
			pthread_join(threads[i], NULL);
		printf("thread %u: %lu calls, hash %016lx, wrong %lu%s%s\n", i, all[i].calls, all[i].hash, all[i].wrong,
		       all[i].wrong ? ": " : "", all[i].first);
		bad += all[i].wrong;
		kept += all[i].kept;
	}
	fprintf(stderr, "kept %lu\n", kept);
	return bad != 0;
}
