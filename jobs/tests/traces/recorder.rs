//! A subscriber that notes every span and event of this process: handlers run on threads of the jobs, so the tests
//! share one.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tickwheel_jobs::{Job, JobId};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::meddler::Meddler;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
/// Longer than anything takes on a loaded machine.
pub(crate) const LONG: Duration = Duration::from_secs(60);

#[derive(Serialize, Deserialize, Clone, Debug)]
pub(crate) struct Task(pub(crate) u64);

impl Job for Task {
    const KIND: &'static str = "task";
}

/// A span or an event, as the subscriber got it.
#[derive(Clone, Debug)]
pub(crate) struct Noted {
    pub(crate) name: &'static str,
    pub(crate) target: &'static str,
    pub(crate) level: Level,
    pub(crate) fields: Fields,
    /// The span, or that of the event.
    pub(crate) id: Option<u64>,
    pub(crate) parent: Option<u64>,
    pub(crate) is_closed: bool,
}

impl Noted {
    /// Returns the text of a field: an empty one if it was not recorded.
    pub(crate) fn field(&self, name: &str) -> &str {
        self.fields.0.get(name).map(String::as_str).unwrap_or_default()
    }
}

#[derive(Clone, Default, Debug)]
pub(crate) struct Fields(BTreeMap<&'static str, String>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name(), value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.insert(field.name(), format!("{value:?}"));
    }
}

#[derive(Default)]
struct All {
    spans: Vec<Noted>,
    events: Vec<Noted>,
}

static ALL: Mutex<All> = Mutex::new(All { spans: Vec::new(), events: Vec::new() });

fn all() -> MutexGuard<'static, All> {
    ALL.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Recorder;

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Recorder {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let parent = context.span(id).and_then(|span| span.parent().map(|it| it.id().into_u64()));
        let (meta, id) = (attributes.metadata(), Some(id.into_u64()));
        let (name, target, level) = (meta.name(), meta.target(), *meta.level());
        all().spans.push(Noted { name, target, level, fields, id, parent, is_closed: false });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, _: Context<'_, S>) {
        let mut all = all();
        if let Some(span) = open(&mut all, id) {
            values.record(&mut span.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        let (meta, span) = (event.metadata(), context.event_span(event));
        let (name, target, level) = (meta.name(), meta.target(), *meta.level());
        let id = span.map(|span| span.id().into_u64());
        let noted = Noted { name, target, level, fields, id, parent: None, is_closed: false };
        all().events.push(noted);
    }

    fn on_close(&self, id: Id, _: Context<'_, S>) {
        if let Some(span) = open(&mut all(), &id) {
            span.is_closed = true;
        }
    }
}

/// Returns the open span of this id: the registry uses an id again.
fn open<'a>(all: &'a mut All, id: &Id) -> Option<&'a mut Noted> {
    let is_it = |span: &&mut Noted| span.id == Some(id.into_u64()) && !span.is_closed;
    all.spans.iter_mut().rev().find(is_it)
}

/// Begins to record. Every test calls it first.
pub(crate) fn record() {
    static SET: OnceLock<()> = OnceLock::new();
    SET.get_or_init(|| {
        let subscriber = Registry::default().with(Recorder).with(Meddler::default());
        tracing::subscriber::set_global_default(subscriber).unwrap();
    });
}

/// Returns the spans of the runs of a job, in the order of their starts.
pub(crate) fn runs_of(id: JobId) -> Vec<Noted> {
    let is_its = |span: &&Noted| span.name == "process" && span.field("job.id") == id.to_string();
    all().spans.iter().filter(is_its).cloned().collect()
}

/// Returns the span of the only run of a job, which has ended.
pub(crate) fn run_of(id: JobId) -> Noted {
    let runs = runs_of(id);
    assert_eq!(runs.len(), 1, "{runs:?}");
    runs[0].clone()
}

/// Returns the events of a job.
pub(crate) fn events_of(id: JobId) -> Vec<Noted> {
    events(|event| event.field("job.id") == id.to_string())
}

/// Returns the events that are chosen.
pub(crate) fn events(is_chosen: impl Fn(&Noted) -> bool) -> Vec<Noted> {
    all().events.iter().filter(|event| is_chosen(event)).cloned().collect()
}

/// Returns the id of the span that is current on this thread.
pub(crate) fn current() -> Option<u64> {
    tracing::Span::current().id().map(|id| id.into_u64())
}
