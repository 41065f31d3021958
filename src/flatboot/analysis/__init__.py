"""From records to findings: fits, comparisons, ranks, projections, verdicts."""
