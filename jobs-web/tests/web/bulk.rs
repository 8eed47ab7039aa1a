//! Actions: on one job, on many, on kinds and schedules; questions, progress, audit.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tickwheel_jobs::{Driver, Fail, JobId, JobState, Jobs, Retry, Run};
use tickwheel_jobs_web::{Dashboard, Part};

use crate::ask::{
    Answer, Mail, audited, begin, block_on, encoded, everything, full, get, group, mail, manual,
    on_stores, post, request_to_post, rows, run_due, submit,
};

const HOUR: Duration = Duration::from_secs(3600);

/// Returns the page that an action leads to, without its outcome.
fn page_of(done: &Answer) -> &str {
    done.header("location").split("?said=").next().unwrap()
}

/// Longer than anything takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);

/// Waits for the end of a bulk, and returns its progress.
#[expect(clippy::disallowed_methods, reason = "a bulk is made on a thread of the dashboard")]
fn wait(dashboard: &Dashboard, started: &Value) -> Value {
    let end = Instant::now() + LONG;
    while Instant::now() < end {
        let progress = get(dashboard, &format!("/api/v1/bulk/{}", started["id"])).ok();
        if progress["state"] != "running" {
            return progress;
        }
        std::thread::yield_now();
    }
    panic!("the bulk has no end");
}

/// Starts a bulk of as many jobs as the question says, and returns its progress at its end.
pub(crate) fn bulk(dashboard: &Dashboard, mut body: Value) -> Value {
    body["confirm"] = post(dashboard, "/api/v1/bulk", &body).ok()["jobs"]["count"].clone();
    let started = post(dashboard, "/api/v1/bulk", &body);
    assert_eq!(started.status, 202, "{started:?}");
    wait(dashboard, &started.json())
}

/// P89: A bulk says its number and scope, and does nothing, until it is confirmed. Then it goes in commits of 256, and
/// ends in the audit.
#[test]
fn bulk_asks_first_and_reports_its_end() {
    on_stores(|jobs, driver| {
        jobs.insert_batch((0..600).map(|n| (Duration::ZERO, mail(&format!("fail {}", n % 2)))))
            .unwrap();
        run_due(driver);
        let (dashboard, log) = audited(full(jobs.client()));
        let group = group(&dashboard, "fail 1");
        let group = json!({"action": "retry", "state": "dead", "kind": "mail", "group": group});
        let question = post(&dashboard, "/api/v1/bulk", &group).ok();
        assert_eq!(question["jobs"], json!({"count": 300, "is_exact": true}));
        assert_eq!(
            question["scope"],
            "the dead jobs of the kind \"mail\" with the error \"fail 1\""
        );
        assert_eq!(jobs.count().unwrap().dead, 600);
        let ended = bulk(&dashboard, group);
        assert!(ended["state"] == "done" && ended["changed"] == 300 && ended["seen"] == 300);
        assert_eq!(jobs.count().unwrap().dead, 300);
        let scope = question["scope"].as_str().unwrap();
        assert_eq!(*log.lock().unwrap(), [format!("retry {scope} 300: 300 jobs changed")]);
        let listed = get(&dashboard, "/api/v1/bulks").ok();
        assert_eq!(listed["rows"][0]["id"], ended["id"]);
        // The audit has who stopped it, beside its end.
        let id = ended["id"].as_u64().unwrap();
        for (id, status) in [(id, 200), (77, 404)] {
            let path = format!("/api/v1/bulk/{id}/stop");
            assert_eq!(post(&dashboard, &path, &json!({})).status, status);
        }
        let [_, stopped, absent] = &log.lock().unwrap()[..] else { panic!("{log:?}") };
        assert_eq!(*stopped, format!("stop the change {id} 0: It had ended already."));
        assert!(absent.starts_with("stop the change 77 0:  PROBLEM "), "{absent}");
    });
}

