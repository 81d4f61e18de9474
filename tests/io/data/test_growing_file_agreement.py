"""A file that may grow, read once: the same rows, and the same refusals, as by the readers of whole files.

The two share no parser.
"""

import bz2

import pytest
from data_files import append, assert_same, fault_of_all

from dimargin.io.data import DataFileError, GrowingFile, growing_file, read_data
from dimargin.io.data.chunks import check_classes


def assert_read_alike(path, *args, **kwargs):
    """The file is read, or refused for the same reason, as by the reader of whole files."""
    try:
        expected = read_data(path, *args, **kwargs)
        check_classes(expected.fraction)
    except DataFileError as error:
        with pytest.raises(DataFileError) as caught:
            GrowingFile(path, *args, **kwargs).read()
        return str(caught.value), str(error)
    assert_same(GrowingFile(path, *args, **kwargs).read(), expected)
    return None


LIBSVM = [
    "1 qid:7 1:2 3:4\n-1 qid:8 2:5 3:1\n2 qid:1\n",
    "1 0:2 3:4\n",
    "1 5:0 7:0\n2\n3 1:-0.0\n",
    "1 +1:10 2:.5e-3\n",
    "1 1:1e-999 2:0.1000000000000000055511151231257827\n",
    # refused
    "1.5 +1:10 2:.5e-3\n",
    "1.5 +1:1_0 2:.5e-3\n",
    "1 qid 1:1\n",
    "1 1:2:3\n",
    "1 1.0:1\n",
    "1\n2\n",
]


@pytest.mark.parametrize("text", LIBSVM)
@pytest.mark.parametrize("before", ["", "3 1:1\n" * 20 + "\n# comment\n"])
def test_libsvm_lines(text, before, written, chunk):
    refused = assert_read_alike(written("rows", (before + text).encode(errors="surrogateescape")))
    assert (refused is None) == (text in LIBSVM[:5] or (bool(before) and text == "1\n2\n"))
    if refused:  # in brackets stands what the parser says
        assert refused[0].partition("(")[0] == refused[1].partition("(")[0]


def test_the_largest_number_of_a_feature(written):
    path = written("rows", "1 1:1\n1 7:1 2147483646:1\n")
    ours, expected = GrowingFile(path).read().X, read_data(path).X
    assert ours.shape == expected.shape and ours.indices.tolist() == expected.indices.tolist() == [0, 6, 2147483645]


@pytest.mark.parametrize("feature", [2**31 - 1, 2**31])
def test_sites_take_features_of_32_bits(feature, written):
    path = written("rows", f"1 1:1\n2 {feature}:1\n")
    assert read_data(path).X.shape == (2, feature)
    with pytest.raises(DataFileError, match="line 2: "):
        GrowingFile(path).read()


CSV = [
    '"a, b, c";label\n1;"x;y"\n2;"say ""no"""\n',
    "a,y\n1,1.0\n2,-1\n",
    "a,y\n1,0.0\n2,1.0\n",
    "a,y\n.5e-3,inf\n0.1000000000000000055511151231257827,ä\n",
    "a,y\n1,1_0\n2,2\n",
    # refused
    "a,label,b\n1,0,2\n1,1,2\n1,NA,2\n",
    "a,y\n1,0.5\n2,0.50\n",
    "a,label,b\n1,x,1 2\n",
    'a,y\n1,2\n1,"2\n' + "2,3\n" * 5,
    "a,b\n1,2\n",
    "y,a,class\n1,2,3\n",
    "a,a,y\n1,2,3\n",
    "y\n1\n",
]


@pytest.mark.parametrize("text", CSV)
@pytest.mark.parametrize("n_before", [0, 20])
def test_csv_lines(text, n_before, written, chunk):
    header, end, rows = text.partition("\n")
    row, _, _ = rows.partition("\n")
    text = header + end + n_before * (row + end) + "\n" * (n_before > 0) + rows
    refused = assert_read_alike(written("rows.csv", text.encode(errors="surrogateescape")))
    if refused:
        assert refused[0] == refused[1]


@pytest.mark.parametrize(
    "options", [{"label": "b"}, {"label": 0}, {"label": "-1"}, {"label": "q"}, {"label": 7}, {"n_features": 5}]
)
def test_options_of_csv(options, written):
    refused = assert_read_alike(written("rows.csv", "a,b,y\n1,2,x\n3,4,z\n"), **options)
    assert refused is None or refused[0] == refused[1]


@pytest.mark.parametrize("label", ['"x\n"', '"\nx"', '"x\ny"'])
def test_a_label_with_a_line_break_is_refused_wherever_it_stands(label, written):
    """The next call may begin at this break."""
    path = written("rows.csv", f"a,y\n1,z\n2,{label}\n3,z\n")
    with pytest.raises(DataFileError, match=f"{path}, line 3: the label in column 'y' has a line break"):
        GrowingFile(path).read()


