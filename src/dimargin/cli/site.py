"""``dimargin site``: one real site of a network without a coordinator."""

from __future__ import annotations

import contextlib
import errno
import inspect
import json
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from dimargin.cli.brief_help import Application
from dimargin.cli.config_file import config_flag
from dimargin.cli.file_flags import file_options
from dimargin.cli.flags import add_command, existing_file, flags_of, parameter_flags, values_taken
from dimargin.gossip.programs.learner_parameters import ADMMParameters, CoreSetParameters, GossipParameters
from dimargin.gossip.sites.site_folder import SiteFolder
from dimargin.io.data.growing_file import GrowingFile
from dimargin.system.descriptors import reserve_descriptors
from dimargin.system.extras import require
from dimargin.system.printing import printable
from dimargin.system.threads import single_threaded_blas

if TYPE_CHECKING:
    from dimargin.gossip.sites.options import SiteOptions


# Each program has its parameters, its options, which are imported only for the program that runs,
# and the panel of its flags.
_PROGRAMS = {
    "admm": (
        ADMMParameters, "dimargin.gossip.sites.admm_options:ADMMOptions", "Consensus ADMM (--algorithm admm)",
    ),
    "gadget": (
        GossipParameters, "dimargin.gossip.sites.gossip_options:GossipOptions", "GADGET (--algorithm gadget)",
    ),
    "coreset": (
        CoreSetParameters, "dimargin.gossip.sites.core_set_options:CoreSetOptions",
        "Core-sets (--algorithm coreset)",
    ),
}  # fmt: skip
_BIRTHS_SINCE = 1_577_836_800  # The start of 2020, in seconds since 1970.
_COMMON_PANEL = "Learning (must agree at all sites)"
_network, _trust = (partial(typer.Option, rich_help_panel=panel) for panel in ("Network", "Trust"))
_trusted_file = partial(existing_file, rich_help_panel="Trust")


