//! Every path answers, on every store; links, redirects and headers.

use std::time::Duration;

use http::Method;
use serde_json::json;
use tickwheel_jobs::{Client, Jobs, NewJob};
use tickwheel_jobs_web::Dashboard;

use crate::ask::{
    Charge, encoded, full, get, mail, manual, on_stores, post, request, run_due, send,
};
use crate::names::names;

/// The pages of the menu, and lists that others lead to.
pub(crate) const PAGES: [&str; 10] = [
    "/",
    "/kinds",
    "/jobs",
    "/jobs?state=dead",
    "/dead",
    "/groups",
    "/schedules",
    "/nodes",
    "/store",
    "/bulk",
];
pub(crate) const JSON: [&str; 10] = [
    "overview",
    "kinds",
    "jobs",
    "dead",
    "groups",
    "schedules",
    "nodes",
    "store",
    "history",
    "bulks",
];

/// Asks for everything, under a prefix that the server has not stripped.
fn ask_for_everything(dashboard: &Dashboard, client: &Client, prefix: &str) {
    let id = client.pending().next().unwrap().id;
    let dead = client.dead().next();
    let mut pages: Vec<String> = PAGES.iter().map(|page| (*page).to_owned()).collect();
    pages.push(format!("/jobs/{id}"));
    pages.push("/kind?kind=mail".to_owned());
    pages.extend(dead.map(|job| format!("/jobs/{}", job.id)));
    for state in ["pending", "overdue", "running", "retrying", "dead", "completed"] {
        pages.push(format!("/jobs?state={state}&kind=mail&text=a"));
        let list = get(dashboard, &format!("{prefix}/api/v1/jobs?state={state}")).ok();
        assert_eq!(list["filter"]["state"], state);
    }
    for page in pages {
        let answer = get(dashboard, &format!("{prefix}{page}"));
        let is_page = answer.header("content-type") == "text/html; charset=utf-8";
        assert!(answer.status == 200 && is_page, "{page}: {answer:?}");
        let html = answer.text();
        for absolute in ["href=\"/", "action=\"/", "src=\"/", "http://", "style=\"", "onclick"] {
            let found = html.find(absolute).map(|at| &html[at..html.len().min(at + 60)]);
            let found = found.filter(|found| !found.contains("www.w3.org"));
            assert_eq!(found, None, "{page}");
        }
        let asset = |mark: &str| {
            let at = html.find(mark).unwrap_or_else(|| panic!("{page} has no {mark}"));
            let begin = html[..at].rfind('"').unwrap() + 1;
            html[begin..].split('"').next().unwrap().to_owned()
        };
        for asset in [asset("style-"), asset("live-")] {
            let folder = page.split('?').next().unwrap().rsplit_once('/').unwrap().0;
            let at = match asset.strip_prefix("../") {
                Some(name) => format!("{prefix}{}/{name}", folder.rsplit_once('/').unwrap().0),
                None => format!("{prefix}{folder}/{}", asset.trim_start_matches("./")),
            };
            let answer = get(dashboard, &at);
            assert_eq!(answer.status, 200, "{at} of {page}");
            assert!(answer.header("cache-control").contains("immutable"), "{at}");
        }
    }
    for name in JSON {
        get(dashboard, &format!("{prefix}/api/v1/{name}")).ok();
    }
    let job = get(dashboard, &format!("{prefix}/api/v1/jobs/{id}")).ok();
    assert_eq!(job["id"], id.to_string());
    let payload = get(dashboard, &format!("{prefix}/jobs/{id}/payload"));
    assert_eq!(payload.header("content-type"), "text/plain; charset=utf-8");
    assert!(payload.header("content-disposition").starts_with("attachment"));
    assert_eq!(payload.body, client.get(id).unwrap().unwrap().payload);
    assert_eq!(get(dashboard, &format!("{prefix}/healthz")).status, 200);
}