def test_a_byte_order_mark_without_names(written):
    assert assert_read_alike(written("rows.csv", "\ufeff1,x\n2,y\n"), label=1) is None


def test_names_of_any_bytes_and_quotes(written):
    for line in (b'a,label,"', b'"a,label,b', b'a,label,"b\nc'):
        refused = assert_read_alike(written("rows.csv", line + b'\n1,x,2\n3,"y",4\n'))
        assert refused is not None and "line 1: a quote opens in this row" in refused[0] and refused[0] == refused[1]
    path = written("rows.csv", b'"a ""\n(b)",label\n1,x\n3,"y"\n')
    assert assert_read_alike(path) is None and read_data(path).feature_names == ['a "\n(b)']
    refused = assert_read_alike(written("rows.csv", b"\xe4a,label,b\n1,x,2\n"))
    assert refused is not None and "line 1: the name of a column, '\ufffda', is not UTF-8 text" in refused[0]
    assert refused[0] == refused[1]


def test_what_no_file_that_grows_can_be(written):
    with pytest.raises(DataFileError, match=r"rows.pq is Parquet, .* cannot grow; expected CSV or LIBSVM text"):
        GrowingFile(written("rows.pq", b"PAR1"))
    with pytest.raises(DataFileError, match=r"rows is Parquet"):
        GrowingFile(written("rows", b"PAR1\x15\x04")).read()
    with pytest.raises(DataFileError, match="labels first"):
        GrowingFile(written("rows", "1 1:1\n"), label=0).read()


@pytest.mark.parametrize("names", ['1\t"3e4"', "1\t3e4"])
@pytest.mark.parametrize("repeated", ['"1"\t3e4', "1\t3e4"])
def test_names_that_are_repeated_with_other_quotes(tmp_path, names, repeated):
    path = tmp_path / "rows.csv"
    path.write_text(f"{names}\nx\t1\n{repeated}\n")
    assert "line 3: the column names are repeated" in fault_of_all(path, label=0, header=True)


def test_a_long_fraction_is_shortened(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text(f"a,label\n1,2.{'5' * 999}\n2,1\n")
    assert len(read_data(path).fraction) < 250 + len(str(path))


@pytest.mark.filterwarnings("ignore:.*it has the names or numbers of the rows")
@pytest.mark.parametrize("separator", [" ", ","])
@pytest.mark.parametrize("size", [20, 40, 1000])
def test_a_text_whose_lines_are_in_several_blocks(written, monkeypatch, separator, size):
    monkeypatch.setattr(growing_file, "CHUNK", size)
    names = "label b1\n" if separator == " " else ",label,b1\n"  # as R and as pandas write the names of rows
    rows = ['"' + "one line\n" * 9 + '"', "1", "2"], ["b", "3", "4"], ['"c\nd"', "5", "6"]
    path = written("rows.csv", names + "".join(separator.join(row) + "\n" for row in rows))
    assert assert_read_alike(path) is None and GrowingFile(path).read().X.tolist() == [[2], [4], [6]]
    append(path, f'"{"one line" * 9}{separator}7{separator}8\n')
    refused = assert_read_alike(path)
    assert (
        refused is not None
        and "line 15: " in refused[0]
        and "is a quote not closed?" in refused[0]
        and refused[0] == refused[1]
    )


@pytest.mark.filterwarnings("ignore:.*it has the names or numbers of the rows")
@pytest.mark.parametrize("width", [2, 1200])  # Wide tables have another reader.
def test_letters_of_another_encoding_in_a_column_that_is_left_out(tmp_path, width):
    path = tmp_path / "rows.csv"
    names, values = ",".join(f"x{k}" for k in range(width)), ",".join(["1.5"] * width)
    rows = "".join(f"caf\xe9,{k % 2},{values}\n" for k in range(4))
    path.write_bytes(f"Unnamed: 0,label,{names}\n{rows}".encode("latin-1"))
    for data in (GrowingFile(path, label="label").read(), read_data(path, label="label")):
        assert data.X.shape == (4, width) and data.y.tolist() == [0, 1, 0, 1]
    path.write_bytes(f"label,{names}\ncaf\xe9,{values}\ntea,{values}\n".encode("latin-1"))
    assert "line 2: not UTF-8 text; name its encoding" in fault_of_all(path, label="label")


@pytest.mark.parametrize(
    "name", ["a9a", "cod-rna", "ijcnn1", "phishing", "reuters", "skin_nonskin", "svmguide1", "svmguide1.t", "usps.t"]
)
def test_real_files(name, data_folder, tmp_path):
    """Their first rows, because the rest has the same form."""
    path = data_folder / f"{name}.bz2"
    if not path.exists():
        pytest.skip(f"no {path}")
    with bz2.open(path) as file:
        lines = [next(file) for _ in range(300)]
    (tmp_path / "rows").write_bytes(b"".join(lines))
    assert assert_read_alike(tmp_path / "rows") is None
