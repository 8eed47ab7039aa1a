//! The actions on settings: the limit and the hold of a scope, the completed jobs that a kind keeps, and its head
//! start. Also the insert of a job by hand.
//!
//! Ground rules:
//!
//! - A request names its scope by a word, and by the names that this scope needs. A missing name and a name too many
//!   are errors, so a request about a kind never changes the queue.
//! - The question is a dry run of the change, so it refuses what the change refuses. It sends the stored text of the
//!   setting. If the store has another text by then, nothing is changed.
//! - A limit is set by hand, so every page shows it until it is lifted. Then the earlier limit holds again. A limit of a
//!   program is lifted only with `program`.

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
use tickwheel_jobs::{
    ChangedByHand, Client, HowChanged, JobByHand, JobId, Keep, Limit, LimitScope, StoredLimit,
};

pub(crate) struct Setting {
    /// The subject in words: `the queue`, `the kind "mail"`.
    pub(crate) subject: String,
    /// The kind that the request names.
    kind: Option<String>,
    /// The text of the setting that the question has sent, if there was a question.
    was: Option<String>,
    change: Change,
}

enum Change {
    Limit(LimitScope, Limit),
    /// Lifts the limit that was set by hand. With the flag, also that of a program.
    Lift(LimitScope, bool),
    /// Holds the scope for this time. Zero ends the hold.
    Hold(LimitScope, Duration),
    Keep(String, Keep),
    HeadStart(String, Duration),
    /// Inserts the job, due at this time, or now.
    Insert(Box<JobByHand>, Option<SystemTime>),
}

pub(crate) struct Asked {
    /// The subject in words, with the setting before and after the change.
    pub(crate) scope: String,
    pub(crate) loses: bool,
    pub(crate) note: Option<String>,
    /// The stored text of the setting, if the question is about one.
    pub(crate) was: Option<String>,
}

impl Setting {
    pub(crate) fn of(
        reader: &Reader<'_>,
        params: &Params,
        verb: SettingVerb,
    ) -> Result<Setting, Problem> {
        let (kind, scope) = (params.name("kind")?, || scope(reader, params));
        let named = || params.required("kind");
        let change = match verb {
            SettingVerb::Limit => Change::Limit(scope()?, limit(params)?),
            SettingVerb::Lift => Change::Lift(scope()?, params.is_set("program")?),
            SettingVerb::Hold => Change::Hold(scope()?, hold(params)?),
            SettingVerb::Release => Change::Hold(scope()?, Duration::ZERO),
            SettingVerb::Keep => Change::Keep(named()?, keep(params)?),
            SettingVerb::HeadStart => {
                let missing = || wrong("the parameter by is missing");
                Change::HeadStart(named()?, params.duration("by")?.ok_or_else(missing)?)
            }
            SettingVerb::Insert => {
                let due = params.when(reader.view().now().to_system())?;
                let job = Box::new(job(reader, params, &named()?)?);
                Change::Insert(job, params.get("when").map(|_| due))
            }
        };
        let subject = match (&change, &kind) {
            (Change::Hold(LimitScope::Each(_), _), _) => {
                return Err(wrong("a hold is of the queue, a kind, a flow or one partition"));
            }
            (Change::Limit(scope, _) | Change::Lift(scope, _) | Change::Hold(scope, _), kind) => {
                scope.in_words(kind.as_deref())
            }
            (_, kind) => format!("the kind {:?}", kind.as_deref().unwrap_or_default()),
        };
        let was = params.get("was").map(str::to_owned);
        Ok(Setting { subject, kind, was, change })
    }

