//! The dashboard in a real browser: the clicks of a day with the script and without it, what the console says, what
//! the page asks for, and the pictures of the docs.

#![expect(
    clippy::disallowed_methods,
    reason = "a browser has its own clock: the tests look again and again"
)]

mod chromium;
#[path = "../web/names.rs"]
mod names;
mod served;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use chromium::Tab;
use serde::{Deserialize, Serialize};
use serde_json::json;
use served::Served;
use tempfile::TempDir;
use tickwheel_jobs::{Fail, Job, JobByHand, Jobs, Keep, Limit};
use tickwheel_jobs_web::{Access, Dashboard};

const HOUR: Duration = Duration::from_secs(3600);
/// The page asks whether the action is meant.
const ASKED: &str = "document.querySelector('h1')?.innerText.endsWith('?')";

/// A job that is dead at once, until the gateway works.
#[derive(Serialize, Deserialize)]
struct Charge {
    order: u64,
}

impl Job for Charge {
    const KIND: &'static str = "charge";
}

/// A job of which no process has a handler.
#[derive(Serialize, Deserialize)]
struct Thumbnail {
    picture: String,
}

impl Job for Thumbnail {
    const KIND: &'static str = "thumbnail";
}

/// A queue with its dashboard.
struct World {
    jobs: Jobs,
    gateway_works: Arc<AtomicBool>,
    served: Served,
    _folder: TempDir,
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("shop.db");
        let gateway_works = Arc::new(AtomicBool::new(false));
        let works = Arc::clone(&gateway_works);
        let jobs = Jobs::open(&path)
            .unwrap()
            .handle(move |charge: Charge, _| match works.load(Ordering::Relaxed) {
                true => Ok(()),
                false => Err(Fail::dead(format!(
                    "gateway: <b>no answer</b>\nfor the order {}",
                    charge.order
                ))),
            })
            .start()
            .unwrap();
        jobs.kind::<Charge>().keep_completed(Keep::last(1000)).unwrap();
        let client = Jobs::open(&path).unwrap().client().unwrap();
        let dashboard = Dashboard::new(client).title("shop, production").access(|_| Access::Full);
        World { jobs, gateway_works, served: Served::start(dashboard), _folder: folder }
    }

    fn url(&self, path: &str) -> String {
        format!("{}/{path}", self.served.origin)
    }

    fn charge(&self, many: u64, when: Duration) {
        self.jobs.insert_batch((0..many).map(|order| (when, Charge { order }))).unwrap();
    }
}

