# bgsub without a screen: docker build -t bgsub . && docker run --rm -v "$PWD:/data" bgsub run in.mp4 -o out
FROM python:3.13-slim

COPY pyproject.toml setup.py README.md LICENSE /src/
COPY bgsub /src/bgsub
RUN pip install --no-cache-dir '/src[av]' \
    && pip uninstall --yes opencv-python \
    && pip install --no-cache-dir opencv-python-headless

# Compiled for every x86 processor since 2013 (--build-arg CPU=generic: for any), and found by whatever --user there is.
ARG CPU=x86-64-v3
ENV NUMBA_CPU_NAME=$CPU NUMBA_CPU_FEATURES="" NUMBA_CACHE_DIR=/var/cache/bgsub
RUN useradd --create-home bgsub && install -d -m 777 /var/cache/bgsub
USER bgsub
RUN bgsub warm-up && chmod -R a+rwX /var/cache/bgsub/*

WORKDIR /data
ENTRYPOINT ["bgsub"]
CMD ["--help"]
