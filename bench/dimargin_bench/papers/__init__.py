"""What the papers print: the numbers of their tables, figures and text, one a line in a CSV file for each paper.

A line has the table (or the figure or section) of a number, its data set, its method, what else
names its cell, what it is, and its text as it is printed. Every number in the cells of tables was
typed by two readers who did not see each other's work, and who agreed in all of them. 100 numbers of
running text, captions and axes have only one reader's name, and were compared with the text once
more. `SHA256SUMS` has the checksums. What both could not read, since the copies of the texts are
damaged, is "unreadable".
"""

from dimargin_bench.papers.printed import Figure, Marked, Printed, printed, published

__all__ = ["Figure", "Marked", "Printed", "printed", "published"]
