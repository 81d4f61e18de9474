"""Standard streams that are closed, full, gone, or of an encoding that lacks what is printed."""

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest
from text_files import write_moons

import dimargin as dm

COMMAND = [sys.executable, "-m", "dimargin"]
FULL = Path("/dev/full")
LABELS = ("größe", "naïve 日本")
ASCII = {"PYTHONIOENCODING": "ascii"}
ASCII_LOCALE = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def run(*arguments, redirect="", command=COMMAND, **environment):
    """Run a command in a shell, with what `redirect` makes of its streams: status, standard output, standard error."""
    shell = ["sh", "-c", f'exec "$@" {redirect}', "sh", *command, *map(str, arguments)]
    done = subprocess.run(
        shell, capture_output=True, env={**os.environ, "PYTHONUNBUFFERED": "", **environment}, timeout=300
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def lines_of(redirect, code, **environment):
    """What Python code prints after the streams were opened; and its standard error."""
    code = f"import os, sys; from dimargin.cli.streams import open_streams; output = open_streams()\n{code}"
    status, out, err = run("-c", code, redirect=redirect, command=[sys.executable], **environment)
    assert status == 0, err
    return out, err


REASONS = {
    ">&-": f"[Errno {errno.EBADF}] cannot write to standard output: {os.strerror(errno.EBADF)}",
    ">/dev/full": f"[Errno {errno.ENOSPC}] cannot write to standard output: {os.strerror(errno.ENOSPC)}",
}


@needs_full
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("redirect", REASONS)
def test_output_that_cannot_be_written_is_a_line_and_a_status(redirect, unbuffered):
    for asked in ("--help", "--version"):
        found = run(asked, redirect=redirect, PYTHONUNBUFFERED=unbuffered)
        assert found == (1, "", f"dimargin: {REASONS[redirect]}\n")
    assert run("--version", redirect=f"{redirect} 2>&-", PYTHONUNBUFFERED=unbuffered)[0] == 1


def test_a_reader_that_has_gone_is_left_without_a_word():
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer) as gone:
        done = subprocess.run([*COMMAND, "--help"], stdout=gone, stderr=subprocess.PIPE, timeout=300)
    assert (done.returncode, done.stderr) == (1, b"")


@needs_full
@pytest.mark.parametrize("redirect", ["2>&-", "2>/dev/full", "<&-", "2>&- <&-"])
def test_no_message_has_to_be_written(redirect):
    assert run("--version", redirect=redirect) == (0, f"dimargin {dm.__version__}\n", "")
    assert run("--versoin", redirect=f"{redirect} >/dev/null")[0] == 2  # whose explanation is lost, or shown


def test_no_file_gets_the_number_of_a_stream_that_was_closed(tmp_path):
    said = tmp_path / "said"
    code = f"file = open({str(said)!r}, 'w'); print(file.fileno() > 2, sys.stdin.fileno(), file=file)"
    lines_of("<&- >&- 2>&-", code)
    assert said.read_text() == "True 0\n"


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_pipe_that_takes_some_is_given_the_rest_later(unbuffered):
    ours, theirs = os.pipe()
    os.set_blocking(theirs, False)
    code = "from dimargin.cli.streams import open_streams; open_streams(); print(500_000 * 'x')"
    with open(ours, "rb") as reader, open(theirs, "wb") as writer:
        environment = {**os.environ, "PYTHONUNBUFFERED": unbuffered}
        child = subprocess.Popen([sys.executable, "-c", code], stdout=writer, env=environment)
        writer.close()
        assert len(reader.read()) == 500_001 and child.wait(60) == 0


@needs_full
def test_a_failure_of_output_is_raised_once():
    code = """
for _ in range(2):
    try:
        print("x", flush=True)
        print("lost", file=sys.stderr)
    except OSError as error:
        print(error is output.error, file=sys.stderr)
"""
    assert lines_of(">/dev/full", code)[1] == "True\nlost\n"


@pytest.mark.parametrize(
    "environment", [ASCII, ASCII_LOCALE, ASCII | {"PYTHONUNBUFFERED": "1"}], ids=["encoding", "locale", "unbuffered"]
)
def test_characters_that_an_encoding_lacks_are_escapes(environment):
    escaped = "gr\\xf6\\xdfe \\u65e5 \\udcff\n"
    printed = r"'gr\xf6\xdfe \u65e5 \udcff'"
    assert lines_of("", f"print({printed}); print({printed}, file=sys.stderr)", **environment) == (escaped, escaped)


