//! Requests that another site makes a browser send.

use std::time::Duration;

use http::Method;

use crate::ask::{full, mail, manual, request, send};
use crate::parameters::World;

const JSON: (&str, &str) = ("content-type", "application/json");
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const PLAIN: (&str, &str) = ("content-type", "text/plain");
const HOST: (&str, &str) = ("host", "shop.example:8080");

/// P95: An action is refused unless the browser says that it comes from here, or no browser sends it.
#[test]
fn forged_requests_are_refused() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let site = |site| ("sec-fetch-site", site);
    let origin = |origin| ("origin", origin);
    let authorization = ("authorization", "Basic x");
    let cases: &[(bool, &[(&str, &str)])] = &[
        // The header of the browser counts before everything else.
        (true, &[HOST, FORM, site("same-origin")]),
        (true, &[HOST, FORM, site("none")]),
        (false, &[HOST, FORM, site("same-site")]),
        (false, &[HOST, JSON, site("cross-site")]),
        (
            false,
            &[HOST, JSON, site("cross-site"), origin("http://shop.example:8080"), authorization],
        ),
        (false, &[HOST, JSON, site("")]),
        (false, &[HOST, JSON, site("same-origin"), site("cross-site")]),
        // Then the origin, against the host.
        (true, &[HOST, FORM, origin("http://shop.example:8080")]),
        (true, &[HOST, FORM, origin("https://SHOP.example:8080")]),
        (false, &[HOST, JSON, origin("http://shop.example")]),
        (false, &[HOST, JSON, origin("http://evil.example:8080")]),
        (false, &[HOST, JSON, origin("null"), authorization]),
        (false, &[HOST, JSON, origin("")]),
        (false, &[HOST, JSON, origin("http://shop.example:8080.evil.example")]),
        (false, &[JSON, origin("http://shop.example:8080")]),
        (false, &[HOST, JSON, origin("http://shop.example:8080"), origin("http://evil.example")]),
        // Without both, no browser of today: a form may come from an old one.
        (true, &[HOST, JSON]),
        (true, &[HOST, ("content-type", "Application/JSON; charset=utf-8")]),
        (false, &[HOST, FORM]),
        // A browser sends the password of HTTP Basic by itself.
        (false, &[HOST, FORM, authorization]),
        (false, &[HOST, authorization]),
        (true, &[HOST, JSON, authorization]),
        (false, &[HOST, PLAIN]),
        (false, &[HOST, ("content-type", "text/plain; application/json")]),
        (false, &[HOST]),
        (false, &[]),
    ];
    for (is_allowed, headers) in cases {
        let id = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
        let path = format!("/api/v1/jobs/{id}/cancel");
        let answer = send(&dashboard, request(Method::POST, &path, headers, ""));
        let status = if *is_allowed { 200 } else { 403 };
        assert_eq!(answer.status, status, "{headers:?}: {}", answer.text());
        assert_eq!(jobs.get(id).unwrap().is_none(), *is_allowed, "{headers:?}");
        if !is_allowed {
            assert_eq!(answer.json()["error"], "cross_origin");
        }
    }
    // So is every other action.
    for (place, _) in World::new().actions() {
        for headers in [&[HOST, FORM, site("cross-site")][..], &[HOST, FORM]] {
            let request = request(Method::POST, &format!("/api/v1/{place}"), headers, "");
            let answer = send(&dashboard, request);
            assert!(answer.status == 403 && answer.json()["error"] == "cross_origin", "{place}");
        }
    }
}

/// Without a header of the host, that of the URI counts, as in HTTP/2.
#[test]
fn forged_requests_are_known_in_http_2() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    for (origin, status) in [("https://shop.example", 200), ("https://evil.example", 403)] {
        let id = jobs.insert(Duration::from_secs(60), mail("one")).unwrap();
        let path = format!("https://shop.example/api/v1/jobs/{id}/cancel");
        let answer =
            send(&dashboard, request(Method::POST, &path, &[FORM, ("origin", origin)], ""));
        assert_eq!(answer.status, status);
    }
}

/// P95: A request that names two hosts, or another one than its URI, is none, whatever it asks for.
#[test]
fn requests_with_two_hosts_are_refused() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let (other, origin) = (("host", "evil.example"), ("origin", "http://evil.example"));
    let cases: [(&str, &[(&str, &str)]); 4] = [
        ("/api/v1/queue/pause", &[HOST, other, JSON]),
        ("/api/v1/queue/pause", &[other, HOST, FORM, origin]),
        ("/api/v1/queue/pause", &[HOST, HOST, JSON]),
        ("https://shop.example:8080/api/v1/queue/pause", &[other, JSON]),
    ];
    for (path, headers) in cases {
        let answer = send(&dashboard, request(Method::POST, path, headers, ""));
        assert!(answer.status == 400 && answer.json()["error"] == "bad_host", "{headers:?}");
        let read = request(Method::GET, &path.replace("queue/pause", "overview"), headers, "");
        assert_eq!(send(&dashboard, read).status, 400, "{headers:?}");
    }
    assert!(!jobs.queue().is_paused().unwrap());
    let same = [("host", "SHOP.example:8080"), JSON];
    let path = "https://shop.example:8080/api/v1/queue/pause";
    assert_eq!(send(&dashboard, request(Method::POST, path, &same, "")).status, 200);
}

/// A body has a limit, whether its length is declared or not, and must match its content type.
#[test]
fn bodies_have_bounds() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let post =
        |body: &str| send(&dashboard, request(Method::POST, "/api/v1/bulk", &[HOST, JSON], body));
    assert_eq!(post(&format!("{{\"text\": \"{}\"}}", "x".repeat(70_000))).status, 413);
    for body in
        ["{", "[]", "7", "{\"id\": [[1]]}", "{\"id\": \"7\"}", "{\"action\": \"else\"}", "\u{0}"]
    {
        assert_eq!(post(body).status, 400, "{body}");
    }
    let deep = format!("{{\"a\": {}}}", "[".repeat(30_000));
    assert_eq!(post(&deep).status, 400);
}
