"""Standard errors of published fits, without a Jacobian from the user."""

import math

import mpmath
import numpy as np
import pytest

from estim.probe.model.probe import probe
from tests.probe import nist

# Eleven digits are certified: half a unit of the last, relative to a first digit of 1.
CERTIFIED = 5.1e-11

problems = pytest.mark.parametrize("problem", nist.PROBLEMS, ids=lambda problem: problem.name)


def exact_jacobian(problem, b, number=repr):
    """Return the Jacobian by high-precision differences, with the inputs read as decimals or as floats."""
    step = mpmath.mpf(10) ** -40
    rows = []
    for x in problem.x:
        x = mpmath.mpf(number(x))
        row = []
        for j in range(len(b)):
            up, down = list(b), list(b)
            up[j] += step * b[j]
            down[j] -= step * b[j]
            row.append((problem.model(up, x, mpmath.exp) - problem.model(down, x, mpmath.exp)) / (2 * step * b[j]))
        rows.append(row)
    return mpmath.matrix(rows)


@problems
def test_an_independent_fit_finds_all_certified_digits(problem):
    with mpmath.workdps(100):
        b = [mpmath.mpf(text) for text in problem.parameters]
        y = [mpmath.mpf(repr(value)) for value in problem.y]
        for _ in range(12):
            jacobian = exact_jacobian(problem, b)
            residual = mpmath.matrix(
                [
                    value - problem.model(b, mpmath.mpf(repr(x)), mpmath.exp)
                    for x, value in zip(problem.x, y, strict=True)
                ]
            )
            step = mpmath.lu_solve(jacobian.T * jacobian, jacobian.T * residual)
            b = [value + change for value, change in zip(b, step, strict=True)]
        covariance = (jacobian.T * jacobian) ** -1 * sum(r**2 for r in residual) / (len(y) - len(b))
        found = [mpmath.sqrt(covariance[i, i]) for i in range(len(b))]
        for value, text in zip([*b, *found], [*problem.parameters, *problem.standard_deviations], strict=True):
            assert abs(value / mpmath.mpf(text) - 1) < CERTIFIED


def standard_errors(problem, model):
    b = np.array([float(text) for text in problem.parameters])
    probed = probe(model, np.array(problem.x), params=b)
    residual = np.array(problem.y) - probed.readings
    sigma = math.sqrt(residual @ residual / (len(residual) - len(b)))
    _, values, vectors = np.linalg.svd(probed.jacobian / np.linalg.norm(probed.jacobian, axis=0))
    scaled = np.linalg.norm(vectors.T / values, axis=1)
    return sigma * scaled / np.linalg.norm(probed.jacobian, axis=0), probed


@problems
def test_complex_step_finds_the_certified_standard_deviations(problem):
    found, probed = standard_errors(problem, lambda b, x: problem.model(b, x, np.exp))
    assert probed.derivative == "complex step"
    np.testing.assert_allclose(found, [float(text) for text in problem.standard_deviations], rtol=1e-6)


@problems
def test_differences_find_the_certified_standard_deviations(problem):
    def plain(b, x):
        return [problem.model([float(value) for value in b], float(entry), math.exp) for entry in x]

    found, probed = standard_errors(problem, plain)
    assert probed.derivative == "differences"
    np.testing.assert_allclose(found, [float(text) for text in problem.standard_deviations], rtol=1e-6)


@problems
def test_the_errors_of_both_are_honest(problem):
    with mpmath.workdps(120):
        b = [mpmath.mpf(float(text)) for text in problem.parameters]
        truth = np.array(exact_jacobian(problem, b, float).tolist(), dtype=np.float64)
    truth = truth.reshape(len(problem.x), len(b))

    def plain(b, x):
        return [problem.model([float(value) for value in b], float(entry), math.exp) for entry in x]

    params = np.array([float(text) for text in problem.parameters])
    by_differences = probe(plain, np.array(problem.x), params=params)
    assert (np.abs(by_differences.jacobian - truth) <= by_differences.error).all()
    # Rounding is sampled at three points an entry: of hundreds, one may show less than it has; a column does not.
    by_complex = probe(lambda b, x: problem.model(b, x, np.exp), np.array(problem.x), params=params)
    off = np.abs(by_complex.jacobian - truth)
    assert (off <= 2.0 * by_complex.error).all()
    assert (np.linalg.norm(off, axis=0) <= np.linalg.norm(by_complex.error, axis=0)).all()
