//! The pages with made-up views: what each has, and what no page may have.

mod html;
mod made_up;
mod made_up_jobs;
mod names;
mod rules;

use maud::Markup;

use super::*;
use crate::page::layout::Frame;
use crate::route::Read;
use made_up as view;

/// The page of a job.
const JOB: &str = "jobs/018f3a2c00000001a1b2c3d4e5f60718";

/// Returns every page in several forms, with its name.
fn pages(change: view::Change<'_>) -> Vec<(String, String)> {
    let frame = |tab, here: &str| view::frame(tab, here, change);
    let here_kind = format!("kind?kind={}", layout::encoded(&change("mail")));
    let reader = |tab, here: &str| Frame { may_change: false, is_live: false, ..frame(tab, here) };
    let mut pages: Vec<(String, Markup)> = vec![
        (
            "overview".into(),
            overview::page(&frame(Some(Read::Overview), ""), &view::overview(change)),
        ),
        (
            "overview-empty".into(),
            overview::page(&frame(Some(Read::Overview), ""), &view::empty_overview()),
        ),
        (
            "kinds".into(),
            kinds_and_limits::page(&frame(Some(Read::Kinds), "kinds"), &view::kinds(8, change)),
        ),
        (
            "kinds-40".into(),
            kinds_and_limits::page(&frame(Some(Read::Kinds), "kinds"), &view::kinds(40, change)),
        ),
        (
            "kinds-empty".into(),
            kinds_and_limits::page(&frame(Some(Read::Kinds), "kinds"), &view::kinds(0, change)),
        ),
        (
            "kinds-reader".into(),
            kinds_and_limits::page(&reader(Some(Read::Kinds), "kinds"), &view::kinds(8, change)),
        ),
        ("kind".into(), kind::page(&frame(Some(Read::Kinds), &here_kind), &view::kind(change))),
        (
            "kind-reader".into(),
            kind::page(&reader(Some(Read::Kinds), &here_kind), &view::kind(change)),
        ),
        ("job".into(), jobs::job_page(&frame(Some(Read::Jobs), JOB), &made_up_jobs::job(change))),
        (
            "dead".into(),
            jobs::dead_page(&frame(Some(Read::Dead), "dead"), &made_up_jobs::dead(6, change)),
        ),
        (
            "dead-empty".into(),
            jobs::dead_page(&frame(Some(Read::Dead), "dead"), &made_up_jobs::dead(0, change)),
        ),
        ("groups".into(), groups::page(&frame(Some(Read::Groups), "groups"), &view::groups(5))),
        (
            "groups-empty".into(),
            groups::page(&frame(Some(Read::Groups), "groups"), &view::groups(0)),
        ),
        (
            "schedules".into(),
            nodes_and_schedules::schedules_page(
                &frame(Some(Read::Schedules), "schedules"),
                &view::schedules(5, change),
            ),
        ),
        (
            "schedules-empty".into(),
            nodes_and_schedules::schedules_page(
                &frame(Some(Read::Schedules), "schedules"),
                &view::schedules(0, change),
            ),
        ),
        (
            "nodes".into(),
            nodes_and_schedules::nodes_page(
                &frame(Some(Read::Nodes), "nodes"),
                &view::nodes(3, change),
            ),
        ),
        (
            "nodes-empty".into(),
            nodes_and_schedules::nodes_page(
                &frame(Some(Read::Nodes), "nodes"),
                &view::nodes(0, change),
            ),
        ),
        (
            "store".into(),
            nodes_and_schedules::store_page(
                &frame(Some(Read::Store), "store"),
                &view::store(change),
            ),
        ),
        ("question".into(), actions::question_page(&frame(None, ""), &view::question(change))),
        ("bulks".into(), actions::bulks_page(&frame(None, "bulk"), &view::bulks(change))),
        (
            "problem-404".into(),
            layout::problem_page(&frame(None, "jobs/x"), &view::problem(404, change)),
        ),
        (
            "problem-503".into(),
            layout::problem_page(&frame(None, "jobs"), &view::problem(503, change)),
        ),
    ];
    for state in ["pending", "overdue", "running", "retrying", "dead", "completed"] {
        let here = format!("jobs?state={state}");
        let list = |many| {
            jobs::jobs_page(
                &frame(Some(Read::Jobs), &here),
                &made_up_jobs::jobs(state, many, change),
            )
        };
        pages.push((format!("jobs-{state}"), list(12)));
        pages.push((format!("jobs-{state}-empty"), list(0)));
    }
    for state in ["running", "failed"] {
        let page = actions::progress_page(&frame(None, "bulk/3"), &view::progress(state, change));
        pages.push((format!("progress-{state}"), page));
    }
    pages.into_iter().map(|(name, page)| (name, page.into_string())).collect()
}

/// A limit is said in words at its kind, and has a row among all limits. Without a limit there is neither.
#[test]
fn limits_are_at_their_kind_and_in_a_table() {
    let pages = pages(&str::to_owned);
    let page =
        |name: &str| pages.iter().find(|(its, _)| its == name).unwrap().1.replace('\u{202f}', " ");
    let kinds = page("kinds");
    for text in [
        "flow <span class=\"t\" title=\"stripe\">stripe</span>: 3 of 3 run, next in 2 s<",
        "41 of 41 run, held for 12 s<",
        ">each partition: 41 of 2 run<",
        "The first 4 of 240 scopes",
        "Flow <span class=\"t\">stripe</span>",
        ">3 of 3</span>",
        ">100 in 1 m<",
        ">burst 10<",
        ">10,000+<",
        "Each partition of <span class=\"t\">mail</span>",
        "Partition <span class=\"t\">acme</span>",
    ] {
        assert!(kinds.contains(text), "{text} is not in {kinds}");
    }
    assert!(!page("kinds-empty").contains("Limits") && !page("kinds-40").contains(">Limits<"));
}

/// A group has a bar of its members that have ended, and a link to its callback once that is a job.
#[test]
fn groups_show_how_far_they_are() {
    let page = view::groups(5);
    let page = groups::page(&view::frame(Some(Read::Groups), "groups", &str::to_owned), &page);
    let page = page.into_string();
    for text in [
        ">657 of 1,001<",
        "<progress max=\"1001\" value=\"657\"",
        "The last 5 groups",
        "waits for the dead",
    ] {
        assert!(page.contains(text), "{text} is not in {page}");
    }
    assert_eq!(page.matches("its callback").count(), 1, "{page}");
}

/// Writes the pages into the folder that `PAGES` names, for a look at them.
#[test]
#[ignore = "it writes files"]
fn pages_are_written_for_a_look() {
    let folder = std::env::var("PAGES").expect("PAGES names no folder");
    let write = |name: &str, text: &str| std::fs::write(format!("{folder}/{name}"), text).unwrap();
    for (name, page) in pages(&str::to_owned) {
        write(&format!("{name}.html"), &page);
    }
    let long = |text: &str| format!("{text}-{}", "0123456789".repeat(20));
    for (name, page) in pages(&long) {
        write(&format!("{name}-long.html"), &page);
    }
    write("style-1f00.css", include_str!("../../assets/style.css"));
    write("live-2e11.js", include_str!("../../assets/live.js"));
}
