//! The jobs by state: a filter, a list, and changes of the selected jobs or of all that match.

use maud::{Markup, html};

use super::layout;
use super::parts::{empty, heading, hidden, pager, queue, sent, split, state};
use super::text::{clock, count, number, relative, shown, span};
use crate::web::frame::Frame;
use crate::web::views::Time;
use crate::web::views::job::{Filter, JobRow, Jobs, SHOWN_DIGITS};

/// The states of a list, each with its name.
const STATES: [(&str, &str); 6] = [
    ("pending", "Pending"),
    ("overdue", "Overdue"),
    ("running", "Running"),
    ("retrying", "Retrying"),
    ("dead", "Dead"),
    ("completed", "Completed"),
];

pub(crate) fn page(frame: &Frame, view: &Jobs) -> Markup {
    let filter = &view.filter;
    let name = STATES.iter().find(|(state, _)| *state == filter.state).map_or("", |(_, name)| name);
    let part = html! {
        (heading("Jobs", &html! {
            p id="total" data-live { (total(frame, view)) }
        }))
        nav.tabs aria-label="States" {
            @for (state, name) in STATES {
                a href=(frame.link(&format!("jobs?state={state}")))
                    aria-current=[(state == filter.state).then_some("page")] { (name) }
            }
        }
        (search(frame, view))
        @if view.rows.is_empty() {
            div id="rows" data-live { (nothing(view, name)) }
        } @else {
            div.scroll id="rows" data-live tabindex="0" role="region" aria-label={ (name) " jobs" } { (table(frame, view)) }
        }
        (pager(frame, "jobs", "A hundred jobs a page at most", view.newer.as_deref(), view.older.as_deref()))
        @if frame.may_change && !view.rows.is_empty() && !view.changes.is_empty() { (bulk(frame, view)) }
    };
    layout::page(frame, &format!("{name} jobs"), &part)
}

/// The number of jobs that match, and the number of records that the search has read.
fn total(frame: &Frame, view: &Jobs) -> Markup {
    html! {
        @if let Some(total) = view.total { (number(total)) " " @if total.count == 1 { "job" } @else { "jobs" } }
        @if let Some(searched) = view.searched {
            @if view.total.is_some() { "; " }
            "searched " (count(searched.records))
            @if let Some(of) = searched.of { " of " (count(of)) }
            @if searched.hit_limit {
                ", and goes on with "
                @match &view.older { Some(older) => a rel="next" href=(frame.link(&format!("jobs?{older}"))) { "Older" }, None => "Older" }
            }
        }
    }
}

fn search(frame: &Frame, view: &Jobs) -> Markup {
    let filter = &view.filter;
    // A text that no field can hold is shown beside its field, and kept.
    let (kept, typed) = kept(filter);
    let text = |field: &Option<String>| {
        field.as_deref().filter(|text| typed.contains(text)).unwrap_or_default().to_owned()
    };
    let hint = |field: &Option<String>| {
        let hint = field.as_deref().filter(|text| !typed.contains(text)).unwrap_or_default();
        shown(hint).to_string()
    };
    let has_filter = filter.kind.is_some()
        || filter.key.is_some()
        || filter.text.is_some()
        || filter.group.is_some()
        || filter.from.is_some()
        || filter.to.is_some();
    html! {
        form.fields role="search" action={ (frame.root) "jobs" } {
            (queue(frame))
            (hidden("form", "search"))
            (hidden("state", filter.state))
            @if !kept.is_empty() { (hidden("keep", &kept)) }
            div.field.wide {
                label for="search" { "Id, or text in the data, key, headers or error" }
                input id="search" type="search" name="text" maxlength="200" value=(text(&filter.text)) placeholder=(hint(&filter.text));
            }
            div.field.mid {
                label for="kind" { "Kind" }
                input id="kind" name="kind" list="kinds" autocomplete="off" value=(text(&filter.kind)) placeholder=(hint(&filter.kind));
                datalist id="kinds" { @for kind in &view.kinds { option value=(shown(kind)) {} } }
            }
            div.field.mid {
                label for="key" { "Key" }
                input id="key" name="key" autocomplete="off" value=(text(&filter.key)) placeholder=(hint(&filter.key));
            }
            div.pair {
                div.field.mid {
                    label for="from" { "Due from" }
                    input id="from" name="from" placeholder="2026-11-22" autocomplete="off" value=(text(&filter.from));
                }
                div.field.mid {
                    label for="to" { "to" }
                    input id="to" name="to" placeholder="-1h, 30m" autocomplete="off" value=(text(&filter.to));
                }
            }
            @if let Some(group) = &filter.group {
                (hidden("group", group))
                p.t { "Error: " @match filter.error.as_deref() {
                    Some("") => "no text",
                    Some(error) => (shown(error)),
                    None => (group),
                } }
            }
            span.row {
                button { "Search" }
                @if has_filter { a.btn href=(frame.link(&format!("jobs?state={}", filter.state))) { "Clear" } }
            }
        }
    }
}

