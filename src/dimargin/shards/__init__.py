"""Data in shards: operations of engines, parts of a problem, keys of rows and the merge tree."""
