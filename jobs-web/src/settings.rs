//! The actions on settings: the limit of a scope, its hold, how many completed jobs of a kind are kept, its head start.
//! And the insert of a job by hand.
//!
//! Ground rules:
//!
//! - A request names its scope by a word, and by the names that such a scope has. A name that is missing or too much is
//!   an error, so no request about a kind is taken for one about the queue.
//! - What the question says and what is done are from one [`Setting`], which was read from the request.
//! - A limit is set by hand, so that every page shows it until it is lifted, and the limit before it comes back then.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime};

use serde::de::IgnoredAny;

use super::page::{absolute, acts, capital, span};
use super::params::{Params, wrong};
use super::read::Reader;
use super::route::SettingVerb;
use super::views::{Did, Problem};
use tickwheel_jobs::tickwheel::When;
use tickwheel_jobs::view::Time;
use tickwheel_jobs::{JobByHand, Keep, Kind, Limit, LimitScope};

/// An action on a setting, as a request has it.
pub(crate) struct Setting {
    /// What it is about, in words.
    pub(crate) subject: String,
    /// The kind that the request names.
    kind: Option<String>,
    change: Change,
}

enum Change {
    /// No limit: lift it.
    Limit(LimitScope, Limit),
    /// Zero: end the hold.
    Hold(LimitScope, Duration),
    Keep(Kind, Keep),
    HeadStart(Kind, Duration),
    /// Without a time: now.
    Insert(Box<JobByHand>, Option<SystemTime>),
}

impl Setting {
    pub(crate) fn of(
        reader: &Reader<'_>,
        params: &Params,
        verb: SettingVerb,
    ) -> Result<Setting, Problem> {
        if verb.place() == "scopes" {
            let (scope, subject) = scope(reader, params)?;
            let change = match verb {
                SettingVerb::Limit => Change::Limit(scope, limit(params)?),
                SettingVerb::Hold => Change::Hold(scope, hold(params)?),
                SettingVerb::Release => Change::Hold(scope, Duration::ZERO),
                _ => Change::Limit(scope, Limit::none()),
            };
            if let Change::Hold(LimitScope::Each(_), _) = change {
                return Err(wrong("a hold is of the queue, a kind, a flow or one partition"));
            }
            return Ok(Setting { subject, kind: params.name("kind")?, change });
        }
        let name = params.required("kind")?;
        let (kind, subject) = (reader.client().kind_named(&name), format!("the kind {name:?}"));
        let change = match verb {
            SettingVerb::Keep => Change::Keep(kind, keep(params)?),
            SettingVerb::HeadStart => {
                let missing = || wrong("the parameter by is missing");
                Change::HeadStart(kind, params.duration("by")?.ok_or_else(missing)?)
            }
            _ => {
                let due = params.when(reader.view().now().to_system())?;
                let job = Box::new(job(reader, params, &name)?);
                Change::Insert(job, params.get("when").map(|_| due))
            }
        };
        Ok(Setting { subject, kind: Some(name), change })
    }

    /// Returns what the question is about, and what the reader should know.
    pub(crate) fn question(
        &self,
        reader: &Reader<'_>,
    ) -> Result<(String, Option<&'static str>), Problem> {
        let gets = match &self.change {
            Change::Limit(scope, limit) if *limit == Limit::none() => {
                let before = reader.view().limit(scope)?.before;
                before.unwrap_or_else(|| limit.to_string())
            }
            Change::Limit(_, limit) => limit.to_string(),
            Change::Hold(_, time) => format!("no start for {}", span_of(*time)),
            Change::Keep(_, keep) => keep.to_string(),
            Change::HeadStart(_, by) => span_of(*by),
            Change::Insert(_, due) => {
                return Ok((
                    format!("a job of {}, due {}", self.subject, at(*due)),
                    self.note(reader)?,
                ));
            }
        };
        let text = format!("{}, which {}. It gets: {gets}", self.subject, self.state(reader)?);
        Ok((text, self.note(reader)?))
    }

