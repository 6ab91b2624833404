#!/bin/sh
# Run one build step with what the building host lends it; none of it reaches the image.
# A secret named `ca` is the host's CA bundle, a volume at /host/uv-cache its download cache.
if [ -s /run/secrets/ca ]; then
    export SSL_CERT_FILE=/run/secrets/ca PIP_CERT=/run/secrets/ca
fi
if [ -d /host/uv-cache ]; then
    export UV_CACHE_DIR=/host/uv-cache UV_LINK_MODE=copy
else
    export UV_NO_CACHE=1
fi
exec "$@"
