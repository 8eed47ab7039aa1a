//! Limits, holds, kept jobs and head starts that an operator sets, the line about them on every page, and jobs that are
//! inserted by hand.

use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_jobs::{Client, JobByHand, Jobs, Limit, LimitScope};

use crate::ask::{
    Answer, audited, encoded, full, get, mail, manual, on_stores, post, run_due, submit, texts,
};

const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

fn limit_of(client: &Client, scope: &LimitScope) -> Option<Limit> {
    let all = client.queue().limits().unwrap();
    all.into_iter().find(|info| info.scope == *scope).map(|info| info.limit)
}

/// Returns the line under the head of a page.
fn slowed(page: &Answer) -> String {
    let (_, rest) = page.text().split_once("id=\"slowed\"").expect("a place for what slows jobs");
    rest.split("</div>").next().unwrap().replace("&quot;", "\"")
}

/// P109: An operator sets the limit of each scope, and holds it. After the lift, the limit of the program holds again.
/// The audit gets the new setting in a sentence.
#[test]
fn limits_are_set_and_lifted() {
    on_stores(|jobs, _driver| {
        let (dashboard, told) = audited(full(jobs.client()));
        let act = |verb: &str, scope: &Value, more: Value| {
            let mut body = scope.clone();
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            post(&dashboard, &format!("/api/v1/scopes/{verb}"), &body).ok()["text"].to_string()
        };
        let of_program = Limit::running(20).rate(9, MINUTE);
        jobs.kind_named("mail").limit(of_program).unwrap();
        let (kind, partition) = ("mail".to_owned(), "acme".to_owned());
        let scopes = [
            (json!({"scope": "queue"}), LimitScope::Queue, Limit::none()),
            (json!({"scope": "kind", "kind": "mail"}), LimitScope::Flow(kind.clone()), of_program),
            (
                json!({"scope": "each_partition", "kind": "mail"}),
                LimitScope::Each(kind.clone()),
                Limit::none(),
            ),
            (
                json!({"scope": "partition", "kind": "mail", "partition": "acme"}),
                LimitScope::Partition { kind, partition },
                Limit::none(),
            ),
        ];
        for (body, scope, before) in scopes {
            let more = json!({"running": 2, "rate": 100, "per": "1m", "burst": 5});
            let limit = Limit::running(2).rate(100, MINUTE).burst(5);
            assert!(act("limit", &body, more).contains("at most 2 run at once"), "{scope}");
            assert_eq!(limit_of(jobs, &scope), Some(limit), "{scope}");
            act("limit", &body, json!({"running": 1}));
            // A program that starts again does not replace the limit set by hand.
            jobs.kind_named("mail").limit(of_program).unwrap();
            assert_eq!(limit_of(jobs, &scope), Some(Limit::running(1)), "{scope}");
            let text = act("lift", &body, json!({}));
            assert_eq!(limit_of(jobs, &scope).unwrap_or_default(), before, "{scope}: {text}");
            assert!(text.contains(&before.to_string()) || text.contains("has no limit"), "{text}");
            if body["scope"] == "each_partition" {
                let mut hold = body.clone();
                hold["for"] = json!("1m");
                assert_eq!(post(&dashboard, "/api/v1/scopes/hold", &hold).status, 400);
                continue;
            }
            assert!(act("hold", &body, json!({"for": "1h"})).contains("is held until"));
            // Of two holds, the one that ends later counts, and the text names it.
            assert!(act("hold", &body, json!({"for": "1m"})).contains("It was so before."));
            let held = jobs.queue().limits().unwrap().into_iter().find(|it| it.scope == scope);
            assert!(held.is_some_and(|it| it.held_until.is_some()), "{scope}");
            assert!(act("release", &body, json!({})).contains("is not held."));
            assert!(act("release", &body, json!({})).contains("It was so before."));
        }
        // The limit of the program goes only with a word of its own.
        let of_kind = json!({"scope": "kind", "kind": "mail"});
        let refused = post(&dashboard, "/api/v1/scopes/lift", &of_kind);
        let says = "has no limit set by hand. It has the limit: at most 20 run at once";
        assert!(refused.status == 409 && refused.text().contains(says), "{refused:?}");
        let flow = LimitScope::Flow("mail".to_owned());
        assert_eq!(limit_of(jobs, &flow), Some(of_program));
        for was_so in [false, true] {
            let text = act("lift", &of_kind, json!({"program": true}));
            assert!(text.contains("has no limit"), "{text}");
            assert_eq!(text.contains("It was so before."), was_so, "{text}");
        }
        let told = told.lock().unwrap();
        let first = "limit the queue 1: The queue has the limit: at most 2 run at once, at most 100 start in 1 m, 5 \
                     of them at once.";
        assert_eq!(told[0], first);
        let last = &told[told.len() - 1];
        assert!(last.starts_with("lift the kind \"mail\" 0: "), "{last}");
    });
}