/// Returns the filters whose text no field can hold, as a query, and the texts that a field can.
fn kept(filter: &Filter) -> (String, Vec<&str>) {
    let given = [("text", &filter.text), ("kind", &filter.kind), ("key", &filter.key)];
    let given: Vec<(&str, &str)> =
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
    let (kept, typed) = split("", &given);
    let times = [filter.from.as_deref(), filter.to.as_deref()].into_iter().flatten();
    let typed = typed.into_iter().map(|(_, value)| value).chain(times).collect();
    (kept.trim_start_matches('?').to_owned(), typed)
}

fn nothing(view: &Jobs, name: &str) -> Markup {
    let filter = &view.filter;
    let text = match filter.state {
        _ if view.older.is_some() => "None in the part that was searched. The list goes on.",
        _ if view.newer.is_some() => "This was the last page.",
        _ if filter.kind.is_some() || filter.key.is_some() || filter.text.is_some() => {
            "No job matches. Upper and lower case of the text are the same; kind and key match as a whole."
        }
        "pending" => "No job waits. A program inserts one, or a schedule does.",
        "overdue" => "Every job has started in time.",
        "running" => "No job runs now.",
        "retrying" => "No job waits for another attempt.",
        "dead" => "No job has used up its retries.",
        _ => "A completed job is listed here if its kind keeps completed jobs.",
    };
    empty(&format!("No {} job", name.to_lowercase()), text)
}

fn table(frame: &Frame, view: &Jobs) -> Markup {
    let filter = &view.filter;
    let has_tick = frame.may_change && !view.changes.is_empty();
    let when = match filter.state {
        "dead" => "Died",
        "completed" => "Ended",
        "running" => "Claimed",
        _ => "Due",
    };
    let last = match filter.state {
        "running" => "Progress",
        "completed" => "",
        _ => "Last error",
    };
    html! {
        table.stack {
            thead { tr {
                @if has_tick {
                    th.tick scope="col" {
                        input type="checkbox" data-all data-script hidden aria-label="Select all rows of this page";
                        span.only-read { "Selected" }
                    }
                }
                th scope="col" { "Job" }
                @if filter.state != "dead" { th scope="col" { "State" } }
                th scope="col" { (when) }
                th.num scope="col" { "Attempt" }
                @if filter.state == "completed" { th.num scope="col" { "Took" } }
                @if !last.is_empty() { th scope="col" { (last) } }
            } }
            tbody { @for job in &view.rows { (row(frame, view, job, has_tick, when)) } }
        }
    }
}

