//! No answer has a text that `redact` has hidden.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_jobs::{JobByHand, NewJob};
use tickwheel_jobs_web::Part;

use crate::ask::{full, get, mail, manual, rows, run_due, texts};
use crate::bulk::bulk;

const SECRET: &str = "4111-1111";

fn hide(value: &mut Value) {
    match value {
        Value::String(text) => *text = text.replace(SECRET, "hidden"),
        Value::Array(values) => values.iter_mut().for_each(hide),
        Value::Object(object) => object.values_mut().for_each(hide),
        _ => {}
    }
}

/// P94: Pages, JSON, searches, groups and downloads have the redacted form only; a group is retried by that form.
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
        paths.extend(
            ["/jobs/ID", "/api/v1/jobs/ID", "/jobs/ID/payload"]
                .map(|path| path.replace("ID", &id.to_string())),
        );
    }
    paths.push(format!("/jobs/{done}/result"));
    for path in &paths {
        let answer = get(&dashboard, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(!answer.text().contains(SECRET), "{path}");
    }
    for state in ["pending", "dead", "completed"] {
        let found = |text: &str| rows(&dashboard, &format!("jobs?state={state}&text={text}"));
        assert!(found(SECRET) == 0 && found("HIDDEN") > 0, "{state}");
    }
    // Two errors have one form.
    let groups = get(&dashboard, "/api/v1/dead").ok()["groups"].clone();
    assert_eq!(texts(&groups, "error"), ["fail of card hidden"]);
    assert_eq!(groups[0]["jobs"], 2);
    let delete = json!({"action": "delete", "state": "dead", "group": groups[0]["group"]});
    assert_eq!(bulk(&dashboard, delete)["changed"], 2);
    assert_eq!((jobs.get(failed).unwrap(), jobs.get(other).unwrap()), (None, None));
}

/// P94: If the program's function panics on a part of a job, that part is hidden and marked, everywhere. The other jobs
/// of the page and of a search are shown, and a bulk changes them.
#[test]
fn redaction_that_panics_hides_that_part_alone() {
    let (jobs, driver) = manual();
    let hour = Duration::from_secs(3600);
    let hidden = jobs.insert_by_hand(hour, JobByHand::new("mail", *b"[5]")).unwrap();
    let shown = jobs.insert(hour, mail("one")).unwrap();
    jobs.insert(Duration::ZERO, mail("fail of a card")).unwrap();
    jobs.insert(Duration::ZERO, mail("fail")).unwrap();
    run_due(&driver);
    let dashboard = full(jobs.client()).redact(|_, part, value| match part {
        // It panics on a list.
        Part::Payload => value["card"] = "hidden".into(),
        _ => assert_ne!(value, "fail of a card", "on purpose"),
    });
    let mark = "the program's redact has panicked";
    let ask = |path: String| {
        let answer = get(&dashboard, &path);
        assert_eq!(answer.status, 200, "{path}");
        for hidden in ["of a card", "on purpose"] {
            assert!(!answer.text().contains(hidden), "{path}");
        }
        answer.text().contains(mark)
    };
    for path in ["/jobs/ID", "/api/v1/jobs/ID", "/jobs/ID/payload"] {
        assert!(ask(path.replace("ID", &hidden.to_string())), "{path}");
        assert!(!ask(path.replace("ID", &shown.to_string())), "{path}");
    }
    for path in ["/jobs?state=dead", "/dead", "/api/v1/dead"] {
        assert!(ask(path.to_owned()), "{path}");
    }
    assert_eq!(rows(&dashboard, "jobs?state=pending&text=ONE"), 1);
    let cancel = json!({"action": "cancel", "state": "pending", "text": "one"});
    assert_eq!(bulk(&dashboard, cancel)["changed"], 1);
    assert!(jobs.get(hidden).unwrap().is_some() && jobs.get(shown).unwrap().is_none());
}
