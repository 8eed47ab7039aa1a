//! Tests of the keys: they select, open, and ask before a change.

use super::*;

/// Each key that only looks does what the help says, and leaves the store alone.
#[test]
fn top_keys_select_sort_filter_and_open() {
    let mut state = view();
    let row = |state: &State| state.selected().unwrap();
    assert_eq!(row(&state), "push");
    // The same row stays selected in another order.
    press_char(&mut state, 'o');
    assert_eq!((row(&state).as_str(), state.place().unwrap().at), ("push", 4));
    press_char(&mut state, '<');
    assert_eq!((state.sort, row(&state).as_str()), ((0, false), "push"));
    press_char(&mut state, '>');
    press_char(&mut state, '>');
    assert_eq!(state.sort, (2, true));
    press(&mut state, KeyCode::Home);
    assert_eq!(row(&state), "forgotten");
    for (column, first) in [(3, "forgotten"), (4, "push"), (5, "push"), (6, "push")] {
        press_char(&mut state, '>');
        press(&mut state, KeyCode::Home);
        assert_eq!((state.sort.0, row(&state).as_str()), (column, first));
    }
    for _ in 0..5 {
        press_char(&mut state, '>');
    }
    assert_eq!(state.sort, (1, true));
    press(&mut state, KeyCode::Home);
    press_char(&mut state, 'j');
    assert_eq!(row(&state), "close-order");
    press_char(&mut state, 'k');
    press(&mut state, KeyCode::Up);
    assert_eq!(row(&state), "push");

    press_char(&mut state, '/');
    "CHq".chars().for_each(|c| drop(press_char(&mut state, c)));
    assert!(drawn(&state).contains("no row has \"CHq\""), "{}", drawn(&state));
    press(&mut state, KeyCode::Backspace);
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert_eq!((&state.mode, row(&state).as_str()), (&Mode::Normal, "charge"));
    assert_eq!(press(&mut state, KeyCode::Esc), None);
    assert_eq!((state.table().unwrap().rows.len(), row(&state).as_str()), (5, "charge"));

    for tab in Tab::ALL.into_iter().skip(1).chain([Tab::Kinds]) {
        assert_eq!(press(&mut state, KeyCode::Tab), Some(Effect::Ask(View::Figures)));
        assert_eq!(state.tab, tab);
    }
    press(&mut state, KeyCode::Left);
    assert_eq!(state.tab, Tab::Groups);
    press(&mut state, KeyCode::Right);
    press(&mut state, KeyCode::BackTab);
    assert_eq!(state.tab, Tab::Groups);
    press_char(&mut state, '5');
    let opened = press(&mut state, KeyCode::Enter);
    assert_eq!(
        opened,
        Some(Effect::Ask(View::List(list_of("report", ListState::Pending, None), 0)))
    );
    press(&mut state, KeyCode::Backspace);
    press_char(&mut state, '3');
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Effect::Ask(View::Job(id()))));
    assert_eq!(press(&mut state, KeyCode::Esc), Some(Effect::Ask(View::Figures)));
    for table in ['2', '6', '7'] {
        press_char(&mut state, table);
        assert_eq!(press(&mut state, KeyCode::Enter), None);
        assert!(state.message.as_ref().is_some_and(|said| said.contains("nothing to open")));
    }

    for (code, modifiers) in [
        (KeyCode::Char('q'), KeyModifiers::NONE),
        (KeyCode::Char('c'), KeyModifiers::CONTROL),
        (KeyCode::Char('d'), KeyModifiers::CONTROL),
    ] {
        let quit = view().take(Event::Key(KeyEvent::new(code, modifiers)));
        assert_eq!(quit, Some(Effect::Quit));
    }
    // In the help and in a question, `q` does not quit.
    press_char(&mut state, '?');
    assert_eq!((press_char(&mut state, 'q'), &state.mode), (None, &Mode::Normal));
}

/// A list turns through the states of its kind and through its pages, and opens a job.
#[test]
fn top_lists_turn_through_states_and_pages() {
    let mut state = view();
    let view_of = |set, page| Some(Effect::Ask(View::List(list_of("push", set, None), page)));
    assert_eq!(press(&mut state, KeyCode::Enter), view_of(ListState::Pending, 0));
    // An answer about another list comes too late.
    answer(&mut state, list_of("charge", ListState::Pending, None), 0, vec![listed(false)], true);
    assert_eq!(state.selected(), None);
    assert_eq!(press_char(&mut state, 'n'), None);
    answer(&mut state, list_of("push", ListState::Pending, None), 0, vec![listed(false)], true);
    assert_eq!(press_char(&mut state, 'n'), view_of(ListState::Pending, 1));
    answer(&mut state, list_of("push", ListState::Pending, None), 1, vec![listed(false)], false);
    assert_eq!(press_char(&mut state, 'n'), None);
    assert_eq!(press_char(&mut state, 'b'), view_of(ListState::Pending, 0));
    assert_eq!(press_char(&mut state, 'b'), None);
    for state_of in [
        ListState::Running,
        ListState::Dead,
        ListState::Completed,
        ListState::Expired,
        ListState::Pending,
    ] {
        assert_eq!(press(&mut state, KeyCode::Right), view_of(state_of, 0));
    }
    assert_eq!(press(&mut state, KeyCode::Left), view_of(ListState::Expired, 0));
    press(&mut state, KeyCode::Right);
    answer(&mut state, list_of("push", ListState::Pending, None), 0, vec![listed(false)], false);
    assert_eq!(press(&mut state, KeyCode::Enter), Some(Effect::Ask(View::Job(id()))));
    let lines = (0..30).map(|n| format!("line {n}")).collect();
    state.take(Event::Job(Box::new(open_job(false, lines))));
    press(&mut state, KeyCode::End);
    assert!(matches!(state.opened.last(), Some(Opened::Job { scroll: 29, .. })));
    assert_eq!(press(&mut state, KeyCode::Enter), None);
    assert_eq!(press(&mut state, KeyCode::Esc), view_of(ListState::Pending, 0));
    // A group of dead jobs has no other state.
    press_char(&mut state, '4');
    press(&mut state, KeyCode::Enter);
    assert_eq!(press(&mut state, KeyCode::Right), None);
}

