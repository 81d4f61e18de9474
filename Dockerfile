# dimargin as a command, without extras and as a user without rights:
#   docker build --tag dimargin . && docker run --rm --volume "$PWD:/data" --user "$(id -u)" dimargin train train.csv ...
# With extras: docker build --build-arg 'EXTRAS=[report,peers]' .
FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b AS build
# the compiler and what it links with: the versions of the image's Debian
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
COPY . /source
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels /source

FROM python:3.13-slim@sha256:7c61056e61ac89e852de05f3dc6fa51a6dd2181797bceed46aa725dd7cb2cd3b
ARG EXTRAS=""
# hadolint ignore=DL3008
RUN apt-get update && apt-get install --yes --no-install-recommends libgomp1 && rm -rf /var/lib/apt/lists/*
# the wheel of the stage above, which has no version to pin
# hadolint ignore=DL3013
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    for wheel in /wheels/*.whl; do pip install --no-cache-dir "${wheel}${EXTRAS}" || exit; done
RUN useradd --uid 1000 --create-home dimargin
USER 1000
WORKDIR /data
ENTRYPOINT ["dimargin"]
