/*
 * Failures: how often there is one, how often to write a checkpoint, and which
 * part of the time is not lost.  Daly, A higher order estimate of the optimum
 * checkpoint interval for restart dumps, Future Generation Computer Systems 22
 * (2006) 303-312; Young, CACM 17(9), 1974, is its first term.
 */
#include "passes/answer/answer.h"

#include <math.h>

#define YEAR_S (365.25 * 24 * 3600)

double
answer_mtbf_s(double failures_year, double n)
{
	return failures_year > 0 ? YEAR_S / (failures_year * n) : INFINITY;
}

/*
 * Daly's (37): sqrt(2 C M) [1 + sqrt(C / 2M) / 3 + C / 2M / 9] - C; M for
 * C >= 2M, where a write rarely ends before the next failure.
 */
double
answer_interval_s(double write_s, double mtbf_s)
{
	double x = write_s / (2 * mtbf_s);

	if (isinf(mtbf_s) || x >= 1) {
		return mtbf_s;
	}
	return sqrt(2 * write_s * mtbf_s) * (1 + sqrt(x) / 3 + x / 9) -
	       write_s;
}

/* The inverse of Daly's (20), wall time M e^(R/M) (e^((t+C)/M) - 1) / t. */
double
answer_goodput(double interval_s, double write_s, double restart_s,
	       double mtbf_s)
{
	if (isinf(mtbf_s)) {
		return 1;
	}
	if (interval_s <= 0) {	/* a write takes no time: at every step */
		return exp(-restart_s / mtbf_s);
	}
	return interval_s / (mtbf_s * exp(restart_s / mtbf_s) *
			     expm1((interval_s + write_s) / mtbf_s));
}
