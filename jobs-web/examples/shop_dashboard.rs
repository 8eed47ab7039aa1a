//! The shop of `orders` with its dashboard: jobs come, run, fail, die and are retried in the browser.
//!
//! ```sh
//! cargo run -p shop             # until Ctrl-C
//! cargo run -p shop -- --short  # asks its own pages
//! ```
//!
//! An order comes each second. Its charge runs soon after: most are paid, some fail and are retried, some die. A paid
//! order sends a receipt. An order that waits for its payment closes itself, and each few seconds a schedule makes a
//! report.
//!
//! What to know before this is copied:
//!
//! - **`access` is closed by default.** Here every request of this machine may change everything. A program that is
//!   reached from elsewhere decides by its own users: the README of this crate.
//! - **The dashboard has a client of its own.** Its questions then cost the dispatcher of the shop no time.

#![forbid(unsafe_code)]
#![allow(clippy::disallowed_methods, reason = "customers take their time")]

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Builder, Client, Fail, Job, Jobs, Keep, NewJob, Retry, Run};
use tickwheel_jobs_web::{Access, Dashboard};
use tower_service::Service;

type Result<T, E = Box<dyn Error + Send + Sync>> = std::result::Result<T, E>;

macro_rules! job {
    ($name:ident, $kind:literal) => {
        #[derive(Serialize, Deserialize)]
        struct $name {
            order: u64,
        }

        impl Job for $name {
            const KIND: &'static str = $kind;
        }
    };
}

job!(Charge, "charge");
job!(Receipt, "receipt");
job!(CloseOrder, "close-order");
job!(Report, "report");

/// The jobs of the shop. `beat` is a second of the shop.
fn shop(builder: Builder, beat: Duration) -> Result<Jobs> {
    let charge = move |charge: Charge, run: &Run| -> Result<(), Fail> {
        for step in ["card checked", "money asked for"] {
            run.set_progress(&step)?;
            thread::sleep(beat / 2);
        }
        match charge.order % 10 {
            3 => Err(Fail::retry("card declined\nthe bank answers with code 51")),
            5 | 8 if run.attempt() == 1 => Err(Fail::retry("the bank does not answer")),
            _ => {
                run.client().insert(beat, Receipt { order: charge.order })?;
                run.client().keyed(&format!("close-{}", charge.order)).cancel()?;
                run.set_result(&format!("order {} is paid", charge.order))
            }
        }
    };
    let jobs = builder
        .threads(4)
        .handle_with(Retry::fixed(3 * beat).max_retries(2), charge)
        .handle(move |_: Receipt, _| {
            thread::sleep(beat / 10);
            Ok(())
        })
        .handle(|_: CloseOrder, _| Ok(()))
        .handle(move |_: Report, _| {
            thread::sleep(2 * beat);
            Ok(())
        })
        .start()?;
    jobs.kind::<Charge>().keep_completed(Keep::last(100))?;
    jobs.schedule("report of the shop", 15 * beat, Report { order: 0 })?;
    Ok(jobs)
}

/// Places an order.
fn place(shop: &Client, order: u64, beat: Duration) -> Result<()> {
    let charge = NewJob::new(Charge { order }).at(2 * beat).key(format!("order-{order}"));
    shop.insert_job(charge.header("customer", format!("customer-{}", order % 7)))?;
    shop.keyed(&format!("close-{order}")).insert(60 * beat, CloseOrder { order })?;
    Ok(())
}

/// Serves the dashboard to this machine, until the task is dropped.
async fn serve(listener: TcpListener, dashboard: Dashboard) -> Result<()> {
    listener.set_nonblocking(true)?;
    let listener = tokio::net::TcpListener::from_std(listener)?;
    loop {
        let (stream, _) = listener.accept().await?;
        let dashboard = dashboard.clone();
        let service = service_fn(move |request| dashboard.clone().call(request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service));
    }
}

/// Allows everything to the pages of this address. A page with another name that leads here is refused.
fn access(request: &http::request::Parts, port: u16) -> Access {
    let host = request.headers.get("host").and_then(|host| host.to_str().ok());
    let is_here = |host| host == format!("127.0.0.1:{port}") || host == format!("localhost:{port}");
    if host.is_some_and(is_here) { Access::Full } else { Access::Deny }
}

/// Asks the server for a page, and returns it.
fn ask(address: SocketAddr, path: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    write!(stream, "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200 ") { Ok(answer) } else { Err(answer.into()) }
}

/// Waits for a charge that has died, and asks for the pages.
fn look(address: SocketAddr, shop: &Client) -> Result<()> {
    let begun = Instant::now();
    while shop.count()?.dead == 0 {
        if begun.elapsed() > Duration::from_secs(30) {
            return Err("no charge has died".into());
        }
        thread::sleep(Duration::from_millis(10));
    }
    for path in ["/", "/kinds", "/jobs?state=pending", "/schedules", "/nodes", "/store"] {
        ask(address, path)?;
    }
    if !ask(address, "/dead")?.contains("card declined") {
        return Err("the page of dead jobs has no declined card".into());
    }
    println!("the pages are there, and show a declined card");
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let is_short = match std::env::args().nth(1).as_deref() {
        None => false,
        Some("--short") => true,
        Some(_) => return Err("usage: shop_dashboard [--short]".into()),
    };
    let beat = Duration::from_millis(if is_short { 10 } else { 1000 });
    let port = if is_short { 0 } else { 7171 };
    // Another program may have the port.
    let listener =
        TcpListener::bind(("127.0.0.1", port)).or_else(|_| TcpListener::bind("127.0.0.1:0"))?;
    let address = listener.local_addr()?;
    let jobs = shop(Jobs::temporary()?, beat)?;
    let file = jobs.file().expect("the jobs are on a file").to_owned();
    let dashboard = Dashboard::new(Jobs::open(&file)?.client()?)
        .title("the shop")
        .access(move |request| access(request, address.port()));
    tokio::spawn(serve(listener, dashboard));
    println!("the shop is open, and its dashboard is at http://{address}");

    let client = jobs.client();
    thread::spawn(move || {
        // It ends when the shop is closed.
        for order in 1001.. {
            if place(&client, order, beat).is_err() {
                return;
            }
            if let Ok(now) = client.count()
                && order % 5 == 0
                && !is_short
            {
                let (pending, running, dead) = (now.pending, now.running, now.dead);
                println!("order {order}: {pending} jobs wait, {running} run, {dead} are dead");
            }
            thread::sleep(beat);
        }
    });
    let looked = if is_short {
        let client = jobs.client();
        tokio::task::spawn_blocking(move || look(address, &client)).await?
    } else {
        println!("Ctrl-C closes it");
        Ok(tokio::signal::ctrl_c().await?)
    };
    jobs.shutdown_timeout(Duration::from_secs(5))?;
    looked
}
