//! The outcomes of the latest actions: each form is taken once, and the page that follows it says what was done.
//!
//! Ground rules:
//!
//! - A form has an id of its own, the field `once`. The first request with it does the action; a further one has the
//!   answer of the first. The ids of the latest [`MOST`] actions are remembered.
//! - A page shows the outcome that its parameter `said` names, for [`SHOWN`]. Its text comes from here, never from the
//!   link.

use core::hash::BuildHasher;
use std::collections::VecDeque;
use std::hash::RandomState;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::act::{Changed, Done};
use super::params::Params;
use super::route::Act;
use super::times;
use super::views::Problem;

/// How many outcomes are remembered.
const MOST: usize = 1024;
/// How long a page shows an outcome.
const SHOWN: Duration = Duration::from_secs(60);

/// An outcome.
struct Outcome {
    /// The form that it came from, if that has an id.
    form: Option<u64>,
    /// The value of `said`.
    name: String,
    /// When it was answered last.
    at: Instant,
    done: Done,
}

/// The outcomes of a dashboard.
#[derive(Default)]
pub(crate) struct Outcomes(Mutex<VecDeque<Outcome>>);

/// Returns a new id of a form or an outcome, which cannot be guessed: 32 hexadecimal digits.
pub(crate) fn new_id() -> String {
    static RANDOM: LazyLock<[RandomState; 2]> =
        LazyLock::new(|| [RandomState::new(), RandomState::new()]);
    static LAST: AtomicU64 = AtomicU64::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    RANDOM.iter().map(|random| format!("{:016x}", random.hash_one(number))).collect()
}

/// Returns the form that a request has sent, if it has an id.
pub(crate) fn form(act: &Act, params: &Params) -> Result<Option<u64>, Problem> {
    static RANDOM: LazyLock<RandomState> = LazyLock::new(RandomState::new);
    let form = |_| RANDOM.hash_one((format!("{act:?}"), params));
    params.name("once").map(|once| once.map(form))
}

impl Outcomes {
    /// Remembers an outcome, and returns its name.
    pub(crate) fn add(&self, form: Option<u64>, done: Done) -> String {
        let name = new_id();
        let outcome = Outcome { form, name: name.clone(), at: times::now(), done };
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let over = (all.len() + 1).saturating_sub(MOST);
        let gone: Vec<Outcome> = all.drain(..over).collect();
        all.push_back(outcome);
        drop(all);
        drop(gone);
        name
    }

    /// Returns the outcome of a form that was sent before, and its name.
    pub(crate) fn taken(&self, form: u64) -> Option<(String, Done)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = all.iter_mut().find(|outcome| outcome.form == Some(form))?;
        outcome.at = times::now();
        Some((outcome.name.clone(), outcome.done.clone()))
    }

    /// Returns what the outcome of this name has changed, for the page that follows it.
    pub(crate) fn said(&self, name: &str) -> Option<Changed> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = all.iter().find(|outcome| outcome.name == name)?;
        match &outcome.done {
            Done::Changed(changed) if times::now().duration_since(outcome.at) < SHOWN => {
                Some(changed.clone())
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The memory of outcomes is bounded, and ids of forms differ.
    #[test]
    fn outcomes_are_bounded_and_ids_differ() {
        let outcomes = Outcomes::default();
        let done = || {
            Done::Changed(Changed {
                action: "pause",
                scope: String::new(),
                result: "done",
                text: String::new(),
                job: None,
            })
        };
        let first = outcomes.add(Some(0), done());
        let mut names = std::collections::HashSet::from([first.clone()]);
        for form in 1..=MOST as u64 {
            names.insert(outcomes.add(Some(form), done()));
        }
        assert_eq!((names.len(), outcomes.0.lock().unwrap().len()), (MOST + 1, MOST));
        assert!(outcomes.taken(0).is_none() && outcomes.said(&first).is_none());
        assert!(outcomes.taken(1).is_some_and(|(name, _)| outcomes.said(&name).is_some()));
    }
}
