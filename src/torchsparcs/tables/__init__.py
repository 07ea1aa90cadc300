"""Tables: columns, target, preprocessing, the files they come in, streams of rows and samples."""
