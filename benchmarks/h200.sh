#!/usr/bin/env bash
# Kvasir and its peers on one model and card, alternately, doing the same work.
#
#   PEERS=FOLDER benchmarks/h200.sh MODEL [N:in:out,…]
#
# PEERS is a folder with models/MODEL/config.json, vllm-VERSION/ (unpack.py, bench_vllm.py and
# bench_vllm_serving.py) and sglang-VERSION/ (bench.sh). Weights are random, so no checkpoint is
# needed. Every engine's lines are kept in one raw file; `pair.py` makes result lines of them.
# One call may be split into several (by ENGINES, ROUNDS, workloads or rates): pass all their raw
# files to pair.py then, and set RESULTS to nothing here.
#
#   ENGINES     "kvasir vllm sglang"   which run; each once a round and setting
#   ROUNDS      3                      alternations
#   BATCHED     "8192 16384"           max-num-batched-tokens the peers try
#   KVASIR_BATCHED  8192               the one that Kvasir runs with
#   MAX_NUM_SEQS    256
#   RATES       ""                     requests/s for the serving benchmark, as 4,16; none: left out
#   SERVING_S, INPUT_LEN, OUTPUT_LEN   30, 512, 256: how long, and how large its requests are
#   TP          1                      cards a replica
#   LIMIT_S     180                    an engine's run is ended after this long
#   RAW, RESULTS    results/raw, results/h200.jsonl beside this file
#   COMMIT      git's                  what the Kvasir figures belong to
#   PYTHON      python3                with torch, and what the engines need
set -euo pipefail

here=$(cd "$(dirname "$0")" && pwd)
root=$(dirname "$here")
model=${1:?"MODEL, a folder of \$PEERS/models"}
# `-`, not `:-`: workloads given as "" leave the throughput benchmark out.
workloads=${2-256:512:256,32:512:256,1:512:256}
: "${PEERS:?a folder with the peers; see the head of $0}"
engines=${ENGINES:-kvasir vllm sglang}
max_seqs=${MAX_NUM_SEQS:-256} tp=${TP:-1} limit_s=${LIMIT_S:-180} rates=${RATES:-}
python=${PYTHON:-python3}
raw_folder=${RAW:-$here/results/raw}
results=${RESULTS-$here/results/h200.jsonl}
commit=${COMMIT:-$(git -C "$root" describe --always --dirty 2>/dev/null || echo unknown)}
folder=$PEERS/models/$model
[ -f "$folder/config.json" ] || { echo "there is no $folder/config.json" >&2; exit 2; }
card=$(nvidia-smi --query-gpu=name --format=csv,noheader | sed -n 1p)
[ "$tp" = 1 ] || card="${tp}x $card"

mkdir -p "$raw_folder"
raw=$raw_folder/$(date -u +%Y%m%dT%H%M%SZ)-$model.jsonl
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The peers' folder of one name, whatever its version; the newest, where there are several.
peer() { printf '%s\n' "$PEERS/$1"-[0-9]* | sort -V | tail -n 1; }

limited() { timeout --kill-after=5 "$limit_s" "$@"; }

kvasir() { # WHAT BATCHED OPTION…
    PYTHONPATH=$root/runtime:$root/kernels limited "$python" -m kvasir_runtime bench "$1" "$folder" \
        --load-format dummy --max-num-seqs "$max_seqs" --max-num-batched-tokens "$2" \
        --tensor-parallel-size "$tp" "${@:3}"
}

vllm() { # SCRIPT BATCHED OPTION…
    local site=${TMPDIR:-/tmp}/vllm-site
    if [ ! -e "$site/.unpacked" ]; then
        "$python" "$(peer vllm)/unpack.py" "$site" >&2 && touch "$site/.unpacked" || return
    fi
    PYTHONPATH=$site limited "$python" "$(peer vllm)/$1" --model "$folder" \
        --max-num-seqs "$max_seqs" --max-num-batched-tokens "$2" \
        --tensor-parallel-size "$tp" "${@:3}"
}

sglang() { # BATCHED OPTION…
    local extra="{\"chunked_prefill_size\": $1, \"max_prefill_tokens\": $1, \"tp_size\": $tp}"
    OUT=$work bash "$(peer sglang)/bench.sh" sglang "$limit_s" --model "$folder" \
        --max-running-requests "$max_seqs" --extra "$extra" "${@:2}"
}

# Run one engine's benchmark; keep a header and the whole JSON lines it printed, even if it failed.
keep() { # ENGINE BATCHED COMMAND…
    local status=0
    echo "-- ${*:3}" >&2
    "${@:3}" >"$work/out" 2>"$work/log" || status=$?
    [ "$status" = 0 ] || { echo "$1 ended with $status:" >&2; tail -n 20 "$work/log" >&2; }
    printf '{"date": "%s", "gpu": "%s", "kvasir_commit": "%s", "engine": "%s", "batched": %s}\n' \
        "$(date -u +%F)" "$card" "$commit" "$1" "$2" >>"$raw"
    grep -E '^\{.*\}$' "$work/out" | tee -a "$raw" || true
}

measure() { # ENGINE BATCHED
    local serving=(--rates "$rates" --seconds "${SERVING_S:-30}"
        --input-len "${INPUT_LEN:-512}" --output-len "${OUTPUT_LEN:-256}")
    case $1 in
    kvasir)
        [ -z "$workloads" ] || keep "$@" kvasir throughput "$2" --workloads "$workloads"
        [ -z "$rates" ] || keep "$@" kvasir serving "$2" "${serving[@]}"
        ;;
    vllm)
        [ -z "$workloads" ] || keep "$@" vllm bench_vllm.py "$2" --workloads "$workloads"
        [ -z "$rates" ] || keep "$@" vllm bench_vllm_serving.py "$2" "${serving[@]}"
        ;;
    sglang) # its harness has no serving benchmark
        [ -z "$workloads" ] || keep "$@" sglang "$2" --workloads "$workloads"
        ;;
    *) echo "there is no engine $1: use kvasir, vllm, sglang" >&2; exit 2 ;;
    esac
}

for _ in $(seq "${ROUNDS:-3}"); do
    for engine in $engines; do
        batched=${BATCHED:-8192 16384}
        [ "$engine" != kvasir ] || batched=${KVASIR_BATCHED:-8192}
        for tokens in $batched; do measure "$engine" "$tokens"; done
    done
done
echo "raw lines: $raw" >&2
[ -z "$results" ] || PYTHONPATH=$root/runtime "$python" "$here/pair.py" "$raw" --results "$results"
