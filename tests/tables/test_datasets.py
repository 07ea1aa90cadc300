"""Data sets: what a file holds arrives, and what is wrong with one is said in a sentence."""

import contextlib
import gzip
import io
import sqlite3
import sys
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow
import pytest

from torchsparcs import RowStream
from torchsparcs.tables import databases
from torchsparcs.tables.datasets import BUILT_IN, Dataset, load_dataset
from torchsparcs.tables.preprocessing import Inputs, Target
from torchsparcs.tables.readers import read_table

TABLE = pd.DataFrame({"a": [1, 2], "b": [0.5, 1.5], "c d": ["x", "y,z"], "price": [10.5, 20.0]})


def table_bytes(write) -> bytes:
    stream = io.BytesIO()
    write(stream)
    return stream.getvalue()


PARQUET = table_bytes(TABLE.to_parquet)
FEATHER = table_bytes(TABLE.to_feather)
JSON_LINES = TABLE.to_json(orient="records", lines=True).encode()
NPZ = table_bytes(lambda file: np.savez(file, X=np.eye(2), y=[0, 1]))


def workbook(**sheets: list[list]) -> bytes:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for title, rows in sheets.items():
        sheet = book.create_sheet(title)
        for row in rows:
            sheet.append(row)
    return table_bytes(book.save)


def arrow_stream(table: pd.DataFrame) -> bytes:
    content = pyarrow.Table.from_pandas(table)

    def write(file):
        with pyarrow.ipc.new_stream(file, content.schema) as writer:
            writer.write_table(content)

    return table_bytes(write)


SHEET = [[*TABLE], *TABLE.to_numpy(dtype=object).tolist()]
FILES = {
    "house.csv": TABLE.to_csv(index=False).encode(),
    "house.CSV": b"\xef\xbb\xbf" + TABLE.to_csv(index=False).encode(),
    "house.txt": TABLE.to_csv(index=False, sep="\t").encode(),
    "house.tsv": TABLE.to_csv(index=False, sep="\t").encode(),
    "semicolons.csv": TABLE.to_csv(index=False, sep=";").encode(),
    "bars.csv": b'a|b|"c d"|price\n1|0.5|x|10.5\n2|1.5|y,z|20\n',
    "blanks.csv": b'\n\na, b, "c d", price\r\n1, 0.5, x, 10.5\r\n2, 1.5, "y,z", 20.0\r\n',
    "house.csv.gz": gzip.compress(TABLE.to_csv(index=False).encode()),
    "house.parquet": PARQUET,
    "house.feather": FEATHER,
    "house.arrow": arrow_stream(TABLE),
    "house.jsonl": b"\xef\xbb\xbf" + JSON_LINES + b"\n",
    "house.ndjson.gz": gzip.compress(JSON_LINES.replace(b"\n", b"\r\n")),
    "house.xlsx": workbook(Cover=[], House=[[], *SHEET, [None] * 9]),
    "house.npz": table_bytes(lambda file: np.savez(file, **{k: list(TABLE[k]) for k in TABLE})),
}


def file(folder, name: str, content: bytes):
    path = folder / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("name", FILES)
def test_a_table_comes_from_any_file(tmp_path, name):
    path = file(tmp_path, name, FILES[name])
    dataset = load_dataset(path, "price")
    assert (dataset.name, dataset.target) == (name.split(".")[0], "price")
    table = TABLE.astype({"c d": object} if name.endswith(".parquet") else {})  # rows share texts
    pd.testing.assert_frame_equal(dataset.X, table.drop(columns="price"))
    pd.testing.assert_series_equal(dataset.y, TABLE["price"])
    pd.testing.assert_frame_equal(read_table(str(path)), table)
    assert list(load_dataset(path, ["b", "price"]).y) == ["b", "price"]


@pytest.mark.parametrize("names", ["Xy", "xy"])
def test_arrays_come_with_their_target(tmp_path, names):
    def arrays(**parts):
        return file(tmp_path, "a.npz", table_bytes(lambda f: np.savez(f, **parts)))

    X, y = names
    dataset = load_dataset(arrays(**{X: np.eye(3), y: np.arange(3)}))
    assert isinstance(dataset, Dataset)
    assert (list(dataset.X), dataset.target) == (["x0", "x1", "x2"], "y")
    assert dataset.y.tolist() == [0, 1, 2]
    dataset = load_dataset(arrays(**{X: np.eye(3), y: np.ones((3, 2))}))
    assert (dataset.target, dataset.y.shape) == (["y0", "y1"], (3, 2))
    dataset = load_dataset(arrays(**{X: np.eye(3), y: np.ones((3, 2))}), may_lack=True)
    assert (dataset.target, list(dataset.X)) == (["y0", "y1"], ["x0", "x1", "x2"])
    dataset = load_dataset(arrays(x=np.arange(3), y=np.arange(3)))
    assert (list(dataset.X), dataset.target) == (["x"], "y")
    assert read_table(arrays(**{X: np.eye(2)})).shape == (2, 2)


