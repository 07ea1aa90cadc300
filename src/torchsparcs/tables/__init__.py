"""Tables: columns, target, preprocessing, the files they come in, streams of rows and samples."""

# The files that other rooms may use; the rest are this room's own.
__all__ = [
    "chunks",
    "columns",
    "databases",
    "datasets",
    "dates",
    "distinct",
    "encoded",
    "encoding",
    "entries",
    "kinds",
    "made_rows",
    "parquet",
    "preprocessing",
    "readers",
    "standardization",
    "streams",
    "target",
    "target_values",
    "writers",
]
