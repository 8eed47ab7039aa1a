//! Who may do what: the default, refusals, and that a reader changes nothing.

use std::time::Duration;

use http::Method;
use proptest::prelude::*;
use serde_json::json;
use tickwheel_jobs_web::{Access, Dashboard};

use crate::ask::{get, mail, manual, post, request, run_due, send};

/// Without `access`, every request may read and none may change anything.
#[test]
fn access_is_read_only_by_default() {
    let (jobs, _driver) = manual();
    let id = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
    let dashboard = Dashboard::new(jobs.client());
    assert_eq!(get(&dashboard, "/").status, 200);
    assert_eq!(get(&dashboard, &format!("/api/v1/jobs/{id}")).ok()["actions"], json!([]));
    let answer = post(&dashboard, &format!("/api/v1/jobs/{id}/cancel"), &json!({}));
    assert_eq!((answer.status, &answer.json()["error"]), (403, &"read_only".into()));
    assert!(jobs.get(id).unwrap().is_some());
    assert!(!get(&dashboard, &format!("/jobs/{id}")).text().contains("<form method=\"post\""));
}

/// A request that is denied gets nothing from any place.
#[test]
fn access_that_is_denied_gets_nothing() {
    let (jobs, _driver) = manual();
    let id = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
    let dashboard = Dashboard::new(jobs.client()).access(|request| {
        if request.headers.contains_key("x-user") { Access::Full } else { Access::Deny }
    });
    for path in ["/", "/jobs", "/metrics", "/healthz", "/api/v1/overview", "/style-0.css", "/x"] {
        let answer = get(&dashboard, path);
        assert_eq!(answer.status, 403, "{path}");
        assert!(answer.text().contains("this dashboard is not for you"), "{path}");
    }
    assert_eq!(post(&dashboard, &format!("/api/v1/jobs/{id}/cancel"), &json!({})).status, 403);
    assert_eq!(send(&dashboard, request(Method::GET, "/", &[("x-user", "ann")], "")).status, 200);
}

