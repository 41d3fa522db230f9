/* SPDX-License-Identifier: GPL-2.0-only */
/* Advice by inline system calls, as a static or Go program asks; with and without the seccomp filter. */
#include "facts.h"

#include <sys/uio.h>

static long inlined(long number, long a, long b, long c, long d, long e)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	long result;

	__asm__ volatile("syscall"
			 : "=a"(result)
			 : "0"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8)
			 : "rcx", "r11", "memory");
	return result;
}

static void advice(void)
{
	static const struct {
		const char *name;
		int advice;
	} all[] = { { "normal", 0 }, { "dontneed", 4 }, { "free", 8 }, { "dontdump", 16 }, { "cold", 20 }, { "pageout", 21 },
		    { "unknown", 77 } };
	char name[64], *at;

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		at = plain(512);
		fill(at, 512);
		printf("%s %ld\n", all[i].name, inlined(SYS_madvise, (long)at, 512 * PAGE, all[i].advice, 0, 0));
		if (all[i].advice == 8)
			fact("lazy", lazy() > 1024 ? "kernel" : "filter");
		if (all[i].advice == 4)
			fact_number("zeroed", all_are(at, 512, 0));
		else
			fact_number("holds", all_are(at, 512, 0x5a));
		snprintf(name, sizeof(name), "%s-nowhere", all[i].name);
		printf("%s %ld\n", name, inlined(SYS_madvise, (long)PAGE, PAGE, all[i].advice, 0, 0));
		/* The kernel looks at an int. */
		snprintf(name, sizeof(name), "%s-high-bits", all[i].name);
		printf("%s %ld\n", name, inlined(SYS_madvise, (long)PAGE, PAGE, all[i].advice | 1L << 40, 0, 0));
		munmap(at, 512 * PAGE);
	}
}

/* Neither the name of another architecture nor another call is answered. */
static void others(void)
{
	char *const at = plain(1);
	struct iovec range = { (void *)PAGE, PAGE };
	const int self = (int)inlined(434, getpid(), 0, 0, 0, 0);
	long result;

	printf("x32 %ld\n", inlined(SYS_madvise | 0x40000000, (long)PAGE, PAGE, MADV_FREE, 0, 0));
	fflush(stdout);
	if (fork() == 0) {
		/* madvise of i386 has number 219. A kernel without i386 ends the child. */
		__asm__ volatile("int $0x80"
				 : "=a"(result)
				 : "0"(219L), "b"(PAGE), "c"(PAGE), "d"(8L)
				 : "memory", "r8", "r9", "r10", "r11");
		printf("i386 %ld\n", result);
		exit(0);
	}
	wait(NULL);
	printf("process_madvise %ld\n", inlined(SYS_process_madvise, self, (long)&range, 1, MADV_COLD, 0));
	printf("munmap %ld\n", inlined(SYS_munmap, (long)at, PAGE, MADV_FREE, 0, 0));
	printf("no-new-privs %d\n", prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0));
	printf("seccomp %d\n", prctl(PR_GET_SECCOMP, 0, 0, 0, 0));
	if (fork() == 0) {
		printf("child-free %ld\n", inlined(SYS_madvise, (long)PAGE, PAGE, MADV_FREE, 0, 0));
		exit(0);
	}
	wait(NULL);
}

static const struct test_case cases[] = { { "advice", advice }, { "others", others }, { NULL, NULL } };

int main(int argc, char **argv)
{
	return run_case(cases, argc, argv);
}
