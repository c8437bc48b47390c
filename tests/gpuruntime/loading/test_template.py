"""The sandbox of chat templates: what Hugging Face's templates need works, what harms is refused in time."""

from __future__ import annotations

import time

import pytest

from gpuruntime.loading.template import ChatTemplate, TemplateRefused

USER = [{"role": "user", "content": "hi <b>'é'"}]


def render(source: str, messages: list | None = None) -> str:
    return ChatTemplate(source, {"bos_token": "<s>", "eos_token": "</s>"}).render(
        USER if messages is None else messages
    )


def test_the_names_templates_expect() -> None:
    assert render("{{ bos_token }}{{ messages[0].content }}{{ eos_token }}{{ add_generation_prompt }}") == (
        "<s>hi <b>'é'</s>True"
    )
    assert render("{{ messages[0] | tojson }}") == '{"role": "user", "content": "hi <b>\'é\'"}'
    assert len(render("{{ strftime_now('%Y-%m-%d') }}")) == 10
    assert render("{% for m in [1, 2, 3] %}{% if m == 2 %}{% continue %}{% endif %}{{ m }}{% endfor %}") == "13"
    assert (
        render("{% set ns = namespace(n=0) %}{% for m in [1, 2] %}{% set ns.n = ns.n + m %}{% endfor %}{{ ns.n }}")
        == "3"
    )
    assert render("{%- macro m(x) %}[{{ x ~ '!' }}]{% endmacro %}{{ m('a') }}") == "[a!]"
    assert render("{{ tools is none }} {{ 'a b'.split(' ')[1] | trim | upper }} {{ 'x' * 3 }}") == "True B xxx"


def test_raise_exception_becomes_a_refusal_with_its_text() -> None:
    with pytest.raises(TemplateRefused, match="roles must alternate"):
        render("{{ raise_exception('roles must alternate') }}")


@pytest.mark.parametrize(
    "source",
    [
        "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}",
        "{% macro f() %}{{ f() }}{{ f() }}{% endmacro %}{{ f() }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='ab') %}{% for i in range(60) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{{ 'a' * 999999999 }}",
        "{{ [0] * 99999999 }}",
        "{{ 9 ** 9999999 }}",
        "{{ 'a' | center(999999999) }}",
        "{{ 'a'.zfill(999999999) }}",
        "{{ '%999999999d' % 1 }}",
        "{{ 'a' | indent(999999999, true) }}",
        "{{ range(99999999) }}",
        "{% for i in range(99999) %}{{ messages[0].content * 1000 }}{% endfor %}",
    ],
)
def test_a_template_cannot_take_time_or_memory(source: str) -> None:
    began = time.process_time()
    with pytest.raises(TemplateRefused):
        render(source)
    assert time.process_time() - began < 20, "as written, each would take minutes"


@pytest.mark.parametrize(
    "source",
    [
        "{{ messages.append(1) }}",
        "{{ ''.__class__.__mro__ }}",
        "{{ messages.__class__.__base__.__subclasses__() }}",
        "{{ raise_exception.__globals__ }}",
        "{{ '{0.__class__}'.format(messages) }}",
        "{{ messages[0].missing.deeper }}",
    ],
)
def test_a_template_cannot_reach_out_of_the_sandbox(source: str) -> None:
    try:
        text = render(source)
    except TemplateRefused:
        return
    assert "class" not in text
    assert "object" not in text


def test_a_template_that_does_not_compile_is_named() -> None:
    with pytest.raises(ValueError, match="does not compile"):
        ChatTemplate("{% for %}", {})
