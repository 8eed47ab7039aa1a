//! The page of a problem: a page that is not there, a right that is missing, a store that does not answer.

use maud::{Markup, html};

use super::layout;
use super::parts::heading;
use super::text::shown;
use crate::web::frame::Frame;
use crate::web::views::Problem;

pub(crate) fn page(frame: &Frame, view: &Problem) -> Markup {
    let title = match view.status {
        400 => "The request is not valid",
        401 => "A password is needed",
        403 => "Not allowed",
        404 => "Not found",
        405 => "Not this way",
        409 => "It has changed meanwhile",
        413 => "Too much at once",
        429 => "Too many requests",
        503 => "The store does not answer",
        _ => "Something went wrong",
    };
    let part = html! {
        (heading(title, &html! { span.state.dead[view.status >= 500] { (view.status) } }))
        p.t { (shown(&view.message)) }
        p.row {
            a.btn href=(frame.link("")) { "To the overview" }
            @if view.status >= 500 && !frame.here.is_empty() { a.btn href=(frame.link(&frame.here)) { "Try again" } }
        }
    };
    layout::page_of_a_problem(frame, title, &part)
}
