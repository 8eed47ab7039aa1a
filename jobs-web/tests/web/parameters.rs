//! Each place knows its parameters: a name that it does not know and a value of another type are refused, and nothing
//! is changed.

use std::collections::BTreeSet;
use std::time::Duration;

use http::Method;
use serde_json::{Value, json};
use tickwheel_jobs::{Driver, GroupId, JobByHand, JobId, Jobs, Limit};

use crate::ask::{
    Charge, everything, full, get, group, mail, manual, post, request, run_due, send, submit,
};

const HOUR: Duration = Duration::from_secs(3600);

/// The parameters of the places that are read, each with its places.
const READS: [(&[&str], &[&str]); 6] = [
    (&["order", "text", "after", "limit"], &["kinds", "api/v1/kinds"]),
    (
        &[
            "state", "kind", "key", "text", "group", "member", "node", "from", "to", "after",
            "before", "limit",
        ],
        &["jobs", "api/v1/jobs"],
    ),
    (&["limit"], &["dead", "groups", "api/v1/dead", "api/v1/groups"]),
    (&["after", "limit"], &["schedules", "api/v1/schedules"]),
    (&["step", "steps", "kind"], &["api/v1/history"]),
    (
        &[],
        &[
            "",
            "jobs/ID",
            "jobs/ID/payload",
            "nodes",
            "store",
            "bulk",
            "metrics",
            "healthz",
            "api/v1/overview",
            "api/v1/jobs/ID",
            "api/v1/nodes",
            "api/v1/store",
        ],
    ),
];

/// A queue with something of each sort.
pub(crate) struct World {
    pub(crate) jobs: Jobs,
    dead: JobId,
    pending: JobId,
    group: GroupId,
    _driver: Driver,
}

impl World {
    pub(crate) fn new() -> World {
        let (jobs, driver) = manual();
        let dead = jobs.insert(Duration::ZERO, mail("fail")).unwrap();
        run_due(&driver);
        let pending = jobs.insert(HOUR, mail("one")).unwrap();
        jobs.schedule("s", HOUR, mail("s")).unwrap();
        let group = jobs.group().add(HOUR, mail("member")).open().unwrap().id();
        jobs.kind::<Charge>().pause().unwrap();
        jobs.queue().limit(Limit::running(9)).unwrap();
        jobs.queue().hold(HOUR).unwrap();
        World { jobs, dead, pending, group, _driver: driver }
    }

    /// Returns each action, with a body that it takes.
    pub(crate) fn actions(&self) -> Vec<(String, Value)> {
        let World { dead, pending, group, .. } = self;
        let of_jobs = [
            (format!("jobs/{dead}/retry"), json!({})),
            (format!("jobs/{dead}/again"), json!({})),
            (format!("jobs/{dead}/delete"), json!({"confirm": true})),
            (format!("jobs/{pending}/cancel"), json!({"confirm": true})),
            (format!("jobs/{pending}/reschedule"), json!({"when": "2h"})),
            (format!("groups/{group}/seal"), json!({"confirm": true})),
            (format!("groups/{group}/cancel"), json!({"confirm": true})),
        ];
        let partition = json!({"scope": "partition", "kind": "mail", "partition": "acme"});
        let others = [
            ("queue/pause", json!({})),
            ("queue/resume", json!({})),
            ("kinds/pause", json!({"kind": "mail"})),
            ("kinds/resume", json!({"kind": "charge"})),
            ("scopes/pause", partition.clone()),
            ("scopes/resume", partition),
            ("kinds/keep", json!({"kind": "mail", "last": 7, "age": "1d"})),
            ("kinds/head-start", json!({"kind": "mail", "by": "1m"})),
            ("kinds/insert", json!({"kind": "mail", "payload": "{}", "key": "a"})),
            ("scopes/limit", json!({"scope": "queue", "rate": 7, "per": "1m"})),
            ("scopes/lift", json!({"scope": "queue", "program": true})),
            ("scopes/hold", json!({"scope": "flow", "flow": "bank", "for": "1m"})),
            ("scopes/release", json!({"scope": "queue"})),
            ("schedules/run", json!({"schedule": "s"})),
            ("schedules/pause", json!({"schedule": "s"})),
            ("schedules/unschedule", json!({"schedule": "s", "confirm": true})),
            ("bulk/1/stop", json!({})),
            ("bulk", json!({"action": "delete", "state": "dead", "kind": "mail", "confirm": 1})),
            ("bulk", json!({"action": "cancel", "id": [pending.to_string()], "confirm": 1})),
        ];
        of_jobs.into_iter().chain(others.map(|(place, body)| (place.to_owned(), body))).collect()
    }
}