/// The clicks of a day: jobs die, are found by their error and retried together; a kind is paused and resumed; a job
/// is deleted by hand; two of a list are cancelled.
fn day(tab: &mut Tab, world: &World, has_script: bool) {
    let reloads = !has_script;
    tab.open(&world.url(""));
    tab.wait("document.querySelector('#tiles').innerText.includes('nothing is dead')", false);

    // Jobs come due and die, and a job has no handler. With the script, the page shows them by itself.
    world.charge(300, Duration::ZERO);
    world.jobs.insert(Duration::ZERO, Thumbnail { picture: "a.png".to_owned() }).unwrap();
    tab.wait("/Dead\\s+300\\b/.test(document.querySelector('#tiles').innerText)", reloads);
    tab.wait("document.querySelector('#tiles').innerText.includes('1 overdue')", reloads);
    tab.click("a.tile", "Oldest overdue");
    tab.wait("document.querySelectorAll('tbody tr').length === 1 && document.body.innerText.includes('thumbnail')", false);

    // The kind is paused, and its dead jobs are retried as a group.
    tab.click("nav a", "Kinds");
    tab.click("tr[data-key=charge] button", "Pause");
    tab.wait(ASKED, false);
    tab.click("main button.main", "Pause");
    tab.wait("document.querySelector('tr[data-key=charge]').innerText.includes('paused')", reloads);
    world.gateway_works.store(true, Ordering::Relaxed);
    tab.click("nav a", "Dead");
    tab.wait(
        "document.querySelector('tbody').innerText.includes('gateway: <b>no answer</b>')",
        false,
    );
    tab.click("tbody button", "Retry 300");
    tab.wait("document.querySelector('h1').innerText === 'Retry 300 jobs?'", false);
    tab.click("button", "Retry 300 jobs");
    tab.wait("document.querySelector('#progress')", false);
    tab.wait("document.querySelector('#progress').innerText.includes('300 changed')", reloads);
    tab.wait("document.querySelector('#state').innerText === 'done'", reloads);
    assert_eq!(world.jobs.count().unwrap().dead, 0);

    // Resumed, they complete.
    tab.click("nav a", "Kinds");
    tab.click("tr[data-key=charge] button", "Resume");
    tab.wait(
        "!document.querySelector('tr[data-key=charge]').innerText.includes('paused')",
        reloads,
    );

    // A limit of the kind is set by hand. Every page shows it until it is lifted.
    tab.click("nav a", "Kinds");
    tab.click("tr[data-key=charge] th a", "charge");
    tab.wait("document.querySelector('#limit-running')", false);
    tab.click("#limit-running", "");
    tab.call("Input.insertText", &json!({ "text": "2" }));
    tab.click("main button", "Set the limit");
    tab.wait(ASKED, false);
    tab.click("main button.main", "Set the limit");
    tab.wait("document.querySelector('#outcome')", false);
    tab.click("nav a", "Nodes");
    let says = "document.querySelector('#slowed').innerText.includes('at most 2 run at once')";
    tab.wait(&format!("document.querySelector('h1').innerText === 'Nodes' && {says}"), reloads);
    tab.click("#slowed a", "Lift the limit");
    tab.wait("document.querySelector('#limits')", false);
    tab.click("#limits button", "Lift");
    tab.wait(ASKED, false);
    tab.click("main button.main", "Lift the limit");
    tab.wait(&format!("document.querySelector('h1').innerText === 'Kinds' && !{says}"), reloads);
    tab.click("nav a", "Jobs");
    tab.click("nav.tabs a", "Completed");
    tab.wait("document.querySelectorAll('tbody tr').length === 100", reloads);

    // One job dies and is deleted by hand, after a question.
    world.gateway_works.store(false, Ordering::Relaxed);
    world.charge(1, Duration::ZERO);
    tab.click("nav.tabs a", "Dead");
    tab.wait("document.querySelectorAll('tbody tr').length === 1", reloads);
    tab.click("tbody a[data-row]", "charge");
    tab.wait("document.querySelector('pre').innerText.includes('for the order 0')", false);
    tab.click("#actions button", "Delete");
    tab.wait("document.querySelector('h1').innerText.startsWith('Delete 1 job')", false);
    tab.click("main button", "Delete 1 job");
    tab.wait("document.querySelector('h1').innerText === 'Jobs'", false);
    assert_eq!(world.jobs.count().unwrap().dead, 0);

    // Two of five are selected and cancelled.
    world.charge(5, HOUR);
    tab.open(&world.url("jobs?state=pending&kind=charge"));
    tab.wait("document.querySelectorAll('tbody tr').length === 5", reloads);
    tab.click("tbody tr:nth-child(2) input", "");
    tab.click("tbody tr:nth-child(4) input", "");
    tab.click("#some button", "Cancel");
    tab.wait("document.querySelector('h1').innerText === 'Cancel 2 jobs?'", false);
    tab.click("main button", "Cancel 2 jobs");
    tab.wait("document.querySelector('#progress')", false);
    tab.wait("document.querySelector('#state').innerText === 'done'", reloads);
    // The thumbnail waits too.
    assert_eq!(world.jobs.count().unwrap().pending, 4);
}

/// The console is silent, and the page has asked for nothing from elsewhere.
fn assert_quiet(tab: &Tab, world: &World) {
    assert_eq!(tab.console, [""; 0]);
    let ours = |url: &&String| url.starts_with(&world.served.origin) || *url == "data:,";
    let foreign: Vec<&String> = tab.requests.iter().filter(|url| !ours(url)).collect();
    assert!(foreign.is_empty() && tab.requests.len() > 4, "{foreign:?}");
}

/// The clicks of a day work, under the content policy, and load nothing from elsewhere.
#[test]
fn day_is_clicked_with_the_script() {
    let Some(mut tab) = Tab::start() else { return };
    let world = World::new();
    day(&mut tab, &world, true);
    assert_quiet(&tab, &world);
}

