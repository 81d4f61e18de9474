"""Steps of model files for texts: CountVectorizer, TfidfVectorizer and HashingVectorizer.

A vocabulary is stored as two arrays: the words in the order of their columns, joined, and the ends of
the words. A file cannot choose what its words are found by: its regular expression must be a known
one, because the matching of others may take exponential time.
"""

from __future__ import annotations

import warnings
from encodings.aliases import aliases
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer, TfidfTransformer, TfidfVectorizer

from dimargin.io.models.declared_values import Array, check_declared, is_whole
from dimargin.io.models.named_values import load_registrations

MAX_WORDS = 2**22
"""Each word takes about 220 bytes when it is loaded (measured), so that a vocabulary takes less than 1 GiB."""
MAX_NGRAM = 16
"""Each n-gram takes about 60 bytes, so that a text takes at most a thousand times its size."""
VECTORIZERS = (CountVectorizer, HashingVectorizer)  # TfidfVectorizer is derived from CountVectorizer.
_patterns = {r"(?u)\b\w\w+\b", r"(?u)\b\w+\b", r"\b\w\w+\b", r"\b\w+\b", r"\w+", r"\S+"}


def register_pattern(pattern: str) -> None:
    r"""Allow model files to find words by a regular expression of your own: ``token_pattern`` of vectorizers.

    Patterns that are known without it are scikit-learn's default and the simplest others. The process
    that loads the file must have registered the pattern as well.

    Parameters
    ----------
    pattern : str
        Its matching should take time in proportion to the length of a text. Nested repetitions, as in
        ``"(a+)+b"``, may take exponential time.

    Examples
    --------
    >>> from dimargin.io.models import register_pattern
    >>> register_pattern(r"[a-z]+")
    """
    if not isinstance(pattern, str):
        raise ValueError(f"pattern must be a text, got {pattern!r}")
    _patterns.add(pattern)


def check_texts(step: CountVectorizer | HashingVectorizer) -> None:
    """Raise ValueError for parameters of a vectorizer that model files do not hold."""
    kind, parameters = type(step).__name__, step.get_params(deep=False)
    for name, value in parameters.items():
        if callable(value) and name != "dtype":
            raise ValueError(f"{name} of the {kind} is a function, which model files do not hold")
    step._validate_params()
    if parameters["input"] != "content":
        raise ValueError(f"input of the {kind} must be 'content', got {parameters['input']!r}: a model opens no files")
    kinds = (np.float32, np.float64, *((np.int32, np.int64) if kind == "CountVectorizer" else ()))
    if parameters["dtype"] not in kinds:
        expected = ", ".join(one.__name__ for one in kinds)
        raise ValueError(f"dtype of the {kind} must be one of {expected}, got {parameters['dtype']!r}")
    if step.encoding.lower().replace("-", "_") not in {*aliases, *aliases.values()}:
        raise ValueError(f"encoding of the {kind} must be one of Python's, got {step.encoding!r}")
    if not all(isinstance(word, str) for word in step.stop_words or ()):
        raise ValueError(f"stop_words of the {kind} must be texts")
    _check_words_found(step)


def _check_words_found(step: CountVectorizer | HashingVectorizer) -> None:
    kind, lengths, pattern = type(step).__name__, step.ngram_range, step.token_pattern
    sound = len(lengths) == 2 and all(map(is_whole, lengths)) and 0 < lengths[0] <= lengths[1] <= MAX_NGRAM
    if not sound:
        raise ValueError(f"ngram_range of the {kind} must be two integers from 1 to {MAX_NGRAM}, got {lengths!r}")
    if pattern not in _patterns and (pattern is not None or step.analyzer == "word"):
        load_registrations()
        if pattern not in _patterns:
            raise ValueError(
                f"token_pattern of the {kind} must be one of {sorted(_patterns)}, got {pattern!r}, or it must be "
                "registered by dimargin.io.models.register_pattern, because matching may take exponential time"
            )


def stored_vectorizer(step: CountVectorizer) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return parameters and attributes of a fitted vectorizer; raises ValueError if files cannot store it."""
    check_texts(step)
    words = sorted(step.vocabulary_, key=step.vocabulary_.__getitem__)
    parts = [word.encode() for word in words]
    attributes = {
        "words": np.frombuffer(b"".join(parts), dtype=np.uint8),
        "ends": np.cumsum([len(part) for part in parts], dtype=np.int64),
        "idf_": step.idf_ if _has_idf(step) else None,
        "fixed_vocabulary_": bool(step.fixed_vocabulary_),
    }
    return step.get_params(deep=False), attributes


def _has_idf(step: CountVectorizer) -> bool:
    return isinstance(step, TfidfVectorizer) and bool(step.use_idf)


def restored_vectorizer(
    kind: type[CountVectorizer], parameters: dict[str, Any], words: Any, ends: Any, idf_: Any, fixed_vocabulary_: Any
) -> Any:
    """Return the fitted vectorizer for values of `stored_vectorizer`; raises ValueError for invalid ones."""
    step = kind(**parameters)
    check_texts(step)
    vocabulary = _vocabulary(words, ends)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # They are about the empty text.
        step.set_params(vocabulary=vocabulary).fit([""])
    step.set_params(vocabulary=parameters.get("vocabulary"))
    step.fixed_vocabulary_, step.vocabulary_ = fixed_vocabulary_, vocabulary
    check_declared(step, {"fixed_vocabulary_": bool})
    if not (Array(("n_words",)).fits(idf_, {"n_words": len(vocabulary)}) if _has_idf(step) else idf_ is None):
        raise ValueError(f"idf_ of the {kind.__name__} does not fit its vocabulary and use_idf")
    if _has_idf(step):
        step.idf_ = idf_
    return step


def check_weights(step: TfidfTransformer) -> None:
    """Raise ValueError unless a TfidfTransformer has weights if and only if it uses them."""
    step._validate_params()
    if ("idf_" in vars(step)) != bool(step.use_idf) or getattr(step, "idf_", 0) is None:
        raise ValueError("idf_ of the TfidfTransformer does not fit use_idf")


def _vocabulary(words: Any, ends: Any) -> dict[str, int]:
    sound = (
        Array(("n_letters",), kinds="u").fits(words, {})
        and words.dtype == np.uint8
        and Array(("n_words",), kinds="i").fits(ends, {})
        and 0 < len(ends) <= MAX_WORDS
        and bool((np.diff(ends, prepend=0) >= 0).all())
        and ends[-1] == len(words)
    )
    if not sound:
        raise ValueError(f"the vocabulary of a vectorizer is not 1 to {MAX_WORDS} words")
    letters = words.tobytes()
    found = {letters[a:b].decode(): k for k, (a, b) in enumerate(pairwise([0, *ends.tolist()]))}
    if len(found) < len(ends):
        raise ValueError("the vocabulary of a vectorizer has equal words")
    return found