def _site(
    *,
    name: Annotated[str, typer.Option(help="Name of this site: letters, digits, dots, hyphens, underscores.")],
    data: Annotated[Path | None, existing_file(help="LIBSVM text or CSV; rows may be appended to it.")] = None,
    connect: Annotated[
        list[str] | None, _network(help="Address of another site, such as tcp/192.0.2.1:7447; may be repeated.")
    ] = None,
    listen: Annotated[
        list[str] | None, _network(help="Address to listen on.", show_default="a free port of 127.0.0.1")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option(file_okay=False, help="Folder for state, status and model.", show_default="NAME")
    ] = None,
    label: Annotated[str | None, typer.Option(help="Label column of CSV.", show_default="by name")] = None,
    zero_based: Annotated[
        bool | None, typer.Option(help="Whether LIBSVM text counts features from 0.", show_default="by a feature 0")
    ] = None,
    status: Annotated[bool, typer.Option("--status", help="Print the status of this site and exit.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the status as one JSON object.")] = False,
    page: Annotated[
        Path | None, typer.Option(dir_okay=False, help="Write the status of the network as an HTML page and exit.")
    ] = None,
    log: Annotated[Path | None, typer.Option(dir_okay=False, help="Log of JSON lines.", show_default="stderr")] = None,
    metrics: Annotated[
        str | None,
        typer.Option(
            help="Port for Prometheus: http://127.0.0.1:PORT/metrics.", metavar="[ADDRESS:]PORT", show_default="none"
        ),
    ] = None,
    max_time: Annotated[float | None, typer.Option(help="Seconds after which to stop.", show_default="never")] = None,
    random_state: Annotated[int, typer.Option(help="Seed of the batches.")] = 0,
    algorithm: Annotated[
        Literal["admm", "gadget", "coreset"],
        typer.Option(
            help="admm, gadget: train a linear machine; admm needs far fewer bytes, and its model has a bound of the "
            "gap. coreset: share rows, often many, until all sites have those that determine the machine.",
            rich_help_panel=_COMMON_PANEL,
        ),
    ] = "admm",
    scale: Annotated[
        bool, typer.Option(help="Scale features by their range over all sites.", rich_help_panel=_COMMON_PANEL)
    ] = True,
    sites: Annotated[
        int | None, _network(help="Number of sites to wait for.", show_default="until no new site appears")
    ] = None,
    settle: Annotated[float, _network(help="Seconds without news after which the sites agree on the schema.")] = 3.0,
    swarm: Annotated[str, _network(help="Name of the group of sites, the same at all of them.")] = "dimargin",
    neighbour: Annotated[
        list[str] | None, _network(help="Site to talk to; may be repeated.", show_default="all")
    ] = None,
    interval: Annotated[float, _network(help="Seconds between rounds.")] = 0.05,
    lease: Annotated[float, _network(help="Seconds of silence after which a site counts as gone.")] = 2.0,
    bandwidth: Annotated[float | None, _network(help="Maximum bytes sent per second.", show_default="no limit")] = None,
    router: Annotated[bool, _network("--router", help="--connect is the address of a Zenoh router.")] = False,
    certificate: Annotated[Path | None, _trusted_file(help="This site's certificate (PEM).")] = None,
    key: Annotated[Path | None, _trusted_file(help="Private key of the certificate.")] = None,
    authority: Annotated[Path | None, _trusted_file(help="Certificate authority (PEM).")] = None,
    allow: Annotated[list[str] | None, _trust(help="Name of a site that may take part; may be repeated.")] = None,
    router_name: Annotated[str | None, _trust(help="Common name in the router's certificate.")] = None,
    share_rows: Annotated[
        bool, _trust("--share-rows", help="Allow programs that need it to send rows to other sites.")
    ] = False,
    **given: Any,
) -> None:
    """Train with other sites; rows stay here unless --share-rows is given.

    The site runs until Ctrl-C or SIGTERM, resumes where it stopped when it is started again, and
    keeps FOLDER/model.dimargin up to date for ``dimargin predict``.

    Example: dimargin site --data mine.csv --name north --connect tcp/192.0.2.1:7447
    """
    folder_of_site = SiteFolder(Path(name) if folder is None else folder)
    if status:
        return _print_status(folder_of_site, as_json)
    if page is not None:
        from dimargin.display.network_page import write_network_page

        return write_network_page(page, folder_of_site.read_status())
    require("dimargin site", "msgspec", "zenoh")
    if data is None:
        raise typer.BadParameter("is required unless --status or --page is given", param_hint="--data")
    for flag, value in (
        ("--interval", interval), ("--lease", lease), ("--settle", settle), ("--sites", sites),
        ("--max-time", max_time), ("--bandwidth", bandwidth),
    ):  # fmt: skip
        _check_above_zero(flag, value)
    if router and authority is not None and router_name is None:
        raise ValueError("--router with certificates needs --router-name, the common name in its certificate")
    if router_name is not None and not router:
        raise ValueError("--router-name needs --router")
    reading = file_options(**values_taken(file_options, given))
    options = _options(
        algorithm, given,
        {"scale": scale, "interval": interval, "lease": lease, "n_sites": sites, "min_sites": 2 if connect else 1,
         "settle": settle, "birth": max(0.0, time.time() - _BIRTHS_SINCE)},
    )  # fmt: skip
    if share_rows and options.shares != "rows":
        raise ValueError(f"--share-rows cannot be used with --algorithm {algorithm}, which only shares parameters")
    if options.shares == "rows" and not share_rows:
        raise ValueError(
            f"--algorithm {algorithm} sends the rows of this site's core-set to all others; add --share-rows to allow "
            "it"
        )
    from dimargin.gossip.live import LiveSite
    from dimargin.gossip.sites.learning_site import LearningSite, json_log
    from dimargin.gossip.zenoh_link import ZenohLink
    from dimargin.io.models.model_values import content_of_site

    reserve_descriptors()
    tls = _tls(certificate, key, authority, allow, router_name)
    link = ZenohLink(
        name, swarm, listen=listen, connect=connect or (), tls=tls, neighbours=neighbour, lease=lease, router=router
    )
    if tls is not None and options.shares == "rows":
        from dimargin.gossip.identity import Identity

        options = replace(options, identity=Identity.of(name, tls))
    folder_of_site.path.mkdir(parents=True, exist_ok=True)
    growing = GrowingFile(
        data, _column(label), zero_based=zero_based, needs_label=options.uses_labels, format=reading.format,
        header=reading.header, encoding=reading.encoding, quotes=reading.quotes,
    )  # fmt: skip
    served = contextlib.nullcontext() if metrics is None else _metrics(metrics, lambda: learning.last_status)
    learning = LearningSite(name, growing, folder_of_site, options, content_of_site, random_state)
    with log_lines(log) as write:
        live = LiveSite(learning, link, state=folder_of_site.state, log=json_log(name, write), bandwidth=bandwidth)
        learning.live = live
        # With one thread, sums are the same at all sites, and other work here is not slowed down.
        with _stop_on_signals() as stop, single_threaded_blas(), _plain_link_errors(), served:
            live.run(stop, max_time)
        learning.write_model(durable=True)
        learning.write_status()