/// P96: A form asks in a page, which sends the same fields again and then leads to the progress. A change of many jobs
/// that is sent twice is one change.
#[test]
fn bulk_of_a_form_asks_in_a_page() {
    let (jobs, _driver) = manual();
    jobs.insert_batch((0..3).map(|_| (HOUR, mail("one")))).unwrap();
    let dashboard = full(jobs.client());
    let form = "action=cancel&state=pending&kind=mail&once=5f1d&back=jobs%3Fstate%3Dpending";
    let question = submit(&dashboard, "/admin/api/v1/bulk", form);
    assert_eq!(
        (question.status, question.header("content-type")),
        (200, "text/html; charset=utf-8")
    );
    assert!(question.text().contains("name=\"confirm\""), "{}", question.text());
    assert!(question.text().contains("action=\"../../api/v1/bulk\""), "{}", question.text());
    assert_eq!(jobs.count().unwrap().pending, 3);
    for _ in 0..2 {
        let started = submit(&dashboard, "/admin/api/v1/bulk", &format!("{form}&confirm=3"));
        assert_eq!((started.status, started.header("location")), (303, "../../bulk/1"));
    }
    assert_eq!(wait(&dashboard, &json!({"id": 1}))["changed"], 3);
    assert_eq!((get(&dashboard, "/admin/bulk/1").status, rows(&dashboard, "bulks")), (200, 1));
    assert!(get(&dashboard, "/bulk").text().contains(">Cancel 3 jobs</a>"));
}

/// Chosen jobs are changed, and no others; each change only where it applies.
#[test]
fn bulk_changes_the_chosen_jobs() {
    let (jobs, driver) = manual();
    let ids: Vec<_> = (0..4).map(|_| jobs.insert(HOUR, mail("one")).unwrap().to_string()).collect();
    let dashboard = full(jobs.client());
    let ended = bulk(&dashboard, json!({"action": "cancel", "id": [ids[0], ids[2], ids[2]]}));
    assert_eq!(ended["changed"], 2);
    let left: Vec<_> = jobs.pending().map(|job| job.id.to_string()).collect();
    assert_eq!(left, [ids[1].clone(), ids[3].clone()]);
    let all = json!({"action": "reschedule", "state": "pending", "all": true, "when": "6h"});
    assert_eq!(bulk(&dashboard, all)["changed"], 2);
    let later = driver.wall_now() + 5 * HOUR;
    assert_eq!(jobs.pending().between(later, later + 2 * HOUR).count(), 2);
    for wrong in [
        json!({"action": "retry", "state": "pending", "all": true}),
        json!({"action": "delete", "state": "running", "all": true}),
        json!({"action": "cancel"}),
        json!({"state": "pending"}),
        json!({"action": "cancel", "id": ["7"]}),
        json!({"action": "reschedule", "state": "pending", "all": true, "when": "soon"}),
    ] {
        assert_eq!(post(&dashboard, "/api/v1/bulk", &wrong).status, 400, "{wrong}");
    }
}

/// A bulk that is stopped keeps its changes, and says so. The dashboard's thread stands in `redact` in the midst of the
/// bulk until it has the request to stop.
#[test]
fn bulk_can_be_stopped() {
    let (jobs, _driver) = manual();
    for _ in 0..40 {
        jobs.insert_batch((0..1000).map(|_| (HOUR, mail("one")))).unwrap();
    }
    let (calls, stop_at) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(usize::MAX)));
    let (counted, limit) = (Arc::clone(&calls), Arc::clone(&stop_at));
    let (stands, is_standing) = mpsc::channel();
    let (goes_on, may_go_on) = mpsc::channel();
    let may_go_on = Mutex::new(may_go_on);
    let dashboard = full(jobs.client()).redact(move |_, _, _| {
        if counted.fetch_add(1, Ordering::SeqCst) == limit.load(Ordering::SeqCst) {
            stands.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
        }
    });
    let mut all = json!({"action": "cancel", "state": "pending", "text": "one"});
    assert_eq!(post(&dashboard, "/api/v1/bulk", &all).status, 200);
    // The start of the bulk asks as much as the question did. The bulk itself asks for each of 40,000 jobs.
    let asked = calls.load(Ordering::SeqCst);
    assert!(asked < 15_000, "{asked}");
    stop_at.store(2 * asked + 3000, Ordering::SeqCst);
    all["confirm"] = "6144+".into();
    let started = post(&dashboard, "/api/v1/bulk", &all).json();
    is_standing.recv_timeout(LONG).unwrap();
    let path = format!("/api/v1/bulk/{}/stop", started["id"]);
    let stop = begin(&dashboard, request_to_post(&path, &json!({})));
    goes_on.send(()).unwrap();
    assert_eq!(block_on(stop).unwrap().status(), 200);
    let ended = wait(&dashboard, &started);
    let left = jobs.count().unwrap().pending;
    assert_eq!(ended["changed"].as_u64().unwrap() + left, 40_000, "{ended}");
    assert_eq!(ended["state"], "stopped", "{ended}");
    assert!(left > 0 && left < 40_000, "{left}");
}

