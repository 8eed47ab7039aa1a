//! The command `top`: the present figures of a queue, as a view that is refreshed once a second, as a page, or as JSON.
//!
//! Ground rules:
//!
//! - No question to the store grows with the number of jobs: `ask.rs`.
//! - `--once` and `--json` are there in every build, so that a script does not depend on the feature `top`.
//! - The view is a state that takes events, and a function that draws the state. Both are tested without a terminal
//!   and without a store. Only `live.rs` touches threads, the terminal and signals.

mod ask;
#[cfg_attr(
    not(feature = "top"),
    allow(dead_code, reason = "a page has no colors, and opens no list")
)]
mod tables;
#[cfg_attr(
    not(feature = "top"),
    allow(dead_code, reason = "a page has no colors, and opens no list")
)]
#[cfg(feature = "top")]
mod lists;
#[cfg(feature = "top")]
mod change;
#[cfg(feature = "top")]
mod curve;
#[cfg(feature = "top")]
mod state;
#[cfg(feature = "top")]
mod keys;
#[cfg(feature = "top")]
mod draw;
#[cfg(feature = "top")]
mod live;
#[cfg(all(test, feature = "top"))]
mod tests;
#[cfg(all(test, unix, feature = "top"))]
#[allow(
    dead_code,
    clippy::disallowed_methods,
    reason = "another process is the subject, so time is real"
)]
#[path = "../../tests/terminal/tmux.rs"]
mod tmux;

use std::io::Write;

use tickwheel_jobs::Client;

use crate::open::Place;
use crate::text;
use crate::{Answer, Outcome};
use ask::Source;

pub(crate) fn once(client: Client, place: &Place, json: bool, out: &mut impl Write) -> Answer {
    let figures = Source::new(client, place).figures()?;
    match json {
        true => writeln!(out, "{}", text::json(&figures)?)?,
        false => tables::print(&figures, out)?,
    }
    Ok(Outcome::Done)
}

#[cfg(feature = "top")]
pub(crate) use live::run as live;

#[cfg(not(feature = "top"))]
pub(crate) fn live<T>(_: Client, _: &Place, _: T) -> Answer {
    let cure = "`top --once` prints a page, `top --json` the same as JSON";
    Err(format!("this command was built without the feature `top`, so it has no view: {cure}")
        .into())
}