def test_a_way_of_its_own_that_the_caller_chose_is_kept():
    assert lines_of("", r"print('gr\xf6\xdfe')", PYTHONIOENCODING="ascii:xmlcharrefreplace")[0] == "gr&#246;&#223;e\n"
    assert lines_of("", r"print('gr\xf6\xdfe')", PYTHONIOENCODING="utf-8")[0] == "größe\n"


# ---- whole commands --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def csv(tmp_path_factory):
    path = write_moons(tmp_path_factory.mktemp("data") / "moons.csv", 200, names=("0", "1"))
    text = path.read_text().replace(",0\n", f",{LABELS[0]}\n").replace(",1\n", f",{LABELS[1]}\n")
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.nightly
@pytest.mark.parametrize("environment", [ASCII, ASCII_LOCALE], ids=["encoding", "locale"])
def test_labels_beyond_ascii_end_no_command(csv, tmp_path, environment):
    model, labels, page = (tmp_path / name for name in ("mödel", "läbels", "päge.html"))
    escaped = [label.encode("ascii", "backslashreplace").decode() for label in LABELS]
    for command in (
        ("train", csv, "--model", model),
        ("evaluate", model, csv),
        ("info", model),
        ("tune", csv, "--model", tmp_path / "tuned", "--max-time", "1"),
    ):
        status, out, err = run(*command, **environment)
        assert status == 0, (command, err)
        assert all(label in out for label in escaped), (command, out)
    status, out, err = run("predict", model, csv, **environment)
    assert status == 0 and set(out.splitlines()) == set(escaped), err
    assert run("predict", model, csv, "--output", labels, **environment)[0] == 0
    assert set(labels.read_text(encoding="utf-8").splitlines()) == set(LABELS)
    assert run("report", model, csv, "--output", page, **environment)[0] == 0
    assert LABELS[0] in page.read_text(encoding="utf-8")
    status, out, err = run("train", "--help", COLUMNS="60", **environment)  # with cells that are cut short
    assert status == 0 and "\\u2026" in out, err


@needs_full
@pytest.mark.slow
@pytest.mark.parametrize("redirect", REASONS)
def test_a_model_that_was_saved_stays_saved(csv, tmp_path, redirect):
    model = tmp_path / "model"
    status, _, err = run("train", csv, "--model", model, redirect=redirect)
    assert status == 1 and err.splitlines()[-1] == f"dimargin: {REASONS[redirect]}"
    assert len(dm.load(model).classes_) == 2
    assert run("predict", model, csv, "--quiet", redirect=redirect) == (1, "", f"dimargin: {REASONS[redirect]}\n")


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_labels_are_not_lost_by_the_name_of_an_output_that_is_closed(csv, tmp_path, name):
    model = tmp_path / "model"
    assert run("train", csv, "--model", model, "--max-iter", "1")[0] == 0
    status, _, err = run("predict", model, csv, "--quiet", "--output", name, redirect=">&-")
    assert status == 2 and f"--output {name}: standard output is closed" in err
    assert run("predict", model, csv, "--quiet", "--output", "/dev/null", redirect=">&-")[0] == 0


@needs_full
@pytest.mark.slow
def test_what_svm_train_prints_meanwhile_does_not_end_it(tmp_path):
    data, model = tmp_path / "data", tmp_path / "model"
    data.write_text("".join(f"{k % 3} 1:{k % 7} 2:{k % 5}\n" for k in range(60)))
    status, _, err = run("svm-train", data, model, redirect=">/dev/full")
    assert status == 1 and err == f"dimargin: {REASONS['>/dev/full']}\n"
    assert model.read_text().startswith("svm_type c_svc")


@needs_full
@pytest.mark.slow
def test_the_display_of_a_fit_does_not_end_it(csv, tmp_path):
    for number, redirect in enumerate((">/dev/null 2>/dev/full", ">/dev/null 2>&-", "2>&1 >/dev/null | true")):
        model = tmp_path / f"model{number}"
        run("train", csv, "--model", model, redirect=redirect)
        assert len(dm.load(model).classes_) == 2
