import csv
import io
import json
import sys

import pytest

from rlpyt.experiments.results import pictures
from rlpyt.experiments.results.comparison import Comparison
from rlpyt.experiments.results.pictures import plot_learning_curves, plot_results
from rlpyt.experiments.results.runs import STEPS, find_runs

pytest.importorskip("matplotlib")


@pytest.fixture
def sweeps(tmp_path):
    """Two sweeps over two tasks, with two runs of the first sweep and one of the second."""
    for sweep, n_runs in (("new", 2), ("old", 1)):
        for task in ("car", "pole"):
            for number in range(n_runs):
                directory = tmp_path / sweep / task / f"run_{number}"
                directory.mkdir(parents=True)
                rows = [(10 * i, i + number + len(sweep + task)) for i in range(1, 9)]
                with (directory / "progress.csv").open("w", newline="") as file:
                    csv.writer(file).writerows([(STEPS, "ReturnAverage"), *rows])
                (directory / "params.json").write_text(json.dumps({"env": {"id": task}}))
    return [tmp_path / "new", tmp_path / "old"]


def legend(figure):
    """Texts of the legend, of the figure or of its only panel."""
    found = figure.legends[0] if figure.legends else figure.axes[0].get_legend()
    return [found.get_title().get_text(), *(text.get_text() for text in found.get_texts())]


@pytest.mark.slow
def test_all_pictures_of_two_sweeps(sweeps, tmp_path):
    output = tmp_path / "out"
    comparison, files = plot_results(sweeps, output, n_resamples=20)
    assert comparison.labels == ["new", "old"]
    pictures_made = {path.name for path in files if path.suffix != ".csv"}
    names = ("curves", "profiles", "improvement")
    assert pictures_made == {f"{name}.{end}" for name in names for end in ("png", "svg")}
    assert all(path.stat().st_size > 50 for path in files)
    assert (output / "curves.png").read_bytes().startswith(b"\x89PNG")
    first = (output / "curves.svg").read_bytes()
    plot_results(sweeps, output, n_resamples=20)
    assert (output / "curves.svg").read_bytes() == first


def test_a_curve_of_one_row_is_a_point(sweeps):
    # A line of one point shows nothing.
    for file in sweeps[0].rglob("progress.csv"):
        file.write_text("".join(file.read_text().splitlines(keepends=True)[:2]))
    figure = pictures.draw_curves(Comparison(find_runs(sweeps), n_resamples=20))
    assert [line.get_marker() for line in figure.axes[0].lines] == ["o", ""]


def test_one_setting_needs_no_comparison(sweeps, tmp_path):
    _, files = plot_results([sweeps[0] / "car"], tmp_path, formats=["svg"], n_resamples=20)
    assert {path.name for path in files if path.suffix == ".svg"} == {"curves.svg", "profiles.svg"}


def test_legend_names_runs_interval_and_smoothing(sweeps):
    figure = pictures.draw_curves(Comparison(find_runs(sweeps), smooth=5, n_resamples=20))
    assert [axes.get_title() for axes in figure.axes] == ["car", "pole", "all tasks"]
    title, *labels = legend(figure)
    assert title == (
        "interquartile mean of runs, 95% stratified bootstrap interval; "
        "smoothed: mean of the last 5 log rows"
    )
    assert labels == ["new (2 runs each)", "old (1 run each, no interval)"]
    # The label with two runs has a band in every panel, the one with a single run has none.
    assert [len(axes.collections) for axes in figure.axes] == [1, 1, 1]
    unsmoothed = pictures.draw_curves(Comparison(find_runs(sweeps[:1]), n_resamples=20))
    assert "smoothed" not in legend(unsmoothed)[0]


def test_labels_that_begin_with_an_underscore_are_in_the_legend(sweeps):
    """Matplotlib leaves out such labels of lines."""
    runs = [run._replace(label=f"_{run.label}") for run in find_runs(sweeps)]
    figure = pictures.draw_profiles(Comparison(runs, n_resamples=20))
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert [text.split()[0] for text in texts] == ["_new", "_old"]


def test_legend_of_long_labels_fits(sweeps):
    """Labels beside each other ran over both edges of the picture."""
    runs = [run._replace(label=f"{run.label} {'x' * 40}") for run in find_runs(sweeps)]
    figure = pictures.draw_curves(Comparison(runs, n_resamples=20))
    figure.savefig(io.BytesIO())
    box = figure.legends[0].get_window_extent()
    assert 0 <= box.x0 < box.x1 <= figure.bbox.x1


def test_learning_curves_of_given_files(sweeps, tmp_path):
    picture = tmp_path / "picture.png"
    runs = sorted(sweeps[0].glob("car/*/progress.csv"))
    plot_learning_curves({"both": runs, "single": runs[:1]}, picture, title="Return")
    content = picture.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert len(content) > 10_000


def test_without_matplotlib_nothing_is_written(sweeps, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"needs matplotlib: pip install 'rlpyt\[plot\]'"):
        plot_results(sweeps, tmp_path / "out")
    assert not (tmp_path / "out").exists()
