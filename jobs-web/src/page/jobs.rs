//! The pages of jobs: the jobs by state with a filter, and changes of the selected ones or of all that match; one job
//! with its facts, its timeline and its data; and the dead jobs, grouped by kind and first line of the error, where a
//! group is retried or deleted as a whole.

use maud::{Markup, html};

use super::layout;
use crate::page::layout::{Frame, encoded};
use crate::page::{
    Look, absolute, button, bytes, capital, clock, count, counted, empty, heading, hidden, lines,
    number, or_dash, pager, queue, relative, sent, shown, span, split, state, table,
};
use crate::views::{Filter, Job, Jobs};
use tickwheel_jobs::view::{
    Content, Dead, DeadGroup, JobPage, JobRow, ListState, Time, TimelineStep,
};
use tickwheel_jobs::{JobState, PendingReason};

/// How many of the digits of an id a list shows: its time and its number within the millisecond, in which the ids of a
/// process differ. The search and the command take them.
const SHOWN_DIGITS: usize = 14;

pub(crate) fn jobs_page(frame: &Frame, view: &Jobs) -> Markup {
    let filter = &view.filter;
    let name = &*capital(filter.state);
    let part = html! {
        (heading("Jobs", &html! {
            p id="total" data-live { (total(frame, view)) }
        }))
        nav.tabs aria-label="States" {
            @for state in ListState::ALL.map(ListState::word) {
                a href=(frame.link(&format!("jobs?state={state}")))
                    aria-current=[(state == filter.state).then_some("page")] { (capital(state)) }
            }
        }
        (search(frame, view))
        @if view.list.rows.is_empty() {
            div id="rows" data-live { (nothing(view, name)) }
        } @else {
            div.scroll id="rows" data-live tabindex="0" role="region" aria-label={ (name) " jobs" } { (job_table(frame, view)) }
        }
        @let to = |query: &Option<String>| query.as_ref().map(|query| format!("jobs?{query}"));
        @let links = [("← Newer", Some("prev"), to(&view.newer)), ("Older →", Some("next"), to(&view.older))];
        (pager(frame, "A hundred jobs a page at most", &links))
        @if frame.may_change && !view.list.rows.is_empty() && !view.changes.is_empty() { (bulk(frame, view)) }
    };
    layout::page(frame, &format!("{name} jobs"), &part)
}

/// The number of jobs that match, and the number of records that the search has read.
fn total(frame: &Frame, view: &Jobs) -> Markup {
    html! {
        @if let Some(total) = view.list.total { (number(total)) " " @if total.count == 1 { "job" } @else { "jobs" } }
        @if let Some(searched) = view.list.searched {
            @if view.list.total.is_some() { "; " }
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
    let has_filter = filter.pairs().len() > 1;
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
            @if let Some(member) = &filter.member {
                (hidden("member", member))
                p { "Members of the group " span.mono { (member) } }
            }
            @if let Some(node) = &filter.node {
                p { "On the node " span.t { (shown(node)) } }
            }
            span.row {
                button { "Search" }
                @if has_filter { a.btn href=(frame.link(&format!("jobs?state={}", filter.state))) { "Clear" } }
            }
        }
    }
}

/// Returns the filters that have no field, or whose text no field can hold, as a query; and the texts that a field can.
fn kept(filter: &Filter) -> (String, Vec<&str>) {
    let given = [("text", &filter.text), ("kind", &filter.kind), ("key", &filter.key)];
    let given: Vec<(&str, &str)> =
        given.into_iter().filter_map(|(name, value)| Some((name, value.as_deref()?))).collect();
    let (kept, typed) = split("", &given);
    let kept = kept.trim_start_matches('?');
    let node = filter.node.as_deref().map(|node| format!("node={}", encoded(node)));
    let kept = [Some(kept.to_owned()).filter(|kept| !kept.is_empty()), node];
    let times = [filter.from.as_deref(), filter.to.as_deref()].into_iter().flatten();
    let typed = typed.into_iter().map(|(_, value)| value).chain(times).collect();
    (kept.into_iter().flatten().collect::<Vec<_>>().join("&"), typed)
}

