// SPDX-License-Identifier: GPL-2.0
/*
 * Runs the kernel's search for the best number of threads (mm/hugetlb_tune.h)
 * on a machine that is told by numbers.
 *
 *	hugetlb_tune BEGIN IDLE ROUNDS RATE...
 *
 * RATE is what 1, 2, 3, ... threads get done in a unit of time. The search
 * begins with BEGIN threads; IDLE is 1 where nobody else wants the CPUs, and 0
 * otherwise. For each round it prints how many threads it had, and 1 if the
 * search stayed with them.
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

typedef uint64_t u64;

#define min(a, b) ((a) < (b) ? (a) : (b))
#define max(a, b) ((a) > (b) ? (a) : (b))
#define clamp(a, low, high) min(max(a, low), high)

#include "../../kernel/huge-page-pools/overlay/mm/hugetlb_tune.h"

int main(int argc, char **argv)
{
	struct hugetlb_tune tune;
	int rounds;

	if (argc < 5) {
		fprintf(stderr,
			"usage: hugetlb_tune BEGIN IDLE ROUNDS RATE...\n");
		return 2;
	}
	hugetlb_tune_begin(&tune, (unsigned int)atoi(argv[1]),
			   (unsigned int)argc - 4, atoi(argv[2]));
	for (rounds = atoi(argv[3]); rounds > 0; rounds--) {
		printf("%u %d\n", tune.threads, hugetlb_tune_stays(&tune));
		hugetlb_tune_round(&tune,
				   strtoull(argv[3 + tune.threads], NULL, 10));
	}
	return 0;
}