    pub(crate) fn question(&self, reader: &Reader<'_>) -> Result<Asked, Problem> {
        let note = self.note(reader)?;
        if let Change::Insert(job, due) = &self.change {
            insert(reader.client(), job, *due, true)?;
            let lost = job.replaces.then_some("A pending job with the key is lost.");
            let notes: Vec<&str> = lost.into_iter().chain(note).collect();
            let note = (!notes.is_empty()).then(|| notes.join(" "));
            let scope = self.inserted(job, *due);
            return Ok(Asked { scope, loses: job.replaces, note, was: None });
        }
        let ChangedByHand { before, now, was, changes, .. } = self.change(reader.client(), true)?;
        let gets = match &self.change {
            _ if !changes => "It stays so".to_owned(),
            // The hold begins at the confirmation.
            Change::Hold(_, time) if !time.is_zero() => {
                format!("Then no job of it starts for {}", span_of(*time))
            }
            _ => format!("Then it {now}"),
        };
        let scope = format!("{}, which {before}. {gets}", self.subject);
        Ok(Asked { scope, loses: false, note: note.map(str::to_owned), was: Some(was) })
    }

    fn inserted(&self, job: &JobByHand, due: Option<SystemTime>) -> String {
        let mut text = format!("a job of {}, due {}", self.subject, at(due));
        let names = [("with the key", &job.key), ("in the partition", &job.partition)];
        for (what, name) in names {
            text += &name.iter().map(|name| format!(", {what} {name:?}")).collect::<String>();
        }
        text
    }

    /// Makes the change, or checks it. Returns the setting before and after it, each as the end of a sentence.
    fn change(&self, client: &Client, dry_run: bool) -> Result<ChangedByHand<String>, Problem> {
        let how = HowChanged::new(dry_run, self.was.as_deref().filter(|_| !dry_run));
        let limit_to = |scope, plan: &dyn Fn(StoredLimit) -> Result<StoredLimit, Problem>| {
            Ok::<_, Problem>(client.limit_by_hand(scope, how, plan)?.map(|its| limited(its.limit)))
        };
        Ok(match &self.change {
            Change::Limit(scope, limit) => limit_to(scope, &|stored| Ok(stored.by_hand(*limit)))?,
            Change::Lift(scope, program) => limit_to(scope, &|stored| {
                stored.lift(*program).ok_or_else(|| {
                    let subject = capital(&self.subject);
                    let its = limited(stored.limit);
                    let message = format!(
                        "{subject} has no limit set by hand. It {its}. program=yes removes the limit of a program"
                    );
                    Problem::new(409, "wrong_state", message)
                })
            })?,
            Change::Hold(scope, time) => client.hold_by_hand(scope, *time, how)?.map(until),
            Change::Keep(kind, keep) => client.keep_by_hand(kind, *keep, how)?.map(kept),
            Change::HeadStart(kind, by) => client.head_start_by_hand(kind, *by, how)?.map(ahead),
            Change::Insert(..) => unreachable!("an insert changes no setting"),
        })
    }

