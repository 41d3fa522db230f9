// SPDX-License-Identifier: GPL-2.0-only
/* The workloads that are linked in: found by name, listed, nearest to a misspelling. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness.h"

#define WORKLOADS_MAX 256
#define NEAREST_MAX 3

static int by_name(const void *a, const void *b)
{
	return strcmp((*(const struct workload *const *)a)->name,
		      (*(const struct workload *const *)b)->name);
}

size_t workload_sorted(const struct workload **out, size_t max)
{
	size_t count = 0;

	for (const struct workload *const *w = __start_workloads; w < __stop_workloads && count < max; w++)
		out[count++] = *w;
	qsort(out, count, sizeof(*out), by_name);
	return count;
}

const struct workload *workload_find(const char *name)
{
	for (const struct workload *const *w = __start_workloads; w < __stop_workloads; w++)
		if (strcmp((*w)->name, name) == 0)
			return *w;
	return NULL;
}

/* Edits (insert, delete, replace) that turn a into b; names are short. */
static unsigned int edits(const char *a, const char *b)
{
	unsigned int row[64];
	size_t width = strnlen(b, 63);

	for (size_t j = 0; j <= width; j++)
		row[j] = (unsigned int)j;
	for (size_t i = 1; a[i - 1]; i++) {
		unsigned int diagonal = row[0];

		row[0] = (unsigned int)i;
		for (size_t j = 1; j <= width; j++) {
			unsigned int replace = diagonal + (a[i - 1] != b[j - 1]);
			unsigned int best = row[j] < row[j - 1] ? row[j] + 1 : row[j - 1] + 1;

			diagonal = row[j];
			row[j] = replace < best ? replace : best;
		}
	}
	return row[width];
}

void workload_print_nearest(const char *name)
{
	const struct workload *all[WORKLOADS_MAX];
	size_t count = workload_sorted(all, WORKLOADS_MAX);
	unsigned int shown = 0;

	/* Near means: a third of the letters wrong at most, or one name within the other. */
	for (size_t i = 0; i < count && shown < NEAREST_MAX; i++) {
		size_t length = strlen(all[i]->name);

		if (edits(name, all[i]->name) * 3 <= length + 2 || (name[0] && strstr(all[i]->name, name)) ||
		    strstr(name, all[i]->name))
			fprintf(stderr, "%s%s", shown++ ? ", " : "; nearest: ", all[i]->name);
	}
	if (!shown)
		fprintf(stderr, "; \"workloads list\" prints all %zu", count);
}

static void print_split(const char *list)
{
	putchar('[');
	for (const char *item = list; item && *item;) {
		size_t length = strcspn(item, ",");

		/* The names are ours: nothing in them needs an escape. */
		printf("%s\"%.*s\"", item == list ? "" : ",", (int)length, item);
		item += length + (item[length] == ',');
	}
	putchar(']');
}

void workload_print_list(void)
{
	const struct workload *all[WORKLOADS_MAX];
	size_t count = workload_sorted(all, WORKLOADS_MAX);

	for (size_t i = 0; i < count; i++) {
		const struct workload *w = all[i];

		printf("{\"name\":\"%s\",\"group\":\"%s\",\"unit\":", w->name, w->group);
		protocol_string(w->unit);
		printf(",\"about\":");
		protocol_string(w->about);
		printf(",\"units\":%llu,\"threads_min\":%u,\"needs\":", (unsigned long long)w->units,
		       w->threads_min ? w->threads_min : 1);
		print_split(w->needs);
		printf(",\"packages\":");
		print_split(w->packages);
		printf(",\"programs\":");
		print_split(w->programs);
		printf(",\"shared\":%s}\n", w->shared ? "true" : "false");
	}
}