/// P92: A place refuses the names of other places, another case, a name twice, and an empty value.
#[test]
fn reads_refuse_parameters_that_they_do_not_know() {
    let (jobs, _driver) = manual();
    let id = jobs.insert(HOUR, mail("one")).unwrap();
    let dashboard = full(jobs.client());
    let ask = |path: &str, query: &str| {
        get(&dashboard, &format!("/{}?{query}", path.replace("ID", &id.to_string())))
    };
    let every: BTreeSet<&str> = READS.iter().flat_map(|(known, _)| known.iter().copied()).collect();
    for (known, path) in
        READS.iter().flat_map(|(known, all)| all.iter().map(move |it| (*known, *it)))
    {
        assert_eq!(ask(path, "queue=default").status, 200, "{path}");
        let mut wrong =
            vec!["Kind=mail".to_owned(), "n=1".to_owned(), "=".to_owned(), "form=else".to_owned()];
        wrong.extend(
            every.iter().filter(|name| !known.contains(name)).map(|name| format!("{name}=1")),
        );
        wrong.extend(known.iter().map(|name| format!("{name}=")));
        wrong.extend(known.iter().map(|name| format!("{name}=1&{name}=1")));
        wrong.push("queue=default&queue=default".to_owned());
        for query in wrong {
            let answer = ask(path, &query);
            let name = query.split('=').next().unwrap();
            assert_eq!(answer.status, 400, "{path}?{query}: {}", answer.text());
            assert!(answer.text().contains(name), "{path}?{query}: {}", answer.text());
        }
    }
}

/// No link of a page is longer than what a request may have, however long the names and the error of a job are.
#[test]
fn links_are_short_enough_to_be_followed() {
    let (jobs, driver) = manual();
    let longest = "é".repeat(127);
    let error = format!("fail {}", "я".repeat(2000));
    jobs.insert(Duration::ZERO, mail(&error)).unwrap();
    run_due(&driver);
    let mut job = JobByHand::new(&longest, *b"{}");
    job.key = Some(longest.clone());
    jobs.insert_by_hand(HOUR, job).unwrap();
    jobs.schedule(&longest, HOUR, mail("s")).unwrap();
    let dashboard = full(jobs.client());
    let query = format!("state=pending&kind={0}&key={0}&text={0}", crate::ask::encoded(&longest));
    let pages = ["/dead", "/kinds", "/schedules", &format!("/jobs?{query}")].map(str::to_owned);
    for page in pages {
        let html = get(&dashboard, &page).text().to_owned();
        let links = html.split("href=\"./").skip(1).map(|link| link.split('"').next().unwrap());
        for link in links.filter(|link| link.contains('?')) {
            let link = format!("/{}", link.replace("&amp;", "&"));
            assert_eq!(get(&dashboard, &link).status, 200, "{link}");
        }
        let back = html.split("name=\"back\" value=\"").skip(1);
        assert!(back.map(|it| it.split('"').next().unwrap()).all(|it| it.len() < 4096), "{page}");
    }
}

/// P92: The form of a search has empty fields, which are none. A filter whose text no field can hold is kept.
#[test]
fn searches_may_have_empty_fields() {
    let (jobs, _driver) = manual();
    jobs.insert_job(tickwheel_jobs::NewJob::new(mail("one")).at(HOUR).key("line\nline")).unwrap();
    let dashboard = full(jobs.client());
    let filter =
        |query: &str| get(&dashboard, &format!("/api/v1/jobs?{query}")).ok()["filter"].clone();
    let found = filter("form=search&state=dead&text=a&kind=&key=&from=&to=");
    assert_eq!(
        (&found["text"], &found["kind"], &found["key"]),
        (&"a".into(), &Value::Null, &Value::Null)
    );
    let found = filter("form=search&state=pending&text=&kind=&key=&keep=key%3Dline%250Aline");
    assert_eq!(found["key"], "line\nline");
    let found = filter("form=search&state=pending&text=&kind=&key=other&keep=key%3Dline%250Aline");
    assert_eq!(found["key"], "other");
    let of_node = get(&dashboard, "/jobs?state=running&node=shop-3%2F4711");
    for text in ["On the node", "No job matches", "value=\"node=shop-3%2F4711\""] {
        assert!(of_node.text().contains(text), "{text}: {}", of_node.text());
    }
    let again = filter("form=search&state=running&text=a&keep=node%3Dshop-3%252F4711");
    assert_eq!(again["node"], "shop-3/4711");
    assert_eq!(get(&dashboard, "/jobs?state=pending&node=shop-3%2F4711").status, 400);
    let page = get(&dashboard, "/jobs?state=pending&key=line%0Aline");
    assert!(page.text().contains("name=\"keep\" value=\"key=line%0Aline\""), "{}", page.text());
    for wrong in ["form=search&keep=n%3D1", "keep=key%3Da", "form=search&kind=a&kind=b"] {
        assert_eq!(get(&dashboard, &format!("/api/v1/jobs?{wrong}")).status, 400, "{wrong}");
    }
}