fn fill(client: &Client) {
    let hour = Duration::from_secs(3600);
    client
        .insert_job(NewJob::new(mail("later")).at(hour).key("a/é?&").header("tenant", "acme"))
        .unwrap();
    client.insert(hour, Charge { card: "4111".to_owned() }).unwrap();
    client.schedule("every hour/é", hour, mail("scheduled")).unwrap();
}

/// P89: Every page and every JSON answers, for jobs in memory and on a server, under any prefix.
#[test]
fn paths_answer_under_any_prefix() {
    on_stores(|jobs, driver| {
        jobs.insert(Duration::ZERO, mail("fail\nwith lines")).unwrap();
        jobs.insert(Duration::ZERO, mail("done")).unwrap();
        run_due(driver);
        fill(jobs);
        let dashboard = full(jobs.client());
        for prefix in ["", "/admin", "/jobs", "/a/b/kinds", "/api/v1x"] {
            ask_for_everything(&dashboard, jobs, prefix);
        }
    });
}

/// P89: The same for jobs on a file, through a client of its own.
#[test]
fn paths_answer_on_a_file() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let client = Jobs::open(&path).unwrap().queue("shop").client().unwrap();
    fill(&client);
    let dashboard = full(client.clone());
    ask_for_everything(&dashboard, &client, "");
    let store = get(&dashboard, "/api/v1/store").ok();
    assert_eq!(store["sort"], "file");
    assert!(store["bytes"].as_u64().unwrap() > 0, "{store}");
    let overview = get(&dashboard, "/api/v1/overview").ok();
    assert_eq!(overview["queues"][0]["name"], "shop");
}

/// A path without its slash is redirected to the one with it, by a relative link. An unknown JSON and an unknown job
/// are not found.
#[test]
fn paths_that_lead_nowhere_are_redirected_or_not_found() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    for (path, to) in [("/admin", "./admin/"), ("/a/b?queue=x", "./b/?queue=x"), ("/a:b", "./a:b/")]
    {
        let answer = get(&dashboard, path);
        assert_eq!((answer.status, answer.header("location")), (307, to), "{path}");
    }
    for path in ["/api/v1/else", "/jobs/else", "/api/v1/jobs/else", "/style-0.css", "/metrics/x.js"]
    {
        assert_eq!(get(&dashboard, path).status, 404, "{path}");
    }
    let absent = get(&dashboard, "/api/v1/jobs/00000000000000000000000000000007");
    assert_eq!((absent.status, &absent.json()["error"]), (404, &"not_found".into()));
    assert_eq!(get(&dashboard, "/jobs/00000000000000000000000000000007").status, 404);
    assert_eq!(get(&dashboard, "/?queue=none").status, 404);
}

/// P91: A name is a parameter and no segment of a path. So an action reaches the thing that has the name, whatever the
/// name is, and nothing else.
#[test]
fn names_reach_their_own_thing() {
    on_stores(|jobs, _driver| {
        let dashboard = full(jobs.client());
        let names = names();
        for name in &names {
            jobs.schedule(name, Duration::from_secs(3600), mail("s")).unwrap();
        }
        let act = |path: &str, field: &str, name: &str| {
            let answer =
                post(&dashboard, &format!("/admin/api/v1/{path}"), &json!({ field: name }));
            assert_eq!(answer.status, 200, "{path} of {name:?}: {}", answer.text());
        };
        let paused = || -> Vec<&String> {
            assert!(!jobs.queue().is_paused().unwrap(), "the queue is paused");
            names.iter().filter(|name| jobs.kind_named(name).is_paused().unwrap()).collect()
        };
        let schedules = |is_paused| -> Vec<String> {
            let found = jobs.schedules().list().unwrap().into_iter();
            found.filter(|found| found.is_paused == is_paused).map(|found| found.name).collect()
        };
        for name in &names {
            act("kinds/pause", "kind", name);
            assert_eq!(paused(), [name]);
            let listed = get(&dashboard, &format!("/api/v1/jobs?key={}", encoded(name))).ok();
            assert_eq!(listed["filter"]["key"], *name);
            act("kinds/resume", "kind", name);
            assert_eq!(paused(), [""; 0]);
            scopes_of(&dashboard, jobs, name);
            act("schedules/pause", "schedule", name);
            assert_eq!(schedules(true), std::slice::from_ref(name));
            act("schedules/resume", "schedule", name);
            let pending = jobs.count().unwrap().pending;
            act("schedules/run", "schedule", name);
            assert_eq!(jobs.count().unwrap().pending, pending + 1);
            act("schedules/unschedule", "schedule", name);
            assert!(!schedules(false).contains(name), "{name:?}");
        }
        assert!(jobs.schedules().list().unwrap().is_empty());
        for verb in ["run", "pause", "resume", "unschedule"] {
            let path = format!("/api/v1/schedules/{verb}");
            assert_eq!(post(&dashboard, &path, &json!({"schedule": "gone"})).status, 404, "{verb}");
        }
    });
}

