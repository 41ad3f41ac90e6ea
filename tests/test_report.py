import numpy as np
import pytest

import estim
from estim.report import number


@pytest.fixture(scope="module")
def exact():
    curve = estim.MeanResponse(lambda t: t / (1 + t), upper=4.0, name="curve")
    return estim.recover(curve, 1.0, [0.01, 0.1], method="exact")


def test_the_summary_has_a_row_a_level_and_the_notes_below(exact):
    text = str(exact.summary())
    rows = [line for line in text.splitlines() if line.strip().startswith(("0.01", "0.1"))]
    assert [row.split()[0] for row in rows] == ["0.01", "0.1"]
    assert float(rows[1].split()[2]) == pytest.approx(exact.relative_rmse[1], rel=1e-3)
    assert text.index("Notes:") > text.index(rows[1])
    assert "<table" in exact.summary().as_html()


def test_at_theta_zero_the_errors_are_absolute():
    found = estim.recover(estim.MeanResponse(lambda t: t), 0.0, [1.0], method="exact")
    text = str(found.summary())
    assert "rel." not in text
    assert "0.7071" in text
    assert "in the units of theta" in text


def test_the_frame_has_the_array_fields_as_columns(exact):
    frame = exact.to_frame()
    assert list(frame["sigma"]) == [0.01, 0.1]
    assert np.array_equal(frame["rmse"], exact.rmse)
    assert {"clipped_low", "linear_rmse", "numerical_error"} <= set(frame.columns)


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.0, "0"), (np.inf, "inf"), (np.nan, "nan"), (1.5e-7, "1.500e-07"), (0.25, "0.25"), (123456.0, "1.235e+05")],
)
def test_numbers_have_four_digits(value, text):
    assert number(value) == text


def test_counts_are_whole():
    assert number(np.int64(12480)) == "12,480"


def test_names_are_text_in_a_notebook_and_one_line_in_a_table():
    names = ["<script>x</script>", "a\nb", "p & q", "重み"]
    summary = estim.Sensitivity.from_jacobian(np.eye(4), 0.1, names=names).summary()
    shown = summary._repr_html_()
    assert "<script>" not in shown
    assert "&lt;script&gt;x&lt;/script&gt;" in shown
    assert "p &amp; q" in shown
    assert shown.count("<table") == 2
    lines = str(summary).splitlines()
    assert [line for line in lines if line.startswith(r"a\nb ")]
    assert [line for line in lines if line.startswith("重み ")]
    curve = estim.MeanResponse(lambda t: t, name="<b>curve</b>")
    found = estim.recover(curve, 1.0, 0.1, method="exact").summary()
    assert "&lt;b&gt;curve" in found.as_html()
    assert "<b>curve" in str(found)
