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

/// Returns every page in several forms, with its name.
fn pages(change: view::Change<'_>) -> Vec<(String, String)> {
    let mut pages = Vec::new();
    let mut add = |name: &str, page: Markup| pages.push((name.to_owned(), page.into_string()));
    let frame = |tab, here: &str| view::frame(tab, here, change);
    let reader = |tab, here: &str| Frame { may_change: false, is_live: false, ..frame(tab, here) };

    let of = frame(Some(Read::Overview), "");
    add("overview", overview::page(&of, &view::overview(change)));
    add("overview-empty", overview::page(&of, &view::empty_overview()));
    let of = frame(Some(Read::Kinds), "kinds");
    for (name, many) in [("kinds", 8), ("kinds-40", 40), ("kinds-empty", 0)] {
        add(name, kinds_and_limits::page(&of, &view::kinds(many, change)));
    }
    let of = reader(Some(Read::Kinds), "kinds");
    add("kinds-reader", kinds_and_limits::page(&of, &view::kinds(8, change)));
    let here = format!("kind?kind={}", layout::encoded(&change("mail")));
    add("kind", kind::page(&frame(Some(Read::Kinds), &here), &view::kind(change)));
    add("kind-reader", kind::page(&reader(Some(Read::Kinds), &here), &view::kind(change)));
    let of = frame(Some(Read::Jobs), "jobs/018f3a2c00000001a1b2c3d4e5f60718");
    add("job", jobs::job_page(&of, &made_up_jobs::job(change)));
    for (more, many) in [("", 5), ("-empty", 0)] {
        let of = frame(Some(Read::Dead), "dead");
        add(&format!("dead{more}"), jobs::dead_page(&of, &made_up_jobs::dead(many, change)));
        let of = frame(Some(Read::Groups), "groups");
        add(&format!("groups{more}"), groups::page(&of, &view::groups(many)));
        let (of, all) = (frame(Some(Read::Schedules), "schedules"), view::schedules(many, change));
        add(&format!("schedules{more}"), nodes_and_schedules::schedules_page(&of, &all));
        let (of, all) = (frame(Some(Read::Nodes), "nodes"), view::nodes(many, change));
        add(&format!("nodes{more}"), nodes_and_schedules::nodes_page(&of, &all));
        for state in ["pending", "overdue", "running", "retrying", "dead", "completed"] {
            let of = frame(Some(Read::Jobs), &format!("jobs?state={state}"));
            let page = jobs::jobs_page(&of, &made_up_jobs::jobs(state, many, change));
            add(&format!("jobs-{state}{more}"), page);
        }
    }
    let of = frame(Some(Read::Store), "store");
    add("store", nodes_and_schedules::store_page(&of, &view::store(change)));
    add("question", actions::question_page(&frame(None, ""), &view::question(change)));
    add("bulks", actions::bulks_page(&frame(None, "bulk"), &view::bulks(change)));
    for state in ["running", "failed"] {
        let page = actions::progress_page(&frame(None, "bulk/3"), &view::progress(state, change));
        add(&format!("progress-{state}"), page);
    }
    for (here, status) in [("jobs/x", 404), ("jobs", 503)] {
        let page = layout::problem_page(&frame(None, here), &view::problem(status, change));
        add(&format!("problem-{status}"), page);
    }
    pages
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
