//! The commands that change nothing: `list`, `show`, `stats`, `check`.

use std::error::Error;
use std::io::Write;
use std::time::SystemTime;

use serde::Serialize;
use tickwheel_jobs::{Client, Counts};

use crate::args::{List, What};
use crate::open::{Place, Sizes};
use crate::text::{bytes, now, plain, relative, shown, span, utc};
use crate::unserved::{self, Kind, kinds};
use crate::{Outcome, find, rows, text};

#[derive(Serialize)]
struct JsonStats<'a> {
    queue: Option<&'a str>,
    #[serde(flatten)]
    counts: Counts,
    next_due: Option<String>,
    limits: usize,
    limits_reached: usize,
    open_groups: usize,
    kinds: Vec<JsonKind<'a>>,
    #[serde(flatten)]
    sizes: JsonSizes,
    queues: &'a [String],
}

#[derive(Serialize)]
#[serde(untagged)]
enum JsonSizes {
    File {
        file_bytes: u64,
        wal_bytes: u64,
    },
    #[cfg(feature = "redis")]
    Server {
        memory_bytes: Option<u64>,
    },
}

#[derive(Serialize)]
struct JsonKind<'a> {
    kind: &'a str,
    jobs: u64,
    next_due: Option<String>,
    overdue: bool,
    has_node: bool,
}

pub(crate) fn list(
    client: &Client,
    list: &List,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let filter = &list.filter;
    find::check_kind(client, filter.kind.as_deref())?;
    let pages = match list.what {
        What::Pending => client.pending(),
        What::Running => client.running(),
        What::Dead => client.dead(),
        What::Ended => client.ended(),
        What::Schedules => return schedules(client, list, out),
    };
    let mut pages = find::narrowed(pages, filter, find::times(filter));
    let now = now();
    let mut jobs = Vec::new();
    let mut listed = 0;
    let mut wanted = pages.by_ref().filter(|job| find::takes(filter, job));
    for job in wanted.by_ref().take(list.limit) {
        listed += 1;
        match list.json {
            // Printed at once, so that a list of millions of jobs need not fit into memory.
            true => writeln!(out, "{}", text::json(&job)?)?,
            false => jobs.push(job),
        }
    }
    let more = listed == list.limit && wanted.next().is_some();
    if let Some(error) = pages.error() {
        return Err(error.clone().into());
    }
    if !list.json {
        rows::jobs(&jobs, now, out)?;
    }
    tell_more(more, list.limit);
    unserved::warn(client)?;
    Ok(Outcome::Done)
}

fn schedules(
    client: &Client,
    list: &List,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let filter = &list.filter;
    if filter.key.is_some() || filter.error.is_some() {
        return Err("--key, --error: a schedule has neither".into());
    }
    let (from, to) = find::times(filter);
    let mut schedules = client.schedules()?;
    schedules.retain(|schedule| {
        filter.kind.as_ref().is_none_or(|kind| schedule.kind == *kind)
            && (from..=to).contains(&schedule.next)
    });
    let more = schedules.len() > list.limit;
    schedules.truncate(list.limit);
    if list.json {
        for schedule in &schedules {
            writeln!(out, "{}", text::json(schedule)?)?;
        }
    } else {
        rows::schedules(&schedules, now(), out)?;
    }
    tell_more(more, list.limit);
    Ok(Outcome::Done)
}

fn tell_more(more: bool, limit: usize) {
    if more {
        eprintln!("tickwheel-jobs: there are more than {limit}: --limit N lists N");
    }
}

pub(crate) fn show(
    client: &Client,
    text: &str,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let Some(job) = find::job(client, text)? else { return Ok(Outcome::Missed) };
    match json {
        true => writeln!(out, "{}", text::json(&job)?)?,
        false => rows::page(&job, &client.why_pending(job.id)?, now(), out)?,
    }
    Ok(Outcome::Done)
}

