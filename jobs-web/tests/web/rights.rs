//! Who may do what: the default, refusals, and that a reader changes nothing.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tickwheel_jobs_web::{Access, Dashboard};

use crate::ask::{encoded, everything, get, mail, manual, post, request, send};
use crate::parameters::World;

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

/// Read-only means that no request changes anything: no action with a body that it takes, by any method, below any
/// prefix, with any headers.
#[test]
fn access_to_read_changes_nothing() {
    let world = World::new();
    let dashboard = Dashboard::new(world.jobs.client());
    let before = everything(&world.jobs);
    let methods = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "BREW"];
    for (place, body) in world.actions() {
        let pair = |(name, value): (&String, &serde_json::Value)| {
            format!("{name}={}", encoded(value.as_str().unwrap_or(&value.to_string())))
        };
        let form = body.as_object().unwrap().iter().map(pair).collect::<Vec<_>>().join("&");
        for (sort, body) in [("json", body.to_string()), ("x-www-form-urlencoded", form)] {
            let content_type = format!("application/{sort}");
            let ways = methods.iter().flat_map(|method| {
                ["/", "/api/v1/", "/x/api/v1/", "//api/v1/"].map(|prefix| (method, prefix))
            });
            for (method, prefix) in ways {
                for site in ["same-origin", "none", "cross-site"] {
                    let headers = [
                        ("content-type", &*content_type),
                        ("sec-fetch-site", site),
                        ("x-http-method-override", "POST"),
                        ("authorization", "x"),
                    ];
                    let method = Method::from_bytes(method.as_bytes()).unwrap();
                    let path = format!("{prefix}{place}");
                    let answer = send(&dashboard, request(method, &path, &headers, &body));
                    assert!(answer.status < 500, "{path}: {answer:?}");
                }
            }
        }
        assert_eq!(everything(&world.jobs), before, "{place}");
    }
}
