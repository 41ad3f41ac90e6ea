"""A recovery as a table."""

from typing import TYPE_CHECKING

from estim.report import summary_of

if TYPE_CHECKING:
    from statsmodels.iolib.summary import Summary

    from estim.recovery.recovery_record import Recovery


def recovery_summary(result: "Recovery") -> "Summary":
    """Return how the recovery was made, one row a noise level, and what to know before believing it."""
    exact = result.method == "exact"
    relative = result.theta != 0.0
    scale = abs(result.theta) if relative else 1.0
    prefix = "rel. " if relative else ""
    columns = {
        "sigma": result.sigma,
        f"{prefix}bias": result.bias / scale,
        f"{prefix}RMSE": result.rmse / scale,
        "num. error" if exact else "+-": result.numerical_error if exact else result.rmse_se / scale,
        "linear": result.linear_rmse / scale,
        "clipped low": result.clipped_low,
        "clipped high": result.clipped_high,
    }
    facts = [
        ("Response:", result.response),
        ("True theta:", f"{result.theta:.6g}"),
        ("Method:", "exact quadrature" if exact else f"Monte Carlo, {result.trials} trials a level"),
        ("Linear within 10 % up to sigma:", f"{result.linear_limit:.4g}"),
    ]
    notes = [
        f"bias, RMSE and linear are {'relative to theta' if relative else 'in the units of theta'}; "
        + ("num. error: bound on its relative error." if exact else "+-: its Monte Carlo standard error."),
        "linear: sigma / |slope|, the Cramer-Rao bound of unbiased estimators; "
        "a clipped estimator is biased and may be below it.",
        *result.notes,
    ]
    return summary_of("Recovery of one parameter under noise", facts, columns, notes)
