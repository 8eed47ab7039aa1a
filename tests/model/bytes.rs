//! Actions from bytes. The fuzzer invents the bytes of a whole history, and proptest those of one action at a time.

use std::fmt::Debug;
use std::iter;
use std::time::Duration;

use arbitrary::{Arbitrary, Result, Unstructured};

/// A model with more actions than this takes seconds for one input.
const ACTIONS_MAX: usize = 400;

/// Decodes a history: the setup, then actions up to the end of the bytes. With `TRACE` in the
/// environment it prints them, to show the history of a bug.
pub(crate) fn history<'a, S, A>(bytes: &'a [u8]) -> (S, Vec<A>)
where
    S: Arbitrary<'a> + Debug,
    A: Arbitrary<'a> + Debug,
{
    let mut data = Unstructured::new(bytes);
    let setup = data.arbitrary().expect("bytes that are missing count as zeros");
    let next = || if data.is_empty() { None } else { data.arbitrary().ok() };
    let actions: Vec<A> = iter::from_fn(next).take(ACTIONS_MAX).collect();
    if std::env::var_os("TRACE").is_some() {
        eprintln!("{setup:?}");
        actions.iter().for_each(|action| eprintln!("{action:?}"));
    }
    (setup, actions)
}

/// Returns `count` milliseconds. `u64::MAX` is never.
pub(crate) fn ms(count: u64) -> Duration {
    if count == u64::MAX { Duration::MAX } else { Duration::from_millis(count) }
}

/// A delay in milliseconds.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Delay(pub(crate) u64);

impl<'a> Arbitrary<'a> for Delay {
    /// A byte is mostly the delay itself, and small: several timers share a tick. The largest bytes stand
    /// for long delays and for never.
    fn arbitrary(data: &mut Unstructured<'a>) -> Result<Delay> {
        Ok(Delay(match data.arbitrary::<u8>()? {
            byte @ ..120 => u64::from(byte % 12),
            byte @ 120..200 => byte.into(),
            byte @ 200..245 => u64::from(byte - 199) * 100,
            245..250 => u64::from(data.arbitrary::<u32>()?),
            _ => u64::MAX,
        }))
    }
}
