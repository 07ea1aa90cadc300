"""A person's table: columns, target, preprocessing, the files they come in, streams of rows."""