/// A person who is refused, or who opens the place of an action, gets a page. It names no queue. A program gets JSON.
#[test]
fn person_who_is_refused_gets_a_page() {
    let (jobs, _driver) = manual();
    let dashboard = Dashboard::new(jobs.client()).title("shop").access(|request| {
        if request.headers.contains_key("x-user") { Access::Full } else { Access::Deny }
    });
    let browser = ("accept", "text/html,application/xhtml+xml");
    let user = ("x-user", "ann");
    for (path, headers, status) in [
        ("/", &[browser][..], 403),
        ("/jobs?queue=absent", &[browser, user], 404),
        ("/api/v1/queue/pause", &[browser, user], 405),
        ("/jobs?unknown=1", &[browser, user], 400),
        ("/nowhere/at/all/jobs/x", &[browser, user], 404),
    ] {
        let page = send(&dashboard, request(Method::GET, path, headers, ""));
        assert_eq!(page.status, status, "{path}");
        assert!(page.header("content-type").starts_with("text/html"), "{path}: {}", page.text());
        assert!(page.text().contains("<h1") && page.text().contains("shop"), "{path}");
        assert!(status != 403 || !page.text().contains("default"), "{path}: {}", page.text());
        let (_, headers) = headers.split_first().unwrap();
        // A place that is a page has a page for a program too.
        let other = send(&dashboard, request(Method::GET, path, headers, ""));
        let is_page = other.header("content-type").starts_with("text/html");
        let is_of_pages = !path.starts_with("/api") && !path.starts_with("/nowhere");
        assert_eq!((other.status, is_page), (status, is_of_pages), "{path}");
    }
    let json = send(&dashboard, request(Method::GET, "/api/v1/jobs?x=1", &[browser, user], ""));
    assert_eq!((json.status, &json.json()["error"]), (400, &"bad_parameter".into()));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    /// Read-only means that no request changes anything: any method, path, header and body.
    #[test]
    fn access_to_read_changes_nothing(
        method in prop::sample::select(vec!["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"]),
        place in prop::sample::select(vec![
            "jobs/ID/retry", "jobs/ID/again", "jobs/ID/delete", "jobs/ID/cancel", "jobs/ID/reschedule", "bulk", "bulk/1/stop",
            "kinds/pause", "kinds/resume", "kinds/keep", "kinds/head-start", "kinds/insert", "scopes/limit",
            "scopes/lift", "scopes/hold", "scopes/release", "scopes/pause", "scopes/resume", "queue/pause", "queue/resume", "groups/GROUP/seal", "groups/GROUP/cancel",
            "schedules/run", "schedules/pause",
            "schedules/resume", "schedules/unschedule", "jobs", "jobs/ID", "", "overview", "dead",
        ]),
        prefix in prop::sample::select(vec!["/", "/api/v1/", "/x/api/v1/", "/api/v1/api/v1/", "//api/v1/"]),
        is_dead in any::<bool>(),
        site in prop::sample::select(vec!["same-origin", "none", "cross-site", ""]),
        form in prop::sample::select(vec!["application/json", "application/x-www-form-urlencoded", "text/plain"]),
        is_json in any::<bool>(),
    ) {
        let (jobs, driver) = manual();
        let dead = jobs.insert(Duration::ZERO, mail("fail")).unwrap();
        run_due(&driver);
        let pending = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
        jobs.schedule("s", Duration::from_secs(60), mail("s")).unwrap();
        let group = jobs.group().add(Duration::from_secs(60), mail("member")).open().unwrap();
        jobs.queue().limit(tickwheel_jobs::Limit::running(9)).unwrap();
        jobs.queue().hold(Duration::from_secs(60)).unwrap();
        let look = || {
            let id = |id| format!("{:?}", jobs.get(id).unwrap());
            let paused = (jobs.queue().is_paused().unwrap(), jobs.kind_named("mail").is_paused().unwrap());
            let schedules = jobs.schedules().list().unwrap();
            let settings = (jobs.queue().limits().unwrap(), tickwheel_jobs::view::View::new(jobs.client()).kind("mail", 9));
            let settings = settings.1.map(|page| (settings.0, page.kind.keeps, page.kind.head_start_ms)).unwrap();
            (id(dead), id(pending), jobs.count().unwrap(), schedules, paused, group.info().unwrap(), settings)
        };
        let before = look();
        let dashboard = Dashboard::new(jobs.client());
        let id = if is_dead { dead } else { pending };
        let path = format!("{prefix}{}", place.replace("ID", &id.to_string()));
        let path = path.replace("GROUP", &group.id().to_string());
        // The fields that the place asks for.
        let fields: &[(&str, &str)] = match place.split('/').next().unwrap() {
            "bulk" => &[("action", "cancel"), ("state", "pending"), ("all", "yes"), ("confirm", "1")],
            "kinds" if place == "kinds/keep" => &[("kind", "mail"), ("last", "7")],
            "kinds" if place == "kinds/head-start" => &[("kind", "mail"), ("by", "1m")],
            "kinds" if place == "kinds/insert" => &[("kind", "mail"), ("payload", "{}")],
            "kinds" => &[("kind", "mail")],
            "scopes" if place == "scopes/limit" => &[("scope", "queue"), ("running", "1"), ("confirm", "yes")],
            "scopes" if place == "scopes/hold" => &[("scope", "queue"), ("for", "1m"), ("confirm", "yes")],
            "scopes" => &[("scope", "queue"), ("confirm", "yes")],
            "schedules" => &[("schedule", "s"), ("confirm", "yes")],
            "groups" => &[("confirm", "yes")],
            _ if place.ends_with("reschedule") => &[("when", "1d")],
            _ => &[],
        };
        let body = if is_json {
            let texts = fields.iter().map(|(name, value)| ((*name).to_owned(), json!(value)));
            serde_json::Value::Object(texts.collect()).to_string()
        } else {
            let pairs: Vec<String> = fields.iter().map(|(name, value)| format!("{name}={value}")).collect();
            pairs.join("&")
        };
        let mut headers = vec![("content-type", form), ("x-http-method-override", "POST"), ("authorization", "x")];
        if !site.is_empty() {
            headers.push(("sec-fetch-site", site));
        }
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let answer = send(&dashboard, request(method, &path, &headers, &body));
        prop_assert!(answer.status < 500, "{answer:?}");
        prop_assert_eq!(look(), before);
    }
}
