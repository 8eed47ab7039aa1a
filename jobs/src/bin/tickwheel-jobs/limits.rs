//! The command about limits: `limits`.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, SystemTime};

use serde::Serialize;
use tickwheel_jobs::{Client, LimitInfo, LimitScope};

use crate::text::{now, plain, relative, span, utc};
use crate::{Outcome, rows, text};

/// A limit as JSON. Times are in UTC.
#[derive(Serialize)]
struct JsonLimit<'a> {
    scope: &'static str,
    flow: Option<&'a str>,
    kind: Option<&'a str>,
    partition: Option<&'a str>,
    running: u64,
    most_running: Option<u32>,
    rate: Option<u32>,
    per_ms: Option<u64>,
    burst: Option<u32>,
    weight: Option<u32>,
    next_start: Option<String>,
    held_until: Option<String>,
}

/// Lists the limits.
pub(crate) fn limits(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (limits, now) = (client.limits()?, now());
    if json {
        for info in &limits {
            writeln!(out, "{}", text::json(&as_json(info))?)?;
        }
        return Ok(Outcome::Done);
    }
    let head = ["SCOPE", "RUNNING", "LIMIT", "RATE", "BURST", "WEIGHT", "NEXT START", "HELD UNTIL"];
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let time = |time: Option<SystemTime>| time.map_or("-".to_owned(), |time| relative(time, now));
    let row = |info: &LimitInfo| {
        let rate = info.limit.start_rate();
        let rate = rate.map(|(jobs, per)| format!("{jobs} in {}", span(per)));
        vec![
            scope(&info.scope),
            info.running.to_string(),
            number(info.limit.most_running()),
            rate.unwrap_or_else(|| "-".to_owned()),
            number(info.limit.start_burst()),
            number(info.limit.turn_weight()),
            time(info.next_start),
            time(info.held_until),
        ]
    };
    rows::table(&head, limits.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

fn scope(scope: &LimitScope) -> String {
    match scope {
        LimitScope::Queue => "the queue".to_owned(),
        LimitScope::Flow(flow) => format!("flow {}", plain(flow)),
        LimitScope::Each(kind) => format!("each partition of {}", plain(kind)),
        LimitScope::Partition { kind, partition } => {
            format!("partition {} of {}", plain(partition), plain(kind))
        }
        // A later version has it.
        other => format!("{other:?}"),
    }
}

fn as_json(info: &LimitInfo) -> JsonLimit<'_> {
    let (name, flow, kind, partition) = match &info.scope {
        LimitScope::Queue => ("queue", None, None, None),
        LimitScope::Flow(flow) => ("flow", Some(&**flow), None, None),
        LimitScope::Each(kind) => ("each_partition", None, Some(&**kind), None),
        LimitScope::Partition { kind, partition } => {
            ("partition", None, Some(&**kind), Some(&**partition))
        }
        _ => ("other", None, None, None),
    };
    let per = |per: Duration| u64::try_from(per.as_millis()).unwrap_or(u64::MAX);
    let rate = info.limit.start_rate();
    JsonLimit {
        scope: name,
        flow,
        kind,
        partition,
        running: info.running,
        most_running: info.limit.most_running(),
        rate: rate.map(|(jobs, _)| jobs),
        per_ms: rate.map(|rate| per(rate.1)),
        burst: info.limit.start_burst(),
        weight: info.limit.turn_weight(),
        next_start: info.next_start.map(utc),
        held_until: info.held_until.map(utc),
    }
}