    /// Returns a warning about the kind or the flow.
    fn note(&self, reader: &Reader<'_>) -> Result<Option<&'static str>, Problem> {
        let client = reader.client();
        let is_known =
            |kind: &String| client.queue().kinds().map(|all| all.iter().any(|it| it.0 == *kind));
        Ok(match (&self.change, &self.kind) {
            (Change::Insert(job, _), _) => (!client.is_handled(&job.kind)?)
                .then_some("No process handles this kind now, so the job waits for one."),
            (_, Some(kind)) => {
                (!is_known(kind)?).then_some("The queue has had no job of this kind.")
            }
            (
                Change::Limit(LimitScope::Flow(flow), _) | Change::Hold(LimitScope::Flow(flow), _),
                _,
            ) => (!client.has_flow(flow)?).then_some("No kind of the queue has this flow."),
            _ => None,
        })
    }

    /// Makes the change, unless the store has another text of the setting than the question has sent.
    pub(crate) fn apply(self, reader: &Reader<'_>) -> Result<Did, Problem> {
        let note = self.note(reader)?.map(|note| format!(" {note}")).unwrap_or_default();
        if let Change::Insert(job, due) = &self.change {
            let id = insert(reader.client(), job, *due, false)?;
            let text = format!("The job {id} of {} is inserted, due {}.", self.subject, at(*due));
            return Ok(Did { job: Some(id), ..Did::all(text + &note, 1) });
        }
        let ChangedByHand { now, was, changes, .. } = self.change(reader.client(), false)?;
        let subject = capital(&self.subject);
        if self.was.is_some_and(|seen| seen != was) {
            let message = format!("{subject} has changed meanwhile: it {now}");
            return Err(Problem::new(409, "changed", message));
        }
        let same = if changes { "" } else { " It was so before." };
        Ok(Did::all(format!("{subject} {now}.{same}{note}"), changes.into()))
    }
}

fn insert(
    client: &Client,
    job: &JobByHand,
    due: Option<SystemTime>,
    dry_run: bool,
) -> Result<JobId, Problem> {
    let when = due.map_or(When::from(Duration::ZERO), When::wall);
    let mut job = job.clone();
    job.dry_run = dry_run;
    Ok(client.insert_by_hand(when, job)?)
}

/// Returns a limit as the end of a sentence. The next three functions do this for other settings.
fn limited(limit: Limit) -> String {
    match limit == Limit::none() {
        true => "has no limit".to_owned(),
        false => format!("has the limit: {limit}"),
    }
}

fn until(end: Option<SystemTime>) -> String {
    let held = |end| format!("is held until {}", absolute(Time::from(end)));
    end.map_or_else(|| "is not held".to_owned(), held)
}

fn kept(keep: Keep) -> String {
    format!("keeps of its completed jobs: {keep}")
}

fn ahead(by: Duration) -> String {
    match by.is_zero() {
        true => "has no head start".to_owned(),
        false => format!("has a head start of {}", span_of(by)),
    }
}

fn at(due: Option<SystemTime>) -> String {
    due.map_or_else(|| "now".to_owned(), |due| absolute(Time::from(due)))
}

fn span_of(time: Duration) -> String {
    span(u64::try_from(time.as_millis()).unwrap_or(u64::MAX))
}

/// Reads the word of a scope, and refuses a name that has no meaning beside it.
pub(crate) fn scope_word(params: &Params) -> Result<String, Problem> {
    let word = params.required("scope")?;
    let names: &[&str] = match &*word {
        "queue" => &[],
        "kind" | "each_partition" => &["kind"],
        "flow" => &["flow"],
        "partition" => &["kind", "partition"],
        _ => return Err(wrong("scope is queue, kind, flow, each_partition or partition")),
    };
    let is_odd = |name: &&&str| !names.contains(*name) && params.get(name).is_some();
    match ["kind", "flow", "partition"].iter().find(is_odd) {
        Some(name) => Err(wrong(format!("{name} has no meaning beside scope={word}"))),
        None => Ok(word),
    }
}

fn scope(reader: &Reader<'_>, params: &Params) -> Result<LimitScope, Problem> {
    let kind = || params.required("kind");
    Ok(match &*scope_word(params)? {
        "queue" => LimitScope::Queue,
        "flow" => LimitScope::Flow(params.required("flow")?),
        "each_partition" => LimitScope::Each(kind()?),
        "partition" => {
            LimitScope::Partition { kind: kind()?, partition: params.required("partition")? }
        }
        _ => LimitScope::Flow(reader.client().kind_named(&kind()?).stored_flow()?),
    })
}

fn limit(params: &Params) -> Result<Limit, Problem> {
    let running = params.number("running")?.map_or(Limit::none(), Limit::running);
    let rate = params.number("rate");
    let rate = rate.map_err(|_| wrong("rate is a number of jobs, and per its period: 10 in 1s"))?;
    let limit = match (rate, params.duration("per")?) {
        (Some(rate), Some(per)) => running.rate(rate, per),
        (None, None) => running,
        (Some(_), None) => return Err(wrong("the parameter per is missing: the period of rate")),
        (None, Some(_)) => return Err(wrong("the parameter rate is missing: the jobs in per")),
    };
    let limit = params.number("burst")?.map_or(limit, |burst| limit.burst(burst));
    let limit = params.number("weight")?.map_or(limit, |weight| limit.weight(weight));
    match limit == Limit::none() {
        true => Err(wrong("a limit has the parameter running, rate with per, or weight")),
        false => Ok(limit),
    }
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
