# Two images from one file: `--target operator` (control plane, no torch) and `--target runtime`
# (the engine, CUDA torch). A source change rebuilds one thin last layer of each.
#
# BASE_IMAGE   replaces both defaults below: any Debian or Ubuntu whose Python is 3.11 or 3.12.
# CPU_ONLY=1   leaves out of the runtime image what only GPUs use (CUDA libraries, Triton: 3.3 GB),
#              for machines that have none: the local demo and the tests.
# Secret `ca`  a CA bundle to trust while building, where a private CA signs the package index.
# Keep the HEALTHCHECK with buildah: `buildah build --format docker`.
ARG BASE_IMAGE=
ARG RUNTIME_BASE=${BASE_IMAGE:-docker.io/nvidia/cuda:13.0.2-base-ubuntu24.04}
ARG OPERATOR_BASE=${BASE_IMAGE:-docker.io/library/python:3.12-slim-bookworm}

FROM ${OPERATOR_BASE} AS operator-base
RUN python3 -c 'import ensurepip' 2>/dev/null || { \
        apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            ca-certificates python3 python3-venv \
        && rm -rf /var/lib/apt/lists/*; \
    }

# uv, and the lock file as one list of requirements an image: only a change of that list, not of
# the rest of pyproject.toml, makes the layers of dependencies anew.
FROM operator-base AS uv
LABEL dev.kvasir.stage=wheel
COPY hack/image/with-host.sh /opt/uv/bin/with-host
RUN --mount=type=secret,id=ca \
    python3 -m venv /opt/uv && /opt/uv/bin/with-host /opt/uv/bin/pip install --no-cache-dir uv==0.13.9
ENV UV_PYTHON_DOWNLOADS=never PATH=/opt/uv/bin:$PATH
WORKDIR /src
COPY pyproject.toml uv.lock ./
RUN mkdir /requirements && for extra in operator runtime; do \
        uv export --quiet --no-cache --frozen --no-emit-project --no-header \
            --extra "$extra" --output-file "/requirements/$extra.txt" || exit 1; \
    done

FROM uv AS operator-wheel
COPY README.md LICENSE ./
COPY operator operator
RUN --mount=type=secret,id=ca with-host uv build --wheel --out-dir /dist

FROM uv AS runtime-wheel
COPY README.md LICENSE ./
COPY runtime runtime
COPY kernels kernels
RUN --mount=type=secret,id=ca with-host uv build --wheel --out-dir /dist

FROM operator-base AS operator
RUN echo 'kvasir:x:65532:65532:kvasir:/tmp:/usr/sbin/nologin' >> /etc/passwd
ENV VIRTUAL_ENV=/opt/kvasir PATH=/opt/kvasir/bin:$PATH UV_PYTHON_DOWNLOADS=never \
    PYTHONUNBUFFERED=1 HOME=/tmp USER=kvasir
COPY --from=uv /requirements/operator.txt /opt/requirements.txt
RUN --mount=type=bind,from=uv,source=/opt/uv/bin,target=/opt/uv/bin --mount=type=secret,id=ca \
    /opt/uv/bin/uv venv --no-cache --python "$(command -v python3)" "$VIRTUAL_ENV" \
    && /opt/uv/bin/with-host /opt/uv/bin/uv pip install \
        --compile-bytecode --no-deps --require-hashes -r /opt/requirements.txt
COPY --from=operator-wheel /dist /opt/dist
RUN --mount=type=bind,from=uv,source=/opt/uv/bin,target=/opt/uv/bin \
    /opt/uv/bin/uv pip install --no-cache --compile-bytecode --offline --no-deps /opt/dist/*.whl \
    && rm "$VIRTUAL_ENV/bin/kvasir-runtime"
USER 65532:65532
ENTRYPOINT ["kvasir"]
CMD ["operator"]

# The CUDA libraries come with torch's own wheels; gcc and Python's headers are there because Triton
# compiles small C stubs at run time.
FROM ${RUNTIME_BASE} AS runtime
RUN if ! { command -v gcc && command -v python3 && ls /usr/include/python3*/Python.h; } >/dev/null; then \
        apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            ca-certificates gcc libc6-dev python3 python3-dev \
        && rm -rf /var/lib/apt/lists/*; \
    fi \
    && echo 'kvasir:x:65532:65532:kvasir:/tmp:/usr/sbin/nologin' >> /etc/passwd
ENV VIRTUAL_ENV=/opt/kvasir PATH=/opt/kvasir/bin:$PATH UV_PYTHON_DOWNLOADS=never \
    PYTHONUNBUFFERED=1 HOME=/tmp USER=kvasir HF_HOME=/tmp/huggingface \
    TRITON_CACHE_DIR=/tmp/triton TORCHINDUCTOR_CACHE_DIR=/tmp/torchinductor
COPY --from=uv /requirements/runtime.txt /opt/requirements.txt
COPY hack/image/slim_cpu.py /opt/slim_cpu.py
ARG CPU_ONLY=
RUN --mount=type=bind,from=uv,source=/opt/uv/bin,target=/opt/uv/bin --mount=type=secret,id=ca \
    /opt/uv/bin/uv venv --no-cache --python "$(command -v python3)" "$VIRTUAL_ENV" \
    && /opt/uv/bin/with-host /opt/uv/bin/uv pip install \
        --compile-bytecode --no-deps --require-hashes -r /opt/requirements.txt \
    && if [ -n "$CPU_ONLY" ]; then python /opt/slim_cpu.py; fi
COPY --from=runtime-wheel /dist /opt/dist
RUN --mount=type=bind,from=uv,source=/opt/uv/bin,target=/opt/uv/bin \
    /opt/uv/bin/uv pip install --no-cache --compile-bytecode --offline --no-deps /opt/dist/*.whl \
    && rm "$VIRTUAL_ENV/bin/kvasir" "$VIRTUAL_ENV/bin/kubectl-kvasir"
USER 65532:65532
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=15m --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/health', timeout=4)"]
ENTRYPOINT ["kvasir-runtime", "serve"]
