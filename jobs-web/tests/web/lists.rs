//! Lists and searches: places, bounds, filters.

use std::collections::HashSet;
use std::time::Duration;

use serde_json::{Value, json};
use tickwheel_jobs::{JobByHand, JobId, Jobs, Keep, NewJob};
use tickwheel_jobs_web::{Dashboard, Part};

use crate::ask::{Charge, Mail, full, get, mail, manual, rows, run_due, texts};

/// Reads a list to its end, and returns the ids of each page.
fn pages(dashboard: &Dashboard, query: &str) -> Vec<Vec<String>> {
    let (mut query, mut pages) = (query.to_owned(), Vec::new());
    loop {
        let page = get(dashboard, &format!("/api/v1/jobs?{query}")).ok();
        pages.push(texts(&page["rows"], "id").into_iter().map(str::to_owned).collect());
        assert!(pages.len() < 1000, "the list has no end");
        match page["older"].as_str() {
            Some(older) => query = older.to_owned(),
            None => return pages,
        }
    }
}

/// Returns the page of the list that another one leads to.
fn follow(dashboard: &Dashboard, page: &Value, way: &str) -> Value {
    get(dashboard, &format!("/api/v1/jobs?{}", page[way].as_str().unwrap())).ok()
}

/// A list is read in pages of at most a hundred, each job once, and back again.
#[test]
fn lists_have_pages() {
    let (jobs, driver) = manual();
    let minute = Duration::from_secs(60);
    // Many with one due time, so that a place is more than a time.
    jobs.insert_batch((0..250).map(|n| (minute, mail(&n.to_string())))).unwrap();
    jobs.insert_batch((0..40).map(|n| (2 * minute + n * minute, mail("later")))).unwrap();
    jobs.insert_batch((0..130).map(|_| (Duration::ZERO, mail("fail")))).unwrap();
    run_due(&driver);
    let dashboard = full(jobs.client());
    for (query, sizes) in [
        ("state=pending", vec![100, 100, 90]),
        ("state=pending&limit=97", vec![97, 97, 96]),
        ("state=pending&kind=mail&from=90s", vec![40]),
        ("state=dead", vec![100, 30]),
        ("state=dead&kind=charge", vec![0]),
        ("state=pending&text=LATER", vec![40]),
        ("state=completed", vec![0]),
        ("state=running", vec![0]),
    ] {
        let pages = pages(&dashboard, query);
        assert_eq!(pages.iter().map(Vec::len).collect::<Vec<_>>(), sizes, "{query}");
        let all: HashSet<&String> = pages.iter().flatten().collect();
        assert_eq!(all.len(), sizes.iter().sum::<usize>(), "{query}");
    }
    let first = get(&dashboard, "/api/v1/jobs?state=pending").ok();
    assert_eq!((&first["newer"], &first["total"]["count"]), (&Value::Null, &290.into()));
    let second = follow(&dashboard, &first, "older");
    let third = follow(&dashboard, &second, "older");
    let back = follow(&dashboard, &third, "newer");
    assert_eq!(back["rows"], second["rows"]);
    assert_eq!(follow(&dashboard, &back, "newer")["rows"], first["rows"]);
}

