import numpy as np
import pandas as pd
import pytest

from estim.files import load_data


def read(tmp_path, content):
    (tmp_path / "t.csv").write_text(content, encoding="utf-8", newline="")
    return load_data(str(tmp_path / "t.csv"), "BANK")


@pytest.mark.parametrize(
    "content",
    [
        "1;2\n3;4\n", "1,5;2,5\n3,5;4,5\n", "1\t2\n3\t4\n", "1 2\n3 4\n", "NA 2\n3 4\n",  # separated otherwise
        "1 mV,2 mV\n3 mV,4 mV\n", "1 mV\n2 mV\n", "1%,2%\n3%,4%\n",  # with units
        "2020-01-01,3\n2020-01-02,4\n", "2020-01-01\n2020-01-02\n", "12:00,1\n12:01,2\n",
        "\u22121\n3\n", '"1,000"\n950\n', '"1,5"\n2\n', "1D3\n4\n", "1.5E\u22123\n4\n", "(5)\n3\n", "<0.1\n3\n",
        "1/2\n1\n",
        "'1','2'\n3,4\n", "5*\n4\n", "1_0\n4\n",  # numbers in another notation, where those below are plain
        "nan,x\n1,2\n", "x,1\n3,4\n", "1.5,a # note\n3,4\n", "True,False\nTrue,True\n",
        "-\n1\n", "NA,NA\n1,2\n", ",\n1,2\n",  # nothing but what is missing
        "r1,1,2\nr2,3,4\n", "sep=;\n1;2\n",
    ],
)  # fmt: skip
def test_a_first_row_that_may_be_readings_is_not_taken_for_names(content, tmp_path):
    with pytest.raises(ValueError, match=r"^BANK could not be read from .*(first row|separated by|could not convert)"):
        read(tmp_path, content)


@pytest.mark.parametrize(
    "names",
    [
        "x1,x_2", "Na,K", "infected,nano", "t (s),-log p", "e1,.x", "sd #1,sd #2", "\u00b5,\u03b2",
        "1st,2nd", "5-HT,3-MT", "1 mV,2 mV", "25%,75%", "0x10,0x11", "2x,3D", "10-20,20-30", "2020-01,2020-02",
        "12:00,13:00",
    ],
)  # fmt: skip
def test_names_are_names_also_where_they_begin_like_numbers(names, tmp_path):
    expected = pd.DataFrame([[3, 5], [4, 6]], columns=names.split(","))
    content = f"{names}\n3,5\n4,6\n"
    pd.testing.assert_frame_equal(
        read(tmp_path, content if names[0] != "#" else f'"{names[:10]}"' + content[10:]), expected
    )


@pytest.mark.parametrize("comments", ["#1,2\n", "# a,b\n", "# measured, Monday\n\n# by hand\n"])
def test_comments_are_those_of_numpy(comments, tmp_path):
    np.testing.assert_array_equal(read(tmp_path, comments + "3,4 # here, too\n#5,6\n7,8\n"), [[3.0, 4.0], [7.0, 8.0]])
    pd.testing.assert_frame_equal(read(tmp_path, comments + "u,v\n3,4\n"), pd.DataFrame({"u": [3], "v": [4]}))
    with pytest.raises(ValueError, match=r"row 2 below the names must .* not begin with # as comments do; got '#5,6'"):
        read(tmp_path, "u,v\n3,4\n#5,6\n")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "it is empty"),
        ("\n \n", "it is empty"),
        ("a,b\n", "there must be numbers below the names; got 'a,b' alone"),
        ('"a,b\n1,2\n', "there must be numbers below the names"),  # a quote that does not end
        ("a,b\n1,2,3\n4,5,6\n", "row 1 below the names must have as many cells as there are names, .*; got '1,2,3'"),
        ("a,b\n1,2\n\n3\n", "row 2 below the names must have as many cells as there are names, .*; got '3'"),
        ("a,b\n1,2,\n3,4,\n", "row 1 below the names must have as many cells"),
        ("My data\na,b\n1,2\n", "row 1 below the names must have as many cells"),
        ("a,b,\n1,2,\n", "column 3 must have a name, as others have; got 'a,b,'"),
        ("a,b,a\n1,2,3\n", "columns must have different names; got 'a' twice"),
        ("a;b\n1,5;2,5\n", "its cells must be separated by commas, and decimals by points; got 'a;b'"),
    ],
)  # fmt: skip
def test_no_cell_is_lost_moved_or_made_up(content, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, content)


@pytest.mark.parametrize("index", [True, False])
def test_what_pandas_wrote_is_read_to_the_last_bit(index, tmp_path):
    rng = np.random.default_rng(20261201)
    exponents = rng.integers(-300, 300, 1000)
    written = pd.DataFrame({
        "x": rng.standard_normal(1000) * 10.0**exponents, "site": rng.integers(0, 9, 1000),
        "on": rng.random(1000) < 0.5, "day": pd.date_range("2020-01-01", periods=1000).astype(str),
    })  # fmt: skip
    pd.testing.assert_frame_equal(read(tmp_path, written.to_csv(index=index)), written, check_exact=True)


def test_what_numpy_wrote_is_read_to_the_last_bit(tmp_path):
    written = np.random.default_rng(20261202).standard_normal((50, 3))
    np.savetxt(tmp_path / "t.csv", written, delimiter=",", header="a,b,c")
    np.testing.assert_array_equal(load_data(str(tmp_path / "t.csv"), "BANK"), written)


def test_missing_numbers_are_nan_and_missing_words_none(tmp_path):
    found = read(tmp_path, "x,word,n\n1.5,a,1\n-,NA,\nNA,c,3\n")
    pd.testing.assert_frame_equal(
        found, pd.DataFrame({"x": [1.5, np.nan, np.nan], "word": ["a", None, "c"], "n": [1.0, np.nan, 3.0]})
    )


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_lines_end_as_they_do_anywhere(end, tmp_path):
    pd.testing.assert_frame_equal(read(tmp_path, f"a,b{end}1,2{end}"), pd.DataFrame({"a": [1], "b": [2]}))
    np.testing.assert_array_equal(read(tmp_path, f"1,2{end}3,4{end}"), [[1.0, 2.0], [3.0, 4.0]])


def test_words_that_are_longer_than_a_cell_may_be_are_no_traceback(tmp_path):
    with pytest.raises(ValueError, match="field larger than field limit"):
        read(tmp_path, "a,b\n" + "x" * 200_000 + ",1\n")


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_another_encoding_is_named(encoding, tmp_path):
    (tmp_path / "t.csv").write_bytes("gr\u00fcn,b\n1,2\n".encode(encoding))
    with pytest.raises(ValueError, match="it is not text in UTF-8"):
        load_data(str(tmp_path / "t.csv"), "BANK")
