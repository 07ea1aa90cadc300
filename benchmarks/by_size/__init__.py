"""Score against size on real tables: what `benchmarks/tables.py` runs, measures and writes."""
