"""TfidfVectorizer and LinearSVC tell which package a docstring is from, in place of newsgroups, a download."""

import ast
import importlib.util
from pathlib import Path

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

PACKAGES = "numpy", "scipy", "sklearn", "matplotlib", "pip", "joblib"

texts, labels = [], []
for package in PACKAGES:
    for path in sorted(Path(importlib.util.find_spec(package).origin).parent.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8", errors="replace"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef) and (text := ast.get_docstring(node)):
                texts.append(text)
                labels.append(package)
train, test, y_train, y_test = train_test_split(texts, labels, stratify=labels, random_state=0)
model = make_pipeline(TfidfVectorizer(sublinear_tf=True, ngram_range=(1, 2), min_df=2), LinearSVC(random_state=0))
print(f"texts: {len(texts)}, accuracy: {model.fit(train, y_train).score(test, y_test):.4f}")