/// The same clicks work in a browser without scripts.
#[test]
fn day_is_clicked_without_the_script() {
    let Some(mut tab) = Tab::start() else { return };
    let world = World::new();
    tab.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    day(&mut tab, &world, false);
    assert_quiet(&tab, &world);
    let is_script = |url: &&String| url.ends_with(".js");
    assert_eq!(tab.requests.iter().find(is_script), None);
}

/// P91: Whatever name a kind or a schedule has, the browser sends its form to the dashboard, and the action reaches
/// that kind or schedule alone. No request leaves the path below which the dashboard is mounted. By day the forms of
/// every fourth name are sent, and of each with `TICKWHEEL_STRIDE=1`.
#[test]
fn names_reach_their_own_thing_in_a_browser() {
    let Some(mut tab) = Tab::start() else { return };
    let world = World::new();
    let names = names::names();
    for name in &names {
        world.jobs.insert_by_hand(HOUR, JobByHand::new(name, *b"{}")).unwrap();
        world.jobs.schedule(name, HOUR, Charge { order: 1 }).unwrap();
    }
    let mut press = |page: &str, action: &str, field: &str, name: &str| {
        tab.open(&world.url(&format!("app/{page}")));
        let form = format!(
            "[...document.querySelectorAll('form')].find((one) => one.action.split('?')[0].endsWith('{action}') && \
             (one.elements['{field}']?.value ?? new URL(one.action).searchParams.get('{field}')) === {})",
            json!(name)
        );
        tab.value(&format!("{form}.querySelector('button').click()"));
        tab.wait(ASKED, false);
        tab.value("document.querySelector('main button.main').click()");
    };
    let look = |has: &dyn Fn() -> bool, what: &str| {
        let found = (0..600).any(|_| {
            std::thread::sleep(Duration::from_millis(50));
            has()
        });
        assert!(found, "{what}");
    };
    let stride: Option<usize> =
        std::env::var("TICKWHEEL_STRIDE").ok().and_then(|text| text.parse().ok());
    let pressed: Vec<&String> = names.iter().step_by(stride.unwrap_or(4).max(1)).collect();
    for (at, &name) in pressed.iter().enumerate() {
        press("kinds", "kinds/pause", "kind", name);
        let paused = |name: &String| world.jobs.kind_named(name).is_paused().unwrap();
        look(&|| paused(name), name);
        assert_eq!(names.iter().filter(|name| paused(name)).count(), at + 1, "{name:?}");
        let pending = || world.jobs.count().unwrap().pending;
        let before = pending();
        press("schedules", "schedules/run", "schedule", name);
        look(&|| pending() == before + 1 || world.jobs.count().unwrap().dead as usize > at, name);
        press("schedules", "schedules/pause", "schedule", name);
        let schedules =
            || world.jobs.schedules().list().unwrap().into_iter().filter(|it| it.is_paused);
        look(&|| schedules().any(|it| it.name == *name), name);
        assert_eq!(schedules().count(), at + 1, "{name:?}");
    }
    assert!(!world.jobs.queue().is_paused().unwrap());
    let mounted = world.url("app/");
    let strays: Vec<&String> =
        tab.requests.iter().filter(|url| !url.starts_with(&mounted) && *url != "data:,").collect();
    assert!(strays.is_empty() && tab.requests.len() > 3 * pressed.len(), "{strays:?}");
}