@pytest.mark.parametrize(
    ("name", "columns", "task", "label"),
    [
        ("digits", 64, "multiclass", 0),
        ("iris", 4, "multiclass", "setosa"),
        ("wine", 13, "multiclass", "class_0"),
        ("breast_cancer", 30, "binary", "benign"),
        ("diabetes", 10, "regression", None),
    ],
)
def test_built_in_sets_are_there_and_fit(name, columns, task, label):
    dataset = load_dataset(name)
    target = Target.fit(dataset.y)
    assert (dataset.name, dataset.X.shape[1], target.task) == (name, columns, task)
    assert target.classes is None if label is None else target.classes[0] == label
    assert Inputs.fit(dataset.X).names == tuple(dataset.X.columns)
    assert load_dataset("iris", "sepal width (cm)").X.shape == (150, 4)


def test_the_target_is_the_column_that_is_called_so(tmp_path):
    assert load_dataset(file(tmp_path, "a.csv", b"a,Label\n1,2\n")).target == "Label"
    two = file(tmp_path, "a.csv", b"class,y,c\n1,2,3\n")
    with pytest.raises(
        ValueError, match=r"Expected a target: .* The columns are 'class', 'y', 'c'"
    ):
        load_dataset(two)
    many = ",".join(f"c{i}" for i in range(12)).encode()
    with pytest.raises(ValueError, match=r"'c8', 'c9', \.\.\.\."):
        load_dataset(file(tmp_path, "a.csv", many + b"\n" + many))
    house = file(tmp_path, "house.csv", FILES["house.csv"])
    with pytest.raises(ValueError, match=r"'c d', 'price'\. Got 'Prices'\. Did you mean 'price'\?"):
        load_dataset(house, "Prices")
    for target in ([], ["a", "a"]):
        with pytest.raises(ValueError, match="different columns as targets"):
            load_dataset(house, target)
    with pytest.raises(ValueError, match=r"Expected columns besides the target. Got 'a', 'b'"):
        load_dataset(house, list(TABLE))


