//! Which page or action a path leads to, and how deep it lies below the root of the dashboard.
//!
//! Ground rules:
//!
//! - A path is read from its end, so a prefix in front of it has no effect, whether a proxy strips it or not.
//! - Every path that ends with a slash is the overview. A path that leads nowhere is taken for the prefix without its
//!   slash, and redirected to the path with it. A prefix that ends with the name of a page is taken for that page.
//!   Under `api/v1/`, and in the place of an id, it is not found.
//! - No name is a segment of a path: browsers and proxies change a path that has `..` or `//` in it, also where these
//!   are percent-encoded. So a segment is a fixed word, the id of a job or the number of a bulk, in the one form in
//!   which it is printed, and a name is a parameter.

use core::str::FromStr;

use super::params::{Known, Sort};
use tickwheel_jobs::view::Part;
use tickwheel_jobs::{GroupId, JobId};

macro_rules! of_page {
    ($($name:literal $sort:ident),*) => { &[("said", Sort::Text), $(($name, Sort::$sort)),*] };
}
macro_rules! of_form {
    ($($name:literal $sort:ident),*) => {
        &[("back", Sort::Text), ("once", Sort::Text), $(($name, Sort::$sort)),*]
    };
}
macro_rules! of_scope {
    ($($name:literal $sort:ident),*) => {
        of_form![
            "confirm" Flag, "scope" Text, "kind" Text, "flow" Text, "partition" Text
            $(, $name $sort)*
        ]
    };
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Route {
    /// A page, or the same as JSON.
    Read(Read, Form),
    /// The payload or the result of a job, as an attachment.
    Download(JobId, Part),
    Act(Act),
    /// The style sheet, the script: its name.
    Asset(String),
    Metrics,
    Health,
    /// The path lacks a slash at its end: its last segment, still encoded.
    NoSlash(String),
    NotFound(Form),
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Read {
    Overview,
    Kinds,
    /// One kind, which a parameter names.
    Kind,
    Jobs,
    Job(JobId),
    Dead,
    Groups,
    Schedules,
    Nodes,
    Store,
    History,
    Bulks,
    Bulk(u64),
}

/// How it is shown.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Form {
    Page,
    Json,
}

/// An action. The kind or the schedule is a parameter of the request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Act {
    Job(JobId, JobVerb),
    Bulk,
    StopBulk(u64),
    Pause(Paused, Pause),
    Setting(SettingVerb),
    Schedule(ScheduleVerb),
    Group(GroupId, GroupVerb),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Paused {
    Queue,
    Kind,
    /// The scope that the parameter `scope` names.
    Scope,
}

impl Paused {
    /// Returns the part of the path before the verb.
    pub(crate) fn place(self) -> &'static str {
        match self {
            Paused::Queue => "queue",
            Paused::Kind => "kinds",
            Paused::Scope => "scopes",
        }
    }
}

/// Declares verbs, each with its name, which is the last segment of the path of its action.
macro_rules! verbs {
    ($($verbs:ident { $($verb:ident = $name:literal),* })*) => {$(
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum $verbs { $($verb),* }

        impl $verbs {
            pub(crate) fn name(self) -> &'static str {
                match self { $($verbs::$verb => $name),* }
            }

            fn of(name: &str) -> Option<$verbs> {
                match name {
                    $($name => Some($verbs::$verb),)*
                    _ => None,
                }
            }
        }
    )*};
}

verbs! {
    JobVerb {
        Retry = "retry",
        Delete = "delete",
        Cancel = "cancel",
        Reschedule = "reschedule",
        Again = "again"
    }
    Pause { Pause = "pause", Resume = "resume" }
    ScheduleVerb { Run = "run", Pause = "pause", Resume = "resume", Unschedule = "unschedule" }
    GroupVerb { Seal = "seal", Cancel = "cancel" }
    SettingVerb {
        Limit = "limit",
        Lift = "lift",
        Hold = "hold",
        Release = "release",
        Keep = "keep",
        HeadStart = "head-start",
        Insert = "insert"
    }
}

