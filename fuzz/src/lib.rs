//! Each target turns bytes into a history of calls, makes the same calls on the wheel and on a slow
//! and obvious model, and compares the results. A model shares no code with the code that it checks.
//!
//! `fuzz_targets/` runs them under libFuzzer, and `tests/replay.rs` runs them on the corpus.

#![forbid(unsafe_code)]

pub mod events;
pub mod futures;
pub mod hierarchy;
pub mod keyed;
pub mod wheel;

use std::fmt::Debug;
use std::iter;
use std::time::Duration;

use arbitrary::{Arbitrary, Unstructured};

/// Runs a target on an input.
pub type Run = fn(&[u8]);

/// The targets, each with the folder of its corpus.
pub const TARGETS: [(&str, Run); 5] = [
    ("hierarchy", hierarchy::run),
    ("wheel", wheel::run),
    ("keyed", keyed::run),
    ("futures", futures::run),
    ("events", events::run),
];

/// Decodes the rest of an input into actions. With `TRACE` in the environment it prints them, to
/// show the history of a bug.
fn actions<'a, A>(mut data: Unstructured<'a>) -> impl Iterator<Item = A>
where
    A: Arbitrary<'a> + Debug,
{
    let trace = std::env::var_os("TRACE").is_some();
    let actions =
        iter::from_fn(move || if data.is_empty() { None } else { data.arbitrary::<A>().ok() });
    actions.inspect(move |action| {
        if trace {
            eprintln!("{action:?}");
        }
    })
}

/// Returns `count` milliseconds. `u64::MAX` is never.
fn ms(count: u64) -> Duration {
    if count == u64::MAX { Duration::MAX } else { Duration::from_millis(count) }
}

/// A delay in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Delay(u64);

impl<'a> Arbitrary<'a> for Delay {
    /// A byte is mostly the delay itself. The largest stand for long delays and for never.
    fn arbitrary(data: &mut Unstructured<'a>) -> arbitrary::Result<Delay> {
        Ok(Delay(match data.arbitrary::<u8>()? {
            byte @ ..200 => byte.into(),
            byte @ 200..250 => u64::from(byte - 199) * 100,
            250..253 => u64::from(data.arbitrary::<u32>()?),
            _ => u64::MAX,
        }))
    }
}