def test_columns_are_dropped(tmp_path):
    path = file(tmp_path, "a.csv", b"id,a,label,y\n7,1,2,3\n8,1,2,3\n")
    dataset = load_dataset(path, drop=["id", "y"])  # then one target is left
    assert (list(dataset.X), dataset.target) == (["a"], "label")
    assert list(load_dataset(path, "y", drop="id").X) == ["a", "label"]
    with pytest.raises(ValueError, match=r"columns to drop among .*Got 'Id'\. Did you mean 'id'\?"):
        load_dataset(path, "y", drop="Id")
    with pytest.raises(ValueError, match=r"a target that is not dropped\. Got 'y'"):
        load_dataset(path, "y", drop=["y"])
    with pytest.raises(ValueError, match=r"besides the target\. Got 'y' only"):
        load_dataset(path, "y", drop=["id", "a", "label"])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.csv", b"", "a.csv is empty"),
        ("a.csv", b" \n\n", "a.csv is empty"),
        ("a.csv", b"a,b\n", "Expected rows below the header. .*a.csv has none"),
        ("a.csv", b"a,b,a\n1,2,3\n", "different names. Got more than one 'a'"),
        ("a.csv", b"5.1,3.5,x\n4.9,3.0,x\n", "names in the first line. .* '5.1', '3.5': add"),
        (
            "a.csv",
            b"a,b\n1,2\n3,4,5\n",
            "Expected 2 fields in each row.* 2 fields in line 3, saw 3",
        ),
        ("a.csv", b"a,b\n1,2,3\n3,4,5\n", "Expected 2 fields in each row.*a.csv: Length of header"),
        ("a.csv", b'a,b\n1,"2\n', "EOF inside string"),
        ("a.csv", b"a,b\n1,caf\xe9\n", "UTF-8. .* byte at position 9: save it as UTF-8"),
        ("a.csv", "a,b\n1,2\n".encode("utf-16"), "in UTF-16: save it as UTF-8"),
        ("a.csv", PARQUET, "Expected text. .*a.csv is parquet"),
        ("a.csv", NPZ, "Expected text. .*a.csv is a zip archive"),
        ("a.csv", gzip.compress(b"a", mtime=0), "Expected text. .*a.csv is gzip"),
        ("a.csv.gz", b"a,b\n1,2\n", "a whole gzip file"),
        ("a.csv.gz", gzip.compress(b"a,b\n1,2\n", mtime=0)[:-9], "a whole gzip file"),
        ("a.parquet", b"a,b\n1,2\n", "Expected a whole parquet file. .* cannot be read"),
        ("a.parquet", PARQUET[:-20], "Expected a whole parquet file"),
        ("a.npz", b"a,b\n1,2\n", "a whole .npz file of plain arrays"),
        ("a.npz", NPZ[:-30], "a whole .npz file of plain arrays"),
        ("a.npz", table_bytes(lambda f: np.save(f, np.eye(2))), "a whole .npz file of plain"),
        ("a.npz", table_bytes(lambda f: np.savez(f, X=[{}], y=[1])), "a whole .npz file of plain"),
        ("a.npz", table_bytes(lambda f: zipfile.ZipFile(f, "w").close()), "a.npz has none"),
        (
            "a.npz",
            table_bytes(lambda f: np.savez(f, X=np.ones((2, 3, 3)), y=[1, 2])),
            r"Expected X of shape \(rows, features\).* has X \(2, 3, 3\), y \(2,\)",
        ),
        ("a.npz", table_bytes(lambda f: np.savez(f, X=np.eye(2), y=[1])), "y with as many rows"),
        ("a.npz", table_bytes(lambda f: np.savez(f, a=[1], b=[1, 2])), "columns of one length"),
        ("a.npz", table_bytes(lambda f: np.savez(f, a=1, b=2)), "columns of one length"),
        ("a.xls", b"PK", r"a file that ends in .csv, .tsv, .*, .jsonl.*, .xlsx\. Got '.*a.xls'"),
        ("a.xlsx", b"PK", "Expected a whole .xlsx workbook. .*a.xlsx cannot be read"),
        ("a.xlsx", NPZ, "Expected a whole .xlsx workbook"),
        ("a.xlsx", workbook(A=[], B=[]), "Expected a sheet with values. .*a.xlsx has none"),
        ("a.xlsx", workbook(A=[["a", "b"]]), "Expected rows below the header"),
        ("a.xlsx", workbook(A=[["a", None, "b"], [1, 2, 3]]), "sheet 'A', has none above column 2"),
        ("a.xlsx", workbook(A=[["a", "b"], [1, 2, "so"]]), "2 columns, .* beside them, 'so'"),
        ("a.xlsx", workbook(May=SHEET, June=SHEET), "several. .* 'May', 'June': pass one as sheet"),
        ("a.feather", b"a,b\n1,2\n", "Expected a whole Arrow or Feather file"),
        ("a.feather", FEATHER[:-9], "Expected a whole Arrow or Feather file"),
        ("a.arrow", arrow_stream(pd.DataFrame({"a": [[1]], "b": [2]})), "lists or records in 'a'"),
        ("a.jsonl", b'{"a": 1}\n\n{"a": ', "JSON object in each line. .* in line 3"),
        ("a.jsonl", b"[1, 2]\n", "JSON object in each line. .*a.jsonl has list in line 1"),
        ("a.jsonl", b'{"a": {"b": 1}}\n', "a list or an object in 'a' of line 1"),
        ("a.jsonl", b"\n", "Expected rows"),
        ("a.jsonl.gz", b'{"a": 1}', "a whole gzip file"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(tmp_path, name, content, words):
    path = file(tmp_path, name, content)
    with pytest.raises(ValueError, match=words) as caught:
        load_dataset(path, "b")
    assert "\n" not in str(caught.value)


def test_what_is_not_there_is_said(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Expected a data file. There is none at .*a.csv"):
        load_dataset(tmp_path / "a.csv")
    (tmp_path / "b.csv").mkdir()
    with pytest.raises(ValueError, match=r"folder of .parquet files. .*b.csv has none"):
        load_dataset(tmp_path / "b.csv")
    with pytest.raises(ValueError, match=f"among {', '.join(BUILT_IN)}. Got 'irises'"):
        load_dataset("irises")


def test_a_sheet_is_chosen_by_its_name(tmp_path):
    later = [[*TABLE], [3, "#N/A", "x", 30.0], [4, None, "y"]]
    path = file(tmp_path, "a.xlsx", workbook(May=SHEET, June=later))
    assert load_dataset(path, "price", sheet="May").X["b"].tolist() == [0.5, 1.5]
    table = read_table(path, sheet="June")
    assert table["a"].tolist() == [3, 4]
    assert table[["b", "price"]].isna().sum().tolist() == [2, 1]
    with pytest.raises(ValueError, match=r"a sheet of .*, 'May', 'June'\. Got 'July'"):
        read_table(path, sheet="July")
    with pytest.raises(ValueError, match=r"ends in .xlsx, or of a database. Got 'May' and"):
        read_table(file(tmp_path, "a.csv", FILES["house.csv"]), sheet="May")


def test_keys_that_a_line_lacks_are_missing(tmp_path):
    path = file(tmp_path, "a.jsonl", b'{"a": 1}\n{"b": "x", "a": 2}\n{"b": null}\n')
    table = read_table(path)
    assert table["a"].tolist()[:2] == [1, 2]
    assert table.isna().sum().tolist() == [1, 2]


def test_a_folder_of_parquet_files(tmp_path):
    folder = tmp_path / "houses"
    folder.mkdir()
    for name, table in (("1", TABLE), ("2", TABLE.astype({"a": float, "c d": "category"}))):
        table.to_parquet(folder / f"{name}.parquet")
    dataset = load_dataset(folder, "price")
    assert (dataset.name, dataset.X["a"].tolist()) == ("houses", [1, 2, 1, 2])
    TABLE.assign(a=["x", "y"]).to_parquet(folder / "3.parquet")
    with pytest.raises(ValueError, match=r"3.parquet has text in 'a', where the first has numbers"):
        load_dataset(folder, "price")


class TestDatabases:
    @pytest.fixture
    def shop(self, tmp_path):
        with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
            TABLE.to_sql("houses", connection, index=False)
            TABLE.to_sql("flats", connection, index=False)
        return f"sqlite:///{tmp_path / 'shop.db'}"

    def test_a_table_by_its_name(self, shop, tmp_path):
        dataset = load_dataset(shop, "price", sheet="houses")
        assert dataset.name == "shop"
        pd.testing.assert_frame_equal(dataset.X, TABLE.drop(columns="price"))
        with contextlib.closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
            connection.execute("DROP TABLE flats")
        assert read_table(shop).shape == (2, 4)

    def test_what_is_wrong_is_said(self, shop, monkeypatch):
        with pytest.raises(
            ValueError, match=r"a table, as there are several\. .*'flats', 'houses'"
        ):
            read_table(shop)
        with pytest.raises(ValueError, match=r"Expected a table of .*Got 'huts'"):
            read_table(shop, sheet="huts")
        with pytest.raises(
            FileNotFoundError, match=r"Expected a database. There is none at no\.db"
        ):
            read_table("sqlite:///no.db")
        with pytest.raises(ValueError, match=r"without a password"):
            read_table("postgresql://me:secret@here/shop")
        with pytest.raises(ValueError, match=r"Expected a database to read\. nosql://shop"):
            read_table("nosql://shop")
        monkeypatch.setattr(databases, "memory", lambda: 500)
        with pytest.raises(ValueError, match="fits into memory"):
            read_table(shop, sheet="houses")


def test_a_column_that_counts_the_rows_is_left_out(tmp_path):
    path = file(tmp_path, "a.csv", TABLE.to_csv().encode())
    with pytest.warns(UserWarning, match="has no name and numbers the rows: it is left out"):
        table = read_table(path)
    pd.testing.assert_frame_equal(table, TABLE)
    path = file(tmp_path, "a.csv", TABLE.set_index([[7, 3]]).to_csv().encode())
    with pytest.warns(UserWarning, match="has no name and numbers the rows: it is left out"):
        assert read_table(path).columns.tolist() == TABLE.columns.tolist()
    assert "Unnamed: 0" in read_table(file(tmp_path, "a.csv", b",b\n3,1\n3,2\n"))


def test_so_is_one_of_a_workbook(tmp_path):
    pytest.importorskip("openpyxl")
    pd.DataFrame({"a": [3, 5], "b": [1, 2]}).to_excel(tmp_path / "a.xlsx")
    with pytest.warns(UserWarning, match=r"a.xlsx, sheet 'Sheet1' has no name and numbers the r"):
        assert read_table(tmp_path / "a.xlsx").columns.tolist() == ["a", "b"]
    pd.DataFrame({"a": [3, 5]}, index=["x", "y"]).to_excel(tmp_path / "a.xlsx")
    with pytest.raises(ValueError, match=r"a name above each column.* none above column 1"):
        read_table(tmp_path / "a.xlsx")


def test_a_missing_target_is_not_dropped_by_reading(tmp_path):
    dataset = load_dataset(file(tmp_path, "a.csv", b"a,y\n1,2.5\n2,\n3,NA\n"))
    with pytest.raises(ValueError, match="Got 2 NaN in 'y'"):
        Target.fit(dataset.y)


def test_pyarrow_is_asked_for_by_name(tmp_path, monkeypatch):
    path = file(tmp_path, "house.parquet", PARQUET)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    for read in (read_table, RowStream.of):
        with pytest.raises(ImportError, match=r"pyarrow .* pip install 'torchsparcs\[parquet\]'"):
            read(path)


def test_a_header_of_more_than_a_megabyte(tmp_path):
    names = [f"column{place}" for place in range(120_000)]
    rows = [",".join(names), ",".join(["1"] * len(names)), ",".join(["2"] * len(names))]
    (tmp_path / "wide.csv").write_text("\n".join(rows))
    assert read_table(tmp_path / "wide.csv").shape == (2, 120_000)
