"""Check the recipe for conda-forge: that it renders for every platform, and says what pyproject.toml says."""

import sys
import tomllib
from pathlib import Path

from rattler_build import PlatformConfig, RenderConfig, Stage0Recipe, VariantConfig

RECIPE = "packaging/conda/recipe.yaml"
PLATFORMS = ("linux-64", "linux-aarch64", "osx-64", "osx-arm64")
# what conda-forge adds to every recipe
STDLIB = {"linux": ("sysroot", "2.17"), "osx": ("macosx_deployment_target", "11.0")}


def rendered(recipe, platform):
    """Return the recipe for a platform as a dictionary."""
    name, version = STDLIB[platform.partition("-")[0]]
    variants = VariantConfig({"python": ["3.13.* *_cp313"], "c_stdlib": [name], "c_stdlib_version": [version]})
    platforms = PlatformConfig(target_platform=platform, build_platform=platform, host_platform=platform)
    (one,) = recipe.render(variants, RenderConfig(platform=platforms))
    return one.recipe.to_dict()


def conda(requirements):
    """Return requirements in the form "name bounds"."""
    return {requirement.replace(">=", " >=", 1).replace("  ", " ") for requirement in requirements}


def faults(recipe, config):
    """Return what differs between the recipe for a platform and pyproject.toml."""
    project = config["project"]
    needs, python = recipe["requirements"], recipe["build"]["python"]
    for what, there, expected in (
        ("version", recipe["package"]["version"], project["version"]),
        ("license", recipe["about"]["license"], project["license"]),
        ("summary", recipe["about"]["summary"], project["description"]),
        ("entry_points", python["entry_points"], [f"{k} = {v}" for k, v in project["scripts"].items()]),
        ("run", set(map(str, needs["run"])) - {"python"}, conda(project["dependencies"])),
        ("host", conda(config["build-system"]["requires"]) - set(map(str, needs["host"])), set()),
    ):
        if there != expected:
            yield f"{what} is {there}, expected {expected}"


if __name__ == "__main__":
    config = tomllib.loads(Path("pyproject.toml").read_text(encoding="utf-8"))
    recipe = Stage0Recipe.from_file(RECIPE)
    found = [f"{RECIPE} ({p}): {fault}" for p in PLATFORMS for fault in faults(rendered(recipe, p), config)]
    print(*found, sep="\n", end="\n" if found else "", file=sys.stderr)
    print(f"{RECIPE}: {len(PLATFORMS)} platforms, {len(found)} faults")
    sys.exit(bool(found))
