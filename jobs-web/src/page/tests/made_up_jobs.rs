//! Made-up views of jobs: lists, one job, groups of dead ones.

use tickwheel_jobs::view::{
    Content, Dead, DeadGroup, JobList, JobPage, JobRow, Searched, Time, TimelineStep,
};
use tickwheel_jobs::{JobState, PendingReason};

use super::made_up::{Change, KINDS, at, exactly, made};
use crate::views::{Filter, Job, Jobs};

/// The name of a group in links.
const GROUP: &str = "9b5fca2e01c7d3b4a8f6e5d4c3b2a190";

pub(super) fn jobs(state: &'static str, many: usize, change: Change<'_>) -> Jobs {
    let row = |n: usize| {
        made!(JobRow {
        id: format!("018f3a2c{:08x}{:016x}", n * 77, n * 0x9e37_79b9_7f4a).parse().unwrap(),
        kind: change(KINDS[n % 3]),
        state: match state {
            "running" => JobState::Running,
            "dead" => JobState::Dead,
            "completed" => JobState::Completed,
            _ => JobState::Pending,
        },
        due: at(if matches!(state, "pending" | "retrying") { 61 * n as i64 + 5 } else { -61 * n as i64 - 5 }),
        key: (n % 3 != 1).then(|| change(&format!("order-{}", 1001 + n))),
        failures: if state == "dead" { 4 } else { (n % 3) as u32 },
        attempt: if state == "dead" { 4 } else { (n % 3) as u32 },
        interruptions: u32::from(n == 4),
        error: (state == "dead" || !n.is_multiple_of(3))
            .then(|| change("timed out after 30 s: POST https://gateway.example/v2/charges: no answer from upstream")),
        claimed: (state == "running").then(|| at(-7 * n as i64 - 2)),
        ended: matches!(state, "dead" | "completed").then(|| at(-61 * n as i64)),
        took_ms: matches!(state, "dead" | "completed").then_some(1250),
        node: (state == "running").then(|| change("shop-3/4711")),
        progress: (state == "running").then(|| change("{\"rows\":1204,\"of\":5000}")),
    })
    };
    let is_search = state == "dead";
    let list = made!(JobList {
        now: at(0),
        rows: (0..many).map(row).collect(),
        total: (!is_search).then(|| exactly(many as u64)),
        searched: is_search.then_some(made!(Searched {
            records: 10_000,
            of: Some(1_204_311),
            hit_limit: true,
        })),
    });
    Jobs {
        list,
        filter: Filter {
            kind: is_search.then(|| change("mail")),
            text: is_search.then(|| change("timed out")),
            group: is_search.then(|| GROUP.to_owned()),
            error: is_search.then(|| change("timed out after 30 s")),
            node: (state == "running").then(|| change("shop-3/4711")),
            state,
            ..Filter::default()
        },
        older: (many > 1).then(|| format!("state={state}&after=018f")),
        newer: (many > 1).then(|| format!("state={state}")),
        query: format!("state={state}"),
        changes: match state {
            "dead" => vec!["retry", "delete"],
            "running" => vec!["cancel"],
            "completed" => vec!["delete"],
            _ => vec!["reschedule", "cancel"],
        },
        kinds: KINDS.iter().map(|kind| change(kind)).collect(),
    }
}

pub(super) fn job(change: Change<'_>) -> Job {
    let error = "timed out after 30 s: POST https://gateway.example/v2/charges\n  caused by: no answer from upstream\n  caused by: connection reset by peer (os error 104)";
    let payload = "{\n  \"order\": 1001,\n  \"customer\": \"Grüße & Söhne\",\n  \"items\": [\n    { \"sku\": \"A-17\", \"count\": 2 },\n    { \"sku\": \"B-3\", \"count\": 1 }\n  ],\n  \"note\": \"\"\n}";
    let content = |text: &str, format| {
        made!(Content { text: change(text), format, bytes: 20_480, is_cut: format == "json" })
    };
    let step = |what, at: Option<Time>, attempt, error: Option<&str>| {
        made!(TimelineStep {
            what,
            at,
            attempt,
            node: attempt.map(|_| change("shop-3/4711")),
            error: error.map(change),
        })
    };
    let job = made!(JobPage {
        now: at(0),
        id: "018f3a2c00000001a1b2c3d4e5f60718".parse().unwrap(),
        kind: change("close-order"),
        state: JobState::Dead,
        due: at(-3600),
        key: Some(change("order-1001")),
        partition: Some(change("acme")),
        group: Some("018f3a2c00000001a1b2c3d4e5f60700".parse().unwrap()),
        failures: 3,
        attempt: 3,
        interruptions: 1,
        retries_left: Some(17),
        headers: vec![
            (
                change("traceparent"),
                change("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"),
            ),
            (change("tenant"), change("acme")),
        ],
        trace_id: Some(change("4bf92f3577b34da6a3ce929d0e0e4736")),
        payload: content(payload, "json"),
        progress: Some(content("{ \"step\": \"charge\" }", "text")),
        error: Some(change(error)),
        timeline: vec![
            step("inserted", Some(at(-90_000)), None, None),
            step("due", Some(at(-3600)), None, None),
            step("failed", Some(at(-3570)), Some(1), Some("connection refused (os error 111)")),
            step("interrupted", Some(at(-3300)), Some(2), None),
            step("failed", Some(at(-2400)), Some(3), Some(error)),
            step("dead", Some(at(-2400)), None, None),
        ],
        waits_for: vec![PendingReason::QueuePaused, PendingReason::NoNode],
        ended: Some(at(-2400)),
        took_ms: Some(30_012),
        node: Some(change("shop-3/4711")),
        actions: vec!["again", "run_now", "reschedule", "cancel", "retry", "delete"],
    });
    let trace_link = Some("https://traces.example/4bf92f3577b34da6a3ce929d0e0e4736".to_owned());
    Job { job, trace_link }
}

pub(super) fn dead(many: usize, change: Change<'_>) -> Dead {
    let errors = [
        "timed out after 30 s: POST https://gateway.example/v2/charges: no answer from upstream",
        "no such order",
        "invalid type: map, expected u64 at line 1 column 10",
        "550 5.1.1 mailbox unavailable",
    ];
    let group = |n: usize| {
        made!(DeadGroup {
            kind: change(KINDS[n % KINDS.len()]),
            error: change(errors[n % errors.len()]),
            jobs: 344 / (n as u64 + 1),
            group: GROUP.parse().unwrap(),
            first_died: Some(at(-80_000 * (n as i64 + 1))),
            last_died: Some(at(-7_000 * n as i64)),
        })
    };
    made!(Dead {
        now: at(0),
        total: 1204,
        groups: (0..many).map(group).collect(),
        has_more: many > 0
    })
}