/// The script does not disturb the reader: typed text, focus, an open fold, selected rows. The keys work. The key
/// `s` stops the refresh. The title of a time has the reader's zone. A page with old figures says how old they are.
#[test]
fn script_does_not_disturb_and_says_when_figures_are_old() {
    let Some(mut tab) = Tab::start() else { return };
    let world = World::new();
    world.charge(3, HOUR);
    tab.open(&world.url("jobs?state=pending"));
    tab.press("/");
    tab.wait("document.activeElement.id === 'search'", false);
    tab.call("Input.insertText", &json!({ "text": "half a wo" }));
    world.charge(1, HOUR);
    tab.wait("document.querySelectorAll('tbody tr').length === 4", false);
    tab.wait(
        "document.activeElement.id === 'search' && document.activeElement.value === 'half a wo'",
        false,
    );
    tab.value("document.activeElement.blur()");
    tab.press("j");
    tab.press("j");
    let second = "document.activeElement === document.querySelectorAll('tbody [data-row]')[1]";
    tab.wait(second, false);
    tab.value("window.row = document.activeElement");
    world.jobs.insert(HOUR / 2, Charge { order: 77 }).unwrap();
    tab.wait("document.querySelectorAll('tbody tr').length === 5", false);
    // The job is the third now, and has the focus still.
    tab.wait("document.activeElement === window.row", false);
    tab.press("x");
    tab.wait("document.querySelectorAll('tbody input:checked').length === 1", false);
    world.charge(1, HOUR);
    tab.wait("document.querySelector('#total').innerText.startsWith('6')", false);
    tab.wait("document.querySelectorAll('tbody tr').length === 5", false);
    tab.press("?");
    tab.wait("document.querySelector('#keys').open", false);
    tab.click("#keys button", "Close");
    tab.wait("!document.querySelector('#keys').open", false);

    // The page stands still until the key is pressed again.
    tab.open(&world.url("jobs?state=pending"));
    tab.press("s");
    tab.wait("document.querySelector('[data-stop]').ariaPressed === 'true' && !asking", false);
    world.charge(1, HOUR);
    assert_eq!(tab.value("tick(); asking"), json!(false));
    tab.press("s");
    tab.wait("document.querySelectorAll('tbody tr').length === 7", false);

    // The data of a job are copied, or selected where the browser has no clipboard for the page.
    let id = world.jobs.pending().next().unwrap().id;
    tab.open(&world.url(&format!("jobs/{id}")));
    tab.click("[data-copy='#data']", "Copy");
    let copy = "document.querySelector(\"[data-copy='#data']\").firstChild.data";
    tab.wait(&format!("{copy} === 'Copied' || ({copy} === 'Selected' && `${{getSelection()}}`.includes('order'))"), false);

    // The title of each time has the reader's zone, before and after a refresh.
    tab.call("Emulation.setTimezoneOverride", &json!({ "timezoneId": "Asia/Tokyo" }));
    tab.open(&world.url(""));
    let time = "document.querySelector('#clock time')";
    tab.wait(&format!("{time}.title.includes('GMT+9')"), false);
    tab.value(&format!("window.before = {time}.title"));
    tab.wait(&format!("{time}.title !== before && {time}.title.includes('GMT+9')"), false);
    tab.click("summary", "");
    tab.value("window.fold = document.querySelector('details')");
    let clock = tab.value("document.querySelector('#clock').innerText");
    tab.wait(&format!("document.querySelector('#clock').innerText !== {clock}"), false);
    tab.wait("document.querySelector('details') === window.fold && window.fold.open", false);
    assert_quiet(&tab, &world);
    world.served.silence();
    tab.wait(
        "/^These figures are \\d+ seconds old/.test(document.querySelector('#stale').innerText)",
        false,
    );
}

/// P96: A double click is one click: the second one is not sent, or not taken if the page has no script. The page says
/// what was done, and its link does not say it again.
#[test]
fn double_click_is_one_click() {
    let Some(mut tab) = Tab::start() else { return };
    for has_script in [true, false] {
        let world = World::new();
        world.jobs.queue().pause().unwrap();
        world.jobs.schedule("report", HOUR, Charge { order: 0 }).unwrap();
        tab.call("Emulation.setScriptExecutionDisabled", &json!({ "value": !has_script }));
        tab.open(&world.url("schedules"));
        tab.click("tbody button", "Run now");
        tab.wait(ASKED, false);
        tab.double_click("main button.main", "Run now");
        tab.wait(
            "document.querySelector('#outcome').innerText.includes('has made the job')",
            false,
        );
        if has_script {
            tab.wait("!location.href.includes('said')", false);
        }
        assert_eq!(world.jobs.count().unwrap().pending, 1, "with the script: {has_script}");
        tab.click("tbody button", "Pause");
        tab.wait(ASKED, false);
        tab.double_click("main button.main", "Pause");
        tab.wait(
            "document.querySelector('#outcome').innerText.includes('is paused: it makes')",
            false,
        );
    }
}

