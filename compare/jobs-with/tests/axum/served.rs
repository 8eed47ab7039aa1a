//! The shop on a port, until it is stopped; and on its page.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::spawn_blocking;

use super::shared::{Folder, LONG};
use super::*;

/// A job whose run goes on until it is asked to stop.
#[derive(Serialize, Deserialize)]
struct UntilTold;

impl Job for UntilTold {
    const KIND: &'static str = "until-told";
}

/// Returns the whole answer to a request.
fn ask(server: SocketAddr, request: &str, body: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(server)?;
    stream.set_read_timeout(Some(LONG))?;
    write!(
        stream,
        "{request} HTTP/1.1\r\nhost: shop\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}

/// Promise: a shop that is stopped answers what was asked, lets a run that is under way end, and keeps what is
/// pending.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shop_is_stopped_while_a_run_is_under_way() {
    let folder = Folder::new("axum");
    let (begins, begun) = std::sync::mpsc::channel();
    let builder = handlers(Jobs::open(folder.shop()).unwrap());
    let builder = builder.handle_async(move |_: UntilTold, run| {
        let begins = begins.clone();
        async move {
            begins.send(())?;
            run.cancelled().await;
            Ok(())
        }
    });
    let jobs = builder.start().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = axum::serve(listener, routes(jobs.client()))
        .with_graceful_shutdown(async { _ = stopped.await });
    let server = tokio::spawn(server.into_future());

    jobs.asynchronous().insert(Duration::ZERO, UntilTold).await.unwrap();
    let answers = spawn_blocking(move || {
        begun.recv_timeout(LONG).unwrap();
        let order = r#"{"order": 1001, "mail": "ann@example.org"}"#;
        ["POST /orders", "POST /orders", "GET /orders/1001", "GET /orders/1002", "GET /orders/ann"]
            .map(|request| ask(address, request, order).unwrap())
    });
    let answers = answers.await.unwrap();
    for (answer, status) in answers.iter().zip(["201", "200", "200", "404", "400"]) {
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{answer}");
    }
    assert!(answers[2].contains(r#""state":"pending""#), "{}", answers[2]);

    stop.send(()).unwrap();
    server.await.unwrap().unwrap();
    assert!(ask(address, "GET /orders/1001", "").is_err());
    assert_eq!(jobs.stats().completed, 0);
    jobs.shutdown_async().await.unwrap();

    let client = Jobs::open(folder.shop()).unwrap().client().unwrap();
    let counts = client.count().unwrap();
    assert_eq!((counts.pending, counts.running, counts.dead), (1, 0, 0));
    assert!(client.get(CloseOrder::id(1001)).unwrap().is_some());
    client.check().unwrap();
}

/// Promise: the shop is the program that the page shows, with its test.
#[test]
fn shop_is_what_the_page_shows() {
    let page = include_str!("../../../../jobs/docs/axum.md");
    let snippets = page.split("\n```rust").skip(1);
    let snippets = snippets.map(|rest| {
        let (_, text) = rest.split_once('\n').unwrap();
        text.split_once("\n```").unwrap().0
    });
    let shown = snippets.collect::<Vec<_>>().join("\n\n") + "\n";
    assert_eq!(shown, include_str!("shop.rs"));
}

/// The port of the child that is the shop.
#[cfg(unix)]
const LISTEN: &str = "SHOP_LISTEN";

/// Promise: the shop ends well after SIGTERM.
#[test]
#[cfg(unix)]
fn shop_ends_after_sigterm() {
    let folder = Folder::new("axum_sigterm");
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap();
    drop(free);
    let mut shop = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "served::shop_of_the_page", "--ignored"])
        .env("SHOP_STORE", folder.shop())
        .env(LISTEN, address.to_string())
        .spawn()
        .unwrap();
    let asked = std::time::Instant::now();
    while ask(address, "GET /orders/1001", "").is_err() {
        assert!(asked.elapsed() < LONG, "the shop does not answer");
        std::thread::sleep(Duration::from_millis(10));
    }
    let kill = std::process::Command::new("kill").args(["-TERM", &shop.id().to_string()]).status();
    assert!(kill.unwrap().success());
    assert!(shop.wait().unwrap().success());
}

/// A child of `shop_ends_after_sigterm`.
#[test]
#[ignore = "a process of its own runs it"]
#[cfg(unix)]
fn shop_of_the_page() {
    if std::env::var_os(LISTEN).is_some() {
        main().unwrap();
    }
}