fn nothing(view: &Jobs, name: &str) -> Markup {
    let filter = &view.filter;
    let text = match filter.state {
        _ if view.older.is_some() => "None in the part that was searched. The list goes on.",
        _ if view.newer.is_some() => "This was the last page.",
        // The state itself is one of them.
        _ if filter.pairs().len() > 1 + usize::from(filter.member.is_some()) => {
            "No job matches. Upper and lower case of the text are the same; kind and key match as a whole."
        }
        _ if filter.member.is_some() => "No member of the group is in this state.",
        "pending" => "No job waits. A program inserts one, or a schedule does.",
        "overdue" => "Every job has started in time.",
        "running" => "No job runs now.",
        "retrying" => "No job waits for another attempt.",
        "dead" => "No job has used up its retries.",
        "expired" => "A job that became too old is listed here if its kind keeps completed jobs.",
        _ => "A completed job is listed here if its kind keeps completed jobs.",
    };
    empty(&format!("No {} job", name.to_lowercase()), text)
}

fn job_table(frame: &Frame, view: &Jobs) -> Markup {
    let filter = &view.filter;
    let has_tick = frame.may_change && !view.changes.is_empty();
    let when = match filter.state {
        "dead" => "Died",
        "completed" | "expired" => "Ended",
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
            tbody { @for job in &view.list.rows { (row(frame, view, job, has_tick, when)) } }
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
                        None => span.mono title=(job.id) { (short(&job.id.to_string())) },
                    }
                }
            }
            @if view.filter.state != "dead" { td data-of="State" { (state_of(job.state, (job.due, view.list.now), job.failures)) } }
            td.nowrap data-of=(when) { span { (relative(at, view.list.now)) " " span.sub {
                (clock(at, view.list.now))
                @if let Some(node) = &job.node { " on " span.t { (shown(node)) } }
            } } }
            td.num data-of="Attempt" { (attempts(job)) }
            @if view.filter.state == "completed" { td.num data-of="Took" { (or_dash(job.took_ms.map(span))) } }
            @if view.filter.state != "completed" {
                td.none[said.is_none()] data-of=(if view.filter.state == "running" { "Progress" } else { "Error" }) {
                    @if let Some(said) = said { span.t.clip.small title=(shown(said)) { (shown(said)) } }
                }
            }
        }
    }
}

