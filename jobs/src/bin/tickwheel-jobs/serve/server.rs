//! The server of `serve`: HTTP/1.1 on one thread, with limits against slow and hostile clients.

use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::error::Error;
use std::net::{IpAddr, TcpListener};
use std::rc::Rc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HOST, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tickwheel_jobs::web::{Body, Dashboard, refusal};
use tower_service::Service;

use super::auth::{Entry, Gate, network};

/// The limit of the headers of a request, and of a pause between two requests. Then the connection is closed.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
/// The limit of a request, its body included.
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
/// The limit of a connection.
const CONNECTION_WITHIN: Duration = Duration::from_secs(300);
/// The limit of the requests that are under way at a signal.
const END_WITHIN: Duration = Duration::from_secs(5);
/// The most connections.
const MOST_CONNECTIONS: usize = 512;
/// The most connections of one address (of IPv6: of one network of 64 bits), unless that is the loopback, behind which a
/// proxy may be.
const MOST_OF_ADDRESS: usize = 64;
/// The most bytes of the headers of a request.
const HEADER_BYTES: usize = 32 << 10;
/// The most headers of a request.
const HEADERS: usize = 64;

/// Serves until a signal.
pub(crate) fn run(
    listener: TcpListener,
    dashboard: Dashboard,
    gate: Gate,
) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    listener.set_nonblocking(true)?;
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        accept(&listener, &dashboard, Rc::new(RefCell::new(gate))).await?;
        Ok(())
    })
}

/// The connections of each address.
type Open = Rc<RefCell<std::collections::HashMap<IpAddr, usize>>>;

async fn accept(
    listener: &tokio::net::TcpListener,
    dashboard: &Dashboard,
    gate: Rc<RefCell<Gate>>,
) -> Result<(), Box<dyn Error>> {
    let graceful = GracefulShutdown::new();
    let (many, open) = (Rc::new(Cell::new(0)), Open::default());
    let mut end = std::pin::pin!(signal()?);
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = &mut end => break,
        };
        let Ok((stream, from)) = accepted else {
            // The process has no free descriptor, for example. Then the next call fails at once too.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let from = network(from.ip());
        let of_address = open.borrow().get(&from).copied().unwrap_or(0);
        let is_over = of_address >= MOST_OF_ADDRESS && !from.is_loopback();
        if many.get() >= MOST_CONNECTIONS || is_over {
            continue;
        }
        let place = Place::take(&many, &open, from);
        let (dashboard, gate) = (dashboard.clone(), Rc::clone(&gate));
        let service = service_fn(move |request| {
            let (dashboard, gate) = (dashboard.clone(), Rc::clone(&gate));
            async move { Ok::<_, Infallible>(answer(dashboard, &gate, from, request).await) }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADERS_WITHIN)
            .max_buf_size(HEADER_BYTES)
            .max_headers(HEADERS)
            .serve_connection(TokioIo::new(stream), service);
        let connection = graceful.watch(connection);
        tokio::task::spawn_local(async move {
            // The errors of a connection and its limit end that connection alone.
            drop(tokio::time::timeout(CONNECTION_WITHIN, connection).await);
            drop(place);
        });
    }
    drop(tokio::time::timeout(END_WITHIN, graceful.shutdown()).await);
    Ok(())
}

/// The place of a connection among all. Its drop frees it.
struct Place {
    many: Rc<Cell<usize>>,
    open: Open,
    from: IpAddr,
}

impl Place {
    fn take(many: &Rc<Cell<usize>>, open: &Open, from: IpAddr) -> Place {
        many.set(many.get() + 1);
        *open.borrow_mut().entry(from).or_default() += 1;
        Place { many: Rc::clone(many), open: Rc::clone(open), from }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.many.set(self.many.get() - 1);
        let mut open = self.open.borrow_mut();
        if let Some(its) = open.get_mut(&self.from) {
            *its -= 1;
            if *its == 0 {
                open.remove(&self.from);
            }
        }
    }
}

/// Answers a request if the gate lets it in.
async fn answer(
    mut dashboard: Dashboard,
    gate: &RefCell<Gate>,
    from: IpAddr,
    request: Request<Incoming>,
) -> Response<Body> {
    let text =
        |name| request.headers().get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    if request.headers().get_all(HOST).iter().count() > 1 {
        return refusal(StatusCode::BAD_REQUEST, "the request names several hosts");
    }
    let now = tokio::time::Instant::now().into_std();
    let entry = gate.borrow_mut().entry(from, text(HOST), text(AUTHORIZATION), now);
    match entry {
        Entry::Open => match tokio::time::timeout(REQUEST_WITHIN, dashboard.call(request)).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(never)) => match never {},
            Err(_) => refusal(StatusCode::REQUEST_TIMEOUT, "the request took too long"),
        },
        Entry::WrongHost => refusal(
            StatusCode::MISDIRECTED_REQUEST,
            "without a password, this server answers only to localhost and 127.0.0.1",
        ),
        Entry::NoPassword => {
            let mut answer = refusal(StatusCode::UNAUTHORIZED, "the password is needed");
            let basic =
                HeaderValue::from_static("Basic realm=\"tickwheel-jobs\", charset=\"UTF-8\"");
            answer.headers_mut().insert(WWW_AUTHENTICATE, basic);
            answer
        }
        Entry::TooManyWrong(wait) => {
            let mut answer = refusal(StatusCode::TOO_MANY_REQUESTS, "too many wrong passwords");
            answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(wait.as_secs() + 1));
            answer
        }
    }
}

/// Returns a future that ends with a signal to end the process.
#[cfg(unix)]
fn signal() -> Result<impl Future<Output = ()>, Box<dyn Error>> {
    use tokio::signal::unix::{SignalKind, signal};
    let (mut term, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = term.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Returns a future that ends with a signal to end the process.
#[cfg(not(unix))]
fn signal() -> Result<impl Future<Output = ()>, Box<dyn Error>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
