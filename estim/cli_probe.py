"""The commands on a model and a bank: ``estim sensitivity`` and ``estim judge``."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from estim.named import load, users_code
from estim.printing import check_places, write_result

if TYPE_CHECKING:
    from estim.probe.matrix_free.record import ModelSensitivity
    from estim.probe.record import Sensitivity


def add_probe_commands(commands: Any) -> tuple[argparse.ArgumentParser, argparse.ArgumentParser]:
    """Add both to the subparsers; return them."""
    probe = commands.add_parser(
        "sensitivity",
        help="which parameter directions a bank of inputs can see",
        description="Linearise a model on a bank of inputs; print what its readings see at this noise, and what not.",
    )
    _add_model(probe)
    probe.add_argument("--smallest-change", type=float, help="floors above it are called weak")
    probe.set_defaults(run=_sensitivity)
    judge = commands.add_parser(
        "judge",
        help="whether a monitor that read no change may be believed",
        description="Judge an observed shift of the readings: CHANGED, EQUIVALENT, or BLIND to the smallest change.",
    )
    _add_model(judge)
    judge.add_argument("--shift", metavar="FILE", help="readings after less before, (readings,)")
    judge.add_argument("--before", metavar="FILE", help="readings before, (readings,) or (repeats, readings)")
    judge.add_argument("--after", metavar="FILE", help="readings after, in place of --shift")
    smallest = judge.add_mutually_exclusive_group(required=True)
    smallest.add_argument("--any-change", metavar="SIZE", help="must not be missed: any change as large as 0.01 or 1%%")
    smallest.add_argument("--change", metavar="FILE", help="must not be missed: json, csv or npz by name, or npy")
    judge.add_argument("--group", help="with --any-change: of this group of parameters alone")
    judge.add_argument(
        "--typical", action="store_true", help="with --any-change: one of random direction, not the hardest"
    )
    judge.add_argument("--noisy-baseline", action="store_true", help="the readings before had the same noise")
    judge.add_argument("--power", type=float, default=0.8, help="with which it must be detected (default 0.8)")
    judge.add_argument("--rng", type=int, help="seed of random directions (default: other draws each time)")
    judge.set_defaults(run=_judge)
    return probe, judge


def _add_model(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "model",
        metavar="MODULE:MODEL",
        help="model(params, bank) -> readings, an attention.Network, or an object with parameters and jacobian(bank); "
        "the current directory is importable",
    )
    command.add_argument(
        "bank", metavar="BANK", help="npy, npz, parquet, json, or csv of numbers, with or without names above"
    )
    command.add_argument(
        "--sigma", required=True, help="noise sd of the readings: a number, or a file of sds or covariances"
    )
    command.add_argument("--params", metavar="FILE", help="where to linearise: npy, npz (named arrays), csv or json")
    command.add_argument("--repeats", type=int, default=1, help="repeated measurements, averaged (default 1)")
    command.add_argument("--digits", type=int, help="certified arithmetic, for an attention.Network")
    command.add_argument("--report", metavar="FILE", help="also write one self-contained HTML page")


def _sensitivity(options: argparse.Namespace) -> None:
    check_places(options)
    with users_code():
        found = _probed(options, options.smallest_change)
    write_result(found, options)


def _judge(options: argparse.Namespace) -> None:
    check_places(options)
    observed, smallest = _observed(options), _smallest_change(options)
    with users_code():
        found = _probed(options, None).judge(
            observed, smallest_change=smallest, baseline="noisy" if options.noisy_baseline else "known",
            power=options.power, rng=options.rng,
        )  # fmt: skip
    write_result(found, options)


def _probed(options: argparse.Namespace, smallest_change: float | None) -> "Sensitivity | ModelSensitivity":
    from estim.files import load_data
    from estim.probe.sensitivity import sensitivity

    sigma = _sigma(options.sigma)
    bank = load_data(options.bank, "BANK")
    params = None if options.params is None else _columns(load_data(options.params, "--params", named=True))
    model = load(options.model)
    if params is None and callable(model) and not hasattr(model, "parameters"):
        msg = f"--params FILE must be given, as {options.model} is a function of parameters (json, npy, npz or csv)"
        raise ValueError(msg)
    return sensitivity(
        model, bank, sigma, params=params, repeats=options.repeats, smallest_change=smallest_change,
        digits=options.digits,
    )  # fmt: skip


def _observed(options: argparse.Namespace) -> Any:
    from estim.files import load_data

    every = {"shift": options.shift, "before": options.before, "after": options.after}
    given = {name: path for name, path in every.items() if path is not None}
    if set(given) not in ({"shift"}, {"before", "after"}):
        said = ", ".join(f"--{name}" for name in given) or "neither"
        msg = f"either --shift FILE, or --before FILE and --after FILE must be given; got {said}"
        raise ValueError(msg)
    read = [_readings(load_data(path, f"--{name}")) for name, path in given.items()]
    return read[0] if "shift" in given else tuple(read)


def _smallest_change(options: argparse.Namespace) -> Any:
    from estim.files import load_data
    from estim.probe.verdict.any_change import AnyChange

    if options.change is not None:
        if options.group is not None or options.typical:
            msg = f"--group and --typical are for --any-change SIZE; --change {options.change} is one change"
            raise ValueError(msg)
        return _columns(load_data(options.change, "--change", named=True))
    text = options.any_change
    try:
        size = float(text.removesuffix("%")) / (100.0 if text.endswith("%") else 1.0)
    except ValueError:
        msg = f"--any-change must be a relative size, such as 0.01 or 1%; got {text!r}"
        raise ValueError(msg) from None
    return AnyChange(size, group=options.group, case="typical" if options.typical else "worst")


def _sigma(text: str) -> Any:
    from estim.files import load_data

    try:
        return float(text)
    except ValueError:
        if not Path(text).suffix:
            msg = f"--sigma must be a number, or a file of standard deviations or covariances; got {text!r}"
            raise ValueError(msg) from None
        return _readings(load_data(text, "--sigma"))


def _readings(found: Any) -> Any:
    """Return the only column of a table, with a name above it, as numbers."""
    one = hasattr(found, "columns") and len(found.columns) == 1
    return found.iloc[:, 0].to_numpy() if one else found


def _columns(params: Any) -> Any:
    """Turn a table into named arrays, or numbers where it has one row."""
    if not hasattr(params, "columns"):
        return params
    return {str(name): params[name].iloc[0] if len(params) == 1 else params[name].to_numpy() for name in params.columns}