/// P109: Every page names each pause, each hold and each limit set by hand, and links to the page that lifts it. The
/// pages do not name the limit of a program. After the lift, they name nothing.
#[test]
fn pages_say_what_slows_jobs_until_it_is_lifted() {
    on_stores(|jobs, _driver| {
        let id = jobs.insert_by_hand(HOUR, JobByHand::new("mail", *b"{}")).unwrap();
        jobs.kind_named("mail").limit(Limit::running(3)).unwrap();
        let pages = ["/", "/kinds", "/kind?kind=mail", "/jobs", "/dead", "/groups", "/schedules"];
        let mut pages: Vec<String> = pages.map(str::to_owned).into();
        pages.extend(["/nodes", "/store", "/bulk", "/jobs?state=else"].map(str::to_owned));
        pages.push(format!("/jobs/{id}"));
        let dashboard = full(jobs.client());
        let act =
            |path: &str, body: Value| post(&dashboard, &format!("/api/v1/{path}"), &body).ok();
        let partition = json!({"scope": "partition", "kind": "mail", "partition": "a/b"});
        let (each, flow) =
            (json!({"scope": "each_partition", "kind": "mail", "running": 2}), "bank");
        let hold = json!({"scope": "flow", "flow": flow, "for": "1h"});
        let lift = json!({"scope": "each_partition", "kind": "mail"});
        let release = json!({"scope": "flow", "flow": flow});
        let mail = json!({"kind": "mail"});
        for (path, body, undo, with, said, link) in [
            ("queue/pause", json!({}), "queue/resume", json!({}), "Paused: the queue.", "kinds"),
            (
                "kinds/pause",
                mail.clone(),
                "kinds/resume",
                mail,
                "Paused: the kind \"mail\".",
                "kind?kind=mail",
            ),
            (
                "scopes/pause",
                partition.clone(),
                "scopes/resume",
                partition,
                "Paused: the partition \"a/b\" of the kind \"mail\".",
                "kind?kind=mail",
            ),
            (
                "scopes/limit",
                each,
                "scopes/lift",
                lift,
                "Limited by hand: each partition of the kind \"mail\", at most 2 run at once.",
                "kind?kind=mail",
            ),
            (
                "scopes/hold",
                hold,
                "scopes/release",
                release,
                "Held for another 1 h: the flow \"bank\".",
                "kinds#limits",
            ),
        ] {
            act(path, body);
            for page in &pages {
                let page_slowed = slowed(&get(&dashboard, page));
                assert!(page_slowed.contains(said), "{page}: {page_slowed}");
                assert!(page_slowed.contains(&format!("{link}\"")), "{page}: {page_slowed}");
            }
            let question = submit(&dashboard, "/api/v1/queue/pause", "back=jobs");
            assert!(slowed(&question).contains(said), "{question:?}");
            let overview = get(&dashboard, "/api/v1/overview").ok();
            assert_eq!(overview["slowdowns"]["total"], 1, "{overview}");
            // The page behind the link has the button that lifts it.
            let place = link.split('#').next().unwrap();
            let place = get(&dashboard, &format!("/{place}"));
            assert!(place.text().contains(&format!("api/v1/{undo}\"")), "{undo}: {}", place.text());
            act(undo, with);
            for page in &pages {
                assert!(!slowed(&get(&dashboard, page)).contains("<span"), "{page}");
            }
        }
        // A kind without a job can be paused. The page of the kinds lists it, with the button that resumes it.
        act("kinds/pause", json!({"kind": "never"}));
        assert!(get(&dashboard, "/kinds").text().contains("data-key=\"never\""));
    });
}