    /// Returns how the setting is now, as the end of a sentence.
    fn state(&self, reader: &Reader<'_>) -> Result<String, Problem> {
        let view = reader.view();
        let of_kind = |kind: &Kind| view.kind(kind.name(), 0).map(|page| page.kind);
        Ok(match &self.change {
            Change::Limit(scope, _) => match view.limit(scope)?.limit() {
                limit if limit == Limit::none() => "has no limit".to_owned(),
                limit => format!("has the limit: {limit}"),
            },
            Change::Hold(scope, _) => match view.limit(scope)?.held_until {
                Some(until) => format!("is held until {}", absolute(until)),
                None => "is not held".to_owned(),
            },
            Change::Keep(kind, _) => match of_kind(kind)?.keeps {
                Some(keeps) => format!("keeps of its completed jobs: {keeps}"),
                None => "keeps no completed job".to_owned(),
            },
            Change::HeadStart(kind, _) => match of_kind(kind)?.head_start_ms {
                Some(ms) => format!("has a head start of {}", span(ms)),
                None => "has no head start".to_owned(),
            },
            Change::Insert(..) => String::new(),
        })
    }

    /// Returns what the reader should know of the kind.
    fn note(&self, reader: &Reader<'_>) -> Result<Option<&'static str>, Problem> {
        let Some(kind) = &self.kind else { return Ok(None) };
        let page = reader.view().kind(kind, 0)?;
        let is_insert = matches!(self.change, Change::Insert(..));
        Ok(match (is_insert, page.kind.has_node, page.is_known) {
            (true, false, _) => Some("No process handles this kind now, so the job waits for one."),
            (false, _, false) => Some("The queue has had no job of this kind."),
            _ => None,
        })
    }

    /// Makes the change.
    pub(crate) fn apply(self, reader: &Reader<'_>) -> Result<Did, Problem> {
        let (client, note) = (reader.client(), self.note(reader)?);
        let (old, mut job) = (self.state(reader)?, None);
        match &self.change {
            Change::Limit(scope, limit) => client.limit_by_hand(scope, *limit).map(drop)?,
            Change::Hold(scope, time) => client.hold_by_hand(scope, *time)?,
            Change::Keep(kind, keep) => kind.keep_completed(*keep)?,
            Change::HeadStart(kind, by) => kind.head_start(*by)?,
            Change::Insert(new, due) => {
                let when = due.map_or(When::from(Duration::ZERO), When::wall);
                job = Some(client.insert_job_by_hand(when, JobByHand::clone(new))?);
            }
        }
        let new = self.state(reader)?;
        let mut text = match (&self.change, job) {
            (Change::Insert(_, due), Some(id)) => {
                format!("The job {id} of {} is inserted, due {}.", self.subject, at(*due))
            }
            _ => format!("{} {new}.", capital(&self.subject)),
        };
        let changes = job.is_some() || old != new;
        for more in (!changes).then_some("It was so before.").into_iter().chain(note) {
            text = format!("{text} {more}");
        }
        Ok(Did { job, ..Did::all(text, changes.into()) })
    }
}

fn at(due: Option<SystemTime>) -> String {
    due.map_or_else(|| "now".to_owned(), |due| absolute(Time::from(due)))
}

fn span_of(time: Duration) -> String {
    span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Reads a scope, and returns it in words too.
fn scope(reader: &Reader<'_>, params: &Params) -> Result<(LimitScope, String), Problem> {
    let word = params.required("scope")?;
    let names: &[&str] = match &*word {
        "queue" => &[],
        "kind" | "each_partition" => &["kind"],
        "flow" => &["flow"],
        "partition" => &["kind", "partition"],
        _ => return Err(wrong("scope is queue, kind, flow, each_partition or partition")),
    };
    let is_odd = |name: &&&str| !names.contains(*name) && params.get(name).is_some();
    if let Some(name) = ["kind", "flow", "partition"].iter().find(is_odd) {
        return Err(wrong(format!("{name} has no meaning beside scope={word}")));
    }
    let kind = || params.required("kind");
    let scope = match &*word {
        "queue" => LimitScope::Queue,
        "flow" => LimitScope::Flow(params.required("flow")?),
        "each_partition" => LimitScope::Each(kind()?),
        "partition" => {
            LimitScope::Partition { kind: kind()?, partition: params.required("partition")? }
        }
        _ => LimitScope::Flow(reader.client().kind_named(&kind()?).stored_flow()?),
    };
    let subject = match (&scope, params.get("kind")) {
        (LimitScope::Flow(flow), Some(kind)) if flow == kind => format!("the kind {kind:?}"),
        _ => scope.to_string(),
    };
    Ok((scope, subject))
}

fn limit(params: &Params) -> Result<Limit, Problem> {
    let running = params.number("running")?.map_or(Limit::none(), Limit::running);
    let limit = match (params.number("rate")?, params.duration("per")?) {
        (Some(rate), Some(per)) => running.rate(rate, per),
        (None, None) => running,
        (Some(_), None) => return Err(wrong("the parameter per is missing: the period of rate")),
        (None, Some(_)) => return Err(wrong("the parameter rate is missing: the jobs in per")),
    };
    let limit = params.number("burst")?.map_or(limit, |burst| limit.burst(burst));
    let limit = params.number("weight")?.map_or(limit, |weight| limit.weight(weight));
    if limit == Limit::none() {
        return Err(wrong("a limit has the parameter running, or rate and per"));
    }
    Ok(limit)
}

fn hold(params: &Params) -> Result<Duration, Problem> {
    match params.duration("for")? {
        None => Err(wrong("the parameter for is missing")),
        Some(Duration::ZERO) => Err(wrong("for is above zero: release ends a hold")),
        Some(time) => Ok(time),
    }
}

fn keep(params: &Params) -> Result<Keep, Problem> {
    let (last, age) = (params.number("last")?, params.duration("age")?);
    let bytes = params.number("bytes")?;
    if last.is_none() && age.is_none() && bytes.is_none() {
        return Err(wrong(
            "one of the parameters last, age and bytes is needed: last=0 keeps none",
        ));
    }
    let keep = Keep::last(last.unwrap_or(u64::MAX));
    let keep = age.map_or(keep, |age| keep.age(age));
    Ok(bytes.map_or(keep, |bytes| keep.bytes(bytes)))
}

/// Reads a job, with the id that its form makes.
fn job(reader: &Reader<'_>, params: &Params, kind: &str) -> Result<JobByHand, Problem> {
    let payload = params.get("payload").ok_or_else(|| wrong("the parameter payload is missing"))?;
    if let Err(error) = serde_json::from_str::<IgnoredAny>(payload) {
        return Err(wrong(format!("the payload is no JSON: {error}")));
    }
    let mut headers = BTreeMap::new();
    let lines = params.get("headers").unwrap_or_default().lines();
    for line in lines.map(str::trim).filter(|line| !line.is_empty()) {
        let pair = line.split_once(':').map(|(name, value)| (name.trim(), value.trim()));
        let Some((name, value)) = pair.filter(|(name, _)| !name.is_empty()) else {
            return Err(wrong(format!("a line of headers is `name: value`, and not {line:?}")));
        };
        if headers.insert(name.to_owned(), value.to_owned()).is_some() {
            return Err(wrong(format!("the header {name:?} comes twice")));
        }
    }
    let mut job = JobByHand { headers, ..JobByHand::default() };
    (job.key, job.partition) = (params.name("key")?, params.name("partition")?);
    job.replaces = params.is_set("replace")?;
    job.payload = payload.trim().as_bytes().to_vec();
    let when = params.get("when");
    job.id = reader.made_from_form(&format!("insert {kind:?} {when:?} {job:?}"))?;
    Ok(JobByHand { kind: kind.to_owned(), ..job })
}

/// Returns JSON without characters that no field of a form keeps: an end of line outside a text becomes a space, and a
/// character that is not seen in a text its escape.
pub(crate) fn without_lines(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => out.push(' '),
            c if acts(c) => {
                c.encode_utf16(&mut [0; 2]).iter().for_each(|it| out += &format!("\\u{it:04x}"));
            }
            c => out.push(c),
        }
    }
    out
}
