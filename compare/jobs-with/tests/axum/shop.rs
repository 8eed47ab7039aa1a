use std::fmt::Display;
use std::time::Duration;

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Async, Builder, Cancel, Client, Fail, Job, JobId, JobInfo, Jobs, NewJob, Run};
use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

#[derive(Serialize, Deserialize)]
struct CloseOrder {
    order: u64,
    mail: String,
}

impl Job for CloseOrder {
    const KIND: &'static str = "close-order";
}

impl CloseOrder {
    /// The same order has the same id, in every process.
    fn id(order: u64) -> JobId {
        JobId::named(&format!("close-order {order}"))
    }
}

struct Mailer {
    from: String,
}

impl Mailer {
    /// A mail service that is asked twice with one key sends once.
    async fn send(&self, key: JobId, to: &str, text: &str) -> std::io::Result<()> {
        println!("{key}: from {} to {to}: {text}", self.from);
        Ok(())
    }
}

async fn close(close: CloseOrder, run: Run) -> Result<(), Fail> {
    let mailer: &Mailer = run.state()?;
    let text = format!("order {} is closed", close.order);
    Ok(mailer.send(run.id(), &close.mail, &text).await?) // an error: tried again, later and later
}

/// An error is a status, too.
type Answer<T> = Result<T, StatusCode>;

async fn place(State(jobs): State<Async<Client>>, Json(close): Json<CloseOrder>) -> Answer<StatusCode> {
    let (id, hour) = (CloseOrder::id(close.order), Duration::from_secs(3600));
    let inserted = jobs.insert_job(NewJob::new(close).at(72 * hour).id(id)).await.map_err(unavailable)?;
    Ok(if inserted.is_new { StatusCode::CREATED } else { StatusCode::OK })
}

async fn show(State(jobs): State<Async<Client>>, Path(order): Path<u64>) -> Answer<Json<JobInfo>> {
    let job = jobs.get(CloseOrder::id(order)).await.map_err(unavailable)?;
    job.map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn pay(State(jobs): State<Async<Client>>, Path(order): Path<u64>) -> Answer<StatusCode> {
    match jobs.cancel(CloseOrder::id(order)).await.map_err(unavailable)? {
        Cancel::Cancelled => Ok(StatusCode::NO_CONTENT), // it will never be closed
        Cancel::Running => Err(StatusCode::CONFLICT),    // it is being closed
        Cancel::Gone => Err(StatusCode::NOT_FOUND),      // closed, paid, or unknown
    }
}

/// The store could not do it, or its answer was lost: the customer may repeat the request.
fn unavailable(error: impl Display) -> StatusCode {
    eprintln!("{error}");
    StatusCode::SERVICE_UNAVAILABLE
}

fn handlers(jobs: Builder) -> Builder {
    jobs.state(Mailer { from: "shop@example.org".to_owned() }).handle_async(close)
}

fn routes(jobs: Client) -> Router {
    Router::new()
        .route("/orders", post(place))
        .route("/orders/{order}", get(show))
        .route("/orders/{order}/paid", post(pay))
        .with_state(jobs.asynchronous())
}

/// Returns when the program is asked to end: by SIGTERM of a supervisor, or by ctrl-c.
async fn asked_to_end() -> std::io::Result<()> {
    let mut sigterm = signal(SignalKind::terminate())?;
    tokio::select! {
        pressed = ctrl_c() => pressed,
        _ = sigterm.recv() => Ok(()),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let setting = |name, default: &str| std::env::var(name).unwrap_or_else(|_| default.to_owned());
    let jobs = handlers(Jobs::connect(setting("SHOP_STORE", "shop.db"))?).start()?; // what came due meanwhile runs now
    let listener = TcpListener::bind(setting("SHOP_LISTEN", "127.0.0.1:3000")).await?;
    let server = axum::serve(listener, routes(jobs.client()))
        .with_graceful_shutdown(async { _ = asked_to_end().await });
    let ten_seconds_later = async {
        asked_to_end().await?;
        Ok(tokio::time::sleep(Duration::from_secs(10)).await)
    };
    tokio::select! {
        ended = server.into_future() => ended, // the requests that were under way are answered
        ended = ten_seconds_later => ended,    // those that are still open get no answer
    }?;
    Ok(jobs.shutdown_async().await?) // asks the runs to stop, and waits for them
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use axum::http::Request;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn an_order_closes_unless_it_is_paid() {
        let (jobs, driver) = handlers(Jobs::memory()).manual().unwrap();
        let ask = async |method: &str, path: &str, body: &'static str| {
            let request = Request::builder().method(method).uri(path);
            let request = request.header("content-type", "application/json");
            let answer = routes(jobs.client()).oneshot(request.body(Body::from(body)).unwrap());
            answer.await.unwrap().status().as_u16()
        };
        let [ann, ben] = [
            r#"{"order": 1001, "mail": "ann@example.org"}"#,
            r#"{"order": 1002, "mail": "ben@example.org"}"#,
        ];
        assert_eq!(ask("POST", "/orders", ann).await, 201);
        assert_eq!(ask("POST", "/orders", ann).await, 200); // no second job
        assert_eq!(ask("POST", "/orders", ben).await, 201);
        assert_eq!(ask("POST", "/orders/1001/paid", "").await, 204);
        assert_eq!(ask("GET", "/orders/1001", "").await, 404);
        assert_eq!(ask("GET", "/orders/1002", "").await, 200);
        assert_eq!(driver.advance_async(Duration::from_secs(72 * 3600)).await, 1); // Ben's
        assert_eq!(ask("POST", "/orders/1002/paid", "").await, 404); // too late
    }
}
