// SPDX-License-Identifier: GPL-2.0-only
// Two threads that start and join others, which use some of their stack. threads ROUNDS; prints the sum.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SHORT_LIVED 8
#define STACK_USED (256 << 10)

static int rounds;

static void *use_stack(void *argument)
{
	volatile char stack[STACK_USED];

	memset((char *)stack, (int)(long)argument, sizeof(stack));
	return (void *)(long)stack[STACK_USED / 2];
}

static void *start_others(void *argument)
{
	long sum = 0;

	(void)argument;
	for (int round = 0; round < rounds; round++) {
		pthread_t ids[SHORT_LIVED];

		for (long i = 0; i < SHORT_LIVED; i++)
			if (pthread_create(&ids[i], NULL, use_stack, (void *)i))
				abort();
		for (int i = 0; i < SHORT_LIVED; i++) {
			void *value;

			pthread_join(ids[i], &value);
			sum += (long)value;
		}
	}
	return (void *)sum;
}

int main(int count, char **words)
{
	pthread_t ids[2];
	long sum = 0;

	rounds = count > 1 ? atoi(words[1]) : 100;
	for (int i = 0; i < 2; i++)
		if (pthread_create(&ids[i], NULL, start_others, NULL))
			return 1;
	for (int i = 0; i < 2; i++) {
		void *value;

		pthread_join(ids[i], &value);
		sum += (long)value;
	}
	printf("%ld\n", sum);
	return 0;
}
