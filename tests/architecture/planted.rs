//! The checker, on planted violations.

use crate::checker::{Module, modules, only_declares, violations};
use crate::files::assert_none;

const LIB: &str = "
    #![forbid(unsafe_code)]
    mod low;
    /// Pure.
    mod structure;
    mod high; // mod comment;
    pub use high::top::High;
";

fn planted() -> Vec<Module> {
    modules(LIB, |layer| match layer {
        "low" => "pub(crate) mod ground; pub(crate) mod floor;".to_owned(),
        "high" => "mod roof; mod top; #[cfg(all(test, loom))] mod models;".to_owned(),
        other => panic!("{other} has no list"),
    })
}

fn found(file: &str, source: &str) -> Vec<String> {
    violations(&planted(), file, source)
}

/// The modules are read in the order of their `mod` lines.
#[test]
fn modules_are_read_in_their_order() {
    let modules = planted();
    let named: Vec<(&str, bool)> = modules.iter().map(|m| (&*m.path, m.for_tests)).collect();
    let expected = [
        ("low::ground", false),
        ("low::floor", false),
        ("structure", false),
        ("high::roof", false),
        ("high::top", false),
        ("high::models", true),
    ];
    assert_eq!(named, expected);
}

/// A path to a module that is declared below is found in any syntax.
#[test]
fn upward_path_is_found_in_any_position() {
    let message = "src/low/floor.rs:2 names `high::top`, which is declared below `low::floor`";
    for source in [
        "\nuse crate::high::top::High;",
        "\nuse crate::{low::ground, high::top};",
        "use crate::{low::{ground::a, floor::b},\n high::top::High};",
        "use crate::high::{\ntop::{A, B}};",
        "\nuse {core::fmt, crate::high::top};",
        "\npub use crate :: high :: top;",
        "\nfn f(x: crate::high::top::High) {}",
        "fn f() {\nlet x = crate::high::top::f('\"', \"}\"); }",
        "\nuse super::super::high::top;",
        "\nuse super::{ground, super::high::top};",
        "mod tests {\nuse super::super::super::high::top; }",
        "/* a /* nested */ comment */ fn f<'a>() {}\nuse crate::high::top;",
        "const A: &str = r#\"\\\"#; const B: char = '\\'';\nuse crate::high::top;",
    ] {
        assert_eq!(found("low/floor.rs", source), [message], "in {source:?}");
    }
}

/// A module may name only those modules of its own layer that are declared before it.
#[test]
fn module_of_the_same_layer_is_named_upwards_only() {
    let message = "src/low/ground.rs:1 names `low::floor`, which is declared below `low::ground`";
    assert_eq!(found("low/ground.rs", "use crate::low::floor;"), [message]);
    assert_eq!(found("low/ground.rs", "use super::floor::f;"), [message]);
    assert_none(found("low/floor.rs", "use super::ground; use crate::low::ground::f;"));
}

/// A submodule has the place of its module in the order.
#[test]
fn submodule_belongs_to_its_module() {
    let message = "src/low/floor/part.rs:1 names `high::top`, which is declared below `low::floor`";
    assert_eq!(found("low/floor/part.rs", "use crate::high::top;"), [message]);
    assert_eq!(found("low/floor/part.rs", "use super::super::super::high::top;"), [message]);
    assert_none(found("low/floor/part.rs", "use super::high; use super::other::x;"));
    assert_eq!(found("low/floor/mod.rs", "use super::super::high::top;").len(), 1);
    assert_eq!(found("structure/ring.rs", "use super::super::high::top;").len(), 1);
    assert_none(found("structure/ring.rs", "use super::slots::Slots; use crate::structure::Key;"));
}