/// Returns jobs of which each is dead at once, with its text as the error.
fn dying() -> (Jobs, Driver) {
    let fails = |mail: Mail, _: &Run| Err(Fail::dead(mail.text));
    Jobs::memory().handle_with(Retry::never(), fails).manual().unwrap()
}

/// P93: The number on a button is the number that the question says and that is changed, also of a group whose error
/// has no text: an empty one, one that begins with a line end, one that `redact` has made empty.
#[test]
fn bulk_of_a_group_changes_that_group_alone() {
    let (jobs, driver) = dying();
    let long = "é".repeat(2000);
    let (empty, others) =
        (["", "\nsecond line", "\r\nsecond line", "secret"], ["other", "other\nline"]);
    let errors = empty.into_iter().chain(others).chain([" ", &long]);
    for (at, error) in errors.enumerate() {
        jobs.insert_batch((0..=at).map(|_| (Duration::ZERO, mail(error)))).unwrap();
    }
    run_due(&driver);
    let dashboard = full(jobs.client()).redact(|_, part, value| {
        if part == Part::Error && *value == "secret" {
            *value = "".into();
        }
    });
    let mut left = jobs.count().unwrap().dead;
    let groups = get(&dashboard, "/api/v1/dead").ok()["groups"].as_array().unwrap().clone();
    let count = |group: &Value| {
        (group["error"].as_str().unwrap().chars().next(), group["jobs"].as_u64().unwrap())
    };
    let counts: Vec<_> = groups.iter().map(count).collect();
    assert_eq!(counts, [(Some('o'), 11), (None, 10), (Some('é'), 8), (Some(' '), 7)]);
    for group in groups {
        let count = group["jobs"].as_u64().unwrap();
        let query = format!("state=dead&kind=mail&group={}", group["group"].as_str().unwrap());
        let list = format!("jobs?{query}");
        assert_eq!(rows(&dashboard, &list) as u64, count);
        assert_eq!(get(&dashboard, &format!("/{list}")).status, 200);
        let form = format!("action=delete&back=dead&{query}");
        let question = submit(&dashboard, "/api/v1/bulk", &form);
        assert!(question.text().contains(&format!("Delete {count} jobs?")), "{}", question.text());
        let body = json!({"action": "delete", "state": "dead", "group": group["group"]});
        let ended = bulk(&dashboard, body);
        assert!(ended["state"] == "done" && ended["changed"] == count, "{ended}");
        left -= count;
        assert_eq!(jobs.count().unwrap().dead, left);
    }
    assert_eq!(left, 0);
}

/// P93: What was confirmed bounds what is changed. A bulk that matches more by then asks again, with the new number.
#[test]
fn bulk_that_matches_more_asks_again() {
    let (jobs, driver) = manual();
    let dashboard = full(jobs.client());
    let die = |many| {
        jobs.insert_batch((0..many).map(|_| (Duration::ZERO, mail("fail")))).unwrap();
        run_due(&driver);
    };
    die(3);
    let mut body = json!({"action": "delete", "state": "dead", "kind": "mail"});
    assert_eq!(post(&dashboard, "/api/v1/bulk", &body).ok()["jobs"]["count"], 3);
    die(2);
    body["confirm"] = 3.into();
    let again = post(&dashboard, "/api/v1/bulk", &body);
    assert_eq!(again.status, 409, "{again:?}");
    let numbers = [&again.json()["jobs"], &again.json()["confirmed"]].map(|it| it["count"].clone());
    assert_eq!(numbers, [5, 3]);
    let form = "action=delete&state=dead&kind=mail&confirm=3";
    let page = submit(&dashboard, "/api/v1/bulk", form);
    for text in ["Delete 5 jobs?", "name=\"confirm\" value=\"5\""] {
        assert!(page.status == 200 && page.text().contains(text), "{}", page.text());
    }
    assert_eq!(jobs.count().unwrap().dead, 5);
    for wrong in
        [json!(true), json!("yes"), json!(""), json!(-3), json!(3.5), json!("+5"), json!("5 ")]
    {
        body["confirm"] = wrong;
        assert_eq!(post(&dashboard, "/api/v1/bulk", &body).status, 400, "{body}");
    }
    // Fewer by then are within the number.
    body["confirm"] = 9.into();
    let started = post(&dashboard, "/api/v1/bulk", &body);
    assert_eq!(wait(&dashboard, &started.json())["changed"], 5);
}

