import json
import pickle

import numpy as np
import pandas as pd
import pytest

from estim.files import load_data


def test_arrays_dictionaries_and_frames(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(6.0).reshape(2, 3))
    np.savez(tmp_path / "one.npz", x=np.arange(3))
    np.savez(tmp_path / "two.npz", a=np.arange(3), b=np.ones((2, 2)))
    (tmp_path / "plain.csv").write_text("1,2\n3,4\n")
    (tmp_path / "named.csv").write_text("u,v\n1,2\n3,4\n")
    (tmp_path / "p.json").write_text(json.dumps({"a": [1.0, 2.0], "b": 3.0}))
    load = lambda name: load_data(str(tmp_path / name), "BANK")  # noqa: E731
    np.testing.assert_array_equal(load("a.npy"), [[0, 1, 2], [3, 4, 5]])
    np.testing.assert_array_equal(load("one.npz"), [0, 1, 2])
    assert set(load("two.npz")) == {"a", "b"}
    np.testing.assert_array_equal(load("plain.csv"), [[1, 2], [3, 4]])
    pd.testing.assert_frame_equal(load("named.csv"), pd.DataFrame({"u": [1, 3], "v": [2, 4]}))
    assert load("p.json") == {"a": [1.0, 2.0], "b": 3.0}


class Bomb:
    def __reduce__(self):
        return (pytest.fail, ("a pickle was run",))


def test_pickles_are_never_run(tmp_path):
    np.save(tmp_path / "bomb.npy", np.array([Bomb()], dtype=object), allow_pickle=True)
    (tmp_path / "bomb.pkl").write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(
        ValueError,
        match=r"BANK could not be read from '.*bomb\.npy': it is no array file, or holds Python objects",
    ):
        load_data(str(tmp_path / "bomb.npy"), "BANK")
    with pytest.raises(ValueError, match=r"BANK must end in one of \.npy, \.npz, \.csv, \.parquet, \.json; got"):
        load_data(str(tmp_path / "bomb.pkl"), "BANK")


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("absent.npy", None, "BANK must be a file that exists"),
        ("broken.npy", "no array", "BANK could not be read from"),
        ("broken.json", "{", "BANK could not be read from"),
        ("ragged.csv", "1,2\n3\n", "BANK could not be read from"),
    ],
)
def test_what_cannot_be_read_is_named(tmp_path, name, content, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises(ValueError, match=message):
        load_data(str(tmp_path / name), "BANK")
