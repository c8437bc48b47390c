"""Whatever our code says to a person has a Chinese sentence in the console's catalogue."""

import json
import re
from collections.abc import Iterator
from typing import Any

from django.contrib.auth.password_validation import CommonPasswordValidator, MinimumLengthValidator
from django.core.exceptions import ValidationError
from rest_framework import exceptions, serializers
from rest_framework.pagination import CursorPagination

from helpers.sentences import ROOT, sentences

I18N = ROOT / "frontend/src/i18n"
CATALOGUE: dict[str, dict[str, str]] = json.loads((I18N / "zh.sentences.json").read_text())
CHINESE = re.compile(r"[\u4e00-\u9fff]")


def test_every_sentence_has_a_chinese_one() -> None:
    missing = {text: where for text, where in sentences().items() if text not in CATALOGUE["sentences"]}
    assert not missing, "say them in frontend/src/i18n/zh.sentences.json"


def test_no_chinese_sentence_is_left_over() -> None:
    assert set(CATALOGUE["sentences"]) - set(sentences()) == set()


def test_every_sentence_of_the_libraries_has_a_chinese_one() -> None:
    missing = {text for text in _libraries() if text not in CATALOGUE["libraries"] | CATALOGUE["sentences"]}
    assert not missing


def test_chinese_sentences_name_values_that_there_are() -> None:
    for english, chinese in (CATALOGUE["sentences"] | CATALOGUE["libraries"]).items():
        named = {int(number) for number in re.findall(r"\{(\d)(?::word)?\}", chinese)}
        assert named <= set(range(1, english.count("{}") + 1)), english
        assert CHINESE.search(chinese) or named, english
        assert "{" not in re.sub(r"\{\d(:word)?\}", "", chinese), english


def test_every_clause_of_a_request_has_a_chinese_one() -> None:
    codes = set(re.findall(r'Clause\(\s*"(\w+)"', (ROOT / "platform/berth/metering/explain.py").read_text()))
    clauses = (I18N / "zh.requests.ts").read_text().split("clauses", 1)[1]
    assert len(codes) > 10
    assert {code for code in codes if not re.search(rf"\b{code}[:(]", clauses)} == set()


def _libraries() -> Iterator[str]:
    """What Django REST framework says of the kinds of fields that our serializers have, and Django of passwords."""
    used = set()
    for path in (ROOT / "platform/berth").rglob("*.py"):
        used |= set(re.findall(r"serializers\.([A-Z]\w+(?:Field|Serializer))\b", path.read_text()))
    for name in used:
        found: dict[str, Any] = {}
        for parent in reversed(getattr(serializers, name).__mro__):
            found |= getattr(parent, "default_error_messages", {})
        yield from (re.sub(r"\{\w+\}", "{}", str(text)) for text in found.values())
    for kind in vars(exceptions).values():
        if isinstance(kind, type) and issubclass(kind, exceptions.APIException):
            yield re.sub(r"\{\w+\}", "{}", str(kind.default_detail))
    yield str(CursorPagination.invalid_cursor_message)
    for refuses in (MinimumLengthValidator(min_length=10), CommonPasswordValidator()):
        try:
            refuses.validate("password")
        except ValidationError as error:
            yield from (re.sub(r"\d+", "{}", text) for text in error.messages)