fn row(frame: &Frame, view: &Jobs, job: &JobRow, has_tick: bool, when: &str) -> Markup {
    let at = job.ended.or(job.claimed).filter(|_| when != "Due").unwrap_or(job.due);
    let said = if view.filter.state == "running" { &job.progress } else { &job.error };
    html! {
        tr data-key=(job.id) {
            @if has_tick {
                td.tick {
                    input type="checkbox" form="some" name="id" value=(job.id)
                        aria-label={ "Select " (shown(&job.kind)) " " (job.id) };
                }
            }
            th.name scope="row" {
                a.t.clip data-row href=(frame.link(&format!("jobs/{}", job.id))) { (shown(&job.kind)) }
                span.sub.t.clip {
                    @match &job.key {
                        Some(key) => span.mono title=(shown(key)) { (shown(key)) },
                        None => span.mono title=(job.id) { (short(&job.id)) },
                    }
                }
            }
            @if view.filter.state != "dead" { td data-of="State" { (state_of(view.now, job)) } }
            td.nowrap data-of=(when) { span { (relative(at, view.now)) " " span.sub { (clock(at, view.now)) } } }
            td.num data-of="Attempt" { (attempts(job)) }
            @if view.filter.state == "completed" { td.num data-of="Took" { @match job.took_ms { Some(ms) => (span(ms)), None => span.zero { "–" } } } }
            @if view.filter.state != "completed" {
                td.none[said.is_none()] data-of=(if view.filter.state == "running" { "Progress" } else { "Error" }) {
                    @if let Some(said) = said { span.t.clip.small title=(shown(said)) { (shown(said)) } }
                }
            }
        }
    }
}

/// The state, in which a job that waits is overdue or is retried.
fn state_of(now: Time, job: &JobRow) -> Markup {
    match job.state {
        "pending" if job.due < now => state("overdue"),
        "pending" if job.failures > 0 => state("retrying"),
        word => state(word),
    }
}

fn attempts(job: &JobRow) -> Markup {
    let has_both = job.failures > 0 && job.interruptions > 0;
    html! {
        (job.attempt)
        span.sub {
            @if job.failures > 0 { (job.failures) " failed" }
            @if has_both { ", " }
            @if job.interruptions > 0 { (job.interruptions) " interrupted" }
        }
    }
}

fn short(id: &str) -> &str {
    id.get(..SHOWN_DIGITS).unwrap_or(id)
}

/// The changes: of the selected jobs, and of all that match. Each says which.
fn bulk(frame: &Frame, view: &Jobs) -> Markup {
    let (target, fields) = split("api/v1/bulk", &parameters(&view.filter));
    let all = match view.total {
        Some(total) if total.count == 1 => "The one that matches".to_owned(),
        Some(total) => format!("All {} that match", number(total)),
        None => "All that match".to_owned(),
    };
    html! {
        div.bulk {
            form.row id="some" method="post" action=(frame.link("api/v1/bulk")) {
                strong { "Selected" }
                (sent(frame, &frame.here))
                (changes(view, "when-some"))
                span.soft role="status" data-count {}
            }
            form.row.end method="post" action=(frame.link(&target)) {
                strong { (all) }
                (sent(frame, &frame.here))
                @for (name, value) in fields { (hidden(name, value)) }
                (changes(view, "when-all"))
            }
        }
    }
}

fn parameters(filter: &Filter) -> Vec<(&str, &str)> {
    let given = [
        ("state", Some(filter.state)),
        ("kind", filter.kind.as_deref()),
        ("key", filter.key.as_deref()),
        ("text", filter.text.as_deref()),
        ("group", filter.group.as_deref()),
        ("from", filter.from.as_deref()),
        ("to", filter.to.as_deref()),
    ];
    let mut given: Vec<_> =
        given.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    if given.len() == 1 {
        given.push(("all", "yes"));
    }
    given
}

fn changes(view: &Jobs, when: &str) -> Markup {
    html! {
        @for change in &view.changes {
            @match *change {
                "reschedule" => span.row {
                    button name="action" value="reschedule" { "Reschedule to" }
                    label.only-read for=(when) { "Reschedule to" }
                    input.when id=(when) name="when" placeholder="5m, 2h 30m" autocomplete="off";
                },
                "retry" => button name="action" value="retry" { "Retry" },
                "cancel" => button.risky name="action" value="cancel" { "Cancel" },
                "delete" => button.risky name="action" value="delete" { "Delete" },
                _ => {},
            }
        }
    }
}
