//! The head of the page and of the view: the store and the time, and the most important figures.

use super::amounts::{age, bound, short, symbols, zero_rate};
use super::figures::{Figures, Time};
use super::tables::{Mood, overdue_mood};
use crate::text::{shown, zone_name};

/// A figure of the head, and its name.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fact {
    pub(crate) name: &'static str,
    pub(crate) value: String,
    pub(crate) mood: Mood,
}

/// Returns the figures of the head. `rates` are those of the last seconds, where there are any.
pub(crate) fn facts(figures: &Figures, rates: (f64, f64)) -> Vec<Fact> {
    let fact = |name, value, mood| Fact { name, value, mood };
    let counts = &figures.counts;
    let more = if counts.overdue.is_exact { "" } else { "+" };
    let (overdue, mood) = match counts.oldest_overdue {
        None => (counts.overdue.count.to_string(), Mood::Plain),
        Some(oldest) => {
            let count = short(counts.overdue.count);
            (format!("{count}{more}, oldest {}", age(oldest)), overdue_mood(oldest))
        }
    };
    let failed = if rates.1 > 0.0 { Mood::Bad } else { Mood::Plain };
    let dead = if counts.dead > 0 { Mood::Bad } else { Mood::Plain };
    // A process claims some jobs ahead, which start when one of its threads is free.
    let claimed = counts.claimed + counts.running;
    let limit = u64::try_from(figures.limit).unwrap_or(u64::MAX);
    let runs = if limit == 0 { claimed } else { claimed.min(limit) };
    let ahead = match claimed - runs {
        0 => String::new(),
        ahead => format!(", {} claimed", short(ahead)),
    };
    vec![
        fact("pending", short(counts.pending), Mood::Plain),
        fact("overdue", overdue, mood),
        fact("running", format!("{} of {}{ahead}", short(runs), short(limit)), Mood::Plain),
        fact("dead", short(counts.dead), dead),
        fact("completed", format!("{}/s", zero_rate(rates.0)), Mood::Plain),
        fact("failed", format!("{}/s", zero_rate(rates.1)), failed),
        fact("99% late", bound(figures.rates.late), Mood::Plain),
    ]
}

/// Returns the store, the queue, the time and the number of nodes.
pub(crate) fn title(figures: &Figures) -> Vec<String> {
    let queue = figures.queue.as_deref().map_or("default".into(), symbols);
    let nodes = match figures.nodes.len() {
        0 => "no node".to_owned(),
        1 => "1 node".to_owned(),
        nodes => format!("{nodes} nodes"),
    };
    vec![symbols(&figures.store), format!("queue {queue}"), clock(figures.time), nodes]
}

/// Returns the time of day, with its zone.
fn clock(time: Time) -> String {
    let shown = shown(time.0);
    let of_day = shown.split_once('T').map_or(&*shown, |(_, of_day)| of_day);
    format!("{} {}", of_day.get(..8).unwrap_or(of_day), zone_name())
}
