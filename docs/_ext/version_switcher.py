"""The menu of versions, for sites that lie side by side: dev/, one folder for each release, and stable/, the newest.

The URL "Documentation" of pyproject.toml is that of stable/. There is none before the first release, and then no menu.
Sites of all versions read the list that dev/ holds, so that old sites name new versions.
"""

import importlib.metadata
import json
import re
from pathlib import Path

CHANGELOG = Path(__file__).parents[2] / "CHANGELOG.md"
VERSION = re.compile(r"^## (\d\S*) \((\d{4}-\d\d-\d\d|unreleased)\)$", re.MULTILINE)


def stable_address():
    """Return the address of the newest release's site, or None if the installed package does not say it."""
    links = importlib.metadata.metadata("dimargin").get_all("Project-URL") or []
    return dict(link.split(", ", 1) for link in links).get("Documentation")


def current(changelog):
    """Return the version that a site documents: "dev" while the newest version of the changelog is not released."""
    version, day = VERSION.search(changelog).groups()
    return "dev" if day == "unreleased" else version


def versions(changelog, root):
    """Return the entries of the menu, the newest release first after "dev"."""
    released = [version for version, day in VERSION.findall(changelog) if day != "unreleased"]
    entries = [{"version": version, "url": f"{root}/{version}/"} for version in ["dev", *released]]
    if released:
        entries[1] |= {"name": f"{released[0]} (stable)", "url": f"{root}/stable/", "preferred": True}
    return entries


def root_of(stable):
    """Return the address of the folder that holds the sites of all versions."""
    return stable.rstrip("/").rpartition("/")[0]


def add_menu(app, config):
    """Set the theme's options, if there is an address."""
    if config.stable_address:
        config.html_theme_options |= {
            "switcher": {
                "json_url": f"{root_of(config.stable_address)}/dev/_static/switcher.json",
                "version_match": current(CHANGELOG.read_text(encoding="utf-8")),
            },
            "check_switcher": False,  # Sites are built without a network.
            "show_version_warning_banner": True,
            "navbar_end": ["version-switcher", *config.html_theme_options["navbar_end"]],
        }


def write_list(app, exception):
    """Write the list that the sites of all versions read."""
    stable = app.config.stable_address
    if exception is None and stable and app.builder.format == "html":
        entries = versions(CHANGELOG.read_text(encoding="utf-8"), root_of(stable))
        Path(app.outdir, "_static", "switcher.json").write_text(json.dumps(entries, indent=1), encoding="utf-8")


def setup(app):
    app.add_config_value("stable_address", stable_address(), "env", types=(str, type(None)))
    app.connect("config-inited", add_menu)
    app.connect("build-finished", write_list)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
