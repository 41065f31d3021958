/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How many threads do most: found out while they work.
 *
 * Work is done in rounds, each with some number of threads, and each round tells
 * what it got done. From the best number so far, others are tried: twice as many,
 * half, half more, a quarter less, an eighth more. One that does more is the best
 * from then on. Threads cost others something, so more of them must do noticeably
 * more; where CPUs are idle otherwise, fewer must. When nothing is left to try it
 * stays, and tries anew after a while, since what else the machine does changes.
 *
 * Nothing in here is of the kernel, so that it can be run on a model of a machine.
 */
#ifndef _MM_HUGETLB_TUNE_H
#define _MM_HUGETLB_TUNE_H

#define HUGETLB_TUNE_TRIES	5

/*
 * More threads must do a sixteenth more. Where CPUs are idle otherwise, more threads
 * must do only so much more that one sees it, and fewer must do a sixteenth more.
 */
#define HUGETLB_TUNE_GAIN	16
#define HUGETLB_TUNE_IDLE_GAIN	64

/* So many times the length of a round that tries something */
#define HUGETLB_TUNE_STAY	8

/* Rounds to stay before it tries anew */
#define HUGETLB_TUNE_ANEW	16

/**
 * struct hugetlb_tune - the state of the search
 * @most: no more threads than these
 * @idle: nobody else wants the CPUs
 * @best: what does most so far
 * @rate: what it does, units of work in a unit of time; 0 if it was not tried
 * @threads: for the next round
 * @tries: which of the others was tried last
 * @stayed: rounds since there was nothing left to try
 */
struct hugetlb_tune {
	unsigned int	most;
	bool		idle;
	unsigned int	best;
	u64		rate;
	unsigned int	threads;
	unsigned int	tries;
	unsigned int	stayed;
};

static inline bool hugetlb_tune_stays(const struct hugetlb_tune *tune)
{
	return tune->tries == HUGETLB_TUNE_TRIES;
}

/* What to try besides the best, or the best if there is nothing left */
static inline unsigned int hugetlb_tune_other(const struct hugetlb_tune *tune)
{
	switch (tune->tries) {
	case 0:
		return 2 * tune->best;
	case 1:
		return tune->best / 2;
	case 2:
		return tune->best + tune->best / 2;
	case 3:
		return tune->best - tune->best / 4;
	case 4:
		return tune->best + tune->best / 8;
	default:
		return tune->best;
	}
}

/* Go on to the first of the others, from number @tries on, that can be tried. */
static inline void hugetlb_tune_try(struct hugetlb_tune *tune, unsigned int tries)
{
	for (tune->tries = tries; tune->tries < HUGETLB_TUNE_TRIES; tune->tries++) {
		tune->threads = min(hugetlb_tune_other(tune), tune->most);
		if (tune->threads && tune->threads != tune->best)
			return;
	}
	tune->threads = tune->best;
	tune->stayed = 0;
}

/**
 * hugetlb_tune_begin - begin to search
 * @tune: the search
 * @threads: with this number
 * @most: no more than these
 * @idle: does nobody else want the CPUs?
 */
static inline void hugetlb_tune_begin(struct hugetlb_tune *tune, unsigned int threads,
				      unsigned int most, bool idle)
{
	tune->idle = idle;
	tune->most = max(most, 1);
	tune->best = clamp(threads, 1, tune->most);
	tune->rate = 0;
	tune->threads = tune->best;
	tune->tries = 0;
	tune->stayed = 0;
}

/**
 * hugetlb_tune_round - learn from a round, and choose the threads of the next
 * @tune: the search
 * @rate: what the round got done in a unit of time
 */
static inline void hugetlb_tune_round(struct hugetlb_tune *tune, u64 rate)
{
	unsigned int gain = tune->idle ? HUGETLB_TUNE_IDLE_GAIN : HUGETLB_TUNE_GAIN;
	u64 enough = tune->rate;

	if (tune->threads > tune->best)
		enough += tune->rate / gain + 1;
	else if (tune->idle && tune->threads < tune->best)
		enough += tune->rate / HUGETLB_TUNE_GAIN + 1;
	if (!tune->rate) {
		tune->rate = max(rate, 1);
		hugetlb_tune_try(tune, 0);
	} else if (tune->threads == tune->best) {
		tune->rate = max((tune->rate + rate) / 2, 1);
		if (++tune->stayed == HUGETLB_TUNE_ANEW)
			hugetlb_tune_try(tune, 0);
	} else if (rate >= enough) {
		tune->best = tune->threads;
		tune->rate = rate;
		hugetlb_tune_try(tune, tune->tries);
	} else {
		hugetlb_tune_try(tune, tune->tries + 1);
	}
}

#endif /* _MM_HUGETLB_TUNE_H */
