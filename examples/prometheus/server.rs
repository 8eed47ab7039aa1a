//! As much of HTTP as a scrape needs: one request on each connection, one connection at a time.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use prometheus_client::encoding::text;
use prometheus_client::registry::Registry;

/// How long one read or write may take. Without a limit, a silent client would block all others.
const PATIENCE: Duration = Duration::from_secs(1);

/// The head of a request comes in one read, as a rule. A client that sends it in more reads than
/// this, or more than [`READ_BYTES`] for each of them, is refused.
const READS: usize = 8;
const READ_BYTES: usize = 1024;

const OPENMETRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// Waits for a connection and answers the request on it.
pub(crate) fn serve_one(listener: &TcpListener, registry: &Registry) -> io::Result<()> {
    let (mut stream, _) = listener.accept()?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let head = read_head(&mut stream)?;
    let (status, kind, body) = respond(&head, registry);
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\n\
         Connection: close\r\n\r\n{body}"
    )
}

/// Reads up to the empty line. No answer here depends on a body after it.
fn read_head(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    for _ in 0..READS {
        let mut buffer = [0; READ_BYTES];
        let count = stream.read(&mut buffer)?;
        head.extend_from_slice(&buffer[..count]);
        if head.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
            return Ok(head);
        }
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Err(io::Error::new(io::ErrorKind::InvalidData, "the head of the request is too long"))
}

/// Returns the status, the type and the body of the answer.
fn respond(head: &[u8], registry: &Registry) -> (&'static str, &'static str, String) {
    let request = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let mut words = request.split(|&byte| byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics")) => {
            let mut body = String::new();
            match text::encode(&mut body, registry) {
                Ok(()) => ("200 OK", OPENMETRICS, body),
                Err(error) => ("500 Internal Server Error", PLAIN, error.to_string()),
            }
        }
        (Some(b"GET"), _) => ("404 Not Found", PLAIN, "the metrics are at /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", PLAIN, "only GET is served\n".to_owned()),
    }
}
