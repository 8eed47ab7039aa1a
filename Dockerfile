# The command `tickwheel-jobs`, without a shell and without libraries. Build it first:
#
#     cargo build --release --target x86_64-unknown-linux-musl -p tickwheel-jobs-cli
#     docker build --tag tickwheel-jobs .
#     docker run --rm --publish 127.0.0.1:7171:7171 --volume "$PWD:/data" --user "$(id -u)" tickwheel-jobs \
#         /data/shop.db serve --listen 0.0.0.0:7171
#
# `rediss://` URLs need the certificates of the system in /etc/ssl/certs, as a volume. The data of time zones are in the
# command: `--local` takes the zone that `--env TZ=Europe/Berlin` names.
FROM scratch
COPY target/x86_64-unknown-linux-musl/release/tickwheel-jobs /
USER 65534:65534
ENTRYPOINT ["/tickwheel-jobs"]