/// Limits each scope that has the name, and lifts the limit again.
fn scopes_of(dashboard: &Dashboard, client: &Client, name: &str) {
    use tickwheel_jobs::LimitScope;
    let (kind, partition) = (name.to_owned(), name.to_owned());
    for (body, scope) in [
        (json!({"scope": "flow", "flow": name}), LimitScope::Flow(kind.clone())),
        (json!({"scope": "kind", "kind": name}), LimitScope::Flow(kind.clone())),
        (json!({"scope": "each_partition", "kind": name}), LimitScope::Each(kind.clone())),
        (
            json!({"scope": "partition", "kind": name, "partition": name}),
            LimitScope::Partition { kind: kind.clone(), partition: partition.clone() },
        ),
    ] {
        let limited = || -> Vec<LimitScope> {
            client.queue().limits().unwrap().into_iter().map(|info| info.scope).collect()
        };
        let mut limit = body.clone();
        limit["running"] = json!(7);
        post(dashboard, "/admin/api/v1/scopes/limit", &limit).ok();
        assert_eq!(limited(), [scope]);
        post(dashboard, "/admin/api/v1/scopes/lift", &body).ok();
        assert_eq!(limited(), []);
    }
    let page = get(dashboard, &format!("/admin/api/v1/kind?kind={}", encoded(name))).ok();
    assert_eq!(page["kind"], *name);
}

/// P91: An action without the name that it needs is refused, and never taken for one of the queue. A path with more
/// segments than the action has is none.
#[test]
fn actions_without_a_name_are_refused() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let act = |path: &str| {
        let answer = post(&dashboard, &format!("/api/v1/{path}"), &json!({}));
        (answer.status, answer.text().to_owned())
    };
    for (name, verbs) in [
        ("kind", &["pause", "resume", "keep", "head-start", "insert"][..]),
        ("scope", &["limit", "lift", "hold", "release"]),
        ("schedule", &["run", "pause", "resume", "unschedule"]),
    ] {
        for verb in verbs {
            let (status, text) = act(&format!("{name}s/{verb}"));
            let is_told = text.contains(&format!("the parameter {name} is missing"));
            assert!(status == 400 && is_told, "{verb}: {text}");
        }
    }
    for scope in ["kind", "flow", "each_partition", "partition", "else"] {
        for verb in ["limit", "lift", "hold", "release"] {
            let body = json!({ "scope": scope });
            let answer = post(&dashboard, &format!("/api/v1/scopes/{verb}"), &body);
            assert_eq!(answer.status, 400, "{verb} of {scope}: {}", answer.text());
        }
    }
    assert!(jobs.queue().limits().unwrap().is_empty());
    let names = ["kinds/mail/pause", "kinds//pause", "kinds/%2E%2E/pause", "bulk/+1/stop"];
    let others = ["scopes/keep", "kinds/limit", "kinds/hold", "pause", "queue"];
    for path in names.into_iter().chain(others) {
        assert!([404, 405].contains(&act(path).0), "{path}");
    }
    assert!(!jobs.queue().is_paused().unwrap());
}

