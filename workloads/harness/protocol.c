// SPDX-License-Identifier: GPL-2.0-only
/* The lines for the host: JSON, one object per line, protocol 1. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "harness.h"

#define PROTOCOL_VERSION 1

void protocol_string(const char *text)
{
	putchar('"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			printf("\\%c", c);
		else if (c < 0x20 || c == 0x7f)
			printf("\\u%04x", c);
		else
			putchar(c);
	}
	putchar('"');
}

/* Numbers in a list such as "0-3,8". */
static unsigned int count_in_list(const char *path)
{
	char list[512];
	char *at = list;
	unsigned int count = 0;

	if (file_read(path, list, sizeof(list)) <= 0)
		return 1;
	while (*at >= '0' && *at <= '9') {
		unsigned long first = strtoul(at, &at, 10), last = first;

		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		count += (unsigned int)(last - first + 1);
		if (*at == ',')
			at++;
	}
	return count;
}

/* The word in brackets, as in "always [madvise] never". */
static void chosen_word(const char *path, char *word, size_t size)
{
	char text[256];
	char *open, *close;

	snprintf(word, size, "unavailable");
	if (file_read(path, text, sizeof(text)) <= 0)
		return;
	open = strchr(text, '[');
	close = open ? strchr(open, ']') : NULL;
	if (close)
		snprintf(word, size, "%.*s", (int)(close - open - 1), open + 1);
}

/* What the kernel's own switches say; null in a kernel without one. */
static void print_mode(void)
{
	char mode[256];

	printf(",\"mode\":");
	mechanisms_mode(mode, sizeof(mode));
	if (mode[0])
		protocol_string(mode);
	else
		printf("null");
}

/* What only x86 can have is neither there nor missing elsewhere. */
static const char *of_x86(bool is_there)
{
	if (!CPU_IS_X86)
		return "null";
	return is_there ? "true" : "false";
}

void protocol_boot(void)
{
	struct utsname name;
	char text[4096], thp[32];
	const char *flags = cpu_flags();
	int flags_length = (int)strlen(flags);

	uname(&name);
	printf("{\"kind\":\"boot\",\"protocol\":%d,\"release\":", PROTOCOL_VERSION);
	protocol_string(name.release);
	file_read("/proc/cmdline", text, sizeof(text));
	text[strcspn(text, "\n")] = '\0';
	printf(",\"cmdline\":");
	protocol_string(text);
	printf(",\"cpus\":%u,\"nodes\":%u,\"counters\":\"%s\",\"pcid\":%s,\"invpcid\":%s",
	       count_in_list("/sys/devices/system/cpu/online"), count_in_list("/sys/devices/system/node/online"),
	       counters_in_kernel() ? "ceasefire" : "generic", of_x86(cpu_has_flag("pcid")),
	       of_x86(cpu_has_flag("invpcid")));
	/* Without the blank on either side. */
	printf(",\"cpu_flags\":\"%.*s\"", flags_length > 2 ? flags_length - 2 : 0, flags + 1);
	file_read("/sys/devices/system/cpu/vulnerabilities/meltdown", text, sizeof(text));
	chosen_word("/sys/kernel/mm/transparent_hugepage/enabled", thp, sizeof(thp));
	printf(",\"pti\":%s,\"thp\":\"%s\",\"memory_kib\":%llu", of_x86(strstr(text, "PTI")), thp,
	       (unsigned long long)file_kib("/proc/meminfo", "MemTotal:", 0));
	print_mode();
	printf("}\n");
	fflush(stdout);
}

static void print_count(const char *name, int64_t value)
{
	if (value < 0)
		printf("\"%s\":null", name);
	else
		printf("\"%s\":%lld", name, (long long)value);
}

static void print_mechanisms(const struct counted *counted)
{
	const char *before = "";

	printf(",\"mechanisms\":{");
	for (unsigned int i = 0; i < mechanisms_count(); i++) {
		if (!counted[i].is_there)
			continue;
		printf("%s\"%s\":{", before, mechanism_name(i));
		for (unsigned int j = 0; j < counted[i].pairs; j++)
			printf("%s\"%s\":%llu", j ? "," : "", counted[i].pair[j].name,
			       (unsigned long long)counted[i].pair[j].value);
		putchar('}');
		before = ",";
	}
	putchar('}');
}

void protocol_run(const struct outcome *outcome)
{
	const struct run *run = &outcome->run;

	printf("{\"kind\":\"run\",\"workload\":\"%s\",\"threads\":%u,\"repeat\":%u,\"seed\":%llu,\"unit\":",
	       run->workload->name, run->threads, run->repeat, (unsigned long long)run->seed);
	protocol_string(run->workload->unit);
	printf(",\"units\":%llu,\"checksum\":\"%016llx\",\"counters\":{", (unsigned long long)run->units,
	       (unsigned long long)run->checksum);
	for (int i = 0; i < COUNTERS; i++) {
		if (i)
			putchar(',');
		print_count(counter_names[i], outcome->counted.value[i]);
	}
	printf("},\"expect\":");
	if (run->expect_sent < 0 && run->expect_received < 0) {
		printf("null");
	} else {
		putchar('{');
		print_count("sent", run->expect_sent);
		putchar(',');
		print_count("received", run->expect_received);
		putchar(',');
		print_count("tlbsync", run->expect_tlbsync);
		putchar('}');
	}
	print_mechanisms(outcome->mechanism);
	printf(",\"extra\":{");
	for (unsigned int i = 0; i < outcome->extras; i++)
		printf("%s\"%s\":%.17g", i ? "," : "", outcome->extra[i].key, outcome->extra[i].value);
	printf("},\"duration_ns\":%llu}\n", (unsigned long long)outcome->duration_ns);
	/* Who reads this line would run inside the next repeat; a cost row cannot have that. */
	if (outcome->counted.value[INSTRUCTIONS] < 0)
		fflush(stdout);
}

/* One string for each line. */
static void print_lines(const char *text)
{
	const char *before = "";

	printf(",\"output\":[");
	while (*text) {
		const size_t length = strcspn(text, "\n");
		char line[OUTPUT_BYTES_MAX];

		snprintf(line, sizeof(line), "%.*s", (int)length, text);
		printf("%s", before);
		protocol_string(line);
		before = ",";
		text += length + (text[length] == '\n');
	}
	putchar(']');
}

void protocol_refusal(const char *kind, const char *workload, unsigned int threads, const char *reason,
		      const char *output)
{
	printf("{\"kind\":\"%s\",\"workload\":", kind);
	protocol_string(workload);
	printf(",\"threads\":%u,\"reason\":", threads);
	protocol_string(reason);
	if (*output)
		print_lines(output);
	printf("}\n");
	fflush(stdout);
}
