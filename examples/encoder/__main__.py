"""What a safety-like monitor on a pretrained sentence encoder can see of its weights.

Run it as ``python examples/encoder [--page encoder.html] [--quick]``; it needs ``pip install 'estim[examples]'``.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
import scaling
from monitor import LAYERS, Monitor, inference_errors
from sentences import ANCHORS, BANK, CANDIDATES
from study import (
    CASES,
    POWER,
    input_table,
    judged_table,
    needed,
    noise_table,
    power_by_number,
    ranked,
    seen_table,
    sensitivity,
    sentences_needed,
    unchanged,
)


def run(quick=False):
    """Return all results, saying what is at work; `quick` takes two layers, fewer sentences and two scales."""
    layers, cases = (range(LAYERS), CASES) if not quick else ((0, 5), CASES[1:3])
    bank, candidates = (BANK, CANDIDATES) if not quick else (BANK[:6], CANDIDATES[:6])
    scales = scaling.SCALES if not quick else (0.05, 0.02)
    monitor, topics = Monitor(), len(ANCHORS)
    say("errors of inference in bfloat16 and int8")
    errors = inference_errors(monitor, BANK + CANDIDATES)
    say("what the bank sees")
    found, coarse = (sensitivity(monitor, bank, errors[kind]) for kind in ("bfloat16", "int8"))
    say("what each sentence adds")
    gains = ranked(monitor, bank + candidates, errors)
    extra = np.argsort(-gains[len(bank) :])[: len(candidates) // 2]
    longer = bank + [candidates[k] for k in extra]
    after = sensitivity(monitor, longer, errors["bfloat16"])
    say("verdicts on each layer rounded to int8")
    judged = judged_table(monitor, bank, errors, layers, cases, candidates)
    judged_after = judged_table(monitor, longer, errors, layers[::2], [c for c in cases if c.beside])
    say("the same encoder at smaller scales, with residuals and without")
    plain = scaling.without_residuals(monitor.model)
    return {
        "bank": bank,
        "candidates": candidates,
        "found": found,
        "unchanged": unchanged(errors["bfloat16"], len(bank)),
        "noise": noise_table(errors, ANCHORS),
        "seen": seen_table(found, coarse),
        "inputs": input_table(found, bank),
        "judged": judged,
        "gains": gains,
        "extra": [(candidates[k], float(gains[len(bank) + k])) for k in extra],
        "seen after": seen_table(after, after),
        "judged after": judged_after,
        "as given": power_by_number(gains, topics),
        "best first": power_by_number(-np.sort(-gains), topics),
        "sentences needed": sentences_needed(gains, topics),
        "needed": (needed(found.readings), needed(after.readings)),
        "scales": scales,
        "with": scaling.largest_of_each_layer(monitor, monitor.model, bank[:3], scales),
        "without": scaling.largest_of_each_layer(monitor, plain, bank[:3], scales),
        "stack": scaling.small_stack(),
    }


def say(what):
    """Tell what is at work, and since when."""
    print(f"{time.strftime('%H:%M:%S')}  {what}", file=sys.stderr, flush=True)


def main(arguments=None):
    """Run the study, print its tables and conclusions, and write the page; return the results."""
    from conclusions import conclusions
    from page import write_page
    from tables import tables

    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--page", help="write the results as one HTML page")
    parser.add_argument("--quick", action="store_true", help="two layers, fewer sentences, two scales")
    options = parser.parse_args(arguments)
    if options.page and not (options.page.endswith(".html") and Path(options.page).resolve().parent.is_dir()):
        parser.error(f"--page must end in .html, in a folder that exists; got {options.page!r}")
    start = time.perf_counter()
    results = run(options.quick)
    said = conclusions(results)
    for title, frame in tables(results).items():
        print(f"\n{title}\n\n{frame.to_string(float_format=lambda value: f'{value:.3g}')}\n\n{said[title]}")
    print(f"\n{time.perf_counter() - start:.0f} s; power asked for: {POWER:g}")
    if options.page:
        write_page(results, options.page)
        print(f"wrote {options.page}")
    return results


if __name__ == "__main__":
    main()
