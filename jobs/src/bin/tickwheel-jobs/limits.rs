//! The command about limits: `limits`.

use std::error::Error;
use std::io::Write;
use std::time::{Duration, SystemTime};

use serde::{Serialize, Serializer};
use tickwheel_jobs::{Client, LimitInfo, LimitScope};

use crate::text::{now, plain, relative, span, utc};
use crate::{Outcome, rows, text};

/// A scope with a limit, as JSON and in tables. Times are in UTC.
#[derive(Clone, Default, PartialEq, Eq, Serialize, Debug)]
pub(crate) struct LimitRow {
    pub(crate) scope: &'static str,
    pub(crate) flow: Option<String>,
    pub(crate) kind: Option<String>,
    pub(crate) partition: Option<String>,
    pub(crate) running: u64,
    pub(crate) most_running: Option<u32>,
    pub(crate) rate: Option<u32>,
    pub(crate) per_ms: Option<u64>,
    pub(crate) burst: Option<u32>,
    pub(crate) weight: Option<u32>,
    #[serde(serialize_with = "as_utc")]
    pub(crate) next_start: Option<SystemTime>,
    #[serde(serialize_with = "as_utc")]
    pub(crate) held_until: Option<SystemTime>,
    /// It lets no further job start now.
    #[serde(skip)]
    pub(crate) is_reached: bool,
}

fn as_utc<S: Serializer>(time: &Option<SystemTime>, serializer: S) -> Result<S::Ok, S::Error> {
    time.map(utc).serialize(serializer)
}

/// Lists the limits.
pub(crate) fn limits(
    client: &Client,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (limits, now) = (client.limits()?, now());
    let limits: Vec<LimitRow> = limits.iter().map(LimitRow::of).collect();
    if json {
        for limit in &limits {
            writeln!(out, "{}", text::json(limit)?)?;
        }
        return Ok(Outcome::Done);
    }
    let head = ["SCOPE", "RUNNING", "LIMIT", "RATE", "BURST", "WEIGHT", "NEXT START", "HELD UNTIL"];
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    let time = |time: Option<SystemTime>| time.map_or("-".to_owned(), |time| relative(time, now));
    let row = |limit: &LimitRow| {
        vec![
            plain(&limit.name()).into_owned(),
            limit.running.to_string(),
            number(limit.most_running),
            limit.rate_text(),
            number(limit.burst),
            number(limit.weight),
            time(limit.next_start),
            time(limit.held_until),
        ]
    };
    rows::table(&head, limits.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

impl LimitRow {
    pub(crate) fn of(info: &LimitInfo) -> LimitRow {
        let rate = info.limit.start_rate();
        let limit = LimitRow {
            running: info.running,
            most_running: info.limit.most_running(),
            rate: rate.map(|(jobs, _)| jobs),
            per_ms: rate.map(|(_, per)| u64::try_from(per.as_millis()).unwrap_or(u64::MAX)),
            burst: info.limit.start_burst(),
            weight: info.limit.turn_weight(),
            next_start: info.next_start,
            held_until: info.held_until,
            is_reached: info.is_reached(),
            ..LimitRow::default()
        };
        match &info.scope {
            LimitScope::Queue => LimitRow { scope: "queue", ..limit },
            LimitScope::Flow(flow) => LimitRow { scope: "flow", flow: Some(flow.clone()), ..limit },
            LimitScope::Each(kind) => {
                LimitRow { scope: "each_partition", kind: Some(kind.clone()), ..limit }
            }
            LimitScope::Partition { kind, partition } => LimitRow {
                scope: "partition",
                kind: Some(kind.clone()),
                partition: Some(partition.clone()),
                ..limit
            },
            // A later version has it.
            _ => LimitRow { scope: "other", ..limit },
        }
    }

    /// Returns the name of the scope, with the names as the store has them.
    pub(crate) fn name(&self) -> String {
        let kind = self.kind.as_deref().unwrap_or_default();
        match (self.scope, &self.flow, &self.partition) {
            ("queue", ..) => "the queue".to_owned(),
            ("each_partition", ..) => format!("each partition of {kind}"),
            (_, Some(flow), _) => format!("flow {flow}"),
            (_, _, Some(partition)) => format!("partition {partition} of {kind}"),
            (other, ..) => other.to_owned(),
        }
    }

    /// Returns the rate as text, with `-` for none.
    pub(crate) fn rate_text(&self) -> String {
        match (self.rate, self.per_ms) {
            (Some(jobs), Some(per)) => format!("{jobs} in {}", span(Duration::from_millis(per))),
            _ => "-".to_owned(),
        }
    }
}
