"""What a function of nested parameters looks up in them and does not find."""

from collections.abc import Callable
from typing import Any

_MOST = 8


class _Watched(dict[Any, Any]):
    """A dict that remembers what was not in it."""

    def __init__(self, given: dict[Any, Any], where: str, missed: list[tuple[Any, str]]) -> None:
        super().__init__((key, _watched(item, f"{where}[{key!r}]", missed)) for key, item in given.items())
        self._where, self._missed = where, missed

    def __missing__(self, key: Any) -> Any:
        names = ", ".join(f"{name!r}" for name in list(self)[:_MOST])
        more = ", ..." if len(self) > _MOST else ""
        self._missed.append((key, f"{self._where} has no {key!r}; it has {names}{more}"))
        raise KeyError(key)


def missing_key(function: Callable[[Any], Any], params: Any, error: Exception) -> str:
    """Say which key a function of `params` missed there when it raised an error; nothing where it did not."""
    if not isinstance(error, KeyError):
        return ""
    missed: list[tuple[Any, str]] = []
    try:
        function(_watched(params, "params", missed))
    except KeyError as again:
        # One that the function has seen to is not the cause.
        if missed and again.args == error.args == (missed[-1][0],):
            return missed[-1][1]
    except Exception:  # the second time for another reason: nothing is known of the first
        return ""
    return ""


def _watched(params: Any, where: str, missed: list[tuple[Any, str]]) -> Any:
    if type(params) is dict:
        return _Watched(params, where, missed)
    if type(params) in (list, tuple):
        return type(params)(_watched(item, f"{where}[{i}]", missed) for i, item in enumerate(params))
    return params
