import json
import pickle
import zipfile

import numpy as np
import pandas as pd
import pytest

from estim.files import load_data, write_whole


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


def test_the_only_array_keeps_its_name_where_it_is_a_parameter(tmp_path):
    np.savez(tmp_path / "p.npz", rate=2.0)
    np.savez(tmp_path / "unnamed.npz", np.arange(3.0))
    assert load_data(str(tmp_path / "p.npz"), "--params", named=True) == {"rate": 2.0}
    assert load_data(str(tmp_path / "p.npz"), "BANK") == 2.0
    np.testing.assert_array_equal(load_data(str(tmp_path / "unnamed.npz"), "--params", named=True), [0.0, 1.0, 2.0])


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


@pytest.mark.parametrize(
    "content",
    [
        b"\xef\xbb\xbf1.5,2\n3,4\n",  # as spreadsheets write utf-8
        b'"1.5","2"\n"3","4"\n',
        b"\n1.5,2\n3,4\n",
        b"1.5, 2\r\n3, 4\r\n",
    ],
    ids=["mark", "quotes", "blank line", "carriage returns"],
)
def test_a_first_row_of_numbers_is_not_lost_as_a_header(tmp_path, content):
    (tmp_path / "t.csv").write_bytes(content)
    np.testing.assert_array_equal(load_data(str(tmp_path / "t.csv"), "BANK"), [[1.5, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize("hole", ["", " ", "NA", "n/a", "null"])
def test_a_first_row_with_a_hole_is_refused_and_not_taken_for_a_header(tmp_path, hole):
    (tmp_path / "t.csv").write_text(f"1.0,{hole},3.0\n2.0,1.0,2.0\n")
    with pytest.raises(ValueError, match=r"^BANK could not be read from .*could not convert string"):
        load_data(str(tmp_path / "t.csv"), "BANK")


def test_marks_in_front_are_no_part_of_names(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfu,v\n1,2\n")
    (tmp_path / "p.json").write_bytes(b'\xef\xbb\xbf{"a": 1.0}')
    assert list(load_data(str(tmp_path / "t.csv"), "BANK").columns) == ["u", "v"]
    assert load_data(str(tmp_path / "p.json"), "BANK") == {"a": 1.0}


@pytest.mark.parametrize("name", ["empty.npy", "empty.npz", "cut.npy", "cut.npz", "damaged.npz", "empty.csv"])
def test_files_that_are_not_whole_are_named(tmp_path, name):
    np.save(tmp_path / "cut.npy", np.arange(100.0))
    for archive in ("cut.npz", "damaged.npz"):
        np.savez_compressed(tmp_path / archive, t=np.arange(1000.0))
    whole = (tmp_path / name).read_bytes() if "empty" not in name else b""
    half = whole[: len(whole) // 2]
    (tmp_path / name).write_bytes(half if "cut" in name else whole[:60] + b"x" * 30 + whole[90:])
    if "empty" in name:
        (tmp_path / name).write_bytes(b"")
    with pytest.raises(ValueError, match=rf"^BANK could not be read from '.*{name}': "):
        load_data(str(tmp_path / name), "BANK")


def test_a_file_is_written_whole_or_not_at_all(tmp_path):
    target = tmp_path / "page.html"
    write_whole(target, lambda draft: draft.write_text("old"))

    def half(draft):
        draft.write_text("ne")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        write_whole(target, half)
    assert target.read_text() == "old"
    assert list(tmp_path.iterdir()) == [target]


def test_a_link_is_written_through(tmp_path):
    (tmp_path / "shared").mkdir()
    (tmp_path / "page.html").symlink_to(tmp_path / "shared" / "page.html")
    write_whole(tmp_path / "page.html", lambda draft: draft.write_text("new"))
    assert (tmp_path / "page.html").is_symlink()
    assert (tmp_path / "shared" / "page.html").read_text() == "new"


def test_two_that_write_the_same_file_do_not_mix(tmp_path):
    target = tmp_path / "page.html"

    def slow(draft):
        draft.write_text("first")
        write_whole(target, lambda other: other.write_text("second"))

    write_whole(target, slow)
    assert target.read_text() == "first"


def test_a_name_that_comes_twice_is_refused(tmp_path):
    (tmp_path / "p.json").write_text('{"a": {"b": 1.0, "b": 2.0}}')
    with pytest.raises(ValueError, match="names must differ; got 'b' twice"):
        load_data(str(tmp_path / "p.json"), "--params")


def test_lists_too_deep_to_be_read_are_no_traceback(tmp_path):
    (tmp_path / "p.json").write_text("[" * 100_000)
    with pytest.raises(ValueError, match="could not be read"):
        load_data(str(tmp_path / "p.json"), "--params")


def test_whatever_a_reader_stumbles_over_is_one_sentence(tmp_path):
    header = b"{'descr': ('<f8', \n"  # of which NumPy makes neither a ValueError nor a SyntaxError
    (tmp_path / "a.npy").write_bytes(b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header)
    with zipfile.ZipFile(tmp_path / "a.npz", "w") as archive:
        archive.writestr("a.npy", b"")
    damaged = bytearray((tmp_path / "a.npz").read_bytes())
    damaged[damaged.index(b"PK\x01\x02") + 8] |= 1  # as if it were encrypted
    (tmp_path / "a.npz").write_bytes(damaged)
    for name in ("a.npy", "a.npz"):
        with pytest.raises(ValueError, match=rf"^BANK could not be read from '.*{name}': "):
            load_data(str(tmp_path / name), "BANK")
