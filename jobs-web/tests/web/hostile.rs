//! Text of jobs that is made to do harm: as JSON it is itself, as HTML it is text.

use std::time::Duration;

use tickwheel_jobs::{JobByHand, Limit, NewJob};

use crate::ask::{encoded, full, get, mail, manual, run_due};

const CORPUS: [&str; 12] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "'-alert(1)-'",
    "javascript:alert(1)",
    "</textarea></title></style><svg onload=alert(1)>",
    "&lt;b&gt;&amp;",
    "\u{1b}[2J\u{7}\u{0}\u{8}",
    "a\r\nSet-Cookie: x=1\r\n\r\n<html>",
    "\u{202e}evil\u{2066}\u{feff}\u{200b}",
    "{{7*7}}${7*7}<%= 7 %>",
    "%3Cscript%3E&state=dead#x?y",
    "../../../../etc/passwd",
];

/// Keys, headers, payloads, errors, results and names of schedules are escaped on every page. As JSON they come back
/// unchanged.
#[test]
fn hostile_text_is_text() {
    let (jobs, driver) = manual();
    let dashboard = full(jobs.client()).title(CORPUS[0]);
    let hour = Duration::from_secs(3600);
    for text in CORPUS {
        jobs.insert(Duration::ZERO, mail(&format!("fail{text}"))).unwrap();
        jobs.insert(Duration::ZERO, mail(text)).unwrap();
        let new =
            NewJob::new(mail(text)).at(hour).key(text).header(text.trim_end_matches('\0'), text);
        jobs.insert_job(new).unwrap();
        jobs.schedule(text, hour, mail(text)).unwrap();
        jobs.kind_named("mail").partition(text).limit(Limit::running(1)).unwrap();
    }
    run_due(&driver);
    let mut pages: Vec<String> =
        ["/", "/kinds", "/dead", "/groups", "/schedules", "/nodes", "/store"]
            .map(str::to_owned)
            .into();
    for state in ["pending", "dead", "completed"] {
        pages.push(format!("/jobs?state={state}"));
    }
    let ids: Vec<_> = jobs.pending().chain(jobs.ended()).map(|job| job.id).collect();
    pages.extend(ids.iter().map(|id| format!("/jobs/{id}")));
    for text in CORPUS {
        let encoded = encoded(text);
        pages.push(format!("/jobs?text={encoded}&key={encoded}&kind={encoded}"));
        pages.push(format!("/jobs?state=dead&text={encoded}&kind=mail"));
        let found = get(&dashboard, &format!("/api/v1/jobs?key={encoded}")).ok();
        assert_eq!(found["rows"][0]["key"], text);
        let id = found["rows"][0]["id"].as_str().unwrap().to_owned();
        let job = get(&dashboard, &format!("/api/v1/jobs/{id}")).ok();
        assert_eq!(job["headers"][0][1], text);
        let payload: serde_json::Value =
            serde_json::from_str(job["payload"]["text"].as_str().unwrap()).unwrap();
        assert_eq!(payload["text"], text);
    }
    for page in pages {
        let answer = get(&dashboard, &page);
        assert_eq!(answer.status, 200, "{page}");
        let html = answer.text();
        for harm in [
            "<script>",
            "<img",
            "<svg onload",
            "</textarea>",
            "href=\"javascript:",
            "\u{1b}",
            "\u{202e}",
            "\0",
            "\u{7}",
        ] {
            assert!(!html.contains(harm), "{page} has {harm:?}");
        }
        for (name, value) in &answer.headers {
            assert!(!value.as_bytes().contains(&b'\n'), "{name}");
        }
    }
}

/// An integer that JavaScript would round is a string in JSON.
#[test]
fn numbers_are_exact_in_javascript() {
    let (jobs, _driver) = manual();
    let payload = br#"{"n": 9007199254740993, "large": 1000000000000000000001}"#.to_vec();
    jobs.insert_by_hand(Duration::from_secs(60), JobByHand::new("mail", payload)).unwrap();
    let dashboard = full(jobs.client());
    let job = get(&dashboard, "/api/v1/jobs").ok()["rows"][0]["id"].as_str().unwrap().to_owned();
    let shown = get(&dashboard, &format!("/api/v1/jobs/{job}")).ok();
    for number in ["9007199254740993", "1000000000000000000001"] {
        assert!(shown["payload"]["text"].as_str().unwrap().contains(number), "{shown}");
    }
}
