//! `serve`: the dashboard on an address of its own, from a server of HTTP/1.1 on one thread.
//!
//! Ground rules:
//!
//! - Without a password it listens on the loopback only, and answers only to the names of the loopback. So a page of
//!   another site gets nothing by letting the site's name lead to 127.0.0.1 (DNS rebinding).
//! - On any other address there is a password: from a file, from the environment, or one that is made and printed once.
//!   It is never on the command line, where other users can read it.
//! - Every client has limits: of time, of headers, of connections. A slow one costs a place, not the server.

mod auth;

use std::cell::RefCell;
use std::collections::HashMap;
use std::convert::Infallible;
use std::io::Write;
use std::net::{IpAddr, SocketAddr, TcpListener, ToSocketAddrs};
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc;
use std::time::Duration;

use auth::{Entry, Gate, network};
use http::header::{AUTHORIZATION, HOST, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use tickwheel_jobs::Durability;
use tickwheel_jobs_web::{Access as Right, Body, Dashboard, refusal};
use tower_service::Service;

use crate::args::Serve;
use crate::audit::Audit;
use crate::open::{self, Access, Target};
use crate::{Answer, Outcome, text};

const PASSWORD: &str = "TICKWHEEL_PASSWORD";

/// A longer password does not fit into the header of a request that is read.
const MOST_PASSWORD_BYTES: usize = 1024;

/// Serves the dashboard of one queue, or of all queues of the store, until a signal ends it.
pub(crate) fn serve(
    store: &Target,
    store_password_file: Option<&Path>,
    queue: Option<&str>,
    args: &Serve,
    audit: Option<Audit>,
    out: &mut impl Write,
) -> Answer {
    let access = match args.read_only {
        true => Access::Look,
        false => Access::Change(Durability::Synced),
    };
    let names = match queue {
        Some(queue) => vec![Some(queue.to_owned())],
        None => {
            let queues = open::queues(store, store_password_file)?;
            queues.into_iter().map(|(name, _)| name).collect()
        }
    };
    // The dashboard calls the queue without a name by this name, unless another queue has the name.
    const DEFAULT: &str = "default";
    let has_default = names.contains(&None) && !names.contains(&Some(DEFAULT.to_owned()));
    let mut dashboard: Option<Dashboard> = None;
    let mut title = String::new();
    for name in names {
        let (client, place) = open::client(store, store_password_file, name.as_deref(), access)?;
        title = place.name;
        dashboard = Some(match dashboard {
            None => Dashboard::new(client),
            Some(dashboard) => dashboard.queue(client),
        });
    }
    let Some(dashboard) = dashboard else { return Err("the store has no queue".into()) };
    let right = if args.read_only { Right::ReadOnly } else { Right::Full };
    let mut dashboard = dashboard.title(title.clone()).access(move |_| right);
    let (audits, audits_end) = mpsc::channel::<Infallible>();
    if let Some(audit) = audit {
        dashboard = dashboard.audit(move |action| {
            // It is dropped with the last thread that may audit.
            let _audits = &audits;
            let command = format!("serve: {} {}", action.name, action.scope);
            let queue = Some(&*action.queue).filter(|name| !has_default || *name != DEFAULT);
            let (of, problem) = ((&*title, queue), action.problem.as_deref());
            if let Err(error) = audit.write(of, &command, &action.text, problem) {
                eprintln!("tickwheel-jobs: {}", text::plain(&error.to_string()));
            }
        });
    } else {
        drop(audits);
    }
    let addresses: Vec<SocketAddr> = match args.listen.to_socket_addrs() {
        Ok(addresses) => addresses.collect(),
        Err(error) => return Err(format!("--listen {:?}: {error}", args.listen).into()),
    };
    let listener = TcpListener::bind(&*addresses)
        .map_err(|error| format!("--listen {:?}: {error}", args.listen))?;
    let address = listener.local_addr()?;
    let is_local = address.ip().is_loopback();
    let given = password(args.password_file.as_deref())?;
    let gate = match given {
        Some(password) => Gate::with_password(password),
        None if is_local => Gate::of_loopback(),
        None => {
            let password = auth::made_up()?;
            eprintln!("tickwheel-jobs: the password, which is printed only now: {password}");
            eprintln!("tickwheel-jobs: the user may have any name");
            Gate::with_password(password)
        }
    };
    if !is_local {
        eprintln!(
            "tickwheel-jobs: warning: this is HTTP Basic without TLS: every machine on the way reads the password \
             and the jobs; put a proxy with TLS in front"
        );
    }
    writeln!(out, "http://{address}/")?;
    out.flush()?;
    run(listener, dashboard, gate)?;
    // The changes that are under way end with their lines in the audit file.
    match audits_end.recv_timeout(END_WITHIN) {
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Err("a change is still under way, so the audit file has no line of it".into())
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Ok(Outcome::Done),
        Ok(never) => match never {},
    }
}

fn password(file: Option<&Path>) -> Answer<Option<String>> {
    let (password, of) = match file {
        Some(file) => {
            let content = std::fs::read_to_string(file)
                .map_err(|error| format!("--password-file {}: {error}", file.display()))?;
            (content, format!("--password-file {}", text::plain(&file.display().to_string())))
        }
        None => match std::env::var(PASSWORD) {
            Ok(password) => (password, PASSWORD.to_owned()),
            Err(std::env::VarError::NotPresent) => return Ok(None),
            Err(error) => return Err(format!("{PASSWORD}: {error}").into()),
        },
    };
    let password = password.trim_end_matches(['\r', '\n']);
    if password.is_empty() || password.contains(['\r', '\n']) {
        return Err(format!("{of}: a password is one line, and not empty").into());
    }
    if password.len() > MOST_PASSWORD_BYTES {
        return Err(format!("{of}: a password has at most {MOST_PASSWORD_BYTES} bytes").into());
    }
    Ok(Some(password.to_owned()))
}

/// The limit of the headers of a request, and of a pause between two requests. Then the connection is closed.
const HEADERS_WITHIN: Duration = Duration::from_secs(10);
const REQUEST_WITHIN: Duration = Duration::from_secs(30);
const CONNECTION_WITHIN: Duration = Duration::from_secs(300);
const END_WITHIN: Duration = Duration::from_secs(5);
const MOST_CONNECTIONS: usize = 512;
/// The most connections of one address (of IPv6: of one network of 64 bits), unless that is the loopback, behind which
/// a proxy may be.
const MOST_OF_ADDRESS: usize = 64;
const HEADER_BYTES: usize = 32 << 10;
const HEADERS: usize = 64;

pub(crate) fn run(listener: TcpListener, dashboard: Dashboard, gate: Gate) -> Answer<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = tokio::task::LocalSet::new();
    listener.set_nonblocking(true)?;
    local.block_on(&runtime, async move {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        accept(&listener, &dashboard, Rc::new(RefCell::new(gate))).await?;
        Ok(())
    })
}

async fn accept(
    listener: &tokio::net::TcpListener,
    dashboard: &Dashboard,
    gate: Rc<RefCell<Gate>>,
) -> Answer<()> {
    let graceful = GracefulShutdown::new();
    // Each connection has a copy of the place of its address.
    let mut places: HashMap<IpAddr, Rc<()>> = HashMap::new();
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
        places.retain(|_, place| Rc::strong_count(place) > 1);
        let connections = |place: &Rc<()>| Rc::strong_count(place) - 1;
        let is_over = places.get(&from).map_or(0, connections) >= MOST_OF_ADDRESS;
        let many: usize = places.values().map(connections).sum();
        if many >= MOST_CONNECTIONS || is_over && !from.is_loopback() {
            continue;
        }
        let place = Rc::clone(places.entry(from).or_default());
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

#[cfg(unix)]
fn signal() -> Answer<impl Future<Output = ()>> {
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

#[cfg(not(unix))]
fn signal() -> Answer<impl Future<Output = ()>> {
    Ok(async { drop(tokio::signal::ctrl_c().await) })
}
