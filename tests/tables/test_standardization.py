"""Mean and scale of columns, and of columns that come part by part."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rows import chunks

from torchsparcs.tables.standardization import MergedMoments, moments

EPS = np.finfo(np.float64).eps


class TestMerged:
    @settings(max_examples=100, deadline=None)
    @given(
        values=st.lists(
            st.tuples(st.floats(-1e150, 1e150), st.integers(-9, 9), st.floats(1e6, 1e6 + 1)),
            min_size=2,
            max_size=40,
        ),
        cuts=st.lists(st.integers(1, 39), max_size=6),
    )
    def test_moments_of_parts_are_those_of_the_whole(self, values, cuts):
        whole = np.array(values, dtype=np.float64)
        first, *others = (MergedMoments.of(part) for part in chunks(whole, cuts))
        for part in others:
            first = first.with_part(part)
        found, expected = first.moments(), moments(whole)
        assert (first.rows == len(whole)).all()
        assert (first.low == whole.min(axis=0)).all()
        assert (found.is_constant == expected.is_constant).all()
        rounding = 64 * EPS * np.abs(whole).max(axis=0) + 1e-300
        assert (np.abs(found.mean - expected.mean) <= rounding).all()
        assert (np.abs(found.scale - expected.scale) <= 1e-9 * expected.scale + rounding).all()

    @settings(max_examples=50, deadline=None)
    @given(
        values=st.lists(
            st.tuples(*[st.just(np.nan) | st.floats(-1e3, 1e3)] * 2), min_size=2, max_size=20
        ),
        cuts=st.lists(st.integers(1, 19), max_size=4),
    )
    def test_what_is_missing_is_left_out_of_its_column(self, values, cuts):
        whole = np.array(values)
        first, *others = (MergedMoments.of(part) for part in chunks(whole, cuts))
        for part in others:
            first = first.with_part(part)
        for place, column in enumerate(whole.T):
            present = column[~np.isnan(column)][:, None]
            assert first.rows[place] == len(present)
            if len(present):
                expected, found = moments(present), first.moments()
                assert found.mean[place] == pytest.approx(expected.mean[0], abs=1e-9)
                assert found.scale[place] == pytest.approx(expected.scale[0], abs=1e-9)
            else:
                assert first.moments().is_constant[place]

    def test_the_rare_one_of_two_values_stays_near(self):
        rare = (np.arange(2000) < 3).astype(float)
        others = rare.copy()
        others[-1] = 0.5  # a third value: no pair
        merged = MergedMoments.of(np.column_stack([rare, 50 - 7 * rare, others, rare * 0]))
        scale, (mean, _, _) = merged.bounded_scale(), merged.moments()
        assert (1 - mean[0]) / scale[0] == pytest.approx(4)
        assert scale[1] == pytest.approx(7 * scale[0])
        assert (1 - mean[2]) / scale[2] == pytest.approx(10)
        assert scale[3] == 0

    def test_a_worked_example(self):
        # 1, 3 has mean 2 and scale 1; 8 alone has mean 8 and scale 0. Together: mean 4,
        # variance (2 · 1 + 1 · 0) / 3 + 6² · 2 · 1 / 9 = 26 / 3
        parts = MergedMoments.of(np.array([[1.0], [3.0]])), MergedMoments.of(np.array([[8.0]]))
        merged = parts[0].with_part(parts[1])
        assert merged.mean == pytest.approx([4])
        assert merged.scale == pytest.approx([(26 / 3) ** 0.5])
        huge = MergedMoments.of(np.array([[1e200]])).with_part(
            MergedMoments.of([[3e200]] @ np.eye(1))
        )
        assert huge.scale == pytest.approx([1e200])
