//! What every page has, and what no page may have, with any text in the place of a job's.

use std::collections::HashSet;

use super::html::{Piece, Tag, pieces};
use super::pages;

/// Texts that have broken dashboards: in an error, a payload, a key, a kind, a name of a queue or a host.
pub(super) const HOSTILE: [&str; 14] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "\" style=\"position:fixed\" x=\"",
    "</pre></td></table><h1>gone</h1>",
    "</title><script>alert(1)</script>",
    "javascript:alert(1)",
    "//evil.example/?a=1&b=2#c",
    "../../../../etc/passwd",
    "&lt;b&gt; &amp; &#60;script&#62;",
    "line one\nline two\r\nline three\ttab\0nul\u{1b}[2J\u{7f}\u{85}\u{9b}31m",
    "abc\u{202e}gpj.exe\u{202c}\u{2066}\u{2069}\u{200e}\u{200f}\u{61c}\u{2028}\u{2029}\u{feff}\u{200b}",
    "{{7*7}} ${7*7} <%= 7*7 %> {% raw %}",
    "%00%2e%2e%2f%0d%0aSet-Cookie:%20a=b",
];

fn tags(page: &str) -> Vec<Tag> {
    let tag = |piece| if let Piece::Open(tag) = piece { Some(tag) } else { None };
    pieces(page).into_iter().filter_map(tag).collect()
}

/// A page's tags with the names of their attributes, without the fields that are not seen: one of these whose value
/// has a control character moves to the target of its form.
fn shape(page: &str) -> Vec<String> {
    let is_hidden =
        |piece: &Piece| matches!(piece, Piece::Open(tag) if tag.get("type") == Some("hidden"));
    let shape = |piece| match piece {
        Piece::Open(tag) => {
            let names: Vec<&str> = tag.attributes.iter().map(|(name, _)| &**name).collect();
            Some(format!("<{} {}>", tag.name, names.join(" ")))
        }
        Piece::Close(name) => Some(format!("</{name}>")),
        Piece::Text(_) => None,
    };
    pieces(page).into_iter().filter(|piece| !is_hidden(piece)).filter_map(shape).collect()
}

/// Whatever text a job has, each page has the same tags with the same attributes, and the text is in the page.
#[test]
fn text_of_a_job_makes_no_tag_and_no_attribute() {
    let plain = pages(&str::to_owned);
    let long = "key".repeat(70);
    for hostile in HOSTILE.into_iter().chain([&*long]) {
        let hostile_pages = pages(&|text| format!("{text}{hostile}"));
        for ((name, expected), (_, found)) in plain.iter().zip(&hostile_pages) {
            assert_eq!(shape(found), shape(expected), "{name} with {hostile:?}");
        }
        let alone = pages(&|_| hostile.to_owned());
        let shown = maud::html! { (super::shown(hostile)) }.into_string();
        for (name, page) in &alone {
            pieces(page);
            assert!(page.contains(&shown), "{name}: {hostile:?}");
        }
    }
}

/// No page has a character that acts and is not seen. Ends of lines and tabs are in the blocks that keep them.
#[test]
fn control_characters_and_marks_of_direction_are_symbols() {
    // The marks of direction, and one of each range of `Default_Ignorable_Code_Point`.
    let unseen = "\u{ad}\u{34f}\u{61c}\u{115f}\u{1160}\u{17b4}\u{17b5}\u{180b}\u{180d}\u{180e}\u{180f}\u{200b}\u{200c}\
        \u{200d}\u{200e}\u{200f}\u{2028}\u{2029}\u{202a}\u{202b}\u{202c}\u{202d}\u{202e}\u{2060}\u{2064}\u{2065}\u{2066}\
        \u{2067}\u{2068}\u{2069}\u{206a}\u{206f}\u{3164}\u{fe00}\u{fe0e}\u{fe0f}\u{feff}\u{ffa0}\u{fff0}\u{fff8}\u{fff9}\
        \u{fffb}\u{1bca0}\u{1bca3}\u{1d173}\u{1d17a}\u{e0000}\u{e0001}\u{e0020}\u{e007f}\u{e0100}\u{e01ef}\u{e0fff}";
    let acts = |c: char| c.is_control() || unseen.contains(c);
    for hostile in HOSTILE.into_iter().chain([unseen]) {
        for (name, page) in pages(&|text| format!("{text}{hostile}")) {
            let mut is_block = false;
            for piece in pieces(&page) {
                let (text, may) = match &piece {
                    Piece::Open(tag) => {
                        is_block |= tag.name == "pre";
                        let values = tag.attributes.iter().map(|(_, value)| &**value);
                        (values.collect(), false)
                    }
                    Piece::Close(name) => {
                        is_block &= name != "pre";
                        continue;
                    }
                    Piece::Text(text) => (text.clone(), is_block),
                };
                let found = text.chars().find(|c| acts(*c) && !(may && matches!(c, '\n' | '\t')));
                assert_eq!(found, None, "{name}: {text:?}");
            }
        }
    }
}

