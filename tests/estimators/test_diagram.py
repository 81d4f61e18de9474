"""The diagram that notebooks show of an estimator."""

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from sklearn.datasets import make_moons
from sklearn.ensemble import VotingClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler

import dimargin as dm
from dimargin.estimators.diagram import CertificateDiagram, caption_of, documentation_link

X, Y = make_moons(120, noise=0.3, random_state=0)
EMPTY = {"input", "br", "img", "hr", "meta", "link"}  # elements without an end


class Diagram(HTMLParser):
    """Captions and links of a diagram, its text, and the names of all of its elements."""

    def __init__(self, estimator):
        super().__init__()
        self.open, self.tags, self.captions, self.links, self.text = [], [], [], [], ""
        self.feed(estimator._repr_html_())

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        given = dict(attributes)
        if tag not in EMPTY:
            self.open.append((tag, given.get("class", "")))
        if tag == "a" and "sk-estimator-doc-link" in given.get("class", "") and "href" in given:
            self.links.append(given["href"])

    def handle_endtag(self, tag):
        # those of scikit-learn 1.7 and 1.8 are not all closed
        if tag in [name for name, _ in self.open]:
            while self.open.pop()[0] != tag:
                pass

    def handle_data(self, data):
        if self.open and self.open[-1][1] == "caption":
            self.captions.append(data)
            # on the first level: in the label, which is seen before anything is unfolded
            assert any(tag == "label" for tag, _ in self.open)
            assert not any("sk-toggleable__content" in name or tag == "details" for tag, name in self.open)
        self.text += data


MACHINES = [
    dm.ODMClassifier(random_state=0),
    dm.ODMClassifier(strategy="diodm", n_levels=1, stop_level=1, random_state=0),
    dm.ODMClassifier(strategy="landmark", n_landmarks=20, random_state=0),
    dm.SVMClassifier(random_state=0),
    dm.CoreSetSVMClassifier(random_state=0),
    dm.LinearODMClassifier(random_state=0),
    dm.GossipSVMClassifier(n_sites=2, alpha=0.1, random_state=0),
    dm.CoreSetSVDD(random_state=0),
    dm.OneClassCoreSetSVM(random_state=0),
]


def gap_in(caption):
    return float(re.search("relative gap: ([^,]+)", caption)[1])


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("machine", MACHINES, ids=lambda m: f"{type(m).__name__}-{getattr(m, 'strategy', '')}")
def test_the_certificate_is_in_plain_sight(machine):
    assert Diagram(machine).captions == []
    machine.fit(X, Y)
    gap, scope, status = machine.duality_gap_, machine.certificate_, machine.status_
    (caption,) = Diagram(machine).captions
    vectors = f", support vectors: {len(machine.support_)}" if hasattr(machine, "support_") else ""
    assert re.sub("gap: [^,]+", "gap: G", caption) == (
        f"certificate: {scope}, relative gap: G, status: {status}{vectors}"
    )
    assert gap <= gap_in(caption) <= 1.1 * gap
    assert caption in machine._repr_mimebundle_()["text/html"]


@pytest.mark.parametrize("gap", [0.0, 1.04e-3, 9.91e-4, 2.5e-16, 0.1 + 0.2])
def test_a_gap_is_shown_rounded_up(gap):
    machine = dm.SVMClassifier()
    machine.certificate_, machine.duality_gap_, machine.status_ = "global", gap, "converged"
    assert gap <= gap_in(caption_of(machine)) <= 1.1 * gap


def test_it_is_so_inside_of_pipelines_and_searches():
    machine = dm.SVMClassifier(random_state=0)
    pipeline = make_pipeline(MinMaxScaler(), machine).fit(X, Y)
    search = GridSearchCV(pipeline, {"svmclassifier__C": [1.0]}, cv=2).fit(X, Y)
    vote = VotingClassifier([("a", dm.SVMClassifier()), ("b", dm.ODMClassifier())]).fit(X, Y)
    for around, inner in ((pipeline, pipeline[-1]), (search, search.best_estimator_[-1])):
        (caption,) = Diagram(around).captions
        assert inner.duality_gap_ <= gap_in(caption) <= 1.1 * inner.duality_gap_
    assert Diagram(vote).captions == []  # scikit-learn shows those that were given, which are not fitted


def test_a_search_shows_its_best_machine():
    search = dm.ODMClassifierCV(param_grid={"lam": [1e3, 1e5]}, min_rows=20, cv=2, random_state=0)
    assert Diagram(search).captions == []
    assert "estimator: ODMClassifier" in Diagram(search.set_params(estimator=dm.ODMClassifier(random_state=0))).text
    search.fit(X, Y)
    shown = Diagram(search)
    assert "best_estimator_: ODMClassifier" in shown.text
    assert shown.captions == Diagram(search.best_estimator_).captions != []


def test_everything_is_escaped():
    machine = dm.SVMClassifier().fit(X, Y)
    before = Diagram(machine).tags.count("script")
    machine.status_ = machine.certificate_ = "<script>alert('&')</script>"
    shown = Diagram(machine)
    assert shown.tags.count("script") == before and "<script>alert('&')</script>" in "".join(shown.captions)


def test_there_is_no_caption_while_parts_of_the_certificate_are_missing():
    machine = dm.SVMClassifier().fit(X, Y)
    del machine.duality_gap_
    assert caption_of(machine) is None and Diagram(machine).captions == []


@pytest.mark.parametrize(
    ("urls", "expected"),
    [
        ((), ""),
        (("Source, https://example.org/code",), ""),
        (("Documentation, docs/guide/index.md",), ""),
        (("Documentation, javascript:alert(1)",), ""),
        (("Source, https://a.org", "documentation, https://b.org/en/"), "https://b.org/en"),
        (('Documentation, https://b.org/"><script>{0}',), "https://b.org/%22%3E%3Cscript%3E%7B0%7D"),
    ],
)
def test_documentation_is_linked_where_its_address_is_known(urls, expected, monkeypatch):
    page = "/api/generated/dimargin.{estimator_name}.html"
    assert documentation_link(urls) == (expected + page if expected else "")
    monkeypatch.setattr(CertificateDiagram, "_doc_link_template", documentation_link(urls))
    links = Diagram(dm.LinearODMClassifier().fit(X, Y)).links
    assert set(links) == ({expected + "/api/generated/dimargin.LinearODMClassifier.html"} if expected else set())
    assert np.all([link.startswith("https://") for link in links])
