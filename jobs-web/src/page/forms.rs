//! The forms of settings: a limit and a hold of the queue or of a kind, the pause of a partition, kept jobs, the head
//! start; and the form that inserts a job.

use maud::{Markup, html};

use super::hidden;
use crate::page::layout::Frame;
use crate::page::{sent, shown, split};

/// A form with optional fields. `of`: the hidden fields that name the scope or the kind.
fn form(frame: &Frame, target: &str, of: &[(&str, &str)], fields: &Markup, button: &str) -> Markup {
    // With this field, the server ignores each empty field.
    form_of_all(frame, target, of, &html! { (hidden("form", "set")) (fields) }, button)
}

/// A form without optional fields: the server refuses an empty field.
fn form_of_all(
    frame: &Frame,
    target: &str,
    of: &[(&str, &str)],
    fields: &Markup,
    button: &str,
) -> Markup {
    let (target, of) = split(&format!("api/v1/{target}"), of);
    html! {
        form.fields method="post" action=(frame.link(&target)) {
            (sent(frame, &frame.here))
            @for (name, value) in of { (hidden(name, value)) }
            (fields)
            button { (button) }
        }
    }
}

/// A field with its label. `of`: the name of the form, which is a part of the field's id.
fn field(of: &str, name: &str, label: &str, hint: &str) -> Markup {
    input(of, name, label, hint, false)
}

/// A field with its label. A browser does not send the form if a field that is needed is empty.
fn input(of: &str, name: &str, label: &str, hint: &str, is_needed: bool) -> Markup {
    let id = format!("{of}-{name}");
    html! {
        div.field.mid {
            label for=(id) { (label) }
            input id=(id) name=(name) placeholder=(hint) autocomplete="off" required[is_needed];
        }
    }
}

/// The choice of a scope of a kind. `flow`: the flow of the kind, if it is not the kind itself.
fn scopes(of: &str, flow: Option<&str>, has_each: bool) -> Markup {
    let id = format!("{of}-scope");
    html! {
        div.field.mid {
            label for=(id) { "Scope" }
            select id=(id) name="scope" {
                option value="kind" {
                    @match flow { Some(flow) => { "Its flow, " (shown(flow)) }, None => "The kind" }
                }
                @if has_each { option value="each_partition" { "Each partition" } }
                option value="partition" { "One partition" }
            }
        }
        (field(of, "partition", "Partition", "of one"))
    }
}

fn numbers(of: &str) -> Markup {
    html! {
        (field(of, "running", "Run at once", "2"))
        (field(of, "rate", "Starts", "100"))
        (field(of, "per", "in a period of", "1m"))
        (field(of, "burst", "of them at once", "1"))
        p.soft { "A part that is empty is removed." }
    }
}

fn limit_and_hold(frame: &Frame, of: &[(&str, &str)], limit: &Markup, hold: &Markup) -> Markup {
    let hold = html! { (hold) (input("hold", "for", "No start for", "30s, 5m", true)) };
    html! {
        (form(frame, "scopes/limit", of, limit, "Set the limit"))
        (form(frame, "scopes/hold", of, &hold, "Hold"))
    }
}

pub(crate) fn of_queue(frame: &Frame) -> Markup {
    html! {
        details.group {
            summary { "Limit or hold the queue" }
            div.card.pad.apart {
                (limit_and_hold(frame, &[("scope", "queue")], &numbers("limit"), &html! {}))
            }
        }
    }
}

pub(crate) fn of_scopes(frame: &Frame, kind: &str, flow: Option<&str>) -> Markup {
    let limit = html! {
        (scopes("limit", flow, true))
        (numbers("limit"))
        (field("limit", "weight", "Weight", "of partitions"))
    };
    let pause = input("pause", "partition", "Partition", "", true);
    let partition = [("scope", "partition"), ("kind", kind)];
    html! {
        div.card.pad.apart {
            (limit_and_hold(frame, &[("kind", kind)], &limit, &scopes("hold", flow, false)))
            (form_of_all(frame, "scopes/pause", &partition, &pause, "Pause the partition"))
        }
    }
}

pub(crate) fn of_kind(frame: &Frame, kind: &str) -> Markup {
    let of = [("kind", kind)];
    let keep = html! {
        (field("keep", "last", "Keep the last", "1000; 0: none"))
        (field("keep", "age", "for", "7d"))
        (field("keep", "bytes", "Bytes at most", ""))
    };
    let head_start = input("head", "by", "Head start", "1m; 0s: none", true);
    html! {
        div.card.pad.apart {
            (form(frame, "kinds/keep", &of, &keep, "Keep completed jobs"))
            (form(frame, "kinds/head-start", &of, &head_start, "Set the head start"))
        }
    }
}

pub(crate) fn insert(frame: &Frame, kind: &str) -> Markup {
    let fields = html! {
        div.field.all {
            label for="insert-payload" { "Data, as JSON" }
            textarea id="insert-payload" name="payload" rows="5" required spellcheck="false" {}
        }
        (field("insert", "when", "Due", "5m, 2h 30m; empty: now"))
        (field("insert", "key", "Key", ""))
        (field("insert", "partition", "Partition", ""))
        div.field.all {
            label for="insert-headers" { "Headers, a line each" }
            textarea id="insert-headers" name="headers" rows="2" placeholder="tenant: acme" spellcheck="false" {}
        }
        span.row {
            input type="checkbox" id="insert-replace" name="replace" value="yes";
            label for="insert-replace" { "Replace a pending job with the key" }
        }
    };
    html! { div.card.pad { (form(frame, "kinds/insert", &[("kind", kind)], &fields, "Insert the job")) } }
}