pub(crate) fn stats(
    client: &Client,
    place: &Place,
    json: bool,
    out: &mut impl Write,
) -> Result<Outcome, Box<dyn Error>> {
    let counts = client.count()?;
    let kinds = kinds(client)?;
    let next_due = kinds.iter().filter_map(|kind| kind.next_due).min();
    let now = now();
    unserved::warn_of(&kinds);
    let limits = client.limits()?;
    let reached = limits.iter().filter(|limit| limit.is_reached()).count();
    let open_groups = client.groups()?.iter().filter(|group| group.ended.is_none()).count();
    if json {
        let kinds = kinds.iter().map(|kind| JsonKind {
            kind: &kind.name,
            jobs: kind.jobs,
            next_due: kind.next_due.map(utc),
            overdue: kind.overdue(now).is_some(),
            has_node: kind.has_node,
        });
        let stats = JsonStats {
            queue: place.queue.as_deref(),
            counts,
            next_due: next_due.map(utc),
            limits: limits.len(),
            limits_reached: reached,
            open_groups,
            kinds: kinds.collect(),
            sizes: match place.sizes {
                Sizes::File { file, log } => JsonSizes::File { file_bytes: file, wal_bytes: log },
                #[cfg(feature = "redis")]
                Sizes::Server(memory_bytes) => JsonSizes::Server { memory_bytes },
            },
            queues: &place.queues,
        };
        writeln!(out, "{}", text::json(&stats)?)?;
        return Ok(Outcome::Done);
    }
    let due = |due: Option<SystemTime>| match due {
        None => "-".to_owned(),
        Some(due) => format!("{} ({})", shown(due), relative(due, now)),
    };
    match place.sizes {
        Sizes::File { file, log } => {
            writeln!(out, "file       {} ({})", plain(&place.name), bytes(file))?;
            writeln!(out, "log        {}", bytes(log))?;
        }
        #[cfg(feature = "redis")]
        Sizes::Server(memory) => {
            writeln!(out, "server     {}", plain(&place.name))?;
            let memory = memory.map_or("-".to_owned(), bytes);
            writeln!(out, "memory     {memory}")?;
        }
    }
    writeln!(out, "queue      {}", plain(place.queue.as_deref().unwrap_or("the default one")))?;
    if !place.queues.is_empty() {
        let default = if place.has_default { "the default one, " } else { "" };
        writeln!(out, "queues     {default}{}", plain(&place.queues.join(", ")))?;
    }
    writeln!(out, "pending    {}", counts.pending)?;
    // The command runs no jobs, so it sees what other processes have claimed, and not what of it has started.
    writeln!(out, "claimed    {}", counts.claimed)?;
    writeln!(out, "dead       {}", counts.dead)?;
    writeln!(out, "schedules  {}", counts.schedules)?;
    writeln!(out, "next due   {}", due(next_due))?;
    match counts.oldest_overdue {
        None => writeln!(out, "overdue    {}", counts.overdue)?,
        Some(age) => writeln!(out, "overdue    {}, the oldest by {}", counts.overdue, span(age))?,
    }
    if !limits.is_empty() {
        writeln!(out, "limits     {}, {reached} of them reached", limits.len())?;
    }
    if open_groups > 0 {
        writeln!(out, "groups     {open_groups} not over")?;
    }
    if kinds.is_empty() {
        return Ok(Outcome::Done);
    }
    writeln!(out)?;
    let row = |kind: &Kind| {
        vec![plain(&kind.name).into_owned(), kind.jobs.to_string(), due(kind.next_due)]
    };
    rows::table(&["KIND", "JOBS", "NEXT DUE"], kinds.iter().map(row).collect(), out)?;
    for kind in &kinds {
        if let Some(passed) = kind.overdue(now) {
            let (name, passed) = (plain(&kind.name), span(passed));
            writeln!(
                out,
                "\n{name} is overdue by {passed}: no process handles the kind, or every slot is busy"
            )?;
        }
    }
    Ok(Outcome::Done)
}

pub(crate) fn check(client: &Client, out: &mut impl Write) -> Result<Outcome, Box<dyn Error>> {
    client.check()?;
    let counts = client.count()?;
    writeln!(
        out,
        "ok: {} jobs, {} dead",
        counts.pending + counts.claimed + counts.running,
        counts.dead
    )?;
    Ok(Outcome::Done)
}
