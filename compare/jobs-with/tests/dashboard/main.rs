//! The dashboard in a router of axum, as the README of the dashboard mounts it.

#[path = "../../../../jobs-cli/tests/proxies/crawl.rs"]
mod crawl;
#[allow(dead_code, reason = "other tests use the rest")]
#[path = "../shared/mod.rs"]
mod shared;

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::Request;
use serde::{Deserialize, Serialize};
use tickwheel_jobs_web::Access;
use tickwheel_jobs::{Client, Fail, Job, Jobs, Retry};
use tower::ServiceExt;

use crawl::{Answer, crawl};
use shared::Folder;

include!("mount.rs");

#[derive(Serialize, Deserialize)]
struct Push(u32);

impl Job for Push {
    const KIND: &'static str = "push/a?b";
}

/// Fills a file, and returns a client of it.
fn filled(folder: &Folder) -> Client {
    let fails =
        |push: Push, _: &tickwheel_jobs::Run| Err(Fail::dead(format!("no route {}", push.0 % 2)));
    let jobs = Jobs::open(folder.shop()).unwrap().handle_with(Retry::never(), fails);
    let (jobs, driver) = jobs.manual().unwrap();
    jobs.insert_batch((0..8).map(|n| (Duration::ZERO, Push(n)))).unwrap();
    while driver.advance(Duration::from_millis(1)) > 0 {}
    let hour = Duration::from_secs(3600);
    jobs.insert_batch((0..3).map(|n| (hour, Push(n)))).unwrap();
    jobs.schedule("every hour/é?", hour, Push(9)).unwrap();
    jobs.shutdown().unwrap();
    Jobs::open(folder.shop()).unwrap().client().unwrap()
}

/// Asks a router, as a browser does that follows a link or sends a form of a page.
async fn ask(router: Router, path: &str, form: Option<&str>) -> Answer {
    let method = if form.is_some() { "POST" } else { "GET" };
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("host", "shop.example")
        .header("accept", "text/html")
        .header("sec-fetch-site", "same-origin")
        .header("content-type", "application/x-www-form-urlencoded")
        .body(Body::from(form.unwrap_or_default().to_owned()));
    let (head, body) = router.oneshot(request.unwrap()).await.unwrap().into_parts();
    let location = head.headers.get("location").map(|to| to.to_str().unwrap().to_owned());
    let body = to_bytes(body, usize::MAX).await.unwrap();
    Answer {
        status: head.status.as_u16(),
        location,
        body: String::from_utf8(body.to_vec()).unwrap(),
    }
}

/// P90: Promise: mounted as the page says, every link, form, asset and redirect of the dashboard leads to its place.
#[test]
fn dashboard_is_mounted_in_axum() {
    let folder = Folder::new("dashboard");
    let router = routes(Dashboard::new(filled(&folder)).access(|_| Access::Full));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let followed =
        crawl("/admin/jobs/", &mut |path, form| runtime.block_on(ask(router.clone(), path, form)));
    println!("{followed:?}");
    assert!(followed.pages > 30 && followed.assets == 2, "{followed:?}");
    assert!(followed.forms > 20 && followed.redirects > 5, "{followed:?}");
}

/// Promise: the mount is what the page shows.
#[test]
fn mount_is_what_the_page_shows() {
    let page = include_str!("../../../../jobs-web/README.md");
    let (_, rest) = page.split_once("With axum it is mounted so:\n\n```rust,ignore\n").unwrap();
    let (shown, _) = rest.split_once("```\n").unwrap();
    assert_eq!(shown, include_str!("mount.rs"));
}
