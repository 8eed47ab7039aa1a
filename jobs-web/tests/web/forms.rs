//! The forms of a page as a browser sends them: read from the HTML, filled, posted, and confirmed.

use std::time::Duration;

use tickwheel_jobs::{HowChanged, Jobs, Limit, LimitScope, StoreError, StoredLimit};
use tickwheel_jobs_web::Dashboard;

use crate::ask::{Answer, encoded, everything, full, get, manual, submit};
use crate::outcomes::line;

const HOUR: Duration = Duration::from_secs(3600);

/// A form of a page: its target, and its fields with the values that a reader may choose.
pub(crate) struct Form {
    pub(crate) target: String,
    pub(crate) fields: Vec<(String, Vec<String>)>,
}

/// Returns the forms of a page that use POST.
pub(crate) fn forms(page: &Answer) -> Vec<Form> {
    let forms = page.text().split("<form").skip(1).map(|form| form.split("</form>").next());
    forms.flatten().filter(|form| form.contains("method=\"post\"")).map(form).collect()
}

fn form(html: &str) -> Form {
    let mut fields: Vec<(String, Vec<String>)> = Vec::new();
    for piece in html.split('<') {
        let (tag, text) = piece.split_once('>').unwrap_or((piece, ""));
        let value = || attribute(tag, "value").unwrap_or_default();
        match (tag.split(' ').next(), attribute(tag, "name")) {
            (Some("input"), Some(_)) if tag.contains("type=\"checkbox\"") => {}
            (Some("input"), Some(name)) => fields.push((name, vec![value()])),
            (Some("textarea"), Some(name)) => fields.push((name, vec![plain(text)])),
            (Some("select"), Some(name)) => fields.push((name, Vec::new())),
            (Some("option"), _) => {
                if let Some((_, values)) = fields.last_mut() {
                    values.push(value());
                }
            }
            _ => {}
        }
    }
    let target = attribute(html.split('>').next().unwrap_or_default(), "action").unwrap();
    Form { target: format!("/{}", target.trim_start_matches(['.', '/'])), fields }
}

fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    rest.split('"').next().map(plain)
}

fn plain(html: &str) -> String {
    html.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&")
}

impl Form {
    /// Posts the form. `fill` returns the value of a field. It gets the name of the field, and the values that the
    /// field offers.
    pub(crate) fn send(
        &self,
        dashboard: &Dashboard,
        fill: impl Fn(&str, &[String]) -> String,
    ) -> Answer {
        let pair = |(name, values): &(String, Vec<String>)| {
            format!("{name}={}", encoded(&fill(name, values)))
        };
        let pairs: Vec<String> = self.fields.iter().map(pair).collect();
        submit(dashboard, &self.target, &pairs.join("&"))
    }
}

/// Confirms a question without a change to its fields.
pub(crate) fn confirm(dashboard: &Dashboard, question: &Answer) -> Answer {
    assert_eq!(question.status, 200, "{question:?}");
    let all = forms(question);
    all.last().expect("a question").send(dashboard, |_, values| values[0].clone())
}

/// Returns what a reader types, or the value that a field has.
fn typed(form: &Form, scope: &str, name: &str, values: &[String]) -> String {
    let text = match name {
        "scope" if values.len() > 1 => scope,
        "partition" if form.target.ends_with("/pause") || form.target.ends_with("/insert") => {
            "acme"
        }
        "partition" if scope == "partition" => "acme",
        "weight" if scope != "kind" => "3",
        "running" => "2",
        "rate" => "100",
        "per" | "by" => "1m",
        "burst" => "5",
        "for" => "5h",
        "last" => "7",
        "age" => "7d",
        "bytes" => "4096",
        "payload" => "{\"text\": \"by hand\"}",
        "headers" => "tenant: acme\r\ntrace: a:b",
        "when" => "10m",
        "key" => "k",
        _ => "",
    };
    match &*values[0] {
        "" => text.to_owned(),
        _ if name == "scope" && values.len() > 1 => text.to_owned(),
        value => value.to_owned(),
    }
}

/// Returns jobs with a setting of each sort, so that their pages have each form.
fn set_up() -> (Jobs, tickwheel_jobs::Driver) {
    let (jobs, driver) = manual();
    let kind = jobs.kind_named("mail");
    kind.limit(Limit::running(20)).unwrap();
    let how = HowChanged::default();
    let plan = |stored: StoredLimit| Ok::<_, StoreError>(stored.by_hand(Limit::running(30)));
    let _ = jobs.limit_by_hand(&LimitScope::Queue, how, plan).unwrap();
    kind.hold(HOUR).unwrap();
    kind.partition("paused").pause().unwrap();
    jobs.queue().hold(HOUR).unwrap();
    (jobs, driver)
}

