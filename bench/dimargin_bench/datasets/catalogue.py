"""The catalogue: which data sets there are, whose they are, and where their files are public.

The rows and features are those of the pages of LIBSVM and, where there is no public file, of the
raw files as `conversion` encodes them. A checksum is that of a public file that somebody has seen.
None has been yet: the figures of this project are of copies that were written anew, with labels of
their own, which are not byte for byte the public files.
"""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches

_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/"
BINARY, MULTICLASS = f"{_LIBSVM}binary/", f"{_LIBSVM}multiclass/"
NO_HOME = ""
COMPRESSIONS = (".bz2", ".xz", ".gz")


@dataclass(frozen=True)
class PublicFile:
    """A file of a data set, in LIBSVM format.

    Parameters
    ----------
    name : str
        Name of the file, at its home and here.
    rows : int
    home : str, default=BINARY
        Address that the name is put behind, or `NO_HOME` where nobody offers the file in this
        format.
    sha256 : str, optional
        Checksum of the public file as 64 hexadecimal digits, by default none, because nobody has
        seen it.

    Examples
    --------
    >>> PublicFile("ijcnn1.t.bz2", 91701).address
    'https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/binary/ijcnn1.t.bz2'
    >>> PublicFile("ijcnn1.t.bz2", 91701).names
    ('ijcnn1.t.bz2', 'ijcnn1.t', 'ijcnn1.t.xz', 'ijcnn1.t.gz')
    """

    name: str
    rows: int
    home: str = BINARY
    sha256: str | None = None

    @property
    def address(self) -> str | None:
        """Where the file is public, or None."""
        return self.home + self.name if self.home else None

    @property
    def names(self) -> tuple[str, ...]:
        """Names under which a copy is recognised, compressed in any way or not at all; the public one first."""
        stem = self.name
        for compression in COMPRESSIONS:
            stem = stem.removesuffix(compression)
        return tuple(dict.fromkeys([self.name, stem, *(stem + compression for compression in COMPRESSIONS)]))


@dataclass(frozen=True)
class Entry:
    """A data set of the catalogue.

    Parameters
    ----------
    name : str
    features : int
    train : PublicFile
        All rows, where there is no test file.
    test : PublicFile, optional
    papers : tuple of str, default=()
        The papers whose experiments have it.
    note : str, default=""
        What else is to know, such as where the raw data are; a clause without a full stop.
    raw : tuple of str, default=()
        Names of the public raw files that `conversion` makes the files of.
    printed : tuple of str, default=()
        Other names that the papers print; `entry_of` knows them, too.
    """

    name: str
    features: int
    train: PublicFile
    test: PublicFile | None = None
    papers: tuple[str, ...] = ()
    note: str = ""
    raw: tuple[str, ...] = ()
    printed: tuple[str, ...] = ()

    @property
    def files(self) -> tuple[PublicFile, ...]:
        """The one or two files of the data set."""
        return (self.train,) if self.test is None else (self.train, self.test)


