//! The service itself: its threads, the answers that it keeps, health, further queues.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use http::Method;
use tickwheel_jobs::Jobs;
use tickwheel_jobs_web::Dashboard;
use tower_service::Service;

use crate::ask::{begin, full, get, is_pending, mail, manual, post, request, texts};

/// A dashboard is what `nest_service` of axum asks for.
#[test]
fn dashboard_is_a_service() {
    fn is_service<S>()
    where
        S: Service<http::Request<String>, Error = std::convert::Infallible>,
        S: Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
    {
    }
    is_service::<Dashboard>();
}

/// An answer is kept for a second, however many tabs are open. An action ends that.
#[test]
#[expect(clippy::disallowed_methods, reason = "real time is the subject")]
fn dashboard_keeps_answers_for_a_second() {
    let (jobs, _driver) = manual();
    let asked = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&asked);
    let dashboard = full(jobs.client()).redact(move |_, _, _| {
        count.fetch_add(1, Ordering::Relaxed);
    });
    let id = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
    let path = format!("/api/v1/jobs/{id}");
    let begun = Instant::now();
    let first = get(&dashboard, &path).ok();
    let once = asked.load(Ordering::Relaxed);
    for _ in 0..50 {
        assert_eq!(get(&dashboard.clone(), &path).ok(), first);
    }
    // On a slow machine, further seconds have begun.
    let most = once * (1 + begun.elapsed().as_secs() as usize);
    assert!(asked.load(Ordering::Relaxed) <= most, "{once} calls for an answer, {asked:?} in all");
    post(&dashboard, &format!("{path}/reschedule"), &serde_json::json!({"when": "5h"}));
    assert_ne!(get(&dashboard, &path).ok()["due"], first["due"]);
    assert!(jobs.cancel(id).unwrap().is_cancelled());
    while get(&dashboard, &path).status != 404 {
        assert!(begun.elapsed() < Duration::from_secs(60), "the answer is kept for good");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The threads end, and let go of the client, when the last clone is dropped.
#[test]
fn dashboard_ends_with_its_last_clone() {
    let (alive, gone) = std::sync::mpsc::channel::<()>();
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client()).redact(move |_, _, _| drop(alive.clone()));
    get(&dashboard, "/api/v1/overview").ok();
    let clone = dashboard.clone();
    drop(dashboard);
    get(&clone, "/api/v1/overview").ok();
    drop(clone);
    let ended = gone.recv_timeout(Duration::from_secs(60));
    assert_eq!(ended, Err(RecvTimeoutError::Disconnected), "a thread still has the dashboard");
}

/// A program that ends waits for the drop of its audit. A page that is read all the while does not delay that.
#[test]
fn audit_is_dropped_although_a_read_goes_on() {
    let (alive, gone) = std::sync::mpsc::channel::<()>();
    let (reads, begun) = std::sync::mpsc::channel();
    let (let_go, may_end) = std::sync::mpsc::channel::<()>();
    let (jobs, _driver) = manual();
    let id = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
    let may_end = std::sync::Mutex::new(may_end);
    let dashboard =
        full(jobs.client()).audit(move |_| drop(alive.clone())).redact(move |_, _, _| {
            let _ = reads.send(());
            let _ = may_end.lock().unwrap().recv();
        });
    let page = request(Method::GET, &format!("/api/v1/jobs/{id}"), &[], "");
    let answer = begin(&dashboard, page);
    begun.recv_timeout(Duration::from_secs(60)).unwrap();
    drop((answer, dashboard));
    let ended = gone.recv_timeout(Duration::from_secs(60));
    assert_eq!(ended, Err(RecvTimeoutError::Disconnected), "the thread that reads has the audit");
    drop(let_go);
}

/// P89: A change that waits for the lock of another program holds up no page, and not the health check.
#[test]
fn change_that_waits_holds_up_no_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let long = Duration::from_secs(300);
    let client = Jobs::open(&path).unwrap().call_timeout(long).client().unwrap();
    client.insert(Duration::from_secs(60), mail("one")).unwrap();
    let dashboard = full(client.clone());
    let other = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    let form = crate::ask::request_to_post("/api/v1/queue/pause", &serde_json::json!({}));
    let mut pause = begin(&dashboard, form);
    for path in ["/", "/kinds", "/jobs", "/dead", "/store", "/api/v1/overview"] {
        let answer = get(&dashboard, path);
        assert_eq!(answer.status, 200, "{path}: {}", answer.text());
    }
    // On a loaded machine an answer may take longer than its limit. While one waits for the lock, each does.
    assert!((0..5).any(|_| get(&dashboard, "/healthz").status == 200));
    assert!(is_pending(&mut pause));
    other.execute_batch("ROLLBACK").unwrap();
    assert_eq!(crate::ask::block_on(pause).unwrap().status(), 200);
    assert!(client.queue().is_paused().unwrap());
}

