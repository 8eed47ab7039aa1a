//! A dashboard behind a small web server of the test's: a thread for each connection, one request for each.

use std::convert::Infallible;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;

use bytes::Bytes;
use http::Request;
use http_body::{Body, Frame};
use tickwheel_jobs_web::Dashboard;
use tower_service::Service;

/// A server, which answers until it is [`silent`](Served::silence).
pub(crate) struct Served {
    pub(crate) origin: String,
    is_silent: Arc<AtomicBool>,
}

impl Served {
    pub(crate) fn start(dashboard: Dashboard) -> Served {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let is_silent = Arc::new(AtomicBool::new(false));
        let silent = Arc::clone(&is_silent);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if !silent.load(Ordering::Relaxed) {
                    let dashboard = dashboard.clone();
                    std::thread::spawn(move || answer(stream, dashboard));
                }
            }
        });
        Served { origin, is_silent }
    }

    /// Closes every further connection without an answer.
    pub(crate) fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }
}

/// Reads a request and answers it. A browser that goes away is no error.
fn answer(stream: TcpStream, mut dashboard: Dashboard) -> Option<()> {
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut line = String::new();
    reader.read_line(&mut line).ok()?;
    let mut words = line.split(' ');
    let mut request = Request::builder().method(words.next()?).uri(words.next()?);
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(": ") else { break };
        if name.eq_ignore_ascii_case("content-length") {
            length = value.parse().ok()?;
        }
        request = request.header(name, value);
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    let request = request.body(Sent(Some(body.into()))).ok()?;
    let (parts, body) = block_on(dashboard.call(request)).ok()?.into_parts();
    let (mut body, mut bytes) = (pin!(body), Vec::new());
    let mut next = |context: &mut Context<'_>| body.as_mut().poll_frame(context);
    while let Some(frame) = block_on(std::future::poll_fn(&mut next)) {
        bytes.extend(frame.ok()?.into_data().ok()?);
    }
    let mut answer = format!("HTTP/1.1 {}\r\n", parts.status).into_bytes();
    for (name, value) in parts.headers.iter().filter(|(name, _)| *name != "content-length") {
        answer.extend([name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"].concat());
    }
    let end = format!("content-length: {}\r\nconnection: close\r\n\r\n", bytes.len());
    answer.extend(end.into_bytes());
    answer.extend(bytes);
    let mut stream = stream;
    stream.write_all(&answer).ok()
}

/// The body of a request.
struct Sent(Option<Bytes>);

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(self.0.take().map(|bytes| Ok(Frame::data(bytes))))
    }
}

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let (mut future, mut context) = (pin!(future), Context::from_waker(&waker));
    loop {
        match future.as_mut().poll(&mut context) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}