def _metrics(address: str, status: Callable[[], dict[str, Any] | None]) -> contextlib.AbstractContextManager[Any]:
    require("dimargin site --metrics", "prometheus_client")
    from dimargin.gossip.sites.metrics_server import MetricsServer

    return MetricsServer(address, status)


def _flags(program: str) -> list[inspect.Parameter]:
    """Return the flags for the parameters of a program that have a help text."""
    parameters, _, panel = _PROGRAMS[program]

    def about(name: str, default: str) -> tuple[str, str]:
        users = _users(name)
        if len(users) == 1:
            return panel, default
        own = [str(getattr(_PROGRAMS[user][0], name)) for user in users]  # The programs' defaults may differ.
        return _COMMON_PANEL, default or " or ".join(dict.fromkeys(own))

    return parameter_flags(parameters, about)


def _users(name: str) -> list[str]:
    return [program for program, (parameters, *_) in _PROGRAMS.items() if hasattr(parameters, name)]


def _options(algorithm: str, given: dict[str, Any], others: dict[str, Any]) -> SiteOptions:
    """Return the algorithm's options for the values of the flags, where None means the default."""
    for one in _PROGRAMS:
        for parameter in _flags(one):
            name, value = parameter.name, given[parameter.name]
            flag = f"--{name.replace('_', '-')}"
            if value is not None and algorithm not in _users(name):
                raise ValueError(f"{flag} is not a parameter of --algorithm {algorithm}")
            if name in ("alpha", "rho", "batch_size", "gossip_rounds", "gamma", "degree", "tol", "features"):
                _check_above_zero(flag, value)
    module, name = _PROGRAMS[algorithm][1].split(":")
    own = {name: value for name, value in given.items() if value is not None}
    options: SiteOptions = getattr(import_module(module), name)(**own, **others)
    return options


def _check_above_zero(flag: str, value: float | None) -> None:
    if value is not None and not 0 < value < math.inf:
        raise ValueError(f"{flag} must be a number above 0, got {value!r}")


def _column(label: str | None) -> str | int | None:
    """Return the position of the label column if it is given by a number, else its name."""
    with contextlib.suppress(ValueError, TypeError):
        return int(label)  # type: ignore[arg-type]
    return label


def _tls(
    certificate: Path | None, key: Path | None, authority: Path | None, allow: list[str] | None, router: str | None
) -> Any:
    from dimargin.gossip.tls_certificates import Tls

    given = {"--certificate": certificate, "--key": key, "--authority": authority, "--allow": allow or None}
    missing = [flag for flag, value in given.items() if value is None]
    if len(missing) == len(given):
        return None
    if missing:
        raise ValueError(f"{', '.join(sorted(set(given) - set(missing)))} needs {' and '.join(missing)} too")
    assert certificate is not None and key is not None and authority is not None and allow is not None
    return Tls(certificate, key, authority, allow, router)