/// A store that is shut down fails the health check and every question, with a reason.
#[test]
fn dashboard_says_whether_the_store_answers() {
    let (jobs, _driver) = manual();
    let dashboard = Dashboard::new(jobs.client());
    assert_eq!(get(&dashboard, "/healthz").status, 200);
    jobs.shutdown().unwrap();
    let answer = get(&dashboard, "/healthz");
    assert_eq!(answer.status, 503);
    assert!(answer.text().contains("shut down"), "{}", answer.text());
    let overview = get(&dashboard, "/api/v1/overview");
    assert_eq!((overview.status, &overview.json()["error"]), (503, &"closed".into()));
    assert_eq!(get(&dashboard, "/").status, 503);
}

/// Several queues have one dashboard, and a parameter says which is shown; links keep to it.
#[test]
fn dashboard_has_several_queues() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let open = |queue: &str| Jobs::open(&path).unwrap().queue(queue).client().unwrap();
    let (mails, charges) = (open("mails"), open("charges"));
    mails.insert(Duration::from_secs(60), mail("one")).unwrap();
    let again =
        Jobs::open(folder.path().join("other.db")).unwrap().queue("mails").client().unwrap();
    let dashboard = full(mails).queue(charges).queue(again);
    let overview = get(&dashboard, "/api/v1/overview?queue=charges").ok();
    assert_eq!(texts(&overview["queues"], "name"), ["mails", "charges", "mails-2"]);
    assert_eq!((&overview["pending"], &overview["queues"][0]["pending"]), (&0.into(), &1.into()));
    let page = get(&dashboard, "/?queue=charges");
    assert!(page.text().contains("jobs?state=overdue&amp;queue=charges"), "{}", page.text());
    assert!(page.text().contains("api/v1/overview?queue=charges"), "the page as JSON");
    let pause = "/api/v1/kinds/pause?queue=charges";
    let done = crate::ask::submit(&dashboard, pause, "kind=mail&back=kinds&confirm=yes");
    let to = done.header("location");
    assert!(to.starts_with("../../../kinds?said=") && to.ends_with("&queue=charges"), "{to}");
    // A bulk is shown with its own queue, on the pages of each.
    let cancel = serde_json::json!({
        "action": "cancel", "state": "pending", "all": true, "confirm": 0, "queue": "charges",
    });
    let started = post(&dashboard, "/api/v1/bulk", &cancel);
    assert_eq!((started.status, &started.json()["queue"]), (202, &"charges".into()));
    let page = get(&dashboard, "/bulk/1?queue=mails");
    assert!(page.text().contains("of the queue charges"), "{}", page.text());
    assert!(page.text().contains("href=\"../jobs?queue=charges\""), "{}", page.text());
}

/// A request that is dropped before its answer ends no thread, nor does one with a value whose drop panics, or one whose
/// waker panics.
#[test]
fn requests_that_do_harm_end_no_thread() {
    struct Loud;
    impl std::task::Wake for Loud {
        fn wake(self: Arc<Self>) {
            panic!("a waker that fails");
        }
    }
    #[derive(Clone)]
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(std::thread::current().name() != Some("tickwheel-web"), "a drop that fails");
        }
    }
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let of_page = || request(Method::GET, "/", &[], "");
    for _ in 0..50 {
        let mut answer = dashboard.clone().call(of_page());
        let _ = is_pending(&mut answer);
    }
    let waker = std::task::Waker::from(Arc::new(Loud));
    for _ in 0..3 {
        let mut with_bomb = of_page();
        with_bomb.extensions_mut().insert(Bomb);
        assert_eq!(crate::ask::send(&dashboard, with_bomb).status, 200);
        let mut answer = dashboard.clone().call(of_page());
        let _ = answer.as_mut().poll(&mut std::task::Context::from_waker(&waker));
    }
    assert_eq!(get(&dashboard, "/healthz").status, 200);
}
