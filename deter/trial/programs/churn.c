// SPDX-License-Identifier: GPL-2.0-only
// Threads that allocate and free more than malloc keeps. churn THREADS ROUNDS; prints each round's sum.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define BLOCKS 64
#define BYTES (256 << 10)
#define THREADS_MOST 64

static pthread_barrier_t barrier;
static unsigned long sums[THREADS_MOST];
static int threads, rounds;

static void *churn(void *argument)
{
	const long own = (long)argument;
	unsigned char *blocks[BLOCKS];

	for (int round = 0; round < rounds; round++) {
		unsigned long sum = 0;

		for (int i = 0; i < BLOCKS; i++) {
			blocks[i] = malloc(BYTES);
			if (!blocks[i])
				abort();
			memset(blocks[i], round + i + (int)own, BYTES);
		}
		for (int i = 0; i < BLOCKS; i++) {
			sum += blocks[i][round % BYTES] * (unsigned long)(i + 1);
			free(blocks[i]);
		}
		sums[own] = sum;
		pthread_barrier_wait(&barrier);
		if (own == 0) {
			unsigned long all = 0;

			for (int i = 0; i < threads; i++)
				all += sums[i];
			printf("round %d: %lu\n", round, all);
		}
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(int count, char **words)
{
	pthread_t ids[THREADS_MOST];

	threads = count > 1 ? atoi(words[1]) : 2;
	rounds = count > 2 ? atoi(words[2]) : 100;
	if (threads < 1 || threads > THREADS_MOST || rounds < 1)
		return 2;
	pthread_barrier_init(&barrier, NULL, threads);
	for (long i = 0; i < threads; i++)
		if (pthread_create(&ids[i], NULL, churn, (void *)i))
			return 1;
	for (int i = 0; i < threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}
