//! The actions on settings: the limit and the hold of a scope, the completed jobs that a kind keeps, and its head
//! start. Also the insert of a job by hand.
//!
//! Ground rules:
//!
//! - A request names its scope by a word, and by the names that this scope needs. A missing name and a name too many
//!   are errors, so a request about a kind never changes the queue.
//! - The question and the change use one [`Setting`], which is read from the request. The question sends the setting
//!   that it has shown. If the setting is different by then, nothing is changed.
//! - A limit is set by hand, so every page shows it until it is lifted. Then the earlier limit holds again.

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
use tickwheel_jobs::{JobByHand, Keep, Kind, Limit, LimitScope, StoreError};

/// An action on a setting, as read from a request.
pub(crate) struct Setting {
    /// The subject in words: `the queue`, `the kind "mail"`.
    pub(crate) subject: String,
    /// The kind that the request names.
    kind: Option<String>,
    /// The setting that the question has shown, if there was a question.
    was: Option<String>,
    change: Change,
}

enum Change {
    /// Sets the limit. `Limit::none()` lifts it.
    Limit(LimitScope, Limit),
    /// Holds the scope for this time. Zero ends the hold.
    Hold(LimitScope, Duration),
    Keep(Kind, Keep),
    HeadStart(Kind, Duration),
    /// Inserts the job, due at this time, or now.
    Insert(Box<JobByHand>, Option<SystemTime>),
}

/// The content of a question about a setting.
pub(crate) struct Asked {
    /// The subject in words, with the setting before and after the change.
    pub(crate) scope: String,
    /// The change loses a job.
    pub(crate) loses: bool,
    /// A warning.
    pub(crate) note: Option<String>,
    /// The setting that the question shows. Empty for an insert.
    pub(crate) was: String,
}

/// A setting before it is changed.
struct Before {
    /// The setting, as the end of a sentence: `is not held`.
    state: String,
    /// The limit that holds again after a lift.
    lifted: Option<String>,
    held_until: Option<Time>,
    /// A warning about the kind.
    note: Option<&'static str>,
}

impl Before {
    /// Returns the text that a question sends. It has both limits, because a limit set by hand may equal the earlier
    /// one.
    fn seen(&self) -> String {
        let lifted = self.lifted.iter().map(|limit| format!("; before: {limit}"));
        self.state.clone() + &lifted.collect::<String>()
    }
}

impl Setting {
    pub(crate) fn of(
        reader: &Reader<'_>,
        params: &Params,
        verb: SettingVerb,
    ) -> Result<Setting, Problem> {
        let scoped = || scope(reader, params);
        let named = || {
            let name = params.required("kind")?;
            Ok::<_, Problem>((reader.client().kind_named(&name), format!("the kind {name:?}")))
        };
        let (subject, change) = match verb {
            SettingVerb::Limit => {
                let (scope, subject) = scoped()?;
                let limit = limit(params, &scope)?;
                (subject, Change::Limit(scope, limit))
            }
            SettingVerb::Lift => {
                let (scope, subject) = scoped()?;
                (subject, Change::Limit(scope, Limit::none()))
            }
            SettingVerb::Hold => held(scoped()?, hold(params)?)?,
            SettingVerb::Release => held(scoped()?, Duration::ZERO)?,
            SettingVerb::Keep => {
                let (kind, subject) = named()?;
                (subject, Change::Keep(kind, keep(params)?))
            }
            SettingVerb::HeadStart => {
                let (kind, subject) = named()?;
                let missing = || wrong("the parameter by is missing");
                (subject, Change::HeadStart(kind, params.duration("by")?.ok_or_else(missing)?))
            }
            SettingVerb::Insert => {
                let (kind, subject) = named()?;
                let due = params.when(reader.view().now().to_system())?;
                let job = Box::new(job(reader, params, kind.name())?);
                (subject, Change::Insert(job, params.get("when").map(|_| due)))
            }
        };
        let (kind, was) = (params.name("kind")?, params.get("was").map(str::to_owned));
        Ok(Setting { subject, kind, was, change })
    }

