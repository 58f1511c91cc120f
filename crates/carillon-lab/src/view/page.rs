//! The page with a recording inside, as one file.

use std::io::{self, Write};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use serde::Serialize;

use super::View;

/// Line of the page that the recording replaces.
pub const PAGE_MARK: &str = "<!-- carillon-data -->";

/// Data of the page.
#[derive(Serialize)]
struct PageData<'a> {
    /// Recording in its binary form, compressed (raw DEFLATE) and in base64.
    recording: String,
    scenario: Option<&'a str>,
    /// Settings of the view, such as the time that it shows first.
    view: Settings,
}

#[derive(Serialize)]
struct Settings {}

/// Writes the page with a recording.
///
/// # Errors
///
/// Fails if `out` does, or if the page has no place for a recording.
pub fn write_page(page: &str, view: &View, mut out: impl Write) -> io::Result<()> {
    let Some((before, after)) = page.split_once(PAGE_MARK) else {
        return Err(io::Error::other(format!(
            "the page has no line {PAGE_MARK}; build it anew with make page"
        )));
    };
    let compressed = miniz_oxide::deflate::compress_to_vec(&view.recording, COMPRESSION_LEVEL);
    let data = PageData {
        recording: BASE64_STANDARD.encode(compressed),
        scenario: view.scenario.as_deref(),
        view: Settings {},
    };
    // A scenario may contain the end of a script.
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    out.write_all(before.as_bytes())?;
    write!(out, "<script id=\"carillon-data\" type=\"application/json\">{data}</script>")?;
    out.write_all(after.as_bytes())?;
    out.flush()
}

/// Level of DEFLATE: higher ones take several times as long for a few percent.
const COMPRESSION_LEVEL: u8 = 6;
