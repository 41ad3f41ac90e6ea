import builtins
import pickle

import numpy as np
import pytest
from matplotlib.figure import Figure

import estim
from estim.plotting import plot_coverage


@pytest.fixture(scope="module")
def curve():
    return estim.MeanResponse(lambda t: t / (1 + t), upper=4.0, name="curve")


def test_without_matplotlib_the_message_says_what_to_install(curve, monkeypatch):
    found = estim.recover(curve, 1.0, [0.1], method="exact")
    real = builtins.__import__

    def without(name, *rest, **more):
        if name.startswith("matplotlib"):
            raise ModuleNotFoundError(name)
        return real(name, *rest, **more)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ModuleNotFoundError, match=r"pictures need matplotlib: pip install 'estim\[plot\]'"):
        found.plot()


def records(curve):
    """Return a record of every kind whose picture has several panels."""
    yield estim.recover(curve, 1.0, [0.1, 0.2], method="exact")
    yield estim.confidence_interval(curve, [0.1, 0.5], 0.1)
    found = estim.Sensitivity.from_jacobian(np.eye(2), 0.1)
    yield found
    yield found.judge(np.zeros(2), smallest_change=1.0)
    yield estim.recover_parameters(lambda p, b: p, 0.0, 0.1, params=np.ones(2), trials=8, rng=0)


def test_pictures_are_drawn_into_a_figure_or_a_part_of_one(curve, tmp_path):
    for record in records(curve):
        alone = record.plot()
        whole = Figure(layout="constrained")
        left, right = whole.subfigures(1, 2)
        assert record.plot(figure=left) is left
        assert not right.axes
        assert len(left.axes) == len(alone.axes)
        whole.savefig(tmp_path / "parts.png")
        own = Figure()
        assert record.plot(figure=own) is own
        assert len(own.axes) == len(alone.axes)


def test_axes_are_no_figure(curve):
    message = "figure must be a matplotlib Figure or SubFigure, as the picture has several panels; got Axes: one panel"
    for record in records(curve):
        with pytest.raises(TypeError, match=message):
            record.plot(figure=Figure().subplots())


def test_coverage_is_drawn_into_given_axes():
    above, below = Figure().subplots(2, 1)
    figure = plot_coverage([0.0, 1.0], {"mine": [0.9, 0.95]}, ax=below)
    assert figure is below.figure
    assert below.get_legend_handles_labels()[1] == ["mine", "level asked for: 0.95"]
    assert not above.lines
    with pytest.raises(TypeError, match="ax must be one matplotlib Axes; got ndarray"):
        plot_coverage([0.0, 1.0], {"mine": [0.9, 0.95]}, ax=np.array([above, below]))


def shown(axis):
    """Return the ticks that are seen."""
    low, high = axis.get_view_interval()
    return [tick for tick in axis.get_majorticklocs() if low <= tick <= high]


@pytest.mark.parametrize("count", [1, 2, 3, 5, 12, 60])
def test_axes_that_count_are_ticked_at_whole_numbers(count):
    # Ticks at direction 1.5, and at 0.98 and 1.02 where there is one.
    matrix = np.diag(np.arange(1.0, count + 1.0))
    found = estim.Sensitivity.from_jacobian(matrix, 0.1)
    model = estim.recover_parameters(lambda p, b: matrix @ p, 0.0, 0.1, params=np.ones(count), trials=8, rng=0)
    axes = [found.plot().axes[0], model.plot().axes[1], estim.spectrum(matrix).plot()]
    for axis in (each.xaxis for each in axes):
        ticks = shown(axis)
        assert ticks
        assert all(float(tick).is_integer() for tick in ticks)


def test_names_that_the_font_cannot_write_are_shown_by_their_code(tmp_path):
    names = ["\u91cd\u307f", "\u03b8", "a\nb"]
    found = estim.Sensitivity.from_jacobian(np.eye(3), 0.1, names=names)
    figure = found.plot()
    figure.savefig(tmp_path / "names.png")
    labels = [label.get_text() for label in figure.axes[1].get_xticklabels()]
    assert labels[0] == r"\u91cd\u307f"
    assert labels[1] == "\u03b8"
    found.report(tmp_path / "names.html")
    assert names[0] in (tmp_path / "names.html").read_text(encoding="utf-8")


def test_a_notebook_shows_a_picture_without_pyplot(curve):
    figure = estim.recover(curve, 1.0, [0.1, 0.2], method="exact").plot()
    assert figure._repr_png_().startswith(b"\x89PNG")
    assert len(pickle.loads(pickle.dumps(figure)).axes) == len(figure.axes)