_DC, _DI, _GADGET = "DC-SVM", "DiODM", "GADGET"
_File = PublicFile
_ENTRIES = (
    Entry("ijcnn1", 22, _File("ijcnn1.bz2", 49_990), _File("ijcnn1.t.bz2", 91_701), (_DC, _DI)),
    Entry(
        "covtype.libsvm.binary", 54, _File("covtype.libsvm.binary.bz2", 581_012), None, (_DC, _GADGET),
        printed=("covtype", "covertype"),
    ),
    Entry("webspam", 254, _File("webspam_wc_normalized_unigram.svm.xz", 350_000), None, (_DC,), "the unigrams"),
    Entry(
        "mnist8m", 784, _File("mnist8m.xz", 8_100_000, MULTICLASS), None, (_DC,),
        "ten digits; experiments tell the round ones, 0, 3, 6, 8 and 9, from the others, unscaled",
    ),
    Entry(
        "kddcup99", 125, _File("kddcup99", 4_898_431, NO_HOME), _File("kddcup99.t", 311_029, NO_HOME), (_DC,),
        "the raw tables are at http://kdd.ics.uci.edu/databases/kddcup99",
        ("kddcup.data.gz", "corrected.gz"),
    ),
    Entry(
        "census", 409, _File("census", 199_523, NO_HOME), None, (_DC,),
        "the raw table is at https://archive.ics.uci.edu/ml/machine-learning-databases/census-income-mld",
        ("census-income.data.gz",),
    ),
    Entry(
        "cifar", 3072, _File("cifar", 50_000, NO_HOME), _File("cifar.t", 10_000, NO_HOME), (_DC,),
        "the pictures are at https://www.cs.toronto.edu/~kriz/cifar.html; animals against the others, unscaled",
        ("cifar-10-binary.tar.gz",),
    ),
    Entry(
        "gisette", 5000, _File("gisette_scale.bz2", 6000), _File("gisette_scale.t.bz2", 1000), (_DI, _GADGET)
    ),
    Entry(
        "sido", 4932, _File("sido", 12_678, NO_HOME), None, (_GADGET,),
        "the text version of SIDO2 is at http://www.causality.inf.ethz.ch/repository.php",
        ("sido2_train.data", "sido2_train.targets"),
    ),
    Entry(
        "quantum", 78, _File("quantum", 50_000, NO_HOME), None, (_GADGET,),
        "the tables of the KDD Cup 2004 are at http://osmot.cs.cornell.edu/kddcup", ("phy_train.dat",),
    ),
    Entry(
        "protein", 74, _File("protein", 145_751, NO_HOME), None, (_GADGET,),
        "the tables of the KDD Cup 2004 are at http://osmot.cs.cornell.edu/kddcup", ("bio_train.dat",),
    ),
    Entry("real-sim", 20_958, _File("real-sim.bz2", 72_309), None, (_GADGET,)),
    Entry(
        "bosch", 968, _File("bosch", 1_183_747, NO_HOME), None, (_GADGET,),
        "the tables are at https://www.kaggle.com/c/bosch-production-line-performance", ("train_numeric.csv",),
    ),
    Entry("svmguide1", 4, _File("svmguide1", 3089), _File("svmguide1.t", 4000), (_DI,)),
    Entry("phishing", 68, _File("phishing", 11_055), None, (_DI,)),
    Entry(
        "a7a", 123, _File("a7a", 16_100), _File("a7a.t", 16_461), (_DI,),
        "both files together are the rows of a9a's training file",
    ),
    Entry("cod-rna", 8, _File("cod-rna", 59_535), None, (_DI,)),
    Entry("skin_nonskin", 3, _File("skin_nonskin", 245_057), None, (_DI,), printed=("skin-nonskin",)),
    Entry("SUSY", 18, _File("SUSY.xz", 5_000_000), None, (_DI,)),
    Entry(
        "SUSY-30k", 18, _File("SUSY-30k", 30_000, NO_HOME), None, (),
        "30,000 rows of SUSY that this project measures on; they are not public, and other rows of SUSY do as well",
    ),
    Entry("a9a", 123, _File("a9a", 32_561), _File("a9a.t", 16_281), (_GADGET,), printed=("adult",)),
    Entry("usps", 256, _File("usps.bz2", 7291, MULTICLASS), _File("usps.t.bz2", 2007, MULTICLASS), (), "ten digits"),
    Entry(
        "reuters", 8315, _File("reuters", 7770, NO_HOME), _File("reuters.t", 3299, NO_HOME), (),
        "sparse text, for which no public address is known",
    ),
)  # fmt: skip
CATALOGUE = {entry.name: entry for entry in _ENTRIES}
"""All data sets by name, in the order in which they are listed."""
_PRINTED = {name: entry for entry in _ENTRIES for name in entry.printed}


def entry_of(name: str) -> Entry:
    """Return the entry of a data set, by its name or one that a paper prints.

    Raises
    ------
    ValueError
        If no data set has this name.

    Examples
    --------
    >>> entry_of("ijcnn")
    Traceback (most recent call last):
        ...
    ValueError: there is no data set 'ijcnn'; did you mean 'ijcnn1'?
    >>> entry_of("ijcnn1").features, entry_of("covtype").name
    (22, 'covtype.libsvm.binary')
    """
    if name in CATALOGUE:
        return CATALOGUE[name]
    if name in _PRINTED:
        return _PRINTED[name]
    close = [other for other in CATALOGUE if name and other.startswith(name)]
    close += get_close_matches(name, CATALOGUE, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"there are {', '.join(CATALOGUE)}"
    raise ValueError(f"there is no data set {name!r}; {hint}")
