//! The forms of a page as a browser sends them: read from the HTML, filled, posted, and confirmed.

use std::time::Duration;

use tickwheel_jobs::view::{KindFilter, Time, View};
use tickwheel_jobs::{HowChanged, Jobs, Limit, LimitInfo, LimitScope, StoreError, StoredLimit};
use tickwheel_jobs_web::Dashboard;

use crate::ask::{Answer, encoded, full, get, manual, submit};

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

/// Returns what the store has of the settings that a verb changes, in words.
fn effect(jobs: &Jobs, verb: &str) -> String {
    let page = View::new(jobs.client()).kind("mail", 9).unwrap();
    let limits = jobs.queue().limits().unwrap();
    let all = |of: &dyn Fn(&LimitInfo) -> Option<String>| {
        let all: Vec<String> = limits.iter().filter_map(of).collect();
        all.join("; ")
    };
    match verb {
        "limit" | "lift" => {
            all(&|it| (it.limit != Limit::none()).then(|| format!("{}: {}", it.scope, it.limit)))
        }
        "hold" | "release" => all(&|it| {
            let left = Time::from(it.held_until?).ms_since(page.now) + 1_800_000;
            Some(format!("{} for {} h", it.scope, left / 3_600_000))
        }),
        "pause" | "resume" => {
            let paused = page.partitions.rows.iter().filter(|row| row.is_paused);
            let paused = paused.filter_map(|row| row.partition.as_deref());
            let kinds = View::new(jobs.client()).kinds(&KindFilter::default(), None, 9).unwrap();
            let kinds = kinds.rows.iter().filter(|row| row.is_paused).map(|row| &*row.kind);
            let queue = if jobs.queue().is_paused().unwrap() { "queue" } else { "" };
            [queue].into_iter().chain(kinds).chain(paused).collect::<Vec<_>>().join(" ")
        }
        "keep" => page.kind.keeps.unwrap_or_default(),
        "head-start" => format!("{:?}", page.kind.head_start_ms),
        _ => {
            let jobs = jobs.pending().map(|job| {
                let payload = String::from_utf8_lossy(&job.payload).into_owned();
                let headers: Vec<_> = job.headers.iter().collect();
                format!("{} {payload} {:?} {:?} {headers:?}", job.kind, job.key, job.partition)
            });
            jobs.collect::<Vec<_>>().join("; ")
        }
    }
}

/// Returns the effects that a verb may have, one for each form of a page that has it.
fn wanted(verb: &str, scope: &str, page: &str) -> Vec<String> {
    let limit = "at most 2 run at once, at most 100 start in 1 m, 5 of them at once";
    let (queue, flow) =
        ("the queue: at most 30 run at once", "the flow \"mail\": at most 20 run at once");
    let partition = "the partition \"acme\" of the kind \"mail\"";
    match (verb, scope, page) {
        ("limit", _, "/kinds") => vec![format!("the queue: {limit}; {flow}")],
        ("limit", "kind", _) => vec![format!("{queue}; the flow \"mail\": {limit}")],
        ("limit", "each_partition", _) => {
            vec![format!("{queue}; {flow}; each partition of the kind \"mail\": {limit}, weight 3")]
        }
        ("limit", ..) => vec![format!("{queue}; {flow}; {partition}: {limit}, weight 3")],
        ("lift", ..) => vec![flow.to_owned(), queue.to_owned()],
        ("hold", "partition", _) => {
            vec![format!("the queue for 1 h; the flow \"mail\" for 1 h; {partition} for 5 h")]
        }
        ("hold", _, "/kinds") => vec!["the queue for 5 h; the flow \"mail\" for 1 h".to_owned()],
        ("hold", ..) => vec!["the queue for 1 h; the flow \"mail\" for 5 h".to_owned()],
        ("release", ..) => {
            ["the flow \"mail\" for 1 h", "the queue for 1 h"].map(str::to_owned).into()
        }
        ("pause", ..) => ["queue paused", " charge paused", " mail paused", " acme paused"]
            .map(str::to_owned)
            .into(),
        ("resume", ..) => vec![String::new()],
        ("keep", ..) => vec!["the last 7, for 7 d, up to 4096 bytes".to_owned()],
        ("head-start", ..) => vec!["Some(60000)".to_owned()],
        _ => vec![
            "mail {\"text\": \"by hand\"} Some(\"k\") Some(\"acme\") \
            [(\"tenant\", \"acme\"), (\"trace\", \"a:b\")]"
                .to_owned(),
        ],
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
            let first = form.send(&dashboard, |name, values| typed(&form, scope, name, values));
            let done = if first.status == 303 { first } else { confirm(&dashboard, &first) };
            assert_eq!(done.status, 303, "{page} {} {scope}: {done:?}", form.target);
            let verb = form.target.rsplit('/').next().unwrap().to_owned();
            let (effect, wanted) = (effect(&jobs, &verb), wanted(&verb, scope, page));
            assert!(wanted.contains(&effect), "{page} {verb} {scope}: {effect:?}");
            sent.push(verb);
        }
    }
    for verb in
        ["pause", "resume", "limit", "lift", "hold", "release", "keep", "head-start", "insert"]
    {
        assert!(sent.iter().any(|it| it == verb), "no page has a form of {verb}: {sent:?}");
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
        let verb = path.rsplit('/').next().unwrap();
        let path = format!("/api/v1/{path}");
        let tabs = [one, other].map(|form| submit(&dashboard, &path, form));
        assert_eq!(confirm(&dashboard, &tabs[0]).status, 303, "{path}");
        let made = effect(&jobs, verb);
        assert_eq!(confirm(&dashboard, &tabs[1]).status, 409, "{path}");
        assert_eq!(effect(&jobs, verb), made, "{path}");
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

/// A question shows the setting after the change: of two holds, the later end.
#[test]
fn question_of_a_shorter_hold_says_that_it_changes_nothing() {
    let (jobs, _driver) = manual();
    jobs.queue().hold(HOUR).unwrap();
    let form = "form=set&scope=queue&for=5m";
    let question = submit(&full(jobs.client()), "/api/v1/scopes/hold", form);
    assert!(question.text().contains("It stays so"), "{question:?}");
}
