#!/bin/sh
# Streams one answer, frame by frame.  KEY=key_….secret examples/curl.sh "What is the capital of France?"
set -eu
: "${KEY:?set KEY to an API key (the console's Keys page makes one)}"
question=${1:-What is the capital of France?}
body=$(QUESTION="$question" MODEL="${MODEL:-smollm2-135m}" python3 -c '
import json, os
messages = [{"role": "user", "content": os.environ["QUESTION"]}]
print(json.dumps({"model": os.environ["MODEL"], "messages": messages, "stream": True, "temperature": 0}))')
exec curl --no-buffer --silent --show-error --fail-with-body "${BASE_URL:-http://localhost:8000/v1}/chat/completions" \
    -H "Authorization: Bearer $KEY" -H "Content-Type: application/json" -d "$body"
