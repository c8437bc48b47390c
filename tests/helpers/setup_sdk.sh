#!/usr/bin/env bash
# Two environments for `make test-sdk`, each with one major version of OpenAI's client, langchain-openai and pytest.
# Does nothing for one that is there already. Nothing of ours and no torch is in them.
set -euo pipefail
dir=${1:-.cache/sdk}
for major in 2 3; do
  venv=$dir/openai-$major
  [ -e "$venv/ready" ] && continue
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install -q --disable-pip-version-check "openai>=$major,<$((major + 1))" langchain-openai jsonschema pytest
  touch "$venv/ready"
done
