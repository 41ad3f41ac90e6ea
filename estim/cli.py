"""The command line: ``estim recover PACKAGE.MODULE:RESPONSE --theta 0.05 --sigma 1e-3,1e-2``."""

import argparse
import math
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from estim.cli_probe import add_probe_commands
from estim.named import load, users_code
from estim.printing import check_places, exit_code, write_result

# An interrupt during an import here would end in a traceback: NumPy, and what needs it, waits for `main`.
if TYPE_CHECKING:
    from estim.recovery.response import MeanResponse


#: What ends in a sentence: a command line that is not understood, or what it names.
_REFUSED = (ValueError, TypeError, ImportError, OSError, ArithmeticError, MemoryError)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; return 0, 2 when the command line is not understood or what it names is refused, 130 on Ctrl-C."""

    def run() -> int:
        options = _parser().parse_args(_joined(sys.argv[1:] if arguments is None else arguments))
        options.run(options)
        return 0

    return exit_code("estim", run, _REFUSED)


def _parser() -> argparse.ArgumentParser:
    from importlib.metadata import version

    parser = argparse.ArgumentParser(prog="estim", description="What a monitor can see.")
    parser.add_argument("--version", action="version", version=f"estim {version('estim')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    recover = commands.add_parser(
        "recover",
        help="the error of one parameter recovered under noise",
        description="Read a known mean response under Gaussian noise, clip, invert; print how wrong the estimate is.",
    )
    recover.add_argument(
        "response",
        metavar="MODULE:RESPONSE",
        help="where the response is: an estim.MeanResponse, or a function theta -> mean (with --lower and --upper); "
        "the current directory is importable",
    )
    recover.add_argument("--theta", type=float, required=True, help="the true parameter")
    recover.add_argument("--sigma", type=_numbers, required=True, help="noise standard deviations, comma-separated")
    recover.add_argument("--lower", type=float, help="domain of a plain function (default 0)")
    recover.add_argument("--upper", type=float, help="domain of a plain function (default: infinite)")
    recover.add_argument("--trials", type=int, help="Monte Carlo trials (default 100000)")
    recover.add_argument("--exact", action="store_true", help="exact moments by quadrature, no simulation")
    recover.add_argument("--rng", type=int, help="seed of the draws (default: other draws each time)")
    recover.add_argument("--workers", type=int, help="threads; -1 for one a processor")
    recover.add_argument("--progress", action="store_true", help="show a progress bar")
    recover.set_defaults(run=_recover, report=None)
    for command in (recover, *add_probe_commands(commands)):
        command.add_argument("--json", action="store_true", help="print JSON, not a table")
        command.add_argument("--plot", metavar="FILE", help="also write a picture (png, svg or pdf)")
    return parser


def _joined(arguments: Sequence[str]) -> list[str]:
    """Join an option and a negative number, which argparse takes for an option when it has an exponent."""
    joined: list[str] = []
    for word in arguments:
        if joined and joined[-1].startswith("--") and "=" not in joined[-1] and _is_negative(word):
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def _is_negative(word: str) -> bool:
    try:
        return word.startswith("-") and float(word) <= 0.0
    except ValueError:
        return False


def _numbers(text: str) -> list[float]:
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as error:
        msg = f"must be numbers separated by commas; got {text!r}"
        raise argparse.ArgumentTypeError(msg) from error


def _recover(options: argparse.Namespace) -> None:
    from estim.recovery.recovery import recover

    check_places(options)
    given = {"trials": options.trials, "rng": options.rng, "workers": options.workers}
    given = {name: value for name, value in given.items() if value is not None}
    if options.exact and given:
        msg = f"--exact draws nothing: leave out --{next(iter(given))}"
        raise ValueError(msg)
    method: Literal["exact", "monte-carlo"] = "exact" if options.exact else "monte-carlo"
    with users_code():
        response = _response(options.response, options.lower, options.upper)
        result = recover(response, options.theta, options.sigma, method=method, progress=options.progress, **given)
    write_result(result, options)


def _response(place: str, lower: float | None, upper: float | None) -> "MeanResponse":
    from estim.recovery.response import MeanResponse

    found = load(place)
    if isinstance(found, MeanResponse):
        if lower is not None or upper is not None:
            msg = f"--lower and --upper are for plain functions; {place} is a MeanResponse with a domain of its own"
            raise ValueError(msg)
        return found
    if callable(found):
        return MeanResponse(
            found, lower=0.0 if lower is None else lower, upper=math.inf if upper is None else upper, name=place
        )
    msg = f"{place} must be an estim.MeanResponse or a function theta -> mean; got {type(found).__name__}"
    raise TypeError(msg)
