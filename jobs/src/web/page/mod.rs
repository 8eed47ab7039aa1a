//! The pages as HTML. Each is a pure function of a frame and a view.
//!
//! Ground rules:
//!
//! - Text of a job is shown by [`text::shown`] or [`text::lines`], so that no control character and no mark of a
//!   direction acts. maud escapes it; nothing here passes HTML through unescaped.
//! - Every link is from [`Frame::link`](super::frame::Frame::link). Every form works without the script.
//! - The content policy forbids `style` and `on..` attributes: colours and sizes are classes, or attributes of SVG.

pub(crate) mod text;
pub(crate) mod chart;
pub(crate) mod layout;
pub(crate) mod parts;
pub(crate) mod overview;
pub(crate) mod limits;
pub(crate) mod kinds;
pub(crate) mod jobs;
pub(crate) mod job;
pub(crate) mod dead;
pub(crate) mod groups;
pub(crate) mod schedules;
pub(crate) mod nodes;
pub(crate) mod store;
pub(crate) mod question;
pub(crate) mod progress;
pub(crate) mod problem;

#[cfg(test)]
mod tests;
