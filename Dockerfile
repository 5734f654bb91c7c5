# bgsub without a screen: docker build -t bgsub . && docker run --rm -v "$PWD:/data" bgsub run in.mp4 -o out
FROM python:3.13-slim

# Numba compares modification times, which an image stores in whole seconds: set them to a fixed time.
COPY pyproject.toml setup.py README.md LICENSE /src/
COPY bgsub /src/bgsub
RUN pip install --no-cache-dir '/src[av]' \
    && pip uninstall --yes opencv-python \
    && pip install --no-cache-dir opencv-python-headless \
    && package=$(python -c 'import bgsub; print(*bgsub.__path__)') \
    && find "$package" -name '*.py' -exec touch -d 2020-01-01 {} + \
    && python -m compileall -qf "$package"

# Compile for x86 processors since 2013 (--build-arg CPU=generic: for any); the cache is writable for every --user.
ARG CPU=x86-64-v3
ENV NUMBA_CPU_NAME=$CPU NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR=/var/cache/bgsub
RUN useradd --create-home bgsub && install -d -m 777 /var/cache/bgsub
USER bgsub
RUN bgsub warm-up && chmod -R a+rwX /var/cache/bgsub/*

WORKDIR /data
ENTRYPOINT ["bgsub"]
CMD ["--help"]
