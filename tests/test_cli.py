import io
import json
import os
import subprocess
import sys

import numpy as np
import pytest

import estim
from estim.cli import main
from estim.printing import print_result

MODULE = """
import estim
curve = estim.MeanResponse(lambda t: t / (1 + t), upper=4.0, name="curve")
def plain(t):
    return t / (1 + t)
number = 3
class holder:
    inner = curve
"""


@pytest.fixture(autouse=True)
def _module_in_the_current_directory(tmp_path, monkeypatch):
    (tmp_path / "mymodule.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.delitem(sys.modules, "mymodule", raising=False)


def test_the_table_shows_every_level(capsys):
    assert main(["recover", "mymodule:curve", "--theta", "1", "--sigma", "1e-3,0.02", "--rng", "0"]) == 0
    out = capsys.readouterr().out
    assert "curve" in out
    assert "0.001" in out
    assert "0.02" in out
    assert "Monte Carlo, 100000 trials" in out


def test_json_is_the_record_of_the_same_call_in_python(capsys):
    command = ["recover", "mymodule:curve", "--theta", "1", "--sigma", "0.01,0.1", "--trials", "5000", "--rng", "7"]
    assert main([*command, "--json"]) == 0
    found = estim.Recovery.from_json(capsys.readouterr().out)
    curve = estim.MeanResponse(lambda t: t / (1 + t), upper=4.0, name="curve")
    assert found == estim.recover(curve, 1.0, [0.01, 0.1], trials=5000, rng=7)


def test_exact_has_no_trials_and_a_plain_function_takes_its_domain(capsys):
    command = ["recover", "mymodule:plain", "--upper", "4", "--theta", "1", "--sigma", "0.1", "--exact", "--json"]
    assert main(command) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["method"] == "exact"
    assert found["trials"] == 0
    assert np.isclose(found["linear_rmse"][0], 0.4)


def test_a_name_inside_a_class_is_found(capsys):
    assert main(["recover", "mymodule:holder.inner", "--theta", "1", "--sigma", "0.1", "--exact"]) == 0
    assert "curve" in capsys.readouterr().out


def test_a_picture_is_written(tmp_path, capsys):
    assert main(["recover", "mymodule:curve", "--theta", "1", "--sigma", "0.1,0.2", "--exact", "--plot", "p.png"]) == 0
    assert (tmp_path / "p.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"place": "mymodule"}, "the model or response must be given as PACKAGE.MODULE:NAME; got 'mymodule'"),
        ({"place": "mymodule.py:curve"}, "a module is named without its ending: mymodule:curve"),
        ({"more": ["--exact", "--trials", "9"]}, "--exact draws nothing: leave out --trials"),
        ({"more": ["--plot", "."]}, "--plot must"),
        ({"place": "mymodule:absent"}, "module mymodule has no 'absent'"),
        ({"place": "nomodule:curve"}, "No module named 'nomodule'"),
        ({"place": "mymodule:number"}, "mymodule:number must be an estim.MeanResponse or a function"),
        ({"place": "mymodule:plain"}, "the mean tends to 1 as theta grows without bound"),
        ({"more": ["--upper", "2"]}, "--lower and --upper are for plain functions"),
        ({"more": ["--theta", "9"]}, r"theta must be finite and lie in the domain [0, 4] of the response; got 9.0"),
        ({"more": ["--sigma", "0"]}, "sigma must be positive and finite; got 0.0 at entry 0"),
        ({"more": ["--plot", "p.xyz"]}, "--plot must end in one of"),
        (
            {"more": ["--plot", "absent/p.png"]},
            "--plot must be in a folder that exists; 'absent' does not, got 'absent/p.png'",
        ),
        ({"more": ["--trials", "1"]}, "trials must be at least 2"),
        ({"more": ["--workers", "0"]}, "workers must be a positive integer"),
        ({"more": ["--rng", "-1"]}, "rng must be"),
    ],
)
def test_what_is_refused_is_one_sentence_and_no_traceback(change, message, capsys):
    command = ["recover", change.get("place", "mymodule:curve"), "--theta", "1", "--sigma", "0.1"]
    assert main([*command, *change.get("more", [])]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("estim: ")
    assert message in captured.err


def test_sigma_that_is_no_number_is_a_usage_error(capsys):
    with pytest.raises(SystemExit, match="2"):
        main(["recover", "mymodule:curve", "--theta", "1", "--sigma", "0.1;0.2"])
    assert "must be numbers separated by commas; got '0.1;0.2'" in capsys.readouterr().err


def test_the_module_runs_as_a_program():
    run = [sys.executable, "-m", "estim", "recover", "mymodule:curve", "--theta", "1", "--sigma", "0.1", "--exact"]
    found = subprocess.run(run, capture_output=True, text=True, check=True)
    assert "exact quadrature" in found.stdout
    assert found.stderr == ""


class TestSensitivity:
    @pytest.fixture(autouse=True)
    def _data(self, tmp_path):
        (tmp_path / "mymodule.py").write_text(
            MODULE + "\nimport numpy as np\ndef cooling(p, t):\n"
            "    return p['ambient'] + p['gain'] * p['power'] * np.exp(-p['rate'] * t)\n"
        )
        np.save(tmp_path / "times.npy", np.linspace(0, 5, 12))
        params = {"ambient": 20.0, "gain": 2.0, "power": 3.0, "rate": 0.7}
        (tmp_path / "params.json").write_text(json.dumps(params))

    command = ("sensitivity", "mymodule:cooling", "times.npy", "--sigma", "0.05", "--params", "params.json")

    def test_the_table_says_first_what_is_not_seen(self, capsys):
        assert main([*self.command]) == 0
        out = capsys.readouterr().out
        assert out.index("gain - 1.5 power") < out.index("ambient")
        assert "gain + 0.667 power" in out

    def test_json_is_the_record(self, capsys):
        assert main([*self.command, "--json", "--repeats", "4", "--smallest-change", "0.001"]) == 0
        found = estim.Sensitivity.from_json(capsys.readouterr().out)
        assert found.names == ("ambient", "gain", "power", "rate")
        assert found.counts[estim.Status.WEAK] == 3

    def test_page_and_picture_are_written(self, tmp_path, capsys):
        assert main([*self.command, "--report", "r.html", "--plot", "p.svg"]) == 0
        assert "Not seen" in (tmp_path / "r.html").read_text()
        assert "<svg" in (tmp_path / "p.svg").read_text()

    def test_one_parameter_has_its_name_in_an_archive_too(self, tmp_path, capsys):
        (tmp_path / "mymodule.py").write_text("def decay(p, t):\n    return p['rate'] * t\n")
        np.savez(tmp_path / "p.npz", rate=2.0)
        assert main(["sensitivity", "mymodule:decay", "times.npy", "--sigma", "1", "--params", "p.npz", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["names"] == ["rate"]

    @pytest.mark.parametrize("header", ["sd\n", ""])
    def test_sigma_may_be_a_column_of_a_table(self, header, tmp_path, capsys):
        sds = [0.05 + 0.01 * k for k in range(len(np.load(tmp_path / "times.npy")))]
        (tmp_path / "sd.csv").write_text(header + "".join(f"{sd}\n" for sd in sds))
        assert main([*self.command[:3], "--sigma", "sd.csv", *self.command[5:], "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["whitening"] == pytest.approx([1.0 / sd for sd in sds])

    def test_sigma_may_be_a_file(self, tmp_path, capsys):
        np.save(tmp_path / "sd.npy", np.full(12, 0.05))
        assert main([*self.command, "--json"]) == 0
        scalar = estim.Sensitivity.from_json(capsys.readouterr().out)
        assert main([*self.command[:3], "--sigma", "sd.npy", *self.command[5:], "--json"]) == 0
        assert estim.Sensitivity.from_json(capsys.readouterr().out) == scalar

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (("times.npy", "absent.npy"), "BANK must be a file that exists; got 'absent.npy'"),
            (("params.json", "params.pkl"), "--params must end in one of"),
            (("0.05", "many.txt"), "--sigma must end in one of"),
            (("0.05", "-1"), "sigma must be positive; got -1.0"),
            (("mymodule:cooling", "mymodule:number"), "int"),
        ],
    )
    def test_what_is_refused_is_one_sentence(self, change, message, capsys):
        assert main([part.replace(*change) for part in self.command]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert message in captured.err

    def test_a_folder_that_is_missing_is_found_before_the_work(self, capsys):
        assert main([*self.command, "--report", "absent/r.html"]) == 2
        assert "--report must be in a folder that exists" in capsys.readouterr().err
        assert main([*self.command, "--report", "."]) == 2
        assert "--report must be a file; got the folder '.'" in capsys.readouterr().err
        assert main([*self.command, "--report", "r.pdf"]) == 2
        assert "--report must end in .html or .htm, as a page is HTML" in capsys.readouterr().err

    @pytest.mark.parametrize("wanted", [("--report", "r.html"), ("--plot", "p.png")])
    def test_so_is_a_missing_matplotlib(self, wanted, monkeypatch, capsys):
        monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
        assert main([*self.command, *wanted]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert captured.err == "estim: pictures need matplotlib: pip install 'estim[plot]'\n"


class TestJudge:
    @pytest.fixture(autouse=True)
    def _data(self, tmp_path):
        (tmp_path / "mymodule.py").write_text(
            "import numpy as np\ndef cooling(p, t):\n    return p['ambient'] + p['gain'] * np.exp(-p['rate'] * t)\n"
        )
        self.params = {"ambient": 20.0, "gain": 6.0, "rate": 0.7}
        self.times, self.shift = np.linspace(0, 5, 12), 0.05 * np.random.default_rng(0).standard_normal(12)
        np.save(tmp_path / "times.npy", self.times)
        np.save(tmp_path / "shift.npy", self.shift)
        (tmp_path / "params.json").write_text(json.dumps(self.params))

    command = ("judge", "mymodule:cooling", "times.npy", "--sigma", "0.05", "--params", "params.json")

    def judged(self, observed=None, **asked):
        def cooling(p, t):
            return p["ambient"] + p["gain"] * np.exp(-p["rate"] * t)

        found = estim.sensitivity(cooling, self.times, 0.05, params=self.params)
        return found.judge(self.shift if observed is None else observed, **asked)

    @pytest.mark.parametrize(
        ("more", "asked"),
        [
            (["--any-change", "10%"], {"smallest_change": estim.AnyChange(0.1)}),
            (["--any-change", "0.01", "--group", "gain"], {"smallest_change": estim.AnyChange(0.01, group="gain")}),
            (
                ["--any-change", "1%", "--typical", "--noisy-baseline", "--power", "0.9", "--rng", "3"],
                {"smallest_change": estim.AnyChange(0.01, case="typical"), "baseline": "noisy", "power": 0.9, "rng": 3},
            ),
        ],
    )
    def test_json_is_the_verdict_of_the_same_call_in_python(self, more, asked, capsys):
        assert main([*self.command, "--shift", "shift.npy", *more, "--json"]) == 0
        assert estim.Verdict.from_json(capsys.readouterr().out) == self.judged(**asked)

    def test_readings_before_and_after_may_be_given_and_one_change(self, tmp_path, capsys):
        after = self.times + self.shift
        (tmp_path / "after.csv").write_text("reading\n" + "".join(f"{value!r}\n" for value in after.tolist()))
        np.save(tmp_path / "before.npy", self.times)
        (tmp_path / "change.json").write_text('{"rate": 0.02}')
        given = ["--before", "before.npy", "--after", "after.csv", "--change", "change.json"]
        assert main([*self.command, *given, "--json"]) == 0
        truth = self.judged((self.times, after), smallest_change={"rate": 0.02})
        assert estim.Verdict.from_json(capsys.readouterr().out) == truth

    def test_the_table_page_and_picture_are_written(self, tmp_path, capsys):
        more = ["--any-change", "1%", "--group", "gain", "--report", "v.html", "--plot", "v.png"]
        assert main([*self.command, "--shift", "shift.npy", *more]) == 0
        assert "Verdict: BLIND" in capsys.readouterr().out
        assert "BLIND" in (tmp_path / "v.html").read_text()
        assert (tmp_path / "v.png").read_bytes().startswith(b"\x89PNG")

    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (
                ["--any-change", "1%"],
                "--shift FILE, or --before FILE and --after FILE must be given; got neither",
            ),
            (["--any-change", "1%", "--after", "shift.npy"], "must be given; got --after"),
            (["--any-change", "big", "--shift", "shift.npy"], "--any-change must be a relative size, such as 0.01 or"),
            (["--change", "params.json", "--typical", "--shift", "shift.npy"], "--typical are for --any-change SIZE"),
            (["--change", "change.txt", "--shift", "shift.npy"], "--change must end in one of .npy"),
            (["--any-change", "0", "--shift", "shift.npy"], "size must be positive"),
            (["--change", "", "--shift", "shift.npy"], "--change must end in one of .npy"),
            # As of a variable that is not set.
            (["--any-change", "1%", "--shift", ""], "--shift must end in one of .npy"),
            (["--any-change", "1%", "--shift", "shift.npy", "--plot", ""], "--plot must"),
            (["--any-change", "1%", "--shift", "shift.npy", "--report", ""], "--report must"),
        ],
    )
    def test_what_is_refused_is_one_sentence(self, more, message, capsys):
        assert main([*self.command, *more]) == 2
        captured = capsys.readouterr()
        assert captured.out == ""
        assert message in captured.err

    def test_a_change_that_must_not_be_missed_is_asked_for(self, capsys):
        with pytest.raises(SystemExit, match="2"):
            main([*self.command, "--shift", "shift.npy"])
        assert "one of the arguments --any-change --change is required" in capsys.readouterr().err


EXACT = ("recover", "mymodule:curve", "--theta", "1", "--sigma", "0.1", "--exact")


def program(*command, **places):
    """Start the command line as a program that fills a buffer before it writes, as it does at a prompt."""
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.Popen([sys.executable, "-m", "estim", *command], env=buffered, text=True, **places)


def test_a_reader_that_leaves_early_is_no_error():
    with program(*EXACT, "--plot", "p.png", stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        running.stdout.close()
        assert running.stderr.read() == ""
    assert running.returncode == 0
    assert os.path.exists("p.png")


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_result_that_does_not_fit_on_the_disk_is_no_success():
    with open("/dev/full", "w") as full, program(*EXACT, stdout=full, stderr=subprocess.PIPE) as running:
        assert running.stderr.read() == "estim: [Errno 28] No space left on device\n"
    assert running.returncode == 2


def test_a_name_that_the_locale_has_no_letters_for_is_no_refusal(monkeypatch):
    printed = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(printed, encoding="ascii"))
    print_result("\u03b2 = 1")
    assert printed.getvalue() == b"\\u03b2 = 1\n"


def test_a_refusal_is_not_printed_as_a_result(monkeypatch, capsys):
    monkeypatch.setattr(sys, "stderr", None)  # it was closed
    assert main(["recover", "mymodule:curve", "--theta", "1", "--sigma", "0"]) == 2
    assert capsys.readouterr().out == ""


def test_an_interrupt_is_a_code_of_its_own(tmp_path, capsys):
    (tmp_path / "interrupting.py").write_text("def rise(t):\n    raise KeyboardInterrupt\n")
    assert main(["recover", "interrupting:rise", "--theta", "1", "--sigma", "0.1"]) == 130
    assert capsys.readouterr() == ("", "estim: interrupted\n")


class TestANewcomer:
    @pytest.fixture(autouse=True)
    def here(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "newcomer.py").write_text("def line(p, x):\n    return p['a'] * x + p['b']\n")
        (tmp_path / "newcomer_raises.py").write_text("1 / 0\n")
        (tmp_path / "params.json").write_text('{"a": 1.0, "b": 2.0}')
        np.save("bank.npy", np.arange(3.0))
        (tmp_path / "text.npy").write_text("x")

    def test_gets_what_is_seen(self, capsys):
        assert main(["sensitivity", "newcomer:line", "bank.npy", "--sigma", "1e-6", "--params", "params.json"]) == 0
        assert "2 seen" in capsys.readouterr().out

    @pytest.mark.parametrize(
        ("model", "bank", "more", "said"),
        [
            (
                "newcomer:line",
                "bank.npy",
                [],
                "--params FILE must be given, as newcomer:line is a function of parameters",
            ),
            (
                "newcomer_absent:line",
                "bank.npy",
                [],
                "newcomer_absent could not be imported, from the current directory",
            ),
            ("newcomer_raises:line", "bank.npy", [], "could not be imported: it raises ZeroDivisionError"),
            ("newcomer:line", "absent.npy", [], "BANK must be a file that exists; got 'absent.npy'"),
            ("newcomer:line", "text.npy", [], "BANK could not be read from 'text.npy': it is no array file"),
            ("newcomer:line", "bank.npy", ["--sigma", "tiny"], "--sigma must be a number, or a file of standard"),
            (
                "newcomer:line",
                "bank.npy",
                ["--report", "no/r.html"],
                "folder that exists; 'no' does not, got 'no/r.html'",
            ),
        ],
    )
    def test_is_told_in_one_line_what_is_missing(self, model, bank, more, said, capsys):
        assert main(["sensitivity", model, bank, "--sigma", "1e-6", *more]) == 2
        error = capsys.readouterr().err
        assert said in error
        assert error.count("\n") == 1


class TestOutputOfTheUsersCode:
    @pytest.fixture(autouse=True)
    def _talking(self, tmp_path, monkeypatch):
        monkeypatch.delitem(sys.modules, "talking", raising=False)
        monkeypatch.delitem(sys.modules, "ending", raising=False)
        (tmp_path / "talking.py").write_text(
            "print('imported')\nimport sys\n"
            "def line(p, x):\n    print('called')\n    return p['a'] * x\n"
            "def rise(t):\n    print('called')\n    return t\n"
            "def leaves(p, x):\n    sys.exit(0)\n"
        )
        (tmp_path / "ending.py").write_text("raise SystemExit(0)\n")
        (tmp_path / "p.json").write_text('{"a": 1.0}')
        np.save(tmp_path / "x.npy", np.arange(1.0, 4.0))

    @pytest.mark.parametrize(
        "command",
        [
            ["sensitivity", "talking:line", "x.npy", "--sigma", "0.1", "--params", "p.json", "--json"],
            ["recover", "talking:rise", "--theta", "1", "--sigma", "0.1", "--exact", "--json"],
        ],
    )
    def test_json_is_all_that_is_on_the_output(self, command, capsys):
        assert main(command) == 0
        shown = capsys.readouterr()
        assert isinstance(json.loads(shown.out), dict)
        assert shown.err.startswith("imported\ncalled\n")

    @pytest.mark.parametrize(
        ("model", "said"),
        [("ending:line", "ending could not be imported: it raises SystemExit(0)"), ("talking:leaves", "SystemExit(0)")],
    )
    def test_code_that_ends_python_is_no_success(self, model, said, capsys):
        assert main(["sensitivity", model, "x.npy", "--sigma", "0.1", "--params", "p.json"]) == 2
        assert said in capsys.readouterr().err


def test_nor_is_the_output_of_programs_that_a_model_starts(tmp_path):
    (tmp_path / "starting.py").write_text("import os\ndef rise(t):\n    os.system('echo called')\n    return t\n")
    command = ["recover", "starting:rise", "--theta", "1", "--sigma", "0.1", "--upper", "2", "--exact", "--json"]
    with program(*command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        out, err = running.communicate()
    assert json.loads(out)["theta"] == 1.0
    assert err.startswith("called\n")


@pytest.mark.parametrize("theta", ["-1e-3", "-0.001", "-.1E-2"])
def test_a_negative_number_may_have_an_exponent(theta, capsys):
    command = ["recover", "mymodule:plain", "--lower", "-0.5", "--upper", "4", "--theta", theta, "--sigma", "0.1"]
    assert main([*command, "--exact", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["theta"] == -0.001


def test_a_file_that_may_not_be_written_is_found_before_the_work(monkeypatch, capsys):
    monkeypatch.setattr("os.access", lambda path, mode: False)
    assert main(["recover", "mymodule:curve", "--theta", "1", "--sigma", "0.1", "--plot", "x.png"]) == 2
    shown = capsys.readouterr()
    assert shown.err == "estim: --plot must be a file that may be written; got 'x.png'\n"
    assert not shown.out
