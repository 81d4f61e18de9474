"""Data in shards: the operations that an engine offers on them, parts of a problem, keys of rows and the merge tree."""
