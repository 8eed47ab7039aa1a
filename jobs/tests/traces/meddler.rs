//! A layer whose functions call a function of the test, for the spans and events of jobs whose kinds begin with
//! `meddled`.

use std::cell::Cell;
use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Subscriber};
use tracing_subscriber::layer::{Context, Layer};

/// The functions of a layer that the jobs cause to be called.
pub(crate) const FUNCTIONS: [&str; 6] =
    ["on_new_span", "on_record", "on_enter", "on_exit", "on_event", "on_close"];

/// The function that is called.
#[derive(Clone, Default)]
pub(crate) struct Meddles(Option<Arc<dyn Fn(&'static str) + Send + Sync>>);

impl Meddles {
    pub(crate) fn new(function: impl Fn(&'static str) + Send + Sync + 'static) -> Meddles {
        Meddles(Some(Arc::new(function)))
    }
}

static MEDDLES: Mutex<Meddles> = Mutex::new(Meddles(None));

/// Sets the function.
pub(crate) fn meddle_with(meddles: Meddles) {
    let before = {
        let mut place = MEDDLES.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut *place, meddles)
    };
    drop(before);
}

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// The thread is in the function until this is dropped.
struct Inside;

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

/// Calls the function, unless this thread is in it.
fn meddle(function: &'static str) {
    if IS_INSIDE.replace(true) {
        return;
    }
    let _inside = Inside;
    let meddles = MEDDLES.lock().unwrap_or_else(PoisonError::into_inner).clone();
    if let Some(call) = meddles.0 {
        call(function);
    }
}

/// Says whether a span or an event is about a job that is meddled with.
#[derive(Default)]
struct IsMeddled(bool);

impl Visit for IsMeddled {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let text = format!("{value:?}");
        self.0 |= field.name() == "job.kind" && text.trim_matches('"').starts_with("meddled");
    }
}

#[derive(Default)]
pub(crate) struct Meddler {
    spans: Mutex<HashSet<Id>>,
}

impl Meddler {
    fn spans(&self) -> MutexGuard<'_, HashSet<Id>> {
        self.spans.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn meddle_in(&self, span: &Id, function: &'static str) {
        let is_meddled = self.spans().contains(span);
        if is_meddled {
            meddle(function);
        }
    }
}

impl<S: Subscriber> Layer<S> for Meddler {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, _: Context<'_, S>) {
        let mut is = IsMeddled::default();
        attributes.record(&mut is);
        if is.0 {
            self.spans().insert(id.clone());
            meddle("on_new_span");
        }
    }

    fn on_record(&self, span: &Id, _: &Record<'_>, _: Context<'_, S>) {
        self.meddle_in(span, "on_record");
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut is = IsMeddled::default();
        event.record(&mut is);
        if is.0 {
            meddle("on_event");
        }
    }

    fn on_enter(&self, span: &Id, _: Context<'_, S>) {
        self.meddle_in(span, "on_enter");
    }

    fn on_exit(&self, span: &Id, _: Context<'_, S>) {
        self.meddle_in(span, "on_exit");
    }

    fn on_close(&self, span: Id, _: Context<'_, S>) {
        let was_meddled = self.spans().remove(&span);
        if was_meddled {
            meddle("on_close");
        }
    }
}
