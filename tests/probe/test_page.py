import re
import shutil
import subprocess

import numpy as np
import pytest

import estim

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
QUIET = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--enable-logging=stderr", "--v=0",
]  # fmt: skip


@pytest.fixture
def page(tmp_path):
    x = np.linspace(0.1, 0.9, 6)
    design = np.column_stack([np.ones(6), x, 1 - x, x**2])
    found = estim.Sensitivity.from_jacobian(design, 0.1, names=["b0 <&>", "b1", "b2", "c"], groups=["l", "l", "l", "q"])
    path = tmp_path / "report.html"
    found.report(path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["report.html"]
    return path


def test_the_page_is_self_contained_and_escaped(page):
    text = page.read_text()
    assert "<script" not in text
    assert not re.findall(r'(?:src|href)="(?!data:|#)', text)
    assert "b0 &lt;&amp;&gt; - b1 - b2" in text
    assert text.index("Not seen") < text.index("<svg")


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_browser_shows_it_without_complaint_or_outside_request(page, tmp_path):
    picture = tmp_path / "page.png"
    run = [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={picture}", page.as_uri()]
    found = subprocess.run(run, capture_output=True, text=True, timeout=120, check=True)
    assert "CONSOLE" not in found.stderr
    assert "Refused" not in found.stderr
    assert picture.stat().st_size > 10_000
    dump = [CHROMIUM, *QUIET, f"--user-data-dir={tmp_path / 'profile'}", "--dump-dom", page.as_uri()]
    shown = subprocess.run(dump, capture_output=True, text=True, timeout=120, check=True).stdout
    assert "Not seen:" in shown
    assert "<svg" in shown


def test_a_folder_that_is_missing_is_an_error_and_leaves_nothing(tmp_path):
    found = estim.Sensitivity.from_jacobian(np.eye(2), 1.0)
    with pytest.raises(FileNotFoundError):
        found.report(tmp_path / "absent" / "report.html")


@pytest.mark.parametrize(
    ("sigma", "repeats", "said"),
    [
        (0.1, 1, "Noise: sd 0.1. "),
        ([0.1, 0.2, 0.0], 4, "Noise: sd 0 to 0.2, mean of 4 repeats. "),
        (np.diag([1.0, 4.0, 9.0]), 1, "Noise: sd 1 to 3 with a covariance. "),
    ],
)
def test_the_page_says_the_noise_and_the_size_of_the_bank(sigma, repeats, said, tmp_path):
    found = estim.Sensitivity.from_jacobian([[1.0, 0], [0, 1], [1, 1]], sigma, repeats=repeats, inputs=[0, 0, 1])
    found.report(tmp_path / "r.html")
    page = (tmp_path / "r.html").read_text()
    assert said in page
    assert "3 readings of 2 inputs, 2 parameters" in page
