"""Run the python blocks of the given Markdown files: doctests where they show a prompt, else plain code."""

import doctest
import pathlib
import re
import sys

failures = 0
for name in sys.argv[1:]:
    text = pathlib.Path(name).read_text(encoding="utf-8")
    names = {"__name__": "__main__"}  # the blocks of a page share their variables
    blocks = list(re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
    for block in blocks:
        line = text.count("\n", 0, block.start(1))
        if block[1].startswith(">>>"):
            test = doctest.DocTestParser().get_doctest(block[1], names, name, name, line)
            runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
            failures += runner.run(test, clear_globs=False).failed
            names.update(test.globs)
        else:
            exec(compile("\n" * line + block[1], name, "exec"), names)
    print(f"{name}: {len(blocks)} python blocks")
sys.exit(failures > 0)
