//! Follows every link, form, asset and redirect of the pages below a path, as a browser resolves them.

use std::collections::BTreeSet;

/// An answer: its status, the header `Location`, and the body.
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) location: Option<String>,
    pub(crate) body: String,
}

/// Sends a request: the path with its query, and the form of a POST.
pub(crate) type Send<'a> = &'a mut dyn FnMut(&str, Option<&str>) -> Answer;

/// What was followed, by number.
#[derive(Default, Debug)]
pub(crate) struct Followed {
    pub(crate) pages: usize,
    pub(crate) assets: usize,
    pub(crate) forms: usize,
    pub(crate) redirects: usize,
}

/// The most pages. Lists link to lists, so they have no end.
const MOST_PAGES: usize = 300;

/// A page, and the way on.
struct Crawl<'a> {
    prefix: &'a str,
    send: Send<'a>,
    seen: BTreeSet<String>,
    waiting: Vec<String>,
    forms: Vec<(String, String)>,
    followed: Followed,
}

/// Follows everything below the prefix, which ends with a slash. Panics at what leads out of it or nowhere.
pub(crate) fn crawl(prefix: &str, send: Send<'_>) -> Followed {
    let mut crawl = Crawl {
        prefix,
        send,
        seen: BTreeSet::new(),
        waiting: Vec::new(),
        forms: Vec::new(),
        followed: Followed::default(),
    };
    // Without its slash, the path is redirected.
    let first = crawl.redirected(prefix.trim_end_matches('/'));
    assert_eq!(first, prefix, "the redirect to the slash");
    crawl.wait_for(first, "the start");
    crawl.pages();
    while let Some((to, form)) = crawl.forms.pop() {
        crawl.submit(&to, &form);
        crawl.pages();
    }
    crawl.followed
}

impl Crawl<'_> {
    /// Returns where a path is redirected to.
    fn redirected(&mut self, path: &str) -> String {
        let answer = (self.send)(path, None);
        assert!((301..=308).contains(&answer.status), "{path}: {}", answer.status);
        self.followed.redirects += 1;
        resolve(path, &answer.location.expect("a redirect has a location"))
    }

    /// Notes a place to look at.
    fn wait_for(&mut self, path: String, found_on: &str) {
        assert!(
            path.starts_with(self.prefix),
            "{found_on} leads to {path}, out of {}",
            self.prefix
        );
        if self.seen.len() < MOST_PAGES && self.seen.insert(path.clone()) {
            self.waiting.push(path);
        }
    }

    /// Looks at every place that waits.
    fn pages(&mut self) {
        while let Some(path) = self.waiting.pop() {
            let answer = (self.send)(&path, None);
            // A form may have ended the job of a page.
            let is_gone = answer.status == 404 && is_of_an_ended_job(&answer.body);
            assert!(answer.status == 200 || is_gone, "{path}: {} {}", answer.status, answer.body);
            let name = path.split('?').next().unwrap();
            if name.ends_with(".css") || name.ends_with(".js") {
                self.followed.assets += 1;
            } else {
                self.followed.pages += 1;
                self.read(&path, &answer.body);
            }
        }
    }

    /// Notes the links and the forms of a page.
    fn read(&mut self, path: &str, html: &str) {
        if !html.starts_with("<!DOCTYPE html>") {
            return;
        }
        for tag in tags(html) {
            for link in ["href", "src"].iter().filter_map(|name| attribute(tag, name)) {
                if !link.starts_with("data:") && !link.starts_with('#') {
                    self.wait_for(resolve(path, &link), path);
                }
            }
        }
        // A form without a method searches.
        for (to, fields) in forms(path, html, "") {
            let to = to.split('?').next().unwrap().to_owned();
            self.wait_for(format!("{to}?{fields}"), path);
        }
        for form in forms(path, html, "post") {
            if self.seen.insert(format!("{form:?}")) {
                self.forms.push(form);
            }
        }
    }

    /// Sends a form, and follows its answer: a question, or a redirect to a page.
    fn submit(&mut self, to: &str, form: &str) {
        assert!(to.starts_with(self.prefix), "a form leads to {to}, out of {}", self.prefix);
        let answer = (self.send)(to, Some(form));
        self.followed.forms += 1;
        match answer.status {
            200 => self.read(to, &answer.body),
            303 => {
                self.followed.redirects += 1;
                let to = resolve(to, &answer.location.expect("a redirect has a location"));
                self.wait_for(to, "a form");
            }
            // The place is right, and the job is not what it was when the page was made.
            400 | 409 => {}
            404 if is_of_an_ended_job(&answer.body) => {}
            status => panic!("{to} with {form}: {status} {}", answer.body),
        }
    }
}

