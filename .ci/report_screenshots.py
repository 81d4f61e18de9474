"""Pages that dimargin writes, as a browser shows and prints them: pictures to be looked at.

`dimargin report` of two classes, ten classes and a detector of outliers, on scikit-learn's data, and other pages that
are given, such as those of `dimargin bench --output`; 1280 and 390 pixels wide, on light and dark paper, and printed on
A4.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_breast_cancer, load_digits, load_wine
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

import dimargin as dm
from dimargin.display.report import write_report

HEIGHTS = {1280: 7000, 390: 12000}


def pages(folder):
    """Write the pages, and yield them."""
    odm = make_pipeline(MinMaxScaler(), dm.ODMClassifier(strategy="diodm", n_levels=2, random_state=0))
    for name, model, load in (
        ("two-classes", odm, load_breast_cancer),
        ("ten-classes", make_pipeline(MinMaxScaler(), dm.SVMClassifier(C=10.0, random_state=0)), load_digits),
        ("probabilities", CalibratedClassifierCV(odm, ensemble=False), load_breast_cancer),
        ("outliers", make_pipeline(StandardScaler(), dm.CoreSetSVDD(contamination=0.05, random_state=0)), load_wine),
    ):
        data = load(as_frame=True)
        labels = data.target_names[data.target]
        X, X_test, y, y_test = train_test_split(data.data, labels, test_size=0.4, random_state=0, stratify=labels)
        path = folder / f"{name}.html"
        write_report(path, model.fit(X, y), X_test, y_test)
        yield path


def copies(given, folder):
    """Copy pages that were written before, each under the name of its folder, and yield them."""
    for page in given:
        yield Path(shutil.copy(page, folder / f"{page.resolve().parent.name}.html"))


def run(chromium, profile, *arguments):
    command = [chromium, "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", *arguments]
    subprocess.run([*command, f"--user-data-dir={profile}"], check=True, capture_output=True, timeout=120)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("pages", type=Path, nargs="*", help="report.html of dimargin bench, instead of our own")
    options = parser.parse_args()
    folder = options.folder
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if chromium is None:
        sys.exit("Screenshots need Chromium, which is not installed: apt-get install chromium")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    with tempfile.TemporaryDirectory() as profile:
        for page in copies(options.pages, folder) if options.pages else pages(folder):
            address = page.resolve().as_uri()
            for width, height in HEIGHTS.items():
                for paper, dark in (("light", "0"), ("dark", "1")):
                    picture = folder / f"{page.stem}-{width}-{paper}.png"
                    # below 500 pixels wide a window of Chromium's is not narrower: the frame of a page is
                    size, shown = f"--window-size={max(width, 500)},{height}", address
                    if width < 500:
                        frame = Path(profile, "frame.html")
                        frame.write_text(f'<body style="margin:0"><iframe src="{address}" width={width} '
                                         f'height={height} style="border:0"></iframe>')  # fmt: skip
                        shown = frame.as_uri()
                    run(chromium, profile, f"--blink-settings=preferredColorScheme={1 - int(dark)}", size,
                        f"--screenshot={picture}", shown)  # fmt: skip
            printed = folder / f"{page.stem}.pdf"
            run(chromium, profile, "--no-pdf-header-footer", f"--print-to-pdf={printed}", address)
            if shutil.which("pdftoppm"):
                subprocess.run(["pdftoppm", "-r", "60", "-png", printed, printed.with_suffix("")], check=True)
    print(f"Pictures of {len(list(folder.glob('*.html')))} pages are in {folder}")


if __name__ == "__main__":
    main()