/// A name that `lib.rs` or a layer re-exports is found.
#[test]
fn re_export_further_up_is_found() {
    let message =
        "src/high/top.rs:1 names `High`, which is no module: name the one that it lives in";
    assert_eq!(found("high/top.rs", "use crate::High;"), [message]);
    assert_eq!(found("high/top.rs", "fn f() -> crate::High {}"), [message]);
    assert_eq!(found("high/top.rs", "use super::super::High;"), [message]);
    assert_eq!(found("high/top.rs", "use crate::*;").len(), 1);
    assert_eq!(found("high/top.rs", "use crate::{structure, High, Low};").len(), 2);
    let message =
        "src/high/top.rs:1 names `low::Low`, which is no module: name the one that it lives in";
    assert_eq!(found("high/top.rs", "use crate::low::Low;"), [message]);
    assert_eq!(found("high/top.rs", "use crate::low::*;").len(), 1);
}

/// Names of clocks, threads, locks and other crates are found in the pure layer.
#[test]
fn impure_names_are_found_in_the_pure_layer() {
    for (source, name) in [
        ("use std::time::Instant;", "std::time"),
        ("use std::{fmt, thread};", "std::thread"),
        ("fn f(x: std::sync::Arc<u8>) {}", "std::sync"),
        ("use core::sync::atomic::AtomicU64;", "core::sync"),
        ("fn f() { rayon::spawn(|| ()); }", "rayon"),
        ("use crossbeam_channel::Sender;", "crossbeam_channel"),
    ] {
        for file in ["structure/mod.rs", "structure/part.rs"] {
            let message = format!("src/{file}:1 names `{name}`, and `structure` is pure");
            assert_eq!(found(file, source), [message]);
        }
        assert_none(found("low/floor.rs", source));
    }
    let clean = "use core::time::Duration; use std::{fmt::Debug, vec};";
    assert_none(found("structure/part.rs", clean));
}

/// Code beside the `mod` lines of a layer is found.
#[test]
fn layer_with_code_is_found() {
    assert!(only_declares(
        "//! Low.\npub(crate) mod a;\n#[cfg(all(test, loom))]\nmod b;\npub use a::{A, B};\n"
    ));
    for code in ["mod a { fn f() {} }", "mod a; use a::A;", "mod a; fn f() {}"] {
        assert!(!only_declares(code), "{code}");
    }
}

/// A source that keeps the rules has no finding.
#[test]
fn clean_source_has_no_finding() {
    let clean = "use crate::low::{ground::high, floor::Low}; use crate::{high::top::x, structure};";
    assert_none(found("high/top.rs", clean));
    assert_none(found(
        "structure/a.rs",
        "pub(crate) fn f() { self::high(); } pub(super) struct S; pub(super) fn g() {}",
    ));
    assert_none(found("low/floor.rs", "fn f() { high::f(); } mod tests { use super::*; }"));
    assert_none(found("high/models.rs", "use crate::{high, High}; use std::thread;"));
}

/// Paths in comments, doc links and literals are no finding.
#[test]
fn comments_doc_links_and_literals_do_not_count() {
    for source in [
        "//! [`High`](crate::High), by crate::high",
        "/// See [`crate::high::High`], std::time and rayon.\nfn f() {}",
        "/* crate::high /* std::sync */ crate::High */",
        "const TEXT: &str = \"a \\\" crate::high std::thread\";",
        "const TEXT: &str = r##\"\"# crate::high rayon\"##;",
        "const TEXT: &[u8] = b\"crate::high\"; const C: &CStr = c\"crate::high\";",
        "#[doc = \"crate::High\"] fn f<'crossbeam>(c: char) { c == '\"' || c == '\\\\' }",
    ] {
        assert_none(found("structure/a.rs", source));
    }
}

/// A file that no `mod` line declares is found.
#[test]
fn file_of_no_module_is_found() {
    let message = "belongs to no module that a mod line declares";
    assert_eq!(found("stray.rs", ""), [format!("src/stray.rs {message}")]);
    assert_eq!(found("low/stray.rs", ""), [format!("src/low/stray.rs {message}")]);
}
