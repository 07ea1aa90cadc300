"""Widths of networks for Hypothesis to draw."""

from hypothesis import strategies as st

widths_strategy = st.lists(st.integers(1, 7), min_size=2, max_size=9)