/// Returns what the page says after a verb: of a limit and a hold also of what.
fn wanted(verb: &str, scope: &str, page: &str) -> Vec<&'static str> {
    let of = match scope {
        _ if page == "/kinds" => "The queue ",
        "kind" => "The kind \"mail\" ",
        "each_partition" => "Each partition of the kind \"mail\" ",
        _ => "The partition \"acme\" of the kind \"mail\" ",
    };
    let weight = if of.contains("artition") { "weight 3" } else { "" };
    match verb {
        "limit" => vec![of, "at most 2 run at once, at most 100 start in 1 m, 5 of them", weight],
        "lift" => vec!["has no limit"],
        "hold" => vec![of, "is held until "],
        "release" => vec!["is not held"],
        "pause" => vec!["is paused"],
        "resume" => vec!["goes on"],
        "keep" => vec!["keeps of its completed jobs: the last 7, for 7 d, up to 4096 bytes"],
        "head-start" => vec!["has a head start of 1 m"],
        _ => vec!["is inserted, due "],
    }
}

/// The dashboard accepts every form of the pages with settings, when it is sent as the page draws it, and the store has
/// its effect.
#[test]
fn forms_work_as_the_pages_draw_them() {
    let mut sent = Vec::new();
    for page in ["/kinds", "/kind?kind=mail"] {
        let (jobs, _driver) = set_up();
        let count = forms(&get(&full(jobs.client()), page)).len();
        for (at, scope) in (0..count)
            .flat_map(|at| ["kind", "each_partition", "partition"].map(|scope| (at, scope)))
        {
            let (jobs, _driver) = set_up();
            let dashboard = full(jobs.client());
            let form = forms(&get(&dashboard, page)).swap_remove(at);
            let is_choice = |values: &[String]| values.len() > 1;
            let has_scope = form.fields.iter().any(|(_, values)| is_choice(values));
            let offers = |(_, values): &(String, Vec<String>)| values.iter().any(|it| it == scope);
            if scope != "kind" && !(has_scope && form.fields.iter().any(offers)) {
                continue;
            }
            let before = everything(&jobs);
            let first = form.send(&dashboard, |name, values| typed(&form, scope, name, values));
            let done = if first.status == 303 { first } else { confirm(&dashboard, &first) };
            assert_eq!(done.status, 303, "{page} {} {scope}: {done:?}", form.target);
            let verb = form.target.rsplit('/').next().unwrap().to_owned();
            let said = line(&dashboard, &done).replace('\u{202f}', " ");
            let wanted = wanted(&verb, scope, page);
            let is_said = wanted.iter().all(|wanted| said.contains(wanted));
            assert!(is_said && everything(&jobs) != before, "{page} {verb} {scope}: {said}");
            sent.push(format!("{verb} {scope}"));
        }
    }
    let verbs =
        ["pause", "resume", "limit", "lift", "hold", "release", "keep", "head-start", "insert"];
    let choices = ["limit each_partition", "limit partition", "hold partition"].map(str::to_owned);
    for wanted in verbs.map(|verb| format!("{verb} kind")).iter().chain(&choices) {
        assert!(sent.contains(wanted), "no page has a form of {wanted}: {sent:?}");
    }
}

/// The form that pauses a partition never pauses the kind: without a partition it is refused.
#[test]
fn form_without_a_partition_pauses_nothing() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let page = get(&dashboard, "/kind?kind=mail");
    let all = forms(&page);
    let is_it = |form: &&Form| {
        form.target.ends_with("scopes/pause")
            && form.fields.iter().any(|(name, _)| name == "partition")
    };
    let form = all.iter().find(is_it).expect("the form that pauses a partition");
    let answer = form.send(&dashboard, |_, values| values[0].clone());
    assert!(answer.status == 400 && answer.text().contains("partition is empty"), "{answer:?}");
    assert!(!jobs.kind_named("mail").is_paused().unwrap());
    let filled = |name: &str, values: &[String]| typed(form, "", name, values);
    assert_eq!(confirm(&dashboard, &form.send(&dashboard, filled)).status, 303);
    let page = get(&dashboard, "/api/v1/kind?kind=mail").ok();
    let row = &page["partitions"]["rows"][0];
    assert!(row["partition"] == "acme" && row["is_paused"] == true, "{page}");
    assert!(!jobs.kind_named("mail").is_paused().unwrap());
}