/// The state, in which a job that waits is overdue or is retried.
fn state_of(its: JobState, (due, now): (Time, Time), failures: u32) -> Markup {
    state(match its {
        JobState::Pending if due < now => "overdue",
        JobState::Pending if failures > 0 => "retrying",
        other => other.word(),
    })
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

fn bulk(frame: &Frame, view: &Jobs) -> Markup {
    let mut given = view.filter.pairs();
    if given.len() == 1 {
        given.push(("all", "yes"));
    }
    let (target, fields) = split("api/v1/bulk", &given);
    let all = match view.list.total {
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

pub(crate) fn job_page(frame: &Frame, page: &Job) -> Markup {
    let Job { job: view, trace_link } = page;
    let part = html! {
        div.group {
            div.head {
                h1.t { (shown(&view.kind)) }
                span id="state" data-live { (state_of(view.state, (view.due, view.now), view.failures)) }
            }
            div.row { p.mono.soft.t id="job-id" { (view.id) } (copy("job-id", "the id", None)) }
        }
        @if !view.actions.is_empty() { (actions(frame, view)) }
        div.two {
            div.apart {
                div.apart id="said" data-live {
                    (reasons(&view.waits_for))
                    @if let Some(error) = &view.error { (text("Last error", error)) }
                    @if let Some(progress) = &view.progress { (content(frame, "Progress", progress, None)) }
                    @if let Some(result) = &view.result { (content(frame, "Result", result, Some(format!("jobs/{}/result", view.id)))) }
                }
                (content(frame, "Data", &view.payload, Some(format!("jobs/{}/payload", view.id))))
                (headers(&view.headers))
            }
            div.apart {
                section.group aria-labelledby="facts" {
                    h2 id="facts" { "Facts" }
                    (facts(frame, view, trace_link.as_deref()))
                }
                section.group aria-labelledby="timeline" {
                    h2 id="timeline" { "Timeline" }
                    ol.card.pad.line id="steps" data-live { @for one in &view.timeline { (step(one, view.now)) } }
                }
            }
        }
    };
    layout::page(frame, &format!("{} {}", view.kind, view.id), &part)
}

fn actions(frame: &Frame, view: &JobPage) -> Markup {
    let to = |verb: &str| format!("jobs/{}/{verb}", view.id);
    html! {
        div.row id="actions" data-live {
            @for action in &view.actions {
                @match *action {
                    "run_now" => (button(frame, &to("reschedule"), "Run now", None, Look::Plain)),
                    "retry" => (button(frame, &to("retry"), "Retry", None, Look::Plain)),
                    "again" => (button(frame, &to("again"), "Run again", None, Look::Plain)),
                    // The page of the job is gone with it.
                    verb @ ("cancel" | "delete") => form method="post" action=(frame.link(&format!("api/v1/{}", to(verb)))) {
                        (sent(frame, &format!("jobs?state={}", list(view))))
                        button.risky { (capital(verb)) }
                    },
                    "reschedule" => form.row method="post" action=(frame.link(&format!("api/v1/{}", to("reschedule")))) {
                        (sent(frame, &frame.here))
                        button { "Reschedule to" }
                        label.only-read for="when" { "Reschedule to" }
                        input.when id="when" name="when" required placeholder="5m, 2h 30m, 3d" autocomplete="off";
                    },
                    _ => {},
                }
            }
        }
    }
}

fn facts(frame: &Frame, view: &JobPage, trace_link: Option<&str>) -> Markup {
    let jobs = |name: &str, value: &str| {
        frame.link(&format!("jobs?state={}&{name}={}", list(view), encoded(value)))
    };
    let moment = |name: &str, time: Option<Time>| {
        html! {
            @if let Some(time) = time {
                div { dt { (name) } dd { (relative(time, view.now)) div.soft.small { (absolute(time)) } } }
            }
        }
    };
    html! {
        dl.card.facts id="facts-rows" data-live {
            (moment("Due", Some(view.due)))
            div { dt { "Kind" } dd { a.t href=(jobs("kind", &view.kind)) { (shown(&view.kind)) } } }
            @let key = |key: &String| html! { a.t.mono href=(jobs("key", key)) { (shown(key)) } };
            div { dt { "Key" } dd { (or_dash(view.key.as_ref().map(key))) } }
            @if let Some(partition) = &view.partition {
                div { dt { "Partition" } dd.t { (shown(partition)) } }
            }
            @if let Some(group) = &view.group {
                div { dt { "Group" } dd {
                    a.t.mono href=(frame.link(&format!("jobs?state={}&member={group}", list(view)))) { (group) }
                } }
            }
            div { dt { "Attempt" } dd { (view.attempt) } }
            div { dt { "Failures" } dd {
                (view.failures)
                @if let Some(left) = view.retries_left {
                    div.soft.small { (counted(left.into(), "retry", "retries")) " left" }
                }
            } }
            div { dt { "Interruptions" } dd { (view.interruptions) } }
            (moment("Claimed", view.claimed))
            @if let Some(node) = &view.node {
                div { dt { "Node" } dd {
                    a.t href=(frame.link(&format!("jobs?state=running&node={}", encoded(node)))) { (shown(node)) }
                } }
            }
            @if let Some(end) = view.lease_ends {
                div { dt { "Lease ends" } dd { (relative(end, view.now)) div.soft.small { "unless it is renewed" } } }
            }
            (moment("Expires", view.expires))
            (moment("Ended", view.ended))
            @if let Some(took) = view.took_ms { div { dt { "Took" } dd { (span(took)) } } }
            @if let Some(trace) = &view.trace_id {
                div { dt { "Trace" } dd {
                    @match trace_link {
                        // A template may lead anywhere: the link goes without a referrer.
                        Some(link) => a.t.mono href=(link) rel="noreferrer noopener" { (shown(trace)) },
                        None => span.t.mono { (shown(trace)) },
                    }
                } }
            }
        }
    }
}

/// The list that has the job.
fn list(view: &JobPage) -> &'static str {
    match view.state {
        JobState::Claimed | JobState::Running => "running",
        JobState::Dead => "dead",
        JobState::Completed | JobState::Cancelled => "completed",
        JobState::Expired => "expired",
        _ => "pending",
    }
}

/// A button that copies the text of an element; or that of a download, which has every character and the whole text. It
/// works with the script alone.
fn copy(of: &str, name: &str, whole: Option<&str>) -> Markup {
    html! {
        button.flat type="button" data-copy={ "#" (of) } data-whole=[whole] data-script hidden aria-live="polite" {
            "Copy" span.only-read { " " (name) }
        }
    }
}

fn text(title: &str, text: &str) -> Markup {
    html! {
        section.group {
            h2 { (title) }
            div.card { pre.data tabindex="0" { (lines(text)) } }
        }
    }
}

fn content(frame: &Frame, title: &str, content: &Content, download: Option<String>) -> Markup {
    let name = title.to_lowercase();
    html! {
        section.group {
            div.head {
                h2 { (title) }
                p.small { (content.format) ", " (bytes(content.bytes)) }
                @if let Some(download) = &download {
                    (copy(&name, &format!("the {name}"), Some(&frame.link(download))))
                }
            }
            div.card {
                @if content.text.is_empty() { p.pad.soft { "empty" } } @else {
                    pre.data id=(name) tabindex="0" { (lines(&content.text)) }
                }
                @if content.is_cut || download.is_some() {
                    p.small.soft {
                        @if content.is_cut { "The first 4,096 characters are shown. " }
                        @if let Some(download) = &download {
                            a href=(frame.link(download)) download { "Download all " (count(content.bytes)) " bytes" }
                        }
                    }
                }
            }
        }
    }
}

/// Why a pending job has not started.
fn reasons(reasons: &[PendingReason]) -> Markup {
    html! {
        @if !reasons.is_empty() {
            section.group {
                h2 { "Why it waits" }
                ul.card.pad { @for reason in reasons { li.t { (shown(&capital(&reason.to_string()))) "." } } }
            }
        }
    }
}

fn headers(headers: &[(String, String)]) -> Markup {
    html! {
        @if !headers.is_empty() {
            section.group {
                h2 { "Headers" }
                dl.card.facts {
                    @for (name, value) in headers { div { dt.t { (shown(name)) } dd.t.mono { (shown(value)) } } }
                }
            }
        }
    }
}

fn step(step: &TimelineStep, now: Time) -> Markup {
    let class = match step.what {
        "failed" | "interrupted" | "dead" => "bad",
        "completed" => "good",
        "due" if step.at.is_some_and(|at| at > now) => "next",
        _ => "",
    };
    let name = if step.what == "running" { "Runs".to_owned() } else { capital(step.what) };
    html! {
        li class=(class) {
            strong { (name) }
            @if let Some(attempt) = step.attempt { ", attempt " (attempt) }
            @if let Some(node) = step.node.as_deref().filter(|node| !node.is_empty()) { " on " span.t { (shown(node)) } }
            @if let Some(at) = step.at {
                div.soft.small { (relative(at, now)) " · " (clock(at, now)) " UTC" }
            }
            @if let Some(error) = &step.error { pre.data tabindex="0" { (lines(error)) } }
        }
    }
}

pub(crate) fn dead_page(frame: &Frame, view: &Dead) -> Markup {
    let part = html! {
        (heading("Dead", &html! {
            p id="dead-total" data-live { (counted(view.total, "job", "jobs")) ", grouped by kind and error" }
            @if view.total > 0 { a.btn.end href=(frame.link("jobs?state=dead")) { "As a list" } }
        }))
        @if view.groups.is_empty() {
            (empty("Nothing is dead", "A job is dead once its retries are used up, or once its handler says that no retry helps."))
        } @else {
            (table(frame, Some("groups"), "Groups of dead jobs", &["#Jobs", "Died", "Error, its first line", "Kind", "Change"], &html! { @for group in &view.groups { (dead_row(frame, group, view.now)) } }))
            @if view.has_more {
                p.soft { "These are the groups with the most jobs. There are more, which come up when these are gone." }
            }
        }
    };
    layout::page(frame, "Dead", &part)
}

fn dead_row(frame: &Frame, group: &DeadGroup, now: Time) -> Markup {
    let list = format!("jobs?state=dead&kind={}&group={}", encoded(&group.kind), group.group);
    html! {
        tr data-key=(list) {
            td.num data-of="Jobs" { (count(group.jobs)) }
            td.nowrap data-of="Died" { span {
                (or_dash(group.last_died.map(|last| relative(last, now))))
                @if let Some(first) = group.first_died.filter(|_| group.first_died != group.last_died) {
                    " " span.sub { "first " (relative(first, now)) }
                }
            } }
            th scope="row" {
                a.t.clip data-row href=(frame.link(&list)) {
                    @if group.error.is_empty() { "no text" } @else { (shown(&group.error)) }
                }
            }
            td data-of="Kind" { span.t.clip title=(shown(&group.kind)) { (shown(&group.kind)) } }
            @if frame.may_change {
                td.do { div.row { (change(frame, group, "retry", Look::Plain)) (change(frame, group, "delete", Look::Risky)) } }
            }
        }
    }
}

fn change(frame: &Frame, group: &DeadGroup, action: &str, look: Look) -> Markup {
    let name = group.group.to_string();
    let fields = [("state", "dead"), ("kind", &*group.kind), ("group", &*name)];
    let (target, fields) = split("api/v1/bulk", &fields);
    html! {
        form method="post" action=(frame.link(&target)) {
            (sent(frame, &frame.here))
            @for (name, value) in fields { (hidden(name, value)) }
            button class=(look.class()) name="action" value=(action) {
                @if action == "retry" { "Retry " } @else { "Delete " }
                (count(group.jobs))
                span.only-read { " of " (shown(&group.kind)) ": " (shown(&group.error)) }
            }
        }
    }
}