/// P109: A page names at most four slowdowns, and says how many more there are. It lists at most a hundred scopes, and
/// begins with those that are paused or held, or have a limit set by hand. The limit of a shown kind is at its kind,
/// also if it is none of these.
#[test]
fn pages_say_few_slowdowns_and_lists_begin_with_them() {
    let (jobs, _driver) = manual();
    for n in 0..120 {
        jobs.kind_named(&format!("a{n:03}")).limit(Limit::running(1)).unwrap();
    }
    for n in 0..7 {
        jobs.kind_named("mail").partition(&format!("p{n}")).pause().unwrap();
    }
    jobs.kind_named("mail").limit(Limit::running(7)).unwrap();
    jobs.insert(HOUR, mail("later")).unwrap();
    let dashboard = full(jobs.client());
    let page = slowed(&get(&dashboard, "/nodes"));
    assert!(page.matches("Paused: ").count() == 4 && page.contains("And 3 more"), "{page}");
    let kinds = get(&dashboard, "/api/v1/kinds").ok();
    let limits = &kinds["limits"];
    let first = &limits["rows"][0];
    assert_eq!((&first["partition"], &first["is_paused"]), (&json!("p0"), &json!(true)), "{first}");
    assert_eq!((&limits["rows"][7]["flow"], &limits["total"]), (&json!("a000"), &json!(128)));
    assert_eq!(texts(&limits["rows"], "scope").len(), 100);
    let of_mail = kinds["rows"].as_array().unwrap().iter().find(|row| row["kind"] == "mail");
    assert_eq!(of_mail.unwrap()["limits"][0]["most_running"], 7);
    assert!(get(&dashboard, "/kinds").text().contains("The first 100 of 128 scopes"));
}

/// A browser gets a question before a setting changes. The question shows the setting before and after. The next page
/// shows the result in a sentence.
#[test]
fn settings_of_a_kind_are_asked_for_and_told() {
    let (jobs, driver) = manual();
    jobs.insert_by_hand(HOUR, JobByHand::new("mail", *b"{}")).unwrap();
    jobs.kind_named("mail").limit(Limit::running(20)).unwrap();
    let dashboard = full(jobs.client());
    let ask = |path: &str, form: &str, says: &str, done: &str| {
        let form = format!("form=set&back=kind%3Fkind%3Dmail&{form}");
        let question = submit(&dashboard, &format!("/api/v1/{path}"), &form);
        let text = question.text().replace("&quot;", "\"").replace('\u{202f}', " ");
        assert!(question.status == 200 && text.contains(says), "{path}: {text}");
        let answer = submit(&dashboard, &format!("/api/v1/{path}"), &format!("{form}&confirm=yes"));
        let location = answer.header("location").trim_start_matches("../");
        assert!(location.starts_with("kind?kind=mail&said="), "{location}");
        let page = get(&dashboard, &format!("/{location}")).text().replace("&quot;", "\"");
        let page = page.replace('\u{202f}', " ");
        assert!(page.contains(done), "{path}: {done} is not in {page}");
        page
    };
    let empty = "partition=&rate=&per=&burst=&weight=";
    ask(
        "scopes/limit",
        &format!("scope=kind&kind=mail&running=2&{empty}"),
        "which has the limit: at most 20 run at once. Then it has the limit: at most 2 run at once",
        "The kind \"mail\" has the limit: at most 2 run at once.",
    );
    ask(
        "scopes/lift",
        "scope=kind&kind=mail",
        "Then it has the limit: at most 20 run at once",
        "has the limit: at most 20 run at once.",
    );
    ask(
        "scopes/hold",
        "scope=kind&kind=mail&for=5m",
        "Then no job of it starts for 5 m",
        "is held until",
    );
    // Of two holds the later end counts, also in the question.
    let shorter = "form=set&scope=kind&kind=mail&for=1m";
    let shorter = submit(&dashboard, "/api/v1/scopes/hold", shorter);
    assert!(shorter.text().contains("It stays so"), "{shorter:?}");
    ask(
        "kinds/keep",
        "kind=mail&last=7&age=1d&bytes=",
        "the last 1000. Then it keeps of its completed jobs: the last 7, for 1 d",
        "keeps of its completed jobs: the last 7, for 1 d.",
    );
    let page = ask(
        "kinds/head-start",
        "kind=mail&by=1m",
        "no head start. Then it has a head start of 1 m",
        "has a head start of 1 m.",
    );
    assert!(page.contains("keeps the last 7, for 1 d"), "{page}");
    ask("kinds/keep", "kind=mail&last=0", "completed jobs: nothing", "completed jobs: nothing.");
    ask("kinds/head-start", "kind=mail&by=0s", "Then it has no head start", "no head start.");
    drop(driver);
    for (path, form, says) in [
        ("scopes/limit", "scope=queue&running=", "a limit has the parameter running"),
        (
            "scopes/limit",
            "scope=queue&running=1&kind=mail",
            "kind has no meaning beside scope=queue",
        ),
        ("scopes/limit", "scope=queue&rate=7&per=", "the parameter per is missing"),
        ("scopes/limit", "scope=queue&running=0&confirm=yes", "use a pause"),
        ("scopes/limit", "scope=queue&running=0", "use a pause"),
        ("scopes/limit", "scope=queue&running=1&burst=2", "burst"),
        ("scopes/limit", "scope=queue&running=1&weight=2", "partition"),
        ("scopes/limit", "scope=queue&running=4294967296", "not too large"),
        ("scopes/hold", "scope=queue&for=0s", "release ends a hold"),
        ("scopes/hold", "scope=queue&for=soon", "a duration as 30s"),
        ("kinds/keep", "kind=mail&last=&age=&bytes=", "one of the parameters last"),
        ("kinds/head-start", "kind=mail&by=11000d&confirm=yes", "ten years"),
        // A question refuses what its confirmation would.
        ("kinds/head-start", "kind=mail&by=11000d", "ten years"),
        ("scopes/hold", "scope=queue&for=3000000d", "9999"),
        ("scopes/limit", "scope=queue&rate=10/1s", "rate is a number of jobs, and per its period"),
    ] {
        let answer = submit(&dashboard, &format!("/api/v1/{path}"), &format!("form=set&{form}"));
        assert!(answer.status == 400 && answer.text().contains(says), "{form}: {answer:?}");
    }
}