/// P93: Jobs that come to match while a bulk is under way are left, beyond the number that was confirmed.
#[test]
fn bulk_changes_no_more_jobs_than_were_confirmed() {
    let (jobs, _driver) = manual();
    jobs.insert_batch((0..600).map(|_| (HOUR, mail("one")))).unwrap();
    let (client, calls) = (jobs.client(), AtomicUsize::new(0));
    let dashboard = full(jobs.client()).redact(move |_, _, _| {
        // The question and the start have looked at each job: the bulk itself has begun.
        if calls.fetch_add(1, Ordering::SeqCst) == 1200 {
            client.insert_batch((0..50).map(|_| (2 * HOUR, mail("one")))).unwrap();
        }
    });
    let ended = bulk(&dashboard, json!({"action": "cancel", "state": "pending", "text": "one"}));
    assert!(ended["state"] == "stopped" && ended["changed"] == 600, "{ended}");
    assert!(ended["problem"].as_str().unwrap().contains("more match by now"), "{ended}");
    assert_eq!(jobs.count().unwrap().pending, 50);
}

/// P89: Each action on one job has its effect, or its answer says why not.
#[test]
fn actions_on_one_job() {
    on_stores(|jobs, driver| {
        let dashboard = full(jobs.client());
        let dead = |text: &str| {
            let id = jobs.insert(Duration::ZERO, mail(text)).unwrap();
            run_due(driver);
            id
        };
        let act = |id, verb: &str, body: Value| {
            let answer = post(&dashboard, &format!("/api/v1/jobs/{id}/{verb}"), &body);
            (answer.status, answer.json())
        };
        let id = dead("fail");
        assert_eq!(act(id, "cancel", json!({})).0, 409);
        assert_eq!(act(id, "reschedule", json!({"when": "1h"})).0, 409);
        assert_eq!(act(id, "retry", json!({})).0, 200);
        assert_eq!(jobs.get(id).unwrap().unwrap().state, JobState::Pending);
        assert_eq!(act(id, "delete", json!({})).0, 409);
        assert_eq!(act(id, "reschedule", json!({"when": "2h"})).0, 200);
        let due = jobs.get(id).unwrap().unwrap().due;
        let left = due.duration_since(driver.wall_now()).unwrap();
        assert!(left.abs_diff(2 * HOUR) < Duration::from_secs(60), "{left:?}");
        assert_eq!(act(id, "reschedule", json!({"when": "soon"})).0, 400);
        assert_eq!(act(id, "cancel", json!({})).1["result"], "done");
        assert_eq!(act(id, "cancel", json!({})).0, 404);
        let id = dead("fail");
        assert_eq!(act(id, "delete", json!({})).0, 200);
        assert_eq!(jobs.get(id).unwrap(), None);
    });
}

/// A job that has ended runs again as a new job: once for each form, whichever process gets it, and after a question to
/// a browser.
#[test]
fn job_that_has_ended_runs_again() {
    let (jobs, driver) = manual();
    let dashboard = full(jobs.client());
    jobs.kind_named("mail").keep_completed(tickwheel_jobs::Keep::last(9)).unwrap();
    let id = jobs.insert(Duration::ZERO, mail("sent")).unwrap();
    let path = format!("/api/v1/jobs/{id}/again");
    assert_eq!(post(&dashboard, &path, &json!({})).status, 409);
    let page = get(&dashboard, &format!("/jobs/{id}"));
    assert!(page.text().contains("retries left"), "{}", page.text());
    run_due(&driver);
    let page = get(&full(jobs.client()), &format!("/jobs/{id}"));
    assert!(page.text().contains("Run again"), "{}", page.text());
    let question = submit(&dashboard, &path, "");
    assert!(question.text().contains(">Run again?</h1>"), "{}", question.text());
    let form = json!({"once": "5f1d"});
    for dashboard in [&dashboard, &full(jobs.client()), &dashboard] {
        assert_eq!(post(dashboard, &path, &form).ok()["result"], "done");
        assert_eq!(jobs.count().unwrap().pending, 1);
    }
    run_due(&driver);
    assert_eq!(jobs.ended().count(), 2);
    let unknown = format!("/api/v1/jobs/{}/again", JobId::named("never"));
    assert_eq!(post(&dashboard, &unknown, &json!({})).status, 404);
}

