"""What the papers print: the numbers of their tables, figures and text, one a line in a CSV file for each paper.

A line has the table (or the figure or section) of a number, its data set, its method, what else
names its cell, what it is, and its text as it is printed. Every file was typed twice, by two
readers who did not see each other's, and compared; `test_papers.py` has its checksum, and the sums
that one table of a paper states of another.
"""

from dimargin_bench.papers.printed import Printed, printed, published

__all__ = ["Printed", "printed", "published"]
