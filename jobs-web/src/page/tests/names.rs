//! No name is a part of a path, and each link and form leads to the thing that it names, as a browser reads URLs.

use url::Url;

use super::html::{Piece, pieces};
use super::pages;
use super::rules::HOSTILE;
use crate::page::layout::encoded;
use crate::params::Params;
use crate::route::{Act, Form, Paused, Route, is_page};

/// Names that are not themselves in a path, beside the hostile texts.
const NAMES: [&str; 16] = [
    ".",
    "..",
    "/",
    "//",
    "/other",
    "x/../..",
    "../../../../../other",
    "%2F",
    "%2e%2e",
    "?",
    "#",
    ";",
    "\\",
    "..\\..\\other",
    "a&kind=b",
    "+ =",
];

/// Where a link or a form leads: the place, and the parameters of its query and its fields.
struct Target {
    route: Route,
    params: Vec<(String, String)>,
}

impl Target {
    /// Resolves a link as a browser does.
    fn of(link: &str) -> Target {
        let root = Url::parse("https://host.example/x/y/").unwrap();
        let to = root.join(link).unwrap();
        let path = to.as_str().strip_prefix(root.as_str());
        let path = path.unwrap_or_else(|| panic!("{link:?} leads to {to}"));
        let path = path.split('?').next().unwrap();
        let is_plain =
            |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.' | '/');
        assert!(path.chars().all(is_plain) && !path.contains(".."), "{link:?}");
        let params = Params::of_query(to.query().unwrap_or_default()).unwrap();
        Target { route: Route::of(path), params: params.pairs().collect() }
    }

    /// Adds the fields of a form.
    fn sent(mut self, fields: &[(String, String)]) -> Target {
        let encoded = |(name, value): &(String, String)| format!("{name}={}", encoded(value));
        let query: Vec<String> = fields.iter().map(encoded).collect();
        let fields = Params::of_form(query.join("&").as_bytes()).and_then(Params::of_fields);
        self.params.extend(fields.unwrap().pairs());
        self
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.params.iter().find(|(its, _)| its == name).map(|(_, value)| &**value)
    }

    /// Asserts that each parameter that names something has the name, and that an action has the one that it needs and
    /// leads back to a page. Returns how many names there are.
    fn check(&self, name: &str) -> usize {
        let names = ["kind", "schedule", "key"].map(|field| self.get(field));
        let names: Vec<&str> = names.into_iter().flatten().collect();
        for found in &names {
            assert_eq!(*found, name, "{:?}", self.params);
        }
        let needs = match self.route {
            Route::Act(Act::Pause(Paused::Kind, _)) => Some("kind"),
            Route::Act(Act::Setting(verb)) if verb.place() == "kinds" => Some("kind"),
            Route::Act(Act::Schedule(_)) => Some("schedule"),
            _ => None,
        };
        assert!(needs.is_none_or(|needs| self.get(needs).is_some()), "{:?}", self.params);
        assert!(self.get("back").is_none_or(is_page), "{:?}", self.params);
        names.len()
    }
}

/// P91: Whatever name a kind, a schedule or a key has, a browser takes no link and no form for another place: the path
/// has fixed words, ids and numbers alone, it leads to a page or an action below the root, and the name comes with it
/// as a parameter.
#[test]
fn names_are_no_part_of_a_path() {
    let mut named = 0;
    for name in HOSTILE.into_iter().chain(NAMES) {
        for (page, html) in pages(&|_| name.to_owned()) {
            let mut form: Option<(Target, Vec<(String, String)>)> = None;
            for piece in pieces(&html) {
                let tag = match piece {
                    Piece::Open(tag) => tag,
                    Piece::Close(closed) if closed == "form" => {
                        let form = form.take().map(|(form, fields)| form.sent(&fields));
                        named += form.map_or(0, |form| form.check(name));
                        continue;
                    }
                    _ => continue,
                };
                if let (Some((_, fields)), Some(field)) = (&mut form, tag.get("name")) {
                    let value = tag.get("value").unwrap_or_default();
                    fields.push((field.to_owned(), value.to_owned()));
                }
                let link = ["href", "src", "action"].iter().find_map(|has| tag.get(has));
                let Some(link) = link.filter(|link| link.starts_with("./")) else { continue };
                let to = Target::of(link);
                match (&*tag.name, tag.get("method"), &to.route) {
                    ("form", Some("post"), Route::Act(_))
                    | ("form", None, Route::Read(_, Form::Page)) => form = Some((to, Vec::new())),
                    ("a", _, Route::Read(..) | Route::Download(..) | Route::Metrics)
                    | ("link" | "script", _, Route::Asset(_)) => named += to.check(name),
                    (_, _, route) => panic!("{page}: {tag:?} leads to {route:?}"),
                }
            }
        }
    }
    assert!(named > 1000, "{named} names");
}