/// Two tabs have asked about the same setting. The first confirmation changes it. The second one is refused, because
/// the setting has changed. So the second of two lifts does not remove the limit of a program.
#[test]
fn confirmation_of_what_has_changed_is_refused() {
    let (jobs, _driver) = manual();
    let kind = jobs.kind_named("mail");
    let dashboard = full(jobs.client());
    // In the second round, the limit set by hand equals the limit of the program.
    for by_hand in [5, 20] {
        kind.limit(Limit::running(20)).unwrap();
        let set = format!("form=set&scope=kind&kind=mail&running={by_hand}&confirm=yes");
        assert_eq!(submit(&dashboard, "/api/v1/scopes/limit", &set).status, 303);
        let lift = || submit(&dashboard, "/api/v1/scopes/lift", "scope=kind&kind=mail");
        let tabs = [lift(), lift()];
        assert_eq!(confirm(&dashboard, &tabs[0]).status, 303);
        let second = confirm(&dashboard, &tabs[1]);
        assert!(second.status == 409 && second.text().contains("has changed"), "{second:?}");
        let limits = jobs.queue().limits().unwrap();
        assert_eq!(limits[0].limit, Limit::running(20));
    }
    for (path, one, other) in [
        ("scopes/limit", "scope=queue&running=1", "scope=queue&running=2"),
        ("scopes/hold", "scope=queue&for=1h", "scope=queue&for=5h"),
        ("kinds/keep", "kind=mail&last=1", "kind=mail&last=2"),
        ("kinds/head-start", "kind=mail&by=1m", "kind=mail&by=2m"),
    ] {
        let path = format!("/api/v1/{path}");
        let tabs = [one, other].map(|form| submit(&dashboard, &path, form));
        assert_eq!(confirm(&dashboard, &tabs[0]).status, 303, "{path}");
        let made = everything(&jobs);
        assert_eq!(confirm(&dashboard, &tabs[1]).status, 409, "{path}");
        assert_eq!(everything(&jobs), made, "{path}");
    }
}

/// Headers may have tokens, so a question sends them in its body. They arrive as the reader typed them.
#[test]
fn question_has_no_header_in_its_target() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let long = "x".repeat(1300);
    let lines = format!("authorization: {long}\r\ntenant: acme\r\ntrace: {long}\r\nspan: {long}");
    let form = |headers: &str| {
        format!("form=set&kind=mail&payload={}&headers={}", encoded("{}"), encoded(headers))
    };
    let question = submit(&dashboard, "/api/v1/kinds/insert", &form(&lines));
    assert!(!forms(&question).last().unwrap().target.contains('?'), "{question:?}");
    assert_eq!(confirm(&dashboard, &question).status, 303);
    let job = jobs.pending().next().unwrap();
    let sent = [("authorization", &*long), ("span", &long), ("tenant", "acme"), ("trace", &long)];
    assert_eq!(job.headers, sent.map(|(name, value)| (name.to_owned(), value.to_owned())).into());
    let hidden = submit(&dashboard, "/api/v1/kinds/insert", &form("tenant: ac\u{200b}me"));
    assert!(hidden.status == 400 && hidden.text().contains("not seen"), "{hidden:?}");
}

/// The form takes the longest payload, also if each of its bytes becomes three bytes in the form.
#[test]
fn longest_payload_is_inserted_by_form() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let payload = format!("[{}{{}}]", "{},".repeat((48 << 10) / 3 - 2));
    let form = format!("form=set&kind=mail&payload={}", encoded(&payload));
    let question = submit(&dashboard, "/api/v1/kinds/insert", &form);
    assert_eq!(confirm(&dashboard, &question).status, 303);
    assert_eq!(jobs.pending().next().unwrap().payload, payload.as_bytes());
    let other = submit(&dashboard, "/api/v1/queue/pause", &format!("back={}", "x".repeat(70_000)));
    assert_eq!(other.status, 413);
}

/// The question before an insert names the job, and says that a replaced job is lost.
#[test]
fn question_of_an_insert_says_what_is_lost() {
    let (jobs, _driver) = manual();
    let dashboard = full(jobs.client());
    let ask = |more: &str| {
        let form = format!("form=set&kind=mail&payload=7&{more}");
        submit(&dashboard, "/api/v1/kinds/insert", &form)
    };
    let text = plain(ask("key=k&partition=acme").text());
    assert!(text.contains("due now, with the key \"k\", in the partition \"acme\""), "{text}");
    assert!(!text.contains("cannot be taken back"), "{text}");
    let text = plain(ask("key=k&replace=yes").text());
    assert!(text.contains("A pending job with the key is lost."), "{text}");
    assert!(text.contains("cannot be taken back"), "{text}");
    let answer = ask("replace=yes");
    assert!(answer.status == 400 && answer.text().contains("replace needs a key"), "{answer:?}");
}
