//! No answer has a text that `redact` has hidden.

use std::time::Duration;

use serde_json::Value;
use tickwheel_jobs::NewJob;
use tickwheel_jobs::web::Part;

use crate::ask::{full, get, mail, manual, post, run_due};

const SECRET: &str = "4111-1111";

fn hide(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace(SECRET, "hidden"),
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(object) => object.values_mut().for_each(hide),
        _ => {}
    }
}

/// Pages, JSON, searches, groups and downloads have the redacted form only; a group is retried by that form.
#[test]
fn redacted_parts_are_nowhere() {
    let (jobs, driver) = manual();
    let text = |text: &str| format!("{text} {SECRET}");
    let failed = jobs.insert(Duration::ZERO, mail(&text("fail of card"))).unwrap();
    let other = jobs.insert(Duration::ZERO, mail("fail of card hidden")).unwrap();
    let done = jobs.insert(Duration::ZERO, mail(&text("done"))).unwrap();
    run_due(&driver);
    let hour = Duration::from_secs(3600);
    let new = NewJob::new(mail(&text("later"))).at(hour).header("card", SECRET);
    jobs.insert_job(new).unwrap();
    let dashboard = full(jobs.client()).redact(|kind, _: Part, value| {
        assert_eq!(kind, "mail");
        hide(value);
    });
    let mut paths = vec!["/".to_owned(), "/dead".to_owned(), "/api/v1/dead".to_owned()];
    for state in ["pending", "dead", "completed"] {
        paths.push(format!("/jobs?state={state}"));
        paths.push(format!("/api/v1/jobs?state={state}"));
    }
    for id in [failed, done, jobs.pending().next().unwrap().id] {
        paths.extend([
            format!("/jobs/{id}"),
            format!("/api/v1/jobs/{id}"),
            format!("/jobs/{id}/payload"),
        ]);
    }
    paths.push(format!("/jobs/{done}/result"));
    for path in &paths {
        let answer = get(&dashboard, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text().contains(SECRET), "{path}");
    }
    for state in ["pending", "dead", "completed"] {
        let found = get(&dashboard, &format!("/api/v1/jobs?state={state}&text={SECRET}")).ok();
        assert_eq!(
            found["rows"].as_array().unwrap().len(),
            0,
            "a search finds what is hidden: {state}"
        );
        let found = get(&dashboard, &format!("/api/v1/jobs?state={state}&text=HIDDEN")).ok();
        assert!(!found["rows"].as_array().unwrap().is_empty());
    }
    let groups = get(&dashboard, "/api/v1/dead").ok();
    assert_eq!(groups["groups"].as_array().unwrap().len(), 1, "two errors have one form: {groups}");
    assert_eq!(
        (&groups["groups"][0]["error"], &groups["groups"][0]["jobs"]),
        (&"fail of card hidden".into(), &2.into())
    );
    let bulk = serde_json::json!({
        "action": "delete", "state": "dead", "kind": "mail", "error": "fail of card hidden", "confirm": true,
    });
    let started = post(&dashboard, "/api/v1/bulk", &bulk);
    assert_eq!(started.status, 202, "{started:?}");
    assert_eq!(started.json()["of"]["count"], 2);
    crate::bulk::wait(&dashboard, &started.json());
    assert_eq!((jobs.get(failed).unwrap(), jobs.get(other).unwrap()), (None, None));
}

/// If the program's function panics, the request fails, and nothing of the job is shown; the next one is answered.
#[test]
fn redaction_that_panics_shows_nothing() {
    let (jobs, _driver) = manual();
    let id = jobs.insert(Duration::from_secs(60), mail(SECRET)).unwrap();
    let dashboard = full(jobs.client()).redact(|_, _, _| panic!("on purpose"));
    for path in [format!("/jobs/{id}"), format!("/api/v1/jobs/{id}"), format!("/jobs/{id}/payload")]
    {
        let answer = get(&dashboard, &path);
        assert_eq!(answer.status, 500);
        assert!(!answer.text().contains(SECRET) && !answer.text().contains("on purpose"));
    }
    assert_eq!(get(&dashboard, "/").status, 200);
}