/// The kinds are read in pages, each kind once: first the paused ones, then the others, both by name. They come in the
/// order of their jobs, if that is asked for.
#[test]
fn kinds_come_by_name_or_by_their_jobs() {
    let (jobs, _driver) = manual();
    let insert = |kind: &str| {
        jobs.insert_by_hand(Duration::from_secs(60), JobByHand::new(kind, *b"{}")).unwrap();
    };
    ["e", "d", "c", "b", "a", "b", "c", "b"].into_iter().for_each(insert);
    for kind in ["e", "b"] {
        jobs.kind_named(kind).pause().unwrap();
    }
    let dashboard = full(jobs.client());
    let (mut names, mut after) = (Vec::new(), String::new());
    loop {
        let page = get(&dashboard, &format!("/api/v1/kinds?limit=1{after}")).ok();
        names.push(page["rows"][0]["kind"].as_str().unwrap().to_owned());
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!(names, ["b", "e", "a", "c", "charge", "d", "mail"]);
    let with = |query: &str| get(&dashboard, &format!("/api/v1/kinds?{query}")).ok();
    let page = with("order=jobs");
    assert_eq!(texts(&page["rows"], "kind")[..2], ["b", "c"]);
    assert!(get(&dashboard, "/kinds?order=jobs").text().contains("By name"));
    assert!(get(&dashboard, "/kinds").text().contains("kinds?order=jobs"));
    for wrong in ["order=x", "order=jobs&after=a", "order=jobs&limit=3"] {
        assert_eq!(get(&dashboard, &format!("/api/v1/kinds?{wrong}")).status, 400, "{wrong}");
    }
    assert_eq!(with("text=C")["rows"][0]["kind"], "c");
    assert_eq!(with("form=search&order=jobs&text=")["total"], page["total"]);
    let none = get(&dashboard, "/kinds?text=no%20such");
    assert!(none.text().contains("No such kind") && none.text().contains("value=\"no such\""));
    (0..200).for_each(|number| insert(&format!("one of many {number}")));
    let page = get(&full(jobs.client()), "/kinds?order=jobs");
    assert!(page.text().contains("The 200 with the most jobs, of 207"), "{}", page.text());
}

/// A search reads at most some 6,000 records a request, says so, and goes on from there.
#[test]
fn searches_have_a_limit_and_go_on() {
    let (jobs, _driver) = manual();
    let minute = Duration::from_secs(60);
    for hour in 0..5 {
        let text = if hour == 4 { "needle" } else { "hay" };
        jobs.insert_batch((0..3_500).map(|n| ((1 + hour) * minute, mail(&format!("{text} {n}")))))
            .unwrap();
    }
    let dashboard = full(jobs.client());
    let first = get(&dashboard, "/api/v1/jobs?state=pending&text=needle").ok();
    assert_eq!(first["rows"], json!([]));
    let searched = &first["searched"];
    assert_eq!((&searched["hit_limit"], &searched["of"]), (&true.into(), &17_500.into()));
    assert!((6_000..6_300).contains(&searched["records"].as_u64().unwrap()), "{searched}");
    let next = follow(&dashboard, &first, "older");
    assert!(next["searched"]["records"].as_u64().unwrap() >= 12_000, "{}", next["searched"]);
    assert_eq!(texts(&follow(&dashboard, &next, "older")["rows"], "id").len(), 100);
}

/// P97: A search reads at most 8 MiB of jobs and the rest of a mebibyte, says so, and goes on from there: payloads, and
/// results of several kinds.
#[test]
fn searches_end_at_eight_mebibytes() {
    let folder = tempfile::tempdir().unwrap();
    let result = || "x".repeat(60_000);
    for builder in [Jobs::memory(), Jobs::open(folder.path().join("jobs.db")).unwrap()] {
        let (jobs, driver) = builder
            .handle(move |_: Mail, run| run.set_result(&result()))
            .handle(move |_: Charge, run| run.set_result(&result()))
            .manual()
            .unwrap();
        jobs.kind::<Mail>().keep_completed(Keep::last(1000)).unwrap();
        jobs.kind::<Charge>().keep_completed(Keep::last(1000)).unwrap();
        jobs.insert_batch((0..200).map(|_| (Duration::ZERO, mail("done")))).unwrap();
        let charge = |n: u64| Charge { card: n.to_string() };
        jobs.insert_batch((0..200).map(|n| (Duration::ZERO, charge(n)))).unwrap();
        for _ in 0..20 {
            jobs.insert(Duration::from_secs(60), mail(&"x".repeat(1 << 20))).unwrap();
        }
        run_due(&driver);
        let dashboard = full(jobs.client());
        for (state, jobs, most) in [("pending", 20, 9), ("completed", 400, 160)] {
            let mut query = Some(format!("state={state}&text=needle"));
            let mut records = vec![0];
            while let Some(next) = query {
                let page = get(&dashboard, &format!("/api/v1/jobs?{next}")).ok();
                records.push(page["searched"]["records"].as_u64().unwrap());
                query = page["older"].as_str().map(str::to_owned);
            }
            assert_eq!(records.last(), Some(&jobs), "{state}: {records:?}");
            let read = records.windows(2).map(|pair| pair[1] - pair[0]).max();
            assert!(read <= Some(most), "{state}: {records:?}");
        }
    }
}

/// P98: The digits of an id that a list shows differ from job to job, and a search for them finds the job.
#[test]
fn shown_digits_of_ids_differ_and_are_found() {
    let (jobs, _driver) = manual();
    jobs.insert_batch((0..20).map(|_| (Duration::from_secs(60), mail("later")))).unwrap();
    let dashboard = full(jobs.client());
    let page = get(&dashboard, "/jobs?state=pending");
    let found = page.text().split("<span class=\"mono\" title=\"").skip(1);
    let digits: Vec<&str> = found.map(|it| it.split(['>', '<']).nth(1).unwrap()).collect();
    assert_eq!(digits.iter().collect::<HashSet<_>>().len(), 20, "{digits:?}");
    for digits in digits {
        let rows = get(&dashboard, &format!("/api/v1/jobs?text={digits}")).ok()["rows"].clone();
        assert_eq!(rows.as_array().unwrap().len(), 1, "{digits}");
        assert!(rows[0]["id"].as_str().unwrap().starts_with(digits), "{digits}");
    }
}

/// A search finds a text as it was written, however the JSON has it, with `redact` and without it. A place far behind
/// the end of the list is a place.
#[test]
fn search_finds_escaped_text_and_takes_any_place() {
    let (jobs, _driver) = manual();
    let minute = Duration::from_secs(60);
    jobs.insert(minute, mail("say \"hello\" to C:\\")).unwrap();
    let payload = br#"{"text": "caf\u00e9 1\/2"}"#.to_vec();
    jobs.insert_by_hand(minute, JobByHand::new("mail", payload)).unwrap();
    for dashboard in [full(jobs.client()), full(jobs.client()).redact(|_, _, _| {})] {
        for text in ["say+%22hello%22", "SAY+%22Hello%22+to+c:%5C", "CAF%C3%89", "1%2F2"] {
            assert_eq!(rows(&dashboard, &format!("jobs?text={text}")), 1, "{text}");
        }
        assert_eq!(rows(&dashboard, "jobs?text=say+hello") + rows(&dashboard, "jobs?text=cafe"), 0);
    }
    let after = format!("after=0.{}.{}", "0".repeat(32), u64::MAX);
    let far = get(&full(jobs.client()), &format!("/api/v1/jobs?text=say&{after}"));
    assert_eq!(far.status, 200);
}

/// An integer that JavaScript would round is a string in JSON.
#[test]
fn numbers_are_exact_in_javascript() {
    let (jobs, _driver) = manual();
    let payload = br#"{"n": 9007199254740993, "large": 1000000000000000000001}"#.to_vec();
    let id = jobs.insert_by_hand(Duration::from_secs(60), JobByHand::new("mail", payload)).unwrap();
    let shown = get(&full(jobs.client()), &format!("/api/v1/jobs/{id}")).ok();
    for number in ["9007199254740993", "1000000000000000000001"] {
        assert!(shown["payload"]["text"].as_str().unwrap().contains(number), "{shown}");
    }
}

/// A long text that is cut within a letter is text.
#[test]
fn long_text_is_text() {
    let (jobs, _driver) = manual();
    // One of the two is cut within a letter.
    for first in ["", "x"] {
        let payload = format!("{first}{}", "é".repeat(700_000));
        let id = jobs.insert(Duration::from_secs(60), mail(&payload)).unwrap();
        let job = get(&full(jobs.client()), &format!("/api/v1/jobs/{id}")).ok();
        assert_eq!(job["payload"]["format"], "text", "{first:?}");
    }
}

/// The states of a list are told apart: overdue, retrying, by key.
#[test]
fn lists_know_their_states() {
    let (jobs, driver) = manual();
    let card = || Charge { card: "4111".to_owned() };
    jobs.queue().pause().unwrap();
    jobs.insert(Duration::from_millis(10), mail("due")).unwrap();
    jobs.insert(Duration::from_secs(3600), card()).unwrap();
    jobs.keyed("order 7").insert(Duration::from_secs(3600), card()).unwrap();
    run_due(&driver);
    let dashboard = full(jobs.client());
    let count = |query: &str| rows(&dashboard, &format!("jobs?{query}"));
    assert_eq!(count(""), 3);
    assert_eq!(count("state=overdue"), 1);
    assert_eq!(count("state=retrying"), 0);
    assert_eq!(count("key=order+7"), 1);
    assert_eq!(count("key=order+7&state=overdue"), 0);
    assert_eq!(count("kind=charge"), 2);
    assert_eq!(count("to=30m"), 1);
    let overview = get(&dashboard, "/api/v1/overview").ok();
    assert_eq!((&overview["is_paused"], &overview["overdue"]["count"]), (&true.into(), &1.into()));
    assert_eq!(overview["warnings"][0]["what"], "paused");
    assert_eq!(overview["minutes"].as_array().unwrap().len(), 60);
}

/// The kinds count their jobs, their dead and what happened in the last hour.
#[test]
fn kinds_have_their_figures() {
    let (jobs, driver) = manual();
    jobs.insert_batch((0..3).map(|_| (Duration::ZERO, mail("fail")))).unwrap();
    jobs.insert_batch((0..9).map(|_| (Duration::ZERO, mail("done")))).unwrap();
    run_due(&driver);
    jobs.insert(Duration::from_secs(60), mail("later")).unwrap();
    jobs.kind_named("mail").pause().unwrap();
    jobs.kind_named("mail").head_start(Duration::from_secs(5)).unwrap();
    let dashboard = full(jobs.client());
    let kinds = get(&dashboard, "/api/v1/kinds").ok();
    let row = kinds["rows"].as_array().unwrap().iter().find(|row| row["kind"] == "mail").unwrap();
    let expected = json!({
        "pending": 1, "running": 0, "dead": {"count": 3, "is_exact": true}, "is_paused": true,
        "head_start_ms": 5000, "keeps": "the last 1000",
    });
    for (name, value) in expected.as_object().unwrap() {
        assert_eq!(&row[name], value, "{name}");
    }
    let hour = &row["hour"];
    assert_eq!((&hour["completed"], &hour["failed"]), (&9.into(), &3.into()));
    assert_eq!(hour["failed_in_hundred"], 25.0);
    assert_eq!(row["completed_by_minute"].as_array().unwrap().len(), 60);
}

/// P94: A job has its timeline, its trace and what may be done with it. The trace is read from the redacted headers.
#[test]
fn job_has_its_timeline() {
    let (jobs, driver) = manual();
    let trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let new = NewJob::new(mail("fail: no such user\nat line 7")).header("traceparent", trace);
    let id = jobs.insert_job(new.at(Duration::ZERO)).unwrap().id;
    run_due(&driver);
    let dashboard = full(jobs.client()).trace_link("https://traces.example/{trace_id}");
    let job = get(&dashboard, &format!("/api/v1/jobs/{id}")).ok();
    assert_eq!(job["trace_link"], "https://traces.example/0af7651916cd43dd8448eb211c80319c");
    assert!(get(&dashboard, &format!("/jobs/{id}")).text().contains("0af7651916cd43dd"));
    let hides = dashboard.clone().redact(|_, part, value| {
        if part == Part::Headers {
            *value = json!({});
        }
    });
    for path in [format!("/jobs/{id}"), format!("/api/v1/jobs/{id}")] {
        assert!(!get(&hides, &path).text().contains("0af7651916cd43dd"), "{path}");
    }
    assert_eq!(job["actions"], json!(["retry", "delete"]));
    assert_eq!(texts(&job["timeline"], "what"), ["inserted", "due", "failed", "dead"]);
    assert_eq!(job["error"], "fail: no such user\nat line 7");
    let list = get(&dashboard, "/api/v1/jobs?state=dead").ok();
    assert_eq!(list["rows"][0]["error"], "fail: no such user");
    let named = JobId::named("of the caller");
    jobs.insert_job(NewJob::new(mail("ann")).at(Duration::from_secs(9)).id(named)).unwrap();
    let job = get(&dashboard, &format!("/api/v1/jobs/{named}")).ok();
    assert_eq!(texts(&job["timeline"], "what"), ["due"]);
}
