//! The command `history`: how many jobs ended in each minute or hour.

use std::error::Error;
use std::io::Write;
use std::time::Duration;

use tickwheel_jobs::{Buckets, Client, HistoryEntry, Step};

use crate::args::{History, StepName};
use crate::text::{now, shown, span, zone_name};
use crate::{Outcome, find, rows, text};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

pub(crate) fn history(
    client: &Client,
    args: &History,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let (step, lasts) = match args.step {
        StepName::Minute => (Step::Minute, HOUR),
        StepName::Hour => (Step::Hour, 2 * DAY),
    };
    let now = now();
    let from = args.from.map_or(now - lasts, text::Moment::resolve);
    // The present minute began before now. The end of the range lies behind it.
    let range = from..args.to.map_or(now + HOUR, text::Moment::resolve);
    let entries = match &args.of.kind {
        None => client.history(step, range)?,
        Some(kind) => {
            // The kinds behind the first 200 have one history under this name.
            if kind != "other" {
                find::check_kind(client, Some(kind))?;
            }
            client.kind_named(kind).history(step, range)?
        }
    };
    if args.json {
        for entry in &entries {
            writeln!(out, "{}", text::json(entry)?)?;
        }
        return Ok(Outcome::Done);
    }
    let begin = format!("BEGIN ({})", zone_name());
    let head = [
        &*begin,
        "INSERTED",
        "COMPLETED",
        "RETRIED",
        "SNOOZED",
        "DEAD",
        "CANCELLED",
        "INTERRUPTED",
        "99% LATE",
        "99% TOOK",
    ];
    let row = |entry: &HistoryEntry| {
        let counts = [
            entry.inserted,
            entry.completed,
            entry.retried,
            entry.snoozed,
            entry.dead,
            entry.cancelled,
            entry.interrupted,
        ];
        let mut row = vec![shown(entry.begin)];
        row.extend(counts.map(|count| count.to_string()));
        row.extend([&entry.lateness, &entry.run_time].map(|buckets| at_most(buckets)));
        row
    };
    rows::table(&head, entries.iter().map(row).collect(), out)?;
    Ok(Outcome::Done)
}

/// Returns the bound under which 99 of 100 durations are, as text.
fn at_most(buckets: &[u64]) -> String {
    match bound_of_99(buckets) {
        None => "-".to_owned(),
        Some(Duration::MAX) => "> 1h".to_owned(),
        Some(bound) => format!("<= {}", span(bound)),
    }
}

/// Returns the bound under which 99 of 100 durations are, as [`Buckets::bound_of`] does.
pub(crate) fn bound_of_99(buckets: &[u64]) -> Option<Duration> {
    Buckets::bound_of(buckets, 99)
}
