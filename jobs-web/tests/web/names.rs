//! Names that a program may give and that are not themselves in a path: a browser or a proxy changes a path that has
//! them, also where they are percent-encoded.

/// The names. Each is that of one thing.
pub(crate) fn names() -> Vec<String> {
    let names = [
        ".",
        "..",
        "...",
        "/",
        "//",
        "a//b",
        "a/./b",
        "x/../..",
        "../../../../../other",
        "/other",
        "pause",
        "api/v1/queue/pause",
        "%2F",
        "%2e%2e",
        "%2E%2E/",
        "%",
        "%00",
        "?",
        "a?kind=b",
        "#",
        ";",
        "\\",
        "..\\..\\other",
        "&",
        "=",
        "+",
        " ",
        "a b",
        "a&kind=b",
        "line\nline",
        "line\r\nline",
        "tab\tnul\0",
        "\u{202e}\u{200d}\u{ad}",
        "é/ü",
        "\u{ff0e}\u{ff0e}",
    ];
    let longest = ["../".repeat(85), "é".repeat(127)];
    names.into_iter().map(str::to_owned).chain(longest).collect()
}