    /// Returns the content of the question.
    pub(crate) fn question(&self, reader: &Reader<'_>) -> Result<Asked, Problem> {
        let before = self.before(reader)?;
        if let Change::Insert(job, due) = &self.change {
            let lost = job.replaces.then_some("A pending job with the key is lost.");
            let notes: Vec<&str> = lost.into_iter().chain(before.note).collect();
            let note = (!notes.is_empty()).then(|| notes.join(" "));
            let scope = self.inserted(job, *due);
            return Ok(Asked { scope, loses: job.replaces, note, was: String::new() });
        }
        let gets = self.gets(&before, reader.view().now());
        let scope = format!("{}, which {}. It gets: {gets}", self.subject, before.state);
        let (was, note) = (before.seen(), before.note.map(str::to_owned));
        Ok(Asked { scope, loses: false, note, was })
    }

    /// Returns the new job in words.
    fn inserted(&self, job: &JobByHand, due: Option<SystemTime>) -> String {
        let mut text = format!("a job of {}, due {}", self.subject, at(due));
        let names = [("with the key", &job.key), ("in the partition", &job.partition)];
        for (what, name) in names {
            text += &name.iter().map(|name| format!(", {what} {name:?}")).collect::<String>();
        }
        text
    }

    /// Returns the new setting in words. Of two holds, the one that ends later counts.
    fn gets(&self, before: &Before, now: Time) -> String {
        match &self.change {
            Change::Limit(_, limit) if *limit == Limit::none() => {
                before.lifted.clone().unwrap_or_else(|| limit.to_string())
            }
            Change::Limit(_, limit) => limit.to_string(),
            Change::Hold(_, time) => {
                let left = before.held_until.map_or(0, |until| until.ms_since(now));
                match u128::try_from(left).is_ok_and(|left| left > time.as_millis()) {
                    true => "the end that it has, which is later".to_owned(),
                    false => format!("no start for {}", span_of(*time)),
                }
            }
            Change::Keep(_, keep) => keep.to_string(),
            Change::HeadStart(_, by) => span_of(*by),
            Change::Insert(..) => String::new(),
        }
    }

    /// Reads the present setting.
    fn before(&self, reader: &Reader<'_>) -> Result<Before, Problem> {
        let (view, mut lifted, mut held_until) = (reader.view(), None, None);
        let page = self.kind.as_deref().map(|kind| view.kind(kind, 0)).transpose()?;
        let kind = page.as_ref().map(|page| &page.kind);
        let state = match &self.change {
            Change::Limit(scope, _) => {
                let row = view.limit(scope)?;
                let limit = row.limit();
                lifted = row.before;
                limited(limit)
            }
            Change::Hold(scope, _) => {
                held_until = view.limit(scope)?.held_until;
                until(held_until)
            }
            Change::Keep(..) => kept(kind.and_then(|kind| kind.keeps.as_deref())),
            Change::HeadStart(..) => ahead(kind.and_then(|kind| kind.head_start_ms)),
            Change::Insert(..) => String::new(),
        };
        let is_insert = matches!(self.change, Change::Insert(..));
        let note = page.and_then(|page| match (is_insert, page.kind.has_node, page.is_known) {
            (true, false, _) => Some("No process handles this kind now, so the job waits for one."),
            (false, _, false) => Some("The queue has had no job of this kind."),
            _ => None,
        });
        Ok(Before { state, lifted, held_until, note })
    }

    /// Makes the change, unless the setting differs from the one that the question has shown.
    pub(crate) fn apply(self, reader: &Reader<'_>) -> Result<Did, Problem> {
        let (client, before) = (reader.client(), self.before(reader)?);
        if self.was.as_ref().is_some_and(|was| *was != before.seen()) {
            let (subject, state) = (capital(&self.subject), &before.state);
            let message = format!("{subject} has changed meanwhile: it {state}");
            return Err(Problem::new(409, "changed", message));
        }
        let new = match &self.change {
            Change::Limit(scope, limit) => Ok(limited(client.limit_by_hand(scope, *limit)?)),
            Change::Hold(scope, time) => {
                client.hold_by_hand(scope, *time)?;
                reader.view().limit(scope).map(|row| until(row.held_until))
            }
            Change::Keep(kind, keep) => {
                kind.keep_completed(*keep)?;
                let keeps = keep.to_string();
                Ok(kept(Some(&*keeps).filter(|_| keeps != Keep::nothing().to_string())))
            }
            Change::HeadStart(kind, by) => {
                kind.head_start(*by)?;
                Ok(ahead(u64::try_from(by.as_millis()).ok()))
            }
            Change::Insert(new, due) => {
                let when = due.map_or(When::from(Duration::ZERO), When::wall);
                let id = client.insert_job_by_hand(when, JobByHand::clone(new))?;
                let text =
                    format!("The job {id} of {} is inserted, due {}.", self.subject, at(*due));
                return Ok(Did { job: Some(id), ..Did::all(with(text, before.note), 1) });
            }
        };
        Ok(self.told(&before, new))
    }