/// P98: Every page fits a narrow screen: what is wider scrolls within its own frame.
#[test]
fn pages_fit_a_narrow_screen() {
    let Some(mut tab) = Tab::start() else { return };
    let world = World::new();
    world.jobs.schedule("report", HOUR, Charge { order: 0 }).unwrap();
    world.jobs.kind::<Charge>().limit(Limit::running(8)).unwrap();
    world.jobs.group().add(HOUR, Charge { order: 7 }).insert().unwrap();
    world.jobs.insert(Duration::ZERO, Thumbnail { picture: "a".repeat(300) }).unwrap();
    world.charge(20, Duration::ZERO);
    world.charge(20, HOUR);
    let size = json!({ "width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": true });
    tab.call("Emulation.setDeviceMetricsOverride", &size);
    tab.open(&world.url("dead"));
    tab.wait("document.body.innerText.includes('Retry 20')", true);
    let id = world.jobs.dead().next().unwrap().id;
    let job = format!("jobs/{id}");
    for page in [
        "",
        "kinds",
        "jobs",
        "jobs?state=dead",
        "jobs?state=running",
        "jobs?state=completed",
        "dead",
        "groups",
        "schedules",
        "nodes",
        "store",
        "bulk",
        "kinds?limit=none",
        &job,
    ] {
        tab.open(&world.url(page));
        let width = tab.value("document.documentElement.scrollWidth");
        assert_eq!(width, json!(390), "{page:?}");
    }
}

/// Makes the pictures of the docs: `PICTURES` names their folder.
#[test]
#[ignore = "it writes files"]
fn pictures_are_made() {
    let folder = std::env::var("PICTURES").expect("PICTURES names no folder");
    let mut tab = Tab::start().expect("a browser");
    let world = World::new();
    world.jobs.schedule("report", HOUR, Charge { order: 0 }).unwrap();
    let charges = world.jobs.kind::<Charge>();
    charges.limit(Limit::running(8).rate(50, Duration::from_secs(1)).burst(100)).unwrap();
    world.jobs.kind::<Thumbnail>().hold(HOUR).unwrap();
    let later = (0..30).map(|order| (HOUR, Charge { order }));
    world
        .jobs
        .group()
        .add_all(later.chain([(Duration::ZERO, Charge { order: 99 })]))
        .insert()
        .unwrap();
    world.charge(40, Duration::ZERO);
    world.jobs.insert(Duration::ZERO, Thumbnail { picture: "a.png".to_owned() }).unwrap();
    std::thread::sleep(Duration::from_secs(2));
    world.gateway_works.store(true, Ordering::Relaxed);
    // The history of an hour cannot be made up, so the charts of these pictures are of three minutes.
    for _ in 0..90 {
        world.charge(20, Duration::ZERO);
        std::thread::sleep(Duration::from_secs(2));
    }
    world.charge(120, HOUR);
    let dead = world.jobs.dead().next().unwrap().id;
    let pages = [
        ("overview", String::new()),
        ("kinds", "kinds".to_owned()),
        ("jobs", "jobs?state=pending".to_owned()),
        ("job", format!("jobs/{dead}")),
        ("dead", "dead".to_owned()),
        ("groups", "groups".to_owned()),
    ];
    for (scheme, width, height) in [("light", 1280, 800), ("dark", 1280, 800), ("light", 390, 844)]
    {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        tab.call("Emulation.setEmulatedMedia", &json!({ "features": features }));
        let size = json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500 });
        tab.call("Emulation.setDeviceMetricsOverride", &size);
        for (name, path) in &pages {
            tab.open(&world.url(path));
            let picture = tab.call("Page.captureScreenshot", &json!({ "format": "png" }));
            let form = if width < 500 { "narrow" } else { scheme };
            let bytes = from_base64(picture["data"].as_str().unwrap());
            std::fs::write(format!("{folder}/dashboard-{name}-{form}.png"), bytes).unwrap();
        }
    }
}

fn from_base64(text: &str) -> Vec<u8> {
    let digits = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |byte| digits.iter().position(|digit| *digit == byte);
    let (mut bytes, mut bits, mut held) = (Vec::new(), 0_u32, 0);
    for digit in text.bytes().filter_map(digit) {
        bits = bits << 6 | digit as u32;
        held += 6;
        if held >= 8 {
            held -= 8;
            bytes.push((bits >> held) as u8);
            bits &= (1 << held) - 1;
        }
    }
    bytes
}