impl SettingVerb {
    /// Returns the part of the path before the verb: `scopes` or `kinds`.
    pub(crate) fn place(self) -> &'static str {
        match self {
            SettingVerb::Keep | SettingVerb::HeadStart | SettingVerb::Insert => "kinds",
            _ => "scopes",
        }
    }

    fn parameters(self) -> Known {
        match self {
            SettingVerb::Limit => of_scope![
                "was" Text, "running" Number, "rate" Number, "per" Text, "burst" Number, "weight" Number
            ],
            SettingVerb::Lift => of_scope!["was" Text, "program" Flag],
            SettingVerb::Release => of_scope!["was" Text],
            SettingVerb::Hold => of_scope!["was" Text, "for" Text],
            SettingVerb::Keep => of_form![
                "confirm" Flag, "was" Text, "kind" Text, "last" Number, "age" Text, "bytes" Number
            ],
            SettingVerb::HeadStart => {
                of_form!["confirm" Flag, "was" Text, "kind" Text, "by" Text]
            }
            SettingVerb::Insert => of_form![
                "confirm" Flag, "kind" Text, "payload" Text, "when" Text, "key" Text,
                "replace" Flag, "partition" Text, "headers" Text
            ],
        }
    }
}

impl Route {
    /// Reads a path, which is still encoded.
    pub(crate) fn of(path: &str) -> Route {
        if path.is_empty() || path.ends_with('/') || path == "*" {
            return Route::Read(Read::Overview, Form::Page);
        }
        let segments: Vec<&str> = path.split('/').collect();
        let api = segments.windows(2).rposition(|pair| *pair == ["api", "v1"]);
        if let Some(at) = api {
            return api_route(&segments[at + 2..]);
        }
        page_route(&segments)
    }

    /// Returns the parameters that the place knows, beside the queue. Any other is refused.
    pub(crate) fn parameters(&self) -> Known {
        match self {
            Route::Read(read, _) => match read {
                Read::Kinds => {
                    of_page!["text" Text, "after" Text, "limit" Number, "order" Text]
                }
                Read::Kind => of_page!["kind" Text],
                Read::Schedules => of_page!["after" Text, "limit" Number],
                Read::Jobs => of_page![
                    "state" Text, "kind" Text, "key" Text, "text" Text, "group" Text,
                    "member" Text, "node" Text, "from" Text, "to" Text, "after" Text,
                    "before" Text, "limit" Number
                ],
                Read::Dead | Read::Groups => of_page!["limit" Number],
                Read::History => of_page!["step" Text, "steps" Number, "kind" Text],
                _ => of_page![],
            },
            Route::Act(act) => match act {
                Act::Job(_, JobVerb::Reschedule) => of_form!["when" Text, "confirm" Flag],
                Act::Job(_, JobVerb::Retry) | Act::StopBulk(_) => of_form![],
                Act::Job(..) | Act::Pause(Paused::Queue, _) | Act::Group(..) => {
                    of_form!["confirm" Flag]
                }
                Act::Pause(Paused::Kind, _) => of_form!["kind" Text, "confirm" Flag],
                Act::Pause(Paused::Scope, _) => of_scope![],
                Act::Setting(verb) => verb.parameters(),
                Act::Schedule(_) => of_form!["schedule" Text, "confirm" Flag],
                Act::Bulk => of_form![
                    "action" Text, "when" Text, "confirm" Number, "id" Texts, "all" Flag,
                    "state" Text, "kind" Text, "key" Text, "text" Text, "group" Text,
                    "member" Text, "node" Text, "from" Text, "to" Text
                ],
            },
            _ => &[],
        }
    }
}

impl Read {
    pub(crate) fn path(&self) -> String {
        let name = match self {
            Read::Job(id) => return format!("jobs/{id}"),
            Read::Bulk(id) => return format!("bulk/{id}"),
            Read::Overview => "",
            Read::Kinds => "kinds",
            Read::Kind => "kind",
            Read::Jobs => "jobs",
            Read::Dead => "dead",
            Read::Groups => "groups",
            Read::Schedules => "schedules",
            Read::Nodes => "nodes",
            Read::Store => "store",
            Read::History => "history",
            Read::Bulks => "bulk",
        };
        name.to_owned()
    }