@contextlib.contextmanager
def log_lines(log: Path | None) -> Iterator[Callable[[str], None]]:
    """Yield a function that writes a line completely or raises OSError."""
    if log is None and sys.stderr is None:  # The caller has closed standard error.
        yield lambda line: None
        return
    where, mode = (sys.stderr.fileno(), "wb") if log is None else (log, "ab")
    with open(where, mode, buffering=0, closefd=log is not None) as file:

        def write(line: str) -> None:
            data = line.encode()
            written = file.write(data)
            if written != len(data):
                file.truncate(file.tell() - (written or 0))
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        yield write


@contextlib.contextmanager
def _plain_link_errors() -> Iterator[None]:
    """Turn an error of the link, such as an address in use, into one without a traceback."""
    from dimargin.gossip.links import LinkError

    try:
        yield
    except LinkError as error:
        raise ValueError(str(error)) from error


@contextlib.contextmanager
def _stop_on_signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set."""
    stop = threading.Event()
    before = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print_status(folder_of_site: SiteFolder, as_json: bool) -> None:
    facts = folder_of_site.read_status()
    if as_json:
        print(json.dumps(facts))
        return
    try:
        lines = _status_lines(facts)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ValueError(f"{folder_of_site.status} is damaged: {error!r}") from error
    for what, value in lines.items():
        print(f"{what:20} {printable(value)}")


def _status_lines(facts: dict[str, Any]) -> dict[str, Any]:
    lines = {
        "site": facts["site"], "round": facts["round"], "steps": facts["steps"],
        "neighbours": ", ".join(facts["neighbours"]) or "none",
        "refused": ", ".join(f"{name} ({why})" for name, why in facts["refused"].items()) or "none",
        **({"core-set": f"{facts['core_set']} rows"} if "core_set" in facts else {}),
        ("objective" if "certified" in facts else "estimated objective"): _numbers(facts.get("objective", [])),
        "at least": _numbers(facts.get("dual_objective", [])),
        **({"certified": "{rows} rows at {sites} sites".format(**facts["certified"])} if "certified" in facts else {}),
        "age": f"{facts['age']:.1f} s",
        "bytes in, out": f"{facts['bytes_in']}, {facts['bytes_out']}",
        "rows": f"{facts['rows']} at {len(facts['sites'])} sites, {facts['rows_shared']} shared",
        "converged": "yes" if facts["converged"] else "not yet",
        "schema": f"{facts['schema']}, {'agreed' if facts['sealed'] else 'not agreed yet'}",
    }  # fmt: skip
    if "privacy" in facts:
        budget = "epsilon {spent:.4g} of {epsilon:.4g} spent, delta {delta:g}, {releases} of {of} releases"
        lines["privacy"] = budget.format(**facts["privacy"])
    if facts.get("trouble"):
        lines["trouble"] = facts["trouble"]
    return lines


def _numbers(values: list[float | None]) -> str:
    return ", ".join("infinite" if value is None else f"{value:.6g}" for value in values) or "none yet"


def register(app: Application) -> None:
    """Add the command; the flags of single programs are listed before the common ones."""
    flags = [flag for program in _PROGRAMS for flag in _flags(program) if _users(flag.name)[0] == program]
    common = (
        "name", "data", "folder", "label", "status", "as_json", "page", "metrics", "max_time", "connect", "listen",
        "n_sites", "swarm", "neighbour", "algorithm", "kernel", "alpha", "loss_function", "C",
        "share_rows", "certificate", "key", "authority", "allow", "config",
    )  # fmt: skip
    add_command(app, "site", _site, [config_flag(), *flags_of(file_options), *flags], common, before="scale")
