"""Take pictures of a built site's main pages, at the width of a desk and of a phone, light and dark.

    python .ci/screenshots.py build/docs build/screenshots

Needs Chromium (Debian's package chromium) and, from PyPI, playwright. Names pages that are wider than the phone.
"""

import functools
import http.server
import shutil
import sys
import threading
from pathlib import Path

PAGES = (
    *("index", "get-started", "guide/index", "guide/classify", "guide/tune", "guide/files", "guide/sites", "network"),
    *("certificates", "odm", "faq", "gallery/plot_tutorial", "gallery/plot_certificate", "gallery/plot_odm"),
    *("scaling", "defaults", "gallery/index", "gallery/plot_margins", "gallery/plot_boundaries", "api/index"),
    *("api/generated/dimargin.ODMClassifier", "benchmarks", "compare", "algorithms", "architecture", "security"),
    *("contributing", "changelog"),
)
WIDTHS = {"desk": 1280, "phone": 390}
# What reaches beyond the right edge, and is not in a frame of its own that scrolls.
OVERFLOWING = """() => {
  const scrolls = (element) => !element.matches(".bd-article")
    && (["auto", "scroll"].includes(getComputedStyle(element).overflowX) || scrolls(element.parentElement));
  return [...document.querySelectorAll(".bd-article *")]
    .filter((element) => element.offsetParent && element.getBoundingClientRect().right > innerWidth + 1)
    .filter((element) => !scrolls(element))
    .slice(0, 3).map((element) => element.tagName + " " + element.textContent.trim().slice(0, 60));
}"""
TALLEST = 4000  # pixels of a page that are looked at

browser_path = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
if browser_path is None:
    sys.exit("pictures of the site need Chromium: apt-get install chromium")
try:
    from playwright.sync_api import sync_playwright
except ModuleNotFoundError:
    sys.exit("pictures of the site need playwright: pip install playwright")


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


site, out = Path(sys.argv[1]), Path(sys.argv[2])
out.mkdir(parents=True, exist_ok=True)
wanted = sys.argv[3:] or PAGES
server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=site))
threading.Thread(target=server.serve_forever, daemon=True).start()
wide = []
with sync_playwright() as playwright:
    browser = playwright.chromium.launch(executable_path=browser_path, args=["--no-sandbox"])
    for name, width in WIDTHS.items():
        for scheme in ("light", "dark"):
            context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
            page = context.new_page()
            for path in wanted:
                page.goto(f"http://127.0.0.1:{server.server_port}/{path}.html", wait_until="networkidle")
                height = min(page.evaluate("document.documentElement.scrollHeight"), TALLEST)
                clip = {"x": 0, "y": 0, "width": width, "height": height}
                page.screenshot(
                    path=out / f"{path.replace('/', '-')}-{name}-{scheme}.png", full_page=True, clip=clip
                )  # fmt: skip
                wide += [f"{path}, {width} pixels wide: {what}" for what in page.evaluate(OVERFLOWING)]
            context.close()
    browser.close()
print(*sorted(set(wide)), sep="\n", end="\n" if wide else "")
print(f"{len(list(out.glob('*.png')))} pictures in {out}")
sys.exit(bool(wide))