/// The content policy forbids `style` and `on..` attributes, and elements of scripts and styles with text.
#[test]
fn page_has_nothing_that_the_content_policy_forbids() {
    for (name, page) in pages(&str::to_owned) {
        for tag in tags(&page) {
            for (attribute, _) in &tag.attributes {
                assert!(attribute != "style" && !attribute.starts_with("on"), "{name}: {tag:?}");
            }
            assert!(
                !["style", "iframe", "object", "embed", "base"].contains(&&*tag.name),
                "{name}: {tag:?}"
            );
            assert!(tag.name != "script" || tag.get("src").is_some(), "{name}: {tag:?}");
        }
    }
}

/// Every link, form and asset is relative, so that a dashboard works under any prefix and loads nothing from
/// elsewhere. The link to a trace is the one that leads away.
#[test]
fn links_lead_to_the_dashboard_and_are_relative() {
    for (name, page) in pages(&|text| format!("{text}//evil.example")) {
        for tag in tags(&page) {
            for attribute in
                ["href", "src", "action", "formaction", "srcset", "poster", "data", "ping"]
            {
                let Some(link) = tag.get(attribute) else { continue };
                let is_trace =
                    link.starts_with("https://traces.example/") && tag.get("rel").is_some();
                let is_relative =
                    link.starts_with("./") || link.starts_with('#') || link == "data:,";
                assert!(is_relative || is_trace, "{name}: {attribute}={link:?}");
                assert!(
                    !link.contains("evil.example") || link.contains("%2F%2Fevil.example"),
                    "{name}: {link:?}"
                );
            }
        }
    }
}

/// A page has one heading of the first rank, in its main part, and ids that are its own.
#[test]
fn page_has_one_heading_and_no_id_twice() {
    for (name, page) in pages(&str::to_owned) {
        let tags = tags(&page);
        assert_eq!(tags.iter().filter(|tag| tag.name == "h1").count(), 1, "{name}");
        assert_eq!(tags.iter().filter(|tag| tag.name == "main").count(), 1, "{name}");
        assert!(tags[0].get("lang").is_some(), "{name}");
        let mut ids = HashSet::new();
        for tag in &tags {
            assert!(tag.get("id").is_none_or(|id| ids.insert(id.to_owned())), "{name}: {tag:?}");
        }
        for tag in &tags {
            for reference in ["aria-labelledby", "form", "list", "for"] {
                let is_there = tag.get(reference).is_none_or(|id| ids.contains(id));
                assert!(is_there, "{name}: {reference} of {tag:?}");
            }
            assert!(tag.get("data-live").is_none() || tag.get("id").is_some(), "{name}: {tag:?}");
        }
    }
}

