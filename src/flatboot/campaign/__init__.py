"""Many boots with one aim: sweeps, comparisons, random boots, searches, published tables."""