/// A pause of a flow is refused: only the queue, a kind and a partition can be paused. The answer to a limit says if no
/// kind has its flow.
#[test]
fn scopes_that_have_no_effect_are_told() {
    let (jobs, _driver) = manual();
    jobs.insert_by_hand(HOUR, JobByHand::new("mail", *b"{}")).unwrap();
    let dashboard = full(jobs.client());
    let act = |verb: &str, body: Value| post(&dashboard, &format!("/api/v1/scopes/{verb}"), &body);
    for scope in [
        json!({"scope": "queue"}),
        json!({"scope": "kind", "kind": "mail"}),
        json!({"scope": "partition", "kind": "mail", "partition": "mail"}),
    ] {
        assert!(act("pause", scope.clone()).ok()["text"].to_string().contains("is paused"));
        assert!(act("resume", scope).ok()["text"].to_string().contains("goes on"));
    }
    let flow = |name: &str| json!({"scope": "flow", "flow": name});
    let refused = act("pause", flow("bank"));
    assert!(refused.status == 400 && refused.text().contains("a pause is of"), "{refused:?}");
    let limit = |name: &str| {
        let mut limit = flow(name);
        limit["running"] = json!(2);
        act("limit", limit).ok()["text"].to_string()
    };
    assert!(limit("mial").contains("No kind of the queue has this flow."));
    assert!(!limit("mail").contains("No kind"));
}

/// A queue that has the most scopes takes no limit of another one. The answer says that the request cannot be met.
#[test]
fn too_many_scopes_are_a_conflict() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("shop.db");
    let client = Jobs::open(&path).unwrap().client().unwrap();
    let mut file = tickwheel_jobs::rusqlite::Connection::open(&path).unwrap();
    let transaction = file.transaction().unwrap();
    for n in 0..10_000 {
        let set = "INSERT INTO tickwheel_setting VALUES (?1, '{\"running\":1}')";
        transaction.execute(set, [format!("limit-part:4:mail:{n}")]).unwrap();
    }
    transaction.commit().unwrap();
    let dashboard = full(client.clone());
    let limit = json!({"scope": "queue", "running": 7});
    let refused = post(&dashboard, "/api/v1/scopes/limit", &limit);
    assert_eq!((refused.status, &refused.json()["error"]), (409, &"too_many_scopes".into()));
    assert_eq!(limit_of(&client, &LimitScope::Queue), None);
}