/// A form that loses a job is asked once more, and leads back to a page of the dashboard and nowhere else.
#[test]
fn actions_of_forms_ask_and_lead_back() {
    let (jobs, driver) = manual();
    let dashboard = full(jobs.client());
    let id = jobs.insert(Duration::ZERO, mail("fail")).unwrap();
    run_due(&driver);
    let path = format!("/api/v1/jobs/{id}/delete");
    let question = submit(&dashboard, &path, "back=dead");
    assert_eq!(question.status, 200);
    assert!(jobs.get(id).unwrap().is_some());
    let done = submit(&dashboard, &path, "back=dead&confirm=yes");
    assert_eq!((done.status, page_of(&done)), (303, "../../../../dead"));
    assert_eq!(jobs.get(id).unwrap(), None);
    let foreign = ["//evil.example", "http://evil.example/jobs", "/jobs", "../jobs"];
    for back in foreign.into_iter().chain(["jobs\r\nx: y", "jobs?\"", "nowhere", ""]) {
        let form = format!("kind=mail&confirm=yes&back={}", encoded(back));
        let done = submit(&dashboard, "/api/v1/kinds/pause", &form);
        assert_eq!((done.status, page_of(&done)), (303, "../../../kinds"), "{back:?}");
    }
}

/// P89, P96: A browser that asks to stop something, or to start a job, is asked once more, and a program is not.
#[test]
fn pauses_and_runs_of_forms_ask() {
    on_stores(|jobs, _| {
        let dashboard = full(jobs.client());
        jobs.schedule("report", HOUR, mail("report")).unwrap();
        let id = jobs.insert(HOUR, mail("later")).unwrap();
        let now = format!("jobs/{id}/reschedule");
        let json_of = |form: &str| match form.split_once('=') {
            Some((name, value)) => json!({ name: value }),
            None => json!({}),
        };
        for (path, form) in [
            ("queue/pause", ""),
            ("kinds/pause", "kind=mail"),
            ("schedules/pause", "schedule=report"),
            ("schedules/run", "schedule=report"),
            (&now, ""),
            (&now, "when=2020-02-02T10:00:00Z"),
        ] {
            let before = everything(jobs);
            let question = submit(&dashboard, &format!("/api/v1/{path}"), form);
            assert!(question.status == 200 && question.text().contains("?</h1>"), "{path}");
            assert_eq!(everything(jobs), before, "{path}");
            let answer = post(&dashboard, &format!("/api/v1/{path}"), &json_of(form));
            assert_eq!(answer.status, 200, "{path}: {answer:?}");
            assert_ne!(everything(jobs), before, "{path}");
        }
        // Resuming, and moving a job to a later time, are taken back by one click, so nothing is asked before them.
        let resumed = submit(&dashboard, "/api/v1/queue/resume", "");
        let later = submit(&dashboard, &format!("/api/v1/{now}"), "when=5m");
        assert_eq!((resumed.status, later.status), (303, 303));
        assert!(!jobs.queue().is_paused().unwrap());
    });
}

