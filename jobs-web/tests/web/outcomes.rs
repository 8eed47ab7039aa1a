//! What an action says to a person: a line on the page that follows it, once for each form.

use std::sync::mpsc;
use std::time::Duration;

use serde_json::json;
use tickwheel_jobs::Jobs;
use tickwheel_jobs_web::Dashboard;

use crate::ask::{Answer, Charge, Mail, audited, full, get, mail, manual, post, run_due, submit};

const HOUR: Duration = Duration::from_secs(3600);

/// Follows the answer to a form, and returns the line of the page that it leads to.
pub(crate) fn line(dashboard: &Dashboard, answer: &Answer) -> String {
    assert_eq!(answer.status, 303, "{answer:?}");
    let page = get(dashboard, &format!("/{}", answer.header("location").trim_start_matches("../")));
    assert_eq!(page.status, 200);
    let (_, said) = page.text().split_once("id=\"outcome\"").expect("the page says what was done");
    let (_, said) = said.split_once("<span class=\"t\">").unwrap();
    said.split_once("</span>").unwrap().0.replace("&quot;", "\"")
}

/// P96: After each action the page says what was done, or that nothing was to do, and the audit has the number of
/// changes.
#[test]
fn page_says_what_an_action_did() {
    let (jobs, driver) = manual();
    let (dashboard, log) = audited(full(jobs.client()));
    jobs.schedule("report", HOUR, mail("report")).unwrap();
    let later = jobs.insert(HOUR, mail("later")).unwrap();
    let other = jobs.insert(Duration::ZERO, mail("fail")).unwrap();
    let dead = jobs.insert(Duration::ZERO, mail("fail")).unwrap();
    run_due(&driver);
    let job = |id, verb: &str| format!("jobs/{id}/{verb}");
    for (path, form, said, changed) in [
        ("kinds/pause", "kind=mail&confirm=yes", "The kind \"mail\" is paused: no further job", 1),
        ("kinds/pause", "kind=mail&confirm=yes", "The kind \"mail\" was paused already.", 0),
        ("kinds/resume", "kind=mail", "The kind \"mail\" goes on.", 1),
        ("kinds/resume", "kind=mail", "The kind \"mail\" was not paused.", 0),
        ("kinds/pause", "kind=absent&confirm=yes", "The pause holds for jobs that come.", 1),
        ("queue/pause", "confirm=yes", "The queue is paused: no further job starts.", 1),
        ("queue/pause", "confirm=yes", "The queue was paused already.", 0),
        ("queue/resume", "", "The queue goes on.", 1),
        ("queue/resume", "", "The queue was not paused.", 0),
        (
            "schedules/run",
            "schedule=report&confirm=yes",
            "The schedule \"report\" has made the job ",
            1,
        ),
        ("schedules/pause", "schedule=report&confirm=yes", "The schedule \"report\" is paused", 1),
        ("schedules/pause", "schedule=report&confirm=yes", "was paused already", 0),
        ("schedules/resume", "schedule=report", "goes on", 1),
        ("schedules/resume", "schedule=report", "was not paused", 0),
        ("schedules/unschedule", "schedule=report&confirm=yes", "\"report\" has ended", 1),
        (&job(later, "reschedule"), "when=5m", " is due at ", 1),
        (&job(later, "reschedule"), "confirm=yes", " is due now.", 1),
        (&job(later, "cancel"), "confirm=yes", " is cancelled.", 1),
        (&job(dead, "retry"), "", " is due again, at once.", 1),
        (&job(other, "delete"), "confirm=yes", " is deleted.", 1),
    ] {
        let told = line(&dashboard, &submit(&dashboard, &format!("/api/v1/{path}"), form));
        assert!(told.contains(said), "{path} {form}: {told}");
        let noted = log.lock().unwrap().pop().unwrap();
        assert!(noted.ends_with(&format!(" {changed}: {told}")), "{path} {form}: {noted}");
    }
    // No link makes a page say what its author likes.
    for said in ["The+queue+is+gone", "0", "%3Cb%3E"] {
        let page = get(&dashboard, &format!("/kinds?said={said}"));
        assert!(page.status == 200 && !page.text().contains("id=\"outcome\""), "{said}");
    }
}

/// P96: A job that runs is asked to stop, and the page says that.
#[test]
fn page_says_that_a_job_was_asked_to_stop() {
    let (started, starts) = mpsc::channel();
    let jobs = Jobs::memory()
        .handle(move |_: Mail, run| {
            started.send(()).unwrap();
            while !run.is_cancelled() {
                std::thread::yield_now();
            }
            Ok(())
        })
        .start()
        .unwrap();
    let id = jobs.insert(Duration::ZERO, mail("long")).unwrap();
    starts.recv().unwrap();
    let dashboard = full(jobs.client());
    let answer = submit(&dashboard, &format!("/api/v1/jobs/{id}/cancel"), "confirm=yes");
    assert!(line(&dashboard, &answer).contains("runs, so it was asked to stop"));
    jobs.shutdown().unwrap();
}

/// P96: A form has an id, which is taken once: what is sent a second time is answered as the first time, also by
/// another process if the form makes a job.
#[test]
fn form_is_taken_once() {
    let (jobs, _driver) = manual();
    for schedule in ["report", "other"] {
        jobs.schedule(schedule, HOUR, Charge { card: String::new() }).unwrap();
    }
    let dashboard = full(jobs.client());
    let once = || {
        let page = get(&dashboard, "/schedules");
        let (_, id) = page.text().split_once("name=\"once\" value=\"").unwrap();
        id.split_once('"').unwrap().0.to_owned()
    };
    let run_of = |dashboard: &Dashboard, schedule: &str, once: &str| {
        let form = format!("schedule={schedule}&once={once}&confirm=yes");
        submit(dashboard, "/api/v1/schedules/run", &form)
    };
    let run = |dashboard: &Dashboard, once: &str| run_of(dashboard, "report", once);
    let first = once();
    let answers = [run(&dashboard, &first), run(&dashboard, &first)];
    assert_eq!(answers[0].header("location"), answers[1].header("location"));
    assert_eq!(jobs.count().unwrap().pending, 1);
    let other = full(jobs.client());
    assert!(line(&other, &run(&other, &first)).contains("has made the job"));
    assert_eq!(jobs.count().unwrap().pending, 1);
    run(&dashboard, &once());
    assert_eq!(jobs.count().unwrap().pending, 2);
    // Two forms of one page are two.
    let page = once();
    for verb in ["pause", "resume"] {
        let form = format!("kind=mail&once={page}&confirm=yes");
        submit(&dashboard, &format!("/api/v1/kinds/{verb}"), &form);
    }
    run(&dashboard, &page);
    assert_eq!(jobs.count().unwrap().pending, 3);
    // So are "Run now" of two schedules.
    let answer = run_of(&dashboard, "other", &page);
    assert!(line(&dashboard, &answer).contains("\"other\" has made the job"));
    assert_eq!(jobs.count().unwrap().pending, 4);
    // A program may choose an id.
    for _ in 0..2 {
        let body = json!({ "schedule": "report", "once": "of a program" });
        assert_eq!(post(&dashboard, "/api/v1/schedules/run", &body).ok()["result"], "done");
    }
    assert_eq!(jobs.count().unwrap().pending, 5);
}