/// A capital asks, with the number of jobs and which they are. Only `y` does it; every other key does nothing.
#[test]
fn top_capitals_ask_before_they_change() {
    let change = |verb, scope| Change { verb, scope, asked: at(0.0) };
    let dead = || Scope::Dead { kind: "push".to_owned(), jobs: Number::exactly(340) };
    let pending = || Scope::Pending { kind: "push".to_owned(), jobs: 1_199_000 };
    let one = |kind: &str| Scope::Job { id: id(), kind: kind.to_owned() };
    let of_group = || Scope::Group(group("push", "no route to host", 340));
    type Steps = &'static [char];
    let cases: [(Steps, char, Change, &str); 6] = [
        (&[], 'R', change(Verb::Retry, dead()), "Retry 340 dead jobs of push, with any error?"),
        (
            &[],
            'D',
            change(Verb::Delete, dead()),
            "Delete 340 dead jobs of push, with any error? They",
        ),
        (&[], 'C', change(Verb::Cancel, pending()), "Cancel 1199000 pending jobs of push? They"),
        (&['3'], 'C', change(Verb::Cancel, one("report")), "Cancel 1 job of report, 1a20"),
        (
            &['4'],
            'R',
            change(Verb::Retry, of_group()),
            "340 dead jobs of push with the error \"no route",
        ),
        (
            &['4'],
            'D',
            change(Verb::Delete, of_group()),
            "Delete 340 dead jobs of push with the error",
        ),
    ];
    for (steps, capital, change, question) in cases {
        let mut state = view();
        steps.iter().for_each(|step| drop(press_char(&mut state, *step)));
        for no in [
            KeyCode::Char('n'),
            KeyCode::Enter,
            KeyCode::Esc,
            KeyCode::Char('Y'),
            KeyCode::Char(capital),
        ] {
            assert_eq!(press_char(&mut state, capital), None);
            let page = drawn(&state);
            assert!(change.question().contains(question), "{}", change.question());
            let first = question.split(' ').take(3).collect::<Vec<_>>().join(" ");
            assert!(page.contains(&first), "{page}");
            assert_eq!(press(&mut state, no), None);
            assert_eq!(state.message.as_deref(), Some("nothing was changed"));
        }
        press_char(&mut state, capital);
        assert_eq!(press_char(&mut state, 'y'), Some(Effect::Change(change)));
        // One change at a time. Esc stops it.
        assert_eq!((press_char(&mut state, capital), &state.mode), (None, &Mode::Normal));
        state.take(Event::Progress(256));
        assert!(drawn(&state).contains("256 jobs"));
        assert_eq!(press(&mut state, KeyCode::Esc), Some(Effect::Stop));
        let changed = state.take(Event::Changed(Ok("340 jobs were retried".to_owned())));
        assert_eq!(changed, Some(Effect::Ask(View::Figures)));
        assert!(drawn(&state).contains("340 jobs were retried"));
    }
}

/// A verb that is not for the selected jobs asks nothing, and says why.
#[test]
fn top_capitals_refuse_jobs_that_they_are_not_for() {
    let mut state = view();
    let mut refused = |steps: &[char], capital: char| {
        steps.iter().for_each(|step| drop(press_char(&mut state, *step)));
        assert_eq!(press_char(&mut state, capital), None);
        assert_eq!(state.mode, Mode::Normal, "{steps:?} {capital}");
        assert!(state.message.is_some(), "{steps:?} {capital}");
    };
    for capital in ['R', 'D', 'C'] {
        for table in ['2', '5', '6', '7'] {
            refused(&[table], capital);
        }
    }
    refused(&['3'], 'R');
    refused(&['3'], 'D');
    refused(&['4'], 'C');
    // `report` has neither pending nor dead jobs.
    for capital in ['R', 'D', 'C'] {
        refused(&['1', 'k', 'j', 'j', 'j', 'j'], capital);
    }
    let mut state = view();
    press(&mut state, KeyCode::Enter);
    for (dead, refused, asked) in [(false, ['R', 'D'], ['C', 'C']), (true, ['C', 'C'], ['R', 'D'])]
    {
        let jobs = vec![listed(dead)];
        answer(&mut state, list_of("push", ListState::Pending, None), 0, jobs, false);
        for capital in refused {
            press_char(&mut state, capital);
            assert_eq!(state.mode, Mode::Normal, "{dead} {capital}");
        }
        for capital in asked {
            press_char(&mut state, capital);
            assert!(matches!(state.mode, Mode::Confirm(_)), "{dead} {capital}");
            press_char(&mut state, 'n');
        }
    }
}