/// A group leads to its members by their state, and is sealed and cancelled on its page.
#[test]
fn groups_are_sealed_and_cancelled() {
    let (jobs, driver) = manual();
    let (dashboard, log) = audited(full(jobs.client()));
    let texts = ["fail", "sent", "sent too"];
    let group = texts.into_iter().fold(jobs.group(), |it, text| it.add(Duration::ZERO, mail(text)));
    let group = group.add(HOUR, mail("later")).open().unwrap();
    jobs.insert(HOUR, mail("of no group")).unwrap();
    run_due(&driver);
    let id = group.id();
    let page = get(&dashboard, "/groups");
    for (state, many) in [("pending", 1), ("completed", 2), ("dead", 1)] {
        let list = format!("jobs?state={state}&member={id}");
        assert!(page.text().contains(&list.replace('&', "&amp;")), "{state}: {}", page.text());
        assert_eq!(rows(&dashboard, &list), many, "{state}");
        assert!(get(&dashboard, &format!("/{list}")).text().contains("Members of the group"));
    }
    let verbs = ["seal", "cancel"].map(|verb| format!("groups/{id}/{verb}\""));
    let reader = get(&Dashboard::new(jobs.client()), "/groups");
    for verb in verbs {
        assert!(page.text().contains(&verb) && !reader.text().contains(&verb), "{verb}");
    }
    let asked = submit(&dashboard, &format!("/api/v1/groups/{id}/seal"), "");
    assert!(asked.text().contains(">Seal the group?</h1>"), "{}", asked.text());
    assert!(!group.info().unwrap().unwrap().is_sealed);
    for text in ["it takes no more members", "was sealed already"] {
        let done = post(&dashboard, &format!("/api/v1/groups/{id}/seal"), &json!({})).ok();
        assert!(done["text"].as_str().unwrap().contains(text), "{done}");
    }
    let bulk = json!({"action": "retry", "state": "dead", "member": id.to_string()});
    assert_eq!(post(&dashboard, "/api/v1/bulk", &bulk).ok()["jobs"]["count"], 1);
    let done = post(&dashboard, &format!("/api/v1/groups/{id}/cancel"), &json!({})).ok();
    assert!(done["text"].as_str().unwrap().contains("1 pending job with it"), "{done}");
    assert_eq!(jobs.count().unwrap().pending, 1);
    let ended = submit(&dashboard, &format!("/api/v1/groups/{id}/cancel"), "confirm=yes");
    assert_eq!(ended.status, 409, "{ended:?}");
    let (other_jobs, _other) = manual();
    let foreign = other_jobs.group().add(HOUR, mail("elsewhere")).open().unwrap();
    for verb in ["seal", "cancel"] {
        let path = format!("/api/v1/groups/{}/{verb}", foreign.id());
        assert_eq!(post(&dashboard, &path, &json!({})).status, 404, "{verb}");
        assert_eq!(submit(&dashboard, &path, "").status, 404, "{verb}");
    }
    let log = log.lock().unwrap();
    for (line, begins) in log.iter().zip([("seal", 1), ("seal", 0), ("cancel", 1), ("cancel", 0)]) {
        assert!(line.starts_with(&format!("{} the group {id} {}:", begins.0, begins.1)), "{line}");
    }
    assert!(log[3].contains("PROBLEM") && !log[..3].concat().contains("PROBLEM"), "{log:?}");
}

/// An audit that panics ends no thread, neither after an action nor at the end of a bulk, also if the drop of what the
/// panic carries panics too.
#[test]
fn audit_that_panics_ends_no_thread() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a drop that fails");
        }
    }
    let (jobs, _driver) = manual();
    let id = jobs.insert(HOUR, mail("one")).unwrap();
    let dashboard = full(jobs.client()).audit(|_| {
        // A dashboard that publishes the end before the audit returns would show the end during this pause.
        std::thread::park_timeout(Duration::from_millis(100));
        std::panic::panic_any(Bomb);
    });
    let moved = post(&dashboard, &format!("/api/v1/jobs/{id}/reschedule"), &json!({"when": "2h"}));
    assert_eq!(moved.status, 500);
    let ended = bulk(&dashboard, json!({"action": "cancel", "state": "pending", "all": "yes"}));
    assert!(ended["state"] == "failed" && ended["changed"] == 1, "{ended}");
    assert_eq!(get(&dashboard, "/healthz").status, 200);
    // The action itself was done, so the second request with its form has its answer.
    let form = json!({"kind": "mail", "once": "5f1d"});
    let answers = [(); 2].map(|()| post(&dashboard, "/api/v1/kinds/pause", &form).status);
    assert_eq!(answers, [500, 200]);
}