fn tags(html: &str) -> impl Iterator<Item = &str> {
    html.split('<').skip(1).map(|tag| tag.split('>').next().unwrap())
}

/// Returns the forms of a page with this method, where each leads, and its fields. A form with several buttons comes
/// once for each, as it is sent.
fn forms(path: &str, html: &str, method: &str) -> Vec<(String, String)> {
    let (mut forms, mut form) = (Vec::new(), None);
    for tag in tags(html) {
        let name = tag.split([' ', '/']).find(|word| !word.is_empty()).unwrap_or_default();
        match (name, tag.starts_with('/'), &mut form) {
            ("form", false, _) => {
                let its_method = attribute(tag, "method").unwrap_or_default();
                let to = resolve(path, &attribute(tag, "action").unwrap_or_default());
                form = (its_method == method).then(|| (to, Vec::new(), Vec::new()));
            }
            ("input" | "button" | "select", false, Some((_, fields, buttons))) => {
                let value = attribute(tag, "value").unwrap_or_default();
                let field = |name| format!("{}={}", encoded(name), encoded(&value));
                let field = attribute(tag, "name").as_deref().map(field);
                if name == "button" { buttons.push(field) } else { fields.extend(field) }
            }
            ("form", true, _) => {
                if let Some((to, fields, buttons)) = form.take() {
                    let sent = |button: Option<String>| {
                        let fields: Vec<String> = fields.iter().cloned().chain(button).collect();
                        (to.clone(), fields.join("&"))
                    };
                    forms.extend(buttons.into_iter().map(sent));
                }
            }
            _ => {}
        }
    }
    forms
}

fn is_of_an_ended_job(body: &str) -> bool {
    ["there is no job", "no schedule", "there is no change"].iter().any(|text| body.contains(text))
}

/// Returns the value of an attribute, without its escapes.
fn attribute(tag: &str, name: &str) -> Option<String> {
    let (_, rest) = tag.split_once(&format!(" {name}=\""))?;
    let (value, _) = rest.split_once('"')?;
    let plain = value.replace("&quot;", "\"").replace("&lt;", "<").replace("&gt;", ">");
    Some(plain.replace("&amp;", "&"))
}

fn encoded(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// Resolves a reference on a page, as a browser does. A place of the same host loses its origin.
fn resolve(page: &str, reference: &str) -> String {
    let reference = reference.split('#').next().unwrap();
    if let Some((_, rest)) = reference.split_once("://") {
        return rest[rest.find('/').unwrap_or(rest.len())..].to_owned();
    }
    let of_page = page.split('?').next().unwrap();
    if reference.is_empty() || reference.starts_with('?') {
        return format!("{of_page}{reference}");
    }
    let (path, query) = match reference.split_once('?') {
        Some((path, query)) => (path, format!("?{query}")),
        None => (reference, String::new()),
    };
    let mut segments: Vec<&str> = match path.starts_with('/') {
        true => vec![],
        false => of_page.split('/').collect(),
    };
    segments.pop();
    for segment in path.split('/') {
        match segment {
            "." => {}
            // The first segment is the empty one before the first slash.
            ".." => drop((segments.len() > 1).then(|| segments.pop())),
            segment => segments.push(segment),
        }
    }
    if path.ends_with("/.") || path.ends_with("/..") || path == "." || path == ".." {
        segments.push("");
    }
    format!("{}{query}", segments.join("/"))
}

/// References are resolved by the rules of browsers (RFC 3986, section 5.4).
#[test]
fn references_are_resolved_as_in_a_browser() {
    let of = |reference| resolve("/a/jobs/7?x=y", reference);
    for (reference, expected) in [
        ("../kinds", "/a/kinds"),
        ("../", "/a/"),
        ("./", "/a/jobs/"),
        ("../jobs?state=dead", "/a/jobs?state=dead"),
        ("?n=1", "/a/jobs/7?n=1"),
        ("", "/a/jobs/7"),
        ("/other", "/other"),
        ("http://host:1/b/", "/b/"),
        ("../../../../kinds", "/kinds"),
        ("./8", "/a/jobs/8"),
    ] {
        assert_eq!(of(reference), expected, "{reference}");
    }
}