    fn of(name: &str) -> Option<Read> {
        let all = [
            Read::Kinds,
            Read::Kind,
            Read::Jobs,
            Read::Dead,
            Read::Groups,
            Read::Schedules,
            Read::Nodes,
            Read::Store,
            Read::Bulks,
        ];
        all.into_iter().find(|read| read.path() == name)
    }
}

/// Returns the way from a place to the root of the dashboard. `path`: the way from the root to the place.
pub(crate) fn way_up(path: &str) -> String {
    match path.matches('/').count() {
        0 => "./".to_owned(),
        depth => "../".repeat(depth),
    }
}

/// Says whether a text is the path of a page from the root, with or without a query. So no form leads elsewhere.
pub(crate) fn is_page(back: &str) -> bool {
    let (path, query) = back.split_once('?').unwrap_or((back, ""));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_~.%=&+".contains(&byte);
    let is_known = match Route::of(path) {
        Route::Read(read, Form::Page) => read.path() == path,
        _ => false,
    };
    is_known && !path.is_empty() && query.bytes().all(is_plain)
}

fn page_route(segments: &[&str]) -> Route {
    let (last, before) = segments.split_last().unwrap_or((&"", &[]));
    let page = |read| Route::Read(read, Form::Page);
    let of_id = match (before, *last) {
        ([.., "jobs", id], "payload") => printed(id).map(|id| Route::Download(id, Part::Payload)),
        ([.., "jobs", id], "result") => printed(id).map(|id| Route::Download(id, Part::Result)),
        ([.., "jobs"], id) => printed(id).map(|id| page(Read::Job(id))),
        ([.., "bulk"], id) => printed(id).map(|id| page(Read::Bulk(id))),
        _ => None,
    };
    let of_name = || match *last {
        "metrics" => Some(Route::Metrics),
        "healthz" => Some(Route::Health),
        name if [".css", ".js", ".svg"].iter().any(|end| name.ends_with(end)) => {
            Some(Route::Asset(name.to_owned()))
        }
        name => Read::of(name).map(page),
    };
    of_id.or_else(of_name).unwrap_or_else(|| match before {
        [.., "jobs" | "bulk"] => Route::NotFound(Form::Page),
        _ => Route::NoSlash((*last).to_owned()),
    })
}

fn api_route(segments: &[&str]) -> Route {
    let found = match segments {
        ["overview"] => Some(Route::Read(Read::Overview, Form::Json)),
        ["history"] => Some(Route::Read(Read::History, Form::Json)),
        ["bulk"] => Some(Route::Act(Act::Bulk)),
        ["bulks"] => Some(Route::Read(Read::Bulks, Form::Json)),
        ["bulk", id] => printed(id).map(|id| Route::Read(Read::Bulk(id), Form::Json)),
        ["bulk", id, "stop"] => printed(id).map(|id| Route::Act(Act::StopBulk(id))),
        [name] => Read::of(name).map(|it| Route::Read(it, Form::Json)),
        ["jobs", id] => printed(id).map(|id| Route::Read(Read::Job(id), Form::Json)),
        ["jobs", id, verb] => {
            printed(id).zip(JobVerb::of(verb)).map(|(id, verb)| Route::Act(Act::Job(id, verb)))
        }
        ["groups", id, verb] => {
            printed(id).zip(GroupVerb::of(verb)).map(|(id, verb)| Route::Act(Act::Group(id, verb)))
        }
        ["schedules", verb] => ScheduleVerb::of(verb).map(|verb| Route::Act(Act::Schedule(verb))),
        [place, verb @ ("pause" | "resume")] => {
            let all = [Paused::Queue, Paused::Kind, Paused::Scope];
            let of = all.into_iter().find(|of| of.place() == *place);
            of.zip(Pause::of(verb)).map(|(of, verb)| Route::Act(Act::Pause(of, verb)))
        }
        [place, verb] => SettingVerb::of(verb)
            .filter(|verb| verb.place() == *place)
            .map(|verb| Route::Act(Act::Setting(verb))),
        _ => None,
    };
    found.unwrap_or(Route::NotFound(Form::Json))
}

/// Reads the id of a job or the number of a bulk, in the one form in which it is printed.
fn printed<T: FromStr + ToString>(text: &str) -> Option<T> {
    text.parse().ok().filter(|id: &T| id.to_string() == text)
}