    /// Returns the result. If the setting cannot be read after the change, the result says that it was changed.
    fn told(&self, before: &Before, new: Result<String, StoreError>) -> Did {
        let subject = capital(&self.subject);
        let (text, changes) = match new {
            Ok(new) if new == before.state => {
                (format!("{subject} {new}. It was so before."), false)
            }
            Ok(new) => (format!("{subject} {new}."), true),
            Err(error) => {
                let text = format!("{subject} was changed, and could not be read then: {error}.");
                (text, true)
            }
        };
        Did::all(with(text, before.note), changes.into())
    }
}

fn with(text: String, note: Option<&str>) -> String {
    note.map_or(text.clone(), |note| format!("{text} {note}"))
}

fn held(
    (scope, subject): (LimitScope, String),
    time: Duration,
) -> Result<(String, Change), Problem> {
    match scope {
        LimitScope::Each(_) => {
            Err(wrong("a hold is of the queue, a kind, a flow or one partition"))
        }
        scope => Ok((subject, Change::Hold(scope, time))),
    }
}

/// Returns a limit as the end of a sentence. The next three functions do this for other settings.
fn limited(limit: Limit) -> String {
    match limit == Limit::none() {
        true => "has no limit".to_owned(),
        false => format!("has the limit: {limit}"),
    }
}

fn until(end: Option<Time>) -> String {
    let held = |end| format!("is held until {}", absolute(end));
    end.map_or_else(|| "is not held".to_owned(), held)
}

fn kept(keeps: Option<&str>) -> String {
    let kept = |keeps| format!("keeps of its completed jobs: {keeps}");
    keeps.map_or_else(|| "keeps no completed job".to_owned(), kept)
}

fn ahead(ms: Option<u64>) -> String {
    let ahead = |ms| format!("has a head start of {}", span(ms));
    ms.filter(|ms| *ms > 0).map_or_else(|| "has no head start".to_owned(), ahead)
}

fn at(due: Option<SystemTime>) -> String {
    due.map_or_else(|| "now".to_owned(), |due| absolute(Time::from(due)))
}

fn span_of(time: Duration) -> String {
    span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Reads a scope, and returns it with its name in words.
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

/// Reads a limit, and refuses one that is not valid for the scope.
fn limit(params: &Params, scope: &LimitScope) -> Result<Limit, Problem> {
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
        return Err(wrong("a limit has the parameter running, rate with per, or weight"));
    }
    let has_turns = matches!(scope, LimitScope::Each(_) | LimitScope::Partition { .. });
    limit.checked(has_turns).map_err(|error| StoreError::Invalid(error).into())
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

/// Reads a job. Its id depends on the id of the form.
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
        if line.chars().any(acts) {
            return Err(wrong(format!("the header {name:?} has a character that is not seen")));
        }
    }
    let mut job = JobByHand::default();
    job.headers = headers;
    (job.key, job.partition) = (params.name("key")?, params.name("partition")?);
    job.replaces = params.is_set("replace")?;
    if job.replaces && job.key.is_none() {
        return Err(wrong("replace needs a key: the parameter key is missing"));
    }
    job.payload = payload.trim().as_bytes().to_vec();
    let when = params.get("when");
    job.id = reader.made_from_form(&format!("insert {kind:?} {when:?} {job:?}"))?;
    kind.clone_into(&mut job.kind);
    Ok(job)
}

/// Returns JSON without the characters that a field of a form does not keep. The end of a line becomes a space. An
/// invisible character becomes its escape.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// If a setting was changed and cannot be read afterwards, the result says that it was changed. So the operator
    /// does not change it again.
    #[test]
    fn change_that_cannot_be_read_is_told_as_made() {
        let change = Change::Hold(LimitScope::Queue, Duration::ZERO);
        let setting = Setting { subject: "the queue".to_owned(), kind: None, was: None, change };
        let before = Before { state: until(None), lifted: None, held_until: None, note: None };
        let did = setting.told(&before, Err(StoreError::Busy));
        let says = "The queue was changed, and could not be read then: ";
        assert!(did.changed == 1 && did.text.starts_with(says), "{}", did.text);
    }
}