/// P92: An action refuses a name that it does not know, a value of another type, and a list where one value is wanted.
/// Then nothing is changed.
#[test]
fn actions_refuse_parameters_that_they_do_not_know() {
    let world = World::new();
    let (jobs, dead) = (&world.jobs, world.dead);
    let dashboard = full(jobs.client());
    let group = group(&dashboard, "fail");
    let before = everything(jobs);
    let delete = json!({"action": "delete", "state": "dead", "kind": "mail", "confirm": 1});
    let is_setting = |place: &str| {
        let verb = place.rsplit('/').next().unwrap_or_default();
        ["limit", "lift", "hold", "release", "keep", "head-start"].contains(&verb)
    };
    for (place, right) in &world.actions() {
        let mut wrong: Vec<(String, Value)> =
            ["Kind", "kinds", "errors", "error", "ids", "n", "", "limit", "after", "was"]
                .into_iter()
                // Only the question about a setting sends its text.
                .filter(|name| *name != "was" || !is_setting(place))
                .map(|name| (name.to_owned(), json!("1")))
                .collect();
        let known = right.as_object().unwrap();
        for name in known.keys().map(String::as_str).chain(["back", "queue", "once"]) {
            let others = [
                json!(null),
                json!([]),
                json!(["a", "b"]),
                json!([["a"]]),
                json!({"a": "b"}),
                json!(""),
            ];
            let others = others.into_iter().filter(|other| name != "back" || !other.is_string());
            wrong.extend(others.map(|other| (name.to_owned(), other)));
            let is_flag = name == "program" || name == "confirm" && place != "bulk";
            wrong.push((name.to_owned(), if is_flag { json!(1) } else { json!(true) }));
            if !matches!(name, "confirm" | "last" | "rate") {
                wrong.push((name.to_owned(), json!(7)));
            }
        }
        for (name, value) in wrong {
            let mut body = right.clone();
            body[&name] = value;
            let answer = post(&dashboard, &format!("/api/v1/{place}"), &body);
            let expected = if name == "queue" && body["queue"] == "" { 404 } else { 400 };
            assert_eq!(answer.status, expected, "{place} {body}: {}", answer.text());
            assert!(
                answer.text().contains(&name) || name == "action",
                "{place} {body}: {}",
                answer.text()
            );
            assert_eq!(everything(jobs), before, "{place} {body}");
        }
        // A form: an unknown name, and a name twice.
        for form in ["n=1", "back=kinds&back=kinds"] {
            let answer = submit(&dashboard, &format!("/api/v1/{place}"), form);
            assert_eq!(answer.status, 400, "{place} {form}");
        }
        assert_eq!(everything(jobs), before, "{place}");
    }
    // A name twice in one object.
    let twice = r#"{"kind": "mail", "kind": "charge"}"#;
    let headers = [("content-type", "application/json")];
    let twice = request(Method::POST, "/api/v1/kinds/pause", &headers, twice);
    let answer = send(&dashboard, twice);
    assert!(answer.status == 400 && answer.text().contains("kind comes twice"), "{answer:?}");
    assert_eq!(everything(jobs), before);
    // A bulk without a filter needs a word, and no two things at once.
    for (name, value) in [
        ("kind", Value::Null),
        ("id", json!([dead.to_string()])),
        ("all", json!(true)),
        ("text", json!("")),
        ("group", json!("7")),
        ("group", json!("")),
    ] {
        let mut body = delete.clone();
        match value {
            Value::Null => drop(body.as_object_mut().unwrap().remove(name)),
            value => body[name] = value,
        }
        let answer = post(&dashboard, "/api/v1/bulk", &body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.text());
    }
    assert_eq!(everything(jobs), before);
    let all = json!({"action": "delete", "state": "dead", "all": true});
    assert_eq!(post(&dashboard, "/api/v1/bulk", &all).ok()["jobs"]["count"], 1);
    let of_group = json!({"action": "delete", "state": "dead", "group": group});
    assert_eq!(post(&dashboard, "/api/v1/bulk", &of_group).ok()["jobs"]["count"], 1);
    let list = request(
        Method::POST,
        "/api/v1/bulk?kind=a",
        &[("content-type", "application/json")],
        &delete.to_string(),
    );
    assert_eq!(send(&dashboard, list).status, 400, "a name in the query and in the body");
}
