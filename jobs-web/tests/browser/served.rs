//! A dashboard behind a small web server of the test's: a thread and one request for each connection.

use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
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
                    std::thread::spawn(move || answer(stream, &dashboard));
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

/// Answers one request. A browser that goes away is no error.
fn answer(stream: TcpStream, dashboard: &Dashboard) {
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap();
    runtime.block_on(async {
        let stream = TokioIo::new(tokio::net::TcpStream::from_std(stream).unwrap());
        let service = service_fn(|request| dashboard.clone().call(request));
        drop(http1::Builder::new().keep_alive(false).serve_connection(stream, service).await);
    });
}