/// Every table has a head, every heading has a scope, and each row has a heading.
#[test]
fn tables_have_headers() {
    for (name, page) in pages(&str::to_owned) {
        let (mut is_body, mut row) = (false, None);
        let tags = tags(&page);
        let count = |of: &str| tags.iter().filter(|tag| tag.name == of).count();
        assert_eq!((count("table"), count("table")), (count("thead"), count("tbody")), "{name}");
        for tag in &tags {
            match &*tag.name {
                "thead" => is_body = false,
                "tbody" => is_body = true,
                "th" => {
                    let scope = tag.get("scope").unwrap_or_default();
                    let expected: &[&str] = if is_body { &["row"] } else { &["col", "colgroup"] };
                    assert!(expected.contains(&scope), "{name}: {tag:?}");
                    row = row.take().map(|_| true);
                }
                "tr" if is_body => {
                    assert_ne!(row, Some(false), "{name}: a row without a heading");
                    row = Some(false);
                }
                _ => {}
            }
        }
        assert_ne!(row, Some(false), "{name}: a row without a heading");
    }
}

/// A chart has a title. A picture without one is hidden from screen readers.
#[test]
fn charts_have_titles() {
    for (name, page) in pages(&str::to_owned) {
        let pieces = pieces(&page);
        for (at, piece) in pieces.iter().enumerate() {
            let Piece::Open(tag) = piece else { continue };
            if tag.name == "svg" && tag.get("aria-hidden").is_none() {
                let is_title =
                    matches!(&pieces[at + 1], Piece::Open(title) if title.name == "title");
                let has_text = matches!(&pieces[at + 2], Piece::Text(text) if text.len() > 8);
                assert!(is_title && has_text && tag.get("role") == Some("img"), "{name}: {tag:?}");
            }
        }
    }
}

/// Every field that is seen has a label, and every button a text.
#[test]
fn fields_have_labels_and_buttons_have_texts() {
    for (name, page) in pages(&str::to_owned) {
        let pieces = pieces(&page);
        let tags = tags(&page);
        let labels: HashSet<&str> = tags.iter().filter_map(|tag| tag.get("for")).collect();
        for tag in tags.iter().filter(|tag| ["input", "select", "textarea"].contains(&&*tag.name)) {
            let has_label = tag.get("aria-label").is_some()
                || tag.get("id").is_some_and(|id| labels.contains(id));
            let is_hidden = tag.get("type") == Some("hidden") || tag.get("hidden").is_some();
            assert!(has_label || is_hidden, "{name}: {tag:?}");
        }
        for (at, piece) in pieces.iter().enumerate() {
            let is_button =
                matches!(piece, Piece::Open(tag) if ["button", "summary"].contains(&&*tag.name));
            assert!(!is_button || matches!(&pieces[at + 1], Piece::Text(_)), "{name}: {piece:?}");
        }
    }
}

/// A reader who may change nothing sees no form that changes something, and every form that does posts to the API.
#[test]
fn reader_sees_no_form_that_changes_something() {
    let mut posts = 0;
    for (name, page) in pages(&str::to_owned) {
        for form in tags(&page).iter().filter(|tag| tag.get("method") == Some("post")) {
            assert!(!name.ends_with("-reader"), "{name}: {form:?}");
            assert!(
                form.get("action").is_some_and(|to| to.starts_with("./api/v1/")),
                "{name}: {form:?}"
            );
            posts += 1;
        }
    }
    assert!(posts > 50, "{posts} forms");
}

/// The script and the style sheet have 30 KB at most, and the first page with both 60 KB.
#[test]
fn assets_have_30_kb_and_the_first_page_60() {
    let assets =
        include_str!("../../assets/style.css").len() + include_str!("../../assets/live.js").len();
    assert!(assets <= 30_000, "{assets} bytes");
    let pages = pages(&str::to_owned);
    let (_, first) = pages.iter().find(|(name, _)| name == "overview").expect("an overview");
    assert!(assets + first.len() <= 60_000, "{assets} + {} bytes", first.len());
}

/// The assets load nothing: no import, no font, no link.
#[test]
fn assets_load_nothing() {
    for asset in [include_str!("../../assets/style.css"), include_str!("../../assets/live.js")] {
        for word in ["@import", "url(", "http:", "https:", "@font-face", "innerHTML", "eval("] {
            assert!(!asset.contains(word), "{word}");
        }
    }
}