/// Each form inserts one job by hand, with its due time, key, partition and headers. An input that is not valid is
/// refused with a sentence. The result warns about a kind without a handler.
#[test]
fn jobs_are_inserted_by_hand() {
    on_stores(|jobs, driver| {
        let dashboard = full(jobs.client());
        // A browser sends `\r\n` for each end of a line.
        let payload = encoded("{\r\n  \"text\": \"by hand, \u{200b}\"\r\n}");
        let form = format!(
            "form=set&kind=mail&payload={payload}&when=5m&key=k&partition=acme&headers={}",
            encoded("tenant: acme\r\n\r\ntrace : a:b ")
        );
        let question = submit(&dashboard, "/api/v1/kinds/insert", &form);
        let html = question.text().replace("&quot;", "\"");
        assert!(html.contains("a job of the kind \"mail\", due "), "{html}");
        assert!(html.contains("value=\"{    \"text\": \"by hand, \\u200b\"  }\""), "{html}");
        assert!(!html.contains("No process handles"), "{html}");
        for _ in 0..2 {
            let form = format!("{form}&confirm=yes&once=7");
            assert_eq!(submit(&dashboard, "/api/v1/kinds/insert", &form).status, 303);
            // A second dashboard gets the same form.
            let other = full(jobs.client());
            assert_eq!(submit(&other, "/api/v1/kinds/insert", &form).status, 303);
        }
        let found: Vec<_> = jobs.pending().collect();
        assert_eq!(found.len(), 1, "{found:?}");
        let job = &found[0];
        assert_eq!((&*job.kind, job.key.as_deref()), ("mail", Some("k")));
        assert_eq!(job.partition.as_deref(), Some("acme"));
        let headers = [("tenant", "acme"), ("trace", "a:b")];
        assert_eq!(job.headers, headers.map(|(name, it)| (name.to_owned(), it.to_owned())).into());
        let payload: Value = serde_json::from_slice(&job.payload).unwrap();
        assert_eq!(payload, json!({"text": "by hand, \u{200b}"}));

        let insert = |body: &Value| post(&dashboard, "/api/v1/kinds/insert", body);
        let taken = insert(&json!({"kind": "mail", "payload": "{}", "key": "k"}));
        assert!(taken.status == 409 && taken.text().contains("has the key"), "{taken:?}");
        // The question is refused as the insert is.
        let taken = "form=set&kind=mail&payload=%7B%7D&key=k";
        let taken = submit(&dashboard, "/api/v1/kinds/insert", taken);
        assert!(taken.status == 409 && taken.text().contains("has the key"), "{taken:?}");
        let replaced =
            json!({"kind": "mail", "payload": "{\"text\": \"new\"}", "key": "k", "replace": true});
        insert(&replaced).ok();
        let absent = insert(&json!({"kind": "never", "payload": "7", "when": "1h"})).ok();
        assert!(absent["text"].to_string().contains("No process handles this kind"), "{absent}");
        let long = "x".repeat(256);
        for (body, says) in [
            (json!({"kind": "mail", "payload": "{\"text\": }"}), "the payload is no JSON: "),
            (json!({"kind": "mail", "payload": ""}), "the payload is no JSON: "),
            (json!({"kind": "mail"}), "payload is missing"),
            (json!({"kind": long, "payload": "{}"}), "the parameter kind has at most 255 bytes"),
            (json!({"kind": "mail", "payload": "{}", "key": long}), "key has at most 255 bytes"),
            (
                json!({"kind": "mail", "payload": "{}", "partition": long}),
                "partition has at most 255",
            ),
            (json!({"kind": "mail", "payload": "{}", "headers": "tenant"}), "a line of headers is"),
            (json!({"kind": "mail", "payload": "{}", "headers": "a: b\na: c"}), "comes twice"),
            (json!({"kind": "mail", "payload": "{}", "when": "soon"}), "when is a time"),
        ] {
            let answer = insert(&body);
            assert!(answer.status == 400 && answer.text().contains(says), "{body}: {answer:?}");
        }
        assert_eq!(jobs.count().unwrap().pending, 2);
        run_due(driver);
        assert_eq!(jobs.count().unwrap().dead, 0);
    });
}