/// Every answer has the headers that keep other sites out. A HEAD has those of the GET, and no body.
#[test]
fn answers_have_their_headers() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    for path in ["/", "/kinds", "/api/v1/jobs", "/jobs/else", "/api/v1/else", "/x"] {
        let answer = get(&dashboard, path);
        let policy = answer.header("content-security-policy");
        for part in
            ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"]
        {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert_eq!(answer.header("cache-control"), "no-store");
        assert_eq!(answer.header("x-content-type-options"), "nosniff");
        assert!(answer.header("x-robots-tag").contains("noindex"));
        let head = send(&dashboard, request(Method::HEAD, path, &[], ""));
        assert_eq!((head.status, head.body.len()), (answer.status, 0));
        assert_eq!(head.header("content-type"), answer.header("content-type"));
    }
}

/// Another method is refused, with the methods that are allowed.
#[test]
fn methods_are_refused_where_they_have_no_meaning() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let other = Method::from_bytes(b"BREW").unwrap();
    for method in
        [Method::PUT, Method::DELETE, Method::PATCH, Method::OPTIONS, Method::TRACE, other]
    {
        let answer = send(&dashboard, request(method, "/jobs", &[], ""));
        assert_eq!((answer.status, answer.header("allow")), (405, "GET, HEAD"));
    }
    let answer = get(&dashboard, "/api/v1/bulk");
    assert_eq!((answer.status, answer.header("allow")), (405, "POST"));
}

/// Parameters have bounds: a wrong one is an error that names it.
#[test]
fn parameters_have_bounds() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let long = "x".repeat(256);
    for path in [
        "jobs?state=else",
        "jobs?after=else",
        "jobs?after=-1.00000000000000000000000000000007",
        "jobs?after=99999999999999999999.00000000000000000000000000000007",
        "jobs?before=else&after=1.00000000000000000000000000000007",
        "jobs?limit=0",
        "jobs?limit=101",
        "jobs?limit=-1",
        "jobs?from=yesterday",
        "jobs?text=%ff",
        "jobs?text=%f",
        "jobs?kind=LONG",
        "jobs?key=LONG",
        "jobs?text=LONGx",
        &format!("jobs?{}", "a&".repeat(300)),
        "kinds?after=LONG",
        "history?step=day",
        "history?steps=0",
        "history?steps=99999999999",
    ] {
        let path = path.replace("LONG", &long);
        let answer = get(&dashboard, &format!("/api/v1/{path}"));
        assert!(answer.status == 400 && answer.json()["error"] == "bad_parameter", "{path}");
        if !path.starts_with("history") {
            assert_eq!(get(&dashboard, &format!("/{path}")).status, 400, "{path}");
        }
    }
    assert_eq!(get(&dashboard, &format!("/jobs?text={}", "x".repeat(9000))).status, 414);
    assert_eq!(get(&dashboard, &format!("/{}", "x".repeat(3000))).status, 414);
}

/// The metrics of every queue are one text, in the format that the request asks for.
#[test]
fn metrics_have_every_queue() {
    let (jobs, _driver) = manual();
    jobs.insert(Duration::from_secs(60), mail("later")).unwrap();
    let (others, _other_driver) = manual();
    let dashboard = full(jobs.client()).queue(others.client());
    let text = get(&dashboard, "/metrics");
    assert_eq!(text.status, 200);
    assert!(text.header("content-type").starts_with("text/plain; version=0.0.4"));
    assert!(text.text().contains("tickwheel_jobs_pending{"), "{}", text.text());
    let wanted = [("host", "shop.example"), ("accept", "application/openmetrics-text")];
    let open = send(&dashboard, request(Method::GET, "/metrics", &wanted, ""));
    assert!(open.header("content-type").starts_with("application/openmetrics-text"));
    assert!(open.text().ends_with("# EOF\n"));
}
